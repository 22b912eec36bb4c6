"""From class names to the numbers that count, and pods with other numbers (S-15.1.6, S-15.8)."""

from __future__ import annotations

import itertools

import pytest

from makeway.core.placement.model import Member, Pod
from makeway.core.placement.resolution import (
    Priorities,
    PriorityClass,
    PriorityRefused,
    divergence,
    known_classes,
    resolve,
)

LOW = PriorityClass(name="low", value=10)
HIGH = PriorityClass(name="high", value=100, policy="Never")
USUAL = PriorityClass(name="usual", value=50, is_default=True)
OTHER = PriorityClass(name="other", value=40, is_default=True, policy="Never")
BELOW = PriorityClass(name="below", value=-5)


@pytest.mark.parametrize(
    ("names", "classes", "want"),
    [
        (("", ""), [LOW], (0, 0, "PreemptLowerPriority")),
        (("low", ""), [LOW], (10, 10, "PreemptLowerPriority")),
        (("low", "high"), [LOW, HIGH], (10, 100, "PreemptLowerPriority")),
        (("high", ""), [HIGH, USUAL], (100, 100, "Never")),
        (("", ""), [USUAL], (50, 50, "PreemptLowerPriority")),
        (("", ""), [USUAL, OTHER], (40, 40, "Never")),
        (("", "high"), [HIGH, USUAL], (50, 100, "PreemptLowerPriority")),
        (("system-node-critical", ""), [], (2_000_001_000, 2_000_001_000, "PreemptLowerPriority")),
        (("below", "low"), [BELOW, LOW], (-5, 10, "PreemptLowerPriority")),
    ],
)
def test_names_come_to_numbers(
    names: tuple[str, str], classes: list[PriorityClass], want: tuple[int, int, str]
) -> None:
    found = resolve(*names, known_classes(classes))
    assert isinstance(found, Priorities), found
    assert (found.priority, found.preemption_priority, found.policy) == want


@pytest.mark.parametrize(
    ("names", "classes", "want"),
    [
        (("nope", "nope"), [LOW], PriorityRefused("priorityClassNotFound", "nope")),
        (("low", "nope"), [LOW], PriorityRefused("preemptionPriorityClassNotFound", "nope")),
        (("high", "low"), [LOW, HIGH], PriorityRefused("preemptionPriorityBelowPriority", "low")),
        (("", "low"), [LOW, USUAL], PriorityRefused("preemptionPriorityBelowPriority", "low")),
        (("", "below"), [BELOW], PriorityRefused("preemptionPriorityBelowPriority", "below")),
    ],
)
def test_the_first_failure_is_the_result(
    names: tuple[str, str], classes: list[PriorityClass], want: PriorityRefused
) -> None:
    assert resolve(*names, known_classes(classes)) == want


def test_no_two_can_displace_each_other_in_turn() -> None:
    """G1: whatever classes two Workloads name, the one that may displace the other is safe from it."""
    classes = known_classes([LOW, HIGH, USUAL, BELOW])
    found = [resolve(a, b, classes) for a, b in itertools.product(["", *classes], repeat=2)]
    let_in = [each for each in found if isinstance(each, Priorities)]
    assert len(let_in) > 10
    for x, y in itertools.product(let_in, repeat=2):
        assert not (y.priority > x.preemption_priority and x.priority > y.preemption_priority)


def pod(name: str, priority: int, workload: str | None = "w", namespace: str = "a", group: str = "g") -> Pod:
    member = None if workload is None else Member(workload, group)
    return Pod(key=(namespace, name), priority=priority, member=member)


def test_pods_of_another_priority_are_named_in_order() -> None:
    pods = [
        pod("z", 1), pod("b", 2), pod("same", 5), pod("plain", 1, None), pod("else", 1, "v"),
        pod("far", 1, namespace="b"), pod("group", 7, group="no-such"),
    ]  # fmt: skip
    found = divergence("a", "w", 5, pods)
    assert (found.status, found.reason, found.message) == ("True", "PriorityMismatch", "a/b, a/group, a/z")


def test_without_such_pods_the_condition_is_false() -> None:
    found = divergence("a", "w", 5, [pod("same", 5)])
    assert (found.status, found.reason, found.message) == ("False", "PriorityMatch", "")
