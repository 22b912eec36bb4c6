"""Server-side apply and field ownership: cases by rule, then properties that hold for any writes."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from makeway.adapters.server.changes.field_ownership import LAST_APPLIED, UPDATERS_MAX, ApplyConflict, applied, noted
from makeway.adapters.server.changes.field_sets import difference, fields_of, intersection, paths, union
from makeway.adapters.server.changes.merging import owned_part
from makeway.adapters.server.changes.patches import PatchRefused
from makeway.api.quantity import Time
from makeway.api.reading.documents import Tree
from makeway.api.versions import Kind, find_kind
from makeway.runtime.ports import Invalid


def kind(api_version: str, name: str) -> Kind:
    found = find_kind(api_version, name)
    assert found is not None
    return found


QUEUE, JOB = kind("kueue.x-k8s.io/v1beta2", "ClusterQueue"), kind("batch/v1", "Job")
POD, CONFIG = kind("v1", "Pod"), kind("v1", "ConfigMap")
WORKLOAD = kind("kueue.x-k8s.io/v1beta2", "Workload")


def at(day: int) -> Time:
    return Time.parse(f"2026-01-{day:02}T00:00:00Z")


def apply(
    of: Kind, live: Tree | None, wanted: Tree, manager: str = "anna", *, force: bool = False, day: int = 1,
    version: str = "", subresource: str = "",
) -> Tree:  # fmt: skip
    before = deepcopy((live, wanted))
    try:
        return applied(
            of, version or of.versions[0], live, wanted, manager=manager, force=force, now=at(day),
            subresource=subresource,
        )  # fmt: skip
    finally:
        assert (live, wanted) == before, "what was given has changed"


def note(
    of: Kind, before: Tree | None, after: Tree, manager: str = "ben", *, day: int = 1, subresource: str = ""
) -> Tree:
    return noted(of, of.versions[0], before, after, manager=manager, now=at(day), subresource=subresource)


def object_of(of: Kind, **fields: Any) -> Tree:
    return {
        "apiVersion": of.api_version,
        "kind": of.name,
        "metadata": {"name": "x", **fields.pop("meta", {})},
        **fields,
    }


def data(**entries: str) -> Tree:
    return object_of(CONFIG, data=entries)


def job(**spec: Any) -> Tree:
    return object_of(JOB, spec=spec)


def owned(tree: Tree) -> dict[str, list[str]]:
    """The paths of every manager, as messages name them."""
    found: dict[str, list[str]] = {}
    for each in tree["metadata"].get("managedFields", ()):
        words = f"{each['manager']} {each['operation']}"
        found[f"{words} {each['subresource']}" if each.get("subresource") else words] = list(paths(each["fieldsV1"]))
    return found


def times(tree: Tree) -> dict[str, int]:
    return {each["manager"]: int(each["time"][8:10]) for each in tree["metadata"]["managedFields"]}


def changed(tree: Tree, **fields: Any) -> Tree:
    return {**deepcopy(tree), **fields}


# --- applying --------------------------------------------------------------------------------------------------------


def test_who_creates_by_applying_owns_what_was_applied() -> None:
    tree = apply(CONFIG, None, object_of(CONFIG, data={"a": "1"}, meta={"labels": {"l": "1"}}))
    assert tree["metadata"]["managedFields"] == [{
        "manager": "anna", "operation": "Apply", "apiVersion": "v1", "time": "2026-01-01T00:00:00Z",
        "fieldsType": "FieldsV1", "fieldsV1": {"f:data": {"f:a": {}}, "f:metadata": {"f:labels": {"f:l": {}}}},
    }]  # fmt: skip


def test_lists_are_owned_by_key_as_sets_and_as_a_whole() -> None:
    ports = [{"containerPort": 80}, {"containerPort": 80, "protocol": "UDP", "name": "u"}]
    spec = {"containers": [{"name": "c", "ports": ports, "args": ["a"]}], "tolerations": [{"key": "k"}]}
    tree = apply(POD, None, object_of(POD, spec=spec, meta={"finalizers": ["f"]}))
    in_c = '.spec.containers[name="c"]'
    assert owned(tree)["anna Apply"] == [
        '.metadata.finalizers[="f"]',
        in_c, f"{in_c}.args", f"{in_c}.name",
        f'{in_c}.ports[containerPort=80,protocol="TCP"]',
        f'{in_c}.ports[containerPort=80,protocol="TCP"].containerPort',
        f'{in_c}.ports[containerPort=80,protocol="UDP"]',
        f'{in_c}.ports[containerPort=80,protocol="UDP"].containerPort',
        f'{in_c}.ports[containerPort=80,protocol="UDP"].name',
        f'{in_c}.ports[containerPort=80,protocol="UDP"].protocol',
        ".spec.tolerations",
    ]  # fmt: skip


def test_the_same_again_changes_nothing_not_even_a_time() -> None:
    tree = apply(CONFIG, None, data(a="1"), day=1)
    assert apply(CONFIG, tree, data(a="1"), day=2) == tree


def test_what_is_applied_is_put_into_what_is_there() -> None:
    live = apply(CONFIG, None, data(a="1"), "anna")
    tree = apply(CONFIG, live, data(b="2"), "ben", day=2)
    assert tree["data"] == {"a": "1", "b": "2"}
    assert owned(tree) == {"anna Apply": [".data.a"], "ben Apply": [".data.b"]}
    assert times(tree) == {"anna": 1, "ben": 2}


def test_two_who_want_the_same_own_it_together() -> None:
    live = apply(CONFIG, None, data(a="1"), "anna")
    tree = apply(CONFIG, live, data(a="1"), "ben")
    assert owned(tree) == {"anna Apply": [".data.a"], "ben Apply": [".data.a"]}
    left = apply(CONFIG, tree, object_of(CONFIG), "anna")
    assert left["data"] == {"a": "1"}, "the other still wants it"
    assert owned(left) == {"ben Apply": [".data.a"]}
    assert "data" not in apply(CONFIG, left, object_of(CONFIG), "ben"), "now nobody does"


def test_what_is_applied_no_more_goes() -> None:
    live = apply(CONFIG, None, data(a="1", b="2"))
    tree = apply(CONFIG, live, data(a="1"), day=2)
    assert tree["data"] == {"a": "1"}
    assert owned(tree) == {"anna Apply": [".data.a"]}


def test_what_was_never_applied_stays() -> None:
    live = apply(CONFIG, None, data(a="1"))
    live = note(CONFIG, live, changed(live, data={"a": "1", "b": "2"}), "ben")
    assert apply(CONFIG, live, data(), "anna")["data"] == {"b": "2"}


def test_a_block_goes_with_the_last_field_that_anybody_wanted_in_it() -> None:
    preemption = {"withinClusterQueue": "LowerPriority"}
    live = apply(QUEUE, None, object_of(QUEUE, spec={"cohortName": "c", "preemption": preemption}))
    live["spec"]["preemption"]["reclaimWithinCohort"] = "Never"  # a default of the server
    tree = apply(QUEUE, live, object_of(QUEUE, spec={"cohortName": "c"}))
    assert tree["spec"] == {"cohortName": "c"}


def test_an_item_goes_unless_somebody_owns_something_in_it() -> None:
    env = [{"name": "A", "value": "1"}]
    both = [{"name": "c", "env": env}, {"name": "d"}]
    live = apply(POD, None, object_of(POD, spec={"containers": both}), "anna")
    live = apply(POD, live, object_of(POD, spec={"containers": [{"name": "c", "image": "i"}]}), "ben")
    tree = apply(POD, live, object_of(POD, spec={}), "anna")
    assert tree["spec"]["containers"] == [{"name": "c", "image": "i"}]


def test_items_stand_in_the_order_of_who_applies() -> None:
    live = apply(POD, None, object_of(POD, spec={"containers": [{"name": n} for n in "abc"]}), "anna")
    wanted = object_of(POD, spec={"containers": [{"name": n} for n in "cxa"]})
    names = [each["name"] for each in apply(POD, live, wanted, "ben")["spec"]["containers"]]
    assert names == ["b", "c", "x", "a"]


def test_a_null_removes() -> None:
    live = apply(CONFIG, None, data(a="1", b="2"))
    wanted = object_of(CONFIG, data={"a": None, "b": "2"})
    assert apply(CONFIG, live, wanted)["data"] == {"b": "2"}
    with pytest.raises(ApplyConflict, match=r"conflict with \"anna\": \.data\.a"):
        apply(CONFIG, live, wanted, "ben")


def test_status_is_owned_apart() -> None:
    live = apply(JOB, None, job(parallelism=1))
    tree = apply(JOB, live, object_of(JOB, status={"active": 1}, spec={"parallelism": 9}), "c", subresource="status")
    assert tree["spec"] == {"parallelism": 1}
    assert tree["status"] == {"active": 1}
    assert owned(tree) == {"anna Apply": [".spec.parallelism"], "c Apply status": [".status.active"]}
    with pytest.raises(ApplyConflict, match=r'conflict with "c" with subresource "status": \.status\.active'):
        apply(JOB, tree, object_of(JOB, status={"active": 2}), "d", subresource="status")


def test_a_status_in_the_object_itself_is_not_applied() -> None:
    live = apply(JOB, None, job(parallelism=1))
    live["status"] = {"active": 1}
    tree = apply(JOB, live, object_of(JOB, spec={"parallelism": 1}, status={"active": 2}))
    assert tree["status"] == {"active": 1}
    assert owned(tree) == {"anna Apply": [".spec.parallelism"]}


def test_amounts_are_the_same_however_they_are_written() -> None:
    def with_quota(amount: Tree) -> Tree:
        resources = [{"name": "cpu", "nominalQuota": amount}]
        group = {"coveredResources": ["cpu"], "flavors": [{"name": "f", "resources": resources}]}
        return object_of(QUEUE, spec={"resourceGroups": [group]})

    live = apply(QUEUE, None, with_quota("1"), "anna")
    assert owned(apply(QUEUE, live, with_quota("1000m"), "ben")).keys() == {"anna Apply", "ben Apply"}
    assert owned(apply(QUEUE, live, with_quota(1), "ben")).keys() == {"anna Apply", "ben Apply"}
    with pytest.raises(ApplyConflict, match=r"\.spec\.resourceGroups$"):
        apply(QUEUE, live, with_quota(2), "ben")


def test_what_the_applier_believes_to_be_there_is_kept_for_the_writer_to_compare() -> None:
    live = {**apply(CONFIG, None, data(a="1"))}
    live["metadata"] = {**live["metadata"], "resourceVersion": "7", "uid": "u"}
    wanted = object_of(CONFIG, data={"a": "1"}, meta={"resourceVersion": "5"})
    assert apply(CONFIG, live, data(a="1"))["metadata"]["resourceVersion"] == "7"
    assert apply(CONFIG, live, wanted)["metadata"]["resourceVersion"] == "5"


# --- conflicts -------------------------------------------------------------------------------------------------------


def test_one_conflict_in_the_words_of_kubectl() -> None:
    live = apply(CONFIG, None, data(a="1"))
    with pytest.raises(ApplyConflict) as found:
        apply(CONFIG, live, data(a="2"), "ben")
    assert str(found.value) == 'Apply failed with 1 conflict: conflict with "anna": .data.a'
    assert found.value.conflicts == (('"anna"', ".data.a"),)


def test_several_conflicts_by_who_owns_what() -> None:
    live = note(CONFIG, None, data(a="1", b="1", c="1"), "zoe")
    live = apply(CONFIG, live, data(a="2"), "anna", force=True)
    with pytest.raises(ApplyConflict) as found:
        apply(CONFIG, live, data(a="3", b="3", c="3"), "ben")
    assert str(found.value) == (
        'Apply failed with 3 conflicts: conflicts with "anna":\n- .data.a\n'
        'conflicts with "zoe" using v1:\n- .data.b\n- .data.c'
    )


def test_force_takes_it_over() -> None:
    live = apply(CONFIG, None, data(a="1", b="1"))
    tree = apply(CONFIG, live, data(a="2"), "ben", force=True)
    assert tree["data"] == {"a": "2", "b": "1"}
    assert owned(tree) == {"anna Apply": [".data.b"], "ben Apply": [".data.a"]}


def test_paths_are_told_in_the_version_that_was_applied() -> None:
    live = apply(QUEUE, None, object_of(QUEUE, spec={"cohortName": "a"}))
    older = {"apiVersion": "kueue.x-k8s.io/v1beta1", "kind": "ClusterQueue", "metadata": {"name": "x"}}
    live_older = {**live, "apiVersion": older["apiVersion"], "spec": {"cohort": "a"}}
    with pytest.raises(ApplyConflict, match=r"conflict with \"anna\": \.spec\.cohort$"):
        apply(QUEUE, live_older, {**older, "spec": {"cohort": "b"}}, "ben", version="v1beta1")
    tree = apply(QUEUE, live_older, {**older, "spec": {"cohort": "b"}}, "anna", version="v1beta1")
    assert tree["spec"] == {"cohort": "b"}, "the same applier in another version is the same"
    assert owned(tree) == {"anna Apply": [".spec.cohortName"]}


# --- plain writes ----------------------------------------------------------------------------------------------------


def test_who_creates_owns_all_but_what_the_server_gives() -> None:
    meta = {"uid": "u", "resourceVersion": "1", "generation": 1, "creationTimestamp": "2026-01-01T00:00:00Z"}
    tree = note(JOB, None, object_of(JOB, spec={"parallelism": 1}, status={"active": 1}, meta=meta))
    assert owned(tree) == {"ben Update": [".spec.parallelism"]}


def test_a_plain_write_takes_what_it_changes() -> None:
    live = apply(CONFIG, None, data(a="1", b="1"), day=1)
    tree = note(CONFIG, live, changed(live, data={"a": "2", "b": "1", "c": "1"}), day=2)
    assert owned(tree) == {"anna Apply": [".data.b"], "ben Update": [".data.a", ".data.c"]}
    assert times(tree) == {"anna": 1, "ben": 2}
    with pytest.raises(ApplyConflict, match=r'conflict with "ben" using v1: \.data\.a'):
        apply(CONFIG, tree, data(a="1", b="1"))


def test_a_plain_write_that_removes_leaves_no_owner() -> None:
    live = apply(CONFIG, None, data(a="1", b="1"))
    tree = note(CONFIG, live, changed(live, data={"b": "1"}))
    assert owned(tree) == {"anna Apply": [".data.b"]}


def test_a_plain_write_of_nothing_changes_nothing() -> None:
    live = apply(CONFIG, None, data(a="1"), day=1)
    assert note(CONFIG, live, deepcopy(live), day=2) == live


def test_an_empty_list_in_the_metadata_is_nobodys() -> None:
    """A client that writes ``finalizers: []`` to an object without finalizers has changed nothing."""
    live = apply(CONFIG, None, data(a="1"), day=1)
    sent = {**live, "metadata": {**live["metadata"], "finalizers": [], "labels": {}}}
    assert note(CONFIG, live, sent, day=2)["metadata"]["managedFields"] == live["metadata"]["managedFields"]


def test_a_status_write_owns_status_alone() -> None:
    live = apply(JOB, None, job(parallelism=1))
    after = changed(live, spec={"parallelism": 2}, status={"active": 1})
    assert owned(note(JOB, live, after, subresource="status")) == {
        "anna Apply": [".spec.parallelism"], "ben Update status": [".status.active"],
    }  # fmt: skip


def test_what_nobody_recorded_stays_so_until_somebody_applies() -> None:
    live = data(a="1", b="1")
    assert "managedFields" not in note(CONFIG, live, data(a="2"))["metadata"]
    with pytest.raises(ApplyConflict, match=r'conflict with "before-first-apply" using v1: \.data\.a'):
        apply(CONFIG, live, data(a="2"))
    tree = apply(CONFIG, live, data(a="1"))
    assert owned(tree) == {"anna Apply": [".data.a"], "before-first-apply Update": [".data.a", ".data.b"]}


def test_old_writers_become_one() -> None:
    tree = note(CONFIG, None, data(a0="1"), "w0", day=1)
    for i in range(1, 15):
        tree = note(CONFIG, tree, changed(tree, data={**tree["data"], f"a{i}": "1"}), f"w{i}", day=i + 1)
    managers = [each["manager"] for each in tree["metadata"]["managedFields"]]
    assert managers == ["ancient-changes", *(f"w{i}" for i in range(6, 15))]
    assert len(managers) == UPDATERS_MAX
    assert owned(tree)["ancient-changes Update"] == [f".data.a{i}" for i in range(6)]


# --- records that are brought along ----------------------------------------------------------------------------------


def test_a_plain_write_may_change_the_record_itself() -> None:
    live = note(CONFIG, None, data(a="1"), "kubectl-client-side-apply")
    entry = {**live["metadata"]["managedFields"][0], "manager": "kubectl", "operation": "Apply"}
    after = changed(live, metadata={**live["metadata"], "managedFields": [entry]})
    assert owned(note(CONFIG, live, after)) == {"kubectl Apply": [".data.a"]}


def test_a_record_of_one_empty_entry_forgets_all() -> None:
    live = note(CONFIG, None, data(a="1"))
    after = changed(live, metadata={"name": "x", "managedFields": [{}]})
    assert "managedFields" not in note(CONFIG, live, after)["metadata"]


@pytest.mark.parametrize(
    "sent",
    [
        [], None, "x", 7, {"a": 1}, [7], [{"manager": "m"}],
        [{"manager": "m", "operation": "Steal", "apiVersion": "v1", "fieldsV1": {}}],
        [{"manager": 7, "operation": "Apply", "apiVersion": "v1", "fieldsV1": {"f:data": {}}}],
        [{"manager": "m", "operation": "Apply", "apiVersion": "v1", "fieldsV1": {"data": {}}}],
        [{"manager": "m", "operation": "Apply", "apiVersion": "v1", "fieldsV1": {"k:x": {}}}],
        [{"manager": "m", "operation": "Apply", "apiVersion": "v1", "fieldsV1": {"k:7": {}}}],
    ],
    ids=repr,
)  # fmt: skip
def test_a_record_that_makes_no_sense_is_not_taken(sent: Tree) -> None:
    live = note(CONFIG, None, data(a="1"))
    after = changed(live, metadata={"name": "x", "managedFields": sent})
    assert owned(note(CONFIG, live, after)) == {"ben Update": [".data.a"]}


def test_a_record_in_another_form_is_read_as_the_same() -> None:
    live = note(CONFIG, None, data(a="1"))
    entry = {**live["metadata"]["managedFields"][0], "fieldsV1": {"f:data": {"f:a": {".": {}}}}}
    after = changed(live, metadata={"name": "x", "managedFields": [entry]})
    assert note(CONFIG, live, after)["metadata"]["managedFields"] == live["metadata"]["managedFields"]


def test_nobody_applies_a_record() -> None:
    wanted = object_of(CONFIG, meta={"managedFields": [{"manager": "m"}]})
    with pytest.raises(PatchRefused, match=r"metadata\.managedFields must be nil"):
        apply(CONFIG, None, wanted)


@pytest.mark.parametrize(
    ("wanted", "path", "words"),
    [
        (object_of(JOB, spec={"parallelism": "3"}), "spec.parallelism", "expected a whole number"),
        (object_of(JOB, spec=[]), "spec", "expected a mapping"),
        ({"apiVersion": "batch/v1", "kind": "Job", "spec": {}}, "metadata", "required"),
        (
            object_of(JOB, spec={"template": {"spec": {"containers": [{"name": "a"}, {"name": "a"}]}}}),
            "spec.template.spec.containers[1]",
            "the same as spec.template.spec.containers[0]",
        ),
    ],
)
def test_what_cannot_be_applied_is_told_with_its_path(wanted: Tree, path: str, words: str) -> None:
    with pytest.raises(Invalid) as refused:
        apply(JOB, None, wanted)
    (problem,) = refused.value.problems
    assert problem.path == path
    assert words in problem.message


# --- from applying on the client's side ------------------------------------------------------------------------------


def test_what_kubectl_applied_by_itself_it_takes_over_without_conflict() -> None:
    before = data(a="1", b="1")
    annotations = {LAST_APPLIED: msgspec.json.encode(before).decode()}
    live = note(
        CONFIG, None, {**before, "metadata": {"name": "x", "annotations": annotations}}, "kubectl-client-side-apply"
    )
    tree = apply(CONFIG, live, data(a="2"), "kubectl", day=2)
    assert tree["data"] == {"a": "2", "b": "1"}, "what another record owns stays until that is given up"
    assert owned(tree)["kubectl Apply"] == [".data.a"]
    assert msgspec.json.decode(tree["metadata"]["annotations"][LAST_APPLIED])["data"] == {"a": "2"}
    with pytest.raises(ApplyConflict):
        apply(CONFIG, live, data(a="2"), "somebody-else")


def test_what_changed_since_kubectl_applied_it_is_a_conflict() -> None:
    annotations = {LAST_APPLIED: msgspec.json.encode(data(a="1")).decode()}
    live = note(CONFIG, None, {**data(a="9"), "metadata": {"name": "x", "annotations": annotations}}, "somebody")
    with pytest.raises(ApplyConflict, match=r'conflict with "somebody" using v1: \.data\.a'):
        apply(CONFIG, live, data(a="2"), "kubectl")


@pytest.mark.parametrize("text", ["", "{", "[]", '{"kind": "Job"}', '{"apiVersion": 1, "kind": []}'])
def test_a_broken_record_of_kubectl_allows_nothing(text: str) -> None:
    live = note(
        CONFIG, None, {**data(a="1"), "metadata": {"name": "x", "annotations": {LAST_APPLIED: text}}}, "somebody"
    )
    with pytest.raises(ApplyConflict):
        apply(CONFIG, live, data(a="2"), "kubectl")


# --- what must hold whatever is applied ------------------------------------------------------------------------------

TEXTS = st.sampled_from("12")
NAMES = st.sampled_from("abc")
AMOUNTS = st.dictionaries(st.sampled_from(["cpu", "memory"]), st.sampled_from(["1", "1000m", "2"]))


def some(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Mappings with some of these fields."""
    return st.fixed_dictionaries({}, optional=fields)


