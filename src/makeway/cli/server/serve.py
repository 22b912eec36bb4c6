"""``makeway up``, ``down`` and ``status``: the control plane of one machine, in the foreground or detached.

A server belongs to its data folder: the lock beside the data file says whether one runs there and its process id, the
file ``address`` where it listens. Commands of other processes use these two.
"""

from __future__ import annotations

import fcntl
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import click

from makeway.adapters.node.folders import supervised
from makeway.adapters.node.supervision import processes
from makeway.adapters.server.storage.own_folder import check_folder, made_folder, open_own
from makeway.api.objects.configuration import Configuration
from makeway.cli.clients.connection import PORT, connected, data_folder, local_target, server_options
from makeway.cli.server.configuration import read_configuration
from makeway.cli.server.node_options import node_options, offers, words
from makeway.cli.terminal.output import print_data
from makeway.cli.terminal.screen import echo, plain, plural
from makeway.cli.terminal.seconds import Seconds
from makeway.embedded.local_node import NodeSettings
from makeway.runtime.ports import StoreError

DATA_FILE = "makeway.db"
LOG_FILE = "makeway.log"
DETACHED_SECONDS = 30.0
LOOK_SECONDS = 0.05
DATA = click.option("--data", metavar="DIR", help="The data folder.  [default: $XDG_DATA_HOME/makeway]")
OUTPUT = click.option(
    "-o", "--output", type=click.Choice(["text", "json", "yaml", "name"]), default="text", show_default=True
)


def holder_of(folder: Path) -> int | None:
    """Return the process id of this folder's server; 0 if unknown, None if there is no server."""
    try:
        lock = open_own(folder / f"{DATA_FILE}.lock")
    except FileNotFoundError:
        return 0 if _is_held(folder) else None  # a user has removed the lock of a running server
    except OSError as error:
        raise click.ClickException(f"{folder} cannot be read: {error.strerror}\n\nhint: {ACCOUNT}") from error
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return 0 if _is_held(folder) else None
    except BlockingIOError:
        text = os.pread(lock, 32, 0).decode(errors="replace").strip()
        return int(text) if text.isdigit() else 0
    finally:
        os.close(lock)


