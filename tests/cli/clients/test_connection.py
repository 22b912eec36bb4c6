"""The server of a command, and errors on the way to it: a sentence, and a next step."""

from __future__ import annotations

import base64
import json
import socket
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from makeway import __version__
from makeway.adapters.kubernetes.errors import NotTrusted, Unauthorized
from makeway.cli.clients.connection import LOCAL, failure
from makeway.cli.main import main
from makeway.runtime.ports import Conflict, Expired, Forbidden, Invalid, NotFound, StoreError, TimedOut, Unavailable
from tests.cli.conftest import Server, queue


def kubeconfig(server: Server, path: Path, **user: Any) -> Path:
    authority = base64.b64encode((server.folder / "ca.crt").read_bytes()).decode()
    token = (server.folder / "admin.token").read_text().strip()
    tree = {
        "current-context": "lab",
        "clusters": [{"name": "c", "cluster": {"server": server.url, "certificate-authority-data": authority}}],
        "users": [{"name": "u", "user": user or {"token": token}}],
        "contexts": [{"name": "lab", "context": {"cluster": "c", "user": "u", "namespace": "research"}}],
    }
    path.write_text(yaml.safe_dump(tree))
    return path


def run(*arguments: str, **environment: str) -> Result:
    return CliRunner().invoke(main, list(arguments), env={"KUBECONFIG": "", **environment})


def test_the_local_server_is_found_by_its_data_folder(server: Server, tmp_path: Path) -> None:
    server.put(queue())
    assert server.told("get", "cq", "-o", "name") == "clusterqueue.kueue.x-k8s.io/team-a\n"
    elsewhere = {"XDG_DATA_HOME": str(tmp_path)}
    assert run("get", "cq", "-o", "name", "--data", str(server.folder), **elsewhere).stdout.count("\n") == 1


def test_another_server_is_named_by_a_kubeconfig(server: Server, tmp_path: Path) -> None:
    server.put(queue())
    file = str(kubeconfig(server, tmp_path / "config"))
    nowhere = {"XDG_DATA_HOME": str(tmp_path)}
    assert run("get", "cq", "-o", "name", "--kubeconfig", file, **nowhere).stdout.count("\n") == 1
    assert run("get", "lq", "--kubeconfig", file, **nowhere).stderr == "no localqueues in namespace research\n"
    assert run("get", "cq", "-o", "name", "--context", "lab", **{**nowhere, "KUBECONFIG": file}).stdout.count("\n") == 1


def test_a_kubeconfig_in_the_environment_is_not_taken_for_the_local_server(server: Server, tmp_path: Path) -> None:
    file = str(kubeconfig(server, tmp_path / "config"))
    result = run("get", "cq", XDG_DATA_HOME=str(tmp_path), KUBECONFIG=file)
    assert result.exit_code == 1
    assert result.stderr == (
        f"Error: no server has been started in {tmp_path}/makeway\n\n"
        "hint: `makeway up` starts one; `--kubeconfig FILE` talks to another\n"
    )


def test_what_a_kubeconfig_lacks_is_told(server: Server, tmp_path: Path) -> None:
    file = str(kubeconfig(server, tmp_path / "config", exec={"command": "aws"}))
    result = run("get", "cq", "--kubeconfig", file)
    assert result.exit_code == 1
    assert "user u: `exec` starts another program to get its credentials" in result.stderr
    assert "hint: put a token into the user's entry" in result.stderr
    assert run("get", "cq", "--kubeconfig", "gone").stderr.startswith("Error: gone: no such file\n")
    assert run("get", "cq", "--kubeconfig", file, "--data", "x").exit_code == 2


def test_a_token_that_nobody_knows(server: Server, tmp_path: Path) -> None:
    file = str(kubeconfig(server, tmp_path / "config", token="nobody.knows"))
    result = run("get", "cq", "--kubeconfig", file)
    assert (result.exit_code, result.stdout) == (1, "")
    assert "hint: the token is not known there: make a new one with `makeway token create`\n" in result.stderr


