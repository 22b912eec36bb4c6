"""Reading what users write: kinds, modes, defaults, older versions; and bytes there and back."""

from __future__ import annotations

import copy
from typing import Any

import msgspec
import pytest

from makeway.api import codec
from makeway.api.objects.configuration import Configuration
from makeway.api.objects.kubernetes import Pod
from makeway.api.objects.queueing import ClusterQueue, LocalQueue, MultiKueueConfig
from makeway.api.objects.workload import Workload
from makeway.api.reading.documents import Tree, parse
from makeway.api.reading.spellings import right_spelling
from makeway.api.reading.structure import Mode

KUEUE = "kueue.x-k8s.io/v1beta2"


def tree(kind: str, version: str = KUEUE, **fields: Tree) -> dict[str, Tree]:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": "x"}, **fields}


def shown(value: object) -> dict[str, Any]:
    assert isinstance(value, msgspec.Struct)
    return codec.to_tree(value)  # type: ignore[arg-type]  # every struct here is a wire struct


# --- defaults (api 19) ----------------------------------------------------------------------------------------------


def test_a_minimal_cluster_queue_shows_its_defaults() -> None:
    reading = codec.read(tree("ClusterQueue", spec={}))
    assert reading.ok
    assert shown(reading.value)["spec"] == {
        "queueingStrategy": "BestEffortFIFO",
        "flavorFungibility": {"whenCanBorrow": "MayStopSearch", "whenCanPreempt": "TryNextFlavor"},
        "preemption": {
            "reclaimWithinCohort": "Never",
            "borrowWithinCohort": {"policy": "Never"},
            "withinClusterQueue": "Never",
        },
        "stopPolicy": "None",
    }


def test_a_minimal_workload_shows_its_defaults() -> None:
    reading = codec.read(tree("Workload", spec={"podSets": [{"template": {}, "minCount": 1}]}))
    assert reading.ok
    assert shown(reading.value)["spec"] == {
        "podSets": [{"name": "main", "template": {}, "count": 1, "minCount": 1}],
        "active": True,
    }
    assert isinstance(reading.value, Workload)
    assert reading.value.spec.priority is None


def test_a_minimal_configuration_shows_its_defaults() -> None:
    reading = codec.read({"apiVersion": "config.kueue.x-k8s.io/v1beta2", "kind": "Configuration"})
    assert reading.ok
    found = shown(reading.value)
    assert "fairSharing" not in found
    assert "waitForPodsReady" not in found
    assert found["namespace"] == "kueue-system"
    assert found["integrations"] == {"frameworks": ["batch/job"]}
    assert found["multiKueue"] == {
        "gcInterval": "1m0s",
        "origin": "multikueue",
        "workerLostTimeout": "15m0s",
        "dispatcherName": "kueue.x-k8s.io/multikueue-dispatcher-all-at-once",
        "singleClusterPreemptionTimeout": "5m0s",
    }
    assert found["makeway"] == {
        "claimTimeout": "5m0s", "wakeBatchInterval": "0s", "statusWriteInterval": "30s", "optionMinStay": "0s",
        "optionEvaluationTimeout": "1m0s", "optionUpgradePreempts": False, "scoring": "Spread", "overQuota": "Keep",
        "journal": {"maxAge": "720h0m0s", "maxSize": "512Mi"}, "events": {"ttl": "1h0m0s"}, "strictFIFOLends": False,
        "entitledHold": "All", "rotation": "Fair", "roundsEndAfter": "10m0s",
    }  # fmt: skip


def test_blocks_that_are_turned_on_show_their_defaults() -> None:
    fields: dict[str, Tree] = {"waitForPodsReady": {}, "multiKueue": {"incrementalDispatcherConfig": {}}}
    reading = codec.read({"apiVersion": "config.kueue.x-k8s.io/v1beta2", "kind": "Configuration", **fields})
    found = shown(reading.value)
    assert found["waitForPodsReady"] == {
        "timeout": "30m0s",
        "blockAdmission": False,
        "requeuingStrategy": {"timestamp": "Eviction", "backoffBaseSeconds": 60, "backoffMaxSeconds": 3600},
    }
    assert found["multiKueue"]["incrementalDispatcherConfig"] == {"stepSize": 3}


