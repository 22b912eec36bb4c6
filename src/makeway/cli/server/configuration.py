"""The Configuration file of commands that serve or place; with errors the command ends, after all were reported."""

from __future__ import annotations

import click

from makeway.api.objects.configuration import Configuration
from makeway.api.reading.manifests import Finding
from makeway.cli.offline.files import gather
from makeway.cli.terminal.screen import plural, print_finding


def read_configuration(path: str | None, *, undone: str = "started") -> Configuration:
    """Return the Configuration; the defaults without a file. With errors the command ends: nothing is ``undone``."""
    if path is None:
        return Configuration()
    gathered = gather([path], recursive=False)
    found = gathered.findings()
    errors = [each for each in found if each.severity == "error"]
    values = [manifest.value for manifest in gathered.manifests]
    if not errors and (len(values) != 1 or not isinstance(values[0], Configuration)):
        hint = "it must hold one object of kind Configuration and nothing else"
        errors = [Finding(path, None, None, "", "", "", "error", "is not a Configuration", hint)]
        found = [*found, *errors]
    for finding in found:
        print_finding(finding, err=True)
    if errors:
        click.echo(f"nothing is {undone}: {plural(len(errors), 'error')}", err=True)
        raise click.exceptions.Exit(1)
    value = values[0]
    assert isinstance(value, Configuration)
    return value
