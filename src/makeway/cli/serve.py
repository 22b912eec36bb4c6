"""``makeway up``, ``down`` and ``status``: the server of this machine, from its start to its end.

A server is known by its data folder: there are its files, the lock that says whose it is, and the address at which it
listens. ``up`` stays in the foreground until Ctrl-C or SIGTERM, ends gracefully, and at once on a second Ctrl-C: what
was acknowledged is on the disk in either case.
"""

from __future__ import annotations

import errno
import fcntl
import ipaddress
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from threading import Event
from typing import Any, NoReturn

import click

from makeway import __version__
from makeway.adapters.server.beginning import DATA_FILE
from makeway.adapters.server.data_file import DataFileRefused
from makeway.api.objects.configuration import Configuration
from makeway.cli.connection import connected, data_folder, server_options
from makeway.cli.files import count, gather
from makeway.cli.installation import ADDRESS_FILE, HOST, PORT, Installation, Settings, own_process
from makeway.cli.output import print_data
from makeway.cli.screen import echo, plural, print_finding
from makeway.runtime.ports import StoreError

INTERRUPTED = 130
ENGINE_FAILED = 70
LOG_FILE = "makeway.log"
LOOK_SECONDS = 0.05
READY_SECONDS = 60.0
STOP_SECONDS = 30.0
ANSWER_SECONDS = 3.0
LOG_LINES = 20


# --- up --------------------------------------------------------------------------------------------------------------


@click.command()
@click.option("--data", metavar="DIR", help="Where everything is kept.  [default: $XDG_DATA_HOME/makeway]")
@click.option("--port", type=click.IntRange(0, 65535), default=PORT, show_default=True, help="0 takes a free one.")
@click.option("--listen", metavar="ADDRESS", default=HOST, show_default=True, help="The address of this machine.")
@click.option("--config", metavar="FILE", help="A Configuration.")
@click.option("--detach", is_flag=True, help="Leave the server in the background, and return once it is ready.")
def up(data: str | None, port: int, listen: str, config: str | None, detach: bool) -> None:
    """Start the server of this machine.

    It serves the Kueue API over HTTPS from one data folder, decides what runs, and stops on Ctrl-C or SIGTERM.
    """
    folder = data_folder(data).absolute()
    settings = Settings(folder, _address(listen), port, _configuration(config))
    if detach:
        _detached(folder, ["--listen", listen, "--port", str(port), *(["--config", config] if config else [])])
        return
    ending = _Ending()
    installation = Installation(settings, ending.fail)
    try:
        with own_process():
            url = installation.start()
    except (OSError, DataFileRefused) as error:
        raise _refused(error, settings) from error
    try:
        _welcome(url, folder)
        ending.wait()
        click.echo("stopping")
    finally:
        installation.stop()
    if ending.error is not None:
        raise ending.error


class _Ending:
    """When to stop: a signal, or an engine that failed."""

    def __init__(self) -> None:
        self._asked = Event()
        self.error: BaseException | None = None
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._hear)

    def _hear(self, number: int, frame: object) -> None:
        if self._asked.is_set() and number == signal.SIGINT:
            os._exit(INTERRUPTED)  # what was acknowledged is on the disk
        self._asked.set()

    def fail(self, error: BaseException) -> None:
        self.error = error
        self._asked.set()

    def wait(self) -> None:
        self._asked.wait()


def _address(listen: str) -> str:
    try:
        return str(ipaddress.ip_address("127.0.0.1" if listen == "localhost" else listen))
    except ValueError:
        raise click.BadParameter(
            f"`{listen}` is no address of a machine\n\nhint: 127.0.0.1 is this machine alone, 0.0.0.0 is everybody",
            param_hint="--listen",
        ) from None


def _configuration(config: str | None) -> Configuration:
    """What the file says; all that is wrong with it ends the program."""
    if config is None:
        return Configuration()
    gathered = gather([config], recursive=False)
    found = gathered.findings()
    for finding in found:
        print_finding(finding, err=True)
    if errors := count(found, "error"):
        click.echo(f"nothing is started: {plural(errors, 'error')}", err=True)
        raise click.exceptions.Exit(1)
    values = [each.value for each in gathered.manifests]
    if len(values) != 1 or not isinstance(values[0], Configuration):
        raise click.ClickException(
            f"{config} is not a Configuration\n\nhint: it must hold one object of kind Configuration and nothing else"
        )
    if values[0].fair_sharing is not None:
        raise click.ClickException(f"{config}: fairSharing: fair sharing comes with a later version")
    return values[0]


