"""The worked examples of the rule book, and what no vector covers: the default profile and KEP-8522."""

from __future__ import annotations

import json

import pytest
from hypothesis import given

from tests.model import facts, queues
from tests.model.amounts import MAX, MIN, UNLIMITED, add, amount, parse_quantity, sub
from tests.model.builders import FR, NOON, F, at, cohort, pending, policy, queue, quota, running, world
from tests.model.cycle import Result, cycle, resume_state
from tests.model.facts import Raw
from tests.model.flavors import OUTSIDE, assign
from tests.model.placing import may_use
from tests.model.play import between_cycles, play
from tests.model.preemption import incoming_of
from tests.model.quota import available, lowest_subtree, potential_available, usage
from tests.model.scenarios import scenarios, seeded
from tests.model.targets import targets
from tests.model.world import Progress, World, cohort_node, make_settings, queue_node, snapshot

pytestmark = pytest.mark.slow  # the model judges others; that it is right itself is asked less often


def outcome(result: Result) -> dict[str, str]:
    return {e.p.key.removeprefix("ns/"): str(e.status or e.reason) for e in result.entries}


def victims(result: Result) -> list[tuple[str, str]]:
    return sorted((v.removeprefix("ns/"), why) for v, _, why in result.preempted)


def search(w: World, name: str, size: int, now: int = NOON) -> list[tuple[str, str]]:
    wl = w.workloads[f"ns/{name}"]
    p = incoming_of(wl, wl["spec"]["queueName"], w.settings)
    found = targets(snapshot(w, now), p, frozenset([FR]), {FR: size * 1000})
    return [(t.key.removeprefix("ns/"), t.reason) for t in found]


@pytest.mark.parametrize(
    ("resource", "text", "units"),
    [("cpu", "100.5m", 101), ("gpu", "1.5", 2), ("memory", "1Gi", 2**30), ("cpu", "9223372036854775807", UNLIMITED)],
)
def test_units_round_away_from_zero(resource: str, text: str, units: int) -> None:  # S-1.1, S-1.2
    assert amount(resource, text) == units


def test_quantities_and_unlimited_arithmetic() -> None:  # S-1.3
    assert parse_quantity("2E") == parse_quantity("2e18") == 2 * 10**18
    assert (add(UNLIMITED, 5), sub(UNLIMITED, 5), sub(UNLIMITED, UNLIMITED), sub(5, UNLIMITED)) == (MAX, MAX, 0, MIN)


def test_pod_requests_and_reclaimable_pods() -> None:  # S-1.12
    def container(cpu: str) -> Raw:
        return {"name": "c", "resources": {"requests": {"cpu": cpu}}}

    pod = {"containers": [container("300m"), container("500m")], "initContainers": [container("1")]}
    wl = pending("w", "x", 1, count=4, template={"spec": pod})
    wl["status"] = {"reclaimablePods": [{"name": "main", "count": 1}]}
    (podset,) = facts.pod_sets(wl, make_settings("default").gates)
    assert podset.requests(podset.count) == {"cpu": 3000}


def test_tree_with_limits() -> None:  # S-2.17
    w = world(queue("a", quota(10, lendingLimit=4)), queue("b", quota(6, borrowingLimit=3)))
    snap = snapshot(w, NOON)
    snap.charge("a", {FR: 8000})
    snap.charge("b", {FR: 5000})
    root, a, b = cohort_node("r"), queue_node("a"), queue_node("b")
    assert usage(snap, root, FR) == 7000
    assert [available(snap, n, FR) for n in (root, a, b)] == [3000, 3000, 3000]
    assert [potential_available(snap, n, FR) for n in (a, b)] == [16000, 9000]
    snap.charge("a", {FR: -5000})
    assert (usage(snap, root, FR), available(snap, a, FR), available(snap, b, FR)) == (5000, 8000, 4000)


def test_borrowing_levels() -> None:  # S-2.18
    w = world(cohort("l", "r"), cohort("m", "r"), queue("a", 2, "l"), queue("b", 4, "l"), queue("c", 10, "m"))
    snap = snapshot(w, NOON)
    levels = [lowest_subtree(snap, "a", FR, v * 1000) for v in (2, 5, 8, 20)]
    assert levels == [(0, True), (1, True), (2, False), (2, False)]


