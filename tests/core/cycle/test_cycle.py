"""One cycle after the other: which workloads are admitted, make way, wait (S-4, S-5, S-18)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from makeway.core.cycle.cycle import decide, heads
from makeway.core.model import FR, FlavorGroup, QueueName
from makeway.core.policy import PodsReady, Policy
from makeway.core.queueing import waking
from makeway.core.state import State
from makeway.core.trace import Rule
from makeway.testing.builders import (
    FR_CPU,
    cycle,
    evictions,
    holder,
    leave,
    outcomes,
    queue,
    seconds,
    state,
    workload,
)

ANY: dict[str, Any] = {"reclaim": "Any"}
LOWER: dict[str, Any] = {"within": "LowerPriority"}
OURS, PARITY = Policy.default(), Policy.parity()
BLOCKING = replace(OURS, pods_ready=PodsReady(block_admission=True))
BOTH = pytest.mark.parametrize("policy", [OURS, PARITY], ids=["default", "parity"])


def without(gate: str, policy: Policy = OURS) -> Policy:
    return replace(policy, gates=replace(policy.gates, **{gate: False}))


def used(on: State, name: str, fr: FR = FR_CPU) -> float:
    return on.tree.queues[name].usage.get(fr, 0) / 1000


def free(on: State, name: str) -> float:
    return on.tree.available(on.tree.queues[name], FR_CPU) / 1000


# --- one queue -------------------------------------------------------------------------------------------------------


@BOTH
def test_S_4_10_a_strict_head_blocks_its_queue_and_costs_nothing_while_it_does(policy: Policy) -> None:
    on = state(queue("q", 4, strict=True), workload("a", cpu=6), workload("b", cpu=2, queued=1), policy=policy)
    assert outcomes(cycle(on)) == {"a": "NoFit"}
    assert outcomes(cycle(on)) == ({"a": "NoFit"} if policy is PARITY else {})


@BOTH
def test_S_4_10_another_queue_parks_its_head_until_quota_is_raised(policy: Policy) -> None:
    on = state(queue("q", 4), workload("a", cpu=6), workload("b", cpu=2, queued=1), policy=policy)
    assert outcomes(cycle(on)) == {"a": "NoFit"}
    assert outcomes(cycle(on)) == {"b": "admitted"}
    assert outcomes(cycle(on)) == {}
    on.configure([queue("q", 8)], [], on.flavors.values())
    for name in sorted(waking.after_queue_change(on, QueueName("q"))):
        on.wake(name, seconds(1))
    assert outcomes(cycle(on)) == {"a": "admitted"}


@BOTH
def test_83_b_a_lower_priority_makes_way(policy: Policy) -> None:
    on = state(queue("q", 4, **LOWER), holder("low", cpu=4), workload("p", cpu=4, priority=1), policy=policy)
    plan = cycle(on, 10)
    assert (outcomes(plan), evictions(plan)) == ({"p": "PendingPreemption"}, [("low", "InClusterQueue")])
    leave(on, "low", reason="InClusterQueue", at=12)
    beside = {"low": "PreemptionNoCandidates"} if policy is OURS else {}  # S-4.2: a claimant comes beside the head
    assert outcomes(cycle(on, 13)) == {"p": "admitted", **beside}
    again = {} if policy is OURS else {"low": "PreemptionNoCandidates"}  # it is certainly refused, so it stays parked
    assert outcomes(cycle(on, 14)) == again


# --- a cohort --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("strict", [True, False])
@BOTH
def test_83_a_who_would_borrow_is_not_admitted_beside_a_blocked_head_that_is_entitled(
    policy: Policy, strict: bool
) -> None:
    """x may have 4 by right and lacks 2 of them; y's head would borrow these 2."""
    on = state(
        queue("x", 6, cohort="r", strict=strict),
        queue("y", 2, cohort="r", strict=strict),
        holder("x1", queue="x", cpu=2),
        holder("y1", queue="y", cpu=4, priority=9),
        workload("entitled", queue="x", cpu=4, queued=5),
        workload("borrower", queue="y", cpu=2, queued=1, priority=5),
        policy=policy,
    )
    plan = cycle(on, 10)
    assert outcomes(plan) == {"entitled": "PreemptionNoCandidates", "borrower": "FailedAfterNomination"}
    assert [step.rule for step in plan.verdicts[0].steps][-1] is Rule.RESERVED


