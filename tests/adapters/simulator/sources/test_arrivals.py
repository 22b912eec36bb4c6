"""Sources of work: manifests with times, the problems of files, and the actor that creates arrivals."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from makeway.adapters.simulator.sources.arrivals import (
    CREATED_MAX,
    DAY_ONE,
    FINDINGS_MAX,
    ArrivalRows,
    Arriving,
    Row,
    Slips,
    Source,
    SourceError,
    SourceFile,
    arrivals_of,
    beside,
    cluster_queue,
    drawn_priority,
    flavor,
    local_queue,
    millis_of,
    open_source,
    read_arrivals,
    shared_out,
    span_of,
    template,
    workload_spec,
)
from makeway.adapters.simulator.sources.generator import read_generator
from makeway.adapters.simulator.sources.swf import read_swf
from makeway.adapters.simulator.sources.traces import read_openb, read_philly
from makeway.adapters.simulator.store import MemoryStore
from makeway.api import codec
from makeway.api.names import CHECKPOINT_INTERVAL, QUEUE_LABEL, RUNTIME
from makeway.api.objects.kubernetes import Job, JobSpec, view
from makeway.api.objects.meta import Wire
from makeway.api.objects.queueing import FlavorQuotas, ResourceQuota
from makeway.api.objects.workload import Workload
from makeway.api.quantity import Quantity, Time
from makeway.api.reading.manifests import Finding
from makeway.api.versions import kind_of
from makeway.core.model import InvariantError, Millis
from makeway.core.policy import Jobs, Requirement

Tree = dict[str, Any]
POD = {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "work"}]}}


def at(text: str) -> Millis:
    return Millis(Time.parse(f"2026-03-01T{text}Z").millis)


def wire(tree: Tree) -> Any:
    reading = codec.read(tree)
    assert reading.ok, reading.problems
    return reading.value


def workload(name: str, created: str = "", *, uid: str = "", owner: str = "", status: Tree | None = None) -> Wire:
    meta: Tree = {"name": name, "uid": uid}
    if created:
        meta["creationTimestamp"] = f"2026-03-01T{created}Z"
    if owner:
        job_ref = {"apiVersion": "batch/v1", "kind": "Job", "name": "job", "uid": owner, "controller": True}
        meta["ownerReferences"] = [job_ref]
    tree: Tree = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload", "metadata": meta}
    found: Wire = wire({**tree, "spec": {"queueName": "q", "podSets": [{"template": POD}]}, "status": status or {}})
    return found


def job(name: str, created: str = "", *, uid: str = "", **labels: str) -> Wire:
    meta: Tree = {"name": name, "uid": uid, "labels": labels}
    if created:
        meta["creationTimestamp"] = f"2026-03-01T{created}Z"
    found: Wire = wire({"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": {"template": POD}})
    return found


def condition(type_: str, since: str) -> Tree:
    return {"type": type_, "status": "True", "reason": type_, "message": "",
            "lastTransitionTime": f"2026-03-01T{since}Z"}  # fmt: skip


def holding(since: str) -> Tree:
    assignment = {"name": "main", "flavors": {}, "resourceUsage": {}, "count": 1}
    return {
        "conditions": [condition("QuotaReserved", since)],
        "admission": {"clusterQueue": "cq", "podSetAssignments": [assignment]},
    }


def coming(source: Source) -> list[tuple[Millis, str]]:
    return [(each.at, named(each.body)) for each in source.arrivals]


def named(each: Any) -> str:
    name: str = each.metadata.name
    return name


def there(source: Source) -> list[str]:
    return [named(each) for each in source.objects]


# --- who comes when ---------------------------------------------------------------------------------------------------


def test_work_comes_at_its_creation_time_and_queues_are_there() -> None:
    queue = local_queue("q", "cq")
    source = arrivals_of([workload("late", "10:00:30"), queue, job("first", "10:00:00"), workload("b", "10:00:30")])
    assert coming(source) == [(at("10:00:00"), "first"), (at("10:00:30"), "b"), (at("10:00:30"), "late")]
    assert source.begins_at == at("10:00:00")
    assert source.count == 3
    assert there(source) == ["q"]


def test_work_without_a_time_comes_at_the_beginning() -> None:
    source = arrivals_of([workload("late", "10:00:30"), workload("undated"), job("first", "10:00:00")])
    assert coming(source)[:2] == [(at("10:00:00"), "first"), (at("10:00:00"), "undated")]


def test_without_any_time_it_begins_on_day_one() -> None:
    source = arrivals_of([workload("a")])
    assert coming(source) == [(DAY_ONE, "a")]
    assert str(Time.of_millis(DAY_ONE)) == "2026-01-01T00:00:00Z"


def test_a_source_can_be_gone_through_twice() -> None:
    source = arrivals_of([workload("a"), workload("b", "10:00:00")])
    assert coming(source) == coming(source) != []


def test_who_holds_quota_is_there_with_its_status_and_sets_the_time() -> None:
    runs = workload("runs", "10:20:00", status=holding("10:30:00"))
    source = arrivals_of([workload("waits", "10:00:00"), runs, workload("comes", "10:31:00")])
    assert source.begins_at == at("10:30:00")
    assert there(source) == ["waits", "runs"]
    assert source.objects[1].status == runs.status  # type: ignore[attr-defined]
    assert coming(source) == [(at("10:31:00"), "comes")]


def test_who_has_finished_does_not_come_again() -> None:
    done = workload("done", "09:00:00", status={"conditions": [condition("Finished", "09:10:00")]})
    source = arrivals_of([done, workload("a", "10:00:00")])
    assert there(source) == ["done"]
    assert source.begins_at == at("10:00:00")


def test_a_workload_is_left_to_the_job_that_comes() -> None:
    mine = workload("mine", "10:00:01", uid="w", owner="j")
    source = arrivals_of([job("job", "10:00:00", uid="j"), mine, workload("a", "09:00:00")])
    assert [name for _, name in coming(source)] == ["a", "job"]
    assert "1 objects are left out" in source.notes[0]


def test_a_job_is_there_if_its_workload_holds_quota() -> None:
    mine = workload("mine", "10:00:00", uid="w", owner="j", status=holding("10:00:05"))
    source = arrivals_of([job("job", "10:00:00", uid="j"), mine])
    assert there(source) == ["job", "mine"]
    assert [each.uid for each in source.objects[1].metadata.owner_references] == ["j"]  # type: ignore[attr-defined]


def test_an_owner_that_is_not_among_the_objects_is_forgotten() -> None:
    source = arrivals_of([workload("a", "10:00:00", owner="gone")])
    [arrival] = source.arrivals
    assert isinstance(arrival.body, Workload)
    assert arrival.body.metadata.owner_references == ()


def test_what_comes_can_be_created() -> None:
    exported = wire(
        {
            **codec.to_tree(workload("a", "10:00:00", uid="w")),
            "metadata": {"name": "a", "uid": "w", "resourceVersion": "77", "creationTimestamp": "2026-03-01T10:00:00Z"},
        }
    )
    source = arrivals_of([exported])
    store = MemoryStore(lambda: source.begins_at)
    arriving = Arriving(store, source)
    assert arriving.step(source.begins_at)
    assert arriving.refused == []
    assert store.get(kind_of(Workload), "default", "a").value().metadata.creation_timestamp.millis == at("10:00:00")


# --- files of arrivals ------------------------------------------------------------------------------------------------

LINES = b"""\
{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"a","creationTimestamp":"2026-03-01T10:00:07Z","annotations":{"makeway.dev/runtime":"90s"}},"spec":{"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"m","image":"i"}]}}}}
{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"b","creationTimestamp":"2026-03-01T10:00:05Z"},"spec":{"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"m","image":"i"}]}}}}
"""


def refused(read: Any, *arguments: Any) -> list[tuple[int | None, str, str]]:
    with pytest.raises(SourceError) as caught:
        read(*arguments)
    return [(each.line, each.path, each.message) for each in caught.value.findings]


def test_json_lines() -> None:
    assert coming(read_arrivals(SourceFile("a.jsonl", LINES))) == [(at("10:00:05"), "b"), (at("10:00:07"), "a")]


def test_what_is_wrong_with_manifests_is_told_with_its_line() -> None:
    found = refused(read_arrivals, SourceFile("a.jsonl", LINES.replace(b'"Never"', b"7")))
    assert [(line, path) for line, path, _ in found] == [
        (1, "spec.template.spec.restartPolicy"),
        (2, "spec.template.spec.restartPolicy"),
    ]


@pytest.mark.parametrize(
    ("annotation", "message"),
    [
        ("makeway.dev/runtime: soon", "'soon' is not a duration"),
        ("makeway.dev/runtime: -5s", "-5s is shorter than 0ms"),
        ("makeway.dev/checkpoint-interval: 0s", "0s is shorter than 1ms"),
    ],
)
def test_a_bad_duration_is_told_with_its_line(annotation: str, message: str) -> None:
    data = f"""\
apiVersion: batch/v1
kind: Job
metadata:
  name: a
  annotations:
    {annotation}
spec:
  template:
    spec:
      restartPolicy: Never
      containers: [{{name: main, image: work}}]
"""
    [(line, path, text)] = refused(read_arrivals, SourceFile("a.yaml", data.encode()))
    assert (line, path) == (6, f"metadata.annotations[{annotation.partition(':')[0]}]")
    assert text.startswith(message)


def test_a_file_without_work_is_refused() -> None:
    queue = b"apiVersion: kueue.x-k8s.io/v1beta2\nkind: ResourceFlavor\nmetadata: {name: f}\n"
    assert "holds no Job or Workload" in refused(read_arrivals, SourceFile("a.yaml", queue))[0][2]


def test_of_very_many_problems_the_first_are_told_and_the_others_counted() -> None:
    slips = Slips("file")
    for line in range(1, FINDINGS_MAX + 8):
        slips.tell(line, "", "wrong")
    with pytest.raises(SourceError) as caught:
        slips.refuse()
    assert [each.line for each in caught.value.findings] == [*range(1, FINDINGS_MAX + 1), None]
    assert caught.value.findings[-1].message == "7 more problems"


def test_files_are_unpacked(tmp_path: Path) -> None:
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(b"one\ntwo\n"))
    assert open_source(str(path)).lines() == ["one\n", "two\n"]


def test_files_that_cannot_be_read_are_told(tmp_path: Path) -> None:
    broken = tmp_path / "broken.gz"
    broken.write_bytes(gzip.compress(b"one\n" * 1000)[:20])
    assert "cannot be unpacked" in refused(open_source, str(broken))[0][2]
    assert "cannot be read: no such file" in refused(open_source, str(tmp_path / "none"))[0][2]
    assert refused(SourceFile("latin", b"fine\nna\xefve\n").lines) == [(2, "", "byte 7 is not UTF-8")]


def test_the_one_file_beside_another_is_found(tmp_path: Path) -> None:
    pods = str(tmp_path / "pod_list.csv")
    assert "there is none" in refused(beside, pods, "node_list")[0][2]
    (tmp_path / "node_list_1.csv").touch()
    assert beside(pods, "node_list") == str(tmp_path / "node_list_1.csv")
    (tmp_path / "node_list_2.csv").touch()
    assert "found node_list_1.csv, node_list_2.csv" in refused(beside, pods, "node_list")[0][2]


NODES = SourceFile("nodes", b"sn,cpu_milli,memory_mib,gpu,model\nn,1000,1024,1,T4\n")
READERS: dict[str, tuple[Callable[[SourceFile], Source], bytes]] = {
    "generator": (read_generator, b"cohorts: [{className: c, count: 1, queuesSets: []}]"),
    "philly": (read_philly, b"timestamp,duration,num_gpus,cluster\n" + b"2017-10-09 07:01:55,66.0,1,a\n" * 10),
    "openb": (lambda file: read_openb(file, NODES), b"name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,"
              b"creation_time,deletion_time,scheduled_time\np,1,1,1,1,T4,LS,1,3,2\n"),
    "swf": (read_swf, b"; MaxProcs: 8\n1 0 0 5 1 0 0 1 0 0 1 1 1 1 1 1 -1 -1\n"),
    "manifests": (read_arrivals, LINES),
}  # fmt: skip


@pytest.mark.property
@pytest.mark.parametrize("format_", READERS)
@given(cuts=st.lists(st.tuples(st.integers(0, 400), st.integers(0, 9), st.binary(max_size=6)), min_size=1, max_size=4))
def test_whatever_a_file_holds_it_is_read_or_refused(format_: str, cuts: list[tuple[int, int, bytes]]) -> None:
    read, data = READERS[format_]
    assert told(read, data) == ()
    for start, length, other in cuts:
        data = data[:start] + other + data[start + length :]
    assert all(each.message and each.severity == "error" for each in told(read, data))


def told(read: Callable[[SourceFile], Source], data: bytes) -> tuple[Finding, ...]:
    try:
        source = read(SourceFile("file", data))
    except SourceError as error:
        return error.findings or (Finding("", None, None, "", "", "", "error", "", "refused without a reason"),)
    assert source.count == len(list(source.arrivals))
    return ()


# --- the actor --------------------------------------------------------------------------------------------------------


def rows(*times: int) -> Source:
    spec = workload_spec("q", 0, 1, template({"cpu": "1"}))
    arrivals = ArrivalRows([Row(Millis(each), f"w-{i:05}", spec, 1500) for i, each in enumerate(times)])
    return Source((), arrivals, Millis(0), len(arrivals))


def test_each_is_created_at_its_millisecond() -> None:
    now = Millis(0)
    store = MemoryStore(lambda: now)
    arriving = Arriving(store, rows(1234, 1234, 1235))
    assert arriving.next_at() == 1234
    assert not arriving.step(Millis(1233))
    assert arriving.step(Millis(1234))
    assert (arriving.created, arriving.next_at()) == (2, 1235)
    assert arriving.step(Millis(1235))
    assert (arriving.created, arriving.next_at()) == (3, None)
    assert not arriving.step(Millis(9999))


def test_a_step_creates_a_bounded_number() -> None:
    store = MemoryStore(lambda: Millis(0), careful=False)
    arriving = Arriving(store, rows(*[0] * (CREATED_MAX + 1)))
    assert arriving.step(Millis(0))
    assert (arriving.created, arriving.next_at()) == (CREATED_MAX, 0)
    assert arriving.step(Millis(0))
    assert (arriving.created, arriving.next_at()) == (CREATED_MAX + 1, None)


def test_what_the_store_refuses_is_kept_and_the_rest_goes_on() -> None:
    store = MemoryStore(lambda: Millis(0))
    source = arrivals_of([workload("a"), workload("a"), workload("b")])
    arriving = Arriving(store, source)
    arriving.step(source.begins_at)
    assert [named(arrival.body) for arrival, _ in arriving.refused] == ["a"]
    assert "already exists" in arriving.refused[0][1]
    assert arriving.created == 2


def test_a_managed_job_comes_suspended() -> None:
    store = MemoryStore(lambda: DAY_ONE)
    Arriving(store, arrivals_of([job("managed", **{QUEUE_LABEL: "q"}), job("free")])).step(DAY_ONE)
    suspended = {
        name: view(store.get(kind_of(Job), "default", name).value().spec, JobSpec).suspend
        for name in ("managed", "free")
    }
    assert suspended == {"managed": True, "free": False}


@pytest.mark.parametrize(
    ("jobs", "suspended"),
    [
        (Jobs(without_queue_name=True), True),
        (Jobs(namespaces=(Requirement(key="team", operator="Exists"),)), False),
        (Jobs(frameworks=()), False),
    ],
    ids=["without a queue name", "a namespace that is not selected", "no framework"],
)
def test_the_configuration_says_which_job_that_is(jobs: Jobs, suspended: bool) -> None:
    store = MemoryStore(lambda: DAY_ONE)
    labels = {} if jobs.without_queue_name else {QUEUE_LABEL: "q"}
    Arriving(store, arrivals_of([job("it", **labels)]), jobs).step(DAY_ONE)
    assert view(store.get(kind_of(Job), "default", "it").value().spec, JobSpec).suspend is suspended


def test_arrivals_out_of_order_are_our_own_mistake() -> None:
    with pytest.raises(InvariantError, match="an arrival at 1 follows one at 2"):
        Arriving(MemoryStore(lambda: Millis(0)), rows(2, 1)).step(Millis(2))


# --- parts ------------------------------------------------------------------------------------------------------------


def test_the_parts_of_sources_pass_validation() -> None:
    quota = ResourceQuota(name="cpu", nominal_quota=Quantity.parse("4"))
    objects = [
        flavor("f"), cluster_queue("cq", ["cpu"], [FlavorQuotas(name="f", resources=(quota,))], cohort="co"),
        local_queue("q", "cq"),
    ]  # fmt: skip
    store = MemoryStore(lambda: Millis(0))
    store.load(objects)
    arriving = Arriving(store, rows(0))
    arriving.step(Millis(0))
    assert arriving.refused == []
    assert store.get(kind_of(Workload), "default", "w-00000").value().metadata.annotations == {RUNTIME: "1.5s"}


@pytest.mark.parametrize(
    ("text", "millis"),
    [("66.0", 66_000), ("0", 0), ("1.0009", 1000), ("12.5", 12_500), ("", None), ("-1", None), ("1e3", None)],
)
def test_seconds(text: str, millis: int | None) -> None:
    assert millis_of(text) == millis


def test_spans() -> None:
    annotations = {RUNTIME: "1m0.5s", CHECKPOINT_INTERVAL: "0s"}
    assert span_of(annotations, RUNTIME) == 60_500
    assert span_of({}, RUNTIME) is None
    with pytest.raises(ValueError, match="shorter than 1ms"):
        span_of(annotations, CHECKPOINT_INTERVAL, 1)


def test_a_size_is_shared_out_by_work_and_rounded_up() -> None:
    assert shared_out(10, {"b": 2, "a": 1, "idle": 0}) == {"a": 4, "b": 7, "idle": 1}
    assert shared_out(10, {"a": 0}) == {"a": 1}


def test_drawn_priorities_follow_their_weights_and_the_seed() -> None:
    drawn = [drawn_priority(7, f"w-{i}") for i in range(10_000)]
    shares = {priority: drawn.count(priority) for priority in sorted(set(drawn))}
    assert list(shares) == [0, 50, 100]
    assert all(abs(shares[priority] - weight * 100) < 200 for priority, weight in ((0, 60), (50, 30), (100, 10)))
    assert drawn == [drawn_priority(7, f"w-{i}") for i in range(10_000)]
    assert drawn != [drawn_priority(8, f"w-{i}") for i in range(10_000)]
