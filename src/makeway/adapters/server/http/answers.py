"""Answers to a client: objects, lists, tables, in the form that its Accept header asks for.

A stored object is kept as the bytes that are served, so most answers are joined, not encoded. A list is made piece by
piece while it is sent: it needs memory for its items, which are shared, and for one piece. A large object is a piece of
its own, and is not copied.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal

import msgspec
import yaml

from makeway.adapters.server.http.routes import Route
from makeway.adapters.server.http.statuses import not_acceptable
from makeway.adapters.server.http.streams import OpenStream
from makeway.adapters.server.resources.tables import table
from makeway.adapters.server.resources.troubles import GaveUp, log_trouble
from makeway.api.problems import Problem
from makeway.api.reading.documents import Tree
from makeway.core.model import Millis
from makeway.runtime.ports import Page, Stored

JSON, YAML = "application/json", "application/yaml"
SERVED = (JSON, YAML)
META = "meta.k8s.io/v1"
PIECE_BYTES = 64 * 1024
TABLE_PIECE = 500  # rows
ACCEPT_CHARS_MAX = 1024
Header = tuple[bytes, bytes]


@dataclass(frozen=True, slots=True)
class AnswerForm:
    """The form of objects in an answer: whole, as rows of a table, or their metadata alone."""

    shape: Literal["object", "table", "metadata"] = "object"
    is_yaml: bool = False

    @property
    def content_type(self) -> str:
        if self.is_yaml:
            return YAML
        names = {"object": "", "table": ";as=Table;v=v1;g=meta.k8s.io", "metadata": _METADATA}
        return JSON + names[self.shape]


_METADATA = ";as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
_SHAPES: Mapping[str, Literal["table", "metadata"]] = {
    "Table": "table",
    "PartialObjectMetadata": "metadata",
    "PartialObjectMetadataList": "metadata",
}
PLAIN = AnswerForm()


@dataclass(slots=True)
class Response:
    status: int
    body: bytes | Iterable[bytes] | AsyncIterator[bytes]
    content_type: str = JSON
    headers: list[Header] = field(default_factory=list)
    advice: Sequence[Problem] = ()  # for Warning headers
    is_slow: bool = False  # pieces take long to make, so they are made in a thread
    stream: OpenStream | None = None  # under which an endless body is counted


@lru_cache(maxsize=256)
def form_of(accept: str) -> AnswerForm:
    """Return the first supported form, in the client's order. Raises ``Refused`` (406)."""
    for clause in accept[:ACCEPT_CHARS_MAX].split(","):
        media, *rest = (part.strip() for part in clause.split(";"))
        wanted = dict(part.split("=", 1) for part in rest if "=" in part)
        asked = wanted.get("as", "")
        if asked:
            if media == JSON and asked in _SHAPES and wanted.get("g") == "meta.k8s.io" and wanted.get("v") == "v1":
                return AnswerForm(_SHAPES[asked])
        elif media in ("", JSON, "*/*", "application/*", "text/*"):
            return PLAIN
        elif media in (YAML, "application/x-yaml", "text/yaml"):
            return AnswerForm(is_yaml=True)
    raise not_acceptable(SERVED)


# --- one object ------------------------------------------------------------------------------------------------------


