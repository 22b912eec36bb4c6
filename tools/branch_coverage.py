"""Shows the share of branches that the tests took in each inner room, and fails if it is too low.

The total of pytest-cov mixes lines and branches. The promise is about branches alone, so they are counted here,
from the JSON report.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

FLOOR_PERCENT = 95
ROOMS = ("api", "core")


def verdict(room: str, covered: int, total: int) -> tuple[bool, str]:
    """Say whether enough branches were taken, and in words; no branches at all are not enough."""
    enough = total > 0 and 100 * covered >= FLOOR_PERCENT * total
    percent = 100 * covered / total if total else 0.0
    return enough, f"branch coverage of {room}: {percent:.1f} % ({covered} of {total}), wanted {FLOOR_PERCENT} %"


def main(argv: list[str]) -> int:
    files = json.loads(Path(argv[1]).read_text("utf-8"))["files"]
    all_enough = True
    for room in ROOMS:
        summaries = [report["summary"] for name, report in files.items() if f"/makeway/{room}/" in f"/{name}"]
        covered = sum(summary["covered_branches"] for summary in summaries)
        enough, words = verdict(room, covered, sum(summary["num_branches"] for summary in summaries))
        print(words)
        all_enough = all_enough and enough
    return 0 if all_enough else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv))
