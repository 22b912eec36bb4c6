"""Lives of workloads: times with quota, evictions and their causes, and waiting times."""

from __future__ import annotations

from typing import Any

import pytest

from makeway.adapters.simulator.lives import Glimpse, Life, Lives, PastEviction, Spell, moment
from makeway.adapters.simulator.store import MemoryStore
from makeway.adapters.simulator.world import World
from makeway.api import codec
from makeway.api.objects.workload import Workload
from makeway.api.quantity import Time
from makeway.core.model import FlavorName, Millis, ResourceName, WorkloadKey

NOON = Millis(1_772_366_400_000)  # 2026-03-01T12:00:00Z
CPU = (FlavorName("spot"), ResourceName("cpu"))
GPU = (FlavorName("gpus"), ResourceName("gpu"))
KEY, RIVAL = WorkloadKey("default/w"), WorkloadKey("default/rival")
Tree = dict[str, Any]


def at(ms: int) -> Millis:
    return Millis(NOON + ms)


def glimpse(
    now: Millis, *, created: int = 0, uid: str = "u1", priority: int | None = None, mode: str = "", pods: int = 4,
    held: int = 0, reclaimed: int = 0, since: int | None = None, **conditions: str,
) -> Glimpse:  # fmt: skip
    """A Workload as seen at ``now``; conditions are ``status/reason``, and have just changed by default."""
    changed = str(Time.of_millis(now if since is None else at(since)))
    status: Tree = {
        "conditions": [
            {"type": type_, "status": text.partition("/")[0], "reason": text.partition("/")[2] or type_, "message": "",
             "lastTransitionTime": changed}
            for type_, text in conditions.items()
        ],
        "reclaimablePods": [{"name": "main", "count": reclaimed}] if reclaimed else [],
    }  # fmt: skip
    if held:
        assignment = {"name": "main", "flavors": {"cpu": "spot", "gpu": "gpus"}, "count": held,
                      "resourceUsage": {"cpu": f"{held * 1500}m", "gpu": held}}  # fmt: skip
        status["admission"] = {"clusterQueue": "cq", "podSetAssignments": [assignment]}
    spec: Tree = {"queueName": "lq", "podSets": [{"name": "main", "count": pods, "template": {"spec": {}}}]}
    if priority is not None:
        spec["priority"] = priority
    if mode:
        spec["workloadMode"] = {"type": mode}
    meta = {"name": "w", "namespace": "default", "uid": uid, "creationTimestamp": str(Time.of_millis(at(created)))}
    data = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload", "metadata": meta, "spec": spec}
    value = codec.read({**data, "status": status}, limits=False).value
    assert isinstance(value, Workload)
    return codec.decode(codec.encode(value), Glimpse)


class Story:
    def __init__(self) -> None:
        self.lives = Lives()

    def see(self, ms: int, **seen: Any) -> None:
        self.lives.see(glimpse(at(ms), **seen), "cq-of-lq", at(ms))

    def life(self, ms: int = 100_000) -> Life:
        [life] = self.lives.recorded(at(ms))
        return life


HELD = {"held": 4, "QuotaReserved": "True"}
USAGE = {CPU: 6000, GPU: 4}
EVICTED = {**HELD, "Evicted": "True/Preempted", "Preempted": "True/InClusterQueue"}


def test_a_life_from_creation_to_its_end() -> None:
    story = Story()
    story.see(250, priority=7)
    assert (story.life().queue, story.life().priority, story.life().created_at) == ("cq-of-lq", 7, at(250))
    story.see(1500, **HELD)
    story.see(2000, **HELD, Admitted="True")
    story.see(4750, **HELD, Finished="True")
    life = story.life()
    assert life.spells == (Spell(at(1500), at(4750), USAGE),)
    assert (life.queue, life.finished_at, life.waited_ms(at(9999))) == ("cq", at(4750), 1250)


def test_time_without_quota_counts_as_waiting_also_after_an_eviction() -> None:
    story = Story()
    story.see(0)
    story.see(100, **HELD)
    story.see(300, **EVICTED)
    story.see(400, QuotaReserved="False/Pending", Evicted="True/Preempted")
    story.see(1000, **HELD, Evicted="False")
    assert [(each.began_at - NOON, each.ended_at) for each in story.life().spells] == [(100, at(400)), (1000, None)]
    assert story.life().waited_ms(at(5000)) == 100 + 600


def test_usage_follows_pods_that_no_longer_need_it() -> None:
    story = Story()
    story.see(0, **HELD)
    story.see(7000, **HELD, reclaimed=1, since=0)
    assert story.life().spells == (Spell(at(0), at(7000), USAGE), Spell(at(7000), None, {CPU: 4500, GPU: 3}))


def test_a_partial_admission_holds_what_it_was_given() -> None:
    story = Story()
    story.see(0, pods=9, **HELD)
    assert story.life().spells == (Spell(at(0), None, USAGE),)


def test_a_parent_holds_nothing_itself() -> None:
    story = Story()
    story.see(0, mode="Parent", **HELD)
    assert story.life().spells == (Spell(at(0), None, {}),)


def test_an_eviction_is_told_once_with_its_reason() -> None:
    story = Story()
    story.see(0, **HELD)
    story.see(300, **EVICTED)
    story.see(400, **EVICTED)
    assert story.life().evictions == (PastEviction(at(300), "", "InClusterQueue"),)
    story.see(2000, **HELD, Evicted="False")
    story.see(2100, **HELD, Evicted="True/AdmissionCheck", Preempted="False")
    assert story.life().evictions[1:] == (PastEviction(at(2100), "", "AdmissionCheck"),)


def test_a_workload_that_is_deactivated_while_it_waits_does_not_leave() -> None:
    story = Story()
    story.see(0, QuotaReserved="False/Pending")
    story.see(300, QuotaReserved="False/Deactivated", Evicted="True/Deactivated")
    assert story.life().evictions == ()


def test_an_eviction_counts_also_where_its_end_is_seen_at_once() -> None:
    story = Story()
    story.see(0, **HELD)
    story.see(300, QuotaReserved="False/Pending", Evicted="True/Deactivated")
    assert story.life().evictions == (PastEviction(at(300), "", "Deactivated"),)


@pytest.mark.parametrize("first", [True, False])
def test_who_asked_for_it_may_be_told_before_or_after(first: bool) -> None:
    story = Story()
    story.see(0, **HELD)
    if first:
        story.lives.preempted(KEY, RIVAL, "InCohortReclamation", at(300))
    story.see(300, **EVICTED)
    if not first:
        story.lives.preempted(KEY, RIVAL, "InCohortReclamation", at(300))
    assert story.life().evictions == (PastEviction(at(300), RIVAL, "InCohortReclamation"),)


def test_who_asks_later_did_not_ask_for_the_eviction_before() -> None:
    story = Story()
    story.see(0, **HELD)
    story.see(300, **EVICTED)
    story.see(2000, **HELD, Evicted="False")
    story.lives.preempted(KEY, RIVAL, "InCohortReclamation", at(3000))
    story.see(3000, **EVICTED)
    assert [each.by for each in story.life().evictions] == ["", RIVAL]


def test_a_wish_that_came_to_nothing_is_not_held_against_anybody() -> None:
    story = Story()
    story.see(0, **HELD)
    story.lives.preempted(KEY, RIVAL, "InClusterQueue", at(100))
    story.see(300, **HELD, Evicted="True/AdmissionCheck")
    assert story.life().evictions == (PastEviction(at(300), "", "AdmissionCheck"),)
    story.see(2000, **HELD, Evicted="False")
    story.see(3000, **EVICTED)
    assert story.life().evictions[1] == PastEviction(at(3000), "", "InClusterQueue")


