"""Places for gangs (S-15.2): vectors against one after another, unlike members, nominations, minCount."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

from makeway.core.model import Expression, Taint, Toleration
from makeway.core.placement.cluster.state import ClusterState, Scoring
from makeway.core.placement.fit import count_placed, largest_first, one_by_one, place_equals, place_gang, place_one
from makeway.core.placement.model import AffinityTerm, Cluster, Pod, Spread
from makeway.core.placement.packing import pack_exactly
from makeway.core.placement.snapshot import NOT_PLACED, NodeSnapshot
from tests.core.placement.scene import HIGH, HOST, cluster, gang, node, nodes, pod, random_cluster, workload
from tests.soaking import InTime

ANY = Toleration("k", "Exists")
APART = (AffinityTerm((Expression("app", "In", ("a",)),), HOST),)


def room_for(world: Cluster, *, scoring: Scoring = "Spread", thorough: bool = True) -> NodeSnapshot:
    state = ClusterState.of(world, scoring=scoring, thorough=thorough)
    members = sorted((each for each in world.pods if each.node is None), key=lambda each: (each.arrived, each.key))
    return NodeSnapshot(state, members, HIGH)


def places(snapshot: NodeSnapshot, need: int) -> list[str] | None:
    places = place_gang(snapshot, need)
    return None if places is None else [snapshot.state.nodes[at].name if at != NOT_PLACED else "-" for at in places]


@pytest.mark.property
@pytest.mark.parametrize("scoring", ["Spread", "Pack"])
def test_equals_placed_at_once_sit_where_one_after_another_would(
    scoring: Scoring, fuzz_inputs: int, fuzz_seed: int, in_time: InTime
) -> None:
    for seed in in_time(range(fuzz_seed, fuzz_seed + max(1, fuzz_inputs // 20))):
        dice = random.Random(seed)
        world = random_cluster(dice)
        count, like = dice.randint(2, 12), gang(1, dice.randint(0, 3))[0]
        state = ClusterState.of(world, scoring=scoring)
        members = [replace(like, key=("d", f"x{i}")) for i in range(count)]
        at_once, singly = NodeSnapshot(state, members, HIGH), NodeSnapshot(state, members, HIGH)
        found = place_equals(at_once, at_once.kinds[0], count)
        places = [at for _ in members if (at := place_one(singly, singly.kinds[0])) != NOT_PLACED]
        assert found == places, f"seed {seed}"
        assert np.array_equal(at_once.free, singly.free), f"seed {seed}"


@pytest.mark.parametrize(
    ("scoring", "want"), [("Spread", ["n1", "n0", "n1"]), ("Pack", ["n0", "n0", "n0"])], ids=["spread", "pack"]
)
def test_s15_2_3_highest_score_wins_and_of_equals_the_first_name(scoring: Scoring, want: list[str]) -> None:
    world = cluster([node("n1", 4), node("n0", 4)], [pod("v", 1, "n0"), *gang(3)])
    assert places(room_for(world, scoring=scoring), 3) == want


def test_s15_2_4_nominated_nodes_come_first_while_they_are_valid() -> None:
    world = cluster(nodes(3), [pod("v", 4, "n2"), *gang(3, 4, nominated=["n1", "n2"])[:2]])
    assert places(room_for(world), 1) == ["n1", "n0"]


def test_s15_2_4_a_pod_without_a_node_is_skipped_and_all_are_tried() -> None:
    world = cluster(nodes(2, 2), [pod("pre-0", 50, of="pre"), *[replace(p, arrived=9) for p in gang(3, 2)[1:]]])
    assert places(room_for(world), 2) == ["-", "n0", "n1"]
    assert places(room_for(world), 3) is None


def unlike(*cpus: int) -> list[Pod]:
    return [pod(f"pre-{i}", cpu, of="pre", arrived=i) for i, cpu in enumerate(cpus)]


def test_s15_2_4_unlike_members_are_tried_again_the_largest_first() -> None:
    """By score the small one would take the only node for the large one."""
    world = cluster([node("n0", 4), node("n1", 2)], unlike(2, 4))
    snapshot = room_for(world, thorough=False)
    assert places(snapshot, 2) == ["n1", "n0"]


def test_a_thorough_state_finds_a_packing_that_passes_by_rule_miss() -> None:
    """9 = 5+2+2 and 6 = 3+3: the largest first on the fullest node puts 5 where both of 3 must go."""
    world = cluster([node("n0", 9), node("n1", 6)], unlike(2, 2, 3, 3, 5))
    assert places(room_for(world, thorough=False), 5) is None
    found = places(room_for(world), 5)
    assert found is not None
    assert sorted(found) == ["n0", "n0", "n0", "n1", "n1"]


@pytest.mark.property
def test_a_packing_that_is_found_holds_and_a_pass_never_beats_the_search(
    fuzz_inputs: int, fuzz_seed: int, in_time: InTime
) -> None:
    for seed in in_time(range(fuzz_seed, fuzz_seed + max(1, fuzz_inputs // 20))):
        dice = random.Random(seed)
        machines = [node(f"n{i}", dice.randint(3, 9)) for i in range(dice.randint(1, 4))]
        snapshot = room_for(cluster(machines, unlike(*(dice.randint(1, 5) for _ in range(dice.randint(2, 6))))))
        order, before = largest_first(snapshot), snapshot.save()
        need = dice.randint(1, len(snapshot.members))
        found = pack_exactly(snapshot, order, need)
        if found is None:
            assert count_placed(one_by_one(snapshot, order, pack=True)) < need, f"seed {seed}"
            continue
        assert count_placed(found) >= need
        for i, at in enumerate(found):
            if at != NOT_PLACED:
                assert snapshot.valid_at(snapshot.kind_of[i], at), f"seed {seed}"
                snapshot.occupy(snapshot.kind_of[i], at)
        snapshot.load(before)


@pytest.mark.parametrize(
    ("machine", "asks", "fits"),
    [
        (node("n0"), {}, True),
        (replace(node("n0"), unschedulable=True), {}, False),
        (replace(node("n0"), taints=(Taint("k", "v", "NoSchedule"),)), {}, False),
        (replace(node("n0"), taints=(Taint("k", "v", "NoExecute"),)), {}, False),
        (replace(node("n0"), taints=(Taint("k", "v", "PreferNoSchedule"),)), {}, True),
        (replace(node("n0"), taints=(Taint("k", "v", "NoSchedule"),)), {"tolerations": (ANY,)}, True),
        (node("n0"), {"node_selector": {HOST: "n0"}}, True),
        (node("n0"), {"node_selector": {"pool": "b"}}, False),
        (node("n0"), {"affinity": ((Expression("pool", "Exists"),), (Expression(HOST, "In", ("n0",)),))}, True),
        (node("n0"), {"affinity": ((Expression("pool", "Exists"),),)}, False),
        (node("n0"), {"requests": {"gpu": 1}}, False),
        (node("n0"), {"requests": {"gpu": 0}}, True),
        (node("n0", gpu=1), {"requests": {"gpu": 1}}, True),
        (node("n0", pods=0), {}, False),
        (replace(node("n0"), allocatable={"cpu": 4}), {}, False),
    ],
)  # fmt: skip
def test_s15_2_2_which_nodes_a_pod_may_use(machine: object, asks: dict[str, object], fits: bool) -> None:
    member = replace(gang(1)[0], **asks)  # type: ignore[arg-type]
    assert (places(room_for(cluster([machine], [member])), 1) is not None) == fits  # type: ignore[list-item]


def test_s15_2_2_a_resource_that_is_not_asked_for_is_not_compared() -> None:
    over = cluster([node("n0", 1, gpu=1)], [pod("v", 5, "n0"), replace(gang(1)[0], requests={"gpu": 1})])
    assert places(room_for(over), 1) == ["n0"]


def test_s15_2_2_host_ports_are_held_by_one_pod_of_a_node() -> None:
    holder = replace(pod("v", 1, "n0"), ports=frozenset({("TCP", 80)}))
    members = [replace(each, ports=frozenset({("TCP", 80)})) for each in gang(3)]
    assert places(room_for(cluster(nodes(3), [holder, *members])), 2) == ["n1", "n2", "-"]
    other = [replace(each, ports=frozenset({("UDP", 80)})) for each in gang(1)]
    assert places(room_for(cluster(nodes(1), [holder, *other])), 1) == ["n0"]


def test_s15_2_2_who_was_promised_a_node_stands_there_unless_less_important() -> None:
    for priority, want in ((HIGH, "n1"), (HIGH - 1, "n0")):
        promised = pod("q", 4, priority=priority, nominated="n0")
        state = ClusterState.of(cluster([node("n0", 4), node("n1", 2)], [promised, *gang(1)], [workload("pre", HIGH)]))
        snapshot = NodeSnapshot(state, [state.pods[("d", "pre-0")]], HIGH)
        assert places(snapshot, 1) == [want]


def test_s15_2_6_pods_that_keep_apart_do_so_both_ways_and_among_themselves() -> None:
    repelling = [replace(each, labels={"app": "a"}, anti_affinity=APART) for each in gang(4)]
    standing = pod("v", 1, "n0", labels={"app": "a"})
    assert places(room_for(cluster(nodes(3), [standing, *repelling])), 2) == ["n1", "n2", "-", "-"]
    keeper = pod("v", 1, "n0", anti_affinity=APART)
    marked = [replace(each, labels={"app": "a"}) for each in gang(3)]
    assert places(room_for(cluster(nodes(2), [keeper, *marked])), 3) == ["n1", "n1", "n1"]


@pytest.mark.parametrize(
    ("skew", "least", "want"), [(1, 1, 3), (2, 1, 4), (1, 3, 2)], ids=["one", "two", "too few domains"]
)
def test_s15_2_6_a_spread_keeps_domains_even(skew: int, least: int, want: int) -> None:
    spread = (Spread(skew, "zone", (Expression("app", "In", ("a",)),), least),)
    machines = [node("n0", 1, labels={"zone": "x"}), node("n1", 9, labels={"zone": "y"}), node("n2", 9)]
    members = [replace(each, labels={"app": "a"}, spread=spread) for each in gang(6)]
    places = place_gang(room_for(cluster(machines, members)), 1)
    assert places is not None
    assert count_placed(places) == want


# --- what a pod would rather have ---


def test_pods_that_ask_for_nothing_are_spread_by_their_number() -> None:
    """Otherwise all of them would go to the node with the first name, or the emptiest."""
    world = cluster([node("n0", 8), node("n1", 4)], [pod("v", 1, "n1"), *gang(5, 0)])
    assert places(room_for(world), 5) == ["n0", "n0", "n1", "n0", "n1"]


def test_pods_that_ask_for_nothing_are_packed_where_that_is_the_policy() -> None:
    world = cluster(nodes(2), [pod("v", 1, "n1"), *gang(3, 0)])
    assert places(room_for(world, scoring="Pack"), 3) == ["n1", "n1", "n1"]


def wishing(count: int, *wishes: tuple[int, str]) -> list[Pod]:
    """Pods that prefer the nodes of these names, with a weight each."""
    preferred = tuple((weight, (Expression(HOST, "In", (name,)),)) for weight, name in wishes)
    return [replace(each, preferred=preferred) for each in gang(count)]


def test_a_preferred_node_goes_before_the_score_as_long_as_it_has_room() -> None:
    world = cluster([node("n0", 9), node("n1", 2), node("n2", 2)], wishing(6, (1, "n1"), (50, "n2")))
    assert places(room_for(world), 6) == ["n2", "n2", "n1", "n1", "n0", "n0"]


def test_a_taint_that_only_asks_to_stay_away_is_heeded_while_there_is_another_node() -> None:
    shy = replace(node("n0", 9), taints=(Taint("k", "v", "PreferNoSchedule"),))
    assert places(room_for(cluster([shy, node("n1", 2)], gang(3))), 3) == ["n1", "n1", "n0"]
    tolerant = [replace(each, tolerations=(ANY,)) for each in gang(1)]
    assert places(room_for(cluster([shy, node("n1", 2)], tolerant)), 1) == ["n0"]
    eager = wishing(1, (60, "n0"), (60, "n0"))
    assert places(room_for(cluster([shy, node("n1", 2)], eager)), 1) == ["n0"], "two wishes outweigh one taint"


def test_a_wish_never_costs_a_gang_its_place() -> None:
    """In queue order the small one would take the large one's only node; the pass that packs ignores preferences."""
    small, large = replace(wishing(1, (100, "n1"))[0], key=("d", "s")), pod("l", 4, of="pre", arrived=1)
    assert places(room_for(cluster([node("n0", 1), node("n1", 4)], [small, large])), 2) == ["n0", "n1"]
