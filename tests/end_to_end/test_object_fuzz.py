"""Random objects of every kind, written in every way over HTTPS, while all of makeway runs, is killed and restarts.

Each step is made from a seed, the number of its round and its own number. A failing round is replayed with fewer steps,
and the rest is printed with the settings that replay it:

    MAKEWAY_FUZZ_SEED=… MAKEWAY_FUZZ_FIRST=round MAKEWAY_OBJECT_STEPS=… python -m pytest tests/end_to_end/…
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.end_to_end.drawing import Tree, put
from tests.end_to_end.lives import Answer, Dead, Lives, lives
from tests.end_to_end.operations import Operation, drawn
from tests.end_to_end.promises import Broken, Key, Ledger, check_alive, check_usage, everything, path_of, sweep
from tests.soaking import InTime

ROUND = 250  # steps; then everything is deleted, so that a round begins like the first
STEPS = 3_000
STEPS_IN_SOAK = 200_000
RESTART = 150  # after so many steps; data in memory is judged with the rest
HARD = 0.7  # of the restarts: kill -9
LOOK_AGAIN = 8  # every so many steps the object is read back at once
REPLAYS_MAX = 30
SHRINK_SECONDS = 200.0
Found = AssertionError | Dead
KUEUE = "/apis/kueue.x-k8s.io/v1beta2"
QUOTA = {"name": "a", "resources": [{"name": "cpu", "nominalQuota": 3}]}
STAGE: tuple[tuple[str, Tree], ...] = (  # a queue with running work, until a step spoils it
    ("/api/v1/namespaces", {"metadata": {"name": "n1"}}),
    ("/api/v1/namespaces", {"metadata": {"name": "n2"}}),
    (f"{KUEUE}/resourceflavors", {"metadata": {"name": "a"}}),
    (f"{KUEUE}/clusterqueues", {"metadata": {"name": "a"}, "spec": {
        "namespaceSelector": {}, "resourceGroups": [{"coveredResources": ["cpu"], "flavors": [QUOTA]}]}}),
    *(
        (f"{KUEUE}/namespaces/{where}/localqueues", {"metadata": {"name": name}, "spec": {"clusterQueue": "a"}})
        for where in ("default", "n1") for name in ("a", "b")
    ),
)  # fmt: skip


def play(server: Lives, seed: int, round_: int, steps: Sequence[int], before: set[Key], counts: Counter[str]) -> None:
    """Some steps of a round, with the restart among them, and then the deletion of everything."""
    ledger = Ledger()
    for path, tree in STAGE:
        server.ask("POST", path, tree)
    for step in (each for each in steps if each < RESTART):
        take(server, ledger, drawn(seed, round_, step), counts, look=step % LOOK_AGAIN == 0)
    check_alive(server)
    hard = random.Random(f"{seed}/{round_}").random() < HARD
    server.end(signal.SIGKILL if hard else signal.SIGTERM)
    server.start()
    ledger.check(server)
    for step in (each for each in steps if each >= RESTART):
        take(server, ledger, drawn(seed, round_, step), counts, look=step % LOOK_AGAIN == 0)
    ledger.check(server)
    counts["killed" if hard else "stopped"] += 1
    counts["pods that ran"] += len(server.uids())
    check_usage(server)
    sweep(server, before)
    check_usage(server)
    check_alive(server)


def take(server: Lives, ledger: Ledger, operation: Operation, counts: Counter[str], *, look: bool) -> None:
    text = ledger.filled(operation)
    if text.startswith('{"@spots"'):
        now = server.ask("GET", operation.path)
        tree = now.tree if now.is_done else {}
        for path, value in json.loads(text)["@spots"]:
            tree = put(tree, path, value)
        text = json.dumps(tree)
    try:
        answer = server.ask(
            operation.method, operation.target, media=operation.media, raw=text.encode("utf-8", "surrogatepass") or None
        )
        _judge(operation, answer)
        ledger.note(operation, answer)
        key = operation.kind.stored.key, operation.namespace, operation.name
        if look and key in ledger.known:
            found = server.ask("GET", path_of(operation.kind.stored, operation.namespace, operation.name))
            ledger.check_one(key, ledger.known[key], found.tree if found.is_done else None)
    except (AssertionError, Dead) as error:
        raise type(error)(f"{error}\n\nat {operation}") from error
    counts[f"{operation.verb} {'done' if answer.is_done else 'refused'}"] += 1


def _judge(operation: Operation, answer: Answer) -> None:
    if answer.code >= 500 or (answer.tree is None and operation.part != "log"):
        raise Broken(f"the answer was {answer}")


# --- fewer steps ------------------------------------------------------------------------------------------------------


def shrunk(steps: Sequence[int], fails: Callable[[Sequence[int]], bool], replays: int = REPLAYS_MAX) -> list[int]:
    """Fewer steps that still fail: pieces are left out, halves first, as long as there are replays."""
    left = list(steps)
    size = len(left) // 2
    while size and replays:
        start = 0
        while start < len(left) and replays:
            fewer = left[:start] + left[start + size :]
            replays -= 1
            if fewer and fails(fewer):
                left = fewer
            else:
                start += size
        size //= 2
    return left


def _fails(scratch: Path, seed: int, round_: int, steps: Sequence[int]) -> Found | None:
    """The error of these steps on a new server."""
    folder = Path(tempfile.mkdtemp(dir=scratch))
    try:
        with lives(folder) as server:
            play(server, seed, round_, steps, everything(server), Counter())
    except (AssertionError, Dead) as error:
        return error
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return None


def told(scratch: Path, seed: int, round_: int, steps: Sequence[int], error: Found) -> str:
    """A failure in words: the fewest steps that were found, and how to replay them."""
    end = time.monotonic() + SHRINK_SECONDS  # a soak would end before a longer search
    fewer = shrunk(steps, lambda some: time.monotonic() < end and _fails(scratch, seed, round_, some) is not None)
    last = _fails(scratch, seed, round_, fewer)
    lines = [f"{step}: {drawn(seed, round_, step)}" for step in fewer]
    settings = f"MAKEWAY_FUZZ_SEED={seed} MAKEWAY_FUZZ_FIRST={round_} MAKEWAY_OBJECT_STEPS="
    again = f"{settings}{','.join(map(str, fewer))} python -m pytest tests/end_to_end/test_object_fuzz.py"
    words = "it did not happen again on a new server" if last is None else str(last)
    return "\n".join([f"{type(error).__name__}: {error}", "", f"replayed: {words}", f"replay: {again}", *lines[:40]])


@pytest.mark.slow
@pytest.mark.property
def test_objects_of_every_kind_written_in_every_way_break_nothing(
    tmp_path: Path, fuzz_inputs: int, fuzz_seed: int, in_time: InTime
) -> None:
    first = int(os.environ.get("MAKEWAY_FUZZ_FIRST", "0"))
    chosen = os.environ.get("MAKEWAY_OBJECT_STEPS", "")
    count = int(os.environ.get("MAKEWAY_OBJECTS") or (STEPS if fuzz_inputs <= 2000 else STEPS_IN_SOAK))
    steps = [int(each) for each in chosen.split(",")] if chosen else list(range(ROUND))
    rounds = 1 if chosen else max(1, count // ROUND)
    counts: Counter[str] = Counter()
    with lives(tmp_path / "first") as server:
        before = everything(server)
        for round_ in in_time(range(first, first + rounds)):
            try:
                play(server, fuzz_seed, round_, steps, before, counts)
            except (AssertionError, Dead) as error:
                words = told(tmp_path, fuzz_seed, round_, steps, error) if not chosen else str(error)
                raise AssertionError(words) from error
        server.end(signal.SIGTERM)
    print(dict(sorted(counts.items())), f"slowest restart {max(server.starts[1:]):.2f} s")
    assert counts["create done"]
    assert counts["delete done"]
