"""Defaults and checks before an object is stored, and background work of the server afterwards."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from itertools import count
from pathlib import Path
from typing import Any

import httpx2
import pytest

from makeway.adapters.server.resources.admission import AdmissionPlugins
from makeway.adapters.server.resources.pod_calls import LogOptions, NoLog
from makeway.adapters.server.resources.upkeep import EVENTS, NAMESPACES, Upkeep, emptied
from makeway.adapters.server.storage.beginning import open_store
from makeway.api.objects.kubernetes import Event, Namespace
from makeway.api.objects.meta import ObjectMeta
from makeway.core.model import Millis
from makeway.runtime.ports import Forbidden, NotFound, Stored
from tests.adapters.server.serving import CORE, QUEUEING, NoExtras, pod, running, until

MERGE = {"content-type": "application/merge-patch+json"}
PODS = f"{CORE}/namespaces/default/pods"
JOBS = "/apis/batch/v1/namespaces/default/jobs"
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
TEMPLATE = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
_numbers = count()


@pytest.fixture
def name() -> str:
    return f"p{next(_numbers)}"


def made(client: httpx2.Client, path: str, body: dict[str, Any]) -> dict[str, Any]:
    answer = client.post(path, json=body)
    assert answer.status_code == 201, answer.text
    result: dict[str, Any] = answer.json()
    return result


# --- defaults --------------------------------------------------------------------------------------------------------


def test_a_pod_gets_the_defaults_of_kubernetes(admin: httpx2.Client, name: str) -> None:
    limited = {"name": "main", "image": "a/b:1", "resources": {"limits": {"cpu": "1"}, "requests": {"memory": "1Gi"}}}
    created = made(admin, PODS, pod(name, spec={"containers": [limited]}))
    spec = created["spec"]
    assert created["status"]["phase"] == "Pending"
    assert (spec["restartPolicy"], spec["terminationGracePeriodSeconds"], spec["schedulerName"]) == (
        "Always", 30, "default-scheduler",
    )  # fmt: skip
    assert spec["containers"][0]["resources"]["requests"] == {"cpu": "1", "memory": "1Gi"}
    assert spec["containers"][0]["imagePullPolicy"] == "IfNotPresent"


def test_a_job_tells_its_pods_apart_and_waits_if_it_is_queued(admin: httpx2.Client, name: str) -> None:
    plain = made(admin, JOBS, {"metadata": {"name": name}, "spec": {"template": TEMPLATE}})
    uid = plain["metadata"]["uid"]
    assert plain["spec"]["selector"]["matchLabels"] == {"batch.kubernetes.io/controller-uid": uid}
    assert plain["spec"]["template"]["metadata"]["labels"]["batch.kubernetes.io/job-name"] == name
    assert (plain["spec"]["suspend"], plain["spec"]["completions"], plain["spec"]["backoffLimit"]) == (False, 1, 6)
    labels = {"kueue.x-k8s.io/queue-name": "q"}
    queued = made(admin, JOBS, {"metadata": {"name": f"{name}-q", "labels": labels}, "spec": {"template": TEMPLATE}})
    assert queued["spec"]["suspend"] is True


def test_a_secret_keeps_what_was_written_as_text(admin: httpx2.Client, name: str) -> None:
    path = f"{CORE}/namespaces/default/secrets"
    created = made(admin, path, {"metadata": {"name": name}, "stringData": {"a": "b"}, "data": {"c": "ZA=="}})
    assert (created["data"], "stringData" in created) == ({"a": "Yg==", "c": "ZA=="}, False)
    patched = admin.patch(f"{path}/{name}", json={"stringData": {"c": "x"}, "immutable": True}, headers=MERGE).json()
    assert patched["data"] == {"a": "Yg==", "c": "eA=="}
    fixed = admin.patch(f"{path}/{name}", json={"data": {"a": None}}, headers=MERGE)
    assert (fixed.status_code, fixed.json()["details"]["causes"][0]["field"]) == (422, "data")


@pytest.mark.parametrize("plural", ["clusterqueues", "resourceflavors", "admissionchecks"])
def test_what_others_rest_on_begins_with_our_finalizer(admin: httpx2.Client, name: str, plural: str) -> None:
    spec = {"controllerName": "example.com/c"} if plural == "admissionchecks" else {}
    created = made(admin, f"{QUEUEING}/{plural}", {"metadata": {"name": name}, "spec": spec})
    assert created["metadata"]["finalizers"] == ["kueue.x-k8s.io/resource-in-use"]


def test_a_namespace_must_be_able_to_stand_in_a_label(admin: httpx2.Client) -> None:
    answer = admin.post(f"{CORE}/namespaces", json={"metadata": {"name": "a.b"}})
    assert (answer.status_code, answer.json()["details"]["causes"][0]["field"]) == (422, "metadata.name")


# --- priorities ------------------------------------------------------------------------------------------------------


def test_a_pod_gets_the_number_behind_its_class(admin: httpx2.Client, name: str) -> None:
    made(admin, CLASSES, {"metadata": {"name": name}, "value": 70, "preemptionPolicy": "Never"})
    spec = made(admin, PODS, pod(f"{name}-a", spec={"priorityClassName": name}))["spec"]
    assert (spec["priority"], spec["preemptionPolicy"]) == (70, "Never")
    assert made(admin, PODS, pod(f"{name}-b"))["spec"]["priority"] == 0
    system = made(admin, PODS, pod(f"{name}-c", spec={"priorityClassName": "system-node-critical"}))["spec"]
    assert system["priority"] == 2_000_001_000
    unknown = admin.post(PODS, json=pod(f"{name}-d", spec={"priorityClassName": "nope"}))
    assert unknown.status_code == 403
    assert unknown.json()["message"].endswith("no PriorityClass with name nope was found")
    wrong = admin.post(PODS, json=pod(f"{name}-e", spec={"priorityClassName": name, "priority": 71}))
    assert wrong.status_code == 403
    assert made(admin, PODS, pod(f"{name}-f", spec={"priorityClassName": name, "priority": 70}))


def test_a_scheduling_workload_is_let_in_with_its_priorities(admin: httpx2.Client, name: str) -> None:
    path = "/apis/scheduling.k8s.io/v1alpha1/namespaces/default/workloads"
    groups = [{"name": "g", "policy": {"gang": {"minCount": 2}}}]

    def body(suffix: str, **spec: str) -> dict[str, Any]:
        return {"metadata": {"name": f"{name}-{suffix}"}, "spec": {"podGroups": groups, **spec}}

    made(admin, CLASSES, {"metadata": {"name": f"{name}-low"}, "value": 5, "preemptionPolicy": "Never"})
    made(admin, CLASSES, {"metadata": {"name": f"{name}-high"}, "value": 50})
    low, high = f"{name}-low", f"{name}-high"
    both = made(admin, path, body("a", priorityClassName=low, preemptionPriorityClassName=high))
    assert both["status"] == {"priority": 5, "preemptionPriority": 50, "preemptionPolicy": "Never"}
    one = made(admin, path, body("b", priorityClassName=low))
    assert one["spec"]["preemptionPriorityClassName"] == low
    none = made(admin, path, body("c"))["status"]
    assert (none["priority"], none["preemptionPriority"]) == (0, 0)
    below = admin.post(path, json=body("d", priorityClassName=high, preemptionPriorityClassName=low))
    assert below.status_code == 422
    assert "spec.preemptionPriorityClassName" in below.text
    unknown = admin.post(path, json=body("e", priorityClassName="nope"))
    assert (unknown.status_code, "no PriorityClass is called" in unknown.text) == (422, True)


def test_there_is_one_default_class_and_it_counts(tmp_path: Path) -> None:
    with running(tmp_path) as server, server.client() as client:
        made(client, CLASSES, {"metadata": {"name": "usual"}, "value": 5, "globalDefault": True})
        spec = made(client, PODS, pod("a"))["spec"]
        assert (spec["priority"], spec["priorityClassName"]) == (5, "usual")
        second = client.post(CLASSES, json={"metadata": {"name": "other"}, "value": 6, "globalDefault": True})
        assert (second.status_code, second.json()["reason"]) == (403, "Forbidden")
        change = client.patch(f"{CLASSES}/usual", json={"globalDefault": False}, headers=MERGE)
        assert change.status_code == 200
        assert made(client, PODS, pod("b"))["spec"]["priority"] == 0


# --- what a pod can be asked for -------------------------------------------------------------------------------------


def test_the_node_that_a_pod_was_promised_goes_when_it_gets_one(admin: httpx2.Client, name: str) -> None:
    made(admin, PODS, pod(name))
    promise = admin.patch(f"{PODS}/{name}/status", json={"status": {"nominatedNodeName": "n2"}}, headers=MERGE)
    assert promise.json()["status"]["nominatedNodeName"] == "n2"
    assert admin.post(f"{PODS}/{name}/binding", json={"target": {"kind": "Node", "name": "n1"}}).status_code == 201
    bound = admin.get(f"{PODS}/{name}").json()
    assert (bound["spec"]["nodeName"], "nominatedNodeName" in bound["status"]) == ("n1", False)


def test_a_pod_is_bound_once(admin: httpx2.Client, name: str) -> None:
    made(admin, PODS, pod(name))
    binding = {"target": {"kind": "Node", "name": "n1"}, "metadata": {"name": name, "annotations": {"a": "b"}}}
    assert admin.post(f"{PODS}/{name}/binding", json=binding).status_code == 201
    bound = admin.get(f"{PODS}/{name}").json()
    assert (bound["spec"]["nodeName"], bound["metadata"]["annotations"]) == ("n1", {"a": "b"})
    assert bound["status"]["conditions"][0]["type"] == "PodScheduled"
    again = admin.post(f"{PODS}/{name}/binding", json={"target": {"name": "n2"}})
    assert (again.status_code, again.json()["reason"]) == (409, "Conflict")
    assert admin.post(f"{PODS}/nobody/binding", json=binding | {"metadata": {}}).status_code == 404
    assert admin.post(f"{PODS}/{name}/binding", json={"target": {"kind": "Rack", "name": "r"}}).status_code == 422


def started(client: httpx2.Client, name: str, *, labels: dict[str, str], ready: bool = True) -> None:
    made(client, PODS, pod(name, labels=labels, spec={"nodeName": "n1"}))
    condition = {"type": "Ready", "status": "True" if ready else "False"}
    status = {"phase": "Running", "conditions": [condition]}
    assert client.patch(f"{PODS}/{name}/status", json={"status": status}, headers=MERGE).status_code == 200


def test_an_eviction_asks_the_budget(admin: httpx2.Client, name: str) -> None:
    for i in range(3):
        started(admin, f"{name}-{i}", labels={"app": name})
    budget = {"metadata": {"name": name}, "spec": {"selector": {"matchLabels": {"app": name}}, "minAvailable": 2}}
    made(admin, BUDGETS, budget)

    def evict(pod_name: str, **more: Any) -> httpx2.Response:
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod_name}, **more}
        return admin.post(f"{PODS}/{pod_name}/eviction", json=body)

    early = evict(f"{name}-0")
    assert (early.status_code, early.headers["retry-after"]) == (429, "10")
    counts = {"disruptionsAllowed": 1, "currentHealthy": 3, "desiredHealthy": 2, "expectedPods": 3}
    status = {"status": {**counts, "observedGeneration": 1}}
    admin.patch(f"{BUDGETS}/{name}/status", json=status, headers=MERGE)
    assert evict(f"{name}-0", deleteOptions={"dryRun": ["All"]}).status_code == 201
    assert evict(f"{name}-0", deleteOptions={"gracePeriodSeconds": 0}).status_code == 201
    assert admin.get(f"{PODS}/{name}-0").status_code == 404
    left = admin.get(f"{BUDGETS}/{name}").json()["status"]
    assert left["disruptionsAllowed"] == 0
    assert list(left["disruptedPods"]) == [f"{name}-0"]
    refused = evict(f"{name}-1")
    assert (refused.status_code, refused.json()["reason"]) == (429, "TooManyRequests")
    assert refused.json()["details"]["causes"][0]["reason"] == "DisruptionBudget"
    made(admin, PODS, pod(f"{name}-waits", labels={"app": name}))
    assert evict(f"{name}-waits").status_code == 201  # a pod that does not run yet is no disruption


class OneLog:
    """A pod that has printed two lines."""

    async def _lines(self) -> AsyncIterator[bytes]:
        yield b"one\n"
        yield b"two\n"

    async def _nothing(self, why: str) -> AsyncIterator[bytes]:
        raise NoLog(why)
        yield b""

    def read(self, pod: Stored, options: LogOptions) -> AsyncIterator[bytes]:
        return self._nothing("ContainerCreating") if options.previous else self._lines()


def test_a_log_comes_from_whoever_runs_the_pod(tmp_path: Path, admin: httpx2.Client, name: str) -> None:
    made(admin, PODS, pod(name))
    nobody = admin.get(f"{PODS}/{name}/log")
    assert nobody.status_code == 400
    assert nobody.json()["message"].startswith(f'container "main" in pod "{name}" is waiting to start')
    with running(tmp_path, extras=NoExtras(logs=OneLog())) as server, server.client() as client:
        made(client, PODS, pod("a"))
        assert client.get(f"{PODS}/a/log").text == "one\ntwo\n"
        assert client.get(f"{PODS}/a/log", params={"previous": "true"}).status_code == 400
        assert client.get(f"{PODS}/a/log", params={"container": "other"}).status_code == 400
        assert client.get(f"{PODS}/a/log", params={"sinceSeconds": "0"}).status_code == 400
        assert client.get(f"{PODS}/b/log").status_code == 404
        two = [{"name": "x", "image": "i"}, {"name": "y", "image": "i"}]
        made(client, PODS, pod("two", spec={"containers": two}))
        unclear = client.get(f"{PODS}/two/log")
        assert "choose one of: [x y]" in unclear.json()["message"]


# --- upkeep ----------------------------------------------------------------------------------------------------------


def test_a_large_namespace_goes_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("makeway.adapters.server.resources.upkeep.PIECE", 3)
    with open_store(tmp_path / "data", lambda: Millis(0)) as store:
        store.create(Namespace(metadata=ObjectMeta(name="big")))
        for i in range(7):
            store.create(Event(metadata=ObjectMeta(name=f"e{i}", namespace="big")))
        store.delete(NAMESPACES, "", "big")
        pieces = [store.submit(lambda ahead: emptied(ahead, "big")).result() for _ in range(4)]
        assert pieces == [True, True, True, False]
        with pytest.raises(NotFound):
            store.get(NAMESPACES, "", "big")


def test_events_are_forgotten_after_an_hour_since_they_were_last_told(tmp_path: Path) -> None:
    now = [Millis(0)]
    with open_store(tmp_path / "data", lambda: now[0]) as store:
        old = store.create(Event(metadata=ObjectMeta(name="before-the-start", namespace="default")))
        upkeep = Upkeep(store, lambda: now[0])
        for name in ("quiet", "again"):
            store.create(Event(metadata=ObjectMeta(name=name, namespace="default")))
        now[0] = Millis(30 * 60 * 1000)
        store.patch(EVENTS, "default", "again", {"count": 2})
        now[0] = Millis(60 * 60 * 1000)
        asyncio.run(upkeep._forget_events())
        assert [each.name for each in store.list(EVENTS).items] == ["again"]
        assert old.name == "before-the-start"
        now[0] = Millis(91 * 60 * 1000)
        asyncio.run(upkeep._forget_events())
        assert store.list(EVENTS).items == ()


@pytest.mark.parametrize("span", [25 * 86_400, 10 * 31_557_600, 2**63 // 10**9], ids=["25 days", "10 years", "most"])
def test_events_may_stay_as_long_as_a_duration(tmp_path: Path, span: int) -> None:
    now = [Millis(1_767_268_800_000)]
    with open_store(tmp_path / "data", lambda: now[0]) as store:
        upkeep = Upkeep(store, lambda: now[0], events_ms=span * 1000)
        began = now[0]
        store.create(Event(metadata=ObjectMeta(name="told", namespace="default")))
        for later, left in ((0, 1), (span * 1000 - 1, 1), (span * 1000, 0)):
            now[0] = Millis(began + later)
            asyncio.run(upkeep._forget_events())
            assert len(store.list(EVENTS).items) == left


def test_events_of_the_younger_group_are_forgotten_like_all_others(tmp_path: Path) -> None:
    now = [Millis(0)]
    about = {"kind": "Pod", "name": "p", "namespace": "default"}
    younger = {
        "apiVersion": "events.k8s.io/v1", "kind": "Event", "regarding": about, "type": "Normal", "reason": "Told",
        "action": "Tell", "reportingController": "c", "reportingInstance": "c-1",
        "eventTime": "1970-01-01T00:00:00.000000Z",
    }  # fmt: skip
    series = {"count": 2, "lastObservedTime": "1970-01-01T00:30:00.000000Z"}
    with open_store(tmp_path / "data", lambda: now[0]) as store:
        upkeep = Upkeep(store, lambda: now[0])
        for name in ("quiet", "again"):
            store.create({**younger, "metadata": {"name": name, "namespace": "default"}})
        now[0] = Millis(30 * 60 * 1000)
        store.patch(EVENTS, "default", "again", {"apiVersion": "events.k8s.io/v1", "series": series})
        now[0] = Millis(60 * 60 * 1000)
        asyncio.run(upkeep._forget_events())
        assert [each.name for each in store.list(EVENTS).items] == ["again"]
        later = Upkeep(store, lambda: now[0])  # after a restart the series has the time of its last occurrence
        now[0] = Millis(89 * 60 * 1000)
        asyncio.run(later._forget_events())
        assert len(store.list(EVENTS).items) == 1
        now[0] = Millis(90 * 60 * 1000)
        asyncio.run(later._forget_events())
        assert store.list(EVENTS).items == ()


def test_a_namespace_that_was_on_its_way_out_goes_after_a_restart(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    with open_store(folder, lambda: Millis(0)) as store:
        store.create(Namespace(metadata=ObjectMeta(name="going")))
        store.delete(NAMESPACES, "", "going")
        assert store.get(NAMESPACES, "", "going").deleting
        with pytest.raises(Forbidden):
            store.create(Event(metadata=ObjectMeta(name="late", namespace="going")))
    with running(folder) as server, server.client() as client:
        until(lambda: client.get(f"{CORE}/namespaces/going").status_code == 404)


def test_which_jobs_are_ours_can_be_said_otherwise(tmp_path: Path) -> None:
    with running(tmp_path, admission=AdmissionPlugins(manages=lambda job: True)) as server, server.client() as client:
        created = made(client, JOBS, {"metadata": {"name": "j"}, "spec": {"template": TEMPLATE}})
        assert created["spec"]["suspend"] is True


def test_not_ready_is_told_with_its_reason(tmp_path: Path) -> None:
    extras = NoExtras(why_not_ready="it lists")
    with running(tmp_path, extras=extras) as server, server.nobody() as nobody:
        assert nobody.get("/healthz").status_code == 200
        answer = nobody.get("/readyz")
        assert (answer.status_code, answer.text) == (503, "not ready: it lists\n")
