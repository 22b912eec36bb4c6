"""``makeway place``: the stories of the design, queue order, and what is said when nothing can be placed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from makeway.api import codec
from makeway.api.validation import validate_update
from makeway.cli.main import main

EXAMPLES = Path(__file__).parents[2] / "examples" / "gangs"
NODES = EXAMPLES / "nodes.yaml"


def ran(*arguments: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(main, ["place", *arguments], input=stdin)


def placed(*names: str, more: tuple[str, ...] = ()) -> list[dict[str, Any]]:
    files = [argument for name in names for argument in ("-f", str(EXAMPLES / name))]
    result = ran("-f", str(NODES), *files, *more, "-o", "json")
    assert result.exit_code == 0, result.output
    found: list[dict[str, Any]] = json.loads(result.stdout)["placements"]
    return found


PACK = "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\nmakeway: {scoring: Pack}\n"


def test_which_of_the_free_nodes_is_for_the_configuration_to_say(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(PACK)
    pods = [
        {
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"p{n}", "namespace": "default"},
            "spec": {"containers": [{"name": "c", "image": "x", "resources": {"requests": {"cpu": "1"}}}]},
        }
        for n in range(2)
    ]  # fmt: skip
    listed = json.dumps({"apiVersion": "v1", "kind": "List", "items": pods})

    def nodes(*more: str) -> list[str]:
        result = ran("-f", str(NODES), "-f", "-", "-o", "json", *more, stdin=listed)
        assert result.exit_code == 0, result.output
        return [node for each in json.loads(result.stdout)["placements"] for node in each["nodes"].values()]

    assert nodes() == ["n1", "n2"]
    assert nodes("--config", str(config)) == ["n1", "n1"]


def test_a_configuration_that_is_wrong_places_nothing(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(PACK.replace("Pack", "Heap"))
    result = ran("-f", str(NODES), "--config", str(config))
    assert (result.exit_code, result.stdout) == (1, "")
    assert "makeway.scoring" in result.stderr
    assert "nothing is placed: 1 error" in result.stderr


# --- the four stories ------------------------------------------------------------------------------------------------


def test_story_1_a_training_job_is_not_preempted_in_part() -> None:
    (found,) = placed("training.yaml")
    assert found["for"] == {"kind": "pod", "name": "default/urgent"}
    assert found["victims"] == ["default/training-0", "default/training-1"], "also the pod on the other node"
    assert found["nodes"] == {"default/urgent": "n1"}


def test_story_2_one_replica_goes_as_a_whole_and_the_other_serves_on() -> None:
    (found,) = placed("inference.yaml")
    assert found["victims"] == ["default/serving-b-0", "default/serving-b-1"], "the younger one"


def test_story_3_a_replica_that_can_serve_with_fewer_loses_one_pod() -> None:
    (found,) = placed("degraded.yaml")
    assert found["victims"] == ["default/degraded-b-1"], "below minCount: the mode does not ask"


def test_story_4_what_is_dear_to_stop_is_guarded_as_a_victim() -> None:
    (found,) = placed("cost.yaml")
    assert found["victims"] == ["default/batch-1"]
    (found,) = placed("cost.yaml", "incoming-gang.yaml", more=("--for", "workload/fleet"))
    assert (found["outcome"], found["victims"]) == ("waits", []), "not for a whole gang either"


def test_story_4_the_cost_of_stopping_cannot_follow_the_time() -> None:
    """The class is fixed when the Workload is made; a checkpoint changes nothing."""

    def workload(preemption: str) -> Any:
        groups = [{"name": "g", "policy": {"gang": {"minCount": 2}}}]
        return codec.read({
            "apiVersion": "scheduling.k8s.io/v1alpha1", "kind": "Workload", "metadata": {"name": "w"},
            "spec": {"podGroups": groups, "priorityClassName": "routine", "preemptionPriorityClassName": preemption},
        }).value  # fmt: skip

    (problem,) = validate_update(workload("guarded"), workload("routine"))
    assert str(problem) == "spec.preemptionPriorityClassName: cannot be changed after creation"


# --- gangs, and who comes first --------------------------------------------------------------------------------------


def test_a_gang_gets_all_its_places() -> None:
    (found,) = placed("degraded.yaml", "incoming-gang.yaml", more=("--for", "workload/fleet"))
    assert found["for"] == {"kind": "gang", "name": "default/fleet/workers"}
    assert len(found["nodes"]) == len(found["victims"]) == 3
    assert (found["n"], found["numPDBViolations"]) == (10, 0)


def test_who_waits_is_looked_at_in_queue_order_and_later_ones_see_what_earlier_ones_got() -> None:
    found = placed("degraded.yaml", "incoming-gang.yaml")
    assert [each["for"]["name"] for each in found] == ["default/hurry", "default/fleet/workers"]
    gone = [victim for each in found for victim in each["victims"]]
    assert len(gone) == len(set(gone)) == 4


def test_an_empty_cluster_takes_everybody_without_preemption() -> None:
    (found,) = placed("incoming-gang.yaml")
    assert (found["outcome"], found["victims"], found["why"][0]["rule"]) == ("fits", [], "place/fits")
    assert "Nobody waits for a place." in ran("-f", str(NODES)).stdout


def test_text_says_who_goes_where_who_makes_way_and_why() -> None:
    result = ran("-f", str(NODES), "-f", str(EXAMPLES / "training.yaml"))
    assert result.stdout.splitlines() == [
        "pod default/urgent: makes others leave",
        "  to node    default/urgent: n1",
        "  makes way  default/training/workers: priority 10 is below 100; pods that leave: 2, beyond a budget: 0",
        "  because    n1: of 2 nodes that could take it the one where least is lost: 2 pods leave, 0 beyond budgets",
    ]


def test_a_gang_that_cannot_be_placed_says_what_it_lacks() -> None:
    files = ("-f", str(NODES), "-f", str(EXAMPLES / "cost.yaml"), "-f", str(EXAMPLES / "incoming-gang.yaml"))
    result = ran(*files, "--for", "workload/fleet")
    assert "gang default/fleet/workers: waits" in result.stdout
    assert "2 are asked for, 0 would be free, 2 are missing" in result.stdout


# --- what cannot be done ---------------------------------------------------------------------------------------------

POD = """
apiVersion: v1
kind: Pod
metadata: {name: NAME}
spec:
  containers: [{name: c, image: i}]
