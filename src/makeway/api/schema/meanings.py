"""What a field means, in one sentence. ``kubectl explain`` and the generated CRDs show it.

There is one paragraph per type and one line per field. The paragraph ``*`` is for fields that mean the same in every
type (``metadata``). Every field of our own kinds has a line, and every line has its field. Of the types that
Kubernetes defines, the fields that jobs mostly use have a line.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import get_args

from makeway.api.objects.queueing import ReclaimPolicy, WithinPolicy


def meaning(type_name: str, field: str = "") -> str:
    """The meaning of a field or of a type; "" if there is no line for it."""
    words = _table()
    return words.get((type_name, field), "") or (words.get(("*", field), "") if field else "")


def _listed(values: object) -> str:
    """The values that may be written, as a sentence ends with them."""
    *names, last = get_args(values)
    return f"{', '.join(names)} or {last}"


@cache
def _table() -> Mapping[tuple[str, str], str]:
    table: dict[tuple[str, str], str] = {}
    type_name = ""
    text = _TEXT.replace("{ReclaimPolicy}", _listed(ReclaimPolicy)).replace("{WithinPolicy}", _listed(WithinPolicy))
    for line in text.splitlines():
        head, _, words = line.strip().partition(": ")
        if not line.startswith("  "):
            type_name = head
            if words:
                table[type_name, ""] = words
        elif line.strip():
            table[type_name, head] = words
    return MappingProxyType(table)


_TEXT = """
*
  apiVersion: Group and version of the kind.
  kind: Name of the kind.
  metadata: Name, labels, owners and what else every object has.
  spec: What is wanted.
  status: What is so. Only controllers write it, through the status subresource.
  conditions: What is true of the object now, one entry per type.

ObjectMeta: What every object has.
  name: Name of the object, unique among those of its kind in its namespace.
  generateName: Beginning of a name that the server completes, where no name is given.
  namespace: Namespace of the object. Kinds of the whole cluster have none.
  uid: Identity of the object. One that is deleted and created anew has another.
  resourceVersion: State of the object, as a number. An update that names an older one is refused.
  generation: Counts the changes of what is wanted.
  creationTimestamp: When the object was created.
  deletionTimestamp: When it is to be gone, once its deletion was asked for.
  deletionGracePeriodSeconds: How long it may take to go.
  labels: Keys and values by which objects are chosen.
  annotations: Keys and values for tools and people.
  finalizers: Who has to do something before the object may go.
  ownerReferences: Objects that this one depends on. It goes when all of them have gone.
  managedFields: Who set which field.
  selfLink: Not set any more.

OwnerReference: An object that another one depends on.
  apiVersion: Group and version of the owner.
  kind: Kind of the owner.
  name: Name of the owner.
  uid: Identity of the owner.
  controller: Whether this owner is the one that steers the object.
  blockOwnerDeletion: Whether a foreground deletion of the owner waits for this object.

Condition: One thing that is true, false or unknown of an object.
  type: What it is about.
  status: True, False or Unknown.
  reason: Why, in one word.
  message: Why, in a sentence.
  lastTransitionTime: When the status last changed.
  observedGeneration: Which generation of the object it speaks of.

LabelSelector: Chooses objects by their labels. All that it says must hold; an empty one chooses every object.
  matchLabels: Labels that must have exactly these values.
  matchExpressions: Further requirements on labels.

LabelSelectorRequirement: A requirement on one label.
  key: The label.
  operator: How the label relates to the values: In, NotIn, Exists or DoesNotExist.
  values: Values for In and NotIn. The other operators have none.

Taint: Keeps pods off a node that do not tolerate it.
  key: Key of the taint.
  value: Value of the taint.
  effect: What happens to a pod that does not tolerate it.
  timeAdded: When the taint was added.

Toleration: Lets a pod onto nodes with a taint that it matches.
  key: Key of the taint. None, with operator Exists, matches every key.
  operator: Equal compares the value too, Exists does not. Equal if not set.
  value: Value of the taint, for Equal.
  effect: Effect of the taint. Any, if not set.
  tolerationSeconds: How long a NoExecute taint is tolerated. For ever, if not set.

ResourceFlavorSpec: The nodes behind a flavor.
  nodeLabels: Labels of these nodes. Pods get them as node selector, and are not admitted here if theirs contradicts.
  nodeTaints: Taints of these nodes. A workload must tolerate them, but for PreferNoSchedule, to be admitted here.
  tolerations: Tolerations that pods admitted here get.
  topologyName: Topology of these nodes. Kept, but without effect here.

