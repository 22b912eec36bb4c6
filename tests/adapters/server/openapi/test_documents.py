"""The OpenAPI documents: complete, equal to the kinds, and the same on every run."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import Any

import pytest

from makeway.adapters.server.openapi.documents import V2_PROTOBUF, openapi
from makeway.adapters.server.resources.discovery import RESOURCES
from makeway.api.schema.kubernetes_types import type_names
from makeway.api.schema.meanings import _table, meaning
from makeway.api.schema.shapes import ListOf, MapOf, Record
from makeway.api.versions import KINDS

GVK = "x-kubernetes-group-version-kind"


def asked(path: str, accept: str = "application/json") -> dict[str, Any]:
    found = openapi(path, accept)
    assert found is not None, path
    answer: dict[str, Any] = json.loads(found[1])
    return answer


DOCUMENTS = list(asked("/openapi/v3")["paths"])


def nodes(tree: Any) -> Iterator[dict[str, Any]]:
    if isinstance(tree, dict):
        yield tree
        tree = list(tree.values())
    if isinstance(tree, list):
        for each in tree:
            yield from nodes(each)


def test_the_index_has_a_hash_of_every_document() -> None:
    for name, link in asked("/openapi/v3")["paths"].items():
        found = openapi(f"/openapi/v3/{name}", "")
        assert found is not None
        digest = hashlib.sha256(found[1]).hexdigest().upper()[:32]
        assert link["serverRelativeURL"] == f"/openapi/v3/{name}?hash={digest}"


@pytest.mark.parametrize("path", ["/openapi", "/openapi/v4", "/openapi/v3/apis/batch/v9", "/openapi/v3/", "/x"])
def test_what_is_no_document_is_left_to_others(path: str) -> None:
    assert (openapi(path, "") is None) == (path != "/openapi/v3/")


@pytest.mark.parametrize("name", DOCUMENTS)
def test_every_reference_leads_somewhere(name: str) -> None:
    document = asked(f"/openapi/v3/{name}")
    known = {f"#/components/schemas/{each}" for each in document["components"]["schemas"]}
    assert {each["$ref"] for each in nodes(document) if "$ref" in each} <= known


def test_every_reference_of_the_older_document_leads_somewhere() -> None:
    document = asked("/openapi/v2")
    known = {f"#/definitions/{each}" for each in document["definitions"]}
    assert {each["$ref"] for each in nodes(document) if "$ref" in each} <= known


@pytest.mark.parametrize("resource", [each for each in RESOURCES if each.kind], ids=lambda r: f"{r.version}/{r.plural}")
def test_every_kind_can_be_found_and_checked(resource: Any) -> None:
    """kubectl finds the kind by its path, its schema by the kind, and its patch types by the parameters."""
    root = f"apis/{resource.group}/{resource.version}" if resource.group else f"api/{resource.version}"
    document = asked(f"/openapi/v3/{root}")
    gvk = {"group": resource.group, "version": resource.version, "kind": resource.kind.name}
    (schema,) = (each for each in document["components"]["schemas"].values() if gvk in each.get(GVK, ()))
    assert "metadata" in schema["properties"]
    patches = [
        item["patch"] for path, item in document["paths"].items() if path.endswith("{name}") and item.get("patch")
    ]
    mine = [each for each in patches if each[GVK] == gvk]
    assert bool(mine) == ("patch" in resource.verbs)
    for patch in mine:
        assert {"fieldValidation", "dryRun", "fieldManager", "force"} <= {each["name"] for each in patch["parameters"]}
        takes = "application/strategic-merge-patch+json" in patch["requestBody"]["content"]
        assert takes == (not resource.kind.ours)


def test_lists_say_how_they_are_merged() -> None:
    schemas = asked("/openapi/v3/apis/batch/v1")["components"]["schemas"]
    pod, container = schemas["io.k8s.api.core.v1.PodSpec"], schemas["io.k8s.api.core.v1.Container"]
    volumes = pod["properties"]["volumes"]
    assert volumes["x-kubernetes-list-map-keys"] == ["name"]
    assert volumes["x-kubernetes-patch-strategy"] == "merge,retainKeys"
    assert pod["properties"]["tolerations"]["x-kubernetes-list-type"] == "atomic"
    assert pod["properties"]["nodeSelector"]["x-kubernetes-map-type"] == "atomic"
    ports = container["properties"]["ports"]
    assert ports["x-kubernetes-list-map-keys"] == ["containerPort", "protocol"]
    assert ports["x-kubernetes-patch-merge-key"] == "containerPort"
    meta = schemas["io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"]["properties"]
    assert meta["finalizers"]["x-kubernetes-list-type"] == "set"
    assert meta["ownerReferences"]["x-kubernetes-patch-merge-key"] == "uid"


# --- words -----------------------------------------------------------------------------------------------------------


def our_fields() -> Iterator[tuple[str, str]]:
    seen = set()
    waiting = [
        kind.shape(version) for kind in KINDS if kind.ours and kind.name != "Configuration" for version in kind.versions
    ]
    while waiting:
        shape = waiting.pop()
        for name, field in shape.fields.items():
            inner = field.shape
            while isinstance(inner, ListOf | MapOf):
                inner = inner.item.shape
            if isinstance(inner, Record) and not inner.keeps_unknown and id(inner) not in seen:
                seen.add(id(inner))
                waiting.append(inner)
            yield shape.name, name


def test_every_field_of_our_kinds_says_what_it_means() -> None:
    assert [each for each in our_fields() if not meaning(*each)] == []


def test_nothing_is_said_about_fields_that_are_not_there() -> None:
    fields = set(our_fields())
    ours = {type_name for type_name, _ in fields}
    theirs = set(type_names())
    for type_name, field in _table():
        if type_name in ours and field:
            assert (type_name, field) in fields
        assert type_name in ours | theirs | {"*"}


# --- protobuf --------------------------------------------------------------------------------------------------------


def fields_in(data: bytes) -> Iterator[tuple[int, Any]]:
    """A simple reader of protobuf: numbers and values; messages stay bytes."""
    at = 0

    def varint() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(data):
        key = varint()
        if key & 7 == 0:
            yield key >> 3, varint()
        elif key & 7 == 1:
            yield key >> 3, data[at : at + 8]
            at += 8
        else:
            size = varint()
            yield key >> 3, data[at : at + size]
            at += size


def entry(data: bytes) -> tuple[str, bytes]:
    found = dict(fields_in(data))
    return found[1].decode(), found[2]


@pytest.mark.parametrize("spelling", ["v2@v1.0+protobuf", "v2.v1.0+protobuf"])
def test_the_older_document_in_protobuf_has_the_same_kinds(spelling: str) -> None:
    found = openapi("/openapi/v2", f"application/com.github.proto-openapi.spec.{spelling}")
    assert found is not None
    assert found[0] == V2_PROTOBUF
    document = asked("/openapi/v2")
    parts = dict(fields_in(found[1]))
    assert parts[1] == b"2.0"
    paths = dict(entry(each) for number, each in fields_in(parts[8]) if number == 2)
    assert list(paths) == list(document["paths"])
    schemas = dict(entry(each) for _, each in fields_in(parts[9]))
    assert list(schemas) == list(document["definitions"])
    queue = list(fields_in(schemas["io.x-k8s.kueue.v1beta2.ClusterQueue"]))
    words = dict(entry(each) for number, each in queue if number == 31)
    assert json.loads(dict(fields_in(words[GVK]))[2]) == [
        {"group": "kueue.x-k8s.io", "kind": "ClusterQueue", "version": "v1beta2"}
    ]
