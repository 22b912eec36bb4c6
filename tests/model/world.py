"""The world, its settings and the snapshot a cycle decides on."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from tests.model import facts
from tests.model.amounts import Amounts, add, amount, parse_quantity, sub
from tests.model.facts import Raw

if TYPE_CHECKING:
    from tests.model.flavors import Assignment

GATES = {  # api.md 9.2, column "Ours"
    "PartialAdmission": True,
    "FlavorFungibility": True,
    "PrioritySortingWithinCohort": True,
    "SchedulingEquivalenceHashing": True,
    "ReclaimablePods": True,
    "RecomputeAssignmentUponPreemptionTargetsOverlap": True,
    "PriorityBoost": False,
    "PrioritizePreemptorWorkloads": False,
    "MultiKueueOrchestratedPreemption": True,
    "TimeBasedSamePriorityPreemption": True,
    "FairSharingPreemptWithinNominal": True,
    "FairSharingPrioritizeNonBorrowing": True,
    "PreemptionClaims": True,
    "PreemptionRevalidateTargets": True,
    "PreemptionEpochs": True,
    "AssignmentModeByWorstResource": True,
}
PARITY_GATES = GATES | {  # api.md 9.2, column "Parity"
    "MultiKueueOrchestratedPreemption": False,
    "PreemptionClaims": False,
    "PreemptionRevalidateTargets": False,
    "PreemptionEpochs": False,
    "AssignmentModeByWorstResource": False,
}


@dataclass(frozen=True)
class Settings:
    """The modelled system. ``parity`` is the recorded one; gates not named here are not modelled."""

    parity: bool
    gates: dict[str, bool]
    pods_ready_timestamp: str = "Eviction"
    ignore_undeclared: bool = False
    strict_fifo_lends: bool = False
    claim_timeout: int = 300_000
    strategies: tuple[str, ...] = ()  # of fair sharing; none: classical preemption
    entitled_hold: str = "All"  # S-5.14; StrictFIFO: standing reservations alone
    rotation: str = "Fair"  # S-7.14; Literal: without it
    rounds_end_after: int = 600_000  # S-19.3.2

    @property
    def fair_rotation(self) -> bool:
        return self.rotation == "Fair"

    @property
    def fair_ties(self) -> bool:
        """Whether run times break ties; the recorded system breaks them by UID."""  # S-7.14c
        return self.fair_rotation and not self.parity


def make_settings(profile: str, gates: dict[str, bool] | None = None, **others: Any) -> Settings:
    base = {"parity": PARITY_GATES, "default": GATES}[profile]
    if profile == "parity":
        others = {"entitled_hold": "StrictFIFO"} | others
    return Settings(profile == "parity", base | (gates or {}), **others)


@dataclass
class Progress:
    """Where the flavor scan of a workload stopped."""  # S-6.8

    cycle: int
    generation: int
    shape: str
    tried: list[dict[str, int]]


@dataclass
class Standing:
    """The amounts that a refused StrictFIFO head keeps reserved, and the level at which it waits."""  # S-5.13

    workload: str
    level: int
    amounts: Amounts
    asks: Amounts = field(default_factory=dict, compare=False)  # the usage of its head: by that shares order it


@dataclass
class Claim:
    """The promise to a preemptor while its victims leave."""  # S-19.1, S-10.13

    workload: str
    uid: str
    queue: str
    assignment: Assignment
    victims: dict[str, str]  # all that it counts or counted on, key -> uid, in order of choice
    charged: set[str]  # those that still hold their quota
    issued_at: int
    expires_at: int
    preempts: bool  # whether open gates were needed
    made_for: str  # the fields of the object that end it by a change
    disturbs: bool = True  # whether it has victims that were not displaced by time (epochs 2)
    above: bool = False  # whether it was made in a round that ended above nominal


@dataclass
class Rounds:
    """How often a workload preempted, and which one took its place last."""  # S-19.3

    above: int = 0  # rounds that ended above nominal
    total: int = 0
    passed_on: int = 0  # claims it lost to poorer sides (S-9.14)
    lost_to: str | None = None


@dataclass
class World:
    """Everything: objects as plain dicts, and what the queues remember."""

    settings: Settings
    flavors: dict[str, Raw] = field(default_factory=dict)
    cohorts: dict[str, Raw] = field(default_factory=dict)
    queues: dict[str, Raw] = field(default_factory=dict)
    terminating: set[str] = field(default_factory=set)
    local_queues: dict[str, Raw] = field(default_factory=dict)
    namespaces: dict[str, dict[str, str]] = field(default_factory=dict)
    limit_ranges: list[Raw] = field(default_factory=list)
    workloads: dict[str, Raw] = field(default_factory=dict)

    heap: dict[str, set[str]] = field(default_factory=dict)
    parked: dict[str, set[str]] = field(default_factory=dict)
    sticky: dict[str, str] = field(default_factory=dict)
    shapes: dict[str, dict[str, int]] = field(default_factory=dict)  # the queue time from which on they are parked
    progress: dict[str, Progress] = field(default_factory=dict)
    ended: dict[str, set[tuple[int, str]]] = field(default_factory=dict)
    preemptors: set[str] = field(default_factory=set)
    last_preemptor: dict[str, str] = field(default_factory=dict)  # of each queue, the newest of them (0028)
    refused: set[str] = field(default_factory=set)
    held_back: set[str] = field(default_factory=set)
    standing: dict[str, Standing] = field(default_factory=dict)
    turns: dict[str, str] = field(default_factory=dict)  # workload -> the one that it lets go first (S-7.14b)
    entitled: dict[str, Amounts] = field(default_factory=dict)  # requests of workloads kept out by lent quota (S-5.14)
    generation: dict[str, int] = field(default_factory=dict)
    claims: dict[str, Claim] = field(default_factory=dict)
    rounds: dict[tuple[str, ...], Rounds] = field(default_factory=dict)
    disturbed: dict[str, int] = field(default_factory=dict)  # queue -> when a claim last disturbed its tree
    cycles: int = 0

    def copy(self) -> World:
        return copy.deepcopy(self)


def load(objects: list[Raw], settings: Settings) -> World:
    """The world these objects describe; its queues are still empty (see ``queues.fill``)."""
    world = World(settings)
    for raw in copy.deepcopy(objects):
        name = raw["metadata"]["name"]
        inside = f"{raw['metadata'].get('namespace', 'default')}/{name}"
        match raw["kind"]:
            case "ResourceFlavor":
                world.flavors[name] = raw.get("spec") or {}
            case "Cohort":
                world.cohorts[name] = raw.get("spec") or {}
            case "ClusterQueue":
                world.queues[name] = raw.get("spec") or {}
                if "deletionTimestamp" in raw["metadata"]:
                    world.terminating.add(name)
            case "LocalQueue":
                world.local_queues[inside] = raw.get("spec") or {}
            case "Namespace":
                world.namespaces[name] = raw["metadata"].get("labels") or {}
            case "LimitRange":
                world.limit_ranges.append(raw)
            case "Workload":
                world.workloads[inside] = raw
    for name in world.queues:
        world.heap[name], world.parked[name], world.shapes[name] = set(), set(), {}
        world.generation[name] = 0
    return world


@dataclass(frozen=True)
class Node:
    """A ClusterQueue (a leaf) or a cohort."""  # S-2.1

    name: str
    is_queue: bool
    parent: str | None
    children: tuple[str, ...]
    nominal: Amounts
    borrowing_limit: Amounts
    lending_limit: Amounts
    weight: Fraction = Fraction(1)  # S-9.2


@dataclass(frozen=True)
class Holder:
    """A workload that holds quota, or (``claims``) one that will by its claim."""

    key: str
    queue: str
    priority: int
    uid: str
    queue_time: int
    reserved_at: int | None
    evicted: bool
    usage: Amounts
    overdue: bool = False  # evicted, and past the time by which it should have left
    claims: bool = False  # holds no quota yet
    not_for: frozenset[str] = frozenset()  # uids of those that may not make it a target
    past: int = 0  # seconds it ran before
    counts_on: tuple[tuple[str, int], ...] = ()  # of a claimant: queue and priority of each victim that is credited
    claimed_at: int = 0


@dataclass
class Snapshot:
    """The input of a cycle's decisions. Copies share what never changes within a cycle."""  # S-5.2

    settings: Settings
    now: int
    flavors: dict[str, Raw]
    queues: dict[str, Raw]
    active: frozenset[str]
    tree: dict[str, Node]
    used: dict[str, Amounts]
    holders: dict[str, Holder]
    quota_memory: dict[tuple[str, str, str], int]  # subtree quotas once computed: they never change
    rounds: dict[str, Rounds] = field(default_factory=dict)
    limited: set[str] = field(default_factory=set)  # workloads whose target search left out one that others may choose
    expired: str = "by time"  # which equals of the own queue count as expired: by time, all, none (S-7.14b)
    withheld: set[str] = field(default_factory=set)  # workloads for which that "none" left out a target

    def copy(self) -> Snapshot:
        used = {queue: dict(amounts) for queue, amounts in self.used.items()}
        return Snapshot(
            self.settings,
            self.now,
            self.flavors,
            self.queues,
            self.active,
            self.tree,
            used,
            dict(self.holders),
            self.quota_memory,
            self.rounds,
            self.limited,
            self.expired,
            self.withheld,
        )

    def charge(self, queue: str, amounts: Amounts) -> None:  # S-2.7, of the leaf; cohorts follow by S-2.9
        for fr, v in amounts.items():
            self.used[queue][fr] = add(self.used[queue].get(fr, 0), v)

    def remove(self, key: str) -> None:  # S-2.8
        holder = self.holders.pop(key)
        for fr, v in holder.usage.items():
            self.used[holder.queue][fr] = sub(self.used[holder.queue].get(fr, 0), v)

    def put_back(self, holder: Holder) -> None:
        self.holders[holder.key] = holder
        self.charge(holder.queue, holder.usage)


