"""The victims of a preemptor, by either kind of preemption, and the rounds that bound it (S-8, S-9, S-19.3)."""

from __future__ import annotations

from tests.model import fair, preemption
from tests.model.amounts import Amounts
from tests.model.preemption import Incoming, Need, Target
from tests.model.world import Snapshot, queue_node

MOST_ROUNDS = 10  # S-19.3.1
MOST_ROUNDS_ABOVE = 1


def targets(snap: Snapshot, p: Incoming, need: Need, req: Amounts) -> list[Target]:
    """Workloads to evict so that ``req`` fits, where ``need`` is contested; none if that cannot help."""  # S-8, S-9
    search = fair.search if snap.settings.strategies else preemption.search
    if snap.expired == "none" and any(preemption.is_withheld(snap, p, t, need) for t in snap.holders.values()):
        snap.withheld.add(p.key)
    left_out: frozenset[str] = frozenset()
    while True:
        found = search(snap, p, need, req, left_out)
        extra = one_too_many(snap, p, found, req)
        if extra is None:
            return found
        snap.limited.add(p.key)
        left_out |= {extra}


# rounds (S-19.3.1)


def newly_evicted(snap: Snapshot, found: list[Target]) -> list[Target]:
    """The targets that make a set of targets a round."""
    return [t for t in found if t.reason != "InClusterQueueTimeBased" and not snap.holders[t.key].evicted]


def not_below(snap: Snapshot, p: Incoming, found: list[Target]) -> list[Target]:
    """The new targets that are not of lower priority in the own queue."""
    return [t for t in newly_evicted(snap, found) if t.queue != p.queue or snap.holders[t.key].priority >= p.priority]


def ends_above_nominal(snap: Snapshot, p: Incoming, found: list[Target], req: Amounts) -> bool:
    """Whether this round is of the rare kind: above nominal, and not only at the cost of the own queue's lower."""
    if not newly_evicted(snap, found):
        return False
    after = snap.copy()
    for t in found:
        after.remove(t.key)
    after.charge(p.queue, req)
    before, used = snap.used[p.queue], after.used[p.queue]
    nominal = snap.tree[queue_node(p.queue)].nominal
    above = [fr for fr, v in req.items() if v > 0 and used.get(fr, 0) > nominal.get(fr, 0)]
    return any(used.get(fr, 0) > before.get(fr, 0) or not_below(snap, p, found) for fr in above)


def one_too_many(snap: Snapshot, p: Incoming, found: list[Target], req: Amounts) -> str | None:
    """The target to leave out, because this preemptor may not have one more round of this kind."""
    done = snap.rounds.get(p.key)
    displaced = newly_evicted(snap, found)
    if done is None or not displaced or not snap.settings.gates["PreemptionEpochs"]:
        return None
    if done.total >= MOST_ROUNDS:
        return displaced[0].key
    if done.above >= MOST_ROUNDS_ABOVE and ends_above_nominal(snap, p, found, req):
        return ([*not_below(snap, p, found), *displaced])[0].key
    return None
