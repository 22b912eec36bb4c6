"""One line: kin that is parked and woken together, who stands apart, and the least that anybody at rest asks for."""

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


def line_of(*members: Workload) -> WaitingList:
    line = WaitingList(UndoLog())
    for each in members:
        line.enter(each)
    return line


def names(line: WaitingList) -> list[str]:
    return [key.partition("/")[2] for key in line.ordered()]


def kin(of: Workload) -> tuple[object, ...]:
    return (shape(of), of.namespace)


def test_kin_rests_and_rises_together_however_many_they_are() -> None:
    small = [workload(f"s{i}", cpu=1, queued=i) for i in range(3)]
    line = line_of(*small, workload("big", cpu=4, queued=1))
    assert names(line) == ["s0", "big", "s1", "s2"]
    line.park(kin(small[0]))
    assert names(line) == ["big"]
    assert sorted(line.parked) == ["default/s0", "default/s1", "default/s2"]
    assert (len(line.parked), len(line.waiting)) == (3, 1)
    line.classes.unpark([kin(small[0])])
    assert names(line) == ["s0", "big", "s1", "s2"]


def test_who_must_be_in_the_line_stands_apart_from_kin_that_rests() -> None:
    a, b = workload("a", queued=1), workload("b", queued=2)
    line = line_of(a)
    line.park(kin(a))
    line.enter(b)
    assert (names(line), list(line.parked)) == (["b"], ["default/a"])
    line.classes.unpark([kin(a)])
    assert names(line) == ["a", "b"]


def test_who_joins_resting_kin_rests() -> None:
    a, b = workload("a", queued=2), workload("b", queued=1)
    line = line_of(a)
    line.enter(b, parked=True)
    assert names(line) == []
    line.classes.unpark([kin(a)])
    assert names(line) == ["b", "a"]


def test_the_last_of_a_kin_takes_it_along() -> None:
    a = workload("a")
    line = line_of(a)
    line.park(kin(a))
    line.leave(a.key)
    line.enter(a)
    assert names(line) == ["a"], "nobody is left who rests"
    assert "default/x" not in line.waiting
    with pytest.raises(KeyError):
        line.parked[a.key]


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


def test_the_least_that_is_asked_for_by_those_at_rest() -> None:
    a, b = workload("a", cpu=4, priority=1), workload("b", cpu=2, priority=9)
    line = line_of(a, b)
    line.park(kin(a))
    least = line.classes.least_of_parked()
    assert least is not None
    assert (least.priority, dict(least.amounts)) == (1, {"cpu": 4000})
    line.park(kin(b))
    least = line.classes.least_of_parked()
    assert least is not None
    assert (least.priority, dict(least.amounts)) == (9, {"cpu": 2000})
    line.enter(workload("c", pod_sets=(pod_set("x", cpu=1), pod_set("y", cpu=9))), parked=True)
    assert line.classes.least_of_parked() is None, "of two podSets nothing is said"


PARKED = (Standing.PARKED_SINGLY, Standing.PARKED_WITH_CLASS)
TRIGGERS = {trigger.name: trigger for trigger in Trigger}


@pytest.mark.property
@given(
    st.lists(
        st.tuples(st.sampled_from("abcdef"), st.sampled_from(["enter", "rest", "rise", "leave", "alone", *TRIGGERS]))
    )
)
def test_whatever_happens_in_a_trial_is_undone_and_the_line_is_in_order(story: list[tuple[str, str]]) -> None:
    members = {name: workload(name, cpu=ord(name) % 2 + 1, queued=ord(name) % 3) for name in "abcdef"}
    line = line_of(members["a"], members["b"])
    before = line.contents()
    with line.log.trial():
        for name, what in story:
            _happen(line, members[name], what)
            in_line = [line.members[key] for key in line.ordered()]
            assert in_line == sorted(in_line, key=lambda each: (each.queued_at, each.uid))
            assert {each.key for each in in_line} == set(line.waiting)
            assert len(line.waiting) + len(line.parked) == len(line.members)
            standings = {key: line.standing_of(key) for key in line.members}
            for own in (*AWAITS_WAKE, Standing.PARKED_SINGLY):
                assert set(line.at[own]) == {key for key, standing in standings.items() if standing is own}
            assert {key for key, standing in standings.items() if standing in PARKED} == set(line.parked)
    assert line.contents() == before


