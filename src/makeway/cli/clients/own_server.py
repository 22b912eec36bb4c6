"""A temporary server for a command: started as a user would start one, and removed with everything it ran."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import click

from makeway.adapters.kubernetes.client import Client
from makeway.cli.clients.connection import local_target
from makeway.cli.clients.following import JOBS, PODS
from makeway.runtime.ports import NotFound, StoreError

START_SECONDS = 30.0
END_SECONDS = 30.0
LOOK_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class OwnServer:
    client: Client
    folder: Path
    url: str
    pid: int


@contextmanager
def own_server(options: Sequence[str] = ()) -> Iterator[OwnServer]:
    """Serve until the end of the block. Running pods are ended then, because they would outlive the server."""
    folder = Path(tempfile.mkdtemp(prefix="makeway-"))
    command = [sys.executable, "-m", "makeway", "up", "--data", str(folder), "--port", "0", *options]
    log = folder.with_name(f"{folder.name}.log")
    with open(log, "wb") as file:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=file, stderr=file,
            start_new_session=True,  # Ctrl-C is for the command, which then stops the server in order
        )  # fmt: skip
    try:
        client = _connected(folder, process, log)
        try:
            yield OwnServer(client, folder, (folder / "address").read_text("ascii").strip(), process.pid)
        finally:
            _end_all(client, folder)
            client.close()
    finally:
        process.terminate()
        process.wait(END_SECONDS)
        shutil.rmtree(folder, ignore_errors=True)
        log.unlink(missing_ok=True)


def _connected(folder: Path, process: subprocess.Popen[bytes], log: Path) -> Client:
    until = time.monotonic() + START_SECONDS
    while time.monotonic() < until and process.poll() is None:
        if (folder / "address").exists():
            client = Client(local_target(folder), tries=1, seconds=30)
            try:
                client.send("GET", "/readyz")
                return client
            except StoreError:
                client.close()
        time.sleep(LOOK_SECONDS)
    told = log.read_text(errors="replace").strip()
    raise click.ClickException(f"the server did not start: {told[-1000:] or 'it said nothing'}")


def _end_all(client: Client, folder: Path) -> None:
    """End all processes before the folder with their records is removed."""
    with suppress(StoreError):
        for resource in (JOBS, PODS):
            for page in client.pages(resource):
                for each in page["items"]:
                    meta = each["metadata"]
                    options = {"propagationPolicy": "Background", "gracePeriodSeconds": 0}
                    with suppress(NotFound):
                        client.delete(resource, str(meta["namespace"]), str(meta["name"]), options)
    until = time.monotonic() + END_SECONDS
    pods = folder / "pods"
    while time.monotonic() < until and pods.is_dir() and any(each.is_dir() for each in pods.iterdir()):
        time.sleep(LOOK_SECONDS)
