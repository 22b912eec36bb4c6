"""One makeway on one machine: storage, engine and HTTPS server over a data folder, from start to stop.

Three threads beside the one that waits for signals: the storage writes, the engine decides, the HTTP loop serves. They
share one interpreter, so who computes for long is interrupted every ``SWITCH_SECONDS`` for those who wait; a shorter
span costs throughput, a longer one is felt by everybody who watches (``makeway bench store``).

``stop`` ends in the order of the promises: nobody is served any more, the engine finishes its step, the storage commits
what waits. A process that is killed instead has lost nothing that was acknowledged.
"""

from __future__ import annotations

import asyncio
import gc
import os
import platform
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from makeway import __version__
from makeway.adapters.server.access import Access
from makeway.adapters.server.app import application
from makeway.adapters.server.beginning import admin_token, open_store
from makeway.adapters.server.certificates import certificate
from makeway.adapters.server.limits import Limits
from makeway.adapters.server.pod_calls import PodLogs
from makeway.adapters.server.serving import Serving
from makeway.adapters.server.storage import SqliteStore
from makeway.api.documents import Tree
from makeway.api.objects.configuration import Configuration
from makeway.api.quantity import Duration
from makeway.controllers.contract import Controller
from makeway.controllers.job_running import JobRunning
from makeway.controllers.over_quota import OverQuota
from makeway.controllers.queue_status import QueueStatus
from makeway.controllers.workloads import Workloads
from makeway.core.lowering.policy import policy_of
from makeway.core.model import Millis
from makeway.runtime.desk import Question, pending_workloads
from makeway.runtime.journal import Journal
from makeway.runtime.live import wall_clock
from makeway.runtime.live_engine import LiveEngine
from makeway.runtime.metrics import Metrics
from makeway.runtime.ports import Clock, Unavailable

PORT = 7443
HOST = "127.0.0.1"
ADDRESS_FILE = "address"  # says where the server of a data folder listens, while it does
SWITCH_SECONDS = 0.001
GC_YOUNG = 20_000  # objects made before they are looked through; nearly all are gone by then
STOP_SECONDS = 10.0
QUESTION_SECONDS = 10.0
KUBERNETES = ("1", "37")  # the version of Kubernetes whose protocol is spoken

T = TypeVar("T")
Failed = Callable[[BaseException], None]


def controllers() -> list[Controller]:
    """All that react, in the order in which they are told."""
    return [Workloads(), JobRunning(), OverQuota(), QueueStatus()]


@dataclass(frozen=True, slots=True)
class Settings:
    folder: Path
    host: str = HOST
    port: int = PORT  # 0: a free one
    configuration: Configuration = field(default_factory=Configuration)
    limits: Limits = field(default_factory=Limits)


class Installation:
    """``failed`` hears, in another thread, of an error that ended the engine: then nothing is decided any more."""

    def __init__(self, settings: Settings, failed: Failed, *, clock: Clock = wall_clock) -> None:
        self._settings = settings
        self._failed = failed
        self._clock = clock
        self._ends: list[Callable[[], object]] = []  # how to take back what was started, the last first
        self.url = ""
        self.token = ""
        self.store: SqliteStore
        self.live: LiveEngine

    def start(self) -> str:
        """The URL it serves at, once the engine has read everything.

        Raises DataFileRefused, and OSError where the address or the folder cannot be had.
        """
        settings = self._settings
        try:
            self.store = open_store(settings.folder, self._clock)
            self._ends.append(self.store.close)
            access = Access(self.store, self._clock)
            self.token = admin_token(settings.folder, access)
            self.live = self._engine()
            files = certificate(settings.folder, self._clock(), [settings.host])
            app = application(
                self.store, access, _Told(self.store, self.live), settings.limits, self._clock,
                events_ms=_millis(settings.configuration.makeway.events.ttl),
            )  # fmt: skip
            serving = Serving(app, files, host=settings.host, port=settings.port)
            host, port = serving.start()
            self._ends.append(serving.stop)
            self.live.start()
            self._ends.insert(1, self._stop_engine)
            self.url = f"https://{f'[{host}]' if ':' in host else host}:{port}"
            _write_address(settings.folder, self.url)
            self._ends.append(lambda: _forget_address(settings.folder))
            self.live.read_all()
        except BaseException:
            self.stop()
            raise
        return self.url

    def stop(self) -> None:
        while self._ends:
            self._ends.pop()()

    def _engine(self) -> LiveEngine:
        configuration = self._settings.configuration
        shown, kept = configuration.metrics, configuration.makeway.journal
        metrics = Metrics(
            queue_resources=shown.enable_cluster_queue_resources, local_queues=shown.local_queue_metrics.enable,
            build={"platform": _platform()},
        )  # fmt: skip
        journal = Journal(max_age_ms=_millis(kept.max_age), max_bytes=kept.max_size.nano // 10**9)
        return LiveEngine(
            self.store, policy_of(configuration), controllers(), self._clock, self._failed, metrics=metrics,
            journal=journal,
        )  # fmt: skip

    def _stop_engine(self) -> None:
        self.live.stop(STOP_SECONDS)


@contextmanager
def own_process() -> Iterator[None]:
    """Start within this, in a process that does nothing else.

    What is read at the start stays: to look through it for circles again and again would stop all threads.
    """
    sys.setswitchinterval(SWITCH_SECONDS)
    gc.disable()
    yield
    gc.freeze()
    gc.set_threshold(GC_YOUNG, 50, 100)
    gc.enable()


class _Told:
    """What the server is told about the rest of the process."""

    def __init__(self, store: SqliteStore, live: LiveEngine) -> None:
        self._store = store
        self._live = live

    @property
    def logs(self) -> PodLogs | None:
        return None

    def version(self) -> Mapping[str, str]:
        major, minor = KUBERNETES
        return {
            "major": major, "minor": minor, "gitVersion": f"v{major}.{minor}.0+makeway-{__version__}",
            "gitCommit": "", "gitTreeState": "clean", "buildDate": "", "goVersion": "", "compiler": "",
            "platform": _platform(),
        }  # fmt: skip

    def not_ready(self) -> str:
        return self._store.trouble or self._live.not_ready()

    async def metrics(self) -> bytes:
        metrics = self._live.metrics
        await self._ask(lambda view, now: metrics.refresh(view))
        text = await asyncio.get_running_loop().run_in_executor(None, metrics.text)
        return text.encode()

    async def pending_workloads(
        self, namespace: str | None, queue: str, *, offset: int, limit: int
    ) -> Mapping[str, Tree] | None:
        return await self._ask(lambda view, now: pending_workloads(view, namespace, queue, offset=offset, limit=limit))

    async def _ask(self, question: Question[T]) -> T:
        try:
            return await asyncio.wait_for(asyncio.wrap_future(self._live.desk.ask(question)), QUESTION_SECONDS)
        except TimeoutError:
            raise Unavailable("the engine is busy", Millis(1000)) from None


def _millis(span: Duration) -> int:
    return span.nanos // 1_000_000


def _platform() -> str:
    machine = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    return f"{platform.system().lower()}/{machine}"


# --- where it listens ------------------------------------------------------------------------------------------------


def _write_address(folder: Path, url: str) -> None:
    """Whole or not at all: others read it at any time."""
    beside = folder / f".{ADDRESS_FILE}.new"
    beside.write_text(f"{url}\n", "ascii")
    os.replace(beside, folder / ADDRESS_FILE)


def _forget_address(folder: Path) -> None:
    with suppress(OSError):
        (folder / ADDRESS_FILE).unlink()
