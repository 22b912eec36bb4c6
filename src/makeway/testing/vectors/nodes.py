"""Recorded cases about pods and gangs on nodes. They are judged by what a case wants, not by the name of its suite.

Preemption cases go by the checker rules (``testing.placement_checker``), the others are compared directly.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from makeway.api import codec
from makeway.api.objects.scheduling import GangWorkload
from makeway.api.problems import Problem
from makeway.api.quantity import Quantity
from makeway.api.validation import ValidationContext, validate, validate_update
from makeway.core.model import Expression, Millis, Selector, Taint, Toleration
from makeway.core.placement.cluster.state import ClusterState
from makeway.core.placement.cycle import cycle
from makeway.core.placement.model import (
    AffinityTerm,
    Budget,
    Cluster,
    ForGroup,
    ForPod,
    Member,
    Node,
    PlacementAnswer,
    Pod,
    PodGang,
    Preemptor,
    SchedulingWorkload,
    Spread,
)
from makeway.core.placement.preemption.decision import ONGOING, decide, refused, request_of
from makeway.core.placement.resolution import (
    Classes,
    Priorities,
    PriorityClass,
    PriorityRefused,
    default_class,
    divergence,
    known_classes,
    resolve,
)
from makeway.core.placement.units import importance, violations
from makeway.core.requests import units
from makeway.testing.placement_checker import check, texts
from makeway.testing.vectors.facts import Findings
from makeway.testing.vectors.reading import Case

Tree = Mapping[str, Any]


def adapter_of(case: Case) -> Callable[[Case], Findings] | None:
    """The adapter for what the case wants; None: nothing that we know."""
    want = case.want
    if "preemptionNeeded" in want:
        return preemption
    for key, adapter in (
        ("eligible", eligibility), ("violating", budgets), ("order", order), ("conditions", conditions),
        ("actuated", one_cycle), ("bound", one_cycle), ("requeued", one_cycle),
    ):  # fmt: skip
        if key in want:
            return adapter
    if "valid" in want:
        return validation if "operation" in case.given else resolution
    return None


# --- reading ---------------------------------------------------------------------------------------------------------


def cluster_from(tree: Tree) -> Cluster:
    classes = classes_from(tree)
    return Cluster(
        nodes=tuple(map(_node, tree.get("nodes") or ())),
        pods=tuple(_pod(each, place, classes) for place, each in enumerate(tree.get("pods") or ())),
        workloads=tuple(_workload(each, classes) for each in tree.get("workloads") or ()),
        budgets=tuple(map(_budget, tree.get("pdbs") or ())),
    )


def classes_from(tree: Tree) -> dict[str, PriorityClass]:
    return known_classes(
        PriorityClass(
            name=each["name"], value=each["value"], is_default=bool(each.get("globalDefault")),
            policy=each.get("preemptionPolicy") or "PreemptLowerPriority",
        )
        for each in tree.get("priorityClasses") or ()
    )  # fmt: skip


def preemptor_from(tree: Tree) -> Preemptor:
    if tree["kind"] == "Pod":
        return ForPod((tree["namespace"], tree["name"]))
    return ForGroup(tree["namespace"], Member(tree["workload"], tree["podGroup"], tree.get("replicaKey") or ""))


def _amounts(amounts: Mapping[str, Any]) -> dict[str, int]:
    return {name: units(Quantity.parse(str(text)).nano, name) for name, text in amounts.items()}


def _selector(tree: Tree | None) -> Selector | None:
    if tree is None:
        return None
    exact = [Expression(key, "In", (value,)) for key, value in sorted((tree.get("matchLabels") or {}).items())]
    others = [
        Expression(each["key"], each["operator"], tuple(each.get("values") or ()))
        for each in tree.get("matchExpressions") or ()
    ]
    return (*exact, *others)


def _node(tree: Tree) -> Node:
    return Node(
        name=tree["name"],
        allocatable=_amounts(tree["allocatable"]),
        labels=tree.get("labels") or {},
        taints=tuple(Taint(each["key"], each.get("value") or "", each["effect"]) for each in tree.get("taints") or ()),
        unschedulable=bool(tree.get("unschedulable")),
    )


def _pod(tree: Tree, place: int, classes: Classes) -> Pod:
    reference = tree.get("workloadRef")
    named = classes.get(tree.get("priorityClassName") or "")
    return Pod(
        key=(tree["namespace"], tree["name"]),
        requests={name: amount for name, amount in _amounts(tree.get("requests") or {}).items() if amount},
        node=tree.get("node"),
        priority=tree.get("priority") or 0,
        start=Millis((tree.get("startTime") or 0) * 1000),
        arrived=place,
        labels=tree.get("labels") or {},
        member=Member(reference["name"], reference["podGroup"], reference.get("replicaKey") or "")
        if reference
        else None,
        node_selector=tree.get("nodeSelector") or {},
        tolerations=tuple(
            Toleration(
                each.get("key") or "", each.get("operator") or "Equal", each.get("value") or "",
                each.get("effect") or "",
            )
            for each in tree.get("tolerations") or ()
        ),
        ports=frozenset(("TCP", port) for port in tree.get("hostPorts") or ()),
        anti_affinity=tuple(
            AffinityTerm(_selector(each["labelSelector"]), each["topologyKey"])
            for each in tree.get("podAntiAffinity") or ()
        ),
        spread=tuple(
            Spread(each["maxSkew"], each["topologyKey"], _selector(each["labelSelector"]), each.get("minDomains") or 1)
            for each in tree.get("topologySpread") or ()
        ),
        policy=tree.get("preemptionPolicy") or (named.policy if named else None),
        terminating=bool(tree.get("terminating")),
        preempted_by_scheduler=bool(tree.get("preemptedByScheduler")),
        nominated=tree.get("nominatedNode"),
    )  # fmt: skip


def _workload(tree: Tree, classes: Classes) -> SchedulingWorkload:
    """The workload of a pod; its priority comes from class names where there are some, else from the status."""
    namespace, name, spec = tree["namespace"], tree["name"], tree["spec"]
    asked = (spec.get("priorityClassName") or "", spec.get("preemptionPriorityClassName") or "")
    status = tree.get("status") or {}
    found = resolve(*asked, classes)
    resolved = Priorities() if isinstance(found, PriorityRefused) else found
    by_status = not any(asked) and "priority" in status
    return SchedulingWorkload(
        namespace=namespace,
        name=name,
        groups=tuple(
            PodGang(
                key=(namespace, name, each["name"]),
                min_count=each["policy"]["gang"]["minCount"] if "gang" in each["policy"] else None,
                whole=each["policy"].get("gang", {}).get("preemptionMode") == "PodGroup",
            )
            for each in spec["podGroups"]
        ),
        priority=status["priority"] if by_status else resolved.priority,
        preemption_priority=status["preemptionPriority"] if by_status else resolved.preemption_priority,
        policy=(status.get("preemptionPolicy") if by_status else None) or resolved.policy,
    )


def _budget(tree: Tree) -> Budget:
    return Budget(
        namespace=tree["namespace"],
        name=tree["name"],
        selector=_selector(tree.get("selector")),
        allowed=tree["disruptionsAllowed"],
        disrupted=frozenset(tree.get("disruptedPods") or ()),
    )


# --- judging ---------------------------------------------------------------------------------------------------------


def preemption(case: Case) -> Findings:
    found = Findings()
    cluster, preemptor = cluster_from(case.tree), preemptor_from(case.given["preemptor"])
    domain = case.given.get("domain")
    answer = decide(ClusterState.of(cluster), preemptor, domain=domain)
    found.differences += check(cluster, preemptor, answer, case.want, domain=domain)
    found.explain("", answer.why)
    found.answer = told(answer)
    return found


def told(answer: PlacementAnswer) -> dict[str, Any]:
    """An answer as it is written down for others to judge."""
    data: dict[str, Any] = {
        "needed": answer.needed,
        "feasible": answer.feasible,
        "victims": texts(answer.victims),
        "nominated": {"/".join(key): node for key, node in sorted(answer.nominated.items())},
    }
    if answer.candidates:
        data["candidates"] = [
            {"node": each.node, "victims": texts(each.victims), "numPDBViolations": each.violations, "n": each.n}
            for each in answer.candidates
        ]
    if answer.needed and answer.feasible:
        data["numPDBViolations"] = answer.violations
        data["n"] = answer.n
    return data


def eligibility(case: Case) -> Findings:
    found = Findings()
    cluster, preemptor = cluster_from(case.tree), preemptor_from(case.given["preemptor"])
    state = ClusterState.of(cluster)
    promised = frozenset(pod.nominated for pod in cluster.pods if pod.nominated is not None)
    ruled_out = promised if case.given.get("nominatedNodeUnresolvable") else frozenset()
    reason = refused(state, preemptor, ruled_out=ruled_out)
    found.same("eligible", reason is None, case.want["eligible"])
    if "reason" in case.want:
        found.same("reason", reason, case.want["reason"])
    if reason == ONGOING:  # no pod is evicted, and promised nodes stay promised
        kept = {"/".join(pod.key): pod.nominated for pod in seeking(state, preemptor) if pod.nominated is not None}
        found.same("victims", [], case.want.get("victims", []))
        found.same("nominated", kept, case.want.get("nominated", kept))
    return found


def seeking(state: ClusterState, preemptor: Preemptor) -> tuple[Pod, ...]:
    request = request_of(state, preemptor)
    return () if request is None else request.members


def one_cycle(case: Case) -> Findings:
    found = Findings()
    state = ClusterState.of(cluster_from(case.tree))
    pod_by_pod = case.given.get("mode") == "podByPod"
    outcome = cycle(state, preemptor_from(case.given["preemptor"]), pod_by_pod=pod_by_pod)
    got = {
        "feasible": outcome.feasible,
        "actuated": texts(outcome.actuated),
        "bound": texts(outcome.bound),
        "requeued": texts(outcome.requeued),
        "nominated": {"/".join(key): node for key, node in outcome.nominated.items()},
    }
    for key in got.keys() & case.want.keys():
        wanted = case.want[key]
        found.same(key, got[key], sorted(wanted) if isinstance(wanted, list) or key == "bound" else wanted)
    found.explain("", outcome.why)
    return found


def budgets(case: Case) -> Findings:
    found = Findings()
    recorded = case.tree["units"]
    pods = [(i, _pod(each, 0, {})) for i, unit in enumerate(recorded) for each in unit["pods"]]
    state = ClusterState.of(Cluster(budgets=cluster_from(case.tree).budgets))
    beyond = violations((i, pod, list(state.budgets.of(pod))) for i, pod in pods)
    got = [{"unit": unit["id"], "count": beyond[i]} for i, unit in enumerate(recorded) if beyond.get(i)]
    found.same("violating", got, case.want["violating"])
    others = [unit["id"] for i, unit in enumerate(recorded) if not beyond.get(i)]
    found.same("not violating", others, case.want.get("nonViolating", others))
    return found


def order(case: Case) -> Findings:
    found = Findings()
    ranked = sorted(
        case.tree["units"],
        key=lambda each: importance(
            each["priority"], each["kind"] == "workload", each["numPods"], each["startTime"], "", ("", each["id"])
        ),
    )
    found.same("order", [each["id"] for each in ranked], case.want["order"])
    return found


def conditions(case: Case) -> Findings:
    found = Findings()
    cluster = cluster_from(case.tree)
    for workload in cluster.workloads:
        name = f"{workload.namespace}/{workload.name}"
        wanted = case.want["conditions"].get(name)
        if wanted is not None:
            got = divergence(workload.namespace, workload.name, workload.priority, cluster.pods)
            found.same(f"{name}: status", got.status, wanted["status"])
            found.same(f"{name}: pods", texts(got.pods), sorted(wanted["pods"]))
    return found


# --- names of classes, and what may be written -----------------------------------------------------------------------

REASONS = {  # a recorded reason -> the kind of error and where
    "priorityClassNotFound": ("Forbidden", "spec.priorityClassName"),
    "preemptionPriorityClassNotFound": ("Forbidden", "spec.preemptionPriorityClassName"),
    "preemptionPriorityBelowPriority": ("Invalid", "spec.preemptionPriorityClassName"),
    "preemptionModeInvalid": ("NotSupported", ".policy.gang.preemptionMode"),
    "priorityClassNameImmutable": ("Invalid", "spec.priorityClassName"),
    "preemptionPriorityClassNameImmutable": ("Invalid", "spec.preemptionPriorityClassName"),
}


def resolution(case: Case) -> Findings:
    found = Findings()
    (tree,) = (
        each for each in case.tree["workloads"] if f"{each['namespace']}/{each['name']}" == case.given["workload"]
    )
    spec = tree["spec"]
    asked = (spec.get("priorityClassName") or "", spec.get("preemptionPriorityClassName") or "")
    got = resolve(*asked, classes_from(case.tree))
    found.same("valid", isinstance(got, Priorities), case.want["valid"])
    if isinstance(got, PriorityRefused):
        found.same("reason", got.reason, case.want.get("reason"))
    else:
        values = {
            "priority": got.priority, "preemptionPriority": got.preemption_priority, "preemptionPolicy": got.policy,
        }  # fmt: skip
        for key in values.keys() & case.want.keys():
            found.same(key, values[key], case.want[key])
    return found


def validation(case: Case) -> Findings:
    found = Findings()
    classes = classes_from(case.tree)
    default = default_class(classes)
    context = ValidationContext(
        priority_classes={name: each.value for name, each in classes.items()},
        default_class=default.name if default else "",
    )
    new, problems = _written(case.given["new"])
    if new is not None and case.given["operation"] == "update":
        old, _ = _written(case.given["old"])
        problems += validate_update(old, new, context) if old is not None else []
    elif new is not None:
        problems += validate(new, context)
    errors = [each for each in problems if each.severity == "error"]
    found.same("valid", not errors, case.want["valid"])
    if "reason" in case.want:
        kind, path = REASONS[case.want["reason"]]
        there = any(each.cause == kind and each.path.endswith(path) for each in errors)
        found.same(f"{kind} at {path}", there, True)
    for name, mode in (case.want.get("preemptionMode") or {}).items():
        groups = new.spec.pod_groups if new is not None else ()
        got = [each.policy.gang.preemption_mode if each.policy.gang else "Pod" for each in groups if each.name == name]
        found.same(f"mode of {name}", got, [mode])
    found.explanation += map(str, problems)
    return found


def _written(tree: Tree) -> tuple[GangWorkload | None, list[Problem]]:
    meta = {"name": tree["name"], "namespace": tree["namespace"]}
    whole = {"apiVersion": "scheduling.k8s.io/v1alpha1", "kind": "Workload", "metadata": meta, "spec": tree["spec"]}
    reading = codec.read(whole)
    value = reading.value
    return value if isinstance(value, GangWorkload) else None, list(reading.problems)
