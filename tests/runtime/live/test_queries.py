"""Questions to the live state: answered between two steps, bounded, and dropped when their futures are cancelled."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

import pytest

from makeway.adapters.simulator.store import MemoryStore
from makeway.controllers.contract import CLUSTER_QUEUE, Ref, View
from makeway.controllers.standard import standard
from makeway.core.model import Millis
from makeway.core.policy import Policy
from makeway.runtime.engine import Engine
from makeway.runtime.live.queries import ANSWERS_PER_STEP, QueryQueue, pending_workloads
from makeway.runtime.ports import TooManyRequests, Unavailable
from tests.runtime.wires import cluster_queue, flavor, local_queue, workload

NOON = Millis(1_767_268_800_000)


def engine_of(*objects: Any) -> Engine:
    store = MemoryStore(lambda: NOON, careful=False)
    store.load([flavor(), *objects])
    engine = Engine(store, Policy.default(), standard(lambda _: 0))
    while engine.step(NOON):
        pass
    return engine


def desk_of(view: View | None = None, **settings: Any) -> tuple[QueryQueue, list[None]]:
    pokes: list[None] = []
    return QueryQueue(view or engine_of().view, lambda: pokes.append(None), **settings), pokes


def test_a_question_calls_and_is_answered_with_the_next_step() -> None:
    desk, pokes = desk_of()
    answer = desk.ask(lambda view, now: (now, view.get(Ref(CLUSTER_QUEUE, "", "q"))))
    assert (len(pokes), answer.done()) == (1, False)
    assert desk.step(NOON)
    assert answer.result() == (NOON, None)
    assert not desk.step(NOON)
    assert desk.next_at() is None


def test_a_question_that_fails_is_a_matter_of_whoever_asked() -> None:
    desk, _ = desk_of()
    bad: Future[float] = desk.ask(lambda view, now: 1 / 0)
    good = desk.ask(lambda view, now: 1)
    desk.step(NOON)
    assert isinstance(bad.exception(), ZeroDivisionError)
    assert good.result() == 1


def test_a_question_that_nobody_waits_for_is_not_answered() -> None:
    desk, _ = desk_of()
    asked: list[int] = []
    answer = desk.ask(lambda view, now: asked.append(1))
    answer.cancel()
    desk.step(NOON)
    assert asked == []


def test_only_so_many_wait_and_a_step_answers_only_some() -> None:
    desk, _ = desk_of(waiting_max=20)
    answers = [desk.ask(lambda view, now: None) for _ in range(20)]
    with pytest.raises(TooManyRequests):
        desk.ask(lambda view, now: None)
    desk.step(NOON)
    assert sum(each.done() for each in answers) == ANSWERS_PER_STEP
    desk.ask(lambda view, now: None)


def test_whoever_waits_when_the_engine_stops_is_told_so() -> None:
    desk, _ = desk_of()
    answer = desk.ask(lambda view, now: 1)
    desk.close()
    assert isinstance(answer.exception(), Unavailable)
    with pytest.raises(Unavailable):
        desk.ask(lambda view, now: 1)


# --- waiting workloads ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def crowd() -> Engine:
    """Two run, five wait: three in one LocalQueue, two in the other, one of them with high priority."""
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "job-1", "controller": True}
    return engine_of(
        cluster_queue(nominal=2), local_queue("a"), local_queue("b"),
        workload("run-0", local="a", priority=99), workload("run-1", local="a", priority=99),
        *(workload(f"a-{i}", local="a", meta={"creationTimestamp": f"2026-01-01T11:00:0{i}Z"}) for i in range(3)),
        workload("b-0", local="b", meta={"creationTimestamp": "2026-01-01T11:00:01Z", "ownerReferences": [owner]}),
        workload("b-1", local="b", priority=9, meta={"creationTimestamp": "2026-01-01T11:59:00Z"}),
    )  # fmt: skip


def told(engine: Engine, namespace: str | None, queue: str, offset: int = 0, limit: int = 1000) -> Any:
    found: Any = pending_workloads(engine.view, namespace, queue, offset=offset, limit=limit)
    return [
        (e["metadata"]["name"], e["positionInClusterQueue"], e["positionInLocalQueue"]) for e in found["items"]
    ]  # fmt: skip


def test_of_a_cluster_queue_all_who_wait_are_told_in_order(crowd: Engine) -> None:
    order = [("b-1", 0, 0), ("a-0", 1, 0), ("a-1", 2, 1), ("b-0", 3, 1), ("a-2", 4, 2)]
    assert told(crowd, None, "q") == order
    assert told(crowd, None, "q", offset=1, limit=2) == order[1:3]
    assert told(crowd, None, "q", offset=9) == []


def test_of_a_local_queue_only_its_own_with_their_place_in_both(crowd: Engine) -> None:
    assert told(crowd, "default", "b") == [("b-1", 0, 0), ("b-0", 3, 1)]
    assert told(crowd, "default", "b", offset=1) == [("b-0", 3, 1)]


def test_an_item_says_what_it_is_about(crowd: Engine) -> None:
    found: Any = pending_workloads(crowd.view, None, "q", offset=3, limit=1)
    assert (found["apiVersion"], found["kind"]) == ("visibility.kueue.x-k8s.io/v1beta2", "PendingWorkloadsSummary")
    (item,) = found["items"]
    assert (item["priority"], item["localQueueName"]) == (0, "b")
    assert item["metadata"]["creationTimestamp"] == "2026-01-01T11:00:01Z"
    assert [(owner["kind"], owner["name"]) for owner in item["metadata"]["ownerReferences"]] == [("Job", "train")]


def test_a_queue_that_is_not_there_is_told_apart_from_an_empty_one(crowd: Engine) -> None:
    for namespace in (None, "default", "elsewhere"):
        assert pending_workloads(crowd.view, namespace, "unknown", offset=0, limit=1) is None
    assert pending_workloads(crowd.view, "elsewhere", "a", offset=0, limit=1) is None
