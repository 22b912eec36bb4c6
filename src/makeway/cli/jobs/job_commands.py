"""``makeway logs``, ``cancel`` and ``wait``: what users do with jobs that they have submitted."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence

import click

from makeway.adapters.kubernetes.client import Client
from makeway.adapters.kubernetes.transport import Object
from makeway.api.quantity import Duration
from makeway.cli.clients.connection import Connection, connected, server_options
from makeway.cli.clients.following import JOBS, PODS, PodLog, ended, seen, to_stdout
from makeway.cli.completion import complete_names_of
from makeway.cli.objects.resources import namespace_option
from makeway.cli.terminal.screen import echo, plain
from makeway.runtime.ports import NotFound, Retryable, StoreError

LOOK_SECONDS = 0.25
GONE_SECONDS = 3600.0
TIMED_OUT = 124
job_names = click.argument("names", nargs=-1, required=True, metavar="JOB...", shell_complete=complete_names_of("jobs"))


def _plain_name(word: str) -> str:
    """``job/x`` becomes ``x``."""
    kind, slash, name = word.partition("/")
    if slash and kind.lower() not in ("job", "jobs", "job.batch", "jobs.batch"):
        raise click.UsageError(f"`{plain(word)}` is no job\n\nhint: name jobs, as `makeway get jobs` lists them")
    return name if slash else kind


# --- logs ------------------------------------------------------------------------------------------------------------


@click.command()
@click.argument("name", metavar="JOB|POD", shell_complete=complete_names_of("jobs"))
@namespace_option
@click.option("-f", "--follow", is_flag=True, help="Go on with what it prints, until it has ended.")
@click.option("-c", "--container", default="", metavar="NAME", help="Of several containers this one.")
@click.option("--tail", type=click.IntRange(min=0), metavar="LINES", help="The last lines only.")
@click.option("--since", metavar="DURATION", help="What it printed within this time, such as 10m.")
@click.option("--previous", is_flag=True, help="Of the start before the present one.")
@click.option("--timestamps", is_flag=True, help="When each line came.")
@server_options
def logs(
    name: str, namespace: str | None, follow: bool, container: str, tail: int | None, since: str | None,
    previous: bool, timestamps: bool,
) -> None:  # fmt: skip
    """Show what a job or a pod has printed. Of a job with several pods each line says whose it is."""
    query = {
        "follow": "true" if follow else "", "container": container, "previous": "true" if previous else "",
        "timestamps": "true" if timestamps else "", "tailLines": "" if tail is None else str(tail),
        "sinceSeconds": "" if since is None else str(_seconds(since, "--since")),
    }  # fmt: skip
    with connected() as connection:
        where = namespace or connection.namespace
        pods = _pods_of(connection, where, name)
        if len(pods) == 1:
            _show(connection.client, where, pods[0], query)
            return
        running = []
        for pod in pods:
            write = to_stdout(pod.removeprefix(f"{name}-"))
            running.append(PodLog(connection.client, where, pod, query, write).start())
        for each in running:
            while not each.is_done:
                time.sleep(LOOK_SECONDS)
        problems = [each.problem for each in running if each.problem is not None]
        if problems:
            raise problems[0]


def _seconds(text: str, option: str) -> int:
    try:
        millis = Duration.parse(text).millis
    except ValueError as error:
        raise click.UsageError(f"{option}: {text!r} is no duration such as 10m: {error}") from error
    if millis < 0:
        raise click.UsageError(f"{option}: {text!r} is negative")
    return max(1, millis // 1000)


def _show(client: Client, namespace: str, pod: str, query: dict[str, str]) -> None:
    out = sys.stdout.buffer
    for part in client.log(PODS, namespace, pod, query):
        out.write(part)
        out.flush()


def _pods_of(connection: Connection, namespace: str, word: str) -> list[str]:
    """Return the pods of a Job by name, oldest first; or the one pod of that name."""
    kind, slash, name = word.partition("/")
    client = connection.client
    if slash and kind.lower() in ("pod", "pods", "po"):
        return [name]
    job = _plain_name(word)
    found = seen(client, namespace, job)
    if found.job is None:
        client.get(PODS, namespace, job)  # raises if there is no such Job
        return [job]
    if not found.pods:
        hint = f"`makeway describe job {job}` says what it waits for"
        raise click.ClickException(f"job {plain(job)} has no pods yet\n\nhint: {hint}")
    pods = sorted(found.pods, key=lambda each: (str(each["metadata"].get("creationTimestamp")), _name(each)))
    count = int((found.job.get("spec") or {}).get("parallelism", 1))
    return [_name(each) for each in (pods if count > 1 else pods[-1:])]


def _name(tree: Object) -> str:
    return str(tree["metadata"]["name"])


# --- cancel ----------------------------------------------------------------------------------------------------------


@click.command()
@job_names
@namespace_option
@click.option("--wait/--no-wait", default=True, show_default=True, help="Until their processes are gone.")
@server_options
def cancel(names: tuple[str, ...], namespace: str | None, wait: bool) -> None:
    """End jobs, whether they wait or run, and forget them. Processes get their grace period."""
    missing = False
    with connected() as connection:
        where = namespace or connection.namespace
        found: list[tuple[str, str]] = []
        for name in (_plain_name(each) for each in names):
            try:
                job = connection.client.get(JOBS, where, name)
                connection.client.delete(JOBS, where, name, {"propagationPolicy": "Background"})
                found.append((name, str(job["metadata"]["uid"])))
                click.echo(f"cancelled job {plain(name)}")
            except NotFound:
                missing = True
                echo(f"there is no job {plain(name)} in namespace {plain(where)}", err=True)
        for _, uid in found if wait else ():
            _wait_for_pods(connection.client, where, uid)
    if missing:
        raise click.exceptions.Exit(1)


def _wait_for_pods(client: Client, namespace: str, uid: str) -> None:
    until = time.monotonic() + GONE_SECONDS
    while time.monotonic() < until:
        if not client.list(PODS, namespace, labels=f"batch.kubernetes.io/controller-uid={uid}").get("items"):
            return
        time.sleep(LOOK_SECONDS)


# --- wait ------------------------------------------------------------------------------------------------------------


@click.command()
@job_names
@namespace_option
@click.option("--timeout", metavar="DURATION", help="The most time to wait, such as 10m; then the exit code is 124.")
@server_options
def wait(names: tuple[str, ...], namespace: str | None, timeout: str | None) -> None:
    """Wait until jobs have ended. The exit code is 0 if all went well, else that of the first that did not."""
    seconds = None if timeout is None else _seconds(timeout, "--timeout")
    with connected() as connection:
        where = namespace or connection.namespace
        code = _waited(connection, where, [_plain_name(name) for name in names], seconds)
    raise click.exceptions.Exit(code)


def _waited(connection: Connection, namespace: str, names: Sequence[str], seconds: int | None) -> int:
    until = None if seconds is None else time.monotonic() + seconds
    left, codes = list(dict.fromkeys(names)), {}
    for name in left:
        connection.client.get(JOBS, namespace, name)  # raises for a missing job
    while left:
        for name in list(left):
            try:
                end = ended(seen(connection.client, namespace, name))
            except Retryable:
                continue  # the server may come back
            except StoreError:
                raise
            if end is not None:
                left.remove(name)
                codes[name] = end.code
                echo(f"job {plain(name)}: {plain(end.words)}")
        if left and until is not None and time.monotonic() > until:
            echo(f"not ended in time: {', '.join(plain(each) for each in left)}", err=True)
            return TIMED_OUT
        if left:
            time.sleep(LOOK_SECONDS)
    return next((codes[name] for name in names if codes[name]), 0)
