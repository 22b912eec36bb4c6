"""Holds for entitled workloads in the model (S-5.14), and the second search of a cycle (S-5.15)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.model import claims, facts, holds, queues
from tests.model.builders import FR, NOON, pending, policy, queue, running, world
from tests.model.cycle import Result, cycle
from tests.model.facts import Raw
from tests.model.play import between_cycles
from tests.model.stories import live
from tests.model.world import World, make_settings, snapshot

pytestmark = pytest.mark.slow

SECOND = 1000
MINUTE = 60


def at(seconds: int) -> int:
    return NOON + seconds * SECOND


def told(result: Result) -> dict[str, str]:
    return {e.p.key.removeprefix("ns/"): str(e.status or e.reason) for e in result.entries}


def after(name: str, started: dict[str, list[int]]) -> float:
    """The second of the day at which it started first."""
    return (started[f"ns/{name}"][0] - facts.millis("2024-01-01T00:00:00Z")) / SECOND


# stories


def lent() -> tuple[list[Raw], dict[str, int]]:
    came = {"z1": "00:00", "z2": "00:00:30", "z3": "00:14", "z4": "00:20", "z5": "00:28:20"}
    borrowers = [pending(name, "z", 2, created=created) for name, created in came.items()]
    objects = [*queue("x", 4, "co"), *queue("z", 0, "co"), pending("px", "x", 4, 100, "00:01"), *borrowers]
    lasts = {f"ns/{name}": 15 * MINUTE for name in came}
    return objects, lasts | {"ns/z2": 22 * MINUTE, "ns/px": 10 * MINUTE}


def test_what_somebody_is_entitled_to_is_not_lent_again() -> None:
    objects, lasts = lent()
    diary = live(objects, 3600, lasts, step=10)
    assert after("px", diary.started) <= 22 * MINUTE + 40
    assert after("z3", diary.started) > after("px", diary.started)


def test_with_strict_queues_only_it_is_lent_again() -> None:
    objects, lasts = lent()
    diary = live(objects, 3600, lasts, step=10, entitled_hold="StrictFIFO")
    assert after("px", diary.started) > 40 * MINUTE


def test_a_strict_neighbour() -> None:
    """The quota that s2 reserves does not keep w from displacing one more (S-5.15)."""
    objects = [
        *queue("x", 3, "co", preemption=policy("LowerPriority")),
        *queue("s", 2, "co", queueingStrategy="StrictFIFO"),
        pending("s1", "s", 1, created="00:00"),
        pending("h", "x", 2, prio=-10, created="00:00:02"),
        pending("e", "x", 1, prio=-10, created="00:00:04"),
        pending("s2", "s", 2, created="00:00:10"),
        pending("w", "x", 2, created="00:15"),
    ]
    diary = live(objects, 1800, step=10)
    assert after("w", diary.started) <= 16 * MINUTE
    assert [who for _, who, _, _ in diary.evicted] == ["ns/h"]


# S-5.14


def entitled(reclaim: str = "Never", **spec: Any) -> World:
    """px (4), within x's nominal quota of 4, waits for z1 (2), which borrows; zb (1) and zc (3) would borrow too."""
    return world(
        queue("x", 4, preemption=policy(reclaim=reclaim), **spec),
        queue("z", 0),
        queue("y", 1),
        running("z1", "z", 2),
        running("y1", "y", 1),
        pending("px", "x", 4, prio=9),
    )


def test_a_hold_lasts_when_its_workload_is_parked() -> None:
    w = entitled()
    assert told(cycle(w, at(0))) == {"px": "PreemptionNoCandidates"}
    assert w.entitled == {"ns/px": {FR: 4000}}
    queues.create(w, pending("zb", "z", 1), at(1))
    result = cycle(w, at(1))
    assert told(result) == {"zb": "skipped"}
    assert w.held_back == {"ns/zb"}
    assert told(cycle(w, at(2))) == {}
    queues.wake(w, "x", at(3))  # keeps the mark
    assert told(cycle(w, at(3))) == {"px": "PreemptionNoCandidates", "zb": "skipped"}
    between_cycles(w, [], [{"delete": ["ns/px"]}], at(4))
    assert told(cycle(w, at(4))) == {"zb": "assumed"}


def test_who_stays_within_nominal_quota_is_not_held_back() -> None:
    w = entitled()
    cycle(w, at(0))
    between_cycles(w, [], [{"delete": ["ns/y1"]}], at(1))
    queues.create(w, pending("yb", "y", 1), at(1))
    assert told(cycle(w, at(1))) == {"px": "PreemptionNoCandidates", "yb": "skipped"}  # S-5.8, in that cycle only
    assert not w.held_back
    assert told(cycle(w, at(2))) == {"yb": "assumed"}


def test_its_own_queue_may_use_it_and_then_nothing_is_held() -> None:
    w = entitled()
    cycle(w, at(0))
    queues.create(w, pending("zb", "z", 1), at(1))
    assert told(cycle(w, at(1))) == {"zb": "skipped"}
    queues.create(w, pending("xs", "x", 1), at(2))
    assert told(cycle(w, at(2))) == {"xs": "assumed"}
    assert told(cycle(w, at(3))) == {"zb": "assumed"}  # px waits for its own queue now: what it held is no longer held


def test_only_the_first_has_a_hold() -> None:
    w = entitled()
    queues.create(w, pending("pz", "x", 3, prio=8), at(0))
    for second in range(2):
        cycle(w, at(second))
    assert set(w.entitled) == {"ns/px", "ns/pz"}
    queues.create(w, pending("zb", "z", 1), at(2))
    assert told(cycle(w, at(2))) == {"zb": "skipped"}
    changed = w.workloads["ns/px"] | {"status": {"requeueState": {"requeueAt": "2024-01-01T13:00:00Z"}}}
    claims.change(w, changed, at(3))
    assert set(w.entitled) == {"ns/pz"}
    assert told(cycle(w, at(3))) == {"zb": "skipped"}  # it was due, but now there is pz
    claims.change(w, w.workloads["ns/pz"] | {"status": {}}, at(4))
    assert told(cycle(w, at(4))) == {"zb": "assumed"}


