"""What one cycle does: victims leave only for a whole placement (S-15.6)."""

from __future__ import annotations

import pytest

from makeway.core.placement.cluster.state import ClusterState
from makeway.core.placement.cycle import CycleAnswer, cycle
from makeway.core.placement.model import SchedulingWorkload
from tests.core.placement.scene import HIGH, PRE, cluster, gang, lone, names, node, nodes, pod, workload


def pre(least: int = 1, *, never: bool = False) -> list[SchedulingWorkload]:
    return [workload("pre", HIGH, min_count=least, never=never)]


def went(answer: CycleAnswer) -> tuple[str, str, str, dict[str, str]]:
    """The pods that were evicted, bound, sent back; and what is nominated."""
    nominated = {name: at for (_, name), at in answer.nominated.items()}
    return names(answer.actuated), names(answer.bound), names(answer.requeued), nominated


def played(state: ClusterState, *, pod_by_pod: bool = False) -> tuple[str, str, str, dict[str, str]]:
    before = state.fingerprint()
    answer = cycle(state, PRE, pod_by_pod=pod_by_pod)
    assert state.fingerprint() == before
    return went(answer)


def test_s15_6_6_a_placement_without_evictions_is_bound_and_the_others_wait_without_nomination() -> None:
    waiting = gang(3, 4, nominated=["", "", "n9"])
    state = ClusterState.of(cluster(nodes(2), waiting, pre(2)))
    assert played(state) == ("", "pre-0 pre-1", "pre-2", {})


def test_s15_6_6_with_victims_nobody_is_bound_not_even_who_has_room() -> None:
    state = ClusterState.of(cluster(nodes(2), [pod("v", 4, "n1"), *gang(2, 4)], pre(2)))
    assert played(state) == ("v", "", "pre-0 pre-1", {"pre-0": "n0", "pre-1": "n1"})


@pytest.mark.parametrize("never", [False, True], ids=["no room", "never"])
def test_s15_6_6_without_a_whole_placement_nobody_leaves_and_nominations_go(never: bool) -> None:
    top = pod("top", 4, "n1", priority=1 if never else 500)
    waiting = gang(2, 4, nominated=["n0"])
    state = ClusterState.of(cluster(nodes(2), [pod("v", 4, "n0"), top, *waiting], pre(2, never=never)))
    assert played(state) == ("", "", "pre-0 pre-1", {})


def test_s15_7_9_g4_one_victim_is_gone_the_other_still_leaves_then_a_higher_pod_takes_the_place() -> None:
    leaving = pod("a", 2, "n0", leaving=True)
    waiting = gang(2, 2, nominated=["n0", "n1"])
    state = ClusterState.of(cluster(nodes(3, 2), [leaving, pod("c", 2, "n2"), *waiting], pre(2)))
    assert played(state) == ("", "", "pre-0 pre-1", {"pre-0": "n0", "pre-1": "n1"})
    state.add_pod(pod("top", 2, "n1", priority=500))
    assert played(state) == ("a c", "", "pre-0 pre-1", {"pre-0": "n0", "pre-1": "n2"})


def test_g6_minimum_met_the_extra_pod_that_has_room_binds_and_the_other_preempts_in_a_later_cycle() -> None:
    running = pod("r", 1, "n0", of="pre", priority=HIGH)
    waiting = [pod("pre-0", 1, of="pre"), pod("pre-1", 2, of="pre", arrived=1)]
    state = ClusterState.of(cluster([node("n0", 4)], [running, pod("v", 2, "n0"), *waiting], pre()))
    assert played(state) == ("", "pre-0", "pre-1", {})
    state.bind(("d", "pre-0"), "n0")
    assert played(state) == ("v", "", "pre-1", {"pre-1": "n0"})


def test_s15_6_4_pod_by_pod_a_victim_that_was_chosen_is_gone_for_the_next() -> None:
    pods = [pod("v", 4, "n0"), pod("u", 4, "n1", priority=50), *gang(2, 2)]
    state = ClusterState.of(cluster(nodes(2), pods, pre(2)))
    assert played(state, pod_by_pod=True) == ("v", "", "pre-0 pre-1", {"pre-0": "n0", "pre-1": "n0"})


def test_s15_6_4_pod_by_pod_room_that_chosen_victims_leave_comes_before_new_victims() -> None:
    machines = [node("n0", 6), node("n1", 2)]
    waiting = [pod("pre-0", 3, of="pre"), pod("pre-1", 2, of="pre", arrived=1)]
    pods = [pod("v", 6, "n0", priority=5), pod("w", 2, "n1", priority=0), *waiting]
    state = ClusterState.of(cluster(machines, pods, pre(2)))
    assert played(state, pod_by_pod=True) == ("v", "", "pre-0 pre-1", {"pre-0": "n0", "pre-1": "n0"})


def test_s15_7_5_pod_by_pod_a_third_without_a_place_drops_the_victims_of_all() -> None:
    pods = [pod("v1", 2, "n0"), pod("v2", 2, "n0"), *gang(3, 2)]
    state = ClusterState.of(cluster(nodes(1), pods, pre(3)))
    assert played(state, pod_by_pod=True) == ("", "", "pre-0 pre-1 pre-2", {})


def test_s15_6_3_a_plain_pod_keeps_its_nomination_and_is_not_bound_in_the_cycle_that_evicts() -> None:
    state = ClusterState.of(cluster(nodes(1), [pod("v", 4, "n0"), pod("p", 4, priority=HIGH)]))
    assert went(cycle(state, lone())) == ("v", "", "p", {"p": "n0"})
    state.remove_pod(("d", "v"))
    assert went(cycle(state, lone())) == ("", "p", "", {})


def test_s15_6_8_less_important_pods_lose_a_node_that_victims_leave() -> None:
    others = [pod("q", 1, nominated="n0", priority=50), pod("r", 1, nominated="n1")]
    others.append(pod("s", 1, nominated="n0", priority=500))
    running = [pod("v", 3, "n0"), pod("top", 4, "n1", priority=500)]
    state = ClusterState.of(cluster(nodes(2), [*running, *others, *gang(1, 3)], pre()))
    answer = cycle(state, PRE)
    assert (names(answer.actuated), names(answer.cleared)) == ("v", "q")


def test_a_waiting_pod_whose_reference_resolves_to_nothing_waits() -> None:
    state = ClusterState.of(cluster(nodes(1), [pod("p", 1, of="gone")]))
    answer = cycle(state, lone())
    assert (answer.feasible, went(answer)) == (False, ("", "", "p", {}))
