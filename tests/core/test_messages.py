"""Verdicts in the words and reasons that users' scripts rely on (S-5.12)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from makeway.core.cycle.cycle import Verdict
from makeway.core.cycle.flavors import Assignment, NoFit
from makeway.core.messages import (
    amount,
    assignment_message,
    conditions_after,
    conditions_of_leaving,
    message_class,
    pending_message,
    pending_reason,
    preempted_message,
    reserved_message,
)
from makeway.core.model import Taint
from makeway.core.queueing.pending import Requeue
from makeway.core.trace import WORDS, Rule, Step
from makeway.testing.builders import cycle, flavor, holder, queue, state, workload

W = workload("w")


def waits(requeue: Requeue, *rules: Rule, why: NoFit | None = None) -> Verdict:
    steps = tuple(Step(rule, ("default/w", "Misconfigured", "the words")) for rule in rules)
    assignment = Assignment(why=why)
    return Verdict(workload=W, status="waiting", assignment=assignment, mode="NoFit", requeue=requeue, steps=steps)


REASONS = {
    "S-5.12 no fit, waiting": (waits("NoFit", why=NoFit.WAITING_FOR_QUOTA), "WaitingForQuota"),
    "S-5.12 no fit, ever": (waits("NoFit", why=NoFit.EXCEEDS_MAX_QUOTA), "ExceedsMaxQuota"),
    "S-5.12 no fit, no flavor": (waits("NoFit", why=NoFit.NO_MATCHING_FLAVOR), "NoMatchingFlavor"),
    "no fit without a reason": (waits("NoFit"), "WaitingForQuota"),
    "S-5.12 nobody to displace": (waits("PreemptionNoCandidates"), "WaitingForQuota"),
    "S-5.12 lost to another": (waits("FailedAfterNomination", Rule.LOST), "WaitingForQuota"),
    "S-5.12 victims on their way": (waits("PendingPreemption"), "WaitingForPreemptedWorkloads"),
    "S-5.12 a migration": (waits("PendingMigration"), "WaitingForPreemptedWorkloads"),
    "S-5.12 a closed gate": (waits("PreemptionGated", Rule.GATED), "AdmissionGated"),
    "refused before any search": (waits("Generic", Rule.REFUSED), "Misconfigured"),
    "waiting for pods": (waits("FailedAfterNomination", Rule.PODS_NOT_READY), "WaitingForPodsReady"),
}


@pytest.mark.parametrize(("verdict", "reason"), REASONS.values(), ids=REASONS)
def test_reasons(verdict: Verdict, reason: str) -> None:
    assert pending_reason(verdict) == reason


MESSAGES = {
    "refused": (Rule.REFUSED, "the words"),
    "lost": (Rule.LOST, "Workload no longer fits after processing another workload"),
    "overlap": (Rule.OVERLAP, "Workload has overlapping preemption targets with another workload"),
    "deferred": (
        Rule.DEFERRED,
        "Workload has overlapping preemption targets with another workload, "
        "but will fit after these preemptions complete",
    ),
    "gated": (Rule.GATED, "Workload requires preemption, but it's gated"),
    "pods": (Rule.PODS_NOT_READY, "waiting for all admitted workloads to be in the PodsReady condition"),
}


@pytest.mark.parametrize(("rule", "words"), MESSAGES.values(), ids=MESSAGES)
def test_messages(rule: Rule, words: str) -> None:
    assert pending_message(waits("FailedAfterNomination", rule)) == words


def test_what_is_missing_is_told_podset_by_podset_and_flavor_by_flavor() -> None:
    on = state(
        queue("q", {"f1": 4, "f2": 1, "f3": 9, "f4": 9}, within="LowerPriority"),
        flavor("f3", taints=[Taint("gpu", "yes", "NoSchedule")]),
        holder("h", usage={"f1": 3}),
        workload("w", cpu=2),
    )
    del on.flavors["f4"]  # type: ignore[arg-type]
    (verdict,) = cycle(on).verdicts
    assert pending_message(verdict) == (
        "couldn't assign flavors to pod set main: insufficient unused quota for cpu in flavor f1, 1 more needed, "
        "insufficient quota for cpu in flavor f2, previously considered podsets requests (0) + current podset "
        "request (2) > maximum capacity (1), untolerated taint gpu=yes:NoSchedule in flavor f3, flavor f4 not found"
    )


def test_victims_are_counted() -> None:
    on = state(queue("q", 2, within="LowerPriority"), holder("h", cpu=2), workload("w", cpu=1.5, priority=1))
    (verdict,) = cycle(on).verdicts
    assert pending_message(verdict) == (
        "couldn't assign flavors to pod set main: insufficient unused quota for cpu in flavor default, "
        "1500m more needed. Pending the preemption of 1 workload(s)"
    )


WORDED = {
    "affinity": (Step(Rule.AFFINITY, ("main", "f1")), "flavor f1 doesn't match node affinity"),
    "not covered": (Step(Rule.NOT_COVERED, ("main", "gpu"), (1,)), "resource gpu unavailable in ClusterQueue"),
    "not allowed": (Step(Rule.NOT_ALLOWED, ("main", "f1")), "flavor f1 is not among the allowed ones"),
}


@pytest.mark.parametrize(("step", "words"), WORDED.values(), ids=WORDED)
def test_words_about_flavors(step: Step, words: str) -> None:
    assert assignment_message([step]) == f"couldn't assign flavors to pod set main: {words}"
    assert assignment_message([Step(Rule.FITS, ("main", "cpu", "f1"), (1, 2, 0))]) == ""


CLASSES = {
    "short": ("for cpu in flavor f-1, 1500m more needed", "for cpu in flavor f-1, # more needed"),
    "a flavor that is a number": ("for cpu in flavor 7, 2 more needed", "for cpu in flavor 7, # more needed"),
    "too much": (
        "requests (0) + current podset request (10Gi) > maximum capacity (-1.5)",
        "requests (#) + current podset request (#) > maximum capacity (#)",
    ),
    "victims": (". Pending the preemption of 12 workload(s)", ". Pending the preemption of # workload(s)"),
    "a name": ("what it needs is kept free for team/work-1", "what it needs is kept free for team/work-1"),
}


@pytest.mark.parametrize(("message", "expected"), CLASSES.values(), ids=CLASSES)
def test_S_5_12_the_class_of_a_message_has_no_amounts_and_all_names(message: str, expected: str) -> None:
    assert message_class(message) == expected


def test_S_1_11_amounts() -> None:
    shown = {amount(1500, "cpu"), amount(2000, "cpu"), amount(2 * 2**30, "memory"), amount(3, "nvidia.com/gpu")}
    assert shown == {"1500m", "2", "2Gi", "3"}


def test_a_victim_is_told_for_whom_and_why() -> None:
    words = preempted_message(uid="u", job_uid="", reason="InClusterQueueTimeBased", preemptor="/r/a", preemptee="/r/b")
    assert words == (
        "Preempted to accommodate a workload (UID: u, JobUID: UNKNOWN) due to time-based prioritization in the "
        "ClusterQueue; preemptor path: /r/a; preemptee path: /r/b"
    )
    assert reserved_message("q", 7) == "Quota reserved in ClusterQueue q, wait time since queued was 7s"


def test_an_admission_ends_what_was_true_while_it_waited() -> None:
    verdict = Verdict(workload=W, status="admitted", assignment=Assignment(), mode="Fit")
    before = {"Evicted": "True", "Preempted": "False", "QuotaReservationBlocked": "True"}
    assert conditions_after(verdict, before, checks_done=True) == {
        "QuotaReserved": ("True", "QuotaReserved"),
        "Admitted": ("True", "Admitted"),
        "Evicted": ("False", "QuotaReserved"),
        "QuotaReservationBlocked": ("False", "QuotaReserved"),
    }
    assert conditions_after(verdict, {}, checks_done=False)["Admitted"] == ("False", "UnsatisfiedAdmissionChecks")


def test_a_wait_says_why_and_whether_a_gate_blocks_it() -> None:
    gated = conditions_after(waits("PreemptionGated", Rule.GATED), {"Admitted": "False"}, checks_done=False)
    assert gated == {
        "QuotaReserved": ("False", "AdmissionGated"),
        "QuotaReservationBlocked": ("True", "PreemptionGated"),
    }
    later = conditions_after(waits("NoFit"), {"QuotaReservationBlocked": "True"}, checks_done=False)
    assert later["QuotaReservationBlocked"] == ("False", "PreemptionNotPossible")
    assert later["Admitted"] == ("False", "NoReservation")


def test_those_who_must_leave_are_told_once() -> None:
    on = state(queue("q", 2, within="LowerPriority"), holder("h", cpu=2), workload("w", priority=1))
    (verdict,) = cycle(on).verdicts
    assert conditions_of_leaving(verdict) == {
        "default/h": {"Preempted": ("True", "InClusterQueue"), "Evicted": ("True", "Preempted")}
    }
    told = [replace(each, workload=each.workload.but(evicted=True)) for each in verdict.targets]
    assert conditions_of_leaving(replace(verdict, targets=tuple(told))) == {}
    moved = replace(verdict, targets=(), replaces=holder("sibling"))
    assert conditions_of_leaving(moved) == {"default/sibling": {"Evicted": ("True", "FlavorMigration")}}


@pytest.mark.parametrize("rule", Rule)
def test_every_rule_has_words(rule: Rule) -> None:
    assert str(Step(rule, (), tuple(range(1, 11))))
    assert WORDS[rule]


def test_what_a_node_lacks_is_told_in_amounts() -> None:
    lacks = Step(Rule.PLACE_LACKS, ("d/p", "n1", "memory"), (3 * 2**30, 2**30, 2 * 2**30))
    assert str(lacks) == "the nearest miss: 3Gi are asked for, 1Gi would be free, 2Gi are missing"
