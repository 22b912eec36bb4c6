"""``makeway bench``: how long things take on this machine. Times are reported beside their aims, never judged."""

from __future__ import annotations

import json
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import click

from makeway.api import codec
from makeway.api.objects.workload import Workload
from makeway.api.reading.manifests import load
from makeway.api.reading.together import check_together
from makeway.bench.engine import bench_cycle, bench_targets
from makeway.bench.stability.measure import MODELS, bench_stability, print_stability
from makeway.cli.terminal.screen import print_finding

if TYPE_CHECKING:
    from makeway.adapters.simulator.sources.arrivals import SourceError

ROUNDS = 15
OBJECTS_PER_ROUND = 500
DOCUMENTS = 10_000
IMPORTS = 5
IMPORT_CLI = """
import sys, time
sys.path.insert(0, sys.argv[1])
before = time.perf_counter()
import makeway.cli.main
print(time.perf_counter() - before)
"""


def bench_codec() -> dict[str, Any]:
    """Reading and writing one Workload, checking a large file, starting the program."""
    data = workload_bytes()
    value = codec.decode(data, Workload)
    manifests = many_documents(DOCUMENTS)
    before = time.process_time()
    loaded = load("documents.yaml", manifests)
    check_together(loaded)
    validate_seconds = time.process_time() - before
    return {
        "name": "codec",
        "decode_us": _micros(lambda: codec.decode(data, Workload)),
        "encode_us": _micros(lambda: codec.encode(value)),
        "object_bytes": len(data),
        "validate_documents": len(loaded),
        "validate_bytes": len(manifests),
        "validate_cpu_seconds": round(validate_seconds, 2),
        "import_ms": round(statistics.median(_import_seconds() for _ in range(IMPORTS)) * 1000, 1),
        "python": platform.python_version(),
        "machine": platform.machine(),
    }


def bench_gang() -> dict[str, Any]:
    """Gangs on nodes. Its modules are imported only here, because they alone use arrays."""
    from makeway.bench import gang as bench_gang

    return bench_gang.bench_gang()


BENCHES: dict[str, Callable[..., dict[str, Any]]] = {
    "codec": bench_codec,
    "cycle": bench_cycle,
    "gang": bench_gang,
    "targets": bench_targets,
}
SHARING = ("cycle", "targets", "stability")  # the benches that know fair sharing
AIMS = {  # result -> what it is, its unit, what we aim at
    "decode_us": ("decode a Workload", "µs", 15),
    "encode_us": ("encode a Workload", "µs", 4),
    "validate_cpu_seconds": ("validate 10000 documents", "s", 5),
    "import_ms": ("import the command line", "ms", 150),
}


STABILITY = "stability"  # has promises that can be broken
OTHERS = (STABILITY, "latency", "neighbours", "quality", "scale", "simulate", "store")  # imported when they are run
NAMES = sorted([*BENCHES, *OTHERS])