def _refused(error: OSError | DataFileRefused, settings: Settings) -> click.ClickException:
    hint = "the message says what is wrong with it; `--data DIR` names another folder"
    text = str(error)
    if isinstance(error, DataFileRefused):
        if running_in(settings.folder) is not None:
            hint = "`makeway status` shows that server, `makeway down` stops it; `--data DIR` starts another one"
    elif error.errno == errno.EADDRINUSE:
        text = f"port {settings.port} of {settings.host} is in use by another program"
        hint = "`--port 0` takes a free one"
    elif error.errno == errno.EADDRNOTAVAIL:
        text, hint = f"{settings.host} is no address of this machine", "`--listen 127.0.0.1` is this machine alone"
    elif error.errno == errno.EACCES and settings.port and settings.port < 1024 and not error.filename:
        text, hint = f"port {settings.port} is reserved for the system", "take one above 1023"
    else:
        text = f"{error.filename or settings.folder}: {error.strerror or error}"
    return click.ClickException(f"{text}\n\nhint: {hint}")


def _welcome(url: str, folder: Path) -> None:
    echo(f"makeway {__version__} serves {click.style(url, bold=True)} from {folder}")
    if not ipaddress.ip_address(url.removeprefix("https://").rpartition(":")[0].strip("[]")).is_loopback:
        echo("others can reach it: whoever has a token of the role admin owns this account", err=True)
    at = "" if folder == data_folder(None) else f" --data {folder}"
    click.echo("\nTry next, in another terminal:")
    for words in ("apply -f examples/quickstart", "queues", "kubeconfig --write", "down"):
        click.echo(f"  makeway {words}{at}")
    sys.stdout.flush()


