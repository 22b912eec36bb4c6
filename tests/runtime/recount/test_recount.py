"""Counting anew: nothing to report where all is well, and every kind of difference where one was planted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from makeway.api.codec import read
from makeway.controllers.contract import WORKLOAD, Ref
from makeway.core.lowering import load_state
from makeway.core.model import FlavorName, Millis, QueueName, ResourceName
from makeway.core.policy import Policy
from makeway.core.state import State
from makeway.runtime.metrics.exposition import Counter
from makeway.runtime.metrics.registry import MetricsRegistry
from makeway.runtime.recount.recount import Mismatch, recount
from makeway.testing.builders import FR_CPU
from makeway.testing.builders import holder as model_holder
from tests.controllers.views import FakeView
from tests.runtime.wires import cluster_queue, cohort, condition, flavor, holder, local_queue, option, workload

NOW = Millis(1_767_225_600_000)
Q = QueueName("q")
FR = (FlavorName("f"), ResourceName("cpu"))


def world() -> list[Any]:
    """Two queues in a cohort of a cohort, one with a lending limit; holders of all sorts, one on a deleted flavor."""
    return [
        flavor(), cohort("top", 2), cohort("r", 3, parentName="top"),
        cluster_queue("q", 4, cohortName="r", limits={"lendingLimit": "1"}), cluster_queue("p", 2, cohortName="r"),
        local_queue(), local_queue("other", "p"), local_queue("stopped", stopPolicy="Hold"),
        holder("a", 6), holder("b", "500m", admitted=False), holder("c", {"gone": {"cpu": 2}}),
        holder("shrunk", 4, count=4, status={"reclaimablePods": [{"name": "main", "count": 3}]}),
        holder("elsewhere", 3, queue="p", local="other"),
        holder("off", admitted=False, active=False), holder("done", 1, condition("Finished")),
        workload("parent", workloadMode={"type": "Parent"}, status={"options": [{"name": "x", "status": "Admitted"}]}),
        holder("x0", **option("parent")), holder("x1", admitted=False, **option("parent")),
        workload("x2", **option("parent")), workload("y0", **option("y")), workload("y1", **option("y")),
        workload("w"), workload("held", condition("QuotaReserved", False, "OnHold")), workload("v", local="stopped"),
        workload("gated", meta={"annotations": {"kueue.x-k8s.io/admission-gated-by": "me"}}),
    ]  # fmt: skip


def measured(objects: list[Any], **settings: Any) -> tuple[State, MetricsRegistry]:
    """As an engine would measure them: every queue that exists or that a Workload names is touched."""
    view, metrics = FakeView.of(*objects, now=NOW), MetricsRegistry(**settings)
    metrics.touch(map(QueueName, view.state.tree.queues))
    for each in view.all(WORKLOAD):
        metrics.seen(Ref.of(each).key, each)
        metrics.touch([view.queue_of(each)])
    metrics.refresh(view)
    return view.state, metrics


def test_where_all_is_well_nothing_is_told() -> None:
    state, metrics = measured(world())
    assert recount(world(), state, metrics) == []
    assert recount(world(), state) == []
    assert state.tree.queues["q"].usage[FR] == 6000 + 500 + 1000 + 2000  # the test does not compare empty tables
    assert state.tree.cohorts["r"].usage[FR] == 9500 - 3000 + 3000
    assert state.tree.cohorts["top"].subtree[FR] == 2000 + 3000 + 1000 + 2000


FAIR = Policy(fair_strategies=("LessThanOrEqualToFinalShare",))


def shared(weight: str) -> list[Any]:
    limited = {"lendingLimit": "1", "borrowingLimit": "9"}
    return [
        flavor(), cohort("top", 2), cohort("r", 3, parentName="top", fairSharing={"weight": "2"}),
        cluster_queue("q", 4, cohortName="r", limits=limited, fairSharing={"weight": weight}),
        cluster_queue("p", 2, cohortName="r"), cluster_queue("alone", 1), local_queue(), local_queue("other", "p"),
        holder("a", 7), holder("b", 4, queue="p", local="other"),
    ]  # fmt: skip


@pytest.mark.parametrize("weight", ["1", "300m", "0"])
def test_X5_shares_are_counted_anew_too(weight: str) -> None:
    objects = shared(weight)
    view, metrics = FakeView.of(*objects, policy=FAIR, now=NOW), MetricsRegistry()
    metrics.touch(map(QueueName, view.state.tree.queues))
    for each in view.all(WORKLOAD):
        metrics.seen(Ref.of(each).key, each)
    metrics.refresh(view)
    assert recount(objects, view.state, metrics) == []
    for name, labels in (("kueue_cluster_queue_weighted_share", ("q", "r")), ("kueue_cohort_weighted_share", ("r",))):
        family = metrics.registry.families[name]
        assert isinstance(family, Counter)
        right, family.values[labels] = family.values[labels], 77.5
        (told,) = recount(objects, view.state, metrics)
        assert (told.where, told.subject, told.found) == (name, labels, 77.5)
        family.values[labels] = right


# --- planted in the state -----------------------------------------------------------------------------------------


def charge_a_queue(state: State) -> None:
    state.tree.queues["q"].usage[FR] += 1


def charge_a_cohort(state: State) -> None:
    state.tree.cohorts["top"].usage[FR] = 77


def enlarge_a_cohort(state: State) -> None:
    state.tree.cohorts["r"].subtree[FR] += 1


def add_a_holder(state: State) -> None:
    state.hold(model_holder("ghost", queue="q", cpu=2, admitted=True))


def lose_a_holder(state: State) -> None:
    state.release(state.holders.of_queue[QueueName("p")]["default/elsewhere"])  # type: ignore[index]


def admit_too_early(state: State) -> None:
    each = state.holders.of_queue[Q]["default/b"]  # type: ignore[index]
    state.holders.remove(each)
    state.holders.add(each.but(admitted=True))


def forget_who_waits(state: State) -> None:
    line = state.pending.lists[Q]
    state.pending.forget(line.waiting["default/w"])  # type: ignore[index]


@pytest.mark.parametrize(
    ("plant", "found"),
    [
        (charge_a_queue, [("usage", ("q", "f", "cpu"), 9500, 9501)]),
        (charge_a_cohort, [("cohort usage", ("top", "f", "cpu"), 9500, 77)]),
        (enlarge_a_cohort, [("cohort quota", ("r", "f", "cpu"), 6000, 6001)]),
        (
            add_a_holder,
            [
                ("usage held", ("q", *FR_CPU), 0, 2000), ("usage", ("q", *FR_CPU), 0, 2000),
                ("cohort usage", ("r", *FR_CPU), 0, 2000), ("cohort usage", ("top", *FR_CPU), 0, 2000),
                ("reserving", ("q",), 5, 6), ("admitted", ("q",), 4, 5),
            ],
        ),
        (
            lose_a_holder,
            [
                ("usage held", ("p", "f", "cpu"), 3000, 0), ("usage", ("p", "f", "cpu"), 3000, 0),
                ("cohort usage", ("r", "f", "cpu"), 9500, 6500), ("cohort usage", ("top", "f", "cpu"), 9500, 6500),
                ("reserving", ("p",), 1, 0), ("admitted", ("p",), 1, 0),
            ],
        ),
        (admit_too_early, [("admitted", ("q",), 4, 5)]),
        (forget_who_waits, [("pending", ("q",), 2, 1)]),
    ],
)  # fmt: skip
def test_a_difference_in_the_state_is_found(
    plant: Callable[[State], None], found: list[tuple[str, tuple[str, ...], int, int]]
) -> None:
    state, metrics = measured(world())
    plant(state)
    assert recount(world(), state, metrics) == [Mismatch("state", *each) for each in found]


# --- planted in the metrics ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "labels"),
    [
        ("kueue_pending_workloads", ("q", "active")),
        ("kueue_reserving_active_workloads", ("q",)),
        ("kueue_admitted_active_workloads", ("q",)),
        ("kueue_finished_workloads", ("q",)),
        ("kueue_unadmitted_workloads", ("q", "NoReservation", "PendingEvaluation")),
        ("makeway_options", ("q", "Admitted")),
        ("kueue_cluster_queue_nominal_quota", ("r", "q", "f", "cpu")),
        ("kueue_cluster_queue_borrowing_limit", ("r", "q", "f", "cpu")),
        ("kueue_cluster_queue_lending_limit", ("r", "q", "f", "cpu")),
        ("kueue_cluster_queue_resource_reservation", ("r", "q", "f", "cpu")),
        ("kueue_cluster_queue_resource_usage", ("r", "q", "gone", "cpu")),
        ("kueue_cohort_subtree_quota", ("top", "f", "cpu")),
        ("kueue_cohort_subtree_resource_reservations", ("r", "f", "cpu")),
        ("kueue_cohort_subtree_admitted_active_workloads", ("top",)),
        ("kueue_cohort_info", ("r", "top", "top")),
        ("kueue_cluster_queue_info", ("q", "r", "top")),
        ("kueue_cluster_queue_resource_pending", ("q", "cpu")),
        ("kueue_local_queue_pending_workloads", ("lq", "default", "active")),
        ("kueue_local_queue_reserving_active_workloads", ("other", "default")),
        ("kueue_local_queue_admitted_active_workloads", ("lq", "default")),
        ("kueue_local_queue_finished_workloads", ("lq", "default")),
        ("kueue_local_queue_unadmitted_workloads", ("lq", "default", "q", "NoReservation", "PendingEvaluation")),
        ("kueue_local_queue_resource_reservation", ("lq", "default", "f", "cpu")),
        ("kueue_local_queue_resource_usage", ("other", "default", "f", "cpu")),
    ],
)
def test_a_difference_in_a_metric_is_found(name: str, labels: tuple[str, ...]) -> None:
    state, metrics = measured(world())
    family = metrics.registry.families[name]
    assert isinstance(family, Counter)
    assert family.values[labels], "a series that counts nothing proves nothing"
    family.values[labels] = 123_456
    (found,) = recount(world(), state, metrics)
    subject = labels[:-1] if name.endswith("pending_workloads") else labels
    assert (found.where, found.subject, found.found >= 123_456) == (name, subject, True)
    assert name in str(found)


def test_a_series_that_nobody_stands_behind_is_found() -> None:
    state, metrics = measured(world())
    family = metrics.registry.families["kueue_reserving_active_workloads"]
    assert isinstance(family, Counter)
    family.values["nobody",] = 1
    assert recount(world(), state, metrics) == [
        Mismatch("kueue_reserving_active_workloads", "value", ("nobody",), 0, 1)
    ]


def test_classes_that_are_too_many_or_too_few_are_found() -> None:
    state, metrics = measured(world())
    family = metrics.registry.families["kueue_pending_scheduling_hashes"]
    assert isinstance(family, Counter)
    (right,) = {value for labels, value in family.values.items() if labels == ("q", "active")}
    for wrong in (right + 1, right - 1):
        family.values["q", "active"] = wrong
        (told,) = recount(world(), state, metrics)
        assert (told.where, told.subject, told.counted) == ("kueue_pending_scheduling_hashes", ("q",), right)


def test_an_active_workload_in_a_stopped_queue_is_found() -> None:
    objects = [flavor(), cluster_queue(stopPolicy="Hold"), local_queue(), workload("w")]
    state, metrics = measured(objects)
    assert recount(objects, state, metrics) == []
    family = metrics.registry.families["kueue_pending_workloads"]
    assert isinstance(family, Counter)
    family.values.update({("q", "active"): 1, ("q", "inadmissible"): 0})
    assert recount(objects, state, metrics) == [Mismatch("kueue_pending_workloads", "active", ("q",), 0, 1)]


def test_gauges_that_are_switched_off_are_not_missed() -> None:
    state, metrics = measured(world(), queue_resources=False, local_queues=False)
    assert recount(world(), state, metrics) == []


# --- rules that the count goes by ---------------------------------------------------------------------------------


def test_a_workload_more_in_the_objects_is_a_difference_the_other_way() -> None:
    state, _ = measured(world())
    found = recount([*world(), workload("late")], state)
    assert found == [Mismatch("state", "pending", ("q",), 3, 2)]
    assert str(found[0]) == "state: pending of q is 2, the objects say 3"


def test_options_wait_only_while_their_parent_might() -> None:
    """The Parent's gates and hold count for the whole family (S-3.5)."""
    gated = {"annotations": {"kueue.x-k8s.io/admission-gated-by": "me"}}
    parent = workload("p", meta=gated, workloadMode={"type": "Parent"})
    objects = [flavor(), cluster_queue(), local_queue(), parent, workload("o", **option("p"))]
    free = [*objects[:3], workload("p", workloadMode={"type": "Parent"}), objects[4]]
    state = load_state(free, Policy(), NOW).state
    assert recount(free, state) == []
    assert recount(objects, state) == [Mismatch("state", "pending", ("q",), 0, 1)]


