"""Which jobs are managed: they begin suspended, get a Workload, and are started and stopped with it (api 18.1).

The API server uses it when a job is created, the controllers at every reconcile, ``plan`` and ``simulate`` for jobs in
files. All of them get the same answer from the same objects.

A job is managed if all of these hold:

- ``integrations.frameworks`` lists its kind, as batch/job;
- it has a queue name, or ``manageJobsWithoutQueueName`` is set;
- its namespace is selected by ``managedJobsNamespaceSelector``, queue name or not (decision 0072);
- no job above it is managed: the Workload of that one accounts for it (decision 0072).

Promises: at most ``OWNERS_MAX`` jobs are read. Owners in a cycle, or in a longer chain, account for no other job, so
that each of them is managed by itself.

Not here: what becomes of a job that has a Workload and is no longer managed (``running``: it stays ours until it
ends).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from makeway.api.names import DEFAULT_NAMESPACE, NAMESPACE_LABEL, QUEUE_LABEL
from makeway.api.objects.meta import KubernetesObject, ObjectMeta
from makeway.controllers.contract import NAMESPACE, Ref
from makeway.controllers.jobs.kinds.registry import JOB_KINDS, kind_of_owner
from makeway.core.model import Expression, selects
from makeway.core.policy import Jobs

OWNERS_MAX = 10

Find = Callable[[Ref], KubernetesObject | None]  # an object as stored; None: there is none


def why_unmanaged(job: KubernetesObject, jobs: Jobs, find: Find) -> str:
    """Why a job is not managed; "": it is. ``find`` is called for its Namespace and for the jobs above it."""
    meta, framework = job.metadata, JOB_KINDS[job.kind].framework
    namespace = meta.namespace or DEFAULT_NAMESPACE
    if framework not in jobs.frameworks:
        return f"the configuration does not list {framework} among its frameworks"
    if not _asks(meta, jobs):
        return f"it has no label {QUEUE_LABEL}, so it is not managed"
    if not _is_selected(namespace, jobs, find):
        return f"namespace {namespace} is not selected by managedJobsNamespaceSelector"
    above = _managed_owner(meta, namespace, jobs, find)
    return f"its owner {above} is managed, and the Workload of that one accounts for it" if above else ""


def _asks(meta: ObjectMeta, jobs: Jobs) -> bool:
    """Whether the job itself asks to be managed."""
    return jobs.without_queue_name or bool(meta.labels.get(QUEUE_LABEL))


def _is_selected(namespace: str, jobs: Jobs, find: Find) -> bool:
    if jobs.namespaces is None:
        return namespace not in ("kube-system", jobs.own_namespace)
    found = find(Ref(NAMESPACE, "", namespace))
    known: Mapping[str, str] = {} if found is None else found.metadata.labels
    selector = tuple(Expression(each.key, each.operator, each.values) for each in jobs.namespaces)
    return selects(selector, {NAMESPACE_LABEL: namespace, **known})


def _managed_owner(meta: ObjectMeta, namespace: str, jobs: Jobs, find: Find) -> str:
    """Kind and name of the topmost managed job above this one; "": there is none.

    An owner counts if it exists with the UID that the reference names. An owner that is gone, or whose kind is never
    managed, ends the chain.
    """
    topmost = ""
    for _ in range(OWNERS_MAX):
        owner = meta.controller
        kind = None if owner is None else kind_of_owner(owner)
        if owner is None or kind is None or kind.framework not in jobs.frameworks:
            return topmost
        found = find(Ref(kind.name, namespace, owner.name))
        if found is None or found.metadata.uid != owner.uid:
            return topmost
        meta = found.metadata
        topmost = f"{kind.name} {meta.name}" if _asks(meta, jobs) else topmost
    return ""
