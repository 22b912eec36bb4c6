"""Rules for Events, as in Kubernetes.

There are three sets of rules. In both groups, an event with an ``eventTime`` must name its reporter, reason and action.
An event without one is of the older sort: it only has to be in the namespace of its object. An event that is created
through events.k8s.io/v1 must be of the newer sort and must not set the older fields. An update through
events.k8s.io/v1 may change only the series and metadata.

Paths are those of the stored form; the caller translates them for a client of events.k8s.io/v1.
"""

from __future__ import annotations

from collections.abc import Iterator

from makeway.api.forms import is_qualified
from makeway.api.objects.kubernetes import Event, EventSource
from makeway.api.problems import Problem
from makeway.api.reading.structure import told

TEXT_MAX = 128  # characters of action, reason and reportingInstance
MESSAGE_BYTES_MAX = 1024
TYPES = ("Normal", "Warning")
_OLDER = ("first_timestamp", "last_timestamp", "count", "source")
_FIXED = (
    "involved_object", "reason", "message", *_OLDER, "type", "event_time", "action", "related", "reporting_component",
    "reporting_instance",
)  # fmt: skip
_NAMES = {
    "involved_object": "involvedObject", "first_timestamp": "firstTimestamp", "last_timestamp": "lastTimestamp",
    "event_time": "eventTime", "reporting_component": "reportingComponent", "reporting_instance": "reportingInstance",
}  # fmt: skip


def check_event(event: Event) -> Iterator[Problem]:
    """The rules for every Event."""
    namespace, of_object = event.metadata.namespace, event.involved_object.namespace
    if event.event_time is None:
        if namespace and namespace != (of_object or "default"):
            yield _elsewhere(namespace)
        return
    if namespace and not of_object and namespace not in ("default", "kube-system"):
        yield _elsewhere(namespace)
    if event.reporting_component and not is_qualified(event.reporting_component):
        yield Problem("reportingComponent", "is not a qualified name", "for example example.com/my-controller")
    for path, text in (
        ("reportingComponent", event.reporting_component),
        ("reportingInstance", event.reporting_instance),
        ("action", event.action),
        ("reason", event.reason),
    ):
        if not text:
            yield Problem(path, "required", "an event with an eventTime names it", cause="Required")
        elif len(text) > TEXT_MAX and path != "reportingComponent":
            yield Problem(path, f"has {len(text)} characters, more than {TEXT_MAX}")
    size = len(event.message.encode())
    if size > MESSAGE_BYTES_MAX:
        yield Problem("message", f"has {size} bytes, more than {MESSAGE_BYTES_MAX}")


def _elsewhere(namespace: str) -> Problem:
    hint = "an event is in the namespace of its object; of an object without one it is in default"
    return Problem("involvedObject.namespace", f"is not the namespace of the event, {told(namespace)}", hint)


def check_new_event(event: Event) -> Iterator[Problem]:
    """More rules for an Event that is created through events.k8s.io/v1."""
    if event.event_time is None:
        yield Problem("eventTime", "required", "say when it happened", cause="Required")
    if event.type not in TYPES:
        yield Problem("type", f"allowed: {', '.join(TYPES)}", cause="NotSupported")
    yield from _check_series(event)
    for name in _OLDER:
        if getattr(event, name) not in (None, 0, EventSource()):
            yield Problem(_NAMES.get(name, name), "must not be set: eventTime, series and reportingController tell it")


def _check_series(event: Event) -> Iterator[Problem]:
    if event.series is None:
        return
    if event.series.count < 2:
        yield Problem("series.count", f"{event.series.count} is below 2", "an event that happened once has no series")
    if event.series.last_observed_time is None:
        yield Problem("series.lastObservedTime", "required", "say when it was seen last", cause="Required")


def check_event_update(old: Event, new: Event) -> Iterator[Problem]:
    """More rules for an Event that is updated through events.k8s.io/v1."""
    if new.series != old.series:
        yield from _check_series(new)
    for name in _FIXED:
        before, after = getattr(old, name), getattr(new, name)
        if before != after:
            what = "set" if not before else "removed" if not after else "changed"
            yield Problem(_NAMES.get(name, name), f"cannot be {what} after creation")