@click.command()
@click.argument("name", type=click.Choice(NAMES))
@click.option("--json", "as_json", is_flag=True, help="One JSON object on one line.")
@click.option("--states", type=click.IntRange(min=1), default=300, show_default=True, help="Of stability: how many.")
@click.option("--seed", type=int, default=0, show_default=True, help="Of stability and quality: which sequence.")
@click.option("--clusters", type=click.IntRange(min=1), default=600, show_default=True, help="Of quality: how many.")
@click.option("--first", type=click.IntRange(min=0), default=0, show_default=True, help="Of stability: where to begin.")
@click.option("--fair", is_flag=True, help="Of stability, cycle and targets: with fair sharing.")
@click.option("--evictions", type=click.Choice(list(MODELS)), help="Of stability: how victims leave.  [default: quick]")
@click.option("--only", multiple=True, metavar="NAME", help="Of simulate: baseline, large-scale; else baseline.")
@click.option("--philly", metavar="FILE", help="Of simulate: a Philly trace too.")
@click.option("--part", multiple=True, metavar="NAME", help="Of store: only these parts.")
@click.option("--generator", metavar="FILE", help="Of scale: the recipe of arrivals.")
@click.option("--seconds", type=click.FloatRange(0.1), default=20, show_default=True, help="Of neighbours: each time.")
@click.option(
    "--crowd", type=click.FloatRange(0, 1), default=1, show_default=True, help="Of neighbours: which part of it comes."
)
def bench(
    name: str, as_json: bool, states: int, seed: int, clusters: int, first: int, fair: bool, evictions: str | None,
    only: tuple[str, ...], philly: str | None, part: tuple[str, ...], generator: str | None,
    seconds: float, crowd: float,
) -> None:  # fmt: skip
    """Measure how fast this machine is at a task.

    Times are CPU time, the median of several rounds. Stability measures no time: it says whether preemption comes to
    rest in random states, and exits with 1 if a promise was broken.
    """
    if fair and name not in SHARING:
        raise click.UsageError(f"--fair says nothing about {name}\n\nhint: it is for {', '.join(SHARING)}")
    if evictions is not None and name != STABILITY:
        raise click.UsageError(f"--evictions says nothing about {name}\n\nhint: it is for {STABILITY}")
    match name:
        case "stability":
            measured = _stability(states, seed, first, fair=fair, evictions=evictions or "quick")
        case "quality":
            measured = _quality(clusters, seed)
        case "simulate":
            measured = _simulate(only, philly)
        case "latency":
            measured = _latency()
        case "neighbours":
            measured = _neighbours(seconds, crowd)
        case "store":
            measured = _store(part)
        case "scale":
            measured = _scale(generator)
        case _:
            measured = _measured(BENCHES[name](fair=True) if fair else BENCHES[name]())
    if as_json:
        click.echo(json.dumps(measured.result))
    else:
        measured.show()
    if measured.is_broken:
        click.get_current_context().exit(1)


class Measured(NamedTuple):
    """The results of a benchmark, and how they are shown."""

    result: Mapping[str, Any]
    show: Callable[[], None]
    is_broken: bool = False  # a promise was broken


def _measured(result: dict[str, Any]) -> Measured:
    if "rows" in result:
        return Measured(result, lambda: _print_rows(result["rows"]))

    def show() -> None:
        for key, (what, unit, aim) in AIMS.items():
            if key in result:
                click.echo(f"{what:<26} {result[key]:>8} {unit:<2}  (aim: {aim} {unit})")
        sizes = f"{result['object_bytes']} bytes a Workload, {result['validate_bytes']} bytes of documents"
        click.echo(f"{sizes}; Python {result['python']} on {result['machine']}")

    return Measured(result, show)


def _latency() -> Measured:
    from makeway.bench.latency import bench_latency, print_latency

    result = bench_latency()
    return Measured(result, lambda: print_latency(result))


def _neighbours(seconds: float, crowd: float) -> Measured:
    from makeway.bench.neighbours import bench_neighbours, print_neighbours

    result = bench_neighbours(seconds, crowd)
    return Measured(result, lambda: print_neighbours(result))


def _stability(states: int, seed: int, first: int, *, fair: bool, evictions: str) -> Measured:
    tally = bench_stability(states, seed, first, fair=fair, evictions=evictions)
    return Measured(tally.result(), lambda: print_stability(tally), bool(tally.broken))


def _quality(clusters: int, seed: int) -> Measured:
    from makeway.bench.quality import bench_quality, print_quality

    result = bench_quality(clusters, seed)
    return Measured(result, lambda: print_quality(result))


