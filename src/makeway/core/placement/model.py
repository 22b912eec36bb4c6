"""The nouns of placement: nodes, pods, groups and budgets as plain frozen values, and the answer about them (S-15).

All amounts are integers in the units of S-1.1 (``core.requests.units``), all times are integers. Wire objects and
arrays are unknown here. A ``Cluster`` is the whole input of a decision, in any order: what depends on order is a
field of its own (``Pod.arrived``).

Not here: priorities (``resolution``), what is free on which node (``cluster``), which pods make way (``preemption``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from makeway.core.model import DAWN, Millis, Selector, Taint, Toleration
from makeway.core.trace import Step

PodKey = tuple[str, str]  # namespace, name
GroupKey = tuple[str, str, str]  # namespace, Workload, group
Port = tuple[str, int]  # protocol, port on the node
PreemptionPolicy = Literal["PreemptLowerPriority", "Never"]

POD_COUNT = "pods"  # a resource of nodes: how many pods one takes


# --- what there is ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    name: str
    allocatable: Mapping[str, int]  # a resource that is missing here is 0, ``pods`` too (S-15.2.2)
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()  # NoSchedule and NoExecute keep pods away, PreferNoSchedule counts in the score
    unschedulable: bool = False


@dataclass(frozen=True, slots=True)
class Namespace:
    """A namespace and its labels; one that is unknown has only the label with its name, as all have."""

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AffinityTerm:
    """Required affinity or anti-affinity: matching pods share a value of the key, or must not (S-15.2.6).

    It concerns pods of the named or selected namespaces; where there are neither, those of its pod's own namespace.
    """

    selector: Selector | None  # None selects nothing, an empty one everything
    topology_key: str
    namespaces: frozenset[str] = frozenset()
    namespace_selector: Selector | None = None  # an empty one selects all, also unknown ones


@dataclass(frozen=True, slots=True)
class Spread:
    """How evenly matching pods must be spread over the values of a key (S-15.2.6)."""

    max_skew: int
    topology_key: str
    selector: Selector | None
    min_domains: int = 1
    heeds_affinity: bool = True  # nodes that the pod's selector and node affinity rule out are in no domain
    heeds_taints: bool = False  # nor are nodes whose taints or cordon keep the pod away


@dataclass(frozen=True, slots=True)
class Member:
    """What a pod refers to: a group of a Workload in its namespace, and its replica of that group."""

    workload: str
    group: str
    replica: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """A pod that waits (``node`` is None) or stands on a node; ended pods are not part of a cluster."""

    key: PodKey
    requests: Mapping[str, int] = field(default_factory=dict)
    node: str | None = None
    priority: int = 0  # its own; a Workload that its reference resolves to overrides it (S-15.1.1)
    start: Millis = DAWN  # since when it runs; for one without a time yet: now
    arrived: int = 0  # its place in the pod queue among equals
    uid: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    member: Member | None = None
    node_selector: Mapping[str, str] = field(default_factory=dict)
    affinity: tuple[Selector, ...] | None = None  # terms of which one must hold; None: none asked for
    preferred: tuple[tuple[int, Selector], ...] = ()  # weights, and the selectors that a node gets them for
    tolerations: tuple[Toleration, ...] = ()
    ports: frozenset[Port] = frozenset()
    pod_affinity: tuple[AffinityTerm, ...] = ()
    anti_affinity: tuple[AffinityTerm, ...] = ()
    spread: tuple[Spread, ...] = ()
    policy: PreemptionPolicy | None = None  # its own or its class's; None: PreemptLowerPriority
    terminating: bool = False
    preempted_by_scheduler: bool = False  # terminating because of an earlier preemption (S-15.6.7)
    nominated: str | None = None  # while it waits: the node that is promised to it


@dataclass(frozen=True, slots=True, kw_only=True)
class PodGang:
    key: GroupKey
    min_count: int | None = None  # None: basic, its pods go one by one
    whole: bool = False  # mode PodGroup: a replica makes way as a whole


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulingWorkload:
    """A Workload of the pod scheduler with its class names already resolved (S-15.1.6)."""

    namespace: str
    name: str
    groups: tuple[PodGang, ...]
    priority: int = 0  # as a preemptor
    preemption_priority: int = 0  # as a victim; never below ``priority``
    policy: PreemptionPolicy = "PreemptLowerPriority"

    def needing_more(self, group: str, pods: int) -> SchedulingWorkload:
        """The same Workload, if a gang in it needed so many more pods."""
        return replace(self, groups=tuple(
            replace(gang, min_count=gang.min_count + pods) if gang.key[2] == group and gang.min_count is not None
            else gang
            for gang in self.groups
        ))  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """A PodDisruptionBudget: how many of the pods it selects may still be disrupted."""

    namespace: str
    name: str
    selector: Selector | None  # None and empty select nothing
    allowed: int
    disrupted: frozenset[str] = frozenset()  # names of pods already counted


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    nodes: tuple[Node, ...] = ()
    pods: tuple[Pod, ...] = ()
    workloads: tuple[SchedulingWorkload, ...] = ()
    budgets: tuple[Budget, ...] = ()
    namespaces: tuple[Namespace, ...] = ()


# --- what a place is sought for, and the answer ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ForPod:
    """One pod by itself: a plain one, or one of a basic group."""

    key: PodKey


@dataclass(frozen=True, slots=True)
class ForGroup:
    """The waiting pods of one replica of a gang group."""

    namespace: str
    member: Member


Preemptor = ForPod | ForGroup


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeCandidate:
    """A node with a possible place for a single pod, and the pods that would make way for it there."""

    node: str
    victims: tuple[PodKey, ...]  # sorted
    violations: int
    n: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementAnswer:
    """The result for a preemptor. If not ``needed`` or not ``feasible``, no pod makes way."""

    needed: bool  # there is no place as things are
    feasible: bool  # there is a place, now or once the victims are gone
    victims: tuple[PodKey, ...] = ()  # sorted
    nominated: Mapping[PodKey, str] = field(default_factory=dict)  # only pods that got a place
    candidates: tuple[NodeCandidate, ...] = ()  # single pods only, by node name
    violations: int = 0  # victim pods beyond what their budgets allow
    n: int | None = None  # no pod above this priority makes way; None: none had to
    reason: str | None = None  # why no eviction was sought: preemptionPolicyNever, ongoingPreemption
    why: tuple[Step, ...] = ()
