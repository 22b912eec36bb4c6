"""Whatever is deleted, in whatever way, state and with whatever finalizer: it goes, and its quota comes back.

A row of the table is a state of a Job, a propagation policy and a foreign finalizer, which its owner removes a minute
later; the engine restarts in the middle, or does not. What must hold of every row is in ``check_…``; a second Job that
asks for the whole quota shows whether it is free. Other kinds have a table of their own.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import product
from typing import Any

import pytest

from makeway.adapters.server.resources.upkeep import emptied
from makeway.api.names import RESOURCE_IN_USE
from makeway.api.objects.kubernetes import Namespace, PriorityClass
from makeway.api.objects.meta import FOREGROUND
from makeway.api.objects.queueing import (
    AdmissionCheck,
    Cohort,
    LocalQueue,
    ResourceFlavor,
    WorkloadPriorityClass,
)
from makeway.api.objects.scheduling import GangWorkload
from makeway.api.versions import Kind, kind_of
from makeway.runtime.ports import NotFound, Propagation, Stored
from makeway.runtime.recount.recount import recount
from tests.controllers.pod_world import JOBS, PODS, QUEUES, WORKLOADS, PodWorld, Tree, job, queues
from tests.soaking import InTime

API = "kueue.x-k8s.io/v1beta2"
KEEP = "test.example/keep"
POLICIES: tuple[Propagation | None, ...] = ("Background", "Foreground", "Orphan", None)
FLAVORS, LOCALS, COHORTS, CHECKS = (kind_of(each) for each in (ResourceFlavor, LocalQueue, Cohort, AdmissionCheck))
CLASSES, RANKS = (kind_of(each) for each in (PriorityClass, WorkloadPriorityClass))
NAMESPACES, GANGS = (kind_of(each) for each in (Namespace, GangWorkload))
ALL = (JOBS, PODS, WORKLOADS, QUEUES, FLAVORS, LOCALS, COHORTS, CHECKS, CLASSES, RANKS, NAMESPACES, GANGS)


# --- the world -------------------------------------------------------------------------------------------------------


class World(PodWorld):
    """One queue of 4 cores, and a Job ``j`` that takes them all."""

    def __init__(self, **spec: Any) -> None:
        super().__init__()
        self.create(*queues(4, **spec))

    def submit(self, name: str = "j", **more: Any) -> None:
        self.create(job(name, **{"queue": "main", "cpu": "2", "parallelism": 2, "completions": 2, **more}))

    def restart(self) -> None:
        self.engine = self.new_engine()

    def find(self, kind: Kind, name: str) -> Stored | None:
        with suppress(NotFound):
            return self.store.get(kind, "default" if kind.namespaced else "", name)
        return None

    def everything(self) -> Iterator[Stored]:
        for kind in ALL:
            yield from self.store.list(kind).items

    def of(self, name: str) -> list[Stored]:
        """Workloads that were made for a Job, even if it is not their owner any more."""
        return [each for each in self.store.list(WORKLOADS).items if each.name.startswith(f"job-{name}-")]

    def is_true(self, name: str, type_: str) -> bool:
        conditions = [c for each in self.of(name) for c in each.tree().get("status", {}).get("conditions", ())]
        return any((c["type"], c["status"]) == (type_, "True") for c in conditions)

    def keep(self, each: Stored) -> None:
        held = [*each.tree()["metadata"].get("finalizers", ()), KEEP]
        self.store.patch(each.kind, each.namespace, each.name, {"metadata": {"finalizers": held}})

    def let_go(self) -> None:
        """All foreign finalizers are removed."""
        for each in list(self.everything()):
            if KEEP in each.finalizers:
                left = [name for name in each.finalizers if name != KEEP]
                self.store.patch(each.kind, each.namespace, each.name, {"metadata": {"finalizers": left}})

    def used(self, queue: str = "cq") -> int:
        return sum(self.engine.state.tree.queues[queue].usage.values())

    def recounted(self) -> list[str]:
        """What the state holds and the objects do not."""
        self.settle()
        objects = [each.value() for each in self.everything() if each.kind is not GANGS]
        return [str(each) for each in recount(objects, self.engine.state)]

    def stuck(self) -> list[str]:
        """Objects that are being deleted without a visible reason to stay."""
        return [f"{each.kind.name} {each.name} {each.finalizers}" for each in self.everything() if self._is_stuck(each)]

    def _is_stuck(self, each: Stored) -> bool:
        if not each.deleting or KEEP in each.finalizers:
            return False
        if each.kind is NAMESPACES and any(self.store.within(each.name)):
            return False
        if FOREGROUND in each.finalizers and any(each.uid in other.owners for other in self.everything()):
            return False
        runs = any(pod["status"]["phase"] in ("Running", "Pending") for pod in self.pods())
        return not (each.kind in (WORKLOADS, QUEUES, FLAVORS) and RESOURCE_IN_USE in each.finalizers and runs)


# --- states of a Job -------------------------------------------------------------------------------------------------


def waiting() -> World:
    play = World(stopPolicy="Hold")
    play.submit()
    play.run(5)
    assert not play.is_true("j", "QuotaReserved")
    return play


def reserved() -> World:
    play = World(admissionChecksStrategy={"admissionChecks": [{"name": "later"}]})
    active = {"type": "Active", "status": "True", "reason": "r", "message": ""}
    times = {"lastTransitionTime": "2026-01-01T00:00:00Z"}
    spec = {"controllerName": "test.example/check"}
    check = {"apiVersion": API, "kind": "AdmissionCheck", "metadata": {"name": "later"}, "spec": spec}
    play.create({**check, "status": {"conditions": [{**active, **times}]}})
    play.submit()
    play.run(5)
    assert play.is_true("j", "QuotaReserved")
    assert not play.is_true("j", "Admitted")
    return play


def starting() -> World:
    """It was unsuspended, and has no pods yet."""
    play = World()
    play.submit()
    for _ in range(1000):
        play.engine.step(play.clock.now)
        found = play.find(JOBS, "j")
        if found is not None and not found.tree()["spec"].get("suspend"):
            break
    assert play.pods("j") == []
    assert play.is_true("j", "Admitted")
    return play


def running(**more: Any) -> World:
    play = World()
    play.submit(**more)
    play.run(5)
    assert play.phases("j") == ["Running", "Running"]
    return play


def unqueued() -> World:
    return running(queue="")


def gang() -> World:
    return running(annotations={"makeway.dev/gang": "true"})


def evicted(kept: str = "") -> World:
    """Its pods are in the midst of their grace period, for a Job that takes its place."""
    play = World(preemption={"withinClusterQueue": "LowerPriority"})
    play.create({"apiVersion": API, "kind": "WorkloadPriorityClass", "metadata": {"name": "high"}, "value": 9})
    play.submit()
    play.run(5)
    keep(play, kept)  # for a pod that leaves this comes too late
    play.submit("next", labels={"kueue.x-k8s.io/priority-class": "high"})
    play.run(1)
    assert play.is_true("j", "Evicted")
    assert len(play.pods("j")) == 2
    return play


def backing_off() -> World:
    play = World()
    play.submit(runs=1, exit=3)
    play.run(4)
    assert play.phases("j") == ["Failed", "Failed"]
    assert play.is_true("j", "Admitted")
    return play


def finished() -> World:
    play = World()
    play.submit(runs=1)
    play.run(5)
    assert play.is_true("j", "Finished")
    return play


State = Callable[[], World]
STATES: tuple[State, ...] = (
    waiting, reserved, starting, running, unqueued, gang, evicted, backing_off, finished
)  # fmt: skip
KEPT = ("", "Job", "Workload", "Pod")


# --- the table -------------------------------------------------------------------------------------------------------


def keep(play: World, kind: str) -> None:
    found: dict[str, list[Stored | None]] = {
        "Job": [play.find(JOBS, "j")], "Workload": [*play.of("j")], "Pod": [*play.store.list(PODS).items],
    }  # fmt: skip
    for each in found.get(kind, ()):
        assert each is not None
        play.keep(each)


def play_row(state: State, policy: Propagation | None, kept: str, restart: int | None) -> None:
    """``restart``: after so many steps of the engine, and once more while all that was kept is let go."""
    if state is evicted:
        play = evicted(kept)
    else:
        play = state()
        keep(play, kept)
    has_work = bool(play.of("j")) and not play.is_true("j", "Finished")
    running = {each["metadata"]["uid"] for each in play.pods("j") if each["status"]["phase"] == "Running"}
    play.store.delete(JOBS, "default", "j", propagation=policy)
    if restart is not None:
        for _ in range(restart):
            play.engine.step(play.clock.now)
        play.restart()  # and what it had begun is left as it is
    play.run(60)
    check_kept(play, policy)
    play.let_go()
    if play.find(JOBS, "next") is None:
        play.submit("next")
    play.store.patch(QUEUES, "", "cq", {"spec": {"stopPolicy": "None"}})
    if restart is not None:
        play.restart()
    play.run(60)
    check_gone(play, policy, running)
    if policy == "Orphan" and has_work:
        check_left_behind(play, made_way=state is evicted)
    assert play.is_true("next", "QuotaReserved")
    assert play.recounted() == []


def check_kept(play: World, policy: Propagation | None) -> None:
    """While a finalizer keeps something of it: the recount is right, and nothing else waits."""
    assert play.recounted() == []
    assert play.stuck() == []
    runs = any(each["status"]["phase"] in ("Running", "Pending") for each in play.pods("j"))
    if policy != "Orphan" and not runs:
        assert not play.is_true("j", "QuotaReserved") or play.is_true("j", "Finished")
        assert play.used() == (4000 if play.is_true("next", "QuotaReserved") else 0)


def check_gone(play: World, policy: Propagation | None, running: set[str]) -> None:
    assert play.recounted() == []
    assert play.find(JOBS, "j") is None
    assert [each.name for each in play.everything() if each.deleting] == []
    left = play.pods("j")
    if policy == "Orphan":
        assert {each["metadata"]["uid"] for each in left if each["status"]["phase"] == "Running"} <= running
        assert not any(each["metadata"].get("ownerReferences") for each in left)
        assert not any(each["metadata"].get("finalizers") for each in left), "nobody counts them any more"
        return
    assert left == []
    assert play.of("j") == []
    assert not [each for each in play.store.list(GANGS).items if each.name.startswith("job-j-")]


def check_left_behind(play: World, *, made_way: bool) -> None:
    """Its Workload is left like all that it owned: like one that was made by hand it counts until it is deleted."""
    (workload,) = play.of("j")
    assert workload.owners == ()
    assert play.is_true("j", "QuotaReserved") != made_way
    assert play.is_true("next", "QuotaReserved") == made_way
    play.store.delete(WORKLOADS, "default", workload.name)
    play.run(10)
    assert play.of("j") == []


ROWS = list(product(STATES, POLICIES, KEPT))
QUICK = [
    (state, policy, KEPT[(a + b) % 4], (None, 0, 1, 3)[(a // 2 + b) % 4])
    for (a, state), (b, policy) in product(enumerate(STATES), enumerate(POLICIES))
]


def shown(row: tuple[State, Propagation | None, str, int | None]) -> str:
    state, policy, kept, restart = row
    return f"{state.__name__}-{policy}-{kept or 'nobody'}-{restart}"


@pytest.mark.parametrize("row", QUICK, ids=shown)
def test_a_job_goes_and_its_quota_comes_back(row: tuple[State, Propagation | None, str, int | None]) -> None:
    play_row(*row)


@pytest.mark.slow
@pytest.mark.property
def test_so_it_does_in_every_row(fuzz_inputs: int, fuzz_seed: int, in_time: InTime) -> None:
    """All rows in a soak, some of them otherwise, with a restart at any step."""
    rows = ROWS[:]
    random.Random(fuzz_seed).shuffle(rows)
    for number in in_time(range(max(60, fuzz_inputs // 50))):
        rng = random.Random(f"{fuzz_seed} {number}")
        row = (*rows[number % len(rows)], rng.choice((None, *range(8))))
        try:
            play_row(*row)
        except AssertionError as error:
            raise AssertionError(f"row {shown(row)}: {error}") from error


# --- a Job that somebody keeps ---------------------------------------------------------------------------------------


def kept_while_deleted(state: State) -> World:
    play = state()
    keep(play, "Job")
    play.store.delete(JOBS, "default", "j")
    play.run(1)
    return play


def test_a_job_that_is_kept_runs_on_and_gives_its_quota_back_when_its_pods_have_ended() -> None:
    play = World()
    play.submit(runs=30)
    play.run(5)
    keep(play, "Job")
    play.store.delete(JOBS, "default", "j")
    play.submit("next")
    play.run(10)
    assert play.phases("j") == ["Running", "Running"]
    assert not play.is_true("next", "QuotaReserved")
    play.run(30)
    assert play.status("j").get("active") is None
    assert play.of("j") == []
    assert play.is_true("next", "Admitted")
    assert play.find(JOBS, "j") is not None


def test_a_job_that_is_kept_makes_way_for_others() -> None:
    play = World(preemption={"withinClusterQueue": "LowerPriority"})
    play.create({"apiVersion": API, "kind": "WorkloadPriorityClass", "metadata": {"name": "high"}, "value": 9})
    play.submit()
    play.run(5)
    keep(play, "Job")
    play.store.delete(JOBS, "default", "j")
    play.run(1)
    play.submit("next", labels={"kueue.x-k8s.io/priority-class": "high"})
    play.run(20)
    assert play.pods("j") == []
    assert play.phases("next") == ["Running", "Running"]


@pytest.mark.parametrize("state", [waiting, reserved, starting, backing_off])
def test_a_job_that_is_kept_and_runs_nothing_waits_for_nothing(state: State) -> None:
    play = kept_while_deleted(state)
    play.store.patch(QUEUES, "", "cq", {"spec": {"stopPolicy": "None"}})
    play.run(60)
    assert play.used() == 0
    assert play.of("j") == []
    assert not any(each["status"]["phase"] == "Running" for each in play.pods("j"))


def test_a_workload_that_is_kept_is_not_admitted_again() -> None:
    play = World()
    play.create(workload("w"))
    play.run(2)
    play.keep(play.store.get(WORKLOADS, "default", "w"))
    play.store.delete(WORKLOADS, "default", "w")
    play.run(60)
    assert play.used() == 0
    assert play.recounted() == []


# --- other kinds -----------------------------------------------------------------------------------------------------


def workload(name: str) -> Tree:
    template = job("x", cpu="2")["spec"]["template"]
    spec = {"queueName": "main", "podSets": [{"name": "main", "count": 2, "template": template}]}
    return {"apiVersion": API, "kind": "Workload", "metadata": {"name": name, "namespace": "default"}, "spec": spec}


def settled_world() -> World:
    """A running Job ``j``, and one of each kind that it depends on."""
    play = World(cohortName="all")
    for kind, name, more in (
        ("Cohort", "all", {"spec": {}}),
        ("WorkloadPriorityClass", "rank", {"value": 3}),
    ):
        play.create({"apiVersion": API, "kind": kind, "metadata": {"name": name}, **more})
    play.create(
        {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "class"}, "value": 3},
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}},
    )
    play.submit(labels={"kueue.x-k8s.io/priority-class": "rank"})
    play.run(5)
    assert play.phases("j") == ["Running", "Running"]
    return play


IN_USE = (QUEUES, FLAVORS)  # these stay as long as something runs on them
OTHERS = [
    (LOCALS, "main"), (QUEUES, "cq"), (COHORTS, "all"), (FLAVORS, "f"), (RANKS, "rank"), (CLASSES, "class"),
]  # fmt: skip


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize(("kind", "name"), OTHERS, ids=[kind.name for kind, _ in OTHERS])
def test_what_a_job_runs_by_goes_when_nobody_uses_it(kind: Kind, name: str, policy: Propagation | None) -> None:
    play = settled_world()
    play.keep(play.store.get(kind, "default" if kind.namespaced else "", name))
    play.store.delete(kind, "default" if kind.namespaced else "", name, propagation=policy)
    play.run(1)
    play.restart()
    play.run(60)
    assert play.recounted() == []
    assert (play.phases("j"), play.used()) == (["Running", "Running"], 4000), "what runs goes on"
    play.let_go()
    play.run(10)
    assert (play.find(kind, name) is not None) == (kind in IN_USE)
    assert play.stuck() == []
    play.restart()
    play.store.delete(JOBS, "default", "j", propagation="Foreground")
    play.run(20)
    if kind is FLAVORS:
        play.store.delete(QUEUES, "", "cq", propagation=policy)
        play.run(20)
    assert play.find(kind, name) is None
    assert [each.name for each in play.everything() if each.deleting] == []
    assert (play.of("j"), play.pods("j")) == ([], [])
    assert play.recounted() == []


@pytest.mark.parametrize("kept", [False, True])
@pytest.mark.parametrize("policy", POLICIES)
def test_a_workload_of_a_job_is_made_again(policy: Propagation | None, kept: bool) -> None:
    play = running()
    (before,) = play.of("j")
    if kept:
        play.keep(before)
    play.store.delete(WORKLOADS, "default", before.name, propagation=policy)
    play.run(2)
    play.restart()
    play.run(30)
    assert play.recounted() == []
    assert play.stuck() == []
    if kept:
        assert (play.pods("j"), play.used()) == ([], 0)
        play.let_go()
        play.run(30)
    (after,) = play.of("j")
    assert after.uid != before.uid
    assert (play.phases("j"), play.used()) == (["Running", "Running"], 4000)
    assert play.recounted() == []


@pytest.mark.parametrize("kept", [False, True])
@pytest.mark.parametrize("policy", POLICIES)
def test_a_workload_of_nobody_gives_its_quota_back(policy: Propagation | None, kept: bool) -> None:
    play = World()
    play.create(workload("w"))
    play.run(2)
    assert play.used() == 4000
    if kept:
        play.keep(play.store.get(WORKLOADS, "default", "w"))
    play.store.delete(WORKLOADS, "default", "w", propagation=policy)
    play.restart()
    play.run(10)
    assert (play.used(), play.stuck(), play.recounted()) == (0, [], [])
    assert (play.find(WORKLOADS, "w") is not None) == kept
    play.let_go()
    play.run(10)
    assert play.find(WORKLOADS, "w") is None


@pytest.mark.parametrize("kept", ["", "Job", "Workload", "Pod"])
@pytest.mark.parametrize("policy", POLICIES)
def test_a_namespace_takes_all_that_is_in_it_along(policy: Propagation | None, kept: str) -> None:
    play = settled_world()
    play.create(workload("w"))
    play.run(2)
    keep(play, kept)
    play.store.delete(NAMESPACES, "", "default", propagation=policy)
    for restarts in (True, False):
        for _ in range(10):
            while emptied(play.store, "default"):
                pass
            play.run(6)
        if restarts:
            assert play.stuck() == []
            play.let_go()
            play.restart()
    assert list(play.store.within("default")) == []
    assert play.find(NAMESPACES, "default") is None
    assert (play.used(), play.recounted()) == (0, [])
