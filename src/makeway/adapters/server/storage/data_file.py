"""The data file: one SQLite database, open in one server at a time.

``docs/internals/sqlite.md`` says what a commit promises and what may be lost, ``layout`` how the file is laid out.
Every commit checks three things: the file still lies in the folder (``whereabouts``), no other server has taken it
over, and its newest revision is the one that this server wrote.
"""

from __future__ import annotations

import os
import secrets
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from makeway.adapters.server.storage.checksums import Key, checksum, total, wrapped
from makeway.adapters.server.storage.layout import RECOVERY, STEPS, DataFileRefused, connected, number, told
from makeway.adapters.server.storage.lock_file import LockFile, LockHeld
from makeway.adapters.server.storage.reserve import DiskReserve
from makeway.adapters.server.storage.whereabouts import FilesGone, Whereabouts
from makeway.api.versions import KINDS
from makeway.runtime.ports import Revision, Stored, kind_key

__all__ = [
    "STEPS",
    "DataFile",
    "DataFileLost",
    "DataFileRefused",
    "NoRoom",
    "NotWritten",
    "locked",
    "rows",
    "write_copy",
]
PRIMARY_CODE = 0xFF  # the main part of an SQLite error code; the rest has details
CERTAIN = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_BUSY)  # a commit with these errors has stored nothing
DAMAGE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
ROWS_AT_ONCE = (64, 8, 1)  # few sizes, so that each statement is prepared once
_PUTS = {
    rows: "INSERT OR REPLACE INTO objects (api_group, kind, namespace, name, data, checksum) VALUES "
    + ", ".join(["(?, ?, ?, ?, ?, ?)"] * rows)
    for rows in ROWS_AT_ONCE
}
_DROP = "DELETE FROM objects WHERE api_group = ? AND kind = ? AND namespace = ? AND name = ?"
ROWS = """SELECT api_group, kind, namespace, name, data, checksum FROM objects
    ORDER BY api_group, kind, namespace, name"""
_BY_KEY = {kind_key(kind): kind for kind in KINDS}


class NotWritten(Exception):
    """Nothing was stored, and the file is unchanged; a later try may succeed."""


class NoRoom(NotWritten):
    """The disk is full, or not writable at present."""


class DataFileLost(Exception):
    """The file is no longer ours; the message says why. ``is_stored``: the last write may be in it."""

    def __init__(self, reason: str, *, is_stored: bool = False) -> None:
        super().__init__(reason)
        self.is_stored = is_stored