"""


@pytest.mark.parametrize(
    ("whom", "message", "hint"),
    [
        ("workload/fleeet", "no scheduling Workload fleeet in namespace default", "did you mean fleet?"),
        ("workload/training", "no pod of Workload training waits", "only who waits is placed"),
        ("pod/urgnet", "no Pod urgnet in namespace default", "did you mean urgent?"),
        ("pod/training-0", "Pod training-0 is on node n1 already", "only who waits is placed"),
        ("pod/fleet-0", "Pod fleet-0 is placed with its gang or not at all", "`--for workload/fleet`"),
    ],
)
def test_whom_it_cannot_place(whom: str, message: str, hint: str) -> None:
    result = ran("-f", str(EXAMPLES), "--for", whom)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == f"Error: {message}\n\nhint: {hint}\n"


@pytest.mark.parametrize("arguments", [(), ("-f", "-", "-f", "-"), ("-f", "-", "--for", "node/n1")])
def test_wrong_usage(arguments: tuple[str, ...]) -> None:
    result = ran(*arguments, stdin=POD.replace("NAME", "a"))
    assert (result.exit_code, result.stdout) == (2, "")
    assert "hint: " in result.stderr


def test_all_errors_come_at_once_and_nothing_is_placed() -> None:
    workload = """
apiVersion: scheduling.k8s.io/v1alpha1
kind: Workload
metadata: {name: w}
spec:
  priorityClassName: importnat
  preemptionPriorityClassName: nope
  podGroups: [{name: g, policy: {gang: {minCount: 0}}}]
"""
    result = ran("-f", str(NODES), "-f", "-", stdin=workload)
    assert (result.exit_code, result.stdout) == (1, "")
    for part in (
        'spec.priorityClassName: no PriorityClass is called "importnat"', "did you mean important?",
        'spec.preemptionPriorityClassName: no PriorityClass is called "nope"', "minCount",
        "nothing is placed: 3 errors",
    ):  # fmt: skip
        assert part in result.stderr


def test_a_victim_below_its_preemptor_is_refused() -> None:
    """5710-d, G1: a preemption class below the scheduling class."""
    workload = (
        (EXAMPLES / "cost.yaml").read_text().replace("priorityClassName: routine", "priorityClassName: guarded", 1)
    )
    workload = workload.replace("preemptionPriorityClassName: guarded", "preemptionPriorityClassName: important", 1)
    result = ran("-f", str(NODES), "-f", "-", stdin=workload)
    assert result.exit_code == 1
    assert '"important" has value 100, below the 1000 of "guarded"' in result.stderr


def test_pods_that_are_not_to_be_placed_yet_are_named() -> None:
    gated = POD.replace("NAME", "later") + "  schedulingGates: [{name: example.com/wait}]\n"
    result = ran("-f", str(NODES), "-f", "-", stdin=gated)
    assert "Left out, for they have scheduling gates: default/later" in result.stdout
    as_json = ran("-f", str(NODES), "-f", "-", "-o", "json", stdin=gated)
    assert json.loads(as_json.stdout) == {"placements": []}
    assert "note: Pod default/later" in as_json.stderr
