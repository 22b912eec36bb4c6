"""For any content of a file, ``makeway validate`` prints findings that are valid JSON and safe for a terminal."""

from __future__ import annotations

import json
import random
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import yaml

from makeway.api.reading.manifests import findings, load
from makeway.api.reading.together import check_together
from makeway.bench import command as bench

EXAMPLES = sorted((Path(__file__).parents[3] / "examples").rglob("*.yaml"))
ODD: tuple[Any, ...] = (
    None, True, 0, -1, 2**31, 2**70, 1.5, 1e300, "", "a", "A b", "1Gi", "x" * 300, "\x1b[31m", "\ud800", [], {},
    [None], [[]], {"": ""}, {"a.b/c": 1}, {"name": "default"}, ["cpu"],
)  # fmt: skip


def mutated(tree: Any, dice: random.Random) -> Any:
    """The tree with one value replaced, removed, doubled, or under another name."""
    if dice.random() < 0.25 or not isinstance(tree, dict | list) or not tree:
        return dice.choice(ODD)
    if isinstance(tree, list):
        i = dice.randrange(len(tree))
        changed = mutated(tree[i], dice)
        return dice.choice(([*tree[:i], changed, *tree[i + 1 :]], [*tree, tree[i]], tree[:i], [tree]))
    key = dice.choice(list(tree))
    if dice.random() < 0.1:
        return {**tree, dice.choice(("kind", "items", "spec", "zzz", key.upper())): tree[key]}
    return {**tree, key: mutated(tree[key], dice)}


def judged(data: bytes) -> None:
    manifests = load("a.yaml", data)
    check_together(manifests)
    found = findings(manifests)
    assert all(each.line is not None and each.line >= 1 for each in found)
    assert all(each.message for each in found)
    json.dumps([asdict(each) for each in found])


@pytest.mark.slow
def test_odd_values_in_sound_manifests_are_told_and_never_raise(fuzz_inputs: int, fuzz_seed: int) -> None:
    dice = random.Random(fuzz_seed)
    texts = [*(path.read_text("utf-8") for path in EXAMPLES), bench.many_documents(5).decode()]
    trees = [tree for text in texts for tree in yaml.safe_load_all(text)]
    trees.append(json.loads(bench.workload_bytes()))
    for _ in range(fuzz_inputs // 10):
        changed = [mutated(tree, dice) if dice.random() < 0.3 else tree for tree in trees]
        if dice.random() < 0.2:
            changed = [{"apiVersion": "v1", "kind": "List", "items": changed}]
        judged("\n---\n".join(json.dumps(tree) for tree in changed).encode())


def test_torn_text_is_told_and_never_raises(fuzz_inputs: int, fuzz_seed: int) -> None:
    dice = random.Random(fuzz_seed)
    texts = [path.read_bytes() for path in EXAMPLES]
    for _ in range(fuzz_inputs // 10):
        text = bytearray(dice.choice(texts))
        for _ in range(dice.randrange(1, 6)):
            at = dice.randrange(len(text))
            text[at : at + dice.randrange(4)] = dice.choice(
                (b"", b"\n", b"- ", b"{", b"]", b"&a ", b"*a", b"\xff", b"\t")
            )
        judged(bytes(text))
