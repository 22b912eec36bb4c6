"""Jobs and their pods in virtual time: how many run, what is counted, how a Job ends; a crash changes none of it."""

from __future__ import annotations

import random
from typing import Any

import pytest

from makeway.controllers.contract import JOB, Change, Ref
from makeway.controllers.jobs.counts import parse_indexes, print_indexes
from makeway.controllers.jobs.pods import JobPods, ReleasePod
from makeway.core.model import Millis
from makeway.runtime.engine import Engine
from makeway.runtime.executor import Call, DirectWriter
from makeway.runtime.informers import watched_kinds
from makeway.runtime.ports import Store
from tests.controllers.pod_world import JOBS, PODS, PodWorld, queues
from tests.controllers.views import edited
from tests.soaking import InTime


def world(*more: Any) -> PodWorld:
    found = PodWorld()
    found.create(*more)
    return found


# --- how many --------------------------------------------------------------------------------------------------------


def test_a_job_runs_one_pod_to_its_end() -> None:
    play = world()
    play.job("j", runs=10)
    play.settle()
    assert play.status("j") | {"startTime": ""} == {"active": 1, "ready": 1, "startTime": ""}
    play.run(20)
    assert play.condition("j", "Complete") == ("True", "CompletionsReached")
    assert (play.status("j")["succeeded"], play.status("j").get("active")) == (1, None)
    assert play.pods("j")[0]["metadata"].get("finalizers") is None


def test_never_more_than_parallelism_and_never_more_than_are_left_to_do() -> None:
    play = world()
    play.job("j", runs=10, completions=5, parallelism=3)
    play.settle()
    assert play.phases("j") == ["Running"] * 3
    play.run(10)
    assert play.phases("j") == ["Running"] * 2 + ["Succeeded"] * 3
    play.run(10)
    assert play.status("j")["succeeded"] == 5
    assert len(play.nodes.ran) == 5


def test_without_completions_one_success_is_enough() -> None:
    play = world()
    play.job("j", runs=10, parallelism=3)
    play.run(10)
    assert play.condition("j", "Complete") == ("True", "CompletionsReached")
    assert len(play.nodes.ran) == 3


def test_parallelism_can_be_changed() -> None:
    play = world()
    play.job("j", completions=10, parallelism=2)
    play.settle()
    play.edit("j", parallelism=4)
    play.settle()
    assert play.phases("j") == ["Running"] * 4
    play.edit("j", parallelism=1)
    play.run(6)
    assert play.phases("j") == ["Running"]
    play.edit("j", parallelism=0)
    play.run(6)
    assert play.phases("j") == []


def test_each_index_succeeds_once() -> None:
    play = world()
    play.job("j", runs=10, completions=4, parallelism=3, completionMode="Indexed")
    play.settle()
    indexes = sorted(
        each["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"] for each in play.pods()
    )
    assert indexes == ["0", "1", "2"]
    container = play.pods()[0]["spec"]["containers"][0]
    assert container["env"][0]["name"] == "JOB_COMPLETION_INDEX"
    play.run(30)
    assert play.status("j")["completedIndexes"] == "0-3"
    assert play.condition("j", "Complete") == ("True", "CompletionsReached")


# --- failures --------------------------------------------------------------------------------------------------------


def test_failed_pods_are_replaced_after_growing_pauses_until_the_limit() -> None:
    play = world()
    play.job("j", runs=1, exit=3, backoffLimit=2)
    assert play.until(lambda: play.condition("j", "Failed") is not None) == 1 + 10 + 1 + 20 + 1
    assert play.condition("j", "Failed") == ("True", "BackoffLimitExceeded")
    assert play.status("j")["failed"] == 3


def test_a_deadline_ends_a_job_when_its_pods_are_gone() -> None:
    play = world()
    play.job("j", activeDeadlineSeconds=60)
    play.run(62)
    assert play.condition("j", "FailureTarget") == ("True", "DeadlineExceeded")
    assert play.condition("j", "Failed") is None
    assert play.status("j")["terminating"] == 1
    play.run(5)
    assert play.condition("j", "Failed") == ("True", "DeadlineExceeded")


RULES = [
    {"action": "FailJob", "onExitCodes": {"containerName": "work", "operator": "In", "values": [42]}},
    {"action": "Ignore", "onExitCodes": {"operator": "In", "values": [7]}},
]


def test_a_policy_may_end_a_job_at_its_first_failure() -> None:
    play = world()
    play.job("j", runs=1, exit=42, podFailurePolicy={"rules": RULES})
    play.run(2)
    assert play.condition("j", "Failed") == ("True", "PodFailurePolicy")
    message = next(each["message"] for each in play.status("j")["conditions"] if each["type"] == "Failed")
    name = play.pods("j")[0]["metadata"]["name"]
    assert message == (
        f"Container work for pod default/{name} failed with exit code 42 matching FailJob rule at index 0"
    )


