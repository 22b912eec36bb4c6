"""The verbs, on a real server over HTTPS."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from itertools import count
from typing import Any

import httpx2
import pytest
import yaml

from tests.adapters.server.serving import (
    CONFIG_MAPS,
    CORE,
    LOCAL_QUEUES,
    QUEUEING,
    Server,
    config_map,
    pod,
    queue,
    until,
)

JSON_PATCH = {"content-type": "application/json-patch+json"}
MERGE = {"content-type": "application/merge-patch+json"}
STRATEGIC = {"content-type": "application/strategic-merge-patch+json"}
APPLY = {"content-type": "application/apply-patch+yaml"}
PODS = f"{CORE}/namespaces/default/pods"
_numbers = count()


@pytest.fixture
def name() -> str:
    """A name that no other test uses."""
    return f"o{next(_numbers)}"


@pytest.fixture
def space(admin: httpx2.Client, name: str) -> Iterator[str]:
    """A new namespace, as a path."""
    made = admin.post(f"{CORE}/namespaces", json={"metadata": {"name": f"ns-{name}"}})
    assert made.status_code == 201, made.text
    yield f"{CORE}/namespaces/ns-{name}"
    admin.delete(f"{CORE}/namespaces/ns-{name}")


def made(client: httpx2.Client, path: str, body: dict[str, Any], **more: Any) -> dict[str, Any]:
    answer = client.post(path, json=body, **more)
    assert answer.status_code == 201, answer.text
    result: dict[str, Any] = answer.json()
    return result


def names(answer: httpx2.Response) -> list[str]:
    assert answer.status_code == 200, answer.text
    return [each["metadata"]["name"] for each in answer.json()["items"]]


# --- one object ------------------------------------------------------------------------------------------------------


def test_what_is_created_can_be_read_listed_changed_and_removed(admin: httpx2.Client, name: str) -> None:
    created = made(admin, LOCAL_QUEUES, queue(name))
    assert created["metadata"]["namespace"] == "default"
    at = f"{LOCAL_QUEUES}/{name}"
    assert admin.get(at).json() == created
    assert name in names(admin.get(LOCAL_QUEUES))
    assert name in names(admin.get(f"{QUEUEING}/localqueues"))
    changed = admin.put(at, json={**created, "spec": {"clusterQueue": "shared", "stopPolicy": "Hold"}})
    assert (changed.status_code, changed.json()["metadata"]["generation"]) == (200, 2)
    gone = admin.delete(at)
    assert (gone.status_code, gone.json()["status"]) == (200, "Success")
    assert gone.json()["details"]["uid"] == created["metadata"]["uid"]
    missing = admin.get(at)
    assert missing.status_code == 404
    assert missing.json()["message"] == f'localqueues.kueue.x-k8s.io "{name}" not found'
    assert missing.json()["details"] == {"name": name, "group": "kueue.x-k8s.io", "kind": "localqueues"}


def test_a_name_can_be_left_to_the_server(admin: httpx2.Client) -> None:
    body = {**queue(""), "metadata": {"generateName": "some-"}}
    first, second = made(admin, LOCAL_QUEUES, body), made(admin, LOCAL_QUEUES, body)
    assert first["metadata"]["name"].startswith("some-")
    assert first["metadata"]["name"] != second["metadata"]["name"]


def test_a_second_one_of_the_same_name_is_refused(admin: httpx2.Client, name: str) -> None:
    made(admin, LOCAL_QUEUES, queue(name))
    again = admin.post(LOCAL_QUEUES, json=queue(name))
    assert (again.status_code, again.json()["reason"]) == (409, "AlreadyExists")


def test_what_the_body_leaves_out_is_taken_from_the_path(admin: httpx2.Client, name: str) -> None:
    created = made(admin, LOCAL_QUEUES, {"metadata": {"name": name}, "spec": {"clusterQueue": "shared"}})
    assert (created["apiVersion"], created["kind"]) == ("kueue.x-k8s.io/v1beta2", "LocalQueue")


@pytest.mark.parametrize(
    "body",
    [
        {"apiVersion": "kueue.x-k8s.io/v1beta1", "metadata": {"name": "x"}},
        {"kind": "ClusterQueue", "metadata": {"name": "x"}},
        {"metadata": {"name": "x", "namespace": "other"}},
    ],
    ids=["another version", "another kind", "another namespace"],
)
def test_a_body_that_contradicts_its_path_is_refused(admin: httpx2.Client, body: dict[str, Any]) -> None:
    answer = admin.post(LOCAL_QUEUES, json={**body, "spec": {"clusterQueue": "shared"}})
    assert (answer.status_code, answer.json()["reason"]) == (400, "BadRequest")


def test_all_problems_of_an_object_are_told_at_once(admin: httpx2.Client) -> None:
    body = {"metadata": {"name": "Bad_Name"}, "spec": {"stopPolicy": "Perhaps"}}
    answer = admin.post(LOCAL_QUEUES, json=body)
    status = answer.json()
    assert (answer.status_code, status["reason"]) == (422, "Invalid")
    assert (status["details"]["kind"], status["details"]["name"]) == ("LocalQueue", "Bad_Name")
    assert status["message"].startswith('LocalQueue.kueue.x-k8s.io "Bad_Name" is invalid: [')
    causes = {each["field"]: each["reason"] for each in status["details"]["causes"]}
    assert causes["spec.stopPolicy"] == "FieldValueNotSupported"
    assert causes["metadata.name"] == "FieldValueInvalid"


def test_a_stale_update_conflicts_and_a_precondition_is_held(admin: httpx2.Client, name: str) -> None:
    created = made(admin, CONFIG_MAPS, config_map(name))
    at = f"{CONFIG_MAPS}/{name}"
    assert admin.patch(at, json={"data": {"a": "2"}}, headers=MERGE).status_code == 200
    stale = admin.put(at, json={**created, "data": {"a": "3"}})
    assert (stale.status_code, stale.json()["reason"]) == (409, "Conflict")
    assert stale.json()["message"].endswith("please apply your changes to the latest version and try again")
    other = admin.request("DELETE", at, json={"preconditions": {"uid": "another"}})
    assert other.status_code == 409
    right = {"preconditions": {"uid": created["metadata"]["uid"]}, "propagationPolicy": "Background"}
    assert admin.request("DELETE", at, json=right).status_code == 200


def test_status_is_written_through_its_part_alone(admin: httpx2.Client, name: str) -> None:
    created = made(admin, LOCAL_QUEUES, queue(name, status={"pendingWorkloads": 7}))
    assert created.get("status", {}).get("pendingWorkloads", 0) == 0
    at = f"{LOCAL_QUEUES}/{name}"
    put = admin.put(f"{at}/status", json={**created, "spec": {"clusterQueue": "no"}, "status": {"pendingWorkloads": 3}})
    assert put.status_code == 200, put.text
    assert put.json()["spec"]["clusterQueue"] == "shared"
    assert put.json()["status"]["pendingWorkloads"] == 3
    patched = admin.patch(f"{at}/status", json={"status": {"pendingWorkloads": 4}}, headers=MERGE)
    assert patched.json()["status"]["pendingWorkloads"] == 4
    plain = admin.patch(at, json={"status": {"pendingWorkloads": 5}}, headers=MERGE)
    assert plain.json()["status"]["pendingWorkloads"] == 4
    assert admin.get(f"{at}/status").json()["status"]["pendingWorkloads"] == 4
    assert admin.get(f"{CONFIG_MAPS}/x/status").status_code == 404


# --- dry runs and field validation -----------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", ["create", "update", "patch", "delete"])
def test_a_dry_run_answers_and_leaves_no_trace(admin: httpx2.Client, name: str, verb: str) -> None:
    at, dry = f"{CONFIG_MAPS}/{name}", {"dryRun": "All"}
    if verb == "create":
        answer = made(admin, CONFIG_MAPS, config_map(name), params=dry)
        assert answer["metadata"]["uid"]
        assert admin.get(at).status_code == 404
        return
    created = made(admin, CONFIG_MAPS, config_map(name))
    if verb == "update":
        answer = admin.put(at, json={**created, "data": {"a": "2"}}, params=dry).json()
        assert answer["data"] == {"a": "2"}
    elif verb == "patch":
        answer = admin.patch(at, json={"data": {"a": "2"}}, params=dry, headers=MERGE).json()
        assert answer["data"] == {"a": "2"}
    else:
        assert admin.delete(at, params=dry).status_code == 200
    assert admin.get(at).json() == created


def test_an_unknown_field_is_refused_warned_of_or_dropped(admin: httpx2.Client, name: str) -> None:
    body = queue(name, spec={"clusterQueue": "shared", "clusterQ": 1})
    strict = admin.post(LOCAL_QUEUES, json=body, params={"fieldValidation": "Strict"})
    assert strict.status_code == 400
    words = 'LocalQueue in version "v1beta2" cannot be handled as a LocalQueue: strict decoding error: unknown field'
    assert strict.json()["message"].startswith(f'{words} "spec.clusterQ"')
    warned = admin.post(LOCAL_QUEUES, json=body, params={"dryRun": "All"})
    assert warned.status_code == 201
    assert warned.headers["warning"].startswith('299 - "unknown field \\"spec.clusterQ\\"')
    ignored = admin.post(LOCAL_QUEUES, json=body, params={"fieldValidation": "Ignore"})
    assert "warning" not in ignored.headers
    assert "clusterQ" not in ignored.json()["spec"]


def test_of_a_key_that_is_set_twice_the_last_counts_unless_that_is_refused(admin: httpx2.Client, name: str) -> None:
    body = f'{{"metadata":{{"name":"{name}"}},"data":{{"a":"1","a":"2"}}}}'
    send = {"content": body, "headers": {"content-type": "application/json"}}
    strict = admin.post(CONFIG_MAPS, params={"fieldValidation": "Strict"}, **send)  # type: ignore[arg-type]
    assert 'duplicate field "data.a"' in strict.json()["message"]
    warned = admin.post(CONFIG_MAPS, **send)  # type: ignore[arg-type]
    assert (warned.status_code, warned.json()["data"]) == (201, {"a": "2"})
    assert 'duplicate field \\"data.a\\"' in warned.headers["warning"]


# --- patches ---------------------------------------------------------------------------------------------------------


def test_a_merge_patch_merges(admin: httpx2.Client, name: str) -> None:
    made(admin, CONFIG_MAPS, config_map(name, data={"a": "1", "b": "2"}))
    answer = admin.patch(f"{CONFIG_MAPS}/{name}", json={"data": {"a": None, "c": "3"}}, headers=MERGE)
    assert answer.json()["data"] == {"b": "2", "c": "3"}


def test_a_json_patch_is_carried_out_and_its_test_can_fail(admin: httpx2.Client, name: str) -> None:
    made(admin, CONFIG_MAPS, config_map(name))
    at = f"{CONFIG_MAPS}/{name}"
    good = [{"op": "test", "path": "/data/a", "value": "1"}, {"op": "add", "path": "/data/b", "value": "2"}]
    assert admin.patch(at, json=good, headers=JSON_PATCH).json()["data"] == {"a": "1", "b": "2"}
    bad = admin.patch(at, json=[{"op": "test", "path": "/data/a", "value": "no"}], headers=JSON_PATCH)
    assert bad.status_code == 422
    assert admin.patch(at, json={"op": "add"}, headers=JSON_PATCH).status_code == 400


def test_a_strategic_merge_knows_the_keys_of_lists(admin: httpx2.Client, name: str) -> None:
    made(admin, PODS, pod(name))
    change = {"spec": {"containers": [{"name": "main", "image": "pause:2"}]}}
    answer = admin.patch(f"{PODS}/{name}", json=change, headers=STRATEGIC)
    assert answer.status_code == 200, answer.text
    (container,) = answer.json()["spec"]["containers"]
    assert (container["image"], container["terminationMessagePolicy"]) == ("pause:2", "File")
    ours = admin.patch(f"{LOCAL_QUEUES}/{name}", json={}, headers=STRATEGIC)
    assert ours.status_code in (404, 415)


def test_a_patch_cannot_make_another_object_of_it(admin: httpx2.Client, name: str) -> None:
    made(admin, CONFIG_MAPS, config_map(name))
    answer = admin.patch(f"{CONFIG_MAPS}/{name}", json={"metadata": {"name": "other"}}, headers=MERGE)
    assert answer.status_code == 400


def test_apply_creates_changes_and_meets_conflicts(admin: httpx2.Client, name: str) -> None:
    at = f"{CONFIG_MAPS}/{name}"

    def apply(manager: str, data: dict[str, str], **more: Any) -> httpx2.Response:
        content = yaml.safe_dump({"apiVersion": "v1", "kind": "ConfigMap", "data": data})
        return admin.patch(at, content=content, headers=APPLY, params={"fieldManager": manager, **more})

    assert apply("", {"a": "1"}).status_code == 422
    assert apply("one", {"a": "1"}).status_code == 201
    assert apply("one", {"a": "2"}).status_code == 200
    met = apply("two", {"a": "3"})
    assert (met.status_code, met.json()["reason"]) == (409, "Conflict")
    (cause,) = met.json()["details"]["causes"]
    assert (cause["reason"], cause["field"]) == ("FieldManagerConflict", ".data.a")
    forced = apply("two", {"a": "3"}, force="true")
    assert forced.json()["data"] == {"a": "3"}
    assert [each["manager"] for each in forced.json()["metadata"]["managedFields"]] == ["two"]


def test_who_names_itself_is_remembered_and_who_does_not_costs_nothing(admin: httpx2.Client, name: str) -> None:
    quiet = made(admin, CONFIG_MAPS, config_map(f"{name}-a"))
    named = made(admin, CONFIG_MAPS, config_map(f"{name}-b"), params={"fieldManager": "me"})
    assert "managedFields" not in quiet["metadata"]
    assert named["metadata"]["managedFields"][0]["manager"] == "me"
    later = admin.patch(
        f"{CONFIG_MAPS}/{name}-b", json={"data": {"z": "1"}}, headers={**MERGE, "user-agent": "you/1.0"}
    )
    assert {each["manager"] for each in later.json()["metadata"]["managedFields"]} == {"me", "you"}


# --- lists -----------------------------------------------------------------------------------------------------------


def test_a_list_comes_in_pages_that_show_one_moment(admin: httpx2.Client, space: str) -> None:
    for i in range(5):
        made(admin, f"{space}/configmaps", config_map(f"c{i}"))
    first = admin.get(f"{space}/configmaps", params={"limit": 2}).json()
    assert first["metadata"]["remainingItemCount"] == 3
    made(admin, f"{space}/configmaps", config_map("a-later-one"))
    seen, token = [each["metadata"]["name"] for each in first["items"]], first["metadata"]["continue"]
    while token:
        page = admin.get(f"{space}/configmaps", params={"limit": 2, "continue": token}).json()
        assert page["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
        seen += [each["metadata"]["name"] for each in page["items"]]
        token = page["metadata"].get("continue")
    assert seen == ["c0", "c1", "c2", "c3", "c4"]


def test_a_resource_version_says_which_moment_is_wanted(admin: httpx2.Client, space: str) -> None:
    version = made(admin, f"{space}/configmaps", config_map("c1"))["metadata"]["resourceVersion"]
    made(admin, f"{space}/configmaps", config_map("c2"))

    def asked(**query: str) -> httpx2.Response:
        return admin.get(f"{space}/configmaps", params=query)

    assert names(asked(resourceVersion=version, resourceVersionMatch="Exact")) == ["c1"]
    assert names(asked(resourceVersion=version, limit="10")) == ["c1"]
    assert names(asked(resourceVersion=version, resourceVersionMatch="NotOlderThan")) == ["c1", "c2"]
    assert names(asked(resourceVersion=version)) == ["c1", "c2"]
    assert names(asked(resourceVersion="0")) == ["c1", "c2"]
    future = asked(resourceVersion="999999999")
    assert (future.status_code, future.json()["details"]["causes"][0]["reason"]) == (504, "ResourceVersionTooLarge")
    for wrong in (
        {"resourceVersionMatch": "Exact"}, {"resourceVersion": "0", "resourceVersionMatch": "Exact"},
        {"resourceVersion": "abc"}, {"resourceVersion": version, "resourceVersionMatch": "Nearly"},
    ):  # fmt: skip
        assert asked(**wrong).status_code == 400, wrong


@pytest.mark.parametrize(
    ("selector", "chosen"),
    [
        ("tier=gold", ["a"]),
        ("tier==gold", ["a"]),
        ("tier!=gold", ["b", "c"]),
        ("tier", ["a", "b"]),
        ("!tier", ["c"]),
        ("tier in (gold, silver)", ["a", "b"]),
        ("tier notin (gold)", ["b", "c"]),
        ("tier in (gold,silver),size>3", ["b"]),
        ("size<3", ["a"]),
        ("", ["a", "b", "c"]),
    ],
)
def test_labels_choose(admin: httpx2.Client, labelled: str, selector: str, chosen: list[str]) -> None:
    assert names(admin.get(labelled, params={"labelSelector": selector})) == chosen


@pytest.fixture(scope="module")
def labelled(admin: httpx2.Client) -> str:
    """A path with labelled objects."""
    made(admin, f"{CORE}/namespaces", {"metadata": {"name": "labelled"}})
    path = f"{CORE}/namespaces/labelled/configmaps"
    for name, labels in (("a", {"tier": "gold", "size": "1"}), ("b", {"tier": "silver", "size": "4"}), ("c", {})):
        made(admin, path, config_map(name, labels=labels))
    return path


@pytest.mark.parametrize(
    ("selector", "chosen"),
    [
        ("metadata.name=p1", ["p1"]),
        ("metadata.name!=p1", ["p2"]),
        ("spec.nodeName=n1", ["p1"]),
        ("spec.nodeName=", ["p2"]),
        ("status.phase=Pending,spec.nodeName!=n1", ["p2"]),
        ("status.phase=Running", []),
    ],
)
def test_fields_choose(admin: httpx2.Client, space: str, selector: str, chosen: list[str]) -> None:
    made(admin, f"{space}/pods", pod("p1", spec={"nodeName": "n1"}))
    made(admin, f"{space}/pods", pod("p2"))
    assert names(admin.get(f"{space}/pods", params={"fieldSelector": selector})) == chosen


def test_a_collection_can_be_removed_by_selector(admin: httpx2.Client, space: str) -> None:
    for name, labels in (("a", {"x": "1"}), ("b", {"x": "1"}), ("c", {})):
        made(admin, f"{space}/configmaps", config_map(name, labels=labels))
    dry = admin.delete(f"{space}/configmaps", params={"labelSelector": "x=1", "dryRun": "All"})
    assert dry.status_code == 200
    assert len(names(admin.get(f"{space}/configmaps"))) == 3
    assert admin.delete(f"{space}/configmaps", params={"labelSelector": "x=1"}).status_code == 200
    assert names(admin.get(f"{space}/configmaps")) == ["c"]


# --- forms -----------------------------------------------------------------------------------------------------------


def test_objects_come_as_tables_as_metadata_and_as_yaml(admin: httpx2.Client, space: str) -> None:
    made(admin, f"{space}/configmaps", config_map("c1"))
    made(admin, f"{space}/configmaps", config_map("c2"))

    def asked(accept: str, path: str = "configmaps") -> httpx2.Response:
        return admin.get(f"{space}/{path}", headers={"accept": accept})

    table = asked("application/json;as=Table;v=v1;g=meta.k8s.io,application/json").json()
    assert table["kind"] == "Table"
    assert [each["name"] for each in table["columnDefinitions"]] == ["Name", "Data", "Age"]
    assert [row["cells"][:2] for row in table["rows"]] == [["c1", 1], ["c2", 1]]
    assert table["metadata"]["resourceVersion"]
    one = asked("application/json;as=Table;v=v1;g=meta.k8s.io", "configmaps/c1").json()
    assert len(one["rows"]) == 1
    partial = asked("application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io").json()
    assert partial["kind"] == "PartialObjectMetadataList"
    assert set(partial["items"][0]) == {"kind", "apiVersion", "metadata"}
    assert yaml.safe_load(asked("application/yaml", "configmaps/c1").text)["data"] == {"a": "1"}
    assert asked("application/vnd.kubernetes.protobuf").status_code == 406


def test_the_older_version_is_served_by_conversion(admin: httpx2.Client, name: str) -> None:
    older = "/apis/kueue.x-k8s.io/v1beta1/clusterqueues"
    body = {"metadata": {"name": name}, "spec": {"cohort": "all", "namespaceSelector": {}}}
    assert made(admin, older, body)["spec"]["cohort"] == "all"
    newer = admin.get(f"{QUEUEING}/clusterqueues/{name}").json()
    assert (newer["apiVersion"], newer["spec"]["cohortName"]) == ("kueue.x-k8s.io/v1beta2", "all")
    change = {"spec": {"cohort": "few"}}
    assert admin.patch(f"{older}/{name}", json=change, headers=MERGE).json()["spec"]["cohort"] == "few"
    listed = admin.get(older).json()
    assert {each["apiVersion"] for each in listed["items"]} == {"kueue.x-k8s.io/v1beta1"}


def test_broken_rules_are_told_at_the_paths_of_the_version_that_was_written(admin: httpx2.Client, name: str) -> None:
    both = {"kubeConfig": {"location": "k"}, "clusterProfileRef": {"name": "p"}}
    for version, spec, path in (("v1beta1", both, "spec"), ("v1beta2", {"clusterSource": both}, "spec.clusterSource")):
        body = {"metadata": {"name": name}, "spec": spec}
        refused = admin.post(f"/apis/kueue.x-k8s.io/{version}/multikueueclusters", json=body)
        assert refused.status_code == 422
        assert [each["field"] for each in refused.json()["details"]["causes"]] == [path]


def test_the_other_workload_is_one_in_both_of_its_groups(admin: httpx2.Client, name: str) -> None:
    first, second = (f"/apis/{group}/v1alpha1/namespaces/default/workloads" for group in
                     ("scheduling.makeway.dev", "scheduling.k8s.io"))  # fmt: skip
    body = {"metadata": {"name": name}, "spec": {"podGroups": [{"name": "g", "policy": {"basic": {}}}]}}
    created = made(admin, first, body)
    assert created["apiVersion"] == "scheduling.makeway.dev/v1alpha1"
    seen = admin.get(f"{second}/{name}").json()
    assert seen["apiVersion"] == "scheduling.k8s.io/v1alpha1"
    assert seen["metadata"] == created["metadata"]
    change = {"apiVersion": "scheduling.makeway.dev/v1alpha1", "metadata": {"labels": {"a": "b"}}}
    patched = admin.patch(f"{first}/{name}", json=change, headers=MERGE)
    assert (patched.status_code, patched.json()["apiVersion"]) == (200, "scheduling.makeway.dev/v1alpha1")


def test_large_answers_are_packed_for_who_can_unpack_them(server: Server, admin: httpx2.Client, space: str) -> None:
    for i in range(3):
        made(admin, f"{space}/configmaps", config_map(f"big{i}", data={"a": "x" * 100_000}))
    plain = admin.get(f"{space}/configmaps", headers={"accept-encoding": "identity"})
    assert "content-encoding" not in plain.headers
    with server.client() as client, client.stream("GET", f"{space}/configmaps") as packed:
        assert packed.headers["content-encoding"] == "gzip"
        raw = b"".join(packed.iter_raw())
    assert len(raw) < 10_000
    assert json.loads(gzip.decompress(raw))["items"] == plain.json()["items"]


# --- what is not an object -------------------------------------------------------------------------------------------


def test_health_version_and_discovery(server: Server, admin: httpx2.Client) -> None:
    with server.nobody() as nobody:
        assert nobody.get("/healthz").text == nobody.get("/livez").text == nobody.get("/readyz").text == "ok"
        assert nobody.get("/version").json()["major"] == "1"
        assert nobody.get("/metrics").status_code == 401
        assert nobody.get("/api").status_code == 401
    told = admin.get("/metrics").text
    assert told.startswith("makeway_up 1\n")
    assert "\nmakeway_connections{" in told  # of the server itself
    assert admin.get("/apis").json()["kind"] == "APIGroupList"
    assert admin.get("/nonsense").status_code == 404
    absent = admin.get("/apis/visibility.kueue.x-k8s.io/v1beta2/clusterqueues/none/pendingworkloads")
    assert absent.status_code == 404


def test_a_namespace_takes_its_content_with_it(admin: httpx2.Client, name: str) -> None:
    made(admin, f"{CORE}/namespaces", {"metadata": {"name": name}})
    made(admin, f"{CORE}/namespaces/{name}/configmaps", config_map("inside"))
    held = made(admin, f"{CORE}/namespaces/{name}/configmaps", config_map("held", finalizers=["example.com/mine"]))
    assert admin.delete(f"{CORE}/namespaces/{name}").json()["metadata"]["deletionTimestamp"]
    at = f"{CORE}/namespaces/{name}"

    until(lambda: "SomeFinalizersRemain" in admin.get(at).text)
    assert admin.get(at).json()["status"]["phase"] == "Terminating"
    assert names(admin.get(f"{at}/configmaps")) == [held["metadata"]["name"]]
    late = admin.post(f"{at}/configmaps", json=config_map("late"))
    assert (late.status_code, late.json()["reason"]) == (403, "Forbidden")
    assert "because it is being terminated" in late.json()["message"]
    admin.patch(f"{at}/configmaps/held", json={"metadata": {"finalizers": None}}, headers=MERGE)
    until(lambda: admin.get(at).status_code == 404)


def test_the_first_namespaces_stay(admin: httpx2.Client) -> None:
    assert {"default", "kube-system", "kube-public"} <= set(names(admin.get(f"{CORE}/namespaces")))
    assert admin.delete(f"{CORE}/namespaces/default").status_code == 403


def test_an_object_in_a_namespace_that_is_not_there_is_not_taken(admin: httpx2.Client) -> None:
    answer = admin.post(f"{CORE}/namespaces/nowhere/configmaps", json=config_map("a"))
    assert (answer.status_code, answer.json()["message"]) == (404, 'namespaces "nowhere" not found')
