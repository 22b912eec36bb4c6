"""Whether the data file can be written, and what happens if it cannot.

A file stays writable until the disk is full, and is writable again when there is room. If it turns out that the file is
no longer ours, it is never written again: the visible objects stay readable, and are saved in a new file beside the old
one, for the administrator to put things right (decision 0085).
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

RETRY_AFTER = Millis(5_000)  # room on a disk comes slowly


@dataclass(frozen=True, slots=True)
class Writable:
    why: str = ""  # always empty


@dataclass(frozen=True, slots=True)
class Short:
    """The disk is full: nothing can be written until there is room."""

    why: str
    size: int  # bytes for which there was no room; 0: not known


@dataclass(frozen=True, slots=True)
class Lost:
    """The file in the folder is not ours: acknowledged data still has to be saved elsewhere."""

    why: str


@dataclass(frozen=True, slots=True)
class Over:
    """Nothing is written until the next start."""

    why: str


FileState = Writable | Short | Lost | Over


class GroupNotStored(Exception):
    """Each call of a group gets the answer that it was not stored, or that this is unknown."""

    def __init__(self, error: type[Retryable], words: str) -> None:
        super().__init__(words)
        self._error = error

    def answer(self) -> Retryable:
        return self._error(str(self), RETRY_AFTER)


class GuardedFile:
    """The data file with its state. Only the writer thread writes; any thread may read ``state``.

    ``acknowledged`` returns the newest revision and all objects that a client was told of.
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
        """Write the changes. Raises ``GroupNotStored``; after any other error the outcome is unknown."""
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
        """Check that the file is still there and ours, and on a full disk whether there is room again."""
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
            pass  # another program has locked it; it is tried again
        except Exception as error:
            self.fail(error)

    def fail(self, error: BaseException) -> None:
        """Handle an error that leaves the content of the file unknown."""
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
        """If the file is lost, save the acknowledged data once, into a new file in the folder that was ours."""
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
