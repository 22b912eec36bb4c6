"""The life of a Workload, rule by rule, and that it comes to rest (S-3.3, S-10, S-14.2)."""

from __future__ import annotations

from dataclasses import replace as amended
from typing import Any

import pytest

from makeway.api.names import RESOURCE_IN_USE
from makeway.api.objects.workload import (
    PreemptionGate,
    PreemptionGateState,
    RequeueState,
    Workload,
    WorkloadMode,
)
from makeway.controllers.contract import JOB, WORKLOAD, Delete, Outcome, Ref
from makeway.controllers.workloads.edits import wait_ms
from makeway.controllers.workloads.eviction import condition, replace, says, status_of
from makeway.controllers.workloads.lifecycle import Workloads
from makeway.core.lowering import is_queueable
from makeway.core.model import Millis
from makeway.core.policy import Gates, PodsReady, Policy, Requeuing
from tests.controllers.views import (
    FakeView,
    at,
    check,
    cluster_queue,
    flavor,
    job,
    local_queue,
    owned_by,
    time,
    workload,
)

W = Ref(WORKLOAD, "default", "w")
POLICY = Policy()
PODS = amended(POLICY, pods_ready=PodsReady(timeout_ms=300_000, recovery_timeout_ms=60_000))
PARENT, OPTION = WorkloadMode(type="Parent"), WorkloadMode(type="ResourceFlavorOption")


def world(it: Workload, *more: Any, policy: Policy = POLICY) -> FakeView:
    """A Workload with its queues; what ``more`` has under the same name replaces them."""
    return FakeView.of(flavor(), cluster_queue(), local_queue(), it, *more, policy=policy)


def lived(it: Workload, *more: Any, now: Millis, policy: Policy = POLICY) -> tuple[FakeView, Outcome]:
    view = world(it, *more, policy=policy)
    return view, view.settle(Workloads(), W, now=now)


def told(view: FakeView, type: str) -> tuple[str, str] | None:
    found = condition(view.workload(W), type)
    return None if found is None else (found.status, found.reason)


def events(view: FakeView) -> list[str]:
    return [note.reason for note in view.notes]


# --- nothing to do ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "it",
    [
        workload(),
        workload(admitted=-50),
        workload(conditions={"Finished": ("True", "Succeeded", -9)}),
        workload(admitted=-50, owner=owned_by(job()), evicted=("Preempted", -9)),  # its job has to stop first
    ],
    ids=["waits", "runs", "is done", "leaves"],
)
def test_a_workload_that_is_as_it_should_be_is_left_alone(it: Workload) -> None:
    assert Workloads().react(W, world(it, job()), at(0)) == Outcome()


def test_there_is_nothing_to_do_about_what_is_gone() -> None:
    assert Workloads().react(W, FakeView.of(), at(0)) == Outcome()


# --- deletion and retention -------------------------------------------------------------------------------------------

GOING: dict[str, Any] = {"deletion_timestamp": time(-1), "finalizers": (RESOURCE_IN_USE,)}


@pytest.mark.parametrize(
    ("it", "owner", "goes"),
    [
        (workload(admitted=-9, metadata=GOING), None, True),
        (workload(admitted=-9, metadata=GOING, owner=owned_by(job())), job(active=2), False),
        (workload(admitted=-9, metadata=GOING, owner=owned_by(job())), job(), True),
        (workload(admitted=-9, metadata=GOING, owner=owned_by(job())), job(suspend=False), False),
        (workload(admitted=-9, metadata=GOING, owner=owned_by(job())), job(suspend=False, ended="Complete"), True),
        (workload(admitted=-9, metadata=GOING, owner=owned_by(job())), job(suspend=False, ended="Failed"), True),
        (workload(admitted=-9, metadata=GOING, owner=owned_by(job())), None, True),
        (
            workload(metadata=GOING, owner=owned_by(job()), conditions={"Finished": ("True", "Succeeded", -9)}),
            job(active=2),
            True,
        ),
    ],
    ids=[
        "no owner",
        "its job runs",
        "its job stands still",
        "its job may start",
        "its job is done",
        "its job failed",
        "its job is gone",
        "it is finished",
    ],
)
def test_the_finalizer_goes_when_nothing_runs(it: Workload, owner: Any, goes: bool) -> None:
    view = world(it, *([owner] if owner is not None else []))
    view.settle(Workloads(), W, now=at(0))
    assert (view.get(W) is None) is goes