def queue_node(name: str) -> str:
    return f"queue {name}"


def cohort_node(name: str) -> str:
    return f"cohort {name}"


def _limits(spec: Raw, which: str) -> Amounts:  # S-2.1
    found: Amounts = {}
    for group in spec.get("resourceGroups") or []:
        for flavor in group["flavors"]:
            for quota in flavor.get("resources") or []:
                if quota.get(which) is not None:
                    found[flavor["name"], quota["name"]] = amount(quota["name"], quota[which])
    return found


def parents(world: World) -> dict[str, str | None]:
    """The parent of every node, implicit cohorts included."""  # S-2.2
    found: dict[str, str | None] = {}
    for name, spec in world.queues.items():
        found[queue_node(name)] = cohort_node(spec["cohortName"]) if spec.get("cohortName") else None
    for name, spec in world.cohorts.items():
        found[cohort_node(name)] = cohort_node(spec["parentName"]) if spec.get("parentName") else None
    for parent in list(found.values()):
        if parent is not None:
            found.setdefault(parent, None)
    return found


def on_cycle(start: str, parent_of: dict[str, str | None]) -> bool:
    """Whether the way up from here never ends."""  # S-2.3
    seen: set[str] = set()
    node: str | None = start
    while node is not None:
        if node in seen:
            return True
        seen.add(node)
        node = parent_of[node]
    return False


