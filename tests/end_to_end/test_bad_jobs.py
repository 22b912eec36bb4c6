"""Jobs that cannot run, print too much, or fork endlessly: each ends with a clear status, and the server still
answers.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.end_to_end.machine import JOBS, PODS, Machine, Tree, flavor, job, queue, shell

pytestmark = pytest.mark.slow
P99_MS = 250


@contextmanager
def asked_meanwhile(machine: Machine) -> Iterator[list[float]]:
    """Measure how long a get takes, in milliseconds, again and again until the end of the block."""
    times: list[float] = []
    stop = threading.Event()

    def ask() -> None:
        while not stop.is_set():
            began = time.perf_counter()
            machine.client.list(JOBS, "default", limit=5)
            times.append((time.perf_counter() - began) * 1000)
            time.sleep(0.02)

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        yield times
    finally:
        stop.set()
        thread.join()


def waiting(machine: Machine, name: str) -> Tree:
    pods = machine.pods(name)
    statuses = pods[0]["status"].get("containerStatuses") or [] if pods else []
    found: Tree = (statuses[0]["state"].get("waiting") or {}) if statuses else {}
    return found


def ended(machine: Machine, name: str) -> Tree:
    found: Tree = machine.pod(name)["status"]["containerStatuses"][0]["state"]["terminated"]
    return found


def test_each_ends_as_a_clear_status_and_the_server_answers(machine: Machine) -> None:
    machine.apply(flavor(), *queue("all", 20))
    env = [{"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "missing", "key": "k"}}}]
    with asked_meanwhile(machine) as times:
        machine.apply(
            job("no-command", "no-such-command"),
            job("no-permission", "/etc/passwd"),
            job("no-image", container={"image": "example.com/model:v1"}),
            job("no-secret", "true", container={"env": env}),
            shell("long-log", "head -c 100000000 /dev/zero | tr '\\0' 'x' | fold -w 100; echo; echo the end"),
            shell("many", "for i in $(seq 200); do sleep 300 & done; echo all; exit 0"),
            job("binary", "head", "-c", "100000", "/dev/urandom"),
        )
        for name in ("no-command", "no-permission"):
            machine.until_ended(name, "Failed")
        for name in ("many", "binary", "long-log"):
            machine.until_ended(name, seconds=60)
        machine.until(lambda: waiting(machine, "no-image").get("reason") == "ImageNotRunnable", "it waits with a hint")
        machine.until(
            lambda: waiting(machine, "no-secret").get("reason") == "CreateContainerConfigError", "it waits for a Secret"
        )
    assert (ended(machine, "no-command")["exitCode"], ended(machine, "no-command")["reason"]) == (127, "StartError")
    assert "not in the PATH" in ended(machine, "no-command")["message"]
    assert ended(machine, "no-permission")["exitCode"] == 126
    assert "Permission denied" in ended(machine, "no-permission")["message"]
    assert "makeway.images" in waiting(machine, "no-image")["message"]
    assert 'secret "missing" not found' in waiting(machine, "no-secret")["message"]
    assert len(machine.log("binary")) == 100_000
    tail = b"".join(
        machine.client.log(PODS, "default", machine.pod("long-log")["metadata"]["name"], {"tailLines": "2"})
    )
    assert tail == b"x" * 100 + b"\nthe end\n"
    times.sort()
    print(
        f"{len(times)} gets meanwhile, p50 {times[len(times) // 2]:.0f} ms, p99 {times[len(times) * 99 // 100]:.0f} ms"
    )
    assert times[len(times) // 2] < P99_MS  # the p99 is measured by a benchmark: a loaded machine must not fail a test