ClusterQueueSpec: What a queue owns, and how it shares it out.
  resourceGroups: The quotas. A resource, and a flavor, belongs to one group only.
  cohortName: The cohort that the queue lends to and borrows from. It need not exist as an object. None if not set.
  cohort: The cohort that the queue lends to and borrows from. None if not set.
  queueingStrategy: BestEffortFIFO lets others pass a workload that does not fit, StrictFIFO does not.
  namespaceSelector: Namespaces whose workloads may be admitted. None if not set; an empty one is all of them.
  flavorFungibility: When the next flavor is tried instead of borrowing or preempting in this one.
  preemption: Whom a workload of this queue may preempt.
  admissionChecksStrategy: Checks that a workload must pass beside quota.
  admissionChecks: Checks that a workload must pass beside quota, whatever its flavors.
  stopPolicy: None admits. Hold admits nobody, HoldAndDrain also evicts those who run.
  fairSharing: How much this queue counts where cohorts share by weight.
  admissionScope: Kept, but without effect here.
  concurrentAdmission: Several Options of a workload, one per flavor, compete for admission. Cannot be changed.

ResourceGroup: Resources that are had together, and the flavors they come in.
  coveredResources: Resources of the group.
  flavors: Flavors with their quotas, best first.

FlavorQuotas: What is owned in one flavor.
  name: Name of a ResourceFlavor.
  resources: A quota for each covered resource, in the same order.

ResourceQuota: What is owned of one resource in one flavor.
  name: Name of the resource.
  nominalQuota: The amount that is owned.
  borrowingLimit: How much more may be used, if the cohort has it. No limit if not set.
  lendingLimit: How much of it others in the cohort may use. All of it if not set.

FlavorFungibility
  whenCanBorrow: MayStopSearch takes a flavor in which borrowing is enough, TryNextFlavor looks further first.
  whenCanPreempt: MayStopSearch takes a flavor in which preemption would help, TryNextFlavor looks further first.
  preference: What is better where both are possible, borrowing or preempting. Needs TryNextFlavor for both.

Preemption
  reclaimWithinCohort: Workloads of other queues that use what this one owns: {ReclaimPolicy}.
  borrowWithinCohort: Workloads of other queues while this one borrows itself.
  withinClusterQueue: Workloads of the own queue: {WithinPolicy}.
  withinClusterQueueConfig: More about preemption in the own queue, for LowerOrNewerEqualPriority.

BorrowWithinCohort
  policy: Never or LowerPriority.
  maxPriorityThreshold: Only workloads up to this priority may be preempted while borrowing.

WithinClusterQueueConfig: Preemption among equals in one queue.
  minAdmitDuration: After so long a workload of the same priority may be preempted for the time it has had.

AdmissionChecksStrategy
  admissionChecks: The checks, each with the flavors it is for.

AdmissionCheckStrategyRule
  name: Name of an AdmissionCheck.
  onFlavors: Flavors that it is for. All of them if empty.

FairSharing: A weight among those who share.
  weight: How much it counts; 1 if not set. 0 counts as an endless share as soon as it borrows.

AdmissionScope
  admissionMode: Kept, but without effect here.

ConcurrentAdmission: Options that compete, and what becomes of the others when one is admitted.
  onSuccess: RemoveOther keeps the admitted Option alone, RemoveLower better ones too, RemoveBelowTarget some of them.
  explicitOptions: The Options. One per flavor if empty.
  removeBelowTargetConfig: For RemoveBelowTarget.

ExplicitOption: One attempt to be admitted.
  name: Names the Option among its siblings.
  createDelaySeconds: How long after the workload it is created. At once if not set.
  deleteDelaySeconds: How long it lives. For ever if not set.
  allowedResourceFlavors: Flavors that it may use.

RemoveBelowTargetConfig: Which Options go.
  targetResourceFlavor: Options worse than this flavor go; the one of the flavor itself is kept.

ClusterQueueStatus: What the queue's workloads use.
  flavorsReservation: What all workloads that hold quota use.
  flavorsUsage: What admitted workloads use.
  pendingWorkloads: How many wait.
  reservingWorkloads: How many hold quota.
  admittedWorkloads: How many are admitted.
  fairSharing: The share of the queue, where cohorts share by weight.

FlavorUsage: What is used of one flavor.
  name: Name of the flavor.
  resources: What is used of each resource.

ResourceUsage: What is used of one resource in one flavor.
  name: Name of the resource.
  total: How much is used.
  borrowed: How much of it is borrowed from the cohort.

