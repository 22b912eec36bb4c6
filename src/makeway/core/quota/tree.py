"""Quota and usage over a forest of queues and cohorts (S-2).

A node keeps part of its quota to itself (``local``: what its lending limit withholds) and shows the rest to its parent.
Usage fills the local part first; only the overflow is charged upward. Sums that depend on quota alone are made once,
when quota or edges change. Usage is updated in place and noted in the undo log. It is an exact sum, however large: the
order in which workloads come and go does not matter, and a workload that leaves takes all of its own along.

Promises: however deep a forest is, building it costs a few steps for each node (``steps`` counts them), and a query or
charge costs a few for each cohort above the node. Nothing recurs: users decide how deep their cohorts are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from makeway.core.amounts import UNLIMITED, add, subtract
from makeway.core.model import FR, QueueName, ResourceName, Usage, invariant
from makeway.core.undo import UndoLog

if TYPE_CHECKING:
    from makeway.core.quota.shares import Share, ShareTerm

WEIGHT_ONE = 10**9  # a weight of 1: weights are kept in billionths
PATH_MAX = 10  # cohorts that a path names: it stands in conditions, which are bounded


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaSpec:
    """What one queue or cohort declares."""

    name: str
    parent: str = ""
    nominal: Mapping[FR, int] = field(default_factory=dict)
    borrowing: Mapping[FR, int] = field(default_factory=dict)  # absent: no limit
    lending: Mapping[FR, int] = field(default_factory=dict)  # absent: everything
    weight: int = WEIGHT_ONE  # of its share (S-9.2); 0: its borrowing yields to that of all others


class QuotaNode:
    """A queue (leaf) or a cohort of the forest. Read it freely; only ``QuotaTree`` writes."""

    __slots__ = (
        "borrowing", "children", "height", "in_cycle", "is_queue", "lendable", "lending", "local", "most", "name",
        "nominal", "parent", "root", "subtree", "terms", "usage", "weight",
    )  # fmt: skip

    def __init__(self, name: str, *, is_queue: bool) -> None:
        self.name = name
        self.is_queue = is_queue
        self.parent: QuotaNode | None = None
        self.root = self  # the topmost above it
        self.children: list[QuotaNode] = []
        self.nominal: Mapping[FR, int] = {}
        self.borrowing: Mapping[FR, int] = {}
        self.lending: Mapping[FR, int] = {}
        self.subtree: dict[FR, int] = {}  # S-2.4
        self.local: dict[FR, int] = {}  # S-2.5; absent: 0
        self.usage: dict[FR, int] = {}
        self.weight = WEIGHT_ONE
        self.terms: tuple[ShareTerm, ...] | None = None  # the terms of its share, once computed (``shares``)
        self.lendable: Mapping[ResourceName, int] | None = None  # of a cohort, likewise
        self.most: dict[FR, int] = {}  # S-2.11, once computed
        self.height = 0
        self.in_cycle = False  # a cohort above it is its own ancestor (S-2.3)

    def ancestors(self) -> Iterator[QuotaNode]:
        node = self.parent
        while node is not None:
            yield node
            node = node.parent

    def overflow(self, fr: FR, used: int) -> int:
        """The part of this usage that its parent sees (S-2.9)."""
        local = self.local.get(fr, 0)
        return 0 if local >= UNLIMITED else max(0, used - local)

    def queues_below(self) -> list[QueueName]:
        """The queues below a node by name; a queue is below itself."""
        return sorted(QueueName(node.name) for node in downward([self]) if node.is_queue)

    def path(self) -> str:
        """The path ``/top/…/queue``, as events show it."""
        names = [self.name, *(node.name for node in self.ancestors())]
        if len(names) > PATH_MAX:
            names[PATH_MAX // 2 : -PATH_MAX // 2] = ["…"]
        return "/" + "/".join(reversed(names))


class QuotaTree:
    def __init__(self, log: UndoLog) -> None:
        self._log = log
        self.queues: dict[str, QuotaNode] = {}
        self.cohorts: dict[str, QuotaNode] = {}
        self.questions = 0  # how often availability was read or changed; tests and benchmarks count them
        self.steps = 0  # nodes visited to build the forest, and to find out how much one could use at most
        self._sharing: dict[QueueName, list[QueueName]] = {}  # by tree; filled on demand since the last configuration
        self.shares = 0  # how often a share was computed, likewise
        self.share_type: type[Share] | None = None  # None: exact ones; recorded decisions are also judged by rounded

    # --- structure ---

    def configure(
        self, queues: Iterable[QuotaSpec], cohorts: Iterable[QuotaSpec], inactive: frozenset[str] = frozenset()
    ) -> None:
        """Build the forest anew and keep the usage of queues. Cohorts that are only named exist too (S-2.2).

        Quota and usage of an inactive queue count, but none is borrowed from it as from a neighbour (S-3.2): it is no
        leaf when heights are measured.
        """
        self._sharing.clear()
        kept = {name: node.usage for name, node in self.queues.items()}
        declared = {spec.name: spec for spec in cohorts}
        leaves = {spec.name: spec for spec in queues}
        self.queues = {name: QuotaNode(name, is_queue=True) for name in leaves}
        named = {spec.parent for spec in [*leaves.values(), *declared.values()] if spec.parent}
        self.cohorts = {name: QuotaNode(name, is_queue=False) for name in sorted(named | set(declared))}
        cyclic = _cyclic({name: spec.parent for name, spec in declared.items()})
        self.steps += 3 * (len(self.queues) + len(self.cohorts))
        for node in [*self.cohorts.values(), *self.queues.values()]:
            spec = leaves.get(node.name) if node.is_queue else declared.get(node.name)
            if spec is not None:
                self._attach(node, spec, cyclic)
        nodes = downward(self.roots())
        for node in nodes:
            if node.parent is not None:
                node.root, node.in_cycle = node.parent.root, node.in_cycle or node.parent.in_cycle
        for node in reversed(nodes):
            _total(node, inactive)
        for name, usage in kept.items():
            if name in self.queues:
                for fr, amount in usage.items():
                    self.charge(self.queues[name], fr, amount)

    def _attach(self, node: QuotaNode, spec: QuotaSpec, cyclic: set[str]) -> None:
        node.nominal, node.borrowing, node.lending = spec.nominal, spec.borrowing, spec.lending
        node.weight = spec.weight
        node.in_cycle = not node.is_queue and node.name in cyclic
        if spec.parent and not node.in_cycle:  # a cycle is cut, so that sums end; its queues are inactive
            node.parent = self.cohorts[spec.parent]
            node.parent.children.append(node)

    def roots(self) -> list[QuotaNode]:
        return [node for node in [*self.cohorts.values(), *self.queues.values()] if node.parent is None]

    def queues_sharing_with(self, queue: QueueName) -> list[QueueName]:
        """All queues of its tree, itself included; below a cycle there is no tree (S-2.3)."""
        sharing = self._sharing.get(queue)
        if sharing is None:
            node = self.queues.get(queue)
            sharing = [] if node is None or node.in_cycle else node.root.queues_below()
            self._sharing.update(dict.fromkeys(sharing, sharing))
        return sharing

    def root_name(self, queue: QueueName) -> str:
        """The name of a tree; a queue without a cohort is a tree of its own."""
        node = self.queues.get(queue)
        if node is None or node.in_cycle or node.root.is_queue:
            return f"ClusterQueue {queue}"
        return f"Cohort {node.root.name}"

    # --- usage ---

    def charge(self, node: QuotaNode, fr: FR, amount: int) -> None:
        """Add usage; only what exceeds the node's local quota is visible to its parent (S-2.7)."""
        self.questions += 1
        at: QuotaNode | None = node
        while at is not None and amount:
            used = at.usage.get(fr, 0)
            self._log.put(at.usage, fr, used + amount)
            if at.local:
                amount = at.overflow(fr, used + amount) - at.overflow(fr, used)
            at = at.parent

    def release(self, node: QuotaNode, fr: FR, amount: int) -> None:
        """Take usage away again: the exact inverse of ``charge`` (S-2.8)."""
        self.charge(node, fr, -amount)

    def charge_all(self, node: QuotaNode, usage: Usage) -> None:
        for fr, amount in usage.items():
            self.charge(node, fr, amount)

    def release_all(self, node: QuotaNode, usage: Usage) -> None:
        for fr, amount in usage.items():
            self.release(node, fr, amount)

    # --- questions ---

    def available(self, node: QuotaNode, fr: FR) -> int:
        """How much more the node may use now (S-2.10); negative when quota shrank under running work."""
        self.questions += 1
        on_the_way: list[QuotaNode] = []  # the other ancestors keep nothing to themselves, and have no limit
        at = node
        while at.parent is not None:
            if at.local or fr in at.borrowing:
                on_the_way.append(at)
            at = at.parent
            self.questions += 1
        above = subtract(at.subtree.get(fr, 0), at.usage.get(fr, 0))
        while on_the_way:
            at = on_the_way.pop()
            used, local, limit = at.usage.get(fr, 0), at.local.get(fr, 0), at.borrowing.get(fr)
            if limit is not None:
                shown = subtract(at.subtree.get(fr, 0), local)
                above = min(above, add(subtract(shown, max(0, subtract(used, local))), limit))
            above = add(max(0, subtract(local, used)), above) if local else above
        return above

    def potential(self, node: QuotaNode, fr: FR) -> int:
        """How much the node could use at most, if no other used anything (S-2.11)."""
        unknown: list[QuotaNode] = []
        at: QuotaNode | None = node
        while at is not None and fr not in at.most:
            unknown.append(at)
            at = at.parent
        self.steps += len(unknown)
        most = 0 if at is None else at.most[fr]
        for each in reversed(unknown):  # what is known for a cohort is known for all below it
            whole, limit = each.subtree.get(fr, 0), each.borrowing.get(fr)
            most = whole if each.parent is None else add(each.local.get(fr, 0), most)
            if limit is not None and each.parent is not None:
                most = min(most, add(whole, limit))
            each.most[fr] = most
        return most

    def local_available(self, node: QuotaNode, fr: FR) -> int:
        return max(0, subtract(node.local.get(fr, 0), node.usage.get(fr, 0)))

    def fits(self, node: QuotaNode, usage: Usage) -> bool:
        return all(amount <= max(0, self.available(node, fr)) for fr, amount in usage.items())

    def borrows(self, node: QuotaNode, fr: FR, amount: int = 0) -> bool:
        """Whether ``amount`` more would take the node above its own quota (S-2.12)."""
        return add(node.usage.get(fr, 0), amount) > node.subtree.get(fr, 0)

    def within_nominal(self, node: QuotaNode, frs: Iterable[FR]) -> bool:
        usage, whole = node.usage, node.subtree
        return all(usage.get(fr, 0) <= whole.get(fr, 0) or whole.get(fr, 0) >= UNLIMITED for fr in frs)

    def lowest_subtree(self, node: QuotaNode, fr: FR, amount: int) -> tuple[int, bool]:
        """How far up the request must borrow, and whether quota could be reclaimed from further up (S-2.16)."""
        if node.parent is None or not self.borrows(node, fr, amount):
            return 0, node.parent is not None
        rest = subtract(amount, self.local_available(node, fr))
        top = node
        for ancestor in node.ancestors():
            if not self.borrows(ancestor, fr, rest):
                return ancestor.height, ancestor.parent is not None
            rest = subtract(rest, self.local_available(ancestor, fr))
            top = ancestor
        return top.height, False

    def contents(self) -> object:
        nodes = [*self.queues.values(), *self.cohorts.values()]
        return {
            (node.is_queue, node.name): {fr: used for fr, used in sorted(node.usage.items()) if used} for node in nodes
        }

    def recount(self) -> None:
        """Check that every cohort's usage is what its children show (S-2.9)."""
        for node in self.cohorts.values():
            for fr in {fr for child in node.children for fr in child.usage} | set(node.usage):
                shown = sum(child.overflow(fr, child.usage.get(fr, 0)) for child in node.children)
                used = node.usage.get(fr, 0)
                invariant(used == shown, "cohort {}: usage {} of {}, its children show {}", node.name, used, fr, shown)


