"""kill -9 at any time under load: acknowledged writes are there, no quota is given twice, and work goes on.

The server is the real ``makeway up`` in a process of its own, forked by a launcher that has imported everything; so a
hundred starts cost little more than reading the data a hundred times.
"""

from __future__ import annotations

import os
import random
import signal
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from threading import Event, Thread
from typing import Any

import httpx2
import pytest

from tests.cli.living import WORKLOADS, finished, flavor, path_of, queue, true_conditions, until, workload
from tests.soaking import InTime

ROOT = Path(__file__).parents[2]
INPUTS_PER_KILL = 200
WRITERS = 3
KILLS_PER_CLEARING = 25  # so that many kills do not need many objects
SPANS = (0.05, 0.5)  # seconds of load before a kill
QUOTA = {"q": 3, "p": 2}
END_SECONDS = 60

LAUNCHER = """
import os, signal, sys
from makeway.cli.server import serve
from makeway.cli.main import main

for line in sys.stdin:
    pid = os.fork()
    if pid == 0:
        main(["up", "--port", "0", "--no-node", "--data", line.strip()])
    print(f"process {pid}", flush=True)
    os.waitpid(pid, 0)
    print("gone", flush=True)
"""


@pytest.fixture
def launcher() -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-u", "-c", LAUNCHER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")}, start_new_session=True,
    )  # fmt: skip
    with process:
        try:
            yield process
        finally:
            os.killpg(process.pid, signal.SIGKILL)  # and the server, if a test failed before its end


def lines(process: subprocess.Popen[str], last: Callable[[str], bool]) -> list[str]:
    found: list[str] = []
    assert process.stdout is not None
    for line in process.stdout:
        found.append(line.strip())
        if last(found[-1]):
            break
    return found


class Server:
    """One life of the server, ended by ``kill``."""

    def __init__(self, launcher: subprocess.Popen[str], folder: Path) -> None:
        self._launcher = launcher
        assert launcher.stdin is not None
        launcher.stdin.write(f"{folder}\n")
        launcher.stdin.flush()
        said = lines(launcher, lambda line: line.startswith("Ctrl-C"))
        self._process = next(int(line.split()[1]) for line in said if line.startswith("process "))
        self.url = next(line.split()[2] for line in said if line.startswith("makeway serves "))
        self._trust = ssl.create_default_context(cafile=str(folder / "ca.crt"))
        self._headers = {"authorization": f"Bearer {(folder / 'admin.token').read_text().strip()}"}

    def client(self) -> httpx2.Client:
        return httpx2.Client(base_url=self.url, verify=self._trust, headers=self._headers, timeout=30)

    def kill(self, number: signal.Signals = signal.SIGKILL) -> None:
        os.kill(self._process, number)
        lines(self._launcher, lambda line: line == "gone")


# --- what was acknowledged --------------------------------------------------------------------------------------------


@dataclass
class Acknowledged:
    """What clients were told, by name. Each thread writes its own names."""

    created: dict[str, Any] = field(default_factory=dict)
    going: set[str] = field(default_factory=set)  # a delete was sent; its outcome is unknown
    gone: set[str] = field(default_factory=set)
    finished: set[str] = field(default_factory=set)
    admitted: dict[str, Any] = field(default_factory=dict)  # seen with this admission, in a queue without preemption

    def check(self, stored: list[Any]) -> None:
        there = {each["metadata"]["name"]: each for each in stored}
        for name, tree in self.created.items():
            if name in self.gone:
                assert name not in there, f"{name} was deleted"
            elif name not in self.going:
                assert there[name]["metadata"]["uid"] == tree["metadata"]["uid"]
                assert there[name]["spec"] == tree["spec"]
        for name in self.finished - self.going:
            assert "Finished" in true_conditions(there[name]), f"{name} had finished"
        for name, admission in self.admitted.items():
            if name not in self.going and "Finished" not in true_conditions(there[name]):
                assert there[name]["status"].get("admission") == admission, f"{name} was admitted once"
        for queue_name, quota in QUOTA.items():
            assert used(stored, queue_name) <= quota, f"{queue_name} is given away twice"


def holds(tree: Any) -> bool:
    return "QuotaReserved" in true_conditions(tree) and "Finished" not in true_conditions(tree)


def used(stored: list[Any], queue_name: str) -> int:
    usages = [
        int(part["resourceUsage"]["cpu"])
        for each in stored
        if holds(each) and each["status"]["admission"]["clusterQueue"] == queue_name
        for part in each["status"]["admission"]["podSetAssignments"]
    ]
    return sum(usages)