FairSharingStatus
  weightedShare: What is used above the nominal quota, in relation to what the cohort has, by weight.

CohortSpec: A pool that queues and cohorts below it share.
  parentName: The cohort that this one belongs to. It need not exist as an object. None if not set.
  resourceGroups: Quota that belongs to nobody below in particular; limits bound all below against the parent.
  fairSharing: How much this cohort counts among its siblings.

CohortStatus
  fairSharing: The share of the cohort, where cohorts share by weight.

LocalQueueSpec: Where a namespace's workloads go.
  clusterQueue: The ClusterQueue that admits them. Cannot be changed.
  stopPolicy: None admits. Hold admits nobody, HoldAndDrain also evicts those who run.
  fairSharing: Kept, but without effect here.

LocalQueueStatus: What the workloads of this queue use.
  pendingWorkloads: How many wait.
  reservingWorkloads: How many hold quota.
  admittedWorkloads: How many are admitted.
  flavorsReservation: What all workloads that hold quota use.
  flavorsUsage: What admitted workloads use.
  flavorUsage: What admitted workloads use.
  fairSharing: Kept, but without effect here.

LocalQueueFlavorUsage: What is used of one flavor.
  name: Name of the flavor.
  resources: What is used of each resource.

LocalQueueResourceUsage: What is used of one resource in one flavor.
  name: Name of the resource.
  total: How much is used.

LocalQueueFairSharingStatus
  weightedShare: Kept, but without effect here.
  admissionFairSharingStatus: Kept, but without effect here.

AdmissionFairSharingStatus
  consumedResources: Kept, but without effect here.
  lastUpdate: Kept, but without effect here.

WorkloadSpec: What a job asks for.
  podSets: The pods, in sets of equal ones. They cannot be changed while quota is held.
  queueName: The LocalQueue, in the same namespace.
  priorityClassRef: Where the priority comes from.
  priorityClassName: Where the priority comes from.
  priorityClassSource: Whether the class is a WorkloadPriorityClass or a PriorityClass.
  priority: The higher it is, the earlier the workload is looked at, and the more it may preempt. 0 if not set.
  active: Whether it may be admitted. One that runs is evicted when this becomes false.
  maximumExecutionTimeSeconds: After so long in admission, in all, it is evicted and made inactive.
  preemptionGates: Gates that must be open before this workload may preempt others. Cannot be changed.
  workloadMode: Whether it is an Option of another workload, or the Parent of Options.

PodSet
  name: Names the set among those of the workload.
  template: What the pods are like.
  count: How many pods.
  minCount: How few pods are enough, where fewer may be admitted. Only one set of a workload may have it.
  topologyRequest: Kept, but without effect here.
  allowedResourceFlavors: Only these flavors may be assigned. Any if empty.

TopologyRequest
  required: Kept, but without effect here.
  preferred: Kept, but without effect here.
  unconstrained: Kept, but without effect here.
  podIndexLabel: Kept, but without effect here.
  subGroupIndexLabel: Kept, but without effect here.
  subGroupCount: Kept, but without effect here.
  podSetGroupName: Sets of one group get the same flavors.
  podSetSliceRequiredTopology: Kept, but without effect here.
  podSetSliceSize: Kept, but without effect here.

PriorityClassRef
  group: kueue.x-k8s.io or scheduling.k8s.io.
  kind: WorkloadPriorityClass or PriorityClass.
  name: Name of the class.

PreemptionGate: A gate that bars a workload from preempting until it is opened.
  name: Name of the gate.

WorkloadMode
  type: Default, ResourceFlavorOption or Parent.

WorkloadStatus: What was decided about a workload.
  admission: The quota that it holds. None while it holds none.
  requeueState: When and how often it was queued again after its pods were not ready in time.
  reclaimablePods: Pods that are done and need their quota no longer.
  admissionChecks: How far each of its checks is.
  resourceRequests: What it was found to ask for when it was last looked at, while it is not admitted.
  accumulatedPastExecutionTimeSeconds: How long it has been admitted in former times.
  accumulatedPastExexcutionTimeSeconds: How long it has been admitted in former times.
  schedulingStats: How often it was evicted.
  nominatedClusterNames: Worker clusters that may take it.
  clusterName: The worker cluster that has taken it.
  unhealthyNodes: Kept, but without effect here.
  preemptionGates: Which of its gates are open.
  preemptionGateOpened: Where and when a gate was last opened for it.
  preemptionClaim: What it is promised while those it preempts leave.
  options: How far each of its Options is. Only on a Parent.
  admittedSince: Since when it is admitted without interruption, over moves between flavors. Only on a Parent.

