"""Every decision, its reasons and its outcome: one line of JSON each, in order, for explanations, replays and diffs.

A decision that writes is kept with its steps. A repeated "no" is kept once: as long as a workload is refused for the
same reasons, only a count grows. The same holds for a pod or gang that does not fit on the nodes. Lines are capped by
age and by size; the oldest go first. The digest covers all lines ever written, so that two runs can be compared
however many lines they keep.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable, Iterator

import msgspec

from makeway.api.quantity import MicroTime
from makeway.core.model import Millis, WorkloadKey
from makeway.core.policy import Policy
from makeway.core.trace import Step


class JournalEntry(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    number: int
    at: str
    what: str  # admitted, preempting, waiting, skipped, migrating, evicted, claimEnded, failed; on nodes see ``item``
    workload: str = ""
    item: str = ""  # the pod or gang that was placed, displacing, unplaced or released, or the pod that was displaced
    queue: str = ""
    decision: str = ""  # all lines of one decision carry its id
    reason: str = ""
    by: str = ""  # of an eviction: the preemptor
    victims: tuple[str, ...] = ()
    repeated: int = 0  # how often the line before this one, of the same workload, was repeated
    steps: tuple[tuple[str, tuple[str, ...], tuple[int, ...]], ...] = ()


class DecisionJournal:
    """``sink`` gets every line as it is written, with its line break; the policy says how many are kept here."""

    def __init__(self, policy: Policy | None = None, *, sink: Callable[[bytes], None] | None = None) -> None:
        settings = policy or Policy.default()
        self._max_age_ms = settings.journal_age_ms
        self._max_bytes = settings.journal_bytes
        self._sink = sink
        self._lines: deque[tuple[Millis, tuple[str, ...], bytes]] = deque()  # with their workloads and items
        self._bytes = 0
        self._first = 1  # number of the oldest line that is kept
        self._of: dict[str, list[int]] = {}  # workload or item -> numbers of its lines
        self._last_no: dict[str, object] = {}
        self._repeats: dict[str, int] = {}
        self._digest = hashlib.sha256()
        self.count = 0
        self.listeners: list[Callable[[JournalEntry], None]] = []

    def write(
        self, now: Millis, what: str, workload: WorkloadKey | None = None, *, queue: str = "", decision: str = "",
        reason: str = "", by: str = "", victims: tuple[str, ...] = (), steps: tuple[Step, ...] = (), item: str = "",
    ) -> None:  # fmt: skip
        self.count += 1
        subject = item or workload or ""
        self._last_no.pop(subject, None)
        repeated = self._repeats.pop(subject, 0)
        entry = JournalEntry(
            number=self.count, at=MicroTime.of_millis(now).text, what=what, workload=workload or "", item=item,
            queue=queue, decision=decision, reason=reason, by=by, victims=victims, repeated=repeated,
            steps=tuple((step.rule.value, step.subjects, step.numbers) for step in steps),
        )  # fmt: skip
        line = _encoder.encode(entry) + b"\n"
        self._digest.update(line)
        self._keep(now, tuple(each for each in (workload, item) if each), line)
        if self._sink is not None:
            self._sink(line)
        for listener in self.listeners:
            listener(entry)

    def refuse(
        self, now: Millis, workload: WorkloadKey | None, meaning: object, *, what: str, decision: str, reason: str,
        steps: tuple[Step, ...], queue: str = "", item: str = "",
    ) -> None:  # fmt: skip
        """A "no": written if its meaning differs from the last one, else counted."""
        subject = item or workload or ""
        if self._last_no.get(subject) == meaning:
            self._repeats[subject] = self._repeats.get(subject, 0) + 1
            return
        self.write(now, what, workload, queue=queue, decision=decision, reason=reason, steps=steps, item=item)
        self._last_no[subject] = meaning

    def forget(self, subject: str) -> None:
        """A workload or item is gone: its last "no" is forgotten."""
        self._last_no.pop(subject, None)
        self._repeats.pop(subject, None)

    # --- reading ---

    def of(self, subject: str) -> list[JournalEntry]:
        """All lines about one workload and its pods, or about one item, that are still here; oldest first."""
        return [_decoder.decode(self._lines[number - self._first][2]) for number in self._of.get(subject, ())]

    def repeats(self, subject: str) -> int:
        """How often its last "no" was repeated."""
        return self._repeats.get(subject, 0)

    def lines(self) -> Iterator[bytes]:
        for _, _, line in self._lines:
            yield line

    def sha256(self) -> str:
        return self._digest.hexdigest()

    # --- keeping ---

    def _keep(self, now: Millis, about: tuple[str, ...], line: bytes) -> None:
        self._lines.append((now, about, line))
        self._bytes += len(line)
        for subject in about:
            self._of.setdefault(subject, []).append(self.count)
        while len(self._lines) > 1 and (self._bytes > self._max_bytes or self._lines[0][0] < now - self._max_age_ms):
            _, oldest, dropped = self._lines.popleft()
            self._bytes -= len(dropped)
            for subject in oldest:
                numbers = self._of[subject]
                numbers.remove(self._first)
                if not numbers:
                    del self._of[subject]
            self._first += 1


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(JournalEntry)
