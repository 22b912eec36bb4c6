"""Rounds: how often a workload may displace others, and what makes it begin anew (S-19.3)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from makeway.core.cycle.cycle import Plan
from makeway.core.messages import pending_message, pending_reason
from makeway.core.model import Claim, QueueName, Workload
from makeway.core.policy import Policy
from makeway.core.preemption.rounds import ROUNDS_MAX, Round, Rounds
from makeway.core.state import State
from makeway.core.trace import Rule
from makeway.core.undo import UndoLog
from makeway.testing.builders import FR_CPU, cycle, evictions, holder, leave, outcomes, queue, seconds, state, workload

ANY: dict[str, Any] = {"reclaim": "Any"}
BORROWS: dict[str, Any] = {"reclaim": "LowerPriority", "borrow": "LowerPriority"}
OWN: dict[str, Any] = {"within": "LowerOrNewerEqualPriority", **BORROWS}
OFF = replace(Policy.default(), gates=replace(Policy.default().gates, preemption_epochs=False))


def borrower(*more: Workload, policy: Policy | None = None, **settings: Any) -> State:
    """p has no quota of its own; it may displace borrowers of lower priority."""
    return state(
        queue("x", 0, cohort="r", **BORROWS),
        queue("y", 0, cohort="r"),
        queue("lender", 4, cohort="r"),
        *more,
        workload("p", queue="x", cpu=4, priority=9, **settings),
        policy=policy,
    )


def again(on: State, *names: str, at: int) -> Plan:
    """p loses its quota to no other workload in particular, and others take it; then p is evaluated again."""
    leave(on, "p", at=at)
    on.pending.forget(next(each for each in on.pending.list_of(QueueName("x")).waiting.values() if each.uid == "p"))
    for name in names:
        on.hold(holder(name, queue="y", cpu=4 // len(names), reserved=at))
    on.push(workload("p", queue="x", cpu=4, priority=9), seconds(at))
    return cycle(on, at)


def once(policy: Policy | None = None) -> State:
    """p has had its round above nominal, and was admitted."""
    on = borrower(holder("a", queue="y", cpu=4), policy=policy)
    assert evictions(cycle(on, 1)) == [("a", "InCohortReclaimWhileBorrowing")]
    leave(on, "a", at=2, returns=False)
    assert outcomes(cycle(on, 3)) == {"p": "admitted"}
    return on


# --- what counts -----------------------------------------------------------------------------------------------------


def test_one_round_that_leaves_the_queue_above_nominal_and_no_second() -> None:
    on = once()
    assert (on.rounds.of(workload("p", queue="x")).above, on.rounds.of(workload("p", queue="x")).total) == (1, 1)
    plan = again(on, "b", at=5)
    (verdict,) = plan.verdicts
    assert (outcomes(plan), evictions(plan)) == ({"p": "PreemptionNoCandidates"}, [])
    assert (verdict.spared, verdict.steps[-1].rule) == (True, Rule.ROUND_TOO_MANY)
    assert str(verdict.steps[-1]) == "it has displaced others 1 times, 1 of them to borrow, and may not again"
    assert on.rounds.exhausted == {}, "that is no matter of the circuit breaker"


def test_without_the_gate_there_is_no_end() -> None:
    on = once(OFF)
    assert evictions(again(on, "b", at=5)) == [("b", "InCohortReclaimWhileBorrowing")]


def test_rounds_that_end_within_nominal_are_free() -> None:
    on = state(queue("x", 4, cohort="r", **ANY), queue("y", 0, cohort="r"))
    for at in range(0, 3 * (ROUNDS_MAX - 1), 3):
        on.hold(holder("a", queue="y", cpu=4, reserved=at))
        on.push(workload("p", queue="x", cpu=4), seconds(at))
        assert [each.round for each in cycle(on, at).verdicts] == ["free"]
        leave(on, "a", at=at + 1, returns=False)
        assert outcomes(cycle(on, at + 2)) == {"p": "admitted"}
        leave(on, "p", at=at + 2, returns=False)
    assert on.rounds.of(workload("p", queue="x")).total == ROUNDS_MAX - 1


@pytest.mark.parametrize(("request_", "kind"), [(3, "free"), (4, "above")])
def test_above_nominal_counts_the_workloads_own_request(request_: int, kind: Round) -> None:
    """x holds 1 and has 4: the displaced one is of another queue, so what x itself uses stays."""
    on = state(
        queue("x", 4, cohort="r", **BORROWS),
        queue("y", 0, cohort="r"),
        queue("lender", 2, cohort="r"),
        holder("own", queue="x", priority=9),
        holder("a", queue="y", cpu=5),
        workload("p", queue="x", cpu=request_, priority=5),
    )
    plan = cycle(on)
    assert (evictions(plan)[0][0], [each.round for each in plan.verdicts]) == ("a", [kind])


def test_who_displaces_its_own_and_so_borrows_more_than_before_has_one_such_round() -> None:
    """0042: what it takes beyond the place of the lower one belongs to others."""
    on = state(queue("x", 3, cohort="r", within="LowerPriority", **BORROWS), queue("lender", 4, cohort="r"))
    kinds = []
    for at in (0, 3):
        on.hold(holder("low", queue="x", cpu=4, reserved=at))
        on.push(workload("p", queue="x", cpu=5, priority=1), seconds(at))
        if at == 0:
            on.hold(holder("full", queue="lender", cpu=2, priority=9))
        kinds += [each.round for each in cycle(on, at).verdicts]
        leave(on, "low", at=at + 1, returns=False)
        leave(on, "full", at=at + 1, returns=False)
        cycle(on, at + 2)
        leave(on, "p", at=at + 2, returns=False)
        on.hold(holder("full", queue="lender", cpu=2, priority=9))
    assert kinds == ["above", ""], "the second time it may not"


def test_less_important_ones_of_the_own_queue_do_not_count() -> None:
    on = state(queue("x", 0, cohort="r", within="LowerPriority", **BORROWS), queue("lender", 4, cohort="r"))
    for at in range(0, 12, 3):
        on.hold(holder("low", queue="x", cpu=4, reserved=at))
        on.push(workload("p", queue="x", cpu=4, priority=1), seconds(at))
        assert [each.round for each in cycle(on, at).verdicts] == ["free"], at
        leave(on, "low", at=at + 1, returns=False)
        cycle(on, at + 2)
        leave(on, "p", at=at + 2, returns=False)


@pytest.mark.parametrize(("nominal", "kind"), [(3, "above"), (4, "free")])
def test_an_equal_of_the_own_queue_counts_and_what_it_frees_does_too(nominal: int, kind: Round) -> None:
    on = state(
        queue("x", nominal, cohort="r", **OWN),
        queue("lender", 4 - nominal, cohort="r"),
        holder("newer", queue="x", cpu=4, queued=9),
        workload("p", queue="x", cpu=4, queued=1),
    )
    assert [each.round for each in cycle(on, 10).verdicts] == [kind]


def test_who_had_its_time_or_leaves_already_makes_no_round() -> None:
    timed = queue("x", 0, cohort="r", min_admit=60, **OWN)
    on = state(
        timed,
        queue("lender", 4, cohort="r"),
        holder("old", queue="x", cpu=4, queued=1, reserved=1),
        workload("p", queue="x", cpu=4, queued=2),
    )
    plan = cycle(on, 100)
    assert (evictions(plan), [each.round for each in plan.verdicts]) == ([("old", "InClusterQueueTimeBased")], [""])
    on = borrower(holder("a", queue="y", cpu=4, evicted=True, evicted_at=seconds(0)))
    assert [each.round for each in cycle(on, 1).verdicts] == [""]
    assert on.rounds.of(workload("p", queue="x")).total == 0


def test_a_deferred_entry_makes_no_round() -> None:
    on = state(
        queue("x", 2, cohort="r", **ANY), queue("y", 2, cohort="r", **ANY), queue("z", 0, cohort="r"),
        holder("t", queue="z", cpu=4), workload("px", queue="x", cpu=2), workload("py", queue="y", cpu=2, queued=1),
    )  # fmt: skip
    assert [(each.workload.uid, each.round) for each in cycle(on).verdicts] == [("px", "free"), ("py", "")]


# --- a round too many ------------------------------------------------------------------------------------------------


def test_the_first_that_counts_is_left_out_and_the_search_repeated() -> None:
    """Without b, which would make it a second round, the workload that leaves anyway is enough."""
    on = once()
    leave(on, "p", at=4)
    on.hold(holder("b", queue="y", cpu=4, reserved=5, priority=-1))
    on.configure(
        [queue("x", 0, cohort="r", **BORROWS), queue("y", 0, cohort="r"), queue("lender", 8, cohort="r")], [],
        on.flavors.values(),
    )  # fmt: skip
    on.hold(holder("c", queue="y", cpu=4, reserved=4, priority=3, evicted=True, evicted_at=seconds(4)))
    on.wake(QueueName("x"), seconds(5))
    plan = cycle(on, 5)
    assert (evictions(plan), [each.round for each in plan.verdicts]) == ([("c", "InCohortReclaimWhileBorrowing")], [""])


def test_it_takes_no_claim_either_when_that_would_be_a_round_too_many() -> None:
    on = once()
    leave(on, "p", at=4)
    on.pending.forget(next(iter(on.pending.list_of(QueueName("x")).waiting.values())))
    on.configure(
        [
            queue("x", 0, cohort="r", **BORROWS),
            queue("y", 0, cohort="r", within="LowerPriority", **BORROWS),
            queue("lender", 4, cohort="r"),
        ],
        [],
        on.flavors.values(),
    )  # fmt: skip
    on.hold(holder("low", queue="y", cpu=4, priority=-1, reserved=4))
    on.push(workload("claims", queue="y", cpu=4), seconds(4))
    assert evictions(cycle(on, 4)) == [("low", "InClusterQueue")]
    on.push(workload("p", queue="x", cpu=4, priority=9), seconds(5))
    (verdict,) = cycle(on, 5).verdicts
    assert (verdict.requeue, verdict.took) == ("PreemptionNoCandidates", ())
    on.rounds.end_for(workload("p", queue="x"))
    on.wake(QueueName("x"), seconds(6))
    assert [each.took for each in cycle(on, 6).verdicts] == [("default/claims",)]


def test_its_shape_does_not_share_the_verdict() -> None:
    on = once()
    twin = workload("twin", queue="x", cpu=4, priority=9, queued=6)
    assert outcomes(again(on, "b", at=5)) == {"p": "PreemptionNoCandidates"}
    on.push(twin, seconds(6))
    assert evictions(cycle(on, 6)) == [("b", "InCohortReclaimWhileBorrowing")]


def test_its_shape_does_not_share_the_verdict_either_where_only_one_flavor_was_barred() -> None:
    """In f1 it would borrow once more, which it may not; f2 is its own, but its borrower has a higher priority."""
    on = state(
        queue("x", {"f1": 0, "f2": 4}, cohort="r", **BORROWS),
        queue("y", {"f1": 0, "f2": 0}, cohort="r"),
        queue("lender", {"f1": 4}, cohort="r"),
        holder("low", queue="y", usage={"f1": 4}),
        holder("high", queue="y", usage={"f2": 4}, priority=99),
    )
    p, twin = (workload(name, queue="x", cpu=4, priority=9, queued=at) for name, at in (("p", 1), ("twin", 2)))
    on.rounds.add(p, "above", seconds(0))
    on.push(p, seconds(1))
    on.push(twin, seconds(2))
    assert outcomes(cycle(on, 3)) == {"p": "PreemptionNoCandidates"}
    assert evictions(cycle(on, 4)) == [("low", "InCohortReclaimWhileBorrowing")]


def test_a_round_counts_as_what_it_is_when_it_is_issued() -> None:
    """q takes back what x borrows, and its victim is gone when p's round is counted: x ends within 4."""
    on = state(
        queue("x", 4, cohort="r", **BORROWS),
        queue("y", 0, cohort="r"),
        queue("z", 4, cohort="r", **ANY),
        queue("lender", 1, cohort="r"),
        holder("of-x", queue="x", cpu=5, priority=-5),
        holder("of-y", queue="y", cpu=4, priority=-1),
        workload("q", queue="z", cpu=4),
        workload("p", queue="x", cpu=2),
    )
    plan = cycle(on)
    assert [(each.workload.uid, each.round) for each in plan.verdicts] == [("q", "free"), ("p", "free")]
    assert sorted(name for name, _ in evictions(plan)) == ["of-x", "of-y"]


