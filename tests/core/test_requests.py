"""What one pod asks for (S-1.4 to 1.7)."""

from __future__ import annotations

import pytest

from makeway.api.pod_request import ContainerRequest, PodRequest, pod_request
from makeway.core.amounts import LEAST, MOST
from makeway.core.policy import ResourcePolicy, Transformation
from makeway.core.requests import SummedLimits, adjusted, counted, summarised, units, violation

NANO = 10**9


def cpu(cores: float) -> dict[str, int]:
    return {"cpu": round(cores * NANO)}


def one(cores: float, *, limit: float | None = None, restarts: bool = False) -> ContainerRequest:
    return ContainerRequest(cpu(cores), {} if limit is None else cpu(limit), restarts)


UNITS = {
    "S-1.1 cpu in thousandths, away from zero": (100_500_000, "cpu", 101),
    "S-1.1 a device and a half is two": (1_500_000_000, "nvidia.com/gpu", 2),
    "S-1.1 memory in bytes": (2**30 * NANO, "memory", 2**30),
    "S-1.1 below zero too it is away from zero": (-1_500_000_000, "nvidia.com/gpu", -2),
    "S-1.2 a request stops at 64 bits": (10**40, "memory", MOST),
    "P21 and at their lower end": (-(10**40), "memory", LEAST),
}


@pytest.mark.parametrize(("nano", "resource", "whole"), UNITS.values(), ids=UNITS)
def test_units(nano: int, resource: str, whole: int) -> None:
    assert units(nano, resource) == whole


PODS = {
    "S-1.12 the one init container needs more than both containers": (
        PodRequest(containers=[one(0.3), one(0.5)], init_containers=[one(1)]),
        1.0,
    ),
    "S-1.4 containers add up": (PodRequest(containers=[one(1), one(2)]), 3.0),
    "S-1.4 an init container that keeps running counts beside them": (
        PodRequest(containers=[one(1)], init_containers=[one(2, restarts=True)]),
        3.0,
    ),
    "S-1.4 an init container runs beside those listed before it": (
        PodRequest(containers=[one(1)], init_containers=[one(2, restarts=True), one(3), one(1, restarts=True)]),
        5.0,
    ),
    "S-1.4 pod-level requests replace the sum": (PodRequest(containers=[one(1)], whole=one(7)), 7.0),
    "S-1.4 overhead comes on top": (PodRequest(containers=[one(1)], whole=one(7), overhead=cpu(0.5)), 7.5),
}


@pytest.mark.parametrize(("pod", "cores"), PODS.values(), ids=PODS)
def test_pod_request(pod: PodRequest, cores: float) -> None:
    assert pod_request(pod) == cpu(cores)


def test_resources_that_only_an_init_container_asks_for_count() -> None:
    pod = PodRequest(containers=[one(1)], init_containers=[ContainerRequest({"memory": 5})])
    assert pod_request(pod) == {"cpu": NANO, "memory": 5}


def test_S_1_5_several_limit_ranges_are_summarised() -> None:
    first = SummedLimits(default=cpu(1), most=cpu(4), least=cpu(1))
    second = SummedLimits(default=cpu(2), default_request={"memory": 1}, most=cpu(3), least=cpu(2))
    found = summarised([first, second])
    assert found == SummedLimits(default=cpu(1), default_request={"memory": 1}, most=cpu(3), least=cpu(2))


NO_BOUNDS = SummedLimits()
DEFAULTS = {
    "S-1.5.2 a missing request is the namespace's": (ContainerRequest(), SummedLimits(default_request=cpu(2)), 2.0),
    "S-1.5.2 a written request stays": (one(1), SummedLimits(default_request=cpu(2)), 1.0),
    "S-1.5.3 a missing request is the limit": (ContainerRequest({}, cpu(3)), NO_BOUNDS, 3.0),
    "S-1.5.3 also a limit that the namespace gave": (ContainerRequest(), SummedLimits(default=cpu(4)), 4.0),
}


@pytest.mark.parametrize(("container", "bounds", "cores"), DEFAULTS.values(), ids=DEFAULTS)
def test_defaults(container: ContainerRequest, bounds: SummedLimits, cores: float) -> None:
    pod = adjusted(PodRequest(containers=[container]), container=bounds, whole=NO_BOUNDS, runtime_overhead={})
    assert pod_request(pod) == cpu(cores)


def test_S_1_5_pod_level_defaults_apply_to_pod_level_resources_only() -> None:
    bounds = SummedLimits(default_request={"memory": 8})
    bare = adjusted(PodRequest(containers=[one(1)]), container=NO_BOUNDS, whole=bounds, runtime_overhead={})
    assert pod_request(bare) == cpu(1)
    written = adjusted(
        PodRequest(containers=[one(1)], whole=one(2)), container=NO_BOUNDS, whole=bounds, runtime_overhead=cpu(1)
    )
    assert pod_request(written) == {**cpu(3), "memory": 8}


