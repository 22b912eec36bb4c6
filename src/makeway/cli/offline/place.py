"""``makeway place``: the nodes for the pods of these manifests, the pods that must make way, and why. Nothing runs.

The answer is data and goes to stdout; problems of the manifests go to stderr. With errors nothing is placed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import click

from makeway.api.names import DEFAULT_NAMESPACE
from makeway.api.reading.structure import did_you_mean
from makeway.cli.offline.files import STDIN
from makeway.cli.offline.place_reading import PlaceInput, read_scene, told_left_out
from makeway.cli.server.configuration import read_configuration
from makeway.cli.terminal.screen import echo, plain
from makeway.core.lowering import policy_of
from makeway.core.placement.cluster.state import ClusterState
from makeway.core.placement.cycle import sought
from makeway.core.placement.model import Cluster, ForGroup, ForPod, GroupKey, PlacementAnswer, Pod, Preemptor
from makeway.core.policy import Policy
from makeway.core.trace import Rule, Step

TOLD_APART = (Rule.PLACE_NODE, Rule.PLACE_MAKES_WAY)  # shown in lines of their own

ABOUT_ONE_OF_THEM = (Rule.PLACE_LACKS, Rule.PLACE_CLOSED, Rule.PLACE_APART)  # for a gang these name the pod


@click.command()
@click.option("-f", "--filename", "named", multiple=True, metavar="PATH", help="File, folder, or - for stdin.")
@click.argument("more", nargs=-1, metavar="[PATH]...")
@click.option("-R", "--recursive", is_flag=True, help="Look into folders below a folder too.")
@click.option("--for", "only", metavar="KIND/NAME", help="Only this one: pod/NAME or workload/NAME.")
@click.option("-n", "--namespace", default=DEFAULT_NAMESPACE, show_default=True, help="Where --for is looked up.")
@click.option("--config", metavar="FILE", help="A Configuration; its makeway.scoring and feature gates count.")
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
def place(
    named: tuple[str, ...], more: tuple[str, ...], recursive: bool, only: str | None, namespace: str,
    config: str | None, output: str,
) -> None:  # fmt: skip
    """Say where pods go on nodes, who must make way, and why.

    Takes the Nodes, Pods, scheduling Workloads, PodDisruptionBudgets and PriorityClasses of the manifests. Who waits is
    looked at in queue order, each as if those before had got what they were promised. Exits with 0 whatever the answer
    is, with 1 if a manifest has errors.
    """
    if not named:
        example = f"makeway place -f {more[0] if more else 'PATH'}"
        raise click.UsageError(f"no file is named\n\nhint: `{example}`; `-f -` reads stdin")
    if (*named, *more).count(STDIN) > 1:
        raise click.UsageError("stdin can be read once only\n\nhint: give `-` once")
    policy = policy_of(read_configuration(config, undone="placed"))
    scene = read_scene((*named, *more), recursive, policy.gates)
    seekers = _queue(scene.cluster) if only is None else _named(scene, only, namespace)
    found = list(_placed(scene.cluster, seekers, policy))
    asides = [*told_left_out(scene.left_out), *(f"Not heeded: {each}" for each in scene.unheeded)]
    for note in (*scene.notes, *(asides if output == "json" else ())):
        click.echo(plain(f"note: {note[:1].lower()}{note[1:]}"), err=True)
    if output == "json":
        click.echo(json.dumps({"placements": [each.data() for each in found]}, indent=2))
        return
    for line in _lines(found, asides):
        echo(line)


# --- what waits for a place -------------------------------------------------------------------------------------------


def _queue(cluster: Cluster) -> list[Preemptor]:
    """The waiting pods, the most important first, then the oldest; a gang once, with its first pod (S-15.2.1)."""
    ranks = {(each.namespace, each.name): each.priority for each in cluster.workloads}
    waiting = [pod for pod in cluster.pods if pod.node is None]
    waiting.sort(key=lambda pod: (-_rank(pod, ranks), pod.arrived))
    gangs = _gangs(cluster)
    return list(dict.fromkeys(_seeker(gangs, pod) for pod in waiting))


def _gangs(cluster: Cluster) -> set[GroupKey]:
    return {group.key for each in cluster.workloads for group in each.groups if group.min_count is not None}


def _rank(pod: Pod, ranks: dict[tuple[str, str], int]) -> int:
    return pod.priority if pod.member is None else ranks.get((pod.key[0], pod.member.workload), pod.priority)


def _seeker(gangs: set[GroupKey], pod: Pod) -> Preemptor:
    if pod.member is not None and (pod.key[0], pod.member.workload, pod.member.group) in gangs:
        return ForGroup(pod.key[0], pod.member)
    return ForPod(pod.key)


def _named(scene: PlaceInput, only: str, namespace: str) -> list[Preemptor]:
    cluster = scene.cluster
    kind, _, name = only.partition("/")
    if kind not in ("pod", "workload") or not name:
        raise click.UsageError(f"--for {only} names nobody\n\nhint: `--for pod/NAME` or `--for workload/NAME`")
    if kind == "workload":
        return _of_workload(scene, namespace, name)
    pods = {pod.key: pod for pod in cluster.pods}
    pod = pods.get((namespace, name))
    if (left_out := scene.left_out.get((namespace, name))) is not None:
        hint = "only those that wait for a place from us are placed"
        raise click.ClickException(plain(f"Pod {name} {left_out.why}") + f"\n\nhint: {hint}")
    if pod is None:
        raise _missing("Pod", name, namespace, [each[1] for each in pods if each[0] == namespace])
    if pod.node is not None:
        raise click.ClickException(f"Pod {name} is on node {pod.node} already\n\nhint: only pods that wait are placed")
    if isinstance(_seeker(_gangs(cluster), pod), ForGroup) and pod.member is not None:
        hint = f"`--for workload/{pod.member.workload}`"
        raise click.ClickException(f"Pod {name} is placed with its gang or not at all\n\nhint: {hint}")
    return [ForPod(pod.key)]


def _of_workload(scene: PlaceInput, namespace: str, name: str) -> list[Preemptor]:
    cluster = scene.cluster
    known = [each.name for each in cluster.workloads if each.namespace == namespace]
    if name not in known:
        raise _missing("scheduling Workload", name, namespace, known)
    refers = {
        pod.key for pod in cluster.pods
        if pod.key[0] == namespace and pod.member is not None and pod.member.workload == name
    }  # fmt: skip
    found = [
        each
        for each in _queue(cluster)
        if (isinstance(each, ForGroup) and (each.namespace, each.member.workload) == (namespace, name))
        or (isinstance(each, ForPod) and each.key in refers)
    ]
    if not found:
        its = {key: each for key, each in scene.left_out.items() if each.workload == (namespace, name)}
        hint = plain("; ".join(told_left_out(its))) or "only pods that wait are placed"
        raise click.ClickException(f"no pod of Workload {name} waits\n\nhint: {hint}")
    return found


def _missing(kind: str, name: str, namespace: str, known: list[str]) -> click.ClickException:
    near = did_you_mean(name, known) or "`-n` names another namespace"
    return click.ClickException(f"no {kind} {plain(name)} in namespace {plain(namespace)}\n\nhint: {near}")


# --- what becomes of them --------------------------------------------------------------------------------------------


def _placed(cluster: Cluster, seekers: list[Preemptor], policy: Policy) -> Iterator[_Found]:
    """Place them one after another; a nominated pod keeps its place for the next ones, and its victims are gone."""
    state = ClusterState.of(cluster, scoring=policy.scoring)
    for each in seekers:
        answer = sought(state, each, pod_by_pod=not policy.gates.workload_aware_preemption)
        yield _Found(each, frozenset("/".join(pod.key) for pod in _waiting(cluster, each)), answer)
        for key in answer.victims:
            state.remove_pod(key)
        if answer.feasible:
            for key, node in answer.nominated.items():
                state.bind(key, node)


def _waiting(cluster: Cluster, preemptor: Preemptor) -> list[Pod]:
    if isinstance(preemptor, ForPod):
        return [pod for pod in cluster.pods if pod.key == preemptor.key]
    mine = [pod for pod in cluster.pods if pod.node is None and pod.member == preemptor.member]
    return [pod for pod in mine if pod.key[0] == preemptor.namespace]


@dataclass(frozen=True, slots=True)
class _Found:
    preemptor: Preemptor
    members: frozenset[str]
    answer: PlacementAnswer

    @property
    def name(self) -> str:
        if isinstance(self.preemptor, ForPod):
            return f"pod {'/'.join(self.preemptor.key)}"
        member = self.preemptor.member
        replica = f"/{member.replica}" if member.replica else ""
        return f"gang {self.preemptor.namespace}/{member.workload}/{member.group}{replica}"

    @property
    def outcome(self) -> str:
        if not self.answer.feasible:
            return "waits"
        return "makes others leave" if self.answer.needed else "fits"

    def data(self) -> dict[str, object]:
        answer = self.answer
        kind, _, name = self.name.partition(" ")
        return {
            "for": {"kind": kind, "name": name},
            "outcome": self.outcome,
            "needed": answer.needed,
            "feasible": answer.feasible,
            "nodes": {"/".join(key): node for key, node in sorted(answer.nominated.items())},
            "victims": ["/".join(key) for key in answer.victims],
            "numPDBViolations": answer.violations,
            "n": answer.n,
            "reason": answer.reason,
            "why": [{"rule": s.rule, "about": list(s.subjects), "text": str(s)} for s in answer.why],
        }

    def lines(self) -> Iterator[str]:
        answer = self.answer
        colour = "green" if self.outcome == "fits" else "yellow" if answer.feasible else "red"
        yield f"{click.style(plain(self.name), bold=True)}: {click.style(self.outcome, fg=colour)}"
        for key, node in sorted(answer.nominated.items()):
            yield plain(f"  {'to node':<9}  {'/'.join(key)}: {node}")
        for step in answer.why:
            if step.rule == Rule.PLACE_MAKES_WAY:
                yield plain(f"  {'makes way':<9}  {_about(step)}: {step}")
        for step in answer.why:
            if step.rule not in TOLD_APART:
                yield plain(f"  {'because':<9}  {self._because(step)}")

    def _because(self, step: Step) -> str:
        own = () if step.rule in ABOUT_ONE_OF_THEM else self.members
        others = [each for each in step.subjects if each not in own and each not in self.name.split()]
        return f"{', '.join(others)}: {step}" if others else str(step)


def _about(step: Step) -> str:
    return ", ".join(step.subjects)


def _lines(found: list[_Found], asides: Sequence[str]) -> Iterator[str]:
    if not found:
        yield "Nobody waits for a place."
    for number, each in enumerate(found):
        if number:
            yield ""
        yield from each.lines()
    if asides:
        yield ""
    yield from map(plain, asides)
