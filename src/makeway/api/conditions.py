"""Conditions of an object: one function sets a condition, others read and remove them.

Promises: setting twice is setting once; ``lastTransitionTime`` moves only when ``status`` does (api 0.7); the order of
the list stays. A caller that gets the same tuple back has nothing to write.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from makeway.api.objects.meta import Condition
from makeway.api.quantity import Time

Status = Literal["True", "False", "Unknown"]
MESSAGE_BYTES_MAX = 32_768


def set_condition(
    conditions: tuple[Condition, ...],
    *,
    type: str,
    status: Status,
    reason: str,
    message: str,
    now: Time,
    observed_generation: int | None = None,
) -> tuple[Condition, ...]:
    """``conditions`` with the condition ``type`` set. A new one goes to the end; no change, same tuple.

    The message is cut to the length that an object may hold, the time to whole seconds (api 0.6, 0.8).
    """
    before = find(conditions, type)
    since = before.last_transition_time if before is not None and before.status == status else None
    after = Condition(
        type=type,
        status=status,
        reason=reason,
        message=cut(message, MESSAGE_BYTES_MAX),
        # A stored condition without a time is a mistake of its writer. Readers rely on the time, so it is added now.
        last_transition_time=since if since is not None else Time.of_millis(now.seconds * 1000),
        observed_generation=observed_generation,
    )
    if before is None:
        return (*conditions, after)
    if after == before:
        return conditions
    return tuple(after if condition is before else condition for condition in conditions)


def find(conditions: Iterable[Condition], type: str) -> Condition | None:
    for condition in conditions:  # a plain loop, because nothing is called more often
        if condition.type == type:
            return condition
    return None


def is_true(conditions: Iterable[Condition], type: str) -> bool:
    """Whether the condition is True. Unknown or absent is not True."""
    for condition in conditions:
        if condition.type == type:
            return condition.status == "True"
    return False


def remove(conditions: tuple[Condition, ...], type: str) -> tuple[Condition, ...]:
    """``conditions`` without ``type``; the same tuple if it is not there."""
    kept = tuple(condition for condition in conditions if condition.type != type)
    return kept if len(kept) < len(conditions) else conditions


def cut(text: str, bytes_max: int) -> str:
    """The longest beginning of ``text`` that takes at most ``bytes_max`` bytes; no character is cut in two."""
    if len(text) * 4 <= bytes_max:  # the usual case, without encoding anything
        return text
    data = text.encode()
    return text if len(data) <= bytes_max else data[:bytes_max].decode(errors="ignore")
