"""Manifests on their way to a server: read, validated together, each with its place in the URLs, in order.

Objects that others refer to come first, so that a queue finds its flavors and a job its queue. Within a kind the order
is that of the files.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import click

from makeway.adapters.kubernetes.resources import Resource, known_resources, resource_for
from makeway.api.reading.manifests import Finding, Manifest
from makeway.api.reading.together import check_together
from makeway.cli.offline.files import STDIN, gather
from makeway.cli.terminal.screen import plain, plural, print_finding

ORDER = (  # all other kinds come last
    "Namespace", "Node", "RuntimeClass", "PriorityClass", "WorkloadPriorityClass", "LimitRange", "Secret", "ConfigMap",
    "ResourceFlavor", "MultiKueueCluster", "MultiKueueConfig", "AdmissionCheck", "Cohort", "ClusterQueue",
    "LocalQueue", "PodDisruptionBudget",
)  # fmt: skip
STORED = "nothing is stored"
NOT_STORED = {
    "Configuration": "it is no object of a server: give it to `makeway up --config FILE`",
    "Binding": "pods are bound by the scheduler",
    "Eviction": "evictions are asked for pod by pod",
}


@dataclass(frozen=True, slots=True)
class ManifestObject:
    """One object, as written, with its place."""

    manifest: Manifest
    resource: Resource
    namespace: str  # "" for a kind without namespaces
    name: str  # "" if the server makes one
    tree: dict[str, Any]

    @property
    def words(self) -> str:
        name = self.name or f"{self.tree['metadata'].get('generateName')}*"
        return plain(
            f"{self.resource.kind} {self.namespace}/{name}" if self.namespace else f"{self.resource.kind} {name}"
        )

    def finding(self, path: str, message: str, hint: str = "") -> Finding:
        """Return a problem at the object's place in the file."""
        manifest = self.manifest
        return _finding(manifest, manifest.written(path), message, hint)


def _finding(manifest: Manifest, path: str, message: str, hint: str) -> Finding:
    line = manifest.line if manifest.line_of is None or not path else manifest.line_of(path)
    return Finding(
        manifest.file, line, manifest.document, manifest.kind_name, manifest.name, path, "error", message, hint
    )


def read_documents(
    paths: Sequence[str], recursive: bool, namespace: str | None, default: str, *, done: str = STORED
) -> list[ManifestObject]:
    """Return all objects of the files; with errors the program ends, after all were reported.

    ``namespace`` comes from the options; ``default`` is that of the server, if no option names one.
    """
    if paths.count(STDIN) > 1:
        raise click.UsageError("stdin can be read once only\n\nhint: give `-f -` once")
    gathered = gather(paths, recursive, together=False)
    warnings = [each for each in gathered.findings() if each.severity == "warning"]
    check_together(gathered.manifests)  # errors only: what is missing here may be on the server
    errors = [each for each in gathered.findings() if each.severity == "error"]
    documents = []
    for manifest in gathered.manifests:
        found = _document(manifest, namespace, default)
        if isinstance(found, Finding):
            errors.append(found)
        elif found is not None:
            documents.append(found)
    refuse(errors, warnings, done)
    return documents


def refuse(errors: Sequence[Finding], warnings: Sequence[Finding] = (), done: str = STORED) -> None:
    """Report problems; with an error the program ends."""
    for each in warnings:
        print_finding(replace(each, hint="") if errors else each, err=True)
    for each in errors:
        print_finding(each, err=True)
    if errors:
        click.echo(f"{done}: {plural(len(errors), 'error')}", err=True)
        raise click.exceptions.Exit(1)


def _document(manifest: Manifest, namespace: str | None, default: str) -> ManifestObject | Finding | None:
    tree = manifest.tree
    if manifest.kind is None or manifest.value is None or not isinstance(tree, dict):
        return None  # reported already
    resource = resource_for(tree)
    if resource is None or resource not in known_resources():
        hint = NOT_STORED.get(manifest.kind.name, "it is a question to a server, and nothing that is kept")
        return _finding(manifest, manifest.written("kind"), f"a {manifest.kind.name} cannot be applied", hint)
    metadata = dict(tree.get("metadata") or {})
    if not resource.namespaced:
        metadata.pop("namespace", None)
        return ManifestObject(manifest, resource, "", str(metadata.get("name") or ""), {**tree, "metadata": metadata})
    written = metadata.get("namespace") or ""
    if written and namespace and written != namespace:
        message = f"is {written}, but -n says {namespace}"
        return _finding(manifest, manifest.written("metadata.namespace"), message, "leave out one of the two")
    metadata["namespace"] = written or namespace or default
    return ManifestObject(
        manifest, resource, metadata["namespace"], str(metadata.get("name") or ""), {**tree, "metadata": metadata}
    )  # fmt: skip


def in_order(documents: Sequence[ManifestObject], *, backwards: bool = False) -> list[ManifestObject]:
    ranks = {name: i for i, name in enumerate(ORDER)}
    return sorted(documents, key=lambda each: ranks.get(each.resource.kind, len(ORDER)), reverse=backwards)
