"""The server of a command: the local one by itself, any other by its kubeconfig.

The local server is found by its data folder, which has its address, its certificate authority and the administrator's
token. Errors on the way to a server, and refusals, end in a sentence and a next step.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import click

from makeway.adapters.kubernetes.client import Client
from makeway.adapters.kubernetes.errors import NotTrusted, Unauthorized
from makeway.adapters.kubernetes.kubeconfig import ApiTarget, KubeconfigRefused, kubeconfig_paths, read_target
from makeway.adapters.kubernetes.resources import Resource, find_resource, known_resources
from makeway.adapters.kubernetes.transport import ANSWER_SECONDS
from makeway.adapters.server.storage.own_folder import check_folder, read_own
from makeway.api.reading.structure import did_you_mean
from makeway.cli.terminal.screen import echo, plain
from makeway.runtime.ports import Conflict, Expired, Forbidden, Invalid, NotFound, StoreError, TimedOut, Unavailable

F = TypeVar("F", bound=Callable[..., Any])
PORT = 7443
TRIES = 2
ADDRESS_FILE = "address"
LOCAL = "the local server"
SILENT = ("cannot be reached", "gave no answer")  # how errors begin that no server has sent
ANOTHER = "`--kubeconfig FILE` talks to another"
NOT_SERVED = ("could not find the requested resource", "page not found")


def server_options(function: F) -> F:
    """Add --data, --kubeconfig and --context to a command, which gets them as ``server``."""

    def gathered(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
        asked: dict[str, str | None] = ctx.meta.setdefault("makeway.server", {})
        asked[str(param.name)] = value
        return value

    for name, metavar, help in (
        ("--context", "NAME", "The context of the kubeconfig."),
        ("--kubeconfig", "FILE", "Talk to the server of this kubeconfig instead of the local one."),
        ("--data", "DIR", "The local server's data folder.  [default: $XDG_DATA_HOME/makeway]"),
    ):
        option = click.option(name, metavar=metavar, help=help, callback=gathered, expose_value=False)
        function = option(function)
    return function


def data_folder(named: str | None) -> Path:
    """The folder of the local server's files."""
    if named:
        return Path(named)
    base = os.environ.get("XDG_DATA_HOME", "")
    return (Path(base) if os.path.isabs(base) else Path.home() / ".local" / "share") / "makeway"


@dataclass(frozen=True, slots=True)
class Connection:
    """A server, and the name that people know it by."""

    client: Client
    namespace: str  # if a command names none
    name: str

    def resource(self, name: str) -> Resource:
        """Return the resource of this name: one that makeway knows, else one that the server serves."""
        found = find_resource(name, known_resources()) or find_resource(name, self.client.resources())
        if found is None:
            names = [each for one in known_resources() for each in (one.plural, *one.short_names)]
            hint = did_you_mean(name, names) or "for example clusterqueues, localqueues, workloads or jobs"
            raise click.UsageError(f"{self.name} serves no `{plain(name)}`\n\nhint: {hint}")
        return found


@contextmanager
def connected(ctx: click.Context | None = None, *, seconds: float = ANSWER_SECONDS) -> Iterator[Connection]:
    """Return the server that the options of the running command name; if the server refuses, the command ends."""
    asked: dict[str, str | None] = (ctx or click.get_current_context()).meta.get("makeway.server", {})
    target = _target(asked.get("data"), asked.get("kubeconfig"), asked.get("context"))
    name = f"the server of context {target.origin}" if target.origin else LOCAL
    try:
        with Client(target, tries=TRIES, seconds=seconds, warn=_warn) as client:
            yield Connection(client, target.namespace, name)
    except StoreError as error:
        raise failure(error, name) from error


def _target(data: str | None, kubeconfig: str | None, context: str | None) -> ApiTarget:
    if kubeconfig is None and context is None:
        return _running_target(data_folder(data))
    if data is not None:
        raise click.UsageError("--data names the local server, --kubeconfig another\n\nhint: give one of the two")
    named = [Path(kubeconfig)] if kubeconfig else kubeconfig_paths(os.environ, Path.home())
    try:
        return read_target(named, context or "", must_exist=bool(kubeconfig))
    except KubeconfigRefused as error:
        hint = f"\n\nhint: {error.hint}" if error.hint else ""
        raise click.ClickException(plain_lines(str(error)) + hint) from error


def local_target(folder: Path) -> ApiTarget:
    """Return the server of a data folder, whether it runs or not. Raises a hint if there never was one."""
    address = f"https://127.0.0.1:{PORT}"
    try:
        check_folder(folder, reads_only=True)  # else another account could have us send our Secrets to its server
        token = read_own(folder / "admin.token").decode("ascii").strip()
        authority = read_own(folder / "ca.crt")
        with suppress(FileNotFoundError):
            address = read_own(folder / ADDRESS_FILE).decode("ascii").strip()
    except FileNotFoundError as error:
        hint = f"`makeway up` starts one; {ANOTHER}"
        raise click.ClickException(f"no server has been started in {folder}\n\nhint: {hint}") from error
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        hint = "run this as the account that runs the server, or use `--kubeconfig FILE`"
        raise click.ClickException(f"{folder} cannot be read: {reason}\n\nhint: {hint}") from error
    return ApiTarget(address, authority=authority, token=token)


def _running_target(folder: Path) -> ApiTarget:
    target = local_target(folder)
    if not (folder / ADDRESS_FILE).exists():  # exists while a server runs
        raise click.ClickException(f"the server of {folder} does not run\n\nhint: `makeway up` starts it; {ANOTHER}")
    return target


def failure(error: StoreError, server: str) -> click.ClickException:
    """Return the error in a sentence, and what to do about it."""
    text = plain_lines(str(error)) or type(error).__name__
    match error:
        case Unauthorized():
            hint = "the token is not known there: make a new one with `makeway token create`"
        case Forbidden():
            hint = "ask with a token of another role; `kubectl auth can-i --list` shows what this one may do"
        case NotTrusted():
            hint = "is this the server that was meant? `makeway kubeconfig` writes one with its authority"
        case TimedOut():
            hint = "nobody knows whether it was done: look before you do it again"
        case Unavailable() if server == LOCAL and not text.startswith(SILENT):
            hint = "`makeway status` says whether it is ready, its log may say more"
        case Unavailable() if server == LOCAL:
            hint = "`makeway status` says whether it runs, `makeway up` starts it"
        case Unavailable() | Expired():
            hint = "try again in a moment"
        case NotFound() if any(words in text for words in NOT_SERVED):
            hint = "this server does not serve that kind in that version; `makeway crds` prints the definitions of ours"
        case NotFound():
            hint = "`makeway get KIND -A` lists what there is"
        case Conflict():
            hint = "somebody else has changed it: read it again, and decide again"
        case Invalid():
            hint = "`makeway validate -f FILE` checks a manifest before it is applied"
        case _:
            hint = "the server's own log may say more"
    subject = f"{server} {text}" if text.startswith(SILENT) else text
    return click.ClickException(f"{subject}\n\nhint: {hint}")


def plain_lines(text: str) -> str:
    return "\n".join(plain(line) for line in text.splitlines())


def _warn(text: str) -> None:
    echo(f"{click.style('warning', fg='yellow', bold=True)}: {plain(text)}", err=True)
