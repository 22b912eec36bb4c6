"""``makeway up`` and its siblings, as real processes: one server for most tests, one of its own for a test that ends
it.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from makeway.adapters.server.storage.beginning import open_store
from makeway.cli.main import main
from makeway.cli.server.serve import holder_of
from makeway.runtime.live.driver import wall_clock
from tests.cli.conftest import local_queue, queue

pytestmark = pytest.mark.slow

FLAVOR = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ResourceFlavor", "metadata": {"name": "default"}}


def run(folder: Path, *words: str) -> Result:
    return CliRunner().invoke(main, [*words, "--data", str(folder)], env={"KUBECONFIG": ""})


def detached(folder: Path) -> None:
    command = [sys.executable, "-m", "makeway", "up", "--data", str(folder), "--port", "0", "--detach"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("makeway serves https://127.0.0.1:")


def started(folder: Path, *words: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "makeway", "up", "--data", str(folder), "--port", "0", *words]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def greeting(server: subprocess.Popen[str]) -> str:
    """The first lines of a server: once they are there it serves."""
    assert server.stdout is not None
    lines = []
    for line in server.stdout:
        lines.append(line)
        if line.startswith("Ctrl-C"):
            break
    return "".join(lines)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    data = tmp_path_factory.mktemp("data") / "makeway"
    detached(data)
    try:
        yield data
    finally:
        assert run(data, "down").exit_code == 0


# --- a server that runs ----------------------------------------------------------------------------------------------


def test_status_tells_where_and_how(folder: Path) -> None:
    told = json.loads(run(folder, "status", "-o", "json").stdout)
    assert (told["running"], told["ready"], told["process"]) == (True, True, holder_of(folder))
    assert told["address"].startswith("https://127.0.0.1:")
    assert run(folder, "status", "-o", "name").stdout == "server/ready\n"
    assert " is ready at https://" in run(folder, "status").stdout


def test_only_the_owner_reads_what_is_secret(folder: Path) -> None:
    assert folder.stat().st_mode & 0o777 == 0o700
    for name in ("admin.token", "makeway.db", "ca.key", "server.key"):
        assert (folder / name).stat().st_mode & 0o777 == 0o600, name


def test_a_second_server_is_refused(folder: Path) -> None:
    result = run(folder, "up", "--port", "0")
    assert result.exit_code == 1
    assert f"is in use by another server (process {holder_of(folder)})" in result.stderr
    assert "hint: `makeway status` shows it" in result.stderr
    assert "in use by another server" in run(folder, "up", "--port", "0", "--detach").stderr


def test_a_port_that_is_taken_is_named(tmp_path: Path) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = str(taken.getsockname()[1])
        result = run(tmp_path / "new", "up", "--port", port)
    assert result.exit_code == 1
    assert f"cannot listen on 127.0.0.1 port {port}: address already in use" in result.stderr
    assert holder_of(tmp_path / "new") is None


def test_tokens_are_made_listed_and_revoked(folder: Path) -> None:
    made = json.loads(run(folder, "token", "create", "--role", "viewer", "--name", "bob", "-o", "json").stdout)
    assert made["token"].startswith(made["id"] + ".")
    shown = run(folder, "token", "list").stdout
    assert made["id"] in shown
    assert made["token"] not in shown
    config = folder / "viewer.yaml"
    config.write_text(run(folder, "kubeconfig", "--token", made["token"]).stdout)
    asked = ["get", "namespaces", "--kubeconfig", str(config), "-o", "name"]
    assert "namespace/default" in CliRunner().invoke(main, asked).stdout
    secrets = CliRunner().invoke(main, ["get", "secrets", "-A", "--kubeconfig", str(config)])
    assert secrets.exit_code == 1
    assert "forbidden" in secrets.stderr
    assert run(folder, "token", "revoke", made["id"]).stdout == f"revoked token {made['id']}\n"
    assert CliRunner().invoke(main, asked).exit_code == 1
    assert "no such token" in run(folder, "token", "revoke", made["id"]).stderr


def test_a_kubeconfig_is_put_beside_what_is_there(folder: Path, tmp_path: Path) -> None:
    place = tmp_path / "config"
    other = {"name": "other", "cluster": {"server": "https://localhost:1"}}
    place.write_text(yaml.safe_dump({"clusters": [other], "current-context": "other", "preferences": {}}))
    place.chmod(0o640)
    for _ in range(2):  # a second time changes nothing
        assert run(folder, "kubeconfig", "--write", "--file", str(place)).exit_code == 0
    found: Any = yaml.safe_load(place.read_text())
    assert [each["name"] for each in found["clusters"]] == ["other", "makeway"]
    assert (found["current-context"], found["preferences"], place.stat().st_mode & 0o777) == ("makeway", {}, 0o600)
    link = tmp_path / "elsewhere" / "link"  # many keep theirs elsewhere
    link.parent.mkdir()
    link.symlink_to(place)
    assert run(folder, "kubeconfig", "--write", "--name", "again", "--file", str(link)).exit_code == 0
    assert link.is_symlink()
    assert yaml.safe_load(place.read_text())["current-context"] == "again"
    assert [each.name for each in link.parent.iterdir()] == ["link"]
    place.write_text("- not a kubeconfig\n")
    refused = run(folder, "kubeconfig", "--write", "--file", str(place))
    assert (refused.exit_code, place.read_text()) == (1, "- not a kubeconfig\n")


def test_decisions_are_made_and_shown(folder: Path, tmp_path: Path) -> None:
    job = {
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": "work", "namespace": "default", "labels": {"kueue.x-k8s.io/queue-name": "main"}},
        "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [
            {"name": "main", "image": "pause", "resources": {"requests": {"cpu": "1"}}}
        ]}}},
    }  # fmt: skip
    late = {**job, "metadata": {**job["metadata"], "name": "late"}}  # type: ignore[dict-item]
    files = tmp_path / "all.yaml"
    files.write_text(yaml.safe_dump_all([FLAVOR, queue(cpu=1), local_queue(), job]))
    assert run(folder, "apply", "-f", str(files)).exit_code == 0
    files.write_text(yaml.safe_dump(late))
    assert run(folder, "apply", "-f", str(files)).exit_code == 0
    pending = _visible(folder, "clusterqueues/team-a/pendingworkloads", "items")
    assert [each["positionInClusterQueue"] for each in pending] == [0]
    text = _client(folder, "/metrics").decode()
    assert 'kueue_admitted_workloads_total{cluster_queue="team-a"' in text


def _visible(folder: Path, path: str, key: str) -> Any:
    for _ in range(100):
        found = json.loads(_client(folder, f"/apis/visibility.kueue.x-k8s.io/v1beta2/{path}"))[key]
        if found:
            return found
    return []


def _client(folder: Path, path: str) -> bytes:
    from makeway.adapters.kubernetes.client import Client
    from makeway.cli.clients.connection import local_target

    with Client(local_target(folder)) as client:
        return client.send("GET", path).body


# --- its beginning and its end ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_in_order(tmp_path: Path, number: signal.Signals) -> None:
    server = started(tmp_path / "data")
    try:
        told = greeting(server)
        assert "makeway serves https://127.0.0.1:" in told
        assert "makeway apply --data" in told
        server.send_signal(number)
        _, errors = server.communicate(timeout=20)
    finally:
        server.kill()
    assert (server.returncode, errors) == (0, "\nstopping; what was acknowledged is stored\n")
    assert holder_of(tmp_path / "data") is None
    assert not (tmp_path / "data" / "address").exists()
    with open_store(tmp_path / "data", wall_clock) as store:
        assert int(store.resource_version) > 0


def test_what_was_there_is_there_after_a_restart(tmp_path: Path) -> None:
    data = tmp_path / "data"
    for expected in ("created", "unchanged"):
        detached(data)
        files = tmp_path / "queues.yaml"
        files.write_text(yaml.safe_dump_all([FLAVOR, queue(), local_queue()]))
        told = run(data, "apply", "-f", str(files))
        assert (told.exit_code, told.stdout.count(expected)) == (0, 3), told.output
        assert run(data, "down").stdout == f"the server in {data} has ended\n"


def test_nothing_runs_here(tmp_path: Path) -> None:
    assert run(tmp_path, "status").exit_code == 1
    assert run(tmp_path, "down").stdout == f"no server runs in {tmp_path}\n"
    assert "no server has been started in" in run(tmp_path, "token", "list").stderr
    assert "no server has been started in" in run(tmp_path, "kubeconfig").stderr


def test_a_bad_configuration_shows_all_its_problems(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(
        "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\n"
        "makeway:\n  claimTimeout: 0s\n  scoring: Best\n"
    )
    result = run(tmp_path / "data", "up", "--port", "0", "--config", str(config))
    assert result.exit_code == 1
    assert "makeway.claimTimeout" in result.stderr
    assert "makeway.scoring" in result.stderr
    assert "nothing is started: 2 errors" in result.stderr
    assert not (tmp_path / "data").exists()
    config.write_text("apiVersion: v1\nkind: Namespace\nmetadata: {name: a}\n")
    assert "is not a Configuration" in run(tmp_path / "data", "up", "--config", str(config)).stderr


def test_a_folder_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("")
    result = run(tmp_path / "data", "up", "--port", "0")
    assert result.exit_code == 1
    assert "cannot be used" in result.stderr
    assert os.path.isfile(tmp_path / "data")


# --- folders and files that are not in order -------------------------------------------------------------------------


@pytest.mark.parametrize("more", [[], ["--detach"], ["--leave-out-damaged"]], ids=["up", "detached", "leave out"])
def test_a_folder_that_others_may_write_to_is_refused(more: list[str], tmp_path: Path) -> None:
    tmp_path.chmod(0o770)
    (tmp_path / "makeway.db").touch()
    result = run(tmp_path, "up", *more)
    assert (result.exit_code, "chmod go-w" in result.stderr, "Traceback" in result.stderr) == (1, True, False)
    assert [each.name for each in tmp_path.iterdir()] == ["makeway.db"]
    tmp_path.chmod(0o700)


def test_a_damaged_file_is_refused_and_can_be_gone_on_with(tmp_path: Path) -> None:
    open_store(tmp_path, wall_clock).close()
    with closing(sqlite3.connect(tmp_path / "makeway.db", isolation_level=None)) as other:
        other.execute("UPDATE objects SET checksum = 0 WHERE name = 'kube-public'")
    refused = run(tmp_path, "up", "--port", "0")
    assert (refused.exit_code, "namespaces kube-public has changed" in refused.stderr) == (1, True)
    server = started(tmp_path, "--leave-out-damaged", "--no-node")
    try:
        assert "makeway serves" in greeting(server)
    finally:
        server.terminate()
        _, told = server.communicate(timeout=60)
    assert "left out: namespaces kube-public has changed since it was written" in told
    assert len(list(tmp_path.glob("makeway.db.damaged-*"))) == 1
