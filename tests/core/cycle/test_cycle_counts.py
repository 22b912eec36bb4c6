"""What a cycle costs, counted: candidates read and queries to the quota tree. Never seconds."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from makeway.core.cycle.cycle import Plan, carry_out, decide
from makeway.core.model import QueueName
from makeway.core.state import State
from makeway.testing.builders import Part, cohort, cycle, holder, leave, queue, seconds, state, workload

QUEUES = 1_000
VICTIMS = 2
ROOT = Path(__file__).parents[3]


def busy(per_queue: int) -> State:
    """A thousand queues in fifty cohorts, each full, its head in need of two victims of its own."""
    lines = [
        queue(f"q{i:03}", per_queue + VICTIMS, cohort=f"c{i % 50:02}", within="LowerPriority") for i in range(QUEUES)
    ]
    running = [
        holder(f"h{i:03}-{j:02}", queue=f"q{i:03}", cpu=1, priority=-1, reserved=j)
        for i in range(QUEUES)
        for j in range(per_queue + VICTIMS - 1)
    ]
    one_more = [holder(f"one{i:03}", queue=f"q{i:03}", cpu=1, priority=-2) for i in range(QUEUES)]
    waiting = [workload(f"w{i:03}", queue=f"q{i:03}", cpu=VICTIMS) for i in range(QUEUES)]
    return state(*lines, *running, *one_more, *waiting)


def steps(on: State) -> int:
    """Candidates read, and queries to the tree."""
    return on.holders.looks + on.tree.questions


def test_a_cycle_costs_what_is_claimed_in_its_tree() -> None:
    def asked(trees: int) -> int:
        parts: list[Part] = []
        for i in range(trees):
            parts += [queue(f"q{i}", 2, within="LowerPriority"), holder(f"h{i}", queue=f"q{i}", cpu=2)]
            parts.append(workload(f"p{i}", queue=f"q{i}", cpu=2, priority=1))
        on = state(*parts)
        cycle(on, 10)
        on.push(workload("late", queue="q0"), seconds(11))
        before = steps(on)
        decide(on, seconds(11))
        return steps(on) - before

    assert asked(50) == asked(2)


@pytest.mark.parametrize("helps", [False, True])
def test_a_release_costs_whom_it_can_help_not_who_waits(helps: bool) -> None:
    """All waiting workloads were refused before; one core gets free, and at most one wants no more than that."""

    def asked(waiting: int) -> tuple[int, int]:
        parts: list[Part] = [
            queue("q", 9, cohort="r", within="LowerPriority", reclaim="Any"),
            queue("y", 1, cohort="r"),
        ]
        parts += [holder("own", cpu=9, priority=5), holder("gone", queue="y", cpu=1, priority=5)]
        parts += [workload(f"w{i:03}", cpu=2 + i / 1000, queued=i) for i in range(waiting)]
        on = state(*parts, *([workload("small", cpu=1, queued=waiting)] if helps else []))
        while (plan := cycle(on, 1)).verdicts:
            pass
        on.release(on.holders.by_key[workload("gone").key])
        before, looks = steps(on), 0
        on.wake_after_release(on.tree_of(QueueName("q")), seconds(2))
        while (plan := decide(on, seconds(2), passing=True)).verdicts or plan.passed:
            looks += len(plan.verdicts)
            carry_out(on, plan)
        return looks, steps(on) - before

    few, many = asked(5), asked(500)
    assert few == many
    assert few[0] == helps


@pytest.mark.slow
def test_a_cycle_costs_what_its_heads_and_victims_cost_not_what_runs() -> None:
    counted = []
    for per_queue in (1, 50):
        on = busy(per_queue)
        before = steps(on)
        plan = decide(on, seconds(100))
        assert {len(each.targets) for each in plan.verdicts} == {VICTIMS}
        assert len(plan.verdicts) == QUEUES
        counted.append(steps(on) - before)
    few, many = counted
    assert abs(many - few) * 10 <= few, counted


# --- the same plan under any hash seed -------------------------------------------------------------------------------


def large() -> State:
    """Trees of several levels, two flavors, all policies, everything full: one of each that can happen."""
    within = ("Never", "LowerPriority", "LowerOrNewerEqualPriority")
    reclaim = ("Never", "LowerPriority", "Any")
    lines = [
        queue(
            f"q{i:02}",
            {"spot": i % 4 + 1, "default": {"cpu": i % 3 + 1, "gpu": i % 2}},
            cohort=f"c{i % 7}",
            within=within[i % 3],
            reclaim=reclaim[i % 5 % 3],
            borrow="LowerPriority" if i % 5 % 3 and i % 2 else "Never",
            strict=i % 4 == 0,
            min_admit=60 if i % 3 == 2 and i % 2 else None,
            prefer_preemption=i % 6 == 0,
        )
        for i in range(40)
    ]
    cohorts = [cohort(f"c{i}", 1, parent=f"top{i % 2}") for i in range(7)]
    running = [
        holder(f"h{i:03}", queue=f"q{i * 7 % 40:02}", priority=i % 5 - 2, reserved=i * 13 % 97, usage=use)
        for i in range(160)
        for use in [{"spot": 1} if i % 3 else {"default": {"cpu": 1, "gpu": i % 2}}]
    ]
    waiting = [
        workload(f"w{i:03}", queue=f"q{i % 40:02}", cpu=i % 3 + 1, priority=i % 4 - 1, queued=i * 11 % 89, count=2)
        for i in range(120)
    ]
    return state(*lines, *cohorts, *running, *waiting, at=500)


def tell(plan: Plan) -> str:
    lines = []
    for each in plan.verdicts:
        flavors = [sorted(part.choices.items()) for part in each.assignment.pod_sets]
        targets = [(target.workload.key, target.reason) for target in each.targets]
        lines.append(f"{each.workload.key} {each.status} {each.requeue} {flavors} {targets} {[*map(str, each.steps)]}")
    return "\n".join(lines)


def several_cycles() -> str:
    on, texts = large(), []
    for at in range(500, 600, 10):
        plan = cycle(on, at)
        texts.append(tell(plan))
        leave(on, *(target.workload.uid for each in plan.verdicts for target in each.targets), at=at)
    return "\n".join([*texts, repr(on.fingerprint())])


def test_the_large_world_has_everything_in_it() -> None:
    told = several_cycles()
    words = ("admitted", "PendingPreemption", "PreemptionNoCandidates", "NoFit", "FailedAfterNomination")
    reasons = ("InClusterQueue'", "InClusterQueueTimeBased", "InCohortReclamation", "InCohortReclaimWhileBorrowing")
    assert [word for word in (*words, *reasons) if word not in told] == []


@pytest.mark.slow
def test_the_same_plan_under_two_hash_seeds() -> None:
    script = "from tests.core.cycle.test_cycle_counts import several_cycles; print(several_cycles())"
    told = []
    for seed in ("1", "4242"):
        environment = {
            **os.environ,
            "PYTHONHASHSEED": seed,
            "PYTHONPATH": os.pathsep.join((str(ROOT / "src"), str(ROOT))),
        }
        ran = subprocess.run([sys.executable, "-c", script], env=environment, cwd=ROOT, capture_output=True, text=True)
        assert ran.returncode == 0, ran.stderr
        told.append(ran.stdout)
    assert told[0] == told[1]
