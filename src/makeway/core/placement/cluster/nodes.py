"""The nodes by name, with what each has and what is requested of it.

Of equally good nodes the first one has the least name. In arrays the rows are resources (a *column* of a node's
description: pods, cpu, memory, and then what nodes or pods name), and each node has a number.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from makeway.core.placement.cluster.arrays import NOWHERE, Bools, Ints, amount
from makeway.core.placement.model import POD_COUNT, Node


class NodeTable:
    def __init__(self) -> None:
        self._nodes: Sequence[Node] = ()
        self.index: Mapping[str, int] = {}  # the number of each node
        self.columns: dict[str, int] = {POD_COUNT: 0, "cpu": 1, "memory": 2}  # the number of each resource
        self.allocatable: Ints = np.zeros((3, 0), np.int64)
        self.requested: Ints = np.zeros((3, 0), np.int64)
        self.usable: dict[object, Bools] = {}  # the nodes that a kind of pod may use; ``filters`` fills it
        self.preferences: dict[object, Ints | None] = {}  # the nodes that it prefers; ``filters`` fills it

    def __len__(self) -> int:
        return len(self._nodes)

    def __iter__(self) -> Iterator[Node]:
        return iter(self._nodes)

    def __getitem__(self, number: int) -> Node:
        return self._nodes[number]

    def get(self, name: str) -> Node | None:
        number = self.index.get(name)
        return None if number is None else self._nodes[number]

    def column(self, resource: str) -> int:
        """The number of a resource; a new resource gets one."""
        column = self.columns.get(resource)
        if column is None:
            column = self.columns[resource] = len(self.columns)
            self.allocatable = np.vstack([self.allocatable, np.zeros_like(self.allocatable[:1])])
            self.requested = np.vstack([self.requested, np.zeros_like(self.requested[:1])])
        return column

    def replace(self, nodes: Sequence[Node]) -> Ints:
        """Number these nodes; what is known of nodes that stay is moved, not computed. Nothing is requested yet.

        Returns the new number for each old one, and ``NOWHERE`` as its last value.
        """
        before, old = self.index, self._nodes
        self._nodes = nodes
        self.index = {node.name: i for i, node in enumerate(nodes)}
        stays = [i for i, node in enumerate(nodes) if (at := before.get(node.name)) is not None and old[at] is node]
        kept = set(stays)
        for node in nodes if len(kept) < len(nodes) else ():
            for name in node.allocatable:
                self.column(name)
        was = [before[nodes[i].name] for i in stays]
        allocatable = np.zeros((len(self.columns), len(nodes)), np.int64)
        allocatable[:, stays] = self.allocatable[:, was]
        for i, node in enumerate(nodes):
            if i not in kept:
                for name, value in node.allocatable.items():
                    allocatable[self.columns[name], i] = amount(value)
        self.allocatable = allocatable
        self.requested = np.zeros_like(allocatable)
        self.usable, self.preferences = {}, {}
        moved: Ints = np.full(len(before) + 1, NOWHERE)
        for name, at in before.items():
            moved[at] = self.index.get(name, NOWHERE)
        return moved