@pytest.mark.parametrize("profile", ["parity", "default"])
def test_a_strict_head_blocks_a_best_effort_head_is_parked(profile: str) -> None:  # S-4.10, S-5.1
    a, b = pending("a", "x", 6), pending("b", "x", 2, created="09:01")
    strict = world(queue("x", 4, None, queueingStrategy="StrictFIFO"), a, b, profile=profile)
    looked_at = [outcome(cycle(strict, NOON)) for _ in range(3)]
    assert looked_at == [{"a": "NoFit"}] * (3 if profile == "parity" else 1) + [{}] * (0 if profile == "parity" else 2)
    loose = world(queue("x", 4, None), a, b, profile=profile)
    assert [outcome(cycle(loose, NOON)) for _ in range(3)] == [{"a": "NoFit"}, {"b": "assumed"}, {}]
    assert loose.parked["x"] == {"ns/a"}
    queues.wake(loose, "x", NOON)
    assert queues.heads(loose) == {"x": "ns/a"}


@pytest.mark.parametrize(("z_prio", "z_outcome"), [(1, "skipped"), (9, "assumed")])
@pytest.mark.parametrize("profile", ["parity", "default"])
def test_a_head_without_victims_reserves(z_prio: int, z_outcome: str, profile: str) -> None:  # S-5.10
    w = world(
        queue("x", 6, preemption=policy(reclaim="LowerPriority")),
        queue("y", 4),
        queue("z", 2),
        running("x1", "x", 3),
        running("y1", "y", 7, prio=99),
        pending("xp", "x", 3, prio=5),
        pending("zp", "z", 2, prio=z_prio),
        profile=profile,
    )
    assert outcome(cycle(w, NOON)) == {"xp": "PreemptionNoCandidates", "zp": z_outcome}


@pytest.mark.parametrize("gate", [True, False])
def test_overlapping_targets(gate: bool) -> None:  # S-5.11
    reclaim = policy(reclaim="Any")
    w = world(
        queue("x", 2, preemption=reclaim),
        queue("y", 2, preemption=reclaim),
        queue("z", 0),
        running("t", "z", 4),
        pending("xp", "x", 2, created="09:00"),
        pending("yp", "y", 2, created="09:01"),
        RecomputeAssignmentUponPreemptionTargetsOverlap=gate,
    )
    result = cycle(w, NOON)
    assert outcome(result) == {"xp": "PendingPreemption", "yp": "PendingPreemption" if gate else "skipped"}
    assert [e.mode for e in result.entries] == ["Preempt", "DeferredFit" if gate else "Preempt"]
    assert victims(result) == [("t", "InCohortReclamation")]


def test_three_heads_and_two_victims() -> None:  # S-18.2
    reclaim = policy(reclaim="Any")
    w = world(
        *(queue(name, 2, preemption=reclaim) for name in "xzu"),
        queue("y", 4),
        running("y1", "y", 6, reserved="10:00"),
        running("y2", "y", 4, reserved="10:01"),
        pending("p", "x", 2, created="09:00"),
        pending("q", "z", 2, created="09:01"),
        pending("r", "u", 2, created="09:02"),
    )
    result = cycle(w, NOON)
    assert [(e.p.key, e.mode) for e in result.entries] == [
        ("ns/p", "Preempt"),
        ("ns/q", "DeferredFit"),
        ("ns/r", "Preempt"),
    ]
    assert victims(result) == [("y1", "InCohortReclamation"), ("y2", "InCohortReclamation")]


def test_flavor_match_looks_only_at_keys_of_the_flavor() -> None:  # S-6.4
    flavor = {"nodeLabels": {"type": "spot"}}
    assert may_use({"nodeSelector": {"type": "spot", "zone": "a"}}, flavor)
    terms = [{"matchExpressions": [{"key": k, "operator": "In", "values": [v]}]} for k, v in
             (("zone", "a"), ("type", "ondemand"))]  # fmt: skip
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    assert may_use({"affinity": {"nodeAffinity": required}}, flavor)
    required["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"] = terms[1:]
    assert not may_use({"affinity": {"nodeAffinity": required}}, flavor)


