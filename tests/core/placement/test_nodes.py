"""The live state of placement: updated step by step it equals one built anew, and a trial leaves no mark."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

from makeway.core.model import InvariantError
from makeway.core.placement.cluster.arrays import MOST_AMOUNT
from makeway.core.placement.cluster.pods import Ranks
from makeway.core.placement.cluster.state import ClusterState
from makeway.core.placement.model import Namespace
from tests.core.placement.scene import budget, cluster, node, nodes, pod, random_cluster, random_pod, workload
from tests.soaking import InTime


def change(state: ClusterState, dice: random.Random) -> None:
    """One of the changes that a cluster sees."""
    running = [key for key, each in state.pods.items() if each.node is not None]
    waiting = [key for key, each in state.pods.items() if each.node is None]
    match dice.randrange(10):
        case 0:
            state.add_node(node(f"n{dice.randrange(12)}", dice.choice([4, 8]), gpu=dice.randrange(3)))
        case 1 if state.nodes:
            state.remove_node(dice.choice(state.nodes).name)
        case 2:
            made = random_pod(dice, f"v{dice.randrange(40)}", dice.choice(["", "w0-r", "w1"]))
            state.add_pod(replace(made, node=dice.choice([None, "n1", "n5"]), ports=frozenset({("TCP", 80)})))
        case 3 if running:
            state.remove_pod(dice.choice(sorted(running)))
        case 4 if waiting:
            state.bind(dice.choice(sorted(waiting)), "n1")
        case 5:
            name = f"w{dice.randrange(3)}"
            state.set_workload(("d", name), workload(name, dice.randrange(30), whole=dice.random() < 0.5))
        case 6:
            state.set_workload(("d", f"w{dice.randrange(3)}"), None)
        case 7:
            state.set_namespace(f"s{dice.randrange(3)}", {"team": dice.choice("xy")})
        case 8:
            state.set_namespace(f"s{dice.randrange(3)}", None)
        case _:
            guard = budget(dice.randrange(3), dice.choice("ab"))
            state.set_budget((guard.namespace, guard.name), guard)


@pytest.mark.property
def test_kept_incrementally_it_is_as_if_built_anew_and_trials_leave_no_mark(
    fuzz_inputs: int, fuzz_seed: int, in_time: InTime
) -> None:
    for seed in in_time(range(fuzz_seed, fuzz_seed + max(1, fuzz_inputs // 50))):
        dice = random.Random(seed)
        state = ClusterState.of(random_cluster(dice))
        for _ in range(dice.randint(1, 12)):
            change(state, dice)
        before = state.fingerprint()
        with state.trial():
            for _ in range(dice.randint(1, 8)):
                change(state, dice)
            with state.trial():
                change(state, dice)
        assert state.fingerprint() == before, f"seed {seed}"
        whole = cluster(state.nodes, state.pods.values(), state.gangs.workloads.values(), state.budgets)
        anew = ClusterState.of(replace(whole, namespaces=tuple(Namespace(*each) for each in state.namespaces.items())))
        assert anew.fingerprint() == before, f"seed {seed}"


def test_ranks_compare_like_the_names_they_stand_for_also_when_there_is_no_gap_left() -> None:
    ranks, dice = Ranks(), random.Random(3)
    everyone = [(f"{i:03}", ("d", "p")) for i in range(300)]
    anew = False
    for who in [*everyone[::2], *sorted(everyone[1::2], reverse=True)]:
        anew = ranks.enter(who)[1] or anew
    close = [("150" + "0" * i, ("d", "p")) for i in range(1, 40)]
    for who in sorted(close, reverse=True):
        anew = ranks.enter(who)[1] or anew
    assert anew
    for who in dice.sample(everyone, 100):
        ranks.leave(who)
        everyone.remove(who)
    numbers = [ranks.of(who) for who in sorted([*everyone, *close])]
    assert numbers == sorted(set(numbers))


def test_amounts_beyond_all_bounds_never_wrap() -> None:
    huge = 2**63 - 1
    many = [pod(f"v{i}", huge, "n0") for i in range(1000)]
    state = ClusterState.of(cluster([node("n0", huge)], many))
    assert state.nodes.requested[state.nodes.columns["cpu"]].tolist() == [1000 * MOST_AMOUNT]
    for each in many:
        state.remove_pod(each.key)
    assert not np.any(state.nodes.requested)


def test_a_pod_on_a_node_that_is_gone_runs_and_holds_no_room() -> None:
    state = ClusterState.of(cluster(nodes(2), [pod("v", 3, "n1")]))
    state.remove_node("n1")
    assert not np.any(state.nodes.requested)
    state.add_node(node("n1"))
    assert state.nodes.requested[1].tolist() == [0, 3]


def test_nobody_is_bound_twice() -> None:
    state = ClusterState.of(cluster(nodes(1), [pod("v", 3, "n0")]))
    with pytest.raises(InvariantError, match="bound twice"):
        state.bind(("d", "v"), "n0")
