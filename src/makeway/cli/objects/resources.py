"""``makeway get`` and ``makeway delete``: objects of a server, read and removed."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import click

from makeway.adapters.kubernetes.client import TABLE
from makeway.adapters.kubernetes.resources import Resource
from makeway.adapters.kubernetes.transport import PLAIN, Object
from makeway.cli.clients.asking import QueryScope, Wanted, age, all_pages, clock, followed, wanted
from makeway.cli.clients.connection import Connection, connected, failure, server_options
from makeway.cli.completion import complete_names_of, complete_objects
from makeway.cli.objects.documents import in_order, read_documents, refuse
from makeway.cli.terminal.output import Table, list_of, print_data, print_streamed, without_managed_fields
from makeway.cli.terminal.screen import plain, plural
from makeway.cli.terminal.seconds import Seconds
from makeway.runtime.ports import NotFound, StoreError

namespace_option = click.option(
    "-n", "--namespace", metavar="NAME", help="The namespace to look in.",
    shell_complete=complete_names_of("namespaces"),
)  # fmt: skip
GET_FORMATS = ["text", "wide", "json", "yaml", "name"]
SETTLE_SECONDS = 1.0  # for a running controller to remove its finalizers
POLL_SECONDS = 0.05
POLL_SECONDS_MAX = 1.0


def scope_of(
    connection: Connection, namespace: str | None, everywhere: bool, labels: str, fields: str = ""
) -> QueryScope:
    if everywhere and namespace:
        raise click.UsageError("-n names one namespace, -A all of them\n\nhint: give one of the two")
    return QueryScope(None if everywhere else namespace or connection.namespace, labels, fields)


# --- get -------------------------------------------------------------------------------------------------------------


@click.command()
@click.argument("what", nargs=-1, metavar="KIND [NAME]...", shell_complete=complete_objects)
@namespace_option
@click.option("-A", "--all-namespaces", "everywhere", is_flag=True, help="Look in every namespace.")
@click.option("-l", "--selector", "labels", default="", metavar="LABELS", help="Only objects with these labels.")
@click.option("--field-selector", "fields", default="", metavar="FIELDS", help="Only objects with these fields.")
@click.option("-w", "--watch", is_flag=True, help="Go on with what changes.")
@click.option("-o", "--output", type=click.Choice(GET_FORMATS), default="text", show_default=True)
@server_options
def get(
    what: tuple[str, ...], namespace: str | None, everywhere: bool, labels: str, fields: str, watch: bool, output: str
) -> None:
    """Show objects of a server: those of a kind, or some by name."""
    with connected() as connection:
        asked = wanted(connection, what)
        if watch and (len(asked) != 1 or len(asked[0].names) > 1):
            raise click.UsageError("one kind can be watched at a time, or one object\n\nhint: leave -w out")
        view = _View(connection, scope_of(connection, namespace, everywhere, labels, fields), output, len(asked) > 1)
        if watch:
            view.follow(asked[0])
        else:
            view.show(asked)


@dataclass(slots=True)
class _View:
    """What to show, and how."""

    connection: Connection
    scope: QueryScope
    output: str
    mixed: bool  # several kinds: names include the kind
    _missing: int = 0

    def show(self, asked: Sequence[Wanted]) -> None:
        if self.output in ("json", "yaml"):
            items = [item for each in asked for page in self._pages(each) for item in _items(each.resource, page)]
            one = len(asked) == 1 and len(asked[0].names) == 1
            if items or not one:
                print_data(items[0] if one else list_of(items), self.output)
        else:
            count = sum(self._show_lines(each) for each in asked)
            if not count and not self._missing:
                kinds = " or ".join(each.resource.plural for each in asked)
                click.echo(f"no {kinds}{self.scope.words(asked[0].resource)}", err=True)
        if self._missing:
            raise click.exceptions.Exit(1)

    def _show_lines(self, asked: Wanted) -> int:
        pages = self._pages(asked)
        rows = [row for page in pages for row in _rows(page, self.output == "wide")]
        if self.output == "name":
            for row in rows:
                click.echo(f"{asked.resource.full_name}/{plain(row.name)}")
        elif rows:
            self._table(asked.resource, rows).print([self._cells(asked.resource, row) for row in rows])
            if self.mixed:
                click.echo()
        return len(rows)

    def _pages(self, asked: Wanted) -> Sequence[Object]:
        """Yield the server's answers; of several names, missing ones are reported and counted."""
        accept = PLAIN if self.output in ("json", "yaml") else TABLE
        client, resource = self.connection.client, asked.resource
        if not asked.names:
            return all_pages(client, resource, self.scope, accept=accept)
        found = []
        for name in asked.names:
            try:
                found.append(client.get(resource, self.scope.of(resource) or "", name, accept=accept))
            except NotFound as error:
                self._missing += 1
                failure(error, self.connection.name).show()
        return found

    def follow(self, asked: Wanted) -> None:
        resource, scope = asked.resource, self.scope
        if asked.names:
            fields = ",".join(each for each in (scope.fields, f"metadata.name={asked.names[0]}") if each)
            scope = QueryScope(scope.namespace, scope.labels, fields)
        accept = PLAIN if self.output in ("json", "yaml") else TABLE
        table: Table | None = None
        columns: Sequence[Mapping[str, Any]] = ()
        for _, tree in followed(self.connection.client, resource, scope, accept=accept):
            columns = tree.get("columnDefinitions") or columns
            if self.output in ("json", "yaml"):
                for item in _items(resource, tree):
                    print_streamed(item, self.output)
                continue
            rows = list(_rows(tree, self.output == "wide", columns))
            if self.output == "name":
                for row in rows:
                    click.echo(f"{resource.full_name}/{plain(row.name)}")
                sys.stdout.flush()
            elif rows:
                table = table or self._table(resource, rows)
                table.print([self._cells(resource, row) for row in rows])

    def _table(self, resource: Resource, rows: Sequence[_Row]) -> Table:
        columns = next((row.columns for row in rows if row.columns), ())
        return Table([*(["Namespace"] if self._names_namespaces(resource) else []), *columns])

    def _cells(self, resource: Resource, row: _Row) -> list[object]:
        cells = list(row.cells)
        if self.mixed and "Name" in row.columns:
            cells[row.columns.index("Name")] = f"{resource.full_name}/{row.name}"
        return [*([row.namespace] if self._names_namespaces(resource) else []), *cells]

    def _names_namespaces(self, resource: Resource) -> bool:
        return resource.namespaced and self.scope.namespace is None


