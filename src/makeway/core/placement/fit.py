"""Places for the members of a gang: as many as fit, or none if they are fewer than needed (S-15.2.4).

Members that are alike are placed by vector operations, with the same result as one after another: what the k-th pod on
a node scores falls with k when spreading, so the places taken are the best of all (node, k); when packing it rises, so
nodes are filled one by one.

Unlike members are packed: one pass in queue order can miss a fit. It is repeated with the largest first; a thorough
state then tries more orders, and where there are few nodes a bounded search (``packing``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial

import numpy as np

from makeway.core.placement.nodes import Bools, Ints
from makeway.core.placement.packing import pack_exactly
from makeway.core.placement.room import NOT_PLACED, MemberKind, Room, Saved, Seats

MOST_NODES_LATE = 20_000_000  # that are looked at once more for members that want later ones of the gang beside them


def seat_gang(room: Room, need: int, *, search: bool = True) -> Seats | None:
    """A node for each member, who then stands there; None, and nothing changed, if fewer than ``need`` get one.

    ``search``: where passes by rule fail, search. Without it a "no" is cheap, and less sure.
    """
    before = room.save()
    for attempt in _attempts(room, need, search):
        seats = attempt()
        if seats is not None and placed(seats) >= need:
            return _in_order(room, need, seats, before)
        room.load(before)
    return None


def _in_order(room: Room, need: int, seats: Seats, before: Saved) -> Seats:
    """With a spread or affinity a placement may hold only in the order it was made; evictions want one in queue order.

    Where none does, the first one is kept.
    """
    if not room.leaving_can_hurt or not len(room.units) or room.stands(seats):
        return seats
    for pack in (False, True):
        room.load(before)
        found = one_by_one(room, range(len(room.members)), pack=pack)
        if placed(found) >= need:
            return found
    room.load(before)
    room.seat(seats)
    return seats


def placed(seats: Seats) -> int:
    return sum(node != NOT_PLACED for node in seats)


def _attempts(room: Room, need: int, search: bool) -> Iterator[Callable[[], Seats | None]]:
    if len(room.members) < need or (room.related and not room.could_hold(need)):
        return
    yield lambda: in_queue_order(room)
    if room.state.thorough and len(room.members) > 1:
        for nodes in room.common_domains():
            if room.could_hold(need, nodes):
                yield partial(_within, room, nodes)
    if room.alike:
        return
    largest = largest_first(room)
    yield lambda: one_by_one(room, largest, pack=True)
    if room.state.thorough and not room.related:
        yield lambda: one_by_one(room, largest, pack=False)
    if room.state.thorough and not room.related and search:
        yield lambda: _completed(room, pack_exactly(room, largest, need))


def _completed(room: Room, seats: Seats | None) -> Seats | None:
    """A packing that was found, its members standing, and whoever else still fits."""
    if seats is None:
        return None
    room.seat(seats)
    for i, node in enumerate(seats):
        if node == NOT_PLACED:
            seats[i] = seat_one(room, room.kind_of[i])
    return seats


def in_queue_order(room: Room) -> Seats:
    """First those whose nominated node is valid, there; then the others, runs of equals at once."""
    seats = [NOT_PLACED] * len(room.members)
    for i, pod in enumerate(room.members):
        node = room.state.index.get(pod.nominated) if pod.nominated is not None else None
        if node is not None and room.valid_at(room.kind_of[i], node):
            room.occupy(room.kind_of[i], node)
            seats[i] = node
    rest = [i for i, node in enumerate(seats) if node == NOT_PLACED]
    for kind, run in _runs(room, rest):
        if kind.relations or len(run) == 1:
            for i in run:
                seats[i] = seat_one(room, kind)
        else:
            for i, node in zip(run, seat_equals(room, kind, len(run)), strict=False):
                seats[i] = node
    _seat_late_ones(room, seats)
    return seats


def _seat_late_ones(room: Room, seats: Seats) -> None:
    """Members who want others of the gang beside them may have come before these (decision 0069)."""
    late = [i for i, node in enumerate(seats) if node == NOT_PLACED and room.kind_of[i].pod.pod_affinity]
    most = room.looks + MOST_NODES_LATE // max(1, len(room.state.nodes))
    while late and len(late) < len(seats) and room.looks < most:
        for i in late:
            seats[i] = seat_one(room, room.kind_of[i])
        left = [i for i in late if seats[i] == NOT_PLACED]
        if len(left) == len(late):
            return
        late = left


def _within(room: Room, nodes: Bools) -> Seats:
    """All members on these nodes."""
    everywhere = [kind.open for kind in room.kinds]
    for kind in room.kinds:
        kind.open = kind.open & nodes
    seats = in_queue_order(room)
    for kind, was in zip(room.kinds, everywhere, strict=True):
        kind.open = was
    return seats


def _runs(room: Room, members: Iterable[int]) -> Iterator[tuple[MemberKind, list[int]]]:
    run: list[int] = []
    for i in members:
        if run and room.kind_of[i] is not room.kind_of[run[0]]:
            yield room.kind_of[run[0]], run
            run = []
        run.append(i)
    if run:
        yield room.kind_of[run[0]], run


def one_by_one(room: Room, order: Iterable[int], *, pack: bool) -> Seats:
    """In the given order, each on the fullest valid node, or by the score."""
    seats = [NOT_PLACED] * len(room.members)
    for i in order:
        seats[i] = seat_one(room, room.kind_of[i], pack=pack)
    return seats


def seat_one(room: Room, kind: MemberKind, *, pack: bool = False) -> int:
    valid = np.flatnonzero(room.valid(kind))
    if not len(valid):
        return NOT_PLACED
    node = int(valid[np.argmax(room.scores(kind, pack=pack, nodes=valid))])
    room.occupy(kind, node)
    return node


def seat_equals(room: Room, kind: MemberKind, count: int) -> list[int]:
    """The nodes that up to ``count`` pods of a kind without relations get, in the order in which they get them."""
    room.looks += 1
    capacity = np.minimum(room.capacity(kind), count)
    nodes = np.flatnonzero(capacity)
    if not len(nodes):
        return []
    first = room.scores(kind, nodes=nodes)
    best = np.argsort(-first, kind="stable")  # nodes lie by name, so equals stay by name
    if room.state.scoring == "Pack":
        taken = np.repeat(nodes[best], capacity[nodes[best]])[:count]
    else:
        taken = _best_of_all(room, kind, count, nodes[best[:count]], capacity)
    for column in np.flatnonzero(kind.need).tolist():
        np.subtract.at(room.free[column], taken, kind.need[column])
    found: list[int] = taken.tolist()
    return found


def _best_of_all(room: Room, kind: MemberKind, count: int, nodes: Ints, capacity: Ints) -> Ints:
    """The best of all (node, k), where no node but the ``count`` best ones can be among them."""
    scores, takers, turns = [], [], []
    turn, left = 0, nodes
    score = room.scores(kind, nodes=left)
    least = score[-1] if len(nodes) == count else None  # so many places are at least as good as this
    while len(left):
        scores.append(score)
        takers.append(left)
        turns.append(np.full(len(left), turn))
        turn += 1
        left = left[capacity[left] > turn]
        score = room.scores(kind, already=turn, nodes=left)
        if least is not None:
            left, score = left[score >= least], score[score >= least]
    taker, best = np.concatenate(takers), np.concatenate(scores)
    order = np.lexsort((np.concatenate(turns), taker, -best))
    return taker[order[:count]]


def largest_first(room: Room) -> list[int]:
    """Members by the largest share of the largest node that they ask for (S-15.2.4)."""
    resources = slice(1, len(room.columns))  # neither the number of pods nor ports
    largest = np.maximum(room.allocatable[resources].max(axis=1, initial=0), 1)
    share = {id(kind): float((kind.need[resources] / largest).max()) for kind in room.kinds}
    return sorted(range(len(room.members)), key=lambda i: -share[id(room.kind_of[i])])
