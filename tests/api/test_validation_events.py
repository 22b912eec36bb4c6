"""Events: what each of the two groups asks of them, on create and on update."""

from __future__ import annotations

from typing import Any

import pytest

from makeway.api.codec import read, respelled
from makeway.api.reading.documents import Tree
from makeway.api.validation import validate, validate_update
from makeway.api.versions import find_kind

CORE, EVENTS = "v1", "events.k8s.io/v1"
OLDER: Tree = {
    "metadata": {"name": "e", "namespace": "team"}, "involvedObject": {"kind": "Pod", "name": "p", "namespace": "team"},
    "reason": "Started", "message": "words", "type": "Normal", "count": 3, "firstTimestamp": "2026-01-01T12:00:00Z",
    "lastTimestamp": "2026-01-01T12:00:09Z", "source": {"component": "c"},
}  # fmt: skip
NEWER: Tree = {
    "metadata": {"name": "e", "namespace": "team"}, "regarding": {"kind": "Pod", "name": "p", "namespace": "team"},
    "reason": "Started", "action": "Start", "note": "words", "type": "Normal", "reportingController": "example.com/c",
    "reportingInstance": "c-1", "eventTime": "2026-01-01T12:00:00.000000Z",
}  # fmt: skip


def event(api_version: str, **changes: Tree) -> Tree:
    whole = {"apiVersion": api_version, "kind": "Event", **(NEWER if api_version == EVENTS else OLDER), **changes}
    return {name: each for name, each in whole.items() if each is not None}


def value(tree: Tree) -> Any:
    reading = read(tree)
    assert reading.ok, reading.problems
    return reading.value


def created(tree: Tree) -> dict[str, str]:
    kind = find_kind(tree["apiVersion"], "Event")
    assert kind is not None
    found = respelled(validate(value(tree), created_as=kind), kind, "v1")
    return {each.path: each.cause for each in found}


def updated(api_version: str, before: Tree, after: Tree) -> list[str]:
    kind = find_kind(api_version, "Event")
    assert kind is not None
    found = validate_update(value(before), value(after), updated_as=kind)
    return [each.path for each in respelled(found, kind, "v1")]


def test_good_events_of_both_groups_are_taken() -> None:
    assert created(event(CORE)) == created(event(EVENTS)) == {}
    series = {"count": 2, "lastObservedTime": "2026-01-01T12:00:01.000000Z"}
    assert created(event(EVENTS, series=series)) == {}
    assert created(event(EVENTS, deprecatedSource={})) == {}
    in_default = {"name": "e", "namespace": "default"}
    assert created(event(EVENTS, metadata=in_default, regarding={"kind": "Node", "name": "n"})) == {}
    assert created(event(CORE, metadata=in_default, involvedObject={"kind": "Node", "name": "n"})) == {}


def test_a_view_requires_what_its_own_shape_requires() -> None:
    problems = read(event(CORE, involvedObject=None)).problems
    assert [(each.path, each.cause) for each in problems] == [("involvedObject", "Required")]
    assert created(event(EVENTS, metadata={"name": "e", "namespace": "default"}, regarding=None)) == {}
    assert list(created(event(EVENTS, regarding=None))) == ["regarding.namespace"]


def test_all_that_a_new_event_lacks_is_told_at_once() -> None:
    bare = event(EVENTS, reportingController=None, reportingInstance=None, action=None, reason=None, type=None)
    assert created(bare) == {
        "reportingController": "Required", "reportingInstance": "Required", "action": "Required", "reason": "Required",
        "type": "NotSupported",
    }  # fmt: skip
    assert created(event(EVENTS, eventTime=None, note=None)) == {"eventTime": "Required"}


@pytest.mark.parametrize(
    ("path", "change"),
    [
        ("deprecatedFirstTimestamp", {"deprecatedFirstTimestamp": "2026-01-01T12:00:00Z"}),
        ("deprecatedLastTimestamp", {"deprecatedLastTimestamp": "2026-01-01T12:00:00Z"}),
        ("deprecatedCount", {"deprecatedCount": 1}),
        ("deprecatedSource", {"deprecatedSource": {"component": "c"}}),
        ("series.count", {"series": {"count": 1, "lastObservedTime": "2026-01-01T12:00:01.000000Z"}}),
        ("series.lastObservedTime", {"series": {"count": 2}}),
        ("type", {"type": "Odd"}),
        ("reportingController", {"reportingController": "not a name"}),
        ("reportingInstance", {"reportingInstance": "x" * 129}),
        ("action", {"action": "x" * 129}),
        ("reason", {"reason": "x" * 129}),
        ("note", {"note": "é" * 513}),
        ("regarding.namespace", {"regarding": {"kind": "Node", "name": "n"}}),
    ],
)
def test_a_new_event_of_the_younger_group_is_held_against_its_rules(path: str, change: Tree) -> None:
    assert list(created(event(EVENTS, **change))) == [path]


def test_an_object_elsewhere_is_refused_of_older_events_only_where_namespaces_differ() -> None:
    elsewhere = {"kind": "Pod", "name": "p", "namespace": "other"}
    assert list(created(event(CORE, involvedObject=elsewhere))) == ["involvedObject.namespace"]
    assert list(created(event(CORE, involvedObject={"kind": "Node", "name": "n"}))) == ["involvedObject.namespace"]
    assert created(event(EVENTS, regarding=elsewhere)) == {}, "the younger sort may be about another namespace"
    assert created(event(CORE, metadata={"name": "e"}, involvedObject=elsewhere)) == {}, "not known yet where it goes"


def test_an_event_with_a_time_of_its_own_names_its_reporter_in_the_core_group_too() -> None:
    problems = created(event(CORE, eventTime="2026-01-01T12:00:00.000000Z"))
    assert problems == {"reportingComponent": "Required", "reportingInstance": "Required", "action": "Required"}


def test_an_update_through_the_younger_group_changes_the_series_only() -> None:
    series = {"count": 2, "lastObservedTime": "2026-01-01T12:00:01.000000Z"}
    assert updated(EVENTS, event(EVENTS), event(EVENTS, series=series)) == []
    assert updated(EVENTS, event(EVENTS), event(EVENTS, series={"count": 1})) == [
        "series.count", "series.lastObservedTime",
    ]  # fmt: skip
    change = {"note": "others", "deprecatedCount": 4, "regarding": {**NEWER["regarding"], "name": "q"}}
    assert updated(EVENTS, event(EVENTS), event(EVENTS, **change)) == ["regarding", "note", "deprecatedCount"]
    labelled = {**NEWER["metadata"], "labels": {"a": "b"}}
    assert updated(EVENTS, event(EVENTS), event(EVENTS, metadata=labelled)) == []


def test_an_update_through_the_core_group_may_change_all() -> None:
    assert updated(CORE, event(CORE), event(CORE, count=4, message="others")) == []


def test_an_older_event_may_be_labelled_through_the_younger_group() -> None:
    """It has no eventTime, and is not asked for one: only what is created there is."""
    shown = {
        "apiVersion": EVENTS, "kind": "Event", "reason": "Started", "type": "Normal", "deprecatedCount": 3,
        "metadata": {**OLDER["metadata"], "labels": {"a": "b"}}, "regarding": OLDER["involvedObject"], "note": "words",
        "deprecatedFirstTimestamp": OLDER["firstTimestamp"], "deprecatedLastTimestamp": OLDER["lastTimestamp"],
        "deprecatedSource": OLDER["source"],
    }  # fmt: skip
    assert updated(EVENTS, event(CORE), shown) == []
