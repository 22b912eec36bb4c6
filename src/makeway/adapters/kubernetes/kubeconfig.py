"""Kubeconfig files: the address of an API server, its identity, and ours.

They are read as kubectl reads them: ``$KUBECONFIG`` may list several files, the first of two entries with one name
counts, and relative paths begin at the file that has them. All problems are reported at once. Entries that start
another program (``exec``, ``auth-provider``) are refused, not skipped: without that program the server would see
another user.

Not here: connections (``client``).
"""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from makeway.api.reading.documents import parse
from makeway.api.reading.structure import did_you_mean

DEFAULT_NAMESPACE = "default"
FILE_BYTES_MAX = 8 * 1024 * 1024
ENTRY_LISTS = {"clusters": "cluster", "users": "user", "contexts": "context"}
OTHER_WAYS = "put a token into the user's entry, for example one of `kubectl create token`"
REFUSED = {
    "exec": "starts another program to get its credentials, which makeway does not do",
    "auth-provider": "is a plugin of old kubectl versions, which makeway does not have",
    "username": "is basic authentication, which API servers no longer take",
}


@dataclass(frozen=True, slots=True)
class ApiTarget:
    """An API server, and our identity there. Secrets are not part of its repr."""

    server: str  # https://host:port, with a path behind a proxy
    namespace: str = DEFAULT_NAMESPACE  # if a command names none
    authority: bytes = b""  # PEM; empty: the certificates that the system trusts
    insecure: bool = False  # any certificate of the server is accepted
    server_name: str = ""  # which the certificate must have, if it is not the host
    proxy: str = field(default="", repr=False)
    token: str = field(default="", repr=False)
    token_file: str = ""  # read again from time to time: tokens of pods are short-lived
    certificate: bytes = b""  # our own, PEM
    key: bytes = field(default=b"", repr=False)
    headers: Mapping[str, Sequence[str]] = field(default_factory=dict)  # of impersonation
    origin: str = ""  # the context behind it, for people


class KubeconfigRefused(Exception):
    """These files give no target; has all problems, and what to do."""

    def __init__(self, problems: Sequence[str], hint: str = "") -> None:
        super().__init__("\n".join(problems))
        self.problems = tuple(problems)
        self.hint = hint


def kubeconfig_paths(environment: Mapping[str, str], home: Path) -> list[Path]:
    """Return the files that ``$KUBECONFIG`` lists, else the one in the home folder."""
    listed = [Path(each) for each in environment.get("KUBECONFIG", "").split(os.pathsep) if each]
    return listed or [home / ".kube" / "config"]


def read_target(paths: Sequence[Path], context: str = "", *, must_exist: bool = False) -> ApiTarget:
    """Return the target of a context, or of the current one. If several files are listed, missing ones are skipped."""
    merged = _Merged()
    for path in paths:
        merged.add(path, must_exist=must_exist)
    merged.refuse()
    return _ChosenContext(merged, paths, context).target()


# --- the files -------------------------------------------------------------------------------------------------------


class _ConfigEntry(NamedTuple):
    path: Path
    where: str  # for messages
    values: dict[str, Any]


class _Merged:
    """The entries of all files together."""

    def __init__(self) -> None:
        self.entries: dict[str, dict[str, _ConfigEntry]] = {name: {} for name in ENTRY_LISTS}
        self.current = ""
        self.problems: list[str] = []
        self.read = 0

    def add(self, path: Path, *, must_exist: bool) -> None:
        try:
            with open(path, "rb") as file:
                data = file.read(FILE_BYTES_MAX + 1)
        except FileNotFoundError:
            if must_exist:
                self.problems.append(f"{path}: no such file")
            return
        except (OSError, ValueError) as error:
            self.problems.append(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}")
            return
        if len(data) > FILE_BYTES_MAX:
            self.problems.append(f"{path}: larger than the {FILE_BYTES_MAX // 2**20} MiB that are read of a kubeconfig")
            return
        self.read += 1
        for document in parse(data):
            wrong = [f"{path}:{document.line}: {problem.message}" for problem in document.problems]
            self.problems.extend(wrong)
            if not wrong:
                self._take(path, document.tree)

    def _take(self, path: Path, tree: Any) -> None:
        if not isinstance(tree, dict):
            self.problems.append(f"{path}: is no kubeconfig: expected a mapping with clusters, users and contexts")
            return
        self.current = self.current or _text(tree.get("current-context"))
        for listed, inner in ENTRY_LISTS.items():
            found = tree.get(listed) or []
            if not isinstance(found, list):
                self.problems.append(f"{path}: {listed}: expected a list")
                continue
            for i, each in enumerate(found):
                name = each.get("name") if isinstance(each, dict) else None
                values = (each.get(inner) or {}) if isinstance(each, dict) else None
                if not isinstance(name, str) or not isinstance(values, dict):
                    self.problems.append(f"{path}: {listed}[{i}]: expected a name and a {inner}")
                else:
                    self.entries[listed].setdefault(name, _ConfigEntry(path, f"{path}: {inner} {name}", values))

    def refuse(self) -> None:
        if self.problems:
            raise KubeconfigRefused(self.problems, "`kubectl config view` shows what kubectl reads")


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


