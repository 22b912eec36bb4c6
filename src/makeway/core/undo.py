"""The one undo log of the state: before a structure of the state overwrites a value, it saves that value here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

K = TypeVar("K")
V = TypeVar("V")
_ABSENT = object()


class UndoLog:
    def __init__(self) -> None:
        self._saved: list[tuple[Callable[..., object], tuple[Any, ...]]] = []
        self.trials = 0  # the trials that are open; while there are none, nothing needs to be saved

    def trial(self) -> _Trial:
        """A ``with`` block at whose end all changes inside are undone, even on error. Trials nest."""
        return _Trial(self)

    def attempt(self) -> _Attempt:
        """A ``with`` block that is done as a whole or, if an error ends it, not at all. Trials may contain it."""
        return _Attempt(self)

    def begin(self) -> int:
        """Open a trial without a ``with`` block, which is too slow for a few inner loops; the mark is for ``end``."""
        self.trials += 1
        return len(self._saved)

    def end(self, mark: int) -> None:
        self.rewind(mark)
        self.trials -= 1

    def keep(self) -> None:
        """End the innermost trial without undoing it. Trials around it can still undo what was done in it."""
        self.trials -= 1
        if not self.trials:
            self._saved.clear()

    def rewind(self, mark: int) -> None:
        saved = self._saved
        while len(saved) > mark:
            restore, before = saved.pop()
            restore(*before)

    def save(self, restore: Callable[..., object], *before: Any) -> None:
        """Remember how to undo a write: ``restore(*before)``, a plain write that saves nothing itself."""
        if self.trials:
            self._saved.append((restore, before))

    def set(self, owner: object, name: str, value: object) -> None:
        """Set an attribute of one of the state's structures."""
        if self.trials:
            self._saved.append((setattr, (owner, name, getattr(owner, name))))
        setattr(owner, name, value)

    def put(self, table: dict[K, V], key: K, value: V) -> None:
        if self.trials:
            self._saved.append((_reset, (table, key, table.get(key, _ABSENT))))
        table[key] = value

    def drop(self, table: dict[K, V], key: K) -> None:
        if key in table:
            if self.trials:
                self._saved.append((_reset, (table, key, table[key])))
            del table[key]


class _Trial:
    """A ``with`` block that begins and ends a trial."""

    __slots__ = ("_log", "_mark")

    def __init__(self, log: UndoLog) -> None:
        self._log = log
        self._mark = 0

    def __enter__(self) -> None:
        self._mark = self._log.begin()

    def __exit__(self, *_: object) -> None:
        self._log.end(self._mark)


class _Attempt(_Trial):
    """A trial that is undone only when an error ends it."""

    __slots__ = ()

    def __exit__(self, kind: object = None, *_: object) -> None:
        if kind is None:
            self._log.keep()
        else:
            self._log.end(self._mark)


def _reset(table: dict[Any, Any], key: Any, before: Any) -> None:
    if before is _ABSENT:
        table.pop(key, None)
    else:
        table[key] = before
