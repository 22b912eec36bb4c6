"""The Kubernetes types inside the kinds that makeway serves: their fields, types, and which are required.

Raw parts of an object (``OfType``) are checked, pruned and merged by this table. One line per type::

    PodSpec: containers=[Container]@name! nodeSelector={string} overhead={quantity} ...

``[T]`` is a list, ``{T}`` a map from strings, ``@name`` the key by which a strategic merge matches the items of a
list (a list without one is replaced as a whole), ``!`` marks a required field. A capital letter begins the name of
another type. ``ObjectMeta`` is in ``objects.meta``. All is of Kubernetes 1.37, except ``workloadRef`` (api 12).

Two shorter tables below say what an absent field means. An absent scalar means zero, except where Go has a pointer. An
absent object differs from an empty one, except where Go has it by value.

Promises: the import parses nothing; a type is parsed when it is first asked for.

Not here: the kinds as Python objects (``objects.kubernetes``), the values of a field (``kubernetes_limits``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from types import MappingProxyType
from typing import Literal

SCALARS = frozenset({
    "any", "boolean", "bytes", "int32", "int64", "intOrString", "microTime", "number", "quantity", "string", "time",
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class FieldType:
    kind: Literal["scalar", "list", "map", "object"]
    name: str  # the scalar or the object's type; for a list or map, that of its items
    item: FieldType | None = None  # the items of a list or map
    required: bool = False
    merge_key: str | None = None  # None: a strategic merge replaces the list
    zero_is_absent: bool = True  # whether 0, "", false or an empty value means the same as no value

    def __str__(self) -> str:
        inner = str(self.item) if self.item else self.name
        return {"list": f"[{inner}]", "map": f"{{{inner}}}"}.get(self.kind, inner)


def fields_of(type_name: str) -> Mapping[str, FieldType]:
    """The fields of a type by their JSON names; ``KeyError`` if there is no such type."""
    return _parsed(type_name)


def type_names() -> tuple[str, ...]:
    """All types of the table, in the order of the table: the kinds first."""
    return tuple(lines_of(_TABLE))


@cache
def _parsed(type_name: str) -> Mapping[str, FieldType]:
    pairs = (entry.split("=", 1) for entry in lines_of(_TABLE)[type_name].split())
    fields = {name: _field_type(token) for name, token in pairs}
    exceptions = {name for table in (_POINTERS, _VALUES) for name in lines_of(table).get(type_name, "").split()}
    return MappingProxyType(
        {
            name: replace(field, zero_is_absent=_is_zero_absent(field, name in exceptions))
            for name, field in fields.items()
        }
    )


def _is_zero_absent(field: FieldType, is_exception: bool) -> bool:
    if field.kind == "object":
        return is_exception
    if field.kind == "map" and field.name == "any":
        return False  # an object without fields, held by pointer
    return not is_exception


@cache
def lines_of(table: str) -> Mapping[str, str]:
    """The text after the name of each type, in a table of this form; an indented line continues the one before."""
    whole = [line for line in table.replace("\n    ", " ").splitlines() if line and not line.startswith("#")]
    return MappingProxyType({name: text for name, _, text in (line.partition(": ") for line in whole)})


def _field_type(token: str) -> FieldType:
    plain, required = token.removesuffix("!"), token.endswith("!")
    if plain.startswith("["):
        inner, _, merge_key = plain[1:].rpartition("]")
        item = _field_type(inner)
        return FieldType("list", item.name, item, required, merge_key.removeprefix("@") or None)
    if plain.startswith("{"):
        item = _field_type(plain[1:-1])
        return FieldType("map", item.name, item, required)
    return FieldType("scalar" if plain in SCALARS else "object", plain, None, required)


_TABLE = """
# The kinds themselves.
Namespace: apiVersion=string kind=string metadata=ObjectMeta spec=NamespaceSpec status=NamespaceStatus
Node: apiVersion=string kind=string metadata=ObjectMeta spec=NodeSpec status=NodeStatus
Pod: apiVersion=string kind=string metadata=ObjectMeta spec=PodSpec status=PodStatus
Secret: apiVersion=string kind=string metadata=ObjectMeta data={bytes} immutable=boolean stringData={string}
    type=string
ConfigMap: apiVersion=string kind=string metadata=ObjectMeta binaryData={bytes} data={string} immutable=boolean
Event: apiVersion=string kind=string metadata=ObjectMeta! action=string count=int32 eventTime=microTime
    firstTimestamp=time involvedObject=ObjectReference! lastTimestamp=time message=string reason=string
    related=ObjectReference reportingComponent=string reportingInstance=string series=EventSeries source=EventSource
    type=string