def test_returned_pods_count_only_where_the_gate_is_on() -> None:
    off = replace(Policy(), gates=replace(Policy().gates, reclaimable_pods=False))
    state = load_state(world(), off, NOW).state
    assert recount(world(), state) == []
    state.policy = Policy()
    assert ("usage", ("q", "f", "cpu"), 9500, 12500) in [each[1:] for each in recount(world(), state)]


def test_demand_is_what_pods_get_from_their_surroundings() -> None:
    limits = [{"type": "Container", "defaultRequest": {"memory": "1Gi"}}]
    ranges = read({"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "l", "namespace": "default"},
                   "spec": {"limits": limits}}).value  # fmt: skip
    runtime = read({"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "sandboxed"},
                    "handler": "h", "overhead": {"podFixed": {"cpu": "2"}}}).value  # fmt: skip
    pod = {"containers": [{"name": "c"}], "runtimeClassName": "sandboxed"}
    pod_sets = [{"name": "main", "count": 3, "template": {"spec": pod}}]
    quota = {"f": {"cpu": 1, "memory": 1, "pods": 1}}
    objects: list[Any] = [
        flavor(), cluster_queue("q", quota), local_queue(), workload("w", podSets=pod_sets), ranges, runtime,
    ]  # fmt: skip
    state, metrics = measured(objects)
    assert recount(objects, state, metrics) == []
    family = metrics.registry.families["kueue_cluster_queue_resource_pending"]
    assert isinstance(family, Counter)
    assert family.values == {("q", "cpu"): 6, ("q", "memory"): 3 * 2**30, ("q", "pods"): 3}


