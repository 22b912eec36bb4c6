"""``makeway apply``: the server's objects become as the files say. All or nothing, as far as that can be known before.

First everything is validated here, by the same rules as in the server. Then the server tries each object in a dry run.
Only then is something stored. All problems are reported at once. An object in a namespace that comes with the same
files is validated here only, because the server does not have its namespace yet.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import click

from makeway.adapters.kubernetes.applying import annotated, cleaned, last_applied, three_way
from makeway.adapters.kubernetes.client import Client
from makeway.adapters.kubernetes.transport import Reply
from makeway.api.names import DEFAULT_NAMESPACE
from makeway.api.reading.manifests import Finding
from makeway.cli.clients.asking import version_of
from makeway.cli.clients.connection import connected, server_options
from makeway.cli.completion import complete_names_of
from makeway.cli.objects.documents import ManifestObject, in_order, read_documents, refuse
from makeway.cli.terminal.output import list_of, print_data, without_managed_fields
from makeway.cli.terminal.screen import ProgressLine, echo, plain, plural, print_finding
from makeway.runtime.ports import AlreadyExists, Invalid, NotFound, Retryable, StoreError

Became = Literal["created", "configured", "unchanged", "serverside-applied", "valid"]
COLOURS = {"created": "green", "configured": "yellow", "serverside-applied": "green"}


@click.command()
@click.option("-f", "--filename", "named", multiple=True, metavar="PATH", type=click.Path(allow_dash=True),
              help="File, folder, or - for stdin.")  # fmt: skip
@click.argument("more", nargs=-1, metavar="[PATH]...", type=click.Path(allow_dash=True))
@click.option("-R", "--recursive", is_flag=True, help="Look into folders below a folder too.")
@click.option("-n", "--namespace", metavar="NAME", help="For objects that name no namespace.",
              shell_complete=complete_names_of("namespaces"))  # fmt: skip
@click.option("--server-side", is_flag=True, help="Let the server merge, and remember who set which field.")
@click.option("--force-conflicts", "force", is_flag=True, help="With --server-side: take fields over from others.")
@click.option("--dry-run", type=click.Choice(["none", "client", "server"]), default="none", show_default=True,
              help="Store nothing: judge here only, or ask the server too.")  # fmt: skip
@click.option("-o", "--output", type=click.Choice(["text", "json", "yaml", "name"]), default="text", show_default=True)
@server_options
def apply(
    named: tuple[str, ...], more: tuple[str, ...], recursive: bool, namespace: str | None, server_side: bool,
    force: bool, dry_run: str, output: str,
) -> None:  # fmt: skip
    """Create and change objects on a server, so that they are as the files say.

    If anything is wrong, all of it is told and nothing is stored. What others refer to is stored first.
    """
    if not named:
        example = f"makeway apply -f {more[0] if more else 'PATH'}"
        raise click.UsageError(f"no file is named\n\nhint: `{example}`; `-f -` reads stdin")
    if force and not server_side:
        raise click.UsageError("--force-conflicts belongs to --server-side\n\nhint: add --server-side, or leave it out")
    paths = (*named, *more)
    teller = _Teller(output, dry_run, server_side)
    if dry_run == "client":
        for each in in_order(read_documents(paths, recursive, namespace, DEFAULT_NAMESPACE)):
            teller.tell(_Stored(each, "valid", each.tree))
        teller.end()
        return
    with connected() as connection:
        documents = in_order(read_documents(paths, recursive, namespace, connection.namespace))
        work = _Work(connection.client, server_side, force)
        tried = work.tried(documents)
        if dry_run == "server":
            for stored in tried:
                teller.tell(stored)
        else:
            work.store(documents, teller)
        teller.end()


@dataclass(frozen=True, slots=True)
class _Stored:
    """The result of a document."""

    document: ManifestObject
    became: Became
    tree: dict[str, Any]


class _Work:
    """The calls to the server; each document first as a dry run, then for good."""

    def __init__(self, client: Client, server_side: bool, force: bool) -> None:
        self._client = client
        self._server_side = server_side
        self._force = force

    def tried(self, documents: Sequence[ManifestObject]) -> list[_Stored]:
        """Return the results of dry runs; with an error the program ends here."""
        coming = self._coming_namespaces(documents)
        errors: list[Finding] = []
        found: list[_Stored] = []
        progress = ProgressLine()
        for number, each in enumerate(documents, 1):
            progress.show(number)
            if each.namespace in coming:
                found.append(_Stored(each, "created", each.tree))
                continue
            try:
                found.append(self._applied(each, dry_run=True))
            except Retryable:
                raise
            except StoreError as error:
                errors.extend(_findings(each, error))
        progress.clear()
        refuse(errors)
        return found

    def _coming_namespaces(self, documents: Sequence[ManifestObject]) -> set[str]:
        """Return the namespaces that the files bring and the server does not have yet."""
        coming = set()
        for document in documents:
            if document.resource.kind == "Namespace":
                try:
                    self._client.get(document.resource, "", document.name)
                except NotFound:
                    coming.add(document.name)
        return coming

    def store(self, documents: Sequence[ManifestObject], teller: _Teller) -> None:
        """Store the documents. A refusal now, after a successful dry run, is reported, and the others go on."""
        for number, each in enumerate(documents):
            try:
                teller.tell(self._applied(each, dry_run=False))
            except Retryable:
                left = plural(len(documents) - number, "object")
                echo(f"{left} of {len(documents)} not stored, from {each.words} on", err=True)
                raise
            except StoreError as error:
                teller.refuse(_findings(each, error))

    def _applied(self, document: ManifestObject, *, dry_run: bool) -> _Stored:
        if not document.name:
            return _Stored(document, "created", self._created(document, document.tree, dry_run).tree())
        if self._server_side:
            answer = self._client.patch(
                document.resource, document.namespace, document.name, document.tree, type_="apply-patch+yaml",
                force=self._force, dry_run=dry_run,
            )  # fmt: skip
            return _Stored(document, "serverside-applied", answer.tree())
        wanted = annotated(cleaned(document.tree, has_status=document.resource.has_status))
        try:
            return _Stored(document, "created", self._created(document, wanted, dry_run).tree())
        except AlreadyExists:
            return self._changed(document, wanted, dry_run)

    def _created(self, document: ManifestObject, tree: dict[str, Any], dry_run: bool) -> Reply:
        return self._client.create(document.resource, document.namespace, tree, dry_run=dry_run)

    def _changed(self, document: ManifestObject, wanted: dict[str, Any], dry_run: bool) -> _Stored:
        live = self._client.get(document.resource, document.namespace, document.name)
        change = three_way(last_applied(live), wanted, live)
        if not change:
            return _Stored(document, "unchanged", live)
        answer = self._client.patch(document.resource, document.namespace, document.name, change, dry_run=dry_run)
        tree = answer.tree()
        same = version_of(tree) == version_of(live) and (not dry_run or _said(tree) == _said(live))
        return _Stored(document, "unchanged" if same else "configured", tree)


def _said(tree: dict[str, Any]) -> dict[str, Any]:
    """Return an object without the server's counters: a dry run leaves the resourceVersion as it is."""
    metadata = {
        k: v for k, v in tree["metadata"].items() if k not in ("generation", "managedFields", "resourceVersion")
    }
    return {**tree, "metadata": metadata}


