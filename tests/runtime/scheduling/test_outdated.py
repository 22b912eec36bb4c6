"""When a workload is handed out whose status may be missing or outdated."""

from __future__ import annotations

from itertools import islice

from makeway.core.model import Millis, QueueName, WorkloadKey
from makeway.runtime.scheduling.outdated import OutdatedStatuses

Q, P = QueueName("q"), QueueName("p")
A, B, C = (WorkloadKey(f"default/{name}") for name in "abc")
MINUTE = 60_000


def settled(statuses: OutdatedStatuses, now: int, at_latest: int = MINUTE) -> list[WorkloadKey]:
    return list(statuses.settled(at_latest, Millis(now)))


def test_each_rests_for_its_time_and_is_handed_out_once() -> None:
    statuses = OutdatedStatuses(1000)
    statuses.note(Q, [A], Millis(0))
    statuses.note(Q, [A, B], Millis(400))
    assert (statuses.next_at(), settled(statuses, 999)) == (1000, [])
    assert settled(statuses, 1000) == [A]
    assert (statuses.next_at(), settled(statuses, 1399)) == (1400, [])
    assert settled(statuses, 1400) == [B]
    assert (statuses.next_at(), settled(statuses, 9000)) == (None, [])


def test_a_queue_that_is_stirred_has_to_rest_again() -> None:
    statuses = OutdatedStatuses(1000)
    statuses.note(Q, [A], Millis(0))
    statuses.note(P, [B], Millis(0))
    statuses.stir({Q}, Millis(700))
    assert settled(statuses, 1000) == [B]
    assert (statuses.next_at(), settled(statuses, 1699)) == (1700, [])
    assert settled(statuses, 1700) == [A]


def test_in_a_queue_that_never_rests_it_takes_as_long_as_was_said() -> None:
    statuses = OutdatedStatuses(1000)
    statuses.note(Q, [A], Millis(0))
    found = []
    for now in range(0, 5000, 100):
        statuses.stir({Q}, Millis(now))
        found += [(key, now) for key in settled(statuses, now, at_latest=3000)]
    assert found == [(A, 3000)]


def test_a_look_at_a_stirred_queue_comes_once_per_rest() -> None:
    """Not in each millisecond, and for the longest known ones when their time is up."""
    statuses = OutdatedStatuses(1000)
    statuses.note(Q, [A], Millis(0))
    looks = 0
    for now in range(0, 60_001, 100):
        statuses.stir({Q}, Millis(now))
        looks += statuses.is_due(Millis(now))
        settled(statuses, now)
    assert looks <= 61


def test_what_is_forgotten_is_not_handed_out_and_not_waited_for() -> None:
    statuses = OutdatedStatuses(1000)
    statuses.note(Q, [A, B], Millis(0))
    statuses.forget(A)
    statuses.forget(C)
    assert settled(statuses, 1000) == [B]
    statuses.note(Q, [A], Millis(1000))
    statuses.forget(A)
    assert statuses.next_at() is None
    statuses.note(Q, [A], Millis(1500))
    assert (settled(statuses, 2000), settled(statuses, 2500)) == ([], [A])


def test_a_caller_that_stops_gets_the_others_next_time() -> None:
    statuses = OutdatedStatuses(1000)
    statuses.note(Q, [A, B, C], Millis(0))
    assert list(islice(statuses.settled(MINUTE, Millis(1000)), 2)) == [A, B]
    assert statuses.is_due(Millis(1000))
    assert settled(statuses, 1000) == [C]
    assert not statuses.is_due(Millis(1000))


def test_a_clock_that_is_set_back_delays_nothing_for_long() -> None:
    statuses = OutdatedStatuses(1000)
    statuses.note(Q, [A], Millis(3_600_000))
    assert settled(statuses, 1000) == [A]
