"""The commands around a server: it starts, says where it is, and ends as it should; who is in its way learns why."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from makeway.cli.main import main
from makeway.cli.serve import running_in

ROOT = Path(__file__).parents[2]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "PYTHONUNBUFFERED": "1", "NO_COLOR": "1"}
END_SECONDS = 60


def run(*arguments: str, env: dict[str, str] | None = None) -> Result:
    return CliRunner().invoke(main, list(arguments), env=env)


@contextmanager
def up(folder: Path, *options: str) -> Iterator[tuple[subprocess.Popen[str], list[str]]]:
    """A server in the foreground of another process, and what it said until it was ready."""
    command = [sys.executable, "-m", "makeway", "up", "--data", str(folder), "--port", "0", *options]
    process = subprocess.Popen(
        command, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    )
    assert process.stdout is not None
    try:
        said = []
        for line in process.stdout:
            said.append(line.rstrip())
            if line.startswith("  makeway down"):
                break
        yield process, said
    finally:
        if process.poll() is None:
            process.kill()
        process.wait(END_SECONDS)
        process.stdout.close()


# --- up and down ------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_it_says_where_it_is_and_what_to_try_and_ends_with_a_signal(tmp_path: Path) -> None:
    with up(tmp_path / "data") as (process, said):
        assert re.fullmatch(rf"makeway \S+ serves https://127\.0\.0\.1:\d+ from {tmp_path}/data", said[0])
        assert f"  makeway apply -f examples/quickstart --data {tmp_path}/data" in said
        told = json.loads(run("status", "--data", str(tmp_path / "data"), "-o", "json").stdout)
        assert (told["ready"], told["process"]) == (True, process.pid)
        process.send_signal(signal.SIGTERM)
        assert process.wait(END_SECONDS) == 0
    assert running_in(tmp_path / "data") is None
    files = {each.name: stat.S_IMODE(each.stat().st_mode) for each in (tmp_path / "data").iterdir()}
    assert stat.S_IMODE((tmp_path / "data").stat().st_mode) == 0o700
    assert {name: files[name] for name in ("makeway.db", "admin.token", "ca.key", "server.key")} == dict.fromkeys(
        ("makeway.db", "admin.token", "ca.key", "server.key"), 0o600
    )
    assert "ca.crt" in files
    assert "address" not in files


@pytest.mark.slow
def test_a_second_interrupt_ends_it_at_once(tmp_path: Path) -> None:
    with up(tmp_path) as (process, _):
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGINT)
        assert process.wait(END_SECONDS) in (0, 130), "where it was quicker it has ended well"


@pytest.mark.slow
def test_it_stays_in_the_background_until_it_is_told_to_stop(tmp_path: Path) -> None:
    folder = str(tmp_path / "data")
    started = subprocess.run(
        [sys.executable, "-m", "makeway", "up", "--detach", "--data", folder, "--port", "0"],
        env=ENVIRONMENT, capture_output=True, text=True, timeout=END_SECONDS,
    )  # fmt: skip
    try:
        assert started.returncode == 0, started.stderr
        assert f"from {folder}, process" in started.stdout
        again = run("up", "--data", folder, "--port", "0")
        assert again.exit_code == 1
        assert "is in use by another server (process " in again.stderr
        assert "`makeway down` stops it" in again.stderr
        background = run("up", "--detach", "--data", folder, "--port", "0")
        assert background.exit_code == 1
        assert "is in use by another server" in background.stderr
    finally:
        stopped = run("down", "--data", folder)
    assert (stopped.exit_code, "stopped process" in stopped.stdout) == (0, True)
    assert running_in(tmp_path / "data") is None


def test_a_port_that_is_taken_is_told_with_a_way_out(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        found = run("up", "--data", str(tmp_path), "--port", str(port))
    assert found.exit_code == 1
    assert f"port {port} of 127.0.0.1 is in use by another program" in found.stderr
    assert "`--port 0` takes a free one" in found.stderr


def test_an_address_of_another_machine_is_refused(tmp_path: Path) -> None:
    found = run("up", "--data", str(tmp_path), "--port", "0", "--listen", "192.0.2.1")
    assert (found.exit_code, "192.0.2.1 is no address of this machine" in found.stderr) == (1, True)


def test_what_is_no_address_is_wrong_usage(tmp_path: Path) -> None:
    found = run("up", "--data", str(tmp_path), "--listen", "example.com")
    assert (found.exit_code, "is no address of a machine" in found.stderr) == (2, True)


def test_a_folder_that_cannot_be_made_is_told_of(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    found = run("up", "--data", str(tmp_path / "file" / "data"), "--port", "0")
    assert found.exit_code == 1
    assert f"{tmp_path}/file/data" in found.stderr
    assert "internal" not in found.stderr


def test_a_file_that_is_not_ours_is_told_of(tmp_path: Path) -> None:
    (tmp_path / "makeway.db").write_bytes(b"not a database at all" * 100)
    found = run("up", "--data", str(tmp_path), "--port", "0")
    assert (found.exit_code, "cannot be opened" in found.stderr) == (1, True)


def test_all_that_is_wrong_with_a_configuration_is_told_at_once(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(
        "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\n"
        "makeway:\n  claimTimeout: 0s\n  overQuota: Maybe\n  nonsense: 1\n"
    )
    found = run("up", "--data", str(tmp_path / "data"), "--config", str(config))
    assert found.exit_code == 1
    assert "nothing is started: 3 errors" in found.stderr
    for path in ("makeway.claimTimeout", "makeway.overQuota", "makeway.nonsense"):
        assert path in found.stderr
    assert not (tmp_path / "data").exists()


def test_another_object_is_no_configuration(tmp_path: Path) -> None:
    flavor = tmp_path / "flavor.yaml"
    flavor.write_text("apiVersion: kueue.x-k8s.io/v1beta2\nkind: ResourceFlavor\nmetadata: {name: f}\nspec: {}\n")
    found = run("up", "--data", str(tmp_path / "data"), "--config", str(flavor))
    assert (found.exit_code, "is not a Configuration" in found.stderr) == (1, True)


def test_down_and_status_without_a_server_say_what_to_do(tmp_path: Path) -> None:
    stopped = run("down", "--data", str(tmp_path))
    assert (stopped.exit_code, "`makeway up` starts one" in stopped.stderr) == (1, True)
    found = run("status", "--data", str(tmp_path))
    assert (found.exit_code, "not running" in found.stdout) == (1, True)
    assert json.loads(run("status", "--data", str(tmp_path), "-o", "json").stdout)["running"] is False


# --- tokens and kubeconfigs -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder whose server does not run."""
    from tests.cli.living import living

    folder = tmp_path_factory.mktemp("data")
    with living(folder):
        pass
    return folder


