"""The life of a Workload between its reservation and its end: eviction, back-off, requeue, retention (S-10, S-3.3).

A reconcile reads the Workload and its queues and applies the rules below in order. The first rule with something to
write answers; the others follow when that is stored. Rules that wait for a time return it, and the Workload is
reconciled again at the earliest of these times.

1. Being deleted: quota and finalizer go when nothing runs. 2. Finished: kept as long as configured. Nothing else
happens to such a Workload. Then:
3. Deactivation, wanted or done; it ends all else. 4. Execution time. 5. Rejected checks. 6. Stopped queues. 7. Retry.
8. Pods that are not ready in time. So what ends a workload comes before what only sends it back; of the former, the
administrator's word comes first.
9. An evicted workload without an owner gives its quota back. 10. Checks are listed, and the workload is admitted.
11. The end of a back-off. 12. Preemption gates. 13. Why it cannot be considered at all. 14. The owner of a workload
that makeway switched off is removed after its time.

Promises: for a Workload that is as it should be the answer is empty; all stored times are whole seconds. Back-off has
no jitter: equal histories have equal times, and the queue orders workloads that return at the same time.

Options (KEP-8691) leave with their Parent's job: execution time and readiness are judged on the Parent alone, and the
controller of the family gives their quota back.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from makeway.api.names import ADMISSION_GATED_BY, RESOURCE_IN_USE
from makeway.api.objects.meta import KubernetesObject, OwnerReference
from makeway.api.objects.queueing import ClusterQueue, LocalQueue
from makeway.api.objects.workload import RequeueState, Workload
from makeway.api.quantity import Duration
from makeway.controllers.checks.admission_checks import (
    Admit,
    ListChecks,
    TryAgain,
    admitted_message,
    in_state,
    may_be_admitted,
    rejected_message,
    retry_message,
)
from makeway.controllers.contract import (
    CLUSTER_QUEUE,
    LOCAL_QUEUE,
    NOTHING,
    POD,
    WORKLOAD,
    Action,
    Change,
    Delete,
    Edit,
    Note,
    Outcome,
    Ref,
    View,
)
from makeway.controllers.jobs.counts import may_run
from makeway.controllers.jobs.kinds.generic import JobKind
from makeway.controllers.jobs.kinds.registry import job_kind_of, lets_go
from makeway.controllers.workloads.edits import (
    Aim,
    BackOff,
    Deactivate,
    InTurn,
    ListGates,
    RemoveFinalizer,
    Requeue,
    SwitchOff,
    TellWhyWaiting,
)
from makeway.controllers.workloads.eviction import (
    DEACTIVATED,
    OUT_OF_TIME,
    Evict,
    Release,
    condition,
    event_of_eviction,
    holds_quota,
    message_of_eviction,
    mode_of,
    says,
    since,
    status_of,
)
from makeway.core.messages import shown_reason
from makeway.core.model import Millis, Queue
from makeway.core.policy import PodsReady, Policy

Answer = Action | Millis | None  # what to write, or until when to wait
BACKED_OFF = ("PodsReadyTimeout", "AdmissionCheck")
RESTARTS = {"ClusterQueueStopped": "ClusterQueueRestarted", "LocalQueueStopped": "LocalQueueRestarted"}
BY_US = f"{DEACTIVATED}DueTo"  # the prefix of the reason of an eviction by our own deactivation
GATED_BY = "Admission is gated by "
NO_QUEUE = "No LocalQueue is named"
REPLACEMENT = "WaitingForReplacementPods"
WAITS_FOR_PODS = f"It is not considered while its condition {REPLACEMENT} is True"


def no_linger(workload: Workload) -> int:
    return 0


# --- one reconcile ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class WorkloadContext:
    """A Workload with all that its rules read."""

    ref: Ref[Workload]
    workload: Workload
    view: View
    now: Millis
    linger: Callable[[Workload], int]

    @property
    def policy(self) -> Policy:
        return self.view.policy

    @property
    def owner(self) -> OwnerReference | None:
        return self.workload.metadata.controller

    @property
    def is_option(self) -> bool:
        return mode_of(self.workload) == "ResourceFlavorOption"

    @property
    def stays(self) -> bool:
        """Whether it is active and was not asked to leave."""
        return self.workload.spec.active and not says(self.workload, "Evicted")

    @property
    def local_queue(self) -> LocalQueue | None:
        return self.view.get(Ref(LOCAL_QUEUE, self.workload.metadata.namespace, self.workload.spec.queue_name))

    @property
    def cluster_queue(self) -> ClusterQueue | None:
        return self.view.get(Ref(CLUSTER_QUEUE, "", self.view.queue_of(self.workload)))

    @property
    def queue(self) -> Queue | None:
        return self.view.state.queues.get(self.view.queue_of(self.workload))

    def owner_object(self) -> KubernetesObject | None:
        """The owner that the reference names, if it still exists."""
        owner = self.owner
        if owner is None:
            return None
        found = self.view.get(Ref.named(owner.kind, self.workload.metadata.namespace, owner.name))
        return found if found is not None and found.metadata.uid == owner.uid else None

    def change(self, edit: Edit[Workload], *notes: Note, status: bool = True) -> Action:
        return Action(Change(self.ref, edit, status=status, uid=self.workload.metadata.uid), notes=notes)

    def note(self, type: str, reason: str, message: str) -> Note:
        return Note(self.ref, type, reason, message)


class Workloads:
    """``linger``: for how many milliseconds after its eviction a workload without an owner keeps its quota."""

    kinds = frozenset({"Workload"})

    def __init__(self, linger: Callable[[Workload], int] = no_linger) -> None:
        self._linger = linger

    def react(self, ref: Ref[Workload], view: View, now: Millis) -> Outcome:
        workload = view.get(ref)
        if workload is None:
            return NOTHING
        context = WorkloadContext(ref, workload, view, now, self._linger)
        until: Millis | None = None
        for rule in _rules(context):
            answer = rule(context)
            if answer is None:
                continue
            if isinstance(answer, Action):
                return Outcome(actions=(answer,))
            until = answer if until is None else min(until, answer)
        return NOTHING if until is None else Outcome(again_at=until)


def _rules(context: WorkloadContext) -> tuple[Callable[[WorkloadContext], Answer], ...]:
    if context.workload.metadata.deletion_timestamp is not None:
        return (let_go,)
    if says(context.workload, "Finished"):
        return (keep_finished,)
    return HOLDING if holds_quota(context.workload) else WAITING


# --- the ends --------------------------------------------------------------------------------------------------------


def let_go(context: WorkloadContext) -> Answer:
    """Nothing frees quota while something runs on it: the finalizer stays as long (S-10.3)."""
    workload, finalizers = context.workload, context.workload.metadata.finalizers
    if RESOURCE_IN_USE not in finalizers and not holds_quota(workload):
        return None
    owner = None if says(workload, "Finished") else context.owner_object()
    kind = None if owner is None else job_kind_of(owner)
    if owner is not None and kind is not None and _runs(owner, kind, context.policy):
        return None
    if owner is None and _leaves_pods(context):
        return None
    if isinstance(owner, Workload) and owner.metadata.deletion_timestamp is None and holds_quota(workload):
        return None  # an Option whose Parent lives leaves first (S-12.10)
    if holds_quota(workload) and set(finalizers) - {RESOURCE_IN_USE}:  # a foreign finalizer keeps it, but not its quota
        return context.change(
            Release(context.now, shown_reason("PendingEvaluation", context.policy), "It is being deleted")
        )
    return context.change(RemoveFinalizer(), status=False) if RESOURCE_IN_USE in finalizers else None


def _runs(value: KubernetesObject, kind: JobKind, policy: Policy) -> bool:
    """Whether a job has pods, may get some, or still carries what its admission gave it.

    The controller that stops jobs of its kind, if any, cleans that up.
    """
    return not lets_go(value) if kind.framework in policy.jobs.frameworks else kind.read(value).has_pods


def _leaves_pods(context: WorkloadContext) -> bool:
    """Whether pods of a deleted job are still terminating, where that is visible."""
    owner = None if says(context.workload, "Finished") else context.owner
    return owner is not None and any(may_run(each) for each in context.view.owned(owner.uid, POD))


def keep_finished(context: WorkloadContext) -> Answer:
    """Keep a finished Workload for the configured time, then remove it; an Option goes with its Parent (S-10.11)."""
    keep = context.policy.keep_finished_ms
    if keep is None or context.is_option:
        return None
    until = Millis(since(condition(context.workload, "Finished"), context.now) + keep)
    if context.now < until:
        return until
    event = context.note("Normal", "Deleted", "Deleted: its time after the finish is over")
    return Action(Delete(context.ref, uid=context.workload.metadata.uid), notes=(event,))


def keep_deactivated(context: WorkloadContext) -> Answer:
    """Remove a Workload that makeway deactivated, with its job, after the configured time (S-10.11)."""
    keep = context.policy.keep_deactivated_ms
    if keep is None or context.workload.spec.active:
        return None
    evicted, owner = condition(context.workload, "Evicted"), context.owner_object()
    if evicted is None or evicted.status != "True" or not evicted.reason.startswith(BY_US):
        return None
    if owner is None or isinstance(owner, Workload) or owner.metadata.deletion_timestamp is not None:
        return None
    until = Millis(since(evicted, context.now) + keep)
    if context.now < until:
        return until
    event = context.note("Normal", "Deleted", "Deleted with its job: its time after the deactivation is over")
    return Action(Delete(Ref.of(owner), uid=owner.metadata.uid), notes=(event,))


def deactivate(context: WorkloadContext) -> Answer:
    """Deactivate in two writes: first the spec, then what follows from it in the status (S-10.10)."""
    workload, target = context.workload, condition(context.workload, "DeactivationTarget")
    wanted = target is not None and target.status == "True"
    if workload.spec.active:
        return context.change(SwitchOff(), status=False) if wanted else None
    leaves = not says(workload, "Evicted")
    if not (leaves or wanted or status_of(workload).requeue_state is not None):
        return None
    waits = explain_wait(context)
    if isinstance(waits, Action) and isinstance(waits.write, Change):  # it holds no quota: one write does both
        return context.change(InTurn(Deactivate(context.now), waits.write.edit), *waits.notes)
    cause, message = (target.reason, target.message) if wanted and target else ("", message_of_eviction(DEACTIVATED))
    events = (event_of_eviction(context.ref, DEACTIVATED, message, cause),) if leaves and holds_quota(workload) else ()
    return context.change(Deactivate(context.now), *events)


def limit_execution(context: WorkloadContext) -> Answer:
    """Evict a workload when its execution time is over (S-10.9)."""
    limit, workload = context.workload.spec.maximum_execution_time_seconds, context.workload
    if limit is None or context.is_option or not context.stays or not says(workload, "Admitted"):
        return None
    left = limit - (status_of(workload).accumulated_past_execution_time_seconds or 0)
    until = Millis(since(condition(workload, "Admitted"), context.now) + left * 1000)
    if context.now < until:
        return until
    message = f"The maximum execution time of {limit}s is used up"
    return context.change(Aim(OUT_OF_TIME, message, context.now), context.note("Warning", OUT_OF_TIME, message))


def heed_rejection(context: WorkloadContext) -> Answer:
    """Deactivate a workload that a check rejects for good (S-11.4)."""
    if not status_of(context.workload).admission_checks or not context.workload.spec.active:
        return None
    rejected = in_state(context.workload, "Rejected")
    if not rejected:
        return None
    message = rejected_message(rejected)
    event = context.note("Warning", "AdmissionCheckRejected", message)
    return context.change(Aim("AdmissionCheck", message, context.now), event)


# --- the ways back ---------------------------------------------------------------------------------------------------


def stop_with_queue(context: WorkloadContext) -> Answer:
    """A reservation in a stopped queue ends; what runs stays, unless the queue is drained (S-3.3).

    So does a reservation of a ClusterQueue that is being deleted, or is gone: it is not used yet, and would keep the
    queue for as long as a check takes.
    """
    workload = context.workload
    if not holds_quota(workload):
        return None
    cluster, local = context.cluster_queue, context.local_queue
    gone = going(cluster, context.view.queue_of(workload))
    if gone and not says(workload, "Admitted"):
        return context.change(Release(context.now, shown_reason("Misconfigured", context.policy), gone))
    for queue, reason in ((cluster, "ClusterQueueStopped"), (local, "LocalQueueStopped")):
        if queue is None or not queue.spec.is_stopped:
            continue
        if not says(workload, "Admitted"):
            public = shown_reason("Suspended", context.policy)
            return context.change(Release(context.now, public, inactive(queue.kind, queue.metadata.name)))
        if queue.spec.drains and context.stays:
            message = f"{queue.kind} {queue.metadata.name} is stopped"
            return context.change(Evict(reason, message, context.now), event_of_eviction(context.ref, reason, message))
    return None


def heed_retry(context: WorkloadContext) -> Answer:
    """Evict for a check that asks for another attempt, and reset the checks (S-11.3)."""
    retrying = in_state(context.workload, "Retry") if status_of(context.workload).admission_checks else ()
    if not retrying:
        return None
    leaves = holds_quota(context.workload) and not says(context.workload, "Evicted")
    events = (event_of_eviction(context.ref, "AdmissionCheck", retry_message(retrying)),) if leaves else ()
    return context.change(TryAgain(context.now), *events)


def expect_pods(context: WorkloadContext) -> Answer:
    """Pods that are not ready in time send the Workload back; too often, and it stays out (S-10.7)."""
    settings = context.policy.pods_ready
    if settings is None or context.is_option or not context.stays or not says(context.workload, "Admitted"):
        return None
    expected = _pods_expected(context.workload, settings, context.now)
    if expected is None:
        return None
    cause, until, span_ms = expected
    if context.now < until:
        return until
    requeuing = context.policy.requeuing
    count = ((status_of(context.workload).requeue_state or RequeueState()).count or 0) + 1
    if requeuing.backoff_limit_count is not None and count > requeuing.backoff_limit_count:
        message = f"Its pods were not ready in time, and it was requeued {count - 1} times already"
        return context.change(Aim("RequeuingLimitExceeded", message, context.now))
    message = f"{message_of_eviction('PodsReadyTimeout', cause)}, which is {Duration(span_ms * 10**6).short()}"
    event = event_of_eviction(context.ref, "PodsReadyTimeout", message, cause)
    return context.change(BackOff(cause, message, context.now, requeuing), event)


def _pods_expected(workload: Workload, settings: PodsReady, now: Millis) -> tuple[str, Millis, int] | None:
    """What its pods are waited for, until when, and how long that is; None: there is no limit.

    A loss of pods that is older than the admission belongs to an earlier attempt: its clock does not count here.
    """
    ready, admitted = condition(workload, "PodsReady"), since(condition(workload, "Admitted"), now)
    if ready is not None and ready.status == "True":
        return None
    if ready is not None and ready.reason == "WaitForRecovery" and since(ready, now) >= admitted:
        span = settings.recovery_timeout_ms
        return None if span is None else ("WaitForRecovery", Millis(since(ready, now) + span), span)
    return "WaitForStart", Millis(admitted + settings.timeout_ms), settings.timeout_ms


def give_back(context: WorkloadContext) -> Answer:
    """The quota of a Workload without a job is free as soon as it has been asked to leave (S-10.3).

    A Parent leaves after its Option was asked to, so that it does not take over the same admission again (S-12.10).
    """
    workload = context.workload
    if not says(workload, "Evicted") or context.owner is not None or not holds_quota(workload):
        return None
    if mode_of(workload) == "Parent":
        family = context.view.owned(workload.metadata.uid, WORKLOAD)
        if any(says(each, "Admitted") and not says(each, "Evicted") for each in family):
            return None
    until = Millis(since(condition(workload, "Evicted"), context.now) + context.linger(workload))
    if context.now < until:
        return until
    return context.change(Release(context.now, shown_reason("PendingEvaluation", context.policy)))


def pass_checks(context: WorkloadContext) -> Answer:
    """List the checks of the assigned flavors, and admit once all of them are ready (S-11.1, 11.2)."""
    workload, queue = context.workload, context.queue
    if queue is None or not workload.spec.active:
        return None
    if queue.checks or status_of(workload).admission_checks:
        lists = ListChecks(queue, context.now)
        if lists(workload) is not workload:
            return context.change(lists)
    if not holds_quota(workload) or says(workload, "Admitted"):
        return None
    owner = context.owner
    siblings = context.view.owned(owner.uid, WORKLOAD) if context.is_option and owner is not None else ()
    if not may_be_admitted(queue, workload, siblings):
        return None
    event = context.note("Normal", "Admitted", admitted_message(workload, context.now))
    return context.change(Admit(queue, context.now), event)


def end_back_off(context: WorkloadContext) -> Answer:
    """Put a Workload back into its queue once its back-off is over, whatever it was evicted for (S-10.5)."""
    workload, requeued = context.workload, condition(context.workload, "Requeued")
    if holds_quota(workload) or not workload.spec.active:
        return None
    reason = requeued.reason if requeued is not None and requeued.status == "False" else ""
    state = status_of(workload).requeue_state
    until = None if state is None or state.requeue_at is None else Millis(state.requeue_at.millis)
    if reason.startswith(DEACTIVATED):
        return context.change(Requeue("Reactivated", "The workload is active again", context.now))
    if reason in RESTARTS:
        kind = reason.removesuffix("Stopped")
        queue = context.cluster_queue if kind == "ClusterQueue" else context.local_queue
        if queue is None or queue.spec.is_stopped:
            return None
        message = f"{kind} {queue.metadata.name} is started again"
        return context.change(Requeue(RESTARTS[reason], message, context.now))
    if until is not None and context.now < until:
        return until
    if reason in BACKED_OFF or (until is not None and not reason):
        return context.change(Requeue("BackoffFinished", "The time to wait is over", context.now))
    return None


# --- what it shows ---------------------------------------------------------------------------------------------------


def list_gates(context: WorkloadContext) -> Answer:
    gates = context.policy.gates
    if not (gates.multi_kueue_orchestrated_preemption or gates.concurrent_admission):
        return None
    if not context.workload.spec.preemption_gates and not status_of(context.workload).preemption_gates:
        return None
    lists = ListGates(context.now)
    return None if lists(context.workload) is context.workload else context.change(lists)


def explain_wait(context: WorkloadContext) -> Answer:
    """Say why a workload cannot be considered: it is never evaluated, so no other component would say so (api 17).

    A workload on hold keeps that reason (OnHold); a Parent speaks for its Options.
    """
    workload, reserved = context.workload, condition(context.workload, "QuotaReserved")
    if holds_quota(workload) or mode_of(workload) == "Parent":
        return None
    if reserved is not None and reserved.reason == "OnHold":
        return None
    fault = obstacle(context)
    if fault is not None:
        reason, message = shown_reason(fault[0], context.policy), fault[1]
        if reserved is not None and (reserved.reason, reserved.message) == (reason, message):
            return None
        type, event = ("Normal", "AdmissionGated") if fault[0] == "AdmissionGated" else ("Warning", reason)
        return context.change(TellWhyWaiting(reason, message, context.now), context.note(type, event, message))
    if reserved is None and not _says_so_from_the_start(context.policy):
        return None
    if reserved is not None and not _is_ours(reserved.message):
        return None
    cleared = (context.note("Normal", "AdmissionGateCleared", "Nothing gates the admission any more"),)
    notes = cleared if reserved is not None and reserved.message.startswith(GATED_BY) else ()
    wait = TellWhyWaiting(shown_reason("PendingEvaluation", context.policy), "Waits to be considered", context.now)
    return context.change(wait, *notes)


def obstacle(context: WorkloadContext) -> tuple[str, str] | None:
    """What keeps a workload without quota from being considered, the most important first (conventions 4.3)."""
    workload, local = context.workload, context.local_queue
    if not workload.spec.active:
        return "Deactivated", message_of_eviction(DEACTIVATED)
    name = context.view.queue_of(workload)
    if not workload.spec.queue_name:
        return "Misconfigured", NO_QUEUE
    if local is None:
        return "Misconfigured", f"LocalQueue {workload.spec.queue_name} not found"
    if gone := going(context.cluster_queue, name):
        return "Misconfigured", gone
    if not context.view.state.is_active(name):
        return "Suspended", inactive("ClusterQueue", name)
    if local.spec.is_stopped:
        return "Suspended", inactive("LocalQueue", local.metadata.name)
    gates = workload.metadata.annotations.get(ADMISSION_GATED_BY, "").strip()
    if gates and context.policy.gates.admission_gated_by and not context.is_option:
        return "AdmissionGated", f"{GATED_BY}{gates}"
    if says(workload, REPLACEMENT):
        return "PendingEvaluation", WAITS_FOR_PODS
    return None


def going(queue: ClusterQueue | None, name: str) -> str:
    """The message for workloads of a ClusterQueue that is gone or being deleted; "": it is neither."""
    if queue is None:
        return f"ClusterQueue {name} not found"
    return f"ClusterQueue {name} is terminating" if queue.metadata.deletion_timestamp is not None else ""


def _says_so_from_the_start(policy: Policy) -> bool:
    """Whether a workload has its conditions as soon as it is seen; that gate needs granular reasons (KEP-10852)."""
    return policy.gates.unadmitted_workloads_explicit_status and policy.gates.unadmitted_workloads_observability


def inactive(kind: str, name: str) -> str:
    return f"{kind} {name} is inactive"


def _is_ours(message: str) -> bool:
    """Whether this controller wrote an obstacle, or the same words; others are what the scheduler found."""
    if message.startswith(GATED_BY) or message in (NO_QUEUE, WAITS_FOR_PODS, message_of_eviction(DEACTIVATED)):
        return True
    about_queue = message.startswith(("ClusterQueue ", "LocalQueue "))
    return about_queue and message.endswith((" is inactive", " is terminating", " not found"))


# --- the rules in their order -----------------------------------------------------------------------------------------

# The rules for workloads with quota, and those for workloads without; rules without an effect there are left out.
HOLDING = (
    deactivate, limit_execution, heed_rejection, stop_with_queue, heed_retry, expect_pods, give_back, pass_checks,
    list_gates, keep_deactivated,
)  # fmt: skip
WAITING = (
    deactivate, limit_execution, heed_rejection, heed_retry, expect_pods, pass_checks, end_back_off, list_gates,
    explain_wait, keep_deactivated,
)  # fmt: skip
