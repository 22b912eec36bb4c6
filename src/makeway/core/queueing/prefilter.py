"""Who has no hope: where sums alone say that a verdict is no, nobody need be looked at to hear it again.

Told where it can be told for sure: with one flavor to choose and one cohort at most, without fair sharing and without
preemption while borrowing, a queue finds room, or victims of its own, or, within its own quota, those who borrow it.
Everywhere else the answer is "that cannot be told", and the workload is looked at.

Promises: whoever has no hope would be refused, without targets and without anything reserved for it; an answer costs
a few sums for each resource, whoever waits or runs.

Not here: who is spared a look because of it (``cycle``, ``State.wake_after_release``).
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
    """Answers for one state. What a queue's configuration says is read once."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._flavors: dict[QueueName, dict[ResourceName, FR] | None] = {}
        self._choices: dict[QueueName, bool] = {}

    def forget_queues(self) -> None:
        """Their configuration has changed."""
        self._flavors.clear()
        self._choices.clear()

    def has_choice(self, name: QueueName) -> bool:
        """Whether a queue has several flavors of anything, so that who asks for more may find them elsewhere."""
        found = self._choices.get(name)
        if found is None:
            queue = self._state.queues.get(name)
            found = queue is None or any(len(group.flavors) != 1 for group in queue.groups)
            self._choices[name] = found
        return found

    def promised(self) -> dict[QuotaNode, dict[ResourceName, int]]:
        """By root, what claims may yet leave to others: what their victims free, and what who takes one gets."""
        state = self._state
        found: dict[QuotaNode, dict[ResourceName, int]] = {}
        for known in state.claims.within(list(state.claims.of_queue)) if state.claims else ():
            node, claimant = state.tree.queues.get(known.queue), state.pending.find(known.queue, known.key)
            if node is None or claimant is None:
                continue
            amounts = found.setdefault(node.root, {})
            for pod_set in claimant.pod_sets:
                for resource, amount in pod_set.signature.totals.items():
                    amounts[resource] = amounts.get(resource, 0) + amount
            for victim in still_charged(state, known.claim):
                for (_, resource), amount in (victim.usage or {}).items():
                    amounts[resource] = amounts.get(resource, 0) + amount
        return found

    def certainly_refused(self, head: Workload, now: Millis) -> bool:
        """Whether a look at a head would end as the one before: in a refusal that its shape shares."""
        state = self._state
        line = state.pending.lists[head.queue]
        if head.key not in line.judged or line.reservations or head.family is not None or head.refusal:
            return False
        if len(head.pod_sets) != 1 or head.pod_sets[0].min_count is not None:
            return False
        equals = own_turn(state, head, now) is None  # who was displaced by time displaces none of them for a while
        if not self.is_short(head.queue, head.priority, head.pod_sets[0].signature.totals, NOTHING, equals=equals):
            return False
        return may_queue(head, now) and state.namespace_matches(head)

    def is_short(
        self, name: QueueName, priority: int, amounts: Amounts, promised: Amounts, *, equals: bool = True
    ) -> bool:
        """Whether nobody of a queue who asks for so much, with no higher priority, finds room or victims.

        ``promised`` counts as room; ``equals`` of its queue may be victims.
        """
        flavors = self._flavors_of(name)
        if flavors is None:
            return False
        state, queue, node = self._state, self._state.queues[name], self._state.tree.queues[name]
        is_short = False
        for resource, amount in amounts.items():
            fr = flavors.get(resource)
            if fr is None:
                return False
            used, nominal = node.usage.get(fr, 0), node.nominal.get(fr, 0)
            if used < nominal and not queue.reclaim.takes_any:
                return False  # it would reserve what is left of its own quota
            if is_short:
                continue  # one resource that it lacks is enough
            free = max(0, state.tree.available(node, fr)) + promised.get(resource, 0)
            if amount <= free:
                continue
            own = state.holders.freed_at_most(name, fr, queue.within.below(priority, equals=equals))
            if used >= nominal or used - own + amount > nominal:  # it would borrow, so nobody else leaves for it
                is_short = is_short or amount > free + own
        return is_short

    def _flavors_of(self, name: QueueName) -> dict[ResourceName, FR] | None:
        """The one flavor of each resource that has no other; None: of this queue nothing can be told."""
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
