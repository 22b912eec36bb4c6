"""The pods of a Job's gang have the priority of their queue at every moment, whatever happens to the gang's object.

In each story lower pods wait, one for every core, and would take what they could.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from makeway.api.objects.scheduling import GangPolicy, GangWorkload
from makeway.controllers.jobs.gangs import gang_of
from tests.controllers.job_stories import MINE, job, running, the_job
from tests.controllers.jobs.test_gangs import GANG, gangs, ranked
from tests.controllers.pod_world import WORKLOADS, PodWorld, Tree, node, queues
from tests.controllers.pods.test_gangs import GANGS, disrupted, gang, places, ranks
from tests.controllers.pods.test_scheduling import pod

HIGH, LOW = 100, 10
HELD = "tests.example/held"
FAILS = {"test/runs-0": "3", "test/runs-2": "6", "test/exit-2": "1"}
FINISHES = {"test/runs-0": "3", "test/runs-1": "8"}


def begun(marks: Tree, completions: int = 3, cores: int = 3) -> PodWorld:
    """A gang of three runs on as many cores while members come and go; and lower pods wait for their places."""
    play = PodWorld(node("a", str(cores)))
    play.create(*queues(100), *ranked(whigh=HIGH), *ranks(low=LOW))
    play.job(
        "high", queue="main", labels={"kueue.x-k8s.io/priority-class": "whigh"}, annotations=GANG, parallelism=3,
        completions=completions, completionMode="Indexed", backoffLimit=5, marks=marks,
    )  # fmt: skip
    play.until(lambda: sorted(places(play).values()) == ["a"] * 3)
    play.create(*(pod(f"low-{n}", priorityClassName="low", terminationGracePeriodSeconds=4) for n in range(4)))
    play.settle()
    return play


def the_gang(play: PodWorld) -> GangWorkload:
    (found,) = gangs(play)
    return found


def least(play: PodWorld) -> int:
    policy = the_gang(play).spec.pod_groups[0].policy.gang
    return 0 if policy is None else policy.min_count


def displaced(play: PodWorld) -> list[str]:
    """Pods of the gang that had to make way."""
    return [each["metadata"]["name"] for each in play.pods("high") if disrupted(play, each["metadata"]["name"])[0]]


def low_ones_wait(play: PodWorld) -> bool:
    return any(name.startswith("low") and not place for name, place in places(play).items())


def nothing(play: PodWorld) -> None:
    """Nothing beyond the usual events happens."""


def restart(play: PodWorld) -> None:
    play.engine = play.new_engine()


def delete(play: PodWorld) -> None:
    for each in gangs(play):
        play.store.delete(GANGS, "default", each.metadata.name)


def delete_while_nobody_looks(play: PodWorld) -> None:
    delete(play)
    restart(play)


def hold_and_delete(play: PodWorld) -> None:
    for each in gangs(play):
        if not each.metadata.finalizers:
            play.store.patch(GANGS, "default", each.metadata.name, {"metadata": {"finalizers": [HELD]}})
            play.store.delete(GANGS, "default", each.metadata.name)


MEDDLINGS = [nothing, restart, delete, delete_while_nobody_looks, hold_and_delete]


@pytest.mark.parametrize("meddle", MEDDLINGS)
@pytest.mark.parametrize(
    ("marks", "completions"), [(FAILS, 3), (FINISHES, 3), (FINISHES, 5)], ids=["fails", "ends", "next"]
)
def test_lower_pods_never_displace_a_gang(marks: Tree, completions: int, meddle: Callable[[PodWorld], None]) -> None:
    play = begun(marks, completions)
    for _ in range(40):
        play.run(1)
        meddle(play)
        play.settle()
        assert displaced(play) == []
        assert low_ones_wait(play)
    assert {each["status"]["phase"] for each in play.pods("high")} >= {"Running"}
    running = [each for each in play.pods("high") if each["status"]["phase"] == "Running"]
    assert len(running) == (3 if completions == 5 else 1 if marks is FINISHES else 2)


def test_the_number_of_a_gang_changes_in_place() -> None:
    play = begun(FAILS)
    uid = the_gang(play).metadata.uid
    assert least(play) == 3
    play.run(5)
    assert (least(play), the_gang(play).metadata.uid) == (2, uid)
    play.run(30)
    assert (least(play), the_gang(play).metadata.uid) == (2, uid)


def test_what_is_deleted_by_hand_comes_again_at_once() -> None:
    play = begun({})
    before = the_gang(play).metadata.uid
    delete(play)
    play.settle()
    assert the_gang(play).metadata.uid != before
    assert least(play) == 3


def test_what_is_changed_by_hand_is_changed_back() -> None:
    play = begun({})
    name = the_gang(play).metadata.name
    tree = play.store.get(GANGS, "default", name).tree()
    tree["spec"]["podGroups"][0]["policy"]["gang"]["minCount"] = 1
    play.store.update(tree)
    play.settle()
    assert least(play) == 3


def test_one_that_is_held_while_it_goes_is_made_anew_when_it_is_gone() -> None:
    play = begun({})
    hold_and_delete(play)
    play.run(5)
    meta = the_gang(play).metadata
    assert meta.deletion_timestamp is not None
    assert displaced(play) == []
    play.store.patch(GANGS, "default", meta.name, {"metadata": {"finalizers": []}})
    play.settle()
    assert the_gang(play).metadata.deletion_timestamp is None


def test_an_object_of_the_same_name_that_somebody_else_made_changes_nothing() -> None:
    """It is left as it is, and the pods of the Job have the priority of their queue and are one gang."""
    play = begun({})
    name = the_gang(play).metadata.name
    play.store.delete(GANGS, "default", name)
    play.create(gang(name, 1, mode="Pod", rank="low"))
    play.run(5)
    assert displaced(play) == []
    found = the_gang(play)
    assert (found.metadata.owner_references, found.spec.pod_groups[0].name) == ((), "g")
    assert found.status is not None
    assert (found.status.priority, found.status.conditions, found.status.state) == (LOW, (), None)
    play.create(*ranks(top=1000), pod("top", priorityClassName="top"))
    play.settle()
    assert len(displaced(play)) == 3


def test_theirs_gives_way_to_ours_when_it_goes() -> None:
    play = begun({})
    name = the_gang(play).metadata.name
    play.store.delete(GANGS, "default", name)
    play.create(gang(name, 1, mode="Pod", rank="low"))
    play.settle()
    play.store.delete(GANGS, "default", name)
    play.settle()
    assert the_gang(play).metadata.owner_references[0].name == "high"


def test_pods_that_leave_because_their_queue_says_so_keep_their_priority() -> None:
    play = begun({})
    play.store.patch(WORKLOADS, "default", play.workload("high").metadata.name, {"spec": {"active": False}})
    play.settle()
    assert {place for name, place in places(play).items() if name.startswith("high")} == {"a!"}
    play.run(2)
    assert displaced(play) == []
    play.run(5)
    assert (gangs(play), sorted(places(play).values())) == ([], ["", "a", "a", "a"])


@pytest.mark.parametrize(
    ("admitted", "completions", "status", "least"),
    [
        (3, 3, {}, 3),
        (3, 9, {"succeeded": 5}, 3),
        (3, 9, {"succeeded": 7}, 2),
        (3, 9, {"succeeded": 4, "failedIndexes": "1,3-5"}, 1),
        (3, 3, {"succeeded": 3}, 1),
        (2, 3, {}, 2),
        (3, None, {"succeeded": 2}, 3),
    ],
)
def test_a_gang_needs_what_was_admitted_or_what_is_left_to_run(
    admitted: int, completions: int | None, status: Tree, least: int
) -> None:
    around = running(job(parallelism=3, completions=completions, status=status), count=admitted)
    found = gang_of(the_job(around), around.workload(MINE), around.policy)
    assert found.spec.pod_groups[0].policy.gang == GangPolicy(min_count=least, preemption_mode="PodGroup")


def test_pods_that_are_left_of_a_failed_job_keep_their_priority() -> None:
    play = PodWorld(node("a", "3"))
    play.create(*queues(100), *ranked(whigh=HIGH), *ranks(low=LOW))
    play.job(
        "high", queue="main", labels={"kueue.x-k8s.io/priority-class": "whigh"}, annotations=GANG, parallelism=3,
        completions=3, completionMode="Indexed", backoffLimit=0, marks={"test/runs-2": "6", "test/exit-2": "1"},
    )  # fmt: skip
    play.until(lambda: sorted(places(play).values()) == ["a"] * 3)
    play.create(*(pod(f"low-{n}", priorityClassName="low") for n in range(4)))
    seen = set()
    while play.condition("high", "Failed") is None:
        play.run(1)
        seen |= {place for name, place in places(play).items() if name.startswith("high")}
        assert displaced(play) == []
        assert low_ones_wait(play)
    assert "a!" in seen  # they were leaving, with lower pods at hand, and none displaced them


def test_the_priority_of_a_gang_follows_that_of_its_queueing_workload() -> None:
    play = begun({})
    workload = play.workload("high")
    play.store.patch(WORKLOADS, "default", workload.metadata.name, {"spec": {"priority": 1}})
    play.settle()
    assert len(displaced(play)) == 3