def test_another_finalizer_is_not_ours_to_take() -> None:
    held = workload(metadata={**GOING, "finalizers": (RESOURCE_IN_USE, "example.com/mine")})
    view, _ = lived(held, now=at(0))
    assert view.workload(W).metadata.finalizers == ("example.com/mine",)


def test_s12_10_an_option_keeps_its_finalizer_while_it_holds_quota_and_its_parent_lives() -> None:
    parent = workload("parent", spec={"workload_mode": PARENT})
    option = workload(admitted=-9, metadata=GOING, spec={"workload_mode": OPTION}, owner=owned_by(parent))
    view, _ = lived(option, parent, now=at(0))
    assert view.get(W) is not None
    view.put(replace(parent, metadata=replace(parent.metadata, deletion_timestamp=time(0))))
    view.settle(Workloads(), W, now=at(1))
    assert view.get(W) is None


def test_p24_a_finished_workload_is_kept_for_its_time_and_then_deleted() -> None:
    done = workload(
        admitted=-9, conditions={"Finished": ("True", "Succeeded", 0)}, metadata={"finalizers": (RESOURCE_IN_USE,)}
    )
    keep = amended(POLICY, keep_finished_ms=60_000)
    view, last = lived(done, now=at(59), policy=keep)
    assert (view.written, last.again_at) == ([], at(60))
    view.settle(Workloads(), W, now=at(60))
    assert view.get(W) is None
    assert events(view) == ["Deleted"]
    assert lived(done, now=at(10**6))[0].get(W) is not None  # nothing configured: for ever
    option = replace(done, spec=replace(done.spec, workload_mode=OPTION))
    assert lived(option, now=at(10**6), policy=keep)[0].get(W) is not None, "it goes with its Parent"


def test_nothing_happens_to_a_finished_workload_any_more() -> None:
    done = workload(
        admitted=-9, conditions={"Finished": ("True", "Succeeded", 0), "DeactivationTarget": ("True", "X", 0)},
        spec={"maximum_execution_time_seconds": 1}, checks=[check("a", "Rejected"), check("b", "Retry")],
    )  # fmt: skip
    view, _ = lived(done, local_queue(stopPolicy="HoldAndDrain"), now=at(10**6), policy=PODS)
    assert view.written == []


# --- deactivation -----------------------------------------------------------------------------------------------------


def test_s10_10_the_users_deactivation_evicts_without_a_cause() -> None:
    off = workload(admitted=-9, spec={"active": False}, requeue_state=RequeueState(count=3))
    view, _ = lived(off, now=at(0))
    assert told(view, "Evicted") == ("True", "Deactivated")
    assert told(view, "QuotaReserved") == ("False", "Deactivated")
    assert told(view, "Requeued") == ("False", "Deactivated")
    assert status_of(view.workload(W)).requeue_state is None
    assert events(view)[0] == "EvictedDueToDeactivated"


@pytest.mark.parametrize(
    "it", [workload(spec={"active": False}), workload(spec={"active": False}, requeue_state=RequeueState(count=3))],
    ids=["from the start", "while it backs off"],
)  # fmt: skip
def test_s10_10_without_quota_a_deactivated_workload_shows_the_same_in_one_write(it: Workload) -> None:
    view, _ = lived(it, now=at(0))
    assert told(view, "Evicted") == ("True", "Deactivated")
    assert told(view, "QuotaReserved") == ("False", "Deactivated")
    assert told(view, "Admitted") == ("False", "NoReservation")
    assert told(view, "Requeued") is None
    assert condition(view.workload(W), "Evicted").message == "The workload is deactivated"  # type: ignore[union-attr]
    assert (len(view.written), events(view)) == (1, ["Deactivated"]), "nothing left, so no eviction is told"
    assert (status_of(view.workload(W)).requeue_state, status_of(view.workload(W)).scheduling_stats) == (None, None)


def test_s10_10_an_eviction_before_the_deactivation_keeps_its_reason() -> None:
    view, _ = lived(workload(spec={"active": False}, evicted=("Preempted", -500)), now=at(0))
    assert told(view, "Evicted") == ("True", "Preempted")
    assert told(view, "QuotaReserved") == ("False", "Deactivated")


