"""The embedded control plane: one process over one data folder.

Three threads: the HTTP loop, the storage's writer, and the engine. The engine is called by the storage when something
was committed, writes without waiting, and answers questions of the HTTP loop at its desk. What one of them cannot
survive ends all: a server that answers but no longer decides would only look healthy.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from types import TracebackType
from typing import TypeVar

from makeway import __version__
from makeway.adapters.server.access import Access
from makeway.adapters.server.admission import Admission
from makeway.adapters.server.app import application
from makeway.adapters.server.beginning import admin_token, open_store
from makeway.adapters.server.certificates import certificate
from makeway.adapters.server.limits import Limits
from makeway.adapters.server.pod_calls import PodLogs
from makeway.adapters.server.serving import Serving
from makeway.api.documents import Tree
from makeway.api.names import DEFAULT_NAMESPACE
from makeway.api.objects.kubernetes import Job, Namespace
from makeway.api.versions import kind_of
from makeway.controllers.contract import Controller, Note, View
from makeway.controllers.job_running import JobRunning
from makeway.controllers.jobs import why_unmanaged
from makeway.controllers.over_quota import OverQuota
from makeway.controllers.queue_status import QueueStatus
from makeway.controllers.workloads import Workloads
from makeway.core.model import Millis
from makeway.core.policy import Policy
from makeway.runtime.desk import Desk, Question, pending_workloads
from makeway.runtime.engine import Engine
from makeway.runtime.events import Recorder
from makeway.runtime.informers import watched_kinds
from makeway.runtime.live import Live, LiveThread, wall_clock
from makeway.runtime.live_writer import LiveWriter
from makeway.runtime.metrics import Metrics
from makeway.runtime.ports import NotFound, Unavailable
from makeway.runtime.virtual import Actor

ADDRESS_FILE = "address"
KUBERNETES_MINOR = 37  # whose API this is; clients compare it with their own
POLL_MS = 30_000  # the storage calls; this only notices that the machine slept or its clock was set
STOP_SECONDS = 10.0
ANSWER_SECONDS = 10.0
NAMESPACES = kind_of(Namespace)

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What a control plane is made of, beside its data folder."""

    policy: Policy = field(default_factory=Policy.default)
    host: str = "127.0.0.1"
    port: int = 0
    limits: Limits = field(default_factory=Limits)