def test_a_viewer_may_look_and_not_change(server: Server, tmp_path: Path) -> None:
    server.put(queue())
    file = str(kubeconfig(server, tmp_path / "config", token=server.access.issue("anna", "viewer")))
    assert run("get", "cq", "-o", "name", "--kubeconfig", file).stdout.count("\n") == 1
    assert run("queues", "-o", "name", "--kubeconfig", file).exit_code == 0
    for arguments in (["delete", "cq", "team-a"], ["get", "secrets", "-A"]):
        result = run(*arguments, "--kubeconfig", file)
        assert (result.exit_code, result.stdout) == (1, "")
        assert 'is forbidden: User "anna" cannot' in result.stderr
        assert "hint: ask with a token of another role" in result.stderr


def test_a_server_that_does_not_run(server: Server, tmp_path: Path) -> None:
    folder = tmp_path / "makeway"
    folder.mkdir()
    for name in ("ca.crt", "admin.token"):
        (folder / name).write_bytes((server.folder / name).read_bytes())
    stopped = run("get", "cq", XDG_DATA_HOME=str(tmp_path))
    assert (stopped.exit_code, stopped.stderr) == (
        1, f"Error: the server of {folder} does not run\n\n"
        "hint: `makeway up` starts it; `--kubeconfig FILE` talks to another\n",
    )  # fmt: skip
    with socket.create_server(("127.0.0.1", 0)) as taken:  # the server was killed
        (folder / "address").write_text(f"https://127.0.0.1:{taken.getsockname()[1]}")
    result = run("get", "cq", XDG_DATA_HOME=str(tmp_path))
    assert result.exit_code == 1
    assert result.stderr.startswith("Error: the local server cannot be reached: ")
    assert result.stderr.endswith("hint: `makeway status` says whether it runs, `makeway up` starts it\n")


def test_a_folder_that_is_not_ours(tmp_path: Path) -> None:
    (tmp_path / "admin.token").mkdir()
    result = run("get", "cq", "--data", str(tmp_path))
    assert "cannot be read: Is a directory" in result.stderr
    assert "hint: run this as the account that runs the server" in result.stderr


@pytest.mark.parametrize(
    ("error", "hint"),
    [
        (Unauthorized("no"), "token"),
        (Forbidden("no"), "another role"),
        (NotTrusted("no"), "the server that was meant"),
        (TimedOut("no"), "nobody knows whether it was done"),
        (Unavailable("cannot be reached: no"), "makeway up"),
        (Unavailable("its file is gone"), "makeway status"),
        (Expired("no"), "try again"),
        (NotFound("no"), "makeway get KIND -A"),
        (NotFound("the server could not find the requested resource"), "makeway crds"),
        (Conflict("no"), "somebody else"),
        (Invalid([]), "makeway validate"),
        (StoreError(""), "log"),
    ],
)
def test_every_error_ends_in_a_next_step(error: StoreError, hint: str) -> None:
    told = failure(error, LOCAL)
    assert told.exit_code == 1
    first, _, last = told.message.partition("\n\nhint: ")
    assert hint in last
    assert first


def test_what_a_server_says_does_not_steer_the_terminal() -> None:
    assert "\x1b" not in failure(NotFound("a\x1b[31mb\nc"), LOCAL).message


# --- version ---------------------------------------------------------------------------------------------------------


def test_the_version_of_this_program_and_of_the_server(server: Server, tmp_path: Path) -> None:
    assert server.told("version") == f"makeway {__version__}\nserver v1.37.0+makeway\n"
    assert server.told("version", "--client") == f"makeway {__version__}\n"
    assert json.loads(server.told("version", "-o", "json"))["server"]["gitVersion"] == "v1.37.0+makeway"
    assert yaml.safe_load(server.told("version", "-o", "yaml"))["version"] == __version__
    assert server.told("version", "-o", "name") == f"makeway/{__version__}\n"


def test_a_server_that_says_nothing_is_no_failure(server: Server, tmp_path: Path) -> None:
    result = run("version", "--kubeconfig", "gone", XDG_DATA_HOME=str(tmp_path))
    assert (result.exit_code, result.stdout, result.stderr) == (
        0, f"makeway {__version__}\n", "makeway: gone: no such file\n",
    )  # fmt: skip
