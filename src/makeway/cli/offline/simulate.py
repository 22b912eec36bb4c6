"""``makeway simulate``: the real controllers in virtual time, over manifests and a source of arrivals.

The report is data and goes to stdout; notes, problems and progress go to stderr. All problems of the input are reported
at once, and then nothing is simulated. Files appear when they are complete.
"""

from __future__ import annotations

import gc
import json
import os
import shlex
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from typing import IO, Any

import click

from makeway.adapters.simulator.faults import PROFILES, Faults
from makeway.adapters.simulator.reports import story
from makeway.adapters.simulator.reports.comparison import compare
from makeway.adapters.simulator.reports.measures import Measures, measure
from makeway.adapters.simulator.reports.page import page
from makeway.adapters.simulator.reports.report import comparison_data, comparison_lines, data, lines
from makeway.adapters.simulator.reports.words import span
from makeway.adapters.simulator.simulation import Simulation, SimulationSettings
from makeway.adapters.simulator.sources.arrivals import Source, SourceError, arrivals_in, beside, open_source
from makeway.adapters.simulator.sources.arrivals import read_arrivals as read_manifests
from makeway.adapters.simulator.sources.generator import read_generator
from makeway.adapters.simulator.sources.swf import read_swf
from makeway.adapters.simulator.sources.traces import read_openb, read_philly
from makeway.adapters.simulator.turns import GoesRound, Turns, job_of
from makeway.api.objects.configuration import Configuration
from makeway.api.objects.workload import Workload
from makeway.api.problems import has_errors
from makeway.api.quantity import Duration
from makeway.api.reading.manifests import Finding, Manifest
from makeway.cli.offline.files import STDIN, STDIN_NAME, gather
from makeway.cli.terminal.screen import WIDTH_MIN, echo, is_terminal, plain, plural, print_finding
from makeway.controllers.jobs.workloads import prepared
from makeway.core.lowering import policy_of
from makeway.core.model import Millis
from makeway.core.policy import Policy
from makeway.runtime.journal import DecisionJournal
from makeway.runtime.recount.recount import recount

FORMATS = ("philly", "openb", "swf")
PROGRESS_AFTER_SECONDS = 1.0
PROGRESS_EVERY_SECONDS = 0.2
FIGURES_MS = 3_600_000  # of virtual time: no user reads the status of a queue in between
FAULTS_END = 0.8  # of the time until the last arrival: after this the faults must heal
FAULTS_MS_MIN = 3_600_000  # the least value of that time
NOTES_MAX = 5  # of one type
PART = ".part"
WORK = ("Job", "Workload")


