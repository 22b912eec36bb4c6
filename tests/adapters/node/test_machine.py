"""What a machine offers: measured, claimed, or in parts; and its Node objects."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest

from makeway.adapters.node.machine import (
    LOCAL_LABEL,
    Offer,
    base_environment,
    find_gpus,
    measured,
    node_of,
    node_status,
    offers_of,
    own_name,
)
from makeway.api.quantity import Quantity
from makeway.api.validation import validate

NOTHING = msgspec.Raw(b"{}")


def amounts(**named: str) -> dict[str, Quantity]:
    return {name.replace("gpu", "nvidia.com/gpu"): Quantity.parse(amount) for name, amount in named.items()}


def test_the_machine_is_measured() -> None:
    found = measured(())
    assert found["cpu"] == Quantity.parse(str(len(os.sched_getaffinity(0))))
    assert found["memory"].nano > 0
    assert "nvidia.com/gpu" not in found
    assert measured(("0", "1"))["nvidia.com/gpu"] == Quantity.parse("2")


def smi(folder: Path, text: str) -> None:
    program = folder / "nvidia-smi"
    program.write_text(f"#!/bin/sh\n{text}\n")
    program.chmod(0o755)


@pytest.mark.parametrize(
    ("script", "gpus"),
    [
        ("printf '0\\n1\\n 2 \\n'", ("0", "1", "2")),
        ("echo 'No devices were found'; exit 6", ()),
        ("echo NVIDIA-SMI has failed", ()),
        ("exit 0", ()),
    ],
)
def test_gpus_are_those_that_nvidia_smi_tells(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, gpus: tuple[str, ...]
) -> None:
    smi(tmp_path, script)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert find_gpus() == gpus


def test_without_nvidia_smi_there_are_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_gpus() == ()


def test_parts_of_a_machine_share_its_gpus_in_order() -> None:
    a, b, c = offers_of(
        (Offer("a", amounts(gpu="1")), Offer("b", amounts(gpu="2", cpu="3")), Offer("c", amounts(gpu="1"))),
        ("0", "1", "2"),
    )
    assert [a.gpus, b.gpus, c.gpus] == [("0",), ("1", "2"), ("3",)]  # one more is claimed than was seen
    assert (b.capacity["cpu"], a.capacity["cpu"]) == (Quantity.parse("3"), measured(())["cpu"])
    (whole,) = offers_of((), ())
    assert whole.name == own_name()


def test_a_node_says_what_it_is() -> None:
    taints = ({"key": "spot", "value": "true", "effect": "NoSchedule"},)
    offer = Offer("a", amounts(cpu="4", memory="8Gi"), {"tier": "spot"}, taints)
    node = node_of(offer)
    assert [each for each in validate(node) if each.severity == "error"] == []
    assert node.metadata.labels["tier"] == "spot"
    assert node.metadata.labels[LOCAL_LABEL] == "true"
    assert msgspec.json.decode(node.spec) == {"taints": [dict(taints[0])]}
    first = msgspec.json.decode(node_status(offer, NOTHING, 1000))
    assert first["allocatable"] == {"cpu": "4", "memory": "8Gi"}
    later = msgspec.json.decode(node_status(offer, msgspec.Raw(msgspec.json.encode(first)), 9000))
    assert later["conditions"][0]["lastTransitionTime"] == first["conditions"][0]["lastTransitionTime"]
    stopped = msgspec.json.decode(node_status(offer, msgspec.Raw(msgspec.json.encode(first)), 9000, is_ready=False))
    assert stopped["conditions"][0]["status"] == "False"


def test_only_some_variables_are_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hidden")
    monkeypatch.setenv("LANG", "C.UTF-8")
    found = base_environment()
    assert found["LANG"] == "C.UTF-8"
    assert found["PATH"]
    assert "AWS_SECRET_ACCESS_KEY" not in found