EventsV1Event: apiVersion=string kind=string metadata=ObjectMeta action=string deprecatedCount=int32
    deprecatedFirstTimestamp=time deprecatedLastTimestamp=time deprecatedSource=EventSource eventTime=microTime!
    note=string reason=string regarding=ObjectReference related=ObjectReference reportingController=string
    reportingInstance=string series=EventsV1EventSeries type=string
LimitRange: apiVersion=string kind=string metadata=ObjectMeta spec=LimitRangeSpec
Binding: apiVersion=string kind=string metadata=ObjectMeta target=ObjectReference!
Job: apiVersion=string kind=string metadata=ObjectMeta spec=JobSpec status=JobStatus
PriorityClass: apiVersion=string kind=string metadata=ObjectMeta description=string globalDefault=boolean
    preemptionPolicy=string value=int32
PodDisruptionBudget: apiVersion=string kind=string metadata=ObjectMeta spec=PodDisruptionBudgetSpec
    status=PodDisruptionBudgetStatus
Eviction: apiVersion=string kind=string metadata=ObjectMeta deleteOptions=DeleteOptions
RuntimeClass: apiVersion=string kind=string metadata=ObjectMeta handler=string! overhead=Overhead
    scheduling=Scheduling
Lease: apiVersion=string kind=string metadata=ObjectMeta spec=LeaseSpec
SelfSubjectAccessReview: apiVersion=string kind=string metadata=ObjectMeta spec=SelfSubjectAccessReviewSpec!
    status=SubjectAccessReviewStatus
SelfSubjectRulesReview: apiVersion=string kind=string metadata=ObjectMeta spec=SelfSubjectRulesReviewSpec!
    status=SubjectRulesReviewStatus
SelfSubjectReview: apiVersion=string kind=string metadata=ObjectMeta status=SelfSubjectReviewStatus

# Used in many places.
Condition: lastTransitionTime=time! message=string! observedGeneration=int64 reason=string! status=string!
    type=string!
LabelSelector: matchExpressions=[LabelSelectorRequirement] matchLabels={string}
LabelSelectorRequirement: key=string! operator=string! values=[string]
LocalObjectReference: name=string
ObjectReference: apiVersion=string fieldPath=string kind=string name=string namespace=string resourceVersion=string
    uid=string
ResourceClaim: name=string! request=string
ResourceRequirements: claims=[ResourceClaim] limits={quantity} requests={quantity}
Toleration: effect=string key=string operator=string tolerationSeconds=int64 value=string
TypedLocalObjectReference: apiGroup=string kind=string! name=string!

# Where a pod may run.
Affinity: nodeAffinity=NodeAffinity podAffinity=PodAffinity podAntiAffinity=PodAntiAffinity
NodeAffinity: preferredDuringSchedulingIgnoredDuringExecution=[PreferredSchedulingTerm]
    requiredDuringSchedulingIgnoredDuringExecution=NodeSelector
NodeSelector: nodeSelectorTerms=[NodeSelectorTerm]!
NodeSelectorRequirement: key=string! operator=string! values=[string]
NodeSelectorTerm: matchExpressions=[NodeSelectorRequirement] matchFields=[NodeSelectorRequirement]
PodAffinity: preferredDuringSchedulingIgnoredDuringExecution=[WeightedPodAffinityTerm]
    requiredDuringSchedulingIgnoredDuringExecution=[PodAffinityTerm]
PodAffinityTerm: labelSelector=LabelSelector matchLabelKeys=[string] mismatchLabelKeys=[string] namespaces=[string]
    namespaceSelector=LabelSelector topologyKey=string!
PodAntiAffinity: preferredDuringSchedulingIgnoredDuringExecution=[WeightedPodAffinityTerm]
    requiredDuringSchedulingIgnoredDuringExecution=[PodAffinityTerm]
PodSchedulingGate: name=string!
PodSchedulingGroup: podGroupName=string
PreferredSchedulingTerm: preference=NodeSelectorTerm! weight=int32!
TopologySpreadConstraint: labelSelector=LabelSelector matchLabelKeys=[string] maxSkew=int32! minDomains=int32
    nodeAffinityPolicy=string nodeTaintsPolicy=string topologyKey=string! whenUnsatisfiable=string!
WeightedPodAffinityTerm: podAffinityTerm=PodAffinityTerm! weight=int32!
WorkloadReference: name=string! podGroup=string! podGroupReplicaKey=string