def test_ten_rounds_of_any_kind_are_the_limit_and_the_breaker_is_counted() -> None:
    on = state(queue("x", 4, cohort="r", **ANY), queue("y", 0, cohort="r"), holder("a", queue="y", cpu=4))
    p = workload("p", queue="x", cpu=4)
    for _ in range(ROUNDS_MAX):
        assert not on.rounds.of(p).is_exhausted
        on.rounds.add(p, "free", seconds(0))
    on.push(p, seconds(1))
    plan = cycle(on, 1)
    assert (outcomes(plan), evictions(plan)) == ({"p": "PreemptionNoCandidates"}, [])
    assert on.rounds.exhausted == {"x": 1}


# --- who it is, and when it begins anew ------------------------------------------------------------------------------


def test_a_job_made_anew_is_the_same() -> None:
    rounds = Rounds(UndoLog(), 600_000)
    rounds.add(workload("first", owner="Job/default/train"), "above", seconds(0))
    assert rounds.of(workload("second", owner="Job/default/train")).is_too_many("above")
    assert not rounds.of(workload("second", owner="CronJob/default/train")).is_too_many("above")
    assert not rounds.of(workload("second", owner="Job/default/train")).is_too_many("free")


def test_a_change_of_its_own_ends_its_counts() -> None:
    on = once()
    on.rounds.end_for(workload("p", queue="x", priority=10))
    assert evictions(again(on, "b", at=5)) == [("b", "InCohortReclaimWhileBorrowing")]


