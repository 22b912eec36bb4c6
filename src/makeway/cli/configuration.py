"""A Configuration file for commands that serve; all that is wrong with it is told, and the command ends."""

from __future__ import annotations

from dataclasses import dataclass

import click

from makeway.api.manifests import Finding
from makeway.api.objects.configuration import Configuration
from makeway.cli.files import gather
from makeway.cli.screen import plural, print_finding
from makeway.core.lowering import policy_of
from makeway.core.policy import Policy
from makeway.runtime.journal import MAX_AGE_MS, MAX_BYTES


@dataclass(frozen=True, slots=True)
class Configured:
    """What a configuration asks for."""

    policy: Policy
    journal_age_ms: int = MAX_AGE_MS
    journal_bytes: int = MAX_BYTES
    source: Configuration | None = None


def configured(path: str | None) -> Configured:
    """The settings of a file; defaults without one. Ends the command, with exit code 1, where anything is wrong."""
    if path is None:
        return Configured(Policy.default())
    gathered = gather([path], recursive=False)
    found = gathered.findings()
    errors = [each for each in found if each.severity == "error"]
    values = [each.value for each in gathered.manifests]
    if not errors and (len(values) != 1 or not isinstance(values[0], Configuration)):
        hint = "it must hold one object of kind Configuration and nothing else"
        errors = [Finding(path, None, None, "", "", "", "error", "is not a Configuration", hint)]
        found = [*found, *errors]
    for finding in found:
        print_finding(finding, err=True)
    if errors:
        click.echo(f"nothing is started: {plural(len(errors), 'error')}", err=True)
        raise click.exceptions.Exit(1)
    value = values[0]
    assert isinstance(value, Configuration)
    journal = value.makeway.journal
    return Configured(policy_of(value), journal.max_age.millis, journal.max_size.in_units("memory"), value)