# Containers.
AppArmorProfile: localhostProfile=string type=string!
Capabilities: add=[string] drop=[string]
ConfigMapEnvSource: name=string optional=boolean
ConfigMapKeySelector: key=string! name=string optional=boolean
Container: args=[string] command=[string] env=[EnvVar]@name envFrom=[EnvFromSource] image=string
    imagePullPolicy=string lifecycle=Lifecycle livenessProbe=Probe name=string! ports=[ContainerPort]@containerPort
    readinessProbe=Probe resizePolicy=[ContainerResizePolicy] resources=ResourceRequirements restartPolicy=string
    restartPolicyRules=[ContainerRestartRule] securityContext=SecurityContext startupProbe=Probe stdin=boolean
    stdinOnce=boolean terminationMessagePath=string terminationMessagePolicy=string tty=boolean
    volumeDevices=[VolumeDevice]@devicePath volumeMounts=[VolumeMount]@mountPath workingDir=string
ContainerPort: containerPort=int32! hostIP=string hostPort=int32 name=string protocol=string
ContainerResizePolicy: resourceName=string! restartPolicy=string!
ContainerRestartRule: action=string! exitCodes=ContainerRestartRuleOnExitCodes
ContainerRestartRuleOnExitCodes: operator=string! values=[int32]
EnvFromSource: configMapRef=ConfigMapEnvSource prefix=string secretRef=SecretEnvSource
EnvVar: name=string! value=string valueFrom=EnvVarSource
EnvVarSource: configMapKeyRef=ConfigMapKeySelector fieldRef=ObjectFieldSelector fileKeyRef=FileKeySelector
    resourceFieldRef=ResourceFieldSelector secretKeyRef=SecretKeySelector
EphemeralContainer: args=[string] command=[string] env=[EnvVar]@name envFrom=[EnvFromSource] image=string
    imagePullPolicy=string lifecycle=Lifecycle livenessProbe=Probe name=string! ports=[ContainerPort]@containerPort
    readinessProbe=Probe resizePolicy=[ContainerResizePolicy] resources=ResourceRequirements restartPolicy=string
    restartPolicyRules=[ContainerRestartRule] securityContext=SecurityContext startupProbe=Probe stdin=boolean
    stdinOnce=boolean targetContainerName=string terminationMessagePath=string terminationMessagePolicy=string
    tty=boolean volumeDevices=[VolumeDevice]@devicePath volumeMounts=[VolumeMount]@mountPath workingDir=string
ExecAction: command=[string]
FileKeySelector: key=string! optional=boolean path=string! volumeName=string!
GRPCAction: mode=string port=int32! service=string
HTTPGetAction: host=string httpHeaders=[HTTPHeader] path=string port=intOrString! protocol=string scheme=string
HTTPHeader: name=string! value=string!
Lifecycle: postStart=LifecycleHandler preStop=LifecycleHandler stopSignal=string
LifecycleHandler: exec=ExecAction httpGet=HTTPGetAction sleep=SleepAction tcpSocket=TCPSocketAction
ObjectFieldSelector: apiVersion=string fieldPath=string!
Probe: exec=ExecAction failureThreshold=int32 grpc=GRPCAction httpGet=HTTPGetAction initialDelaySeconds=int32
    periodSeconds=int32 successThreshold=int32 tcpSocket=TCPSocketAction terminationGracePeriodSeconds=int64
    timeoutSeconds=int32
ResourceFieldSelector: containerName=string divisor=quantity resource=string!
SELinuxOptions: level=string role=string type=string user=string
SeccompProfile: localhostProfile=string type=string!
SecretEnvSource: name=string optional=boolean
SecretKeySelector: key=string! name=string optional=boolean
SecurityContext: allowPrivilegeEscalation=boolean appArmorProfile=AppArmorProfile capabilities=Capabilities
    privileged=boolean procMount=string readOnlyRootFilesystem=boolean runAsGroup=int64 runAsNonRoot=boolean
    runAsUser=int64 seccompProfile=SeccompProfile seLinuxOptions=SELinuxOptions
    windowsOptions=WindowsSecurityContextOptions
SleepAction: seconds=int64!
TCPSocketAction: host=string port=intOrString!
VolumeDevice: devicePath=string! name=string!
VolumeMount: bindMountOptions=[string] mountPath=string! mountPropagation=string name=string! readOnly=boolean
    recursiveReadOnly=string subPath=string subPathExpr=string
WindowsSecurityContextOptions: gmsaCredentialSpec=string gmsaCredentialSpecName=string hostProcess=boolean
    runAsUserName=string

# Volumes.
AWSElasticBlockStoreVolumeSource: fsType=string partition=int32 readOnly=boolean volumeID=string!
AzureDiskVolumeSource: cachingMode=string diskName=string! diskURI=string! fsType=string kind=string readOnly=boolean
AzureFileVolumeSource: readOnly=boolean secretName=string! shareName=string!
CSIVolumeSource: driver=string! fsType=string nodePublishSecretRef=LocalObjectReference readOnly=boolean
    volumeAttributes={string}
