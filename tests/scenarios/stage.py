"""A small installation that a test plays a scenario on: the real engine over a Store in memory, in virtual time.

``Stage`` takes objects as users write them (``queue``, ``work``, ``job`` make the usual ones; ``manifests`` reads
YAML), goes on to a time of its day, and lets a test act as users and other controllers: create, patch, delete. Its
answers are read from the stored objects, from the journal, and from what the world saw.

Four promises hold at every pause of every scenario: no admission ever exceeded quota; the engine's state and metrics
agree with the objects; every eviction for another workload follows a decision that named it (P33); and an engine that
began anew from the stored objects would find nothing to do.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any, NamedTuple

from makeway.adapters.simulator.faults import Faults
from makeway.adapters.simulator.simulation import Linger, Simulation, SimulationSettings
from makeway.adapters.simulator.sources.arrivals import Source
from makeway.api import codec
from makeway.api.conditions import find
from makeway.api.objects.workload import Workload
from makeway.api.reading import manifests as files
from makeway.api.versions import Kind, find_kind
from makeway.bench.stability.settling import STEP, delay
from makeway.core.model import Millis, WorkloadKey
from makeway.core.policy import Policy
from makeway.runtime.journal import JournalEntry
from makeway.runtime.metrics.exposition import Counter
from makeway.runtime.ports import NotFound
from makeway.runtime.recount.recount import recount

Tree = dict[str, Any]

MIDNIGHT = 1_767_225_600_000  # 2026-01-01T00:00:00Z
TEAM = "default"
KUEUE = "kueue.x-k8s.io/v1beta2"
LEAVING = "nobody is admitted and evicted at rest"  # while a victim leaves it is not at rest
KINDS = {"Job": "batch/v1", "Namespace": "v1"}  # all others are Kueue's


# --- times -----------------------------------------------------------------------------------------------------------


def clock(text: str) -> Millis:
    """``"10:05"`` or ``"10:05:01"`` of the day; hours may go beyond it."""
    hours, minutes, seconds = (*map(int, text.split(":")), 0)[:3]
    return Millis(MIDNIGHT + ((hours * 60 + minutes) * 60 + seconds) * 1000)


def shown(at: int) -> str:
    """The time of day, ``"10:05:01"``."""
    seconds = (at - MIDNIGHT) // 1000
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"


# --- how long it takes to leave --------------------------------------------------------------------------------------


def evictions_of(workload: Workload) -> int:
    stats = workload.status.scheduling_stats if workload.status else None
    return sum(each.count for each in stats.evictions) if stats else 0


def at_once(workload: Workload) -> int:
    return 0


def after_20_s(workload: Workload) -> int:
    return 20_000


def unsynchronised(workload: Workload) -> int:
    """One to four times ten seconds, another each time."""
    return delay(workload.metadata.uid, evictions_of(workload)) * STEP


def never(workload: Workload) -> int:
    return 10 * 24 * 3_600_000


# --- objects ---------------------------------------------------------------------------------------------------------


def manifests(text: str) -> list[Tree]:
    """YAML documents, which must have no problems."""
    found = files.load("scenario", text.encode())
    assert not files.findings(found), files.findings(found)
    return [codec.to_tree(each.value) for each in found if each.value is not None]


def named(kind: str, name: str, spec: Tree | None = None, **meta: Any) -> Tree:
    tree: Tree = {"apiVersion": KINDS.get(kind, KUEUE), "kind": kind, "metadata": {"name": name, **meta}}
    return tree if spec is None else {**tree, "spec": spec}


def flavor(name: str = "default", **spec: Any) -> Tree:
    return named("ResourceFlavor", name, spec)


def quotas(nominal: int | Mapping[str, int], borrowing: int | None = None, lending: int | None = None) -> list[Tree]:
    """cpu of the one flavor, or of several by name, as a resource group."""
    limits: Tree = {} if borrowing is None else {"borrowingLimit": str(borrowing)}
    limits |= {} if lending is None else {"lendingLimit": str(lending)}
    by_flavor = nominal if isinstance(nominal, Mapping) else {"default": nominal}
    flavors = [
        {"name": name, "resources": [{"name": "cpu", "nominalQuota": str(amount), **limits}]}
        for name, amount in by_flavor.items()
    ]
    return [{"coveredResources": ["cpu"], "flavors": flavors}]


def queue(
    name: str = "q", nominal: int | Mapping[str, int] = 4, *, cohort: str = "", strict: bool = False,
    within: str = "Never", reclaim: str = "Never", borrow: str = "", min_admit: str = "",
    borrowing: int | None = None, lending: int | None = None, **spec: Any,
) -> list[Tree]:  # fmt: skip
    """A ClusterQueue with cpu of one flavor (or of several, by name), and the LocalQueue of its name."""
    preemption: Tree = {"withinClusterQueue": within, "reclaimWithinCohort": reclaim}
    if borrow:
        preemption["borrowWithinCohort"] = {"policy": borrow}
    if min_admit:
        preemption["withinClusterQueueConfig"] = {"minAdmitDuration": min_admit}
    more: Tree = {"cohortName": cohort} if cohort else {}
    body: Tree = {
        "namespaceSelector": {}, "queueingStrategy": "StrictFIFO" if strict else "BestEffortFIFO",
        "resourceGroups": quotas(nominal, borrowing, lending), "preemption": preemption, **more, **spec,
    }  # fmt: skip
    return [named("ClusterQueue", name, body), named("LocalQueue", name, {"clusterQueue": name}, namespace=TEAM)]


def pods(cpu: int, **spec: Any) -> Tree:
    container = {"name": "main", "image": "work", "resources": {"requests": {"cpu": str(cpu)}}}
    return {"containers": [container], "restartPolicy": "Never", **spec}


def work(
    name: str, cpu: int = 4, *, queue: str = "q", priority: int = 0, runtime: str = "", pod: Tree | None = None,
    **spec: Any,
) -> Tree:  # fmt: skip
    """A Workload without an owner: one pod, which runs for ever unless ``runtime`` says how long."""
    meta: Tree = {"namespace": TEAM}
    if runtime:
        meta["annotations"] = {"makeway.dev/runtime": runtime}
    pod_set = {"name": "main", "count": 1, "template": {"spec": pods(cpu, **(pod or {}))}}
    return named("Workload", name, {"queueName": queue, "priority": priority, "podSets": [pod_set], **spec}, **meta)


def job(name: str, cpu: int = 4, *, queue: str = "q") -> Tree:
    labels = {"kueue.x-k8s.io/queue-name": queue}
    spec = {"parallelism": 1, "completions": 1, "suspend": True, "template": {"spec": pods(cpu)}}
    return named("Job", name, spec, namespace=TEAM, labels=labels)


# --- what goes wrong -------------------------------------------------------------------------------------------------


class Planned(Faults):
    """Faults that happen when a test says so: the ``skips``-th time from now that the run comes to their point."""

    def __init__(self) -> None:
        super().__init__(0, {})
        self._plan: dict[str, int] = {}
        self._span = Millis(0)

    def plan(self, point: str, *, skips: int = 0, span_ms: int = 0) -> None:
        self._plan[point] = skips
        self._span = Millis(span_ms)

    def fires(self, point: str) -> bool:
        if point not in self._plan:
            return False
        self._plan[point] -= 1
        if self._plan[point] >= 0:
            return False
        del self._plan[point]
        self.fired[point] += 1
        return True

    def span(self, most: int) -> Millis:
        return self._span


# --- the stage -------------------------------------------------------------------------------------------------------


class Eviction(NamedTuple):
    at: str
    workload: str
    reason: str
    by: str


class Stage:
    """Begins at ``begins`` of the day. Flavors that queues name and no object defines are created, bare."""

    def __init__(
        self, *objects: Tree | list[Tree], leaving: Linger = at_once, policy: Policy | None = None,
        faults: Planned | None = None, begins: str = "10:00", job_leaves_ms: int = 0,
    ) -> None:  # fmt: skip
        given = list(_flat(objects))
        settings = SimulationSettings(
            policy=policy or Policy.default(), linger=leaving, eviction_ms=job_leaves_ms, faults=faults, careful=True,
            metrics=True,
        )  # fmt: skip
        self.evictions: list[Eviction] = []
        self._reported: dict[str, set[str]] = {}  # by preemptor, the victims that were decided
        self.simulation = Simulation(settings, Source((), (), clock(begins), 0), witness=True)
        self.simulation.journal.listeners.append(self._heard)
        self.create(*_bare_flavors(given), *given)
        self.run(begins)

    def _heard(self, entry: JournalEntry) -> None:
        if entry.victims:
            self._reported.setdefault(_name(entry.workload), set()).update(map(_name, entry.victims))
        if entry.what == "evicted":
            at = shown(self.simulation.clock.now)
            self.evictions.append(Eviction(at, _name(entry.workload), entry.reason, _name(entry.by)))

    # --- time ---

    @property
    def now(self) -> str:
        return shown(self.simulation.clock.now)

    def run(self, until: str) -> None:
        """Go on until everything of that time of day is done."""
        simulation = self.simulation
        simulation.run(clock(until))
        witness = simulation.witness
        assert witness is not None
        witness.look()
        assert not witness.broken, [str(each) for each in witness.broken]
        self._check_books()

    def _check_books(self) -> None:
        """Compare state and objects, unless a write is under way: then the state is ahead of the objects."""
        engine, metrics = self.simulation.engine.engine, self.simulation.metrics
        assert metrics is not None
        if engine.is_quiet:
            metrics.refresh(engine.view)
            assert [str(each) for each in recount(self.simulation.store_objects(), engine.state, metrics)] == []
            self._check_rest()
        for each in self.evictions:
            assert not each.by or each.workload in self._reported.get(each.by, ()), f"{each} was never reported (P33)"

    def _check_rest(self) -> None:
        """Compare with a new engine at our time, because a clock that was stepped may show another."""
        faults = self.simulation.settings.faults
        if faults is not None and faults.fired["clock.back"] + faults.fired["clock.forward"]:
            return
        undone = [each for each in self.simulation.broken() if each.promise != LEAVING]
        assert [str(each) for each in undone] == []

    def rest(self, seconds: int) -> None:
        """Go on for so many seconds."""
        self.run(shown(self.simulation.clock.now + seconds * 1000))

    def restart(self) -> None:
        """End the engine, and begin a new one from what is stored."""
        self.simulation.engine.restart()

    # --- what users do ---

    def create(self, *objects: Tree | list[Tree]) -> None:
        for each in _flat(objects):
            self.simulation.store.create(each)

    def arrive(self, *objects: Tree) -> None:
        """Create one each second, in this order."""
        for each in objects:
            self.create(each)
            self.rest(1)

    def patch(self, kind: str, name: str, change: Tree, *, status: bool = False) -> None:
        found = _kind(kind)
        self.simulation.store.patch(found, TEAM if found.namespaced else "", name, change, status=status)

    def delete(self, kind: str, name: str) -> None:
        found = _kind(kind)
        self.simulation.store.delete(found, TEAM if found.namespaced else "", name)

    def finish(self, name: str) -> None:
        """Report its work as done, as a job controller would."""
        self.condition_set(name, "Finished", "True", "Succeeded")

    def condition_set(self, name: str, type: str, status: str, reason: str, at: str = "") -> None:
        """Write one condition of a Workload, as another controller would."""
        stored = self.simulation.store.get(_kind("Workload"), TEAM, name).tree()
        others = [each for each in stored.get("status", {}).get("conditions", []) if each["type"] != type]
        time = f"2026-01-01T{at or self.now}Z"
        told = {"type": type, "status": status, "reason": reason, "message": "told by a test"}
        self.patch(
            "Workload", name, {"status": {"conditions": [*others, {**told, "lastTransitionTime": time}]}}, status=True
        )

    # --- questions ---

    def get(self, kind: str, name: str) -> Any:
        found = _kind(kind)
        return self.simulation.store.get(found, TEAM if found.namespaced else "", name).value()

    def tree(self, kind: str, name: str) -> Tree:
        """An object as it is served."""
        found = _kind(kind)
        return self.simulation.store.get(found, TEAM if found.namespaced else "", name).tree()

    def exists(self, kind: str, name: str) -> bool:
        try:
            self.get(kind, name)
        except NotFound:
            return False
        return True

    def condition(self, name: str, type: str) -> tuple[str, str]:
        """Status and reason; both "" where there is none."""
        status = self.get("Workload", name).status
        found = find(status.conditions, type) if status else None
        return ("", "") if found is None else (found.status, found.reason)

    def since(self, name: str, type: str) -> str:
        found = find(self.get("Workload", name).status.conditions, type)
        assert found is not None
        assert found.last_transition_time is not None
        return shown(found.last_transition_time.millis)

    @property
    def holders(self) -> set[str]:
        """The workloads that hold quota."""
        return {name for name in self._workloads() if self._says(name, "QuotaReserved")}

    @property
    def running(self) -> set[str]:
        """The workloads that are admitted and were not asked to leave."""
        return {n for n in self._workloads() if self._says(n, "Admitted") and not self._says(n, "Evicted")}

    def _says(self, name: str, type: str) -> bool:
        return self.condition(name, type)[0] == "True" and self.condition(name, "Finished")[0] != "True"

    def _workloads(self) -> list[str]:
        return [each.name for each in self.simulation.store.list(_kind("Workload")).items]

    def victims(self, by: str = "") -> list[str]:
        """The workloads that were asked to leave, in that order; those of one preemptor, if it is named."""
        return [each.workload for each in self.evictions if not by or each.by == by]

    def evicted(self, name: str) -> int:
        """How often it was evicted, by its own status: the journal of an engine that ended may lack its last line."""
        return evictions_of(self.get("Workload", name))

    def story(self, name: str) -> list[str]:
        """The decisions about a workload, one word each."""
        return [each.what for each in self.entries(name)]

    def entries(self, name: str) -> list[JournalEntry]:
        return self.simulation.journal.of(WorkloadKey(f"{TEAM}/{name}"))

    def notes(self, name: str, reason: str) -> int:
        """How many events of a kind were written about a workload, since the last restart."""
        told = self.simulation.engine.engine.notes
        return sum(each.about.name == name and each.reason == reason for each in told)

    def counted(self, metric: str, *labels: str) -> int:
        """A counter of the engine, since the last restart."""
        assert self.simulation.metrics is not None
        family = self.simulation.metrics.registry.families[metric]
        assert isinstance(family, Counter)
        return int(family.values.get(labels, 0))

    @property
    def cycles(self) -> int:
        return self.simulation.engine.cycles

    def used(self, queue: str, flavor: str = "default", resource: str = "cpu") -> str:
        """The reserved amount of a flavor in the status of a ClusterQueue; "" where there is none."""
        for each in self.get("ClusterQueue", queue).status.flavors_reservation:
            for amount in each.resources if each.name == flavor else ():
                if amount.name == resource:
                    return str(amount.total)
        return ""

    def ran_s(self, name: str) -> int:
        """How long it has run in all, in seconds."""
        lives = self.simulation.world.lives.recorded(self.simulation.clock.now)
        return sum(each.ran_ms for each in lives if each.workload == f"{TEAM}/{name}") // 1000


def _flat(objects: Iterable[Tree | list[Tree]]) -> Iterator[Tree]:
    return chain.from_iterable(each if isinstance(each, list) else [each] for each in objects)


def _bare_flavors(given: list[Tree]) -> list[Tree]:
    named_by_queues = {
        flavor["name"]
        for each in given
        if each["kind"] == "ClusterQueue"
        for group in each["spec"]["resourceGroups"]
        for flavor in group["flavors"]
    }
    there = {each["metadata"]["name"] for each in given if each["kind"] == "ResourceFlavor"}
    return [flavor(name) for name in sorted(named_by_queues - there)]


def _kind(name: str) -> Kind:
    found = find_kind(KINDS.get(name, KUEUE), name)
    assert found is not None, name
    return found


def _name(key: str) -> str:
    return key.partition("/")[2]
