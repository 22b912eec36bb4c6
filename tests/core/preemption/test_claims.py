"""Claims: what is freed for a workload is kept for it, and no longer than it should be (S-19.1, S-10.13)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from makeway.core.cycle.cycle import Plan, carry_out, decide, heads
from makeway.core.model import Claim, ClaimedSet, FlavorName, Millis, QueueName, Uid, Workload, WorkloadKey
from makeway.core.planning import plan_cycles
from makeway.core.policy import Policy
from makeway.core.preemption import claims
from makeway.core.state import State
from makeway.core.trace import Rule
from makeway.testing.builders import (
    CPU,
    FLAVOR,
    FR_CPU,
    cohort,
    cycle,
    evictions,
    holder,
    leave,
    outcomes,
    queue,
    seconds,
    state,
    workload,
)  # fmt: skip

ANY: dict[str, Any] = {"reclaim": "Any"}
LOWER: dict[str, Any] = {"within": "LowerPriority"}
BORROWS: dict[str, Any] = {"reclaim": "LowerPriority", "borrow": "LowerPriority"}
TIMEOUT = 300  # seconds: claimTimeout
GRACE = 30


def claims_of(on: State) -> dict[str, list[str]]:
    """The claimants, and the victims that each counts on."""
    known = on.claims.within(sorted(on.claims.of_queue))
    return {each.uid: [uid for _, uid in each.claim.victims] for each in known}


def ended(plan: Plan) -> dict[str, str]:
    return {each.workload.uid: each.why for each in plan.ended}


def used(on: State, name: str) -> float:
    return on.tree.queues[name].usage.get(FR_CPU, 0) / 1000


def waits(on: State, uid: str) -> Workload:
    lines = on.pending.lists.values()
    return next(each for line in lines for each in (*line.waiting.values(), *line.parked.values()) if each.uid == uid)


def two_victims() -> State:
    """p needs the room of a and b; a leaves first."""
    return state(
        queue("q", 4, **LOWER),
        holder("a", cpu=2, reserved=1),
        holder("b", cpu=2, reserved=2),
        workload("p", cpu=4, priority=1),
    )


def stored_claim(*victims: str, issued: float = 5, until: float = 500, count: int = 1) -> Claim:
    return Claim(
        sets=(ClaimedSet("main", {CPU: FLAVOR}, count),),
        victims=tuple((WorkloadKey(f"default/{each}"), Uid(each)) for each in victims),
        issued_at=seconds(issued),
        expires_at=seconds(until),
    )


# --- who gets one ----------------------------------------------------------------------------------------------------


def test_who_issues_preemptions_claims_its_assignment_and_its_targets() -> None:
    on = two_victims()
    (verdict,) = cycle(on, 10).verdicts
    assert verdict.claim == Claim(
        sets=(ClaimedSet("main", {CPU: FLAVOR}, 1),),
        victims=((WorkloadKey("default/b"), Uid("b")), (WorkloadKey("default/a"), Uid("a"))),
        issued_at=seconds(10),
        expires_at=seconds(10 + GRACE + TIMEOUT),
    )
    assert waits(on, "p").claim == verdict.claim
    assert {each.evicted_at for each in on.holders.of_queue[QueueName("q")].values()} == {seconds(10)}


def test_a_deferred_entry_claims_on_all_victims_of_its_tree_that_are_still_there() -> None:
    on = state(
        *(queue(name, 2, cohort="r", **ANY) for name in "xyu"),
        queue("z", 0, cohort="r"),
        queue("far", 1, cohort="other", **LOWER),
        holder("t1", queue="z", cpu=4, reserved=2),
        holder("t2", queue="z", cpu=2, reserved=1),
        holder("t3", queue="far", cpu=1),
        workload("px", queue="x", cpu=2, queued=1),
        workload("py", queue="y", cpu=2, queued=2),
        workload("pf", queue="far", cpu=1, priority=1),
    )
    plan = cycle(on)
    assert [each.mode for each in plan.verdicts if each.workload.uid == "py"] == ["DeferredFit"]
    assert claims_of(on) == {"px": ["t1"], "py": ["t1"], "pf": ["t3"]}
    on.push(workload("pu", queue="u", cpu=2), seconds(1))
    cycle(on, 1)
    assert claims_of(on)["pu"] == ["t2"], "of its own: in the tree as it will be only t2 is left to displace"


def test_a_migration_claims_on_the_sibling_that_leaves_for_it() -> None:
    groups = queue("q", {"f1": 2, "f2": 2}, on_success="RemoveLower")
    allowed = [replace(workload(n, cpu=2).pod_sets[0], allowed=frozenset({FlavorName(n)})) for n in ("f1", "f2")]
    on = state(
        groups,
        holder("s", usage={"f2": 2}, family=Uid("parent"), option_rank=1, admitted=True, pod_sets=(allowed[1],)),
        workload("o", family=Uid("parent"), option_rank=0, pod_sets=(allowed[0],)),
    )
    plan = cycle(on)
    assert (outcomes(plan), claims_of(on)) == ({"o": "PendingMigration"}, {"o": ["s"]})
    assert heads(on) == [], "S-5.1 not while its victim is charged"
    leave(on, "s", at=5)
    assert outcomes(cycle(on, 6)) == {"o": "admitted"}, "S-4.2 one Option of a family is an entry, the claimant"


def test_who_is_admitted_or_refused_claims_nothing() -> None:
    on = state(queue("q", 2), workload("a", cpu=2), workload("b", cpu=2, queued=1))
    assert [each.claim for each in (*cycle(on).verdicts, *cycle(on).verdicts)] == [None, None]


@pytest.mark.parametrize("gate", ["preemption_claims"])
def test_without_the_gate_nobody_claims_and_a_stored_claim_is_passed_over(gate: str) -> None:
    policy = Policy.default()
    policy = replace(policy, gates=replace(policy.gates, **{gate: False}))
    on = state(queue("q", 2, **LOWER), holder("a", cpu=2), workload("p", cpu=2, priority=1), policy=policy)
    assert [each.claim for each in cycle(on).verdicts] == [None]
    on.push(workload("p", cpu=2, priority=1).but(claim=stored_claim("a")), seconds(1))
    assert len(on.claims) == 0


# --- rule 1: the tree as it will be ----------------------------------------------------------------------------------


@pytest.mark.parametrize("thief", ["a", "third"])
def test_P6_what_a_victim_frees_early_is_kept_from_it_and_from_others(thief: str) -> None:
    on = two_victims()
    cycle(on, 10)
    leave(on, "a", at=11)
    if thief == "third":
        on.push(workload("third", cpu=2), seconds(11))
        on.pending.forget(waits(on, "a"))
    assert outcomes(cycle(on, 12)) == {thief: "PreemptionNoCandidates"}
    leave(on, "b", at=13)
    assert outcomes(cycle(on, 14))["p"] == "admitted"
    assert used(on, "q") == 4


def test_P6_a_victim_that_never_goes_holds_nobody_for_ever() -> None:
    on = two_victims()
    cycle(on, 10)
    leave(on, "a", at=11)
    cycle(on, 12)
    until = 10 + GRACE + TIMEOUT
    assert claims.next_deadline(on) == seconds(until)
    assert claims.overdue(on, seconds(until - 1)) == []
    assert [each.uid for each in claims.overdue(on, seconds(until))] == ["p"]
    for each in claims.overdue(on, seconds(until)):
        claims.end(on, each.key, claims.EXPIRED, seconds(until))
    assert waits(on, "p").claim is None
    plan = cycle(on, until)
    assert (outcomes(plan), evictions(plan)) == ({"p": "PreemptionNoCandidates"}, []), "b is a candidate no more"
    assert outcomes(cycle(on, until + 1)) == {"a": "admitted"}, "and blocks nobody else"
    assert claims.next_deadline(on) is None


def test_who_fits_both_trees_is_admitted_beside_a_claim() -> None:
    on = state(
        queue("x", 4, cohort="r", **ANY), queue("y", 4, cohort="r"), queue("z", 2, cohort="r"),
        holder("t", queue="y", cpu=7), workload("px", queue="x", cpu=4),
    )  # fmt: skip
    assert evictions(cycle(on)) == [("t", "InCohortReclamation")]
    on.push(workload("small", queue="z", cpu=2), seconds(1))
    assert outcomes(cycle(on, 1)) == {"small": "admitted"}
    on.push(workload("more", queue="z", cpu=2), seconds(2))
    plan = cycle(on, 2)
    assert [(each.workload.uid, each.mode) for each in plan.verdicts] == [("more", "DeferredFit")], "only as it will be"
    assert claims_of(on) == {"px": ["t"], "more": ["t"]}


def test_claims_show_in_no_usage() -> None:
    on = two_victims()
    before = on.tree.contents()
    cycle(on, 10)
    cycle(on, 11)
    assert on.tree.contents() == before


def test_S_5_1_who_lost_to_a_claim_of_the_cycle_is_due_when_that_has_ended() -> None:
    on = state(
        queue("x", 4, cohort="r", **ANY), queue("y", 0, cohort="r"), queue("z", 0, cohort="r"),
        holder("t", queue="z", cpu=2), workload("px", queue="x", cpu=4), workload("py", queue="y", cpu=2, queued=1),
    )  # fmt: skip
    plan = cycle(on)
    assert outcomes(plan) == {"px": "PendingPreemption", "py": "FailedAfterNomination"}
    assert [each.held_back for each in plan.verdicts] == [False, True]
    assert heads(on) == []
    claims.end(on, WorkloadKey("default/px"), "for a test", seconds(1))
    assert {each.uid for each in heads(on)} == {"px", "py"}


# --- rule 2: redeeming -----------------------------------------------------------------------------------------------


def test_P1_the_victim_is_not_admitted_ahead_of_who_displaced_it() -> None:
    """The victim is older and borrows less far, for it needs no gpu; a claim comes before both."""
    on = state(
        cohort("l", parent="r"), cohort("m", parent="r"),
        queue("x", {FLAVOR: {"cpu": 0, "gpu": 0}}, cohort="l", **BORROWS), queue("y", 0, cohort="l"),
        queue("lender", 4, cohort="l"), queue("gpus", {FLAVOR: {"gpu": 1}}, cohort="m"),
        holder("old", queue="y", cpu=4),
        workload("high", queue="x", requests={"cpu": 4, "gpu": 1}, priority=9, queued=5),
    )  # fmt: skip
    assert evictions(cycle(on, 10)) == [("old", "InCohortReclaimWhileBorrowing")]
    leave(on, "old", at=11)
    plan = cycle(on, 12)
    assert [each.workload.uid for each in plan.verdicts] == ["high", "old"]
    assert plan.verdicts[0].steps[0].rule is Rule.CLAIMED
    for at in range(13, 20):
        assert evictions(cycle(on, at)) == [], "at most one preemption"
    assert used(on, "x") == 4


def test_a_claimant_is_not_assigned_anew() -> None:
    """Once the victim is gone the first flavor would do; it gets the second, as claimed."""
    on = state(
        queue("q", {"f1": 2, "f2": 2}, **LOWER, try_next_when_preempting=False),
        holder("high", usage={"f1": 2}, priority=9),
        holder("low", usage={"f2": 2}),
        workload("p", cpu=2, priority=1),
    )
    assert evictions(cycle(on)) == [("low", "InClusterQueue")]
    leave(on, "high", at=1, returns=False)
    leave(on, "low", at=1, returns=False)
    assert cycle(on, 2).verdicts[0].assignment.usage == {("f2", "cpu"): 2000}


def test_claimants_come_oldest_first_then_by_uid_and_before_all_others() -> None:
    on = state(
        *(queue(name, 1, **LOWER) for name in ("b", "a", "c", "d")),
        *(holder(f"h{name}", queue=name) for name in "abc"),
        workload("pb", queue="b", priority=1), workload("pc", queue="c", priority=1),
    )  # fmt: skip
    cycle(on, 10)
    on.push(workload("pa", queue="a", priority=1), seconds(11))
    cycle(on, 11)
    leave(on, "ha", "hb", "hc", at=12, returns=False)
    on.push(workload("pd", queue="d", priority=99), seconds(12))
    assert [each.workload.uid for each in cycle(on, 13).verdicts] == ["pb", "pc", "pa", "pd"]


def test_P5_the_waiting_preemptor_is_not_pushed_aside_by_an_oversize_head() -> None:
    on = state(
        queue("x", 4, cohort="r", **ANY), queue("y", 0, cohort="r"),
        holder("lent", queue="y", cpu=4), workload("big", queue="x", cpu=9), workload("p", queue="x", cpu=4, queued=1),
    )  # fmt: skip
    assert outcomes(cycle(on, 10)) == {"big": "NoFit"}
    assert outcomes(cycle(on, 11)) == {"p": "PendingPreemption"}
    on.wake(QueueName("x"), seconds(12))
    assert outcomes(cycle(on, 12)) == {"big": "NoFit"}, "p's victim is still there: the others are looked at"
    leave(on, "lent", at=13)
    assert outcomes(cycle(on, 14))["p"] == "admitted"


def test_a_claim_is_redeemed_only_once_it_fits_the_tree_as_it_is() -> None:
    """The victims of p are gone; t, larger than what was claimed on it, still fills the room."""
    on = state(
        queue("x", 5, cohort="r"),
        queue("y", 5, cohort="r"),
        queue("z", 0, cohort="r"),
        holder("t", queue="z", cpu=8, evicted=True, evicted_at=seconds(5)),
        workload("p", queue="x", cpu=5, claim=stored_claim("gone")),
        workload("q", queue="y", cpu=5, claim=stored_claim("t")),
    )
    plan = cycle(on, 6)
    assert [(each.workload.uid, each.mode, each.claim) for each in plan.verdicts] == [
        ("p", "DeferredFit", stored_claim("gone"))
    ]
    assert heads(on) == [], "not before something has changed"
    leave(on, "t", at=7, returns=False)
    assert outcomes(cycle(on, 8)) == {"p": "admitted", "q": "admitted"}


def test_in_a_strict_queue_only_the_head_claims() -> None:
    on = state(queue("q", 4, strict=True, **LOWER), holder("a", cpu=4), workload("p", cpu=4, priority=1))
    cycle(on, 10)
    assert heads(on) == []
    on.push(workload("first", cpu=3, priority=5), seconds(11))
    plan = cycle(on, 11)
    assert ended(plan) == {"p": claims.NOT_HEAD}
    assert evictions(plan) == [("a", "InClusterQueue")]
    assert claims_of(on) == {"first": ["a"]}


def test_P8_two_preemptors_of_one_lender_never_share_one_victims_quota() -> None:
    on = state(
        queue("x", 3, cohort="r", **ANY), queue("y", 3, cohort="r", **ANY), queue("z", 0, cohort="r"),
        holder("z1", queue="z", cpu=3, reserved=1), holder("z2", queue="z", cpu=3, reserved=2),
        workload("px", queue="x", cpu=3, queued=1), workload("py", queue="y", cpu=3, queued=2),
    )  # fmt: skip
    plan = cycle(on)
    assert (sorted(evictions(plan)), claims_of(on)) == (
        [("z1", "InCohortReclamation"), ("z2", "InCohortReclamation")], {"px": ["z2"], "py": ["z1"]},
    )  # fmt: skip
    leave(on, "z1", at=5)
    assert outcomes(cycle(on, 6))["py"] == "admitted"
    assert used(on, "x") == 0, "its own victim is still there"
    leave(on, "z2", at=7)
    cycle(on, 8)
    assert (used(on, "x"), used(on, "y"), used(on, "z")) == (3, 3, 0)


@pytest.mark.parametrize("strict", [True, False])
def test_83_a_over_several_cycles_the_borrower_does_not_get_in_before_the_entitled(strict: bool) -> None:
    """x's head reclaims what y holds beyond its quota; y's next one would borrow it again as soon as it is free."""
    on = state(
        queue("x", 6, cohort="r", strict=strict, **ANY),
        queue("y", 2, cohort="r", strict=strict),
        *(holder(f"y{i}", queue="y", cpu=2, reserved=i, priority=9) for i in range(4)),
        workload("entitled", queue="x", cpu=6, queued=5),
        workload("borrower", queue="y", cpu=2, priority=9, queued=1),
    )
    assert len(evictions(cycle(on, 10))) == 3
    for at, victim in ((11, "y3"), (13, "y2")):
        leave(on, victim, at=at)
        assert "admitted" not in outcomes(cycle(on, at + 1)).values()
    leave(on, "y1", at=15)
    assert outcomes(cycle(on, 16))["entitled"] == "admitted"
    assert (used(on, "x"), used(on, "y")) == (6, 2)


# --- rule 3: taking --------------------------------------------------------------------------------------------------


def taken() -> tuple[State, Plan]:
    """low claims a's room; high, of the same queue, arrives while a is leaving."""
    on = state(
        queue("q", 4, within="LowerPriority"), holder("a", cpu=4, priority=-1), workload("low", cpu=4, grace_ms=60_000)
    )
    cycle(on, 10)
    on.push(workload("high", cpu=4, priority=5), seconds(20))
    return on, cycle(on, 20)


