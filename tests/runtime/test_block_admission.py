"""``blockAdmission`` in a whole engine: one admission at a time, from the moment it is decided (S-5.7.12).

The store answers at once, fails, or answers when the test lets it; in between the engine knows only its assumptions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from makeway.adapters.simulator.store import MemoryStore
from makeway.api.conditions import find
from makeway.api.objects.meta import Condition
from makeway.api.objects.workload import Workload
from makeway.api.versions import kind_of
from makeway.controllers.standard import standard
from makeway.core.model import Millis
from makeway.core.policy import PodsReady, Policy
from makeway.runtime.engine import Engine
from makeway.runtime.executor import DirectWriter, WriteAnswer
from makeway.runtime.ports import Forbidden, Stored
from tests.runtime.wires import check, cluster_queue, condition, flavor, local_queue, workload

NOON = Millis(1_767_268_800_000)
HOUR = 3_600_000
WORKLOADS = kind_of(Workload)
BLOCKING = replace(Policy.default(), pods_ready=PodsReady(block_admission=True))


class SlowWriter(DirectWriter):
    """Calls are made at once; ``holds_back`` of them are answered only after the test releases them."""

    holds_back = False

    def answers(self, now: Millis) -> Sequence[WriteAnswer]:
        return () if self.holds_back else super().answers(now)


class Refusing(MemoryStore):
    """A Store that refuses the admission of one Workload as often as the test says."""

    refusals = 0

    def update_status(self, body: Any) -> Stored:
        if self.refusals and body.metadata.name == "first" and body.status.admission is not None:
            self.refusals -= 1
            raise Forbidden("not today")
        return super().update_status(body)


class Play:
    def __init__(self, *objects: Any, writer: type[DirectWriter] = DirectWriter, policy: Policy = BLOCKING) -> None:
        self.now = NOON
        self.policy = policy
        self.store = Refusing(lambda: self.now, careful=False)
        self.store.load([flavor(), cluster_queue(nominal=10), local_queue(), *objects])
        self.begin(writer)

    def begin(self, writer: type[DirectWriter] = DirectWriter) -> None:
        self.writer = writer(self.store)
        self.engine = Engine(self.store, self.policy, standard(lambda _: 0), writer=self.writer, figures_ms=0)

    def settle(self, at: int = 0) -> int:
        self.now = Millis(NOON + at)
        for steps in range(1, 200):
            if not self.engine.step(self.now):
                return steps
        raise AssertionError("it does not come to rest")

    def told(self, name: str, type_: str) -> Condition | None:
        status = self.store.get(WORKLOADS, "default", name).value().status
        return None if status is None else find(status.conditions, type_)

    def admitted(self, *names: str) -> list[str]:
        conditions = {name: self.told(name, "Admitted") for name in names}
        return [name for name, each in conditions.items() if each is not None and each.status == "True"]

    def add(self, name: str, *changes: dict[str, Any]) -> None:
        """Add a condition."""
        stored = self.store.get(WORKLOADS, "default", name).tree()
        conditions = [*(stored.get("status") or {}).get("conditions", []), *changes]
        self.store.patch(WORKLOADS, "default", name, {"status": {"conditions": conditions}}, status=True)


def test_of_two_that_come_after_one_another_the_second_waits_and_says_why() -> None:
    play = Play(workload("first"))
    play.settle()
    play.store.load([workload("second")])
    play.settle(3000)
    assert play.admitted("first", "second") == ["first"]
    reserved = play.told("second", "QuotaReserved")
    assert reserved is not None
    assert (reserved.status, reserved.reason) == ("False", "WaitingForPodsReady")


def test_of_many_that_come_together_one_is_admitted_after_the_other() -> None:
    names = [f"w{n}" for n in range(6)]
    play = Play(*(workload(name) for name in names))
    for turn, name in enumerate(names):
        play.settle(turn * 1000)
        assert play.admitted(*names) == names[: turn + 1]
        play.add(name, condition("PodsReady"))


def test_while_admissions_are_blocked_the_engine_rests() -> None:
    play = Play(*(workload(f"w{n}") for n in range(50)), policy=replace(BLOCKING, pods_ready=FOREVER))
    play.settle()
    play.settle(60_000)  # the statuses of queues, and of waiting workloads
    cycles, decisions = play.engine.cycles, play.engine.decisions
    assert decisions < 10, "those behind the first are not evaluated one by one"
    for minute in range(2, 10):
        assert play.settle(minute * 60_000) == 1
    assert (play.engine.cycles, play.engine.decisions) == (cycles, decisions)


FOREVER = PodsReady(block_admission=True, timeout_ms=100 * HOUR)


def test_an_admission_blocks_before_its_write_is_answered() -> None:
    play = Play(workload("first"), writer=SlowWriter)
    assert isinstance(play.writer, SlowWriter)
    play.writer.holds_back = True
    play.engine.step(NOON)
    assert play.admitted("first") == ["first"]
    play.store.load([workload("second")])
    for _ in range(5):
        play.engine.step(NOON)
    play.writer.holds_back = False
    play.settle(1000)
    assert play.admitted("first", "second") == ["first"]


def test_the_block_is_taken_back_with_an_admission_that_cannot_be_written() -> None:
    late = {"creationTimestamp": "2026-01-01T12:00:01Z"}
    play = Play(
        cluster_queue("other", nominal=4), local_queue("lo", "other"), workload("first"),
        workload("second", local="lo", meta=late),
    )  # fmt: skip
    play.store.refusals = 1000
    play.settle()
    assert play.admitted("first", "second") == ["second"], "no workload waits for pods that will not start"
    assert 1000 - play.store.refusals < 5, "what was refused is tried again after a pause, and not at once"
    play.store.refusals = 0
    play.add("second", condition("PodsReady"))
    play.settle(60_000)
    assert play.admitted("first") == ["first"]


def test_a_reservation_whose_checks_are_undecided_blocks_the_next_one() -> None:
    """Otherwise both checks could pass at once, and two workloads start together (decision 0073)."""
    checked: dict[str, Any] = {"admissionChecksStrategy": {"admissionChecks": [{"name": "audit"}]}}
    play = Play(
        check("audit"), cluster_queue("checked", nominal=4, **checked), local_queue("lc", "checked"),
        workload("first", local="lc"),
    )  # fmt: skip
    play.settle()
    play.store.load([workload("second")])
    play.settle(1000)
    reserved = play.told("first", "QuotaReserved")
    assert reserved is not None
    assert reserved.status == "True"
    assert play.admitted("first", "second") == []


@pytest.mark.parametrize(
    "ends",
    [
        lambda play: play.add("first", condition("PodsReady")),
        lambda play: play.add("first", condition("Finished")),
        lambda play: play.store.delete(WORKLOADS, "default", "first"),
        lambda play: play.store.patch(WORKLOADS, "default", "first", {"spec": {"active": False}}),
        lambda play: None,  # its pods are not ready in time: it is evicted, and backs off
    ],
    ids=["ready", "finished", "deleted", "deactivated", "evicted"],
)
def test_what_ends_the_block_admits_the_next(ends: Callable[[Play], None]) -> None:
    play = Play(workload("first"))
    play.settle()
    play.store.load([workload("second")])
    play.settle(3000)
    assert play.admitted("second") == []
    ends(play)
    play.settle(HOUR)
    assert play.admitted("second") == ["second"]


def test_a_restart_finds_the_block_in_the_objects() -> None:
    play = Play(workload("first"))
    play.settle()
    play.store.load([workload("second")])
    play.begin()
    play.settle(1000)
    assert play.admitted("first", "second") == ["first"]
