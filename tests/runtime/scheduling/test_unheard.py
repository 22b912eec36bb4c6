"""When a workload is handed out that may have to be told why it waits."""

from __future__ import annotations

from itertools import islice

from makeway.core.model import Millis, QueueName, WorkloadKey
from makeway.runtime.scheduling.unheard import Unheard

Q, P = QueueName("q"), QueueName("p")
A, B, C = (WorkloadKey(f"default/{name}") for name in "abc")
MINUTE = 60_000


def rested(unheard: Unheard, now: int, at_latest: int = MINUTE) -> list[WorkloadKey]:
    return list(unheard.rested(at_latest, Millis(now)))


def test_each_rests_for_its_time_and_is_handed_out_once() -> None:
    unheard = Unheard(1000)
    unheard.note(Q, [A], Millis(0))
    unheard.note(Q, [A, B], Millis(400))
    assert (unheard.next_at(), rested(unheard, 999)) == (1000, [])
    assert rested(unheard, 1000) == [A]
    assert (unheard.next_at(), rested(unheard, 1399)) == (1400, [])
    assert rested(unheard, 1400) == [B]
    assert (unheard.next_at(), rested(unheard, 9000)) == (None, [])


def test_a_queue_that_is_stirred_has_to_rest_again() -> None:
    unheard = Unheard(1000)
    unheard.note(Q, [A], Millis(0))
    unheard.note(P, [B], Millis(0))
    unheard.stir({Q}, Millis(700))
    assert rested(unheard, 1000) == [B]
    assert (unheard.next_at(), rested(unheard, 1699)) == (1700, [])
    assert rested(unheard, 1700) == [A]


def test_in_a_queue_that_never_rests_it_takes_as_long_as_was_said() -> None:
    unheard = Unheard(1000)
    unheard.note(Q, [A], Millis(0))
    found = []
    for now in range(0, 5000, 100):
        unheard.stir({Q}, Millis(now))
        found += [(key, now) for key in rested(unheard, now, at_latest=3000)]
    assert found == [(A, 3000)]


def test_a_look_at_a_stirred_queue_comes_once_per_rest() -> None:
    """Not in each millisecond, and for the longest known ones when their time is up."""
    unheard = Unheard(1000)
    unheard.note(Q, [A], Millis(0))
    looks = 0
    for now in range(0, 60_001, 100):
        unheard.stir({Q}, Millis(now))
        looks += unheard.is_due(Millis(now))
        rested(unheard, now)
    assert looks <= 61


def test_what_is_forgotten_is_not_handed_out_and_not_waited_for() -> None:
    unheard = Unheard(1000)
    unheard.note(Q, [A, B], Millis(0))
    unheard.forget(A)
    unheard.forget(C)
    assert rested(unheard, 1000) == [B]
    unheard.note(Q, [A], Millis(1000))
    unheard.forget(A)
    assert unheard.next_at() is None
    unheard.note(Q, [A], Millis(1500))
    assert (rested(unheard, 2000), rested(unheard, 2500)) == ([], [A])


def test_a_caller_that_stops_gets_the_others_next_time() -> None:
    unheard = Unheard(1000)
    unheard.note(Q, [A, B, C], Millis(0))
    assert list(islice(unheard.rested(MINUTE, Millis(1000)), 2)) == [A, B]
    assert unheard.is_due(Millis(1000))
    assert rested(unheard, 1000) == [C]
    assert not unheard.is_due(Millis(1000))


def test_a_clock_that_is_set_back_delays_nothing_for_long() -> None:
    unheard = Unheard(1000)
    unheard.note(Q, [A], Millis(3_600_000))
    assert rested(unheard, 1000) == [A]