def test_s10_10_a_workload_on_hold_stays_on_hold_when_it_is_deactivated() -> None:
    held = workload(spec={"active": False}, conditions={"QuotaReserved": ("False", "OnHold", -9)})
    view, _ = lived(held, now=at(0))
    assert told(view, "Evicted") == ("True", "Deactivated")
    assert told(view, "QuotaReserved") == ("False", "OnHold")


def test_s10_5_a_workload_that_begins_deactivated_is_queued_when_it_is_active() -> None:
    view, _ = lived(workload(spec={"active": False}), now=at(0))
    off = view.workload(W)
    view.put(replace(off, spec=replace(off.spec, active=True)))
    view.settle(Workloads(), W, now=at(5))
    assert told(view, "QuotaReserved") == ("False", "PendingEvaluation")
    assert is_queueable(view.workload(W))


@pytest.mark.parametrize("cause", ["AdmissionCheck", "RequeuingLimitExceeded", "EvictedOnManagerCluster"])
def test_s10_10_a_target_switches_off_then_evicts_then_goes(cause: str) -> None:
    view = world(workload(admitted=-9, conditions={"DeactivationTarget": ("True", cause, -1)}, owner=owned_by(job())))
    controller = Workloads()
    first = controller.react(W, view, at(0))
    assert [each.write.status for each in first.actions] == [False]  # type: ignore[union-attr]
    view.apply(first)
    assert (view.workload(W).spec.active, told(view, "Evicted")) == (False, None)
    view.settle(controller, W, now=at(0))
    assert told(view, "Evicted") == ("True", f"DeactivatedDueTo{cause}")
    assert condition(view.workload(W), "DeactivationTarget") is None
    assert says(view.workload(W), "QuotaReserved"), "its job still runs"
    (count,) = status_of(view.workload(W)).scheduling_stats.evictions  # type: ignore[union-attr]
    assert (count.reason, count.underlying_cause, count.count) == ("Deactivated", cause, 1)


@pytest.mark.parametrize(
    ("it", "since"),
    [
        (workload(conditions={"DeactivationTarget": ("True", "AdmissionCheck", -1)}), 0),
        (
            workload(evicted=("Preempted", -500), conditions={"DeactivationTarget": ("True", "AdmissionCheck", -1)}),
            0,
        ),
        (
            workload(
                admitted=-900, evicted=("Preempted", -500), owner=owned_by(job()),
                conditions={"DeactivationTarget": ("True", "AdmissionCheck", -1)},
            ),
            -500,
        ),
    ],
    ids=["it never ran", "it waits again", "it is leaving for another reason"],
)  # fmt: skip
def test_that_we_switched_it_off_is_always_told(it: Workload, since: float) -> None:
    view, _ = lived(it, now=at(0))
    assert told(view, "Evicted") == ("True", "DeactivatedDueToAdmissionCheck")
    assert condition(view.workload(W), "Evicted").last_transition_time == time(since)  # type: ignore[union-attr]
    assert not view.workload(W).spec.active
    assert not any(event.startswith("EvictedDueTo") for event in events(view)), "nobody was evicted now"


def test_s10_5_a_deactivated_workload_returns_when_it_is_active_again() -> None:
    view, _ = lived(workload(admitted=-9, spec={"active": False}), now=at(0))
    off = view.workload(W)
    view.put(replace(off, spec=replace(off.spec, active=True)))
    view.settle(Workloads(), W, now=at(5))
    assert told(view, "Requeued") == ("True", "Reactivated")
    assert told(view, "QuotaReserved") == ("False", "PendingEvaluation")
    assert is_queueable(view.workload(W))


def test_a_rejected_check_does_not_reject_again_after_the_return() -> None:
    pending = workload(checks=[check("a", "Rejected")])
    view, _ = lived(pending, cluster_queue(checks={"a": ()}), now=at(0))
    off = view.workload(W)
    assert (off.spec.active, status_of(off).admission_checks[0].state) == (False, "Pending")
    view.put(replace(off, spec=replace(off.spec, active=True)))
    view.settle(Workloads(), W, now=at(5))
    assert view.workload(W).spec.active