def downward(roots: Iterable[QuotaNode]) -> list[QuotaNode]:
    """These nodes and all below them, parents before their children."""
    nodes = list(roots)
    for node in nodes:  # grows while it is read, level by level
        nodes.extend(node.children)
    return nodes


def _total(node: QuotaNode, inactive: frozenset[str]) -> None:
    """Sum quota from the children up; what a child keeps to itself is not part of its parent (S-2.4, 2.5, 2.15)."""
    node.subtree = dict(node.nominal)
    for child in node.children:
        for fr, amount in child.subtree.items():
            node.subtree[fr] = add(node.subtree.get(fr, 0), subtract(amount, child.local.get(fr, 0)))
    for fr, limit in node.lending.items():
        kept = max(0, subtract(node.subtree.get(fr, 0), limit))
        if kept:
            node.local[fr] = kept
    leaves = [child for child in node.children if not child.is_queue or child.name not in inactive]
    node.height = 0 if not leaves else 1 + max(child.height for child in leaves)


def _cyclic(parents: Mapping[str, str]) -> set[str]:
    """Cohorts that are their own ancestor."""
    cyclic: set[str] = set()
    done: set[str] = set()
    for start in parents:
        trail: dict[str, int] = {}
        name = start
        while name in parents and name not in done and name not in trail:
            trail[name] = len(trail)
            name = parents[name]
        if name in trail:
            cyclic.update([*trail][trail[name] :])
        done.update(trail)
    return cyclic
