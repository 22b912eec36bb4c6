"""Sources of simulated work: objects that exist from the beginning, and objects that arrive at their times.

Every source is a ``Source``; ``Arriving`` creates its objects. The run time of work and its checkpoint interval are the
annotations ``makeway.dev/runtime`` and ``makeway.dev/checkpoint-interval``.

Promises: equal files (and seeds) give equal sources; a source can be iterated any number of times, with equal results;
all problems of a file are reported at once, with their lines, as a ``SourceError``, and nothing else is raised.

This module has the parts that all sources share, and the source without a format of its own: manifests with times. Not
here: other formats (``generator``, ``traces``, ``swf``), the work itself (``world``).
"""

from __future__ import annotations

import gzip
import hashlib
import os
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from io import BytesIO
from itertools import islice
from typing import NamedTuple

import msgspec
from msgspec import Raw

from makeway.api.conditions import is_true
from makeway.api.names import CHECKPOINT_INTERVAL, DEFAULT_NAMESPACE, RUNTIME
from makeway.api.objects.kubernetes import Job, JobStatus, view
from makeway.api.objects.meta import (
    DNS_SUBDOMAIN,
    Condition,
    KubernetesObject,
    LabelSelector,
    ObjectMeta,
    OwnerReference,
    Wire,
)
from makeway.api.objects.queueing import (
    ClusterQueue,
    ClusterQueueSpec,
    FlavorQuotas,
    LocalQueue,
    LocalQueueSpec,
    Preemption,
    ResourceFlavor,
    ResourceGroup,
)
from makeway.api.objects.workload import PodSet, Workload, WorkloadSpec
from makeway.api.problems import entry
from makeway.api.quantity import Duration, Time
from makeway.api.reading.manifests import Finding, Manifest, findings, load
from makeway.api.reading.structure import told
from makeway.controllers.jobs.kinds.registry import job_kind_of, read_job
from makeway.controllers.jobs.managed import why_unmanaged
from makeway.core.lowering.workloads import is_accounted
from makeway.core.model import Millis, invariant
from makeway.core.policy import Jobs
from makeway.runtime.informers import finder
from makeway.runtime.ports import AlreadyExists, Forbidden, Invalid, NotFound, Store

DAY_ONE = Millis(1_767_225_600_000)  # 2026-01-01T00:00:00Z: the beginning if a source has no date
FILE_BYTES_MAX = 256 * 1024 * 1024  # uncompressed
COUNT_MAX = 1_000_000  # arrivals of one source
FINDINGS_MAX = 100  # shown for one file
CREATED_MAX = 1000  # in one step
BUSY_TENTHS = 9  # the assumed use of a trace's cluster
PRIORITIES = ((0, 60), (50, 30), (100, 10))  # for traces without priorities: priority, and how many in a hundred
NAME_HINT = "lower-case letters, digits, `-` and `.`; it begins and ends with a letter or digit"
_GZIP = b"\x1f\x8b"
_SECONDS = re.compile(r"([0-9]{1,12})(?:\.([0-9]{1,9}))?")
_NAME = re.compile(DNS_SUBDOMAIN)
_NAME_MAX = 253


@dataclass(frozen=True, slots=True)
class Arrival:
    at: Millis
    body: Wire  # a Workload or a Job


@dataclass(frozen=True, slots=True)
class Source:
    objects: tuple[Wire, ...]  # from the beginning, with their status
    arrivals: Iterable[Arrival]  # by time and name; iterable many times
    begins_at: Millis
    count: int  # of the arrivals
    notes: tuple[str, ...] = ()  # what was left out, for people


class Row(NamedTuple):
    """The fields of a Workload that arrives; Workloads of one shape share a spec."""

    at: Millis
    name: str
    spec: WorkloadSpec
    runtime_ms: int


@dataclass(frozen=True, slots=True)
class ArrivalRows:
    """Arrivals of Workloads without owners, made one at a time: the objects of a long trace never exist together."""

    rows: Sequence[Row]  # by time and name

    @classmethod
    def sorted(cls, rows: Iterable[Row]) -> ArrivalRows:
        return cls(sorted(rows, key=lambda row: (row.at, row.name)))

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Arrival]:
        for row in self.rows:
            annotations = {RUNTIME: Duration(row.runtime_ms * 10**6).text}
            meta = ObjectMeta(name=row.name, namespace=DEFAULT_NAMESPACE, annotations=annotations)
            yield Arrival(row.at, Workload(metadata=meta, spec=row.spec))