@pytest.mark.parametrize(
    ("fungibility", "chosen"),
    [
        ({}, "f2"),
        ({"whenCanBorrow": "TryNextFlavor", "preference": "BorrowingOverPreemption"}, "f2"),
        ({"whenCanBorrow": "TryNextFlavor", "preference": "PreemptionOverBorrowing"}, "f1"),
        ({"whenCanPreempt": "MayStopSearch"}, "f1"),
    ],
)
def test_fungibility(fungibility: dict[str, str], chosen: str) -> None:  # S-6.11
    w = world(
        queue("x", {"f1": 4, "f2": 0}, preemption=policy("LowerPriority"), flavorFungibility=fungibility),
        queue("y", {"f1": 0, "f2": 4}),
        running("low", "x", 4, prio=-1, flavor="f1"),
        pending("p", "x", 2),
    )
    wl, snap = w.workloads["ns/p"], snapshot(w, NOON)
    found = assign(snap, incoming_of(wl, "x", w.settings), facts.pod_sets(wl, w.settings.gates), [1])
    assert found.podsets[0].flavors["cpu"].flavor == chosen


def test_the_scan_resumes_after_the_flavor_that_was_lost() -> None:  # S-6.12
    w = world(
        queue("x", {"f1": 0, "f2": 0, "f3": 0}),
        queue("y", {"f1": 4}),
        pending("p", "x", 2, created="09:01"),
        pending("q", "y", 4),
    )
    assert outcome(cycle(w, NOON)) == {"q": "assumed", "p": "skipped"}
    assert w.progress["ns/p"].tried == [{"cpu": 0}]
    between_cycles(w, [], [{"delete": ["ns/q"]}], NOON)
    assert outcome(cycle(w, NOON)) == {"p": "NoFit"}  # f1 is free, but the scan starts at f2
    assert w.parked["x"] == {"ns/p"}


def test_old_progress_is_forgotten_once_someone_left_the_queue() -> None:  # S-6.8, S-3.8
    w = world(queue("x", 4, None), running("a", "x", 4), pending("p", "x", 2))
    w.progress["ns/p"] = Progress(1, 0, queues.shape_of(w, "ns/p"), [{"cpu": 0}])
    w.cycles = 3
    assert resume_state(w, "x", "ns/p") == [{"cpu": 0}]
    queues.release(w, "ns/a", NOON)
    assert resume_state(w, "x", "ns/p") == []
    w.cycles = 2
    assert resume_state(w, "x", "ns/p") == [{"cpu": 0}]


def test_a_parked_shape_parks_its_like_until_the_next_wake() -> None:  # S-4.5.3
    w = world(queue("x", 4, None), pending("a", "x", 6), pending("b", "x", 6), pending("c", "x", 5))
    assert outcome(cycle(w, NOON)) == {"a": "NoFit"}
    queues.create(w, pending("d", "x", 6), NOON)
    assert (w.heap["x"], w.parked["x"]) == ({"ns/c"}, {"ns/a", "ns/b", "ns/d"})
    queues.wake(w, "x", NOON)
    queues.create(w, pending("e", "x", 6), NOON)
    assert w.parked["x"] == set()


def test_usage_of_fewer_pods_divides_first() -> None:  # S-1.8
    wl = running("a", "x", 1, count=4)
    wl["status"]["admission"]["podSetAssignments"][0] |= {"count": 4, "resourceUsage": {"cpu": "7m"}}
    wl["status"]["reclaimablePods"] = [{"name": "main", "count": 1}]
    assert facts.held_usage(wl, make_settings("default").gates) == {FR: 3}
    del wl["status"]["admission"]["podSetAssignments"][0]["count"]
    assert facts.held_usage(wl, make_settings("default").gates) == {FR: 3}


