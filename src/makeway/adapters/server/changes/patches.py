"""Patches of clients: JSON patches (RFC 6902), and strategic merges of the Kubernetes kinds.

Both take a tree and return a new one; the given tree is not changed. A strategic merge is a merge patch with rules for
lists: items are matched by the key that their type names (``kubernetes_types``), and directives in the patch
(``$patch``, ``$retainKeys``, ``$setElementOrder/…``, ``$deleteFromPrimitiveList/…``) say what plain values cannot.

Promise: the work is bounded by the size of patch and tree. Operations that are short but could make much, such as a
copy or a shift in a long list, are measured before they are done; a move has the same cost for any value.

Not here: JSON merge patches (``runtime.ports.merged``), server-side apply (``field_ownership``), validation of the
result.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from makeway.adapters.server.changes.merging import in_place
from makeway.api.problems import Problem
from makeway.api.reading.documents import DEPTH_MAX, Tree
from makeway.api.reading.structure import short, told
from makeway.api.schema.kubernetes_types import FieldType, fields_of
from makeway.api.versions import Kind

OPERATIONS_MAX = 10_000  # as a Kubernetes API server
COPIED_BYTES_MAX = 3 * 1024 * 1024  # the sum that copies of one patch may add: each copy could double a document
SHIFTED_MAX = 100_000_000  # list items that one patch may shift: a tenth of a second
ACCEPTED = "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml"

_PATCH = "$patch"
_RETAIN = "$retainKeys"
_ORDER = "$setElementOrder/"
_DELETE = "$deleteFromPrimitiveList/"


class PatchRefused(Exception):
    """A patch that is malformed (400), has an unsupported type (415), or does not fit the object (422)."""

    def __init__(self, code: int, message: str, causes: Sequence[Problem] = ()) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.causes = tuple(causes)


# --- JSON patch ------------------------------------------------------------------------------------------------------


def json_patch(target: Tree, operations: Tree) -> Tree:
    """Return ``target`` after the operations of an RFC 6902 patch, all of them or none."""
    if not isinstance(operations, list):
        raise PatchRefused(400, f"a JSON patch is a list of operations, got {told(operations)}")
    if len(operations) > OPERATIONS_MAX:
        raise PatchRefused(
            413, f"{len(operations)} operations, more than the {OPERATIONS_MAX} that a JSON patch may have"
        )
    document = [_copied(target)]  # so that the root has a place too
    allowance = _PatchAllowance()
    moves = False
    for i, each in enumerate(operations):
        operation, path, source, value = _operation(each, i)
        at = f"[{i}].path"
        match operation:
            case "add":
                _check_depth(value, len(path), at)
                _add(document, path, _copied(value), at, allowance)
            case "remove":
                _take(document, path, at, allowance)
            case "replace":
                _check_depth(value, len(path), at)
                _put(document, path, _copied(value), at)
            case "move":
                _move(document, path, source, i, allowance)
                moves = True
            case "copy":
                found = _find(document, source, f"[{i}].from")
                _check_depth(found, len(path), at, allowance)
                _add(document, path, _copied(found), at, allowance)
            case _:
                if not _equal(_find(document, path, at), value):
                    raise _misfit(at, f"the value at {_pointer(path)} is not the one that is tested for")
    if moves:
        _check_depth(document[0], 0, "the outcome")
    return document[0]


@dataclass(slots=True)
class _PatchAllowance:
    """The work that the operations of one patch may still cause beyond their own size."""

    copied: int = COPIED_BYTES_MAX
    shifted: int = SHIFTED_MAX

    def copy(self, weight: int) -> None:
        self.copied -= weight
        if self.copied < 0:
            raise PatchRefused(413, f"the copies of this JSON patch add more than {COPIED_BYTES_MAX} bytes")

    def shift(self, places: int) -> None:
        self.shifted -= places
        if self.shifted < 0:
            raise PatchRefused(413, f"the lists in this JSON patch are shifted by more than {SHIFTED_MAX} places")


def _operation(each: Tree, i: int) -> tuple[str, list[str], list[str], Tree]:
    if not isinstance(each, dict):
        raise PatchRefused(400, f"[{i}]: expected an operation, got {told(each)}")
    operation = each.get("op")
    if operation not in ("add", "remove", "replace", "move", "copy", "test"):
        raise PatchRefused(400, f"[{i}].op: {told(operation)} is none of add, remove, replace, move, copy, test")
    if operation in ("add", "replace", "test") and "value" not in each:
        raise PatchRefused(400, f"[{i}].value: required by {operation}")
    path = _tokens(each, "path", i)
    source = _tokens(each, "from", i) if operation in ("move", "copy") else []
    return operation, path, source, each.get("value")


def _tokens(operation: dict[str, Tree], name: str, i: int) -> list[str]:
    """Return the steps of a JSON pointer (RFC 6901)."""
    text = operation.get(name)
    if not isinstance(text, str):
        raise PatchRefused(400, f"[{i}].{name}: expected a JSON pointer, got {told(text)}")
    if text and not text.startswith("/"):
        raise PatchRefused(400, f"[{i}].{name}: {told(text)} does not begin with a slash")
    return [each.replace("~1", "/").replace("~0", "~") for each in text.split("/")[1:]]


def _pointer(path: Sequence[str]) -> str:
    text = "".join(f"/{each.replace('~', '~0').replace('/', '~1')}" for each in path[:DEPTH_MAX])
    return short(text) or "the whole document"


def _misfit(at: str, message: str) -> PatchRefused:
    return PatchRefused(422, f"{at}: {message}", [Problem(at, message)])


def _find(document: list[Tree], path: Sequence[str], at: str) -> Tree:
    value = document[0]
    for i, token in enumerate(path):
        if isinstance(value, dict) and token in value:
            value = value[token]
        elif isinstance(value, list) and (index := _index(token, len(value) - 1)) is not None:
            value = value[index]
        else:
            raise _misfit(at, f"{_pointer(path[: i + 1])} is not there")
    return value


def _index(token: str, last: int) -> int | None:
    """Return a list index; None if it is no number, or beyond ``last``. No leading zeros (RFC 6901)."""
    if not (token.isascii() and token.isdigit()) or (token[0] == "0" and token != "0") or len(token) > 9:
        return None
    return int(token) if int(token) <= last else None


def _parent(document: list[Tree], path: Sequence[str], at: str) -> tuple[Tree, str]:
    return (document, "0") if not path else (_find(document, path[:-1], at), path[-1])


def _add(document: list[Tree], path: Sequence[str], value: Tree, at: str, allowance: _PatchAllowance) -> None:
    parent, token = _parent(document, path, at)
    if len(path) > DEPTH_MAX:
        raise _too_deep(at)
    if not path:
        document[0] = value
    elif isinstance(parent, dict):
        parent[token] = value
    elif isinstance(parent, list):
        index = len(parent) if token == "-" else _index(token, len(parent))
        if index is None:
            raise _misfit(at, f"{_pointer(path)} is no place in a list of {len(parent)}")
        allowance.shift(len(parent) - index)
        parent.insert(index, value)
    else:
        raise _misfit(at, f"{_pointer(path[:-1])} is neither a mapping nor a list")


def _take(document: list[Tree], path: Sequence[str], at: str, allowance: _PatchAllowance) -> Tree:
    """Remove and return the value at ``path``, which must exist."""
    found = _find(document, path, at)
    parent, token = _parent(document, path, at)
    if not path:
        document[0] = None
    elif isinstance(parent, dict):
        del parent[token]
    else:
        allowance.shift(len(parent) - int(token))
        del parent[int(token)]
    return found


def _put(document: list[Tree], path: Sequence[str], value: Tree, at: str) -> None:
    _find(document, path, at)
    parent, token = _parent(document, path, at)
    parent[token if isinstance(parent, dict) else int(token)] = value


def _move(document: list[Tree], path: Sequence[str], source: Sequence[str], i: int, allowance: _PatchAllowance) -> None:
    """Move a value without a look inside: the depth of the whole result is checked after all operations."""
    if path[: len(source)] == source and len(path) > len(source):
        raise _misfit(f"[{i}].path", f"{_pointer(source)} cannot be moved into itself")
    _add(document, path, _take(document, source, f"[{i}].from", allowance), f"[{i}].path", allowance)


def _too_deep(at: str) -> PatchRefused:
    return PatchRefused(422, f"{at}: nested deeper than {DEPTH_MAX} levels")


def _check_depth(value: Tree, depth: int, at: str, allowance: _PatchAllowance | None = None) -> None:
    """Refuse trees that are nested deeper than files may be.

    Level by level, without recursion: moves may have made a tree deeper than the stack. Copies are measured on the way.
    """
    level = [value]
    while level:
        if depth > DEPTH_MAX:
            raise _too_deep(at)
        if allowance is not None:
            allowance.copy(sum(map(_weight, level)))
        level = [item for each in level if isinstance(each, dict | list) for item in _items(each)]
        depth += 1


def _items(value: dict[str, Tree] | list[Tree]) -> Iterable[Tree]:
    return value.values() if isinstance(value, dict) else value


def _weight(value: Tree) -> int:
    """Return the approximate bytes of a value as JSON: its keys, without what is nested in it."""
    if isinstance(value, str):
        return 2 + len(value)
    return 4 + sum(map(len, value)) + 4 * len(value) if isinstance(value, dict) else 4


def _copied(tree: Tree) -> Tree:
    """Return a deep copy of a tree; the caller knows that it is not too deep."""
    if isinstance(tree, dict):
        return {key: _copied(each) for key, each in tree.items()}
    return [_copied(each) for each in tree] if isinstance(tree, list) else tree


def _equal(left: Tree, right: Tree) -> bool:
    """Whether two values are equal as JSON: true is not 1, but 1 is 1.0."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(_equal(each, right[key]) for key, each in left.items())
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(_equal, left, right))
    return bool(left == right)


