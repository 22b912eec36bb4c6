"""``makeway kubeconfig`` and ``makeway token``: access of others to the local server.

A token is made through the running server, or, if none runs, in its data folder. It is shown once, when it is made.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote

import click
import msgspec
import yaml

from makeway.adapters.kubernetes.client import Client
from makeway.adapters.kubernetes.kubeconfig import kubeconfig_paths
from makeway.adapters.server.access.tokens import (
    PREFIX,
    ROLES,
    TOKENS_NAMESPACE,
    Access,
    Role,
    Token,
    new_token,
    read_token,
    token_object,
)
from makeway.adapters.server.storage.beginning import open_store
from makeway.adapters.server.storage.data_file import DataFileRefused
from makeway.adapters.server.storage.own_folder import write_own
from makeway.adapters.server.storage.store import SqliteStore
from makeway.api import codec
from makeway.api.objects.kubernetes import Secret
from makeway.api.quantity import Duration, Time
from makeway.cli.clients.connection import connected, data_folder, local_target
from makeway.cli.server.serve import DATA, OUTPUT, holder_of
from makeway.cli.terminal.output import Table, print_data, yaml_text
from makeway.cli.terminal.screen import echo, plain
from makeway.runtime.live.driver import wall_clock
from makeway.runtime.ports import NotFound

ENTRIES = {"clusters": "cluster", "users": "user", "contexts": "context"}

# --- kubeconfig ------------------------------------------------------------------------------------------------------


@click.command()
@DATA
@click.option("--name", default="makeway", show_default=True, help="Of its cluster, user and context.")
@click.option(
    "--token", metavar="TOKEN", help="Another than the administrator's, such as one of `makeway token create`."
)
@click.option("--write", is_flag=True, help="Put it into --file, beside what is there, and make it the current one.")
@click.option("--file", "path", metavar="FILE", help="For --write.  [default: $KUBECONFIG or ~/.kube/config]")
def kubeconfig(data: str | None, name: str, token: str | None, write: bool, path: str | None) -> None:
    """Print a kubeconfig for kubectl and other clients, with the server's own authority in it."""
    if path is not None and not write:
        raise click.UsageError("--file goes with --write\n\nhint: without --write it goes to stdout")
    target = local_target(data_folder(data))
    entry = _config(name, target.server, target.authority, token or target.token)
    if not write:
        click.echo(yaml_text([entry]), nl=False)
        return
    place = Path(path) if path else kubeconfig_paths(os.environ, Path.home())[0]
    _merge(place, entry)
    echo(f"wrote context {plain(name)} to {plain(str(place))}, and made it the current one")


def _config(name: str, server: str, authority: bytes, token: str) -> dict[str, Any]:
    cluster = {"server": server, "certificate-authority-data": base64.b64encode(authority).decode()}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": cluster}],
        "users": [{"name": name, "user": {"token": token}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name, "namespace": "default"}}],
        "current-context": name,
    }


def _merge(path: Path, entry: Mapping[str, Any]) -> None:
    """Add an entry to a kubeconfig, which is private from then on because of its token. Other files are not changed.

    Links are followed: many users keep the file elsewhere, and the owner of a link decides where it leads.
    """
    path = Path(os.path.realpath(path))
    try:
        text = path.read_text("utf-8")
    except FileNotFoundError:
        text = ""
    except (OSError, UnicodeDecodeError) as error:
        raise click.ClickException(f"{path} cannot be read: {error}\n\nhint: name another --file") from error
    try:
        there = yaml.safe_load(text) or {}
    except yaml.YAMLError as error:
        there = str(error)
    if not isinstance(there, dict) or not all(isinstance(there.get(each) or [], list) for each in ENTRIES):
        raise click.ClickException(f"{path} is no kubeconfig, and stays as it is\n\nhint: name another --file")
    merged = {"apiVersion": "v1", "kind": "Config", **there, "current-context": entry["current-context"]}
    for each in ENTRIES:
        name = entry[each][0]["name"]
        others = [one for one in there.get(each) or [] if not (isinstance(one, dict) and one.get("name") == name)]
        merged[each] = [*others, *entry[each]]
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_own(path, yaml_text([merged]).encode())
    except OSError as error:
        raise click.ClickException(
            f"{path} cannot be written: {error.strerror}\n\nhint: name another --file"
        ) from error


# --- tokens ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Known:
    """An existing token; only its holder knows the secret."""

    id: str
    name: str
    role: str
    created: str
    expires: str = ""  # default: it does not expire

    @classmethod
    def of(cls, token: Token) -> _Known:
        expires = "" if token.expires is None else str(token.expires)
        return cls(token.id, token.user.name, token.user.role, token.created, expires)

    def tree(self) -> dict[str, str]:
        return {
            "id": self.id, "name": self.name, "role": self.role, "created": self.created, "expires": self.expires
        }  # fmt: skip


