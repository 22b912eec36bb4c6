"""``makeway demo``: a temporary server, the jobs of an example, and their progress.

The machine has what the example's flavors describe: a node for each flavor, with its labels and taints, and with as
much capacity as all queues own of it. So an example for a cluster runs here unchanged.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence

import click

from makeway.adapters.kubernetes.client import Client
from makeway.adapters.kubernetes.resources import resource_of
from makeway.adapters.kubernetes.transport import Object
from makeway.api import codec
from makeway.api.objects.kubernetes import Job
from makeway.api.objects.meta import Wire
from makeway.api.objects.queueing import ClusterQueue, ResourceFlavor
from makeway.api.quantity import Quantity
from makeway.api.versions import kind_of
from makeway.cli.clients.following import condition, ended, evictions, seen, standing
from makeway.cli.clients.own_server import OwnServer, own_server
from makeway.cli.objects.documents import ORDER
from makeway.cli.offline.files import gather
from makeway.cli.terminal.screen import echo, plain, plural, print_finding
from makeway.runtime.ports import StoreError

APART_SECONDS = 2.0  # between two jobs, so that users see their order
LOOK_SECONDS = 0.2
ONCE_SECONDS = 55.0  # everything ends within a minute
EXAMPLE = "examples/quickstart"
_PREEMPTED = re.compile(r"JobUID: (?P<job>\S+?)\) due to (?P<reason>[^;]+)")


@click.command()
@click.option(
    "-f",
    "--filename",
    "paths",
    multiple=True,
    default=(EXAMPLE,),
    show_default=True,
    metavar="PATH",
    help="Manifests: queues, and jobs in the order in which they come.",
)
@click.option("--once", is_flag=True, help="End when all jobs have ended, with exit code 0 if all went well.")
def demo(paths: tuple[str, ...], once: bool) -> None:
    """Show an example at work: its jobs queue, run and make way as real processes on this machine.

    Everything happens in a temporary folder, which is gone at the end.
    """
    gathered = gather(list(paths), recursive=True)
    errors = [each for each in gathered.findings() if each.severity == "error"]
    for finding in errors:
        print_finding(finding, err=True)
    if errors:
        raise click.exceptions.Exit(1)
    ranks = {name: rank for rank, name in enumerate(ORDER)}
    values = [manifest.value for manifest in gathered.manifests if manifest.value is not None]
    values.sort(key=lambda each: ranks.get(type(each).__name__, len(ranks)))
    echo(click.style("starting a server in a temporary folder …", dim=True), err=True)
    with own_server(tuple(node_words(values))) as server:
        code = _play(server, values, once=once)
    raise click.exceptions.Exit(code)


def node_words(values: Sequence[Wire]) -> Iterator[str]:
    """Return the options of a server that has the quota of the queues as capacity."""
    flavors = [each for each in values if isinstance(each, ResourceFlavor)]
    queues = [each for each in values if isinstance(each, ClusterQueue)]
    for flavor in flavors:
        amounts = {"memory": "64Gi", **_owned(queues, flavor.metadata.name)}
        parts = [f"{name}={amount}" for name, amount in amounts.items()]
        parts += [f"label/{key}={value}" for key, value in flavor.spec.node_labels.items()]
        parts += [
            f"taint/{node_taint.key}={node_taint.value}:{node_taint.effect}" for node_taint in flavor.spec.node_taints
        ]
        yield from ("--node", f"{flavor.metadata.name}:{','.join(parts)}")


def _owned(queues: Sequence[ClusterQueue], flavor: str) -> dict[str, str]:
    found: dict[str, int] = {}
    for queue in queues:
        for group in queue.spec.resource_groups:
            for quotas in group.flavors:
                for each in quotas.resources if quotas.name == flavor else ():
                    found[each.name] = found.get(each.name, 0) + each.nominal_quota.nano
    return {name: str(Quantity(nano)) for name, nano in found.items()}


# --- the play --------------------------------------------------------------------------------------------------------


def _play(server: OwnServer, values: Sequence[Wire], *, once: bool) -> int:
    jobs = [each for each in values if isinstance(each, Job)]
    for each in values:
        if not isinstance(each, Job):
            _create(server.client, each)
    echo(f"{len(values) - len(jobs)} objects are there, {plural(len(jobs), 'job')} to come\n")
    stage = _Stage(server.client)
    try:
        for each in jobs:
            stage.enter(_create(server.client, each))
            stage.watch(APART_SECONDS)
        stage.watch(ONCE_SECONDS if once else None)
        if not once:
            _say_what_next(server)
            while True:
                time.sleep(3600)
    except KeyboardInterrupt:
        echo(click.style("\nending what still runs …", dim=True), err=True)
        return 0
    left = stage.left()
    if left:
        echo(f"not ended in time: {', '.join(left)}", err=True)
    echo(f"\n{stage.summary()}")
    return 1 if left or stage.failed else 0


def _create(client: Client, value: Wire) -> Object:
    tree = codec.to_tree(value)
    resource = resource_of(kind_of(type(value)))
    namespace = str(tree["metadata"].get("namespace") or ("default" if resource.namespaced else ""))
    return client.create(resource, namespace, tree).tree()


def _say_what_next(server: OwnServer) -> None:
    data = f"--data {server.folder}"
    echo(f"\nThe API is at {click.style(server.url, bold=True)} until Ctrl-C. Try, in another terminal:")
    echo(f"  makeway queues {data}")
    echo(f"  makeway submit {data} -n team-a -- sh -c 'echo hello; sleep 5'")
    echo(f"  makeway events {data} -A")
    echo(f"  makeway kubeconfig {data} > kubeconfig && kubectl --kubeconfig kubeconfig get workloads,pods -A")


class _Stage:
    """Prints the progress of each job, a line for each change."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._began = time.monotonic()
        self._jobs: dict[tuple[str, str], str] = {}  # its last printed status
        self._names: dict[str, str] = {}  # by uid
        self._evicted: dict[tuple[str, str], int] = {}
        self._codes: dict[tuple[str, str], int] = {}
        self.failed = 0

    def enter(self, job: Object) -> None:
        namespace, name = str(job["metadata"]["namespace"]), str(job["metadata"]["name"])
        self._names[str(job["metadata"]["uid"])] = f"{namespace}/{name}"
        self._jobs[namespace, name] = ""
        self._say((namespace, name), "comes")

    def watch(self, seconds: float | None) -> None:
        """Print until all have ended, or until the time is up."""
        until = None if seconds is None else time.monotonic() + seconds
        while self.left() and (until is None or time.monotonic() < until):
            for job in [job for job in self._jobs if job not in self._codes]:
                try:
                    self._look(job)
                except StoreError:
                    continue
            time.sleep(LOOK_SECONDS)

    def left(self) -> list[str]:
        return ["/".join(job) for job in self._jobs if job not in self._codes]

    def summary(self) -> str:
        words = f"{plural(len(self._codes), 'job')} ended in {time.monotonic() - self._began:.0f} s"
        count = sum(self._evicted.values())
        return f"{words}; {plural(count, 'time')} somebody made way" if count else words

    def _look(self, job: tuple[str, str]) -> None:
        found = seen(self._client, *job)
        count = evictions(found.workload)
        if count > self._evicted.get(job, 0):
            self._evicted[job] = count
            self._say(job, f"makes way{self._reason(found.workload)}", colour="yellow")
        end = ended(found)
        if end is not None:
            self._codes[job] = end.code
            self.failed += end.code != 0
            self._say(job, end.words, colour="red" if end.code else "green")
            return
        words = standing(found)
        admitted = condition(found.workload, "Admitted")
        if words.startswith("runs") and admitted is not None and found.workload is not None:
            words = f"{words} on {_flavors(found.workload)}"
        words = words.replace("couldn't assign flavors to pod set main: ", "")
        if words not in ("", "starts", self._jobs[job]) and not words.startswith("has to stop"):
            self._jobs[job] = words
            self._say(job, words, colour="cyan" if words.startswith("runs") else "")

    def _reason(self, workload: Object | None) -> str:
        """Which workload it makes way for, and why."""
        message = str((_condition(workload, "Preempted") or _condition(workload, "Evicted") or {}).get("message", ""))
        told = _PREEMPTED.search(message)
        if told is None:
            return f": {message}"
        by = self._names.get(told.group("job"))
        return f" for {by}: {told.group('reason')}" if by else f": {told.group('reason')}"

    def _say(self, job: tuple[str, str], words: str, *, colour: str = "") -> None:
        seconds = int(time.monotonic() - self._began)
        told = click.style(plain(words), fg=colour) if colour else plain(words)
        echo(f"  {seconds // 60:02d}:{seconds % 60:02d}  {plain('/'.join(job)):<16} {told}")


def _condition(tree: Object | None, type_: str) -> Object | None:
    found = ((tree or {}).get("status") or {}).get("conditions") or ()
    return next((each for each in found if each["type"] == type_ and each.get("message")), None)


def _flavors(workload: Object) -> str:
    admission = (workload.get("status") or {}).get("admission") or {}
    sets = admission.get("podSetAssignments") or ()
    return ", ".join(sorted({str(flavor) for each in sets for flavor in (each.get("flavors") or {}).values()}))
