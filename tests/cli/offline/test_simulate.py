"""``makeway simulate`` from its users' side, with right and with wrong input."""

from __future__ import annotations

import hashlib
import json
import os
import pty
import re
import signal
import subprocess
import sys
import textwrap
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from makeway.adapters.simulator import simulation, turns
from makeway.adapters.simulator.checkers import Broken
from makeway.adapters.simulator.faults import PROFILES
from makeway.adapters.simulator.simulation import Simulation
from makeway.cli.main import main
from makeway.cli.offline import simulate as command
from tests.cli.conftest import heed_interrupts

ROOT = Path(__file__).parents[3]
QUICKSTART = str(ROOT / "examples" / "quickstart")
TIME_SHARING = str(ROOT / "examples" / "time-sharing")
CONFIGURATION = "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\n"
SWF_JOB = "{} {} -1 {} {} -1 -1 {} -1 -1 1 1 1 1 1 1 -1 -1\n"
GENERATOR = """\
cohorts:
- className: cohort
  count: 1
  queuesSets:
  - className: cq
    count: 2
    nominalQuota: 2
    workloadsSets:
    - {count: 3, creationIntervalMs: 1000, workloads: [{className: w, runtimeMs: 1500, request: 1}]}
"""


def queues(preemption: str = "{withinClusterQueue: LowerPriority}", cpu: int = 4) -> str:
    return textwrap.dedent(
        f"""\
        {{apiVersion: kueue.x-k8s.io/v1beta2, kind: ResourceFlavor, metadata: {{name: default}}}}
        ---
        {{apiVersion: kueue.x-k8s.io/v1beta2, kind: LocalQueue, metadata: {{name: main}}, spec: {{clusterQueue: q}}}}
        ---
        apiVersion: kueue.x-k8s.io/v1beta2
        kind: ClusterQueue
        metadata: {{name: q}}
        spec:
          namespaceSelector: {{}}
          preemption: {preemption}
          resourceGroups:
          - coveredResources: [cpu]
            flavors: [{{name: default, resources: [{{name: cpu, nominalQuota: {cpu}}}]}}]
        """
    )


# Equal workloads, by time.
TAKES_TURNS = "{withinClusterQueue: LowerOrNewerEqualPriority, withinClusterQueueConfig: {minAdmitDuration: 1h}}"


def work(
    name: str, cpu: int, *, runs: str = "", saves: str = "", minute: int = 0, priority: int = 0, kind: str = "Workload"
) -> str:
    spans = {"makeway.dev/runtime": runs, "makeway.dev/checkpoint-interval": saves}
    meta = {
        "name": name, "namespace": "default", "creationTimestamp": f"2026-01-01T00:{minute:02}:00Z",
        "annotations": {key: value for key, value in spans.items() if value},
        "labels": {"kueue.x-k8s.io/queue-name": "main"},
    }  # fmt: skip
    pod = {"containers": [{"name": "work", "image": "work", "resources": {"requests": {"cpu": cpu}}}]}
    spec: dict[str, Any] = {"template": {"spec": {**pod, "restartPolicy": "Never"}}}
    version = "batch/v1"
    if kind == "Workload":
        version = "kueue.x-k8s.io/v1beta2"
        pods = {"name": "main", "count": 1, "template": {"spec": pod}}
        spec = {"queueName": "main", "priority": priority, "podSets": [pods]}
    return "---\n" + json.dumps({"apiVersion": version, "kind": kind, "metadata": meta, "spec": spec}) + "\n"