@pytest.mark.parametrize(
    ("settings", "spec", "marked"),
    [
        ({}, {}, True),
        ({"entitled_hold": "StrictFIFO"}, {}, False),
        ({}, {"reclaim": "Any"}, False),
        ({"strict_fifo_lends": True}, {"queueingStrategy": "StrictFIFO"}, False),
        ({"strict_fifo_lends": True}, {}, True),
    ],
)
def test_who_may_have_a_hold(settings: dict[str, Any], spec: dict[str, Any], marked: bool) -> None:
    w = entitled(**spec)
    w.settings = make_settings("default", None, **settings)
    cycle(w, at(0))
    assert bool(w.entitled) is marked
    w = entitled(**spec)
    w.settings = make_settings("parity")
    cycle(w, at(0))
    assert not w.entitled


def test_above_nominal_nobody_is_entitled() -> None:
    w = world(queue("x", 2), queue("z", 2), running("z1", "z", 3), pending("px", "x", 3))
    assert told(cycle(w, at(0))) == {"px": "NoFit"}
    assert not w.entitled


def test_a_reservation_counts_towards_the_hold() -> None:
    """The amounts that px reserves in the cycle of its own (S-5.8) are not kept twice."""
    w = entitled()
    cycle(w, at(0))
    snap = snapshot(w, at(1))
    assert holds.charged(w, snap, "z", []).used["x"] == {FR: 4000}
    snap.charge("x", {FR: 3000})
    reserved = [holds.Reserved("x", {FR: 3000}, stays=False)]
    assert holds.charged(w, snap, "z", reserved).used["x"] == {FR: 4000}
    assert holds.charged(w, snap, "z", []).used["x"] == {FR: 3000}  # used by its own queue: not in force
    assert holds.charged(w, snap, "x", reserved).used["x"] == {FR: 3000}


def test_who_would_displace_a_borrower_is_held_back_too() -> None:
    """zh would have what z1 leaves, but that is held for px."""
    w = entitled()
    cycle(w, at(0))
    w.queues["z"]["preemption"] = policy(
        "LowerPriority", "LowerPriority", borrowWithinCohort={"policy": "LowerPriority"}
    )
    queues.create(w, pending("zh", "z", 3, prio=5), at(1))
    result = cycle(w, at(1))
    assert told(result) == {"zh": "skipped"}
    assert [t.key for t in result.entries[0].targets] == ["ns/z1"]  # as nominated; no victim was asked to leave
    assert not result.evicted


def test_a_deferred_fit_is_held_back_too() -> None:
    """q and r both reclaim t (S-5.11); r, which would borrow what is left of it, would borrow what px waits for."""
    reclaim = policy(reclaim="Any")
    w = world(
        queue("x", 4),
        queue("a", 2, preemption=reclaim),
        queue("b", 0, preemption=policy(reclaim="LowerPriority", borrowWithinCohort={"policy": "LowerPriority"})),
        queue("z", 0),
        running("t", "z", 6),
        pending("px", "x", 4, prio=-9),
    )
    assert told(cycle(w, at(0))) == {"px": "PreemptionNoCandidates"}
    queues.create(w, pending("q", "a", 2, prio=5), at(1))
    queues.create(w, pending("r", "b", 1, prio=4), at(1))
    result = cycle(w, at(1))
    assert told(result) == {"q": "PendingPreemption", "r": "skipped"}
    assert (result.entries[1].mode, result.entries[1].held_back) == ("DeferredFit", True)
    between_cycles(w, ["ns/t"], [], at(2))
    assert told(cycle(w, at(2))) == {"q": "assumed", "px": "assumed", "r": "skipped", "t": "NoFit"}


# S-5.15


def reserved_neighbour() -> World:
    """w (2) would displace e (1) and take what is free (1); but that s2 reserves."""
    return world(
        queue("x", 3, preemption=policy("LowerPriority")),
        queue("s", 2, queueingStrategy="StrictFIFO"),
        running("s1", "s", 1),
        running("h", "x", 2, prio=-10),
        running("e", "x", 1, prio=-10),
        pending("s2", "s", 2, prio=1),
        pending("w", "x", 2),
    )


def test_beside_a_reservation_somebody_else_is_displaced() -> None:
    w = reserved_neighbour()
    result = cycle(w, at(0))
    assert told(result) == {"s2": "PreemptionNoCandidates", "w": "PendingPreemption"}
    assert result.evicted == ["ns/h"]
    w = reserved_neighbour()
    w.settings = make_settings("default", {"PreemptionClaims": False})
    result = cycle(w, at(0))
    assert told(result) == {"s2": "PreemptionNoCandidates", "w": "skipped"}
    assert w.held_back == {"ns/w"}


def test_without_targets_the_nomination_stays_and_it_waits() -> None:
    w = world(
        queue("x", 2),
        queue("s", 3, queueingStrategy="StrictFIFO"),
        running("s1", "s", 1),
        running("x1", "x", 3, prio=-10),
        pending("s2", "s", 2, prio=1),
        pending("w", "x", 1),
    )
    result = cycle(w, at(0))
    assert told(result) == {"s2": "PreemptionNoCandidates", "w": "skipped"}
    (lost,) = [e for e in result.entries if e.p.key == "ns/w"]
    assert (lost.mode, lost.targets, lost.held_back) == ("Fit", [], True)
    assert told(cycle(w, at(1))) == {}
