"""Gangs, nodes and faults in virtual time: the real pod scheduler, and a judge of every write that it makes.

Nodes come and go, are cordoned and relabelled; pods arrive, end and are deleted; evicted ones come again. Meanwhile
watches, writes and the engine itself fail according to a profile. The judge knows what is stored, which of it the
engine has received, and nothing else.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from makeway.adapters.server.resources.admission import AdmissionPlugins
from makeway.adapters.simulator.faults import Faults, FaultyStore, FaultyWriter
from makeway.adapters.simulator.simulation import Restarting, was_meant
from makeway.adapters.simulator.store import MemoryStore
from makeway.api.objects.kubernetes import Pod, PodDisruptionBudget, view
from makeway.api.objects.pods import PodSpec, PodStatus
from makeway.api.versions import Kind, kind_of
from makeway.controllers.contract import Controller
from makeway.controllers.pods.budgets import Budgets
from makeway.controllers.pods.lost_nodes import LostNodes
from makeway.controllers.pods.scheduling import PodScheduling
from makeway.core.lowering.placement import cluster_of, member_of
from makeway.core.model import Millis
from makeway.core.placement.cluster.state import ClusterState
from makeway.core.placement.cycle import cycle
from makeway.core.placement.model import ForGroup, ForPod, Preemptor
from makeway.core.policy import Policy
from makeway.runtime.engine import Engine
from makeway.runtime.executor import Call
from makeway.runtime.informers import watched_kinds
from makeway.runtime.ports import NotFound, Page, SeededNames, Store, Stored, Watch, WatchEvent
from makeway.runtime.virtual import Actor, Virtual, VirtualClock
from tests.controllers.pod_world import NODES, NOON, PODS, RUNS, SECOND, Nodes, Tree, node, seen
from tests.controllers.pods.test_gangs import CLASSES, GANGS, gang, ranks
from tests.controllers.pods.test_scheduling import pod

BUDGETS = kind_of(PodDisruptionBudget)
STORY_MS = 120 * SECOND
REST_MS = 2 * 3600 * SECOND  # a clock that jumped back may keep timers waiting for long
RANKS = {"low": 1, "mid": 5, "high": 10}
WHOLE_GANG = 4


def waiting_items(state: ClusterState) -> list[Preemptor]:
    """All that wait for a node: gangs as one item, other pods by themselves."""
    found: dict[Preemptor, None] = {}
    for each in state.pods.values():
        group = state.gangs.group_of(each)
        if each.node is None and each.member is not None and group is not None and group.min_count is not None:
            found[ForGroup(each.key[0], each.member)] = None
        elif each.node is None:
            found[ForPod(each.key)] = None
    return list(found)


@dataclass
class Heard:
    """The pods as the engine knows them from lists, watches and answers: the newest counts, as it must for it."""

    pods: dict[str, tuple[int, Pod | None]] = field(default_factory=dict)  # uid -> revision, and how it was; None: gone

    def tell(self, each: Stored, *, is_gone: bool = False) -> None:
        if each.kind == PODS and each.revision >= self.pods.get(each.uid, (0, None))[0]:
            self.pods[each.uid] = (each.revision, None if is_gone else each.value())

    def tell_event(self, event: WatchEvent) -> None:
        if event.object is not None:
            self.tell(event.object, is_gone=event.type == "DELETED")

    def tell_all(self, page: Page) -> None:
        """What a list lacks is gone."""
        at, there = int(page.resource_version), {each.uid for each in page.items}
        for uid, (revision, _) in self.pods.items():
            if uid not in there and revision <= at:
                self.pods[uid] = (at, None)
        for each in page.items:
            self.tell(each)

    def tell_missing(self, name: str) -> None:
        """A missing pod is gone: no name is used twice here."""
        for uid, (revision, known) in self.pods.items():
            if known is not None and known.metadata.name == name:
                self.pods[uid] = (revision, None)

    def staying(self, workload: str) -> set[str]:
        """Pods of a gang that are on nodes and do not leave, as far as the engine knows."""
        known = [each for _, each in self.pods.values() if each is not None]
        return {each.metadata.uid for each in known if _stays(each) and _gang_of(each) == workload}


@dataclass
class Judge:
    """The engine writes through the judge; ``broken`` says what it should not have written."""

    store: MemoryStore
    stood: dict[str, set[str]] = field(default_factory=dict)  # gang -> its pods that were ever bound
    units: dict[str, str] = field(default_factory=dict)  # uid of a pod that must leave with another -> its unit
    broken: list[str] = field(default_factory=list)
    evicted: int = 0
    bound: int = 0
    gathered: set[str] = field(default_factory=set)  # gangs with pods that were bound since they were last counted
    heard: Heard = field(default_factory=Heard)
    unheard: dict[str, set[str]] = field(default_factory=dict)  # gang -> its pods that it was right to count on
    is_late: bool = False  # the write was sent before, when it was right

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)

    def update(self, body: Any) -> Stored:
        is_binding = isinstance(body, Pod) and bool(view(body.spec, PodSpec).node_name)
        if is_binding:
            self._note_unheard(body)
        stored = self._answered(body.metadata.name, lambda: self.store.update(body))
        if is_binding:
            self.bound += 1
            self._check_node(view(body.spec, PodSpec).node_name)
            self._note_stood(body)
        return stored

    def update_status(self, body: Any) -> Stored:
        return self._answered(body.metadata.name, lambda: self._update_status(body))

    def _update_status(self, body: Any) -> Stored:
        if isinstance(body, Pod):
            before = self.store.get(PODS, body.metadata.namespace, body.metadata.name).value()
            why = _evicted(body)
            if why and not _evicted(before):
                self._check_eviction(before, why)
        return self.store.update_status(body)

    def delete(self, kind: Kind, namespace: str, name: str, **how: Any) -> Stored:
        stored = self._answered(name, lambda: self.store.delete(kind, namespace, name, **how))
        self.heard.tell(stored, is_gone=True)  # or it will be: the engine may not count on it
        return stored

    def get(self, kind: Kind, namespace: str, name: str) -> Stored:
        return self._answered(name, lambda: self.store.get(kind, namespace, name))

    def _answered(self, name: str, call: Callable[[], Stored]) -> Stored:
        """The engine has received what a call answers, also that a pod is gone."""
        try:
            stored = call()
        except NotFound:
            self.heard.tell_missing(name)
            raise
        self.heard.tell(stored)
        return stored

    # --- what must hold at each write ---

    def _check_node(self, name: str) -> None:
        try:
            candidate_nodes = self.store.get(NODES, "", name).value()
        except NotFound:
            return
        there = [each for each in self.pods() if view(each.spec, PodSpec).node_name == name]
        cpu = sum(int(_cpu(each)) for each in there)
        most = int(msgspec.json.decode(candidate_nodes.status)["allocatable"]["cpu"])
        if cpu > most:
            self.broken.append(f"node {name} has {most} and {cpu} are used")

    def _check_eviction(self, pod: Pod, why: str) -> None:
        self.evicted += 1
        mates = [each for each in self._unit(pod) if each.metadata.uid != pod.metadata.uid]
        for each in mates:
            if each.metadata.deletion_timestamp is None:
                self.units[each.metadata.uid] = pod.metadata.name
        if not why.startswith("Preempted by ") or self.is_late:
            return
        kind, _, name = why.removeprefix("Preempted by ").partition(" ")
        if not any(view(each.status, PodStatus).nominated_node_name for each in self._waiting(kind, name)):
            self.broken.append(f"{pod.metadata.name} leaves for {name}, which was promised no place")

    def _waiting(self, kind: str, name: str) -> Iterator[Pod]:
        for each in self.pods():
            if view(each.spec, PodSpec).node_name:
                continue
            member = member_of(each)
            own = f"default/{each.metadata.name}" if kind == "pod" else None
            if own == name or (member is not None and kind == "gang" and f"default/{member.workload}/g" == name):
                yield each

    def _unit(self, pod: Pod) -> list[Pod]:
        """The pods that make way together with this one."""
        member = member_of(pod)
        policy = None if member is None else self.policy_of(member.workload)
        if policy is None or policy.preemption_mode != "PodGroup":
            return [pod]
        return [each for each in self.pods() if member_of(each) == member and view(each.spec, PodSpec).node_name]

    def _note_stood(self, pod: Pod) -> None:
        member = member_of(pod)
        if member is not None:
            self.stood.setdefault(member.workload, set()).add(pod.metadata.uid)
            self.gathered.add(member.workload)

    def _note_unheard(self, pod: Pod) -> None:
        """A pod is about to be bound: note those of its gang that ended or were deleted unknown to the engine.

        It could not know of them (decision 0058: a gang may be below minCount because its pods ended, or others deleted
        them). The pod itself counts too, if it was known to wait: it is bound in vain, beside mates that were bound
        with it. Pods that the engine evicted never count, because it got the answer.
        """
        gang, uid = _gang_of(pod), pod.metadata.uid
        if gang is None:
            return
        counted_on = self.heard.staying(gang)
        _, known = self.heard.pods.get(uid, (0, None))
        if known is not None and known.metadata.deletion_timestamp is None:
            counted_on.add(uid)
        there = {each.metadata.uid for each in self.pods() if each.metadata.deletion_timestamp is None}
        self.unheard.setdefault(gang, set()).update(counted_on - there)

    def step(self, now: Millis) -> bool:
        """After the engine has written: each gang that it bound pods of has enough to stay (decision 0063).

        Pods count, too, if the engine could not know, when it bound the others, that they were not there to stay.
        """
        for name in sorted(self.gathered):
            policy = self.policy_of(name)
            stay = {each.metadata.uid for each in self.standing(name) if _stays(each)} | self.unheard.get(name, set())
            if policy is not None and len(stay) < policy.min_count:
                self.broken.append(f"of gang {name} {len(stay)} pods will stand, and {policy.min_count} must")
        self.gathered.clear()
        self.unheard.clear()
        return False

    def next_at(self) -> Millis | None:
        return None

    # --- what is stored ---

    def pods(self) -> list[Pod]:
        found = [each.value() for each in self.store.list(PODS).items]
        return [each for each in found if view(each.status, PodStatus).phase not in ("Succeeded", "Failed")]

    def policy_of(self, workload: str) -> Any:
        try:
            return self.store.get(GANGS, "default", workload).value().spec.pod_groups[0].policy.gang
        except NotFound:
            return None

    def standing(self, workload: str) -> list[Pod]:
        return [
            each
            for each in self.pods()
            if (member := member_of(each)) is not None
            and member.workload == workload
            and view(each.spec, PodSpec).node_name
        ]


def _stays(pod: Pod) -> bool:
    """Whether a pod is on a node, and neither ended nor leaves."""
    has_ended = view(pod.status, PodStatus).phase in ("Succeeded", "Failed")
    return bool(view(pod.spec, PodSpec).node_name) and not has_ended and pod.metadata.deletion_timestamp is None


def _gang_of(pod: Pod) -> str | None:
    member = member_of(pod)
    return None if member is None else member.workload


def _evicted(pod: Pod) -> str:
    conditions = view(pod.status, PodStatus).conditions
    return next((each.message for each in conditions if each.reason == "PreemptionByScheduler"), "")


def _cpu(pod: Pod) -> int:
    return sum(each.resources.requests["cpu"].nano // 10**9 for each in view(pod.spec, PodSpec).containers)


class Story:
    """What happens outside: random events until its end, afterwards only that evicted pods come again."""

    def __init__(self, store: MemoryStore, seed: int) -> None:
        self._store = store
        self._dice = random.Random(f"gangs {seed}")
        self._other_dice = random.Random(f"mates {seed}")
        self._at = Millis(NOON + 1)
        self._made = 0
        self._is_eager = bool(seed % 3)  # whether a leaving pod is replaced while it leaves, or when it is gone
        self._wanted: dict[str, tuple[int, Tree]] = {}  # gang or pod -> how many, and what they look like
        self._known: dict[str, tuple[str, str]] = {}  # uid -> the gang or pod it is of, and its last phase
        self._back_at: dict[str, Millis] = {}  # when deleted ones come again
        for rank in ranks(**RANKS):
            store.create(rank)
        for n in range(self._dice.randint(2, 5)):
            self._put(node(f"n{n}", str(self._dice.randint(1, 4)), {"zone": self._dice.choice("ab")}))
        if self._dice.random() < 0.3:
            budget = {"selector": {"matchLabels": {"team": "x"}}, "minAvailable": 2}
            meta = {"name": "pdb", "namespace": "default"}
            self._put({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": meta, "spec": budget})

    def step(self, now: Millis) -> bool:
        happened = self._replace(now)
        while self._at is not None and self._at <= now < NOON + STORY_MS:
            self._happen()
            self._at = Millis(self._at + self._dice.randint(1, 12 * SECOND))
            happened = True
        return happened

    def next_at(self) -> Millis | None:
        times = [*self._back_at.values(), *([self._at] if self._at < NOON + STORY_MS else [])]
        return min(times, default=None)

    def _put(self, tree: Tree) -> None:
        created = self._store.create(tree)
        if "status" in tree:
            self._store.update_status({**created.tree(), "status": tree["status"]})

    def _happen(self) -> None:
        what = self._dice.choices(
            (self._arrive, self._delete_pod, self._add_node, self._remove_node, self._change_node), (8, 1, 1, 1, 2)
        )[0]
        what()

    def _arrive(self) -> None:
        dice, name = self._dice, f"w{len(self._wanted)}"
        rank = dice.choice(sorted(RANKS))
        count = dice.choice((1, 1, 2, 2, 3, WHOLE_GANG))
        looks: Tree = {"priorityClassName": rank, "terminationGracePeriodSeconds": dice.choice((0, 3, 20))}
        if dice.random() < 0.2:
            looks["nodeSelector"] = {"zone": dice.choice("ab")}
        if dice.random() < 0.75:
            least = dice.choice((None, count, count, count, max(1, count - 1)))
            self._put(gang(name, least, mode=dice.choice(("Pod", "PodGroup", "PodGroup")), rank=rank))
            looks["workloadRef"] = {"name": name, "podGroup": "g"}
        shape = pod("x", str(dice.choice((1, 1, 2))), **looks)
        shape["metadata"]["labels"] = {"team": dice.choice("xy")}
        if dice.random() < 0.5:
            shape["metadata"]["annotations"] = {RUNS: str(dice.randint(5, 90))}
        self._wanted[name] = (count, shape)

    def _replace(self, now: Millis) -> bool:
        """Deleted pods come again, at once or a second later, under another name; ended ones do not."""
        there = {each.uid: each for each in self._store.list(PODS).items}
        for uid in [uid for uid in self._known if uid not in there]:
            name, phase = self._known.pop(uid)
            count, shape = self._wanted[name]
            self._back_at[name] = Millis(now + SECOND)
            if phase in ("Succeeded", "Failed"):
                self._wanted[name] = (count - 1, shape)
        live: dict[str, int] = {}
        for uid, each in there.items():
            if uid in self._known:
                name, _ = self._known[uid]
                self._known[uid] = (name, seen(each.data)[1].phase)
                live[name] = live.get(name, 0) + (not each.deleting or not self._is_eager)
        made = False
        self._back_at = {name: at for name, at in self._back_at.items() if at > now}
        for name, (count, shape) in self._wanted.items():
            if name in self._back_at:
                continue
            for _ in range(count - live.get(name, 0)):
                self._made += 1
                meta = {**shape["metadata"], "name": f"{name}-{self._made}"}
                self._known[self._store.create({**shape, "metadata": meta}).uid] = (name, "Pending")
                made = True
        return made

    def _delete_pod(self) -> None:
        found = self._store.list(PODS).items
        if not found:
            return
        first = self._dice.choice(found).name
        mates = [each.name for each in found if each.name.partition("-")[0] == first.partition("-")[0]]
        for name in sorted({first, self._other_dice.choice(mates)}):
            self._store.delete(PODS, "default", name)

    def _add_node(self) -> None:
        self._made += 1
        self._put(node(f"m{self._made}", str(self._dice.randint(1, 4)), {"zone": self._dice.choice("ab")}))

    def _remove_node(self) -> None:
        found = self._store.list(NODES).items
        if len(found) > 1:
            gone = self._dice.choice(found).name
            self._store.delete(NODES, "", gone)

    def _change_node(self) -> None:
        found = self._dice.choice(self._store.list(NODES).items)
        if self._dice.random() < 0.5:
            self._store.patch(NODES, "", found.name, {"metadata": {"labels": {"zone": self._dice.choice("ab")}}})
        else:
            self._store.patch(NODES, "", found.name, {"spec": {"unschedulable": self._dice.random() < 0.4}})


class Writing(FaultyWriter):
    """Tells the judge of writes that are made later than they were sent."""

    def __init__(self, judge: Judge, faults: Faults) -> None:
        super().__init__(judge, faults)
        self._judge = judge
        self._now = faults.now

    def send(self, number: int, call: Call, now: Millis) -> None:
        sent_at = self._now()

        def judged(store: Store) -> Stored:
            self._judge.is_late = self._now() > sent_at
            try:
                return call(store)
            finally:
                self._judge.is_late = False

        super().send(number, judged, now)


class Telling(FaultyStore):
    """Tells the judge what the engine receives about pods, when it does; lost or late news it has not received."""

    def __init__(self, judge: Judge, faults: Faults) -> None:
        super().__init__(judge.store, faults)
        self._heard = judge.heard

    def list(self, kind: Kind, *args: Any, **more: Any) -> Page:
        page = super().list(kind, *args, **more)
        if kind == PODS:
            self._heard.tell_all(page)
        return page

    def watch(self, kind: Kind, *args: Any, **more: Any) -> Watch:
        watch = super().watch(kind, *args, **more)
        return Overheard(watch, self._heard) if kind == PODS else watch


@dataclass
class Overheard:
    watch: Watch
    heard: Heard

    def poll(self, limit: int = 1000) -> Sequence[WatchEvent]:
        events = self.watch.poll(limit)
        for each in events:
            self.heard.tell_event(each)
        return events

    def close(self) -> None:
        self.watch.close()


class Kubelets(Nodes):
    """Pods on lost nodes have no end to wait for. Of machines without a Node every other one runs."""

    def step(self, now: Millis) -> bool:
        nodes = {each.name for each in self.store.list(NODES).items}
        pods = self.store.list(PODS).items
        there = {each.uid for each in pods}
        for each in pods:
            on = seen(each.data)[0].node_name
            if on and on not in nodes and int(on[1:]) % 2:
                self.gone.add(each.uid)
                self.ends.pop(each.uid, None)
        self.ends = {uid: end for uid, end in self.ends.items() if uid in there}
        return super().step(now)


class GangWorld:
    def __init__(self, seed: int, profile: str) -> None:
        self.clock = VirtualClock(NOON)
        self.store = MemoryStore(self.clock, SeededNames(seed), admission=AdmissionPlugins(), careful=False)
        self.judge = Judge(self.store)
        self.faults = Faults.of_profile(seed, profile)
        self.faults.now = lambda: self.clock.now
        self.faults.until = Millis(NOON + STORY_MS)
        self._seen = Telling(self.judge, self.faults)
        story = Story(self.store, seed)
        self._schedulers: list[PodScheduling] = []  # one after another
        self.engine = Restarting(self._make, self.faults, self.clock)
        actors: list[Actor] = [story, Kubelets(self.store), self.engine, self._seen]
        if profile in ("none", "watch"):  # else a write may be lost or late
            actors.append(self.judge)
        self.driver = Virtual(self.clock, actors)

    def _make(self) -> Engine:
        self._seen.forget_watches()
        writer = Writing(self.judge, self.faults)
        seen: Any = self._seen
        self._schedulers.append(PodScheduling())
        react: list[Controller] = [self._schedulers[-1], LostNodes(), Budgets()]
        return Engine(
            seen, Policy.default(), react, writer=writer, figures_ms=0, kinds=watched_kinds(on_nodes=True),
            tolerates=was_meant, probe=self.faults.probe,
        )  # fmt: skip

    def run(self) -> list[str]:
        """Play it to its end; returns what went wrong."""
        self.driver.run(Millis(NOON + STORY_MS + REST_MS))
        version = self.store.resource_version
        self.driver.run(Millis(self.clock.now + REST_MS))
        broken = list(self.judge.broken)
        if self.store.resource_version != version:
            broken.append("it does not come to rest")
        if any(each.missed for each in self._schedulers):
            broken.append("somebody who waited was forgotten for a while")
        broken += [f"{ref} is set aside for ever" for ref, _, _ in self.engine.engine.set_aside.all()]
        return [*broken, *self._half_bound(), *self._left_over(), *self._needlessly_waiting()]

    # --- what must hold in the end ---

    def _half_bound(self) -> Iterator[str]:
        """Pods of a gang may be evicted, end or be lost one by one; where they go together they also wait together."""
        for each in self.store.list(GANGS).items:
            policy = self.judge.policy_of(each.name)
            if policy is None:
                continue
            least, standing = policy.min_count, len(self.judge.standing(each.name))
            members = [
                pod for pod in self.judge.pods() if (m := member_of(pod)) is not None and m.workload == each.name
            ]
            was_whole = len(self.judge.stood.get(each.name, ())) >= least and policy.preemption_mode == "Pod"
            if 0 < standing < least <= len(members) and not was_whole:
                yield f"of gang {each.name} {standing} pods stand, and {least} must"

    def _left_over(self) -> Iterator[str]:
        nodes = {each.name for each in self.store.list(NODES).items}
        for each in self.judge.pods():
            if (on := view(each.spec, PodSpec).node_name) and on not in nodes:
                yield f"{each.metadata.name} is on node {on}, which is gone"
            if each.metadata.uid in self.judge.units:
                yield f"{each.metadata.name} is of the unit of {self.judge.units[each.metadata.uid]} and did not leave"
            if each.metadata.deletion_timestamp is not None:
                yield f"{each.metadata.name} never leaves"

    def _needlessly_waiting(self) -> Iterator[str]:
        """A scheduler that begins now would do nothing."""
        kinds = (NODES, PODS, GANGS, CLASSES, BUDGETS)
        objects = [each.value() for kind in kinds for each in self.store.list(kind).items]
        state = ClusterState.of(cluster_of(objects, self.clock.now))
        for item in waiting_items(state):
            answer = cycle(state, item)
            if answer.bound or answer.actuated:
                yield f"{item} waits and could have {answer.bound or answer.nominated}"
