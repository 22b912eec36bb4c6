"""Counters, gauges and histograms, and the text in which they are read (Prometheus exposition format 0.0.4).

A series may have an *owner*: the object that its labels name, such as a queue. The series of an owner can be forgotten
together, at a cost that grows with their number and not with that of all others.

Promises: equal numbers give equal text, whatever the order in which they came; integers are printed in full, however
large; a text is made from a copy of each table, so that another thread may ask for it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Hashable, Iterator, Mapping, Sequence
from math import inf, isinf, isnan
from typing import TypeVar

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
EXACT_MAX = 2**53  # floats up to this size are whole where they say so

F = TypeVar("F", bound="Family")
Number = int | float
Labels = tuple[str, ...]  # values, in the order of the family's label names
Sample = tuple[str, tuple[tuple[str, str], ...], Number]  # what is appended to the name, further labels, value


class Family(ABC):
    """All series of one name. ``shared``: it also carries the labels that the registry gives to all.

    ``owner``: those of its labels that name the owner of a series.
    """

    kind = "untyped"

    def __init__(self, name: str, words: str, labels: Labels, *, shared: bool = True, owner: Labels = ()) -> None:
        self.name = name
        self.words = words
        self.labels = labels
        self.shared = shared
        self.owner = owner
        self._owner_at = tuple(map(labels.index, owner))
        self._of_owner: dict[Labels, list[Labels]] = {}

    @abstractmethod
    def samples(self) -> Iterator[tuple[Labels, Sample]]:
        """The values of all series."""

    def forget(self, owner: Labels) -> None:
        """Drop the series of an owner; new ones begin at zero."""
        for labels in self._of_owner.pop(owner, ()):
            self._drop(labels)

    def _note(self, labels: Labels) -> None:
        """A series is new."""
        if self._owner_at:
            self._of_owner.setdefault(tuple(labels[at] for at in self._owner_at), []).append(labels)

    @abstractmethod
    def _drop(self, labels: Labels) -> None:
        """Drop one series."""


class Counter(Family):
    kind = "counter"

    def __init__(self, name: str, words: str, labels: Labels, *, shared: bool = True, owner: Labels = ()) -> None:
        super().__init__(name, words, labels, shared=shared, owner=owner)
        self.values: dict[Labels, Number] = {}

    def add(self, *labels: str, amount: Number = 1) -> None:
        before = self.values.get(labels)
        if before is None:
            self._note(labels)
        self.values[labels] = amount if before is None else before + amount

    def _drop(self, labels: Labels) -> None:
        del self.values[labels]

    def samples(self) -> Iterator[tuple[Labels, Sample]]:
        for labels, value in sorted(self.values.items()):
            yield labels, ("", (), value)


class Gauge(Counter):
    """Series are set one by one, or all those of a group at once: a series that the group had and lacks now is gone.

    Series go with their group, so a gauge has no owners.
    """

    kind = "gauge"

    def __init__(self, name: str, words: str, labels: Labels, *, shared: bool = True) -> None:
        super().__init__(name, words, labels, shared=shared)
        self._groups: dict[Hashable, tuple[Labels, ...]] = {}

    def set(self, *labels: str, value: Number) -> None:
        self.values[labels] = value

    def remove(self, *labels: str) -> None:
        self.values.pop(labels, None)

    def set_group(self, group: Hashable, values: Mapping[Labels, Number]) -> None:
        for labels in self._groups.pop(group, ()):
            if labels not in values:
                self.values.pop(labels, None)
        if values:
            self._groups[group] = tuple(values)
            self.values.update(values)


class Histogram(Family):
    kind = "histogram"

    def __init__(
        self, name: str, words: str, labels: Labels, *, bounds: tuple[Number, ...], owner: Labels = ()
    ) -> None:
        super().__init__(name, words, labels, owner=owner)
        self.bounds = (*bounds, inf)
        self.counts: dict[Labels, list[int]] = {}  # per bound, those above the bound before it
        self.sums: dict[Labels, Number] = {}

    def observe(self, *labels: str, value: Number) -> None:
        counts = self.counts.get(labels)
        if counts is None:
            self._note(labels)
            counts = self.counts[labels] = [0] * len(self.bounds)
        counts[bisect_left(self.bounds, value)] += 1
        self.sums[labels] = self.sums.get(labels, 0) + value

    def _drop(self, labels: Labels) -> None:
        del self.counts[labels], self.sums[labels]

    def samples(self) -> Iterator[tuple[Labels, Sample]]:
        for labels, counts in sorted(self.counts.items()):
            total = 0
            for bound, count in zip(self.bounds, list(counts), strict=True):
                total += count
                yield labels, ("_bucket", (("le", number(bound)),), total)
            yield labels, ("_sum", (), self.sums.get(labels, 0))
            yield labels, ("_count", (), total)


class Registry:
    """All families, in the order in which they were made. ``shared`` are labels that nearly all of them carry.

    ``owners``: sets of labels that name an owner. Of those that a counter or histogram has, the first one counts.
    """

    def __init__(self, shared: Mapping[str, str] | None = None, owners: Sequence[Labels] = ()) -> None:
        self.shared = dict(shared or {})
        self.families: dict[str, Family] = {}
        self._owners = tuple(owners)

    def counter(self, name: str, words: str, *labels: str) -> Counter:
        return self._keep(Counter(name, words, labels, owner=self._owner_in(labels)))

    def gauge(self, name: str, words: str, *labels: str, shared: bool = True) -> Gauge:
        return self._keep(Gauge(name, words, labels, shared=shared))

    def histogram(self, name: str, words: str, *labels: str, bounds: tuple[Number, ...]) -> Histogram:
        return self._keep(Histogram(name, words, labels, bounds=bounds, owner=self._owner_in(labels)))

    def forget(self, **owner: str) -> None:
        """Drop what counters and histograms have of an owner: the labels that name it, and their values."""
        names, values = tuple(owner), tuple(owner.values())
        for family in self.families.values():
            if family.owner == names:
                family.forget(values)

    def text(self) -> str:
        return "".join(line for family in list(self.families.values()) for line in self._lines(family))

    def _owner_in(self, labels: Labels) -> Labels:
        return next((owner for owner in self._owners if set(owner) <= set(labels)), ())

    def _keep(self, family: F) -> F:
        self.families[family.name] = family
        return family

    def _lines(self, family: Family) -> Iterator[str]:
        yield f"# HELP {family.name} {_escaped(family.words)}\n"
        yield f"# TYPE {family.name} {family.kind}\n"
        shared = tuple(self.shared.items()) if family.shared else ()
        for labels, (suffix, further, value) in family.samples():
            pairs = (*zip(family.labels, labels, strict=True), *shared, *further)
            inside = ",".join(f'{name}="{_quoted(each)}"' for name, each in pairs)
            yield f"{family.name}{suffix}{{{inside}}} {number(value)}\n"


def number(value: Number) -> str:
    if isinstance(value, int):
        return str(int(value))
    if isnan(value):
        return "NaN"
    if isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return str(int(value)) if value.is_integer() and abs(value) <= EXACT_MAX else repr(value)


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n")


def _quoted(text: str) -> str:
    return _escaped(text).replace('"', r"\"")
