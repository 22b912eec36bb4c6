"""A client of any Kubernetes API server over HTTPS: one call per request, trees and bytes as results.

Calls are synchronous, as the Store port is. A watch is a ``WatchStream``, which a thread reads (``watching``).
``transport`` says what a call raises and when it is sent again.

Not here: which objects belong to the Store (``store``), where the server is (``kubeconfig``).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Literal

from makeway.adapters.kubernetes.kubeconfig import ApiTarget
from makeway.adapters.kubernetes.resources import Resource, preferred_versions, resources_in, resources_of_groups
from makeway.adapters.kubernetes.streams import Bytes, OpenAnswers, WatchStream
from makeway.adapters.kubernetes.transport import ANSWER_SECONDS, PLAIN, TRIES_MAX, Object, Reply, Transport
from makeway.api.reading.documents import Tree
from makeway.runtime.ports import Expired, StoreError

PatchType = Literal["json-patch+json", "merge-patch+json", "strategic-merge-patch+json", "apply-patch+yaml"]

FIELD_MANAGER = "makeway"
TABLE = f"{PLAIN};as=Table;v=v1;g=meta.k8s.io,{PLAIN}"
GROUPS = f"{PLAIN};g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,{PLAIN}"
PAGE = 500
WATCH_SECONDS = 290  # the server ends a watch after this time; it is resumed
SPARE_SECONDS = 15.0  # a watch may end this much later


class Client(AbstractContextManager["Client"]):
    """The verbs of one API server.

    ``tries``: how often a request is sent that cannot have been applied. ``warn`` is called with warnings of the
    server.
    """

    def __init__(
        self, target: ApiTarget, *, tries: int = TRIES_MAX, seconds: float = ANSWER_SECONDS,
        warn: Callable[[str], None] | None = None, pause: Callable[[float], None] = time.sleep,
    ) -> None:  # fmt: skip
        self.target = target
        self._transport = Transport(target, tries=tries, seconds=seconds, warn=warn, pause=pause)
        self._open = OpenAnswers()
        self._discovered: tuple[Resource, ...] | None = None

    def close(self) -> None:
        """End all open answers. The thread that reads one closes its connection."""
        self._open.close()
        self._transport.close()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def send(
        self, method: str, path: str, *, query: Mapping[str, str] | None = None, body: Tree = None,
        accept: str = PLAIN, content_type: str = PLAIN,
    ) -> Reply:  # fmt: skip
        """Send any request that has one answer."""
        return self._transport.send(self._transport.request(
            method, path, query=query, body=body, accept=accept, content_type=content_type
        ))  # fmt: skip

    def resources(self) -> tuple[Resource, ...]:
        """Return all that the server serves, asked for once; its preferred versions come first."""
        if self._discovered is None:
            self._discovered = tuple(_discovered(self))
        return self._discovered

    # --- objects ---

    def get(self, resource: Resource, namespace: str, name: str, *, accept: str = PLAIN) -> Object:
        return self.send("GET", resource.path(namespace, name), accept=accept).tree()

    def list(
        self, resource: Resource, namespace: str | None = None, *, labels: str = "", fields: str = "",
        limit: int = 0, token: str = "", accept: str = PLAIN,
    ) -> Object:  # fmt: skip
        """Return one page, as the server answers: ``items`` (or ``rows``) and ``metadata``. Limit 0 means no limit."""
        asked = {"labelSelector": labels, "fieldSelector": fields, "limit": str(limit or ""), "continue": token}
        return self.send("GET", resource.all_path(namespace), query=asked, accept=accept).tree()

    def pages(
        self, resource: Resource, namespace: str | None = None, *, labels: str = "", fields: str = "",
        accept: str = PLAIN,
    ) -> Iterator[Object]:  # fmt: skip
        """Yield all pages of a list. Raises Expired where the server has forgotten the revision of the first page."""
        token = ""
        while True:
            page = self.list(
                resource, namespace, labels=labels, fields=fields, limit=PAGE, token=token, accept=accept
            )  # fmt: skip
            yield page
            token = str((page.get("metadata") or {}).get("continue") or "")
            if not token:
                return

    def whole(
        self, resource: Resource, namespace: str | None = None, *, labels: str = "", fields: str = "",
        accept: str = PLAIN,
    ) -> Sequence[Object]:  # fmt: skip
        """Return a complete list: page by page, or in one piece if paging took too long."""
        try:
            return [*self.pages(resource, namespace, labels=labels, fields=fields, accept=accept)]
        except Expired:
            return [self.list(resource, namespace, labels=labels, fields=fields, accept=accept)]

    def create(self, resource: Resource, namespace: str, body: Object, *, dry_run: bool = False) -> Reply:
        return self.send("POST", resource.all_path(namespace), query=_written(dry_run), body=body)

    def replace(
        self, resource: Resource, namespace: str, name: str, body: Object, *, subresource: str = "",
        dry_run: bool = False,
    ) -> Reply:  # fmt: skip
        return self.send("PUT", resource.path(namespace, name, subresource), query=_written(dry_run), body=body)

    def patch(
        self, resource: Resource, namespace: str, name: str, change: Tree, *, subresource: str = "",
        type_: PatchType = "merge-patch+json", force: bool = False, dry_run: bool = False,
    ) -> Reply:  # fmt: skip
        query = {**_written(dry_run), "force": "true" if force else ""}
        path = resource.path(namespace, name, subresource)
        return self.send("PATCH", path, query=query, body=change, content_type=f"application/{type_}")

    def delete(self, resource: Resource, namespace: str, name: str, options: Object, *, dry_run: bool = False) -> Reply:
        query = {"dryRun": "All"} if dry_run else {}
        body = {"apiVersion": "v1", "kind": "DeleteOptions", **options}
        return self.send("DELETE", resource.path(namespace, name), query=query, body=body)

    def watch(
        self, resource: Resource, namespace: str | None = None, *, since: str, labels: str = "", fields: str = "",
        accept: str = PLAIN, seconds: int = WATCH_SECONDS,
    ) -> WatchStream:  # fmt: skip
        """Yield changes after ``since``, until the server or ``WatchStream.close`` ends it. Raises the server's
        errors.
        """
        query = {
            "watch": "true", "allowWatchBookmarks": "true", "resourceVersion": since, "timeoutSeconds": str(seconds),
            "labelSelector": labels, "fieldSelector": fields,
        }  # fmt: skip
        request = self._transport.request("GET", resource.all_path(namespace), query=query, accept=accept)
        return self._open.add(WatchStream(self._transport.stream(request, seconds + SPARE_SECONDS)))

    def log(self, resource: Resource, namespace: str, pod: str, query: Mapping[str, str]) -> Bytes:
        """Return the output of a container, as far as the query asks for it. Raises the server's errors."""
        request = self._transport.request("GET", resource.path(namespace, pod, "log"), query=query, accept="*/*")
        return self._open.add(Bytes(self._transport.stream(request, None if query.get("follow") else ANSWER_SECONDS)))


def _discovered(client: Client) -> Iterator[Resource]:
    core = client.send("GET", "/api", accept=GROUPS).tree()
    groups = client.send("GET", "/apis", accept=GROUPS).tree()
    if core.get("kind") == groups.get("kind") == "APIGroupDiscoveryList":
        yield from resources_of_groups(core)
        yield from resources_of_groups(groups)
        return
    yield from resources_in(client.send("GET", "/api/v1").tree(), "", "v1")
    for group, version in preferred_versions(groups):
        try:
            listed = client.send("GET", f"/apis/{group}/{version}").tree()
        except StoreError:  # an API group whose own server is down does not hide the others
            continue
        yield from resources_in(listed, group, version)


def _written(dry_run: bool) -> dict[str, str]:
    return {"fieldManager": FIELD_MANAGER, "dryRun": "All" if dry_run else ""}
