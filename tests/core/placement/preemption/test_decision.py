"""Pods that make way for a pod or a gang, by rule and scenario (S-15.4, 15.5, 15.7; G1-G11), and invariants."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest

from makeway.core.model import Expression
from makeway.core.placement.cluster.arrays import Bools
from makeway.core.placement.cluster.state import ClusterState
from makeway.core.placement.model import (
    AffinityTerm,
    Budget,
    Cluster,
    Node,
    PlacementAnswer,
    Pod,
    Preemptor,
    SchedulingWorkload,
)
from makeway.core.placement.preemption.cheapest import CheapestPlaces
from makeway.core.placement.preemption.decision import decide, refused
from makeway.core.placement.snapshot import NodeSnapshot
from makeway.core.placement.units import units_below, violating_pods
from makeway.core.trace import Rule
from tests.core.placement.scene import (
    HIGH,
    HOST,
    PRE,
    budget,
    cluster,
    gang,
    lone,
    names,
    node,
    nodes,
    pod,
    random_cluster,
    workload,
)
from tests.soaking import InTime


@dataclass(frozen=True)
class Case:
    story: str
    nodes: Sequence[Node]
    pods: Sequence[Pod]
    workloads: Sequence[SchedulingWorkload] = ()
    budgets: Sequence[Budget] = ()
    preemptor: Preemptor = PRE
    victims: str = ""
    on: str | None = None  # where all that is placed goes
    n: int | None = None
    violations: int = 0
    feasible: bool = True


def halves(whole: bool, p1: int = 3) -> tuple[list[Pod], list[SchedulingWorkload]]:
    """The cluster of S-15.7.1: on both nodes half is a gang of priority 5, the rest p1 and p2."""
    pods = [pod("g0", 2, "n0", of="g1"), pod("g1", 2, "n1", of="g1")]
    pods += [pod("p1", 2, "n0", priority=p1), pod("p2", 2, "n1", priority=1)]
    return pods, [workload("g1", 5, whole=whole, min_count=2)]


def pre(priority: int = HIGH, least: int = 1) -> SchedulingWorkload:
    return workload("pre", priority, min_count=least)


TWO = nodes(2)
APART = AffinityTerm((Expression("app", "In", ("a",)),), HOST)
TAKE_OUT = NodeSnapshot.take_out
BUDGETED = [pod("hi", 2, "n0", priority=5, labels={"app": "a"}), pod("lo", 2, "n0", labels={"app": "a"})]
BESIDE_A_LOST_NODE = [
    pod("lost", 1, "n9"), pod("g0", 1, "n0", of="w"), pod("g1", 1, "n0", of="w"), pod("k", 1, "n0", priority=HIGH),
]  # fmt: skip

CASES = [
    Case("S-15.7.1: N is 3, so the gang of priority 5 stays", TWO, [*halves(True)[0], *gang(2, 2)],
         [*halves(True)[1], pre(10, 2)], victims="p1 p2", n=3),
    Case("S-15.7.3: the same with its pods as units", TWO, [*halves(False)[0], *gang(2, 2)],
         [*halves(False)[1], pre(10, 2)], victims="p1 p2", n=3),
    Case("S-15.7.2: one pod goes where the highest victim is lowest", TWO, [*halves(True)[0], pod("p", 2, priority=10)],
         halves(True)[1], preemptor=lone(), victims="p2", on="n1", n=1),
    Case("S-15.7.4: only strictly lower ones may go", TWO, [*halves(True)[0], pod("p", 2, priority=3)],
         halves(True)[1], preemptor=lone(), victims="p2", on="n1", n=1),
    Case("S-15.7.6: N serves minCount, then as many as fit without going above it", nodes(3, 1),
         [pod("v1", 1, "n0"), pod("v2", 1, "n1"), pod("v3", 1, "n2", priority=5), *gang(3)], [pre()],
         victims="v1 v2", n=1),
    Case("S-15.7.7: a member in mode Pod ranks before a plain pod", nodes(1, 2),
         [pod("s", 1, "n0", start=1), pod("m", 1, "n0", start=9, of="w"), pod("p", 1, priority=HIGH)], [workload("w")],
         preemptor=lone(), victims="s", on="n0", n=1),
    Case("S-15.7.8: the budget protects the less important one", nodes(1), [*BUDGETED, pod("p", 2, priority=HIGH)],
         budgets=[budget(1)], preemptor=lone(), victims="hi", n=5),
    Case("S-15.7.8: without any budget left the less important one goes", nodes(1),
         [*BUDGETED, pod("p", 2, priority=HIGH)], budgets=[budget(0)], preemptor=lone(), victims="lo", n=1,
         violations=1),
    Case("S-18.8: the reprieved one of two equals leaves no violation", TWO,
         [pod("a1", 2, "n0", start=1, labels={"app": "a"}), pod("a2", 2, "n0", start=2, labels={"app": "a"}),
          pod("b1", 4, "n1", priority=2), pod("p", 2, priority=5)], budgets=[budget(1)], preemptor=lone(),
         victims="a1", on="n0", n=1),
    Case("5710-a: of a group all leave or none", TWO,
         [pod("g0", 4, "n0", of="w"), pod("g1", 1, "n1", of="w"), pod("x", 3, "n1", priority=50), *gang(1, 4)],
         [workload("w", whole=True), pre()], victims="g0 g1", on="n0", n=1),
    Case("5710-b, G7: room for three of four, so nobody leaves", nodes(3, 2),
         [*[pod(f"v{i}", 2, f"n{i}") for i in range(3)], *gang(4, 2)], [pre(least=4)], feasible=False),
    Case("5710-c, G1: a tie with its preemption priority protects it", nodes(1),
         [pod("v", 4, "n0", of="w"), *gang(1)], [workload("w", 50, as_victim=HIGH), pre()], feasible=False),
    Case("G2: the Workload's priority decides, not the pod's", nodes(1),
         [pod("v", 4, "n0", of="w", priority=999), *gang(1)], [workload("w", 5), pre()], victims="v", n=5),
    Case("G3: the true highest victim counts, whoever is listed first", TWO,
         [pod("a1", 2, "n0", labels={"app": "a"}), pod("a2", 2, "n0", priority=9), pod("b", 4, "n1", priority=8),
          pod("p", 4, priority=HIGH)], preemptor=lone(), victims="b", on="n1", n=8),
    Case("S-15.5: fewest pods beyond budgets come before the lowest highest victim", TWO,
         [pod("a", 4, "n0", labels={"app": "a"}), pod("b", 4, "n1", priority=9), pod("p", 4, priority=HIGH)],
         budgets=[budget(0)], preemptor=lone(), victims="b", on="n1", n=9),
    Case("G5: the budget pass comes first, although a higher one leaves for it", TWO,
         [pod("lo", 4, "n0", labels={"app": "a"}), pod("mid", 4, "n1", priority=50), *gang(1, 4)], [pre()],
         [budget(0)], victims="mid", on="n1", n=50),
    Case("G8: a group's pods elsewhere count in the choice, never as room", TWO,
         [pod("g0", 4, "n0", of="w"), pod("g1", 1, "n1", of="w"), pod("x", 2, "n1", priority=1), pod("y", 1, "n1"),
          pod("p", 4, priority=HIGH)], [workload("w", whole=True)], preemptor=lone(), victims="g0 g1", on="n0", n=1),
    Case("members that keep apart: who can stay beside them stays", TWO,
         [pod("v", 4, "n0", priority=2), pod("w", 1, "n1"), pod("x", 1, "n1"),
          *[replace(each, labels={"app": "a"}, anti_affinity=(APART,)) for each in gang(2, 2)]], [pre(least=2)],
         victims="v", n=2),
    Case("G10: in mode Pod one may go, also below minCount", TWO,
         [pod("m0", 4, "n0", of="w", start=1), pod("m1", 4, "n1", of="w", start=2), *gang(1, 4)],
         [workload("w", min_count=2), pre()], victims="m1", on="n1", n=1),
    Case("a running pod whose reference resolves to nothing is a plain one", nodes(1),
         [pod("v", 4, "n0", of="gone"), *gang(1)], [pre()], victims="v", n=1),
    Case("S-15.1.4: Never on a victim protects nobody", nodes(1),
         [pod("v", 4, "n0", of="w"), *gang(1)], [workload("w", never=True), pre()], victims="v", n=1),
    Case("S-15.4.7: members go where least must leave, not where the score is best", [node("n0", 4), node("n1", 9)],
         [pod("a", 4, "n0"), *[pod(f"b{i}", 3, "n1") for i in range(3)], *gang(1, 4)], [pre()],
         victims="a", on="n0", n=1),
    Case("one group that serves both members, instead of two pods more", nodes(4, 2),
         [pod("g0", 2, "n0", of="w"), pod("g1", 2, "n1", of="w"), pod("a", 1, "n2"), pod("b", 1, "n2"),
          pod("c", 1, "n3"), pod("d", 1, "n3"), *gang(2, 2)], [workload("w", whole=True), pre(least=2)],
         victims="g0 g1", n=1),
    Case("two pods of a group on one node count together, also where others stand on a node that is gone", nodes(1),
         [*BESIDE_A_LOST_NODE, *gang(1, 2)], [workload("w", whole=True), pre()], victims="g0 g1", on="n0", n=1),
    Case("the same for one pod", nodes(1), [*BESIDE_A_LOST_NODE, pod("p", 2, priority=HIGH)],
         [workload("w", whole=True)], preemptor=lone(), victims="g0 g1", on="n0", n=1),
]  # fmt: skip


def told(answer: PlacementAnswer) -> str:
    return "\n".join(f"{step.rule} {step.subjects}: {step}" for step in answer.why)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.story)
def test_who_makes_way(case: Case) -> None:
    state = ClusterState.of(cluster(case.nodes, case.pods, case.workloads, case.budgets))
    before = state.fingerprint()
    answer = decide(state, case.preemptor)
    assert state.fingerprint() == before
    assert answer.needed
    assert answer.feasible == case.feasible, told(answer)
    assert (names(answer.victims), answer.violations, answer.n) == (case.victims, case.violations, case.n), told(answer)
    if case.on is not None:
        assert set(answer.nominated.values()) == {case.on}, told(answer)


def test_s15_4_10_minimum_that_runs_already_needs_one_more() -> None:
    running = pod("r", 1, "n0", of="pre", priority=HIGH)
    state = ClusterState.of(cluster(nodes(1, 2), [running, pod("v", 1, "n0"), *gang(2)], [pre(least=1)]))
    answer = decide(state, PRE)
    assert names(answer.victims) == "v"
    assert len(answer.nominated) == 1


def test_s15_2_4_members_that_run_count_towards_the_minimum() -> None:
    running = [pod(f"r{i}", 1, "n0", of="pre", priority=HIGH) for i in range(2)]
    state = ClusterState.of(cluster(nodes(1, 3), [*running, pod("v", 1, "n0"), *gang(2)], [pre(least=3)]))
    answer = decide(state, PRE)
    assert (answer.feasible, names(answer.victims), len(answer.nominated)) == (True, "v", 1)


def test_s15_4_7_a_group_counts_whole_in_the_choice_of_a_node() -> None:
    """To the letter, without a search that would find the same."""
    group = [pod("g0", 4, "n0", of="w"), *[pod(f"g{i}", 1, f"n{i + 1}", of="w") for i in (1, 2)]]
    plain = [pod("a", 2, "n1"), pod("b", 1, "n1"), pod("c", 3, "n2", priority=50)]
    state = ClusterState.of(
        cluster(nodes(3), [*plain, group[0], *[replace(each, node="n3") for each in group[1:]], *gang(1, 4)],
                [workload("w", whole=True), pre()]), thorough=False,
    )  # fmt: skip
    assert names(decide(state, PRE).victims) == "a b"


def test_s15_2_1_fewer_pods_than_minimum_are_not_looked_at() -> None:
    state = ClusterState.of(cluster(nodes(2), [pod("v", 4, "n0"), *gang(1)], [pre(least=2)]))
    answer = decide(state, PRE)
    assert (answer.needed, answer.feasible, answer.nominated) == (True, False, {})
    assert [step.rule for step in answer.why] == [Rule.PLACE_TOO_FEW]


def test_s15_1_4_never_places_but_never_evicts() -> None:
    full = cluster(nodes(1), [pod("v", 4, "n0"), *gang(1)], [workload("pre", HIGH, never=True)])
    answer = decide(ClusterState.of(full), PRE)
    assert (answer.feasible, answer.reason, names(answer.victims)) == (False, "preemptionPolicyNever", "")
    free = replace(full, nodes=(*full.nodes, node("n1")))
    assert decide(ClusterState.of(free), PRE).nominated == {("d", "pre-0"): "n1"}


def test_g4_nobody_else_leaves_while_the_nominated_place_holds() -> None:
    leaving = pod("a", 4, "n0", leaving=True)
    world = cluster(TWO, [leaving, pod("b", 4, "n1"), *gang(1, 4, nominated=["n0"])], [pre()])
    state = ClusterState.of(world)
    assert decide(state, PRE).reason == refused(state, PRE) == "ongoingPreemption"
    assert refused(state, PRE, ruled_out=frozenset({"n0"})) is None
    state.remove_pod(("d", "a"))
    state.add_pod(pod("top", 4, "n0", priority=500))
    assert names(decide(state, PRE).victims) == "b"


def test_domain_looks_at_one_node_only() -> None:
    state = ClusterState.of(cluster(nodes(3), [pod("a", 4, "n0"), pod("b", 4, "n1"), pod("p", 4, priority=HIGH)]))
    assert names(decide(state, lone(), domain="n1").victims) == "b"
    assert not decide(state, lone(), domain="n2").needed


def test_reasons_say_why_this_priority_who_was_spared_and_what_a_near_miss_lacked() -> None:
    pods = [pod("a", 3, "n0", priority=5), pod("b", 1, "n0", priority=4), pod("c", 4, "n1", priority=60), *gang(1, 2)]
    answer = decide(ClusterState.of(cluster(TWO, pods, [pre()])), PRE)
    said = {step.rule: step for step in answer.why}
    assert said[Rule.PLACE_THRESHOLD].numbers == (5,)
    assert said[Rule.PLACE_NOT_ENOUGH].numbers[0] == 4
    assert said[Rule.PLACE_ABOVE].numbers == (1, 5)
    assert said[Rule.PLACE_SPARED].subjects == ("d/b",)
    assert (said[Rule.PLACE_NODE].subjects, said[Rule.PLACE_NODE].numbers) == (("d/pre-0", "n0"), (1, 125))
    assert said[Rule.PLACE_MAKES_WAY].subjects == ("d/a",)
    none = decide(ClusterState.of(cluster(TWO, [*pods[:3], *gang(1, 5)], [pre()])), PRE)
    lacks = {step.rule: step for step in none.why}[Rule.PLACE_LACKS]
    assert (lacks.subjects, lacks.numbers) == (("d/pre-0", "n0", "cpu"), (5, 4, 1))


def test_long_lists_of_reasons_are_cut() -> None:
    pods = [pod(f"v{i:03}", 1, "n0") for i in range(120)]
    answer = decide(ClusterState.of(cluster([node("n0", 120, pods=200)], [*pods, *gang(1, 120)], [pre()])), PRE)
    assert len(answer.victims) == 120
    assert len([step for step in answer.why if step.rule is Rule.PLACE_MAKES_WAY]) == 50
    assert answer.why[-1].rule is Rule.PLACE_MORE


# --- what holds always -----------------------------------------------------------------------------------------------


def shuffled(world: Cluster, dice: random.Random) -> Cluster:
    def mixed(values: tuple[object, ...]) -> tuple[object, ...]:
        return tuple(dice.sample(values, len(values)))

    parts = {name: mixed(getattr(world, name)) for name in ("nodes", "pods", "workloads", "budgets")}
    return Cluster(**parts)  # type: ignore[arg-type]


@pytest.mark.slow
@pytest.mark.property
def test_g9_the_order_of_the_input_changes_nothing_and_no_mark_is_left(
    fuzz_inputs: int, fuzz_seed: int, in_time: InTime
) -> None:
    for seed in in_time(range(fuzz_seed, fuzz_seed + max(1, fuzz_inputs // 20))):
        dice = random.Random(seed)
        world = random_cluster(dice)
        state = ClusterState.of(world)
        before = state.fingerprint()
        for preemptor in (PRE, lone()):
            answer = decide(state, preemptor)
            assert state.fingerprint() == before, f"seed {seed}"
            assert decide(ClusterState.of(shuffled(world, dice)), preemptor) == answer, f"seed {seed}"


@pytest.mark.slow
@pytest.mark.property
def test_a_thorough_search_keeps_n_and_never_costs_more(fuzz_inputs: int, fuzz_seed: int, in_time: InTime) -> None:
    """Of equals; unlike ones may also find a lower N, or a place where passes by rule find none."""
    for seed in in_time(range(fuzz_seed, fuzz_seed + max(1, fuzz_inputs // 20))):
        world = random_cluster(random.Random(seed))
        plain, thorough = (decide(ClusterState.of(world, thorough=each), PRE) for each in (False, True))
        if not plain.feasible or plain.needed > thorough.needed:
            assert thorough.needed <= plain.needed, f"seed {seed}"
            continue
        assert thorough.feasible, f"seed {seed}"
        if plain.n == thorough.n:
            costs = [(each.violations, len(each.victims)) for each in (thorough, plain)]
            assert costs == sorted(costs), f"seed {seed}"
        else:
            assert (thorough.n or 0) < (plain.n or 0), f"seed {seed}"


@pytest.mark.property
def test_s15_4_7_all_nodes_at_once_cost_what_they_cost_one_by_one(
    fuzz_inputs: int, fuzz_seed: int, in_time: InTime
) -> None:
    for seed in in_time(range(fuzz_seed, fuzz_seed + max(1, fuzz_inputs // 20))):
        world = random_cluster(random.Random(seed))
        state = ClusterState.of(world)
        snapshot = NodeSnapshot(state, [each for each in world.pods if each.key[1].startswith("pre")], HIGH)
        snapshot.attach(units_below(state, HIGH))
        everyone = np.ones(len(snapshot.units), bool)
        beyond = violating_pods(state, snapshot.units, everyone)
        snapshot.take_out(everyone)
        for kind in snapshot.kinds:
            choice = CheapestPlaces(snapshot, everyone, beyond)
            assert sorted(choice.costs_at_once(kind)) == sorted(choice.costs_one_by_one(kind)), f"seed {seed}"


@pytest.mark.property
def test_g1_there_is_no_preempt_back_pair(fuzz_inputs: int, fuzz_seed: int, in_time: InTime) -> None:
    """A displaced pod or gang cannot displace the displacer: it may not even try."""
    for seed in in_time(range(fuzz_seed, fuzz_seed + max(1, fuzz_inputs // 50))):
        state = ClusterState.of(random_cluster(random.Random(seed)))
        answer = decide(state, PRE)
        displaced = [state.pods[key] for key in answer.victims]
        for each in displaced:
            state.remove_pod(each.key)
        for key, at in answer.nominated.items():
            state.bind(key, at)
        for each in displaced:
            again = replace(each, key=("d", "again"), uid="again", node=None, member=None)
            state.add_pod(replace(again, priority=state.gangs.priority_of(each)))
            assert not set(decide(state, lone("again")).victims) & set(answer.nominated), f"seed {seed}"
            state.remove_pod(("d", "again"))


def test_a_search_probes_by_halves(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counts, not seconds: of 64 priorities six are tried, besides the first attempt, the placement and its reasons."""
    taken_out: list[int] = []

    def counting(snapshot: NodeSnapshot, going: Bools) -> None:
        taken_out.append(int(going.sum()))
        TAKE_OUT(snapshot, going)

    monkeypatch.setattr(NodeSnapshot, "take_out", counting)
    pods = [pod(f"v{i:02}", 4, f"n{i:02}", priority=i) for i in range(64)]
    machines = [node(f"n{i:02}", labels={HOST: f"n{i:02}"}) for i in range(64)]
    answer = decide(ClusterState.of(cluster(machines, [*pods, *gang(3, 4)], [pre(least=3)])), PRE)
    assert (answer.n, names(answer.victims)) == (2, "v00 v01 v02")
    said = [step for step in answer.why if step.rule is Rule.PLACE_NOT_ENOUGH]
    assert said[0].numbers[0] == 1
    assert taken_out == [64, 32, 16, 8, 4, 2, 3, 3, 3]
