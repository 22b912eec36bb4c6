"""What one head would need: refusals, partial admission, its victims (S-5.3 to 5.5)."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from makeway.core.cycle.flavors import Mode
from makeway.core.cycle.nomination import Entry, nominate, search_counts
from makeway.core.model import Workload
from makeway.core.state import State
from makeway.testing.builders import Part, holder, pod_set, queue, seconds, state, workload


def entry(on: State, each: Workload) -> Entry:
    before = on.fingerprint()
    found = nominate(on, each, seconds(100))
    assert on.fingerprint() == before, "P35 a nomination leaves no mark"
    return found


NO_QUEUE = workload("w", queue="unknown")
REFUSED: dict[str, tuple[Workload, Part, tuple[str, ...]]] = {
    "S-5.3.2 a check that said no": (
        workload("w", refusal="PendingEvaluation", refused="check x is Rejected"),
        queue("q", 1),
        ("Generic", "PendingEvaluation", "check x is Rejected"),
    ),
    "S-5.3.3 an inactive queue": (
        workload("w"), queue("q", 1, active=False), ("Generic", "Suspended", "ClusterQueue q is inactive"),
    ),
    "S-5.3.3 an unknown queue": (
        NO_QUEUE, queue("q", 1), ("Generic", "Misconfigured", "ClusterQueue unknown not found"),
    ),
    "S-5.3.4 an unknown namespace": (
        workload("w", namespace="lost"), queue("q", 1), ("Generic", "Misconfigured", "Namespace lost not found"),
    ),
    "S-5.3.4 a namespace that the queue does not let in": (
        workload("w"), queue("q", 1, namespaces=None),
        ("NamespaceMismatch", "Misconfigured", "Workload namespace doesn't match ClusterQueue selector"),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("each", "line", "told"), REFUSED.values(), ids=REFUSED)
def test_who_is_not_even_considered(each: Workload, line: Part, told: tuple[str, ...]) -> None:
    found = entry(state(line), each)
    assert (found.refused, *found.steps[0].subjects[1:]) == told


def test_S_5_5_as_many_pods_as_there_is_quota_for() -> None:
    found = entry(state(queue("q", 7)), workload("w", count=10, min_count=4))
    assert (found.assignment.mode, found.assignment.pod_sets[0].count) == (Mode.FIT, 7)


def test_S_18_7_partial_admission_with_preemption() -> None:
    on = state(
        queue("q", 6, within="LowerPriority"), holder("low", cpu=2, priority=-1), holder("eq", cpu=2, priority=0)
    )
    found = entry(on, workload("w", count=6, min_count=2))
    assert [each.workload.uid for each in found.targets] == ["low"]
    assert found.assignment.pod_sets[0].count == 4


def test_a_workload_that_must_have_all_its_pods_gets_none() -> None:
    on = state(queue("q", 7))
    assert entry(on, workload("w", count=10)).assignment.mode is Mode.NO_FIT
    on.policy = replace(on.policy, gates=replace(on.policy.gates, partial_admission=False))
    assert entry(on, workload("w", count=10, min_count=4)).assignment.mode is Mode.NO_FIT


def test_fewer_than_its_least_is_not_enough() -> None:
    found = entry(state(queue("q", 3)), workload("w", count=10, min_count=4))
    assert found.assignment.mode is Mode.NO_FIT
    assert found.assignment.pod_sets[0].count == 10, "what is told is about all of its pods"


def test_S_6_5_3_whom_it_takes_decides_the_mode_and_the_level() -> None:
    own = state(queue("q", 2, cohort="r", within="LowerPriority"), queue("y", 2, cohort="r"), holder("h", cpu=4))
    found = entry(own, workload("w", cpu=2, priority=1)).assignment
    assert (found.mode, found.level) == (Mode.PREEMPT, 0)
    lent = state(queue("q", 2, cohort="r", reclaim="Any"), queue("y", 2, cohort="r"), holder("h", queue="y", cpu=4))
    found = entry(lent, workload("w", cpu=2)).assignment
    assert (found.mode, found.level) == (Mode.RECLAIM, 0)


def test_after_its_victims_have_left_it_borrows_from_less_far() -> None:
    on = state(
        queue("q", 2, cohort="r", within="LowerPriority", borrow="LowerPriority"),
        queue("y", 1, cohort="r"),
        holder("h", cpu=3, priority=-1),
    )
    assert entry(on, workload("w", cpu=3)).assignment.level == 1
    assert entry(on, workload("w", cpu=2)).assignment.level == 0


@pytest.mark.property
@given(
    sizes=st.lists(st.tuples(st.integers(1, 9), st.none() | st.integers(1, 9)), min_size=1, max_size=3),
    limit=st.integers(0, 30),
)
def test_the_search_finds_the_largest_counts_that_succeed(sizes: list[tuple[int, int | None]], limit: int) -> None:
    parts = [pod_set(f"p{i}", count=count, min_count=least) for i, (count, least) in enumerate(sizes)]
    less = [0 if least is None else max(0, count - least) for count, least in sizes]
    total = sum(less)
    offers = (
        [[c - d * k // total for (c, _), d in zip(sizes, less, strict=True)] for k in range(total + 1)] if total else []
    )
    fitting = [each for each in offers if sum(each) <= limit]
    assert search_counts(parts, lambda found: sum(found) <= limit) == (fitting[0] if fitting else None)