@pytest.mark.parametrize(("where", "ends"), [("lender", True), ("elsewhere", False)])
def test_a_change_of_quota_or_policy_ends_the_counts_of_its_tree(where: str, ends: bool) -> None:
    on = once()
    on.rounds.end_in(on.tree_of(QueueName(where)) or [QueueName(where)])
    assert (on.rounds.of(workload("p", queue="x")).total == 0) is ends


def test_the_end_of_who_last_evicted_it_ends_its_counts_and_no_other_does() -> None:
    on = once()
    p, first, second = workload("p", queue="x"), workload("first"), workload("second")
    on.rounds.evicted(p, by=first)
    on.rounds.evicted(p, by=second)
    for unrelated in (first, workload("a", queue="y"), p):
        on.rounds.end_after(unrelated)
    assert on.rounds.of(p).above == 1, "arrivals and finishes of others concern nobody"
    on.rounds.end_after(second)
    assert on.rounds.of(p).above == 0


def test_an_eviction_is_remembered_before_any_round() -> None:
    on = once()
    assert on.rounds.of(workload("a", queue="y")).evicted_by == "default/p"
    on.rounds.add(workload("a", queue="y"), "above", seconds(0))
    on.rounds.end_after(workload("p", queue="x"))
    assert on.rounds.of(workload("a", queue="y")).above == 0


