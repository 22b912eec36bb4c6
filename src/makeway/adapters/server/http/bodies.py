"""Parsing of requests: bodies to trees, and queries to options.

JSON and YAML are read by the same rules as files (``api.reading.documents``): nesting and aliases are bounded,
duplicate keys are noticed. Everything else about a body is checked by the validation of objects.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import parse_qsl

import msgspec

from makeway.adapters.server.http import protobuf
from makeway.adapters.server.http.answers import JSON, YAML
from makeway.adapters.server.http.routes import Route
from makeway.adapters.server.http.statuses import RequestRefused, bad_request, unsupported_media
from makeway.api.objects.kubernetes import DeleteOptions, Secret
from makeway.api.objects.meta import Wire
from makeway.api.problems import Problem
from makeway.api.quantity import MAX_AMOUNT
from makeway.api.reading import documents, json_lines
from makeway.api.reading.documents import DEPTH_MAX, Tree
from makeway.api.reading.json_lines import JsonReader
from makeway.api.reading.structure import Mode, short, told
from makeway.api.schema.shapes import kubernetes_kind, shape_of
from makeway.api.versions import KINDS

BODY_TYPES = (JSON, YAML)
JSON_PATCH, MERGE_PATCH = "application/json-patch+json", "application/merge-patch+json"
STRATEGIC_PATCH, APPLY_PATCH = "application/strategic-merge-patch+json", "application/apply-patch+yaml"
PATCH_TYPES = (JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, APPLY_PATCH)
IN_PROTOBUF = frozenset({*(kind.type for kind in KINDS if not kind.ours), DeleteOptions})
QUERY_FIELDS_MAX = 64
MANAGER_CHARS_MAX = 128
_MODES: Mapping[str, Mode] = {"": "Warn", "Strict": "Strict", "Warn": "Warn", "Ignore": "Ignore"}
_INTEGER = re.compile(r"-?[0-9]{1,18}")


@dataclass(frozen=True, slots=True)
class Read:
    """A body as a tree, and the oddities of its text."""

    tree: Tree
    problems: Sequence[Problem] = ()


def media_type(content_type: str) -> str:
    return content_type.partition(";")[0].strip().lower()


def read(data: bytes, content_type: str, accepted: Sequence[str] = BODY_TYPES, type_: type[Wire] | None = None) -> Read:
    """Return a body as a tree. Raises ``RequestRefused``: 415 for an unsupported type, 400 for an unreadable text."""
    media = media_type(content_type) or accepted[0]
    if media not in accepted:
        raise unsupported_media(accepted)
    if not media.endswith("yaml"):
        return read_json(data)
    try:
        return read_yaml(data)
    except RequestRefused:
        if type_ is Secret:  # messages about a text quote a part of it
            raise bad_request("the object provided cannot be read as YAML") from None
        raise


def read_object(data: bytes, content_type: str, type_: type[Wire]) -> Read:
    """Return a whole object; kinds that Kubernetes defines may come in protobuf."""
    if media_type(content_type) != protobuf.MEDIA or type_ not in IN_PROTOBUF:
        return read(data, content_type, type_=type_)
    try:
        return Read(protobuf.decoded(data, shape_of(type_) if type_ is DeleteOptions else kubernetes_kind(type_)))
    except protobuf.Misread as error:
        raise bad_request(f"the object provided cannot be read as protobuf: {error}") from None


def read_json(data: bytes) -> Read:
    try:
        text = data.decode()
        value = JsonReader(text).read(json_lines.after_space(text, 0))
    except UnicodeDecodeError:
        raise bad_request("the body of the request is not UTF-8") from None
    except RecursionError:
        raise bad_request(f"the body of the request is nested deeper than {DEPTH_MAX} levels") from None
    except ValueError as error:
        raise bad_request(f"the object provided cannot be read as JSON: {error}") from None
    if json_lines.after_space(text, value.end) != len(text):
        raise bad_request("the object provided cannot be read as JSON: text follows its end")
    if text.count("{") + text.count("[") > DEPTH_MAX and json_lines.deeper_than(value.tree, DEPTH_MAX):
        raise bad_request(f"the body of the request is nested deeper than {DEPTH_MAX} levels")
    return read_yaml(data) if value.twice or value.too_large else Read(value.tree)


def read_yaml(data: bytes) -> Read:
    """Read a document in either language, with full checks: messages about a bad text, and duplicate keys."""
    found = documents.parse(data)
    if not found:
        raise bad_request("the body of the request is empty")
    if len(found) > 1:
        raise bad_request(f"the body of the request has {len(found)} documents, one is expected")
    wrong = [
        problem for problem in found[0].problems if problem.cause != "DuplicateField" and problem.severity == "error"
    ]
    if wrong:
        raise bad_request(f"the object provided cannot be read: {'; '.join(map(_line, wrong))}")
    return Read(found[0].tree, found[0].problems)


def _line(problem: Problem) -> str:
    return str(problem).replace("\n", ";")


def mapping(read: Read) -> dict[str, Tree]:
    if not isinstance(read.tree, dict):
        raise bad_request(f"the object provided is unrecognized: expected a mapping, got {told(read.tree)}")
    return read.tree


def aimed(route: Route, tree: dict[str, Tree]) -> dict[str, Tree]:
    """Complete a body from its path, and refuse a body that contradicts the path."""
    version = route.api_version
    given = tree.get("apiVersion") or version
    if given != version:
        raise bad_request(
            f"the API version in the data ({_quoted(given)}) does not match the expected API version ({version})"
        )
    if (tree.get("kind") or route.kind.name) != route.kind.name:
        raise bad_request(f"{_quoted(tree.get('kind'))} is not the kind of this path, which is {route.kind.name}")
    metadata = tree.get("metadata")
    if not isinstance(metadata, dict | None):
        raise bad_request(f"metadata: expected a mapping, got {told(metadata)}")
    metadata = dict(metadata or {})
    if route.kind.namespaced and route.namespace is not None:
        if (metadata.get("namespace") or route.namespace) != route.namespace:
            raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
        metadata["namespace"] = route.namespace
    if route.name:
        if (metadata.get("name") or route.name) != route.name:
            raise bad_request(
                f"the name of the object ({_quoted(metadata.get('name'))}) does not match the name on the URL "
                f"({route.name})"
            )
        metadata["name"] = route.name
    return {**tree, "apiVersion": version, "kind": route.kind.name, "metadata": metadata}


def _quoted(value: Tree) -> str:
    return short(value) if isinstance(value, str) else told(value)


# --- queries ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Query:
    """The parameters of a request; the first of duplicates counts."""

    fields: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def parse(cls, raw: bytes) -> Query:
        if not raw:
            return cls()
        try:
            pairs = parse_qsl(
                raw.decode("ascii"), keep_blank_values=True, max_num_fields=QUERY_FIELDS_MAX, errors="strict"
            )
        except ValueError as error:
            raise bad_request("the query cannot be read: it has too many fields, or is not UTF-8") from error
        return cls(dict(reversed(pairs)))

    def text(self, name: str) -> str:
        return self.fields.get(name, "")

    def integer(self, name: str, least: int = 0) -> int | None:
        value = self.text(name)
        if not value:
            return None
        if not _INTEGER.fullmatch(value):
            raise bad_request(f"{name}: {short(value)!r} is not a whole number")
        if int(value) < least:
            raise bad_request(f"{name}: {value} is below {least}")
        return int(value)

    def flag(self, name: str) -> bool | None:
        value = self.text(name)
        if name not in self.fields:
            return None
        if value.lower() in ("", "1", "t", "true"):
            return True
        if value.lower() in ("0", "f", "false"):
            return False
        raise bad_request(f"{name}: {short(value)!r} is neither true nor false")


@dataclass(frozen=True, slots=True)
class WriteOptions:
    mode: Mode = "Warn"
    is_dry: bool = False
    manager: str = ""
    names_itself: bool = False  # the client sent its name, to be recorded
    force: bool = False

    @classmethod
    def of(cls, query: Query, user_agent: str) -> WriteOptions:
        mode = _MODES.get(query.text("fieldValidation"))
        if mode is None:
            raise bad_request("fieldValidation: allowed are Strict, Warn and Ignore")
        manager = query.text("fieldManager")
        if len(manager) > MANAGER_CHARS_MAX or not manager.isprintable():
            raise bad_request(f"fieldManager: at most {MANAGER_CHARS_MAX} printable characters are allowed")
        named = manager or agent_name(user_agent)
        return cls(mode, dry_run(query), named, bool(manager), query.flag("force") or False)


def dry_run(query: Query) -> bool:
    if query.text("dryRun") not in ("", "All"):
        raise bad_request('dryRun: the only allowed value is "All"')
    return query.text("dryRun") == "All"


def agent_name(user_agent: str) -> str:
    """Return the name of a client that sends none: the name before the version in its User-Agent."""
    name = "".join(each for each in user_agent.partition("/")[0].strip() if each.isprintable())
    return name[:MANAGER_CHARS_MAX] or "unknown"


def delete_options(data: bytes, content_type: str, query: Query) -> DeleteOptions:
    """Return the options of a delete from the body, or if there is none from the query."""
    if data.strip():
        tree = mapping(read_object(data, content_type, DeleteOptions))
        tree = {name: each for name, each in tree.items() if each is not None}
    else:
        names = {"propagationPolicy": query.text("propagationPolicy"), "dryRun": ["All"] if dry_run(query) else []}
        tree = {name: each for name, each in names.items() if each}
        for name, value in (
            ("gracePeriodSeconds", query.integer("gracePeriodSeconds", least=-1)),
            ("orphanDependents", query.flag("orphanDependents")),
        ):
            if value is not None:
                tree[name] = value
    try:
        options = msgspec.convert(tree, DeleteOptions)
    except msgspec.ValidationError as error:
        raise bad_request(f"DeleteOptions: {error}") from error
    if options.kind not in ("", "DeleteOptions"):
        raise bad_request("DeleteOptions: the body is another kind")
    if any(each != "All" for each in options.dry_run):
        raise bad_request('dryRun: the only allowed value is "All"')
    if options.propagation_policy and options.orphan_dependents is not None:
        raise bad_request("orphanDependents and propagationPolicy cannot be set together")
    if (options.grace_period_seconds or 0) < -1:
        raise bad_request("gracePeriodSeconds: must not be negative")
    if (options.grace_period_seconds or 0) > MAX_AMOUNT:
        raise bad_request("gracePeriodSeconds: is outside the range of int64")
    return options
