"""How objects are named. What must not fit together stands here with a comment, which mypy refuses once it does fit."""

from dataclasses import dataclass

from makeway.api.objects.kubernetes import Job
from makeway.api.objects.meta import ObjectMeta
from makeway.api.objects.scheduling import GangWorkload
from makeway.api.objects.workload import Workload
from makeway.controllers.contract import GANG_WORKLOAD, JOB, WORKLOAD, Change, Ref, View, is_of
from tests.controllers.views import FakeView, workload

META = ObjectMeta(namespace="ns", name="a")


@dataclass(frozen=True)
class SwitchOn:
    def __call__(self, workload: Workload) -> Workload:
        return workload


def test_a_ref_is_what_it_says_however_it_was_made() -> None:
    job = Ref.of(Job(metadata=META))
    assert job == Ref(JOB, "ns", "a") == Ref.named("Job", "ns", "a")
    assert len({job, Ref(JOB, "ns", "a"), Ref.named("Job", "ns", "a"), Ref(WORKLOAD, "ns", "a")}) == 2
    assert [each.kind for each in sorted({Ref(WORKLOAD, "", "a"), Ref(JOB, "", "b")})] == ["Job", "Workload"]
    assert type(JOB) is type(job.kind) is str


def test_two_kinds_are_called_workload_and_refs_tell_them_apart() -> None:
    gang, queued = Ref.of(GangWorkload(metadata=META)), Ref.of(Workload(metadata=META))
    assert (gang, queued) == (Ref(GANG_WORKLOAD, "ns", "a"), Ref(WORKLOAD, "ns", "a"))
    assert is_of(gang, GANG_WORKLOAD)
    assert not is_of(gang, WORKLOAD)


def test_a_ref_knows_the_type_of_what_it_names() -> None:
    around: View = FakeView.of(workload())
    stored = around.get(Ref(WORKLOAD, "default", "w"))
    assert stored is not None
    assert stored.spec.active
    assert around.get(Ref(JOB, "default", "w")) is None
    job: Ref[Job] = Ref(WORKLOAD, "default", "w")  # type: ignore[arg-type]
    of_whatever_kind: Ref = Ref(WORKLOAD, "default", "w")
    assert job == of_whatever_kind


def test_an_edit_fits_the_object_that_it_is_made_for() -> None:
    fits, unfit = Change(Ref(WORKLOAD, "ns", "a"), SwitchOn()), Change(Ref(JOB, "ns", "a"), SwitchOn())  # type: ignore[arg-type]
    assert (fits.ref.kind, unfit.ref.kind) == ("Workload", "Job")
