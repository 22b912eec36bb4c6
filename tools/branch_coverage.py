"""Shows what share of the branches of ``makeway.api`` the tests took, and fails below the floor.

pytest-cov's own total mixes lines and branches; the promise is about branches alone, so they
are counted here, from the JSON report.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

FLOOR_PERCENT = 95


def verdict(covered: int, total: int) -> tuple[bool, str]:
    """Say whether enough branches were taken, and in words; no branches at all are not enough."""
    enough = total > 0 and 100 * covered >= FLOOR_PERCENT * total
    percent = 100 * covered / total if total else 0.0
    return enough, f"branch coverage of api: {percent:.1f} % ({covered} of {total}), wanted {FLOOR_PERCENT} %"


def main(argv: list[str]) -> int:
    totals = json.loads(Path(argv[1]).read_text("utf-8"))["totals"]
    enough, words = verdict(totals["covered_branches"], totals["num_branches"])
    print(words)
    return 0 if enough else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv))
