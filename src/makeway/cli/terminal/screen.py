"""Output for people: findings in lines, colours for terminals only, a progress line during long work."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
import time
from typing import TextIO

import click

from makeway.api.reading.manifests import Finding

PROGRESS_AFTER_SECONDS = 1.0
PROGRESS_EVERY_SECONDS = 0.1
WIDTH_MIN = 40
COLOURS = {"error": "red", "warning": "yellow"}


def plural(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def print_finding(finding: Finding, *, err: bool = False) -> None:
    where = finding.file if finding.line is None else f"{finding.file}:{finding.line}"
    subject = " ".join(part for part in (finding.kind, finding.name) if part)
    text = ": ".join(part for part in (subject, finding.path, finding.message) if part)
    severity = click.style(finding.severity, fg=COLOURS[finding.severity], bold=True)
    echo(f"{click.style(plain(where), bold=True)}: {severity}: {plain(text)}", err=err)
    if finding.hint:
        for line in wrapped(f"hint: {plain(finding.hint)}", sys.stderr if err else sys.stdout):
            echo(f"  {line}", err=err)


def is_terminal(stream: TextIO | None) -> bool:
    return stream is not None and stream.isatty()  # None: it was closed before the start


def has_colours(stream: TextIO | None) -> bool:
    """Colours go to terminals only, unless the user turned them off."""
    wants_none = bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") == "dumb"
    return is_terminal(stream) and not wants_none


def echo(text: str, *, err: bool = False) -> None:
    click.echo(text, err=err, color=has_colours(sys.stderr if err else sys.stdout))


def wrapped(text: str, stream: TextIO | None) -> list[str]:
    """One line for a pipe; as many as needed for a terminal."""
    if not is_terminal(stream):
        return [text]
    width = max(WIDTH_MIN, shutil.get_terminal_size().columns) - 2
    return textwrap.wrap(text, width, subsequent_indent=" " * len("hint: "), break_long_words=False)


def plain(text: str) -> str:
    """A text without control characters: content of a file must not control the terminal."""
    return text if text.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


class ProgressLine:
    """A line on the terminal during long work, removed at the end."""

    def __init__(self) -> None:
        self._due = time.monotonic() + PROGRESS_AFTER_SECONDS
        self._shown = 0  # characters
        self._on = is_terminal(sys.stderr)

    def show(self, count: int) -> None:
        if self._on and time.monotonic() >= self._due:
            text = f"checked {plural(count, 'document')}…"
            click.echo(f"\r{text}", nl=False, err=True)
            self._shown = len(text)
            self._due = time.monotonic() + PROGRESS_EVERY_SECONDS

    def clear(self) -> None:
        if self._shown:
            click.echo(f"\r{' ' * self._shown}\r", nl=False, err=True)
            self._shown = 0
