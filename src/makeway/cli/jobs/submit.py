"""``makeway submit``: a command as a Job, followed to its end as if it ran here."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from typing import Any

import click

from makeway.adapters.kubernetes.client import Client
from makeway.adapters.kubernetes.resources import resource_of
from makeway.adapters.kubernetes.transport import Object
from makeway.api.forms import is_subdomain
from makeway.api.names import MAX_EXEC_TIME_LABEL, PRIORITY_CLASS_LABEL, QUEUE_LABEL
from makeway.api.objects.queueing import LocalQueue
from makeway.api.quantity import Duration, Quantity
from makeway.api.versions import kind_of
from makeway.cli.clients.connection import Connection, connected, server_options
from makeway.cli.clients.following import JOBS, JobFollower
from makeway.cli.completion import complete_names_of
from makeway.cli.objects.resources import namespace_option
from makeway.cli.terminal.screen import echo, is_terminal, plain
from makeway.runtime.ports import NotFound

LOCAL_QUEUES = resource_of(kind_of(LocalQueue))
DEFAULT_QUEUE = "default"
IMAGE = "local"  # nothing is pulled
INTERRUPTED = 130
KEPT_SECONDS = 7 * 86_400  # for an ended job and its log
_WORD = re.compile(r"[^a-z0-9]+")
_NAME_MAX = 40
_INTERPRETER = re.compile(r"(python|bash|sh|ruby|perl|node|julia|Rscript|env|nice|time)[0-9.]*")


class _Amount(click.ParamType):  # type: ignore[type-arg]
    """A positive quantity in Kubernetes notation."""

    name = "AMOUNT"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        try:
            amount = Quantity.parse(str(value))
        except ValueError as error:
            self.fail(f"{value!r} is no amount: {error}", param, ctx)
        if amount.nano <= 0:
            self.fail(f"{value!r} is not above zero", param, ctx)
        return str(value)


class _SecondsParam(click.ParamType):  # type: ignore[type-arg]
    name = "DURATION"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Whole seconds, at least one."""
        try:
            span = Duration.parse(str(value))
        except ValueError as error:
            self.fail(f"{value!r} is no duration such as 90m or 1h30m: {error}", param, ctx)
        seconds = -(-span.millis // 1000)
        if not 0 < seconds < 2**31:
            self.fail(f"{value!r} is not between a second and 68 years", param, ctx)
        return seconds


@click.command(context_settings={"ignore_unknown_options": False})
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- COMMAND...")
@namespace_option
@click.option(
    "-q",
    "--queue",
    metavar="NAME",
    help="The LocalQueue; needed where there are several.",
    shell_complete=complete_names_of("localqueues"),
)
@click.option(
    "--priority",
    metavar="CLASS",
    help="A WorkloadPriorityClass.",
    shell_complete=complete_names_of("workloadpriorityclasses"),
)
@click.option("--cpu", type=_Amount(), default="1", show_default=True, help="Of each pod.")
@click.option("--memory", type=_Amount(), help="Of each pod, such as 2Gi.")
@click.option("--gpu", type=click.IntRange(min=1), help="GPUs of each pod.")
@click.option(
    "--parallelism",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="So many pods, each with a JOB_COMPLETION_INDEX of its own.",
)
@click.option("--name", metavar="NAME", help="Of the job; else one is made from the command.")
@click.option("--time", "seconds", type=_SecondsParam(), help="The most time that it may run, such as 90m.")
@click.option("--env", multiple=True, metavar="NAME[=VALUE]", help="A variable; without a value, the one it has here.")
@click.option("--workdir", metavar="DIR", help="Where it starts.  [default: this folder]")
@click.option("-d", "--detach", is_flag=True, help="Do not follow it; print its name.")
@server_options
def submit(
    command: tuple[str, ...], namespace: str | None, queue: str | None, priority: str | None, cpu: str,
    memory: str | None, gpu: int | None, parallelism: int, name: str | None, seconds: int | None,
    env: tuple[str, ...], workdir: str | None, detach: bool,
) -> None:  # fmt: skip
    """Run a command as a job: it waits in its queue, runs, and is followed to its end.

    What it prints comes out here, and its exit code is that of this command. A job that has to make way for another
    one waits and starts again, and is followed on. Ctrl-C asks whether to cancel it, or to let it go on alone.
    """
    with connected() as connection:
        where = namespace or connection.namespace
        tree = job_tree(
            command, namespace=where, queue=queue or _only_queue(connection, where), priority=priority or "",
            amounts=_amounts(cpu, memory, gpu), parallelism=parallelism, name=_checked_name(name),
            seconds=seconds, env=_variables(env), folder=os.path.abspath(workdir or os.getcwd()),
        )  # fmt: skip
        created = connection.client.create(JOBS, where, tree).tree()
        made = str(created["metadata"]["name"])
        if detach:
            click.echo(made)
            return
        told = f"submitted job {plain(made)} to queue {plain(created['metadata']['labels'][QUEUE_LABEL])}"
        echo(click.style(told, dim=True), err=True)
        code = _followed(connection.client, where, made, many=parallelism > 1)
    raise click.exceptions.Exit(code)


# --- the Job ---------------------------------------------------------------------------------------------------------


def job_tree(
    command: Sequence[str], *, namespace: str, queue: str, priority: str = "", amounts: dict[str, str],
    parallelism: int = 1, name: str = "", seconds: int | None = None, env: dict[str, str] | None = None,
    folder: str = "",
) -> Object:  # fmt: skip
    """A Job without retries: the user who submitted it sees its exit code and decides."""
    labels = {QUEUE_LABEL: queue}
    if priority:
        labels[PRIORITY_CLASS_LABEL] = priority
    if seconds is not None:
        labels[MAX_EXEC_TIME_LABEL] = str(seconds)
    named = {"name": name} if name else {"generateName": f"{made_name(command)}-"}
    gpus = {key: value for key, value in amounts.items() if "/" in key}
    container = {
        "name": "main", "image": IMAGE, "command": [_escaped(word) for word in command], "workingDir": folder,
        "env": [{"name": key, "value": _escaped(value)} for key, value in (env or {}).items()],
        "resources": {"requests": amounts, **({"limits": gpus} if gpus else {})},
    }  # fmt: skip
    several = {"completions": parallelism, "completionMode": "Indexed"} if parallelism > 1 else {}
    return {
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {**named, "namespace": namespace, "labels": labels},
        "spec": {
            "parallelism": parallelism, **several, "backoffLimit": 0, "ttlSecondsAfterFinished": KEPT_SECONDS,
            "template": {"spec": {"restartPolicy": "Never", "containers": [container]}},
        },
    }  # fmt: skip


def made_name(command: Sequence[str]) -> str:
    """Return a name from the words of a command: the program, or the script that an interpreter runs."""
    words = [os.path.basename(word) for word in command if not word.startswith("-")] or ["job"]
    runs_file = _INTERPRETER.fullmatch(words[0]) and len(words) > 1 and not {"-c", "-e"} & set(command[1:2])
    chosen = words[1] if runs_file else words[0]
    cleaned = _WORD.sub("-", os.path.splitext(chosen)[0].lower()).strip("-")[:_NAME_MAX].strip("-")
    return cleaned or "job"


def _escaped(word: str) -> str:
    """Escape ``$(X)``, which the API would replace: the user's words are meant literally."""
    return word.replace("$(", "$$(")


def _amounts(cpu: str, memory: str | None, gpu: int | None) -> dict[str, str]:
    found = {"cpu": cpu}
    if memory:
        found["memory"] = memory
    if gpu:
        found["nvidia.com/gpu"] = str(gpu)
    return found


def _checked_name(name: str | None) -> str:
    if name is not None and (not is_subdomain(name) or len(name) > 63):
        hint = "lower-case letters, digits and dashes, at most 63"
        raise click.UsageError(f"--name: {name!r} is not a name of a job\n\nhint: {hint}")
    return name or ""


def _variables(given: Sequence[str]) -> dict[str, str]:
    found = {}
    for each in given:
        key, equals, value = each.partition("=")
        if not key or (not equals and key not in os.environ):
            wrong = "has no name" if not key else "is not set here"
            raise click.UsageError(f"--env: {each!r} {wrong}\n\nhint: NAME=VALUE, or the name of a variable of yours")
        found[key] = value if equals else os.environ[key]
    return found


def _only_queue(connection: Connection, namespace: str) -> str:
    """Return the queue if the user names none: the only one, or the one called default."""
    try:
        page = connection.client.list(LOCAL_QUEUES, namespace)
    except NotFound:
        page = {}
    names = sorted(str(each["metadata"]["name"]) for each in page.get("items") or ())
    if len(names) == 1 or DEFAULT_QUEUE in names:
        return names[0] if len(names) == 1 else DEFAULT_QUEUE
    if not names:
        hint = "`makeway apply -f examples/first-queue` makes one; `-n` names another namespace"
        raise click.ClickException(f"namespace {plain(namespace)} has no LocalQueue\n\nhint: {hint}")
    hint = f"name one with --queue: {', '.join(names)}"
    raise click.UsageError(f"namespace {plain(namespace)} has several queues\n\nhint: {hint}")


# --- following -------------------------------------------------------------------------------------------------------


def _followed(client: Client, namespace: str, name: str, *, many: bool) -> int:
    follower = JobFollower(client, namespace, name, many=many)
    try:
        while True:
            try:
                end = follower.follow()
                echo(click.style(f"{name}: {plain(end.words)}", dim=True), err=True)
                return end.code
            except KeyboardInterrupt:
                code = _asked(client, namespace, name)
                if code is not None:
                    return code
    finally:
        follower.close()


def _asked(client: Client, namespace: str, name: str) -> int | None:
    """Ask what to do after Ctrl-C; None: follow it on."""
    echo("", err=True)
    answer = "d"
    if is_terminal(sys.stdin) and is_terminal(sys.stderr):
        try:
            answer = click.prompt(
                f"{name}: cancel it, detach and let it go on, or follow on?", err=True, default="d",
                type=click.Choice(["c", "d", "f"]),
            )  # fmt: skip
        except (click.Abort, EOFError):  # Ctrl-C again
            answer = "d"
    if answer == "f":
        return None
    if answer == "c":
        client.delete(JOBS, namespace, name, {"propagationPolicy": "Background"})
        echo(f"cancelled job {plain(name)}", err=True)
        return INTERRUPTED
    echo(f"job {plain(name)} goes on; `makeway logs -f {name}` follows it, `makeway cancel {name}` ends it", err=True)
    return INTERRUPTED
