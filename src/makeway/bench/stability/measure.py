"""What ``makeway bench stability`` measures: whether preemption settles in random states, and what that costs.

Every state is played with the gates of the stability rules on, with them off, and with them on but without the holds
of entitled workloads that wait: the difference is the cost of each. Workloads that must leave do so at once or, in
plays of their own, one to four cycles later. Or they are slow: within a grace period of an hour or, being late, far
beyond their own. A broken promise is named with the numbers that replay it.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import click

from makeway.bench.stability.entitlement import ALLOWED, Entitled, entitled_waiting
from makeway.bench.stability.settling import (
    GATES_OFF,
    GATES_ON,
    SLOW_MAX,
    STEP,
    WITHOUT_HOLDS,
    Leaving,
    Played,
    Settling,
)
from makeway.bench.stability.states import START, StartingState, world
from makeway.cli.terminal.screen import is_terminal, plural
from makeway.core.policy import Policy

MODELS: dict[str, tuple[Leaving, ...]] = {  # by the value of --evictions
    "quick": ("instant", "unsynchronised"),
    "slow": ("slow",),
    "late": ("slow",),
}
GRACE_MS = {"slow": SLOW_MAX * STEP}  # the time that victims may take to leave; otherwise as the states say
WORDS = {  # result -> what it is
    "states": "states",
    "settled": "settled, whichever way victims leave",
    "maxEvictionsOfOne": "most evictions of one workload",
    "maxCycles": "most cycles until nothing changed any more",
    "loopsWithGatesOff": "states that loop with the gates off",
    "breaker": "workloads that ran out of rounds",
    "overQuota": "admissions above quota",
    "utilisationOn": "mean use of quota, gates on",
    "utilisationOff": "mean use of quota, gates off",
    "utilisationNoHold": "mean use of quota, on, without holds",
    "waitingOn": "mean part of the workloads that waits, on",
    "waitingOff": "mean part of the workloads that waits, off",
    "waitingNoHold": "the same, on, without holds",
    "evictionsOn": "evictions, gates on",
    "evictionsOff": "evictions, gates off",
    "evictionsNoHold": "evictions, gates on, without holds",
}


@dataclass(slots=True)
class Price:
    """The cost of plays of one kind, summed up."""

    utilisation: float = 0.0
    waiting: float = 0.0
    evictions: int = 0

    def add(self, played: Played, cycles: int, models: int) -> None:
        self.utilisation += played.utilisation(cycles) / models
        self.waiting += played.waiting(cycles) / models
        self.evictions += played.evictions.total()


@dataclass(slots=True)
class StabilityTotals:
    """The sums over all states so far."""

    seed: int
    evictions: str = "quick"
    states: int = 0
    unsettled: list[str] = field(default_factory=list)
    evictions_of_one: int = 0
    cycles: int = 0
    loops_off: int = 0
    breaker: int = 0
    exhausted: list[str] = field(default_factory=list)  # where the limit of rounds made verdicts
    over_quota: list[str] = field(default_factory=list)
    entitled: list[tuple[str, Entitled]] = field(default_factory=list)
    on: Price = field(default_factory=Price)
    off: Price = field(default_factory=Price)
    no_hold: Price = field(default_factory=Price)

    def add(self, number: int, start: StartingState) -> None:
        self.states += 1
        loops_off = False
        for leaving in MODELS[self.evictions]:
            on, off, no_hold = (self._play(start, policy, leaving) for policy in (GATES_ON, GATES_OFF, WITHOUT_HOLDS))
            self._judge(f"{self.seed}/{number} {'late' if self.evictions == 'late' else leaving}", on)
            loops_off |= off.run().outcome == "loops"
            self._compare(on.played, off.played, no_hold.run())
        self.loops_off += loops_off

    def _play(self, start: StartingState, policy: Policy, leaving: Leaving) -> Settling:
        return Settling(start.state(policy, GRACE_MS.get(self.evictions)), START, leaving)

    def _judge(self, where: str, on: Settling) -> None:
        """Check the promises on one play with the gates on."""
        played = on.run()
        self.evictions_of_one = max(self.evictions_of_one, played.evictions_of_one)
        self.cycles = max(self.cycles, played.cycles)
        self.breaker += played.breaker
        self.exhausted += [where] if played.breaker else []
        self.over_quota += [f"{where} {key}" for key in played.over_quota]
        if played.settled:
            self.entitled += [(where, each) for each in entitled_waiting(on.state, on.now, on.evaluations)]
        else:
            self.unsettled.append(where)

    def _compare(self, on: Played, off: Played, no_hold: Played) -> None:
        """Add up the price, over as many cycles as the longest play took."""
        cycles = max(on.cycles, off.cycles, no_hold.cycles, 1)
        for price, played in ((self.on, on), (self.off, off), (self.no_hold, no_hold)):
            price.add(played, cycles, len(MODELS[self.evictions]))

    @property
    def broken(self) -> list[str]:
        """Every promise that was not kept, with the numbers that replay it.

        Where victims are late, claims end before they leave: then the promise is that it settles within quota.
        """
        found = [f"{where}: does not settle" for where in self.unsettled]
        found += [f"{where}: admitted above quota" for where in self.over_quota]
        if self.evictions == "late":
            return found
        found += [
            f"{where} {each.workload}: is entitled and waits: {each.cause.removeprefix('other:')}"
            for where, each in self.entitled
            if each.cause not in ALLOWED
        ]
        if self.breaker:
            found.append(": ".join([f"{plural(self.breaker, 'workload')} ran out of rounds", *_joined(self.exhausted)]))
        return found

    def result(self) -> dict[str, Any]:
        unsettled = {where.partition(" ")[0] for where in self.unsettled}
        causes = Counter(each.cause for _, each in self.entitled)
        prices = {"On": self.on, "Off": self.off, "NoHold": self.no_hold}
        return {
            "states": self.states,
            "settled": self.states - len(unsettled),
            "maxEvictionsOfOne": self.evictions_of_one,
            "maxCycles": self.cycles,
            "loopsWithGatesOff": self.loops_off,
            "breaker": self.breaker,
            "overQuota": len(self.over_quota),
            "entitledWaiting": {
                "causes": dict(sorted({**dict.fromkeys(ALLOWED, 0), **causes}.items())),
                "workloads": [f"{where} {each.workload}: {each.cause}" for where, each in self.entitled],
            },
            **{f"utilisation{name}": round(each.utilisation / self.states, 4) for name, each in prices.items()},
            **{f"waiting{name}": round(each.waiting / self.states, 4) for name, each in prices.items()},
            **{f"evictions{name}": each.evictions for name, each in prices.items()},
            "unsettled": self.unsettled,
        }


def _joined(places: list[str]) -> list[str]:
    return [", ".join(places)] if places else []


def bench_stability(
    states: int, seed: int, first: int = 0, *, fair: bool = False, evictions: str = "quick"
) -> StabilityTotals:
    """Play the states of these numbers in the sequence of a seed, with or without fair sharing."""
    tally = StabilityTotals(seed, evictions)
    for number in _shown(range(first, first + states)):
        tally.add(number, world(seed, number, fair=fair))
    return tally


def _shown(numbers: Iterable[int]) -> Iterator[int]:
    """The numbers, and on a terminal how far they have come."""
    if not is_terminal(sys.stderr):
        yield from numbers
        return
    with click.progressbar(numbers, label="states", file=sys.stderr) as shown:
        yield from shown


def print_stability(tally: StabilityTotals) -> None:
    result = tally.result()
    for key, words in WORDS.items():
        click.echo(f"{words:<44} {result[key]:>8}")
    for cause, count in result["entitledWaiting"]["causes"].items():
        click.echo(f"{f'entitled, and wait: {cause}':<44} {count:>8}")
    for line in tally.broken:
        click.echo(line)
