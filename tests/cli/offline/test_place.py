"""``makeway place``: the stories of the design, queue order, and messages if nothing can be placed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from makeway.api import codec
from makeway.api.validation import validate_update
from makeway.cli.main import main

EXAMPLES = Path(__file__).parents[3] / "examples" / "gangs"
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


def test_gates_that_are_off_make_groups_single_pods(tmp_path: Path) -> None:
    """Story 1 of the guide: the whole gang leaves for one pod, on both nodes; without the gate one of its pods does."""
    config = tmp_path / "config.yaml"
    for gates in ("WorkloadAwarePreemption: false", "GenericWorkload: false, WorkloadAwarePreemption: false"):
        config.write_text(PACK.replace("makeway: {scoring: Pack}", f"featureGates: {{{gates}}}"))
        (found,) = placed("training.yaml", more=("--config", str(config)))
        assert len(found["victims"]) == 1, gates
    (found,) = placed("training.yaml")
    assert len(found["victims"]) == 2


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
        ("workload/training", "no pod of Workload training waits", "only pods that wait are placed"),
        ("pod/urgnet", "no Pod urgnet in namespace default", "did you mean urgent?"),
        ("pod/training-0", "Pod training-0 is on node n1 already", "only pods that wait are placed"),
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


def pod(name: str, *, gang: str = "", **spec: Any) -> dict[str, Any]:
    reference = {"workloadRef": {"name": gang, "podGroup": "workers"}} if gang else {}
    return {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"},
        "spec": {"containers": [{"name": "c", "image": "i"}], **reference, **spec},
    }  # fmt: skip


def node(name: str, **allocatable: str) -> dict[str, Any]:
    amounts = {"cpu": "8", "memory": "8Gi", "pods": "110", **allocatable}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": {"allocatable": amounts}}


def gang(name: str, least: int, **spec: Any) -> dict[str, Any]:
    groups = [{"name": "workers", "policy": {"gang": {"minCount": least}}}]
    return {
        "apiVersion": "scheduling.k8s.io/v1alpha1", "kind": "Workload",
        "metadata": {"name": name, "namespace": "default"}, "spec": {"podGroups": groups, **spec},
    }  # fmt: skip


def dump(*items: Any) -> str:
    """The output of ``kubectl get -A -o json``."""
    tree = {"apiVersion": "v1", "items": items, "kind": "List", "metadata": {"resourceVersion": ""}}
    return json.dumps(tree, indent=4)


def seen(*items: Any, more: tuple[str, ...] = ()) -> tuple[list[dict[str, Any]], list[str]]:
    """The placements of these objects, and the messages beside them."""
    result = ran("-f", "-", "-o", "json", *more, stdin=dump(*items))
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)["placements"], result.stderr.splitlines()


# --- what is left out ------------------------------------------------------------------------------------------------

LEAVES = {"deletionTimestamp": "2026-11-01T10:00:00Z"}
LEFT_OUT = [
    ("have scheduling gates", "has scheduling gates", {"schedulingGates": [{"name": "example.com/wait"}]}, {}),
    ("are being deleted", "is being deleted", {}, LEAVES),
    ("ask for scheduler volcano", "asks for scheduler volcano", {"schedulerName": "volcano"}, {}),
]


@pytest.mark.parametrize(("many", "one", "spec", "metadata"), LEFT_OUT)
def test_pods_that_do_not_wait_for_us_are_left_out_and_named(
    many: str, one: str, spec: dict[str, Any], metadata: dict[str, str]
) -> None:
    later = pod("later", **spec)
    later["metadata"].update(metadata)
    text = dump(node("n"), later)
    result = ran("-f", "-", stdin=text)
    assert result.stdout.splitlines() == ["Nobody waits for a place.", "", f"Left out, for they {many}: default/later"]
    as_json = ran("-f", "-", "-o", "json", stdin=text)
    assert json.loads(as_json.stdout) == {"placements": []}
    assert as_json.stderr == f"note: left out, for they {many}: default/later\n"
    named = ran("-f", "-", "--for", "pod/later", stdin=text)
    assert (named.exit_code, named.stderr.splitlines()[0]) == (1, f"Error: Pod later {one}")


@pytest.mark.parametrize(("many", "one", "spec", "metadata"), LEFT_OUT)
def test_pods_that_do_not_wait_for_us_do_not_make_a_gang_complete(
    many: str, one: str, spec: dict[str, Any], metadata: dict[str, str]
) -> None:
    """minCount 2, one pod waits for us: nothing is placed, with or without --for."""
    later = pod("g-1", gang="g", **spec)
    later["metadata"].update(metadata)
    items = (node("n"), gang("g", 2), pod("g-0", gang="g"), later)
    for more in ((), ("--for", "workload/g")):
        (found,), _ = seen(*items, more=more)
        assert (found["outcome"], found["nodes"]) == ("waits", {})
    (found,), _ = seen(*items[:3], pod("g-1", gang="g"))
    assert sorted(found["nodes"]) == ["default/g-0", "default/g-1"], "the same gang with a pod that does"
    (found,), _ = seen(node("n"), gang("g", 1), *items[2:])
    assert sorted(found["nodes"]) == ["default/g-0"], "nor do they get a place with it"


def test_a_workload_of_which_nobody_waits_for_us_says_why() -> None:
    text = dump(node("n"), gang("g", 1), pod("g-0", gang="g", schedulerName="volcano"))
    result = ran("-f", "-", "--for", "workload/g", stdin=text)
    assert result.stderr == (
        "Error: no pod of Workload g waits\n\nhint: Left out, for they ask for scheduler volcano: default/g-0\n"
    )


def test_our_own_scheduler_may_be_asked_for_by_name() -> None:
    for name in ("default-scheduler", "makeway-scheduler"):
        (found,), notes = seen(node("n"), pod("p", schedulerName=name))
        assert (found["nodes"], notes) == ({"default/p": "n"}, [])


# --- what pods ask for -----------------------------------------------------------------------------------------------


def asks(**limits: str) -> dict[str, Any]:
    return {"name": "c", "image": "i", "resources": {"limits": limits}}


def test_a_limit_counts_where_nothing_is_requested() -> None:
    """For manifests: a server has filled in the request."""
    gpu = {"nvidia.com/gpu": "1"}
    on_gpus, without = node("a", **gpu), node("b")
    placements, _ = seen(on_gpus, without, *(pod(f"p{n}", containers=[asks(**gpu)]) for n in range(2)))
    assert [each["nodes"] for each in placements] == [{"default/p0": "a"}, {}], "there is one GPU"
    first = {**asks(**gpu), "name": "first"}
    (found,), _ = seen(without, pod("p", initContainers=[first]))
    assert found["outcome"] == "waits", "also of an init container"


def test_what_is_not_heeded_is_told_once_with_those_who_ask_for_it() -> None:
    spread = [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": {}}]
    soft = [pod(f"p{n}", topologySpreadConstraints=spread) for n in range(12)]
    runs = pod("runs", topologySpreadConstraints=spread, nodeName="n")
    text = dump(node("n"), *soft, runs)
    line = (
        "spec.topologySpreadConstraints[].whenUnsatisfiable: with ScheduleAnyway the constraint does not spread the "
        "pods (12 pods: default/p0, default/p1, default/p10, default/p11, default/p2, default/p3, default/p4, "
        "default/p5, default/p6, default/p7 and 2 more)"
    )
    assert ran("-f", "-", stdin=text).stdout.splitlines()[-1] == f"Not heeded: {line}"
    assert ran("-f", "-", "-o", "json", stdin=text).stderr.splitlines() == [f"note: not heeded: {line}"]


# --- classes ---------------------------------------------------------------------------------------------------------


def test_a_class_that_is_not_among_the_manifests_is_an_error_for_pods_too() -> None:
    text = dump(node("n"), pod("p", priorityClassName="importnat"))
    result = ran("-f", str(NODES), "-f", "-", stdin=text)
    line = text[: text.index("importnat")].count("\n") + 1
    assert (result.exit_code, result.stdout) == (1, "")
    path = "items[1].spec.priorityClassName"
    assert result.stderr.splitlines() == [
        f'<stdin>:{line}: error: Pod default/p: {path}: no PriorityClass is called "importnat"',
        "  hint: did you mean important?",
        "nothing is placed: 1 error",
    ]


def test_a_class_is_not_needed_where_its_number_is_known_or_nothing_is_to_be_placed() -> None:
    ranked = {**gang("g", 1, priorityClassName="gone"), "status": {"priority": 5, "preemptionPriority": 5}}
    ended = {**pod("ended", priorityClassName="gone"), "status": {"phase": "Succeeded"}}
    system = pod("system", priorityClassName="system-node-critical")
    placements, notes = seen(
        node("n"), ranked, ended, system, pod("p", priorityClassName="gone", priority=7), pod("g-0", gang="g")
    )
    assert [each["for"]["name"] for each in placements] == ["default/system", "default/p", "default/g/workers"]
    assert notes == []


# --- what a cluster prints -------------------------------------------------------------------------------------------

STORED: dict[str, Any] = {
    "uid": "4cf5f3ba", "resourceVersion": "12", "generation": 1, "creationTimestamp": "2026-11-01T10:00:00Z",
    "managedFields": [{"manager": "kubectl", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1",
                       "fieldsV1": {"f:spec": {"f:containers": {}}}, "time": "2026-11-01T10:00:00Z"}],
    "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "u", "controller": True}],
}  # fmt: skip


def stored(item: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {**item, "metadata": {**item["metadata"], **STORED}, **more}


def test_kinds_that_take_no_part_are_counted_once() -> None:
    other = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": {"ports": []}}
    deployment = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}}
    wrong = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "C!"}, "dat": {}}
    placements, notes = seen(node("n"), other, deployment, other, wrong, pod("p"))
    assert placements[0]["nodes"] == {"default/p": "n"}
    assert notes == ["note: kinds that take no part: 1 ConfigMap, 1 Deployment, 2 Service"]


def test_a_kind_that_takes_part_in_another_version_is_an_error() -> None:
    result = ran("-f", "-", stdin=dump({**pod("p"), "apiVersion": "v2"}))
    assert result.exit_code == 1
    assert '"v2" has no kind Pod here' in result.stderr


def test_fields_that_are_younger_than_we_are_count_once_in_what_a_server_stored_and_are_errors_elsewhere() -> None:
    young = [stored(pod(f"p{n}", newField={"a": 1}), status={"phase": "Pending", "newer": [1]}) for n in range(3)]
    placements, notes = seen(node("n"), *young)
    assert len(placements) == 3
    assert notes == [
        "note: field that is not known and not looked at: Pod spec.newField (3 objects)",
        "note: field that is not known and not looked at: Pod status.newer (3 objects)",
    ]
    written = ran("-f", "-", stdin=dump(node("n"), pod("p", nodeSelctor={"a": "b"})))
    assert written.exit_code == 1
    assert "did you mean nodeSelector?" in written.stderr


def test_pods_on_nodes_that_are_not_there_are_told_once() -> None:
    away = [stored(pod(f"p{n}", nodeName=f"m{n % 2}"), status={"phase": "Running"}) for n in range(3)]
    placements, notes = seen(node("n"), *away, pod("q"))
    assert placements[0]["nodes"] == {"default/q": "n"}
    assert notes == ["note: 3 pods are on nodes not in these manifests: m0, m1"]
    assert seen(node("n"), away[0])[1] == ["note: 1 pod is on a node not in these manifests: m0"]


def test_without_nodes_that_is_said() -> None:
    (found,), notes = seen(pod("p"))
    assert found["outcome"] == "waits"
    assert notes == ["note: there are no Nodes in these manifests"]


def test_a_list_that_is_larger_than_any_document_is_placed() -> None:
    """Also a list whose items have no kind, as the API itself answers."""
    wide = {"annotations": {"a": "x" * 4000}}
    items = [stored(pod(f"p{n}", nodeName="n"), status={"phase": "Running"}) for n in range(900)]
    for each in items:
        each["metadata"].update(wide)
        del each["apiVersion"], each["kind"]
    large = json.dumps({"apiVersion": "v1", "kind": "PodList", "metadata": {"resourceVersion": "7"}, "items": items})
    assert len(large) > 3 * 2**20
    rest = json.dumps(
        {"apiVersion": "v1", "kind": "List", "items": [node("n", cpu="1", pods="901"), pod("q"), pod("r")]}
    )
    result = ran("-f", "-", "-o", "json", stdin=large + "\n" + rest)
    assert result.exit_code == 0, result.stderr
    outcomes = [(each["for"]["name"], each["outcome"]) for each in json.loads(result.stdout)["placements"]]
    assert outcomes == [("default/q", "fits"), ("default/r", "waits")], "901 pods have room"


@pytest.mark.parametrize(
    "text", ["", dump(), "{}", "[]", "--- \n---\n", dump()[:-20], "\0", "apiVersion: v1\nkind: PodList\n"]
)
def test_odd_files_are_answered(text: str) -> None:
    result = ran("-f", "-", stdin=text)
    assert result.exit_code in (0, 1)
    assert result.exception is None or isinstance(result.exception, SystemExit)
    assert result.stderr
