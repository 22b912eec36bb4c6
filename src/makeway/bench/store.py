"""``makeway bench store``: how many writes are durable in a second, how quick watches are, what a server costs.

Everything but the first figure is measured on a server in a process of its own. The data folder is a temporary one:
where that is not on a disk, durable means little; ``TMPDIR`` names another place.
"""

from __future__ import annotations

import asyncio
import re
import statistics
import tempfile
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from threading import Thread
from typing import Any

import uvloop
from msgspec.structs import replace

from makeway.adapters.server.storage.store import SqliteStore
from makeway.api import codec
from makeway.api.objects.workload import Workload
from makeway.bench.clients import BenchConnection, Endpoint, Spotter, at_a_pace, config_map, connections, percentile
from makeway.bench.server import Server
from makeway.runtime.live.driver import wall_clock

WRITERS = 64
CREATES = 25_600
HTTPS_CREATES = 6_400
WATCHERS = 50
EVENTS_PER_SECOND = 1_000
FAN_OUT_SECONDS = 10
HEADS = 1_000
CYCLE_EVENTS_PER_SECOND = 100
CYCLE_SECONDS = 6
CYCLE_ROUNDS = 3
OBJECTS = 20_000
IDLE_SECONDS = 30
LATE_SECONDS = 10  # after that an event is not expected any more
WORKLOADS = 100_000
CROWD_QUEUES = 100
AIMS: dict[str, tuple[str, str, float, bool]] = {  # result -> what it is, unit, aim, whether more is better
    "createsPerSecond": ("durable creates, 64 writers", "/s", 8_000, True),
    "httpsCreatesPerSecond": ("durable creates over HTTPS", "/s", 1_500, True),
    "fanOutP99Ms": ("an event at 50 watchers, p99", "ms", 50, False),
    "cycleWatchP99Ms": ("the same while 1000 heads preempt", "ms", 250, False),
    "startSeconds": ("start with 20000 objects", "s", 3, False),
    "idleCpuPercent": ("CPU while idle", "%", 1, False),
    "rssMegabytes": ("memory with 100000 workloads", "MB", 1_500, False),
}
MAPS = "/api/v1/namespaces/default/configmaps"
NAMES = re.compile(rb'"name":"event-(\d+)"')
Parts = dict[str, Callable[[Path], dict[str, Any]]]


def bench_store(only: tuple[str, ...] = ()) -> dict[str, Any]:
    """All figures, or those of some parts."""
    found: dict[str, Any] = {"name": "store"}
    for name, part in PARTS.items():
        if not only or name in only:
            with tempfile.TemporaryDirectory(prefix="makeway-bench-") as folder:
                found |= part(Path(folder))
    return found


# --- writing ---------------------------------------------------------------------------------------------------------