LOW_AND_HIGH = work("low", 3, runs="10m") + work("high", 4, runs="5m", minute=4, priority=9)


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def run(*arguments: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(main, ["simulate", *arguments], input=stdin)


def told(text: str, *arguments: str) -> list[str]:
    """The story, line by line."""
    result = run("-f", "-", *arguments, stdin=text)
    assert result.exit_code == 0, result.stderr
    lines = result.stdout.splitlines()
    assert lines[0] == "What happened"
    return [line.strip() for line in lines[1 : lines.index("")]]


def data(*arguments: str, stdin: str | None = None) -> dict[str, Any]:
    result = run(*arguments, "-o", "json", stdin=stdin)
    assert result.exit_code == 0, result.stderr
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def process(*arguments: str, **options: Any) -> subprocess.Popen[str]:
    """The program in a process of its own, for signals, terminals and closed streams."""
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src"), **options.pop("env", {})}
    command = [sys.executable, "-m", "makeway", "simulate", *arguments]
    return subprocess.Popen(command, env=env, text=True, preexec_fn=heed_interrupts, **options)


# --- as data ----------------------------------------------------------------------------------------------------------


def test_all_numbers_are_those_counted_by_hand() -> None:
    """low runs 4 of 10 minutes, makes way, loses them; high runs 5; then low runs 10: 19 minutes in all."""
    found = data("-f", "-", "--per-workload", "--journal", "journal.jsonl", stdin=queues() + LOW_AND_HIGH)
    nobody = {"evictions": 0, "evictionsByReason": {}}
    once = {"evictions": 1, "evictionsByReason": {"InClusterQueue": 1}}
    all_of_it = {
        "workloads": 2, "admitted": 2, "finished": 2, **once, "ranSeconds": 840 + 300, "lostSeconds": 240,
        "waitingSeconds": {"mean": 150, "p50": 0, "p95": 300, "p99": 300},
    }  # fmt: skip
    one = {"workloads": 1, "admitted": 1, "finished": 1}
    high = {
        "priority": 9, **one, **nobody, "ranSeconds": 300, "lostSeconds": 0,
        "waitingSeconds": dict.fromkeys(("mean", "p50", "p95", "p99"), 0),
    }  # fmt: skip
    low = {
        "priority": 0, **one, **once, "ranSeconds": 240 + 600, "lostSeconds": 240,
        "waitingSeconds": dict.fromkeys(("mean", "p50", "p95", "p99"), 300),
    }  # fmt: skip
    used = 3 * (240 + 600) + 4 * 300
    cpu = {
        "flavor": "default", "resource": "cpu", "nominal": "4", "utilisation": round(used / (4 * 1140), 6),
        "used": used, "borrowed": 0, "lent": 0,
    }  # fmt: skip
    alone = {"spreadSeconds": 0, "jain": 1}
    assert found.pop("cpuSeconds") >= 0
    writes = found.pop("writes")  # seven of the two workloads; writes of queue status are not counted here
    assert 7 <= writes <= 20
    assert found == {
        **all_of_it,
        "virtualSeconds": 1140,
        "cycles": 4,  # low in; low out; high in; low in again
        "decisions": 5,  # and in the third, low is refused
        "journalSha256": hashlib.sha256(Path("journal.jsonl").read_bytes()).hexdigest(),
        "queues": [
            {
                "clusterQueue": "q", "cohort": "", **all_of_it, "resources": [{**cpu, "peak": "4"}],
                "priorities": [{**high, "fairness": alone}, {**low, "fairness": alone}],
            }
        ],
        "priorities": [high, low],
        "resources": [cpu],
        "preemptions": [{"by": "q", "of": "q", "count": 1}],
        "faultsFired": {},
        "perWorkload": [
            {
                "workload": "default/high", "clusterQueue": "q", "createdAt": "2026-01-01T00:04:00Z",
                "waitedSeconds": 0, "ranSeconds": 300, "lostSeconds": 0, "finishedAt": "2026-01-01T00:09:00Z",
                "evictions": [],
            },
            {
                "workload": "default/low", "clusterQueue": "q", "createdAt": "2026-01-01T00:00:00Z",
                "waitedSeconds": 300, "ranSeconds": 840, "lostSeconds": 240, "finishedAt": "2026-01-01T00:19:00Z",
                "evictions": [{"at": "2026-01-01T00:04:00Z", "by": "default/high", "reason": "InClusterQueue"}],
            },
        ],
    }  # fmt: skip


def test_the_keys_that_scripts_rely_on_come_first_and_in_their_order() -> None:
    found = data("-f", QUICKSTART)
    assert list(found)[:12] == [
        "workloads", "admitted", "finished", "evictions", "evictionsByReason", "virtualSeconds", "cpuSeconds",
        "cycles", "writes", "journalSha256", "queues", "priorities",
    ]  # fmt: skip
    assert "perWorkload" not in found


def test_an_eviction_takes_as_long_as_it_is_said_to() -> None:
    at_once, slow = (told(queues() + LOW_AND_HIGH, "--eviction", each) for each in ("0s", "20s"))
    assert "00:04:00  default/high gets 4 cpu on default" in at_once
    assert "00:04:20  default/high gets 4 cpu on default" in slow
    assert slow[-1] == "00:19:20  default/low is done; it ran 14m, 4m of it lost"


def test_a_job_takes_as_long_to_leave_and_keeps_what_it_saved() -> None:
    jobs = work("low", 3, runs="10m", saves="3m", kind="Job") + work("high", 4, runs="5m", minute=4, priority=9)
    assert told(queues() + jobs, "--eviction", "20s")[2:] == [
        "00:04:00  default/high arrives in q, priority 9",
        "00:04:00  default/low makes way for default/high: prioritization in the ClusterQueue",
        "00:04:20  default/high gets 4 cpu on default",
        "00:09:20  default/high is done; it ran 5m",
        "00:09:20  default/low gets 3 cpu on default again",
        "00:16:20  default/low is done; it ran 11m, 1m of it lost",
    ]


def test_until_cuts_the_run_and_tells_how_things_stand() -> None:
    assert told(queues() + LOW_AND_HIGH, "--until", "6m")[-1] == "00:06:00  default/low still waits at the end"
    assert data("-f", "-", "--until", "6m", stdin=queues() + LOW_AND_HIGH)["virtualSeconds"] == 360
    assert data("-f", "-", "--until", "0s", stdin=queues() + LOW_AND_HIGH)["virtualSeconds"] == 0


def test_equal_seeds_give_equal_runs_and_others_other_names() -> None:
    first, second, other = (data("-f", QUICKSTART, "--seed", seed)["journalSha256"] for seed in "778")
    assert first == second != other


# --- sources ----------------------------------------------------------------------------------------------------------


def test_a_generator_brings_queues_and_workloads() -> None:
    Path("recipe.yaml").write_text(GENERATOR)
    found = data("--generator", "recipe.yaml")
    assert found["workloads"] == found["finished"] == 6
    assert [each["clusterQueue"] for each in found["queues"]] == ["cq-0", "cq-1"]
    assert found["virtualSeconds"] == 3.5  # the third of each comes after 2 s


def test_queues_of_manifests_take_the_place_of_those_a_source_made_up() -> None:
    Path("recipe.yaml").write_text(GENERATOR)
    Path("queues.yaml").write_text(queues(cpu=1).replace("name: q}", "name: cq-0}").replace(": q}", ": cq-0}"))
    found = data("--generator", "recipe.yaml", "-f", "queues.yaml")["queues"]
    assert [each["resources"][0]["nominal"] for each in found] == ["1", "2"]


def test_an_swf_trace_is_played() -> None:
    """Four processors: the second job needs them all, and waits for the first."""
    Path("log.swf").write_text("; MaxProcs: 4\n" + SWF_JOB.format(1, 0, 10, 2, 2) + SWF_JOB.format(2, 5, 10, 4, 4))
    found = data("--trace", "swf:log.swf", "--per-workload")
    waited = {each["workload"]: each["waitedSeconds"] for each in found["perWorkload"]}
    assert waited == {"default/swf-1": 0, "default/swf-2": 5}


def test_openb_finds_its_nodes_by_name_or_is_told(shared: Path) -> None:
    pods = shared / "traces" / "alibaba2023_openb_pod_list_default.csv"
    if not pods.is_file():
        pytest.skip("the shared data has no openb trace")
    nodes = pods.with_name("alibaba2023_openb_node_list_all_node.csv")
    found = data("--trace", f"openb:{pods}", "--until", "240h")
    assert found["admitted"] == found["workloads"] > 0
    assert found["journalSha256"] == data("--trace", f"openb:{pods},{nodes}", "--until", "240h")["journalSha256"]


def test_jobs_and_workloads_of_one_file_share_the_queue() -> None:
    both = work("a", 3, runs="2m", kind="Job") + work("b", 3, runs="2m", minute=1)
    assert told(queues() + both)[-2] == "00:02:00  default/b gets 3 cpu on default"


def test_arrivals_come_to_the_queues_of_the_manifests() -> None:
    Path("queues.yaml").write_text(queues())
    Path("arrivals.yaml").write_text(LOW_AND_HIGH)
    apart = data("-f", "queues.yaml", "--arrivals", "arrivals.yaml")
    assert (apart["finished"], apart["virtualSeconds"]) == (2, 1140)


def test_who_takes_no_part_is_named() -> None:
    strange = work("free", 1, runs="1m", kind="Job").replace("kueue.x-k8s.io/queue-name", "team")
    result = run("-f", "-", stdin=queues() + LOW_AND_HIGH + strange + "---\n" + CONFIGURATION)
    assert result.exit_code == 0
    assert result.stderr.splitlines() == [
        "note: a Configuration among the manifests: only the file that --config names is used",
        "note: Job default/free: it has no label kueue.x-k8s.io/queue-name, so it is not managed",
    ]


# --- against ----------------------------------------------------------------------------------------------------------


def test_against_manifests_the_kinds_that_they_hold_are_exchanged() -> None:
    Path("wide.yaml").write_text(queues(cpu=8))
    found = data("-f", "-", "--against", "wide.yaml", stdin=queues() + LOW_AND_HIGH)
    assert list(found) == ["run", "against", "differences", "waited", "onlyRun", "onlyAgainst"]
    assert [found[each]["evictions"] for each in ("run", "against")] == [1, 0]
    assert found["waited"] == {"sooner": 0, "later": 1, "alike": 1}
    assert found["onlyRun"] == found["onlyAgainst"] == []


def test_against_a_whole_folder_nothing_of_the_first_is_left(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "all.yaml").write_text(queues() + work("only", 1, runs="1m"))
    found = data("-f", "-", "--against", "other", stdin=queues() + LOW_AND_HIGH)
    assert (found["against"]["workloads"], found["onlyAgainst"]) == (1, ["workload default/only"])


def test_against_a_configuration_the_policy_is_exchanged() -> None:
    Path("plain.yaml").write_text(CONFIGURATION + "manageJobsWithoutQueueName: true\n")
    free = work("free", 1, runs="1m", kind="Job").replace("kueue.x-k8s.io/queue-name", "team")
    found = data("-f", "-", "--against", "plain.yaml", stdin=queues() + LOW_AND_HIGH + free)
    assert [found[each]["workloads"] for each in ("run", "against")] == [2, 3]


def test_what_is_wrong_with_the_other_side_is_told_before_anything_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "Simulation", None)  # it would fail if it was called
    result = run("-f", QUICKSTART, "--against", "nowhere")
    assert result.exit_code == 1
    assert "nowhere: error: cannot be read: no such file or directory" in result.stderr


