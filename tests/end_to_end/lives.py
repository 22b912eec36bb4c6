"""The lives of one server: the real ``makeway up`` with engine and node agent, killed or stopped, and started again.

A launcher has imported everything and forks, so that a start costs little more than reading the data. Its address space
is limited, so that a request for gigabytes fails here, without harm to the machine.
"""

from __future__ import annotations

import http.client
import json
import os
import select
import shutil
import signal
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from makeway.adapters.node.supervision import processes
from makeway.adapters.node.supervision.records import read_record

ROOT = Path(__file__).parents[2]
ADDRESS_SPACE_BYTES = 4 * 2**30
START_SECONDS = 60.0
ANSWER_SECONDS = 30.0
END_SECONDS = 60.0
NODE = "here"
OPTIONS = ("--node", f"{NODE}:cpu=4,memory=4Gi,pods=30")

LAUNCHER = f"""
import os, resource, sys
from makeway.cli.server import serve
from makeway.embedded import control_plane, local_node
from makeway.cli.main import main

resource.setrlimit(resource.RLIMIT_AS, ({ADDRESS_SPACE_BYTES}, {ADDRESS_SPACE_BYTES}))
for line in sys.stdin:
    folder, *options = line.split("\\t")
    pid = os.fork()
    if pid == 0:
        main(["up", "--port", "0", "--data", folder, *[each.strip() for each in options]])
    print(f"process {{pid}}", flush=True)
    print("gone", os.waitpid(pid, 0)[1], flush=True)
"""


class Dead(Exception):
    """The server has ended, or does not answer; the message has its last words."""


class Answer(NamedTuple):
    code: int
    tree: Any  # None: not JSON

    @property
    def is_done(self) -> bool:
        return 200 <= self.code < 300


class Lives:
    """One data folder and its server; at most one runs at a time."""

    def __init__(self, launcher: subprocess.Popen[bytes], folder: Path, log: Path) -> None:
        self.folder = folder
        self._log = log
        self._launcher = launcher
        self._options: Sequence[str] = OPTIONS
        self._unread = b""
        self._connection: http.client.HTTPSConnection | None = None
        self._headers: dict[str, str] = {}
        self.process = 0  # 0: none
        self.starts: list[float] = []  # seconds from the start to the first "ok" of /readyz

    # --- beginning and end ---

    def start(self) -> None:
        began = time.monotonic()
        assert self._launcher.stdin is not None
        self._launcher.stdin.write(("\t".join((str(self.folder), *self._options)) + "\n").encode())
        self._launcher.stdin.flush()
        url = ""
        for line in self._lines(began + START_SECONDS):
            if line.startswith("process "):
                self.process = int(line.split()[1])
            elif line.startswith("makeway serves "):
                url = line.split()[2]
            elif line.startswith("gone"):
                self.process = 0
                raise Dead(f"it ended at its start\n{self.last_words()}")
            elif line.startswith("Ctrl-C"):
                break
        trust = ssl.create_default_context(cafile=str(self.folder / "ca.crt"))
        self._headers = {"authorization": f"Bearer {(self.folder / 'admin.token').read_text().strip()}"}
        host, _, port = url.removeprefix("https://").partition(":")
        self._connection = http.client.HTTPSConnection(host, int(port), timeout=ANSWER_SECONDS, context=trust)
        while self.ask("GET", "/readyz").code != 200:
            if time.monotonic() > began + START_SECONDS:
                raise Dead(f"it did not become ready\n{self.last_words()}")
            time.sleep(0.01)
        self.starts.append(time.monotonic() - began)

    def end(self, number: signal.Signals) -> None:
        """End it by a signal, and wait for its end."""
        process, self.process = self.process, 0
        os.kill(process, number)
        gone = next(line for line in self._lines(time.monotonic() + END_SECONDS) if line.startswith("gone"))
        if self._connection is not None:
            self._connection.close()
        code = os.waitstatus_to_exitcode(int(gone.split()[1]))
        if code != (-number if number == signal.SIGKILL else 0):
            raise Dead(f"it had exit code {code} at {number.name}\n{self.last_words()}")

    def abandon(self) -> None:
        """Whatever happened: end everything that was started here, and remove the folder."""
        os.killpg(self._launcher.pid, signal.SIGKILL)
        if self._connection is not None:
            self._connection.close()
        for uid in self.uids():
            record = read_record(self.folder / "pods" / uid)
            if record is not None and processes.is_alive(record.pid, record.ticks, record.boot):
                os.kill(record.pid, signal.SIGKILL)
            for each in processes.of_pod(uid):
                processes.send(each, signal.SIGKILL)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _lines(self, until: float) -> Iterator[str]:
        assert self._launcher.stdout is not None
        source = self._launcher.stdout.fileno()
        while True:
            line, found, rest = self._unread.partition(b"\n")
            if found:
                self._unread = rest
                yield line.decode().strip()
                continue
            ready, _, _ = select.select([source], [], [], max(0.0, until - time.monotonic()))
            piece = os.read(source, 65536) if ready else b""
            if not piece:
                raise Dead(f"nothing more was heard of it\n{self.last_words()}")
            self._unread += piece

    # --- what it is asked ---

    def ask(
        self, method: str, path: str, body: object = None, media: str = "application/json", *, raw: bytes | None = None
    ) -> Answer:
        """Send a request. Raises ``Dead`` if there is no answer."""
        assert self._connection is not None
        headers: Mapping[str, str] = self._headers
        data = raw
        if body is not None:
            data = json.dumps(body).encode("utf-8", "surrogatepass")
        if data is not None:
            headers = {**headers, "content-type": media}
        try:
            self._connection.request(method, path, data, headers)
            answer = self._connection.getresponse()
            text = answer.read()
        except (OSError, http.client.HTTPException) as error:
            self._connection.close()
            raise Dead(f"no answer to {method} {path}: {error!r}; {self._state()}\n{self.last_words()}") from error
        is_json = (answer.getheader("content-type") or "").startswith("application/json")
        return Answer(answer.status, json.loads(text) if is_json else None)

    def _state(self) -> str:
        """The state of the server, for the words of a failure."""
        try:
            gone = next(line for line in self._lines(time.monotonic() + 1) if line.startswith("gone"))
        except Dead:
            return "it is still there"
        self.process = 0
        return f"it ended with exit code {os.waitstatus_to_exitcode(int(gone.split()[1]))}"

    @property
    def resident_bytes(self) -> int:
        text = Path(f"/proc/{self.process}/status").read_text()
        line = next(each for each in text.splitlines() if each.startswith("VmRSS:"))
        return int(line.split()[1]) * 1024

    def uids(self) -> list[str]:
        """The uids of pods that have a folder here."""
        root = self.folder / "pods"
        return sorted(path.name for path in root.iterdir() if path.is_dir()) if root.is_dir() else []

    def last_words(self) -> str:
        said = self._log.read_text(errors="replace").splitlines()
        return "\n".join(line for line in said if line and not line.startswith("stopping;"))[-3000:]


@contextmanager
def lives(scratch: Path) -> Iterator[Lives]:
    """A new data folder with a started server."""
    folder = scratch / "data"
    folder.mkdir(mode=0o700, parents=True)
    log = scratch / "server.log"
    with open(log, "ab") as errors:
        launcher = subprocess.Popen(
            [sys.executable, "-u", "-c", LAUNCHER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors,
            env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "KUBECONFIG": ""}, start_new_session=True,
        )  # fmt: skip
    with launcher:
        found = Lives(launcher, folder, log)
        try:
            found.start()
            yield found
        finally:
            found.abandon()