class _MillisParam(click.ParamType):  # type: ignore[type-arg]
    """A duration such as 90s, 4h or 1h30m, in milliseconds."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        try:
            nanos = Duration.parse(value).nanos
            if nanos < 0:
                raise ValueError(f"{value} is negative")
        except ValueError as error:
            self.fail(f"{error}\n\nhint: for example 90s, 4h or 1h30m", param, ctx)
        return -(-nanos // 1_000_000)


@dataclass(frozen=True, slots=True)
class SimulateOptions:
    """The options of the command line."""

    paths: tuple[str, ...]
    recursive: bool
    generator: str | None
    trace: str | None
    arrivals: str | None
    until_ms: int | None
    eviction_ms: int
    seed: int
    faults: str
    config: str | None
    against: str | None
    report: str | None
    journal: str | None

    def files(self) -> Iterator[str]:
        """The input files that are named."""
        traced = "" if self.trace is None else self.trace.partition(":")[2]
        named = (*self.paths, self.generator, self.arrivals, self.config, self.against, *traced.split(","))
        yield from (each for each in named if each)


@click.command()
@click.option("-f", "--filename", "paths", multiple=True, metavar="PATH", help="Manifests: a file, a folder, or -.")
@click.option("-R", "--recursive", is_flag=True, help="Look into folders below a folder too.")
@click.option("--generator", metavar="FILE", help="Arrivals by recipe: cohorts, queues, workloads.")
@click.option("--trace", metavar="FORMAT:FILE", help=f"Arrivals of a trace: {', '.join(FORMATS)}.")
@click.option("--arrivals", metavar="FILE", help="Jobs and Workloads that come at their creationTimestamp.")
@click.option(
    "--until", "until_ms", type=_MillisParam(), help="End after so much time.  [default: when nothing is left to do]"
)
@click.option(
    "--eviction", "eviction_ms", type=_MillisParam(), default=0, help="How long it takes to stop.  [default: 0s]"
)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Of priorities, names and faults.")
@click.option("--faults", type=click.Choice(list(PROFILES)), default="none", show_default=True, help="What goes wrong.")
@click.option("--config", metavar="FILE", help="A Configuration.")
@click.option("--against", metavar="PATH|CONFIG", help="Run again with these manifests or this Configuration.")
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.option("--per-workload", is_flag=True, help="With -o json: every workload too.")
@click.option("--report", metavar="OUT.html", help="Write a page with charts.")
@click.option("--journal", metavar="OUT.jsonl", help="Write every decision with its reasons.")
def simulate(output: str, per_workload: bool, **options: Any) -> None:
    """Run the real controllers in virtual time and report what came of it.

    Needs at least one source of work: manifests with Jobs or Workloads, a generator, a trace, or arrivals. Jobs end
    after the run time of their annotation makeway.dev/runtime. Exits with 1 if the input has errors, or if a promise
    was broken.
    """
    asked = SimulateOptions(**options)
    _check_usage(asked, per_workload, output)
    with ExitStack() as files:
        scenes, sink, shown = _prepared(asked, files)
        ran = [_run(asked, each, sink if i == 0 else None) for i, each in enumerate(scenes)]
        this, other = ran[0], ran[1] if len(ran) > 1 else None
        if shown is not None:
            compared = None if other is None else compare(this.measured, other.measured)
            shown.write(page(this.measured, compared, warnings=_warnings(this, other)).encode())
    for scene, each in zip(scenes, ran, strict=True):
        for note in (*scene.notes, *each.notes):
            echo(f"note: {plain(scene.prefix + note)}", err=True)
    _tell(this, other, output, per_workload)
    broken = [scene.prefix + each for scene, one in zip(scenes, ran, strict=True) for each in one.broken]
    for told in broken:
        echo(f"{click.style('error', fg='red', bold=True)}: a promise was broken: {plain(told)}", err=True)
    if broken:
        echo(f"  hint: this is a fault of makeway; to see it again: {_again(asked)}", err=True)
        raise click.exceptions.Exit(1)


def _check_usage(asked: SimulateOptions, per_workload: bool, output: str) -> None:
    sources = [name for name in ("generator", "trace", "arrivals") if getattr(asked, name) is not None]
    if not asked.paths and not sources:
        raise click.UsageError(
            "there is nothing to simulate\n\nhint: `makeway simulate -f FOLDER`, or --generator, --trace, --arrivals"
        )
    if len(sources) > 1:
        raise click.UsageError(f"--{sources[0]} and --{sources[1]} exclude each other\n\nhint: give one source")
    if (*asked.paths, asked.config, asked.against).count(STDIN) > 1:
        raise click.UsageError("stdin can be read once only\n\nhint: give `-` once")
    if asked.trace is not None:
        form, _, path = asked.trace.partition(":")
        if form not in FORMATS or not path:
            wrong = "format" if form not in FORMATS else "file"
            raise click.UsageError(
                f"`{asked.trace}` names no {wrong}\n\nhint: --trace FORMAT:FILE, where FORMAT is {', '.join(FORMATS)}"
            )
    if per_workload and output != "json":
        raise click.UsageError("--per-workload needs `-o json`\n\nhint: text shows queues and priorities only")
    _check_outputs(asked)


def _check_outputs(asked: SimulateOptions) -> None:
    taken = {os.path.realpath(each): "is read, too" for each in asked.files()}
    for option, path in (("--report", asked.report), ("--journal", asked.journal)):
        if path is None:
            continue
        if path == STDIN:
            raise click.UsageError(f"{option} cannot go to stdout: the result goes there\n\nhint: name a file")
        place = os.path.realpath(path)
        if place in taken:
            raise click.UsageError(f"{option} {path} {taken[place]}\n\nhint: name another file")
        taken[place] = "is the report already"


# --- files that are written -------------------------------------------------------------------------------------------


@contextmanager
def _whole(path: str) -> Iterator[IO[bytes]]:
    """Open a file that appears when it is complete. Until then it has another name, and an older file stays.

    If makeway itself fails, the part that was written is kept: it may show why.
    """
    place = os.path.realpath(path)
    if os.path.exists(place) and not os.path.isfile(place):  # a pipe or a device
        with open(place, "wb") as file:
            yield file
        return
    part = place + PART
    try:
        with open(part, "wb") as file:
            yield file
        os.replace(part, place)
    except (OSError, KeyboardInterrupt, click.exceptions.Exit, click.ClickException):
        with suppress(OSError):
            os.unlink(part)
        raise


def _opened(files: ExitStack, path: str | None, found: list[Finding]) -> IO[bytes] | None:
    """Open the output files before the run: a missing folder must not be noticed minutes later."""
    if path is None:
        return None
    try:
        return files.enter_context(_whole(path))
    except OSError as error:
        missing = isinstance(error, FileNotFoundError)
        hint = f"`mkdir -p {shlex.quote(os.path.dirname(path))}` makes its folder" if missing else "name another file"
        found.append(_about(path, f"cannot be written: {(error.strerror or str(error)).lower()}", hint))
        return None


# --- reading ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Scene:
    """The input of a run."""

    policy: Policy
    source: Source
    notes: tuple[str, ...] = ()
    prefix: str = ""  # of messages about it


def _about(file: str, message: str, hint: str, line: int | None = None) -> Finding:
    return Finding(file, line, None, "", "", "", "error", message, hint)


def _prepared(asked: SimulateOptions, files: ExitStack) -> tuple[list[_Scene], IO[bytes] | None, IO[bytes] | None]:
    """Open all input and output; with any error the program ends."""
    found: list[Finding] = []
    warnings: list[Finding] = []
    settings, manifests = _gathered(asked, found, warnings)
    policy = _policy(settings, asked.config, found)
    coming = _collected(found, lambda: _coming(asked))
    there = _collected(found, lambda: arrivals_in(_sound(manifests)))
    varied = None if asked.against is None else _varied(asked.against, manifests, policy, found)
    sink, shown = _opened(files, asked.journal, found), _opened(files, asked.report, found)
    if found:
        for finding in found:
            print_finding(finding, err=True)
        click.echo(f"nothing is simulated: {plural(len(found), 'error')}", err=True)
        raise click.exceptions.Exit(1)
    for finding in warnings:
        print_finding(replace(finding, hint=""), err=True)
    assert there is not None
    scenes = [_scene(manifests, there, coming, policy)]
    if varied is not None:
        other, its_policy = varied
        again = there if other is manifests else arrivals_in(_sound(other))
        scenes.append(replace(_scene(other, again, coming, its_policy), prefix="--against: "))
    return scenes, sink, shown


def _collected(found: list[Finding], read: Callable[[], Source | None]) -> Source | None:
    try:
        return read()
    except SourceError as error:
        found.extend(error.findings)
        return None


def _gathered(
    asked: SimulateOptions, found: list[Finding], warnings: list[Finding]
) -> tuple[list[Manifest], list[Manifest]]:
    """Return the manifests of the configuration, and all others."""
    gathered = gather([*([] if asked.config is None else [asked.config]), *asked.paths], asked.recursive)
    for each in gathered.findings():
        (found if each.severity == "error" else warnings).append(each)
    file = STDIN_NAME if asked.config == STDIN else asked.config
    settings = [manifest for manifest in gathered.manifests if manifest.file == file]
    return settings, [manifest for manifest in gathered.manifests if manifest.file != file]


def _policy(settings: Sequence[Manifest], config: str | None, found: list[Finding]) -> Policy:
    if config is None or any(each.file in (config, STDIN_NAME) for each in found):
        return Policy.default()
    value = settings[0].value if len(settings) == 1 else None
    if not isinstance(value, Configuration):
        hint = "it must hold one object of kind Configuration and nothing else"
        found.append(_about(config, "is not a Configuration", hint))
        return Policy.default()
    return policy_of(value)


def _varied(against: str, own: list[Manifest], policy: Policy, found: list[Finding]) -> tuple[list[Manifest], Policy]:
    """Return the input of the other run: another Configuration, or manifests that replace those of the same kinds."""
    gathered = gather([against], recursive=False)
    errors = [each for each in gathered.findings() if each.severity == "error"]
    found.extend(errors)
    if not errors and not gathered.manifests:
        found.append(_about(against, "holds no objects", "name manifests, or a Configuration"))
    others = gathered.manifests
    if len(others) == 1 and isinstance(others[0].value, Configuration):
        return own, _policy(others, against, found)
    kinds = {_sort(each) for each in others}
    return [*(each for each in own if _sort(each) not in kinds), *others], policy


def _sort(manifest: Manifest) -> str:
    """Return the kind; Jobs and Workloads are one, because both are work."""
    return WORK[0] if manifest.kind_name in WORK else manifest.kind_name


def _sound(manifests: Sequence[Manifest]) -> list[Manifest]:
    return [
        manifest
        for manifest in manifests
        if not has_errors(manifest.problems) and manifest.kind_name != "Configuration"
    ]


def _scene(manifests: Sequence[Manifest], there: Source, coming: Source | None, policy: Policy) -> _Scene:
    """Combine the objects and arrivals; queues of manifests replace those that a source made up."""
    notes = list(_left_out(manifests, policy, there.begins_at))
    if coming is None:
        if not there.count and not any(each.kind in WORK for each in there.objects):  # type: ignore[attr-defined]
            raise click.ClickException(
                "the manifests hold no Job or Workload\n\nhint: add some, or give --generator, --trace or --arrivals"
            )
        return _Scene(policy, there, (*notes, *there.notes))
    own = {(each.kind, each.metadata.name) for each in there.objects}  # type: ignore[attr-defined]
    rest = tuple(each for each in coming.objects if (each.kind, each.metadata.name) not in own)  # type: ignore[attr-defined]
    arrivals = sorted([*there.arrivals, *coming.arrivals], key=lambda each: each.at) if there.count else coming.arrivals
    begins_at = min(there.begins_at, coming.begins_at) if there.count else coming.begins_at
    source = Source((*there.objects, *rest), arrivals, begins_at, there.count + coming.count)
    return _Scene(policy, source, (*notes, *there.notes, *coming.notes))


def _left_out(manifests: Sequence[Manifest], policy: Policy, now: Millis) -> Iterator[str]:
    """Yield the workloads of the manifests that are not measured, and why, in the words of ``makeway plan``."""
    if any(isinstance(manifest.value, Configuration) for manifest in manifests):
        yield "a Configuration among the manifests: only the file that --config names is used"
    left_out = prepared((each.value for each in _sound(manifests) if each.value is not None), policy, now).left_out
    yield from (f"{each.kind} {each.name}: {each.why}" for each in left_out[:NOTES_MAX])
    if len(left_out) > NOTES_MAX:
        yield f"and {len(left_out) - NOTES_MAX} more like that: `makeway plan` names them all"


def _coming(asked: SimulateOptions) -> Source | None:
    if asked.generator is not None:
        return read_generator(open_source(asked.generator))
    if asked.arrivals is not None:
        return read_manifests(open_source(asked.arrivals))
    if asked.trace is None:
        return None
    form, _, path = asked.trace.partition(":")
    if form != "openb":
        return (read_philly if form == "philly" else read_swf)(open_source(path), seed=asked.seed)
    pods, _, nodes = path.partition(",")
    return read_openb(open_source(pods), open_source(nodes or _nodes_of(pods)))


def _nodes_of(pods: str) -> str:
    """The node list beside a pod list: the beginning of their names is the same."""
    begins, pod, _ = os.path.basename(pods).partition("pod")
    return beside(pods, f"{begins}node" if pod else "node")


# --- running ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Ran:
    """The result of a run, and messages about it."""

    measured: Measures
    names: Mapping[str, str]  # Workload -> its Job
    notes: tuple[str, ...]
    warnings: tuple[str, ...]  # part of the result
    broken: tuple[str, ...]  # broken promises


def _run(asked: SimulateOptions, scene: _Scene, sink: IO[bytes] | None) -> _Ran:
    source = scene.source
    faults = None if asked.faults == "none" else Faults.of_profile(asked.seed, asked.faults)
    settings = SimulationSettings(
        scene.policy, asked.eviction_ms, seed=asked.seed, faults=faults, figures_ms=FIGURES_MS
    )
    journal = DecisionJournal(scene.policy, sink=getattr(sink, "write", None))
    progress = _Progress(source.count, source.begins_at)
    until = None if asked.until_ms is None else Millis(source.begins_at + asked.until_ms)
    for_a_long_run()
    began = time.process_time()

    def watching(now: Millis) -> None:
        progress.show(simulation)
        if simulation.witness is not None:
            simulation.witness.look()  # before the store forgets revisions it has not seen
        if until is None:
            rounds.look(now)

    simulation = Simulation(settings, source, journal=journal, witness=faults is not None, watching=watching)
    rounds = Turns(simulation)
    if faults is not None:
        faults.until = faults_end(source, until)
    goes_round = False
    try:
        simulation.run(until)
    except GoesRound:
        goes_round = True
    finally:
        progress.clear()
    run = simulation.recorded(cpu_seconds=time.process_time() - began)
    fired = {name: run.faults_fired.get(name, 0) for name in PROFILES[asked.faults]}  # only the points of the profile
    notes, broken = tuple(_notes(simulation, goes_round)), tuple(_broken(simulation))
    measured, warnings = measure(replace(run, faults_fired=fired)), tuple(simulation.warnings())
    return _Ran(measured, _names(simulation), notes, warnings, broken)


def for_a_long_run() -> None:
    """Exclude present objects from garbage collection: they stay until the end."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 20, 100)


