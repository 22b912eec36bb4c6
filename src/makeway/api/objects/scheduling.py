"""The pod-scheduling Workload: groups of pods that are placed, and preempted, together (api 12, KEP-5710)."""

from __future__ import annotations

from typing import Annotated, Literal

from makeway.api.objects.meta import LABEL, REQUIRED, SUBDOMAIN, KubernetesObject, Limit, Wire, made, shown
from makeway.api.objects.queueing import Conditions

SCHEDULING = "scheduling.k8s.io/v1alpha1"
SCHEDULING_OURS = "scheduling.makeway.dev/v1alpha1"

# The groups of a Workload stay what they are; only how many pods a gang needs may change (decision 0062).
GROUPS_STAY = (
    "self.size() == oldSelf.size() && self.all(g, oldSelf.exists(o, o.name == g.name"
    " && has(o.policy.basic) == has(g.policy.basic) && has(o.policy.gang) == has(g.policy.gang)"
    " && (!has(g.policy.gang) || o.policy.gang.preemptionMode == g.policy.gang.preemptionMode)))",
    "of a gang only minCount can be changed",
)


class ControllerReference(Wire, frozen=True):
    api_group: Annotated[str, SUBDOMAIN] = ""
    kind: Annotated[str, Limit(required=True, min_length=1)] = ""
    name: Annotated[str, Limit(required=True, min_length=1)] = ""


class BasicPolicy(Wire, frozen=True):
    """Pods are scheduled one by one."""


class GangPolicy(Wire, frozen=True):
    min_count: Annotated[int, Limit(required=True, least=1)] = shown(0)
    preemption_mode: Literal["Pod", "PodGroup"] = shown("Pod")


class PodGroupPolicy(Wire, frozen=True):
    basic: BasicPolicy | None = None
    gang: GangPolicy | None = None


class PodGroup(Wire, frozen=True):
    name: Annotated[str, LABEL, Limit(required=True, min_length=1)] = ""
    policy: Annotated[PodGroupPolicy, REQUIRED] = made(PodGroupPolicy)


class GangWorkloadSpec(Wire, frozen=True):
    controller_ref: Annotated[ControllerReference | None, Limit(immutable=True)] = None
    pod_groups: Annotated[
        tuple[PodGroup, ...],
        Limit(required=True, min_items=1, max_items=8, too_many="Invalid", keyed_by=("name",), transition=GROUPS_STAY),
    ] = ()
    priority_class_name: Annotated[str, Limit(immutable=True)] = ""
    preemption_priority_class_name: Annotated[str, Limit(immutable=True)] = ""


class GangWorkloadStatus(Wire, frozen=True):
    priority: int | None = None
    preemption_priority: int | None = None
    preemption_policy: Literal["PreemptLowerPriority", "Never"] | None = None
    gang: str = ""
    placed: str = ""
    state: Literal["Waiting", "Partly", "Placed", "Leaving"] | None = None
    conditions: Conditions = ()


class GangWorkload(KubernetesObject, frozen=True):
    api_version: str = shown(SCHEDULING)
    kind: str = shown("Workload")
    spec: GangWorkloadSpec = made(GangWorkloadSpec)
    status: GangWorkloadStatus | None = None
