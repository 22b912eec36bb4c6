"""A Store on SQLite: all objects in memory, and the data file as the truth.

There are two copies of the newest states, which share the objects themselves. *Ahead* belongs to the writer thread:
there the rules of the API decide, and their decisions may still be undone (``group_writer``). *Shown* is what all other
threads read (``shared``). It has only committed changes, so no client ever sees a revision that a crash could undo and
another write could use again. ``guarding`` says what happens if the file cannot be written.

Promises: the Store conformance suite. A call that returned is on the disk; a call that raised has changed nothing,
except TimedOut, where that is unknown. Resuming a watch from before a restart raises Expired. Calls may come from any
thread.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from pathlib import Path
from types import TracebackType
from typing import TypeVar

from makeway.adapters.server.changes.own_writes import recorded
from makeway.adapters.server.storage.data_file import DataFile
from makeway.adapters.server.storage.group_writer import LOOKS_PER_CALL, GroupWriter, OnCommit
from makeway.adapters.server.storage.guarding import GuardedFile
from makeway.adapters.server.storage.shared import SharedObjects
from makeway.api.reading.documents import Tree
from makeway.api.reading.structure import Mode
from makeway.api.validation import ValidationContext
from makeway.api.versions import Kind
from makeway.runtime.ports import Body, Clock, Names, Propagation, SeededNames, Stored, called
from makeway.runtime.stores.history import History
from makeway.runtime.stores.rules import Admission, StoreRules

log = logging.getLogger("makeway.storage")

_NEVER_FORGETS = 1 << 62  # ahead is cut when a group is committed, not by count or size

T = TypeVar("T")


class SqliteStore(SharedObjects):
    """See ``runtime.ports.Store``. In addition: ``compact``, ``close``, and a file that it alone has open; ``submit``,
    for decisions that no thread waits for; ``on_commit``, for listeners of changes.

    ``history``: how many revisions a watch or a list may fall behind before it expires. ``size_max``: the limit of the
    data file in bytes. For the rest see ``StoreRules``. Raises ``DataFileRefused``.
    """

    def __init__(
        self, path: Path, clock: Clock, names: Names | None = None, *, history: int = 10_000, careful: bool = True,
        needs_namespaces: bool = False, mode: Mode = "Strict", context: ValidationContext | None = None,
        size_max: int | None = None, admission: Admission | None = None,
    ) -> None:  # fmt: skip
        self._file = DataFile(path, size_max=size_max)
        self._clock = clock
        try:
            begin = self._file.revision()
            super().__init__(History(history, begin))
            ahead = StoreRules(
                History(_NEVER_FORGETS, begin, _NEVER_FORGETS), clock, names or _new_names(), careful=careful,
                needs_namespaces=needs_namespaces, mode=mode, context=context, admission=admission,
                looks=LOOKS_PER_CALL, on_trouble=_leave_be,
            )  # fmt: skip
            for stored in self._file.objects():
                self.restore(stored)
                ahead.restore(stored)
            ahead.suspect_remains()
        except BaseException:
            self._file.close()
            raise
        self._writer = GroupWriter(GuardedFile(self._file, self.all), ahead, self)

    def close(self) -> None:
        """Commit what waits, and close the file. Reads go on working; a write is Unavailable."""
        if self._writer.close():
            self._file.close()

    def __enter__(self) -> SqliteStore:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def trouble(self) -> str:
        """Why nothing can be written, at present or until the next start; "" if writing works."""
        return self._writer.trouble

    def on_commit(self, listener: OnCommit) -> None:
        """Register a listener for the changes of every group; it is called once they are visible, before their calls
        return.

        It is called on the writer thread: it must be quick, and raise nothing.
        """
        self._writer.listeners = (*self._writer.listeners, listener)

    # --- writing ---

    def create(self, body: Body) -> Stored:
        return self.submit(lambda ahead: ahead.create(body)).result()

    def update(self, body: Body) -> Stored:
        return self.submit(lambda ahead: ahead.update(recorded(ahead, body, self._clock))).result()

    def update_status(self, body: Body) -> Stored:
        return self.submit(lambda ahead: ahead.update_status(body)).result()

    def patch(
        self, kind: Kind, namespace: str, name: str, change: Mapping[str, Tree], *, status: bool = False
    ) -> Stored:
        return self.submit(lambda ahead: ahead.patch(kind, namespace, name, change, status=status)).result()

    def delete(
        self, kind: Kind, namespace: str, name: str, *, uid: str = "", resource_version: str = "",
        propagation: Propagation | None = None, grace: int | None = None,
    ) -> Stored:  # fmt: skip
        return self.submit(lambda ahead: ahead.delete(
            kind, namespace, name, uid=uid, resource_version=resource_version, propagation=propagation, grace=grace
        )).result()  # fmt: skip

    def submit(self, decision: Callable[[StoreRules], T], *, dry_run: bool = False) -> Future[T]:
        """Run a decision and write its changes as one; the future completes once they are on the disk.

        ``decision`` is called on the writer thread and may make several calls: all of them count, or, if it raises,
        none. ``dry_run``: it is judged and answered in the same way, and then undone.
        """
        return self._writer.submit(decision, dry_run=dry_run)


def _leave_be(each: Stored, error: Exception) -> None:
    log.warning(
        "%s could not be looked at by the garbage collector and is left: %r", called(each.kind, each.name), error
    )


def _new_names() -> Names:
    """Return a generator of names with a random seed, so that no name of an earlier start comes again."""
    return SeededNames(secrets.randbits(128))
