"""Every row of api 13 that one object can break: kind of error and path, and the neighbour that is allowed.

The cases are in ``malformed/rules``: ``== Kind: sentence``, the rest of the manifest, and a line ``=> Cause path`` for
each error; without one the object is allowed. What is too long to write out, or needs surroundings, is here. The words
of the messages are in ``malformed``; what may not change is in ``test_validation_updates``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import pytest

from makeway.api import codec
from makeway.api.objects.meta import Wire
from makeway.api.problems import Problem
from makeway.api.reading.documents import Tree, parse
from makeway.api.validation import ValidationContext, validate

FOLDER = Path(__file__).parent / "malformed" / "rules"
VERSIONS = {
    "GangWorkload": ("scheduling.k8s.io/v1alpha1", "Workload"),
    "Configuration": ("config.kueue.x-k8s.io/v1beta2", "Configuration"),
    "Job": ("batch/v1", "Job"),
    "Pod": ("v1", "Pod"),
    "ConfigMap": ("v1", "ConfigMap"),
    "Secret": ("v1", "Secret"),
    "PodDisruptionBudget": ("policy/v1", "PodDisruptionBudget"),
    "PriorityClass": ("scheduling.k8s.io/v1", "PriorityClass"),
}
SHORT = {
    "$SPOT": "resourceGroups: [{coveredResources: [cpu], flavors: "
    "[{name: spot, resources: [{name: cpu, nominalQuota: 4}]}]}]",
    "$SETS": "podSets: [{name: main, count: 4, template: {}}]",
}
Told = tuple[str, str]  # cause and path


@dataclass(frozen=True)
class Rule:
    kind: str
    sentence: str
    text: str
    told: tuple[Told, ...] = ()  # nothing: it is allowed


def rules(path: Path) -> list[Rule]:
    _, *parts = re.split(r"^== ", path.read_text("utf-8"), flags=re.MULTILINE)
    found = []
    for part in parts:
        title, *lines = part.strip().split("\n")
        kind, _, sentence = title.partition(": ")
        told = [line.removeprefix("=> ").partition(" ") for line in lines if line.startswith("=> ")]
        text = "\n".join(line for line in lines if not line.startswith("=> "))
        found.append(Rule(kind, sentence, text, tuple((cause, where) for cause, _, where in told)))
    return found


def manifest(kind: str, text: str) -> Tree:
    version, name = VERSIONS.get(kind, ("kueue.x-k8s.io/v1beta2", kind))
    named = "" if text.startswith("metadata:") or kind == "Configuration" else "metadata: {name: x}\n"
    for word, meaning in SHORT.items():
        text = text.replace(word, meaning)
    (document,) = parse(f"apiVersion: {version}\nkind: {name}\n{named}{text}\n".encode())
    assert document.problems == []
    return document.tree


def problems(kind: str, text: str, context: ValidationContext | None = None) -> list[Problem]:
    reading = codec.read(manifest(kind, text))
    assert isinstance(reading.value, Wire)
    return reading.problems + validate(reading.value, context or ValidationContext())


def errors(found: Iterable[Problem]) -> list[Told]:
    return list(dict.fromkeys((problem.cause, problem.path) for problem in found if problem.severity == "error"))


RULES = [rule for path in sorted(FOLDER.glob("*.txt")) for rule in rules(path)]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: f"{rule.kind}: {rule.sentence}")
def test_rules_of_one_object(rule: Rule) -> None:
    assert errors(problems(rule.kind, rule.text)) == list(rule.told)


def test_the_rules_are_many_and_told_apart() -> None:
    titles = [(rule.kind, rule.sentence) for rule in RULES]
    assert len(set(titles)) == len(titles) >= 220
    assert len([rule for rule in RULES if not rule.told]) >= 50, "neighbours that are allowed"


# --- counts -----------------------------------------------------------------------------------------------------------

GROUPS = "spec.resourceGroups"


def groups(*sizes: tuple[int, int]) -> str:
    """Resource groups of so many flavors and resources each; no name is used twice."""
    made = []
    for g, (flavors, resources) in enumerate(sizes):
        covered = [f"r{g}-{i}" for i in range(resources)]
        quotas = [{"name": name, "nominalQuota": 1} for name in covered]
        listed = [{"name": f"f{g}-{i}", "resources": quotas} for i in range(flavors)]
        made.append({"coveredResources": covered, "flavors": listed})
    return f"resourceGroups: {json.dumps(made)}"


DEFAULT_OPTIONS = "concurrentAdmission: {onSuccess: RemoveOther}"


@pytest.mark.parametrize(
    ("kind", "spec", "told"),
    [
        ("ClusterQueue", groups(*[(64, 4)] * 4), []),
        ("ClusterQueue", groups(*[(4, 64)] * 4), []),
        ("ClusterQueue", groups(*[(64, 1)] * 4, (1, 1)), [("Invalid", GROUPS)]),
        ("ClusterQueue", groups(*[(1, 64)] * 4, (1, 1)), [("Invalid", GROUPS)]),
        ("ClusterQueue", groups((64, 8)), []),
        ("ClusterQueue", groups((27, 19)), [("Invalid", f"{GROUPS}[0]")]),
        ("ClusterQueue", groups(*[(1, 1)] * 16), []),
        ("ClusterQueue", groups(*[(1, 1)] * 17), [("TooMany", GROUPS)]),
        ("ClusterQueue", groups((65, 1)), [("TooMany", f"{GROUPS}[0].flavors")]),
        ("ClusterQueue", f"{groups((16, 1))}, {DEFAULT_OPTIONS}", []),
        ("ClusterQueue", f"{groups((17, 1))}, {DEFAULT_OPTIONS}", [("Invalid", GROUPS)]),
        ("ClusterQueue", f"{groups((1, 1), (1, 1))}, {DEFAULT_OPTIONS}", [("Invalid", GROUPS)]),
        ("Cohort", groups(*[(64, 1)] * 5), []),
        ("Cohort", groups(*[(1, 1)] * 17), [("TooMany", GROUPS)]),
    ],
    ids=[
        "256 flavors in all", "256 resources in all", "257 flavors in all", "257 resources in all", "512 pairs",
        "513 pairs", "16 groups", "17 groups", "65 flavors in a group", "16 default Options", "17 default Options",
        "default Options of two groups", "a Cohort has no totals", "17 groups of a Cohort",
    ],
)  # fmt: skip
def test_how_much_quota_can_be_described(kind: str, spec: str, told: list[Told]) -> None:
    assert errors(problems(kind, f"spec: {{{spec}}}")) == told


@pytest.mark.parametrize(("count", "told"), [(16, []), (17, [("TooMany", "spec.concurrentAdmission.explicitOptions")])])
def test_a_queue_has_at_most_16_options_of_any_groups(count: int, told: list[Told]) -> None:
    listed = [{"name": f"o{i}", "allowedResourceFlavors": ["f0-0", "f1-0"]} for i in range(count)]
    block = f"concurrentAdmission: {{onSuccess: RemoveOther, explicitOptions: {json.dumps(listed)}}}"
    assert errors(problems("ClusterQueue", f"spec: {{{groups((17, 1), (1, 1))}, {block}}}")) == told


@pytest.mark.parametrize("count", [8, 9])
def test_a_flavor_has_at_most_8_labels_taints_and_tolerations(count: int) -> None:
    spec = {
        "nodeLabels": {f"k{i}": "v" for i in range(count)},
        "nodeTaints": [{"key": f"k{i}", "effect": "NoSchedule"} for i in range(count)],
        "tolerations": [{"key": f"k{i}"} for i in range(count)],
    }
    expected = [("TooMany", f"spec.{name}") for name in spec] if count > 8 else []
    assert errors(problems("ResourceFlavor", f"spec: {json.dumps(spec)}")) == expected


PARAMETERS = "spec: {controllerName: c, parameters: {apiGroup: a, "
OPTION = (
    "spec: {$SPOT, concurrentAdmission: {onSuccess: RemoveOther, explicitOptions: [{allowedResourceFlavors: [spot], "
)
LENGTHS = [
    ("WorkloadPriorityClass", "description", 2048, "value: 1\ndescription: $X"),
    ("AdmissionCheck", "spec.controllerName", 253, "spec: {controllerName: $X}"),
    ("AdmissionCheck", "spec.parameters.kind", 63, PARAMETERS + "name: a, kind: $X}}"),
    ("AdmissionCheck", "spec.parameters.name", 63, PARAMETERS + "kind: a, name: $X}}"),
    ("MultiKueueConfig", "spec.clusters[0]", 256, "spec: {clusters: [$X]}"),
    (
        "MultiKueueCluster",
        "spec.clusterSource.kubeConfig.location",
        256,
        "spec: {clusterSource: {kubeConfig: {location: $X}}}",
    ),
    ("ClusterQueue", "spec.cohortName", 253, "spec: {cohortName: $X}"),
    (
        "ClusterQueue",
        "spec.admissionChecksStrategy.admissionChecks[0].name",
        316,
        "spec: {admissionChecksStrategy: {admissionChecks: [{name: $X}]}}",
    ),
    ("ClusterQueue", "spec.concurrentAdmission.explicitOptions[0].name", 63, OPTION + "name: $X}]}}"),
    ("Workload", "spec.preemptionGates[0].name", 63, "spec: {$SETS, preemptionGates: [{name: $X}]}"),
    ("GangWorkload", "spec.podGroups[0].name", 63, "spec: {podGroups: [{name: $X, policy: {basic: {}}}]}"),
    ("ResourceFlavor", "metadata.name", 253, "metadata: {name: $X}"),
    ("ResourceFlavor", "spec.nodeLabels", 63, "spec: {nodeLabels: {$X: a}}"),
    ("ResourceFlavor", "spec.nodeLabels", 63, "spec: {nodeLabels: {a: $X}}"),
]


@pytest.mark.parametrize(
    ("kind", "path", "longest", "text"), LENGTHS, ids=[f"{kind} {path}" for kind, path, *_ in LENGTHS]
)
def test_how_long_texts_may_be(kind: str, path: str, longest: int, text: str) -> None:
    assert errors(problems(kind, text.replace("$X", "x" * longest))) == []
    assert errors(problems(kind, text.replace("$X", "x" * (longest + 1)))) == [("Invalid", path)]


def test_annotations_have_a_size_together() -> None:
    text = f"metadata: {{name: x, annotations: {{a: {'x' * 2**17}, b: {'y' * 2**17}}}}}"
    assert errors(problems("ResourceFlavor", text)) == [("TooMany", "metadata.annotations")]


# --- surroundings -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", ["", "x", "1.5", "2147483648", "-2147483649", "٣", "0x1"])
def test_a_boost_is_an_int32_where_its_gate_is_on(value: str) -> None:
    text = f"metadata: {{name: x, annotations: {{kueue.x-k8s.io/priority-boost: {value!r}}}}}\nspec: {{$SETS}}"
    path = "metadata.annotations[kueue.x-k8s.io/priority-boost]"
    assert errors(problems("Workload", text, ValidationContext(gates={"PriorityBoost": True}))) == [("Invalid", path)]


@pytest.mark.parametrize("value", ["0", "-5", "+7", "2147483647", "-2147483648"])
def test_a_boost_may_be_any_int32(value: str) -> None:
    text = f"metadata: {{name: x, annotations: {{kueue.x-k8s.io/priority-boost: {value!r}}}}}\nspec: {{$SETS}}"
    assert errors(problems("Workload", text, ValidationContext(gates={"PriorityBoost": True}))) == []


@pytest.mark.parametrize(
    ("names", "told"),
    [
        ("priorityClassName: high, preemptionPriorityClassName: high", []),
        ("priorityClassName: low, preemptionPriorityClassName: high", []),
        ("priorityClassName: low", []),
        ("preemptionPriorityClassName: system-node-critical", []),
        ("priorityClassName: high, preemptionPriorityClassName: low", [("Invalid", "preemptionPriorityClassName")]),
        ("preemptionPriorityClassName: below", [("Invalid", "preemptionPriorityClassName")]),
        ("priorityClassName: hihg", [("Forbidden", "priorityClassName")]),
        (
            "priorityClassName: a, preemptionPriorityClassName: b",
            [("Forbidden", "priorityClassName"), ("Forbidden", "preemptionPriorityClassName")],
        ),
    ],
)
def test_classes_of_a_scheduling_workload_exist_and_a_victim_is_never_less(names: str, told: list[Told]) -> None:
    context = ValidationContext(priority_classes={"high": 10, "low": 1, "below": -1})
    text = f"spec: {{{names}, podGroups: [{{name: a, policy: {{basic: {{}}}}}}]}}"
    assert errors(problems("GangWorkload", text, context)) == [(cause, f"spec.{path}") for cause, path in told]


def test_a_victim_is_not_less_than_the_default_class() -> None:
    context = ValidationContext(priority_classes={"usual": 5, "low": 1}, default_class="usual")
    text = "spec: {preemptionPriorityClassName: low, podGroups: [{name: a, policy: {basic: {}}}]}"
    (found,) = problems("GangWorkload", text, context)
    assert found.message == '"low" has value 1, below the 5 of "usual", the default class'


def test_a_class_that_does_not_exist_is_told_with_the_nearest_that_does() -> None:
    context = ValidationContext(priority_classes={"high": 10})
    text = "spec: {priorityClassName: hihg, podGroups: [{name: a, policy: {basic: {}}}]}"
    (found,) = problems("GangWorkload", text, context)
    assert str(found) == 'spec.priorityClassName: no PriorityClass is called "hihg"\n  hint: did you mean high?'


# --- what is legal, but surely not meant ------------------------------------------------------------------------------


PROFILE = "spec: {clusterSource: {clusterProfileRef: {name: a}}}"
TEMPLATE = "spec: {queueName: q, podSets: [{template: {metadata: {name: a}}}]}"
LOCKED = "FlavorFungibilityPreserveScanProgress"
WARNINGS = [
    ("Workload", "spec.queueName", "spec: {$SETS}"),
    ("Workload", "spec.podSets[0].template.metadata.name", TEMPLATE),
    ("LocalQueue", "spec.clusterQueue", "spec: {}"),
    ("LocalQueue", "spec.fairSharing", "spec: {clusterQueue: q, fairSharing: {weight: 1}}"),
    ("Cohort", "spec.parentName", "spec: {parentName: x}"),
    ("ResourceFlavor", "metadata.namespace", "metadata: {name: x, namespace: a}"),
    ("MultiKueueConfig", "spec.quotaManagement", "spec: {clusters: [a], quotaManagement: Automated}"),
    ("MultiKueueCluster", "spec.clusterSource.clusterProfileRef", PROFILE),
    ("Configuration", "featureGates[KueueDRAIntegration]", "featureGates: {KueueDRAIntegration: false}"),
    ("Configuration", f"featureGates[{LOCKED}]", f"featureGates: {{{LOCKED}: false}}"),
    ("Configuration", "integrations.frameworks[0]", "integrations: {frameworks: [ray.io/rayjob]}"),
    ("Configuration", "tls", "tls: {minVersion: VersionTLS13}"),
]


@pytest.mark.parametrize(("kind", "path", "text"), WARNINGS, ids=[f"{kind} {path}" for kind, path, _ in WARNINGS])
def test_warnings(kind: str, path: str, text: str) -> None:
    assert [(each.severity, each.cause, each.path) for each in problems(kind, text)] == [("warning", "Advice", path)]
