"""A problem with something that a user wrote: where, what came, what is allowed, what to do.

Validation returns a list of problems and raises no exception, so that the user learns of all of them at once.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Literal

Severity = Literal["error", "warning"]
Cause = Literal[
    "Required", "Invalid", "NotSupported", "Duplicate", "Forbidden", "NotFound", "TooMany",  # api 0.9
    "TooLong", "TypeInvalid", "UnknownField", "DuplicateField", "Syntax", "Advice",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Problem:
    path: str  # "spec.podSets[0].count"; map keys as "metadata.labels[example.com/tier]"; "" is the object itself
    message: str
    hint: str = ""
    cause: Cause = "Invalid"
    severity: Severity = "error"

    def __str__(self) -> str:
        text = f"{self.path}: {self.message}" if self.path else self.message
        return f"{text}\n  hint: {self.hint}" if self.hint else text


def entry(path: str, key: str) -> str:
    """``path`` with the key of a map. An odd key is quoted, so that the path stays on one line and can be parsed."""
    is_plain = key.isprintable() and "]" not in key and not key.startswith('"')
    return f"{path}[{key}]" if is_plain else f"{path}[{json.dumps(key)}]"


def warning(path: str, message: str, hint: str = "") -> Problem:
    return Problem(path, message, hint, cause="Advice", severity="warning")


def has_errors(problems: list[Problem]) -> bool:
    return any(problem.severity == "error" for problem in problems)