CephFSVolumeSource: monitors=[string]! path=string readOnly=boolean secretFile=string secretRef=LocalObjectReference
    user=string
CinderVolumeSource: fsType=string readOnly=boolean secretRef=LocalObjectReference volumeID=string!
ClusterTrustBundleProjection: labelSelector=LabelSelector name=string optional=boolean path=string! signerName=string
    user=int64
ConfigMapProjection: items=[KeyToPath] name=string optional=boolean
ConfigMapVolumeSource: defaultMode=int32 defaultUser=int64 items=[KeyToPath] name=string optional=boolean
DownwardAPIProjection: items=[DownwardAPIVolumeFile]
DownwardAPIVolumeFile: fieldRef=ObjectFieldSelector mode=int32 path=string! resourceFieldRef=ResourceFieldSelector
    user=int64
DownwardAPIVolumeSource: defaultMode=int32 defaultUser=int64 items=[DownwardAPIVolumeFile]
EmptyDirVolumeSource: medium=string mode=int32 sizeLimit=quantity
EphemeralVolumeSource: volumeClaimTemplate=PersistentVolumeClaimTemplate
FCVolumeSource: fsType=string lun=int32 readOnly=boolean targetWWNs=[string] wwids=[string]
FlexVolumeSource: driver=string! fsType=string options={string} readOnly=boolean secretRef=LocalObjectReference
FlockerVolumeSource: datasetName=string datasetUUID=string
GCEPersistentDiskVolumeSource: fsType=string partition=int32 pdName=string! readOnly=boolean
GitRepoVolumeSource: directory=string repository=string! revision=string
GlusterfsVolumeSource: endpoints=string! path=string! readOnly=boolean
HostPathVolumeSource: path=string! type=string
ISCSIVolumeSource: chapAuthDiscovery=boolean chapAuthSession=boolean fsType=string initiatorName=string iqn=string!
    iscsiInterface=string lun=int32! portals=[string] readOnly=boolean secretRef=LocalObjectReference
    targetPortal=string!
ImageVolumeSource: pullPolicy=string reference=string
KeyToPath: key=string! mode=int32 path=string! user=int64
NFSVolumeSource: path=string! readOnly=boolean server=string!
PersistentVolumeClaimSpec: accessModes=[string] dataSource=TypedLocalObjectReference
    dataSourceRef=TypedObjectReference resources=VolumeResourceRequirements selector=LabelSelector
    storageClassName=string volumeAttributesClassName=string volumeMode=string volumeName=string
PersistentVolumeClaimTemplate: metadata=ObjectMeta spec=PersistentVolumeClaimSpec!
PersistentVolumeClaimVolumeSource: claimName=string! readOnly=boolean
PhotonPersistentDiskVolumeSource: fsType=string pdID=string!
PodCertificateProjection: certificateChainPath=string credentialBundlePath=string keyPath=string keyType=string!
    maxExpirationSeconds=int32 signerName=string! user=int64 userAnnotations={string}
PortworxVolumeSource: fsType=string readOnly=boolean volumeID=string!
ProjectedVolumeSource: defaultMode=int32 defaultUser=int64 sources=[VolumeProjection]
QuobyteVolumeSource: group=string readOnly=boolean registry=string! tenant=string user=string volume=string!
RBDVolumeSource: fsType=string image=string! keyring=string monitors=[string]! pool=string readOnly=boolean
    secretRef=LocalObjectReference user=string
ScaleIOVolumeSource: fsType=string gateway=string! protectionDomain=string readOnly=boolean
    secretRef=LocalObjectReference! sslEnabled=boolean storageMode=string storagePool=string system=string!
    volumeName=string
SecretProjection: items=[KeyToPath] name=string optional=boolean
SecretVolumeSource: defaultMode=int32 defaultUser=int64 items=[KeyToPath] optional=boolean secretName=string
ServiceAccountTokenProjection: audience=string expirationSeconds=int64 path=string! user=int64
StorageOSVolumeSource: fsType=string readOnly=boolean secretRef=LocalObjectReference volumeName=string
    volumeNamespace=string
