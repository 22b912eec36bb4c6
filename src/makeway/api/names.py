"""Names that are part of the contract: labels, annotations, finalizers, gates (api 10), and made names (api 11).

Promises: a made name is a legal DNS subdomain of at most 253 characters whenever its parts are legal, and equal parts
give equal names, today and after a restart.
"""

from __future__ import annotations

import hashlib

# Labels of a job.
QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
PRIORITY_CLASS_LABEL = "kueue.x-k8s.io/priority-class"
MAX_EXEC_TIME_LABEL = "kueue.x-k8s.io/max-exec-time-seconds"  # whole seconds
MIN_PARALLELISM = "kueue.x-k8s.io/job-min-parallelism"  # partial admission: the least number of pods
COMPLETIONS_EQUAL_PARALLELISM = "kueue.x-k8s.io/job-completions-equal-parallelism"
PREBUILT_WORKLOAD = "kueue.x-k8s.io/prebuilt-workload-name"  # the annotation wins, the label counts without it

# Annotations of a job.
ELASTIC_JOB = "kueue.x-k8s.io/elastic-job"  # known, not served (api 21.2)
GANG = "makeway.dev/gang"  # "true": its pods are placed as one gang

# Annotations of a job and of its Workload.
ADMISSION_GATED_BY = "kueue.x-k8s.io/admission-gated-by"
RUNTIME = "makeway.dev/runtime"  # durations, read by the simulator alone
CHECKPOINT_INTERVAL = "makeway.dev/checkpoint-interval"

# Labels and annotations of a Workload.
JOB_UID_LABEL = "kueue.x-k8s.io/job-uid"
JOB_OWNER_GVK = "kueue.x-k8s.io/job-owner-gvk"
JOB_OWNER_NAME = "kueue.x-k8s.io/job-owner-name"
PRIORITY_BOOST = "kueue.x-k8s.io/priority-boost"
OPTION_RANK = "kueue.x-k8s.io/option-rank"
OPTION_NAME = "kueue.x-k8s.io/option-name"  # identifies an Option together with the UID of its owner

# Objects that makeway creates, here or in a worker cluster.
MANAGED_LABEL = "kueue.x-k8s.io/managed"
ORIGIN_LABEL = "kueue.x-k8s.io/multikueue-origin"
ORIGIN_UID = "kueue.x-k8s.io/multikueue-origin-uid"

# Pods.
POD_SET_LABEL = "kueue.x-k8s.io/podset"
CLUSTER_QUEUE_LABEL = "kueue.x-k8s.io/cluster-queue-name"
LOCAL_QUEUE_LABEL = "kueue.x-k8s.io/local-queue-name"
WORKLOAD = "kueue.x-k8s.io/workload"  # annotation: the queueing Workload
WORKLOAD_REF = "makeway.dev/workload-ref"  # annotation: <name>/<podGroup>[/<replicaKey>] of the scheduling Workload
STOPPED = "makeway.dev/stopped"  # annotation: its Job stopped managing it before the pod ended

# Finalizers.
RESOURCE_IN_USE = "kueue.x-k8s.io/resource-in-use"

# Preemption gates of a Workload.
MULTIKUEUE_GATE = "kueue.x-k8s.io/multikueue"
CONCURRENT_ADMISSION_GATE = "kueue.x-k8s.io/concurrent-admission"

# Controllers of admission checks.
MULTIKUEUE_CONTROLLER = "kueue.x-k8s.io/multikueue"
PROVISIONING_CONTROLLER = "kueue.x-k8s.io/provisioning-request"

# Objects that are looked for by name.
DEFAULT_QUEUE = "default"  # the LocalQueue of managed jobs without a queue label (api 4)
DEFAULT_PRIORITY_CLASS = "default"  # the WorkloadPriorityClass of jobs that name none (api 6)
ANY_OPTION = "any"  # the one Option of a Workload without flavors to choose from (S-12.1)

DEFAULT_NAMESPACE = "default"
LASTING_NAMESPACES = (DEFAULT_NAMESPACE, "kube-system", "kube-public")  # they cannot be deleted
NAMESPACE_LABEL = "kubernetes.io/metadata.name"  # every namespace carries its own name
SCHEDULERS = ("", "default-scheduler", "makeway-scheduler")  # schedulerNames of pods that our pod scheduler places
SYSTEM_CLASSES = {
    "system-cluster-critical": 2_000_000_000,
    "system-node-critical": 2_000_001_000,
}  # Kubernetes makes them

NAME_MAX = 253
_HASH_LENGTH = 5
_SUFFIX_MAX = 63


def workload_name(kind: str, group: str, name: str, uid: str) -> str:
    """The name of a job's Workload (api 11.1). The hash tells jobs of one name apart (other group, later run)."""
    identity = "\n".join((kind, group, name, uid))
    return f"{_cut(f'{kind.lower()}-{name}', NAME_MAX - 1 - _HASH_LENGTH)}-{_hash(identity)}"


def option_name(parent: str, option: str, *, taken: bool = False) -> str:
    """The name of an Option of ``parent`` (api 11.2); ``taken``: an object of another owner has the plain name."""
    full = f"{parent}-option-{option}"
    if len(full) <= NAME_MAX and not taken:
        return full
    tail = f"-option-{_cut(option, _SUFFIX_MAX)}-{_hash(full)}"
    return _cut(parent, NAME_MAX - len(tail)) + tail


def _cut(text: str, length: int) -> str:
    """At most ``length`` characters, without a dot at the end: a dash follows, and ``.-`` is not legal in a name."""
    return text[:length].rstrip("-.")


def _hash(text: str) -> str:
    return hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()[:_HASH_LENGTH]
