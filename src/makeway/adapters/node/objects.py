"""What the agent reads of the Store: the pods of its nodes as they change, and the objects that pods refer to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from makeway.api.objects.kubernetes import ConfigMap, Pod, Secret
from makeway.api.versions import Kind, kind_of
from makeway.runtime.ports import Expired, NotFound, Retryable, Store, Stored, Watch

PODS, SECRETS, CONFIG_MAPS = kind_of(Pod), kind_of(Secret), kind_of(ConfigMap)
EVENTS_PER_POLL = 500


class _Placed(msgspec.Struct):
    node_name: str = msgspec.field(default="", name="nodeName")


class _PodGlimpse(msgspec.Struct):
    """The fields of a pod that say where it runs."""

    spec: _Placed = msgspec.field(default_factory=_Placed)


_GLIMPSES = msgspec.json.Decoder(_PodGlimpse)


class PodFeed:
    """The pods of some nodes, by uid. An expired watch is begun anew, and pods that are gone by then are reported."""

    def __init__(self, store: Store, nodes: set[str]) -> None:
        self._store = store
        self._nodes = nodes
        self._watch: Watch | None = None
        self._uids: dict[tuple[str, str], str] = {}  # of the pods on our nodes
        self.is_complete = False  # all existing pods have been reported
        self._unread: list[tuple[Stored, Exception]] = []  # their node is unknown

    def poll(self) -> Iterator[tuple[str, Stored | None]]:
        """Return the changes: uid and object, or None if the object is gone."""
        try:
            if self._watch is None:
                yield from self._list()
                return
            events = self._watch.poll(EVENTS_PER_POLL)
        except Expired:
            self._watch = None
            return
        except Retryable:
            return
        for event in events:
            if event.object is not None:
                yield from self._take(event.object, is_gone=event.type == "DELETED")

    def take_unread(self) -> list[tuple[Stored, Exception]]:
        """Return pods that could not be read since the last call; they belong to no node."""
        unread, self._unread = self._unread, []
        return unread

    def _is_here(self, each: Stored) -> bool:
        try:
            return _GLIMPSES.decode(each.data).spec.node_name in self._nodes
        except msgspec.MsgspecError as error:
            self._unread.append((each, error))
            return False

    def newest(self, stored: Stored | None) -> Stored | None:
        """Return the pod as it is now, after a write that met a newer one."""
        if stored is None:
            return None
        try:
            found = self._store.get(PODS, stored.namespace, stored.name)
        except (NotFound, Retryable):
            return None
        return found if found.uid == stored.uid else None

    def _list(self) -> Iterator[tuple[str, Stored | None]]:
        page = self._store.list(PODS)
        self._watch = self._store.watch(PODS, page.resource_version)
        there = {(each.namespace, each.name): each.uid for each in page.items}
        for place, uid in list(self._uids.items()):
            if there.get(place) != uid:
                del self._uids[place]
                yield uid, None
        for each in page.items:
            yield from self._take(each, is_gone=False)
        self.is_complete = True

    def _take(self, each: Stored, *, is_gone: bool) -> Iterator[tuple[str, Stored | None]]:
        place = (each.namespace, each.name)
        before = self._uids.get(place)
        if before is not None and before != each.uid:  # another pod with the same name
            yield before, None
            del self._uids[place]
        if is_gone:
            if self._uids.pop(place, None) is not None:
                yield each.uid, None
        elif before == each.uid or self._is_here(each):
            self._uids[place] = each.uid
            yield each.uid, each


class StoredSources:
    """The present Secrets and ConfigMaps."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def secret(self, namespace: str, name: str) -> Mapping[str, bytes] | None:
        found = self._find(SECRETS, namespace, name)
        if found is None:
            return None
        return {**found.data, **{key: value.encode() for key, value in found.string_data.items()}}

    def config_map(self, namespace: str, name: str) -> Mapping[str, bytes] | None:
        found = self._find(CONFIG_MAPS, namespace, name)
        if found is None:
            return None
        return {**{key: value.encode() for key, value in found.data.items()}, **found.binary_data}

    def _find(self, kind: Kind, namespace: str, name: str) -> Any | None:
        try:
            return self._store.get(kind, namespace, name).value()
        except NotFound:
            return None
