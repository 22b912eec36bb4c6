"""Objects that were stored once and cannot be read any more: what can be read of them, so that they can be replaced."""

from __future__ import annotations

from typing import Any

import msgspec

from makeway.api import codec
from makeway.api.objects.meta import Wire
from makeway.api.problems import Problem
from makeway.api.reading.documents import Tree
from makeway.runtime.ports import Invalid, Stored

_HINT = "put the whole object as it should be, or delete it"


def is_readable(each: Stored) -> bool:
    try:
        each.value()
    except msgspec.ValidationError:
        return False
    return True


def readable(each: Stored) -> Any:
    """The value of an object; of one that cannot be read only its metadata, and its status where that can be read."""
    if is_readable(each):
        return each.value()
    whole = each.tree()
    try:
        return _decoded(each, {"metadata": whole["metadata"], "status": whole.get("status") or {}})
    except msgspec.ValidationError:
        return _decoded(each, {"metadata": whole["metadata"]})


def readable_but_for_status(each: Stored) -> Any:
    """The value of an object that gets another status. Raises Invalid where the rest cannot be read."""
    if is_readable(each):
        return each.value()
    try:
        return _decoded(each, {name: part for name, part in each.tree().items() if name != "status"})
    except msgspec.ValidationError as error:
        raise Invalid([Problem("", f"what is stored cannot be read: {error}", _HINT)]) from error


def _decoded(each: Stored, tree: dict[str, Tree]) -> Wire:
    return codec.decode(msgspec.json.encode(tree), each.kind.type)
