"""Objects that a part of us could not handle: each is set aside, says so, and is tried again; all others go on.

A part that fails to handle an object hands in the error, and goes on with the next object. For that part alone the
object counts as not there; other parts may well read it. Each new cause is told once: as an Event of the object, to
the listeners, and in two metrics. The object is tried again whenever it changes or is reconciled, and a bounded number
of times by itself, after growing pauses.

``tolerates`` says which errors are dealt with so. In tests and simulations these are only errors that were made on
purpose: a fault of ours must not hide here.
"""

from __future__ import annotations

import logging
from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import msgspec

from makeway.controllers.contract import Note, Ref
from makeway.core.model import Millis
from makeway.runtime.metrics.registry import MetricsRegistry
from makeway.runtime.workqueue import Timers, backoff_ms

log = logging.getLogger("makeway.set_aside")

REASON = "SetAside"  # of the Event, and of the condition of a Workload that cannot wait in a queue
CASES_MAX = 10_000  # objects that are remembered; beyond that the oldest are forgotten, and told again
TRIES_MAX = 8  # by itself; later it is tried again only after a change of the object, or a new start
CAUSE_CHARS_MAX = 400

Tolerates = Callable[[Exception], bool]
Listener = Callable[[Ref, str, Exception], None]  # object, part, what went wrong
Probe = Callable[[str, Ref], None]  # part, object: called before an object is handled; a test may make it raise


def nothing(_: Exception) -> bool:
    """Every error goes on to the driver."""
    return False


def anything(_: Exception) -> bool:
    """For a server: every error concerns its object alone."""
    return True


@dataclass(slots=True)
class _Case:
    cause: str = ""
    again: bool = True  # it is tried again by itself
    tries: int = 0  # so many since the object last changed


class SetAside:
    """``notes`` takes notes for Events. A *part* is a name with dots; the first word is its room."""

    def __init__(
        self, notes: deque[Note], metrics: MetricsRegistry | None = None, tolerates: Tolerates = nothing
    ) -> None:
        self._notes = notes
        self._metrics = metrics
        self._tolerates = tolerates
        self._cases: dict[Ref, dict[str, _Case]] = {}  # by object and part, the oldest first
        self._now: Counter[tuple[str, str]] = Counter()  # how many there are by kind and room
        self._retries: Timers[Ref] = Timers()
        self.listeners: list[Listener] = []
        self.total = 0  # how often an object was set aside, for tests and figures

    def __bool__(self) -> bool:
        return bool(self._cases)

    def put(self, ref: Ref, part: str, error: Exception, now: Millis, *, again: bool = True) -> None:
        """``part`` could not handle this object. Raises the error where that is not tolerated.

        ``again``: it is worth a try without a change of the object.
        """
        if not self._tolerates(error):
            raise error
        cause = cause_of(error)
        parts = self._cases.setdefault(ref, {})
        case = parts.get(part)
        if case is None:
            self._count(ref.kind, room_of(part), 1)
            case = parts[part] = _Case(again=again)
        if case.cause != cause:
            case.cause = cause
            self._tell(ref, part, error, cause)
        if again:
            self._try_again(ref, case, now)
        if len(self._cases) > CASES_MAX:
            self.forget(next(iter(self._cases)))

    def _try_again(self, ref: Ref, case: _Case, now: Millis) -> None:
        """Reconciles may try the object as often as they like meanwhile: that uses up none of its tries."""
        waits_until = self._retries.at(ref)
        if case.tries == TRIES_MAX or (case.tries and waits_until is not None):
            return
        case.tries += 1
        at = Millis(now + backoff_ms(case.tries))
        self._retries.set(ref, at if waits_until is None else min(at, waits_until))

    def _tell(self, ref: Ref, part: str, error: Exception, cause: str) -> None:
        self.total += 1
        for listener in self.listeners:
            listener(ref, part, error)
        self._notes.append(Note(ref, "Warning", REASON, words(part, cause)))
        if self._metrics is not None:
            self._metrics.aside.told(ref.kind, room_of(part))

    def _count(self, kind: str, room: str, more: int) -> None:
        self._now[kind, room] += more
        if self._metrics is not None:
            self._metrics.aside.are(kind, room, self._now[kind, room])

    def handled(self, ref: Ref, part: str) -> None:
        """This part can handle the object again."""
        parts = self._cases.get(ref)
        if parts is None or parts.pop(part, None) is None:
            return
        if not parts:
            del self._cases[ref]
            self._retries.set(ref, None)
        self._count(ref.kind, room_of(part), -1)

    def changed(self, ref: Ref) -> None:
        """The object has changed: failed tries count no more, and a part that does not try by itself reports anew."""
        for part, case in list(self._cases.get(ref, {}).items()):
            case.tries = 0
            if not case.again:
                self.handled(ref, part)

    def forget(self, ref: Ref) -> None:
        """The object is gone."""
        for part in list(self._cases.get(ref, ())):
            self.handled(ref, part)

    def cause(self, ref: Ref, part: str) -> str | None:
        """Why this part gave up on the object; None: it did not."""
        case = self._cases.get(ref, {}).get(part)
        return None if case is None else case.cause

    def of(self, part: str) -> set[Ref]:
        """All objects that this part gave up on."""
        return {ref for ref, parts in self._cases.items() if part in parts}

    def due(self, now: Millis) -> Iterator[Ref]:
        """The objects that are to be tried again."""
        return self._retries.due(now)

    def next_at(self) -> Millis | None:
        return self._retries.next_at()

    def all(self) -> list[tuple[Ref, str, str]]:
        """Object, part and cause, in order."""
        return [(ref, part, case.cause) for ref in sorted(self._cases) for part, case in self._cases[ref].items()]


def logged(ref: Ref, part: str, error: Exception) -> None:
    """For a server: where in our code it happened."""
    name = ref.key if ref.namespace else ref.name
    log.error("%s %s: %s", ref.kind, name, words(part, cause_of(error)), exc_info=error)


def words(part: str, cause: str) -> str:
    """The text that people read at the object."""
    return f"makeway has set it aside: {part} cannot handle it: {cause}; it is tried again when it changes"


def room_of(part: str) -> str:
    return part.partition(".")[0]


def cause_of(error: Exception) -> str:
    """An error in one line: errors of reading speak for themselves, others are shown with their type."""
    text = " ".join(str(error).split())
    if not isinstance(error, msgspec.ValidationError) or not text:
        text = f"{type(error).__name__}: {text}" if text else type(error).__name__
    return text if len(text) <= CAUSE_CHARS_MAX else f"{text[:CAUSE_CHARS_MAX]}…"
