"""Which changes of objects end the counted rounds, and the identity of a workload (S-19.3.2, 19.3.3)."""

from __future__ import annotations

from typing import Any

import pytest

from makeway.api.objects.workload import Workload
from makeway.core.model import WorkloadKey
from tests.runtime.test_state_updates import NOW, Play, held, waits
from tests.runtime.wires import condition


def rounds_of(play: Play, name: str = "w") -> int:
    known = play.updates.places.find(WorkloadKey(f"default/{name}"))
    assert known is not None
    return play.state.rounds.of(known).above


def with_a_round(*objects: Workload) -> Play:
    play = Play(*objects)
    known = play.updates.places.find(WorkloadKey("default/w"))
    assert known is not None
    play.state.rounds.add(known, "above", NOW)
    return play


def left(reason: str, preempted: str = "") -> Workload:
    """It waits again after an eviction."""
    why = [condition("Preempted", reason=preempted)] if preempted else []
    reserved, evicted = condition("QuotaReserved", False, "PendingEvaluation"), condition("Evicted", True, reason)
    return waits("w", "a", reserved, evicted, *why, count=2)


@pytest.mark.parametrize(
    ("after", "ends"),
    [
        pytest.param(left("ClusterQueueStopped"), True, id="its ClusterQueue was drained"),
        pytest.param(left("LocalQueueStopped"), True, id="its LocalQueue was drained"),
        pytest.param(left("NodeFailures"), True, id="a node was lost"),
        pytest.param(
            waits("w", "a", condition("QuotaReserved", False, "Suspended"), count=2), True, id="its queue is on hold"
        ),
        pytest.param(left("Preempted", "InClusterQueue"), False, id="it was displaced by priority"),
        pytest.param(left("Preempted", "InCohortReclamation"), False, id="it was reclaimed from"),
        pytest.param(left("PodsReadyTimeout"), False, id="its pods were not ready"),
        pytest.param(left("AdmissionCheck"), False, id="a check wants another try"),
    ],
)
def test_by_what_a_workload_loses_its_quota(after: Workload, ends: bool) -> None:
    play = with_a_round(held())
    play.put(after)
    play.take_in()
    assert rounds_of(play) == (0 if ends else 1)


def test_by_time() -> None:
    play = with_a_round(held())
    evicted = condition("Evicted", True, "Preempted"), condition("Preempted", True, "InClusterQueueTimeBased")
    play.put(held("w", "a", *evicted))
    play.take_in()
    assert rounds_of(play) == 1, "it has not left yet"
    play.put(left("Preempted", "InClusterQueueTimeBased"))
    play.take_in()
    assert rounds_of(play) == 0


@pytest.mark.parametrize(
    ("conditions", "ends"), [((), True), ((condition("DeactivationTarget"),), False)], ids=["by its user", "by itself"]
)
def test_by_deactivation(conditions: tuple[Any, ...], ends: bool) -> None:
    play = with_a_round(held(admitted=False))
    play.put(held("w", "a", *conditions, admitted=False))
    play.put(held("w", "a", *conditions, admitted=False, active=False))
    play.take_in()
    play.put(waits("w", count=2))
    play.take_in()
    assert rounds_of(play) == (0 if ends else 1)


def owner(uid: str) -> dict[str, Any]:
    return {"ownerReferences": [{"apiVersion": "v1", "kind": "Set", "name": "s", "uid": uid, "controller": True}]}


def test_several_workloads_of_one_owner_are_not_one_until_one_is_left() -> None:
    play = with_a_round(waits("w", "a", meta=owner("u")))
    play.store.load([waits("v", "a", meta=owner("u"))])
    play.take_in()
    assert (rounds_of(play), rounds_of(play, "v")) == (1, 0)
    play.delete(Workload, "w")
    play.take_in()
    assert rounds_of(play, "v") == 0


def test_a_job_made_anew_is_the_same() -> None:
    play = with_a_round(waits("w", "a", meta=owner("u")))
    play.delete(Workload, "w")
    play.take_in()
    play.store.load([waits("anew", "a", meta=owner("u2"))])
    play.take_in()
    assert rounds_of(play, "anew") == 1
