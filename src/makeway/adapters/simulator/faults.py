"""Faults as data: named points, each with a probability, drawn from a seed; every fault that fired is counted.

A profile lists its points and how often each fires, in thousandths. Dice are thrown in the order in which the run
reaches the points, so equal seeds give equal faults. A report lists points that never fired: a fault that never happens
tests nothing.

Around a Store: watches that are late, duplicated, out of order, or break and lose pending events. Around its writes:
conflicts, failures and time-outs (applied or not), slow answers, and the end of the engine before or after any write.
Around the engine: restarts between two steps, a clock that jumps, and a machine whose clock is set. Within it: objects
that lowering, a controller or the cycle cannot handle for a while (0081).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from makeway.api.versions import Kind
from makeway.controllers.contract import Ref
from makeway.core.model import Millis, Selector
from makeway.runtime.executor import Call, WriteAnswer, called
from makeway.runtime.ports import Conflict, Expired, Page, Store, TimedOut, Unavailable, Watch, WatchEvent

LATE_MS_MAX = 20_000
SLOW_MS_MAX = 30_000
CLOCK_STEP_MS_MAX = 600_000
CLOCK_SET_MS_MAX = 365 * 24 * 3_600_000
UNREADABLE_MS_MAX = 20_000  # less than the time after which an object that was set aside is tried again

POINTS: Mapping[str, str] = {
    "watch.delayed": "an event comes late",
    "watch.duplicated": "an event comes twice",
    "watch.reordered": "an event comes after the one that followed it",
    "watch.lost": "a watch breaks, and what it had not told is lost",
    "list.failed": "a list or a watch cannot be had",
    "write.conflict": "a write is refused as if somebody had been quicker",
    "write.failed": "a write fails without effect",
    "write.timeout.applied": "a write happens, and its answer is lost",
    "write.timeout.lost": "a write does not happen, and nobody says so",
    "write.slow.applied": "a write happens at once, and is answered late",
    "write.slow.pending": "a write happens late",
    "crash.step": "the engine ends between two steps and begins anew from what is stored",
    "crash.before": "the engine ends just before a write",
    "crash.after": "the engine ends just after a write",
    "clock.back": "the engine's clock jumps back",
    "clock.forward": "the engine's clock jumps forward",
    "clock.set": "the machine's clock is set, by up to a year; the engine goes by its steady clock",
    "unreadable.lowering": "an object cannot be lowered for a while",
    "unreadable.controllers": "a controller cannot look at an object for a while",
    "unreadable.cycle": "no cycle can decide about a workload for a while",
}

PROFILES: Mapping[str, Mapping[str, int]] = {
    "none": {},
    "watch": {name: 50 for name in POINTS if name.startswith(("watch.", "list."))},
    "writes": {name: 50 for name in POINTS if name.startswith("write.")},
    "crashes": {"crash.step": 10, "crash.before": 20, "crash.after": 20},
    "clock": {"clock.back": 5, "clock.forward": 5, "clock.set": 5},
    "unreadable": {name: 30 for name in POINTS if name.startswith("unreadable.")},
    "all": {
        **dict.fromkeys(POINTS, 40), "watch.lost": 10, "list.failed": 20, "crash.step": 5, "crash.before": 10,
        "crash.after": 10, "clock.back": 2, "clock.forward": 2, "clock.set": 2, "unreadable.lowering": 10,
        "unreadable.controllers": 10, "unreadable.cycle": 10,
    },
}  # fmt: skip


class Crashed(Exception):
    """The engine has ended; the writes that it had sent may have happened."""


class Unreadable(Exception):
    """An object that the engine cannot handle for a while."""


class Faults:
    """The seeded dice of one run, and the points that have fired."""

    def __init__(self, seed: int, chances: Mapping[str, int]) -> None:
        unknown = sorted(set(chances) - set(POINTS))
        if unknown:
            raise ValueError(f"no such fault point: {', '.join(unknown)}; there are {', '.join(POINTS)}")
        self._dice = random.Random(f"faults {seed}")
        self._chances = dict(chances)
        self.until: Millis | None = None  # after this time there are no more faults
        self.now: Callable[[], Millis] = lambda: Millis(0)
        self.fired: dict[str, int] = dict.fromkeys(POINTS, 0)
        self._unreadable: dict[tuple[str, Ref], Millis] = {}  # part and object -> until when

    @classmethod
    def of_profile(cls, seed: int, profile: str) -> Faults:
        return cls(seed, PROFILES[profile])

    def fires(self, point: str) -> bool:
        chance = self._chances.get(point, 0)
        if not chance or (self.until is not None and self.now() >= self.until):
            return False
        if self._dice.randrange(1000) >= chance:
            return False
        self.fired[point] += 1
        return True

    def probe(self, part: str, ref: Ref) -> None:
        """``part`` of the engine is about to handle an object. Raises Unreadable, then and for a while after it."""
        until = self._unreadable.get((part, ref))
        if until is None and self.fires(f"unreadable.{part.partition('.')[0]}"):
            until = self._unreadable[part, ref] = Millis(self.now() + self.span(UNREADABLE_MS_MAX))
        if until is None:
            return
        if self.now() < until:
            raise Unreadable(f"it cannot be read until {until}")
        del self._unreadable[part, ref]

    def span(self, most: int) -> Millis:
        return Millis(self._dice.randrange(1, most))

    def never_fired(self) -> list[str]:
        """The points of the profile that did not fire."""
        return [name for name in POINTS if self._chances.get(name, 0) and not self.fired[name]]


# --- watches ---------------------------------------------------------------------------------------------------------


class FaultyStore:
    """The lists and watches of another Store, with faults; other calls are passed on unchanged.

    It is an actor too: the driver asks it when the next late event arrives.
    """

    def __init__(self, store: Store, faults: Faults) -> None:
        self._store = store
        self._faults = faults
        self._watches: list[FaultyWatch] = []

    def __getattr__(self, name: str) -> object:
        return getattr(self._store, name)

    def latest(self, kind: Kind) -> int | None:
        return None  # events that are not delivered yet are not known

    def list(
        self, kind: Kind, namespace: str | None = None, *, labels: Selector = (), limit: int = 0, token: str = ""
    ) -> Page:
        if self._faults.fires("list.failed"):
            raise Unavailable("the list cannot be had")
        return self._store.list(kind, namespace, labels=labels, limit=limit, token=token)

    def watch(
        self, kind: Kind, since: str = "", *, namespace: str | None = None, labels: Selector = (),
        bookmarks: bool = False,
    ) -> Watch:  # fmt: skip
        if self._faults.fires("list.failed"):
            raise Unavailable("the watch cannot be had")
        inner = self._store.watch(kind, since, namespace=namespace, labels=labels, bookmarks=bookmarks)
        self._watches.append(FaultyWatch(inner, self._faults))
        return self._watches[-1]

    def forget_watches(self) -> None:
        """Forget all watches: their engine is gone."""
        self._watches.clear()

    def step(self, now: Millis) -> bool:
        return False

    def next_at(self) -> Millis | None:
        times = [at for watch in self._watches if (at := watch.next_at()) is not None]
        return min(times) if times else None


@dataclass(slots=True)
class FaultyWatch:
    inner: Watch
    faults: Faults
    _late: list[tuple[Millis, int, WatchEvent]] = field(default_factory=list)
    _count: int = 0
    _breaks_at: Millis | None = None
    _is_over: bool = False

    def poll(self, limit: int = 1000) -> Sequence[WatchEvent]:
        now = self.faults.now()
        if self._breaks_at is not None:
            if now >= self._breaks_at:
                self._is_over = True
                raise Expired("the watch broke")
            return ()
        for event in self.inner.poll(limit):
            self._take(event, now)
            if self.faults.fires("watch.lost"):
                self._breaks_at = Millis(now + self.faults.span(LATE_MS_MAX))
                return ()
        due = [late for late in self._late if late[0] <= now]
        self._late = [late for late in self._late if late[0] > now]
        return [event for _, _, event in sorted(due, key=lambda late: late[:2])]

    def _take(self, event: WatchEvent, now: Millis) -> None:
        at = now
        if self.faults.fires("watch.delayed"):
            at = Millis(now + self.faults.span(LATE_MS_MAX))
        self._put(at, event)
        if self.faults.fires("watch.duplicated"):
            self._put(at, event)
        if len(self._late) > 1 and self.faults.fires("watch.reordered"):
            (at, number, earlier), (after, following, later) = self._late[-2:]
            self._late[-2:] = [(at, number, later), (after, following, earlier)]

    def _put(self, at: Millis, event: WatchEvent) -> None:
        self._count += 1
        self._late.append((at, self._count, event))

    def next_at(self) -> Millis | None:
        if self._breaks_at is not None:
            return None if self._is_over else self._breaks_at
        return min((late[0] for late in self._late), default=None)

    def close(self) -> None:
        self.inner.close()


# --- writes ----------------------------------------------------------------------------------------------------------


class FaultyWriter:
    """A writer whose calls meet faults. Dropping it drops the calls that it has not sent yet."""

    def __init__(self, store: Store, faults: Faults) -> None:
        self._store = store
        self._faults = faults
        self._answers: list[tuple[Millis, int, WriteAnswer | Call]] = []  # a Call is not sent yet

    def send(self, number: int, call: Call, now: Millis) -> None:
        fires = self._faults.fires
        if fires("crash.before"):
            raise Crashed
        at, answer = now, self._refused(number)
        if answer is None and fires("write.slow.pending"):
            self._answers.append((Millis(now + self._faults.span(SLOW_MS_MAX)), number, call))
            return
        if answer is None:
            answer = called(self._store, number, call)
            if fires("crash.after"):
                raise Crashed
            if fires("write.timeout.applied"):
                answer = WriteAnswer(number, error=TimedOut("no answer came"))
            if fires("write.slow.applied"):
                at = Millis(now + self._faults.span(SLOW_MS_MAX))
        self._answers.append((at, number, answer))

    def _refused(self, number: int) -> WriteAnswer | None:
        fires = self._faults.fires
        if fires("write.conflict"):
            return WriteAnswer(number, error=Conflict("somebody was quicker"))
        if fires("write.failed"):
            return WriteAnswer(number, error=Unavailable("the server is busy"))
        if fires("write.timeout.lost"):
            return WriteAnswer(number, error=TimedOut("no answer came"))
        return None

    def answers(self, now: Millis) -> Sequence[WriteAnswer]:
        due = sorted((each for each in self._answers if each[0] <= now), key=lambda each: each[:2])
        self._answers = [each for each in self._answers if each[0] > now]
        return [each if isinstance(each, WriteAnswer) else called(self._store, number, each) for _, number, each in due]

    def next_at(self) -> Millis | None:
        return min(each[0] for each in self._answers) if self._answers else None
