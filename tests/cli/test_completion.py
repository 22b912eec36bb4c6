"""Shell completion: the scripts, and the completed names."""

from __future__ import annotations

import subprocess
from pathlib import Path
from shutil import which

import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner

from makeway.cli.main import main
from tests.cli.conftest import Server, local_queue, queue


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_shell_has_a_script(shell: str) -> None:
    result = CliRunner().invoke(main, ["completion", shell])
    assert result.exit_code == 0
    assert "_MAKEWAY_COMPLETE" in result.stdout
    assert result.stderr == ""


@pytest.mark.skipif(which("bash") is None, reason="no bash here")
def test_bash_takes_its_script(tmp_path: Path) -> None:
    script = tmp_path / "completion.bash"
    script.write_text(CliRunner().invoke(main, ["completion", "bash"]).stdout)
    checked = subprocess.run(["bash", "-c", f"source {script} && complete -p makeway"], capture_output=True, text=True)
    assert checked.stdout.endswith(" makeway\n")


def test_an_unknown_shell_is_wrong_usage() -> None:
    assert CliRunner().invoke(main, ["completion", "tcsh"]).exit_code == 2


def completed(server: Server, monkeypatch: pytest.MonkeyPatch, *words: str) -> list[str]:
    monkeypatch.setenv("XDG_DATA_HOME", str(server.base))
    *before, incomplete = words
    shell = ShellComplete(main, {}, "makeway", "_MAKEWAY_COMPLETE")
    return [item.value for item in shell.get_completions(before, incomplete)]


def test_commands_kinds_and_names(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    server.put(queue("team-a"))
    server.put(queue("team-b"))
    server.put(local_queue("only", "research"))
    assert completed(server, monkeypatch, "des") == ["describe"]
    assert completed(server, monkeypatch, "get", "cluster") == ["clusterqueues"]
    assert completed(server, monkeypatch, "get", "cq", "team-") == ["team-a", "team-b"]
    assert completed(server, monkeypatch, "get", "cq/team-b") == ["cq/team-b"]
    assert completed(server, monkeypatch, "describe", "-n", "research", "lq", "") == ["only"]
    assert completed(server, monkeypatch, "delete", "-n", "rese") == ["research"]
    assert completed(server, monkeypatch, "queues", "team-b") == ["team-b"]
    assert completed(server, monkeypatch, "get", "-o", "y") == ["yaml"]


def test_without_a_server_there_are_no_names_and_no_noise(
    server: Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    shell = ShellComplete(main, {}, "makeway", "_MAKEWAY_COMPLETE")
    assert shell.get_completions(["get", "cq"], "") == []
    assert shell.get_completions(["get", "teapots"], "") == []
    assert capsys.readouterr() == ("", "")
