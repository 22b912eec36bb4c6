"""Objects that mean the same although they are written differently, and objects that only look alike."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from msgspec import Raw

from makeway.api.codec import read, to_tree
from makeway.api.equality import is_same_pod_sets, is_same_spec, meanings
from makeway.api.objects.kubernetes import Pod
from makeway.api.objects.workload import PodSet, WorkloadSpec
from makeway.api.quantity import Quantity
from makeway.api.schema.kubernetes_types import FieldType, fields_of
from makeway.api.versions import kind_of
from makeway.testing.strategies import objects

Tree = dict[str, Any]
VOLUME = {"name": "v"}


def raw(tree: Tree) -> Raw:
    return Raw(msgspec.json.encode(tree))


def is_same(before: Tree, after: Tree, type_name: str = "PodSpec") -> bool:
    one, other = meanings(raw(before), raw(after), type_name)
    return one == other


def container(**fields: Any) -> Tree:
    return {"containers": [{"name": "c", **fields}]}


def asks(**amounts: Any) -> Tree:
    return container(resources={"requests": amounts})


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (asks(cpu=1), asks(cpu="1")),
        (asks(cpu="1000m", memory="1024Mi"), asks(memory="1Gi", cpu="1")),
        (asks(cpu=0.5), asks(cpu="500m")),
        (container(resources={"requests": {}, "limits": {}}), container(resources={})),
        (container(resources={}), container()),
        (container(command=[], args=[], env=[]), container()),
        (container(stdin=False, workingDir=""), container()),
        (container(env=[{"name": "A", "value": ""}]), container(env=[{"name": "A"}])),
        ({"nodeSelector": {}, "tolerations": [], "hostNetwork": False, "nodeName": ""}, {}),
        ({"nodeSelector": None, "affinity": None}, {}),
        (
            {"affinity": {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}}},
            {"affinity": {"podAffinity": {}}},
        ),
        ({"newer": {"b": 1, "a": [None]}}, {"newer": {"a": [None], "b": 1}}),
    ],
)
def test_what_a_go_client_changes_in_passing_is_no_change(before: Tree, after: Tree) -> None:
    assert is_same(before, after)
    assert is_same(after, before)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (asks(cpu="1"), asks(cpu="1001m")),
        (asks(cpu="0"), asks()),
        (container(), container(image="i")),
        (container(args=["a", "b"]), container(args=["b", "a"])),
        ({"priority": 0}, {}),
        ({"terminationGracePeriodSeconds": 0}, {}),
        ({"automountServiceAccountToken": False}, {}),
        ({"runtimeClassName": ""}, {}),
        ({"tolerations": [{"tolerationSeconds": 0}]}, {"tolerations": [{}]}),
        ({"tolerations": [{}]}, {}),
        ({"securityContext": {}}, {}),
        (container(securityContext={"runAsUser": 0}), container(securityContext={})),
        ({"volumes": [{**VOLUME, "emptyDir": {}}]}, {"volumes": [VOLUME]}),
        ({"nodeSelector": {"a": ""}}, {}),
        ({"newer": True}, {"newer": 1}),
        ({"newer": {}}, {}),
        ({"newer": None}, {}),
    ],
)
def test_what_says_something_else_is_a_change(before: Tree, after: Tree) -> None:
    assert not is_same(before, after)
    assert not is_same(after, before)


def test_the_metadata_of_a_template_counts_by_its_meaning_too() -> None:
    bare = {"spec": container()}
    silent: tuple[Tree, ...] = ({}, {"labels": {}}, {"annotations": {}, "creationTimestamp": None})
    for metadata in silent:
        assert is_same({"metadata": metadata, **bare}, bare, "PodTemplateSpec")
    assert not is_same({"metadata": {"labels": {"a": ""}}, **bare}, bare, "PodTemplateSpec")


def test_equal_bytes_are_not_even_read() -> None:
    assert meanings(Raw(b"no JSON"), Raw(b"no JSON"), "PodSpec") == ({}, {})


def test_amounts_that_no_server_judged_mean_what_they_say() -> None:
    assert is_same(asks(cpu="much"), asks(cpu="much", memory=None))
    assert not is_same(asks(cpu="much"), asks(cpu="more"))


def pod_set(template: Tree, **fields: Any) -> PodSet:
    return PodSet(template=raw(template), **fields)


def test_pod_sets_are_the_same_where_each_is_in_its_place() -> None:
    one, other = pod_set({"spec": asks(cpu=1)}, name="a"), pod_set({"spec": asks(cpu="1"), "metadata": {}}, name="a")
    last = pod_set({}, name="b", count=2)
    assert is_same_pod_sets((one, last), (other, last))
    assert not is_same_pod_sets((one, last), (last, other))
    assert not is_same_pod_sets((one, last), (other,))
    assert not is_same_pod_sets((one,), (msgspec.structs.replace(other, count=2),))


def test_a_spec_is_the_same_where_all_of_it_is() -> None:
    one = WorkloadSpec(pod_sets=(pod_set({"spec": asks(cpu=1)}),), queue_name="q")
    other = WorkloadSpec(pod_sets=(pod_set({"spec": asks(cpu="1")}),), queue_name="q")
    assert is_same_spec(one, other)
    assert not is_same_spec(one, msgspec.structs.replace(other, active=False))


@pytest.mark.property
@given(tree=objects(kind_of(Pod)))
def test_other_spellings_and_another_order_mean_the_same(tree: Tree) -> None:
    value = read(tree).value
    assert value is not None
    spec = to_tree(value).get("spec", {})
    assert is_same(spec, respelled(spec, fields_of("PodSpec")))


def respelled(tree: Tree, known: Any) -> Tree:
    """The keys backwards, quantities in their canonical spelling, and empty optional lists and maps added."""
    result = {name: _respelled(tree[name], known.get(name)) for name in reversed(tree)}
    empty: Tree = {
        name: {"list": [], "map": {}}[each.kind]
        for name, each in known.items()
        if each.kind in ("list", "map") and each.name != "any"
    }
    return {**empty, **result}


def _respelled(value: Any, field: FieldType | None) -> Any:
    if field is None:
        return value
    match field.kind:
        case "list":
            return [_respelled(each, field.item) for each in value]
        case "map":
            return {name: _respelled(value[name], field.item) for name in reversed(value)}
        case "object" if field.name != "ObjectMeta":
            return respelled(value, fields_of(field.name))
    return str(Quantity.parse(value)) if field.name == "quantity" else value
