"""Which units must leave a domain so that the members get their places (S-15.4).

The domain of a gang is the cluster, that of a pod is a node. The steps are:

1. All units that might leave are gone: there must be a place at all.
2. Units come back that budgets protect, as far as possible.
3. The least sufficient priority N is found; every unit above it stays.
4. The members get places where the least must leave.
5. Units that still fit beside them stay too (``reprieve``).
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from makeway.core.placement.cluster.arrays import Bools, Ints
from makeway.core.placement.fit import count_placed, place_gang
from makeway.core.placement.preemption.cheapest import CheapestPlaces
from makeway.core.placement.preemption.exchange import improved
from makeway.core.placement.preemption.reprieve import reprieve
from makeway.core.placement.snapshot import NodeSnapshot, Places, Saved
from makeway.core.placement.units import violating_pods


@dataclass(frozen=True, slots=True)
class VictimSelection:
    """The result. ``victims`` empty: there was a place without evictions that the first attempt missed."""

    places: Places
    victims: Bools
    beyond: Ints  # by unit, the pods beyond their budgets
    n: int
    saved_by_budget: Bools
    above: Bools  # units that stay because their priority is above N
    failed_at: tuple[int, ...] = ()  # priorities that did not suffice

    def violations(self) -> int:
        return int(self.beyond[self.victims].sum())


class _Threshold(NamedTuple):
    """The least priority N such that the members have places with only units up to N gone."""

    n: int
    failed_at: tuple[int, ...]  # priorities that did not suffice
    is_missed: bool  # no priority sufficed when the members were placed anew


def select_victims(snapshot: NodeSnapshot, need: int, may_leave: Bools) -> VictimSelection | None:
    """The least that must leave, of the units that may; None: even all of them are not enough. Leaves no mark."""
    before = snapshot.save()
    try:
        return _VictimSearch(snapshot, need, before).select(may_leave)
    finally:
        snapshot.load(before)


class _VictimSearch:
    def __init__(self, snapshot: NodeSnapshot, need: int, before: Saved) -> None:
        self._snapshot = snapshot
        self._need = need
        self._before = before

    def select(self, may_leave: Bools) -> VictimSelection | None:
        snapshot = self._snapshot
        emptied = self._without(may_leave)
        places = place_gang(snapshot, self._need)
        if places is None:
            return None
        beyond = violating_pods(snapshot.state, snapshot.units, may_leave)
        saved = np.zeros_like(may_leave)
        if beyond.any():
            places, saved = self._spare_by_budget(emptied, places, may_leave & (beyond > 0), beyond)
        candidates = may_leave & ~saved
        threshold = self._threshold(candidates)
        if threshold.is_missed:  # unlike members only: the placement that served the budgets serves again
            above = np.zeros_like(candidates)
            victims = candidates & ~self._reprieved(self._without(candidates), places, candidates)
        else:
            above = candidates & (snapshot.units.priority > threshold.n)
            places, victims = self._least_leaving(candidates & ~above, beyond)
        return VictimSelection(places, victims, beyond, threshold.n, saved, above, threshold.failed_at)

    def _without(self, units: Bools) -> Saved:
        """Exactly these units are out."""
        self._snapshot.load(self._before)
        self._snapshot.take_out(units)
        return self._snapshot.save()

    def _spare_by_budget(
        self, emptied: Saved, places: Places, violating: Bools, beyond: Ints
    ) -> tuple[Places, Bools]:  # fmt: skip
        """Units that budgets protect come back first; the members go where most of these can stay (S-15.4.4).

        These places serve only if no threshold is found.
        """
        snapshot = self._snapshot
        if not snapshot.related:
            snapshot.load(emptied)
            cheapest = CheapestPlaces(snapshot, violating, beyond).places()
            if count_placed(cheapest) >= count_placed(places):
                places = cheapest
            else:
                snapshot.load(emptied)
                places = place_gang(snapshot, self._need) or places
        return places, reprieve(snapshot, places, violating)

    def _threshold(self, candidates: Bools) -> _Threshold:
        """Find the threshold; the members are placed anew for every priority that is tried (S-15.4.5)."""
        snapshot = self._snapshot
        priorities: list[int] = sorted(set(snapshot.units.priority[candidates].tolist()))
        failed: list[int] = []

        def suffices(priority: int) -> bool:
            is_enough = self._is_enough(candidates & (snapshot.units.priority <= priority))
            if not is_enough:
                failed.append(priority)
            return is_enough

        if not priorities:  # all were saved by budgets: no unit has to leave
            return _Threshold(int(snapshot.units.priority.min(initial=0)), (), is_missed=True)
        if snapshot.leaving_can_hurt:  # a higher priority may then fail where a lower one suffices: all are tried
            n = next((priority for priority in priorities if suffices(priority)), None)
            return _Threshold(priorities[-1] if n is None else n, tuple(failed), is_missed=n is None)
        n = priorities[bisect_left(priorities, x=True, hi=len(priorities) - 1, key=suffices)]
        is_doubtful = n == priorities[-1] and (snapshot.related or not snapshot.alike)
        is_missed = is_doubtful and not suffices(n)
        return _Threshold(n, tuple(failed), is_missed)

    def _is_enough(self, units: Bools) -> bool:
        """Whether the members have places with these units gone."""
        snapshot = self._snapshot
        snapshot.load(self._before)
        snapshot.take_out(units)
        if snapshot.alike and not snapshot.related:
            return int(np.minimum(snapshot.capacity(snapshot.kinds[0]), self._need).sum()) >= self._need
        return place_gang(snapshot, self._need) is not None

    def _least_leaving(self, candidates: Bools, beyond: Ints) -> tuple[Places, Bools]:
        """Places where the least must leave, and the units that must (S-15.4.7, 15.4.8)."""
        snapshot = self._snapshot
        emptied = self._without(candidates)
        if snapshot.related:
            by_rule = place_gang(snapshot, self._need)
            assert by_rule is not None  # this is the attempt that found N
            return by_rule, candidates & ~reprieve(snapshot, by_rule, candidates)
        places = CheapestPlaces(snapshot, candidates, beyond).places()
        if not snapshot.alike:  # the cheapest nodes one after another may then leave no room for some
            snapshot.load(emptied)
            by_rule = place_gang(snapshot, self._need)
            if by_rule is not None and count_placed(by_rule) > count_placed(places):
                places = by_rule
        victims = candidates & ~self._reprieved(emptied, places, candidates)
        if not snapshot.state.thorough:
            return places, victims
        better = improved(snapshot, emptied, places, victims, beyond, candidates)
        return better, victims if better is places else candidates & ~self._reprieved(emptied, better, candidates)

    def _reprieved(self, emptied: Saved, places: Places, candidates: Bools) -> Bools:
        self._snapshot.load(emptied)
        self._snapshot.occupy_all(places)
        return reprieve(self._snapshot, places, candidates)
