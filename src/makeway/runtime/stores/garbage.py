"""What goes with its owner: objects to be checked by the collector, and what it asks of owners and dependents.

The collector itself is in ``rules``, where it can write.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable

from makeway.api.names import LASTING_NAMESPACES
from makeway.api.objects.meta import FOREGROUND, ORPHAN
from makeway.runtime.ports import Stored, kind_key


class Suspects:
    """Uids to be checked, each once. Between the first ``mark`` and ``forget`` all changes of it can be undone."""

    def __init__(self) -> None:
        self._uids: OrderedDict[str, None] = OrderedDict()
        self._done: list[tuple[str, bool]] | None = None  # uid, and whether it came or went

    def __len__(self) -> int:
        return len(self._uids)

    def add(self, uids: Iterable[str]) -> None:
        """A uid that is there already keeps its place."""
        for uid in uids:
            if uid not in self._uids:
                self._uids[uid] = None
                if self._done is not None:
                    self._done.append((uid, True))

    def take(self) -> str:
        """Remove and return the uid that was added first."""
        uid, _ = self._uids.popitem(last=False)
        if self._done is not None:
            self._done.append((uid, False))
        return uid

    def mark(self) -> int:
        """A moment to which ``undo`` leads back."""
        if self._done is None:
            self._done = []
        return len(self._done)

    def undo(self, mark: int) -> None:
        done = self._done or []
        while len(done) > mark:
            uid, came = done.pop()
            if came:
                del self._uids[uid]
            else:
                self._uids[uid] = None
                self._uids.move_to_end(uid, last=False)

    def forget(self) -> None:
        """Nothing before this will be undone."""
        self._done = None


def is_lasting(each: Stored) -> bool:
    """Whether it is a namespace that cannot be deleted: it does not go with an owner either."""
    return kind_key(each.kind) == ("", "Namespace") and each.name in LASTING_NAMESPACES


def awaits_dependents(each: Stored | None) -> bool:
    return each is not None and each.deleting and FOREGROUND in each.finalizers


def releases_dependents(each: Stored | None) -> bool:
    return each is not None and each.deleting and ORPHAN in each.finalizers


def blocks(dependent: Stored, owner: Stored) -> bool:
    owners = dependent.metadata().owner_references
    return any(each.uid == owner.uid and bool(each.block_owner_deletion) for each in owners)
