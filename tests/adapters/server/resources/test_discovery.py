"""Discovery in both forms, with equal content."""

from __future__ import annotations

import json
from typing import Any

import pytest

from makeway.adapters.server.resources.discovery import RESOURCES, discovery, versions_by_group
from makeway.api.versions import KINDS

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
OLDER = AGGREGATED.replace("v=v2;", "v=v2beta1;")


def asked(path: str, accept: str = "application/json") -> dict[str, Any]:
    found = discovery(path, accept)
    assert found is not None, path
    answer: dict[str, Any] = json.loads(found[1])
    return answer


def test_the_root_names_the_core_and_the_groups() -> None:
    assert asked("/api")["versions"] == ["v1"]
    groups = {each["name"]: each for each in asked("/apis")["groups"]}
    assert next(iter(groups)) == "kueue.x-k8s.io", "who says workloads means ours"
    kueue = groups["kueue.x-k8s.io"]
    assert [each["version"] for each in kueue["versions"]] == ["v1beta2", "v1beta1"]
    assert kueue["preferredVersion"]["groupVersion"] == "kueue.x-k8s.io/v1beta2"
    assert groups["scheduling.k8s.io"]["preferredVersion"]["version"] == "v1"


def test_a_group_and_a_version_can_be_asked_for() -> None:
    assert asked("/apis/batch")["preferredVersion"]["groupVersion"] == "batch/v1"
    (job, status) = asked("/apis/batch/v1")["resources"]
    assert (job["name"], job["singularName"], job["namespaced"], job["kind"]) == ("jobs", "job", True, "Job")
    assert (status["name"], status["verbs"]) == ("jobs/status", ["get", "patch", "update"])


def test_pods_have_their_subresources() -> None:
    entries = {each["name"]: each for each in asked("/api/v1")["resources"]}
    assert entries["pods"]["shortNames"] == ["po"]
    assert entries["pods"]["categories"] == ["all"]
    assert entries["pods/log"]["verbs"] == ["get"]
    assert (entries["pods/eviction"]["group"], entries["pods/eviction"]["kind"]) == ("policy", "Eviction")
    assert entries["pods/binding"]["verbs"] == ["create"]
    assert "deletecollection" not in entries["namespaces"]["verbs"]


@pytest.mark.parametrize("path", ["/", "/x", "/apis/nobody", "/apis/batch/v2", "/api/v2", "/apis/batch/v1/jobs", ""])
def test_what_is_not_about_discovery_is_left_to_others(path: str) -> None:
    assert discovery(path, "") is None


@pytest.mark.parametrize(
    ("accept", "version"),
    [
        (AGGREGATED, "v2"),
        (f"{AGGREGATED},{OLDER},application/json", "v2"),
        (f"{OLDER},application/json", "v2beta1"),
        (AGGREGATED.replace(";", "; "), "v2"),
        (f"application/json,{AGGREGATED}", ""),
        ("application/json", ""),
        ("*/*", ""),
        ("", ""),
        (AGGREGATED.replace("v=v2", "v=v9"), ""),
    ],
)
def test_the_form_is_the_first_that_is_asked_for(accept: str, version: str) -> None:
    found = discovery("/apis", accept)
    assert found is not None
    kind = json.loads(found[1])["kind"]
    assert kind == ("APIGroupDiscoveryList" if version else "APIGroupList")
    assert (f"v={version};" in found[0]) == bool(version)


def test_both_forms_say_the_same() -> None:
    for root in ("api", "apis"):
        for group in asked(f"/{root}", AGGREGATED)["items"]:
            name = group["metadata"].get("name", "")
            for version in group["versions"]:
                path = f"/apis/{name}/{version['version']}" if name else f"/api/{version['version']}"
                old = {each["name"]: (each["kind"], each["verbs"]) for each in asked(path)["resources"]}
                new = {}
                for each in version["resources"]:
                    if "responseKind" in each:
                        new[each["resource"]] = (each["responseKind"]["kind"], each["verbs"])
                    for sub in each.get("subresources", ()):
                        new[f"{each['resource']}/{sub['subresource']}"] = (sub["responseKind"]["kind"], sub["verbs"])
                assert new == old


def test_every_kind_is_served_but_for_three() -> None:
    served = {(each.group, each.kind.name) for each in RESOURCES if each.kind}
    assert {(kind.group, kind.name) for kind in KINDS} - served == {
        ("config.kueue.x-k8s.io", "Configuration"), ("", "Binding"), ("policy", "Eviction"),
    }  # fmt: skip


def test_a_short_name_means_one_kind() -> None:
    names: dict[str, str] = {}
    for group, versions in versions_by_group().items():
        for version in versions:
            path = f"/apis/{group}/{version}" if group else f"/api/{version}"
            for each in asked(path)["resources"]:
                for short in each.get("shortNames", ()):
                    assert names.setdefault(short, f"{group}/{each['name']}") == f"{group}/{each['name']}"