TypedObjectReference: apiGroup=string kind=string! name=string! namespace=string
Volume: awsElasticBlockStore=AWSElasticBlockStoreVolumeSource azureDisk=AzureDiskVolumeSource
    azureFile=AzureFileVolumeSource cephfs=CephFSVolumeSource cinder=CinderVolumeSource
    configMap=ConfigMapVolumeSource csi=CSIVolumeSource downwardAPI=DownwardAPIVolumeSource
    emptyDir=EmptyDirVolumeSource ephemeral=EphemeralVolumeSource fc=FCVolumeSource flexVolume=FlexVolumeSource
    flocker=FlockerVolumeSource gcePersistentDisk=GCEPersistentDiskVolumeSource gitRepo=GitRepoVolumeSource
    glusterfs=GlusterfsVolumeSource hostPath=HostPathVolumeSource image=ImageVolumeSource iscsi=ISCSIVolumeSource
    name=string! nfs=NFSVolumeSource persistentVolumeClaim=PersistentVolumeClaimVolumeSource
    photonPersistentDisk=PhotonPersistentDiskVolumeSource portworxVolume=PortworxVolumeSource
    projected=ProjectedVolumeSource quobyte=QuobyteVolumeSource rbd=RBDVolumeSource scaleIO=ScaleIOVolumeSource
    secret=SecretVolumeSource storageos=StorageOSVolumeSource vsphereVolume=VsphereVirtualDiskVolumeSource
VolumeProjection: clusterTrustBundle=ClusterTrustBundleProjection configMap=ConfigMapProjection
    downwardAPI=DownwardAPIProjection podCertificate=PodCertificateProjection secret=SecretProjection
    serviceAccountToken=ServiceAccountTokenProjection
VolumeResourceRequirements: limits={quantity} requests={quantity}
VsphereVirtualDiskVolumeSource: fsType=string storagePolicyID=string storagePolicyName=string volumePath=string!

# The rest of a pod.
EvictionResponder: name=string! priority=int32!
HostAlias: hostnames=[string] ip=string!
PodDNSConfig: nameservers=[string] options=[PodDNSConfigOption] searches=[string]
PodDNSConfigOption: name=string value=string
PodOS: name=string!
PodReadinessGate: conditionType=string!
PodResourceClaim: name=string! resourceClaimName=string resourceClaimTemplateName=string
PodSecurityContext: appArmorProfile=AppArmorProfile fsGroup=int64 fsGroupChangePolicy=string runAsGroup=int64
    runAsNonRoot=boolean runAsUser=int64 seccompProfile=SeccompProfile seLinuxChangePolicy=string
    seLinuxOptions=SELinuxOptions supplementalGroups=[int64] supplementalGroupsPolicy=string sysctls=[Sysctl]
    windowsOptions=WindowsSecurityContextOptions
PodSpec: activeDeadlineSeconds=int64 affinity=Affinity automountServiceAccountToken=boolean
    containers=[Container]@name! dnsConfig=PodDNSConfig dnsPolicy=string enableServiceLinks=boolean
    ephemeralContainers=[EphemeralContainer]@name evictionResponders=[EvictionResponder]@name
    hostAliases=[HostAlias]@ip hostIPC=boolean hostname=string hostnameOverride=string hostNetwork=boolean
    hostPID=boolean hostUsers=boolean imagePullSecrets=[LocalObjectReference]@name initContainers=[Container]@name
    nodeName=string nodeSelector={string} os=PodOS overhead={quantity} preemptionPolicy=string priority=int32
    priorityClassName=string readinessGates=[PodReadinessGate] resourceClaims=[PodResourceClaim]@name
    resources=ResourceRequirements restartPolicy=string runtimeClassName=string schedulerName=string
    schedulingGates=[PodSchedulingGate]@name schedulingGroup=PodSchedulingGroup securityContext=PodSecurityContext
    serviceAccount=string serviceAccountName=string setHostnameAsFQDN=boolean shareProcessNamespace=boolean
    subdomain=string terminationGracePeriodSeconds=int64 tolerations=[Toleration]
    topologySpreadConstraints=[TopologySpreadConstraint]@topologyKey volumes=[Volume]@name
    workloadRef=WorkloadReference
PodTemplateSpec: metadata=ObjectMeta spec=PodSpec
Sysctl: name=string! value=string!

# What is told about a pod.
ContainerExtendedResourceRequest: containerName=string! requestName=string! resourceName=string!
ContainerState: running=ContainerStateRunning terminated=ContainerStateTerminated waiting=ContainerStateWaiting
ContainerStateRunning: startedAt=time
ContainerStateTerminated: containerID=string exitCode=int32! finishedAt=time message=string reason=string signal=int32
    startedAt=time
ContainerStateWaiting: message=string reason=string
ContainerStatus: allocatedResources={quantity} allocatedResourcesStatus=[ResourceStatus]@name containerID=string
    image=string! imageID=string! lastState=ContainerState name=string! ready=boolean! resources=ResourceRequirements
    restartCount=int32! started=boolean state=ContainerState stopSignal=string user=ContainerUser
    volumeMounts=[VolumeMountStatus]@mountPath
