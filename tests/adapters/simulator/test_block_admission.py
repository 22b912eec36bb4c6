"""Random installations with ``blockAdmission`` and faults: no two workloads with quota ever wait for their pods."""

from __future__ import annotations

from dataclasses import replace

import pytest

from makeway.adapters.simulator.faults import Faults
from makeway.api.conditions import is_true
from makeway.api.objects.workload import Workload
from makeway.api.versions import kind_of
from makeway.core.lowering.workloads import is_accounted
from makeway.core.model import Millis
from makeway.core.policy import PodsReady, Policy
from makeway.runtime.ports import Stored, Watch
from makeway.testing.worlds import BEGIN_MS, simulation

pytestmark = pytest.mark.slow

HOUR_MS = 3_600_000
BLOCKING = replace(Policy.default(), pods_ready=PodsReady(block_admission=True))


class Judge:
    """Checks ReconcileQueue at every revision of every Workload, in order: which workloads' pods are waited for."""

    def __init__(self) -> None:
        self.watch: Watch | None = None
        self.unready: dict[str, None] = {}
        self.admissions = 0

    def __call__(self, now: Millis) -> None:
        assert self.watch is not None
        while events := self.watch.poll():
            for event in events:
                if event.object is not None:
                    self._take(event.object, event.type == "DELETED")

    def _take(self, stored: Stored, is_gone: bool) -> None:
        workload = stored.value()
        blocks = not is_gone and is_accounted(workload) and not is_true(workload.status.conditions, "PodsReady")
        if not blocks:
            self.unready.pop(stored.name, None)
            return
        self.admissions += stored.name not in self.unready
        self.unready[stored.name] = None
        assert len(self.unready) == 1, f"revision {stored.resource_version}: {list(self.unready)}"


@pytest.mark.parametrize("profile", ["none", "all"])
@pytest.mark.parametrize("seed", [9, 25, 27])  # many things happen at once in these
def test_one_admission_at_a_time_whatever_goes_wrong(seed: int, profile: str) -> None:
    judge = Judge()
    ready = simulation(seed, policy=BLOCKING, faults=Faults.of_profile(seed, profile), watching=judge)
    judge.watch = ready.store.watch(kind_of(Workload), ready.store.list(kind_of(Workload)).resource_version)
    ready.run(Millis(BEGIN_MS + 48 * HOUR_MS))
    judge(ready.clock.now)
    assert ready.broken() == []
    assert judge.admissions > 5
