"""Objects as a table for ``kubectl get`` (``as=Table``), for our kinds and those of Kubernetes.

The columns of our kinds are declared with the kinds (``api.versions``); those of Kubernetes kinds are the usual ones,
with the cells of a Pod, a Job, a Node in ``cells``. A row is a function of the object and of ``now``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal

from makeway.adapters.server.resources import cells
from makeway.adapters.server.resources.cells import Cell
from makeway.adapters.server.resources.troubles import GaveUp, log_trouble
from makeway.api.reading.documents import Tree
from makeway.api.versions import Column, Kind, from_stored
from makeway.core.model import Millis
from makeway.runtime.informers import ref_of
from makeway.runtime.ports import Stored

Objects = Literal["None", "Metadata", "Object"]
Cells = Callable[[dict[str, Tree], Millis], Sequence[Cell]]

TABLES = "tables"  # the part that gives up on an object here
UNREADABLE = "<unreadable>"
_META = "meta.k8s.io/v1"
_STEP = re.compile(r"\.(\w+)|\[\?\(@\.(\w+)=='(\w+)'\)\]")
_FORMATS = {"Name": "name"}


@dataclass(frozen=True, slots=True)
class Layout:
    """The columns of a kind, and the cells of its objects."""

    columns: tuple[Mapping[str, Tree], ...]
    cells: Cells


def table(
    kind: Kind, version: str, items: Sequence[Stored], *, now: Millis, objects: str = "Metadata",
    gave_up: GaveUp = log_trouble,
) -> dict[str, Tree]:  # fmt: skip
    """Return ``items`` as a Table of one of the kind's versions, without the metadata of the list.

    ``objects`` says how much of each object goes beside its row: None, Metadata or Object. An object that cannot be
    shown gets a row that says so, and ``gave_up`` is called with it.
    """
    layout = _layout(kind.stored)
    rows = []
    for each in items:
        tree = each.tree()
        try:
            row: dict[str, Tree] = {"cells": layout.cells(tree, now)}
        except Exception as error:
            gave_up(ref_of(each), TABLES, error)
            row = {"cells": [each.name, UNREADABLE, *[None] * (len(layout.columns) - 2)]}
        beside = _beside(kind, version, tree, objects)
        rows.append(row if beside is None else {**row, "object": beside})
    return {"kind": "Table", "apiVersion": _META, "metadata": {}, "columnDefinitions": layout.columns, "rows": rows}


def _beside(kind: Kind, version: str, tree: dict[str, Tree], objects: str) -> dict[str, Tree] | None:
    match objects:
        case "None":
            return None
        case "Object":
            return from_stored(kind, version, tree)
    return {"kind": "PartialObjectMetadata", "apiVersion": _META, "metadata": tree.get("metadata", {})}


@cache
def _layout(kind: Kind) -> Layout:
    """Return the layout of the stored form of a kind: cells are the same in every version."""
    if not kind.ours:
        layout = _KUBERNETES.get((kind.group, kind.name))
        return layout or Layout(_definitions("Name, Created At"), cells.created)
    columns = kind.columns or (Column("Age", "date", ".metadata.creationTimestamp"),)
    paths = [_path(each.json_path) for each in columns]

    def fill(tree: dict[str, Tree], now: Millis) -> Sequence[Cell]:
        found = (_cell(column, tree, path, now) for column, path in zip(columns, paths, strict=True))
        return [tree["metadata"].get("name", ""), *found]

    definitions = [_definition(each.name, each.type, int(each.wide)) for each in columns]
    return Layout((*_definitions("Name"), *definitions), fill)


def _definition(name: str, type: str = "string", priority: int = 0) -> dict[str, Tree]:
    return {"name": name, "type": type, "format": _FORMATS.get(name, ""), "description": "", "priority": priority}


# --- cells by path ---------------------------------------------------------------------------------------------------


def _path(text: str) -> tuple[tuple[str, str, str], ...]:
    """Return the steps of a path such as ``.status.conditions[?(@.type=='Active')].status``."""
    return tuple(_STEP.findall(text))


def _cell(column: Column, tree: dict[str, Tree], path: tuple[tuple[str, str, str], ...], now: Millis) -> Cell:
    value: Tree = tree
    for i, (field, key, wanted) in enumerate(path):
        parent = value
        if field:
            value = parent.get(field) if isinstance(parent, dict) else None
        elif isinstance(parent, list):
            value = next((each for each in parent if isinstance(each, dict) and each.get(key) == wanted), None)
        if value is None:
            # an absent count is 0 if its block is present
            return 0 if column.type == "integer" and i == len(path) - 1 and i > 0 else None
    if column.type == "date":
        return cells.age(value, now)
    if column.type == "integer":
        return value if isinstance(value, int) else None
    return value if isinstance(value, str) else str(value)


# --- the kinds of Kubernetes -----------------------------------------------------------------------------------------


def _definitions(text: str) -> tuple[Mapping[str, Tree], ...]:
    """Return columns by name; ``+`` before a name: in wide tables only; ``#``: integers."""
    result = []
    for name in (each.strip() for each in text.split(",")):
        plain = name.lstrip("+#")
        marks = name[: len(name) - len(plain)]
        result.append(_definition(plain, "integer" if "#" in marks else "string", int("+" in marks)))
    return tuple(result)


_KUBERNETES: dict[tuple[str, str], Layout] = {
    ("", "Namespace"): Layout(_definitions("Name, Status, Age"), cells.namespace),
    ("", "Node"): Layout(
        _definitions(
            "Name, Status, Roles, Age, Version, +Internal-IP, +External-IP, +OS-Image, +Kernel-Version, "
            "+Container-Runtime"
        ),
        cells.node,
    ),
    ("", "Pod"): Layout(
        _definitions("Name, Ready, Status, Restarts, Age, +IP, +Node, +Nominated Node, +Readiness Gates"), cells.pod
    ),
    ("", "Secret"): Layout(_definitions("Name, Type, #Data, Age"), cells.secret),
    ("", "ConfigMap"): Layout(_definitions("Name, #Data, Age"), cells.config_map),
    ("", "Event"): Layout(
        _definitions(
            "Last Seen, Type, Reason, Object, +Subobject, +Source, Message, +First Seen, #+Count, +Name"
        ),
        cells.event,
    ),
    ("batch", "Job"): Layout(
        _definitions("Name, Status, Completions, Duration, Age, +Containers, +Images, +Selector"), cells.job
    ),
    ("scheduling.k8s.io", "PriorityClass"): Layout(
        _definitions("Name, #Value, Global-Default, Age, PreemptionPolicy"), cells.priority_class
    ),
    ("policy", "PodDisruptionBudget"): Layout(
        _definitions("Name, Min Available, Max Unavailable, #Allowed Disruptions, Age"), cells.disruption_budget
    ),
    ("node.k8s.io", "RuntimeClass"): Layout(_definitions("Name, Handler, Age"), cells.runtime_class),
    ("coordination.k8s.io", "Lease"): Layout(_definitions("Name, Holder, Age"), cells.lease),
}  # fmt: skip