def test_counts_are_undone_with_a_trial() -> None:
    on = once()
    before = on.fingerprint()
    with on.trial():
        on.rounds.add(workload("p", queue="x"), "free", seconds(0))
        on.rounds.evicted(workload("p", queue="x"), by=workload("b"))
        on.rounds.barred(workload("p", queue="x"))
        assert on.fingerprint() != before
        on.rounds.end_in(on.tree_of(QueueName("x")))
        on.rounds.end_after(workload("b"))
    assert on.fingerprint() == before


# --- peace, time, and several Workloads of one owner (S-19.3.2, 19.3.3) --------------------------------------

TEN_MINUTES = 600


def test_rounds_end_when_it_loses_its_quota_by_time() -> None:
    """In a rotation a workload displaces the same lower priority with every turn: no quarrel, however often."""
    on = state(
        queue("q", 2, within="LowerOrNewerEqualPriority", min_admit=60),
        holder("w", cpu=2, queued=1, reserved=0, admitted=True),
        workload("v", cpu=1, queued=5),
    )
    w = on.holders.by_key[workload("w").key]
    for _ in range(ROUNDS_MAX):
        on.rounds.add(w, "free", seconds(0))
    assert evictions(cycle(on, 100)) == [("w", "InClusterQueueTimeBased")]
    assert on.rounds.of(w).is_exhausted
    leave(on, "w", reason="InClusterQueueTimeBased", at=110)
    assert on.rounds.of(w).total == 0


def quarrelling(reserved: int, policy: Policy | None = None) -> tuple[State, Workload]:
    """p has had its round above nominal, and holds quota since."""
    queues = queue("x", 2, cohort="r", **BORROWS), queue("y", 0, cohort="r"), queue("lender", 2, cohort="r")
    on = state(*queues, policy=policy)
    p = workload("p", queue="x", cpu=2)
    on.rounds.add(p, "above", seconds(0))
    on.hold(p.but(usage={FR_CPU: 2000}, reserved_at=seconds(reserved)))
    return on, on.holders.by_key[p.key]


@pytest.mark.parametrize(("held", "left"), [(TEN_MINUTES - 1, 1), (TEN_MINUTES, 0)])
def test_rounds_end_after_quota_was_held_in_peace(held: int, left: int) -> None:
    on, p = quarrelling(reserved=100)
    on.release(p, seconds(100 + held))
    assert on.rounds.of(p).above == left


