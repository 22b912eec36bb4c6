"""Two-phase admission: which checks are listed, and what each of their answers leads to (S-11)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from makeway.api.objects.workload import AdmissionCheckState, RequeueState, Workload, WorkloadMode
from makeway.controllers.checks.admission_checks import Admit, ListChecks, TryAgain, may_be_admitted, required
from makeway.controllers.contract import WORKLOAD, Ref
from makeway.controllers.workloads.eviction import condition, replace, says, status_of
from makeway.controllers.workloads.lifecycle import Workloads
from makeway.core.lowering import is_queueable, queue_of
from makeway.core.lowering.workloads import queued_at
from makeway.core.model import Queue
from tests.controllers.views import (
    FakeView,
    at,
    check,
    cluster_queue,
    edited,
    flavor,
    local_queue,
    owned_by,
    time,
    workload,
)

CHECKS: dict[str, Any] = {"audit": (), "prov": ("spot",), "both": ("spot", "steady")}
W = Ref(WORKLOAD, "default", "w")


def queue(**checks: Any) -> Queue:
    return queue_of(cluster_queue(flavors=("spot", "steady"), checks=checks))[0]


def names(workload: Workload) -> list[str]:
    return [each.name for each in status_of(workload).admission_checks]


# --- the list ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "wanted"),
    [
        (workload(), ("audit", "both")),
        (workload(reserved=0, flavor="spot"), ("audit", "both", "prov")),
        (workload(reserved=0, flavor="steady"), ("audit", "both")),
        (workload(spec={"workload_mode": WorkloadMode(type="Parent")}), ()),
    ],
)
def test_s11_2_flavors_decide_which_checks_count(before: Workload, wanted: tuple[str, ...]) -> None:
    assert required(queue(**CHECKS), before) == wanted


def test_the_list_is_completed_sorted_and_pruned_and_what_stays_keeps_its_words() -> None:
    kept = check("prov", "Ready", -50, message="bought")
    before = workload(reserved=0, flavor="spot", checks=[kept, check("gone", "Ready")])
    after = edited(ListChecks(queue(**CHECKS), at(3.5)), before)
    assert status_of(after).admission_checks == (check("audit", seconds=3), check("both", seconds=3), kept)
    assert ListChecks(queue(**CHECKS), at(9))(after) is after


# --- Admitted ---------------------------------------------------------------------------------------------------------

READY = [check("audit", "Ready"), check("both", "Ready"), check("prov", "Ready")]


def reserved(checks: list[AdmissionCheckState] = READY, **more: Any) -> Workload:
    return workload(reserved=0, flavor="spot", checks=checks, **more)


@pytest.mark.parametrize(
    ("before", "may"),
    [
        (reserved(), True),
        (reserved(READY[:2]), False),
        (reserved([*READY[:2], check("prov", "Pending")]), False),
        (reserved([*READY, check("other", "Pending")]), False),
        (reserved([*READY, check("other", "Ready")]), True),
        (reserved(evicted=("Preempted", 1)), False),
        (reserved(spec={"active": False}), False),
        (reserved(conditions={"DeactivationTarget": ("True", "AdmissionCheck", 1)}), False),
        (reserved(spec={"workload_mode": WorkloadMode(type="Parent")}), False),
        (workload(checks=READY), False),
    ],
)
def test_s11_1_admitted_means_reserved_complete_and_ready(before: Workload, may: bool) -> None:
    assert may_be_admitted(queue(**CHECKS), before) is may
    after = Admit(queue(**CHECKS), at(5.9))(before)
    assert (after is not None) is may
    if after is not None:
        found = condition(after, "Admitted")
        assert found is not None
        assert (found.status, found.reason, found.last_transition_time) == ("True", "Admitted", time(5))
        assert found.message == "Admitted in ClusterQueue cq, wait time since the quota reservation was 5s"


def test_s11_1_no_option_is_admitted_beside_an_admitted_sibling() -> None:
    parent = workload("parent", spec={"workload_mode": WorkloadMode(type="Parent")})
    mode = {"workload_mode": WorkloadMode(type="ResourceFlavorOption")}
    mine, other = (
        workload("w", reserved=0, spec=mode, owner=owned_by(parent)),
        workload("o", admitted=0, spec=mode, owner=owned_by(parent)),
    )
    view = FakeView.of(parent, mine, other, cluster_queue(), local_queue(), flavor())
    view.settle(Workloads(), W, now=at(1))
    assert not says(view.workload(W), "Admitted")
    view.put(workload("o", spec=mode, owner=owned_by(parent)))
    view.settle(Workloads(), W, now=at(2))
    assert says(view.workload(W), "Admitted")


# --- Retry ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("checks", "state", "until"),
    [
        ([check("a", "Retry", 0, requeue_after_seconds=30)], None, 30),
        ([check("a", "Retry", requeue_after_seconds=30), check("b", "Retry", 5, requeue_after_seconds=40)], None, 45),
        ([check("a", "Retry", 0, requeue_after_seconds=30)], RequeueState(count=2, requeue_at=time(90)), 90),
        ([check("a", "Retry", 0, requeue_after_seconds=30)], RequeueState(count=2, requeue_at=time(20)), 30),
        ([check("a", "Retry", 0)], None, None),
        ([check("a", "Retry", -60, requeue_after_seconds=30)], None, None),
        ([check("a", "Ready", 0, requeue_after_seconds=99), check("b", "Retry", 0)], None, None),
    ],
)  # fmt: skip
def test_s11_3_the_latest_wish_counts(checks: list[AdmissionCheckState], state: Any, until: float | None) -> None:
    after = edited(TryAgain(at(1)), workload(reserved=0, checks=checks, requeue_state=state))
    found = status_of(after).requeue_state
    assert (None if found is None else found.requeue_at) == (None if until is None else time(until))
    if state is not None:
        assert found is not None
        assert found.count == state.count
    assert condition(after, "Evicted").reason == "AdmissionCheck"  # type: ignore[union-attr]
    assert all(each.state == "Pending" for each in status_of(after).admission_checks)


def test_p25_a_retry_beside_another_eviction_keeps_both() -> None:
    before = workload(
        admitted=-9, evicted=("PodsReadyTimeout", 0), checks=[check("a", "Retry", 0, requeue_after_seconds=30)]
    )
    after = edited(TryAgain(at(1)), before)
    assert condition(after, "Evicted") == condition(before, "Evicted")
    assert status_of(after).scheduling_stats is None  # counted when it was evicted, not now
    assert status_of(after).requeue_state == RequeueState(requeue_at=time(30))
    (found,) = status_of(after).admission_checks
    assert (found.state, found.retry_count) == ("Pending", 1)


def test_p25_a_retry_that_comes_after_the_release_does_not_bar_the_workload_for_ever() -> None:
    late = workload(checks=[check("audit", "Retry", 0, requeue_after_seconds=30)], evicted=("Preempted", 0),
                    conditions={"Requeued": ("True", "Preempted", 0)})  # fmt: skip
    view = FakeView.of(late, cluster_queue(checks={"audit": ()}), local_queue(), flavor())
    assert view.settle(Workloads(), W, now=at(1)).again_at == at(30)
    assert status_of(view.workload(W)).admission_checks[0].state == "Pending"
    view.settle(Workloads(), W, now=at(30))
    assert condition(view.workload(W), "Requeued").reason == "BackoffFinished"  # type: ignore[union-attr]
    assert status_of(view.workload(W)).requeue_state is None


def test_s11_4_rejected_beats_retry() -> None:
    both = [check("audit", "Retry"), check("both", "Rejected", message="no licence")]
    view = FakeView.of(
        workload(reserved=0, flavor="steady", checks=both), cluster_queue(flavors=("spot", "steady"), checks=CHECKS),
        local_queue(), flavor("spot"), flavor("steady"),
    )  # fmt: skip
    view.settle(Workloads(), W, now=at(1))
    after = view.workload(W)
    assert not after.spec.active
    assert condition(after, "Evicted").reason == "DeactivatedDueToAdmissionCheck"  # type: ignore[union-attr]
    assert "no licence" in condition(after, "Evicted").message  # type: ignore[union-attr]
    assert condition(after, "DeactivationTarget") is None
    reasons = [(note.type, note.reason) for note in view.notes]
    assert ("Warning", "AdmissionCheckRejected") in reasons
    assert ("Normal", "EvictedDueToDeactivatedDueToAdmissionCheck") in reasons


def test_s11_8_the_example() -> None:
    view = FakeView.of(
        workload(), cluster_queue(flavors=("spot", "steady"), checks={"audit": (), "prov": ("spot",)}),
        local_queue(), flavor("spot"), flavor("steady"),
    )  # fmt: skip
    controller = Workloads()
    view.settle(controller, W, now=at(-60))
    assert names(view.workload(W)) == ["audit"]

    holding = workload(reserved=-30, flavor="spot")
    view.put(
        replace(
            holding, status=replace(status_of(holding), admission_checks=status_of(view.workload(W)).admission_checks)
        )
    )
    view.settle(controller, W, now=at(-30))
    assert [(each.name, each.state) for each in status_of(view.workload(W)).admission_checks] == [
        ("audit", "Pending"), ("prov", "Pending"),
    ]  # fmt: skip

    said = (status_of(view.workload(W)).admission_checks[0], check("prov", "Retry", 0, requeue_after_seconds=30))
    view.put(replace(view.workload(W), status=replace(status_of(view.workload(W)), admission_checks=said)))
    first = controller.react(W, view, at(0))
    view.apply(first)
    evicted = view.workload(W)
    assert condition(evicted, "Evicted").last_transition_time == time(0)  # type: ignore[union-attr]
    assert [each.retry_count for each in status_of(evicted).admission_checks] == [None, 1]
    assert status_of(evicted).requeue_state == RequeueState(requeue_at=time(30))

    last = view.settle(controller, W, now=at(0))
    after = view.workload(W)
    assert names(after) == ["audit"]
    assert condition(after, "Requeued").status == "False"  # type: ignore[union-attr]
    assert last.again_at == at(30)
    view.settle(controller, W, now=at(29))
    assert condition(view.workload(W), "Requeued").status == "False"  # type: ignore[union-attr]
    view.settle(controller, W, now=at(30))
    assert condition(view.workload(W), "Requeued").reason == "BackoffFinished"  # type: ignore[union-attr]
    assert is_queueable(view.workload(W))
    assert queued_at(view.workload(W), view.policy) == at(0), "behind whoever was created before"


# --- what holds for all -----------------------------------------------------------------------------------------------

lists = st.lists(
    st.builds(
        check,
        st.sampled_from(["audit", "prov", "both", "other"]),
        st.sampled_from(["Pending", "Ready", "Retry", "Rejected"]),
        st.integers(-100, 100),
        requeue_after_seconds=st.none() | st.integers(0, 300),
        retry_count=st.none() | st.integers(0, 3),
        message=st.sampled_from(["", "words"]),
    ),
    unique_by=lambda each: each.name,
)


@pytest.mark.property
@given(lists, st.sampled_from([None, "spot", "steady"]), st.integers(0, 10_000))
def test_s11_7_listing_touches_no_entry_that_stays(
    given: list[AdmissionCheckState], assigned: str | None, millis: int
) -> None:
    before = workload(reserved=None if assigned is None else 0, flavor=assigned or "", checks=given)
    after = edited(ListChecks(queue(**CHECKS), at(millis / 1000)), before)
    assert names(after) == list(required(queue(**CHECKS), before))
    known = {each.name: each for each in given}
    for each in status_of(after).admission_checks:
        assert each == known.get(each.name, check(each.name, seconds=millis // 1000))
    assert replace(after, status=before.status) == before