Admission: Quota that is held.
  clusterQueue: Whose quota it is.
  podSetAssignments: What each set of pods got.

PodSetAssignment: What one set of pods got.
  name: Name of the set.
  flavors: Which flavor each resource comes from.
  resourceUsage: How much the whole set uses.
  count: How many pods were admitted.
  topologyAssignment: Kept, but without effect here.
  delayedTopologyRequest: Kept, but without effect here.

RequeueState
  count: How often it was queued again.
  requeueAt: Before then it is not looked at.

ReclaimablePod: Pods of one set that are done.
  name: Name of the set.
  count: How many are done.

AdmissionCheckState: How far a check is.
  name: Name of the AdmissionCheck.
  state: Pending, Ready, Retry (quota is released and tried again) or Rejected (the workload is made inactive).
  lastTransitionTime: When the state last changed.
  message: What the check has to say.
  requeueAfterSeconds: With Retry: how long it waits before it is tried again.
  retryCount: How often the check has asked for another try.
  podSetUpdates: What the check adds to the pods when they start.

PodSetUpdate: What a check adds to the pods of one set.
  name: Name of the set.
  labels: Labels to add.
  annotations: Annotations to add.
  nodeSelector: Node labels to ask for.
  tolerations: Tolerations to add.

PodSetRequest: What one set was found to ask for.
  name: Name of the set.
  resources: How much the whole set asks for.

SchedulingStats
  evictions: Evictions by reason.

EvictionCount: Evictions for one reason.
  reason: Reason of the eviction.
  underlyingCause: What was behind it, where the reason alone does not tell.
  count: How often.

UnhealthyNode
  name: Kept, but without effect here.

PreemptionGateState: Whether a gate is open.
  name: Name of the gate.
  state: Open or Closed.
  lastTransitionTime: When it last changed.

PreemptionGateOpened: The last opening of a gate on a worker.
  cluster: The worker cluster.
  time: When.

PreemptionClaim
  podSetAssignments: The flavors that it will get.
  victims: Those it counts on to leave, the first 256 of them.
  victimCount: How many they are in all.
  issuedAt: When the claim began.
  expiresAt: When it ends at the latest.
  after: The sibling whose claim or quota must end before this one is in force.

ClaimedAssignment: What one set of pods will get.
  name: Name of the set.
  flavors: Which flavor each resource will come from.
  count: How many pods.

ClaimVictim: A workload that has to leave.
  namespace: Its namespace.
  name: Its name.
  uid: Its identity.

ClaimAfter: A sibling whose turn comes first.
  name: Its name.
  uid: Its identity.

OptionState: How far an Option is.
  name: Name of the Option.
  resourceFlavors: Flavors that it got, or may use while it holds no quota.
  status: Pending, QuotaReserved, Admitted, Evicted, Deactivated, NotCreated or Discarded.
  message: Why.

WorkloadPriorityClass
  value: The priority of workloads that name this class. A change reaches those that are not finished.
  description: What the class is for.

AdmissionCheckSpec: Who decides a check.
  controllerName: The controller that decides it. Cannot be changed.
  parameters: An object with what the controller needs to know.
  retryDelayMinutes: Accepted and dropped.

AdmissionCheckParameters: An object with settings of a check.
  apiGroup: Group of the object.
  kind: Kind of the object.
  name: Name of the object.

AdmissionCheckStatus: Whether the check can be decided.

MultiKueueConfigSpec: Worker clusters.
  clusters: Names of MultiKueueClusters, the preferred ones first.
  quotaManagement: Manual. Automated is accepted, with a warning, and acts as Manual.

MultiKueueClusterSpec: How a worker cluster is reached.
  clusterSource: How to connect: exactly one way.
  kubeConfig: A kubeconfig to connect with.
  clusterProfileRef: Kept; a cluster that is named this way stays inactive here.

ClusterSource
  kubeConfig: A kubeconfig to connect with.
  clusterProfileRef: Kept; a cluster that is named this way stays inactive here.

KubeConfig: Where a kubeconfig is.
  location: Name of a Secret with the key kubeconfig, or the path of a file.
  locationType: Secret or Path.

ClusterProfileReference
  name: Name of the profile.

MultiKueueClusterStatus: Whether the cluster can be reached.