def _detached(folder: Path, options: list[str]) -> None:
    """Start the same command without a terminal, and wait until it is ready or has ended."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    log = os.open(folder / LOG_FILE, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    command = [sys.executable, "-m", "makeway", "up", "--data", str(folder), *options]
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, close_fds=True
    )
    os.close(log)
    until = time.monotonic() + READY_SECONDS
    while process.poll() is None and time.monotonic() < until:
        if running_in(folder) == process.pid and (folder / ADDRESS_FILE).exists():
            url = (folder / ADDRESS_FILE).read_text("ascii").strip()
            echo(f"makeway {__version__} serves {click.style(url, bold=True)} from {folder}, process {process.pid}")
            return
        time.sleep(LOOK_SECONDS)
    _fail_detached(folder, process)


def _fail_detached(folder: Path, process: subprocess.Popen[bytes]) -> NoReturn:
    if process.poll() is None:
        process.terminate()
        raise click.ClickException(f"it is not ready after {READY_SECONDS:.0f} s\n\nhint: see {folder / LOG_FILE}")
    lines = (folder / LOG_FILE).read_text("utf-8", "replace").splitlines()[-LOG_LINES:]
    raise click.ClickException("\n".join(lines).removeprefix("Error: ") or f"it ended with code {process.returncode}")


# --- down ------------------------------------------------------------------------------------------------------------


def running_in(folder: Path) -> int | None:
    """The process of the server that has the folder open; None: there is none."""
    try:
        lock = os.open(folder / f"{DATA_FILE}.lock", os.O_RDONLY)
    except OSError:
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        text = os.read(lock, 32).decode("ascii", "replace").strip()
        return int(text) if text.isdigit() else 0
    finally:
        os.close(lock)
    return None


@click.command()
@click.option("--data", metavar="DIR", help="The server's data folder.  [default: $XDG_DATA_HOME/makeway]")
def down(data: str | None) -> None:
    """Stop the server of this machine."""
    folder = data_folder(data).absolute()
    process = running_in(folder)
    if process is None:
        raise click.ClickException(f"no server runs in {folder}\n\nhint: `makeway up` starts one")
    try:
        os.kill(process, signal.SIGTERM) if process else None
    except PermissionError as error:
        raise click.ClickException(
            f"process {process} belongs to another account\n\nhint: run this as the account that runs the server"
        ) from error
    except ProcessLookupError:
        pass
    until = time.monotonic() + STOP_SECONDS
    while running_in(folder) == process and time.monotonic() < until:
        time.sleep(LOOK_SECONDS)
    if running_in(folder) == process:
        raise click.ClickException(f"process {process} does not stop\n\nhint: `kill -9 {process}` loses nothing stored")
    click.echo(f"stopped process {process}")


# --- status ----------------------------------------------------------------------------------------------------------


@click.command()
@server_options
@click.option("-o", "--output", type=click.Choice(["text", "json", "yaml"]), default="text", show_default=True)
@click.pass_context
def status(ctx: click.Context, output: str) -> None:
    """Show whether the server runs, and how much is going on.

    Exits with 1 where it does not run, or is not ready.
    """
    asked: dict[str, str | None] = ctx.meta.get("makeway.server", {})
    told: dict[str, Any] = {"running": False, "ready": False}
    if not asked.get("kubeconfig") and not asked.get("context"):
        told |= _of_folder(data_folder(asked.get("data")).absolute())
    if "data" not in told or told["running"]:
        told |= _of_server(ctx)
    if output == "text":
        _print_status(told)
    else:
        print_data(told, output)
    if not told["ready"]:
        raise click.exceptions.Exit(1)


def _of_folder(folder: Path) -> dict[str, Any]:
    process = running_in(folder)
    size = sum(each.stat().st_size for each in folder.glob(f"{DATA_FILE}*")) if folder.is_dir() else 0
    told: dict[str, Any] = {"running": process is not None, "data": str(folder), "bytes": size}
    return told | ({"process": process} if process else {})


def _of_server(ctx: click.Context) -> dict[str, Any]:
    with connected(ctx, seconds=ANSWER_SECONDS) as connection:
        client = connection.client
        told: dict[str, Any] = {"running": True, "server": client.target.server}
        told["version"] = str(client.send("GET", "/version").tree().get("gitVersion", ""))
        try:
            client.send("GET", "/readyz")
            told["ready"] = True
        except StoreError as error:
            told |= {"ready": False, "reason": str(error)}
        queues = client.send("GET", "/apis/kueue.x-k8s.io/v1beta2/clusterqueues").tree().get("items", [])
    return told | {"queues": _counted(queues)}


def _counted(queues: list[dict[str, Any]]) -> dict[str, int]:
    """What the statuses of all ClusterQueues say together."""
    statuses = [each.get("status") or {} for each in queues]
    active = sum(
        any(c.get("type") == "Active" and c.get("status") == "True" for c in each.get("conditions") or ())
        for each in statuses
    )
    names = {"pending": "pendingWorkloads", "reserving": "reservingWorkloads", "admitted": "admittedWorkloads"}
    sums = {name: sum(int(each.get(key) or 0) for each in statuses) for name, key in names.items()}
    return {"all": len(queues), "active": active, **sums}


def _print_status(told: dict[str, Any]) -> None:
    state = "ready" if told["ready"] else "not ready" if told["running"] else "not running"
    colour = {"ready": "green", "not ready": "yellow", "not running": "red"}[state]
    process = f", process {told['process']}" if "process" in told else ""
    reason = f": {told['reason']}" if "reason" in told else ""
    rows = [("server", f"{click.style(state, fg=colour)}{process}{reason}")]
    rows += [(name, str(told[key])) for name, key in (("address", "server"), ("version", "version")) if key in told]
    if "data" in told:
        rows.append(("data", f"{told['data']}, {told['bytes'] / 2**20:.1f} MiB"))
    if "queues" in told:
        queues = told["queues"]
        rows.append(("queues", f"{queues['all']}, {queues['active']} of them active"))
        rows.append(("workloads", f"{queues['pending']} pending, {queues['admitted']} admitted"))
    for name, value in rows:
        echo(f"{name:<10} {value}")
    if not told["running"]:
        echo("\nhint: `makeway up` starts it")
