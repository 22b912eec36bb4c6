"""Where a pod may run: the words and numbers of its affinity and spreads that only certain values may take.

An unknown word would otherwise be read as some other one, or break what reads it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from makeway.api.problems import Problem
from makeway.api.structure import did_you_mean, told

JsonObject = dict[str, Any]
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_LABEL_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")
_NODE_OPERATORS = (*_LABEL_OPERATORS, "Gt", "Lt")


def check_choice(value: str | None, allowed: tuple[str, ...], path: str) -> Iterator[Problem]:
    """One of these, or not set."""
    if value is not None and value not in allowed:
        message = f"{told(value)} is not supported; allowed: {', '.join(allowed)}"
        yield Problem(path, message, did_you_mean(value, allowed), cause="NotSupported")


def check_where(spec: JsonObject, path: str) -> Iterator[Problem]:
    """The affinity and the spreads of a pod's spec."""
    affinity = spec.get("affinity") or {}
    here = f"{path}.affinity.nodeAffinity"
    nodes = affinity.get("nodeAffinity") or {}
    for i, term in enumerate((nodes.get(REQUIRED) or {}).get("nodeSelectorTerms") or ()):
        yield from _check_node_term(term, f"{here}.{REQUIRED}.nodeSelectorTerms[{i}]")
    for i, weighted in enumerate(nodes.get(PREFERRED) or ()):
        yield from _check_range(weighted.get("weight"), 1, 100, f"{here}.{PREFERRED}[{i}].weight")
        yield from _check_node_term(weighted.get("preference") or {}, f"{here}.{PREFERRED}[{i}].preference")
    for name in ("podAffinity", "podAntiAffinity"):
        pods, here = affinity.get(name) or {}, f"{path}.affinity.{name}"
        for i, term in enumerate(pods.get(REQUIRED) or ()):
            yield from _check_pod_term(term, f"{here}.{REQUIRED}[{i}]")
        for i, weighted in enumerate(pods.get(PREFERRED) or ()):
            yield from _check_range(weighted.get("weight"), 1, 100, f"{here}.{PREFERRED}[{i}].weight")
            yield from _check_pod_term(
                weighted.get("podAffinityTerm") or {}, f"{here}.{PREFERRED}[{i}].podAffinityTerm"
            )
    for i, spread in enumerate(spec.get("topologySpreadConstraints") or ()):
        here = f"{path}.topologySpreadConstraints[{i}]"
        yield from check_choice(
            spread.get("whenUnsatisfiable"), ("DoNotSchedule", "ScheduleAnyway"), f"{here}.whenUnsatisfiable"
        )
        for name in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
            yield from check_choice(spread.get(name), ("Honor", "Ignore"), f"{here}.{name}")
        yield from check_label_operators(spread.get("labelSelector") or {}, f"{here}.labelSelector")
        yield from _check_key(spread, here)
        for name in ("maxSkew", "minDomains"):
            yield from _check_range(spread.get(name), 1, None, f"{here}.{name}")


def check_label_operators(selector: JsonObject, path: str) -> Iterator[Problem]:
    yield from _check_operators(selector, "matchExpressions", _LABEL_OPERATORS, path)


def _check_node_term(term: JsonObject, path: str) -> Iterator[Problem]:
    for name in ("matchExpressions", "matchFields"):
        yield from _check_operators(term, name, _NODE_OPERATORS, path)


def _check_pod_term(term: JsonObject, path: str) -> Iterator[Problem]:
    for name in ("labelSelector", "namespaceSelector"):
        yield from check_label_operators(term.get(name) or {}, f"{path}.{name}")
    yield from _check_key(term, path)


def _check_key(term: JsonObject, path: str) -> Iterator[Problem]:
    if term.get("topologyKey") == "":
        yield Problem(f"{path}.topologyKey", "required", "for example kubernetes.io/hostname", cause="Required")


def _check_range(value: int | None, least: int, most: int | None, path: str) -> Iterator[Problem]:
    if value is not None and value < least:
        yield Problem(path, f"{value} is below the minimum of {least}")
    elif value is not None and most is not None and value > most:
        yield Problem(path, f"{value} is above the maximum of {most}")


def _check_operators(term: JsonObject, name: str, allowed: tuple[str, ...], path: str) -> Iterator[Problem]:
    for i, each in enumerate(term.get(name) or ()):
        here = f"{path}.{name}[{i}]"
        yield from check_choice(each.get("operator"), allowed, f"{here}.operator")
        values = each.get("values") or ()
        if each.get("operator") in ("In", "NotIn") and not values:
            yield Problem(f"{here}.values", f"required with operator {each['operator']}", cause="Required")
        elif each.get("operator") in ("Gt", "Lt") and len(values) != 1:
            message = f"must have exactly 1 entry with operator {each['operator']}, got {len(values)}"
            yield Problem(f"{here}.values", message)
