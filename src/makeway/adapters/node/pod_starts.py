"""How a pod gets its supervisor: it is planned once everything it needs exists, then requested until it has begun."""

from __future__ import annotations

from msgspec.structs import replace

from makeway.adapters.node.environment import NotThere
from makeway.adapters.node.fields import NodeContext, gpus_in, joined, planned
from makeway.adapters.node.launching import SOCKET, Launcher
from makeway.adapters.node.local_pods import LocalPod, LocalPods, PodEvents
from makeway.adapters.node.machine import AgentSettings, Offer
from makeway.adapters.node.objects import StoredSources
from makeway.adapters.node.pod_writes import PodWrites
from makeway.adapters.node.statuses import SupervisorLost, waiting_status
from makeway.adapters.node.supervision.records import PodRecord
from makeway.api.objects.kubernetes import Pod, view
from makeway.api.objects.pods import PodStatus
from makeway.core.model import Millis
from makeway.runtime.workqueue import backoff_ms

START_MS = 5000  # until a supervisor that did not begin is requested again
BUSY_MS = 20  # until a busy launcher is asked again
MISSING_MS = 2000  # until a missing object is looked up again
ASKS_MAX = 3  # requests for one supervisor to one zygote
ENDED = ("Succeeded", "Failed")


class PodStarts:
    def __init__(
        self, settings: AgentSettings, pods: LocalPods, writes: PodWrites, events: PodEvents, sources: StoredSources,
        launcher: Launcher,
    ) -> None:  # fmt: skip
        self.launcher = launcher
        self._settings = settings
        self._pods = pods
        self._writes = writes
        self._events = events
        self._sources = sources

    def start(self, local: LocalPod, now: Millis) -> None:
        """Plan the pod and request its supervisor. A pod that has run, and whose folder is gone, is lost instead."""
        assert local.stored is not None
        due = local.start_at if local.asked_at is None else Millis(local.asked_at + START_MS)
        if due is not None and now < due:
            return  # already requested, or not due yet
        pod: Pod = local.stored.value()
        status = view(pod.status, PodStatus)
        if status.phase in ENDED:
            return
        if status.start_time is not None and not local.folder.is_planned:
            local.record = PodRecord(local.uid, 0, 0, "", status.start_time.millis)
            local.lost = SupervisorLost("FolderLost", "the folder of the pod is gone; how it ended is unknown", now)
            return
        if not local.folder.is_planned:
            try:
                self._plan(local, pod)
            except NotThere as error:
                self._wait(local, pod, error, now)
                return
        if local.asks and (trouble := local.folder.trouble()):
            words = f"the supervisor could not begin: {trouble}"
            self._events.add(local, "FailedCreatePodSandBox", words, is_warning=True)
        is_sent = self.launch(local, now)
        self._pods.look_at(local, now + (START_MS if is_sent else BUSY_MS))

    def launch(self, local: LocalPod, now: Millis) -> bool:
        """Request a supervisor; False: not possible now, ask again."""
        local.asks += 1
        if local.asks % ASKS_MAX == 0 and local.asked_at is not None:
            self.launcher.replace()  # it takes orders and does nothing
        is_sent = self.launcher.launch(local.folder.path)
        local.asked_at = now if is_sent else local.asked_at
        return is_sent

    def take_ended(self, now: Millis) -> None:
        """Handle supervisors that have ended. One that has not begun is requested again: at once, then after growing
        pauses.
        """
        for path in self.launcher.ended():
            local = self._pods.by_uid.get(path.name)
            if local is None:
                continue
            pause = backoff_ms(local.asks - 1) if local.record is None else 0
            local.asked_at, local.start_at = None, Millis(now + pause)
            if pause:
                self._pods.look_at(local, local.start_at)
            else:
                self._pods.look_soon(local.uid)

    def _plan(self, local: LocalPod, pod: Pod) -> None:
        settings, offer = self._settings, self._settings.offer_of(pod)
        machine = NodeContext(offer.place, settings.images, settings.base, offer.gpus, str(settings.root / SOCKET))
        devices = self._free_devices(offer, gpus_in(pod))
        plan = planned(pod, local.folder.path, machine, self._sources, devices)
        local.folder.prepare(plan)
        local.devices = devices
        if plan.warnings:
            self._events.add(local, "NotHonoured", joined(plan.warnings), is_warning=True)

    def _free_devices(self, offer: Offer, count: int) -> tuple[str, ...]:
        pods = self._pods.by_uid.values()
        taken = {device for local in pods if not local.is_over for device in local.devices}
        free = [device for device in offer.gpus if device not in taken]
        if len(free) < count:
            raise NotThere(f"{count} GPUs are needed, {len(free)} of {len(offer.gpus)} are free", "DevicesInUse")
        return tuple(free[:count])

    def _wait(self, local: LocalPod, pod: Pod, error: NotThere, now: Millis) -> None:
        self._pods.look_at(local, now + MISSING_MS)
        if local.waits != f"{error.reason} {error}":
            local.waits = f"{error.reason} {error}"
            self._events.add(local, "Failed", f"{error.reason}: {error}", is_warning=True)
        body = replace(pod, status=waiting_status(pod, error.reason, str(error), now))
        self._writes.update_status(local, body, now)
