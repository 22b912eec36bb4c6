"""The machine on the command line, and messages about wrong options."""

from __future__ import annotations

import click
import pytest

from makeway.adapters.node.machine import Offer, own_name
from makeway.api.quantity import Quantity
from makeway.cli.jobs.submit import job_tree, made_name
from makeway.cli.server.demo import node_words
from makeway.cli.server.node_options import offers, words
from tests.runtime.wires import cluster_queue, flavor


def test_parts_of_a_machine() -> None:
    text = "big:cpu=8,memory=32Gi,nvidia.com/gpu=2,label/tier=reserved,label/a.b/c=d,taint/spot=true:NoSchedule"
    (found,) = offers(None, [text])
    assert found == Offer(
        "big",
        {"cpu": Quantity.parse("8"), "memory": Quantity.parse("32Gi"), "nvidia.com/gpu": Quantity.parse("2")},
        {"tier": "reserved", "a.b/c": "d"},
        ({"key": "spot", "value": "true", "effect": "NoSchedule"},),
    )
    assert offers(None, []) == ()
    assert offers("cpu=2", ())[0] == Offer(own_name(), {"cpu": Quantity.parse("2")})


def test_all_that_is_wrong_is_told_at_once() -> None:
    with pytest.raises(click.UsageError) as told:
        offers("cpu=1", ["Big:cpu=x,memory", "a:c pu=1,cpu=-1,taint/x=y:Never", "a:"])
    assert told.value.message.splitlines()[:-2] == [
        "--node-capacity: not together with --node, which says it for each part",
        "--node: 'Big' is not a name of a node",
        told.value.message.splitlines()[2],  # why x is no amount, in the words of quantities
        "--node Big: 'memory' is not KEY=VALUE",
        "--node a: 'c pu' is not a resource",
        "--node a: cpu: -1 is negative",
        "--node a: taint x: 'Never' is no effect; allowed are NoSchedule, PreferNoSchedule, NoExecute",
        "--node: a is named twice",
    ]
    assert told.value.message.splitlines()[2].startswith("--node Big: cpu: ")


def test_a_detached_server_gets_the_same() -> None:
    assert list(words("cpu=1", ["a:cpu=1", "b:"], no_node=True)) == [
        "--no-node", "--node-capacity", "cpu=1", "--node", "a:cpu=1", "--node", "b:",
    ]  # fmt: skip


def test_a_demo_has_what_its_queues_give_out() -> None:
    taint = {"key": "spot", "value": "true", "effect": "NoSchedule"}
    values = [
        flavor("f", nodeLabels={"tier": "spot"}, nodeTaints=[taint]), cluster_queue("a", 4), cluster_queue("b", 3),
    ]  # fmt: skip
    assert list(node_words(values)) == ["--node", "f:memory=64Gi,cpu=7,label/tier=spot,taint/spot=true:NoSchedule"]


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (["python3", "train.py", "--lr", "1"], "train"),
        (["/usr/bin/python3.11", "-u", "a/My Model.py"], "my-model"),
        (["sh", "-c", "echo hi"], "sh"),
        (["./run_all.sh"], "run-all"),
        (["--", "-x"], "job"),
        (["___"], "job"),
    ],
)
def test_a_job_is_named_after_what_it_runs(command: list[str], name: str) -> None:
    assert made_name(command) == name


def test_a_command_reaches_its_process_as_it_was_typed() -> None:
    tree = job_tree(
        ["echo", "$(HOME)", "$HOME"], namespace="a", queue="q", amounts={"cpu": "1"}, parallelism=2, seconds=60
    )
    container = tree["spec"]["template"]["spec"]["containers"][0]
    assert container["command"] == ["echo", "$$(HOME)", "$HOME"]
    assert tree["metadata"]["labels"] == {
        "kueue.x-k8s.io/queue-name": "q", "kueue.x-k8s.io/max-exec-time-seconds": "60",
    }  # fmt: skip
    assert (tree["spec"]["completions"], tree["spec"]["completionMode"], tree["spec"]["backoffLimit"]) == (
        2,
        "Indexed",
        0,
    )
