"""Vector files: JSON lines, plain or gzipped, one case per line."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ENVELOPE = ("featureGates", "now", "config", "objects", "given", "want")
ON_NODES = ("given", "want")  # cases about nodes have their parts beside these, no objects
ENDINGS = (".jsonl", ".jsonl.gz")


class VectorsError(Exception):
    """The input cannot be used: a missing path, or a line that is not a case."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    suite: str
    name: str
    gates: Mapping[str, bool] = field(default_factory=dict)
    now: str = ""
    config: Mapping[str, Any] = field(default_factory=dict)
    objects: tuple[Mapping[str, Any], ...] = ()
    given: Mapping[str, Any] = field(default_factory=dict)
    want: Mapping[str, Any] = field(default_factory=dict)
    tags: tuple[str, ...] = ()
    tree: Mapping[str, Any] = field(default_factory=dict)  # of a case about nodes: all of it
    rounds_shares: bool = False  # judged by shares in doubles, as the recorded system has them
    is_foreign: bool = False  # another format: it has a name, but not our envelope


def read_cases(paths: Iterable[Path]) -> Iterator[Case]:
    """All cases of these files and folders; a folder's files by name, without its subfolders."""
    for path in paths:
        if path.is_dir():
            files = sorted(each for each in path.iterdir() if each.name.endswith(ENDINGS))
        elif path.is_file():
            files = [path]
        else:
            raise VectorsError(f"{path}: no such file or folder")
        for file in files:
            for number, line in enumerate(_lines(file), 1):
                if line.strip():
                    yield _case(line, file, number)


def _lines(file: Path) -> list[str]:
    try:
        raw = file.read_bytes()
        return (gzip.decompress(raw) if file.suffix == ".gz" else raw).decode("utf-8").splitlines()
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise VectorsError(f"{file}: {error}") from error


def _case(line: str, file: Path, number: int) -> Case:
    try:
        tree = json.loads(line)
    except ValueError as error:
        raise VectorsError(f"{file}, line {number}: not JSON: {error}") from error
    if not isinstance(tree, dict):
        raise VectorsError(f"{file}, line {number}: expected an object")
    stem = file.name.removesuffix(".gz").removesuffix(".jsonl")
    suite = str(tree.get("suite") or stem)
    name = str(tree.get("name") or tree.get("id") or f"{suite}-line-{number}")
    if all(isinstance(tree.get(key), dict) for key in ON_NODES) and "objects" not in tree:
        return Case(suite=suite, name=name, given=tree["given"], want=tree["want"], tree=tree)
    if any(key not in tree for key in ENVELOPE):
        return Case(suite=suite, name=name, is_foreign=True)
    return Case(
        suite=suite,
        name=name,
        gates=tree["featureGates"],
        now=tree["now"],
        config=tree["config"],
        objects=tuple(tree["objects"]),
        given=tree["given"],
        want=tree["want"],
        tags=tuple(tree.get("tags") or ()),
    )