@pytest.mark.parametrize(
    ("past", "now", "expired"), [(None, 99.9, False), (None, 100, True), (40, 59, False), (40, 60, True)]
)
def test_s10_9_the_execution_time_of_all_attempts_counts(past: int | None, now: float, expired: bool) -> None:
    limited = workload(
        admitted=0, spec={"maximum_execution_time_seconds": 100}, accumulated_past_execution_time_seconds=past
    )
    view, last = lived(limited, now=at(now))
    assert view.workload(W).spec.active is not expired
    if expired:
        assert told(view, "Evicted") == ("True", "DeactivatedDueToMaximumExecutionTimeExceeded")
        assert status_of(view.workload(W)).accumulated_past_execution_time_seconds is None, "it may start anew"
        assert ("Warning", "MaximumExecutionTimeExceeded") in [(note.type, note.reason) for note in view.notes]
    else:
        assert last.again_at == at(100 - (past or 0))


def test_s10_11_the_owner_of_a_workload_that_we_deactivated_is_deleted_in_time() -> None:
    keep = amended(POLICY, keep_deactivated_ms=60_000)
    off = workload(spec={"active": False}, owner=owned_by(job()), evicted=("DeactivatedDueToRequeuingLimitExceeded", 0))
    view, last = lived(off, job(), now=at(59), policy=keep)
    assert last.again_at == at(60)
    view.settle(Workloads(), W, now=at(60))
    assert view.written[-1] == Delete(Ref(JOB, "default", "job"), uid="uid-job")
    by_user = replace(off, status=status_of(workload(evicted=("Deactivated", 0))))
    view, _ = lived(by_user, job(), now=at(10**6), policy=keep)
    assert view.get(Ref(JOB, "default", "job")) is not None


def test_s10_11_a_deactivated_option_does_not_take_its_parent_along() -> None:
    parent = workload("parent", spec={"workload_mode": PARENT})
    off = workload(
        spec={"active": False, "workload_mode": OPTION}, owner=owned_by(parent),
        evicted=("DeactivatedDueToAdmissionCheck", 0),
    )  # fmt: skip
    view, _ = lived(off, parent, now=at(10**6), policy=amended(POLICY, keep_deactivated_ms=0))
    assert view.get(Ref(WORKLOAD, "default", "parent")) is not None


# --- stopped and missing queues ---------------------------------------------------------------------------------------

STOPS = [
    (cluster_queue(stopPolicy="Hold"), "ClusterQueue cq is inactive", ""),
    (cluster_queue(stopPolicy="HoldAndDrain"), "ClusterQueue cq is inactive", "ClusterQueueStopped"),
    (local_queue(stopPolicy="Hold"), "LocalQueue main is inactive", ""),
    (local_queue(stopPolicy="HoldAndDrain"), "LocalQueue main is inactive", "LocalQueueStopped"),
]


@pytest.mark.parametrize(("queue", "message", "reason"), STOPS)
def test_s3_3_a_reservation_ends_with_its_queue(queue: Any, message: str, reason: str) -> None:
    view, _ = lived(workload(reserved=-9), queue, now=at(0))
    found = condition(view.workload(W), "QuotaReserved")
    assert found is not None
    assert (found.status, found.reason, found.message) == ("False", "Suspended", message)
    assert status_of(view.workload(W)).admission is None
    assert told(view, "Evicted") is None
    assert told(view, "Requeued") is None


def leaving_queue() -> Any:
    queue = cluster_queue()
    return replace(queue, metadata=replace(queue.metadata, deletion_timestamp=time(-1), finalizers=(RESOURCE_IN_USE,)))


@pytest.mark.parametrize(
    ("queue", "message"),
    [
        (leaving_queue(), "ClusterQueue cq is terminating"),
        (cluster_queue("another"), "ClusterQueue gone not found"),
    ],
    ids=["being deleted", "gone"],
)
def test_a_reservation_ends_with_a_queue_that_is_deleted(queue: Any, message: str) -> None:
    where = "cq" if queue.metadata.name == "cq" else "gone"
    it = workload(reserved=-9, queue=where, checks=[check("audit", "Pending")], owner=owned_by(job()))
    view, _ = lived(it, queue, local_queue(queue=where), job(), now=at(0))
    found = condition(view.workload(W), "QuotaReserved")
    assert found is not None
    assert (found.status, found.reason, found.message) == ("False", "Misconfigured", message)
    assert status_of(view.workload(W)).admission is None
    assert told(view, "Admitted") == ("False", "NoReservation")
    assert told(view, "Evicted") is None
    assert view.settle(Workloads(), W, now=at(9)) == Outcome(), "it is told once"


