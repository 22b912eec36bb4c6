"""A pod that waits for a node is retried after a change that could help it, and not for every pod that comes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from makeway.api.objects.kubernetes import Namespace
from makeway.api.versions import kind_of
from makeway.controllers.pods.queue import NET_MS
from makeway.controllers.pods.scheduling import PodScheduling
from makeway.core.model import Millis
from tests.controllers.pod_world import NODES, PODS, PodWorld, Tree, node
from tests.controllers.pods.test_gangs import GANGS, gang, members, ranks
from tests.controllers.pods.test_scheduling import node_of, pod
from tests.controllers.relation_world import REQUIRED, REST_MS, RelationWorld
from tests.soaking import InTime

WORLDS = 200
EVENTS = 10
MISSED = "makeway_pod_wakeups_missed_total"


@pytest.mark.property
@pytest.mark.slow
def test_nobody_is_left_waiting_who_would_be_placed_afresh(
    fuzz_inputs: int, fuzz_seed: int, in_time: InTime
) -> None:  # fmt: skip
    helped: Counter[str] = Counter()
    for number in in_time(range(max(WORLDS, fuzz_inputs // 10))):
        seed = fuzz_seed * 1_000_003 + number
        world = RelationWorld(seed)
        world.driver.run(Millis(world.clock.now + REST_MS))
        assert list(world.forgotten()) == [], f"seed {seed}, at the beginning"
        for _ in range(EVENTS):
            event = world.happen()
            assert list(world.forgotten()) == [], f"seed {seed}, after {event}"
        assert world.scheduling.missed == 0, f"seed {seed}"
        helped.update(world.bound_after)
    if not in_time.was_cut:
        assert len(helped) >= 10, helped  # most kinds of events have helped a waiting pod


# --- one by one ------------------------------------------------------------------------------------------------------


def term(app: str, key: str = "zone", **more: Any) -> Tree:
    return {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": key, **more}


def beside(*terms: Tree) -> Tree:
    return {"affinity": {"podAffinity": {REQUIRED: list(terms)}}}


def apart(*terms: Tree) -> Tree:
    return {"affinity": {"podAntiAffinity": {REQUIRED: list(terms)}}}


def spread(app: str, key: str = "zone") -> Tree:
    even = {"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule"}
    return {"topologySpreadConstraints": [{**even, "labelSelector": {"matchLabels": {"app": app}}}]}


def of_app(app: str, name: str, namespace: str = "default", **spec: Any) -> Tree:
    found = pod(name, **spec)
    found["metadata"] |= {"labels": {"app": app}, "namespace": namespace}
    return found


def two_zones(**more: str) -> PodWorld:
    return PodWorld(*(node(name, "4", {"zone": name}) for name in "ab"), node("c", more.get("c", "4"), {"zone": "c"}))


def decisions(play: PodWorld) -> int:
    return scheduling(play).decisions


def scheduling(play: PodWorld) -> PodScheduling:
    (found,) = (each for each in play.controllers if isinstance(each, PodScheduling))
    return found


def relabel(play: PodWorld, name: str, app: str) -> None:
    play.store.patch(PODS, "default", name, {"metadata": {"labels": {"app": app}}})


def add_namespace(play: PodWorld, name: str, team: str) -> None:
    play.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {"team": team}}})


def promised(play: PodWorld, *names: str) -> list[str]:
    statuses = [play.store.get(PODS, "default", name).tree()["status"] for name in names]
    return [each.get("nominatedNodeName", "") for each in statuses]


Change = Callable[[PodWorld], None]


def arrives_in_b(play: PodWorld) -> None:
    play.create(of_app("db", "db", nodeName="b"))


def becomes_db(play: PodWorld) -> None:
    relabel(play, "plain", "db")


def no_longer_web(play: PodWorld) -> None:
    relabel(play, "w-b", "other")


def nodes_of_zone_go(play: PodWorld) -> None:
    play.store.delete(NODES, "", "c")


def arrives_in_c(play: PodWorld) -> None:
    play.create(of_app("web", "late", nodeName="c"))


def joins_the_team(play: PodWorld) -> None:
    play.store.patch(kind_of(Namespace), "", "data", {"metadata": {"labels": {"team": "x"}}})


@pytest.mark.parametrize(
    ("asks", "change"),
    [
        (beside(term("db")), arrives_in_b),
        (beside(term("db")), becomes_db),
        (beside(term("db", namespaceSelector={"matchLabels": {"team": "x"}})), joins_the_team),
        (apart(term("web")), no_longer_web),
        (spread("web"), arrives_in_c),
        (spread("web"), nodes_of_zone_go),
    ],
)
def test_what_happens_in_another_domain_helps(asks: Tree, change: Change) -> None:
    """Zone c has no room; a and b have a web pod each."""
    play = two_zones(c="0")
    add_namespace(play, "data", "y")
    play.create(*(of_app("web", f"w-{zone}", nodeName=zone) for zone in "ab"), of_app("plain", "plain", nodeName="a"))
    play.create(of_app("db", "db", "data", nodeName="a"))
    play.settle()
    play.create(of_app("web", "new", **asks))
    play.settle()
    assert node_of(play, "new") == ""
    change(play)
    play.settle()
    assert node_of(play, "new") != ""


def test_one_who_keeps_others_away_and_is_labelled_otherwise_itself_or_leaves() -> None:
    play = two_zones()
    for zone in "abc":
        play.create(of_app("jealous", f"j-{zone}", nodeName=zone, **apart(term("web"))))
    play.create(of_app("web", "w0"), of_app("web", "w1"))
    play.settle()
    assert (node_of(play, "w0"), node_of(play, "w1")) == ("", "")
    play.store.delete(PODS, "default", "j-b", grace=0)
    play.settle()
    assert {node_of(play, "w0"), node_of(play, "w1")} == {"b"}


def test_a_nominated_pod_that_gets_less_important_holds_nothing_any_more() -> None:
    play = PodWorld(node("a", "2"))
    play.create(*ranks(high=10, mid=5, low=1))
    play.create(pod("old", "2", priorityClassName="low", terminationGracePeriodSeconds=3000))
    play.settle()
    play.create(gang("first", 1, rank="high"), *members("first", 1, "2"))
    play.settle()
    play.create(pod("mid", priorityClassName="mid"))
    play.settle()
    assert promised(play, "first-0", "mid") == ["a", ""]
    stored = play.store.get(GANGS, "default", "first").tree()
    play.store.update_status({**stored, "status": {**stored["status"], "priority": 2, "preemptionPriority": 2}})
    play.settle()
    assert promised(play, "first-0", "mid") == ["", "a"]  # it could keep its promise, but the other comes first now


def test_a_promise_that_is_cleared_by_hand_is_made_again() -> None:
    play = PodWorld(node("a", "2"))
    play.create(*ranks(high=10, low=1))
    play.create(pod("old", "2", priorityClassName="low", terminationGracePeriodSeconds=3000))
    play.settle()
    play.create(pod("new", "2", priorityClassName="high"))
    play.settle()
    tree = play.store.get(PODS, "default", "new").tree()
    assert promised(play, "new") == ["a"]
    play.store.update_status({**tree, "status": {**tree["status"], "nominatedNodeName": ""}})
    play.settle()
    assert promised(play, "new") == ["a"]


def test_who_loses_a_promise_to_a_more_important_one_may_have_a_place_beside_it() -> None:
    play = PodWorld(node("a", "3"))
    play.create(*ranks(high=10, mid=5, low=1))
    play.create(pod("old", "3", priorityClassName="low", terminationGracePeriodSeconds=3000))
    play.settle()
    for rank in ("mid", "high"):
        play.create(pod(rank, priorityClassName=rank))
        play.settle()
    assert promised(play, "mid", "high") == ["a", "a"]


@pytest.mark.parametrize(
    ("asks", "intruder", "at"),
    [
        ({}, of_app("odd", "intruder", cpu="2", priorityClassName="high"), "a"),  # it takes the room
        (apart(term("odd")), of_app("odd", "intruder", cpu="0", priorityClassName="high"), "a2"),  # in the same zone
        (
            {}, of_app("odd", "intruder", cpu="0", priorityClassName="high", **apart(term("web"))), "a2",
        ),
    ],
)  # fmt: skip
def test_who_comes_and_spoils_a_promise_lets_others_make_way_elsewhere(asks: Tree, intruder: Tree, at: str) -> None:
    """No new preemption starts while one is under way, as long as its place is still one (S-15.6.7)."""
    zones = {"a": "x", "a2": "x", "b": "y"}
    play = PodWorld(*(node(name, "2" if len(name) == 1 else "0", {"zone": zone}) for name, zone in zones.items()))
    play.create(*ranks(high=10, mid=5, low=1))
    old: Tree = {"terminationGracePeriodSeconds": 3000, "cpu": "2"}
    play.create(pod("old-a", nodeName="a", priorityClassName="low", **old))
    play.create(pod("old-b", nodeName="b", priorityClassName="mid", **old))
    play.settle()
    play.create(of_app("web", "new", cpu="2", priorityClassName="high", **asks))
    play.settle()
    assert promised(play, "new") == ["a"]
    intruder["spec"]["nodeName"] = at
    play.create(intruder)
    play.settle()
    assert promised(play, "new") == ["b"]


def test_one_verdict_is_not_for_pods_that_somebody_with_a_promise_tells_apart() -> None:
    """The keeper stands nowhere yet; web may not come into its zone, odd may, and both wait for room."""
    play = PodWorld(node("a", "2", {"zone": "z"}), node("b", "1", {"zone": "z"}))
    play.create(*ranks(high=10, low=1))
    play.create(pod("old", "2", nodeName="a", priorityClassName="low", terminationGracePeriodSeconds=3000))
    play.create(pod("filler", nodeName="b", priorityClassName="high"))
    play.settle()
    play.create(of_app("keeper", "keeper", cpu="2", priorityClassName="high", **apart(term("web"))))
    play.settle()
    assert promised(play, "keeper") == ["a"]
    for app in ("web", "odd"):
        play.create(of_app(app, app, priorityClassName="low"))
        play.run(1)
    play.store.delete(PODS, "default", "filler", grace=0)
    play.settle()
    assert (node_of(play, "web"), node_of(play, "odd")) == ("", "b")


def test_a_gang_that_has_its_places_by_luck_is_tried_when_anybody_comes() -> None:
    """The first takes the node that the second needs, until a third pod makes that one the fuller of the two."""
    play = PodWorld(*(node(name, "1", {"host": name}) for name in "ab"))
    first, second = members("w", 2)
    second["spec"] |= apart(term("k", "host"))
    play.create(of_app("k", "k", cpu="0", nodeName="b"), gang("w", 2), first)
    play.run(1)
    play.create(second)
    play.settle()
    assert node_of(play, "w-1") == ""
    memory = {"resources": {"requests": {"memory": "512Gi"}}}
    play.create(of_app("odd", "odd", nodeName="a", container=memory))
    play.settle()
    assert (node_of(play, "w-0"), node_of(play, "w-1")) == ("b", "a")


def test_an_unrelated_pod_that_comes_wakes_nobody() -> None:
    play = two_zones()
    for zone in "abc":
        play.create(of_app("web", f"w-{zone}", nodeName=zone))
    for n in range(20):
        play.create(of_app("web", f"s{n}", cpu="9", **spread("web")))
        play.create(of_app("web", f"b{n}", cpu="9", **beside(term("db"))))
        play.create(of_app("web", f"a{n}", **apart(term("web", matchLabelKeys=["app"]))))
    play.settle()
    before = decisions(play)
    for n in range(5):
        play.create(of_app("odd", f"odd-{n}", nodeName="abc"[n % 3], cpu="0"))
        play.settle()
    assert decisions(play) == before
    play.create(of_app("db", "db", nodeName="a", cpu="0"))
    play.settle()
    assert decisions(play) == before + 1  # the first of those alike; the others would get the same verdict


# --- the net ---------------------------------------------------------------------------------------------------------


def deaf(play: PodWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on no item is woken by events."""
    monkeypatch.setattr("makeway.controllers.pods.scheduling.could_help", lambda *_: False)


