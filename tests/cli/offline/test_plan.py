"""``makeway plan``: manifests in, what would happen out."""

from __future__ import annotations

import itertools
import json
import textwrap
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from makeway.cli.main import main

ROOT = Path(__file__).parents[3]
QUICKSTART = ROOT / "examples" / "quickstart"
NOW = ("--now", "2026-01-01T00:00:00Z")
QUEUES = textwrap.dedent(
    """\
    apiVersion: kueue.x-k8s.io/v1beta2
    kind: ResourceFlavor
    metadata: {name: default}
    ---
    apiVersion: kueue.x-k8s.io/v1beta2
    kind: ClusterQueue
    metadata: {name: q}
    spec:
      namespaceSelector: {}
      preemption: {withinClusterQueue: LowerPriority}
      resourceGroups:
      - coveredResources: [cpu]
        flavors:
        - {name: default, resources: [{name: cpu, nominalQuota: 4}]}
    ---
    apiVersion: kueue.x-k8s.io/v1beta2
    kind: LocalQueue
    metadata: {name: main, namespace: default}
    spec: {clusterQueue: q}
    """
)


def workload(
    name: str, cpu: int, *, priority: int = 0, created: str = "", status: str = "", queue: str = "main"
) -> str:
    times = f", creationTimestamp: '{created}'" if created else ""
    return (
        textwrap.dedent(
            f"""\
        ---
        apiVersion: kueue.x-k8s.io/v1beta2
        kind: Workload
        metadata: {{name: {name}, namespace: default{times}}}
        spec:
          queueName: {queue}
          priority: {priority}
          podSets:
          - name: main
            count: 1
            template:
              spec: {{containers: [{{name: work, image: busybox, resources: {{requests: {{cpu: {cpu}}}}}}}]}}
        """
        )
        + status
    )


def running(cpu: int) -> str:
    return textwrap.dedent(
        f"""\
        status:
          admission:
            clusterQueue: q
            podSetAssignments:
            - {{name: main, count: 1, flavors: {{cpu: default}}, resourceUsage: {{cpu: {cpu}}}}}
          conditions:
          - {{type: QuotaReserved, status: "True", reason: QuotaReserved, lastTransitionTime: "2025-12-31T00:00:00Z"}}
          - {{type: Admitted, status: "True", reason: Admitted, lastTransitionTime: "2025-12-31T00:00:00Z"}}
        """
    )


