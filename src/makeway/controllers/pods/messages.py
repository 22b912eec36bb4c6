"""The messages of waiting pods: which nodes they cannot use and why, and why no pod leaves for them.

Each pod of a gang is told what keeps that pod from its nodes; equal members get the same message. The first sentence is
worded as in Kubernetes, because people and scripts know it. What was tried by preemption follows.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from makeway.controllers.pods.items import signature_of
from makeway.core.model import Millis
from makeway.core.placement.cluster.state import ClusterState
from makeway.core.placement.cycle import CycleAnswer
from makeway.core.placement.hindrances import hindrances
from makeway.core.placement.model import Pod, PodKey
from makeway.core.placement.preemption.decision import NEVER, ONGOING
from makeway.core.placement.relations import are_some_kept_away, has_relations
from makeway.core.trace import Rule, Step

TRIED = " Preemption does not help:"
RENEWED_AFTER_MS = 30_000
MOST_KINDS = 32  # unlike members of a gang; further ones get the message of the first
IN_VAIN = (
    Rule.PLACE_NONE_LOWER, Rule.PLACE_SHORT, Rule.PLACE_TOO_SMALL, Rule.PLACE_LACKS, Rule.PLACE_APART,
)  # fmt: skip


class RecentlyTold:
    """When messages last named the pods that hold what is missing: those change with every pod that comes and goes.

    So a message that differs in nothing else is written at most every 30 seconds.
    """

    def __init__(self) -> None:
        self._at: dict[PodKey, Millis] = {}

    def renewed(self, key: PodKey, before: str, after: str, now: Millis) -> str:
        """The message after ``before``: the same one, if only other pods hold what is missing."""
        is_alike = before.partition(TRIED)[0] == after.partition(TRIED)[0]
        if before == after or (is_alike and now < self._at.setdefault(key, now) + RENEWED_AFTER_MS):
            return before
        self._at[key] = now
        return after

    def forget(self, key: PodKey) -> None:
        self._at.pop(key, None)


def told_waiting(
    state: ClusterState,
    unready: Collection[str],
    members: Sequence[Pod],
    standing: int,
    least: int,
    answer: CycleAnswer,
) -> Mapping[PodKey, str]:
    """Why each member has no node. ``standing``: pods of its gang that have one, ``least``: how many must."""
    rules = {step.rule for step in answer.why}
    if Rule.PLACE_UNRESOLVED in rules:
        return {pod.key: _unresolved(pod) for pod in members}
    exist = standing + len(members)
    if exist < least:
        return dict.fromkeys((pod.key for pod in members), too_few(exist, least))
    rest = _together(members, standing, least) + _preemption(answer)
    heeds_labels = any(map(has_relations, members)) or are_some_kept_away(state)
    kinds = {pod.key: signature_of(pod, heeding_labels=heeds_labels) for pod in members}
    samples: dict[object, Pod] = {}
    for pod in members:
        if len(samples) < MOST_KINDS:
            samples.setdefault(kinds[pod.key], pod)
    counted = hindrances(state, list(samples.values()), unready)
    words = {kind: _nodes(len(state.nodes), ruled_out) + rest for kind, ruled_out in zip(samples, counted, strict=True)}
    of_first = next(iter(words.values()))
    return {key: words.get(kind, of_first) for key, kind in kinds.items()}


def too_few(exist: int, least: int) -> str:
    return f"Of its gang {exist} {'pod exists' if exist == 1 else 'pods exist'}, and {least} are needed."


def _unresolved(pod: Pod) -> str:
    member = pod.member
    return f"There is no group {member.group} in a Workload {member.workload}." if member else "No such group."


def _nodes(count: int, ruled_out: Mapping[str, int]) -> str:
    told = ", ".join(f"{number} {why}" for why, number in sorted(ruled_out.items()))
    return f"0/{count} nodes are available: {told}." if told else "0/0 nodes are available."


def _together(members: Sequence[Pod], standing: int, least: int) -> str:
    if len(members) == 1 and least == 1 and not standing:
        return ""
    return f" {max(1, least - standing)} pods of its gang must be placed together."


def _preemption(answer: CycleAnswer) -> str:
    if answer.reason == ONGOING:
        return " It waits for pods that make way."
    if answer.reason == NEVER:
        return " Its preemptionPolicy is Never."
    steps = [_said(step) for step in answer.why if step.rule in IN_VAIN] + _kept(answer.why)
    return f"{TRIED} {'; '.join(steps)}." if steps else ""


def _said(step: Step) -> str:
    """The step with its subject, which the pod itself need not be told."""
    others = step.subjects[1:]
    return f"{', '.join(others)}: {step}" if others else str(step)


def _kept(why: Sequence[Step]) -> list[str]:
    """The pods that are too important to leave the nearest node."""
    kept = [step for step in why if step.rule == Rule.PLACE_KEPT]
    if not kept:
        return []
    names = [f"{step.subjects[1]} (priority {step.numbers[0]})" for step in kept]
    names += [f"{step.numbers[0]} more" for step in why if step.rule == Rule.PLACE_MORE]
    listed = names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
    return [f"on {kept[0].subjects[0]} too important to leave: {listed}"]
