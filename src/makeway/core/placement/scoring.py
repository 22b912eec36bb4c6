"""Spread or pack: how good a node is for a pod (S-15.2.3).

A score is a whole number of 2⁻³⁰: the mean over cpu and memory of the free share after placement, or of the used share.
What a pod prefers (``filters.preference``) goes before the score. Shares that are equal as fractions are rounded alike,
so equal nodes are equal on every machine, and the name decides (decision 0050).
"""

from __future__ import annotations

import numpy as np

from makeway.core.placement.cluster.arrays import Ints
from makeway.core.placement.cluster.state import Scoring

_UNIT = 2.0**29  # a half, for the mean of two
ABOVE_ALL_SCORES = 1 << 32


def scores(scoring: Scoring, allocatable: Ints, free: Ints) -> Ints:
    """The scores of nodes, from the rows of cpu and memory or from that of pods; ``free``: what the pod leaves free."""
    total = np.zeros(free.shape[1])
    for have, left in zip(allocatable, free, strict=True):
        some = have > 0
        part = left if scoring == "Spread" else have - left
        total += np.divide(part, have, out=np.zeros(len(have)), where=some)
    return np.rint(total * _UNIT).astype(np.int64)
