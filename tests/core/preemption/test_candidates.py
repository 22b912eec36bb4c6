"""Possible victims, their order, and how few of them are read (S-7.6, 8.1 to 8.5)."""

from __future__ import annotations

from functools import cmp_to_key
from itertools import islice
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from makeway.core.model import FR, FlavorName, Queue, QueueName, Uid, Workload
from makeway.core.preemption.candidates import Candidates, Lenders, find_lenders
from makeway.core.preemption.eligibility import ALL_EQUALS, NO_EQUALS, Equals, equals_by_time, may_preempt
from makeway.core.queue_policies import WithinClusterQueue
from makeway.core.state import State
from makeway.testing.builders import CPU, FR_CPU, cohort, holder, queue, seconds, state, workload

NOW = seconds(1000)
SPOT: FR = (FlavorName("spot"), CPU)
NOBODY = Lenders({}, {})


def candidates(
    on: State, incoming: Workload, lenders: Lenders = NOBODY, equals: Equals | None = None, **more: object
) -> Candidates:
    asking = on.queues[incoming.queue]
    equals = equals_by_time(asking, NOW, time_based=True) if equals is None else equals
    need = (FR_CPU,)
    return Candidates(incoming, asking, on.holders, need, lenders, equals, **more)  # type: ignore[arg-type]


def order(on: State, incoming: Workload, lenders: Lenders = NOBODY, **more: Any) -> list[str]:
    return [each.workload.uid for each in candidates(on, incoming, lenders, **more).read()]


def test_S_7_8_lower_then_expired_then_newer() -> None:
    """Also 8522-3, S6 and S7: lower priority first, then the longest running of the expired, then the newest."""
    line = queue("q", 9, within="LowerOrNewerEqualPriority", min_admit=200)
    made = state(
        line,
        holder("d", priority=5, queued=900, reserved=950),
        holder("a", priority=10, queued=300, reserved=400),
        holder("b", priority=10, queued=700, reserved=750),
        holder("c", priority=10, queued=800, reserved=900),
        holder("e", priority=10, queued=500, reserved=800),
        holder("f", priority=20, queued=900, reserved=900),
    )
    assert order(made, workload("p", priority=10, queued=650)) == ["d", "a", "b", "c"]


def test_S7_equally_long_running_ones_go_by_uid() -> None:
    line = queue("q", 9, within="LowerOrNewerEqualPriority", min_admit=200)
    made = state(line, *(holder(uid, queued=1, reserved=5) for uid in ("c", "a", "b")))
    assert order(made, workload("p", queued=9)) == ["a", "b", "c"]


def test_P9_equal_in_everything_the_uid_decides_and_later_reservations_go_first() -> None:
    made = state(
        queue("q", 9, within="LowerPriority"), *(holder(uid, reserved=at) for uid, at in (("b", 5), ("a", 5), ("c", 6)))
    )
    assert order(made, workload("p", priority=1)) == ["c", "a", "b"]


def test_S_8_5_those_who_leave_already_then_the_cohort_then_the_own_queue() -> None:
    made = state(
        queue("q", 9, cohort="r", within="LowerPriority", reclaim="Any"),
        queue("y", 0, cohort="r"),
        queue("z", 0, cohort="r"),
        holder("own", priority=-9),
        holder("own gone", priority=-9, evicted=True),
        holder("y1", queue="y", priority=3),
        holder("y gone", queue="y", priority=3, evicted=True),
        holder("z1", queue="z", priority=-1),
    )
    root = made.tree.cohorts["r"]
    lenders = Lenders({QueueName("y"): root}, {QueueName("z"): root})
    assert order(made, workload("p"), lenders) == ["y gone", "own gone", "y1", "z1", "own"]
    assert [each.advantaged for each in candidates(made, workload("p"), lenders).read()][2:4] == [True, False]


def test_reclaim_by_priority_takes_only_the_lower_of_the_cohort() -> None:
    made = state(
        queue("q", 9, cohort="r", reclaim="LowerPriority"),
        queue("y", 0, cohort="r"),
        *(holder(f"y{priority}", queue="y", priority=priority) for priority in (-1, 0, 1)),
    )
    assert order(made, workload("p"), Lenders({QueueName("y"): made.tree.cohorts["r"]}, {})) == ["y-1"]


def test_siblings_and_those_who_are_excluded_are_no_candidates() -> None:
    made = state(
        queue("q", 9, within="LowerPriority"),
        holder("sibling", family=Uid("f")),
        holder("other", family=Uid("g")),
        holder("taken", reserved=5),
        holder("plain"),
    )
    incoming = workload("p", priority=1, family=Uid("f"))
    assert order(made, incoming, excluded=frozenset({"default/taken"})) == ["other", "plain"]
    assert "sibling" in order(made, workload("p", priority=1)), "to anybody else it is one"


