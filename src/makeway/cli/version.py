"""``makeway version``: of this program, and of its server.

Without a server it says so in a line, and succeeds. Code that talks to servers is imported only if there is a server:
scripts ask for the version often.
"""

from __future__ import annotations

import sys
from typing import Any

import click

from makeway import __version__

SECONDS = 3.0


def _noted(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    ctx.meta.setdefault("makeway.server", {})[str(param.name)] = value
    return value


@click.command()
@click.option("--client", "alone", is_flag=True, help="Of this program only.")
@click.option("-o", "--output", type=click.Choice(["text", "json", "yaml", "name"]), default="text", show_default=True)
@click.option("--data", metavar="DIR", callback=_noted, help="The local server's data folder.")
@click.option("--kubeconfig", metavar="FILE", callback=_noted, help="Of the server of this kubeconfig instead.")
@click.option("--context", metavar="NAME", callback=_noted, help="The context of the kubeconfig.")
def version(alone: bool, output: str, data: str | None, kubeconfig: str | None, context: str | None) -> None:
    """Print the version of makeway and of the server."""
    python = ".".join(str(part) for part in sys.version_info[:3])
    told: dict[str, Any] = {"version": __version__, "python": python}
    if not alone and (kubeconfig or context or _is_there(data)):
        told["server"], trouble = _server()
        if trouble:
            click.echo(f"makeway: {trouble}", err=True)
    if output == "text":
        click.echo(f"makeway {__version__}")
        if told.get("server"):
            click.echo(f"server {told['server'].get('gitVersion')}")
    elif output == "name":
        click.echo(f"makeway/{__version__}")
    else:
        from makeway.cli.terminal.output import print_data

        print_data(told, output)


def _is_there(data: str | None) -> bool:
    """Whether a server was ever started here."""
    import os

    base = os.environ.get("XDG_DATA_HOME", "")
    folder = data or os.path.join(base if os.path.isabs(base) else os.path.expanduser("~/.local/share"), "makeway")
    return os.path.exists(os.path.join(folder, "admin.token"))


def _server() -> tuple[dict[str, Any] | None, str]:
    """Return what the server says of itself, or why it does not answer."""
    from makeway.cli.clients.connection import connected

    try:
        with connected(seconds=SECONDS) as connection:
            return connection.client.send("GET", "/version").tree(), ""
    except click.ClickException as error:
        return None, error.message.partition("\n")[0]
