"""Arrivals from a recipe: names, times and counts, and the problems of a recipe."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from makeway.adapters.simulator.sources.arrivals import DAY_ONE, Source, SourceError, SourceFile, open_source
from makeway.adapters.simulator.sources.generator import read_generator
from makeway.adapters.simulator.store import MemoryStore
from makeway.api.names import RUNTIME
from makeway.api.objects.queueing import ClusterQueue
from makeway.core.model import Millis

RECIPE = b"""\
cohorts:
- className: team
  count: 2
  queuesSets:
  - className: q
    count: 2
    nominalQuota: 4
    borrowingLimit: 2
    reclaimWithinCohort: Any
    withinClusterQueue: LowerPriority
    workloadsSets:
    - count: 2
      creationIntervalMs: 150
      workloads:
      - {className: small, runtimeMs: 250, priority: 5, request: 1}
      - {className: large, runtimeMs: 70000, priority: 9, request: 1500m}
"""


def read(data: bytes, **settings: Any) -> Source:
    return read_generator(SourceFile("recipe.yaml", data), **settings)


def story(source: Source) -> list[tuple[int, str, str, int, str]]:
    """Time, name, queue, priority and run time of each arrival."""
    told = []
    for each in source.arrivals:
        body: Any = each.body
        meta, spec = body.metadata, body.spec
        told.append((each.at - source.begins_at, meta.name, spec.queue_name, spec.priority, meta.annotations[RUNTIME]))
    return told


def test_workloads_come_one_per_interval_and_take_turns() -> None:
    source = read(RECIPE, begins_at=Millis(1_000_000))
    assert [each for each in story(source) if each[2] == "q-1"] == [
        (0, "small-2", "q-1", 5, "250ms"),
        (150, "large-2", "q-1", 9, "1m10s"),
        (300, "small-3", "q-1", 5, "250ms"),
        (450, "large-3", "q-1", 9, "1m10s"),
    ]
    assert source.begins_at == 1_000_000
    assert source.count == 16 == len(story(source))


def test_all_come_by_time_and_name() -> None:
    told = [each[:2] for each in story(read(RECIPE))]
    assert told == sorted(told)
    assert len({name for _, name in told}) == 16


def test_every_queue_has_its_quota_and_a_local_queue() -> None:
    objects: list[Any] = list(read(RECIPE).objects)
    assert [(each.kind, each.metadata.name) for each in objects] == [
        ("ResourceFlavor", "default"),
        *(("ClusterQueue", f"q-{i}") for i in range(4)),
        *(("LocalQueue", f"q-{i}") for i in range(4)),
    ]
    queue = objects[3]
    assert isinstance(queue, ClusterQueue)
    [group] = queue.spec.resource_groups
    [quota] = group.flavors[0].resources
    assert (group.covered_resources, quota.name, str(quota.nominal_quota), str(quota.borrowing_limit)) == (
        ("cpu",), "cpu", "4", "2",
    )  # fmt: skip
    assert (queue.spec.cohort_name, queue.spec.preemption.reclaim_within_cohort) == ("team-1", "Any")
    assert queue.spec.preemption.within_cluster_queue == "LowerPriority"


def test_what_a_recipe_makes_passes_validation() -> None:
    source = read(RECIPE)
    store = MemoryStore(lambda: DAY_ONE)
    store.load(source.objects)
    for each in source.arrivals:
        store.create(each.body)
    assert store.resource_version == str(1 + len(source.objects) + source.count)


def test_workloads_of_one_kind_share_what_they_ask_for() -> None:
    templates = {id(each.body.spec.pod_sets[0].template) for each in read(RECIPE).arrivals}  # type: ignore[attr-defined]
    assert len(templates) == 2


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        (b"count: 2\n  queues", b"count: two\n  queues", [(3, "cohorts[0].count", "expected a whole number")]),
        (b"nominalQuota: 4", b"nominalQuota: -4", [(7, "cohorts[0].queuesSets[0].nominalQuota", "-4 is negative")]),
        (b"reclaimWithinCohort: Any", b"reclaimWithinCohort: Some",
         [(9, "cohorts[0].queuesSets[0].reclaimWithinCohort", '"Some" is not supported; allowed: Never')]),
        (b"runtimeMs: 250, ", b"",
         [(15, "cohorts[0].queuesSets[0].workloadsSets[0].workloads[0].runtimeMs", "required")]),
        (b"creationIntervalMs", b"intervalMs",
         [(13, "cohorts[0].queuesSets[0].workloadsSets[0].intervalMs", "unknown field")]),
        (b"className: q", b"className: Q!", [(5, "cohorts[0].queuesSets[0].className", '"Q!" is not a DNS label')]),
        (b"- count: 2", b"- count: 2000000", [(1, "cohorts", "makes 16000000 workloads, more than the 1000000")]),
        (b"cohorts:", b"---\na: 1\n---\ncohorts:", [(None, "", "holds 2 documents")]),
        (b"cohorts:", b"cohorts: [", [(2, "", "")]),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_with_its_line(old: bytes, new: bytes, found: list[tuple[int | None, str, str]]) -> None:
    assert RECIPE.count(old) == 1
    with pytest.raises(SourceError) as caught:
        read(RECIPE.replace(old, new))
    told = caught.value.findings
    assert [(each.line, each.path) for each in told] == [(line, path) for line, path, _ in found]
    assert all(each.message.startswith(start) for each, (_, _, start) in zip(told, found, strict=True))


def test_all_problems_are_told_at_once() -> None:
    with pytest.raises(SourceError) as caught:
        read(RECIPE.replace(b"nominalQuota: 4", b"nominalQuota: x").replace(b"priority: 9", b"priority: y"))
    assert [each.line for each in caught.value.findings] == [7, 16]


@pytest.mark.parametrize(
    ("name", "queues", "classes", "last"),
    [
        ("baseline", 30, {"small": 10_500, "medium": 3000, "large": 1500}, 49 * 1200),
        ("large-scale", 1000, {"small": 35_000, "medium": 11_000, "large": 4000}, 10 * 300),
    ],
)
def test_the_published_scenarios(shared: Path, name: str, queues: int, classes: dict[str, int], last: int) -> None:
    source = read_generator(open_source(str(shared / "scale" / f"{name}.yaml")))
    told = story(source)
    assert Counter(name.rpartition("-")[0] for _, name, *_ in told) == classes
    assert source.count == sum(classes.values())
    assert max(at for at, *_ in told) == last
    assert sum(1 for each in source.objects if isinstance(each, ClusterQueue)) == queues
    assert sum(1 for at, *_ in told if at == 0) == 3 * queues
