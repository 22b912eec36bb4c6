"""``makeway validate`` and ``makeway crds``: what users write, checked; what a cluster must know, printed.

The findings of ``validate`` are data and go to stdout; how many there are is told on stderr. A file that cannot be
read is one more finding, and the other files are checked all the same.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import stat
import sys
import textwrap
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import TextIO

import click

from makeway.api.manifests import Finding, Manifest, check_together, findings, stream
from makeway.api.structure import did_you_mean

SUFFIXES = (".yaml", ".yml", ".json")
STDIN = "-"
STDIN_NAME = "<stdin>"
FILE_BYTES_MAX = 256 * 1024 * 1024
PROGRESS_AFTER_SECONDS = 1.0
PROGRESS_EVERY_SECONDS = 0.1
WIDTH_MIN = 40
COLOURS = {"error": "red", "warning": "yellow"}


@click.command()
@click.option("-f", "--filename", "named", multiple=True, metavar="PATH", help="File, folder, or - for stdin.")
@click.argument("more", nargs=-1, metavar="[PATH]...")
@click.option("-R", "--recursive", is_flag=True, help="Look into folders below a folder too.")
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
def validate(named: tuple[str, ...], more: tuple[str, ...], recursive: bool, output: str) -> None:
    """Check manifests: each by itself, then all together.

    Of a folder its *.yaml, *.yml and *.json files are read. Exits with 1 if there are errors; warnings alone do not
    count.
    """
    if not named:
        example = f"makeway validate -f {more[0] if more else 'PATH'}"
        raise click.UsageError(f"no file is named\n\nhint: `{example}`; `-f -` reads stdin")
    paths = (*named, *more)
    if paths.count(STDIN) > 1:
        raise click.UsageError("stdin can be read once only\n\nhint: give `-f -` once")
    report = _check(paths, recursive)
    if output == "json":
        click.echo(json.dumps([asdict(finding) for finding in report.findings], indent=2))
    else:
        for finding in report.findings:
            _print(finding)
        click.echo(report.summary(), err=True)
    if report.count("error"):
        raise click.exceptions.Exit(1)


@click.command()
@click.option("-o", "--output", type=click.Choice(["yaml", "json"]), default="yaml", show_default=True)
def crds(output: str) -> None:
    """Print the CustomResourceDefinitions of the queueing kinds."""
    from makeway.api.schema import crds as definitions

    if output == "json":
        click.echo(json.dumps({"apiVersion": "v1", "kind": "List", "items": definitions()}, indent=2))
        return
    import yaml

    class Dumper(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc]
        def ignore_aliases(self, data: object) -> bool:
            return True  # what two definitions share is written out in both

    click.echo(yaml.dump_all(definitions(), Dumper=Dumper, sort_keys=False, allow_unicode=True), nl=False)


# --- checking -------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Report:
    findings: list[Finding] = field(default_factory=list)
    documents: int = 0
    files: int = 0

    def count(self, severity: str) -> int:
        return sum(finding.severity == severity for finding in self.findings)

    def summary(self) -> str:
        counted = [(self.count("error"), "error"), (self.count("warning"), "warning")]
        told = ", ".join(_plural(count, noun) for count, noun in counted if count)
        return f"{_plural(self.documents, 'document')} in {_plural(self.files, 'file')}: {told or 'no problems'}"


def _plural(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _check(paths: Sequence[str], recursive: bool) -> Report:
    report = Report()
    progress = Progress()
    manifests: list[Manifest] = []
    about_files: list[Finding] = []
    order: dict[str, int] = {}
    for source in _sources(paths, recursive):
        if isinstance(source, Finding):
            order.setdefault(source.file, len(order))
            about_files.append(source)
            continue
        order.setdefault(source, len(order))
        data = _read(source)
        if isinstance(data, Finding):
            about_files.append(data)
            continue
        report.files += 1
        before = len(manifests)
        for manifest in stream(source, data):
            manifests.append(manifest)
            progress.show(len(manifests))
        report.documents += len({manifest.document for manifest in manifests[before:]})
        if len(manifests) == before:
            about_files.append(_about(source, "holds no objects", "", severity="warning"))
    check_together(manifests)
    report.findings = sorted([*about_files, *findings(manifests)], key=lambda found: order[found.file])
    progress.clear()
    return report


def _about(file: str, message: str, hint: str, *, severity: str = "error") -> Finding:
    """A finding about a file as a whole."""
    return Finding(file, None, None, "", "", "", "warning" if severity == "warning" else "error", message, hint)


# --- files ----------------------------------------------------------------------------------------------------------


def _sources(paths: Sequence[str], recursive: bool) -> Iterator[str | Finding]:
    """The files behind the paths, each once, and findings in the place of those that lead nowhere."""
    seen: set[str] = set()
    for path in paths:
        for source in [STDIN_NAME] if path == STDIN else _files(path, recursive):
            real = source if isinstance(source, Finding) or path == STDIN else os.path.realpath(source)
            if isinstance(real, Finding) or real not in seen:
                yield source
            if isinstance(real, str):
                seen.add(real)


def _files(path: str, recursive: bool) -> Iterator[str | Finding]:
    if not os.path.isdir(path):
        yield path
        return
    found = has_folders = False
    folders = [path]
    while folders:
        folder = folders.pop()
        try:
            names = sorted(os.listdir(folder))
        except OSError as error:
            found = True
            yield _unreadable(folder, error)
            continue
        below = [os.path.join(folder, name) for name in names]
        inner = dict.fromkeys(each for each in below if os.path.isdir(each))
        has_folders |= bool(inner)
        for each in below:
            if each.endswith(SUFFIXES) and each not in inner:
                found = True
                yield each
        if recursive:  # a link may lead back up
            folders.extend(each for each in reversed(inner) if not os.path.islink(each))
    if not found:
        hint = "`-R` looks into the folders below it" if has_folders and not recursive else "name a file"
        yield _about(path, f"no file in this folder ends in {', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]}", hint)


def _read(path: str) -> bytes | Finding:
    try:
        if path == STDIN_NAME:
            if sys.stdin is None:
                return _about(path, "is closed", "pipe the manifests in, or name a file")
            data = sys.stdin.buffer.read(FILE_BYTES_MAX + 1)
        else:
            status = os.stat(path)
            if refused := _refused(path, status):
                return refused
            with open(path, "rb") as file:
                data = file.read(FILE_BYTES_MAX + 1)
    except (OSError, ValueError) as error:  # ValueError: a path with a NUL
        return _unreadable(path, error)
    if len(data) > FILE_BYTES_MAX:
        return _too_large(path)
    return data


def _refused(path: str, status: os.stat_result) -> Finding | None:
    mode = status.st_mode
    if stat.S_ISREG(mode):
        return _too_large(path) if status.st_size > FILE_BYTES_MAX else None
    if stat.S_ISFIFO(mode) and path.startswith(("/dev/fd/", "/dev/stdin", "/proc/self/fd/")):
        return None  # the shell's <(command): somebody writes to it
    what = "a named pipe" if stat.S_ISFIFO(mode) else "a socket" if stat.S_ISSOCK(mode) else "a device"
    return _about(path, f"is {what}, not a file", "pipe the manifests in with `-f -`")


def _too_large(path: str) -> Finding:
    message = f"larger than the {FILE_BYTES_MAX // 2**20} MiB that are read of one file"
    return _about(path, message, "split it into several files")


def _unreadable(path: str, error: OSError | ValueError) -> Finding:
    number = error.errno if isinstance(error, OSError) else None
    reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
    hint = {
        errno.ENOENT: _near_path(path),
        errno.EACCES: "check who may read it, for example with `ls -l`",
        errno.ELOOP: "the links lead back to each other; name the file itself",
    }.get(number or 0, "")
    return _about(path, f"cannot be read: {reason[:1].lower()}{reason[1:]}", hint)


def _near_path(path: str) -> str:
    if os.path.islink(path):
        return "it is a link to something that is not there"
    folder, name = os.path.split(path)
    try:
        near = did_you_mean(name, sorted(os.listdir(folder or os.curdir))[:1000])
    except OSError:
        near = ""
    return near or "check the path; a relative one begins at the current folder"


# --- printing -------------------------------------------------------------------------------------------------------


def _print(finding: Finding) -> None:
    where = finding.file if finding.line is None else f"{finding.file}:{finding.line}"
    subject = " ".join(part for part in (finding.kind, finding.name) if part)
    text = ": ".join(part for part in (subject, finding.path, finding.message) if part)
    severity = click.style(finding.severity, fg=COLOURS[finding.severity], bold=True)
    _echo(f"{click.style(_plain(where), bold=True)}: {severity}: {_plain(text)}")
    if finding.hint:
        for line in _wrapped(f"hint: {_plain(finding.hint)}"):
            _echo(f"  {line}")


def _is_terminal(stream: TextIO | None) -> bool:
    return stream is not None and stream.isatty()  # None: it was closed before we began


def _echo(text: str) -> None:
    """Colours go to terminals only, and not to those who asked for none."""
    wants_none = bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") == "dumb"
    click.echo(text, color=_is_terminal(sys.stdout) and not wants_none)


def _wrapped(text: str) -> list[str]:
    """A line for a pipe; as many as it takes for a terminal."""
    if not _is_terminal(sys.stdout):
        return [text]
    width = max(WIDTH_MIN, shutil.get_terminal_size().columns) - 2
    return textwrap.wrap(text, width, subsequent_indent=" " * len("hint: "), break_long_words=False)


def _plain(text: str) -> str:
    """Without control characters: what a file says must not steer the terminal."""
    return text if text.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


class Progress:
    """A line on the terminal while it takes long, gone when it is done."""

    def __init__(self) -> None:
        self._due = time.monotonic() + PROGRESS_AFTER_SECONDS
        self._shown = 0  # characters
        self._on = _is_terminal(sys.stderr)

    def show(self, count: int) -> None:
        if self._on and time.monotonic() >= self._due:
            text = f"checked {_plural(count, 'document')}…"
            click.echo(f"\r{text}", nl=False, err=True)
            self._shown = len(text)
            self._due = time.monotonic() + PROGRESS_EVERY_SECONDS

    def clear(self) -> None:
        if self._shown:
            click.echo(f"\r{' ' * self._shown}\r", nl=False, err=True)
            self._shown = 0