class Shown:
    """The objects of a route's kind, in the form that one client wants."""

    def __init__(
        self, route: Route, form: AnswerForm, now: Millis, objects: str = "Metadata", gave_up: GaveUp = log_trouble
    ) -> None:
        self._gave_up = gave_up
        self._route, self._form, self._now, self._objects = route, form, now, objects
        self._is_as_stored = route.kind.is_stored_as(route.version)
        self.has_columns = True
        # a key for equal bytes of equal objects; None if the bytes also depend on the time or on earlier answers
        self.likeness = None if form.shape == "table" else (route.kind.group, route.version, form.shape)

    def encoded(self, each: Stored) -> bytes:
        """Return an object as JSON."""
        return each.data if self._is_as_stored else msgspec.json.encode(self._route.shown(each))

    def one(self, each: Stored) -> bytes:
        """Return an object as it stands alone: in an answer, or in an event of a watch."""
        if self._form.shape == "table":
            return msgspec.json.encode({**self._table([each]), "metadata": {"resourceVersion": each.resource_version}})
        return self._item(each)

    def bookmark(self, metadata: Mapping[str, Tree]) -> dict[str, Tree]:
        """Return the object of an event that is about no object."""
        if self._form.shape == "table":
            return {"kind": "Table", "apiVersion": META, "metadata": metadata, "columnDefinitions": [], "rows": []}
        if self._form.shape == "metadata":
            return {"kind": "PartialObjectMetadata", "apiVersion": META, "metadata": metadata}
        return {"kind": self._route.kind.name, "apiVersion": self._route.api_version, "metadata": metadata}

    def answer(self, status: int, each: Stored) -> Response:
        body = self.one(each)
        if self._form.is_yaml:
            return Response(status, map(as_yaml, (body,)), YAML, is_slow=True)
        return Response(status, body, self._form.content_type)

    def _item(self, each: Stored) -> bytes:
        if self._form.shape == "metadata":
            return msgspec.json.encode(
                {"kind": "PartialObjectMetadata", "apiVersion": META, "metadata": self._route.shown(each)["metadata"]}
            )
        return self.encoded(each)

    def _table(self, items: Sequence[Stored]) -> dict[str, Tree]:
        made = table(
            self._route.kind, self._route.version, items, now=self._now, objects=self._objects, gave_up=self._gave_up
        )
        if not self.has_columns:
            made["columnDefinitions"] = []
        return made

    # --- many ---

    def answer_page(self, page: Page) -> Response:
        metadata = {
            "resourceVersion": page.resource_version,
            **({"continue": page.token} if page.token else {}),
            **({"remainingItemCount": page.remaining} if page.remaining else {}),
        }
        if self._form.is_yaml:
            return Response(200, self._in_yaml(page.items, metadata), YAML, is_slow=True)
        pieces = self._rows(page.items, metadata) if self._form.shape == "table" else self._items(page.items, metadata)
        return Response(200, pieces if page.items else b"".join(pieces), self._form.content_type)

    def _head(self, metadata: Mapping[str, Tree]) -> dict[str, Tree]:
        is_whole = self._form.shape == "object"
        named = (
            (f"{self._route.kind.name}List", self._route.api_version)
            if is_whole
            else ("PartialObjectMetadataList", META)
        )
        return {"kind": named[0], "apiVersion": named[1], "metadata": metadata}

    def _items(self, items: Sequence[Stored], metadata: Mapping[str, Tree]) -> Iterator[bytes]:
        head = msgspec.json.encode(self._head(metadata))
        yield from _pieces(head[:-1] + b',"items":[', map(self._item, items))

    def _in_yaml(self, items: Sequence[Stored], metadata: Mapping[str, Tree]) -> Iterator[bytes]:
        """Encode one item at a time: encoding the list at once would need the memory of many such lists."""
        head = as_yaml(msgspec.json.encode(self._head(metadata)))
        yield head + (b"items:\n" if items else b"items: []\n")
        for each in items:
            yield as_yaml(b"[%b]" % self._item(each))

    def _rows(self, items: Sequence[Stored], metadata: Mapping[str, Tree]) -> Iterator[bytes]:
        first = {**self._table([]), "metadata": metadata}
        first.pop("rows")

        def rows() -> Iterator[bytes]:
            for start in range(0, len(items), TABLE_PIECE):
                yield from map(msgspec.json.encode, self._table(items[start : start + TABLE_PIECE])["rows"])

        yield from _pieces(msgspec.json.encode(first)[:-1] + b',"rows":[', rows())


def _pieces(head: bytes, items: Iterable[bytes]) -> Iterator[bytes]:
    """Yield a JSON document that ends in a list, in pieces of some size; a large item is a piece of its own."""
    parts, size, comma = [head], len(head), b""
    for each in items:
        parts.append(comma)
        comma = b","
        if len(each) >= PIECE_BYTES:
            yield from (b"".join(parts), each)
            parts, size = [], 0
            continue
        parts.append(each)
        size += len(each)
        if size >= PIECE_BYTES:
            yield b"".join(parts)
            parts, size = [], 0
    parts.append(b"]}")
    yield b"".join(parts)


def as_yaml(body: bytes) -> bytes:
    made: bytes = yaml.dump(
        msgspec.json.decode(body), Dumper=yaml.CSafeDumper, sort_keys=False, encoding="utf-8", allow_unicode=True
    )
    return made


def plain(tree: Tree, status: int = 200) -> Response:
    return Response(status, msgspec.json.encode(tree))


def text(words: str, status: int = 200) -> Response:
    return Response(status, words.encode(), "text/plain; charset=utf-8")
