"""Times of any length: a distant time does not come early, and setting a clock moves nothing."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path

import pytest

from makeway.adapters.node.folders import PodFolder
from makeway.adapters.node.statuses import dated
from makeway.adapters.node.supervision import processes
from makeway.adapters.node.supervision.containers import Moment, RunningContainer, Terms
from makeway.adapters.node.supervision.records import (
    STOP,
    ContainerRecord,
    Exit,
    Handler,
    PodRecord,
    ProbePlan,
    Stop,
    read_record,
    read_stop,
    write,
)
from makeway.adapters.node.supervision.supervisor import clock
from tests.adapters.node.nodes import TestNode
from tests.adapters.node.pods import Pods, code, container, log, one, script, wait_for

pytestmark = pytest.mark.slow  # real supervisors

DAY_S, YEAR_S = 86_400, 31_557_600
SPANS = {"25 days": 25 * DAY_S, "10 years": 10 * YEAR_S, "int32": 2**31 - 1, "int64": 2**63 - 1}
HOUR_MS = 3_600_000


@pytest.mark.parametrize("seconds", SPANS.values(), ids=SPANS)
def test_a_far_deadline_does_not_end_a_pod(pods: Pods, seconds: int) -> None:
    probe = ProbePlan(Handler(command=("true",)), period_s=seconds, timeout_s=seconds, failures=1)
    late = replace(probe, delay_s=seconds)
    work = script("echo up; sleep 0.2; exit 3", startup=probe, readiness=probe, liveness=late)
    folder = pods.start(work, deadline_s=seconds, grace_s=seconds)
    record = pods.ended(folder)
    assert code(record) == 3
    assert (record.reason, log(folder)) == ("", b"up\n")


@pytest.mark.parametrize("seconds", SPANS.values(), ids=SPANS)
def test_a_long_grace_period_is_not_used_up_at_once(pods: Pods, seconds: int) -> None:
    waits = script("trap 'sleep 0.2; exit 5' TERM; echo up; while :; do sleep 0.05; done")
    folder = pods.start(waits, grace_s=seconds)
    wait_for(lambda: log(folder) == b"up\n")
    pods.stop(folder, seconds)
    assert code(pods.ended(folder)) == 5


@pytest.mark.parametrize("seconds", SPANS.values(), ids=SPANS)
def test_a_long_hook_ends_when_the_grace_period_does(pods: Pods, seconds: int) -> None:
    hooked = script("echo up; sleep 600", pre_stop=Handler(sleep_s=seconds))
    folder = pods.start(hooked)
    wait_for(lambda: log(folder) == b"up\n")
    pods.stop(folder, 0.3)
    assert code(pods.ended(folder)) in (137, 143)


def test_a_pod_of_the_store_may_have_the_longest_times_there_are(node: TestNode) -> None:
    """In the object: times that are computed from them can still be written and read."""
    most = 2**31 - 1
    probe = {"exec": {"command": ["true"]}, "periodSeconds": most, "timeoutSeconds": most, "initialDelaySeconds": most}
    work = {
        "name": "work", "image": "busybox", "livenessProbe": {**probe, "terminationGracePeriodSeconds": 2**63 - 1},
        "command": ["sh", "-c", "trap 'exit 5' TERM; echo up; while :; do sleep 0.05; done"],
    }  # fmt: skip
    node.pod("p", work, activeDeadlineSeconds=most, terminationGracePeriodSeconds=2**63 - 1)
    node.until_phase("p", "Running")
    uid = node.folders()[0]
    node.until(lambda: log(node.root / uid) == b"up\n")
    node.delete("p", grace=2**63 - 1)
    assert node.object("v1", "Pod", "p", "default")["metadata"]["deletionTimestamp"] == "9999-12-31T23:59:59Z"
    node.until(lambda: node.is_gone("p"))


# --- clocks that are set ---------------------------------------------------------------------------------------------


def test_the_clock_of_a_supervisor_goes_evenly(monkeypatch: pytest.MonkeyPatch) -> None:
    wall = time.time_ns
    now = clock()
    before = now()
    monkeypatch.setattr(time, "time_ns", lambda: wall() - 3600 * 10**9)
    after = now()
    assert before <= after
    assert after.wall_ms - before.wall_ms < HOUR_MS / 2


def test_an_order_counts_by_a_clock_that_nobody_sets(pods: Pods) -> None:
    """The clock was set forward by an hour after the order was given; the pod still has its time."""
    folder = pods.start(script("trap 'sleep 0.2; exit 5' TERM; echo up; while :; do sleep 0.05; done"))
    wait_for(lambda: log(folder) == b"up\n")
    steady_ms, wall_ms = time.monotonic_ns() // 10**6, time.time_ns() // 10**6
    write(folder, STOP, Stop(wall_ms - HOUR_MS, 20_000, until_ms=steady_ms + 20_000))
    PodFolder(folder.parent, folder.name).call()
    assert code(pods.ended(folder)) == 5


def test_an_earlier_order_stands_whatever_the_clock_says_now(tmp_path: Path) -> None:
    folder = PodFolder(tmp_path, "p")
    folder.path.mkdir()
    assert folder.stop(60_000, 10 * HOUR_MS) == 60_000
    for now_ms in (9 * HOUR_MS, 11 * HOUR_MS):
        assert 0 < folder.stop(30_000_000, now_ms) <= 60_000
    order = read_stop(folder.path)
    assert order is not None
    assert (order.at_ms, order.grace_ms) == (10 * HOUR_MS, 60_000)
    assert folder.stop(0, 9 * HOUR_MS) == 0


def test_who_ran_long_is_told_by_a_clock_that_nobody_sets(tmp_path: Path) -> None:
    """A restart is forgiven after ten minutes of work, not because a clock was set forward."""
    each = RunningContainer(container("true"), Terms(tmp_path, 4096, 1000, 5, lambda *told: None))
    pauses = []
    for ms in (0, 1000, 2000):
        each.start(Moment(ms, ms))
        pid, status = os.waitpid(each.pid, 0)
        assert each.collected(pid, status, Moment(ms + 10, ms + 10 + HOUR_MS))
        each.swept(Moment(ms + 10, ms + 10 + HOUR_MS))
        each.start_again(Moment(ms + 10, ms + 10 + HOUR_MS))
        assert each.start_at_ms is not None
        pauses.append(each.start_at_ms - ms - 10)
    assert pauses == [0, 1000, 2000]


def test_the_times_of_an_end_are_put_right_by_the_servers_clock() -> None:
    end = Exit(1, started_ms=5_000_000, finished_ms=6_000_000)
    work = ContainerRecord("work", state="ended", end=end)
    record = PodRecord("p", 1, 1, "boot", 5_000_000, finished_ms=6_000_100, containers=(work,), clock_ms=1_000_000)
    moved = dated(record, 1_000_000 - HOUR_MS)
    assert moved.finished_ms == 6_000_100 - HOUR_MS
    assert one(moved).end == replace(end, started_ms=5_000_000 - HOUR_MS, finished_ms=6_000_000 - HOUR_MS)
    assert dated(record, 1_000_999) == record
    assert dated(replace(record, clock_ms=0), 7) == replace(record, clock_ms=0)


def test_a_supervisor_notes_its_clock(pods: Pods) -> None:
    folder = pods.start(script("exit 0"))
    pods.ended(folder)
    record = read_record(folder)
    assert record is not None
    assert abs(record.clock_ms + processes.up_ms() - time.time_ns() // 10**6) < HOUR_MS
