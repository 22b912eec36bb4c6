"""Shell completion: the script for a shell, kinds that makeway knows, and names that the server has.

Requests for names have a short timeout: a user who presses Tab must not wait for a server that is away.
"""

from __future__ import annotations

from collections.abc import Callable

import click
from click.shell_completion import CompletionItem, ShellComplete, get_completion_class

SHELLS = ("bash", "zsh", "fish")
SECONDS = 1.0
NAMES_MAX = 500
VARIABLE = "_MAKEWAY_COMPLETE"


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
def completion(shell: str) -> None:
    """Print the script that completes makeway's commands in a shell.

    For bash, in ~/.bashrc: eval "$(makeway completion bash)". For zsh, in ~/.zshrc: eval "$(makeway completion zsh)".
    For fish: makeway completion fish > ~/.config/fish/completions/makeway.fish
    """
    from makeway.cli.main import main

    found = get_completion_class(shell)
    assert found is not None
    click.echo(ShellComplete.source(found(main, {}, "makeway", VARIABLE)), nl=False)


def complete_objects(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete a kind first, then names of that kind; also KIND/NAME."""
    words: tuple[str, ...] = ctx.params.get(param.name or "") or ()
    kind, slash, start = incomplete.partition("/")
    if slash:
        return [CompletionItem(f"{kind}/{name}") for name in _names(ctx, kind) if name.startswith(start)]
    if not words or "/" in words[0]:
        return complete_kinds(ctx, param, incomplete)
    return [CompletionItem(name) for name in _names(ctx, words[0]) if name.startswith(incomplete)]


def complete_kinds(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    from makeway.adapters.kubernetes.resources import known_resources

    kinds = {each.plural: each for each in reversed(known_resources())}
    return [
        CompletionItem(plural, help=f"{each.kind}, {each.api_version}")
        for plural, each in sorted(kinds.items())
        if plural.startswith(incomplete)
    ]


def _names(ctx: click.Context, kind: str) -> list[str]:
    from makeway.cli.clients.asking import QueryScope
    from makeway.cli.clients.connection import connected

    try:
        with connected(ctx, seconds=SECONDS) as connection:
            resource = connection.resource(kind)
            everywhere = bool(ctx.params.get("everywhere"))
            scope = QueryScope(None if everywhere else ctx.params.get("namespace") or connection.namespace)
            page = connection.client.list(resource, scope.of(resource), limit=NAMES_MAX)
    except (click.ClickException, OSError):  # no server, no names
        return []
    return [str(each["metadata"]["name"]) for each in page.get("items") or ()]


def complete_names_of(kind: str) -> Callable[[click.Context, click.Parameter, str], list[CompletionItem]]:
    """Complete names of one kind."""

    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        return [CompletionItem(name) for name in _names(ctx, kind) if name.startswith(incomplete)]

    return complete
