"""Claims and rounds in the model: the rules one by one, and what they promise of every quarrel."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from tests.model import claims, facts, queues
from tests.model.builders import NAMESPACE, NOON, flavors, pending, policy, queue, running, world
from tests.model.cycle import Result, cycle
from tests.model.facts import Raw
from tests.model.play import between_cycles, cycles_of, play
from tests.model.quota import available
from tests.model.scenarios import contended
from tests.model.world import World, make_settings, queue_node, snapshot
from tests.soaking import InTime

pytestmark = pytest.mark.slow

SECOND = 1000
TIMEOUT, GRACE = 300 * SECOND, 30 * SECOND
GATE = "example.com/gate"
INPUTS_PER_SCENARIO = 20  # as much work as so many damaged files


def told(result: Result) -> dict[str, str]:
    return {e.p.key.removeprefix("ns/"): str(e.status or e.reason) for e in result.entries}


def gone(w: World, *names: str, now: int = NOON) -> None:
    between_cycles(w, [f"ns/{name}" for name in names], [], now)


def victims(w: World, name: str) -> list[str]:
    return [key.removeprefix("ns/") for key in w.claims[f"ns/{name}"].victims]


def at(seconds: int) -> int:
    return NOON + seconds * SECOND


def two_victims(**spec: Any) -> World:
    """p (4) reclaims what a and b, both older, borrow: 2 each."""
    return world(
        queue("x", 4, preemption=policy(reclaim="Any"), **spec),
        queue("y", 0),
        running("a", "y", 2, created="08:00"),
        running("b", "y", 2, created="08:01"),
        pending("p", "x", 4),
    )


# claims 1 and 2: the tree as it will be, claimants first


def test_p6_what_is_freed_early_is_kept() -> None:
    """P6, P1: neither a victim, though older, nor a third one takes what was freed while the other victim is there."""
    w = two_victims()
    assert told(cycle(w, at(0))) == {"p": "PendingPreemption"}
    gone(w, "a")
    queues.create(w, pending("third", "y", 1, prio=9), at(5))
    assert told(cycle(w, at(10))) == {"third": "NoFit"}
    assert told(cycle(w, at(11))) == {"a": "NoFit"}
    assert told(cycle(w, at(12))) == {}
    gone(w, "b")
    assert told(cycle(w, at(20))) == {"p": "assumed", "third": "NoFit"}
    assert not w.claims


def test_a_claim_is_what_will_be_admitted() -> None:
    """The claimed count is admitted, though more would fit by then (as in the recorded loop M9)."""
    w = world(
        queue("x", 2, preemption=policy(reclaim="Any")),
        queue("y", 2),
        running("y1", "y", 2),
        running("y2", "y", 2),
        pending("p", "x", 1, count=4, minCount=1),
    )
    assert told(cycle(w, at(0))) == {"p": "PendingPreemption"}
    (claim,) = w.claims.values()
    claimed = claim.assignment.podsets[0].count
    (victim,) = claim.victims
    other = {"ns/y1", "ns/y2"} - {victim}
    between_cycles(w, [victim], [{"delete": sorted(other)}], at(5))
    assert told(cycle(w, at(10)))["p"] == "assumed"
    assert w.workloads["ns/p"]["status"]["admission"]["podSetAssignments"][0]["count"] == claimed == 2


def overlapping() -> World:
    """x's head p (2) and z's head q (2) both want t (4), which borrows everything."""
    reclaim = policy(reclaim="Any")
    return world(
        queue("x", 2, preemption=reclaim),
        queue("z", 2, preemption=reclaim),
        queue("y", 0),
        running("t", "y", 4),
        pending("p", "x", 2, created="08:00"),
        pending("q", "z", 2),
    )


def test_a_deferred_entry_claims_and_waits_for_all_victims_of_the_tree() -> None:  # S-5.11
    w = overlapping()
    result = cycle(w, at(0))
    assert told(result) == {"p": "PendingPreemption", "q": "PendingPreemption"}
    assert [e.mode for e in result.entries] == ["Preempt", "DeferredFit"]
    assert (victims(w, "p"), victims(w, "q")) == (["t"], ["t"])
    assert told(cycle(w, at(10))) == {}
    gone(w, "t")
    queues.create(w, pending("s", "y", 1, prio=9), at(15))
    assert told(cycle(w, at(20))) == {"p": "assumed", "q": "assumed", "s": "NoFit"}


def test_who_fits_only_as_it_will_be_is_deferred_in_a_later_cycle_too() -> None:  # S-5.7.9a
    w = overlapping()
    queues.delete(w, "ns/q")
    cycle(w, at(0))
    queues.create(w, pending("s", "y", 2), at(5))
    assert told(cycle(w, at(10))) == {"s": "PendingPreemption"}
    assert victims(w, "s") == ["t"]
    assert w.claims["ns/s"].expires_at == at(0) + GRACE + TIMEOUT  # by the eviction of t, not by its own making


def test_a_claimant_may_have_to_wait_on_for_what_others_wait_for() -> None:
    """Its own victim is gone; the rest that it needs is held by the victim of another. Its claim stays as it is."""
    w = world(
        queue("x", 5, preemption=policy(reclaim="Any")),
        queue("y", 5, preemption=policy(reclaim="Any")),
        queue("z", 0),
        running("big", "z", 6),
        running("small", "z", 3, prio=1),
        pending("p", "x", 3),
    )
    cycle(w, at(0))
    queues.create(w, pending("q", "y", 5), at(5))
    cycle(w, at(10))
    assert (victims(w, "p"), victims(w, "q")) == (["big"], ["small"])
    gone(w, "small")
    assert told(cycle(w, at(20)))["q"] == "PendingPreemption"
    claim = w.claims["ns/q"]
    assert (victims(w, "q"), claim.charged) == (["small"], set())
    assert (claim.issued_at, claim.expires_at) == (at(10), at(10) + GRACE + TIMEOUT)
    assert "q" not in told(cycle(w, at(30)))  # nothing has changed
    gone(w, "big")
    assert told(cycle(w, at(40))) == {"p": "assumed", "q": "assumed", "small": "NoFit"}


def test_p16_a_victim_that_runs_again_is_no_longer_waited_for() -> None:
    w = two_victims()
    cycle(w, at(0))
    gone(w, "a")
    w.workloads["ns/a"] = running("a", "y", 0)
    queues.leave(w, "ns/a")
    gone(w, "b")
    assert told(cycle(w, at(10)))["p"] == "assumed"


def test_strict_fifo_only_the_head_holds_a_claim() -> None:
    w = two_victims(queueingStrategy="StrictFIFO")
    cycle(w, at(0))
    queues.create(w, pending("h", "x", 4, prio=5), at(5))
    result = cycle(w, at(10))
    assert result.over == [("ns/p", "not head")]
    assert told(result) == {"h": "PendingPreemption"}
    assert (result.evicted, victims(w, "h")) == ([], ["a", "b"])


def test_best_effort_the_queue_goes_on_while_a_claimant_waits() -> None:  # S-4.9
    w = two_victims()
    queues.create(w, pending("huge", "x", 9, created="09:30"), NOON)
    assert told(cycle(w, at(0))) == {"p": "PendingPreemption"}
    assert told(cycle(w, at(1))) == {"huge": "NoFit"}


# claims 3: taking


def taking(taker_prio: int) -> tuple[World, Result]:
    """p waits for a and b when one of higher priority comes to p's own queue."""
    w = world(
        queue("x", 4, preemption=policy("LowerPriority", reclaim="Any")),
        queue("y", 0),
        running("a", "y", 2),
        running("b", "y", 2),
        pending("p", "x", 4),
    )
    cycle(w, at(0))
    queues.create(w, pending("h", "x", 3, prio=taker_prio), at(5))
    return w, cycle(w, at(10))


