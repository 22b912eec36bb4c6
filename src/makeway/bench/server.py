"""The server side of a bench: a whole makeway in a process of its own, which is told what to prepare.

It reads commands from stdin, a line of JSON each, and answers with a line of JSON. What is prepared here goes into the
storage as one decision of many writes, so that the engine meets all of it at once.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from makeway.api.conditions import find, is_true
from makeway.api.objects.workload import Workload, WorkloadStatus
from makeway.bench.clients import Endpoint
from makeway.embedded.control_plane import ControlPlane, ControlPlaneSettings, own_process
from makeway.runtime.ports import Revision
from makeway.runtime.stores.rules import StoreRules

PIECE = 500  # objects in one decision
QUIET_SECONDS = 0.2
COMMAND = "from makeway.bench.server import serve; serve()"


# --- this side -------------------------------------------------------------------------------------------------------


class Server:
    """A server in another process."""

    def __init__(self, folder: Path) -> None:
        self.began = time.perf_counter()
        self._process = subprocess.Popen(
            [sys.executable, "-c", COMMAND, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        said = self._heard()
        self.start_seconds = time.perf_counter() - self.began
        self.endpoint = Endpoint(said["url"], said["token"], str(folder / "ca.crt"))

    def ask(self, what: str, **more: Any) -> Any:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"what": what, **more}) + "\n")
        self._process.stdin.flush()
        return self._heard()

    def _heard(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the server ended with code {self._process.wait()}")
        return json.loads(line)

    def __enter__(self) -> Server:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._process:  # the process ends with its stdin
            assert self._process.stdin is not None
            self._process.stdin.close()


# --- the other side --------------------------------------------------------------------------------------------------


def serve() -> None:
    """The other process: serve until stdin ends."""
    plane = ControlPlane(Path(sys.argv[1]), ControlPlaneSettings())
    with own_process():
        url = plane.start()
    _say({"url": url, "token": plane.token})
    prepared = _Prepared(plane)
    try:
        for line in sys.stdin:
            asked = json.loads(line)
            _say(getattr(prepared, asked.pop("what"))(**asked))
            if plane.failure is not None:
                raise plane.failure
    finally:
        plane.stop()


def _say(tree: Any) -> None:
    print(json.dumps(tree), flush=True)


class _Prepared:
    """The commands of the other process; each method is one."""

    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane
        self._changes: list[Revision] = []

    def load(self, trees: Sequence[dict[str, Any]]) -> int:
        """Create these, in as few decisions as possible."""
        store = self._plane.store
        for at in range(0, len(trees), PIECE):
            store.submit(_creating(trees[at : at + PIECE])).result()
        return len(trees)

    def crowd(self, tree: dict[str, Any], queues: Sequence[str], each: int) -> int:
        """Create so many equal workloads in each of these queues."""
        made: list[dict[str, Any]] = []
        for number in range(each):
            made += [_named(tree, f"{queue}-{number}", queue) for queue in queues]
        return self.load(made)

    def at_once(self, tree: dict[str, Any], queues: Sequence[str]) -> int:
        """Create a workload for each of these queues, as one decision: the engine meets all of them together."""
        prefix = tree["metadata"]["name"]
        trees = [_named(tree, f"{prefix}-{queue}", queue) for queue in queues]
        self._plane.store.submit(_creating(trees)).result()
        return len(trees)

    def settle(self) -> int:
        """Wait until the engine has had nothing to do for a while; return how many cycles there were so far."""
        engine = self._plane.live.engine
        while True:
            before = engine.cycles, engine.executor.writes
            time.sleep(QUIET_SECONDS)
            if (engine.cycles, engine.executor.writes) == before and engine.is_quiet:
                return engine.cycles

    def figures(self) -> dict[str, float]:
        """The resources that the process has used."""
        used = resource.getrusage(resource.RUSAGE_SELF)
        with open("/proc/self/statm", encoding="ascii") as file:
            pages = int(file.read().split()[1])
        megabytes = pages * os.sysconf("SC_PAGE_SIZE") / 2**20
        return {"cpuSeconds": used.ru_utime + used.ru_stime, "megabytes": megabytes}

    def listen(self) -> None:
        """Keep every change from here on, for ``told``."""
        self._plane.store.on_commit(self._changes.extend)

    def told(self) -> dict[str, Any]:
        """Writes since ``listen``, by kind of write; of Workloads that were not evicted also by writer."""
        return written(self._changes)

    def engine(self) -> dict[str, int]:
        live = self._plane.live
        engine = live.engine
        return {
            "cycles": engine.cycles, "decisions": engine.decisions, "engineWrites": engine.executor.writes,
            "eventsLost": live.recorder.lost,
        }  # fmt: skip


def _named(tree: dict[str, Any], name: str, queue: str) -> dict[str, Any]:
    return {
        **tree, "metadata": {**tree["metadata"], "name": name}, "spec": {**tree["spec"], "queueName": queue},
    }  # fmt: skip


def _creating(trees: Sequence[dict[str, Any]]) -> Callable[[StoreRules], None]:
    def create(ahead: StoreRules) -> None:
        for tree in trees:
            ahead.create(tree)

    return create


# --- what was written ------------------------------------------------------------------------------------------------


def written(changes: Sequence[Revision]) -> dict[str, Any]:
    counts: Counter[str] = Counter()
    of_workload: dict[str, Counter[str]] = {}
    for change in changes:
        what = kind_of_write(change)
        counts[what] += 1
        if change.after.kind.name == "Workload":
            of_workload.setdefault(change.after.uid, Counter())[what] += 1
    spared = [each for each in of_workload.values() if not each["Workload evicted"]]
    besides = [sum(each.values()) - each["Workload pending"] for each in spared]
    return {
        "writes": dict(sorted(counts.items())),
        "evictions": counts["Workload evicted"],
        "notEvicted": len(spared),
        "writesOfNotEvicted": round(sum(besides) / max(1, len(besides)), 3),
        "mostWritesOfNotEvicted": max(besides, default=0),
        "pendingOfNotEvicted": round(sum(each["Workload pending"] for each in spared) / max(1, len(spared)), 3),
    }


def kind_of_write(change: Revision) -> str:
    """Of a Workload what became of it, of all others kind and type."""
    kind = change.after.kind.name
    if kind != "Workload" or change.type != "MODIFIED" or change.before is None:
        return f"{kind} {change.type.lower()}"
    before, after = _status(change.before.value()), _status(change.after.value())
    for word, condition in (("finished", "Finished"), ("evicted", "Evicted"), ("admitted", "QuotaReserved")):
        if is_true(after.conditions, condition) and not is_true(before.conditions, condition):
            return f"Workload {word}"
    if before.admission is not None and after.admission is None:
        return "Workload released"
    reserved = find(after.conditions, "QuotaReserved")
    return "Workload pending" if reserved is not None and reserved.status == "False" else "Workload other"


def _status(workload: Workload) -> WorkloadStatus:
    return workload.status or WorkloadStatus()
