"""The reference page lists every metric as the code has it."""

from __future__ import annotations

from pathlib import Path

import pytest

from makeway.adapters.server.http.load_metrics import LoadMetrics
from makeway.runtime.metrics.registry import MetricsRegistry

PAGE = Path(__file__).parents[3] / "docs/reference/metrics.md"
FAMILIES = {**MetricsRegistry().registry.families, **LoadMetrics().registry.families}


def rows() -> list[str]:
    return [f"| `{each.name}` | {each.kind} | {', '.join(each.labels)} | {each.words} |" for each in FAMILIES.values()]


def test_the_page_lists_all_metrics_with_kind_labels_and_help() -> None:
    listed = [
        line
        for line in PAGE.read_text("utf-8").splitlines()
        if line.startswith(("| `kueue_", "| `makeway_", "| `scheduler_"))
    ]
    assert listed == rows(), "the table should read:\n\n" + "\n".join(rows())


@pytest.mark.parametrize("name", FAMILIES)
def test_a_help_text_is_a_phrase_of_one_line(name: str) -> None:
    words = FAMILIES[name].words
    assert len(words) >= 12
    assert words[0].isupper() or words[0].isdigit()
    assert not words.endswith(".")
    assert "|" not in words
    assert "\n" not in words