def test_S_7_4_7_14_which_equals_are_candidates() -> None:
    """A family that runs, or a workload just displaced by time, displaces none; one out of turn only newer ones."""
    made = state(
        queue("q", 9, within="LowerOrNewerEqualPriority", min_admit=60),
        holder("newer", queued=990, reserved=995),
        holder("expired", queued=1, reserved=2),
        holder("low", priority=-1),
    )
    assert order(made, workload("p", queued=500)) == ["low", "expired", "newer"]
    assert order(made, workload("p", queued=500), equals=NO_EQUALS) == ["low"]
    assert order(made, workload("p", queued=500), equals=Equals()) == ["low", "newer"]
    assert order(made, workload("p", queued=999), equals=ALL_EQUALS) == ["low", "expired", "newer"]


def test_what_could_be_freed_counts_whom_the_policies_let_go() -> None:
    lower, equal = holder("low", cpu=1, priority=-1), holder("equal", cpu=2)
    above, other = holder("above", cpu=4, priority=1), holder("y1", cpu=8, queue="y")
    policies = {"Never": 0, "LowerPriority": 1000, "LowerOrNewerEqualPriority": 3000}
    for within, own in policies.items():
        for reclaim, reclaimed in {"LowerPriority": 0, "Any": 8000}.items():
            asking = queue("q", 9, cohort="r", within=within, reclaim=reclaim)
            made = state(asking, queue("y", 0, cohort="r"), lower, equal, above, other)
            lenders = Lenders({QueueName("y"): made.tree.cohorts["r"]}, {})
            assert candidates(made, workload("p"), lenders).freed_at_most(FR_CPU) == (own, reclaimed)


# --- lenders ---------------------------------------------------------------------------------------------------------


def hierarchy(b: int, c: int, *, own: int = 0) -> State:
    """S-8.11: R{L{own 2; a 4 reclaim Any; b 0}, M{c 0}}."""
    return state(
        queue("a", 4, cohort="l", reclaim="Any"),
        queue("b", 0, cohort="l"),
        queue("c", 0, cohort="m"),
        cohort("l", 2, parent="r"),
        cohort("m", parent="r"),
        *(holder(f"b{i}", queue="b", reserved=i) for i in range(b)),
        *(holder(f"c{i}", queue="c", reserved=i) for i in range(c)),
        *(holder(f"a{i}", queue="a", reserved=i) for i in range(own)),
    )


def lenders_of_a(on: State, asks: float) -> Lenders:
    return find_lenders(on.tree, on.tree.queues["a"], (FR_CPU,), {FR_CPU: round(asks * 1000)}, on.is_active)


LENDERS = {
    "S-8.11 within the own quota everybody is at a disadvantage": (3, 3, 3, {"b": "l", "c": "r"}, {}),
    "S-8.11 beyond it and beyond the cohort nobody is": (3, 3, 5, {}, {"b": "l", "c": "r"}),
    "S-8.11 within the cohort those outside of it are": (1, 5, 5, {"c": "r"}, {"b": "l"}),
    "S-8.2 who has the advantage once keeps it further up": (5, 3, 3, {"b": "l", "c": "r"}, {}),
    "who borrows nothing is left out": (0, 1, 3, {"c": "r"}, {}),
}


@pytest.mark.parametrize(("b", "c", "asks", "advantaged", "others"), LENDERS.values(), ids=LENDERS)
def test_lenders(b: int, c: int, asks: int, advantaged: dict[str, str], others: dict[str, str]) -> None:
    made = hierarchy(b, c)
    found = lenders_of_a(made, asks)
    assert {queue: node.name for queue, node in found.advantaged.items()} == advantaged
    assert {queue: node.name for queue, node in found.others.items()} == others


def test_S_8_2_nobody_lends_to_itself_and_each_is_found_under_the_nearest_cohort() -> None:
    found = lenders_of_a(hierarchy(2, 1, own=9), 3)
    assert {name: node.name for name, node in {**found.advantaged, **found.others}.items()} == {"b": "l", "c": "r"}


def test_S_7_3_by_priority_alone_no_equal_is_a_candidate() -> None:
    made = state(queue("q", 9, within="LowerPriority"), holder("equal", queued=99), holder("low", priority=-1))
    assert order(made, workload("p", queued=1)) == ["low"]