@pytest.mark.parametrize("span", [25 * 86_400, 10 * 31_557_600, 2**63 // 10**9], ids=["25 days", "10 years", "most"])
def test_peace_may_be_as_long_as_a_duration(span: int) -> None:
    for held, left in ((600, 1), (span - 1, 1), (span, 0)):
        on, p = quarrelling(reserved=100, policy=replace(Policy.default(), rounds_end_after_ms=span * 1000))
        on.release(p, seconds(100 + held))
        assert on.rounds.of(p).above == left


@pytest.mark.parametrize(("victim", "left"), [("evicted", 1), ("by time", 0)])
def test_a_claim_that_is_not_on_victims_of_time_alone_disturbs_the_peace(victim: str, left: int) -> None:
    on, p = quarrelling(reserved=100)
    at = seconds(300)
    gone = holder("t", queue="y", cpu=1, evicted=True, evicted_at=at, preempted=victim == "evicted")
    on.hold(gone.but(displaced_at=at if victim == "by time" else None))
    claimant = workload("c", queue="y", cpu=1)
    on.push(claimant, at)
    claim = Claim((), ((gone.key, gone.uid),), at, seconds(900))
    on.claim(claimant, claim, preempts=True)
    on.unclaim(claimant.key, seconds(400))
    on.release(on.holders.by_key[gone.key], seconds(400))
    on.release(p, seconds(100 + TEN_MINUTES))
    assert on.rounds.of(p).above == left
    on.hold(p.but(reserved_at=seconds(800)))
    on.release(p, seconds(800 + TEN_MINUTES))
    assert on.rounds.of(p).above == 0, "and in the end there is peace again"


def test_a_victim_that_has_not_left_disturbs_it_though_the_claim_on_it_is_over() -> None:
    on, p = quarrelling(reserved=100)
    on.hold(holder("t", queue="y", cpu=1, evicted=True, evicted_at=seconds(300), preempted=True))
    on.release(p, seconds(300 + 2 * TEN_MINUTES))
    assert on.rounds.of(p).above == 1
    on.hold(p.but(reserved_at=seconds(2000)))
    on.release(on.holders.by_key[workload("t").key], seconds(2000))
    on.release(p, seconds(2000 + TEN_MINUTES))
    assert on.rounds.of(p).above == 0


def test_rounds_end_when_a_quarrel_begins_after_long_peace() -> None:
    on, p = quarrelling(reserved=100)
    claimant = workload("c", queue="y", cpu=1)
    on.push(claimant, seconds(100 + TEN_MINUTES))
    on.claim(claimant, Claim((), (), seconds(100 + TEN_MINUTES), seconds(9000)), preempts=True)
    assert on.rounds.of(p).above == 0


def test_peace_in_another_tree_ends_nothing_and_a_quarrel_there_disturbs_nobody() -> None:
    on, p = quarrelling(reserved=100)
    on.rounds.disturb("Cohort elsewhere", seconds(200))
    on.release(p, seconds(100 + TEN_MINUTES))
    assert on.rounds.of(p).above == 0


def owned(name: str, uid: str = "u1") -> Workload:
    return workload(name, owner="Set/default/train", owner_uid=uid)


def test_several_workloads_of_one_owner_are_not_one() -> None:
    rounds = Rounds(UndoLog(), 600_000)
    first, second = owned("first"), owned("second")
    rounds.know(first)
    rounds.add(first, "above", seconds(0))
    rounds.know(second)
    assert (rounds.of(first).above, rounds.of(second).above) == (1, 0)
    rounds.add(second, "free", seconds(0))
    rounds.end_after(first)
    assert (rounds.of(second).above, rounds.of(second).total) == (0, 1), "its counts go with it"


def test_an_owner_made_anew_is_the_same_though_the_old_workload_is_still_there() -> None:
    rounds = Rounds(UndoLog(), 600_000)
    rounds.know(owned("first"))
    rounds.add(owned("first"), "above", seconds(0))
    rounds.know(owned("second", uid="u2"))
    assert rounds.of(owned("second", uid="u2")).above == 1


def test_counts_that_move_with_their_workload_still_end_with_who_evicted_it() -> None:
    rounds = Rounds(UndoLog(), 600_000)
    first, by = owned("first"), workload("by")
    rounds.know(first)
    rounds.add(first, "above", seconds(0))
    rounds.evicted(first, by)
    rounds.know(owned("second"))
    rounds.end_after(by)
    assert rounds.of(first).above == 0


def test_who_is_barred_says_so_since_when_and_what_ends_it() -> None:
    on = once()
    p = workload("p", queue="x")
    on.rounds.evicted(p, by=workload("b", queue="y"))
    plan = again(on, "c", at=5)
    told = pending_message(plan.verdicts[0])
    assert pending_reason(plan.verdicts[0]) == "WaitingForQuota"
    assert told.partition("; ")[2] == (
        "may not displace others since 1970-01-01T00:00:01Z: ends when default/b, which displaced it last, finishes or "
        "is deleted, when it or the quota or policies of its cohort change, or after it has held quota for 10m while "
        "nobody there preempts but by time"
    )
