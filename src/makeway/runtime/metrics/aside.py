"""Counts of objects that a part of makeway cannot handle (0081)."""

from __future__ import annotations

from makeway.runtime.metrics.exposition import Labels, Registry

ASIDE: Labels = ("kind", "room")


class AsideMetrics:
    def __init__(self, registry: Registry) -> None:
        self._total = registry.counter(
            "makeway_objects_set_aside_total", "Times that a part of makeway could not handle an object", *ASIDE
        )
        self._now = registry.gauge(
            "makeway_objects_set_aside", "Objects that a part of makeway cannot handle now", *ASIDE
        )

    def told(self, kind: str, room: str) -> None:
        """One more object was set aside, or for another cause."""
        self._total.add(kind, room)

    def are(self, kind: str, room: str, count: int) -> None:
        """So many objects of a kind are set aside in a room."""
        self._now.set(kind, room, value=count)
