"""Whatever state others have brought a Workload to, it comes to rest, and every wait ends (P25)."""

from __future__ import annotations

from dataclasses import replace as amended
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from makeway.api.objects.workload import PreemptionGate, RequeueState, Workload, WorkloadMode
from makeway.controllers.contract import WORKLOAD, Ref
from makeway.controllers.workloads.eviction import condition, says, status_of
from makeway.controllers.workloads.lifecycle import Workloads
from makeway.core.policy import PodsReady, Policy, Requeuing
from tests.controllers.views import (
    FakeView,
    at,
    check,
    cluster_queue,
    flavor,
    job,
    local_queue,
    owned_by,
    time,
    workload,
)

W = Ref(WORKLOAD, "default", "w")
POLICY = Policy()
PODS = amended(POLICY, pods_ready=PodsReady(timeout_ms=300_000, recovery_timeout_ms=60_000))

REASONS = [
    "Preempted", "PodsReadyTimeout", "AdmissionCheck", "ClusterQueueStopped", "LocalQueueStopped", "Deactivated",
    "DeactivatedDueToAdmissionCheck", "OverQuota", "Deleted",
]  # fmt: skip
MORE = {
    "PodsReady": st.tuples(st.sampled_from(["True", "False"]), st.sampled_from(["Started", "WaitForRecovery"])),
    "DeactivationTarget": st.tuples(st.sampled_from(["True", "False"]), st.just("AdmissionCheck")),
    "Requeued": st.tuples(st.sampled_from(["True", "False"]), st.sampled_from(REASONS)),
    "QuotaReservationBlocked": st.tuples(st.just("True"), st.just("PreemptionGated")),
    "Finished": st.tuples(st.just("True"), st.just("Succeeded")),
    "example.com/mine": st.tuples(st.sampled_from(["True", "Unknown"]), st.just("Because")),
}
WAITS_FOR_OTHERS = ("ClusterQueueStopped", "LocalQueueStopped", "Deleted", "Preempted", "OverQuota")
seconds = st.integers(-500, 500)


@st.composite
def lives(draw: st.DrawFn) -> tuple[Workload, list[Any], Policy]:
    """A Workload in any state that others may have brought it to, with its queues and a policy."""
    chosen = draw(st.sets(st.sampled_from(sorted(MORE)), max_size=4))
    conditions: dict[str, Any] = {type_: (*draw(MORE[type_]), draw(seconds)) for type_ in sorted(chosen)}
    stage = draw(st.sampled_from(["pending", "reserved", "admitted"]))
    checks = draw(
        st.lists(
            st.builds(
                check,
                st.sampled_from(["a", "b", "c"]),
                st.sampled_from(["Pending", "Ready", "Retry", "Rejected"]),
                seconds,
                requeue_after_seconds=st.none() | st.integers(0, 900),
            ),
            unique_by=lambda each: each.name,
        )
    )
    state = draw(
        st.none()
        | st.builds(RequeueState, count=st.none() | st.integers(0, 3), requeue_at=st.none() | seconds.map(time))
    )
    it = workload(
        reserved=draw(seconds) if stage == "reserved" else None,
        admitted=draw(seconds) if stage == "admitted" else None,
        evicted=draw(st.none() | st.tuples(st.sampled_from(REASONS), seconds)),
        conditions=conditions,
        checks=checks,
        requeue_state=state,
        spec={
            "active": draw(st.booleans()),
            "maximum_execution_time_seconds": draw(st.none() | st.integers(1, 900)),
            "preemption_gates": draw(st.sampled_from([(), (PreemptionGate(name="a"),)])),
            "workload_mode": draw(st.sampled_from([None, None, WorkloadMode(type="Parent")])),
        },
        owner=draw(st.none() | st.just(owned_by(job()))),
    )
    stops = st.sampled_from(["None", "None", "Hold", "HoldAndDrain"])
    listed: Any = draw(st.dictionaries(st.sampled_from(["a", "b"]), st.just(())))
    around = [cluster_queue(checks=listed, stopPolicy=draw(stops)), local_queue(stopPolicy=draw(stops))]
    if draw(st.booleans()):
        around.append(job(active=draw(st.integers(0, 1))))
    policy = draw(st.sampled_from([POLICY, PODS, amended(PODS, requeuing=Requeuing(backoff_limit_count=1))]))
    return it, around, policy


OURS = {
    "QuotaReserved", "Admitted", "Evicted", "Preempted", "Requeued", "DeactivationTarget", "QuotaReservationBlocked",
}  # fmt: skip


@pytest.mark.property
@given(lives(), st.integers(-600_000, 600_000))
def test_every_life_comes_to_rest(life: tuple[Workload, list[Any], Policy], millis: int) -> None:
    """P25: and at rest no workload without an owner is both Admitted and Evicted; foreign conditions are unchanged."""
    it, around, policy = life
    now = at(millis / 1000)
    view = FakeView.of(flavor(), it, *around, policy=policy)
    last = view.settle(Workloads(), W, now=now)
    assert last.again_at is None or last.again_at > now
    after = view.workload(W)
    foreign = [each for each in status_of(it).conditions if each.type not in OURS]
    assert [each for each in status_of(after).conditions if each.type not in OURS] == foreign
    if says(after, "Finished"):
        assert after == it
    elif not after.metadata.owner_references and not (condition(after, "Evicted") is not None and last.again_at):
        assert not (says(after, "Admitted") and says(after, "Evicted"))
        assert after.spec.active or not says(after, "QuotaReserved")


@pytest.mark.slow
@pytest.mark.property
@given(lives(), st.integers(-600_000, 600_000))
def test_every_wait_ends(life: tuple[Workload, list[Any], Policy], millis: int) -> None:
    """Reconciled at each time that it asks for, a Workload that nothing else changes soon asks for no more."""
    it, around, policy = life
    view = FakeView.of(flavor(), it, *around, policy=policy)
    now = at(millis / 1000)
    for _ in range(6):
        wish = view.settle(Workloads(), W, now=now).again_at
        if wish is None:
            break
        now = wish
    else:
        raise AssertionError("it goes on waking")
    after = view.workload(W)
    if not says(after, "Finished"):
        assert not [each for each in status_of(after).admission_checks if each.state == "Retry"]
        state, requeued = status_of(after).requeue_state, condition(after, "Requeued")
        held_back = requeued is not None and requeued.status == "False"
        if held_back and after.spec.active and not says(after, "QuotaReserved"):
            assert requeued is not None
            assert requeued.reason in WAITS_FOR_OTHERS
        assert held_back or state is None or state.requeue_at is None or says(after, "QuotaReserved")
