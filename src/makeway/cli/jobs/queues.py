"""``makeway queues``: quota, its use, and waiting workloads, cohort by cohort.

A terminal gets bars, fitted to its width; a pipe gets one line for each flavor and resource of each queue.
"""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import click

from makeway.adapters.kubernetes.resources import resource_of
from makeway.adapters.kubernetes.store import KubernetesStore
from makeway.adapters.simulator.reports.words import level
from makeway.api.objects.queueing import ClusterQueue, Cohort
from makeway.api.versions import kind_of
from makeway.cli.clients.connection import connected, server_options
from makeway.cli.completion import complete_names_of
from makeway.cli.jobs.quota_figures import CohortFigures, Figures, FlavorResource, QueueFigures, QuotaFigure, grouped
from makeway.cli.terminal.output import Table, print_data, print_streamed
from makeway.cli.terminal.screen import echo, is_terminal, plain
from makeway.core.messages import amount
from makeway.runtime.feed import KindFeed
from makeway.runtime.ports import Store, Stored

QUEUES, COHORTS = kind_of(ClusterQueue), kind_of(Cohort)
COLUMNS = ("Cohort", "Queue", "Flavor", "Resource", "Nominal", "Used", "Borrowed", "Lent", "Waiting", "Admitted")
WIDTH_MIN = 30
INDENT_MAX = 40  # deeper cohorts are not indented further
BAR_MIN, BAR_MAX = 6, 30
REFRESH_SECONDS = 0.5
SIGNS = {
    "used": ("█", "#", "green"),
    "borrowed": ("▓", "+", "yellow"),
    "lent": ("▒", "=", "cyan"),
    "free": ("·", ".", ""),
}


@click.command()
@click.argument("names", nargs=-1, metavar="[NAME]...", shell_complete=complete_names_of("clusterqueues"))
@click.option("-c", "--cohort", metavar="NAME", help="Only the tree that has this cohort.")
@click.option("-w", "--watch", is_flag=True, help="Show it anew whenever something changes.")
@click.option("-o", "--output", type=click.Choice(["text", "json", "yaml", "name"]), default="text", show_default=True)
@server_options
def queues(names: tuple[str, ...], cohort: str | None, watch: bool, output: str) -> None:
    """Show quota, its use, and who waits, cohort by cohort."""
    with connected() as connection:
        chosen = _AskedQueues(names, cohort)
        store = KubernetesStore(connection.client)
        if watch:
            _follow(store, chosen, output)
            return
        groups = chosen.of([*store.list(QUEUES).items], [*store.list(COHORTS).items])
        if not groups and (names or cohort):
            what = f"cohort {plain(cohort)}" if cohort else f"ClusterQueue {plain(', '.join(names))}"
            raise click.ClickException(f"there is no {what}\n\nhint: `makeway queues` shows all of them")
        _tell(groups, output, print_data)
        if not groups:
            click.echo("no ClusterQueues", err=True)


@dataclass(frozen=True, slots=True)
class _AskedQueues:
    """The trees and queues that were asked for; figures are always those of whole trees."""

    names: tuple[str, ...]
    cohort: str | None

    def of(self, queues: Sequence[Stored], cohorts: Sequence[Stored]) -> list[CohortFigures]:
        groups = grouped([queue.value() for queue in queues], [cohort.value() for cohort in cohorts])
        kept = [group for group in groups if self.cohort is None or self.cohort in {g.name for g in group.below()}]
        return [each for each in kept if self._keep(each)]

    def _keep(self, tree: CohortFigures) -> bool:
        """Remove other queues from a tree; return whether anything is left."""
        if not self.names:
            return True
        for group in tree.below():
            group.queues = [queue for queue in group.queues if queue.name in self.names]
        tree.sum_up()
        for group in tree.below():
            group.groups = [each for each in group.groups if each.count]
        tree.sum_up()
        return bool(tree.count)


# --- over and over ---------------------------------------------------------------------------------------------------


