"""Small requests that ask for much work, run one after the other: ``python -m tests.adapters.server.bombs``.

They run in a process of its own with limited memory and time, so that a failure affects no other test. Each prints its
name before it begins; the last printed name is the one that failed.
"""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from makeway.adapters.server.changes.field_ownership import ApplyConflict, applied, noted
from makeway.adapters.server.changes.patches import PatchRefused, json_patch, strategic_merge
from makeway.adapters.server.http.bodies import read_json, read_yaml
from makeway.adapters.server.http.statuses import RequestRefused
from makeway.adapters.server.resources.selectors import CHARS_MAX, field_selector, label_selector
from makeway.api import codec
from makeway.api.forms import is_label_value, is_qualified, is_subdomain
from makeway.api.objects.kubernetes import ConfigMap, Pod
from makeway.api.quantity import Duration, Quantity, Time
from makeway.api.versions import kind_of
from makeway.runtime.ports import Invalid

CONFIG, POD = kind_of(ConfigMap), kind_of(Pod)
SECONDS_EACH = 3  # of CPU time; each takes a tenth of that, where it once took 9 to 30
MEMORY = 1_500_000_000
NOW = Time.parse("2026-01-01T00:00:00Z")
LONG = 1_000_000


def keys(n: int, value: Any = "v") -> dict[str, Any]:
    return {f"k{i}": value for i in range(n)}


def op(name: str, path: str, **more: Any) -> dict[str, Any]:
    return {"op": name, "path": path, **more}


def moves() -> None:
    there, back = op("move", "/b", **{"from": "/data"}), op("move", "/data", **{"from": "/b"})
    json_patch({"data": keys(40_000)}, [there, back] * 5_000)


def copies() -> None:
    json_patch({"a": "x" * LONG}, [op("copy", f"/{i}", **{"from": "/a"}) for i in range(400)])


def doubled_copies() -> None:
    json_patch({"l": [1, 2]}, [op("copy", "/l/-", **{"from": "/l"})] * 90)


def shifts() -> None:
    json_patch({}, [op("add", "/l", value=[0] * LONG), *[op("add", "/l/0", value=0)] * 9_999])


def deeper_moves() -> None:
    """No single operation is deep, only the result of all of them."""
    into = [op("add", "/w", value={}), op("move", "/w/a", **{"from": "/a"}), op("move", "/a", **{"from": "/w"})]
    json_patch({"a": {}}, into * 3_333)


def retained() -> None:
    strategic_merge(CONFIG, "v1", {"data": keys(40_000)}, {"data": {"$retainKeys": list(keys(40_000))}})


def long_path() -> None:
    strategic_merge(CONFIG, "v1", {}, {"k" * 1_500_000: keys(150_000)})


def ordered() -> None:
    items = [{"name": f"c{i}"} for i in range(20_000)]
    change = {"spec": {"containers": items[::-1], "$setElementOrder/containers": items[::-1]}}
    strategic_merge(POD, "v1", {"spec": {"containers": items}}, change)


def record(n: int, **fields: Any) -> list[Any]:
    common = {"operation": "Apply", "apiVersion": "v1", "time": "", "fieldsType": "FieldsV1"}
    return [{"manager": f"m{i}", "fieldsV1": {"f:data": {f"f:k{i}": {}}, **fields}, **common} for i in range(n)]


def config(n: int, value: str = "v", **more: Any) -> Any:
    metadata = {"name": "a", "namespace": "default", **more}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": keys(n, value)}


def applied_over_many() -> None:
    live = config(8_000, managedFields=record(8_000))
    applied(CONFIG, "v1", live, config(8_000, "w"), manager="m0", force=True, now=NOW)


def refused_by_many() -> None:
    live = config(8_000, managedFields=record(8_000))
    applied(CONFIG, "v1", live, config(8_000, "w"), manager="x", force=False, now=NOW)


def one_writer_in_pieces() -> None:
    pieces = [{**each, "manager": "m"} for each in record(15_000)]
    noted(CONFIG, "v1", config(1), config(1, "w", managedFields=pieces), manager="x", now=NOW)


def long_steps() -> None:
    """Conflicts at paths, each as long as the longest key of a list."""
    item = {"name": "c" * 400_000, "env": [{"name": f"E{i}", "value": "v"} for i in range(5_000)]}
    tree = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {"containers": [item]}}
    live = applied(POD, "v1", None, tree, manager="m", force=False, now=NOW)
    other = {**item, "env": [{**each, "value": "w"} for each in item["env"]]}  # type: ignore[dict-item]
    applied(POD, "v1", live, {**tree, "spec": {"containers": [other]}}, manager="x", force=False, now=NOW)


TEXTS = ["a", "a.", "a-", "-", " ", ".", "=", "!", "\\", ",", "(", "[", '"', "0", "1", "9.", "e", "$(", "a/", "\t", "é"]
READERS: dict[str, Callable[[str], object]] = {
    "fields": lambda text: field_selector(text, CONFIG, "v1", 100),
    "labels": lambda text: label_selector(text, 100),
    "a qualified name": is_qualified,
    "a label's value": is_label_value,
    "a name": is_subdomain,
    "a quantity": Quantity.parse,
    "a duration": Duration.parse,
    "a time": Time.parse,
    "JSON": lambda text: read_json(text.encode()),
    "a text in JSON": lambda text: read_json(f'{{"a":"{text}'.encode()),
    "YAML": lambda text: read_yaml(text.encode()),
    "a value in YAML": lambda text: read_yaml(f"a: {text}".encode()),
    "a pattern": lambda text: codec.read(config(0, name=text, labels={text: text})),
}


def texts(read: Callable[[str], object], most: int) -> None:
    for each in TEXTS:
        for end in ("", "y", "\0"):
            with suppress(ValueError, RequestRefused, Invalid):
                read(each * (most // len(each) - 1) + end)


BOMBS: dict[str, Callable[[], object]] = {
    "moves of a large map": moves,
    "copies of a long text": copies,
    "copies that double": doubled_copies,
    "shifts of a long list": shifts,
    "moves that nest": deeper_moves,
    "fields that stay": retained,
    "a long key": long_path,
    "an order": ordered,
    "apply over many managers": applied_over_many,
    "apply against many managers": refused_by_many,
    "one writer in pieces": one_writer_in_pieces,
    "conflicts at long paths": long_steps,
    **{
        f"long texts as {name}": partial(texts, read, CHARS_MAX if name in ("fields", "labels") else 100_000)
        for name, read in READERS.items()
    },
}


def main() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    for name, bomb in BOMBS.items():
        sys.stdout.write(f"{name}\n")
        sys.stdout.flush()
        began = time.process_time()
        resource.setrlimit(resource.RLIMIT_CPU, (int(began) + 1 + SECONDS_EACH, resource.RLIM_INFINITY))
        with suppress(PatchRefused, ApplyConflict, Invalid):
            bomb()
        if "-v" in sys.argv:
            sys.stdout.write(f"    {time.process_time() - began:.2f} s\n")
    sys.stdout.write("end\n")


if __name__ == "__main__":
    main()
