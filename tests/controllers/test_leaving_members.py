"""A gang with a leaving member: when the rest is placed, and when it waits (S-15.2.4, decision 0063)."""

from __future__ import annotations

import pytest

from tests.controllers.pod_world import NODES, PODS, PodWorld, node
from tests.controllers.pods.test_gangs import disrupted, gang, members, places, ranks
from tests.controllers.pods.test_scheduling import pod, why

MODES = pytest.mark.parametrize("mode", ["Pod", "PodGroup"])
WAITS = "It waits for pods of its gang that leave."


def running(least: int, mode: str, spare: str = "2") -> PodWorld:
    """Three pods of the gang w on node a, which they fill, and room on node b."""
    play = PodWorld(node("a", "3"))
    play.create(*ranks(high=10, low=1), gang("w", least, mode=mode, rank="high"), *members("w", 3))
    play.settle()
    assert set(places(play).values()) == {"a"}
    play.create(node("b", spare))
    return play


def leave(play: PodWorld, *names: str) -> None:
    """The pods leave by themselves: a user deletes them, and they take their five seconds."""
    for name in names:
        play.store.delete(PODS, "default", name)
    play.settle()


@MODES
@pytest.mark.parametrize("least", [2, 3])
def test_the_replacement_of_a_member_that_leaves_is_bound_at_once(mode: str, least: int) -> None:
    play = running(least, mode)
    leave(play, "w-2")
    play.create(*members("w", 1, first=3))
    play.settle()
    assert places(play) == {"w-0": "a", "w-1": "a", "w-2": "a!", "w-3": "b"}
    play.run(6)
    assert places(play) == {"w-0": "a", "w-1": "a", "w-3": "b"}


@MODES
def test_too_few_replacements_wait_and_enough_are_bound_together(mode: str) -> None:
    play = running(3, mode)
    leave(play, "w-1", "w-2")
    play.create(*members("w", 1, first=3))
    play.settle()
    assert (places(play)["w-3"], why(play, "w-3")) == ("", WAITS)  # two would stand when the others are gone
    play.create(*members("w", 1, first=4))
    play.settle()
    assert (places(play)["w-3"], places(play)["w-4"]) == ("b", "b")


@MODES
def test_room_for_too_few_is_not_taken(mode: str) -> None:
    play = running(3, mode, spare="1")
    leave(play, "w-1", "w-2")
    play.create(*members("w", 2, first=3))
    play.settle()
    assert (places(play)["w-3"], places(play)["w-4"], why(play, "w-3")) == ("", "", WAITS)
    play.run(6)
    assert "" not in places(play).values()


@MODES
def test_nobody_is_evicted_for_whom_the_room_of_a_leaving_member_will_do(mode: str) -> None:
    play = running(3, mode)
    play.create(pod("low", "2", priorityClassName="low"))
    play.settle()
    leave(play, "w-2")
    play.create(*members("w", 1, first=3))
    play.settle()
    assert (disrupted(play, "low"), why(play, "w-3")) == (("", ""), WAITS)
    play.run(6)
    assert places(play) == {"w-0": "a", "w-1": "a", "w-3": "a", "low": "b"}


@MODES
def test_who_was_evicted_by_us_is_replaced_as_its_mode_says(mode: str) -> None:
    """A unit goes as a whole before any of it returns; a single pod may be replaced beside the others."""
    play = running(2, mode)
    play.create(*ranks(top=100), pod("top", "1", priorityClassName="top", nodeSelector={"only": "a"}))
    play.store.patch(NODES, "", "a", {"metadata": {"labels": {"only": "a"}}})
    play.settle()
    assert sorted(places(play).values()) == (["(a)", "a", "a", "a!"] if mode == "Pod" else ["(a)", "a!", "a!", "a!"])
    play.create(*members("w", 2, first=3))
    play.settle()
    bound = [places(play)[name] for name in ("w-3", "w-4")]
    assert bound == (["b", "b"] if mode == "Pod" else ["", ""])  # though there is room for both
    assert mode == "Pod" or why(play, "w-3") == WAITS
    play.run(6)
    stand = [place for name, place in places(play).items() if name != "top" and place]
    assert len(stand) == (4 if mode == "Pod" else 2)
    assert [disrupted(play, name) for name in ("w-3", "w-4")] == [("", "")] * 2  # none goes with those before it


@MODES
def test_a_promise_is_kept_while_a_member_leaves(mode: str) -> None:
    """Pods that make way for a gang do so for it, even if one of its own is leaving by then."""
    play = running(2, mode)
    play.create(pod("low", "2", priorityClassName="low", terminationGracePeriodSeconds=20))
    play.settle()
    play.create(*members("w", 1, first=3))
    play.settle()
    assert (places(play)["low"], places(play)["w-3"]) == ("b!", "(b)")
    leave(play, "w-2")
    assert places(play)["w-3"] == "(b)"
    play.run(6)
    assert places(play) == {"w-0": "a", "w-1": "a", "w-3": "a", "low": "b!"}