def build_tree(world: World) -> dict[str, Node]:  # S-2.1-2.3
    parent_of = parents(world)
    endless = {n for n in parent_of if on_cycle(n, parent_of)}
    parent_of = {n: (None if n in endless else p) for n, p in parent_of.items()}
    tree = {}
    for key, parent in parent_of.items():
        kind, name = key.split(" ", 1)
        spec = (world.queues if kind == "queue" else world.cohorts).get(name, {})
        tree[key] = Node(
            name=name,
            is_queue=kind == "queue",
            parent=parent,
            children=tuple(sorted(n for n, p in parent_of.items() if p == key)),
            nominal=_limits(spec, "nominalQuota"),
            borrowing_limit=_limits(spec, "borrowingLimit"),
            lending_limit=_limits(spec, "lendingLimit"),
            weight=parse_quantity((spec.get("fairSharing") or {}).get("weight", "1")),
        )
    return tree


def is_active_queue(world: World, name: str) -> bool:
    """Whether a ClusterQueue is active; there are no AdmissionCheck objects here, checks count as Active."""  # S-3.1
    spec = world.queues[name]
    named = [f["name"] for group in spec.get("resourceGroups") or [] for f in group["flavors"]]
    stopped = name in world.terminating or spec.get("stopPolicy", "None") != "None"
    return not stopped and all(f in world.flavors for f in named) and not on_cycle(queue_node(name), parents(world))


