"""Whether the data file can be written, and what is done when it cannot.

A file is writable until there is no room for what was to be written; it is again when there is. When it turns out not
to be ours any more, nothing is written again: what was shown stays readable, and is saved in a new file beside the old
one, for the people who have to put things right (decision 0085).
"""

from __future__ import annotations

import logging
import os
import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from makeway.adapters.server.storage.data_file import (
    DataFile,
    DataFileLost,
    DataFileRefused,
    NoRoom,
    NotWritten,
    write_copy,
)
from makeway.core.model import Millis
from makeway.runtime.ports import Retryable, Revision, Stored, TimedOut, Unavailable

log = logging.getLogger("makeway.storage")

RETRY_AFTER = Millis(5_000)  # a client that waits for room on a disk need not ask often


@dataclass(frozen=True, slots=True)
class Writable:
    why: str = ""  # it cannot be written; never


@dataclass(frozen=True, slots=True)
class Short:
    """Nothing can be written until there is room again."""

    why: str
    size: int  # bytes for which there was no room; 0: not known


@dataclass(frozen=True, slots=True)
class Lost:
    """It is not our file that lies there: what was acknowledged is still to be saved elsewhere."""

    why: str


@dataclass(frozen=True, slots=True)
class Over:
    """Nothing is written until the next start."""

    why: str


FileState = Writable | Short | Lost | Over


class GroupNotStored(Exception):
    """Each call of a group is told that it was not stored, or that nobody knows."""

    def __init__(self, error: type[Retryable], words: str) -> None:
        super().__init__(words)
        self._error = error

    def answer(self) -> Retryable:
        return self._error(str(self), RETRY_AFTER)


class GuardedFile:
    """The data file in the state that it is in. The writer thread alone writes; ``state`` may be read by any.

    ``acknowledged`` tells the newest revision and all objects that somebody was told of.
    """

    def __init__(self, file: DataFile, acknowledged: Callable[[], tuple[int, Sequence[Stored]]]) -> None:
        self.state: FileState = Writable()
        self._file = file
        self._acknowledged = acknowledged

    @property
    def is_over(self) -> bool:
        """Whether nothing will be written until the next start."""
        return isinstance(self.state, Lost | Over)

    def write(self, changes: Sequence[Revision]) -> None:
        """Raises ``GroupNotStored``; of whatever else is raised nobody knows what it left behind."""
        try:
            self._file.write(changes)
        except DataFileLost as error:
            self._lose(error)
            raise GroupNotStored(TimedOut if error.is_stored else Unavailable, self.state.why) from error
        except NotWritten as error:
            if isinstance(error, NoRoom):
                self._run_short(error, sum(len(change.after.data) for change in changes))
            raise GroupNotStored(Unavailable, f"nothing was stored: {error}") from error

    def look(self) -> None:
        """Whether the file is still there and ours, and whether there is room again where there was none."""
        if self.is_over:
            self.save()
            return
        try:
            if isinstance(self.state, Short):
                self._file.try_again(self.state.size)
                log.warning("the data file can be written again")
                self.state = Writable()
            else:
                self._file.look()
        except DataFileLost as error:
            self._lose(error)
        except NoRoom as error:
            self._run_short(error, 0)
        except NotWritten:
            pass  # another program holds its lock; it is asked again
        except Exception as error:
            self.fail(error)

    def fail(self, error: BaseException) -> None:
        """Something happened after which nobody knows what the file holds."""
        self.state = Over(f"the storage has failed: {error!r}")
        log.error("%s; nothing is written any more: restart makeway", self.state.why)

    def _run_short(self, error: NoRoom, size: int) -> None:
        before = self.state.size if isinstance(self.state, Short) else 0
        if not isinstance(self.state, Short):
            log.warning("nothing can be written to %s: %s", self._file.path, error)
        self.state = Short(
            f"nothing can be written: {error}; removals are let through, and all is well when there is room",
            min(filter(None, (before, size)), default=0),
        )

    def _lose(self, error: DataFileLost) -> None:
        self.state = Lost(
            f"the data file is not ours any more: {error}; nothing is written, restart makeway when it is back"
        )
        log.error("%s: %s", self._file.path, self.state.why)

    def save(self) -> None:
        """Where the file is lost, once: what was acknowledged, into a new file in the folder that was ours."""
        if not isinstance(self.state, Lost):
            return
        revision, objects = self._acknowledged()
        try:
            folder = self._file.folder()
            name = f"{self._file.path.name}.saved-{revision}"
            write_copy(folder / name, revision, objects)
            where = Path(os.path.realpath(folder)) / name
        except (OSError, sqlite3.Error, DataFileRefused) as problem:
            words = f". What was acknowledged could not be saved: {problem}; get it from this server"
        else:
            words = (
                f". All {len(objects)} objects, up to revision {revision}, are in {where}: to go on with them, stop"
                f" makeway, put that file in the place of {self._file.path}, remove -wal and -shm, and start"
            )
        self.state = Over(self.state.why + words)
        log.error("%s: %s", self._file.path, self.state.why)
