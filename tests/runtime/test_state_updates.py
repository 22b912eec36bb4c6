"""From changed objects to the state and to the queues that wake: every trigger of S-4.6, every row of S-3.7, S-4.7.

Two queues ``a`` and ``b`` share a cohort, ``c`` is alone. A change that wakes a queue wakes its tree, and no other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace as replaced
from typing import Any

import pytest
from msgspec.structs import replace

from makeway.adapters.simulator.store import MemoryStore
from makeway.api.codec import read
from makeway.api.objects.kubernetes import Job, LimitRange, Namespace
from makeway.api.objects.queueing import AdmissionCheck, ClusterQueue, Cohort, LocalQueue, ResourceFlavor
from makeway.api.objects.workload import Workload
from makeway.api.versions import find_kind, kind_of
from makeway.controllers.contract import JOB, WORKLOAD, Ref
from makeway.core.cycle.cycle import carry_out, decide, heads
from makeway.core.lowering import load_state
from makeway.core.model import Millis, QueueName, WorkloadKey
from makeway.core.policy import PodsReady, Policy
from makeway.core.queueing.pending import HeadReturn
from makeway.core.state import State
from makeway.runtime.informers import Informers, watched_kinds
from makeway.runtime.objects import ObjectCache
from makeway.runtime.state_updates import StateUpdater
from tests.runtime.wires import (
    IN_USE,
    check,
    cluster_queue,
    cohort,
    condition,
    flavor,
    groups,
    holder,
    local_queue,
    workload,
)

NOW = Millis(1_767_268_800_000)  # 2026-01-01T12:00:00Z
TREE, ALONE = {"a", "b"}, {"c"}
LABEL = {"team": "one"}


def namespace(name: str, **labels: str) -> Any:
    return read({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}).value


class Play:
    """A store, and what follows from its changes; notes from before the story begins are forgotten."""

    def __init__(self, *objects: Any, policy: Policy | None = None) -> None:
        self.store = MemoryStore(lambda: NOW, careful=False)
        queues = [cluster_queue("a", cohortName="r"), cluster_queue("b", cohortName="r"), cluster_queue("c")]
        named = {each.metadata.name for each in objects if each.kind == "ClusterQueue"}
        self.store.load([flavor(), *(each for each in queues if each.metadata.name not in named)])
        self.store.load([local_queue(f"l{name}", name) for name in "abc"])
        self.store.load(objects)
        self.state = State(policy or Policy.default())
        self.updates = StateUpdater(self.state)
        self.updates.context.now = NOW
        self.objects = ObjectCache(self.updates.stored, self.updates.changed)
        self.updates.follow(self.objects)
        self.informers = Informers(self.store, self.objects)
        self.take_in()
        self.forget()

    def take_in(self) -> None:
        self.informers.poll(NOW)
        self.updates.configure()

    def forget(self) -> None:
        noted = self.updates.follow_ups
        for each in (noted.woken, noted.released, noted.enqueued, noted.figures, noted.held, noted.backoffs):
            each.clear()

    def woken(self) -> set[str]:
        """The queues that changes since then woke; the state must be that of the objects."""
        self.take_in()
        assert self.places() == self.places(self.anew()), "the state is not what the objects say"
        return set(self.updates.follow_ups.woken | self.updates.follow_ups.released)

    def anew(self) -> State:
        known = [each.value() for kind in watched_kinds() for each in self.store.list(kind).items]
        return load_state(known, self.state.policy, NOW).state

    def places(self, state: State | None = None) -> Any:
        state = state or self.state
        lines = {name: line for name, line in state.pending.lists.items() if line.waiting or line.parked}
        return (
            {key: (each.queue, each.usage, each.priority) for key, each in sorted(state.holders.by_key.items())},
            {queue: sorted({**line.waiting, **line.parked}) for queue, line in sorted(lines.items())},
            state.tree.contents(),
        )

    # --- changing ---

    def put(self, value: Any) -> None:
        """Store a Workload with spec and status."""
        known = self.store.get(kind_of(Workload), "default", value.metadata.name)
        meta = replace(value.metadata, uid=known.uid, resource_version="")
        self.store.update(replace(value, metadata=meta))
        self.store.update_status(replace(value, metadata=meta))

    def patch(self, type_: type[Any], name: str, change: dict[str, Any], *, status: bool = False) -> None:
        kind = kind_of(type_)
        self.store.patch(kind, "default" if kind.namespaced else "", name, change, status=status)

    def delete(self, type_: type[Any], name: str) -> None:
        kind = kind_of(type_)
        self.store.delete(kind, "default" if kind.namespaced else "", name)

    # --- asking ---

    def park(self, name: str, queue: str) -> None:
        """Park a workload as a refusal does: it is out of the queue until it is woken."""
        pending = self.state.pending
        waiting = pending.list_of(QueueName(queue)).waiting[WorkloadKey(f"default/{name}")]
        pending.pop(waiting)
        assert pending.requeue(waiting, HeadReturn("NoFit", binds_shape=False), NOW)

    def stands(self, name: str) -> str:
        for queue, line in self.state.pending.lists.items():
            for where, table in (("waits", line.waiting), ("parked", line.parked)):
                if f"default/{name}" in table:
                    return f"{where} in {queue}"
        return "holds" if f"default/{name}" in self.state.holders.by_key else "nowhere"


def held(name: str = "w", queue: str = "a", *conditions: Any, **more: Any) -> Workload:
    return holder(name, 2, *conditions, queue=queue, local=f"l{queue}", count=2, **more)


def waits(name: str = "w", queue: str = "a", *conditions: Any, **more: Any) -> Workload:
    return workload(name, *conditions, local=f"l{queue}", **more)


# --- S-4.6: triggers ------------------------------------------------------------------------------------------------


Story = Callable[[Play], None]
RECLAIMED = {"reclaimablePods": [{"name": "main", "count": 1}]}


@pytest.mark.parametrize(
    ("trigger", "queue", "expected"),
    [
        pytest.param(lambda play: play.delete(Workload, "w"), "a", TREE, id="1: a holder is deleted"),
        pytest.param(lambda play: play.delete(Workload, "w"), "c", ALONE, id="1: a holder without cohort is deleted"),
        pytest.param(
            lambda play: play.put(held("w", "a", condition("Finished"))), "a", TREE, id="1: a holder finishes"
        ),
        pytest.param(
            lambda play: play.put(held(admitted=False, active=False)), "a", TREE, id="1: a mere reservation is off"
        ),
        pytest.param(
            lambda play: play.put(held(active=False)), "a", set(), id="1: one that runs is off, and still counts"
        ),
        pytest.param(
            lambda play: play.put(held("w", "a", condition("Evicted"))), "a", set(), id="2: evicted, it still counts"
        ),
        pytest.param(lambda play: play.put(waits()), "a", TREE, id="2: it loses its reservation"),
        pytest.param(lambda play: play.put(held(status=RECLAIMED)), "a", TREE, id="3: some of its pods are done"),
        pytest.param(lambda play: play.put(held(priority=9)), "a", TREE, id="3: the priority of a holder changes"),
        pytest.param(lambda play: play.put(held(priority=9, queue="c")), "c", ALONE, id="3: in another tree"),
        pytest.param(
            lambda play: play.put(held("w", "a", condition("PodsReady"))), "a", set(), id="nothing that counts changes"
        ),
    ],
)
def test_s4_6_what_becomes_of_a_holder_wakes_its_tree(trigger: Story, queue: str, expected: set[str]) -> None:
    play = Play(held("w", queue))
    trigger(play)
    assert play.woken() == expected


@pytest.mark.parametrize("story", ["arrives", "is deleted", "changes", "reserves"])
def test_s4_6_what_becomes_of_those_who_wait_wakes_nobody(story: str) -> None:
    play = Play(waits("w"))
    if story == "arrives":
        play.store.load([waits("new")])
    elif story == "is deleted":
        play.delete(Workload, "w")
    elif story == "changes":
        play.put(waits("w", priority=7))
    else:
        play.put(held("w"))
    assert play.woken() == set()


@pytest.mark.parametrize(
    ("trigger", "expected"),
    [
        pytest.param(
            lambda play: play.store.load([cluster_queue("d", cohortName="r")]), {*TREE, "d"}, id="4: a queue is created"
        ),
        pytest.param(
            lambda play: play.patch(ClusterQueue, "a", {"spec": {"resourceGroups": groups(9)}}), TREE, id="4: its quota"
        ),
        pytest.param(
            lambda play: play.patch(ClusterQueue, "a", {"spec": {"queueingStrategy": "StrictFIFO"}}),
            TREE,
            id="4: its policy",
        ),
        pytest.param(
            lambda play: play.patch(ClusterQueue, "c", {"spec": {"resourceGroups": groups(9)}}), ALONE, id="4: alone"
        ),
        pytest.param(
            lambda play: play.patch(ClusterQueue, "a", {"spec": {"cohortName": ""}}), TREE, id="4: it leaves its cohort"
        ),
        pytest.param(
            lambda play: play.patch(ClusterQueue, "c", {"spec": {"cohortName": "r"}}), {*TREE, "c"}, id="4: it joins"
        ),
        pytest.param(
            lambda play: play.patch(ClusterQueue, "a", {"status": {"pendingWorkloads": 5}}, status=True),
            set(),
            id="its status alone",
        ),
        pytest.param(lambda play: play.store.load([cohort("r", 5)]), TREE, id="4: a cohort is created"),
        pytest.param(lambda play: play.store.load([cohort("elsewhere", 5)]), set(), id="4: a cohort without queues"),
        pytest.param(
            lambda play: play.patch(ResourceFlavor, "f", {"spec": {"nodeLabels": {"zone": "1"}}}),
            TREE | ALONE,
            id="5: labels of a flavor that all use",
        ),
        pytest.param(lambda play: play.store.load([flavor("other")]), set(), id="5: a flavor that nobody uses"),
    ],
)  # fmt: skip
def test_s4_6_changes_of_the_configuration(trigger: Story, expected: set[str]) -> None:
    play = Play()
    trigger(play)
    assert play.woken() == expected


def test_s4_6_4_a_cohort_far_up_wakes_the_whole_tree() -> None:
    play = Play(cohort("r", parentName="top"), cohort("top"))
    play.patch(Cohort, "top", {"spec": {"resourceGroups": groups(5)}})
    assert play.woken() == TREE


def test_s4_6_5_a_flavor_that_was_missing_wakes_the_queues_that_become_active() -> None:
    play = Play(cluster_queue("c", {"spot": {"cpu": 4}}))
    assert not play.state.is_active(QueueName("c"))
    play.store.load([flavor("spot")])
    assert play.woken() == ALONE
    assert play.state.is_active(QueueName("c"))


def test_s4_6_5_a_check_that_becomes_active_wakes_its_queues() -> None:
    strategy: Any = {"admissionChecksStrategy": {"admissionChecks": [{"name": "audit"}]}}
    play = Play(cluster_queue("c", **strategy), check("audit", active=False))
    assert not play.state.is_active(QueueName("c"))
    play.patch(AdmissionCheck, "audit", {"status": {"conditions": [condition("Active")]}}, status=True)
    play.take_in()
    assert play.updates.follow_ups.woken == ALONE
    assert play.state.is_active(QueueName("c"))


def test_s4_6_6_a_namespace_that_newly_matches_wakes_those_queues_alone() -> None:
    picky: Any = {"namespaceSelector": {"matchLabels": LABEL}}
    play = Play(namespace("default"), cluster_queue("c", **picky))
    play.patch(Namespace, "default", {"metadata": {"labels": LABEL}})
    assert play.woken() == ALONE
    play.forget()
    play.patch(Namespace, "default", {"metadata": {"labels": {"team": "two"}}})
    assert play.woken() == set(), "it matches no more"


def test_jobs_are_looked_at_when_the_labels_of_their_namespace_change() -> None:
    """The labels decide whether a Job is managed; Jobs of other namespaces are not concerned."""
    mine, other = (
        read({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j", "namespace": name}}).value
        for name in ("mine", "mineral")
    )
    play = Play(namespace("mine"), namespace("mineral"), mine, other)
    play.patch(Namespace, "mine", {"metadata": {"labels": LABEL}})
    play.take_in()
    assert [ref for ref in play.updates.follow_ups.enqueued if ref.kind == "Job"] == [Ref(JOB, "mine", "j")]
    play.forget()
    play.patch(Namespace, "mine", {"metadata": {"annotations": LABEL}})
    play.take_in()
    assert [ref for ref in play.updates.follow_ups.enqueued if ref.kind == "Job"] == []


def test_jobs_are_looked_at_when_their_namespace_is_seen_after_them() -> None:
    late = read({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j", "namespace": "late"}}).value
    play = Play(late)
    play.store.load([namespace("late")])
    play.take_in()
    assert Ref(JOB, "late", "j") in play.updates.follow_ups.enqueued


def test_s4_6_a_stopped_queue_that_starts_is_woken_and_what_it_wakes_may_go() -> None:
    play = Play(cluster_queue("c", stopPolicy="Hold"), waits("w", "c"))
    play.patch(ClusterQueue, "c", {"spec": {"stopPolicy": "None"}})
    assert play.woken() == ALONE


BLOCKING = replaced(Policy.default(), pods_ready=PodsReady(block_admission=True, timeout_ms=300_000))


@pytest.mark.parametrize(
    "change",
    [
        lambda play: play.put(held("w", "c", condition("PodsReady"))),
        lambda play: play.put(held("w", "c", condition("Finished"))),
        lambda play: play.delete(Workload, "w"),
        lambda play: play.put(waits("w", "c", condition("Evicted"), condition("Admitted", holds=False))),
    ],
    ids=["ready", "finished", "deleted", "evicted"],
)
def test_s5_7_12_whatever_ends_the_block_makes_those_due_who_waited_for_it(change: Callable[[Play], None]) -> None:
    play = Play(held("w", "c"), waits("x", "a"), policy=BLOCKING)
    assert play.state.waits_for_pods
    carry_out(play.state, decide(play.state, NOW))
    assert heads(play.state) == []
    change(play)
    play.woken()
    assert not play.state.waits_for_pods
    assert "default/x" in {each.key for each in heads(play.state)}


@pytest.mark.parametrize(
    "wire",
    [held("w", "c", admitted=False), held("w", "c", condition("Evicted")), held("w", "c", active=False)],
    ids=["reserved, its checks undecided", "asked to leave, and still there", "switched off, and still there"],
)
def test_s5_7_12_quota_without_ready_pods_blocks_as_long_as_it_is_held(wire: Any) -> None:
    assert Play(wire, policy=BLOCKING).state.waits_for_pods
    assert not Play(wire).state.waits_for_pods, "only where blockAdmission is set"


# --- S-3.7: rows ----------------------------------------------------------------------------------------------------


def test_s3_7_who_finishes_or_is_switched_off_while_it_waits_leaves_its_queue() -> None:
    for ended in (waits("w", "a", condition("Finished")), waits("w", active=False)):
        play = Play(waits())
        play.put(ended)
        assert play.woken() == set()
        assert play.stands("w") == "nowhere"


def test_s3_7_a_change_while_it_waits_is_taken_into_its_place() -> None:
    play = Play(waits("w"), waits("other", priority=5))
    play.put(waits("w", priority=9))
    assert play.woken() == set()
    assert play.state.pending.in_order(QueueName("a")) == ["default/w", "default/other"]


def test_s3_7_who_is_put_on_hold_leaves_its_queue_and_returns() -> None:
    play = Play(waits())
    play.put(waits("w", "a", condition("QuotaReserved", False, "OnHold")))
    play.woken()
    assert play.stands("w") == "nowhere"
    play.put(waits("w", "a", condition("QuotaReserved", False, "Pending")))
    play.woken()
    assert play.stands("w") == "waits in a"


def test_s3_7_a_reservation_takes_it_out_of_its_queue_and_is_accounted() -> None:
    play = Play(waits())
    play.put(held(admitted=False))
    assert play.woken() == set()
    assert play.stands("w") == "holds"
    assert play.state.tree.queues[QueueName("a")].usage == {("f", "cpu"): 2000}
    assert QueueName("a") in play.updates.follow_ups.held, "its expiry timer is set"


def test_s3_7_a_lost_reservation_is_dropped_and_it_waits_again() -> None:
    play = Play(held())
    play.put(waits())
    assert play.woken() == TREE
    assert play.stands("w") == "waits in a"
    assert not any(play.state.tree.queues[QueueName("a")].usage.values())


def test_s3_7_a_lost_reservation_with_a_back_off_does_not_return_before_its_time() -> None:
    later = {"requeueState": {"count": 1, "requeueAt": "2026-01-01T12:05:00Z"}}
    play = Play(held())
    play.put(waits(status=later))
    assert play.woken() == TREE
    assert play.stands("w") == "parked in a"
    assert play.updates.follow_ups.backoffs == {"default/w": NOW + 300_000}


def test_s3_7_reclaimed_pods_are_accounted_at_once() -> None:
    play = Play(held())
    play.put(held(status=RECLAIMED))
    play.woken()
    assert play.state.tree.queues[QueueName("a")].usage == {("f", "cpu"): 1000}


def test_s3_7_who_is_deleted_leaves_everything() -> None:
    for before in (held(), waits()):
        play = Play(before)
        play.delete(Workload, "w")
        play.woken()
        assert play.stands("w") == "nowhere"
        assert not any(play.state.tree.queues[QueueName("a")].usage.values())


def test_s3_7_who_is_deleted_and_made_anew_between_two_looks_is_another() -> None:
    play = Play(held())
    play.delete(Workload, "w")
    play.store.load([replace(waits(), metadata=replace(waits().metadata, uid="another"))])
    assert play.woken() == TREE
    assert play.stands("w") == "waits in a"


def test_s3_3_a_stopped_local_queue_has_nobody_waiting_until_it_starts() -> None:
    play = Play(waits(), held("h"))
    play.patch(LocalQueue, "la", {"spec": {"stopPolicy": "Hold"}})
    assert play.woken() == set()
    assert (play.stands("w"), play.stands("h")) == ("nowhere", "holds")
    assert Ref(WORKLOAD, "default", "h") in play.updates.follow_ups.enqueued, "it may have to leave"
    play.patch(LocalQueue, "la", {"spec": {"stopPolicy": "None"}})
    play.woken()
    assert play.stands("w") == "waits in a"


def test_s3_9_another_queue_name_is_another_queue() -> None:
    play = Play(waits())
    play.put(waits("w", "c"))
    assert play.woken() == set()
    assert play.stands("w") == "waits in c"


def test_a_local_queue_that_is_made_later_brings_in_who_waited_for_it() -> None:
    play = Play(workload("w", local="late"))
    assert play.stands("w") == "nowhere"
    play.store.load([local_queue("late", "c")])
    play.woken()
    assert play.stands("w") == "waits in c"
    play.delete(LocalQueue, "late")
    play.woken()
    assert play.stands("w") == "nowhere"


def test_s4_8_a_limit_range_changes_what_those_who_wait_ask_for() -> None:
    play = Play(workload("w", local="la"), held("h"))
    kind = find_kind("v1", "LimitRange")
    assert kind is not None
    limits = {"limits": [{"type": "Container", "defaultRequest": {"memory": "1Gi"}}]}
    meta = {"name": "l", "namespace": "default"}
    body = read({"apiVersion": "v1", "kind": "LimitRange", "metadata": meta, "spec": limits}).value
    assert isinstance(body, LimitRange)
    play.store.load([body])
    play.woken()
    waiting = play.state.pending.list_of(QueueName("a")).waiting[WorkloadKey("default/w")]
    assert set(waiting.pod_sets[0].requests) == {"cpu", "memory"}
    play.store.delete(kind, "default", "l")
    play.woken()
    waiting = play.state.pending.list_of(QueueName("a")).waiting[WorkloadKey("default/w")]
    assert set(waiting.pod_sets[0].requests) == {"cpu"}


# --- S-4.7: returns by time ---------------------------------------------------------------------------------------

PENDING = {"name": "x", "state": "Pending", "lastTransitionTime": "2026-01-01T12:00:00Z", "message": ""}
BOOST = {"annotations": {"kueue.x-k8s.io/priority-boost": "7"}}


@pytest.mark.parametrize(
    ("change", "returns"),
    [
        pytest.param(waits(priority=3), True, id="its spec"),
        pytest.param(waits(status=RECLAIMED), True, id="reclaimable pods"),
        pytest.param(waits("w", "a", condition("Evicted")), True, id="Evicted"),
        pytest.param(waits("w", "a", condition("Requeued")), True, id="Requeued"),
        pytest.param(waits("w", "a", condition("PodsReady", False)), False, id="another condition"),
        pytest.param(
            waits("w", "a", condition("QuotaReserved", False, "WaitingForQuota")), False, id="what it was told"
        ),
        pytest.param(
            waits(status={"admissionChecks": [PENDING]}),
            False,
            id="a check",
        ),
    ],
)  # fmt: skip
def test_s4_7_a_parked_workload_returns_when_its_own_object_changes(change: Workload, returns: bool) -> None:
    play = Play(waits(), waits("other"))
    play.park("w", "a")
    play.park("other", "a")
    play.put(change)
    assert play.woken() == set()
    assert play.stands("w") == ("waits in a" if returns else "parked in a")
    assert play.stands("other") == "parked in a", "just this one"


def test_s4_7_a_boost_of_its_priority_brings_it_back() -> None:
    default = Policy.default()
    play = Play(waits(), policy=replaced(default, gates=replaced(default.gates, priority_boost=True)))
    play.park("w", "a")
    play.store.patch(kind_of(Workload), "default", "w", {"metadata": BOOST})
    play.woken()
    assert play.stands("w") == "waits in a"
    assert play.state.pending.list_of(QueueName("a")).waiting[WorkloadKey("default/w")].priority == 7


def test_s4_7_a_gate_that_opens_brings_it_back() -> None:
    default = Policy.default()
    gates = replaced(default.gates, multi_kueue_orchestrated_preemption=True)
    spec: Any = {"preemptionGates": [{"name": "g"}]}
    play = Play(waits(**spec), policy=replaced(default, gates=gates))
    play.park("w", "a")
    opened = {"preemptionGates": [{"name": "g", "state": "Open", "lastTransitionTime": "2026-01-01T12:00:00Z"}]}
    play.put(waits(status=opened, **spec))
    play.woken()
    assert play.stands("w") == "waits in a"


def test_s4_7_the_end_of_a_back_off_brings_back_just_that_one() -> None:
    later = {"requeueState": {"count": 1, "requeueAt": "2026-01-01T12:05:00Z"}}
    play = Play(waits(status=later), waits("other", status=later))
    assert (play.stands("w"), play.stands("other")) == ("parked in a", "parked in a")
    play.updates.context.now = Millis(NOW + 300_000)
    play.updates.places.back_off_ended(WorkloadKey("default/w"))
    assert (play.stands("w"), play.stands("other")) == ("waits in a", "parked in a")
    assert play.updates.follow_ups.woken == set()


def test_a_back_off_that_ends_for_one_who_is_gone_or_holds_changes_nothing() -> None:
    play = Play(held())
    play.updates.places.back_off_ended(WorkloadKey("default/w"))
    play.updates.places.back_off_ended(WorkloadKey("default/nobody"))
    assert play.stands("w") == "holds"


# --- reconciled objects ---------------------------------------------------------------------------------------------


def test_a_change_is_looked_at_with_its_queues_and_its_owner() -> None:
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u", "controller": True}
    play = Play()
    play.store.load([waits(meta={"ownerReferences": [owner]})])
    play.take_in()
    expected = [("Workload", "w"), ("Job", "j"), ("LocalQueue", "la"), ("ClusterQueue", "a")]
    assert {
        (ref.kind, ref.name) for ref in (*play.updates.follow_ups.enqueued, *play.updates.follow_ups.figures)
    } == set(expected)


def test_when_an_owner_is_gone_what_it_owned_is_looked_at() -> None:
    """A Workload that waits for its Job to stop before it goes gets no other news."""
    job = read(
        {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j", "namespace": "default", "uid": "u"}}
    ).value
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u", "controller": True}
    play = Play(job, held("w", "a", meta={"ownerReferences": [owner], "finalizers": [IN_USE]}))
    play.delete(Workload, "w")
    play.take_in()
    play.forget()
    play.delete(Job, "j")
    play.take_in()
    assert {(ref.kind, ref.name) for ref in play.updates.follow_ups.enqueued} == {("Job", "j"), ("Workload", "w")}


def test_when_a_queue_stops_those_who_hold_quota_in_it_are_looked_at() -> None:
    play = Play(held("h", "c"), waits("w", "c"), held("far", "a"))
    play.patch(ClusterQueue, "c", {"spec": {"stopPolicy": "HoldAndDrain"}})
    play.take_in()
    looks = {ref.name for ref in play.updates.follow_ups.enqueued if ref.kind == "Workload"}
    assert looks == {"h", "w"}


def test_what_nothing_depends_on_is_looked_at_and_wakes_nobody() -> None:
    play = Play(waits())
    play.put(waits("w", "a", condition("QuotaReserved", False, "WaitingForQuota")))
    assert play.woken() == set()
    assert Ref(WORKLOAD, "default", "w") in play.updates.follow_ups.enqueued
    assert play.updates.follow_ups.backoffs.get(WorkloadKey("default/w")) is None