def _simulate(only: tuple[str, ...], philly: str | None) -> Measured:
    from makeway.adapters.simulator.sources.arrivals import SourceError
    from makeway.bench import simulate as bench_simulate

    names = only or (() if philly else ("baseline",))
    unknown = [name for name in names if name not in bench_simulate.RECIPES]
    if unknown:
        raise click.UsageError(f"no such recipe: {unknown[0]}\n\nhint: there are {', '.join(bench_simulate.RECIPES)}")
    figures_of: dict[str, Any] = {}
    try:
        for name, source in bench_simulate.sources(names, philly):
            figures_of[name] = bench_simulate.run(source)
    except SourceError as error:
        _refuse(error)

    def show() -> None:
        for name, figures in figures_of.items():
            click.echo(name)
            for what, figure in figures.items():
                click.echo(f"  {what:<24} {figure:>12}")

    return Measured({"name": "simulate", **figures_of}, show)


def _refuse(error: SourceError) -> NoReturn:
    for finding in error.findings:
        print_finding(finding, err=True)
    raise click.exceptions.Exit(1) from None


def _store(parts: tuple[str, ...]) -> Measured:
    from makeway.bench import store as bench_store

    unknown = [name for name in parts if name not in bench_store.PARTS]
    if unknown:
        raise click.UsageError(f"no such part: {unknown[0]}\n\nhint: there are {', '.join(bench_store.PARTS)}")
    result = bench_store.bench_store(parts)

    def show() -> None:
        for key, (what, unit, aim, more) in bench_store.AIMS.items():
            if key in result:
                sense = "at least" if more else "below"
                click.echo(f"{what:<34} {result[key]:>8} {unit:<3} (aim: {sense} {aim} {unit})")

    return Measured(result, show)


def _scale(generator: str | None) -> Measured:
    from makeway.adapters.simulator.sources.arrivals import SourceError, open_source
    from makeway.adapters.simulator.sources.generator import read_generator
    from makeway.bench.scale import bench_scale, print_scale

    if generator is None:
        raise click.UsageError("bench scale needs a recipe\n\nhint: --generator FILE, as `makeway simulate` takes it")
    try:
        source = read_generator(open_source(generator))
    except SourceError as error:
        _refuse(error)
    result = bench_scale(source)
    return Measured(result, lambda: print_scale(result))


def _print_rows(rows: list[dict[str, Any]]) -> None:
    first = max(12, *(2 + len(str(next(iter(row.values())))) for row in rows))  # a result may be named by a sentence
    for row in [list(rows[0]), *(list(row.values()) for row in rows)]:
        click.echo(f"{row[0]:>{first}}" + "".join(f"{value:>12}" for value in row[1:]))


def _micros(work: Callable[[], object]) -> float:
    """CPU time of one call, the median over rounds."""
    rounds = []
    for _ in range(ROUNDS):
        before = time.process_time()
        for _ in range(OBJECTS_PER_ROUND):
            work()
        rounds.append((time.process_time() - before) / OBJECTS_PER_ROUND)
    return round(statistics.median(rounds) * 1e6, 2)


def _import_seconds() -> float:
    """Wall time of the import in a fresh interpreter, without the start of the interpreter itself."""
    where = str(Path(__file__).parents[2])
    result = subprocess.run([sys.executable, "-c", IMPORT_CLI, where], capture_output=True, text=True, check=True)
    return float(result.stdout)


# --- what is measured -----------------------------------------------------------------------------------------------


def workload_bytes() -> bytes:
    """A queueing Workload as it looks while it runs: two pod sets, an admission, a check, four conditions."""
    pod_sets = [_pod_set("driver", 1, {"cpu": "2", "memory": "8Gi"}), _pod_set("workers", 8, WORKER)]
    value = codec.read(
        {
            "apiVersion": "kueue.x-k8s.io/v1beta2",
            "kind": "Workload",
            "metadata": {
                "name": "job-train-resnet-4f2a1",
                "namespace": "team-vision",
                "uid": "5f8b2c1e-0d5f-4b53-9f5f-3d3f2f1f7a10",
                "resourceVersion": "184467",
                "generation": 1,
                "creationTimestamp": TIME,
                "labels": {"kueue.x-k8s.io/job-uid": "9d1c7c1a-53d2-4d0e-8a86-0a4cb0a9a4d2"},
                "finalizers": ["kueue.x-k8s.io/resource-in-use"],
            },
            "spec": {"queueName": "training", "priority": 1000, "podSets": pod_sets},
            "status": _status(),
        }
    ).value
    assert value is not None
    return codec.encode(value)


