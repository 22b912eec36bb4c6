"""The protobuf numbers of the fields of the Kubernetes types; of Kubernetes 1.37.

One line per type: ``name=number``; ``name=2.4`` is field 4 of a message that JSON does not show, field 2; ``*`` marks a
field that Go keeps as a pointer: it is sent only if it is set, and then counts, whatever its value. All others are
always sent, and are empty if they are not set. ``kubernetes_types`` says what the fields hold.
"""

from __future__ import annotations

TABLE = """\
AWSElasticBlockStoreVolumeSource: volumeID=1 fsType=2 partition=3 readOnly=4
Affinity: nodeAffinity=1* podAffinity=2* podAntiAffinity=3*
AppArmorProfile: type=1 localhostProfile=2*
AttachedVolume: name=1 devicePath=2
AzureDiskVolumeSource: diskName=1 diskURI=2 cachingMode=3* fsType=4* readOnly=5* kind=6*
AzureFileVolumeSource: secretName=1 shareName=2 readOnly=3
Binding: metadata=1 target=2
CSIVolumeSource: driver=1 readOnly=2* fsType=3* volumeAttributes=4 nodePublishSecretRef=5*
Capabilities: add=1 drop=2
CephFSVolumeSource: monitors=1 path=2 user=3 secretFile=4 secretRef=5* readOnly=6
CinderVolumeSource: volumeID=1 fsType=2 readOnly=3 secretRef=4*
ClusterTrustBundleProjection: name=1* signerName=2* labelSelector=3* path=4 optional=5* user=6*
Condition: type=1 status=2 observedGeneration=3 lastTransitionTime=4 reason=5 message=6
ConfigMap: metadata=1 data=2 binaryData=3 immutable=4*
ConfigMapEnvSource: name=1.1 optional=2*
ConfigMapKeySelector: name=1.1 key=2 optional=3*
ConfigMapNodeConfigSource: namespace=1 name=2 uid=3 resourceVersion=4 kubeletConfigKey=5
ConfigMapProjection: name=1.1 items=2 optional=4*
ConfigMapVolumeSource: name=1.1 items=2 defaultMode=3* optional=4* defaultUser=5*
Container: name=1 image=2 command=3 args=4 workingDir=5 ports=6 env=7 resources=8 volumeMounts=9 livenessProbe=10*
    readinessProbe=11* lifecycle=12* terminationMessagePath=13 imagePullPolicy=14 securityContext=15* stdin=16
    stdinOnce=17 tty=18 envFrom=19 terminationMessagePolicy=20 volumeDevices=21 startupProbe=22* resizePolicy=23
    restartPolicy=24* restartPolicyRules=25
ContainerExtendedResourceRequest: containerName=1 resourceName=2 requestName=3
ContainerImage: names=1 sizeBytes=2
ContainerPort: name=1 hostPort=2 containerPort=3 protocol=4 hostIP=5
ContainerResizePolicy: resourceName=1 restartPolicy=2
ContainerRestartRule: action=1 exitCodes=2*
ContainerRestartRuleOnExitCodes: operator=1 values=2
ContainerState: waiting=1* running=2* terminated=3*
ContainerStateRunning: startedAt=1
ContainerStateTerminated: exitCode=1 signal=2 reason=3 message=4 startedAt=5 finishedAt=6 containerID=7
ContainerStateWaiting: reason=1 message=2
ContainerStatus: name=1 state=2 lastState=3 ready=4 restartCount=5 image=6 imageID=7 containerID=8 started=9*
    allocatedResources=10 resources=11* volumeMounts=12 user=13* allocatedResourcesStatus=14 stopSignal=15*
ContainerUser: linux=1*
DaemonEndpoint: Port=1
DeleteOptions: gracePeriodSeconds=1* preconditions=2* orphanDependents=3* propagationPolicy=4* dryRun=5
    ignoreStoreReadErrorWithClusterBreakingPotential=6*
DownwardAPIProjection: items=1
DownwardAPIVolumeFile: path=1 fieldRef=2* resourceFieldRef=3* mode=4* user=5*
DownwardAPIVolumeSource: items=1 defaultMode=2* defaultUser=3*
EmptyDirVolumeSource: medium=1 sizeLimit=2* mode=3*
EnvFromSource: prefix=1 configMapRef=2* secretRef=3*
EnvVar: name=1 value=2 valueFrom=3*
EnvVarSource: fieldRef=1* resourceFieldRef=2* configMapKeyRef=3* secretKeyRef=4* fileKeyRef=5*
EphemeralContainer: name=1.1 image=1.2 command=1.3 args=1.4 workingDir=1.5 ports=1.6 env=1.7 resources=1.8
    volumeMounts=1.9 livenessProbe=1.10* readinessProbe=1.11* lifecycle=1.12* terminationMessagePath=1.13
    imagePullPolicy=1.14 securityContext=1.15* stdin=1.16 stdinOnce=1.17 tty=1.18 envFrom=1.19
    terminationMessagePolicy=1.20 volumeDevices=1.21 startupProbe=1.22* resizePolicy=1.23 restartPolicy=1.24*
    restartPolicyRules=1.25 targetContainerName=2
EphemeralVolumeSource: volumeClaimTemplate=1*
Event: metadata=1 involvedObject=2 reason=3 message=4 source=5 firstTimestamp=6 lastTimestamp=7 count=8 type=9
    eventTime=10 series=11* action=12 related=13* reportingComponent=14 reportingInstance=15
EventSeries: count=1 lastObservedTime=2
EventSource: component=1 host=2
EventsV1Event: metadata=1 eventTime=2 series=3* reportingController=4 reportingInstance=5 action=6 reason=7 regarding=8
    related=9* note=10 type=11 deprecatedSource=12 deprecatedFirstTimestamp=13 deprecatedLastTimestamp=14
    deprecatedCount=15
EventsV1EventSeries: count=1 lastObservedTime=2
Eviction: metadata=1 deleteOptions=2*
EvictionResponder: name=1 priority=2*
ExecAction: command=1
FCVolumeSource: targetWWNs=1 lun=2* fsType=3 readOnly=4 wwids=5
FieldSelectorAttributes: rawSelector=1 requirements=2
FieldSelectorRequirement: key=1 operator=2 values=3
FileKeySelector: volumeName=1 path=2 key=3 optional=4*
FlexVolumeSource: driver=1 fsType=2 secretRef=3* readOnly=4 options=5
FlockerVolumeSource: datasetName=1 datasetUUID=2
GCEPersistentDiskVolumeSource: pdName=1 fsType=2 partition=3 readOnly=4
GRPCAction: port=1 service=2* mode=3*
GitRepoVolumeSource: repository=1 revision=2 directory=3
GlusterfsVolumeSource: endpoints=1 path=2 readOnly=3
HTTPGetAction: path=1 port=2 host=3 scheme=4 httpHeaders=5 protocol=6*
HTTPHeader: name=1 value=2
HostAlias: ip=1 hostnames=2
HostIP: ip=1
HostPathVolumeSource: path=1 type=2*
ISCSIVolumeSource: targetPortal=1 iqn=2 lun=3 iscsiInterface=4 fsType=5 readOnly=6 portals=7 chapAuthDiscovery=8
    secretRef=10* chapAuthSession=11 initiatorName=12*
ImageVolumeSource: reference=1 pullPolicy=2
ImageVolumeStatus: imageRef=1
Job: metadata=1 spec=2 status=3
JobCondition: type=1 status=2 lastProbeTime=3 lastTransitionTime=4 reason=5 message=6
JobSchedulingConfiguration: schedulingPolicy=1* schedulingConstraints=2* disruptionMode=3* resourceClaims=4
JobSpec: parallelism=1* completions=2* activeDeadlineSeconds=3* selector=4* manualSelector=5* template=6
    backoffLimit=7* ttlSecondsAfterFinished=8* completionMode=9* suspend=10* podFailurePolicy=11*
    backoffLimitPerIndex=12* maxFailedIndexes=13* podReplacementPolicy=14* managedBy=15* successPolicy=16*
    scheduling=17*
JobStatus: conditions=1 startTime=2* completionTime=3* active=4 succeeded=5 failed=6 completedIndexes=7
    uncountedTerminatedPods=8* ready=9* failedIndexes=10* terminating=11*
KeyToPath: key=1 path=2 mode=3* user=4*
LabelSelector: matchLabels=1 matchExpressions=2
LabelSelectorAttributes: rawSelector=1 requirements=2
LabelSelectorRequirement: key=1 operator=2 values=3
Lease: metadata=1 spec=2
LeaseSpec: holderIdentity=1* leaseDurationSeconds=2* acquireTime=3* renewTime=4* leaseTransitions=5* strategy=6*
    preferredHolder=7*
Lifecycle: postStart=1* preStop=2* stopSignal=3*
LifecycleHandler: exec=1* httpGet=2* tcpSocket=3* sleep=4*
LimitRange: metadata=1 spec=2
LimitRangeItem: type=1 max=2 min=3 default=4 defaultRequest=5 maxLimitRequestRatio=6
LimitRangeSpec: limits=1
LinuxContainerUser: uid=1 gid=2 supplementalGroups=3
LocalObjectReference: name=1
NFSVolumeSource: server=1 path=2 readOnly=3
Namespace: metadata=1 spec=2 status=3
NamespaceCondition: type=1 status=2 lastTransitionTime=4 reason=5 message=6
NamespaceSpec: finalizers=1
NamespaceStatus: phase=1 conditions=2
Node: metadata=1 spec=2 status=3
NodeAddress: type=1 address=2
NodeAffinity: requiredDuringSchedulingIgnoredDuringExecution=1* preferredDuringSchedulingIgnoredDuringExecution=2
NodeAllocatableMappedResources: name=1 quantity=2*
NodeAllocatableOverheadResources: name=1 perPod=2* perContainer=3*
NodeAllocatableResourceClaimStatus: resourceClaimName=1 containers=2 mapping=4 overhead=5
NodeCondition: type=1 status=2 lastHeartbeatTime=3 lastTransitionTime=4 reason=5 message=6
NodeConfigSource: configMap=2*
NodeConfigStatus: assigned=1* active=2* lastKnownGood=3* error=4
NodeDaemonEndpoints: kubeletEndpoint=1
NodeFeatures: supplementalGroupsPolicy=1*
NodePodPreemptionPolicy: disableResizePreemption=1
NodeRuntimeHandler: name=1 features=2*
NodeRuntimeHandlerFeatures: recursiveReadOnlyMounts=1* userNamespaces=2*
NodeSelector: nodeSelectorTerms=1
NodeSelectorRequirement: key=1 operator=2 values=3
NodeSelectorTerm: matchExpressions=1 matchFields=2
NodeSpec: podCIDR=1 externalID=2 providerID=3 unschedulable=4 taints=5 configSource=6* podCIDRs=7
    podPreemptionPolicy=8*
NodeStatus: capacity=1 allocatable=2 phase=3 conditions=4 addresses=5 daemonEndpoints=6 nodeInfo=7 images=8
    volumesInUse=9 volumesAttached=10 config=11* runtimeHandlers=12 features=13* declaredFeatures=14
NodeSwapStatus: capacity=1*
NodeSystemInfo: machineID=1 systemUUID=2 bootID=3 kernelVersion=4 osImage=5 containerRuntimeVersion=6
    kubeletVersion=7 kubeProxyVersion=8 operatingSystem=9 architecture=10 swap=11* runningInUserNamespace=12*
NonResourceAttributes: path=1 verb=2
NonResourceRule: verbs=1 nonResourceURLs=2
ObjectFieldSelector: apiVersion=1 fieldPath=2
ObjectMeta: name=1 generateName=2 namespace=3 selfLink=4 uid=5 resourceVersion=6 generation=7 creationTimestamp=8
    deletionTimestamp=9* deletionGracePeriodSeconds=10* labels=11 annotations=12 ownerReferences=13 finalizers=14
    managedFields=17
ObjectReference: kind=1 namespace=2 name=3 uid=4 apiVersion=5 resourceVersion=6 fieldPath=7
Overhead: podFixed=1
OwnerReference: kind=1 name=3 uid=4 apiVersion=5 controller=6* blockOwnerDeletion=7*
PersistentVolumeClaimSpec: accessModes=1 resources=2 volumeName=3 selector=4* storageClassName=5* volumeMode=6*
    dataSource=7* dataSourceRef=8* volumeAttributesClassName=9*
PersistentVolumeClaimTemplate: metadata=1 spec=2
PersistentVolumeClaimVolumeSource: claimName=1 readOnly=2
PhotonPersistentDiskVolumeSource: pdID=1 fsType=2
Pod: metadata=1 spec=2 status=3
PodAffinity: requiredDuringSchedulingIgnoredDuringExecution=1 preferredDuringSchedulingIgnoredDuringExecution=2
PodAffinityTerm: labelSelector=1* namespaces=2 topologyKey=3 namespaceSelector=4* matchLabelKeys=5 mismatchLabelKeys=6
PodAntiAffinity: requiredDuringSchedulingIgnoredDuringExecution=1 preferredDuringSchedulingIgnoredDuringExecution=2
PodCertificateProjection: signerName=1 keyType=2 maxExpirationSeconds=3* credentialBundlePath=4 keyPath=5
    certificateChainPath=6 userAnnotations=7 user=8*
PodCondition: type=1 status=2 lastProbeTime=3 lastTransitionTime=4 reason=5 message=6 observedGeneration=7
PodDNSConfig: nameservers=1 searches=2 options=3
PodDNSConfigOption: name=1 value=2*
PodDisruptionBudget: metadata=1 spec=2 status=3
PodDisruptionBudgetSpec: minAvailable=1* selector=2* maxUnavailable=3* unhealthyPodEvictionPolicy=4*
PodDisruptionBudgetStatus: observedGeneration=1 disruptedPods=2 disruptionsAllowed=3 currentHealthy=4
    desiredHealthy=5 expectedPods=6 conditions=7
PodExtendedResourceClaimStatus: requestMappings=1 resourceClaimName=2
PodFailurePolicy: rules=1
PodFailurePolicyOnExitCodesRequirement: containerName=1* operator=2 values=3
PodFailurePolicyOnPodConditionsPattern: type=1 status=2
PodFailurePolicyRule: action=1 onExitCodes=2* onPodConditions=3
PodIP: ip=1
PodOS: name=1
PodReadinessGate: conditionType=1
PodResourceClaim: name=1 resourceClaimName=3* resourceClaimTemplateName=4*
PodResourceClaimStatus: name=1 resourceClaimName=2*
PodSchedulingGate: name=1
PodSchedulingGroup: podGroupName=1*
PodSecurityContext: seLinuxOptions=1* runAsUser=2* runAsNonRoot=3* supplementalGroups=4 fsGroup=5* runAsGroup=6*
    sysctls=7 windowsOptions=8* fsGroupChangePolicy=9* seccompProfile=10* appArmorProfile=11*
    supplementalGroupsPolicy=12* seLinuxChangePolicy=13*
PodSpec: volumes=1 containers=2 restartPolicy=3 terminationGracePeriodSeconds=4* activeDeadlineSeconds=5* dnsPolicy=6
    nodeSelector=7 serviceAccountName=8 serviceAccount=9 nodeName=10 hostNetwork=11 hostPID=12 hostIPC=13
    securityContext=14* imagePullSecrets=15 hostname=16 subdomain=17 affinity=18* schedulerName=19 initContainers=20
    automountServiceAccountToken=21* tolerations=22 hostAliases=23 priorityClassName=24 priority=25* dnsConfig=26*
    shareProcessNamespace=27* readinessGates=28 runtimeClassName=29* enableServiceLinks=30* preemptionPolicy=31*
    overhead=32 topologySpreadConstraints=33 ephemeralContainers=34 setHostnameAsFQDN=35* os=36* hostUsers=37*
    schedulingGates=38 resourceClaims=39 resources=40* hostnameOverride=41* schedulingGroup=43* evictionResponders=44
PodStatus: phase=1 conditions=2 message=3 reason=4 hostIP=5 podIP=6 startTime=7* containerStatuses=8 qosClass=9
    initContainerStatuses=10 nominatedNodeName=11 podIPs=12 ephemeralContainerStatuses=13 resize=14
    resourceClaimStatuses=15 hostIPs=16 observedGeneration=17 extendedResourceClaimStatus=18* allocatedResources=19
    resources=20* nodeAllocatableResourceClaimStatuses=21 volumeHealth=22
PodTemplateSpec: metadata=1 spec=2
PodVolumeHealth: name=1 healthConditions=2 lastTransitionTime=3
PortworxVolumeSource: volumeID=1 fsType=2 readOnly=3
Preconditions: uid=1* resourceVersion=2*
PreferredSchedulingTerm: weight=1 preference=2
PriorityClass: metadata=1 value=2 globalDefault=3 description=4 preemptionPolicy=5*
Probe: exec=1.1* httpGet=1.2* tcpSocket=1.3* grpc=1.4* initialDelaySeconds=2 timeoutSeconds=3 periodSeconds=4
    successThreshold=5 failureThreshold=6 terminationGracePeriodSeconds=7*
ProjectedVolumeSource: sources=1 defaultMode=2* defaultUser=3*
QuobyteVolumeSource: registry=1 volume=2 readOnly=3 user=4 group=5 tenant=6
RBDVolumeSource: monitors=1 image=2 fsType=3 pool=4 user=5 keyring=6 secretRef=7* readOnly=8
ResourceAttributes: namespace=1 verb=2 group=3 version=4 resource=5 subresource=6 name=7 fieldSelector=8*
    labelSelector=9*
ResourceClaim: name=1 request=2
ResourceFieldSelector: containerName=1 resource=2 divisor=3
ResourceHealth: resourceID=1 health=2 message=6*
ResourceRequirements: limits=1 requests=2 claims=3
ResourceRule: verbs=1 apiGroups=2 resources=3 resourceNames=4
ResourceStatus: name=1 resources=2
RuntimeClass: metadata=1 handler=2 overhead=3* scheduling=4*
SELinuxOptions: user=1 role=2 type=3 level=4
ScaleIOVolumeSource: gateway=1 system=2 secretRef=3* sslEnabled=4 protectionDomain=5 storagePool=6 storageMode=7
    volumeName=8 fsType=9 readOnly=10
Scheduling: nodeSelector=1 tolerations=2
SeccompProfile: type=1 localhostProfile=2*
Secret: metadata=1 data=2 type=3 stringData=4 immutable=5*
SecretEnvSource: name=1.1 optional=2*
SecretKeySelector: name=1.1 key=2 optional=3*
SecretProjection: name=1.1 items=2 optional=4*
SecretVolumeSource: secretName=1 items=2 defaultMode=3* optional=4* defaultUser=5*
SecurityContext: capabilities=1* privileged=2* seLinuxOptions=3* runAsUser=4* runAsNonRoot=5*
    readOnlyRootFilesystem=6* allowPrivilegeEscalation=7* runAsGroup=8* procMount=9* windowsOptions=10*
    seccompProfile=11* appArmorProfile=12*
SelfSubjectAccessReview: metadata=1 spec=2 status=3
SelfSubjectAccessReviewSpec: resourceAttributes=1* nonResourceAttributes=2*
SelfSubjectReview: metadata=1 status=2
SelfSubjectReviewStatus: userInfo=1
SelfSubjectRulesReview: metadata=1 spec=2 status=3
SelfSubjectRulesReviewSpec: namespace=1
ServiceAccountTokenProjection: audience=1 expirationSeconds=2* path=3 user=4*
SleepAction: seconds=1
StorageOSVolumeSource: volumeName=1 volumeNamespace=2 fsType=3 readOnly=4 secretRef=5*
SubjectAccessReviewStatus: allowed=1 reason=2 evaluationError=3 denied=4
SubjectRulesReviewStatus: resourceRules=1 nonResourceRules=2 incomplete=3 evaluationError=4
SuccessPolicy: rules=1
SuccessPolicyRule: succeededIndexes=1* succeededCount=2*
Sysctl: name=1 value=2
TCPSocketAction: port=1 host=2
Taint: key=1 value=2 effect=3 timeAdded=4*
Toleration: key=1 operator=2 value=3 effect=4 tolerationSeconds=5*
TopologyConstraint: key=1
TopologySpreadConstraint: maxSkew=1 topologyKey=2 whenUnsatisfiable=3 labelSelector=4* minDomains=5*
    nodeAffinityPolicy=6* nodeTaintsPolicy=7* matchLabelKeys=8
TypedLocalObjectReference: apiGroup=1* kind=2 name=3
TypedObjectReference: apiGroup=1* kind=2 name=3 namespace=4*
UncountedTerminatedPods: succeeded=1 failed=2
UserInfo: username=1 uid=2 groups=3 extra=4
Volume: name=1 hostPath=2.1* emptyDir=2.2* gcePersistentDisk=2.3* awsElasticBlockStore=2.4* gitRepo=2.5* secret=2.6*
    nfs=2.7* iscsi=2.8* glusterfs=2.9* persistentVolumeClaim=2.10* rbd=2.11* flexVolume=2.12* cinder=2.13*
    cephfs=2.14* flocker=2.15* downwardAPI=2.16* fc=2.17* azureFile=2.18* configMap=2.19* vsphereVolume=2.20*
    quobyte=2.21* azureDisk=2.22* photonPersistentDisk=2.23* portworxVolume=2.24* scaleIO=2.25* projected=2.26*
    storageos=2.27* csi=2.28* ephemeral=2.29* image=2.30*
VolumeDevice: name=1 devicePath=2
VolumeHealthCondition: status=1 reason=2 message=3
VolumeMount: name=1 readOnly=2 mountPath=3 subPath=4 mountPropagation=5* subPathExpr=6 recursiveReadOnly=7*
    bindMountOptions=8
VolumeMountStatus: name=1 mountPath=2 readOnly=3 recursiveReadOnly=4* volumeStatus=5*
VolumeProjection: secret=1* downwardAPI=2* configMap=3* serviceAccountToken=4* clusterTrustBundle=5* podCertificate=6*
VolumeResourceRequirements: limits=1 requests=2
VolumeStatus: image=1*
VsphereVirtualDiskVolumeSource: volumePath=1 fsType=2 storagePolicyName=3 storagePolicyID=4
WeightedPodAffinityTerm: weight=1 podAffinityTerm=2
WindowsSecurityContextOptions: gmsaCredentialSpecName=1* gmsaCredentialSpec=2* runAsUserName=3* hostProcess=4*
WorkloadPodGroupDisruptionMode: single=1* all=2*
WorkloadPodGroupGangSchedulingPolicy: minCount=1*
WorkloadPodGroupResourceClaim: name=1 resourceClaimName=2* resourceClaimTemplateName=3*
WorkloadPodGroupSchedulingConstraints: topology=1
WorkloadPodGroupSchedulingPolicy: basic=1* gang=2*
"""