# --- load -------------------------------------------------------------------------------------------------------------


def write(told: Acknowledged, over: Event, prefix: str, seed: int, client: httpx2.Client) -> None:
    dice = random.Random(seed)
    for i in range(10_000):
        if over.is_set():
            return
        name = f"{prefix}-{i}"
        tree = workload(name, queue=dice.choice(["q", "p"]), priority=dice.choice([0, 0, 5]))
        answer = client.post(path_of(tree), json=tree)
        assert answer.status_code == 201, answer.text
        told.created[name] = answer.json()
        if i % 5 == 4:
            victim = f"{prefix}-{i - 2}"
            told.going.add(victim)
            answer = client.delete(f"{WORKLOADS}/{victim}")
            assert answer.status_code == 200, answer.text


def finish(told: Acknowledged, over: Event, client: httpx2.Client) -> None:
    """Let running workloads finish."""
    while not over.is_set():
        for each in client.get(WORKLOADS).json()["items"]:
            name = each["metadata"]["name"]
            if not holds(each) or "Evicted" in true_conditions(each) or name in told.going:
                continue
            if each["status"]["admission"]["clusterQueue"] == "q":
                told.admitted[name] = each["status"]["admission"]
            change = {
                "metadata": {"resourceVersion": each["metadata"]["resourceVersion"]},
                "status": {"conditions": [*each["status"]["conditions"], finished()]},
            }
            headers = {"content-type": "application/merge-patch+json"}
            answer = client.patch(f"{WORKLOADS}/{name}/status", json=change, headers=headers)
            assert answer.status_code in (200, 404, 409), answer.text
            if answer.status_code == 200:
                told.finished.add(name)


@contextmanager
def load(server: Server, told: Acknowledged, turn: int) -> Iterator[None]:
    """Clients at work, whose server is killed meanwhile."""
    over, errors = Event(), []

    def until_it_is_gone(work: Callable[[httpx2.Client], None]) -> None:
        try:
            with server.client() as client:
                work(client)
        except httpx2.TransportError:
            pass
        except BaseException as error:
            errors.append(error)

    works: list[Callable[[httpx2.Client], None]] = [
        partial(finish, told, over),
        *(partial(write, told, over, f"w-{turn}-{i}", turn * WRITERS + i) for i in range(WRITERS)),
    ]
    threads = [Thread(target=until_it_is_gone, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join(END_SECONDS)
    assert errors == []


def cleared(client: httpx2.Client, told: Acknowledged) -> Acknowledged:
    """Delete all objects, and forget what was told of them except for the figures at the test's end."""
    assert client.delete(WORKLOADS).status_code == 200
    until(lambda: client.get(WORKLOADS).json()["items"] == [], "the end of all Workloads")
    names = told.created.keys() | told.finished  # some were seen to finish although their create was never answered
    return Acknowledged(created=told.created, gone=names, finished=told.finished, going=set(names))


@pytest.mark.slow
@pytest.mark.property
def test_a_kill_loses_nothing_and_doubles_nothing(
    launcher: subprocess.Popen[str], tmp_path: Path, fuzz_inputs: int, fuzz_seed: int, in_time: InTime
) -> None:
    dice = random.Random(fuzz_seed)
    told = Acknowledged()
    server = Server(launcher, tmp_path)
    with server.client() as client:
        preempts = {"preemption": {"withinClusterQueue": "LowerPriority"}}
        for tree in (flavor(), *queue("q", cpu=QUOTA["q"]), *queue("p", cpu=QUOTA["p"], **preempts)):
            assert client.post(path_of(tree), json=tree).status_code == 201
    kills = 0
    for turn in in_time(range(int(os.environ.get("MAKEWAY_KILLS") or fuzz_inputs // INPUTS_PER_KILL))):
        with load(server, told, turn):
            time.sleep(dice.uniform(*SPANS))
            server.kill()
        kills += 1
        server = Server(launcher, tmp_path)
        with server.client() as client:
            told.check(client.get(WORKLOADS).json()["items"])
            if kills % KILLS_PER_CLEARING == 0:
                told = cleared(client, told)
    with server.client() as client:
        for name in sorted(told.created.keys() - told.gone):  # waiting workloads have their turn
            client.delete(f"{WORKLOADS}/{name}")
        for i in range(4):
            tree = workload(f"last-{i}")
            assert client.post(path_of(tree), json=tree).status_code == 201
        until(lambda: used(client.get(WORKLOADS).json()["items"], "q") == QUOTA["q"], "the next decision")
    server.kill(signal.SIGTERM)
    assert told.created or not kills
    assert told.finished or not kills