class Arriving:
    """Creates the arrivals of a source, each at its millisecond, as an actor beside the engine.

    An object that the store refuses is kept in ``refused`` with the reason, and the others go on.
    """

    def __init__(self, store: Store, source: Source, jobs: Jobs | None = None) -> None:
        self._store = store
        self._jobs = Jobs() if jobs is None else jobs
        self._find = finder(store)
        self._coming = iter(source.arrivals)
        self._next = next(self._coming, None)
        self.created = 0
        self.refused: list[tuple[Arrival, str]] = []

    def next_at(self) -> Millis | None:
        """The time of the next arrival; None: all have arrived."""
        return None if self._next is None else self._next.at

    def step(self, now: Millis) -> bool:
        """Create the arrivals that are due, a thousand at most; return whether there were any."""
        due = list(islice(self._due(now), CREATED_MAX))
        for arrival in due:
            try:
                self._store.create(self._as_created(arrival.body))
                self.created += 1
            except (AlreadyExists, Invalid, Forbidden, NotFound) as error:
                self.refused.append((arrival, str(error)))
        return bool(due)

    def _due(self, now: Millis) -> Iterator[Arrival]:
        while self._next is not None and self._next.at <= now:
            arrival, self._next = self._next, next(self._coming, None)
            late = self._next is None or arrival.at <= self._next.at
            invariant(late, "an arrival at {0} follows one at {1}", self._next and self._next.at, arrival.at)
            yield arrival

    def _as_created(self, body: Wire) -> Wire:
        """Return a managed job as a server stores it: suspended (api 18.1)."""
        if (
            not isinstance(body, KubernetesObject)
            or job_kind_of(body) is None
            or why_unmanaged(body, self._jobs, self._find)
        ):
            return body
        return read_job(body).suspended()


# --- what is wrong with a file ----------------------------------------------------------------------------------------


class SourceError(Exception):
    """A file cannot be used as a source of arrivals; ``findings`` say why, and where."""

    def __init__(self, findings: Sequence[Finding]) -> None:
        super().__init__("\n".join(f"{each.file}:{each.line or 1}: {each.message}" for each in findings))
        self.findings = tuple(findings)


