"""Pods of a lost node leave, in order where an agent looks after them, and their Jobs go on elsewhere."""

from __future__ import annotations

from makeway.controllers.pods.lost_nodes import QUARANTINE_MS, UNANSWERED_MS
from tests.controllers.jobs.test_gangs import evictions, submit
from tests.controllers.pod_world import NODES, PODS, SECOND, PodWorld, Tree, job, node, queues
from tests.controllers.pods.test_gangs import places
from tests.controllers.pods.test_scheduling import pod

QUARANTINE, UNANSWERED = QUARANTINE_MS // SECOND, UNANSWERED_MS // SECOND
GRACE = 5  # of the pods of this world


class Unplugged(PodWorld):
    """With ``is_dead`` no agent looks after the pods of a missing node."""

    is_dead = True

    def lose(self, name: str) -> None:
        self.store.delete(NODES, "", name)
        if self.is_dead:
            for each in self.store.list(PODS).items:
                if each.tree()["spec"].get("nodeName") == name:
                    self.nodes.gone.add(each.uid)


def disruption(pod: Tree) -> tuple[str, str]:
    found = [each for each in pod["status"].get("conditions", ()) if each["type"] == "DisruptionTarget"]
    return (found[0]["reason"], found[0]["message"]) if found else ("", "")


def test_a_job_goes_on_elsewhere_when_a_node_is_gone() -> None:
    play = Unplugged(node("a", "1"))
    play.job("work", cpu="1")
    play.settle()
    play.create(node("b", "1"))
    (before,) = play.pods("work")
    play.lose("a")
    play.run(QUARANTINE - 1)
    (same,) = play.pods("work")
    assert (same["metadata"]["uid"], disruption(same)) == (before["metadata"]["uid"], ("", ""))
    play.run(2)
    assert sorted(places(play).values()) == ["a!", "b"]
    (left,) = [each for each in play.pods("work") if each["spec"]["nodeName"] == "a"]
    assert disruption(left) == ("DeletionByPodGC", "Node a is gone")
    assert left["status"]["phase"] == "Running"  # its process may be left
    play.run(GRACE + UNANSWERED + 1)
    assert list(places(play).values()) == ["b"]
    assert (play.status("work")["active"], play.status("work").get("failed")) == (1, 1)


def test_who_still_runs_gets_its_time_and_its_object_goes_last() -> None:
    play = Unplugged(node("a", "1"))
    play.is_dead = False
    play.create(pod("p", cpu="1", terminationGracePeriodSeconds=20))
    play.settle()
    play.lose("a")
    play.run(QUARANTINE + 19)
    assert play.phases() == ["Running"]
    play.run(2)
    assert play.pods() == []
    assert len(play.nodes.ran) == 1


def test_a_node_that_comes_back_in_time_costs_nobody_anything() -> None:
    play = Unplugged(node("a", "1"))
    play.is_dead = False
    play.create(pod("p", cpu="1"))
    play.settle()
    for _ in range(3):
        play.lose("a")
        play.run(QUARANTINE - 5)
        play.create(node("a", "1"))
        play.run(10)
    play.run(QUARANTINE * 2)
    (stays,) = play.pods()
    assert (stays["status"]["phase"], disruption(stays)) == ("Running", ("", ""))
    assert stays["metadata"].get("deletionTimestamp") is None


def test_a_restart_begins_the_quarantine_anew() -> None:
    play = Unplugged(node("a", "1"))
    play.create(pod("p", cpu="1"))
    play.settle()
    play.lose("a")
    play.run(QUARANTINE - 5)
    play.engine = play.new_engine()
    play.run(QUARANTINE - 5)
    assert play.phases() == ["Running"]
    play.run(5 + 30 + UNANSWERED + 1)
    assert play.pods() == []


def test_pods_that_have_ended_or_never_had_a_node_go_too() -> None:
    play = Unplugged(node("a", "1"))
    play.create(job("done", runs=5), pod("typo", nodeName="aa", terminationGracePeriodSeconds=0))
    play.run(10)
    assert play.condition("done", "Complete") == ("True", "CompletionsReached")
    play.lose("a")
    play.run(QUARANTINE + UNANSWERED + 1)
    assert play.pods() == []
    assert play.status("done")["succeeded"] == 1


def test_a_pod_that_was_being_deleted_already_is_not_waited_for_without_end() -> None:
    play = Unplugged(node("a", "1"))
    play.create(pod("p", cpu="1", terminationGracePeriodSeconds=300))
    play.settle()
    play.lose("a")
    play.store.delete(PODS, "default", "p")
    play.run(300)
    assert play.phases() == ["Running"]
    play.run(UNANSWERED + 1)
    assert play.pods() == []


def test_a_gang_that_lost_a_node_is_evicted_once_and_comes_again_elsewhere() -> None:
    play = Unplugged(node("a", "1"), node("b", "2"))
    play.create(*queues(3))
    submit(play, "train", 3, runs=1000)
    play.settle()
    play.create(node("c", "1"))
    play.lose("a")
    play.run(QUARANTINE + 1)
    assert evictions(play, "train") == {("NodeFailures", "DeletionByPodGC"): 1}
    assert not play.says("train", "Requeued")  # its quota is free when all of its pods are gone
    play.run(GRACE + UNANSWERED + 1)
    assert play.says("train", "Admitted")
    assert sorted(places(play).values()) == ["b", "b", "c"]
    play.run(100)
    assert evictions(play, "train") == {("NodeFailures", "DeletionByPodGC"): 1}
    assert (play.status("train").get("failed"), play.condition("train", "Failed")) == (None, None)


def test_nothing_is_remembered_of_nodes_without_pods() -> None:
    play = Unplugged(node("a", "1"))
    play.create(pod("p", cpu="1", terminationGracePeriodSeconds=1))
    play.settle()
    play.lose("a")
    play.run(QUARANTINE + 10)
    (lost,) = [each for each in play.controllers if type(each).__name__ == "LostNodes"]
    assert [vars(lost)[name] for name in ("_pods_on", "_node_of", "_missing")] == [{}, {}, {}]
