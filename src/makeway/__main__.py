"""Lets ``python -m makeway`` be the same program as ``makeway``."""

from __future__ import annotations

from makeway.cli.main import main

if __name__ == "__main__":
    main(prog_name="makeway")
