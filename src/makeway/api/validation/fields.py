"""Rules for values that many kinds have: names, labels, selectors, taints, tolerations, metadata."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from makeway.api.forms import (
    KEY_HINT,
    LABEL_HINT,
    NAME_HINT,
    VALUE_HINT,
    is_label,
    is_label_value,
    is_qualified,
    is_subdomain,
)
from makeway.api.objects.meta import LabelSelector, ObjectMeta, Taint, Toleration
from makeway.api.problems import Problem, entry, warning
from makeway.api.reading.structure import told
from makeway.api.schema.kubernetes_rules import check_toleration

ANNOTATIONS_BYTES_MAX = 256 * 1024


def check_labels(labels: Mapping[str, str], path: str, *, at_map: bool = False) -> Iterator[Problem]:
    """Check labels. ``at_map``: the path of a problem is the map itself, as api 13.3 wants for nodeLabels."""
    for key, value in labels.items():
        here = path if at_map else entry(path, key)
        if not is_qualified(key):
            yield Problem(here, f"{told(key)} is not a label key", KEY_HINT)
        if not is_label_value(value):
            yield Problem(here, f"{told(value)} is not a label value", VALUE_HINT)


def check_annotations(annotations: Mapping[str, str], path: str) -> Iterator[Problem]:
    for key in annotations:
        if not is_qualified(key.lower()):
            yield Problem(entry(path, key), f"{told(key)} is not an annotation key", KEY_HINT)
    size = sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items())
    if size > ANNOTATIONS_BYTES_MAX:
        yield Problem(path, f"{size} bytes together, more than the {ANNOTATIONS_BYTES_MAX} allowed", cause="TooMany")


def check_metadata(meta: ObjectMeta, *, namespaced: bool, path: str = "metadata") -> Iterator[Problem]:
    if not meta.name and not meta.generate_name:
        yield Problem(f"{path}.name", "required", "give the object a name, or a generateName", cause="Required")
    elif meta.name and not is_subdomain(meta.name):
        yield Problem(f"{path}.name", f"{told(meta.name)} is not a DNS subdomain", NAME_HINT)
    elif not meta.name and not is_subdomain(f"{meta.generate_name}x"):
        yield Problem(f"{path}.generateName", f"{told(meta.generate_name)} cannot begin a name", NAME_HINT)
    if meta.namespace and not namespaced:
        message = f"has no effect: the kind has no namespaces (got {told(meta.namespace)})"
        yield warning(f"{path}.namespace", message, "remove it")
    elif meta.namespace and not is_label(meta.namespace):
        yield Problem(f"{path}.namespace", f"{told(meta.namespace)} is not a DNS label", LABEL_HINT)
    yield from check_labels(meta.labels, f"{path}.labels")
    yield from check_annotations(meta.annotations, f"{path}.annotations")
    for i, name in enumerate(meta.finalizers):
        if not is_qualified(name):
            yield Problem(f"{path}.finalizers[{i}]", f"{told(name)} is not a qualified name", KEY_HINT)


def check_selector(selector: LabelSelector, path: str) -> Iterator[Problem]:
    yield from check_labels(selector.match_labels, f"{path}.matchLabels")
    for i, expression in enumerate(selector.match_expressions):
        here = f"{path}.matchExpressions[{i}]"
        if expression.key and not is_qualified(expression.key):
            yield Problem(f"{here}.key", f"{told(expression.key)} is not a label key", KEY_HINT)
        if expression.operator in ("In", "NotIn") and not expression.values:
            yield Problem(f"{here}.values", f"required with operator {expression.operator}", cause="Required")
        elif expression.operator in ("Exists", "DoesNotExist") and expression.values:
            yield Problem(
                f"{here}.values",
                f"not allowed with operator {expression.operator}",
                "remove the values",
                cause="Forbidden",
            )
        for j, value in enumerate(expression.values):
            if not is_label_value(value):
                yield Problem(f"{here}.values[{j}]", f"{told(value)} is not a label value", VALUE_HINT)


def check_taints(taints: tuple[Taint, ...], path: str) -> Iterator[Problem]:
    seen: dict[tuple[str, str], int] = {}
    for i, taint in enumerate(taints):
        if taint.key and not is_qualified(taint.key):
            yield Problem(f"{path}[{i}].key", f"{told(taint.key)} is not a label key", KEY_HINT)
        if not is_label_value(taint.value):
            yield Problem(f"{path}[{i}].value", f"{told(taint.value)} is not a label value", VALUE_HINT)
        first = seen.setdefault((taint.key, taint.effect), i)
        if first != i:
            message = f"key {told(taint.key)} with effect {taint.effect} stands already at {path}[{first}]"
            yield Problem(f"{path}[{i}]", message, "keep one of them", cause="Duplicate")


def check_tolerations(tolerations: tuple[Toleration, ...], path: str) -> Iterator[Problem]:
    for i, item in enumerate(tolerations):
        here = f"{path}[{i}]"
        yield from check_toleration(item.key, item.operator, item.value, item.effect, item.toleration_seconds, here)
