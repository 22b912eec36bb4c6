"""A private folder: no other account may change its content, and its files are no links.

An account that can write to a folder can put a link where a file is expected, and have its target overwritten or read.
So a folder that others can write to is refused before anything in it is touched. Files are opened without following
links, with their mode from the first moment on.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

PRIVATE = 0o600
OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


class FolderRefused(OSError):
    """Other accounts could change the content of this folder, or have done so; the message says what to do."""

    def __init__(self, message: str) -> None:
        super().__init__(0, message)

    def __str__(self) -> str:
        return str(self.strerror)


def check_folder(folder: Path, *, reads_only: bool = False) -> None:
    """Check a folder. Raises ``FolderRefused``, and OSError if it cannot be read.

    ``reads_only``: root may read the folder of any account.
    """
    found = os.stat(folder)
    if not stat.S_ISDIR(found.st_mode):
        raise FolderRefused(f"{folder} is not a folder")
    me = os.geteuid()
    if found.st_uid != me and not (reads_only and 0 in (me, found.st_uid)):
        raise FolderRefused(
            f"{folder} belongs to another account (uid {found.st_uid}), which could change what is in it:"
            f" run this as that account, or `chown -R {me} {folder}`"
        )
    if found.st_mode & OTHERS_WRITE:
        raise FolderRefused(
            f"others may write to {folder} (mode {stat.S_IMODE(found.st_mode):04o}): look through what is in it, then"
            f" `chmod go-w {folder}`"
        )
    _check_above(Path(os.path.realpath(folder)))


def _check_above(folder: Path) -> None:
    """Check the folders above: an account that may write there may replace this one, unless that folder is sticky, as
    /tmp.
    """
    for above in folder.parents:
        mode = os.stat(above).st_mode
        if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
            raise FolderRefused(
                f"everybody may write to {above} (mode {stat.S_IMODE(mode):04o}), and so put another folder in place of"
                f" {folder}: `chmod o-w {above}`, or `chmod +t {above}`"
            )


def made_folder(folder: Path) -> None:
    """Return a private folder, made if it is missing. Raises OSError, ``FolderRefused`` among them."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    check_folder(folder)


def open_own(path: Path, flags: int = os.O_RDONLY) -> int:
    """Open a regular file of this name, and make it readable for its owner alone.

    Raises ``FolderRefused`` for links, pipes, devices and files of other accounts, without waiting for them.
    """
    if path.is_symlink():  # O_NOFOLLOW is the protection; this has the better message
        raise FolderRefused(_link(path))
    file = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, PRIVATE)
    found = os.fstat(file)
    try:
        if stat.S_ISDIR(found.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if not stat.S_ISREG(found.st_mode):
            raise FolderRefused(f"{path} is not a file: remove it")
        if found.st_uid not in (os.geteuid(), 0) and os.geteuid() != 0:
            raise FolderRefused(f"{path} belongs to another account (uid {found.st_uid}): remove it")
        if flags & os.O_ACCMODE != os.O_RDONLY and found.st_mode & 0o077:
            os.fchmod(file, PRIVATE)
    except BaseException:
        os.close(file)
        raise
    return file


def _link(path: Path) -> str:
    return f"{path} is a link, and links are not followed: remove it, or put the file itself there"


def refuse_link(path: Path) -> None:
    """Refuse a link, for files that other code opens."""
    if path.is_symlink():
        raise FolderRefused(_link(path))


def read_own(path: Path, bytes_max: int = 1 << 20) -> bytes:
    """Return the content of a small file. Raises OSError."""
    with os.fdopen(open_own(path), "rb") as file:
        return file.read(bytes_max)


def write_own(path: Path, data: bytes, mode: int = PRIVATE) -> None:
    """Write a file whole or not at all: it gets its name once it is on the disk, and is never readable by other
    accounts.
    """
    beside = path.with_name(f".{path.name}.new")
    beside.unlink(missing_ok=True)
    file = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
    with os.fdopen(file, "wb") as out:
        out.write(data)
        out.flush()
        os.fsync(out.fileno())
    os.replace(beside, path)
