"""Claims: what preemptors are promised while their victims leave (S-19.1, S-10.13).

A claim in force makes a cycle decide in the tree *as it will be*: victims that still hold quota are credited, what is
claimed is charged. So neither a victim nor a third workload takes what was freed for another. A claim that no longer
fits there has ended.

Promises: a claim is kept while its reasons hold and no longer; none outlives its deadline; ``foresee`` happens inside
a trial and leaves no mark; a cycle costs what is claimed in the trees it reads, not what waits.

Not here: which workload gets a claim, takes one, or is admitted with it (``cycle``); where it is stored (``lowering``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
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
    """A claim in force, and the shape of its workload when it was made."""

    key: WorkloadKey
    uid: Uid
    queue: QueueName
    claim: Claim
    shape: Shape
    preempts: bool  # False: it only waits for victims of others, and needs no gate to be open
    disturbs: str | None = None  # the tree whose peace it disturbs; None: all its victims were displaced by time
    round: Round = ""  # what the preemptions for it counted as; unknown after a restart

    def is_of(self, workload: Workload, claim: Claim) -> bool:
        """Whether this is the given claim of the workload, in the workload's present queue."""
        return (self.uid, self.queue, self.claim.issued_at) == (workload.uid, workload.queue, claim.issued_at)


class Claims:
    """All claims in force, by the claimant's queue."""

    def __init__(self, log: UndoLog) -> None:
        self._log = log
        self._queue_of: dict[WorkloadKey, QueueName] = {}
        self.of_queue: dict[QueueName, dict[WorkloadKey, InForce]] = {}
        self.foreseen: dict[WorkloadKey, tuple[Workload, ...]] = {}  # in a cycle: the victims of claimants
        self._checks: dict[str, Millis] = {}

    def __len__(self) -> int:
        return len(self._queue_of)

    def find(self, key: WorkloadKey) -> InForce | None:
        queue = self._queue_of.get(key)
        return None if queue is None else self.of_queue[queue][key]

    def last_of(self, queue: QueueName) -> WorkloadKey:
        """The workload with the newest claim, in a queue of claimants."""
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
        """In a trial, the claimant counts as running with what it claims, and its victims count as gone."""
        self._log.put(self.foreseen, claimant.workload.key, claimant.victims)

    @property
    def checked_at(self) -> Millis:
        """When overdue claims were last asked for: a victim whose time was up by then need not be checked again."""
        return self._checks.get("last", DAWN)

    def note_check(self, now: Millis) -> None:
        self._log.put(self._checks, "last", now)

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
    """The victims of a claim that hold quota; one that left and came back is no longer a victim (P16)."""
    charged = []
    for key, uid in claim.victims:
        held = state.holders.by_key.get(key)
        if held is not None and held.uid == uid and _never_left(held, claim):
            charged.append(held)
    return charged


def _never_left(held: Workload, claim: Claim) -> bool:
    if held.evicted:
        return held.evicted_at is None or held.evicted_at <= claim.issued_at
    return held.reserved_at is not None and held.reserved_at < claim.issued_at


def is_stuck(state: State, held: Workload, now: Millis) -> bool:
    """Whether a victim should have left long ago: then no claim counts on it any more (S-10.13)."""
    by = held.leaves_by()
    return by is not None and now >= by + state.policy.claim_timeout_ms


def deadline(state: State, victims: Iterable[Workload], now: Millis, *, at_least: Millis = DAWN) -> Millis:
    """The latest time by which these victims must be gone: their grace, and some patience."""
    times = [
        (stored(now) if victim.evicted_at is None else victim.evicted_at)
        + victim.grace_ms
        + state.policy.claim_timeout_ms
        for victim in victims
    ]
    return Millis(max([*times, at_least]))


def new_claim(assignment: Assignment, victims: Iterable[tuple[WorkloadKey, Uid]], now: Millis, until: Millis) -> Claim:
    sets = tuple(
        ClaimedSet(part.name, {resource: choice.flavor for resource, choice in part.choices.items()}, part.count)
        for part in assignment.pod_sets
    )
    return Claim(sets, tuple(dict.fromkeys(victims)), stored(now), until)