# --- strategic merge -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Lists:
    """What a type says about its fields: how lists are merged, and the type of a field."""

    key: Callable[[str], str | None]  # field -> merge key of its items; "" merges plain values; None replaces the list
    inner: Callable[[str], _Lists]


def strategic_merge(kind: Kind, version: str, target: Tree, change: Tree) -> Tree:
    """Return ``target`` with a strategic merge patch. Only Kubernetes' own kinds define how their lists are merged."""
    if kind.ours:
        message = f"the body of the request was in an unknown format - accepted media types include: {ACCEPTED}"
        raise PatchRefused(415, message)
    if not isinstance(change, dict):
        raise PatchRefused(400, f"a strategic merge patch is a mapping, got {told(change)}")
    _check_depth(change, 0, "patch")
    return _merge(target, change, _lists(kind.type.__name__), ())


@cache
def _lists(type_name: str) -> _Lists:
    fields = _META if type_name == "ObjectMeta" else fields_of(type_name) if type_name else {}

    def key(name: str) -> str | None:
        field = fields.get(name)
        if field is None or field.kind != "list":
            return None
        if (type_name, name) in _MERGED_SETS:
            return ""
        return field.merge_key

    def inner(name: str) -> _Lists:
        field = fields.get(name)
        while field is not None and field.item is not None:  # lists and maps: their items
            field = field.item
        return _lists(field.name if field is not None and field.kind == "object" else "")

    return _Lists(key, inner)


