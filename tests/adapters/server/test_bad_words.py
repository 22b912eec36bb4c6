"""An invalid word, sent in every possible way: each is refused, at its path."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx2
import msgspec
import pytest

from makeway.adapters.server.resources.admission import AdmissionPlugins
from makeway.adapters.simulator.store import MemoryStore
from makeway.api.objects.kubernetes import Pod
from makeway.api.objects.meta import ObjectMeta
from makeway.api.versions import kind_of
from makeway.core.model import Millis
from makeway.runtime.ports import Invalid
from tests.adapters.server.serving import CORE, pod, running

Tree = dict[str, Any]
NODES = f"{CORE}/nodes"
GOOD = [{"key": "a", "effect": "NoSchedule"}]
BAD = [{"key": "a", "effect": "noSchedule"}]
TOLD = 'Unsupported value: "noSchedule" is not supported; allowed: NoSchedule, PreferNoSchedule, NoExecute'


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx2.Client]:
    with (
        running(tmp_path_factory.mktemp("server") / "data", admission=AdmissionPlugins()) as server,
        server.client() as client,
    ):
        assert client.post(NODES, json=node("n", GOOD)).status_code == 201
        yield client


def node(name: str, taints: list[Tree], **more: Any) -> Tree:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "spec": {"taints": taints}, **more}


def sent(client: httpx2.Client, way: str, path: str, body: Any, media: str) -> httpx2.Response:
    return client.request(way, path, content=json.dumps(body), headers={"content-type": f"application/{media}"})


@pytest.mark.parametrize(
    ("way", "path", "body", "media"),
    [
        ("POST", NODES, node("m", BAD), "json"),
        ("PUT", f"{NODES}/n", node("n", BAD), "json"),
        ("PATCH", f"{NODES}/n", {"spec": {"taints": BAD}}, "merge-patch+json"),
        ("PATCH", f"{NODES}/n", {"spec": {"taints": BAD}}, "strategic-merge-patch+json"),
        ("PATCH", f"{NODES}/n", [{"op": "replace", "path": "/spec/taints", "value": BAD}], "json-patch+json"),
        ("PATCH", f"{NODES}/n?fieldManager=me&force=true", node("n", BAD), "apply-patch+yaml"),
        ("PATCH", f"{NODES}/o?fieldManager=me", node("o", BAD), "apply-patch+yaml"),
    ],
    ids=lambda value: value if isinstance(value, str) and "/" not in value else None,
)
def test_a_bad_word_is_refused_in_whatever_way_it_comes(
    client: httpx2.Client, way: str, path: str, body: Any, media: str
) -> None:
    answer = sent(client, way, path, body, media)
    assert answer.status_code == 422, answer.text
    assert f"spec.taints[0].effect: {TOLD}" in answer.json()["message"]
    assert [each["field"] for each in answer.json()["details"]["causes"]] == ["spec.taints[0].effect"]


@pytest.mark.parametrize("media", ["merge-patch+json", "strategic-merge-patch+json", "apply-patch+yaml"])
def test_a_bad_word_deep_in_a_pod_that_is_there_is_refused(client: httpx2.Client, media: str) -> None:
    """The defaults of a pod are set before the result of a patch is validated."""
    name = media.partition("-")[0]
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}}
    pods = f"{CORE}/namespaces/default/pods"
    container = {"name": "c", "image": "i"}
    assert client.post(pods, json={**pod, "spec": {"containers": [container]}}).status_code == 201
    selector = {"matchExpressions": [{"key": "a", "operator": "x"}]}
    term = {"topologyKey": "b", "labelSelector": selector}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    body = {**pod, "spec": {"affinity": affinity}}
    answer = sent(client, "PATCH", f"{pods}/{name}?fieldManager=me&force=true", body, media)
    assert answer.status_code == 422, answer.text
    assert "labelSelector.matchExpressions[0].operator" in answer.json()["message"]


STATUS = {"conditions": [{"type": "Ready", "status": "yes"}]}


@pytest.mark.parametrize(
    ("way", "media"),
    [
        ("PUT", "json"),
        ("PATCH", "merge-patch+json"),
        ("PATCH", "strategic-merge-patch+json"),
        ("PATCH", "json-patch+json"),
        ("PATCH", "apply-patch+yaml"),
    ],
)
def test_a_status_is_judged_too(client: httpx2.Client, way: str, media: str) -> None:
    body: Any = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "status": STATUS}
    if media == "json-patch+json":
        body = [{"op": "add", "path": "/status", "value": STATUS}]
    query = "?fieldManager=me&force=true" if "apply" in media else ""
    answer = sent(client, way, f"{NODES}/n/status{query}", body, media)
    assert answer.status_code == 422, answer.text
    assert [each["field"] for each in answer.json()["details"]["causes"]] == ["status.conditions[0].status"]


# --- what is there already -------------------------------------------------------------------------------------------


@pytest.fixture
def store() -> MemoryStore:
    """A store with a pod that an older server accepted."""
    found = MemoryStore(lambda: Millis(0), careful=False)
    spec = {"restartPolicy": "Sometimes", "containers": [{"name": "C"}]}
    found.create(Pod(metadata=ObjectMeta(name="old", namespace="default"), spec=msgspec.Raw(msgspec.json.encode(spec))))
    return found


def patch(store: MemoryStore, change: Tree, *, status: bool = False) -> Tree:
    """Patch as an unprivileged client, whose values are validated."""
    before = store.get(kind_of(Pod), "default", "old").tree()
    body = {**before, **{name: {**(before.get(name) or {}), **each} for name, each in change.items()}}
    return (store.update_status(body) if status else store.update(body)).tree()


def test_what_was_wrong_before_keeps_nobody_from_changing_the_rest(store: MemoryStore) -> None:
    patch(store, {"metadata": {"labels": {"a": "b"}}})
    assert patch(store, {"status": {"phase": "Running"}}, status=True)["status"] == {"phase": "Running"}


def test_what_is_wrong_anew_is_refused_and_told_alone(store: MemoryStore) -> None:
    with pytest.raises(Invalid) as refused:
        patch(store, {"spec": {"dnsPolicy": "Elsewhere"}})
    assert [each.path for each in refused.value.problems if "dnsPolicy" in each.path] == ["spec.dnsPolicy"]
    assert not [each for each in refused.value.problems if "restartPolicy" in each.path]
    with pytest.raises(Invalid):
        patch(store, {"status": {"phase": "Gone"}}, status=True)


@pytest.mark.parametrize("way", ["body", "query", "eviction"])
def test_a_grace_period_that_no_client_could_read_is_refused(client: httpx2.Client, way: str) -> None:
    """Once it was accepted, and the stored object had an invalid time."""
    path = f"{CORE}/namespaces/default/pods"
    made = client.post(path, json={**pod(way), "spec": {"nodeName": "n", **pod(way)["spec"]}})
    assert made.status_code == 201
    for seconds in (2**63, 10**30):
        options = {"gracePeriodSeconds": seconds}
        if way == "eviction":
            body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": way}, "deleteOptions": options}
            answer = client.post(f"{path}/{way}/eviction", json=body)
        else:
            given: Tree = {"json": options} if way == "body" else {"params": options}
            answer = client.request("DELETE", f"{path}/{way}", **given)
        assert answer.status_code in (400, 422)
        assert "gracePeriodSeconds" in answer.json()["message"]
        assert "deletionTimestamp" not in client.get(f"{path}/{way}").json()["metadata"]
    last = client.request("DELETE", f"{path}/{way}", json={"gracePeriodSeconds": 2**63 - 1})
    assert last.json()["metadata"]["deletionTimestamp"] == "9999-12-31T23:59:59Z"