def test_who_may_displace_the_claimant_takes_its_claim_and_inherits_the_victims() -> None:
    on, plan = taken()
    (verdict,) = plan.verdicts
    assert (verdict.status, verdict.took, verdict.targets) == ("preempting", ("default/low",), ())
    assert (verdict.round, [str(step) for step in verdict.steps]) == ("free", ["priority 0 is below 5"])
    assert ended(plan) == {"low": "taken by default/high"}
    assert claims_of(on) == {"high": ["a"]}
    assert verdict.claim is not None
    assert verdict.claim.expires_at == seconds(10 + GRACE + TIMEOUT), "a's deadline, not a new one"
    assert waits(on, "low").claim is None
    leave(on, "a", at=21, returns=False)
    assert outcomes(cycle(on, 22)) == {"high": "admitted", "low": "PreemptionNoCandidates"}


def test_taking_a_claim_counts_as_an_eviction_of_the_claimant() -> None:
    on, _ = taken()
    assert on.rounds.of(waits(on, "low")).evicted_by == "default/high"
    assert on.rounds.of(waits(on, "high")).total == 1


def test_who_may_not_displace_the_claimant_takes_nothing() -> None:
    on = state(queue("q", 4, within="LowerPriority"), holder("a", cpu=4, priority=-1), workload("low", cpu=4))
    cycle(on, 10)
    on.push(workload("equal", cpu=4), seconds(20))
    plan = cycle(on, 20)
    assert (outcomes(plan), claims_of(on)) == ({"equal": "PreemptionNoCandidates"}, {"low": ["a"]})


