"""``makeway bench scale``: a recipe of arrivals on a live server, against the same recipe in virtual time.

A server in a process of its own gets the recipe's workloads over HTTPS, each at its time. This process acts as the
job controllers: it watches, and reports each admitted workload as finished when its run time is over. A workload that
is evicted before that begins anew. So one run takes as long as the recipe, plus what the server takes for its
decisions and for the disk.
"""

from __future__ import annotations

import asyncio
import resource
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click
import msgspec
import uvloop

from makeway.adapters.simulator.sources.arrivals import Arrival, Source, span_of
from makeway.api import codec
from makeway.api.names import RUNTIME
from makeway.api.objects.meta import ObjectMeta
from makeway.api.quantity import Time
from makeway.bench import simulate as bench_simulate
from makeway.bench.clients import MERGE, BenchConnection, Endpoint, WatchLines, connections, percentile
from makeway.bench.server import Server
from makeway.runtime.live.driver import wall_clock

CONNECTIONS = 64
NAMESPACE = "default"
WORKLOADS = f"/apis/kueue.x-k8s.io/v1beta2/namespaces/{NAMESPACE}/workloads"
AIM = 1.10  # of the virtual makespan
LOST = (404, 409)  # answers to a finish that came too late; the watch will tell


class _Condition(msgspec.Struct):
    type: str
    status: str


class _Meta(msgspec.Struct, rename="camel"):
    name: str
    resource_version: str


class _Status(msgspec.Struct):
    conditions: list[msgspec.Raw] = []


class _Seen(msgspec.Struct):
    metadata: _Meta
    status: _Status | None = None


class _Event(msgspec.Struct):
    type: str
    object: _Seen


_events = msgspec.json.Decoder(_Event)
_conditions = msgspec.json.Decoder(_Condition)


@dataclass(slots=True)
class _LiveRun:
    """One workload: when it was created, when it was first admitted, and its end."""

    runtime_ms: int
    created_at: float = 0.0
    admitted_at: float = 0.0
    is_finished: bool = False
    due: asyncio.TimerHandle | None = None
    version: str = ""
    conditions: list[msgspec.Raw] = field(default_factory=list)


