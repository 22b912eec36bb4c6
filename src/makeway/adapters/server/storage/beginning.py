"""The first start of a data folder: the data file, namespaces, system classes, the first token.

All functions may be called again: what exists already is left as it is.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from makeway.adapters.server.access.tokens import Access
from makeway.adapters.server.resources.admission import AdmissionPlugins
from makeway.adapters.server.storage.data_file import DataFileRefused
from makeway.adapters.server.storage.own_folder import FolderRefused, made_folder, read_own, write_own
from makeway.adapters.server.storage.store import SqliteStore
from makeway.api.names import DEFAULT_NAMESPACE, SYSTEM_CLASSES
from makeway.api.objects.kubernetes import Namespace, PriorityClass
from makeway.api.objects.meta import ObjectMeta
from makeway.runtime.ports import AlreadyExists, Clock

DATA_FILE = "makeway.db"
TOKEN_FILE = "admin.token"
NAMESPACES = (DEFAULT_NAMESPACE, "kube-system", "kube-public")
ADMIN = "admin"


def open_store(
    folder: Path, clock: Clock, *, admission: AdmissionPlugins | None = None, size_max: int | None = None
) -> SqliteStore:
    """Return the Store of a data folder, which is made if it is missing, with the objects that every cluster has.

    Raises ``DataFileRefused``, also if another server has the folder open, or other accounts may write to it.
    """
    try:
        made_folder(folder)
    except FolderRefused as error:
        raise DataFileRefused(str(error)) from error
    store = SqliteStore(
        folder / DATA_FILE, clock, careful=False, needs_namespaces=True, admission=admission or AdmissionPlugins(),
        size_max=size_max,
    )  # fmt: skip
    try:
        for name in NAMESPACES:
            with suppress(AlreadyExists):
                store.create(Namespace(metadata=ObjectMeta(name=name)))
        for name, value in SYSTEM_CLASSES.items():
            with suppress(AlreadyExists):
                store.create(PriorityClass(metadata=ObjectMeta(name=name), value=value))
    except BaseException:
        store.close()
        raise
    return store


def admin_token(folder: Path, access: Access) -> str:
    """Return the token of the folder's owner; a new one if no valid token is in the file."""
    path = folder / TOKEN_FILE
    with suppress(OSError, UnicodeDecodeError):
        token = read_own(path).decode("ascii").strip()
        holder = access.holder(token.encode())
        if holder is not None and holder.role == "admin":
            return token
    token = access.issue(ADMIN, "admin")
    write_own(path, f"{token}\n".encode())
    return token