@pytest.mark.parametrize(("name", "takes"), [("v", ()), ("other", ("default/p",))])
def test_a_victim_takes_no_claim_that_counts_on_it(name: str, takes: tuple[str, ...]) -> None:
    """x borrows for p and p2, which are of low priority: any workload but their own victim may take their claims."""
    on = state(
        queue("x", 4, cohort="r"),
        queue("y", 0, cohort="r", **BORROWS),
        queue("z", 2, cohort="r"),
        holder("s", queue="y", cpu=6, priority=9, evicted=True, evicted_at=seconds(5)),
        workload("p", queue="x", cpu=4, claim=stored_claim("s", "v")),
        workload("p2", queue="x", cpu=1, claim=stored_claim("s", "v")),
        workload(name, queue="y", cpu=2, priority=9),
    )
    (verdict,) = cycle(on, 6).verdicts
    assert verdict.took == takes
    assert verdict.requeue == ("PendingPreemption" if takes else "PreemptionNoCandidates")


# --- rule 4: ends ----------------------------------------------------------------------------------------------------


def claiming(**settings: Any) -> State:
    """p, as read from its object, waits for a to leave."""
    return state(
        queue("q", 4, cohort="r", **LOWER),
        queue("other", 4, cohort="r"),
        holder("a", cpu=4, evicted=True, evicted_at=seconds(5)),
        holder("o", queue="other", cpu=4, priority=9),
        workload("p", cpu=4, priority=1, claim=stored_claim("a"), **settings),
        workload("parked", queue="other", cpu=1),
    )


