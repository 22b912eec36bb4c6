"""The promises of a server to its clients, compared with what it shows: the oracle of the object fuzz.

- Acknowledged objects are there: the same uid, no older resourceVersion, and with the same one the same object to the
  last field. Other writers and removers are known: controllers, an owner that is deleted, a namespace that ends.
- What is gone does not come back.
- The usage of queues is what the Workloads were given.
- Deleted objects go, once no client's finalizer holds them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from makeway.adapters.server.http.bodies import MERGE_PATCH
from makeway.adapters.server.http.routes import is_stored, served
from makeway.api import codec
from makeway.api.names import LASTING_NAMESPACES
from makeway.api.objects.queueing import ClusterQueue
from makeway.api.objects.workload import Workload
from makeway.api.versions import Kind, kind_of
from makeway.core.policy import Gates
from makeway.runtime.recount.recount import HeldByQueue, held_by
from tests.end_to_end.lives import Answer, Lives
from tests.end_to_end.operations import Operation

Tree = dict[str, Any]
Key = tuple[tuple[str, str], str, str]  # kind, namespace, name
SETTLE_SECONDS = 60.0
LOOK_SECONDS = 0.2
RESIDENT_BYTES_MAX = 300 * 2**20  # some 70 are usual
OURS = ("kueue.x-k8s.io/", "batch.kubernetes.io/", "foregroundDeletion", "orphan")  # finalizers that makeway takes away
WRITTEN = ("create", "json", "merge", "strategic", "apply", "status", "update", "release")


class Broken(AssertionError):
    """A broken promise."""


def kinds() -> list[Kind]:
    found = {kind.key: kind for kind in served().values() if is_stored(kind) and kind.view_of is None}
    return [found[key] for key in sorted(found)]


def root_of(kind: Kind) -> str:
    group = f"/apis/{kind.group}" if kind.group else "/api"
    return f"{group}/{kind.versions[0]}"


def path_of(kind: Kind, namespace: str, name: str) -> str:
    where = f"/namespaces/{namespace}" if namespace else ""
    return f"{root_of(kind)}{where}/{kind.plural}/{name}"


def listed(server: Lives, kind: Kind) -> list[Tree]:
    answer = server.ask("GET", f"{root_of(kind)}/{kind.plural}")
    if answer.code != 200:
        raise Broken(f"{kind.plural} cannot be listed: {answer}")
    items: list[Tree] = answer.tree["items"]
    return [{"apiVersion": kind.api_version, "kind": kind.name, **each} for each in items]


def key_of(kind: Kind, tree: Tree) -> Key:
    meta = tree["metadata"]
    return kind.stored.key, meta.get("namespace", ""), meta["name"]


# --- what was acknowledged --------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Acknowledged:
    uid: str
    version: int
    tree: Tree | None  # None: acknowledged in another version than the stored one
    may_go: bool  # it is being deleted, or others may delete it


@dataclass(slots=True)
class Ledger:
    """What clients were told."""

    known: dict[Key, Acknowledged] = field(default_factory=dict)
    gone: set[str] = field(default_factory=set)  # uids
    ending: set[str] = field(default_factory=set)  # namespaces

    def note(self, operation: Operation, answer: Answer) -> None:
        if not answer.is_done or operation.is_dry or not is_stored(operation.kind):
            return
        if operation.verb in WRITTEN:
            self._written(operation.kind, operation.version, answer.tree)
        elif operation.verb == "delete":
            self._deleted(operation, answer.tree)
        elif operation.verb == "collection":
            for (kind, namespace, _), each in self.known.items():
                if kind == operation.kind.stored.key and namespace == operation.namespace:
                    each.may_go = True
        elif operation.verb == "call":
            at = self.known.get((operation.kind.stored.key, operation.namespace, operation.name))
            if at is not None:
                at.may_go = True

    def _written(self, kind: Kind, version: str, tree: Tree) -> None:
        key, meta = key_of(kind, tree), tree["metadata"]
        if kind.name == "Namespace":
            self._end(meta["name"]) if self._may_go(kind, tree) else self.ending.discard(meta["name"])
        told = tree if kind.is_stored_as(version) else None
        self.known[key] = Acknowledged(meta["uid"], int(meta["resourceVersion"]), told, self._may_go(kind, tree))

    def _may_go(self, kind: Kind, tree: Tree) -> bool:
        meta = tree["metadata"]
        others = kind.name in ("Pod", "Node") or "ttlSecondsAfterFinished" in (tree.get("spec") or {})
        ends = "deletionTimestamp" in meta or bool(meta.get("ownerReferences"))
        return others or ends or meta.get("namespace", "") in self.ending

    def _deleted(self, operation: Operation, tree: Tree) -> None:
        key = operation.kind.stored.key, operation.namespace, operation.name
        if operation.kind.name == "Namespace":
            self._end(operation.name)
        if tree["kind"] == "Status":
            self.known.pop(key, None)
            self.gone.add(tree["details"]["uid"])
        else:
            self._written(operation.kind, operation.version, tree)
            self.known[key].may_go = True

    def _end(self, namespace: str) -> None:
        """All objects in the namespace may go."""
        if namespace in LASTING_NAMESPACES:
            return
        self.ending.add(namespace)
        for (_, within, _), each in self.known.items():
            each.may_go |= within == namespace

    def check(self, server: Lives) -> None:
        """Check all objects, by lists of all kinds."""
        there: dict[Key, Tree] = {}
        for kind in kinds():
            there |= {key_of(kind, each): each for each in listed(server, kind)}
        back = [key for key, each in there.items() if each["metadata"]["uid"] in self.gone]
        if back:
            raise Broken(f"they were deleted and are there: {back}")
        for key, told in list(self.known.items()):
            self.check_one(key, told, there.get(key))

    def check_one(self, key: Key, told: Acknowledged, found: Tree | None) -> None:
        if found is None or found["metadata"]["uid"] != told.uid:
            if not told.may_go:
                raise Broken(f"{key} was acknowledged and is lost: {told}\nthere is {found}")
            del self.known[key]
            return
        meta = found["metadata"]
        if int(meta["resourceVersion"]) < told.version:
            raise Broken(f"{key} is older than what was acknowledged: {told}\nthere is {found}")
        if int(meta["resourceVersion"]) == told.version and told.tree is not None and found != told.tree:
            raise Broken(f"{key} is another than what was acknowledged: {told.tree}\nthere is {found}")
        told.may_go |= "deletionTimestamp" in meta or bool(meta.get("ownerReferences"))

    def filled(self, operation: Operation) -> str:
        """The body with the values that only the server knew."""
        text = operation.body
        if '"@' not in text:
            return text
        at = self.known.get((operation.kind.stored.key, operation.namespace, operation.name))
        text = text.replace('"@uid"', f'"{at.uid if at else "x"}"')
        text = text.replace('"@version"', f'"{at.version if at else "1"}"')
        for group, kind, name in (("batch", "Job", "a"), ("", "ConfigMap", "b"), ("", "Pod", "c")):
            owner = self.known.get(((group, kind), operation.namespace or "default", name))
            text = text.replace(f'"@uid:{group}/{kind}/{name}"', f'"{owner.uid if owner else "gone"}"')
        return text


# --- at rest ----------------------------------------------------------------------------------------------------------


def until(holds: Callable[[], str], seconds: float = SETTLE_SECONDS) -> None:
    """Wait until the check has no complaint."""
    end = time.monotonic() + seconds
    while words := holds():
        if time.monotonic() > end:
            raise Broken(f"after {seconds:g} s still: {words}")
        time.sleep(LOOK_SECONDS)


def check_usage(server: Lives) -> None:
    until(lambda: "\n".join(_usage_differences(server)))


def _usage_differences(server: Lives) -> Iterator[str]:
    workloads, queues = listed(server, kind_of(Workload)), listed(server, kind_of(ClusterQueue))
    values = [codec.read(each, "Ignore", limits=False).value for each in (*queues, *workloads)]
    held = held_by([each for each in values if each is not None], Gates())
    for each in values:
        if not isinstance(each, ClusterQueue):
            continue
        name, status = each.metadata.name, each.status
        if status is None:
            yield f"{name} has no status"
            continue
        counted = held.get(name, HeldByQueue())
        found = {
            (flavor.name, row.name): row.total.in_units(row.name)
            for flavor in status.flavors_reservation
            for row in flavor.resources
        }
        shown = (status.reserving_workloads, status.admitted_workloads, {fr: n for fr, n in found.items() if n})
        wanted = (counted.reserving, counted.admitted, {fr: n for fr, n in counted.amounts.items() if n})
        if shown != wanted:
            yield f"ClusterQueue {name} shows {shown}, its Workloads say {wanted}"


def check_alive(server: Lives) -> None:
    until(lambda: "" if (ready := server.ask("GET", "/readyz")).code == 200 else f"/readyz: {ready}", seconds=30)
    if server.resident_bytes > RESIDENT_BYTES_MAX:
        raise Broken(f"it has {server.resident_bytes >> 20} MiB in memory, more than {RESIDENT_BYTES_MAX >> 20}")


def sweep(server: Lives, before: set[Key]) -> None:
    """Delete all objects made since ``before``; they go, once no client holds them."""
    until(lambda: _swept(server, before))


def everything(server: Lives) -> set[Key]:
    return {key_of(kind, each) for kind in kinds() for each in listed(server, kind)}


def _swept(server: Lives, before: set[Key]) -> str:
    left = []
    for kind in kinds():
        for each in listed(server, kind):
            key, meta = key_of(kind, each), each["metadata"]
            if key in before or not (kind.name != "Event" or meta.get("finalizers")):  # events keep coming
                continue
            left.append((key, meta.get("finalizers"), (each.get("spec") or {}).get("finalizers")))
            _let_go(server, kind, each)
    return f"they stay: {left[:5]}" if left else ""


def _let_go(server: Lives, kind: Kind, each: Tree) -> None:
    meta = each["metadata"]
    path = path_of(kind, meta.get("namespace", ""), meta["name"])
    finalizers = meta.get("finalizers") or []
    kept = [name for name in finalizers if name.startswith(OURS)]
    answers = []
    if kept != finalizers:
        change = {"metadata": {"finalizers": kept or None}}
        answers.append(server.ask("PATCH", f"{path}?fieldValidation=Ignore", change, MERGE_PATCH))
    if kind.name == "Namespace" and "x" in (each["spec"].get("finalizers") or ()):
        finalized = {**each, "spec": {"finalizers": ["kubernetes"]}}
        answers.append(server.ask("PUT", f"{path}/finalize", finalized))
    if "deletionTimestamp" not in meta or kind.name == "Pod":
        grace = {"gracePeriodSeconds": 0} if kind.name == "Pod" else {"propagationPolicy": "Background"}
        answers.append(server.ask("DELETE", path, grace))
    for answer in answers:
        if answer.code not in (200, 404, 409):
            raise Broken(f"{path} cannot be let go: {answer}\n{each}")