_META: Mapping[str, FieldType] = {
    "finalizers": FieldType("list", "string", FieldType("scalar", "string")),
    "ownerReferences": FieldType("list", "any", FieldType("scalar", "any"), merge_key="uid"),
}
_MERGED_SETS = {("ObjectMeta", "finalizers"), ("NodeSpec", "podCIDRs")}


_Path = tuple[str, ...]  # joined to a text only for a refusal: a key may be as long as the patch


def _told_path(path: _Path, step: str = "") -> str:
    """Return a place in a patch, as messages name it."""
    return "".join(
        each if each.startswith("[") else f".{short(each)}" for each in ((*path, step) if step else path)
    ).removeprefix(".")


def _merge(target: Tree, change: dict[str, Tree], lists: _Lists, path: _Path) -> Tree:
    directive = change.get(_PATCH)
    if directive == "replace":
        return _plain({key: each for key, each in change.items() if key != _PATCH})
    if directive == "delete":
        return {}
    if directive not in (None, "merge"):
        raise _bad(path, _PATCH, f"{told(directive)} is none of merge, replace, delete")
    result = dict(target) if isinstance(target, dict) else {}
    _retain(result, change, path)
    for key, each in change.items():
        if key in (_PATCH, _RETAIN) or key.startswith((_ORDER, _DELETE)):
            continue
        if each is None:
            result.pop(key, None)
        elif isinstance(each, dict):
            result[key] = _merge(result.get(key), each, lists.inner(key), (*path, key))
        elif isinstance(each, list) and (merge_key := lists.key(key)) is not None:
            result[key] = _merge_list(_listed(result.get(key)), each, merge_key, lists.inner(key), (*path, key))
        else:
            result[key] = _plain(each)
    _delete_values(result, change, path)
    _order_lists(result, target, change, lists, path)
    return result


def _plain(tree: Tree) -> Tree:
    """Return a value of a patch without nulls and directives."""
    if isinstance(tree, dict):
        kept = {key: each for key, each in tree.items() if each is not None and not key.startswith("$")}
        return {key: _plain(each) for key, each in kept.items()}
    return [_plain(each) for each in tree] if isinstance(tree, list) else tree


