"""Field ownership: server-side apply, and ``metadata.managedFields``, the record of which manager set which field.

A manager that applies a tree owns its fields, together with other managers that want the same values. Changing a field
that another manager owns is a conflict, unless force takes it over. A field that was applied before and is no longer in
the tree is removed, if no other manager owns it. A plain write (create, update, another patch) takes over the fields
that it changes, without conflicts.

Ownership is kept in the stored form of a kind: a tree in another version is converted first, and messages show the
paths of the client's version. Objects without a record stay without one until the first apply; then all present fields
belong to ``before-first-apply``. So objects that only our own controllers write have no cost here.

Promises: pure; arguments are not changed; without force no field of another manager changes or is removed; if no field
changes the record does not change either, not even its times.

Not here: sets of fields (``field_sets``), the merge rules of lists (``merging``), validation of the result.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

import msgspec

from makeway.adapters.server.changes.applying import check, check_items, merged, pruned, without_nulls
from makeway.adapters.server.changes.field_sets import (
    Fields,
    below,
    changes,
    cleaned,
    difference,
    fields_of,
    intersection,
    paths,
    union,
    united,
    without,
)
from makeway.adapters.server.changes.merging import FieldNode, owned_part
from makeway.api.problems import has_errors
from makeway.api.quantity import Time
from makeway.api.reading.documents import Tree
from makeway.api.reading.structure import Reader
from makeway.api.versions import Kind, find_kind, from_stored, older_path, to_stored
from makeway.runtime.ports import Invalid

APPLY, UPDATE = "Apply", "Update"
UPDATERS_MAX = 10  # plain writers that are kept apart; older ones are joined into one
ANCIENT = "ancient-changes"
BEFORE = "before-first-apply"
KUBECTL = "kubectl"  # the manager of ``kubectl apply --server-side``
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
CONFLICTS_CHARS_MAX = 256 * 1024  # in one message; the first ones are shown
LAST_APPLIED_MAX = 256 * 1024  # bytes; the limit for all annotations of an object


class ApplyConflict(Exception):
    """The applied tree would change fields of other managers. ``conflicts``: sorted managers and paths."""

    def __init__(self, conflicts: Sequence[tuple[str, str]]) -> None:
        self.conflicts = tuple(conflicts)
        super().__init__(_conflict_message(self.conflicts))


def _conflict_message(conflicts: Sequence[tuple[str, str]]) -> str:
    if len(conflicts) == 1:
        return f"Apply failed with 1 conflict: conflict with {conflicts[0][0]}: {conflicts[0][1]}"
    told: dict[str, list[str]] = {}
    for manager, path in conflicts:
        told.setdefault(manager, [f"conflicts with {manager}:"]).append(f"- {path}")
    return f"Apply failed with {len(conflicts)} conflicts: " + "\n".join(chain.from_iterable(told.values()))


@dataclass(frozen=True, slots=True)
class ManagedFieldsEntry:
    """The fields that one manager owns, of the object or of one of its subresources."""

    manager: str
    operation: str
    version: str  # apiVersion
    subresource: str
    time: str
    fields: Fields

    @property
    def writer(self) -> tuple[str, ...]:
        """The identity of the manager; an applier is the same in every version."""
        return self.operation, self.manager, "" if self.operation == APPLY else self.version, self.subresource

    def __str__(self) -> str:
        name = json.dumps(self.manager, ensure_ascii=False)
        if self.subresource:
            name = f'{name} with subresource "{self.subresource}"'
        return name if self.operation == APPLY else f"{name} using {self.version}"

    def written(self) -> dict[str, Tree]:
        tree: dict[str, Tree] = {
            "manager": self.manager, "operation": self.operation, "apiVersion": self.version, "time": self.time,
            "fieldsType": "FieldsV1", "fieldsV1": self.fields,
        }  # fmt: skip
        return {**tree, "subresource": self.subresource} if self.subresource else tree


Record = dict[tuple[str, ...], ManagedFieldsEntry]


# --- a plain write ---------------------------------------------------------------------------------------------------


def noted(
    kind: Kind, version: str, before: Tree | None, after: Tree, *, manager: str, now: Time, subresource: str = ""
) -> Tree:
    """Return ``after`` with the updated record, where ``manager`` changed ``before`` into it by a plain write."""
    part = owned_part(kind.stored, subresource)
    if before is None:
        fields = fields_of(_in_stored(kind, version, after), part)
        mine = ManagedFieldsEntry(manager, UPDATE, kind.stored.api_version, subresource, str(now), fields or {})
        return _with_record(after, [mine] if fields else [])
    record = _begin(before, after, subresource)
    if not record:
        return _with_record(after, [])
    will = _without_empty_metadata(_in_stored(kind, version, after))
    more, less = changes(_in_stored(kind, version, before), will, part)
    if more or less:
        mine = ManagedFieldsEntry(manager, UPDATE, kind.stored.api_version, subresource, str(now), {})
        held = record.get(mine.writer, mine).fields
        record = _taken(record, mine.writer, more or {}, less or {})
        now_mine = union(without(held, less or {}), more or {})
        if now_mine and now_mine != held:
            record[mine.writer] = replace(mine, fields=now_mine)
    return _with_record(after, _capped(record.values()))


def _without_empty_metadata(tree: Tree) -> Tree:
    """Return the tree as it is stored: an empty list of finalizers is none, and has no owner."""
    metadata = tree.get("metadata")
    if not isinstance(metadata, Mapping) or all(each not in ([], {}) for each in metadata.values()):
        return tree
    return {**tree, "metadata": {name: each for name, each in metadata.items() if each not in ([], {})}}


def _begin(before: Tree, after: Tree, subresource: str) -> Record:
    """Return the record before a write: the one in the request, if it is valid, else the stored one."""
    present, sent = _record_of(before), _record_of(after)
    if subresource or not sent or sent == present:
        return _read(present)
    if sent == [{}]:
        return {}  # an empty record asks to forget all ownership
    return _read(sent, trusted=False) or _read(present)


def _taken(record: Record, by: tuple[str, ...], more: Fields, less: Fields) -> Record:
    """Return the record after one manager has set and removed fields, which all others lose."""
    result = {}
    for writer, entry in record.items():
        fields = entry.fields if writer == by else difference(entry.fields, more)
        fields = without(fields, less)
        if fields:
            result[writer] = entry if fields == entry.fields else replace(entry, fields=fields)
    return result


# --- apply -----------------------------------------------------------------------------------------------------------


def applied(
    kind: Kind, version: str, live: Tree | None, wanted: Tree, *, manager: str, force: bool, now: Time,
    subresource: str = "",
) -> Tree:  # fmt: skip
    """Apply ``wanted`` to ``live`` (None: it does not exist yet); return the object with its record.

    Raises ApplyConflict; PatchRefused for a tree with managedFields; Invalid for values of wrong types and for
    duplicate list items.
    """
    part = owned_part(kind.stored, subresource)
    check(kind, version, wanted)
    config = _in_stored(kind, version, wanted)
    check_items(config, part)
    mine = ManagedFieldsEntry(
        manager, APPLY, kind.stored.api_version, subresource, str(now), fields_of(config, part) or {}
    )
    if live is None:
        return _with_record(without_nulls(wanted), [mine] if mine.fields else [])
    old = _in_stored(kind, version, live)
    record = _read(_record_of(live)) or _first_record(kind.stored, old, now)
    last = record.pop(mine.writer, None)
    new = _merged(old, config, mine, last, record.values(), part)
    more, less = (each or {} for each in changes(old, new, part))
    if not force:
        allowed = _last_applied(kind, old, part) if manager == KUBECTL else {}
        hit = [replace(each, fields=_hit(each.fields, more, less, allowed)) for each in record.values()]
        _refuse_conflicts(kind, version, hit)
    record = _taken(record, mine.writer, more, less)
    if mine.fields:
        record[mine.writer] = last if last is not None and last.fields == mine.fields else mine
    if manager == KUBECTL:
        new = _remembered(new, wanted)
    return _with_record(from_stored(kind, version, new), _capped(record.values()))


def _merged(
    old: dict[str, Tree],
    config: Tree,
    mine: ManagedFieldsEntry,
    last: ManagedFieldsEntry | None,
    others: Iterable[ManagedFieldsEntry],
    part: FieldNode,
) -> dict[str, Tree]:
    """Merge the wanted fields in, and remove those that neither the applier nor another manager wants any longer."""
    new: dict[str, Tree] = merged(old, config, part)
    given = {name: config["metadata"][name] for name in ("uid", "resourceVersion") if config["metadata"].get(name)}
    if given:  # the applier's expected resourceVersion; it is compared when the result is written
        new["metadata"] = {**new["metadata"], **given}
    if last is None:
        return new
    owned = united([mine.fields, *(each.fields for each in others)])
    owned = {"f:metadata": {}, **owned}  # metadata always has fields without an owner
    result: dict[str, Tree] = pruned(new, last.fields, owned, part)
    return result


def _first_record(kind: Kind, old: dict[str, Tree], now: Time) -> Record:
    """Return a record in which all present fields belong to unrecorded managers."""
    fields = fields_of(old, owned_part(kind, "")) or {}
    if kind.has_status:
        fields = union(fields, fields_of(old, owned_part(kind, "status")) or {})
    entry = ManagedFieldsEntry(BEFORE, UPDATE, kind.api_version, "", str(now), fields)
    return {entry.writer: entry} if fields else {}


def _hit(fields: Fields, more: Fields, less: Fields, allowed: Fields) -> Fields:
    """Return the fields of another manager that are set or removed without permission."""
    return difference(union(intersection(fields, more), below(fields, less)), allowed)


def _refuse_conflicts(kind: Kind, version: str, hit: Iterable[ManagedFieldsEntry]) -> None:
    if found := list(_conflicts(kind, version, hit)):
        raise ApplyConflict(sorted(found, key=lambda each: each[0]))


def _conflicts(kind: Kind, version: str, hit: Iterable[ManagedFieldsEntry]) -> Iterator[tuple[str, str]]:
    """Return managers and paths, up to a limit: steps may be long, and paths many."""
    size = 0
    for entry in hit:
        for path in paths(entry.fields):
            yield str(entry), "." + older_path(kind, version, path.removeprefix("."))
            size += len(path)
            if size > CONFLICTS_CHARS_MAX:
                return


# --- client-side apply before ----------------------------------------------------------------------------------------


def _last_applied(kind: Kind, old: dict[str, Tree], part: FieldNode) -> Fields:
    """Return the live fields that kubectl's annotation says it applied: taking these over is no conflict."""
    text = old["metadata"].get("annotations", {}).get(LAST_APPLIED)
    try:
        config = msgspec.json.decode(text) if isinstance(text, str) else None
    except msgspec.DecodeError:
        return {}
    if not isinstance(config, dict):
        return {}
    written = find_kind(str(config.get("apiVersion")), str(config.get("kind")))
    if written is None or written.stored is not kind.stored:
        return {}
    before = _in_stored(written, config["apiVersion"].rpartition("/")[2], config)
    more, less = changes(before, old, part)
    return without(difference(fields_of(before, part) or {}, more or {}), less or {})


