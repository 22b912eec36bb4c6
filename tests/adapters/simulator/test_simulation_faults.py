"""Whatever goes wrong, no quota is given twice, no workload is forgotten, and all work ends."""

from __future__ import annotations

import json
import shlex
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from makeway.adapters.simulator.faults import POINTS, PROFILES, Faults, Unreadable
from makeway.adapters.simulator.simulation import Simulation, was_meant
from makeway.api.objects.kubernetes import Job
from makeway.api.objects.workload import Workload
from makeway.cli.main import main
from makeway.controllers.contract import Ref
from makeway.controllers.standard import standard
from makeway.core.model import Millis, WorkloadKey
from makeway.runtime.engine import Engine
from makeway.runtime.recount.recount import recount
from makeway.testing.worlds import (
    BEGIN_MS,
    HARMLESS,
    MINUTE_MS,
    People,
    Shape,
    documents,
    faulty,
    objects,
    replay,
    simulation,
)
from tests.soaking import InTime

pytestmark = pytest.mark.slow

DAY_MS = 24 * 60 * MINUTE_MS
POINTS_MAX = 5_000  # in time, of one run


class Patience:
    """Ends a run that does not come to rest, by its time or by its number of steps."""

    def __init__(self) -> None:
        self._points = 0

    def __call__(self, now: Millis) -> None:
        self._points += 1
        assert now < BEGIN_MS + DAY_MS, "it does not come to rest within a day"
        assert self._points < POINTS_MAX, f"it spins {now - BEGIN_MS} ms after the beginning"


def wrong_with(ready: Simulation) -> list[str]:
    """All promises that a run at rest has broken."""
    engine, metrics = ready.engine.engine, ready.metrics
    assert metrics is not None
    metrics.refresh(engine.view)
    lives = ready.world.lives.recorded(ready.clock.now)
    return [
        *map(str, ready.broken()),
        *(f"{each.workload} never ended" for each in lives if each.finished_at is None and each.gone_at is None),
        *map(str, recount(ready.store_objects(), engine.state, metrics)),
        *([] if engine.is_quiet else ["a write is under way for ever"]),
        *(f"{ref} is set aside for ever: {cause}" for ref, _, cause in engine.set_aside.all()),
    ]


def judge(seed: int, profile: str) -> Counter[str]:
    """Run a world to its end; return the faults that fired. A failure names the command that replays it."""
    ready = faulty(seed, profile, watching=Patience())
    try:
        ready.run()
        wrong = wrong_with(ready)
    except Exception as error:
        raise AssertionError(f"{type(error).__name__}: {error}\n\nreplay: {replay(seed, profile)}") from error
    assert not wrong, "\n".join([*wrong[:10], "", f"replay: {replay(seed, profile)}"])
    assert ready.settings.faults is not None
    return Counter(ready.settings.faults.fired)


@pytest.mark.property
def test_safe_and_live_whatever_goes_wrong(fuzz_inputs: int, fuzz_seed: int, in_time: InTime) -> None:
    """No admission above quota with leaving victims counted, none twice, none forgotten; all ends."""
    fired: Counter[str] = Counter()
    for seed in in_time(range(fuzz_seed, fuzz_seed + max(1, fuzz_inputs * 150 // 2000))):
        fired += judge(seed, "all")
    assert in_time.was_cut or sorted(POINTS) == sorted(fired), f"these never fired: {sorted(set(POINTS) - set(fired))}"


@pytest.mark.property
@pytest.mark.parametrize("profile", ["watch", "writes", "crashes", "clock", "unreadable"])
def test_safe_and_live_whatever_goes_wrong_more_often(
    profile: str, fuzz_inputs: int, fuzz_seed: int, in_time: InTime
) -> None:
    fired: Counter[str] = Counter()
    for seed in in_time(range(fuzz_seed, fuzz_seed + max(1, fuzz_inputs // 200))):
        fired += judge(seed, profile)
    assert in_time.was_cut or sorted(PROFILES[profile]) == sorted(fired)


@pytest.mark.property
def test_the_trouble_of_one_workload_costs_no_other_its_place(
    fuzz_inputs: int, fuzz_seed: int, in_time: InTime
) -> None:
    """A workload that no part can ever read has the same effect as a missing one, except for its quota."""
    for seed in in_time(range(fuzz_seed, fuzz_seed + max(1, fuzz_inputs // 400))):
        faults = Faults(seed, {})
        ready = simulation(seed, faults=faults, watching=Patience())
        keys = sorted(each.metadata.name for each in objects(seed) if isinstance(each, Workload | Job))
        bad = keys[seed % len(keys)]

        def probe(part: str, whom: Ref, bad: str = bad) -> None:
            if whom.kind in ("Workload", "Job") and bad in whom.name:
                raise Unreadable("never")

        ready.engine.engine = engine_with(ready, probe)
        ready.run()
        left = [each for each in ready.world.lives.recorded(ready.clock.now) if each.finished_at is None]
        others = [each.workload for each in left if bad not in each.workload and each.gone_at is None]
        assert not others, f"world {seed}: {others} wait for ever because of {bad}"
        assert not [each for each in ready.broken() if bad not in each.subject], f"world {seed}"


def engine_with(ready: Simulation, probe: Callable[[str, Ref], None]) -> Engine:
    settings = ready.settings
    react = standard(lambda workload: settings.eviction_ms, settings.figures_ms)
    return Engine(
        ready.store, settings.policy, react, journal=ready.journal, metrics=ready.metrics, tolerates=was_meant,
        figures_ms=settings.figures_ms, probe=probe,
    )  # fmt: skip


@pytest.mark.property
def test_safe_and_live_while_people_change_their_minds(fuzz_inputs: int, fuzz_seed: int, in_time: InTime) -> None:
    """No quota is removed here: a decision before such a change may be stored after it."""
    for seed in in_time(range(fuzz_seed, fuzz_seed + max(1, fuzz_inputs // 66))):
        faults = Faults.of_profile(seed, "all")
        faults.until = Millis(BEGIN_MS + 25 * MINUTE_MS)
        ready = simulation(seed, faults=faults, shape=Shape(checks=True, namespaces=True), watching=Patience())
        ready.driver.actors.append(People(ready.store, seed, changes=HARMLESS))
        ready.run()
        wrong = wrong_with(ready)
        assert not wrong, "\n".join([f"world {seed}:", *wrong[:10]])


# --- a failure can be replayed ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [6, 7])
def test_the_command_of_a_failure_replays_its_run(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command line makes the same decisions: with an even seed faults end early, with an odd one never."""
    making, command = (shlex.split(each) for each in replay(seed).split(" && "))
    assert making == ["python", "-m", "makeway.testing.worlds", str(seed), ">", "world.yaml"]
    monkeypatch.chdir(tmp_path)
    Path("world.yaml").write_text("---\n".join(map(as_yaml, documents(seed))))
    told = CliRunner().invoke(main, command[1:])
    assert told.exit_code == 0, told.output
    ready = faulty(seed)
    ready.run()
    assert Path("journal.jsonl").read_bytes() == b"".join(ready.journal.lines())
    assert ready.settings.faults is not None
    assert any(ready.settings.faults.fired.values())


def as_yaml(document: Any) -> str:

    return json.dumps(document) + "\n"


def test_a_failure_names_its_command(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(ready: Simulation) -> list[str]:
        return [f"{WorkloadKey('team/w')} never ended"]

    monkeypatch.setitem(globals(), "wrong_with", broken)
    with pytest.raises(AssertionError, match=r"never ended\s+replay: python -m makeway.testing.worlds 3 > world"):
        judge(3, "all")
