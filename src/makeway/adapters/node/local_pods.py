"""The pods of this machine: what is known of each, when it is reconciled next, and which notes become events."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass

from makeway.adapters.node.folders import PodFolder
from makeway.adapters.node.statuses import SupervisorLost
from makeway.adapters.node.supervision.records import PodRecord
from makeway.controllers.contract import POD, Note, Ref
from makeway.core.model import Millis
from makeway.runtime.ports import Stored
from makeway.runtime.workqueue import ReconcileQueue, Timers

LOOKS_PER_STEP = 200


@dataclass(slots=True)
class LocalPod:
    """A pod that is here, or was."""

    folder: PodFolder
    stored: Stored | None = None  # None: there is no object (any more)
    record: PodRecord | None = None
    lost: SupervisorLost | None = None
    asked_at: Millis | None = None  # when a supervisor was last requested
    asks: int = 0
    start_at: Millis | None = None  # no supervisor is requested before this
    sweeps: int = 0  # checks of a lost supervisor's processes
    is_passed_by: bool = False  # its supervisor was killed because it did not end the pod in time
    waits: str = ""  # the last reported reason for waiting
    is_writing: bool = False
    failures: int = 0  # of writes, in a row
    is_refused: bool = False  # its status was refused, for example for its size: it goes without
    troubles: int = 0  # failed reconciles in a row
    told: int = 0  # the number of the last note that became an event
    devices: tuple[str, ...] = ()

    @classmethod
    def adopted(cls, folder: PodFolder) -> LocalPod:
        """Return the pod of a folder from an earlier agent; its notes up to now were reported then."""
        plan, record = folder.plan(), None
        with suppress(OSError, ValueError, KeyError, TypeError):
            record = folder.record()
        told = max((note.number for note in record.notes), default=0) if record is not None else 0
        return cls(folder, record=record, told=told, devices=plan.devices if plan is not None else ())

    @property
    def uid(self) -> str:
        return self.folder.uid

    @property
    def ref(self) -> Ref:
        assert self.stored is not None
        return Ref(POD, self.stored.namespace, self.stored.name)

    @property
    def is_over(self) -> bool:
        """Whether no process is left, and none will come."""
        return self.lost is not None or (self.record is not None and self.record.finished_ms is not None)


class LocalPods:
    """The pods by uid, and when each is reconciled next."""

    def __init__(self) -> None:
        self.by_uid: dict[str, LocalPod] = {}
        self._soon: ReconcileQueue[str] = ReconcileQueue()
        self._later: Timers[str] = Timers()

    def add(self, local: LocalPod) -> LocalPod:
        self.by_uid[local.uid] = local
        return local

    def remove(self, local: LocalPod) -> None:
        self._later.set(local.uid, None)
        del self.by_uid[local.uid]

    def look_soon(self, uid: str) -> None:
        if uid in self.by_uid:
            self._soon.add(uid)

    def look_at(self, local: LocalPod, at: int) -> None:
        self._later.set(local.uid, Millis(at))

    @property
    def has_more(self) -> bool:
        """Whether a pod is due now."""
        return len(self._soon) > 0

    def next_at(self) -> Millis | None:
        return self._later.next_at()

    def take(self, now: Millis) -> Iterator[LocalPod]:
        """Return the due pods, without those with a write under way: its answer comes first."""
        for uid in self._later.due(now):
            self.look_soon(uid)
        for _ in range(min(len(self._soon), LOOKS_PER_STEP)):
            local = self.by_uid.get(self._soon.take())
            if local is not None and not local.is_writing:
                yield local


class PodEvents:
    """``tell`` takes notes that become events."""

    def __init__(self, tell: Callable[[Note], None]) -> None:
        self._tell = tell

    def add(self, local: LocalPod, reason: str, message: str, *, is_warning: bool = False) -> None:
        self._tell(Note(local.ref, "Warning" if is_warning else "Normal", reason, message))

    def pass_on(self, local: LocalPod) -> None:
        """Report the supervisor's notes since the last call."""
        assert local.record is not None
        for note in local.record.notes:
            if note.number > local.told:
                self.add(local, note.reason, note.message, is_warning=note.is_warning)
                local.told = note.number