class Slips:
    """The problems of a file, reported together: if there are very many the first ones, and a count."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.count = 0
        self._found: list[Finding] = []

    def tell(self, line: int | None, path: str, message: str, hint: str = "") -> None:
        self.count += 1
        if self.count <= FINDINGS_MAX:
            self._found.append(Finding(self.file, line, None, "", "", path, "error", message, hint))

    def refuse(self) -> None:
        """Raise if there are any problems."""
        if self.count > FINDINGS_MAX:
            more = f"{self.count - FINDINGS_MAX} more problems"
            self._found.append(Finding(self.file, None, None, "", "", "", "error", more, "mend the first ones"))
        if self._found:
            raise SourceError(self._found)


# --- files ------------------------------------------------------------------------------------------------------------


class SourceFile(NamedTuple):
    name: str  # as people call it
    data: bytes  # uncompressed

    def lines(self) -> list[str]:
        """The text, line by line, with line ends."""
        try:
            return self.data.decode("utf-8-sig").splitlines(keepends=True)
        except UnicodeDecodeError as error:
            slips = Slips(self.name)
            line = self.data.count(b"\n", 0, error.start) + 1
            slips.tell(line, "", f"byte {error.start} is not UTF-8", "save the file as UTF-8")
            slips.refuse()
            raise AssertionError from None  # it was refused


def open_source(path: str) -> SourceFile:
    """Return the file, uncompressed if it is gzip."""
    slips = Slips(path)
    try:
        with open(path, "rb") as file:
            data = file.read(FILE_BYTES_MAX + 1)
        return SourceFile(path, _within_bounds(_unpacked(data), slips))
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        slips.tell(
            None, "", f"cannot be unpacked: {error}", "it begins as gzip does; pack it anew, or give the plain file"
        )
    except (OSError, ValueError) as error:  # ValueError: a path with a NUL
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        slips.tell(None, "", f"cannot be read: {reason[:1].lower()}{reason[1:]}", "check the path")
    slips.refuse()
    raise AssertionError  # it was refused


def _unpacked(data: bytes) -> bytes:
    if not data.startswith(_GZIP):
        return data
    with gzip.GzipFile(fileobj=BytesIO(data)) as file:
        return file.read(FILE_BYTES_MAX + 1)


def _within_bounds(data: bytes, slips: Slips) -> bytes:
    if len(data) > FILE_BYTES_MAX:
        slips.tell(None, "", f"larger than the {FILE_BYTES_MAX // 2**20} MiB that are read of one file", "cut it")
    slips.refuse()
    return data


def beside(path: str, part: str) -> str:
    """Return the one file in the folder of ``path`` whose name has ``part`` in it."""
    folder = os.path.dirname(path)
    slips = Slips(path)
    try:
        found = sorted(name for name in os.listdir(folder or os.curdir) if part in name)
    except OSError:
        found = []
    if len(found) != 1:
        seen = f"found {', '.join(found)}" if found else "there is none"
        slips.tell(None, "", f"needs one file beside it with `{part}` in its name; {seen}")
        slips.refuse()
    return os.path.join(folder, found[0])


# --- values of files --------------------------------------------------------------------------------------------------


@lru_cache(maxsize=16_384)
def millis_of(text: str) -> int | None:
    """Return seconds, with or without decimals, as whole milliseconds; None for other texts."""
    match = _SECONDS.fullmatch(text)
    return None if match is None else int(match[1]) * 1000 + int((match[2] or "").ljust(3, "0")[:3])


@lru_cache(maxsize=1024)
def is_name(text: str) -> bool:
    """Whether a text can be the name of an object."""
    return len(text) <= _NAME_MAX and _NAME.fullmatch(text) is not None


def drawn_priority(seed: int, name: str) -> int:
    """A priority for a workload of a trace that has none; it depends on the seed and the name alone."""
    ticket = int.from_bytes(hashlib.blake2b(f"{seed}/{name}".encode(), digest_size=8).digest()) % 100
    for priority, share in PRIORITIES:
        if ticket < share:
            return priority
        ticket -= share
    raise AssertionError("the shares of the priorities are a hundred")


# --- what sources are made of -----------------------------------------------------------------------------------------

PREEMPTION = Preemption(reclaim_within_cohort="Any", within_cluster_queue="LowerPriority")


def flavor(name: str) -> ResourceFlavor:
    return ResourceFlavor(metadata=ObjectMeta(name=name))


def cluster_queue(
    name: str, resources: Sequence[str], flavors: Sequence[FlavorQuotas], *, cohort: str = "",
    preemption: Preemption = PREEMPTION,
) -> ClusterQueue:  # fmt: skip
    """A ClusterQueue for all namespaces, with one resource group."""
    return ClusterQueue(
        metadata=ObjectMeta(name=name),
        spec=ClusterQueueSpec(
            resource_groups=(ResourceGroup(covered_resources=tuple(resources), flavors=tuple(flavors)),),
            cohort_name=cohort, namespace_selector=LabelSelector(), preemption=preemption,
        ),
    )  # fmt: skip


def local_queue(name: str, queue: str) -> LocalQueue:
    return LocalQueue(
        metadata=ObjectMeta(name=name, namespace=DEFAULT_NAMESPACE), spec=LocalQueueSpec(cluster_queue=queue)
    )


def template(requests: Mapping[str, str]) -> Raw:
    """A pod with these requests."""
    container = {"name": "main", "image": "work", "resources": {"requests": dict(requests)}}
    return Raw(msgspec.json.encode({"spec": {"containers": [container], "restartPolicy": "Never"}}))


def workload_spec(queue: str, priority: int, pods: int, pod: Raw, *, allowed: tuple[str, ...] = ()) -> WorkloadSpec:
    """The spec that workloads of one shape share, so that each costs only its name."""
    pod_set = PodSet(template=pod, count=pods, allowed_resource_flavors=allowed)
    return WorkloadSpec(pod_sets=(pod_set,), queue_name=queue, priority=priority)


def busy_size(work: int, span_ms: int) -> int:
    """The size of a cluster that this work (amount times milliseconds) keeps 90 % busy for a span, rounded up."""
    return -(-work * 10 // (span_ms * BUSY_TENTHS))


def shared_out(size: int, work: Mapping[str, int]) -> dict[str, int]:
    """Divide ``size`` in proportion to the work of each name, rounded up, at least one for each."""
    total = sum(work.values()) or 1
    return {name: max(1, -(-work[name] * size // total)) for name in sorted(work)}


def expected(what: str, text: str) -> str:
    return f"expected {what}, got {told(text)}" if text else f"expected {what}, got nothing"


def span_of(annotations: Mapping[str, str], name: str, least_ms: int = 0) -> int | None:
    """A duration among annotations, in milliseconds; None if it is absent. ValueError has the problem."""
    text = annotations.get(name)
    if text is None:
        return None
    span = Duration.parse(text).millis
    if span < least_ms:
        raise ValueError(f"{text} is shorter than {least_ms}ms")
    return span


# --- manifests with times ---------------------------------------------------------------------------------------------

Work = Workload | Job


def read_arrivals(file: SourceFile) -> Source:
    """Read Jobs and Workloads from YAML documents or JSON lines, with or without the queues they need."""
    manifests = load(file.name, file.data)
    errors = [each for each in findings(manifests) if each.severity == "error"]
    if errors:
        raise SourceError(errors)
    source = arrivals_in(manifests)
    if not source.count:
        slips = Slips(file.name)
        slips.tell(None, "", "holds no Job or Workload that is still to come", "name a file of Jobs or Workloads")
        slips.refuse()
    return source


def arrivals_in(manifests: Iterable[Manifest]) -> Source:
    """``arrivals_of`` the content of files; the manifests have no errors, and their annotations are checked here."""
    found: list[Finding] = []
    objects: list[Wire] = []
    for each in manifests:
        if each.value is not None:
            objects.append(each.value)
            found.extend(_bad_spans(each, each.value))
    if found:
        raise SourceError(found)
    return arrivals_of(objects)


def _bad_spans(manifest: Manifest, value: Wire) -> Iterator[Finding]:
    if not isinstance(value, Workload | Job):
        return
    for name, least_ms in ((RUNTIME, 0), (CHECKPOINT_INTERVAL, 1)):
        try:
            span_of(value.metadata.annotations, name, least_ms)
        except ValueError as error:
            path = manifest.written(entry("metadata.annotations", name))
            line = manifest.line if manifest.line_of is None else manifest.line_of(path)
            yield Finding(
                manifest.file, line, manifest.document, manifest.kind_name, manifest.name, path, "error", str(error),
                "for example 90s, 4h or 1h30m",
            )  # fmt: skip


def arrivals_of(objects: Iterable[Wire]) -> Source:
    """Divide objects with times into those that exist at the beginning and those that arrive.

    If some Workload holds quota, the objects are the state of a system at the latest time in such a Workload, and the
    source begins there; otherwise it begins with the earliest ``creationTimestamp``. A Workload or Job that holds
    quota, has finished or was created before the beginning exists from the beginning, with its status, like queues and
    all other objects. Other Jobs and Workloads arrive at their ``creationTimestamp``, and without one at the beginning.
    An object with an owner among the objects follows that owner. If the owner arrives, the object is dropped: the owner
    will make it anew. An owner that is not among the objects is ignored.
    """
    everything = [_at_home(each) for each in objects]
    uids = {meta.uid for each in everything if (meta := _meta(each)).uid}
    works = [_without_strangers(each, uids) for each in everything if isinstance(each, Workload | Job)]
    begins_at = _beginning(works)
    by_uid = {each.metadata.uid: each for each in works if each.metadata.uid}
    present = _present(works, by_uid, begins_at)
    there = [each for each in everything if not isinstance(each, Workload | Job)]
    coming: list[Arrival] = []
    left_out = 0
    for i, each in enumerate(works):
        if i in present:
            there.append(each)
        elif _owner(each, by_uid) is None:
            coming.append(Arrival(_comes_at(each, begins_at), _as_new(each)))
        else:
            left_out += 1
    coming.sort(key=lambda each: (each.at, _place(each.body)))
    notes = (f"{left_out} objects are left out: their owners come, and make them anew",) if left_out else ()
    return Source(tuple(there), tuple(coming), begins_at, len(coming), notes)


def _present(works: Sequence[Work], by_uid: Mapping[str, Work], begins_at: Millis) -> set[int]:
    """The work that exists at the beginning; an object and its owner exist together."""
    position = {id(each): i for i, each in enumerate(works)}
    roots = [_root(each, by_uid) for each in works]
    families = {
        id(root) for root, each in zip(roots, works, strict=True) if _is_settled(each) or _is_earlier(each, begins_at)
    }
    return {position[id(each)] for root, each in zip(roots, works, strict=True) if id(root) in families}


def _root(each: Work, by_uid: Mapping[str, Work]) -> Work:
    """The owner's owner, and so on; a cycle of owners ends after a few steps."""
    for _ in range(4):
        owner = _owner(each, by_uid)
        if owner is None:
            break
        each = owner
    return each


