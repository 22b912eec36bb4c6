"""Client-side apply: one patch from three states of an object: last applied, wanted now, and live.

A field that was applied and is no longer wanted is removed; a field that another client set stays. Lists are replaced
as a whole. The last applied state is kept in the object itself, in kubectl's annotation, so that makeway and kubectl
can be used in turns.

Not here: server-side apply, where the server knows which client set which field.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from makeway.api.reading.documents import Tree

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
SERVERS_OWN = (  # fields of the metadata that only a server sets
    "creationTimestamp", "deletionGracePeriodSeconds", "deletionTimestamp", "generation", "managedFields", "selfLink",
)  # fmt: skip


def cleaned(tree: Mapping[str, Any], *, has_status: bool) -> dict[str, Any]:
    """Return a manifest without what a server sets by itself: its own metadata, and the status."""
    metadata = {name: each for name, each in (tree.get("metadata") or {}).items() if name not in SERVERS_OWN}
    kept = {name: each for name, each in tree.items() if not (name == "status" and has_status)}
    return {**kept, "metadata": metadata}


def annotated(tree: Mapping[str, Any]) -> dict[str, Any]:
    """Return a manifest that carries itself in the annotation, byte for byte as kubectl writes it."""
    metadata = dict(tree["metadata"])
    annotations = {k: v for k, v in (metadata.get("annotations") or {}).items() if k != LAST_APPLIED}
    plain = {**tree, "metadata": {**metadata, "annotations": annotations}}
    text = msgspec.json.encode(plain, order="sorted").decode() + "\n"
    return {**tree, "metadata": {**metadata, "annotations": {**annotations, LAST_APPLIED: text}}}


def last_applied(live: Mapping[str, Any]) -> dict[str, Any]:
    """Return what was applied last; an empty tree where that is not known."""
    text = ((live.get("metadata") or {}).get("annotations") or {}).get(LAST_APPLIED)
    try:
        tree = msgspec.json.decode(text) if isinstance(text, str) else {}
    except msgspec.MsgspecError:
        tree = {}
    return tree if isinstance(tree, dict) else {}


def three_way(last: Tree, wanted: Mapping[str, Tree], live: Mapping[str, Tree]) -> dict[str, Tree]:
    """Return a JSON merge patch that gives ``live`` all of ``wanted`` and removes what only ``last`` had."""
    before = last if isinstance(last, Mapping) else {}
    change: dict[str, Tree] = {name: None for name in before if name not in wanted and name in live}
    for name, value in wanted.items():
        if value is None or (name in live and live[name] == value):
            continue
        there = live.get(name)
        if isinstance(value, Mapping) and isinstance(there, Mapping):
            inner = three_way(before.get(name), value, there)
            if inner:
                change[name] = inner
        else:
            change[name] = value
    return change
