"""A View of objects that a test lists, and a small store behind it: what a controller answers can be made true.

``FakeView.of(...)`` takes wire objects in any order. ``apply`` stores an outcome as a server would: status and the rest
are written separately, no write may break a rule of validation, an object with finalizers is only marked for deletion.
``settle`` reconciles and applies until there is nothing left to do.

The factories below it make the usual objects: one flavor, one ClusterQueue ``cq``, one LocalQueue ``main``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import msgspec
from msgspec import Raw

from makeway.api import codec
from makeway.api.conditions import Status, set_condition
from makeway.api.objects.kubernetes import Job
from makeway.api.objects.meta import ObjectMeta, OwnerReference
from makeway.api.objects.queueing import ClusterQueue, LocalQueue, ResourceFlavor
from makeway.api.objects.workload import (
    Admission,
    AdmissionCheckState,
    PodSet,
    PodSetAssignment,
    Workload,
    WorkloadSpec,
    WorkloadStatus,
)
from makeway.api.quantity import Quantity, Time
from makeway.api.validation import validate_update
from makeway.controllers.contract import (
    LOCAL_QUEUE,
    WORKLOAD,
    Action,
    Change,
    Controller,
    Create,
    Delete,
    Edit,
    KindName,
    Note,
    Object,
    Outcome,
    Ref,
    Write,
)
from makeway.core.lowering import load_state
from makeway.core.model import Millis, QueueName
from makeway.core.policy import Policy
from makeway.core.state import State

LOOKS_MAX = 25
THE_START = Millis(0)
NOW = Millis(1_767_225_600_000)  # 2026-01-01T00:00:00Z

replace = msgspec.structs.replace


def edited(edit: Edit[Object], value: Object) -> Object:
    """What an edit makes of an object to which it applies."""
    after = edit(value)
    assert after is not None
    return after


@dataclass
class FakeView:
    policy: Policy = field(default_factory=Policy)
    now: Millis = THE_START
    objects: dict[Ref, Any] = field(default_factory=dict)
    notes: list[Note] = field(default_factory=list)  # all that were made
    written: list[Write] = field(default_factory=list)  # all writes that changed something, in order
    _state: State | None = None

    @classmethod
    def of(cls, *objects: Any, policy: Policy | None = None, now: Millis = THE_START) -> FakeView:
        view = cls(policy or Policy(), now)
        for each in objects:
            view.put(each)
        return view

    def put(self, value: Any) -> Ref:
        """Store an object as it is, replacing any other."""
        self._state = None
        self.objects[Ref.of(value)] = value
        return Ref.of(value)

    # --- the View ---

    @property
    def state(self) -> State:
        if self._state is None:
            self._state = load_state(self.objects.values(), self.policy, self.now).state
        return self._state

    def get(self, ref: Ref[Object]) -> Object | None:
        return self.objects.get(ref)

    def all(self, kind: KindName[Object]) -> Iterable[Object]:
        return [self.objects[ref] for ref in sorted(self.objects) if ref.kind == kind]

    def owned(self, uid: str, kind: KindName[Object]) -> Iterable[Object]:
        return [
            each
            for each in self.all(kind)
            if any(owner.controller and owner.uid == uid for owner in each.metadata.owner_references)
        ]

    def in_local_queue(self, namespace: str, name: str) -> Iterable[Workload]:
        workloads = [each for each in self.all(WORKLOAD) if each.metadata.namespace == namespace]
        return [each for each in workloads if each.spec.queue_name == name]

    def queue_of(self, workload: Workload) -> QueueName:
        if workload.status is not None and workload.status.admission is not None:
            return QueueName(workload.status.admission.cluster_queue)
        local = self.get(Ref(LOCAL_QUEUE, workload.metadata.namespace, workload.spec.queue_name))
        return QueueName("" if local is None else local.spec.cluster_queue)

    # --- the store behind it ---

    def apply(self, outcome: Outcome) -> bool:
        """Carry an outcome out; returns whether anything was written. No object may be written twice."""
        refs = [_ref(each.write) for action in outcome.actions for each in (action, *action.then)]
        assert len(refs) == len(set(refs)), f"written twice in one outcome: {refs}"
        before = len(self.written)
        for action in outcome.actions:
            self._act(action)
        self.notes.extend(outcome.notes)
        return len(self.written) > before

    def settle(self, controller: Controller, *whom: Ref, now: Millis) -> Outcome:
        """Reconcile these and apply, in turn, until none has anything to write; the last outcome of the last."""
        self.now = now
        last = Outcome()
        for _ in range(LOOKS_MAX):
            changed = False
            for ref in whom:
                last = controller.react(ref, self, now)
                changed = self.apply(last) or changed
            if not changed:
                return last
        raise AssertionError(f"still writing after {LOOKS_MAX} looks: {last}")

    def workload(self, ref: Ref) -> Workload:
        value = self.objects[ref]
        assert isinstance(value, Workload)
        return value

    def _act(self, action: Action) -> None:
        if self._write(action.write):
            self._state = None
            self.written.append(action.write)
            self.notes.extend(action.notes)
            for each in action.then:
                self._act(each)

    def _write(self, write: Write) -> bool:
        ref = _ref(write)
        stored = self.objects.get(ref)
        if isinstance(write, Create):
            assert stored is None, f"{ref} exists"
            self.objects[ref] = write.body
            return True
        if stored is None or (write.uid and write.uid != stored.metadata.uid):
            return False
        if isinstance(write, Delete):
            return self._delete(ref, stored)
        return self._change(ref, stored, write)

    def _delete(self, ref: Ref, stored: Any) -> bool:
        if not stored.metadata.finalizers:
            del self.objects[ref]
            return True
        if stored.metadata.deletion_timestamp is not None:
            return False
        marked = replace(stored.metadata, deletion_timestamp=Time.of_millis(self.now))
        self.objects[ref] = replace(stored, metadata=marked)
        return True

    def _change(self, ref: Ref, stored: Any, write: Change[Any]) -> bool:
        made = write.edit(stored)
        if made is None:
            return False
        after = replace(stored, status=made.status) if write.status else replace(made, status=stored.status)
        assert made == after, f"{ref}: an edit of {'status' if write.status else 'the object'} changed the rest too"
        if after == stored:
            return False
        problems = [each for each in validate_update(stored, after) if each.severity == "error"]
        assert not problems, f"{ref}: {problems}"
        if after.metadata.deletion_timestamp is not None and not after.metadata.finalizers:
            del self.objects[ref]
        else:
            self.objects[ref] = after
        return True


def _ref(write: Write) -> Ref:
    return write.ref


# --- the usual objects -----------------------------------------------------------------------------------------------


def time(seconds: float = 0) -> Time:
    """So many seconds after ``NOW``, as it is stored."""
    return Time.of_millis(at(seconds) // 1000 * 1000)


def at(seconds: float = 0) -> Millis:
    return Millis(NOW + round(seconds * 1000))


def flavor(name: str = "default") -> ResourceFlavor:
    return ResourceFlavor(metadata=ObjectMeta(name=name, uid=f"uid-{name}"))


def cluster_queue(
    name: str = "cq",
    *,
    flavors: Iterable[str] = ("default",),
    cpu: str = "10",
    checks: dict[str, Iterable[str]] | None = None,
    **spec: Any,
) -> ClusterQueue:
    """``checks`` are admission checks with the flavors each is for; ``spec`` are further fields as YAML has them."""
    quotas = [{"name": each, "resources": [{"name": "cpu", "nominalQuota": cpu}]} for each in flavors]
    tree: dict[str, Any] = {"resourceGroups": [{"coveredResources": ["cpu"], "flavors": quotas}]}
    if checks:
        rules = [{"name": check, "onFlavors": list(where)} for check, where in checks.items()]
        tree["admissionChecksStrategy"] = {"admissionChecks": rules}
    return _read("ClusterQueue", name, {"namespaceSelector": {}, **tree, **spec}, ClusterQueue)


def local_queue(name: str = "main", queue: str = "cq", *, namespace: str = "default", **spec: Any) -> LocalQueue:
    return _read("LocalQueue", name, {"clusterQueue": queue, **spec}, LocalQueue, namespace=namespace)


def _read(kind: str, name: str, spec: dict[str, Any], type_: type[Object], **metadata: Any) -> Object:
    meta = {"name": name, "uid": f"uid-{name}", **metadata}
    tree = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, "metadata": meta, "spec": spec}
    result = codec.read(tree)
    assert isinstance(result.value, type_), result.problems
    return result.value


def workload(
    name: str = "w",
    *,
    reserved: float | None = None,
    admitted: float | None = None,
    evicted: tuple[str, float] | None = None,
    conditions: dict[str, tuple[Status, str, float]] | None = None,
    checks: Iterable[AdmissionCheckState] = (),
    queue: str = "cq",
    flavor: str = "default",
    cpu: str = "1",
    owner: OwnerReference | None = None,
    metadata: dict[str, Any] | None = None,
    spec: dict[str, Any] | None = None,
    **status: Any,
) -> Workload:
    """A Workload of LocalQueue ``main``. ``reserved`` and ``admitted`` are seconds after ``NOW`` and set conditions.

    ``conditions`` maps a type to status, reason and seconds; ``spec``, ``metadata`` and ``status`` are fields.
    """
    given: dict[str, tuple[Status, str, float]] = {}
    if admitted is not None and reserved is None:
        reserved = admitted
    if reserved is not None:
        given["QuotaReserved"] = ("True", "QuotaReserved", reserved)
        given["Admitted"] = ("False", "UnsatisfiedAdmissionChecks", reserved)
        use = PodSetAssignment(flavors={"cpu": flavor}, resource_usage={"cpu": Quantity.parse(cpu)}, count=1)
        status.setdefault("admission", Admission(cluster_queue=queue, pod_set_assignments=(use,)))
    if admitted is not None:
        given["Admitted"] = ("True", "Admitted", admitted)
    if evicted is not None:
        given["Evicted"] = ("True", *evicted)
    told: tuple[Any, ...] = ()
    for type_, (value, reason, seconds) in {**given, **(conditions or {})}.items():
        told = set_condition(told, type=type_, status=value, reason=reason, message="", now=time(seconds))
    meta = {"name": name, "namespace": "default", "uid": f"uid-{name}", "creation_timestamp": time(-3600)}
    owners = () if owner is None else (owner,)
    return Workload(
        metadata=ObjectMeta(**{**meta, "owner_references": owners, **(metadata or {})}),
        spec=WorkloadSpec(**{"queue_name": "main", "pod_sets": (PodSet(),), **(spec or {})}),
        status=WorkloadStatus(conditions=told, admission_checks=tuple(checks), **status),
    )


def check(name: str, state: Any = "Pending", seconds: float = 0, **fields: Any) -> AdmissionCheckState:
    return AdmissionCheckState(name=name, state=state, last_transition_time=time(seconds), **fields)


def owned_by(value: Any) -> OwnerReference:
    """A controller reference to an object."""
    meta = value.metadata
    return OwnerReference(api_version=value.api_version, kind=value.kind, name=meta.name, uid=meta.uid, controller=True)


def job(name: str = "job", *, active: int = 0, suspend: bool = True, ended: str = "") -> Job:
    """A batch/v1 Job as the job controller leaves it; ``ended`` is Complete or Failed."""
    status = {"active": active, "conditions": [{"type": ended, "status": "True"}] if ended else []}
    return Job(
        metadata=ObjectMeta(name=name, namespace="default", uid=f"uid-{name}"),
        spec=Raw(msgspec.json.encode({"suspend": suspend})),
        status=Raw(msgspec.json.encode(status)),
    )
