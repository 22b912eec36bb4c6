"""Questions to the live state: answered between steps, bounded, and never fatal to the engine."""

from __future__ import annotations

from concurrent.futures import CancelledError
from typing import Any

import pytest

from makeway.adapters.simulator.store import MemoryStore
from makeway.api import codec
from makeway.controllers.queue_status import QueueStatus
from makeway.controllers.workloads import Workloads
from makeway.core.model import Millis
from makeway.core.policy import Policy
from makeway.runtime.desk import QUESTIONS_MAX, Desk, metrics_text, pending_workloads
from makeway.runtime.engine import Engine
from makeway.runtime.metrics import Metrics
from makeway.runtime.ports import SeededNames, TooManyRequests
from tests.controllers.views import cluster_queue, flavor, local_queue

NOW = Millis(1_767_225_600_000)


def engine_over(*objects: Any) -> Engine:
    store = MemoryStore(lambda: NOW, SeededNames(), careful=False)
    store.load(list(objects))
    engine = Engine(store, Policy.default(), [Workloads(lambda _: 0), QueueStatus()], metrics=Metrics())
    while engine.step(NOW):
        pass
    return engine


def asked(engine: Engine, question: Any) -> Any:
    desk = Desk(engine, lambda: None)
    answer = desk.ask(question)
    assert desk.step(NOW)
    return answer.result(timeout=0)


def summary(engine: Engine, namespace: str | None, queue: str, offset: int = 0, limit: int = 10) -> Any:
    return asked(engine, lambda live: pending_workloads(live, namespace, queue, offset, limit))


def waiting(name: str, queue: str, priority: int) -> Any:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    pods = {"name": "main", "count": 1, "template": {"spec": {"containers": [container], "restartPolicy": "Never"}}}
    read = codec.read({
        "apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload",
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}"},
        "spec": {"queueName": queue, "priority": priority, "podSets": [pods]},
    })  # fmt: skip
    assert read.value is not None, read.problems
    return read.value


@pytest.fixture(scope="module")
def crowded() -> Engine:
    """A queue without quota: everybody waits, the urgent one first."""
    work = [("first", "lq", 0), ("second", "other", 0), ("third", "lq", 0), ("urgent", "other", 9)]
    queues = (local_queue("lq"), local_queue("other"))
    return engine_over(flavor(), cluster_queue(cpu="0"), *queues, *(waiting(*each) for each in work))


def test_who_waits_is_told_in_the_order_of_the_queue(crowded: Engine) -> None:
    found = summary(crowded, None, "cq")["items"]
    assert [each["metadata"]["name"] for each in found] == ["urgent", "first", "second", "third"]
    assert [each["positionInClusterQueue"] for each in found] == [0, 1, 2, 3]
    assert {each["localQueueName"] for each in found} == {"lq", "other"}
    assert found[0]["priority"] == 9


def test_a_local_queue_shows_its_own_with_both_positions(crowded: Engine) -> None:
    whole = {each["metadata"]["name"]: each for each in summary(crowded, None, "cq")["items"]}
    found = summary(crowded, "default", "other")["items"]
    assert [each["metadata"]["name"] for each in found] == ["urgent", "second"]
    assert [each["positionInLocalQueue"] for each in found] == [0, 1]
    assert all(each == whole[each["metadata"]["name"]] for each in found)


def test_pages_of_positions(crowded: Engine) -> None:
    assert [each["positionInClusterQueue"] for each in summary(crowded, None, "cq", 1, 2)["items"]] == [1, 2]
    assert summary(crowded, None, "cq", 9, 2)["items"] == []


@pytest.mark.parametrize(("namespace", "queue"), [(None, "nobody"), ("default", "nobody"), ("elsewhere", "lq")])
def test_there_is_no_such_queue(crowded: Engine, namespace: str | None, queue: str) -> None:
    assert summary(crowded, namespace, queue) is None


def test_metrics_are_those_of_now(crowded: Engine) -> None:
    text = asked(crowded, metrics_text)
    assert 'kueue_pending_workloads{cluster_queue="cq",status="inadmissible",replica_role="standalone"} 4' in text


def test_a_question_that_fails_is_the_askers(crowded: Engine) -> None:
    desk = Desk(crowded, lambda: None)
    bad, good = desk.ask(lambda live: 1 // 0), desk.ask(lambda live: live.cycles)
    desk.step(NOW)
    assert isinstance(bad.exception(timeout=0), ZeroDivisionError)
    assert good.result(timeout=0) == crowded.cycles


def test_who_gave_up_is_not_answered(crowded: Engine) -> None:
    calls: list[int] = []
    desk = Desk(crowded, lambda: None)
    assert desk.ask(lambda live: calls.append(1)).cancel()
    desk.step(NOW)
    assert calls == []


def test_no_more_questions_than_can_wait(crowded: Engine) -> None:
    pokes: list[int] = []
    desk = Desk(crowded, lambda: pokes.append(1))
    waiting = [desk.ask(lambda live: 0) for _ in range(QUESTIONS_MAX)]
    with pytest.raises(TooManyRequests):
        desk.ask(lambda live: 0)
    assert len(pokes) == QUESTIONS_MAX
    desk.close()
    with pytest.raises(CancelledError):
        waiting[0].result(timeout=0)
    with pytest.raises(TooManyRequests):
        desk.ask(lambda live: 0)
    assert not desk.step(NOW)
