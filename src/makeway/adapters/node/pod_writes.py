"""The agent's writes: the status of a pod, and its removal. Each pod has at most one write under way."""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from makeway.adapters.node.local_pods import LocalPod, LocalPods
from makeway.adapters.node.objects import PODS, PodFeed
from makeway.api.objects.kubernetes import Pod
from makeway.core.model import Millis
from makeway.runtime.executor import Call, WriteAnswer, Writer
from makeway.runtime.ports import Conflict, Invalid, NotFound
from makeway.runtime.workqueue import backoff_ms

QUICK_MS = 20  # until a write that met a newer object is tried again
QUICK_MAX = 10  # times in a row


class PodWrites:
    def __init__(self, writer: Writer, feed: PodFeed, pods: LocalPods) -> None:
        self._writer = writer
        self._feed = feed
        self._pods = pods
        self._sent: dict[int, tuple[str, bool]] = {}  # unanswered: uid, and whether it is a removal
        self._count = 0

    def next_at(self) -> Millis | None:
        return self._writer.next_at()

    def update_status(self, local: LocalPod, body: Pod, now: Millis) -> bool:
        """Write the status if it differs from the stored one; True if they are equal."""
        assert local.stored is not None
        if msgspec.json.decode(body.status) == msgspec.json.decode(local.stored.value().status):
            return True
        version = local.stored.resource_version
        body = replace(body, metadata=replace(body.metadata, resource_version=version))
        self._send(local, lambda store: store.update_status(body), now)
        return False

    def remove(self, local: LocalPod, now: Millis) -> None:
        assert local.stored is not None
        stored = local.stored
        self._send(
            local, lambda store: store.delete(PODS, stored.namespace, stored.name, uid=stored.uid, grace=0), now,
            is_removal=True,
        )  # fmt: skip

    def _send(self, local: LocalPod, call: Call, now: Millis, *, is_removal: bool = False) -> None:
        self._count += 1
        local.is_writing = True
        self._sent[self._count] = (local.uid, is_removal)
        self._writer.send(self._count, call, now)

    def take_answers(self, now: Millis) -> int:
        """Handle the answers to writes; return how many there were."""
        answers = self._writer.answers(now)
        for answer in answers:
            uid, is_removal = self._sent.pop(answer.number, ("", False))
            local = self._pods.by_uid.get(uid)
            if local is not None:
                local.is_writing = False
                self._answered(local, answer, is_removal, now)
        return len(answers)

    def _answered(self, local: LocalPod, answer: WriteAnswer, is_removal: bool, now: Millis) -> None:
        if answer.stored is not None:
            local.failures, local.is_refused = 0, False
            if is_removal and not answer.stored.finalizers:
                local.stored = None
            elif local.stored is not None and answer.stored.revision > local.stored.revision:
                local.stored = answer.stored
            self._pods.look_soon(local.uid)
        elif isinstance(answer.error, NotFound):
            local.stored = None
            self._pods.look_soon(local.uid)
        else:
            local.failures += 1
            local.is_refused = isinstance(answer.error, Invalid)
            quick = isinstance(answer.error, Conflict) and local.failures < QUICK_MAX
            self._pods.look_at(local, now + (QUICK_MS if quick else backoff_ms(local.failures)))
            if isinstance(answer.error, Conflict):
                local.stored = self._feed.newest(local.stored) or local.stored
