"""Random clusters: nodes that differ, pods and gangs of every sort on them, budgets, and a pod or gang that waits.

No pod runs where it does not fit, so these are clusters that a scheduler could meet. Equal seeds give equal
clusters.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

from makeway.core.model import Expression, Millis, Taint, Toleration
from makeway.core.placement.model import (
    AffinityTerm,
    Budget,
    Cluster,
    ForGroup,
    ForPod,
    Member,
    Namespace,
    Node,
    Pod,
    PodGang,
    Preemptor,
    SchedulingWorkload,
    Spread,
)
from makeway.testing.placement_checker import CheckedCluster

NAMESPACE, ELSEWHERE = "default", "elsewhere"
NAMESPACES = (Namespace(ELSEWHERE, {"team": "x"}),)
GI = 2**30
PRIORITIES = (0, 1, 5, 10, 20, 50)
APPS = ("a", "b", "c")
HOST, ZONE, POOL = "kubernetes.io/hostname", "zone", "pool"
DEDICATED = Taint("dedicated", "x", "NoSchedule")


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementCase:
    """A cluster, and the pod or gang for which a place is sought in it."""

    cluster: Cluster
    preemptor: Preemptor
    is_plain: bool  # no pod has affinity, anti-affinity or a spread


def scene(seed: int, *, nodes_max: int = 40, pods_max: int = 300) -> PlacementCase:
    return _Maker(random.Random(seed)).scene(nodes_max, pods_max)


class _Maker:
    def __init__(self, dice: random.Random) -> None:
        self._dice = dice
        self._relations = dice.random() < 0.25
        self._priorities = dice.choice((PRIORITIES, PRIORITIES, (0, 10), (1,)))  # few: much is equal, and ties decide
        self._starts = dice.choice((200, 200, 3))

    def _chance(self, share: float) -> bool:
        return self._dice.random() < share

    def scene(self, nodes_max: int, pods_max: int) -> PlacementCase:
        dice = self._dice
        count = min(nodes_max, dice.choice((2, 3, 4, 6, 8, 12, 20, 40)))
        nodes = tuple(self._node(f"n{i:02}") for i in range(count))
        workloads = [self._workload(f"w{i}") for i in range(dice.randint(1, 2 + count // 3))]
        wanted = [self._running(i, workloads) for i in range(min(pods_max - 20, count * dice.randint(2, 9)))]
        pods = self._standing(nodes, workloads, wanted)
        waiting, workload, preemptor = self._waiting(count)
        if workload is not None and self._chance(0.3):
            waiting = self._begun(nodes, pods, waiting)
        workloads += [workload] if workload is not None else []
        pods += [replace(pod, arrived=place) for place, pod in enumerate(self._with_promises(waiting, pods, nodes))]
        budgets = tuple(
            Budget(
                namespace=NAMESPACE, name=f"b{i}", selector=(Expression("app", "In", (dice.choice(APPS),)),),
                allowed=dice.randint(0, 3), disrupted=frozenset({"p001"} if self._chance(0.2) else ()),
            )
            for i in range(dice.choice((0, 0, 1, 2, 4)))
        )  # fmt: skip
        cluster = Cluster(
            nodes=nodes, pods=tuple(pods), workloads=tuple(workloads), budgets=budgets, namespaces=NAMESPACES
        )
        is_plain = not any(pod.pod_affinity or pod.anti_affinity or pod.spread for pod in pods)
        return PlacementCase(cluster=cluster, preemptor=preemptor, is_plain=is_plain)

    def _node(self, name: str) -> Node:
        dice = self._dice
        amounts = {"cpu": dice.randint(4, 12) * 1000, "memory": dice.randint(6, 24) * GI, "pods": dice.randint(4, 12)}
        if self._chance(0.3):
            amounts["example.com/gpu"] = dice.randint(1, 8)
        return Node(
            name=name,
            allocatable=amounts,
            labels={HOST: name, POOL: dice.choice("xyz"), **({ZONE: dice.choice("ab")} if self._chance(0.9) else {})},
            taints=(DEDICATED,) if self._chance(0.1) else (),
            unschedulable=self._chance(0.05),
        )

    def _workload(self, name: str, rank: int | None = None) -> SchedulingWorkload:
        dice = self._dice
        priority = dice.choice(self._priorities) if rank is None else rank
        mode = dice.choice(("basic", "Pod", "PodGroup", "PodGroup"))
        key = (NAMESPACE, name, "g")
        return SchedulingWorkload(
            namespace=NAMESPACE,
            name=name,
            groups=(PodGang(key=key, min_count=None if mode == "basic" else 1, whole=mode == "PodGroup"),),
            priority=priority,
            preemption_priority=dice.choice([each for each in (*PRIORITIES, 100) if each >= priority]),
        )

    def _asked(self) -> dict[str, int]:
        dice = self._dice
        asked = {"cpu": dice.choice((500, 1000, 1000, 2000, 3000))}
        if self._chance(0.7):
            asked["memory"] = dice.randint(1, 6) * GI
        if self._chance(0.1):
            asked["example.com/gpu"] = dice.randint(1, 2)
        return asked

    def _running(self, number: int, workloads: list[SchedulingWorkload]) -> Pod:
        dice = self._dice
        member = None
        if self._chance(0.6):
            member = Member(dice.choice(workloads).name, "g", dice.choice(("", "", "r")))
        elif self._chance(0.1):
            member = Member("no-such", "g")
        is_elsewhere = self._relations and member is None and self._chance(0.4)
        pod = Pod(
            key=(ELSEWHERE if is_elsewhere else NAMESPACE, f"p{number:03}"),
            requests=self._asked(),
            priority=dice.choice(self._priorities),
            start=Millis(dice.randint(1, self._starts) * 1000),
            labels={"app": dice.choice(APPS)} if self._chance(0.8) else {},
            member=member,
            ports=frozenset({("TCP", 8000)}) if self._chance(0.05) else frozenset(),
            tolerations=(Toleration("dedicated", "Exists"),) if self._chance(0.5) else (),
            terminating=self._chance(0.05),
        )
        if self._relations and self._chance(0.05):
            pod = replace(pod, anti_affinity=(self._term("a", HOST),))
        return pod

    def _term(self, app: str, key: str) -> AffinityTerm:
        """A term about an app; mostly about pods of its own namespace."""
        dice, selector = self._dice, (Expression("app", "In", (app,)),)
        if self._chance(0.6):
            return AffinityTerm(selector, key)
        named = frozenset(dice.choice(([], [ELSEWHERE], [NAMESPACE, ELSEWHERE])))
        teams = dice.choice((None, (), (Expression("team", "In", ("x",)),)))
        return AffinityTerm(selector, key, named, teams)

    def _related(self, pod: Pod) -> Pod:
        """The pod with a rule about other pods."""
        dice = self._dice
        what = dice.choice(("apart", "spread", "beside", "beside", "both"))
        if what == "apart":
            return replace(pod, anti_affinity=(self._term("a", HOST),))
        if what == "spread":
            even = Spread(
                dice.randint(1, 3), ZONE, (Expression("app", "In", ("a",)),), heeds_affinity=self._chance(0.7),
                heeds_taints=self._chance(0.3),
            )  # fmt: skip
            return replace(pod, spread=(even,))
        app = dice.choice("aab")  # "a" is its own app: then it may be the first pod of it
        terms = [self._term(app, dice.choice((ZONE, ZONE, HOST, POOL)))]
        if self._chance(0.3):
            terms.append(self._term(app, POOL))
        apart = (self._term("a", HOST),) if what == "both" else ()
        return replace(pod, pod_affinity=tuple(terms), anti_affinity=apart)

    def _standing(self, nodes: tuple[Node, ...], workloads: list[SchedulingWorkload], wanted: list[Pod]) -> list[Pod]:
        ground = CheckedCluster(
            Cluster(nodes=nodes, workloads=tuple(workloads), pods=tuple(wanted), namespaces=NAMESPACES)
        )  # fmt: skip
        standing: dict[str, dict[tuple[str, str], Pod]] = {node.name: {} for node in nodes}
        found = []
        for pod in wanted:
            name = self._dice.choice(nodes).name
            if ground.valid(pod, name, standing):
                placed = replace(pod, node=name)
                standing[name][pod.key] = placed
                found.append(placed)
        return found

    def _waiting(self, nodes: int) -> tuple[list[Pod], SchedulingWorkload | None, Preemptor]:
        dice = self._dice
        rank = dice.choice((5, 10, 20, 50, 100))
        base = Pod(
            key=(NAMESPACE, "in"),
            requests=self._asked(),
            priority=rank,
            labels={"app": "a"},
            node_selector={POOL: dice.choice("xyz")} if self._chance(0.2) else {},
            affinity=((Expression(ZONE, "In", ("a",)),),) if self._chance(0.1) else None,
            tolerations=(Toleration("dedicated", "Exists"),) if self._chance(0.5) else (),
            ports=frozenset({("TCP", 8000)}) if self._chance(0.1) else frozenset(),
            policy="Never" if self._chance(0.05) else None,
        )
        if self._relations:
            base = self._related(base)
        if self._chance(0.35):
            return [base], None, ForPod(base.key)
        count = dice.randint(1, min(14, 2 + 2 * nodes))
        member = Member("in", "g", dice.choice(("", "r")))
        alike = self._chance(0.6)
        members = [
            replace(
                base, key=(NAMESPACE, f"in-{i:02}"), member=member, requests=base.requests if alike else self._asked()
            )
            for i in range(count)
        ]
        workload = self._workload("in", rank)
        least = count if self._chance(0.7) else dice.randint(1, count)
        group = replace(workload.groups[0], min_count=least)
        return members, replace(workload, groups=(group,)), ForGroup(NAMESPACE, member)

    def _begun(self, nodes: tuple[Node, ...], pods: list[Pod], members: list[Pod]) -> list[Pod]:
        """The gang with some of its members running already, where there is room; at least one waits."""
        ground = CheckedCluster(Cluster(nodes=nodes, pods=(*pods, *members), namespaces=NAMESPACES))
        standing = ground.standing(members, 0)
        found = list(members)
        for i, pod in enumerate(members[: self._dice.randint(0, len(members) - 1)]):
            valid = [node.name for node in nodes if ground.valid(pod, node.name, standing)]
            if valid:
                name = self._dice.choice(valid)
                found[i] = standing[name][pod.key] = replace(pod, node=name, start=Millis(1000 * i))
        return found

    def _with_promises(self, waiting: list[Pod], running: list[Pod], nodes: tuple[Node, ...]) -> list[Pod]:
        """Nominate some of them, and some other waiting pods, to a node."""
        dice = self._dice
        if self._chance(0.15):
            waiting = [
                replace(pod, nominated=dice.choice(nodes).name) if pod.node is None and self._chance(0.5) else pod
                for pod in waiting
            ]  # fmt: skip
        others = [
            Pod(
                key=(NAMESPACE, f"other-{i}"), requests=self._asked(), priority=dice.choice(PRIORITIES),
                nominated=dice.choice(nodes).name,
            )
            for i in range(dice.choice((0, 0, 0, 1, 3)))
        ]  # fmt: skip
        return [*waiting, *others]
