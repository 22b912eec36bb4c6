"""The plan of a pod, from its fields: processes with words, variables, folders, probes and limits.

A field that processes of this machine cannot have gives a warning: images are not pulled, mount paths are not made,
users and capabilities are those of the account that runs makeway.

Promises: user values raise nothing but NotThere, where the pod has to wait for something; equal pods on equal machines
give equal plans.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from makeway.adapters.node.environment import POD_BYTES_MAX, NodePlace, NotThere, Sources, TooMuch, environment
from makeway.adapters.node.images import words_of
from makeway.adapters.node.supervision.processes import CONTAINER_MARK, POD_MARK
from makeway.adapters.node.supervision.records import SCRATCH, ContainerPlan, Handler, Http, PodPlan, ProbePlan, Role
from makeway.adapters.node.volumes import Folder, folders_of, volume_variable
from makeway.api.objects import pods as api
from makeway.api.objects.kubernetes import Pod, view

GPU = "nvidia.com/gpu"
LEAST_MEMORY = 1 << 20  # a process needs some memory to say that it has too little


@dataclass(frozen=True)
class NodeContext:
    """The surroundings that a pod gets from its machine."""

    place: NodePlace
    images: Mapping[str, Sequence[str]] = field(default_factory=dict)
    base: Mapping[str, str] = field(default_factory=dict)  # variables of every process
    gpus: Sequence[str] = ()  # all of the machine
    agent: str = ""  # the socket that supervisors call


@dataclass(frozen=True)
class PlannedPod:
    plan: PodPlan
    folders: tuple[Folder, ...]
    warnings: tuple[str, ...]


def planned(pod: Pod, folder: Path, machine: NodeContext, sources: Sources, devices: Sequence[str] = ()) -> PlannedPod:
    """Return the plan. ``devices``: as many GPUs as the pod asks for. Raises NotThere, with all that is missing."""
    spec = view(pod.spec, api.PodSpec)
    folders = folders_of(spec, pod.metadata.namespace, folder, sources)
    base = {
        **machine.base, "HOSTNAME": pod.metadata.name,
        **{volume_variable(name): str(each.path) for name, each in sorted(folders.items())},
    }  # fmt: skip
    left = list(devices)
    plans: list[ContainerPlan] = []
    missing: list[tuple[str, NotThere]] = []
    given_bytes = 0
    for role, container in _in_order(spec):
        count = gpus_of(container)
        own = list(devices[:count]) if role == "init" else left[:count]
        left = left if role == "init" else left[count:]
        given = {**base, **_gpu_marks(own, machine)}
        try:
            plans.append(_container(pod, spec, container, role, folder, given, machine, sources))
            given_bytes += sum(map(len, (*plans[-1].argv, *plans[-1].env, *plans[-1].env.values())))
            if given_bytes > POD_BYTES_MAX:
                raise TooMuch(f"variables and words of all containers together have more than {POD_BYTES_MAX} bytes")
        except TooMuch as error:  # containers after it are not checked
            missing.append((container.name, error))
            break
        except NotThere as error:
            missing.append((container.name, error))
    if missing:
        words = "; ".join(f"container {name}: {error}" for name, error in missing)
        raise NotThere(words, missing[0][1].reason)
    plan = PodPlan(
        uid=pod.metadata.uid, containers=tuple(plans), restart=spec.restart_policy,
        grace_s=max(0, spec.termination_grace_period_seconds), deadline_s=spec.active_deadline_seconds,
        agent=machine.agent, devices=tuple(devices),
    )  # fmt: skip
    return PlannedPod(plan, tuple(folders.values()), tuple(warnings_of(spec)))


def _in_order(spec: api.PodSpec) -> Iterator[tuple[Role, api.Container]]:
    for each in spec.init_containers:
        yield ("sidecar" if each.restart_policy == "Always" else "init"), each
    for each in spec.containers:
        yield "app", each


def _container(
    pod: Pod, spec: api.PodSpec, container: api.Container, role: Role, folder: Path, base: Mapping[str, str],
    machine: NodeContext, sources: Sources,
) -> ContainerPlan:  # fmt: skip
    given = environment(pod, spec, container, base=base, sources=sources, place=machine.place)
    given.put(POD_MARK, pod.metadata.uid)
    given.put(CONTAINER_MARK, container.name)
    words = words_of(container, machine.images)
    ports = {port.name: port.container_port for port in container.ports if port.name}
    return ContainerPlan(
        name=container.name,
        argv=tuple(map(given.word, words)),
        role=role,
        env=given.variables,
        folder=container.working_dir or str(folder / SCRATCH),
        memory_bytes=memory_of(container),
        startup=_probe(container.startup_probe, ports),
        readiness=_probe(container.readiness_probe, ports),
        liveness=_probe(container.liveness_probe, ports),
        pre_stop=_handler(container.lifecycle.pre_stop, ports),
        stop_signal=_signal(container.lifecycle.stop_signal),
    )


# --- devices and limits ----------------------------------------------------------------------------------------------


def gpus_of(container: api.Container) -> int:
    amount = container.resources.limits.get(GPU) or container.resources.requests.get(GPU)
    return 0 if amount is None else max(0, -(-amount.nano // 10**9))


def gpus_in(pod: Pod) -> int:
    """How many GPUs the pod has for itself; init containers use those of the others."""
    spec = view(pod.spec, api.PodSpec)
    return sum(gpus_of(each) for role, each in _in_order(spec) if role != "init")


def _gpu_marks(own: Sequence[str], machine: NodeContext) -> dict[str, str]:
    """Hide the GPUs of this machine from a pod that asked for none."""
    if not machine.gpus and not own:
        return {}
    return {"CUDA_VISIBLE_DEVICES": ",".join(own), "NVIDIA_VISIBLE_DEVICES": ",".join(own) or "void"}


def memory_of(container: api.Container) -> int | None:
    """The memory limit of each process; None if there is none that can be enforced: drivers of GPUs map more than they
    use.
    """
    limit = container.resources.limits.get("memory")
    if limit is None or gpus_of(container):
        return None
    return max(LEAST_MEMORY, limit.nano // 10**9)


# --- probes and hooks ------------------------------------------------------------------------------------------------


def _probe(probe: api.Probe | None, ports: Mapping[str, int]) -> ProbePlan | None:
    if probe is None:
        return None
    asks = api.LifecycleHandler(exec=probe.exec, http_get=probe.http_get, tcp_socket=probe.tcp_socket)
    handler = _handler(asks, ports)
    if handler is None:
        return None
    return ProbePlan(
        handler, delay_s=max(0, probe.initial_delay_seconds), timeout_s=max(1, probe.timeout_seconds),
        period_s=max(1, probe.period_seconds), successes=max(1, probe.success_threshold),
        failures=max(1, probe.failure_threshold), grace_s=probe.termination_grace_period_seconds,
    )  # fmt: skip


def _handler(handler: api.LifecycleHandler | None, ports: Mapping[str, int]) -> Handler | None:
    if handler is None:
        return None
    if handler.exec is not None and handler.exec.command:
        return Handler(command=handler.exec.command)
    if handler.http_get is not None:
        get = handler.http_get
        headers = {http_header.name: http_header.value for http_header in get.http_headers}
        host = get.host or "127.0.0.1"
        return Handler(http=Http(_port(get.port, ports), host, get.path or "/", get.scheme == "HTTPS", headers))
    if handler.tcp_socket is not None:
        return Handler(tcp=(handler.tcp_socket.host or "127.0.0.1", _port(handler.tcp_socket.port, ports)))
    if handler.sleep is not None:
        return Handler(sleep_s=max(0, handler.sleep.seconds))
    return None


def _port(port: int | str, ports: Mapping[str, int]) -> int:
    if isinstance(port, int):
        return port
    return ports.get(port, int(port) if port.isdecimal() else 0)


def _signal(name: str) -> int:
    found = getattr(signal.Signals, name, None) if name.startswith("SIG") else None
    return int(found) if found is not None else int(signal.SIGTERM)


# --- what is not honoured --------------------------------------------------------------------------------------------


def warnings_of(spec: api.PodSpec) -> Iterator[str]:
    """What the pod asks of its node and does not get, each once. The scheduler reports the rest (``NotHeeded``)."""
    if spec.host_network:
        yield "hostNetwork: every pod shares the network of this machine"
    if bytes(spec.security_context) not in (b"{}", b"null"):
        yield "securityContext: pods run as the account that runs makeway"
    for volume in spec.volumes:
        if not any((volume.empty_dir, volume.host_path, volume.secret, volume.config_map)):
            yield f"volume {volume.name}: only emptyDir, hostPath, secret and configMap are served"
        elif volume.empty_dir is not None and volume.empty_dir.size_limit is not None:
            yield f"volume {volume.name}: its sizeLimit is not enforced"
    for _, container in _in_order(spec):
        yield from _container_warnings(container)


def _container_warnings(container: api.Container) -> Iterator[str]:
    name = container.name
    if bytes(container.security_context) not in (b"{}", b"null"):
        yield f"container {name}: securityContext has no effect"
    for mount in container.volume_mounts:
        yield f"container {name}: nothing is mounted at {mount.mount_path}; use ${volume_variable(mount.name)}"
    if "memory" in container.resources.limits and memory_of(container) is None:
        yield f"container {name}: its memory limit is not enforced beside GPUs"
    if container.lifecycle.post_start is not None:
        yield f"container {name}: lifecycle.postStart is not run"
    for what in ("startup", "readiness", "liveness"):
        probe: api.Probe | None = getattr(container, f"{what}_probe")
        if probe is not None and _probe(probe, {}) is None:
            yield f"container {name}: its {what} probe is neither exec, httpGet nor tcpSocket"


def joined(warnings: Sequence[str], length_max: int = 1000) -> str:
    text = "; ".join(warnings)
    return text if len(text) <= length_max else f"{text[: length_max - 1]}…"
