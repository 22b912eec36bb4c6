"""The subresources of a pod: binding to a node, eviction, log."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from typing import Protocol, TypeVar

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from makeway.adapters.server.http import bodies
from makeway.adapters.server.http.answers import Response, plain
from makeway.adapters.server.http.bodies import Query, WriteOptions
from makeway.adapters.server.http.statuses import Cause, RequestRefused, bad_request
from makeway.adapters.server.http.streams import OpenStream
from makeway.adapters.server.resources.calls import Call, ReaderThreads
from makeway.adapters.server.storage.store import SqliteStore
from makeway.api import codec
from makeway.api.objects.kubernetes import (
    Binding,
    DeleteOptions,
    Eviction,
    Pod,
    PodDisruptionBudget,
    PodDisruptionBudgetSpec,
    PodDisruptionBudgetStatus,
    amended,
    view,
)
from makeway.api.objects.meta import LabelSelector
from makeway.api.objects.pods import PodSpec, PodStatus
from makeway.api.problems import Problem
from makeway.api.quantity import Time
from makeway.api.reading.documents import Tree
from makeway.api.reading.structure import short
from makeway.api.versions import kind_of
from makeway.core.model import Expression, Millis, Selector, selects, stored
from makeway.runtime.ports import Clock, Conflict, Filter, Invalid, Stored, called, check_present, kind_key
from makeway.runtime.stores.rules import StoreRules, refuse

PODS, BUDGETS = kind_of(Pod), kind_of(PodDisruptionBudget)
ENDED = ("Succeeded", "Failed")
DEFAULT_CONTAINER = "kubectl.kubernetes.io/default-container"
T = TypeVar("T", Binding, Eviction)
_DONE: Mapping[str, Tree] = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}


@dataclass(frozen=True, slots=True)
class LogOptions:
    container: str
    follow: bool = False
    previous: bool = False
    timestamps: bool = False
    tail_lines: int | None = None
    since: Millis | None = None
    limit_bytes: int | None = None


class PodLogs(Protocol):
    """The source of pod logs."""

    def read(self, pod: Stored, options: LogOptions) -> AsyncIterator[bytes]:
        """Return the log of a container, after an empty part that comes at once. Raises ``NoLog`` before the first
        part.
        """


class NoLog(Exception):
    """The container has no log (yet); the message says why."""


class PodCalls:
    def __init__(self, store: SqliteStore, threads: ReaderThreads, clock: Clock, logs: PodLogs | None = None) -> None:
        self._store = store
        self._threads = threads
        self._clock = clock
        self._logs = logs

    def _now(self) -> Time:
        return Time.of_millis(stored(self._clock()))

    async def bind(self, call: Call) -> Response:
        binding = await self._threads.apart(call, lambda: _posted(call, Binding))
        now = self._now()
        return await self._decided(call, lambda ahead: bound(ahead, call.route.place, call.route.name, binding, now))

    async def evict(self, call: Call) -> Response:
        eviction = await self._threads.apart(call, lambda: _posted(call, Eviction))
        options, now = eviction.delete_options or DeleteOptions(), self._now()
        is_dry = any(each == "All" for each in options.dry_run)
        return await self._decided(
            call, lambda ahead: evicted(ahead, call.route.place, call.route.name, options, now), is_dry=is_dry
        )

    async def _decided(self, call: Call, decision: Callable[[StoreRules], None], *, is_dry: bool = False) -> Response:
        dry = is_dry or bodies.dry_run(call.query)
        await asyncio.wrap_future(self._store.submit(decision, dry_run=dry))
        return plain(_DONE, 201)

    async def log(self, call: Call, begin: Callable[[], OpenStream]) -> Response:
        """Return a log. ``begin`` counts a followed log, as a watch is counted."""
        pod = self._store.get(PODS, call.route.place, call.route.name)
        options = _log_options(call.query, pod, self._clock())
        stream = begin() if options.follow else None
        try:
            if self._logs is None:
                raise NoLog("no node agent runs here")
            lines = self._logs.read(pod, options)
            first = await anext(lines, b"")
        except BaseException as error:
            if stream is not None:
                stream.close()
            if not isinstance(error, NoLog):
                raise
            words = f'container "{options.container}" in pod "{pod.name}" is waiting to start: {error}'
            raise bad_request(words) from None
        return Response(200, _after(first, lines, stream), "text/plain; charset=utf-8", stream=stream)


async def _after(first: bytes, rest: AsyncIterator[bytes], stream: OpenStream | None) -> AsyncIterator[bytes]:
    """Yield the parts; of a stream as long as it goes on, even while there are none."""
    sending = asyncio.current_task()
    assert sending is not None

    def end(over: asyncio.Future[None]) -> None:
        sending.cancel()

    if stream is not None:
        stream.over.add_done_callback(end)
    try:
        yield first
        async for part in rest:
            if stream is not None and not stream.goes_on:
                break
            yield part
    except asyncio.CancelledError:
        if stream is None or not stream.over.done():
            raise
    finally:
        if stream is not None:
            stream.over.remove_done_callback(end)
        await rest.aclose()  # type: ignore[attr-defined]


def _posted(call: Call, type_: type[T]) -> T:
    """Return the body of a call that names its own kind."""
    kind = kind_of(type_)
    tree = bodies.mapping(bodies.read_object(call.body, call.content_type, type_))
    if (tree.get("kind") or kind.name) != kind.name:
        raise bad_request(f"the body must be a {kind.name}")
    mode = WriteOptions.of(call.query, call.user_agent).mode
    reading = codec.read({**tree, "apiVersion": kind.api_version, "kind": kind.name}, mode)
    refuse(reading.problems)
    value = reading.value
    assert isinstance(value, type_)
    if value.metadata.name not in ("", call.route.name) or value.metadata.namespace not in ("", call.route.place):
        raise bad_request("name and namespace in the body do not match those of the URL")
    return value


# --- binding ---------------------------------------------------------------------------------------------------------


def bound(ahead: StoreRules, namespace: str, name: str, binding: Binding, now: Time) -> None:
    """Bind a pod to its node, once. Raises Conflict if it has a node or is being deleted."""
    if binding.target.kind not in ("", "Node") or not binding.target.name:
        raise Invalid([Problem("target", "must name a Node", cause="Invalid")])
    old = ahead.get(PODS, namespace, name)
    check_present(old, binding.metadata.uid, binding.metadata.resource_version)
    pod: Pod = old.value()
    spec = view(pod.spec, PodSpec)
    why = ""
    if old.deleting:
        why = f"pod {name} is being deleted, cannot be assigned to a host"
    elif spec.node_name:
        why = f'pod {name} is already assigned to node "{spec.node_name}"'
    elif spec.scheduling_gates:
        why = f"pod {name} has non-empty .spec.schedulingGates"
    if why:
        raise Conflict(f"Operation cannot be fulfilled on {called(PODS, name)}: {why}")
    meta = replace(pod.metadata, annotations={**pod.metadata.annotations, **binding.metadata.annotations})
    status = _with_condition(pod.status, _condition("PodScheduled", now))
    ahead.put(old, replace(
        pod, metadata=meta, spec=amended(pod.spec, {"nodeName": binding.target.name}),
        status=amended(status, {"nominatedNodeName": None}),  # the nomination is used, or no longer needed
    ))  # fmt: skip


def _condition(type_: str, now: Time, reason: str = "", message: str = "") -> dict[str, Tree]:
    words = {"reason": reason, "message": message}
    return {
        "type": type_, "status": "True", "lastTransitionTime": now.text,
        **{name: each for name, each in words.items() if each},
    }  # fmt: skip


def _with_condition(status: Raw, condition: dict[str, Tree]) -> Raw:
    present = msgspec.json.decode(status).get("conditions") or []
    others = [each for each in present if each.get("type") != condition["type"]]
    return amended(status, {"conditions": [*others, condition]})


# --- eviction --------------------------------------------------------------------------------------------------------


def evicted(ahead: StoreRules, namespace: str, name: str, options: DeleteOptions, now: Time) -> None:
    """Delete a pod if its disruption budget allows it. Raises ``RequestRefused`` (429) if it does not."""
    old = ahead.get(PODS, namespace, name)
    asked = options.preconditions
    check_present(old, (asked and asked.uid) or "", (asked and asked.resource_version) or "")
    pod: Pod = old.value()
    status = view(pod.status, PodStatus)
    if not old.deleting and status.phase not in (*ENDED, "Pending", ""):
        _ask_budget(ahead, old, status, now)
        words = "Eviction API: evicting"
        marked = _with_condition(pod.status, _condition("DisruptionTarget", now, "EvictionByEvictionAPI", words))
        ahead.put(old, replace(pod, status=marked))
    propagation = options.propagation_policy
    ahead.delete(PODS, namespace, name, propagation=propagation, grace=options.grace_period_seconds)


def _ask_budget(ahead: StoreRules, pod: Stored, status: PodStatus, now: Time) -> None:
    there = ahead.page(BUDGETS, Filter(kind_key(BUDGETS), pod.namespace, ())).items
    budgets = [each for each in there if _covers(each, pod)]
    if len(budgets) > 1:
        raise RequestRefused(
            500, "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
        )  # fmt: skip
    if not budgets:
        return
    (budget,) = budgets
    value: PodDisruptionBudget = budget.value()
    spec, known = view(value.spec, PodDisruptionBudgetSpec), view(value.status, PodDisruptionBudgetStatus)
    is_ready = any(condition.type == "Ready" and condition.status == "True" for condition in status.conditions)
    if not is_ready and _spares_unhealthy(spec, known):
        return
    if known.observed_generation < budget.generation:
        words = f"The disruption budget {budget.name} is still being processed by the server."
        raise _violates(words, retry_seconds=10)
    if known.disruptions_allowed < 1:
        raise _violates(
            f"The disruption budget {budget.name} needs {known.desired_healthy} healthy pods and has "
            f"{known.current_healthy} currently"
        )
    granted = {**known.disrupted_pods, pod.name: now}
    changes = {"disruptionsAllowed": known.disruptions_allowed - 1, "disruptedPods": granted}
    ahead.put(budget, replace(value, status=amended(value.status, changes)))


def _covers(budget: Stored, pod: Stored) -> bool:
    """Whether a budget selects the pod. One without a selector selects none (api 12), nor does an unreadable one."""
    try:
        selector = view(budget.value().spec, PodDisruptionBudgetSpec).selector
    except msgspec.ValidationError:
        return False
    if selector is None or not (selector.match_labels or selector.match_expressions):
        return False
    return selects(_requirements(selector), pod.labels)


def _requirements(selector: LabelSelector) -> Selector:
    equal = (Expression(key, "In", (value,)) for key, value in selector.match_labels.items())
    others = (
        Expression(match_expression.key, match_expression.operator, match_expression.values)
        for match_expression in selector.match_expressions
    )
    return (*equal, *others)


def _spares_unhealthy(spec: PodDisruptionBudgetSpec, known: PodDisruptionBudgetStatus) -> bool:
    """Whether a pod that is not ready may be evicted without being counted: always, or while the budget is kept."""
    if spec.unhealthy_pod_eviction_policy == "AlwaysAllow":
        return True
    return known.current_healthy >= known.desired_healthy > 0


def _violates(words: str, retry_seconds: int | None = None) -> RequestRefused:
    message = "Cannot evict pod as it would violate the pod's disruption budget."
    return RequestRefused(429, message, causes=[Cause("DisruptionBudget", words)], retry_seconds=retry_seconds)


# --- logs ------------------------------------------------------------------------------------------------------------


def _log_options(query: Query, pod: Stored, now: Millis) -> LogOptions:
    seconds, at = query.integer("sinceSeconds", least=1), query.text("sinceTime")
    since = None if seconds is None else Millis(now - seconds * 1000)
    if at:
        if seconds is not None:
            raise bad_request("at most one of `sinceTime` or `sinceSeconds` may be specified")
        try:
            since = Millis(Time.parse(at).millis)
        except ValueError as error:
            raise bad_request(f"sinceTime: {error}") from None
    return LogOptions(
        _container(pod, query.text("container")), query.flag("follow") or False, query.flag("previous") or False,
        query.flag("timestamps") or False, query.integer("tailLines"), since, query.integer("limitBytes", least=1),
    )  # fmt: skip


def _container(pod: Stored, asked: str) -> str:
    value: Pod = pod.value()
    spec = msgspec.json.decode(value.spec)
    names = [str(each.get("name", "")) for group in ("containers", "initContainers") for each in spec.get(group) or ()]
    mains = [str(each.get("name", "")) for each in spec.get("containers") or ()]
    chosen = asked or value.metadata.annotations.get(DEFAULT_CONTAINER, "") or (mains[0] if len(mains) == 1 else "")
    if not chosen:
        raise bad_request(f"a container name must be specified for pod {pod.name}, choose one of: [{' '.join(names)}]")
    if chosen not in names:
        raise bad_request(f"container {short(chosen)} is not valid for pod {pod.name}")
    return chosen
