"""Claims: what preemptors are promised while those whom they count on leave (S-19.1, S-10.13).

A claim in force makes a cycle decide in the tree *as it will be*: victims that still hold quota are credited, what
was claimed is charged. So neither a victim nor a third takes what was freed for another, and a claim that no longer
fits there has ended.

Promises: a claim is kept while its reasons hold and no longer; none outlives its deadline; ``foresee`` happens inside
a trial and leaves no mark; a cycle costs what is claimed in the trees it looks at, not what waits.

Not here: who gets a claim, takes one, or is admitted with it (``cycle``); where it is stored (``lowering``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from makeway.core.cycle.flavors import AT_END, Assignment, FlavorChoice, Mode, PodSetAssignment, asked_by
from makeway.core.cycle.options import running_sibling
from makeway.core.model import (
    DAWN,
    Claim,
    ClaimedSet,
    Millis,
    QueueName,
    Uid,
    Workload,
    WorkloadKey,
    stored,
)
from makeway.core.preemption.rounds import Round
from makeway.core.queueing.pending import Shape, shape
from makeway.core.undo import UndoLog

if TYPE_CHECKING:
    from makeway.core.state import State

EXPIRED = "its deadline has passed"
CHANGED = "the workload has changed"
GATED = "a preemption gate that it needed is closed"
STOPPED = "its queue is stopped"
FLAVOR_GONE = "a claimed flavor is gone"
NOT_HEAD = "the workload is no longer the head of its queue"
NO_ROOM = "what it claims no longer fits"
TAKEN = "taken by {}"
SIBLING = "a more preferred Option claims"


# --- the registry ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class InForce:
    """A claim in force, and what its workload looked like when it was made."""

    key: WorkloadKey
    uid: Uid
    queue: QueueName
    claim: Claim
    shape: Shape
    preempts: bool  # False: it only waits for victims of others, and needs no gate to be open
    disturbs: str | None = None  # the tree whose peace it disturbs; None: all its victims were displaced by time
    round: Round = ""  # what the preemptions counted as that it was made for; after a restart nobody knows

    def is_of(self, workload: Workload, claim: Claim) -> bool:
        """Whether it is this claim of this workload, in the queue where that is now."""
        return (self.uid, self.queue, self.claim.issued_at) == (workload.uid, workload.queue, claim.issued_at)


class Claims:
    """All claims in force, by the claimant's queue."""

    def __init__(self, log: UndoLog) -> None:
        self._log = log
        self._queue_of: dict[WorkloadKey, QueueName] = {}
        self.of_queue: dict[QueueName, dict[WorkloadKey, InForce]] = {}
        self.foreseen: dict[WorkloadKey, tuple[Workload, ...]] = {}  # in a cycle: who claims, and on whose departure
        self._looks: dict[str, Millis] = {}

    def __len__(self) -> int:
        return len(self._queue_of)

    def find(self, key: WorkloadKey) -> InForce | None:
        queue = self._queue_of.get(key)
        return None if queue is None else self.of_queue[queue][key]

    def last_of(self, queue: QueueName) -> WorkloadKey:
        """Whose claim is the newest, in a queue of claimants."""
        return max(self.of_queue[queue].values(), key=lambda known: (known.claim.issued_at, known.uid)).key

    def put(
        self, workload: Workload, claim: Claim, *, preempts: bool, disturbs: str | None = None, round: Round = ""
    ) -> None:  # fmt: skip
        known = InForce(workload.key, workload.uid, workload.queue, claim, shape(workload), preempts, disturbs, round)
        self._log.put(self.of_queue.setdefault(workload.queue, {}), workload.key, known)
        self._log.put(self._queue_of, workload.key, workload.queue)

    def drop(self, key: WorkloadKey) -> None:
        queue = self._queue_of.get(key)
        if queue is not None:
            self._log.drop(self.of_queue[queue], key)
            self._log.drop(self._queue_of, key)
            self._log.drop(self.foreseen, key)

    def foresee(self, claimant: Claimant) -> None:
        """In a trial: it counts as running with what it claims, and its victims as gone."""
        self._log.put(self.foreseen, claimant.workload.key, claimant.victims)

    @property
    def looked_at(self) -> Millis:
        """When somebody asked last which are overdue: a victim whose time was up by then need not be asked about."""
        return self._looks.get("last", DAWN)

    def look(self, now: Millis) -> None:
        self._log.put(self._looks, "last", now)

    def within(self, queues: Iterable[QueueName]) -> Iterator[InForce]:
        for queue in queues:
            yield from self.of_queue.get(queue, {}).values()

    def contents(self) -> object:
        return {
            queue: {key: (known.uid, known.claim, known.preempts) for key, known in sorted(each.items())}
            for queue, each in sorted(self.of_queue.items())
            if each
        }


# --- what a claim counts on ------------------------------------------------------------------------------------------