# --- wrong input ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "there is nothing to simulate"),
        (["--generator", "a", "--trace", "swf:b"], "--generator and --trace exclude each other"),
        (["--trace", "wrong:file"], "`wrong:file` names no format"),
        (["--trace", "swf"], "`swf` names no file"),
        (["--trace", "swf:"], "`swf:` names no file"),
        (["-f", "x", "--until", "abc"], "'abc' is not a duration"),
        (["-f", "x", "--until", "-4h"], "-4h is negative"),
        (["-f", "x", "--eviction", "3"], "'3' is not a duration"),
        (["-f", "x", "--seed", "-1"], "-1 is not in the range"),
        (["-f", "x", "--faults", "some"], "'some' is not one of"),
        (["-f", "x", "--per-workload"], "--per-workload needs `-o json`"),
        (["-f", "-", "--config", "-"], "stdin can be read once only"),
        (["-f", "-", "--against", "-"], "stdin can be read once only"),
        (["-f", "x", "--journal", "-"], "--journal cannot go to stdout"),
        (["-f", "x", "--report", "-"], "--report cannot go to stdout"),
        (["-f", "x", "--report", "./x"], "--report ./x is read, too"),
        (["--trace", "openb:pods,nodes", "--journal", "nodes"], "--journal nodes is read, too"),
        (["-f", "x", "--report", "y", "--journal", "y"], "--journal y is the report already"),
    ],
)  # fmt: skip
def test_wrong_usage_is_refused_with_a_hint(arguments: list[str], says: str, tmp_path: Path) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert says in result.stderr
    assert "hint: " in result.stderr or "Invalid value for '--seed'" in result.stderr or "--faults" in result.stderr
    assert result.stdout == ""
    assert list(tmp_path.iterdir()) == []


