"""How the engine writes to a slow Store: many writes are under way, and the engine waits for none.

``submit`` hands a call over and answers with a future. Calls are carried out by the storage, which gathers them into
groups, or by threads of a pool where a Store can only be called (``in_threads``). Answers are gathered here, from any
thread, and the engine is called; it fetches them with its next step.

Only so many calls are handed over at a time; the others wait here in their order. So a client that writes beside a
large plan waits for some of its writes, never for all of them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Executor as Pool
from concurrent.futures import Future
from functools import partial
from threading import Lock

from makeway.core.model import Millis
from makeway.runtime.executor import Call, WriteAnswer
from makeway.runtime.ports import Store, Stored, StoreError

UNDER_WAY_MAX = 256

Submit = Callable[[Call], "Future[Stored]"]


def in_threads(store: Store, pool: Pool) -> Submit:
    """For a Store whose calls block: as many calls at once as the pool has threads."""
    return lambda call: pool.submit(call, store)


class LiveWriter:
    """See ``runtime.executor.Writer``. It calls ``poke`` when there is an answer."""

    def __init__(self, submit: Submit, poke: Callable[[], None], *, under_way_max: int = UNDER_WAY_MAX) -> None:
        self._submit = submit
        self._poke = poke
        self._room = under_way_max
        self._lock = Lock()  # for the next three
        self._handing = False  # a thread hands over
        self._waiting: deque[tuple[int, Call]] = deque()
        self._under_way = 0
        self._answers: deque[WriteAnswer] = deque()

    def send(self, number: int, call: Call, now: Millis) -> None:
        with self._lock:
            self._waiting.append((number, call))
        self._hand_over()

    def answers(self, now: Millis) -> Sequence[WriteAnswer]:
        return [self._answers.popleft() for _ in range(len(self._answers))]  # later ones are for the next step

    def next_at(self) -> Millis | None:
        return None  # an answer pokes

    def _hand_over(self) -> None:
        """Hand over what waits and has room. An answer that comes from within this call makes room, too."""
        with self._lock:
            if self._handing:
                return
            self._handing = True
        while True:
            with self._lock:
                if not self._waiting or self._under_way >= self._room:
                    self._handing = False
                    return
                number, call = self._waiting.popleft()
                self._under_way += 1
            try:
                future = self._submit(call)
            except StoreError as error:
                self._take(WriteAnswer(number, error=error))
            else:
                future.add_done_callback(partial(self._done, number))

    def _done(self, number: int, future: Future[Stored]) -> None:
        error = future.exception()
        if error is None:
            self._take(WriteAnswer(number, future.result()))
        elif isinstance(error, StoreError):
            self._take(WriteAnswer(number, error=error))
        else:  # a fault of ours; it concerns this object alone
            self._take(WriteAnswer(number, error=StoreError(f"internal error: {error!r}")))
        self._hand_over()

    def _take(self, answer: WriteAnswer) -> None:
        with self._lock:
            self._under_way -= 1
        self._answers.append(answer)
        self._poke()
