"""Which trees are at peace: counted rounds end for a workload that has held quota in peace for a while (S-19.3.2)."""

from __future__ import annotations

from makeway.core.model import DAWN, Millis, WorkloadKey
from makeway.core.undo import UndoLog

Tree = str  # the name of its root


class Peace:
    """The peace of all trees. A claim, or a workload that leaves, disturbs its tree unless time is the reason."""

    def __init__(self, log: UndoLog) -> None:
        self._log = log
        self._leaving: dict[WorkloadKey, Tree] = {}  # preempted, not by time, and not gone yet
        self._disturbing: dict[Tree, int] = {}  # how many claims and leaving workloads disturb it
        self._since: dict[Tree, Millis] = {}

    def since(self, tree: Tree) -> Millis | None:
        """Since when a tree is at peace, as far as that is known; None: it is not."""
        return None if tree in self._disturbing else self._since.get(tree, DAWN)

    def disturb(self, tree: Tree) -> None:
        self._log.put(self._disturbing, tree, self._disturbing.get(tree, 0) + 1)

    def calm(self, tree: Tree, at: Millis) -> None:
        """One disturbance of a tree has ended."""
        left = self._disturbing.get(tree, 0) - 1
        if left > 0:
            self._log.put(self._disturbing, tree, left)
        else:
            self._log.drop(self._disturbing, tree)
            self._log.put(self._since, tree, max(at, self._since.get(tree, DAWN)))

    def leaves(self, key: WorkloadKey, tree: Tree) -> bool:
        """Note that a workload was asked to leave; returns whether that is new."""
        if key in self._leaving:
            return False
        self._log.put(self._leaving, key, tree)
        return True

    def left(self, key: WorkloadKey, now: Millis) -> None:
        tree = self._leaving.get(key)
        if tree is not None:
            self._log.drop(self._leaving, key)
            self.calm(tree, now)

    def contents(self) -> object:
        return (
            dict(sorted(self._disturbing.items())), dict(sorted(self._since.items())),
            dict(sorted(self._leaving.items())),
        )  # fmt: skip
