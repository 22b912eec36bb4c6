"""Runs the property tests at large counts: fixed seeds first, then new ones until the time is up.

A round is one pytest run over the tests marked ``property``. The first round always draws the same (profile ``soak``).
Later rounds take new seeds, or those that follow from ``--seed``, so that two runs in CI can be compared. A round knows
how much time is left (``MAKEWAY_SOAK_UNTIL``, see ``tests/soaking.py``) and shares it among the properties. A property
that was cut short is reported as skipped, a loop over seeds ends early, and a failure that came in time is still shrunk
and shown. The first round may take half of the time. A round that fails is the last one; it prints the one command that
replays it. Otherwise the last line is the closing line of pytest.

``--kills`` and ``--objects`` do one part of the soak that many times instead, without a limit of time: kill -9 under
write load and with jobs at work, or writes of random objects.

A replay collects the same files as the round did, and only then picks the test: hypothesis also draws constants from
the loaded modules, so that other files would mean other draws.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import secrets
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
FUZZ_INPUTS = 20_000
SHORTEST_ROUND_SECONDS = 15  # a shorter round would hardly begin
SHRINK_SECONDS = 400  # hypothesis shrinks for five minutes at most
COUNTED = {  # parts of a soak that can be counted: the setting, and the tests that obey it
    "kills": ("MAKEWAY_KILLS", ["tests/cli/test_kills.py", "tests/end_to_end/test_kills.py"]),
    "objects": ("MAKEWAY_OBJECTS", ["tests/end_to_end/test_object_fuzz.py"]),
}
FAILED = re.compile(r"^(?:FAILED|ERROR) \S+?\.py::(\S+)", re.MULTILINE)
PICKED = re.compile(r"[\w:+.\[\]/-]+")  # a name in an expression of pytest


@dataclass(frozen=True)
class Round:
    """One pytest run; equal rounds draw equal inputs."""

    profile: str
    seed: int

    @property
    def settings(self) -> dict[str, str]:
        return {
            "HYPOTHESIS_PROFILE": self.profile,
            "MAKEWAY_FUZZ_INPUTS": str(FUZZ_INPUTS),
            "MAKEWAY_FUZZ_SEED": str(self.seed),
        }

    @property
    def arguments(self) -> list[str]:
        return ["-m", "pytest", "-q", "-m", "property", f"--hypothesis-seed={self.seed}"]

    def replay(self, output: str) -> str:
        """Give the one command that runs the tests which failed in ``output`` on the same inputs."""
        words = [f"{name}={value}" for name, value in self.settings.items()]
        words += [".venv/bin/python", *self.arguments]
        if failed := sorted({picked(test) for test in FAILED.findall(output)}):
            words += ["-k", " or ".join(failed)]
        return shlex.join(words)


def picked(test: str) -> str:
    """The pytest expression that picks a test by name; with all its cases if the parameters are no name."""
    names = (name if PICKED.fullmatch(name) else name.partition("[")[0] for name in test.split("::"))
    return " and ".join(names)


def rounds(seed: int | None) -> Iterator[Round]:
    dice = random.Random(secrets.randbits(64) if seed is None else seed)
    yield Round("soak", seed=0)
    while True:
        yield Round("search", seed=dice.randrange(2**32))


def run(one: Round, until: float, jobs: int) -> tuple[int, str]:
    """Run a round until the monotonic time ``until``; answer pytest's exit code and what it printed."""
    process = subprocess.Popen(
        [sys.executable, *one.arguments, "-p", "no:cacheprovider", "-n", str(jobs), "--dist", "worksteal"],
        cwd=ROOT,
        env={**os.environ, **one.settings, "MAKEWAY_SOAK_UNTIL": str(until)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=max(0.0, until - time.monotonic()) + SHRINK_SECONDS)
    except BaseException as stopped:
        os.killpg(process.pid, signal.SIGKILL)
        output, _ = process.communicate()
        if not isinstance(stopped, subprocess.TimeoutExpired):
            raise
        return 1, f"{output}\nsoak: the round did not end and was stopped\n"
    return process.returncode, output


def counted(counts: Mapping[str, int], seed: int, jobs: int) -> tuple[list[str], dict[str, str]]:
    """The command and the settings that run parts of the soak a given number of times."""
    files = [file for part in counts for file in COUNTED[part][1]]
    settings = {COUNTED[part][0]: str(count) for part, count in counts.items()} | {"MAKEWAY_FUZZ_SEED": str(seed)}
    return ["-m", "pytest", "-q", "-rP", "-m", "property", "-n", str(jobs), *files], settings


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="tools/soak.py", description="Run the property tests at large counts.")
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seed", type=int, help="of the rounds after the first; without it they are new each time")
    for part in COUNTED:
        parser.add_argument(f"--{part}", type=int, help="do this part alone, so many times")
    chosen = parser.parse_args(argv)
    start = time.monotonic()
    if counts := {part: count for part in COUNTED if (count := getattr(chosen, part)) is not None}:
        command, settings = counted(counts, chosen.seed or 0, chosen.jobs)
        code = subprocess.run([sys.executable, *command], cwd=ROOT, env={**os.environ, **settings}).returncode
        print(f"soak: {counts} took {time.monotonic() - start:.0f} s")
        return code
    end = start + 60 * chosen.minutes
    for number, one in enumerate(rounds(chosen.seed), start=1):
        left = end - time.monotonic()
        if number > 1 and left < SHORTEST_ROUND_SECONDS:
            break
        print(f"soak: round {number}, profile {one.profile}, seed {one.seed}, {left:.0f} s left", flush=True)
        code, output = run(one, (start + end) / 2 if number == 1 else end, chosen.jobs)
        if code != 0:
            print(output)
            print("soak: failed; this command replays it\n")
            print(one.replay(output))
            return 1
        print(output.rstrip().rpartition("\n")[2], flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
