"""What may not change, and what may: every row of api 13 that is about an update.

The cases are in ``malformed/updates``, written as in ``test_validation_rules``: the object before, ``---``, the object
after, and a line ``=> Cause path`` for each error.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from makeway.api import codec
from makeway.api.objects.meta import Wire
from makeway.api.problems import Problem
from makeway.api.validation import ValidationContext, validate_update
from tests.api.test_validation_rules import Rule, errors, manifest, rules

TIME = 'lastTransitionTime: "2026-01-01T00:00:00Z"'
RESERVED = f'{{type: QuotaReserved, status: "True", reason: R, {TIME}}}'
ADMITTED = f'{{type: Admitted, status: "True", reason: R, {TIME}}}'
MAIN = "admission: {clusterQueue: q, podSetAssignments: [{name: main, count: 4}]}"
SHORT = {
    "$TIME": TIME,
    "$HELD": f"conditions: [{RESERVED}], {MAIN}",
    "$ADMITTED": f"conditions: [{RESERVED}, {ADMITTED}], {MAIN}",
    "$BOTH": f"conditions: [{RESERVED}], admission: {{clusterQueue: q, podSetAssignments: [{{name: a}}, {{name: b}}]}}",
}
FOLDER = Path(__file__).parent / "malformed" / "updates"
UPDATES = [rule for path in sorted(FOLDER.glob("*.txt")) for rule in rules(path)]


def value(kind: str, text: str) -> Wire:
    for word, meaning in SHORT.items():
        text = text.replace(word, meaning)
    found = codec.read(manifest(kind, text)).value
    assert found is not None
    return found


def update(kind: str, before: str, after: str, context: ValidationContext | None = None) -> list[Problem]:
    return validate_update(value(kind, before), value(kind, after), context or ValidationContext())


@pytest.mark.parametrize("rule", UPDATES, ids=lambda rule: f"{rule.kind}: {rule.sentence}")
def test_updates(rule: Rule) -> None:
    before, after = rule.text.split("\n---\n")
    assert errors(update(rule.kind, before, after)) == list(rule.told)


def test_the_updates_are_told_apart() -> None:
    titles = [(rule.kind, rule.sentence) for rule in UPDATES]
    assert len(set(titles)) == len(titles) >= 55


def test_a_gate_lets_no_check_stay_wrong() -> None:
    text = "spec: {$SPOT, admissionChecksStrategy: {admissionChecks: [{name: a, onFlavors: [gone]}]}}"
    strict = ValidationContext(gates={"RejectUpdatesToCQWithInvalidOnFlavors": True})
    path = "spec.admissionChecksStrategy.admissionChecks[0].onFlavors[0]"
    assert errors(update("ClusterQueue", text, text)) == []
    assert errors(update("ClusterQueue", text, text, strict)) == [("NotSupported", path)]


QUEUE_A = "spec: {clusterQueue: a}"


@pytest.mark.parametrize(
    ("kind", "before", "after", "words"),
    [
        ("LocalQueue", QUEUE_A, "spec: {clusterQueue: b}", "spec.clusterQueue: cannot be changed after creation"),
        ("LocalQueue", "spec: {}", QUEUE_A, "spec.clusterQueue: cannot be set after creation"),
        ("LocalQueue", QUEUE_A, "spec: {}", "spec.clusterQueue: cannot be removed after creation"),
        (
            "Workload",
            "spec: {$SETS, queueName: a}\nstatus: {$HELD}",
            "spec: {$SETS, queueName: b}\nstatus: {$HELD}",
            'spec.queueName: cannot be changed while quota is reserved (it is "a")',
        ),
        (
            "Workload",
            "spec: {$SETS}\nstatus: {nominatedClusterNames: [a, b]}",
            "spec: {$SETS}\nstatus: {clusterName: c}",
            'status.clusterName: "c" was not nominated; nominated: a, b',
        ),
        (
            "Workload",
            "metadata: {name: x}\nspec: {$SETS}",
            "metadata: {name: x, annotations: {kueue.x-k8s.io/admission-gated-by: 'a,b'}}\nspec: {$SETS}",
            "metadata.annotations[kueue.x-k8s.io/admission-gated-by]: cannot be extended after creation, by a, b",
        ),
        (
            "Workload",
            "metadata: {name: x}\nspec: {$SETS, workloadMode: {type: ResourceFlavorOption}}",
            "metadata: {name: x, annotations: {kueue.x-k8s.io/option-name: a}}\n"
            "spec: {$SETS, workloadMode: {type: ResourceFlavorOption}}",
            "metadata.annotations[kueue.x-k8s.io/option-name]: cannot be changed on an Option (it is not set)",
        ),
    ],
)
def test_a_change_that_is_refused_is_told_with_what_is_there(kind: str, before: str, after: str, words: str) -> None:
    assert [str(found) for found in update(kind, before, after) if found.severity == "error"] == [words]
