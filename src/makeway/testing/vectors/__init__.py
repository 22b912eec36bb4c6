"""Recorded decisions of other systems, and whether ours agree: one adapter per suite, from data to public functions.

Nothing is decided here. An adapter reads a case, asks ``makeway.core`` for its decision, and lists the differences.
What the engine cannot do yet is named by feature (``scope``), never by case.
"""

from __future__ import annotations

from makeway.testing.vectors.reading import Case, VectorsError, read_cases
from makeway.testing.vectors.report import CaseOutcome, judge, summary

__all__ = ["Case", "CaseOutcome", "VectorsError", "judge", "read_cases", "summary"]