class Play:
    """The client side: arrivals, and the end of what runs."""

    def __init__(self, endpoint: Endpoint, arrivals: Sequence[Arrival]) -> None:
        self._endpoint = endpoint
        self._arrivals = arrivals
        self._runs = {_name(arrival): _LiveRun(_runtime(arrival)) for arrival in arrivals}
        self._left = len(self._runs)
        self._over = asyncio.Event()
        self._free: asyncio.Queue[BenchConnection] = asyncio.Queue()
        self._tasks: set[asyncio.Task[None]] = set()
        self._error: BaseException | None = None

    async def run(self, begins_at: int) -> float:
        """Play all of it; return how many seconds passed from the first arrival to the last end."""
        async with connections(self._endpoint, CONNECTIONS + 1) as (watch, *lines):
            for line in lines:
                self._free.put_nowait(line)
            head = self._endpoint.head("GET", f"{WORKLOADS}?watch=1&resourceVersion=0")
            self._begin(watch.follow(head, WatchLines(self._hear)))
            began = time.perf_counter()
            await self._arrive(began, begins_at)
            await self._over.wait()
            wall = time.perf_counter() - began
            for task in self._tasks:
                task.cancel()
        if self._error is not None:
            raise self._error
        return wall

    async def _arrive(self, began: float, begins_at: int) -> None:
        create = self._endpoint.head("POST", WORKLOADS)
        for arrival in self._arrivals:
            wait = began + (arrival.at - begins_at) / 1000 - time.perf_counter()
            if wait > 0:
                await asyncio.sleep(wait)
            if self._over.is_set():  # something went wrong
                return
            self._runs[_name(arrival)].created_at = time.perf_counter()
            self._begin(self._send(create, codec.encode(arrival.body), (201,)))

    def _begin(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self._error = task.exception()
            self._over.set()

    async def _send(self, head: bytes, body: bytes, good: tuple[int, ...]) -> None:
        line = await self._free.get()
        try:
            code, answer = await line.send(head, body)
        finally:
            self._free.put_nowait(line)
        if code not in good:
            raise RuntimeError(f"the server answered {code}: {answer[:300]!r}")

    # --- what is watched ---

    def _hear(self, line: bytes) -> None:
        event = _events.decode(line)
        run = self._runs.get(event.object.metadata.name)
        if run is None or run.is_finished or event.object.status is None:
            return
        conditions = event.object.status.conditions
        true = {each.type for each in map(_conditions.decode, conditions) if each.status == "True"}
        run.version, run.conditions = event.object.metadata.resource_version, conditions
        if "Finished" in true:
            self._finish(run)
        elif "Admitted" in true and "Evicted" not in true:
            self._start(event.object.metadata.name, run)
        elif run.due is not None:
            run.due.cancel()
            run.due = None

    def _finish(self, run: _LiveRun) -> None:
        run.is_finished = True
        self._left -= 1
        if not self._left:
            self._over.set()

    def _start(self, name: str, run: _LiveRun) -> None:
        if run.due is None:
            run.admitted_at = run.admitted_at or time.perf_counter()
            loop = asyncio.get_running_loop()
            run.due = loop.call_later(run.runtime_ms / 1000, self._say_finished, name, run)
        elif run.due.when() <= asyncio.get_running_loop().time():
            self._say_finished(name, run)  # the first finish was too late, and the workload still runs

    def _say_finished(self, name: str, run: _LiveRun) -> None:
        end = {
            "type": "Finished", "status": "True", "reason": "Succeeded", "message": "All of its work is done",
            "lastTransitionTime": str(Time.of_millis(wall_clock())),
        }  # fmt: skip
        change = {
            "metadata": {"resourceVersion": run.version},
            "status": {"conditions": [*run.conditions, end]},
        }
        head = self._endpoint.head("PATCH", f"{WORKLOADS}/{name}/status", MERGE)
        self._begin(self._send(head, msgspec.json.encode(change), (200, *LOST)))

    # --- what came of it ---

    def to_admission(self) -> dict[str, dict[str, float]]:
        """Milliseconds from creation to the first admission, by class."""
        found: dict[str, list[float]] = {}
        for name, run in self._runs.items():
            found.setdefault(name.rpartition("-")[0], []).append((run.admitted_at - run.created_at) * 1000)
        return {
            name: {
                "mean": round(sum(each) / len(each), 1), "p50": round(percentile(each, 50), 1),
                "p99": round(percentile(each, 99), 1),
            }
            for name, each in sorted(found.items())
        }  # fmt: skip


def _meta(arrival: Arrival) -> ObjectMeta:
    meta: ObjectMeta = arrival.body.metadata  # type: ignore[attr-defined]
    return meta


def _name(arrival: Arrival) -> str:
    return _meta(arrival).name


def _runtime(arrival: Arrival) -> int:
    return span_of(_meta(arrival).annotations, RUNTIME) or 0


def bench_scale(source: Source, *, virtual: bool = True) -> dict[str, Any]:
    """One recipe from its first arrival to its last end. ``virtual``: also in virtual time, to compare with."""
    ideal = bench_simulate.run(source)["virtualMakespanSeconds"] if virtual else None
    with tempfile.TemporaryDirectory(prefix="makeway-bench-") as folder, Server(Path(folder)) as server:
        server.ask("load", trees=[codec.to_tree(each) for each in source.objects])
        server.ask("settle")
        server.ask("listen")
        before, own = server.ask("figures"), _own_cpu()
        play, wall = _played(server.endpoint, source)
        after = server.ask("figures")
        told, engine = server.ask("told"), server.ask("engine")
    return {
        "name": "scale",
        "workloads": len(list(source.arrivals)),
        "wallSeconds": round(wall, 2),
        "virtualMakespanSeconds": ideal,
        "ratio": None if ideal is None else round(wall / float(str(ideal)), 3),
        "toAdmissionMs": play.to_admission(),
        "serverCpuSeconds": round(after["cpuSeconds"] - before["cpuSeconds"], 2),
        "clientCpuSeconds": round(_own_cpu() - own, 2),
        "rssMegabytes": round(after["megabytes"]),
        **told,
        **engine,
    }


def print_scale(result: dict[str, Any]) -> None:
    wall, ideal = result["wallSeconds"], result["virtualMakespanSeconds"]
    click.echo(f"{result['workloads']} workloads in {wall} s, {result['ratio']} of {ideal} virtual s (aim: {AIM:.2f})")
    for name, each in result["toAdmissionMs"].items():
        click.echo(f"  {name:<10} admitted after {each['mean']} ms on average, p99 {each['p99']} ms")
    for what, count in result["writes"].items():
        click.echo(f"  {what:<24} {count:>8} writes")
    click.echo(
        f"{result['writesOfNotEvicted']} writes for a workload that was not evicted, "
        f"and {result['pendingOfNotEvicted']} to say that it waits; {result['evictions']} evictions"
    )
    click.echo(f"CPU: server {result['serverCpuSeconds']} s, client {result['clientCpuSeconds']} s")


def _played(endpoint: Endpoint, source: Source) -> tuple[Play, float]:
    async def play() -> tuple[Play, float]:
        playing = Play(endpoint, list(source.arrivals))
        return playing, await playing.run(source.begins_at)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(play())


def _own_cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime
