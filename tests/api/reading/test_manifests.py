"""Sets of manifests: documents read one by one, then checked against each other."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Mapping
from types import MappingProxyType

import pytest

from makeway.api.reading.manifests import Finding, findings, load
from makeway.api.reading.together import check_together

KUEUE = "apiVersion: kueue.x-k8s.io/v1beta2"


def dedent(text: str) -> str:
    return textwrap.dedent(text).lstrip("\n")


def checked(*texts: str) -> list[Finding]:
    """What is found in files a.yaml, b.yaml, … that are applied together."""
    manifests = [each for i, text in enumerate(texts) for each in load(f"{'abcdef'[i]}.yaml", dedent(text).encode())]
    check_together(manifests)
    return findings(manifests)


def told(*texts: str) -> list[tuple[str, str, str]]:
    return [(found.path, found.message, found.hint) for found in checked(*texts)]


def documents(*parts: str) -> str:
    return "---\n".join(dedent(part) for part in parts)


def flavor(name: str = "default", topology: str = "") -> str:
    spec = f"spec: {{nodeLabels: {{a: b}}, topologyName: {topology}}}\n" if topology else ""
    return f"{KUEUE}\nkind: ResourceFlavor\nmetadata: {{name: {name}}}\n{spec}"


def quota(cpu: object, limits: Mapping[str, int]) -> str:
    more = "".join(f", {name}: {value}" for name, value in limits.items())
    return f"{{name: cpu, nominalQuota: {cpu}{more}}}"


def cluster_queue(
    name: str = "team",
    cpu: object = 8,
    flavors: tuple[str, ...] = ("default",),
    more: str = "",
    limits: Mapping[str, int] = MappingProxyType({}),
) -> str:
    listed = ", ".join(f"{{name: {each}, resources: [{quota(cpu, limits)}]}}" for each in flavors)
    group = f"{{coveredResources: [cpu], flavors: [{listed}]}}"
    lines = f"  namespaceSelector: {{}}\n  resourceGroups: [{group}]\n" + more
    return f"{KUEUE}\nkind: ClusterQueue\nmetadata: {{name: {name}}}\nspec:\n{lines}"


def local_queue(name: str = "main", namespace: str = "default", to: str = "team") -> str:
    meta = f"{{name: {name}, namespace: {namespace}}}"
    return f"{KUEUE}\nkind: LocalQueue\nmetadata: {meta}\nspec: {{clusterQueue: {to}}}\n"


def cohort(name: str, parent: str = "") -> str:
    spec = f"spec: {{parentName: {parent}}}\n" if parent else ""
    return f"{KUEUE}\nkind: Cohort\nmetadata: {{name: {name}}}\n{spec}"


def job(
    queue: str = "main", namespace: str = "default", cpu: object = 1, pods: int = 1, *, labels: str = "", **more: str
) -> str:
    requests = more.get("requests", f"{{cpu: {cpu}}}")
    return (
        "apiVersion: batch/v1\nkind: Job\n"
        f"metadata:\n  name: work\n  namespace: {namespace}\n  annotations: {{{more.get('annotations', '')}}}\n"
        f"  labels:\n    kueue.x-k8s.io/queue-name: {queue}\n{labels}"
        f"spec:\n  parallelism: {pods}\n  template:\n    spec:\n      restartPolicy: Never\n"
        f"      {more.get('pod', 'nodeName: ' + repr(''))}\n"
        f"      containers:\n      - {{name: c, image: i, resources: {{requests: {requests}}}}}\n"
    )


def workload(queue: str = "main", pod_sets: str = "", more: str = "") -> str:
    sets = pod_sets or "[{template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}]"
    meta = "{name: w, namespace: default}"
    return f"{KUEUE}\nkind: Workload\nmetadata: {meta}\nspec:\n  queueName: {queue}\n  podSets: {sets}\n{more}"


SOUND = documents(flavor(), cluster_queue(), local_queue())
ASKED_AT = "spec.template.spec.containers[0].resources.requests[cpu]"


# --- one file -------------------------------------------------------------------------------------------------------


def test_a_sound_set_has_no_problems() -> None:
    assert checked(documents(SOUND, job(), workload())) == []


def test_a_finding_says_where_it_is() -> None:
    (found,) = checked(documents(flavor(), flavor("other").replace("metadata", "spec: {nodeLabel: {}}\nmetadata")))
    assert (found.file, found.line, found.document, found.kind, found.name) == (
        "a.yaml", 7, 2, "ResourceFlavor", "other",
    )  # fmt: skip
    assert (found.path, found.severity, found.hint) == ("spec.nodeLabel", "error", "did you mean nodeLabels?")


def test_a_broken_document_leaves_the_others_unharmed() -> None:
    manifests = load("a.yaml", documents(flavor(), "a: [\n", flavor("other")).encode())
    assert [(each.document, each.name, len(each.problems)) for each in manifests] == [
        (1, "default", 0), (2, "", 1), (3, "other", 0),
    ]  # fmt: skip
    assert manifests[1].kind is None
    assert manifests[1].value is None


@pytest.mark.parametrize(
    ("metadata", "name"),
    [
        ("{name: a}", "a"),
        ("{name: a, namespace: ns}", "ns/a"),
        ("{generateName: a-, namespace: ns}", "ns/a-*"),
        ("{generateName: a-}", "a-*"),
        ("{}", ""),
        ("[a]", ""),
        ("{name: 5}", ""),
    ],
)
def test_an_object_is_called_as_it_is_written(metadata: str, name: str) -> None:
    (manifest,) = load("a.yaml", f"{KUEUE}\nkind: LocalQueue\nmetadata: {metadata}\n".encode())
    assert manifest.name == name


def test_a_kind_that_is_not_served_is_still_named() -> None:
    (found,) = checked(f"{KUEUE}\nkind: Topology\nmetadata: {{name: t}}\n")
    assert (found.kind, found.name, found.path) == ("Topology", "t", "kind")
    assert "topology-aware scheduling is not part of makeway" in found.hint


def test_the_items_of_a_list_are_objects_of_their_own() -> None:
    items = [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in ("a", "b")]
    items[1]["spce"] = {}
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": items}, indent=1)
    manifests = load("a.json", text.encode())
    assert [(each.document, each.name) for each in manifests] == [(1, "a"), (1, "b")]
    (found,) = findings(manifests)
    assert (found.line, found.path) == (text[: text.index('"spce"')].count("\n") + 1, "items[1].spce")


def test_the_items_of_a_list_of_one_kind_need_not_say_what_they_are() -> None:
    text = f"""
        {KUEUE}
        kind: ResourceFlavorList
        items:
        - metadata: {{name: a}}
        - metadata: {{name: b}}
          spec: {{nodeLabels: [x]}}
        """
    assert told(text) == [("items[1].spec.nodeLabels", "expected a mapping, got a list", "")]


@pytest.mark.parametrize(
    ("text", "path", "message"),
    [
        ("items: 5", "items", "expected a list, got 5"),
        ("item: []", "item", "unknown field; known here: apiVersion, items, kind, metadata"),
        ("items: [{apiVersion: v1, kind: List, items: {}}]", "items[0].items", "expected a list, got a mapping"),
        ("items: [5]", "items[0]", "expected a mapping with apiVersion and kind, got 5"),
    ],
)
def test_a_list_that_is_wrong_is_told_at_its_place(text: str, path: str, message: str) -> None:
    assert [found[:2] for found in told(f"apiVersion: v1\nkind: List\n{text}\n")] == [(path, message)]


def test_a_key_set_twice_belongs_to_the_item_that_has_it() -> None:
    text = """
        apiVersion: v1
        kind: List
        items:
        - {apiVersion: v1, kind: Namespace, metadata: {name: a}}
        - {apiVersion: v1, kind: Namespace, metadata: {name: b, name: c}}
        """
    (found,) = checked(text)
    assert (found.name, found.path) == ("c", "items[1].metadata.name")


QUOTA = "spec.resourceGroups[0].flavors[0].resources[0]"
CONFIG = "withinClusterQueueConfig: {minAdmitDuration: 30s}"


@pytest.mark.parametrize(
    ("preemption", "name"),
    [
        ("reclaimWithinCohort: No, borrowWithinCohort: {policy: LowerPriority}", "reclaimWithinCohort"),
        ("withinClusterQueue: Lower, withinClusterQueueConfig: {}", "withinClusterQueue"),
        (f"withinClusterQueue: LowerOrNewerEqualPriority, {CONFIG}, {CONFIG}", "withinClusterQueueConfig"),
    ],
)
def test_one_mistake_is_told_once(preemption: str, name: str) -> None:
    queue = cluster_queue(more=f"  preemption: {{{preemption}}}\n")
    assert [found[0] for found in told(documents(flavor(), queue))] == [f"spec.preemption.{name}"]


def test_a_queue_with_an_error_is_not_measured() -> None:
    text = documents(flavor(), cluster_queue(cpu=-1), local_queue(), job())
    assert [found[0] for found in told(text)] == [f"{QUOTA}.nominalQuota"]


def test_independent_mistakes_are_told_together() -> None:
    text = documents(flavor(), cluster_queue(cpu=-1, limits={"borrowingLimit": 5}))
    assert [found[0] for found in told(text)] == [f"{QUOTA}.nominalQuota", f"{QUOTA}.borrowingLimit"]


def test_paths_of_an_older_version_are_spelled_as_the_user_wrote_them() -> None:
    text = cluster_queue(more="  cohort: Lab\n").replace("v1beta2", "v1beta1")
    assert told(documents(flavor(), text))[0][0] == "spec.cohort"


# --- names ----------------------------------------------------------------------------------------------------------


def test_two_objects_of_one_name_are_an_error_that_says_where_the_first_is() -> None:
    found = checked(flavor(), documents(flavor("other"), flavor()))
    assert [(each.file, each.line, each.severity, each.path, each.message, each.hint) for each in found] == [(
        "b.yaml", 7, "error", "metadata.name", "ResourceFlavor default is defined already at a.yaml:1",
        "keep one of them, or give this one another name",
    )]  # fmt: skip


def test_no_namespace_is_the_default_namespace() -> None:
    twice = documents(local_queue(), local_queue().replace(", namespace: default", ""))
    assert told(documents(flavor(), cluster_queue(), twice)) == [(
        "metadata.name", "LocalQueue main is defined already at a.yaml:12",
        "keep one of them, or give this one another name",
    )]  # fmt: skip
    assert told(documents(SOUND, job().replace("  namespace: default\n", ""))) == []


def test_one_name_in_two_namespaces_or_kinds_is_fine() -> None:
    assert told(documents(SOUND, local_queue(namespace="other"), cohort("team"))) == []


def test_objects_whose_names_the_server_makes_are_never_the_same() -> None:
    made = job().replace("name: work", "generateName: work-")
    assert told(documents(SOUND, made, made)) == []


# --- references -----------------------------------------------------------------------------------------------------

ABSENT = "unless it exists already where you apply this"


def test_a_flavor_that_is_absent() -> None:
    assert told(documents(flavor("defaults"), cluster_queue())) == [(
        "spec.resourceGroups[0].flavors[0].name",
        f"ResourceFlavor default is not in these manifests: the queue stays inactive (FlavorNotFound), {ABSENT}",
        "did you mean defaults?",
    )]  # fmt: skip


def test_a_flavor_with_a_topology() -> None:
    assert told(documents(flavor(topology="rack"), cluster_queue()))[-1] == (
        "spec.resourceGroups[0].flavors[0].name",
        "ResourceFlavor default names a topology, which makeway does not serve: "
        "the queue stays inactive (TopologyNotFound)",
        "remove topologyName from the flavor",
    )


def test_an_admission_check_that_is_absent() -> None:
    more = "  admissionChecksStrategy: {admissionChecks: [{name: audit}]}\n"
    assert told(documents(flavor(), cluster_queue(more=more))) == [(
        "spec.admissionChecksStrategy.admissionChecks[0].name",
        f"AdmissionCheck audit is not in these manifests: the queue stays inactive (AdmissionCheckNotFound), {ABSENT}",
        "add the AdmissionCheck, or correct the name",
    )]  # fmt: skip


def test_a_cluster_queue_that_is_absent() -> None:
    assert told(local_queue()) == [(
        "spec.clusterQueue",
        "ClusterQueue team is not in these manifests: "
        f"the workloads of this queue wait (ClusterQueueDoesNotExist), {ABSENT}",
        "add the ClusterQueue, or correct the name",
    )]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "namespace", "hint"),
    [
        ("mian", "default", "did you mean main?"),
        ("main", "team-a", "a LocalQueue main is in namespace default: set metadata.namespace to use it"),
        ("zzz", "default", "add the LocalQueue, or correct the name"),
    ],
)
def test_a_local_queue_that_is_absent(name: str, namespace: str, hint: str) -> None:
    assert told(documents(SOUND, job(name, namespace))) == [(
        "metadata.labels[kueue.x-k8s.io/queue-name]",
        f"LocalQueue {name} of namespace {namespace} is not in these manifests: the job waits, {ABSENT}", hint,
    )]  # fmt: skip


def test_a_workload_in_a_queue_that_is_absent_unless_it_is_finished() -> None:
    assert told(workload()) == [(
        "spec.queueName",
        f"LocalQueue main of namespace default is not in these manifests: the Workload waits, {ABSENT}",
        "add the LocalQueue, or correct the name",
    )]  # fmt: skip
    condition = "{type: Finished, status: 'True', reason: Succeeded, lastTransitionTime: 2026-01-31T12:00:00Z}"
    assert told(workload(more=f"status: {{conditions: [{condition}]}}\n")) == []
    assert told(job().replace("kueue.x-k8s.io/queue-name", "example.com/queue")) == []  # a job that is not ours


def test_a_priority_class_of_a_job_that_is_absent() -> None:
    text = job(labels="    kueue.x-k8s.io/priority-class: high\n")
    assert told(documents(SOUND, text)) == [(
        "metadata.labels[kueue.x-k8s.io/priority-class]",
        f"WorkloadPriorityClass high is not in these manifests: the job is not queued, {ABSENT}",
        "add the WorkloadPriorityClass, or correct the name",
    )]  # fmt: skip
    high = f"{KUEUE}\nkind: WorkloadPriorityClass\nmetadata: {{name: high}}\nvalue: 5\n"
    assert told(documents(SOUND, text, high)) == []


@pytest.mark.parametrize(
    ("group", "kind"), [("kueue.x-k8s.io", "WorkloadPriorityClass"), ("scheduling.k8s.io", "PriorityClass")]
)
def test_a_priority_class_of_a_workload_that_is_absent(group: str, kind: str) -> None:
    reference = f"{{group: {group}, kind: {kind}, name: high}}"
    text = workload().replace("spec:\n", f"spec:\n  priorityClassRef: {reference}\n  priority: 7\n", 1)
    assert told(documents(SOUND, text)) == [(
        "spec.priorityClassRef",
        f"{kind} high is not in these manifests: the Workload keeps the priority that is written here, 7, {ABSENT}",
        f"add the {kind}, or correct the name",
    )]  # fmt: skip
    assert told(documents(SOUND, text.replace("name: high", "name: system-node-critical"))) == []


def test_a_multikueue_check_without_its_config_and_a_config_without_its_cluster() -> None:
    check = f"""
        {KUEUE}
        kind: AdmissionCheck
        metadata: {{name: mk}}
        spec:
          controllerName: kueue.x-k8s.io/multikueue
          parameters: {{apiGroup: kueue.x-k8s.io, kind: MultiKueueConfig, name: mk}}
        """
    config = f"{KUEUE}\nkind: MultiKueueConfig\nmetadata: {{name: mk}}\nspec: {{clusters: [east]}}\n"
    assert told(check) == [(
        "spec.parameters.name",
        "MultiKueueConfig mk is not in these manifests: "
        f"the check stays inactive (BadConfig), and every ClusterQueue that uses it, {ABSENT}",
        "add the MultiKueueConfig, or correct the name",
    )]  # fmt: skip
    assert told(documents(check, config)) == [(
        "spec.clusters[0]",
        f"MultiKueueCluster east is not in these manifests: nothing is dispatched to it, {ABSENT}",
        "add the MultiKueueCluster, or correct the name",
    )]  # fmt: skip


# --- cohorts and namespaces -----------------------------------------------------------------------------------------


def test_a_cycle_of_cohorts_is_told_once_at_its_first_cohort() -> None:
    """`tail` hangs under the cycle and comes first; `b` is the first of the cycle itself."""
    found = checked(documents(cohort("tail", "c"), cohort("b", "a")), documents(cohort("a", "c"), cohort("c", "b")))
    assert [(each.file, each.name, each.severity, each.path, each.message, each.hint) for each in found] == [(
        "a.yaml", "b", "warning", "spec.parentName",
        "the parents form a cycle, b -> a -> c -> b: every ClusterQueue under it is disabled until it is removed",
        "remove parentName from one of them",
    )]  # fmt: skip


def test_a_cohort_under_itself_is_told_once() -> None:
    assert [found[0] for found in told(cohort("a", "a"))] == ["spec.parentName"]


def test_what_is_under_a_cycle_is_not_said_to_wait_for_quota() -> None:
    queue = cluster_queue(more="  cohortName: a\n")
    text = documents(flavor(), queue, local_queue(), cohort("a", "b"), cohort("b", "a"), job(cpu=99))
    assert [found[0] for found in told(text)] == ["spec.parentName"]


def test_a_queue_without_a_selector_admits_nothing() -> None:
    assert told(documents(flavor(), cluster_queue().replace("  namespaceSelector: {}\n", ""))) == [(
        "spec.namespaceSelector", "not set: the queue admits workloads of no namespace",
        "`namespaceSelector: {}` admits those of every namespace",
    )]  # fmt: skip


def namespace(name: str, labels: str = "{}") -> str:
    return f"apiVersion: v1\nkind: Namespace\nmetadata: {{name: {name}, labels: {labels}}}\n"


@pytest.mark.parametrize(
    ("selector", "matches"),
    [
        ("{}", True),
        ("{matchLabels: {team: a}}", True),
        ("{matchLabels: {team: b}}", False),
        ("{matchLabels: {kubernetes.io/metadata.name: default}}", True),
        ("{matchExpressions: [{key: team, operator: In, values: [a, b]}]}", True),
        ("{matchExpressions: [{key: team, operator: NotIn, values: [a]}]}", False),
        ("{matchExpressions: [{key: tier, operator: NotIn, values: [a]}]}", True),
        ("{matchExpressions: [{key: team, operator: Exists}]}", True),
        ("{matchExpressions: [{key: team, operator: DoesNotExist}]}", False),
    ],
)
def test_a_selector_is_held_against_the_namespaces_of_its_local_queues(selector: str, matches: bool) -> None:
    queue = cluster_queue().replace("namespaceSelector: {}", f"namespaceSelector: {selector}")
    expected = [(
        "spec.namespaceSelector",
        "matches no namespace that has a LocalQueue of this queue (default): their workloads wait",
        "correct the selector, or the labels of the Namespace",
    )]  # fmt: skip
    text = documents(flavor(), queue, local_queue(), namespace("default", "{team: a}"), namespace("b", "{team: b}"))
    assert told(text) == ([] if matches else expected)
    assert told(documents(flavor(), queue, local_queue(), local_queue("other", "elsewhere"))) == []


# --- quotas ---------------------------------------------------------------------------------------------------------


def test_a_queue_without_any_quota() -> None:
    assert told(documents(flavor(), cluster_queue(cpu=0))) == [(
        "spec.resourceGroups",
        "every nominalQuota is 0 and there is no cohort to borrow from: no request can ever fit",
        "give it quota, or set cohortName",
    )]  # fmt: skip
    assert told(documents(flavor(), cluster_queue(cpu=0, more="  cohortName: lab\n"))) == []


def test_a_resource_that_the_queue_does_not_cover() -> None:
    assert told(documents(SOUND, job(requests="{cpu: 1, nvidia.com/gpu: 2, memory: 0}"))) == [(
        "spec.template.spec.containers[0].resources.requests[nvidia.com/gpu]",
        "resource nvidia.com/gpu is not covered by ClusterQueue team: it will wait for ever",
        "add nvidia.com/gpu to a resource group of the queue, or remove the request",
    )]  # fmt: skip


TOO_MUCH = "and ClusterQueue team can never give more than 8: it will wait for ever"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (job(cpu=8), None),
        (job(cpu=9), f"1 pod asks for 9 cpu, {TOO_MUCH}"),
        (job(cpu="2500m", pods=4), f"4 pods ask for 10 cpu, {TOO_MUCH}"),
        (job(cpu=1, pods=20).replace("parallelism: 20", "parallelism: 20\n  completions: 8"), None),
        (job(pods=20, annotations="kueue.x-k8s.io/job-min-parallelism: '8'"), None),
        (job(pods=20, annotations="kueue.x-k8s.io/job-min-parallelism: '9'"), f"9 pods ask for 9 cpu, {TOO_MUCH}"),
        (job(cpu=8, pod="overhead: {cpu: 1}"), f"1 pod asks for 9 cpu, {TOO_MUCH}"),
        (job(cpu=99, pod="resources: {requests: {cpu: 3}}"), None),
    ],
)
def test_a_request_that_no_quota_can_ever_hold(text: str, message: str | None) -> None:
    expected = [] if message is None else [(ASKED_AT, message, "ask for less, or raise the quota")]
    assert told(documents(SOUND, text)) == expected


def containers(init: str, main: str = "{requests: {cpu: 3}}") -> str:
    inits = f"initContainers: [{init}]"
    return job(pod=inits).replace("resources: {requests: {cpu: 1}}", f"resources: {main}")


def init(cpu: int, policy: str = "") -> str:
    always = f", restartPolicy: {policy}" if policy else ""
    return f"{{name: i{cpu}, image: i, resources: {{requests: {{cpu: {cpu}}}}}{always}}}"


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        (containers(init(8)), 0),
        (containers(init(9)), 9),
        (containers(init(6, "Always")), 9),
        (containers(f"{init(5, 'Always')}, {init(4)}", "{requests: {cpu: 1}}"), 9),
        (containers(f"{init(8)}, {init(5, 'Always')}", "{requests: {cpu: 1}}"), 0),
        (containers(init(1), "{limits: {cpu: 9}}"), 9),
        (containers(init(1), "{limits: {cpu: 9}, requests: {cpu: 1}}"), 0),
    ],
)
def test_init_containers_and_limits_count_as_kubernetes_counts_them(text: str, asked: int) -> None:
    expected = [f"1 pod asks for {asked} cpu, {TOO_MUCH}"] if asked else []
    assert [found[1] for found in told(documents(SOUND, text))] == expected


def test_a_limit_is_no_request_where_a_limit_range_may_give_another() -> None:
    limits = "apiVersion: v1\nkind: LimitRange\nmetadata: {name: l, namespace: default}\nspec: {limits: []}\n"
    assert told(documents(SOUND, limits, containers(init(1), "{limits: {cpu: 9}}"))) == []


def test_a_configuration_that_changes_what_pods_ask_for_silences_the_guess() -> None:
    text = """
        apiVersion: config.kueue.x-k8s.io/v1beta2
        kind: Configuration
        resources: {excludeResourcePrefixes: [cpu]}
        """
    assert told(documents(SOUND, text, job(cpu=99))) == []


LAB = "  cohortName: lab\n"
MORE = "unless cohort lab has more where you apply this"


@pytest.mark.parametrize(
    ("own", "other", "cpu", "most"),
    [
        ({}, {}, 12, None),
        ({}, {}, 13, f"12: it will wait for ever, {MORE}"),
        ({}, {"lendingLimit": 1}, 9, None),
        ({}, {"lendingLimit": 1}, 10, f"9: it will wait for ever, {MORE}"),
        ({"borrowingLimit": 2}, {}, 11, "10: it will wait for ever"),
        ({"borrowingLimit": 9}, {}, 13, f"12: it will wait for ever, {MORE}"),
        ({"lendingLimit": 0}, {}, 12, None),
        ({}, {"lendingLimit": 0}, 9, f"8: it will wait for ever, {MORE}"),
    ],
)
def test_what_the_cohort_can_lend_counts(
    own: dict[str, int], other: dict[str, int], cpu: int, most: str | None
) -> None:
    """The other queue owns 4 cpu, in a cohort below the same root."""
    queues = documents(
        cluster_queue(more=LAB, limits=own), cluster_queue("other", 4, more="  cohortName: annex\n", limits=other)
    )
    text = documents(flavor(), queues, cohort("annex", "lab"), local_queue(), job(cpu=cpu))
    message = f"1 pod asks for {cpu} cpu, and ClusterQueue team can never give more than {most}"
    assert [found[1] for found in told(text)] == ([message] if most else [])


def test_members_of_a_cohort_may_have_all_that_it_does_not_lend() -> None:
    pool = cluster_queue("lab", 5, limits={"lendingLimit": 0}).replace("ClusterQueue", "Cohort")
    pool = pool.replace("namespaceSelector: {}", "parentName: root")
    assert told(documents(flavor(), cluster_queue(more=LAB), pool, local_queue(), job(cpu=13))) == []


def test_an_unlimited_quota_holds_everything() -> None:
    queue = cluster_queue(cpu="9223372036854775807")
    assert told(documents(flavor(), queue, local_queue(), job(cpu="9E", pods=2**31 - 1))) == []


def test_pods_are_counted_where_the_queue_covers_them() -> None:
    queue = cluster_queue().replace("[cpu]", "[pods]").replace("name: cpu", "name: pods")
    (found,) = told(documents(flavor(), queue, local_queue(), job(pods=9, requests="{}")))
    assert found[:2] == ("spec.template.spec", f"9 pods ask for 9 pods, {TOO_MUCH}")


def test_all_of_a_group_must_come_from_one_flavor() -> None:
    def resources(cpu: int, memory: int) -> str:
        return f"[{{name: cpu, nominalQuota: {cpu}}}, {{name: memory, nominalQuota: {memory}Gi}}]"

    queue = cluster_queue(flavors=("default", "big")).replace("[cpu]", "[cpu, memory]")
    for amounts in (resources(8, 1), resources(1, 8)):
        queue = queue.replace("[{name: cpu, nominalQuota: 8}]", amounts, 1)
    text = documents(flavor(), flavor("big"), queue, local_queue(), job(requests="{cpu: 4, memory: 4Gi}"))
    assert told(text) == [(
        ASKED_AT,
        "1 pod asks for 4 cpu and 4Gi memory, and no flavor of ClusterQueue team can ever give all of it: "
        "it will wait for ever",
        "ask for less, or raise the quota",
    )]  # fmt: skip


def test_a_pod_set_may_insist_on_fewer_pods_and_on_flavors() -> None:
    def sets(more: str) -> str:
        pod = "{spec: {restartPolicy: Never, containers: [{name: c, image: i, resources: {requests: {cpu: 1}}}]}}"
        return f"[{{count: 20, {more}, template: {pod}}}]"

    small = cluster_queue(flavors=("default", "small")).replace("nominalQuota: 8", "nominalQuota: 2", 1)
    rest = documents(flavor(), flavor("small"), small, local_queue())
    assert told(documents(rest, workload(pod_sets=sets("minCount: 8")))) == []
    (found,) = told(documents(rest, workload(pod_sets=sets("minCount: 8, allowedResourceFlavors: [default]"))))
    assert found[0] == "spec.podSets[0].template.spec.containers[0].resources.requests[cpu]"
    assert found[1] == "8 pods ask for 8 cpu, and ClusterQueue team can never give more than 2: it will wait for ever"


# --- all together ---------------------------------------------------------------------------------------------------


def test_ten_times_the_objects_do_not_cost_a_hundred_times_the_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only hints compare names with each other, and only for a limited number of names."""
    sought: list[str] = []

    def did_you_mean(name: str, known: list[str]) -> str:
        sought.append(name)
        return ""

    monkeypatch.setattr("makeway.api.reading.together.did_you_mean", did_you_mean)
    checked(documents(SOUND, *(job(f"missing-{i}").replace("work", f"work-{i}") for i in range(300))))
    assert len(sought) == 100
