"""The recorded loops: without claims and rounds the model loops in the same way, with them it settles.

Classical preemption only (group a, and M1 to M4 of the minimised ones).
"""

from __future__ import annotations

import gzip
import hashlib
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.model import facts
from tests.model.cycle import Result
from tests.model.facts import Raw
from tests.model.play import cycles_of

pytestmark = pytest.mark.slow

CYCLES = 80
LATE = 50  # a run that still preempts after this cycle is called a loop
MOST_EVICTIONS = 3
UNSTABLE = {"PreemptionClaims": False, "PreemptionEpochs": False}
MODELS = ["instant", "desync"]


def recorded(shared: Path) -> Iterator[tuple[str, Raw]]:
    folder = shared / "vectors" / "convergence"
    if not folder.is_dir():
        pytest.skip("no recorded loops in the folder of shared data")
    lines = (folder / "minimal.jsonl").read_text().splitlines()
    lines += gzip.decompress((folder / "loops.jsonl.gz").read_bytes()).decode().splitlines()
    for case in map(json.loads, lines):
        if case["group"] == "a":
            yield case.get("id") or f"{case['scenario']['name']} {case['evictionModel']}", case


def late(uid: str) -> list[int]:
    """How many further cycles the evictions of a workload take in the unsynchronised model."""
    return [1 + hashlib.sha256(f"{uid}/{n}".encode()).digest()[0] % 4 for n in range(1, CYCLES + 1)]


def told_as(case: Raw, model: str, **gates: bool) -> Raw:
    scenario = case["scenario"]
    workloads = [raw for raw in scenario["objects"] if raw["kind"] == "Workload"]
    leaving = {facts.key_of(wl): late(facts.uid_of(wl)) for wl in workloads} if model == "desync" else {}
    return dict(scenario) | {
        "cycles": CYCLES,
        "leaving": leaving,
        "featureGates": scenario["featureGates"] | gates,
    }


def results(scenario: Raw, profile: str) -> list[Result]:
    return [result for _, result, _ in cycles_of(scenario, profile)]


def last_preemption(told: list[Result]) -> int:
    return max((i for i, result in enumerate(told, start=1) if result.evicted or result.taken), default=0)


def most_evictions(told: list[Result]) -> int:
    return max(Counter(key for result in told for key in result.evicted).values(), default=0)


def models(case: Raw) -> list[str]:
    return MODELS if "id" in case else [case["evictionModel"]]


def preemptions(log: list[Raw]) -> dict[int, list[list[Any]]]:
    found = {c["cycle"]: [[p["workload"], p["preemptor"], p["reason"]] for p in c.get("preempted") or []] for c in log}
    return {number: sorted(victims) for number, victims in found.items() if victims}


def test_parity_runs_in_the_recorded_circles(shared: Path) -> None:
    seen = 0
    for name, case in recorded(shared):
        log = case["kueue"].get("log") or case["kueue"]["logFirst24Cycles"]
        until = 24 if "id" in case else CYCLES
        told = results(told_as(case, case["evictionModel"]), "parity")[:until]
        ours = {
            i: sorted([victim, by, why] for victim, by, why in result.preempted if victim in result.evicted)
            for i, result in enumerate(told, start=1)
            if result.evicted
        }
        assert ours == preemptions(log), name
        seen += 1
    assert seen >= 7


def test_the_gates_off_every_minimal_one_still_loops(shared: Path) -> None:
    loops = {
        (name, model): last_preemption(results(told_as(case, model, **UNSTABLE), "default")) > LATE
        for name, case in recorded(shared)
        if "id" in case
        for model in MODELS
    }
    assert len(loops) == 8
    assert all(loops.values()), loops


def test_with_claims_and_rounds_all_settle(shared: Path) -> None:
    for name, case in recorded(shared):
        for model in models(case):
            told = results(told_as(case, model), "default")
            assert last_preemption(told) <= LATE, (name, model)
            assert most_evictions(told) <= MOST_EVICTIONS, (name, model)


def test_m4_needs_the_rounds_and_m2_the_claims(shared: Path) -> None:
    """M4 has no stable state, so keeping the quota for the preemptor cannot end it; M2 stays within nominal quota."""
    cases = dict(recorded(shared))
    for model in MODELS:
        only_claims = results(told_as(cases["M4"], model, PreemptionEpochs=False), "default")
        assert last_preemption(only_claims) > LATE
        only_rounds = results(told_as(cases["M2"], model, PreemptionClaims=False), "default")
        assert most_evictions(only_rounds) == 10  # the circuit breaker
