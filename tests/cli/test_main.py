"""The root command: its list of commands, errors, and imports."""

from __future__ import annotations

import importlib
import json
import os
import pkgutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from makeway import __version__
from makeway.cli.listing import GROUPS
from makeway.cli.main import COMMANDS, main

SRC = Path(__file__).parents[2] / "src"
PRINT_MUCH = "from makeway.cli.main import main; main(['crds'])"


def python(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(SRC)}
    return subprocess.run(
        [sys.executable, *arguments], env=environment, capture_output=True, text=True, timeout=60, check=False
    )


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> Callable[[BaseException], None]:
    """Let ``makeway version`` fail with an error."""

    def fail_with(error: BaseException) -> None:
        @click.command()
        def version() -> None:
            raise error

        monkeypatch.setattr("makeway.cli.version.version", version)

    return fail_with


def test_help_lists_the_commands_and_exits_0() -> None:
    for option in ("-h", "--help"):
        result = CliRunner().invoke(main, [option])
        assert result.exit_code == 0
        assert all(f"  {name} " in result.stdout for name in COMMANDS)
        assert all(f"\n{group}:\n" in result.stdout for group in GROUPS)


def test_every_command_is_listed() -> None:
    """The help imports no commands; here all modules of their folders are imported."""
    commands: list[click.Command] = []
    for folder in (folder for folders in GROUPS.values() for folder in folders):
        package = importlib.import_module(f"makeway.{folder.replace('/', '.')}")
        for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
            if not module.ispkg:
                values = vars(importlib.import_module(module.name)).values()
                commands += [value for value in values if isinstance(value, click.Command) and value is not main]
    parts = {id(part) for group in commands if isinstance(group, click.Group) for part in group.commands.values()}
    assert {command.name for command in commands if id(command) not in parts} == set(COMMANDS)


def test_the_help_says_of_each_command_what_the_command_says_of_itself() -> None:
    context = click.Context(main)
    for name, place in COMMANDS.items():
        command = main.get_command(context, name)
        assert command is not None
        assert command.get_short_help_str(limit=200) == place.summary
        assert command.name == name


def test_version_as_text_and_as_json(tmp_path: Path) -> None:
    nowhere = {"XDG_DATA_HOME": str(tmp_path)}
    assert CliRunner().invoke(main, ["version"], env=nowhere).stdout == f"makeway {__version__}\n"
    result = CliRunner().invoke(main, ["version", "-o", "json"], env=nowhere)
    assert json.loads(result.stdout)["version"] == __version__


def test_an_unknown_command_suggests_the_nearest() -> None:
    result = CliRunner().invoke(main, ["validte"])
    assert result.exit_code == 2
    assert result.stdout == ""
    assert "Error: no such command `validte`\n\nhint: did you mean `validate`?\n" in result.stderr


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("down --timeout nan", "'nan' is not a number of seconds"),
        ("delete job x --timeout NaN", "'NaN' is not a number of seconds"),
        ("wait x --timeout -5s", "--timeout: '-5s' is negative"),
        ("logs x --since -1m", "--since: '-1m' is negative"),
    ],
)
def test_a_time_that_would_never_be_over_is_refused(command: str, says: str) -> None:
    result = CliRunner().invoke(main, command.split())
    assert result.exit_code == 2
    assert says in result.stderr


def test_an_unknown_command_that_is_near_nothing_lists_them_all() -> None:
    result = CliRunner().invoke(main, ["zzz"])
    assert f"hint: the commands are {', '.join(sorted(COMMANDS))}\n" in result.stderr


def test_an_unknown_option_is_wrong_usage() -> None:
    assert CliRunner().invoke(main, ["--zzz"]).exit_code == 2
    assert CliRunner().invoke(main, ["version", "--zzz"]).exit_code == 2


def test_an_internal_error_is_one_line_and_how_to_report_it(failing: Callable[[BaseException], None]) -> None:
    failing(ValueError("two\nlines"))
    result = CliRunner().invoke(main, ["version"])
    assert result.exit_code == 70
    assert result.stderr == (
        "makeway: internal error: ValueError: two lines\n"
        "hint: this is a fault of makeway; run it again with MAKEWAY_DEBUG=1 and report what it prints\n"
    )


def test_an_internal_error_shows_its_traceback_when_asked(
    failing: Callable[[BaseException], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MAKEWAY_DEBUG", "1")
    failing(ValueError("boom"))
    result = CliRunner().invoke(main, ["version"])
    assert isinstance(result.exception, ValueError)


def test_an_interrupt_exits_with_130_and_no_traceback(failing: Callable[[BaseException], None]) -> None:
    failing(KeyboardInterrupt())
    result = CliRunner().invoke(main, ["version"])
    assert (result.exit_code, result.stdout, result.stderr) == (130, "", "\n")


def test_a_full_disk_is_no_internal_error() -> None:
    if not os.path.exists("/dev/full"):
        pytest.skip("this system has no /dev/full")
    command = f"import os; os.dup2(os.open('/dev/full', os.O_WRONLY), 1); {PRINT_MUCH}"
    result = python("-c", command)
    assert (result.returncode, result.stderr) == (
        74, "makeway: the output cannot be written: No space left on device\n",
    )  # fmt: skip


def test_a_closed_pipe_ends_it_quietly() -> None:
    """The read end is closed before anything is written."""
    command = f"import os; r, w = os.pipe(); os.close(r); os.dup2(w, 1); {PRINT_MUCH}"
    result = python("-c", command)
    assert (result.returncode, result.stderr) == (141, "")


def test_the_module_is_the_program() -> None:
    result = python("-m", "makeway", "version", "--client")
    assert (result.returncode, result.stdout, result.stderr) == (0, f"makeway {__version__}\n", "")


def test_importing_the_command_line_imports_little() -> None:
    """Modules are counted, not milliseconds: the same on every machine."""
    result = python("-c", "import sys, makeway.cli.main; print('\\n'.join(sys.modules))")
    modules = result.stdout.split()
    assert [name for name in modules if name.partition(".")[0] in ("yaml", "rich", "numpy", "msgspec", "json")] == []
    assert [name for name in modules if name.startswith("makeway.")] == [
        "makeway.cli",
        "makeway.cli.listing",
        "makeway.cli.main",
    ]


def test_a_simulation_without_nodes_does_without_numpy() -> None:
    """numpy would cost 14 MB, and a tenth of a second at every start."""
    result = python("-c", "import makeway.cli.offline.simulate as _; import sys; print('numpy' in sys.modules)")
    assert result.stdout == "False\n"


def test_the_help_and_the_version_import_no_more() -> None:
    for arguments, more in ((["--help"], []), (["version", "--client"], ["makeway.cli.version"])):
        code = f"import sys; from makeway.cli.main import main; main({arguments!r}, standalone_mode=False)"
        result = python("-c", f"{code}; print('\\n'.join(n for n in sys.modules if 'makeway.' in n), file=sys.stderr)")
        assert result.stderr.split() == ["makeway.cli", "makeway.cli.listing", "makeway.cli.main", *more]
