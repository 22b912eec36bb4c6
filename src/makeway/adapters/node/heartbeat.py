"""Registers the Nodes and renews a Lease for each one every ten seconds, as a kubelet would."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress

from msgspec.structs import replace

from makeway.adapters.node.machine import LOCAL_LABEL, Offer, node_of, node_status
from makeway.api.objects.kubernetes import Lease, LeaseSpec, Namespace, Node
from makeway.api.objects.meta import ObjectMeta
from makeway.api.quantity import MicroTime
from makeway.api.versions import kind_of
from makeway.core.model import Millis
from makeway.runtime.ports import AlreadyExists, NotFound, Store, StoreError

LEASES = "kube-node-lease"
BEAT_MS = 10_000
LEASE_SECONDS = 40
AGAIN_MS = 1000  # after a failed renewal
NODES, LEASE_KIND, NAMESPACES = kind_of(Node), kind_of(Lease), kind_of(Namespace)


class Heartbeat:
    def __init__(self, store: Store, offers: Sequence[Offer]) -> None:
        self._store = store
        self._offers = offers
        self._is_registered = False
        self._next_at = Millis(0)
        self.unread: dict[str, Exception] = {}  # our Nodes that could not be handled; the agent clears it

    def local_nodes(self) -> list[str]:
        """The Nodes of this machine, also those of earlier starts: their pods are still ours."""
        return [each.name for each in self._store.list(NODES).items if each.labels.get(LOCAL_LABEL) == "true"]

    def next_at(self) -> Millis:
        return self._next_at

    def step(self, now: Millis) -> None:
        if now < self._next_at:
            return
        try:
            if not self._is_registered:
                self._register(now)
                self._is_registered = True
            for offer in self._offers:
                self._try(offer.name, self._beat, offer, now)
            self._next_at = Millis(now + BEAT_MS)
        except StoreError:  # the Node or the namespace was removed meanwhile, or is being removed: it is made again
            self._is_registered = False
            self._next_at = Millis(now + AGAIN_MS)

    def _register(self, now: Millis) -> None:
        with suppress(AlreadyExists):
            self._store.create(Namespace(metadata=ObjectMeta(name=LEASES)))
        for offer in self._offers:
            self._try(offer.name, self._register_one, offer, now)
        offered = {offer.name for offer in self._offers}
        for name in self.local_nodes():
            if name not in offered:  # it takes no new pods, and keeps those it has
                self._try(name, self._withdraw, name, now)

    def _try(self, name: str, act: Callable[..., None], *of: object) -> None:
        """Handle one Node; one that cannot be read does not block the others."""
        try:
            act(*of)
        except StoreError:
            raise
        except Exception as error:
            self.unread[name] = error

    def _register_one(self, offer: Offer, now: Millis) -> None:
        wanted = node_of(offer)
        with suppress(AlreadyExists):
            self._store.create(wanted)
        stored = self._store.get(NODES, "", offer.name)
        node: Node = stored.value()
        labels = {**node.metadata.labels, **wanted.metadata.labels}
        if labels != node.metadata.labels:
            stored = self._store.update(replace(node, metadata=replace(node.metadata, labels=labels)))
            node = stored.value()
        self._store.update_status(replace(node, status=node_status(offer, node.status, now)))

    def _withdraw(self, name: str, now: Millis) -> None:
        node = self._store.get(NODES, "", name).value()
        gone = node_status(Offer(name, {}), node.status, now, is_ready=False)
        self._store.update_status(replace(node, status=gone))

    def _beat(self, offer: Offer, now: Millis) -> None:
        """Renew the Lease. Raises NotFound if the Node is gone: then it is registered again, before its pods are given
        up.
        """
        self._store.get(NODES, "", offer.name)
        time = MicroTime.of_millis(now)
        try:
            lease: Lease = self._store.get(LEASE_KIND, LEASES, offer.name).value()
            self._store.update(replace(lease, spec=replace(lease.spec, renew_time=time)))
        except NotFound:
            spec = LeaseSpec(holder_identity=offer.name, lease_duration_seconds=LEASE_SECONDS, renew_time=time)
            self._store.create(Lease(metadata=ObjectMeta(name=offer.name, namespace=LEASES), spec=spec))
