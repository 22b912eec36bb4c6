"""Random worlds: equal for equal seeds, valid as manifests, with all the features that they should have."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from typing import Any

import pytest

from makeway.api.reading.manifests import findings, load
from makeway.api.reading.together import check_together
from makeway.core.model import Millis
from makeway.testing.worlds import (
    BEGIN_MS,
    CHANGES,
    HARMLESS,
    MINUTE_MS,
    People,
    Shape,
    documents,
    faulty,
    objects,
    replay,
    simulation,
)

SEEDS = range(60)
ALL = Shape(checks=True, namespaces=True)


def test_equal_seeds_give_equal_worlds_and_others_others() -> None:
    assert documents(7) == documents(7)
    assert len({json.dumps(documents(seed)) for seed in SEEDS}) == len(SEEDS)


@pytest.mark.parametrize("shape", [Shape(), ALL])
def test_every_world_is_valid(shape: Shape) -> None:
    for seed in SEEDS:
        manifests = load("world.yaml", "\n---\n".join(map(json.dumps, documents(seed, shape))).encode())
        check_together(manifests)
        assert [each for each in findings(manifests) if each.severity == "error"] == []
        assert len(objects(seed, shape)) == len(manifests)


def test_the_worlds_together_hold_what_they_are_meant_to() -> None:
    found: Counter[str] = Counter()
    for seed in SEEDS:
        for each in documents(seed, ALL):
            spec: dict[str, Any] = each.get("spec", {})
            found[each["kind"]] += 1
            found.update(f"{key}={spec[key]}" for key in ("queueingStrategy",) if key in spec)
            found.update(list(spec.get("preemption", ())))
            found.update(key for key in ("cohortName", "admissionChecksStrategy", "parentName") if key in spec)
            found.update("minCount" for each in spec.get("podSets", ()) if "minCount" in each)
    wanted = (
        "Workload", "Job", "Cohort", "AdmissionCheck", "Namespace", "queueingStrategy=StrictFIFO", "cohortName",
        "queueingStrategy=BestEffortFIFO", "withinClusterQueueConfig", "borrowWithinCohort", "parentName", "minCount",
        "admissionChecksStrategy",
    )  # fmt: skip
    assert [each for each in wanted if found[each] < 5] == []


def test_a_shape_bounds_a_world() -> None:
    shape = Shape(flavors_max=1, queues_max=2, works_max=4, jobs=False, minutes=3)
    for seed in SEEDS:
        kinds = Counter(each["kind"] for each in documents(seed, shape))
        assert (kinds["ResourceFlavor"], kinds["Job"]) == (1, 0)
        assert kinds["ClusterQueue"] <= 2
        assert kinds["Workload"] <= 4


def test_a_world_is_printed_as_a_manifest() -> None:
    command = [sys.executable, "-m", "makeway.testing.worlds", "3"]
    told = subprocess.run(command, check=True, capture_output=True).stdout
    assert [each.value for each in load("world.yaml", told)] == objects(3)


def test_the_command_of_a_run_says_all_that_it_depends_on() -> None:
    assert replay(4) == (
        "python -m makeway.testing.worlds 4 > world.yaml && makeway simulate -f world.yaml --seed 4 --faults all "
        "--eviction 20s --journal journal.jsonl"
    )
    assert "--eviction 0s --until 10h0m0s" in replay(9, "watch")
    assert "--faults watch" in replay(9, "watch")


def test_faults_end_early_or_late_by_the_seed() -> None:
    for seed, minutes in ((4, 80), (5, 600)):
        faults = faulty(seed).settings.faults
        assert faults is not None
        assert faults.until is not None
        assert BEGIN_MS < faults.until <= BEGIN_MS + minutes * MINUTE_MS
    assert simulation(4).settings.faults is None


def test_people_make_the_changes_that_they_are_allowed_and_set_all_right_in_the_end() -> None:
    made: Counter[str] = Counter()
    for seed in range(12):
        ready = simulation(seed, shape=ALL)
        people = People(ready.store, seed, changes=HARMLESS)
        ready.driver.actors.append(people)
        before = [each.spec for each in ready.store_objects() if each.kind in ("ClusterQueue", "LocalQueue")]
        ready.run(Millis(BEGIN_MS + 600 * MINUTE_MS))
        assert [each.spec for each in ready.store_objects() if each.kind in ("ClusterQueue", "LocalQueue")] == before
        assert all(each.spec.active for each in ready.store_objects() if each.kind == "Workload")
        assert people.next_at() is None
        made.update(people.made)
    assert set(made) == set(HARMLESS) < set(CHANGES)
