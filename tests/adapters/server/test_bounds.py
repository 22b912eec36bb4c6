"""Work is bounded in advance: long selectors, patches that explode, objects that would be too large."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest

from makeway.adapters.server.changes.patches import COPIED_BYTES_MAX, PatchRefused, json_patch, strategic_merge
from makeway.adapters.server.resources.selectors import CHARS_MAX
from makeway.api.objects.kubernetes import ConfigMap
from makeway.api.validation.data import DATA_BYTES_MAX
from makeway.api.versions import kind_of
from makeway.runtime.ports import OBJECT_BYTES_MAX
from tests.adapters.server.serving import CONFIG_MAPS, CORE, Server, config_map, until

SECRETS = f"{CORE}/namespaces/default/secrets"
ROOT = Path(__file__).parents[3]
JSON_PATCH, MERGE_PATCH = "application/json-patch+json", "application/merge-patch+json"
STRATEGIC, APPLY = "application/strategic-merge-patch+json", "application/apply-patch+yaml"


# --- requests that ask for much ---------------------------------------------------------------------------------------


@pytest.mark.slow
def test_nothing_small_asks_for_much() -> None:
    """See ``bombs``: in a process with little time and memory for each."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.adapters.server.bombs"], capture_output=True, text=True, cwd=ROOT, check=False
    )
    assert done.stdout.splitlines()[-1:] == ["end"], f"{done.stdout.splitlines()[-1:]}\n{done.stderr[-2000:]}"


@pytest.mark.parametrize("name", ["fieldSelector", "labelSelector"])
@pytest.mark.parametrize("watch", ["false", "true"])
def test_a_long_selector_is_refused_by_its_length(viewer: httpx2.Client, name: str, watch: str) -> None:
    query = {name: " " * 60_000 + "y", "watch": watch}
    answer = viewer.get(CONFIG_MAPS, params=query)
    assert answer.status_code == 400
    assert answer.json()["message"] == f"{name}: 60001 characters, more than the {CHARS_MAX} allowed"


class Key(str):
    """A key that counts how often it is compared."""

    compared = 0

    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        Key.compared += 1
        return str.__eq__(self, other)


def test_fields_that_stay_are_looked_up_not_searched_for() -> None:
    names = [f"k{i}" for i in range(300)]
    Key.compared = 0
    change = {"data": {"$retainKeys": [Key(name) for name in names]}}
    kept = strategic_merge(kind_of(ConfigMap), "v1", {"data": dict.fromkeys(names, "v")}, change)
    assert len(kept["data"]) == 300
    assert Key.compared <= 2 * len(names)


