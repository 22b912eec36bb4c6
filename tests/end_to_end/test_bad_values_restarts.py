"""A server that got bad values of a kind goes on, and is ready again after a kill.

``make test`` tries some values of every kind, with a restart after each kind; a soak restarts after each accepted
value.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import pytest

from makeway.api.objects.configuration import Configuration
from makeway.api.reading.documents import Tree
from makeway.api.versions import KINDS, Kind
from makeway.testing.bad_values import FieldPlace, bad_values, places, planted
from tests.controllers.pod_world import node, queues
from tests.end_to_end.forked_server import ForkedServer, forked_server
from tests.end_to_end.taking_in import REQUESTS
from tests.soaking import SOAK_UNTIL, InTime

EACH = 12  # values of a kind between two restarts
STORED = [kind for kind in KINDS if kind.name not in REQUESTS and kind.type is not Configuration]


def address(kind: Kind, version: str, name: str = "", part: str = "") -> str:
    group = f"/apis/{kind.group}/{version}" if kind.group else f"/api/{version}"
    space = "/namespaces/default" if kind.namespaced else ""
    return "/".join(each for each in (f"{group}{space}/{kind.plural}", name, part) if each)


@cache
def cases(kind: Kind) -> Sequence[tuple[FieldPlace, Tree]]:
    """In random order, but a few of closed sets come first."""
    found = [(place, value) for each in kind.versions for place in places(kind, each) for value in bad_values(place)]
    random.Random(0).shuffle(found)
    closed = [(place, value) for place, value in found if place.field.limit.words and value == "Bogus"]
    return [*closed[: EACH // 2], *found]


def give(server: ForkedServer, place: FieldPlace, value: Tree, number: int) -> bool:
    """Whether the server accepted it; a refusal must be the client's fault."""
    tree = planted(place, value)
    meta = tree["metadata"]
    if isinstance(meta, dict) and meta.get("name") == "bad":
        meta["name"] = f"bad-{number}"
    answer = server.client.post(address(place.kind, place.version), content=json.dumps(tree))
    if answer.status_code == 201 and place.is_status:
        shown = {**answer.json(), "status": tree["status"]}
        shown["metadata"].pop("resourceVersion")
        path = address(place.kind, place.version, shown["metadata"]["name"], "status")
        answer = server.client.put(path, content=json.dumps(shown))
    assert answer.status_code < 500, f"{place}: {value!r}: {answer.text}"
    return answer.status_code < 300


def prepare(server: ForkedServer) -> None:
    for tree in (node(), *queues(50)):
        kind = next(each for each in KINDS if each.name == tree["kind"])
        answer = server.client.post(address(kind, kind.versions[0]), json=tree)
        assert answer.status_code == 201, answer.text
        if "status" in tree:
            path = address(kind, kind.versions[0], tree["metadata"]["name"], "status")
            assert server.client.put(path, json={**answer.json(), "status": tree["status"]}).status_code == 200


@pytest.mark.slow
def test_a_server_is_ready_again_after_bad_values_of_each_kind(tmp_path: Path) -> None:
    with forked_server(tmp_path / "data") as server:
        prepare(server)
        fates = Counter[bool]()
        for kind in STORED:
            for number, (place, value) in enumerate(cases(kind)[:EACH]):
                fates[give(server, place, value, number)] += 1
            server.restart()
        assert server.starts == len(STORED) + 1
        print(f"\nvalues {fates.total()}, refused {fates[False]}, taken {fates[True]}, restarts {server.starts - 1}")
        assert fates[True] > len(STORED)


@pytest.mark.slow
@pytest.mark.property
def test_a_server_is_ready_again_after_each_bad_value(tmp_path: Path, in_time: InTime, fuzz_seed: int) -> None:
    """As many as there is time for; a few if time is not counted."""
    seeds = range(fuzz_seed, fuzz_seed + 100_000) if SOAK_UNTIL is not None else range(fuzz_seed, fuzz_seed + 5)
    with forked_server(tmp_path / "data") as server:
        prepare(server)
        for number in in_time(seeds):
            draw = random.Random(number)
            place, value = draw.choice(cases(draw.choice(STORED)))
            if give(server, place, value, number):
                server.restart()