def test_a_claim_is_taken_by_whoever_could_preempt_the_claimant() -> None:
    w, result = taking(1)
    assert result.taken == [("ns/p", "ns/h", "InClusterQueue")]
    assert (result.evicted, sorted(victims(w, "h")), list(w.claims)) == ([], ["a", "b"], ["ns/h"])
    assert w.claims["ns/h"].issued_at == at(10)
    assert w.claims["ns/h"].expires_at == at(0) + GRACE + TIMEOUT
    assert claims.rounds_of(w, "ns/p").lost_to == "ns/h"
    assert told(cycle(w, at(20))) == {"p": "PreemptionNoCandidates"}  # the end of its claim woke it
    gone(w, "a", "b")
    assert told(cycle(w, at(30)))["h"] == "assumed"


def test_a_claim_is_not_taken_by_an_equal() -> None:
    w, result = taking(0)
    assert (result.taken, list(w.claims)) == ([], ["ns/p"])
    assert told(result) == {"h": "PreemptionNoCandidates"}


def test_a_victim_does_not_take_the_claim_it_made_way_for() -> None:
    """a may reclaim from p, which borrows; if a were not its victim, it would take p's claim."""
    low = policy(reclaim="LowerPriority", borrowWithinCohort={"policy": "LowerPriority"})
    objects = [
        *queue("x", 2, preemption=low),
        *queue("y", 1, preemption=policy(reclaim="Any")),
        *queue("z", 1),
        running("a", "y", 2, created="08:00"),
        running("b", "y", 2, created="08:01"),
        pending("p", "x", 4, prio=5),
    ]
    w = world(*objects)
    cycle(w, at(0))
    assert sorted(victims(w, "p")) == ["a", "b"]
    gone(w, "a")
    w.workloads["ns/a"]["spec"]["podSets"][0]["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "1"
    assert told(cycle(w, at(10))) == {"a": "PreemptionNoCandidates"}
    queues.create(w, pending("other", "y", 1, created="07:00"), at(15))  # of the same shape: the verdict was a's own
    assert cycle(w, at(20)).taken == [("ns/p", "ns/other", "InCohortReclamation")]


def test_a_claimant_that_rotated_counts_as_it_would_running() -> None:
    """Its queue time would be its creation again (S-4.3), so a younger equal does not take its claim."""
    w = world(queue("x", 2, None, preemption=policy("LowerOrNewerEqualPriority")), running("low", "x", 2, prio=-1))
    old = pending("old", "x", 2, created="07:00")
    facts.set_condition(old, "Preempted", True, "InClusterQueueTimeBased", at(-60))
    queues.create(w, old, at(0))
    assert told(cycle(w, at(0))) == {"old": "PendingPreemption"}
    queues.create(w, pending("young", "x", 2, created="09:00"), at(5))
    assert told(cycle(w, at(10))) == {"young": "PreemptionNoCandidates"}


# claims 4: ends


def test_p6_a_victim_that_never_goes_holds_nobody_for_ever() -> None:
    """P6: at its deadline the claim ends, is not made again on the same victims, and others have what is free."""
    w = two_victims()
    cycle(w, at(0))
    gone(w, "a")
    assert told(cycle(w, at(329))) == {"a": "NoFit"}
    result = cycle(w, at(330))
    assert result.over == [("ns/p", "expired")]
    assert told(result) == {"p": "PreemptionNoCandidates", "a": "assumed"}
    assert not w.claims
    gone(w, "b", now=at(400))
    assert told(cycle(w, at(400)))["p"] == "PendingPreemption"


def close_gate(w: World) -> None:
    w.workloads["ns/p"]["status"]["preemptionGates"] = [{"name": GATE, "state": "Closed"}]


def stop_queue(w: World) -> None:
    w.queues["x"]["stopPolicy"] = "Hold"


def drop_flavor(w: World) -> None:
    del w.flavors["f"]


def deactivate(w: World) -> None:
    w.workloads["ns/p"]["spec"]["active"] = False


def raise_priority(w: World) -> None:
    w.workloads["ns/p"]["spec"]["priority"] = 1


def reclaim_pods(w: World) -> None:
    w.workloads["ns/p"]["status"]["reclaimablePods"] = [{"name": "main", "count": 1}]


def lower_quota(w: World) -> None:
    w.queues["x"]["resourceGroups"][0]["flavors"][0]["resources"][0]["nominalQuota"] = 3


@pytest.mark.parametrize(
    ("happens", "why"),
    [
        (close_gate, "gate closed"),
        (stop_queue, "queue stopped"),
        (drop_flavor, "queue stopped"),
        (deactivate, "not queued"),
        (raise_priority, "changed"),
        (reclaim_pods, "changed"),
        (lower_quota, "does not fit"),
    ],
)
def test_what_ends_a_claim_wakes_the_tree(happens: Callable[[World], None], why: str) -> None:
    w = two_victims()
    w.workloads["ns/p"]["spec"]["preemptionGates"] = [{"name": GATE}]
    w.workloads["ns/p"]["status"] = {"preemptionGates": [{"name": GATE, "state": "Open"}]}
    queues.create(w, pending("c", "y", 1), NOON)
    cycle(w, at(0))
    assert (list(w.claims), w.parked["y"]) == (["ns/p"], {"ns/c"})
    happens(w)
    result = cycle(w, at(10))
    assert result.over == [("ns/p", why)]
    assert "c" in told(result) or why == "queue stopped"


def test_a_deleted_claimant_leaves_no_claim() -> None:
    w = two_victims()
    cycle(w, at(0))
    between_cycles(w, [], [{"delete": ["ns/p"], "create": [pending("p", "x", 1)]}], at(5))
    assert not w.claims


def test_a_restart_takes_claims_up_as_stored() -> None:  # S-10.13, S-3.11
    w = two_victims()
    cycle(w, at(0))
    gone(w, "a")
    before = w.claims["ns/p"]
    objects = {key: copy.deepcopy(wl) for key, wl in w.workloads.items()}
    objects["ns/p"]["status"]["preemptionClaim"] = claims.stored(w, before)
    again = world(queue("x", 4, preemption=policy(reclaim="Any")), queue("y", 0), *objects.values(), now=at(10))
    claims.take_up(again)
    after = again.claims["ns/p"]
    assert (after.assignment.usage, after.victims, after.charged) == (before.assignment.usage, before.victims, {"ns/b"})
    assert (after.issued_at, after.expires_at) == (before.issued_at, before.expires_at)
    assert again.sticky == {"x": "ns/p"}
    assert told(cycle(again, at(10))) == {"a": "NoFit"}
    gone(again, "b")
    assert told(cycle(again, at(20)))["p"] == "assumed"


# rounds


def borrowers(*others: Raw, within: str = "LowerPriority") -> World:
    """x owns nothing and borrows 4 by preempting lower priorities anywhere."""
    rule = policy(within, reclaim="LowerPriority", borrowWithinCohort={"policy": "LowerPriority"})
    return world(queue("x", 0, preemption=rule), queue("y", 0), queue("z", 4), *others)


def test_one_round_above_nominal_and_no_second() -> None:
    w = borrowers(running("v1", "y", 4), pending("p", "x", 4, prio=5))
    assert cycle(w, at(0)).evicted == ["ns/v1"]
    queues.delete(w, "ns/p")
    gone(w, "v1")
    assert told(cycle(w, at(10))) == {"v1": "assumed"}
    queues.create(w, pending("p", "x", 4, prio=5), at(15))  # recreated: the same by its name
    same_shape = pending("q", "x", 4, prio=5, created="09:30")
    queues.create(w, same_shape, at(15))
    assert told(cycle(w, at(20))) == {"p": "PreemptionNoCandidates"}
    assert cycle(w, at(30)).evicted == ["ns/v1"]  # q, whose shape does not share the verdict
    assert list(w.claims) == ["ns/q"]


def test_lower_priorities_of_the_own_queue_do_not_count() -> None:
    w = borrowers(running("v1", "y", 2), running("own", "x", 2), pending("p", "x", 4, prio=5))
    claims.rounds_of(w, "ns/p").above = 1
    assert told(cycle(w, at(0))) == {"p": "PreemptionNoCandidates"}
    w = borrowers(running("v1", "y", 2), running("own", "x", 2), pending("p", "x", 2, prio=5))
    claims.rounds_of(w, "ns/p").above = 1
    assert cycle(w, at(0)).evicted == ["ns/own"]
    assert claims.rounds_of(w, "ns/p").above == 1


def test_rounds_that_end_within_nominal_are_free_up_to_ten() -> None:
    for used, evicted in [(9, ["ns/a", "ns/b"]), (10, [])]:
        w = two_victims()
        rounds = claims.rounds_of(w, "ns/p")
        rounds.above, rounds.total = 1, used
        assert cycle(w, at(0)).evicted == evicted
        assert (rounds.above, rounds.total) == (1, 10)


def test_evictions_by_time_are_no_round() -> None:
    rule = policy("LowerOrNewerEqualPriority", withinClusterQueueConfig={"minAdmitDuration": "1m"})
    w = world(queue("x", 2, None, preemption=rule), running("a", "x", 2, created="08:00"), pending("p", "x", 2))
    claims.rounds_of(w, "ns/p").total = 10
    assert cycle(w, at(0)).evicted == ["ns/a"]
    assert claims.rounds_of(w, "ns/p").total == 10


def test_counts_end_with_the_one_that_took_the_place() -> None:
    w = two_victims()
    cycle(w, at(0))
    rounds = claims.rounds_of(w, "ns/a")
    assert rounds.lost_to == "ns/p"
    rounds.above, rounds.total = 1, 3
    queues.create(w, pending("somebody", "y", 1), at(5))
    queues.delete(w, "ns/somebody")
    assert (rounds.above, rounds.total) == (1, 3)
    queues.delete(w, "ns/p")
    assert (rounds.above, rounds.total) == (0, 0)


def test_counts_end_with_a_change_of_the_object() -> None:
    w = two_victims()
    claims.rounds_of(w, "ns/p").total = 10
    changed = copy.deepcopy(w.workloads["ns/p"])
    claims.change(w, changed, at(0))
    assert claims.rounds_of(w, "ns/p").total == 10
    changed = copy.deepcopy(changed)
    changed["spec"]["priority"] = 1
    claims.change(w, changed, at(0))
    assert claims.rounds_of(w, "ns/p").total == 0


def test_no_rounds_left_does_not_bar_from_the_own_quota() -> None:
    """f1 could only be borrowed by a second round; of f2, which x owns, a lower one of x may be evicted freely.

    Were the rounds only checked once the flavor is chosen, f1 would win (reclaim before preempt) and nothing follow.
    """
    rule = policy("LowerPriority", reclaim="Any", borrowWithinCohort={"policy": "LowerPriority"})
    w = world(
        queue("x", {"f1": 0, "f2": 4}, preemption=rule),
        queue("y", {"f1": 0}),
        queue("z", {"f1": 4}),
        running("theirs", "y", 4, flavor="f1"),
        running("ours", "x", 4, flavor="f2"),
        pending("p", "x", 4, prio=5),
    )
    fresh = w.copy()
    assert cycle(fresh, at(0)).evicted == ["ns/theirs"]
    claims.rounds_of(w, "ns/p").above = 1
    assert cycle(w, at(0)).evicted == ["ns/ours"]


# what is promised of all


def undisturbed(seed: int, latest: int) -> Raw:
    """A quarrel of many cycles without rotation by time; no victim takes more than ``latest`` cycles to leave."""
    scenario = contended(seed, 240)
    for raw in scenario["objects"]:
        if raw["kind"] == "ClusterQueue":
            raw["spec"]["preemption"].pop("withinClusterQueueConfig", None)
    leaving = {key: [min(cycles, latest) for cycles in late] for key, late in scenario["leaving"].items()}
    return scenario | {"stepMillis": 10 * SECOND, "leaving": leaving}


def until_at_rest(scenario: Raw, quiet: int) -> tuple[World, Counter[str]]:
    """Run until nothing has happened for so many cycles; return the world, and how often each workload was evicted."""
    evictions: Counter[str] = Counter()
    busy = 0
    for number, (w, result, _) in enumerate(cycles_of(scenario, "default"), start=1):
        evictions.update(result.evicted)
        busy = number if result.entries or result.over or w.claims else busy
        if number - busy >= quiet:
            return w, evictions
    raise AssertionError(f"not at rest; last evicted: {evictions}")


@pytest.mark.property
def test_every_quarrel_settles(fuzz_seed: int, fuzz_inputs: int, in_time: InTime) -> None:
    """Without events from outside preemption ends, by one round above nominal and without the limit of rounds."""
    for seed in in_time(range(fuzz_seed, fuzz_seed + fuzz_inputs // INPUTS_PER_SCENARIO)):
        w, _ = until_at_rest(undisturbed(seed, 4), quiet=6)
        assert all(r.above <= 1 and r.total < 10 for r in w.rounds.values()), f"seed {seed}"


def test_victims_that_outlive_every_claim_are_left_to_the_circuit_breaker() -> None:
    """Whenever p's claim expires p turns to the other one, and the first comes back; p's rounds are within nominal."""
    objects = [
        NAMESPACE,
        *flavors("f1", "f2"),
        *queue("x", {"f1": 2, "f2": 2}, preemption=policy(reclaim="Any")),
        *queue("y", {"f1": 0, "f2": 0}),
        running("u1", "y", 2, flavor="f1"),
        running("u2", "y", 2, flavor="f2"),
        pending("p", "x", 2),
    ]
    slow = {"ns/u1": [40], "ns/u2": [40]}  # 400 s; a claim on one of them lasts 330 s
    scenario = {"now": "2024-01-01T12:00:00Z", "objects": objects, "cycles": 600, "leaving": slow}
    w, evictions = until_at_rest(scenario, quiet=60)
    assert claims.rounds_of(w, "ns/p").total == 10
    assert evictions == {"ns/u1": 5, "ns/u2": 5}
    assert facts.is_true(w.workloads["ns/p"], "QuotaReserved")


@pytest.mark.property
def test_no_admission_exceeds_quota_and_no_claim_its_deadline(
    fuzz_seed: int, fuzz_inputs: int, in_time: InTime
) -> None:
    for seed in in_time(range(fuzz_seed, fuzz_seed + fuzz_inputs // INPUTS_PER_SCENARIO)):
        for w, result, now in cycles_of(contended(seed), "default"):
            tree = snapshot(w, now)
            for key in result.reserved:
                held = tree.holders[key]
                free = {fr: available(tree, queue_node(held.queue), fr) for fr, v in held.usage.items() if v > 0}
                assert min(free.values(), default=0) >= 0, f"seed {seed}: {key}"
            for claim in w.claims.values():
                assert now < claim.expires_at, f"seed {seed}: {claim.workload}"
                assert claim.victims, f"seed {seed}: {claim.workload}"


def parts_shown(seed: int) -> set[str]:
    seen: set[str] = set()
    for story in play(contended(seed), "default"):
        seen |= {part for part in ("taken", "claims", "evicted") if story[part]}
        seen |= {str(entry["mode"]) for entry in story["entries"]}
        seen |= {str(entry["requeueReason"]) for entry in story["entries"]}
        seen |= {why for _, why in story["claimsOver"]}
    return seen


@pytest.mark.slow
def test_quarrels_show_every_part_of_the_rules() -> None:
    """Otherwise the comparisons that draw them compare nothing."""
    missing = {"taken", "claims", "evicted", "DeferredFit", "PreemptionGated", "expired", "not head"}
    for seed in range(800):
        missing -= parts_shown(seed)
        if not missing:
            return
    pytest.fail(f"never seen: {missing}")


def test_the_gates_off_there_are_neither_claims_nor_rounds() -> None:
    for seed in range(20):
        scenario = contended(seed)
        scenario["featureGates"] |= {"PreemptionClaims": False, "PreemptionEpochs": False}
        assert not any(c["claims"] or c["taken"] or c["claimsOver"] for c in play(scenario, "default"))
    parity = make_settings("parity").gates
    assert (parity["PreemptionClaims"], parity["PreemptionEpochs"]) == (False, False)
