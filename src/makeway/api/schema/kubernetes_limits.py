"""The values that fields of Kubernetes types may have: closed sets of words, ranges of numbers, forms of texts.

The table goes with the table of types (``kubernetes_types``) and has the same form::

    ContainerPort: containerPort=1..65535 protocol=TCP|UDP|SCTP name=<portName>

``A|B`` are the words there are, ``1..9`` is a range (``0..`` has no end), ``<form>`` names one of ``forms``. In ``[…]``
it is about the items of a list, in ``{key:value}`` about the keys and values of a map, of which one may be left out. A
zero or empty text passes if Go cannot tell it from no value, which the table of types knows.

The table has all that Kubernetes refuses of a type in any object, and values that would mislead a reader. Rules between
fields are in ``kubernetes_rules`` and ``validation``; Kubernetes accepts what none of them refuses.

Promise: the import parses nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType

from makeway.api.objects.meta import Limit
from makeway.api.schema.kubernetes_types import lines_of

NO_LIMIT = Limit()
_RANGE = re.compile(r"(-?[0-9]+)\.\.(-?[0-9]+)?")


@dataclass(frozen=True, slots=True)
class FieldBounds:
    """The limits of a field, and of the items, keys or values inside it."""

    own: Limit = NO_LIMIT
    item: Limit = NO_LIMIT


UNBOUND = FieldBounds()


@cache
def bounds_of(type_name: str) -> Mapping[str, FieldBounds]:
    """The limits of the fields of a type; a field without limits is not in it."""
    pairs = (entry.split("=", 1) for entry in lines_of(_TABLE).get(type_name, "").split())
    return MappingProxyType({name: _bounds(token) for name, token in pairs})


def bounded_types() -> tuple[str, ...]:
    return tuple(lines_of(_TABLE))


def _bounds(token: str) -> FieldBounds:
    if token.startswith("["):
        return FieldBounds(item=_limit(token[1:-1]))
    if token.startswith("{"):
        key, _, value = token[1:-1].partition(":")
        return FieldBounds(Limit(key_form=key[1:-1]), _limit(value))
    return FieldBounds(_limit(token))


def _limit(token: str) -> Limit:
    if not token:
        return NO_LIMIT
    if token.startswith("<"):
        return Limit(form=token[1:-1])
    bounds = _RANGE.fullmatch(token)
    if bounds:
        return Limit(least=int(bounds[1]), most=int(bounds[2]) if bounds[2] else None)
    return Limit(words=tuple(token.split("|")))


_TABLE = """
# Used in many places.
Condition: status=True|False|Unknown observedGeneration=0..
LabelSelector: matchLabels={<labelKey>:<labelValue>}
LabelSelectorRequirement: key=<labelKey> operator=In|NotIn|Exists|DoesNotExist values=[<labelValue>]
ResourceRequirements: limits={<resource>:0..} requests={<resource>:0..}
Taint: key=<labelKey> value=<labelValue> effect=NoSchedule|PreferNoSchedule|NoExecute
Toleration: effect=NoSchedule|PreferNoSchedule|NoExecute operator=Equal|Exists|Lt|Gt

# Where a pod may run.
NodeSelectorRequirement: key=<labelKey> operator=In|NotIn|Exists|DoesNotExist|Gt|Lt
PodAffinityTerm: matchLabelKeys=[<labelKey>] mismatchLabelKeys=[<labelKey>] namespaces=[<label>]
    topologyKey=<topologyKey>
PodSchedulingGate: name=<qualified>
PreferredSchedulingTerm: weight=1..100
TopologySpreadConstraint: matchLabelKeys=[<labelKey>] maxSkew=1.. minDomains=1.. nodeAffinityPolicy=Honor|Ignore
    nodeTaintsPolicy=Honor|Ignore topologyKey=<someKey> whenUnsatisfiable=DoNotSchedule|ScheduleAnyway
WeightedPodAffinityTerm: weight=1..100

# Containers.
AppArmorProfile: type=RuntimeDefault|Unconfined|Localhost
Container: imagePullPolicy=Always|IfNotPresent|Never name=<label> restartPolicy=Always|OnFailure|Never
    terminationMessagePolicy=File|FallbackToLogsOnError
ContainerPort: containerPort=1..65535 hostPort=1..65535 name=<portName> protocol=TCP|UDP|SCTP
ContainerResizePolicy: resourceName=cpu|memory restartPolicy=NotRequired|RestartContainer
ContainerRestartRule: action=Restart|RestartAllContainers
ContainerRestartRuleOnExitCodes: operator=In|NotIn
EnvFromSource: prefix=<variable>
EnvVar: name=<variable>
EphemeralContainer: imagePullPolicy=Always|IfNotPresent|Never name=<label> restartPolicy=Always|OnFailure|Never
    terminationMessagePolicy=File|FallbackToLogsOnError
GRPCAction: port=1..65535
HTTPGetAction: port=<port> scheme=HTTP|HTTPS
HTTPHeader: name=<header>
Probe: failureThreshold=0.. initialDelaySeconds=0.. periodSeconds=0.. successThreshold=0..
    terminationGracePeriodSeconds=1.. timeoutSeconds=0..