def _owner(each: Work, by_uid: Mapping[str, Work]) -> Work | None:
    return next((by_uid[ref.uid] for ref in each.metadata.owner_references if ref.uid in by_uid), None)


def _beginning(works: Iterable[Work]) -> Millis:
    now: list[int] = []
    first: list[int] = []
    for each in works:
        created = each.metadata.creation_timestamp
        if isinstance(each, Workload) and is_accounted(each) and each.status is not None:
            now.extend(at.millis for at in (created, *_times(each.status.conditions)) if at is not None)
        elif created is not None and not _is_settled(each):
            first.append(created.millis)
    return Millis(max(now) if now else min(first, default=DAY_ONE))


def _times(conditions: Iterable[Condition]) -> list[Time | None]:
    return [each.last_transition_time for each in conditions]


def _is_settled(each: Work) -> bool:
    """Whether it has quota or an end: its present status must stay."""
    if isinstance(each, Workload):
        return is_accounted(each) or is_true(each.status.conditions if each.status else (), "Finished")
    conditions = view(each.status, JobStatus).conditions
    return is_true(conditions, "Complete") or is_true(conditions, "Failed")


def _is_earlier(each: Work, begins_at: Millis) -> bool:
    created = each.metadata.creation_timestamp
    return created is not None and created.millis < begins_at