ContainerUser: linux=LinuxContainerUser
HostIP: ip=string!
ImageVolumeStatus: imageRef=string!
LinuxContainerUser: gid=int64! supplementalGroups=[int64] uid=int64!
NodeAllocatableMappedResources: name=string! quantity=quantity!
NodeAllocatableOverheadResources: name=string! perContainer=quantity perPod=quantity
NodeAllocatableResourceClaimStatus: containers=[string] mapping=[NodeAllocatableMappedResources]
    overhead=[NodeAllocatableOverheadResources] resourceClaimName=string!
PodCondition: lastProbeTime=time lastTransitionTime=time message=string observedGeneration=int64 reason=string
    status=string! type=string!
PodExtendedResourceClaimStatus: requestMappings=[ContainerExtendedResourceRequest]! resourceClaimName=string!
PodIP: ip=string!
PodResourceClaimStatus: name=string! resourceClaimName=string
PodStatus: allocatedResources={quantity} conditions=[PodCondition]@type containerStatuses=[ContainerStatus]
    ephemeralContainerStatuses=[ContainerStatus] extendedResourceClaimStatus=PodExtendedResourceClaimStatus
    hostIP=string hostIPs=[HostIP]@ip initContainerStatuses=[ContainerStatus] message=string
    nodeAllocatableResourceClaimStatuses=[NodeAllocatableResourceClaimStatus] nominatedNodeName=string
    observedGeneration=int64 phase=string podIP=string podIPs=[PodIP]@ip qosClass=string reason=string resize=string
    resourceClaimStatuses=[PodResourceClaimStatus]@name resources=ResourceRequirements startTime=time
    volumeHealth=[PodVolumeHealth]
PodVolumeHealth: healthConditions=[VolumeHealthCondition] lastTransitionTime=time name=string!
ResourceHealth: health=string message=string resourceID=string!
ResourceStatus: name=string! resources=[ResourceHealth]
VolumeHealthCondition: message=string reason=string! status=string!
VolumeMountStatus: mountPath=string! name=string! readOnly=boolean recursiveReadOnly=string volumeStatus=VolumeStatus
VolumeStatus: image=ImageVolumeStatus

# Jobs.
JobCondition: lastProbeTime=time lastTransitionTime=time message=string reason=string status=string! type=string!
JobSchedulingConfiguration: disruptionMode=WorkloadPodGroupDisruptionMode
    resourceClaims=[WorkloadPodGroupResourceClaim] schedulingConstraints=WorkloadPodGroupSchedulingConstraints
    schedulingPolicy=WorkloadPodGroupSchedulingPolicy
JobSpec: activeDeadlineSeconds=int64 backoffLimit=int32 backoffLimitPerIndex=int32 completionMode=string
    completions=int32 managedBy=string manualSelector=boolean maxFailedIndexes=int32 parallelism=int32
    podFailurePolicy=PodFailurePolicy podReplacementPolicy=string scheduling=JobSchedulingConfiguration
    selector=LabelSelector successPolicy=SuccessPolicy suspend=boolean template=PodTemplateSpec!
    ttlSecondsAfterFinished=int32
JobStatus: active=int32 completedIndexes=string completionTime=time conditions=[JobCondition]@type failed=int32
    failedIndexes=string ready=int32 startTime=time succeeded=int32 terminating=int32
    uncountedTerminatedPods=UncountedTerminatedPods
PodFailurePolicy: rules=[PodFailurePolicyRule]!
PodFailurePolicyOnExitCodesRequirement: containerName=string operator=string! values=[int32]!
PodFailurePolicyOnPodConditionsPattern: status=string type=string!
PodFailurePolicyRule: action=string! onExitCodes=PodFailurePolicyOnExitCodesRequirement
    onPodConditions=[PodFailurePolicyOnPodConditionsPattern]
SuccessPolicy: rules=[SuccessPolicyRule]!
SuccessPolicyRule: succeededCount=int32 succeededIndexes=string
TopologyConstraint: key=string!
UncountedTerminatedPods: failed=[string] succeeded=[string]
WorkloadPodGroupDisruptionMode: all={any} single={any}
WorkloadPodGroupGangSchedulingPolicy: minCount=int32
WorkloadPodGroupResourceClaim: name=string! resourceClaimName=string resourceClaimTemplateName=string
WorkloadPodGroupSchedulingConstraints: topology=[TopologyConstraint]
WorkloadPodGroupSchedulingPolicy: basic={any} gang=WorkloadPodGroupGangSchedulingPolicy

