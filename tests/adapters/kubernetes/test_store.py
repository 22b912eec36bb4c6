"""The Store over API servers that differ from the port: their answers, and the Store's equal results."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from makeway.adapters.kubernetes.client import Client
from makeway.adapters.kubernetes.kubeconfig import ApiTarget
from makeway.adapters.kubernetes.store import READS_MAX, KubernetesStore, selector_text, stored
from makeway.api.objects.queueing import ClusterQueue
from makeway.api.versions import kind_of
from makeway.core.model import Expression
from makeway.runtime.ports import Conflict, Invalid
from makeway.testing.conformance import ANOTHER, QUEUE, queue
from tests.adapters.kubernetes.https_server import Asked, Authority, Handler, Server, serving

CONFLICT = {"kind": "Status", "code": 409, "reason": "Conflict", "message": "somebody was quicker"}


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, KubernetesStore]]:
    authority = Authority()
    with (
        serving(authority, tmp_path_factory.mktemp("server")) as server,
        Client(ApiTarget(server.url, authority=authority.certificate), tries=1) as client,
    ):
        yield server, KubernetesStore(client)


@pytest.fixture
def server(running: tuple[Server, KubernetesStore]) -> Server:
    running[0].asked.clear()
    return running[0]


@pytest.fixture
def store(running: tuple[Server, KubernetesStore]) -> KubernetesStore:
    return running[1]


def present(version: int, **metadata: Any) -> dict[str, Any]:
    return queue(resourceVersion=str(version), uid="u", **metadata)


def test_an_update_of_whatever_is_there_is_read_first_and_again_after_a_conflict(
    server: Server, store: KubernetesStore
) -> None:
    versions = iter(range(7, 99))

    def answer(asked: Asked, handler: Handler) -> None:
        if asked.method == "GET":
            handler.json(200, present(next(versions)))
        elif asked.body["metadata"]["resourceVersion"] == "9":
            handler.json(200, present(10))
        else:
            handler.json(409, CONFLICT)

    server.answer = answer
    assert store.update(queue(stop="Hold")).resource_version == "10"
    assert [each.method for each in server.asked] == ["GET", "PUT"] * 3


def test_it_gives_up_where_others_are_always_quicker_and_at_once_where_it_is_another(
    server: Server, store: KubernetesStore
) -> None:
    server.answer = lambda asked, handler: (
        handler.json(200, present(7)) if asked.method == "GET" else handler.json(409, CONFLICT)
    )
    with pytest.raises(Conflict):
        store.update_status(queue(pending=3))
    assert len(server.asked) == 2 * READS_MAX
    server.asked.clear()
    with pytest.raises(Conflict):
        store.update(queue(uid=ANOTHER))
    with pytest.raises(Conflict):
        store.update(present(3))
    assert [each.method for each in server.asked] == ["GET", "PUT"]


def test_a_delete_that_is_answered_with_a_status_tells_the_last_state(server: Server, store: KubernetesStore) -> None:
    success = {"kind": "Status", "status": "Success", "details": {"uid": "u"}}
    server.answer = lambda asked, handler: handler.json(200, present(7) if asked.method == "GET" else success)
    gone = store.delete(QUEUE, "team", "q", uid="u", resource_version="7", propagation="Foreground", grace=0)
    assert (gone.name, gone.resource_version) == ("q", "7")
    assert server.asked[-1].body == {
        "apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": "u", "resourceVersion": "7"},
        "propagationPolicy": "Foreground", "gracePeriodSeconds": 0,
    }  # fmt: skip


def test_a_list_of_all_is_sorted_and_asked_for_anew_where_its_pages_expire(
    server: Server, store: KubernetesStore
) -> None:
    items = [{"metadata": {"namespace": n, "name": "x", "resourceVersion": "3"}} for n in ("a-b", "a")]

    def answer(asked: Asked, handler: Handler) -> None:
        if "continue" in asked.query:
            handler.json(410, {"kind": "Status", "reason": "Expired"})
        else:
            token = "more" if "limit" in asked.query else ""
            handler.json(200, {"metadata": {"resourceVersion": "9", "continue": token}, "items": items})

    server.answer = answer
    page = store.list(QUEUE)
    assert [each.namespace for each in page.items] == ["a", "a-b"]
    assert (page.resource_version, page.token, len(server.asked)) == ("9", "", 3)
    assert page.items[0].value().kind == "LocalQueue"


def test_what_is_read_has_no_managed_fields_and_is_in_the_stored_version() -> None:
    tree = {
        "apiVersion": "kueue.x-k8s.io/v1beta1", "kind": "ClusterQueue",
        "metadata": {"name": "c", "resourceVersion": "4", "managedFields": [{"manager": "x"}]},
        "spec": {"cohort": "all"},
    }  # fmt: skip
    found = stored(kind_of(ClusterQueue), tree)
    assert found.tree()["metadata"] == {"name": "c", "resourceVersion": "4"}
    assert found.value().spec.cohort_name == "all"


def test_what_could_never_be_stored_is_not_sent(server: Server, store: KubernetesStore) -> None:
    for body in (queue(namespace=None), {**queue(), "kind": "Teapot"}, queue(resourceVersion="1")):
        with pytest.raises(Invalid):
            store.create(body)
    for body in (queue(namespace=None), {**queue(), "kind": "Teapot"}, queue(None), queue("..")):
        with pytest.raises(Invalid):
            store.update(body)
    with pytest.raises(Invalid):
        store.patch(QUEUE, "team", "q", {"apiVersion": "kueue.x-k8s.io/v1"})
    assert server.asked == []


def test_selectors_are_written_as_urls_have_them() -> None:
    expressions = (
        Expression("a", "In", ("1", "2")), Expression("b", "NotIn", ("3",)), Expression("c", "Exists"),
        Expression("d", "DoesNotExist"), Expression("e", "Gt", ("5",)), Expression("f", "Lt", ("6",)),
    )  # fmt: skip
    assert selector_text(expressions) == "a in (1,2),b notin (3),c,!d,e>5,f<6"
