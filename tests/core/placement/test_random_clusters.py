"""Random clusters: the promises of placement, one by one, and the same facts from a plain reading of the rules."""

from __future__ import annotations

import random

import pytest

from makeway.core.placement.cluster.state import ClusterState
from makeway.core.placement.model import Cluster, ForPod, PlacementAnswer
from makeway.core.placement.preemption.decision import decide
from makeway.testing.clusters import PlacementCase, scene
from makeway.testing.placement_checker import CheckedCluster, check
from tests.model.placement import expected
from tests.soaking import InTime

INPUTS_PER_CLUSTER = 6  # so 333 of them in a run of all tests, 3,333 in a soak


def permuted(cluster: Cluster, dice: random.Random) -> Cluster:
    return Cluster(
        nodes=tuple(dice.sample(cluster.nodes, len(cluster.nodes))),
        pods=tuple(dice.sample(cluster.pods, len(cluster.pods))),
        workloads=tuple(dice.sample(cluster.workloads, len(cluster.workloads))),
        budgets=tuple(dice.sample(cluster.budgets, len(cluster.budgets))),
        namespaces=cluster.namespaces,
    )


def holds_the_rules(seed: int, case: PlacementCase, answer: PlacementAnswer) -> None:
    assert check(case.cluster, case.preemptor, answer) == [], seed


def is_no_preempting_back(seed: int, case: PlacementCase, answer: PlacementAnswer) -> None:
    ground = CheckedCluster(case.cluster)
    safe = min(map(ground.victim_priority, ground.members(case.preemptor)))
    for key in answer.victims:
        assert ground.priority(ground.pods[key]) < safe, (seed, key)


def is_what_the_rules_say(seed: int, case: PlacementCase, thorough: PlacementAnswer, literal: PlacementAnswer) -> None:
    plain = expected(case.cluster, case.preemptor)
    if plain.needed and plain.feasible and not literal.needed:  # a place without evictions (S-15.4.9)
        assert literal.feasible, seed
        assert not isinstance(case.preemptor, ForPod), seed
        return
    assert (literal.needed, literal.feasible, literal.reason) == (plain.needed, plain.feasible, plain.reason), seed
    if not plain.needed:
        assert dict(literal.nominated) == plain.places, seed
    if isinstance(case.preemptor, ForPod):
        for answer in (thorough, literal):
            assert (answer.victims, answer.candidates) == (plain.victims, plain.candidates), seed
            if plain.feasible:
                assert dict(answer.nominated) == plain.places, seed
    elif plain.needed and plain.feasible and plain.n is not None and case.is_plain:
        assert literal.n == plain.n, seed
        assert thorough.n == plain.n, seed
    assert thorough.feasible >= literal.feasible, seed
    assert thorough.needed <= literal.needed, seed


@pytest.mark.property
@pytest.mark.slow
def test_random_clusters_are_decided_as_the_rules_say(fuzz_inputs: int, fuzz_seed: int, in_time: InTime) -> None:
    for number in in_time(range(fuzz_inputs // INPUTS_PER_CLUSTER)):
        seed = fuzz_seed * 1_000_003 + number
        case = scene(seed)
        state = ClusterState.of(case.cluster)
        before = state.fingerprint()
        answer = decide(state, case.preemptor)
        assert state.fingerprint() == before, seed
        holds_the_rules(seed, case, answer)
        is_no_preempting_back(seed, case, answer)
        shuffled = permuted(case.cluster, random.Random(seed))
        assert decide(ClusterState.of(shuffled), case.preemptor) == answer, seed
        literal = decide(ClusterState.of(case.cluster, thorough=False), case.preemptor)
        holds_the_rules(seed, case, literal)
        is_what_the_rules_say(seed, case, answer, literal)


def test_random_clusters_are_of_every_sort() -> None:
    """What is tried is what is promised: every outcome, both preemptors, alike and unlike, with budgets that bind."""
    cases = [scene(seed) for seed in range(120)]
    answers = [decide(ClusterState.of(each.cluster), each.preemptor) for each in cases]
    outcomes = {(isinstance(c.preemptor, ForPod), a.needed, a.feasible) for c, a in zip(cases, answers, strict=True)}
    assert len(outcomes) == 6, outcomes
    assert any(each.violations for each in answers)
    assert any(not each.is_plain for each in cases)
    for about in ("pod_affinity", "anti_affinity", "spread"):
        asking = [any(getattr(pod, about) for pod in each.cluster.pods if pod.node is None) for each in cases]
        found = {a.feasible for a, asks in zip(answers, asking, strict=True) if asks}
        assert found == {True, False}, about
    assert max(len(each.cluster.nodes) for each in cases) == 40
    assert max(len(each.cluster.pods) for each in cases) > 150
