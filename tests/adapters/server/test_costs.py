"""The cost of a request grows linearly with its size: every route, every part that can grow.

A row makes a request of size n. When n is doubled, and doubled again, the second increase may be at most twice the
first, plus a little for sorting; so the constant cost of any request hides nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from makeway.api.objects.kubernetes import ConfigMap
from makeway.api.versions import kind_of
from tests.adapters.server.costing import Asked, Cost, World, counted
from tests.adapters.server.serving import CONFIG_MAPS, CORE, QUEUEING, config_map, pod
from tests.soaking import SOAK_UNTIL, InTime

Tree = Any
KIND = kind_of(ConfigMap)
PODS = f"{CORE}/namespaces/default/pods"
SECRETS = f"{CORE}/namespaces/default/secrets"
JSON_PATCH, MERGE_PATCH = "application/json-patch+json", "application/merge-patch+json"
STRATEGIC, APPLY = "application/strategic-merge-patch+json", "application/apply-patch+yaml"
GROWTH_MAX = 2.3
SMALL = 32  # n of the first size
STEPS_FREE, BYTES_FREE = 400, 2_000  # less is not judged: a body that is read in a thread of its own
SECONDS_FREE = 0.05
SECONDS_GROWTH_MAX = 3.0  # what is large does not fit into caches; what is quadratic grows by four
TRIES = 8


@dataclass(frozen=True)
class Row:
    says: str
    ask: Callable[[World, int, str], Asked]  # n, and an unused name
    scale: int = 1  # n of this row is so many times larger
    large: int = 1500  # n for the measurement of time


# --- what there is already -------------------------------------------------------------------------------------------


def made(world: World, path: str, tree: Tree, **query: str) -> None:
    code, answer = world.do(Asked("POST", path, tree, query))
    assert code == 201, answer[:400]


def keys(n: int, value: Any = "v", prefix: str = "k") -> dict[str, Any]:
    return {f"{prefix}{i}": value for i in range(n)}


def containers(n: int, **more: Any) -> list[Tree]:
    return [{"name": f"c{i}", "image": "x", **more} for i in range(n)]


def owners(n: int) -> list[Tree]:
    return [{"apiVersion": "example.com/v1", "kind": "Thing", "name": f"o{i}", "uid": f"u{i}"} for i in range(n)]


def conditions(n: int) -> list[Tree]:
    return [{"type": f"T{i}", "status": "True"} for i in range(n)]


def record(n: int, fields: int = 1) -> list[Tree]:
    """A record of ownership: many managers, each with fields of its own."""
    common = {"operation": "Apply", "apiVersion": "v1", "time": "2026-01-01T00:00:00Z", "fieldsType": "FieldsV1"}
    return [
        {"manager": f"m{i}", "fieldsV1": {"f:data": keys(fields, {}, f"f:k{i * fields}x")}, **common} for i in range(n)
    ]


def config(name: str, n: int = 0, value: Any = "v", **more: Any) -> Tree:
    return config_map(name, data=keys(n, value), **more)


def one_key(name: str, n: int) -> Tree:
    return config(name, 1)


def with_record(world: World, name: str, n: int, **more: Any) -> str:
    """A ConfigMap of n keys, each with a manager of its own."""
    made(world, CONFIG_MAPS, config(name, n))
    entries = [{**each, "fieldsV1": {"f:data": {f"f:k{i}": {}}}, **more} for i, each in enumerate(record(n))]
    code, answer = world.do(Asked("PUT", f"{CONFIG_MAPS}/{name}", config(name, n, managedFields=entries)))
    assert code == 200, answer[:400]
    return f"{CONFIG_MAPS}/{name}"


# --- requests of size n ----------------------------------------------------------------------------------------------


def post(tree: Callable[[str, int], Tree], path: str = CONFIG_MAPS, code: int = 201, **query: str) -> Any:
    return lambda world, n, name: Asked("POST", path, tree(name, n), query, code=code)


def posted(text: Callable[[str, int], bytes], kind: str = "application/yaml", code: int = 201) -> Any:
    return lambda world, n, name: Asked("POST", CONFIG_MAPS, text(name, n), {}, kind, code)


def patch(
    kind: str, before: Callable[[str, int], Tree], change: Callable[[int], Tree], path: str = CONFIG_MAPS,
    code: int = 200, part: str = "", **query: str,
) -> Any:  # fmt: skip
    def ask(world: World, n: int, name: str) -> Asked:
        made(world, path, before(name, n))
        return Asked("PATCH", f"{path}/{name}{part}", change(n), query, kind, code)

    return ask


def get(path: str, code: int = 200, **query: Callable[[int], str]) -> Any:
    return lambda world, n, name: Asked("GET", path, None, {key: each(n) for key, each in query.items()}, "", code)


def put_owned(world: World, n: int, name: str) -> Asked:
    return Asked("PUT", with_record(world, name, n), config(name, n, "w"))


def apply_owned(world: World, n: int, name: str) -> Asked:
    query = {"fieldManager": "m0", "force": "true"}
    return Asked("PATCH", with_record(world, name, n), config(name, n, "w"), query, APPLY)


def apply_less(world: World, n: int, name: str) -> Asked:
    path = with_record(world, name, n)
    world.do(Asked("PATCH", path, config(name, n, "w"), {"fieldManager": "m0", "force": "true"}, APPLY))
    return Asked("PATCH", path, config(name, 1, "w"), {"fieldManager": "m0"}, APPLY)


def apply_conflicts(world: World, n: int, name: str) -> Asked:
    return Asked("PATCH", with_record(world, name, n), config(name, n, "w"), {"fieldManager": "x"}, APPLY, 409)


def update(tree: Callable[[str, int], Tree], after: Callable[[str, int], Tree], path: str = CONFIG_MAPS) -> Any:
    def ask(world: World, n: int, name: str) -> Asked:
        made(world, path, tree(name, n))
        return Asked("PUT", f"{path}/{name}", after(name, n))

    return ask


def owned_by(world: World, n: int, name: str) -> Asked:
    """The removal of an owner of n objects."""
    made(world, CONFIG_MAPS, config(name))
    uid = world.store.get(KIND, "default", name).uid
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": uid}
    for i in range(n):
        made(world, CONFIG_MAPS, config(f"{name}-{i}", ownerReferences=[owner]))
    return Asked("DELETE", f"{CONFIG_MAPS}/{name}")


def many_removed(world: World, n: int, name: str) -> Asked:
    for i in range(n):
        made(world, CONFIG_MAPS, config(f"{name}-{i}", labels={"set": name}))
    return Asked("DELETE", CONFIG_MAPS, None, {"labelSelector": f"set={name}"})


def deleted(world: World, n: int, name: str) -> Asked:
    made(world, CONFIG_MAPS, config(name, n, finalizers=[f"example.com/f{i}" for i in range(n)]))
    return Asked("DELETE", f"{CONFIG_MAPS}/{name}", {"propagationPolicy": "Foreground", **keys(n)})


def bound(world: World, n: int, name: str) -> Asked:
    made(world, PODS, pod(name))
    binding = {
        "apiVersion": "v1", "kind": "Binding", "metadata": {"name": name, "annotations": keys(n)},
        "target": {"kind": "Node", "name": "here"},
    }  # fmt: skip
    return Asked("POST", f"{PODS}/{name}/binding", binding, code=201)


def evicted(world: World, n: int, name: str) -> Asked:
    made(world, PODS, pod(name, labels={"app": name}))
    eviction = {
        "apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "annotations": keys(n)},
    }  # fmt: skip
    return Asked("POST", f"{PODS}/{name}/eviction", eviction, code=201)


def log_asked(world: World, n: int, name: str) -> Asked:
    made(world, PODS, pod(name))
    return Asked("GET", f"{PODS}/{name}/log", None, {"container": "c" * n, "tailLines": "9" * 18}, "", 400)


def op(name: str, path: str, value: Any = None, source: str = "") -> Tree:
    more = {"from": source} if source else {} if name == "remove" else {"value": value}
    return {"op": name, "path": path, **more}


def moves(n: int) -> list[Tree]:
    return [op("move", *(("/b", None, "/data") if i % 2 == 0 else ("/data", None, "/b"))) for i in range(n)]


def retained(n: int) -> Tree:
    return {"data": {"$retainKeys": list(keys(n)), **keys(n, "w")}}


def nested(n: int, depth: int = 60) -> Tree:
    tree: Tree = {"k" * n: keys(n)}
    for _ in range(depth):
        tree = {"k": tree}
    return tree


def spread(name: str, n: int) -> Tree:
    return pod(name, spec={"containers": containers(n)})


def env(n: int, value: str = "v") -> list[Tree]:
    return [{"name": f"E{i}", "value": value} for i in range(n)]


def yaml_of(lines: Callable[[int], str]) -> Callable[[str, int], bytes]:
    return lambda name, n: f"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\ndata:\n{lines(n)}".encode()


CREATES = [
    Row("keys", post(config)),
    Row("a long value", post(lambda name, n: config_map(name, data={"a": "x" * n})), 200, 200_000),
    Row("a long text to be escaped", post(lambda name, n: config_map(name, data={"a": '"\\\n' * n})), 100, 30_000),
    Row("annotations", post(lambda name, n: config(name, annotations=keys(n)))),
    Row("labels", post(lambda name, n: config(name, labels=keys(n)))),
    Row("owners", post(lambda name, n: config(name, ownerReferences=owners(n)))),
    Row("finalizers", post(lambda name, n: config(name, finalizers=[f"example.com/f{i}" for i in range(n)]))),
    Row("a record that is passed over", post(lambda name, n: config(name, managedFields=record(n)))),
    Row("keys, by somebody who names itself", post(config, fieldManager="me")),
    Row("unknown fields", post(lambda name, n: {**config(name), **keys(n)})),
    Row("unknown fields, strictly", post(
        lambda name, n: {**config(name), **keys(n)}, code=400, fieldValidation="Strict"
    )),
    Row("a long unknown field", post(lambda name, n: {**config(name), "k" * n: 1}), 50, 200_000),
    Row("many under a long unknown field", post(lambda name, n: {**config(name), "k" * n: keys(n)}), 1, 12_000),
    Row("values of wrong types", post(lambda name, n: config(name, n, 1), code=422)),
    Row("keys that are not taken", post(lambda name, n: config(name, annotations=keys(n, "v", " ")), code=422)),
    Row("a long name", post(lambda name, n: config("a." * n), code=422), 50, 100_000),
    Row("a long generateName", post(
        lambda name, n: {**config(""), "metadata": {"generateName": "a-" * n}}, code=422
    ), 50, 100_000),
    Row("data of a Secret", post(lambda name, n: {"metadata": {"name": name}, "data": keys(n, "YQ==")}, SECRETS)),
    Row("text of a Secret", post(lambda name, n: {"metadata": {"name": name}, "stringData": keys(n)}, SECRETS)),
    Row("containers", post(spread, PODS)),
    Row("containers, by somebody", post(spread, PODS, fieldManager="me")),
    Row("containers of one name", post(lambda name, n: pod(name, spec={"containers": containers(1) * n}), PODS, 422)),
    Row("variables", post(lambda name, n: pod(name, spec={"containers": containers(1, env=env(n))}), PODS)),
    Row("words", post(lambda name, n: pod(name, spec={"containers": containers(1, args=["x"] * n)}), PODS)),
    Row("tolerations", post(
        lambda name, n: pod(name, spec={"tolerations": [{"key": f"k{i}", "operator": "Exists"} for i in range(n)]}),
        PODS,
    )),
    Row("volumes", post(
        lambda name, n: pod(name, spec={"volumes": [{"name": f"v{i}", "emptyDir": {}} for i in range(n)]}), PODS
    )),
    Row("taints of a Node", post(
        lambda name, n: {
            "metadata": {"name": name}, "spec": {"taints": [{"key": f"k{i}", "effect": "NoSchedule"} for i in range(n)]}
        }, f"{CORE}/nodes",
    )),
    Row("a Job's template", post(
        lambda name, n: {"metadata": {"name": name}, "spec": {"template": {
            "metadata": {"labels": keys(n)}, "spec": {"restartPolicy": "Never", "containers": containers(n)},
        }}}, "/apis/batch/v1/namespaces/default/jobs",
    )),
    Row("flavors of a ClusterQueue", post(
        lambda name, n: {"metadata": {"name": name}, "spec": {"resourceGroups": [{
            "coveredResources": ["cpu"],
            "flavors": [{"name": f"f{i}", "resources": [{"name": "cpu", "nominalQuota": "1"}]} for i in range(n)],
        }]}}, f"{QUEUEING}/clusterqueues", 0,
    )),
    Row("podSets of a Workload", post(
        lambda name, n: {"metadata": {"name": name}, "spec": {"queueName": "q", "podSets": [
            {"name": f"p{i}", "count": 1, "template": {"spec": {"restartPolicy": "Never", "containers": containers(1)}}}
            for i in range(n)
        ]}}, f"{QUEUEING}/namespaces/default/workloads", 422,
    )),
    Row("a node selector", post(lambda name, n: pod(name, spec={"nodeSelector": keys(n)}), PODS)),
    Row("a long quantity", post(
        lambda name, n: pod(name, spec={"containers": containers(1, resources={"limits": {"cpu": "1" * n}})}), PODS, 0
    ), 20, 50_000),
    Row("YAML", posted(yaml_of(lambda n: "".join(f"  k{i}: v\n" for i in range(n))))),
    Row("YAML with aliases", posted(yaml_of(lambda n: "  a: &a v\n" + "".join(f"  k{i}: *a\n" for i in range(n))))),
    Row("YAML with keys set twice", posted(yaml_of(lambda n: "  a: v\n" * n))),
    Row("YAML of many documents", posted(lambda name, n: b"---\na: 1\n" * n, code=400)),
    Row("JSON with keys set twice", posted(
        lambda name, n: b'{"metadata": {"name": "%s"}, "data": {%s}}' % (name.encode(), b",".join([b'"a": "v"'] * n)),
        "application/json",
    )),
    Row("brackets", posted(lambda name, n: b"[" * n, "application/json", 400), 20, 100_000),
]  # fmt: skip
CHANGES = [
    Row("update of keys", update(config, lambda name, n: config(name, n, "w"))),
    Row("update of owners", update(config, lambda name, n: config(name, ownerReferences=owners(n)))),
    Row("update of containers", update(spread, lambda name, n: pod(name, spec={"containers": containers(n, image="y")}),
        PODS)),
    Row("update of what many own", put_owned),
    Row("JSON patch: additions", patch(
        JSON_PATCH, config, lambda n: [op("add", f"/data/x{i}", "v") for i in range(n)]
    )),
    Row("JSON patch: moves of a large map", patch(JSON_PATCH, config, moves)),
    Row("JSON patch: copies", patch(
        JSON_PATCH, one_key, lambda n: [op("copy", f"/data/x{i}", None, "/data/k0") for i in range(n)]
    )),
    Row("JSON patch: tests of a large value", patch(
        JSON_PATCH, config, lambda n: [op("test", "/data", keys(n)), op("add", "/data/a", "b")]
    )),
    Row("JSON patch: tests that fail", patch(
        JSON_PATCH, config, lambda n: [op("test", "/data/k0", "v")] * n + [op("test", "/data", "v")], code=422
    )),
    Row("JSON patch: a list from its front", patch(
        JSON_PATCH, lambda name, n: config(name, finalizers=[f"example.com/f{i}" for i in range(n)]),
        lambda n: [op("remove", "/metadata/finalizers/0")] * n,
    )),
    Row("JSON patch: a long path", patch(
        JSON_PATCH, one_key, lambda n: [op("test", "/a" * n, 1)], code=422
    ), 20, 100_000),
    Row("merge patch", patch(MERGE_PATCH, config, lambda n: {"data": keys(n, "w")})),
    Row("merge patch that removes", patch(MERGE_PATCH, config, lambda n: {"data": keys(n, None)})),
    Row("merge patch under a long key", patch(MERGE_PATCH, config, nested), 1, 12_000),
    Row("strategic merge", patch(STRATEGIC, config, lambda n: {"data": keys(n, "w")})),
    Row("strategic merge: fields that stay", patch(STRATEGIC, config, retained), 1, 4_000),
    Row("strategic merge: items by key", patch(
        STRATEGIC, spread, lambda n: {"spec": {"containers": containers(n, image="y")}}, PODS
    )),
    Row("strategic merge: an order", patch(
        STRATEGIC, spread, lambda n: {
            "spec": {"$setElementOrder/containers": containers(n), "containers": containers(n, image="y")}
        }, PODS,
    )),
    Row("strategic merge: values that go", patch(
        STRATEGIC, lambda name, n: config(name, finalizers=[f"example.com/f{i}" for i in range(n)]),
        lambda n: {"metadata": {"$deleteFromPrimitiveList/finalizers": [f"example.com/f{i}" for i in range(n)]}},
    )),
    Row("strategic merge: conditions", patch(
        STRATEGIC, lambda name, n: pod(name), lambda n: {"status": {"conditions": conditions(n)}}, PODS, part="/status"
    )),
    Row("strategic merge under a long key", patch(STRATEGIC, config, nested), 1, 12_000),
    Row("apply", patch(APPLY, config, lambda n: config_map("", data=keys(n, "w")), fieldManager="me", force="true")),
    Row("apply over many managers", apply_owned),
    Row("apply of less, over many managers", apply_less),
    Row("apply against many managers", apply_conflicts),
    Row("status", patch(
        MERGE_PATCH, lambda name, n: pod(name), lambda n: {"status": {"conditions": conditions(n)}}, PODS,
        part="/status",
    )),
    Row("binding", bound),
    Row("eviction", evicted),
    Row("removal", deleted),
    Row("removal of an owner", owned_by, 1, 100),
    Row("removal of a collection", many_removed, 1, 100),
]  # fmt: skip
READS = [
    Row("labels of a long text", get(CONFIG_MAPS, 400, labelSelector=lambda n: "a" * n), 60, 7_500),
    Row("labels of spaces", get(CONFIG_MAPS, labelSelector=lambda n: " " * n), 60, 7_500),
    Row("labels of brackets", get(CONFIG_MAPS, 400, labelSelector=lambda n: "(" * n), 60, 7_500),
    Row("labels, one of many", get(CONFIG_MAPS, labelSelector=lambda n: f"a in ({','.join(keys(n // 2))})"), 1, 40),
    Row("fields of spaces", get(CONFIG_MAPS, 400, fieldSelector=lambda n: " " * n + "y"), 60, 7_500),
    Row("fields of equal signs", get(CONFIG_MAPS, 400, fieldSelector=lambda n: "=" * n), 60, 7_500),
    Row("fields of backslashes", get(CONFIG_MAPS, 400, fieldSelector=lambda n: "\\" * n), 60, 7_500),
    Row("fields of commas", get(CONFIG_MAPS, fieldSelector=lambda n: "," * n), 60, 7_500),
    Row("many fields", get(CONFIG_MAPS, fieldSelector=lambda n: ",".join(["metadata.name!=a"] * (n // 2))), 1, 40),
    Row("watched fields", get(
        CONFIG_MAPS, 400, watch=lambda n: "true", fieldSelector=lambda n: "metadata.name=" + " " * n + "y,y"
    ), 60, 7_500),
    Row("a long token", get(CONFIG_MAPS, 400, **{"continue": lambda n: "A" * n}), 60, 7_500),
    Row("a long revision", get(CONFIG_MAPS, 400, resourceVersion=lambda n: "1" * n), 60, 7_500),
    Row("a long limit", get(CONFIG_MAPS, 400, limit=lambda n: "1" * n), 60, 7_500),
    Row("a log", log_asked, 60, 7_500),
]  # fmt: skip
ROWS = [*CREATES, *CHANGES, *READS]


def costs(world: World, row: Row, n: int, number: int) -> tuple[Cost, Cost, Cost]:
    sizes = (n, 2 * n, 4 * n)
    found = []
    for size in sizes:
        found.append(world.cost(row.ask(world, size, f"x{number}-{size}-{n}")))
        world.let_go()
    once, twice, again = found
    return once, twice, again


def too_much(found: Sequence[float], free: float, growth: float = GROWTH_MAX) -> bool:
    """Whether the second doubling added too much, compared with the first."""
    once, twice, again = found
    return again - twice > growth * max(twice - once, 0) + free


def assert_linear(rows: Sequence[Row], folder: Path) -> None:
    """Check counted steps and bytes."""
    wrong = []
    with counted(folder) as world:
        for number, row in enumerate(rows):
            world.do(row.ask(world, 4, f"x{number}"))  # anything that is made once is made now
            world.let_go()
            found = costs(world, row, SMALL * row.scale, number)
            if too_much([each.steps for each in found], STEPS_FREE):
                wrong.append(f"{row.says}: steps {[each.steps for each in found]}")
            if too_much([each.made for each in found], BYTES_FREE):
                wrong.append(f"{row.says}: bytes {[each.made for each in found]}")
    assert not wrong, "\n".join(wrong)


def assert_linear_in_time(rows: Sequence[Row], folder: Path, seed: int, in_time: InTime) -> None:
    """Steps inside a single call of C are not counted, so large requests are timed; the fastest try counts."""
    wrong = []
    with counted(folder, counts=False) as world:
        for number in in_time((seed + i) % len(rows) for i in range(len(rows))):
            row = rows[number]
            tries = []
            for attempt in range(TRIES):
                found = costs(world, row, row.large, number * TRIES + attempt)
                tries.append([each.seconds for each in found])
                best = [min(each) for each in zip(*tries, strict=True)]
                if not too_much(best, SECONDS_FREE, SECONDS_GROWTH_MAX):
                    break
            else:
                wrong.append(f"{row.says}: seconds {best}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.slow
def test_doubling_a_request_doubles_its_steps_and_bytes_at_most(tmp_path: Path) -> None:
    assert_linear(ROWS, tmp_path)


@pytest.mark.property
@pytest.mark.skipif(SOAK_UNTIL is None, reason="time is measured where there is time for it")
def test_doubling_a_request_doubles_its_time_at_most(tmp_path: Path, fuzz_seed: int, in_time: InTime) -> None:
    assert_linear_in_time(ROWS, tmp_path, fuzz_seed, in_time)