class DataFile:
    """An open data file. It may be written from any thread, one at a time.

    ``size_max``, in bytes: the file grows no further, and a write that needs more fails as on a full disk.
    """

    def __init__(self, path: Path, *, size_max: int | None = None, steps: Sequence[Sequence[str]] = STEPS) -> None:
        self.path = path
        self._owner = secrets.token_hex(16)  # of this server alone
        self._is_claimed = False
        try:
            self._where = Whereabouts(path)
        except OSError as error:
            raise DataFileRefused(f"{path.parent} cannot be opened: {error.strerror}") from error
        try:
            self._lock = locked(path, self._where.file)
            try:
                self._begin(path, steps, size_max)
            except BaseException:
                self._lock.close()
                raise
        except BaseException:
            self._where.close()
            raise

    def _begin(self, path: Path, steps: Sequence[Sequence[str]], size_max: int | None) -> None:
        self._connection = connected(path, steps, size_max)
        try:
            self._revision = number(self._connection, "SELECT revision FROM latest")
            ((self._count, self._sum),) = self._connection.execute("SELECT objects, checksum FROM guard")
            self._where.begin()
            self._reserve = DiskReserve(self._where.file, f"{path.name}.reserve")
        except (sqlite3.Error, ValueError, TypeError, FilesGone, OSError) as error:
            self._connection.close()
            raise DataFileRefused(f"{path} is damaged: {error}; {RECOVERY}") from error

    def folder(self) -> Path:
        """The folder that was opened, wherever it is now."""
        return Path(f"/proc/self/fd/{self._where.file}")

    # --- reading ---

    def revision(self) -> int:
        return self._revision

    def objects(self) -> Iterator[Stored]:
        """All stored objects, by kind, namespace and name; they are complete only when the iteration ends without an
        error.

        Raises ``DataFileRefused`` at the end, with all objects that are not as they were written.
        """
        found: list[int] = []
        damaged: list[str] = []
        for each in rows(self._connection, self._revision):
            if isinstance(each, Stored):
                found.append(checksum(_key(each), each.data))
                yield each
            else:
                damaged.append(each)
        if not damaged and (len(found), total(found)) != (self._count, self._sum):
            missing = self._count - len(found)
            damaged.append(f"{missing} objects are missing" if missing > 0 else "some objects are older than they were")
        if damaged:
            raise DataFileRefused(f"{self.path} cannot be served as it is: {told(damaged)}; {RECOVERY}")
        if self._revision < self._lock.mark:
            raise DataFileRefused(
                f"{self.path} is older than what was acknowledged here: it is at revision {self._revision}, and"
                f" {self._lock.mark} was reached. Either the end of its log is damaged or gone, or an older copy was"
                f" put in its place; if that was meant, remove {self.path.name}.lock and start again"
            )

    # --- writing ---

    def write(self, changes: Sequence[Revision]) -> None:
        """Write all changes in one transaction: when this returns they are on the disk.

        Raises NotWritten and Lost. After any other error the outcome is unknown, and this file must not be written
        again.
        """
        frees = all(change.type == "DELETED" or change.after.deleting for change in changes)
        if not frees and self._reserve.is_given and not self._reserve.fill():
            raise NoRoom("the disk is full, and the room that is left is for removals")
        try:
            self._commit(changes)
        except NoRoom:
            if not frees or not self._reserve.give():
                raise
            with suppress(sqlite3.Error):
                self._connection.execute("PRAGMA wal_checkpoint(RESTART)").fetchall()
            self._where.note()
            self._commit(changes)

    def look(self) -> None:
        """Check that the file is as we left it. Raises Lost, and NoRoom if it cannot be written."""
        try:
            self._where.check()
        except FilesGone as error:
            raise DataFileLost(str(error)) from error
        if os.fstatvfs(self._where.file).f_flag & os.ST_RDONLY or os.statvfs(self.path.parent).f_flag & os.ST_RDONLY:
            raise NoRoom("its file system can be read only")

    def try_again(self, size: int) -> None:
        """Test whether there is room again, for about ``size`` bytes, by a commit that changes no object."""
        self.look()
        disk = os.fstatvfs(self._where.file)
        if disk.f_bavail * disk.f_frsize < 2 * size or not self._reserve.fill():
            raise NoRoom("the disk is full")
        self._commit(())

    def _commit(self, changes: Sequence[Revision]) -> None:
        self.look()
        first: dict[Key, Stored | None] = {}
        newest: dict[Key, Revision] = {}
        for each in changes:
            key = _key(each.after)
            first.setdefault(key, each.before)
            newest[key] = each
        gone = [key for key, each in newest.items() if each.type == "DELETED"]
        kept = [
            (*key, each.after.data, checksum(key, each.after.data))
            for key, each in newest.items()
            if each.type != "DELETED"
        ]
        old = [checksum(key, each.data) for key, each in first.items() if each is not None]
        revision = changes[-1].after.revision if changes else self._revision
        count = self._count + len(kept) - len(old)
        sum_ = wrapped(self._sum + sum(row[5] for row in kept) - sum(old))
        self._transaction(gone, kept, (revision, count, sum_))
        self._revision, self._count, self._sum = revision, count, sum_
        self._is_claimed = True
        try:
            self._where.note()
        except FilesGone as error:
            raise DataFileLost(str(error), is_stored=True) from error
        self._lock.set_mark(revision)

    def _transaction(
        self, gone: Sequence[Key], kept: Sequence[tuple[str, str, str, str, bytes, int]], after: tuple[int, int, int]
    ) -> None:
        connection = self._connection
        try:
            connection.execute("BEGIN IMMEDIATE")
            self._guard(*after)
            connection.executemany(_DROP, gone)
            put(connection, kept)
        except sqlite3.Error as error:
            self._roll_back()
            raise _unwritten(error) from error
        except DataFileLost:
            self._roll_back()
            raise
        try:
            connection.execute("COMMIT")
        except sqlite3.Error as error:
            self._roll_back()
            if error.sqlite_errorcode & PRIMARY_CODE in CERTAIN:
                raise _unwritten(error) from error
            raise

    def _guard(self, revision: int, count: int, sum_: int) -> None:
        """Continue only from our own last write; the first call makes the file ours."""
        moved = self._connection.execute(
            "UPDATE latest SET revision = ? WHERE revision = ?", (revision, self._revision)
        ).rowcount
        if moved != 1:
            raise DataFileLost(
                "another program has written to it: its newest revision is not the one that was written here"
            )
        is_ours = "owner = ?" if self._is_claimed else "? <> ''"
        held = self._connection.execute(
            f"UPDATE guard SET owner = ?, objects = ?, checksum = ? WHERE {is_ours}",
            (self._owner, count, sum_, self._owner),
        ).rowcount
        if held != 1:
            raise DataFileLost("another server has made it its own")

    def _roll_back(self) -> None:
        if self._connection.in_transaction:  # some errors end it by themselves
            self._connection.execute("ROLLBACK")

    def close(self) -> None:
        """Close the file. Committed data is in it with or without this."""
        self._connection.close()
        self._lock.close()
        self._where.close()


