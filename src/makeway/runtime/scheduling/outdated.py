"""Waiting workloads whose status may not say what they wait for, kept until their queue has settled.

Most workloads that are noted here are admitted, or evaluated and told, before they are handed out; those cost nothing
more. The others are handed out once they have waited for ``quiet_ms`` and nothing has changed in their queue for as
long. In a queue that always changes they are handed out after a time that the caller names. So a busy queue costs few
writes, and its workloads still get a status.

Promises: each workload is handed out once for all the times it was noted before; a call costs one comparison per queue
that has noted workloads, and the workloads that are handed out.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from heapq import heappop, heappush, heapreplace
from typing import NamedTuple

from makeway.core.model import Millis, QueueName, WorkloadKey


class _Entry(NamedTuple):
    since: Millis
    key: WorkloadKey
    queue: QueueName


@dataclass(slots=True)
class _Noted:
    """The noted workloads of one queue."""

    due: Millis  # when to check them
    stirred_at: Millis
    entries: deque[_Entry] = field(default_factory=deque)  # the oldest first, and some that were forgotten
    count: int = 0  # without the forgotten ones


class OutdatedStatuses:
    def __init__(self, quiet_ms: int) -> None:
        self._quiet_ms = quiet_ms
        self._noted: dict[QueueName, _Noted] = {}
        self._entries: dict[WorkloadKey, _Entry] = {}
        self._due: list[tuple[Millis, QueueName]] = []

    def note(self, queue: QueueName, keys: Iterable[WorkloadKey], now: Millis) -> None:
        """The status of these workloads may be missing or outdated."""
        noted = self._noted.get(queue)
        if noted is None:
            noted = self._noted[queue] = _Noted(Millis(now + self._quiet_ms), now)
            heappush(self._due, (noted.due, queue))
        for key in keys:
            if key not in self._entries:
                entry = self._entries[key] = _Entry(now, key, queue)
                noted.entries.append(entry)
                noted.count += 1

    def forget(self, key: WorkloadKey) -> None:
        """The workload has quota, or is gone."""
        entry = self._entries.pop(key, None)
        if entry is not None:
            noted = self._noted[entry.queue]
            noted.count -= 1
            if not noted.count:
                del self._noted[entry.queue]

    def stir(self, queues: Collection[QueueName], now: Millis) -> None:
        """Something happens in these queues that may admit a workload; the status of the others may change at once."""
        for queue in queues if len(queues) < len(self._noted) else self._noted:
            noted = self._noted.get(queue)
            if noted is not None and queue in queues:
                noted.stirred_at = now

    def settled(self, at_latest_ms: int, now: Millis) -> Iterator[WorkloadKey]:
        """Workloads that have waited long enough; a caller that stops early gets the others next time."""
        if (self.next_at() or now) > now + self._quiet_ms:  # the clock was set back
            for queue, noted in self._noted.items():
                noted.due = now
                heappush(self._due, (now, queue))
        while self.is_due(now):
            queue = self._due[0][1]
            noted = self._noted[queue]
            is_stirred = 0 <= now - noted.stirred_at < self._quiet_ms
            patience = max(self._quiet_ms, at_latest_ms) if is_stirred else self._quiet_ms
            while noted.entries and not now - patience < noted.entries[0].since <= now:
                entry = noted.entries.popleft()
                if self._entries.get(entry.key) is entry:
                    del self._entries[entry.key]
                    noted.count -= 1
                    yield entry.key
            if noted.count:
                since = noted.entries[0].since
                quiet_at = (noted.stirred_at if is_stirred else since) + self._quiet_ms
                noted.due = Millis(min(quiet_at, since + patience))
                heapreplace(self._due, (noted.due, queue))
            else:
                del self._noted[queue]

    def next_at(self) -> Millis | None:
        """The time of the next check."""
        while self._due:
            due, queue = self._due[0]
            noted = self._noted.get(queue)
            if noted is not None and noted.due == due:
                return due
            heappop(self._due)
        return None

    def is_due(self, now: Millis) -> bool:
        """Whether ``settled`` has something to do."""
        at = self.next_at()
        return at is not None and at <= now
