"""The undo log: what is done in a trial is undone, in the reverse order, even on error."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from makeway.core.undo import UndoLog


def test_outside_a_trial_nothing_is_kept_to_be_undone() -> None:
    log, table = UndoLog(), {"a": 1}
    log.put(table, "a", 2)
    log.drop(table, "b")
    with log.trial():
        pass
    assert table == {"a": 2}


def test_a_trial_gives_back_what_was_written_changed_and_dropped() -> None:
    log, table = UndoLog(), {"a": 1, "b": 2}
    with log.trial():
        log.put(table, "a", 9)
        log.put(table, "new", 9)
        log.drop(table, "b")
        log.drop(table, "never there")
        assert table == {"a": 9, "new": 9}
    assert table == {"a": 1, "b": 2}


def test_a_trial_gives_back_the_values_of_attributes() -> None:
    class Part:
        wakes = 1

    log, part = UndoLog(), Part()
    log.set(part, "wakes", 2)
    with log.trial():
        log.set(part, "wakes", 3)
        log.set(part, "wakes", 4)
        assert part.wakes == 4
    assert part.wakes == 2


def test_an_error_inside_a_trial_undoes_it_too() -> None:
    log, table = UndoLog(), {"a": 1}

    def fails() -> None:
        with log.trial():
            log.put(table, "a", 2)
            raise KeyError

    with pytest.raises(KeyError):
        fails()
    assert table == {"a": 1}
    log.put(table, "a", 3)
    with log.trial():
        pass
    assert table == {"a": 3}, "the trial is over: nothing is undone any more"


def test_an_attempt_stays_unless_an_error_ends_it() -> None:
    log, table = UndoLog(), {"a": 1}
    with log.attempt():
        log.put(table, "a", 2)
    assert (table, log.trials) == ({"a": 2}, 0)

    def fails() -> None:
        with log.attempt():
            log.put(table, "a", 3)
            log.drop(table, "a")
            raise KeyError

    with pytest.raises(KeyError):
        fails()
    assert (table, log.trials) == ({"a": 2}, 0)


def test_a_trial_undoes_the_attempts_inside_it() -> None:
    log, table = UndoLog(), {"a": 1}
    with log.trial():
        with log.attempt():
            log.put(table, "a", 2)
        assert table == {"a": 2}
    assert table == {"a": 1}


def test_a_trial_can_be_rewound_to_a_mark_and_go_on() -> None:
    log, table = UndoLog(), {"a": 1}
    outer = log.begin()
    log.put(table, "a", 2)
    inner = log.begin()
    log.put(table, "a", 3)
    log.rewind(inner)
    assert table == {"a": 2}
    log.put(table, "a", 4)
    log.end(inner)
    assert table == {"a": 2}
    log.end(outer)
    assert table == {"a": 1}


Writes = list[tuple[str, int | None]]
writes = st.lists(st.tuples(st.sampled_from("abc"), st.none() | st.integers(0, 3)), max_size=6)


def play(log: UndoLog, table: dict[str, int], moves: Writes) -> None:
    for key, value in moves:
        if value is None:
            log.drop(table, key)
        else:
            log.put(table, key, value)


@pytest.mark.property
@given(before=writes, outer=writes, inner=writes, after=writes)
def test_trials_nest(before: Writes, outer: Writes, inner: Writes, after: Writes) -> None:
    log, table = UndoLog(), dict[str, int]()
    play(log, table, before)
    start = dict(table)
    with log.trial():
        play(log, table, outer)
        middle = dict(table)
        with log.trial():
            play(log, table, inner)
        assert table == middle
        play(log, table, after)
    assert table == start
