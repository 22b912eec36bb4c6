"""Sets of fields, in the format of ``metadata.managedFields`` (FieldsV1).

A set is a tree of mappings whose keys are steps of a path: ``f:name`` of a field or map entry, ``k:{"name":"a"}`` of an
item of a keyed list, ``v:"a"`` of an item of a set. A path is in the set if its mapping is empty or has the entry
``.``; else the mapping only leads to deeper paths. At the root an empty mapping is the empty set.

Promises: arguments are not changed, and results may share values with them; the work is bounded by the size of the
trees.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from makeway.adapters.server.changes.merging import FieldNode
from makeway.api.quantity import Duration, Quantity, Time
from makeway.api.reading.documents import DEPTH_MAX, Tree

Fields = dict[str, Any]  # str -> Fields
Changes = tuple[Fields | None, Fields | None]  # what was set, what was removed
ITSELF = "."
_PARSE = {"quantity": Quantity.parse, "duration": Duration.parse, "time": Time.parse, "microTime": Time.parse}
_STEPS = ("f:", "k:", "v:", "i:")
_encode = msgspec.json.Encoder(order="sorted").encode


# --- as sets ---------------------------------------------------------------------------------------------------------


def _is_in(fields: Fields) -> bool:
    return not fields or ITSELF in fields


def _made(inside: Fields, is_in: bool) -> Fields | None:
    """Return a mapping with these entries, and with itself if ``is_in``; None if it would have neither."""
    if inside and is_in:
        return {ITSELF: {}, **inside}
    return inside or ({} if is_in else None)


def union(left: Fields, right: Fields) -> Fields:
    if not left or not right:
        return left or right
    result = dict(left)
    for step, each in right.items():
        result[step] = _union(result[step], each) if step in result else each
    return result


def _union(left: Fields, right: Fields) -> Fields:
    if left is right:
        return left
    inside = union(
        {step: each for step, each in left.items() if step != ITSELF},
        {step: each for step, each in right.items() if step != ITSELF},
    )
    return _made(inside, _is_in(left) or _is_in(right)) or {}


def united(sets: Sequence[Fields]) -> Fields:
    """Return the union of many sets, in one pass: pairwise unions would copy the widest set each time."""
    some = [each for each in sets if each]
    if len(some) < 2:
        return some[0] if some else {}
    inside: dict[str, list[Fields]] = {}
    for fields in some:
        for step, each in fields.items():
            if step != ITSELF:
                inside.setdefault(step, []).append(each)
    return {step: _united(each) for step, each in inside.items()}


def _united(sets: list[Fields]) -> Fields:
    return sets[0] if len(sets) == 1 else _made(united(sets), any(map(_is_in, sets))) or {}


def difference(left: Fields, right: Fields) -> Fields:
    """Return what is in ``left`` and not in ``right``; removing a field keeps the fields below it."""
    return {step: each for step in left if (each := _difference(left[step], right.get(step))) is not None}


def _difference(left: Fields, right: Fields | None) -> Fields | None:
    if right is None:
        return left
    inside = difference({step: each for step, each in left.items() if step != ITSELF}, right)
    return _made(inside, _is_in(left) and not _is_in(right))


def intersection(left: Fields, right: Fields) -> Fields:
    return {
        step: each
        for step in left
        if step in right and step != ITSELF and (each := _intersection(left[step], right[step])) is not None
    }


def _intersection(left: Fields, right: Fields) -> Fields | None:
    return _made(intersection(left, right), _is_in(left) and _is_in(right))


def without(fields: Fields, roots: Fields) -> Fields:
    """Return the fields that are neither at nor below the ends of ``roots``."""
    result: Fields = {}
    for step, each in fields.items():
        under = roots.get(step) if step != ITSELF else None
        if under is None:
            result[step] = each
        elif under:
            inside = without({below: its for below, its in each.items() if below != ITSELF}, under)
            kept = _made(inside, _is_in(each))
            if kept is not None:
                result[step] = kept
    return result


def below(fields: Fields, roots: Fields) -> Fields:
    """Return the fields that are at or below the ends of ``roots``."""
    result: Fields = {}
    for step in roots if len(roots) <= len(fields) else fields:  # the smaller of the two
        under, each = roots.get(step), fields.get(step)
        if under is not None and each is not None and (not under or (each := below(each, under))):
            result[step] = each
    return result


def paths(fields: Fields, prefix: str = "") -> Iterator[str]:
    """Yield all paths of a set as messages name them, in the order of their steps."""
    for step in sorted(fields):
        if step != ITSELF:
            path = prefix + _shown(step)
            if _is_in(fields[step]):
                yield path
            yield from paths(fields[step], path)


def _shown(step: str) -> str:
    sort, text = step[:2], step[2:]
    match sort:
        case "f:":
            return f".{text}"
        case "k:":
            keys = msgspec.json.decode(text)
            return "[" + ",".join(f"{name}={_encode(value).decode()}" for name, value in sorted(keys.items())) + "]"
        case "v:":
            return f"[={text}]"
    return f"[{text}]"


def cleaned(fields: Tree, depth: int = 0) -> Fields | None:
    """Return a set from a client in the canonical form, in which equal sets are equal; None if it is invalid."""
    if not isinstance(fields, dict) or depth > DEPTH_MAX:
        return None
    inside: Fields = {}
    for step, each in fields.items():
        if step == ITSELF:
            continue
        below = cleaned(each, depth + 1) if step.startswith(_STEPS) and _is_step(step) else None
        if below is None:
            return None
        inside[step] = below
    if depth == 0:
        return inside
    return {ITSELF: {}, **inside} if inside and ITSELF in fields else inside


def _is_step(step: str) -> bool:
    if step.startswith("f:"):
        return True
    try:
        value = msgspec.json.decode(step[2:])
    except msgspec.DecodeError:
        return False
    return isinstance(value, dict) or not step.startswith("k:")


# --- from values -----------------------------------------------------------------------------------------------------


def fields_of(value: Tree, node: FieldNode) -> Fields | None:
    """Return the fields of a value that can be owned; None if there is no value."""
    if value is None:
        return None
    if node.merge == "atomic":
        return {}
    if isinstance(value, dict) and node.by_field:
        return _fields_of_mapping(value, node)
    if isinstance(value, list) and node.sort == "list" and node.item is not None:
        if node.merge == "set":
            return {step_of(each, node): {} for each in value}
        return {step_of(each, node): _item_fields(each, node.item) for each in value}
    return {}


def _fields_of_mapping(value: dict[str, Tree], node: FieldNode) -> Fields | None:
    result: Fields = {}
    item = node.item
    if item is not None:
        for name, each in value.items():
            if (inside := fields_of(each, item)) is not None:
                result[f"f:{name}"] = inside
        return result
    known, keeps_unknown = node.fields, node.keeps_unknown
    for name, each in value.items():
        found = known.get(name)
        if found is None:
            if keeps_unknown and each is not None:
                result[f"f:{name}"] = {}
            continue
        step, inner = found
        if inner.merge == "atomic":
            if each is not None:
                result[step] = {}
        elif (inside := fields_of(each, inner)) is not None:
            result[step] = inside
    return result if result or not value else None  # no field in it can be owned


def _item_fields(value: Tree, item: FieldNode) -> Fields:
    inside = fields_of(value, item)
    return {ITSELF: {}, **inside} if inside else {}


def step_of(item: Tree, node: FieldNode) -> str:
    """Return the step that identifies an item of a keyed list or of a set."""
    if node.merge == "set" or not isinstance(item, dict):
        return f"v:{_encode(item).decode()}"
    keys = {name: item.get(name, default) for name, default in node.keys}
    return f"k:{_encode({name: value for name, value in keys.items() if value is not None}).decode()}"


def steps(items: list[Tree], node: FieldNode) -> dict[str, Tree]:
    """Return items by their steps; the first of duplicates counts."""
    result: dict[str, Tree] = {}
    for each in items:
        result.setdefault(step_of(each, node), each)
    return result


# --- between values --------------------------------------------------------------------------------------------------


def changes(old: Tree, new: Tree, node: FieldNode) -> Changes:
    """Return the fields set (added or changed) and removed between ``old`` and ``new``; None for no field.

    Set fields are listed one by one; a removed path ends where all fields below were removed too (``without``).
    """
    if old is None:
        return fields_of(new, node), None
    if new is None:
        return None, {}
    if node.by_field and isinstance(old, dict) and isinstance(new, dict):
        return _mapping_changes(old, new, node)
    if node.merge in ("keyed", "set") and isinstance(old, list) and isinstance(new, list):
        return _list_changes(old, new, node)
    return (None, None) if same(old, new, node) else ({}, None)


def _mapping_changes(old: dict[str, Tree], new: dict[str, Tree], node: FieldNode) -> Changes:
    if old == new:
        return None, None
    entries = {
        f"f:{name}": _entry_changes(old.get(name), new.get(name), name, node)
        for name in sorted(old.keys() | new.keys())
        if old.get(name) != new.get(name)
    }
    return _gathered(entries)


def _entry_changes(old: Tree, new: Tree, name: str, node: FieldNode) -> Changes:
    if node.item is not None:
        return changes(old, new, node.item)
    found = node.fields.get(name)
    if found is not None:
        return changes(old, new, found[1])
    if not node.keeps_unknown:
        return None, None
    return (None, {}) if new is None else ({}, None)


def _list_changes(old: list[Tree], new: list[Tree], node: FieldNode) -> Changes:
    before, after = steps(old, node), steps(new, node)
    entries = {step: _item_changes(step, before, after, node) for step in sorted(before.keys() | after.keys())}
    return _gathered(entries)


def _item_changes(step: str, before: dict[str, Tree], after: dict[str, Tree], node: FieldNode) -> Changes:
    item = node.item if node.merge == "keyed" else None
    if step not in before:
        return ({} if item is None else _item_fields(after[step], item)), None
    if step not in after:
        return None, {}
    return (None, None) if item is None else changes(before[step], after[step], item)


def _gathered(entries: dict[str, Changes]) -> Changes:
    more = {step: each for step, (each, _) in entries.items() if each is not None}
    less = {step: each for step, (_, each) in entries.items() if each is not None}
    return more or None, less or None


def same(old: Tree, new: Tree, node: FieldNode) -> bool:
    """Whether two values mean the same: amounts and times are compared by value, absent fields by their defaults."""
    if node.sort == "leaf":
        return _same_leaf(old, new, node.name)
    if isinstance(old, dict) and isinstance(new, dict):
        return all(_same_entry(old, new, name, node) for name in old.keys() | new.keys())
    if isinstance(old, list) and isinstance(new, list) and node.item is not None:
        item = node.item
        return len(old) == len(new) and all(same(a, b, item) for a, b in zip(old, new, strict=True))
    return bool(old == new)


def _same_entry(old: dict[str, Tree], new: dict[str, Tree], name: str, node: FieldNode) -> bool:
    found = node.fields.get(name)
    inner = found[1] if found else node.item
    if inner is None:
        return bool(old.get(name) == new.get(name))
    default = inner.default if inner.sort == "leaf" else None
    before, after = old.get(name, default), new.get(name, default)
    return before is after if before is None or after is None else same(before, after, inner)


def _same_leaf(old: Tree, new: Tree, name: str) -> bool:
    if old == new:
        return isinstance(old, bool) == isinstance(new, bool)
    parse = _PARSE.get(name)
    if parse is None:
        return False
    try:
        return bool(parse(old) == parse(new))
    except (ValueError, TypeError):
        return False
