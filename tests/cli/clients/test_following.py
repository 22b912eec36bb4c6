"""``-w``: changes are printed as they happen, until the user interrupts or the output is closed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from makeway.adapters.kubernetes.client import Client
from makeway.adapters.kubernetes.kubeconfig import ApiTarget
from makeway.adapters.kubernetes.resources import resource_of
from makeway.cli.clients.asking import QueryScope, followed
from tests.cli.conftest import Server, heed_interrupts, kind_named, local_queue, queue
from tests.cli.jobs.test_queues import status
from tests.cli.objects.test_describe import event

SRC = Path(__file__).parents[3] / "src"
pytestmark = pytest.mark.slow  # each is a process of its own


@contextmanager
def program(server: Server, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    settings = {**os.environ, "PYTHONPATH": str(SRC), "XDG_DATA_HOME": str(server.base)}
    process = subprocess.Popen(
        [sys.executable, "-m", "makeway", *arguments],
        env=settings, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        preexec_fn=heed_interrupts,
    )  # fmt: skip
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        for stream in (process.stdout, process.stderr):
            if stream is not None:
                stream.close()


def line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline()


def errors(process: subprocess.Popen[str]) -> str:
    assert process.stderr is not None
    return process.stderr.read()


def test_objects(server: Server) -> None:
    server.put(queue("team-a"))
    with program(server, "get", "cq", "-w") as process:
        assert line(process).split() == ["NAME", "COHORT", "PENDING", "WORKLOADS"]
        assert line(process).split() == ["team-a", "lab", "-"]
        server.put(queue("team-b"), status(1, waiting=3))
        assert line(process).split()[:2] == ["team-b", "lab"]
        assert line(process).split() == ["team-b", "lab", "3"]
        process.send_signal(signal.SIGINT)
        assert (process.wait(20), errors(process)) == (130, "\n")


def test_objects_as_data_a_line_each(server: Server) -> None:
    server.put(local_queue())
    with program(server, "get", "lq", "main", "-w", "-o", "json") as process:
        assert json.loads(line(process))["spec"]["stopPolicy"] == "None"
        server.put(local_queue("other"))
        server.store.patch(kind_named("LocalQueue"), "default", "main", {"spec": {"stopPolicy": "Hold"}})
        assert json.loads(line(process))["spec"]["stopPolicy"] == "Hold"


def test_what_the_server_has_forgotten_is_listed_again_and_only_what_differs_is_told(server: Server) -> None:
    server.put(local_queue("a"))
    client = Client(ApiTarget(server.url, authority=(server.folder / "ca.crt").read_bytes(), token=server.token))
    queues = resource_of(kind_named("LocalQueue"))
    with client:
        told = followed(client, queues, QueryScope("default"))
        assert [each["metadata"]["name"] for each in next(told)[1]["items"]] == ["a"]
        server.put(local_queue("b"))
        server.store.compact()  # before the watch begins
        type_, page = next(told)
        assert (type_, [each["metadata"]["name"] for each in page["items"]]) == ("LIST", ["b"])
        server.put(local_queue("c"))
        type_, tree = next(told)
        assert (type_, tree["metadata"]["name"]) == ("ADDED", "c")


def test_events(server: Server) -> None:
    server.put(event("first", "Created"))
    with program(server, "events", "-w", "--for", "workload/job-a") as process:
        assert [line(process).split()[0], line(process).split()[2]] == ["LAST", "Created"]
        server.put(event("other", "Started", of="job-b"))
        server.put(event("second", "Pending"))
        assert line(process).split()[2] == "Pending"


def test_queues_are_shown_anew(server: Server) -> None:
    server.put(queue("team-a"), status(1))
    with program(server, "queues", "-w", "-o", "json") as process:
        assert json.loads(line(process))["queues"][0]["waiting"] == 0
        change = {"status": {"pendingWorkloads": 7}}
        server.store.patch(kind_named("ClusterQueue"), "", "team-a", change, status=True)
        assert json.loads(line(process))["queues"][0]["waiting"] == 7
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 130


def test_it_ends_quietly_when_nobody_reads_any_more(server: Server) -> None:
    server.put(local_queue())
    with program(server, "get", "lq", "-w", "-o", "name") as process:
        line(process)
        assert process.stdout is not None
        process.stdout.close()
        for number in range(3):
            server.put(local_queue(f"q{number}"))
        assert (process.wait(20), errors(process)) == (141, "")