def _happen(line: WaitingList, who: Workload, what: str) -> None:
    known = line.classes.of.get(who.key)
    if what in TRIGGERS:
        line.happen(TRIGGERS[what], who.key)
    elif what == "leave":
        line.leave(who.key)
    elif what == "enter" and who.key not in line.members:
        line.enter(who)
    elif what == "alone" and who.key not in line.members:
        line.park_singly(who)
    elif what == "rest" and known is not None:
        line.park(known)
    elif what == "rise" and known in line.classes.parked:
        assert known is not None
        line.classes.unpark([known])


def test_what_becomes_of_one_that_is_parked_only_its_list_decides() -> None:
    a, b = workload("a"), workload("b", queued=2)
    line = line_of(a)
    line.park(kin(a))
    line.park_singly(b)
    for trigger in Trigger:
        line.happen(trigger, a.key)
        line.happen(trigger, b.key)
    assert line.standing_of(a.key) is Standing.PARKED_WITH_CLASS
    assert line.standing_of(b.key) is Standing.PARKED_SINGLY


def test_a_refusal_gives_way_to_the_verdict_on_the_class() -> None:
    a, b = workload("a", queued=1), workload("b", queued=2)
    for trigger in (Trigger.REFUSE, Trigger.HOLD_BACK, Trigger.BLOCK):
        line = line_of(a, b)
        line.happen(trigger, b.key)
        assert line.standing_of(b.key) is TRANSITIONS[trigger][Standing.DUE]
        line.park(kin(a))
        assert line.standing_of(b.key) is Standing.PARKED_WITH_CLASS
        line.classes.unpark([kin(a)])
        assert line.standing_of(b.key) is Standing.DUE


# --- verdicts that bind nobody older (S-4.5.3) -----------------------------------------------------------------------


def test_where_age_counts_a_verdict_binds_those_that_are_not_older() -> None:
    old, at, later = (workload(name, queued=when) for name, when in (("old", 1), ("at", 5), ("later", 9)))
    line = line_of(old, at, later)
    line.verdicts.by_age = True
    line.happen(Trigger.REFUSE, old.key)
    line.verdicts.bind(shape(at), seconds(5))
    assert (names(line), sorted(line.parked)) == (["old"], ["default/at", "default/later"])
    assert list(line.at[Standing.REFUSED]) == ["default/old"], "it keeps what was found about it"
    assert [line.verdicts.binds(workload("new", queued=when)) for when in (4, 5, 6)] == [False, True, True]
    line.enter(workload("older", queued=3))
    assert names(line) == ["old", "older"]


def test_of_two_verdicts_on_one_shape_the_earlier_time_binds() -> None:
    line = line_of(workload("a", queued=5))
    line.verdicts.by_age = True
    of = shape(workload("a"))
    line.verdicts.bind(of, seconds(5))
    line.verdicts.bind(of, seconds(2))
    line.verdicts.bind(of, seconds(7))
    assert line.verdicts.since == {of: seconds(2)}


def test_where_age_counts_nothing_all_of_a_shape_are_bound() -> None:
    line = line_of(workload("old", queued=1), workload("at", queued=5))
    line.verdicts.bind(shape(workload("at")), seconds(5))
    assert (names(line), line.verdicts.since) == ([], {shape(workload("at")): DAWN})


def test_who_stands_apart_does_so_no_more_after_a_trial() -> None:
    line = line_of(*(workload(name, queued=when) for name, when in (("old", 1), ("at", 5), ("later", 9))))
    line.verdicts.by_age = True
    before = line.contents()
    with line.log.trial():
        line.verdicts.bind(shape(workload("at")), seconds(5))
        assert line.contents() != before
    assert line.contents() == before
