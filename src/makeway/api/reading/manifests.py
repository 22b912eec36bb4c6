"""The manifests of a file: reads and checks every document, and gives the place of every problem.

Promises: bad input raises no exception; a mistake is reported once, also if several checks see it; equal input gives
equal problems in equal order; time is linear in the number of objects.

Not here: the shape of one object (``codec``), the rules about one object (``validation``), the rules about several
objects (``together``), files (``cli``).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from makeway.api import codec
from makeway.api.objects.meta import Wire
from makeway.api.problems import Problem, Severity, warning
from makeway.api.reading.documents import Document, Pieces, Tree, parse
from makeway.api.reading.structure import Mode, told
from makeway.api.validation import validate
from makeway.api.versions import Kind, find_kind, older_path

_Place = tuple[str, Document, Mode]
_LIST_FIELDS = ("apiVersion", "items", "kind", "metadata")
_CUT = re.compile(r"[.\[]")
_ITEM = re.compile(r"items\[(\d+)\]\.?")
_LOST = ("TypeInvalid", "NotSupported", "Required")  # the value is lost, and a default stands in its place


@dataclass(frozen=True, slots=True)
class Finding:
    """A problem with its place. An unknown part is ""; without a line it is about the whole file."""

    file: str
    line: int | None
    document: int | None  # counted from 1
    kind: str
    name: str
    path: str
    severity: Severity
    message: str
    hint: str


@dataclass(slots=True)
class Manifest:
    """One object of a file, or a document that could not become one. Paths of problems begin at the document."""

    file: str
    document: int  # counted from 1; the items of a List share theirs
    line: int
    kind: Kind | None  # None: not served, or not readable
    name: str  # "namespace/name" or "name", as written; "name*" for a generateName
    value: Wire | None
    problems: list[Problem] = field(default_factory=list)
    kind_name: str = ""  # as written, also of a kind that is not served
    version: str = ""
    prefix: str = ""  # "items[3]" of a List
    line_of: Callable[[str], int] | None = None
    tree_of: Callable[[], Tree] | None = None
    _told: set[str] | None = None  # the paths with a problem

    @property
    def tree(self) -> Tree:
        """The object as it is written; an item of a long list is read again at every call."""
        return None if self.tree_of is None else self.tree_of()

    def findings(self) -> Iterator[Finding]:
        for problem in self.problems:
            line = self.line if self.line_of is None or not problem.path else self.line_of(problem.path)
            yield Finding(
                self.file, line, self.document, self.kind_name, self.name,
                problem.path, problem.severity, problem.message, problem.hint,
            )  # fmt: skip

    def written(self, path: str) -> str:
        """A path of the stored version, as the user wrote it."""
        return _under(self.prefix, older_path(self.kind, self.version, path) if self.kind else path)

    def warn(self, path: str, message: str, hint: str) -> None:
        self.tell(warning(path, message, hint))

    def tell(self, problem: Problem) -> None:
        """Add a problem at a path of the stored version, unless there is a problem at that path already."""
        here = self.written(problem.path)
        self._told = self._told or {problem.path for problem in self.problems}
        if here not in self._told:
            self._told.add(here)
            self.problems.append(replace(problem, path=here))


def findings(manifests: Iterable[Manifest]) -> list[Finding]:
    """All problems: files in the order of the arguments, inside a file by line."""
    findings = [finding for manifest in manifests for finding in manifest.findings()]
    order = {file: i for i, file in enumerate(dict.fromkeys(finding.file for finding in findings))}
    return sorted(findings, key=lambda finding: (order[finding.file], finding.line or 0, finding.document or 0))


# --- one file -------------------------------------------------------------------------------------------------------


def load(file: str, data: bytes, mode: Mode = "Strict") -> list[Manifest]:
    """Read all objects of a file, with their problems."""
    return list(stream(file, data, mode))


def stream(file: str, data: bytes, mode: Mode = "Strict") -> Iterator[Manifest]:
    """Like ``load``, but one object at a time."""
    for document in parse(data):
        pieces = document.pieces
        if pieces is not None and pieces.head.tree is None and pieces.head.problems:
            document = replace(pieces.head, index=document.index)
        elif pieces is not None and _item_kind(pieces.head.tree) is not None:
            yield from _long_list(file, document.index, pieces, mode)
            continue
        if document.tree is None and document.problems:
            yield Manifest(file, document.index, document.line, None, "", None, list(document.problems))
        else:
            yield from _objects((file, document, mode), document.tree, "", document.problems)


def _long_list(file: str, index: int, pieces: Pieces, mode: Mode) -> Iterator[Manifest]:
    """The objects of a list that is too large for one document. Their trees and lines are not kept."""
    head = replace(pieces.head, index=index)
    yield from _objects((file, head, mode), head.tree, "", head.problems)
    for i in range(pieces.count):
        prefix, item = f"items[{i}]", pieces.item(i)
        seen = [replace(problem, path=_under(prefix, problem.path)) for problem in item.problems]
        if item.tree is None and seen:
            yield Manifest(file, index, item.line, None, "", None, seen, prefix=prefix)
            continue
        document = Document(index, item.line, None, locate=partial(_line_inside, pieces, i, item.line))
        for manifest in _objects((file, document, mode), _as_item(item.tree, head.tree), prefix, seen):
            if manifest.prefix == prefix:
                manifest.tree_of = partial(_tree_of_item, pieces, i)
            yield manifest


def _line_inside(pieces: Pieces, i: int, line: int, path: str) -> int:
    inside = path.removeprefix(f"items[{i}]").removeprefix(".")
    return pieces.item(i).line_of(inside) if inside else line


def _tree_of_item(pieces: Pieces, i: int) -> Tree:
    return _as_item(pieces.item(i).tree, pieces.head.tree)


def _objects(place: _Place, tree: Tree, prefix: str, seen: Sequence[Problem]) -> Iterator[Manifest]:
    """The object in ``tree``, or the items of a list; ``seen``: problems of the text, with paths of the document."""
    item_kind = _item_kind(tree)
    if item_kind is None:
        yield _object(place, tree, prefix, seen)
        return
    own, of_items = _shared_out(seen, prefix)
    items = tree.get("items")
    if items is not None and not isinstance(items, list):
        own.append(Problem(_under(prefix, "items"), f"expected a list, got {told(items)}", cause="TypeInvalid"))
        items = None
    own.extend(
        Problem(_under(prefix, key), f"unknown field; known here: {', '.join(_LIST_FIELDS)}", cause="UnknownField")
        for key in (tree if place[2] == "Strict" else ())
        if key not in _LIST_FIELDS
    )
    if own:
        yield _manifest(place, tree, prefix, own)
    for i, item in enumerate(items or ()):
        yield from _objects(place, _as_item(item, tree), _under(prefix, f"items[{i}]"), of_items.get(i, ()))


def _as_item(item: Tree, of: Tree) -> Tree:
    """An item with kind and version filled in from its list: items of a ClusterQueueList need not repeat them."""
    kind = _item_kind(of)
    return {"apiVersion": of["apiVersion"], "kind": kind, **item} if kind and isinstance(item, dict) else item


def _item_kind(tree: Tree) -> str | None:
    """The kind of the items of a list; "": any kind; None: it is no list."""
    kind = tree.get("kind") if isinstance(tree, dict) else None
    version = tree.get("apiVersion") if isinstance(tree, dict) else None
    if not isinstance(kind, str) or not isinstance(version, str) or not kind.endswith("List"):
        return None
    if kind == "List":
        return "" if version == "v1" else None
    return kind[:-4] if find_kind(version, kind[:-4]) else None


def _shared_out(problems: Sequence[Problem], prefix: str) -> tuple[list[Problem], dict[int, list[Problem]]]:
    own: list[Problem] = []
    of_items: dict[int, list[Problem]] = defaultdict(list)
    start = len(prefix) + 1 if prefix else 0
    for problem in problems:
        match = _ITEM.match(problem.path, start)
        (of_items[int(match.group(1))] if match else own).append(problem)
    return own, of_items


def _object(place: _Place, tree: Tree, prefix: str, seen: Sequence[Problem]) -> Manifest:
    reading = codec.read(tree, place[2])
    manifest = _manifest(place, tree, prefix, list(seen))
    manifest.kind, manifest.version, manifest.value = reading.kind, reading.version, reading.value
    manifest.problems.extend(replace(problem, path=_under(prefix, problem.path)) for problem in reading.problems)
    if reading.value is not None:
        problems = validate(reading.value, created_as=reading.kind)
        rules = [replace(problem, path=manifest.written(problem.path)) for problem in problems]
        manifest.problems.extend(_not_told_yet(rules, manifest.problems))
    return manifest


def _manifest(place: _Place, tree: Tree, prefix: str, problems: list[Problem]) -> Manifest:
    file, document, _ = place
    line = document.line_of(prefix) if prefix else document.line
    kind = tree.get("kind") if isinstance(tree, dict) else None
    return Manifest(
        file, document.index, line, None, _name(tree), None, problems,
        kind_name=kind if isinstance(kind, str) else "", prefix=prefix, line_of=document.line_of, tree_of=lambda: tree,
    )  # fmt: skip


def _name(tree: Tree) -> str:
    meta = tree.get("metadata") if isinstance(tree, dict) else None
    if not isinstance(meta, dict):
        return ""
    namespace, name, start = (meta.get(key) for key in ("namespace", "name", "generateName"))
    if not isinstance(name, str) or not name:
        name = f"{start}*" if isinstance(start, str) and start else ""
    return f"{namespace}/{name}" if isinstance(namespace, str) and namespace and name else name


def _under(prefix: str, path: str) -> str:
    return f"{prefix}.{path}" if prefix and path and path[0] != "[" else prefix + path


def _not_told_yet(rules: list[Problem], told_before: list[Problem]) -> list[Problem]:
    """Leave out problems at or below a known one, and those that a lost value causes around or right beside it."""
    errors = [problem for problem in told_before if problem.severity == "error"]
    at = {problem.path for problem in errors}
    lost = [problem.path for problem in errors if problem.cause in _LOST]
    around = {above for path in lost for above in _above(path)}
    beside = {parent for path in lost if "." in (parent := path.rpartition(".")[0])}
    return [
        rule
        for rule in rules
        if at.isdisjoint(_above(rule.path)) and rule.path not in around and rule.path.rpartition(".")[0] not in beside
    ]


def _above(path: str) -> list[str]:
    return ["", *(path[: cut.start()] for cut in _CUT.finditer(path)), path]
