"""Which flavor a pod may use: taints and labels (S-6.4)."""

from __future__ import annotations

from tests.model.facts import Raw


def tolerates(toleration: Raw, taint: Raw) -> bool:
    """Kubernetes: an empty key with Exists tolerates all, an empty effect all effects."""
    operator = toleration.get("operator") or "Equal"
    if toleration.get("effect") and toleration["effect"] != taint["effect"]:
        return False
    if not toleration.get("key"):
        return operator == "Exists"
    if toleration["key"] != taint["key"]:
        return False
    return operator == "Exists" or (toleration.get("value") or "") == (taint.get("value") or "")


def taints_tolerated(pod: Raw, flavor: Raw) -> bool:  # S-6.4a
    tolerations = (pod.get("tolerations") or []) + (flavor.get("tolerations") or [])
    hard = [t for t in flavor.get("nodeTaints") or [] if t["effect"] in ("NoSchedule", "NoExecute")]
    return all(any(tolerates(toleration, taint) for toleration in tolerations) for taint in hard)


def expression_holds(expression: Raw, labels: dict[str, str]) -> bool:  # S-6.4b
    value, wanted = labels.get(expression["key"]), expression.get("values") or []
    match expression["operator"]:
        case "In":
            return value in wanted
        case "NotIn":
            return value not in wanted
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt":
            return value is not None and _number(value) is not None and int(value) > int(wanted[0])
        case "Lt":
            return value is not None and _number(value) is not None and int(value) < int(wanted[0])
    raise ValueError(f"unknown operator {expression['operator']}")


def _number(text: str) -> int | None:
    try:
        return int(text)
    except ValueError:
        return None


def labels_match(pod: Raw, flavor: Raw) -> bool:  # S-6.4b
    labels: dict[str, str] = flavor.get("nodeLabels") or {}
    selector = pod.get("nodeSelector") or {}
    if any(labels[k] != v for k, v in selector.items() if k in labels):
        return False
    affinity = (pod.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    terms = required.get("nodeSelectorTerms") or []
    kept = [[e for e in term.get("matchExpressions") or [] if e["key"] in labels] for term in terms]
    if not kept or any(not term for term in kept):
        return True
    return any(all(expression_holds(e, labels) for e in term) for term in kept)


def may_use(pod: Raw, flavor: Raw) -> bool:  # S-6.4
    return taints_tolerated(pod, flavor) and labels_match(pod, flavor)
