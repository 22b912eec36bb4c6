"""What a cycle decides about its heads, as values (S-5.7)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from makeway.core.cycle.flavors import Assignment, Mode
from makeway.core.cycle.holds import Hold
from makeway.core.cycle.nomination import Entry
from makeway.core.model import FR, Claim, Millis, QueueName, Workload, WorkloadKey
from makeway.core.preemption.claims import EndedClaim
from makeway.core.preemption.classical import Target
from makeway.core.preemption.rounds import Round
from makeway.core.queueing.pending import Requeue, Turn
from makeway.core.trace import Rule, Step

Status = Literal["admitted", "preempting", "migrating", "waiting", "skipped"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What the cycle decided about one head, and why."""

    workload: Workload
    status: Status
    assignment: Assignment
    mode: str  # NoFit, Preempt, DeferredFit, Fit
    requeue: Requeue | None = None  # None: it got quota
    targets: tuple[Target, ...] = ()
    replaces: Workload | None = None  # of an Option that migrates: the sibling that leaves for it (S-12.7.1)
    steps: tuple[Step, ...] = ()
    skipped_preemption: bool = False
    held_back: bool = False  # it lost only to what is kept free for others (S-5.1)
    lost_to: Mapping[QueueName, Hold] = field(default_factory=dict)  # what was held then, by queue (S-5.14)
    reserved: Mapping[FR, int] = field(default_factory=dict)  # kept free for it, as no workload can leave (S-5.8)
    recomputed: Literal["", "new_targets", "deferred_fit", "skipped"] = ""
    claim: Claim | None = None  # to be stored with it, before any workload is evicted (S-10.13)
    took: tuple[WorkloadKey, ...] = ()  # the claimants whose claims it takes
    took_by_share: tuple[WorkloadKey, ...] = ()  # of these, those whose side is the richer one (S-9.14)
    round: Round = ""  # what its preemptions count as
    spared: bool = False  # some were not displaced, because they would make a round too many
    turn: Turn | None = None  # what it waits for before it displaces equals, or more of them (S-7.14)
    entitled: bool = False  # only lent quota keeps it out: what it asks for is not lent again (S-5.14)
    is_victim: bool = False  # a claim counts on its departure, so it may not take that claim

    @property
    def only_lost_its_turn(self) -> bool:
        """Whether the workload is evaluated again in the next cycle, as if there had been no verdict."""
        return self.requeue == "FailedAfterNomination" and not self.held_back and not self.waits_for_pods

    @property
    def waits_for_pods(self) -> bool:
        """Whether it would be admitted if the pods of other workloads were ready (S-5.7.12)."""
        return any(step.rule is Rule.PODS_NOT_READY for step in self.steps)

    @property
    def keeps_its_flavors(self) -> bool:
        """Whether only other workloads keep it from what it was assigned: then no flavor was tried in vain."""
        return self.waits_for_pods or self.requeue in ("PendingPreemption", "PendingMigration", "PreemptionGated")

    @property
    def is_workload_specific(self) -> bool:
        """Whether another workload of the same shape may get another verdict."""
        return self.spared or self.is_victim or self.turn is not None


@dataclass(frozen=True, slots=True)
class Plan:
    now: Millis
    verdicts: tuple[Verdict, ...]  # in the order in which the entries were taken
    ended: tuple[EndedClaim, ...] = ()  # claims that are over, except those of admitted workloads
    passed: tuple[Workload, ...] = ()  # heads that were skipped, because they would be refused again
    held_before: Mapping[QueueName, Hold] = field(default_factory=dict)  # what was held as the cycle began (S-5.14)

    @property
    def admitted(self) -> list[Verdict]:
        return [each for each in self.verdicts if each.status == "admitted"]


def refused_at_once(entry: Entry) -> Verdict:
    return Verdict(
        workload=entry.workload, status="waiting", assignment=entry.assignment, mode="NoFit", requeue=entry.refused,
        steps=entry.steps,
    )  # fmt: skip


def go(entry: Entry) -> Verdict:
    """There is room, or will be once its victims have left."""
    workload, assignment = entry.workload, entry.assignment
    if assignment.mode is not Mode.FIT:
        return Verdict(
            workload=workload, status="preempting", assignment=assignment, mode="Preempt",
            requeue="PendingPreemption", targets=entry.targets, steps=tuple(t.step for t in entry.targets),
            round=entry.round,
        )  # fmt: skip
    if entry.replaces is not None:
        return Verdict(
            workload=workload, status="migrating", assignment=assignment, mode="Fit", requeue="PendingMigration",
            replaces=entry.replaces, steps=(Step(Rule.MIGRATES, (workload.key,)),),
        )  # fmt: skip
    return Verdict(
        workload=workload, status="admitted", assignment=assignment, mode="Fit", steps=tuple(assignment.steps)
    )


def wait(
    entry: Entry, requeue: Requeue, *steps: Step, claim: Claim | None = None, reserved: Mapping[FR, int] | None = None,
    spared: bool = False, turn: Turn | None = None, entitled: bool = False,
) -> Verdict:  # fmt: skip
    mode = "DeferredFit" if entry.deferred else entry.assignment.mode.public
    return Verdict(
        workload=entry.workload, status="waiting", assignment=entry.assignment, mode=mode, requeue=requeue, steps=steps,
        claim=claim, reserved=reserved or {}, spared=spared, is_victim=bool(entry.excluded), turn=turn,
        entitled=entitled,
    )  # fmt: skip


def skip(entry: Entry, rule: Rule) -> Verdict:
    return Verdict(
        workload=entry.workload, status="skipped", assignment=entry.assignment, mode=entry.assignment.mode.public,
        requeue="FailedAfterNomination", steps=(Step(rule, (entry.workload.key,)),),
        skipped_preemption=entry.assignment.preempts,
    )  # fmt: skip