# Nodes and namespaces.
AttachedVolume: devicePath=string! name=string!
ConfigMapNodeConfigSource: kubeletConfigKey=string! name=string! namespace=string! resourceVersion=string uid=string
ContainerImage: names=[string] sizeBytes=int64
DaemonEndpoint: Port=int32!
NamespaceCondition: lastTransitionTime=time message=string reason=string status=string! type=string!
NamespaceSpec: finalizers=[string]
NamespaceStatus: conditions=[NamespaceCondition]@type phase=string
NodeAddress: address=string! type=string!
NodeCondition: lastHeartbeatTime=time lastTransitionTime=time message=string reason=string status=string! type=string!
NodeConfigSource: configMap=ConfigMapNodeConfigSource
NodeConfigStatus: active=NodeConfigSource assigned=NodeConfigSource error=string lastKnownGood=NodeConfigSource
NodeDaemonEndpoints: kubeletEndpoint=DaemonEndpoint
NodeFeatures: supplementalGroupsPolicy=boolean
NodePodPreemptionPolicy: disableResizePreemption=[string]
NodeRuntimeHandler: features=NodeRuntimeHandlerFeatures name=string
NodeRuntimeHandlerFeatures: recursiveReadOnlyMounts=boolean userNamespaces=boolean
NodeSpec: configSource=NodeConfigSource externalID=string podCIDR=string podCIDRs=[string]
    podPreemptionPolicy=NodePodPreemptionPolicy providerID=string taints=[Taint] unschedulable=boolean
NodeStatus: addresses=[NodeAddress]@type allocatable={quantity} capacity={quantity} conditions=[NodeCondition]@type
    config=NodeConfigStatus daemonEndpoints=NodeDaemonEndpoints declaredFeatures=[string] features=NodeFeatures
    images=[ContainerImage] nodeInfo=NodeSystemInfo phase=string runtimeHandlers=[NodeRuntimeHandler]
    volumesAttached=[AttachedVolume] volumesInUse=[string]
NodeSwapStatus: capacity=int64
NodeSystemInfo: architecture=string! bootID=string! containerRuntimeVersion=string! kernelVersion=string!
    kubeletVersion=string! kubeProxyVersion=string! machineID=string! operatingSystem=string! osImage=string!
    runningInUserNamespace=boolean swap=NodeSwapStatus systemUUID=string!
Taint: effect=string! key=string! timeAdded=time value=string

# Events, limits, budgets, leases, runtime classes, evictions.
DeleteOptions: apiVersion=string dryRun=[string] gracePeriodSeconds=int64
    ignoreStoreReadErrorWithClusterBreakingPotential=boolean kind=string orphanDependents=boolean
    preconditions=Preconditions propagationPolicy=string
EventSeries: count=int32 lastObservedTime=microTime
EventSource: component=string host=string
EventsV1EventSeries: count=int32! lastObservedTime=microTime!
LeaseSpec: acquireTime=microTime holderIdentity=string leaseDurationSeconds=int32 leaseTransitions=int32
    preferredHolder=string renewTime=microTime strategy=string
LimitRangeItem: default={quantity} defaultRequest={quantity} max={quantity} maxLimitRequestRatio={quantity}
    min={quantity} type=string!
LimitRangeSpec: limits=[LimitRangeItem]!
Overhead: podFixed={quantity}
PodDisruptionBudgetSpec: maxUnavailable=intOrString minAvailable=intOrString selector=LabelSelector
    unhealthyPodEvictionPolicy=string
PodDisruptionBudgetStatus: conditions=[Condition]@type currentHealthy=int32 desiredHealthy=int32 disruptedPods={time}
    disruptionsAllowed=int32 expectedPods=int32 observedGeneration=int64
Preconditions: resourceVersion=string uid=string
Scheduling: nodeSelector={string} tolerations=[Toleration]

# Who am I, and what may I do.
FieldSelectorAttributes: rawSelector=string requirements=[FieldSelectorRequirement]
FieldSelectorRequirement: key=string! operator=string! values=[string]
LabelSelectorAttributes: rawSelector=string requirements=[LabelSelectorRequirement]
NonResourceAttributes: path=string verb=string
NonResourceRule: nonResourceURLs=[string] verbs=[string]!
ResourceAttributes: fieldSelector=FieldSelectorAttributes group=string labelSelector=LabelSelectorAttributes
    name=string namespace=string resource=string subresource=string verb=string version=string
ResourceRule: apiGroups=[string] resourceNames=[string] resources=[string] verbs=[string]!
SelfSubjectAccessReviewSpec: nonResourceAttributes=NonResourceAttributes resourceAttributes=ResourceAttributes
SelfSubjectReviewStatus: userInfo=UserInfo
SelfSubjectRulesReviewSpec: namespace=string
SubjectAccessReviewStatus: allowed=boolean! denied=boolean evaluationError=string reason=string
SubjectRulesReviewStatus: evaluationError=string incomplete=boolean! nonResourceRules=[NonResourceRule]!
    resourceRules=[ResourceRule]!
