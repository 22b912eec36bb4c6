"""Who must leave a domain so that the members get their places (S-15.4): a gang's is the cluster, a pod's a node.

In this order: with all who might leave gone there is a place at all; budgets protect whom they can; the least priority
N that suffices is found, everyone above stays; the members get places where the least must leave; who still fits
beside them stays too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from makeway.core.placement.cluster.arrays import Bools, Ints
from makeway.core.placement.fit import place_gang, placed
from makeway.core.placement.preemption.cheapest import CheapestPlaces
from makeway.core.placement.preemption.exchange import improved
from makeway.core.placement.preemption.reprieve import reprieve
from makeway.core.placement.snapshot import NodeSnapshot, Places, Saved
from makeway.core.placement.units import violating_pods


@dataclass(slots=True)
class VictimSelection:
    """``going`` empty: there was a place without anyone leaving, though the first look missed it."""

    places: Places
    going: Bools
    beyond: Ints  # of each unit the pods beyond their budgets
    n: int
    saved_by_budget: Bools
    above: Bools  # who stays because its priority is above N
    failed_at: list[int] = field(default_factory=list)  # priorities that did not suffice

    def violations(self) -> int:
        return int(self.beyond[self.going].sum())


def select_victims(snapshot: NodeSnapshot, need: int, among: Bools) -> VictimSelection | None:
    """The least that must leave, of the units ``among``; None: even all of them are not enough. Leaves no mark."""
    standing = snapshot.save()
    try:
        return _contest(snapshot, need, among)
    finally:
        snapshot.load(standing)


def _contest(snapshot: NodeSnapshot, need: int, among: Bools) -> VictimSelection | None:
    standing = snapshot.save()
    snapshot.take_out(among)
    open_field = snapshot.save()
    places = place_gang(snapshot, need)
    if places is None:
        return None
    beyond = violating_pods(snapshot.state, snapshot.units, among)
    saved = np.zeros_like(among)
    if beyond.any():
        places, saved = _budget_pass(snapshot, need, among, beyond, places, open_field)
    going = among & ~saved
    search = _Search(snapshot, need, going, standing)
    n = search.threshold()
    result = VictimSelection(places, going, beyond, n, saved, np.zeros_like(going), search.failed_at)
    if search.missed:  # unlike members only: the placement that served the budgets serves again
        snapshot.load(standing)
        snapshot.take_out(going)
        result.going = going & ~_reprieved(snapshot, snapshot.save(), places, going)
        return result
    result.above = going & (snapshot.units.priority > n)
    going = going & ~result.above
    snapshot.load(standing)
    snapshot.take_out(going)
    result.places, result.going = _final(snapshot, need, going, beyond)
    return result


def _budget_pass(
    snapshot: NodeSnapshot, need: int, among: Bools, beyond: Ints, places: Places, open_field: tuple[Ints, list[Ints]]
) -> tuple[Places, Bools]:
    """Whom budgets protect comes back first; members sit where most of these can. The seats are not kept (S-15.4.4)."""
    violating = among & (beyond > 0)
    if not snapshot.related:
        snapshot.load(open_field)
        better = CheapestPlaces(snapshot, violating, beyond).places()
        if placed(better) >= placed(places):
            places = better
        else:
            snapshot.load(open_field)
            places = place_gang(snapshot, need) or places
    return places, reprieve(snapshot, places, violating)


def _final(snapshot: NodeSnapshot, need: int, going: Bools, beyond: Ints) -> tuple[Places, Bools]:
    """Places where least must leave, and who must (S-15.4.7, 15.4.8)."""
    open_field = snapshot.save()
    if snapshot.related:
        places = place_gang(snapshot, need)
        assert places is not None  # this is the probe that found N
        return places, going & ~reprieve(snapshot, places, going)
    places = CheapestPlaces(snapshot, going, beyond).places()
    if not snapshot.alike:  # then the cheapest nodes one after another may leave no room for some
        snapshot.load(open_field)
        by_rule = place_gang(snapshot, need)
        if by_rule is not None and placed(by_rule) > placed(places):
            places = by_rule
    leaving = going & ~_reprieved(snapshot, open_field, places, going)
    if not snapshot.state.thorough:
        return places, leaving
    best = improved(snapshot, open_field, places, leaving, beyond, going)
    return best, leaving if best is places else going & ~_reprieved(snapshot, open_field, best, going)


def _reprieved(snapshot: NodeSnapshot, open_field: Saved, places: Places, going: Bools) -> Bools:
    snapshot.load(open_field)
    snapshot.occupy_all(places)
    return reprieve(snapshot, places, going)


class _Search:
    """The least priority N such that the members have places with only units up to N gone; placed anew every time."""

    def __init__(self, snapshot: NodeSnapshot, need: int, going: Bools, standing: tuple[Ints, list[Ints]]) -> None:
        self._room = snapshot
        self._need = need
        self._going = going
        self._standing = standing
        self._priorities: Sequence[int] = sorted(set(snapshot.units.priority[going].tolist()))
        self.failed_at: list[int] = []
        self.missed = False

    def threshold(self) -> int:
        if self._room.leaving_can_hurt:
            return self._upwards()
        low, high = 0, len(self._priorities) - 1
        while low < high:
            middle = (low + high) // 2
            if self._suffices(self._priorities[middle]):
                high = middle
            else:
                low = middle + 1
        if not self._priorities:  # all were saved by budgets: nobody has to leave
            self.missed = True
            return int(self._room.units.priority.min(initial=0))
        if low == len(self._priorities) - 1 and (self._room.related or not self._room.alike):
            self.missed = not self._suffices(self._priorities[low])
        return self._priorities[low]

    def _upwards(self) -> int:
        """More that leave can hurt, so each priority is tried (S-15.4.5)."""
        for priority in self._priorities:
            if self._suffices(priority):
                return priority
        self.missed = True
        return self._priorities[-1] if self._priorities else int(self._room.units.priority.min(initial=0))

    def _suffices(self, priority: int) -> bool:
        snapshot = self._room
        snapshot.load(self._standing)
        snapshot.take_out(self._going & (snapshot.units.priority <= priority))
        if snapshot.alike and not snapshot.related:
            good = int(np.minimum(snapshot.capacity(snapshot.kinds[0]), self._need).sum()) >= self._need
        else:
            good = place_gang(snapshot, self._need) is not None
        if not good:
            self.failed_at.append(priority)
        return good
