"""Discovery: the groups, versions, resources and verbs that are served.

One table (``RESOURCES``) has two forms: the old one, a document per group and version, and the aggregated one, a single
document for clients that ask with ``as=APIGroupDiscoveryList``. kubectl resolves a name such as ``workloads`` to the
first group that has it, so the order here is a choice: queueing kinds come before the other Workloads.

Promise: equal bytes for equal questions; each answer is made once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache

import msgspec

from makeway.api.reading.documents import Tree
from makeway.api.versions import CONFIG_GROUP, KINDS, KUEUE_GROUP, Kind

JSON = "application/json"
AGGREGATED = "application/json;g=apidiscovery.k8s.io;v={};as=APIGroupDiscoveryList"
AGGREGATED_VERSIONS = ("v2", "v2beta1")
DEFINITIONS_GROUP = "apiextensions.k8s.io"
VISIBILITY_GROUP = f"visibility.{KUEUE_GROUP}"
VISIBILITY_VERSION = "v1beta2"

VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
STATUS_VERBS = ("get", "patch", "update")
ONLY_CREATE = ("create",)
ONLY_GET = ("get",)
_ALL = ("all",)  # what ``kubectl get all`` lists
_CATEGORIES = {("", "Pod"): _ALL, ("batch", "Job"): _ALL}
_UNSERVED = {(CONFIG_GROUP, "Configuration"), ("", "Binding"), ("policy", "Eviction")}  # a file; two subresources
_DEFINITIONS = f"apis/{DEFINITIONS_GROUP}/v1/customresourcedefinitions"  # kubectl looks for unknown kinds there
_QUESTIONS = ("authorization.k8s.io", "authentication.k8s.io")  # created, answered, never stored


@dataclass(frozen=True, slots=True)
class Subresource:
    name: str
    answers: tuple[str, str, str]  # group, version, kind
    verbs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ServedResource:
    """A kind in one of its versions. ``kind`` is None if only subresources are served."""

    group: str
    version: str
    plural: str
    namespaced: bool
    kind: Kind | None
    verbs: tuple[str, ...] = ()
    subresources: tuple[Subresource, ...] = ()


def _subresources(kind: Kind, version: str) -> Iterator[Subresource]:
    if (kind.group, kind.name) == ("", "Pod"):
        yield Subresource("binding", ("", "v1", "Binding"), ONLY_CREATE)
        yield Subresource("eviction", ("policy", "v1", "Eviction"), ONLY_CREATE)
        yield Subresource("log", ("", "v1", "Pod"), ONLY_GET)
    if kind.has_status:
        yield Subresource("status", (kind.group, version, kind.name), STATUS_VERBS)


def _verbs(kind: Kind) -> tuple[str, ...]:
    if kind.group in _QUESTIONS:
        return ONLY_CREATE
    if (kind.group, kind.name) == ("", "Namespace"):  # a whole cluster is not emptied by one request
        return tuple(verb for verb in VERBS if verb != "deletecollection")
    return VERBS


def _resources() -> Iterator[ServedResource]:
    for kind in KINDS:
        if (kind.group, kind.name) not in _UNSERVED:
            for version in kind.versions:
                inner = tuple(_subresources(kind, version))
                yield ServedResource(kind.group, version, kind.plural, kind.namespaced, kind, _verbs(kind), inner)
    summary = (VISIBILITY_GROUP, VISIBILITY_VERSION, "PendingWorkloadsSummary")
    pending = (Subresource("pendingworkloads", summary, ONLY_GET),)
    for plural, namespaced in (("clusterqueues", False), ("localqueues", True)):
        yield ServedResource(VISIBILITY_GROUP, VISIBILITY_VERSION, plural, namespaced, None, (), pending)


RESOURCES: tuple[ServedResource, ...] = tuple(_resources())


@cache
def versions_by_group() -> Mapping[str, Mapping[str, tuple[ServedResource, ...]]]:
    """Return group -> version -> resources; the preferred version first, the core group ("") before all others."""
    groups: dict[str, dict[str, list[ServedResource]]] = {"": {}}
    for resource in RESOURCES:
        groups.setdefault(resource.group, {}).setdefault(resource.version, []).append(resource)
    return {
        group: {version: tuple(versions[version]) for version in sorted(versions, key=_rank)}
        for group, versions in groups.items()
    }


def _rank(version: str) -> tuple[int, str]:
    """Rank stable before beta before alpha, later versions before earlier ones."""
    stage = 0 if version == "v1" else 1 if "beta" in version else 2
    return stage, "".join(chr(0x7E - ord(c)) for c in version)


def discovery(path: str, accept: str) -> tuple[str, bytes] | None:
    """Return the content type and body of a discovery answer; None if ``path`` is no discovery path."""
    path = path.strip("/")
    if path in ("api", "apis") and (version := _aggregated_version(accept)):
        return AGGREGATED.format(version), _aggregated(path, version)
    body = _documents().get(path)
    return None if body is None else (JSON, body)


def _aggregated_version(accept: str) -> str:
    """Return the aggregated version that the client prefers to plain JSON; "" for none."""
    for clause in accept.split(","):
        media, *rest = (part.strip() for part in clause.split(";"))
        wanted = dict(part.split("=", 1) for part in rest if "=" in part)
        if media == JSON and wanted.get("as") == "APIGroupDiscoveryList" and wanted.get("g") == "apidiscovery.k8s.io":
            if wanted.get("v") in AGGREGATED_VERSIONS:
                return wanted["v"]
        elif media in (JSON, "application/*", "*/*") and "as" not in wanted:
            return ""
    return ""


# --- a document per group and version --------------------------------------------------------------------------------


@cache
def _documents() -> Mapping[str, bytes]:
    """Return all documents by their path."""
    groups = versions_by_group()
    named = {name: _group(name) for name in groups if name}
    documents = {
        "api": {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []},
        "apis": {"kind": "APIGroupList", "apiVersion": "v1", "groups": list(named.values())},
        _DEFINITIONS: {
            "kind": "CustomResourceDefinitionList", "apiVersion": f"{DEFINITIONS_GROUP}/v1",
            "metadata": {"resourceVersion": "1"}, "items": [],
        },
    }  # fmt: skip
    documents |= {f"apis/{name}": {"kind": "APIGroup", "apiVersion": "v1", **each} for name, each in named.items()}
    for group, versions in groups.items():
        for version, resources in versions.items():
            group_version = f"{group}/{version}" if group else version
            documents[f"{'apis' if group else 'api'}/{group_version}"] = _resource_list(group_version, resources)
    return {path: msgspec.json.encode(each) for path, each in documents.items()}


def _group(name: str) -> dict[str, Tree]:
    versions = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions_by_group()[name]]
    return {"name": name, "versions": versions, "preferredVersion": versions[0]}


def _resource_list(group_version: str, resources: tuple[ServedResource, ...]) -> dict[str, Tree]:
    entries = [entry for resource in sorted(resources, key=lambda r: r.plural) for entry in _entries(resource)]
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": entries}


def _entries(each: ServedResource) -> Iterator[dict[str, Tree]]:
    if each.kind is not None:
        entry: dict[str, Tree] = {
            "name": each.plural, "singularName": each.kind.name.lower(), "namespaced": each.namespaced,
            "kind": each.kind.name, "verbs": each.verbs,
        }  # fmt: skip
        yield entry | _called(each.kind)
    for sub in each.subresources:
        group, version, kind = sub.answers
        other = {"group": group, "version": version} if (group, version) != (each.group, each.version) else {}
        yield {
            "name": f"{each.plural}/{sub.name}", "singularName": "", "namespaced": each.namespaced, **other,
            "kind": kind, "verbs": sub.verbs,
        }  # fmt: skip


def _called(kind: Kind) -> dict[str, Tree]:
    names = {
        "shortNames": kind.short_names if kind.view_of is None else (),  # two groups must not share a short name
        "categories": _CATEGORIES.get((kind.group, kind.name), ()),
    }
    return {name: each for name, each in names.items() if each}


# --- one document for all --------------------------------------------------------------------------------------------


@cache
def _aggregated(root: str, version: str) -> bytes:
    groups = [name for name in versions_by_group() if bool(name) == (root == "apis")]
    items = [_group_discovery(name) for name in groups]
    list_version = f"apidiscovery.k8s.io/{version}"
    return msgspec.json.encode(
        {"kind": "APIGroupDiscoveryList", "apiVersion": list_version, "metadata": {}, "items": items}
    )


def _group_discovery(name: str) -> dict[str, Tree]:
    versions = [
        {
            "version": version,
            "resources": [_resource_discovery(resource) for resource in sorted(resources, key=lambda r: r.plural)],
            "freshness": "Current",
        }
        for version, resources in versions_by_group()[name].items()
    ]
    metadata = {"name": name} if name else {}
    return {"metadata": {**metadata, "creationTimestamp": None}, "versions": versions}


def _resource_discovery(each: ServedResource) -> dict[str, Tree]:
    entry: dict[str, Tree] = {"resource": each.plural, "scope": "Namespaced" if each.namespaced else "Cluster"}
    if each.kind is not None:
        entry["responseKind"] = _gvk(each.group, each.version, each.kind.name)
        entry["singularResource"] = each.kind.name.lower()
        entry |= _called(each.kind)
    entry["verbs"] = each.verbs
    if each.subresources:
        entry["subresources"] = [
            {"subresource": sub.name, "responseKind": _gvk(*sub.answers), "verbs": sub.verbs}
            for sub in each.subresources
        ]
    return entry


def _gvk(group: str, version: str, kind: str) -> dict[str, str]:
    return {"group": group, "version": version, "kind": kind}
