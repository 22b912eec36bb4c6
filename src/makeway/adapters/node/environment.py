"""The environment of a container: what the machine gives, volumes, whole Secrets and ConfigMaps, then each variable.

Later ones win. ``$(NAME)`` in a value, a command or an argument stands for a variable that is set by then; ``$$`` is a
dollar sign; what names nothing stays as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from makeway.api.objects.kubernetes import Pod
from makeway.api.objects.pods import Container, EnvVarSource, PodSpec, ResourceFieldSelector
from makeway.api.quantity import Quantity

_REFERENCE = re.compile(r"\$\$|\$\(([-._a-zA-Z][-._a-zA-Z0-9]*)\)")
_KEYED = re.compile(r"metadata\.(labels|annotations)\['(.+)'\]")
_NANO = 10**9


class Sources(Protocol):
    """Where values come from; None where there is no such object."""

    def secret(self, namespace: str, name: str) -> Mapping[str, bytes] | None: ...

    def config_map(self, namespace: str, name: str) -> Mapping[str, bytes] | None: ...


class NotThere(Exception):
    """Something that the pod needs is missing; it may still come. ``reason`` is what the container waits with."""

    def __init__(self, message: str, reason: str = "CreateContainerConfigError") -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True)
class Place:
    """The node, as a pod can ask for it."""

    node: str
    address: str = "127.0.0.1"
    allocatable: Mapping[str, Quantity] = field(default_factory=dict)


def expanded(text: str, known: Mapping[str, str]) -> str:
    def value(found: re.Match[str]) -> str:
        name = found.group(1)
        if name is None:
            return "$"
        return known.get(name, found.group())

    return _REFERENCE.sub(value, text)


def environment(
    pod: Pod, spec: PodSpec, container: Container, *, base: Mapping[str, str], sources: Sources, place: Place
) -> dict[str, str]:
    """Raises NotThere."""
    found = dict(base)
    namespace = pod.metadata.namespace
    for each in container.env_from:
        for what, ref in (("secret", each.secret_ref), ("configmap", each.config_map_ref)):
            if ref is None:
                continue
            values = _whole(sources, what, namespace, ref.name)
            if values is None and not ref.optional:
                raise NotThere(f'{what} "{ref.name}" not found')
            found.update({each.prefix + key: _text(value) for key, value in sorted((values or {}).items())})
    for variable in container.env:
        if variable.value_from is None:
            found[variable.name] = expanded(variable.value, found)
            continue
        value = _from_source(pod, spec, container, variable.value_from, sources, place)
        if value is not None:
            found[variable.name] = value
    return found


def _whole(sources: Sources, what: str, namespace: str, name: str) -> Mapping[str, bytes] | None:
    return sources.secret(namespace, name) if what == "secret" else sources.config_map(namespace, name)


def _text(value: bytes) -> str:
    """A variable may hold any bytes but zero."""
    return value.replace(b"\0", b"").decode("utf-8", "surrogateescape")


def _from_source(
    pod: Pod, spec: PodSpec, container: Container, source: EnvVarSource, sources: Sources, place: Place
) -> str | None:
    """None: it is optional, and not there."""
    if source.field_ref is not None:
        return field_of(pod, spec, source.field_ref.field_path, place)
    if source.resource_field_ref is not None:
        return resource_of(spec, container, source.resource_field_ref, place)
    for what, ref in (("secret", source.secret_key_ref), ("configmap", source.config_map_key_ref)):
        if ref is None:
            continue
        values = _whole(sources, what, pod.metadata.namespace, ref.name)
        if values is not None and ref.key in values:
            return _text(values[ref.key])
        if ref.optional:
            return None
        missing = f'{what} "{ref.name}" not found'
        raise NotThere(missing if values is None else f'{what} "{ref.name}" has no key "{ref.key}"')
    return ""


def field_of(pod: Pod, spec: PodSpec, path: str, place: Place) -> str:
    meta = pod.metadata
    keyed = _KEYED.fullmatch(path)
    if keyed:
        return (meta.labels if keyed.group(1) == "labels" else meta.annotations).get(keyed.group(2), "")
    plain = {
        "metadata.name": meta.name, "metadata.namespace": meta.namespace, "metadata.uid": meta.uid,
        "spec.nodeName": place.node, "spec.serviceAccountName": spec.service_account_name or "default",
        "status.hostIP": place.address, "status.podIP": place.address, "status.hostIPs": place.address,
        "status.podIPs": place.address,
    }  # fmt: skip
    if path in plain:
        return plain[path]
    if path in ("metadata.labels", "metadata.annotations"):
        return lines_of(meta.labels if path.endswith("labels") else meta.annotations)
    raise NotThere(f'fieldPath "{path}" is not supported')


def lines_of(marks: Mapping[str, str]) -> str:
    """Labels or annotations as a file or variable shows them."""
    quoted = (
        value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") for _, value in sorted(marks.items())
    )
    return "\n".join(f'{key}="{value}"' for (key, _), value in zip(sorted(marks.items()), quoted, strict=True))


def resource_of(spec: PodSpec, container: Container, ref: ResourceFieldSelector, place: Place) -> str:
    """An amount in units of the divisor, rounded up. A limit that is not set is all that the node has."""
    every = (*spec.containers, *spec.init_containers)
    named = [each for each in every if each.name == ref.container_name] or [container]
    kind, _, resource = ref.resource.partition(".")
    limits, requests = named[0].resources.limits, named[0].resources.requests
    if kind == "limits":
        amount = limits.get(resource) or place.allocatable.get(resource)
    elif kind == "requests":
        amount = requests.get(resource) or limits.get(resource)
    else:
        raise NotThere(f'resource "{ref.resource}" is neither limits.* nor requests.*')
    nano = 0 if amount is None else amount.nano
    divisor = _NANO if ref.divisor is None or ref.divisor.nano <= 0 else ref.divisor.nano
    return str(-(-nano // divisor))


def variable_name(words: Iterable[str]) -> str:
    """A name that every shell takes."""
    return "_".join(re.sub(r"[^A-Z0-9_]", "_", word.upper()) for word in words)