def test_all_that_is_wrong_is_told_at_once_and_nothing_is_written(tmp_path: Path) -> None:
    Path("log.swf").write_text("one two\n" + SWF_JOB.format(1, "soon", 10, 1, 1))
    Path("settings.yaml").write_text(CONFIGURATION + "fairSharing: {preemptionStrategies: [LessThanMyShare]}\n")
    Path("queues.yaml").write_text(queues().replace("nominalQuota: 4", "nominalQuota: many"))
    Path("work.yaml").write_text(work("a", 1, runs="soon"))
    before = sorted(tmp_path.iterdir())
    result = run(
        "-f", "queues.yaml", "-f", "work.yaml", "-f", "gone.yaml", "--trace", "swf:log.swf",
        "--config", "settings.yaml", "--against", "away", "--report", "no/such/page.html", "--journal", "j.jsonl",
    )  # fmt: skip
    assert result.exit_code == 1
    assert result.stdout == ""
    places = [line.partition(": error: ")[0] for line in result.stderr.splitlines() if ": error: " in line]
    assert places == [
        "settings.yaml:3", "queues.yaml:13", "gone.yaml", "log.swf:1", "log.swf:2", "work.yaml:2", "away",
        "no/such/page.html",
    ]  # fmt: skip
    assert "hint: `mkdir -p no/such` makes its folder" in result.stderr
    assert result.stderr.splitlines()[-1] == "nothing is simulated: 8 errors"
    assert sorted(tmp_path.iterdir()) == before


