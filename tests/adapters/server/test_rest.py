"""The verbs, asked of a real server over HTTPS."""

from __future__ import annotations

import httpx

from tests.adapters.server.serving import CONFIG_MAPS, CORE, LOCAL_QUEUES, config_map, queue


def test_what_is_created_can_be_read_listed_changed_and_removed(admin: httpx.Client) -> None:
    made = admin.post(LOCAL_QUEUES, json=queue("life"))
    assert made.status_code == 201, made.text
    assert made.json()["metadata"]["namespace"] == "default"
    assert admin.get(f"{LOCAL_QUEUES}/life").json() == made.json()
    assert "life" in [each["metadata"]["name"] for each in admin.get(LOCAL_QUEUES).json()["items"]]
    changed = admin.put(
        f"{LOCAL_QUEUES}/life", json={**made.json(), "spec": {"clusterQueue": "shared", "stopPolicy": "Hold"}}
    )
    assert changed.status_code == 200
    assert changed.json()["metadata"]["generation"] == 2
    gone = admin.delete(f"{LOCAL_QUEUES}/life")
    assert (gone.status_code, gone.json()["status"]) == (200, "Success")
    missing = admin.get(f"{LOCAL_QUEUES}/life")
    assert missing.status_code == 404
    assert missing.json()["message"] == 'localqueues.kueue.x-k8s.io "life" not found'
    assert missing.json()["details"] == {"name": "life", "group": "kueue.x-k8s.io", "kind": "localqueues"}


def test_a_namespace_takes_its_content_with_it(admin: httpx.Client) -> None:
    admin.post(f"{CORE}/namespaces", json={"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "going"}})
    admin.post(f"{CORE}/namespaces/going/configmaps", json=config_map("inside"))
    assert admin.delete(f"{CORE}/namespaces/going").json()["metadata"]["deletionTimestamp"]
    for _ in range(100):
        if admin.get(f"{CORE}/namespaces/going").status_code == 404:
            break
    assert admin.get(f"{CORE}/namespaces/going/configmaps").json()["items"] == []
    assert admin.get(f"{CORE}/namespaces/going").status_code == 404
    assert CONFIG_MAPS
