"""What a PodDisruptionBudget allows, as pods come, get ready and go."""

from __future__ import annotations

from typing import Any

import pytest

from makeway.api.versions import find_kind
from tests.controllers.pod_world import PODS, PodWorld, Tree


def budget(play: PodWorld, **spec: Any) -> None:
    play.create({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "b", "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, **spec},
    })  # fmt: skip


def status(play: PodWorld) -> Tree:
    kind = find_kind("policy/v1", "PodDisruptionBudget")
    assert kind is not None
    found: Tree = play.store.get(kind, "default", "b").tree()["status"]
    return found


def pods(play: PodWorld, count: int, **labels: str) -> None:
    for n in range(count):
        play.create({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": f"{labels.get('app', 'x')}-{n}", "namespace": "default", "labels": labels},
            "spec": {"containers": [{"name": "work", "image": "x", "command": ["x"]}]},
        })  # fmt: skip


@pytest.mark.parametrize(
    ("spec", "desired", "allowed"),
    [
        ({"minAvailable": 3}, 3, 2),
        ({"minAvailable": "50%"}, 3, 2),
        ({"minAvailable": 9}, 9, 0),
        ({"maxUnavailable": 1}, 4, 1),
        ({"maxUnavailable": "30%"}, 3, 2),
        ({"maxUnavailable": 9}, 0, 5),
    ],
)
def test_how_many_may_go(spec: Tree, desired: int, allowed: int) -> None:
    play = PodWorld()
    pods(play, 5, app="web")
    pods(play, 2, app="other")
    budget(play, **spec)
    play.settle()
    told = status(play)
    assert (told["expectedPods"], told["currentHealthy"], told["desiredHealthy"]) == (5, 5, desired)
    assert told["disruptionsAllowed"] == allowed
    assert told["conditions"][0]["status"] == ("True" if allowed else "False")


def test_it_follows_its_pods() -> None:
    play = PodWorld()
    budget(play, minAvailable=2)
    play.settle()
    assert status(play)["disruptionsAllowed"] == 0
    pods(play, 3, app="web")
    play.settle()
    assert status(play)["disruptionsAllowed"] == 1
    play.store.delete(PODS, "default", "web-0")
    play.settle()
    assert (status(play)["currentHealthy"], status(play)["disruptionsAllowed"]) == (2, 0)


def test_an_empty_selector_covers_none() -> None:
    play = PodWorld()
    pods(play, 3, app="web")
    budget(play, selector={}, maxUnavailable=1)
    play.settle()
    assert status(play)["expectedPods"] == 0


def test_a_pod_that_may_go_counts_as_gone_for_two_minutes() -> None:
    play = PodWorld()
    pods(play, 3, app="web")
    budget(play, minAvailable=1)
    play.settle()
    kind = find_kind("policy/v1", "PodDisruptionBudget")
    assert kind is not None
    granted = {"disruptedPods": {"web-0": "2026-01-01T12:00:00Z"}}
    play.store.patch(kind, "default", "b", {"status": granted}, status=True)
    play.settle()
    assert status(play)["disruptionsAllowed"] == 1
    play.run(121)
    assert status(play)["disruptionsAllowed"] == 2
    assert "disruptedPods" not in status(play)