def tokens(folder: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(run("token", "list", "--data", str(folder), "-o", "json").stdout)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("runs", [True, False])
def test_tokens_are_made_listed_and_revoked(folder: Path, runs: bool) -> None:
    """Through the server, and without one."""
    from tests.cli.living import living

    def play() -> None:
        made = run("token", "create", "--role", "viewer", "--name", "bob", "--expires", "1h", "--data", str(folder))
        assert made.exit_code == 0, made.output
        id_ = made.stdout.partition(".")[0]
        (bob,) = [each for each in tokens(folder) if each["name"] == "bob"]
        assert (bob["id"], bob["role"], bob["expires"] > bob["created"]) == (id_, "viewer", True)
        assert made.stdout.strip() not in run("token", "list", "--data", str(folder)).stdout
        revoked = run("token", "revoke", id_, "nobody", "--data", str(folder))
        assert (revoked.exit_code, revoked.stdout) == (1, f"revoked {id_}\n")
        assert "no token nobody" in revoked.stderr
        assert [each["name"] for each in tokens(folder)] == ["admin"]

    if runs:
        with living(folder):
            play()
    else:
        play()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--role", "root"], "'root' is not one of 'admin', 'viewer'"),
        (["--role", "viewer", "--expires", "soon"], "for example 90m, 12h or 720h"),
        (["--role", "viewer", "--expires", "0s"], "longer than nothing"),
        (["--role", "viewer", "--name", "x" * 65], "at most 64"),
    ],
)
def test_wrong_usage_of_token_create_is_told(options: list[str], words: str, tmp_path: Path) -> None:
    found = run("token", "create", *options, "--data", str(tmp_path))
    assert (found.exit_code, words in found.stderr) == (2, True), found.stderr


def test_without_a_folder_there_are_no_tokens(tmp_path: Path) -> None:
    for command in (["token", "list"], ["token", "create", "--role", "admin"], ["kubeconfig"]):
        found = run(*command, "--data", str(tmp_path))
        assert (found.exit_code, "`makeway up` starts one" in found.stderr) == (1, True)
    assert list(tmp_path.iterdir()) == []


def test_a_kubeconfig_has_all_that_a_client_needs(folder: Path) -> None:
    tree = yaml.safe_load(run("kubeconfig", "--data", str(folder), "--server", "https://example.test:1").stdout)
    (cluster,), (user,), (context,) = tree["clusters"], tree["users"], tree["contexts"]
    assert cluster["cluster"]["server"] == "https://example.test:1"
    assert cluster["cluster"]["certificate-authority-data"]
    assert user["user"]["token"] == (folder / "admin.token").read_text().strip()
    assert (tree["current-context"], context["context"]["user"]) == ("makeway", "makeway")


def test_a_kubeconfig_is_merged_into_the_one_there_is(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "config"
    other = {"name": "prod", "cluster": {"server": "https://prod.test"}}
    old = {"name": "makeway", "cluster": {"server": "https://old.test"}}
    kept = {"clusters": [old, other], "contexts": [], "current-context": "prod", "preferences": {"colors": True}}
    path.write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "Config", **kept}))
    found = run("kubeconfig", "--write", "--data", str(folder), env={"KUBECONFIG": str(path)})
    assert (found.exit_code, "kubectl config use-context makeway" in found.stdout) == (0, True)
    tree = yaml.safe_load(path.read_text())
    assert [each["name"] for each in tree["clusters"]] == ["prod", "makeway"]
    assert tree["clusters"][1]["cluster"]["server"].startswith("https://127.0.0.1:")
    assert (tree["current-context"], tree["preferences"]) == ("prod", {"colors": True})
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_file_that_is_no_kubeconfig_is_left_as_it_is(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "config"
    for text in ("clusters: nonsense\n", "[1, 2\n", "a: 1\n---\nb: 2\n"):
        path.write_text(text)
        found = run("kubeconfig", "--write", "--data", str(folder), env={"KUBECONFIG": str(path)})
        assert (found.exit_code, path.read_text()) == (1, text)
        assert "is left as it is" in found.stderr


def test_the_first_kubeconfig_makes_its_folder(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "new" / "config"
    found = run("kubeconfig", "--write", "--data", str(folder), env={"KUBECONFIG": str(path)})
    assert (found.exit_code, "hint" in found.stdout) == (0, False)
    assert yaml.safe_load(path.read_text())["current-context"] == "makeway"