# --- always -------------------------------------------------------------------------------------------------------

AMOUNTS = st.sampled_from((0, 1, 2, 7, "500m", "9e15", "1e30"))  # two of the last but one, or one of the last, is more
QUEUES = st.sampled_from(("q", "p", "missing"))
LOCALS = st.sampled_from(("lq", "other", "stopped", "nowhere", ""))
CONDITIONS = st.sampled_from(((), ("Finished",), ("Evicted",), ("WaitingForReplacementPods",)))
HOLDERS = st.fixed_dictionaries(
    {
        "use": AMOUNTS.flatmap(lambda n: st.sampled_from(("f", "gone")).map(lambda name: {name: {"cpu": n}})),
        "queue": QUEUES,
        "local": LOCALS,
        "admitted": st.booleans(),
        "active": st.booleans(),
        "count": st.integers(1, 3),
        "says_count": st.booleans(),
        "returned": st.integers(0, 3),
        "family": st.sampled_from((None, None, "x", "y")),
        "conditions": CONDITIONS,
    }
)
WAITING = st.fixed_dictionaries(
    {
        "local": LOCALS, "active": st.booleans(), "family": st.sampled_from((None, None, "x", "y")),
        "conditions": CONDITIONS,
    }
)  # fmt: skip
SHAPES = st.fixed_dictionaries(
    {
        "nominal": AMOUNTS,
        "lending": st.sampled_from((None, 0, 1, 5)),
        "above": st.sampled_from(("", "top", "r")),  # "r" above itself is a cycle
        "cohort": st.sampled_from(("", "r", "only-named")),
    }
)


