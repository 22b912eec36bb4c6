"""Shares as data, and in a line of text (S-9.2). A share without a limit is ``infinite``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from makeway.core.amounts import ratio_text
from makeway.core.quota.figures import NodeShare
from makeway.core.trace import SHARES_IN, Rule, Step

OF_VICTIM = ("preemptorBefore", "preemptorAfter", "victimBefore", "victimAfter")
OF_REFUSAL = ("before", "after", "richest")
OF_TURN = ("own", "next")
TOLD_OF_VICTIMS = (Rule.FAIR_WITHIN_NOMINAL, Rule.FAIR_FINAL_SHARE, Rule.FAIR_INITIAL_SHARE, Rule.FAIR_CLAIM)
TOLD_OF_TURNS = frozenset(rule for rule in SHARES_IN if rule.startswith("order/"))


def victim_data(step: Step) -> Mapping[str, object]:
    """Why a workload must make way, if shares say so: both sides before and after."""
    if step.rule not in TOLD_OF_VICTIMS:
        return {}
    _, mine, theirs = step.subjects
    return {"rule": step.rule, "sides": {"preemptor": mine, "victim": theirs}, "shares": _named(step, OF_VICTIM)}


def refusal_data(step: Step | None) -> Mapping[str, object]:
    """Why no workload makes way, if shares say so."""
    if step is None:
        return {}
    return {"rule": step.rule, "side": step.subjects[1], "shares": _named(step, OF_REFUSAL)}


def turn_of(steps: Iterable[Step]) -> Step | None:
    """Return the step that says why an entry came before the next one, if there was a choice."""
    return next((step for step in steps if step.rule in TOLD_OF_TURNS), None)


def turn_data(steps: Iterable[Step]) -> Mapping[str, object]:
    step = turn_of(steps)
    if step is None:
        return {}
    return {"turn": {"rule": step.rule, "before": step.subjects[1], "shares": _named(step, OF_TURN)}}


def shares_data(shares: Iterable[NodeShare]) -> dict[str, object]:
    found = list(shares)
    return {
        "clusterQueues": {each.name: str(each.share) for each in found if each.is_queue},
        "cohorts": {each.name: str(each.share) for each in found if not each.is_queue},
    }


def shares_text(shares: Iterable[NodeShare]) -> str:
    return ", ".join(f"{share.name}{'' if share.is_queue else ' (cohort)'} {share.share}" for share in shares)


def _named(step: Step, names: tuple[str, ...]) -> dict[str, str]:
    return {name: ratio_text(*each) for name, each in zip(names, step.shares, strict=True)}
