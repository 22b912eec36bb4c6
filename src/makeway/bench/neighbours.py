"""``makeway bench neighbours``: how clients that read, wait and attack slow down the writers beside them.

A server is started as a user would start it. A crowd in another process holds watches that it does not read, follows
logs, connects and says nothing, and sends a patch that is refused every second. Eight clients create ConfigMaps as
fast as they are answered, first without the crowd and then beside it.
"""

from __future__ import annotations

import asyncio
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click
import uvloop

from makeway.adapters.kubernetes.client import Client
from makeway.adapters.server.access.tokens import Role, new_token, token_object
from makeway.api import codec
from makeway.bench.clients import BenchConnection, Endpoint, config_map, connections, percentile
from makeway.bench.crowd import MANY, MAPS, POD, PODS, Crowd
from makeway.cli.clients.own_server import OwnServer, own_server
from makeway.cli.terminal.screen import echo

SECONDS = 20.0
WRITERS = 8
WATCHES, FOLLOWS, IDLE, MEGABYTES = 250, 900, 1000, 100
FOLLOWS_PER_TOKEN = 225
LOGS = 3  # pods that print a line every second
START_SECONDS = 60.0
LOOK_SECONDS = 0.1
AIM_RATIO, AIM_MEGABYTES = 5, 1500
COMMAND = "from makeway.bench.crowd import main; main()"
TOKENS = "/api/v1/namespaces/kube-system/secrets"
Tree = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Size:
    """The number of clients of each kind."""

    watches: int = WATCHES
    follows: int = FOLLOWS
    idle: int = IDLE
    megabytes: int = MEGABYTES

    @classmethod
    def of(cls, share: float) -> Size:
        return cls(*(max(2, round(each * share)) for each in (WATCHES, FOLLOWS, IDLE, MEGABYTES)))


def bench_neighbours(seconds: float = SECONDS, share: float = 1.0) -> Tree:
    """``share``: the part of the crowd that comes. Raises ClickException where something does not begin in time."""
    size = Size.of(share)
    with own_server(("--node-capacity", "cpu=64,memory=64Gi")) as server:
        _set_up(server, size)
        endpoint = Endpoint(server.url, _token(server.client, "admin"), str(server.folder / "ca.crt"))
        _creates(endpoint, "warm", seconds / 5)
        without = _creates(endpoint, "without", seconds)
        with _crowd(server, size) as crowd:
            beside = _creates(endpoint, "beside", seconds)
            told = crowd()
        metrics = _metrics(server.client)
        peak = _peak_megabytes(server.pid)
    return {
        "name": "neighbours", **asdict(size), "writers": WRITERS, "seconds": seconds,
        "without": without, "beside": beside,
        "p99Ratio": round(beside["p99Ms"] / max(0.001, without["p99Ms"]), 2),
        "rssPeakMegabytes": peak, "crowd": told, "endedByServer": metrics,
        "cpus": len(os.sched_getaffinity(0)), "load": round(os.getloadavg()[0], 2),
        "python": platform.python_version(), "machine": platform.machine(),
    }  # fmt: skip


def print_neighbours(result: Tree) -> None:
    echo(f"creates of {result['writers']} clients, {result['seconds']:g} s each:")
    for key, words in (("without", "alone"), ("beside", "beside the crowd")):
        figures = result[key]
        echo(
            f"  {words:<18} p50 {figures['p50Ms']:>8} ms  p99 {figures['p99Ms']:>8} ms  {figures['creates']:>7} creates"
        )
    echo(f"  p99 beside / alone {result['p99Ratio']:>6}  (aim: {AIM_RATIO})")
    echo(f"most memory of the server: {result['rssPeakMegabytes']} MB  (aim: {AIM_MEGABYTES} MB)")
    crowd = result["crowd"]
    echo(
        f"the crowd: {crowd['watches']} watches, {crowd['follows']} follows, {crowd['idle']} idle connections open; "
        f"{crowd['refused']} refused, {crowd['bombs']} patches sent, {crowd['bombsRefused']} of them refused"
    )
    echo(f"{result['cpus']} cores, load {result['load']}; Python {result['python']} on {result['machine']}")


# --- what is needed ---------------------------------------------------------------------------------------------------