def faults_end(source: Source, until: Millis | None) -> Millis:
    """The end of faults: early enough to heal, late enough that faults can happen even if all work arrives at once."""
    last = max((arrival.at for arrival in source.arrivals), default=source.begins_at)
    ends_at = max(last, source.begins_at + FAULTS_MS_MIN) if until is None else until
    return Millis(int(source.begins_at + FAULTS_END * (ends_at - source.begins_at)) + 1)


def _names(simulation: Simulation) -> dict[str, str]:
    metas = [each.metadata for each in simulation.store_objects() if isinstance(each, Workload)]
    return {f"{meta.namespace}/{meta.name}": f"{meta.namespace}/{job}" for meta in metas if (job := job_of(meta))}


def _notes(simulation: Simulation, goes_round: bool) -> Iterator[str]:
    refused = simulation.arriving.refused
    if refused:
        yield f"{plural(len(refused), 'arrival')} could not be created; the first: {refused[0][1]}"
    if goes_round:
        yield "ended: workloads only take turns, and nobody will ever be done; `--until DURATION` would go on"


def _broken(simulation: Simulation) -> Iterator[str]:
    """The broken promises. Those about rest are checked at rest only, because a run may be cut in the middle."""
    at_rest = all(actor.next_at() is None for actor in simulation.driver.actors)
    if simulation.witness is not None:
        for broken in simulation.broken() if at_rest else simulation.witness.broken:
            yield str(broken)
    if at_rest or simulation.witness is None:  # with faults an answer may still be outstanding
        for difference in recount(simulation.store_objects(), simulation.engine.engine.state):
            yield f"the books differ from the objects: {difference}"


