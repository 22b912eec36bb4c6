"""Workloads that are certainly refused: sums alone say so, and no evaluation is needed.

The answer is certain with one flavor to choose and one cohort at most, without fair sharing and without preemption
while borrowing. Then a queue finds only room, victims of its own or, within its own quota, those that borrow it.
Everywhere else the answer is "unknown", and the workload is evaluated.

Promises: what is certainly refused would be refused by a cycle, without targets and without a reservation; an answer
costs a few sums for each resource, however many workloads wait or run.

Not here: which workloads are skipped because of it (``cycle``, ``State.wake_after_release``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from makeway.core.model import FR, Millis, QueueName, ResourceName, Workload
from makeway.core.preemption.claims import still_charged
from makeway.core.preemption.turns import own_turn
from makeway.core.queueing.pending import may_queue
from makeway.core.quota.tree import QuotaNode

if TYPE_CHECKING:
    from makeway.core.state import State

Amounts = Mapping[ResourceName, int]
NOTHING: Amounts = {}


class Prefilter:
    """The prefilter of one state. What a queue's configuration says is read once."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._flavors: dict[QueueName, dict[ResourceName, FR] | None] = {}
        self._choices: dict[QueueName, bool] = {}

    def forget_queues(self) -> None:
        """The configuration of queues has changed."""
        self._flavors.clear()
        self._choices.clear()

    def has_choice(self, name: QueueName) -> bool:
        """Whether a queue has several flavors of a resource, so that a larger request may find another flavor."""
        has_choice = self._choices.get(name)
        if has_choice is None:
            queue = self._state.queues.get(name)
            has_choice = queue is None or any(len(group.flavors) != 1 for group in queue.groups)
            self._choices[name] = has_choice
        return has_choice

    def promised(self) -> dict[QuotaNode, dict[ResourceName, int]]:
        """By root, what claims may still leave to others: what their victims free, and what their claimants ask for."""
        state = self._state
        by_root: dict[QuotaNode, dict[ResourceName, int]] = {}
        for known in state.claims.within(list(state.claims.of_queue)) if state.claims else ():
            node, claimant = state.tree.queues.get(known.queue), state.pending.find(known.queue, known.key)
            if node is None or claimant is None:
                continue
            amounts = by_root.setdefault(node.root, {})
            for pod_set in claimant.pod_sets:
                for resource, amount in pod_set.signature.totals.items():
                    amounts[resource] = amounts.get(resource, 0) + amount
            for victim in still_charged(state, known.claim):
                for (_, resource), amount in (victim.usage or {}).items():
                    amounts[resource] = amounts.get(resource, 0) + amount
        return by_root

    def certainly_refused(self, head: Workload, now: Millis) -> bool:
        """Whether evaluating a head again would end in the same refusal, which its shape shares."""
        state = self._state
        waiting_list = state.pending.lists[head.queue]
        if head.key not in waiting_list.judged or waiting_list.reservations or head.family is not None or head.refusal:
            return False
        if len(head.pod_sets) != 1 or head.pod_sets[0].min_count is not None:
            return False
        equals = own_turn(state, head, now) is None  # one that was displaced by time displaces no equals for a while
        if not self.is_short(head.queue, head.priority, head.pod_sets[0].signature.totals, NOTHING, equals=equals):
            return False
        return may_queue(head, now) and state.namespace_matches(head)

    def is_short(
        self, name: QueueName, priority: int, amounts: Amounts, promised: Amounts, *, equals: bool = True
    ) -> bool:
        """Whether no workload of a queue with such a request, and no higher priority, finds room or victims.

        ``promised`` counts as room; ``equals`` of its queue may be victims.
        """
        flavors = self._flavors_of(name)
        if flavors is None or not amounts.keys() <= flavors.keys():
            return False
        queue, node = self._state.queues[name], self._state.tree.queues[name]
        if not queue.reclaim.takes_any and any(not _is_used_up(node, flavors[resource]) for resource in amounts):
            return False  # it would reserve what is left of its own quota
        below = queue.within.below(priority, equals=equals)
        return any(
            self._lacks(name, flavors[resource], amount, promised.get(resource, 0), below)
            for resource, amount in amounts.items()
        )

    def _lacks(self, name: QueueName, fr: FR, amount: int, promised: int, below: int) -> bool:
        """Whether neither what is free nor what the queue's holders below a priority use is enough."""
        state, node = self._state, self._state.tree.queues[name]
        free = max(0, state.tree.available(node, fr)) + promised
        if amount <= free:
            return False
        own = state.holders.freed_at_most(name, fr, below)
        used = node.usage.get(fr, 0) - own + amount
        if not _is_used_up(node, fr) and used <= node.nominal.get(fr, 0):
            return False  # within its own quota those that borrow it leave
        return amount > free + own

    def _flavors_of(self, name: QueueName) -> dict[ResourceName, FR] | None:
        """The one flavor of each resource that has no other; None: for this queue the answer is unknown."""
        if name not in self._flavors:
            self._flavors[name] = self._plain_flavors(name)
        return self._flavors[name]

    def _plain_flavors(self, name: QueueName) -> dict[ResourceName, FR] | None:
        state = self._state
        queue, node = state.queues.get(name), state.tree.queues.get(name)
        if queue is None or node is None or not state.is_active(name) or queue.borrow.preempts:
            return None
        if state.policy.fair_sharing or (node.parent is not None and node.parent.parent is not None):
            return None
        plain = [group for group in queue.groups if len(group.flavors) == 1]
        return {resource: (group.flavors[0], resource) for group in reversed(plain) for resource in group.resources}


def _is_used_up(node: QuotaNode, fr: FR) -> bool:
    """Whether nothing is left of a queue's own quota."""
    return node.usage.get(fr, 0) >= node.nominal.get(fr, 0)