@pytest.mark.parametrize("kind", ["ClusterQueue", "Cohort", "LocalQueue"])
def test_a_block_for_fair_sharing_shows_the_weight_that_counts(kind: str) -> None:
    for written, weight in (({}, "1"), ({"weight": None}, "1"), ({"weight": 0}, "0"), ({"weight": "2.5"}, "2500m")):
        found = codec.read(tree(kind, spec={"fairSharing": written})).value
        assert shown(found)["spec"]["fairSharing"] == {"weight": weight}
    assert "fairSharing" not in shown(codec.read(tree(kind, spec={})).value)["spec"]


def test_an_absent_selector_and_an_empty_one_differ() -> None:
    absent = codec.read(tree("ClusterQueue", spec={})).value
    empty = codec.read(tree("ClusterQueue", spec={"namespaceSelector": {}})).value
    assert isinstance(absent, ClusterQueue)
    assert isinstance(empty, ClusterQueue)
    assert absent.spec.namespace_selector is None
    assert empty.spec.namespace_selector is not None
    assert shown(empty)["spec"]["namespaceSelector"] == {}


def test_an_empty_config_is_kept() -> None:
    block = {"withinClusterQueue": "LowerOrNewerEqualPriority", "withinClusterQueueConfig": {}}
    reading = codec.read(tree("ClusterQueue", spec={"preemption": block}))
    assert reading.ok
    assert shown(reading.value)["spec"]["preemption"]["withinClusterQueueConfig"] == {}


# --- modes (api 21.1) -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("mode", "ok", "told"), [("Strict", False, 1), ("Warn", True, 1), ("Ignore", True, 0)])
def test_an_unknown_field_of_our_kinds_is_pruned(mode: Mode, ok: bool, told: int) -> None:
    reading = codec.read(tree("LocalQueue", spec={"clusterQueue": "q", "colour": "red"}), mode)
    assert reading.ok is ok
    assert [problem.path for problem in reading.problems] == ["spec.colour"] * told
    assert shown(reading.value)["spec"] == {"clusterQueue": "q", "stopPolicy": "None"}


@pytest.mark.parametrize(("mode", "ok", "told"), [("Strict", False, 2), ("Warn", True, 2), ("Ignore", True, 0)])
def test_an_unknown_field_of_a_kubernetes_type_is_kept(mode: Mode, ok: bool, told: int) -> None:
    spec = {"containers": [{"name": "c", "mood": {"good": True}}], "tempo": 5}
    reading = codec.read(tree("Pod", "v1", spec=spec), mode)
    assert reading.ok is ok
    assert len(reading.problems) == told
    assert shown(reading.value)["spec"] == spec


def test_unknown_fields_of_a_pod_template_in_our_kinds_are_kept() -> None:
    template = {"spec": {"containers": [{"name": "c"}], "tempo": 5}}
    reading = codec.read(tree("Workload", spec={"podSets": [{"template": template, "colour": 1}]}), "Ignore")
    assert shown(reading.value)["spec"]["podSets"] == [{"name": "main", "template": template, "count": 1}]


def test_of_a_key_set_twice_the_last_counts() -> None:
    (document,) = parse(f"apiVersion: {KUEUE}\nkind: LocalQueue\nspec: {{clusterQueue: a, clusterQueue: b}}\n".encode())
    assert [(problem.cause, problem.path) for problem in document.problems] == [("DuplicateField", "spec.clusterQueue")]
    value = codec.read(document.tree).value
    assert isinstance(value, LocalQueue)
    assert value.spec.cluster_queue == "b"


@pytest.mark.parametrize("mode", ["Strict", "Warn", "Ignore"])
def test_an_unknown_value_of_an_enum_is_refused(mode: Mode) -> None:
    reading = codec.read(tree("LocalQueue", spec={"stopPolicy": "Stop"}), mode)
    assert not reading.ok
    assert [problem.cause for problem in reading.problems] == ["NotSupported"]


