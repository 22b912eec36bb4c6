"""Rules for ConfigMaps and Secrets: how many bytes they may hold, counted as in Kubernetes, and each key only once."""

from __future__ import annotations

from collections.abc import Iterator

from makeway.api.objects.kubernetes import ConfigMap, Secret
from makeway.api.problems import Problem, entry
from makeway.api.reading.structure import told

DATA_BYTES_MAX = 1024 * 1024  # of all values together; keys are not counted
_HINT = "keep large data in files, or in several objects"


def check_data(value: ConfigMap | Secret) -> Iterator[Problem]:
    size = data_bytes(value)
    if size > DATA_BYTES_MAX:
        yield Problem("data", f"must have at most {DATA_BYTES_MAX} bytes, has {size}", _HINT, cause="TooLong")
    if isinstance(value, ConfigMap):
        for key in value.binary_data.keys() & value.data.keys():
            yield Problem(entry("binaryData", key), f"{told(key)} is used already in data", "give it another key")


def data_bytes(value: ConfigMap | Secret) -> int:
    """The bytes that count; a value that a Secret sets in plain text replaces the old value of its key."""
    if isinstance(value, ConfigMap):
        return sum(map(_bytes, value.data.values())) + sum(map(len, value.binary_data.values()))
    kept = (len(content) for key, content in value.data.items() if key not in value.string_data)
    return sum(kept) + sum(map(_bytes, value.string_data.values()))


def _bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode())