def test_what_ran_and_what_was_lost() -> None:
    story = Story()
    story.see(0, **HELD)
    story.lives.began(KEY, at(0))
    story.lives.stopped(KEY, 200, at(1000))
    story.lives.began(KEY, at(3000))
    assert (story.life(3500).ran_ms, story.life(3500).lost_ms) == (1500, 200)
    story.lives.stopped(KEY, 0, at(4000))
    assert story.life(9000).ran_ms == 2000
    story.lives.stopped(KEY, 500, at(5000))  # it did not run
    assert (story.life(9000).ran_ms, story.life(9000).lost_ms) == (2000, 200)


def test_who_is_deleted_ends_there() -> None:
    story = Story()
    story.see(0)
    story.see(500, **HELD)
    story.lives.began(KEY, at(600))
    story.lives.gone(KEY, "u1", at(900))
    life = story.life()
    assert (life.gone_at, life.finished_at, life.waited_ms(at(9999)), life.ran_ms) == (at(900), None, 500, 300)
    assert life.spells == (Spell(at(500), at(900), USAGE),)


def test_a_finished_one_stays_finished_when_it_is_deleted() -> None:
    story = Story()
    story.see(0, Finished="True")
    story.lives.gone(KEY, "u1", at(900))
    assert (story.life().finished_at, story.life().gone_at) == (at(0), None)


def test_the_next_of_the_same_name_has_a_life_of_its_own() -> None:
    story = Story()
    story.see(0)
    story.lives.gone(KEY, "u1", at(100))
    story.see(2000, uid="u2", created=2000)
    lives = story.lives.recorded(at(9000))
    assert [(each.created_at, each.gone_at) for each in lives] == [(at(0), at(100)), (at(2000), None)]
    assert len(story.lives) == 2


def test_nobody_that_is_not_known_has_a_life() -> None:
    lives = Lives()
    lives.began(KEY, at(0))
    lives.stopped(KEY, 5, at(9))
    lives.gone(KEY, "u1", at(9))
    lives.preempted(KEY, RIVAL, "InClusterQueue", at(9))
    assert lives.recorded(at(10)) == []


def test_lives_are_told_by_workload() -> None:
    lives = Lives()
    for name in ("b", "a", "c"):
        seen = glimpse(at(0))
        body = codec.decode(codec.encode(seen).replace(b'"name":"w"', f'"name":"{name}"'.encode()), Glimpse)
        lives.see(body, "", at(0))
    assert [each.workload for each in lives.recorded(at(0))] == ["default/a", "default/b", "default/c"]


@pytest.mark.parametrize(
    ("stored", "now", "moments"), [(0, 0, 0), (0, 999, 999), (0, 1000, 0), (5000, 4000, 4000), (None, 77, 77)]
)
def test_what_is_told_in_its_second_happens_when_it_is_told(stored: int | None, now: int, moments: int) -> None:
    assert moment(None if stored is None else Time.of_millis(at(stored)), at(now)) == at(moments)


def test_the_world_tells_the_queue_behind_a_local_queue_and_whose_option_it_is() -> None:
    store = MemoryStore(lambda: NOON)
    world = World(store)
    queue = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "LocalQueue",
             "metadata": {"name": "lq", "namespace": "default"}, "spec": {"clusterQueue": "cq"}}  # fmt: skip
    store.create(queue)
    spec: Tree = {"queueName": "lq", "podSets": [{"template": {"spec": {"containers": [{"name": "m", "image": "i"}]}}}]}
    head: Tree = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload", "spec": spec}
    uid = store.create({**head, "metadata": {"name": "w", "namespace": "default"}}).uid
    owner = {"apiVersion": head["apiVersion"], "kind": "Workload", "name": "w", "uid": uid, "controller": True}
    store.create({**head, "metadata": {"name": "w-option-a", "namespace": "default", "ownerReferences": [owner]}})
    store.create({**head, "spec": {**spec, "queueName": "none"}, "metadata": {"name": "lost", "namespace": "default"}})
    world.step(NOON)
    assert [(each.workload, each.queue, each.parent) for each in world.lives.recorded(NOON)] == [
        ("default/lost", "", ""),
        ("default/w", "cq", ""),
        ("default/w-option-a", "cq", "default/w"),
    ]