def creates(folder: Path) -> dict[str, Any]:
    """Threads that each wait for their own write."""
    from makeway.bench.command import workload_bytes

    value = codec.decode(workload_bytes(), Workload)
    meta = replace(value.metadata, uid="", resource_version="")

    def work(store: SqliteStore, thread: int) -> None:
        for i in range(CREATES // WRITERS):
            store.create(replace(value, metadata=replace(meta, name=f"w-{thread}-{i}")))

    with SqliteStore(folder / "makeway.db", wall_clock, careful=False) as store:
        threads = [Thread(target=work, args=(store, i)) for i in range(WRITERS)]
        wall, cpu = time.perf_counter(), time.process_time()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        assert int(store.resource_version) >= CREATES
    return {"createsPerSecond": round(CREATES / wall), "createCpuMicros": round(cpu / CREATES * 1e6)}


def https_creates(folder: Path) -> dict[str, Any]:
    """The same number of writers as connections, from this process."""
    with Server(folder) as server:

        async def play() -> float:
            head = server.endpoint.head("POST", MAPS)
            async with connections(server.endpoint, WRITERS) as lines:
                begin = time.perf_counter()
                await asyncio.gather(*(_creates(line, head, i) for i, line in enumerate(lines)))
                return time.perf_counter() - begin

        before = server.ask("figures")["cpuSeconds"]
        wall = _played(play())
        cpu = server.ask("figures")["cpuSeconds"] - before
    return {
        "httpsCreatesPerSecond": round(HTTPS_CREATES / wall),
        "httpsCreateCpuMicros": round(cpu / HTTPS_CREATES * 1e6),
    }


async def _creates(line: BenchConnection, head: bytes, thread: int) -> None:
    for i in range(HTTPS_CREATES // WRITERS):
        code, answer = await line.send(head, config_map(f"made-{thread}-{i}"))
        if code != 201:
            raise RuntimeError(f"the server answered {code}: {answer[:200]!r}")


def _played(play: Coroutine[Any, Any, Any]) -> Any:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(play)


# --- watching --------------------------------------------------------------------------------------------------------


async def watched(
    endpoint: Endpoint, count: int, per_second: float, trigger: Callable[[], None] | None = None
) -> list[float]:
    """How long events take from the request that makes them to each of the watchers, in seconds."""
    sent_at = [0.0] * count
    spotters = [Spotter(NAMES, sent_at) for _ in range(WATCHERS)]
    head = endpoint.head("GET", f"{MAPS}?watch=1&resourceVersion=0")
    async with connections(endpoint, WATCHERS) as watchers, connections(endpoint, WRITERS) as writers:
        pairs = zip(watchers, spotters, strict=True)
        watches = [asyncio.ensure_future(line.follow(head, spotter)) for line, spotter in pairs]
        await asyncio.sleep(0.5)
        await _make_events(endpoint, sent_at, per_second, writers, trigger)
        until = time.perf_counter() + LATE_SECONDS
        while any(len(each.took) < count for each in spotters) and time.perf_counter() < until:
            await asyncio.sleep(0.05)
        for watch in watches:
            watch.cancel()
        await asyncio.gather(*watches, return_exceptions=True)
    missed = sum(count - len(each.took) for each in spotters)
    if missed:
        raise RuntimeError(f"{missed} events did not arrive")
    return [took for each in spotters for took in each.took]


async def _make_events(
    endpoint: Endpoint,
    sent_at: list[float],
    per_second: float,
    writers: list[BenchConnection],
    trigger: Callable[[], None] | None,
) -> None:
    create = endpoint.head("POST", MAPS)

    def ask(number: int) -> tuple[bytes, bytes]:
        sent_at[number] = time.perf_counter()
        return create, config_map(f"event-{number}")

    triggered = None if trigger is None else asyncio.get_running_loop().run_in_executor(None, trigger)
    await at_a_pace(len(sent_at), per_second, writers, ask)
    if triggered is not None:
        await triggered


def fan_out(folder: Path) -> dict[str, Any]:
    with Server(folder) as server:
        before = server.ask("figures")["cpuSeconds"]
        took = _played(watched(server.endpoint, EVENTS_PER_SECOND * FAN_OUT_SECONDS, EVENTS_PER_SECOND))
        cpu = server.ask("figures")["cpuSeconds"] - before
    return {"fanOutP99Ms": _millis(took, 99), "fanOutP50Ms": _millis(took, 50), "fanOutCpuSeconds": round(cpu, 2)}


def cycle_watch(folder: Path) -> dict[str, Any]:
    """The median of several rounds, so that a disturbed one does not decide; and the slowest event of all."""
    rounds = []
    for number in range(CYCLE_ROUNDS):
        (folder / str(number)).mkdir()
        rounds.append(_cycle_round(folder / str(number)))
    found = {name: statistics.median(each[name] for each in rounds) for name in rounds[0]}
    return {**found, "cycleWatchMaxMs": max(each["cycleWatchMaxMs"] for each in rounds)}


def _cycle_round(folder: Path) -> dict[str, float]:
    """A thousand full queues; then a more important workload for each of them, all at once."""
    queues = [f"queue-{i:04}" for i in range(HEADS)]
    with Server(folder) as server:
        server.ask("load", trees=[FLAVOR, *(tree for name in queues for tree in _queue(name, 1))])
        server.ask("crowd", tree=_workload(0), queues=queues, each=1)
        server.ask("settle")
        began = server.ask("engine")["cycles"]
        span: list[float] = []

        def preempt() -> None:
            begin = time.perf_counter()
            server.ask("at_once", tree=_workload(10, "urgent"), queues=queues)
            server.ask("settle")
            span.append(time.perf_counter() - begin)

        took = _played(
            watched(server.endpoint, CYCLE_SECONDS * CYCLE_EVENTS_PER_SECOND, CYCLE_EVENTS_PER_SECOND, preempt)
        )
        cycles = server.ask("engine")["cycles"] - began
    return {
        "cycleWatchP99Ms": _millis(took, 99), "cycleWatchP50Ms": _millis(took, 50),
        "cycleWatchMaxMs": _millis(took, 100), "preemptSeconds": round(span[0], 2), "preemptCycles": cycles,
    }  # fmt: skip


def _millis(seconds: list[float], share: float) -> float:
    return round(percentile(seconds, share) * 1000, 1)


# --- what it costs ---------------------------------------------------------------------------------------------------


def start(folder: Path) -> dict[str, Any]:
    queues = [f"queue-{i:04}" for i in range(CROWD_QUEUES)]
    with Server(folder) as server:
        trees = [FLAVOR, *(tree for name in queues for tree in _queue(name, 1))]
        server.ask("load", trees=trees)
        server.ask("crowd", tree=_workload(0), queues=queues, each=(OBJECTS - len(trees)) // CROWD_QUEUES)
        server.ask("settle")
    with Server(folder) as server:
        cpu = server.ask("figures")["cpuSeconds"]
        return {"startSeconds": round(server.start_seconds, 2), "startCpuSeconds": round(cpu, 2)}


def idle(folder: Path) -> dict[str, Any]:
    """One queue is full, and a workload waits in it."""
    with Server(folder) as server:
        server.ask("load", trees=[FLAVOR, *_queue("blocked", 1)])
        server.ask("crowd", tree=_workload(0), queues=["blocked"], each=3)
        server.ask("settle")
        time.sleep(2)  # the statuses of queues are written by now
        before = server.ask("figures")["cpuSeconds"]
        time.sleep(IDLE_SECONDS)
        used = server.ask("figures")["cpuSeconds"] - before
    return {"idleCpuPercent": round(used / IDLE_SECONDS * 100, 3)}


def memory(folder: Path) -> dict[str, Any]:
    queues = [f"queue-{i:04}" for i in range(CROWD_QUEUES)]
    with Server(folder) as server:
        server.ask("load", trees=[FLAVOR, *(tree for name in queues for tree in _queue(name, 100))])
        server.ask("crowd", tree=_workload(0), queues=queues, each=WORKLOADS // CROWD_QUEUES)
        server.ask("settle")
        loaded = server.ask("figures")["megabytes"]
    with Server(folder) as server:  # after a start, too
        server.ask("settle")
        started = server.ask("figures")["megabytes"]
        seconds = server.start_seconds
    return {
        "rssMegabytes": round(max(loaded, started)), "rssAfterStartMegabytes": round(started),
        "startWith100000Seconds": round(seconds, 2),
    }  # fmt: skip


# --- objects ---------------------------------------------------------------------------------------------------------

KUEUE = "kueue.x-k8s.io/v1beta2"
FLAVOR: dict[str, Any] = {"apiVersion": KUEUE, "kind": "ResourceFlavor", "metadata": {"name": "default"}, "spec": {}}


def _queue(name: str, cpu: int) -> list[dict[str, Any]]:
    flavors = [{"name": "default", "resources": [{"name": "cpu", "nominalQuota": str(cpu)}]}]
    spec = {
        "resourceGroups": [{"coveredResources": ["cpu"], "flavors": flavors}], "namespaceSelector": {},
        "preemption": {"withinClusterQueue": "LowerPriority"},
    }  # fmt: skip
    local = {"name": name, "namespace": "default"}
    return [
        {"apiVersion": KUEUE, "kind": "ClusterQueue", "metadata": {"name": name}, "spec": spec},
        {"apiVersion": KUEUE, "kind": "LocalQueue", "metadata": local, "spec": {"clusterQueue": name}},
    ]


def _workload(priority: int, name: str = "w") -> dict[str, Any]:
    container = {
        "name": "main", "image": "registry.example/train:1.4", "command": ["python", "-m", "train"],
        "resources": {"requests": {"cpu": "1"}},
    }  # fmt: skip
    pods = {"name": "main", "count": 1, "template": {"spec": {"containers": [container], "restartPolicy": "Never"}}}
    return {
        "apiVersion": KUEUE, "kind": "Workload", "metadata": {"name": name, "namespace": "default"},
        "spec": {"priority": priority, "podSets": [pods]},
    }  # fmt: skip


PARTS: Parts = {
    "creates": creates, "https": https_creates, "fan-out": fan_out, "cycle": cycle_watch, "start": start,
    "idle": idle, "memory": memory,
}  # fmt: skip