def claimed_assignment(state: State, workload: Workload, claim: Claim) -> Assignment | None:
    """What a claim promises, as if just found to fit; None: its workload is no longer the one it was made for."""
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
    """A workload with a claim in a cycle, and the victims that it counts on."""

    workload: Workload
    claim: Claim
    assignment: Assignment
    victims: tuple[Workload, ...]  # still hold quota, and will leave in time

    def place(self) -> tuple[Millis, Uid]:
        return self.claim.issued_at, self.workload.uid

    def as_holder(self, now: Millis) -> Workload:
        """The claimant as if it were running with what it claims, reserved now (S-19.1.3, S-4.3)."""
        workload = self.workload
        return workload.but(
            usage=dict(self.assignment.usage), reserved_at=stored(now), evicted=False, displaced_at=None,
            queued_at=workload.queued_at if workload.created_at is None else workload.created_at,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class EndedClaim:
    workload: Workload
    why: str


@dataclass(frozen=True, slots=True)
class Survey:
    in_force: tuple[Claimant, ...] = ()  # oldest first
    ended: tuple[EndedClaim, ...] = ()


def survey(state: State, now: Millis, queues: Iterable[QueueName]) -> Survey:
    """Which claims of these queues are in force, and which have ended; the queues include the whole of each tree."""
    in_force: list[Claimant] = []
    ended: list[EndedClaim] = []
    for known in state.claims.within(queues):
        workload = state.pending.find(known.queue, known.key)
        if workload is None or workload.uid != known.uid:
            continue  # the workload is gone: nothing waits for what it claims
        why, claimant = _examined(state, known, workload, now)
        if claimant is not None:
            in_force.append(claimant)
        else:
            ended.append(EndedClaim(workload, why))
    in_force.sort(key=Claimant.place)
    left = _with_room(state, in_force)
    ended.extend(EndedClaim(claimant.workload, NO_ROOM) for claimant in in_force if claimant not in left)
    return Survey(tuple(left), tuple(sorted(ended, key=lambda claim: claim.workload.key)))


def _examined(state: State, known: InForce, workload: Workload, now: Millis) -> tuple[str, Claimant | None]:
    """The claimant, unless its claim has ended for a reason of its own (S-19.1.4)."""
    claim, waiting_list = known.claim, state.pending.list_of(known.queue)
    if now >= claim.expires_at:
        return EXPIRED, None
    if not state.is_active(known.queue):
        return STOPPED, None
    if waiting_list.strict and state.pending.first(known.queue) != known.key:
        return NOT_HEAD, None
    if workload.gated and known.preempts:
        return GATED, None
    queue = state.queues[known.queue]
    for resource, flavor in (pair for part in claim.sets for pair in part.flavors.items()):
        group = queue.group_of(resource)
        if flavor not in state.flavors or group is None or flavor not in group.flavors:
            return FLAVOR_GONE, None
    assignment = claimed_assignment(state, workload, claim)
    if assignment is None or shape(workload) != known.shape:
        return CHANGED, None
    victims = tuple(
        victim
        for victim in still_charged(state, claim)
        if victim.queue in state.tree.queues and not is_stuck(state, victim, now)
    )
    return "", Claimant(workload, claim, assignment, victims)


def _with_room(state: State, claimants: list[Claimant]) -> list[Claimant]:
    """The claims that fit the tree as it will be, oldest first; of two that do not fit together the older one."""
    left = claimants
    while (without := _first_without_room(state, left)) is not None:  # its victims then free nothing
        left = [claimant for claimant in left if claimant is not without]
    return left


def _first_without_room(state: State, claimants: list[Claimant]) -> Claimant | None:
    with state.trial():
        credit(state, claimants)
        return next((claimant for claimant in claimants if not _finds_room(state, claimant)), None)


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
    return {victim.key: victim for claimant in claimants for victim in claimant.victims}


def credit(state: State, claimants: Iterable[Claimant]) -> None:
    for victim in credited(claimants).values():
        state.tree.release_all(state.tree.queues[victim.queue], victim.usage or {})


def foresee(state: State, claimants: Iterable[Claimant], now: Millis) -> None:
    """Make the state what it will be once all claims are redeemed; claimants can be displaced as if they ran."""
    known = list(claimants)
    credit(state, known)
    for victim in credited(known).values():
        state.holders.remove(victim)
    for claimant in known:
        running = claimant.as_holder(now)
        state.tree.charge_all(state.tree.queues[running.queue], running.usage or {})
        state.holders.add(running)
        state.claims.foresee(claimant)


# --- claims that are due, claims that are over ------------------------------------------------------------------------


def ready(state: State) -> list[Workload]:
    """Claimants that are due because all their victims have left; of a family the most preferred (S-4.2, S-5.1)."""
    due = []
    for queue, members in state.claims.of_queue.items():
        waiting_list = state.pending.lists.get(queue)
        if waiting_list is None:
            continue
        for key, known in members.items():
            workload = waiting_list.waiting.get(key)
            is_due = workload is not None and waiting_list.is_due(key, blocks=state.waits_for_pods)
            if workload is not None and is_due and not still_charged(state, known.claim):
                due.append(workload)
    due.sort(key=lambda workload: (workload.option_rank, workload.key))
    families: set[Uid] = set()
    chosen = []
    for workload in due:
        if workload.family is None or workload.family not in families:
            chosen.append(workload)
        if workload.family is not None:
            families.add(workload.family)
    return chosen


def overdue(state: State, now: Millis) -> list[Workload]:
    """Claimants whose claims must end for reasons that the core knows: time, quota, their queue, their own object."""
    if not state.claims:
        return []
    state.claims.note_check(now)
    return [each.workload for each in survey(state, now, list(state.claims.of_queue)).ended]


def next_deadline(state: State) -> Millis | None:
    """The next time to ask for overdue claims: the next end of a claim, or of the patience with a victim."""
    if not state.claims:
        return None
    times: set[int] = set()
    for known in state.claims.within(list(state.claims.of_queue)):
        times.add(known.claim.expires_at)
        for victim in still_charged(state, known.claim):
            by = victim.leaves_by()
            if by is not None and by + state.policy.claim_timeout_ms > state.claims.checked_at:
                times.add(by + state.policy.claim_timeout_ms)
    return Millis(min(times)) if times else None


def end(state: State, key: WorkloadKey, why: str, now: Millis) -> EndedClaim | None:
    """End a claim: its workload waits on without it, and its tree is woken; victims that leave go on leaving."""
    known = state.claims.find(key)
    if known is None:
        return None
    state.unclaim(key, now)
    workload = state.pending.find(known.queue, key)
    if workload is not None and workload.claim is not None:
        workload = workload.but(claim=None)
        state.pending.refresh(workload)
    state.wake_after_release(state.tree_of(known.queue), now)
    return None if workload is None else EndedClaim(workload, why)