def _remembered(new: dict[str, Tree], wanted: dict[str, Tree]) -> dict[str, Tree]:
    """Update kubectl's annotation if there is one, so that users may go back to client-side apply."""
    annotations = new["metadata"].get("annotations", {})
    if LAST_APPLIED not in annotations:
        return new
    meta = {name: each for name, each in wanted["metadata"].items() if name != "managedFields"}
    own = {name: each for name, each in (meta.get("annotations") or {}).items() if name != LAST_APPLIED}
    config = {**wanted, "metadata": {**meta, "annotations": own}}
    text = json.dumps(config, sort_keys=True, separators=(",", ":"), ensure_ascii=False) + "\n"
    kept = {name: each for name, each in annotations.items() if name != LAST_APPLIED}
    if len(text.encode()) <= LAST_APPLIED_MAX:
        kept[LAST_APPLIED] = text
    return {**new, "metadata": {**new["metadata"], "annotations": kept}}


# --- the record ------------------------------------------------------------------------------------------------------


def _record_of(tree: Tree) -> Tree:
    meta = tree.get("metadata")
    return meta.get("managedFields") if isinstance(meta, dict) else None


def _read(trees: Tree, *, trusted: bool = True) -> Record:
    """Return the entries of a record; none if there is no record, or an invalid one from a client."""
    entries: dict[tuple[str, ...], list[ManagedFieldsEntry]] = {}
    for each in trees if isinstance(trees, list) else ():
        entry = _entry(each, trusted)
        if entry is None:
            return {}
        entries.setdefault(entry.writer, []).append(entry)
    return {name: replace(some[-1], fields=united([each.fields for each in some])) for name, some in entries.items()}


