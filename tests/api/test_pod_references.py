"""Classes and gangs that pods, jobs and scheduling Workloads name: what is missing, and how certain that is."""

from __future__ import annotations

import json
from typing import Any

import pytest

from makeway.api.reading.manifests import findings, load
from makeway.api.reading.together import check_together

Told = tuple[str, str, str, str]
ELSEWHERE = "unless it exists already where you apply this"


def priority(name: str, value: int, *, default: bool = False) -> dict[str, Any]:
    head = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}}
    return {**head, "value": value, "globalDefault": default}


def pod(**spec: Any) -> dict[str, Any]:
    meta = {"name": "p", "namespace": "default", "annotations": spec.pop("annotations", {})}
    tree = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "status": spec.pop("status", {})}
    return {**tree, "spec": {"containers": [{"name": "c", "image": "i"}], **spec}}


def job(**spec: Any) -> dict[str, Any]:
    inner = pod(restartPolicy="Never", **spec)
    template = {"metadata": {"annotations": inner["metadata"]["annotations"]}, "spec": inner["spec"]}
    meta = {"name": "j", "namespace": "default"}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": {"template": template}}


def gang(name: str = "w", namespace: str = "default", status: Any = None, **spec: Any) -> dict[str, Any]:
    groups = [{"name": name, "policy": {"gang": {"minCount": 1}}} for name in ("leaders", "workers")]
    tree: dict[str, Any] = {
        "apiVersion": "scheduling.k8s.io/v1alpha1", "kind": "Workload",
        "metadata": {"name": name, "namespace": namespace}, "spec": {"podGroups": groups, **spec},
    }  # fmt: skip
    return tree if status is None else {**tree, "status": status}


def told(*trees: Any, complete: bool = False) -> list[Told]:
    manifests = load("a.json", "".join(map(json.dumps, trees)).encode())
    check_together(manifests, complete=complete)
    return [(each.severity, each.path, each.message, each.hint) for each in findings(manifests)]


# --- classes ---------------------------------------------------------------------------------------------------------

NAMED = "PriorityClass importnat is not in these manifests: {}, " + ELSEWHERE


@pytest.mark.parametrize(
    ("tree", "path", "outcome"),
    [
        (pod(priorityClassName="importnat"), "spec.priorityClassName", "the Pod is refused"),
        (job(priorityClassName="importnat"), "spec.template.spec.priorityClassName", "its pods are refused"),
        (gang(priorityClassName="importnat"), "spec.priorityClassName", "the Workload is refused"),
        (
            gang(preemptionPriorityClassName="importnat"),
            "spec.preemptionPriorityClassName",
            "the Workload is refused",
        ),
    ],
)
def test_a_class_that_is_not_there_may_be_elsewhere_unless_the_set_is_all_there_is(
    tree: Any, path: str, outcome: str
) -> None:
    near, far = priority("important", 5), priority("other", 5)
    assert told(near, tree) == [("warning", path, NAMED.format(outcome), "did you mean important?")]
    assert told(tree) == [("warning", path, NAMED.format(outcome), "add the PriorityClass, or correct the name")]
    message = 'no PriorityClass is called "importnat"'
    assert told(near, tree, complete=True) == [("error", path, message, "did you mean important?")]
    assert told(far, tree, complete=True)[0][0] == "error"


def test_classes_that_are_there_always_are_missed_nowhere() -> None:
    for name in ("system-node-critical", "system-cluster-critical"):
        named = {"priorityClassName": name}
        assert told(pod(**named), job(**named), gang(**named), complete=True) == []
    (found,) = told(pod(priorityClassName="system-node-critcal"))
    assert found[3] == "did you mean system-node-critical?"


def test_a_class_is_not_missed_where_the_number_behind_it_is_known() -> None:
    ranked = gang(priorityClassName="gone", status={"priority": 1, "preemptionPriority": 1})
    ended = {**pod(priorityClassName="gone", status={"phase": "Failed"})}
    assert told(ranked, pod(priorityClassName="gone", priority=1), complete=True) == []
    assert told(ended, complete=True) == []
    assert len(told(gang(priorityClassName="gone", status={"priority": 1}), complete=True)) == 1, "half of it"


