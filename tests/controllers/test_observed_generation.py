"""Every condition that we write on a Workload says which generation of it was judged, as Kueue's conditions do."""

from __future__ import annotations

from typing import Any

import pytest

from makeway.api.objects.workload import Admission, Workload
from makeway.controllers.checks.admission_checks import Admit, TryAgain
from makeway.controllers.contract import WORKLOAD, Edit, Ref
from makeway.controllers.jobs.edits import Report
from makeway.controllers.jobs.kinds.generic import End
from makeway.controllers.workloads.edits import Aim, BackOff, Deactivate, Requeue, TellWhyWaiting
from makeway.controllers.workloads.eviction import Evict, Release, condition, replace, status_of
from makeway.controllers.workloads.lifecycle import Workloads
from makeway.core.policy import Requeuing
from makeway.runtime.scheduling.plans import Reserve, TellPending
from tests.controllers.views import FakeView, at, check, cluster_queue, edited, flavor, local_queue, workload

W = Ref(WORKLOAD, "default", "w")
SEEN = {"generation": 7}
LEFT: dict[str, Any] = {"evicted": ("Preempted", -5), "metadata": SEEN}
BLOCKED: dict[str, Any] = {"QuotaReservationBlocked": ("True", "R", -9), "Preempted": ("True", "InClusterQueue", -9)}
OFF = {"active": False}
QUEUE = FakeView.of(flavor(), cluster_queue(), local_queue()).state.queues["cq"]  # type: ignore[index]


@pytest.mark.parametrize(
    ("edit", "before", "told"),
    [
        (Evict("Preempted", "", at(), preempted="InClusterQueue"),
         workload(admitted=-9, conditions={"QuotaReservationBlocked": ("True", "R", -9)}, metadata=SEEN),
         {"Evicted", "Preempted", "QuotaReservationBlocked"}),
        (Release(at()), workload(admitted=-9, **LEFT), {"Requeued", "QuotaReserved", "Admitted"}),
        (Aim("AdmissionCheck", "", at()), workload(admitted=-9, metadata=SEEN), {"DeactivationTarget"}),
        (Deactivate(at()), workload(spec=OFF, metadata=SEEN), {"Evicted"}),
        (BackOff("", "", at(), Requeuing()), workload(admitted=-9, metadata=SEEN), {"Evicted"}),
        (Requeue("Reactivated", "", at()), workload(metadata=SEEN), {"Requeued"}),
        (TellWhyWaiting("Suspended", "", at()), workload(metadata=SEEN), {"QuotaReserved", "Admitted"}),
        (TryAgain(at()), workload(reserved=-9, checks=[check("a", "Retry")], metadata=SEEN), {"Evicted"}),
        (Admit(QUEUE, at()), workload(reserved=-9, metadata=SEEN), {"Admitted"}),
        (Reserve(Admission(cluster_queue="cq"), True, "", at()), workload(conditions=BLOCKED, **LEFT),
         {"QuotaReserved", "Admitted", "Evicted", "Preempted", "QuotaReservationBlocked"}),
        (TellPending("WaitingForQuota", "", at(), (), "True", "R"), workload(metadata=SEEN),
         {"QuotaReserved", "Admitted", "QuotaReservationBlocked"}),
        (Report(at(), ready=True), workload(admitted=-9, metadata=SEEN), {"PodsReady"}),
        (Report(at(), end=End("Succeeded", "")), workload(admitted=-9, metadata=SEEN), {"Finished"}),
    ],
    ids=lambda value: type(value).__name__ if callable(value) else None,
)  # fmt: skip
def test_what_an_edit_writes_is_about_the_generation_it_read(
    edit: Edit[Workload], before: Workload, told: set[str]
) -> None:
    after = edited(edit, before)
    new = {each.type: each for each in status_of(after).conditions if each not in status_of(before).conditions}
    assert new.keys() == told
    assert {each.observed_generation for each in new.values()} == {7}


def test_where_nobody_counts_generations_none_is_told() -> None:
    after = edited(TellWhyWaiting("Suspended", "", at()), workload())
    assert {each.observed_generation for each in status_of(after).conditions} == {None}


@pytest.mark.parametrize(
    "it", [workload(spec=OFF), workload(admitted=-9), workload(spec={"queue_name": "none"})],
    ids=["deactivated", "runs", "cannot be considered"],
)  # fmt: skip
def test_a_newer_generation_alone_is_no_reason_to_write(it: Workload) -> None:
    view = FakeView.of(flavor(), cluster_queue(), local_queue(), replace(it, metadata=replace(it.metadata, **SEEN)))
    view.settle(Workloads(), W, now=at(0))
    done, newer = len(view.written), view.workload(W)
    view.put(replace(newer, metadata=replace(newer.metadata, generation=8)))
    view.settle(Workloads(), W, now=at(9))
    assert len(view.written) == done


def test_pods_that_are_waited_for_are_told_once_whatever_the_generation() -> None:
    waits = workload(metadata=SEEN, conditions={"PodsReady": ("False", "WaitForStart", -9)})
    assert Report(at())(waits) is waits
    lost = workload(metadata=SEEN, conditions={"PodsReady": ("False", "WaitForRecovery", -9)})
    found = condition(edited(Report(at()), lost), "PodsReady")
    assert found is not None
    assert (found.reason, found.observed_generation) == ("WaitForStart", 7)
