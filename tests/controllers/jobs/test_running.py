"""Jobs and their Workloads: created, started, stopped, reported (api 18.1 to 18.6, S-10.3, S-10.12, S-11.6)."""

from __future__ import annotations

import msgspec
import pytest

from makeway.api.names import PREBUILT_WORKLOAD
from makeway.api.objects.kubernetes import Job, JobSpec, Namespace, view
from makeway.api.objects.meta import ObjectMeta
from makeway.api.objects.queueing import (
    AdmissionCheck,
    AdmissionCheckSpec,
)
from makeway.api.objects.workload import (
    PodSetUpdate,
    ReclaimablePod,
    WorkloadMode,
)
from makeway.api.quantity import Time
from makeway.controllers.contract import NOTHING, RESOURCE_FLAVOR, Change, Create, Ref
from makeway.controllers.jobs.kinds.batch import indexes_in, status_of_job
from makeway.controllers.jobs.kinds.registry import is_stopped
from makeway.controllers.jobs.running import JobRunning
from makeway.controllers.workloads.eviction import Evict, Release, condition, holds_quota, status_of
from makeway.core.policy import Jobs, Policy, Requirement
from tests.controllers.job_stories import (
    CLASS,
    CONTROLLER,
    LEAST,
    ME,
    MINE,
    QUEUE,
    TEMPLATES,
    Tree,
    admit,
    evict,
    job,
    look,
    policy_with,
    reasons,
    replace,
    report,
    running,
    settled,
    spec_of,
    the_job,
    told,
    tree,
    user_edits,
)
from tests.controllers.views import NOW, FakeView, at, check, edited, local_queue, owned_by, workload

# --- 18.1, 18.2: who gets a Workload ----------------------------------------------------------------------------------


def test_18_1_a_job_without_queue_is_left_alone() -> None:
    around = FakeView.of(job(labels={QUEUE: ""}, suspend=False))
    assert CONTROLLER.react(ME, around, NOW) == NOTHING


def test_18_1_the_configuration_may_manage_it_and_the_default_queue_takes_it() -> None:
    policy = Policy(jobs=Jobs(without_queue_name=True))
    around = settled(job(labels={QUEUE: ""}), local_queue("default"), policy=policy)
    assert around.workload(MINE).spec.queue_name == "default"


def test_18_1_a_framework_that_is_not_listed_is_left_alone() -> None:
    around = FakeView.of(job(suspend=False), policy=Policy(jobs=Jobs(frameworks=())))
    assert CONTROLLER.react(ME, around, NOW) == NOTHING


ONLY_TEAMS = Policy(jobs=Jobs(namespaces=(Requirement(key="team", operator="Exists"),)))


@pytest.mark.parametrize("annotations", [{}, {PREBUILT_WORKLOAD: "w"}], ids=["plain", "with a prebuilt Workload"])
def test_18_1_a_job_of_a_namespace_that_is_not_selected_is_left_alone(annotations: dict[str, str]) -> None:
    around = FakeView.of(job(suspend=False, annotations=annotations), workload("w"), policy=ONLY_TEAMS)
    assert CONTROLLER.react(ME, around, NOW) == NOTHING


def test_18_1_what_has_a_workload_stays_ours_when_its_namespace_is_selected_no_more() -> None:
    """Its quota must come back, and no other controller would stop it (decision 0072)."""
    selected = Namespace(metadata=ObjectMeta(name="default", labels={"team": "a"}))
    around = settled(job(), selected, policy=ONLY_TEAMS)
    admit(around)
    look(around)
    assert spec_of(around)["suspend"] is False
    around.put(Namespace(metadata=ObjectMeta(name="default")))
    evict(around)
    look(around)
    assert spec_of(around)["suspend"] is True


def test_18_1_a_job_is_managed_from_when_its_namespace_is_selected() -> None:
    around = settled(job(suspend=False), policy=ONLY_TEAMS)
    assert around.written == []
    around.put(Namespace(metadata=ObjectMeta(name="default", labels={"team": "a"})))
    around.settle(CONTROLLER, ME, now=NOW)
    assert [type(each) for each in around.written] == [Change, Create]


@pytest.mark.parametrize("is_there", [True, False], ids=["there", "gone"])
def test_18_1_a_job_of_a_managed_job_gets_no_workload_while_that_one_is_there(is_there: bool) -> None:
    parent = replace(job(), metadata=ObjectMeta(name="parent", namespace="default", uid="u-parent"))
    child = job(suspend=False)
    child = replace(child, metadata=replace(child.metadata, owner_references=(owned_by(parent),)))
    around = settled(child, *([parent] if is_there else []), policy=Policy(jobs=Jobs(without_queue_name=True)))
    assert (around.get(MINE) is None) is is_there
    assert spec_of(around)["suspend"] is not is_there


def test_18_1_a_job_that_runs_unasked_is_suspended_before_it_gets_its_workload() -> None:
    around = settled(job(suspend=False))
    assert [type(each) for each in around.written] == [Change, Create]
    assert spec_of(around)["suspend"] is True
    assert reasons(around) == ["Suspended", "CreatedWorkload"]


def test_18_2_the_workload_is_owned_and_lets_nobody_delete_it_under_its_job() -> None:
    made = settled(job(parallelism=3, completions=2)).workload(MINE)
    assert (made.spec.pod_sets[0].count, made.spec.queue_name) == (2, "main")
    assert made.metadata.owner_references[0].uid == "u-1"
    assert made.metadata.finalizers == ("kueue.x-k8s.io/resource-in-use",)
    assert (made.metadata.uid, made.metadata.creation_timestamp) == ("", None), "a server gives these"


@pytest.mark.parametrize(
    ("each", "reason"),
    [
        (job(labels={CLASS: "gone"}), "WorkloadPriorityClassNotFound"),
        (job(pod={"priorityClassName": "gone"}), "ErrWorkloadCompose"),
        (job(annotations={LEAST: "many"}), "ErrWorkloadCompose"),
        (job(annotations={LEAST: "4"}, parallelism=4), "ErrWorkloadCompose"),
        (job(labels={"kueue.x-k8s.io/max-exec-time-seconds": "0"}), "ErrWorkloadCompose"),
    ],
)
def test_18_2_what_makes_no_workload_is_told(each: Job, reason: str) -> None:
    around = settled(each)
    assert around.get(MINE) is None
    assert {(note.about, note.type, note.reason) for note in around.notes} == {(ME, "Warning", reason)}


def test_18_2_without_partial_admission_there_is_no_least_count() -> None:
    gates = policy_with(partial_admission=False)
    around = settled(job(annotations={LEAST: "2"}, parallelism=4), policy=gates)
    assert around.workload(MINE).spec.pod_sets[0].min_count is None


# --- 18.3: start ------------------------------------------------------------------------------------------------------


def test_18_3_a_start_is_one_edit_with_all_that_was_decided() -> None:
    around = settled(job(pod={"nodeSelector": {"disk": "ssd"}, "tolerations": [{"key": "mine", "operator": "Exists"}]}))
    update = PodSetUpdate(name="main", labels={"by": "check"}, annotations={"note": "x"}, node_selector={"rack": "1"})
    admit(around, admission_checks=(check("prov", "Ready", pod_set_updates=(update,)),))
    around.written.clear()
    look(around)
    assert [(each.ref.kind, each.status) for each in around.written if isinstance(each, Change)] == [
        ("Job", False), ("Workload", True),
    ]  # fmt: skip
    found = spec_of(around)
    assert found["suspend"] is False
    assert found["template"]["spec"]["nodeSelector"] == {"disk": "ssd", "zone": "a", "rack": "1"}
    assert [each["key"] for each in found["template"]["spec"]["tolerations"]] == ["mine", "spot"]
    assert found["template"]["metadata"] == {
        "labels": {
            "kueue.x-k8s.io/podset": "main",
            "kueue.x-k8s.io/cluster-queue-name": "cq",
            "kueue.x-k8s.io/local-queue-name": "main",
            "by": "check",
        },
        "annotations": {"kueue.x-k8s.io/workload": MINE.name, "note": "x"},
    }
    assert reasons(around)[-1] == "Started"
    assert look(around) == NOTHING


@pytest.mark.parametrize("state", ["reserved", "evicted", "inactive", "deleted"])
def test_18_3_nothing_starts_that_is_not_admitted_to_stay(state: str) -> None:
    around = settled(job())
    admit(around)
    mine = around.workload(MINE)
    match state:
        case "reserved":
            conditions = tuple(each for each in status_of(mine).conditions if each.type != "Admitted")
            mine = replace(mine, status=replace(status_of(mine), conditions=conditions))
        case "evicted":
            mine = edited(Evict("Preempted", "", at(1)), mine)
        case "inactive":
            mine = replace(mine, spec=replace(mine.spec, active=False))
        case "deleted":
            mine = replace(mine, metadata=replace(mine.metadata, deletion_timestamp=Time.of_millis(NOW)))
    around.put(mine)
    look(around)
    assert spec_of(around)["suspend"] is True


@pytest.mark.parametrize(("indexed", "completions"), [(True, 2), (False, 8)])
def test_18_3_a_partly_admitted_job_runs_with_as_many_pods(indexed: bool, completions: int) -> None:
    tie = {"kueue.x-k8s.io/job-completions-equal-parallelism": "true"} if indexed else {}
    each = job(annotations={LEAST: "1", **tie}, parallelism=4, completions=4 if indexed else 8,
               completionMode="Indexed" if indexed else "NonIndexed")  # fmt: skip
    around = running(each, count=2)
    assert (spec_of(around)["parallelism"], spec_of(around)["completions"]) == (2, completions)
    assert look(around) == NOTHING, "what we cut is no change of the user's"
    evict(around)
    around.settle(CONTROLLER, ME, now=at(61))
    assert (spec_of(around)["parallelism"], spec_of(around)["completions"]) == (4, 4 if indexed else 8)


@pytest.mark.parametrize(
    ("pod", "template", "update", "word"),
    [
        ({"nodeSelector": {"zone": "b"}}, {}, PodSetUpdate(name="main"), "nodeSelector zone"),
        ({}, {}, PodSetUpdate(name="main", node_selector={"zone": "b"}), "nodeSelector zone"),
        ({}, {"metadata": {"labels": {"app": "x"}}}, PodSetUpdate(name="main", labels={"app": "y"}), "label app"),
        (
            {},
            {"metadata": {"annotations": {"n": "x"}}},
            PodSetUpdate(name="main", annotations={"n": "y"}),
            "annotation n",
        ),
    ],
)
def test_s_11_6_a_key_that_has_another_value_fails_the_start_for_good(
    pod: Tree, template: Tree, update: PodSetUpdate, word: str
) -> None:
    around = settled(job(pod=pod, template=template))
    admit(around, admission_checks=(check("prov", "Ready", pod_set_updates=(update,)),))
    around.settle(CONTROLLER, ME, now=NOW)
    found = condition(around.workload(MINE), "Finished")
    assert found is not None
    assert (found.status, found.reason) == ("True", "FailedToStart")
    assert word in found.message
    assert spec_of(around)["suspend"] is True


def test_s_11_6_a_key_that_has_the_same_value_is_no_conflict() -> None:
    around = running(job(pod={"nodeSelector": {"zone": "a"}}))
    assert spec_of(around)["suspend"] is False


def test_18_3_pods_do_not_run_without_what_their_flavor_says() -> None:
    around = settled(job())
    admit(around)
    del around.objects[Ref(RESOURCE_FLAVOR, "", "spot")]
    outcome = look(around)
    assert (outcome.actions, outcome.again_at) == ((), NOW + 10_000)


# --- 18.4, S-10.3: stop -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("template", TEMPLATES)
@pytest.mark.parametrize(
    "pod", [{}, {"nodeSelector": {"disk": "ssd"}, "tolerations": [{"key": "k", "x": 1}], "y": [1]}]
)
def test_18_4_a_stop_gives_the_template_back_byte_for_byte(template: Tree, pod: Tree) -> None:
    each = job(template=template)
    raw = tree(each.spec)
    raw["template"]["spec"] |= pod  # with fields that no version knows
    each = replace(each, spec=msgspec.Raw(msgspec.json.encode(raw)))
    around = running(each)
    before = view(each.spec, JobSpec).template
    started = spec_of(around)["template"]
    assert started["spec"]["nodeSelector"] == {**pod.get("nodeSelector", {}), "zone": "a"}
    assert started["spec"]["tolerations"][:-1] == pod.get("tolerations", []), "unknown fields stay"
    evict(around)
    around.settle(CONTROLLER, ME, now=at(61))
    assert bytes(view(the_job(around).spec, JobSpec).template) == bytes(before)
    assert is_stopped(the_job(around))


def test_18_4_a_template_comes_back_with_its_spaces() -> None:
    each = job()
    each = replace(each, spec=msgspec.Raw(msgspec.json.format(each.spec, indent=1)))
    around = running(each)
    evict(around)
    around.settle(CONTROLLER, ME, now=at(61))
    assert bytes(view(the_job(around).spec, JobSpec).template) == bytes(view(each.spec, JobSpec).template)


def test_18_4_each_step_of_a_stop_waits_for_the_one_before() -> None:
    """A server accepts no other template while the Job runs, or has a start time."""
    around = running(job())
    evict(around)
    seen = []
    for _ in range(4):
        outcome = look(around, 61)
        edits = [each.write for each in outcome.actions if each.write.ref == ME]
        seen.append([(type(each.edit).__name__, each.status) for each in edits if isinstance(each, Change)])
    assert seen == [[("Suspend", False)], [("ForgetStart", True)], [("Restore", False)], []]
    assert status_of_job(the_job(around)).start_time is None
    assert reasons(around).count("Stopped") == 1


def test_18_4_a_start_that_meets_an_unfinished_stop_finishes_it_first() -> None:
    around = running(job())
    evict(around)
    look(around, 61)
    around.put(Release(at(62))(around.workload(MINE)))
    admit(around, seconds=63)
    around.settle(CONTROLLER, ME, now=at(64))
    assert spec_of(around)["suspend"] is False
    assert spec_of(around)["template"]["spec"]["nodeSelector"] == {"zone": "a"}


@pytest.mark.parametrize("loss", ["evicted", "released", "inactive"])
def test_18_4_a_job_stops_with_the_end_of_its_admission(loss: str) -> None:
    around = running(job())
    mine = around.workload(MINE)
    if loss == "evicted":
        mine = edited(Evict("PodsReadyTimeout", "", at(60)), mine)
    elif loss == "released":
        mine = edited(Release(at(60)), mine)
    else:
        mine = replace(mine, spec=replace(mine.spec, active=False))
    around.put(mine)
    around.settle(CONTROLLER, ME, now=at(61))
    assert spec_of(around)["suspend"] is True
    assert "Stopped" in reasons(around)


@pytest.mark.parametrize("pods", [{"active": 2}, {"active": 0, "terminating": 1}, {"active": 1, "terminating": 1}])
def test_p18_quota_stays_charged_while_pods_are_on_their_way_out(pods: Tree) -> None:
    around = running(job())
    report(around, active=2, ready=2)
    look(around)
    evict(around)
    report(around, **{"active": 0, "ready": 0, "terminating": 0, **pods})
    around.settle(CONTROLLER, ME, now=at(61))
    assert spec_of(around)["suspend"] is True
    assert holds_quota(around.workload(MINE))
    assert told(around, "PodsReady") == ("True", "Started"), "who is leaving is told once, at the end"
    report(around, active=0, terminating=0, ready=0)
    around.settle(CONTROLLER, ME, now=at(90))
    assert not holds_quota(around.workload(MINE))
    assert told(around, "Requeued") == ("True", "Preempted")
    assert status_of(around.workload(MINE)).accumulated_past_execution_time_seconds == 90


def test_p18_a_job_that_still_runs_is_not_taken_for_stopped() -> None:
    """Its controller has not made any pods yet."""
    around = running(job())
    evict(around)
    look(around, 61)
    assert holds_quota(around.workload(MINE)), "the suspension is not stored yet when this is decided"


def test_s_10_3_an_evicted_reservation_that_never_ran_is_given_back_in_one_write() -> None:
    around = settled(job())
    admit(around)
    evict(around)
    around.written.clear()
    around.settle(CONTROLLER, ME, now=at(61))
    assert [each.ref for each in around.written] == [MINE]
    assert not holds_quota(around.workload(MINE))


def test_s_10_3_a_job_in_another_cluster_is_not_ours_to_release() -> None:
    handed = AdmissionCheck(
        metadata=ObjectMeta(name="mk"), spec=AdmissionCheckSpec(controller_name="kueue.x-k8s.io/multikueue")
    )
    around = settled(job(managedBy="kueue.x-k8s.io/multikueue"), handed)
    admit(around, admission_checks=(check("mk", "Ready"),))
    evict(around)
    around.settle(CONTROLLER, ME, now=at(61))
    assert holds_quota(around.workload(MINE))


def test_s_12_10_a_parent_keeps_its_admission_until_its_option_is_evicted() -> None:
    around = settled(job())
    admit(around)
    mine = around.workload(MINE)
    around.put(replace(mine, spec=replace(mine.spec, workload_mode=WorkloadMode(type="Parent"))))
    option = workload(
        "o", admitted=0, owner=owned_by(mine), spec={"workload_mode": WorkloadMode(type="ResourceFlavorOption")}
    )
    ref = around.put(option)
    evict(around)
    around.settle(CONTROLLER, ME, now=at(61))
    assert holds_quota(around.workload(MINE))
    around.put(Evict("Preempted", "", at(62))(option))
    assert CONTROLLER.react(ref, around, at(62)).enqueue == (MINE,)
    around.settle(CONTROLLER, MINE, now=at(62))
    assert not holds_quota(around.workload(MINE))


# --- 18.5, S-10.12: ready and finished --------------------------------------------------------------------------------


def test_s_10_12_pods_ready_goes_through_its_four_reasons() -> None:
    around = running(job(parallelism=2))
    seen = [told(around, "PodsReady")]
    stories: list[Tree] = [
        {"active": 2, "ready": 1}, {"active": 2, "ready": 2}, {"active": 2, "ready": 1},
        {"active": 1, "ready": 1, "succeeded": 1},
        {"active": 1, "ready": 0, "succeeded": 1, "uncountedTerminatedPods": {"succeeded": ["p"]}},
    ]  # fmt: skip
    for story in stories:
        report(around, **story)
        look(around)
        seen.append(told(around, "PodsReady"))
    assert seen == [
        ("False", "WaitForStart"), ("False", "WaitForStart"), ("True", "Started"), ("False", "WaitForRecovery"),
        ("True", "Recovered"), ("True", "Recovered"),
    ]  # fmt: skip
    evict(around)
    report(around, active=0, ready=0)
    around.settle(CONTROLLER, ME, now=at(61))
    assert told(around, "PodsReady") == ("False", "WaitForStart")


def test_s_10_12_who_never_was_admitted_costs_no_write() -> None:
    assert told(settled(job()), "PodsReady") is None


def test_s_10_12_a_job_that_is_suspended_has_no_pods_that_count() -> None:
    around = settled(job())
    report(around, ready=1)
    admit(around)
    look(around)
    assert told(around, "PodsReady") == ("False", "WaitForStart")


def test_18_5_a_partly_admitted_job_is_ready_with_the_pods_it_got() -> None:
    around = running(job(annotations={LEAST: "1"}, parallelism=4), count=2)
    report(around, active=2, ready=2)
    look(around)
    assert told(around, "PodsReady") == ("True", "Started")


@pytest.mark.parametrize(("type", "reason"), [("Complete", "Succeeded"), ("Failed", "Failed")])
def test_18_5_the_end_of_a_job_is_that_of_its_workload(type: str, reason: str) -> None:
    around = running(job())
    report(around, conditions=[{"type": type, "status": "True", "message": "so it went"}], succeeded=1)
    around.written.clear()
    around.settle(CONTROLLER, ME, now=NOW)
    found = condition(around.workload(MINE), "Finished")
    assert found is not None
    assert (found.status, found.reason, found.message) == ("True", reason, "so it went")
    assert len(around.written) == 1, "all that is due is one write"
    assert reasons(around)[-1] == "FinishedWorkload"


def test_p24_a_finished_job_is_never_queued_again() -> None:
    """After a restart too, and when its Workload was removed since."""
    around = running(job())
    report(around, conditions=[{"type": "Complete", "status": "True"}])
    around.settle(CONTROLLER, ME, now=NOW)
    assert JobRunning().react(ME, around, at(5)) == NOTHING
    assert JobRunning().react(MINE, around, at(5)) == NOTHING
    user_edits(around, labels={QUEUE: "other", CLASS: "x"}, spec={"parallelism": 7})
    assert JobRunning().react(ME, around, at(5)) == NOTHING
    del around.objects[MINE]
    assert JobRunning().react(ME, around, at(5)) == NOTHING


# --- 18.6: reclaimable pods -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "status", "count"),
    [
        ({"parallelism": 4, "completions": 10}, {"succeeded": 8}, 2),
        ({"parallelism": 4, "completions": 10}, {"succeeded": 6}, 0),
        ({"parallelism": 4, "completions": 10}, {"succeeded": 7}, 1),
        ({"parallelism": 4, "completions": 4}, {"succeeded": 1}, 1),
        ({"parallelism": 4}, {"succeeded": 1}, 1),
        ({"parallelism": 4, "completions": 4}, {}, 0),
        ({"parallelism": 1, "completions": 4}, {"succeeded": 3}, 0),
        ({"parallelism": 4, "completions": 3}, {"succeeded": 1}, 1),
        ({"parallelism": 3, "completions": 6, "completionMode": "Indexed"},
         {"succeeded": 9, "completedIndexes": "0,2-3", "failedIndexes": "5"}, 1),
    ],
)  # fmt: skip
def test_18_6_pods_that_never_come_back_give_their_quota_back(spec: Tree, status: Tree, count: int) -> None:
    around = running(job(**spec))
    report(around, **status)
    around.settle(CONTROLLER, ME, now=NOW)
    found = status_of(around.workload(MINE)).reclaimable_pods
    assert found == ((ReclaimablePod(name="main", count=count),) if count else ())


def test_18_6_of_a_partly_admitted_job_those_count_that_are_not_left_to_do() -> None:
    """Of 10 pods 4 were admitted, and 2 are left to do: the quota of 2 is free (S-1.8)."""
    around = running(job(annotations={LEAST: "1"}, parallelism=10, completions=10), count=4)
    report(around, succeeded=8)
    around.settle(CONTROLLER, ME, now=NOW)
    assert status_of(around.workload(MINE)).reclaimable_pods == (ReclaimablePod(name="main", count=8),)


def test_18_6_what_was_given_back_is_not_taken_again_while_quota_is_held() -> None:
    around = running(job(parallelism=4, completions=4))
    for succeeded, count in ((3, 3), (2, 3)):
        report(around, succeeded=succeeded)
        around.settle(CONTROLLER, ME, now=NOW)
        assert status_of(around.workload(MINE)).reclaimable_pods[0].count == count


def test_18_6_nobody_counts_with_the_gate_off() -> None:
    around = running(job(parallelism=4, completions=4), policy=policy_with(reclaimable_pods=False))
    report(around, succeeded=3)
    around.settle(CONTROLLER, ME, now=NOW)
    assert status_of(around.workload(MINE)).reclaimable_pods == ()


@pytest.mark.parametrize(("text", "count"), [("", 0), ("7", 1), ("1,3-5,7", 5), ("0-9", 10), ("x,3-", 1), ("5-3", 0)])
def test_indexes_are_counted(text: str, count: int) -> None:
    assert indexes_in(text) == count
