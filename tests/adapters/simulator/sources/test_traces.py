"""Arrivals from traces: quota, arrivals and run times, and the problems of a line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from makeway.adapters.simulator.sources.arrivals import DAY_ONE, Source, SourceError, SourceFile, beside, open_source
from makeway.adapters.simulator.sources.swf import read_swf
from makeway.adapters.simulator.sources.traces import read_openb, read_philly
from makeway.adapters.simulator.store import MemoryStore
from makeway.api.names import RUNTIME
from makeway.api.objects.queueing import ClusterQueue, LocalQueue
from makeway.api.quantity import Time


def file(*lines: str) -> SourceFile:
    return SourceFile("trace", "\n".join(lines).encode())


def quotas(source: Source) -> dict[str, dict[str, str]]:
    """Nominal quota: queue -> flavor/resource -> amount."""
    return {
        each.metadata.name: {
            f"{flavor.name}/{quota.name}": str(quota.nominal_quota)
            for flavor in each.spec.resource_groups[0].flavors
            for quota in flavor.resources
        }
        for each in source.objects
        if isinstance(each, ClusterQueue)
    }


def bodies(source: Source) -> list[Any]:
    return [each.body for each in source.arrivals]


def by_name(source: Source) -> dict[str, Any]:
    return {each.metadata.name: each for each in bodies(source)}


def requests(body: Any) -> tuple[int, str]:
    """The pods, with their requests as text."""
    [pod_set] = body.spec.pod_sets
    text = bytes(pod_set.template).decode()
    return pod_set.count, text[text.index('"requests":') + 11 : text.index("}") + 1]


def refused(read: Any, *files: SourceFile) -> list[tuple[int | None, str, str]]:
    with pytest.raises(SourceError) as caught:
        read(*files)
    return [(each.line, each.path, each.message) for each in caught.value.findings]


def check_stored(source: Source, bodies: Iterable[Any]) -> None:
    """Check that a store accepts what a source makes."""
    store = MemoryStore(lambda: DAY_ONE)
    store.load(source.objects)
    for each in bodies:
        store.create(each)


# --- Philly -----------------------------------------------------------------------------------------------------------

HEADER = "timestamp,duration,num_gpus,gpu_time,cluster"


def philly(*jobs: tuple[str, str, int, str]) -> SourceFile:
    return file(HEADER, *(f"{at},{duration},{gpus},0,{cluster}" for at, duration, gpus, cluster in jobs), "")


def ten(cluster: str, duration: str = "60.0", gpus: int = 1, at: str = "2017-10-01 00:00:00") -> list[Any]:
    return [(at, duration, gpus, cluster)] * 10


def test_philly_quota_is_the_share_of_the_gpu_time_of_a_cluster_that_is_nine_tenths_busy() -> None:
    # GPU seconds: a 10 x 600 = 6000, b 10 x 300 x 2 = 6000 and one of 1000 x 3; together 15000 in a span of 1000 s.
    # The cluster has ceil(15000 / 900) = 17 GPUs: a gets ceil(6000 / 15000 x 17) = 7, b ceil(9000 / 15000 x 17) = 11.
    jobs = [*ten("a", "600"), *ten("b", "300", gpus=2), ("2017-10-01 00:16:40", "1000", 3, "b")]
    source = read_philly(philly(*jobs))
    assert quotas(source) == {"a": {"gpu/nvidia.com/gpu": "7"}, "b": {"gpu/nvidia.com/gpu": "11"}}
    queues = [each for each in source.objects if isinstance(each, ClusterQueue)]
    assert {each.spec.cohort_name for each in queues} == {"philly"}
    assert {each.spec.preemption.reclaim_within_cohort for each in queues} == {"Any"}
    assert {each.spec.preemption.within_cluster_queue for each in queues} == {"LowerPriority"}
    local = [each for each in source.objects if isinstance(each, LocalQueue)]
    assert [(each.metadata.name, each.spec.cluster_queue) for each in local] == [("a", "a"), ("b", "b")]


def test_philly_clusters_of_fewer_than_ten_jobs_are_left_out_before_anything_is_counted() -> None:
    few = [("2016-01-01 00:00:00", "100000", 128, "few")] * 9
    jobs = [*ten("a", "900"), ("2017-10-01 00:16:40", "0", 1, "a")]
    source = read_philly(philly(*few, *jobs))
    assert quotas(source) == {"a": {"gpu/nvidia.com/gpu": "10"}}
    assert source.count == 11
    assert source.notes == ("9 jobs of 1 virtual clusters with fewer than ten are left out",)
    assert source.begins_at == Time.parse("2017-10-01T00:00:00Z").millis


def test_philly_jobs_that_all_come_at_once_share_the_longest_run() -> None:
    assert quotas(read_philly(philly(*ten("a", "90")))) == {"a": {"gpu/nvidia.com/gpu": "12"}}
    assert quotas(read_philly(philly(*ten("a", "0")))) == {"a": {"gpu/nvidia.com/gpu": "1"}}


def test_philly_jobs_come_at_their_time_and_are_named_after_their_line() -> None:
    source = read_philly(philly(("2017-10-01 00:00:02", "61.5", 1, "a"), *ten("a")))
    arrivals = [(each.at - source.begins_at, each.body.metadata.name) for each in source.arrivals]  # type: ignore[attr-defined]
    assert arrivals == [*((0, f"philly-{line:06}") for line in range(3, 13)), (2000, "philly-000002")]
    last = by_name(source)["philly-000002"]
    assert (last.metadata.annotations[RUNTIME], last.spec.queue_name) == ("1m1.5s", "a")


@pytest.mark.parametrize(
    ("gpus", "pods", "each"), [(1, 1, 1), (4, 1, 4), (8, 1, 8), (9, 2, 8), (12, 2, 8), (128, 16, 8)]
)
def test_philly_gpus_become_pods_of_at_most_eight(gpus: int, pods: int, each: int) -> None:
    body = bodies(read_philly(philly(*ten("a", gpus=gpus))))[0]
    assert requests(body) == (pods, f'{{"nvidia.com/gpu":"{each}"}}')


def test_philly_priorities_come_from_the_seed() -> None:
    def drawn(seed: int) -> list[int]:
        return [each.spec.priority for each in bodies(read_philly(philly(*ten("a"), *ten("b"), *ten("c")), seed=seed))]

    assert drawn(1) == drawn(1) != drawn(2)
    assert set(drawn(1)) <= {0, 50, 100}


def test_philly_workloads_of_one_shape_share_their_spec() -> None:
    source = read_philly(philly(*ten("a"), *ten("b", gpus=4)))
    assert len({id(each.spec) for each in bodies(source)}) <= 6
    check_stored(source, bodies(source))


def test_philly_lines_that_are_wrong_are_all_told() -> None:
    source = file(
        HEADER,
        "2017-10-09,66.0,1,66.0,a",
        "2017-13-09 07:01:55,-66.0,0,66.0,A B",
        "2017-10-09 07:01:55,66.0,1",
        '2017-10-09 07:01:55,66.0,1,66.0,"a"b',
    )
    assert [each[:2] for each in refused(read_philly, source)] == [
        (2, "timestamp"),
        (3, "timestamp"), (3, "duration"), (3, "num_gpus"), (3, "cluster"),
        (4, ""),
        (5, ""),
    ]  # fmt: skip


def test_philly_files_without_columns_or_jobs() -> None:
    assert refused(read_philly, file("timestamp,duration,gpus,cluster", "x")) == [
        (1, "num_gpus", "there is no such column")
    ]
    assert refused(read_philly, file(""))[0][2] == "is empty"
    assert refused(read_philly, file(HEADER))[0][2].startswith("no virtual cluster has 10 jobs")


@pytest.mark.slow
def test_the_published_philly_trace(shared: Path) -> None:
    source = read_philly(open_source(str(shared / "traces" / "philly_jobs.csv.gz")))
    assert source.count == 82_247 - 18
    assert len(quotas(source)) == 11
    arrivals = [each.at for each in source.arrivals]
    assert arrivals == sorted(arrivals)
    assert (source.begins_at, len(arrivals)) == (arrivals[0], source.count)
    assert str(Time.of_millis(arrivals[0])).startswith("2017-09-")
    shares = {name: int(each["gpu/nvidia.com/gpu"]) for name, each in quotas(source).items()}
    assert sorted(shares, key=lambda name: -shares[name])[:3] == ["ee9e8c", "7f04ca", "b436b2"]


# --- openb ------------------------------------------------------------------------------------------------------------

PODS = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time"
NODES = file(
    "sn,cpu_milli,memory_mib,gpu,model",
    "n0,32000,1024,0,",
    "n1,64000,2048,2,T4",
    "n2,64000,2048,2,T4",
    "n3,96000,4096,8,G2",
)


def openb(*pods: str) -> Source:
    return read_openb(file(PODS, *pods), NODES)


def test_openb_models_are_flavors_with_what_their_nodes_have() -> None:
    source = openb("p0,12000,16384,1,460,,LS,Running,0,100,0")
    assert quotas(source) == {
        "openb": {
            "no-gpu/cpu": "32", "no-gpu/memory": "1Gi", "no-gpu/alibabacloud.com/gpu-milli": "0",
            "g2/cpu": "96", "g2/memory": "4Gi", "g2/alibabacloud.com/gpu-milli": "8k",
            "t4/cpu": "128", "t4/memory": "4Gi", "t4/alibabacloud.com/gpu-milli": "4k",
        }
    }  # fmt: skip


def test_openb_pods_come_at_their_time_and_run_as_long_as_they_did() -> None:
    source = openb(
        "late,1000,1024,8,1000,G2|T4|G2,BE,Running,50,100,70",
        "never,1000,1024,1,460,,LS,Pending,10,35,",
        "no-gpu,1500,1024,0,0,,Burstable,Running,10,11,10",
    )
    assert [(each.at - DAY_ONE, each.body.metadata.name) for each in source.arrivals] == [  # type: ignore[attr-defined]
        (10_000, "never"), (10_000, "no-gpu"), (50_000, "late"),
    ]  # fmt: skip
    assert source.begins_at == DAY_ONE + 10_000
    found = by_name(source)
    assert {name: each.metadata.annotations[RUNTIME] for name, each in found.items()} == {
        "never": "25s", "no-gpu": "1s", "late": "30s",
    }  # fmt: skip
    assert {name: each.spec.priority for name, each in found.items()} == {"never": 100, "no-gpu": 50, "late": 0}
    assert found["late"].spec.pod_sets[0].allowed_resource_flavors == ("g2", "t4")
    assert found["never"].spec.pod_sets[0].allowed_resource_flavors == ()
    assert requests(found["late"])[1] == '{"cpu":"1","memory":"1Gi","alibabacloud.com/gpu-milli":"8k"}'
    assert requests(found["no-gpu"])[1] == '{"cpu":"1500m","memory":"1Gi"}'
    check_stored(source, bodies(source))


def test_openb_lines_that_are_wrong_are_all_told() -> None:
    pods = file(
        PODS,
        "p0,1000,1024,1,460,,LS,Running,0,100,0",
        "p0,many,1024,1,460,H100,Gold,Running,0,100,200",
        "P?,1000,1024,1,460,,LS,Running,soon,,",
    )
    found = refused(read_openb, pods, NODES)
    assert [each[:2] for each in found] == [
        (3, "name"), (3, "deletion_time"), (3, "cpu_milli"), (3, "qos"), (3, "gpu_spec"),
        (4, "name"), (4, "creation_time"), (4, "deletion_time"),
    ]  # fmt: skip
    assert found[0][2] == '"p0" stands on line 2 already'
    assert found[3][2] == '"Gold" is not supported; allowed: LS, Guaranteed, Burstable, BE'
    assert found[4][2] == 'no node has the model "h100"; there are no-gpu, g2, t4'


def test_openb_nodes_that_are_wrong_are_told() -> None:
    nodes = file("sn,cpu_milli,memory_mib,gpu,model", "n,1000,1024,2,", "n,1000,1024,x,T4")
    assert [each[:2] for each in refused(read_openb, file(PODS), nodes)] == [(2, "model"), (3, "gpu")]
    assert refused(read_openb, file(PODS), NODES)[0][2] == "holds no pods"


@pytest.mark.parametrize("name", ["default", "gpuspec33"])
def test_the_published_openb_traces(shared: Path, name: str) -> None:
    path = str(shared / "traces" / f"alibaba2023_openb_pod_list_{name}.csv")
    source = read_openb(open_source(path), open_source(beside(path, "node_list")))
    assert source.count == 8152 == len(bodies(source))
    gpus = {key: each for key, each in quotas(source)["openb"].items() if key.endswith("gpu-milli")}
    assert gpus["g2/alibabacloud.com/gpu-milli"] == "4392k"
    assert gpus["t4/alibabacloud.com/gpu-milli"] == "842k"
    limited = Counter(bool(each.spec.pod_sets[0].allowed_resource_flavors) for each in bodies(source))
    assert limited[True] == {"default": 0, "gpuspec33": 8152 - 5764}[name]
    check_stored(source, bodies(source)[:50])


# --- SWF --------------------------------------------------------------------------------------------------------------


def swf(
    number: int, submitted: object, ran: object, processors: object = 1, *, allocated: int = -1, user: int = 1,
    queue: int = 1,
) -> str:  # fmt: skip
    return f"{number} {submitted} 5 {ran} {allocated} -1 -1 {processors} 900 -1 1 {user} 1 -1 {queue} -1 -1 -1"


def test_swf_jobs_come_at_their_time_with_their_processors() -> None:
    source = read_swf(
        file("; UnixStartTime: 1000", "", swf(2, 30, 60, 4, user=7, queue=2), swf(1, 10, 5.5, -1, allocated=3, user=-1))
    )
    assert [(each.at, each.body.metadata.name) for each in source.arrivals] == [  # type: ignore[attr-defined]
        (1_010_000, "swf-1"), (1_030_000, "swf-2"),
    ]  # fmt: skip
    found = by_name(source)
    assert requests(found["swf-1"]) == (3, '{"cpu":"1"}')
    assert requests(found["swf-2"])[0] == 4
    assert found["swf-1"].metadata.annotations[RUNTIME] == "5.5s"
    assert [each.spec.queue_name for each in bodies(source)] == ["user-unknown-queue-1", "user-7-queue-2"]
    local = {each.metadata.name: each.spec.cluster_queue for each in source.objects if isinstance(each, LocalQueue)}
    assert local == {"user-7-queue-2": "queue-2", "user-unknown-queue-1": "queue-1"}
    check_stored(source, bodies(source))


def test_swf_processors_of_the_header_are_shared_out() -> None:
    source = read_swf(file("; MaxProcs: 10", swf(1, 0, 100, 1), swf(2, 5, 100, 2, queue=2)))
    assert quotas(source) == {"queue-1": {"default/cpu": "4"}, "queue-2": {"default/cpu": "7"}}


def test_swf_processors_without_a_header() -> None:
    busy = read_swf(file(swf(1, 0, 900, 2), swf(2, 1000, 900, 4)))
    assert quotas(busy) == {"queue-1": {"default/cpu": "6"}}
    wide = read_swf(file(swf(1, 0, 9, 2), swf(2, 1000, 9, 400)))
    assert quotas(wide) == {"queue-1": {"default/cpu": "400"}}


def test_swf_jobs_with_something_unknown_are_left_out() -> None:
    source = read_swf(file(swf(1, 0, 5), swf(2, 0, -1), swf(3, -1, 5), swf(4, 0, 5, -1)))
    assert [each.metadata.name for each in bodies(source)] == ["swf-1"]
    assert source.notes == ("3 jobs are left out: a time or the processors are unknown",)
    assert "holds no job" in refused(read_swf, file(swf(1, 0, -1)))[0][2]


def test_swf_lines_that_are_wrong_are_all_told() -> None:
    trace = file(
        "; MaxProcs: some", swf(1, 0, 5), "1 2 3", swf(1, "soon", "1:30", 2.5), swf(5, -2, 5), swf(6, 0, 5, 2**40)
    )
    assert [each[:2] for each in refused(read_swf, trace)] == [
        (1, "MaxProcs"),
        (3, ""),
        (4, "job number"), (4, "requested processors"), (4, "submit time"), (4, "run time"),
        (5, "submit time"),
        (6, "requested processors"),
    ]  # fmt: skip
