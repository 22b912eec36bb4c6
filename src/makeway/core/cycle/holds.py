"""Quota that a waiting workload is entitled to is not lent again (S-5.14).

A workload may fit within its queue's nominal quota and still have to wait, because that quota is lent and it has no
right to take it back. What it requests is then *held*: other queues cannot borrow it while the workload waits, so the
workload gets in once enough was given back. A hold binds neither workloads of the same queue, nor those that stay
within the nominal quota of their own queue. Where holders of its own queue keep a workload out, it holds nothing.

Only the first such workload of a queue has a hold. ``Holds`` are those of one cycle and change with its verdicts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from makeway.core.amounts import add, subtract
from makeway.core.cycle.nomination import Entry
from makeway.core.model import QueueName, Usage, Workload, WorkloadKey
from makeway.core.queueing.waiting_list import place
from makeway.core.quota.tree import QuotaNode
from makeway.core.state import State

NOTHING: Usage = {}
Reserved = Mapping[QueueName, Usage]  # by queue, what is kept free for its own heads in a cycle (S-5.8, 5.13)


class Hold(NamedTuple):
    key: WorkloadKey
    amounts: Usage


def is_entitled(state: State, entry: Entry, reserved: Usage) -> bool:
    """Whether only lent quota keeps out a head that needs others to leave and may displace none."""
    queue, node = state.queues[entry.workload.queue], state.tree.queues[entry.workload.queue]
    if not state.policy.holds_in_all_queues or queue.reclaim.takes_any or node.parent is None:
        return False
    if entry.assignment.level or (queue.strict and state.policy.strict_fifo_lends):
        return False
    return _leaves_room(node, entry.assignment.usage, reserved)


def _leaves_room(node: QuotaNode, asked: Usage, reserved: Usage) -> bool:
    """Whether the holders of a queue leave that much of its nominal quota; what is only ``reserved`` does not count."""
    for fr, amount in asked.items():
        used = subtract(node.usage.get(fr, 0), reserved.get(fr, 0))
        if amount and add(used, amount) > node.nominal.get(fr, 0):
            return False
    return True


class Holds:
    """The holds in force while the entries of a cycle are taken."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._first = state.pending.entitlements.firsts()
        self._decided: dict[QueueName, dict[WorkloadKey, tuple[Workload, Usage | None]]] = {}

    def __bool__(self) -> bool:
        return bool(self._first or self._decided)

    def decide(self, workload: Workload, usage: Usage | None) -> None:
        """Note the cycle's verdict: the workload is entitled to ``usage``, or (None) to nothing that is lent."""
        if usage is not None or workload.key in self._state.pending.list_of(workload.queue).entitled:
            self._decided.setdefault(workload.queue, {})[workload.key] = (workload, usage)

    def in_force(self, reserved: Reserved) -> dict[QueueName, Hold]:
        """The holds by queue; none where the queue is stopped, or where its own holders use what is waited for."""
        holds = {}
        for queue in {**self._first, **dict.fromkeys(self._decided)} if self else ():
            node, first = self._state.tree.queues.get(queue), self._first_of(queue)
            if first is None or node is None or not self._state.is_active(queue):
                continue
            if _leaves_room(node, first[1], reserved.get(queue, NOTHING)):
                holds[queue] = Hold(*first)
        return holds

    def charge(self, beside: QuotaNode, reserved: Reserved) -> bool:
        """In a trial, count what other queues of the tree hold as used; returns whether there is any.

        What is reserved in this cycle for heads of such a queue is part of its hold.
        """
        tree, is_any = self._state.tree, False
        for queue, hold in self.in_force(reserved).items():
            node = tree.queues[queue]
            if node is not beside and node.root is beside.root:
                kept = reserved.get(queue, NOTHING)
                tree.charge_all(node, {fr: max(0, amount - kept.get(fr, 0)) for fr, amount in hold.amounts.items()})
                is_any = True
        return is_any

    def _first_of(self, queue: QueueName) -> tuple[WorkloadKey, Usage] | None:
        decided = self._decided.get(queue)
        if decided is None:
            return self._first.get(queue)
        waiting_list = self._state.pending.list_of(queue)
        sticky = waiting_list.sticky
        marked: dict[WorkloadKey, tuple[Workload, Usage | None]] = {
            **{key: (waiting_list.members[key], usage) for key, usage in waiting_list.entitled.items()}, **decided,
        }  # fmt: skip
        left = [(workload, usage) for workload, usage in marked.values() if usage is not None]
        if not left:
            return None
        first, usage = min(left, key=lambda pair: (pair[0].key != sticky, place(pair[0])))
        return first.key, usage
