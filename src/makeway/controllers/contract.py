"""What a controller is told, what it may read, and what it answers.

A controller is told *whom* to look at, never what happened: it reads the objects as they are stored and answers with
what is to be written, and when it wants to look again. Looking twice is looking once: on an object that is as it
should be, the answer is empty. Whoever has a write under way is looked at when that is answered, not before.

A change is an *edit*: a frozen value that makes the new object from the stored one, or None where it no longer
applies. So a change that met a newer object is made again from that one, and nobody's condition is lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Protocol

from makeway.api.objects.meta import Wire
from makeway.api.objects.scheduling import GangWorkload
from makeway.api.versions import Kind
from makeway.core.model import Millis, QueueName, WorkloadKey
from makeway.core.policy import Policy
from makeway.core.state import State
from makeway.core.trace import Step

GANG_WORKLOAD = "Workload.scheduling.k8s.io"  # two kinds are called Workload; a bare one is that of queueing


class Ref(NamedTuple):
    """An object by kind and name; the namespace is "" where the kind has none."""

    kind: str
    namespace: str
    name: str

    @classmethod
    def of(cls, value: Any) -> Ref:
        kind = GANG_WORKLOAD if isinstance(value, GangWorkload) else value.kind
        return cls(kind, value.metadata.namespace, value.metadata.name)

    @classmethod
    def kind_of(cls, kind: Kind) -> str:
        """How a Ref calls this kind."""
        return GANG_WORKLOAD if kind.type is GangWorkload else kind.name

    @property
    def key(self) -> WorkloadKey:
        """``namespace/name``, as decisions name a workload."""
        return WorkloadKey(f"{self.namespace}/{self.name}")


def workload_ref(key: WorkloadKey) -> Ref:
    """The Workload that decisions name so."""
    namespace, _, name = key.partition("/")
    return Ref("Workload", namespace, name)


# --- what is read ----------------------------------------------------------------------------------------------------


class View(Protocol):
    """The stored objects, as far as they are known, and what is decided about them."""

    @property
    def policy(self) -> Policy: ...

    @property
    def state(self) -> State:
        """What the scheduler believes, writes that are under way included."""

    def get(self, ref: Ref) -> Any | None:
        """A wire object as stored; None where there is none."""

    def all(self, kind: str) -> Iterable[Any]:
        """All of a kind, by namespace and name."""

    def owned(self, uid: str, kind: str = "Workload") -> Iterable[Any]:
        """Workloads, or Pods, whose controller is the object with this uid, by name."""

    def in_local_queue(self, namespace: str, name: str) -> Iterable[Any]:
        """Workloads that name this LocalQueue and have not finished, by name."""

    def queue_of(self, workload: Any) -> QueueName:
        """The ClusterQueue of a Workload: where it has quota, else that of its LocalQueue; "" where there is none."""


# --- what is answered ------------------------------------------------------------------------------------------------

Edit = Callable[[Any], Any]  # a frozen dataclass with __call__: stored object -> new object, None: no longer applies


class Note(NamedTuple):
    """An Event object to be made (api 15), best effort."""

    about: Ref
    type: str  # Normal, Warning
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Create:
    """Make an object. That it is there already counts as done if ``uid`` of its owner is ours, else as a failure."""

    body: Wire

    @property
    def ref(self) -> Ref:
        return Ref.of(self.body)


@dataclass(frozen=True, slots=True)
class Change:
    """Edit an object, or its status. ``uid`` is that of the object the decision was made about; "" means any.

    ``strict``: a newer object than the one decided on makes it fail; otherwise the edit is made again from that one.
    ``assumed``: whether the state counts on it before it is stored; ``quietly`` where the state knows it already.
    What frees quota is never assumed.
    """

    ref: Ref
    edit: Edit
    status: bool = True
    uid: str = ""
    strict: bool = False
    assumed: Literal["no", "told", "quietly"] = "no"


@dataclass(frozen=True, slots=True)
class Delete:
    ref: Ref
    uid: str = ""
    propagation: Literal["Background", "Foreground", "Orphan"] = "Background"
    grace: int | None = None  # seconds that a pod may take; None: as long as it says itself


Write = Create | Change | Delete


class Departure(NamedTuple):
    """What an edit means that asks a Workload or pod to go: why, for those who tell and count."""

    reason: str  # as the journal names it
    at: Millis  # when it was decided
    preempts: bool = False  # whether somebody else needs the room
    by: str = ""  # for whom, where the action does not say so


def departure_of(write: Write) -> Departure | None:
    """Such an edit has a property ``departure``; None: the write is no such edit."""
    return getattr(write.edit, "departure", None) if isinstance(write, Change) else None


@dataclass(frozen=True, slots=True)
class Action:
    """A write, what is to follow once it is stored, and why it is made."""

    write: Write
    then: tuple[Action, ...] = ()  # only if this one succeeds; those of another object's write wait with it
    notes: tuple[Note, ...] = ()  # told once it is stored
    because: tuple[Step, ...] = ()
    decision: str = ""  # all writes of a decision carry its id
    by: WorkloadKey | None = None  # of an eviction: for whom


class PlacementAttempt(NamedTuple):
    """One attempt to place a pod or a gang, for those who count."""

    is_gang: bool
    result: str  # scheduled, unschedulable
    has_searched: bool = False  # whether it was asked who could make way
    victims: int = 0
    disrupted: int = 0  # Workloads among them, and plain pods
    violations: int = 0  # of disruption budgets
    is_missed: bool = False  # it found a place that nothing noticed before had brought


class Placing(NamedTuple):
    """What was decided about a pod or a gang that waits for nodes, and why, for the journal."""

    item: str  # "pod namespace/name", "gang namespace/workload/group[/replica]"
    what: Literal["placed", "displacing", "unplaced", "released", "gone"]  # gone: nothing more will be said of it
    workload: WorkloadKey | None = None  # whose pods they are
    decision: str = ""
    reason: str = ""
    victims: tuple[str, ...] = ()  # pods
    steps: tuple[Step, ...] = ()


class Trouble(NamedTuple):
    """An object that could not be read on the way, and was passed by."""

    about: Ref
    error: Exception


@dataclass(frozen=True, slots=True)
class Outcome:
    actions: tuple[Action, ...] = ()
    again_at: Millis | None = None  # reconcile the same object again then, whatever happens; replaces an earlier wish
    enqueue: tuple[Ref, ...] = ()  # who else is to be reconciled now
    notes: tuple[Note, ...] = field(default=())  # events without a write
    attempts: tuple[PlacementAttempt, ...] = ()
    placings: tuple[Placing, ...] = ()
    at_latest: Millis | None = None  # look again by then, but let nobody wait for it: whoever rests until then, rests
    troubles: tuple[Trouble, ...] = ()  # who else is to be set aside


NOTHING = Outcome()


class Controller(Protocol):
    """One room of reactions. ``kinds`` are the kinds it is told about."""

    @property
    def kinds(self) -> frozenset[str]: ...

    def react(self, whom: Ref, view: View, now: Millis) -> Outcome: ...