UserInfo: extra={[string]} groups=[string] uid=string username=string
"""

# Scalars behind pointers: zero and absent differ.
_POINTERS = """
AppArmorProfile: localhostProfile
AzureDiskVolumeSource: cachingMode fsType kind readOnly
CSIVolumeSource: fsType readOnly
ClusterTrustBundleProjection: name optional signerName user
ConfigMap: immutable
ConfigMapEnvSource: optional
ConfigMapKeySelector: optional
ConfigMapProjection: optional
ConfigMapVolumeSource: defaultMode defaultUser optional
Container: restartPolicy
ContainerStatus: started stopSignal
DeleteOptions: gracePeriodSeconds ignoreStoreReadErrorWithClusterBreakingPotential orphanDependents propagationPolicy
DownwardAPIVolumeFile: mode user
DownwardAPIVolumeSource: defaultMode defaultUser
EmptyDirVolumeSource: mode sizeLimit
EphemeralContainer: restartPolicy
FCVolumeSource: lun
FileKeySelector: optional
GRPCAction: mode service
HTTPGetAction: protocol
HostPathVolumeSource: type
ISCSIVolumeSource: initiatorName
JobSpec: activeDeadlineSeconds backoffLimit backoffLimitPerIndex completionMode completions managedBy manualSelector
    maxFailedIndexes parallelism podReplacementPolicy suspend ttlSecondsAfterFinished
JobStatus: failedIndexes ready terminating
KeyToPath: mode user
LeaseSpec: acquireTime holderIdentity leaseDurationSeconds leaseTransitions preferredHolder renewTime strategy
Lifecycle: stopSignal
NodeAllocatableOverheadResources: perContainer perPod
NodeFeatures: supplementalGroupsPolicy
NodeRuntimeHandlerFeatures: recursiveReadOnlyMounts userNamespaces
NodeSwapStatus: capacity
NodeSystemInfo: runningInUserNamespace
PersistentVolumeClaimSpec: storageClassName volumeAttributesClassName volumeMode
PodCertificateProjection: maxExpirationSeconds user
PodDNSConfigOption: value
PodDisruptionBudgetSpec: maxUnavailable minAvailable unhealthyPodEvictionPolicy
PodFailurePolicyOnExitCodesRequirement: containerName
PodResourceClaim: resourceClaimName resourceClaimTemplateName
PodResourceClaimStatus: resourceClaimName
PodSchedulingGroup: podGroupName
PodSecurityContext: fsGroup fsGroupChangePolicy runAsGroup runAsNonRoot runAsUser seLinuxChangePolicy
    supplementalGroupsPolicy
PodSpec: activeDeadlineSeconds automountServiceAccountToken enableServiceLinks hostnameOverride hostUsers
    preemptionPolicy priority runtimeClassName setHostnameAsFQDN shareProcessNamespace terminationGracePeriodSeconds
PodStatus: startTime
Preconditions: resourceVersion uid
PriorityClass: preemptionPolicy
Probe: terminationGracePeriodSeconds
ProjectedVolumeSource: defaultMode defaultUser
SeccompProfile: localhostProfile
Secret: immutable
SecretEnvSource: optional
SecretKeySelector: optional
SecretProjection: optional
SecretVolumeSource: defaultMode defaultUser optional
SecurityContext: allowPrivilegeEscalation privileged procMount readOnlyRootFilesystem runAsGroup runAsNonRoot runAsUser
ServiceAccountTokenProjection: expirationSeconds user
SuccessPolicyRule: succeededCount succeededIndexes
Taint: timeAdded
Toleration: tolerationSeconds
TopologySpreadConstraint: minDomains nodeAffinityPolicy nodeTaintsPolicy
TypedLocalObjectReference: apiGroup
TypedObjectReference: apiGroup namespace
VolumeMount: mountPropagation recursiveReadOnly
WindowsSecurityContextOptions: gmsaCredentialSpec gmsaCredentialSpecName hostProcess runAsUserName
WorkloadPodGroupGangSchedulingPolicy: minCount
WorkloadPodGroupResourceClaim: resourceClaimName resourceClaimTemplateName
"""

# Objects by value: empty and absent are the same.
_VALUES = """
Container: resources
ContainerStatus: lastState state
EphemeralContainer: resources
Job: metadata spec status
PersistentVolumeClaimSpec: resources
PersistentVolumeClaimTemplate: metadata spec
Pod: metadata spec status
PodTemplateSpec: metadata spec
PreferredSchedulingTerm: preference
WeightedPodAffinityTerm: podAffinityTerm
JobSpec: template
"""
