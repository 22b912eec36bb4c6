"""The journal: what it keeps, what it counts, and that its digest does not depend on what it kept."""

import hashlib
import json
from dataclasses import replace

from makeway.core.model import Millis, WorkloadKey
from makeway.core.policy import Policy
from makeway.core.trace import Rule, Step
from makeway.runtime.journal import DecisionJournal

A, B = WorkloadKey("ns/a"), WorkloadKey("ns/b")
STEP = Step(Rule.SHORT, ("main", "cpu", "f"), (4, 1, 3))


def refuse(journal: DecisionJournal, at: int, meaning: object) -> None:
    journal.refuse(
        Millis(at), A, meaning, what="waiting", queue="q", decision="1/0", reason="WaitingForQuota", steps=(STEP,)
    )


def test_a_decision_is_a_line_of_json_with_its_steps() -> None:
    journal = DecisionJournal()
    journal.write(Millis(1500), "admitted", A, queue="q", decision="1/0", steps=(STEP,))
    assert json.loads(next(journal.lines())) == {
        "number": 1, "at": "1970-01-01T00:00:01.500000Z", "what": "admitted", "workload": "ns/a", "queue": "q",
        "decision": "1/0", "steps": [["flavor/insufficient-unused-quota", ["main", "cpu", "f"], [4, 1, 3]]],
    }  # fmt: skip


def test_a_repeated_no_is_one_line_and_a_count() -> None:
    journal = DecisionJournal()
    for at in range(5):
        refuse(journal, at, "short")
    assert (journal.count, journal.repeats(A)) == (1, 4)
    refuse(journal, 6, "other")
    assert journal.count == 2
    assert [entry.repeated for entry in journal.of(A)] == [0, 4]


def test_a_no_after_a_decision_is_news() -> None:
    journal = DecisionJournal()
    refuse(journal, 1, "short")
    journal.write(Millis(2), "admitted", A)
    refuse(journal, 3, "short")
    assert [entry.what for entry in journal.of(A)] == ["waiting", "admitted", "waiting"]


def test_lines_of_one_workload_are_found() -> None:
    journal = DecisionJournal()
    journal.write(Millis(1), "admitted", A)
    journal.write(Millis(2), "admitted", B)
    journal.write(Millis(3), "evicted", A, by=B)
    assert [(entry.number, entry.by) for entry in journal.of(A)] == [(1, ""), (3, "ns/b")]
    assert journal.of(WorkloadKey("ns/unknown")) == []


def test_old_lines_go_first_and_the_digest_counts_them_all() -> None:
    kept, short = DecisionJournal(), DecisionJournal(replace(Policy.default(), journal_bytes=200))
    for journal in (kept, short):
        for at in range(20):
            journal.write(Millis(at), "admitted", A if at % 2 else B)
    assert kept.sha256() == short.sha256() == hashlib.sha256(b"".join(kept.lines())).hexdigest()
    lines = list(short.lines())
    assert lines == list(kept.lines())[-len(lines) :]
    assert sum(map(len, lines)) <= 200
    assert [entry.number for entry in short.of(A)] + [entry.number for entry in short.of(B)]


def test_lines_end_by_age() -> None:
    journal = DecisionJournal(replace(Policy.default(), journal_age_ms=10))
    journal.write(Millis(0), "admitted", A)
    journal.write(Millis(11), "admitted", B)
    assert journal.of(A) == []
    assert len(list(journal.lines())) == 1


def test_the_sink_gets_every_line() -> None:
    got: list[bytes] = []
    journal = DecisionJournal(replace(Policy.default(), journal_bytes=1), sink=got.append)
    for at in range(3):
        journal.write(Millis(at), "admitted", A)
    assert len(got) == 3
    assert all(line.endswith(b"\n") for line in got)


def test_a_line_about_nodes_is_found_by_its_workload_and_by_its_item() -> None:
    journal = DecisionJournal(replace(Policy.default(), journal_age_ms=10))
    item = "gang ns/a/g"
    refuse(journal, 1, "short")
    for at in (2, 3):
        journal.refuse(Millis(at), A, "none", what="unplaced", decision="nodes/1", reason="r", steps=(), item=item)
    journal.write(Millis(4), "placed", A, item=item)
    refuse(journal, 5, "short")
    assert [(each.what, each.repeated) for each in journal.of(A)] == [("waiting", 0), ("unplaced", 0), ("placed", 1)]
    assert [each.number for each in journal.of(item)] == [2, 3]
    assert (journal.repeats(A), journal.repeats(item)) == (1, 0)
    journal.write(Millis(20), "admitted", B)
    assert (journal.of(A), journal.of(item)) == ([], [])
