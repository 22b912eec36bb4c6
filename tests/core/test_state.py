"""One state: what it keeps of a scan, which queues share a tree, what a fingerprint covers (S-3.8, 6.8)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from makeway.core.model import InvariantError, QueueName, ResourceName, invariant, stored
from makeway.core.state import State
from makeway.testing.builders import CPU, Part, cohort, holder, queue, seconds, state, workload

W = workload("w", cpu=2)
STOPPED_AT_FIRST = {(0, CPU): 0}


def world(*more: Part) -> State:
    return state(queue("q", {"f1": 4, "f2": 4}, cohort="l"), cohort("l", parent="r"), queue("y", 1, cohort="r"), *more)


def test_S_6_8_a_scan_goes_on_where_it_stopped() -> None:
    on = world()
    assert on.scans.tried(W) == {}
    assert on.scans.remember(W, STOPPED_AT_FIRST) is True
    assert on.scans.tried(W) == STOPPED_AT_FIRST
    assert on.scans.tried(W.but(priority=5)) == {}, "another shape starts anew"
    on.scans.forget(W)
    assert on.scans.tried(W) == {}


def test_S_6_8_what_it_found_is_old_once_somebody_left_and_a_cycle_passed() -> None:
    on = world(holder("h", usage={"f1": 1}))
    on.scans.next_cycle()
    on.scans.remember(W, STOPPED_AT_FIRST)
    for each in list(on.holders.of_queue[QueueName("q")].values()):
        on.release(each)
    assert on.scans.tried(W) == STOPPED_AT_FIRST, "in the very next cycle it still counts"
    on.scans.next_cycle()
    assert on.scans.tried(W) == {}


def test_S_6_8_arrivals_do_not_make_it_old() -> None:
    on = world()
    on.scans.next_cycle()
    on.scans.remember(W, STOPPED_AT_FIRST)
    on.hold(holder("h", usage={"f1": 1}))
    on.scans.next_cycle()
    assert on.scans.tried(W) == STOPPED_AT_FIRST


def test_S_6_8_podsets_out_of_phase_do_not_keep_it_from_being_parked() -> None:
    on = world()
    assert on.scans.remember(W, {(0, CPU): 0, (1, CPU): -1}) is True
    assert on.scans.remember(W, {(0, CPU): -1, (1, CPU): 0}) is False, "each has reached the end of its list once"
    on.wake(QueueName("q"), seconds(1))
    assert on.scans.remember(W, {(0, CPU): -1, (1, CPU): 0}) is True, "after a wake the count starts anew"
    on.policy = replace(on.policy, gates=replace(on.policy.gates, preemption_claims=False))
    assert on.scans.remember(W, {(0, CPU): 0, (1, CPU): -1}) is True


def test_all_of_a_tree_in_order_and_nobody_of_none() -> None:
    on = world()
    assert on.tree_of(QueueName("q")) == on.tree_of(QueueName("y")) == ["q", "y"]
    assert on.tree_of(QueueName("unknown")) == []
    assert on.wake(QueueName("unknown"), seconds(0)) == []


def test_who_holds_quota_of_a_queue_that_is_gone_is_known_and_charges_nobody() -> None:
    on = world()
    lost = holder("lost", queue="gone")
    on.hold(lost)
    assert on.holders.find(QueueName("gone"), lost.key) is lost
    on.release(lost)
    assert on.holders.find(QueueName("gone"), lost.key) is None


CHANGES: dict[str, Any] = {
    "somebody holds": lambda on: on.hold(holder("x")),
    "somebody waits": lambda on: on.push(workload("x"), seconds(0)),
    "a wake": lambda on: on.wake(QueueName("q"), seconds(0)),
    "a scan": lambda on: on.scans.remember(W, STOPPED_AT_FIRST),
    "a mark": lambda on: on.preemptors.mark(W),
    "a cycle": lambda on: on.scans.next_cycle(),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_fingerprint_sees_each_of_them_and_a_trial_undoes_each(change: Any) -> None:
    on = world(holder("h"), workload("v"))
    before = on.fingerprint()
    with on.trial():
        change(on)
        assert on.fingerprint() != before
    assert on.fingerprint() == before


def test_times_that_will_be_stored_are_cut_to_the_second() -> None:
    assert stored(seconds(12.999)) == seconds(12)


def test_a_broken_promise_is_told_with_its_values() -> None:
    invariant(True, "fine {}", 1)
    with pytest.raises(InvariantError, match="cpu is 5"):
        invariant(False, "{} is {}", ResourceName("cpu"), 5)


def test_S_6_8_a_scan_that_found_nothing_has_reached_its_end() -> None:
    """Nothing is chosen for it, so nothing says where it stopped."""
    on = world()
    assert on.scans.remember(W, {(0, CPU): 0, (1, CPU): 1}) is True
    assert on.scans.remember(W, {(0, CPU): 1}, frozenset({(1, CPU)})) is True
    assert on.scans.remember(W, {(0, CPU): -1, (1, CPU): 0}) is False