class _TokenKeeper(Protocol):
    def put(self, token: Secret) -> None: ...

    def list(self) -> Sequence[_Known]: ...

    def revoke(self, id_: str) -> bool:
        """Revoke a token; return whether there was one."""


class _ThroughServer:
    """The tokens of a running server, as objects of its API."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._path = f"/api/v1/namespaces/{TOKENS_NAMESPACE}/secrets"

    def put(self, token: Secret) -> None:
        self._client.send("POST", self._path, body=codec.to_tree(token))

    def list(self) -> Sequence[_Known]:
        items = self._client.send("GET", self._path).tree()["items"]
        read = (read_token(codec.decode(msgspec.json.encode(each), Secret)) for each in items)
        return [_Known.of(each) for each in read if each is not None]

    def revoke(self, id_: str) -> bool:
        try:
            self._client.send("DELETE", f"{self._path}/{quote(PREFIX + id_, safe='')}")
        except NotFound:
            return False
        return True


class _InFolder:
    """The tokens in a data folder that no server has open."""

    def __init__(self, store: SqliteStore) -> None:
        self._store = store
        self._access = Access(store)

    def put(self, token: Secret) -> None:
        self._store.create(token)

    def list(self) -> Sequence[_Known]:
        return [_Known.of(each) for each in self._access.tokens()]

    def revoke(self, id_: str) -> bool:
        return self._access.revoke(id_)


@contextmanager
def _tokens(data: str | None) -> Iterator[_TokenKeeper]:
    folder = data_folder(data)
    local_target(folder)  # raises with a hint if there never was a server
    if holder_of(folder) is not None:
        click.get_current_context().meta["makeway.server"] = {"data": data}
        with connected() as connection:
            yield _ThroughServer(connection.client)
        return
    try:
        store = open_store(folder, wall_clock)
    except DataFileRefused as error:
        raise click.ClickException(f"{error}\n\nhint: look at `makeway status`") from error
    with store:
        yield _InFolder(store)


@click.group()
def token() -> None:
    """Make, list and revoke the tokens by which clients are known."""


@token.command()
@click.option("--role", type=click.Choice(ROLES), required=True, help="viewer reads all but Secrets; admin may do all.")
@click.option("--name", metavar="NAME", help="Whose it is, for the list and for audits.  [default: the role]")
@click.option("--expires", metavar="SPAN", help="After which it ends, for example 12h.  [default: never]")
@DATA
@OUTPUT
def create(role: Role, name: str | None, expires: str | None, data: str | None, output: str) -> None:
    """Make a token and print it. It is told once and stored nowhere."""
    id_, secret = new_token()
    ends = None if expires is None else _end(expires)
    with _tokens(data) as tokens:
        tokens.put(token_object(id_, secret, name or role, role, ends))
    if output == "text":
        click.echo(f"{id_}.{secret}")
    elif output == "name":
        click.echo(f"token/{id_}")
    else:
        told = {"id": id_, "name": name or role, "role": role, "expires": "" if ends is None else str(ends)}
        print_data({**told, "token": f"{id_}.{secret}"}, output)


def _end(expires: str) -> Time:
    try:
        span = Duration.parse(expires)
    except ValueError as error:
        raise click.BadParameter(f"{error}\n\nhint: for example 90m, 12h or 720h", param_hint="--expires") from error
    if span.nanos <= 0:
        raise click.BadParameter("must be longer than nothing\n\nhint: for example 12h", param_hint="--expires")
    return Time.of_millis(wall_clock() // 1000 * 1000 + span.nanos // 1_000_000)


@token.command(name="list")
@DATA
@OUTPUT
def list_(data: str | None, output: str) -> None:
    """Show which tokens there are; never their secrets."""
    with _tokens(data) as tokens:
        found = sorted(tokens.list(), key=lambda each: (each.created, each.id))
    if output == "text":
        Table(("id", "name", "role", "created", "expires")).print([tuple(each.tree().values()) for each in found])
    elif output == "name":
        for each in found:
            click.echo(f"token/{each.id}")
    else:
        print_data([each.tree() for each in found], output)


@token.command()
@click.argument("ids", metavar="ID…", nargs=-1, required=True)
@DATA
def revoke(ids: Sequence[str], data: str | None) -> None:
    """End tokens at once, also for watches that are open."""
    with _tokens(data) as tokens:
        known = {each.id for each in tokens.list()}
        unknown = [each for each in ids if each.partition(".")[0] not in known]
        if unknown:
            words = ", ".join(plain(each.partition(".")[0]) for each in unknown)
            raise click.ClickException(f"no such token: {words}\n\nhint: `makeway token list` shows their ids")
        for each in ids:
            tokens.revoke(each.partition(".")[0])
            echo(f"revoked token {plain(each.partition('.')[0])}")
