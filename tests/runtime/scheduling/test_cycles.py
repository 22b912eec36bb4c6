"""The heads that make a cycle fail are found: each alone, or by leaving one out; and a failed cycle changes nothing."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from makeway.core.cycle.cycle import Heads
from makeway.core.model import Workload
from makeway.core.state import State
from makeway.runtime.scheduling.cycles import carried_out, in_trouble
from makeway.testing.builders import outcomes, queue, seconds, state, workload

NOW = seconds(0)


def play() -> State:
    """Three queues with a head each."""
    parts = [part for name in "abc" for part in (queue(name, 4), workload(f"w-{name}", queue=name))]
    return state(*parts)


def refuses(*names: str) -> Callable[[Workload], None]:
    def check(head: Workload) -> None:
        if head.key.rpartition("/")[2] in names:
            raise ValueError(head.key)

    return check


def test_heads_that_fail_alone_are_found_and_the_state_is_as_it_was() -> None:
    on = play()
    before, check = on.fingerprint(), refuses("w-a", "w-c")
    with pytest.raises(ValueError, match="w-a"):
        carried_out(on, NOW, Heads.of(on), check)
    assert on.fingerprint() == before
    found = in_trouble(on, NOW, Heads.of(on), ValueError("first"), check)
    assert [(head.key.rpartition("/")[2], str(why).rpartition("/")[2]) for head, why in found] == [
        ("w-a", "w-a"),
        ("w-c", "w-c"),
    ]
    assert on.fingerprint() == before


def test_of_those_that_fail_together_one_is_found() -> None:
    on, beside = play(), list[str]()

    def check(head: Workload) -> None:
        if head.key.endswith("w-b") and beside:
            raise ValueError("two are too many")
        beside[:] = [head.key] if head.key.endswith("w-a") else []

    found = in_trouble(on, NOW, Heads.of(on), ValueError("two are too many"), check)
    assert len(found) == 1
    assert found[0][0].key.rpartition("/")[2] in ("w-a", "w-b")


def test_without_heads_nobody_is_the_reason() -> None:
    on = play()
    assert in_trouble(on, NOW, Heads([], []), ValueError("x"), refuses("w-a")) == []
    assert set(outcomes(carried_out(on, NOW, Heads.of(on))).values()) == {"admitted"}
