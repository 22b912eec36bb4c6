"""The one undo log of the state: each of its structures saves here what it is about to overwrite."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

K = TypeVar("K")
V = TypeVar("V")
_ABSENT = object()


class UndoLog:
    def __init__(self) -> None:
        self._saved: list[tuple[Callable[..., object], tuple[Any, ...]]] = []
        self.trials = 0  # how many are open: while there are none, nothing need be saved

    def trial(self) -> _Trial:
        """Everything done inside is a thought experiment: it is undone on exit, even on error. Trials nest."""
        return _Trial(self)

    def attempt(self) -> _Attempt:
        """What is done inside stays, unless an error ends it: then nothing of it was done. May stand in a trial."""
        return _Attempt(self)

    def begin(self) -> int:
        """The same as ``trial`` for the few places whose inner loop cannot pay for a ``with`` block."""
        self.trials += 1
        return len(self._saved)

    def end(self, mark: int) -> None:
        self.rewind(mark)
        self.trials -= 1

    def keep(self) -> None:
        """The innermost trial was none after all; those around it can still undo what was done in it."""
        self.trials -= 1
        if not self.trials:
            self._saved.clear()

    def rewind(self, mark: int) -> None:
        saved = self._saved
        while len(saved) > mark:
            restore, before = saved.pop()
            restore(*before)

    def save(self, restore: Callable[..., object], *before: Any) -> None:
        """Note the way back; ``restore`` is a plain write, which saves nothing itself."""
        if self.trials:
            self._saved.append((restore, before))

    def set(self, owner: object, name: str, value: object) -> None:
        """Give an attribute of one of the state's structures another value."""
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
    """The same, where only an error undoes."""

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
