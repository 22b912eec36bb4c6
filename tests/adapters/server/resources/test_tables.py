"""Tables: the columns of a kind, its cells, and ages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec
import pytest

from makeway.adapters.server.resources.cells import ago, selector
from makeway.adapters.server.resources.tables import table
from makeway.api.quantity import Time
from makeway.api.reading.documents import Tree
from makeway.api.versions import KINDS, Kind
from makeway.core.model import Millis
from makeway.runtime.ports import Stored

NOW = Millis(Time.parse("2026-01-01T01:00:00Z").millis)
BORN = "2026-01-01T00:00:00Z"


def kind_named(name: str, group: str | None = None) -> Kind:
    return next(kind for kind in KINDS if kind.name == name and group in (None, kind.group))


def stored(kind: Kind, tree: Tree) -> Stored:
    meta = {"name": "x", "namespace": "n" if kind.namespaced else "", "uid": "u", "resourceVersion": "1"}
    metadata = {**meta, "creationTimestamp": BORN, **tree.get("metadata", {})}
    whole = {"apiVersion": kind.api_version, "kind": kind.name, **tree, "metadata": metadata}
    return Stored.read(kind, msgspec.json.encode(whole))


def row(name: str, tree: Tree, *, wide: bool = False, version: str = "", group: str | None = None) -> dict[str, Any]:
    """Column -> cell, of the plain or of the wide table."""
    kind = kind_named(name, group)
    made = table(kind, version or kind.versions[0], [stored(kind, tree)], now=NOW)
    columns = made["columnDefinitions"]
    (only,) = made["rows"]
    assert len(columns) == len(only["cells"])
    return {
        column["name"]: cell
        for column, cell in zip(columns, only["cells"], strict=True)
        if wide or not column["priority"]
    }


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (-5, "<invalid>"), (-1, "0s"), (0, "0s"), (119, "119s"), (120, "2m"), (121, "2m1s"), (599, "9m59s"),
        (600, "10m"), (3600, "60m"), (10_799, "179m"), (10_800, "3h"), (10_860, "3h1m"), (28_800, "8h"),
        (172_799, "47h"), (172_800, "2d"), (176_400, "2d1h"), (691_200, "8d"), (63_072_000, "2y"),
        (63_158_400, "2y1d"), (31_536_000, "365d"), (252_288_000, "8y"), (315_360_000, "10y"),
    ],
)  # fmt: skip
def test_ages_as_kubectl_tells_them(seconds: int, words: str) -> None:
    assert ago(seconds * 1000) == words


# --- our own kinds ---------------------------------------------------------------------------------------------------


def test_a_workload() -> None:
    conditions = [{"type": "QuotaReserved", "status": "True"}, {"type": "Admitted", "status": "False"}]
    tree = {"spec": {"queueName": "q"}, "status": {"conditions": conditions, "admission": {"clusterQueue": "cq"}}}
    assert row("Workload", tree, group="kueue.x-k8s.io") == {
        "Name": "x", "Queue": "q", "Reserved in": "cq", "Admitted": "False", "Finished": None, "Age": "60m",
    }  # fmt: skip


def test_a_scheduling_workload() -> None:
    tree = {"status": {"priority": 10, "gang": "3", "placed": "2/3", "state": "Partly"}}
    expected = {"Name": "x", "Priority": 10, "Gang": "3", "Placed": "2/3", "State": "Partly", "Age": "60m"}
    for group in ("scheduling.k8s.io", "scheduling.makeway.dev"):
        assert row("Workload", tree, group=group, version="v1alpha1") == expected


def test_a_cluster_queue_in_either_version() -> None:
    tree = {"spec": {"cohortName": "c", "queueingStrategy": "StrictFIFO"}, "status": {"admittedWorkloads": 2}}
    plain = {"Name": "x", "Cohort": "c", "Pending Workloads": 0}
    assert row("ClusterQueue", tree) == plain
    assert row("ClusterQueue", tree, version="v1beta1") == plain
    assert row("ClusterQueue", tree, wide=True) == plain | {"Strategy": "StrictFIFO", "Admitted Workloads": 2}
    assert row("ClusterQueue", {})["Pending Workloads"] is None, "nobody has counted yet"


def test_the_others() -> None:
    assert row("LocalQueue", {"spec": {"clusterQueue": "c"}, "status": {"pendingWorkloads": 3}}) == {
        "Name": "x", "ClusterQueue": "c", "Pending Workloads": 3, "Admitted Workloads": 0,
    }  # fmt: skip
    assert row("WorkloadPriorityClass", {"value": 7}) == {"Name": "x", "Value": 7}
    active = {"status": {"conditions": [{"type": "Active", "status": "True"}]}}
    assert row("MultiKueueCluster", active) == {"Name": "x", "Connected": "True", "Age": "60m"}
    assert row("ResourceFlavor", {}) == {"Name": "x", "Age": "60m"}


# --- those of Kubernetes ---------------------------------------------------------------------------------------------


def container(name: str, *, ready: bool = False, restarts: int = 0, **state: Tree) -> Tree:
    last = state.pop("last", None)
    more = {"lastState": {"terminated": {"exitCode": 1, "finishedAt": last}}} if last else {}
    return {"name": name, "ready": ready, "restartCount": restarts, "state": state, **more}


@dataclass(frozen=True)
class Case:
    says: str
    status: Tree
    cells: dict[str, str]
    spec: Tree | None = None
    meta: Tree | None = None


RUNNING: Tree = {"running": {"startedAt": BORN}}
PODS = [
    Case("nothing is known yet", {}, {"Ready": "0/2", "Status": "Pending", "Restarts": "0"}),
    Case("it runs", {"phase": "Running", "containerStatuses": [
        container("a", ready=True, **RUNNING), container("b", ready=True, **RUNNING)]},
        {"Ready": "2/2", "Status": "Running"}),
    Case("one waits, the first is told", {"phase": "Running", "containerStatuses": [
        container("a", waiting={"reason": "ImageNotRunnable"}), container("b", waiting={"reason": "Other"})]},
        {"Ready": "0/2", "Status": "ImageNotRunnable"}),
    Case("it was started again", {"phase": "Running", "containerStatuses": [
        container("a", ready=True, restarts=2, last="2026-01-01T00:30:00Z", **RUNNING)]},
        {"Ready": "1/2", "Restarts": "2 (30m ago)"}),
    Case("it is done", {"phase": "Succeeded", "containerStatuses": [
        container("a", terminated={"exitCode": 0, "reason": "Completed"})]}, {"Status": "Completed"}),
    Case("one is done, the other runs", {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}],
        "containerStatuses": [container("a", terminated={"exitCode": 0, "reason": "Completed"}),
                              container("b", ready=True, **RUNNING)]}, {"Ready": "1/2", "Status": "Running"}),
    Case("one is done, the other is not ready yet", {"phase": "Running", "containerStatuses": [
        container("a", terminated={"exitCode": 0, "reason": "Completed"}), container("b", ready=True, **RUNNING)]},
        {"Status": "NotReady"}),
    Case("it ended by a signal", {"phase": "Failed", "containerStatuses": [
        container("a", terminated={"exitCode": 137, "signal": 9})]}, {"Status": "Signal:9"}),
    Case("it ended with a code", {"phase": "Failed", "containerStatuses": [
        container("a", terminated={"exitCode": 3})]}, {"Status": "ExitCode:3"}),
    Case("it is being deleted", {"phase": "Running"}, {"Status": "Terminating"}, meta={"deletionTimestamp": BORN}),
    Case("its node is lost", {"phase": "Running", "reason": "NodeLost"}, {"Status": "Unknown"},
         meta={"deletionTimestamp": BORN}),
    Case("it was evicted", {"phase": "Failed", "reason": "Evicted"}, {"Status": "Evicted"}),
    Case("it waits for a gate", {"conditions": [
        {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]}, {"Status": "SchedulingGated"}),
    Case("an init container runs", {"initContainerStatuses": [container("i", **RUNNING)]}, {"Status": "Init:0/1"},
         spec={"initContainers": [{"name": "i"}]}),
    Case("an init container failed", {"initContainerStatuses": [
        container("i", restarts=1, terminated={"exitCode": 2, "reason": "Error"})]},
        {"Status": "Init:Error", "Restarts": "1"}, spec={"initContainers": [{"name": "i"}]}),
    Case("one that goes on beside the others counts", {"initContainerStatuses": [
        container("i", ready=True, **RUNNING) | {"started": True}]}, {"Ready": "1/3", "Status": "Pending"},
        spec={"initContainers": [{"name": "i", "restartPolicy": "Always"}]}),
    Case("where it is", {"podIP": "10.0.0.1", "nominatedNodeName": "m"},
         {"IP": "10.0.0.1", "Node": "n", "Nominated Node": "m", "Readiness Gates": "<none>"}, spec={"nodeName": "n"}),
    Case("readiness gates", {"conditions": [{"type": "g", "status": "True"}]}, {"Readiness Gates": "1/2"},
         spec={"readinessGates": [{"conditionType": "g"}, {"conditionType": "h"}]}),
]  # fmt: skip


@pytest.mark.parametrize("case", PODS, ids=lambda case: case.says)
def test_a_pod(case: Case) -> None:
    spec = {"containers": [{"name": "a"}, {"name": "b"}], **(case.spec or {})}
    cells = row("Pod", {"metadata": case.meta or {}, "spec": spec, "status": case.status}, wide=True)
    assert {name: cells[name] for name in case.cells} == case.cells


JOBS: list[tuple[Tree, Tree, Tree, dict[str, str]]] = [
    ({}, {}, {}, {"Status": "Running", "Completions": "0/1", "Duration": ""}),
    ({"parallelism": 3}, {"succeeded": 1}, {}, {"Completions": "1/1 of 3"}),
    ({"completions": 4}, {"succeeded": 1, "startTime": "2026-01-01T00:58:00Z"}, {},
     {"Completions": "1/4", "Duration": "2m"}),
    ({}, {"conditions": [{"type": "Complete", "status": "True"}], "startTime": BORN,
          "completionTime": "2026-01-01T00:00:09Z"}, {}, {"Status": "Complete", "Duration": "9s"}),
    ({}, {"conditions": [{"type": "Failed", "status": "True"}]}, {}, {"Status": "Failed"}),
    ({}, {"conditions": [{"type": "Suspended", "status": "True"}]}, {}, {"Status": "Suspended"}),
    ({}, {"conditions": [{"type": "Suspended", "status": "True"}]}, {"deletionTimestamp": BORN},
     {"Status": "Terminating"}),
    ({"template": {"spec": {"containers": [{"name": "a", "image": "i"}, {"name": "b", "image": "j"}]}},
      "selector": {"matchLabels": {"k": "v"}}}, {}, {}, {"Containers": "a,b", "Images": "i,j", "Selector": "k=v"}),
]  # fmt: skip


@pytest.mark.parametrize(("spec", "status", "meta", "wanted"), JOBS)
def test_a_job(spec: Tree, status: Tree, meta: Tree, wanted: dict[str, str]) -> None:
    cells = row("Job", {"metadata": meta, "spec": spec, "status": status}, wide=True)
    assert {name: cells[name] for name in wanted} == wanted


def test_a_node() -> None:
    info = {"kubeletVersion": "v1", "osImage": "os", "kernelVersion": "k", "containerRuntimeVersion": ""}
    addresses = [{"type": "InternalIP", "address": "1"}, {"type": "InternalIP", "address": "2"}]
    status = {"conditions": [{"type": "Ready", "status": "False"}], "nodeInfo": info, "addresses": addresses}
    labels = {"node-role.kubernetes.io/worker": "", "node-role.kubernetes.io/a": "", "kubernetes.io/role": "b"}
    tree = {"metadata": {"labels": labels}, "spec": {"unschedulable": True}, "status": status}
    assert row("Node", tree, wide=True) == {
        "Name": "x", "Status": "NotReady,SchedulingDisabled", "Roles": "a,b,worker", "Age": "60m", "Version": "v1",
        "Internal-IP": "1", "External-IP": "<none>", "OS-Image": "os", "Kernel-Version": "k",
        "Container-Runtime": "<unknown>",
    }  # fmt: skip
    assert row("Node", {}) == {"Name": "x", "Status": "Unknown", "Roles": "<none>", "Age": "60m", "Version": ""}


def test_an_event() -> None:
    tree = {
        "involvedObject": {"kind": "Workload", "name": "w", "fieldPath": "f"}, "type": "Normal", "reason": "R",
        "message": " m\n", "source": {"component": "c", "host": "h"}, "firstTimestamp": BORN,
        "lastTimestamp": "2026-01-01T00:59:00Z", "count": 3,
    }  # fmt: skip
    assert row("Event", tree, wide=True) == {
        "Last Seen": "60s", "Type": "Normal", "Reason": "R", "Object": "workload/w", "Subobject": "f",
        "Source": "c, h", "Message": "m", "First Seen": "60m", "Count": 3, "Name": "x",
    }  # fmt: skip
    newer = {"involvedObject": {"kind": "Job", "name": "j"}, "eventTime": "2026-01-01T00:59:00.000000Z"}
    cells = row("Event", newer, wide=True)
    assert (cells["Last Seen"], cells["First Seen"], cells["Count"]) == ("60s", "60s", 1)
    again = newer | {"series": {"count": 9, "lastObservedTime": "2026-01-01T00:59:50.000000Z"}}
    assert (row("Event", again, wide=True)["Last Seen"], row("Event", again, wide=True)["Count"]) == ("10s", 9)


def test_the_small_ones() -> None:
    assert row("Namespace", {"status": {"phase": "Terminating"}})["Status"] == "Terminating"
    assert row("Secret", {"type": "t", "data": {"a": "Yg==", "b": "Yg=="}})["Data"] == 2
    assert row("ConfigMap", {"data": {"a": "b"}, "binaryData": {"c": "Yg=="}})["Data"] == 2
    assert row("PriorityClass", {"value": 5})["PreemptionPolicy"] == "PreemptLowerPriority"
    budget = row("PodDisruptionBudget", {"spec": {"maxUnavailable": "10%"}, "status": {"disruptionsAllowed": 1}})
    assert (budget["Min Available"], budget["Max Unavailable"], budget["Allowed Disruptions"]) == ("N/A", "10%", 1)
    assert row("RuntimeClass", {"handler": "h"})["Handler"] == "h"
    assert row("Lease", {"spec": {"holderIdentity": "me"}})["Holder"] == "me"
    assert row("LimitRange", {}) == {"Name": "x", "Created At": BORN}


@pytest.mark.parametrize(
    ("tree", "words"),
    [
        ({}, "<none>"),
        ({"matchLabels": {"a": "1", "b": "2"}}, "a=1,b=2"),
        ({"matchExpressions": [{"key": "a", "operator": "In", "values": ["y", "x"]}]}, "a in (x,y)"),
        ({"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["x"]}]}, "a notin (x)"),
        ({"matchExpressions": [{"key": "a", "operator": "Exists"}, {"key": "b", "operator": "DoesNotExist"}]}, "!b,a"),
    ],
)
def test_a_selector_in_one_line(tree: Tree, words: str) -> None:
    assert selector(tree) == words


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.plural], ids=lambda kind: f"{kind.group}/{kind.name}")
def test_an_object_with_nothing_in_it_has_a_row(kind: Kind) -> None:
    for version in kind.versions:
        made = table(kind, version, [stored(kind, {})], now=NOW)
        assert len(made["rows"][0]["cells"]) == len(made["columnDefinitions"])


def test_as_much_of_the_object_as_is_asked_for() -> None:
    kind = kind_named("ConfigMap")
    each = stored(kind, {"data": {"a": "b"}})
    beside = {
        how: table(kind, "v1", [each], now=NOW, objects=how)["rows"][0].get("object") for how in ("None", "Object")
    }
    assert beside["None"] is None
    assert beside["Object"]["data"] == {"a": "b"}
    partial = table(kind, "v1", [each], now=NOW)["rows"][0]["object"]
    assert (partial["kind"], partial["metadata"]["name"]) == ("PartialObjectMetadata", "x")
    assert "data" not in partial
