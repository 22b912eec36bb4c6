"""Events as clients of Kueue read and write them: events.k8s.io/v1 and core/v1 show the same objects."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

import httpx2
import pytest

from tests.cli.living import Living, flavor, living, queue, until, workload

pytestmark = pytest.mark.slow

CORE = "/api/v1/namespaces/default/events"
EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"
MERGE = {"content-type": "application/merge-patch+json"}
Tree = dict[str, Any]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Living]:
    with living(tmp_path_factory.mktemp("events")) as server:
        server.create(flavor(), *queue("q", cpu=2), workload("first"))
        until(lambda: len(server.items(f"{CORE}?fieldSelector=involvedObject.name=first")) >= 2, "two events")
        yield server


@pytest.fixture(scope="module")
def events_api(server: Living) -> Iterator[Any]:
    client = pytest.importorskip("kubernetes.client")
    with server.official_client() as api:
        yield client.EventsV1Api(api)


def newer(name: str, **changes: Any) -> Tree:
    """An event of the newer group, as its recorders send it."""
    about = {"apiVersion": "v1", "kind": "Pod", "name": "p", "namespace": "default"}
    whole = {
        "metadata": {"name": name}, "regarding": about, "reason": "Told", "action": "Tell", "note": "words",
        "type": "Normal", "reportingController": "example.com/teller", "reportingInstance": "teller-1",
        "eventTime": "2026-01-01T12:00:00.000000Z", **changes,
    }  # fmt: skip
    return {field: each for field, each in whole.items() if each is not None}


def older(name: str) -> Tree:
    about = {"apiVersion": "v1", "kind": "Pod", "name": "p", "namespace": "default"}
    return {
        "metadata": {"name": name}, "involvedObject": about, "reason": "Told", "message": "words", "type": "Warning",
        "source": {"component": "teller", "host": "h"}, "count": 3, "firstTimestamp": "2026-01-01T12:00:00Z",
        "lastTimestamp": "2026-01-01T12:00:09Z", "reportingComponent": "teller", "reportingInstance": "",
    }  # fmt: skip


def sent(answer: httpx2.Response, code: int) -> Any:
    assert answer.status_code == code, answer.text
    return answer.json()


# --- one object, two spellings ---------------------------------------------------------------------------------------


def test_what_the_engine_tells_is_there_under_the_same_names_in_both_groups(server: Living) -> None:
    core = {each["metadata"]["name"]: each for each in server.items(f"{CORE}?fieldSelector=involvedObject.name=first")}
    shown = server.get(f"{EVENTS}?fieldSelector=regarding.name=first")
    assert (shown["apiVersion"], shown["kind"]) == ("events.k8s.io/v1", "EventList")
    younger = {each["metadata"]["name"]: each for each in shown["items"]}
    assert {each["reason"] for each in younger.values()} == {"QuotaReserved", "Admitted"}
    assert set(core) == set(younger)
    for name, each in younger.items():
        twin = core[name]
        assert each["apiVersion"] == "events.k8s.io/v1"
        assert each["metadata"] == twin["metadata"]  # uid and resourceVersion too
        assert each["regarding"] == twin["involvedObject"]
        assert each["note"] == twin["message"]
        assert each["reportingController"] == twin["reportingComponent"] == "kueue-admission"
        assert each["deprecatedSource"] == twin["source"]
        assert each["deprecatedFirstTimestamp"] == twin["firstTimestamp"]
        assert each["deprecatedLastTimestamp"] == twin["lastTimestamp"]
        assert each["deprecatedCount"] == twin["count"]
        assert each["eventTime"][:19] == twin["firstTimestamp"][:19]
        assert each["action"]
        assert each["reportingInstance"]
        assert not {"involvedObject", "message", "source", "count", "reportingComponent"} & set(each)


def test_an_event_is_written_in_either_group_and_read_in_the_other(server: Living) -> None:
    made = sent(server.client.post(EVENTS, json=newer("both-young")), 201)
    twin = server.get(f"{CORE}/both-young")
    assert (made["apiVersion"], twin["apiVersion"]) == ("events.k8s.io/v1", "v1")
    assert twin["metadata"] == made["metadata"]
    assert (twin["message"], twin["involvedObject"]) == (made["note"], made["regarding"])
    assert (twin["reportingComponent"], twin["eventTime"]) == ("example.com/teller", "2026-01-01T12:00:00.000000Z")
    made = sent(server.client.post(CORE, json=older("both-old")), 201)
    twin = server.get(f"{EVENTS}/both-old")
    assert twin["metadata"] == made["metadata"]
    assert (twin["deprecatedSource"], twin["deprecatedCount"]) == ({"component": "teller", "host": "h"}, 3)
    assert twin["deprecatedLastTimestamp"] == "2026-01-01T12:00:09Z"
    again = server.client.post(EVENTS, json=newer("both-old"))
    assert (again.status_code, again.json()["reason"]) == (409, "AlreadyExists")


def test_patches_of_all_sorts_speak_the_words_of_their_group(server: Living) -> None:
    sent(server.client.post(EVENTS, json=newer("patched")), 201)
    at = f"{EVENTS}/patched"
    series = {"count": 2, "lastObservedTime": "2026-01-01T12:00:05.000000Z"}
    merged = sent(server.client.patch(at, json={"series": series}, headers=MERGE), 200)
    assert (merged["apiVersion"], merged["series"]) == ("events.k8s.io/v1", series)
    strategic = {"content-type": "application/strategic-merge-patch+json"}
    labelled = sent(server.client.patch(at, json={"metadata": {"labels": {"a": "b"}}}, headers=strategic), 200)
    assert (labelled["metadata"]["labels"], labelled["note"]) == ({"a": "b"}, "words")
    steps = [{"op": "test", "path": "/note", "value": "words"}, {"op": "replace", "path": "/series/count", "value": 3}]
    json_patch = {"content-type": "application/json-patch+json"}
    assert sent(server.client.patch(at, json=steps, headers=json_patch), 200)["series"]["count"] == 3
    assert sent(server.client.put(at, json=server.get(at)), 200)["series"]["count"] == 3
    twin = sent(server.client.patch(f"{CORE}/patched", json={"message": "others"}, headers=MERGE), 200)
    assert (twin["message"], twin["series"]["count"]) == ("others", 3)
    refused = sent(server.client.patch(at, json={"note": "no"}, headers=MERGE), 422)
    assert [each["field"] for each in refused["details"]["causes"]] == ["note"]
    assert server.client.patch(at, json={"apiVersion": "v1"}, headers=MERGE).status_code == 400


def test_who_applies_in_one_group_owns_the_field_in_both(server: Living) -> None:
    apply = {"content-type": "application/apply-patch+yaml"}
    wanted = {"apiVersion": "events.k8s.io/v1", "kind": "Event", **newer("applied")}
    made = sent(
        server.client.patch(f"{EVENTS}/applied?fieldManager=one", content=json.dumps(wanted), headers=apply), 201
    )
    assert [each["manager"] for each in made["metadata"]["managedFields"]] == ["one"]
    other = {"apiVersion": "v1", "kind": "Event", "message": "others", "involvedObject": wanted["regarding"]}
    clash = server.client.patch(f"{CORE}/applied?fieldManager=two", content=json.dumps(other), headers=apply)
    assert [each["field"] for each in sent(clash, 409)["details"]["causes"]] == [".message"]
    other = {"apiVersion": "events.k8s.io/v1", "kind": "Event", "note": "others"}
    clash = server.client.patch(f"{EVENTS}/applied?fieldManager=two", content=json.dumps(other), headers=apply)
    assert [each["field"] for each in sent(clash, 409)["details"]["causes"]] == [".note"]
    same = server.client.patch(f"{EVENTS}/applied?fieldManager=one", content=json.dumps(wanted), headers=apply)
    assert sent(same, 200)["metadata"] == made["metadata"], "applied again, nothing changes"


def test_a_watch_in_one_group_tells_what_is_written_in_the_other(server: Living) -> None:
    since = server.get(EVENTS)["metadata"]["resourceVersion"]
    sent(server.client.post(CORE, json=older("watched")), 201)
    sent(server.client.patch(f"{CORE}/watched", json={"count": 4}, headers=MERGE), 200)
    sent(server.client.delete(f"{EVENTS}/watched"), 200)

    def seen(path: str, name: str) -> list[tuple[str, Tree]]:
        query = {"watch": "1", "resourceVersion": since, "fieldSelector": f"{name}=p", "timeoutSeconds": "60"}
        with server.client.stream("GET", path, params=query, timeout=60) as stream:
            lines = [json.loads(line) for line in itertools.islice(stream.iter_lines(), 3)]
        return [(each["type"], each["object"]) for each in lines]

    younger, core = seen(EVENTS, "regarding.name"), seen(CORE, "involvedObject.name")
    assert [(kind, each["deprecatedCount"]) for kind, each in younger] == [
        ("ADDED", 3),
        ("MODIFIED", 4),
        ("DELETED", 4),
    ]
    assert {each["apiVersion"] for _, each in younger} == {"events.k8s.io/v1"}
    assert [each["metadata"] for _, each in younger] == [each["metadata"] for _, each in core]


def test_pages_of_a_list_follow_each_other_in_the_younger_group(server: Living) -> None:
    first = server.get(f"{EVENTS}?limit=1")
    rest = server.get(f"{EVENTS}?continue={first['metadata']['continue']}")
    whole = {each["metadata"]["uid"] for each in server.items(CORE)}
    assert {each["metadata"]["uid"] for each in (*first["items"], *rest["items"])} == whole


# --- what is asked for, and what is refused --------------------------------------------------------------------------


def test_each_group_selects_by_its_own_fields(server: Living) -> None:
    sent(server.client.post(EVENTS, json=newer("selected", reason="Picked", type="Warning")), 201)

    def names(path: str, selector: str) -> list[str]:
        return [each["metadata"]["name"] for each in server.items(f"{path}?fieldSelector={selector}")]

    for selector in (
        "regarding.name=p,reason=Picked", "regarding.kind=Pod,type=Warning,reason=Picked", "metadata.name=selected",
        "reportingController=example.com/teller,reason=Picked", "regarding.namespace=default,reason=Picked",
    ):  # fmt: skip
        assert names(EVENTS, selector) == ["selected"], selector
    for selector in ("involvedObject.name=p,reason=Picked", "reportingComponent=example.com/teller,reason=Picked"):
        assert names(CORE, selector) == ["selected"], selector
    assert names(CORE, "source=example.com/teller,reason=Picked") == ["selected"], "its reporter is its source"
    for path, selector in ((EVENTS, "involvedObject.name=p"), (EVENTS, "source=x"), (CORE, "regarding.name=p")):
        refused = server.client.get(path, params={"fieldSelector": selector})
        assert (refused.status_code, "field label not supported" in refused.text) == (400, True)


def test_all_that_a_new_event_lacks_is_told_at_once_in_the_words_of_its_group(server: Living) -> None:
    bare = newer("bare", eventTime=None, type=None, deprecatedCount=1, series={"count": 1})
    refused = sent(server.client.post(EVENTS, json=bare), 422)
    causes = {each["field"]: each["reason"] for each in refused["details"]["causes"]}
    assert causes == {
        "eventTime": "FieldValueRequired", "type": "FieldValueNotSupported", "series.count": "FieldValueInvalid",
        "series.lastObservedTime": "FieldValueRequired", "deprecatedCount": "FieldValueInvalid",
    }  # fmt: skip
    assert (refused["details"]["group"], refused["details"]["kind"]) == ("events.k8s.io", "Event")
    unnamed = newer("bare", reportingController=None, reportingInstance=None, action=None, reason=None)
    fields = [each["field"] for each in sent(server.client.post(EVENTS, json=unnamed), 422)["details"]["causes"]]
    assert fields == ["reportingController", "reportingInstance", "action", "reason"]
    strict = server.client.post(f"{EVENTS}?fieldValidation=Strict", json={**newer("bare"), "message": "core's word"})
    assert 'unknown field "message"' in sent(strict, 400)["message"]
    assert server.client.get(f"{CORE}/bare").status_code == 404


def test_a_viewer_reads_events_in_both_groups_and_writes_in_neither(server: Living) -> None:
    token = server.plane.access.issue("somebody", "viewer")
    headers = {"authorization": f"Bearer {token}"}
    for path, body in ((CORE, older("viewer")), (EVENTS, newer("viewer"))):
        assert server.client.get(path, headers=headers).status_code == 200
        assert server.client.post(path, json=body, headers=headers).status_code == 403


# --- discovery, schemas, tables, protobuf ----------------------------------------------------------------------------


def test_the_group_is_found_by_every_way_to_discover_it(server: Living) -> None:
    verbs = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
    (entry,) = server.get("/apis/events.k8s.io/v1")["resources"]
    assert (entry["name"], entry["kind"], entry["namespaced"], entry["verbs"]) == ("events", "Event", True, verbs)
    accept = {"accept": "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"}
    groups = sent(server.client.get("/apis", headers=accept), 200)["items"]
    (group,) = (each for each in groups if each["metadata"]["name"] == "events.k8s.io")
    (resource,) = group["versions"][0]["resources"]
    assert (resource["resource"], resource["responseKind"]["group"]) == ("events", "events.k8s.io")
    schemas = server.get("/openapi/v3/apis/events.k8s.io/v1")["components"]["schemas"]
    described = {
        (kind["group"], kind["kind"]): each
        for each in schemas.values()
        for kind in each.get("x-kubernetes-group-version-kind", ())
    }
    event = described["events.k8s.io", "Event"]
    assert event["required"] == ["eventTime"]
    assert {"regarding", "note", "reportingController", "deprecatedCount"} <= set(event["properties"])
    assert "/apis/events.k8s.io/v1/namespaces/{namespace}/events/{name}" in server.get("/openapi/v2")["paths"]


def test_a_table_of_events_says_the_same_in_both_groups(server: Living) -> None:
    sent(server.client.post(EVENTS, json=newer("row", reason="Row")), 201)
    accept = {"accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
    query = {"fieldSelector": "reason=Row", "includeObject": "Object"}
    core, younger = (sent(server.client.get(path, headers=accept, params=query), 200) for path in (CORE, EVENTS))
    assert core["columnDefinitions"] == younger["columnDefinitions"]
    assert younger["rows"][0]["cells"][1:4] == ["Normal", "Row", "pod/p"]
    assert core["rows"][0]["cells"][1:5] == younger["rows"][0]["cells"][1:5]
    assert younger["rows"][0]["object"]["apiVersion"] == "events.k8s.io/v1"
    assert younger["rows"][0]["object"]["note"] == "words"


def varint(number: int) -> bytes:
    return bytes([number]) if number < 0x80 else bytes([number & 0x7F | 0x80]) + varint(number >> 7)


def message(fields: Mapping[int, int | str | bytes]) -> bytes:
    """A protobuf message by its field numbers."""
    parts = []
    for number, value in fields.items():
        if isinstance(value, int):
            parts.append(varint(number << 3) + varint(value))
        else:
            data = value.encode() if isinstance(value, str) else value
            parts.append(varint(number << 3 | 2) + varint(len(data)) + data)
    return b"".join(parts)


def test_a_body_in_protobuf_is_read(server: Living) -> None:
    regarding = message({1: "Pod", 2: "default", 3: "p", 5: "v1"})
    series = message({1: 2, 2: message({1: 1_767_268_805})})
    event = message({
        1: message({1: "in-protobuf"}), 2: message({1: 1_767_268_800, 2: 5000}), 3: series, 4: "example.com/teller",
        5: "teller-1", 6: "Tell", 7: "Told", 8: regarding, 10: "words", 11: "Normal",
    })  # fmt: skip
    body = b"k8s\0" + message({1: message({1: "events.k8s.io/v1", 2: "Event"}), 2: event})
    headers = {"content-type": "application/vnd.kubernetes.protobuf"}
    made = sent(server.client.post(EVENTS, content=body, headers=headers), 201)
    assert made["eventTime"] == "2026-01-01T12:00:00.000005Z"
    assert made["series"] == {"count": 2, "lastObservedTime": "2026-01-01T12:00:05.000000Z"}
    assert made["regarding"] == {"apiVersion": "v1", "kind": "Pod", "namespace": "default", "name": "p"}
    assert (made["action"], made["reason"], made["note"], made["type"]) == ("Tell", "Told", "words", "Normal")


# --- the official client ---------------------------------------------------------------------------------------------


def test_the_typed_client_lists_creates_counts_and_deletes(server: Living, events_api: Any) -> None:
    client = pytest.importorskip("kubernetes.client")
    told = events_api.list_namespaced_event("default", field_selector="regarding.name=first")
    assert {(each.reason, each.regarding.kind) for each in told.items} == {
        ("QuotaReserved", "Workload"), ("Admitted", "Workload"),
    }  # fmt: skip
    assert all(each.event_time.tzinfo and each.reporting_controller == "kueue-admission" for each in told.items)
    body = client.EventsV1Event(
        metadata=client.V1ObjectMeta(name="typed", labels={"by": "python"}), action="Tell", reason="Told", note="words",
        type="Normal", reporting_controller="example.com/python", reporting_instance="python-1",
        event_time=datetime(2026, 1, 1, 12, 0, 0, 1, UTC),
        regarding=client.V1ObjectReference(kind="Pod", name="p", namespace="default"),
    )  # fmt: skip
    made = events_api.create_namespaced_event("default", body)
    assert server.get(f"{CORE}/typed")["metadata"]["uid"] == made.metadata.uid
    made.series = client.EventsV1EventSeries(count=2, last_observed_time=datetime(2026, 1, 1, 12, 0, 1, 1, UTC))
    assert events_api.replace_namespaced_event("typed", "default", made).series.count == 2
    patched = events_api.patch_namespaced_event("typed", "default", {"metadata": {"annotations": {"a": "b"}}})
    assert (patched.metadata.annotations, patched.series.count) == ({"a": "b"}, 2)
    with pytest.raises(client.ApiException) as refused:
        events_api.create_namespaced_event("default", {**newer("typed-bad"), "type": "Odd"})
    assert refused.value.status == 422
    events_api.delete_collection_namespaced_event("default", label_selector="by=python")
    assert server.client.get(f"{CORE}/typed").status_code == 404
    assert server.client.get(f"{CORE}?fieldSelector=involvedObject.name=first").json()["items"], "others stay"
