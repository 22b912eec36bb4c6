"""``makeway token`` and ``makeway kubeconfig``: who is known to the server of this machine, and how clients find it.

Tokens are objects of the server. While it runs they are made through its API; while it does not, in its data folder.
A token is shown once, when it is made: only its hash is kept.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import click

from makeway.adapters.kubernetes.kubeconfig import kubeconfig_paths
from makeway.adapters.server.access import (
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
from makeway.adapters.server.beginning import open_store
from makeway.adapters.server.data_file import DataFileRefused
from makeway.api import codec
from makeway.api.documents import parse
from makeway.api.objects.kubernetes import Secret
from makeway.api.quantity import Duration, Time
from makeway.cli.connection import connected, data_folder, local_target, server_options
from makeway.cli.output import Table, print_data, yaml_text
from makeway.cli.serve import running_in
from makeway.core.model import Millis, stored
from makeway.runtime.live import wall_clock
from makeway.runtime.ports import NotFound

NAME = "makeway"
NAME_MAX = 64
SECRETS = f"/api/v1/namespaces/{TOKENS_NAMESPACE}/secrets"


# --- where tokens are kept -------------------------------------------------------------------------------------------


class Keeper(Protocol):
    def add(self, secret: Secret) -> None: ...

    def tokens(self) -> list[Token]: ...

    def remove(self, id_: str) -> bool:
        """Whether there was one."""


class _Server:
    """Through the API."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def add(self, secret: Secret) -> None:
        self._client.send("POST", SECRETS, body=codec.to_tree(secret))

    def tokens(self) -> list[Token]:
        listed = self._client.send("GET", SECRETS).tree().get("items", [])
        secrets = [codec.read({"apiVersion": "v1", "kind": "Secret", **each}, "Ignore").value for each in listed]
        found = [read_token(each) for each in secrets if isinstance(each, Secret)]
        return [each for each in found if each is not None]

    def remove(self, id_: str) -> bool:
        try:
            self._client.send("DELETE", f"{SECRETS}/{PREFIX}{id_}")
        except NotFound:
            return False
        return True


class _Folder:
    """In the data folder, while nobody serves it."""

    def __init__(self, folder: Path) -> None:
        self._store = open_store(folder, wall_clock)
        self._access = Access(self._store)

    def add(self, secret: Secret) -> None:
        self._store.create(secret)

    def tokens(self) -> list[Token]:
        return list(self._access.tokens())

    def remove(self, id_: str) -> bool:
        return self._access.revoke(id_)

    def close(self) -> None:
        self._store.close()


@contextmanager
def _keeper(ctx: click.Context) -> Iterator[Keeper]:
    asked: dict[str, str | None] = ctx.meta.get("makeway.server", {})
    folder = data_folder(asked.get("data")).absolute()
    if asked.get("kubeconfig") or asked.get("context") or running_in(folder) is not None:
        with connected(ctx) as connection:
            yield _Server(connection.client)
        return
    local_target(folder)  # there must have been a server
    try:
        kept = _Folder(folder)
    except DataFileRefused as error:
        raise click.ClickException(f"{error}\n\nhint: `makeway status` shows who has it open") from error
    try:
        yield kept
    finally:
        kept.close()


# --- token -----------------------------------------------------------------------------------------------------------


@click.group()
def token() -> None:
    """Make, list and revoke the tokens by which clients are known."""


@token.command()
@server_options
@click.option("--role", type=click.Choice(ROLES), required=True, help="viewer may read all but Secrets.")
@click.option("--name", default="", help="Who will use it; shown in lists and to the server.  [default: the role]")
@click.option("--expires", metavar="SPAN", help="After which it ends, for example 12h.  [default: never]")
@click.option("-o", "--output", type=click.Choice(["text", "json", "yaml"]), default="text", show_default=True)
@click.pass_context
def create(ctx: click.Context, role: Role, name: str, expires: str | None, output: str) -> None:
    """Make a token and print it. It is not shown again."""
    if len(name) > NAME_MAX or not (name or role).isprintable():
        raise click.BadParameter(f"at most {NAME_MAX} printable characters", param_hint="--name")
    ends = None if expires is None else _end(expires)
    id_, secret = new_token()
    with _keeper(ctx) as keeper:
        keeper.add(token_object(id_, secret, name or role, role, ends))
    if output == "text":
        click.echo(f"{id_}.{secret}")
    else:
        told = {"id": id_, "name": name or role, "role": role, "expires": None if ends is None else str(ends)}
        print_data({**told, "token": f"{id_}.{secret}"}, output)