def test_queues_without_work_are_nothing_to_simulate() -> None:
    result = run("-f", "-", stdin=queues())
    assert result.exit_code == 1
    assert "the manifests hold no Job or Workload\n\nhint: " in result.stderr


@pytest.mark.parametrize("text", ["", "kind: Job\n", queues() + LOW_AND_HIGH, 2 * (CONFIGURATION + "---\n")])
def test_a_configuration_is_one_object_and_no_other(text: str) -> None:
    Path("settings.yaml").write_text(text)
    result = run("-f", QUICKSTART, "--config", "settings.yaml")
    assert result.exit_code == 1
    assert result.stderr.startswith("settings.yaml")
    assert "nothing is simulated: " in result.stderr


def test_a_generator_is_told_its_lines() -> None:
    Path("recipe.yaml").write_text(GENERATOR.replace("count: 2", "count: two").replace("Quota: 2", "Quota: much"))
    lines = run("--generator", "recipe.yaml").stderr.splitlines()
    assert lines[0] == 'recipe.yaml:6: error: cohorts[0].queuesSets[0].count: expected a whole number, got "two"'
    assert lines[1].startswith("recipe.yaml:7: error: cohorts[0].queuesSets[0].nominalQuota: 'much' is not a quantity")
    assert lines[-1] == "nothing is simulated: 2 errors"


def test_a_closed_stdin_is_a_finding() -> None:
    closed = f"exec {sys.executable} -m makeway simulate -f - <&-"
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    result = subprocess.run(["sh", "-c", closed], env=env, capture_output=True, text=True, timeout=120)
    assert (result.returncode, result.stderr.splitlines()[0]) == (1, "<stdin>: error: is closed")


# --- signals ----------------------------------------------------------------------------------------------------------