def test_nulls_read_as_absent() -> None:
    reading = codec.read(tree("ClusterQueue", spec={"cohortName": None, "preemption": None}, status=None))
    assert reading.ok
    assert reading.value == codec.read(tree("ClusterQueue", spec={})).value


def test_recorded_objects_are_read_without_limits() -> None:
    reading = codec.read(tree("MultiKueueConfig", spec={}), limits=False)
    assert reading.ok
    assert isinstance(reading.value, MultiKueueConfig)
    assert reading.value.spec.clusters == ()
    group = {"coveredResources": ["cpu"], "flavors": [{"name": "a", "resources": [{"name": "cpu"}]}]}
    value = codec.read(tree("ClusterQueue", spec={"resourceGroups": [group]}), limits=False).value
    assert shown(value)["spec"]["resourceGroups"][0]["flavors"][0]["resources"] == [
        {"name": "cpu", "nominalQuota": "0"}
    ]


def test_what_is_wrong_is_left_out_and_the_rest_is_read() -> None:
    reading = codec.read(tree("ClusterQueue", spec={"cohortName": 5, "stopPolicy": "Hold"}))
    assert not reading.ok
    assert isinstance(reading.value, ClusterQueue)
    assert (reading.value.spec.cohort_name, reading.value.spec.stop_policy) == ("", "Hold")


# --- which kind -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [None, 5, "a", [], ["a"], True])
def test_what_is_no_mapping_is_no_object(value: Tree) -> None:
    reading = codec.read(value)
    assert (reading.kind, reading.value, reading.ok) == (None, None, False)
    assert reading.problems[0].message.startswith("expected a mapping with apiVersion and kind, got ")


def test_everything_that_is_missing_at_the_head_is_told_at_once() -> None:
    assert [str(problem) for problem in codec.read({}).problems] == [
        "apiVersion: required\n  hint: for example kueue.x-k8s.io/v1beta2",
        "kind: required\n  hint: for example ClusterQueue or Job",
    ]


def test_a_name_from_outside_is_told_in_short() -> None:
    (problem,) = codec.read({"apiVersion": "a\nb" * 1000, "kind": "x" * 10_000}).problems
    assert len(problem.message) < 200
    assert problem.message.isprintable()


def test_one_workload_is_queued_and_the_other_placed() -> None:
    groups = {"podGroups": [{"name": "a", "policy": {"basic": {}}}]}
    for version in ("scheduling.k8s.io/v1alpha1", "scheduling.makeway.dev/v1alpha1"):
        reading = codec.read(tree("Workload", version, spec=groups))
        assert reading.ok
        assert reading.kind is not None
        assert reading.kind.api_version == version


# --- older versions (api 20) ----------------------------------------------------------------------------------------

OLD = "kueue.x-k8s.io/v1beta1"
SETS: dict[str, Tree] = {"podSets": [{"template": {}}]}


@pytest.mark.parametrize(
    ("kind", "spec", "path", "expected"),
    [
        ("ClusterQueue", {"cohort": "a"}, "cohortName", "a"),
        ("ClusterQueue", {"admissionChecks": ["a", "b"]},
         "admissionChecksStrategy", {"admissionChecks": [{"name": "a"}, {"name": "b"}]}),
        ("ClusterQueue", {"flavorFungibility": {"whenCanBorrow": "Borrow", "whenCanPreempt": "Preempt"}},
         "flavorFungibility", {"whenCanBorrow": "MayStopSearch", "whenCanPreempt": "MayStopSearch"}),
        ("ClusterQueue", {"flavorFungibility": {"whenCanBorrow": "TryNextFlavor"}},
         "flavorFungibility", {"whenCanBorrow": "TryNextFlavor", "whenCanPreempt": "TryNextFlavor"}),
        ("Workload", {**SETS, "priorityClassName": "a", "priorityClassSource": "scheduling.k8s.io/priorityclass"},
         "priorityClassRef", {"group": "scheduling.k8s.io", "kind": "PriorityClass", "name": "a"}),
        ("MultiKueueCluster", {"kubeConfig": {"location": "a"}},
         "clusterSource", {"kubeConfig": {"location": "a", "locationType": "Secret"}}),
    ],
    ids=["cohort", "checks", "policies", "a newer policy", "a priority class", "a kubeConfig"],
)  # fmt: skip
def test_v1beta1_is_read_as_v1beta2(kind: str, spec: dict[str, Tree], path: str, expected: Tree) -> None:
    given = tree(kind, OLD, spec=spec)
    before = copy.deepcopy(given)
    reading = codec.read(given)
    assert reading.problems == []
    assert reading.version == "v1beta1"
    assert given == before
    found = shown(reading.value)
    assert found["apiVersion"] == KUEUE
    assert found["spec"][path] == expected


