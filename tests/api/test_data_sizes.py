"""How much a ConfigMap or a Secret may hold: the values count, keys do not, and plain text takes the place of data."""

from __future__ import annotations

import pytest

from makeway.api.objects.kubernetes import ConfigMap, Secret
from makeway.api.objects.meta import ObjectMeta
from makeway.api.validation import validate, validate_update
from makeway.api.validation.data import DATA_BYTES_MAX, data_bytes

META = ObjectMeta(name="a", namespace="default")
FULL = "x" * DATA_BYTES_MAX


@pytest.mark.parametrize(
    ("value", "size"),
    [
        (ConfigMap(metadata=META, data={"key": "ä", "b": "x"}, binary_data={"c": b"123"}), 6),
        (Secret(metadata=META, data={"a": b"12", "b": b"345"}, string_data={"b": "é"}), 4),
    ],
)
def test_what_counts(value: ConfigMap | Secret, size: int) -> None:
    assert data_bytes(value) == size


def test_too_much_is_told_with_what_is_allowed() -> None:
    assert validate(ConfigMap(metadata=META, data={"a": FULL})) == []
    (problem,) = validate(Secret(metadata=META, data={"a": b"x"}, string_data={"b": FULL}))
    assert (problem.path, problem.cause) == ("data", "TooLong")
    assert str(problem) == (
        f"data: must have at most {DATA_BYTES_MAX} bytes, has {DATA_BYTES_MAX + 1}\n"
        "  hint: keep large data in files, or in several objects"
    )


def test_what_was_too_much_before_may_become_less_but_not_more() -> None:
    def config(more: str) -> ConfigMap:
        return ConfigMap(metadata=META, data={"a": FULL, "b": more})

    assert validate_update(config("xxx"), config("xx")) == []
    assert validate_update(config("xxx"), config("yyy")) == []
    assert [each.cause for each in validate_update(config("xx"), config("xxx"))] == ["TooLong"]
