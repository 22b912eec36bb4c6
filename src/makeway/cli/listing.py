"""The list of commands, by the groups of the help.

A command is a function with ``@click.command`` or ``@click.group`` in the folder of its group; the first sentence of
its docstring is its line in the help. Both are read from the text of the modules: the help imports no command, a
command imports only itself, and a new command is listed as soon as it is written.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

GROUPS: Mapping[str, tuple[str, ...]] = {  # group in the help -> folders of its commands
    "Jobs and queues": ("cli/jobs",),
    "Objects": ("cli/objects",),
    "Server": ("cli/server",),
    "Without a server": ("cli/offline",),
    "makeway itself": ("cli", "bench"),
}
PACKAGE = Path(__file__).parents[1]
_COMMAND = re.compile(r'\n@click\.(?:command|group)\(.*?\ndef (\w+)\(.*?"""(.+?\.)(?:\s|""")', re.DOTALL)


class CommandPlace(NamedTuple):
    """The module of a command, and its line in the help."""

    module: str
    summary: str
    group: str


def listed() -> dict[str, CommandPlace]:
    """Return all commands by name."""
    return dict(sorted(_commands()))


def _commands() -> Iterator[tuple[str, CommandPlace]]:
    for group, folders in GROUPS.items():
        for file in (file for folder in folders for file in (PACKAGE / folder).glob("*.py") if file.stem != "main"):
            module = ".".join(("makeway", *file.relative_to(PACKAGE).with_suffix("").parts))
            for name, sentence in _COMMAND.findall(file.read_text("utf-8")):
                yield name, CommandPlace(module, " ".join(sentence.split()), group)
