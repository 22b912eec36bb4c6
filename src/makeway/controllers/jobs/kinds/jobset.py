"""JobSets: several kinds of batch Jobs that run together (api 18.9)."""

from __future__ import annotations

from makeway.api.objects.custom import CustomObject
from makeway.api.versions import Kind
from makeway.controllers.jobs.kinds.described import (
    AreAllThere,
    Description,
    Done,
    Ending,
    IsSet,
    PodSets,
    condition,
)

STATUSES = "status.replicatedJobsStatus[*]"

JOBSET = Description(
    resource=Kind(
        name="JobSet", group="jobset.x-k8s.io", versions=("v1alpha2",), type=CustomObject, plural="jobsets",
        namespaced=True, ours=False,
    ),
    framework="jobset.x-k8s.io/jobset",
    pod_sets=(
        PodSets(
            at="spec.replicatedJobs[*]",
            name="name",
            template="template.spec.template",
            count=(("replicas",), ("template.spec.parallelism", "template.spec.completions")),
            done=Done(STATUSES, "name", "succeeded"),
        ),
    ),
    has_pods=IsSet(f"{STATUSES}.active"),
    is_ready=AreAllThere((f"{STATUSES}.ready", f"{STATUSES}.succeeded"), "spec.replicatedJobs[*]", "replicas"),
    endings=(
        Ending("Succeeded", condition("Completed"), "status.conditions[Completed].message"),
        Ending("Failed", condition("Failed"), "status.conditions[Failed].message"),
    ),
).kind()  # fmt: skip
