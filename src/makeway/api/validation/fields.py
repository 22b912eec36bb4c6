"""Rules about values that many kinds share: names, labels, selectors, taints, tolerations, metadata."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from makeway.api.objects.meta import DNS_LABEL, DNS_SUBDOMAIN, LabelSelector, ObjectMeta, Taint, Toleration
from makeway.api.problems import Problem, entry, warning
from makeway.api.structure import told

_SUBDOMAIN = re.compile(DNS_SUBDOMAIN)
_LABEL = re.compile(DNS_LABEL)
_QUALIFIED = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")
ANNOTATIONS_BYTES_MAX = 256 * 1024
NAME_HINT = "lower-case letters, digits, `-` and `.`; each part begins and ends with a letter or digit"
LABEL_HINT = "lower-case letters, digits and `-`, at most 63; it begins and ends with a letter or digit"
KEY_HINT = "letters, digits, `-`, `_` and `.`, at most 63; a prefix before `/` is a DNS subdomain"
VALUE_HINT = "letters, digits, `-`, `_` and `.`, at most 63; it begins and ends with a letter or digit"


def is_subdomain(text: str) -> bool:
    return len(text) <= 253 and _SUBDOMAIN.fullmatch(text) is not None


def is_label(text: str) -> bool:
    return len(text) <= 63 and _LABEL.fullmatch(text) is not None


def is_qualified(text: str) -> bool:
    """``[prefix/]name``, as label keys and resource names are written."""
    prefix, slash, name = text.rpartition("/")
    if slash and not is_subdomain(prefix):
        return False
    return len(name) <= 63 and _QUALIFIED.fullmatch(name) is not None


def is_label_value(text: str) -> bool:
    return text == "" or (len(text) <= 63 and _QUALIFIED.fullmatch(text) is not None)


def check_labels(labels: Mapping[str, str], path: str, *, at_map: bool = False) -> Iterator[Problem]:
    """``at_map``: problems are told at the map itself, as api 13.3 says of nodeLabels."""
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
    for i, each in enumerate(selector.match_expressions):
        here = f"{path}.matchExpressions[{i}]"
        if each.key and not is_qualified(each.key):
            yield Problem(f"{here}.key", f"{told(each.key)} is not a label key", KEY_HINT)
        if each.operator in ("In", "NotIn") and not each.values:
            yield Problem(f"{here}.values", f"required with operator {each.operator}", cause="Required")
        elif each.operator in ("Exists", "DoesNotExist") and each.values:
            yield Problem(
                f"{here}.values", f"not allowed with operator {each.operator}", "remove the values", cause="Forbidden"
            )
        for j, value in enumerate(each.values):
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


def check_toleration(
    key: str, operator: str, value: str, effect: str, seconds: int | None, path: str
) -> Iterator[Problem]:
    """One toleration; api 13.3 tells all of its problems at the toleration itself."""
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


def check_tolerations(tolerations: tuple[Toleration, ...], path: str) -> Iterator[Problem]:
    for i, each in enumerate(tolerations):
        here = f"{path}[{i}]"
        yield from check_toleration(each.key, each.operator, each.value, each.effect, each.toleration_seconds, here)