TIMED = policy("LowerOrNewerEqualPriority", withinClusterQueueConfig={"minAdmitDuration": "2h"})
TABLE = [
    ("D", 5, "11:00", "11:30"),
    ("A", 10, "07:00", "08:00"),
    ("B", 10, "09:10", "09:30"),
    ("C", 10, "10:00", "11:00"),
    ("E", 10, "08:30", "10:00"),
    ("F", 20, "11:00", "08:00"),
]


@pytest.mark.parametrize("gate", [True, False])
def test_time_based_candidates(gate: bool) -> None:  # S-7.8
    held = [running(n, "x", 1, prio, reserved=since, created=created) for n, prio, created, since in TABLE]
    w = world(
        queue("x", 6, None, preemption=TIMED),
        *held,
        pending("p", "x", 4, prio=10),
        TimeBasedSamePriorityPreemption=gate,
    )
    timed = [("A", "InClusterQueueTimeBased"), ("B", "InClusterQueueTimeBased"), ("C", "InClusterQueue")]
    assert search(w, "p", 4) == ([("D", "InClusterQueue"), *timed] if gate else [])
    newer = [("D", "InClusterQueue"), ("C", "InClusterQueue"), ("B", "InClusterQueue")]
    assert search(w, "p", 3) == ([("D", "InClusterQueue"), *timed[:2]] if gate else newer)


def test_rotation() -> None:  # S-7.10
    rule = policy("LowerOrNewerEqualPriority", withinClusterQueueConfig={"minAdmitDuration": "4h"})
    w = world(
        queue("x", 1, None, preemption=rule),
        running("A", "x", 1, reserved="00:00", created="00:00"),
        pending("B", "x", 1, created="00:05"),
        pending("C", "x", 1, created="00:10"),
    )
    told, last, seconds = [], at("00:10"), 0
    for seconds in range(1200, 17 * 3600):
        now = at("00:00") + seconds * 1000
        queues.wake_expired(w, last, now)
        last = now
        while queues.heads(w):
            result = cycle(w, now)
            if result.preempted:
                told.append((facts.time_text(now)[11:19], victims(result)[0][0]))
                between_cycles(w, [result.preempted[0][0]], [], now)
    assert told == [("04:00:01", "A"), ("08:00:02", "B"), ("12:00:03", "C"), ("16:00:04", "A")]


def test_rotation_with_parking() -> None:  # S-18.3
    rule = policy("LowerOrNewerEqualPriority", withinClusterQueueConfig={"minAdmitDuration": "10m"})
    w = world(
        queue("x", 4, None, preemption=rule),
        running("A", "x", 4, reserved="10:00", created="10:00"),
        pending("B", "x", 4, created="10:01"),
    )
    assert outcome(cycle(w, at("10:01"))) == {"B": "PreemptionNoCandidates"}
    assert queues.wake_expired(w, at("10:01"), at("10:10:00")) == []
    assert queues.wake_expired(w, at("10:10:00"), at("10:10:01")) == ["x"]
    assert victims(cycle(w, at("10:10:01"))) == [("A", "InClusterQueueTimeBased")]
    assert outcome(cycle(w, at("10:10:02"))) == {}  # not due while its victim is there
    between_cycles(w, ["ns/A"], [], at("10:10:20"))
    assert outcome(cycle(w, at("10:10:20"))) == {"B": "assumed", "A": "PreemptionNoCandidates"}  # beside the head
    assert outcome(cycle(w, at("10:10:20"))) == {"A": "PreemptionNoCandidates"}  # woken by the end of B's claim
    assert outcome(cycle(w, at("10:10:20"))) == {}
    assert queues.expiries(w) == [(at("10:20:21"), "x")]


def test_fill_back() -> None:  # S-8.9
    w = world(
        queue("x", 6, None, preemption=policy("LowerPriority")),
        running("w1", "x", 4, reserved="10:00"),
        running("w2", "x", 1, reserved="10:01"),
        running("w3", "x", 1, prio=1),
        pending("p", "x", 4, prio=5),
    )
    assert search(w, "p", 4) == [("w1", "InClusterQueue")]