def _follow(store: Store, chosen: _AskedQueues, output: str) -> None:
    """Repeat until the user interrupts it. Both kinds are watched, so that a picture is of one moment if possible."""
    shown = _screen() if output == "text" and is_terminal(sys.stdout) else None
    if shown is not None:
        shown.start()
    try:
        for groups in _states(store, chosen):
            if shown is not None:
                from rich.text import Text

                shown.update(
                    Text.from_ansi("\n".join(_lines(groups, shutil.get_terminal_size().columns))), refresh=True
                )
            else:
                _tell(groups, output, print_streamed)
                if output == "text":
                    click.echo()
                sys.stdout.flush()
    finally:
        if shown is not None:
            shown.stop()


def _screen() -> Any:
    from rich.live import Live

    return Live(auto_refresh=False, vertical_overflow="crop", redirect_stdout=False, redirect_stderr=False)


def _states(store: Store, chosen: _AskedQueues) -> Iterator[list[CohortFigures]]:
    feeds = [KindFeed(store, QUEUES), KindFeed(store, COHORTS)]
    is_first = True
    while True:
        changes = sum(len(feed.poll()) for feed in feeds)
        if changes or is_first:
            yield chosen.of(*(list(feed.objects()) for feed in feeds))
        is_first = False
        time.sleep(REFRESH_SECONDS)


# --- telling ---------------------------------------------------------------------------------------------------------


def _tell(groups: Sequence[CohortFigures], output: str, print_tree: Callable[[Any, str], None]) -> None:
    if output in ("json", "yaml"):
        print_tree(_data(groups), output)
    elif output == "name":
        for group in groups:
            for queue in group.all_queues:
                click.echo(f"{resource_of(QUEUES).full_name}/{plain(queue.name)}")
    elif is_terminal(sys.stdout):
        for line in _lines(groups, shutil.get_terminal_size().columns):
            echo(line)
    elif groups:
        Table(COLUMNS).print([row for group in groups for row in _rows(group)])


def _data(groups: Sequence[CohortFigures]) -> dict[str, Any]:
    return {
        "cohorts": [data for group in groups if group.name for data in _cohort_data(group)],
        "queues": [_queue_data(queue) for group in groups for queue in group.all_queues],
    }


def _cohort_data(group: CohortFigures) -> Iterator[dict[str, Any]]:
    for each in group.below():
        figures = _figures_data(each.figures())
        yield {"name": each.name, "parent": each.parent, "waiting": each.waiting, "resources": figures}


def _queue_data(queue: QueueFigures) -> dict[str, Any]:
    return {
        "name": queue.name, "cohort": queue.cohort, "active": not queue.trouble, "reason": queue.trouble,
        "waiting": queue.waiting, "admitted": queue.admitted, "resources": _figures_data(queue.figures),
    }  # fmt: skip


def _figures_data(figures: Figures) -> list[dict[str, str]]:
    return [
        {"flavor": flavor, "resource": resource, **dict(zip(FIGURES, _amounts(figure, resource), strict=True))}
        for (flavor, resource), figure in figures.items()
    ]


FIGURES = ("nominal", "used", "borrowed", "lent")


def _amounts(figure: QuotaFigure, resource: str) -> list[str]:
    return [amount(getattr(figure, name), resource) for name in FIGURES]


def _rows(group: CohortFigures) -> Iterator[list[object]]:
    """Yield a row for each flavor-resource of each cohort and queue; the row of a cohort has no queue."""
    for each in group.below():
        if each.name:
            yield from _figure_rows([each.name, None], each.figures(), [each.waiting, None])
        for queue in each.queues:
            yield from _figure_rows([each.name, queue.name], queue.figures, [queue.waiting, queue.admitted])


def _figure_rows(head: list[object], figures: Figures, tail: list[object]) -> Iterator[list[object]]:
    for (flavor, resource), figure in figures.items():
        yield [*head, flavor, resource, *_amounts(figure, resource), *tail]
    if not figures:
        yield [*head, None, None, *([None] * len(FIGURES)), *tail]


# --- bars ------------------------------------------------------------------------------------------------------------


