"""Makes OpenAPI schemas of shapes, and of these the CustomResourceDefinitions that a real Kubernetes server needs.

The schemas are structural: before any webhook is called, a server prunes, defaults and validates objects by them.
``structure`` refuses everything that they refuse. Rules between fields stay in ``validation``.

Promise: the text is the same on every run, so a changed definition means a changed kind.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from makeway.api.objects import queueing, scheduling, workload
from makeway.api.objects.meta import Limit, Wire
from makeway.api.quantity import encode_hook
from makeway.api.schema.meanings import meaning
from makeway.api.schema.shapes import Field, Leaf, ListOf, MapOf, Record
from makeway.api.versions import CONFIG_GROUP, KINDS, Kind, older_path

Schema = dict[str, Any]

PROTECTED_GROUP = "scheduling.k8s.io"  # a real server refuses definitions in it (api 12)
CONVERSION_SERVICE = {"namespace": "makeway-system", "name": "makeway-webhooks", "path": "/convert"}
INT32_MAX = 2**31 - 1

_NUMBER = r"([0-9]+(\.[0-9]*)?|\.[0-9]+)"
_QUANTITY_END = rf"{_NUMBER}([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]+)?$"
QUANTITY = rf"^[+-]?{_QUANTITY_END}"
QUANTITY_FROM_ZERO = rf"^\+?{_QUANTITY_END}"

_ENVELOPE = ("apiVersion", "kind", "metadata")  # the server takes care of these: no defaults, no rules
_ANYTHING: Schema = {"x-kubernetes-preserve-unknown-fields": True}
_OPEN_OBJECT: Schema = {"type": "object", **_ANYTHING}
_LEAVES: dict[str, Schema] = {
    "string": {"type": "string"},
    "enum": {"type": "string"},
    "boolean": {"type": "boolean"},
    "int32": {"type": "integer", "format": "int32", "minimum": -(2**31), "maximum": INT32_MAX},
    "int64": {"type": "integer", "format": "int64"},
    "number": {"type": "number"},
    "any": _ANYTHING,
    "quantity": {
        "anyOf": [{"type": "integer"}, {"type": "string"}],
        "pattern": QUANTITY,
        "x-kubernetes-int-or-string": True,
    },
    "intOrString": {"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": True},
    "duration": {"type": "string"},
    "time": {"type": "string", "format": "date-time"},
    "microTime": {"type": "string", "format": "date-time"},
    "bytes": {"type": "string", "format": "byte"},
}
_MEANINGS: dict[type[Wire], str] = {
    queueing.ResourceFlavor: "A sort of nodes: their labels and taints. Quota is counted per flavor.",
    queueing.ClusterQueue: "A pool of quota, and how those who wait for it are ordered, admitted and preempted.",
    queueing.Cohort: "A group of ClusterQueues and Cohorts that lend each other quota.",
    queueing.LocalQueue: "The door of one namespace to a ClusterQueue.",
    workload.Workload: "What one job asks for, and all that was decided about it.",
    queueing.WorkloadPriorityClass: "A priority by name, for the queues only: pods do not get it.",
    queueing.AdmissionCheck: "A condition beside quota that a workload must meet, and the controller that decides it.",
    queueing.MultiKueueConfig: "The worker clusters that an AdmissionCheck hands workloads to.",
    queueing.MultiKueueCluster: "A worker cluster, and how to reach it.",
    scheduling.GangWorkload: "Groups of pods that are placed, and preempted, together.",
}


@dataclass(frozen=True, slots=True)
class Printing:
    """How records and leaves appear inside another schema: in full, or as a reference to a name."""

    record: Callable[[Record], Schema]
    leaf: Callable[[Leaf, Limit], Schema]


def crds() -> list[Schema]:
    """A definition for every kind of makeway, except in built-in groups and for the configuration file."""
    return [_definition(kind) for kind in KINDS if kind.ours and kind.group not in (PROTECTED_GROUP, CONFIG_GROUP)]


def openapi(kind: Kind, version: str) -> Schema:
    """The OpenAPI v3 schema of a kind in one of its versions. Parts that Kubernetes defines are open objects."""
    shape = kind.shape(version)
    schema = of_record(replace(shape, fields={k: v for k, v in shape.fields.items() if k not in _ENVELOPE}), _INLINE)
    envelope = {"apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": {"type": "object"}}
    schema["properties"] = envelope | schema.get("properties", {})
    return _described(schema, kind_meaning(kind))


def kind_meaning(kind: Kind) -> str:
    return _MEANINGS.get(kind.type) or meaning(kind.type.__name__)


def _definition(kind: Kind) -> Schema:
    singular = kind.name.lower()
    names: Schema = {"kind": kind.name, "listKind": f"{kind.name}List", "plural": kind.plural, "singular": singular}
    if kind.short_names:
        names["shortNames"] = list(kind.short_names)
    spec: Schema = {"group": kind.group, "names": names, "scope": "Namespaced" if kind.namespaced else "Cluster"}
    if len(kind.versions) > 1:
        client = {"service": dict(CONVERSION_SERVICE)}
        spec["conversion"] = {
            "strategy": "Webhook",
            "webhook": {"conversionReviewVersions": ["v1"], "clientConfig": client},
        }
    spec["versions"] = [_version(kind, version) for version in kind.versions]
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{kind.plural}.{kind.group}"},
        "spec": spec,
    }


def _version(kind: Kind, version: str) -> Schema:
    result: Schema = {"name": version, "served": True, "storage": version == kind.versions[0]}
    result["schema"] = {"openAPIV3Schema": openapi(kind, version)}
    if kind.has_status:
        result["subresources"] = {"status": {}}
    if kind.columns:
        result["additionalPrinterColumns"] = [
            {"name": column.name, "type": column.type, "jsonPath": _json_path(kind, version, column.json_path)}
            | ({"priority": 1} if column.wide else {})
            for column in kind.columns
        ]
    if kind.selectable and version == kind.versions[0]:  # an API server refuses equal lists beside unequal schemas
        result["selectableFields"] = [{"jsonPath": _json_path(kind, version, path)} for path in kind.selectable]
    return result


def _json_path(kind: Kind, version: str, path: str) -> str:
    return "." + older_path(kind, version, path.removeprefix("."))


# --- one node -------------------------------------------------------------------------------------------------------


def _inline(shape: Record) -> Schema:
    return dict(_OPEN_OBJECT) if shape.keeps_unknown else of_record(shape, _INLINE)


def of_record(shape: Record, printing: Printing) -> Schema:
    """The schema of an object with the fields of ``shape``, with descriptions."""
    words = meaning(shape.name)
    schema: Schema = {"description": words} if words else {}
    schema["type"] = "object"
    if shape.fields:
        schema["properties"] = {
            name: _described(_node(field, printing), meaning(shape.name, name)) for name, field in shape.fields.items()
        }
    required = [name for name, field in shape.fields.items() if is_needed(field)]
    if required:
        schema["required"] = required
    return schema


def _described(schema: Schema, words: str) -> Schema:
    """The schema with ``words`` as its description; with no words it keeps the description that it has."""
    return {"description": words} | {k: v for k, v in schema.items() if k != "description"} if words else schema


def _node(field: Field, printing: Printing) -> Schema:
    shape, limit = field.shape, field.limit
    if isinstance(shape, Leaf):
        schema = printing.leaf(shape, limit)
    elif isinstance(shape, ListOf):
        schema = _list(shape, limit, printing)
    elif isinstance(shape, MapOf):
        schema = _map(shape, limit, printing)
    else:
        schema = printing.record(shape)
    if _has_default(field):
        schema["default"] = _written(field.default)
    if limit.immutable:
        schema["x-kubernetes-validations"] = [{"rule": "self == oldSelf", "message": "cannot be changed"}]
    elif all(limit.transition):
        schema["x-kubernetes-validations"] = [{"rule": limit.transition[0], "message": limit.transition[1]}]
    return schema


def of_leaf(shape: Leaf, limit: Limit) -> Schema:
    schema = deepcopy(_LEAVES[shape.name])  # a copy: YAML would show shared parts as aliases
    if shape.allowed:
        schema["enum"] = list(shape.allowed)
    if limit.least is not None:
        schema["minimum"] = limit.least
        if shape.name == "quantity" and limit.least == 0:
            schema["pattern"] = QUANTITY_FROM_ZERO  # ``minimum`` does not apply to amounts that are texts
    if shape.name == "string":
        schema |= _text_limits(limit)
    return schema


_INLINE = Printing(_inline, of_leaf)


def _text_limits(limit: Limit) -> Schema:
    """Limits of a text, as ``structure`` checks it: empty means not set, except if required or with a least length."""
    limits: Schema = {}
    wants_text = bool(limit.min_length) or (limit.required and limit.pattern is not None)
    if limit.min_length:
        limits["minLength"] = limit.min_length
    if limit.max_length is not None:
        limits["maxLength"] = limit.max_length
    if limit.pattern is not None:
        limits["pattern"] = limit.pattern if wants_text else f"^$|{limit.pattern}"
    return limits


def _list(shape: ListOf, limit: Limit, printing: Printing) -> Schema:
    schema: Schema = {"type": "array", "items": _node(shape.item, printing)}
    schema |= _counts(limit, "minItems", "maxItems")
    if limit.keyed_by:
        schema |= {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(limit.keyed_by)}
    else:
        schema["x-kubernetes-list-type"] = "set" if limit.unique else "atomic"
    return schema


def _map(shape: MapOf, limit: Limit, printing: Printing) -> Schema:
    if shape.item.shape == Leaf("any"):
        return dict(_OPEN_OBJECT)
    schema: Schema = {"type": "object", "additionalProperties": _node(shape.item, printing)}
    return schema | _counts(limit, "minProperties", "maxProperties")


def _counts(limit: Limit, least: str, most: str) -> Schema:
    bounds = {least: limit.min_items, most: limit.max_items}
    return {name: bound for name, bound in bounds.items() if bound is not None}


def is_needed(field: Field) -> bool:
    """Whether an object without this field is refused."""
    return field.limit.required or bool(field.limit.min_items)


def _has_default(field: Field) -> bool:
    """Whether the schema gives a default. A required field has none: with a default it could never be missing.

    A block has a default only if it is complete without the user: one with a required field inside would be refused.
    """
    if field.default is None or is_needed(field):
        return False
    return not isinstance(field.shape, Record) or not any(map(is_needed, field.shape.fields.values()))


def _written(value: object) -> Any:
    """A default as it is written in an object."""
    return msgspec.json.decode(msgspec.json.encode(value, enc_hook=encode_hook))
