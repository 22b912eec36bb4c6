"""The in-memory Store: the suite in its settings, and the promises of this Store alone."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from makeway.adapters.simulator.simulation import Simulation, SimulationSettings
from makeway.adapters.simulator.sources.arrivals import arrivals_of
from makeway.adapters.simulator.store import MemoryStore
from makeway.api import codec
from makeway.api.objects.kubernetes import Job, Namespace, Pod
from makeway.api.objects.meta import ObjectMeta
from makeway.api.objects.queueing import ClusterQueue, LocalQueue, LocalQueueSpec, LocalQueueStatus
from makeway.api.objects.workload import Workload
from makeway.api.versions import Kind, kind_of
from makeway.core.model import Millis
from makeway.runtime.ports import (
    AlreadyExists,
    Expired,
    Forbidden,
    Invalid,
    NotFound,
    SeededNames,
    Store,
    Stored,
    Unavailable,
)
from makeway.testing.conformance import (
    FLAVOR,
    HELD,
    QUEUE,
    RED,
    SPOT,
    StoreConformance,
    changed,
    owned_by,
    queue,
    story,
)
from makeway.testing.worlds import Shape, objects
from tests.soaking import InTime

NOON = Millis(1_767_268_800_987)  # 2026-01-01T12:00:00.987Z
POD = kind_of(Pod)
Tree = dict[str, Any]


class Time:
    """A clock that stands still until a test moves it."""

    def __init__(self) -> None:
        self.now = NOON

    def __call__(self) -> Millis:
        return self.now


class Suffixes:
    """Suffixes from a list, uids by number."""

    def __init__(self, *suffixes: str) -> None:
        self.suffixes = list(suffixes)
        self.count = 0

    def uid(self) -> str:
        self.count += 1
        return f"uid-{self.count}"

    def suffix(self) -> str:
        return self.suffixes.pop(0)


class TestMemoryStore(StoreConformance):
    def make_store(self) -> MemoryStore:
        return MemoryStore(Time())


class TestMemoryStoreThatCollectsWhenTold(StoreConformance):
    def make_store(self) -> MemoryStore:
        return MemoryStore(Time(), looks=0)

    def settle(self, store: Any) -> None:
        store.collect()

    test_in_any_order_of_calls_it_agrees_with_a_dict = None  # type: ignore[assignment]  # it knows no owners


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore(Time())


def pod(**more: Any) -> Tree:
    spec = {"containers": [{"name": "c", "image": "busybox"}], "nodeName": "n1", **more}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "team"}, "spec": spec}


def workload(**more: Any) -> Tree:
    containers = [{"name": "c", "image": "busybox", "resources": {"requests": {"cpu": "1"}}}]
    sets = [{"name": "main", "count": 1, "template": {"spec": {"containers": containers, "restartPolicy": "Never"}}}]
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload", "metadata": {"name": "w", "namespace": "team"},
        "spec": {"podSets": sets, "queueName": "q"}, **more,
    }  # fmt: skip


# --- time and names ---------------------------------------------------------------------------------------------------


def test_it_is_a_store(store: MemoryStore) -> None:
    as_port: Store = store
    assert as_port is store


def test_times_are_whole_seconds_of_the_clock(store: MemoryStore) -> None:
    store.create(queue(finalizers=[HELD]))
    meta = store.delete(QUEUE, "team", "q").tree()["metadata"]
    assert meta["creationTimestamp"] == meta["deletionTimestamp"] == "2026-01-01T12:00:00Z"
    assert meta["deletionGracePeriodSeconds"] == 0


def test_equal_seeds_give_equal_bytes() -> None:
    def made(seed: int) -> bytes:
        return MemoryStore(Time(), SeededNames(seed)).create(queue(name=None, generateName="q-")).data

    assert made(1) == made(1)
    assert made(1) != made(2)


def test_a_generated_name_that_is_taken_is_tried_again() -> None:
    store = MemoryStore(Time(), Suffixes("aaaaa", "aaaaa", "bbbbb"))
    names = [store.create(queue(name=None, generateName="q-")).name for _ in range(2)]
    assert names == ["q-aaaaa", "q-bbbbb"]


def test_a_generated_name_is_given_up_in_the_end() -> None:
    store = MemoryStore(Time(), Suffixes(*["aaaaa"] * 9))
    store.create(queue(name=None, generateName="q-"))
    with pytest.raises(AlreadyExists):
        store.create(queue(name=None, generateName="q-"))


def test_a_long_generate_name_is_cut_for_the_suffix() -> None:
    store = MemoryStore(Time(), Suffixes("aaaaa"))
    assert store.create(queue(name=None, generateName="q" * 80)).name == "q" * 58 + "aaaaa"


# --- writes -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["Upper", "-dash", "under_score", "a" * 254])
def test_a_bad_name_is_refused(store: MemoryStore, name: str) -> None:
    with pytest.raises(Invalid, match=r"metadata\.name"):
        store.create(queue(name))


@pytest.mark.parametrize("careful", [True, False])
def test_a_struct_is_as_good_a_body_as_a_tree(careful: bool) -> None:
    store = MemoryStore(Time(), careful=careful)
    created = store.create(LocalQueue(metadata=ObjectMeta(name="q", namespace="team"), spec=LocalQueueSpec()))
    value: Any = created.value()
    updated = store.update(msgspec.structs.replace(value, spec=LocalQueueSpec(stop_policy="Hold")))
    assert (updated.generation, updated.value().spec.stop_policy) == (2, "Hold")
    status = msgspec.structs.replace(updated.value(), status=LocalQueueStatus(pending_workloads=3))
    assert store.update_status(status).value().status.pending_workloads == 3
    with pytest.raises(AlreadyExists):
        store.create(LocalQueue(metadata=ObjectMeta(name="q", namespace="team"), spec=LocalQueueSpec()))


def test_a_kind_without_status_can_be_updated(store: MemoryStore) -> None:
    store.create(SPOT)
    assert store.update({**SPOT, "spec": {"nodeLabels": {"tier": "spot"}}}).generation == 2


def test_unknown_fields_are_refused_or_dropped_as_the_mode_says() -> None:
    body = queue()
    body["spec"]["colour"] = "red"
    with pytest.raises(Invalid, match=r"spec\.colour"):
        MemoryStore(Time()).create(body)
    assert "colour" not in MemoryStore(Time(), mode="Warn").create(body).tree()["spec"]


def test_a_namespace_has_no_meaning_for_a_kind_without(store: MemoryStore) -> None:
    created = store.create({**SPOT, "metadata": {"name": "spot", "namespace": "team"}})
    assert created.namespace == ""


def test_a_deletion_starts_a_generation_and_cannot_be_taken_back(store: MemoryStore) -> None:
    store.create(queue(finalizers=[HELD]))
    marked = store.delete(QUEUE, "team", "q")
    assert marked.generation == 2
    body = changed(marked, labels={"colour": "red"})
    del body["metadata"]["deletionTimestamp"]
    assert store.update(body).deleting


def test_what_the_store_gives_survives_an_update_that_names_other_values(store: MemoryStore) -> None:
    created = store.create(queue())
    updated = store.update(queue(stop="Hold", generation=9, creationTimestamp="2001-01-01T00:00:00Z", selfLink="x"))
    before, after = created.tree()["metadata"], updated.tree()["metadata"]
    assert after == {**before, "generation": 2, "resourceVersion": "3"}


def test_a_status_write_in_an_older_version_leaves_the_spec_alone(store: MemoryStore) -> None:
    created = store.create(workload())
    older = created.tree("v1beta1")
    written = store.update_status({**older, "status": {"accumulatedPastExexcutionTimeSeconds": 7}})
    assert written.value().status.accumulated_past_execution_time_seconds == 7
    assert written.value().spec == created.value().spec


def test_a_patch_may_speak_an_older_version(store: MemoryStore) -> None:
    older = "kueue.x-k8s.io/v1beta1"
    store.create({"apiVersion": older, "kind": "ClusterQueue", "metadata": {"name": "c"}, "spec": {}})
    patched = store.patch(kind_of(ClusterQueue), "", "c", {"apiVersion": older, "spec": {"cohort": "all"}})
    assert patched.value().spec.cohort_name == "all"


@pytest.mark.parametrize(
    "change",
    [
        {"metadata": {"name": "r"}},
        {"metadata": None},
        {"kind": "Cohort"},
        {"apiVersion": "kueue.x-k8s.io/v9"},
        {"spec": None, "metadata": {"labels": 3}},
    ],
    ids=str,
)
def test_a_patch_that_makes_no_sense_is_refused(store: MemoryStore, change: Tree) -> None:
    created = store.create(queue())
    with pytest.raises(Invalid):
        store.patch(QUEUE, "team", "q", change)
    assert store.get(QUEUE, "team", "q") == created


@pytest.mark.parametrize(
    "body",
    [{}, {"apiVersion": 3, "kind": "LocalQueue"}, {**queue(), "metadata": None}, {**queue(), "metadata": ["q"]}],
    ids=str,
)
def test_a_body_that_names_nothing_is_refused(store: MemoryStore, body: Tree) -> None:
    for write in (store.create, store.update, store.update_status):
        with pytest.raises(Invalid):
            write(body)


def test_a_namespace_must_be_there_if_that_is_asked() -> None:
    store = MemoryStore(Time(), needs_namespaces=True)
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team", "finalizers": [HELD]}}
    with pytest.raises(NotFound, match="team"):
        store.create(queue())
    store.create(namespace)
    store.create(queue())
    store.delete(kind_of(Namespace), "", "team")
    with pytest.raises(Forbidden, match="terminated"):
        store.create(queue("late"))


def test_a_call_that_raises_changes_nothing(store: MemoryStore) -> None:
    store.create(queue())
    before = store.resource_version
    for write in (store.create, store.update, store.update_status):
        with pytest.raises(Invalid):
            write({**queue("Upper", stop="Perhaps"), "status": {"pendingWorkloads": "many"}, "metadata": {}})
    assert store.resource_version == before


# --- our own writes, unjudged -----------------------------------------------------------------------------------------


def test_without_care_structs_and_patches_are_taken_as_they_are() -> None:
    store = MemoryStore(Time(), careful=False)
    value: Any = store.create(queue()).value()
    bad = msgspec.structs.replace(value, spec=msgspec.structs.replace(value.spec, cluster_queue="Not A Name"))
    assert store.update(bad).value().spec.cluster_queue == "Not A Name"
    patched = store.patch(QUEUE, "team", "q", {"status": {"pendingWorkloads": 3}}, status=True)
    assert patched.value().status.pending_workloads == 3
    assert patched.generation == 2
    with pytest.raises(Invalid):
        store.patch(QUEUE, "team", "q", {"status": {"pendingWorkloads": "many"}}, status=True)


def test_without_care_trees_are_judged_all_the_same() -> None:
    store = MemoryStore(Time(), careful=False)
    with pytest.raises(Invalid):
        store.create(queue(stop="Perhaps"))


class TestMemoryStoreWithoutCareAndWithAShortMemory(StoreConformance):
    def make_store(self) -> MemoryStore:
        return MemoryStore(Time(), careful=False, history=12)

    test_what_is_immutable_cannot_be_updated = None  # type: ignore[assignment]  # it is what care is for


# --- grace ------------------------------------------------------------------------------------------------------------


def test_a_pod_that_runs_is_given_its_grace_period(store: MemoryStore) -> None:
    store.create(pod(terminationGracePeriodSeconds=60))
    meta = store.delete(POD, "team", "p").tree()["metadata"]
    assert (meta["deletionGracePeriodSeconds"], meta["deletionTimestamp"]) == (60, "2026-01-01T12:01:00Z")
    assert store.delete(POD, "team", "p") == store.get(POD, "team", "p")


def test_a_grace_period_can_be_shortened_never_lengthened(store: MemoryStore) -> None:
    store.create(pod())
    first = store.delete(POD, "team", "p")
    assert first.value().metadata.deletion_grace_period_seconds == 30
    assert store.delete(POD, "team", "p", grace=90) == first
    shorter = store.delete(POD, "team", "p", grace=10).tree()["metadata"]
    assert (shorter["deletionGracePeriodSeconds"], shorter["deletionTimestamp"]) == (10, "2026-01-01T12:00:10Z")


def test_a_pod_goes_when_its_node_says_so(store: MemoryStore) -> None:
    store.create(pod())
    store.delete(POD, "team", "p")
    store.patch(POD, "team", "p", {"metadata": {"labels": {"seen": "yes"}}})
    assert store.get(POD, "team", "p").deleting
    store.delete(POD, "team", "p", grace=0)
    assert store.list(POD).items == ()


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_pod_that_has_ended_needs_no_grace(store: MemoryStore, phase: str) -> None:
    store.create(pod())
    store.patch(POD, "team", "p", {"status": {"phase": phase}}, status=True)
    store.delete(POD, "team", "p")
    assert store.list(POD).items == ()


def test_a_pod_without_a_node_needs_no_grace(store: MemoryStore) -> None:
    store.create(pod(nodeName=None))
    store.delete(POD, "team", "p", grace=30)
    assert store.list(POD).items == ()


# --- owners -----------------------------------------------------------------------------------------------------------


def test_owners_in_a_circle_do_not_wait_for_each_other(store: MemoryStore) -> None:
    first = store.create(queue("first"))
    second = store.create(queue("second", ownerReferences=owned_by(first, blocks=True)))
    store.update(changed(first, ownerReferences=owned_by(second, blocks=True)))
    store.delete(QUEUE, "team", "first", propagation="Foreground")
    assert store.list(QUEUE).items == ()


def test_who_owns_itself_can_be_let_go(store: MemoryStore) -> None:
    narcissus = store.create(queue())
    store.update(changed(narcissus, ownerReferences=owned_by(narcissus, blocks=True)))
    store.delete(QUEUE, "team", "q", propagation="Orphan")
    assert store.list(QUEUE).items == ()


def test_the_foreground_reaches_the_dependents_of_dependents(store: MemoryStore) -> None:
    owner = store.create(queue("owner"))
    child = store.create(queue("child", ownerReferences=owned_by(owner, blocks=True)))
    references = owned_by(child, blocks=True)
    leaf = store.create(queue("leaf", ownerReferences=references, finalizers=[HELD]))
    store.delete(QUEUE, "team", "owner", propagation="Foreground")
    assert [each.deleting for each in store.list(QUEUE).items] == [True, True, True]
    store.update(changed(store.get(QUEUE, "team", "leaf"), finalizers=[]))
    assert store.list(QUEUE).items == ()
    assert leaf.owners == (child.uid,)


def test_a_dependent_that_is_let_go_no_longer_blocks(store: MemoryStore) -> None:
    owner = store.create(queue("owner"))
    child = store.create(queue("child", ownerReferences=owned_by(owner, blocks=True), finalizers=[HELD]))
    store.delete(QUEUE, "team", "owner", propagation="Foreground")
    store.update(changed(store.get(QUEUE, "team", "child"), ownerReferences=[]))
    assert [each.uid for each in store.list(QUEUE).items] == [child.uid]


def test_a_finalizer_of_the_object_chooses_the_propagation(store: MemoryStore) -> None:
    owner = store.create(queue("owner", finalizers=["orphan"]))
    store.create(queue("child", ownerReferences=owned_by(owner)))
    store.delete(QUEUE, "team", "owner")
    assert [each.name for each in store.list(QUEUE).items] == ["child"]


def test_an_explicit_background_overrules_that_finalizer(store: MemoryStore) -> None:
    owner = store.create(queue("owner", finalizers=["orphan"]))
    store.create(queue("child", ownerReferences=owned_by(owner)))
    store.delete(QUEUE, "team", "owner", propagation="Background")
    assert store.list(QUEUE).items == ()


@pytest.mark.parametrize(
    ("change", "stays"),
    [
        ({}, True),
        ({"apiVersion": "example.com/v1", "uid": "unknown"}, True),
        ({"uid": "unknown"}, False),
        ({"name": "another"}, False),
        ({"kind": "Workload"}, False),
    ],
    ids=["the owner is there", "nobody knows the kind", "another uid", "another name", "another kind"],
)
def test_an_owner_is_known_by_all_that_a_reference_says(store: MemoryStore, change: Tree, stays: bool) -> None:
    owner = store.create(queue("owner"))
    store.create(queue("child", ownerReferences=[{**owned_by(owner)[0], **change}]))
    assert (len(store.list(QUEUE).items) == 2) == stays


def test_of_two_dependents_each_goes_its_own_way(store: MemoryStore) -> None:
    owner = store.create(queue("owner"))
    for name in ("first", "second"):
        store.create(queue(name, ownerReferences=owned_by(owner)))
    store.delete(QUEUE, "team", "first")
    assert [each.name for each in store.list(QUEUE).items] == ["owner", "second"]
    store.delete(QUEUE, "team", "owner")
    assert store.list(QUEUE).items == ()


def test_an_owner_in_another_namespace_is_none(store: MemoryStore) -> None:
    owner = store.create(queue("owner", namespace="other"))
    store.create(queue("child", ownerReferences=owned_by(owner)))
    assert store.list(QUEUE, "team").items == ()


def test_who_loses_all_owners_by_an_update_to_absent_ones_goes(store: MemoryStore) -> None:
    owner = store.create(queue("owner"))
    child = store.create(queue("child", ownerReferences=owned_by(owner)))
    store.update(changed(child, ownerReferences=[{**owned_by(owner)[0], "uid": "unknown"}]))
    assert [each.name for each in store.list(QUEUE).items] == ["owner"]


def test_the_collector_looks_only_at_what_is_concerned() -> None:
    store = MemoryStore(Time(), looks=0)
    owner = store.create(queue("owner"))
    for i in range(50):
        store.create(queue(f"other-{i}"))
    store.create(queue("child", ownerReferences=owned_by(owner)))
    store.delete(QUEUE, "team", "owner")
    assert store.collect() == 1
    assert store.collect() == 0


# --- history ----------------------------------------------------------------------------------------------------------


def test_the_history_is_bounded_by_count() -> None:
    store = MemoryStore(Time(), history=5)
    for i in range(30):
        store.create(queue(f"q-{i}"))
    with pytest.raises(Expired):
        store.watch(QUEUE, "20")
    assert len(store.watch(QUEUE, "26").poll()) == 5


def test_the_pages_of_a_list_pass_over_changes_of_other_kinds(store: MemoryStore) -> None:
    for name in "ab":
        store.create(queue(name))
    page = store.list(QUEUE, limit=1)
    store.create(SPOT)
    assert len(store.list(FLAVOR).items) == 1
    assert [each.name for each in store.list(QUEUE, token=page.token).items] == ["b"]


def test_a_revision_to_come_is_not_available_yet(store: MemoryStore) -> None:
    with pytest.raises(Unavailable) as refused:
        store.watch(QUEUE, "2")
    assert refused.value.retry_after == 1000


@pytest.mark.parametrize("since", ["new", "-1", "1.5", "٣"])
def test_what_is_no_revision_is_refused(store: MemoryStore, since: str) -> None:
    with pytest.raises(Invalid):
        store.watch(QUEUE, since)


def test_a_token_of_nobodys_list_is_refused(store: MemoryStore) -> None:
    for name in "ab":
        store.create({**SPOT, "metadata": {"name": name}})
    of_another_kind = store.list(FLAVOR, limit=1).token
    for token in (of_another_kind, "nonsense", "e30=", "é"):
        with pytest.raises(Invalid):
            store.list(QUEUE, token=token)


def test_a_page_says_how_many_follow(store: MemoryStore) -> None:
    for name in "abcde":
        store.create(queue(name))
    page = store.list(QUEUE, limit=2)
    assert (len(page.items), page.remaining) == (2, 3)
    assert store.list(QUEUE, limit=9).token == ""


def test_a_watch_that_begins_with_what_is_there_says_where_that_ends(store: MemoryStore) -> None:
    store.create(queue("a"))
    store.create(queue("b"))
    store.delete(QUEUE, "team", "a")
    watch = store.watch(QUEUE, bookmarks=True)
    assert story(watch.poll(1)) == [("ADDED", "b")]
    assert [(each.type, each.resource_version) for each in watch.poll()] == [("BOOKMARK", "4")]
    assert list(watch.poll()) == []


def test_a_watch_of_labels_does_not_hear_of_what_never_had_them(store: MemoryStore) -> None:
    watch = store.watch(QUEUE, "0", labels=RED)
    store.create(queue())
    store.update(queue(stop="Hold"))
    store.delete(QUEUE, "team", "q")
    assert list(watch.poll()) == []


# --- load -------------------------------------------------------------------------------------------------------------


def test_what_is_loaded_keeps_its_status_uid_and_time(store: MemoryStore) -> None:
    then = "2025-01-01T00:00:00Z"
    store.load([queue(pending=3, uid="mine", creationTimestamp=then, resourceVersion="77"), queue("r", namespace=None)])
    loaded = store.get(QUEUE, "team", "q")
    assert loaded.value().status.pending_workloads == 3
    assert (loaded.uid, loaded.resource_version, loaded.generation) == ("mine", "2", 1)
    assert loaded.tree()["metadata"]["creationTimestamp"] == then
    assert store.get(QUEUE, "default", "r").tree()["metadata"]["creationTimestamp"] == "2026-01-01T12:00:00Z"


def test_what_is_loaded_stays_without_its_owner(store: MemoryStore) -> None:
    owner = MemoryStore(Time()).create(queue("owner"))
    store.load([queue("child", ownerReferences=owned_by(owner))])
    store.create(queue())
    assert len(store.list(QUEUE).items) == 2


@pytest.mark.parametrize("body", [queue(uid="other"), queue("r", uid="mine")], ids=["name", "uid"])
def test_nothing_is_loaded_twice(store: MemoryStore, body: Tree) -> None:
    store.load([queue(uid="mine")])
    with pytest.raises(AlreadyExists):
        store.load([body])


@pytest.mark.parametrize("body", [queue(stop="Perhaps"), {**queue(), "kind": "Teapot"}], ids=["value", "kind"])
def test_a_load_is_judged_too(store: MemoryStore, body: Tree) -> None:
    with pytest.raises(Invalid):
        store.load([body])


def test_the_state_of_one_store_can_be_loaded_into_another(store: MemoryStore) -> None:
    store.create(workload())
    store.create({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j", "namespace": "team"},
                  "spec": {"template": {"spec": {"containers": [{"name": "c", "image": "i"}],
                                                 "restartPolicy": "Never"}}}})  # fmt: skip
    there: list[Stored] = [each for type_ in (Workload, Job, LocalQueue) for each in store.list(kind_of(type_)).items]
    other = MemoryStore(Time())
    other.load(each.value() for each in there)
    assert [each for type_ in (Workload, Job, LocalQueue) for each in other.list(kind_of(type_)).items] == there


@pytest.mark.slow
@pytest.mark.property
def test_a_value_that_is_kept_beside_its_bytes_reads_the_same_from_them(
    monkeypatch: pytest.MonkeyPatch, fuzz_seed: int, fuzz_inputs: int, in_time: InTime
) -> None:
    made, count = Stored.made, 0

    def checked(kind: Kind, value: Any) -> Stored:
        nonlocal count
        new = made(kind, value)
        assert codec.decode(new.data, kind.type) == value == new.value()
        count += 1
        return new

    monkeypatch.setattr(Stored, "made", staticmethod(checked))
    for seed in in_time(range(fuzz_seed, fuzz_seed + fuzz_inputs // 200)):
        simulation = Simulation(SimulationSettings(seed=seed), arrivals_of(objects(seed, Shape(works_max=15))))
        simulation.run(Millis(simulation.clock.now + 3_600_000))
    assert count