class ControlPlane:
    """``start`` returns once it serves, ``stop`` once nothing runs any more; what was acknowledged is stored."""

    def __init__(self, folder: Path, settings: Settings, *, controllers: Sequence[Controller] = ()) -> None:
        """Raises ``DataFileRefused`` where the folder cannot be used, also because another server has it."""
        self._settings = settings
        self._folder = folder
        self._open = ExitStack()
        self.ended = Event()  # something failed, or somebody wants it to end
        self.failure: BaseException | None = None
        self.url = ""
        self.store = open_store(folder, wall_clock, admission=Admission(self._manages))
        self._open.callback(self.store.close)
        try:
            self.access = Access(self.store)
            self.token = admin_token(folder, self.access)
            self._certificate = certificate(folder, wall_clock(), [settings.host])
        except BaseException:
            self._open.close()
            raise
        self.engine = self._engine(controllers)
        self.desk = Desk(self.engine, self._poke)
        recorder = Recorder(self.engine.notes, self.engine.get, self.store.submit, self._poke)
        self._live = Live(wall_clock, [self.engine, self.desk, recorder], poll_ms=POLL_MS)
        self._thread = LiveThread(self._live, self.fail)

    def _engine(self, more: Sequence[Controller]) -> Engine:
        policy = self._settings.policy
        react: list[Controller] = [Workloads(lambda _: 0), JobRunning(), OverQuota(), QueueStatus(), *more]
        writer = LiveWriter(self.store.submit, self._poke)
        kinds = watched_kinds(on_nodes=bool(more))
        return Engine(self.store, policy, react, writer=writer, metrics=Metrics(), kinds=kinds)

    def _poke(self) -> None:
        self._live.poke()

    def tell(self, note: Note) -> None:
        """Let a note of somebody else become an Event; from any thread."""
        self.engine.notes.append(note)
        self._poke()

    def add(self, actor: Actor) -> None:
        """Let ``actor`` take its turns beside the engine; before ``start``."""
        self._live.add(actor)

    # --- life ---

    def start(self, logs: PodLogs | None = None) -> str:
        """The address it serves. Raises OSError where that cannot be had."""
        try:
            extras = Extras(self.engine, self.desk, self._thread, logs)
            app = application(self.store, self.access, extras, self._settings.limits, wall_clock)
            serving = Serving(app, self._certificate, host=self._settings.host, port=self._settings.port)
            host, port = serving.start()
            self._open.callback(serving.stop)
            self.store.on_commit(lambda changes: self._poke())
            self._thread.start()
            self._open.callback(self._stop_engine)
            self.url = f"https://{_reached(host)}:{port}"
            _write(self._folder / ADDRESS_FILE, self.url)
            self._open.callback((self._folder / ADDRESS_FILE).unlink, missing_ok=True)
        except BaseException:
            self._open.close()
            raise
        return self.url

    def stop(self) -> None:
        """Engine, then HTTP, then storage: each has heard the last of the one before."""
        self._open.close()

    def __enter__(self) -> ControlPlane:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _stop_engine(self) -> None:
        self._thread.stop(STOP_SECONDS)
        self.desk.close()

    def fail(self, error: BaseException) -> None:
        """Something that the rest cannot do without has ended; from any thread."""
        self.failure = error
        self.ended.set()

    def _manages(self, job: Job) -> bool:
        """Whether a Job begins suspended (api 18.1)."""
        labels: Mapping[str, str] = {}
        with suppress(NotFound):
            labels = self.store.get(NAMESPACES, "", job.metadata.namespace or DEFAULT_NAMESPACE).labels
        return not why_unmanaged(job.metadata, self._settings.policy.jobs, labels)


class Extras:
    """What the API server is told about the rest of the process; see ``adapters.server.app.Extras``."""

    def __init__(self, engine: Engine, desk: Desk, thread: LiveThread, logs: PodLogs | None) -> None:
        self._engine = engine
        self._desk = desk
        self._thread = thread
        self.logs = logs

    def version(self) -> Mapping[str, str]:
        python = ".".join(str(part) for part in sys.version_info[:3])
        return {
            "major": "1", "minor": str(KUBERNETES_MINOR),
            "gitVersion": f"v1.{KUBERNETES_MINOR}.0+makeway.{__version__}",
            "gitCommit": "", "gitTreeState": "", "buildDate": "", "goVersion": f"python{python}", "compiler": "cpython",
            "platform": f"{sys.platform}/{os.uname().machine}",
        }  # fmt: skip

    def not_ready(self) -> str:
        if not self._thread.is_alive:
            return "the engine does not run"
        return "" if self._engine.informers.are_complete else "the engine has not read all objects yet"

    async def metrics(self) -> bytes:
        def text(view: View, now: Millis) -> str:
            assert self._engine.metrics is not None
            self._engine.metrics.refresh(view)
            return self._engine.metrics.text()

        return (await self._asked(text)).encode()

    async def pending_workloads(
        self, namespace: str | None, queue: str, *, offset: int, limit: int
    ) -> Mapping[str, Tree] | None:
        return await self._asked(
            lambda view, now: pending_workloads(view, namespace, queue, offset=offset, limit=limit)
        )

    async def _asked(self, question: Question[T]) -> T:
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                return await asyncio.wrap_future(self._desk.ask(question))
        except TimeoutError:
            raise Unavailable("the engine is busy and has not answered in time") from None


def _reached(host: str) -> str:
    """The listening address as somebody on this machine reaches it."""
    if host in ("0.0.0.0", "::"):
        return "127.0.0.1" if host == "0.0.0.0" else "[::1]"
    return f"[{host}]" if ":" in host else host


def _write(path: Path, text: str) -> None:
    """Whole or not at all: other processes read it."""
    beside = path.with_name(f".{path.name}.new")
    beside.write_text(f"{text}\n", "ascii")
    os.replace(beside, path)
