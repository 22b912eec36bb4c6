"""Places for the members of a gang: as many as fit, or none if they are fewer than needed (S-15.2.4).

Equal members are placed by vector operations, with the same result as one after another. When spreading, the score of
the k-th pod on a node falls with k, so the places taken are the best of all (node, k). When packing it rises, so nodes
are filled one by one.

Unlike members are packed. One pass in queue order can miss a fit, so it is repeated with the largest first. A thorough
state then tries more orders and, where there are few nodes, a bounded search (``packing``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial

import numpy as np

from makeway.core.placement.cluster.arrays import Bools, Ints
from makeway.core.placement.members import MemberKind
from makeway.core.placement.packing import pack_exactly
from makeway.core.placement.snapshot import NOT_PLACED, NodeSnapshot, Places, Saved

MOST_NODES_LATE = 20_000_000  # nodes that are tried again for members that need later ones of the gang beside them


def place_gang(snapshot: NodeSnapshot, need: int, *, search: bool = True) -> Places | None:
    """A node for each member, which then stands there; None, and nothing changed, if fewer than ``need`` get one.

    ``search``: search where passes by rule fail. Without it a "no" is quick, and less certain.
    """
    before = snapshot.save()
    for attempt in _attempts(snapshot, need, search):
        places = attempt()
        if places is not None and count_placed(places) >= need:
            return _in_order(snapshot, need, places, before)
        snapshot.load(before)
    return None


def _in_order(snapshot: NodeSnapshot, need: int, places: Places, before: Saved) -> Places:
    """With a spread or affinity, a placement may hold only in the order it was made; evictions need one in queue order.

    Where there is none, the first one is kept.
    """
    if not snapshot.leaving_can_hurt or not len(snapshot.units) or snapshot.stands(places):
        return places
    for pack in (False, True):
        snapshot.load(before)
        in_order = one_by_one(snapshot, range(len(snapshot.members)), pack=pack)
        if count_placed(in_order) >= need:
            return in_order
    snapshot.load(before)
    snapshot.occupy_all(places)
    return places


def count_placed(places: Places) -> int:
    return sum(node != NOT_PLACED for node in places)


def _attempts(snapshot: NodeSnapshot, need: int, search: bool) -> Iterator[Callable[[], Places | None]]:
    if len(snapshot.members) < need or (snapshot.related and not snapshot.could_hold(need)):
        return
    yield lambda: in_queue_order(snapshot)
    if snapshot.state.thorough and len(snapshot.members) > 1:
        for nodes in snapshot.relations.common_domains():
            if snapshot.could_hold(need, nodes):
                yield partial(_within, snapshot, nodes)
    if snapshot.alike:
        return
    largest = largest_first(snapshot)
    yield lambda: one_by_one(snapshot, largest, pack=True)
    if snapshot.state.thorough and not snapshot.related:
        yield lambda: one_by_one(snapshot, largest, pack=False)
    if snapshot.state.thorough and not snapshot.related and search:
        yield lambda: _completed(snapshot, pack_exactly(snapshot, largest, need))


def _completed(snapshot: NodeSnapshot, places: Places | None) -> Places | None:
    """A packing: its members take their places, and then those of the others that still fit."""
    if places is None:
        return None
    snapshot.occupy_all(places)
    for i, node in enumerate(places):
        if node == NOT_PLACED:
            places[i] = place_one(snapshot, snapshot.kind_of[i])
    return places


def in_queue_order(snapshot: NodeSnapshot) -> Places:
    """First members whose nominated node is valid go there; then the others, runs of equals at once."""
    places = [NOT_PLACED] * len(snapshot.members)
    for i, pod in enumerate(snapshot.members):
        node = snapshot.state.nodes.index.get(pod.nominated) if pod.nominated is not None else None
        if node is not None and snapshot.valid_at(snapshot.kind_of[i], node):
            snapshot.occupy(snapshot.kind_of[i], node)
            places[i] = node
    rest = [i for i, node in enumerate(places) if node == NOT_PLACED]
    for kind, run in _runs(snapshot, rest):
        if kind.relations or len(run) == 1:
            for i in run:
                places[i] = place_one(snapshot, kind)
        else:
            for i, node in zip(run, place_equals(snapshot, kind, len(run)), strict=False):
                places[i] = node
    _place_late_ones(snapshot, places)
    return places


def _place_late_ones(snapshot: NodeSnapshot, places: Places) -> None:
    """Place members that need others of the gang beside them, and may have come before these (decision 0069)."""
    late = [i for i, node in enumerate(places) if node == NOT_PLACED and snapshot.kind_of[i].pod.pod_affinity]
    most = snapshot.looks + MOST_NODES_LATE // max(1, len(snapshot.state.nodes))
    while late and len(late) < len(places) and snapshot.looks < most:
        for i in late:
            places[i] = place_one(snapshot, snapshot.kind_of[i])
        left = [i for i in late if places[i] == NOT_PLACED]
        if len(left) == len(late):
            return
        late = left


def _within(snapshot: NodeSnapshot, nodes: Bools) -> Places:
    """Place all members on these nodes."""
    everywhere = [kind.open for kind in snapshot.kinds]
    for kind in snapshot.kinds:
        kind.open = kind.open & nodes
    places = in_queue_order(snapshot)
    for kind, was in zip(snapshot.kinds, everywhere, strict=True):
        kind.open = was
    return places


def _runs(snapshot: NodeSnapshot, members: Iterable[int]) -> Iterator[tuple[MemberKind, list[int]]]:
    run: list[int] = []
    for i in members:
        if run and snapshot.kind_of[i] is not snapshot.kind_of[run[0]]:
            yield snapshot.kind_of[run[0]], run
            run = []
        run.append(i)
    if run:
        yield snapshot.kind_of[run[0]], run


def one_by_one(snapshot: NodeSnapshot, order: Iterable[int], *, pack: bool) -> Places:
    """Place members in the given order, each on the fullest valid node, or by the score."""
    places = [NOT_PLACED] * len(snapshot.members)
    for i in order:
        places[i] = place_one(snapshot, snapshot.kind_of[i], pack=pack)
    return places


def place_one(snapshot: NodeSnapshot, kind: MemberKind, *, pack: bool = False) -> int:
    valid = np.flatnonzero(snapshot.valid(kind))
    if not len(valid):
        return NOT_PLACED
    node = int(valid[np.argmax(snapshot.scores(kind, pack=pack, nodes=valid))])
    snapshot.occupy(kind, node)
    return node


def place_equals(snapshot: NodeSnapshot, kind: MemberKind, count: int) -> list[int]:
    """The nodes that up to ``count`` pods of a kind without relations get, in the order in which they get them."""
    snapshot.looks += 1
    capacity = np.minimum(snapshot.capacity(kind), count)
    nodes = np.flatnonzero(capacity)
    if not len(nodes):
        return []
    first = snapshot.scores(kind, nodes=nodes)
    best = np.argsort(-first, kind="stable")  # nodes lie by name, so equals stay by name
    if snapshot.state.scoring == "Pack":
        taken = np.repeat(nodes[best], capacity[nodes[best]])[:count]
    else:
        taken = _best_of_all(snapshot, kind, count, nodes[best[:count]], capacity)
    for column in np.flatnonzero(kind.need).tolist():
        np.subtract.at(snapshot.free[column], taken, kind.need[column])
    numbers: list[int] = taken.tolist()
    return numbers


def _best_of_all(snapshot: NodeSnapshot, kind: MemberKind, count: int, nodes: Ints, capacity: Ints) -> Ints:
    """The best of all (node, k), where only the ``count`` best nodes can contribute."""
    scores, takers, turns = [], [], []
    turn, left = 0, nodes
    score = snapshot.scores(kind, nodes=left)
    least = score[-1] if len(nodes) == count else None  # so many places are at least as good as this
    while len(left):
        scores.append(score)
        takers.append(left)
        turns.append(np.full(len(left), turn))
        turn += 1
        left = left[capacity[left] > turn]
        score = snapshot.scores(kind, already=turn, nodes=left)
        if least is not None:
            left, score = left[score >= least], score[score >= least]
    taker, best = np.concatenate(takers), np.concatenate(scores)
    order = np.lexsort((np.concatenate(turns), taker, -best))
    return taker[order[:count]]


def largest_first(snapshot: NodeSnapshot) -> list[int]:
    """The members by the largest share of the largest node that they request (S-15.2.4)."""
    resources = slice(1, len(snapshot.columns.resources))  # neither the number of pods nor ports
    largest = np.maximum(snapshot.allocatable[resources].max(axis=1, initial=0), 1)
    share = {id(kind): float((kind.need[resources] / largest).max()) for kind in snapshot.kinds}
    return sorted(range(len(snapshot.members)), key=lambda i: -share[id(snapshot.kind_of[i])])
