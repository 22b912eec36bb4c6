"""Random operations of a client on the objects of a server: a step is made from its seed and number alone.

So steps can be left out without a change to the others. A value that is not known in advance, a uid or a
resourceVersion, stands in a step as a word that begins with ``@``, and is filled in when the step is sent.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from makeway.adapters.server.http.bodies import APPLY_PATCH, JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH
from makeway.adapters.server.http.routes import is_stored, parts_of, served
from makeway.api.schema.shapes import Record
from makeway.api.versions import Kind
from tests.end_to_end.drawing import NAMES, NAMESPACES, Drawing, Tree, based, put
from tests.end_to_end.lives import NODE

JSON = "application/json"
OFTEN = ("Pod", "Job", "Workload", "ClusterQueue", "LocalQueue", "ResourceFlavor", "ConfigMap", "Namespace")
OFTEN_WEIGHT = 4
POLICIES = ("", "", "Foreground", "Background", "Orphan")
MODES = ("", "", "Strict", "Warn", "Ignore")
HOLD = "example.com/hold"
MAKING = ("create", "apply")
TRIES = 6


@dataclass(frozen=True, slots=True)
class Operation:
    """One request, without the values that only the server knows."""

    verb: str  # create, json, merge, strategic, apply, status, update, delete, collection, call, release, get
    method: str
    kind: Kind
    version: str
    namespace: str  # "": of a kind without namespaces
    name: str  # "": all objects
    part: str = ""
    query: str = ""
    media: str = JSON
    body: str = ""  # JSON; "": none

    @property
    def path(self) -> str:
        root = f"/apis/{self.kind.group}/{self.version}" if self.kind.group else f"/api/{self.version}"
        where = f"/namespaces/{self.namespace}" if self.namespace else ""
        steps = [self.kind.plural, self.name, self.part]
        return f"{root}{where}/{'/'.join(each for each in steps if each)}"

    @property
    def target(self) -> str:
        return f"{self.path}{'?' if self.query else ''}{self.query}"

    @property
    def is_dry(self) -> bool:
        return "dryRun=All" in self.query

    def __str__(self) -> str:
        return f"{self.verb}: {self.method} {self.target} {self.media if self.body else ''} {self.body[:400]}"


@cache
def choices() -> tuple[list[tuple[Kind, str]], list[int]]:
    """The kinds in their versions, with their frequencies."""
    found = sorted(((kind, version) for (_, version, _), kind in served().items()), key=lambda each: each[0].key)
    weights = [
        OFTEN_WEIGHT if kind.name in OFTEN and version == kind.versions[0] and kind.view_of is None else 1
        for kind, version in found
    ]
    return found, weights


@dataclass(frozen=True, slots=True)
class _Aim:
    kind: Kind
    version: str
    namespace: str
    name: str

    @property
    def shape(self) -> Record:
        return self.kind.shape(self.version)

    def operation(self, verb: str, method: str, body: Tree = None, *, all_: bool = False, **more: str) -> Operation:
        text = "" if body is None else json.dumps(body)
        text = text.replace('"@namespace"', json.dumps(self.namespace))
        name = "" if all_ else self.name
        return Operation(verb, method, self.kind, self.version, self.namespace, name, body=text, **more)

    def whole(self, tree: Tree) -> Tree:
        """A tree with the identity of the object; no mapping stays as it is."""
        if not isinstance(tree, dict):
            return tree
        meta = tree.get("metadata")
        here = {"name": self.name, **({"namespace": self.namespace} if self.namespace else {})}
        named = {**meta, **here} if isinstance(meta, dict) else here
        return {**tree, "apiVersion": self.kind.served(self.version), "kind": self.kind.name, "metadata": named}


def drawn(seed: int, round_: int, step: int) -> Operation:
    """The target is mostly an object that an earlier step of the round has made."""
    draw, verb, aim = _begun(seed, round_, step)
    if verb not in MAKING:
        for _ in range(TRIES):
            _, earlier, there = _begun(seed, round_, draw.dice.randrange(step + 1))
            if earlier in MAKING and is_stored(there.kind):
                aim = there
                break
    return _MAKERS[verb](draw, aim)


def _begun(seed: int, round_: int, step: int) -> tuple[Drawing, str, _Aim]:
    draw = Drawing(random.Random(f"{seed}/{round_}/{step}"))
    kinds, weights = choices()
    kind, version = draw.dice.choices(kinds, weights)[0]
    verbs, of_verbs = (_VERBS, _VERB_WEIGHTS) if is_stored(kind) else (["create"], [1])
    verb = draw.dice.choices(verbs, of_verbs)[0]
    namespace = draw.one(NAMESPACES) if kind.namespaced else ""
    return draw, verb, _Aim(kind, version, namespace, _name(draw, kind))


def _name(draw: Drawing, kind: Kind) -> str:
    if kind.name == "Namespace":
        return str(draw.one(("n1", "n2", "n2", "a", "default")))
    if kind.name == "Node" and draw.chance(0.2):
        return NODE
    return str(draw.one(NAMES))


def _query(draw: Drawing, **more: str) -> str:
    terms = {**more, "fieldValidation": draw.one(MODES)}
    if draw.chance(0.03):
        terms["dryRun"] = "All"
    if draw.chance(0.1):
        terms["fieldManager"] = draw.one(("one", "two"))
    return "&".join(f"{name}={value}" for name, value in terms.items() if value)


def _new(draw: Drawing, aim: _Aim) -> Tree:
    tree = based(draw, aim.kind, aim.version)
    if isinstance(tree, dict):
        tree = draw.changed(tree, aim.shape, draw.one((0, 0, 0, 1, 1, 2, 4)))
    return aim.whole(tree)


def _create(draw: Drawing, aim: _Aim) -> Operation:
    return aim.operation("create", "POST", _new(draw, aim), all_=True, query=_query(draw))


def _update(draw: Drawing, aim: _Aim) -> Operation:
    """The body is the change of the present object: a path and a value."""
    if draw.chance(0.2):
        return aim.operation("update", "PUT", _new(draw, aim), query=_query(draw))
    spots = [draw.spot(aim.shape) for _ in range(draw.one((1, 1, 2)))]
    return aim.operation("update", "PUT", {"@spots": spots}, query=_query(draw))


def _sparse(draw: Drawing, aim: _Aim) -> Tree:
    body: Tree = {}
    for _ in range(draw.one((1, 1, 2, 3))):
        path, value = draw.spot(aim.shape)
        body = put(body, path, None if draw.chance(0.1) else value)
    return body


def _merge(draw: Drawing, aim: _Aim) -> Operation:
    return aim.operation("merge", "PATCH", _sparse(draw, aim), media=MERGE_PATCH, query=_query(draw))


def _strategic(draw: Drawing, aim: _Aim) -> Operation:
    if aim.kind.ours and not draw.chance(0.1):
        return _merge(draw, aim)  # only kinds of Kubernetes itself take such a patch
    body = _sparse(draw, aim)
    if draw.chance(0.3):
        directive = draw.one((
            {"$patch": "replace"}, {"$patch": "delete"}, {"$patch": "x"}, {"$retainKeys": ["containers", "a"]},
            {"$deleteFromPrimitiveList/finalizers": [HOLD]}, {"$setElementOrder/containers": [{"name": "c"}]},
        ))  # fmt: skip
        where = draw.one((["metadata"], ["spec"], ["spec", "template", "spec"]))
        for name, value in directive.items():
            body = put(body, [*where, name], value)
    return aim.operation("strategic", "PATCH", body, media=STRATEGIC_PATCH, query=_query(draw))


def _pointer(path: list[str | int]) -> str:
    return "".join("/" + str(each).replace("~", "~0").replace("/", "~1") for each in path)


def _json(draw: Drawing, aim: _Aim) -> Operation:
    steps = []
    for _ in range(draw.one((1, 1, 1, 2, 5))):
        path, value = draw.spot(aim.shape)
        cut = path[: draw.one((2, 2, 2, 3, 9))]
        for more in reversed(path[len(cut) :]):
            value = [value] if isinstance(more, int) else {more: value}
        other, _ = draw.spot(aim.shape)
        op = "add" if draw.chance(0.8) else draw.one(("replace", "remove", "copy", "move", "test"))
        steps.append({"op": op, "path": _pointer(cut), "from": _pointer(other[:2]), "value": value})
    return aim.operation("json", "PATCH", steps, media=JSON_PATCH, query=_query(draw))


def _apply(draw: Drawing, aim: _Aim) -> Operation:
    query = f"fieldManager={draw.one(('one', 'two', 'three'))}" + draw.one(("", "&force=true", "&force=true"))
    return aim.operation("apply", "PATCH", _new(draw, aim), media=APPLY_PATCH, query=query)


_CONDITIONS = ("Finished", "Admitted", "QuotaReserved", "Evicted", "Active", "Ready", "Complete", "PodsReady")


def _status(draw: Drawing, aim: _Aim) -> Operation:
    if "status" not in parts_of(aim.kind):
        return _merge(draw, aim)
    if draw.chance(0.25):
        condition = {
            "type": draw.one(_CONDITIONS), "status": draw.one(("True", "False")), "reason": "R", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }  # fmt: skip
        body: Tree = {"status": {"conditions": [condition]}}
    else:
        path, value = draw.spot(aim.shape, ("status",))
        body = put({}, path, value)
    media = draw.one((MERGE_PATCH, MERGE_PATCH, JSON_PATCH, MERGE_PATCH if aim.kind.ours else STRATEGIC_PATCH))
    if media == JSON_PATCH:
        body = [{"op": "add", "path": "/status", "value": body["status"]}]
    return aim.operation("status", "PATCH", body, part="status", media=media, query=_query(draw))


def _delete(draw: Drawing, aim: _Aim) -> Operation:
    body: dict[str, Tree] = {}
    if policy := draw.one(POLICIES):
        body["propagationPolicy"] = policy
    if draw.chance(0.3):
        body["gracePeriodSeconds"] = draw.one((0, 0, 1, -1, 2))
    if draw.chance(0.1):
        body["preconditions"] = {"uid": draw.one(("@uid", "@uid", "x"))}
    return aim.operation("delete", "DELETE", body or None)


def _collection(draw: Drawing, aim: _Aim) -> Operation:
    if not aim.namespace or draw.chance(0.5):
        return _delete(draw, aim)
    body = {"propagationPolicy": policy} if (policy := draw.one(POLICIES)) else None
    return aim.operation("collection", "DELETE", body, all_=True, query=draw.one(("", "labelSelector=a%3Db")))


def _release(draw: Drawing, aim: _Aim) -> Operation:
    body = {"metadata": {"finalizers": None}}
    return aim.operation("release", "PATCH", body, media=MERGE_PATCH)


def _call(draw: Drawing, aim: _Aim) -> Operation:
    """A request to an endpoint beside the objects of a kind."""
    parts = [each for each in parts_of(aim.kind) if each != "status"]
    if not parts:
        return _get(draw, aim)
    part = draw.one(parts)
    if part == "log":
        return aim.operation("get", "GET", part=part, query=draw.one(("", "tailLines=1", "limitBytes=1")))
    if part == "finalize":
        body = aim.whole({"spec": {"finalizers": draw.one(([], ["kubernetes"], ["x"]))}})
        return aim.operation("call", "PUT", body, part=part)
    about: Tree = {"target": {"kind": "Node", "name": draw.one((NODE, "a"))}} if part == "binding" else {}
    return aim.operation("call", "POST", {"metadata": {"name": aim.name}, **about}, part=part)


def _get(draw: Drawing, aim: _Aim) -> Operation:
    return aim.operation("get", "GET", all_=draw.chance(0.3))


_MAKERS: dict[str, Callable[[Drawing, _Aim], Operation]] = {
    "create": _create, "apply": _apply, "json": _json, "merge": _merge, "strategic": _strategic, "status": _status,
    "update": _update, "delete": _delete, "collection": _collection, "release": _release, "call": _call, "get": _get,
}  # fmt: skip
_VERBS = list(_MAKERS)
_VERB_WEIGHTS = [28, 10, 9, 10, 9, 10, 8, 10, 1, 4, 2, 2]
