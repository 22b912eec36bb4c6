"""Runs pods on the machine that serves: the node agent in a thread of its own, beside the engine and the HTTP loop.

It has a thread of its own because it reads and writes files: a slow disk must not delay decisions and answers. It is
woken when pods were written, when a supervisor has news, and when a timer is due.
"""

from __future__ import annotations

import os
import select
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread

from makeway.adapters.node.agent import Agent, GaveUp
from makeway.adapters.node.launching import Launcher
from makeway.adapters.node.machine import AgentSettings, Offer, base_environment, find_gpus, offers_of
from makeway.adapters.server.storage.store import SqliteStore
from makeway.api.objects.kubernetes import Pod
from makeway.api.versions import kind_of
from makeway.controllers.contract import Note
from makeway.runtime.live.writer import LiveWriter
from makeway.runtime.ports import Clock, Revision, kind_key

FOLDER = "pods"
PAUSE_MAX_MS = 1000
STOP_SECONDS = 10.0
PODS = kind_key(kind_of(Pod))


@dataclass(frozen=True, slots=True)
class NodeSettings:
    """The parameters of the local node."""

    offers: Sequence[Offer] = ()  # none: one Node with all that the machine has
    images: Mapping[str, Sequence[str]] = field(default_factory=dict)


class LocalNode:
    """``failed`` is called in the agent's thread with an error that ended it; ``Launcher`` explains ``files``."""

    def __init__(
        self, folder: Path, store: SqliteStore, settings: NodeSettings, clock: Clock, *, tell: Callable[[Note], None],
        failed: Callable[[BaseException], None], gave_up: GaveUp | None = None,
        files: tuple[int, int] | None = None,
    ) -> None:  # fmt: skip
        root = (folder / FOLDER).absolute()  # supervisors have working directories of their own
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._store = store
        self._clock = clock
        self._failed = failed
        self._heard, self._called = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._is_stopping = False
        offers = offers_of(settings.offers, find_gpus())
        chosen = AgentSettings(root, offers, settings.images, base_environment())
        self.agent = Agent(store, LiveWriter(store.submit, self.call), chosen, tell, Launcher(files), gave_up=gave_up)
        self._thread = Thread(target=self._run, name="makeway-node", daemon=True)

    def start(self) -> None:
        self.agent.prepare()
        self._store.on_commit(self._committed)
        self._thread.start()

    def stop(self) -> None:
        """Stop the agent. Pods keep running; the next server finds them."""
        self._is_stopping = True
        self.call()
        if self._thread.is_alive():
            self._thread.join(STOP_SECONDS)
        else:
            self._close()

    def call(self) -> None:
        """Wake it; from any thread."""
        with suppress(OSError):  # full: it is awake already; closed: it has ended
            os.write(self._called, b"x")

    def _committed(self, changes: Sequence[Revision]) -> None:
        if any(kind_key(each.after.kind) == PODS for each in changes):
            self.call()

    def _run(self) -> None:
        try:
            while not self._is_stopping:
                if not self.agent.step(self._clock()):
                    self._wait()
        except BaseException as error:  # the last place that can report it
            self._failed(error)
        finally:
            self._close()

    def _close(self) -> None:
        if self._called >= 0:
            self.agent.close()
            called, self._called = self._called, -1
            os.close(called)
            os.close(self._heard)

    def _wait(self) -> None:
        due = self.agent.next_at()
        pause = PAUSE_MAX_MS if due is None else max(0, min(PAUSE_MAX_MS, due - self._clock()))
        poll = select.poll()
        for file in (self._heard, *self.agent.files):
            poll.register(file, select.POLLIN)
        for file, _ in poll.poll(pause):
            if file == self._heard:
                with suppress(BlockingIOError):
                    os.read(self._heard, 4096)
