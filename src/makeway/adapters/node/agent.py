"""The node agent: it starts a supervisor for each pod that is bound here, and turns supervisors' records into pod
status.

For each pod the agent knows the last seen object and the record in the pod's folder. A reconcile compares the two and
does at most one thing: start the pod, report its status, order it to stop, or remove it. All state can be read again:
an agent that restarts finds the pods in the Store, the folders on the disk, and the supervisors at work.

- A pod is started once: its folder is the proof.
- A deleted pod gets its grace period. Its object is removed when no process is left.
- A folder without an object is stopped at once, and removed.
- A supervisor that is gone without a last record is lost: its processes are killed, and the pod has failed.
- A supervisor that does not end its pod in time is killed with everything below it.

It is used by one thread, and ``step`` never blocks. The caller runs ``step`` when ``files`` are readable, when the
Store has events, and at ``next_at``.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from contextlib import suppress

from msgspec.structs import replace

from makeway.adapters.node.folders import PodFolder
from makeway.adapters.node.heartbeat import Heartbeat
from makeway.adapters.node.launching import CallSocket, Launcher
from makeway.adapters.node.local_pods import LocalPod, LocalPods, PodEvents
from makeway.adapters.node.machine import AgentSettings
from makeway.adapters.node.objects import PodFeed, StoredSources
from makeway.adapters.node.pod_starts import ENDED, START_MS, PodStarts
from makeway.adapters.node.pod_writes import PodWrites
from makeway.adapters.node.statuses import dated, lost_supervisor, status_of, stuck_supervisor
from makeway.adapters.node.supervision import processes
from makeway.api.objects.kubernetes import Pod, view
from makeway.api.objects.pods import PodStatus
from makeway.controllers.contract import NODE, POD, Note, Ref
from makeway.core.model import Millis
from makeway.runtime.executor import Writer
from makeway.runtime.ports import Store, Stored
from makeway.runtime.workqueue import backoff_ms

ALIVE_MS = 1000  # between two checks that supervisors live
STRAYS_MS = 20  # between two checks of a lost supervisor's processes; doubles
INCOMPLETE_MS = 100  # until a pod without an object is reconciled again, before all objects have been read
TROUBLE_MS = 5000  # until a pod whose reconcile failed is tried again
log = logging.getLogger("makeway.node")
AGENT = "node"  # the part that gives up on an object here

GaveUp = Callable[[Ref, str, Exception | None], None]


def _log_trouble(about: Ref, part: str, error: Exception | None) -> None:
    if error is not None:
        log.error("%s %s", about.kind, about.key, exc_info=error)


class Agent:
    """``tell`` takes notes that become events. ``gave_up`` is called with an object that cannot be handled, and with
    None when it can be again.
    """

    def __init__(
        self, store: Store, writer: Writer, settings: AgentSettings, tell: Callable[[Note], None],
        launcher: Launcher | None = None, gave_up: GaveUp | None = None,
    ) -> None:  # fmt: skip
        self._gave_up = _log_trouble if gave_up is None else gave_up
        self._settings = settings
        self._pods = LocalPods()
        self._events = PodEvents(tell)
        self._heartbeat = Heartbeat(store, settings.offers)
        nodes = {offer.name for offer in settings.offers} | {*self._heartbeat.local_nodes()}
        self._feed = PodFeed(store, nodes)
        self._writes = PodWrites(writer, self._feed, self._pods)
        self._starts = PodStarts(
            settings, self._pods, self._writes, self._events, StoredSources(store), launcher or Launcher()
        )
        self._check_at = Millis(0)
        self._line = CallSocket(settings.root)
        for folder in PodFolder.all(settings.root):
            self._pods.look_soon(self._pods.add(LocalPod.adopted(folder)).uid)

    # --- the driver's side ---

    @property
    def files(self) -> list[int]:
        """The files to wait for."""
        return [file for file in (self._line.fileno(), self._starts.launcher.fileno()) if file >= 0]

    def step(self, now: Millis) -> bool:
        """Read events and reconcile what is due; return whether there was anything to do."""
        happened = self._writes.take_answers(now) + self._take_calls() + self._take_pods()
        self._heartbeat.step(now)
        for name, error in self._heartbeat.unread.items():
            self._gave_up(Ref(NODE, "", name), AGENT, error)
        self._heartbeat.unread.clear()
        self._starts.take_ended(now)
        if now >= self._check_at:
            self._check_alive(now)
        for local in self._pods.take(now):
            self._try(local, now)
            happened += 1
        return bool(happened) or self._pods.has_more

    def next_at(self) -> Millis | None:
        times = (self._pods.next_at(), self._heartbeat.next_at(), self._writes.next_at(), self._check_at)
        return min(at for at in times if at is not None)

    def prepare(self) -> None:
        """Prepare what the first pod would otherwise wait for."""
        self._starts.launcher.prepare()

    def close(self) -> None:
        """Stop reconciling; the pods keep running."""
        self._starts.launcher.close()
        self._line.remove()

    # --- what happened ---

    def _take_calls(self) -> int:
        uids = self._line.take()
        for uid in uids:
            self._pods.look_soon(uid)
        return len(uids)

    def _take_pods(self) -> int:
        count = 0
        for stored, error in self._feed.take_unread():
            self._gave_up(Ref(POD, stored.namespace, stored.name), AGENT, error)
        for uid, seen in self._feed.poll():
            count += 1
            local = self._pods.by_uid.get(uid)
            if local is None:
                if seen is None:
                    continue
                local = self._pods.add(LocalPod(PodFolder(self._settings.root, uid)))
            if seen is not None and local.stored is not None and seen.revision < local.stored.revision:
                continue  # the answer to a write was newer
            local.stored = seen
            self._pods.look_soon(uid)
        return count

    def _check_alive(self, now: Millis) -> None:
        """Find supervisors that ended without a call, because they could not make one."""
        self._check_at = Millis(now + ALIVE_MS)
        if os.getpid() == 1:
            processes.collect_adopted()
        for uid, local in self._pods.by_uid.items():
            record = local.record
            if record is not None and not local.is_over:
                with suppress(OSError):  # unknown: it is asked again
                    if not processes.is_alive(record.pid, record.ticks, record.boot):
                        self._pods.look_soon(uid)

    # --- one pod ---

    def _try(self, local: LocalPod, now: Millis) -> None:
        """Reconcile one pod. Its errors (a full disk, a file that a user changed) concern no other pod."""
        try:
            self._act(local, now)
        except Exception as error:
            local.troubles += 1
            self._pods.look_at(local, now + max(TROUBLE_MS, backoff_ms(local.troubles)))
            if local.stored is None:
                log.exception("pod %s", local.uid)
                return
            self._events.add(local, "FailedSync", f"the node agent cannot look after it: {error}", is_warning=True)
            self._gave_up(local.ref, AGENT, error)
        else:
            if local.troubles and local.stored is not None:
                self._gave_up(local.ref, AGENT, None)
            local.troubles = 0

    def _act(self, local: LocalPod, now: Millis) -> None:
        if not local.is_over:
            if not self._read(local, now):
                return
            if local.is_over and local.devices:  # a pod that waits for them may start now
                for uid, other in self._pods.by_uid.items():
                    if other.waits:
                        self._pods.look_soon(uid)
        if local.stored is None:
            self._forget(local, now)
        elif local.stored.deleting:
            self._end(local, now)
        elif local.record is None:
            self._starts.start(local, now)
            if local.lost is not None:
                self._tell_status(local, now)
        else:
            self._tell_status(local, now)

    def _read(self, local: LocalPod, now: Millis) -> bool:
        """Read the pod's present state; return False while the processes of a lost supervisor are being ended."""
        record = local.record = local.folder.record() or local.record
        if record is None or record.finished_ms is not None:
            return True
        if processes.is_alive(record.pid, record.ticks, record.boot):
            return True
        record = local.record = local.folder.record() or record  # a last record may have been written just now
        if record.finished_ms is not None:
            return True
        if local.folder.end_strays(record):  # it has ended when no process is left
            pause = STRAYS_MS << min(local.sweeps, 8)
            local.sweeps += 1
            self._pods.look_at(local, now + pause)
            return False
        if local.is_passed_by:
            local.lost = stuck_supervisor(now)
        else:
            local.lost = lost_supervisor(now, same_boot=record.boot == processes.boot_id())
        return True

    def _tell_status(self, local: LocalPod, now: Millis) -> bool:
        """Write the status; return whether the stored status is up to date."""
        assert local.stored is not None
        assert local.record is not None
        self._events.pass_on(local)
        pod: Pod = local.stored.value()
        if view(pod.status, PodStatus).phase in ENDED:
            return True
        record = local.record if local.lost is not None else dated(local.record, now - processes.up_ms())
        status = status_of(pod, record, self._settings.offer_of(pod).place, now, local.lost)
        return self._writes.update_status(local, replace(pod, status=status), now)

    def _end(self, local: LocalPod, now: Millis) -> None:
        """The object is being deleted: end the processes first, then remove the object."""
        assert local.stored is not None
        if local.record is None and not local.folder.is_planned:
            self._writes.remove(local, now)
        elif not local.is_over:
            pod: Pod = local.stored.value()
            self._stop(local, (pod.metadata.deletion_grace_period_seconds or 0) * 1000, now)
            if local.record is not None:
                self._tell_status(local, now)
        elif (local.is_refused or self._tell_status(local, now)) and not _is_let_go(local.stored):
            self._writes.remove(local, now)

    def _stop(self, local: LocalPod, grace_ms: int, now: Millis) -> None:
        left = local.folder.stop(grace_ms, now)
        late = left + self._settings.patience_ms
        if local.record is not None and late <= 0:
            self._pass_by(local)
        if local.record is None and (local.asked_at is None or now >= local.asked_at + START_MS):
            self._starts.launch(local, now)  # a supervisor that finds the order ends at once, and records that
        self._pods.look_at(local, now + (START_MS if late <= 0 else min(START_MS, late)))

    def _pass_by(self, local: LocalPod) -> None:
        """Kill a supervisor that had its order and its time: it is stopped or stuck."""
        assert local.record is not None
        if local.stored is not None and not local.is_passed_by:
            words = "its supervisor has not ended the pod in time; it and all processes of the pod are killed"
            self._events.add(local, "SupervisorStuck", words, is_warning=True)
        local.is_passed_by = True
        local.folder.kill(local.record)

    def _forget(self, local: LocalPod, now: Millis) -> None:
        """The object is gone: end what runs, then remove all traces."""
        if not self._feed.is_complete:
            self._pods.look_at(local, now + INCOMPLETE_MS)
        elif local.is_over or not local.folder.is_planned:
            local.folder.remove()
            self._pods.remove(local)
        else:
            self._stop(local, 0, now)


def _is_let_go(stored: Stored) -> bool:
    """Return whether only a user's finalizer keeps the object."""
    pod: Pod = stored.value()
    return bool(stored.finalizers) and not pod.metadata.deletion_grace_period_seconds