def test_S_3_11_a_restart_takes_a_claim_up_as_stored() -> None:
    on = claiming()
    assert claims_of(on) == {"p": ["a"]}
    assert [head.uid for head in heads(on)] == ["parked"]
    on.push(workload("later", priority=99), seconds(6))
    assert on.pending.first(QueueName("q")) == "default/p", "sticky again"
    leave(on, "a", at=10, returns=False)
    assert outcomes(cycle(on, 11))["p"] == "admitted"


CHANGES = {
    "priority": {"priority": 2},
    "spec": {"pod_sets": workload("x", cpu=3).pod_sets},
    "reclaimable pods": {"pod_sets": workload("x", cpu=4, count=0).pod_sets},
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_it_ends_when_the_workload_changed(change: dict[str, Any]) -> None:
    on = claiming()
    cycle(on, 6)
    on.push(waits(on, "p").but(**change), seconds(7))
    assert [each.uid for each in claims.overdue(on, seconds(7))] == ["p"]
    on.wake(QueueName("q"), seconds(7))
    assert ended(decide(on, seconds(8))) == {"p": claims.CHANGED}


def test_it_ends_when_a_gate_that_it_needed_closes() -> None:
    on = claiming()
    on.push(waits(on, "p").but(gated=True), seconds(7))
    assert ended(decide(on, seconds(8))) == {"p": claims.GATED}
    on = claiming(gated=True)
    assert ended(decide(on, seconds(8))) == {}, "it was closed all the time: the claim waits for victims of others"


def test_it_ends_when_its_queue_stops_or_a_flavor_goes() -> None:
    other = queue("other", 4, cohort="r")
    on = claiming()
    on.configure([queue("q", 4, cohort="r", active=False), other], [], on.flavors.values())
    assert ended(decide(on, seconds(8))) == {"p": claims.STOPPED}
    on = claiming()
    on.configure([queue("q", {"new": 4}, cohort="r"), other], [], on.flavors.values())
    assert ended(decide(on, seconds(8))) == {"p": claims.FLAVOR_GONE}


def test_it_ends_when_it_no_longer_fits_and_of_two_the_older_stays() -> None:
    on = state(
        queue("x", 2, cohort="r"), queue("y", 2, cohort="r"),
        workload("old", queue="x", cpu=2, claim=stored_claim(issued=1)),
        workload("new", queue="y", cpu=2, claim=stored_claim(issued=2)),
        workload("late", queue="y"),
    )  # fmt: skip
    assert claims.overdue(on, seconds(5)) == []
    on.configure([queue("x", 2, cohort="r"), queue("y", 1, cohort="r")], [], on.flavors.values())
    assert [each.uid for each in claims.overdue(on, seconds(5))] == ["new"]
    assert ended(decide(on, seconds(5))) == {"new": claims.NO_ROOM}


def test_it_ends_at_its_deadline_also_in_a_cycle_and_is_never_extended() -> None:
    on = two_victims()
    first = cycle(on, 10).verdicts[0].claim
    on.wake(QueueName("q"), seconds(100))
    on.push(waits(on, "p").but(), seconds(200))
    known = on.claims.find(WorkloadKey("default/p"))
    assert known is not None
    assert known.claim is first
    on.push(workload("other"), seconds(341))
    assert ended(decide(on, seconds(339))) == {}
    assert ended(decide(on, seconds(340))) == {"p": claims.EXPIRED}


def test_its_deadline_goes_by_the_slowest_victim() -> None:
    on = state(
        queue("q", 4, **LOWER),
        holder("slow", cpu=2, grace_ms=600_000),
        holder("early", cpu=2, evicted=True, evicted_at=seconds(2)),
        workload("p", cpu=4, priority=1),
    )
    (verdict,) = cycle(on, 10).verdicts
    assert verdict.claim is not None
    assert verdict.claim.expires_at == seconds(10 + 600 + TIMEOUT)
    assert claims.next_deadline(on) == seconds(2 + GRACE + TIMEOUT), "early's patience ends before"
    early = 2 + GRACE + TIMEOUT
    assert [each.uid for each in claims.overdue(on, seconds(early))] == ["p"], "it is credited no more"
    on.configure([queue("q", 6, **LOWER)], [], on.flavors.values())
    assert claims.overdue(on, seconds(early)) == [], "with more quota it does without"
    assert claims.next_deadline(on) == verdict.claim.expires_at, "and early is not asked about again"


def test_every_end_wakes_the_tree_by_admission_too() -> None:
    on = claiming()
    on.propagates_refusals = False  # else a workload that is certainly refused stays parked
    cycle(on, 6)
    assert list(on.pending.list_of(QueueName("other")).parked) == ["default/parked"]
    with on.trial():
        assert claims.end(on, WorkloadKey("default/p"), "for a test", seconds(7)) is not None
        assert {each.uid for each in heads(on)} == {"p", "parked"}
    with on.trial():
        on.forget(waits(on, "p"), seconds(7))
        assert {each.uid for each in heads(on)} == {"parked"}
    with on.trial():
        on.push(waits(on, "p").but(claim=None), seconds(7))
        assert {each.uid for each in heads(on)} == {"p", "parked"}, "an update whose claim is gone ends it"
    on.release(on.holders.by_key[WorkloadKey("default/a")])
    on.pending.due([QueueName("q")])
    assert outcomes(cycle(on, 8))["p"] == "admitted"
    assert len(on.claims) == 0
    assert {each.uid for each in heads(on)} == {"parked"}


def test_who_is_gone_claims_nothing_any_more() -> None:
    on = claiming()
    on.pending.forget(waits(on, "p"))
    assert len(on.claims) == 0
    assert claims.end(on, WorkloadKey("default/p"), "", seconds(6)) is None


# --- traps of the field ----------------------------------------------------------------------------------------------


def test_P15_after_a_failed_eviction_the_claim_ends_and_a_fresh_plan_is_made() -> None:
    on = state(
        queue("q", 3, **LOWER),
        *(holder(name, reserved=i) for i, name in enumerate("abc")),
        workload("p", cpu=3, priority=1),
    )
    assert len(evictions(cycle(on, 10))) == 3
    claims.end(on, WorkloadKey("default/p"), "an eviction failed", seconds(11))
    asked = on.holders.by_key[WorkloadKey("default/b")]
    on.holders.remove(asked)
    on.holders.add(asked.but(evicted=False, evicted_at=None))
    plan = cycle(on, 12)
    assert [uid for uid, _ in evictions(plan)] == ["c", "a", "b"], "who is on the way out comes first"
    assert on.holders.by_key[WorkloadKey("default/a")].evicted_at == seconds(10)
    assert on.holders.by_key[WorkloadKey("default/b")].evicted_at == seconds(12)


def test_P16_who_left_and_came_back_or_was_made_anew_holds_no_claim_up() -> None:
    on = two_victims()
    cycle(on, 10)
    leave(on, "a", "b", at=11, returns=False)
    on.hold(holder("a", cpu=1, reserved=12))
    on.hold(holder("b", cpu=1, reserved=3, uid=Uid("another")))
    assert [head.uid for head in heads(on)] == ["p"]
    evicted = on.holders.by_key[WorkloadKey("default/a")].but(evicted=True, evicted_at=seconds(13))
    on.release(evicted)
    on.hold(evicted)
    assert [head.uid for head in heads(on)] == ["p"], "for somebody else"


def test_P17_one_eviction_however_often_somebody_looks() -> None:
    on = two_victims()
    found = [*evictions(cycle(on, 10))]
    for at in (11, 12, 13):
        on.wake(QueueName("q"), seconds(at))
        found += evictions(cycle(on, at))
    assert sorted(uid for uid, _ in found) == ["a", "b"]


def test_a_plan_goes_on_where_stored_claims_are() -> None:
    plan = plan_cycles(claiming(), seconds(20))
    assert plan.settled
    assert [[each.workload.uid for each in each.plan.admitted] for each in plan.cycles][:2] == [[], ["p"]]
    plan = plan_cycles(claiming(), seconds(500))
    assert plan.cycles[0].plan.ended == ()
    assert "p" not in {each.workload.uid for cycle in plan.cycles for each in cycle.plan.admitted}, "a is stuck"


# --- what it leaves --------------------------------------------------------------------------------------------------


def test_carrying_out_a_plan_in_a_trial_leaves_claims_and_rounds_as_they_were() -> None:
    on, plan = taken()
    before = on.fingerprint()
    on.push(workload("higher", cpu=4, priority=9), seconds(21))
    with on.trial():
        carry_out(on, decide(on, Millis(21_000)))
        assert claims_of(on) == {"higher": ["a"]}
        claims.end(on, WorkloadKey("default/higher"), "", Millis(21_000))
    on.pending.forget(waits(on, "higher"))
    assert on.fingerprint() == before
    assert plan.now == seconds(20)