def _findings(document: ManifestObject, error: StoreError) -> list[Finding]:
    if isinstance(error, Invalid):
        return [document.finding(problem.path, problem.message, problem.hint) for problem in error.problems]
    hint = ""
    if isinstance(error, NotFound) and document.namespace:
        hint = f"if namespace {document.namespace} is missing, add a Namespace to the files"
    return [document.finding("", plain(" ".join(str(error).split())), hint)]


class _Teller:
    """Prints the result of each document at once; structured output comes in one piece at the end."""

    def __init__(self, output: str, dry_run: str, server_side: bool) -> None:
        self._output = output
        self._ending = {"none": "", "client": " (dry run)", "server": " (server dry run)"}[dry_run]
        self._width = len("serverside-applied" if server_side else "configured")
        self._trees: list[dict[str, Any]] = []
        self._refused = 0

    def tell(self, stored: _Stored) -> None:
        document = stored.document
        name = str((stored.tree.get("metadata") or {}).get("name") or "") or document.name
        if self._output == "name":
            click.echo(f"{document.resource.full_name}/{plain(name)}")
        elif self._output == "text":
            became = click.style(stored.became.ljust(self._width), fg=COLOURS.get(stored.became))
            echo(f"{became}  {document.words if document.name or not name else _renamed(document, name)}{self._ending}")
        else:
            self._trees.append(without_managed_fields(stored.tree))

    def refuse(self, findings: Sequence[Finding]) -> None:
        self._refused += 1
        for finding in findings:
            print_finding(finding, err=True)

    def end(self) -> None:
        if self._output in ("json", "yaml"):
            print_data(list_of(self._trees), self._output)
        if self._refused:
            raise click.exceptions.Exit(1)


def _renamed(document: ManifestObject, name: str) -> str:
    place = f"{document.namespace}/{name}" if document.namespace else name
    return plain(f"{document.resource.kind} {place}")
