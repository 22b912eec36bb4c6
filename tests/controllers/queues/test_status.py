"""What queues show, when it is written, and which objects may be deleted."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from makeway.api.conditions import find
from makeway.api.names import MULTIKUEUE_CONTROLLER, PROVISIONING_CONTROLLER
from makeway.api.objects.queueing import ClusterQueue, LocalQueue
from makeway.controllers.contract import CLUSTER_QUEUE, COHORT, LOCAL_QUEUE, Change, Outcome, Ref
from makeway.controllers.queues.status import INTERVAL_MS, ROWS_MAX, QueueStatus
from makeway.core.lowering import inactive_reasons
from makeway.core.model import Millis
from makeway.core.policy import Policy
from tests.controllers.views import FakeView, edited
from tests.runtime.wires import (
    IN_USE,
    NOON,
    check,
    cluster_queue,
    cohort,
    condition,
    flavor,
    holder,
    local_queue,
    option,
    wire,
    workload,
)

NOW = Millis(1_767_225_600_000)
Q = Ref(CLUSTER_QUEUE, "", "q")
LQ = Ref(LOCAL_QUEUE, "default", "lq")
GOING: dict[str, Any] = {"deletionTimestamp": NOON}


def settled(*objects: Any) -> FakeView:
    """Reconcile everything until nothing is left to write."""
    view = FakeView.of(*objects, now=NOW)
    queues = [ref for ref in view.objects if ref.kind in ("ClusterQueue", "LocalQueue", "Cohort")]
    view.settle(QueueStatus(), *queues, now=NOW)
    return view


def status(view: FakeView, ref: Ref = Q) -> Any:
    found = view.objects[ref]
    assert isinstance(found, ClusterQueue | LocalQueue)
    assert found.status is not None
    return found.status


def rows(flavors: Any) -> list[tuple[str, ...]]:
    return [
        (flavor.name, row.name, str(row.total), *([str(row.borrowed)] if hasattr(row, "borrowed") else []))
        for flavor in flavors
        for row in flavor.resources
    ]


def change(outcome: Outcome) -> Change[Any]:
    (action,) = outcome.actions
    assert isinstance(action.write, Change)
    return action.write


# --- figures ----------------------------------------------------------------------------------------------------------


def test_counts_and_usage_of_both_kinds_of_queues() -> None:
    view = settled(
        cluster_queue("q", 2, cohortName="r"), cluster_queue("lender", 9, cohortName="r"), flavor(),
        local_queue(), local_queue("other"),
        holder("a", 2), holder("b", "1500m", admitted=False), holder("c", 1, local="other"),
        workload("w"), workload("x"), workload("y", local="other"),
        workload("done", condition("Finished")), workload("off", active=False),
    )  # fmt: skip
    shown = status(view)
    assert (shown.pending_workloads, shown.reserving_workloads, shown.admitted_workloads) == (3, 3, 2)
    assert rows(shown.flavors_reservation) == [("f", "cpu", "4500m", "2500m")]
    assert rows(shown.flavors_usage) == [("f", "cpu", "3", "1")]
    local = status(view, LQ)
    assert (local.pending_workloads, local.reserving_workloads, local.admitted_workloads) == (2, 2, 1)
    assert rows(local.flavors_reservation) == [("f", "cpu", "3500m")]
    assert rows(local.flavors_usage) == [("f", "cpu", "2")]


def test_tables_go_by_the_order_in_which_flavors_and_resources_are_declared() -> None:
    quota = {"z": {"memory": "2Gi", "cpu": 1}, "a": {"memory": "1Gi", "cpu": 1}}
    view = settled(cluster_queue("q", quota), flavor("z"), flavor("a"), holder("h", {"a": {"cpu": 1, "memory": "1Gi"}}))
    assert rows(status(view).flavors_usage) == [
        ("z", "memory", "0", "0"), ("z", "cpu", "0", "0"), ("a", "memory", "1Gi", "0"), ("a", "cpu", "1", "0"),
    ]  # fmt: skip


def test_p19_who_runs_on_what_was_deleted_stays_visible_as_over_use() -> None:
    """The queue declared memory, and the flavors also and gone, when these started."""
    view = settled(
        cluster_queue("q", 4, cohortName="r"), flavor(), local_queue(),
        holder("a", {"f": {"cpu": 1, "memory": "1Gi"}}), holder("b", {"gone": {"cpu": 2}}, admitted=False),
        holder("c", {"also": {"cpu": 1, "pods": 0}}, admitted=False),
    )  # fmt: skip
    over = [
        ("f", "cpu", "1", "0"), ("f", "memory", "1Gi", "1Gi"), ("also", "cpu", "1", "1"), ("gone", "cpu", "2", "2"),
    ]  # fmt: skip
    assert rows(status(view).flavors_reservation) == over
    assert rows(status(view).flavors_usage) == over[:2]
    assert rows(status(view, LQ).flavors_reservation) == [row[:3] for row in over]


def test_p21_amounts_beyond_64_bits_are_shown_as_the_most_there_is() -> None:
    huge = {"f": {"pods": 2**63}}
    view = settled(cluster_queue("q", huge), flavor(), holder("a", huge), holder("b", huge))
    assert rows(status(view).flavors_usage) == [("f", "pods", str(2**63 - 1), "0")]


def test_a_family_counts_once_as_its_best_option() -> None:
    """S-12.18: in one an Option is admitted, in one reserved, in one all wait; an ordinary workload waits too."""
    view = settled(
        cluster_queue(), flavor(), local_queue(),
        holder("a0", **option("a")), holder("a1", admitted=False, **option("a")), workload("a2", **option("a")),
        holder("b0", admitted=False, **option("b")), workload("b1", **option("b")),
        workload("c0", **option("c")), workload("c1", condition("Requeued", False), **option("c")), workload("d"),
        *(workload(name, workloadMode={"type": "Parent"}) for name in "abc"),
    )  # fmt: skip
    for shown in (status(view), status(view, LQ)):
        assert (shown.pending_workloads, shown.reserving_workloads, shown.admitted_workloads) == (2, 2, 1)
    assert rows(status(view).flavors_reservation) == [("f", "cpu", "3", "0")]  # every reservation counts


def test_more_flavors_than_a_status_may_hold_give_way_if_nobody_uses_them() -> None:
    quota = {f"f{i:03}": {"cpu": 1} for i in range(ROWS_MAX + 6)}
    flavors = [flavor(name) for name in quota]
    view = settled(cluster_queue("q", quota), *flavors, holder("a", {"f069": {"cpu": 1}}))
    shown = [each.name for each in status(view).flavors_usage]
    assert shown == [*list(quota)[: ROWS_MAX - 1], "f069"]


def test_conditions_of_others_are_left_alone() -> None:
    theirs = wire("ClusterQueue", "q", {}, {"conditions": [condition("Theirs")]}).status
    view = settled(msgspec.structs.replace(cluster_queue(), status=theirs), flavor())
    assert find(status(view).conditions, "Theirs") == theirs.conditions[0]


# --- shares -----------------------------------------------------------------------------------------------------------

FAIR = Policy(fair_strategies=("LessThanOrEqualToFinalShare",))


def shared(*weights: str, policy: Policy = FAIR) -> FakeView:
    """Two queues of a cohort below another; the first uses 10 of its 4, the second nothing, 20 could be lent."""
    first, second, above = ({"weight": weight} for weight in (*weights, "1", "1", "1")[:3])
    view = FakeView.of(
        cohort("r", 6, parentName="top", fairSharing=above), cohort("top", 10), flavor(), local_queue(),
        cluster_queue("q", 4, cohortName="r", fairSharing=first),
        cluster_queue("other", 0, cohortName="r", fairSharing=second),
        holder("a", 6), holder("b", 4, admitted=False), policy=policy, now=NOW,
    )  # fmt: skip
    view.settle(QueueStatus(), *(ref for ref in view.objects if ref.kind in ("ClusterQueue", "Cohort")), now=NOW)
    return view


def shares(view: FakeView) -> dict[str, int | None]:
    found = {ref.name: each.status for ref, each in view.objects.items() if ref.kind in ("ClusterQueue", "Cohort")}
    return {
        name: None if each is None or each.fair_sharing is None else each.fair_sharing.weighted_share
        for name, each in found.items()
    }


@pytest.mark.parametrize(
    ("weights", "shown"),
    [
        (("1",), {"q": 300, "other": 0, "r": 0, "top": 0}),
        (("2",), {"q": 150, "other": 0, "r": 0, "top": 0}),
        (("7",), {"q": 43, "other": 0, "r": 0, "top": 0}),  # 42.86, rounded up
        (("0", "0"), {"q": 2**63 - 1, "other": 0, "r": 0, "top": 0}),
    ],
)
def test_P20_with_fair_sharing_queues_and_cohorts_show_their_shares(
    weights: tuple[str, ...], shown: dict[str, int]
) -> None:
    """S-9.3: all reservations count, admitted or not."""
    assert shares(shared(*weights)) == shown


def test_without_fair_sharing_there_is_no_share_and_an_old_one_goes() -> None:
    view = shared()
    view.policy, view._state = Policy(), None
    view.settle(QueueStatus(), *(ref for ref in view.objects if ref.kind in ("ClusterQueue", "Cohort")), now=NOW)
    assert shares(view) == {"q": None, "other": None, "r": None, "top": None}


def test_the_share_of_a_cohort_is_written_at_most_once_in_an_interval() -> None:
    view, controller, r = shared(), QueueStatus(), Ref(COHORT, "", "r")
    assert controller.react(r, view, NOW).actions == ()
    for size in (12, 14):
        view.put(holder("a", size))
        outcome = controller.react(r, view, NOW)
        if size == 12:
            view.apply(outcome)
            assert shares(view)["r"] == 300, "6 above its 10 of 20"
    assert outcome.again_at == NOW + INTERVAL_MS
    assert outcome.actions == ()


# --- Active -----------------------------------------------------------------------------------------------------------

MK: dict[str, Any] = {"controller": MULTIKUEUE_CONTROLLER}
PROVISION: dict[str, Any] = {"controller": PROVISIONING_CONTROLLER}


def checks(*names: str, **on_flavors: list[str]) -> dict[str, Any]:
    rules = [{"name": name, "onFlavors": on_flavors.get(name, [])} for name in names]
    return {"admissionChecksStrategy": {"admissionChecks": rules}}


@pytest.mark.parametrize(
    ("queue", "others", "reasons"),
    [
        (cluster_queue(), [flavor()], []),
        (cluster_queue(meta=GOING), [flavor()], ["Terminating"]),
        (cluster_queue(stopPolicy="Hold"), [flavor()], ["Stopped"]),
        (cluster_queue(stopPolicy="HoldAndDrain"), [], ["Stopped", "FlavorNotFound"]),
        (cluster_queue(meta=GOING, stopPolicy="Hold"), [flavor()], ["Terminating", "Stopped"]),
        (cluster_queue(), [], ["FlavorNotFound"]),
        (cluster_queue(**checks("a")), [flavor()], ["AdmissionCheckNotFound"]),
        (cluster_queue(**checks("a")), [flavor(), check("a")], []),
        (cluster_queue(**checks("a")), [flavor(), check("a", active=False)], ["AdmissionCheckInactive"]),
        (
            cluster_queue(**checks("a", "b")),
            [check("b", active=False)],
            ["FlavorNotFound", "AdmissionCheckNotFound", "AdmissionCheckInactive"],
        ),
        (
            cluster_queue(**checks("a", "b")),
            [flavor(), check("a", **MK), check("b", **MK)],
            ["MultipleMultiKueueAdmissionChecks"],
        ),
        (cluster_queue(**checks("a", a=["f"])), [flavor(), check("a", **MK)], []),  # all flavors there are
        (
            cluster_queue("q", {"f": {"cpu": 1}, "g": {"cpu": 1}}, **checks("a", a=["f"])),
            [flavor(), flavor("g"), check("a", **MK)],
            ["MultiKueueAdmissionCheckAppliedPerFlavor"],
        ),
        (
            cluster_queue(**checks("a", "b")),
            [flavor(), check("a", **MK), check("b", **PROVISION)],
            ["MultiKueueWithProvisioningRequest"],
        ),
        (cluster_queue(), [flavor(topologyName="t", nodeLabels={"a": "b"})], ["TopologyNotFound"]),
        (
            cluster_queue(cohortName="a"),
            [flavor(), cohort("a", parentName="b"), cohort("b", parentName="a")],
            ["Unknown"],
        ),
    ],
)
def test_the_first_reason_counts_and_the_message_has_all(
    queue: ClusterQueue, others: list[Any], reasons: list[str]
) -> None:
    view = FakeView.of(queue, *others, holder("a"), now=NOW)
    view.settle(QueueStatus(), Q, now=NOW)
    active = find(status(view).conditions, "Active")
    assert active is not None
    in_cycle = view.state.tree.queues["q"].in_cycle
    found = inactive_reasons(queue, lambda kind, name: view.get(Ref.named(kind, "", name)), in_cycle=in_cycle)
    assert [each.name for each in found] == reasons
    assert (active.status, active.reason) == (("False", reasons[0]) if reasons else ("True", "Ready"))
    assert all(each.words in active.message for each in found)
    assert active.observed_generation == 1


@pytest.mark.parametrize(
    ("queue", "others", "reason", "words"),
    [
        (local_queue(), [cluster_queue(), flavor()], "Ready", []),
        (local_queue(stopPolicy="Hold"), [cluster_queue(), flavor()], "Stopped", ["Hold"]),
        (local_queue(), [], "ClusterQueueDoesNotExist", ["ClusterQueue q not found"]),
        (local_queue(), [cluster_queue()], "ClusterQueueIsInactive", ["ClusterQueue q is inactive"]),
        (local_queue(stopPolicy="Hold"), [], "Stopped", ["Hold", "ClusterQueue q not found"]),
        (
            local_queue(),
            [cluster_queue(cohortName="a"), flavor(), cohort("a", parentName="a")],
            "ClusterQueueIsInactive",
            ["ClusterQueue q is inactive"],
        ),
    ],
)
def test_a_local_queue_is_active_if_it_leads_somewhere(
    queue: LocalQueue, others: list[Any], reason: str, words: list[str]
) -> None:
    active = find(status(settled(queue, *others), LQ).conditions, "Active")
    assert active is not None
    assert (active.reason, active.status) == (reason, "True" if reason == "Ready" else "False")
    assert all(each in active.message for each in words)


# --- when it is written -----------------------------------------------------------------------------------------------


def at(ms: int) -> Millis:
    return Millis(NOW + ms)


def test_what_is_as_it_should_be_is_left_alone() -> None:
    view, controller = FakeView.of(cluster_queue(), flavor(), local_queue(), holder("a"), now=NOW), QueueStatus()
    assert view.apply(controller.react(Q, view, NOW))
    assert controller.react(Q, view, at(1)) == Outcome()
    assert controller.react(Q, view, at(INTERVAL_MS)) == Outcome()


def test_figures_are_written_once_a_second_and_not_counted_in_between() -> None:
    view, controller = FakeView.of(cluster_queue(), flavor(), local_queue(), now=NOW), QueueStatus()
    view.apply(controller.react(Q, view, NOW))
    for i in range(50):
        view.put(holder(f"h{i}"))
        assert controller.react(Q, view, at(10 * i)) == Outcome(again_at=at(INTERVAL_MS))
    assert controller.counts == 2  # the first, and one to see that something differs
    assert view.apply(controller.react(Q, view, at(INTERVAL_MS)))
    assert status(view).reserving_workloads == 50
    assert len(view.written) == 2
    view.put(holder("late"))
    assert controller.react(Q, view, at(INTERVAL_MS + 1)) == Outcome(again_at=at(2 * INTERVAL_MS))


def test_the_pace_is_that_of_each_object() -> None:
    view, controller = FakeView.of(cluster_queue(), flavor(), local_queue(), now=NOW), QueueStatus()
    view.apply(controller.react(Q, view, NOW))
    assert controller.react(LQ, view, at(1)).actions


def test_whether_a_queue_is_active_is_written_at_once() -> None:
    view, controller = FakeView.of(cluster_queue(), flavor(), now=NOW), QueueStatus()
    view.apply(controller.react(Q, view, NOW))
    view.put(msgspec.structs.replace(cluster_queue(stopPolicy="Hold"), status=status(view)))
    view.put(holder("a"))
    assert view.apply(controller.react(Q, view, at(1)))
    active = find(status(view).conditions, "Active")
    assert active is not None
    assert (active.reason, status(view).reserving_workloads) == ("Stopped", 1)


def test_a_queue_that_is_made_again_does_not_wait_for_the_one_before() -> None:
    """It comes with the status of the one before, as from a backup: only its figures differ."""
    view, controller = FakeView.of(cluster_queue(), flavor(), now=NOW), QueueStatus()
    view.apply(controller.react(Q, view, NOW))
    before = view.objects[Q]
    assert controller.react(Q, FakeView.of(flavor(), now=NOW), at(1)) == Outcome()
    assert controller.react(Q, FakeView.of(before, flavor(), holder("a"), now=NOW), at(2)).actions


def test_an_edit_is_made_again_from_a_newer_object() -> None:
    """Between the decision and the write another writer has set a condition."""
    view = FakeView.of(cluster_queue(), flavor(), now=NOW)
    write = change(QueueStatus().react(Q, view, NOW))
    theirs = wire("ClusterQueue", "q", {}, {"conditions": [condition("Theirs")]}).status
    view.put(msgspec.structs.replace(cluster_queue(), status=theirs))
    view.apply(QueueStatus().react(Q, view, NOW))
    assert [each.type for each in edited(write.edit, view.objects[Q]).status.conditions] == ["Theirs", "Active"]


# --- who may be deleted -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "others", "kept"),
    [
        (cluster_queue(finalizers=["other"]), [flavor()], ["other", IN_USE]),
        (cluster_queue(meta=GOING), [flavor(), holder("a")], None),
        (cluster_queue(meta=GOING), [flavor(), holder("a", admitted=False)], None),
        (cluster_queue(meta=GOING), [flavor(), local_queue(), workload("w")], []),
        (cluster_queue(meta=GOING), [flavor(), holder("a", 1, condition("Finished"))], []),
        (cluster_queue(meta=GOING), [flavor(), cluster_queue("other"), holder("a", queue="other")], []),
        (cluster_queue(meta=GOING, finalizers=["other", IN_USE]), [flavor()], ["other"]),
        (flavor(meta={"finalizers": []}), [], [IN_USE]),
        (flavor(), [], None),
        (flavor(meta=GOING), [cluster_queue()], None),
        (flavor(meta=GOING), [cluster_queue(meta=GOING)], None),
        (flavor(meta=GOING), [cluster_queue("q", {"other": {"cpu": 1}})], []),
        (flavor(meta={**GOING, "finalizers": []}), [], None),
        (check("a", finalizers=[]), [], [IN_USE]),
        (check("a", **GOING), [cluster_queue(**checks("a"))], None),
        (check("a", **GOING), [cluster_queue(**checks("b")), cluster_queue("r")], []),
    ],
)
def test_an_object_is_kept_while_it_is_in_use(value: Any, others: list[Any], kept: list[str] | None) -> None:
    """``kept``: the finalizers that are written; None: they stay as they are."""
    view = FakeView.of(value, *others, now=NOW)
    outcome = QueueStatus().react(Ref.of(value), view, NOW)
    written = [each.write for each in outcome.actions if isinstance(each.write, Change) and not each.write.status]
    assert [list(edited(each.edit, value).metadata.finalizers) for each in written] == ([] if kept is None else [kept])
    assert all(each.uid == value.metadata.uid for each in written)


def test_nothing_is_added_to_what_is_being_deleted() -> None:
    write = change(QueueStatus().react(Q, FakeView.of(cluster_queue(finalizers=[]), now=NOW), NOW))
    assert write.edit(cluster_queue(meta=GOING, finalizers=["other"])) is None


def test_a_deleted_queue_goes_when_its_last_holder_has_gone() -> None:
    view, controller = FakeView.of(cluster_queue(meta=GOING), flavor(), holder("a"), now=NOW), QueueStatus()
    view.settle(controller, Q, now=NOW)
    assert Q in view.objects
    view.put(holder("a", 1, condition("Finished")))
    view.settle(controller, Q, now=at(1))
    assert Q not in view.objects


def test_cohorts_have_nothing_to_show_here() -> None:
    view = FakeView.of(cohort("r", 3), now=NOW)
    assert QueueStatus().react(Ref(COHORT, "", "r"), view, NOW) == Outcome()


# --- always -----------------------------------------------------------------------------------------------------------

HOLDERS = st.fixed_dictionaries(
    {
        "use": st.sampled_from((0, 1, 3, "500m")),
        "admitted": st.booleans(),
        "local": st.sampled_from(("lq", "other", "nowhere")),
        "queue": st.sampled_from(("q", "p")),
    }
)


@pytest.mark.property
@given(
    st.lists(HOLDERS, max_size=6),
    st.lists(st.sampled_from(("lq", "other", "nowhere")), max_size=4),
    st.sampled_from(("None", "Hold")),
    st.booleans(),
)
def test_whatever_is_stored_settles_and_adds_up(
    held: list[dict[str, Any]], waiting: list[str], stop: str, deleting: bool
) -> None:
    view = settled(
        cluster_queue("q", 2, cohortName="r", stopPolicy=stop, meta=GOING if deleting else {}),
        cluster_queue("p", 2, cohortName="r"), flavor(), local_queue(), local_queue("other"),
        *(holder(f"h{i}", **each) for i, each in enumerate(held)),
        *(workload(f"w{i}", local=local) for i, local in enumerate(waiting)),
    )  # fmt: skip
    here = [each for each in held if each["queue"] == "q"]
    assert (Q in view.objects) == (not deleting or bool(here))
    if Q in view.objects:
        shown = status(view)
        assert shown.reserving_workloads == len(here)
        assert shown.admitted_workloads == sum(each["admitted"] for each in here)
        assert shown.pending_workloads == sum(local != "nowhere" for local in waiting)
    again = QueueStatus()
    assert all(again.react(ref, view, at(1)) == Outcome() for ref in view.objects)
