"""``makeway validate`` and ``makeway crds``: files in, findings out, an exit code for scripts."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from makeway.api.reading.manifests import Finding
from makeway.cli.main import main
from makeway.cli.offline import files

SRC = Path(__file__).parents[3] / "src"
KEYS = ["file", "line", "document", "kind", "name", "path", "severity", "message", "hint"]

SOUND = "apiVersion: kueue.x-k8s.io/v1beta2\nkind: ResourceFlavor\nmetadata: {name: default}\n"
WRONG = textwrap.dedent(
    """\
    apiVersion: kueue.x-k8s.io/v1beta2
    kind: ResourceFlavor
    metadata:
      name: other
    spec:
      nodeLabel: {}
    """
)
LONELY = textwrap.dedent(
    """\
    apiVersion: kueue.x-k8s.io/v1beta2
    kind: LocalQueue
    metadata: {name: main, namespace: team-a}
    spec: {clusterQueue: team}
    """
)


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def put(**files: str) -> None:
    """Write files: ``put(a_yaml="…")`` writes a.yaml, ``put(sub__a_yaml="…")`` sub/a.yaml."""
    for name, text in files.items():
        path = Path(name.replace("__", "/").replace("_", "."))
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, "utf-8")


def validate(*arguments: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(main, ["validate", *arguments], input=stdin)


def found(*arguments: str, stdin: str | None = None) -> list[dict[str, Any]]:
    result = validate(*arguments, "-o", "json", stdin=stdin)
    listed: list[dict[str, Any]] = json.loads(result.stdout)
    assert result.exit_code == any(each["severity"] == "error" for each in listed)
    assert all(list(each) == KEYS for each in listed)
    return listed


def program(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(SRC)}
    command = [sys.executable, "-m", "makeway", *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False, **options)


# --- what it says ---------------------------------------------------------------------------------------------------


def test_sound_manifests_say_so_on_stderr_and_exit_0() -> None:
    put(a_yaml=SOUND)
    result = validate("-f", "a.yaml")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "1 document in 1 file: no problems\n")
    assert found("-f", "a.yaml") == []


def test_a_problem_is_told_as_a_compiler_tells_it() -> None:
    put(a_yaml=SOUND, b_yaml=f"{LONELY}---\n{WRONG}")
    result = validate("-f", "a.yaml", "-f", "b.yaml")
    assert result.exit_code == 1
    assert result.stdout.splitlines()[0] == (
        "b.yaml:4: warning: LocalQueue team-a/main: spec.clusterQueue: ClusterQueue team is not in these manifests: "
        "the workloads of this queue wait (ClusterQueueDoesNotExist), unless it exists already where you apply this"
    )
    assert result.stdout.splitlines()[1] == "  hint: add the ClusterQueue, or correct the name"
    assert result.stdout.splitlines()[2].startswith("b.yaml:11: error: ResourceFlavor other: spec.nodeLabel: unknown")
    assert result.stdout.splitlines()[3] == "  hint: did you mean nodeLabels?"
    assert result.stderr == "3 documents in 2 files: 1 error, 1 warning\n"


def test_warnings_alone_exit_0() -> None:
    put(a_yaml=LONELY)
    assert validate("-f", "a.yaml").exit_code == 0


def test_json_has_exactly_the_promised_keys() -> None:
    put(a_yaml=f"{SOUND}---\n{WRONG}")
    (finding,) = found("-f", "a.yaml")
    assert finding | {"message": ""} == {
        "file": "a.yaml", "line": 10, "document": 2, "kind": "ResourceFlavor", "name": "other",
        "path": "spec.nodeLabel", "severity": "error", "message": "", "hint": "did you mean nodeLabels?",
    }  # fmt: skip


def test_files_are_told_in_the_order_they_were_named() -> None:
    put(a_yaml=WRONG, z_yaml=WRONG.replace("other", "third"))
    assert [each["file"] for each in found("-f", "z.yaml", "-f", "gone.yaml", "-f", "a.yaml")] == [
        "z.yaml", "gone.yaml", "a.yaml",
    ]  # fmt: skip


def test_several_paths_may_follow_one_option() -> None:
    put(a_yaml=WRONG, b_yaml=SOUND)
    assert validate("-f", "a.yaml", "b.yaml").stderr == "2 documents in 2 files: 1 error\n"


def test_objects_of_different_files_are_held_against_each_other() -> None:
    put(a_yaml=SOUND, b_yaml=SOUND)
    (finding,) = found("-f", "a.yaml", "-f", "b.yaml")
    assert (finding["file"], finding["message"]) == ("b.yaml", "ResourceFlavor default is defined already at a.yaml:1")


def test_a_file_named_twice_is_read_once() -> None:
    put(a_yaml=SOUND)
    Path("link.yaml").symlink_to("a.yaml")
    assert validate("-f", "a.yaml", "-f", ".", "-f", "./a.yaml").stderr == "1 document in 1 file: no problems\n"


def test_control_characters_do_not_reach_the_terminal() -> None:
    put(a_yaml='apiVersion: v1\nkind: "Pod\\u001b[31m\\u202e"\n')
    result = validate("-f", "a.yaml")
    assert "\x1b" not in result.stdout
    assert "Pod\\x1b[31m\\u202e" in result.stdout


# --- usage ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "no file is named\n\nhint: `makeway validate -f PATH`; `-f -` reads stdin\n"),
        (["a.yaml"], "no file is named\n\nhint: `makeway validate -f a.yaml`; `-f -` reads stdin\n"),
        (["-f", "-", "-f", "-"], "stdin can be read once only\n\nhint: give `-f -` once\n"),
    ],
)
def test_wrong_usage_exits_2_and_says_what_to_write(arguments: list[str], message: str) -> None:
    result = validate(*arguments)
    assert result.exit_code == 2
    assert result.stderr.endswith(f"Error: {message}")


def test_an_unknown_option_and_an_unknown_format_exit_2() -> None:
    assert validate("-f", "a.yaml", "--zzz").exit_code == 2
    assert validate("-f", "a.yaml", "-o", "xml").exit_code == 2


# --- files and folders ----------------------------------------------------------------------------------------------


def test_stdin_is_read_once_and_has_a_name() -> None:
    (finding,) = found("-f", "-", stdin=WRONG)
    assert (finding["file"], finding["line"]) == ("<stdin>", 6)


def test_of_a_folder_the_manifests_are_read_in_the_order_of_their_names() -> None:
    Path("d/folder.yaml").mkdir(parents=True)
    put(d__b_yml=WRONG, d__a_json="[]", d__c_yaml=WRONG.replace("other", "third"), d__notes_txt="{", d__sub__x_yaml="{")
    assert [each["file"] for each in found("-f", "d")] == ["d/a.json", "d/b.yml", "d/c.yaml"]


def test_folders_below_are_read_when_asked() -> None:
    put(d__a_yaml=SOUND, e_yaml=SOUND)
    Path("d/sub").mkdir()
    Path("d/sub/b.yaml").write_text(WRONG)
    Path("d/sub/up").symlink_to("..")
    assert found("-f", "d") == []
    assert [each["file"] for each in found("-R", "-f", "d")] == ["d/sub/b.yaml"]


def test_a_folder_without_manifests_is_an_error() -> None:
    Path("d/sub").mkdir(parents=True)
    (finding,) = found("-f", "d")
    assert finding == {
        "file": "d", "line": None, "document": None, "kind": "", "name": "", "path": "", "severity": "error",
        "message": "no file in this folder ends in .yaml, .yml or .json",
        "hint": "`-R` looks into the folders below it",
    }  # fmt: skip
    assert found("-f", "d/sub")[0]["hint"] == "name a file"


def test_a_missing_file_does_not_keep_the_others_from_being_checked() -> None:
    put(queues_yaml=WRONG)
    missing, wrong = found("-f", "queus.yaml", "-f", "queues.yaml")
    assert (missing["message"], missing["hint"]) == (
        "cannot be read: no such file or directory", "did you mean queues.yaml?",
    )  # fmt: skip
    assert wrong["file"] == "queues.yaml"
    assert found("-f", "no/where")[0]["hint"] == "check the path; a relative one begins at the current folder"


def test_links_that_lead_nowhere_are_told() -> None:
    Path("a.yaml").symlink_to("gone")
    Path("b.yaml").symlink_to("b.yaml")
    dangling, circular = found("-f", ".")
    assert dangling["hint"] == "it is a link to something that is not there"
    assert circular["hint"] == "the links lead back to each other; name the file itself"


def test_a_file_that_may_not_be_read_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    put(a_yaml=SOUND)

    stat = os.stat

    def refuse(path: str, *more: Any, **others: Any) -> os.stat_result:
        if path != "a.yaml":
            return stat(path, *more, **others)
        raise PermissionError(errno.EACCES, "Permission denied", path)

    with monkeypatch.context() as patch:
        patch.setattr(os, "stat", refuse)
        finding = files._read("a.yaml")
    assert isinstance(finding, Finding)
    assert finding.message == "cannot be read: permission denied"
    assert finding.hint == "check who may read it, for example with `ls -l`"


def test_a_folder_that_may_not_be_read_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("d").mkdir()

    listdir = os.listdir

    def refuse(path: str) -> list[str]:
        if path != "d":
            return listdir(path)
        raise PermissionError(errno.EACCES, "Permission denied", path)

    with monkeypatch.context() as patch:
        patch.setattr(os, "listdir", refuse)
        (finding,) = found("-f", "d")
    assert (finding["file"], finding["message"]) == ("d", "cannot be read: permission denied")


def test_a_pipe_with_a_name_is_refused_and_not_waited_for() -> None:
    os.mkfifo("a.yaml")
    (finding,) = found("-f", "a.yaml")
    assert (finding["message"], finding["hint"]) == (
        "is a named pipe, not a file", "pipe the manifests in with `-f -`",
    )  # fmt: skip
    assert found("-f", os.devnull)[0]["message"] == "is a device, not a file"


def test_the_pipe_of_a_shell_is_read() -> None:
    reader, writer = os.pipe()
    os.write(writer, WRONG.encode())
    os.close(writer)
    result = program("validate", "-f", f"/dev/fd/{reader}", pass_fds=[reader])
    os.close(reader)
    assert result.stdout.startswith(f"/dev/fd/{reader}:6: error: ResourceFlavor other: spec.nodeLabel:")


def test_a_file_that_is_too_large_is_not_read() -> None:
    with open("a.yaml", "wb") as file:
        file.truncate(files.FILE_BYTES_MAX + 1)  # a sparse file: it takes no room
    assert found("-f", "a.yaml")[0]["message"] == "larger than the 256 MiB that are read of one file"


def test_too_much_on_stdin_is_not_read_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "FILE_BYTES_MAX", 10)
    assert found("-f", "-", stdin=SOUND)[0]["hint"] == "split it into several files"


def test_a_file_without_objects_is_a_warning() -> None:
    put(a_yaml="# nothing yet\n")
    (finding,) = found("-f", "a.yaml")
    assert (finding["severity"], finding["message"]) == ("warning", "holds no objects")


# --- as a program ---------------------------------------------------------------------------------------------------


def test_a_pipe_gets_plain_text_and_the_exit_code() -> None:
    put(a_yaml=WRONG)
    result = program("validate", "-f", "a.yaml")
    assert result.returncode == 1
    assert "\x1b" not in result.stdout + result.stderr
    assert result.stdout.count("\n") == 2


def test_a_name_that_is_no_text_is_shown_all_the_same() -> None:
    Path(os.fsdecode(b"\xff.yaml")).write_text(WRONG)
    result = program("validate", "-f", ".")
    assert (result.returncode, result.stdout[:16]) == (1, "./\\udcff.yaml:6:")
    assert program("validate", "-f", ".", "-o", "json").returncode == 1


COLUMNS = 60


def on_a_terminal(*arguments: str, **environment: str) -> str:
    """The output of the program when stdout and stderr are a terminal."""
    import pty

    code = (
        "import fcntl, struct, sys, termios\n"
        f"fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack('HHHH', 24, {COLUMNS}, 0, 0))\n"
        "from makeway.cli.terminal import screen; screen.PROGRESS_AFTER_SECONDS = 0.0\n"
        f"from makeway.cli.main import main; main({list(arguments)!r})"
    )
    inherited = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "NO_COLOR")}
    leader, follower = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        env={**inherited, "TERM": "xterm", "PYTHONPATH": str(SRC), **environment},
        stdin=subprocess.DEVNULL, stdout=follower, stderr=follower,
    )  # fmt: skip
    os.close(follower)
    printed = b""
    try:
        while part := os.read(leader, 65536):
            printed += part
    except OSError:  # Linux reports so that the other end is closed
        pass
    finally:
        os.close(leader)
        process.wait(timeout=60)
    return printed.decode()


def test_a_terminal_gets_colours_wrapped_hints_and_progress() -> None:
    put(a_yaml=SOUND.replace("ResourceFlavor", "Topology"))
    printed = on_a_terminal("validate", "-f", "a.yaml")
    assert "\x1b[31m\x1b[1merror\x1b[0m" in printed
    assert "\rchecked 1 document…\r" in printed
    hint = [line for line in printed.replace("\r\n", "\n").split("\n") if line.startswith(("  hint:", "        "))]
    assert len(hint) > 1
    assert all(len(line) <= COLUMNS for line in hint)


@pytest.mark.parametrize("environment", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_who_wants_no_colours_gets_none(environment: dict[str, str]) -> None:
    put(a_yaml=WRONG)
    assert "\x1b" not in on_a_terminal("validate", "-f", "a.yaml", **environment)


def test_stdin_that_is_closed_is_told() -> None:
    command = f"{sys.executable} -m makeway validate -f - <&-"
    environment = {**os.environ, "PYTHONPATH": str(SRC)}
    result = subprocess.run(["sh", "-c", command], env=environment, capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout.split("\n")[0]) == (1, "<stdin>: error: is closed")


# --- crds -----------------------------------------------------------------------------------------------------------


def test_crds_are_the_same_as_yaml_and_as_json() -> None:
    as_yaml = list(yaml.safe_load_all(CliRunner().invoke(main, ["crds"]).stdout))
    as_json = json.loads(CliRunner().invoke(main, ["crds", "-o", "json"]).stdout)
    assert (as_json["apiVersion"], as_json["kind"]) == ("v1", "List")
    assert as_json["items"] == as_yaml
    assert {each["kind"] for each in as_yaml} == {"CustomResourceDefinition"}
    names = CliRunner().invoke(main, ["crds", "-o", "name"]).stdout.split()
    prefix = "customresourcedefinition.apiextensions.k8s.io/"
    assert names == [f"{prefix}{each['metadata']['name']}" for each in as_yaml]


def test_crds_use_no_aliases() -> None:
    text = CliRunner().invoke(main, ["crds"]).stdout
    assert not any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(text, Loader=yaml.CSafeLoader))


# --- pods -----------------------------------------------------------------------------------------------------------

SOFT = textwrap.dedent(
    """\
    apiVersion: batch/v1
    kind: Job
    metadata: {name: work}
    spec:
      template:
        spec:
          restartPolicy: Never
          priorityClassName: urgent
          containers: [{name: c, image: i}]
          topologySpreadConstraints:
          - maxSkew: 1
            topologyKey: zone
            whenUnsatisfiable: ScheduleAnyway
    """
)


def test_what_the_pod_scheduler_does_not_heed_is_a_warning_with_its_line() -> None:
    put(job_yaml=SOFT)
    classes, spread = found("-f", "job.yaml")
    assert (classes["line"], classes["severity"], classes["path"]) == (
        8, "warning", "spec.template.spec.priorityClassName",
    )  # fmt: skip
    assert (spread["line"], spread["severity"]) == (13, "warning")
    assert spread["path"] == "spec.template.spec.topologySpreadConstraints[0].whenUnsatisfiable"
    assert spread["message"] == "not heeded: with ScheduleAnyway the constraint does not spread the pods"
    assert spread["hint"] == "use DoNotSchedule"


def test_other_commands_do_not_speak_of_what_only_placement_does() -> None:
    put(job_yaml=SOFT)
    assert "not heeded" not in CliRunner().invoke(main, ["plan", "-f", "job.yaml"]).output


@pytest.mark.slow
def test_a_list_larger_than_any_document_is_checked_item_by_item() -> None:
    """Findings have the lines of the file; an invalid object is one of them."""
    flavor = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ResourceFlavor", "metadata": {"name": "a"}}
    too_wide = {**flavor, "metadata": {"name": "too-wide", "annotations": {"a": "x" * 3 * 2**20}}}
    items = [{**flavor, "metadata": {"name": "b"}}, {**flavor, "spec": {"nodeLabel": {}}}, too_wide]
    tree = {"apiVersion": "v1", "items": items, "kind": "List", "metadata": {"resourceVersion": ""}}
    for name, text in (("a.json", json.dumps(tree, indent=4)), ("a.yaml", yaml.safe_dump(tree, width=10**9))):
        Path(name).write_text(text)
        everything = found("-f", name)
        listed = [each for each in everything if each["path"] == "items[1].spec.nodeLabel"]
        line = next(i for i, each in enumerate(text.splitlines(), 1) if "nodeLabel" in each)
        assert [(each["line"], each["document"], each["name"]) for each in listed] == [(line, 1, "a")]
        (refused,) = (each for each in everything if each["path"] == "items[2]")
        assert refused["message"].startswith("the object has 31")
