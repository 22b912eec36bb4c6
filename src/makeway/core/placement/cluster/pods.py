"""The pods on nodes as arrays, one row each; rows are reused."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Mapping

import numpy as np

from makeway.core.placement.cluster.arrays import NOWHERE, Bools, Ints
from makeway.core.placement.model import Pod, PodKey, Port

_GAP = 2**24
_FIRST_ROWS = 16

Identity = tuple[str, PodKey]  # uid and key


class Ranks:
    """Numbers in the order of the identities they stand for, so that arrays can sort by identity."""

    def __init__(self) -> None:
        self._sorted: list[Identity] = []
        self._number: dict[Identity, int] = {}

    def enter(self, identity: Identity) -> tuple[int, bool]:
        """The number of an identity, and whether all others got new numbers to make room for it."""
        at = bisect_left(self._sorted, identity)
        below = self._number[self._sorted[at - 1]] if at else 0
        above = self._number[self._sorted[at]] if at < len(self._sorted) else below + 2 * _GAP
        insort(self._sorted, identity)
        if above - below > 1:
            self._number[identity] = (below + above) // 2
            return self._number[identity], False
        for i, other in enumerate(self._sorted):
            self._number[other] = (i + 1) * _GAP
        return self._number[identity], True

    def leave(self, identity: Identity) -> None:
        del self._sorted[bisect_left(self._sorted, identity)]
        del self._number[identity]

    def of(self, identity: Identity) -> int:
        return self._number[identity]


class RunningPods:
    def __init__(self) -> None:
        self.alive: Bools = np.zeros(_FIRST_ROWS, bool)
        self.node: Ints = np.full(_FIRST_ROWS, NOWHERE)
        self.priority: Ints = np.zeros(_FIRST_ROWS, np.int64)  # as a victim
        self.workload: Bools = np.zeros(_FIRST_ROWS, bool)  # its reference resolves
        self.group: Ints = np.full(_FIRST_ROWS, -1)  # the group with which it makes way; -1: by itself
        self.start: Ints = np.zeros(_FIRST_ROWS, np.int64)
        self.rank: Ints = np.zeros(_FIRST_ROWS, np.int64)  # by uid and name
        self.guarded: Bools = np.zeros(_FIRST_ROWS, bool)  # some budget selects it
        self.requests: Ints = np.zeros((3, _FIRST_ROWS), np.int64)  # resources by rows
        self.pods: list[Pod | None] = [None] * _FIRST_ROWS
        self.row_of: dict[PodKey, int] = {}
        self.ports: dict[Port, set[int]] = {}  # the rows of pods that hold them
        self.with_anti_affinity: set[PodKey] = set()  # pods that keep others away
        self.by_node: dict[str, set[PodKey]] = {}
        self._ranks = Ranks()
        self._unused = list(range(_FIRST_ROWS - 1, -1, -1))

    def on_node(self, name: str) -> frozenset[PodKey]:
        return frozenset(self.by_node.get(name, ()))

    def add(self, pod: Pod, node: str, number: int, requests: Mapping[int, int]) -> int:
        """The row of a pod that comes to a node, which may be unknown; ``requests`` are amounts by column."""
        if not self._unused:
            self._add_rows()
        row = self._unused.pop()
        self.row_of[pod.key] = row
        self.pods[row] = pod
        self.alive[row] = True
        self.node[row] = number
        self.start[row] = pod.start
        self.rank[row], are_all_new = self._ranks.enter((pod.uid, pod.key))
        if are_all_new:
            for other in self.row_of.values():
                ranked = self.pods[other]
                assert ranked is not None
                self.rank[other] = self._ranks.of((ranked.uid, ranked.key))
        self.requests[:, row] = 0
        for column, value in requests.items():
            self.requests[column, row] = value
        self.requests[0, row] = 1  # each row is one pod, whatever it requests
        self.by_node.setdefault(node, set()).add(pod.key)
        for port in pod.ports:
            self.ports.setdefault(port, set()).add(row)
        if pod.anti_affinity:
            self.with_anti_affinity.add(pod.key)
        return row

    def remove(self, pod: Pod, node: str) -> int:
        """The row that the pod had; its values stay until the row is reused."""
        row = self.row_of.pop(pod.key)
        self._ranks.leave((pod.uid, pod.key))
        self.by_node[node].discard(pod.key)
        if not self.by_node[node]:
            del self.by_node[node]
        for port in pod.ports:
            self.ports[port].discard(row)
            if not self.ports[port]:
                del self.ports[port]
        self.with_anti_affinity.discard(pod.key)
        self.alive[row] = False
        self.pods[row] = None
        self._unused.append(row)
        return row

    def move(self, moved: Ints, came: Mapping[str, int]) -> None:
        """Nodes have new numbers: ``moved`` by the old ones, with ``NOWHERE`` at its end, and those that ``came``."""
        self.node = moved[self.node]
        for name, number in came.items():
            for key in self.by_node.get(name, ()):
                self.node[self.row_of[key]] = number

    def add_columns(self, count: int) -> None:
        """Make room for so many resources in all."""
        more = count - len(self.requests)
        if more > 0:
            self.requests = np.vstack([self.requests, np.zeros((more, len(self.alive)), np.int64)])

    def _add_rows(self) -> None:
        old = len(self.alive)
        for name in ("alive", "node", "priority", "workload", "group", "start", "rank", "guarded"):
            array = getattr(self, name)
            setattr(self, name, np.concatenate([array, np.zeros(old, array.dtype)]))
        self.requests = np.concatenate([self.requests, np.zeros_like(self.requests)], axis=1)
        self.pods.extend([None] * old)
        self._unused.extend(range(2 * old - 1, old - 1, -1))