def test_an_interrupt_ends_it_without_a_trace() -> None:
    """The interrupt comes when the run has begun to write."""
    Path("turns.yaml").write_text(queues(TAKES_TURNS) + work("a", 4) + work("b", 4))
    Path("page.html").write_text("old")
    os.mkfifo("journal")  # a reader takes it line by line
    arguments = ("-f", "turns.yaml", "--until", "2000000h", "--report", "page.html", "--journal", "journal")
    running = process(*arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    with open("journal", encoding="utf-8") as journal:
        assert json.loads(journal.readline())["what"] == "admitted"
        running.send_signal(signal.SIGINT)
        journal.read()
    stdout, stderr = running.communicate(timeout=60)
    assert (running.returncode, stdout, stderr) == (130, "", "\n")
    assert (sorted(os.listdir()), Path("page.html").read_text()) == (["journal", "page.html", "turns.yaml"], "old")


# --- faults -----------------------------------------------------------------------------------------------------------


def test_faults_are_counted_by_the_profile_that_was_asked_for() -> None:
    found = data("-f", QUICKSTART, "--faults", "watch", "--seed", "3")
    assert sorted(found["faultsFired"]) == sorted(PROFILES["watch"])
    assert (found["finished"], any(found["faultsFired"].values())) == (4, True)


def test_something_goes_wrong_even_if_all_come_at_once() -> None:
    several = "".join(work(f"w{i}", 1, runs=f"{i}m") for i in range(1, 20))
    found = data("-f", "-", "--faults", "all", stdin=queues() + several)
    assert (found["finished"], sum(found["faultsFired"].values()) > 10) == (19, True)


def test_a_run_is_watched_however_long_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulation, "HISTORY", 20)  # changes that are remembered
    assert data("-f", QUICKSTART, "--faults", "clock")["finished"] == 4


def test_a_broken_promise_exits_with_1_and_says_how_to_see_it_again(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = Broken("no admission exceeds quota", "default/a", "revision 7", "9 of cpu, 4 are free")
    monkeypatch.setattr(Simulation, "broken", lambda self: [broken])
    result = run("-f", QUICKSTART, "--faults", "all", "--seed", "5", "--eviction", "30s", "--journal", "j.jsonl")
    assert result.exit_code == 1
    assert result.stdout.startswith("What happened")
    assert result.stderr.splitlines() == [
        f"error: a promise was broken: {broken}",
        "  hint: this is a fault of makeway; to see it again: "
        f"makeway simulate -f {QUICKSTART} --eviction 30s --seed 5 --faults all",
    ]
    assert Path("j.jsonl").is_file()


@pytest.mark.parametrize("until", ["1h", "1h1s", "1h10s", "100m"])
def test_a_run_that_is_cut_is_not_blamed_for_what_it_was_about_to_do(until: str) -> None:
    result = run("-f", QUICKSTART, "--faults", "all", "--seed", "2", "--eviction", "30s", "--until", until)
    assert (result.exit_code, result.stderr) == (0, "")


def test_wrong_books_are_a_broken_promise_unless_an_answer_may_be_on_its_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "recount", lambda objects, state: ["q: usage"])
    result = run("-f", QUICKSTART)
    assert result.exit_code == 1
    assert "error: a promise was broken: the books differ from the objects: q: usage" in result.stderr
    assert run("-f", QUICKSTART, "--faults", "writes", "--until", "30m").exit_code == 0
    assert run("-f", QUICKSTART, "--faults", "writes", "--until", "30h").exit_code == 1


# --- runs without an end ----------------------------------------------------------------------------------------------


