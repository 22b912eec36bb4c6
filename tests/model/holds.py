"""Quota that is not lent while an entitled workload waits (S-5.14), and other quota kept from entries of a cycle."""

from __future__ import annotations

from dataclasses import dataclass

from tests.model import queues
from tests.model.amounts import Amounts, add, sub
from tests.model.flavors import Assignment
from tests.model.preemption import policy
from tests.model.quota import available_to_queue
from tests.model.world import Snapshot, World, queue_node, queue_of

Holds = dict[str, tuple[str, Amounts]]  # queue -> entitled workload, amounts


@dataclass(frozen=True)
class Reserved:
    """Quota that an entry of this cycle keeps from those after it."""  # S-5.8, S-5.13, S-5.1

    queue: str
    amounts: Amounts
    stays: bool  # after the cycle
    claimed: bool = False


def kept_for(reserved: list[Reserved], queue: str) -> Amounts:
    """The amounts that are reserved, not claimed, for a queue's own head."""
    found: Amounts = {}
    for each in reserved:
        if each.queue == queue and not each.claimed:
            for fr, v in each.amounts.items():
                found[fr] = add(found.get(fr, 0), v)
    return found


def may_hold(world: World, snap: Snapshot, queue: str) -> bool:
    s = world.settings
    lends = queues.is_strict(world, queue) and s.strict_fifo_lends
    reclaims_any = policy(snap, queue, "reclaimWithinCohort") == "Any"
    return s.entitled_hold == "All" and not s.parity and not lends and not reclaims_any


def is_within(snap: Snapshot, queue: str, asks: Amounts, kept: Amounts) -> bool:
    """Whether its own queue's holders leave room for it; what is only reserved there does not count."""
    nominal, used = snap.tree[queue_node(queue)].nominal, snap.used[queue]
    own = {fr: sub(used.get(fr, 0), kept.get(fr, 0)) for fr in asks}
    return all(add(own[fr], v) <= nominal.get(fr, 0) for fr, v in asks.items())


def judge(world: World, snap: Snapshot, key: str, queue: str, found: Assignment, reserved: list[Reserved]) -> None:
    """A workload without targets is entitled if lent quota alone keeps it out."""
    asks = {fr: v for fr, v in found.usage.items() if v > 0}
    if may_hold(world, snap, queue) and found.level == 0 and is_within(snap, queue, asks, kept_for(reserved, queue)):
        world.entitled[key] = asks


def in_force(world: World, snap: Snapshot, reserved: list[Reserved]) -> Holds:
    """The first entitled workload of each queue, unless its own queue's holders have used what it waits for."""
    found: Holds = {}
    for queue in sorted(world.queues):
        marked = [k for k in world.entitled if queue_of(world, world.workloads[k]) == queue and k not in world.claims]
        first = min(marked, key=lambda k: queues.order_key(world, queue, k), default=None)
        if first is not None and is_within(snap, queue, world.entitled[first], kept_for(reserved, queue)):
            found[queue] = (first, world.entitled[first])
    return found


def charged(world: World, snap: Snapshot, borrower: str, reserved: list[Reserved]) -> Snapshot:
    """The tree with the holds of other queues charged; what is reserved for their heads anyway counts towards them."""
    seen = snap.copy()
    for queue, (_, asks) in in_force(world, snap, reserved).items():
        if queue != borrower:
            kept = kept_for(reserved, queue)
            seen.charge(queue, {fr: max(0, sub(v, kept.get(fr, 0))) for fr, v in asks.items()})
    return seen


def let_pass(world: World, snap: Snapshot, queue: str, usage: Amounts, reserved: list[Reserved]) -> bool:
    """Whether an entry takes nothing that is held; an entry within nominal quota is not bound by holds."""
    if not world.entitled:
        return True
    seen, nominal = charged(world, snap, queue, reserved), snap.tree[queue_node(queue)].nominal
    borrowed = [fr for fr, v in usage.items() if add(snap.used[queue].get(fr, 0), v) > nominal.get(fr, 0)]
    return all(usage[fr] <= available_to_queue(seen, queue, fr) for fr in borrowed)
