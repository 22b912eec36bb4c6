"""The data file: one SQLite database that one server at a time has open.

What a commit promises and what may be lost is told in ``docs/internals/sqlite.md``. The file says whose it is
(``application_id``) and how it is laid out (``user_version``): an older layout is brought up to date, a step at a time,
each step whole or not at all; a newer one is refused, because nobody knows what would be lost by writing to it.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from makeway.api.versions import KINDS
from makeway.runtime.history import FIRST_REVISION
from makeway.runtime.ports import Change, Stored, kind_key

APPLICATION_ID = 0x6D6B7779  # "mkwy"
PRIMARY_CODE = 0xFF  # of an error code of SQLite; the rest says more about the same
CERTAIN = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_BUSY)  # a commit that fails so has stored nothing
WAL_BYTES_KEPT = 64 * 1024 * 1024  # a burst of writes does not leave more than that beside the file
STEPS: Sequence[Sequence[str]] = (  # the first makes an empty file version 1, the next makes that version 2, ...
    (
        """CREATE TABLE objects (
            api_group TEXT NOT NULL, kind TEXT NOT NULL, namespace TEXT NOT NULL, name TEXT NOT NULL,
            data BLOB NOT NULL, PRIMARY KEY (api_group, kind, namespace, name))""",
        "CREATE TABLE latest (revision INTEGER NOT NULL)",  # one row; a removal leaves no other trace
        f"INSERT INTO latest VALUES ({FIRST_REVISION})",
        f"PRAGMA application_id = {APPLICATION_ID}",
    ),
)

ROWS_AT_ONCE = (64, 8, 1)  # few sizes, so that each statement is prepared once
_PUTS = {
    rows: "INSERT OR REPLACE INTO objects (api_group, kind, namespace, name, data) VALUES "
    + ", ".join(["(?, ?, ?, ?, ?)"] * rows)
    for rows in ROWS_AT_ONCE
}
_DROP = "DELETE FROM objects WHERE api_group = ? AND kind = ? AND namespace = ? AND name = ?"
_BY_KEY = {kind_key(kind): kind for kind in KINDS}


class DataFileRefused(Exception):
    """This file cannot be served; the message says why. No object in it was changed."""


class NotWritten(Exception):
    """Nothing of it was stored, and the file is as it was; another time it may go."""


class DataFile:
    """An open data file. Whoever has it may write from any thread, one at a time.

    ``size_max``, in bytes: it grows no further, and a write that needs more fails as on a full disk.
    """

    def __init__(self, path: Path, *, size_max: int | None = None, steps: Sequence[Sequence[str]] = STEPS) -> None:
        self._lock = _locked(path)
        try:
            self._connection = _connected(path, steps, size_max)
        except BaseException:
            os.close(self._lock)
            raise

    def revision(self) -> int:
        return _number(self._connection, "SELECT revision FROM latest")

    def objects(self) -> Iterable[Stored]:
        """All that is stored, by kind, namespace and name."""
        newest = self.revision()
        rows = self._connection.execute(
            "SELECT api_group, kind, namespace, name, data FROM objects ORDER BY api_group, kind, namespace, name"
        )
        for group, name, *place, data in rows:
            kind = _BY_KEY.get((group, name))
            if kind is None:
                raise DataFileRefused(f"it has objects of a kind that this version does not know: {group}/{name}")
            try:
                each = Stored.read(kind, data)
            except msgspec.MsgspecError as error:
                raise DataFileRefused(f"{kind.plural} {'/'.join(place)} cannot be read: {error}") from error
            if [each.namespace, each.name] != place or each.revision > newest:
                raise DataFileRefused(f"{kind.plural} {'/'.join(place)} is not what the file says it is")
            yield each

    def write(self, changes: Sequence[Change]) -> None:
        """All of them, as one: when this returns they are on the disk.

        Raises NotWritten, and any other error where nobody knows: then this file should be written no more.
        """
        newest = {(*kind_key(each.after.kind), each.after.namespace, each.after.name): each for each in changes}
        gone = [key for key, each in newest.items() if each.type == "DELETED"]
        kept = [(*key, each.after.data) for key, each in newest.items() if each.type != "DELETED"]
        connection = self._connection
        try:
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany(_DROP, gone)
            self._put(kept)
            connection.execute("UPDATE latest SET revision = ?", (changes[-1].after.revision,))
        except sqlite3.Error as error:
            self._roll_back()
            raise NotWritten(str(error)) from error
        try:
            connection.execute("COMMIT")
        except sqlite3.Error as error:
            self._roll_back()
            if error.sqlite_errorcode & PRIMARY_CODE in CERTAIN:
                raise NotWritten(str(error)) from error
            raise

    def _put(self, rows: Sequence[tuple[object, ...]]) -> None:
        """Many rows with one statement: each execution gives up the interpreter, and others may compute for long."""
        begin = 0
        for size, statement in _PUTS.items():
            while len(rows) - begin >= size:
                some = rows[begin : begin + size]
                self._connection.execute(statement, [value for row in some for value in row])
                begin += size

    def _roll_back(self) -> None:
        if self._connection.in_transaction:  # some errors end it by themselves
            self._connection.execute("ROLLBACK")

    def close(self) -> None:
        """Give the file back. What was committed is in it, with or without this."""
        self._connection.close()
        os.close(self._lock)


def _locked(path: Path) -> int:
    """The lock lies beside the data file, so that no tool that opens and closes that file can lose it for us."""
    beside = path.with_name(f"{path.name}.lock")
    try:
        lock = os.open(beside, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise DataFileRefused(f"{beside} cannot be opened: {error.strerror}") from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        holder = os.read(lock, 32).decode(errors="replace").strip()
        os.close(lock)
        raise DataFileRefused(f"{path} is in use by another server (process {holder or 'unknown'})") from error
    with suppress(OSError):  # a full disk: then the next one does not learn who we are
        os.truncate(lock, 0)
        os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)
    return lock


def _connected(path: Path, steps: Sequence[Sequence[str]], size_max: int | None) -> sqlite3.Connection:
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))  # there are Secrets in it; SQLite keeps the mode
        connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        try:
            version = _checked_version(connection, path, len(steps))
            _set_up(connection, size_max)
            _bring_up(connection, version, steps)
        except BaseException:
            connection.close()
            raise
    except (OSError, sqlite3.Error) as error:
        raise DataFileRefused(f"{path} cannot be opened: {error}") from error
    return connection


def _checked_version(connection: sqlite3.Connection, path: Path, newest: int) -> int:
    owner, version = _number(connection, "PRAGMA application_id"), _number(connection, "PRAGMA user_version")
    is_empty = _number(connection, "SELECT count(*) FROM sqlite_master") == 0
    if owner != APPLICATION_ID and not (is_empty and owner == version == 0):
        raise DataFileRefused(f"{path} is a database, but not one of makeway")
    if version > newest:
        raise DataFileRefused(
            f"{path} has version {version} and was written by a newer makeway; this one knows versions up to {newest}:"
            " install the newer one again, or go back to a copy of the file from before"
        )
    return version


def _set_up(connection: sqlite3.Connection, size_max: int | None) -> None:
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA fullfsync = ON")  # where fsync alone does not reach the disk
    connection.execute("PRAGMA checkpoint_fullfsync = ON")
    connection.execute(f"PRAGMA journal_size_limit = {WAL_BYTES_KEPT}")
    ((mode,),) = connection.execute("PRAGMA journal_mode = WAL")
    if mode != "wal":
        raise sqlite3.OperationalError(f"its file system does not take a write-ahead log (it stays {mode})")
    if size_max is not None:
        pages = max(1, size_max // _number(connection, "PRAGMA page_size"))
        connection.execute(f"PRAGMA max_page_count = {pages}")


def _bring_up(connection: sqlite3.Connection, version: int, steps: Sequence[Sequence[str]]) -> None:
    """Each step is one transaction together with the version it leads to; the last one before an error stays."""
    for number, step in enumerate(steps[version:], start=version + 1):
        connection.execute("BEGIN IMMEDIATE")
        for statement in (*step, f"PRAGMA user_version = {number}"):
            connection.execute(statement)
        connection.execute("COMMIT")


def _number(connection: sqlite3.Connection, question: str) -> int:
    ((answer,),) = connection.execute(question)
    return int(answer)
