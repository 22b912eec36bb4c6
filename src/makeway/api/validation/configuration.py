"""Rules for the configuration file (api 9, 13.7). An error in it stops the process at start."""

from __future__ import annotations

from collections.abc import Iterator

from makeway.api.forms import VALUE_HINT, is_label_value
from makeway.api.gates import check_gates
from makeway.api.names import NAMESPACE_LABEL
from makeway.api.objects.configuration import INCREMENTAL, Configuration, MakewaySettings, WaitForPodsReady
from makeway.api.objects.meta import LabelSelector
from makeway.api.problems import Problem, entry, warning
from makeway.api.quantity import Duration
from makeway.api.reading.structure import did_you_mean, listed, short, told
from makeway.api.validation.fields import check_selector

STRATEGIES = (
    ("LessThanOrEqualToFinalShare",),
    ("LessThanInitialShare",),
    ("LessThanOrEqualToFinalShare", "LessThanInitialShare"),
)
SERVED_FRAMEWORK = "batch/job"
FRAMEWORKS = (
    SERVED_FRAMEWORK, "kubeflow.org/mpijob", "ray.io/rayjob", "ray.io/raycluster", "ray.io/rayservice",
    "jobset.x-k8s.io/jobset", "kubeflow.org/paddlejob", "kubeflow.org/pytorchjob", "kubeflow.org/tfjob",
    "kubeflow.org/xgboostjob", "kubeflow.org/jaxjob", "trainer.kubeflow.org/trainjob",
    "workload.codeflare.dev/appwrapper", "pod", "deployment", "statefulset",
    "leaderworkerset.x-k8s.io/leaderworkerset", "sparkoperator.k8s.io/sparkapplication",
)  # fmt: skip


def check_configuration(configuration: Configuration) -> Iterator[Problem]:
    yield from _check_namespaces(configuration)
    sharing = configuration.fair_sharing
    if sharing is not None and sharing.preemption_strategies not in STRATEGIES:
        written = "" if not sharing.preemption_strategies else listed(sharing.preemption_strategies)
        message = f"[{written}] is not supported; allowed: " + " or ".join(
            f"[{', '.join(strategy)}]" for strategy in STRATEGIES
        )
        yield Problem("fairSharing.preemptionStrategies", message, cause="NotSupported")
    if configuration.wait_for_pods_ready is not None:
        yield from _check_pods_ready(configuration.wait_for_pods_ready)
    yield from _check_integrations(configuration)
    yield from _check_multikueue(configuration)
    yield from _check_resources(configuration)
    if configuration.object_retention_policies is not None:
        workloads = configuration.object_retention_policies.workloads
        path = "objectRetentionPolicies.workloads"
        yield from _at_least_zero(workloads.after_finished, f"{path}.afterFinished")
        yield from _at_least_zero(workloads.after_deactivated_by_kueue, f"{path}.afterDeactivatedByKueue")
    yield from check_gates(configuration.feature_gates, "featureGates")
    yield from _check_settings(configuration.makeway)


def _check_namespaces(configuration: Configuration) -> Iterator[Problem]:
    selector = configuration.managed_jobs_namespace_selector
    if selector is None:
        return
    path = "managedJobsNamespaceSelector"
    yield from check_selector(selector, path)
    for name in ("kube-system", configuration.namespace):
        if _matches_name(selector, name):
            hint = f"add to matchExpressions {{key: {NAMESPACE_LABEL}, operator: NotIn, values: [{short(name)}]}}"
            yield Problem(path, f"must not match the namespace {short(name)}", hint)


def _matches_name(selector: LabelSelector, name: str) -> bool:
    """Whether the selector matches a namespace that has no label but its name."""
    labels = {NAMESPACE_LABEL: name}
    if any(labels.get(key) != value for key, value in selector.match_labels.items()):
        return False
    for expression in selector.match_expressions:
        has = expression.key in labels
        inside = labels.get(expression.key) in expression.values
        if not {"In": has and inside, "NotIn": not inside, "Exists": has, "DoesNotExist": not has}[expression.operator]:
            return False
    return True