def test_the_copies_of_a_patch_are_weighed_before_they_are_made() -> None:
    copy = {"op": "copy", "path": "/b", "from": "/a"}
    half = {"a": "x" * (COPIED_BYTES_MAX // 2 - 10)}
    assert json_patch(half, [copy, copy])["b"] == half["a"]
    with pytest.raises(
        PatchRefused, match=f"copies of this JSON patch add more than {COPIED_BYTES_MAX} bytes"
    ) as error:
        json_patch(half, [copy] * 3)
    assert error.value.code == 413


def test_a_place_in_a_patch_is_told_briefly() -> None:
    with pytest.raises(PatchRefused) as error:
        strategic_merge(kind_of(ConfigMap), "v1", {}, {"k" * 100_000: {"a" * 100_000: {"$patch": "odd"}}})
    assert error.value.message.endswith('….$patch: "odd" is none of merge, replace, delete')
    assert len(error.value.message) < 300


# --- objects that would be too large ---------------------------------------------------------------------------------


NODES = f"{CORE}/nodes"  # what they say of themselves is kept, whatever it is
MORE = "x" * 1_000_000


@dataclass(frozen=True)
class Grown:
    """A small or large change that makes an object too large."""

    says: str
    kind: str  # of the body
    change: Callable[[str], Any]
    part: str = ""
    query: str = ""


def node(name: str, **more: str) -> Any:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "spec": {"text": "x" * 900_000, **more}}


GROWN = [
    Grown("update", "application/json", lambda name: node(name, more=MORE)),
    Grown("merge patch", MERGE_PATCH, lambda name: {"spec": {"more": MORE}}),
    Grown("strategic merge", STRATEGIC, lambda name: {"spec": {"more": MORE}}),
    Grown("apply", APPLY, lambda name: node(name, more=MORE), query="?fieldManager=me&force=true"),
    Grown("JSON patch", JSON_PATCH, lambda name: [{"op": "add", "path": "/spec/more", "value": MORE}]),
    Grown("copy", JSON_PATCH, lambda name: [{"op": "copy", "path": "/spec/more", "from": "/spec/text"}]),
    Grown("status", MERGE_PATCH, lambda name: {"status": {"phase": MORE}}, part="/status"),
]


@pytest.mark.parametrize("case", GROWN, ids=lambda case: case.says)
def test_no_change_makes_an_object_too_large(admin: httpx2.Client, case: Grown) -> None:
    name = f"grown-{case.says.replace(' ', '-').lower()}"
    before = admin.post(NODES, json=node(name)).json()
    assert before["metadata"]["uid"], before
    path = f"{NODES}/{name}{case.part}"
    method = "PUT" if case.kind == "application/json" else "PATCH"
    body = json.dumps(case.change(name))
    answer = admin.request(method, path + case.query, content=body, headers={"content-type": case.kind})
    assert (answer.status_code, answer.json()["reason"]) == (413, "RequestEntityTooLarge"), answer.text[:300]
    message = answer.json()["message"]
    assert message.startswith(f'nodes "{name}" would have ')
    assert f"more than the {OBJECT_BYTES_MAX} that an object may have" in message
    assert admin.get(f"{NODES}/{name}").json() == before
    assert admin.delete(f"{NODES}/{name}").status_code == 200


def test_nothing_too_large_is_created(admin: httpx2.Client) -> None:
    answer = admin.post(NODES, json=node("large", more=MORE))
    assert (answer.status_code, answer.json()["reason"]) == (413, "RequestEntityTooLarge")
    assert answer.json()["details"] == {"name": "large", "kind": "nodes"}
    assert admin.post(f"{NODES}?dryRun=All", json=node("large", more=MORE)).status_code == 413
    assert admin.get(f"{NODES}/large").status_code == 404


@pytest.mark.parametrize(
    ("path", "tree"),
    [
        (CONFIG_MAPS, lambda name, size: config_map(name, data={"a": "x" * (size - 2), "b": "ä"})),
        (
            SECRETS,
            lambda name, size: {"metadata": {"name": name}, "stringData": {"a": "x" * size}, "data": {"a": "YQ=="}},
        ),
    ],
    ids=["a ConfigMap", "a Secret"],
)
def test_values_together_have_a_mebibyte(admin: httpx2.Client, path: str, tree: Callable[[str, int], Any]) -> None:
    assert admin.post(path, json=tree("full", DATA_BYTES_MAX)).status_code == 201
    answer = admin.post(path, json=tree("fuller", DATA_BYTES_MAX + 1))
    assert answer.status_code == 422
    (cause,) = answer.json()["details"]["causes"]
    assert (cause["field"], cause["reason"]) == ("data", "FieldValueTooLong")
    assert cause["message"].startswith(f"Too long: must have at most {DATA_BYTES_MAX} bytes, has {DATA_BYTES_MAX + 1}")
    for name in ("full", "fuller"):
        admin.delete(f"{path}/{name}")


def test_copies_of_a_megabyte_are_refused_at_once(admin: httpx2.Client, server: Server) -> None:
    assert admin.post(CONFIG_MAPS, json=config_map("big", data={"a": "x" * 1_000_000})).status_code == 201
    copies = [{"op": "copy", "path": f"/data/b{i}", "from": "/data/a"} for i in range(400)]
    answer = admin.patch(
        f"{CONFIG_MAPS}/big", content=json.dumps(copies), headers={"content-type": JSON_PATCH}
    )  # fmt: skip
    assert (answer.status_code, answer.json()["reason"]) == (413, "RequestEntityTooLarge")
    assert len(server.store.get(kind_of(ConfigMap), "default", "big").data) < 1_100_000


def test_the_first_thousand_problems_are_told(admin: httpx2.Client) -> None:
    answer = admin.post(CONFIG_MAPS, json=config_map("odd", data={f"k{i}": i for i in range(2_500)}))
    assert answer.status_code == 422
    assert len(answer.json()["details"]["causes"]) == 1000
    assert answer.json()["message"].endswith("] and 1500 more")


def test_a_namespace_says_in_few_bytes_what_it_waits_for(admin: httpx2.Client) -> None:
    """The finalizers of its objects have more bytes together than an object may have."""
    assert admin.post(f"{CORE}/namespaces", json={"metadata": {"name": "ending"}}).status_code == 201
    assert admin.post(f"{CORE}/namespaces", json={"metadata": {"name": "other"}}).status_code == 201
    path = f"{CORE}/namespaces/ending/configmaps"
    for i in range(3):
        names = [f"example.com/{'f' * 50}-{i}-{j}" for j in range(15_000)]
        assert admin.post(path, json=config_map(f"held-{i}", finalizers=names)).status_code == 201
    for name in ("ending", "other"):
        assert admin.delete(f"{CORE}/namespaces/{name}").status_code == 200

    def has_gone() -> bool:
        return admin.get(f"{CORE}/namespaces/other").status_code == 404

    until(has_gone)
    status = admin.get(f"{CORE}/namespaces/ending").json()["status"]
    assert [each["reason"] for each in status["conditions"]] == ["SomeResourcesRemain", "SomeFinalizersRemain"]
    for i in range(3):
        patch = admin.patch(
            f"{path}/held-{i}", json={"metadata": {"finalizers": None}}, headers={"content-type": MERGE_PATCH}
        )
        assert patch.status_code == 200
    until(lambda: admin.get(f"{CORE}/namespaces/ending").status_code == 404)
