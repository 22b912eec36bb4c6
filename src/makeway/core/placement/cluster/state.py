"""The live state of placement, with one undo log: every change has an inverse that the log keeps while a trial is open.

Arrays are never copied for a trial. Not here: which nodes a pod may use (``filters``), which pods are evicted together
(``units``), decisions.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from makeway.core.model import invariant
from makeway.core.placement.cluster.arrays import NOWHERE, amount
from makeway.core.placement.cluster.budgets import BudgetName, DisruptionBudgets
from makeway.core.placement.cluster.gangs import Gangs, WorkloadName
from makeway.core.placement.cluster.nodes import NodeTable
from makeway.core.placement.cluster.pods import RunningPods
from makeway.core.placement.model import Budget, Cluster, Node, Pod, PodKey, SchedulingWorkload
from makeway.core.undo import UndoLog

Scoring = Literal["Spread", "Pack"]
Labels = Mapping[str, str]


class ClusterState:
    """The live state. Change it through its methods; its tables are for reading only.

    ``thorough``: search further than S-15.2.4 and 15.4.7 ask; without it they are followed to the letter.
    """

    def __init__(self, *, scoring: Scoring = "Spread", thorough: bool = True) -> None:
        self.scoring: Scoring = scoring
        self.thorough = thorough
        self.log = UndoLog()
        self.nodes = NodeTable()
        self.pods: dict[PodKey, Pod] = {}  # all, waiting or running
        self.running = RunningPods()
        self.gangs = Gangs()
        self.budgets = DisruptionBudgets()
        self.namespaces: dict[str, Labels] = {}
        self.nominated: set[PodKey] = set()  # waiting pods with a promised node

    @classmethod
    def of(cls, cluster: Cluster, *, scoring: Scoring = "Spread", thorough: bool = True) -> ClusterState:
        state = cls(scoring=scoring, thorough=thorough)
        state._replace_nodes(sorted(cluster.nodes, key=lambda node: node.name))
        for workload in cluster.workloads:
            state.set_workload((workload.namespace, workload.name), workload)
        for budget in cluster.budgets:
            state.set_budget((budget.namespace, budget.name), budget)
        for namespace in cluster.namespaces:
            state.set_namespace(namespace.name, namespace.labels)
        for pod in sorted(cluster.pods, key=lambda pod: (pod.uid, pod.key)):
            state.add_pod(pod)
        return state

    @contextmanager
    def trial(self) -> Iterator[None]:
        """Everything done inside is undone on exit; trials nest."""
        with self.log.trial():
            yield

    # --- nodes -------------------------------------------------------------------------------------------------------

    def add_node(self, node: Node) -> None:
        """Add a node, or replace the one of its name."""
        before = list(self.nodes)
        kept = [other for other in before if other.name != node.name]
        at = bisect_left([other.name for other in kept], node.name)
        self._replace_nodes([*kept[:at], node, *kept[at:]])
        self.log.save(self._replace_nodes, before)

    def remove_node(self, name: str) -> None:
        """Remove a node; its pods stay, nowhere, until they are removed too."""
        before = list(self.nodes)
        self._replace_nodes([node for node in before if node.name != name])
        self.log.save(self._replace_nodes, before)

    def _replace_nodes(self, nodes: Sequence[Node]) -> None:
        table, running, before = self.nodes, self.running, self.nodes.index
        moved = table.replace(nodes)
        running.add_columns(len(table.columns))
        running.move(moved, {name: table.index[name] for name in table.index.keys() - before.keys()})
        placed = np.flatnonzero(running.alive & (running.node != NOWHERE))
        for column in range(len(table.columns)):
            np.add.at(table.requested[column], running.node[placed], running.requests[column, placed])

    # --- pods --------------------------------------------------------------------------------------------------------

    def add_pod(self, pod: Pod) -> None:
        """Add a pod, waiting or running, or replace the one of its key."""
        if pod.key in self.pods:
            self.remove_pod(pod.key)
        self._enter(pod)
        self.log.save(self._leave, pod.key)

    def remove_pod(self, key: PodKey) -> None:
        pod = self.pods.get(key)
        if pod is not None:
            self._leave(key)
            self.log.save(self._enter, pod)

    def bind(self, key: PodKey, node: str) -> None:
        """A waiting pod gets its place."""
        pod = self.pods[key]
        invariant(pod.node is None, "{} is bound twice", key)
        self.remove_pod(key)
        self.add_pod(replace(pod, node=node, nominated=None))

    def _enter(self, pod: Pod) -> None:
        self.pods[pod.key] = pod
        self.gangs.add_pod(pod)
        if pod.node is None:
            if pod.nominated is not None:
                self.nominated.add(pod.key)
            return
        nodes, running = self.nodes, self.running
        requests = {nodes.column(name): amount(value) for name, value in pod.requests.items()}
        running.add_columns(len(nodes.columns))
        number = nodes.index.get(pod.node, NOWHERE)
        row = running.add(pod, pod.node, number, requests)
        if number != NOWHERE:
            nodes.requested[:, number] += running.requests[:, row]
        running.guarded[row] = self.budgets.guard(pod)
        self._read_gang(pod, row)

    def _leave(self, key: PodKey) -> None:
        pod = self.pods.pop(key)
        self.gangs.remove_pod(pod)
        self.nominated.discard(key)
        if pod.node is not None:
            row = self.running.remove(pod, pod.node)
            number = self.running.node[row]
            if number != NOWHERE:
                self.nodes.requested[:, number] -= self.running.requests[:, row]

    def _read_gang(self, pod: Pod, row: int) -> None:
        """Set what its Workload says about a running pod: its priority as a victim, and the pods it makes way with."""
        running, gangs = self.running, self.gangs
        running.workload[row] = gangs.workload_of(pod) is not None
        running.priority[row] = gangs.victim_priority_of(pod)
        running.group[row] = gangs.unit_of(pod)

    # --- Workloads, budgets, namespaces; None takes one out ----------------------------------------------------------

    def set_workload(self, name: WorkloadName, workload: SchedulingWorkload | None) -> None:
        self._exchange(self._set_workload, name, workload)

    def _set_workload(self, name: WorkloadName, workload: SchedulingWorkload | None) -> SchedulingWorkload | None:
        before = self.gangs.set_workload(name, workload)
        for key in self.gangs.referring(*name):
            row = self.running.row_of.get(key)
            if row is not None:
                self._read_gang(self.pods[key], row)
        return before

    def set_budget(self, name: BudgetName, budget: Budget | None) -> None:
        self._exchange(self._set_budget, name, budget)

    def _set_budget(self, name: BudgetName, budget: Budget | None) -> Budget | None:
        before = self.budgets.set(name, budget)
        if before is None or budget is None or before.selector != budget.selector:
            for key, row in self.running.row_of.items():
                if key[0] == name[0]:
                    self.running.guarded[row] = self.budgets.guard(self.pods[key])
        return before

    def set_namespace(self, name: str, labels: Labels | None) -> None:
        self._exchange(self._set_namespace, name, labels)

    def _set_namespace(self, name: str, labels: Labels | None) -> Labels | None:
        before = self.namespaces.pop(name, None)
        if labels is not None:
            self.namespaces[name] = labels
        return before

    def _exchange(self, change: Callable[[Any, Any], Any], name: object, new: object) -> None:
        self.log.save(change, name, change(name, new))

    # --- to compare --------------------------------------------------------------------------------------------------

    def fingerprint(self) -> tuple[Any, ...]:
        """Equal for states with the same contents; rows may differ."""
        nodes, running, gangs = self.nodes, self.running, self.gangs
        pods = {}
        for key, row in running.row_of.items():
            group = int(running.group[row])
            mates = None if group < 0 else frozenset(k for k, r in running.row_of.items() if running.group[r] == group)
            values = (
                int(running.node[row]), int(running.priority[row]), bool(running.workload[row]),
                bool(running.guarded[row]),
            )  # fmt: skip
            requests = {name: n for name, column in nodes.columns.items() if (n := int(running.requests[column, row]))}
            pods[key] = (*values, requests, mates)
        requested = {name: tuple(nodes.requested[column].tolist()) for name, column in nodes.columns.items()}
        return (
            tuple(nodes), {name: values for name, values in requested.items() if any(values)}, pods,
            dict(self.pods), dict(gangs.workloads), dict(gangs.groups),
            {(each.namespace, each.name): each for each in self.budgets},
            set(self.nominated), set(running.with_anti_affinity), dict(self.namespaces),
            _held(gangs.running), _held(gangs.waiting), _held(running.by_node), _held(gangs.by_workload),
        )  # fmt: skip


def _held(table: Mapping[Any, Iterable[Any]]) -> dict[Any, frozenset[Any]]:
    return {key: frozenset(values) for key, values in table.items()}
