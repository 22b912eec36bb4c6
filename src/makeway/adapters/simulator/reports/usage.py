"""Quota over time: how much a queue used, borrowed and lent, in amounts times milliseconds.

A queue that uses more than its nominal quota of a flavor-resource borrows the rest. What is borrowed in a tree comes
from the queues of that tree with idle quota, from each in proportion to its idle quota that may be lent. What is
borrowed beyond that comes from the cohorts' own quota, and counts for no lender.

The algorithm sweeps over the beginnings and ends of stays, and handles only the queue that changes. The amount lent so
far per unit of idle quota is one running sum per tree, so that the cost of a step does not grow with the queues.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from makeway.core.model import FR

FRACTION_BITS = 128  # of the running sum: over any run the error stays far below one amount times millisecond


class Stay(NamedTuple):
    """A workload held this much quota from one time to another."""

    began_at: int
    ended_at: int
    usage: Mapping[FR, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaUse:
    """The use of a quota; all but ``nominal`` and ``peak`` are amounts times milliseconds."""

    of: FR
    nominal: int
    peak: int | None  # the greatest use at a time; None: unknown, for several queues together
    offered: int  # the nominal quota over the whole time
    used: int
    borrowed: int  # used above nominal
    lent: int  # used by others


Nominal = Mapping[str, Mapping[FR, int]]


def quota_uses(
    stays: Mapping[str, Iterable[Stay]],
    nominal: Nominal,
    cohorts: Mapping[str, str],
    lending_limits: Nominal,
    began_at: int,
    ended_at: int,
) -> dict[str, tuple[QuotaUse, ...]]:
    """For every queue of ``stays``, the use of each quota that it owns or used."""
    changes = _changes(stays)
    trees: dict[tuple[bool, str], list[str]] = {}  # a cohort and a queue may have the same name
    for name in sorted(stays):
        tree = (True, cohorts[name]) if name in cohorts else (False, name)
        trees.setdefault(tree, []).append(name)
    found: dict[str, list[QuotaUse]] = {name: [] for name in stays}
    for names in trees.values():
        owned = {of for name in names for of in nominal.get(name, {})}
        for of in sorted(owned | {of for name in names for of in changes[name]}):
            sweep = _Sweep(began_at)
            for name in names:
                own = nominal.get(name, {}).get(of, 0)
                sweep.join(name, own, lending_limits.get(name, {}).get(of, own))
            sweep.run(sorted((at, name, delta) for name in names for at, delta in changes[name].get(of, ())), ended_at)
            for name in names:
                if of in nominal.get(name, {}) or of in changes[name]:
                    found[name].append(sweep.use(name, of, ended_at - began_at))
    return {name: tuple(uses) for name, uses in found.items()}


def _changes(stays: Mapping[str, Iterable[Stay]]) -> dict[str, dict[FR, list[tuple[int, int]]]]:
    """For every queue and flavor-resource, the changes of its use with their times."""
    found: dict[str, dict[FR, list[tuple[int, int]]]] = {}
    for name, each in stays.items():
        changes = found.setdefault(name, {})
        for began, ended, usage in each:
            for of, amount in usage.items():
                changes.setdefault(of, []).extend(((began, amount), (ended, -amount)))
    return found


@dataclass(slots=True)
class _Account:
    """One queue's part in a sweep."""

    nominal: int
    limit: int  # the lending limit
    since: int
    lent_until: int = 0  # the running sum of its tree at the last update
    use: int = 0
    over: int = 0
    idle: int = 0
    peak: int = 0
    used: int = 0
    borrowed: int = 0
    lent: int = 0  # scaled by ``FRACTION_BITS``