BEHIND = {"lq": "q", "other": "p", "stopped": "q"}


def drawn(shape: dict[str, Any], held: list[dict[str, Any]], waiting: list[dict[str, Any]]) -> list[Any]:
    """All of it as objects. A family has its Options in one queue (S-12.1)."""
    limits = {} if shape["lending"] is None else {"lendingLimit": str(shape["lending"])}
    objects: list[Any] = [
        flavor(), cohort("top", 2), cohort("r", 3, parentName=shape["above"]),
        cluster_queue("q", shape["nominal"], cohortName=shape["cohort"], limits=limits),
        cluster_queue("p", 2, cohortName="r"),
        local_queue(), local_queue("other", "p"), local_queue("stopped", stopPolicy="Hold"),
    ]  # fmt: skip
    for index, each in enumerate(held):
        more = {key: each[key] for key in ("queue", "local", "admitted", "active", "count", "says_count")}
        back = {"reclaimablePods": [{"name": "main", "count": min(each["returned"], each["count"])}]}
        kin = {} if each["family"] is None else option(f"{each['family']}-{each['queue']}")
        said = map(condition, each["conditions"])
        objects.append(holder(f"h{index}", each["use"], *said, status=back, **more, **kin))
    for index, each in enumerate(waiting):
        kin = {} if each["family"] is None else option(f"{each['family']}-{BEHIND.get(each['local'], '')}")
        said = map(condition, each["conditions"])
        objects.append(workload(f"w{index}", *said, local=each["local"], active=each["active"], **kin))
    return objects


@pytest.mark.property
@given(SHAPES, st.lists(HOLDERS, max_size=6), st.lists(WAITING, max_size=4))
def test_whatever_is_stored_state_and_metrics_agree_with_it(
    shape: dict[str, Any], held: list[dict[str, Any]], waiting: list[dict[str, Any]]
) -> None:
    objects = drawn(shape, held, waiting)
    state, metrics = measured(objects)
    assert list(map(str, recount(objects, state, metrics))) == []
