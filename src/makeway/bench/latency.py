"""``makeway bench latency``: from a create request to the first instruction of the process, and jobs per second.

A server of its own is started in a temporary folder, as a user would start it, and asked over HTTPS from this process.
The process of a job notes the time by itself, as the first thing it does.
"""

from __future__ import annotations

import os
import platform
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import Any

import click

from makeway.adapters.kubernetes.client import Client
from makeway.adapters.kubernetes.resources import find_resource, known_resources
from makeway.cli.clients.following import JOBS as JOB_RESOURCE
from makeway.cli.clients.own_server import own_server
from makeway.cli.terminal.screen import echo

SAMPLES = 50
JOBS = 1000
SENDERS = 4
SAMPLE_SECONDS = 30.0
ALL_SECONDS = 600.0
LOOK_SECONDS = 0.002
AIM_P50_MS, AIM_PER_SECOND, AIM_GET_MS = 150, 60, 250
NAMESPACE = "default"
KUEUE = "kueue.x-k8s.io/v1beta2"
Tree = dict[str, Any]


def bench_latency(samples: int = SAMPLES, jobs: int = JOBS) -> Tree:
    """Raises ClickException where a job fails or does not end in time."""
    with own_server(("--node-capacity", "cpu=64,memory=64Gi")) as server:
        client = server.client
        _set_up(client)
        with tempfile.TemporaryDirectory(prefix="makeway-bench-") as folder:
            for n in range(5):  # the first ones pay for what is done once
                _sample(client, Path(folder), f"warm-{n}")
            times = sorted(_sample(client, Path(folder), f"one-{n}") for n in range(samples))
        with _asking(client) as gets:
            seconds = _many(client, jobs)
    return {
        "name": "latency",
        "samples": samples,
        "p50_ms": _percentile(times, 50),
        "p99_ms": _percentile(times, 99),
        "jobs": jobs,
        "jobs_seconds": round(seconds, 2),
        "jobs_per_second": round(jobs / seconds, 1),
        "get_p50_ms": _percentile(sorted(gets), 50),
        "get_p99_ms": _percentile(sorted(gets), 99),
        "cpus": len(os.sched_getaffinity(0)),
        "load": round(os.getloadavg()[0], 2),
        "python": platform.python_version(),
        "machine": platform.machine(),
    }


def print_latency(result: Tree) -> None:
    echo(f"create request to first instruction, {result['samples']} times, one after the other:")
    echo(f"  p50 {result['p50_ms']:>8} ms  (aim: {AIM_P50_MS} ms)")
    echo(f"  p99 {result['p99_ms']:>8} ms")
    echo(f"{result['jobs']} jobs of `true` at once: {result['jobs_seconds']} s")
    echo(f"  {result['jobs_per_second']:>8} jobs per second  (aim: {AIM_PER_SECOND} on two cores)")
    echo(f"  a get meanwhile: p50 {result['get_p50_ms']} ms, p99 {result['get_p99_ms']} ms  (aim: {AIM_GET_MS} ms)")
    echo(f"{result['cpus']} cores, load {result['load']}; Python {result['python']} on {result['machine']}")


def _percentile(times: list[float], percent: int) -> float:
    rank = max(1, -(-len(times) * percent // 100))
    return round(times[rank - 1] * 1000, 1)


# --- what is needed ---------------------------------------------------------------------------------------------------


def _set_up(client: Client) -> None:
    quota = [{"name": "cpu", "nominalQuota": "10"}]
    groups = [{"coveredResources": ["cpu"], "flavors": [{"name": "any", "resources": quota}]}]
    _create(client, {"apiVersion": KUEUE, "kind": "ResourceFlavor", "metadata": {"name": "any"}})
    _create(client, {
        "apiVersion": KUEUE, "kind": "ClusterQueue", "metadata": {"name": "bench"},
        "spec": {"namespaceSelector": {}, "resourceGroups": groups},
    })  # fmt: skip
    _create(client, {
        "apiVersion": KUEUE, "kind": "LocalQueue", "metadata": {"name": "bench", "namespace": NAMESPACE},
        "spec": {"clusterQueue": "bench"},
    })  # fmt: skip
    time.sleep(1)  # queues and nodes are known to all parts


def _create(client: Client, tree: Tree) -> None:
    found = find_resource(tree["kind"].lower(), known_resources())
    assert found is not None
    client.create(found, tree["metadata"].get("namespace", ""), tree)


def _job(name: str, command: list[str], cpu: str) -> Tree:
    container = {"name": "main", "image": "bench", "command": command, "resources": {"requests": {"cpu": cpu}}}
    return {
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": {"kueue.x-k8s.io/queue-name": "bench"}},
        "spec": {"backoffLimit": 0, "template": {"spec": {"restartPolicy": "Never", "containers": [container]}}},
    }  # fmt: skip


# --- what is measured ------------------------------------------------------------------------------------------------


def _sample(client: Client, folder: Path, name: str) -> float:
    """Seconds from the request to the process, which notes the time with nothing but its shell."""
    told = folder / name
    script = f'echo "$EPOCHREALTIME" > {told}.new; mv {told}.new {told}'
    job = _job(name, ["bash", "-c", script], "1")
    began = time.time_ns()
    _create(client, job)
    until = time.monotonic() + SAMPLE_SECONDS
    while not told.exists():
        if time.monotonic() > until:
            raise click.ClickException(f"job {name} did not start within {SAMPLE_SECONDS:g} s")
        time.sleep(LOOK_SECONDS)
    first = float(told.read_text("ascii").strip().replace(",", "."))
    time.sleep(0.05)  # it ends: the next one finds the server idle
    return first - began / 1e9


def _many(client: Client, count: int) -> float:
    """Seconds from the first request to the last Complete."""
    began = time.monotonic()
    names = [f"many-{n}" for n in range(count)]
    with ThreadPoolExecutor(SENDERS) as pool:
        for _ in pool.map(lambda name: _create(client, _job(name, ["true"], "1")), names):
            pass
    until = time.monotonic() + ALL_SECONDS
    while True:
        done, failed = _ended(client)
        if failed:
            raise click.ClickException(f"{failed} jobs failed")
        if done >= count:
            return time.monotonic() - began
        if time.monotonic() > until:
            raise click.ClickException(f"{count - done} of {count} jobs have not ended within {ALL_SECONDS:g} s")
        time.sleep(0.2)


@contextmanager
def _asking(client: Client) -> Iterator[list[float]]:
    """Get an object again and again until the end of the block; the times that it took."""
    times: list[float] = []
    stop = Event()

    def ask() -> None:
        while not stop.is_set():
            began = time.perf_counter()
            client.send("GET", f"/apis/{KUEUE}/clusterqueues/bench")
            times.append(time.perf_counter() - began)
            time.sleep(0.02)

    thread = Thread(target=ask, daemon=True)
    thread.start()
    try:
        yield times
    finally:
        stop.set()
        thread.join(30)


def _ended(client: Client) -> tuple[int, int]:
    done = failed = 0
    for page in client.pages(JOB_RESOURCE, NAMESPACE):
        for each in page["items"]:
            if each["metadata"]["name"].startswith("many-"):
                conditions = {c["type"] for c in each.get("status", {}).get("conditions", ()) if c["status"] == "True"}
                done += "Complete" in conditions
                failed += "Failed" in conditions
    return done, failed
