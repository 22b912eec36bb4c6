"""A scheduling cycle goes on without the heads that make it fail.

A decision is made in a trial and carried out in an attempt, so a cycle that fails has changed nothing. Then each head
is tried alone: the heads that fail alone are the reason. If none fails alone, it is the first head without which the
cycle succeeds. If there is no such head either, the error is one of the state, and is left to the driver.
"""

from __future__ import annotations

from collections.abc import Callable

from makeway.core.cycle.cycle import Heads, Plan, carry_out, decide
from makeway.core.model import Millis, Workload
from makeway.core.state import State

Check = Callable[[Workload], None]  # may raise, to test what happens then


def carried_out(state: State, now: Millis, heads: Heads, check: Check | None = None) -> Plan:
    """The plan of the next cycle, put into the state."""
    with state.attempt():
        if check is not None:
            for head in (*heads.ready, *heads.others):
                check(head)
        plan = decide(state, now, heads, passing=True)
        carry_out(state, plan)
    return plan


def in_trouble(
    state: State, now: Millis, heads: Heads, error: Exception, check: Check | None = None
) -> list[tuple[Workload, Exception]]:
    """The heads that make this cycle fail, and the error of each; empty: no head is the reason."""

    def error_of(some: Heads) -> Exception | None:
        try:
            with state.trial():
                carried_out(state, now, some, check)
        except Exception as raised:
            return raised
        return None

    single = [(head, Heads([head], [])) for head in heads.ready] + [(head, Heads([], [head])) for head in heads.others]
    failing = [(head, why) for head, alone in single if (why := error_of(alone)) is not None]
    if not failing and len(single) > 1:
        failing = [(head, error) for head, _ in single if error_of(_without(heads, head)) is None][:1]
    return failing


def _without(heads: Heads, one: Workload) -> Heads:
    return Heads([head for head in heads.ready if head is not one], [head for head in heads.others if head is not one])
