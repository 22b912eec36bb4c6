"""Objects and tables for people and programs: JSON, YAML, names, and columns of text.

A pipe gets plain columns, one line a row, without cuts; a terminal gets columns fitted to its width. Data of a server
cannot control the terminal.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import click

from makeway.cli.terminal.screen import echo, has_colours, is_terminal, plain

NOTHING = "-"
GAP = "   "
FITTED_GAP = "  "
GOOD = {"True", "Running", "Active", "Admitted", "Complete"}
BAD = {"Warning", "Failed"}


def yaml_text(trees: Iterable[Any]) -> str:
    """Return as many documents as there are trees."""
    import yaml

    class Dumper(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc]
        def ignore_aliases(self, data: object) -> bool:
            return True  # values in two places are written twice, without an anchor

    text: str = yaml.dump_all(trees, Dumper=Dumper, sort_keys=False, allow_unicode=True)
    return text


def print_data(tree: Any, output: str) -> None:
    if output == "json":
        click.echo(json.dumps(tree, indent=2))
    else:
        click.echo(yaml_text([tree]), nl=False)


def print_streamed(tree: Any, output: str) -> None:
    """Print one of several objects: a line of JSON, or a document of YAML."""
    if output == "json":
        click.echo(json.dumps(tree))
    else:
        click.echo(f"---\n{yaml_text([tree])}", nl=False)
    sys.stdout.flush()


def list_of(items: Sequence[Any]) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "List", "metadata": {}, "items": items}


def without_managed_fields(tree: Mapping[str, Any]) -> dict[str, Any]:
    """Remove managed fields: few people read them, and they are half of many objects."""
    metadata = tree.get("metadata")
    if not isinstance(metadata, Mapping):
        return dict(tree)
    return {**tree, "metadata": {name: each for name, each in metadata.items() if name != "managedFields"}}


# --- tables ----------------------------------------------------------------------------------------------------------


def cell_text(cell: object) -> str:
    if cell is None or cell == "":
        return NOTHING
    if isinstance(cell, bool):
        return "true" if cell else "false"
    return plain(str(cell)) if not isinstance(cell, list) else plain(",".join(map(str, cell)))


class Table:
    """Columns with a header. Widths grow while it is printed, so that rows may come later too."""

    def __init__(self, columns: Sequence[str], *, indent: int = 0) -> None:
        self._indent = indent
        self._columns = [name.upper() for name in columns]
        self._widths = [len(name) for name in self._columns]
        self._headed = False

    def print(self, rows: Sequence[Sequence[object]]) -> None:
        """Print rows, and the header before the first of all."""
        texts = [[cell_text(cell) for cell in row] for row in rows]
        if is_terminal(sys.stdout):
            self._print_fitted(texts)
        else:
            self._print_plain(texts)
        self._headed = True
        sys.stdout.flush()

    def _print_plain(self, texts: Sequence[Sequence[str]]) -> None:
        self._grow(texts)
        for row in ([] if self._headed else [self._columns]) + [*texts]:
            padded = [text.ljust(width) for text, width in zip(row, self._widths, strict=False)]
            echo(" " * self._indent + GAP.join(padded).rstrip())

    def _print_fitted(self, texts: Sequence[Sequence[str]]) -> None:
        """Print columns of the needed width, else folded ones; if even that does not fit, a line for each cell."""
        from rich.console import Console
        from rich.padding import Padding
        from rich.table import Table as RichTable
        from rich.text import Text

        self._grow(texts)
        console = Console(highlight=False, color_system="auto" if has_colours(sys.stdout) else None)
        room = console.width - self._indent - len(FITTED_GAP) * len(self._columns)
        words = [max(map(len, name.split())) for name in self._columns]
        if sum(words) > room:
            self._print_lines(texts)
            return
        fits = sum(self._widths) <= room
        table = RichTable(box=None, pad_edge=False, padding=(0, len(FITTED_GAP), 0, 0), show_header=not self._headed)
        for name, width, least in zip(self._columns, self._widths, words, strict=True):
            table.add_column(name, overflow="fold", width=width if fits else None, min_width=least)
        for row in texts:
            table.add_row(*(Text(text, style=_style(text)) for text in row))
        console.print(Padding(table, (0, 0, 0, self._indent)))

    def _print_lines(self, texts: Sequence[Sequence[str]]) -> None:
        for row in texts:
            for name, text in zip(self._columns, row, strict=False):
                echo(f"{' ' * self._indent}{click.style(name, bold=True)} {text}")
            echo("")

    def _grow(self, texts: Sequence[Sequence[str]]) -> None:
        self._widths = [max(width, *(len(row[i]) for row in texts), 0) for i, width in enumerate(self._widths)]


def _style(text: str) -> str:
    return "green" if text in GOOD else "red" if text in BAD else ""
