"""``makeway bench quality``: how far our choice of victims is from the best one, on clusters small enough to know.

Random clusters of at most 8 nodes and 25 running pods, full enough that a gang must displace some of them. The best
choice is found by trying all: of the units up to the same threshold N, the set that costs least and still leaves a
place for every member. It is the best in the order in which ours compares (pods beyond budgets, pods, run time lost).
Each figure is also compared with the least that is possible for it alone.

Apart from that: unlike gangs that fit exactly into the free room without a preemption, and how many of them we would
refuse, or preempt for.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import click

from makeway.core.model import Expression, Millis
from makeway.core.placement.cluster.state import ClusterState
from makeway.core.placement.model import (
    Budget,
    Cluster,
    ForGroup,
    Member,
    Node,
    PlacementAnswer,
    Pod,
    PodGang,
    PodKey,
    SchedulingWorkload,
)
from makeway.core.placement.preemption.decision import decide
from makeway.core.placement.units import violations

NAMESPACE, GANG = "d", "in"
RESOURCES = ("cpu", "memory")
NOW = 1000
RUNNING_MAX = 25
FIGURES = ("violations", "victims", "lostRunTime")
Cost = tuple[int, int, int]  # pods beyond budgets, pods, run time lost
Free = dict[str, tuple[int, int]]  # node -> what is left of cpu and memory


@dataclass(frozen=True, slots=True)
class QualityUnit:
    pods: tuple[Pod, ...]
    priority: int
    beyond: int

    @property
    def cost(self) -> Cost:
        return self.beyond, len(self.pods), sum(NOW - pod.start for pod in self.pods)


# --- clusters --------------------------------------------------------------------------------------------------------


def random_cluster(seed: int, *, alike: bool, budgets: bool) -> Cluster:
    dice = random.Random(seed)
    nodes = [f"n{i}" for i in range(dice.randint(3, 8))]
    free = {name: [dice.randint(6, 10), dice.randint(6, 10)] for name in nodes}
    built = tuple(
        Node(name=name, allocatable={"cpu": free[name][0], "memory": free[name][1], "pods": 110}) for name in nodes
    )
    workloads = [_workload(dice, f"w{i}") for i in range(dice.randint(2, 5))]
    pods: list[Pod] = []
    running = dice.randint(RUNNING_MAX // 3, RUNNING_MAX)
    for number in range(4 * RUNNING_MAX):
        if len(pods) == running:
            break
        name, asked = dice.choice(nodes), (dice.randint(1, 4), dice.randint(1, 4))
        if all(have >= want for have, want in zip(free[name], asked, strict=True)):
            free[name] = [have - want for have, want in zip(free[name], asked, strict=True)]
            member = Member(dice.choice(workloads).name, "g") if dice.random() < 0.5 else None
            pods.append(Pod(
                key=(NAMESPACE, f"p{number:03}"), requests=dict(zip(RESOURCES, asked, strict=True)), node=name,
                priority=dice.choice((1, 2, 3, 5)), start=Millis(dice.randrange(NOW)), member=member,
                labels={"app": dice.choice("ab")},
            ))  # fmt: skip
    size = dice.randint(2, 6)
    like = (dice.randint(1, 4), dice.randint(1, 4))
    for i in range(size):
        asked = like if alike else (dice.randint(1, 5), dice.randint(1, 5))
        requests = dict(zip(RESOURCES, asked, strict=True))
        pods.append(Pod(key=(NAMESPACE, f"in-{i}"), requests=requests, arrived=i, member=Member(GANG, "g")))
    guards = [
        Budget(namespace=NAMESPACE, name=app, selector=(Expression("app", "In", (app,)),), allowed=dice.randint(0, 3))
        for app in ("ab" if budgets else "")
    ]
    return Cluster(nodes=built, pods=tuple(pods), workloads=(*workloads, _gang(size)), budgets=tuple(guards))


def tight_cluster(seed: int) -> Cluster:
    """An unlike gang that fits: its members are pieces of the free room, in any order."""
    dice = random.Random(seed)
    pods: list[Pod] = []
    nodes: list[Node] = []
    pieces: list[tuple[int, int]] = []
    for i in range(dice.randint(2, 5)):
        have = (dice.randint(6, 10), dice.randint(6, 10))
        nodes.append(Node(name=f"n{i}", allocatable={"cpu": have[0], "memory": have[1], "pods": 110}))
        used = (dice.randint(1, 4), dice.randint(1, 4))
        requests = dict(zip(RESOURCES, used, strict=True))
        pods.append(Pod(key=(NAMESPACE, f"p{i}"), requests=requests, node=f"n{i}", priority=1, labels={"app": "a"}))
        cpu, memory = have[0] - used[0], have[1] - used[1]
        while cpu > 0 and memory > 0 and len(pieces) < RUNNING_MAX // 3:
            piece = (dice.randint(1, cpu), dice.randint(1, memory))
            pieces.append(piece)
            cpu, memory = cpu - piece[0], memory - piece[1]
    dice.shuffle(pieces)
    for i, piece in enumerate(pieces):
        requests = dict(zip(RESOURCES, piece, strict=True))
        pods.append(Pod(key=(NAMESPACE, f"in-{i}"), requests=requests, arrived=i, member=Member(GANG, "g")))
    return Cluster(nodes=tuple(nodes), pods=tuple(pods), workloads=(_gang(len(pieces)),))


def _gang(size: int) -> SchedulingWorkload:
    return SchedulingWorkload(
        namespace=NAMESPACE, name=GANG, priority=100, preemption_priority=100,
        groups=(PodGang(key=(NAMESPACE, GANG, "g"), min_count=size, whole=True),),
    )  # fmt: skip


def _workload(dice: random.Random, name: str) -> SchedulingWorkload:
    priority = dice.choice((1, 2, 3, 5))
    group = PodGang(key=(NAMESPACE, name, "g"), min_count=1, whole=dice.random() < 0.6)
    return SchedulingWorkload(
        namespace=NAMESPACE, name=name, priority=priority, preemption_priority=priority, groups=(group,)
    )


# --- the best there is -----------------------------------------------------------------------------------------------


class Exhaustive:
    """Answers by trying all sets of units; small clusters only."""

    def __init__(self, cluster: Cluster) -> None:
        self.members = [pod for pod in cluster.pods if pod.node is None]
        self._asked = sorted((_amounts(pod) for pod in self.members), reverse=True)
        self._free = {node.name: (node.allocatable["cpu"], node.allocatable["memory"]) for node in cluster.nodes}
        for pod in cluster.pods:
            if pod.node is not None:
                self._free[pod.node] = _moved(self._free[pod.node], pod, -1)
        self.units = _units(cluster)
        self._known: dict[frozenset[int], bool] = {}

    def fits(self, gone: frozenset[int]) -> bool:
        """Whether all members have a place once these units are gone."""
        found = self._known.get(gone)
        if found is None:
            free = dict(self._free)
            for number in gone:
                for pod in self.units[number].pods:
                    free[pod.node or ""] = _moved(free[pod.node or ""], pod, 1)
            found = self._known[gone] = _packs(self._asked, sorted(free.values(), reverse=True), 0)
        return found

    def least(self, n: int, price: Callable[[Cost], tuple[int, ...]]) -> tuple[int, ...]:
        """The cost of the cheapest set of units up to N; there is one."""
        allowed = [i for i, unit in enumerate(self.units) if unit.priority <= n]
        best: tuple[int, ...] | None = None

        def extend(place: int, gone: frozenset[int], cost: Cost) -> None:
            nonlocal best
            if best is not None and price(cost) >= best:
                return
            if self.fits(gone):
                best = price(cost)
                return
            rest = allowed[place:]
            if not rest or not self.fits(gone | set(rest)):
                return
            more = self.units[rest[0]].cost
            extend(place + 1, gone | {rest[0]}, (cost[0] + more[0], cost[1] + more[1], cost[2] + more[2]))
            extend(place + 1, gone, cost)

        extend(0, frozenset(), (0, 0, 0))
        assert best is not None
        return best

    def cost_of(self, victims: tuple[PodKey, ...]) -> Cost:
        gone = [unit.cost for unit in self.units if unit.pods[0].key in victims]
        return sum(c[0] for c in gone), sum(c[1] for c in gone), sum(c[2] for c in gone)


def _amounts(pod: Pod) -> tuple[int, int]:
    return pod.requests["cpu"], pod.requests["memory"]


def _moved(free: tuple[int, int], pod: Pod, sign: int) -> tuple[int, int]:
    cpu, memory = _amounts(pod)
    return free[0] + sign * cpu, free[1] + sign * memory


def _packs(asked: list[tuple[int, int]], free: list[tuple[int, int]], place: int) -> bool:
    if place == len(asked):
        return True
    cpu, memory = asked[place]
    tried = set()
    for i, (have_cpu, have_memory) in enumerate(free):
        if have_cpu >= cpu and have_memory >= memory and free[i] not in tried:
            tried.add(free[i])
            left = [*free[:i], (have_cpu - cpu, have_memory - memory), *free[i + 1 :]]
            if _packs(asked, left, place + 1):
                return True
    return False


def _units(cluster: Cluster) -> list[QualityUnit]:
    """The running units, most important first, with the pods of each that go beyond their budgets (S-15.4.4)."""
    ranks = {each.name: (each.preemption_priority, each.groups[0].whole) for each in cluster.workloads}
    together: dict[object, list[Pod]] = {}
    for pod in cluster.pods:
        if pod.node is not None:
            whole = pod.member is not None and ranks[pod.member.workload][1]
            together.setdefault(pod.member if whole else pod.key, []).append(pod)
    found = []
    for pods in together.values():
        pods.sort(key=lambda pod: (pod.start, pod.key))
        first = pods[0]
        priority = first.priority if first.member is None else ranks[first.member.workload][0]
        found.append((-priority, first.member is None, -len(pods), first.start, first.key, pods))
    found.sort(key=lambda each: each[:5])
    walk = [
        (i, pod, [each for each in cluster.budgets if each.name == pod.labels["app"]])
        for i, each in enumerate(found)
        for pod in each[5]
    ]
    beyond = violations(walk)
    return [QualityUnit(tuple(each[5]), -each[0], beyond.get(i, 0)) for i, each in enumerate(found)]


# --- the comparison --------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Sums:
    """Over all clusters with a preemption: the cost of our choice, of the best one, and the least of each figure."""

    clusters: int = 0
    ours: list[int] = field(default_factory=lambda: [0, 0, 0])
    best: list[int] = field(default_factory=lambda: [0, 0, 0])
    least: list[int] = field(default_factory=lambda: [0, 0, 0])

    def add(self, exact: Exhaustive, answer: PlacementAnswer) -> None:
        assert answer.n is not None
        self.clusters += 1
        best = exact.least(answer.n, lambda cost: cost)
        for i, amount in enumerate(exact.cost_of(answer.victims)):
            self.ours[i] += amount
            self.best[i] += best[i]
            self.least[i] += exact.least(answer.n, _ONLY[i])[0]

    def figures(self) -> dict[str, Any]:
        return {
            name: {
                "ours": self.ours[i], "optimum": self.best[i], "ratio": _ratio(self.ours[i], self.best[i]),
                "leastAlone": self.least[i], "ratioToLeastAlone": _ratio(self.ours[i], self.least[i]),
            }
            for i, name in enumerate(FIGURES)
        }  # fmt: skip


_ONLY: tuple[Callable[[Cost], tuple[int, ...]], ...] = (
    lambda cost: (cost[0],),
    lambda cost: (cost[1],),
    lambda cost: (cost[2],),
)


def _ratio(ours: int, best: int) -> float | None:
    return round(ours / best, 4) if best else (1.0 if not ours else None)


def bench_quality(clusters: int, seed: int = 0) -> dict[str, Any]:
    """Compare on so many clusters that need a preemption, of all four sorts, and as many in which a gang just fits."""
    ours, literal = Sums(), Sums()
    first = seed * 1_000_003
    tried = 0
    began = time.process_time()
    while ours.clusters < clusters:
        alike, budgets = tried % 2 == 0, tried // 2 % 2 == 0
        cluster = random_cluster(first + tried, alike=alike, budgets=budgets)
        tried += 1
        answer, by_rule = _asked_twice(cluster)
        exact = Exhaustive(cluster)
        if answer.needed and answer.feasible and by_rule.feasible and not exact.fits(frozenset()):
            ours.add(exact, answer)
            literal.add(exact, by_rule)
    just_fit = [_asked_twice(tight_cluster(first + number)) for number in range(clusters)]
    return {
        "name": "quality",
        "clusters": ours.clusters,
        "tried": tried,
        **ours.figures(),
        "unlikeThatFit": _missed([answer for answer, _ in just_fit]),
        "toTheLetter": {**literal.figures(), "unlikeThatFit": _missed([answer for _, answer in just_fit])},
        "cpuSeconds": round(time.process_time() - began, 1),
    }


def _asked_twice(cluster: Cluster) -> tuple[PlacementAnswer, PlacementAnswer]:
    """Our answer, and the one that follows S-15 to the letter."""
    preemptor = ForGroup(NAMESPACE, Member(GANG, "g"))
    return decide(ClusterState.of(cluster), preemptor), decide(ClusterState.of(cluster, thorough=False), preemptor)


def _missed(answers: list[PlacementAnswer]) -> dict[str, Any]:
    missed = sum(answer.needed for answer in answers)
    return {"gangs": len(answers), "missed": missed, "share": round(missed / len(answers), 4)}


AIMS = {"violations": 1.2, "victims": 1.07, "lostRunTime": 1.15}
WORDS = {"violations": "pods beyond budgets", "victims": "pods that leave", "lostRunTime": "run time lost"}


def print_quality(result: dict[str, Any]) -> None:
    click.echo(f"{result['clusters']} clusters in which somebody must leave, against the best choice under the same N")
    for name, aim in AIMS.items():
        figures = result[name]
        click.echo(
            f"  {WORDS[name]:<20} {figures['ours']:>8} to {figures['optimum']:>8}: {figures['ratio']:.3f}  (aim: {aim})"
        )
    fit = result["unlikeThatFit"]
    share = 100 * fit["share"]
    click.echo(
        f"  {'fits not found':<20} {fit['missed']:>8} of {fit['gangs']:>8}: {share:.1f} %  (aim: 1.5 %; unlike gangs)"
    )
