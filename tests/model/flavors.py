"""Flavor assignment (S-6)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from tests.model.amounts import Amounts, FlavorResource, add
from tests.model.facts import PodSet, Raw
from tests.model.placing import may_use
from tests.model.preemption import Incoming, borrow_within_cohort, policy
from tests.model.quota import (
    available_to_queue,
    lowest_subtree,
    potential_available,
)
from tests.model.targets import targets
from tests.model.world import Snapshot, queue_node

NO_FIT, NO_CANDIDATES, PREEMPT, RECLAIM, FIT = range(5)  # S-6.6, ascending
OUTSIDE = {NO_FIT: "NoFit", NO_CANDIDATES: "Preempt", PREEMPT: "Preempt", RECLAIM: "Preempt", FIT: "Fit"}  # S-6.9
WORST_FIRST = ["NoFit", "Preempt", "DeferredFit", "Fit"]
SEVERITY = ["WaitingForQuota", "ExceedsMaxQuota", "NoMatchingFlavor"]  # S-6.10, mild to severe

Verdict = tuple[int, int]  # mode, level
Simulation = Callable[[FlavorResource, int], Verdict | None]
Only = dict[tuple[int, str], str]  # podset and resource -> the one flavor allowed


@dataclass(frozen=True)
class Choice:
    """The flavor one resource got."""

    flavor: str
    mode: int
    level: int
    tried: int


@dataclass
class PodSetAssignment:
    name: str
    count: int
    requests: dict[str, int]
    flavors: dict[str, Choice] = field(default_factory=dict)
    mode: str = "Fit"


@dataclass
class Assignment:
    podsets: list[PodSetAssignment] = field(default_factory=list)
    mode: str = "Fit"
    level: int = 0
    usage: Amounts = field(default_factory=dict)
    no_fit_reason: str | None = None

    def need(self) -> frozenset[FlavorResource]:  # S-7.2
        choices = [(r, c) for p in self.podsets for r, c in p.flavors.items()]
        return frozenset((c.flavor, r) for r, c in choices if OUTSIDE[c.mode] == "Preempt")

    def tried(self) -> list[dict[str, int]]:  # S-6.8
        return [{r: c.tried for r, c in p.flavors.items()} for p in self.podsets]

    def nominated(self) -> Only:  # S-5.7.3
        return {(i, r): c.flavor for i, p in enumerate(self.podsets) for r, c in p.flavors.items()}


@dataclass
class Request:
    """One call of ``assign``."""

    snap: Snapshot
    p: Incoming
    podsets: list[PodSet]
    counts: list[int]
    resume: list[dict[str, int]]
    only: Only | None
    simulate: Simulation | None


@dataclass
class Scan:
    """What scanning the flavors of one resource group gave."""

    choices: dict[str, Choice] = field(default_factory=dict)
    representative: Verdict = (FIT, 0)
    no_fit_reason: str | None = None


def worst(modes: list[str]) -> str:
    return min(modes, key=WORST_FIRST.index, default="Fit")


def better(a: Verdict, b: Verdict, preference: str | None) -> bool:  # S-6.6
    if a[0] == NO_FIT or b[0] == NO_FIT:
        return a[0] != NO_FIT
    if NO_CANDIDATES in (a[0], b[0]) and a[0] != b[0]:
        return b[0] == NO_CANDIDATES
    if preference == "PreemptionOverBorrowing":
        return (-a[1], a[0]) > (-b[1], b[0])
    return (a[0], -a[1]) > (b[0], -b[1])


def representative(verdicts: list[Verdict], preference: str | None) -> Verdict:  # S-6.6
    found = verdicts[0]
    for verdict in verdicts[1:]:
        if better(found, verdict, preference):
            found = verdict
    return found


def search_targets(call: Request, fr: FlavorResource, v: int, level: int) -> Verdict:  # S-6.5.3
    if call.simulate is not None:
        stubbed = call.simulate(fr, v)
        if stubbed is not None:
            return stubbed
    found = targets(call.snap, call.p, frozenset([fr]), {fr: v})
    if not found:
        return NO_CANDIDATES, level
    without = call.snap.copy()
    for t in found:
        without.remove(t.key)
    mode = PREEMPT if any(t.queue == call.p.queue for t in found) else RECLAIM
    return mode, lowest_subtree(without, call.p.queue, fr, v)[0]


def judge(call: Request, fr: FlavorResource, v: int) -> tuple[Verdict, str | None]:
    """Mode and level of one pair, with the reason when it does not fit."""  # S-6.5
    snap, queue = call.snap, call.p.queue
    if v > potential_available(snap, queue_node(queue), fr):
        return (NO_FIT, 0), "ExceedsMaxQuota"
    level, may_reclaim = lowest_subtree(snap, queue, fr, v)
    if v <= available_to_queue(snap, queue, fr):
        return (FIT, level), None
    nominal = snap.tree[queue_node(queue)].nominal.get(fr, 0)
    by_shares = bool(snap.settings.strategies) and policy(snap, queue, "reclaimWithinCohort") != "Never"
    while_borrowing = borrow_within_cohort(snap, queue)[0] != "Never" or by_shares
    if nominal >= v or may_reclaim or while_borrowing:
        return search_targets(call, fr, v, level), None
    return (NO_FIT, level), "WaitingForQuota"


def fungibility(spec: Raw) -> tuple[str, str, str | None]:
    block = spec.get("flavorFungibility") or {}
    return (
        block.get("whenCanBorrow", "MayStopSearch"),
        block.get("whenCanPreempt", "TryNextFlavor"),
        block.get("preference"),
    )


def try_next(call: Request, verdict: Verdict) -> bool:  # S-6.7
    if not call.snap.settings.gates["FlavorFungibility"]:
        return verdict[0] != FIT
    when_borrow, when_preempt, _ = fungibility(call.snap.queues[call.p.queue])
    if verdict[0] in (NO_FIT, NO_CANDIDATES):
        return True
    if verdict[0] in (PREEMPT, RECLAIM) and when_preempt == "TryNextFlavor":
        return True
    return verdict[1] > 0 and when_borrow == "TryNextFlavor"


def replaces(call: Request, new: Verdict, best: Verdict | None) -> bool:  # S-6.7
    if new[0] == NO_FIT:
        return False
    if best is None:
        return True
    if not call.snap.settings.gates["FlavorFungibility"]:
        return new[0] > best[0]
    return better(new, best, fungibility(call.snap.queues[call.p.queue])[2])


def is_passed_over(call: Request, group: list[int], resource: str, flavor: str) -> bool:  # S-6.3, S-5.7.3
    if call.only is not None and flavor not in [call.only.get((i, resource)) for i in group]:
        return True
    if flavor not in call.snap.flavors:
        return True
    members = [call.podsets[i] for i in group]
    return any(
        (p.allowed_flavors and flavor not in p.allowed_flavors) or not may_use(p.pod, call.snap.flavors[flavor])
        for p in members
    )


def resume_index(call: Request, group: list[int], resource: str) -> int:  # S-6.8
    stored = [call.resume[i][resource] for i in group if i < len(call.resume) and resource in call.resume[i]]
    return stored[0] + 1 if stored else 0


def scan(
    call: Request, group: list[int], wanted: dict[str, int], deciding: str, flavors: list[str], used: Amounts
) -> Scan:
    """Try the flavors of one resource group for all its requested resources."""  # S-6.3, S-6.7
    best: tuple[Verdict, str, dict[str, Verdict]] | None = None
    reasons: list[str] = []
    start = resume_index(call, group, deciding)
    last = start
    for last in range(start, len(flavors)):
        flavor = flavors[last]
        if is_passed_over(call, group, deciding, flavor):
            reasons.append("NoMatchingFlavor")
            continue
        judged = {r: judge(call, (flavor, r), add(used.get((flavor, r), 0), v)) for r, v in wanted.items()}
        preference = fungibility(call.snap.queues[call.p.queue])[2]
        verdict = representative([judged[r][0] for r in wanted], preference)
        if verdict[0] == NO_FIT:
            reasons.append(max((why for _, why in judged.values() if why), key=SEVERITY.index))
        stop = not try_next(call, verdict)
        if stop or replaces(call, verdict, best[0] if best else None):
            best = (verdict, flavor, {r: judged[r][0] for r in wanted})
        if stop:
            break
    if best is None:
        return Scan(no_fit_reason=min(reasons, key=SEVERITY.index, default="NoMatchingFlavor"))
    tried = -1 if last >= len(flavors) - 1 else last  # S-6.8
    choices = {r: Choice(best[1], mode, level, tried) for r, (mode, level) in best[2].items()}
    return Scan(choices, best[0])


def covering(spec: Raw, resource: str) -> Raw | None:
    groups = [g for g in spec.get("resourceGroups") or [] if resource in g["coveredResources"]]
    return groups[0] if groups else None


def podset_groups(podsets: list[PodSet]) -> list[list[int]]:  # S-6.1
    found: dict[str, list[int]] = {}
    for i, p in enumerate(podsets):
        found.setdefault(f"group {p.group}" if p.group else f"alone {i}", []).append(i)
    return list(found.values())


def requests_of(call: Request, index: int) -> dict[str, int]:  # S-1.7, S-1.9
    wanted = call.podsets[index].requests(call.counts[index])
    if covering(call.snap.queues[call.p.queue], "pods"):
        wanted["pods"] = call.counts[index]
    return wanted


def assign_group(call: Request, group: list[int], wanted: dict[str, int], used: Amounts) -> list[Scan]:
    """Scan every resource group a podset group requests something of."""  # S-6.1, S-6.2, S-1.10
    spec = call.snap.queues[call.p.queue]
    scans: list[Scan] = []
    done: set[str] = set()
    for resource in sorted(wanted):
        if resource in done:
            continue
        resource_group = covering(spec, resource)
        if resource_group is None:
            if wanted[resource] > 0 and not call.snap.settings.ignore_undeclared:
                scans.append(Scan(no_fit_reason="NoMatchingFlavor"))
            continue
        together = {r: wanted[r] for r in sorted(wanted) if r in resource_group["coveredResources"]}
        flavors = [f["name"] for f in resource_group["flavors"]]
        scans.append(scan(call, group, together, resource, flavors, used))
        done |= set(together)
    return scans


def podset_mode(call: Request, scans: list[Scan]) -> str:  # S-6.9
    if call.snap.settings.gates["AssignmentModeByWorstResource"]:
        return worst([OUTSIDE[c.mode] for s in scans for c in s.choices.values()])
    return worst([OUTSIDE[s.representative[0]] for s in scans])


def assign(
    snap: Snapshot,
    p: Incoming,
    podsets: list[PodSet],
    counts: list[int],
    resume: list[dict[str, int]] | None = None,
    only: Only | None = None,
    simulate: Simulation | None = None,
) -> Assignment:
    """Give every podset a flavor per resource, or say why that cannot be."""  # S-6
    call = Request(snap, p, podsets, counts, resume or [], only, simulate)
    result = Assignment()
    done: dict[int, PodSetAssignment] = {}
    for group in podset_groups(podsets):
        requests = {i: requests_of(call, i) for i in group}
        wanted: dict[str, int] = {}
        for i in group:
            for r, v in requests[i].items():
                wanted[r] = add(wanted.get(r, 0), v)
        scans = assign_group(call, group, wanted, result.usage)
        reasons = [s.no_fit_reason for s in scans if s.no_fit_reason]
        for i in group:
            done[i] = PodSetAssignment(podsets[i].name, counts[i], requests[i])
        if reasons:  # S-6.10
            for i in group:
                done[i].mode = "NoFit"
            result.no_fit_reason = max(reasons, key=SEVERITY.index)
            break
        for i in group:
            settle(call, done[i], scans, result)
    result.podsets = [done[i] for i in sorted(done)]
    result.mode = worst([ps.mode for ps in result.podsets])
    return result


def settle(call: Request, podset: PodSetAssignment, scans: list[Scan], result: Assignment) -> None:  # S-6.9
    for found in scans:
        for r, choice in found.choices.items():
            if r in podset.requests:
                podset.flavors[r] = choice
                fr = (choice.flavor, r)
                result.usage[fr] = add(result.usage.get(fr, 0), podset.requests[r])
                result.level = max(result.level, choice.level)
    podset.mode = podset_mode(call, scans)