def _is_held(folder: Path) -> bool:
    """Whether a server has locked the folder itself."""
    try:
        opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(opened, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return False
    except BlockingIOError:
        return True
    except OSError:  # some network file systems have no locks for folders
        return False
    finally:
        os.close(opened)


ACCOUNT = "run this as the account that runs the server"
OTHER_FOLDER = "name another folder with --data"


# --- up --------------------------------------------------------------------------------------------------------------


@click.command()
@DATA
@click.option("--port", type=click.IntRange(0, 65535), default=PORT, show_default=True, help="0 is a free one.")
@click.option("--listen", metavar="HOST", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option("--config", metavar="FILE", help="A Configuration.")
@click.option("-d", "--detach", is_flag=True, help="Go on in the background; `makeway down` ends it.")
@click.option(
    "--leave-out-damaged",
    "leaves_out",
    is_flag=True,
    help="Keep a damaged data file aside, and go on with what can be read of it.",
)
@node_options
def up(
    data: str | None, port: int, listen: str, config: str | None, detach: bool, leaves_out: bool, no_node: bool,
    nodes: tuple[str, ...], node_capacity: str | None,
) -> None:  # fmt: skip
    """Serve the API on this machine, decide, and run pods as processes.

    Runs until Ctrl-C or `makeway down`. What was acknowledged is stored, whatever happens after. Pods that run go on
    without it, and are found again by the next `makeway up`.
    """
    folder = data_folder(data)
    offered = offers(node_capacity, nodes)
    value = read_configuration(config)
    if leaves_out:
        _leave_out(folder)
    if detach:
        _detached(folder, port, listen, config, words(node_capacity, nodes, no_node=no_node))
        return
    node = None if no_node else NodeSettings(offered, value.makeway.images)
    with _signals() as ask_to_end:
        _serve(folder, port, listen, value, node, ask_to_end)


@dataclass(slots=True)
class _Wish:
    """A request to end, by a signal. The second one ends the process at once."""

    asked: int = 0

    def __call__(self, number: int, frame: FrameType | None) -> None:
        self.asked += 1
        if self.asked > 1:
            os._exit(128 + number)  # acknowledged writes are stored; nothing else matters


@contextmanager
def _signals() -> Iterator[_Wish]:
    wish = _Wish()
    before = {number: signal.signal(number, wish) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield wish
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _serve(
    folder: Path, port: int, listen: str, value: Configuration, node: NodeSettings | None, wish: _Wish
) -> None:  # fmt: skip
    from makeway.adapters.server.http.limits import raise_files
    from makeway.adapters.server.storage.data_file import DataFileRefused
    from makeway.embedded.control_plane import ControlPlane, ControlPlaneSettings, own_process
    from makeway.embedded.local_node import LocalNode
    from makeway.embedded.pod_logs import Logs

    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    files = raise_files()
    try:
        settings = ControlPlaneSettings(configuration=value, host=listen, port=port, on_nodes=True)
        plane = ControlPlane(folder, settings)
    except DataFileRefused as error:
        raise click.ClickException(f"{error}\n\nhint: {_about_folder(folder)}") from error
    except OSError as error:
        raise click.ClickException(f"{folder} cannot be used: {error.strerror}\n\nhint: {OTHER_FOLDER}") from error
    try:
        with own_process():
            url = plane.start(None if node is None else Logs(folder))
    except OSError as error:
        hint = "name another with --port, or 0 for a free one" if port else "name another --listen"
        words = (error.strerror or str(error)).lower()
        raise click.ClickException(f"cannot listen on {listen} port {port}: {words}\n\nhint: {hint}") from error
    with plane, ExitStack() as running:
        if node is not None:
            live = plane.live
            local = LocalNode(
                folder, plane.store, node, plane.clock,
                tell=live.tell, failed=plane.fail, gave_up=live.gave_up, files=files,
            )  # fmt: skip
            running.callback(local.stop)
            local.start()
        _greet(folder, url)
        while not wish.asked and not plane.ended.wait(1.0):
            pass
        if plane.failure is None:
            echo("\nstopping; what was acknowledged is stored", err=True)
    if plane.failure is not None:
        raise plane.failure


def _leave_out(folder: Path) -> None:
    from makeway.adapters.server.storage.data_file import DataFileRefused
    from makeway.adapters.server.storage.leaving_out import leave_out_damaged

    if not (folder / DATA_FILE).exists():
        return
    try:
        check_folder(folder)
        left = leave_out_damaged(folder / DATA_FILE)
    except (DataFileRefused, OSError) as error:
        raise click.ClickException(f"{error}\n\nhint: {_about_folder(folder)}") from error
    for finding in left.findings:
        echo(f"left out: {plain(finding)}", err=True)
    if left.findings:
        echo(f"{plural(left.kept, 'object')} could be read; the file of before is {plain(str(left.aside))}", err=True)


def _about_folder(folder: Path) -> str:
    holder = holder_of(folder)
    if holder is None:
        return OTHER_FOLDER
    return "`makeway status` shows it, `makeway down` ends it, --data names another folder"


def _greet(folder: Path, url: str) -> None:
    named = "" if folder == data_folder(None) else f" --data {folder}"
    echo(f"makeway serves {click.style(url, bold=True)}")
    echo(f"data is in {plain(str(folder))}")
    echo("")
    echo("Try next, in another terminal:")
    echo(f"  makeway apply{named} -f examples/quickstart")
    echo(f"  makeway queues{named}")
    echo(f"  makeway kubeconfig{named} --write && kubectl get workloads -A")
    echo("Ctrl-C ends it.")
    sys.stdout.flush()


def _detached(folder: Path, port: int, listen: str, config: str | None, more: Iterable[str]) -> None:
    """Start another process that serves, and wait until it does."""
    if (holder := holder_of(folder)) is not None:
        raise click.ClickException(
            f"{folder} is in use by another server (process {holder or 'unknown'})\n\nhint: {_about_folder(folder)}"
        )
    try:
        made_folder(folder)
    except OSError as error:
        raise click.ClickException(f"{folder} cannot be used: {error.strerror}\n\nhint: {OTHER_FOLDER}") from error
    line = ["up", "--data", str(folder), "--port", str(port), "--listen", listen, *more]
    line += ["--config", os.path.abspath(config)] if config else []
    log = folder / LOG_FILE
    log.unlink(missing_ok=True)
    with open(log, "xb", opener=lambda path, flags: os.open(path, flags | os.O_NOFOLLOW, 0o600)) as file:
        process = subprocess.Popen(
            [sys.executable, "-m", "makeway", *line], stdin=subprocess.DEVNULL, stdout=file, stderr=file,
            start_new_session=True,
        )  # fmt: skip
    until = time.monotonic() + DETACHED_SECONDS
    while time.monotonic() < until and process.poll() is None:
        if (url := _served(folder)) and _is_ready(folder):
            echo(f"makeway serves {click.style(url, bold=True)} (process {process.pid})")
            echo(f"`makeway down{'' if folder == data_folder(None) else f' --data {folder}'}` ends it")
            return
        time.sleep(LOOK_SECONDS)
    if process.poll() is None:
        process.terminate()
    told = log.read_text(errors="replace").strip()
    raise click.ClickException(
        "\n".join(plain(line) for line in told.splitlines()[-20:]).removeprefix("Error: ") or "it did not start in time"
    )


def _served(folder: Path) -> str:
    try:
        return (folder / "address").read_text("ascii").strip()
    except OSError:
        return ""


def _is_ready(folder: Path) -> bool:
    from makeway.adapters.kubernetes.client import Client

    with suppress(StoreError, click.ClickException), Client(local_target(folder), tries=1, seconds=2) as client:
        client.send("GET", "/readyz")
        return True
    return False


# --- down ------------------------------------------------------------------------------------------------------------


@click.command()
@DATA
@click.option("--timeout", type=Seconds(), default=30.0, show_default=True, help="Seconds to wait.")
@click.option("--pods", is_flag=True, help="End the processes of pods too, each in its grace period.")
def down(data: str | None, timeout: float, pods: bool) -> None:
    """End the server of this machine; it comes back as it was with `makeway up`.

    Pods that run go on without it, unless --pods is given.
    """
    folder = data_folder(data)
    _end_server(folder, timeout)
    if pods:
        _end_pods(folder, timeout)
    elif count := len(list(supervised(folder / "pods"))):
        echo(f"{plural(count, 'pod')} go on; `makeway up` finds them again, `makeway down --pods` ends them")


def _end_server(folder: Path, timeout: float) -> None:
    holder = holder_of(folder)
    if holder is None:
        echo(f"no server runs in {plain(str(folder))}")
        return
    if not holder:
        raise click.ClickException(f"nobody knows which process serves {folder}\n\nhint: look for `makeway up`")
    try:
        os.kill(holder, signal.SIGTERM)
    except ProcessLookupError:
        pass
    except PermissionError as error:
        raise click.ClickException(f"process {holder} belongs to another account\n\nhint: {ACCOUNT}") from error
    until = time.monotonic() + timeout
    while holder_of(folder) == holder:
        if time.monotonic() >= until:
            hint = (
                f"give it more time with --timeout, or end it at once with `kill -9 {holder}`: nothing is lost by that"
            )
            raise click.ClickException(f"process {holder} has not ended after {timeout:g} s\n\nhint: {hint}")
        time.sleep(LOOK_SECONDS)
    echo(f"the server in {plain(str(folder))} has ended")


def _end_pods(folder: Path, timeout: float) -> None:
    """Let supervisors end their pods as in a deletion, and record it; the next server reads that."""
    found = list(supervised(folder / "pods"))
    for each in found:
        processes.send(each, signal.SIGTERM)
    until = time.monotonic() + timeout
    while left := [each for each in found if processes.is_alive(each.pid, each.ticks, processes.boot_id())]:
        if time.monotonic() >= until:
            hint = "give them more time with --timeout; they are killed when their grace period is over"
            raise click.ClickException(f"{plural(len(left), 'pod')} have not ended after {timeout:g} s\n\nhint: {hint}")
        time.sleep(LOOK_SECONDS)
    echo(f"{plural(len(found), 'pod')} ended")


# --- status ----------------------------------------------------------------------------------------------------------

COUNTED = (
    ("clusterQueues", "/apis/kueue.x-k8s.io/v1beta2/clusterqueues"),
    ("workloads", "/apis/kueue.x-k8s.io/v1beta2/workloads"),
    ("jobs", "/apis/batch/v1/jobs"),
    ("pods", "/api/v1/pods"),
)


@click.command()
@server_options
@OUTPUT
def status(output: str) -> None:
    """Say whether the server runs, where, and what it has. Exit code 1: it does not run, or is not ready."""
    asked: dict[str, str | None] = click.get_current_context().meta.get("makeway.server", {})
    told = _remote() if asked.get("kubeconfig") or asked.get("context") else _local(data_folder(asked.get("data")))
    if output == "name":
        click.echo(f"server/{'ready' if told['ready'] else 'running' if told['running'] else 'stopped'}")
    elif output == "text":
        _print_status(told)
    else:
        print_data(told, output)
    if not told["ready"]:
        raise click.exceptions.Exit(1)


def _local(folder: Path) -> dict[str, Any]:
    holder = holder_of(folder)
    told: dict[str, Any] = {"data": str(folder), "running": holder is not None, "ready": False}
    if holder is None:
        return told
    told |= {"process": holder, "address": _served(folder)}
    with suppress(OSError):
        told["dataBytes"] = sum((folder / name).stat().st_size for name in (DATA_FILE, f"{DATA_FILE}-wal"))
    return told | _remote()


def _remote() -> dict[str, Any]:
    """Return what the server says of itself."""
    with connected(seconds=5) as connection:
        client = connection.client
        told: dict[str, Any] = {"running": True, "version": client.send("GET", "/version").tree()["gitVersion"]}
        try:
            client.send("GET", "/readyz")
        except StoreError as error:
            return told | {"ready": False, "reason": str(error)}
        for name, path in COUNTED:
            page = client.send("GET", f"{path}?limit=1").tree()
            rest = page["metadata"].get("remainingItemCount") or 0
            told[name] = len(page["items"]) + rest
    return told | {"ready": True}


def _print_status(told: dict[str, Any]) -> None:
    if not told["running"]:
        echo(f"no server runs in {plain(told['data'])}")
        echo("hint: `makeway up` starts one", err=True)
        return
    where = f" at {told['address']} (process {told['process']})" if "process" in told else ""
    ready = click.style("ready", fg="green") if told["ready"] else click.style("not ready", fg="yellow")
    echo(f"makeway {plain(told['version'])} is {ready}{where}")
    if "reason" in told:
        echo(plain(told["reason"]))
    if "data" in told:
        size = f", {told['dataBytes'] / 2**20:.1f} MiB" if "dataBytes" in told else ""
        echo(f"data: {plain(told['data'])}{size}")
    counts = [f"{told[name]} {words}" for name, words in WORDS if name in told]
    if counts:
        echo(", ".join(counts))


WORDS = (("clusterQueues", "ClusterQueues"), ("workloads", "Workloads"), ("jobs", "Jobs"), ("pods", "Pods"))
