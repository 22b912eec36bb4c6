"""Decisions in the words that users' scripts rely on (conventions 4.4), and the reasons that conditions carry."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Literal

from makeway.api.quantity import Duration, Quantity, Time
from makeway.core.cycle.cycle import Verdict
from makeway.core.model import Millis, Workload, WorkloadKey
from makeway.core.policy import Policy
from makeway.core.trace import Rule, Step

Conditions = dict[str, tuple[Literal["True", "False"], str]]  # type -> status, reason

NO_LONGER_FITS = "Workload no longer fits after processing another workload"
OVERLAPS = "Workload has overlapping preemption targets with another workload"
WILL_FIT = f"{OVERLAPS}, but will fit after these preemptions complete"
GATED = "Workload requires preemption, but it's gated"
HUMAN_REASONS = {
    "InClusterQueue": "prioritization in the ClusterQueue",
    "InClusterQueueTimeBased": "time-based prioritization in the ClusterQueue",
    "InCohortReclamation": "reclamation within the cohort",
    "InCohortFairSharing": "Fair Sharing within the cohort",
    "InCohortReclaimWhileBorrowing": "reclamation within the cohort while borrowing",
}

COARSE_REASONS = {
    **dict.fromkeys(("Deactivated", "Misconfigured", "Suspended"), "Inadmissible"),
    "WaitingForPodsReady": "Waiting", "AdmissionGated": "AdmissionGated", "OnHold": "OnHold",
}  # fmt: skip


_AMOUNT = re.compile(r"(?<=[ (])-?\d[\w.]*(?=\)| more needed| workload\(s\))")


def amount(number: int, resource: str) -> str:
    """An amount as it is shown: ``1500m``, ``2Gi``, ``3`` (S-1.11)."""
    return str(Quantity.of_units(number, resource))


def pending_reason(verdict: Verdict) -> str:
    """The reason of QuotaReserved=False (S-5.12)."""
    if verdict.steps and verdict.steps[0].rule is Rule.REFUSED:
        return verdict.steps[0].subjects[1]
    match verdict.requeue:
        case "NoFit":
            return verdict.assignment.why.public if verdict.assignment.why is not None else "WaitingForQuota"
        case "PendingPreemption" | "PendingMigration":
            return "WaitingForPreemptedWorkloads"
        case "PreemptionGated":
            return "AdmissionGated"
    if verdict.waits_for_pods:
        return "WaitingForPodsReady"
    return "WaitingForQuota"


def shown_reason(reason: str, policy: Policy) -> str:
    """The reason of QuotaReserved=False as it is stored: without granular reporting there are fewer (api 14.1)."""
    return reason if policy.gates.unadmitted_workloads_observability else COARSE_REASONS.get(reason, "Pending")


def conditions_with_quota(before: Mapping[str, str], *, checks_done: bool) -> Conditions:
    """The conditions of a workload that gets quota (S-5.7.14, 10.6); ``before``: the statuses of its conditions."""
    conditions: Conditions = {
        "QuotaReserved": ("True", "QuotaReserved"),
        "Admitted": ("True", "Admitted") if checks_done else ("False", "UnsatisfiedAdmissionChecks"),
    }
    for ended in ("Evicted", "Preempted", "QuotaReservationBlocked"):
        if before.get(ended) == "True":
            conditions[ended] = ("False", "QuotaReserved")
    return conditions


def conditions_without_quota(before: Mapping[str, str], reason: str) -> Conditions:
    """The conditions of a workload that waits for ``reason`` (S-5.12)."""
    conditions: Conditions = {"QuotaReserved": ("False", reason)}
    if before.get("Admitted", "True") == "True":
        conditions["Admitted"] = ("False", "NoReservation")
    return conditions


def conditions_after(verdict: Verdict, before: Mapping[str, str], *, checks_done: bool) -> Conditions:
    """The conditions that a verdict sets on its workload; ``before``: the statuses that they have."""
    if verdict.status == "admitted":
        return conditions_with_quota(before, checks_done=checks_done)
    conditions = conditions_without_quota(before, pending_reason(verdict))
    if verdict.requeue == "PreemptionGated":
        conditions["QuotaReservationBlocked"] = ("True", "PreemptionGated")
    elif before.get("QuotaReservationBlocked") == "True" and verdict.requeue in ("NoFit", "PreemptionNoCandidates"):
        conditions["QuotaReservationBlocked"] = ("False", "PreemptionNotPossible")
    return conditions


def conditions_of_leaving(verdict: Verdict) -> dict[WorkloadKey, Conditions]:
    """The conditions of workloads that a verdict asks to leave; earlier evictions stay as they are (S-10.1, 10.2)."""
    conditions: dict[WorkloadKey, Conditions] = {
        target.workload.key: {"Preempted": ("True", target.reason), "Evicted": ("True", "Preempted")}
        for target in verdict.targets
        if not target.workload.evicted
    }
    if verdict.replaces is not None and not verdict.replaces.evicted:
        conditions[verdict.replaces.key] = {"Evicted": ("True", "FlavorMigration")}
    return conditions


def pending_message(verdict: Verdict) -> str:
    """The message of QuotaReserved=False."""
    rules = {step.rule for step in verdict.steps}
    if Rule.REFUSED in rules:
        return verdict.steps[0].subjects[2]
    if Rule.PODS_NOT_READY in rules:
        return "waiting for all admitted workloads to be in the PodsReady condition"
    if Rule.HELD_BACK in rules:
        owners = next(step.subjects[1:] for step in verdict.steps if step.rule is Rule.HELD_BACK)
        return f"{NO_LONGER_FITS}; what it needs is kept free for {', '.join(owners)}"
    if Rule.LOST in rules:
        return NO_LONGER_FITS
    if Rule.OVERLAP in rules:
        return OVERLAPS
    if Rule.DEFERRED in rules:
        return WILL_FIT
    if Rule.GATED in rules:
        return GATED
    text = assignment_message(verdict.assignment.steps)
    displaced = len(verdict.targets) + len(verdict.took)
    if displaced:
        return f"{text}. Pending the preemption of {displaced} workload(s)"
    return "; ".join([text, *_why_no_preemption(verdict.steps)])


def back_off_message(workload: Workload, now: Millis) -> str:
    """The message of a workload that is not evaluated because it backs off (S-4.5.2)."""
    if workload.requeue_at is not None and now < workload.requeue_at:
        return f"Backs off until {Time.of_millis(workload.requeue_at)}"
    return "Backs off: its condition Requeued is False"


def _why_no_preemption(steps: Iterable[Step]) -> Iterator[str]:
    """What keeps a workload from displacing others, although the policies of its queue would let it."""
    without_quota = []
    for step in steps:
        match step.rule:
            case Rule.ROUND_TOO_MANY:
                yield _barred_words(step)
            case Rule.DISPLACED_BY_TIME:
                at = Time.of_millis(step.numbers[0])
                yield f"it was displaced by time itself, and displaces no workload of its priority before {at}"
            case Rule.NOT_ITS_TURN:
                yield f"{step.subjects[1]} comes before it in the queue, and displaces workloads by time first"
            case Rule.NO_NOMINAL_QUOTA:
                without_quota.append(f"{step.subjects[1]} in flavor {step.subjects[2]}")
    if without_quota:
        yield (
            f"preemption cannot help: its ClusterQueue has no nominal quota for {', '.join(without_quota)}; nominal "
            "quota would help, or borrowWithinCohort, or fair sharing with reclaimWithinCohort"
        )


def _barred_words(step: Step) -> str:
    """The message of a workload that has used up its rounds: since when, and what ends that (S-19.3.2)."""
    since, peace = Time.of_millis(step.numbers[2]), Duration(step.numbers[3] * 1_000_000)
    by = f"when {step.subjects[1]}, which displaced it last, finishes or is deleted, " if step.subjects[1] else ""
    return (
        f"may not displace others since {since}: ends {by}when it or the quota or policies of its cohort change, or "
        f"after it has held quota for {peace.short()} while nobody there preempts but by time"
    )


@lru_cache(maxsize=4096)
def message_class(message: str) -> str:
    """A pending message without its amounts: a message that differs in these only is not news (S-5.12)."""
    return _AMOUNT.sub("#", message)


def assignment_message(steps: Iterable[Step]) -> str:
    """Why no flavor that was tried will do, podSet by podSet."""
    by_pod_set: dict[str, list[str]] = {}
    for step in steps:
        words = _flavor_words(step)
        if words:
            by_pod_set.setdefault(step.subjects[0], []).append(words)
    return "; ".join(
        f"couldn't assign flavors to pod set {name}: {', '.join(reasons)}" for name, reasons in by_pod_set.items()
    )


def _flavor_words(step: Step) -> str:
    names, numbers = step.subjects[1:], step.numbers
    match step.rule:
        case Rule.SHORT:
            missing = amount(numbers[2], names[0])
            return f"insufficient unused quota for {names[0]} in flavor {names[1]}, {missing} more needed"
        case Rule.EXCEEDS_MAX:
            asked, before, most = (amount(number, names[0]) for number in numbers)
            return (
                f"insufficient quota for {names[0]} in flavor {names[1]}, previously considered podsets requests "
                f"({before}) + current podset request ({asked}) > maximum capacity ({most})"
            )
        case Rule.TAINT:
            return f"untolerated taint {names[1]}={names[2]}:{names[3]} in flavor {names[0]}"
        case Rule.AFFINITY:
            return f"flavor {names[0]} doesn't match node affinity"
        case Rule.NOT_COVERED:
            return f"resource {names[0]} unavailable in ClusterQueue"
        case Rule.NOT_FOUND:
            return f"flavor {names[0]} not found"
        case Rule.NOT_ALLOWED:
            return f"flavor {names[0]} is not among the allowed ones"
    return ""


def preempted_message(*, uid: str, job_uid: str, reason: str, preemptor: str, preemptee: str) -> str:
    """The message of a victim; the paths are those of the two queues."""
    return (
        f"Preempted to accommodate a workload (UID: {uid or 'UNKNOWN'}, JobUID: {job_uid or 'UNKNOWN'}) due to "
        f"{HUMAN_REASONS[reason]}; preemptor path: {preemptor}; preemptee path: {preemptee}"
    )


def reserved_message(queue: str, waited_seconds: int) -> str:
    return f"Quota reserved in ClusterQueue {queue}, wait time since queued was {waited_seconds}s"
