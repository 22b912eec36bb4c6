"""Served versions and groups: nothing that both spell is lost on the way to the stored form and back, and each row of
api 20 holds."""

from __future__ import annotations

import copy

import pytest
from hypothesis import given, settings

from makeway.api import codec
from makeway.api.objects.kubernetes import Event
from makeway.api.reading.documents import Tree
from makeway.api.reading.structure import Mode
from makeway.api.versions import KINDS, Kind, find_kind, from_stored, kind_of, older_path, stored_path, to_stored
from makeway.testing.strategies import objects_of

OLD, NEW = "v1beta1", "v1beta2"
TWO_VERSIONS = [kind for kind in KINDS if kind.group == "kueue.x-k8s.io"]
VIEWS = [kind for kind in KINDS if kind.view_of is not None]
CORE_EVENTS = kind_of(Event)
EVENTS_V1 = next(kind for kind in VIEWS if kind.name == "Event")
Case = tuple[Kind, str, dict[str, Tree]]
for_all_kinds = settings(max_examples=settings().max_examples * 4)


def kind_named(name: str) -> Kind:
    return next(kind for kind in KINDS if kind.name == name and OLD in kind.versions)


def named(kind: Kind) -> str:
    return kind.name


def up(kind: str, **parts: Tree) -> Tree:
    """A v1beta1 object as it is stored, without its envelope."""
    converted = to_stored(kind_named(kind), OLD, {"kind": kind, **parts}).tree
    return {name: value for name, value in converted.items() if name not in ("apiVersion", "kind")}


def down(kind: str, **parts: Tree) -> Tree:
    shown = from_stored(kind_named(kind), OLD, {"kind": kind, **parts})
    return {name: value for name, value in shown.items() if name not in ("apiVersion", "kind")}


def without_one_way_respellings(tree: dict[str, Tree]) -> dict[str, Tree]:
    """What v1beta1 has two spellings for, in the newer one; what it alone has, left out (api 20)."""
    tree = copy.deepcopy(tree)
    spec = tree.get("spec")
    if isinstance(spec, dict):
        spec.pop("retryDelayMinutes", None)
        checks = spec.pop("admissionChecks", None)
        if checks:
            spec["admissionChecksStrategy"] = {"admissionChecks": [{"name": name} for name in checks]}
        fungibility = spec.get("flavorFungibility", {})
        for name, value in fungibility.items():
            if value in ("Borrow", "Preempt"):
                fungibility[name] = "MayStopSearch"
    return tree


@pytest.mark.property
@pytest.mark.slow
@for_all_kinds
@given(case=objects_of([(kind, OLD) for kind in TWO_VERSIONS]))
def test_an_older_object_comes_back_as_it_was_written(case: Case) -> None:
    kind, _, tree = case
    before = copy.deepcopy(tree)
    converted = to_stored(kind, OLD, tree)
    stored = copy.deepcopy(converted.tree)
    assert [problem for problem in converted.problems if problem.severity == "error"] == []
    assert stored["apiVersion"] == f"{kind.group}/{NEW}"
    assert from_stored(kind, OLD, converted.tree) == without_one_way_respellings(before)
    assert tree == before, "conversion changes no input"
    assert converted.tree == stored, "conversion changes no input"


@pytest.mark.property
@pytest.mark.slow
@for_all_kinds
@given(case=objects_of([(kind, NEW) for kind in TWO_VERSIONS]))
def test_a_stored_object_survives_being_shown_in_the_older_version(case: Case) -> None:
    kind, _, tree = case
    before = copy.deepcopy(tree)
    shown = from_stored(kind, OLD, tree)
    assert shown["apiVersion"] == f"{kind.group}/{OLD}"
    assert to_stored(kind, OLD, shown).tree == before
    assert tree == before, "conversion changes no input"


def test_the_stored_version_is_not_converted() -> None:
    kind, tree = kind_named("ClusterQueue"), {"spec": {"cohort": "a"}}
    assert to_stored(kind, NEW, tree).tree is tree
    assert from_stored(kind, NEW, tree) is tree