def _comes_at(each: Work, begins_at: Millis) -> Millis:
    created = each.metadata.creation_timestamp
    return begins_at if created is None else Millis(created.millis)


def _as_new(each: Work) -> Work:
    """A copy without the fields that only a store sets."""
    meta = msgspec.structs.replace(
        each.metadata, uid="", resource_version="", generation=0, owner_references=(), deletion_timestamp=None
    )
    return msgspec.structs.replace(each, metadata=meta)


def _without_strangers(each: Work, uids: set[str]) -> Work:
    known: tuple[OwnerReference, ...] = tuple(ref for ref in each.metadata.owner_references if ref.uid in uids)
    if len(known) == len(each.metadata.owner_references):
        return each
    return msgspec.structs.replace(each, metadata=msgspec.structs.replace(each.metadata, owner_references=known))


def _at_home(each: Wire) -> Wire:
    """A copy in the namespace that kubectl would use."""
    if isinstance(each, Workload | Job | LocalQueue) and not each.metadata.namespace:
        meta = msgspec.structs.replace(each.metadata, namespace=DEFAULT_NAMESPACE)
        return msgspec.structs.replace(each, metadata=meta)
    return each


def _meta(each: Wire) -> ObjectMeta:
    meta: ObjectMeta = getattr(each, "metadata", ObjectMeta())
    return meta


def _place(each: Wire) -> tuple[str, str, str, str]:
    meta = _meta(each)
    return meta.namespace, meta.name, meta.generate_name, getattr(each, "kind", "")