def _entry(tree: Tree, trusted: bool) -> ManagedFieldsEntry | None:
    if trusted:
        fields: Fields | None = tree["fieldsV1"]
    elif not isinstance(tree, dict) or tree.get("operation") not in (APPLY, UPDATE):
        return None
    else:
        fields = cleaned(tree.get("fieldsV1"))
        texts = [tree.get(name, "") for name in ("manager", "apiVersion", "subresource", "time")]
        if fields is None or not all(isinstance(each, str) for each in texts) or not tree.get("apiVersion"):
            return None
    return ManagedFieldsEntry(
        tree.get("manager", ""), tree["operation"], tree["apiVersion"], tree.get("subresource", ""),
        tree.get("time", ""), fields or {},
    )  # fmt: skip


def _with_record(tree: Tree, entries: Sequence[ManagedFieldsEntry]) -> Tree:
    """Return the tree with these entries: appliers first, then by time."""
    metadata = tree.get("metadata")
    meta = {name: each for name, each in metadata.items() if name != "managedFields"} if metadata else {}
    if entries:
        order = sorted(entries, key=lambda e: (e.operation, e.time, e.manager, e.version, e.subresource))
        meta["managedFields"] = [each.written() for each in order]
    return {**tree, "metadata": meta}


def _capped(entries: Iterable[ManagedFieldsEntry]) -> list[ManagedFieldsEntry]:
    """Join the oldest plain writers into one entry if there are too many."""
    everyone = [entry for entry in entries if entry.fields]
    updaters = sorted((each for each in everyone if each.operation == UPDATE), key=lambda e: (e.time, e.writer))
    surplus = updaters[: len(updaters) - UPDATERS_MAX + 1] if len(updaters) > UPDATERS_MAX else []
    if not surplus:
        return everyone
    fields = united([each.fields for each in surplus])
    old = {each.writer for each in surplus}
    ancient = ManagedFieldsEntry(ANCIENT, UPDATE, surplus[-1].version, "", surplus[-1].time, fields)
    return [*(each for each in everyone if each.writer not in old), ancient]


def _in_stored(kind: Kind, version: str, tree: Tree) -> dict[str, Tree]:
    """Return a tree in the stored form. Fields with wrong types are left out: the validation reports them."""
    if kind.is_stored_as(version):
        result: dict[str, Tree] = tree
        return result
    converted = to_stored(kind, version, Reader("Ignore", limits=False).read(tree, kind.shape(version)))
    if has_errors(list(converted.problems)):
        raise Invalid(converted.problems)
    result = converted.tree
    return result
