"""Writes of our own controllers, recorded like anybody's where somebody keeps a record of who set what.

So that whoever applies a Job again is told that its ``suspend`` is ours by now, instead of stopping it unawares. An
object that has no record gets none: most of what the controllers write is made by themselves, and pays nothing.
"""

from __future__ import annotations

from msgspec.structs import replace

from makeway.adapters.server.changes.field_ownership import noted
from makeway.api import codec
from makeway.api.objects.meta import ObjectMeta, Wire
from makeway.api.quantity import Time
from makeway.api.versions import kind_of
from makeway.core.model import stored
from makeway.runtime.ports import Body, Clock, NotFound
from makeway.runtime.stores.pages import StoredObjects

MANAGER = "makeway"
_RECORD = b'"managedFields"'


def recorded(objects: StoredObjects, body: Body, clock: Clock) -> Body:
    """``body``, an update of the main resource, with the record that belongs to it."""
    if not isinstance(body, Wire):
        return body
    kind = kind_of(type(body))
    meta: ObjectMeta = body.metadata  # type: ignore[attr-defined]
    try:
        old = objects.get(kind, meta.namespace if kind.namespaced else "", meta.name)
    except NotFound:
        return body  # the writer says so itself
    if _RECORD not in old.data:
        return body
    before = old.tree()
    after = codec.to_tree(body)
    after["metadata"]["managedFields"] = before["metadata"]["managedFields"]
    now = Time.of_millis(stored(clock()))
    tree = noted(kind, kind.versions[0], before, after, manager=MANAGER, now=now)
    fields = tuple(tree["metadata"].get("managedFields", ()))
    changed: Wire = replace(body, metadata=replace(meta, managed_fields=fields))
    return changed
