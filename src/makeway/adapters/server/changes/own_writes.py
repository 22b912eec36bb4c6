"""Field ownership for writes of our own controllers, on objects that have a record of ownership.

A user who applies a Job again then learns that its ``suspend`` is ours by now, instead of stopping the Job by accident.
An object without a record gets none: most objects that controllers write are made by themselves, and have no cost.
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
    """Return ``body``, an update of the main resource, with the updated record."""
    if not isinstance(body, Wire):
        return body
    kind = kind_of(type(body))
    meta: ObjectMeta = body.metadata  # type: ignore[attr-defined]
    try:
        old = objects.get(kind, meta.namespace if kind.namespaced else "", meta.name)
    except NotFound:
        return body  # the request has a record of its own
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
