"""``makeway validate`` and ``makeway crds``: checks of manifests, and the definitions for a cluster.

The findings of ``validate`` are data and go to stdout; their number goes to stderr. An unreadable file is one more
finding, and the other files are checked all the same.
"""

from __future__ import annotations

import json
from dataclasses import asdict

import click

from makeway.api.problems import has_errors
from makeway.api.validation.placement import advise_pods
from makeway.cli.offline.files import STDIN, count, gather, summary
from makeway.cli.terminal.screen import print_finding


@click.command()
@click.option("-f", "--filename", "named", multiple=True, metavar="PATH", help="File, folder, or - for stdin.")
@click.argument("more", nargs=-1, metavar="[PATH]...")
@click.option("-R", "--recursive", is_flag=True, help="Look into folders below a folder too.")
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
def validate(named: tuple[str, ...], more: tuple[str, ...], recursive: bool, output: str) -> None:
    """Check manifests: each by itself, then all together.

    Of a folder its *.yaml, *.yml and *.json files are read. Exits with 1 if there are errors; warnings alone do not
    count.
    """
    if not named:
        example = f"makeway validate -f {more[0] if more else 'PATH'}"
        raise click.UsageError(f"no file is named\n\nhint: `{example}`; `-f -` reads stdin")
    paths = (*named, *more)
    if paths.count(STDIN) > 1:
        raise click.UsageError("stdin can be read once only\n\nhint: give `-f -` once")
    gathered = gather(paths, recursive)
    for manifest in gathered.manifests:
        for problem in () if has_errors(manifest.problems) else advise_pods(manifest.value):
            manifest.tell(problem)
    found = gathered.findings()
    if output == "json":
        click.echo(json.dumps([asdict(finding) for finding in found], indent=2))
    else:
        for finding in found:
            print_finding(finding)
        click.echo(summary(gathered, found), err=True)
    if count(found, "error"):
        raise click.exceptions.Exit(1)


@click.command()
@click.option("-o", "--output", type=click.Choice(["yaml", "json", "name"]), default="yaml", show_default=True)
def crds(output: str) -> None:
    """Print the CustomResourceDefinitions of the queueing kinds."""
    from makeway.api.schema.crds import crds as definitions
    from makeway.cli.terminal.output import list_of, yaml_text

    if output == "json":
        click.echo(json.dumps(list_of(definitions()), indent=2))
    elif output == "name":
        for each in definitions():
            click.echo(f"customresourcedefinition.apiextensions.k8s.io/{each['metadata']['name']}")
    else:
        click.echo(yaml_text(definitions()), nl=False)
