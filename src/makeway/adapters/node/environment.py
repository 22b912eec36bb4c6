"""The environment of a container: base variables, volumes, whole Secrets and ConfigMaps, then single variables.

Later values win. ``$(NAME)`` in a value, a command or an argument stands for a variable that is already set; ``$$`` is
a dollar sign; a reference to an unknown name stays as it is.

Sizes are checked before texts are made, with the kernel's limits: a text of a few bytes that names another text several
times can ask for any amount. A pod that asks for more waits with that reason.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from makeway.api.objects.kubernetes import Pod
from makeway.api.objects.pods import Container, EnvVarSource, PodSpec, ResourceFieldSelector
from makeway.api.quantity import Quantity
from makeway.api.reading.structure import short

_REFERENCE = re.compile(r"\$\$|\$\(([-._a-zA-Z][-._a-zA-Z0-9]*)\)")
_KEYED = re.compile(r"metadata\.(labels|annotations)\['(.+)'\]")
_NANO = 10**9
WORD_BYTES_MAX = 128 * 1024 - 1  # kernel limit for one variable with its name, or one word of a command
POD_BYTES_MAX = 16 * 1024 * 1024  # of all containers together: their plan is one file
GIVEN_BYTES_MAX = 1024 * 1024  # all variables and words of a container; the kernel's limit depends on the machine


class Sources(Protocol):
    """The objects that values come from; None if there is no such object."""

    def secret(self, namespace: str, name: str) -> Mapping[str, bytes] | None: ...

    def config_map(self, namespace: str, name: str) -> Mapping[str, bytes] | None: ...


class NotThere(Exception):
    """A thing that the pod needs is missing; it may still come. ``reason`` is the container's waiting reason."""

    def __init__(self, message: str, reason: str = "CreateContainerConfigError") -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True)
class NodePlace:
    """The node, as a pod can refer to it."""

    node: str
    address: str = "127.0.0.1"
    allocatable: Mapping[str, Quantity] = field(default_factory=dict)


class TooMuch(NotThere):
    """A container asks for more than a process can have. It waits until the pod, or an object it refers to, shrinks."""


def expanded(text: str, known: Mapping[str, str], what: str = "a text") -> str:
    """Replace the variables in a text; the length is known before the text is made. Raises TooMuch."""

    def value(found: re.Match[str]) -> str:
        name = found.group(1)
        return "$" if name is None else known.get(name, found.group())

    size = len(text)
    for found in _REFERENCE.finditer(text):
        size += len(value(found)) - len(found.group())
    if size > WORD_BYTES_MAX:
        raise TooMuch(f"{what} has {size} characters with its variables put in, at most {WORD_BYTES_MAX} are taken")
    return _REFERENCE.sub(value, text)


class Given:
    """The variables and command words of a container so far, within the limits of a process."""

    def __init__(self, base: Mapping[str, str]) -> None:
        self.variables: dict[str, str] = {}
        self._left = GIVEN_BYTES_MAX
        for name, value in base.items():
            self.put(name, value)

    def put(self, name: str, value: str) -> None:
        """Set a variable. Raises TooMuch."""
        present = self.variables.get(name)
        if present is not None:
            self._left += _size(name, present)
        self._take(_size(name, value), f'variable "{short(name)}"')
        self.variables[name] = value

    def word(self, text: str) -> str:
        """Return a word of the command, with variables replaced. Raises TooMuch."""
        made = expanded(text, self.variables, "the command")
        self._take(_bytes(made) + 1, "the command")
        return made

    def _take(self, size: int, what: str) -> None:
        if size > WORD_BYTES_MAX:
            raise TooMuch(f"{what} has {size} bytes, at most {WORD_BYTES_MAX} are taken")
        if size > self._left:
            raise TooMuch(f"{what} does not fit: all variables and words together have at most {GIVEN_BYTES_MAX} bytes")
        self._left -= size


def _size(name: str, value: str) -> int:
    """The bytes that a process gets: ``NAME=value`` and a zero."""
    return _bytes(name) + _bytes(value) + 2


def _bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogateescape"))


def environment(
    pod: Pod, spec: PodSpec, container: Container, *, base: Mapping[str, str], sources: Sources, place: NodePlace
) -> Given:
    """The variables of a container. Raises NotThere."""
    given = Given(base)
    namespace = pod.metadata.namespace
    for each in container.env_from:
        for what, ref in (("secret", each.secret_ref), ("configmap", each.config_map_ref)):
            if ref is None:
                continue
            values = _whole(sources, what, namespace, ref.name)
            if values is None and not ref.optional:
                raise NotThere(f'{what} "{ref.name}" not found')
            for key, value in sorted((values or {}).items()):
                given.put(each.prefix + key, _text(value))
    for variable in container.env:
        if variable.value_from is None:
            what = f'variable "{short(variable.name)}"'
            given.put(variable.name, expanded(variable.value, given.variables, what))
            continue
        found = _from_source(pod, spec, container, variable.value_from, sources, place)
        if found is not None:
            given.put(variable.name, found)
    return given


def _whole(sources: Sources, what: str, namespace: str, name: str) -> Mapping[str, bytes] | None:
    return sources.secret(namespace, name) if what == "secret" else sources.config_map(namespace, name)


def _text(value: bytes) -> str:
    """A variable may hold any bytes but zero."""
    return value.replace(b"\0", b"").decode("utf-8", "surrogateescape")


def _from_source(
    pod: Pod, spec: PodSpec, container: Container, source: EnvVarSource, sources: Sources, place: NodePlace
) -> str | None:
    """The value of a variable; None if the source is optional and missing. Raises NotThere."""
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


def field_of(pod: Pod, spec: PodSpec, path: str, place: NodePlace) -> str:
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


def resource_of(spec: PodSpec, container: Container, ref: ResourceFieldSelector, place: NodePlace) -> str:
    """An amount in units of the divisor, rounded up. A limit that is not set is the node's capacity."""
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
    """Return a name that every shell accepts."""
    return "_".join(re.sub(r"[^A-Z0-9_]", "_", word.upper()) for word in words)
