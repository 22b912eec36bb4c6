"""Preemption that the manifests ask for and that cannot help, or costs more than it gives."""

from __future__ import annotations

import pytest

from tests.api.reading.test_manifests import KUEUE, cluster_queue, cohort, documents, flavor, job, local_queue, told

CONFIGURATION = "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\n"
FAIR = f"{CONFIGURATION}fairSharing: {{preemptionStrategies: [LessThanInitialShare]}}\n"
NO_TURNS = f"{CONFIGURATION}featureGates: {{TimeBasedSamePriorityPreemption: false}}\n"
WITHIN = "spec.preemption.withinClusterQueue"
TIMED = f"{WITHIN}Config.minAdmitDuration"
INTERVAL = "metadata.annotations[makeway.dev/checkpoint-interval]"
HINT = "give it nominalQuota, or set reclaimWithinCohort together with borrowWithinCohort or with fair sharing"
NOBODY = "nominalQuota is 0 there, and a workload that has to borrow preempts nobody"
NO_EFFECT = f"has no effect on cpu of flavor default: {NOBODY}"


def turns(duration: str = "30m", more: str = "") -> str:
    timed = f"withinClusterQueueConfig: {{minAdmitDuration: {duration}}}"
    return f"  preemption: {{withinClusterQueue: LowerOrNewerEqualPriority, {timed}{more}}}\n"


def borrower(preemption: str, cpu: object = 0, name: str = "  cohortName: lab\n", limit: int | None = None) -> str:
    limits = {} if limit is None else {"borrowingLimit": limit}
    return cluster_queue(cpu=cpu, more=name + preemption, limits=limits)


# --- where nothing is displaced ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("within", "path"),
    [
        pytest.param(turns(), TIMED, id="turns"),
        pytest.param("  preemption: {withinClusterQueue: LowerOrNewerEqualPriority}\n", WITHIN, id="newer equals"),
        pytest.param("  preemption: {withinClusterQueue: LowerPriority}\n", WITHIN, id="lower priorities"),
    ],
)
def test_a_queue_that_can_only_borrow_preempts_nobody(within: str, path: str) -> None:
    found = told(documents(flavor(), cohort("lab"), borrower(within)))
    assert found == [(path, NO_EFFECT, HINT)]


@pytest.mark.parametrize(
    ("others", "reclaim", "unless"),
    [
        pytest.param((cohort("lab"),), "Never", "", id="all that matters is there"),
        pytest.param((), "Never", ", unless cohort lab has a parent where you apply this", id="no Cohort"),
        pytest.param(
            (cohort("lab"),), "Any", ", unless fair sharing is configured where you apply this", id="no Configuration"
        ),
        pytest.param((cohort("lab"), CONFIGURATION), "Any", "", id="a Configuration without fair sharing"),
        pytest.param((cohort("lab"), FAIR), "Never", "", id="fair sharing without reclaim"),
        pytest.param(
            (),
            "LowerPriority",
            ", unless cohort lab has a parent or fair sharing is configured where you apply this",
            id="neither Cohort nor Configuration",
        ),
    ],
)
def test_the_warning_stays_true_where_more_objects_exist(others: tuple[str, ...], reclaim: str, unless: str) -> None:
    queue = borrower(turns(more=f", reclaimWithinCohort: {reclaim}"))
    assert told(documents(flavor(), *others, queue)) == [(TIMED, NO_EFFECT + unless, HINT)]


RECLAIMS = ", reclaimWithinCohort: Any"


@pytest.mark.parametrize(
    ("others", "queue"),
    [
        pytest.param((cohort("lab"),), borrower(turns(), cpu=1), id="it has quota of its own"),
        pytest.param(
            (cohort("lab"),), borrower("  preemption: {withinClusterQueue: Never}\n"), id="it preempts nobody"
        ),
        pytest.param((cohort("lab"),), borrower(""), id="no preemption is asked for"),
        pytest.param((cohort("lab"),), borrower(turns(), limit=0), id="it cannot borrow either"),
        pytest.param(
            (cohort("lab"),),
            borrower(turns(more=f"{RECLAIMS}, borrowWithinCohort: {{policy: LowerPriority}}")),
            id="borrowWithinCohort",
        ),
        pytest.param((cohort("lab"), FAIR), borrower(turns(more=RECLAIMS)), id="fair sharing with reclaim"),
        pytest.param((cohort("lab", "root"),), borrower(turns()), id="the cohort has a parent"),
    ],
)
def test_where_preemption_can_help_nothing_is_said(others: tuple[str, ...], queue: str) -> None:
    assert told(documents(flavor(), *others, queue)) == []


