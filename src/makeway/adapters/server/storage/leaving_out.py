"""Starts from a damaged data file with what is readable: the rest is listed, and the damaged file is kept."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec
from msgspec.structs import replace

from makeway.adapters.server.storage.checksums import checksum_in_sql
from makeway.adapters.server.storage.data_file import DataFile, DataFileRefused, locked, rows, write_copy
from makeway.adapters.server.storage.layout import number
from makeway.adapters.server.storage.own_folder import open_own
from makeway.api.versions import find_kind
from makeway.runtime.ports import Stored

NEWEST = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class Salvage:
    """What is in the new file, what is missing, and where the damaged file is."""

    findings: Sequence[str] = ()  # none: the file was intact, and nothing was done
    kept: int = 0
    aside: Path = Path()


def leave_out_damaged(path: Path) -> Salvage:
    """Replace a damaged file. Raises ``DataFileRefused`` if another server has the file, or nothing in it can
    be read.
    """
    if _is_whole(path):
        return Salvage()
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    lock = locked(path, folder)
    try:
        found, findings, latest = _readable(path)
        revision = max([latest, lock.mark, *(each.revision for each in found)])  # no revision may be used twice
        found, revision = _standing_alone(found, revision)
        new, aside = path.with_name(f"{path.name}.readable"), path.with_name(f"{path.name}.damaged-{revision}")
        new.unlink(missing_ok=True)
        write_copy(new, revision, found)
        os.rename(path, aside)
        with suppress(FileNotFoundError):  # its log stays beside it
            os.rename(f"{path}-wal", f"{aside}-wal")
        path.with_name(f"{path.name}-shm").unlink(missing_ok=True)
        os.rename(new, path)
    except (OSError, sqlite3.Error, ValueError) as error:
        raise DataFileRefused(f"{path} cannot be gone on with: {error}") from error
    finally:
        lock.close()
        os.close(folder)
    return Salvage(findings or ["it was not whole, though all objects in it could be read"], len(found), aside)


def _standing_alone(found: Sequence[Stored], revision: int) -> tuple[list[Stored], int]:
    """Remove owner references to missing objects: what is left of a damaged file must not be collected as garbage.

    Owners of kinds that are not served here are unknown to the collector too, so their references stay.
    """
    there, result = {each.uid for each in found}, []
    for each in found:
        owners = each.metadata().owner_references
        kept = tuple(one for one in owners if one.uid in there or find_kind(one.api_version, one.kind) is None)
        if len(kept) < len(each.owners):
            with suppress(msgspec.ValidationError):  # an unreadable object is not collected either
                value = each.value()
                revision += 1
                meta = replace(value.metadata, owner_references=kept, resource_version=str(revision))
                each = Stored.made(each.kind, replace(value, metadata=meta))
        result.append(each)
    return result, revision


def _is_whole(path: Path) -> bool:
    try:
        file = DataFile(path)
    except DataFileRefused as error:
        if "in use by" in str(error):
            raise
        return False
    try:
        for _ in file.objects():
            pass
    except DataFileRefused:
        return False
    finally:
        file.close()
    return True


def _readable(path: Path) -> tuple[list[Stored], list[str], int]:
    """Return objects, what is wrong with the others, and the newest revision, as far as they are readable."""
    os.close(open_own(path, os.O_RDWR))
    with closing(sqlite3.connect(path)) as connection:
        connection.create_function("checksum_of", 5, checksum_in_sql, deterministic=True)
        has_sums = any(row[1] == "checksum" for row in connection.execute("PRAGMA table_info(objects)"))
        sums = "checksum" if has_sums else "checksum_of(api_group, kind, namespace, name, data)"
        columns = f"SELECT api_group, kind, namespace, name, data, {sums} FROM objects"
        found: dict[tuple[str, str, str], Stored] = {}
        findings: dict[str, None] = {}
        for way in ("NOT INDEXED", "ORDER BY api_group, kind, namespace, name"):  # one may work if the other is damaged
            for each in rows(connection, NEWEST, f"{columns} {way}"):
                if isinstance(each, Stored):
                    known = found.setdefault((each.kind.plural, each.namespace, each.name), each)
                    if known.revision < each.revision:
                        found[each.kind.plural, each.namespace, each.name] = each
                else:
                    findings[each] = None
        try:
            latest = number(connection, "SELECT revision FROM latest")
        except (sqlite3.Error, ValueError, TypeError):
            latest = 0
    return list(found.values()), list(findings), latest
