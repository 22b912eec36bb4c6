"""Tokens and roles: who gets in, who may do what, and how soon a revoked token ends."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import httpx2
import pytest

from makeway.adapters.server.access.tokens import AccessRequest, User, may, new_token, token_object
from makeway.api import codec
from tests.adapters.server.serving import CONFIG_MAPS, CORE, LOCAL_QUEUES, Server, config_map, queue, running

SECRETS = f"{CORE}/namespaces/default/secrets"
REVIEW = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


@pytest.mark.parametrize(
    "header",
    [
        None,
        "",
        "Bearer",
        "Bearer nonsense",
        "Bearer {id}",
        "Bearer {id}.",
        "Bearer {id}.wrong",
        "Bearer .{secret}",
        "Basic {token}",
        "{token}",
        "Bearer {token}x",
        "Bearer " + "x" * 1000,
        "Bearer \u00e9\u00e9.\u00e9",
    ],
)
def test_nobody_gets_in_without_a_good_token(server: Server, header: str | None) -> None:
    id_, _, secret = server.token.partition(".")
    with server.nobody() as client:
        text = (header or "").format(id=id_, secret=secret, token=server.token)
        headers = {} if header is None else {"authorization": text.encode("latin-1")}
        answer = client.get(CONFIG_MAPS, headers=headers)  # type: ignore[arg-type]
    assert (answer.status_code, answer.json()["reason"]) == (401, "Unauthorized")
    assert answer.headers["www-authenticate"] == "Bearer"


def test_a_viewer_reads_all_but_secrets_and_writes_nothing(admin: httpx2.Client, viewer: httpx2.Client) -> None:
    admin.post(CONFIG_MAPS, json=config_map("seen"))
    admin.post(SECRETS, json={"metadata": {"name": "hidden"}, "stringData": {"p": "swordfish"}})
    assert viewer.get(f"{CONFIG_MAPS}/seen").status_code == 200
    with viewer.stream("GET", f"{CORE}/configmaps", params={"watch": "1"}) as watch:
        assert watch.status_code == 200
    for path in (SECRETS, f"{SECRETS}/hidden", f"{CORE}/secrets"):
        answer = viewer.get(path)
        assert (answer.status_code, answer.json()["reason"]) == (403, "Forbidden")
        assert "swordfish" not in answer.text
    assert viewer.get(f"{CORE}/secrets", params={"watch": "1"}).status_code == 403
    tries = [
        viewer.post(LOCAL_QUEUES, json=queue("mine")),
        viewer.post(LOCAL_QUEUES, json=queue("mine"), params={"dryRun": "All"}),
        viewer.put(f"{CONFIG_MAPS}/seen", json=config_map("seen")),
        viewer.patch(f"{CONFIG_MAPS}/seen", json={}, headers={"content-type": "application/merge-patch+json"}),
        viewer.delete(f"{CONFIG_MAPS}/seen"),
        viewer.delete(CONFIG_MAPS),
        viewer.post(f"{CORE}/namespaces/default/pods/p/binding", json={}),
        viewer.post(f"{CORE}/namespaces/default/pods/p/eviction", json={}),
    ]
    assert {each.status_code for each in tries} == {403}
    words = 'configmaps "seen" is forbidden: User "some-viewer" cannot delete resource "configmaps" in API group ""'
    assert viewer.delete(f"{CONFIG_MAPS}/seen").json()["message"] == f'{words} in the namespace "default"'


@pytest.mark.parametrize("resource", ["secrets", "*"])
def test_a_viewer_cannot_get_at_secrets_by_any_name(resource: str) -> None:
    viewer = User("v", "viewer", "t")
    for verb in ("get", "list", "watch"):
        assert not may(viewer, AccessRequest(verb, "", resource, "status"))
        assert not may(viewer, AccessRequest(verb, "*", resource))


def test_one_may_ask_what_one_may(admin: httpx2.Client, viewer: httpx2.Client) -> None:
    def allowed(client: httpx2.Client, **attributes: str) -> bool:
        answer = client.post(REVIEW, json={"spec": {"resourceAttributes": attributes}})
        assert answer.status_code == 201, answer.text
        return bool(answer.json()["status"]["allowed"])

    assert allowed(admin, verb="delete", resource="pods")
    assert allowed(viewer, verb="list", resource="pods")
    assert not allowed(viewer, verb="delete", resource="pods")
    assert not allowed(viewer, verb="get", resource="secrets")
    who = viewer.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", json={}).json()
    assert who["status"]["userInfo"]["username"] == "some-viewer"
    assert "makeway:viewers" in who["status"]["userInfo"]["groups"]
    rules = viewer.post("/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", json={"spec": {"namespace": "x"}})
    found = rules.json()["status"]["resourceRules"]
    assert all("secrets" not in rule["resources"] for rule in found)
    assert admin.get(REVIEW).status_code == 405


def test_nobody_acts_for_another(admin: httpx2.Client) -> None:
    answer = admin.get(CONFIG_MAPS, headers={"impersonate-user": "somebody"})
    assert answer.status_code == 403


def test_a_revoked_token_ends_at_once_also_for_open_watches(server: Server) -> None:
    token = server.access.issue("leaving", "viewer")
    with server.nobody(token) as client:
        query = {"watch": "1", "timeoutSeconds": "60"}
        with client.stream("GET", f"{CORE}/configmaps", params=query) as answer:
            assert answer.status_code == 200
            assert server.access.revoke(token.partition(".")[0])
            assert [line for line in answer.iter_lines() if "kube-root" in line] == []  # and it ended
        assert client.get(CONFIG_MAPS).status_code == 401
    assert not server.access.revoke("nobody")


def test_tokens_can_be_made_listed_and_revoked_through_the_api(server: Server, admin: httpx2.Client) -> None:
    id_, secret = new_token()
    body = codec.to_tree(token_object(id_, secret, "by-api", "viewer"))
    path = f"{CORE}/namespaces/kube-system/secrets"
    assert admin.post(path, json=body).status_code == 201
    with server.nobody(f"{id_}.{secret}") as client:
        assert client.get(CONFIG_MAPS).status_code == 200
        assert secret not in admin.get(path).text
        assert "by-api" in [each.user.name for each in server.access.tokens()]
        # a changed role makes another token: its connections start anew
        change = {"stringData": {"role": "nothing"}}
        headers = {"content-type": "application/merge-patch+json"}
        assert admin.patch(f"{path}/token-{id_}", json=change, headers=headers).status_code == 200
        assert client.get(CONFIG_MAPS).status_code == 401


def test_only_hashes_are_on_the_disk_and_only_the_owner_reads_them(server: Server) -> None:
    secret = server.token.partition(".")[2].encode()
    for path in server.folder.iterdir():
        if path.name == "admin.token":
            assert path.stat().st_mode & 0o777 == 0o600
        else:
            assert secret not in path.read_bytes(), path.name
        if path.suffix in (".db", ".key", ".token") or "-wal" in path.name:
            assert path.stat().st_mode & 0o077 == 0, path.name
    assert server.folder.stat().st_mode & 0o077 == 0


def test_the_first_token_is_kept_and_made_anew_when_it_was_revoked(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    with running(folder) as first:
        token = first.token
    with running(folder) as second:
        assert second.token == token
        second.access.revoke(token.partition(".")[0])
    with running(folder) as third:
        assert third.token != token
        with third.client() as client:
            assert client.get(CONFIG_MAPS).status_code == 200


def test_no_secret_reaches_a_log_or_an_error(
    server: Server, admin: httpx2.Client, caplog: pytest.LogCaptureFixture
) -> None:
    word = "73150917"
    caplog.set_level(logging.DEBUG)
    bodies: list[Any] = [
        {"metadata": {"name": "s"}, "data": {"p": f"{word}!"}},  # not base64
        {"metadata": {"name": "s"}, "stringData": {"p": int(word)}},
        {"metadata": {"name": "s"}, "stringData": word},
        {"metadata": {"name": "S"}, "stringData": {"p": word}},
        {"metadata": {"name": "s"}, "type": {}, "strinData": {"p": word}},
    ]
    answers = [admin.post(SECRETS, json=body) for body in bodies]
    answers.append(admin.post(SECRETS, content=json.dumps(bodies[1])[:-3]))
    as_yaml = {"content-type": "application/yaml"}
    answers.append(admin.post(SECRETS, content=f"stringData: [{word}", headers=as_yaml))
    answers.append(admin.post(SECRETS, content=f"stringData: {{p: !!int x{word}}}", headers=as_yaml))
    with server.nobody(f"abc.{word}") as client:
        answers.append(client.get(CONFIG_MAPS))
    assert all(each.status_code >= 400 for each in answers)
    assert [each.text for each in answers if word in each.text or word in str(each.headers)] == []
    assert word not in caplog.text
