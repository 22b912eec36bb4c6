"""Merging of trees in server-side apply: wanted fields are put into the object, fields no longer wanted are removed.

Not here: which manager owns which field (``field_ownership``).
"""

from __future__ import annotations

from collections.abc import Iterator

from makeway.adapters.server.changes.field_sets import ITSELF, Fields, step_of
from makeway.adapters.server.changes.merging import FieldNode, in_place
from makeway.adapters.server.changes.patches import PatchRefused
from makeway.api.problems import Problem, entry
from makeway.api.reading.documents import Tree
from makeway.api.reading.structure import Reader
from makeway.api.versions import Kind
from makeway.runtime.ports import Invalid


def check(kind: Kind, version: str, wanted: Tree) -> None:
    """Refuse what cannot be applied: wrong types, an object without metadata, a tree with managedFields."""
    reader = Reader("Ignore", limits=False)
    reader.read(wanted, kind.shape(version))
    if isinstance(wanted, dict) and wanted.get("metadata") is None:
        reader.problems.append(Problem("metadata", "required", "name the object", cause="Required"))
    if reader.problems:
        raise Invalid(reader.problems)
    if wanted["metadata"].get("managedFields"):
        raise PatchRefused(400, "metadata.managedFields must be nil")


def check_items(config: Tree, node: FieldNode) -> None:
    """Refuse lists with duplicate items."""
    if found := list(_doubles(config, node, "")):
        raise Invalid(found)


def _doubles(value: Tree, node: FieldNode, path: str) -> Iterator[Problem]:
    """Yield duplicate items of keyed lists and sets: it is ambiguous which one is meant."""
    if node.merge == "atomic" or value is None:
        return
    if node.sort == "list" and isinstance(value, list):
        seen: dict[str, int] = {}
        for i, each in enumerate(value):
            first = seen.setdefault(step_of(each, node), i)
            if first != i:
                yield Problem(f"{path}[{i}]", f"the same as {path}[{first}]", "keep one of them", cause="Duplicate")
            if node.item is not None:
                yield from _doubles(each, node.item, f"{path}[{i}]")
    elif isinstance(value, dict):
        for name, each in value.items():
            if node.item is not None:
                yield from _doubles(each, node.item, entry(path, name))
            elif name in node.fields:
                yield from _doubles(each, node.fields[name][1], f"{path}.{name}" if path else name)


def merged(live: Tree, wanted: Tree, node: FieldNode) -> Tree:
    """Return ``live`` with the wanted fields; a null removes a field. Unknown fields are validated later."""
    if node.by_field and isinstance(live, dict) and isinstance(wanted, dict):
        result = dict(live)
        for name, each in wanted.items():
            found = node.fields.get(name)
            inner = found[1] if found else node.item
            if inner is None and not node.keeps_unknown:
                if name not in live and each is not None:
                    result[name] = each
            elif each is None:
                result.pop(name, None)
            else:
                result[name] = each if inner is None else merged(live.get(name), each, inner)
        return result
    if node.merge in ("keyed", "set") and isinstance(live, list) and isinstance(wanted, list):
        return _merged_list(live, wanted, node)
    return without_nulls(wanted)


def _merged_list(live: list[Tree], wanted: list[Tree], node: FieldNode) -> list[Tree]:
    result, tokens = list(live), [step_of(each, node) for each in live]
    there: dict[str, int] = {}
    for i, token in enumerate(tokens):
        there.setdefault(token, i)
    for each in wanted:
        step = step_of(each, node)
        if step not in there:
            result.append(without_nulls(each))
            tokens.append(step)
        elif node.item is not None and node.merge == "keyed":
            result[there[step]] = merged(result[there[step]], each, node.item)
    places = {step_of(each, node): i for i, each in enumerate(wanted)}
    return [result[i] for i in in_place(tokens, places, there)]


def pruned(value: Tree, last: Fields, owned: Fields, node: FieldNode) -> Tree:
    """Return ``value`` without the fields of ``last`` that no manager owns, nor any field below them."""
    if isinstance(value, dict) and node.by_field:
        result = dict(value)
        for step, below in last.items():
            name = step[2:]
            if step == ITSELF or name not in result:
                continue
            if step not in owned:
                del result[name]
            elif (inner := node.fields[name][1] if name in node.fields else node.item) is not None:
                result[name] = pruned(result[name], below, owned[step], inner)
        return result
    if isinstance(value, list) and node.merge in ("keyed", "set"):
        kept = []
        for each in value:
            step = step_of(each, node)
            if step not in last:
                kept.append(each)
            elif step in owned:
                kept.append(each if node.item is None else pruned(each, last[step], owned[step], node.item))
        return kept
    return value


def without_nulls(tree: Tree) -> Tree:
    if isinstance(tree, dict):
        return {name: without_nulls(each) for name, each in tree.items() if each is not None}
    return [without_nulls(each) for each in tree] if isinstance(tree, list) else tree
