"""Types as OpenAPI schemas. Each has its own name, and references use it.

``api.schema.crds`` prints our kinds as in the CRDs, but with references instead of nested types. Kubernetes types come
from their table, with the merge rules and keys of their lists.
"""

from __future__ import annotations

from collections.abc import Callable

from makeway.adapters.server.changes.merging import FieldNode, type_node
from makeway.api.objects.meta import Limit, ObjectMeta
from makeway.api.schema import crds as schema
from makeway.api.schema.crds import Printing, Schema
from makeway.api.schema.kubernetes_types import FieldType, fields_of
from makeway.api.schema.meanings import meaning
from makeway.api.schema.shapes import Leaf, Record, shape_of
from makeway.api.versions import Kind

GVK = "x-kubernetes-group-version-kind"
_META = "io.k8s.apimachinery.pkg.apis.meta.v1."
_SHARED = frozenset({"ObjectMeta", "OwnerReference"})  # of our structs: those that Kubernetes' own kinds have too
_TEXT: Schema = {"type": "string"}
_TIME: Schema = {"type": "string", "format": "date-time"}
_SCALARS: dict[str, tuple[str, str, Schema, Schema]] = {  # name, description, in version 3, in version 2
    "quantity": (
        "io.k8s.apimachinery.pkg.api.resource.Quantity", "An amount, such as 1500m, 2Gi or 4.",
        {"oneOf": [{"type": "string"}, {"type": "number"}]}, _TEXT,
    ),
    "intOrString": (
        "io.k8s.apimachinery.pkg.util.intstr.IntOrString", "A number, or a text.",
        {"oneOf": [{"type": "integer"}, {"type": "string"}]}, {"type": "string", "format": "int-or-string"},
    ),
    "duration": (f"{_META}Duration", "A length of time, such as 4h or 1m30s.", _TEXT, _TEXT),
    "time": (f"{_META}Time", "A time, such as 2026-01-31T09:00:00Z.", _TIME, _TIME),
    "microTime": (f"{_META}MicroTime", "A time with fractions of a second.", _TIME, _TIME),
}  # fmt: skip
_PLAIN: dict[str, Schema] = {
    "string": _TEXT,
    "boolean": {"type": "boolean"},
    "int32": {"type": "integer", "format": "int32"},
    "int64": {"type": "integer", "format": "int64"},
    "number": {"type": "number", "format": "double"},
    "bytes": {"type": "string", "format": "byte"},
    "any": {"x-kubernetes-preserve-unknown-fields": True},
}
_RETAIN_KEYS = {("PodSpec", "volumes")}  # a union: a new value replaces the old one


