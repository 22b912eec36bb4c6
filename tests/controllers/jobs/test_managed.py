"""Which Jobs are managed: queue name, namespace, and Jobs that own other Jobs (api 18.1, decision 0072)."""

from __future__ import annotations

from typing import Any

import pytest

from makeway.api.names import QUEUE_LABEL
from makeway.api.objects.kubernetes import Job, Namespace
from makeway.api.objects.meta import ObjectMeta, OwnerReference
from makeway.controllers.contract import Ref
from makeway.controllers.jobs.managed import OWNERS_MAX, why_unmanaged
from makeway.core.policy import Jobs, Requirement

TEAM = (Requirement(key="team", operator="Exists"),)
NAMED: dict[str, str] = {QUEUE_LABEL: "main"}


def job(name: str = "it", *, above: str = "", uid: str = "", namespace: str = "default", queue: bool = False) -> Job:
    """A Job that is owned by the Job ``above``, by its present uid or by another one."""
    owners = (OwnerReference("batch/v1", "Job", above, uid or f"uid-{above}", controller=True),) if above else ()
    meta = ObjectMeta(
        name=name, namespace=namespace, uid=f"uid-{name}", labels=NAMED if queue else {}, owner_references=owners
    )
    return Job(metadata=meta)


def why(it: Job, *others: Any, jobs: Jobs | None = None) -> str:
    known = {Ref.of(each): each for each in (it, *others)}
    return why_unmanaged(it, jobs or Jobs(without_queue_name=True), known.get)


def labelled(namespace: str, **labels: str) -> Namespace:
    return Namespace(metadata=ObjectMeta(name=namespace, labels=labels))


@pytest.mark.parametrize("queue", [True, False], ids=["with a queue name", "without one"])
@pytest.mark.parametrize(
    ("namespace", "labels", "selector", "managed"),
    [
        ("a", {"team": "x"}, TEAM, True),
        ("a", {}, TEAM, False),
        ("a", None, TEAM, False),
        ("a", None, (Requirement(key="kubernetes.io/metadata.name", operator="In", values=("a",)),), True),
        ("a", {}, None, True),
        ("kube-system", {}, None, False),
        ("kueue-system", {}, None, False),
        ("a", {}, (), True),
    ],
)
def test_a_namespace_that_is_not_selected_has_no_managed_jobs(
    namespace: str, labels: dict[str, str] | None, selector: Any, managed: bool, queue: bool
) -> None:
    around = [] if labels is None else [labelled(namespace, **labels)]
    jobs = Jobs(without_queue_name=True, namespaces=selector)
    found = why(job(namespace=namespace, queue=queue), *around, jobs=jobs)
    assert found == ("" if managed else f"namespace {namespace} is not selected by managedJobsNamespaceSelector")


def test_a_selector_alone_manages_no_job_without_a_queue_name() -> None:
    assert why(job(), jobs=Jobs(namespaces=())) == f"it has no label {QUEUE_LABEL}, so it is not managed"
    assert why(job(queue=True), jobs=Jobs(namespaces=())) == ""


CHILD = "its owner Job parent is managed, and the Workload of that one accounts for it"


@pytest.mark.parametrize("queue", [True, False], ids=["with a queue name of its own", "without one"])
def test_a_job_of_a_managed_job_is_accounted_for_by_that_one(queue: bool) -> None:
    assert why(job(above="parent", queue=queue), job("parent")) == CHILD


@pytest.mark.parametrize(
    "others",
    [(), (job("another"),), (job("parent", namespace="elsewhere"),)],
    ids=["nothing", "of another name", "in another namespace"],
)
def test_an_owner_that_is_not_there_accounts_for_nobody(others: tuple[Job, ...]) -> None:
    assert why(job(above="parent"), *others) == ""


def test_an_owner_of_another_uid_accounts_for_nobody() -> None:
    assert why(job(above="parent", uid="an-earlier-one"), job("parent")) == ""


@pytest.mark.parametrize(
    "owner",
    [
        OwnerReference("batch/v1", "Job", "parent", "uid-parent"),
        OwnerReference("batch/v1", "CronJob", "parent", "uid-parent", controller=True),
        OwnerReference("example.com/v1", "Job", "parent", "uid-parent", controller=True),
    ],
    ids=["no controller", "a CronJob", "a Job of somebody else"],
)
def test_only_a_batch_job_that_controls_it_counts(owner: OwnerReference) -> None:
    it = Job(metadata=ObjectMeta(name="it", namespace="default", owner_references=(owner,)))
    assert why(it, job("parent")) == ""


@pytest.mark.parametrize(
    ("parent", "top", "found"),
    [
        (job("parent", above="top"), job("top", queue=True), "top"),
        (job("parent", above="top", queue=True), job("top"), "parent"),
        (job("parent", above="top", queue=True), job("top", queue=True), "top"),
        (job("parent", above="top"), job("top"), ""),
        (job("parent", above="gone", queue=True), job("top"), "parent"),
    ],
    ids=["the topmost", "the one below", "both", "none", "of a chain that breaks off"],
)
def test_any_managed_job_above_counts(parent: Job, top: Job, found: str) -> None:
    """Where a queue name is needed, an owner without one is not managed, and the chain goes on above it."""
    told = why(job(above="parent", queue=True), parent, top, jobs=Jobs())
    assert told == (f"its owner Job {found} is managed, and the Workload of that one accounts for it" if found else "")


@pytest.mark.parametrize("length", [1, 2, 5])
def test_owners_in_a_circle_account_for_nobody(length: int) -> None:
    """Otherwise none of them would have a Workload, and all would run past every quota."""
    ring = [job(f"j{n}", above=f"j{(n + 1) % length}") for n in range(length)]
    assert [why(each, *ring) for each in ring] == [""] * length


def test_a_chain_is_followed_so_far_and_no_further() -> None:
    chain = [job(f"j{n}", above=f"j{n + 1}") for n in range(100)]
    reads: list[Ref] = []
    known: dict[Ref, Job] = {Ref.of(each): each for each in chain}

    def find(ref: Ref) -> Any:
        reads.append(ref)
        return known.get(ref)

    assert why_unmanaged(chain[0], Jobs(without_queue_name=True), find) == ""
    assert len(reads) == OWNERS_MAX
    assert why_unmanaged(chain[-OWNERS_MAX], Jobs(without_queue_name=True), find) != ""
