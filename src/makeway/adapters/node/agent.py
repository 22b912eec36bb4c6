"""The node agent: pods that are bound here become supervisors, and what these record becomes the status of the pods.

For each pod it knows the object as it was last seen, and the record in the pod's folder. A look compares the two and
does at most one thing: start it, tell of it, order it to end, remove it. Nothing is remembered that could not be read
again: an agent that comes back finds the pods in the Store, the folders on the disk, and the supervisors at work.

- A pod is started once: its folder is the proof.
- A pod that is deleted gets its grace period, and its object goes when no process is left.
- A folder without an object is ended at once, and removed.
- A supervisor that is gone without a last record is lost: what it left is killed, and the pod has failed.
- A supervisor that does not end its pod in time is passed by: it and all below it are killed.

One thread at a time; ``step`` never waits. Whoever drives it calls it when ``files`` can be read, when the Store has
news, and at ``next_at``.
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
from msgspec.structs import replace

from makeway.adapters.node.environment import NotThere
from makeway.adapters.node.fields import NodeContext, gpus_in, joined, planned
from makeway.adapters.node.folders import PodFolder
from makeway.adapters.node.heartbeat import Heartbeat
from makeway.adapters.node.launching import Launcher
from makeway.adapters.node.machine import Offer
from makeway.adapters.node.objects import PODS, PodFeed, StoredSources
from makeway.adapters.node.statuses import (
    SupervisorLost,
    dated,
    lost_supervisor,
    status_of,
    stuck_supervisor,
    waiting_status,
)
from makeway.adapters.node.supervision import processes
from makeway.adapters.node.supervision.records import PodRecord, opened
from makeway.api.objects.kubernetes import Pod, view
from makeway.api.objects.pods import PodSpec, PodStatus
from makeway.controllers.contract import Note, Ref
from makeway.core.model import Millis
from makeway.runtime.executor import Call, WriteAnswer, Writer
from makeway.runtime.ports import Conflict, Invalid, NotFound, Store, Stored
from makeway.runtime.workqueue import ReconcileQueue, Timers, backoff_ms

SOCKET = "agent.sock"
UID_BYTES_MAX = 256
LOOKS_PER_STEP = 200
ALIVE_MS = 1000  # between two looks at whether supervisors live
START_MS = 5000  # until a supervisor that did not begin is asked for again
MISSING_MS = 2000  # until something that was missing is looked for again
ASKS_MAX = 3  # for one supervisor, of one zygote
STRAYS_MS = 20  # between two looks at what a lost supervisor left; doubles
TROUBLE_MS = 5000  # until a pod that could not be looked after is looked at again
log = logging.getLogger("makeway.node")
ENDED = ("Succeeded", "Failed")
NODE = "node"  # who gives up on an object here

GaveUp = Callable[[Ref, str, Exception | None], None]


def _log_trouble(whom: Ref, part: str, error: Exception | None) -> None:
    if error is not None:
        log.error("%s %s", whom.kind, whom.key, exc_info=error)


@dataclass(slots=True)
class _Known:
    """A pod that is here, or was."""

    folder: PodFolder
    stored: Stored | None = None  # None: there is no object (any more)
    record: PodRecord | None = None
    lost: SupervisorLost | None = None
    asked_at: Millis | None = None  # when a supervisor was last asked for
    asks: int = 0
    start_at: Millis | None = None  # it is not asked for before then
    sweeps: int = 0  # looks at what a lost supervisor left
    is_passed_by: bool = False  # its supervisor was killed because it did not end the pod in time
    waits: str = ""  # what it waits for, as was last told
    is_writing: bool = False
    failures: int = 0  # of writes, in a row
    is_refused: bool = False  # its status is not taken, for example for its size: it goes without
    troubles: int = 0  # how often in a row it could not be looked after
    told: int = 0  # the number of the last note that became an event
    devices: tuple[str, ...] = ()

    @property
    def ref(self) -> Ref:
        assert self.stored is not None
        return Ref("Pod", self.stored.namespace, self.stored.name)

    @property
    def is_over(self) -> bool:
        """Whether no process of it is left, and none will come."""
        return self.lost is not None or (self.record is not None and self.record.finished_ms is not None)


@dataclass(frozen=True)
class AgentSettings:
    root: Path  # where the folders of pods are
    offers: Sequence[Offer]
    images: Mapping[str, Sequence[str]] = field(default_factory=dict)
    base: Mapping[str, str] = field(default_factory=dict)  # variables of every process
    patience_ms: int = 10_000  # beyond its grace period; then a supervisor that has not ended its pod is killed


class Agent:
    """``tell`` takes notes that are to become events, ``gave_up`` objects that it cannot handle; None: it can again."""

    def __init__(
        self, store: Store, writer: Writer, settings: AgentSettings, tell: Callable[[Note], None],
        launcher: Launcher | None = None, gave_up: GaveUp | None = None,
    ) -> None:  # fmt: skip
        self._gave_up = _log_trouble if gave_up is None else gave_up
        self._settings = settings
        self._offers = {each.name: each for each in settings.offers}
        self._tell = tell
        self._writer = writer
        self._launcher = launcher or Launcher()
        self._heartbeat = Heartbeat(store, settings.offers)
        self._feed = PodFeed(store, {*self._offers, *self._heartbeat.local_nodes()})
        self._sources = StoredSources(store)
        self._pods: dict[str, _Known] = {}
        self._looks: ReconcileQueue[str] = ReconcileQueue()
        self._later: Timers[str] = Timers()
        self._sent: dict[int, tuple[str, bool]] = {}  # writes that are not answered: of which pod, whether a removal
        self._count = 0
        self._check_at = Millis(0)
        self._line = self._open_line()
        for folder in PodFolder.all(settings.root):
            self._pods[folder.uid] = self._adopted(folder)
            self._looks.add(folder.uid)

    def _adopted(self, folder: PodFolder) -> _Known:
        """What an agent before this one left; what it noted was told by then."""
        plan, record = folder.plan(), None
        with suppress(OSError, ValueError, KeyError, TypeError):
            record = folder.record()
        told = max((each.number for each in record.notes), default=0) if record is not None else 0
        return _Known(folder, record=record, told=told, devices=plan.devices if plan is not None else ())

    # --- the driver's side ---

    @property
    def files(self) -> list[int]:
        """What to wait for."""
        return [file for file in (self._line.fileno(), self._launcher.fileno()) if file >= 0]

    def step(self, now: Millis) -> bool:
        """Take in what happened and do what there is to do; whether there was anything."""
        happened = self._take_answers(now) + self._take_calls() + self._take_pods()
        self._heartbeat.step(now)
        for name, error in self._heartbeat.unread.items():
            self._gave_up(Ref("Node", "", name), NODE, error)
        self._heartbeat.unread.clear()
        for path in self._launcher.ended():
            known = self._pods.get(path.name)
            if known is not None:
                self._ask_again(known, now)
        if now >= self._check_at:
            self._check_alive(now)
        for uid in self._later.due(now):
            self._look(uid)
        for _ in range(min(len(self._looks), LOOKS_PER_STEP)):
            uid = self._looks.take()
            known = self._pods.get(uid)
            if known is not None and not known.is_writing:
                self._try(known, now)
                happened += 1
        return bool(happened) or len(self._looks) > 0

    def next_at(self) -> Millis | None:
        times = (self._later.next_at(), self._heartbeat.next_at(), self._writer.next_at(), self._check_at)
        return min(at for at in times if at is not None)

    def prepare(self) -> None:
        """Have all ready that the first pod would otherwise wait for."""
        self._launcher.prepare()

    def close(self) -> None:
        """Stop looking after pods; they go on."""
        self._launcher.close()
        self._line.close()
        with suppress(OSError):
            (self._settings.root / SOCKET).unlink()

    def _open_line(self) -> socket.socket:
        """Where supervisors call when their record has changed."""
        path = self._settings.root / SOCKET
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with suppress(FileNotFoundError):
            path.unlink()
        line = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        line.setblocking(False)
        with opened(path.parent) as parent:
            line.bind(f"{parent}/{path.name}")
        os.chmod(path, 0o600)
        return line

    # --- what happened ---

    def _look(self, uid: str) -> None:
        if uid in self._pods:
            self._looks.add(uid)

    def _take_calls(self) -> int:
        count = 0
        while count < LOOKS_PER_STEP:
            try:
                uid = self._line.recv(UID_BYTES_MAX).decode("utf-8", "replace")
            except BlockingIOError:
                break
            count += 1
            self._look(uid)
        return count

    def _take_pods(self) -> int:
        count = 0
        for each, error in self._feed.take_unread():
            self._gave_up(Ref("Pod", each.namespace, each.name), NODE, error)
        for uid, stored in self._feed.poll():
            count += 1
            known = self._pods.get(uid)
            if known is None:
                if stored is None:
                    continue
                known = self._pods[uid] = _Known(PodFolder(self._settings.root, uid))
            if stored is not None and known.stored is not None and stored.revision < known.stored.revision:
                continue  # an answer to a write was quicker
            known.stored = stored
            self._looks.add(uid)
        return count

    def _take_answers(self, now: Millis) -> int:
        answers = self._writer.answers(now)
        for answer in answers:
            uid, is_removal = self._sent.pop(answer.number, ("", False))
            known = self._pods.get(uid)
            if known is not None:
                known.is_writing = False
                self._answered(known, answer, is_removal, now)
        return len(answers)

    def _answered(self, known: _Known, answer: WriteAnswer, is_removal: bool, now: Millis) -> None:
        uid = known.folder.uid
        if answer.stored is not None:
            known.failures, known.is_refused = 0, False
            if is_removal and not answer.stored.finalizers:
                known.stored = None
            elif known.stored is not None and answer.stored.revision > known.stored.revision:
                known.stored = answer.stored
            self._looks.add(uid)
        elif isinstance(answer.error, NotFound):
            known.stored = None
            self._looks.add(uid)
        else:
            known.failures += 1
            known.is_refused = isinstance(answer.error, Invalid)
            quick = isinstance(answer.error, Conflict) and known.failures < 10
            self._later.set(uid, Millis(now + (20 if quick else backoff_ms(known.failures))))
            if isinstance(answer.error, Conflict):
                known.stored = self._feed.newest(known.stored) or known.stored

    def _ask_again(self, known: _Known, now: Millis) -> None:
        """Its supervisor has ended. If it has not begun, it is asked for again: at once, then after growing pauses."""
        uid = known.folder.uid
        pause = backoff_ms(known.asks - 1) if known.record is None else 0
        known.asked_at, known.start_at = None, Millis(now + pause)
        if pause:
            self._later.set(uid, known.start_at)
        else:
            self._looks.add(uid)

    def _check_alive(self, now: Millis) -> None:
        """Whoever did not call because it could not."""
        self._check_at = Millis(now + ALIVE_MS)
        if os.getpid() == 1:
            processes.collect_adopted()
        for uid, known in self._pods.items():
            if not known.is_over and known.record is not None:
                record = known.record
                with suppress(OSError):  # nobody can say: it is asked again
                    if not processes.is_alive(record.pid, record.ticks, record.boot):
                        self._looks.add(uid)

    # --- one pod ---

    def _try(self, known: _Known, now: Millis) -> None:
        """The trouble of one pod is its own: a full disk, a file that somebody has changed."""
        try:
            self._act(known, now)
        except Exception as error:
            known.troubles += 1
            self._later.set(known.folder.uid, Millis(now + max(TROUBLE_MS, backoff_ms(known.troubles))))
            if known.stored is None:
                log.exception("pod %s", known.folder.uid)
                return
            self._note(known, "FailedSync", f"the node agent cannot look after it: {error}", is_warning=True)
            self._gave_up(known.ref, NODE, error)
        else:
            if known.troubles and known.stored is not None:
                self._gave_up(known.ref, NODE, None)
            known.troubles = 0

    def _act(self, known: _Known, now: Millis) -> None:
        if not known.is_over:
            if not self._read(known, now):
                return
            if known.is_over and known.devices:  # who waits for them need not wait for its own time
                for uid, other in self._pods.items():
                    if other.waits:
                        self._looks.add(uid)
        if known.stored is None:
            self._forget(known, now)
        elif known.stored.deleting:
            self._end(known, now)
        elif known.record is None:
            self._start(known, now)
        else:
            self._tell_status(known, now)

    def _read(self, known: _Known, now: Millis) -> bool:
        """How it is with it now; False while what a lost supervisor left is being ended."""
        record = known.record = known.folder.record() or known.record
        if record is None or record.finished_ms is not None:
            return True
        if processes.is_alive(record.pid, record.ticks, record.boot):
            return True
        record = known.record = known.folder.record() or record  # it may have come to its end just now
        if record.finished_ms is not None:
            return True
        if known.folder.end_strays(record):  # it has ended when nothing is left
            pause = STRAYS_MS << min(known.sweeps, 8)
            known.sweeps += 1
            self._later.set(known.folder.uid, Millis(now + pause))
            return False
        if known.is_passed_by:
            known.lost = stuck_supervisor(now)
        else:
            known.lost = lost_supervisor(now, same_boot=record.boot == processes.boot_id())
        return True

    def _start(self, known: _Known, now: Millis) -> None:
        assert known.stored is not None
        due = known.start_at if known.asked_at is None else Millis(known.asked_at + START_MS)
        if due is not None and now < due:
            return  # it is on its way, or will be
        pod: Pod = known.stored.value()
        status = view(pod.status, PodStatus)
        if status.phase in ENDED:
            return
        if status.start_time is not None and not known.folder.is_planned:
            self._lose(known, status.start_time.millis, now)
            return
        if not known.folder.is_planned:
            try:
                self._plan(known, pod)
            except NotThere as error:
                self._wait(known, pod, error, now)
                return
        if known.asks and (trouble := known.folder.trouble()):
            self._note(known, "FailedCreatePodSandBox", f"the supervisor could not begin: {trouble}", is_warning=True)
        is_sent = self._launch(known, now)
        self._later.set(known.folder.uid, Millis(now + (START_MS if is_sent else 20)))

    def _launch(self, known: _Known, now: Millis) -> bool:
        """Ask for its supervisor; False: not now, ask again."""
        known.asks += 1
        if known.asks % ASKS_MAX == 0 and known.asked_at is not None:
            self._launcher.replace()  # it takes orders and does nothing
        is_sent = self._launcher.launch(known.folder.path)
        known.asked_at = now if is_sent else known.asked_at
        return is_sent

    def _lose(self, known: _Known, began_ms: int, now: Millis) -> None:
        """It has run, and its folder is gone: it is not run again."""
        known.record = PodRecord(known.folder.uid, 0, 0, "", began_ms)
        known.lost = SupervisorLost("FolderLost", "the folder of the pod is gone; how it ended is unknown", now)
        self._tell_status(known, now)

    def _plan(self, known: _Known, pod: Pod) -> None:
        spec = view(pod.spec, PodSpec)
        offer = self._offers.get(spec.node_name) or self._settings.offers[0]
        agent = str(self._settings.root / SOCKET)
        machine = NodeContext(offer.place, self._settings.images, self._settings.base, offer.gpus, agent)
        devices = self._free_devices(offer, gpus_in(pod))
        found = planned(pod, known.folder.path, machine, self._sources, devices)
        known.folder.prepare(found)
        known.devices = devices
        if found.warnings:
            self._note(known, "NotHonoured", joined(found.warnings), is_warning=True)

    def _free_devices(self, offer: Offer, count: int) -> tuple[str, ...]:
        taken = {device for known in self._pods.values() if not known.is_over for device in known.devices}
        free = [device for device in offer.gpus if device not in taken]
        if len(free) < count:
            raise NotThere(f"{count} GPUs are needed, {len(free)} of {len(offer.gpus)} are free", "DevicesInUse")
        return tuple(free[:count])

    def _wait(self, known: _Known, pod: Pod, error: NotThere, now: Millis) -> None:
        self._later.set(known.folder.uid, Millis(now + MISSING_MS))
        if known.waits != f"{error.reason} {error}":
            known.waits = f"{error.reason} {error}"
            self._note(known, "Failed", f"{error.reason}: {error}", is_warning=True)
        self._write_status(known, replace(pod, status=waiting_status(pod, error.reason, str(error), now)), now)

    def _tell_status(self, known: _Known, now: Millis) -> bool:
        """Whether the stored status says already how it is."""
        assert known.stored is not None
        assert known.record is not None
        self._pass_on_notes(known)
        pod: Pod = known.stored.value()
        if view(pod.status, PodStatus).phase in ENDED:
            return True
        spec = view(pod.spec, PodSpec)
        offer = self._offers.get(spec.node_name) or self._settings.offers[0]
        record = known.record if known.lost is not None else dated(known.record, now - processes.up_ms())
        status = status_of(pod, record, offer.place, now, known.lost)
        return self._write_status(known, replace(pod, status=status), now)

    def _end(self, known: _Known, now: Millis) -> None:
        """Its object is being deleted: no process first, then no object."""
        assert known.stored is not None
        if known.record is None and not known.folder.is_planned:
            self._remove(known, now)
        elif not known.is_over:
            pod: Pod = known.stored.value()
            self._stop(known, (pod.metadata.deletion_grace_period_seconds or 0) * 1000, now)
            if known.record is not None:
                self._tell_status(known, now)
        elif (known.is_refused or self._tell_status(known, now)) and not self._is_let_go(known.stored):
            self._remove(known, now)

    def _is_let_go(self, stored: Stored) -> bool:
        """Whether it is only kept by somebody's finalizer."""
        pod: Pod = stored.value()
        return bool(stored.finalizers) and not pod.metadata.deletion_grace_period_seconds

    def _stop(self, known: _Known, grace_ms: int, now: Millis) -> None:
        left = known.folder.stop(grace_ms, now)
        late = left + self._settings.patience_ms
        if known.record is not None and late <= 0:
            self._pass_by(known)
        if known.record is None and (known.asked_at is None or now >= known.asked_at + START_MS):
            self._launch(known, now)  # a supervisor that finds the order ends at once, and says so
        self._later.set(known.folder.uid, Millis(now + (START_MS if late <= 0 else min(START_MS, late))))

    def _pass_by(self, known: _Known) -> None:
        """Its supervisor was told, and its time and ours is over: it is stopped or stuck."""
        assert known.record is not None
        if known.stored is not None and not known.is_passed_by:
            words = "its supervisor has not ended the pod in time; it and all processes of the pod are killed"
            self._note(known, "SupervisorStuck", words, is_warning=True)
        known.is_passed_by = True
        known.folder.kill(known.record)

    def _forget(self, known: _Known, now: Millis) -> None:
        """There is no object: end what runs, then remove all traces."""
        uid = known.folder.uid
        if not self._feed.is_complete:
            self._later.set(uid, Millis(now + 100))
        elif known.is_over or not known.folder.is_planned:
            known.folder.remove()
            self._later.set(uid, None)
            del self._pods[uid]
        else:
            self._stop(known, 0, now)

    # --- writes and events ---

    def _write_status(self, known: _Known, body: Pod, now: Millis) -> bool:
        """Whether nothing had to be written."""
        assert known.stored is not None
        if msgspec.json.decode(body.status) == msgspec.json.decode(known.stored.value().status):
            return True
        version = known.stored.resource_version
        body = replace(body, metadata=replace(body.metadata, resource_version=version))
        self._send(known, lambda store: store.update_status(body), now)
        return False

    def _remove(self, known: _Known, now: Millis) -> None:
        assert known.stored is not None
        stored = known.stored
        self._send(
            known, lambda store: store.delete(PODS, stored.namespace, stored.name, uid=stored.uid, grace=0), now,
            is_removal=True,
        )  # fmt: skip

    def _send(self, known: _Known, call: Call, now: Millis, *, is_removal: bool = False) -> None:
        self._count += 1
        known.is_writing = True
        self._sent[self._count] = (known.folder.uid, is_removal)
        self._writer.send(self._count, call, now)

    def _pass_on_notes(self, known: _Known) -> None:
        assert known.record is not None
        for each in known.record.notes:
            if each.number > known.told:
                self._note(known, each.reason, each.message, is_warning=each.is_warning)
                known.told = each.number

    def _note(self, known: _Known, reason: str, message: str, *, is_warning: bool = False) -> None:
        self._tell(Note(known.ref, "Warning" if is_warning else "Normal", reason, message))