def test_what_runs_keeps_its_quota_when_its_queue_is_deleted() -> None:
    view, _ = lived(workload(admitted=-9), leaving_queue(), now=at(0))
    assert says(view.workload(W), "Admitted")
    assert told(view, "Evicted") is None


@pytest.mark.parametrize(("queue", "message", "reason"), STOPS)
def test_s3_3_only_draining_evicts_what_runs(queue: Any, message: str, reason: str) -> None:
    view, _ = lived(workload(admitted=-9), queue, now=at(0))
    assert told(view, "Evicted") == (("True", reason) if reason else None)
    assert says(view.workload(W), "Admitted") is (not reason)
    if reason:
        restarted = f"{reason.removesuffix('Stopped')}Restarted"
        assert told(view, "Requeued") == ("False", reason)
        view.put(cluster_queue())
        view.put(local_queue())
        view.settle(Workloads(), W, now=at(50))
        assert told(view, "Requeued") == ("True", restarted)
        assert told(view, "QuotaReserved") == ("False", "PendingEvaluation")


@pytest.mark.parametrize(
    ("changed", "reason", "message"),
    [
        ((cluster_queue(stopPolicy="Hold"),), "Suspended", "ClusterQueue cq is inactive"),
        ((cluster_queue(flavors=("unknown",)),), "Suspended", "ClusterQueue cq is inactive"),
        ((local_queue(stopPolicy="Hold"),), "Suspended", "LocalQueue main is inactive"),
        ((leaving_queue(),), "Misconfigured", "ClusterQueue cq is terminating"),
        ((local_queue(queue="none", stopPolicy="Hold"),), "Misconfigured", "ClusterQueue none not found"),
        ((workload(spec={"queue_name": "none"}),), "Misconfigured", "LocalQueue none not found"),
        ((workload(spec={"queue_name": ""}),), "Misconfigured", "No LocalQueue is named"),
        ((workload(spec={"active": False}),), "Deactivated", "The workload is deactivated"),
        (
            (workload(metadata={"annotations": {"kueue.x-k8s.io/admission-gated-by": "a.example/b"}}),),
            "AdmissionGated",
            "Admission is gated by a.example/b",
        ),
    ],
)
def test_why_nobody_considers_it_is_told_once_and_taken_back(changed: Any, reason: str, message: str) -> None:
    view, _ = lived(workload(), *changed, now=at(0))
    found = condition(view.workload(W), "QuotaReserved")
    assert found is not None
    assert (found.status, found.reason, found.message) == ("False", reason, message)
    assert told(view, "Admitted") == ("False", "NoReservation")
    assert events(view) == [reason]
    fine = replace(workload(), status=view.workload(W).status)
    for each in (cluster_queue(), local_queue(), fine):
        view.put(each)
    view.settle(Workloads(), W, now=at(9))
    assert told(view, "QuotaReserved") == ("False", "PendingEvaluation")


@pytest.mark.parametrize("reason", ["OnHold", "WaitingForQuota", "Misconfigured"])
def test_what_others_say_about_the_wait_stays(reason: str) -> None:
    view, _ = lived(workload(conditions={"QuotaReserved": ("False", reason, -9)}), now=at(0))
    assert view.written == []
    view, _ = lived(
        workload(conditions={"QuotaReserved": ("False", "OnHold", -9)}), local_queue(stopPolicy="Hold"), now=at(0)
    )
    assert told(view, "QuotaReserved") == ("False", "OnHold")


def test_without_granular_reasons_there_are_fewer() -> None:
    coarse = amended(POLICY, gates=Gates(unadmitted_workloads_observability=False))
    view, _ = lived(workload(), local_queue(stopPolicy="Hold"), now=at(0), policy=coarse)
    assert told(view, "QuotaReserved") == ("False", "Inadmissible")
    view.put(local_queue())
    view.settle(Workloads(), W, now=at(1))
    assert told(view, "QuotaReserved") == ("False", "Pending")


