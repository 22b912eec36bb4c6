"""Random states from a seed, in which ``makeway bench stability`` lets the scheduler settle.

A world is plain data: queues, cohorts, flavors, and the workloads that run and wait. It is contended on purpose,
because there preemption goes wrong: more is asked for than there is, limits are tight, priorities and times are often
equal. It has all that policies can say about preemption: hierarchies, limits, both strategies, partial admission,
several podSets and resource groups, closed gates, workloads that were asked to leave before the start, and holders
above quota; with fair sharing also weights and all lists of strategies.

Promises: the same seed and number give the same world on every machine and under every ``PYTHONHASHSEED``; a world is
never changed, so that many states can begin with it.

Not here: what is done with a state (``settling``).
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from makeway.core.model import (
    FR,
    Flavor,
    FlavorGroup,
    FlavorName,
    Millis,
    PodSet,
    PodSetUse,
    Queue,
    QueueName,
    ResourceName,
    Uid,
    Workload,
    WorkloadKey,
)
from makeway.core.policy import FairStrategy, Policy
from makeway.core.queue_policies import BorrowWithinCohortPolicy, ReclaimWithinCohort, WithinClusterQueue
from makeway.core.quota.tree import WEIGHT_ONE, QuotaSpec
from makeway.core.state import State

START = Millis(1_700_000_000_000)
HOUR = 3_600_000
LONG = Millis(24 * HOUR)  # a minAdmitDuration that is not over while a state settles
NAMESPACE = "random"
CORES, GPUS = ResourceName("cpu"), ResourceName("gpu")
CORE = 1_000
FLAVORS = tuple(map(FlavorName, ("on-demand", "spot", "reserved")))
WITHIN = (*WithinClusterQueue, WithinClusterQueue.LOWER_OR_NEWER_EQUAL)  # that one twice as often, and Any below
RECLAIM = (*ReclaimWithinCohort, ReclaimWithinCohort.ANY)
WEIGHTS_IN_TENTHS = (10, 10, 10, 20, 5, 30, 1, 0)
STRATEGIES: tuple[tuple[FairStrategy, ...], ...] = (
    ("LessThanOrEqualToFinalShare", "LessThanInitialShare"),
    ("LessThanOrEqualToFinalShare",),
    ("LessThanInitialShare",),
)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class StartingState:
    """The beginning of a state."""

    queues: tuple[tuple[Queue, QuotaSpec], ...]
    cohorts: tuple[QuotaSpec, ...]
    flavors: tuple[Flavor, ...]
    running: tuple[Workload, ...]
    waiting: tuple[Workload, ...]
    strategies: tuple[FairStrategy, ...] = ()  # of fair sharing; none: it is off

    def state(self, policy: Policy, grace_ms: int | None = None) -> State:
        """A state that begins here; ``grace_ms``: the time that every victim may take to leave."""
        state = State(replace(policy, fair_strategies=self.strategies))
        state.configure(self.queues, self.cohorts, self.flavors)
        state.namespaces[NAMESPACE] = {}
        for workload in self.running:
            state.hold(workload if grace_ms is None else workload.but(grace_ms=grace_ms))
        for workload in self.waiting:
            state.push(workload if grace_ms is None else workload.but(grace_ms=grace_ms), START)
        return state


def world(seed: int, number: int, *, fair: bool = False) -> StartingState:
    """The world of this number in the sequence of a seed; ``fair``: the same world with fair sharing."""
    found = _Drawing(random.Random(f"{seed}/{number}")).world()
    return _shared_fairly(found, random.Random(f"fair/{seed}/{number}"), number) if fair else found


def _shared_fairly(plain: StartingState, dice: random.Random, number: int) -> StartingState:
    """Weights here and there, zero among them; more queues that reclaim; the lists of strategies in turn."""

    def weighed(spec: QuotaSpec) -> QuotaSpec:
        return replace(spec, weight=WEIGHT_ONE * dice.choice(WEIGHTS_IN_TENTHS) // 10)

    queues = [
        (replace(queue, reclaim=ReclaimWithinCohort.ANY) if spec.parent and dice.randrange(2) else queue, weighed(spec))
        for queue, spec in plain.queues
    ]
    return replace(
        plain,
        queues=tuple(queues),
        cohorts=tuple(map(weighed, plain.cohorts)),
        strategies=STRATEGIES[number % len(STRATEGIES)],
    )


@dataclass(slots=True)
class _Drawing:
    """One world in the making."""

    dice: random.Random
    groups: tuple[FlavorGroup, ...] = ()

    def world(self) -> StartingState:
        self.groups = self._groups()
        cohorts = self._cohorts()
        queues = tuple(self._queue(f"queue-{i}", cohorts) for i in range(self._one_of((2, 2, 3, 3, 4, 5, 6))))
        flavors = tuple(Flavor(name=name, labels={}) for group in self.groups for name in group.flavors)
        bare = StartingState(queues, tuple(cohorts.values()), flavors, (), ())
        running = self._running(bare)
        waiting = tuple(
            self._workload(f"p{i}", self._one_of(queues)[0].name, gates=True) for i in range(self._between(3, 10))
        )
        return replace(bare, running=running, waiting=waiting)

    # --- dice ---

    def _between(self, low: int, high: int) -> int:
        return self.dice.randint(low, high)

    def _one_of(self, values: Sequence[T]) -> T:
        return values[self.dice.randrange(len(values))]

    def _rarely(self, one_in: int) -> bool:
        return self.dice.randrange(one_in) == 0

    # --- quota ---

    def _groups(self) -> tuple[FlavorGroup, ...]:
        """Resource groups that all queues share; a queue may begin its list of flavors later."""
        flavors = FLAVORS[: self._one_of((1, 1, 2, 2, 3))]
        if self._rarely(2):
            return (FlavorGroup(resources=(CORES,), flavors=flavors),)
        if len(flavors) > 1 and self._rarely(3):
            first, second = flavors[:1], flavors[1:]
            return FlavorGroup(resources=(CORES,), flavors=first), FlavorGroup(resources=(GPUS,), flavors=second)
        return (FlavorGroup(resources=(CORES, GPUS), flavors=flavors),)

    def _cohorts(self) -> dict[str, QuotaSpec]:
        """None, one, or a tree of up to four levels."""
        names = [f"cohort-{i}" for i in range(self._one_of((0, 1, 1, 2, 3, 4, 5)))]
        found: dict[str, QuotaSpec] = {}
        for i, name in enumerate(names):
            parent = names[self._between(max(0, i - 3), i - 1)] if i else ""
            own = {fr: self._amount(fr, (0, 1, 2, 3)) for fr in self._frs(self.groups)} if self._rarely(3) else {}
            found[name] = self._spec(name, parent, own)
        return found

    def _queue(self, name: str, cohorts: Mapping[str, QuotaSpec]) -> tuple[Queue, QuotaSpec]:
        parent = "" if not cohorts or self._rarely(10) else self._one_of(list(cohorts))
        groups = tuple(
            replace(group, flavors=group.flavors[1:]) if len(group.flavors) > 1 and self._rarely(5) else group
            for group in self.groups
        )
        within = self._one_of(WITHIN)
        reclaim = self._one_of(RECLAIM) if parent else ReclaimWithinCohort.NEVER
        borrows = reclaim.preempts and self._rarely(2)
        queue = Queue(
            name=QueueName(name),
            groups=groups,
            strict=self._rarely(3),
            try_next_when_borrowing=self._rarely(2),
            try_next_when_preempting=self._rarely(2),
            prefer_preemption=self._rarely(4),
            within=within,
            min_admit=LONG if within.takes_equals and self._rarely(4) else None,
            reclaim=reclaim,
            borrow=BorrowWithinCohortPolicy("LowerPriority" if borrows else "Never"),
            threshold=self._between(-1, 2) if borrows and self._rarely(2) else None,
            namespaces=(),
        )
        nominal = {fr: self._amount(fr, (0, 1, 2, 3, 4, 4, 6)) for fr in self._frs(groups)}
        return queue, self._spec(name, parent, nominal)

    def _spec(self, name: str, parent: str, nominal: Mapping[FR, int]) -> QuotaSpec:
        """Quota with limits here and there; without a parent limits mean nothing."""
        some = [fr for fr in nominal if parent]
        borrowing = {fr: self._amount(fr, (0, 1, 2, 4)) for fr in some if self._rarely(4)}
        lending = {fr: min(nominal[fr], self._amount(fr, (0, 1, 2, 4))) for fr in some if self._rarely(4)}
        return QuotaSpec(name=name, parent=parent, nominal=nominal, borrowing=borrowing, lending=lending)

    def _frs(self, groups: Sequence[FlavorGroup]) -> list[FR]:
        return [(flavor, resource) for group in groups for flavor in group.flavors for resource in group.resources]

    def _amount(self, fr: FR, numbers: Sequence[int]) -> int:
        return self._one_of(numbers) * (CORE if fr[1] == CORES else 1)

    # --- workloads ---

    def _workload(self, name: str, queue: QueueName, *, gates: bool) -> Workload:
        """Equal priorities and times are frequent, because loops come from the order among equals."""
        pod_sets = [self._pod_set(each) for each in (("driver", "workers") if self._rarely(4) else ("main",))]
        key = WorkloadKey(f"{NAMESPACE}/{name}")
        return Workload(
            key=key,
            uid=Uid(f"{self._between(0, 99):02}-{name}"),
            queue=queue,
            priority=self._one_of((0, 0, 0, 1, 1, 2, -1, 10)),
            queued_at=Millis(START - HOUR - 600_000 * self._between(0, 8)),
            pod_sets=tuple(pod_sets),
            gated=gates and self._rarely(12),
        )

    def _pod_set(self, name: str) -> PodSet:
        resources = [resource for group in self.groups for resource in group.resources]
        requests = {
            each: self._one_of((1, 1, 2, 3)) * (CORE if each == CORES else 1)
            for i, each in enumerate(resources)
            if i == 0 or not self._rarely(3)
        }
        count = self._one_of((1, 1, 1, 2, 3, 4))
        min_count = self._between(1, count - 1) if count > 1 and self._rarely(3) else None
        return PodSet(name=name, count=count, requests=requests, min_count=min_count)

    def _running(self, bare: StartingState) -> tuple[Workload, ...]:
        """Workloads that hold quota where there is room for them; one in sixteen does where there is none."""
        state = bare.state(Policy.default())
        found = []
        for i in range(self._between(2, 16)):
            queue = self._one_of(bare.queues)[0]
            each = self._placed(self._workload(f"a{i}", queue.name, gates=False), queue)
            if state.tree.fits(state.tree.queues[queue.name], each.usage or {}) or self._rarely(16):
                state.hold(each)
                found.append(each)
        return tuple(found)

    def _placed(self, workload: Workload, queue: Queue) -> Workload:
        usage: dict[FR, int] = {}
        uses = []
        for pod_set in workload.pod_sets:
            by_group = [(group, self._one_of(group.flavors)) for group in queue.groups]
            flavors = {r: name for group, name in by_group for r in group.resources if r in pod_set.requests}
            amounts = {resource: pod_set.requests[resource] * pod_set.count for resource in flavors}
            for resource, name in flavors.items():
                usage[name, resource] = usage.get((name, resource), 0) + amounts[resource]
            uses.append(PodSetUse(name=pod_set.name, count=pod_set.count, flavors=flavors, amounts=amounts))
        leaves = self._rarely(16)
        since = START - 600_000 * self._between(0, 8) - (2 * LONG if self._rarely(4) else 0)
        return workload.but(
            usage=usage, uses=tuple(uses), reserved_at=Millis(since), admitted=True, evicted=leaves,
            evicted_at=START if leaves else None,
        )  # fmt: skip
