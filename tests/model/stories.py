"""Worlds that live for hours: workloads arrive, run, are displaced and finish, and a diary keeps the times."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from tests.model import claims, facts, queues
from tests.model.builders import NAMESPACE, flavors
from tests.model.cycle import Result, cycle
from tests.model.facts import Raw
from tests.model.play import between_cycles
from tests.model.world import World, load, make_settings

MOST_CYCLES = 40  # at one time: more would be a loop


@dataclass
class Diary:
    """The events; times are milliseconds."""

    ran: Counter[str] = field(default_factory=Counter)
    started: dict[str, list[int]] = field(default_factory=dict)
    evicted: list[tuple[int, str, str, str]] = field(default_factory=list)  # when, workload, preemptor, reason

    def evictions(self, why: str) -> list[tuple[int, str, str]]:
        return [(at, who, by) for at, who, by, reason in self.evicted if reason == why]


def runs(world: World, key: str) -> bool:
    return facts.is_accounted(world.workloads[key], world.settings.parity)


def write(diary: Diary, result: Result, now: int) -> None:
    for key in result.reserved:
        diary.started.setdefault(key, []).append(now)
    told = [(now, key, by, why) for key, by, why in result.preempted if key in result.evicted]
    diary.evicted += told


def live(
    objects: list[Raw], seconds: int, lasts: dict[str, int] | None = None, step: int = 60, **settings: str
) -> Diary:
    """Run for so long; a workload in ``lasts`` finishes after so many seconds of running. Victims take one step."""
    workloads = sorted((raw for raw in objects if raw["kind"] == "Workload"), key=facts.created_at)
    queued = [raw for raw in objects if raw["kind"] != "Workload"]
    world = load([NAMESPACE, *flavors("f"), *queued], make_settings("default", None, **settings))
    diary, now = Diary(), facts.created_at(workloads[0])
    end, leaving = now + 1000 * seconds, list[str]()
    while now < end:
        arrived = [raw for raw in workloads if facts.created_at(raw) <= now]
        workloads = [raw for raw in workloads if raw not in arrived]
        over = [k for k, s in (lasts or {}).items() if k in world.workloads and diary.ran[k] >= 1000 * s]
        between_cycles(world, leaving, [{"create": arrived, "delete": over}], now)
        leaving = []
        for _ in range(MOST_CYCLES):
            result = cycle(world, now)
            write(diary, result, now)
            leaving += result.evicted
            if not queues.heads(world) and not claims.ready(world):
                break
        else:
            raise AssertionError("it does not come to rest")
        last, now = now, now + 1000 * step
        for key in world.workloads:
            diary.ran[key] += (now - last) * runs(world, key)
        queues.wake_expired(world, last, now)
        queues.wake_turns(world, last, now)
    return diary
