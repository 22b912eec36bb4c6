"""kill -9 of makeway while jobs run, again and again: they keep running, none runs twice, no exit code or log
is lost.
"""

from __future__ import annotations

import os
import random
import signal
from pathlib import Path

import pytest

from makeway.adapters.node.supervision import processes
from makeway.adapters.node.supervision.records import read_record
from makeway.runtime.ports import NotFound
from tests.adapters.node.holding import stuck
from tests.end_to_end.machine import JOBS as JOB_KIND
from tests.end_to_end.machine import PODS, WORKLOADS, Machine, flavor, queue, shell
from tests.soaking import InTime

pytestmark = pytest.mark.slow
JOBS = 20
KILLS = 5


def begun(machine: Machine) -> dict[str, tuple[int, int]]:
    """uid -> pid and start time of every running first process."""
    found = {}
    for uid in machine.uids():
        record = read_record(machine.folder / "pods" / uid)
        for each in record.containers if record is not None else ():
            if each.state == "running":
                found[uid] = (each.pid, each.ticks)
    return found


@pytest.mark.property
def test_kill_9_of_makeway_while_twenty_jobs_run(
    machine: Machine, tmp_path: Path, fuzz_inputs: int, fuzz_seed: int, in_time: InTime
) -> None:
    dice = random.Random(fuzz_seed)
    machine.apply(flavor(), *queue("all", JOBS))
    rounds = int(os.environ.get("MAKEWAY_KILLS") or (KILLS if fuzz_inputs <= 2000 else 10 * KILLS))
    for number in in_time(range(rounds)):
        _round(machine, tmp_path, number, dice)


def _round(machine: Machine, folder: Path, number: int, dice: random.Random) -> None:
    """Some jobs end before the kill, some during the outage, some after; one in four has not started at the kill."""
    codes = {f"r{number}-{n}": dice.choice([0, 0, 7, n + 1]) for n in range(JOBS)}
    for name, code in codes.items():
        seconds = dice.choice([0.1, 0.5, 1.0, 1.8])
        script = f"echo {name} >> {folder}/{name}; echo begin; sleep {seconds}; echo end; exit {code}"
        machine.apply(shell(name, script))
    machine.until(lambda: len(begun(machine)) >= JOBS // 4, "some run")
    before = begun(machine)
    machine.kill()
    alive = {uid for uid, (pid, ticks) in before.items() if processes.is_alive(pid, ticks, processes.boot_id())}
    machine.start()
    after = begun(machine)
    assert all(after[uid] == before[uid] for uid in alive & set(after)), "they are the same processes"
    for name, code in codes.items():
        machine.until_ended(name, "Failed" if code else "Complete")
    for name, code in codes.items():
        pod = machine.pod(name)
        state = pod["status"]["containerStatuses"][0]["state"]["terminated"]
        assert (name, state["exitCode"]) == (name, code)
        assert machine.log(name) == b"begin\nend\n"
        assert (folder / name).read_text() == f"{name}\n", f"{name} ran twice"
        status = machine.job(name)["status"]
        assert (status.get("succeeded", 0), status.get("failed", 0)) == ((0, 1) if code else (1, 0))
    for name in codes:  # so that many rounds do not need many Jobs
        machine.client.delete(JOB_KIND, "default", name, {"propagationPolicy": "Background"})
    machine.until(lambda: machine.uids() == [], "the folders of this round are gone")


def test_kill_9_of_a_supervisor_ends_its_processes_and_fails_its_pod(machine: Machine) -> None:
    machine.apply(flavor(), *queue("all", 1), shell("j", "env -i setsid sleep 999999 & echo up; wait"))
    machine.until_running("j")
    (uid,) = machine.uids()
    record = read_record(machine.folder / "pods" / uid)
    assert record is not None
    machine.until(lambda: machine.log("j") == b"up\n", "it has begun")
    inside = processes.descendants(record.pid, processes.all_processes())
    assert len(inside) >= 2
    os.kill(record.pid, signal.SIGKILL)
    machine.until_ended("j", "Failed")
    status = machine.pod("j")["status"]
    assert (status["phase"], status["reason"]) == ("Failed", "SupervisorLost")
    assert "killed" in status["message"]
    machine.until(
        lambda: not any(processes.is_alive(each.pid, each.ticks, record.boot) for each in inside), "nothing is left"
    )


STOPPED = {
    "once, and not again": "kill -STOP $PPID; echo up; sleep 9999",
    "and deaf to a polite end": "trap '' TERM; kill -STOP $PPID; echo up; while :; do sleep 9999; done",
    "again and again": "trap '' TERM; echo up; while kill -STOP $PPID; do :; done",
    "by one that left its session": (
        "p=$PPID; env -i setsid sh -c \"trap '' TERM; while kill -STOP $p; do :; done\" & echo up; sleep 9999"
    ),
}


@pytest.mark.parametrize("script", STOPPED.values(), ids=STOPPED)
def test_a_job_that_stops_its_supervisor_is_deleted_in_its_time(machine: Machine, script: str) -> None:
    machine.apply(flavor(), *queue("all", 1), shell("stops", script, grace=1), shell("next", "echo ran"))
    inside = _inside(machine, "stops")
    machine.client.delete(JOB_KIND, "default", "stops", {"propagationPolicy": "Background"})
    _only_the_next_is_there(machine, "stops", inside)


def test_a_job_whose_supervisor_is_stuck_is_deleted_in_its_time(machine: Machine) -> None:
    script = "env -i setsid sleep 9999 & echo up; wait"
    machine.apply(flavor(), *queue("all", 1), shell("held", script, grace=1), shell("next", "echo ran"))
    inside = _inside(machine, "held")
    with stuck(inside[0].pid):
        machine.client.delete(JOB_KIND, "default", "held", {"propagationPolicy": "Background"})
        machine.until(lambda: "SupervisorStuck" in machine.reasons("Pod"), "nobody waits for it any more")
    _only_the_next_is_there(machine, "held", inside)


def _inside(machine: Machine, name: str) -> list[processes.Process]:
    """A job that has printed ``up``: its supervisor, and all processes below. The next one waits for its place."""
    machine.until_running(name)
    machine.until(lambda: machine.log(name) == b"up\n", "it has begun")
    record = read_record(machine.folder / "pods" / machine.pod(name)["metadata"]["uid"])
    assert record is not None
    supervisor = processes.find(record.pid)
    assert supervisor is not None
    below = processes.descendants(record.pid, processes.all_processes())
    assert below
    assert not machine.pods("next"), "there is one place"
    return [supervisor, *below]


def _only_the_next_is_there(machine: Machine, name: str, inside: list[processes.Process]) -> None:
    machine.until_ended("next")  # this limit is beyond the second of grace and the agent's patience
    assert machine.log("next") == b"ran\n"
    boot = processes.boot_id()
    assert not any(processes.is_alive(each.pid, each.ticks, boot) for each in inside), "quota came after the end"
    with pytest.raises(NotFound):
        machine.job(name)
    assert len(machine.all(PODS)) == len(machine.all(WORKLOADS)) == 1, "those of the next one"