TIME = "2026-01-31T12:00:00Z"
WORKER = {"cpu": "8", "memory": "64Gi", "nvidia.com/gpu": "4"}


def _pod_set(name: str, count: int, requests: dict[str, str]) -> dict[str, Any]:
    container = {"name": "main", "image": "registry.example/train:1.4", "resources": {"requests": requests}}
    return {"name": name, "count": count, "template": {"spec": {"containers": [container], "restartPolicy": "Never"}}}


def _status() -> dict[str, Any]:
    admitted = (
        ("driver", 1, "on-demand", {"cpu": "2", "memory": "8Gi"}),
        ("workers", 8, "gpu", {"cpu": "64", "memory": "512Gi", "nvidia.com/gpu": "32"}),
    )
    conditions = (
        ("QuotaReserved", "Quota reserved in ClusterQueue team-vision"),
        ("Admitted", "The workload is admitted"),
        ("PodsReady", "All pods are ready"),
        ("Requeued", "Back in the queue after preemption"),
    )
    return {
        "conditions": [
            {"type": kind, "status": "True", "reason": kind, "message": message, "lastTransitionTime": TIME}
            for kind, message in conditions
        ],
        "admission": {
            "clusterQueue": "team-vision",
            "podSetAssignments": [
                {"name": name, "count": count, "flavors": dict.fromkeys(usage, flavor), "resourceUsage": usage}
                for name, count, flavor, usage in admitted
            ],
        },
        "admissionChecks": [
            {"name": "budget", "state": "Ready", "message": "within budget", "lastTransitionTime": TIME}
        ],
        "schedulingStats": {"evictions": [{"reason": "Preempted", "underlyingCause": "", "count": 1}]},
    }


def many_documents(count: int) -> bytes:
    """A file of Workloads, Jobs and LocalQueues in turn, about 400 bytes each, that use one ClusterQueue."""
    kinds = (WORKLOAD, JOB, LOCAL_QUEUE)
    documents = [QUEUE, *(kinds[i % len(kinds)].replace("NUMBER", str(i)) for i in range(count - 2))]
    return "---\n".join(documents).encode()


QUEUE = """\
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata:
  name: default
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata:
  name: team
spec:
  namespaceSelector: {}
  resourceGroups:
  - coveredResources: [cpu, memory]
    flavors:
    - name: default
      resources:
      - {name: cpu, nominalQuota: 64}
      - {name: memory, nominalQuota: 256Gi}
"""
LOCAL_QUEUE = """\
# One of many queues: every project of the team has its own, and all of them share what the team has.
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata:
  name: queue-NUMBER
  namespace: project
  labels:
    example.com/cost-centre: "4711"
    example.com/owner: team-vision
  annotations:
    example.com/contact: vision@example.com
spec:
  clusterQueue: team
  stopPolicy: None
"""
JOB = """\
apiVersion: batch/v1
kind: Job
metadata:
  name: job-NUMBER
  namespace: project
  labels:
    kueue.x-k8s.io/queue-name: queue-2
spec:
  parallelism: 3
  completions: 3
  template:
    spec:
      restartPolicy: Never
      containers:
      - name: main
        image: busybox:1.36
        command: [sh, -c, "sleep 30"]
        resources:
          requests:
            cpu: 500m
            memory: 200Mi
"""
WORKLOAD = """\
apiVersion: kueue.x-k8s.io/v1beta2
kind: Workload
metadata:
  name: workload-NUMBER
  namespace: project
spec:
  queueName: queue-2
  priority: 100
  podSets:
  - name: main
    count: 4
    template:
      spec:
        restartPolicy: Never
        containers:
        - name: main
          image: busybox:1.36
          resources:
            requests: {cpu: 1, memory: 1Gi}
"""
