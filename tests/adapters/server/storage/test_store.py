"""The Store on SQLite: the suite, and the effects of a restart, a crash, a full disk or another server."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import closing, suppress
from functools import partial
from itertools import count
from pathlib import Path
from threading import Event as Gate
from time import sleep
from typing import Any

import pytest

from makeway.adapters.server.storage import group_writer as storage
from makeway.adapters.server.storage.data_file import NotWritten
from makeway.adapters.server.storage.store import SqliteStore
from makeway.core.model import Millis
from makeway.runtime.ports import (
    AlreadyExists,
    Expired,
    NotFound,
    Revision,
    Store,
    Stored,
    TimedOut,
    Unavailable,
    Watch,
    WatchEvent,
    kind_key,
)
from makeway.runtime.stores.rules import StoreRules
from makeway.testing.conformance import FLAVOR, HELD, QUEUE, SPOT, StoreConformance, owned_by, queue, story

NOON = Millis(1_767_268_800_987)  # 2026-01-01T12:00:00.987Z
KILLS = 3
LINES_BEFORE_THE_KILL = 40

# A server that prints every write once it is acknowledged, and every removal before the request too.
WRITES_FOR_EVER = """
import sys
from pathlib import Path
from threading import Thread
from makeway.adapters.server.storage.store import SqliteStore
from makeway.core.model import Millis
from makeway.testing.conformance import QUEUE, queue

store = SqliteStore(Path(sys.argv[1]), lambda: Millis(0))

def write(thread):
    for i in range(100_000):
        name = f"{sys.argv[2]}-{thread}-{i}"
        created = store.create(queue(name))
        print(f"{name} {created.resource_version}\\n", end="", flush=True)
        if i % 3 == 2:
            name = f"{sys.argv[2]}-{thread}-{i - 1}"
            print(f"{name} going\\n", end="", flush=True)
            store.delete(QUEUE, "team", name)
            print(f"{name} gone\\n", end="", flush=True)

for thread in range(4):
    Thread(target=write, args=(thread,)).start()
"""

# A server whose disk fails: files cannot grow any more.
MEETS_A_BROKEN_DISK = """
import resource, sys
from pathlib import Path
from makeway.adapters.server.storage.store import SqliteStore
from makeway.core.model import Millis
from makeway.runtime.ports import StoreError
from makeway.testing.conformance import QUEUE, queue

