"""The target of a path: kind, version, namespace, object, subresource.

URLs of the API are regular, so a path is split rather than matched against patterns::

    /api/v1[/namespaces/NS]/PLURAL[/NAME[/PART]]
    /apis/GROUP/VERSION[/namespaces/NS]/PLURAL[/NAME[/PART]]

Each segment is decoded on its own and checked: no path of a client can reach outside the Store.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from urllib.parse import unquote_to_bytes

from makeway.adapters.server.http.statuses import bad_request, not_found_path
from makeway.api.forms import is_label
from makeway.api.reading.documents import Tree
from makeway.api.reading.structure import short
from makeway.api.versions import KINDS, Kind, from_stored
from makeway.runtime.ports import Stored, kind_key

NOT_STORED = frozenset({
    "Binding", "Eviction", "SelfSubjectAccessReview", "SelfSubjectRulesReview", "SelfSubjectReview", "Configuration",
})  # fmt: skip
PARTS = {  # of an object; ``status`` is added for all kinds that have one
    ("", "Pod"): ("log", "binding", "eviction"),
    ("", "Namespace"): ("finalize",),
}
SEGMENTS_MAX = 8
REMEMBERED_BYTES_MAX = 300  # of a path: clients ask for the same ones again and again
SEGMENT_CHARS_MAX = 253


@dataclass(frozen=True, slots=True)
class Route:
    """``kind`` and ``version`` are as the client names them."""

    kind: Kind
    version: str
    namespace: str | None  # None: a kind without namespaces, or all namespaces
    name: str = ""  # "": all objects
    part: str = ""

    @property
    def stored(self) -> Kind:
        """The kind under which the Store keeps the object."""
        return self.kind.stored

    @property
    def api_version(self) -> str:
        return self.kind.served(self.version)

    def shown(self, each: Stored) -> dict[str, Tree]:
        """An object as the client of this route sees it."""
        return from_stored(self.kind, self.version, each.tree())

    @property
    def place(self) -> str:
        """The namespace as the Store expects it."""
        return self.namespace or ""


def segments(raw_path: bytes) -> tuple[str, ...]:
    """Return the parts of a path, each decoded. Raises ``Refused`` (400)."""
    return _known_segments(raw_path) if len(raw_path) <= REMEMBERED_BYTES_MAX else _segments(raw_path)


def route(parts: tuple[str, ...]) -> Route:
    """Return the route of a path. Raises ``Refused`` (404) for an unknown path."""
    return _known_route(parts) if sum(map(len, parts)) <= REMEMBERED_BYTES_MAX else _route(parts)


def _segments(raw_path: bytes) -> tuple[str, ...]:
    found = []
    for part in raw_path.split(b"/")[1:]:
        try:
            text = unquote_to_bytes(part).decode()
        except UnicodeDecodeError:
            raise bad_request("the path is not UTF-8") from None
        if text in (".", "..") or "/" in text or "%" in text or "\0" in text or not text.isprintable():
            raise bad_request(f"invalid path segment {short(text)!r}: may not be '.', '..' or contain '/' or '%'")
        if len(text) > SEGMENT_CHARS_MAX:
            raise bad_request(f"a path segment has {len(text)} characters, more than {SEGMENT_CHARS_MAX}")
        found.append(text)
    if found and found[-1] == "":
        found.pop()
    if "" in found or len(found) > SEGMENTS_MAX + 2:
        raise not_found_path()
    return tuple(found)


def _route(parts: tuple[str, ...]) -> Route:
    if parts[0] == "api" and len(parts) > 2:
        group, version, rest = "", parts[1], parts[2:]
    elif parts[0] == "apis" and len(parts) > 3:
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        raise not_found_path()
    namespace: str | None = None
    if rest[0] == "namespaces" and len(rest) > 2 and not _is_part(group, rest):
        namespace, rest = rest[1], rest[2:]
    kind = served().get((group, version, rest[0]))
    if kind is None or (namespace is not None and not kind.namespaced) or len(rest) > 3:
        raise not_found_path()
    if namespace is not None and not is_label(namespace):
        raise bad_request(f"invalid namespace {short(namespace)!r}")
    name, part = rest[1] if len(rest) > 1 else "", rest[2] if len(rest) > 2 else ""
    if part and part not in parts_of(kind):
        raise not_found_path()
    if name and kind.namespaced and namespace is None:
        raise not_found_path()
    return Route(kind, version, namespace, name, part)


_known_segments = lru_cache(maxsize=4096)(_segments)
_known_route = lru_cache(maxsize=4096)(_route)


def _is_part(group: str, rest: tuple[str, ...]) -> bool:
    return group == "" and len(rest) == 3 and rest[2] in ("status", *PARTS["", "Namespace"])


def parts_of(kind: Kind) -> tuple[str, ...]:
    return (*(("status",) if kind.has_status else ()), *PARTS.get(kind_key(kind), ()))


@cache
def served() -> Mapping[tuple[str, str, str], Kind]:
    """Return the kinds by group, version and plural, also those that are only answered, never stored."""
    return {
        (kind.group, version, kind.plural): kind
        for kind in KINDS
        if kind.name not in ("Configuration", "Binding", "Eviction")
        for version in kind.versions
    }


def is_stored(kind: Kind) -> bool:
    return kind.name not in NOT_STORED
