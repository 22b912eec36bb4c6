"""``makeway plan``: what would happen to these manifests, cycle by cycle, and why. Nothing is applied.

The plan is data and goes to stdout; problems of the manifests go to stderr. With errors nothing is planned.
"""

from __future__ import annotations

import json
import shutil
import sys
import textwrap
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import click

from makeway.api.objects.configuration import Configuration
from makeway.api.quantity import Time
from makeway.api.reading.manifests import Manifest
from makeway.cli.offline.files import STDIN, STDIN_NAME, count, gather
from makeway.cli.offline.shares import (
    TOLD_OF_VICTIMS,
    refusal_data,
    shares_data,
    shares_text,
    turn_data,
    turn_of,
    victim_data,
)
from makeway.cli.terminal.screen import WIDTH_MIN, echo, is_terminal, plain, plural, print_finding
from makeway.controllers.jobs.workloads import Prepared, outside, prepared
from makeway.core.cycle.cycle import Verdict
from makeway.core.lowering import load_state, policy_of
from makeway.core.messages import HUMAN_REASONS, amount
from makeway.core.model import Millis, WorkloadKey
from makeway.core.planning import Need, PlannedCycle, PlannedCycles, StillWaiting, plan_cycles
from makeway.core.policy import Policy
from makeway.core.trace import Rule

Profile = Literal["default", "parity"]
TOLD_IN_WORDS = (Rule.LOWER_PRIORITY, Rule.RECLAIM_WHILE_BORROWING, *TOLD_OF_VICTIMS)


