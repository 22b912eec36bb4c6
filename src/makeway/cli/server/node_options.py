"""Options of ``makeway up`` about the machine: ``--node-capacity`` for all of it, ``--node`` for parts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import click

from makeway.adapters.node.machine import Offer, own_name
from makeway.api.forms import is_qualified, is_subdomain
from makeway.api.quantity import Quantity

F = TypeVar("F", bound=Callable[..., Any])
EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
EXAMPLE = "--node big:cpu=8,memory=32Gi,nvidia.com/gpu=2,label/tier=reserved,taint/spot=true:NoSchedule"


def node_options(function: F) -> F:
    for option in (
        click.option("--no-node", is_flag=True, help="Run nothing here: pods wait for a node."),
        click.option(
            "--node", "nodes", multiple=True, metavar="NAME:KEY=VALUE,…",
            help="A part of the machine as a node of its own; several are allowed. Keys are resources, label/KEY and "
                 "taint/KEY (its value ends in :NoSchedule or another effect).",
        ),
        click.option(
            "--node-capacity", metavar="RESOURCE=AMOUNT,…", help="What the machine has, instead of measuring it."
        ),
    ):  # fmt: skip
        function = option(function)
    return function


def offers(capacity: str | None, nodes: Sequence[str]) -> tuple[Offer, ...]:
    """Parse the options; all problems at once, as wrong usage."""
    problems: list[str] = []
    if capacity and nodes:
        problems.append("--node-capacity: not together with --node, which says it for each part")
    found = [_offer(text, problems) for text in nodes]
    if capacity and not nodes:
        found = [_filled(Offer(own_name(), {}), "--node-capacity", capacity, problems)]
    names = [each.name for each in found]
    problems += [f"--node: {name} is named twice" for name in sorted({name for name in names if names.count(name) > 1})]
    if problems:
        raise click.UsageError("\n".join((*problems, "", f"hint: for example {EXAMPLE}")))
    return tuple(found)


def words(capacity: str | None, nodes: Sequence[str], *, no_node: bool) -> Iterator[str]:
    """Return the same options for another process."""
    if no_node:
        yield "--no-node"
    if capacity:
        yield from ("--node-capacity", capacity)
    for node in nodes:
        yield from ("--node", node)


def _offer(text: str, problems: list[str]) -> Offer:
    name, _, rest = text.partition(":")
    where = f"--node {name}"
    if not is_subdomain(name):
        problems.append(f"--node: {name!r} is not a name of a node")
    return _filled(Offer(name, {}), where, rest, problems)


def _filled(offer: Offer, where: str, text: str, problems: list[str]) -> Offer:
    for part in (each.strip() for each in text.split(",") if each.strip()):
        key, equals, value = part.partition("=")
        if not equals:
            problems.append(f"{where}: {part!r} is not KEY=VALUE")
        elif key.startswith("label/"):
            offer = replace(offer, labels={**offer.labels, key.removeprefix("label/"): value})
        elif key.startswith("taint/"):
            offer = _tainted(offer, where, key.removeprefix("taint/"), value, problems)
        elif not is_qualified(key):
            problems.append(f"{where}: {key!r} is not a resource")
        else:
            offer = _with_amount(offer, where, key, value, problems)
    return offer


def _with_amount(offer: Offer, where: str, key: str, value: str, problems: list[str]) -> Offer:
    try:
        amount = Quantity.parse(value)
    except ValueError as error:
        problems.append(f"{where}: {key}: {error}")
        return offer
    if amount.nano < 0:
        problems.append(f"{where}: {key}: {value} is negative")
    return replace(offer, capacity={**offer.capacity, key: amount})


def _tainted(offer: Offer, where: str, key: str, value: str, problems: list[str]) -> Offer:
    told, _, effect = value.rpartition(":")
    if effect not in EFFECTS:
        problems.append(f"{where}: taint {key}: {effect!r} is no effect; allowed are {', '.join(EFFECTS)}")
    return replace(offer, taints=(*offer.taints, {"key": key, "value": told, "effect": effect}))