@BOTH
def test_83_c_reclaim_stops_at_the_lenders_quota(policy: Policy) -> None:
    on = state(
        queue("x", 4, cohort="r", **ANY),
        queue("y", 4, cohort="r"),
        *(holder(f"y{i}", queue="y", reserved=i) for i in range(1, 7)),
        workload("p", queue="x", cpu=4),
        workload("more", queue="x", cpu=1, queued=1),
        policy=policy,
    )
    plan = cycle(on, 10)
    assert evictions(plan) == [("y6", "InCohortReclamation"), ("y5", "InCohortReclamation")]
    leave(on, "y6", "y5", at=11, returns=False)
    beside = {"more": "PreemptionNoCandidates"} if policy is OURS else {}
    assert outcomes(cycle(on, 12)) == {"p": "admitted", **beside}
    plan = cycle(on, 13)
    again = {} if policy is OURS else {"more": "PreemptionNoCandidates"}  # it is certainly refused, so it stays parked
    assert (outcomes(plan), evictions(plan)) == (again, [])


@BOTH
def test_S_18_1_reclaim(policy: Policy) -> None:
    on = state(
        queue("x", 4, cohort="r", **ANY),
        queue("y", 4, cohort="r"),
        *(holder(f"y{i}", queue="y", reserved=i, queued=i) for i in range(1, 7)),
        workload("p", queue="x", cpu=4),
        policy=policy,
    )
    plan = cycle(on, 10)
    assert evictions(plan) == [("y6", "InCohortReclamation"), ("y5", "InCohortReclamation")]
    assert plan.verdicts[0].assignment.level == 0
    again = cycle(on, 11)
    assert evictions(again) == ([] if policy is OURS else evictions(plan)), "ours waits for a wake"
    leave(on, "y6", "y5", reason="InCohortReclamation", at=12)
    assert on.pending.in_order(QueueName("y")) == ["default/y5", "default/y6"], "with their creation order"
    assert outcomes(cycle(on, 13))["p"] == "admitted"
    assert used(on, "y") == 4


@pytest.mark.parametrize(("priority", "z"), [(1, "FailedAfterNomination"), (9, "admitted")])
@BOTH
def test_S_5_10_a_head_without_victims_reserves_its_own_quota(policy: Policy, priority: int, z: str) -> None:
    on = state(
        queue("x", 6, cohort="r", **LOWER),
        queue("y", 4, cohort="r"),
        queue("z", 2, cohort="r"),
        holder("x1", queue="x", cpu=3, priority=5),
        holder("y1", queue="y", cpu=7, priority=99),
        workload("px", queue="x", cpu=3, priority=5),
        workload("pz", queue="z", cpu=2, priority=priority),
        policy=policy,
    )
    assert outcomes(cycle(on)) == {"px": "PreemptionNoCandidates", "pz": z}


def test_S_5_8_a_borrowing_head_reserves_what_it_would_borrow_in_parity_only() -> None:
    for policy, z in ((OURS, "admitted"), (PARITY, "FailedAfterNomination")):
        for limit in (None, 9):
            on = state(
                queue("x", 0, cohort="r", borrow="LowerPriority", reclaim="LowerPriority", borrowing=limit),
                queue("y", 7, cohort="r"),
                queue("z", 1, cohort="r"),
                holder("y1", queue="y", cpu=6, priority=99),
                workload("px", queue="x", cpu=3, priority=5),
                workload("pz", queue="z", cpu=2, priority=1),
                policy=policy,
            )
            assert outcomes(cycle(on)) == {"px": "PreemptionNoCandidates", "pz": z}, (policy.profile, limit)


def test_S_5_8_a_head_that_may_reclaim_from_anybody_reserves_nothing() -> None:
    on = state(
        queue("x", 6, cohort="r", **ANY),
        queue("z", 2, cohort="r"),
        holder("x1", queue="x", cpu=6),
        workload("px", queue="x", cpu=3, priority=5),
        workload("pz", queue="z", cpu=2),
    )
    assert outcomes(cycle(on)) == {"px": "PreemptionNoCandidates", "pz": "admitted"}


