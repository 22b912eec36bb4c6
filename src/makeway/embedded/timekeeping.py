"""The clock of a server: steady, and with a note in the data folder of the latest time.

A later start never goes behind the note. Without it, if a clock ran ahead and was corrected since, everything stored
with its times would have to wait until those times come again.
"""

from __future__ import annotations

import logging
import os
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread

from makeway.api.quantity import LAST_MILLIS, Duration
from makeway.core.model import Millis
from makeway.runtime.steady import Nanos, SteadyClock, machine_ns, wall_ns

CLOCK_FILE = "clock"
KEEP_SECONDS = 10.0  # between two notes: a killed server may lose this much
APART_MS = 10_000  # a difference that is worth a log line
STOP_SECONDS = 5.0
DIGITS_MAX = 20
log = logging.getLogger("makeway.clock")


class Timekeeper:
    """``clock`` may be read from the beginning; the note is kept from ``start`` to ``stop``, in a thread of its own."""

    def __init__(self, folder: Path, wall: Nanos = wall_ns, machine: Nanos = machine_ns) -> None:
        self._path = folder / CLOCK_FILE
        self.clock = SteadyClock(wall, machine, _noted(self._path))
        self._is_told = False  # the difference from the machine's clock was logged
        self._ending = Event()
        self._thread = Thread(target=self._run, name="makeway-clock", daemon=True)

    def start(self) -> None:
        self.look()
        self._thread.start()

    def stop(self) -> None:
        self._ending.set()
        if self._thread.is_alive():
            self._thread.join(STOP_SECONDS)
        self.look()

    def look(self) -> None:
        """Write the note, and log if the machine's clock differs."""
        with suppress(OSError):  # a full disk: the next note may have room
            _note(self._path, self.clock())
        behind = self.clock.behind_ms()
        if abs(behind) < APART_MS:
            self._is_told = False
        elif not self._is_told:
            self._is_told = True
            span = Duration(abs(behind) // 1000 * 10**9).short()
            log.warning(
                "the clock of this machine is %s %s that of the server, which follows by at most a tenth; to have it "
                "follow at once, stop the server, remove %s and start it again", span,
                "ahead of" if behind > 0 else "behind", self._path,
            )  # fmt: skip

    def _run(self) -> None:
        while not self._ending.wait(KEEP_SECONDS):
            self.look()


def _noted(path: Path) -> Millis | None:
    """The latest time of the last server, as far as it is known."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        text = os.read(file, DIGITS_MAX)
    except OSError:
        return None
    finally:
        os.close(file)
    found = int(text) if text.strip().isdigit() else 0
    return Millis(found) if 0 < found <= LAST_MILLIS else None


def _note(path: Path, now: Millis) -> None:
    """Write the note whole or not at all."""
    beside = path.with_name(f".{path.name}.new")
    file = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        os.write(file, f"{now}\n".encode())
    finally:
        os.close(file)
    os.replace(beside, path)
