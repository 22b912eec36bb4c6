"""Evict and Release: what one status patch changes, and what it leaves alone (S-10.2, 10.3)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from makeway.api.objects.meta import Condition
from makeway.api.objects.workload import (
    EvictionCount,
    PodSetUpdate,
    PreemptionGateState,
    SchedulingStats,
    UnhealthyNode,
    Workload,
    WorkloadMode,
)
from makeway.controllers.contract import WORKLOAD, Ref
from makeway.controllers.workloads.eviction import (
    COUNTERS_MAX,
    Evict,
    Release,
    condition,
    event_of_eviction,
    full_reason,
    message_of_eviction,
    replace,
    says,
    status_of,
)
from tests.controllers.views import at, check, time, workload

LATER = at(100.7)  # the part of a second must not be stored
EVICTIONS = (
    "Preempted", "PodsReadyTimeout", "AdmissionCheck", "ClusterQueueStopped", "LocalQueueStopped", "NodeFailures",
    "Deactivated", "FlavorMigration", "OverQuota", "Deleted", "OptionEvicted",
)  # fmt: skip


def told(workload: Workload, type: str) -> tuple[str, str, Any] | None:
    found = condition(workload, type)
    return None if found is None else (found.status, found.reason, found.last_transition_time)


def evicted(before: Workload, reason: str = "Preempted", **more: Any) -> Workload:
    after = Evict(reason, "words", LATER, **more)(before)
    assert isinstance(after, Workload)
    return after


def released(before: Workload, when: Any = LATER) -> Workload:
    after = Release(when)(before)
    assert isinstance(after, Workload)
    return after


# --- Evict ------------------------------------------------------------------------------------------------------------


def test_an_eviction_keeps_the_quota_and_says_when_in_whole_seconds() -> None:
    before = workload(admitted=0)
    after = evicted(before)
    assert told(after, "Evicted") == ("True", "Preempted", time(100))
    assert condition(after, "Evicted").message == "words"  # type: ignore[union-attr]
    assert told(after, "Preempted") is None
    assert (told(after, "QuotaReserved"), told(after, "Admitted")) == (
        told(before, "QuotaReserved"),
        told(before, "Admitted"),
    )
    assert status_of(after).admission == status_of(before).admission


def test_s13_a_preemption_says_which_rule_applied() -> None:
    after = evicted(workload(admitted=0), preempted="InClusterQueueTimeBased", preempted_message="who")
    assert told(after, "Preempted") == ("True", "InClusterQueueTimeBased", time(100))
    assert condition(after, "Preempted").message == "who"  # type: ignore[union-attr]
    assert told(after, "Evicted") == ("True", "Preempted", time(100))


def test_a_dispatch_ends_with_the_eviction() -> None:
    after = evicted(workload(admitted=0, cluster_name="east", unhealthy_nodes=(UnhealthyNode(name="n1"),)))
    assert (status_of(after).cluster_name, status_of(after).unhealthy_nodes) == ("", ())
    nominated = evicted(workload(admitted=0, nominated_cluster_names=("east", "west")))
    assert status_of(nominated).nominated_cluster_names == ()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (check("a", "Pending", retry_count=3), check("a", "Pending", retry_count=3)),
        (check("a", "Ready", retry_count=3), check("a", "Pending", 100)),
        (check("a", "Rejected"), check("a", "Pending", 100)),
        (check("a", "Retry"), check("a", "Pending", 100, retry_count=1)),
        (check("a", "Ready", requeue_after_seconds=9), check("a", "Pending", 100, requeue_after_seconds=9)),
        (check("a", "Retry", retry_count=3), check("a", "Pending", 100, retry_count=4)),
        (check("a", "Ready", pod_set_updates=(PodSetUpdate(name="main"),)), check("a", "Pending", 100)),
    ],
)  # fmt: skip
def test_checks_start_anew_and_count_their_retries(before: Any, after: Any) -> None:
    (found,) = status_of(evicted(workload(reserved=0, checks=[before]))).admission_checks
    assert replace(found, message="") == after


def test_the_block_ends_with_the_reason_of_the_eviction() -> None:
    blocked = workload(reserved=0, conditions={"QuotaReservationBlocked": ("True", "PreemptionGated", -5)})
    assert told(evicted(blocked, "OverQuota"), "QuotaReservationBlocked") == ("False", "OverQuota", time(100))
    never = workload(reserved=0, conditions={"QuotaReservationBlocked": ("False", "PreemptionNotPossible", -5)})
    assert told(evicted(never), "QuotaReservationBlocked") == ("False", "PreemptionNotPossible", time(-5))
    assert told(evicted(workload(reserved=0)), "QuotaReservationBlocked") is None


OPEN = PreemptionGateState(name="kueue.x-k8s.io/multikueue", state="Open", last_transition_time=time(-9))
OWN = PreemptionGateState(name="kueue.x-k8s.io/concurrent-admission", state="Open", last_transition_time=time(-8))
SHUT = PreemptionGateState(name="custom", state="Closed", last_transition_time=time(-7))


@pytest.mark.parametrize(
    ("mode", "reason", "closed"),
    [
        ("Default", "Preempted", {OPEN.name, OWN.name}),
        ("Default", "FlavorMigration", {OPEN.name, OWN.name}),
        ("Parent", "OptionEvicted", {OPEN.name, OWN.name}),
        ("Parent", "FlavorMigration", set()),
        ("ResourceFlavorOption", "Preempted", {OWN.name}),
    ],
)
def test_gates_close_except_those_that_follow_another(mode: Any, reason: str, closed: set[str]) -> None:
    before = workload(reserved=0, spec={"workload_mode": WorkloadMode(type=mode)}, preemption_gates=(OPEN, OWN, SHUT))
    after = status_of(evicted(before, reason)).preemption_gates
    wanted = tuple(
        replace(gate, state="Closed", last_transition_time=time(100)) if gate.name in closed else gate
        for gate in (OPEN, OWN, SHUT)
    )
    assert after == wanted


def test_evictions_are_counted_by_reason_and_cause() -> None:
    stats = SchedulingStats(evictions=(EvictionCount(reason="Preempted", count=2),))
    once = evicted(workload(reserved=0, scheduling_stats=stats), "PodsReadyTimeout", cause="WaitForStart")
    assert status_of(once).scheduling_stats == SchedulingStats(
        evictions=(
            EvictionCount(reason="Preempted", count=2),
            EvictionCount(reason="PodsReadyTimeout", underlying_cause="WaitForStart", count=1),
        )
    )
    again = evicted(workload(reserved=0, scheduling_stats=stats))
    assert status_of(again).scheduling_stats == SchedulingStats(evictions=(EvictionCount(reason="Preempted", count=3),))


def test_a_full_list_of_counters_stays_legal() -> None:
    full = SchedulingStats(evictions=tuple(EvictionCount(reason=f"R{i}", count=1) for i in range(COUNTERS_MAX)))
    assert status_of(evicted(workload(reserved=0, scheduling_stats=full))).scheduling_stats == full
    known = evicted(workload(reserved=0, scheduling_stats=full), "R0")
    assert status_of(known).scheduling_stats.evictions[0].count == 2  # type: ignore[union-attr]


def test_p17_who_was_asked_to_leave_is_not_asked_again() -> None:
    first = evicted(workload(admitted=0), "Preempted")
    assert Evict("OverQuota", "other words", at(500))(first) is first


def test_who_has_nothing_to_leave_is_not_evicted() -> None:
    assert Evict("Preempted", "words", LATER)(workload()) is None
    assert Evict("Preempted", "words", LATER)(replace(workload(), status=None)) is None
    done = workload(admitted=0, conditions={"Finished": ("True", "Succeeded", 5)})
    assert Evict("Preempted", "words", LATER)(done) is None


# --- Release ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reason", EVICTIONS)
def test_who_may_return_at_once(reason: str) -> None:
    at_once = {"Preempted", "NodeFailures", "FlavorMigration", "OverQuota", "OptionEvicted"}
    after = released(workload(admitted=0, evicted=(reason, 50)))
    assert told(after, "Requeued") == ("True" if reason in at_once else "False", reason, time(100))
    assert told(after, "QuotaReserved") == ("False", "PendingEvaluation", time(100))
    assert told(after, "Admitted") == ("False", "NoReservation", time(100))
    assert told(after, "Evicted") == ("True", reason, time(50))
    assert status_of(after).admission is None


@pytest.mark.parametrize(
    ("before", "seconds"),
    [
        (workload(admitted=0), 100),
        (workload(admitted=0, accumulated_past_execution_time_seconds=7), 107),
        (workload(reserved=0), None),
        (workload(reserved=0, accumulated_past_execution_time_seconds=7), 7),
        (workload(admitted=200), 0),  # a clock that went back takes nothing away
        (workload(admitted=0, accumulated_past_execution_time_seconds=2**31 - 5), 2**31 - 1),
        (workload(admitted=0, evicted=("DeactivatedDueToMaximumExecutionTimeExceeded", 9)), None),
    ],
)
def test_the_admitted_seconds_add_up(before: Workload, seconds: int | None) -> None:
    assert status_of(released(before)).accumulated_past_execution_time_seconds == seconds


def test_without_an_eviction_there_is_nothing_to_requeue() -> None:
    assert told(released(workload(reserved=0)), "Requeued") is None
    past = workload(reserved=0, conditions={"Evicted": ("False", "QuotaReserved", 0)})
    assert told(released(past), "Requeued") is None


def test_a_release_needs_a_reservation() -> None:
    assert Release(LATER)(workload()) is None
    assert Release(LATER)(released(workload(admitted=0))) is None


# --- words ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reason", "cause", "event"),
    [
        ("Preempted", "", "EvictedDueToPreempted"),
        ("PodsReadyTimeout", "WaitForStart", "EvictedDueToPodsReadyTimeout"),
        ("Deactivated", "", "EvictedDueToDeactivated"),
        ("Deactivated", "RequeuingLimitExceeded", "EvictedDueToDeactivatedDueToRequeuingLimitExceeded"),
    ],
)
def test_only_a_deactivation_names_its_cause(reason: str, cause: str, event: str) -> None:
    about = Ref(WORKLOAD, "default", "w")
    assert event_of_eviction(about, reason, "words", cause) == (about, "Normal", event, "words")
    after = evicted(workload(reserved=0), reason, cause=cause)
    assert told(after, "Evicted") == ("True", full_reason(reason, cause), time(100))


def test_every_reason_has_words() -> None:
    assert len({message_of_eviction(reason) for reason in EVICTIONS}) == len(EVICTIONS)
    assert message_of_eviction("AdmissionCheck", "unknown") == message_of_eviction("AdmissionCheck")
    assert message_of_eviction("Deactivated", "AdmissionCheck") != message_of_eviction("Deactivated")


# --- what holds for all -----------------------------------------------------------------------------------------------

NAMED = {"Evicted", "Preempted", "QuotaReservationBlocked", "Requeued", "QuotaReserved", "Admitted"}
conditions = st.lists(
    st.builds(
        Condition,
        type=st.sampled_from(["PodsReady", "Finished", "DeactivationTarget", "example.com/mine", *sorted(NAMED)]),
        status=st.sampled_from(["True", "False", "Unknown"]),
        reason=st.sampled_from(EVICTIONS),
        message=st.text(max_size=5),
        last_transition_time=st.integers(-1000, 1000).map(time),
    ),
    unique_by=lambda each: each.type,
).map(tuple)


@pytest.mark.property
@given(conditions, st.booleans(), st.sampled_from(EVICTIONS), st.integers(0, 10**7))
def test_foreign_conditions_stay_as_they_are(
    given: tuple[Condition, ...], holds: bool, reason: str, millis: int
) -> None:
    before = workload(reserved=0 if holds else None)
    before = replace(before, status=replace(status_of(before), conditions=given))
    for edit in (Evict(reason, "words", at(millis / 1000), preempted="InClusterQueue"), Release(at(millis / 1000))):
        after = edit(before)
        if after is not None:
            kept = [each for each in status_of(after).conditions if each.type not in NAMED]
            assert kept == [each for each in given if each.type not in NAMED]
            assert replace(after, status=before.status) == before
            assert edit(after) in (None, after), "done twice is not done once"


@pytest.mark.property
@given(conditions, st.sampled_from(EVICTIONS))
def test_p25_after_the_release_nobody_is_both_admitted_and_evicted(given: tuple[Condition, ...], reason: str) -> None:
    before = workload(reserved=0)
    before = replace(before, status=replace(status_of(before), conditions=given))
    asked = Evict(reason, "words", LATER)(before)
    if asked is not None:
        after = released(asked)
        assert says(after, "Evicted")
        assert not says(after, "Admitted")
        assert not says(after, "QuotaReserved")