class _Sweep:
    """One flavor-resource of one tree over time."""

    def __init__(self, began_at: int) -> None:
        self._accounts: dict[str, _Account] = {}
        self._began = self._now = began_at
        self._over = 0  # borrowed at present
        self._idle = 0  # lendable at present
        self._lent_per_unit = 0  # the running sum, scaled

    def join(self, name: str, nominal: int, limit: int) -> None:
        account = _Account(nominal, limit, self._began, idle=max(0, min(nominal, limit)))
        self._accounts[name] = account
        self._idle += account.idle

    def run(self, changes: Sequence[tuple[int, str, int]], ended_at: int) -> None:
        for at, name, delta in changes:
            self._advance(at)
            self._change(self._accounts[name], delta)
        self._advance(ended_at)
        for account in self._accounts.values():
            self._settle(account)

    def use(self, name: str, of: FR, span_ms: int) -> QuotaUse:
        account = self._accounts[name]
        half = 1 << (FRACTION_BITS - 1)
        return QuotaUse(
            of=of, nominal=account.nominal, peak=account.peak, offered=account.nominal * span_ms, used=account.used,
            borrowed=account.borrowed, lent=(account.lent + half) >> FRACTION_BITS,
        )  # fmt: skip

    def _advance(self, at: int) -> None:
        if at > self._now:
            if self._over and self._idle:
                scaled = min(self._over, self._idle) << FRACTION_BITS
                self._lent_per_unit += scaled * (at - self._now) // self._idle
            self._now = at

    def _change(self, account: _Account, delta: int) -> None:
        self._settle(account)
        self._over -= account.over
        self._idle -= account.idle
        account.use += delta
        free = account.nominal - account.use
        account.over = -free if free < 0 else 0
        account.idle = 0 if free < 0 else free if free < account.limit else account.limit
        self._over += account.over
        self._idle += account.idle

    def _settle(self, account: _Account) -> None:
        """Bring an account up to date; nothing has changed in it since the last update."""
        lasted = self._now - account.since
        if lasted:
            account.used += account.use * lasted
            account.borrowed += account.over * lasted
            if account.use > account.peak:
                account.peak = account.use
            account.since = self._now
        if account.lent_until != self._lent_per_unit:
            account.lent += account.idle * (self._lent_per_unit - account.lent_until)
            account.lent_until = self._lent_per_unit


def total_uses(of_queues: Iterable[Iterable[QuotaUse]]) -> tuple[QuotaUse, ...]:
    """The sums of all queues."""
    sums: dict[FR, list[int]] = {}
    for uses in of_queues:
        for use in uses:
            numbers = (use.nominal, use.offered, use.used, use.borrowed, use.lent)
            sums[use.of] = [a + b for a, b in zip(sums.get(use.of, [0] * 5), numbers, strict=True)]
    return tuple(
        QuotaUse(of=of, nominal=nominal, peak=None, offered=offered, used=used, borrowed=borrowed, lent=lent)
        for of, (nominal, offered, used, borrowed, lent) in sorted(sums.items())
    )


# --- through time ----------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Course:
    """The use in equal parts of a span: exact sums for any times."""

    began_at: int
    ended_at: int
    parts: int
    _whole: list[int] = field(init=False)  # changes of the level, for stays that fill whole parts
    _pieces: list[int] = field(init=False)  # amounts times milliseconds, for stays that begin or end inside a part

    def __post_init__(self) -> None:
        self.parts = max(1, min(self.parts, self.ended_at - self.began_at))  # a part lasts at least a millisecond
        self._whole = [0] * (self.parts + 1)
        self._pieces = [0] * self.parts

    def edge(self, part: int) -> int:
        return self.began_at + part * (self.ended_at - self.began_at) // self.parts

    def part_of(self, at: int) -> int:
        """The part of a moment; the end of the span belongs to the last part."""
        span = max(1, self.ended_at - self.began_at)
        return min(self.parts - 1, ((at - self.began_at + 1) * self.parts - 1) // span)

    def add(self, began: int, ended: int, amount: int) -> None:
        """Add an amount that is held for some time; the cost does not depend on the duration."""
        if began >= ended:
            return
        first, last = self.part_of(began), self.part_of(ended - 1)
        if first == last:
            self._pieces[first] += amount * (ended - began)
            return
        self._pieces[first] += amount * (self.edge(first + 1) - began)
        self._pieces[last] += amount * (ended - self.edge(last))
        self._whole[first + 1] += amount
        self._whole[last] -= amount

    def means(self) -> list[int]:
        """The mean level of every part, rounded down."""
        level, found = 0, []
        for part in range(self.parts):
            level += self._whole[part]
            length = self.edge(part + 1) - self.edge(part)
            found.append(level + self._pieces[part] // length if length else 0)
        return found
