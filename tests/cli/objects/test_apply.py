"""``makeway apply`` on a real server: all or nothing, in order, and fields of other managers stay."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from shutil import which
from typing import Any

import pytest
import yaml

from makeway.adapters.kubernetes.applying import LAST_APPLIED, three_way
from makeway.runtime.ports import Unavailable
from tests.cli.conftest import KUEUE, Server, kind_named, local_queue, queue

EXAMPLES = Path(__file__).parents[3] / "examples"


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def put(*trees: dict[str, Any], name: str = "a.yaml") -> str:
    Path(name).write_text(yaml.safe_dump_all(trees), "utf-8")
    return name


def flavor(name: str = "default") -> dict[str, Any]:
    return {"apiVersion": KUEUE, "kind": "ResourceFlavor", "metadata": {"name": name}}


def namespace(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def revision(server: Server) -> str:
    return server.store.resource_version


def stored(server: Server, kind: str, name: str, namespace: str = "") -> dict[str, Any]:
    return server.store.get(kind_named(kind), namespace, name).tree()


# --- what becomes of files -------------------------------------------------------------------------------------------


def test_objects_are_created_then_left_alone_then_changed(server: Server) -> None:
    file = put(local_queue(), queue(), flavor())
    assert server.told("apply", "-f", file) == (
        "created     ResourceFlavor default\ncreated     ClusterQueue team-a\ncreated     LocalQueue default/main\n"
    )
    before = revision(server)
    assert server.told("apply", "-f", file).split("\n")[0] == "unchanged   ResourceFlavor default"
    assert revision(server) == before
    put(queue(cpu=8))
    assert server.told("apply", "-f", file) == "configured  ClusterQueue team-a\n"
    (group,) = stored(server, "ClusterQueue", "team-a")["spec"]["resourceGroups"]
    assert group["flavors"][0]["resources"][0]["nominalQuota"] == "8"


def test_the_quickstart_is_applied_as_it_is(server: Server) -> None:
    folder = str(EXAMPLES / "quickstart")
    assert server.told("apply", "-f", folder).count("created ") == 15
    assert server.told("apply", "-f", folder).count("unchanged ") == 15


def test_a_field_that_is_no_longer_wanted_goes_and_one_of_somebody_else_stays(server: Server) -> None:
    file = put(local_queue(labels={"mine": "1", "old": "1"}))
    server.told("apply", "-f", file)
    kind = kind_named("LocalQueue")
    server.store.patch(
        kind, "default", "main", {"metadata": {"labels": {"theirs": "1"}}, "spec": {"stopPolicy": "Hold"}}
    )
    put(local_queue(labels={"mine": "2"}))
    assert server.told("apply", "-f", file) == "configured  LocalQueue default/main\n"
    found = stored(server, "LocalQueue", "main", "default")
    assert found["metadata"]["labels"] == {"mine": "2", "theirs": "1"}
    assert found["spec"]["stopPolicy"] == "Hold"


def test_what_the_server_sets_by_itself_is_no_change(server: Server) -> None:
    tree = local_queue(creationTimestamp="2020-01-01T00:00:00Z")
    file = put({**tree, "status": {"pendingWorkloads": 7}})
    server.told("apply", "-f", file)
    assert server.told("apply", "-f", file) == "unchanged   LocalQueue default/main\n"


def test_what_was_applied_is_kept_where_kubectl_keeps_it(server: Server) -> None:
    server.told("apply", "-f", put(local_queue()))
    text = stored(server, "LocalQueue", "main", "default")["metadata"]["annotations"][LAST_APPLIED]
    assert json.loads(text) == local_queue(annotations={})


@pytest.mark.slow
@pytest.mark.skipif(which("kubectl") is None, reason="no kubectl on PATH")
def test_it_takes_turns_with_kubectl(server: Server) -> None:
    settings = ["--server", server.url, "--token", server.token, "--certificate-authority", f"{server.folder}/ca.crt"]

    def kubectl(*arguments: str) -> str:
        command = ["kubectl", "--kubeconfig", "/dev/null", *settings, *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout

    file = put(local_queue(labels={"a": "1", "b": "1"}))
    assert server.told("apply", "-f", file) == "created     LocalQueue default/main\n"
    assert kubectl("apply", "-f", file) == "localqueue.kueue.x-k8s.io/main unchanged\n"
    put(local_queue(labels={"a": "2"}))
    assert kubectl("apply", "-f", file) == "localqueue.kueue.x-k8s.io/main configured\n"
    assert server.told("apply", "-f", file) == "unchanged   LocalQueue default/main\n"
    put(local_queue(labels={"c": "3"}))
    assert server.told("apply", "-f", file) == "configured  LocalQueue default/main\n"
    assert stored(server, "LocalQueue", "main", "default")["metadata"]["labels"] == {"c": "3"}


def test_a_name_is_made_each_time(server: Server) -> None:
    tree = local_queue()
    tree["metadata"] = {"generateName": "q-", "namespace": "default"}
    file = put(tree)
    first, second = server.told("apply", "-f", file), server.told("apply", "-f", file)
    assert first.startswith("created     LocalQueue default/q-")
    assert first != second


def test_a_namespace_is_named_by_the_file_or_by_the_command(server: Server) -> None:
    tree = local_queue()
    del tree["metadata"]["namespace"]
    file = put(tree)
    assert server.told("apply", "-f", file, "-n", "research", "-o", "name") == "localqueue.kueue.x-k8s.io/main\n"
    assert server.told("apply", "-f", file) == "created     LocalQueue default/main\n"
    put(local_queue())
    result = server.run("apply", "-f", file, "-n", "research")
    assert result.exit_code == 1
    assert "metadata.namespace: is default, but -n says research\n  hint: leave out one of the two\n" in result.stderr


def test_a_namespace_may_come_with_what_is_in_it(server: Server) -> None:
    file = put(local_queue(namespace="brand-new"), namespace("brand-new"))
    assert server.told("apply", "-f", file) == (
        "created     Namespace brand-new\ncreated     LocalQueue brand-new/main\n"
    )
    result = server.run("apply", "-f", put(local_queue(namespace="nowhere"), flavor()))
    assert result.exit_code == 1
    assert 'a.yaml:1: error: LocalQueue nowhere/main: namespaces "nowhere" not found' in result.stderr
    assert "  hint: if namespace nowhere is missing, add a Namespace to the files\n" in result.stderr
    assert server.store.list(kind_named("ResourceFlavor")).items == ()


def test_stdin_and_data(server: Server) -> None:
    told = json.loads(server.told("apply", "-f", "-", "-o", "json", stdin=yaml.safe_dump(flavor())))
    assert [each["metadata"]["name"] for each in told["items"]] == ["default"]
    assert yaml.safe_load(server.told("apply", "-f", put(flavor()), "-o", "yaml"))["kind"] == "List"


# --- nothing is stored if anything is wrong --------------------------------------------------------------------------


def test_all_that_is_wrong_is_told_and_nothing_stored(server: Server) -> None:
    before = revision(server)
    bad = queue("Upper")
    bad["spec"]["preemptoin"] = {}
    result = server.run(
        "apply", "-f", put(flavor(), bad), "-f", put({"kind": "Teapot", "apiVersion": "v1"}, name="b.yaml")
    )
    assert (result.exit_code, result.stdout) == (1, "")
    assert "ClusterQueue Upper: metadata.name:" in result.stderr
    assert "spec.preemptoin: unknown field" in result.stderr
    assert "b.yaml:2: error: Teapot: kind:" in result.stderr
    assert result.stderr.endswith("nothing is stored: 3 errors\n")
    assert revision(server) == before


def test_what_only_the_server_can_know_is_told_before_anything_is_stored(server: Server) -> None:
    server.told("apply", "-f", put(local_queue(), local_queue("second")))
    before = revision(server)
    file = put(flavor(), local_queue(queue="other"), local_queue("second", queue="other"))
    result = server.run("apply", "-f", file)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.count("spec.clusterQueue: ") == 2
    assert "a.yaml:12: error: LocalQueue default/main: spec.clusterQueue: " in result.stderr
    assert result.stderr.endswith("nothing is stored: 2 errors\n")
    assert revision(server) == before


def test_what_is_no_object_of_a_server(server: Server) -> None:
    configuration = {"apiVersion": "config.kueue.x-k8s.io/v1beta2", "kind": "Configuration"}
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    result = server.run("apply", "-f", put(configuration, review, flavor()))
    assert result.exit_code == 1
    assert "kind: a Configuration cannot be applied\n  hint: it is no object of a server" in result.stderr
    assert "kind: a SelfSubjectReview cannot be applied\n" in result.stderr


def test_that_something_is_missing_here_is_no_warning(server: Server) -> None:
    """It may be on the server; ``makeway validate`` would report it."""
    assert server.told("apply", "-f", put(local_queue()))


def test_a_server_that_goes_away_in_the_midst(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    from makeway.adapters.kubernetes.client import Client

    create = Client.create

    def fails(self: Client, resource: Any, where: str, body: Any, *, dry_run: bool = False) -> Any:
        if not dry_run and body["metadata"]["name"] == "b":
            raise Unavailable("cannot be reached: gone")
        return create(self, resource, where, body, dry_run=dry_run)

    monkeypatch.setattr(Client, "create", fails)
    result = server.run("apply", "-f", put(flavor("a"), flavor("b"), flavor("c")))
    assert (result.exit_code, result.stdout) == (1, "created     ResourceFlavor a\n")
    assert result.stderr == (
        "2 objects of 3 not stored, from ResourceFlavor b on\n"
        "Error: the local server cannot be reached: gone\n\n"
        "hint: `makeway status` says whether it runs, `makeway up` starts it\n"
    )


# --- ways to apply ---------------------------------------------------------------------------------------------------


def test_dry_runs_store_nothing(server: Server) -> None:
    file, before = put(flavor(), queue()), revision(server)
    assert server.told("apply", "-f", file, "--dry-run", "server") == (
        "created     ResourceFlavor default (server dry run)\ncreated     ClusterQueue team-a (server dry run)\n"
    )
    assert server.told("apply", "-f", file, "--dry-run", "client").startswith(
        "valid       ResourceFlavor default (dry run)"
    )
    assert revision(server) == before
    server.told("apply", "-f", file)
    put(flavor(), queue(cpu=9))
    assert [line.split()[0] for line in server.told("apply", "-f", file, "--dry-run", "server").splitlines()] == [
        "unchanged", "configured",
    ]  # fmt: skip


def test_a_client_side_dry_run_needs_no_server(server: Server, tmp_path: Path) -> None:
    told = server.told("apply", "-f", put(flavor()), "--dry-run", "client", XDG_DATA_HOME=str(tmp_path))
    assert told == "valid       ResourceFlavor default (dry run)\n"


def test_server_side_the_server_remembers_who_set_what(server: Server) -> None:
    file = put(local_queue(labels={"mine": "1"}))
    assert server.told("apply", "--server-side", "-f", file) == "serverside-applied  LocalQueue default/main\n"
    managers = {
        each["manager"] for each in stored(server, "LocalQueue", "main", "default")["metadata"]["managedFields"]
    }
    assert managers == {"makeway"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "no file is named\n\nhint: `makeway apply -f PATH`; `-f -` reads stdin"),
        (["a.yaml"], "no file is named\n\nhint: `makeway apply -f a.yaml`; `-f -` reads stdin"),
        (["-f", "-", "-f", "-"], "stdin can be read once only\n\nhint: give `-f -` once"),
        (
            ["-f", "a", "--force-conflicts"],
            "--force-conflicts belongs to --server-side\n\nhint: add --server-side, or leave it out",
        ),
    ],
)
def test_wrong_usage_exits_2_and_says_what_to_write(server: Server, arguments: list[str], message: str) -> None:
    result = server.run("apply", *arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.endswith(f"Error: {message}\n")


# --- the change ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("last", "wanted", "live", "change"),
    [
        ({}, {"a": 1}, {}, {"a": 1}),
        ({"a": 1}, {"a": 1}, {"a": 1, "b": 2}, {}),
        ({"a": 1, "b": 2}, {"a": 1}, {"a": 1, "b": 2}, {"b": None}),
        ({"a": 1, "b": 2}, {"a": 1}, {"a": 1}, {}),
        ({"m": {"x": 1, "y": 2}}, {"m": {"x": 1}}, {"m": {"x": 1, "y": 2, "z": 3}}, {"m": {"y": None}}),
        ({}, {"l": [1]}, {"l": [1, 2]}, {"l": [1]}),
        ({"m": 1}, {"m": {"x": 1}}, {"m": 1}, {"m": {"x": 1}}),
        (None, {"m": {}}, {}, {"m": {}}),
        ({}, {"a": None}, {"a": 1}, {}),
        ("odd", {"a": 1}, {"a": 2}, {"a": 1}),
    ],
)
def test_three_states_become_one_change(last: Any, wanted: Any, live: Any, change: Any) -> None:
    assert three_way(last, wanted, live) == change
