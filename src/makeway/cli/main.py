"""The root command: which commands there are, how errors show, and what the exit code says.

0 all is well, 1 problems were found, 2 wrong usage, 70 a fault of makeway itself, 74 the output cannot be written,
130 interrupted, 141 the reader of the output went away. Commands are imported when they are called, so that
``makeway --help`` stays quick.
"""

from __future__ import annotations

import errno
import importlib
import os
import sys
from typing import NamedTuple

import click

from makeway import __version__

INTERNAL_ERROR = 70
OUTPUT_ERROR = 74
INTERRUPTED = 130
PIPE_CLOSED = 141  # what a shell reports for a program that SIGPIPE ended
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
DEBUG = "MAKEWAY_DEBUG"


class CommandPlace(NamedTuple):
    """Where a command lives, and its line in the help: to print that, nothing is imported."""

    module: str
    summary: str


COMMANDS = {
    "apply": CommandPlace(
        "makeway.cli.objects.apply", "Create and change objects on a server, so that they are as the files say."
    ),
    "bench": CommandPlace("makeway.bench.command", "Measure how fast this machine is at a task."),
    "cancel": CommandPlace("makeway.cli.jobs.job_commands", "End jobs, whether they wait or run, and forget them."),
    "completion": CommandPlace(
        "makeway.cli.completion", "Print the script that completes makeway's commands in a shell."
    ),
    "crds": CommandPlace("makeway.cli.offline.manifests", "Print the CustomResourceDefinitions of the queueing kinds."),
    "down": CommandPlace(
        "makeway.cli.server.serve", "End the server of this machine; it comes back as it was with `makeway up`."
    ),
    "delete": CommandPlace(
        "makeway.cli.objects.resources", "Delete objects of a server: some by name, or what a file has."
    ),
    "demo": CommandPlace(
        "makeway.cli.server.demo",
        "Show an example at work: its jobs queue, run and make way as real processes on this machine.",
    ),
    "describe": CommandPlace(
        "makeway.cli.objects.describe", "Show all about some objects: what they want, how they are, what happened."
    ),
    "events": CommandPlace("makeway.cli.objects.events", "Show what happened, newest last."),
    "get": CommandPlace("makeway.cli.objects.resources", "Show objects of a server: those of a kind, or some by name."),
    "kubeconfig": CommandPlace(
        "makeway.cli.server.credentials",
        "Print a kubeconfig for kubectl and other clients, with the server's own authority in it.",
    ),
    "logs": CommandPlace("makeway.cli.jobs.job_commands", "Show what a job or a pod has printed."),
    "place": CommandPlace("makeway.cli.offline.place", "Say where pods go on nodes, who must make way, and why."),
    "plan": CommandPlace(
        "makeway.cli.offline.plan", "Say what would be admitted, preempted and left waiting, and why."
    ),
    "queues": CommandPlace("makeway.cli.jobs.queues", "Show quota, its use, and who waits, cohort by cohort."),
    "simulate": CommandPlace(
        "makeway.cli.offline.simulate", "Run the real controllers in virtual time and report what came of it."
    ),
    "status": CommandPlace("makeway.cli.server.serve", "Say whether the server runs, where, and what it has."),
    "submit": CommandPlace(
        "makeway.cli.jobs.submit", "Run a command as a job: it waits in its queue, runs, and is followed to its end."
    ),
    "token": CommandPlace(
        "makeway.cli.server.credentials", "Make, list and revoke the tokens by which clients are known."
    ),
    "up": CommandPlace("makeway.cli.server.serve", "Serve the API on this machine, decide, and run pods as processes."),
    "validate": CommandPlace("makeway.cli.offline.manifests", "Check manifests: each by itself, then all together."),
    "wait": CommandPlace("makeway.cli.jobs.job_commands", "Wait until jobs have ended."),
    "version": CommandPlace("makeway.cli.version", "Print the version of makeway and of the server."),
}


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
        with formatter.section("Commands"):
            formatter.write_dl([(name, COMMANDS[name].summary) for name in self.list_commands(ctx)])

    def invoke(self, ctx: click.Context) -> object:
        """Run a command; whatever goes wrong ends in one line for people and one number for scripts."""
        for stream in (sys.stdout, sys.stderr):
            if hasattr(stream, "reconfigure"):  # names of files and values of users may not fit the encoding
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
    """Nobody reads on: what is still buffered must not fail a second time when the interpreter ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.__stdout__.fileno() if sys.__stdout__ else 1)


def _told(error: BaseException) -> int:
    """Say what happened, if anybody must know; the exit code."""
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
