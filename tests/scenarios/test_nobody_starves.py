"""Small worlds in which a workload starved: each named as its case, for a day (the first for two) of virtual time.

The worlds are written here; where the shared data is there, they are compared with the files of those names.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from makeway.adapters.simulator.lives import Life
from makeway.adapters.simulator.simulation import Simulation
from makeway.api import codec
from makeway.api.conditions import find
from makeway.api.objects.workload import Workload
from makeway.api.reading import manifests
from makeway.api.versions import kind_of
from tests.scenarios.stage import clock, named
from tests.scenarios.turns import (
    HOUR,
    MINUTE,
    TIME,
    Tree,
    lives_of,
    ran_ms,
    shown,
    simulation,
    soon_back,
    waits,
)

EQUALS = "LowerOrNewerEqualPriority"
PERIOD = HOUR  # of the cases in which equals take turns by the hour


# --- worlds ----------------------------------------------------------------------------------------------------------


def queue(name: str, nominal: int, *, min_admit: str = "", within: str = "", **spec: Any) -> Tree:
    preemption: Tree = {"withinClusterQueue": EQUALS if min_admit else within} if min_admit or within else {}
    if min_admit:
        preemption["withinClusterQueueConfig"] = {"minAdmitDuration": min_admit}
    flavors = [{"name": "f", "resources": [{"name": "cpu", "nominalQuota": nominal}]}]
    groups = [{"coveredResources": ["cpu"], "flavors": flavors}]
    more = {"preemption": preemption} if preemption else {}
    return named("ClusterQueue", name, {"namespaceSelector": {}, "resourceGroups": groups, **more, **spec})


def door(name: str) -> Tree:
    return named("LocalQueue", name, {"clusterQueue": name}, namespace="t")


def work(
    name: str, at: str, size: int = 1, *, queue: str = "q", runtime: str = "", priority: int | None = None
) -> Tree:
    """A Workload that comes at this time of day; without ``runtime`` it never ends."""
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": 1}}}
    pods = [{"count": size, "template": {"spec": {"containers": [container]}}}]
    spec: Tree = {"queueName": queue, "podSets": pods} | ({} if priority is None else {"priority": priority})
    meta: Tree = {"annotations": {"makeway.dev/runtime": runtime}} if runtime else {}
    return named("Workload", name, spec, namespace="t", creationTimestamp=f"2026-01-01T{at}Z", **meta)


def taking_turns(nominal: int, *works: Tree, min_admit: str = "1h", **spec: Any) -> list[Tree]:
    """One queue ``q`` in which equals take turns."""
    return [named("ResourceFlavor", "f"), door("q"), queue("q", nominal, min_admit=min_admit, **spec), *works]


WORLDS: dict[str, list[Tree]] = {
    "rounds-in-a-rotation": taking_turns(
        2, work("v", "00:00:00"), work("w", "00:01:00", 2), work("l", "00:02:00", priority=-1)
    ),
    "rounds-above-nominal": [
        *taking_turns(
            3, work("k", "00:00:00", priority=1), work("v", "00:00:10"), work("w", "00:01:00", 3),
            work("l", "00:02:00", priority=-1), cohortName="co",
        ),
        queue("lender", 1, cohortName="co"),
    ],
    "three-equals-two-slots": taking_turns(2, *(work(name, "00:00:00") for name in "abc")),
    "strict-neighbour": [
        named("ResourceFlavor", "f"), door("x"), door("s"),
        queue("x", 3, within="LowerPriority", cohortName="co"),
        queue("s", 2, cohortName="co", queueingStrategy="StrictFIFO"),
        work("s1", "00:00:00", queue="s"),
        work("h", "00:00:02", 2, queue="x", priority=-10),
        work("e", "00:00:04", queue="x", priority=-10),
        work("s2", "00:00:10", 2, queue="s"),
        work("w", "00:15:00", 2, queue="x"),
    ],
    "strict-rotation-tie": taking_turns(
        2, work("a", "00:00:00"), work("b", "00:00:05"), work("c", "00:20:00"), min_admit="10m",
        queueingStrategy="StrictFIFO",
    ),
    "lent-past-an-entitled-one": [
        named("ResourceFlavor", "f"), door("x"), door("z"), queue("x", 4, cohortName="co"),
        queue("z", 0, cohortName="co"),
        work("z1", "00:00:00", 2, queue="z", runtime="15m"),
        work("px", "00:01:00", 4, queue="x", runtime="10m", priority=100),
        work("z2", "00:00:30", 2, queue="z", runtime="22m"),
        work("z3", "00:14:00", 2, queue="z", runtime="15m"),
        work("z4", "00:20:00", 2, queue="z", runtime="15m"),
        work("z5", "00:28:20", 2, queue="z", runtime="15m"),
    ],
    "large-among-small": taking_turns(
        2, work("a", "00:00:00"), work("b", "00:30:00"), work("c", "00:31:00"), work("d", "00:32:00"),
        work("big", "00:33:20", 2),
    ),
    "rotation-on-borrowed-quota": [
        *taking_turns(0, work("a", "00:00:00", 4), work("b", "00:01:00", 4), min_admit="10m", cohortName="co"),
        queue("lender", 4, cohortName="co"),
    ],
}  # fmt: skip


def played(name: str, until: str = "24:00") -> tuple[Simulation, dict[str, Life]]:
    ran = simulation(WORLDS[name])
    ran.run(clock(until))
    return ran, lives_of(ran)


def hours(lives: dict[str, Life]) -> dict[str, float]:
    return {name: life.ran_ms / HOUR for name, life in lives.items()}


def evictions(lives: dict[str, Life]) -> list[tuple[int, str, str, str]]:
    """Time, workload, reason and preemptor, in the order of time."""
    return sorted(
        (each.at, name, each.reason, each.by.partition("/")[2])
        for name, life in lives.items()
        for each in life.evictions
    )


def spread(values: Sequence[int]) -> int:
    return max(values) - min(values)


# --- cases -----------------------------------------------------------------------------------------------------------


def test_rounds_in_a_rotation() -> None:
    """The rounds of ``w`` end when its time is up, so it always has its next turn; ``l`` runs beside ``v`` alone."""
    ran, lives = played("rounds-in-a-rotation", "48:00")
    v, w, low = lives["v"], lives["w"], lives["l"]
    assert abs(v.ran_ms - w.ran_ms) <= PERIOD, hours(lives)
    assert min(v.ran_ms, w.ran_ms) >= 23 * HOUR, hours(lives)
    assert max(v.ran_ms, w.ran_ms) <= 25 * HOUR, hours(lives)
    beside = sum(ran_ms(v, each.began_at, each.ended_at or ran.clock.now) for each in low.spells)
    assert low.ran_ms - beside <= MINUTE, "it has what neither of the others can use"
    assert low.ran_ms >= 22 * HOUR, "and all of that"


def test_rounds_above_nominal() -> None:
    """``w`` must borrow for its turn, and is not barred after the first one."""
    _, lives = played("rounds-above-nominal")
    by_time = [name for _, name, reason, _ in evictions(lives) if reason == TIME]
    assert by_time == [("v", "w")[i % 2] for i in range(len(by_time))], "they take turns"
    assert len(by_time) >= 22
    assert lives["w"].ran_ms >= 11 * HOUR, hours(lives)
    assert lives["v"].ran_ms >= 11 * HOUR, hours(lives)
    assert (lives["k"].ran_ms, lives["k"].evictions) == (24 * HOUR, ()), "it is more important than both"


def test_three_equals_two_slots() -> None:
    _, lives = played("three-equals-two-slots")
    assert all(15 * HOUR <= life.ran_ms <= 17 * HOUR for life in lives.values()), hours(lives)
    found = evictions(lives)
    assert 0 < len(found) <= 24, found
    assert [str(each) for each in soon_back(lives)] == []


def test_strict_neighbour() -> None:
    """The head of ``s`` waits for its own queue; the search counts what is reserved for it, and ``h`` is enough."""
    ran, lives = played("strict-neighbour")
    assert len(lives["w"].spells) == 1
    assert clock("00:15") <= lives["w"].spells[0].began_at <= clock("00:16")
    assert lives["w"].spells[0].ended_at is None
    assert [each[1] for each in evictions(lives)] == ["h"]
    assert ran.clock.now == clock("24:00")


def test_strict_rotation_tie() -> None:
    _, lives = played("strict-rotation-tie")
    found = evictions(lives)
    assert len(found) >= 100, "about one in each period"
    for at, name, reason, by in found:
        text = f"{shown(at)} {name}, for {by}"
        assert reason == TIME, text
        assert any(at <= each.began_at <= at + MINUTE for each in lives[by].spells), f"{text}: it does not run"
        assert not any(at <= each.began_at <= at + MINUTE for each in lives[name].spells), f"{text}: it is back"
    since, until = clock("00:20"), clock("24:00")
    assert spread([ran_ms(life, since, until) for life in lives.values()]) <= 10 * MINUTE, hours(lives)


def test_lent_past_an_entitled_one() -> None:
    _, lives = played("lent-past-an-entitled-one")
    assert [(shown(each.began_at), shown(each.ended_at or 0)) for each in lives["px"].spells] == [
        ("00:22:30", "00:32:30")
    ]
    assert evictions(lives) == []
    assert all(life.finished_at is not None for life in lives.values())


def test_large_among_small() -> None:
    """Small ones with staggered periods make room for ``big`` together, when it is first."""
    ran, lives = played("large-among-small")
    big = lives["big"]
    assert big.spells, "it runs"
    for wait in waits(big):
        first_at = max(
            [wait.began_at, *(ends_at for ends_at in _ends_of_earlier(lives, wait.began_at, wait.queued_at))]
        )
        served_at = ran.clock.now if wait.ended_at is None else wait.ended_at
        assert served_at <= first_at + 2 * PERIOD, f"first at {shown(first_at)}, served at {shown(served_at)}"
    totals = [life.ran_ms for life in lives.values()]
    assert 3 * spread(totals) <= min(totals), hours(lives)


def _ends_of_earlier(lives: dict[str, Life], at: int, queued_at: int) -> list[int]:
    """The times at which workloads that wait at ``at``, and came before, get their turn."""
    return [
        wait.ended_at
        for name, life in lives.items()
        for wait in (waits(life) if name != "big" else [])
        if wait.began_at <= at and wait.queued_at < queued_at and wait.ended_at is not None and wait.ended_at > at
    ]


def test_rotation_on_borrowed_quota() -> None:
    """No workload is displaced for quota that a queue must borrow, and the statuses of waiting workloads say so."""
    ran, lives = played("rotation-on-borrowed-quota")
    assert (lives["a"].ran_ms, lives["b"].ran_ms, evictions(lives)) == (24 * HOUR, 0, [])
    stored: Workload = ran.store.get(kind_of(Workload), "t", "b").value()
    assert stored.status is not None
    told = find(stored.status.conditions, "QuotaReserved")
    assert told is not None
    assert told.status == "False"
    assert "preemption cannot help" in told.message


# --- the cases are these ---------------------------------------------------------------------------------------------


def test_every_world_is_played() -> None:
    assert all(f"test_{name.replace('-', '_')}" in globals() for name in WORLDS)


def test_every_shared_case_is_one_of_these(shared: Path) -> None:
    folder = shared / "cases" / "nobody-starves"
    if not folder.is_dir():
        pytest.skip("the shared data has no cases of starvation")
    files = {path.stem: path for path in sorted(folder.glob("*.yaml"))}
    assert sorted(files) == sorted(WORLDS)
    for name, path in files.items():
        found = manifests.load(str(path), path.read_bytes())
        shared_world = [each.value for each in found if each.value is not None]
        ours = [codec.read(each).value for each in WORLDS[name]]
        assert sorted(map(_plain, shared_world)) == sorted(map(_plain, ours)), name


def _plain(value: Any) -> tuple[str, str, str]:
    tree = codec.to_tree(value)
    return tree["kind"], tree["metadata"]["name"], str(tree)