ResourceFieldSelector: divisor=0..
SeccompProfile: type=RuntimeDefault|Unconfined|Localhost
SecurityContext: procMount=Default|Unmasked runAsGroup=0..2147483647 runAsUser=0..2147483647
SleepAction: seconds=0..
TCPSocketAction: port=<port>
VolumeMount: mountPropagation=None|HostToContainer|Bidirectional recursiveReadOnly=Disabled|IfPossible|Enabled
    subPath=<inside> subPathExpr=<inside>

# Volumes.
AzureDiskVolumeSource: cachingMode=None|ReadOnly|ReadWrite kind=Shared|Dedicated|Managed
ConfigMapVolumeSource: defaultMode=0..511
DownwardAPIVolumeFile: mode=0..511 path=<inside>
DownwardAPIVolumeSource: defaultMode=0..511
EmptyDirVolumeSource: sizeLimit=0..
FCVolumeSource: lun=0..255
GCEPersistentDiskVolumeSource: partition=0..255
HostPathVolumeSource: type=|DirectoryOrCreate|Directory|FileOrCreate|File|Socket|CharDevice|BlockDevice
ImageVolumeSource: pullPolicy=Always|IfNotPresent|Never
ISCSIVolumeSource: lun=0..255
KeyToPath: mode=0..511 path=<inside>
PersistentVolumeClaimSpec: accessModes=[ReadWriteOnce|ReadOnlyMany|ReadWriteMany|ReadWriteOncePod]
    volumeMode=Block|Filesystem
PodCertificateProjection: maxExpirationSeconds=3600..
ProjectedVolumeSource: defaultMode=0..511
SecretVolumeSource: defaultMode=0..511
ServiceAccountTokenProjection: expirationSeconds=600..4294967296 path=<inside>
Volume: name=<label>
VolumeResourceRequirements: limits={<resource>:0..} requests={<resource>:0..}

# The rest of a pod.
HostAlias: hostnames=[<subdomain>] ip=<address>
PodDNSConfig: nameservers=[<address>]
PodOS: name=linux|windows
PodReadinessGate: conditionType=<qualified>
PodResourceClaim: name=<label>
PodSecurityContext: fsGroup=0..2147483647 fsGroupChangePolicy=OnRootMismatch|Always runAsGroup=0..2147483647
    runAsUser=0..2147483647 seLinuxChangePolicy=Recursive|MountOption supplementalGroups=[0..2147483647]
    supplementalGroupsPolicy=Merge|Strict
PodSpec: activeDeadlineSeconds=1..2147483647 dnsPolicy=ClusterFirst|ClusterFirstWithHostNet|Default|None
    hostname=<label> nodeName=<subdomain> nodeSelector={<labelKey>:<labelValue>} overhead={<resource>:0..}
    preemptionPolicy=PreemptLowerPriority|Never priorityClassName=<subdomain> restartPolicy=Always|OnFailure|Never
    runtimeClassName=<subdomain> serviceAccountName=<subdomain> subdomain=<label>

# What is told about a pod.
ContainerStatus: allocatedResources={:0..} restartCount=0..
PodCondition: status=True|False|Unknown
PodStatus: phase=Pending|Running|Succeeded|Failed|Unknown qosClass=Guaranteed|Burstable|BestEffort

# Jobs.
JobCondition: status=True|False|Unknown
JobSpec: activeDeadlineSeconds=1.. backoffLimit=0.. backoffLimitPerIndex=0.. completionMode=NonIndexed|Indexed
    completions=0.. maxFailedIndexes=0.. parallelism=0.. podReplacementPolicy=TerminatingOrFailed|Failed
    ttlSecondsAfterFinished=0..
JobStatus: active=0.. failed=0.. ready=0.. succeeded=0.. terminating=0..
PodFailurePolicyOnExitCodesRequirement: operator=In|NotIn
PodFailurePolicyOnPodConditionsPattern: status=True|False|Unknown type=<qualified>
PodFailurePolicyRule: action=FailJob|FailIndex|Ignore|Count
SuccessPolicyRule: succeededCount=1..
WorkloadPodGroupGangSchedulingPolicy: minCount=1..

# Nodes and namespaces.
NamespaceCondition: status=True|False|Unknown
NamespaceStatus: phase=Active|Terminating
NodeCondition: status=True|False|Unknown
NodeStatus: allocatable={:0..} capacity={:0..}

# Secrets, budgets, runtime classes.
ConfigMap: binaryData={<fileName>:} data={<fileName>:}
Overhead: podFixed={<resource>:0..}
PodDisruptionBudgetSpec: maxUnavailable=<count> minAvailable=<count>
    unhealthyPodEvictionPolicy=IfHealthyBudget|AlwaysAllow
PodDisruptionBudgetStatus: currentHealthy=0.. desiredHealthy=0.. disruptionsAllowed=0.. expectedPods=0..
Scheduling: nodeSelector={<labelKey>:<labelValue>}
Secret: data={<fileName>:} stringData={<fileName>:}
"""