def named(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[list[dict[str, Any]]]:
    """Lists of such mappings with distinct names."""
    items = st.dictionaries(NAMES, some(**fields), max_size=3)
    return items.map(lambda found: [{"name": name, **each} for name, each in found.items()])


CONTAINERS = named(
    image=TEXTS, args=st.lists(TEXTS, max_size=2), resources=some(requests=AMOUNTS), env=named(value=TEXTS)
)
SPECS = some(
    containers=CONTAINERS, nodeSelector=st.dictionaries(NAMES, TEXTS, max_size=2), priority=st.integers(0, 2),
    tolerations=st.lists(some(key=NAMES), max_size=2),
)  # fmt: skip
METAS = some(labels=st.dictionaries(NAMES, TEXTS, max_size=3), finalizers=st.lists(NAMES, unique=True, max_size=3))
PODS = some(meta=METAS, spec=SPECS).map(lambda fields: object_of(POD, **fields))
BLOCKS = {"f:labels", "f:spec", "f:resources", "f:requests", "f:containers", "f:env", "f:finalizers"}
# the owner of an empty one lets others add to it
WRITERS = st.sampled_from(["anna", "ben", "zoe"])
STEPS = st.tuples(st.sampled_from(["apply", "force", "write"]), WRITERS, PODS)


def live_through(steps: list[tuple[str, str, Tree]]) -> Tree | None:
    """An object after some writes; writes with conflicts are left out."""
    live: Tree | None = None
    for day, (how, who, tree) in enumerate(steps, 1):
        try:
            live = note(POD, live, tree, who, day=day) if how == "write" else apply(
                POD, live, tree, who, force=how == "force", day=day
            )  # fmt: skip
        except ApplyConflict:
            continue
    return live


def entries(tree: Tree) -> dict[tuple[str, str], Tree]:
    return {
        (each["manager"], each["operation"]): each["fieldsV1"] for each in tree["metadata"].get("managedFields", ())
    }


def value_at(tree: Tree, path: list[str]) -> Tree:
    """The value at the steps of a field set; None if there is none."""
    for step in path:
        sort, name = step[:2], step[2:]
        if sort == "f:":
            tree = tree.get(name) if isinstance(tree, dict) else None
        elif sort == "v:":
            tree = next((each for each in tree or () if each == msgspec.json.decode(name)), None)
        else:
            keys = msgspec.json.decode(name)
            tree = next((each for each in tree or () if all(each.get(k) == v for k, v in keys.items())), None)
        if tree is None:
            return None
    return tree


def leaves(fields: Tree, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    if not fields:
        return [path]
    return [leaf for step, each in fields.items() if step != "." for leaf in leaves(each, (*path, step))]


@pytest.mark.property
@given(st.lists(STEPS, min_size=1, max_size=5), WRITERS, PODS)
def test_applying_twice_is_applying_once(steps: list[tuple[str, str, Tree]], who: str, wanted: Tree) -> None:
    live = live_through(steps)
    once = apply(POD, live, wanted, who, force=True, day=20)
    assert apply(POD, once, wanted, who, day=21) == once


@pytest.mark.property
@given(st.lists(STEPS, min_size=1, max_size=5), WRITERS, PODS)
def test_without_force_nobody_else_loses_anything(steps: list[tuple[str, str, Tree]], who: str, wanted: Tree) -> None:
    live = live_through(steps)
    try:
        after = apply(POD, live, wanted, who, day=20)
    except ApplyConflict:
        return
    if live is None:
        return
    for (manager, operation), fields in entries(live).items():
        if (manager, operation) == (who, "Apply"):
            continue
        assert entries(after)[manager, operation] == fields
        for leaf in leaves(fields):
            was, is_now = value_at(live, list(leaf)), value_at(after, list(leaf))
            assert is_now == was or (leaf[-1] in BLOCKS and is_now is not None), leaf


@pytest.mark.property
@given(st.lists(STEPS, min_size=1, max_size=5), WRITERS, PODS)
def test_after_applying_all_that_is_wanted_is_there_and_owned(
    steps: list[tuple[str, str, Tree]], who: str, wanted: Tree
) -> None:
    after = apply(POD, live_through(steps), wanted, who, force=True, day=20)
    fields = fields_of(wanted, owned_part(POD, "")) or {}
    assert entries(after).get((who, "Apply"), {}) == fields
    for leaf in leaves(fields) if fields else ():
        there, asked = value_at(after, list(leaf)), value_at(wanted, list(leaf))
        assert there == asked or (isinstance(asked, dict | list) and not asked)


@pytest.mark.property
@given(st.lists(STEPS, min_size=1, max_size=6))
def test_whatever_is_owned_is_there(steps: list[tuple[str, str, Tree]]) -> None:
    live = live_through(steps)
    if live is None:
        return
    there = fields_of(live, owned_part(POD, "")) or {}
    for owner, fields in entries(live).items():
        missing = [leaf for leaf in leaves(fields) if value_at(live, list(leaf)) is None]
        assert missing == [], (owner, there)


@pytest.mark.property
@given(st.lists(STEPS, min_size=1, max_size=5), WRITERS, PODS)
def test_a_plain_write_gets_what_it_says(steps: list[tuple[str, str, Tree]], who: str, after: Tree) -> None:
    live = live_through(steps)
    tree = note(POD, live, after, who, day=20)
    assert {**tree, "metadata": {k: v for k, v in tree["metadata"].items() if k != "managedFields"}} == after
    if live is not None and not entries(live):
        assert not entries(tree)


SETS: st.SearchStrategy[dict[str, Any]] = st.recursive(
    st.just({}), lambda inner: st.dictionaries(st.sampled_from(["f:a", "f:b", 'k:{"n":1}']), inner, max_size=3),
    max_leaves=6,
)  # fmt: skip


@pytest.mark.property
@given(SETS, SETS)
def test_sets_behave_as_sets(left: Tree, right: Tree) -> None:
    def members(fields: Tree) -> set[str]:
        return set(paths(fields))

    assert members(union(left, right)) == members(left) | members(right)
    assert members(difference(left, right)) == members(left) - members(right)
    assert members(intersection(left, right)) == members(left) & members(right)
    assert union(left, right) == union(right, left)
    assert union(difference(left, right), intersection(left, right)) == left
