"""The embedded control plane: one process over one data folder.

Three threads: the HTTP loop, the writer of the storage, and the engine. The storage wakes the engine after commits. The
engine writes without waiting, and answers questions of the HTTP loop between its steps. An object that one of them
cannot handle is set aside (0081). A fatal error in one thread ends all: a server that answers but no longer decides
would only look healthy.
"""

from __future__ import annotations

import asyncio
import gc
import platform
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from types import TracebackType
from typing import TypeVar

from makeway import __version__
from makeway.adapters.server.access.certificates import certificate
from makeway.adapters.server.access.tokens import Access
from makeway.adapters.server.http.app import application
from makeway.adapters.server.http.limits import Limits
from makeway.adapters.server.http.serving import Serving
from makeway.adapters.server.resources.admission import AdmissionPlugins
from makeway.adapters.server.resources.pod_calls import PodLogs
from makeway.adapters.server.storage.beginning import admin_token, open_store
from makeway.adapters.server.storage.own_folder import write_own
from makeway.adapters.server.storage.store import SqliteStore
from makeway.api.objects.configuration import Configuration
from makeway.api.objects.kubernetes import Job
from makeway.api.reading.documents import Tree
from makeway.controllers.jobs.managed import why_unmanaged
from makeway.controllers.standard import standard
from makeway.core.lowering import policy_of
from makeway.core.policy import Policy
from makeway.embedded.timekeeping import Timekeeper
from makeway.runtime.informers import finder, watched_kinds
from makeway.runtime.live.driver import wall_clock
from makeway.runtime.live.engine import LiveEngine
from makeway.runtime.live.queries import Question, pending_workloads
from makeway.runtime.metrics.registry import MetricsRegistry
from makeway.runtime.ports import Unavailable

ADDRESS_FILE = "address"
KUBERNETES_MINOR = 37  # the version of this API; clients compare it with their own
SWITCH_SECONDS = 0.001  # less costs throughput, more delays everyone who watches
GC_YOUNG = 20_000  # objects made before the collector runs; nearly all are gone by then
STOP_SECONDS = 10.0
ANSWER_SECONDS = 10.0

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlPlaneSettings:
    """The parameters of a control plane, beside its data folder."""

    configuration: Configuration = field(default_factory=Configuration)
    host: str = "127.0.0.1"
    port: int = 0
    limits: Limits = field(default_factory=Limits)
    on_nodes: bool = False  # pods are made and placed here too


