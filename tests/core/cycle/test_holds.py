"""What a waiting workload is entitled to is not lent (S-5.14), and victims are sought beside what is kept (S-5.15)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from makeway.core.cycle.cycle import heads
from makeway.core.messages import pending_message
from makeway.core.model import QueueName
from makeway.core.policy import Policy
from makeway.core.state import State
from makeway.testing.builders import Part, cycle, evictions, holder, leave, outcomes, queue, seconds, state, workload

LIKE_THE_PEER = replace(Policy.default(), entitled_hold="StrictFIFO")


def lent(*parts: Part, policy: Policy | None = None, owner: dict[str, Any] | None = None, **entitled: Any) -> State:
    """x owns 4 cpu, of which z has borrowed two twice; px waits in x for all four."""
    px = {"cpu": 4, "queued": 60, "priority": 100, **entitled}
    return state(
        queue("x", 4, cohort="co", **(owner or {})), queue("z", 0, cohort="co"),
        holder("z1", queue="z", cpu=2, reserved=0), holder("z2", queue="z", cpu=2, reserved=30),
        workload("px", queue="x", **px), *parts, policy=policy,
    )  # fmt: skip


def after_z1(on: State) -> State:
    """px was evaluated, then z1 ends and a borrower comes."""
    cycle(on, 60)
    leave(on, "z1", at=900, returns=False)
    on.push(workload("z3", queue="z", cpu=2, queued=840), seconds(900))
    return on


def borrows(on: State) -> bool:
    return "z3" in {each.workload.uid for at in (901, 902, 903) for each in cycle(on, at).admitted}


def test_what_it_is_entitled_to_is_not_lent_again() -> None:
    on = after_z1(lent())
    assert not borrows(on)
    leave(on, "z2", at=1350, returns=False)
    assert [each.workload.uid for each in cycle(on, 1350).admitted] == ["px"]


def test_the_borrower_is_told_for_whom_it_is_kept_and_waits_for_that() -> None:
    on = after_z1(lent())
    told = [each for each in cycle(on, 901).verdicts if each.workload.uid == "z3"]
    assert "what it needs is kept free for default/px" in pending_message(told[0])
    assert heads(on) == []
    on.forget(on.pending.list_of(QueueName("x")).members[workload("px").key], seconds(950))
    assert "z3" in {each.uid for each in heads(on)}


NO_HOLD = {
    "the peer's way": {"policy": LIKE_THE_PEER},
    "it could reclaim": {"owner": {"reclaim": "Any"}, "gated": True},
    "it asks for more than its queue owns": {"cpu": 5},
    "a strict queue that lends": {
        "owner": {"strict": True}, "policy": replace(Policy.default(), strict_fifo_lends=True)
    },
}  # fmt: skip


@pytest.mark.parametrize("how", NO_HOLD.values(), ids=list(NO_HOLD))
def test_where_nothing_is_held_the_borrower_gets_in(how: dict[str, Any]) -> None:
    assert borrows(after_z1(lent(**how)))


def test_a_workload_that_its_own_queue_keeps_out_holds_nothing() -> None:
    """x's own holder has two of the four."""
    on = state(
        queue("x", 4, cohort="co"), queue("z", 1, cohort="co"), holder("own", queue="x", cpu=2),
        holder("z1", queue="z", cpu=3), workload("px", queue="x", cpu=4, queued=60),
    )  # fmt: skip
    cycle(on, 60)
    leave(on, "z1", at=900, returns=False)
    on.push(workload("z3", queue="z", cpu=3, queued=840), seconds(900))
    assert borrows(on)


def test_a_workload_within_its_own_quota_is_not_held_up() -> None:
    on = lent(queue("y", 2, cohort="co"), holder("of-y", queue="z", cpu=2, reserved=40))
    after_z1(on)
    on.push(workload("mine", queue="y", cpu=2, queued=880), seconds(900))
    found = {each.workload.uid for at in (901, 902) for each in cycle(on, at).admitted}
    assert found == {"mine"}


