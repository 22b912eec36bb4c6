"""Random values by the type of a field: within its limits, at them, and beyond; and objects with such values.

Much faster than hypothesis and without its shrinking: the fuzz test replays fewer steps instead. Equal dice give equal
draws. Values are harmless for a machine: commands end by themselves, probes ask this machine, nothing is mounted from
it, and a Job has few pods.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any

from makeway.api.schema.shapes import Field, Leaf, ListOf, MapOf, Record
from makeway.api.versions import Kind

Tree = Any
NAMES = ("a", "b", "c")
NAMESPACES = ("default", "default", "n1", "n2")
DEPTH_MAX = 7
BEYOND = 0.08  # of the values: not of the type
WORDS = (
    *NAMES, *NAMES, "", "x", "main", "default", "n1", "cpu", "memory", "pods", "example.com/gpu", "In", "in", "NotIn",
    "Exists", "DoesNotExist", "Gt", "Equal", "NoSchedule", "NoExecute", "True", "False", "Unknown", "true", "Always",
    "Never", "OnFailure", "kubernetes.io/hostname", "Pod", "Job", "batch/v1", "v1", "Running", "Succeeded", "Failed",
    "Ready", "Honor", "ScheduleAnyway", "DoNotSchedule", "DisruptionTarget", "50%", "1", "0.5", "kueue.x-k8s.io/a",
    "-", "A", "ü", "\u2028", "\x00", "a" * 63, "a" * 64, "a" * 253, "a" * 254, "b." * 40 + "b", "z" * 5000,
)  # fmt: skip
INTEGERS = (0, 0, 1, 1, 2, 3, 5, 60, -1, 2**31 - 1, 2**31, -(2**31), 2**53, 2**63 - 1, 2**63, -(2**63), 10**30)
QUANTITIES = (
    "0", "1", "1", "2", "500m", "100m", "1Gi", "1Mi", "-1", "1n", "0.1n", "9223372036854775807", "9223372036854775808",
    "1E", "100E", "1e18", "1e400", "1e-400", 1, 0, 2**63, "", "1 ", "1ki", "NaN", "8Ei", "-9223372036854775809",
)  # fmt: skip
DURATIONS = (
    "0s", "1s", "90s", "1h30m", "300ms", "1.5h", "600h", "876000h", "2562047h47m16.854775807s", "2562048h", "-1s", "1n",
    "", "1d", 60,
)  # fmt: skip
TIMES = (
    "2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z", "0001-01-01T00:00:00Z", "1969-12-31T23:59:59Z",
    "9999-12-31T23:59:59Z", "2100-01-01T00:00:00+14:00", "2026-02-30T00:00:00Z", "2026-01-01", "", None,
)  # fmt: skip
MICRO_TIMES = ("2026-01-01T00:00:00.000000Z", "9999-12-31T23:59:59.999999Z", "0001-01-01T00:00:00Z", "x", None)
LEAVES: Mapping[str, tuple[Tree, ...]] = {
    "string": WORDS, "boolean": (True, False), "int32": INTEGERS, "int64": INTEGERS,
    "number": (0, 1, -1, 0.5, 1e300, 2**64), "quantity": QUANTITIES, "duration": DURATIONS, "time": TIMES,
    "microTime": MICRO_TIMES, "intOrString": (0, 1, -1, "50%", "100%", "101%", "x", "", 2**31 - 1, 2**31),
    "bytes": ("YQ==", "", "AAAA", "YQ", "?"), "any": ({}, [], "x", 1, None, {"a": {"b": [1]}}),
}  # fmt: skip
TAME: Mapping[str, tuple[Tree, ...]] = {
    "string": (*NAMES, *NAMES, "x", "cpu", "Exists", "In", "True", "Never"), "boolean": (True, False),
    "int32": (0, 1, 2, 3, 60, 2**31 - 1), "int64": (0, 1, 2, 60, 2**31, 2**53), "number": (0, 1),
    "quantity": ("0", "1", "500m", "1Gi", "100E", "1n"), "duration": ("0s", "90s", "600h", "876000h"),
    "time": ("2026-01-01T00:00:00Z", "9999-12-31T23:59:59Z"), "microTime": MICRO_TIMES[:2],
    "intOrString": (0, 1, "50%", "100%"), "bytes": ("YQ==", "AAAA"), "any": ({}, "x"),
}  # fmt: skip
TAME_KEYS = (*NAMES, "cpu", "memory", "example.com/gpu")
OF_META = ("labels", "annotations", "finalizers", "ownerReferences")  # the others are the server's, or are the identity
JUNK: tuple[Tree, ...] = (None, True, 0, -1, 1.5, "", "x", [], {}, [None], {"a": None}, [[]], {"": ""}, 2**70)
KEYS = (*NAMES, "cpu", "memory", "example.com/gpu", "kueue.x-k8s.io/queue-name", "a/b/c", "", "A b", "k" * 64)
COMMANDS: tuple[Tree, ...] = (
    ["true"],
    ["true"],
    ["sleep", "0.1"],
    ["sleep", "600"],
    ["sh", "-c", "exit 3"],
    ["no-such-program"],
    [],
    [""],
)

BLOCKS = {"blockOwnerDeletion": True}

# Fields by their name, at any place: they keep a pod harmless, and refer to objects that may exist.
CHOSEN: Mapping[str, tuple[Tree, ...]] = {
    "command": COMMANDS, "args": ([], [], ["1"]), "host": ("127.0.0.1", "127.0.0.1", "", "nowhere.invalid"),
    "port": (1, 9, 0, 65535, 65536, -1, "http", "x"), "workingDir": ("", "/", "/nowhere", "x"),
    "hostPath": ({"path": "/nowhere", "type": "Directory"},), "terminationMessagePath": ("/dev/termination-log", ""),
    "parallelism": (0, 1, 2, 3, -1, 2**31), "completions": (0, 1, 2, 3, -1, 2**31), "backoffLimit": (0, 1, -1, 2**31),
    "backoffLimitPerIndex": (0, 1, -1, 2**31), "maxFailedIndexes": (0, 1, -1, 2**31),
    "uid": ("@uid", "@uid", "x", ""), "resourceVersion": ("@version", "@version", "", "1", "x"),
    "finalizers": (["example.com/hold"], ["example.com/hold", "example.com/more"], ["bad"], [], ["foregroundDeletion"]),
    "ownerReferences": (
        [{"apiVersion": "batch/v1", "kind": "Job", "name": "a", "uid": "@uid:batch/Job/a"}],
        [{"apiVersion": "v1", "kind": "ConfigMap", "name": "b", "uid": "@uid:/ConfigMap/b", **BLOCKS}],
        [{"apiVersion": "v1", "kind": "Pod", "name": "c", "uid": "@uid:/Pod/c", "controller": True}],
        [{"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": "gone"}], [{}],
    ),
    "deletionTimestamp": (None,), "generateName": ("", "g-", "G"), "managedFields": ([], None, [{}]),
    "kubeConfig": ({"location": "a", "locationType": "Secret"}, {"location": "", "locationType": "Path"}),
}  # fmt: skip


class Drawing:
    """Draws with the dice of one step: every second one stays within the limits of a type."""

    def __init__(self, dice: random.Random) -> None:
        self.dice = dice
        self.is_tame = dice.random() < 0.5

    def one(self, values: tuple[Tree, ...] | list[Tree]) -> Tree:
        return self.dice.choice(values)

    def chance(self, part: float) -> bool:
        return self.dice.random() < part

    # --- by shape ---

    def value(self, name: str, field: Field, depth: int = 0) -> Tree:
        """A value for a field of this name."""
        if name in CHOSEN:
            return self.one(CHOSEN[name])
        if not self.is_tame and self.chance(BEYOND):
            return self.one(JUNK)
        shape = field.shape
        if isinstance(shape, Leaf):
            return self._leaf(shape, field)
        if isinstance(shape, Record):
            return self._record(shape, depth + 1)
        return self._several(name, shape, field, depth + 1)

    def _leaf(self, shape: Leaf, field: Field) -> Tree:
        limit = field.limit
        if shape.allowed:
            wrong = (shape.allowed[-1].lower(), f"{shape.allowed[-1]}x", "")
            return self.one(shape.allowed if self.is_tame or self.chance(0.9) else wrong)
        if shape.name == "string" and limit.max_length is not None and self.chance(0.2):
            return "a" * (limit.max_length + (0 if self.is_tame else self.one((0, 0, 1))))
        if limit.least is not None and shape.name != "quantity" and self.chance(0.5):
            return limit.least + self.one((0, 1, 2) if self.is_tame else (-1, 0, 1))
        return self.one((TAME if self.is_tame else LEAVES)[shape.name])

    def _record(self, shape: Record, depth: int) -> Tree:
        needed = [
            name for name, each in shape.fields.items() if _is_needed(each) and (self.is_tame or not self.chance(0.03))
        ]
        free = [name for name in shape.fields if name not in needed]
        count = 0 if depth > DEPTH_MAX else min(len(free), self.one((0, 1, 1, 2, 3)))
        chosen = [*needed, *self.dice.sample(free, count)]
        found = {name: self.value(name, shape.fields[name], depth) for name in chosen}
        if not self.is_tame and self.chance(0.03):
            found["futureField"] = self.one(JUNK)
        return found

    def _several(self, name: str, shape: ListOf | MapOf, field: Field, depth: int) -> Tree:
        limit = field.limit
        most = 0 if depth > DEPTH_MAX else self.one((0, 1, 1, 2, 3))
        if limit.max_items is not None and self.chance(0.05):
            most = min(limit.max_items, 70) + self.one((0, 1))
        count = max(most, limit.min_items or 0)
        if isinstance(shape, MapOf):
            keys = TAME_KEYS if self.is_tame else KEYS
            return {self.one(keys): self.value("", shape.item, depth) for _ in range(count)}
        items = [self.value("", shape.item, depth) for _ in range(count)]
        return items + items[:1] if not self.is_tame and self.chance(0.05) else items

    # --- somewhere in an object ---

    def spot(self, shape: Record, within: tuple[str, ...] = ()) -> tuple[list[str | int], Tree]:
        """A random place in a kind, and a value for it. List items are named by a number."""
        path: list[str | int] = list(within)
        field = Field(shape)
        for name in within:
            assert isinstance(field.shape, Record)
            field = field.shape.fields[name]
        while True:
            inner = field.shape
            if isinstance(inner, Record) and (len(path) <= len(within) or self.chance(0.75)):
                name = self._step(inner, path)
                if not name:
                    break
                path.append(name)
                field = inner.fields[name]
                if name in CHOSEN:
                    break
            elif isinstance(inner, ListOf) and isinstance(inner.item.shape, Record) and self.chance(0.8):
                path.append(0)
                field = inner.item
            else:
                break
        named = next((each for each in reversed(path) if isinstance(each, str)), "")
        return path, self.value(named if path and path[-1] == named else "", field)

    def _step(self, shape: Record, path: list[str | int]) -> str:
        """The next field; "" if there is none. Metadata is similar in all kinds, so it is rarely chosen."""
        if path == ["metadata"] and not self.chance(0.1):
            return str(self.one(OF_META))
        names = [name for name in shape.fields if path or name not in ("apiVersion", "kind", "status")]
        if not path and len(names) > 1 and not self.chance(0.2):
            names.remove("metadata")
        return str(self.one(names)) if names else ""

    def changed(self, tree: Tree, shape: Record, times: int) -> Tree:
        """``tree`` with some values changed at random places."""
        for _ in range(times):
            tree = put(tree, *self.spot(shape))
        return tree


def _is_needed(field: Field) -> bool:
    return field.limit.required or bool(field.limit.min_items)


def put(tree: Tree, path: list[str | int], value: Tree) -> Tree:
    """A tree with ``value`` at ``path``, and all that is needed above it."""
    if not path:
        return value
    first, rest = path[0], path[1:]
    if isinstance(first, int):
        items = list(tree) if isinstance(tree, list) else []
        return [put(items[0] if items else None, rest, value), *items[1:]]
    whole = dict(tree) if isinstance(tree, dict) else {}
    return {**whole, first: put(whole.get(first), rest, value)}


# --- good objects to begin with ---------------------------------------------------------------------------------------


def container(draw: Drawing) -> Tree:
    command = draw.one((["true"], ["sleep", "0.1"], ["sleep", "600"], ["sh", "-c", "exit 3"]))
    return {
        "name": "c", "image": "none", "command": command,
        "resources": {"requests": {"cpu": draw.one(("100m", "500m", "1"))}},
    }  # fmt: skip


def pod_spec(draw: Drawing) -> Tree:
    return {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "containers": [container(draw)]}


def _quota(draw: Drawing) -> Tree:
    flavors = [
        {"name": name, "resources": [{"name": "cpu", "nominalQuota": draw.one((0, 1, 2, "3500m"))}]}
        for name in draw.dice.sample(NAMES, draw.one((1, 1, 2)))
    ]
    return [{"coveredResources": ["cpu"], "flavors": flavors}]


def _job(draw: Drawing) -> Tree:
    labels = {"kueue.x-k8s.io/queue-name": draw.one(NAMES)} if draw.chance(0.7) else {}
    spec = {"backoffLimit": 0, "parallelism": draw.one((0, 1, 1, 2)), "template": {"spec": pod_spec(draw)}}
    return {"metadata": {"labels": labels}, "spec": spec}


def _kueue_workload(draw: Drawing) -> Tree:
    pods = [{"name": "main", "count": draw.one((1, 1, 2, 5)), "template": {"spec": pod_spec(draw)}}]
    return {"spec": {"queueName": draw.one(NAMES), "priority": draw.one((0, 0, 5)), "podSets": pods}}


def _cluster_queue(draw: Drawing) -> Tree:
    spec: dict[str, Tree] = {"namespaceSelector": {}, "resourceGroups": _quota(draw)}
    if draw.chance(0.4):
        spec["preemption"] = {"withinClusterQueue": draw.one(("LowerPriority", "LowerOrNewerEqualPriority"))}
    return {"spec": spec}


def _check(draw: Drawing) -> Tree:
    return {"spec": {"controllerName": "example.com/check"}}


def _event(draw: Drawing) -> Tree:
    about = {"kind": "Pod", "name": draw.one(NAMES), "namespace": "@namespace"}
    return {"involvedObject": about, "reason": "R", "type": "Normal", "lastTimestamp": "2026-01-01T00:00:00Z"}


def _newer_event(draw: Drawing) -> Tree:
    return {
        "regarding": {"kind": "Pod", "name": draw.one(NAMES), "namespace": "@namespace"}, "reason": "R", "action": "A",
        "type": "Normal", "eventTime": "2026-01-01T00:00:00.000000Z", "reportingController": "example.com/c",
        "reportingInstance": "i",
    }  # fmt: skip


BASES: Mapping[tuple[str, str], Callable[[Drawing], Tree]] = {
    ("kueue.x-k8s.io", "ResourceFlavor"): lambda draw: {"spec": {}},
    ("kueue.x-k8s.io", "ClusterQueue"): _cluster_queue,
    ("kueue.x-k8s.io", "Cohort"): lambda draw: {"spec": {"parentName": draw.one(NAMES)}},
    ("kueue.x-k8s.io", "LocalQueue"): lambda draw: {"spec": {"clusterQueue": draw.one(NAMES)}},
    ("kueue.x-k8s.io", "Workload"): _kueue_workload,
    ("kueue.x-k8s.io", "WorkloadPriorityClass"): lambda draw: {"value": draw.one((0, 7))},
    ("kueue.x-k8s.io", "AdmissionCheck"): _check,
    ("kueue.x-k8s.io", "MultiKueueConfig"): lambda draw: {"spec": {"clusters": [draw.one(NAMES)]}},
    ("kueue.x-k8s.io", "MultiKueueCluster"): lambda draw: {
        "spec": {"clusterSource": {"kubeConfig": {"location": "a", "locationType": "Secret"}}}
    },
    ("scheduling.k8s.io", "Workload"): lambda draw: {
        "spec": {"podGroups": [{"name": "g", "policy": {"gang": {"minCount": draw.one((1, 2))}}}]}
    },
    ("", "Namespace"): lambda draw: {},
    ("", "Node"): lambda draw: {"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}},
    ("", "Pod"): lambda draw: {"spec": pod_spec(draw)},
    ("", "Secret"): lambda draw: {"data": {"a": "YQ=="}},
    ("", "ConfigMap"): lambda draw: {"data": {"a": "b"}},
    ("", "Event"): _event,
    ("events.k8s.io", "Event"): _newer_event,
    ("", "LimitRange"): lambda draw: {"spec": {"limits": [{"type": "Container", "default": {"cpu": "1"}}]}},
    ("batch", "Job"): _job,
    ("scheduling.k8s.io", "PriorityClass"): lambda draw: {"value": draw.one((0, 5))},
    ("policy", "PodDisruptionBudget"): lambda draw: {"spec": {"selector": {"matchLabels": {"a": "b"}}}},
    ("node.k8s.io", "RuntimeClass"): lambda draw: {"handler": "h"},
    ("coordination.k8s.io", "Lease"): lambda draw: {"spec": {"holderIdentity": "x"}},
}


def based(draw: Drawing, kind: Kind, version: str) -> Tree:
    """A valid object of a kind, or if none is listed here, one by its type alone."""
    base = BASES.get(kind.stored.key if version != kind.versions[0] else kind.key) or BASES.get(kind.stored.key)
    return base(draw) if base is not None and not draw.chance(0.05) else draw.value("", Field(kind.shape(version)))