def _set_up(server: OwnServer, size: Size) -> None:
    client = server.client
    client.send("POST", "/api/v1/namespaces", body={"metadata": {"name": MANY}})
    for number in range(max(1, round(size.megabytes * 1_000_000 / 900_000))):
        tree = {"metadata": {"name": f"large-{number}"}, "data": {"text": "x" * 900_000}}
        client.send("POST", MAPS.format(MANY), body=tree)
    script = "while true; do echo a line that says how it goes; sleep 1; done"
    for number in range(LOGS):
        container = {"name": "main", "image": "bench", "command": ["sh", "-c", script]}
        spec = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 0, "containers": [container]}
        client.send("POST", PODS, body={"metadata": {"name": POD.format(number)}, "spec": spec})
    _wait(lambda: all(_phase(client, number) == "Running" for number in range(LOGS)), "the pods run")


def _phase(client: Client, number: int) -> str:
    return str(client.send("GET", f"{PODS}/{POD.format(number)}").tree().get("status", {}).get("phase", ""))


def _token(client: Client, role: Role) -> str:
    id_, secret = new_token()
    tree = json.loads(codec.encode(token_object(id_, secret, f"bench-{id_}", role)))
    client.send("POST", TOKENS, body=tree)
    return f"{id_}.{secret}"


def _wait(holds: Any, what: str) -> None:
    until = time.monotonic() + START_SECONDS
    while not holds():
        if time.monotonic() > until:
            raise click.ClickException(f"this did not happen within {START_SECONDS:g} s: {what}")
        time.sleep(LOOK_SECONDS)


# --- what is measured ------------------------------------------------------------------------------------------------


def _creates(endpoint: Endpoint, name: str, seconds: float) -> Tree:
    times: list[float] = []

    async def write(line: BenchConnection, number: int, until: float) -> None:
        head, count = endpoint.head("POST", MAPS.format("default")), 0
        while time.perf_counter() < until:
            began = time.perf_counter()
            code, answer = await line.send(head, config_map(f"{name}-{number}-{count}"))
            times.append(time.perf_counter() - began)
            count += 1
            if code != 201:
                raise RuntimeError(f"the server answered {code}: {answer[:200]!r}")

    async def play() -> None:
        async with connections(endpoint, WRITERS) as lines:
            until = time.perf_counter() + seconds
            await asyncio.gather(*(write(line, number, until) for number, line in enumerate(lines)))

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(play())
    return {
        "creates": len(times), "p50Ms": round(percentile(times, 50) * 1000, 2),
        "p99Ms": round(percentile(times, 99) * 1000, 2), "maxMs": round(max(times, default=0) * 1000, 2),
    }  # fmt: skip


@contextmanager
def _crowd(server: OwnServer, size: Size) -> Iterator[Any]:
    """The crowd in a process of its own, whose work is not counted as the server's; once all clients are there."""
    endpoint = Endpoint(server.url, "", str(server.folder / "ca.crt"))
    tokens = [_token(server.client, "viewer") for _ in range(-(-size.follows // FOLLOWS_PER_TOKEN))]
    crowd = Crowd(endpoint, size.watches, size.follows, size.idle, _token(server.client, "viewer"),
                  tokens, _token(server.client, "admin"), LOGS)  # fmt: skip
    process = subprocess.Popen(
        [sys.executable, "-c", COMMAND], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with process:
        assert process.stdin is not None
        assert process.stdout is not None
        say, hear = process.stdin, process.stdout

        def ask(what: str = "figures") -> Tree:
            say.write(f"{what}\n")
            say.flush()
            line = hear.readline()
            if not line:
                raise click.ClickException(f"the crowd ended with code {process.wait()}")
            told: Tree = json.loads(line)
            return told

        try:
            ask(json.dumps(asdict(crowd)))
            yield ask
        finally:
            say.close()


def _metrics(client: Client) -> Tree:
    """The connections that the server ended, by reason."""
    found = {}
    for line in client.send("GET", "/metrics").body.decode().splitlines():
        if line.startswith("makeway_connections_ended{"):
            found[line.partition('reason="')[2].partition('"')[0]] = int(line.rpartition(" ")[2])
    return found


def _peak_megabytes(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text("ascii").splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) // 1024
    return 0