def queue_of(world: World, wl: Raw) -> str | None:
    """The ClusterQueue a pending workload waits in; none while its LocalQueue is missing or stopped."""  # S-3.3
    name = wl["spec"].get("queueName")
    local = world.local_queues.get(f"{wl['metadata'].get('namespace', 'default')}/{name}")
    if local is None or local.get("stopPolicy", "None") != "None":
        return None
    return str(local["clusterQueue"]) if local["clusterQueue"] in world.queues else None


def deadline_of(world: World, key: str, now: int) -> int:
    """The time by which a victim should have left; one not evicted yet is evicted now."""  # S-10.13
    wl = world.workloads[key]
    return facts.evicted_at(wl, now) + facts.grace_period(wl) + world.settings.claim_timeout


def is_overdue(world: World, key: str, now: int) -> bool:
    """Whether a victim is past its deadline: neither credit nor candidate. At the deadline it is, as a claim ends."""
    evicted = facts.is_true(world.workloads[key], "Evicted")
    return evicted and now >= deadline_of(world, key, now) and world.settings.gates["PreemptionClaims"]


def holder_of(world: World, key: str, now: int) -> Holder:
    wl, s = world.workloads[key], world.settings
    return Holder(
        key=key,
        queue=wl["status"]["admission"]["clusterQueue"],
        priority=facts.priority(wl, s.gates),
        uid=facts.uid_of(wl),
        queue_time=facts.queue_time(wl, s.gates, s.pods_ready_timestamp),
        reserved_at=facts.reserved_at(wl),
        evicted=facts.is_true(wl, "Evicted"),
        usage=facts.held_usage(wl, s.gates),
        overdue=is_overdue(world, key, now),
        past=facts.past_seconds(wl),
    )


def identity(world: World, key: str) -> tuple[str, ...]:
    """The identity of a workload in rounds: its owner, if that has no other workload; else its name too."""
    wl = world.workloads[key]  # S-19.3.3
    known, owner = facts.owner(wl), facts.owner_object(wl)
    if owner is None:
        return known
    unfinished = [other for other in world.workloads.values() if not facts.is_true(other, "Finished")]
    of_owner = [other for other in unfinished if facts.owner_object(other) == owner]
    return known if len(of_owner) <= 1 else (*known, str(wl["metadata"]["name"]))


def snapshot(world: World, now: int) -> Snapshot:  # S-5.2
    parity = world.settings.parity
    held = [holder_of(world, k, now) for k, wl in sorted(world.workloads.items()) if facts.is_accounted(wl, parity)]
    snap = Snapshot(
        settings=world.settings,
        now=now,
        flavors=world.flavors,
        queues=world.queues,
        active=frozenset(name for name in world.queues if is_active_queue(world, name)),
        tree=build_tree(world),
        used={name: {} for name in world.queues},
        holders={},
        quota_memory={},
        rounds={k: world.rounds[who] for k in world.workloads if (who := identity(world, k)) in world.rounds},
    )
    for holder in held:
        if holder.queue in snap.used:
            snap.put_back(holder)
    return snap
