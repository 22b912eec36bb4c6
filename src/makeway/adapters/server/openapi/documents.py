"""OpenAPI documents of what is served: for ``kubectl explain``, the checks of ``--validate``, and kubectl's own
patches.

Version 3 is one document per group and version, listed in an index with a hash of each, so that clients read a document
again only when it has changed. Version 2 is one document of everything, as JSON and in protobuf. Both are printed from
the same types as the CRDs and from the table of Kubernetes types. Each type has its own name, and references use it.

Promise: equal bytes on every run; a document is made when it is first asked for, and kept.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import cache

import msgspec

import makeway
from makeway.adapters.server.openapi.paths import operations, operations_v2
from makeway.adapters.server.openapi.protobuf import document
from makeway.adapters.server.openapi.types import Types
from makeway.adapters.server.resources.discovery import JSON, ServedResource, versions_by_group
from makeway.api.reading.documents import Tree

V2_PROTOBUF = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
_ASKS_PROTOBUF = "proto-openapi.spec.v2"  # clients write the rest in several ways
_V3 = "/openapi/v3"
_INFO = {"title": "makeway", "version": makeway.__version__}


def openapi(path: str, accept: str) -> tuple[str, bytes] | None:
    """Return the content type and body of an OpenAPI document; None if ``path`` is no OpenAPI path."""
    path = path.rstrip("/")
    if path == "/openapi/v2":
        return (V2_PROTOBUF, _v2_protobuf()) if _ASKS_PROTOBUF in accept else (JSON, _v2())
    if path == _V3:
        return JSON, _index()
    name = path.removeprefix(f"{_V3}/")
    return (JSON, _v3(name)) if name in _served() else None


@cache
def _served() -> Mapping[str, tuple[ServedResource, ...]]:
    """Return resources by the name of their document, such as ``apis/batch/v1``."""
    return {
        f"apis/{group}/{version}" if group else f"api/{version}": resources
        for group, versions in versions_by_group().items()
        for version, resources in versions.items()
    }


@cache
def _index() -> bytes:
    links = {name: {"serverRelativeURL": f"{_V3}/{name}?hash={_hash(_v3(name))}"} for name in _served()}
    return msgspec.json.encode({"paths": links})


def _hash(document: bytes) -> str:
    return hashlib.sha256(document).hexdigest().upper()[:32]


@cache
def _v3(name: str) -> bytes:
    types = Types("#/components/schemas/")
    paths: dict[str, Tree] = {}
    for resource in _served()[name]:
        paths |= operations(resource, types)
    schemas = {"schemas": types.schemas()}
    return msgspec.json.encode({"openapi": "3.0.0", "info": _INFO, "paths": paths, "components": schemas})


@cache
def _v2() -> bytes:
    return msgspec.json.encode(_v2_tree())


@cache
def _v2_protobuf() -> bytes:
    return document(_v2_tree())


def _v2_tree() -> dict[str, Tree]:
    types = Types("#/definitions/", older=True)
    paths: dict[str, Tree] = {}
    for resources in _served().values():
        for resource in resources:
            paths |= operations_v2(resource, types)
    return {"swagger": "2.0", "info": _INFO, "paths": paths, "definitions": types.schemas()}
