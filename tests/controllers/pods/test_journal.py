"""Decisions about nodes are in the journal: which pods made way for which, why those, and what the others lacked."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from makeway.core.trace import Rule
from makeway.runtime.journal import JournalEntry
from tests.controllers.jobs.test_gangs import ranked, submit
from tests.controllers.pod_world import NODES, PODS, PodWorld, node, queues
from tests.controllers.pods.test_gangs import gang, members, ranks
from tests.controllers.pods.test_scheduling import pod


def lines(play: PodWorld, whom: str) -> list[JournalEntry]:
    return play.engine.journal.of(whom)


def about(entry: JournalEntry, rule: Rule) -> list[tuple[tuple[str, ...], tuple[int, ...]]]:
    return [(subjects, numbers) for found, subjects, numbers in entry.steps if found == rule.value]


def contended() -> PodWorld:
    """A gang of two that displaces one of two lower ones, and spares none needlessly."""
    play = PodWorld(node("a", "2"), node("b", "1"))
    play.create(*ranks(high=10, mid=5, low=1))
    play.create(pod("kept", priorityClassName="mid"), pod("left", priorityClassName="low"))
    play.create(pod("other", priorityClassName="low"))
    play.settle()
    play.create(gang("new", 2, rank="high"), *members("new", 2))
    play.settle()
    return play


def test_who_made_way_for_whom_and_why() -> None:
    play = contended()
    preempting = next(each for each in lines(play, "gang default/new/g") if each.what == "displacing")
    assert preempting.workload == "default/new"
    assert sorted(preempting.victims) == ["default/left", "default/other"]
    assert about(preempting, Rule.PLACE_THRESHOLD) == [(("default/new-0",), (1,))]
    assert [subjects for subjects, _ in about(preempting, Rule.PLACE_MAKES_WAY)] == [
        ("default/left",), ("default/other",),
    ]  # fmt: skip
    assert about(preempting, Rule.PLACE_ABOVE) == [(("default/new-0",), (1, 1))]  # the one of priority 5 stays
    for name in preempting.victims:
        told = lines(play, f"pod {name}")[-1]
        assert (told.what, told.reason, told.by) == ("displaced", "PreemptionByScheduler", "gang default/new/g")
        assert told.decision == preempting.decision
    play.run(60)
    assert [each.what for each in lines(play, "gang default/new/g")][-1] == "placed"


def test_a_workload_is_told_of_its_quota_and_of_its_nodes() -> None:
    play = PodWorld(node("a", "2"), node("b", "1"))
    play.create(*queues(10), *ranked(high=7, low=1))
    submit(play, "old", 3, "low", runs=1000)
    play.settle()
    key = f"default/{play.workload('old').metadata.name}"
    assert [each.what for each in lines(play, key)] == ["admitted", "placed"]
    submit(play, "new", 2, "high", runs=50)
    play.run(10)
    after = lines(play, key)[2:]
    assert [each.what for each in after[:4]] == ["displaced", "displaced", "displaced", "evicted"]
    preemptor = f"gang default/{play.workload('new').metadata.name}/main"
    assert {(each.by, each.decision) for each in after[:3]} == {(preemptor, lines(play, preemptor)[0].decision)}


def test_pods_of_a_job_that_is_no_gang_are_found_by_its_workload() -> None:
    play = PodWorld(node("a", "1"))
    play.create(*queues(10))
    play.job("work", queue="main", cpu="1")
    play.settle()
    key = f"default/{play.workload('work').metadata.name}"
    placed = lines(play, key)[-1]
    assert (placed.what, placed.item) == ("placed", f"pod default/{play.pods('work')[0]['metadata']['name']}")


def test_what_a_near_miss_lacked() -> None:
    play = PodWorld(node("a", "2"))
    play.create(*ranks(low=-1), pod("small", priorityClassName="low"))
    play.settle()
    play.create(pod("p", cpu="3"))
    play.settle()
    (told,) = lines(play, "pod default/p")
    assert (told.what, told.reason, told.workload, told.victims) == ("unplaced", "unschedulable", "", ())
    assert about(told, Rule.PLACE_LACKS) == [(("default/p", "a", "cpu"), (3000, 2000, 1000))]


def test_a_repeated_no_is_counted_and_forgotten_with_whom_it_is_about() -> None:
    play = PodWorld(node("a", "1"))
    play.create(gang("w", 2), *members("w", 2, cpu="2"))
    play.settle()
    journal, item = play.engine.journal, "gang default/w/g"
    assert [each.what for each in lines(play, item)] == ["unplaced"]
    for _ in range(3):
        play.create(node("x", "2"))  # one of the two could go there
        play.run(20)
        play.store.delete(NODES, "", "x")
        play.run(1)
    assert (len(lines(play, item)), journal.repeats(item)) == (2, 2), "another node is nearest since there is x"
    for name in ("w-0", "w-1"):
        play.store.delete(PODS, "default", name)
    play.settle()
    assert (journal.repeats(item), journal._last_no) == (0, {})


def digest() -> str:
    play = contended()
    play.run(60)
    return play.engine.journal.sha256()


@pytest.mark.slow
def test_equal_stories_give_equal_bytes_whatever_the_hash_seed() -> None:
    root = Path(__file__).parents[3]
    paths = os.pathsep.join((str(root / "src"), str(root)))
    command = [sys.executable, "-c", "from tests.controllers.pods.test_journal import digest; print(digest())"]
    env = {**os.environ, "PYTHONPATH": paths, "PYTHONHASHSEED": "1"}
    told = subprocess.run(command, env=env, check=True, capture_output=True, text=True).stdout
    assert told == f"{digest()}\n"