class ControlPlane:
    """``start`` returns once it serves, ``stop`` once nothing runs any more; acknowledged writes are stored."""

    def __init__(
        self, folder: Path, settings: ControlPlaneSettings, *, timekeeper: Timekeeper | None = None,
    ) -> None:  # fmt: skip
        """Raises ``DataFileRefused`` if the folder cannot be used, for example because another server has it."""
        self._settings = settings
        self._policy: Policy = policy_of(settings.configuration)
        self._folder = folder
        self._open = ExitStack()
        self.ended = Event()  # something failed, or a user wants it to end
        self.failure: BaseException | None = None
        self.url = ""
        self._time = timekeeper or Timekeeper(folder)
        self.clock = self._time.clock
        self.store = open_store(folder, self.clock, admission=AdmissionPlugins(self._manages))
        self._open.callback(self.store.close)
        self._find = finder(self.store)
        try:
            self.access = Access(self.store, wall_clock)
            self.token = admin_token(folder, self.access)
            self._certificate = certificate(folder, wall_clock(), [settings.host])
        except BaseException:
            self._open.close()
            raise
        self.live = self._live_engine()

    def _live_engine(self) -> LiveEngine:
        on_nodes = self._settings.on_nodes
        shown = self._settings.configuration.metrics
        metrics = MetricsRegistry(
            queue_resources=shown.enable_cluster_queue_resources, local_queues=shown.local_queue_metrics.enable,
            build={"platform": _platform()},
        )  # fmt: skip
        kinds = watched_kinds(on_nodes=on_nodes)
        return LiveEngine(
            self.store, self._policy, standard(on_nodes=on_nodes), self.clock, self.fail, metrics=metrics, kinds=kinds
        )

    # --- life ---

    def start(self, logs: PodLogs | None = None) -> str:
        """Return the address it serves, once the engine has read everything. Raises OSError if the address is not
        available.
        """
        try:
            self._time.start()
            self._open.callback(self._time.stop)
            extras = ServerExtras(self.store, self.live, logs)
            app = application(
                self.store, self.access, extras, self._settings.limits, self.clock,
                events_ms=self._settings.configuration.makeway.events.ttl.nanos // 1_000_000,
                gave_up=self.live.gave_up,
            )  # fmt: skip
            serving = Serving(
                app, self._certificate, host=self._settings.host, port=self._settings.port, date=wall_clock
            )
            host, port = serving.start()
            self._open.callback(serving.stop)
            self.live.start()
            self._open.callback(self.live.stop, STOP_SECONDS)
            self.url = f"https://{_reached(host)}:{port}"
            write_own(self._folder / ADDRESS_FILE, f"{self.url}\n".encode("ascii"))
            self._open.callback((self._folder / ADDRESS_FILE).unlink, missing_ok=True)
            self.live.read_all()
        except BaseException:
            self._open.close()
            raise
        return self.url

    def stop(self) -> None:
        """Stop the engine, then HTTP, then storage: each has handled the last call of the one before."""
        self._open.close()

    def __enter__(self) -> ControlPlane:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def fail(self, error: BaseException) -> None:
        """End everything, because a necessary part has ended; from any thread."""
        self.failure = error
        self.ended.set()

    def _manages(self, job: Job) -> bool:
        """Whether a Job begins suspended (api 18.1)."""
        return not why_unmanaged(job, self._policy.jobs, self._find)


class ServerExtras:
    """What the API server is told about the rest of the process; see ``adapters.server.http.app.Extras``."""

    def __init__(self, store: SqliteStore, live: LiveEngine, logs: PodLogs | None) -> None:
        self._store = store
        self._live = live
        self.logs = logs

    def version(self) -> Mapping[str, str]:
        python = ".".join(str(part) for part in sys.version_info[:3])
        return {
            "major": "1", "minor": str(KUBERNETES_MINOR),
            "gitVersion": f"v1.{KUBERNETES_MINOR}.0+makeway.{__version__}",
            "gitCommit": "", "gitTreeState": "", "buildDate": "", "goVersion": f"python{python}", "compiler": "cpython",
            "platform": _platform(),
        }  # fmt: skip

    def not_ready(self) -> str:
        return self._store.trouble or self._live.not_ready()

    async def metrics(self) -> bytes:
        metrics = self._live.metrics
        await self._asked(lambda view, now: metrics.refresh(view))
        return (await asyncio.to_thread(metrics.text)).encode()

    async def pending_workloads(
        self, namespace: str | None, queue: str, *, offset: int, limit: int
    ) -> Mapping[str, Tree] | None:
        return await self._asked(
            lambda view, now: pending_workloads(view, namespace, queue, offset=offset, limit=limit)
        )

    async def _asked(self, question: Question[T]) -> T:
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                return await asyncio.wrap_future(self._live.queries.ask(question))
        except TimeoutError:
            raise Unavailable("the engine is busy and has not answered in time") from None


@contextmanager
def own_process() -> Iterator[None]:
    """Tune a process that does nothing else; to be called at its start.

    A thread that computes for long must give way often. Objects that exist now are never scanned for garbage again:
    each scan would stop all threads.
    """
    sys.setswitchinterval(SWITCH_SECONDS)
    gc.disable()
    yield
    gc.freeze()
    gc.set_threshold(GC_YOUNG, 50, 100)
    gc.enable()


def _platform() -> str:
    machine = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    return f"{platform.system().lower()}/{machine}"


def _reached(host: str) -> str:
    """The listening address as a client on this machine reaches it."""
    if host in ("0.0.0.0", "::"):
        return "127.0.0.1" if host == "0.0.0.0" else "[::1]"
    return f"[{host}]" if ":" in host else host
