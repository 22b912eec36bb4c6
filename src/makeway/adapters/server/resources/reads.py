"""The verbs that read: get and list, of objects and of their parts.

Not here: watches (``http.watch``), who may do what (``access.tokens``).
"""

from __future__ import annotations

from functools import partial

from makeway.adapters.server.http.answers import Response, Shown
from makeway.adapters.server.http.bodies import Query
from makeway.adapters.server.http.limits import Limits
from makeway.adapters.server.http.statuses import Cause, RequestRefused, bad_request
from makeway.adapters.server.resources.calls import Call, ReaderThreads
from makeway.adapters.server.resources.selectors import field_selector, label_selector
from makeway.adapters.server.resources.troubles import GaveUp, log_trouble
from makeway.adapters.server.storage.store import SqliteStore
from makeway.api.reading.structure import short
from makeway.runtime.ports import (
    Clock,
    FieldTerm,
    Filter,
    Invalid,
    kind_key,
)


class Reads:
    def __init__(
        self, store: SqliteStore, threads: ReaderThreads, limits: Limits, clock: Clock, gave_up: GaveUp = log_trouble
    ) -> None:
        self._store = store
        self._threads = threads
        self._limits = limits
        self._clock = clock
        self._gave_up = gave_up

    def chosen(self, call: Call) -> Filter:
        """Return the filter for the selectors of a query."""
        route, query, most = call.route, call.query, self._limits.selector_terms_max
        labels = label_selector(query.text("labelSelector"), most)
        fields = field_selector(query.text("fieldSelector"), route.kind, route.version, most)
        if route.name:
            fields = (*fields, FieldTerm(("metadata", "name"), route.name))
        return Filter(kind_key(route.stored), route.namespace if route.kind.namespaced else "", labels, fields)

    def shown(self, call: Call) -> Shown:
        objects = call.query.text("includeObject") or "Metadata"
        if objects not in ("None", "Metadata", "Object"):
            raise bad_request("includeObject: allowed are None, Metadata and Object")
        return Shown(call.route, call.form, self._clock(), objects, self._gave_up)

    async def get(self, call: Call) -> Response:
        route = call.route
        found = self._store.get(route.stored, route.place, route.name)
        self._check_known(call.query.text("resourceVersion"))
        return self.shown(call).answer(200, found)

    async def list(self, call: Call) -> Response:
        query, token = call.query, call.query.text("continue")
        limit = min(query.integer("limit") or 0, self._limits.list_limit_max)
        at = self._revision_shown(query, paged=limit > 0)
        stored, chosen = call.route.stored, self.chosen(call)
        look = partial(self._store.page, stored, chosen, limit=limit, token=token, at=at)
        try:
            page = (
                await self._threads.among_many(stored, look) if chosen.labels or chosen.fields or not limit else look()
            )
        except Invalid:
            raise bad_request("continue: it is not a token of a list of this kind") from None
        return self.shown(call).answer_page(page)

    def _revision_shown(self, query: Query, *, paged: bool) -> int | None:
        """Return the revision that a list is wanted at; None: the newest."""
        version, match = query.text("resourceVersion"), query.text("resourceVersionMatch")
        if query.text("continue"):
            if version not in ("", "0"):
                raise bad_request("specifying resource version is not allowed when using continue")
            return None
        check_match(version, match)
        self._check_known(version)
        is_exact = match == "Exact" or (not match and paged and version not in ("", "0"))
        return int(version) if is_exact else None

    def _check_known(self, version: str) -> None:
        """Refuse a revision that the client has seen and this server has not: the client must not get older data."""
        if version in ("", "0"):
            return
        if not (version.isascii() and version.isdigit() and len(version) <= 19):
            raise bad_request(f"resourceVersion: Invalid value: {short(version)!r}: it is not a resource version")
        newest = int(self._store.resource_version)
        if int(version) > newest:
            message = f"Too large resource version: {version}, current: {newest}"
            cause = Cause("ResourceVersionTooLarge", "Too large resource version")
            raise RequestRefused(504, f"Timeout: {message}", causes=[cause], retry_seconds=1)


def check_match(version: str, match: str) -> None:
    """Check how a resourceVersion is meant."""
    if not match:
        return
    if match not in ("Exact", "NotOlderThan"):
        raise bad_request("resourceVersionMatch: allowed are Exact and NotOlderThan")
    if not version:
        raise bad_request("resourceVersionMatch is forbidden unless resourceVersion is provided")
    if match == "Exact" and version == "0":
        raise bad_request('resourceVersionMatch "Exact" is forbidden for resourceVersion "0"')