def job(name: str, labels: str = "kueue.x-k8s.io/queue-name: main") -> str:
    return textwrap.dedent(
        f"""\
        ---
        apiVersion: batch/v1
        kind: Job
        metadata:
          name: {name}
          namespace: default
          labels: {{{labels}}}
        spec:
          template:
            spec:
              restartPolicy: Never
              containers: [{{name: work, image: busybox, resources: {{requests: {{cpu: 1}}}}}}]
        """
    )


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def run(*arguments: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(main, ["plan", *arguments], input=stdin)


def cycles(text: str, *arguments: str) -> list[dict[str, Any]]:
    result = run("-f", "-", *NOW, "-o", "json", *arguments, stdin=text)
    assert result.exit_code == 0, result.stderr
    found: dict[str, list[dict[str, Any]]] = json.loads(result.stdout)
    assert list(found) == ["cycles"]
    return found["cycles"]


def text_of(text: str, *arguments: str) -> str:
    result = run("-f", "-", *NOW, *arguments, stdin=text)
    assert result.exit_code == 0, result.stderr
    return result.stdout


# --- as data ----------------------------------------------------------------------------------------------------------


def test_json_has_exactly_these_keys() -> None:
    (first, *_) = cycles(QUEUES + workload("low", 3, status=running(3)) + workload("high", 4, priority=9))
    assert list(first) == ["admitted", "preempted", "pending"]
    assert first["admitted"] == []
    assert first["preempted"] == [{"workload": "default/low", "by": "default/high", "reason": "InClusterQueue"}]
    assert first["pending"] == [
        {
            "workload": "default/high",
            "clusterQueue": "q",
            "reason": "WaitingForPreemptedWorkloads",
            "message": "couldn't assign flavors to pod set main: insufficient unused quota for cpu in flavor default, "
            "3 more needed. Pending the preemption of 1 workload(s)",
            "parked": False,
        }
    ]


def test_an_admission_tells_flavors_and_whether_it_borrows() -> None:
    ((admitted,), *_) = [each["admitted"] for each in cycles(QUEUES + workload("a", 1))]
    assert admitted == {
        "workload": "default/a",
        "clusterQueue": "q",
        "podSets": [{"name": "main", "count": 1, "flavors": {"cpu": "default"}}],
        "borrows": False,
    }


def test_who_is_in_no_queue_waits_in_every_cycle() -> None:
    told = cycles(QUEUES + workload("a", 1) + workload("b", 1) + workload("lost", 1, queue="gone"))
    assert len(told) == 2
    assert all(
        each["pending"][-1]
        == {
            "workload": "default/lost",
            "clusterQueue": "",
            "reason": "Misconfigured",
            "message": "LocalQueue gone doesn't exist",
            "parked": True,
        }
        for each in told
    )


def test_a_number_of_cycles_is_kept() -> None:
    assert len(cycles(QUEUES + workload("a", 1), "--cycles", "3")) == 3


def test_without_times_the_earlier_in_the_files_is_the_older() -> None:
    a, b = workload("a", 3), workload("b", 3)
    first = [cycles(QUEUES + text)[0]["admitted"][0]["workload"] for text in (a + b, b + a)]
    assert first == ["default/a", "default/b"]


def test_with_times_the_order_of_files_does_not_matter() -> None:
    texts = [
        QUEUES,
        workload("a", 3, created="2025-01-03T00:00:00Z"),
        workload("b", 3, created="2025-01-02T00:00:00Z"),
        workload("c", 4, priority=9, created="2025-01-04T00:00:00Z"),
        workload("d", 2, created="2025-01-01T00:00:00Z", status=running(2)),
    ]
    for number, text in enumerate(texts):
        Path(f"{number}.yaml").write_text(text, "utf-8")
    orders = itertools.islice(itertools.permutations(range(len(texts))), 0, None, 7)
    plans = {
        run(*NOW, "-o", "json", *(word for number in order for word in ("-f", f"{number}.yaml"))).stdout
        for order in orders
    }
    assert len(plans) == 1


# --- as text ----------------------------------------------------------------------------------------------------------


def test_the_story_says_what_it_would_take() -> None:
    told = text_of(QUEUES + workload("runs", 3, priority=5, status=running(3)) + workload("a", 2))
    assert told == textwrap.dedent(
        """\
        Cycle 1
          waits      default/a: couldn't assign flavors to pod set main: insufficient unused quota for cpu in flavor \
default, 1 more needed

        Nothing more changes. Still waiting:
          default/a in q (WaitingForQuota): couldn't assign flavors to pod set main: insufficient unused quota for \
cpu in flavor default, 1 more needed
            needs 2 cpu of default: 1 free, 1 missing; held by default/runs 3
        """
    )


def test_who_can_never_fit_is_told_so() -> None:
    assert "needs 9 cpu of default: 4 free, 5 missing; it can never have more than 4" in text_of(
        QUEUES + workload("a", 9)
    )


def test_a_preemption_is_told_in_words() -> None:
    told = text_of(QUEUES + workload("low", 3, status=running(3)) + workload("high", 4, priority=9))
    ground = "prioritization in the ClusterQueue, priority 0 is below 9"
    assert f"  preempted  default/low: makes way for default/high: {ground}\n" in told


def test_a_job_goes_by_its_own_name() -> None:
    told = text_of(QUEUES + workload("large", 4, priority=1) + job("one") + job("two"), "--cycles", "2")
    assert "default/two in q (PendingEvaluation): Asks for the same as default/one: couldn't assign" in told


def test_a_job_without_queue_is_left_out_and_told() -> None:
    why = "Job default/alone: it has no label kueue.x-k8s.io/queue-name, so it is not managed"
    assert text_of(QUEUES + job("alone", "app: x")).endswith(f"\nLeft out:\n  {why}\n")
    result = run("-f", "-", "-o", "json", stdin=QUEUES + job("alone", "app: x"))
    assert result.stderr == f"note: {why}\n"


def test_the_configuration_may_bring_it_in() -> None:
    Path("config.yaml").write_text(
        "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\nmanageJobsWithoutQueueName: true\n", "utf-8"
    )
    default = QUEUES.replace("name: main", "name: default")
    (first,) = cycles(default + job("alone", "app: x"), "--config", "config.yaml")
    assert [each["clusterQueue"] for each in first["admitted"]] == ["q"]


def test_a_job_of_a_namespace_that_is_not_selected_is_left_out_and_told() -> None:
    Path("config.yaml").write_text(
        "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\n"
        "managedJobsNamespaceSelector: {matchLabels: {team: a}}\n", "utf-8",
    )  # fmt: skip
    why = "Job default/one: namespace default is not selected by managedJobsNamespaceSelector"
    assert text_of(QUEUES + job("one"), "--config", "config.yaml").endswith(f"\nLeft out:\n  {why}\n")
    labelled = "---\n{apiVersion: v1, kind: Namespace, metadata: {name: default, labels: {team: a}}}\n"
    (first,) = cycles(QUEUES + labelled + job("one"), "--config", "config.yaml")
    assert [each["clusterQueue"] for each in first["admitted"]] == ["q"]


def test_a_job_of_a_managed_job_is_left_out_and_told() -> None:
    parent = job("parent").replace("name: parent", "name: parent\n  uid: u-1")
    owner = "{apiVersion: batch/v1, kind: Job, name: parent, uid: u-1, controller: true}"
    child = job("child").replace("name: child", f"name: child\n  ownerReferences: [{owner}]")
    why = "Job default/child: its owner Job parent is managed, and the Workload of that one accounts for it"
    assert why in " ".join(text_of(QUEUES + parent + child).split())


def test_a_plan_that_is_cut_short_says_so() -> None:
    assert "Stopped after 1 cycle, and the next one has something to do. Waiting at its end:\n" in text_of(
        QUEUES + workload("a", 1) + workload("b", 1), "--cycles", "1"
    )


# --- what is wrong ----------------------------------------------------------------------------------------------------


def test_errors_are_shown_and_nothing_is_planned() -> None:
    result = run("-f", "-", "-o", "json", stdin=QUEUES.replace("nominalQuota", "nominalquota"))
    assert (result.exit_code, result.stdout) == (1, "")
    assert "error: ClusterQueue q: spec.resourceGroups[0].flavors[0].resources[0].nominalquota" in result.stderr
    assert result.stderr.endswith("nothing is planned: 2 errors\n")


def test_warnings_are_short_and_do_not_stop_the_plan() -> None:
    result = run("-f", "-", *NOW, "-o", "json", stdin=workload("a", 1))
    assert result.exit_code == 0
    assert "warning: Workload default/a: spec.queueName: LocalQueue main" in result.stderr
    assert "hint" not in result.stderr
    json.loads(result.stdout)


FAIR = ROOT / "examples" / "fair-sharing"


def fairly(*more: str) -> Any:
    return run("-f", str(FAIR), "--config", str(FAIR / "config.yaml"), "--now", "2026-03-02T10:00:00Z", *more)


def test_with_fair_sharing_the_plan_shows_whose_share_decided() -> None:
    told = fairly().stdout
    assert "\n  shares     search 250, speech 125, vision 125\n  preempted  search/sweep-3: makes way for" in told
    assert (
        "Fair Sharing within the cohort, the newcomer's share rises from 125 to 187.5, below the 250 of its side, 125 "
        "without it\n"
    ) in told
    assert (
        "admitted   vision/train-2: in vision, 2 pods on gpu-node, borrows; before search/sweep-2: with it the share "
        "of its side is 62.5, lower than the 125 of the next\n"
    ) in told
    assert "\n    its share would rise from 125 to 250; nobody of the richest side, with 187.5, may leave for" in told
    assert told.endswith("\nShares at the end:\n  search 125, speech 125, vision 187.5\n")


def test_shares_as_data_are_only_there_where_they_count() -> None:
    told = json.loads(fairly("-o", "json").stdout)
    assert told["shares"] == {
        "clusterQueues": {"search": "125", "speech": "125", "vision": "187.5"}, "cohorts": {},
    }  # fmt: skip
    (victim,) = [each for cycle in told["cycles"] for each in cycle["preempted"]]
    assert victim["rule"] == "preempt/fair-initial-share"
    assert victim["sides"] == {"preemptor": "vision", "victim": "search"}
    assert victim["shares"] == {
        "preemptorBefore": "125", "preemptorAfter": "187.5", "victimBefore": "250", "victimAfter": "125",
    }  # fmt: skip
    first = told["cycles"][1]["admitted"][0]["turn"]
    assert (first["rule"], first["shares"]) == ("order/lower-share", {"own": "62.5", "next": "125"})
    barred = [each for each in told["cycles"][-1]["pending"] if "rule" in each]
    assert {each["rule"] for each in barred} == {"preempt/not-by-shares"}
    assert barred[0]["shares"] == {"before": "125", "after": "250", "richest": "187.5"}
    classical = json.loads(run("-f", str(FAIR), "--now", "2026-03-02T10:00:00Z", "-o", "json").stdout)
    assert "shares" not in classical
    assert "shares" not in classical["cycles"][0]


def test_a_configuration_in_the_folder_is_read_once_and_without_config_not_used() -> None:
    head = "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\nmetadata: {name: mine}\n"
    Path("config.yaml").write_text(head, "utf-8")
    Path("queues.yaml").write_text(QUEUES, "utf-8")
    told = run("-f", ".", "--config", "config.yaml")
    assert (told.exit_code, told.stderr) == (0, "")
    assert told.stdout == "Cycle 1\n  nobody is looked at\n\nNothing more changes. Nobody waits.\n"
    assert "a Configuration among the manifests: only the file that --config names" in run("-f", ".").stdout


def test_a_configuration_must_be_one() -> None:
    Path("config.yaml").write_text(QUEUES, "utf-8")
    result = run("-f", "-", "--config", "config.yaml", stdin=workload("a", 1))
    assert result.exit_code == 1
    assert "config.yaml is not a Configuration" in result.stderr


@pytest.mark.parametrize(
    "arguments", [(), ("-f", "-", "-f", "-"), ("-f", "-", "--now", "noon"), ("-f", "-", "--cycles", "0")]
)
def test_wrong_usage_exits_2(arguments: tuple[str, ...]) -> None:
    assert run(*arguments, stdin=QUEUES).exit_code == 2


# --- the example ------------------------------------------------------------------------------------------------------


def test_in_the_quickstart_sweep_makes_way_for_hotfix() -> None:
    result = run("-f", str(QUICKSTART), *NOW, "-o", "json")
    told = json.loads(result.stdout)["cycles"]

    def names(each: dict[str, Any], key: str) -> list[str]:
        return [entry["workload"].split("/job-")[1].rpartition("-")[0] for entry in each[key]]

    assert [names(each, "admitted") for each in told] == [["report", "sweep"], ["smoke"], ["hotfix"]]
    assert [names(each, "preempted") for each in told] == [[], ["sweep"], []]
    assert [each["borrows"] for each in told[0]["admitted"]] == [False, True]
    assert told[1]["admitted"][0]["podSets"] == [
        {"name": "main", "count": 1, "flavors": {"cpu": "spot", "memory": "spot"}}
    ]
    (victim,) = told[1]["preempted"]
    assert victim["reason"] == "InCohortReclamation"
    assert "job-hotfix" in victim["by"]
    assert names(told[-1], "pending") == ["sweep"]


@pytest.mark.parametrize("example", sorted(path for path in (ROOT / "examples").iterdir() if path.is_dir()))
@pytest.mark.parametrize("profile", ["default", "parity"])
def test_every_example_can_be_planned(example: Path, profile: str) -> None:
    result = run("-f", str(example), "--profile", profile)
    assert (result.exit_code, result.stderr) == (0, "")
    assert "Nothing more changes." in result.stdout