# --- pods that are not ready ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ready", "until", "cause"),
    [
        (None, 300, "WaitForStart"),
        (("False", "WaitForStart", 7), 300, "WaitForStart"),
        (("False", "WaitForRecovery", 100), 160, "WaitForRecovery"),
        (("False", "WaitForRecovery", -100), 300, "WaitForStart"),  # of an attempt before this one
        (("True", "Started", 7), None, ""),
        (("True", "Recovered", 7), None, ""),
    ],
)
def test_s10_7_how_long_pods_are_waited_for(ready: Any, until: float | None, cause: str) -> None:
    given = {} if ready is None else {"PodsReady": ready}
    it = workload(admitted=0, conditions=given)
    if until is None:
        view, last = lived(it, now=at(10**6), policy=PODS)
        assert (view.written, last.again_at) == ([], None)
        return
    view, last = lived(it, now=Millis(at(until) - 1), policy=PODS)
    assert (view.written, last.again_at) == ([], at(until))
    view.settle(Workloads(), W, now=at(until))
    assert told(view, "Evicted") == ("True", "PodsReadyTimeout")
    (count,) = status_of(view.workload(W)).scheduling_stats.evictions  # type: ignore[union-attr]
    assert (count.reason, count.underlying_cause) == ("PodsReadyTimeout", cause)
    assert status_of(view.workload(W)).requeue_state == RequeueState(count=1, requeue_at=time(until + 60))


def test_s10_7_without_the_setting_nobody_waits_for_pods() -> None:
    lost = workload(admitted=0, conditions={"PodsReady": ("False", "WaitForRecovery", 1)})
    never = amended(POLICY, pods_ready=PodsReady(recovery_timeout_ms=None))
    assert lived(lost, now=at(10**6), policy=never)[0].written == []
    assert lived(workload(admitted=0), now=at(10**6))[0].written == []


@pytest.mark.parametrize("mode", [PARENT, OPTION])
def test_s12_10_readiness_and_execution_time_are_judged_on_the_parent(mode: WorkloadMode) -> None:
    parent = workload("parent", spec={"workload_mode": PARENT})
    owner = owned_by(parent if mode is OPTION else job())
    it = workload(admitted=0, spec={"workload_mode": mode, "maximum_execution_time_seconds": 9}, owner=owner)
    view, _ = lived(it, parent, now=at(10**6), policy=PODS)
    assert says(view.workload(W), "Evicted") is (mode is PARENT)


