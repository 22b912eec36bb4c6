"""Times of any length in the engine: what is to happen after a span happens then, not before, however long it is."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from makeway.adapters.simulator.store import MemoryStore
from makeway.api import codec
from makeway.api.objects.configuration import Configuration
from makeway.api.objects.kubernetes import Job
from makeway.api.objects.queueing import ClusterQueue
from makeway.api.objects.workload import Workload
from makeway.api.quantity import LAST_MILLIS, Time
from makeway.api.schema.shapes import Leaf, ListOf, MapOf, Record, Shape, shape_of
from makeway.api.versions import kind_of
from makeway.controllers.jobs.pods import JobPods
from makeway.controllers.standard import standard
from makeway.core.lowering import policy_of
from makeway.core.model import Millis, WorkloadKey
from makeway.runtime.engine import Engine
from makeway.runtime.informers import watched_kinds
from makeway.runtime.journal import DecisionJournal
from makeway.runtime.ports import NotFound
from tests.runtime.wires import check, cluster_queue, condition, flavor, holder, local_queue, workload

NOON = Millis(1_767_268_800_000)  # when workloads made by ``holder`` were admitted
WORKLOADS, JOBS = kind_of(Workload), kind_of(Job)
GRACE_S = 30  # of a pod that does not set it
DAY_S, YEAR_S = 86_400, 31_557_600
INT32, INT64, NANOS = 2**31 - 1, 2**63 - 1, 2**63 // 10**9  # the last: what a duration can hold
SPANS = {"25 days": 25 * DAY_S, "10 years": 10 * YEAR_S, "int32": INT32, "duration": NANOS, "int64": INT64}
CONFIG = {"apiVersion": "config.kueue.x-k8s.io/v1beta2", "kind": "Configuration"}
Tree = dict[str, Any]


class Play:
    def __init__(self, configuration: Mapping[str, Any], *objects: Any) -> None:
        self.now = NOON
        read = codec.read({**CONFIG, **configuration})
        assert isinstance(read.value, Configuration), read.problems
        self.store = MemoryStore(lambda: self.now, careful=False)
        self.store.load([flavor(), local_queue(), *objects])
        react = [*standard(lambda _: 0), JobPods()]
        kinds = watched_kinds(on_nodes=True)
        self.engine = Engine(self.store, policy_of(read.value), react, figures_ms=0, kinds=kinds)

    def at(self, seconds: int) -> Play:
        self.now = Millis(NOON + seconds * 1000)
        for _ in range(200):
            if not self.engine.step(self.now):
                return self
        raise AssertionError("it does not come to rest")

    def says(self, name: str, type_: str, status: str = "True") -> bool:
        conditions = self.store.get(WORKLOADS, "default", name).tree().get("status", {}).get("conditions", [])
        return any((each["type"], each["status"]) == (type_, status) for each in conditions)

    def message(self, name: str) -> str:
        conditions = self.store.get(WORKLOADS, "default", name).tree()["status"]["conditions"]
        return str(next(each["message"] for each in conditions if each["type"] == "QuotaReserved"))

    def claims(self, name: str) -> bool:
        return self.engine.state.claims.find(WorkloadKey(f"default/{name}")) is not None

    def is_gone(self, name: str, kind: Any = WORKLOADS) -> bool:
        try:
            return self.store.get(kind, "default", name).deleting
        except NotFound:
            return True
        return False


@dataclass(frozen=True)
class Field:
    """``build`` makes a world in which ``happens`` comes true ``after`` so many seconds beside the span."""

    most: int
    build: Callable[[int], Play]
    happens: Callable[[Play], bool]
    after: int = 0


def duration(seconds: int) -> str:
    return f"{seconds}s"


def _execution(seconds: int) -> Play:
    return Play({}, cluster_queue(), holder("w", maximumExecutionTimeSeconds=seconds))


def _pods_ready(seconds: int) -> Play:
    return Play({"waitForPodsReady": {"timeout": duration(seconds)}}, cluster_queue(), holder("w"))


def _back_off(seconds: int) -> Play:
    strategy = {"backoffBaseSeconds": seconds, "backoffMaxSeconds": seconds}
    waits = {"waitForPodsReady": {"timeout": "60s", "requeuingStrategy": strategy}}
    return Play(waits, cluster_queue(), holder("w")).at(61)


def _finished(seconds: int) -> Play:
    policies = {"objectRetentionPolicies": {"workloads": {"afterFinished": duration(seconds)}}}
    return Play(policies, cluster_queue(), workload("w", condition("Finished")))


def _deactivated(seconds: int) -> Play:
    """Its Job goes with it; that one waits, so that nothing else happens to it."""
    play = Play({"objectRetentionPolicies": {"workloads": {"afterDeactivatedByKueue": duration(seconds)}}})
    job = _job(play, suspend=True)
    evicted = condition("Evicted", True, "DeactivatedDueToRequeuingLimitExceeded")
    play.store.load([cluster_queue(), workload("w", evicted, active=False, meta=_owned_by(job["metadata"]["uid"]))])
    return play


def _owned_by(uid: str) -> Tree:
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": uid, "controller": True}
    return {"ownerReferences": [owner]}


def _recovery(seconds: int) -> Play:
    waits = {"waitForPodsReady": {"timeout": "60s", "recoveryTimeout": duration(seconds)}}
    return Play(waits, cluster_queue(), holder("w", 1, condition("PodsReady", False, "WaitForRecovery")))


def _claim(seconds: int) -> Play:
    """A victim that does not leave: an unknown owner runs it."""
    queue = cluster_queue(nominal=1, preemption={"withinClusterQueue": "LowerPriority"})
    victim = holder("victim", priority=0, meta=_owned_by("somebody"))
    play = Play({"makeway": {"claimTimeout": duration(seconds)}}, queue, victim, workload("w", priority=9)).at(0)
    assert play.claims("w")
    return play


def _woken(seconds: int) -> Play:
    queue = cluster_queue(nominal=1)
    play = Play({"makeway": {"wakeBatchInterval": duration(seconds)}}, queue, holder("before"), workload("w"))
    play.at(61)
    play.store.delete(WORKLOADS, "default", "before")
    return play.at(61)


def _told_again(seconds: int) -> Play:
    """It needs two cores that others have; while it waits the queue becomes too small for it."""
    queue, settings = cluster_queue(nominal=2), {"makeway": {"statusWriteInterval": duration(seconds)}}
    play = Play(settings, queue, holder("one"), holder("two"), workload("w", count=2)).at(0)
    assert "2 more needed" in play.message("w")
    before = play.at(61).store.get(kind_of(ClusterQueue), "", "q")
    play.store.update({**before.tree(), "spec": codec.to_tree(cluster_queue(nominal=1))["spec"]})
    return play


def _retry(seconds: int) -> Play:
    state = {
        "name": "c", "state": "Retry", "message": "", "requeueAfterSeconds": seconds,
        "lastTransitionTime": Time.of_millis(NOON).text,
    }  # fmt: skip
    queue = cluster_queue(admissionChecksStrategy={"admissionChecks": [{"name": "c"}]})
    waits = holder("w", admitted=False, status={"admissionChecks": [state]})
    return Play({}, check("c"), queue, waits)


def _turns(seconds: int) -> Play:
    preemption = {
        "withinClusterQueue": "LowerOrNewerEqualPriority",
        "withinClusterQueueConfig": {"minAdmitDuration": duration(seconds)},
    }  # fmt: skip
    gates = {"featureGates": {"TimeBasedSamePriorityPreemption": True}}
    queue = cluster_queue(nominal=1, preemption=preemption)
    return Play(gates, queue, holder("w", priority=0), workload("other", priority=0))


FIELDS = {
    "maximumExecutionTimeSeconds": Field(INT32, _execution, lambda play: play.says("w", "Evicted")),
    "waitForPodsReady.timeout": Field(NANOS, _pods_ready, lambda play: play.says("w", "Evicted")),
    "requeuingStrategy": Field(INT32, _back_off, lambda play: not play.says("w", "Requeued", "False"), after=61),
    "requeueAfterSeconds": Field(INT32, _retry, lambda play: not play.says("w", "Requeued", "False")),
    "afterFinished": Field(NANOS, _finished, lambda play: play.is_gone("w")),
    "afterDeactivatedByKueue": Field(NANOS, _deactivated, lambda play: play.is_gone("j", JOBS)),
    "waitForPodsReady.recoveryTimeout": Field(NANOS, _recovery, lambda play: play.says("w", "Evicted")),
    "claimTimeout": Field(NANOS, _claim, lambda play: not play.claims("w"), after=GRACE_S),
    "wakeBatchInterval": Field(NANOS, _woken, lambda play: play.says("w", "Admitted"), after=61),
    "statusWriteInterval": Field(NANOS, _told_again, lambda play: "maximum capacity" in play.message("w")),
    "minAdmitDuration": Field(NANOS, _turns, lambda play: play.says("w", "Evicted"), after=1),
}


CASES = [(name, span) for name, field in FIELDS.items() for span in SPANS if SPANS[span] <= field.most]


@pytest.mark.parametrize(("name", "span"), CASES)
def test_what_is_far_away_neither_comes_early_nor_breaks_anything(name: str, span: str) -> None:
    field, seconds = FIELDS[name], SPANS[span]
    play = field.build(seconds).at(62)
    assert not field.happens(play)
    assert not field.happens(play.at(seconds + field.after - 1))
    assert field.happens(play.at(seconds + field.after + 2))


# --- every duration of a Configuration -------------------------------------------------------------------------------


def durations(shape: Shape, path: str = "") -> Iterator[str]:
    """The places of all spans of time in an object, whether they are durations or seconds."""
    match shape:
        case Record():
            for name, field in shape.fields.items():
                here = f"{path}.{name}" if path else name
                is_span = isinstance(field.shape, Leaf) and (field.shape.name == "duration" or name.endswith("Seconds"))
                yield from [here] if is_span else durations(field.shape, here)
        case ListOf() | MapOf():
            yield from durations(shape.item.shape, f"{path}[]")


def at_place(path: str, value: Any) -> Tree:
    *outer, name = path.split(".")
    tree: Tree = {name: value}
    for each in reversed(outer):
        tree = {each: tree}
    return tree


SETTINGS = sorted(each for each in durations(shape_of(Configuration)) if not each.startswith("metadata."))
TRIED_ALONE = {  # what happens after it is tested elsewhere
    "makeway.roundsEndAfter": "tests/core/preemption/test_rounds.py",
    "makeway.journal.maxAge": "below",
    "makeway.events.ttl": "tests/adapters/server/resources/test_admission.py",
}
READ_ONLY = {  # nothing depends on it yet
    "makeway.optionMinStay", "makeway.optionEvaluationTimeout", "multiKueue.gcInterval", "multiKueue.workerLostTimeout",
    "multiKueue.singleClusterPreemptionTimeout",
}  # fmt: skip


def test_no_duration_of_a_configuration_is_forgotten() -> None:
    rows = {each for each in SETTINGS if any(each.endswith(name) for name in FIELDS)}
    rows |= {f"waitForPodsReady.requeuingStrategy.backoff{each}Seconds" for each in ("Base", "Max")}
    assert rows | set(TRIED_ALONE) | READ_ONLY == set(SETTINGS)


BEYOND = {"one more than a duration": NANOS + 1, "more than any number": 10**30}


@pytest.mark.parametrize("span", [*SPANS, *BEYOND])
@pytest.mark.parametrize("path", SETTINGS)
def test_every_duration_of_a_configuration_works_or_is_refused_in_words(path: str, span: str) -> None:
    seconds = {**SPANS, **BEYOND}[span]
    is_number = path.endswith("Seconds")
    settings = at_place(path, seconds if is_number else duration(seconds))
    if seconds > (INT32 if is_number else NANOS):
        (problem,) = codec.read({**CONFIG, **settings}).problems
        assert problem.path == path
        assert ("outside the range of int32" if is_number else "is longer than 64-bit nanoseconds") in problem.message
        return
    # A preemption whose victim does not leave, pods that are awaited, and a workload that has ended.
    settings.setdefault("waitForPodsReady", {}).setdefault("timeout", "60s")
    queue = cluster_queue(nominal=1, preemption={"withinClusterQueue": "LowerPriority"})
    victim, waits = holder("victim", priority=0, meta=_owned_by("somebody")), workload("w", priority=9)
    play = Play(settings, queue, victim, waits, workload("done", condition("Finished"))).at(0).at(62)
    for later in (seconds - 1, seconds + 1, seconds + 100, min(2 * seconds, 7000 * YEAR_S)):
        play.at(max(62, later))
    assert play.says("victim", "Evicted")
    due = play.engine.next_at()
    assert due is None or due > play.now
    for text in _times([each.tree() for each in play.store.list(WORKLOADS).items]):
        assert NOON <= Time.parse(text).millis <= LAST_MILLIS


def _times(tree: Any) -> Iterator[str]:
    """All times in objects."""
    match tree:
        case dict():
            for name, each in tree.items():
                yield from [each] if name.endswith(("Time", "Timestamp", "At")) and each else _times(each)
        case list():
            for each in tree:
                yield from _times(each)


@pytest.mark.parametrize("span", [each for each in SPANS if SPANS[each] <= NANOS])
def test_a_line_of_the_journal_stays_as_long_as_it_may(span: str) -> None:
    read = codec.read({**CONFIG, "makeway": {"journal": {"maxAge": duration(SPANS[span])}}}).value
    assert isinstance(read, Configuration)
    journal = DecisionJournal(policy_of(read))
    for seconds in (0, SPANS[span] - 1, SPANS[span] + 1):
        journal.write(Millis(NOON + seconds * 1000), "admitted", WorkloadKey("default/w"))
        assert len(list(journal.lines())) == (1 if seconds == 0 else 2)
    assert json.loads(next(journal.lines()))["number"] == 2


# --- Jobs -------------------------------------------------------------------------------------------------------------


def _job(play: Play, **spec: Any) -> Tree:
    container = {"name": "c", "image": "busybox", "resources": {}}
    template = {"spec": {"containers": [container], "restartPolicy": "Never"}}
    body = {
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j", "namespace": "default"},
        "spec": {"template": template, **spec},
    }  # fmt: skip
    return play.store.create(body).tree()


@pytest.mark.parametrize("span", SPANS)
def test_the_deadline_of_a_job_comes_when_it_is_due(span: str) -> None:
    seconds, play = SPANS[span], Play({}, cluster_queue())
    _job(play, activeDeadlineSeconds=seconds)

    def has_failed() -> bool:
        found = play.store.get(kind_of(Job), "default", "j").tree().get("status", {}).get("conditions", [])
        return any(each["type"] == "FailureTarget" for each in found)

    play.at(0).at(min(seconds - 1, 100 * YEAR_S))
    assert not has_failed()
    if seconds < INT64:
        play.at(seconds + 1)
        assert has_failed()


@pytest.mark.parametrize("span", [each for each in SPANS if SPANS[each] <= INT32])
def test_a_finished_job_stays_as_long_as_it_may(span: str) -> None:
    seconds, play = SPANS[span], Play({}, cluster_queue())
    tree = _job(play, ttlSecondsAfterFinished=seconds, suspend=True)
    done = {"type": "Complete", "status": "True", "lastTransitionTime": Time.of_millis(NOON).text}
    play.store.update_status({**tree, "status": {"conditions": [done]}})

    def is_gone() -> bool:
        try:
            return play.store.get(kind_of(Job), "default", "j").deleting
        except NotFound:
            return True

    play.at(seconds - 1)
    assert not is_gone()
    play.at(seconds + 1)
    assert is_gone()


# --- times that can be written ---------------------------------------------------------------------------------------


def test_a_time_beyond_all_is_the_last_that_can_be_written() -> None:
    for millis in (LAST_MILLIS, LAST_MILLIS + 1, NOON + INT64 * 1000):
        assert Time.of_millis(millis).text == "9999-12-31T23:59:59Z"
        assert Time.parse(Time.of_millis(millis).text) == Time.of_millis(millis)
    assert Time.of_millis(-INT64).text == "0000-01-01T00:00:00Z"


def test_a_grace_period_without_end_can_be_cut_short() -> None:
    play = Play({}, cluster_queue())
    pod = {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "default"},
        "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "busybox"}]},
    }  # fmt: skip
    kind = play.store.create(pod).kind
    play.store.delete(kind, "default", "p", grace=INT64)
    play.now = Millis(NOON + 60_000)
    play.store.delete(kind, "default", "p", grace=5)
    meta = play.store.get(kind, "default", "p").tree()["metadata"]
    assert meta["deletionTimestamp"] == Time.of_millis(play.now + 5000).text