def still_charged(state: State, claim: Claim) -> list[Workload]:
    """Its victims that hold quota; who left and came back since is none of them any more (P16)."""
    found = []
    for key, uid in claim.victims:
        held = state.holders.by_key.get(key)
        if held is not None and held.uid == uid and _never_left(held, claim):
            found.append(held)
    return found


def _never_left(held: Workload, claim: Claim) -> bool:
    if held.evicted:
        return held.evicted_at is None or held.evicted_at <= claim.issued_at
    return held.reserved_at is not None and held.reserved_at < claim.issued_at


def is_stuck(state: State, held: Workload, now: Millis) -> bool:
    """Whether it should have left long ago: nobody counts on it any more (S-10.13)."""
    by = held.leaves_by()
    return by is not None and now >= by + state.policy.claim_timeout_ms


def deadline(state: State, victims: Iterable[Workload], now: Millis, *, at_least: Millis = DAWN) -> Millis:
    """The latest time at which those who are asked to leave now, or were before, must be gone, and some patience."""
    times = [
        (stored(now) if each.evicted_at is None else each.evicted_at) + each.grace_ms + state.policy.claim_timeout_ms
        for each in victims
    ]
    return Millis(max([*times, at_least]))


def new_claim(assignment: Assignment, victims: Iterable[tuple[WorkloadKey, Uid]], now: Millis, until: Millis) -> Claim:
    sets = tuple(
        ClaimedSet(part.name, {resource: choice.flavor for resource, choice in part.choices.items()}, part.count)
        for part in assignment.pod_sets
    )
    return Claim(sets, tuple(dict.fromkeys(victims)), stored(now), until)


def claimed_assignment(state: State, workload: Workload, claim: Claim) -> Assignment | None:
    """What a claim promises, as if it were just found to fit; None: it speaks of another workload than this is now."""
    queue = state.queues[workload.queue]
    promised = {each.name: each for each in claim.sets}
    result = Assignment()
    for index, pod_set in enumerate(workload.pod_sets):
        each = promised.get(pod_set.name)
        if each is None or each.count > pod_set.count:
            return None
        part = PodSetAssignment(index, pod_set.name, each.count, asked_by(queue, pod_set, each.count))
        for resource, flavor in each.flavors.items():
            if resource not in part.requests:
                return None
            part.choices[resource] = FlavorChoice(flavor, Mode.FIT, 0, AT_END)
            fr = (flavor, resource)
            result.usage[fr] = result.usage.get(fr, 0) + part.requests[resource]
        result.pod_sets.append(part)
    return result


