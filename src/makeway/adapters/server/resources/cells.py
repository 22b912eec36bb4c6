"""The cells of a table for one object of a Kubernetes kind, and ages of times.

Each function takes an object as a tree and the time, and returns the cells of its columns (``tables``), also the wide
ones. Trees come from the store, so they have the right types; any field may be absent.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from makeway.api.quantity import Time
from makeway.api.reading.documents import Tree
from makeway.core.model import Millis

Cell = str | int | bool | None
NONE = "<none>"
UNKNOWN = "<unknown>"
INVALID = "<invalid>"
NOT_SET = "N/A"
_ROLE = "node-role.kubernetes.io/"
_SECOND = 1000
_DAY_HOURS = 24
_YEAR_DAYS = 365


def ago(millis: int) -> str:
    """Return a duration in kubectl's form: two units while the first is small, then one. Times slightly ahead count as
    now.
    """
    seconds = int(millis / _SECOND)  # towards zero
    if seconds < -1:
        return INVALID
    if seconds < 120:
        return f"{max(0, seconds)}s"
    minutes, hours = seconds // 60, seconds // 3600
    days, years = hours // _DAY_HOURS, hours // _DAY_HOURS // _YEAR_DAYS
    if minutes < 10:
        return _two(minutes, "m", seconds % 60, "s")
    if hours < 3:
        return f"{minutes}m"
    if hours < 8:
        return _two(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    if days < 8:
        return _two(days, "d", hours % _DAY_HOURS, "h")
    if days < 2 * _YEAR_DAYS:
        return f"{days}d"
    if years < 8:
        return _two(years, "y", days % _YEAR_DAYS, "d")
    return f"{years}y"


def _two(first: int, unit: str, second: int, smaller: str) -> str:
    return f"{first}{unit}{second}{smaller}" if second else f"{first}{unit}"


def age(text: Tree, now: Millis) -> str:
    """Return the age of a time of the API."""
    at = _millis(text)
    return UNKNOWN if at is None else ago(now - at)


def _millis(text: Tree) -> int | None:
    if not isinstance(text, str) or not text:
        return None
    try:
        return Time.parse(text).millis
    except ValueError:
        return None


def _created(tree: dict[str, Tree], now: Millis) -> str:
    return age(tree["metadata"].get("creationTimestamp"), now)


def _part(tree: Tree, *names: str) -> dict[str, Tree]:
    """Return a block inside a tree, empty if it is absent."""
    for name in names:
        tree = tree.get(name) if isinstance(tree, dict) else None
    return tree if isinstance(tree, dict) else {}


def _items(tree: dict[str, Tree], name: str) -> list[dict[str, Tree]]:
    found = tree.get(name)
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


def _holds(status: dict[str, Tree], type_: str) -> bool:
    return any(each.get("type") == type_ and each.get("status") == "True" for each in _items(status, "conditions"))


# --- small kinds -----------------------------------------------------------------------------------------------------


def created(tree: dict[str, Tree], now: Millis) -> Sequence[Cell]:
    """For a kind without columns of its own."""
    return [tree["metadata"]["name"], tree["metadata"].get("creationTimestamp", UNKNOWN)]


def namespace(tree: dict[str, Tree], now: Millis) -> Sequence[Cell]:
    return [tree["metadata"]["name"], _part(tree, "status").get("phase", "Active"), _created(tree, now)]


def secret(tree: dict[str, Tree], now: Millis) -> Sequence[Cell]:
    return [tree["metadata"]["name"], tree.get("type", ""), len(_part(tree, "data")), _created(tree, now)]


def config_map(tree: dict[str, Tree], now: Millis) -> Sequence[Cell]:
    entries = len(_part(tree, "data")) + len(_part(tree, "binaryData"))
    return [tree["metadata"]["name"], entries, _created(tree, now)]


def priority_class(tree: dict[str, Tree], now: Millis) -> Sequence[Cell]:
    is_default = bool(tree.get("globalDefault", False))
    policy = tree.get("preemptionPolicy", "PreemptLowerPriority")
    return [tree["metadata"]["name"], tree.get("value", 0), is_default, _created(tree, now), policy]


def disruption_budget(tree: dict[str, Tree], now: Millis) -> Sequence[Cell]:
    spec, status = _part(tree, "spec"), _part(tree, "status")
    bounds = [str(spec.get(name, NOT_SET)) for name in ("minAvailable", "maxUnavailable")]
    return [tree["metadata"]["name"], *bounds, status.get("disruptionsAllowed", 0), _created(tree, now)]


def runtime_class(tree: dict[str, Tree], now: Millis) -> Sequence[Cell]:
    return [tree["metadata"]["name"], tree.get("handler", ""), _created(tree, now)]


def lease(tree: dict[str, Tree], now: Millis) -> Sequence[Cell]:
    return [tree["metadata"]["name"], _part(tree, "spec").get("holderIdentity", ""), _created(tree, now)]


def event(tree: dict[str, Tree], now: Millis) -> Sequence[Cell]:
    first = age(tree.get("firstTimestamp") or tree.get("eventTime"), now)
    last = age(tree["lastTimestamp"], now) if tree.get("lastTimestamp") else first
    count = tree.get("count") or 1
    if series := _part(tree, "series"):
        last, count = age(series.get("lastObservedTime"), now), series.get("count", 0)
    involved, source = _part(tree, "involvedObject"), _part(tree, "source")
    component = source.get("component") or tree.get("reportingComponent", "")
    host = source.get("host") or tree.get("reportingInstance", "")
    return [
        last, tree.get("type", ""), tree.get("reason", ""),
        f"{involved.get('kind', '').lower()}/{involved.get('name', '')}", involved.get("fieldPath", ""),
        f"{component}, {host}" if host else component, tree.get("message", "").strip(), first, count,
        tree["metadata"]["name"],
    ]  # fmt: skip


# --- nodes and jobs --------------------------------------------------------------------------------------------------


def node(tree: dict[str, Tree], now: Millis) -> Sequence[Cell]:
    status, info = _part(tree, "status"), _part(tree, "status", "nodeInfo")
    known = [each.get("status") for each in _items(status, "conditions") if each.get("type") == "Ready"]
    words = ["Ready" if each == "True" else "NotReady" for each in known] or ["Unknown"]
    if _part(tree, "spec").get("unschedulable"):
        words.append("SchedulingDisabled")
    addresses = {each.get("type"): each.get("address") for each in reversed(_items(status, "addresses"))}
    return [
        tree["metadata"]["name"], ",".join(words), ",".join(sorted(set(_roles(tree)))) or NONE, _created(tree, now),
        info.get("kubeletVersion", ""), addresses.get("InternalIP") or NONE, addresses.get("ExternalIP") or NONE,
        *(info.get(name) or UNKNOWN for name in ("osImage", "kernelVersion", "containerRuntimeVersion")),
    ]  # fmt: skip


def _roles(tree: dict[str, Tree]) -> Iterator[str]:
    for label, value in _part(tree, "metadata", "labels").items():
        if label.startswith(_ROLE) and label != _ROLE:
            yield label.removeprefix(_ROLE)
        elif label == "kubernetes.io/role" and value:
            yield value


def job(tree: dict[str, Tree], now: Millis) -> Sequence[Cell]:
    spec, status = _part(tree, "spec"), _part(tree, "status")
    succeeded, parallelism = status.get("succeeded", 0), spec.get("parallelism", 1)
    if (completions := spec.get("completions")) is not None:
        done = f"{succeeded}/{completions}"
    else:
        done = f"{succeeded}/1 of {parallelism}" if parallelism > 1 else f"{succeeded}/1"
    begin, end = _millis(status.get("startTime")), _millis(status.get("completionTime"))
    duration = "" if begin is None else ago((now if end is None else end) - begin)
    containers = _items(_part(spec, "template", "spec"), "containers")
    return [
        tree["metadata"]["name"], _job_state(tree), done, duration, _created(tree, now),
        ",".join(container.get("name", "") for container in containers),
        ",".join(container.get("image", "") for container in containers),
        selector(_part(spec, "selector")),
    ]  # fmt: skip


def _job_state(tree: dict[str, Tree]) -> str:
    status = _part(tree, "status")
    for state in ("Complete", "Failed"):
        if _holds(status, state):
            return state
    if tree["metadata"].get("deletionTimestamp"):
        return "Terminating"
    for state in ("Suspended", "FailureTarget", "SuccessCriteriaMet"):
        if _holds(status, state):
            return state
    return "Running"


def selector(tree: dict[str, Tree]) -> str:
    """Return a label selector in one line."""
    labels = [f"{key}={value}" for key, value in _part(tree, "matchLabels").items()]
    for each in _items(tree, "matchExpressions"):
        key, operator, values = each.get("key", ""), each.get("operator"), ",".join(sorted(each.get("values", ())))
        match operator:
            case "In" | "NotIn":
                labels.append(f"{key} {operator.lower()} ({values})")
            case "Exists":
                labels.append(key)
            case "DoesNotExist":
                labels.append(f"!{key}")
    return ",".join(sorted(labels)) or NONE


# --- pods ------------------------------------------------------------------------------------------------------------


def pod(tree: dict[str, Tree], now: Millis) -> Sequence[Cell]:
    spec, status = _part(tree, "spec"), _part(tree, "status")
    beside = {each.get("name") for each in _items(spec, "initContainers") if each.get("restartPolicy") == "Always"}
    total = len(_items(spec, "containers")) + len(beside)
    starting, ready, restarts, last = _init_state(spec, status, beside)
    reason = starting or _unstarted(status)
    if not starting or _holds(status, "Initialized"):
        running, more_restarts, last = _main_state(status, last)
        restarts = more_restarts + sum(
            each.get("restartCount", 0) for each in _items(status, "initContainerStatuses") if each["name"] in beside
        )
        ready += sum(1 for each in _items(status, "containerStatuses") if _is_up(each))
        reason = running or reason
    if tree["metadata"].get("deletionTimestamp") and status.get("phase") not in ("Succeeded", "Failed"):
        reason = "Unknown" if status.get("reason") == "NodeLost" else "Terminating"
    again = f"{restarts} ({ago(now - last)} ago)" if restarts and last is not None else str(restarts)
    return [
        tree["metadata"]["name"], f"{ready}/{total}", reason, again, _created(tree, now), _pod_ip(status) or NONE,
        spec.get("nodeName") or NONE, status.get("nominatedNodeName") or NONE, _gates(spec, status),
    ]  # fmt: skip


def _unstarted(status: dict[str, Tree]) -> str:
    """Return the state of a pod before its containers are considered."""
    for each in _items(status, "conditions"):
        if each.get("type") == "PodScheduled" and each.get("reason") == "SchedulingGated":
            return "SchedulingGated"
    return str(status.get("reason") or status.get("phase", "Pending"))


def _init_state(spec: dict[str, Tree], status: dict[str, Tree], beside: set[Tree]) -> tuple[str, int, int, int | None]:
    """Return the state of the init containers ("": done), the number of sidecars, restarts, and the time of the last
    one.
    """
    ready, restarts, last = 0, 0, None
    for i, each in enumerate(_items(status, "initContainerStatuses")):
        restarts += each.get("restartCount", 0)
        last = _latest(last, each)
        ended, waiting = _part(each, "state").get("terminated"), _part(each, "state", "waiting").get("reason")
        if ended is not None and ended.get("exitCode", 0) == 0:
            continue
        if each["name"] in beside and each.get("started"):
            ready += bool(each.get("ready"))
            continue
        if ended is not None:
            return f"Init:{_ending(ended)}", ready, restarts, last
        if waiting and waiting != "PodInitializing":
            return f"Init:{waiting}", ready, restarts, last
        return f"Init:{i}/{len(_items(spec, 'initContainers'))}", ready, restarts, last
    return "", ready, restarts, last


def _main_state(status: dict[str, Tree], last: int | None) -> tuple[str, int, int | None]:
    """Return the state of the containers ("": nothing special), their restarts, and the time of the last one."""
    reason, restarts = "", 0
    statuses = _items(status, "containerStatuses")
    for each in reversed(statuses):  # the first one wins
        restarts += each.get("restartCount", 0)
        last = _latest(last, each)
        ended, waiting = _part(each, "state").get("terminated"), _part(each, "state", "waiting").get("reason")
        if waiting:
            reason = waiting
        elif ended is not None:
            reason = _ending(ended)
    if reason == "Completed" and any(map(_is_up, statuses)):
        reason = "Running" if _holds(status, "Ready") else "NotReady"
    return reason, restarts, last


def _ending(ended: dict[str, Tree]) -> str:
    if ended.get("reason"):
        return str(ended["reason"])
    return f"Signal:{ended['signal']}" if ended.get("signal") else f"ExitCode:{ended.get('exitCode', 0)}"


def _is_up(each: dict[str, Tree]) -> bool:
    return bool(each.get("ready")) and _part(each, "state").get("running") is not None


def _latest(last: int | None, each: dict[str, Tree]) -> int | None:
    at = _millis(_part(each, "lastState", "terminated").get("finishedAt"))
    return last if at is None else at if last is None else max(at, last)


def _pod_ip(status: dict[str, Tree]) -> str:
    several = _items(status, "podIPs")
    return str(several[0].get("ip", "")) if several else str(status.get("podIP", ""))


def _gates(spec: dict[str, Tree], status: dict[str, Tree]) -> str:
    gates = [each.get("conditionType", "") for each in _items(spec, "readinessGates")]
    return f"{sum(_holds(status, gate) for gate in gates)}/{len(gates)}" if gates else NONE