@pytest.mark.parametrize("lends", [True, False])
def test_S_5_13_a_refused_strict_head_keeps_its_reservation_unless_its_queue_lends(lends: bool) -> None:
    on = state(
        queue("x", 4, cohort="r", strict=True),
        queue("y", 2, cohort="r"),
        holder("x1", queue="x", cpu=2),
        holder("y1", queue="y", cpu=3),
        workload("head", queue="x", cpu=2),
        policy=replace(OURS, strict_fifo_lends=lends),
    )
    assert outcomes(cycle(on, 1)) == {"head": "PreemptionNoCandidates"}
    on.push(workload("late", queue="y", cpu=1), seconds(2))
    assert outcomes(cycle(on, 2)) == {"late": "admitted" if lends else "FailedAfterNomination"}
    if not lends:
        assert outcomes(cycle(on, 3)) == {}, "S-5.1 who lost to a reservation is due when that changes"
        on.pending.forget(workload("head", queue="x", cpu=2))
        on.wake(QueueName("x"), seconds(4))
        assert outcomes(cycle(on, 4)) == {"late": "admitted"}


def ready(on: State, name: str) -> None:
    """The pods of a holder are ready: what its object then says reaches the state."""
    held = next(each for each in on.holders.by_key.values() if each.uid == name)
    on.holders.renew(held, held.but(pods_ready=True))


def test_S_5_7_12_nothing_is_admitted_while_a_workload_with_quota_is_not_ready() -> None:
    on = state(queue("q", 4), holder("h"), workload("w"), policy=BLOCKING)
    plan = cycle(on)
    assert outcomes(plan) == {"w": "FailedAfterNomination"}
    assert plan.verdicts[0].waits_for_pods
    assert plan.verdicts[0].steps[0].rule is Rule.PODS_NOT_READY
    assert heads(on) == [], "it is due when the pods are ready, and not before"
    ready(on, "h")
    assert outcomes(cycle(on, 1)) == {"w": "admitted"}


def test_S_5_7_12_an_admission_blocks_at_once_also_those_after_it_in_its_cycle() -> None:
    on = state(queue("a", 4), queue("b", 4), workload("x", queue="a"), workload("y", queue="b"), policy=BLOCKING)
    assert outcomes(cycle(on)) == {"x": "admitted", "y": "FailedAfterNomination"}
    assert on.waits_for_pods
    ready(on, "x")
    assert outcomes(cycle(on, 1)) == {"y": "admitted"}


def test_S_5_7_12_who_redeems_a_claim_blocks_the_others_of_its_cycle_too() -> None:
    on = state(
        queue("a", 2, **LOWER), queue("b", 4), holder("low", queue="a", cpu=2, priority=-1, pods_ready=True),
        workload("high", queue="a", cpu=2), policy=BLOCKING,
    )  # fmt: skip
    assert outcomes(cycle(on)) == {"high": "PendingPreemption"}, "who displaces others admits nobody yet"
    leave(on, "low", returns=False, at=1)
    on.push(workload("other", queue="b"), seconds(1))
    assert outcomes(cycle(on, 1)) == {"high": "admitted", "other": "FailedAfterNomination"}


def test_S_5_7_12_a_claimant_that_waits_for_pods_keeps_its_claim_and_is_not_looked_at_again() -> None:
    on = state(
        queue("a", 2, **LOWER), queue("b", 4), holder("low", queue="a", cpu=2, priority=-1, pods_ready=True),
        holder("slow", queue="b"), workload("high", queue="a", cpu=2), policy=BLOCKING,
    )  # fmt: skip
    cycle(on)
    leave(on, "low", returns=False, at=1)
    assert outcomes(cycle(on, 1)) == {"high": "FailedAfterNomination"}
    assert heads(on) == []
    assert len(on.claims) == 1
    ready(on, "slow")
    assert outcomes(cycle(on, 2)) == {"high": "admitted"}


