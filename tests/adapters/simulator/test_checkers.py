"""The checkers of a run are not blind: every kind of violation is planted once, and reported."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from makeway.adapters.simulator.checkers import Broken, Witness
from makeway.adapters.simulator.store import MemoryStore
from makeway.api.objects.queueing import ClusterQueue
from makeway.api.objects.workload import Workload
from makeway.api.versions import kind_of
from makeway.core.lowering import load_state
from makeway.core.model import Millis, QueueName
from makeway.core.policy import Policy
from makeway.runtime.recount.recount import recount
from makeway.testing.builders import holder as model_holder
from makeway.testing.worlds import BEGIN_MS, MINUTE_MS, Shape, simulation
from tests.runtime.wires import cluster_queue, condition, flavor, groups, holder, local_queue, workload

NOW = Millis(1_767_268_800_000)
POLICY = Policy.default()
EXCEEDS, TWICE, EXISTS = "no admission exceeds quota", "no workload is given quota twice", "quota is given in queues"


class Play:
    """A store that the test writes, and its witness."""

    def __init__(self, *objects: Any) -> None:
        self.store = MemoryStore(lambda: NOW, careful=False)
        self.store.load([flavor(), cluster_queue("q", 4), local_queue(), *objects])
        self.witness = Witness(self.store, POLICY)
        self.witness.look()

    def put(self, value: Any) -> None:
        """Store a Workload with its status; create it if it is missing."""
        kind = kind_of(Workload)
        known = [each for each in self.store.list(kind).items if each.name == value.metadata.name]
        if known:
            meta = replace(value.metadata, uid=known[0].uid, resource_version="")
            self.store.update_status(replace(value, metadata=meta))
        else:
            self.store.load([value])

    def seen(self) -> list[Broken]:
        self.witness.look()
        return self.witness.broken

    def at_rest(self) -> list[Broken]:
        return self.witness.at_rest(self.store, POLICY, NOW)


@pytest.fixture
def play() -> Play:
    return Play()


def test_an_admission_above_quota_is_seen(play: Play) -> None:
    play.put(holder("a", 3))
    assert play.seen() == []
    play.put(holder("b", 2))
    [found] = play.seen()
    assert (found.promise, found.subject) == (EXCEEDS, "default/b")
    assert found.at.startswith("revision ")
    assert "2000 of ('f', 'cpu'), 1000 are free" in str(found)


def test_an_admission_above_quota_is_seen_though_it_ended_before_anybody_looked(play: Play) -> None:
    play.put(holder("a", 5))
    play.put(holder("a", 5, condition("Finished")))
    assert [each.promise for each in play.seen()] == [EXCEEDS]


def test_who_was_evicted_is_counted_until_it_has_left(play: Play) -> None:
    play.put(holder("a", 3, condition("Evicted")))
    play.put(holder("b", 3))
    assert [each.subject for each in play.seen()] == ["default/b"]
    assert play.witness.evictions == {"default/a": 1}


def test_who_has_left_is_counted_no_more(play: Play) -> None:
    play.put(holder("a", 3))
    play.put(workload("a"))
    play.put(holder("b", 3))
    play.put(holder("b", 3, condition("Finished")))
    play.put(holder("c", 4))
    play.store.delete(kind_of(Workload), "default", "c")
    play.put(holder("d", 4))
    assert play.seen() == []
    assert play.witness.admissions == 4


def test_quota_of_a_cohort_that_another_queue_uses_is_not_free() -> None:
    play = Play(cluster_queue("left", 2, cohortName="r"), cluster_queue("right", 2, cohortName="r"))
    play.put(holder("a", 3, queue="left"))
    assert play.seen() == []
    play.put(holder("b", 2, queue="right"))
    assert [each.subject for each in play.seen()] == ["default/b"]


def test_quota_that_was_lowered_later_makes_no_admission_wrong(play: Play) -> None:
    play.put(holder("a", 4))
    kind = kind_of(ClusterQueue)
    play.store.patch(kind, "", "q", {"spec": {"resourceGroups": groups(2)}})
    assert play.seen() == []
    play.put(holder("b", 1))
    assert [each.promise for each in play.seen()] == [EXCEEDS]


def test_a_second_admission_is_seen(play: Play) -> None:
    play.put(holder("a", 2))
    play.put(holder("a", 3))
    assert [(each.promise, each.subject) for each in play.seen()] == [(TWICE, "default/a")]


def test_a_change_of_its_conditions_is_no_second_admission(play: Play) -> None:
    play.put(holder("a", 2, admitted=False))
    play.put(holder("a", 2))
    play.put(holder("a", 2, condition("Evicted")))
    assert play.seen() == []
    assert play.witness.admissions == 1


def test_quota_in_a_queue_that_does_not_exist_is_seen(play: Play) -> None:
    play.put(holder("a", 1, queue="nowhere"))
    assert [each.promise.startswith(EXISTS) for each in play.seen()] == [True]


# --- at rest ----------------------------------------------------------------------------------------------------------


def test_who_waits_although_it_would_be_admitted_is_seen(play: Play) -> None:
    play.put(holder("a", 3))
    play.put(workload("stuck"))
    [found] = play.at_rest()
    assert (found.promise, found.subject, found.at) == ("nothing waits that could go on", "default/stuck", "the end")
    assert found.detail == "it would be admitted"


def test_who_waits_behind_a_head_that_does_not_fit_is_seen(play: Play) -> None:
    """All heads are evaluated, one after the other, not only the first."""
    play.put(holder("a", 3))
    play.put(workload("large", count=2, priority=5))
    assert play.at_rest() == []
    play.put(workload("stuck"))
    assert [each.subject for each in play.at_rest()] == ["default/stuck"]


def test_who_waits_although_it_would_preempt_is_seen() -> None:
    play = Play(cluster_queue("p", 4, preemption={"withinClusterQueue": "LowerPriority"}), local_queue("plq", "p"))
    play.put(holder("a", 4, queue="p", local="plq"))
    play.put(workload("stuck", local="plq", priority=10))
    assert [each.detail for each in play.at_rest()] == ["it would be preempting"]


def test_who_can_only_wait_is_not_reported(play: Play) -> None:
    play.put(holder("a", 4))
    play.put(workload("waits", priority=10))
    play.put(workload("done", condition("Finished")))
    play.put(workload("off", active=False))
    assert play.at_rest() == []


def test_admitted_and_evicted_at_rest_is_seen(play: Play) -> None:
    play.put(holder("a", 4, condition("Evicted")))
    assert [each.promise for each in play.at_rest()] == ["nobody is admitted and evicted at rest"]
    play.put(holder("a", 4, condition("Evicted"), condition("Finished")))
    assert play.at_rest() == []


def test_a_queued_job_without_a_workload_is_seen(play: Play) -> None:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "work"}]}}
    labels = {"kueue.x-k8s.io/queue-name": "main"}
    for name, meta in (("ours", {"labels": labels}), ("not-ours", {})):
        job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "namespace": "default", **meta}}
        play.store.create({**job, "spec": {"template": template, "suspend": True}})
    assert [(each.promise, each.subject) for each in play.at_rest()] == [("a managed Job has a Workload", "ours")]


def test_what_was_wrong_on_the_way_is_told_at_the_end_too(play: Play) -> None:
    play.put(holder("a", 5))
    play.put(holder("a", 5, condition("Finished")))
    assert [each.promise for each in play.at_rest()] == [EXCEEDS]


# --- in a real run ----------------------------------------------------------------------------------------------------


def test_wrong_usage_in_the_state_is_seen() -> None:
    objects = [flavor(), cluster_queue("q", 4), local_queue(), holder("a", 2)]
    state = load_state(objects, POLICY, NOW).state
    assert recount(objects, state) == []
    state.hold(model_holder("ghost", queue="q", usage={"f": {"cpu": 1}}))
    assert {(each.what, each.subject[0]) for each in recount(objects, state)} >= {("usage", "q"), ("reserving", "q")}


def test_a_workload_that_the_engine_never_hears_of_is_seen() -> None:
    """A whole run in which one Workload is hidden from the engine: the witness does not believe its silence."""
    ready = simulation(4, shape=Shape(jobs=False))
    objects = ready.engine.engine.objects
    told = objects._on_expected
    objects._on_expected = lambda ref, before, after: None if ref.name == "work-1" else told(ref, before, after)
    ready.run(Millis(BEGIN_MS + 600 * MINUTE_MS))
    assert [(each.promise, each.subject) for each in ready.broken()] == [
        ("nothing waits that could go on", "team/work-1")
    ]
    assert {each.what for each in recount(ready.store_objects(), ready.engine.engine.state)} == {"pending"}


def test_a_queue_of_the_state_that_is_charged_twice_is_seen_in_a_run() -> None:
    ready = simulation(4)
    ready.run(Millis(BEGIN_MS + 10 * MINUTE_MS))
    state = ready.engine.engine.state
    assert recount(ready.store_objects(), state) == []
    queue = next(name for name in sorted(state.queues) if state.holders.of_queue.get(QueueName(name)))
    one = next(iter(state.holders.of_queue[queue].values()))
    state.tree.charge_all(state.tree.queues[queue], one.usage or {})
    assert "usage" in {each.what for each in recount(ready.store_objects(), state)}