@pytest.mark.parametrize(
    ("kind", "older", "newer"),
    [
        pytest.param("ClusterQueue", {"cohort": "team"}, {"cohortName": "team"}, id="a cohort by name"),
        pytest.param(
            "MultiKueueCluster",
            {"kubeConfig": {"location": "worker"}},
            {"clusterSource": {"kubeConfig": {"location": "worker"}}},
            id="a kubeconfig within the cluster source",
        ),
        pytest.param(
            "MultiKueueCluster",
            {"clusterProfileRef": {"name": "worker"}},
            {"clusterSource": {"clusterProfileRef": {"name": "worker"}}},
            id="a cluster profile within the cluster source",
        ),
        pytest.param(
            "Workload",
            {"priorityClassName": "high", "priorityClassSource": "kueue.x-k8s.io/workloadpriorityclass"},
            {"priorityClassRef": {"group": "kueue.x-k8s.io", "kind": "WorkloadPriorityClass", "name": "high"}},
            id="a priority class of the queues",
        ),
        pytest.param(
            "Workload",
            {"priorityClassName": "high", "priorityClassSource": "scheduling.k8s.io/priorityclass"},
            {"priorityClassRef": {"group": "scheduling.k8s.io", "kind": "PriorityClass", "name": "high"}},
            id="a priority class of pods",
        ),
        pytest.param("LocalQueue", {"clusterQueue": "a"}, {"clusterQueue": "a"}, id="what is spelled alike"),
    ],
)
def test_spec_fields_have_two_spellings(kind: str, older: Tree, newer: Tree) -> None:
    assert up(kind, spec=older) == {"spec": newer}
    assert down(kind, spec=newer) == {"spec": older}


@pytest.mark.parametrize(
    ("kind", "older", "newer"),
    [
        pytest.param(
            "Workload",
            {"accumulatedPastExexcutionTimeSeconds": 7},
            {"accumulatedPastExecutionTimeSeconds": 7},
            id="the misspelled seconds",
        ),
        pytest.param("LocalQueue", {"flavorUsage": []}, {"flavorsUsage": []}, id="the usage of flavors"),
    ],
)
def test_status_fields_have_two_spellings(kind: str, older: Tree, newer: Tree) -> None:
    assert up(kind, status=older)["status"] == newer
    assert down(kind, status=newer)["status"] == older


def test_a_list_of_checks_becomes_a_strategy_and_stays_one() -> None:
    strategy = {"admissionChecksStrategy": {"admissionChecks": [{"name": "a"}, {"name": "b"}]}}
    assert up("ClusterQueue", spec={"admissionChecks": ["a", "b"]}) == {"spec": strategy}
    assert down("ClusterQueue", spec=strategy) == {"spec": strategy}


def test_an_empty_list_of_checks_is_no_strategy() -> None:
    assert up("ClusterQueue", spec={"admissionChecks": []}) == {"spec": {}}


def test_both_ways_to_name_checks_at_once_are_an_error() -> None:
    spec = {"admissionChecks": ["a"], "admissionChecksStrategy": {"admissionChecks": [{"name": "b"}]}}
    problems = to_stored(kind_named("ClusterQueue"), OLD, {"spec": spec}).problems
    assert [(problem.path, problem.severity) for problem in problems] == [("spec.admissionChecks", "error")]


def test_borrow_and_preempt_become_may_stop_search_and_stay_so() -> None:
    older = {"flavorFungibility": {"whenCanBorrow": "Borrow", "whenCanPreempt": "Preempt"}}
    newer = {"flavorFungibility": {"whenCanBorrow": "MayStopSearch", "whenCanPreempt": "MayStopSearch"}}
    assert up("ClusterQueue", spec=older) == {"spec": newer}
    assert down("ClusterQueue", spec=newer) == {"spec": newer}


