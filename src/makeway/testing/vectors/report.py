"""The verdict on each case, and the text of the report."""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

from makeway.testing.vectors import cycles, flavors, nodes, oracle, preemption, queues, quota, rounding, shares
from makeway.testing.vectors.facts import Findings
from makeway.testing.vectors.reading import Case
from makeway.testing.vectors.scope import OF_SUITE, missing_feature

ADAPTERS: dict[str, Callable[[Case], Findings]] = {
    "quota_available": quota.available,
    "quota_snapshot": quota.snapshot,
    "borrowing_on": quota.borrowing,
    "dominant_resource_share": shares.dominant,
    "cluster_queue_usage": quota.status_figures,
    "workload_total_requests": quota.total_requests,
    "flavor_assignment": flavors.assignment,
    "flavor_preference": flavors.preference,
    "partial_admission_search": flavors.partial_admission,
    "preemption_classical": preemption.targets,
    "preemption_hierarchical": preemption.targets,
    "preemption_fair": preemption.targets,
    "fair_target_order": shares.target_order,
    "preemption_candidate_order": preemption.candidate_order,
    "preemption_policy": preemption.policy,
    "priority_info": preemption.priority,
    "entry_order": cycles.entry_order,
    "reserve_on_no_targets": cycles.reservation,
    "schedule_cycle": cycles.schedule,
    "schedule_fair_sharing": cycles.schedule,
    "schedule_overlapping_targets": cycles.schedule,
    "schedule_two_cycles": cycles.schedule_twice,
    "schedule_concurrent_admission": cycles.schedule_options,
    "queue_head": queues.head,
    "queue_head_usage_based": queues.head,
    "queue_heads": queues.heads,
    "queue_operations": queues.operations,
    "queue_requeue": queues.requeue,
    "queue_requeue_eligibility": queues.eligibility,
    "queue_backoff_expired": queues.backoff,
    "queue_equivalence_hash": queues.equivalence,
    "queue_flush_cohort": queues.flush,
    "oracle_small": oracle.scenario,
    "oracle": oracle.scenario,
    "oracle_fair": oracle.scenario,
    "oracle_gates": oracle.scenario,
}
SHORT_LINES = 6
SHORT_WIDTH = 300

Verdict = Literal["passed", "failed", "not covered", "different on purpose"]


@dataclass(frozen=True, slots=True)
class CaseOutcome:
    case: Case
    verdict: Verdict
    reason: str = ""  # why it is not covered, or different on purpose
    differences: tuple[str, ...] = ()
    explanation: tuple[str, ...] = ()
    answer: dict[str, Any] | None = None  # ours, for others to judge

    def lines(self, *, verbose: bool) -> Iterator[str]:
        """A failing case: what differs, then why we decided as we did."""
        yield f"  FAILED {self.case.name}"
        for what, texts in (("differs", self.differences), ("because", self.explanation)):
            shown = texts if verbose else texts[:SHORT_LINES]
            for text in shown:
                cut = text if verbose or len(text) <= SHORT_WIDTH else text[:SHORT_WIDTH] + " …"
                yield f"    {what}: {cut}"
            if len(shown) < len(texts):
                yield f"    {what}: {len(texts) - len(shown)} more; VERBOSE=1 shows them"


def judge(case: Case) -> CaseOutcome:
    """Compare one case. An error of ours in it is a difference, so that the others are still tried."""
    if case.is_foreign:
        return CaseOutcome(case, "not covered", "another format")
    if case.tree:
        adapter = nodes.adapter_of(case)
        return CaseOutcome(case, "not covered", "another format") if adapter is None else _judged(case, adapter)
    adapter = ADAPTERS.get(case.suite)
    if adapter is None and case.suite not in OF_SUITE:
        return CaseOutcome(case, "not covered", "no adapter for this suite")
    feature = missing_feature(case)
    if feature or adapter is None:
        return CaseOutcome(case, "not covered", feature)
    return _judged(case, adapter)


def _judged(case: Case, adapter: Callable[[Case], Findings]) -> CaseOutcome:
    try:
        found = adapter(case)
    except Exception as error:
        trail = traceback.format_exception(error)
        return CaseOutcome(case, "failed", "", (f"{type(error).__name__}: {error}",), ("".join(trail[-2:]).strip(),))
    verdict: Verdict = "failed" if found.differences else "passed"
    reason = ""
    if found.differences and _is_by_rounding(case, adapter):
        verdict, reason = "different on purpose", rounding.WHY
    return CaseOutcome(case, verdict, reason, tuple(found.differences), tuple(found.explanation), found.answer)


def _is_by_rounding(case: Case, adapter: Callable[[Case], Findings]) -> bool:
    """Whether we would agree if our shares were rounded as theirs are."""
    if "fairSharing" not in case.config:
        return False
    try:
        return not adapter(replace(case, rounds_shares=True)).differences
    except Exception:  # it fails with the message of the case, not with this one
        return False


def summary(outcomes: Iterable[CaseOutcome], *, verbose: bool = False) -> tuple[list[str], int]:
    """The report, suite by suite in the order in which they came, and how many cases failed."""
    by_suite: dict[str, list[CaseOutcome]] = {}
    for outcome in outcomes:
        by_suite.setdefault(outcome.case.suite, []).append(outcome)
    lines: list[str] = []
    total: Counter[str] = Counter()
    for suite, members in by_suite.items():
        count = Counter(outcome.verdict for outcome in members)
        total.update(count)
        lines.append(f"{suite}: {count['passed']} passed, {count['failed']} failed, {count['not covered']} not covered")
        reasons = Counter(outcome.reason for outcome in members if outcome.verdict == "not covered")
        lines += [f"  not covered: {reason} ({n})" for reason, n in sorted(reasons.items())]
        lines += [
            f"  different on purpose: {outcome.case.name}: {outcome.reason}"
            for outcome in members
            if outcome.verdict == "different on purpose"
        ]
        for outcome in members:
            if outcome.verdict == "failed":
                lines += outcome.lines(verbose=verbose)
    skipped = total["not covered"] + total["different on purpose"]
    lines.append(f"{total['passed']} passed, {total['failed']} failed, {skipped} skipped")
    return lines, total["failed"]
