"""Names that become files and folders: volumes, keys of ConfigMaps and Secrets, paths inside a volume.

None may lead out of the folder that it belongs to; the rules are those of Kubernetes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from makeway.api.objects.kubernetes import ConfigMap, Secret
from makeway.api.problems import Problem, entry
from makeway.api.structure import told
from makeway.api.validation.fields import LABEL_HINT, is_label

JsonObject = dict[str, Any]
_KEY = re.compile(r"[-._a-zA-Z0-9]+")
KEY_MAX = 253
CONFIG_KEY_HINT = f"letters, digits, `-`, `_` and `.`, at most {KEY_MAX}; it is not `.` and does not begin with `..`"
PATH_HINT = "a path inside the volume, such as `conf/app.ini`: it does not begin with `/` and has no `..`"


def is_config_key(text: str) -> bool:
    """Whether it may be a key of a ConfigMap or Secret, and so the name of a file."""
    return len(text) <= KEY_MAX and _KEY.fullmatch(text) is not None and text != "." and not text.startswith("..")


def is_inside(path: str) -> bool:
    """Whether a path stays in the folder that it begins in."""
    return not path.startswith("/") and ".." not in path.split("/") and "\0" not in path


def check_config_map(value: ConfigMap) -> Iterator[Problem]:
    yield from _check_keys(value.data, "data")
    yield from _check_keys(value.binary_data, "binaryData")
    for key in value.binary_data:
        if key in value.data:
            yield Problem(entry("binaryData", key), f"{told(key)} is used already in data", "give it another key")


def check_secret(value: Secret) -> Iterator[Problem]:
    yield from _check_keys(value.data, "data")
    yield from _check_keys(value.string_data, "stringData")


def _check_keys(keys: Iterable[str], path: str) -> Iterator[Problem]:
    for key in keys:
        if not is_config_key(key):
            yield Problem(entry(path, key), f"{told(key)} cannot be a key", CONFIG_KEY_HINT)


def check_volumes(spec: JsonObject, path: str) -> Iterator[Problem]:
    """Of the spec of a pod: its volumes, and what of them its containers see."""
    seen: dict[str, str] = {}
    for i, volume in enumerate(spec.get("volumes") or ()):
        here, name = f"{path}.volumes[{i}]", volume.get("name") or ""
        if name and not is_label(name):
            yield Problem(f"{here}.name", f"{told(name)} is not a DNS label", LABEL_HINT)
        elif name and (first := seen.setdefault(name, here)) != here:
            yield Problem(
                f"{here}.name", f"{told(name)} is used already at {first}.name", "give each its own name", "Duplicate"
            )
        yield from _check_source(volume, here)
        for j, source in enumerate((volume.get("projected") or {}).get("sources") or ()):
            yield from _check_source(source, f"{here}.projected.sources[{j}]")
    for group in ("initContainers", "containers"):
        for i, container in enumerate(spec.get(group) or ()):
            for j, mount in enumerate(container.get("volumeMounts") or ()):
                for field in ("subPath", "subPathExpr"):
                    yield from _check_path(mount.get(field), f"{path}.{group}[{i}].volumeMounts[{j}].{field}")


def _check_source(volume: JsonObject, path: str) -> Iterator[Problem]:
    for kind in ("configMap", "secret", "downwardAPI"):
        for i, item in enumerate((volume.get(kind) or {}).get("items") or ()):
            here, value = f"{path}.{kind}.items[{i}].path", item.get("path")
            if value == "":
                yield Problem(here, "required", PATH_HINT, cause="Required")
            elif value and value.startswith(".."):
                yield Problem(here, f"{told(value)} begins with `..`", PATH_HINT)
            else:
                yield from _check_path(value, here)
    host = (volume.get("hostPath") or {}).get("path") or ""
    if ".." in host.split("/"):
        yield Problem(f"{path}.hostPath.path", f"{told(host)} has a `..` in it", "name the path itself")


def _check_path(value: str | None, path: str) -> Iterator[Problem]:
    if value and not is_inside(value):
        yield Problem(path, f"{told(value)} leads out of the volume", PATH_HINT)