def missed(play: PodWorld) -> float:
    metrics = play.engine.metrics
    assert metrics is not None
    lines = [line for line in metrics.text().splitlines() if line.startswith(MISSED)]
    return sum(float(line.rpartition(" ")[2]) for line in lines)


def pass_time(play: PodWorld, ms: int) -> None:
    play.clock.now = Millis(play.clock.now + ms)
    play.settle()


def test_who_was_forgotten_is_tried_again_after_a_while_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    play = PodWorld(node("a", "1"))
    play.create(pod("first"), pod("second"), pod("third", "5"))
    play.settle()
    deaf(play, monkeypatch)
    play.store.delete(PODS, "default", "first", grace=0)
    play.settle()
    assert node_of(play, "second") == ""
    pass_time(play, NET_MS - 1)
    assert (node_of(play, "second"), missed(play)) == ("", 0)
    pass_time(play, 1)
    assert (node_of(play, "second"), missed(play), scheduling(play).missed) == ("a", 1, 1)


def test_a_try_in_vain_is_no_miss_and_writes_nothing() -> None:
    play = PodWorld(node("a", "1"))
    play.create(pod("p", "5"))
    play.settle()
    before, version = decisions(play), play.store.resource_version
    for n in range(1, 4):
        pass_time(play, NET_MS)
        assert decisions(play) == before + n
    assert (missed(play), play.store.resource_version) == (0, version)
    play.run(NET_MS)  # it is idle: nothing waits for the next one
    assert decisions(play) == before + 3


def test_who_was_woken_and_only_pauses_is_not_missed() -> None:
    play = PodWorld(node("a", "1"))
    play.create(*(pod(f"p{n}", nodeName="a", cpu="0") for n in range(8)), gang("w", 2), *members("w", 2))
    play.settle()
    for n in range(8):  # each of them could have helped; from the fourth on it pauses
        play.store.delete(PODS, "default", f"p{n}", grace=0)
        play.settle()
    play.create(node("b", "1"))
    play.settle()
    assert node_of(play, "w-0") == ""
    pass_time(play, 2 * NET_MS)
    assert node_of(play, "w-0") != ""
    assert missed(play) == 0


def test_the_net_tries_all_of_a_shape_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    play = PodWorld(node("a", "1"))
    play.create(*(pod(f"p{n}", "5") for n in range(3)))
    play.settle()
    tried: list[str] = []
    scheduler = scheduling(play)
    decide = scheduler._decide

    def noted(item: Any, *rest: Any) -> Any:
        tried.append(item.key[1])
        return decide(item, *rest)

    monkeypatch.setattr(scheduler, "_decide", noted)
    for _ in range(3):
        pass_time(play, NET_MS)
    assert sorted(tried) == ["p0", "p1", "p2"]
