"""Setting a condition: what changes, what stays, what is cut."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from makeway.api.conditions import MESSAGE_BYTES_MAX, Status, cut, find, is_true, remove, set_condition
from makeway.api.objects.meta import Condition
from makeway.api.quantity import Time
from makeway.testing.strategies import values

EARLY, LATE = Time.parse("2026-01-01T00:00:00Z"), Time.parse("2026-01-01T00:10:00Z")
STATUSES = st.sampled_from(("True", "False", "Unknown"))
LISTS = st.lists(values(Condition), max_size=4, unique_by=lambda each: each.type).map(tuple)
MILLIS = st.integers(0, 4_102_444_800_000).map(Time.of_millis)


def admitted(status: Status = "True", **changes: Any) -> Condition:
    told = {"reason": "Admitted", "message": "admitted", "last_transition_time": EARLY, **changes}
    return Condition(type="Admitted", status=status, **told)


def test_a_new_condition_comes_last_with_the_time_it_was_set() -> None:
    before = (admitted(),)
    after = set_condition(before, type="Evicted", status="True", reason="Preempted", message="made way", now=LATE)
    assert after[0] is before[0]
    expected = Condition(
        type="Evicted", status="True", reason="Preempted", message="made way", last_transition_time=LATE
    )
    assert after[1:] == (expected,)


def test_a_change_of_status_moves_the_time() -> None:
    (after,) = set_condition(
        (admitted(),), type="Admitted", status="False", reason="NoReservation", message="", now=LATE
    )
    assert after.last_transition_time == LATE


def test_a_change_of_words_alone_does_not_move_the_time() -> None:
    (after,) = set_condition((admitted(),), type="Admitted", status="True", reason="Other", message="new", now=LATE)
    assert (after.reason, after.message, after.last_transition_time) == ("Other", "new", EARLY)


def test_nothing_new_gives_the_same_tuple_back() -> None:
    before = (admitted(),)
    again = set_condition(before, type="Admitted", status="True", reason="Admitted", message="admitted", now=LATE)
    assert again is before


def test_the_observed_generation_is_that_of_the_last_word() -> None:
    before = (admitted(observed_generation=1),)
    (after,) = set_condition(
        before,
        type="Admitted",
        status="True",
        reason="Admitted",
        message="admitted",
        now=LATE,
        observed_generation=2,
    )
    assert (after.observed_generation, after.last_transition_time) == (2, EARLY)


def test_a_stored_condition_without_a_time_gets_one() -> None:
    before = (admitted(last_transition_time=None),)
    (after,) = set_condition(before, type="Admitted", status="True", reason="Admitted", message="admitted", now=LATE)
    assert after.last_transition_time == LATE


def test_times_are_cut_to_the_second_that_is_stored() -> None:
    now = Time.of_millis(LATE.millis + 999)
    (after,) = set_condition((), type="Admitted", status="True", reason="Admitted", message="", now=now)
    assert after.last_transition_time == LATE


def test_messages_are_cut_between_characters() -> None:
    (after,) = set_condition((), type="A", status="True", reason="R", message="x" + "€" * 20_000, now=LATE)
    assert after.message == "x" + "€" * ((MESSAGE_BYTES_MAX - 1) // 3)


def test_unknown_and_absent_are_not_true() -> None:
    assert is_true((admitted(),), "Admitted")
    assert not is_true((admitted("Unknown"),), "Admitted")
    assert not is_true((), "Admitted")


def test_removing_takes_one_and_leaves_the_rest() -> None:
    other = Condition(type="Other", status="True", reason="R", last_transition_time=EARLY)
    both = (admitted(), other)
    assert remove(both, "Admitted") == (other,)
    assert remove(both, "Finished") is both


@pytest.mark.property
@given(before=LISTS, pick=st.integers(0, 4), status=STATUSES, reason=st.text(max_size=5), message=st.text(), now=MILLIS)
def test_setting_touches_one_condition_and_setting_twice_is_setting_once(
    before: tuple[Condition, ...], pick: int, status: Status, reason: str, message: str, now: Time
) -> None:
    types = [*(each.type for each in before), "New"]
    type_ = types[pick % len(types)]
    told: dict[str, Any] = {"type": type_, "reason": reason, "message": message, "now": now}
    after = set_condition(before, status=status, **told)
    old, new = find(before, type_), find(after, type_)
    assert new is not None
    assert (new.status, new.reason, new.message) == (status, reason, message)
    assert [each.type for each in after if each.type != type_] == [each.type for each in before if each.type != type_]
    assert [each for each in after if each.type != type_] == [each for each in before if each.type != type_]
    assert len(after) == len(before) + (old is None)
    if old is not None and old.status == status:
        assert new.last_transition_time == old.last_transition_time
    else:
        assert new.last_transition_time == Time.of_millis(now.seconds * 1000)
    assert set_condition(after, status=status, **told) is after
    assert (after is before) == (after == before)


@pytest.mark.property
@given(text=st.text(max_size=40), bytes_max=st.integers(0, 60))
def test_a_cut_is_the_longest_beginning_that_fits(text: str, bytes_max: int) -> None:
    kept = cut(text, bytes_max)
    assert text.startswith(kept)
    assert len(kept.encode()) <= bytes_max
    assert kept == text or len(text[: len(kept) + 1].encode()) > bytes_max
