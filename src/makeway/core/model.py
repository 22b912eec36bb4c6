"""The objects that ``core`` decides on: integers and frozen values, never wire objects."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NewType
from weakref import WeakValueDictionary

import msgspec

from makeway.core.queue_policies import BorrowWithinCohortPolicy, ReclaimWithinCohort, WithinClusterQueue

QueueName = NewType("QueueName", str)
FlavorName = NewType("FlavorName", str)
ResourceName = NewType("ResourceName", str)
WorkloadKey = NewType("WorkloadKey", str)  # "namespace/name"
LocalName = tuple[str, str]  # a LocalQueue: namespace, name
Uid = NewType("Uid", str)
Millis = NewType("Millis", int)  # a point in time or a span; always an int, never read from a clock here
FR = tuple[FlavorName, ResourceName]  # quota is counted per resource in a flavor
Usage = Mapping[FR, int]

DAWN = Millis(-(2**63))  # before every time that can occur
PODS = ResourceName("pods")  # counted from the podSets where a queue covers it (S-1.9)


class InvariantError(AssertionError):
    """Our own code broke a promise. User input never raises it. An object that raises it is set aside."""


def invariant(condition: bool, promise: str, *values: object) -> None:
    """Like ``assert``, but it also holds under ``python -O``; the text is only made when the promise is broken."""
    if not condition:
        raise InvariantError(promise.format(*values))


def stored(at: Millis) -> Millis:
    """``at`` in whole seconds: the wire keeps no less, so decisions are made on what will be read back (S-3.10)."""
    return Millis(at - at % 1000)


# --- what runs on which machines -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Taint:
    key: str
    value: str
    effect: str


@dataclass(frozen=True, slots=True)
class Toleration:
    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""

    def tolerates(self, taint: Taint) -> bool:
        if self.effect and self.effect != taint.effect:
            return False
        if self.key and self.key != taint.key:
            return False
        return self.operator == "Exists" or self.value == taint.value


@dataclass(frozen=True, slots=True)
class Expression:
    """One requirement on a label."""

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def holds(self, labels: Mapping[str, str]) -> bool:
        value = labels.get(self.key)
        match self.operator:
            case "In":
                return value in self.values
            case "NotIn":
                return value not in self.values
            case "Exists":
                return value is not None
            case "DoesNotExist":
                return value is None
        if value is None or len(self.values) != 1:
            return False
        try:
            return int(value) > int(self.values[0]) if self.operator == "Gt" else int(value) < int(self.values[0])
        except ValueError:
            return False


Selector = tuple[Expression, ...]  # all must hold


def selects(selector: Selector, labels: Mapping[str, str]) -> bool:
    return all(expression.holds(labels) for expression in selector)


@dataclass(frozen=True, slots=True, kw_only=True)
class Flavor:
    name: FlavorName
    labels: Mapping[str, str]
    taints: tuple[Taint, ...] = ()  # only those that keep pods away
    tolerations: tuple[Toleration, ...] = ()


# --- what waits and what runs ----------------------------------------------------------------------------------------


class PodSetSignature:
    """All of a podSet that a verdict depends on. Equal podSets share one signature, so that comparing them is cheap."""

    __slots__ = ("__weakref__", "count", "is_partial", "parts", "totals", "where")

    def __init__(self, pod_set: PodSet, parts: tuple[object, ...]) -> None:
        self.parts = parts
        self.where = pod_set.where()
        self.count = pod_set.count
        self.is_partial = pod_set.min_count is not None  # partial admission: fewer pods will do
        self.totals = {name: amount * pod_set.count for name, amount in pod_set.requests.items()}  # of all its pods

    def covers(self, other: PodSetSignature) -> bool:
        """Whether these pods request no less than the others, in the same places; False with partial admission."""
        if self.is_partial or other.is_partial or self.count < other.count or self.where != other.where:
            return False
        asked, least = self.totals, other.totals
        if asked.keys() != least.keys():
            return False
        for resource, amount in least.items():  # noqa: SIM110, asked very often
            if asked[resource] < amount:
                return False
        return True

    def __repr__(self) -> str:
        return repr(self.parts)


_signatures: WeakValueDictionary[tuple[object, ...], PodSetSignature] = WeakValueDictionary()


@dataclass(frozen=True, slots=True, kw_only=True)
class PodSet:
    """Equal pods of a workload, as the scheduler sees them."""

    name: str
    count: int  # pods that still need quota: reclaimable ones are taken off already (S-1.7)
    requests: Mapping[ResourceName, int]  # of one pod
    min_count: int | None = None
    group: str = ""  # podSets of one group get the same flavors
    allowed: frozenset[FlavorName] = frozenset()  # empty: any
    tolerations: tuple[Toleration, ...] = ()
    node_selector: Mapping[str, str] | None = None
    affinity: tuple[Selector, ...] | None = None  # terms of which one must hold; None: none asked for
    _signature: PodSetSignature | None = field(default=None, init=False, repr=False, compare=False)

    @property
    def signature(self) -> PodSetSignature:
        """The signature of the podSet; podSets that get the same verdict share one object (S-4.5.3)."""
        signature = self._signature
        if signature is None:
            parts = (*self.where(), self.name, self.count, self.min_count, tuple(sorted(self.requests.items())))
            signature = _signatures.get(parts)
            if signature is None:
                signature = _signatures[parts] = PodSetSignature(self, parts)
            object.__setattr__(self, "_signature", signature)
        return signature

    def where(self) -> tuple[object, ...]:
        """The fields that decide which flavors the podSet may use."""
        selector = tuple(sorted((self.node_selector or {}).items()))
        return self.group, tuple(sorted(self.allowed)), self.tolerations, selector, self.affinity


@dataclass(frozen=True, slots=True, kw_only=True)
class PodSetUse:
    """What a podSet holds: amounts of resources in flavors."""

    name: str
    count: int
    flavors: Mapping[ResourceName, FlavorName]
    amounts: Mapping[ResourceName, int]  # of all its pods together


@dataclass(frozen=True, slots=True)
class ClaimedSet:
    """What a claim promises one podSet."""

    name: str
    flavors: Mapping[ResourceName, FlavorName]
    count: int


@dataclass(frozen=True, slots=True)
class Claim:
    """The assignment that a preemptor is promised while its victims leave (S-10.13)."""

    sets: tuple[ClaimedSet, ...]
    victims: tuple[tuple[WorkloadKey, Uid], ...]  # in order of choice
    issued_at: Millis
    expires_at: Millis


class Workload(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """One unit of admission: every pod in it gets quota, or none does.

    A struct, because nothing is made and changed more often: a dataclass of this size takes ten times as long.
    """

    key: WorkloadKey
    uid: Uid
    queue: QueueName
    priority: int  # effective (S-7.1)
    queued_at: Millis  # its place among equals: the queue-order timestamp (S-4.3)
    created_at: Millis | None = None  # ``queued_at`` is this again once it has quota (S-7.10); None: it never moved
    displaced_at: Millis | None = None  # since when it is displaced by time (KEP-8522); None: not, or had quota since
    ran_seconds: int = 0  # in earlier attempts; 0 where that does not count for its turn (S-7.14)
    pod_sets: tuple[PodSet, ...] = ()
    local_queue: str = ""
    family: Uid | None = None  # of an Option: its Parent (KEP-8691)
    option_rank: int = 0
    owner: str = ""  # its controller, "kind/namespace/name", also after that was recreated; "": none
    owner_uid: str = ""
    # what it holds
    usage: Usage | None = None  # None: it holds no quota
    uses: tuple[PodSetUse, ...] = ()
    reserved_at: Millis | None = None  # as decided (S-3.10), so already while assumed; None while there is no time yet
    evicted: bool = False  # asked to leave; its quota counts until it has left
    evicted_at: Millis | None = None  # when, as decided; None also where no time was stored
    preempted: bool = False  # for another workload, and not because its time was up
    grace_ms: int = 30_000  # how long its pods may take to end
    admitted: bool = False
    pods_ready: bool = False
    checks: tuple[tuple[str, bool], ...] = ()  # admission checks it lists, and whether each is Ready
    # what it waits for, or what keeps it out of a cycle or from preempting
    claim: Claim | None = None
    gated: bool = False  # a preemption gate is closed (KEP-8303)
    refused: str = ""  # why it is refused before any search (S-5.3), in words
    refusal: str = ""  # and as the reason of a condition
    requeue_at: Millis | None = None  # back-off: not before
    backing_off: bool = False  # Requeued is False

    def but(self, **changes: Any) -> Workload:
        """The same workload with some fields changed."""
        return msgspec.structs.replace(self, **changes)

    def has_passed(self, checks: Iterable[str]) -> bool:
        """Whether these checks are all listed, and all that are listed are Ready (S-11.1)."""
        listed = dict(self.checks)
        return all(listed.values()) and all(name in listed for name in checks)

    def held_since(self, now: Millis) -> Millis:
        """Since when a workload that has quota holds it: ``reserved_at``, or now while there is no time yet (S-7.6)."""
        return now if self.reserved_at is None else self.reserved_at

    def leaves_by(self) -> Millis | None:
        """When its pods must have ended, if it was asked to leave."""
        return Millis(self.evicted_at + self.grace_ms) if self.evicted and self.evicted_at is not None else None

    @property
    def namespace(self) -> str:
        return self.key.partition("/")[0]

    @property
    def local(self) -> LocalName:
        """The LocalQueue that it was submitted to."""
        return self.key.partition("/")[0], self.local_queue


# --- queues ----------------------------------------------------------------------------------------------------------

OnSuccess = Literal["RemoveOther", "RemoveLower", "RemoveBelowTarget"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FlavorGroup:
    """A resource group: resources that get one flavor together, and the flavors in order of preference."""

    resources: tuple[ResourceName, ...]
    flavors: tuple[FlavorName, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """A ClusterQueue: its flavors, and which workloads it may preempt. Its quota is in ``core.quota``."""

    name: QueueName
    groups: tuple[FlavorGroup, ...] = ()
    strict: bool = False  # StrictFIFO
    try_next_when_borrowing: bool = False
    try_next_when_preempting: bool = True
    prefer_preemption: bool = False  # PreemptionOverBorrowing
    within: WithinClusterQueue = WithinClusterQueue.NEVER
    min_admit: Millis | None = None  # KEP-8522
    reclaim: ReclaimWithinCohort = ReclaimWithinCohort.NEVER
    borrow: BorrowWithinCohortPolicy = BorrowWithinCohortPolicy.NEVER
    threshold: int | None = None  # victims of a borrower have at most this priority
    namespaces: Selector | None = None  # None: no namespace may use it
    checks: tuple[tuple[str, frozenset[FlavorName]], ...] = ()  # what must be Ready before pods run; no flavors: all
    on_success: OnSuccess | None = None  # which Options stay beside an Admitted one (KEP-8691); None: no Options here
    target_flavor: FlavorName | None = None  # of RemoveBelowTarget
    active: bool = True
    inactive_because: str = ""

    def checks_for(self, flavors: Iterable[FlavorName]) -> list[str]:
        """The admission checks that workloads on these flavors must pass (S-11.2)."""
        used = frozenset(flavors)
        return [name for name, where in self.checks if not where or where & used]

    def group_of(self, resource: ResourceName) -> FlavorGroup | None:
        for group in self.groups:
            if resource in group.resources:
                return group
        return None
