"""One waiting list: classes that are parked and return together, members that stand apart, standings, and the least."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from makeway.core.model import DAWN, Workload
from makeway.core.queueing.standing import AWAITS_WAKE, TRANSITIONS, Standing, Trigger
from makeway.core.queueing.waiting_list import WaitingList, is_at_least, shape
from makeway.core.undo import UndoLog
from makeway.testing.builders import pod_set, seconds, workload


def list_of(*members: Workload) -> WaitingList:
    waiting_list = WaitingList(UndoLog())
    for each in members:
        waiting_list.enter(each)
    return waiting_list


def names(waiting_list: WaitingList) -> list[str]:
    return [key.partition("/")[2] for key in waiting_list.ordered()]


def alike(of: Workload) -> tuple[object, ...]:
    return (shape(of), of.namespace)


def test_a_class_is_parked_and_returns_together_however_many_they_are() -> None:
    small = [workload(f"s{i}", cpu=1, queued=i) for i in range(3)]
    waiting_list = list_of(*small, workload("big", cpu=4, queued=1))
    assert names(waiting_list) == ["s0", "big", "s1", "s2"]
    waiting_list.park(alike(small[0]))
    assert names(waiting_list) == ["big"]
    assert sorted(waiting_list.parked) == ["default/s0", "default/s1", "default/s2"]
    assert (len(waiting_list.parked), len(waiting_list.waiting)) == (3, 1)
    waiting_list.classes.unpark([alike(small[0])])
    assert names(waiting_list) == ["s0", "big", "s1", "s2"]


def test_one_that_has_to_be_in_the_queue_stands_apart_from_its_parked_class() -> None:
    a, b = workload("a", queued=1), workload("b", queued=2)
    waiting_list = list_of(a)
    waiting_list.park(alike(a))
    waiting_list.enter(b)
    assert (names(waiting_list), list(waiting_list.parked)) == (["b"], ["default/a"])
    waiting_list.classes.unpark([alike(a)])
    assert names(waiting_list) == ["a", "b"]


def test_one_that_joins_a_parked_class_is_parked() -> None:
    a, b = workload("a", queued=2), workload("b", queued=1)
    waiting_list = list_of(a)
    waiting_list.enter(b, parked=True)
    assert names(waiting_list) == []
    waiting_list.classes.unpark([alike(a)])
    assert names(waiting_list) == ["b", "a"]


def test_a_class_ends_with_its_last_member() -> None:
    a = workload("a")
    waiting_list = list_of(a)
    waiting_list.park(alike(a))
    waiting_list.leave(a.key)
    waiting_list.enter(a)
    assert names(waiting_list) == ["a"], "none is left that is parked"
    assert "default/x" not in waiting_list.waiting
    with pytest.raises(KeyError):
        waiting_list.parked[a.key]


LARGER = {
    "as much": ({"cpu": 2}, {"cpu": 2}, True),
    "more": ({"cpu": 3}, {"cpu": 2}, True),
    "less": ({"cpu": 1}, {"cpu": 2}, False),
    "more of one, less of another": ({"cpu": 3, "gpu": 1}, {"cpu": 2, "gpu": 2}, False),
    "another resource": ({"cpu": 3, "gpu": 1}, {"cpu": 2}, False),
}


@pytest.mark.parametrize(("asked", "least", "expected"), LARGER.values(), ids=LARGER)
def test_who_asks_for_at_least_as_much(asked: dict[str, int], least: dict[str, int], expected: bool) -> None:
    a, b = (workload("a", pod_sets=(pod_set(requests=each),)) for each in (asked, least))
    assert is_at_least(shape(a), shape(b)) is expected


def test_of_what_cannot_be_compared_nothing_is_said() -> None:
    one, two = workload("a", cpu=2), workload("b", pod_sets=(pod_set("x", cpu=1), pod_set("y", cpu=9)))
    partly = workload("c", pod_sets=(replace(pod_set(count=4, cpu=1), min_count=1),))
    elsewhere = workload("d", pod_sets=(replace(pod_set(cpu=9), node_selector={"zone": "b"}),))
    for other in (two, partly, elsewhere):
        assert not is_at_least(shape(other), shape(one))
        assert not is_at_least(shape(one), shape(other))


def test_the_least_that_is_asked_for_by_parked_ones() -> None:
    a, b = workload("a", cpu=4, priority=1), workload("b", cpu=2, priority=9)
    waiting_list = list_of(a, b)
    waiting_list.park(alike(a))
    least = waiting_list.classes.least_of_parked()
    assert least is not None
    assert (least.priority, dict(least.amounts)) == (1, {"cpu": 4000})
    waiting_list.park(alike(b))
    least = waiting_list.classes.least_of_parked()
    assert least is not None
    assert (least.priority, dict(least.amounts)) == (9, {"cpu": 2000})
    waiting_list.enter(workload("c", pod_sets=(pod_set("x", cpu=1), pod_set("y", cpu=9))), parked=True)
    assert waiting_list.classes.least_of_parked() is None, "of two podSets nothing is said"


def test_what_was_asked_for_at_least_in_a_trial_is_not_known_after_it() -> None:
    a, b = workload("a", cpu=4), workload("b", cpu=2)
    waiting_list = list_of(a, b)
    waiting_list.park(alike(a))
    waiting_list.park(alike(b))
    with waiting_list.log.trial():
        waiting_list.leave(b.key)
        least = waiting_list.classes.least_of_parked()
        assert least is not None
        assert dict(least.amounts) == {"cpu": 4000}
    least = waiting_list.classes.least_of_parked()
    assert least is not None
    assert dict(least.amounts) == {"cpu": 2000}


PARKED = (Standing.PARKED_SINGLY, Standing.PARKED_WITH_CLASS)
TRIGGERS = {trigger.name: trigger for trigger in Trigger}


@pytest.mark.property
@given(
    st.lists(
        st.tuples(
            st.sampled_from("abcdef"), st.sampled_from(["enter", "park", "unpark", "leave", "park singly", *TRIGGERS])
        )
    )
)
def test_whatever_happens_in_a_trial_is_undone_and_the_queue_is_in_order(story: list[tuple[str, str]]) -> None:
    members = {name: workload(name, cpu=ord(name) % 2 + 1, queued=ord(name) % 3) for name in "abcdef"}
    waiting_list = list_of(members["a"], members["b"])
    before = waiting_list.contents()
    with waiting_list.log.trial():
        for name, what in story:
            _happen(waiting_list, members[name], what)
            in_queue = [waiting_list.members[key] for key in waiting_list.ordered()]
            assert in_queue == sorted(in_queue, key=lambda each: (each.queued_at, each.uid))
            assert {each.key for each in in_queue} == set(waiting_list.waiting)
            assert len(waiting_list.waiting) + len(waiting_list.parked) == len(waiting_list.members)
            standings = {key: waiting_list.standing_of(key) for key in waiting_list.members}
            for own in (*AWAITS_WAKE, Standing.PARKED_SINGLY):
                assert set(waiting_list.at[own]) == {key for key, standing in standings.items() if standing is own}
            assert {key for key, standing in standings.items() if standing in PARKED} == set(waiting_list.parked)
    assert waiting_list.contents() == before


def _happen(waiting_list: WaitingList, who: Workload, what: str) -> None:
    known = waiting_list.classes.of.get(who.key)
    if what in TRIGGERS:
        waiting_list.happen(TRIGGERS[what], who.key)
    elif what == "leave":
        waiting_list.leave(who.key)
    elif what == "enter" and who.key not in waiting_list.members:
        waiting_list.enter(who)
    elif what == "park singly" and who.key not in waiting_list.members:
        waiting_list.park_singly(who)
    elif what == "park" and known is not None:
        waiting_list.park(known)
    elif what == "unpark" and known in waiting_list.classes.parked:
        assert known is not None
        waiting_list.classes.unpark([known])


def test_what_becomes_of_one_that_is_parked_only_its_list_decides() -> None:
    a, b = workload("a"), workload("b", queued=2)
    waiting_list = list_of(a)
    waiting_list.park(alike(a))
    waiting_list.park_singly(b)
    for trigger in Trigger:
        waiting_list.happen(trigger, a.key)
        waiting_list.happen(trigger, b.key)
    assert waiting_list.standing_of(a.key) is Standing.PARKED_WITH_CLASS
    assert waiting_list.standing_of(b.key) is Standing.PARKED_SINGLY


def test_a_refusal_gives_way_to_the_verdict_on_the_class() -> None:
    a, b = workload("a", queued=1), workload("b", queued=2)
    for trigger in (Trigger.REFUSE, Trigger.HOLD_BACK, Trigger.BLOCK):
        waiting_list = list_of(a, b)
        waiting_list.happen(trigger, b.key)
        assert waiting_list.standing_of(b.key) is TRANSITIONS[trigger][Standing.DUE]
        waiting_list.park(alike(a))
        assert waiting_list.standing_of(b.key) is Standing.PARKED_WITH_CLASS
        waiting_list.classes.unpark([alike(a)])
        assert waiting_list.standing_of(b.key) is Standing.DUE


# --- verdicts that bind nobody older (S-4.5.3) -----------------------------------------------------------------------


def test_where_age_counts_a_verdict_binds_those_that_are_not_older() -> None:
    old, at, later = (workload(name, queued=when) for name, when in (("old", 1), ("at", 5), ("later", 9)))
    waiting_list = list_of(old, at, later)
    waiting_list.verdicts.by_age = True
    waiting_list.happen(Trigger.REFUSE, old.key)
    waiting_list.verdicts.bind(shape(at), seconds(5))
    assert (names(waiting_list), sorted(waiting_list.parked)) == (["old"], ["default/at", "default/later"])
    assert list(waiting_list.at[Standing.REFUSED]) == ["default/old"], "it keeps what was found about it"
    assert [waiting_list.verdicts.binds(workload("new", queued=when)) for when in (4, 5, 6)] == [False, True, True]
    waiting_list.enter(workload("older", queued=3))
    assert names(waiting_list) == ["old", "older"]


def test_of_two_verdicts_on_one_shape_the_earlier_time_binds() -> None:
    waiting_list = list_of(workload("a", queued=5))
    waiting_list.verdicts.by_age = True
    of = shape(workload("a"))
    waiting_list.verdicts.bind(of, seconds(5))
    waiting_list.verdicts.bind(of, seconds(2))
    waiting_list.verdicts.bind(of, seconds(7))
    assert waiting_list.verdicts.since == {of: seconds(2)}


def test_where_age_counts_nothing_all_of_a_shape_are_bound() -> None:
    waiting_list = list_of(workload("old", queued=1), workload("at", queued=5))
    waiting_list.verdicts.bind(shape(workload("at")), seconds(5))
    assert (names(waiting_list), waiting_list.verdicts.since) == ([], {shape(workload("at")): DAWN})


def test_who_stands_apart_does_so_no_more_after_a_trial() -> None:
    waiting_list = list_of(*(workload(name, queued=when) for name, when in (("old", 1), ("at", 5), ("later", 9))))
    waiting_list.verdicts.by_age = True
    before = waiting_list.contents()
    with waiting_list.log.trial():
        waiting_list.verdicts.bind(shape(workload("at")), seconds(5))
        assert waiting_list.contents() != before
    assert waiting_list.contents() == before