def test_S_5_7_12_of_a_queue_only_the_first_is_looked_at_while_admissions_are_blocked() -> None:
    waiting = [workload(f"w{n:03}", queued=n) for n in range(100)]
    on = state(queue("q", 200), holder("h"), *waiting, policy=BLOCKING)
    assert outcomes(cycle(on)) == {"w000": "FailedAfterNomination"}
    assert heads(on) == []
    on.push(workload("urgent", priority=5), seconds(1))
    assert outcomes(cycle(on, 1)) == {"urgent": "FailedAfterNomination"}, "it comes before those who wait"
    assert heads(on) == []


def test_S_5_7_12_the_flavor_that_was_found_is_not_passed_over_when_the_block_ends() -> None:
    """A workload that loses its room goes on with the next flavor (S-6.8); here no other has taken it."""
    on = state(queue("q", {"one": 4, "two": 4}), holder("h", usage={"one": 1}), workload("w"), policy=BLOCKING)
    cycle(on)
    ready(on, "h")
    plan = cycle(on, 1)
    assert [dict(each.assignment.usage) for each in plan.admitted] == [{("one", "cpu"): 1000}]


def test_S_5_7_12_a_plan_is_a_thought_here_too() -> None:
    on = state(queue("a", 4), queue("b", 4), workload("x", queue="a"), workload("y", queue="b"), policy=BLOCKING)
    before = on.fingerprint()
    decide(on, seconds(0))
    assert on.fingerprint() == before
    assert not on.waits_for_pods


# --- several entries, one cycle --------------------------------------------------------------------------------------


def overlapping(policy: Policy = OURS) -> State:
    """S-5.11: x and y reclaim from z, which has only t to give."""
    return state(
        queue("x", 2, cohort="r", **ANY),
        queue("y", 2, cohort="r", **ANY),
        queue("z", 0, cohort="r"),
        holder("t", queue="z", cpu=4),
        workload("px", queue="x", cpu=2, queued=1),
        workload("py", queue="y", cpu=2, queued=2),
        policy=policy,
    )


@BOTH
def test_S_5_11_who_fits_into_what_another_frees_waits_without_a_second_preemption(policy: Policy) -> None:
    on = overlapping(policy)
    plan = cycle(on)
    assert outcomes(plan) == {"px": "PendingPreemption", "py": "PendingPreemption"}
    assert evictions(plan) == [("t", "InCohortReclamation")]
    assert [(each.mode, each.recomputed) for each in plan.verdicts] == [
        ("Preempt", ""),
        ("DeferredFit", "deferred_fit"),
    ]
    leave(on, "t", at=5, returns=False)
    assert outcomes(cycle(on, 6)) == {"px": "admitted", "py": "admitted"}


@BOTH
def test_S_5_11_without_the_gate_it_is_skipped_and_tried_again(policy: Policy) -> None:
    on = overlapping(without("recompute_assignment_upon_preemption_targets_overlap", policy))
    plan = cycle(on)
    assert outcomes(plan) == {"px": "PendingPreemption", "py": "FailedAfterNomination"}
    assert plan.verdicts[1].skipped_preemption
    assert [head.uid for head in heads(on)] == (["py"] if policy is OURS else ["px", "py"])


@BOTH
def test_S_18_2_overlapping_targets(policy: Policy) -> None:
    on = state(
        *(queue(name, 2, cohort="r", **ANY) for name in "xzu"),
        queue("y", 4, cohort="r"),
        holder("y1", queue="y", cpu=6, reserved=1),
        holder("y2", queue="y", cpu=4, reserved=2),
        *(workload(uid, queue=uid[1], cpu=2, queued=i) for i, uid in enumerate(("px", "qz", "ru"))),
        policy=policy,
    )
    plan = cycle(on, 10)
    assert evictions(plan) == [("y2", "InCohortReclamation"), ("y1", "InCohortReclamation")]
    assert {each.workload.uid: (each.mode, each.recomputed) for each in plan.verdicts} == {
        "px": ("Preempt", ""),
        "qz": ("DeferredFit", "deferred_fit"),
        "ru": ("Preempt", "new_targets"),
    }
    assert set(outcomes(plan).values()) == {"PendingPreemption"}


