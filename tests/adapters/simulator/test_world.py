"""The world around the engine: run times, costs of evictions, and the status of Jobs."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from makeway.adapters.simulator.lives import Life, Lives
from makeway.adapters.simulator.store import MemoryStore
from makeway.adapters.simulator.world import EVENTS_MAX, TRIES_MAX, World
from makeway.api import codec
from makeway.api.conditions import is_true, set_condition
from makeway.api.objects.kubernetes import Job, JobStatus, amended, view
from makeway.api.objects.workload import Workload, WorkloadStatus
from makeway.api.quantity import Time
from makeway.api.versions import kind_of
from makeway.core.model import Millis
from makeway.runtime.ports import Body, Conflict, Stored, Unavailable

BEGIN = Millis(1_772_359_200_250)  # 2026-03-01T10:00:00.250Z
WORKLOAD, JOB = kind_of(Workload), kind_of(Job)
POD = {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "work"}]}}
Tree = dict[str, Any]


class Grumpy(MemoryStore):
    """A store that refuses some writes of status."""

    refusals: list[Exception]
    writes = 0

    def update_status(self, body: Body) -> Stored:
        self.writes += 1
        if self.refusals:
            raise self.refusals.pop(0)
        return super().update_status(body)


class Play:
    """A store, a clock and the world; times are milliseconds since the beginning."""

    def __init__(self, **settings: Any) -> None:
        self.now = BEGIN
        self.store = Grumpy(lambda: self.now)
        self.store.refusals = []
        self.world = World(self.store, **settings)
        self.steps = 0

    def until(self, ms: int) -> None:
        """Advance to ``ms``; everything in between happens at its time."""
        self.settle()
        while (due := self.world.next_at()) is not None and due <= BEGIN + ms:
            self.now = max(self.now, due)
            self.settle()
        self.now = Millis(BEGIN + ms)
        self.settle()

    def settle(self) -> None:
        for _ in range(1000):
            self.steps += 1
            if not self.world.step(self.now):
                return
        raise AssertionError("the world does not come to rest")

    # --- workloads ---

    def workload(self, name: str = "w", *, runtime: str = "10s", checkpoint: str = "", owner: str = "") -> None:
        self.store.create(made("Workload", name, runtime, checkpoint, owner, podSets=[{"template": POD}]))

    def change(self, name: str = "w", **conditions: str) -> None:
        """Set conditions of a Workload: ``Admitted="True"``."""
        value = self.store.get(WORKLOAD, "default", name).value()
        status = value.status or WorkloadStatus()
        found = status.conditions
        for type_, state in conditions.items():
            found = set_condition(
                found, type=type_, status=state, reason="Because", message="", now=Time.of_millis(self.now)  # type: ignore[arg-type]
            )  # fmt: skip
        self.store.update_status(replace(value, status=replace(status, conditions=found)))

    def finished(self, name: str = "w") -> bool:
        status = self.store.get(WORKLOAD, "default", name).value().status
        return status is not None and is_true(status.conditions, "Finished")

    def life(self, name: str = "w") -> Life:
        [found] = [each for each in self.world.lives.recorded(self.now) if each.workload == f"default/{name}"]
        return found

    # --- jobs ---

    def job(self, name: str = "j", *, runtime: str = "10s", checkpoint: str = "", **spec: Any) -> None:
        self.store.create(made("Job", name, runtime, checkpoint, **{"suspend": True, **spec}, template=POD))

    def suspend(self, suspend: bool, name: str = "j") -> None:
        value = self.store.get(JOB, "default", name).value()
        self.store.update(replace(value, spec=amended(value.spec, {"suspend": suspend})))

    def status(self, name: str = "j") -> JobStatus:
        return view(self.store.get(JOB, "default", name).value().status, JobStatus)

    def pods(self, name: str = "j") -> tuple[int, int, int]:
        status = self.status(name)
        return status.active, status.ready, status.succeeded


def made(kind: str, name: str, runtime: str, checkpoint: str = "", owner: str = "", **spec: Any) -> Tree:
    spans = {"makeway.dev/runtime": runtime, "makeway.dev/checkpoint-interval": checkpoint}
    meta: Tree = {"name": name, "namespace": "default"}
    meta["annotations"] = {key: each for key, each in spans.items() if each}
    if owner:
        ref = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": owner, "controller": True}
        meta["ownerReferences"] = [ref]
    version = "kueue.x-k8s.io/v1beta2" if kind == "Workload" else "batch/v1"
    return {"apiVersion": version, "kind": kind, "metadata": meta, "spec": spec}


# --- workloads without owners -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("tells_ready", [True, False])
def test_pods_are_ready_at_once_where_somebody_waits_for_them(tells_ready: bool) -> None:
    play = Play(tells_ready=tells_ready)
    play.workload(runtime="10s")
    play.change(Admitted="True")
    play.until(100)
    conditions = play.store.get(WORKLOAD, "default", "w").value().status.conditions
    assert is_true(conditions, "PodsReady") is tells_ready
    play.until(10_000)
    assert play.finished(), "and it runs all the same"


def test_a_workload_finishes_when_it_has_run_for_its_run_time() -> None:
    play = Play()
    play.workload(runtime="1500ms")
    play.until(700)
    play.change(Admitted="True")
    play.until(2199)
    assert not play.finished()
    assert play.world.next_at() == BEGIN + 2200
    play.until(2200)
    assert play.finished()
    condition = play.store.get(WORKLOAD, "default", "w").value().status.conditions[-1]
    assert (condition.type, condition.reason) == ("Finished", "Succeeded")
    assert play.world.next_at() is None
    life = play.life()
    assert (life.ran_ms, life.lost_ms, life.finished_at) == (1500, 0, BEGIN + 2200)


@pytest.mark.parametrize("runtime", ["", "soon", "-3s"])
def test_without_a_run_time_it_never_ends(runtime: str) -> None:
    play = Play()
    play.workload(runtime=runtime)
    play.change(Admitted="True")
    play.until(10**9)
    assert not play.finished()
    assert (play.life().ran_ms, play.world.next_at()) == (10**9, None)


def test_a_run_time_of_nothing_ends_at_once() -> None:
    play = Play()
    play.workload(runtime="0s")
    play.change(Admitted="True")
    play.settle()
    assert play.finished()


@pytest.mark.parametrize("conditions", [{}, {"Admitted": "False"}, {"Admitted": "True", "Evicted": "True"}])
def test_who_is_not_admitted_or_has_to_leave_does_not_run(conditions: dict[str, str]) -> None:
    play = Play()
    play.workload()
    play.change(**conditions)
    play.until(20_000)
    assert not play.finished()
    assert play.life().ran_ms == 0


def test_a_workload_with_an_owner_runs_through_it() -> None:
    play = Play()
    play.job()
    play.workload(owner=play.store.get(JOB, "default", "j").uid)
    play.change(Admitted="True")
    play.until(20_000)
    assert not play.finished()


def test_a_workload_that_was_sent_to_another_cluster_does_not_run_here() -> None:
    play = Play()
    play.workload()
    for status in (WorkloadStatus(nominated_cluster_names=("far",)), WorkloadStatus(cluster_name="far")):
        play.store.update_status(replace(play.store.get(WORKLOAD, "default", "w").value(), status=status))
    play.change(Admitted="True")
    play.until(20_000)
    assert not play.finished()


@pytest.mark.parametrize(
    ("checkpoint", "worked", "lost"),
    [("", 7000, 7000), ("3s", 7000, 1000), ("3s", 6000, 0), ("3s", 2999, 2999), ("1m", 7000, 7000)],
)
def test_an_eviction_loses_what_was_worked_since_the_last_checkpoint(checkpoint: str, worked: int, lost: int) -> None:
    play = Play()
    play.workload(runtime="10s", checkpoint=checkpoint)
    play.change(Admitted="True")
    play.until(worked)
    play.change(Evicted="True")
    play.until(20_000)
    assert (play.life().ran_ms, play.life().lost_ms) == (worked, lost)
    play.change(Admitted="True", Evicted="False")
    left = 10_000 - (worked - lost)
    play.until(20_000 + left - 1)
    assert not play.finished()
    play.until(20_000 + left)
    assert play.finished()
    assert play.life().ran_ms - play.life().lost_ms == 10_000


def test_who_is_evicted_in_the_millisecond_of_its_end_has_finished() -> None:
    play = Play()
    play.workload(runtime="10s")
    play.change(Admitted="True")
    play.until(9999)
    play.now = Millis(BEGIN + 10_000)
    play.change(Evicted="True")
    play.settle()
    assert play.finished()
    assert play.life().lost_ms == 0


def test_who_ran_before_the_world_began_has_worked_since() -> None:
    play = Play()
    play.workload(runtime="10s")
    play.change(Admitted="True")  # at 10:00:00, as it is stored
    play.now = Millis(BEGIN + 4000)
    play.world = World(play.store)
    play.settle()
    assert play.world.next_at() == BEGIN - 250 + 10_000


def test_who_is_deleted_runs_no_more_and_who_comes_after_it_begins_anew() -> None:
    play = Play()
    play.workload(runtime="10s")
    play.change(Admitted="True")
    play.until(4000)
    play.store.delete(WORKLOAD, "default", "w")
    play.until(5000)
    assert play.world.next_at() is None
    assert (play.life().ran_ms, play.life().gone_at) == (4000, BEGIN + 4000)
    play.workload(runtime="2s")
    play.change(Admitted="True")
    play.until(7000)
    assert play.finished()
    assert [each.ran_ms for each in play.world.lives.recorded(play.now)] == [4000, 2000]


# --- jobs -------------------------------------------------------------------------------------------------------------


def test_a_job_shows_its_pods_at_once_and_is_complete_after_its_run_time() -> None:
    play = Play()
    play.job(runtime="2s", parallelism=3)
    play.until(1000)
    assert play.pods() == (0, 0, 0)
    play.suspend(False)
    play.settle()
    assert play.pods() == (3, 3, 0)
    assert str(play.status().start_time) == "2026-03-01T10:00:01Z"
    play.until(2999)
    assert play.pods() == (3, 3, 0)
    play.until(3000)
    assert play.pods() == (0, 0, 3)
    assert is_true(play.status().conditions, "Complete")
    assert str(play.status().completion_time) == "2026-03-01T10:00:03Z"
    assert play.world.next_at() is None


@pytest.mark.parametrize(
    ("spec", "active", "succeeded", "indexes"),
    [
        ({"parallelism": 3, "completions": 2}, 2, 2, ""),
        ({"parallelism": 2, "completions": 5}, 2, 5, ""),
        ({"parallelism": 2, "completions": 2, "completionMode": "Indexed"}, 2, 2, "0-1"),
        ({"completions": 1, "completionMode": "Indexed"}, 1, 1, "0"),
    ],
)
def test_how_many_pods_run_and_succeed(spec: Tree, active: int, succeeded: int, indexes: str) -> None:
    play = Play()
    play.job(runtime="2s", **spec, suspend=False)
    play.settle()
    assert play.pods() == (active, active, 0)
    play.until(2000)
    assert play.pods() == (0, 0, succeeded)
    assert play.status().completed_indexes == indexes


def test_the_pods_of_a_suspended_job_are_gone_after_the_eviction_time() -> None:
    play = Play(eviction_ms=1500)
    play.job(runtime="10s", checkpoint="2s", suspend=False)
    play.until(5000)
    play.suspend(True)
    play.until(6499)
    assert play.pods() == (1, 1, 0)
    play.until(6500)
    assert play.pods() == (0, 0, 0)
    assert play.status().start_time is None
    play.until(20_000)
    play.suspend(False)
    play.until(25_999)
    assert not is_true(play.status().conditions, "Complete")
    play.until(26_000)  # 4 of 10 seconds were saved
    assert is_true(play.status().conditions, "Complete")


def test_without_an_eviction_time_the_pods_are_gone_at_once() -> None:
    play = Play()
    play.job(suspend=False)
    play.until(1000)
    play.suspend(True)
    play.settle()
    assert play.pods() == (0, 0, 0)


def test_a_job_that_goes_on_before_its_pods_are_gone_keeps_them() -> None:
    play = Play(eviction_ms=1500)
    play.job(runtime="10s", suspend=False)
    play.until(5000)
    play.suspend(True)
    play.until(6000)
    play.suspend(False)
    play.until(15_999)
    assert play.pods() == (1, 1, 0)
    play.until(16_000)
    assert play.pods() == (0, 0, 1)


def test_a_job_that_is_suspended_again_leaves_again() -> None:
    play = Play(eviction_ms=1500)
    play.job(runtime="10s", suspend=False)
    play.until(5000)
    play.suspend(True)
    play.until(6000)
    play.suspend(False)
    play.until(7000)
    play.suspend(True)
    play.until(8499)
    assert play.pods() == (1, 1, 0)
    play.until(8500)
    assert play.pods() == (0, 0, 0)


def test_a_job_that_changes_while_it_leaves_leaves_once() -> None:
    play = Play(eviction_ms=1500)
    play.job(parallelism=2, suspend=False)
    play.until(5000)
    play.suspend(True)
    play.until(6000)
    value = play.store.get(JOB, "default", "j").value()
    play.store.update(replace(value, spec=amended(value.spec, {"parallelism": 3})))
    play.until(6500)
    assert (play.pods(), play.world.next_at()) == ((0, 0, 0), None)


def test_a_job_that_changes_in_the_millisecond_of_its_end_has_ended() -> None:
    play = Play()
    play.job(runtime="2s", parallelism=3, suspend=False)
    play.until(1999)
    play.now = Millis(BEGIN + 2000)
    value = play.store.get(JOB, "default", "j").value()
    play.store.update(replace(value, spec=amended(value.spec, {"parallelism": 2})))
    play.settle()
    assert play.pods() == (0, 0, 2)
    assert is_true(play.status().conditions, "Complete")


def test_a_spread_makes_jobs_leave_at_different_times_that_the_seed_decides() -> None:
    def leaving(seed: int) -> list[int]:
        play = Play(eviction_ms=1000, spread_ms=5000, seed=seed)
        names = [f"j{i}" for i in range(6)]
        for name in names:
            play.job(name, suspend=False)
        play.settle()
        for name in names:
            play.suspend(True, name)
        play.settle()
        seen = []
        while (due := play.world.next_at()) is not None:
            seen.append(due - BEGIN)
            play.until(due - BEGIN)
        return seen

    times = leaving(1)
    assert len(times) == len(set(times)) == 6
    assert all(1000 <= each <= 6000 for each in times)
    assert times == leaving(1) != leaving(2)


def test_a_job_with_other_parallelism_shows_other_pods() -> None:
    play = Play()
    play.job(runtime="9s", parallelism=3, suspend=False)
    play.settle()
    value = play.store.get(JOB, "default", "j").value()
    play.store.update(replace(value, spec=amended(value.spec, {"parallelism": 2})))
    play.until(8999)
    assert play.pods() == (2, 2, 0)
    play.until(9000)
    assert play.pods() == (0, 0, 2)


def test_a_job_of_another_controller_is_left_alone() -> None:
    play = Play()
    play.job(suspend=False, managedBy="kueue.x-k8s.io/multikueue")
    play.until(20_000)
    assert play.pods() == (0, 0, 0)


def test_the_work_of_a_job_is_told_of_its_workload() -> None:
    play = Play()
    play.job(runtime="10s", checkpoint="4s")
    play.workload(owner=play.store.get(JOB, "default", "j").uid)
    play.suspend(False)
    play.until(7000)
    play.suspend(True)
    play.until(8000)
    assert (play.life().ran_ms, play.life().lost_ms) == (7000, 3000)
    play.suspend(False)
    play.until(14_000)
    assert play.pods() == (0, 0, 1)
    assert (play.life().ran_ms, play.life().lost_ms) == (13_000, 3000)


# --- stores -----------------------------------------------------------------------------------------------------------


def test_a_write_that_meets_a_newer_object_is_made_again_from_that_one() -> None:
    play = Play()
    play.workload(runtime="1s")
    play.change(Admitted="True")
    play.settle()
    play.store.refusals = [Conflict("newer")] * (TRIES_MAX - 1)
    play.until(1000)
    assert play.finished()


def test_a_write_that_never_succeeds_is_tried_later_not_for_ever() -> None:
    play = Play()
    play.workload(runtime="1s")
    play.change(Admitted="True")
    play.until(999)
    before = play.store.writes
    play.store.refusals = [Conflict("newer")] * TRIES_MAX + [Unavailable("down", Millis(70))]
    play.until(1000)
    assert (play.store.writes - before, play.world.next_at()) == (TRIES_MAX, BEGIN + 2000)
    play.until(2000)
    assert play.world.next_at() == BEGIN + 2070
    play.until(2070)
    assert play.finished()


def test_a_watch_that_fell_behind_begins_anew() -> None:
    play = Play()
    play.workload("stays", runtime="5s")
    play.workload("goes", runtime="5s")
    for name in ("stays", "goes"):
        play.change(name, Admitted="True")
    play.until(1000)
    play.store.delete(WORKLOAD, "default", "goes")
    play.workload("comes", runtime="1s")
    play.change("comes", Admitted="True")
    play.store.compact()
    play.until(2000)
    assert play.finished("comes")
    assert play.life("goes").gone_at == BEGIN + 1000
    play.until(5000)
    assert play.finished("stays")


def test_a_watch_that_fell_behind_tells_an_object_from_the_next_of_its_name() -> None:
    play = Play()
    play.workload(runtime="5s")
    play.change(Admitted="True")
    play.until(1000)
    play.store.delete(WORKLOAD, "default", "w")
    play.workload(runtime="5s")
    play.store.compact()
    play.until(2000)
    assert [each.gone_at for each in play.world.lives.recorded(play.now)] == [BEGIN + 1000, None]


def test_an_end_that_is_due_is_not_written_to_the_next_of_its_name() -> None:
    """The deletion is not seen yet, behind more changes than a step examines."""
    now = BEGIN
    store = MemoryStore(lambda: now, careful=False)
    body: Any = codec.read(made("Workload", "w", "1s", podSets=[{"template": POD}])).value
    stored = store.create(body).value()
    admitted = set_condition((), type="Admitted", status="True", reason="A", message="", now=Time.of_millis(now))
    store.update_status(replace(stored, status=WorkloadStatus(conditions=admitted)))
    world = World(store)
    world.step(now)
    for i in range(EVENTS_MAX):
        store.create(replace(body, metadata=replace(body.metadata, name=f"other-{i}")))
    store.delete(WORKLOAD, "default", "w")
    store.create(body)
    now = Millis(BEGIN + 1000)
    while world.step(now):
        assert store.get(WORKLOAD, "default", "w").value().status is None


def test_a_step_looks_at_a_bounded_number_of_changes() -> None:
    play = Play()
    body: Any = codec.read(made("Workload", "w", "1s", podSets=[{"template": POD}])).value
    store = MemoryStore(lambda: play.now, careful=False)
    for i in range(EVENTS_MAX + 5):
        store.create(replace(body, metadata=replace(body.metadata, name=f"w{i}")))
    lives = Lives()
    world = World(store, lives=lives)
    assert world.step(play.now)
    assert len(lives) == EVENTS_MAX
    assert world.step(play.now)
    assert len(lives) == EVENTS_MAX + 5
    assert not world.step(play.now)


# --- promises ---------------------------------------------------------------------------------------------------------

SPANS = st.lists(st.tuples(st.integers(1, 9000), st.integers(0, 3000)), min_size=1, max_size=6)


@pytest.mark.property
@given(spans=SPANS, total=st.integers(1, 12_000), interval=st.integers(0, 5000))
def test_work_that_ends_was_done_once_and_whatever_else_ran_was_lost(
    spans: list[tuple[int, int]], total: int, interval: int
) -> None:
    """Runs of some length with pauses between them, and a last one without an end."""
    play = Play()
    play.workload(runtime=f"{total}ms", checkpoint=f"{interval}ms" if interval else "")
    at, saved = 0, 0
    for run, pause in spans:
        play.change(Admitted="True", Evicted="False")
        play.until(at + run)
        at += run
        if saved + run >= total:
            break
        play.change(Evicted="True", Admitted="False")
        worked = saved + run
        saved = (worked // interval) * interval if interval else 0
        at += pause
        play.until(at)
    else:
        play.change(Admitted="True", Evicted="False")
        play.until(at + total - saved)
    life = play.life()
    assert play.finished()
    assert life.ran_ms - life.lost_ms == total
    assert 0 <= life.lost_ms <= sum(run for run, _ in spans)
