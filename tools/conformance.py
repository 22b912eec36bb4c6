"""Compares our decisions with recorded ones: ``make conformance [VECTORS="path …"] [SUITES="…"] [ANSWERS=FILE]``.

Exits 1 if a case failed, 2 if the vectors cannot be read.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable
from pathlib import Path

from makeway.testing.vectors import CaseOutcome, VectorsError, judge, read_cases, summary


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="conformance", description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("vectors", nargs="+", type=Path, help="files (.jsonl, .jsonl.gz) or folders of such files")
    parser.add_argument("--suites", default="", help="only these, separated by spaces or commas")
    parser.add_argument("--answers", default="", help="a file for our answers to cases of preemption on nodes")
    parser.add_argument("--verbose", action="store_true", help="all differences and all steps of failing cases")
    args = parser.parse_args(argv)
    wanted = args.suites.replace(",", " ").split()
    try:
        cases = list(read_cases(args.vectors))
        known = {case.suite for case in cases}
        unknown = sorted(set(wanted) - known)
        if unknown:
            raise VectorsError(f"no case of suite {', '.join(unknown)}; there are {', '.join(sorted(known)) or 'none'}")
    except VectorsError as error:
        print(f"conformance: {error}", file=sys.stderr)
        return 2
    outcomes = [judge(case) for case in cases if not wanted or case.suite in wanted]
    if args.answers:
        Path(args.answers).write_text("".join(_answers(outcomes)), encoding="utf-8")
    lines, failed = summary(outcomes, verbose=args.verbose)
    print("\n".join(lines))
    return 1 if failed else 0


def _answers(outcomes: Iterable[CaseOutcome]) -> Iterable[str]:
    for outcome in outcomes:
        if outcome.answer is not None:
            yield json.dumps({"suite": outcome.case.suite, "name": outcome.case.name, "answer": outcome.answer}) + "\n"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