def test_a_queue_without_a_cohort_is_told_that_nothing_fits_and_no_more() -> None:
    [(path, _, _)] = told(documents(flavor(), borrower(turns(), name="")))
    assert path == "spec.resourceGroups"


def test_one_warning_names_a_few_of_many_flavors() -> None:
    names = ("a", "b", "c", "d", "e")
    queue = cluster_queue(cpu=0, flavors=names, more="  cohortName: lab\n" + turns())
    [(_, message, _)] = told(documents(*map(flavor, names), cohort("lab"), queue))
    assert message == f"has no effect on cpu of flavor a, cpu of flavor b, cpu of flavor c and 2 more: {NOBODY}"


def test_only_the_flavors_without_quota_are_named() -> None:
    listed = (
        "{name: a, resources: [{name: cpu, nominalQuota: 4}]}, {name: b, resources: [{name: cpu, nominalQuota: 0}]}"
    )
    spec = f"  namespaceSelector: {{}}\n  resourceGroups: [{{coveredResources: [cpu], flavors: [{listed}]}}]\n"
    queue = f"{KUEUE}\nkind: ClusterQueue\nmetadata: {{name: team}}\nspec:\n{spec}  cohortName: lab\n{turns()}"
    [(_, message, _)] = told(documents(flavor("a"), flavor("b"), cohort("lab"), queue))
    assert message == f"has no effect on cpu of flavor b: {NOBODY}"


# --- what a turn loses ------------------------------------------------------------------------------------------------


def saving(interval: str) -> str:
    return job(annotations=f"makeway.dev/checkpoint-interval: {interval}")


def workload(interval: str, more: str = "", status: str = "") -> str:
    meta = f"name: w, namespace: default, annotations: {{makeway.dev/checkpoint-interval: {interval}}}{more}"
    pod = "{spec: {containers: [{name: c, image: i, resources: {requests: {cpu: 1}}}]}}"
    spec = f"{{queueName: main, podSets: [{{count: 1, template: {pod}}}]}}"
    return f"{KUEUE}\nkind: Workload\nmetadata: {{{meta}}}\nspec: {spec}\n{status}"


def among_equals(*work: str, minimum: str = "30m") -> list[tuple[str, str, str]]:
    return told(documents(flavor(), cluster_queue(more=turns(minimum)), local_queue(), *work))


LOST = (
    "45m is longer than minAdmitDuration of ClusterQueue team, 30m: "
    "if it makes way after 30m, all work of that turn is lost"
)
SAVE = "save at least every 30m, or raise minAdmitDuration to 45m or more"


@pytest.mark.parametrize("work", [saving("45m"), workload("45m")], ids=["Job", "Workload"])
def test_work_that_is_saved_less_often_than_turns_end(work: str) -> None:
    assert among_equals(work) == [(INTERVAL, LOST, SAVE)]


@pytest.mark.parametrize(
    "work",
    [
        pytest.param(saving("30m"), id="once in a turn"),
        pytest.param(saving("10m"), id="several times in a turn"),
        pytest.param(job(), id="nothing is declared"),
        pytest.param(saving("often"), id="no duration: the simulator says so"),
        pytest.param(
            workload(
                "45m",
                status="status: {conditions: [{type: Finished, status: 'True', reason: Succeeded, message: '', "
                "lastTransitionTime: '2026-01-01T00:00:00Z'}]}\n",
            ),
            id="it is finished",
        ),
    ],
)
def test_what_saves_in_time_or_says_nothing_is_not_warned(work: str) -> None:
    assert [path for path, _, _ in among_equals(work) if path == INTERVAL] == []


def test_a_workload_of_a_job_that_is_there_is_not_told_again() -> None:
    owner = ", ownerReferences: [{apiVersion: batch/v1, kind: Job, name: work, uid: u, controller: true}]"
    found = [each for each in among_equals(saving("45m"), workload("45m", owner)) if each[0] == INTERVAL]
    assert found == [(INTERVAL, LOST, SAVE)]


@pytest.mark.parametrize(
    "others",
    [
        pytest.param((cluster_queue(), local_queue()), id="no turns"),
        pytest.param((cluster_queue(more=turns()),), id="its LocalQueue is not there"),
        pytest.param((local_queue(),), id="its ClusterQueue is not there"),
        pytest.param((NO_TURNS, cluster_queue(more=turns()), local_queue()), id="the gate is off"),
        pytest.param((cluster_queue(more=turns("30s")), local_queue()), id="the queue has an error"),
    ],
)
def test_where_the_turns_are_not_known_nothing_is_said(others: tuple[str, ...]) -> None:
    found = told(documents(flavor(), *others, saving("45m")))
    assert [path for path, _, _ in found if path == INTERVAL] == []
