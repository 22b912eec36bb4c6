"""Lists of one moment: in order, in pieces, and cheap where little is asked for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from makeway.api.objects.kubernetes import ConfigMap
from makeway.api.objects.meta import ObjectMeta
from makeway.api.versions import kind_of
from makeway.core.model import Millis
from makeway.runtime import ports
from makeway.runtime.ports import FieldTerm, Filter, SeededNames, Stored, kind_key
from makeway.runtime.stores.history import History
from makeway.runtime.stores.pages import FEW, Order
from makeway.runtime.stores.rules import StoreRules

MAPS = kind_of(ConfigMap)
NAMES = st.sampled_from([(namespace, str(i)) for namespace in ("a", "a-b", "b") for i in range(8)])


def objects(*places: tuple[str, str]) -> StoreRules:
    made = StoreRules(History(1_000), lambda: Millis(0), SeededNames())
    for namespace, name in places:
        made.create(ConfigMap(metadata=ObjectMeta(namespace=namespace, name=name)))
    return made


@given(st.lists(st.one_of(NAMES, st.none()), max_size=60))
def test_places_are_in_order_whenever_somebody_looks(steps: list[tuple[str, str] | None]) -> None:
    """A place comes if it is not there, and goes if it is; None reads the order."""
    order = Order()
    there: set[tuple[str, str]] = set()
    for place in steps:
        if place is None:
            assert list(order.places()) == sorted(there)
        elif place in there:
            order.remove(place)
            there.discard(place)
        else:
            order.add(place)
            there.add(place)
    assert list(order.places()) == sorted(there)


def test_many_changes_at_once_are_put_in_order_too() -> None:
    order, places = Order(), [("n", f"{i:03}") for i in range(4 * FEW)]
    for place in reversed(places):
        order.add(place)
    assert list(order.places()) == places
    for place in places[: 2 * FEW]:
        order.remove(place)
    assert list(order.places()) == places[2 * FEW :]


def test_a_namespace_is_not_mistaken_for_one_that_begins_alike() -> None:
    there = objects(("a", "1"), ("a-b", "1"), ("a", "2"), ("b", "1"))
    assert [(each.namespace, each.name) for each in there.list(MAPS, "a").items] == [("a", "1"), ("a", "2")]


@given(st.lists(NAMES, unique=True, max_size=12), st.integers(1, 5), st.booleans())
def test_pages_add_up_to_the_list(places: list[tuple[str, str]], limit: int, selects: bool) -> None:
    there = objects(*places)
    fields = (FieldTerm(("metadata", "name"), "3", is_equal=False),) if selects else ()
    chosen = Filter(kind_key(MAPS), "a", (), fields)
    whole = there.page(MAPS, chosen)
    assert whole.token == ""
    token = ""
    seen: list[Stored] = []
    while True:
        page = there.page(MAPS, chosen, limit=limit, token=token)
        assert len(page.items) <= limit
        seen += page.items
        assert page.remaining == len(whole.items) - len(seen)
        token = page.token
        if not token:
            break
        there.create(ConfigMap(metadata=ObjectMeta(namespace="a", generate_name="later-")))
        there.delete(MAPS, whole.items[-1].namespace, whole.items[-1].name) if len(seen) <= limit else None
    assert tuple(seen) == whole.items


def test_a_field_is_looked_for_once_however_often_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    there = StoreRules(History(1_000), lambda: Millis(0), SeededNames())
    each = there.create(ConfigMap(metadata=ObjectMeta(namespace="a", name="1")))
    looked: list[tuple[str, ...]] = []
    plain = ports.field_text

    def counted(stored: Stored, path: tuple[str, ...]) -> str:
        looked.append(path)
        return plain(stored, path)

    monkeypatch.setattr(ports, "field_text", counted)
    terms = tuple(FieldTerm(("type",), str(i), is_equal=False) for i in range(100))
    assert Filter(kind_key(each.kind), None, (), (*terms, FieldTerm(("metadata", "name"), "1"))).takes(each)
    assert looked == [("type",), ("metadata", "name")]


def test_a_field_that_is_not_set_is_empty_and_others_read_as_text() -> None:
    there = StoreRules(History(1_000), lambda: Millis(0), SeededNames())
    each = there.create(ConfigMap(metadata=ObjectMeta(namespace="a", name="1"), immutable=True))
    for path, text in (
        (("metadata", "name"), "1"),
        (("spec", "x"), ""),
        (("data",), ""),
        (("metadata", "generation"), ""),
        (("immutable",), "true"),
    ):
        assert FieldTerm(path, text).holds(each), path
    assert not FieldTerm(("kind",), "Pod").holds(each)