@dataclass(frozen=True, slots=True)
class _Row:
    name: str
    namespace: str
    cells: Sequence[object]
    columns: Sequence[str]


def _rows(tree: Mapping[str, Any], wide: bool, known: Sequence[Mapping[str, Any]] = ()) -> Iterator[_Row]:
    """Return the rows of a table; names and ages if the server has no tables.

    Only the first event of a watch has column definitions; later ones use the ``known`` columns.
    """
    if tree.get("kind") != "Table":
        now = clock()
        for each in tree.get("items", [tree]):
            meta = each.get("metadata") or {}
            name_and_age = (meta.get("name"), age(meta.get("creationTimestamp"), now))
            yield _Row(str(meta.get("name")), str(meta.get("namespace") or ""), name_and_age, ("Name", "Age"))
        return
    columns = tree.get("columnDefinitions") or known
    shown = [i for i, each in enumerate(columns) if wide or not each.get("priority")]
    for row in tree.get("rows") or ():
        meta = (row.get("object") or {}).get("metadata") or {}
        cells = row.get("cells") or ()
        kept = [cells[i] for i in shown if i < len(cells)]
        names = [str(columns[i].get("name")) for i in shown]
        yield _Row(str(meta.get("name") or (cells[0] if cells else "")), str(meta.get("namespace") or ""), kept, names)


