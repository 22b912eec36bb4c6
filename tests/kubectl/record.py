"""Writes the present output of commands into transcripts: ``python -m tests.kubectl.record NAME …``.

The result must be read, line by line, before it is believed. A step that is tried again keeps what it expected.
"""

from __future__ import annotations

import sys
import tempfile
from difflib import SequenceMatcher
from pathlib import Path

from tests.kubectl.conftest import kubectls, running
from tests.kubectl.stages import staged
from tests.kubectl.transcripts import Transcript, read


def together(printed: dict[str, str]) -> list[str]:
    """The output of several kubectls as one text; lines of one of them begin with its version."""
    texts = {version: text.split("\n") if text else [] for version, text in sorted(printed.items())}
    if len(set(map(tuple, texts.values()))) == 1:
        return next(iter(texts.values()))
    (old, old_lines), (new, new_lines) = texts.items()
    result: list[str] = []
    for sort, a, b, c, d in SequenceMatcher(None, old_lines, new_lines, autojunk=False).get_opcodes():
        if sort == "equal":
            result += old_lines[a:b]
        else:
            result += [f"{old}| {line}".rstrip() for line in old_lines[a:b]]
            result += [f"{new}| {line}".rstrip() for line in new_lines[c:d]]
    return result


def written(transcript: Transcript, printed: list[dict[str, str]]) -> str:
    lines: list[str] = []
    for step, texts in zip(transcript.steps, printed, strict=True):
        lines += step.before
        first, *more = step.command.split("\n")
        lines += [f"{'$~' if step.is_tried_again else '$'} {first}", *(f"> {each}" for each in more), *together(texts)]
    return "\n".join([*lines, *transcript.after]) + "\n"


def main(names: list[str]) -> None:
    folder = Path(__file__).parent / "transcripts"
    chosen = [folder / f"{name}.txt" for name in names] if names else sorted(folder.glob("*.txt"))
    with tempfile.TemporaryDirectory() as scratch, running(Path(scratch) / "data", "--no-node") as server:
        for path in chosen:
            transcript = read(path)
            printed: list[dict[str, str]] = [{} for _ in transcript.steps]
            for version, program in kubectls().items():
                stage = staged(Path(scratch), server, transcript, version, program)
                for step, texts in zip(transcript.steps, printed, strict=True):
                    texts[version] = stage.printed(step)
            path.write_text(written(transcript, printed), "utf-8")
            print(path.name)


if __name__ == "__main__":
    main(sys.argv[1:])
