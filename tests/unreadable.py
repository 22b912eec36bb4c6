"""Objects with a word that their kind does not have, put into a Store or its file without any validation."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec

from makeway.adapters.server.storage.layout import STEPS, connected
from makeway.adapters.simulator.store import MemoryStore
from makeway.api.versions import Kind, find_kind
from makeway.runtime.ports import Revision, Stored

Tree = dict[str, Any]
KUEUE = "kueue.x-k8s.io/v1beta2"
NOON = "2026-01-01T12:00:00Z"
SELECTOR = {"matchExpressions": [{"key": "app", "operator": "in", "values": ["a"]}]}
SPREAD = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": SELECTOR}
PODS = {"containers": [{"name": "c", "image": "busybox", "command": ["true"]}], "restartPolicy": "Never"}
MAYBE = {"conditions": [{"type": "Ready", "status": "Maybe", "lastTransitionTime": NOON}]}


def _of(api_version: str, kind: str, name: str, *, namespace: str = "default", **parts: Any) -> Tree:
    uid = "-".join(("uid", *api_version.split("/"), kind, name))
    metadata = {"name": name, "uid": uid, "generation": 1, "creationTimestamp": NOON}
    where = {"namespace": namespace} if namespace else {}
    return {"apiVersion": api_version, "kind": kind, "metadata": {**metadata, **where}, **parts}


def _workload(name: str, template: Tree) -> Tree:
    pods = [{"name": "main", "count": 1, "template": template}]
    return _of(KUEUE, "Workload", name, spec={"queueName": "lq", "podSets": pods})


UNREADABLE: dict[str, Tree] = {
    "Pod spread": _of("v1", "Pod", "bad", spec={**PODS, "topologySpreadConstraints": [SPREAD]}),
    "Pod on a node": _of("v1", "Pod", "bad", spec={**PODS, "nodeName": "here"}, status=MAYBE),
    "Pod nowhere": _of("v1", "Pod", "bad", spec={**PODS, "nodeName": 7}),
    "Node taint": _of("v1", "Node", "bad", namespace="", spec={"taints": [{"key": "a", "effect": "Sometimes"}]}),
    "Node status": _of("v1", "Node", "bad", namespace="", spec={}, status=MAYBE),
    "LimitRange": _of("v1", "LimitRange", "bad", namespace="elsewhere", spec={"limits": [{"type": 7}]}),
    "RuntimeClass": _of("node.k8s.io/v1", "RuntimeClass", "bad", namespace="", handler=7),
    "PriorityClass": _of("scheduling.k8s.io/v1", "PriorityClass", "bad", namespace="", value=1, preemptionPolicy="Now"),
    "PodDisruptionBudget": _of(
        "policy/v1", "PodDisruptionBudget", "bad", spec={"minAvailable": 1, "selector": SELECTOR}
    ),
    "Job selector": _of("batch/v1", "Job", "bad", spec={"selector": SELECTOR, "template": {"spec": PODS}}),
    "Job template": _of(
        "batch/v1", "Job", "bad", spec={"template": {"spec": {**PODS, "topologySpreadConstraints": [SPREAD]}}}
    ),
    "Workload template": _workload("bad", {"spec": {**PODS, "topologySpreadConstraints": [SPREAD]}}),
    "Workload rank": {
        **_workload("bad", {"spec": PODS}),
        "metadata": {
            **_workload("bad", {})["metadata"],
            "annotations": {"kueue.x-k8s.io/option-rank": "first"},
        },
    },
    "Workload status": {**_workload("bad", {"spec": PODS}), "status": MAYBE},
    "scheduling Workload": _of("scheduling.k8s.io/v1alpha1", "Workload", "bad", spec={"podGroups": 7}),
    "ClusterQueue": _of(KUEUE, "ClusterQueue", "bad", namespace="", spec={"stopPolicy": "Sometimes"}),
    "LocalQueue": _of(KUEUE, "LocalQueue", "bad", spec={"clusterQueue": "q", "stopPolicy": "Sometimes"}),
    "Cohort": _of(KUEUE, "Cohort", "bad", namespace="", spec={"fairSharing": {"weight": []}}),
    "ResourceFlavor": _of(
        KUEUE, "ResourceFlavor", "bad", namespace="", spec={"nodeTaints": [{"key": "a", "effect": "Sometimes"}]}
    ),
    "AdmissionCheck": _of(KUEUE, "AdmissionCheck", "bad", namespace="", spec={"controllerName": 7}),
    "WorkloadPriorityClass": _of(KUEUE, "WorkloadPriorityClass", "bad", namespace="", value="high"),
}  # fmt: skip


def kind_of_tree(tree: Tree) -> Kind:
    kind = find_kind(tree["apiVersion"], tree["kind"])
    assert kind is not None
    return kind.stored


def put_past(store: MemoryStore, tree: Tree) -> None:
    """Store the object as it is, in the place of the stored one."""
    kind, meta = kind_of_tree(tree), tree["metadata"]
    version = str(int(store.resource_version) + 1)
    data = msgspec.json.encode({**tree, "metadata": {**meta, "resourceVersion": version}})
    known = [
        each
        for each in store.list(kind).items
        if (each.namespace, each.name) == (meta.get("namespace", ""), meta["name"])
    ]
    store.apply(Revision("MODIFIED" if known else "ADDED", known[0] if known else None, Stored.read(kind, data)))


def put_into_file(path: Path, trees: Iterable[Tree]) -> None:
    """The same, in the data file of a server that does not run."""
    with closing(connected(path, STEPS)) as connection:
        ((revision,),) = connection.execute("SELECT revision FROM latest")
        for tree in trees:
            revision += 1
            kind, meta = kind_of_tree(tree), tree["metadata"]
            data = msgspec.json.encode({**tree, "metadata": {**meta, "resourceVersion": str(revision)}})
            row = (kind.group, kind.name, meta.get("namespace", ""), meta["name"], data)
            connection.execute("INSERT INTO objects VALUES (?, ?, ?, ?, ?, checksum_of(?, ?, ?, ?, ?))", (*row, *row))
        connection.execute("UPDATE latest SET revision = ?", (revision,))
        sums = "SELECT count(*), sum_of(checksum) FROM objects"
        connection.execute(f"UPDATE guard SET (objects, checksum) = ({sums})")
