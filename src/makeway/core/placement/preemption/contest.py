"""Who must leave a domain so that the members get their places (S-15.4): a gang's is the cluster, a pod's a node.

In this order: with all who might leave gone there is a place at all; budgets protect whom they can; the least priority
N that suffices is found, everyone above stays; the members get places where the least must leave; who still fits
beside them stays too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from makeway.core.placement.choice import SeatChoice
from makeway.core.placement.exchange import improved
from makeway.core.placement.fit import placed, seat_gang
from makeway.core.placement.nodes import Bools, Ints
from makeway.core.placement.preemption.reprieve import reprieve
from makeway.core.placement.room import Room, Saved, Seats
from makeway.core.placement.units import violating_pods


@dataclass(slots=True)
class Result:
    """``going`` empty: there was a place without anyone leaving, though the first look missed it."""

    seats: Seats
    going: Bools
    beyond: Ints  # of each unit the pods beyond their budgets
    n: int
    saved_by_budget: Bools
    above: Bools  # who stays because its priority is above N
    failed_at: list[int] = field(default_factory=list)  # priorities that did not suffice

    def violations(self) -> int:
        return int(self.beyond[self.going].sum())


def contest(room: Room, need: int, among: Bools) -> Result | None:
    """The least that must leave, of the units ``among``; None: even all of them are not enough. Leaves no mark."""
    standing = room.save()
    try:
        return _contest(room, need, among)
    finally:
        room.load(standing)


def _contest(room: Room, need: int, among: Bools) -> Result | None:
    standing = room.save()
    room.take_out(among)
    open_field = room.save()
    seats = seat_gang(room, need)
    if seats is None:
        return None
    beyond = violating_pods(room.state, room.units, among)
    saved = np.zeros_like(among)
    if beyond.any():
        seats, saved = _budget_pass(room, need, among, beyond, seats, open_field)
    going = among & ~saved
    search = _Search(room, need, going, standing)
    n = search.threshold()
    result = Result(seats, going, beyond, n, saved, np.zeros_like(going), search.failed_at)
    if search.missed:  # unlike members only: the placement that served the budgets serves again
        room.load(standing)
        room.take_out(going)
        result.going = going & ~_reprieved(room, room.save(), seats, going)
        return result
    result.above = going & (room.units.priority > n)
    going = going & ~result.above
    room.load(standing)
    room.take_out(going)
    result.seats, result.going = _final(room, need, going, beyond)
    return result


def _budget_pass(
    room: Room, need: int, among: Bools, beyond: Ints, seats: Seats, open_field: tuple[Ints, list[Ints]]
) -> tuple[Seats, Bools]:
    """Whom budgets protect comes back first; members sit where most of these can. The seats are not kept (S-15.4.4)."""
    violating = among & (beyond > 0)
    if not room.related:
        room.load(open_field)
        better = SeatChoice(room, violating, beyond).seats()
        if placed(better) >= placed(seats):
            seats = better
        else:
            room.load(open_field)
            seats = seat_gang(room, need) or seats
    return seats, reprieve(room, seats, violating)


def _final(room: Room, need: int, going: Bools, beyond: Ints) -> tuple[Seats, Bools]:
    """Places where least must leave, and who must (S-15.4.7, 15.4.8)."""
    open_field = room.save()
    if room.related:
        seats = seat_gang(room, need)
        assert seats is not None  # this is the probe that found N
        return seats, going & ~reprieve(room, seats, going)
    seats = SeatChoice(room, going, beyond).seats()
    if not room.alike:  # then the cheapest nodes one after another may leave no room for some
        room.load(open_field)
        by_rule = seat_gang(room, need)
        if by_rule is not None and placed(by_rule) > placed(seats):
            seats = by_rule
    leaving = going & ~_reprieved(room, open_field, seats, going)
    if not room.state.thorough:
        return seats, leaving
    best = improved(room, open_field, seats, leaving, beyond, going)
    return best, leaving if best is seats else going & ~_reprieved(room, open_field, best, going)


def _reprieved(room: Room, open_field: Saved, seats: Seats, going: Bools) -> Bools:
    room.load(open_field)
    room.seat(seats)
    return reprieve(room, seats, going)


class _Search:
    """The least priority N such that the members have places with only units up to N gone; placed anew every time."""

    def __init__(self, room: Room, need: int, going: Bools, standing: tuple[Ints, list[Ints]]) -> None:
        self._room = room
        self._need = need
        self._going = going
        self._standing = standing
        self._priorities: Sequence[int] = sorted(set(room.units.priority[going].tolist()))
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
        room = self._room
        room.load(self._standing)
        room.take_out(self._going & (room.units.priority <= priority))
        if room.alike and not room.related:
            good = int(np.minimum(room.capacity(room.kinds[0]), self._need).sum()) >= self._need
        else:
            good = seat_gang(room, self._need) is not None
        if not good:
            self.failed_at.append(priority)
        return good