@BOTH
def test_P7_a_large_workload_within_its_quota_is_admitted_in_bounded_cycles(policy: Policy) -> None:
    """Small heads come every cycle and choose the hero's victims first."""
    on = state(
        queue("hero", 6, cohort="r", **ANY),
        queue("small", 2, cohort="r", **ANY),
        queue("z", 0, cohort="r"),
        *(holder(f"z{i}", queue="z", cpu=2, reserved=i) for i in range(4)),
        workload("hero", queue="hero", cpu=6, queued=5),
        workload("s0", queue="small", cpu=2, queued=0),
        policy=policy,
    )
    for at in range(10, 16):
        plan = cycle(on, at)
        leave(on, *(uid for uid, _ in evictions(plan)), at=at, returns=False)
        if outcomes(plan).get("hero") == "admitted":
            break
        on.push(workload(f"s{at}", queue="small", cpu=2, queued=at), seconds(at))
    assert used(on, "hero") == 6
    assert at <= 12


@BOTH
def test_P8_two_who_reclaim_at_once_get_two_victims_and_are_admitted_when_both_have_left(policy: Policy) -> None:
    on = state(
        queue("x", 3, cohort="r", **ANY),
        queue("y", 3, cohort="r", **ANY),
        queue("z", 0, cohort="r"),
        holder("z1", queue="z", cpu=3, reserved=1),
        holder("z2", queue="z", cpu=3, reserved=2),
        workload("px", queue="x", cpu=3, queued=1),
        workload("py", queue="y", cpu=3, queued=2),
        policy=policy,
    )
    plan = cycle(on)
    assert sorted(uid for uid, _ in evictions(plan)) == ["z1", "z2"]
    leave(on, "z2", at=5, returns=False)
    assert list(outcomes(cycle(on, 6)).values()).count("admitted") == 1
    leave(on, "z1", at=7, returns=False)
    cycle(on, 8)
    assert (used(on, "x"), used(on, "y")) == (3, 3)


@pytest.mark.parametrize(
    ("policy", "became"), [(OURS, "PendingPreemption"), (PARITY, "admitted")], ids=["default", "parity"]
)
def test_S_5_9_nobody_is_admitted_into_room_that_victims_still_hold(policy: Policy, became: str) -> None:
    """All three fit once t has left. Until then only one fits beside it; parity lets both in and exceeds the quota."""
    on = state(
        queue("x", 4, cohort="r", **ANY),
        queue("w", 2, cohort="r"),
        queue("y", 2, cohort="r"),
        queue("z", 0, cohort="r"),
        holder("t", queue="z", cpu=5),
        workload("px", queue="x", cpu=4, queued=1),
        workload("pw", queue="w", cpu=2, queued=2),
        workload("py", queue="y", cpu=2, queued=3),
        policy=policy,
    )
    plan = cycle(on)
    assert evictions(plan) == [("t", "InCohortReclamation")]
    assert outcomes(plan) == {"px": "PendingPreemption", "pw": "admitted", "py": became}
    assert plan.verdicts[2].mode == ("DeferredFit" if policy is OURS else "Fit")
    assert free(on, "x") == (1 if policy is OURS else -1)
    leave(on, "t", at=5, returns=False)
    cycle(on, 6)
    assert (used(on, "x"), used(on, "y")) == (4, 2)


def test_P33_who_is_marked_is_who_was_reported() -> None:
    on = overlapping()
    plan = cycle(on)
    marked = {each.uid for members in on.holders.of_queue.values() for each in members.values() if each.evicted}
    assert marked == {uid for uid, _ in evictions(plan)} == {"t"}
    assert [step.subjects for each in plan.verdicts for step in each.steps if each.targets] == [("default/t",)]


@BOTH
def test_P34_who_is_asked_to_leave_in_a_cycle_is_not_looked_at_in_it_and_holds_quota_until_it_left(
    policy: Policy,
) -> None:
    on = state(queue("q", 4, **LOWER), holder("low", cpu=4), workload("p", cpu=2, priority=1), policy=policy)
    plan = cycle(on)
    assert "low" not in outcomes(plan)
    assert used(on, "q") == 4, "R-47"
    assert "low" not in [head.uid for head in heads(on)]


