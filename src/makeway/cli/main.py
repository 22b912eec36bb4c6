"""The root command: how commands are found, errors and exit codes.

0 success, 1 problems were found, 2 wrong usage, 70 an error in makeway itself, 74 the output cannot be written, 130
interrupted, 141 the reader of the output closed it. Commands are imported when they are called, so that ``makeway
--help`` stays fast.
"""

from __future__ import annotations

import errno
import importlib
import os
import sys

import click

from makeway import __version__
from makeway.cli.listing import GROUPS, listed

INTERNAL_ERROR = 70
OUTPUT_ERROR = 74
INTERRUPTED = 130
PIPE_CLOSED = 141  # a shell's code for a program that SIGPIPE ended
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
DEBUG = "MAKEWAY_DEBUG"


COMMANDS = listed()


class Program(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        place = COMMANDS.get(cmd_name)
        if place is None:
            return None
        command: click.Command = getattr(importlib.import_module(place.module), cmd_name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name not in COMMANDS and not name.startswith("-"):
            raise click.UsageError(f"no such command `{name}`\n\nhint: {_nearest(name)}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for group in GROUPS:
            with formatter.section(group):
                formatter.write_dl([(name, place.summary) for name, place in COMMANDS.items() if place.group == group])

    def invoke(self, ctx: click.Context) -> object:
        """Run a command; any error ends in one line for people and one number for scripts."""
        for stream in (sys.stdout, sys.stderr):
            if hasattr(stream, "reconfigure"):  # file names and values of users may not fit the encoding
                stream.reconfigure(errors="backslashreplace")
        try:
            result: object = super().invoke(ctx)
            if sys.stdout is not None:
                sys.stdout.flush()
        except (click.ClickException, click.Abort, click.exceptions.Exit):
            raise
        except (Exception, KeyboardInterrupt) as error:
            ctx.exit(_told(error))
        return result


def _nearest(name: str) -> str:
    import difflib

    close = difflib.get_close_matches(name, list(COMMANDS), n=1)
    return f"did you mean `{close[0]}`?" if close else f"the commands are {', '.join(sorted(COMMANDS))}"


def _forget_stdout() -> None:
    """Drop buffered output, which would fail a second time when the interpreter ends: its reader is gone."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.__stdout__.fileno() if sys.__stdout__ else 1)


def _told(error: BaseException) -> int:
    """Print the error, unless it needs no message; return the exit code."""
    if isinstance(error, KeyboardInterrupt):
        click.echo("", err=True)  # after the ^C of the terminal
        return INTERRUPTED
    if isinstance(error, BrokenPipeError):
        _forget_stdout()
        return PIPE_CLOSED
    if isinstance(error, OSError) and error.errno in NO_ROOM:
        _forget_stdout()
        click.echo(f"makeway: the output cannot be written: {error.strerror}", err=True)
        return OUTPUT_ERROR
    if os.environ.get(DEBUG):
        raise error
    text = " ".join(f"{type(error).__name__}: {error}".split())
    click.echo(f"makeway: internal error: {text}", err=True)
    click.echo(f"hint: this is a fault of makeway; run it again with {DEBUG}=1 and report what it prints", err=True)
    return INTERNAL_ERROR


@click.group(cls=Program, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="makeway %(version)s")
def main() -> None:
    """Decides which workloads run now, which wait, and which must make way."""