def _lines(groups: Sequence[CohortFigures], columns: int) -> Iterator[str]:
    width = max(WIDTH_MIN, columns)
    for group in groups:
        for each in group.below():
            yield from _group_lines(each, width, min(2 * each.depth, INDENT_MAX))
    if groups:
        yield ""
        yield "  ".join(f"{_sign(name)} {name}" for name in SIGNS)


def _group_lines(group: CohortFigures, width: int, indent: int) -> Iterator[str]:
    title = f"Cohort {group.name}" if group.name else "No cohort"
    yield _titled(title, f"{group.waiting} waiting", width, indent)
    if group.name and (group.count > 1 or group.own):
        within = {fr: replace(each, lent=0) for fr, each in group.figures().items()}  # the same as borrowed
        yield from _figure_lines(within, width, indent + 2)
    for queue in group.queues:
        state = f"{queue.waiting} waiting, {queue.admitted} admitted"
        yield _titled(queue.name, f"{queue.trouble}, {state}" if queue.trouble else state, width, indent + 2)
        yield from _figure_lines(queue.figures, width, indent + 4)


def _titled(title: str, state: str, width: int, indent: int) -> str:
    """A name on the left, its state on the right, or below if there is no room."""
    left = f"{' ' * indent}{plain(title)}"
    gap = width - len(left) - len(state)
    styled = click.style(left, bold=True)
    return f"{styled}{' ' * gap}{state}" if gap > 1 else f"{styled}\n{' ' * (indent + 2)}{state}"


def _figure_lines(figures: Figures, width: int, indent: int) -> Iterator[str]:
    """Name, bar, words. A narrow screen gets a shorter bar, and a very narrow one puts the words below."""
    names = {fr: plain(f"{fr[0]} {fr[1]}") for fr in figures}
    words = {fr: _words(figure, fr) for fr, figure in figures.items()}
    longest = max(map(len, names.values()), default=0)
    room = width - indent - longest - 2 - max(map(len, words.values()), default=0) - 2
    for fr, figure in figures.items():
        name = f"{' ' * indent}{names[fr].ljust(longest)}"
        if room >= BAR_MIN:
            yield f"{name}  {_bar(figure, min(BAR_MAX, room))}  {words[fr]}"
        else:
            yield f"{' ' * indent}{names[fr]}"
            bar = min(BAR_MAX, max(BAR_MIN, width - indent - 2 - len(words[fr]) - 2))
            yield f"{' ' * (indent + 2)}{_bar(figure, bar)}  {words[fr]}"


def _words(figure: QuotaFigure, fr: FlavorResource) -> str:
    used, nominal = level(figure.used, fr[1]), level(figure.nominal, fr[1])
    more = [f"{level(getattr(figure, name), fr[1])} {name}" for name in ("borrowed", "lent") if getattr(figure, name)]
    return ", ".join([f"{used} of {nominal}", *more])


def _bar(figure: QuotaFigure, width: int) -> str:
    """The parts of the width for used, borrowed, lent and free; every positive part is visible."""
    own = figure.used - figure.borrowed
    parts = {"used": own, "borrowed": figure.borrowed, "lent": figure.lent, "free": figure.free}
    return "".join(_sign(name, count) for name, count in zip(parts, _shared(list(parts.values()), width), strict=True))


def _shared(parts: Sequence[int], width: int) -> list[int]:
    """Divide ``width`` cells in proportion to the parts; every positive part gets one: there are enough."""
    total = sum(parts)
    if not total:
        return [*([0] * (len(parts) - 1)), width]
    cells = [max(1, part * width // total) if part else 0 for part in parts]
    while sum(cells) != width:
        step = 1 if sum(cells) < width else -1
        movable = [i for i, part in enumerate(parts) if part and (step > 0 or cells[i] > 1)]
        worst = max(movable, key=lambda i: (step * (parts[i] * width - cells[i] * total), cells[i]))
        cells[worst] += step
    return cells


def _sign(name: str, count: int = 1) -> str:
    nice, simple, colour = SIGNS[name]
    encoding = getattr(sys.stdout, "encoding", None) or "ascii"
    try:
        nice.encode(encoding)
    except (UnicodeEncodeError, LookupError):
        nice = simple
    return click.style(nice * count, fg=colour or None) if count else ""