GangWorkloadSpec: Groups of pods.
  controllerRef: The object that the pods belong to, for information. Cannot be changed.
  podGroups: The groups. Of a group only minCount can be changed.
  priorityClassName: Class of the priority with which the pods are placed. Cannot be changed.
  preemptionPriorityClassName: Class of the priority that protects them. Not below the other; cannot be changed.

ControllerReference: An object that pods belong to.
  apiGroup: Group of the object.
  kind: Kind of the object.
  name: Name of the object.

PodGroup: Pods that are treated alike.
  name: Names the group; pods refer to it.
  policy: How its pods are placed: exactly one way.

PodGroupPolicy
  basic: One by one.
  gang: All together, or none.

GangPolicy
  minCount: How many pods must have a place together. Those that run count.
  preemptionMode: Whether a preemption takes single pods (Pod) or the whole group (PodGroup).

GangWorkloadStatus: What was resolved for the groups.
  priority: The priority with which the pods are placed.
  preemptionPriority: The priority that protects them.
  preemptionPolicy: Whether the pods may preempt others.
  gang: How many pods each gang group needs, e.g. "3" or "2,4"; "-" for a group that is placed one by one.
  placed: How many of the pods that exist are on nodes, e.g. "2/3".
  state: Waiting (none is on a node), Partly, Placed (every pod, and enough), or Leaving (they had to make way).

Namespace: A scope for names.
Node: A machine that runs pods.
Pod: Containers that run together on one node.
Job: Runs pods until enough of them have succeeded.
Secret: Data that not everybody may read.
ConfigMap: Data for pods.
Event: Something that happened to an object.
LimitRange: Bounds and defaults for the requests of pods in a namespace.
PriorityClass: A priority by name, for pods.
PodDisruptionBudget: How many pods of a set may be evicted at a time.
RuntimeClass: How containers are run.
Lease: A right that its holder has to renew.

JobSpec: How many pods a job runs, and when it is done.
  parallelism: How many pods run at a time at most.
  completions: How many pods must succeed. If not set, the success of one ends the job.
  completionMode: NonIndexed, or Indexed: each completion has a number.
  suspend: Whether no pods may run. A job in a queue is suspended until it is admitted.
  backoffLimit: How many failures make the job fail.
  activeDeadlineSeconds: How long the job may run before it fails.
  ttlSecondsAfterFinished: How long a finished job is kept. For ever if not set.
  template: What the pods are like.
  managedBy: Who looks after the job, if it is not the controller of jobs itself.

PodSpec: What runs in a pod, and where it may run.
  containers: Containers that run side by side.
  initContainers: Containers that run first, one after the other.
  volumes: Folders that containers may mount.
  restartPolicy: Which containers are started again when they end: Always, OnFailure or Never.
  terminationGracePeriodSeconds: How long the processes have after they are asked to end.
  nodeName: The node that it runs on.
  nodeSelector: Labels that the node must have.
  affinity: Further wishes about the node.
  tolerations: Taints that the node may have.
  schedulerName: Who places the pod.
  schedulingGates: Gates that must be removed before the pod is placed.
  priority: The priority, as resolved from its class.
  priorityClassName: Class of the priority.
  resources: What the pod as a whole asks for.
  workloadRef: The group of pods that it is placed with.

Container: One process in a pod.
  name: Names the container in its pod.
  image: The image that it runs.
  command: What it runs, instead of what the image says.
  args: Arguments of the command.
  workingDir: Folder that it runs in.
  env: Environment variables.
  envFrom: Environment variables from a Secret or ConfigMap.
  ports: Ports that it listens on.
  resources: What it asks for.
  volumeMounts: Volumes that it sees.

ResourceRequirements: What is asked for.
  requests: How much is set aside.
  limits: How much may be used at most.

EventsV1Event: Something that happened to an object.
  eventTime: When it happened first. Required of events that are created in this group.
  series: How often it was seen since, and when last. Absent if it happened once.
  reportingController: Which controller tells of it, e.g. kueue-admission.
  reportingInstance: Which instance of that controller, at most 128 characters.
  action: What was done, or was tried in vain, in a word for machines.
  reason: Why, in a word for machines.
  regarding: The object that it happened to.
  related: A second object that took part.
  note: The same for people, at most 1024 bytes.
  type: Normal or Warning.
  deprecatedSource: source of the same event in core/v1.
  deprecatedFirstTimestamp: firstTimestamp of the same event in core/v1.
  deprecatedLastTimestamp: lastTimestamp of the same event in core/v1.
  deprecatedCount: count of the same event in core/v1.
"""
