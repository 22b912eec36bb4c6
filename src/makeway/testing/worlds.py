"""Small random installations with a morning of work, as manifests: what simulations with faults are run on.

``python -m makeway.testing.worlds SEED`` prints one, so that a failure found in a test is replayed by hand, with the
command that ``replay`` spells out.

Equal seeds give equal worlds. Everything ends by itself: every job has a run time, every quota suffices for the
largest job, and a workload that has to share a place by the clock saves its work. ``People`` are an actor beside the
engine: they change their minds for some minutes, and in the end they undo whatever would keep work from ending.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from makeway.adapters.simulator.faults import Faults
from makeway.adapters.simulator.simulation import Simulation, SimulationSettings
from makeway.adapters.simulator.sources.arrivals import arrivals_of
from makeway.adapters.simulator.store import MemoryStore
from makeway.api import codec
from makeway.api.conditions import is_true
from makeway.api.objects.kubernetes import Job, Namespace
from makeway.api.objects.meta import Wire
from makeway.api.objects.queueing import ClusterQueue, LocalQueue
from makeway.api.objects.workload import Workload
from makeway.api.quantity import Duration, Time
from makeway.api.versions import kind_of
from makeway.cli.offline.simulate import FIGURES_MS, faults_end
from makeway.controllers.queues.status import INTERVAL_MS
from makeway.core.model import Millis
from makeway.core.policy import Policy
from makeway.runtime.ports import AlreadyExists, NotFound

BEGIN_MS = 1_767_225_600_000  # 2026-01-01T00:00:00Z
MINUTE_MS = 60_000
EVICTIONS_MS = (0, 20_000, 5_000)  # the time that evicted work takes to stop, by the seed
LONG_MS = 10 * 60 * MINUTE_MS  # longer than any world takes
KUEUE = "kueue.x-k8s.io/v1beta2"
CHECK = "audit"
OPEN, SHUT = {"stage": "open"}, {"stage": "shut"}  # labels of a namespace
Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Shape:
    """The kinds of things that a world may hold."""

    flavors_max: int = 2
    queues_max: int = 5
    works_max: int = 20
    jobs: bool = True  # some of the work comes as batch/v1 Jobs
    minutes: int = 20  # in which the work comes
    checks: bool = False  # some queues have an admission check, which ``People`` answer
    namespaces: bool = False  # some queues are for some namespaces only


def documents(seed: int, shape: Shape | None = None) -> list[Document]:
    """A world as the trees of its manifests."""
    return list(_World(seed, shape or Shape()).documents())


def objects(seed: int, shape: Shape | None = None) -> list[Wire]:
    """A world as objects."""
    found = [codec.read(each) for each in documents(seed, shape)]
    bad = [problem for reading in found for problem in reading.problems]
    assert not bad, bad
    return [reading.value for reading in found if reading.value is not None]


# --- runs -------------------------------------------------------------------------------------------------------------


def simulation(
    seed: int, *, faults: Faults | None = None, shape: Shape | None = None, policy: Policy | None = None,
    figures_ms: int = INTERVAL_MS, watching: Callable[[Millis], None] | None = None,
) -> Simulation:  # fmt: skip
    """A world watched by a witness, ready to run."""
    settings = SimulationSettings(
        policy=policy or Policy.default(), seed=seed, faults=faults, metrics=True,
        eviction_ms=EVICTIONS_MS[seed % len(EVICTIONS_MS)], figures_ms=figures_ms,
    )  # fmt: skip
    return Simulation(settings, arrivals_of(objects(seed, shape)), witness=True, watching=watching)


def faulty(seed: int, profile: str = "all", *, watching: Callable[[Millis], None] | None = None) -> Simulation:
    """A world in which things go wrong: with an odd seed to its very end, else until most of the work has come.

    It is set up as ``makeway simulate`` does it, so that ``replay`` gives the same run.
    """
    faults = Faults.of_profile(seed, profile)
    ready = simulation(seed, faults=faults, figures_ms=FIGURES_MS, watching=watching)
    source = arrivals_of(objects(seed))
    faults.until = faults_end(source, Millis(source.begins_at + LONG_MS) if seed % 2 else None)
    return ready


def replay(seed: int, profile: str = "all") -> str:
    """The command that runs ``faulty(seed, profile)`` again, decision by decision."""
    options = [f"--seed {seed}", f"--faults {profile}", f"--eviction {_span(EVICTIONS_MS[seed % len(EVICTIONS_MS)])}"]
    options += [f"--until {_span(LONG_MS)}"] if seed % 2 else []
    options += ["--journal journal.jsonl"]
    return f"python -m makeway.testing.worlds {seed} > world.yaml && makeway simulate -f world.yaml {' '.join(options)}"


def _span(ms: int) -> str:
    return Duration(ms * 10**6).text


# --- worlds -----------------------------------------------------------------------------------------------------------


class _World:
    def __init__(self, seed: int, shape: Shape) -> None:
        self._dice = random.Random(f"world {seed}")
        self._shape = shape
        self._flavors = [f"flavor-{i}" for i in range(self._dice.randint(1, shape.flavors_max))]
        self._queues = [f"queue-{i}" for i in range(self._dice.randint(1, shape.queues_max))]
        self._cohorts = ["", "left", "right"][: self._dice.randint(1, 3)]
        self._nested = len(self._cohorts) == 3 and self._dice.random() < 0.5
        self._by_the_clock: set[str] = set()  # queues in which equals take turns

    def documents(self) -> Iterator[Document]:
        for name in self._flavors:
            yield _named("ResourceFlavor", name, {})
        if self._shape.namespaces:
            yield {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team", "labels": OPEN}}
        if self._shape.checks:
            active = {"type": "Active", "status": "True", "reason": "Active", "message": "It answers"}
            status = {"conditions": [{**active, "lastTransitionTime": str(Time.of_millis(BEGIN_MS))}]}
            yield {**_named("AdmissionCheck", CHECK, {"controllerName": "example.com/audit"}), "status": status}
        if self._nested:
            for name in ("left", "right"):
                yield _named("Cohort", name, {"parentName": "root"})
        for name in self._queues:
            spec = self._queue()
            if "withinClusterQueueConfig" in spec["preemption"]:
                self._by_the_clock.add(name)
            yield _named("ClusterQueue", name, spec)
            yield _named("LocalQueue", name, {"clusterQueue": name}, namespace="team")
        for number in range(self._dice.randint(3, self._shape.works_max)):
            yield self._work(number)

    def _queue(self) -> Document:
        dice = self._dice
        cohort = dice.choice(self._cohorts)
        spec: Document = {
            "namespaceSelector": {},
            "queueingStrategy": dice.choice(["BestEffortFIFO", "BestEffortFIFO", "StrictFIFO"]),
            "resourceGroups": [
                {"coveredResources": ["cpu"], "flavors": [self._quota(name, cohort) for name in self._flavors]}
            ],
            "flavorFungibility": {
                "whenCanBorrow": dice.choice(["MayStopSearch", "TryNextFlavor"]),
                "whenCanPreempt": dice.choice(["MayStopSearch", "TryNextFlavor"]),
            },
            "preemption": self._preemption(cohort),
        }
        if cohort:
            spec["cohortName"] = cohort
        if self._shape.namespaces and dice.random() < 0.4:
            spec["namespaceSelector"] = {"matchLabels": OPEN}
        if self._shape.checks and dice.random() < 0.4:
            spec["admissionChecksStrategy"] = {"admissionChecks": [{"name": CHECK}]}
        return spec

    def _quota(self, flavor: str, cohort: str) -> Document:
        dice = self._dice
        quota: Document = {"name": "cpu", "nominalQuota": str(dice.randint(4, 8))}
        if cohort and dice.random() < 0.3:
            quota["borrowingLimit"] = str(dice.randint(0, 6))
        if cohort and dice.random() < 0.3:
            quota["lendingLimit"] = str(dice.randint(0, 4))
        return {"name": flavor, "resources": [quota]}

    def _preemption(self, cohort: str) -> Document:
        dice = self._dice
        within = dice.choice(["Never", "LowerPriority", "LowerOrNewerEqualPriority"])
        found: Document = {
            "withinClusterQueue": within,
            "reclaimWithinCohort": dice.choice(["Never", "LowerPriority", "Any"]) if cohort else "Never",
        }
        if within == "LowerOrNewerEqualPriority" and dice.random() < 0.5:
            found["withinClusterQueueConfig"] = {"minAdmitDuration": f"{dice.randint(1, 4)}m"}
        if found["reclaimWithinCohort"] != "Never" and dice.random() < 0.3:
            found["borrowWithinCohort"] = {"policy": "LowerPriority", "maxPriorityThreshold": 100}
        return found

    def _work(self, number: int) -> Document:
        dice = self._dice
        at = Time.of_millis(BEGIN_MS + dice.randrange(self._shape.minutes * MINUTE_MS))
        meta: Document = {
            "name": f"work-{number}",
            "namespace": "team",
            "creationTimestamp": str(at),
            "annotations": {"makeway.dev/runtime": f"{dice.randint(5, 600)}s"},
        }
        queue, priority, pods = dice.choice(self._queues), dice.choice([0, 0, 50, 100]), dice.randint(1, 4)
        if dice.random() < 0.3 or queue in self._by_the_clock:
            meta["annotations"]["makeway.dev/checkpoint-interval"] = f"{dice.randint(10, 50)}s"
        container = {"name": "main", "image": "work", "resources": {"requests": {"cpu": "1"}}}
        pod: Document = {"containers": [container], "restartPolicy": "Never"}
        if dice.random() < 0.3:
            pod["terminationGracePeriodSeconds"] = dice.choice([0, 10])
        if self._shape.jobs and dice.random() < 0.4:
            meta["labels"] = {"kueue.x-k8s.io/queue-name": queue}
            spec: Document = {"parallelism": pods, "completions": pods, "suspend": True, "template": {"spec": pod}}
            return {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": spec}
        pod_set: Document = {"name": "main", "count": pods, "template": {"spec": pod}}
        if pods > 1 and dice.random() < 0.2:
            pod_set["minCount"] = 1
        spec = {"queueName": queue, "priority": priority, "podSets": [pod_set]}
        return {"apiVersion": KUEUE, "kind": "Workload", "metadata": meta, "spec": spec}


def _named(kind: str, name: str, spec: Document, *, namespace: str = "") -> Document:
    meta = {"name": name, "namespace": namespace} if namespace else {"name": name}
    return {"apiVersion": KUEUE, "kind": kind, "metadata": meta, "spec": spec}


# --- people -----------------------------------------------------------------------------------------------------------

QUEUES, LOCALS, NAMESPACES = kind_of(ClusterQueue), kind_of(LocalQueue), kind_of(Namespace)
WORKLOADS, JOBS = kind_of(Workload), kind_of(Job)
STOPS = ("None", "None", "Hold", "HoldAndDrain")
ANSWER_MS = 10_000  # how long a check takes
CHANGES = (
    "stop queue", "stop local queue", "quota", "priority", "switch", "labels", "delete work", "delete local queue",
    "delete queue",
)  # fmt: skip
HARMLESS = tuple(each for each in CHANGES if each not in ("quota", "delete queue"))  # no quota gets less


class People:
    """Users and administrators: ``count`` changes in the time in which the work comes, drawn from the seed.

    They answer admission checks, too: mostly Ready, sometimes Retry. Afterwards every queue is as it was, and open,
    and all work is switched on again.
    """

    def __init__(
        self, store: MemoryStore, seed: int, *, count: int = 15, changes: Sequence[str] = CHANGES, minutes: int = 20
    ) -> None:
        self._store = store
        self._dice = random.Random(f"people {seed}")
        self._changes = changes
        end = BEGIN_MS + minutes * MINUTE_MS
        times = sorted(self._dice.randrange(BEGIN_MS, end) for _ in range(count))
        self._due = [Millis(at) for at in (*times, end)]
        self._first = {kind.name: [each.tree() for each in store.list(kind).items] for kind in (QUEUES, LOCALS)}
        self._watch = store.watch(WORKLOADS)
        self._asked: dict[tuple[str, str], Millis] = {}  # checks to answer, and when
        self.made: dict[str, int] = {}  # changes by what they were

    def step(self, now: Millis) -> bool:
        happened = self._look(now) | self._answer(now)
        while self._due and self._due[0] <= now:
            happened = True
            if len(self._due) > 1:
                self._change(self._dice.choice(self._changes))
            elif not self._set_right():
                self._due.append(Millis(now + MINUTE_MS))
            self._due.pop(0)
        return happened

    def next_at(self) -> Millis | None:
        times = [*self._due[:1], *self._asked.values()]
        return min(times) if times else None

    # --- checks ---

    def _look(self, now: Millis) -> bool:
        events = self._watch.poll()
        for event in events:
            each = event.object
            if each is None:
                continue
            status = each.value().status
            waits = status is not None and is_true(status.conditions, "QuotaReserved")
            if event.type == "DELETED" or not (waits and any(c.state == "Pending" for c in status.admission_checks)):
                self._asked.pop((each.namespace, each.name), None)
            else:
                self._asked.setdefault((each.namespace, each.name), Millis(now + ANSWER_MS))
        return bool(events)

    def _answer(self, now: Millis) -> bool:
        due = sorted(place for place, at in self._asked.items() if at <= now)
        for place in due:
            del self._asked[place]
            answer = "Retry" if self._due and self._dice.random() < 0.2 else "Ready"
            tree = self._store.get(WORKLOADS, *place).tree()
            for check in tree["status"]["admissionChecks"]:
                check.update(state=answer, message="", lastTransitionTime=str(Time.of_millis(now)))
            self._store.patch(WORKLOADS, *place, {"status": tree["status"]}, status=True)
        return bool(due)

    # --- changes ---

    def _change(self, what: str) -> None:
        self.made[what] = self.made.get(what, 0) + 1
        if what in ("stop queue", "stop local queue"):
            self._patch(QUEUES if what == "stop queue" else LOCALS, {"spec": {"stopPolicy": self._dice.choice(STOPS)}})
        elif what == "quota":
            self._change_quota()
        elif what == "priority":
            self._patch(WORKLOADS, {"spec": {"priority": self._dice.choice([0, 50, 100])}})
        elif what == "switch":
            self._patch(WORKLOADS, {"spec": {"active": self._dice.random() < 0.5}})
        elif what == "labels":
            self._patch(NAMESPACES, {"metadata": {"labels": self._dice.choice([OPEN, SHUT])}})
        else:
            kind = {"delete local queue": LOCALS, "delete queue": QUEUES}.get(what)
            self._delete(kind or self._dice.choice([WORKLOADS, JOBS]))

    def _any(self, kind: Any) -> tuple[str, str] | None:
        items = [each for each in self._store.list(kind).items if not each.deleting]
        if not items:
            return None
        chosen = self._dice.choice(items)
        return chosen.namespace, chosen.name

    def _patch(self, kind: Any, change: Document) -> None:
        place = self._any(kind)
        if place is not None:
            self._store.patch(kind, *place, change)

    def _change_quota(self) -> None:
        place = self._any(QUEUES)
        if place is None:
            return
        groups = self._store.get(QUEUES, *place).tree()["spec"]["resourceGroups"]
        for flavor in groups[0]["flavors"]:
            flavor["resources"][0]["nominalQuota"] = str(self._dice.randint(4, 8))
        self._store.patch(QUEUES, *place, {"spec": {"resourceGroups": groups}})

    def _delete(self, kind: Any) -> None:
        place = self._any(kind)
        if place is not None:
            self._store.delete(kind, *place)

    # --- the end ---

    def _set_right(self) -> bool:
        """Undo the changes; return whether all is right now. An object that is being deleted is made anew later."""
        for workload in self._store.list(WORKLOADS).items:
            if not workload.value().spec.active:
                self._store.patch(WORKLOADS, workload.namespace, workload.name, {"spec": {"active": True}})
        for namespace in self._store.list(NAMESPACES).items:
            self._store.patch(NAMESPACES, "", namespace.name, {"metadata": {"labels": OPEN}})
        late = [tree for kind in (QUEUES, LOCALS) for tree in self._first[kind.name] if not self._made_anew(kind, tree)]
        return not late

    def _made_anew(self, kind: Any, tree: Document) -> bool:
        meta = tree["metadata"]
        place = (meta.get("namespace", ""), meta["name"])
        try:
            if self._store.get(kind, *place).deleting:
                return False
            self._store.patch(kind, *place, {"spec": {**tree["spec"], "stopPolicy": "None"}})
        except NotFound:
            named = {"name": place[1], "namespace": place[0]} if place[0] else {"name": place[1]}
            try:
                self._store.create({"apiVersion": KUEUE, "kind": kind.name, "metadata": named, "spec": tree["spec"]})
            except AlreadyExists:
                return False
        return True


if __name__ == "__main__":
    for each in documents(int(sys.argv[1])):
        print("---")
        print(json.dumps(each))