# --- one context of them ---------------------------------------------------------------------------------------------


class _ChosenContext:
    """One context, its cluster and its user; collects their problems."""

    def __init__(self, merged: _Merged, paths: Sequence[Path], context: str) -> None:
        self._merged = merged
        self._problems: list[str] = []
        self._hint = ""
        self._name = context or merged.current
        if not merged.read:
            tried = ", ".join(map(str, paths))
            raise KubeconfigRefused([f"there is no kubeconfig: looked for {tried}"], "name one with --kubeconfig FILE")
        if not self._name:
            raise KubeconfigRefused(
                ["the kubeconfig has no current-context"], self._choose("name one with --context: ")
            )
        if self._name not in merged.entries["contexts"]:
            raise KubeconfigRefused([f"the kubeconfig has no context `{self._name}`"], self._choose("it has "))

    def _choose(self, words: str) -> str:
        known = sorted(self._merged.entries["contexts"])
        return did_you_mean(self._name, known) or words + (", ".join(known) or "none")

    def target(self) -> ApiTarget:
        context = self._merged.entries["contexts"][self._name]
        cluster = self._entry("clusters", context, "cluster")
        user = self._entry("users", context, "user", optional=True)
        server = self._server(cluster)
        self._refuse_plugins(user)
        token, token_file = self._string(user, "token"), self._path(user, "tokenFile")
        certificate, key = self._pem(user, "client-certificate"), self._pem(user, "client-key")
        if bool(certificate) != bool(key):
            self._problems.append(f"{user.where}: client-certificate and client-key belong together, one is missing")
        if server.startswith("http://") and (token or token_file or certificate):
            self._problems.append(f"{cluster.where}: server {server} is plain HTTP, over which no credentials are sent")
        target = ApiTarget(
            server=server, namespace=self._string(context, "namespace") or DEFAULT_NAMESPACE,
            authority=self._pem(cluster, "certificate-authority"),
            insecure=cluster.values.get("insecure-skip-tls-verify") is True,
            server_name=self._string(cluster, "tls-server-name"), proxy=self._string(cluster, "proxy-url"),
            token="" if token_file else token, token_file=token_file, certificate=certificate, key=key,
            headers=self._impersonation(user), origin=self._name,
        )  # fmt: skip
        if self._problems:
            raise KubeconfigRefused(self._problems, self._hint)
        return target

    def _entry(self, listed: str, context: _ConfigEntry, key: str, *, optional: bool = False) -> _ConfigEntry:
        name = self._string(context, key)
        found = self._merged.entries[listed].get(name)
        if found is None and not (optional and not name):
            self._problems.append(f"{context.where}: there is no {key} `{name}`")
        return found or _ConfigEntry(context.path, "", {})

    def _server(self, cluster: _ConfigEntry) -> str:
        server = self._string(cluster, "server").rstrip("/")
        try:
            parts = urlsplit(server)
            sound = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
        except ValueError:  # not a valid port
            sound = False
        if cluster.where and not sound:  # a missing cluster was reported already
            self._problems.append(f"{cluster.where}: server: expected a URL like https://host:6443, got `{server}`")
        return server

    def _refuse_plugins(self, user: _ConfigEntry) -> None:
        refused = [f"{user.where}: `{name}` {why}" for name, why in REFUSED.items() if user.values.get(name)]
        self._problems.extend(refused)
        self._hint = OTHER_WAYS if refused else ""

    def _string(self, entry: _ConfigEntry, key: str) -> str:
        value = entry.values.get(key)
        if value is not None and not isinstance(value, str):
            self._problems.append(f"{entry.where}: {key}: expected a string")
        return _text(value)

    def _path(self, entry: _ConfigEntry, key: str) -> str:
        value = self._string(entry, key)
        return str(entry.path.parent / value) if value else ""

    def _pem(self, entry: _ConfigEntry, key: str) -> bytes:
        """Return a certificate or key, inline or from the file that is named; inline data wins."""
        data = self._string(entry, f"{key}-data")
        try:
            if data:
                return base64.b64decode(data, validate=True)
            path = self._path(entry, key)
            return Path(path).read_bytes() if path else b""
        except binascii.Error:
            self._problems.append(f"{entry.where}: {key}-data: is not base64")
        except OSError as error:
            self._problems.append(f"{entry.where}: {key}: {path}: {error.strerror}")
        return b""

    def _impersonation(self, user: _ConfigEntry) -> dict[str, Sequence[str]]:
        named = {"Impersonate-User": self._string(user, "as"), "Impersonate-Uid": self._string(user, "as-uid")}
        headers: dict[str, Sequence[str]] = {name: [value] for name, value in named.items() if value}
        groups = user.values.get("as-groups") or []
        if groups and isinstance(groups, list):
            headers["Impersonate-Group"] = [str(group) for group in groups]
        if user.values.get("as-user-extra"):
            self._problems.append(f"{user.where}: `as-user-extra` is not known to makeway")
        return headers
