"""The input of ``makeway place``: the cluster in the files, the pods that are left out, and notes.

The files may be the output of ``kubectl get -A -o json``. So a kind that plays no part is no error, nor is a field that
is newer than makeway in an object from a server; both are reported once, with a count.
"""

from __future__ import annotations

import re
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import click

from makeway.api.names import SCHEDULERS
from makeway.api.objects.kubernetes import Namespace, Node, Pod, PodDisruptionBudget, PriorityClass, view
from makeway.api.objects.meta import Wire
from makeway.api.objects.pods import PodSpec
from makeway.api.objects.scheduling import GangWorkload
from makeway.api.reading.manifests import Manifest
from makeway.api.reading.together import check_together
from makeway.api.validation.placement import not_heeded
from makeway.api.versions import kind_of
from makeway.cli.offline.files import count, gather
from makeway.cli.terminal.screen import plural, print_finding
from makeway.core.lowering.placement import cluster_of, is_live, key_of, member_of
from makeway.core.model import Millis
from makeway.core.placement.model import Cluster, PodKey
from makeway.core.policy import Gates

TAKES_PART = (Node, Pod, GangWorkload, PodDisruptionBudget, PriorityClass, Namespace)
NAMES_MAX = 10  # in one line
_INDEX = re.compile(r"\[\d+\]")


class UnplacedPod(NamedTuple):
    """A pod that waits, but not for a place from us."""

    why: str  # "has scheduling gates"
    why_many: str  # "have scheduling gates"
    workload: tuple[str, str] | None  # its scheduling Workload


@dataclass(frozen=True, slots=True)
class PlaceInput:
    cluster: Cluster
    left_out: Mapping[PodKey, UnplacedPod]
    notes: Sequence[str]  # about the files
    unheeded: Sequence[str]  # what waiting pods ask for in vain


def read_scene(paths: Sequence[str], recursive: bool, gates: Gates) -> PlaceInput:
    """Return the cluster that the files describe; with errors the program ends, after all were reported."""
    notes: list[str] = []
    values = [each.value for each in _load(paths, recursive, notes) if each.value is not None]
    left_out = {key_of(each.metadata): found for each in values if isinstance(each, Pod) and (found := _left_out(each))}
    taking_part = [each for each in values if not isinstance(each, Pod) or key_of(each.metadata) not in left_out]
    cluster = cluster_of(taking_part, Millis(time.time_ns() // 10**9 * 1000), gates)
    notes += _about_nodes(cluster)
    return PlaceInput(cluster, left_out, notes, list(_unheeded(taking_part)))


def listed(names: Iterable[str]) -> str:
    """Return the names in order, up to a readable number."""
    found = sorted(names)
    more = f" and {len(found) - NAMES_MAX} more" if len(found) > NAMES_MAX else ""
    return ", ".join(found[:NAMES_MAX]) + more


# --- manifests -------------------------------------------------------------------------------------------------------


def _load(paths: Sequence[str], recursive: bool, notes: list[str]) -> list[Manifest]:
    gathered = gather(paths, recursive, together=False)
    others = [each for each in gathered.manifests if _is_other_kind(each)]
    if others:
        kinds = Counter(each.kind_name for each in others)
        told = ", ".join(f"{number} {kind}" for kind, number in sorted(kinds.items()))
        notes.append(f"kinds that take no part: {told}")
    gathered.manifests = [each for each in gathered.manifests if not _is_other_kind(each)]
    notes += _forgiven(gathered.manifests)
    check_together(gathered.manifests, complete=True)
    found = gathered.findings()
    errors = count(found, "error")
    for finding in found:
        print_finding(finding if errors else replace(finding, hint=""), err=True)
    if errors:
        click.echo(f"nothing is placed: {plural(errors, 'error')}", err=True)
        raise click.exceptions.Exit(1)
    return gathered.manifests


def _is_other_kind(manifest: Manifest) -> bool:
    if manifest.value is not None:
        return not isinstance(manifest.value, TAKES_PART)
    is_unknown = any(problem.cause == "NotSupported" for problem in manifest.problems)
    return is_unknown and manifest.kind_name not in {kind_of(each).name for each in TAKES_PART}  # of another version


def _forgiven(manifests: Iterable[Manifest]) -> Iterator[str]:
    """Accept unknown fields of objects from a server: they are no mistakes of the file."""
    fields: Counter[str] = Counter()
    for manifest in manifests:
        value = manifest.value
        unknown = [each for each in manifest.problems if each.cause == "UnknownField"]
        if unknown and isinstance(value, TAKES_PART) and value.metadata.uid:
            manifest.problems = [each for each in manifest.problems if each not in unknown]
            fields.update({
                f"{manifest.kind_name} {_INDEX.sub('[]', each.path.removeprefix(manifest.prefix).lstrip('.'))}"
                for each in unknown
            })  # fmt: skip
    for field, number in sorted(fields.items()):
        yield f"field that is not known and not looked at: {field} ({plural(number, 'object')})"


# --- pods ------------------------------------------------------------------------------------------------------------


def _left_out(pod: Pod) -> UnplacedPod | None:
    spec, member = view(pod.spec, PodSpec), member_of(pod)
    workload = None if member is None else (key_of(pod.metadata)[0], member.workload)
    if spec.node_name or not is_live(pod):
        return None
    if pod.metadata.deletion_timestamp is not None:
        return UnplacedPod("is being deleted", "are being deleted", workload)
    if spec.scheduler_name not in SCHEDULERS:
        return UnplacedPod(
            f"asks for scheduler {spec.scheduler_name}", f"ask for scheduler {spec.scheduler_name}", workload
        )
    if spec.scheduling_gates:
        return UnplacedPod("has scheduling gates", "have scheduling gates", workload)
    return None


def told_left_out(left_out: Mapping[PodKey, UnplacedPod]) -> Iterator[str]:
    by_reason: dict[str, list[str]] = defaultdict(list)
    for key, each in left_out.items():
        by_reason[each.why_many].append("/".join(key))
    for why, names in sorted(by_reason.items()):
        yield f"Left out, for they {why}: {listed(names)}"


def _about_nodes(cluster: Cluster) -> Iterator[str]:
    known = {node.name for node in cluster.nodes}
    if not known:
        yield "there are no Nodes in these manifests"
    elsewhere = [pod.node for pod in cluster.pods if pod.node is not None and pod.node not in known]
    if elsewhere:
        number = "1 pod is on a node" if len(elsewhere) == 1 else f"{len(elsewhere)} pods are on nodes"
        yield f"{number} not in these manifests: {listed(set(elsewhere))}"


def _unheeded(values: Iterable[Wire]) -> Iterator[str]:
    """Return each request once, with the pods that make it."""
    asking: dict[str, list[str]] = defaultdict(list)
    for each in values:
        if not isinstance(each, Pod) or not is_live(each):
            continue
        spec = view(each.spec, PodSpec)
        for problem in () if spec.node_name else not_heeded(spec):
            path = _INDEX.sub("[]", problem.path)
            asking[f"spec.{path}: {problem.message}"].append("/".join(key_of(each.metadata)))
    for message, names in sorted(asking.items()):
        pods = dict.fromkeys(names)
        yield f"{message} ({plural(len(pods), 'pod')}: {listed(pods)})"
