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
            for each in (*heads.ready, *heads.others):
                check(each)
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
        except Exception as found:
            return found
        return None

    each_alone = [(each, Heads([each], [])) for each in heads.ready] + [
        (each, Heads([], [each])) for each in heads.others
    ]
    found = [(head, why) for head, alone in each_alone if (why := error_of(alone)) is not None]
    if not found and len(each_alone) > 1:
        found = [(head, error) for head, _ in each_alone if error_of(_without(heads, head)) is None][:1]
    return found


def _without(heads: Heads, one: Workload) -> Heads:
    return Heads([each for each in heads.ready if each is not one], [each for each in heads.others if each is not one])
