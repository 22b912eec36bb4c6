"""OpenAPI operations of paths: the verbs of a resource, with their parameters and forms.

kubectl reads here what the server supports: whether a patch takes ``fieldValidation``, and which patch types it takes.
"""

from __future__ import annotations

from collections.abc import Iterator

from makeway.adapters.server.openapi.types import GVK, Types, gvk
from makeway.adapters.server.resources.discovery import ServedResource
from makeway.api.reading.documents import Tree
from makeway.api.schema.crds import Schema
from makeway.api.versions import Kind

JSON = "application/json"
APPLY = "application/apply-patch+yaml"
PATCHES = ("application/json-patch+json", "application/merge-patch+json")
STRATEGIC = "application/strategic-merge-patch+json"
_STATUS = "io.k8s.apimachinery.pkg.apis.meta.v1.Status"
_OPTIONS = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions"
_WRITE = ("dryRun", "fieldManager", "fieldValidation")
_SELECT = ("labelSelector", "fieldSelector", "limit", "continue", "resourceVersion", "resourceVersionMatch")
_LIST = (*_SELECT, "watch", "allowWatchBookmarks", "sendInitialEvents", "timeoutSeconds")
_DELETE = ("dryRun", "gracePeriodSeconds", "orphanDependents", "propagationPolicy")
_TYPES = {
    "limit": "integer", "timeoutSeconds": "integer", "gracePeriodSeconds": "integer", "watch": "boolean",
    "allowWatchBookmarks": "boolean", "sendInitialEvents": "boolean", "orphanDependents": "boolean", "force": "boolean",
}  # fmt: skip
_QUERIES: dict[str, tuple[str, ...]] = {
    "list": _LIST, "create": _WRITE, "deletecollection": (*_SELECT, *_DELETE), "get": (), "update": _WRITE,
    "patch": (*_WRITE, "force"), "delete": _DELETE,
}  # fmt: skip
_METHODS = {
    "list": "get", "create": "post", "deletecollection": "delete", "get": "get", "update": "put", "patch": "patch",
    "delete": "delete",
}  # fmt: skip
_ACTIONS = {"create": "post", "update": "put"}  # as x-kubernetes-action says; the other verbs as they are
_COLLECTION = ("list", "create", "deletecollection")


def patch_types(kind: Kind) -> tuple[str, ...]:
    """Return the patch types of a kind."""
    return (APPLY, *PATCHES) if kind.ours else (APPLY, *PATCHES, STRATEGIC)


def operations(resource: ServedResource, types: Types) -> dict[str, Tree]:
    """Return the paths of a resource, in version 3."""
    paths: dict[str, Tree] = {}
    for path, verb, answers in _served(resource):
        here = paths.setdefault(path, {"parameters": [_parameter(name, "path") for name in _placeholders(path)]})
        here[_METHODS[verb]] = _operation(resource, verb, answers, types)
    return paths


def operations_v2(resource: ServedResource, types: Types) -> dict[str, Tree]:
    """Return the paths of a resource, in version 2."""
    paths: dict[str, Tree] = {}
    for path, verb, answers in _served(resource):
        names = [_parameter_v2(name, "path") for name in _placeholders(path)]
        here = paths.setdefault(path, {"parameters": names})
        here[_METHODS[verb]] = _operation_v2(resource, verb, answers, types)
    return paths


def _served(resource: ServedResource) -> Iterator[tuple[str, str, tuple[str, str, str]]]:
    """Yield every path and verb, with group, version and kind of the answer."""
    root = f"/apis/{resource.group}/{resource.version}" if resource.group else f"/api/{resource.version}"
    place = f"{root}/namespaces/{{namespace}}/{resource.plural}" if resource.namespaced else f"{root}/{resource.plural}"
    if resource.kind is not None:
        answers = resource.group, resource.version, resource.kind.name
        for verb in (each for each in resource.verbs if each in _METHODS):
            yield place if verb in _COLLECTION else f"{place}/{{name}}", verb, answers
        if resource.namespaced and "list" in resource.verbs:
            yield f"{root}/{resource.plural}", "list", answers
    for subresource in resource.subresources:
        for verb in subresource.verbs:
            yield f"{place}/{{name}}/{subresource.name}", verb, subresource.answers


def _placeholders(path: str) -> list[str]:
    return [part[1:-1] for part in path.split("/") if part.startswith("{")]


def _marks(verb: str, answers: tuple[str, str, str]) -> dict[str, Tree]:
    return {"x-kubernetes-action": _ACTIONS.get(verb, verb), GVK: gvk(*answers)}


def _schema(resource: ServedResource, verb: str, answers: tuple[str, str, str], types: Types) -> Schema:
    """Return the schema of a verb's answer."""
    kind = resource.kind
    if kind is None or answers != (resource.group, resource.version, kind.name):
        return types.open(".".join((*reversed(answers[0].split(".")), answers[1], answers[2])))
    if verb in ("delete", "deletecollection"):
        return types.open(_STATUS)
    return types.list_of(kind, resource.version) if verb == "list" else types.kind(kind, resource.version)


def _parameter(name: str, place: str) -> dict[str, Tree]:
    required = {"required": True} if place == "path" else {}
    return {"name": name, "in": place, **required, "schema": {"type": _TYPES.get(name, "string"), "uniqueItems": True}}


def _operation(resource: ServedResource, verb: str, answers: tuple[str, str, str], types: Types) -> dict[str, Tree]:
    schema = _schema(resource, verb, answers, types)
    content = {JSON: {"schema": schema}}
    operation: dict[str, Tree] = {
        "parameters": [_parameter(name, "query") for name in _QUERIES[verb]],
        "responses": {"200": {"description": "OK", "content": content}},
        **_marks(verb, answers),
    }
    if verb in ("create", "update"):
        operation["requestBody"] = {"content": {"*/*": {"schema": schema}}, "required": True}
    elif verb == "patch" and resource.kind is not None:
        forms = {form: {"schema": {"type": "object"}} for form in patch_types(resource.kind)}
        operation["requestBody"] = {"content": forms, "required": True}
    elif verb in ("delete", "deletecollection"):
        operation["requestBody"] = {"content": {"*/*": {"schema": types.open(_OPTIONS)}}}
    return operation


def _parameter_v2(name: str, place: str) -> dict[str, Tree]:
    required = {"required": True} if place == "path" else {}
    return {"name": name, "in": place, **required, "type": _TYPES.get(name, "string"), "uniqueItems": True}


def _operation_v2(resource: ServedResource, verb: str, answers: tuple[str, str, str], types: Types) -> dict[str, Tree]:
    schema = _schema(resource, verb, answers, types)
    operation: dict[str, Tree] = {
        "consumes": ["*/*"], "produces": [JSON],
        "parameters": [_parameter_v2(name, "query") for name in _QUERIES[verb]],
        "responses": {"200": {"description": "OK", "schema": schema}},
        **_marks(verb, answers),
    }  # fmt: skip
    body: dict[str, Tree] = {"name": "body", "in": "body"}
    if verb in ("create", "update"):
        operation["parameters"].append({**body, "required": True, "schema": schema})
    elif verb == "patch" and resource.kind is not None:
        operation["consumes"] = list(patch_types(resource.kind))
        operation["parameters"].append({**body, "required": True, "schema": {"type": "object"}})
    elif verb in ("delete", "deletecollection"):
        operation["parameters"].append({**body, "schema": types.open(_OPTIONS)})
    return operation