# --- going round for ever ---------------------------------------------------------------------------------------------


class _Progress:
    """A progress line on the terminal."""

    def __init__(self, total: int, begins_at: Millis) -> None:
        self._total = total
        self._begins_at = begins_at
        self._due = time.monotonic() + PROGRESS_AFTER_SECONDS
        self._on = is_terminal(sys.stderr)
        self._shown = 0

    def show(self, simulation: Simulation) -> None:
        if not self._on or time.monotonic() < self._due:
            return
        self._due = time.monotonic() + PROGRESS_EVERY_SECONDS
        done, width = simulation.arriving.created, 20
        filled = width * min(done, self._total) // max(1, self._total)
        passed = span(simulation.clock.now - self._begins_at)
        text = f"[{'#' * filled}{'.' * (width - filled)}] {done} of {self._total} arrived in {passed}"
        text = text[: max(WIDTH_MIN, shutil.get_terminal_size().columns) - 1]
        click.echo(f"\r{text.ljust(self._shown)}", nl=False, err=True)
        self._shown = len(text)

    def clear(self) -> None:
        if self._shown:
            click.echo(f"\r{' ' * self._shown}\r", nl=False, err=True)


# --- telling ----------------------------------------------------------------------------------------------------------


def _warnings(ran: _Ran, other: _Ran | None) -> list[str]:
    """Warnings of both runs, for people; a common warning is printed once."""
    others = () if other is None else other.warnings
    return [*ran.warnings, *(f"--against: {each}" for each in others if each not in ran.warnings)]


