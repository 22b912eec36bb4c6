"""Reading of logs: whole, from near the end, since a time, with times, bounded, and while they grow."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from makeway.adapters.node.logs import BLOCK, LogQuery, LogReader
from makeway.adapters.node.supervision.logbook import PIECES, LogBook

SMALL = 4096 * PIECES  # the least that a log may keep
T0 = 1_767_225_600_000  # 2026-01-01T00:00:00Z


def over() -> bool:
    return True


def book(folder: Path, *parts: bytes, step_ms: int = 1000, restart: int = 0) -> None:
    """A log whose parts came one after the other."""
    written = LogBook(folder, restart, SMALL)
    for n, part in enumerate(parts):
        written.write(part, T0 + n * step_ms)
    written.close()


def read(folder: Path, query: LogQuery, restart: int = 0) -> bytes:
    reader = LogReader(folder, restart, query, over)
    found = b""
    while not reader.is_done:
        found += reader.read()
    return found


@pytest.mark.parametrize(
    ("query", "shown"),
    [
        (LogQuery(), b"one\ntwo\nthree\nfour"),
        (LogQuery(tail=0), b""),
        (LogQuery(tail=1), b"four"),
        (LogQuery(tail=3), b"two\nthree\nfour"),
        (LogQuery(tail=99), b"one\ntwo\nthree\nfour"),
        (LogQuery(since_ms=T0), b"one\ntwo\nthree\nfour"),
        (LogQuery(since_ms=T0 + 500), b"three\nfour"),  # "two" was begun before
        (LogQuery(since_ms=T0 + 2000), b"four"),
        (LogQuery(since_ms=T0 + 9000), b""),
        (LogQuery(since_ms=T0 + 1000, tail=1), b"four"),
        (LogQuery(limit_bytes=5), b"one\nt"),
        (LogQuery(limit_bytes=0), b""),
        (
            LogQuery(timestamps=True, tail=3),
            b"2026-01-01T00:00:00.000000000Z two\n2026-01-01T00:00:01.000000000Z three\n"
            b"2026-01-01T00:00:02.000000000Z four",
        ),
    ],
)
def test_what_a_query_shows(tmp_path: Path, query: LogQuery, shown: bytes) -> None:
    book(tmp_path, b"one\ntw", b"o\nthree\n", b"four")
    assert read(tmp_path, query) == shown


def test_starts_are_kept_apart(tmp_path: Path) -> None:
    book(tmp_path, b"first\n", restart=0)
    book(tmp_path, b"second\n", restart=1)
    assert read(tmp_path, LogQuery(), restart=0) == b"first\n"
    assert read(tmp_path, LogQuery(), restart=1) == b"second\n"
    assert read(tmp_path, LogQuery(), restart=2) == b""


def test_only_the_newest_pieces_are_kept_and_read_as_one(tmp_path: Path) -> None:
    lines = [b"%06d\n" % n for n in range(12_000)]
    book(tmp_path, *lines, step_ms=1)
    shown = read(tmp_path, LogQuery())
    assert SMALL * 3 // 4 < len(shown) <= SMALL + 8 * PIECES
    assert shown.endswith(b"011998\n011999\n")
    assert b"".join(lines).endswith(shown)
    assert read(tmp_path, LogQuery(tail=2000)) == b"".join(lines[-2000:])
    since = read(tmp_path, LogQuery(since_ms=T0 + 9_990)).splitlines(keepends=True)
    assert 2010 <= len(since) < 2010 + 10  # times are noted every ten milliseconds; rather a line too many
    assert since == lines[-len(since) :]


def test_a_reader_follows_until_it_is_over(tmp_path: Path) -> None:
    written = LogBook(tmp_path, 0, SMALL)
    state = {"over": False}
    reader = LogReader(tmp_path, 0, LogQuery(follows=True), lambda: state["over"])
    assert reader.read() == b""
    written.write(b"one\n", T0)
    assert reader.read() == b"one\n"
    assert (reader.read(), reader.is_done) == (b"", False)
    for n in range(3):
        written.write(b"%d" % n * 4096, T0 + n)
    assert b"".join(iter(reader.read, b"")) == b"0" * 4096 + b"1" * 4096 + b"2" * 4096
    written.write(b"end\n", T0 + 9)
    written.close()
    state["over"] = True
    assert reader.read() == b"end\n"
    assert (reader.read(), reader.is_done) == (b"", True)


def test_a_reader_that_is_too_slow_misses_what_was_dropped(tmp_path: Path) -> None:
    written = LogBook(tmp_path, 0, SMALL)
    written.write(b"first\n", T0)
    reader = LogReader(tmp_path, 0, LogQuery(follows=True), over)
    assert reader.read() == b"first\n"
    for n in range(30):
        written.write(b"%02d" % n * 2048, T0 + n)
    written.close()
    found = b"".join(iter(reader.read, b""))
    assert found.endswith(b"29" * 2048)
    assert reader.is_done


def test_who_does_not_follow_reads_up_to_where_the_log_ended_when_he_asked(tmp_path: Path) -> None:
    """However fast it grows: the log of a pod that runs `yes` had no end for its reader once."""
    written = LogBook(tmp_path, 0, SMALL)
    written.write(b"one\ntwo\n", T0)
    reader = LogReader(tmp_path, 0, LogQuery(), lambda: False)
    tail = LogReader(tmp_path, 0, LogQuery(tail=1), lambda: False)
    found, last = b"", b""
    for n in range(10):
        written.write(b"y\n" * 500, T0 + n)
        found += reader.read()
        last += tail.read()
    written.close()
    assert (found, reader.is_done) == (b"one\ntwo\n", True)
    assert (last, tail.is_done) == (b"two\n", True)


@pytest.mark.parametrize(
    ("query", "blocks"),
    [(LogQuery(tail=1), 2), (LogQuery(tail=1, timestamps=True), 2), (LogQuery(limit_bytes=10), 1)],
    ids=["the last line", "with its time", "few bytes"],
)
def test_a_few_lines_of_a_large_log_cost_a_few_blocks(tmp_path: Path, query: LogQuery, blocks: int) -> None:
    size = 64 * BLOCK
    written = LogBook(tmp_path, 0, size)
    for n in range(2 * size // 4096):
        written.write(b"%04d\n" % n * 819 + b"\n", T0 + 20 * n)
    written.close()
    reader = LogReader(tmp_path, 0, query, over)
    found = b""
    while not reader.is_done:
        found += reader.read()
    assert 0 < len(found) <= 100
    assert reader.bytes_read <= blocks * BLOCK + 4096


def test_a_time_is_found_by_halving(tmp_path: Path) -> None:
    """A pod that prints a little all the time has as many times as lines."""
    written = LogBook(tmp_path, 0, SMALL * 64)
    for n in range(30_000):
        written.write(b"%05d\n" % n, T0 + 10 * n)
    written.close()
    reader = LogReader(tmp_path, 0, LogQuery(since_ms=T0 + 10 * 29_990), over)
    found = b"".join(iter(reader.read, b""))
    assert found.splitlines()[-10:] == [b"%05d" % n for n in range(29_990, 30_000)]
    assert len(found.splitlines()) <= 11
    assert reader.bytes_read <= BLOCK + 4096


def test_a_reader_holds_no_file_between_two_calls(tmp_path: Path) -> None:
    book(tmp_path, b"one\n")
    before = os.listdir("/proc/self/fd")
    readers = [LogReader(tmp_path, 0, LogQuery(follows=True), lambda: False) for _ in range(20)]
    assert {reader.read() for reader in readers} == {b"one\n"}
    assert len(os.listdir("/proc/self/fd")) == len(before)


def test_a_spot_looks_otherwise_when_there_is_more(tmp_path: Path) -> None:
    written = LogBook(tmp_path, 0, SMALL)
    written.write(b"one\n", T0)
    reader = LogReader(tmp_path, 0, LogQuery(follows=True), lambda: False)
    assert reader.read() == b"one\n"
    before = reader.spot.mark()
    assert reader.spot.mark() == before
    written.write(b"two\n", T0 + 1)
    grown = reader.spot.mark()
    assert grown != before
    assert reader.read() == b"two\n"
    for n in range(3):
        written.write(b"x" * 4096, T0 + n)  # it goes on in another piece
    written.close()
    assert reader.spot.mark() != grown


def test_a_full_disk_loses_output_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    written = LogBook(tmp_path / "file" / "logs", 0, SMALL)
    written.write(b"lost", T0)
    assert written.lost_bytes == 4


@pytest.mark.slow
@pytest.mark.property
@given(
    parts=st.lists(st.binary(max_size=3000).map(lambda data: data.replace(b"x", b"\n")), max_size=12),
    tail=st.integers(min_value=0, max_value=30),
)
def test_the_tail_is_what_the_whole_ends_with(
    tmp_path_factory: pytest.TempPathFactory, parts: list[bytes], tail: int
) -> None:
    folder = tmp_path_factory.mktemp("log")
    book(folder, *parts)
    whole = b"".join(parts)
    assert read(folder, LogQuery()) == whole
    wanted = _lines(whole)[-tail:] if tail else []
    assert read(folder, LogQuery(tail=tail)) == b"".join(wanted)


def _lines(whole: bytes) -> list[bytes]:
    """The lines, split at line feeds alone."""
    parts = whole.split(b"\n")
    return [part + b"\n" for part in parts[:-1]] + ([parts[-1]] if parts[-1] else [])