def _end(expires: str) -> Time:
    try:
        span = Duration.parse(expires)
    except ValueError as error:
        raise click.BadParameter(f"{error}\n\nhint: for example 90m, 12h or 720h", param_hint="--expires") from error
    if span.nanos <= 0:
        raise click.BadParameter("must be longer than nothing", param_hint="--expires")
    return Time.of_millis(stored(Millis(wall_clock() + span.nanos // 1_000_000)))


class _Row(NamedTuple):
    id: str
    name: str
    role: str
    created: str
    expires: str


@token.command("list")
@server_options
@click.option("-o", "--output", type=click.Choice(["text", "json", "yaml", "name"]), default="text", show_default=True)
@click.pass_context
def list_(ctx: click.Context, output: str) -> None:
    """Show all tokens, without their secrets."""
    with _keeper(ctx) as keeper:
        known = sorted(keeper.tokens(), key=lambda each: (each.user.name, each.id))
    rows = [
        _Row(each.id, each.user.name, each.user.role, each.created, "" if each.expires is None else str(each.expires))
        for each in known
    ]
    if output == "name":
        for row in rows:
            click.echo(f"token/{row.id}")
    elif output == "text":
        Table(_Row._fields).print(rows)
    else:
        print_data([row._asdict() for row in rows], output)


@token.command()
@server_options
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
@click.pass_context
def revoke(ctx: click.Context, ids: tuple[str, ...]) -> None:
    """End tokens, also for watches that are open."""
    with _keeper(ctx) as keeper:
        missing = [id_ for id_ in ids if not (id_.isalnum() and keeper.remove(id_))]
    for id_ in ids:
        if id_ not in missing:
            click.echo(f"revoked {id_}")
    if missing:
        raise click.ClickException(f"no token {', '.join(missing)}\n\nhint: `makeway token list` shows the ids")


# --- kubeconfig ------------------------------------------------------------------------------------------------------


@click.command()
@click.option("--data", metavar="DIR", help="The server's data folder.  [default: $XDG_DATA_HOME/makeway]")
@click.option("--name", default=NAME, show_default=True, help="Of the cluster, the user and the context.")
@click.option("--token", "given", metavar="TOKEN", help="For another user than the administrator.")
@click.option("--server", metavar="URL", help="How clients reach it, where that is another address.")
@click.option("--write", is_flag=True, help="Put it into $KUBECONFIG or ~/.kube/config instead of printing it.")
def kubeconfig(data: str | None, name: str, given: str | None, server: str | None, write: bool) -> None:
    """Print or write a kubeconfig for the server of this machine.

    kubectl and other clients read it. It has the server's authority and a token in it: keep it as you keep the token.
    """
    target = local_target(data_folder(data).absolute())
    entries = {
        "clusters": {
            "name": name,
            "cluster": {
                "server": server or target.server,
                "certificate-authority-data": base64.b64encode(target.authority).decode(),
            },
        },
        "users": {"name": name, "user": {"token": given or target.token}},
        "contexts": {"name": name, "context": {"cluster": name, "user": name, "namespace": target.namespace}},
    }
    if not write:
        tree = {"apiVersion": "v1", "kind": "Config", **{key: [each] for key, each in entries.items()}}
        click.echo(yaml_text([{**tree, "current-context": name}]), nl=False)
        return
    path = kubeconfig_paths(os.environ, Path.home())[0]
    merged, is_current = _merged(_present(path), entries, name)
    _replace(path, yaml_text([merged]))
    click.echo(f"wrote context {name} to {path}")
    if not is_current:
        click.echo(f"\nhint: `kubectl config use-context {name}` makes it the current one")


def _present(path: Path) -> dict[str, Any]:
    """What the file has. One that cannot be read is left as it is."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise click.ClickException(f"{path} cannot be read: {error.strerror}") from error
    documents = [each for each in parse(data) if each.tree is not None or each.problems]
    tree = documents[0].tree if documents else {}
    lists = [tree.get(key) or [] for key in ("clusters", "users", "contexts")] if isinstance(tree, dict) else [None]
    if len(documents) > 1 or any(each.problems for each in documents) or not all(isinstance(e, list) for e in lists):
        hint = "`makeway kubeconfig > FILE` writes one of its own; name it with KUBECONFIG=FILE"
        raise click.ClickException(f"{path} is no kubeconfig, and is left as it is\n\nhint: {hint}")
    return dict(tree)


def _merged(present: dict[str, Any], entries: dict[str, Any], name: str) -> tuple[dict[str, Any], bool]:
    """With our entries in the place of those of the same name; whether ours is the current context."""
    merged: dict[str, Any] = {"apiVersion": "v1", "kind": "Config", **present}
    for key, entry in entries.items():
        others = [each for each in present.get(key) or [] if not (isinstance(each, dict) and each.get("name") == name)]
        merged[key] = [*others, entry]
    merged["current-context"] = present.get("current-context") or name
    return merged, merged["current-context"] == name


def _replace(path: Path, text: str) -> None:
    """Whole or not at all, and readable by its owner alone: there are tokens in it."""
    path = path.resolve()  # a link stays a link
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        beside = path.with_name(f".{path.name}.{os.getpid()}")
        handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(handle)
        os.replace(beside, path)
    except OSError as error:
        raise click.ClickException(f"{error.filename or path} cannot be written: {error.strerror}") from error