def test_who_loses_the_room_to_an_earlier_entry_is_told_so_and_is_due() -> None:
    on = state(
        queue("x", 0, cohort="r"), queue("y", 0, cohort="r"), queue("z", 2, cohort="r"),
        workload("px", queue="x", cpu=2, queued=1), workload("py", queue="y", cpu=2, queued=2),
    )  # fmt: skip
    plan = cycle(on)
    assert outcomes(plan) == {"px": "admitted", "py": "FailedAfterNomination"}
    assert plan.verdicts[1].steps[0].rule is Rule.LOST
    assert not plan.verdicts[1].skipped_preemption
    assert [head.uid for head in heads(on)] == ["py"]
    assert [each.workload.uid for each in plan.admitted] == ["px"]


def test_a_closed_gate_keeps_everybody_in_place() -> None:
    on = state(queue("q", 4, **LOWER), holder("low", cpu=4), workload("p", cpu=2, priority=1, gated=True))
    plan = cycle(on)
    assert (outcomes(plan), evictions(plan)) == ({"p": "PreemptionGated"}, [])
    assert plan.verdicts[0].steps[0].rule is Rule.GATED
    on = state(queue("q", 4), workload("p", cpu=2, gated=True))
    assert outcomes(cycle(on)) == {"p": "admitted"}, "who needs nobody to leave does not mind the gate"


def test_who_is_refused_is_requeued_with_its_reason_and_keeps_nobody_from_anything() -> None:
    on = state(queue("q", 4), queue("off", 4, active=False), workload("no", refusal="Misconfigured"))
    on.push(workload("idle", queue="off"), seconds(0))
    assert outcomes(cycle(on)) == {"no": "Generic"}
    on.push(workload("stray", queue="nowhere"), seconds(0))
    assert outcomes(cycle(on)) == {"stray": "Generic"}


# --- order of entries ------------------------------------------------------------------------------------------------


def test_S_5_6_who_borrows_less_then_priority_then_time_then_the_queues_name() -> None:
    parts: list[Any] = [queue(name, 1 if name == "own" else 0, cohort="r") for name in ("b", "a", "high", "own", "old")]
    on = state(
        *parts,
        queue("lender", 20, cohort="r"),
        workload("own", queue="own", queued=9),
        workload("high", queue="high", priority=3, queued=9),
        workload("old", queue="old", queued=1),
        workload("in a", queue="a", queued=2),
        workload("in b", queue="b", queued=2),
    )
    assert list(outcomes(decide(on, seconds(10)))) == ["own", "high", "old", "in a", "in b"]
    on.policy = without("priority_sorting_within_cohort")
    assert list(outcomes(decide(on, seconds(10)))) == ["own", "old", "in a", "in b", "high"]


@pytest.mark.parametrize(
    ("gate", "claims", "first"), [(True, False, "p"), (False, False, "late"), (False, True, "p"), (True, True, "p")]
)
def test_S_5_6_2_with_a_gate_or_a_claim_preemptors_come_before_all_others(gate: bool, claims: bool, first: str) -> None:
    on = state(
        queue("x", 2, cohort="r", **LOWER),
        queue("y", 2, cohort="r"),
        holder("low", queue="x", cpu=4, priority=-1),
        workload("p", queue="x", cpu=2),
        policy=replace(OURS, gates=replace(OURS.gates, prioritize_preemptor_workloads=gate, preemption_claims=claims)),
    )
    cycle(on)
    on.push(workload("late", queue="y", priority=9), seconds(1))
    leave(on, "low", at=3, returns=False)
    assert next(iter(outcomes(decide(on, seconds(4))))) == first


# --- traps of the field -----------------------------------------------------------------------------------------------


@BOTH
def test_P10_asking_for_none_of_what_is_over_quota_blocks_no_preemption(policy: Policy) -> None:
    on = state(
        queue("q", {"f": {"cpu": 4, "gpu": 2}}, **LOWER),
        holder("over", priority=9, usage={"f": {"gpu": 5}}),
        holder("low", usage={"f": {"cpu": 4}}),
        workload("p", requests={"cpu": 3, "gpu": 0}, priority=1),
        policy=policy,
    )
    assert evictions(cycle(on)) == [("low", "InClusterQueue")]
    leave(on, "low", at=1, returns=False)
    assert outcomes(cycle(on, 2)) == {"p": "admitted"}