path = Path(sys.argv[1])
store = SqliteStore(path, lambda: Millis(0))
store.create(queue("before"))
size = path.with_name(f"{path.name}-wal").stat().st_size
resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
for name in ("during", "after"):
    try:
        store.create(queue(name))
    except StoreError as error:
        print(type(error).__name__)
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
print(*(each.name for each in store.list(QUEUE).items), flush=True)
store.close()
"""


def noon() -> Millis:
    return NOON


def opened(path: Path, **more: Any) -> SqliteStore:
    return SqliteStore(path, noon, **more)


class TestSqliteStore(StoreConformance):
    @pytest.fixture(autouse=True)
    def folder(self, tmp_path: Path) -> Iterator[None]:
        self.files = (tmp_path / f"{number}.db" for number in count())
        self.open: Any = None
        yield
        if self.open:
            self.open.close()

    def make_store(self) -> Any:
        if self.open:
            self.open.close()
        self.open = opened(next(self.files))
        return self.open


class Restarting:
    """A store whose server can restart; its watches end with the server, as connections do."""

    def __init__(self, path: Path) -> None:
        self.path, self.store = path, opened(path)

    def restart(self) -> None:
        self.store.close()
        self.store = opened(self.path)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)

    def watch(self, *args: Any, **more: Any) -> RestartingWatch:
        return RestartingWatch(self, self.store.watch(*args, **more))


class RestartingWatch:
    def __init__(self, server: Restarting, watch: Watch) -> None:
        self.server, self.store, self.watch = server, server.store, watch

    def poll(self, limit: int = 1000) -> Sequence[WatchEvent]:
        if self.store is not self.server.store:
            raise Expired("the server has restarted")
        return self.watch.poll(limit)

    def close(self) -> None:
        self.watch.close()


class TestSqliteStoreThatRestarts(TestSqliteStore):
    """Where other stores forget their history, this one restarts."""

    def make_store(self) -> Any:
        if self.open:
            self.open.close()
        self.open = Restarting(next(self.files))
        return self.open

    def compact(self, store: Any) -> None:
        store.restart()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "makeway.db"


@pytest.fixture
def store(path: Path) -> Iterator[SqliteStore]:
    with opened(path) as store:
        yield store


def names(store: SqliteStore) -> list[str]:
    return [each.name for each in store.list(QUEUE).items]


def test_it_is_a_store(store: SqliteStore) -> None:
    as_port: Store = store
    assert as_port is store


# --- restarts ---------------------------------------------------------------------------------------------------------


def test_what_was_stored_is_there_after_a_restart_byte_for_byte(path: Path) -> None:
    with opened(path) as store:
        store.create(SPOT)
        store.create(queue("gone"))
        store.create(queue("kept", finalizers=[HELD]))
        store.update_status(queue("kept", pending=3))
        store.delete(QUEUE, "team", "kept")
        store.delete(QUEUE, "team", "gone")
        there = [*store.list(QUEUE).items, *store.list(FLAVOR).items]
        revision = store.resource_version
    with opened(path) as store:
        assert [*store.list(QUEUE).items, *store.list(FLAVOR).items] == there
        assert store.resource_version == revision


def test_revisions_go_on_after_a_restart_even_those_of_removals(path: Path) -> None:
    with opened(path) as store:
        store.create(queue())
        last = store.delete(QUEUE, "team", "q")
    with opened(path) as store:
        assert store.create(queue()).revision == last.revision + 1


def test_no_uid_is_given_twice(path: Path) -> None:
    uids = []
    for name in "abc":
        with opened(path) as store:
            uids.append(store.create(queue(name)).uid)
    assert len(set(uids)) == 3


def test_a_resume_from_before_a_restart_expires_and_one_from_its_end_misses_nothing(path: Path) -> None:
    with opened(path) as store:
        before = store.create(queue("a"))
        end = store.create(queue("b"))
    with opened(path) as store:
        with pytest.raises(Expired):
            store.watch(QUEUE, before.resource_version)
        watch = store.watch(QUEUE, end.resource_version)
        store.create(queue("c"))
        assert story(watch.poll()) == [("ADDED", "c")]


def test_a_list_cannot_go_on_over_a_restart_once_something_was_written(path: Path) -> None:
    with opened(path) as store:
        store.create(queue("a"))
        store.create(queue("b"))
        token = store.list(QUEUE, limit=1).token
        store.create(SPOT)
    with opened(path) as store, pytest.raises(Expired):
        store.list(QUEUE, limit=1, token=token)


def test_the_newest_revision_of_a_kind_is_never_told_too_low(path: Path) -> None:
    with opened(path) as store:
        assert store.latest(QUEUE) == 0
        created = store.create(queue())
        store.create(SPOT)
        store.compact()
        assert store.latest(QUEUE) == created.revision
    with opened(path) as store:
        assert (store.latest(QUEUE) or 0) >= created.revision


def test_owners_are_known_after_a_restart(path: Path) -> None:
    with opened(path) as store:
        owner = store.create(queue("owner"))
        store.create(queue("child", ownerReferences=owned_by(owner)))
    with opened(path) as store:
        store.delete(QUEUE, "team", "owner")
        assert names(store) == []
    with opened(path) as store:
        assert names(store) == []


def test_what_was_closed_can_be_read_but_not_written(path: Path) -> None:
    store = opened(path)
    store.create(queue())
    store.close()
    store.close()
    assert names(store) == ["q"]
    with pytest.raises(Unavailable, match="closed"):
        store.create(queue("late"))


# --- groups -----------------------------------------------------------------------------------------------------------


class Disk:
    """Wraps the data file: it can delay writes, refuse them, and counts them."""

    def __init__(self, store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
        self.groups: list[int] = []
        self.error: Exception | None = None
        self.reached, self.open = Gate(), Gate()
        self.open.set()
        write = store._file.write

        def through(changes: Sequence[Revision]) -> None:
            self.reached.set()
            self.open.wait()
            if self.error:
                raise self.error
            self.groups.append(len(changes))
            write(changes)

        monkeypatch.setattr(store._file, "write", through)

    def hold_up(self, store: SqliteStore, calls: Sequence[Callable[[], object]]) -> list[Future[object]]:
        """Let one write wait for the disk, and ``calls`` behind it, in this order."""
        self.open.clear()
        pool = ThreadPoolExecutor(len(calls) + 1)
        first = pool.submit(store.create, queue("first"))
        self.reached.wait()
        waiting: list[Future[object]] = []
        for number, call in enumerate(calls, start=1):
            waiting.append(pool.submit(call))
            while store._writer._queue.qsize() < number:
                sleep(0.001)
        pool.shutdown(wait=False)
        return [first, *waiting]  # type: ignore[list-item]


@pytest.fixture
def disk(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> Iterator[Disk]:
    disk = Disk(store, monkeypatch)
    yield disk
    disk.open.set()


def test_those_who_wait_are_committed_as_one(disk: Disk, store: SqliteStore) -> None:
    answers = disk.hold_up(store, [partial(store.create, queue(f"q-{i}")) for i in range(5)])
    disk.open.set()
    revisions = [answer.result().revision for answer in answers]  # type: ignore[attr-defined]
    assert revisions == list(range(2, 8))
    assert disk.groups == [1, 5]


def test_a_group_is_bounded(disk: Disk, store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage, "GROUP_MAX", 2)
    answers = disk.hold_up(store, [partial(store.create, queue(f"q-{i}")) for i in range(5)])
    disk.open.set()
    wait(answers)
    assert disk.groups == [1, 2, 2, 1]


def test_nobody_sees_what_is_not_committed(disk: Disk, store: SqliteStore) -> None:
    watch = store.watch(QUEUE)
    (answer,) = disk.hold_up(store, [])
    with pytest.raises(NotFound):
        store.get(QUEUE, "team", "first")
    assert (names(store), list(watch.poll()), store.resource_version) == ([], [], "1")
    assert not answer.done()
    disk.open.set()
    answer.result()
    assert (names(store), story(watch.poll()), store.resource_version) == (["first"], [("ADDED", "first")], "2")


def test_each_call_decides_on_what_the_one_before_it_left(disk: Disk, store: SqliteStore) -> None:
    first, again, hold, removal = disk.hold_up(store, [
        partial(store.create, queue("first")), partial(store.update, queue("first", stop="Hold")),
        partial(store.delete, QUEUE, "team", "first"),
    ])  # fmt: skip
    disk.open.set()
    assert isinstance(again.exception(), AlreadyExists)
    assert [each.result().revision for each in (first, hold, removal)] == [2, 3, 4]  # type: ignore[attr-defined]
    assert names(store) == []


def test_a_call_that_fails_halfway_has_changed_nothing(path: Path) -> None:
    def halfway(ahead: StoreRules) -> None:
        ahead.delete(QUEUE, "team", "owner")
        assert ahead.count(kind_key(QUEUE)) == 0
        raise StopIteration

    with opened(path) as store:
        owner = store.create(queue("owner"))
        store.create(queue("child", ownerReferences=owned_by(owner)))
        before = store.list(QUEUE)
        with pytest.raises(StopIteration):
            store.submit(halfway).result()
        assert store.list(QUEUE) == before
        store.update(queue("owner", stop="Hold"))
    with opened(path) as store:
        assert names(store) == ["child", "owner"]


def test_a_group_that_cannot_be_written_fails_as_one_and_leaves_nothing(
    disk: Disk, store: SqliteStore, path: Path
) -> None:
    owner = store.create(queue("owner"))
    store.create(queue("child", ownerReferences=owned_by(owner)))
    before = store.list(QUEUE)
    disk.reached.clear()
    disk.error = NotWritten("no room")
    answers = disk.hold_up(store, [
        partial(store.delete, QUEUE, "team", "owner"), partial(store.create, queue("owner")),
        partial(store.create, queue("first")), partial(store.update, queue("first", stop="Hold")),
    ])  # fmt: skip
    disk.open.set()
    assert [type(answer.exception()) for answer in answers] == [Unavailable] * 5
    assert store.list(QUEUE) == before
    disk.error = None
    assert store.create(queue("later")).revision == int(before.resource_version) + 1
    store.delete(QUEUE, "team", "owner")
    assert names(store) == ["later"]
    there = store.list(QUEUE).items
    store.close()
    with opened(path) as again:
        assert again.list(QUEUE).items == there


def test_many_threads_write_one_history(store: SqliteStore) -> None:
    watch = store.watch(QUEUE)

    def write(thread: int) -> list[int]:
        return [store.create(queue(f"q-{thread}-{i}")).revision for i in range(10)]

    with ThreadPoolExecutor(4) as pool:
        revisions = [revision for each in pool.map(write, range(4)) for revision in each]
    assert sorted(revisions) == list(range(2, 42))
    assert [int(event.resource_version) for event in watch.poll()] == list(range(2, 42))


# --- disks ------------------------------------------------------------------------------------------------------------


def test_where_there_is_no_room_a_write_is_refused_and_what_is_there_stays(path: Path) -> None:
    wide = {"annotations": {"wide": "x" * 9_000}}
    with opened(path, size_max=40_000) as store:
        stored = [store.create(queue(name)) for name in ("a", "b")]
        stored += fill(store, wide)
        assert 2 < len(stored) < 9
        assert list(store.list(QUEUE).items) == stored
        with pytest.raises(Unavailable, match="full") as refused:
            store.patch(QUEUE, "team", "a", {"metadata": wide})
        assert refused.value.retry_after
        assert list(store.list(QUEUE).items) == stored
        for each in stored[2:]:
            store.delete(QUEUE, "team", each.name)
        roomy = store.patch(QUEUE, "team", "a", {"metadata": wide})
        there = (roomy, stored[1])
        assert store.list(QUEUE).items == there
    with opened(path) as store:
        assert store.list(QUEUE).items == there


def fill(store: SqliteStore, metadata: dict[str, Any]) -> Iterator[Stored]:
    """Create objects until there is no room."""
    with suppress(Unavailable):
        for i in range(9):
            yield store.create(queue(f"q-{i}", **metadata))


def test_after_an_error_in_a_commit_nothing_is_written_any_more(path: Path) -> None:
    child = subprocess.run(
        [sys.executable, "-c", MEETS_A_BROKEN_DISK, str(path)], capture_output=True, text=True, check=True
    )
    assert child.stdout.split() == ["TimedOut", "Unavailable", "before"]
    with opened(path) as store:
        assert "before" in names(store)
        assert "after" not in names(store)


def test_whoever_waits_behind_a_broken_disk_is_told_so(disk: Disk, store: SqliteStore) -> None:
    disk.error = sqlite3.OperationalError("disk I/O error")
    first, second = disk.hold_up(store, [partial(store.create, queue("second"))])
    disk.open.set()
    assert [type(first.exception()), type(second.exception())] == [TimedOut, Unavailable]
    assert names(store) == []


def test_while_another_program_writes_to_the_file_a_write_is_refused_and_later_taken(
    path: Path, store: SqliteStore
) -> None:
    store._file._connection.execute("PRAGMA busy_timeout = 0")
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(Unavailable, match="locked"):
            store.create(queue())
        other.execute("ROLLBACK")
    assert store.create(queue()).revision == 2


def test_a_write_that_sqlite_refuses_does_not_stand_in_the_way_of_the_next(path: Path, store: SqliteStore) -> None:
    with closing(sqlite3.connect(path)) as other:
        other.execute(
            "CREATE TRIGGER picky BEFORE INSERT ON objects WHEN new.name = 'bad' BEGIN SELECT RAISE(ABORT, 'no'); END"
        )
    with pytest.raises(Unavailable, match="nothing was stored: no"):
        store.create(queue("bad"))
    assert store.create(queue("good")).revision == 2


def test_it_waits_for_the_disk_at_each_commit(store: SqliteStore) -> None:
    asked = [
        store._file._connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("journal_mode", "synchronous")
    ]
    assert asked == ["wal", 2]  # FULL


@pytest.mark.slow
def test_nothing_acknowledged_is_lost_when_the_server_is_killed(path: Path) -> None:
    told: dict[str, str] = {}
    for round_ in range(KILLS):
        told |= told_before_the_kill(path, f"round-{round_}")
        assert {"gone"} < set(told.values())
        with opened(path) as store:
            found = {each.name: each.resource_version for each in store.list(QUEUE).items}
            certain = {name: state for name, state in told.items() if state != "going"}
            assert {name: found.get(name, "gone") for name in certain} == certain
            assert int(store.resource_version) >= max(map(int, found.values()))


def told_before_the_kill(path: Path, prefix: str) -> dict[str, str]:
    """By name: the revision of a stored object, or that it may be going, or is gone."""
    command = [sys.executable, "-c", WRITES_FOR_EVER, str(path), prefix]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout
        lines = [child.stdout.readline() for _ in range(LINES_BEFORE_THE_KILL)]
        child.send_signal(signal.SIGKILL)
        lines += child.stdout.readlines()
    assert child.returncode == -signal.SIGKILL
    told: dict[str, str] = {}
    for line in lines:
        name, state = line.split()
        told[name] = state
    return told