def _instant(_: click.Context, __: click.Parameter, value: str | None) -> Millis:
    """A point in time, in whole seconds as in the API; by default the present."""
    if value is None:
        return Millis(time.time_ns() // 10**9 * 1000)
    try:
        return Millis(Time.parse(value).seconds * 1000)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


@click.command()
@click.option("-f", "--filename", "named", multiple=True, metavar="PATH", help="File, folder, or - for stdin.")
@click.argument("more", nargs=-1, metavar="[PATH]...")
@click.option("-R", "--recursive", is_flag=True, help="Look into folders below a folder too.")
@click.option("--cycles", type=click.IntRange(1, 10_000), help="How many; else until nothing changes, at most 100.")
@click.option("--now", callback=_instant, metavar="TIME", help="The time that it is, RFC 3339.  [default: the clock]")
@click.option("--config", metavar="FILE", help="A Configuration.")
@click.option("--profile", type=click.Choice(["default", "parity"]), default="default", show_default=True)
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
def plan(
    named: tuple[str, ...], more: tuple[str, ...], recursive: bool, cycles: int | None, now: Millis,
    config: str | None, profile: Profile, output: str,
) -> None:  # fmt: skip
    """Say what would be admitted, preempted and left waiting, and why.

    Runs scheduling cycles in memory over the queues, Workloads and Jobs of the manifests. Exits with 0 whatever the
    plan is, with 1 if a manifest has errors.
    """
    if not named:
        example = f"makeway plan -f {more[0] if more else 'PATH'}"
        raise click.UsageError(f"no file is named\n\nhint: `{example}`; `-f -` reads stdin")
    if (*named, *more, config).count(STDIN) > 1:
        raise click.UsageError("stdin can be read once only\n\nhint: give `-` once")
    manifests, policy = _load((*named, *more), recursive, config, profile)
    objects = prepared((manifest.value for manifest in manifests if manifest.value is not None), policy, now)
    planned = plan_cycles(load_state(objects.objects, policy, now).state, now, cycles=cycles)
    story = _Story(objects, planned, outside(objects.objects, policy))
    if output == "json":
        for line in story.left_out():
            click.echo(f"note: {line}", err=True)
        click.echo(json.dumps(story.data(), indent=2))
    else:
        for line in story.lines():
            echo(line)


# --- reading ----------------------------------------------------------------------------------------------------------


def _load(paths: Sequence[str], recursive: bool, config: str | None, profile: Profile) -> tuple[list[Manifest], Policy]:
    """Return the manifests and the policy of the configuration; with errors the program ends."""
    gathered = gather([*([] if config is None else [config]), *paths], recursive)
    found = gathered.findings()
    errors = count(found, "error")
    for finding in found:
        print_finding(finding if errors else replace(finding, hint=""), err=True)
    if errors:
        click.echo(f"nothing is planned: {plural(errors, 'error')}", err=True)
        raise click.exceptions.Exit(1)
    file = STDIN_NAME if config == STDIN else config
    settings = [manifest for manifest in gathered.manifests if manifest.file == file]
    return [manifest for manifest in gathered.manifests if manifest.file != file], _policy(settings, config, profile)


def _policy(settings: list[Manifest], config: str | None, profile: Profile) -> Policy:
    if config is None:
        return Policy.of_profile(profile)
    if len(settings) != 1 or not isinstance(settings[0].value, Configuration):
        raise click.ClickException(
            f"{config} is not a Configuration\n\nhint: it must hold one object of kind Configuration and nothing else"
        )
    return policy_of(settings[0].value, profile)


# --- telling ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Story:
    """A plan, printable as data or as text."""

    objects: Prepared
    planned: PlannedCycles
    outside: Sequence[StillWaiting]

    def data(self) -> dict[str, object]:
        at_the_end = {"shares": shares_data(self.planned.shares)} if self.planned.shares else {}
        return {"cycles": [self._cycle_data(cycle) for cycle in self.planned.cycles], **at_the_end}

    def _cycle_data(self, cycle: PlannedCycle) -> dict[str, object]:
        return {
            **({"shares": shares_data(cycle.shares)} if cycle.shares else {}),
            "admitted": [_admitted_data(each) for each in cycle.plan.admitted],
            "preempted": [
                {
                    "workload": each.workload.key, "by": each.by.key, "reason": each.reason, **victim_data(each.step),
                }
                for each in cycle.preempted
            ],
            "pending": [
                {
                    "workload": each.workload, "clusterQueue": each.queue, "reason": each.reason,
                    "message": each.message, "parked": each.parked, **refusal_data(each.by_shares),
                }
                for each in (*cycle.pending, *self.outside)
            ],
        }  # fmt: skip

    def left_out(self) -> Iterator[str]:
        for each in self.objects.left_out:
            yield plain(f"{each.kind} {each.name}: {each.why}")
        for value in self.objects.objects:
            if isinstance(value, Configuration):
                yield "a Configuration among the manifests: only the file that --config names is used"

    def lines(self) -> Iterator[str]:
        for number, cycle in enumerate(self.planned.cycles, 1):
            yield _bold(f"Cycle {number}")
            yield from self._cycle_lines(cycle)
            yield ""
        waiting = (*self.planned.cycles[-1].pending, *self.outside)
        yield _bold(self._ending(bool(waiting)))
        for each in waiting:
            yield from self._waiting_lines(each)
        if self.planned.shares:
            yield from ("", _bold("Shares at the end:"))
            yield from _folded(plain(shares_text(self.planned.shares)), 2)
        left_out = list(self.left_out())
        if left_out:
            yield ""
            yield _bold("Left out:")
            yield from (line for each in left_out for line in _folded(each, 2))

    def _ending(self, somebody_waits: bool) -> str:
        if self.planned.settled:
            return "Nothing more changes. Still waiting:" if somebody_waits else "Nothing more changes. Nobody waits."
        stopped = f"Stopped after {plural(len(self.planned.cycles), 'cycle')}, and the next one has something to do."
        return f"{stopped} Waiting at its end:" if somebody_waits else stopped

    def _name(self, key: WorkloadKey) -> str:
        """A Workload that was made for a Job has the Job's name."""
        return plain(self.objects.jobs.get(key, key))

    def _cycle_lines(self, cycle: PlannedCycle) -> Iterator[str]:
        told = False
        if cycle.shares:
            yield from _folded(f"{'shares':<9}  {plain(shares_text(cycle.shares))}", 2, 13)
        for verdict in cycle.plan.admitted:
            told = True
            text = _placed(verdict) + self._turn(verdict)
            yield from self._titled("admitted", self._name(verdict.workload.key), text, "green")
        for each in cycle.preempted:
            told = True
            why = HUMAN_REASONS[each.reason] + (f", {each.step}" if each.step.rule in TOLD_IN_WORDS else "")
            text = f"makes way for {self._name(each.by.key)}: {why}"
            yield from self._titled("preempted", self._name(each.workload.key), text, "red")
        judged = {each.workload.key for each in cycle.plan.verdicts}
        for waiting in cycle.pending:
            if waiting.workload in judged:
                told = True
                yield from self._titled("waits", self._name(waiting.workload), self._why(waiting), "yellow")
        if not told:
            yield "  nobody is looked at"

    def _turn(self, verdict: Verdict) -> str:
        """Why it came before the next one, if shares decide that."""
        step = turn_of(verdict.steps)
        return "" if step is None else f"; before {self._name(WorkloadKey(step.subjects[1]))}: {step}"

    def _titled(self, title: str, name: str, text: str, colour: str) -> Iterator[str]:
        first, *rest = _folded(f"{title:<9}  {name}: {text}", 2, 13)
        yield first.replace(title, click.style(title, fg=colour), 1)
        yield from rest

    def _why(self, waiting: StillWaiting) -> str:
        message = plain(waiting.message)
        return message if waiting.other is None else message.replace(waiting.other, self._name(waiting.other))

    def _waiting_lines(self, waiting: StillWaiting) -> Iterator[str]:
        where = f" in {waiting.queue}" if waiting.queue else ""
        yield from _folded(f"{self._name(waiting.workload)}{where} ({waiting.reason}): {self._why(waiting)}", 2, 4)
        for need in waiting.needs:
            yield from _folded(self._need(need), 4, 6)
        if waiting.by_shares is not None:
            yield from _folded(str(waiting.by_shares), 4, 6)

    def _need(self, need: Need) -> str:
        needed, free, missing = (amount(each, need.resource) for each in (need.needed, need.free, need.missing))
        if not need.flavor:
            return f"needs {needed} {need.resource}: the queue has no quota for it"
        text = f"needs {needed} {need.resource} of {need.flavor}: {free} free, {missing} missing"
        if need.needed > need.most:
            return f"{text}; it can never have more than {amount(need.most, need.resource)}"
        held = [f"{self._name(holder.workload)} {amount(holder.amount, need.resource)}" for holder in need.holders]
        return f"{text}; held by {', '.join(held)}" if held else text


def _admitted_data(verdict: Verdict) -> dict[str, object]:
    return {
        "workload": verdict.workload.key,
        "clusterQueue": verdict.workload.queue,
        "podSets": [
            {"name": part.name, "count": part.count, "flavors": {r: c.flavor for r, c in sorted(part.choices.items())}}
            for part in verdict.assignment.pod_sets
        ],
        "borrows": verdict.assignment.level > 0,
        **turn_data(verdict.steps),
    }


def _placed(verdict: Verdict) -> str:
    """The flavors of its pods: ``in team-b, 3 pods on reserved, borrows``."""
    parts = []
    for part in verdict.assignment.pod_sets:
        flavors: dict[str, list[str]] = {}
        for resource, choice in sorted(part.choices.items()):
            flavors.setdefault(choice.flavor, []).append(resource)
        on = " and ".join(
            flavor if len(flavors) == 1 else f"{flavor} ({', '.join(resources)})"
            for flavor, resources in flavors.items()
        )
        name = f" {part.name}" if len(verdict.assignment.pod_sets) > 1 else ""
        parts.append(f"{plural(part.count, 'pod')}{name}" + (f" on {on}" if on else ""))
    borrows = ", borrows" if verdict.assignment.level else ""
    return f"in {verdict.workload.queue}, {', '.join(parts)}{borrows}"


def _bold(text: str) -> str:
    return click.style(text, bold=True)


def _folded(text: str, indent: int, next_indent: int | None = None) -> list[str]:
    """One line for a pipe; as many as needed for a terminal."""
    if not is_terminal(sys.stdout):
        return [" " * indent + text]
    width = max(WIDTH_MIN, shutil.get_terminal_size().columns)
    hanging = " " * (indent if next_indent is None else next_indent)
    return textwrap.wrap(
        text, width, initial_indent=" " * indent, subsequent_indent=hanging, break_long_words=False,
        break_on_hyphens=False,
    )  # fmt: skip