def test_S_1_5_1_the_runtime_classes_overhead_counts_unless_there_is_one() -> None:
    for own, cores in ((0.0, 2.0), (5.0, 6.0)):
        pod = PodRequest(containers=[one(1)], overhead=cpu(own) if own else {})
        made = adjusted(pod, container=NO_BOUNDS, whole=NO_BOUNDS, runtime_overhead=cpu(1))
        assert pod_request(made) == cpu(cores)


VIOLATIONS = {
    "nothing is wrong": (PodRequest(containers=[one(1, limit=1)]), NO_BOUNDS, NO_BOUNDS, ""),
    "a request above its limit": (PodRequest(containers=[one(2, limit=1)]), NO_BOUNDS, NO_BOUNDS, "above its limit"),
    "an init container's too": (PodRequest(init_containers=[one(2, limit=1)]), NO_BOUNDS, NO_BOUNDS, "above its limit"),
    "a pod-level one too": (PodRequest(whole=one(2, limit=1)), NO_BOUNDS, NO_BOUNDS, "above its limit"),
    "a limit above the namespace's maximum": (
        PodRequest(containers=[one(1, limit=5)]), SummedLimits(most=cpu(4)),
        NO_BOUNDS, "request for cpu is above the maximum",
    ),
    "a request below its minimum": (
        PodRequest(containers=[one(1, limit=5)]), SummedLimits(least=cpu(2)),
        NO_BOUNDS, "request for cpu is below the minimum",
    ),
    "what is not asked for breaks no bound": (
        PodRequest(containers=[ContainerRequest()]), SummedLimits(least=cpu(2)), NO_BOUNDS, ""
    ),
    "the pod as a whole is above the maximum": (
        PodRequest(containers=[one(3), one(3)]), NO_BOUNDS, SummedLimits(most=cpu(5)), "pod's request for cpu is above",
    ),
    "the pod as a whole is below the minimum": (
        PodRequest(containers=[one(1)]), NO_BOUNDS, SummedLimits(least=cpu(2)), "pod's request for cpu is below",
    ),
    "a whole that lacks the resource is below nothing": (
        PodRequest(), NO_BOUNDS, SummedLimits(least=cpu(2), most=cpu(3)), ""
    ),
}  # fmt: skip


@pytest.mark.parametrize(("pod", "container", "whole", "words"), VIOLATIONS.values(), ids=VIOLATIONS)
def test_violations(pod: PodRequest, container: SummedLimits, whole: SummedLimits, words: str) -> None:
    found = violation(pod, container=container, whole=whole)
    assert words in found
    assert bool(words) == bool(found)


GPU_HOURS = Transformation(input="gpu", outputs_nano=(("credits", 3 * NANO),))
COUNTED = {
    "S-1.6 what is excluded does not count": (
        {"cpu": NANO, "example.com/a": NANO},
        ResourcePolicy(excluded_prefixes=("example.com/",)),
        {"cpu": 1000},
    ),
    "S-1.6 Retain keeps the input": (
        {"gpu": 2 * NANO},
        ResourcePolicy(transformations=(GPU_HOURS,)),
        {"gpu": 2, "credits": 6},
    ),
    "S-1.6 Replace drops it": (
        {"gpu": 2 * NANO, "credits": NANO},
        ResourcePolicy(
            transformations=(Transformation(input="gpu", replaces=True, outputs_nano=(("credits", 3 * NANO),)),)
        ),
        {"credits": 7},
    ),
    "S-1.6 an input nobody asks for makes nothing": (
        {"cpu": NANO},
        ResourcePolicy(transformations=(GPU_HOURS,)),
        {"cpu": 1000},
    ),
    "S-1.6 multiplied by another resource": (
        {"gpu": 2 * NANO, "slices": 5 * NANO},
        ResourcePolicy(
            transformations=(Transformation(input="gpu", multiply_by="slices", outputs_nano=(("units", NANO),)),)
        ),
        {"gpu": 2, "slices": 5, "units": 10},
    ),
    "S-1.6 multiplied by one that is not asked for": (
        {"gpu": 2 * NANO},
        ResourcePolicy(
            transformations=(Transformation(input="gpu", multiply_by="slices", outputs_nano=(("units", NANO),)),)
        ),
        {"gpu": 2, "units": 2},
    ),
    "P21 what would be made below zero is nothing": (
        {"gpu": NANO},
        ResourcePolicy(transformations=(Transformation(input="gpu", outputs_nano=(("credits", -NANO),)),)),
        {"gpu": 1, "credits": 0},
    ),
    "P21 S-1.7 a negative request is nothing": ({"cpu": -NANO}, ResourcePolicy(), {"cpu": 0}),
    "P21 a huge one stops at 64 bits": ({"memory": 10**40}, ResourcePolicy(), {"memory": MOST}),
}


@pytest.mark.parametrize(("request_", "resources", "total"), COUNTED.values(), ids=COUNTED)
def test_counted(request_: dict[str, int], resources: ResourcePolicy, total: dict[str, int]) -> None:
    assert counted(request_, resources) == total
