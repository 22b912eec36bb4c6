"""Runs 200 fixed simulations and some 300 other commands on two revisions, and compares every byte.

This is for changes that must not change behaviour. A journal has every decision with its reasons, and other commands
print the texts that people read. ``make same SINCE=REVISION`` compares the checkout with a revision. That revision also
makes the inputs, so that both read the same files. Its answers are kept in the checkout's ``.venv`` for the next time.
Prints what differs, and how many differ; exits 1 if anything differs.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import io
import json
import os
import random
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
KEPT = ROOT / ".venv" / "same"
FAULTS = ("none", "watch", "writes", "crashes", "clock", "unreadable", "all")
EVICTIONS = ("0s", "20s", "5s")
WORLDS = 90  # every world runs twice: classical and fair
PARITY = 8
PLANS = 50
BROKEN = 220
EXAMPLES = ("borrowing", "first-queue", "preemption", "quickstart", "taking-turns", "time-sharing")
MEASURED = re.compile(r'"cpuSeconds": [\d.]+')  # differs from run to run
JOURNAL = "JOURNAL"  # in the arguments of a case, stands for a file to write
FAIR = {
    "apiVersion": "config.kueue.x-k8s.io/v1beta2",
    "kind": "Configuration",
    "fairSharing": {"preemptionStrategies": ["LessThanOrEqualToFinalShare", "LessThanInitialShare"]},
}
PROFILE = {"apiVersion": "config.kueue.x-k8s.io/v1beta2", "kind": "Configuration", "makeway": {"profile": "parity"}}
MAKE = """
import json, sys
from makeway.cli.main import COMMANDS
from makeway.testing.worlds import documents
json.dump([sorted(COMMANDS), [documents(seed) for seed in range(int(sys.argv[1]))]], sys.stdout)
"""
Case = tuple[str, list[str]]  # its name, and its arguments


# --- the inputs -------------------------------------------------------------------------------------------------------


def write_inputs(tree: Path, folder: Path) -> list[Case]:
    """Write the files of all cases; return the cases."""
    made = subprocess.run(
        [sys.executable, "-c", MAKE, str(WORLDS)], env=_environment(tree), capture_output=True, check=True
    )
    commands, worlds = json.loads(made.stdout)
    for name, config in (("fair", FAIR), ("parity", PROFILE)):
        (folder / f"{name}.yaml").write_text(json.dumps(config))
    for seed, documents in enumerate(worlds):
        write_documents(folder / f"world-{seed}.yaml", documents)
    dice = random.Random("same")
    for number in range(BROKEN):
        write_documents(folder / f"broken-{number}.yaml", broken(dice, worlds[number % WORLDS]))
    for name in (*EXAMPLES, "fair-sharing", "gangs"):
        target = folder / name
        target.mkdir()
        for file in (tree / "examples" / name).glob("*.yaml"):
            (target / file.name).write_bytes(file.read_bytes())
    return [*_simulations(), *_texts(commands)]


def write_documents(path: Path, documents: Sequence[Any]) -> None:
    path.write_text("".join(f"---\n{json.dumps(document)}\n" for document in documents))


def broken(dice: random.Random, documents: Sequence[Any]) -> list[Any]:
    """Some documents of a world, with one wrong value or key in each."""
    chosen = json.loads(json.dumps(dice.sample(documents, min(4, len(documents)))))
    for document in chosen:
        places = [place for place in _places(document) if place[1] not in ("apiVersion", "kind")]
        holder, key = dice.choice(places)
        if isinstance(key, str) and dice.random() < 0.3:
            holder[key + "s"] = holder.pop(key)
        else:
            holder[key] = dice.choice([-1, "", "no such word", None, [], {}, 10**20, "1.5x", True, ["a", "a"]])
    return chosen  # type: ignore[no-any-return]


def _places(tree: Any) -> Iterator[tuple[Any, Any]]:
    items = list(tree.items()) if isinstance(tree, dict) else list(enumerate(tree)) if isinstance(tree, list) else []
    for key, value in items:
        yield tree, key
        yield from _places(value)


def _simulations() -> Iterator[Case]:
    ends = ["--journal", JOURNAL, "-o", "json", "--per-workload"]
    for config, count in (("", WORLDS), ("fair", WORLDS), ("parity", PARITY)):
        for seed in range(count):
            args = ["simulate", "-f", f"world-{seed}.yaml", "--seed", str(seed)]
            args += ["--faults", FAULTS[seed % len(FAULTS)], "--eviction", EVICTIONS[seed % len(EVICTIONS)]]
            args += ["--until", "10h"] if seed % 2 else []
            args += ["--config", f"{config}.yaml"] if config else []
            yield f"simulation {config or 'classical'} {seed}", [*args, *ends]
    for name in EXAMPLES:
        for faults in ("none", "all"):
            yield f"simulation {name} {faults}", ["simulate", "-f", name, "--seed", "7", "--faults", faults, *ends]


def _texts(commands: Sequence[str]) -> Iterator[Case]:
    for number in range(BROKEN):
        yield f"validate {number}", ["validate", "-f", f"broken-{number}.yaml"]
    for seed in range(PLANS):
        config = ["--config", "fair.yaml"] if seed % 2 else []
        yield f"plan {seed}", ["plan", "-f", f"world-{seed}.yaml", *config]
    for name in (*EXAMPLES, "fair-sharing"):
        yield f"plan {name}", ["plan", "-f", name]
    yield "place gangs", ["place", "-f", "gangs"]
    yield "crds", ["crds"]
    for name in commands:
        yield f"help {name}", [name, "--help"]


# --- one revision -----------------------------------------------------------------------------------------------------


def _environment(tree: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(tree / "src"), "PYTHONHASHSEED": "0", "COLUMNS": "120"}


def run_here(cases: Sequence[Case]) -> dict[str, str]:
    """Run the cases in this process; return a hash of all that each prints and writes."""
    from makeway.cli.main import main

    answers = {}
    for name, args in cases:
        journal = Path(f"journal-{os.getpid()}")
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            try:
                main([str(journal) if arg == JOURNAL else arg for arg in args], prog_name="makeway")
            except SystemExit as end:
                printed.write(f"exit {end.code}")
        text = MEASURED.sub("", printed.getvalue().replace(str(journal), "journal")).encode()
        if journal.exists():
            text += journal.read_bytes()
            journal.unlink()
        answers[name] = f"{hashlib.sha256(text).hexdigest()[:16]} {len(text)}"
    return answers


def run(tree: Path, folder: Path, cases: Sequence[Case], jobs: int) -> dict[str, str]:
    """Run all cases on one revision, in several processes side by side."""
    parts = [cases[i::jobs] for i in range(jobs)]
    pipe = subprocess.PIPE
    command = [sys.executable, str(Path(__file__).resolve()), "--here"]
    environment = _environment(tree)
    running = [subprocess.Popen(command, cwd=folder, env=environment, stdin=pipe, stdout=pipe) for _ in parts]
    for process, part in zip(running, parts, strict=True):
        assert process.stdin is not None
        process.stdin.write(json.dumps(part).encode())
        process.stdin.close()
    answers: dict[str, str] = {}
    for process in running:
        assert process.stdout is not None
        answers |= json.loads(process.stdout.read())
        assert process.wait() == 0, "a part of the run failed"
    return answers


def run_before(tree: Path, folder: Path, cases: Sequence[Case], jobs: int) -> dict[str, str]:
    """The answers of a revision: kept ones of an earlier comparison, or new ones.

    The name of the file depends on this tool and on the packages, since both could change the answers.
    """
    revision = subprocess.run(["git", "rev-parse", "HEAD"], cwd=tree, capture_output=True, check=True, text=True)
    tool = hashlib.sha256(Path(__file__).read_bytes() + (ROOT / "requirements.lock").read_bytes()).hexdigest()[:12]
    kept = KEPT / f"{revision.stdout.strip()}-{tool}.json"
    if not kept.is_file():
        answers = run(tree, folder, cases, jobs)
        KEPT.mkdir(exist_ok=True)
        kept.write_text(json.dumps(answers))
    return dict(json.loads(kept.read_text()))


def main() -> int:
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--since", help="the revision to compare with")
    asked.add_argument("--jobs", type=int, default=2)
    asked.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    options = asked.parse_args()
    if options.here:
        answers = run_here(json.load(sys.stdin))
        sys.__stdout__.write(json.dumps(answers))  # type: ignore[union-attr]
        return 0
    if not options.since:
        asked.error("--since names the revision to compare with")
    with tempfile.TemporaryDirectory() as room:
        tree, folder = Path(room) / "before", Path(room) / "inputs"
        folder.mkdir()
        subprocess.run(["git", "worktree", "add", "-q", "--detach", str(tree), options.since], cwd=ROOT, check=True)
        try:
            cases = write_inputs(tree, folder)
            before, now = run_before(tree, folder, cases, options.jobs), run(ROOT, folder, cases, options.jobs)
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", str(tree)], cwd=ROOT, check=True)
    different = [name for name in before if before[name] != now[name]]
    for name in different:
        print(f"differs: {name}: {before[name]} -> {now[name]}")
    total = hashlib.sha256(json.dumps(before, sort_keys=True).encode()).hexdigest()[:16]
    simulations = sum(name.startswith("simulation") for name in before)
    print(f"{simulations} simulations and {len(before) - simulations} texts, {total}: {len(different)} differ")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