def test_S_8_3_a_cohort_within_its_quota_shields_its_queues() -> None:
    made = state(
        queue("a", 4, cohort="r", reclaim="Any"),
        queue("b", 0, cohort="m"),
        cohort("m", 3, parent="r"),
        *(holder(f"b{i}", queue="b") for i in range(3)),
    )
    assert lenders_of_a(made, 4) == NOBODY


def test_S_3_2_workloads_of_an_inactive_queue_are_no_candidates() -> None:
    made = state(
        queue("a", 4, cohort="r", reclaim="Any"),
        queue("b", 0, cohort="r", active=False),
        queue("c", 0, cohort="r"),
        holder("b1", queue="b"),
        holder("c1", queue="c"),
    )
    assert list(lenders_of_a(made, 4).advantaged) == ["c"]


def test_local_quota_is_used_before_what_the_cohort_must_give() -> None:
    """The cohort owes only what the queue's own, unlent quota does not cover: so those outside it are advantaged."""
    made = state(
        queue("a", 4, cohort="l", reclaim="Any", lending=0),
        cohort("l", 2, parent="r"),
        queue("c", 0, cohort="r"),
        holder("c1", queue="c"),
    )
    found = lenders_of_a(made, 5.5)
    assert (list(found.advantaged), list(found.others)) == (["c"], [])


# --- looks -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("crowd", [1_000, 10_000])
@pytest.mark.parametrize("policy", ["LowerPriority", "LowerOrNewerEqualPriority"])
def test_ten_candidates_take_ten_looks_however_many_there_are(crowd: int, policy: str) -> None:
    made = state(queue("q", 9, within=policy), *(holder(f"w{i:05}", priority=i % 7, reserved=i) for i in range(crowd)))
    found = list(islice(candidates(made, workload("p", priority=6, queued=-1)).read(), 10))
    assert len(found) == 10
    assert made.holders.looks <= 11


def test_holders_of_another_flavor_are_not_looked_at() -> None:
    line = queue("q", {"default": 9, "spot": 9}, within="LowerOrNewerEqualPriority", min_admit=60)
    others = [holder(f"s{i}", usage={"spot": 1}, priority=i % 3 - 1, reserved=i) for i in range(500)]
    made = state(line, holder("mine", priority=-1), *others)
    assert order(made, workload("p", queued=-1)) == ["mine"]
    assert made.holders.looks == 1


def leaves_before(incoming: Workload, asking: Queue, a: Workload, b: Workload) -> int:
    """The order of S-7.6 in plain code, sentence by sentence, for candidates of one queue."""
    if a.evicted != b.evicted:
        return -1 if a.evicted else 1
    if a.priority != b.priority:
        return a.priority - b.priority
    since_a, since_b = a.held_since(NOW), b.held_since(NOW)
    if a.priority == incoming.priority and asking.min_admit is not None:
        expired_a, expired_b = NOW - since_a > asking.min_admit, NOW - since_b > asking.min_admit
        if expired_a != expired_b:
            return -1 if expired_a else 1
        if expired_a and since_a != since_b:
            return since_a - since_b
    if since_a != since_b:
        return since_b - since_a
    return -1 if a.uid < b.uid else 1


times = st.sampled_from([None, 789, 799, 800, 801, 950, 999])  # few, so that ties and the edge of expiry are hit often
crowds = st.lists(st.tuples(st.integers(0, 2), times, st.sampled_from([400, 500, 600]), st.booleans()), max_size=12)
Crowd = list[tuple[int, int | None, int, bool]]


@pytest.mark.property
@given(
    crowd=crowds,
    min_admit=st.sampled_from([None, 200]),
    within=st.sampled_from(WithinClusterQueue),
)
def test_merging_sorted_runs_equals_sorting_all_who_may_be_displaced(
    crowd: Crowd, min_admit: int | None, within: WithinClusterQueue
) -> None:
    line = queue("q", 99, within=within, min_admit=min_admit)
    running = [
        holder(f"w{i}", priority=priority, reserved=reserved, queued=queued, evicted=evicted)
        for i, (priority, reserved, queued, evicted) in enumerate(crowd)
    ]
    incoming = workload("p", priority=1, queued=500)
    expiry = equals_by_time(line[0], NOW, time_based=True).expired_before
    legal = [each for each in running if may_preempt(incoming, each, within, expiry, NOW)]

    def before(a: Workload, b: Workload) -> int:
        return leaves_before(incoming, line[0], a, b)

    assert order(state(line, *running), incoming) == [each.uid for each in sorted(legal, key=cmp_to_key(before))]