def test_a_policy_may_ignore_failures() -> None:
    play = world()
    play.job("j", runs=1, exit=7, backoffLimit=0, podFailurePolicy={"rules": RULES})
    play.run(10)
    assert play.condition("j", "Failed") is None
    assert play.status("j").get("failed") is None
    assert len(play.nodes.ran) > 3


def test_what_is_not_honoured_is_told() -> None:
    play = world()
    play.job("j", runs=1, completions=2, completionMode="Indexed", backoffLimitPerIndex=1)
    play.settle()
    told = [note.message for note in play.engine.notes if note.reason == "NotHonoured"]
    assert told == ["not honoured on this machine: backoffLimitPerIndex"]


# --- the end ---------------------------------------------------------------------------------------------------------


def test_a_finished_job_goes_after_its_time() -> None:
    play = world()
    play.job("j", runs=10, ttlSecondsAfterFinished=30)
    play.run(39)
    assert play.is_there("Job", "j")
    play.run(2)
    assert not play.is_there("Job", "j")
    assert play.pods() == []


def test_a_deleted_job_takes_its_pods_along_and_its_quota_is_free_only_then() -> None:
    play = world(*queues(1))
    play.job("j", queue="main")
    play.job("k", runs=1, queue="main")
    play.settle()
    assert play.phases("j") == ["Running"]
    play.store.delete(*_job("j"))
    play.run(4)
    assert play.phases("j") == ["Running"]
    assert not play.says("k", "Admitted")
    play.run(2)
    assert play.pods("j") == []
    play.run(2)
    assert play.condition("k", "Complete") is not None


def _job(name: str) -> tuple[Any, str, str]:
    return JOBS, "default", name


# --- suspended -------------------------------------------------------------------------------------------------------


def test_a_suspended_job_has_no_pods_and_what_they_say_in_parting_does_not_count() -> None:
    play = world()
    play.job("j", stopped=0, completions=2, parallelism=2)  # they end well when they are told to end
    play.settle()
    play.edit("j", suspend=True)
    play.run(3)
    assert play.status("j")["terminating"] == 2
    play.run(3)
    assert play.pods("j") == []
    status = play.status("j")
    assert (status.get("succeeded"), status.get("failed"), status.get("active")) == (None, None, None)
    assert play.condition("j", "Suspended") == ("True", "JobSuspended")
    play.edit("j", suspend=False)
    play.settle()
    assert play.phases("j") == ["Running"] * 2
    assert play.condition("j", "Suspended") == ("False", "JobResumed")


def test_what_was_done_before_a_stop_counts_after_it() -> None:
    play = world()
    play.job("j", runs=10, completions=3, parallelism=1)
    play.run(15)
    assert play.status("j")["succeeded"] == 1
    play.edit("j", suspend=True)
    play.run(60)
    play.edit("j", suspend=False)
    play.run(60)
    assert (play.status("j")["succeeded"], len(play.nodes.ran)) == (3, 4)


def test_a_managed_job_waits_for_quota_and_gives_it_back_when_its_pods_are_gone() -> None:
    play = world(*queues(2, preemption={"withinClusterQueue": "LowerPriority"}))
    play.create(_priority("high", 100))
    play.job("low", queue="main", completions=2, parallelism=2)
    play.settle()
    assert play.phases("low") == ["Running"] * 2
    play.job("high", queue="main", runs=10, cpu="2", labels={"kueue.x-k8s.io/priority-class": "high"})
    play.run(4)
    assert play.says("low", "Evicted")
    assert play.says("low", "QuotaReserved")  # its pods are still there
    assert play.phases("high") == []
    play.run(2)
    assert play.phases("high") == ["Running"]
    assert not play.says("low", "QuotaReserved")
    play.run(11)
    assert play.condition("high", "Complete") is not None
    assert play.phases("low") == ["Running"] * 2


def _priority(name: str, value: int) -> dict[str, Any]:
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "WorkloadPriorityClass", "metadata": {"name": name},
        "value": value,
    }  # fmt: skip


def test_a_pod_that_a_user_deletes_counts_as_failed() -> None:
    play = world()
    play.job("j", completions=1, stopped=0)
    play.settle()
    name = play.pods("j")[0]["metadata"]["name"]
    play.store.delete(PODS, "default", name)
    play.run(12)
    assert play.status("j")["failed"] == 1
    assert play.phases("j") == ["Running"]
    assert play.pods("j")[0]["metadata"]["name"] != name