def _at_least_zero(value: Duration | None, path: str) -> Iterator[Problem]:
    if value is not None and value.nanos < 0:
        yield Problem(path, f"{value.short()} is negative")


def _above_zero(value: Duration, path: str) -> Iterator[Problem]:
    if value.nanos <= 0:
        yield Problem(path, f"{value.short()} is not above 0")


def _check_pods_ready(block: WaitForPodsReady) -> Iterator[Problem]:
    yield from _above_zero(block.timeout, "waitForPodsReady.timeout")
    yield from _at_least_zero(block.recovery_timeout, "waitForPodsReady.recoveryTimeout")


def _check_integrations(configuration: Configuration) -> Iterator[Problem]:
    for i, name in enumerate(configuration.integrations.frameworks):
        path = f"integrations.frameworks[{i}]"
        if name not in FRAMEWORKS:
            message = f"{told(name)} is not a known framework"
            yield Problem(path, message, did_you_mean(name, FRAMEWORKS), cause="NotSupported")
        elif name != SERVED_FRAMEWORK:
            message = f"{name} is not part of makeway: its jobs are left alone"
            yield warning(path, message, "only batch/job is managed")
    for i, name in enumerate(configuration.integrations.external_frameworks):
        if name.count(".") < 2 or not all(name.split(".", 2)):
            path = f"integrations.externalFrameworks[{i}]"
            yield Problem(path, f"{told(name)} is not Kind.version.group", "for example Foo.v1.example.com")


def _check_multikueue(configuration: Configuration) -> Iterator[Problem]:
    block = configuration.multi_kueue
    yield from _at_least_zero(block.gc_interval, "multiKueue.gcInterval")
    yield from _at_least_zero(block.worker_lost_timeout, "multiKueue.workerLostTimeout")
    yield from _at_least_zero(block.single_cluster_preemption_timeout, "multiKueue.singleClusterPreemptionTimeout")
    if not block.origin:
        yield Problem("multiKueue.origin", "must not be empty", "remove it for the default, multikueue")
    elif not is_label_value(block.origin):
        yield Problem("multiKueue.origin", f"{told(block.origin)} is not a label value", VALUE_HINT)
    if block.incremental_dispatcher_config is not None and block.dispatcher_name != INCREMENTAL:
        message = f"not allowed while dispatcherName is {short(block.dispatcher_name)}"
        hint = f"set dispatcherName: {INCREMENTAL}, or remove this block"
        yield Problem("multiKueue.incrementalDispatcherConfig", message, hint)


def _check_resources(configuration: Configuration) -> Iterator[Problem]:
    block = configuration.resources
    if block.quota_check_strategy == "IgnoreUndeclared" and block.exclude_resource_prefixes:
        message = "IgnoreUndeclared does not go together with excludeResourcePrefixes"
        yield Problem("resources.quotaCheckStrategy", message, "keep one of the two")


def _check_settings(settings: MakewaySettings) -> Iterator[Problem]:
    yield from _above_zero(settings.claim_timeout, "makeway.claimTimeout")
    yield from _at_least_zero(settings.wake_batch_interval, "makeway.wakeBatchInterval")
    yield from _at_least_zero(settings.status_write_interval, "makeway.statusWriteInterval")
    yield from _at_least_zero(settings.option_min_stay, "makeway.optionMinStay")
    yield from _above_zero(settings.option_evaluation_timeout, "makeway.optionEvaluationTimeout")
    yield from _above_zero(settings.rounds_end_after, "makeway.roundsEndAfter")
    yield from _above_zero(settings.journal.max_age, "makeway.journal.maxAge")
    yield from _above_zero(settings.events.ttl, "makeway.events.ttl")
    if settings.journal.max_size.nano <= 0:
        yield Problem("makeway.journal.maxSize", f"{settings.journal.max_size} is not above 0")
    for image, command in settings.images.items():
        if not command or not command[0]:
            yield Problem(
                entry("makeway.images", image),
                "must have at least 1 word",
                "write the command to run, for example [sh, -c]",
            )
