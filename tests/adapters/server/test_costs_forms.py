"""The cost of a request grows linearly in other forms too: bodies in protobuf, tables, metadata, and watches.

See ``test_costs``. A watch has a cost when others write: here one write is counted, from its request until all watches
have got it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from makeway.adapters.server.http.protobuf import MEDIA
from tests.adapters.server.costing import Asked, World
from tests.adapters.server.http.test_protobuf import field, varint
from tests.adapters.server.serving import CONFIG_MAPS, CORE, QUEUEING, pod
from tests.adapters.server.test_costs import (
    MERGE_PATCH,
    PODS,
    SECRETS,
    Row,
    assert_linear,
    assert_linear_in_time,
    conditions,
    config,
    containers,
    keys,
    made,
    owners,
    spread,
)
from tests.soaking import SOAK_UNTIL, InTime

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
METADATA = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
METADATA_LIST = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
JOBS = "/apis/batch/v1/namespaces/default/jobs"
WORKLOADS = f"{QUEUEING}/namespaces/default/workloads"
Message = bytes


# --- bodies in protobuf ----------------------------------------------------------------------------------------------


def envelope(kind: str, body: Message, version: str = "v1") -> Message:
    return b"k8s\0" + field(1, field(1, version.encode()) + field(2, kind.encode())) + field(2, body)


def pairs(number: int, n: int, value: bytes = b"v") -> Message:
    """A map of n keys."""
    return b"".join(field(number, field(1, b"k%d" % i) + field(2, value)) for i in range(n))


def named(name: str, more: Message = b"") -> Message:
    return field(1, field(1, name.encode()) + more)


def in_protobuf(
    kind: str, body: Callable[[str, int], Message], path: str = CONFIG_MAPS, code: int = 201, version: str = "v1"
) -> Any:
    return lambda world, n, name: Asked("POST", path, envelope(kind, body(name, n), version), {}, MEDIA, code)


def of_config(body: Callable[[str, int], Message], code: int = 201) -> Any:
    return in_protobuf("ConfigMap", body, code=code)


def of_pod(spec: Callable[[int], Message], code: int = 201) -> Any:
    return in_protobuf("Pod", lambda name, n: named(name) + field(2, spec(n)), PODS, code)


def container(number: int, more: Message = b"") -> Message:
    return field(2, field(1, b"c%d" % number) + field(2, b"x") + more)


def job_template(n: int) -> Message:
    whole = b"".join(container(i) for i in range(n)) + field(3, b"Never")
    return field(6, field(1, pairs(11, n)) + field(2, whole))


def update_in_protobuf(world: World, n: int, name: str) -> Asked:
    made(world, CONFIG_MAPS, config(name, n))
    return Asked("PUT", f"{CONFIG_MAPS}/{name}", envelope("ConfigMap", named(name) + pairs(2, n, b"w")), {}, MEDIA)


def deleted_in_protobuf(world: World, n: int, name: str) -> Asked:
    made(world, CONFIG_MAPS, config(name))
    options = envelope("DeleteOptions", field(5, b"All") * n + field(77, b"x" * n))
    return Asked("DELETE", f"{CONFIG_MAPS}/{name}", options, {}, MEDIA)


IN_PROTOBUF = [
    Row("keys", of_config(lambda name, n: named(name) + pairs(2, n))),
    Row("bytes", of_config(lambda name, n: named(name) + pairs(3, n, b"\xff" * 8))),
    Row("a long value", of_config(
        lambda name, n: named(name) + field(2, field(1, b"k") + field(2, b"x" * n))
    ), 200, 200_000),
    Row("annotations", of_config(lambda name, n: named(name, pairs(12, n)))),
    Row("labels", of_config(lambda name, n: named(name, pairs(11, n)))),
    Row("owners", of_config(lambda name, n: named(name, b"".join(
        field(13, field(5, b"example.com/v1") + field(1, b"Thing") + field(3, b"o%d" % i) + field(4, b"u%d" % i))
        for i in range(n)
    )))),
    Row("finalizers", of_config(
        lambda name, n: named(name, b"".join(field(14, b"example.com/f%d" % i) for i in range(n)))
    )),
    Row("a record that is passed over", of_config(lambda name, n: named(name, field(17, field(1, b"who")) * n))),
    Row("one key again and again", of_config(lambda name, n: named(name) + field(2, field(1, b"k")) * n)),
    Row("one text again and again", of_config(lambda name, n: field(1, field(1, b"not-this") * n) + named(name))),
    Row("metadata again and again", of_config(lambda name, n: named(name, pairs(12, 3)) * n)),
    Row("fields that nobody knows", of_config(lambda name, n: named(name) + field(900, b"x") * n)),
    Row("numbers that nobody knows", of_config(lambda name, n: named(name) + field(900, 2**63) * n)),
    Row("a number without an end", of_config(lambda name, n: named(name) + varint(900 << 3) + b"\xff" * n, 400), 50),
    Row("a text that is none", of_config(
        lambda name, n: named(name) + field(2, field(1, b"k") + field(2, b"\xff" * n)), 400
    ), 50, 200_000),
    Row("data of a Secret", in_protobuf("Secret", lambda name, n: named(name) + pairs(2, n), SECRETS)),
    Row("containers", of_pod(lambda n: b"".join(container(i) for i in range(n)))),
    Row("containers without anything", of_pod(lambda n: field(2, b"") * n, 422)),
    Row("variables", of_pod(lambda n: container(0, b"".join(
        field(7, field(1, b"E%d" % i) + field(2, b"v")) for i in range(n)
    )))),
    Row("words", of_pod(lambda n: container(0, field(4, b"x") * n))),
    Row("quantities", of_pod(lambda n: container(0, field(8, b"".join(
        field(2, field(1, b"example.com/r%d" % i) + field(2, field(1, b"1"))) for i in range(n)
    ))), 0)),
    Row("numbers, packed", of_pod(
        lambda n: container(0) + field(14, field(4, b"".join(varint(i) for i in range(n))))
    )),
    Row("tolerations", of_pod(lambda n: container(0) + b"".join(
        field(22, field(1, b"k%d" % i) + field(2, b"Exists")) for i in range(n)
    ))),
    Row("a Job's template", in_protobuf(
        "Job", lambda name, n: named(name) + field(2, job_template(n)), JOBS, version="batch/v1"
    )),
    Row("update of keys", update_in_protobuf),
    Row("options of a removal", deleted_in_protobuf),
]  # fmt: skip


# --- tables and metadata ---------------------------------------------------------------------------------------------


def shown(tree: Callable[[str, int], Any], path: str = CONFIG_MAPS, accept: str = TABLE, **query: str) -> Any:
    """One object of size n, in another form."""

    def ask(world: World, n: int, name: str) -> Asked:
        made(world, path, tree(name, n))
        return Asked("GET", f"{path}/{name}", None, query, "", accept=accept)

    return ask


def listed(tree: Callable[[str], Any], plural: str = "configmaps", accept: str = TABLE, **query: str) -> Any:
    """A list of n objects, in a namespace of their own."""

    def ask(world: World, n: int, name: str) -> Asked:
        made(world, f"{CORE}/namespaces", {"metadata": {"name": name}})
        path = f"{CORE}/namespaces/{name}/{plural}"
        for i in range(n):
            made(world, path, tree(f"o{i}"))
        return Asked("GET", path, None, query, "", accept=accept)

    return ask


def answered(accept: str) -> Any:
    """A write whose answer is in another form."""
    return lambda world, n, name: Asked("POST", CONFIG_MAPS, config(name, n), code=201, accept=accept)


def with_status(status: Callable[[int], Any], accept: str = TABLE) -> Any:
    def ask(world: World, n: int, name: str) -> Asked:
        made(world, PODS, pod(name))
        code, answer = world.do(Asked("PATCH", f"{PODS}/{name}/status", {"status": status(n)}, {}, MERGE_PATCH))
        assert code == 200, answer[:400]
        return Asked("GET", f"{PODS}/{name}", accept=accept)

    return ask


def ended(n: int) -> Any:
    """Containers that have restarted again and again."""
    state = {"terminated": {"exitCode": 1, "finishedAt": "2026-01-01T00:00:00Z"}}
    common = {"image": "x", "imageID": "", "ready": False, "restartCount": 3, "state": state, "lastState": state}
    return {"phase": "Failed", "containerStatuses": [{"name": f"c{i}", **common} for i in range(n)]}


def job(name: str, n: int) -> Any:
    spec = {"restartPolicy": "Never", "containers": containers(n)}
    return {"metadata": {"name": name}, "spec": {"template": {"metadata": {"labels": keys(n)}, "spec": spec}}}


def workload(name: str, n: int) -> Any:
    work = {"restartPolicy": "Never", "containers": containers(n)}
    pod_sets = [{"name": "main", "count": 1, "template": {"spec": work}}]
    return {"metadata": {"name": name, "labels": keys(n)}, "spec": {"queueName": "q", "podSets": pod_sets}}


def node(name: str, n: int) -> Any:
    return {"metadata": {"name": name, "labels": keys(n, "", "node-role.kubernetes.io/r")}}


FORMS = [
    Row("a table of ConfigMaps", listed(config), 1, 200),
    Row("a table of pods", listed(pod, "pods"), 1, 200),
    Row("a table of Secrets", listed(lambda name: {"metadata": {"name": name}}, "secrets"), 1, 200),
    Row("a table with whole objects", listed(config, includeObject="Object"), 1, 200),
    Row("a table with nothing of its objects", listed(config, includeObject="None"), 1, 200),
    Row("pages of a table", listed(config, limit="7"), 1, 200),
    Row("metadata of ConfigMaps", listed(config, accept=METADATA_LIST), 1, 200),
    Row("metadata of pods", listed(pod, "pods", accept=METADATA_LIST), 1, 200),
    Row("keys in a table", shown(config)),
    Row("keys in a table, whole", shown(config, includeObject="Object")),
    Row("annotations in a table", shown(lambda name, n: config(name, annotations=keys(n)))),
    Row("owners in a table", shown(lambda name, n: config(name, ownerReferences=owners(n)))),
    Row("a Secret in a table", shown(lambda name, n: {"metadata": {"name": name}, "stringData": keys(n)}, SECRETS)),
    Row("containers in a table", shown(spread, PODS)),
    Row("statuses in a table", with_status(ended)),
    Row("conditions in a table", with_status(lambda n: {"conditions": conditions(n)})),
    Row("addresses in a table", with_status(lambda n: {"podIPs": [{"ip": f"::{i:x}"} for i in range(n)]})),
    Row("a long reason in a table", with_status(lambda n: {"reason": "x" * n}), 50, 200_000),
    Row("a Job in a table", shown(job, JOBS)),
    Row("a Workload in a table", shown(workload, WORKLOADS)),
    Row("roles of a Node in a table", shown(node, f"{CORE}/nodes")),
    Row("keys, metadata alone", shown(config, accept=METADATA)),
    Row("annotations, metadata alone", shown(lambda name, n: config(name, annotations=keys(n)), accept=METADATA)),
    Row("a write, answered by a table", answered(TABLE)),
    Row("a write, answered by metadata", answered(METADATA)),
    Row("a long list of forms", lambda world, n, name: Asked(
        "GET", CONFIG_MAPS, None, {"limit": "1"}, "", 0, accept=",".join(["text/x;as=Table"] * n)
    ), 20, 7_500),
]  # fmt: skip


# --- watches ---------------------------------------------------------------------------------------------------------


def told_to(
    count: Callable[[int], int], size: Callable[[int], int], accept: str = "", hears: bool = True,
    selector: Callable[[int, int], dict[str, str]] = lambda n, i: {},
) -> Any:  # fmt: skip
    """A write of a ConfigMap with so many keys, which goes to so many watches; the i-th one has a selector.

    The last one has none, and gets it after all others.
    """

    def ask(world: World, n: int, name: str) -> Asked:
        since = {"watch": "true", "resourceVersion": world.store.resource_version}
        for query in [*(selector(n, i) for i in range(count(n))), {}]:
            watch = Asked("GET", CONFIG_MAPS, None, {**since, **query}, "", accept=accept)
            world.listen(watch, hears=hears or not query)
        return Asked("POST", CONFIG_MAPS, config(name, size(n)), code=201, told=b'"name":"%s"' % name.encode())

    return ask


def catching_up(world: World, n: int, name: str) -> Asked:
    """A watch that begins n writes ago, up to the last of them."""
    query = {"watch": "true", "resourceVersion": world.store.resource_version}
    for i in range(n):
        made(world, CONFIG_MAPS, config(f"{name}-{i}"))
    return Asked("GET", CONFIG_MAPS, None, query, "", told=b'"name":"%s-%d"' % (name.encode(), n - 1))


def terms(n: int) -> str:
    """Fewer than n: a selector may have at most a hundred keys and values."""
    return ",".join(f"k{i}!=v" for i in range(n // 3))


def many(n: int) -> int:
    return n


def few(n: int) -> int:
    return 4


WATCHES = [
    Row("watches, and a write", told_to(many, few), 1, 50),
    Row("watches of tables, and a write", told_to(many, few, TABLE), 1, 50),
    Row("watches of metadata, and a write", told_to(many, few, METADATA), 1, 50),
    Row("watches with a selector each, and a write", told_to(
        many, few, selector=lambda n, i: {"labelSelector": f"k{i}!=v"}
    ), 1, 50),
    Row("watches that it does not concern", told_to(
        many, few, hears=False, selector=lambda n, i: {"labelSelector": f"k{i}=v"}
    ), 1, 50),
    Row("watches of a name each", told_to(
        many, few, hears=False, selector=lambda n, i: {"fieldSelector": f"metadata.name=o{i}"}
    ), 1, 50),
    Row("a large object", told_to(few, many)),
    Row("a large object in a table", told_to(few, many, TABLE)),
    Row("metadata of a large object", told_to(few, many, METADATA)),
    Row("a long selector of labels", told_to(few, few, selector=lambda n, i: {"labelSelector": terms(n)}), 1, 30),
    Row("a long selector of fields", told_to(few, few, selector=lambda n, i: {
        "fieldSelector": ",".join([f"metadata.name!=o{i}"] * (n // 2))
    }), 1, 40),
    Row("what has happened since", catching_up, 1, 200),
]  # fmt: skip
ROWS = [*IN_PROTOBUF, *FORMS, *WATCHES]


@pytest.mark.slow
@pytest.mark.parametrize("rows", [IN_PROTOBUF, FORMS, WATCHES], ids=["bodies", "answers", "streams"])
def test_doubling_a_request_doubles_its_steps_and_bytes_at_most(rows: list[Row], tmp_path: Path) -> None:
    assert_linear(rows, tmp_path)


@pytest.mark.property
@pytest.mark.skipif(SOAK_UNTIL is None, reason="time is measured where there is time for it")
def test_doubling_a_request_doubles_its_time_at_most(tmp_path: Path, fuzz_seed: int, in_time: InTime) -> None:
    assert_linear_in_time(ROWS, tmp_path, fuzz_seed, in_time)
