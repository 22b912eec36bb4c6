"""Random requests: the server answers each of them, and stays intact."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import httpx2
import pytest

from makeway.adapters.server.http.limits import Limits
from makeway.adapters.server.http.routes import served
from makeway.adapters.server.storage.store import SqliteStore
from tests.adapters.server.raw import answered, request
from tests.adapters.server.serving import Server, clock, pod, running
from tests.soaking import InTime

AT_ONCE = 16
ROUND = 200
METHODS = (*("GET", "POST", "POST", "PUT", "PATCH", "PATCH") * 4, "DELETE", "DELETE", "HEAD", "OPTIONS")
GOOD_NAMES = ("a", "a", "b", "c")
NAMES = ("a", "b", "web", "x" * 253, "UPPER", "..", "%2e%2e", "a%2fb", "%00", "ü", "status", "", "0", "-")
NAMESPACES = ("default", "kube-public", "nowhere", "NO", "..")  # not the one that has the tokens
PARTS = ("status", "status", "log", "binding", "eviction", "finalize", "scale", "")
OFTEN = ("pods", "jobs", "configmaps", "localqueues", "workloads", "clusterqueues")
TYPES = (
    "application/json", "application/yaml", "application/merge-patch+json", "application/json-patch+json",
    "application/strategic-merge-patch+json", "application/apply-patch+yaml", "text/plain", "",
    "application/vnd.kubernetes.protobuf",
)  # fmt: skip
ACCEPTS = (
    "application/json", "application/json;as=Table;v=v1;g=meta.k8s.io", "application/yaml", "*/*", "image/png",
    "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io", "application/json;as=Table;v=v9", ";;;,,=",
)  # fmt: skip
QUERY = {
    "watch": ("1", "no", "x", "0"), "timeoutSeconds": ("1", "0", "-1", "x"), "limit": ("1", "0", "-5", "9" * 30),
    "continue": ("abc", "eyJ9", "", "%25%zz"), "resourceVersion": ("0", "1", "5", "99999", "x", "-1"),
    "resourceVersionMatch": ("Exact", "NotOlderThan", "x"), "labelSelector": ("a=b", "a in (b,", "!a", ",,", "a>1"),
    "fieldSelector": ("metadata.name=a", "x=y", "status.phase!=x", "=", "%5c"), "dryRun": ("All", "x"),
    "fieldManager": ("me", "", "%01%ff", "x" * 200), "force": ("true", "q"), "sendInitialEvents": ("true", "false"),
    "fieldValidation": ("Strict", "Warn", "Ignore", "x"), "allowWatchBookmarks": ("true", "false"),
    "propagationPolicy": ("Orphan", "Foreground", "x"), "gracePeriodSeconds": ("0", "-1", "x"), "follow": ("true",),
    "includeObject": ("None", "Object", "x"), "container": ("main", "other"), "tailLines": ("1", "-1"),
    "pretty": ("true",), "offset": ("1", "-1"), "sinceTime": ("x", "2026-01-01T00:00:00Z"),
}  # fmt: skip
JUNK: tuple[Any, ...] = (
    None, True, False, 0, -1, 2**31, 2**63, 2**64, 1e308, 0.1, "", "x", "x" * 300, "\0", "\ud800", [], {}, [[]],
    {"": ""}, [None], {"a": {"b": []}}, "2026-01-01T00:00:00Z", "10Gi", "-5", "../..", "$patch", {"$patch": "delete"},
)  # fmt: skip
TEMPLATE = {"spec": {
    "restartPolicy": "Never", "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}],
}}  # fmt: skip
SETS = [{"name": "main", "count": 1, "template": TEMPLATE}]
WORKLOAD = {"metadata": {"name": "w"}, "spec": {"queueName": "q", "podSets": SETS}}
BODIES: dict[str, dict[str, Any]] = {
    "localqueues": {"spec": {"clusterQueue": "x"}}, "configmaps": {"data": {"a": "b"}, "binaryData": {"c": "ZA=="}},
    "pods": pod("a"), "workloads": WORKLOAD, "cohorts": {"spec": {"parentName": "x"}},
    "clusterqueues": {"spec": {"cohortName": "x", "namespaceSelector": {}, "resourceGroups": [{
        "coveredResources": ["cpu"], "flavors": [{"name": "f", "resources": [{"name": "cpu", "nominalQuota": 1}]}]}]}},
    "jobs": {"spec": {"template": TEMPLATE}}, "secrets": {"stringData": {"a": "b"}, "data": {"c": "ZA=="}},
    "priorityclasses": {"value": 5, "globalDefault": False}, "resourceflavors": {"spec": {"nodeLabels": {"a": "b"}}},
    "poddisruptionbudgets": {"spec": {"selector": {"matchLabels": {"a": "b"}}, "minAvailable": "50%"}},
    "events": {"involvedObject": {"name": "x"}, "reason": "r", "lastTimestamp": "2026-01-01T00:00:00Z"},
    "leases": {"spec": {"holderIdentity": "x", "renewTime": "2026-01-01T00:00:00.000000Z"}},
    "limitranges": {"spec": {"limits": [{"type": "Container", "default": {"cpu": "1"}}]}},
    "runtimeclasses": {"handler": "h"}, "nodes": {"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}},
    "selfsubjectaccessreviews": {"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}},
    "workloadpriorityclasses": {"value": 7}, "admissionchecks": {"spec": {"controllerName": "x/y"}},
    "binding": {"target": {"name": "n", "kind": "Node"}}, "eviction": {"deleteOptions": {"gracePeriodSeconds": 0}},
    "options": {"kind": "DeleteOptions", "propagationPolicy": "Foreground", "preconditions": {"uid": "x"}},
    "status": {"status": {"phase": "Running", "conditions": [{"type": "Active", "status": "True", "reason": "r"}]}},
}  # fmt: skip
PATCHES: tuple[Any, ...] = (
    [{"op": "add", "path": "/metadata/labels", "value": {"a": "b"}}], [{"op": "remove", "path": "/spec"}],
    [{"op": "copy", "from": "", "path": "/spec/x"}], [{"op": "test", "path": "/a~1b", "value": 1}], [{"op": "move"}],
    {"metadata": {"labels": {"a": None}, "finalizers": ["x/y"]}}, {"spec": None}, {"metadata": None},
    {"spec": {"containers": [{"name": "main", "$patch": "delete"}]}}, {"$patch": "replace", "data": {}},
)  # fmt: skip


class Fuzz:
    """Requests from a seed: equal seeds give equal requests."""

    def __init__(self, seed: int) -> None:
        self._dice = random.Random(seed)
        often = [key for key in sorted(served()) if key[2] in OFTEN]
        self._kinds = [*sorted(served()), *often * 3]
        self._name = "a"  # that stands in the path

    def request(self) -> tuple[str, str, dict[str, str], bytes]:
        dice = self._dice
        method = dice.choice(METHODS)
        path, fits = self._path(method)
        asked = dice.sample(sorted(QUERY), dice.choice((0, 0, 0, 1, 2, 4)))
        query = "&".join(f"{name}={dice.choice(QUERY[name])}" for name in asked)
        if dice.random() < 0.2:
            headers = {"accept": dice.choice(ACCEPTS), "content-type": dice.choice(TYPES)}
        else:
            media = dice.choice(TYPES[2:6]) if method == "PATCH" else TYPES[0]
            headers = {"accept": dice.choice(ACCEPTS[:2]), "content-type": media}
            if media == TYPES[5] and dice.random() < 0.8:
                query += "&fieldManager=me"
        return method, f"{path}?{query}" if query else path, headers, self._body(method, fits)

    def _path(self, method: str) -> tuple[str, str]:
        """A path, and a matching kind of body."""
        dice = self._dice
        if dice.random() < 0.05:
            parts = ("api", "apis", "v1", "metrics", "openapi", "v2", "v3", "..", "x", "version")
            return "/" + "/".join(dice.choice(parts) for _ in range(dice.randint(1, 3))), ""
        key = dice.choice(self._kinds)
        kind, (group, version, plural) = served()[key], key
        is_odd = dice.random() < 0.15
        path = f"/apis/{group}/{version}" if group else f"/api/{version}"
        if kind.namespaced != (is_odd and dice.random() < 0.3):
            path += f"/namespaces/{dice.choice(NAMESPACES) if is_odd else 'default'}"
        path += f"/{plural}"
        if (method != "POST") if dice.random() < 0.9 else (method == "POST"):
            self._name = dice.choice(NAMES if is_odd else GOOD_NAMES)
            path += f"/{self._name}"
            if dice.random() < 0.25:
                part = dice.choice(PARTS)
                return f"{path}/{part}", part
        return path, plural

    def _body(self, method: str, fits: str) -> bytes:
        dice = self._dice
        if method in ("GET", "HEAD", "OPTIONS") or (method == "DELETE" and dice.random() < 0.7):
            return b""
        if method == "PATCH" and dice.random() < 0.5:
            body = json.loads(json.dumps(dice.choice(PATCHES)))
        else:
            fits = "options" if method == "DELETE" else fits if dice.random() < 0.95 else dice.choice(sorted(BODIES))
            name = self._name if method == "PUT" else dice.choice(GOOD_NAMES)
            body = {**json.loads(json.dumps(BODIES.get(fits, {}))), "metadata": {"name": name}}
        for _ in range(dice.choice((0, 0, 0, 1, 1, 2, 5))):
            body = self._changed(body)
        data = json.dumps(body).encode()
        if dice.random() < 0.05:
            at = dice.randrange(len(data) + 1)
            data = data[:at] + dice.randbytes(dice.randrange(4)) + data[at + dice.randrange(4) :]
        return data

    def _changed(self, tree: Any) -> Any:
        """A tree with something odd somewhere in it."""
        dice = self._dice
        if dice.random() < 0.15 or not isinstance(tree, dict | list) or not tree:
            return dice.choice(JUNK)
        if isinstance(tree, list):
            at = dice.randrange(len(tree))
            return [*tree[:at], self._changed(tree[at]), *tree[at + 1 :], *([tree[at]] if dice.random() < 0.2 else [])]
        key = dice.choice(sorted(tree))
        if dice.random() < 0.15:
            return {
                **tree,
                dice.choice(("x", "", "status", "metadata", "a.b", "$setElementOrder/x")): dice.choice(JUNK),
            }
        return {**tree, key: self._changed(tree[key])}


async def asked(client: httpx2.AsyncClient, requests: Iterable[tuple[str, str, dict[str, str], bytes]]) -> list[str]:
    """Send the requests; return what went wrong."""
    found: list[str] = []
    gate = asyncio.Semaphore(AT_ONCE)

    async def ask(method: str, path: str, headers: dict[str, str], body: bytes) -> None:
        async with gate:
            answer = await client.request(method, path, headers=headers, content=body)
        said = answer.text
        is_status = answer.status_code >= 400 and answer.headers["content-type"] == "application/json" and said
        if (answer.status_code == 500 and "PodDisruptionBudget" not in said) or "Traceback" in said:
            found.append(f"{method} {path} {headers} {body!r}: {answer.status_code} {said[:300]}")
        elif is_status and answer.json()["code"] != answer.status_code:
            found.append(f"{method} {path}: {said[:300]}")

    await asyncio.gather(*(ask(*each) for each in requests))
    return found


async def fuzzed(server: Server, rounds: Iterable[int]) -> list[str]:
    headers = {"authorization": f"Bearer {server.token}"}
    async with httpx2.AsyncClient(
        base_url=server.url,
        verify=server.trust,
        headers=headers,
        timeout=60,
        limits=httpx2.Limits(max_connections=AT_ONCE),
    ) as client:
        for seed in rounds:
            fuzz = Fuzz(seed)
            found = await asked(client, [fuzz.request() for _ in range(ROUND)])
            if found:
                return [f"seed {seed}", *found]
    return []


@pytest.mark.slow
@pytest.mark.property
def test_whatever_is_asked_there_is_an_answer(
    tmp_path: Path, fuzz_inputs: int, fuzz_seed: int, in_time: InTime
) -> None:
    rounds = max(1, fuzz_inputs // 4 // ROUND)
    seeds = in_time(range(fuzz_seed * 1_000_003, fuzz_seed * 1_000_003 + rounds))
    with running(tmp_path, limits=Limits(watch_seconds=1)) as server:
        assert asyncio.run(fuzzed(server, seeds)) == []
        with server.client() as client:
            assert client.get("/readyz").status_code == 200
        there = {each.uid for kind in set(served().values()) if kind.name != "Event" for each in _all(server, kind)}
    with SqliteStore(tmp_path / "makeway.db", clock) as store:  # what it took can be read again
        again = {each.uid for kind in set(served().values()) if kind.name != "Event" for each in store.list(kind).items}
    assert again == there


def _all(server: Server, kind: Any) -> Any:
    return server.store.list(kind).items


@pytest.mark.property
def test_bytes_that_are_nearly_http_get_an_answer_or_an_end(server: Server, fuzz_inputs: int, fuzz_seed: int) -> None:
    dice = random.Random(fuzz_seed)
    whole = request(server, "POST", "/api/v1/namespaces/default/configmaps?dryRun=All", b'{"metadata":{"name":"f"}}')
    for _ in range(max(20, fuzz_inputs // 50)):
        data = bytearray(whole)
        for _ in range(dice.randint(1, 6)):
            at = dice.randrange(len(data))
            data[at : at + dice.randrange(3)] = dice.randbytes(dice.randrange(3))
        code = answered(server, bytes(data) + b"\r\n\r\n" * 3, seconds=0.3)
        assert code == 0 or 200 <= code < 500, bytes(data)
    with server.client() as client:
        assert client.get("/healthz").status_code == 200
