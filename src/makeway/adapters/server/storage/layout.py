"""The layout of a data file, and its opening: ownership, integrity, version.

An older layout is upgraded, a step at a time, each step whole or not at all. A newer layout is refused, because writing
to it could lose data.
"""

from __future__ import annotations

import logging
import os
import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import closing
from pathlib import Path

from makeway.adapters.server.storage.checksums import SumInSql, checksum_in_sql
from makeway.adapters.server.storage.own_folder import open_own, refuse_link
from makeway.runtime.stores.history import FIRST_REVISION

log = logging.getLogger("makeway.server")
APPLICATION_ID = 0x6D6B7779  # "mkwy"
WAL_BYTES_KEPT = 64 * 1024 * 1024  # a burst of writes leaves no more than this beside the file
CHECKED_BYTES_MAX = 256 * 1024 * 1024  # pages of a larger file are not checked: that takes seconds
TOLD_MAX = 5  # findings in one message
RECOVERY = (
    "put a backup in its place, or start once with --leave-out-damaged, which keeps the file and goes on with what can"
    " still be read"
)
STEPS: Sequence[Sequence[str]] = (  # the first makes an empty file version 1, the next makes that version 2, ...
    (
        """CREATE TABLE objects (
            api_group TEXT NOT NULL, kind TEXT NOT NULL, namespace TEXT NOT NULL, name TEXT NOT NULL,
            data BLOB NOT NULL, PRIMARY KEY (api_group, kind, namespace, name))""",
        "CREATE TABLE latest (revision INTEGER NOT NULL)",  # one row; a removal leaves no other trace
        f"INSERT INTO latest VALUES ({FIRST_REVISION})",
        f"PRAGMA application_id = {APPLICATION_ID}",
    ),
    (
        "ALTER TABLE objects ADD COLUMN checksum INTEGER",
        "UPDATE objects SET checksum = checksum_of(api_group, kind, namespace, name, data)",
        # one row: the server that writes to it, and the expected content
        "CREATE TABLE guard (owner TEXT NOT NULL, objects INTEGER NOT NULL, checksum INTEGER NOT NULL)",
        "INSERT INTO guard SELECT '', count(*), coalesce(sum_of(checksum), 0) FROM objects",
    ),
)


class DataFileRefused(Exception):
    """This file cannot be served; the message says why. No object in it was changed."""


def connected(path: Path, steps: Sequence[Sequence[str]], size_max: int | None = None) -> sqlite3.Connection:
    """Return a connection to the file, which is made if it is missing. Raises ``DataFileRefused``."""
    try:
        os.close(open_own(path, os.O_RDWR | os.O_CREAT))  # it holds Secrets; SQLite keeps the mode
        for beside in ("-wal", "-shm", "-journal"):
            refuse_link(path.with_name(path.name + beside))
        connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        try:
            version = _checked_version(connection, path, len(steps))
            _check_pages(connection, path)
            _set_up(connection, size_max)
            _bring_up(connection, version, steps)
            _check_columns(connection, path, steps)
        except BaseException:
            connection.close()
            raise
    except sqlite3.DatabaseError as error:
        if _is_damage(error):
            raise DataFileRefused(f"{path} is damaged: {error}; {RECOVERY}") from error
        raise DataFileRefused(f"{path} cannot be opened: {error}") from error
    except (OSError, sqlite3.Error, ValueError, TypeError) as error:  # messages of SQLite may quote undecodable bytes
        raise DataFileRefused(f"{path} cannot be opened: {error}") from error
    return connection


def _is_damage(error: sqlite3.Error) -> bool:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_CORRUPT


def _checked_version(connection: sqlite3.Connection, path: Path, newest: int) -> int:
    owner, version = number(connection, "PRAGMA application_id"), number(connection, "PRAGMA user_version")
    is_empty = number(connection, "SELECT count(*) FROM sqlite_master") == 0
    if owner != APPLICATION_ID and not (is_empty and owner == version == 0):
        raise DataFileRefused(f"{path} is a database, but not one of makeway")
    if version > newest:
        raise DataFileRefused(
            f"{path} has version {version} and was written by a newer makeway; this one knows versions up to {newest}:"
            " install the newer one again, or go back to a copy of the file from before"
        )
    return version


def _check_pages(connection: sqlite3.Connection, path: Path) -> None:
    """Check every page, unless that takes too long for a start; about 1 s for 256 MiB."""
    size = path.stat().st_size
    if size > CHECKED_BYTES_MAX:
        log.warning(
            "%s has %d MiB: its objects are checked one by one, its pages are not (`sqlite3 FILE 'PRAGMA"
            " integrity_check'` does that)", path, size >> 20,
        )  # fmt: skip
        return
    found = [str(row[0]) for row in connection.execute(f"PRAGMA integrity_check({TOLD_MAX})")]
    if found != ["ok"]:
        raise DataFileRefused(f"{path} is damaged: {told(found)}; {RECOVERY}")


def _set_up(connection: sqlite3.Connection, size_max: int | None) -> None:
    connection.create_function("checksum_of", 5, checksum_in_sql, deterministic=True)
    connection.create_aggregate("sum_of", 1, SumInSql)
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA fullfsync = ON")  # where fsync alone does not reach the disk
    connection.execute("PRAGMA checkpoint_fullfsync = ON")
    connection.execute(f"PRAGMA journal_size_limit = {WAL_BYTES_KEPT}")
    ((mode,),) = connection.execute("PRAGMA journal_mode = WAL")
    if mode != "wal":
        raise sqlite3.OperationalError(f"its file system does not take a write-ahead log (it stays {mode})")
    if size_max is not None:
        pages = max(1, size_max // number(connection, "PRAGMA page_size"))
        connection.execute(f"PRAGMA max_page_count = {pages}")


def _bring_up(connection: sqlite3.Connection, version: int, steps: Sequence[Sequence[str]]) -> None:
    """Upgrade the layout; a step and its version are one transaction, and the steps before an error stay."""
    for to, step in enumerate(steps[version:], start=version + 1):
        connection.execute("BEGIN IMMEDIATE")
        for statement in (*step, f"PRAGMA user_version = {to}"):
            connection.execute(statement)
        connection.execute("COMMIT")


def _check_columns(connection: sqlite3.Connection, path: Path, steps: Sequence[Sequence[str]]) -> None:
    """Check that the tables have the definitions of this version: any changed letter may change their behaviour."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as wanted:
        wanted.create_function("checksum_of", 5, checksum_in_sql, deterministic=True)
        wanted.create_aggregate("sum_of", 1, SumInSql)
        _bring_up(wanted, 0, steps)
        tables = [row[0] for row in wanted.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        for table in tables:
            if _columns(connection, table) != _columns(wanted, table):
                raise DataFileRefused(f"{path} is damaged: table {table} is not as it was made; {RECOVERY}")


def _columns(connection: sqlite3.Connection, table: str) -> list[tuple[object, ...]]:
    return [*connection.execute(f"PRAGMA table_info({table})"), *connection.execute(f"PRAGMA index_list({table})")]


def number(connection: sqlite3.Connection, question: str) -> int:
    ((answer,),) = connection.execute(question)
    return int(answer)


def told(findings: Iterable[str]) -> str:
    """Return some findings in words, and how many more there are."""
    every = list(findings)
    more = f", and {len(every) - TOLD_MAX} more" if len(every) > TOLD_MAX else ""
    return "; ".join(each.replace("\n", " ") for each in every[:TOLD_MAX]) + more
