"""What a waiting workload is entitled to is not lent again (S-5.14).

A workload that fits within its queue's nominal quota, and is kept out only because that is lent, may have no right to
take it back. Then what it asks for is *held*: other queues do not borrow it while the workload waits, so that it gets
in once enough was given back. A workload that stays within the nominal quota of its own queue is not held up by this,
nor is one of the same queue; and where the holders of its own queue keep a workload out, it holds nothing.

Of a queue only the first such workload has a hold. ``Holds`` are those of one cycle: they change with its verdicts.
"""

from __future__ import annotations

from collections.abc import Container
from typing import NamedTuple

from makeway.core.amounts import add
from makeway.core.line import place
from makeway.core.model import QueueName, Usage, Workload, WorkloadKey
from makeway.core.nomination import Entry
from makeway.core.quota import Node
from makeway.core.state import State


class Hold(NamedTuple):
    node: Node
    key: WorkloadKey
    amounts: Usage


def is_entitled(state: State, entry: Entry, leaving: Usage) -> bool:
    """Whether only lent quota keeps out a head that needs others to leave and may ask nobody.

    ``leaving`` is what victims of the cycle, gone already in ``state``, still use in its queue.
    """
    queue, node = state.queues[entry.workload.queue], state.tree.queues[entry.workload.queue]
    if state.policy.entitled_hold != "All" or queue.reclaim == "Any" or node.parent is None:
        return False
    if entry.assignment.level or (queue.strict and state.policy.strict_fifo_lends):
        return False
    usage = {fr: add(amount, leaving.get(fr, 0)) for fr, amount in entry.assignment.usage.items() if amount}
    return _is_within_nominal(node, usage)


def _is_within_nominal(node: Node, usage: Usage) -> bool:
    return all(add(node.usage.get(fr, 0), amount) <= node.nominal.get(fr, 0) for fr, amount in usage.items())


class Holds:
    """The holds in force while the entries of a cycle are taken."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._first = state.pending.holds()
        self._decided: dict[QueueName, dict[WorkloadKey, tuple[Workload, Usage | None]]] = {}

    def decide(self, workload: Workload, usage: Usage | None) -> None:
        """The cycle has a verdict on a workload: it is entitled to ``usage``, or to nothing that is lent."""
        if usage is not None or workload.key in self._state.pending.line(workload.queue).entitled:
            self._decided.setdefault(workload.queue, {})[workload.key] = (workload, usage)

    def beside(self, node: Node, reserved: Container[WorkloadKey]) -> list[Hold]:
        """Those of other queues of its tree; for whom something is ``reserved`` in this cycle needs no hold."""
        if not self._first and not self._decided:
            return []
        found = []
        for queue in {**self._first, **dict.fromkeys(self._decided)}:
            owner = self._state.tree.queues.get(queue)
            if owner is None or owner is node or owner.root is not node.root:
                continue
            first = self._first_of(queue)
            if first is not None and first[0] not in reserved and _is_within_nominal(owner, first[1]):
                found.append(Hold(owner, *first))
        return found

    def _first_of(self, queue: QueueName) -> tuple[WorkloadKey, Usage] | None:
        decided = self._decided.get(queue)
        if decided is None:
            return self._first.get(queue)
        line = self._state.pending.line(queue)
        sticky = line.sticky.get("it")
        marked = {key: (line.members[key], usage) for key, usage in line.entitled.items()}
        marked |= {key: (workload, usage) for key, (workload, usage) in decided.items() if usage is not None}
        left = [pair for key, pair in marked.items() if decided.get(key, pair)[1] is not None]
        if not left:
            return None
        workload, usage = min(left, key=lambda pair: (pair[0].key != sticky, place(pair[0])))
        return workload.key, usage