def _items(resource: Resource, tree: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    named = {"apiVersion": resource.api_version, "kind": resource.kind}
    for each in (tree["items"] or ()) if "items" in tree else [tree]:
        yield without_managed_fields({**named, **each})


# --- delete ----------------------------------------------------------------------------------------------------------


@click.command()
@click.argument("what", nargs=-1, metavar="[KIND NAME]...", shell_complete=complete_objects)
@click.option("-f", "--filename", "paths", multiple=True, metavar="PATH", type=click.Path(allow_dash=True),
              help="Delete what this file or folder has.")  # fmt: skip
@click.option("-R", "--recursive", is_flag=True, help="Look into folders below a folder too.")
@namespace_option
@click.option("-l", "--selector", "labels", default="", metavar="LABELS", help="All objects with these labels.")
@click.option("--all", "all_", is_flag=True, help="All objects of the kind in the namespace.")
@click.option("--cascade", type=click.Choice(["background", "foreground", "orphan"]), default="background",
              show_default=True, help="What becomes of that which the object owns.")  # fmt: skip
@click.option("--grace-period", "grace", type=click.IntRange(0), metavar="SECONDS", help="How long pods may take.")
@click.option("--ignore-not-found", "lenient", is_flag=True, help="What is not there need not be deleted.")
@click.option("--wait", is_flag=True, help="Return when they are gone.")
@click.option("--timeout", type=Seconds(), default=60.0, show_default=True, help="Seconds that --wait waits.")
@click.option("--dry-run", is_flag=True, help="Ask the server, and let it delete nothing.")
@click.option("-o", "--output", type=click.Choice(["text", "json", "yaml", "name"]), default="text", show_default=True)
@server_options
def delete(
    what: tuple[str, ...], paths: tuple[str, ...], recursive: bool, namespace: str | None, labels: str, all_: bool,
    cascade: str, grace: int | None, lenient: bool, wait: bool, timeout: float, dry_run: bool, output: str,
) -> None:  # fmt: skip
    """Delete objects of a server: some by name, or what a file has.

    Dependents go with an object, or stay with --cascade orphan. What finalizers hold is marked, and goes when they are
    taken; --wait returns when it has.
    """
    _check_usage(what, paths, labels, all_)
    with connected() as connection:
        scope = scope_of(connection, namespace, False, labels)
        if paths:
            places = list(_places_of_files(paths, recursive, namespace, connection.namespace))
        else:
            places = list(_places(connection, wanted(connection, what), scope, bool(labels or all_)))
        options: Object = {"propagationPolicy": cascade.capitalize()}
        if grace is not None:
            options["gracePeriodSeconds"] = grace
        work = _Deletion(connection, options, dry_run, lenient, output)
        for place in places:
            work.delete(place)
        if not dry_run:
            work.await_removal(timeout if wait else SETTLE_SECONDS)
        work.tell(must_be_gone=wait and not dry_run)


def _check_usage(what: Sequence[str], paths: Sequence[str], labels: str, all_: bool) -> None:
    by_name = len(what) > 1 or any("/" in each for each in what)
    if paths and (what or labels or all_):
        raise click.UsageError("-f says by itself what is deleted\n\nhint: leave the rest out, or -f")
    if not paths and not what:
        raise click.UsageError("nothing is named\n\nhint: `makeway delete KIND NAME`, or `makeway delete -f FILE`")
    if what and not by_name and not labels and not all_:
        raise click.UsageError("which of them?\n\nhint: add a name, labels with -l, or --all for all of the namespace")
    if by_name and (labels or all_):
        raise click.UsageError("names and -l or --all do not go together\n\nhint: give one of them")


@dataclass(frozen=True, slots=True)
class _ObjectName:
    resource: Resource
    namespace: str
    name: str

    def __str__(self) -> str:
        name = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return plain(f"{self.resource.kind} {name}")


def _places_of_files(
    paths: Sequence[str], recursive: bool, namespace: str | None, default: str
) -> Iterator[_ObjectName]:
    """Return the objects of files in reverse order of apply. With errors nothing is deleted."""
    done = "nothing is deleted"
    documents = read_documents(paths, recursive, namespace, default, done=done)
    hint = "delete it by the name that it was given"
    nameless = [
        document.finding("metadata.name", "required to delete it", hint) for document in documents if not document.name
    ]
    refuse(nameless, done=done)
    for each in in_order(documents, backwards=True):
        yield _ObjectName(each.resource, each.namespace, each.name)


def _places(
    connection: Connection, asked: Sequence[Wanted], scope: QueryScope, selected: bool
) -> Iterator[_ObjectName]:
    for each in asked:
        namespace = scope.of(each.resource) or ""
        names = each.names
        if selected:
            pages = all_pages(connection.client, each.resource, scope)
            names = tuple(item["metadata"]["name"] for page in pages for item in page.get("items") or ())
        yield from (_ObjectName(each.resource, namespace, name) for name in names)


class _Deletion:
    """Deletes objects one after the other, and reports on all of them at the end."""

    def __init__(self, connection: Connection, options: Object, dry_run: bool, lenient: bool, output: str) -> None:
        self._connection = connection
        self._options = options
        self._dry_run = dry_run
        self._lenient = lenient
        self._output = output
        self._done: list[tuple[_ObjectName, Object]] = []
        self._held: dict[_ObjectName, Mapping[str, Any]] = {}  # metadata of objects that are only marked
        self._failed = 0

    def delete(self, place: _ObjectName) -> None:
        client = self._connection.client
        try:
            tree = client.delete(
                place.resource, place.namespace, place.name, self._options, dry_run=self._dry_run
            ).tree()
        except NotFound as error:
            if not self._lenient:
                self._refused(error)
            return
        except StoreError as error:
            self._refused(error)
            return
        self._done.append((place, tree))
        meta = tree.get("metadata") or {}
        if tree.get("kind") != "Status" and meta.get("deletionTimestamp"):
            self._held[place] = meta
        else:
            self._say("deleted ", str(place))
        if self._output == "name":
            click.echo(f"{place.resource.full_name}/{plain(place.name)}")

    def _refused(self, error: StoreError) -> None:
        self._failed += 1
        failure(error, self._connection.name).show()

    def _say(self, became: str, words: str) -> None:
        if self._output == "text":
            click.echo(f"{became}  {words}{' (dry run)' if self._dry_run else ''}")

    def await_removal(self, seconds: float) -> None:
        """Report objects that are gone within this time."""
        until, pause = time.monotonic() + seconds, POLL_SECONDS
        while self._held:
            for place in [place for place, meta in self._held.items() if self._is_gone(place, meta.get("uid"))]:
                del self._held[place]
                self._say("deleted ", str(place))
            if not self._held or time.monotonic() >= until:
                return
            time.sleep(pause)
            pause = min(POLL_SECONDS_MAX, 2 * pause)

    def _is_gone(self, place: _ObjectName, uid: object) -> bool:
        try:
            tree = self._connection.client.get(place.resource, place.namespace, place.name)
        except NotFound:
            return True
        return bool(uid) and (tree.get("metadata") or {}).get("uid") != uid

    def tell(self, *, must_be_gone: bool) -> None:
        for place, meta in self._held.items():
            finalizers = meta.get("finalizers") or ()
            why = f"held by {', '.join(map(plain, finalizers))}" if finalizers else "its containers get time to end"
            self._say("deleting", f"{place}: {why}")
        if self._output in ("json", "yaml"):
            print_data(list_of([without_managed_fields(tree) for _, tree in self._done]), self._output)
        elif not self._done and not self._failed:
            click.echo("nothing to delete", err=True)
        if self._failed:
            if self._done:
                total = plural(self._failed + len(self._done), "object")
                click.echo(f"{self._failed} of {total} could not be deleted", err=True)
            raise click.exceptions.Exit(1)
        if must_be_gone and self._held:
            hint = "wait longer with --timeout, or see to it that somebody takes the finalizers"
            raise click.ClickException(f"{plural(len(self._held), 'object')} still there\n\nhint: {hint}")