@pytest.fixture
def _ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let an endless run fail instead of hang."""
    heard = turns.Turns._heard

    def counted(self: Any, entry: Any) -> None:
        heard(self, entry)
        assert self._evictions < 2_000, "it goes on for ever"

    monkeypatch.setattr(turns.Turns, "_heard", counted)


@pytest.mark.usefixtures("_ends")
@pytest.mark.parametrize(
    "equals",
    [
        work("a", 4) + work("b", 4),
        work("a", 4, runs="90m") + work("b", 4, runs="3h"),
        work("a", 4, runs="90m", saves="70m") + work("b", 4, saves="10m"),
        work("a", 4, kind="Job") + work("b", 4, kind="Job", runs="2h") + work("c", 4, kind="Job", minute=3),
        work("a", 4) + work("b", 4) + work("starved", 4, runs="1m", priority=-1),
    ],
    ids=["no run times", "turns too short", "checkpoints too far apart", "Jobs", "somebody below them"],
)
def test_equals_that_only_take_turns_end_the_run_with_a_note(equals: str) -> None:
    result = run("-f", "-", "-o", "json", stdin=queues(TAKES_TURNS) + equals)
    assert result.exit_code == 0
    assert [line for line in result.stderr.splitlines() if ": warning: " not in line] == [
        "note: ended: workloads only take turns, and nobody will ever be done; `--until DURATION` would go on"
    ]
    found = json.loads(result.stdout)
    assert found["finished"] == 0
    assert found["evictions"] >= 2 * turns.TURNS_MAX


@pytest.mark.slow
@pytest.mark.usefixtures("_ends")
@pytest.mark.parametrize(
    ("others", "finished"),
    [
        (work("a", 3) + work("b", 3) + work("long", 1, runs="400h"), 1),
        (work("a", 3) + work("b", 3) + work("late", 1, runs="1m", minute=59).replace("-01T", "-21T"), 1),
        (work("a", 4, runs="30h", saves="30m") + work("b", 4, runs="50h", saves="1h"), 2),
    ],
    ids=["a long one runs beside them", "one is still to come", "they save what they did"],
)
def test_turns_do_not_end_a_run_in_which_somebody_gets_further(others: str, finished: int) -> None:
    assert data("-f", "-", stdin=queues(TAKES_TURNS) + others)["finished"] == finished


def test_until_goes_on_as_long_as_it_says() -> None:
    turns = queues(TAKES_TURNS) + work("a", 4) + work("b", 4)
    found = data("-f", "-", "--until", "200h", stdin=turns)
    assert (found["virtualSeconds"], found["evictions"]) == (720_000, 199)


def test_work_without_a_run_time_does_not_keep_a_run_from_ending() -> None:
    story = told(queues() + work("a", 3) + work("b", 1, runs="5m"))
    assert story[-1].endswith("default/a has its quota to the end; it ran 1h")


# --- terminals --------------------------------------------------------------------------------------------------------


def on_a_terminal(*arguments: str, columns: int = 80, env: dict[str, str] | None = None) -> str:
    """The output on a terminal, stdout and stderr together."""
    ours, theirs = pty.openpty()
    size = {"COLUMNS": str(columns), "LINES": "25", "TERM": "xterm"}
    running = process(*arguments, stdout=theirs, stderr=theirs, env={**size, **(env or {})})
    os.close(theirs)
    shown = b""
    with suppress(OSError):  # the other end is closed
        while part := os.read(ours, 65_536):
            shown += part
    os.close(ours)
    assert running.wait(60) == 0
    return shown.decode().replace("\r\n", "\n")


def test_a_narrow_terminal_is_enough() -> None:
    shown = on_a_terminal("-f", QUICKSTART, columns=40)
    lines = [line for line in shown.splitlines() if " " in line.strip()]  # a word that is too wide stays whole
    assert 30 < max(map(len, lines)) <= 40


def test_errors_have_colours_on_a_terminal_unless_somebody_wants_none() -> None:
    coloured = process("-f", "gone", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert "\x1b" not in coloured.communicate(timeout=60)[1]
    Path("queues.yaml").write_text(queues() + LOW_AND_HIGH.replace('"main", "priority": 9', '"gone", "priority": 9'))
    assert "\x1b[" in on_a_terminal("-f", "queues.yaml")
    assert "\x1b" not in on_a_terminal("-f", "queues.yaml", env={"NO_COLOR": "1"})


def test_progress_is_shown_on_a_terminal_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "PROGRESS_AFTER_SECONDS", 0.0)
    monkeypatch.setattr(command, "PROGRESS_EVERY_SECONDS", 0.0)
    assert run("-f", QUICKSTART).stderr == ""
    monkeypatch.setattr(command, "is_terminal", lambda stream: True)
    monkeypatch.setenv("COLUMNS", "60")
    shown = run("-f", QUICKSTART).stderr
    assert re.search(r"\r\[#{10}\.{10}\] 2 of 4 arrived in 20m", shown)
    assert shown.endswith("\r")
    assert max(len(part) for part in shown.split("\r")) < 60
