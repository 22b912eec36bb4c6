"""``makeway events``: events, newest last, and new ones as they come."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import click

from makeway.adapters.kubernetes.resources import Resource, resource_of
from makeway.adapters.kubernetes.transport import Object
from makeway.api.objects.kubernetes import Event
from makeway.api.versions import kind_of
from makeway.cli.clients.asking import QueryScope, age, all_items, clock, followed, wanted
from makeway.cli.clients.connection import Connection, connected, server_options
from makeway.cli.completion import complete_objects
from makeway.cli.objects.resources import namespace_option, scope_of
from makeway.cli.terminal.output import Table, list_of, print_data, print_streamed, without_managed_fields
from makeway.cli.terminal.screen import plain
from makeway.core.model import Millis

EVENTS = resource_of(kind_of(Event))
COLUMNS = ("Last seen", "Type", "Reason", "Object", "Message")


@click.command()
@namespace_option
@click.option("-A", "--all-namespaces", "everywhere", is_flag=True, help="Look in every namespace.")
@click.option("--for", "about", metavar="KIND/NAME", help="Of one object only.", shell_complete=complete_objects)
@click.option("-w", "--watch", is_flag=True, help="Go on with what happens.")
@click.option("-o", "--output", type=click.Choice(["text", "json", "yaml", "name"]), default="text", show_default=True)
@server_options
def events(namespace: str | None, everywhere: bool, about: str | None, watch: bool, output: str) -> None:
    """Show what happened, newest last."""
    with connected() as connection:
        scope = scope_of(connection, namespace, everywhere, "")
        subject = _subject(connection, about)
        if subject is not None:
            scope = QueryScope(scope.namespace, "", _fields(*subject))
        shown = _Shown(output, with_namespace=scope.namespace is None)
        if watch:
            for type_, tree in followed(connection.client, EVENTS, scope):
                if type_ != "DELETED":  # it expired, which is no news
                    shown.some(_sorted(tree.get("items", [tree]), subject))
            return
        found = _sorted(all_items(connection.client, EVENTS, scope), subject)
        shown.all(found)
        if not found:
            of = f" for {plain(about)}" if about else ""
            click.echo(f"no events{of}{scope.words(EVENTS)}", err=True)


def _sorted(found: Sequence[Object], subject: tuple[Resource, str] | None) -> list[Object]:
    """Return the events about the subject, newest last."""
    return sorted((each for each in found if _concerns(each, subject)), key=_order)


def _subject(connection: Connection, about: str | None) -> tuple[Resource, str] | None:
    if about is None:
        return None
    found = wanted(connection, [about])
    if not found[0].names:
        raise click.UsageError(f"--for needs KIND/NAME, not `{plain(about)}`\n\nhint: for example --for workload/main")
    return found[0].resource, found[0].names[0]


def _fields(resource: Resource, name: str) -> str:
    return f"involvedObject.kind={resource.kind},involvedObject.name={name}"


def _concerns(event: Mapping[str, Any], subject: tuple[Resource, str] | None) -> bool:
    """Whether an event is about the object: two groups may have a kind of the same name."""
    if subject is None:
        return True
    resource, name = subject
    of = event.get("involvedObject") or {}
    group = str(of.get("apiVersion") or resource.api_version).rpartition("/")[0]
    return (of.get("kind"), of.get("name"), group) == (resource.kind, name, resource.group)


def events_about(connection: Connection, resource: Resource, namespace: str, name: str) -> list[Object]:
    """Return events, oldest first. Those of an object without a namespace may be in any namespace."""
    scope = QueryScope(namespace or None, "", _fields(resource, name))
    return _sorted(all_items(connection.client, EVENTS, scope), (resource, name))


def happened_at(event: Mapping[str, Any]) -> str:
    """Return the time of the last occurrence."""
    times = ((event.get("series") or {}).get("lastObservedTime"), event.get("lastTimestamp"), event.get("eventTime"))
    return str(next((time for time in times if time), (event.get("metadata") or {}).get("creationTimestamp") or ""))


def _order(event: Mapping[str, Any]) -> tuple[str, int, str]:
    """Order by time, which has whole seconds only; within a second as they were stored."""
    meta = event.get("metadata") or {}
    version = str(meta.get("resourceVersion") or "")
    return happened_at(event)[:19], int(version) if version.isdigit() else 0, str(meta.get("name") or "")


def event_cells(event: Mapping[str, Any], now: Millis) -> list[object]:
    of = event.get("involvedObject") or {}
    count = int((event.get("series") or {}).get("count") or event.get("count") or 0)
    seen = age(happened_at(event), now)
    return [
        f"{seen} (x{count})" if count > 1 else seen, event.get("type"), event.get("reason"),
        f"{str(of.get('kind') or '').lower()}/{of.get('name')}", " ".join(str(event.get("message") or "").split()),
    ]  # fmt: skip


class _Shown:
    """Prints events."""

    def __init__(self, output: str, *, with_namespace: bool) -> None:
        self._output = output
        self._with_namespace = with_namespace
        self._table = Table([*(["Namespace"] if with_namespace else []), *COLUMNS])

    def all(self, found: Sequence[Object]) -> None:
        if self._output in ("json", "yaml"):
            print_data(list_of([without_managed_fields(each) for each in found]), self._output)
        else:
            self.some(found)

    def some(self, found: Sequence[Object]) -> None:
        if self._output in ("json", "yaml"):
            for each in found:
                print_streamed(without_managed_fields(each), self._output)
        elif self._output == "name":
            for each in found:
                click.echo(f"event/{plain(str(each['metadata'].get('name')))}")
        elif found:
            now = clock()
            self._table.print([[*self._namespace(each), *event_cells(each, now)] for each in found])

    def _namespace(self, event: Mapping[str, Any]) -> list[object]:
        return [(event.get("metadata") or {}).get("namespace")] if self._with_namespace else []
