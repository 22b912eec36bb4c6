"""What is stored and what is expected, under events that come late, twice and out of order."""

from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from makeway.api.objects.meta import KubernetesObject, ObjectMeta
from makeway.controllers.contract import Edit, KindName, Ref
from makeway.runtime.objects import ObjectCache

THING = cast("KindName[Thing]", "Thing")
REF = Ref(THING, "ns", "a")


class Thing(KubernetesObject, frozen=True):
    value: int = 0
    kind: str = "Thing"
    metadata: ObjectMeta = ObjectMeta(namespace="ns", name="a", uid="u")


def thing(value: int) -> Thing:
    return Thing(value=value)


def plus(amount: int) -> Edit[Thing]:
    return lambda it: thing(it.value + amount)


class Ears:
    def __init__(self) -> None:
        self.stored: list[tuple[Any, Any]] = []
        self.expected: list[tuple[Any, Any]] = []
        self.objects = ObjectCache(
            lambda ref, before, after: self.stored.append((before, after)),
            lambda ref, before, after: self.expected.append((before, after)),
        )


@pytest.fixture
def ears() -> Ears:
    return Ears()


def test_the_newest_revision_wins(ears: Ears) -> None:
    assert ears.objects.see(REF, thing(5), 5)
    assert not ears.objects.see(REF, thing(4), 4)
    assert not ears.objects.see(REF, thing(5), 5)
    assert ears.objects.get(REF) == thing(5)
    assert ears.stored == [(None, thing(5))]


def test_what_is_gone_stays_gone_when_older_news_arrives(ears: Ears) -> None:
    ears.objects.see(REF, thing(5), 5)
    assert ears.objects.see_gone(REF, 8)
    assert not ears.objects.see(REF, thing(7), 7)
    assert ears.objects.get(REF) is None
    assert ears.objects.see(REF, thing(9), 9), "made anew"


def test_a_late_removal_does_not_take_what_was_made_since(ears: Ears) -> None:
    ears.objects.see(REF, thing(9), 9)
    assert not ears.objects.see_gone(REF, 8)
    assert ears.objects.get(REF) == thing(9)


def test_what_a_write_will_do_is_expected_until_it_is_answered(ears: Ears) -> None:
    ears.objects.see(REF, thing(1), 1)
    ears.objects.assume(REF, 1, plus(10))
    assert (ears.objects.get(REF), ears.objects.expected(REF)) == (thing(1), thing(11))
    ears.objects.see(REF, thing(11), 2, settles=1)
    assert (ears.objects.get(REF), ears.objects.expected(REF)) == (thing(11), thing(11))
    assert ears.expected == [(None, thing(1)), (thing(1), thing(11)), (thing(11), thing(11))]


def test_a_write_that_failed_is_no_longer_expected(ears: Ears) -> None:
    ears.objects.see(REF, thing(1), 1)
    ears.objects.assume(REF, 1, plus(10))
    ears.objects.settle(REF, 1)
    assert ears.objects.expected(REF) == thing(1)
    assert ears.expected[-1] == (thing(11), thing(1))


def test_news_from_others_keeps_what_is_expected(ears: Ears) -> None:
    ears.objects.see(REF, thing(1), 1)
    ears.objects.assume(REF, 1, plus(10))
    ears.objects.see(REF, thing(2), 2)
    assert ears.objects.expected(REF) == thing(12)


def test_writes_of_one_object_are_expected_in_their_order(ears: Ears) -> None:
    ears.objects.see(REF, thing(1), 1)
    ears.objects.assume(REF, 1, plus(10))
    ears.objects.assume(REF, 2, lambda it: thing(it.value * 2))
    assert ears.objects.expected(REF) == thing(22)
    ears.objects.settle(REF, 1)
    assert ears.objects.expected(REF) == thing(2)


def test_an_edit_that_no_longer_applies_changes_nothing(ears: Ears) -> None:
    ears.objects.see(REF, thing(1), 1)
    ears.objects.assume(REF, 1, lambda it: None)
    assert ears.objects.expected(REF) == thing(1)


def test_quietly_means_the_state_is_not_told(ears: Ears) -> None:
    ears.objects.see(REF, thing(1), 1)
    ears.expected.clear()
    ears.objects.assume(REF, 1, plus(10), quietly=True)
    assert ears.expected == []
    assert ears.objects.expected(REF) == thing(11)


def test_all_are_told_in_the_order_of_their_names(ears: Ears) -> None:
    for name in ("b", "c", "a"):
        ears.objects.see(Ref(THING, "ns", name), thing(ord(name)), 1)
    assert [each.value for each in ears.objects.all(THING)] == [97, 98, 99]
    assert ears.objects.count("Thing") == 3


@pytest.mark.property
@given(st.lists(st.tuples(st.integers(1, 9), st.booleans()), max_size=30))
def test_any_order_of_the_same_history_ends_alike(events: list[tuple[int, bool]]) -> None:
    """A history gives each revision one meaning; however its events are mixed and repeated, the last one counts."""
    history = {revision: (revision % 3 == 0) for revision, _ in events}  # every third revision is a removal
    in_order, mixed = Ears(), Ears()
    for revision in sorted(history):
        _tell(in_order.objects, revision, history[revision])
    for revision, again in events:
        _tell(mixed.objects, revision, history[revision])
        if again:
            _tell(mixed.objects, revision, history[revision])
    assert in_order.objects.get(REF) == mixed.objects.get(REF)


def _tell(objects: ObjectCache, revision: int, gone: bool) -> None:
    if gone:
        objects.see_gone(REF, revision)
    else:
        objects.see(REF, thing(revision), revision)