def test_a_job_says_that_it_has_pods_before_it_makes_them() -> None:
    """Otherwise its quota could be given away between the two writes."""
    play = world()
    play.job("j", completions=3, parallelism=3)
    idle = Engine(play.store, play.policy, [], kinds=watched_kinds(on_nodes=True))
    idle.step(play.clock.now)
    first = JobPods().react(Ref(JOB, "default", "j"), idle.view, play.clock.now)
    assert [type(action.write) for action in first.actions] == [Change]
    play.engine.step(play.clock.now)
    idle.step(play.clock.now)
    assert play.status("j")["active"] == 3


def test_who_ends_while_it_is_being_let_go_is_counted() -> None:
    play = world()
    play.job("j", runs=10)
    play.settle()
    running = play.store.list(PODS).items[0].value()
    play.run(10)
    ended = play.store.list(PODS).items[0].value()
    assert ReleasePod(stopped=True)(running) is not None
    assert ReleasePod(stopped=True)(ended) is None


def test_who_was_stopped_goes_although_we_were_gone_and_its_job_goes_on() -> None:
    """Its end does not count, so it must not remain beside pods that do."""
    play = world()
    play.job("j", runs=3)
    play.settle()
    running = play.store.list(PODS).items[0].value()
    play.store.update(edited(ReleasePod(stopped=True), running))
    play.engine = play.new_engine()
    play.run(60)
    assert play.status("j")["succeeded"] == 1
    assert running.metadata.name not in [each["metadata"]["name"] for each in play.pods()]
    assert play.phases() == ["Succeeded"]


# --- indexes ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "indexes"), [("", set()), ("3", {3}), ("1,3-5,7", {1, 3, 4, 5, 7}), ("0,1", {0, 1}), ("x,-3", set())]
)
def test_indexes_are_read_and_printed(text: str, indexes: set[int]) -> None:
    assert parse_indexes(text) == indexes
    assert parse_indexes(print_indexes(indexes)) == indexes


# --- crashes ---------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.property
def test_however_often_we_are_gone_each_end_is_counted_once(fuzz_inputs: int, fuzz_seed: int, in_time: InTime) -> None:
    """A new engine begins at any point, with nothing but what is stored."""
    for number in in_time(range(max(10, fuzz_inputs // 100))):
        _crash(fuzz_seed * 1000 + number)


def _suspend(play: PodWorld, suspend: bool) -> None:
    """Set the switch as a user; makeway alone sets that of a Job in a queue."""
    if not play.store.get(*_job("j")).labels:
        play.edit("j", suspend=suspend)


class Crashed(Exception):
    pass


class CrashingWriter(DirectWriter):
    """Now and then the process ends just before or just after a write."""

    def __init__(self, store: Store, dice: random.Random) -> None:
        super().__init__(store)
        self._dice = dice

    def send(self, number: int, call: Call, now: Millis) -> None:
        luck = self._dice.random()
        if luck < 0.05:
            raise Crashed
        super().send(number, call, now)
        if luck > 0.95:
            raise Crashed


def _crash(seed: int) -> None:
    dice = random.Random(seed)
    play = PodWorld(seed=seed)
    play.engine = play.new_engine(CrashingWriter(play.store, dice))
    play.create(*queues(4))
    completions, parallelism = dice.randint(1, 6), dice.randint(1, 4)
    mode = dice.choice(["Indexed", "NonIndexed"])
    play.job("j", runs=dice.randint(0, 3), completions=completions, parallelism=parallelism, completionMode=mode,
             queue=dice.choice(["", "main"]))  # fmt: skip
    for _ in range(400):
        if play.condition("j", "Complete") is not None:
            break
        try:
            if not (play.nodes.step(play.clock.now) | play.engine.step(play.clock.now)):
                play.clock.now = Millis(play.clock.now + 500)
        except Crashed:
            play.engine = play.new_engine(CrashingWriter(play.store, dice))
        if any(phase in ("Pending", "Running") for phase in play.phases()):
            assert play.status("j").get("active", 0) + play.status("j").get("terminating", 0) > 0, f"seed {seed}"
        if dice.random() < 0.02:
            _suspend(play, not play.store.get(*_job("j")).tree()["spec"]["suspend"])
    _suspend(play, False)
    play.engine = play.new_engine()
    play.run(60)
    status = play.status("j")
    assert (status.get("succeeded"), status.get("failed")) == (completions, None), f"seed {seed}"
    done = [each for each in play.pods() if each["status"]["phase"] == "Succeeded"]
    assert len(done) == completions, f"seed {seed}: pods were made that nobody needed"
    assert all(each["metadata"].get("finalizers") is None for each in play.pods()), f"seed {seed}"