def test_minutes_between_retries_are_dropped_with_a_warning() -> None:
    tree = {"spec": {"controllerName": "a", "retryDelayMinutes": 15}}
    converted = to_stored(kind_named("AdmissionCheck"), OLD, tree)
    assert converted.tree["spec"] == {"controllerName": "a"}
    assert [(problem.path, problem.severity) for problem in converted.problems] == [
        ("spec.retryDelayMinutes", "warning")
    ]


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        ({"priorityClassName": "high"}, "spec.priorityClassSource"),
        ({"priorityClassSource": "scheduling.k8s.io/priorityclass"}, "spec.priorityClassName"),
    ],
)
def test_half_a_reference_to_a_priority_class_is_an_error(spec: Tree, path: str) -> None:
    problems = to_stored(kind_named("Workload"), OLD, {"spec": spec}).problems
    assert [(problem.path, problem.cause) for problem in problems] == [(path, "Required")]


@pytest.mark.parametrize(
    ("block", "stored"),
    [
        ({"enable": True, "timeout": "5m"}, {"timeout": "5m"}),
        ({"enable": False, "timeout": "5m"}, None),
        ({"timeout": "5m"}, None),
    ],
)
def test_a_configuration_block_that_is_not_enabled_is_absent(block: Tree, stored: Tree) -> None:
    assert up("Configuration", waitForPodsReady=block).get("waitForPodsReady") == stored


def test_fair_sharing_that_is_enabled_gets_both_strategies() -> None:
    both = {"preemptionStrategies": ["LessThanOrEqualToFinalShare", "LessThanInitialShare"]}
    one = {"preemptionStrategies": ["LessThanInitialShare"]}
    assert up("Configuration", fairSharing={"enable": True}) == {"fairSharing": both}
    assert up("Configuration", fairSharing={"enable": True, **one}) == {"fairSharing": one}
    assert up("Configuration", fairSharing={}) == {}


@pytest.mark.parametrize("kind", TWO_VERSIONS, ids=named)
def test_a_block_that_is_absent_stays_absent(kind: Kind) -> None:
    bare: dict[str, Tree] = {"apiVersion": f"{kind.group}/{OLD}", "kind": kind.name, "metadata": {"name": "a"}}
    stored = to_stored(kind, OLD, bare).tree
    assert set(stored) == set(bare)
    assert from_stored(kind, OLD, stored) == bare


@pytest.mark.parametrize(
    ("kind", "stored", "written"),
    [
        ("ClusterQueue", "spec.cohortName", "spec.cohort"),
        ("ClusterQueue", "spec.cohortNameless", "spec.cohortNameless"),
        ("LocalQueue", "status.flavorsUsage[0].name", "status.flavorUsage[0].name"),
        ("MultiKueueCluster", "spec.clusterSource.kubeConfig.location", "spec.kubeConfig.location"),
        ("Workload", "spec.podSets[0].count", "spec.podSets[0].count"),
    ],
)
def test_problems_are_told_where_the_user_wrote(kind: str, stored: str, written: str) -> None:
    assert older_path(kind_named(kind), OLD, stored) == written
    assert older_path(kind_named(kind), NEW, stored) == stored


def test_kinds_are_found_in_every_version_they_are_served_in() -> None:
    for kind in KINDS:
        for version in kind.versions:
            assert find_kind(f"{kind.group}/{version}" if kind.group else version, kind.name) is kind
    assert find_kind("kueue.x-k8s.io/v1", "ClusterQueue") is None
    assert kind_of(kind_named("Cohort").type).plural == "cohorts"


# --- kinds that a second group serves --------------------------------------------------------------------------------


@pytest.mark.property
@pytest.mark.slow
@for_all_kinds
@given(case=objects_of([(kind, kind.versions[0]) for kind in VIEWS]))
def test_an_object_of_a_second_group_comes_back_as_it_was_written(case: Case) -> None:
    kind, version, tree = case
    before = copy.deepcopy(tree)
    converted = to_stored(kind, version, tree)
    assert not converted.problems
    assert converted.tree["apiVersion"] == kind.stored.api_version
    assert from_stored(kind, version, converted.tree) == before
    assert tree == before, "conversion changes no input"