def _tell(ran: _Ran, other: _Ran | None, output: str, per_workload: bool) -> None:
    measured = ran.measured
    if output == "json":
        found = data(measured, per_workload=per_workload, warnings=ran.warnings)
        if other is not None:
            found = comparison_data(
                measured, other.measured, compare(measured, other.measured), per_workload=per_workload,
                warnings=ran.warnings, warnings_against=other.warnings,
            )  # fmt: skip
        click.echo(json.dumps(found, indent=2))
        return
    width = max(WIDTH_MIN, shutil.get_terminal_size().columns) if is_terminal(sys.stdout) else None
    told = list(story.lines(measured.run, width, ran.names))
    if told:
        told = ["What happened", *told, ""]
    warnings = _warnings(ran, other)
    if other is None:
        told += lines(measured, width, warnings=warnings)
    else:
        compared = compare(measured, other.measured)
        told += comparison_lines(measured, other.measured, compared, width, warnings=warnings)
    for line in told:
        echo(line)


def _again(asked: SimulateOptions) -> str:
    """The command that repeats the run."""
    words = ["makeway", "simulate", *(word for path in asked.paths for word in ("-f", path))]
    words += ["-R"] * asked.recursive
    for name in ("generator", "trace", "arrivals", "config", "against"):
        if (value := getattr(asked, name)) is not None:
            words += [f"--{name}", value]
    for name, millis in (("until", asked.until_ms), ("eviction", asked.eviction_ms or None)):
        if millis is not None:
            words += [f"--{name}", span(millis, exact=True)]
    return shlex.join([*words, "--seed", str(asked.seed), "--faults", asked.faults])
