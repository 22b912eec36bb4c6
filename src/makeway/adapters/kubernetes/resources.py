"""What a server serves: each resource with its place in the URLs, and the names that people use for it.

A resource is found by its plural, its kind, a short name, or one of these with a group: ``workloads``, ``Workload``,
``kwl``, ``workloads.kueue.x-k8s.io``, ``workloads.v1beta1.kueue.x-k8s.io``. Kinds that makeway knows need no request;
for all others the server is asked.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any
from urllib.parse import quote

from makeway.api.problems import Problem
from makeway.api.versions import KINDS, Kind, find_kind
from makeway.runtime.ports import Invalid

NOT_RESOURCES = ("Configuration", "Binding", "Eviction")  # files, and parts of other resources


@dataclass(frozen=True, slots=True)
class Resource:
    """The objects of one kind in one version, as URLs name them."""

    group: str  # "" is the core group
    version: str
    plural: str
    kind: str
    namespaced: bool
    has_status: bool = False
    short_names: tuple[str, ...] = ()
    singular: str = ""
    verbs: tuple[str, ...] = ()

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def full_name(self) -> str:
        """Return the name that ``-o name`` and messages of the API use: ``job.batch``, ``workload.kueue.x-k8s.io``."""
        name = self.singular or self.kind.lower()
        return f"{name}.{self.group}" if self.group else name

    def all_path(self, namespace: str | None) -> str:
        """Return the path of the collection, of all namespaces or of one. Raises Invalid for what cannot be part of a
        path.
        """
        parts = ["apis", self.group, self.version] if self.group else ["api", self.version]
        if self.namespaced and namespace:
            parts += ["namespaces", _segment(namespace, "metadata.namespace")]
        return "/" + "/".join([*parts, self.plural])

    def path(self, namespace: str, name: str, subresource: str = "") -> str:
        """Return the path of one object. Never that of the collection: a DELETE there would delete all objects."""
        path = f"{self.all_path(namespace)}/{_segment(name, 'metadata.name')}"
        return f"{path}/{subresource}" if subresource else path


def _segment(text: str, path: str) -> str:
    if not text:
        raise Invalid([Problem(path, "required", cause="Required")])
    if text in (".", "..") or "/" in text or "%" in text:
        raise Invalid([Problem(path, f"`{text}` cannot be a name: it is part of a URL")])
    return quote(text, safe="")


def resource_of(kind: Kind, version: str = "") -> Resource:
    """Return a kind of ours as a server serves it, in its stored version unless another one is named."""
    return Resource(
        kind.group, version or kind.versions[0], kind.plural, kind.name, kind.namespaced, kind.has_status,
        kind.short_names, kind.name.lower(),
    )  # fmt: skip


@cache
def known_resources() -> tuple[Resource, ...]:
    """Return all readable resources that makeway knows, in the order in which a name is looked up."""
    served = [kind for kind in KINDS if kind.name not in NOT_RESOURCES and not kind.name.startswith("SelfSubject")]
    return tuple(resource_of(kind, version) for kind in served for version in kind.versions)


def find_resource(name: str, resources: Iterable[Resource]) -> Resource | None:
    """Return the first resource with this name."""
    wanted = name.lower()
    return next((resource for resource in resources if wanted in _names(resource)), None)


def _names(each: Resource) -> Iterator[str]:
    yield from (name.lower() for name in each.short_names)
    for name in {each.plural, each.singular or each.kind.lower(), each.kind.lower()}:
        yield name
        yield f"{name}.{each.group}" if each.group else name
        yield f"{name}.{each.version}.{each.group}" if each.group else f"{name}.{each.version}."


def resource_for(tree: Mapping[str, Any]) -> Resource | None:
    """Return the resource of an object of ours, in the version that it is written in."""
    kind = find_kind(str(tree.get("apiVersion")), str(tree.get("kind")))
    return None if kind is None else resource_of(kind, str(tree["apiVersion"]).rpartition("/")[2])


# --- what a server says that it serves -------------------------------------------------------------------------------


def resources_in(listed: Mapping[str, Any], group: str, version: str) -> Iterator[Resource]:
    """Return the resources in an APIResourceList."""
    entries = [each for each in listed.get("resources") or () if isinstance(each, Mapping)]
    with_status = {name.partition("/")[0] for entry in entries if (name := str(entry.get("name"))).endswith("/status")}
    for each in entries:
        plural = str(each.get("name") or "")
        if plural and "/" not in plural:
            yield Resource(
                str(each.get("group") or group), str(each.get("version") or version), plural, str(each.get("kind")),
                bool(each.get("namespaced")), plural in with_status, _texts(each.get("shortNames")),
                str(each.get("singularName") or ""), _texts(each.get("verbs")),
            )  # fmt: skip


def resources_of_groups(listed: Mapping[str, Any]) -> Iterator[Resource]:
    """Return the resources in an APIGroupDiscoveryList, which has all groups in one answer; the preferred version
    first.
    """
    for group in listed.get("items") or ():
        name = str((group.get("metadata") or {}).get("name") or "")
        for version in group.get("versions") or ():
            for each in version.get("resources") or ():
                kind = each.get("responseKind") or {}
                parts = [part.get("subresource") for part in each.get("subresources") or ()]
                yield Resource(
                    name, str(version.get("version")), str(each.get("resource")), str(kind.get("kind")),
                    each.get("scope") == "Namespaced", "status" in parts, _texts(each.get("shortNames")),
                    str(each.get("singularResource") or ""), _texts(each.get("verbs")),
                )  # fmt: skip


def preferred_versions(groups: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Return the versions of each group in an APIGroupList, the preferred one first."""
    for group in groups.get("groups") or ():
        name = str(group.get("name") or "")
        preferred = str((group.get("preferredVersion") or {}).get("version") or "")
        versions = [str(each.get("version")) for each in group.get("versions") or ()]
        for version in sorted(versions, key=lambda each: each != preferred):
            yield name, version


def _texts(values: object) -> tuple[str, ...]:
    return tuple(map(str, values)) if isinstance(values, Sequence) and not isinstance(values, str) else ()
