"""Pods with relations, on nodes that change, one event at a time: no pod that has a place is left waiting.

The Store fills in nothing, so classes count for as long as they say so. After each event the real pod scheduler works
until it is idle. Then a decision about each waiting pod is made anew, from what is stored. It finds nothing.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from makeway.adapters.simulator.store import MemoryStore
from makeway.api.objects.kubernetes import Namespace
from makeway.api.versions import Kind, kind_of
from makeway.controllers.pods.budgets import Budgets
from makeway.controllers.pods.scheduling import PodScheduling
from makeway.core.lowering.placement import cluster_of
from makeway.core.model import Millis
from makeway.core.placement.cluster.state import ClusterState
from makeway.core.placement.cycle import CycleAnswer, cycle
from makeway.core.placement.model import ForGroup, ForPod, Pod, Preemptor
from makeway.core.policy import Policy
from makeway.runtime.engine import Engine
from makeway.runtime.executor import DirectWriter
from makeway.runtime.informers import watched_kinds
from makeway.runtime.ports import SeededNames, Stored
from makeway.runtime.virtual import Virtual, VirtualClock
from tests.controllers.gang_world import BUDGETS, waiting_items
from tests.controllers.pod_world import NODES, NOON, PODS, SECOND, Nodes, Tree, node
from tests.controllers.pods.test_gangs import CLASSES, GANGS, gang, ranks
from tests.controllers.pods.test_scheduling import pod

NAMESPACES = kind_of(Namespace)
RANKS = ("low", "mid", "high")
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
HOST, ZONE = "host", "zone"
APPS = "aab"
REST_MS = 25 * SECOND  # longer than any pause or grace period


class RelationWorld:
    def __init__(self, seed: int) -> None:
        self.dice = random.Random(f"relations {seed}")
        self.clock = VirtualClock(NOON)
        self.store = MemoryStore(self.clock, SeededNames(seed), careful=False)
        self.scheduling = PodScheduling()
        engine = Engine(
            self.store, Policy.default(), [self.scheduling, Budgets()], writer=DirectWriter(self.store), figures_ms=0,
            kinds=watched_kinds(on_nodes=True),
        )  # fmt: skip
        self.driver = Virtual(self.clock, [Nodes(self.store), engine])
        self._made = 0
        self._is_roomy = self.dice.random() < 0.6  # then other pods keep them from nodes, and little else
        self.bound_after: set[str] = set()  # events after which a waiting pod was bound
        for name, team in (("default", "x"), ("other", "y")):
            self._put({
                "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {"team": team}},
            })  # fmt: skip
        for rank in ranks(low=1, mid=5, high=10):
            self._put(rank)
        for _ in range(self.dice.randint(2, 4)):
            self.node_comes()
        for _ in range(self.dice.randint(3, 8)):
            self.comes()

    # --- the events ---

    @property
    def events(self) -> list[tuple[int, Callable[[], None]]]:
        return [
            (6, self.comes), (3, self.leaves), (2, self.finishes), (4, self.is_relabelled), (1, self.node_comes),
            (1, self.node_goes), (3, self.node_is_relabelled), (2, self.node_is_cordoned), (2, self.node_is_tainted),
            (2, self.node_is_resized), (2, self.namespace_is_relabelled), (2, self.workload_changes),
            (1, self.workload_goes), (1, self.class_changes), (1, self.budget_changes), (2, self.promise_is_cleared),
            (1, self.pod_changes_its_reference),
        ]  # fmt: skip

    def happen(self) -> str:
        """One event, and all that follows from it."""
        waiting = {each.uid for each in self._pods(lambda each: not each["spec"].get("nodeName"))}
        weights = [weight for weight, _ in self.events]
        event = self.dice.choices([event for _, event in self.events], weights)[0]
        event()
        self.driver.run(Millis(self.clock.now + REST_MS))
        if any(each.uid in waiting for each in self._pods(lambda each: bool(each["spec"].get("nodeName")))):
            self.bound_after.add(event.__name__)
        return event.__name__

    def comes(self) -> None:
        dice = self.dice
        self._made += 1
        name, rank = f"p{self._made}", dice.choice(RANKS)
        count = dice.choice((1, 1, 1, 1, 2, 3))
        is_gang = count > 1 or dice.random() < 0.2
        shape = self._pod(rank)
        if is_gang:
            least = dice.choice((count, count, count, None, max(1, count - 1)))
            self._put(gang(name, least, mode=dice.choice(("Pod", "PodGroup")), rank=rank))
            shape["spec"]["workloadRef"] = {"name": name, "podGroup": "g"}
        for n in range(count):
            if n and dice.random() < 0.2:
                shape = {
                    **self._pod(rank),
                    "spec": {**self._pod(rank)["spec"], "workloadRef": {"name": name, "podGroup": "g"}},
                }
            namespace = "default" if is_gang else dice.choice(("default", "default", "other"))
            self._put({**shape, "metadata": {**shape["metadata"], "name": f"{name}-{n}", "namespace": namespace}})

    def leaves(self) -> None:
        if found := self._pods():
            gone = self.dice.choice(found)
            self.store.delete(PODS, gone.namespace, gone.name, grace=0)

    def finishes(self) -> None:
        if found := self._pods(lambda each: bool(each["spec"].get("nodeName"))):
            tree = self.dice.choice(found).tree()
            self.store.update_status({**tree, "status": {**tree.get("status", {}), "phase": "Succeeded"}})

    def is_relabelled(self) -> None:
        if found := self._pods():
            self._patch(PODS, self.dice.choice(found), {"metadata": {"labels": {"app": self.dice.choice(APPS)}}})

    def node_comes(self) -> None:
        self._made += 1
        dice, name = self.dice, f"n{self._made}"
        labels = {HOST: name, **({ZONE: dice.choice("aab")} if dice.random() < 0.9 else {})}
        spec: Tree = {"unschedulable": True} if dice.random() < 0.15 else {}
        if dice.random() < 0.15:
            spec["taints"] = [{"key": "t", "value": "", "effect": "NoSchedule"}]
        self._put(node(name, str(12 if self._is_roomy else dice.randint(1, 5)), labels, **spec))

    def node_goes(self) -> None:
        found = self.store.list(NODES).items
        if len(found) > 1:
            self.store.delete(NODES, "", self.dice.choice(found).name)

    def node_is_relabelled(self) -> None:
        self._change_node({"metadata": {"labels": {ZONE: self.dice.choice(("a", "b", "c", None))}}})

    def node_is_cordoned(self) -> None:
        self._change_node({"spec": {"unschedulable": self.dice.random() < 0.4}})

    def node_is_tainted(self) -> None:
        taint = {"key": "t", "value": "", "effect": "NoSchedule"}
        self._change_node({"spec": {"taints": [taint] if self.dice.random() < 0.4 else None}})

    def node_is_resized(self) -> None:
        tree = self.dice.choice(self.store.list(NODES).items).tree()
        tree["status"]["allocatable"]["cpu"] = str(self.dice.choice((1, 5, 12)))
        self.store.update_status(tree)

    def namespace_is_relabelled(self) -> None:
        found = self.dice.choice(self.store.list(NAMESPACES).items)
        self._patch(NAMESPACES, found, {"metadata": {"labels": {"team": self.dice.choice("xy")}}})

    def workload_changes(self) -> None:
        """Its priority changes, or how many must be placed, or what makes way together."""
        dice, found = self.dice, self.store.list(GANGS).items
        if not found:
            return
        tree = dice.choice(found).tree()
        policy = tree["spec"]["podGroups"][0]["policy"]
        what = dice.choice(("priority", "priority", "minCount", "preemptionMode"))
        if what == "priority":
            value = dice.choice((0, 1, 5, 10, 20))
            told = {"priority": value, "preemptionPriority": value + dice.choice((0, 0, 5))}
            self.store.update_status({**tree, "status": {**tree.get("status", {}), **told}})
        elif "gang" in policy:
            policy["gang"][what] = dice.randint(1, 3) if what == "minCount" else dice.choice(("Pod", "PodGroup"))
            self.store.delete(GANGS, "default", tree["metadata"]["name"])  # it cannot be changed, but made anew
            self._put({**tree, "metadata": {"name": tree["metadata"]["name"], "namespace": "default"}})

    def workload_goes(self) -> None:
        """It may come again."""
        found = self.store.list(GANGS).items
        if found and self.dice.random() < 0.5:
            self.store.delete(GANGS, "default", self.dice.choice(found).name)
            return
        known = {each.name for each in found}
        lost = [each.tree()["spec"].get("workloadRef", {}).get("name", "") for each in self._pods()]
        for name in sorted({each for each in lost if each and each not in known})[:1]:
            self._put(gang(name, self.dice.choice((None, 1, 2)), rank=self.dice.choice(RANKS)))

    def class_changes(self) -> None:
        name = self.dice.choice(RANKS)
        self.store.delete(CLASSES, "", name)
        self._put(ranks(**{name: self.dice.choice((0, 2, 5, 7, 12))})[0])

    def budget_changes(self) -> None:
        for each in self.store.list(BUDGETS).items:
            self.store.delete(BUDGETS, each.namespace, each.name)
        self._made += 1
        spec = {"selector": {"matchLabels": {"app": self.dice.choice("abc")}}, "minAvailable": self.dice.randint(0, 3)}
        meta = {"name": f"b{self._made}", "namespace": "default"}
        self._put({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": meta, "spec": spec})

    def promise_is_cleared(self) -> None:
        """A waiting pod loses its promise, or gets one from another component."""
        found = self._pods(lambda each: not each["spec"].get("nodeName"))
        if found:
            tree = self.dice.choice(found).tree()
            nodes = [each.name for each in self.store.list(NODES).items]
            status = {**tree.get("status", {}), "nominatedNodeName": self.dice.choice(["", *nodes])}
            self.store.update_status({**tree, "status": status})

    def pod_changes_its_reference(self) -> None:
        found, gangs = self._pods(lambda each: each["metadata"]["namespace"] == "default"), self.store.list(GANGS).items
        if found and gangs:
            marks = {"makeway.dev/workload-ref": f"{self.dice.choice(gangs).name}/{self.dice.choice(['g', 'h'])}"}
            self._patch(PODS, self.dice.choice(found), {"metadata": {"annotations": marks}})

    # --- what they are made of ---

    def _pod(self, rank: str) -> Tree:
        dice = self.dice
        looks: Tree = {"priorityClassName": rank, "terminationGracePeriodSeconds": dice.choice((0, 3, 3000))}
        if dice.random() < 0.15:
            looks["nodeSelector"] = {ZONE: dice.choice("ab")}
        if dice.random() < 0.3:
            looks["tolerations"] = [{"key": "t", "operator": "Exists"}]
        affinity: Tree = {}
        what = dice.choice(("none", "none", "beside", "apart", "apart", "spread", "spread", "spread", "all"))
        if what in ("beside", "all"):
            affinity["podAffinity"] = {REQUIRED: [self._term() for _ in range(dice.choice((1, 1, 2)))]}
        if what in ("apart", "all"):
            affinity["podAntiAffinity"] = {REQUIRED: [self._term() for _ in range(dice.choice((1, 1, 2)))]}
        if what == "spread":
            looks["topologySpreadConstraints"] = [self._spread() for _ in range(dice.choice((1, 1, 2)))]
        found = pod("x", str(dice.choice((0, 1, 1, 2))), **looks, **({"affinity": affinity} if affinity else {}))
        found["metadata"]["labels"] = {"app": dice.choice(APPS)}
        return found

    def _term(self) -> Tree:
        dice = self.dice
        term: Tree = {
            "labelSelector": {"matchLabels": {"app": dice.choice(APPS)}}, "topologyKey": dice.choice((HOST, ZONE)),
        }  # fmt: skip
        if dice.random() < 0.2:
            term["namespaces"] = ["other"]
        if dice.random() < 0.3:
            term["namespaceSelector"] = dice.choice(({}, {"matchLabels": {"team": "y"}}))
        if dice.random() < 0.2:
            term[dice.choice(("matchLabelKeys", "mismatchLabelKeys"))] = ["app"]
            term["labelSelector"] = {}
        return term

    def _spread(self) -> Tree:
        dice = self.dice
        return {
            "maxSkew": dice.choice((1, 1, 2)), "topologyKey": dice.choice((HOST, ZONE, ZONE)),
            "minDomains": dice.choice((1, 1, 1, 2)), "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": dice.choice(APPS)}},
            "nodeAffinityPolicy": dice.choice(("Honor", "Ignore")),
            "nodeTaintsPolicy": dice.choice(("Honor", "Ignore")),
        }  # fmt: skip

    def _put(self, tree: Tree) -> None:
        created = self.store.create(tree)
        if "status" in tree:
            self.store.update_status({**created.tree(), "status": tree["status"]})

    def _patch(self, kind: Kind, what: Stored, change: Tree) -> None:
        self.store.patch(kind, what.namespace, what.name, change)

    def _change_node(self, change: Tree) -> None:
        self._patch(NODES, self.dice.choice(self.store.list(NODES).items), change)

    def _pods(self, which: Callable[[Tree], bool] = lambda _: True) -> list[Stored]:
        live = [each for each in self.store.list(PODS).items if _phase(each.tree()) not in ("Succeeded", "Failed")]
        return [each for each in live if which(each.tree())]

    # --- what must hold ---

    def forgotten(self) -> Iterator[str]:
        """Items that wait, although a scheduler that begins now would place them or make others leave."""
        kinds = (NODES, PODS, GANGS, CLASSES, BUDGETS, NAMESPACES)
        objects: list[Any] = [each.value() for kind in kinds for each in self.store.list(kind).items]
        cluster = cluster_of(objects, self.clock.now)
        came = {(each.namespace, each.name): each.value().metadata for each in self.store.list(PODS).items}
        arrived = {
            key: 0 if meta.creation_timestamp is None else meta.creation_timestamp.millis for key, meta in came.items()
        }
        cluster = replace(cluster, pods=tuple(replace(each, arrived=arrived[each.key]) for each in cluster.pods))
        state = ClusterState.of(cluster)
        for item in waiting_items(state):
            leaving = _leaving(state, item)
            if leaving and isinstance(item, ForGroup):
                answer = _beside_leaving(state, item, leaving)
            else:
                answer = cycle(state, item)
            leave = all(state.pods[key].preempted_by_scheduler for key in answer.actuated)
            if (
                answer.actuated
                and leave
                and all(state.pods[key].nominated == name for key, name in answer.nominated.items())
            ):
                continue  # they make way already, though not on the node that is promised (S-15.6.7)
            if answer.bound or answer.actuated:
                yield f"{item} waits and could have {answer.bound or answer.nominated}"


def _leaving(state: ClusterState, item: Preemptor) -> list[Pod]:
    """Members of a gang that are leaving."""
    if isinstance(item, ForPod):
        return []
    pods = [state.pods[key] for key in state.gangs.running.get((item.namespace, item.member), ())]
    return [pod for pod in pods if pod.terminating]


def _beside_leaving(state: ClusterState, gang: ForGroup, leaving: list[Pod]) -> CycleAnswer:
    """Decision 0063: leaving members do not count, none is evicted beside them, a unit goes as a whole first."""
    workload = state.gangs.workloads[(gang.namespace, gang.member.workload)]
    group = state.gangs.groups[(gang.namespace, gang.member.workload, gang.member.group)]
    if group.whole and any(pod.preempted_by_scheduler for pod in leaving):
        return CycleAnswer(feasible=False)
    more = replace(group, min_count=(group.min_count or 1) + len(leaving))
    with state.trial():
        state.set_workload(
            (workload.namespace, workload.name),
            replace(workload, groups=tuple(more if each == group else each for each in workload.groups)),
        )
        answer = cycle(state, gang)
    return answer if answer.bound else CycleAnswer(feasible=False)


def _phase(pod: Tree) -> str:
    return str(pod.get("status", {}).get("phase", ""))
