"""What stands where: nodes by resources and the pods on them as int64 arrays, kept incrementally, on the one undo log.

Nodes lie in order of their names, so the first of equals is the one with the least name. A pod is a row; rows are
used again. Every change has an inverse that the log keeps while a trial is open; arrays are never copied for one.

Exactness (decision 0050): amounts are milli-cpu and whole units, held within ±``MOST_AMOUNT``. 2,048 pods that each ask
for that much still sum up within 64 bits, and differences of sums are exact even where a sum wraps.

Not here: who may use a node (``filters``), who is evicted together (``units``), what is decided.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from makeway.core.model import invariant, selects
from makeway.core.placement.model import (
    POD_COUNT,
    Budget,
    Cluster,
    Member,
    Namespace,
    Node,
    Pod,
    PodGang,
    PodKey,
    Port,
    SchedulingWorkload,
)
from makeway.core.undo import UndoLog

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Scoring = Literal["Spread", "Pack"]

MOST_AMOUNT = 2**52
NOWHERE = -1  # the node of a pod whose node is not known
_GAP = 2**24
_FIRST_ROWS = 16


def amount(value: int) -> int:
    return max(-MOST_AMOUNT, min(MOST_AMOUNT, value))


class Ranks:
    """Numbers that compare like the identities they stand for, so that arrays can sort by identity."""

    def __init__(self) -> None:
        self._sorted: list[tuple[str, PodKey]] = []
        self._number: dict[tuple[str, PodKey], int] = {}

    def enter(self, who: tuple[str, PodKey]) -> tuple[int, bool]:
        """Its number, and whether all others were numbered anew to make room for it."""
        at = bisect_left(self._sorted, who)
        below = self._number[self._sorted[at - 1]] if at else 0
        above = self._number[self._sorted[at]] if at < len(self._sorted) else below + 2 * _GAP
        insort(self._sorted, who)
        if above - below > 1:
            self._number[who] = (below + above) // 2
            return self._number[who], False
        for i, each in enumerate(self._sorted):
            self._number[each] = (i + 1) * _GAP
        return self._number[who], True

    def leave(self, who: tuple[str, PodKey]) -> None:
        del self._sorted[bisect_left(self._sorted, who)]
        del self._number[who]

    def of(self, who: tuple[str, PodKey]) -> int:
        return self._number[who]


class PodRows:
    """The pods that run, a row each."""

    def __init__(self, columns: int) -> None:
        self.alive: Bools = np.zeros(_FIRST_ROWS, bool)
        self.node: Ints = np.full(_FIRST_ROWS, NOWHERE)
        self.priority: Ints = np.zeros(_FIRST_ROWS, np.int64)  # as a victim
        self.workload: Bools = np.zeros(_FIRST_ROWS, bool)  # its reference resolves
        self.group: Ints = np.full(_FIRST_ROWS, -1)  # with whom it makes way; -1: by itself
        self.start: Ints = np.zeros(_FIRST_ROWS, np.int64)
        self.rank: Ints = np.zeros(_FIRST_ROWS, np.int64)  # by uid and name
        self.guarded: Bools = np.zeros(_FIRST_ROWS, bool)  # some budget selects it
        self.use: Ints = np.zeros((columns, _FIRST_ROWS), np.int64)
        self.pods: list[Pod | None] = [None] * _FIRST_ROWS
        self._unused = list(range(_FIRST_ROWS - 1, -1, -1))

    def take(self) -> int:
        if not self._unused:
            self._grow()
        return self._unused.pop()

    def give(self, row: int) -> None:
        self.alive[row] = False
        self.pods[row] = None
        self._unused.append(row)

    def _grow(self) -> None:
        old = len(self.alive)
        for name in ("alive", "node", "priority", "workload", "group", "start", "rank", "guarded"):
            array = getattr(self, name)
            setattr(self, name, np.concatenate([array, np.zeros(old, array.dtype)]))
        self.use = np.concatenate([self.use, np.zeros_like(self.use)], axis=1)
        self.pods.extend([None] * old)
        self._unused.extend(range(2 * old - 1, old - 1, -1))


class Placement:
    """The live state of placement: change it through its methods, ask it through ``preemption`` and ``cycle``."""

    def __init__(self, *, scoring: Scoring = "Spread", thorough: bool = True) -> None:
        self.scoring: Scoring = scoring
        self.thorough = (
            thorough  # look further than S-15.2.4 and 15.4.7 ask; without it they are followed to the letter
        )
        self.log = UndoLog()
        self.columns: dict[str, int] = {POD_COUNT: 0, "cpu": 1, "memory": 2}
        self.nodes: list[Node] = []  # by name
        self.index: dict[str, int] = {}
        self.allocatable: Ints = np.zeros((3, 0), np.int64)
        self.used: Ints = np.zeros((3, 0), np.int64)
        self.masks: dict[object, Bools] = {}  # which nodes a kind of pod may use; ``filters`` fills it
        self.preferences: dict[object, Ints | None] = {}  # which it would rather have; ``filters`` fills it
        self.rows = PodRows(3)
        self.pods: dict[PodKey, Pod] = {}
        self.row_of: dict[PodKey, int] = {}
        self.workloads: dict[tuple[str, str], SchedulingWorkload] = {}
        self.groups: dict[tuple[str, str, str], PodGang] = {}
        self.budgets: dict[tuple[str, str], Budget] = {}
        self.namespaces: dict[str, Mapping[str, str]] = {}  # their labels
        self._budgets_in: dict[str, dict[str, Budget]] = {}  # by namespace
        self.running: dict[tuple[str, Member], set[PodKey]] = {}
        self.waiting: dict[tuple[str, Member], set[PodKey]] = {}
        self.nominated: set[PodKey] = set()  # that wait and were promised a node
        self.wary: set[PodKey] = set()  # that run and keep others away
        self.ports: dict[Port, set[int]] = {}
        self._referring: dict[tuple[str, str], set[PodKey]] = {}
        self._standing: dict[str, set[PodKey]] = {}
        self._ranks = Ranks()
        self._group_ids: dict[tuple[str, Member], int] = {}

    @classmethod
    def of(cls, cluster: Cluster, *, scoring: Scoring = "Spread", thorough: bool = True) -> Placement:
        state = cls(scoring=scoring, thorough=thorough)
        state._replace_nodes(sorted(cluster.nodes, key=lambda node: node.name))
        for workload in cluster.workloads:
            state.put_workload(workload)
        for budget in cluster.budgets:
            state.put_budget(budget)
        for namespace in cluster.namespaces:
            state.put_namespace(namespace)
        for pod in sorted(cluster.pods, key=_identity):
            state.add_pod(pod)
        return state

    @contextmanager
    def trial(self) -> Iterator[None]:
        """Everything done inside is undone on exit; trials nest."""
        with self.log.trial():
            yield

    # --- nodes -------------------------------------------------------------------------------------------------------

    def add_node(self, node: Node) -> None:
        """Put a node in, or in the place of one of its name."""
        before = self.nodes
        kept = [each for each in before if each.name != node.name]
        at = bisect_left([each.name for each in kept], node.name)
        self._replace_nodes([*kept[:at], node, *kept[at:]])
        self.log.save(self._replace_nodes, before)

    def remove_node(self, name: str) -> None:
        """Take a node out; its pods stay, nowhere, until they are removed too."""
        before = self.nodes
        self._replace_nodes([each for each in before if each.name != name])
        self.log.save(self._replace_nodes, before)

    def _replace_nodes(self, nodes: list[Node]) -> None:
        """Numbers the nodes anew; what is known of those that stay is moved, not computed."""
        before, old = self.index, self.nodes
        self.nodes = nodes
        self.index = {node.name: i for i, node in enumerate(nodes)}
        stays = [i for i, node in enumerate(nodes) if (at := before.get(node.name)) is not None and old[at] is node]
        kept = set(stays)
        for node in nodes if len(kept) < len(nodes) else ():
            for name in node.allocatable:
                self._column(name)
        was = [before[nodes[i].name] for i in stays]
        allocatable = np.zeros((len(self.columns), len(nodes)), np.int64)
        allocatable[:, stays] = self.allocatable[:, was]
        for i, node in enumerate(nodes):
            if i not in kept:
                for name, value in node.allocatable.items():
                    allocatable[self.columns[name], i] = amount(value)
        self.allocatable = allocatable
        self.masks, self.preferences = {}, {}
        self._move_pods(before)

    def _move_pods(self, before: dict[str, int]) -> None:
        """Let the pods know the new numbers of their nodes, and the nodes what stands on them."""
        rows = self.rows
        number: Ints = np.full(len(before) + 1, NOWHERE)  # the last one: of those that stand nowhere
        for name, at in before.items():
            number[at] = self.index.get(name, NOWHERE)
        rows.node = number[rows.node]
        for name in self.index.keys() - before.keys():
            for key in self._standing.get(name, ()):
                rows.node[self.row_of[key]] = self.index[name]
        self.used = np.zeros_like(self.allocatable)
        placed = np.flatnonzero(rows.alive & (rows.node != NOWHERE))
        for column in range(len(self.columns)):
            np.add.at(self.used[column], rows.node[placed], rows.use[column, placed])

    def _column(self, resource: str) -> int:
        column = self.columns.get(resource)
        if column is None:
            column = self.columns[resource] = len(self.columns)
            self.allocatable = np.vstack([self.allocatable, np.zeros_like(self.allocatable[:1])])
            self.used = np.vstack([self.used, np.zeros_like(self.used[:1])])
            self.rows.use = np.vstack([self.rows.use, np.zeros_like(self.rows.use[:1])])
        return column

    # --- pods --------------------------------------------------------------------------------------------------------

    def add_pod(self, pod: Pod) -> None:
        """Put a pod in, waiting or running, or in the place of one of its key."""
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
        key = pod.key
        self.pods[key] = pod
        _, anew = self._ranks.enter(_identity(pod))
        if anew:
            for other, row in self.row_of.items():
                self.rows.rank[row] = self._ranks.of(_identity(self.pods[other]))
        if pod.member is not None:
            place = (key[0], pod.member)
            self._referring.setdefault((key[0], pod.member.workload), set()).add(key)
            (self.waiting if pod.node is None else self.running).setdefault(place, set()).add(key)
        if pod.node is None:
            if pod.nominated is not None:
                self.nominated.add(key)
            return
        self._stand(pod, pod.node)

    def _stand(self, pod: Pod, node: str) -> None:
        uses = [(self._column(name), amount(value)) for name, value in pod.requests.items()]
        rows, row = self.rows, self.rows.take()
        self.row_of[pod.key] = row
        rows.pods[row] = pod
        rows.alive[row] = True
        rows.node[row] = at = self.index.get(node, NOWHERE)
        rows.start[row] = pod.start
        rows.rank[row] = self._ranks.of(_identity(pod))
        rows.guarded[row] = any(True for _ in self.budgets_of(pod))
        rows.use[:, row] = 0
        for column, value in uses:
            rows.use[column, row] = value
        rows.use[0, row] = 1  # whatever it asks for: it is one pod
        if at != NOWHERE:
            self.used[:, at] += rows.use[:, row]
        self._standing.setdefault(node, set()).add(pod.key)
        for port in pod.ports:
            self.ports.setdefault(port, set()).add(row)
        if pod.anti_affinity:
            self.wary.add(pod.key)
        self._weigh(row)

    def _leave(self, key: PodKey) -> None:
        pod = self.pods.pop(key)
        self._ranks.leave(_identity(pod))
        if pod.member is not None:
            _discard(self._referring, (key[0], pod.member.workload), key)
            _discard(self.waiting if pod.node is None else self.running, (key[0], pod.member), key)
        self.nominated.discard(key)
        if pod.node is None:
            return
        row = self.row_of.pop(key)
        at = self.rows.node[row]
        if at != NOWHERE:
            self.used[:, at] -= self.rows.use[:, row]
        _discard(self._standing, pod.node, key)
        for port in pod.ports:
            _discard(self.ports, port, row)
        self.wary.discard(key)
        self.rows.give(row)

    def _weigh(self, row: int) -> None:
        """What its Workload says of a running pod: its priority as a victim, and with whom it goes."""
        rows, pod = self.rows, self.rows.pods[row]
        assert pod is not None
        workload, group = self.workload_of(pod), self.group_of(pod)
        rows.workload[row] = workload is not None
        rows.priority[row] = pod.priority if workload is None else workload.preemption_priority
        rows.group[row] = -1
        if group is not None and group.whole and pod.member is not None:
            place = (pod.key[0], pod.member)
            rows.group[row] = self._group_ids.setdefault(place, len(self._group_ids))

    # --- Workloads, budgets, namespaces ------------------------------------------------------------------------------

    def put_workload(self, workload: SchedulingWorkload) -> None:
        self._set_workload((workload.namespace, workload.name), workload)

    def remove_workload(self, namespace: str, name: str) -> None:
        self._set_workload((namespace, name), None)

    def _set_workload(self, key: tuple[str, str], workload: SchedulingWorkload | None) -> None:
        before = self.workloads.get(key)
        self._exchange_workload(key, workload)
        self.log.save(self._exchange_workload, key, before)

    def _exchange_workload(self, key: tuple[str, str], workload: SchedulingWorkload | None) -> None:
        old = self.workloads.pop(key, None)
        for group in old.groups if old is not None else ():
            self.groups.pop(group.key, None)
        if workload is not None:
            self.workloads[key] = workload
            self.groups.update({group.key: group for group in workload.groups})
        for pod in self._referring.get(key, ()):
            if (row := self.row_of.get(pod)) is not None:
                self._weigh(row)

    def put_budget(self, budget: Budget) -> None:
        self._set_budget((budget.namespace, budget.name), budget)

    def remove_budget(self, namespace: str, name: str) -> None:
        self._set_budget((namespace, name), None)

    def _set_budget(self, key: tuple[str, str], budget: Budget | None) -> None:
        before = self.budgets.get(key)
        self._exchange_budget(key, budget)
        self.log.save(self._exchange_budget, key, before)

    def _exchange_budget(self, key: tuple[str, str], budget: Budget | None) -> None:
        before = self.budgets.pop(key, None)
        here = self._budgets_in.setdefault(key[0], {})
        here.pop(key[1], None)
        if budget is not None:
            self.budgets[key] = here[key[1]] = budget
        if before is not None and budget is not None and before.selector == budget.selector:
            return
        for pod, row in self.row_of.items():
            if pod[0] == key[0]:
                self.rows.guarded[row] = any(True for _ in self.budgets_of(self.pods[pod]))

    def put_namespace(self, namespace: Namespace) -> None:
        self._set_namespace(namespace.name, namespace.labels)

    def remove_namespace(self, name: str) -> None:
        self._set_namespace(name, None)

    def _set_namespace(self, name: str, labels: Mapping[str, str] | None) -> None:
        before = self.namespaces.get(name)
        self._exchange_namespace(name, labels)
        self.log.save(self._exchange_namespace, name, before)

    def _exchange_namespace(self, name: str, labels: Mapping[str, str] | None) -> None:
        self.namespaces.pop(name, None)
        if labels is not None:
            self.namespaces[name] = labels

    # --- questions ---------------------------------------------------------------------------------------------------

    def workload_of(self, pod: Pod) -> SchedulingWorkload | None:
        """The Workload that the pod's reference resolves to: it exists, and so does the group (S-15.1.1)."""
        if self.group_of(pod) is None or pod.member is None:
            return None
        return self.workloads[(pod.key[0], pod.member.workload)]

    def group_of(self, pod: Pod) -> PodGang | None:
        if pod.member is None:
            return None
        return self.groups.get((pod.key[0], pod.member.workload, pod.member.group))

    def referring(self, namespace: str, workload: str) -> frozenset[PodKey]:
        """The pods that name this Workload, whether it exists or not."""
        return frozenset(self._referring.get((namespace, workload), ()))

    def standing_on(self, node: str) -> frozenset[PodKey]:
        return frozenset(self._standing.get(node, ()))

    def priority_of(self, pod: Pod) -> int:
        """With which priority it seeks a place; as a victim it may have another."""
        workload = self.workload_of(pod)
        return pod.priority if workload is None else workload.priority

    def budgets_of(self, pod: Pod) -> Iterator[Budget]:
        """The budgets that count the pod (S-15.4.4); one without labels is in none."""
        if not pod.labels:
            return
        for budget in self._budgets_in.get(pod.key[0], {}).values():
            if budget.selector and selects(budget.selector, pod.labels):
                yield budget

    def fingerprint(self) -> tuple[Any, ...]:
        """Equal for states that hold the same; rows may differ, what they say may not."""
        rows = self.rows
        standing = {}
        for key, row in self.row_of.items():
            group = int(rows.group[row])
            mates = None if group < 0 else frozenset(k for k, r in self.row_of.items() if rows.group[r] == group)
            values = (int(rows.node[row]), int(rows.priority[row]), bool(rows.workload[row]), bool(rows.guarded[row]))
            uses = {name: some for name, column in self.columns.items() if (some := int(rows.use[column, row]))}
            standing[key] = (*values, uses, mates)
        used = {name: tuple(self.used[column].tolist()) for name, column in self.columns.items()}
        return (
            tuple(self.nodes), {name: values for name, values in used.items() if any(values)}, standing,
            dict(self.pods), dict(self.workloads), dict(self.groups), dict(self.budgets),
            set(self.nominated), set(self.wary), dict(self.namespaces),
            _held(self.running), _held(self.waiting), _held(self._standing), _held(self._referring),
        )  # fmt: skip


def _identity(pod: Pod) -> tuple[str, PodKey]:
    return pod.uid, pod.key


def _discard(table: dict[Any, set[Any]], key: object, value: object) -> None:
    table[key].discard(value)
    if not table[key]:
        del table[key]


def _held(table: Mapping[Any, Iterable[Any]]) -> dict[Any, frozenset[Any]]:
    return {key: frozenset(values) for key, values in table.items()}
