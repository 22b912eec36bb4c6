"""Metrics as a reader sees them, for tests: samples of a text, and gauges made from a few objects."""

from __future__ import annotations

import re
from typing import Any

from makeway.controllers.contract import WORKLOAD, Ref
from makeway.core.model import Millis, QueueName
from makeway.runtime.metrics.exposition import Counter
from makeway.runtime.metrics.registry import MetricsRegistry
from tests.controllers.views import FakeView

NOW = Millis(1_767_225_600_000)
Q, LQ = QueueName("q"), ("team", "lq")
Sample = dict[tuple[str, tuple[tuple[str, str], ...]], float]

_LINE = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)\{(.*)\} (\S+)")
_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"(?:,|$)')


def parsed(text: str) -> tuple[dict[str, str], Sample]:
    """Types and samples of a text in format 0.0.4, for a reader that knows only the format."""
    types: dict[str, str] = {}
    samples: Sample = {}
    assert text.endswith("\n")
    for line in text[:-1].split("\n"):
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert name not in types, f"{name} comes twice"
            types[name] = kind
        elif not line.startswith("# HELP "):
            match = _LINE.fullmatch(line)
            assert match, line
            labels = [(name, _plain(value)) for name, value in _LABEL.findall(match[2])]
            assert _LABEL.sub("", match[2]) == "", line
            key = (match[1], tuple(labels))
            assert key not in samples, f"{key} comes twice"
            assert re.sub("_(bucket|sum|count)$", "", match[1]) in types or match[1] in types, line
            samples[key] = float(match[3])
    return types, samples


def _plain(value: str) -> str:
    return re.sub(r"\\(.)", lambda found: {"n": "\n"}.get(found[1], found[1]), value)


def value(metrics: MetricsRegistry, name: str, /, **labels: str) -> float | None:
    """One sample, whatever the order of its labels; the role need not be said."""
    found = {**({} if name == "kueue_build_info" else {"replica_role": "standalone"}), **labels}
    _, samples = parsed(metrics.text())
    return next((each for (n, have), each in samples.items() if n == name and dict(have) == found), None)


def refreshed(*objects: Any, **settings: Any) -> MetricsRegistry:
    metrics = MetricsRegistry(**settings)
    look(metrics, FakeView.of(*objects, now=NOW))
    return metrics


def look(metrics: MetricsRegistry, view: FakeView, *queues: str) -> None:
    metrics.touch(map(QueueName, queues or view.state.tree.queues))
    for each in view.all(WORKLOAD):
        metrics.seen(Ref.of(each).key, each)
    metrics.refresh(view)


def names_of(metrics: MetricsRegistry) -> set[str]:
    """The names of all samples."""
    return {line.partition("{")[0] for line in metrics.text().splitlines() if not line.startswith("#")}


def table(metrics: MetricsRegistry, name: str) -> dict[tuple[str, ...], float]:
    """All series of a counter or gauge, by the values of their labels."""
    family = metrics.registry.families[name]
    assert isinstance(family, Counter)
    return family.values
