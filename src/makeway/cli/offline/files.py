"""Manifests from files, folders and stdin. An unreadable file is a finding, and the other files are read all
the same.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from makeway.api.reading.manifests import Finding, Manifest, findings, stream
from makeway.api.reading.structure import did_you_mean
from makeway.api.reading.together import check_together
from makeway.cli.terminal.screen import ProgressLine, plural

SUFFIXES = (".yaml", ".yml", ".json")
STDIN = "-"
STDIN_NAME = "<stdin>"
FILE_BYTES_MAX = 256 * 1024 * 1024


@dataclass(slots=True)
class Gathered:
    """The manifests, and the problems of files and manifests."""

    manifests: list[Manifest] = field(default_factory=list)
    about_files: list[Finding] = field(default_factory=list)
    documents: int = 0
    files: int = 0
    _order: dict[str, int] = field(default_factory=dict)  # of the files

    def findings(self) -> list[Finding]:
        """All findings: files in the order in which they came, inside a file by line."""
        found = [*self.about_files, *findings(self.manifests)]
        return sorted(found, key=lambda each: self._order[each.file])

    def seen(self, file: str) -> None:
        self._order.setdefault(file, len(self._order))

    def refuse(self, finding: Finding) -> None:
        self.seen(finding.file)
        self.about_files.append(finding)


def gather(paths: Sequence[str], recursive: bool, *, together: bool = True) -> Gathered:
    """Read what the paths name, each file once, and validate everything together, unless that comes later."""
    gathered = Gathered()
    progress = ProgressLine()
    for source in _sources(paths, recursive):
        data = source if isinstance(source, Finding) else _read(source)
        if isinstance(data, Finding):
            gathered.refuse(data)
            continue
        assert isinstance(source, str)
        gathered.seen(source)
        gathered.files += 1
        before = len(gathered.manifests)
        for manifest in stream(source, data):
            gathered.manifests.append(manifest)
            progress.show(len(gathered.manifests))
        gathered.documents += len({manifest.document for manifest in gathered.manifests[before:]})
        if len(gathered.manifests) == before:
            gathered.refuse(_about(source, "holds no objects", "", severity="warning"))
    if together:
        check_together(gathered.manifests)
    progress.clear()
    return gathered


def count(found: Sequence[Finding], severity: str) -> int:
    return sum(finding.severity == severity for finding in found)


def summary(gathered: Gathered, found: Sequence[Finding]) -> str:
    counted = [(count(found, "error"), "error"), (count(found, "warning"), "warning")]
    told = ", ".join(plural(number, noun) for number, noun in counted if number)
    return f"{plural(gathered.documents, 'document')} in {plural(gathered.files, 'file')}: {told or 'no problems'}"


def _about(file: str, message: str, hint: str, *, severity: str = "error") -> Finding:
    """A finding about a file as a whole."""
    return Finding(file, None, None, "", "", "", "warning" if severity == "warning" else "error", message, hint)


def _sources(paths: Sequence[str], recursive: bool) -> Iterator[str | Finding]:
    """The files of the paths, each once; findings instead of missing ones."""
    seen: set[str] = set()
    for path in paths:
        for source in [STDIN_NAME] if path == STDIN else _files(path, recursive):
            real = source if isinstance(source, Finding) or path == STDIN else os.path.realpath(source)
            if isinstance(real, Finding) or real not in seen:
                yield source
            if isinstance(real, str):
                seen.add(real)


def _files(path: str, recursive: bool) -> Iterator[str | Finding]:
    if not os.path.isdir(path):
        yield path
        return
    found = has_folders = False
    folders = [path]
    while folders:
        folder = folders.pop()
        try:
            names = sorted(os.listdir(folder))
        except OSError as error:
            found = True
            yield _unreadable(folder, error)
            continue
        below = [os.path.join(folder, name) for name in names]
        inner = dict.fromkeys(each for each in below if os.path.isdir(each))
        has_folders |= bool(inner)
        for each in below:
            if each.endswith(SUFFIXES) and each not in inner:
                found = True
                yield each
        if recursive:  # a link may lead back up
            folders.extend(each for each in reversed(inner) if not os.path.islink(each))
    if not found:
        hint = "`-R` looks into the folders below it" if has_folders and not recursive else "name a file"
        yield _about(path, f"no file in this folder ends in {', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]}", hint)


def _read(path: str) -> bytes | Finding:
    try:
        if path == STDIN_NAME:
            if sys.stdin is None:
                return _about(path, "is closed", "pipe the manifests in, or name a file")
            data = sys.stdin.buffer.read(FILE_BYTES_MAX + 1)
        else:
            status = os.stat(path)
            if refused := _refused(path, status):
                return refused
            with open(path, "rb") as file:
                data = file.read(FILE_BYTES_MAX + 1)
    except (OSError, ValueError) as error:  # ValueError: a path with a NUL
        return _unreadable(path, error)
    if len(data) > FILE_BYTES_MAX:
        return _too_large(path)
    return data


def _refused(path: str, status: os.stat_result) -> Finding | None:
    mode = status.st_mode
    if stat.S_ISREG(mode):
        return _too_large(path) if status.st_size > FILE_BYTES_MAX else None
    if stat.S_ISFIFO(mode) and path.startswith(("/dev/fd/", "/dev/stdin", "/proc/self/fd/")):
        return None  # the shell's <(command): another process writes to it
    what = "a named pipe" if stat.S_ISFIFO(mode) else "a socket" if stat.S_ISSOCK(mode) else "a device"
    return _about(path, f"is {what}, not a file", "pipe the manifests in with `-f -`")


def _too_large(path: str) -> Finding:
    message = f"larger than the {FILE_BYTES_MAX // 2**20} MiB that are read of one file"
    return _about(path, message, "split it into several files")


def _unreadable(path: str, error: OSError | ValueError) -> Finding:
    number = error.errno if isinstance(error, OSError) else None
    reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
    hint = {
        errno.ENOENT: _near_path(path),
        errno.EACCES: "check who may read it, for example with `ls -l`",
        errno.ELOOP: "the links lead back to each other; name the file itself",
    }.get(number or 0, "")
    return _about(path, f"cannot be read: {reason[:1].lower()}{reason[1:]}", hint)


def _near_path(path: str) -> str:
    if os.path.islink(path):
        return "it is a link to something that is not there"
    folder, name = os.path.split(path)
    try:
        near = did_you_mean(name, sorted(os.listdir(folder or os.curdir))[:1000])
    except OSError:
        near = ""
    return near or "check the path; a relative one begins at the current folder"