def locked(path: Path, folder: int) -> LockFile:
    try:
        return LockFile(path, folder)
    except LockHeld as error:
        raise DataFileRefused(f"{path} is in use by another server (process {str(error) or 'unknown'})") from error
    except OSError as error:
        raise DataFileRefused(f"{path}.lock cannot be opened: {error.strerror}") from error


def _unwritten(error: sqlite3.Error) -> Exception:
    code = error.sqlite_errorcode & PRIMARY_CODE
    if code in DAMAGE:
        return DataFileLost(f"it is damaged: {error}")
    return NoRoom(str(error)) if code in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_READONLY) else NotWritten(str(error))


def _key(each: Stored) -> Key:
    return (*kind_key(each.kind), each.namespace, each.name)


def put(connection: sqlite3.Connection, rows: Sequence[tuple[object, ...]]) -> None:
    """Write many rows with one statement: each execution releases the interpreter lock, and other threads may keep it
    long.
    """
    begin = 0
    for size, statement in _PUTS.items():
        while len(rows) - begin >= size:
            some = rows[begin : begin + size]
            connection.execute(statement, [value for row in some for value in row])
            begin += size


def rows(connection: sqlite3.Connection, newest: int, question: str = ROWS) -> Iterator[Stored | str]:
    """All objects; instead of one that is not as it was written, what is wrong with it."""
    try:
        for row in connection.execute(question):
            yield _read_row(row, newest)
    except (sqlite3.Error, UnicodeDecodeError) as error:  # messages of SQLite may quote undecodable bytes
        yield str(error)


def _read_row(row: tuple[Any, ...], newest: int) -> Stored | str:
    group, kind_name, namespace, name, data, sum_ = row
    kind = _BY_KEY.get((group, kind_name))
    if kind is None:
        return f"it has objects of a kind that this version does not know: {group}/{kind_name}"
    called = f"{kind.plural} {namespace}/{name}" if kind.namespaced else f"{kind.plural} {name}"
    if not (isinstance(data, bytes) and isinstance(namespace, str) and isinstance(name, str)):
        return f"{called} has changed since it was written"
    try:
        each = Stored.read(kind, data)
        if (each.namespace, each.name) != (namespace, name) or each.revision > newest:
            return f"{called} is not what the file says it is"
    except (msgspec.MsgspecError, ValueError, TypeError) as error:
        return f"{called} cannot be read: {error}"
    if checksum((group, kind_name, namespace, name), data) != sum_:
        return f"{called} has changed since it was written"
    return each


# --- copies ----------------------------------------------------------------------------------------------------------


def write_copy(path: Path, revision: int, objects: Iterable[Stored]) -> int:
    """Write a new data file with these objects; return how many. Raises OSError, sqlite3.Error and DataFileRefused."""
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
    connection = connected(path, STEPS)
    try:
        connection.execute("BEGIN IMMEDIATE")
        rows = [(*_key(each), each.data, checksum(_key(each), each.data)) for each in objects]
        put(connection, rows)
        connection.execute("UPDATE latest SET revision = ?", (revision,))
        connection.execute("UPDATE guard SET objects = ?, checksum = ?", (len(rows), total(row[5] for row in rows)))
        connection.execute("COMMIT")
    finally:
        connection.close()
    return len(rows)
