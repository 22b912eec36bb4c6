"""The record of a pod: its state and its end, written with each change, and announced to the agent."""

from __future__ import annotations

import os
import socket
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from makeway.adapters.node.supervision import processes
from makeway.adapters.node.supervision.containers import Moment
from makeway.adapters.node.supervision.records import (
    NOTES_MAX,
    ContainerRecord,
    NoteRecord,
    Phase,
    PodPlan,
    PodRecord,
    RecordFile,
    opened,
)

LAST_TRIES_MAX = 3600

Containers = tuple[ContainerRecord, ...]


class RecordKeeper:
    """Writes the record: ``_record`` is the known state, ``_saved`` the state on the disk."""

    def __init__(self, folder: Path, plan: PodPlan, began: Moment) -> None:
        self._folder = folder
        self._plan = plan
        me = processes.find(os.getpid())
        self._record = PodRecord(
            plan.uid, os.getpid(), me.ticks if me else 0, processes.boot_id(), began.wall_ms,
            clock_ms=began.wall_ms - processes.up_ms(),
        )  # fmt: skip
        self._saved: PodRecord | None = None

    def begin(self, group: str, containers: Containers) -> None:
        """Write the first record: from now on this pod is never started again. ``group``: the control group of its
        processes.
        """
        self._record = replace(self._record, group=group, containers=containers)
        self._file = RecordFile(self._folder)
        self._file.write(self._record)

    def note(self, reason: str, message: str, is_warning: bool) -> None:
        number = max((note.number for note in self._record.notes), default=0) + 1
        kept = [note for note in self._record.notes if (note.reason, note.message) != (reason, message)]
        notes = (*kept, NoteRecord(number, reason, message, is_warning))[-NOTES_MAX:]
        self._record = replace(self._record, notes=notes)

    def save(self, phase: Phase, containers: Containers, *, is_last: bool = False) -> None:
        """Write the record if it has changed, and call the agent, which stores it.

        If no agent listens, the last record must survive a crash of the machine.
        """
        record = replace(self._record, phase=phase, containers=containers)
        if record == self._saved:
            return
        self._record = record
        with suppress(OSError):  # a full disk: the pod goes on, and the record is written when there is room
            self._file.write(record)
            self._saved = record
        if not self._call_agent() and is_last:
            self._file.sync()

    def finish(self, phase: Phase, containers: Containers, reason: str, message: str, now: Moment) -> None:
        """Write the last record, which must not be lost: while the disk is full it is tried again."""
        self._record = replace(self._record, reason=reason, message=message, finished_ms=now.wall_ms)
        for _ in range(LAST_TRIES_MAX):
            self.save(phase, containers, is_last=True)
            if self._saved is not None and self._saved.finished_ms is not None:
                return
            if not self._folder.exists():
                return  # then no agent reads it
            time.sleep(1)

    def _call_agent(self) -> bool:
        if not self._plan.agent:
            return False
        agent = Path(self._plan.agent)
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as line, opened(agent.parent) as parent:
                line.setblocking(False)
                line.sendto(self._plan.uid.encode(), f"{parent}/{agent.name}")
        except OSError:
            return False  # a new agent reads all records
        return True