# --- which still stand -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Claimant:
    """Who claims what in a cycle, and on whose departure that rests."""

    workload: Workload
    claim: Claim
    assignment: Assignment
    victims: tuple[Workload, ...]  # hold quota still, and will leave in time

    def place(self) -> tuple[Millis, Uid]:
        return self.claim.issued_at, self.workload.uid

    def as_holder(self, now: Millis) -> Workload:
        """Were it running with what it claims, reserved now (S-19.1.3); then no other time counts (S-4.3)."""
        workload = self.workload
        return replace(
            workload, usage=dict(self.assignment.usage), reserved_at=stored(now), evicted=False, displaced_at=None,
            queued_at=workload.queued_at if workload.created_at is None else workload.created_at,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class EndedClaim:
    workload: Workload
    why: str


@dataclass(frozen=True, slots=True)
class Survey:
    standing: tuple[Claimant, ...] = ()  # oldest first
    ended: tuple[EndedClaim, ...] = ()


def survey(state: State, now: Millis, queues: Iterable[QueueName]) -> Survey:
    """Which claims of these queues stand, and which have ended by now; their trees are wholly in ``queues``."""
    standing: list[Claimant] = []
    ended: list[EndedClaim] = []
    for known in state.claims.within(queues):
        workload = state.pending.find(known.queue, known.key)
        if workload is None or workload.uid != known.uid:
            continue  # gone without a word: nobody waits for what it claims
        why, claimant = _examined(state, known, workload, now)
        if claimant is not None:
            standing.append(claimant)
        else:
            ended.append(EndedClaim(workload, why))
    standing.sort(key=Claimant.place)
    without_room = _without_room(state, standing)
    ended.extend(EndedClaim(each.workload, NO_ROOM) for each in without_room)
    left = tuple(each for each in standing if each not in without_room)
    return Survey(left, tuple(sorted(ended, key=lambda each: each.workload.key)))


def _examined(state: State, known: InForce, workload: Workload, now: Millis) -> tuple[str, Claimant | None]:
    """The claimant, unless its claim has ended for a reason of its own (S-19.1.4)."""
    claim, line = known.claim, state.pending.list_of(known.queue)
    if now >= claim.expires_at:
        return EXPIRED, None
    if not state.is_active(known.queue):
        return STOPPED, None
    if line.strict and state.pending.first(known.queue) != known.key:
        return NOT_HEAD, None
    if workload.gated and known.preempts:
        return GATED, None
    queue = state.queues[known.queue]
    for resource, flavor in ((r, f) for each in claim.sets for r, f in each.flavors.items()):
        group = queue.group_of(resource)
        if flavor not in state.flavors or group is None or flavor not in group.flavors:
            return FLAVOR_GONE, None
    assignment = claimed_assignment(state, workload, claim)
    if assignment is None or shape(workload) != known.shape:
        return CHANGED, None
    victims = tuple(
        each
        for each in still_charged(state, claim)
        if each.queue in state.tree.queues and not is_stuck(state, each, now)
    )
    return "", Claimant(workload, claim, assignment, victims)


def _without_room(state: State, claimants: list[Claimant]) -> list[Claimant]:
    """Those whose claim does not fit the tree as it will be; of two that do not fit together the later one."""
    found: list[Claimant] = []
    while True:
        left = [each for each in claimants if each not in found]
        with state.trial():
            credit(state, left)
            failing = next((each for each in left if not _finds_room(state, each)), None)
        if failing is None:
            return found
        found.append(failing)


def _finds_room(state: State, claimant: Claimant) -> bool:
    tree, workload = state.tree, claimant.workload
    node = tree.queues[workload.queue]
    fits = tree.fits(node, claimant.assignment.usage)
    sibling = None if fits else running_sibling(state, workload)
    if sibling is not None:  # it leaves for the claimant once that fits otherwise (S-12.7.1)
        with state.trial():
            tree.release_all(tree.queues[sibling.queue], sibling.usage or {})
            fits = tree.fits(node, claimant.assignment.usage)
    if fits:
        tree.charge_all(node, claimant.assignment.usage)
    return fits


def credited(claimants: Iterable[Claimant]) -> Mapping[WorkloadKey, Workload]:
    return {victim.key: victim for each in claimants for victim in each.victims}


def credit(state: State, claimants: Iterable[Claimant]) -> None:
    for victim in credited(claimants).values():
        state.tree.release_all(state.tree.queues[victim.queue], victim.usage or {})


def foresee(state: State, claimants: Iterable[Claimant], now: Millis) -> None:
    """Make the state what it will be once all claims are redeemed; claimants can be displaced as if they ran."""
    known = list(claimants)
    credit(state, known)
    for victim in credited(known).values():
        state.holders.remove(victim)
    for each in known:
        running = each.as_holder(now)
        state.tree.charge_all(state.tree.queues[running.queue], running.usage or {})
        state.holders.add(running)
        state.claims.foresee(each)


# --- who is due, who is over -----------------------------------------------------------------------------------------


def ready(state: State) -> list[Workload]:
    """Claimants who are due, for all whom they count on have left: of a family the most preferred (S-4.2, S-5.1)."""
    found = []
    for queue, members in state.claims.of_queue.items():
        line = state.pending.lists.get(queue)
        for key, known in members.items():
            workload = None if line is None else line.waiting.get(key)
            if line is None or workload is None or not line.is_due(key, blocks=state.waits_for_pods):
                continue
            if not still_charged(state, known.claim):
                found.append(workload)
    found.sort(key=lambda each: (each.option_rank, each.key))
    families: set[Uid] = set()
    chosen = []
    for each in found:
        if each.family is None or each.family not in families:
            chosen.append(each)
        if each.family is not None:
            families.add(each.family)
    return chosen


def overdue(state: State, now: Millis) -> list[Workload]:
    """Claimants whose claims must end by what the core knows: time, quota, their queue, their own object."""
    if not state.claims:
        return []
    state.claims.look(now)
    return [each.workload for each in survey(state, now, list(state.claims.of_queue)).ended]


def next_deadline(state: State) -> Millis | None:
    """When to ask for overdue claims again: at the next end of a claim, or of the patience with a victim."""
    if not state.claims:
        return None
    times: set[int] = set()
    for known in state.claims.within(list(state.claims.of_queue)):
        times.add(known.claim.expires_at)
        for victim in still_charged(state, known.claim):
            by = victim.leaves_by()
            if by is not None and by + state.policy.claim_timeout_ms > state.claims.looked_at:
                times.add(by + state.policy.claim_timeout_ms)
    return Millis(min(times)) if times else None


def end(state: State, key: WorkloadKey, why: str, now: Millis) -> EndedClaim | None:
    """The claim is over; its workload waits on without it, and its tree is woken. Who has left or leaves does so."""
    known = state.claims.find(key)
    if known is None:
        return None
    state.unclaim(key, now)
    workload = state.pending.find(known.queue, key)
    if workload is not None and workload.claim is not None:
        workload = replace(workload, claim=None)
        state.pending.refresh(workload)
    state.wake_after_release(state.tree_of(known.queue), now)
    return None if workload is None else EndedClaim(workload, why)