def test_workloads_of_its_own_queue_may_use_it_and_then_it_is_held_no_more() -> None:
    on = after_z1(lent())
    on.push(workload("small", queue="x", cpu=1, queued=70), seconds(901))
    admitted = [each.workload.uid for at in (901, 902, 903) for each in cycle(on, at).admitted]
    assert admitted == ["small"], "px asks for more than small leaves of their queue, and holds nothing"
    on.push(workload("tiny", queue="z", cpu=1, queued=850), seconds(904))
    assert "tiny" in {each.workload.uid for at in (905, 906) for each in cycle(on, at).admitted}


def test_of_a_queue_the_first_has_the_hold() -> None:
    on = lent(workload("later", queue="x", cpu=1, queued=70, priority=100))
    cycle(on, 60)
    cycle(on, 61)
    assert on.pending.entitlements.firsts() == {
        "x": ("default/px", on.pending.list_of(QueueName("x")).entitled[workload("px").key])
    }
    on.forget(on.pending.list_of(QueueName("x")).members[workload("px").key], seconds(62))
    assert [key for key, _ in on.pending.entitlements.firsts().values()] == ["default/later"]


def test_a_stopped_queue_holds_nothing() -> None:
    on = after_z1(lent())
    stopped = [(replace(each, active=each.name != "x"), on.tree.queues[each.name]) for each in on.queues.values()]
    on.queues = {each.name: each for each, _ in stopped}
    on.wake(QueueName("z"), seconds(901))
    assert borrows(on)


def test_holds_are_undone_with_a_trial() -> None:
    on = lent()
    before = on.fingerprint()
    with on.trial():
        cycle(on, 60)
        assert on.pending.entitlements.firsts()
    assert on.fingerprint() == before
    assert not on.pending.entitlements.firsts()


# --- victims beside what is kept (S-5.15) ----------------------------------------------------------------------------


def strict_neighbour(policy: Policy | None = None) -> State:
    """s keeps one cpu free for its head; without that w could do with e alone."""
    return state(
        queue("x", 3, cohort="co", within="LowerPriority"), queue("s", 2, cohort="co", strict=True),
        holder("s1", queue="s", cpu=1), holder("h", queue="x", cpu=2, priority=-10, reserved=2),
        holder("e", queue="x", cpu=1, priority=-10, reserved=4), workload("s2", queue="s", cpu=2, queued=10),
        policy=policy,
    )  # fmt: skip


def test_an_entry_that_fails_only_by_what_is_reserved_searches_again_beside_that() -> None:
    on = strict_neighbour()
    assert outcomes(cycle(on, 10)) == {"s2": "PreemptionNoCandidates"}
    on.push(workload("w", queue="x", cpu=2, queued=900), seconds(900))
    assert evictions(cycle(on, 900)) == [("h", "InClusterQueue")]


def test_without_claims_it_waits_as_in_the_recorded_system() -> None:
    gates = replace(Policy.default().gates, preemption_claims=False)
    on = strict_neighbour(replace(Policy.default(), gates=gates))
    cycle(on, 10)
    on.push(workload("w", queue="x", cpu=2, queued=900), seconds(900))
    plan = cycle(on, 900)
    assert (evictions(plan), [each.held_back for each in plan.verdicts]) == ([], [True])


def test_where_that_finds_nobody_it_is_held_back_and_its_scan_stays() -> None:
    on = strict_neighbour()
    cycle(on, 10)
    leave(on, "h", at=800, returns=False)
    on.hold(holder("big", queue="x", cpu=2, priority=9))
    on.push(workload("w", queue="x", cpu=2, queued=900), seconds(900))
    plan = cycle(on, 900)
    assert (evictions(plan), [each.workload.uid for each in plan.verdicts if each.held_back]) == ([], ["w"])
    assert heads(on) == []


def test_one_whose_gate_is_closed_is_held_back_and_not_parked_for_its_gate() -> None:
    """It was found to fit; when the reservation ends it is due, whatever its gate says."""
    on = strict_neighbour()
    cycle(on, 10)
    on.push(workload("w", queue="x", cpu=1, queued=900, gated=True), seconds(900))
    plan = cycle(on, 900)
    assert [(each.workload.uid, each.held_back, each.mode) for each in plan.verdicts] == [("w", True, "Fit")]
    on.forget(on.pending.list_of(QueueName("s")).members[workload("s2").key], seconds(950))
    assert "w" in {each.uid for each in heads(on)}
