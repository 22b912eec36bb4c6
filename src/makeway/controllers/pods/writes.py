"""Decisions about pods as actions. The cluster counts on each of them as soon as it is requested (``cluster``)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from makeway.api.objects import kubernetes as wire
from makeway.api.objects.pods import PodSpec
from makeway.api.validation.placement import in_one_line
from makeway.controllers.contract import POD, Action, Change, Delete, Note, Ref, View
from makeway.controllers.pods.cluster import PodCluster
from makeway.controllers.pods.edits import PREEMPTED, Bind, Disrupt, Promise, TellWhyNoNode, said
from makeway.core.model import Millis
from makeway.core.placement.model import Pod, PodKey


class PlacementWrites:
    """The writes of one decision, which carry its id. ``unanswered``: the pods with a write under way."""

    def __init__(
        self, cluster: PodCluster, unanswered: set[PodKey], view: View, now: Millis, decision: str = ""
    ) -> None:  # fmt: skip
        self._cluster = cluster
        self._unanswered = unanswered
        self._view = view
        self._now = now
        self._decision = decision

    def bind(self, key: PodKey, node: str) -> Iterator[Action]:
        self._cluster.bound(key, node, self._now)
        words = f"Successfully assigned {'/'.join(key)} to {node}"
        notes = (Note(ref_of(key), "Normal", "Scheduled", words), *self._not_heeded(key))
        yield from self._change(key, Bind(node), *notes, status=False)

    def tell(
        self,
        pods: Sequence[Pod],
        nominated: Mapping[PodKey, str],
        words: str | Mapping[PodKey, str],
        *,
        again: bool = False,
    ) -> dict[PodKey, Action]:
        """Why these pods wait, one by one or all alike, and the nodes that they are promised.

        ``again``: write to a pod that has this message already once more.
        """
        actions: dict[PodKey, Action] = {}
        for pod in pods:
            node = nominated.get(pod.key)
            if pod.nominated != node:
                self._cluster.nominated(pod.key, node)
            stored = self._view.get(ref_of(pod.key))
            message = words if isinstance(words, str) else words[pod.key]
            edit = TellWhyNoNode(message, node or "", self._now)
            if stored is None or (not again and edit(stored) in (stored, None)):
                continue
            is_news = said(stored) != message
            notes = (Note(ref_of(pod.key), "Warning", "FailedScheduling", message),) if is_news else ()
            actions.update((pod.key, action) for action in self._change(pod.key, edit, *notes))
        return actions

    def clear_nomination(self, key: PodKey) -> Iterator[Action]:
        """The node promised to a pod goes to a more important one; the pod's message stays."""
        self._cluster.nominated(key, None)
        yield from self._change(key, TellWhyNoNode(None, "", self._now))

    def evict(
        self, keys: Iterable[PodKey], reason: str, message: str, *, promise: Promise | None = None, by: str = ""
    ) -> Iterator[Action]:  # fmt: skip
        """Tell pods that they have to leave; the deletion of each follows."""
        for key in keys:
            self._cluster.evicted(key, for_others=reason == PREEMPTED)
            ref, stored = ref_of(key), self._view.get(ref_of(key))
            if stored is None:
                continue
            uid = stored.metadata.uid
            change = Change(ref, Disrupt(reason, message, self._now, promise, by), uid=uid)
            is_leaving = stored.metadata.deletion_timestamp is not None
            note = Note(ref, "Normal", "Preempted" if reason == PREEMPTED else reason, message)
            then = () if is_leaving else (Action(Delete(ref, uid), decision=self._decision),)
            yield Action(change, then, (note,), decision=self._decision)

    def _change(
        self, key: PodKey, edit: Bind | TellWhyNoNode, *notes: Note, status: bool = True
    ) -> Iterator[Action]:  # fmt: skip
        stored = self._view.get(ref_of(key))
        if stored is not None:
            self._unanswered.add(key)
            change = Change(ref_of(key), edit, status=status, uid=stored.metadata.uid)
            yield Action(change, notes=notes, decision=self._decision)

    def _not_heeded(self, key: PodKey) -> Iterator[Note]:
        """Notes about what the pod asked for that had no effect on its node."""
        stored = self._view.get(ref_of(key))
        words = "" if stored is None else in_one_line(wire.view(stored.spec, PodSpec))
        if words:
            yield Note(ref_of(key), "Warning", "NotHeeded", words)


def ref_of(key: PodKey) -> Ref[wire.Pod]:
    return Ref(POD, *key)
