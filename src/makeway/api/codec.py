"""Objects to bytes and back: a quick way for bytes that were checked before, a careful way for what users write.

``decode`` and ``encode`` are for bytes that we wrote ourselves. ``read`` takes a tree from outside: it finds the
kind, compares the tree with the kind's shape, converts an older version, fills in defaults, and returns the object
and every problem.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any, TypeVar

import msgspec

from makeway.api.objects.meta import Wire
from makeway.api.problems import Problem, has_errors
from makeway.api.quantity import decode_hook, encode_hook
from makeway.api.reading.documents import Tree
from makeway.api.reading.spellings import right_spelling
from makeway.api.reading.structure import Mode, Reader, did_you_mean, told
from makeway.api.schema.kubernetes_rules import RULES
from makeway.api.versions import KINDS, Kind, find_kind, older_path, to_stored

T = TypeVar("T", bound=Wire)
_ENCODER = msgspec.json.Encoder(enc_hook=encode_hook)
UNSERVED_KINDS = {
    "Topology": "topology-aware scheduling is not part of makeway; remove this document. "
    "A ResourceFlavor that names it leaves its ClusterQueue inactive (TopologyNotFound)",
    "ProvisioningRequestConfig": "provisioning requests are not part of makeway; remove this document. "
    "An AdmissionCheck that names it leaves its ClusterQueue inactive (AdmissionCheckInactive)",
}


@cache
def _decoder(kind: type[Any]) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(kind, dec_hook=decode_hook)


def decode(data: bytes, kind: type[T]) -> T:
    """An object from bytes that ``encode`` made. Unknown fields are ignored; bad bytes raise msgspec's errors."""
    result: T = _decoder(kind).decode(data)
    return result


def encode(value: Wire) -> bytes:
    """JSON with all defaults that readers rely on; equal objects give equal bytes."""
    return _ENCODER.encode(value)


def to_tree(value: Wire) -> dict[str, Tree]:
    tree: dict[str, Tree] = msgspec.json.decode(encode(value))
    return tree


@dataclass(frozen=True, slots=True)
class Reading:
    """The result of reading a tree. Parts that were wrong are missing in ``value``; None: nothing could be read.

    ``kind`` and ``version`` are those the tree was written in; ``value`` is in the form that is stored.
    """

    kind: Kind | None
    version: str
    value: Wire | None
    problems: list[Problem]

    @property
    def ok(self) -> bool:
        return self.value is not None and not has_errors(self.problems)


def read(tree: Tree, mode: Mode = "Strict", *, limits: bool = True) -> Reading:
    """Read an object from a tree of a user or client. ``limits=False`` checks types only, as for recorded objects."""
    kind, problems = _kind(tree)
    if kind is None:
        return Reading(None, "", None, problems)
    version = tree["apiVersion"].rpartition("/")[2]
    is_stored = kind.is_stored_as(version)
    hint_for = partial(right_spelling, kind.name, version)
    reader = Reader(mode, limits=limits and is_stored, hint_for=hint_for, rules=RULES)
    checked = reader.read(tree, kind.shape(version))
    problems = reader.problems
    converted = to_stored(kind, version, checked)
    problems.extend(converted.problems)
    if limits and not is_stored:
        stored_reader = Reader("Ignore", rules=RULES)
        stored_reader.read(converted.tree, kind.stored.shape(kind.stored.versions[0]))
        wrong = {problem.path for problem in problems if problem.severity == "error"}  # left out, and so not missing
        seen = {problem.path for problem in problems}
        problems.extend(
            problem
            for problem in respelled(stored_reader.problems, kind, version)
            if problem.path not in (wrong if problem.severity == "error" else seen)
            and not _is_optional(kind, version, problem)
        )
    value = _decoder(kind.stored.type).decode(msgspec.json.encode(converted.tree))
    return Reading(kind, version, value, problems)


def _is_optional(kind: Kind, version: str, problem: Problem) -> bool:
    """Whether the problem is a missing field that only the stored kind requires, not the view that the user wrote."""
    if kind.view_of is None or problem.cause != "Required":
        return False
    field = kind.shape(version).fields.get(problem.path)
    return field is not None and not field.limit.required


def respelled(problems: Iterable[Problem], kind: Kind, version: str) -> list[Problem]:
    """Problems of the stored form, with their paths as the user wrote them in a served version."""
    return [replace(problem, path=older_path(kind, version, problem.path)) for problem in problems]


def _kind(tree: Tree) -> tuple[Kind | None, list[Problem]]:
    if not isinstance(tree, dict):
        what = f"expected a mapping with apiVersion and kind, got {told(tree)}"
        return None, [Problem("", what, cause="TypeInvalid")]
    problems = []
    for name in ("apiVersion", "kind"):
        value = tree.get(name)
        if value is None or value == "":
            hint = _version_hint(tree.get("kind")) if name == "apiVersion" else "for example ClusterQueue or Job"
            problems.append(Problem(name, "required", hint, cause="Required"))
        elif not isinstance(value, str):
            problems.append(Problem(name, f"expected a string, got {told(value)}", cause="TypeInvalid"))
    if problems:
        return None, problems
    kind = find_kind(tree["apiVersion"], tree["kind"])
    return kind, [] if kind else [_not_served(tree["apiVersion"], tree["kind"])]


def _version_hint(name: Tree) -> str:
    versions = [kind.api_version for kind in KINDS if kind.name == name]
    return f"{name} is {' or '.join(versions)}" if versions else "for example kueue.x-k8s.io/v1beta2"


def _not_served(api_version: str, name: str) -> Problem:
    if name in UNSERVED_KINDS and api_version.startswith("kueue.x-k8s.io/"):
        hint = UNSERVED_KINDS[name]
    elif any(kind.name == name for kind in KINDS):
        return Problem(
            "apiVersion", f"{told(api_version)} has no kind {name} here", _version_hint(name), cause="NotSupported"
        )
    else:
        near = did_you_mean(name, [kind.name for kind in KINDS])
        hint = near or "remove this document, or give it to the server that knows it"
    return Problem("kind", f"{told(name)} of {told(api_version)} is not served", hint, cause="NotSupported")
