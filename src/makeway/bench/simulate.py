"""``makeway bench simulate``: how long the simulator takes for a lot of work, and how well the work is served.

``baseline`` and ``large-scale`` are the recipes of the peer's scheduler performance test, in numbers; a Philly trace is
read from a file. Times are CPU seconds of this process, virtual times are exact.
"""

from __future__ import annotations

import json
import resource
import time
from collections.abc import Iterator
from typing import Any

from makeway.adapters.simulator.reports.measures import measure
from makeway.adapters.simulator.simulation import Simulation, SimulationSettings
from makeway.adapters.simulator.sources.arrivals import Source, SourceFile, open_source
from makeway.adapters.simulator.sources.generator import read_generator
from makeway.adapters.simulator.sources.traces import read_philly
from makeway.cli.offline.simulate import FIGURES_MS, for_a_long_run

Recipe = dict[str, Any]
RECIPES: dict[str, tuple[int, int, tuple[tuple[int, int, str, int, int, int], ...]]] = {
    # cohorts, queues in each; sets of workloads: count, every so many ms, class, run time in ms, priority, cpu
    "baseline": (
        5, 6, ((350, 100, "small", 200, 50, 1), (100, 500, "medium", 500, 100, 5), (50, 1200, "large", 1000, 200, 20)),
    ),
    "large-scale": (
        10, 100, ((35, 60, "small", 150, 50, 1), (11, 300, "medium", 350, 100, 5), (4, 700, "large", 700, 200, 20)),
    ),
}  # fmt: skip


def recipe(name: str) -> Recipe:
    """In the generator's format."""
    cohorts, queues, sets = RECIPES[name]
    workloads = [
        {
            "count": count,
            "creationIntervalMs": every,
            "workloads": [{"className": kind, "runtimeMs": runs, "priority": priority, "request": cpu}],
        }
        for count, every, kind, runs, priority, cpu in sets
    ]
    queue = {
        "className": "cq", "count": queues, "nominalQuota": 20, "borrowingLimit": 100, "reclaimWithinCohort": "Any",
        "withinClusterQueue": "LowerPriority", "workloadsSets": workloads,
    }  # fmt: skip
    return {"cohorts": [{"className": "cohort", "count": cohorts, "queuesSets": [queue]}]}


def sources(names: tuple[str, ...], philly: str | None) -> Iterator[tuple[str, Source]]:
    for name in names:
        if name in RECIPES:
            yield name, read_generator(SourceFile(name, json.dumps(recipe(name)).encode()))
    if philly is not None:
        yield "philly", read_philly(open_source(philly))


def run(source: Source) -> dict[str, object]:
    """One source from its beginning to its end."""
    for_a_long_run()
    began = time.process_time()
    simulation = Simulation(SimulationSettings(figures_ms=FIGURES_MS), source)
    simulation.run()
    cpu = time.process_time() - began
    measured = measure(simulation.recorded(cpu_seconds=cpu))
    total = measured.total
    return {
        "workloads": total.workloads,
        "finished": total.finished,
        "virtualMakespanSeconds": measured.run.span_ms / 1000,
        "cpuSeconds": round(cpu, 2),
        "cpuMicrosPerWorkload": round(cpu / max(1, total.workloads) * 1e6),
        "cycles": measured.run.cycles,
        "decisions": measured.run.decisions,
        "writesPerWorkload": round(measured.run.writes / max(1, total.workloads), 2),
        "evictions": total.evicted,
        "peakMegabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }
