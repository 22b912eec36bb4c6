"""Jobs that change: their Workloads follow, or are recreated (api 18.7); priorities that move (api 6)."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from makeway.api.objects.kubernetes import JobSpec, PriorityClass, view
from makeway.api.objects.meta import ObjectMeta
from makeway.api.objects.queueing import WorkloadPriorityClass
from makeway.api.objects.workload import PriorityClassRef, Workload, WorkloadMode
from makeway.api.quantity import Time
from makeway.controllers.contract import NOTHING, WORKLOAD, WORKLOAD_PRIORITY_CLASS, Change, Delete, Outcome, Ref
from makeway.controllers.jobs.kinds.batch import end_of
from makeway.controllers.jobs.kinds.registry import is_stopped, lets_go
from makeway.controllers.workloads.eviction import Evict, Release, condition, holds_quota, says
from tests.controllers.job_stories import (
    CLASS,
    CONTROLLER,
    LEAST,
    ME,
    MINE,
    PREBUILT,
    QUEUE,
    TEMPLATES,
    Tree,
    admit,
    evict,
    job,
    look,
    reasons,
    replace,
    report,
    running,
    settled,
    spec_of,
    the_job,
    tree,
    user_edits,
)
from tests.controllers.views import NOW, FakeView, at, owned_by, workload

# --- 18.7: changes of a Job -------------------------------------------------------------------------------------------

CHANGES: dict[str, Tree] = {
    "count": {"spec": {"parallelism": 5}},
    "queue": {"labels": {QUEUE: "other"}},
    "template": {
        "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "w", "image": "new"}]}}}
    },
}


@pytest.mark.parametrize("what", CHANGES)
def test_18_7_a_job_that_asks_for_something_else_stops_and_gets_a_new_workload(what: str) -> None:
    around = running(job(parallelism=2))
    report(around, active=2)
    change = CHANGES[what]
    if what == "template":  # the user edits what runs, with all that was added
        pods = spec_of(around)["template"]
        pods["spec"]["containers"] = change["spec"]["template"]["spec"]["containers"]
        change = {"spec": {"template": pods}}
    user_edits(around, **change)
    outcome = look(around)
    assert Delete in [type(each.write) for each in outcome.actions]
    around.settle(CONTROLLER, ME, now=NOW)
    assert spec_of(around)["suspend"] is True
    assert CONTROLLER.react(ME, around, NOW).enqueue == (MINE,), "its controller waits for the Job"
    assert CONTROLLER.react(MINE, around, NOW).enqueue == ()
    assert not lets_go(the_job(around)), "pods are left"
    report(around, active=0)
    around.settle(CONTROLLER, ME, now=NOW)
    assert is_stopped(the_job(around))
    assert lets_go(the_job(around))
    del around.objects[MINE]  # its finalizer was dropped
    around.settle(CONTROLLER, ME, now=NOW)
    made = around.workload(MINE)
    expected = {"count": 5, "queue": 2, "template": 2}
    assert made.spec.pod_sets[0].count == expected[what]
    assert made.spec.queue_name == ("other" if what == "queue" else "main")
    pods = tree(made.spec.pod_sets[0].template)
    assert pods["spec"]["containers"][0]["image"] == ("new" if what == "template" else "busybox")
    assert "nodeSelector" not in pods["spec"], "nothing of the former start is left"


@pytest.mark.parametrize("what", CHANGES)
def test_18_7_without_quota_the_workload_just_follows(what: str) -> None:
    around = settled(job(parallelism=2))
    around.written.clear()
    user_edits(around, **CHANGES[what])
    around.settle(CONTROLLER, ME, now=NOW)
    assert [(each.ref, type(each)) for each in around.written] == [(MINE, Change)]
    assert reasons(around)[-1] == "UpdatedWorkload"
    made = around.workload(MINE).spec
    assert (made.pod_sets[0].count, made.queue_name) == (
        5 if what == "count" else 2,
        "other" if what == "queue" else "main",
    )


def test_18_7_what_changed_before_the_start_is_not_started() -> None:
    around = settled(job(parallelism=2))
    admit(around)
    user_edits(around, spec={"parallelism": 5})
    assert [type(each.write) for each in look(around).actions] == [Delete]
    assert spec_of(around)["suspend"] is True


def test_18_7_the_count_that_a_user_gives_a_partly_admitted_job_is_kept() -> None:
    around = running(job(annotations={LEAST: "1"}, parallelism=4), count=2)
    user_edits(around, spec={"parallelism": 3})
    around.settle(CONTROLLER, ME, now=NOW)
    assert is_stopped(the_job(around))
    del around.objects[MINE]
    around.settle(CONTROLLER, ME, now=NOW)
    assert around.workload(MINE).spec.pod_sets[0].count == 3


def test_18_7_a_job_that_is_leaving_is_followed_once_it_has_left() -> None:
    around = running(job(parallelism=2))
    report(around, active=2)
    evict(around)
    user_edits(around, labels={QUEUE: "other"})
    around.settle(CONTROLLER, ME, now=at(61))
    assert around.workload(MINE).spec.queue_name == "main"
    report(around, active=0)
    around.settle(CONTROLLER, ME, now=at(62))
    assert around.workload(MINE).spec.queue_name == "other"
    assert Delete not in map(type, around.written)


def test_18_7_where_its_pods_may_run_is_a_change_too() -> None:
    around = running(job(pod={"nodeSelector": {"disk": "ssd"}}))
    pods = spec_of(around)["template"]
    pods["spec"]["nodeSelector"]["disk"] = "hdd"
    user_edits(around, spec={"template": pods})
    assert Delete in [type(each.write) for each in look(around).actions]


def test_18_7_fields_that_a_server_fills_in_or_drops_are_no_change() -> None:
    around = running(job())
    mine = around.workload(MINE)
    pods = tree(mine.spec.pod_sets[0].template)
    pods["spec"] |= {
        "dnsPolicy": "ClusterFirst",
        "securityContext": {"b": 1, "a": 2},
        "terminationGracePeriodSeconds": 30,
    }
    pod_sets = (replace(mine.spec.pod_sets[0], template=msgspec.Raw(msgspec.json.encode(pods))),)
    around.put(replace(mine, spec=replace(mine.spec, pod_sets=pod_sets)))
    assert look(around) == NOTHING


def test_18_7_a_job_unsuspended_without_admission_is_suspended_again() -> None:
    around = settled(job())
    user_edits(around, spec={"suspend": False})
    around.settle(CONTROLLER, ME, now=NOW)
    assert spec_of(around)["suspend"] is True
    assert reasons(around)[-1] == "Suspended"


def test_a_gate_that_the_job_drops_is_dropped_and_none_is_added() -> None:
    key = "kueue.x-k8s.io/admission-gated-by"
    around = settled(job(annotations={key: "a,b"}))
    user_edits(around, annotations={key: "b,c"})
    around.settle(CONTROLLER, ME, now=NOW)
    assert around.workload(MINE).metadata.annotations == {key: "b"}
    user_edits(around, annotations={})
    around.settle(CONTROLLER, ME, now=NOW)
    assert around.workload(MINE).metadata.annotations == {}


def test_a_job_that_loses_its_label_still_gives_its_quota_back() -> None:
    around = running(job())
    user_edits(around, labels={QUEUE: ""})
    assert look(around) == NOTHING
    report(around, conditions=[{"type": "Failed", "status": "True"}])
    around.settle(CONTROLLER, ME, now=NOW)
    assert says(around.workload(MINE), "Finished")


def test_a_job_that_goes_is_left_to_go_and_its_workload_when_nothing_runs() -> None:
    around = running(job())
    report(around, active=1)
    gone = the_job(around)
    around.put(replace(gone, metadata=replace(gone.metadata, deletion_timestamp=Time.of_millis(NOW))))
    assert CONTROLLER.react(ME, around, NOW) == NOTHING
    assert not lets_go(the_job(around))
    report(around, active=0)
    assert lets_go(the_job(around)), "nobody restores the template of a Job that goes"
    (action,) = CONTROLLER.react(ME, around, NOW).actions
    assert isinstance(action.write, Delete)
    assert action.write.ref == MINE
    del around.objects[ME]
    assert CONTROLLER.react(MINE, around, NOW) == NOTHING


def test_a_job_that_goes_is_stopped_if_its_workload_has_to_leave() -> None:
    around = running(job())
    report(around, active=1)
    gone = the_job(around)
    for finalizers in (("test/keep",), ("foregroundDeletion",), ("orphan",)):
        meta = replace(gone.metadata, deletion_timestamp=Time.of_millis(NOW), finalizers=finalizers)
        around.put(replace(gone, metadata=meta))
        assert CONTROLLER.react(ME, around, NOW) == NOTHING
    around.put(replace(gone, metadata=replace(meta, finalizers=("test/keep",))))
    evict(around)
    look(around)
    assert spec_of(around)["suspend"]
    assert look(around) == NOTHING, "it waits for its pods"


# --- prebuilt Workloads -----------------------------------------------------------------------------------------------


def test_a_prebuilt_workload_is_waited_for_and_adopted() -> None:
    ref = Ref(WORKLOAD, "default", "there")
    around = FakeView.of(job(annotations={PREBUILT: "there"}), now=NOW)
    assert CONTROLLER.react(ME, around, NOW) == Outcome(again_at=at(10))
    template = view(the_job(around).spec, JobSpec).template
    pods = replace(workload().spec.pod_sets[0], template=template)
    around.put(workload("there", spec={"pod_sets": (pods,)}))
    around.settle(CONTROLLER, ME, now=NOW)
    assert [each.uid for each in around.workload(ref).metadata.owner_references] == ["u-1"]
    user_edits(around, spec={"parallelism": 3})
    around.settle(CONTROLLER, ME, now=NOW)
    found = condition(around.workload(ref), "Finished")
    assert found is not None
    assert found.reason == "OutOfSync"


def test_a_prebuilt_workload_that_lost_its_quota_is_not_out_of_sync() -> None:
    """Until its Job is restored it has fewer pods than were asked for."""
    around = running(job(annotations={LEAST: "1"}, parallelism=4), count=2)
    user_edits(around, annotations={LEAST: "1", PREBUILT: MINE.name})
    around.put(Release(at(60))(around.workload(MINE)))
    around.settle(CONTROLLER, ME, now=at(61))
    assert not says(around.workload(MINE), "Finished")
    assert spec_of(around)["parallelism"] == 4


def test_a_prebuilt_workload_that_says_something_else_starts_nothing() -> None:
    around = settled(job())
    admit(around)
    user_edits(around, annotations={PREBUILT: MINE.name}, spec={"parallelism": 3})
    look(around)
    assert spec_of(around)["suspend"] is True
    assert says(around.workload(MINE), "Finished")


def test_a_prebuilt_workload_of_somebody_else_is_left_alone() -> None:
    other = workload("there", owner=owned_by(workload("parent")))
    around = settled(job(annotations={PREBUILT: "there"}), other)
    assert around.written == []


# --- api 6: priority --------------------------------------------------------------------------------------------------


def wpc(name: str, value: int) -> WorkloadPriorityClass:
    return WorkloadPriorityClass(metadata=ObjectMeta(name=name), value=value)


def test_api_6_a_new_value_reaches_all_who_name_the_class() -> None:
    ref = PriorityClassRef(group="kueue.x-k8s.io", kind="WorkloadPriorityClass", name="high")
    named = {"priority_class_ref": ref, "priority": 1}
    done = {"Finished": ("True", "Succeeded", 0.0)}
    bare = workload("bare", admitted=0, spec=named)
    others = [
        workload("done", spec=named, conditions=done),  # type: ignore[arg-type]
        workload("copy", spec=named, metadata={"labels": {"kueue.x-k8s.io/multikueue-origin": "multikueue"}}),
        workload("option", spec={**named, "workload_mode": WorkloadMode(type="ResourceFlavorOption")}),
    ]
    around = settled(job(labels={CLASS: "high"}), wpc("high", 1), bare, *others)
    around.put(wpc("high", 9))
    looks = CONTROLLER.react(Ref(WORKLOAD_PRIORITY_CLASS, "", "high"), around, NOW).enqueue
    assert looks == (Ref.of(bare), MINE)
    around.settle(CONTROLLER, *looks, *map(Ref.of, others), now=NOW)
    assert [around.workload(each).spec.priority for each in looks] == [9, 9]
    assert [around.workload(Ref.of(each)).spec.priority for each in others] == [1, 1, 1]


@pytest.mark.parametrize("kind", ["WorkloadPriorityClass", "PriorityClass"])
def test_api_6_jobs_that_wait_for_a_class_are_looked_at_when_it_comes(kind: str) -> None:
    ours = kind == "WorkloadPriorityClass"
    each = job(labels={CLASS: "new"} if ours else {}, pod={} if ours else {"priorityClassName": "new"})
    around = settled(each)
    around.put(wpc("new", 5) if ours else PriorityClass(metadata=ObjectMeta(name="new"), value=5))
    (whom,) = CONTROLLER.react(Ref.named(kind, "", "new"), around, NOW).enqueue
    around.settle(CONTROLLER, whom, now=NOW)
    assert around.workload(MINE).spec.priority == 5


@pytest.mark.parametrize(
    ("before", "after", "held", "expected"),
    [
        ("low", "high", False, ("high", 9)),
        ("low", "high", True, ("high", 9)),
        ("", "high", False, ("high", 9)),
        ("", "high", True, (None, 0)),
        ("low", "", False, (None, 0)),
        ("low", "", True, ("low", 1)),
        ("low", "gone", False, ("low", 1)),
    ],
)
def test_api_6_a_job_may_change_over_to_another_class(
    before: str, after: str, held: bool, expected: tuple[str | None, int]
) -> None:
    around = settled(job(labels={CLASS: before}), wpc("low", 1), wpc("high", 9))
    if held:
        admit(around)
    user_edits(around, labels={CLASS: after})
    around.settle(CONTROLLER, ME, now=NOW)
    spec = around.workload(MINE).spec
    assert (spec.priority_class_ref.name if spec.priority_class_ref else None, spec.priority) == expected
    assert ("WorkloadPriorityClassNotFound" in reasons(around)) is (after == "gone")


def test_api_6_a_default_class_that_comes_later_moves_nobody() -> None:
    around = settled(job())
    around.put(wpc("default", 7))
    assert look(around) == NOTHING
    assert around.workload(MINE).spec.priority == 0


def test_api_6_a_default_class_that_goes_moves_nobody() -> None:
    around = settled(job(), wpc("default", 7))
    del around.objects[Ref(WORKLOAD_PRIORITY_CLASS, "", "default")]
    assert look(around) == NOTHING
    assert around.workload(MINE).spec.priority == 7


# --- promises ---------------------------------------------------------------------------------------------------------

STEPS = st.lists(
    st.sampled_from(
        ["admit", "evict", "unsuspend", "pods", "no pods", "deactivate", "grow", "move", "finish", "release", "gone"]
    ),
    max_size=8,
)


@pytest.mark.property
@given(STEPS, st.booleans(), st.sampled_from(TEMPLATES))
def test_whatever_happens_it_comes_to_rest_and_runs_only_what_is_admitted(
    steps: list[str], partial: bool, template: Tree
) -> None:
    around = settled(job(annotations={LEAST: "1"} if partial else {}, parallelism=3, template=template))
    for i, step in enumerate(steps):
        happen(around, step)
        last = around.settle(CONTROLLER, ME, MINE, now=at(100 + i))
        assert last.actions == ()
        mine = around.get(MINE)
        if end_of(the_job(around)) is not None:
            assert mine is None or says(mine, "Finished")
        else:
            runs = mine is not None and says(mine, "Admitted") and not says(mine, "Evicted") and mine.spec.active
            gone = mine is None or mine.metadata.deletion_timestamp is not None
            assert spec_of(around)["suspend"] is not (runs and not gone)


def happen(around: FakeView, step: str) -> None:
    mine = around.get(MINE)
    assert mine is None or isinstance(mine, Workload)
    match step:
        case "admit" if mine is not None and not holds_quota(mine) and not says(mine, "Finished"):
            admit(around, count=2 if mine.spec.pod_sets[0].min_count else None, seconds=50)
        case "evict" if mine is not None and holds_quota(mine):
            around.put(Evict("Preempted", "", at(60))(mine) or mine)
        case "release" if mine is not None and holds_quota(mine):
            around.put(Release(at(60))(mine))
        case "deactivate" if mine is not None:
            around.put(replace(mine, spec=replace(mine.spec, active=not mine.spec.active)))
        case "unsuspend":
            user_edits(around, spec={"suspend": False})
        case "grow":
            user_edits(around, spec={"parallelism": spec_of(around)["parallelism"] + 2})
        case "move":
            user_edits(around, labels={QUEUE: "other"})
        case "gone" if mine is not None and mine.metadata.deletion_timestamp and is_stopped(the_job(around)):
            del around.objects[MINE]
        case "pods" if not spec_of(around)["suspend"]:
            report(around, active=2, ready=2, succeeded=1, startTime="2026-01-01T00:00:00Z")
        case "no pods":
            report(around, active=0, ready=0)
        case "finish" if not spec_of(around)["suspend"]:
            report(around, conditions=[{"type": "Complete", "status": "True"}], active=0)
