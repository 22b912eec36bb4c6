"""Volumes of a pod: folders that its containers find by a variable, ``MAKEWAY_VOLUME_<NAME>``.

A process of this machine cannot have a file system of its own, so a mountPath stays empty. A command that works in both
worlds uses ``${MAKEWAY_VOLUME_DATA:-/data}``.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from makeway.adapters.node.environment import NotThere, Sources, variable_name
from makeway.adapters.node.supervision.records import VOLUMES
from makeway.api.forms import is_file_name, is_inside, is_label
from makeway.api.objects.pods import KeyToPath, PodSpec, Volume

WAITS_FOR_MOUNT = "FailedMount"
_PRESENT = {  # what a hostPath must be
    "Directory": os.path.isdir, "File": os.path.isfile, "Socket": os.path.exists, "CharDevice": os.path.exists,
    "BlockDevice": os.path.exists,
}  # fmt: skip


@dataclass(frozen=True)
class File:
    data: bytes
    mode: int


@dataclass(frozen=True)
class Folder:
    """A volume: its place, and its first content."""

    path: Path
    files: Mapping[str, File] = field(default_factory=dict)
    is_ours: bool = True  # we make it, and remove it with the pod
    made: str = ""  # for a folder that is not ours: DirectoryOrCreate, FileOrCreate


def volume_variable(name: str) -> str:
    return variable_name(("MAKEWAY_VOLUME", name))


def folders_of(spec: PodSpec, namespace: str, pod: Path, sources: Sources) -> dict[str, Folder]:
    """The folders by the name of the volume. Unsupported types of volumes are left out. Raises NotThere."""
    for each in spec.volumes:
        if not is_label(each.name):  # stored before such names were refused
            raise NotThere(f'the volume name "{each.name}" cannot name a folder', WAITS_FOR_MOUNT)
    found = {volume.name: _folder(volume, namespace, pod / VOLUMES / volume.name, sources) for volume in spec.volumes}
    return {name: folder for name, folder in found.items() if folder is not None}


def _folder(volume: Volume, namespace: str, path: Path, sources: Sources) -> Folder | None:
    if volume.empty_dir is not None:
        return Folder(path)
    if volume.host_path is not None:
        return _of_host(volume.host_path.path, volume.host_path.type)
    if volume.secret is not None:
        source, name = volume.secret, volume.secret.secret_name
        values = sources.secret(namespace, name)
        return Folder(path, _files("secret", name, values, source.items, source.default_mode, source.optional))
    if volume.config_map is not None:
        config, name = volume.config_map, volume.config_map.name
        values = sources.config_map(namespace, name)
        return Folder(path, _files("configmap", name, values, config.items, config.default_mode, config.optional))
    return None


def _of_host(path: str, kind: str) -> Folder:
    wanted = _PRESENT.get(kind)
    if wanted is not None and not wanted(path):
        raise NotThere(f'hostPath "{path}" is not there, or no {kind}', WAITS_FOR_MOUNT)
    return Folder(Path(path), is_ours=False, made=kind if kind.endswith("OrCreate") else "")


def _files(
    what: str, name: str, values: Mapping[str, bytes] | None, items: tuple[KeyToPath, ...], mode: int, optional: bool
) -> dict[str, File]:
    if values is None:
        if optional:
            return {}
        raise NotThere(f'{what} "{name}" not found', WAITS_FOR_MOUNT)
    if not items:
        for key in values:
            if not is_file_name(key):
                raise NotThere(f'the key "{key}" of {what} "{name}" cannot name a file', WAITS_FOR_MOUNT)
        return {key: File(value, mode) for key, value in values.items()}
    found: dict[str, File] = {}
    for item in items:
        if item.key in values:
            found[_inside(item.path)] = File(values[item.key], mode if item.mode is None else item.mode)
        elif not optional:
            raise NotThere(f'{what} "{name}" has no key "{item.key}"', WAITS_FOR_MOUNT)
    return found


def _inside(path: str) -> str:
    """Return a path that does not lead out of its folder."""
    pure = PurePosixPath(path)
    if not is_inside(path) or not pure.parts:
        raise NotThere(f'the path "{path}" leads out of its volume', WAITS_FOR_MOUNT)
    return str(pure)


def make(folder: Folder) -> None:
    """Make the folder and its content. Raises NotThere if the machine does not allow it."""
    try:
        if folder.made == "FileOrCreate":
            folder.path.touch()
        elif folder.made:
            folder.path.mkdir(parents=True, exist_ok=True)
        elif folder.is_ours:
            _make_ours(folder)
    except OSError as error:
        raise NotThere(f"the volume at {folder.path} cannot be made: {error.strerror}", WAITS_FOR_MOUNT) from error


def _make_ours(folder: Folder) -> None:
    """Make the folder step by step from the pod's folder; a link on the way ends it."""
    with ExitStack() as opened:
        pod = os.open(folder.path.parents[1], os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        opened.callback(os.close, pod)
        volume = _entered(_entered(pod, folder.path.parent.name, opened), folder.path.name, opened)
        for name, file in folder.files.items():
            *above, last = PurePosixPath(name).parts
            with ExitStack() as inner:
                place = volume
                for part in above:
                    place = _entered(place, part, inner)
                _put(place, last, file)


def _entered(place: int, name: str, opened: ExitStack) -> int:
    """Open the folder of this name, made if it is missing."""
    with suppress(FileExistsError):
        os.mkdir(name, dir_fd=place)
    found = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=place)
    opened.callback(os.close, found)
    return found


def _put(place: int, name: str, file: File) -> None:
    with suppress(FileNotFoundError):
        os.unlink(name, dir_fd=place)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(name, flags, 0o600, dir_fd=place), "wb") as out:
        out.write(file.data)
        os.fchmod(out.fileno(), file.mode & 0o777)
