"""Times of any length from users: in a Configuration of a whole server, and as options of commands."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from makeway.api.objects.configuration import Configuration
from makeway.api.quantity import Time
from makeway.api.schema.shapes import Leaf, Record, shape_of
from makeway.cli.main import main
from tests.end_to_end.machine import Machine, flavor, priority, queue, shell

pytestmark = pytest.mark.slow
DAY_S, YEAR_S = 86_400, 31_557_600
MOST = 2**63 // 10**9  # the greatest duration in seconds
SPANS = {"25 days": 25 * DAY_S, "10 years": 10 * YEAR_S, "292 years": MOST, "one more": MOST + 1, "no end": 10**30}
CONFIG = {"apiVersion": "config.kueue.x-k8s.io/v1beta2", "kind": "Configuration"}


def all_durations(shape: Record, seconds: int) -> dict[str, Any]:
    """A Configuration, or a part of one, in which every duration has this length."""
    said: dict[str, Any] = {}
    for name, field in shape.fields.items():
        if isinstance(field.shape, Leaf) and field.shape.name == "duration":
            said[name] = f"{seconds}s"
        elif isinstance(field.shape, Leaf) and name.endswith("Seconds"):
            said[name] = min(seconds, 2**31 - 1)
        elif isinstance(field.shape, Record) and name != "metadata" and (inner := all_durations(field.shape, seconds)):
            said[name] = inner
    return said


# --- a server --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("span", ["25 days", "292 years"])
def test_a_server_all_of_whose_times_are_long_does_its_work(tmp_path: Path, span: str) -> None:
    folder, config = tmp_path / "data", tmp_path / "config.yaml"
    folder.mkdir()
    settings = all_durations(shape_of(Configuration), SPANS[span])
    assert settings["makeway"]["events"] == {"ttl": f"{SPANS[span]}s"}
    settings["makeway"]["wakeBatchInterval"] = "0s"  # with a long interval a wake would come too late
    config.write_text(json.dumps({**CONFIG, **settings}))
    machine = Machine(folder, "--config", str(config), "--node-capacity", "cpu=4,memory=4Gi")
    try:
        within = {"withinClusterQueue": "LowerPriority"}
        machine.apply(flavor(), priority("high", 9), *queue("all", 1, preemption=within))
        machine.apply(shell("low", "sleep 9999", grace=1))
        machine.until_running("low")
        machine.apply(shell("high", "echo ran", priority="high"))
        machine.until_ended("high")
        machine.kill()
        machine.start()
        assert machine.log("high") == b"ran\n"
        assert "Preempted" in machine.reasons("Workload")
        machine.until_running("low")
        machine.close()
    finally:
        machine.abandon()


# --- commands --------------------------------------------------------------------------------------------------------


def spans_of(command: click.Command, path: str = "") -> Iterator[tuple[str, click.Option]]:
    """All options with a time, by their command and name."""
    if isinstance(command, click.Group):
        for name in command.list_commands(click.Context(command)):
            inner = command.get_command(click.Context(command), name)
            assert inner is not None
            yield from spans_of(inner, f"{path} {name}".strip())
        return
    for option in command.params:
        if isinstance(option, click.Option) and not option.is_flag and option.metavar != "TIME":
            words = f"{option.type.name} {option.metavar} {option.name} {option.help}".lower()
            if any(each in words for each in ("duration", "span", "second", "timeout", "time")):
                yield f"{path} {option.opts[-1]}", option


def spoken(option: click.Option, seconds: int) -> str:
    """The value for this option: a duration, or a number of seconds."""
    takes_number = isinstance(option.type, click.FloatRange | click.IntRange)
    return str(seconds) if takes_number else f"{seconds}s"


class Commands:
    def __init__(self, machine: Machine, folder: Path) -> None:
        self.machine = machine
        self.folder = folder
        self._made = 0

    def run(self, *arguments: str) -> Result:
        settings = {"KUBECONFIG": "", "XDG_DATA_HOME": str(self.folder)}
        return CliRunner().invoke(main, list(arguments), env=settings)

    def ask(self, *arguments: str) -> Result:
        return self.run(*arguments, "--data", str(self.machine.folder))

    def job(self, script: str) -> str:
        self._made += 1
        name = f"j{self._made}"
        self.machine.apply(shell(name, script))
        return name


def _logs(on: Commands, span: str) -> Result:
    name = on.job("echo said")
    on.machine.until_ended(name)
    done = on.ask("logs", name, "--since", span)
    assert done.exit_code != 0 or done.stdout == "said\n"
    return done


def _wait(on: Commands, span: str) -> Result:
    return on.ask("wait", on.job("sleep 0.5"), "--timeout", span)


def _grace(on: Commands, span: str) -> Result:
    """The process ends on request, and not before it has done its last work."""
    name = on.job("trap 'sleep 0.3; exit 0' TERM; echo up; while :; do sleep 0.05; done")
    on.machine.until_running(name)
    on.machine.until(lambda: on.machine.log(name) == b"up\n", "it has begun")
    return on.ask("delete", "pod", on.machine.pod(name)["metadata"]["name"], "--grace-period", span, "--wait")


def _delete(on: Commands, span: str) -> Result:
    return on.ask("delete", "job", on.job("sleep 0.5"), "--wait", "--timeout", span)


def _down(on: Commands, span: str) -> Result:
    done = on.ask("down", "--timeout", span)
    if done.exit_code == 0:
        process = on.machine.process
        assert process is not None
        assert process.wait(30) == 0
        on.machine.start()
    return done


def _submit(on: Commands, span: str) -> Result:
    data, folder = str(on.machine.folder), str(on.folder)
    return on.run("submit", "--data", data, "--workdir", folder, "--time", span, "--", "true")


def _token(on: Commands, span: str) -> Result:
    done = on.ask("token", "create", "--role", "viewer", "--expires", span, "-o", "json")
    if done.exit_code == 0:
        assert Time.parse(json.loads(done.stdout)["expires"]).millis > 1_790_000_000_000
    return done


def _simulated(option: str) -> Callable[[Commands, str], Result]:
    def simulate(on: Commands, span: str) -> Result:
        path = on.folder / "manifests.json"
        objects = [flavor(), priority("high", 9), *queue("all", 1), shell("a", "x"), shell("b", "x")]
        path.write_text("\n---\n".join(map(json.dumps, objects)))
        return on.run("simulate", "-f", str(path), option, span)

    return simulate


COMMANDS: dict[str, Callable[[Commands, str], Result]] = {
    "delete --grace-period": _grace,
    "delete --timeout": _delete,
    "down --timeout": _down,
    "logs --since": _logs,
    "simulate --eviction": _simulated("--eviction"),
    "simulate --until": _simulated("--until"),
    "submit --time": _submit,
    "token create --expires": _token,
    "wait --timeout": _wait,
}
NOT_TRIED = {"bench --seconds": "it takes so long", "simulate --arrivals": "a file"}


def test_every_option_that_takes_a_time_is_tried() -> None:
    assert {name for name, _ in spans_of(main)} == set(COMMANDS) | set(NOT_TRIED)


@pytest.fixture(scope="module")
def commands(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Commands]:
    base = tmp_path_factory.mktemp("machine")
    (base / "data").mkdir()
    machine = Machine(base / "data")
    try:
        machine.apply(flavor(), *queue("all", 8))
        yield Commands(machine, base)
        machine.close()
    finally:
        machine.abandon()


REFUSED = {  # the first refused value, and the words
    "delete --grace-period": (2**63, "gracePeriodSeconds: is outside the range of int64"),
    "submit --time": (2**31, "is not between a second and 68 years"),
}
TOO_LONG = (MOST + 1, "it is longer than 64-bit nanoseconds")


@pytest.mark.parametrize("span", SPANS)
@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_takes_any_time_or_says_in_words_why_not(commands: Commands, name: str, span: str) -> None:
    option, seconds = dict(spans_of(main))[name], SPANS[span]
    done = COMMANDS[name](commands, spoken(option, seconds))
    assert done.exception is None or isinstance(done.exception, SystemExit), done.output
    most, words = REFUSED.get(name, TOO_LONG)
    if seconds < most or isinstance(option.type, click.FloatRange):  # a number of seconds may be infinite
        assert done.exit_code == 0, done.output
    else:
        assert done.exit_code in (1, 2)
        assert words in done.stderr or TOO_LONG[1] in done.stderr
        assert name.rpartition(" ")[2] in done.stderr or name in REFUSED