@BOTH
def test_P13_the_second_flavor_is_used_where_the_first_needs_victims_and_has_none(policy: Policy) -> None:
    on = state(
        queue("q", {"f1": 2, "f2": 2}, **LOWER, prefer_preemption=True),
        holder("high", usage={"f1": 2}, priority=9),
        workload("w", cpu=2),
        policy=policy,
    )
    plan = cycle(on)
    assert outcomes(plan) == {"w": "admitted"}
    assert plan.verdicts[0].assignment.usage == {("f2", "cpu"): 2000}


@BOTH
def test_P32_a_queue_without_quota_is_entitled_to_nothing(policy: Policy) -> None:
    on = state(
        queue("x", 0, cohort="r", **ANY),
        queue("y", 2, cohort="r"),
        queue("z", 2, cohort="r"),
        holder("y1", queue="y", cpu=4),
        workload("p", queue="x", priority=9),
        policy=policy,
    )
    plan = cycle(on)
    assert (outcomes(plan), evictions(plan)) == ({"p": "NoFit"}, [])


def test_S_5_7_3_who_finds_nobody_else_after_an_overlap_reserves_and_waits() -> None:
    """The first takes t and all the room it leaves: no victim is left for the second, which had chosen t too."""
    on = state(
        queue("x", 4, cohort="r", **ANY),
        queue("y", 4, cohort="r", reclaim="LowerPriority"),
        queue("z", 0, cohort="r"),
        holder("t", queue="z", cpu=4, priority=-1),
        holder("u", queue="z", cpu=4, priority=5),
        workload("px", queue="x", cpu=4, queued=1),
        workload("py", queue="y", cpu=4, queued=2),
    )
    plan = cycle(on)
    assert outcomes(plan) == {"px": "PendingPreemption", "py": "PreemptionNoCandidates"}
    assert [each.recomputed for each in plan.verdicts] == ["", "skipped"]


# --- flavors over several cycles -------------------------------------------------------------------------------------


def test_S_6_12_who_lost_one_flavor_looks_at_the_next_ones_first() -> None:
    quotas = {"f1": 2, "f2": 2, "f3": 2}
    group = (FlavorGroup(resources=(FR_CPU[1],), flavors=(("f1"), ("f2"), ("f3"))),)  # type: ignore[arg-type]
    on = state(
        queue("a", {"f1": 0}, cohort="r"),
        queue("b", dict.fromkeys(quotas, 0), cohort="r", groups=group),
        queue("y", quotas, cohort="r"),
        holder("h2", queue="y", usage={"f2": 2}),
        workload("first", queue="a", cpu=2, queued=1),
        workload("w", queue="b", cpu=2, queued=2),
    )
    assert outcomes(cycle(on, 1)) == {"first": "admitted", "w": "FailedAfterNomination"}
    plan = cycle(on, 2)
    assert [choice.flavor for choice in plan.admitted[0].assignment.pod_sets[0].choices.values()] == ["f3"]


# --- what was configured changes -------------------------------------------------------------------------------------


def test_P19_a_resource_that_is_no_longer_covered_is_not_given_out_again() -> None:
    on = state(queue("q", {"f": {"cpu": 4, "gpu": 2}}), holder("h", usage={"f": {"cpu": 1, "gpu": 2}}))
    on.configure([queue("q", {"f": {"cpu": 4}})], [], on.flavors.values())
    on.push(workload("w", requests={"cpu": 1, "gpu": 1}), seconds(0))
    on.push(workload("v", cpu=3, queued=1), seconds(0))
    assert outcomes(cycle(on)) == {"w": "NoFit"}
    assert outcomes(cycle(on)) == {"v": "admitted"}
    assert on.tree.contents()[True, "q"] == {("f", "cpu"): 4000, ("f", "gpu"): 2}  # type: ignore[index]


def test_a_queue_that_comes_back_finds_its_holders_charged() -> None:
    on = state(queue("q", 4, cohort="r"), holder("h", cpu=3))
    on.configure([], [], [])
    on.configure([queue("q", 4, cohort="r")], [], [])
    assert used(on, "q") == 3
    leave(on, "h", returns=False)
    assert used(on, "q") == 0
    on.tree.recount()