def test_s10_8_each_wait_is_twice_the_one_before() -> None:
    usual = [wait_ms(Requeuing(), count) // 1000 for count in range(1, 10)]
    assert usual == [60, 120, 240, 480, 960, 1920, 3600, 3600, 3600]
    assert wait_ms(Requeuing(), 10**6) == 3_600_000
    assert wait_ms(Requeuing(backoff_base_ms=0), 5) == 0


def test_s10_8_a_workload_that_never_gets_ready_waits_longer_each_time() -> None:
    view, now, waits = world(workload(), policy=PODS), 0.0, []
    for _ in range(8):
        state = status_of(view.workload(W)).requeue_state
        view.put(workload(admitted=now, requeue_state=state))
        now += 300
        last = view.settle(Workloads(), W, now=at(now))
        assert told(view, "Requeued") == ("False", "PodsReadyTimeout")
        assert last.again_at is not None
        waits.append((last.again_at - at(now)) // 1000)
        now = (last.again_at - at(0)) / 1000
        view.settle(Workloads(), W, now=last.again_at)
        assert told(view, "Requeued") == ("True", "BackoffFinished")
        assert status_of(view.workload(W)).requeue_state == RequeueState(count=len(waits))
    assert waits == [60, 120, 240, 480, 960, 1920, 3600, 3600]


def test_s10_8_a_later_time_that_is_stored_already_stays() -> None:
    it = workload(admitted=0, requeue_state=RequeueState(count=1, requeue_at=time(9000)))
    view, last = lived(it, now=at(300), policy=PODS)
    assert status_of(view.workload(W)).requeue_state == RequeueState(count=2, requeue_at=time(9000))
    assert last.again_at == at(9000)


@pytest.mark.parametrize(("count", "limit", "off"), [(None, 0, True), (None, 1, False), (1, 1, True), (9, None, False)])
def test_s10_7_too_many_attempts_are_for_good(count: int | None, limit: int | None, off: bool) -> None:
    policy = amended(PODS, requeuing=Requeuing(backoff_limit_count=limit))
    state = None if count is None else RequeueState(count=count)
    view, _ = lived(workload(admitted=0, requeue_state=state), now=at(300), policy=policy)
    assert view.workload(W).spec.active is not off
    wanted = "DeactivatedDueToRequeuingLimitExceeded" if off else "PodsReadyTimeout"
    assert told(view, "Evicted") == ("True", wanted)
    assert events(view)[0] == f"EvictedDueTo{wanted}"


# --- giving back ------------------------------------------------------------------------------------------------------


def test_s10_3_a_workload_without_an_owner_gives_its_quota_back_by_itself() -> None:
    view, _ = lived(workload(admitted=-9, evicted=("Preempted", 0)), now=at(0))
    assert told(view, "Requeued") == ("True", "Preempted")
    assert is_queueable(view.workload(W))


def test_s10_3_it_may_linger_as_long_as_its_pods_would() -> None:
    view = world(workload(admitted=-9, evicted=("Preempted", 0)))
    slow = Workloads(linger=lambda it: 2500)
    assert view.settle(slow, W, now=at(2)).again_at == at(2.5)
    assert view.written == []
    view.settle(slow, W, now=at(2.5))
    assert not says(view.workload(W), "QuotaReserved")


def test_p18_the_quota_of_a_job_stays_charged_until_the_job_says_so() -> None:
    view, _ = lived(workload(admitted=-9, evicted=("Preempted", 0), owner=owned_by(job())), job(active=1), now=at(99))
    assert view.written == []
    assert view.state.tree.queues["cq"].usage == {("default", "cpu"): 1000}


def test_s12_10_a_parent_goes_after_its_option_was_asked_to() -> None:
    parent = workload(admitted=-9, evicted=("PodsReadyTimeout", 0), spec={"workload_mode": PARENT})
    option = workload("o", admitted=-9, spec={"workload_mode": OPTION}, owner=owned_by(parent))
    view, _ = lived(parent, option, now=at(9))
    assert says(view.workload(W), "QuotaReserved")
    view.put(workload("o", admitted=-9, evicted=("PodsReadyTimeout", 1), owner=owned_by(parent)))
    view.settle(Workloads(), W, now=at(10))
    assert not says(view.workload(W), "QuotaReserved")


# --- requeue ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reason", "state", "now", "wanted"),
    [
        ("PodsReadyTimeout", RequeueState(count=1, requeue_at=time(50)), 49, None),
        ("PodsReadyTimeout", RequeueState(count=1, requeue_at=time(50)), 50, "BackoffFinished"),
        ("AdmissionCheck", None, 0, "BackoffFinished"),
        ("Deactivated", None, 0, "Reactivated"),
        ("DeactivatedDueToRequeuingLimitExceeded", None, 0, "Reactivated"),
        ("ClusterQueueStopped", None, 0, "ClusterQueueRestarted"),
        ("LocalQueueStopped", None, 0, "LocalQueueRestarted"),
        ("Deleted", None, 0, None),
    ],
)
def test_s10_5_when_a_wait_ends(reason: str, state: Any, now: float, wanted: str | None) -> None:
    waiting = workload(evicted=(reason, -9), conditions={"Requeued": ("False", reason, -9)}, requeue_state=state)
    view, last = lived(waiting, now=at(now))
    assert told(view, "Requeued") == (("False", reason) if wanted is None else ("True", wanted))
    if wanted == "BackoffFinished" and state is not None:
        assert status_of(view.workload(W)).requeue_state == RequeueState(count=1)
    if wanted is None and state is not None:
        assert last.again_at == at(50)


# --- gates ------------------------------------------------------------------------------------------------------------


def test_s14_2_gates_are_born_closed_and_go_with_the_spec() -> None:
    opened = PreemptionGateState(name="b", state="Open", last_transition_time=time(-9))
    gone = PreemptionGateState(name="gone", state="Open", last_transition_time=time(-9))
    gates = {"preemption_gates": (PreemptionGate(name="a"), PreemptionGate(name="b"))}
    it = workload(spec=gates, preemption_gates=(opened, gone))
    view, _ = lived(it, now=at(3.9))
    closed = PreemptionGateState(name="a", state="Closed", last_transition_time=time(3))
    assert status_of(view.workload(W)).preemption_gates == (closed, opened)
    off = amended(POLICY, gates=Gates(multi_kueue_orchestrated_preemption=False, concurrent_admission=False))
    assert lived(it, now=at(3), policy=off)[0].written == []
