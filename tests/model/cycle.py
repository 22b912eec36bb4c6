"""One scheduling cycle (S-5)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from tests.model import claims, facts, fair, holds, queues, rotation, rounds
from tests.model.amounts import Amounts, add, sub
from tests.model.flavors import Assignment, PodSetAssignment
from tests.model.holds import Holds, Reserved
from tests.model.nomination import refusal
from tests.model.preemption import Incoming, Target, incoming_of, policy
from tests.model.quota import fits, lowest_subtree
from tests.model.world import Claim, Progress, Snapshot, Standing, World, queue_node, snapshot

STATUS_REASON = {  # S-5.12
    "PreemptionNoCandidates": "WaitingForQuota",
    "FailedAfterNomination": "WaitingForQuota",
    "PendingPreemption": "WaitingForPreemptedWorkloads",
    "PreemptionGated": "AdmissionGated",
}


@dataclass
class Entry:
    """A head and its outcome: ``status`` assumed or skipped, or a requeue reason."""

    p: Incoming
    assignment: Assignment
    targets: list[Target]
    mode: str
    status: str | None = None
    reason: str | None = None
    skipped_preemption: bool = False
    recomputed: str | None = None
    held_back: bool = False
    lost_to: Holds = field(default_factory=dict)  # held back: what was held when it was evaluated
    lets_go_first: str | None = None  # the workload that has its turn before it (S-7.14b)
    standing: Standing | None = None  # set: no head, only the place of a standing reservation
    claim: Claim | None = None  # set: a claimant whose victims are gone, beside the head

    @property
    def asks(self) -> Amounts:
        return self.assignment.usage if self.standing is None else self.standing.asks


@dataclass
class Result:
    """The effects of a cycle; entries are in processing order."""

    entries: list[Entry] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)  # heads that were not assigned -> requeue reason
    preempted: list[tuple[str, str, str]] = field(default_factory=list)  # victim, preemptor, reason
    evicted: list[str] = field(default_factory=list)  # victims that were not evicted before
    taken: list[tuple[str, str, str]] = field(default_factory=list)  # former claimant, taker, reason
    over: list[tuple[str, str]] = field(default_factory=list)  # claims that ended otherwise than by admission, why
    reserved: list[str] = field(default_factory=list)


@dataclass
class Run:
    """The state while entries are processed."""

    world: World
    snap: Snapshot  # the tree as it will be
    as_it_is: Snapshot
    now: int
    chosen: dict[str, Target] = field(default_factory=dict)
    reservations: list[Reserved] = field(default_factory=list)
    woken: set[str] = field(default_factory=set)  # queues in whose tree a claim ended


def place(world: World, e: Entry) -> tuple[object, ...]:  # S-5.6
    return (0, e.claim.issued_at, e.p.uid) if e.claim is not None else (1, *entry_order(world, e))


def entry_order(world: World, e: Entry) -> tuple[bool, int, int, int, str, str]:  # S-5.6
    gates = world.settings.gates
    first = gates["PrioritizePreemptorWorkloads"] and e.p.key in world.preemptors
    prio = -e.p.priority if gates["PrioritySortingWithinCohort"] else 0
    return (not first, e.assignment.level, prio, e.p.queue_time, e.p.queue, e.p.uid)


def resume_state(world: World, queue: str, key: str) -> list[dict[str, int]]:  # S-6.8
    stored = world.progress.get(key)
    if stored is None or stored.shape != queues.shape_of(world, key):
        return []
    old = stored.cycle < world.cycles - 1
    return [] if old and stored.generation != world.generation[queue] else stored.tried


def store_progress(run: Run, e: Entry) -> None:  # S-6.8
    world, key = run.world, e.p.key
    tried = e.assignment.tried()
    world.progress[key] = Progress(
        world.cycles, world.generation[e.p.queue], queues.shape_of(world, key), [dict(t) for t in tried]
    )
    reached = {(i, r) for i, podset in enumerate(tried) for r, index in podset.items() if index == -1}
    in_vain = {(i, r) for i, p in enumerate(e.assignment.podsets) if not p.flavors for r in p.requests}
    world.ended.setdefault(key, set()).update(reached | in_vain)


def make_entry(run: Run, queue: str, key: str) -> Entry:  # S-5.3.6
    p = incoming_of(run.world.workloads[key], queue, run.world.settings)
    found, victims, first = rotation.search(run.world, run.snap, p, resume_state(run.world, queue, key))
    if any(p.uid in t.not_for for t in run.snap.holders.values()):
        run.snap.limited.add(key)  # decision 0014: a victim's verdict is its own
    e = Entry(p, found, victims, found.mode, lets_go_first=first)
    store_progress(run, e)
    return e


def standing_entry(world: World, queue: str, held: Standing) -> Entry:  # S-5.13
    p = incoming_of(world.workloads[held.workload], queue, world.settings)
    return Entry(p, Assignment(level=held.level), [], "Preempt", standing=held)


def without(snap: Snapshot, keys: set[str]) -> Snapshot:
    found = snap.copy()
    for key in sorted(keys):
        found.remove(key)
    return found


def fits_but_for(run: Run, e: Entry, off: tuple[bool, ...], held: bool) -> bool:
    """Whether it fits without victims and reservations ``off`` (that stay or not), and past what is held."""  # S-5.7.2
    snap = without(run.snap, set(run.chosen) | {t.key for t in e.targets})
    for each in run.reservations:
        if each.stays in off:
            snap.charge(each.queue, {fr: -v for fr, v in each.amounts.items()})
    left = [each for each in run.reservations if each.stays not in off]
    usage = e.assignment.usage
    deferred = e.mode == "DeferredFit"  # S-5.7.3 has found that it fits; only what is held may keep it out
    if not deferred and not fits(snap, e.p.queue, usage):
        return False
    return not held or holds.let_pass(run.world, snap, e.p.queue, usage, left)


def overlaps(run: Run, e: Entry) -> bool:
    return any(t.key in run.chosen for t in e.targets)


def recompute(run: Run, e: Entry) -> None:  # S-5.7.3
    seen = without(run.snap, set(run.chosen))
    e.assignment, e.targets, first = rotation.search(run.world, seen, e.p, [], e.assignment.nominated())
    e.lets_go_first = first or e.lets_go_first
    store_progress(run, e)
    e.mode = "DeferredFit" if e.assignment.mode == "Fit" else e.assignment.mode
    e.recomputed = {"DeferredFit": "deferred_fit"}.get(e.mode, "new_targets" if e.targets else "skipped")


def reserves_anyway(world: World, e: Entry) -> bool:
    """Recorded: a head with pending preemptions also blocks what it could reclaim later."""  # decision 0028
    gates, key = world.settings.gates, e.p.key
    is_last = key in world.preemptors and world.last_preemptor.get(e.p.queue) == key
    return is_last and gates["PrioritizePreemptorWorkloads"] and world.settings.parity


def reservation(snap: Snapshot, e: Entry, anyway: bool = False) -> Amounts:
    """The amounts blocked by a head that needs preemption and has no victims."""  # S-5.8
    if policy(snap, e.p.queue, "reclaimWithinCohort") == "Any" and not anyway:
        return {}
    node = snap.tree[queue_node(e.p.queue)]
    borrows = e.assignment.level > 0 and not snap.settings.gates["PreemptionClaims"]
    found: Amounts = {}
    for fr, requested in e.assignment.usage.items():
        nominal, used = node.nominal.get(fr, 0), snap.used[e.p.queue].get(fr, 0)
        if not borrows:
            found[fr] = max(0, min(requested, sub(nominal, used)))
        elif fr in node.borrowing_limit:
            found[fr] = max(0, min(requested, sub(add(nominal, node.borrowing_limit[fr]), used)))
        else:
            found[fr] = requested
    return found


def reserve(run: Run, e: Entry) -> None:  # S-5.8, S-5.13
    world, queue = run.world, e.p.queue
    amounts = reservation(run.snap, e, reserves_anyway(world, e))
    stays = queues.is_strict(world, queue) and not world.settings.parity and not world.settings.strict_fifo_lends
    run.snap.charge(queue, amounts)
    run.reservations.append(Reserved(queue, amounts, stays))
    if stays and any(amounts.values()):
        world.standing[queue] = Standing(e.p.key, e.assignment.level, amounts, dict(e.assignment.usage))


def lose(run: Run, e: Entry) -> None:
    """It no longer fits. If only reserved quota keeps it out, search again; then wait for what stays reserved."""
    settings = run.world.settings  # S-5.7.9, S-5.15, S-5.1
    only_kept_out = not settings.parity and fits_but_for(run, e, (True, False), held=False)
    if only_kept_out and settings.gates["PreemptionClaims"] and search_again(run, e):
        go_on(run, e)
        return
    e.held_back = only_kept_out and not fits_but_for(run, e, (False,), held=True)
    if e.held_back:
        e.lost_to = holds.in_force(run.world, without(run.snap, set(run.chosen)), run.reservations)
    skip(run, e)


def search_again(run: Run, e: Entry) -> bool:
    """Whether there is a set of targets, or room for a part, beside all that is reserved, held or claimed."""  # S-5.15
    before = e.assignment, e.targets, e.mode, e.lets_go_first
    bare = without(run.snap, set(run.chosen))
    for seen in (bare, holds.charged(run.world, bare, e.p.queue, run.reservations)):
        only = before[0].nominated()
        e.assignment, e.targets, e.lets_go_first = rotation.search(run.world, seen, e.p, [], only)
        e.mode = e.assignment.mode
        found = e.mode == "Fit" or (e.mode == "Preempt" and bool(e.targets) and not is_gated(run, e))
        if found and fits_but_for(run, e, (), held=True):
            store_progress(run, e)
            return True
        e.assignment, e.targets, e.mode, e.lets_go_first = before
    return False


def charge_claim(run: Run, e: Entry) -> None:
    """Charge a claim made in this cycle: an entry that loses to it waits for its end."""  # S-5.1
    run.snap.charge(e.p.queue, e.assignment.usage)
    if run.world.settings.gates["PreemptionClaims"]:
        run.reservations.append(Reserved(e.p.queue, e.assignment.usage, True, claimed=True))


def drop_progress(run: Run, e: Entry) -> None:  # S-6.8
    run.world.progress.pop(e.p.key, None)


def defer(run: Run, e: Entry) -> None:  # S-5.7.7
    e.mode, e.reason = "DeferredFit", "PendingPreemption"
    charge_claim(run, e)
    drop_progress(run, e)
    if run.world.settings.gates["PreemptionClaims"]:
        claims.make_deferred(run.world, e.p, e.assignment, run.now)


def skip(run: Run, e: Entry) -> None:  # S-5.7.8, S-5.7.9
    e.status, e.skipped_preemption = "skipped", e.mode == "Preempt"


def redeem(run: Run, e: Entry) -> None:
    """Check a claimed assignment, without its own claim and with all others."""  # S-19.1.2
    held = run.snap.holders[e.p.key]
    run.snap.remove(e.p.key)
    levels = [lowest_subtree(run.snap, e.p.queue, fr, v)[0] for fr, v in e.assignment.usage.items()]
    e.assignment = replace(e.assignment, level=max(levels, default=0))  # S-6.5, of the tree it is checked in
    if not fits(run.snap, e.p.queue, e.assignment.usage):
        e.status = "skipped"
        run.world.claims.pop(e.p.key)
        run.woken.add(e.p.queue)
        return
    if fits(run.as_it_is, e.p.queue, e.assignment.usage):
        e.status = "assumed"
        run.as_it_is.charge(e.p.queue, e.assignment.usage)
        run.snap.charge(e.p.queue, e.assignment.usage)  # no claim any more, so no entry takes it in this cycle
    else:
        run.snap.put_back(held)
        e.mode, e.reason = "DeferredFit", "PendingPreemption"  # its claim stays as it is


def process(run: Run, e: Entry) -> None:  # S-5.7
    if e.standing is not None:
        run.snap.charge(e.p.queue, e.standing.amounts)
        run.reservations.append(Reserved(e.p.queue, e.standing.amounts, True))
    elif e.claim is not None:
        redeem(run, e)
    else:
        process_head(run, e)


def is_gated(run: Run, e: Entry) -> bool:  # S-14.4
    gate = run.world.settings.gates["MultiKueueOrchestratedPreemption"]
    return e.mode == "Preempt" and gate and facts.has_closed_gate(run.world.workloads[e.p.key])


def process_head(run: Run, e: Entry) -> None:  # S-5.7
    gates = run.world.settings.gates
    run.world.entitled.pop(e.p.key, None)  # S-5.14: the new verdict decides
    if overlaps(run, e) and gates["RecomputeAssignmentUponPreemptionTargetsOverlap"]:
        recompute(run, e)
    if e.mode == "NoFit":
        e.reason = "NoFit"
    elif e.mode == "Preempt" and not e.targets:
        as_it_will_be = without(run.snap, set(run.chosen))
        holds.judge(run.world, as_it_will_be, e.p.key, e.p.queue, e.assignment, run.reservations)
        reserve(run, e)
        e.reason = "PreemptionNoCandidates"
    elif is_gated(run, e):
        go_on(run, e)
    elif overlaps(run, e):
        skip(run, e)
    elif not fits_but_for(run, e, (), held=True):
        lose(run, e)
    else:
        go_on(run, e)


def go_on(run: Run, e: Entry) -> None:
    """Carry out an entry that fits, once the victims it counts on are gone."""  # S-5.7.6, S-5.7.7, S-5.7.9a
    claims_count = run.world.settings.gates["PreemptionClaims"]
    if is_gated(run, e):
        e.reason = "PreemptionGated"
        drop_progress(run, e)
    elif e.mode == "DeferredFit":
        defer(run, e)
    elif claims_count and e.mode == "Fit" and not fits(run.as_it_is, e.p.queue, e.assignment.usage):
        defer(run, e)  # S-5.7.9a
    else:
        take(run, e)


def take(run: Run, e: Entry) -> None:  # S-5.7.10-14
    if e.mode == "Preempt":
        issue(run, e)
        run.chosen.update({t.key: t for t in e.targets})
        charge_claim(run, e)
    else:
        e.status = "assumed"
        run.snap.charge(e.p.queue, e.assignment.usage)
        run.as_it_is.charge(e.p.queue, e.assignment.usage)


def issue(run: Run, e: Entry) -> None:  # S-5.7.11, S-10.1
    world = run.world
    e.reason = "PendingPreemption"
    drop_progress(run, e)
    above = claims.count_round(world, without(run.snap, set(run.chosen)), e.p, e.assignment, e.targets)
    if world.settings.gates["PreemptionClaims"]:
        taken = claims.make(world, e.p, e.assignment, e.targets, run.now)
        world.claims[e.p.key].above = above
        by_share = {t.key for t in e.targets if t.reason == "InCohortFairSharing"}
        for claim in taken:
            if claim.workload in by_share:
                claims.lose_by_share(world, claim)
        run.woken |= {claim.queue for claim in taken}


def evict(world: World, target: Target, now: int) -> bool:
    """Evict a victim; return whether it had not been asked to leave before."""  # S-10.1, S-10.2
    wl = world.workloads[target.key]
    if facts.is_true(wl, "Evicted"):
        return False
    facts.set_condition(wl, "Preempted", True, target.reason, now)
    facts.set_condition(wl, "Evicted", True, "Preempted", now)
    return True


def checks_are_ready(world: World, e: Entry) -> bool:  # S-5.7.14, S-11.1
    flavors = {c.flavor for p in e.assignment.podsets for c in p.flavors.values()}
    rules = (world.queues[e.p.queue].get("admissionChecksStrategy") or {}).get("admissionChecks") or []
    required = {c["name"] for c in rules if not c.get("onFlavors") or flavors & set(c["onFlavors"])}
    listed = {c["name"]: c["state"] for c in world.workloads[e.p.key]["status"].get("admissionChecks") or []}
    return required <= set(listed) and all(state == "Ready" for state in listed.values())


def quantity(resource: str, v: int) -> str:
    return f"{v}m" if resource == "cpu" else str(v)


def written(podset: PodSetAssignment) -> facts.Raw:  # S-6.13
    return {
        "name": podset.name,
        "count": podset.count,
        "flavors": {r: c.flavor for r, c in sorted(podset.flavors.items())},
        "resourceUsage": {r: quantity(r, podset.requests[r]) for r in sorted(podset.flavors)},
    }


def admit(world: World, e: Entry, now: int) -> None:  # S-5.7.14, S-10.6
    wl = world.workloads[e.p.key]
    queues.leave(world, e.p.key)
    world.preemptors.discard(e.p.key)
    podsets = [written(p) for p in e.assignment.podsets]
    facts.status_of(wl)["admission"] = {"clusterQueue": e.p.queue, "podSetAssignments": podsets}
    facts.set_condition(wl, "QuotaReserved", True, "QuotaReserved", now)
    for kind in ("Evicted", "Preempted", "QuotaReservationBlocked"):
        if facts.is_true(wl, kind):
            facts.set_condition(wl, kind, False, "QuotaReserved", now)
    if checks_are_ready(world, e):
        facts.set_condition(wl, "Admitted", True, "Admitted", now)
    else:
        facts.set_condition(wl, "Admitted", False, "UnsatisfiedAdmissionChecks", now)


def write_pending(world: World, key: str, reason: str, now: int) -> None:  # S-5.12
    wl = world.workloads[key]
    facts.set_condition(wl, "QuotaReserved", False, reason, now)
    if reason == "AdmissionGated":
        facts.set_condition(wl, "QuotaReservationBlocked", True, "PreemptionGated", now)
    if facts.condition(wl, "Admitted") is None or facts.is_true(wl, "Admitted"):
        facts.set_condition(wl, "Admitted", False, "NoReservation", now)


def conclude(run: Run, e: Entry, result: Result) -> None:
    """Write the decision and requeue the head."""
    world, key, now = run.world, e.p.key, run.now
    if e.status == "assumed":
        if key in world.claims:
            run.woken.add(e.p.queue)
        admit(world, e, now)
        result.reserved.append(key)
        return
    reason = e.reason or "FailedAfterNomination"
    if e.mode == "Preempt" and e.reason == "PendingPreemption":
        conclude_preemption(run, e, result)
    write_pending(world, key, STATUS_REASON.get(reason) or e.assignment.no_fit_reason or "WaitingForQuota", now)
    queues.requeue(world, e.p.queue, key, reason, now, shared=key not in run.snap.limited)
    if e.held_back:
        world.refused.add(key)
        world.held_back.add(key)
    if e.lets_go_first is not None and reason in queues.SHAPE_REASONS:
        world.turns[key] = e.lets_go_first


def conclude_preemption(run: Run, e: Entry, result: Result) -> None:
    for t in e.targets:
        if t.claims:
            result.taken.append((t.key, e.p.key, t.reason))
            claims.lose_to(run.world, t.key, e.p.key)
            continue
        result.preempted.append((t.key, e.p.key, t.reason))
        if evict(run.world, t, run.now):
            result.evicted.append(t.key)
            claims.lose_to(run.world, t.key, e.p.key)


def standing_reservations(world: World, popped: dict[str, str]) -> list[Entry]:
    """The standing reservations of this cycle; one ends when its head is evaluated or is no head any more."""  # S-5.13
    for queue, held in list(world.standing.items()):
        if queue in popped or held.workload not in queues.in_heap_order(world, queue)[:1]:
            del world.standing[queue]
    return [standing_entry(world, queue, held) for queue, held in sorted(world.standing.items())]


def nominate_all(run: Run, popped: Sequence[tuple[str, str, Claim | None]], result: Result) -> list[Entry]:
    """Take heads and claimants out of their heaps; refused ones go back at once."""  # S-5.3
    world, entries = run.world, []
    for queue, key, claim in popped:
        world.heap[queue].discard(key)
        world.refused.discard(key)
        world.held_back.discard(key)
        world.turns.pop(key, None)
        refused = refusal(world, queue, key)
        if refused is None and claim is not None:
            p = incoming_of(world.workloads[key], queue, world.settings)
            entries.append(Entry(p, claim.assignment, [], "Fit", claim=claim))
        elif refused is None:
            entries.append(make_entry(run, queue, key))
        else:
            if world.claims.pop(key, None) is not None:
                run.snap.remove(key)
                run.woken.add(queue)
            world.entitled.pop(key, None)
            result.refused[key] = refused.requeue_reason
            write_pending(world, key, refused.condition_reason, run.now)
            queues.requeue(world, queue, key, refused.requeue_reason, run.now)
    return entries


def in_order(run: Run, entries: list[Entry]) -> Iterator[Entry]:
    """The entries in the order of processing; with fair sharing the next is chosen when the last has been processed."""
    if not run.world.settings.strategies:
        yield from sorted(entries, key=lambda e: place(run.world, e))  # S-5.6
        return
    left = list(entries)
    while left:  # S-9.4
        gone = set(run.chosen) if run.world.settings.gates["PreemptionClaims"] else set()
        e = fair.next_of(without(run.snap, gone), left, run.world.preemptors)
        left.remove(e)
        yield e


def cycle(world: World, now: int) -> Result:
    """Run one cycle: change the world, return the effects."""  # S-5.1
    rounds.note(world, now)
    result = Result(over=claims.end_those_over(world, now))
    before = dict(world.standing)
    claimed = list(world.claims.values())
    heads = queues.heads(world)
    claimants = [(c.queue, c.workload, c) for c in claims.ready(world)]
    if not claimants and not heads:
        return result
    world.cycles += 1
    as_it_is = snapshot(world, now)
    run = Run(world, claims.as_it_will_be(world, as_it_is), as_it_is, now)
    held = holds.in_force(world, run.snap, [])
    for e in sorted(nominate_all(run, claimants, result), key=lambda e: place(world, e)):
        process(run, e)  # before all others are evaluated (S-19.1.2)
        result.entries.append(e)
    entries = standing_reservations(world, heads)
    entries += nominate_all(run, [(q, key, None) for q, key in heads.items()], result)
    for e in in_order(run, entries):
        process(run, e)
        if e.standing is None:
            result.entries.append(e)
    made = [claim for claim in claims.oldest_first(world) if not any(claim is old for old in claimed)]
    rounds.claims_made(world, made, {t.key: t.reason for t in run.chosen.values()}, now)
    for e in result.entries:
        conclude(run, e, result)
    settle_due(world, before, result)
    settle_turns(world, result, now)
    settle_holds(world, held, result, now)
    for queue in sorted(run.woken):
        queues.wake(world, queue, now)
    return result


def settle_due(world: World, before: dict[str, Standing], result: Result) -> None:
    """Make due what this cycle affects."""  # S-4.6.8, S-5.1
    for e in result.entries:
        if e.status == "assumed":
            queues.wake_strict_heads(world, e.p.queue)
    just_lost = {e.p.key for e in result.entries if e.held_back}
    for queue in sorted({*before, *world.standing}):
        if before.get(queue) != world.standing.get(queue):
            queues.wake_held_back(world, queue, just_lost)


def settle_turns(world: World, result: Result, now: int) -> None:
    """A workload that let another go first is due when that has a claim, or any of the tree was admitted."""  # S-4.6.9
    held_back = {e.p.key for e in result.entries if e.held_back}
    for first in sorted(set(world.turns.values()) & (set(world.claims) | held_back)):
        queues.let_go(world, first, now)
    for e in result.entries:
        if e.status == "assumed":
            queues.let_go_after_admission(world, e.p.queue, now)


def settle_holds(world: World, before: Holds, result: Result, now: int) -> None:
    """A workload that lost to a hold is due when the hold has changed since its evaluation."""  # S-5.14, S-5.1
    if not before and not world.entitled and not any(e.lost_to for e in result.entries):
        return
    after = holds.in_force(world, claims.as_it_will_be(world, snapshot(world, now)), [])
    just_lost = {e.p.key: e for e in result.entries if e.held_back}
    for queue in sorted({*before, *after}):
        if before.get(queue) != after.get(queue):
            queues.wake_held_back(world, queue, set(just_lost))
    for e in just_lost.values():
        tree = queues.covered(world, e.p.queue)
        if any(e.lost_to.get(queue) != after.get(queue) for queue in tree):
            world.refused.discard(e.p.key)
            world.held_back.discard(e.p.key)
