"""Rules between the fields of one Kubernetes type, in whatever kind the type is used.

A selector has the same rules in a Pod, in the template of a Job or Workload, and in a PodDisruptionBudget. A rule gets
a block with fields of the right types, which have been checked one by one (``kubernetes_limits``). It does not report
a word again that was refused there.

Not here: rules of a single kind, or rules that need more than the block (``validation``).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from makeway.api.forms import KEY_HINT, VALUE_HINT, is_label_value, is_qualified
from makeway.api.problems import Problem
from makeway.api.reading.structure import Rule, told

Block = dict[str, Any]
_PROBE_TIMES = (
    "failureThreshold", "initialDelaySeconds", "periodSeconds", "successThreshold", "terminationGracePeriodSeconds",
    "timeoutSeconds",
)  # fmt: skip


def check_toleration(
    key: str, operator: str, value: str, effect: str, seconds: int | None, path: str
) -> Iterator[Problem]:
    """Check a toleration. All problems have the path of the toleration itself, as api 13.3 wants."""
    if key and not is_qualified(key):
        yield Problem(path, f"key {told(key)} is not a label key", KEY_HINT)
    if not key and operator != "Exists":
        yield Problem(path, "an empty key needs operator Exists", "set a key, or operator: Exists to tolerate all")
    if operator == "Exists" and value:
        yield Problem(path, f"operator Exists takes no value, got {told(value)}", "remove the value")
    elif not is_label_value(value):
        yield Problem(path, f"value {told(value)} is not a label value", VALUE_HINT)
    if seconds is not None and effect != "NoExecute":
        message = f"tolerationSeconds needs effect NoExecute, got {told(effect) if effect else 'none'}"
        yield Problem(path, message, "set effect: NoExecute")


def _toleration(block: Block, path: str) -> Iterator[Problem]:
    key, operator, value, effect = (block.get(name) or "" for name in ("key", "operator", "value", "effect"))
    if operator in ("", "Equal", "Exists", "Lt", "Gt"):
        yield from check_toleration(key, operator, value, effect, block.get("tolerationSeconds"), path)


def _requirement(block: Block, path: str) -> Iterator[Problem]:
    """Check the number of values against the operator."""
    operator, count = block.get("operator"), len(block.get("values") or ())
    if operator in ("In", "NotIn") and not count:
        yield Problem(f"{path}.values", f"required with operator {operator}", cause="Required")
    elif operator in ("Gt", "Lt") and count != 1:
        yield Problem(f"{path}.values", f"must have exactly 1 entry with operator {operator}, got {count}")
    elif operator in ("Exists", "DoesNotExist") and count:
        words = f"not allowed with operator {operator}"
        yield Problem(f"{path}.values", words, "remove the values", cause="Forbidden")


def _one_of(*names: str, beside: tuple[str, ...] = ()) -> Rule:
    """Check that exactly one of the fields is set; it may be an unknown field of a newer Kubernetes."""
    listed = f"{', '.join(names[:-1])} and {names[-1]}"

    def rule(block: Block, path: str) -> Iterator[Problem]:
        present = [name for name in names if block.get(name) is not None]
        if len(present) > 1:
            message = f"exactly one of {listed} must be set, got {' and '.join(present)}"
            yield Problem(path, message, "keep one of them", cause="Forbidden")
        elif not present and not block.keys() - beside:
            yield Problem(path, f"exactly one of {listed} must be set, got none", cause="Required")

    return rule


def _host_path(block: Block, path: str) -> Iterator[Problem]:
    host = block.get("path") or ""
    if ".." in host.split("/"):
        yield Problem(f"{path}.path", f"{told(host)} has a `..` in it", "name the path itself")


RULES: dict[str, Rule] = {
    "EnvVarSource": _one_of("configMapKeyRef", "fieldRef", "fileKeyRef", "resourceFieldRef", "secretKeyRef"),
    "HostPathVolumeSource": _host_path,
    "LabelSelectorRequirement": _requirement,
    "LifecycleHandler": _one_of("exec", "httpGet", "sleep", "tcpSocket"),
    "NodeSelectorRequirement": _requirement,
    "Probe": _one_of("exec", "grpc", "httpGet", "tcpSocket", beside=_PROBE_TIMES),
    "Toleration": _toleration,
}