@pytest.mark.property
@pytest.mark.slow
@for_all_kinds
@given(case=objects_of([(kind.stored, kind.stored.versions[0]) for kind in VIEWS]))
def test_a_stored_object_survives_being_shown_in_a_second_group(case: Case) -> None:
    stored, _, tree = case
    before = copy.deepcopy(tree)
    (view,) = (kind for kind in VIEWS if kind.stored is stored)
    shown = from_stored(view, view.versions[0], tree)
    assert shown["apiVersion"] == view.api_version
    assert set(shown) <= {"kind", *view.shape(view.versions[0]).fields}
    assert to_stored(view, view.versions[0], shown).tree == before
    assert tree == before, "conversion changes no input"


def test_a_view_is_found_by_its_own_name_and_kept_under_another() -> None:
    assert {(kind.api_version, kind.stored.api_version) for kind in VIEWS} == {
        ("events.k8s.io/v1", "v1"), ("scheduling.makeway.dev/v1alpha1", "scheduling.k8s.io/v1alpha1"),
    }  # fmt: skip
    for kind in VIEWS:
        assert find_kind(kind.api_version, kind.name) is kind
        assert not kind.is_stored_as(kind.versions[0])
        assert kind.stored.stored is kind.stored
        assert kind.plural == kind.stored.plural
        assert kind.namespaced == kind.stored.namespaced


def test_every_field_of_an_event_has_its_name_in_both_groups() -> None:
    whole: dict[str, Tree] = {name: {"of": name} for name in CORE_EVENTS.shape("v1").fields}
    shown = from_stored(EVENTS_V1, "v1", {**whole, "apiVersion": "v1", "kind": "Event"})
    assert set(shown) == set(EVENTS_V1.shape("v1").fields)
    names = {each["of"]: name for name, each in shown.items() if name not in ("apiVersion", "kind")}
    assert {old: new for old, new in names.items() if old != new} == {
        "involvedObject": "regarding", "message": "note", "reportingComponent": "reportingController",
        "source": "deprecatedSource", "firstTimestamp": "deprecatedFirstTimestamp",
        "lastTimestamp": "deprecatedLastTimestamp", "count": "deprecatedCount",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("stored", "written"),
    [
        ("involvedObject.namespace", "regarding.namespace"),
        ("reportingComponent", "reportingController"),
        ("series.count", "series.count"),
        ("metadata.name", "metadata.name"),
    ],
)
def test_a_path_of_an_event_is_known_in_both_groups(stored: str, written: str) -> None:
    assert older_path(EVENTS_V1, "v1", stored) == written
    assert stored_path(EVENTS_V1, "v1", written) == stored
    assert older_path(CORE_EVENTS, "v1", stored) == stored_path(CORE_EVENTS, "v1", stored) == stored


@pytest.mark.parametrize("mode", ["Ignore", "Warn", "Strict"])
def test_words_of_the_other_group_are_unknown_fields_whatever_they_hold(mode: Mode) -> None:
    tree: dict[str, Tree] = {"apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": "e"}}
    odd: dict[str, Tree] = {"count": None, "message": 5, "involvedObject": [], "source": "x", "firstTimestamp": {}}
    value = codec.read({**tree, **odd, "note": "words", "eventTime": "2026-01-01T00:00:00.000000Z"}, mode).value
    assert isinstance(value, Event)
    assert (value.count, value.message) == (0, "words")


@pytest.mark.parametrize("version", ["v1beta1", "v1beta2"])
def test_advice_about_a_field_hides_no_error_in_it(version: str) -> None:
    tree: dict[str, Tree] = {"apiVersion": f"kueue.x-k8s.io/{version}", "kind": "ResourceFlavor"}
    read = codec.read({**tree, "metadata": {"name": "f"}, "spec": {"topologyName": "Not a name"}})
    assert [(each.path, each.severity) for each in sorted(read.problems, key=lambda each: each.severity)] == [
        ("spec.topologyName", "error"), ("spec.topologyName", "warning"),
    ]  # fmt: skip