def test_limits_of_v1beta1_are_told_with_its_own_paths() -> None:
    assert [problem.path for problem in codec.read(tree("ClusterQueue", OLD, spec={"cohort": "A"})).problems] == [
        "spec.cohort"
    ]
    reading = codec.read(tree("MultiKueueCluster", OLD, spec={"kubeConfig": {}}))
    assert [(problem.cause, problem.path) for problem in reading.problems] == [("Required", "spec.kubeConfig.location")]


def test_what_v1beta1_has_wrong_is_not_missed_once_more() -> None:
    reading = codec.read(tree("AdmissionCheck", OLD, spec={"controllerName": 5}))
    assert [(problem.cause, problem.path) for problem in reading.problems] == [("TypeInvalid", "spec.controllerName")]


def test_the_switches_of_an_older_configuration_decide_whether_there_is_a_block() -> None:
    blocks = {"fairSharing": {"enable": True}, "waitForPodsReady": {"enable": False, "timeout": "1m"}}
    reading = codec.read({"apiVersion": "config.kueue.x-k8s.io/v1beta1", "kind": "Configuration", **blocks})
    assert reading.ok
    assert isinstance(reading.value, Configuration)
    assert reading.value.wait_for_pods_ready is None
    assert reading.value.fair_sharing is not None
    assert reading.value.fair_sharing.preemption_strategies == ("LessThanOrEqualToFinalShare", "LessThanInitialShare")


# --- names from elsewhere -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["Strict", "Warn"])
def test_a_draft_name_is_told_in_both_modes_that_tell(mode: Mode) -> None:
    (problem,) = codec.read(tree("ClusterQueue", spec={"preemption": {"withinCohort": "Always"}}), mode).problems
    assert problem.hint == "use reclaimWithinCohort: Any"
    assert problem.severity == ("error" if mode == "Strict" else "warning")


@pytest.mark.parametrize(
    ("kind", "path", "value"),
    [
        ("Cohort", "spec.preemption.withinCohort", "Always"),
        ("ClusterQueue", "spec.preemption.withinClusterQueue", "Always"),
        ("ClusterQueue", "spec.preemption.reclaimWithinCohort", {"a": []}),
        ("ClusterQueue", "spec.preemption.other", "Always"),
        ("ClusterQueue", "spec.flavorFungibility.whenCanBorrow", "Preempt"),
        ("ClusterQueue", "spec.flavorFungibility.whenCanBorrow", ["Borrow"]),
        ("ClusterQueue", "spec.other", "Always"),
    ],
)
def test_no_hint_is_given_for_names_of_nowhere(kind: str, path: str, value: Tree) -> None:
    assert right_spelling(kind, "v1beta2", path, value) == ""


# --- bytes ----------------------------------------------------------------------------------------------------------


def test_bytes_come_back_as_the_object() -> None:
    value = codec.read(tree("Pod", "v1", spec={"containers": [{"name": "c", "new": [1]}]}), "Ignore").value
    assert isinstance(value, Pod)
    assert codec.decode(codec.encode(value), Pod) == value


def test_bytes_that_are_no_object_raise() -> None:
    with pytest.raises(msgspec.ValidationError):
        codec.decode(b'{"spec": 5}', LocalQueue)
    with pytest.raises(msgspec.DecodeError):
        codec.decode(b"{", LocalQueue)