class Types:
    """The schemas of one document: those that were referred to, and those that they refer to.

    ``older``: in version 2, where references stand beside descriptions, and a choice between types is impossible.
    """

    def __init__(self, prefix: str, *, older: bool = False) -> None:
        self._prefix = prefix
        self._older = older
        self._schemas: dict[str, Schema] = {}

    def schemas(self) -> dict[str, Schema]:
        return dict(sorted(self._schemas.items()))

    def ref(self, name: str, make: Callable[[], Schema]) -> Schema:
        """Return a reference to the schema of that name, which is made if it is missing."""
        if name not in self._schemas:
            self._schemas[name] = {}  # a type may contain itself
            self._schemas[name] = make()
        link = {"$ref": f"{self._prefix}{name}"}
        return link if self._older else {"allOf": [link]}

    def kind(self, kind: Kind, version: str) -> Schema:
        return self.ref(f"{_package(kind.group, version)}{kind.name}", lambda: self._kind(kind, version))

    def list_of(self, kind: Kind, version: str) -> Schema:
        name = f"{kind.name}List"

        def make() -> Schema:
            items = {"type": "array", "items": self.kind(kind, version)}
            fields = {"apiVersion": dict(_TEXT), "kind": dict(_TEXT), "metadata": self.open(f"{_META}ListMeta")}
            return {
                "description": f"A list of {kind.plural}.", "type": "object", "required": ["items"],
                "properties": {**fields, "items": items}, GVK: [gvk(kind.group, version, name)],
            }  # fmt: skip

        return self.ref(f"{_package(kind.group, version)}{name}", make)

    def open(self, name: str) -> Schema:
        """Return a reference to a type without a description of its fields."""
        return self.ref(name, lambda: {"type": "object"})

    def _kind(self, kind: Kind, version: str) -> Schema:
        if kind.ours:
            made = schema.of_record(kind.shape(version), self._printing(_package(kind.group, version)))
        else:
            made = self._of_type(kind.type.__name__)
        words = schema.kind_meaning(kind)
        return {**({"description": words} if words else {}), **_without(made, "description"), GVK: [
            gvk(kind.group, version, kind.name)
        ]}  # fmt: skip

    # --- our own ---

    def _printing(self, package: str) -> Printing:
        def record(shape: Record) -> Schema:
            if shape.keeps_unknown:
                return self._type(shape.name)
            if shape.name == "ObjectMeta":
                return self._object_meta()
            return self.ref(f"{package}{shape.name}", lambda: schema.of_record(shape, self._printing(package)))

        return Printing(record, self._leaf)

    def _leaf(self, leaf: Leaf, limit: Limit) -> Schema:
        return self._scalar(leaf.name) if leaf.name in _SCALARS else schema.of_leaf(leaf, limit)

    def _object_meta(self) -> Schema:
        def make() -> Schema:
            made = schema.of_record(shape_of(ObjectMeta), self._printing(_META))
            fields = made["properties"]
            fields["finalizers"] |= {"x-kubernetes-list-type": "set", "x-kubernetes-patch-strategy": "merge"}
            fields["ownerReferences"] |= {
                "x-kubernetes-patch-merge-key": "uid", "x-kubernetes-patch-strategy": "merge",
            }  # fmt: skip
            return made

        return self.ref(f"{_META}ObjectMeta", make)

    # --- of Kubernetes ---

    def _type(self, name: str) -> Schema:
        if name == "ObjectMeta":
            return self._object_meta()
        return self.ref(_ELSEWHERE.get(name) or f"{_package('', 'v1')}{name}", lambda: self._of_type(name))

    def _of_type(self, name: str) -> Schema:
        fields, node = fields_of(name), type_node(name)
        words = meaning(name)
        made: Schema = {**({"description": words} if words else {}), "type": "object"}
        made["properties"] = {
            field: self._described(self._field(each, node.fields[field][1], name, field), meaning(name, field))
            for field, each in fields.items()
        }
        if required := [field for field, each in fields.items() if each.required]:
            made["required"] = required
        return {**made, "x-kubernetes-map-type": "atomic"} if node.merge == "atomic" else made

    def _described(self, made: Schema, words: str) -> Schema:
        return {"description": words, **made} if words else made

    def _field(self, each: FieldType, node: FieldNode, owner: str, name: str) -> Schema:
        if each.kind == "object":
            return self._type(each.name)
        if each.kind == "scalar" or each.item is None or node.item is None:
            return self._scalar(each.name)
        inner = self._field(each.item, node.item, owner, "")
        if each.kind == "map":
            made = {"type": "object", "additionalProperties": inner}
            return {**made, "x-kubernetes-map-type": "atomic"} if node.merge == "atomic" else made
        made = {"type": "array", "items": inner, "x-kubernetes-list-type": _LIST_TYPES[node.merge]}
        if node.merge == "keyed":
            made["x-kubernetes-list-map-keys"] = [key for key, _ in node.keys]
        if each.merge_key:
            made["x-kubernetes-patch-merge-key"] = each.merge_key
            made["x-kubernetes-patch-strategy"] = "merge,retainKeys" if (owner, name) in _RETAIN_KEYS else "merge"
        return made

    def _scalar(self, name: str) -> Schema:
        if name not in _SCALARS:
            return dict(_PLAIN[name])
        full_name, words, newer, older = _SCALARS[name]
        return self.ref(full_name, lambda: {"description": words, **(older if self._older else newer)})


_LIST_TYPES = {"keyed": "map", "set": "set", "atomic": "atomic", "each": "atomic"}


def gvk(group: str, version: str, kind: str) -> dict[str, str]:
    return {"group": group, "kind": kind, "version": version}


def _package(group: str, version: str) -> str:
    """Return the prefix of the names of a group's types, such as ``io.x-k8s.kueue.v1beta2.``."""
    if "." not in group:
        return f"io.k8s.api.{group or 'core'}.{version}."
    return f"{'.'.join(reversed(group.split('.')))}.{version}."


_ELSEWHERE = {  # types of the table that are not in the core group
    **{name: f"{_META}{name}" for name in ("LabelSelector", "LabelSelectorRequirement", "Condition")},
    "EventsV1EventSeries": f"{_package('events.k8s.io', 'v1')}EventSeries",
}


def _without(made: Schema, name: str) -> Schema:
    return {key: each for key, each in made.items() if key != name}