LOW, HIGH = priority("low", 1), priority("high", 9)
BELOW = '"low" has value 1, below the 9 of "high"'
HINT = "a victim is never less than a preemptor"


def test_a_preemption_class_below_the_scheduling_class_is_refused_by_every_server() -> None:
    wrong = gang(priorityClassName="high", preemptionPriorityClassName="low")
    expected = [("error", "spec.preemptionPriorityClassName", BELOW, HINT)]
    assert told(LOW, HIGH, wrong) == told(LOW, HIGH, wrong, complete=True) == expected
    assert told(LOW, HIGH, gang(priorityClassName="low", preemptionPriorityClassName="high")) == []
    critical = gang(priorityClassName="system-node-critical", preemptionPriorityClassName="high")
    assert told(HIGH, critical)[0][0] == "error", "a system class has its value everywhere"


def test_below_a_default_class_is_certain_only_where_the_set_is_all_there_is() -> None:
    wrong = gang(preemptionPriorityClassName="low")
    classes = (LOW, priority("high", 9, default=True), priority("higher", 10, default=True))
    (certain,) = told(*classes, wrong, complete=True)
    assert certain == ("error", "spec.preemptionPriorityClassName", f"{BELOW}, the default class", HINT)
    (maybe,) = told(*classes, wrong)
    unless = ": the Workload is refused, unless another class is the default where you apply this"
    assert maybe == ("warning", certain[1], certain[2] + unless, HINT)
    assert told(LOW, wrong) == []
    (below_none,) = told(priority("low", -1), wrong)
    assert below_none[0] == "warning"


# --- gangs -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "field", "mark", "outcome"),
    [
        (pod, "spec.workloadRef", "metadata.annotations[makeway.dev/workload-ref]", "the Pod waits"),
        (
            job,
            "spec.template.spec.workloadRef",
            "spec.template.metadata.annotations[makeway.dev/workload-ref]",
            "its pods wait",
        ),
    ],
)
def test_a_gang_that_is_not_there_is_told(make: Any, field: str, mark: str, outcome: str) -> None:
    def both(name: str, group: str) -> list[tuple[str, Any]]:
        return [
            (field, make(workloadRef={"name": name, "podGroup": group, "podGroupReplicaKey": "a"})),
            (mark, make(annotations={"makeway.dev/workload-ref": f"{name}/{group}/a"})),
        ]

    for path, tree in both("w", "workers"):
        assert told(gang(), tree) == []
        missing = f"scheduling Workload w of namespace default is not in these manifests: {outcome}, {ELSEWHERE}"
        for complete in (False, True):
            (found,) = told(gang("ww"), tree, complete=complete)
            assert found == ("warning", path, missing, "did you mean ww?"), "pods may come first"
        (found,) = told(gang(namespace="other"), tree)
        assert found[3] == "a scheduling Workload w is in namespace other: set metadata.namespace to use it"
    for path, tree in both("w", "worker"):
        (found,) = told(gang(), tree)
        message = f"scheduling Workload w has no group worker: {outcome}"
        assert found == ("warning", path, message, "did you mean workers?")
    for _, tree in both("w", "zz"):
        assert told(gang(), tree)[0][3] == "it has leaders, workers"


def test_a_pod_that_runs_is_a_plain_pod_where_its_gang_is_not_there() -> None:
    reference = {"name": "w", "podGroup": "workers"}
    (found,) = told(pod(workloadRef=reference, nodeName="n"))
    assert "it is taken for a pod without a gang, unless" in found[2]
    assert told(pod(workloadRef=reference, status={"phase": "Succeeded"})) == []


def test_the_field_wins_over_the_annotation() -> None:
    both = pod(workloadRef={"name": "w", "podGroup": "workers"}, annotations={"makeway.dev/workload-ref": "x/y"})
    assert told(gang(), both) == []


def test_the_gang_of_a_job_is_made_from_its_queueing_workload() -> None:
    template = {"spec": job()["spec"]["template"]["spec"]}
    queued = {
        "apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload", "metadata": {"name": "w", "namespace": "default"},
        "spec": {"podSets": [{"name": "main", "count": 1, "template": template}]},
    }  # fmt: skip
    found = told(queued, pod(workloadRef={"name": "w", "podGroup": "main"}))
    assert [path for _, path, *_ in found] == ["spec.queueName"], "nothing about the pod"
