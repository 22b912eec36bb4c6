"""What ``makeway bench stability`` measures: whether preemption comes to rest in random states, and what that costs.

Every state is played four times: those who must leave do so at once or one to four cycles later, and the gates of the
stability rules are on or off. A promise that is broken is named with the numbers that replay it.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import click

from makeway.adapters.simulator.entitlement import ALLOWED, Entitled, entitled_waiting
from makeway.adapters.simulator.settling import GATES_OFF, GATES_ON, Leaving, Played, Settling
from makeway.adapters.simulator.states import START, World, world
from makeway.cli.screen import is_terminal, plural

MODELS: tuple[Leaving, ...] = ("instant", "unsynchronised")
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
    "waitingOn": "mean part of the workloads that waits, on",
    "waitingOff": "mean part of the workloads that waits, off",
    "evictionsOn": "evictions, gates on",
    "evictionsOff": "evictions, gates off",
}


@dataclass(slots=True)
class Tally:
    """The sums over all states so far."""

    seed: int
    states: int = 0
    unsettled: list[str] = field(default_factory=list)
    evictions_of_one: int = 0
    cycles: int = 0
    loops_off: int = 0
    breaker: int = 0
    over_quota: list[str] = field(default_factory=list)
    entitled: list[tuple[str, Entitled]] = field(default_factory=list)
    utilisation_on: float = 0.0
    utilisation_off: float = 0.0
    waiting_on: float = 0.0
    waiting_off: float = 0.0
    evictions_on: int = 0
    evictions_off: int = 0

    def add(self, number: int, start: World) -> None:
        self.states += 1
        loops_off = False
        for leaving in MODELS:
            on = Settling(start.state(GATES_ON), START, leaving)
            off = Settling(start.state(GATES_OFF), START, leaving)
            self._judge(f"{self.seed}/{number} {leaving}", on)
            loops_off |= off.run().outcome == "loops"
            self._compare(on.played, off.played)
        self.loops_off += loops_off

    def _judge(self, where: str, on: Settling) -> None:
        """The promises, on one play with the gates on."""
        played = on.run()
        self.evictions_of_one = max(self.evictions_of_one, played.evictions_of_one)
        self.cycles = max(self.cycles, played.cycles)
        self.breaker += played.breaker
        self.over_quota += [f"{where} {key}" for key in played.over_quota]
        if played.settled:
            self.entitled += [(where, each) for each in entitled_waiting(on.state, on.now, on.looks)]
        else:
            self.unsettled.append(where)

    def _compare(self, on: Played, off: Played) -> None:
        """The price, over as many cycles as the longer play took."""
        cycles = max(on.cycles, off.cycles, 1)
        self.utilisation_on += on.utilisation(cycles) / len(MODELS)
        self.utilisation_off += off.utilisation(cycles) / len(MODELS)
        self.waiting_on += on.waiting(cycles) / len(MODELS)
        self.waiting_off += off.waiting(cycles) / len(MODELS)
        self.evictions_on += on.evictions.total()
        self.evictions_off += off.evictions.total()

    @property
    def broken(self) -> list[str]:
        """Every promise that was not kept, with the numbers that replay it."""
        found = [f"{where}: does not settle" for where in self.unsettled]
        found += [f"{where}: admitted above quota" for where in self.over_quota]
        found += [
            f"{where} {each.workload}: is entitled and waits: {each.cause.removeprefix('other:')}"
            for where, each in self.entitled
            if each.cause not in ALLOWED
        ]
        if self.breaker:
            found.append(f"{plural(self.breaker, 'workload')} ran out of rounds")
        return found

    def result(self) -> dict[str, Any]:
        unsettled = {where.partition(" ")[0] for where in self.unsettled}
        causes = Counter(each.cause for _, each in self.entitled)
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
            "utilisationOn": round(self.utilisation_on / self.states, 4),
            "utilisationOff": round(self.utilisation_off / self.states, 4),
            "waitingOn": round(self.waiting_on / self.states, 4),
            "waitingOff": round(self.waiting_off / self.states, 4),
            "evictionsOn": self.evictions_on,
            "evictionsOff": self.evictions_off,
            "unsettled": self.unsettled,
        }


def bench_stability(states: int, seed: int, first: int = 0, *, fair: bool = False) -> Tally:
    """Play the states of these numbers in the sequence of a seed, with or without fair sharing."""
    tally = Tally(seed)
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


def print_stability(tally: Tally) -> None:
    result = tally.result()
    for key, words in WORDS.items():
        click.echo(f"{words:<44} {result[key]:>8}")
    for cause, count in result["entitledWaiting"]["causes"].items():
        click.echo(f"{f'entitled, and wait: {cause}':<44} {count:>8}")
    for line in tally.broken:
        click.echo(line)
