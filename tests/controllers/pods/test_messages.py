"""The messages of waiting pods: each its own, with what was tried and which pods are too important to leave."""

from __future__ import annotations

from makeway.controllers.pods.messages import RENEWED_AFTER_MS, RecentlyTold
from makeway.core.model import Millis
from tests.controllers.pod_world import PODS, PodWorld, node
from tests.controllers.pods.test_gangs import gang, members, ranks
from tests.controllers.pods.test_scheduling import pod, why


def test_each_pod_of_a_gang_hears_what_keeps_that_pod() -> None:
    play = PodWorld(node("a", "4"), node("b", "4", labels={"gpu": "yes"}))
    one, two = members("w", 2)
    one["spec"]["nodeSelector"] = {"gpu": "no"}
    two["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "9"
    play.create(gang("w", 2), one, two)
    play.settle()
    assert why(play, "w-0").startswith(
        "0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector. "
        "2 pods of its gang must be placed together."
    )
    assert why(play, "w-1").startswith("0/2 nodes are available: 2 Insufficient cpu. 2 pods")


def test_nobody_lower_is_said_only_where_that_is_the_cause() -> None:
    play = PodWorld(node("a", "2"))
    play.create(pod("fits", cpu="2"))
    play.settle()
    play.create(pod("large", cpu="3"), pod("after"), pod("away", nodeSelector={"x": "y"}))
    play.settle()
    assert why(play, "large") == (
        "0/1 nodes are available: 1 Insufficient cpu. Preemption does not help: even if all pods left, 0 of the 1 pods "
        "needed would have a place; a, cpu: the nearest miss: 3 are asked for, 2 would be free, 1 are missing."
    )
    assert "nobody runs with a priority below 0" in why(play, "after")
    assert why(play, "away") == "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector."


def test_who_is_too_important_is_named_by_what_it_holds() -> None:
    play = PodWorld(node("a", "8"))
    play.create(*ranks(high=100, mid=50, low=1))
    play.create(pod("s", priorityClassName="high"), pod("b", cpu="4", priorityClassName="high"))
    play.create(pod("v", cpu="3", priorityClassName="low"))
    play.settle()
    play.create(pod("new", cpu="5", priorityClassName="mid"))
    play.settle()
    assert why(play, "new") == (
        "0/1 nodes are available: 1 Insufficient cpu. Preemption does not help: with all below priority 50 gone fewer "
        "than 1 of 1 pods have a place; a, cpu: the nearest miss: 5 are asked for, 3 would be free, 2 are missing; "
        "on a too important to leave: default/b (priority 100) and default/s (priority 100)."
    )


def test_who_holds_it_is_told_again_only_after_a_while() -> None:
    told, key = RecentlyTold(), ("d", "p")
    first, second = "0/1. Preemption does not help: x.", "0/1. Preemption does not help: y."
    assert told.renewed(key, "", first, Millis(0)) == first
    assert told.renewed(key, first, second, Millis(RENEWED_AFTER_MS - 1)) == first
    other = "0/2. Preemption does not help: x."
    assert told.renewed(key, first, other, Millis(20)) == other, "more than who holds it"
    assert told.renewed(key, first, second, Millis(RENEWED_AFTER_MS + 20)) == second
    told.forget(key)
    assert told.renewed(key, first, second, Millis(0)) == first, "after a restart nobody is told all at once"


def test_who_is_leaving_is_not_called_too_important_to_leave() -> None:
    play = PodWorld(node("a", "2"))
    play.create(pod("goes"), pod("stays"))
    play.settle()
    play.store.delete(PODS, "default", "goes")
    play.create(pod("new", cpu="2"))
    play.settle()
    assert why(play, "new").endswith("on a too important to leave: default/stays (priority 0).")
