"""What holds in every cycle, tried on random worlds: promises, not algorithms."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from makeway.core.cycle.cycle import Plan, carry_out, decide, heads
from makeway.core.cycle.nomination import Entry, nominate
from makeway.core.model import FR, Queue, Workload
from makeway.core.policy import Policy
from makeway.core.preemption.eligibility import equals_by_time, may_preempt
from makeway.core.quota.tree import QuotaSpec
from makeway.core.state import State
from makeway.testing.builders import cohort, cycle, holder, leave, queue, seconds, state, workload

NOW = 1000
PROFILES = st.sampled_from([Policy.default(), Policy.parity()])
FLAVORS = ("default", "spot")


@dataclass(frozen=True)
class World:
    queues: tuple[tuple[Queue, QuotaSpec], ...]
    cohorts: tuple[QuotaSpec, ...]
    workloads: tuple[Workload, ...]

    def state(self, policy: Policy) -> State:
        return state(*self.queues, *self.cohorts, *self.workloads, policy=policy, at=NOW)


quotas = st.fixed_dictionaries({"default": st.integers(0, 5)}, optional={"spot": st.integers(0, 4)})
limits = st.none() | st.fixed_dictionaries({"default": st.integers(0, 4)})


@st.composite
def queues(draw: st.DrawFn, name: str) -> tuple[Queue, QuotaSpec]:
    within = draw(st.sampled_from(["Never", "LowerPriority", "LowerOrNewerEqualPriority"]))
    reclaim = draw(st.sampled_from(["Never", "LowerPriority", "Any"]))
    return queue(
        name,
        draw(quotas),
        cohort=draw(st.sampled_from(["l", "l", "r", ""])),
        borrowing=draw(limits),
        lending=draw(limits),
        strict=draw(st.booleans()),
        within=within,
        reclaim=reclaim,
        min_admit=draw(st.sampled_from([None, 200])) if within == "LowerOrNewerEqualPriority" else None,
        borrow=draw(st.sampled_from(["Never", "LowerPriority"])) if reclaim != "Never" else "Never",
        threshold=draw(st.sampled_from([None, 0])),
        try_next_when_borrowing=draw(st.booleans()),
        try_next_when_preempting=draw(st.booleans()),
        prefer_preemption=draw(st.booleans()),
    )


@st.composite
def worlds(draw: st.DrawFn) -> World:
    lines = tuple(draw(queues(name)) for name in "abcd"[: draw(st.integers(1, 4))])
    names = st.sampled_from([each.name for each, _ in lines])
    priority, times = st.integers(-1, 1), st.sampled_from([1, 500, 799, 800, 900])
    running = [
        holder(
            f"h{i}",
            queue=draw(names),
            priority=draw(priority),
            reserved=draw(times),
            queued=draw(times),
            usage={draw(st.sampled_from(FLAVORS)): draw(st.integers(1, 4))},
            evicted=draw(st.booleans()) and draw(st.booleans()),
        )
        for i in range(draw(st.integers(0, 7)))
    ]
    waiting = [
        workload(
            f"w{i}",
            queue=draw(names),
            priority=draw(priority),
            queued=draw(times),
            cpu=draw(st.integers(0, 2)),
            count=draw(st.integers(1, 3)),
            min_count=draw(st.sampled_from([None, None, 1])),
        )
        for i in range(draw(st.integers(1, 6)))
    ]
    top = [cohort("l", draw(quotas), parent="r", borrowing=draw(limits), lending=draw(limits))]
    return World(lines, tuple(top), (*running, *waiting))


def told(plan: Plan) -> list[object]:
    """All that a plan says, in words by which two runs can be compared."""
    return [
        (
            each.workload.key, each.status, each.requeue, each.mode, each.recomputed, each.assignment.level,
            [(p.count, sorted((r, c.flavor) for r, c in p.choices.items())) for p in each.assignment.pod_sets],
            [(target.workload.key, target.reason) for target in each.targets], [str(step) for step in each.steps],
        )
        for each in plan.verdicts
    ]  # fmt: skip


def recount(on: State) -> None:
    """Usage at every node is what its holders use."""
    for name, node in on.tree.queues.items():
        total: dict[FR, int] = {}
        for each in on.holders.of_queue.get(name, {}).values():  # type: ignore[call-overload]
            for fr, amount in (each.usage or {}).items():
                total[fr] = total.get(fr, 0) + amount
        assert {fr: used for fr, used in node.usage.items() if used} == {fr: used for fr, used in total.items() if used}
    on.tree.recount()


def over(on: State) -> set[tuple[str, FR]]:
    """Where more is used than there is."""
    nodes = [*on.tree.queues.values(), *on.tree.cohorts.values()]
    frs = {fr for node in nodes for fr in (*node.usage, *node.subtree)}
    return {(node.path(), fr) for node in nodes for fr in frs if on.tree.available(node, fr) < 0}


def play(on: State, moves: list[int]) -> None:
    """Run cycles; between them some of the workloads leave that were asked to."""
    for i, move in enumerate(moves):
        at = NOW + 10 * i
        cycle(on, at)
        leaving = [each.uid for members in on.holders.of_queue.values() for each in members.values() if each.evicted]
        if leaving:
            leave(on, sorted(leaving)[move % len(leaving)], at=at)


moves = st.lists(st.integers(0, 3), max_size=6)


@pytest.mark.property
@given(world=worlds(), policy=PROFILES, played=moves)
def test_usage_equals_the_recount_after_every_cycle(world: World, policy: Policy, played: list[int]) -> None:
    on = world.state(policy)
    recount(on)
    for move in played:
        play(on, [move])
        recount(on)


@pytest.mark.property
@given(world=worlds(), policy=PROFILES, played=moves)
def test_P35_a_decision_and_a_trial_leave_no_mark(world: World, policy: Policy, played: list[int]) -> None:
    on = world.state(policy)
    play(on, played[:2])
    outer = on.fingerprint()
    plan = decide(on, seconds(NOW))
    assert on.fingerprint() == outer, "a plan is a thought"
    with on.trial():
        carry_out(on, plan)
        inner = on.fingerprint()
        with on.trial():
            play(on, played)
        assert on.fingerprint() == inner, "trials nest"
        play(on, played)
    assert on.fingerprint() == outer
    assert told(decide(on, seconds(NOW))) == told(plan), "P9 the same question has the same answer"


@pytest.mark.property
@given(world=worlds(), played=moves)
def test_S_5_9_nobody_is_admitted_above_quota(world: World, played: list[int]) -> None:
    """In the default profile: where nothing was over before, nothing is over after an admission."""
    on = world.state(Policy.default())
    for move in played:
        before = over(on)
        cycle(on, NOW)
        assert over(on) <= before
        play(on, [move])


def fits(on: State, entry: Entry, *, may_borrow: bool) -> bool:
    node = on.tree.queues[entry.workload.queue]
    asked = {fr: amount for fr, amount in entry.assignment.usage.items() if amount}
    borrows = any(on.tree.borrows(node, fr, amount) for fr, amount in asked.items())
    return on.tree.fits(node, asked) and (may_borrow or not borrows)


def fits_without(on: State, entry: Entry, gone: list[Workload], *, may_borrow: bool) -> bool:
    with on.trial():
        for each in gone:
            on.tree.release_all(on.tree.queues[each.queue], each.usage or {})
        return fits(on, entry, may_borrow=may_borrow)


@pytest.mark.property
@given(world=worlds(), policy=PROFILES)
def test_targets_are_irreducible(world: World, policy: Policy) -> None:
    """Without all of them it fits; spare any one and it does not, under the same leave to borrow."""
    on = world.state(policy)
    for head in heads(on):
        entry = nominate(on, head, seconds(NOW))
        targets = [each.workload for each in entry.targets]
        if not targets:
            continue
        assert len({each.key for each in targets}) == len(targets)
        spared = [[other for other in targets if other is not each] for each in targets]
        assert any(
            fits_without(on, entry, targets, may_borrow=borrow)
            and not any(fits_without(on, entry, rest, may_borrow=borrow) for rest in spared)
            for borrow in (True, False)
        ), [each.uid for each in targets]


@pytest.mark.property
@given(world=worlds(), policy=PROFILES)
def test_targets_are_legal(world: World, policy: Policy) -> None:
    """S-7.2, 7.3, 8.1 to 8.4: they hold what is needed, the policy lets them go, and a queue of the cohort borrows."""
    on = world.state(policy)
    for head in heads(on):
        entry = nominate(on, head, seconds(NOW))
        asking, need = on.queues.get(head.queue), entry.assignment.need
        if asking is None:
            continue
        for target in entry.targets:
            running = target.workload
            assert set(running.usage or {}) & set(need)
            if running.queue == head.queue:
                expiry = equals_by_time(asking, seconds(NOW), time_based=True).expired_before
                assert may_preempt(head, running, asking.within, expiry, seconds(NOW))
                assert target.reason in ("InClusterQueue", "InClusterQueueTimeBased")
            else:
                assert asking.reclaim == "Any" or running.priority < head.priority
                assert asking.reclaim != "Never"
                lender = on.tree.queues[running.queue]
                assert lender.root is on.tree.queues[head.queue].root
                assert any(on.tree.borrows(lender, fr) for fr in need)
                assert target.reason in ("InCohortReclamation", "InCohortReclaimWhileBorrowing")


@st.composite
def shuffled(draw: st.DrawFn) -> tuple[World, World]:
    world = draw(worlds())
    again = World(
        tuple(draw(st.permutations(world.queues))),
        tuple(draw(st.permutations(world.cohorts))),
        tuple(draw(st.permutations(world.workloads))),
    )
    return world, again


@pytest.mark.property
@given(pair=shuffled(), policy=PROFILES)
def test_P23_permuted_input_gives_the_same_plan(pair: tuple[World, World], policy: Policy) -> None:
    one, two = (world.state(policy) for world in pair)
    for at in (NOW, NOW + 10):
        assert told(cycle(one, at)) == told(cycle(two, at))
    assert one.fingerprint() == two.fingerprint()


@pytest.mark.property
@given(world=worlds(), policy=PROFILES)
def test_P33_P34_who_is_marked_is_who_was_reported_and_is_not_looked_at_again(world: World, policy: Policy) -> None:
    on = world.state(policy)
    before = {each.key for members in on.holders.of_queue.values() for each in members.values() if each.evicted}
    plan = cycle(on, NOW)
    reported = {target.workload.key for each in plan.verdicts for target in each.targets}
    marked = {each.key for members in on.holders.of_queue.values() for each in members.values() if each.evicted}
    assert marked == before | reported
    assert not reported & {each.workload.key for each in plan.verdicts}
    chosen = [target.workload.key for each in plan.verdicts for target in each.targets]
    assert len(chosen) == len(set(chosen)), "nobody leaves for two"


@pytest.mark.property
@given(world=worlds(), policy=PROFILES)
def test_nobody_waits_for_ever_without_a_word(world: World, policy: Policy) -> None:
    """Every head gets a verdict, and every verdict its reasons."""
    on = world.state(policy)
    asked = {head.key for head in heads(on)}
    plan = cycle(on, NOW)
    assert {each.workload.key for each in plan.verdicts} == asked
    assert all(each.steps for each in plan.verdicts)
    assert all(str(step) for each in plan.verdicts for step in each.steps)