def _listed(tree: Tree) -> list[Tree]:
    return tree if isinstance(tree, list) else []


def _bad(path: _Path, directive: str, message: str) -> PatchRefused:
    return PatchRefused(400, f"{_told_path(path, directive)}: {message}")


def _retain(result: dict[str, Tree], change: dict[str, Tree], path: _Path) -> None:
    """Keep only the named fields of a union."""
    if _RETAIN not in change:
        return
    named = change[_RETAIN]
    if not isinstance(named, list):
        raise _bad(path, _RETAIN, f"expected a list of fields, got {told(named)}")
    kept = {each for each in named if isinstance(each, str)}
    extra = [key for key, each in change.items() if not key.startswith("$") and each is not None and key not in kept]
    if extra:
        raise _bad(path, _RETAIN, f"{short(extra[0])} is set beside it but not retained")
    for key in [key for key in result if key not in kept]:
        del result[key]


def _merge_list(present: list[Tree], change: list[Tree], key: str, inner: _Lists, path: _Path) -> list[Tree]:
    if not key:
        return list({_token(each): each for each in (*present, *change)}.values())
    if any(_has(each, "replace") for each in change):
        return [_plain(each) for each in change if not _has(each, "replace")]
    result = list(present)
    places = _tokens_of(present, key)
    gone: set[Hashable] = set()
    for each in change:
        if not isinstance(each, dict) or each.get(key) is None:
            raise PatchRefused(400, f"{_told_path(path)}: an item has no {key}, by which items are matched")
        token, here = _token(each[key]), (*path, f"[{key}={short(str(each[key]))}]")
        if _has(each, "delete"):
            gone.add(token)
        elif token in places:
            result[places[token]] = _merge(result[places[token]], each, inner, here)
        else:
            places[token] = len(result)
            result.append(_merge(None, each, inner, here))
    return [each for each in result if _token(_place(each, key)) not in gone] if gone else result


def _has(item: Tree, directive: str) -> bool:
    return isinstance(item, dict) and item.get(_PATCH) == directive


def _place(item: Tree, key: str) -> Tree:
    """Return the identity of an item: the value of its key, or itself."""
    return item.get(key) if key and isinstance(item, dict) else item


def _token(value: Tree) -> Hashable:
    """Return a value as a key; JSON's true is not its 1."""
    if isinstance(value, dict | list):
        raise PatchRefused(400, f"items are matched by texts and numbers, not by {told(value)}")
    return isinstance(value, bool), value


def _tokens_of(items: Iterable[Tree], key: str) -> dict[Hashable, int]:
    """Return the index of each item; the first of duplicates counts."""
    places: dict[Hashable, int] = {}
    for i, each in enumerate(items):
        places.setdefault(_token(_place(each, key)), i)
    return places


def _delete_values(result: dict[str, Tree], change: dict[str, Tree], path: _Path) -> None:
    for directive, gone in change.items():
        if not directive.startswith(_DELETE):
            continue
        if not isinstance(gone, list):
            raise _bad(path, directive, f"expected a list, got {told(gone)}")
        name = directive.removeprefix(_DELETE)
        left_out = _tokens_of(gone, "").keys() - _tokens_of(_listed(change.get(name)), "").keys()
        if isinstance(present := result.get(name), list):
            result[name] = [each for each in present if _token(each) not in left_out]


def _order_lists(result: dict[str, Tree], target: Tree, change: dict[str, Tree], lists: _Lists, path: _Path) -> None:
    for directive, order in change.items():
        if not directive.startswith(_ORDER):
            continue
        if not isinstance(order, list):
            raise _bad(path, directive, f"expected a list, got {told(order)}")
        name = directive.removeprefix(_ORDER)
        key = lists.key(name)
        if isinstance(present := result.get(name), list) and key is not None:
            places = _tokens_of(order, key)
            _check_order(_listed(change.get(name)), places, key, _told_path(path, directive))
            before = _tokens_of(_listed(target.get(name)) if isinstance(target, dict) else [], key)
            tokens = [_token(_place(each, key)) for each in present]
            result[name] = [present[i] for i in in_place(tokens, places, before)]


def _check_order(patched: list[Tree], places: Mapping[Hashable, int], key: str, path: str) -> None:
    """Check that the items which a patch sets stand in the order that it asks for."""
    kept = [each for each in patched if not (isinstance(each, dict) and _PATCH in each)]
    ranks = [places.get(_token(_place(each, key)), -1) for each in kept]
    if -1 in ranks or ranks != sorted(ranks):
        raise PatchRefused(400, f"{path}: does not list the items of the patch in their order")
