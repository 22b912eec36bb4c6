"""The suite every Store must pass: what ``runtime.ports.Store`` promises, one test for each sentence.

Subclass ``StoreConformance`` in a test module and define ``make_store``, which returns an empty Store; pytest collects
the rest. Three hooks are for Stores outside of this process: ``compact`` makes it forget its history (skip there what
cannot be forced), ``settle`` waits for its garbage collector, ``news`` waits for events.

The suite demands nothing that an API server of Kubernetes would not do. The property at the end compares a Store with
``Model``, a dict, over every order of writes, watches, resumed watches and lost history.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast

import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from makeway.api.objects.queueing import LocalQueue, ResourceFlavor
from makeway.api.versions import kind_of
from makeway.core.model import Expression
from makeway.runtime.ports import AlreadyExists, Conflict, Expired, Invalid, NotFound, Store, Stored, Watch, WatchEvent

Tree = dict[str, Any]
KUEUE, OLDER = "kueue.x-k8s.io/v1beta2", "kueue.x-k8s.io/v1beta1"
QUEUE, FLAVOR = kind_of(LocalQueue), kind_of(ResourceFlavor)
NAMES = st.sampled_from("abc")
HELD = "example.com/held"
ANOTHER = "00000000-0000-4000-a000-000000000000"
CALLS_PER_STORY = 25  # a story of many calls is as much work as so many single draws
SPOT = {"apiVersion": KUEUE, "kind": "ResourceFlavor", "metadata": {"name": "spot"}}
RED = (Expression("colour", "In", ("red",)),)


def queue(name: str | None = "q", *, stop: str = "None", pending: int | None = None, **metadata: Any) -> Tree:
    """A LocalQueue: it has a namespace, a status, and a spec with a field that may change and one that may not."""
    meta, spec = {"namespace": "team", "name": name, **metadata}, {"clusterQueue": "shared", "stopPolicy": stop}
    tree: Tree = {"apiVersion": KUEUE, "kind": "LocalQueue", "metadata": meta, "spec": spec}
    return tree if pending is None else {**tree, "status": {"pendingWorkloads": pending}}


def owned_by(*owners: Stored, blocks: bool = False) -> list[Tree]:
    shared = {"apiVersion": KUEUE, "kind": "LocalQueue", "blockOwnerDeletion": blocks}
    return [{**shared, "name": each.name, "uid": each.uid} for each in owners]


def changed(each: Stored, **fields: Any) -> Tree:
    """A stored object with some metadata changed; the resourceVersion stays, as a careful writer leaves it."""
    tree = each.tree()
    return {**tree, "metadata": {**tree["metadata"], **fields}}


def pending(each: Stored) -> int:
    """The count in the status; before it is written there may be no status."""
    return int((each.tree().get("status") or {}).get("pendingWorkloads", 0))


def names(items: Sequence[Stored]) -> list[str]:
    return [each.name for each in items]


def story(events: Sequence[WatchEvent]) -> list[tuple[str, str]]:
    return [(each.type, each.object.name if each.object else "") for each in events]


class StoreConformance:
    """Subclass it, name the subclass ``Test…``, and define ``make_store``."""

    def make_store(self) -> Store:
        raise NotImplementedError

    def compact(self, store: Any) -> None:
        """Forget the history up to now."""
        store.compact()

    def settle(self, store: Any) -> None:
        """Let the garbage collector finish."""

    def news(self, watch: Watch, limit: int = 1000) -> list[WatchEvent]:
        """All events that there are now, asked for in portions of ``limit``."""
        found: list[WatchEvent] = []
        while events := watch.poll(limit):
            assert len(events) <= limit
            found.extend(events)
        return found

    @pytest.fixture
    def store(self) -> Store:
        return self.make_store()

    def gone(self, store: Store, each: Stored) -> bool:
        self.settle(store)
        try:
            return store.get(each.kind, each.namespace, each.name).uid != each.uid
        except NotFound:
            return True

    # --- create and read ---

    def test_what_was_created_can_be_read(self, store: Store) -> None:
        created = store.create(queue())
        assert store.get(QUEUE, "team", "q") == created
        assert (created.namespace, created.name) == ("team", "q")
        assert created.value().spec.cluster_queue == "shared"

    def test_defaults_are_filled_in(self, store: Store) -> None:
        tree = queue()
        del tree["spec"]["stopPolicy"]
        assert store.create(tree).tree()["spec"]["stopPolicy"] == "None"

    def test_the_store_gives_uid_time_generation_and_resource_version(self, store: Store) -> None:
        created = store.create(queue())
        meta = created.tree()["metadata"]
        assert created.uid == meta["uid"] != ""
        assert created.generation == meta["generation"] == 1
        assert created.resource_version == meta["resourceVersion"] == str(created.revision)
        assert len(meta["creationTimestamp"]) == len("2026-01-01T00:00:00Z")

    def test_what_the_store_gives_is_not_taken_from_the_body(self, store: Store) -> None:
        then = "2001-01-01T00:00:00Z"
        mine: Tree = {"uid": "mine", "generation": 7, "creationTimestamp": then, "deletionTimestamp": then}
        created = store.create(queue(**mine))
        assert created.uid != "mine"
        assert created.generation == 1
        assert not created.deleting
        assert created.tree()["metadata"]["creationTimestamp"] != then

    def test_status_is_not_taken_from_a_create(self, store: Store) -> None:
        assert pending(store.create(queue(pending=3))) == 0

    def test_generate_name_makes_names_that_differ(self, store: Store) -> None:
        made = {store.create(queue(None, generateName="job-")).name for _ in range(5)}
        assert len(made) == 5
        assert all(name.startswith("job-") and len(name) == 9 for name in made)

    def test_a_refusal_tells_all_problems_and_stores_nothing(self, store: Store) -> None:
        with pytest.raises(Invalid) as refused:
            store.create(queue("Upper", stop="Perhaps"))
        assert {each.path for each in refused.value.problems} >= {"metadata.name", "spec.stopPolicy"}
        assert store.list(QUEUE).items == ()

    def test_what_nobody_serves_or_has_no_place_or_a_revision_cannot_be_created(self, store: Store) -> None:
        for body in ({**queue(), "kind": "Teapot"}, queue(namespace=None), queue(resourceVersion="1")):
            with pytest.raises(Invalid):
                store.create(body)

    def test_readers_cannot_change_what_is_stored(self, store: Store) -> None:
        created = store.create(queue(labels={"colour": "red"}))
        created.tree()["spec"]["stopPolicy"] = "Hold"
        with pytest.raises(TypeError):
            created.labels["colour"] = "blue"  # type: ignore[index]
        assert store.get(QUEUE, "team", "q").tree()["spec"]["stopPolicy"] == "None"
        assert store.get(QUEUE, "team", "q").labels == {"colour": "red"}

    def test_the_callers_body_is_neither_changed_nor_kept(self, store: Store) -> None:
        body = queue()
        created = store.create(body)
        assert body == queue()
        body["spec"]["stopPolicy"] = "Hold"
        assert store.get(QUEUE, "team", "q") == created

    # --- update ---

    def test_an_update_of_the_spec_is_a_new_generation(self, store: Store) -> None:
        created = store.create(queue())
        updated = store.update(queue(stop="Hold"))
        assert updated.value().spec.stop_policy == "Hold"
        assert updated.generation == 2
        assert updated.revision > created.revision
        assert updated.uid == created.uid

    def test_an_update_of_metadata_is_no_new_generation(self, store: Store) -> None:
        created = store.create(queue())
        updated = store.update(changed(created, labels={"colour": "red"}))
        assert updated.generation == 1
        assert updated.revision > created.revision
        assert updated.labels == {"colour": "red"}

    def test_an_update_of_nothing_is_no_write(self, store: Store) -> None:
        created = store.create(queue(labels={"a": "1", "b": "2"}))
        assert store.update(queue(labels={"b": "2", "a": "1"})) == created
        assert store.list(QUEUE).resource_version == created.resource_version

    @pytest.mark.parametrize("verb", ["update", "update_status"])
    def test_a_write_from_an_old_state_or_to_another_object_is_a_conflict(self, store: Store, verb: str) -> None:
        old = store.create(queue())
        new = store.update(queue(stop="Hold"))
        for body in (old.tree(), queue(uid=ANOTHER)):
            with pytest.raises(Conflict):
                getattr(store, verb)({**body, "status": {"pendingWorkloads": 3}})
        assert store.get(QUEUE, "team", "q") == new

    def test_what_is_immutable_cannot_be_updated(self, store: Store) -> None:
        created = store.create(queue())
        with pytest.raises(Invalid) as refused:
            store.patch(QUEUE, "team", "q", {"spec": {"clusterQueue": "another"}})
        assert "spec.clusterQueue" in [each.path for each in refused.value.problems]
        assert store.get(QUEUE, "team", "q") == created

    def test_one_counter_numbers_the_writes_of_all_kinds(self, store: Store) -> None:
        first = store.create(queue())
        second = store.create(SPOT)
        third = store.update(queue(stop="Hold"))
        assert first.revision < second.revision < third.revision
        assert int(store.list(FLAVOR).resource_version) >= third.revision

    # --- status ---

    def test_a_status_write_changes_status_alone(self, store: Store) -> None:
        created = store.create(queue())
        written = store.update_status(queue(stop="Hold", pending=3, labels={"colour": "red"}))
        assert pending(written) == 3
        assert written.value().spec == created.value().spec
        assert written.labels == {}
        assert written.generation == 1
        assert written.revision > created.revision

    def test_a_bad_status_and_a_status_of_a_kind_without_one_are_refused(self, store: Store) -> None:
        created = store.create(queue())
        for body in ({**queue(), "status": {"pendingWorkloads": "many"}}, store.create(SPOT).tree()):
            with pytest.raises(Invalid):
                store.update_status(body)
        assert store.get(QUEUE, "team", "q") == created

    # --- patch ---

    def test_a_patch_changes_what_it_names(self, store: Store) -> None:
        store.create(queue(labels={"a": "1", "b": "2"}))
        patched = store.patch(QUEUE, "team", "q", {"metadata": {"labels": {"a": None, "c": "3"}}})
        assert patched.labels == {"b": "2", "c": "3"}
        assert patched.value().spec.cluster_queue == "shared"

    def test_a_patch_of_the_status_leaves_the_rest(self, store: Store) -> None:
        store.create(queue())
        change = {"spec": {"stopPolicy": "Hold"}, "status": {"pendingWorkloads": 3}}
        patched = store.patch(QUEUE, "team", "q", change, status=True)
        assert pending(patched) == 3
        assert patched.value().spec.stop_policy == "None"

    def test_a_patch_with_an_old_resource_version_is_a_conflict(self, store: Store) -> None:
        old = store.create(queue())
        store.update(queue(stop="Hold"))
        with pytest.raises(Conflict):
            store.patch(QUEUE, "team", "q", {"metadata": {"resourceVersion": old.resource_version, "labels": {}}})

    # --- versions ---

    def test_an_older_version_is_read_and_shown(self, store: Store) -> None:
        body = {"apiVersion": OLDER, "kind": "ClusterQueue", "metadata": {"name": "c"}, "spec": {"cohort": "all"}}
        created = store.create(body)
        assert created.value().spec.cohort_name == "all"
        assert created.tree("v1beta1")["spec"]["cohort"] == "all"
        assert created.tree()["apiVersion"] == KUEUE

    # --- delete ---

    def test_a_delete_may_say_which_object_it_means(self, store: Store) -> None:
        created = store.create(queue())
        with pytest.raises(Conflict):
            store.delete(QUEUE, "team", "q", uid=ANOTHER)
        store.update(queue(stop="Hold"))
        with pytest.raises(Conflict):
            store.delete(QUEUE, "team", "q", resource_version=created.resource_version)
        store.delete(QUEUE, "team", "q", uid=created.uid)
        assert self.gone(store, created)

    def test_who_takes_the_last_finalizer_removes_what_is_deleted(self, store: Store) -> None:
        store.create(queue(finalizers=[HELD, "example.com/other"]))
        marked = store.delete(QUEUE, "team", "q")
        one_left = store.update(changed(marked, finalizers=[HELD]))
        assert not self.gone(store, marked)
        store.update(changed(one_left, finalizers=[]))
        assert self.gone(store, marked)

    def test_no_finalizer_can_be_added_to_what_is_deleted(self, store: Store) -> None:
        store.create(queue(finalizers=[HELD]))
        marked = store.delete(QUEUE, "team", "q")
        with pytest.raises(Invalid):
            store.update(changed(marked, finalizers=[HELD, "example.com/late"]))

    # --- owners ---

    def test_dependents_go_after_their_owner(self, store: Store) -> None:
        owner = store.create(queue("owner"))
        child = store.create(queue("child", ownerReferences=owned_by(owner)))
        grandchild = store.create(queue("grandchild", ownerReferences=owned_by(child)))
        store.delete(QUEUE, "team", "owner")
        assert self.gone(store, child)
        assert self.gone(store, grandchild)

    def test_a_dependent_with_another_owner_stays_and_forgets_the_one_that_went(self, store: Store) -> None:
        first, second = store.create(queue("first")), store.create(queue("second"))
        child = store.create(queue("child", ownerReferences=owned_by(first, second)))
        store.delete(QUEUE, "team", "first")
        assert not self.gone(store, child)
        assert store.get(QUEUE, "team", "child").owners == (second.uid,)

    def test_orphans_are_let_go(self, store: Store) -> None:
        owner = store.create(queue("owner"))
        child = store.create(queue("child", ownerReferences=owned_by(owner)))
        store.delete(QUEUE, "team", "owner", propagation="Orphan")
        assert self.gone(store, owner)
        assert not self.gone(store, child)
        assert store.get(QUEUE, "team", "child").owners == ()

    def test_in_the_foreground_an_owner_waits_for_what_blocks_it(self, store: Store) -> None:
        owner = store.create(queue("owner"))
        references = owned_by(owner, blocks=True)
        child = store.create(queue("child", ownerReferences=references, finalizers=[HELD]))
        store.delete(QUEUE, "team", "owner", propagation="Foreground")
        assert not self.gone(store, owner)
        marked = store.get(QUEUE, "team", "child")
        assert marked.deleting
        store.update(changed(marked, finalizers=[]))
        assert self.gone(store, child)
        assert self.gone(store, owner)

    def test_in_the_foreground_an_owner_does_not_wait_for_what_does_not_block_it(self, store: Store) -> None:
        owner = store.create(queue("owner"))
        child = store.create(queue("child", ownerReferences=owned_by(owner), finalizers=[HELD]))
        store.delete(QUEUE, "team", "owner", propagation="Foreground")
        assert self.gone(store, owner)
        assert store.get(QUEUE, "team", "child").deleting
        assert not self.gone(store, child)

    def test_a_dependent_that_comes_too_late_goes_too(self, store: Store) -> None:
        owner = store.create(queue("owner"))
        store.delete(QUEUE, "team", "owner")
        assert self.gone(store, owner)
        assert self.gone(store, store.create(queue("child", ownerReferences=owned_by(owner))))

    # --- list ---

    def test_a_list_is_sorted_by_namespace_and_name(self, store: Store) -> None:
        for namespace, name in (("b", "x"), ("a", "y"), ("a", "x"), ("a", "x-y")):
            store.create(queue(name, namespace=namespace))
        found = [(each.namespace, each.name) for each in store.list(QUEUE).items]
        assert found == [("a", "x"), ("a", "x-y"), ("a", "y"), ("b", "x")]
        assert names(store.list(QUEUE, "b").items) == ["x"]

    @pytest.mark.parametrize(
        ("operator", "found"), [("In", "r"), ("NotIn", "b none"), ("Exists", "b r"), ("DoesNotExist", "none")]
    )
    def test_a_list_takes_a_label_selector(self, store: Store, operator: str, found: str) -> None:
        for name, labels in (("r", {"colour": "red"}), ("b", {"colour": "blue"}), ("none", {})):
            store.create(queue(name, labels=labels))
        selector = (Expression("colour", operator, ("red",) if operator.endswith("In") else ()),)
        assert names(store.list(QUEUE, labels=selector).items) == found.split()

    def test_the_pages_of_a_list_show_one_state(self, store: Store) -> None:
        for name in "abcde":
            store.create(queue(name))
        first = store.list(QUEUE, "team", limit=2)
        store.create(queue("cc"))
        store.delete(QUEUE, "team", "d")
        for stop in ("Hold", "HoldAndDrain"):
            store.update(queue("e", stop=stop))
        assert len(store.list(QUEUE, "team").items) == 5
        second = store.list(QUEUE, "team", limit=2, token=first.token)
        third = store.list(QUEUE, "team", limit=2, token=second.token)
        assert [names(page.items) for page in (first, second, third)] == [["a", "b"], ["c", "d"], ["e"]]
        assert third.items[0].value().spec.stop_policy == "None"
        assert {page.resource_version for page in (first, second, third)} == {first.resource_version}
        assert third.token == ""

    def test_a_list_cannot_go_on_in_a_state_that_is_forgotten(self, store: Store) -> None:
        store.create(queue("a"))
        store.create(queue("b"))
        page = store.list(QUEUE, limit=1)
        store.create(queue("c"))
        self.compact(store)
        with pytest.raises(Expired):
            store.list(QUEUE, limit=1, token=page.token)

    # --- watch ---

    def test_a_watch_tells_what_happens_in_order(self, store: Store) -> None:
        watch = store.watch(QUEUE, store.list(QUEUE).resource_version)
        store.create(queue("a"))
        store.create(queue("b"))
        store.update(queue("a", stop="Hold"))
        store.delete(QUEUE, "team", "b")
        events = self.news(watch)
        assert story(events) == [("ADDED", "a"), ("ADDED", "b"), ("MODIFIED", "a"), ("DELETED", "b")]
        revisions = [int(each.resource_version) for each in events]
        assert revisions == sorted(set(revisions))
        assert self.news(watch) == []

    def test_a_watch_without_a_beginning_begins_with_what_is_there(self, store: Store) -> None:
        store.create(queue("a"))
        watch = store.watch(QUEUE)
        store.create(queue("b"))
        assert story(self.news(watch)) == [("ADDED", "a"), ("ADDED", "b")]

    def test_a_watch_resumes_where_another_ended(self, store: Store) -> None:
        watch = store.watch(QUEUE, store.list(QUEUE).resource_version)
        store.create(queue("a"))
        last = self.news(watch)[-1].resource_version
        watch.close()
        store.create(queue("b"))
        assert list(watch.poll()) == []
        assert story(self.news(store.watch(QUEUE, last))) == [("ADDED", "b")]

    def test_an_event_shows_the_state_that_the_write_answered_with(self, store: Store) -> None:
        watch = store.watch(QUEUE, store.list(QUEUE).resource_version)
        written = [store.create(queue()), store.update(queue(stop="Hold")), store.update_status(queue(pending=3))]
        assert [each.object for each in self.news(watch)] == written

    def test_a_removal_shows_the_last_state_at_a_revision_of_its_own(self, store: Store) -> None:
        last = store.create(queue(stop="Hold"))
        watch = store.watch(QUEUE, last.resource_version)
        store.delete(QUEUE, "team", "q")
        (event,) = self.news(watch)
        assert event.object is not None
        assert (event.object.uid, event.object.value().spec) == (last.uid, last.value().spec)
        assert last.revision < event.object.revision == int(event.resource_version)

    def test_a_watch_sees_its_kind_and_namespace_alone(self, store: Store) -> None:
        watch = store.watch(QUEUE, store.list(QUEUE).resource_version, namespace="team")
        store.create(SPOT)
        store.create(queue("elsewhere", namespace="other"))
        store.create(queue("here"))
        assert story(self.news(watch)) == [("ADDED", "here")]

    def test_what_gains_or_loses_the_labels_of_a_watch_comes_or_goes(self, store: Store) -> None:
        watch = store.watch(QUEUE, store.list(QUEUE).resource_version, labels=RED)
        for colour in ("blue", "red", "red", "blue", "green"):
            body = queue(labels={"colour": colour, "n": str(store.list(QUEUE).resource_version)})
            store.update(body) if store.list(QUEUE).items else store.create(body)
        assert story(self.news(watch)) == [("ADDED", "q"), ("MODIFIED", "q"), ("DELETED", "q")]

    def test_a_watch_from_a_forgotten_revision_has_expired(self, store: Store) -> None:
        old = store.create(queue("a"))
        behind = store.watch(QUEUE, old.resource_version)
        store.create(queue("b"))
        self.compact(store)
        with pytest.raises(Expired):  # at once, or by the first poll
            self.news(store.watch(QUEUE, old.resource_version))
        with pytest.raises(Expired):
            behind.poll()

    def test_a_bookmark_lets_a_quiet_watch_resume_after_a_compaction(self, store: Store) -> None:
        watch = store.watch(QUEUE, store.list(QUEUE).resource_version, bookmarks=True)
        store.create(SPOT)
        *_, mark = self.news(watch)
        assert (mark.type, mark.object) == ("BOOKMARK", None)
        self.compact(store)
        store.create(queue("a"))
        assert story(self.news(store.watch(QUEUE, mark.resource_version))) == [("ADDED", "a")]

    @pytest.mark.property
    def test_in_any_order_of_calls_it_agrees_with_a_dict(self) -> None:
        stories = settings(max_examples=max(20, settings().max_examples // CALLS_PER_STORY))
        run_state_machine_as_test(cast(Any, partial(StoreMachine, self)), settings=stories)


@dataclass(frozen=True)
class Model:
    """An object, as far as the machine changes it."""

    stop: str
    pending: int
    held: bool
    deleting: bool
    generation: int
    uid: str

    @classmethod
    def of(cls, each: Stored) -> Model:
        stop, held = each.value().spec.stop_policy, bool(each.finalizers)
        return cls(stop, pending(each), held, each.deleting, each.generation, each.uid)


class StoreMachine(RuleBasedStateMachine):
    """Writes to a Store and to a dict, and keeps a mirror from watches, as an informer does."""

    def __init__(self, suite: StoreConformance) -> None:
        super().__init__()
        self.suite, self.store = suite, suite.make_store()
        self.model: dict[str, Model] = {}
        self.last: dict[str, Stored] = {}  # what the last write answered
        self.first: dict[str, Stored] = {}  # what the create answered
        self.seen, self.mirror = 0, dict[str, Model]()
        self.relist()

    def write(self, name: str, call: Callable[[], Stored], become: Callable[[Model], Model | None]) -> None:
        """Write to both. There is a new revision if and only if something is new."""
        was = self.model.get(name)
        if was is None:
            with pytest.raises(NotFound):
                call()
            return
        answer, will = call(), become(was)
        if will is None:
            del self.model[name]
        else:
            assert Model.of(answer) == will
            assert (answer.resource_version == self.last[name].resource_version) == (will == was)
            self.model[name], self.last[name] = will, answer

    @rule(name=NAMES, held=st.booleans())
    def create(self, name: str, held: bool) -> None:
        body = queue(name, finalizers=[HELD] if held else [])
        if name in self.model:
            with pytest.raises(AlreadyExists):
                self.store.create(body)
            return
        answer = self.store.create(body)
        assert name not in self.first or self.first[name].uid != answer.uid
        self.model[name] = Model("None", 0, held, False, 1, answer.uid)
        assert Model.of(answer) == self.model[name]
        self.first[name] = self.last[name] = answer

    @rule(name=NAMES, stop=st.sampled_from(("None", "Hold")), struct=st.booleans())
    def update(self, name: str, stop: str, struct: bool) -> None:
        held = name in self.model and self.model[name].held
        tree = queue(name, stop=stop, pending=7, finalizers=[HELD] if held else [])
        body = msgspec.convert(tree, LocalQueue) if struct else tree

        def stopped(was: Model) -> Model:
            return replace(was, stop=stop, generation=was.generation + (stop != was.stop))

        self.write(name, lambda: self.store.update(body), stopped)

    @rule(name=NAMES, pending=st.integers(1, 3))
    def update_status(self, name: str, pending: int) -> None:
        body = queue(name, stop="HoldAndDrain", pending=pending)
        self.write(name, lambda: self.store.update_status(body), lambda was: replace(was, pending=pending))

    @rule(name=NAMES)
    def delete(self, name: str) -> None:
        def marked(was: Model) -> Model | None:
            return replace(was, deleting=True, generation=was.generation + (not was.deleting)) if was.held else None

        self.write(name, lambda: self.store.delete(QUEUE, "team", name), marked)

    @rule(name=NAMES)
    def release(self, name: str) -> None:
        def let_go(was: Model) -> Model | None:
            return None if was.deleting else replace(was, held=False)

        self.write(name, lambda: self.store.patch(QUEUE, "team", name, {"metadata": {"finalizers": None}}), let_go)

    @rule(name=NAMES)
    def update_from_the_first_state(self, name: str) -> None:
        if name in self.model and self.last[name] != self.first[name]:
            with pytest.raises(Conflict):
                self.store.update(changed(self.first[name], labels={"colour": "red"}))

    @rule()
    def forget(self) -> None:
        self.suite.compact(self.store)

    @rule()
    def resume(self) -> None:
        try:
            self.watch = self.store.watch(QUEUE, str(self.seen))
        except Expired:
            self.relist()

    @rule(limit=st.integers(1, 9))
    def catch_up(self, limit: int) -> None:
        try:
            for event in self.suite.news(self.watch, limit):
                self.apply(event)
        except Expired:
            self.relist()
        assert self.mirror == self.model

    def apply(self, event: WatchEvent) -> None:
        assert event.object is not None
        assert self.seen < int(event.resource_version)
        self.seen, name = int(event.resource_version), event.object.name
        assert (event.type == "ADDED") == (name not in self.mirror)
        self.mirror[name] = Model.of(event.object)
        if event.type == "DELETED":
            del self.mirror[name]

    def relist(self) -> None:
        page = self.store.list(QUEUE)
        self.seen = int(page.resource_version)
        self.mirror = {each.name: Model.of(each) for each in page.items}
        self.watch = self.store.watch(QUEUE, page.resource_version)

    @invariant()
    def a_list_shows_what_the_dict_holds(self) -> None:
        assert {each.name: Model.of(each) for each in self.store.list(QUEUE).items} == self.model

    def teardown(self) -> None:
        self.catch_up(1)
