"""What a controller is called with, what it may read, and what it answers.

A controller gets the *object* to reconcile, never what happened to it. It reads objects as stored and answers with what
is to be written, and when it wants to reconcile again. It is idempotent: for an object that is as it should be, the
answer is empty. An object with a write under way is reconciled when that is answered, not before.

A change is an *edit*: a frozen value that makes the new object from the stored one, or None if it no longer applies. So
a change that met a newer object is made again from that one, and no condition of another writer is lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, NamedTuple, Protocol, TypeGuard, cast

from makeway.api.objects.kubernetes import (
    Job,
    LimitRange,
    Namespace,
    Node,
    Pod,
    PodDisruptionBudget,
    PriorityClass,
    RuntimeClass,
)
from makeway.api.objects.meta import KubernetesObject
from makeway.api.objects.queueing import (
    AdmissionCheck,
    ClusterQueue,
    Cohort,
    LocalQueue,
    ResourceFlavor,
    WorkloadPriorityClass,
)
from makeway.api.objects.scheduling import GangWorkload
from makeway.api.objects.workload import Workload
from makeway.api.versions import Kind
from makeway.core.model import Millis, QueueName, WorkloadKey
from makeway.core.policy import Policy
from makeway.core.state import State
from makeway.core.trace import Step

# --- what is named ---------------------------------------------------------------------------------------------------

if TYPE_CHECKING:  # with these defaults, which typing knows from Python 3.13 on, a bare Ref is one of whatever kind
    from typing_extensions import TypeVar

    Object = TypeVar("Object", bound=KubernetesObject, default=KubernetesObject)
    Object_co = TypeVar("Object_co", bound=KubernetesObject, default=KubernetesObject, covariant=True)
    Object_contra = TypeVar("Object_contra", bound=KubernetesObject, default=Any, contravariant=True)
else:
    from typing import TypeVar

    Object = TypeVar("Object")
    Object_co = TypeVar("Object_co", covariant=True)
    Object_contra = TypeVar("Object_contra", contravariant=True)


class KindName(str, Generic[Object_co]):
    """How a Ref calls a kind; type checkers learn from it what its objects are. When the program runs, a plain str."""


def _name_of(type_: type[Object], name: str = "") -> KindName[Object]:
    """Where the name of a kind meets its type."""
    return cast("KindName[Object]", name or type_.__name__)


ADMISSION_CHECK: Final = _name_of(AdmissionCheck)
CLUSTER_QUEUE: Final = _name_of(ClusterQueue)
COHORT: Final = _name_of(Cohort)
GANG_WORKLOAD: Final = _name_of(GangWorkload, "Workload.scheduling.k8s.io")  # a bare Workload is that of queueing
JOB: Final = _name_of(Job)
LIMIT_RANGE: Final = _name_of(LimitRange)
LOCAL_QUEUE: Final = _name_of(LocalQueue)
NAMESPACE: Final = _name_of(Namespace)
NODE: Final = _name_of(Node)
POD: Final = _name_of(Pod)
POD_DISRUPTION_BUDGET: Final = _name_of(PodDisruptionBudget)
PRIORITY_CLASS: Final = _name_of(PriorityClass)
RESOURCE_FLAVOR: Final = _name_of(ResourceFlavor)
RUNTIME_CLASS: Final = _name_of(RuntimeClass)
WORKLOAD: Final = _name_of(Workload)
WORKLOAD_PRIORITY_CLASS: Final = _name_of(WorkloadPriorityClass)


class Ref(NamedTuple, Generic[Object_co]):
    """An object by kind and name; the namespace is "" where the kind has none.

    ``Ref[Job]`` names a Job, and a bare ``Ref`` an object of whatever kind.
    """

    kind: KindName[Object_co]
    namespace: str
    name: str

    @classmethod
    def of(cls, value: Object) -> Ref[Object]:
        kind: Any = GANG_WORKLOAD if isinstance(value, GangWorkload) else value.kind
        return Ref(kind, value.metadata.namespace, value.metadata.name)

    @classmethod
    def named(cls, kind: str, namespace: str, name: str) -> Ref:
        """Where only the object that names it knows the kind."""
        of_whatever_kind: Any = kind
        return Ref(of_whatever_kind, namespace, name)

    @classmethod
    def kind_of(cls, kind: Kind) -> KindName:
        """The name of this kind in a Ref."""
        name: Any = kind.name
        return GANG_WORKLOAD if kind.type is GangWorkload else name

    @property
    def key(self) -> WorkloadKey:
        """``namespace/name``, as decisions name a workload."""
        return WorkloadKey(f"{self.namespace}/{self.name}")


def is_of(ref: Ref, kind: KindName[Object]) -> TypeGuard[Ref[Object]]:
    """Whether an object is of this kind."""
    return ref.kind == kind


def workload_ref(key: WorkloadKey) -> Ref[Workload]:
    """The Workload that decisions name so."""
    namespace, _, name = key.partition("/")
    return Ref(WORKLOAD, namespace, name)


# --- what is read ----------------------------------------------------------------------------------------------------


class View(Protocol):
    """The stored objects, as far as they are known, and the decisions about them."""

    @property
    def policy(self) -> Policy: ...

    @property
    def state(self) -> State:
        """What the scheduler believes, including writes that are under way."""

    def get(self, ref: Ref[Object]) -> Object | None:
        """An object as stored; None: there is none."""

    def all(self, kind: KindName[Object]) -> Iterable[Object]:
        """All of a kind, by namespace and name."""

    def owned(self, uid: str, kind: KindName[Object]) -> Iterable[Object]:
        """Workloads or Pods whose controller is the object with this uid, by name."""

    def in_local_queue(self, namespace: str, name: str) -> Iterable[Workload]:
        """Workloads that name this LocalQueue and have not finished, by name."""

    def queue_of(self, workload: Workload) -> QueueName:
        """The ClusterQueue of a Workload: where it has quota, else that of its LocalQueue; "": there is none."""


# --- what is answered ------------------------------------------------------------------------------------------------

# What becomes of a stored object; None: the edit no longer applies. A frozen dataclass with ``__call__``.
Edit = Callable[[Object], Object | None]


class Note(NamedTuple):
    """An Event object to be made (api 15), best effort."""

    about: Ref
    type: str  # Normal, Warning
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Create:
    """Make an object. One that already exists counts as done if ``uid`` of its owner is ours, else as a failure."""

    body: KubernetesObject

    @property
    def ref(self) -> Ref:
        return Ref.of(self.body)


@dataclass(frozen=True, slots=True)
class Change(Generic[Object]):
    """Edit an object, or its status. ``uid`` is that of the object that the decision is about; "": any.

    ``strict``: fail if the object is newer than the one decided on; otherwise the edit is made again from that one.
    ``assumed``: whether it is counted in the state before it is stored; ``quietly``: the state knows it already.
    What frees quota is never assumed.
    """

    ref: Ref[Object]
    edit: Edit[Object]
    status: bool = True
    uid: str = ""
    strict: bool = False
    assumed: Literal["no", "counted", "quietly"] = "no"


@dataclass(frozen=True, slots=True)
class Delete:
    ref: Ref
    uid: str = ""
    propagation: Literal["Background", "Foreground", "Orphan"] = "Background"
    grace: int | None = None  # seconds that a pod may take; None: its own grace period


Write = Create | Change[Any] | Delete


class Departure(NamedTuple):
    """The meaning of an edit that asks a Workload or pod to go, for events and metrics."""

    reason: str  # as the journal names it
    at: Millis  # when it was decided
    preempts: bool = False  # whether another workload or pod needs the room
    by: str = ""  # the one that it leaves for, where the action does not say so


def departure_of(write: Write) -> Departure | None:
    """The ``departure`` property of such an edit; None: the write is no such edit."""
    return getattr(write.edit, "departure", None) if isinstance(write, Change) else None


@dataclass(frozen=True, slots=True)
class Action:
    """A write, what follows once it is stored, and why it is made."""

    write: Write
    then: tuple[Action, ...] = ()  # only if this one succeeds; writes of another object wait with it
    notes: tuple[Note, ...] = ()  # made once it is stored
    because: tuple[Step, ...] = ()
    decision: str = ""  # all writes of a decision carry its id
    by: WorkloadKey | None = None  # of an eviction: the workload that needs the room


class PlacementAttempt(NamedTuple):
    """One attempt to place a pod or a gang, for metrics."""

    is_gang: bool
    result: str  # scheduled, unschedulable
    has_searched: bool = False  # whether victims were searched for
    victims: int = 0
    disrupted: int = 0  # Workloads among them, and plain pods
    violations: int = 0  # of disruption budgets
    is_missed: bool = False  # it found a place that no noticed change had brought


class Placing(NamedTuple):
    """The decision about a pod or a gang that waits for nodes, and why, for the journal."""

    item: str  # "pod namespace/name", "gang namespace/workload/group[/replica]"
    what: Literal["placed", "displacing", "unplaced", "released", "gone"]  # gone: its last entry
    workload: WorkloadKey | None = None  # the Workload of its pods
    decision: str = ""
    reason: str = ""
    victims: tuple[str, ...] = ()  # pods
    steps: tuple[Step, ...] = ()


class Trouble(NamedTuple):
    """An object that could not be read, and was skipped."""

    about: Ref
    error: Exception


@dataclass(frozen=True, slots=True)
class Outcome:
    actions: tuple[Action, ...] = ()
    again_at: Millis | None = None  # reconcile the same object again then, whatever happens; replaces an earlier time
    enqueue: tuple[Ref, ...] = ()  # other objects to reconcile now
    notes: tuple[Note, ...] = field(default=())  # events without a write
    attempts: tuple[PlacementAttempt, ...] = ()
    placings: tuple[Placing, ...] = ()
    at_latest: Millis | None = None  # reconcile again by then, but nothing waits for it: an idle system stays idle
    troubles: tuple[Trouble, ...] = ()  # other objects to set aside


NOTHING = Outcome()


class Controller(Protocol[Object_contra]):
    """A group of reactions. ``kinds`` are the kinds that it is called for. A bare Controller is one of any kinds."""

    @property
    def kinds(self) -> frozenset[str]: ...

    def react(self, ref: Ref[Object_contra], view: View, now: Millis) -> Outcome: ...