@pytest.mark.parametrize(("size", "found"), [(4, [("t1", "InCohortReclaimWhileBorrowing")]), (6, [])])
def test_borrowing_threshold(size: int, found: list[tuple[str, str]]) -> None:  # S-8.10
    rule = policy(reclaim="LowerPriority", borrowWithinCohort={"policy": "LowerPriority", "maxPriorityThreshold": 5})
    w = world(
        queue("c", 0, preemption=rule),
        queue("y", 10),
        queue("z", 0),
        running("t1", "z", 5, prio=3),
        running("t2", "z", 5, prio=8),
        pending("p", "c", size, prio=10),
    )
    assert search(w, "p", size) == found


@pytest.mark.parametrize(
    ("b_uses", "c_uses", "asks", "gone"),
    [(3, 3, 3, ["c0", "b0", "c1"]), (3, 3, 5, []), (1, 5, 5, ["c0", "c1", "c2", "c3", "c4"])],
)
def test_hierarchical_advantage(b_uses: int, c_uses: int, asks: int, gone: list[str]) -> None:  # S-8.11
    w = world(
        cohort("l", "r", own=2),
        cohort("m", "r"),
        queue("a", 4, "l", preemption=policy(reclaim="Any")),
        queue("b", 0, "l"),
        queue("c", 0, "m"),
        *(running(f"b{i}", "b", 1, reserved=f"10:0{8 - i}:00") for i in range(b_uses)),
        *(running(f"c{i}", "c", 1, reserved=f"10:0{8 - i}:30") for i in range(c_uses)),
        pending("p", "a", asks),
    )
    assert search(w, "p", asks) == [(key, "InCohortReclamation") for key in gone]


@pytest.mark.parametrize("profile", ["parity", "default"])
def test_reclaim(profile: str) -> None:  # S-18.1
    w = world(
        queue("x", 4, preemption=policy(reclaim="Any")),
        queue("y", 4),
        *(running(f"y{i}", "y", 1, reserved=f"10:0{i}") for i in range(1, 7)),
        pending("p", "x", 4),
        profile=profile,
    )
    assert victims(cycle(w, NOON)) == [("y5", "InCohortReclamation"), ("y6", "InCohortReclamation")]
    assert w.sticky == {"x": "ns/p"}
    assert outcome(cycle(w, NOON)) == ({"p": "PendingPreemption"} if profile == "parity" else {})
    between_cycles(w, ["ns/y5", "ns/y6"], [], NOON)
    assert outcome(cycle(w, NOON))["p"] == "assumed"


def test_partial_admission_with_preemption() -> None:  # S-18.7
    w = world(
        queue("x", 6, None, preemption=policy("LowerPriority")),
        running("low", "x", 2, prio=-1),
        running("eq", "x", 2),
        pending("p", "x", 1, count=6, minCount=2),
    )
    result = cycle(w, NOON)
    assert victims(result) == [("low", "InClusterQueue")]
    assert result.entries[0].assignment.podsets[0].count == 4
    assert OUTSIDE[result.entries[0].assignment.podsets[0].flavors["cpu"].mode] == "Preempt"


@pytest.mark.parametrize(("profile", "last"), [("parity", "assumed"), ("default", "PendingPreemption")])
def test_ours_admits_nobody_into_room_that_victims_still_hold(profile: str, last: str) -> None:
    """q takes the 2 that are free, and r would fit only once t is gone (S-5.9, S-5.7.9a)."""
    w = world(
        queue("x", 4, preemption=policy(reclaim="Any")),
        queue("y", 2),
        queue("z", 0),
        queue("zz", 0),
        running("t", "z", 4),
        pending("p", "x", 3, prio=9),
        pending("q", "y", 2),
        pending("r", "zz", 1),
        profile=profile,
    )
    assert outcome(cycle(w, NOON)) == {"p": "PendingPreemption", "q": "assumed", "r": last}


def two_resources(cpu: int, memory: int) -> Raw:
    resources = [{"name": "cpu", "nominalQuota": cpu}, {"name": "memory", "nominalQuota": memory}]
    spec = [{"coveredResources": ["cpu", "memory"], "flavors": [{"name": F, "resources": resources}]}]
    return {"resourceGroups": spec}


