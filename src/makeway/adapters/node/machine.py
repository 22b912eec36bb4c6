"""What this machine offers as Node objects: cpu, memory, GPUs. Usually one Node; several share a machine by name only.

Several Nodes make sense to give parts of a machine different labels or taints, as flavors do. Each has a capacity of
its own; only the scheduler's accounting keeps them apart.
"""

from __future__ import annotations

import os
import platform
import re
import socket
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Raw

import makeway
from makeway.adapters.node.environment import NodePlace
from makeway.adapters.node.fields import GPU
from makeway.api.objects.kubernetes import Node, Pod, view
from makeway.api.objects.meta import ObjectMeta
from makeway.api.objects.pods import PodSpec
from makeway.api.quantity import Quantity, Time

LOCAL_LABEL = "makeway.dev/local"  # a Node whose pods the agent of this server runs
HOSTNAME_LABEL = "kubernetes.io/hostname"
PODS_MAX = 1000
ADDRESS = "127.0.0.1"  # pods share the machine's network, and we serve on loopback
SMI_SECONDS = 10
KEPT_VARIABLES = (
    "PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR", "LD_LIBRARY_PATH",
)  # fmt: skip
_NAME = re.compile(r"[^a-z0-9.-]")


@dataclass(frozen=True)
class Offer:
    """One Node: its capacity, labels and taints."""

    name: str
    capacity: Mapping[str, Quantity]
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: Sequence[Mapping[str, str]] = ()
    gpus: Sequence[str] = ()

    @property
    def place(self) -> NodePlace:
        return NodePlace(self.name, ADDRESS, self.capacity)


@dataclass(frozen=True)
class AgentSettings:
    """The settings of this machine's agent."""

    root: Path  # where the folders of pods are
    offers: Sequence[Offer]
    images: Mapping[str, Sequence[str]] = field(default_factory=dict)
    base: Mapping[str, str] = field(default_factory=dict)  # variables of every process
    patience_ms: int = 10_000  # beyond the grace period; then a supervisor that has not ended its pod is killed

    def offer_of(self, pod: Pod) -> Offer:
        """What the node of the pod offers."""
        name = view(pod.spec, PodSpec).node_name
        return next((offer for offer in self.offers if offer.name == name), self.offers[0])


def own_name() -> str:
    return _NAME.sub("-", socket.gethostname().lower()).strip("-.")[:63] or "machine"


def base_environment() -> dict[str, str]:
    """The variables of this account that every process may need, and no others: secrets stay here."""
    found = {name: os.environ[name] for name in KEPT_VARIABLES if name in os.environ}
    return {"PATH": os.defpath, **found}


# --- what there is ---------------------------------------------------------------------------------------------------


def measured(gpus: Sequence[str]) -> dict[str, Quantity]:
    """The capacity of this machine."""
    found = {
        "cpu": Quantity.parse(str(len(os.sched_getaffinity(0)))),
        "memory": Quantity(memory_bytes() * 10**9, "BinarySI"),
        "pods": Quantity.parse(str(PODS_MAX)),
    }
    return {**found, GPU: Quantity.parse(str(len(gpus)))} if gpus else found


def memory_bytes() -> int:
    """The memory of the machine, or of the control group that limits us."""
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    with suppress(OSError, ValueError):
        total = min(total, int(Path("/sys/fs/cgroup/memory.max").read_text("ascii")))
    return total


def find_gpus() -> tuple[str, ...]:
    """The numbers of the GPUs, from ``nvidia-smi``; none if it is missing or does not answer."""
    try:
        told = subprocess.run(
            ["nvidia-smi", "--query-gpu=index", "--format=csv,noheader"], capture_output=True, text=True, check=True,
            stdin=subprocess.DEVNULL, timeout=SMI_SECONDS,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return ()
    return tuple(line.strip() for line in told.stdout.splitlines() if line.strip().isdecimal())


def offers_of(wanted: Sequence[Offer], gpus: Sequence[str]) -> tuple[Offer, ...]:
    """The Nodes to register: those that were asked for, else one with everything. Capacity that a Node does not name is
    the machine's. GPUs are dealt out in order; users may claim more than there are.
    """
    whole = measured(gpus)
    left = list(gpus)
    found = []
    for each in wanted or (Offer(own_name(), {}),):
        capacity = {**whole, **each.capacity}
        count = capacity[GPU].nano // 10**9 if GPU in capacity else 0
        own = left[:count]
        left = left[count:]
        own += [str(len(gpus) + n) for n in range(count - len(own))]  # claimed, not present
        found.append(replace(each, capacity=capacity, gpus=tuple(own)))
    return tuple(found)


# --- as objects ------------------------------------------------------------------------------------------------------


def node_of(offer: Offer) -> Node:
    arch = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    labels = {
        HOSTNAME_LABEL: offer.name, "kubernetes.io/os": "linux", "kubernetes.io/arch": arch, LOCAL_LABEL: "true",
        **offer.labels,
    }  # fmt: skip
    spec = {"taints": [dict(taint) for taint in offer.taints]} if offer.taints else {}
    return Node(metadata=ObjectMeta(name=offer.name, labels=labels), spec=Raw(msgspec.json.encode(spec)))


def node_status(offer: Offer, before: Raw, now_ms: int, *, is_ready: bool = True) -> Raw:
    """The status as it should be. Heartbeats go to the Lease, so that the status rarely changes."""
    amounts = {name: str(amount) for name, amount in sorted(offer.capacity.items())}
    old: dict[str, Any] = msgspec.json.decode(before)
    status = "True" if is_ready else "False"
    reason = ("AgentReady", "the node agent runs") if is_ready else ("AgentStopped", "the node agent has stopped")
    stood: dict[str, str] = next((each for each in old.get("conditions") or () if each["type"] == "Ready"), {})
    now = str(Time.of_millis(now_ms - now_ms % 1000))
    since = stood.get("lastTransitionTime", now) if stood.get("status") == status else now
    ready = {
        "type": "Ready", "status": status, "reason": reason[0], "message": reason[1], "lastTransitionTime": since,
        "lastHeartbeatTime": now,
    }  # fmt: skip
    told = {
        "capacity": amounts, "allocatable": amounts, "conditions": [ready],
        "addresses": [{"type": "InternalIP", "address": ADDRESS}, {"type": "Hostname", "address": offer.name}],
        "nodeInfo": node_info(),
    }  # fmt: skip
    return Raw(msgspec.json.encode(told))


def node_info() -> dict[str, str]:
    return {
        "kubeletVersion": f"makeway-{makeway.__version__}", "kubeProxyVersion": "", "operatingSystem": "linux",
        "architecture": platform.machine(), "kernelVersion": platform.release(), "osImage": _system(),
        "containerRuntimeVersion": f"makeway://{makeway.__version__}", "machineID": "", "systemUUID": "", "bootID": "",
    }  # fmt: skip


def _system() -> str:
    with suppress(OSError):
        return platform.freedesktop_os_release().get("PRETTY_NAME", "Linux")
    return "Linux"
