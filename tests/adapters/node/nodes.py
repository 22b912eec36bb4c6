"""A node agent over a Store in memory, with real processes: pods in, statuses out."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from makeway.adapters.node.agent import Agent, GaveUp
from makeway.adapters.node.launching import Launcher
from makeway.adapters.node.machine import AgentSettings, Offer, base_environment, offers_of
from makeway.adapters.node.objects import PODS
from makeway.adapters.node.supervision import processes
from makeway.adapters.simulator.store import MemoryStore
from makeway.api.quantity import Quantity
from makeway.api.versions import find_kind
from makeway.controllers.contract import Note
from makeway.core.model import Millis
from makeway.runtime.executor import DirectWriter
from makeway.runtime.ports import NotFound, SeededNames
from tests.adapters.node.pods import LONG_S

Tree = dict[str, Any]
NODE = Offer("here", {"cpu": Quantity.parse("64")})


def clock() -> Millis:
    return Millis(time.time_ns() // 1_000_000)


class TestNode:
    __test__ = False

    def __init__(self, root: Path, launcher: Launcher, *, gpus: tuple[str, ...] = (), **settings: Any) -> None:
        self.root = root
        self.launcher = launcher
        self.store = MemoryStore(clock, SeededNames(secrets.randbits(64)))
        self.notes: list[Note] = []
        self.gave_up: GaveUp | None = None
        self.ahead_ms = 0  # added to the clock, if a test does not want to wait
        self.settings = AgentSettings(root, offers_of((NODE,), gpus), base=base_environment(), **settings)
        self.agent = self.new_agent()

    def new_agent(self) -> Agent:
        writer = DirectWriter(self.store)
        return Agent(self.store, writer, self.settings, self.notes.append, self.launcher, self.gave_up)

    def restart(self) -> None:
        """Start another agent over the same Store and folders, as after a crash of the first."""
        self.agent._line.close()
        self.agent = self.new_agent()

    # --- objects ---

    def create(self, tree: Tree) -> None:
        self.store.create(tree)

    def pod(self, name: str, *containers: Tree, **spec: Any) -> None:
        self.store.create({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"},
            "spec": {
                "containers": list(containers), "restartPolicy": "Never", "nodeName": "here",
                "terminationGracePeriodSeconds": 5, **spec,
            },
        })  # fmt: skip

    def run(self, name: str, script: str, **spec: Any) -> None:
        self.pod(name, {"name": "work", "image": "busybox", "command": ["sh", "-c", script]}, **spec)

    def delete(self, name: str, **options: Any) -> None:
        self.store.delete(PODS, "default", name, **options)

    def status(self, name: str) -> Tree:
        found: Tree = msgspec.json.decode(self.store.get(PODS, "default", name).value().status)
        return found

    def phase(self, name: str) -> str:
        return str(self.status(name).get("phase", "Pending"))

    def state(self, name: str, container: int = 0) -> Tree:
        statuses = self.status(name).get("containerStatuses") or [{"state": {}}] * (container + 1)
        found: Tree = statuses[container]["state"]
        return found

    def exit_code(self, name: str) -> int:
        found: int = self.state(name)["terminated"]["exitCode"]
        return found

    def is_gone(self, name: str) -> bool:
        try:
            self.store.get(PODS, "default", name)
        except NotFound:
            return True
        return False

    def folders(self) -> list[str]:
        return sorted(path.name for path in self.root.iterdir() if path.is_dir())

    def object(self, api_version: str, kind: str, name: str, namespace: str = "") -> Tree:
        found = find_kind(api_version, kind)
        assert found is not None
        return self.store.get(found, namespace, name).tree()

    # --- time ---

    def until(self, what: Callable[[], bool], seconds: float = LONG_S) -> None:
        """Step the agent until the condition holds."""
        end = time.monotonic() + seconds
        while True:
            busy = self.step()
            if what():
                return
            assert time.monotonic() < end, f"this did not happen within {seconds} s; pods: {self._told()}"
            if not busy:
                time.sleep(0.003)

    def step(self) -> bool:
        return self.agent.step(Millis(clock() + self.ahead_ms))

    def until_phase(self, name: str, phase: str) -> None:
        self.until(lambda: self.phase(name) == phase)

    def _told(self) -> list[tuple[str, Tree]]:
        return [(each.name, self.status(each.name)) for each in self.store.list(PODS).items]

    def close(self) -> None:
        """Delete all pods; no process of them may be left."""
        uids = self.folders()
        for each in self.store.list(PODS).items:
            self.delete(each.name, grace=0)
        self.until(lambda: not self.folders())
        self.agent._line.close()
        left = [each for uid in uids for each in processes.of_pod(uid)]
        assert not left, f"processes were left behind: {left}"