@pytest.mark.parametrize(
    ("profile", "mode", "became"), [("parity", "Fit", "skipped"), ("default", "Preempt", "PendingPreemption")]
)
def test_ours_judges_a_podset_by_its_worst_resource(profile: str, mode: str, became: str) -> None:  # S-6.9
    try_next = {"whenCanBorrow": "TryNextFlavor", "whenCanPreempt": "TryNextFlavor"}
    low, p = running("low", "x", 1, prio=-1), pending("p", "x", 2)
    assigned = low["status"]["admission"]["podSetAssignments"][0]
    assigned |= {"flavors": {"memory": F}, "resourceUsage": {"memory": "4"}}
    p["spec"]["podSets"][0]["template"]["spec"]["containers"][0]["resources"]["requests"] = {"cpu": "2", "memory": "2"}
    w = world(
        queue(
            "x",
            0,
            preemption=policy("LowerPriority"),
            flavorFungibility=try_next | {"preference": "PreemptionOverBorrowing"},
            **two_resources(0, 4),
        ),
        queue("y", 0, **two_resources(4, 0)),
        low,
        p,
        profile=profile,
    )
    result = cycle(w, NOON)
    assert ([e.mode for e in result.entries], outcome(result)) == ([mode], {"p": became})


@pytest.mark.parametrize(("lends", "later"), [(False, {}), (True, {"z2": "assumed"})])
def test_a_strict_head_keeps_its_reservation(lends: bool, later: dict[str, str]) -> None:  # S-5.13, S-5.1
    w = world(
        queue("x", 6, queueingStrategy="StrictFIFO", preemption=policy(reclaim="LowerPriority")),
        queue("y", 4),
        queue("z", 2),
        running("x1", "x", 3),
        running("y1", "y", 7, prio=99),
        pending("xp", "x", 3, prio=5),
        pending("z2", "z", 2, prio=1),
    )
    w.settings = make_settings("default", strict_fifo_lends=lends)
    assert outcome(cycle(w, NOON)) == {"xp": "PreemptionNoCandidates", "z2": "skipped"}
    assert outcome(cycle(w, NOON)) == later
    between_cycles(w, [], [{"delete": ["ns/xp"]}], NOON)
    assert outcome(cycle(w, NOON)) == ({} if lends else {"z2": "assumed"})


def everyone(w: World) -> list[str]:
    held = [k for k, wl in w.workloads.items() if facts.is_accounted(wl, w.settings.parity)]
    waiting = [k for lists in (w.heap, w.parked) for keys in lists.values() for k in keys]
    return sorted(held + waiting)


@pytest.mark.slow
@pytest.mark.property
@given(scenario=scenarios())
def test_scenarios_are_plain_data_and_lose_nobody(scenario: Raw) -> None:
    assert json.loads(json.dumps(scenario)) == scenario
    for profile in ("parity", "default"):
        told = play(scenario, profile)
        assert len(told) == scenario["cycles"]
        assert json.loads(json.dumps(told)) == told
        w = world(*scenario["objects"], profile=profile)
        cycle(w, NOON)
        assert everyone(w) == sorted(w.workloads)


def deficits(w: World) -> dict[tuple[str, str, str], int]:
    """The amount by which each node is above what it may use."""
    snap = snapshot(w, NOON)
    frs = {fr for node in snap.tree.values() for fr in node.nominal}
    return {(node, *fr): min(0, available(snap, node, fr)) for node in snap.tree for fr in frs}


@pytest.mark.slow
@pytest.mark.property
@given(scenario=scenarios())
def test_ours_admits_nothing_above_quota(scenario: Raw) -> None:  # S-5.9
    w = world(*scenario["objects"])
    before = deficits(w)
    for _ in range(3):
        cycle(w, NOON)
    after = deficits(w)
    assert all(after[node] >= before[node] for node in before)


def test_a_seed_decides_its_scenario() -> None:
    assert seeded(7) == seeded(7) != seeded(8)
