"""A supervisor, zygote or agent is stopped, stuck or without resources: the pod still ends, and no other pod is
affected.
"""

from __future__ import annotations

import errno
import os
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from makeway.adapters.node.launching import Launcher
from makeway.adapters.node.supervision import control_groups, processes
from makeway.adapters.node.supervision.records import PLAN, Handler, PodPlan, PodRecord, ProbePlan, read_record, write
from tests.adapters.node.holding import stuck
from tests.adapters.node.nodes import TestNode
from tests.adapters.node.pods import Pods, code, log, one, script, wait_for

pytestmark = pytest.mark.slow  # real processes that are waited for

SRC = Path(__file__).parents[3] / "src"


def folder_of(node: TestNode) -> Path:
    (uid,) = node.folders()
    return node.root / uid


def record_of(folder: Path) -> PodRecord:
    found = read_record(folder)
    assert found is not None
    return found


@contextmanager
def own_launcher(node: TestNode) -> Iterator[Launcher]:
    """A zygote that the test may damage."""
    own = Launcher()
    node.agent._starts.launcher = own
    try:
        yield own
    finally:
        own.close()
        node.agent._starts.launcher = node.launcher
        wait_for(lambda: own.ended() == [] and not own._former)


# --- stopped ---------------------------------------------------------------------------------------------------------


def test_a_supervisor_that_its_pod_stops_goes_on(pods: Pods) -> None:
    folder = pods.start(script("kill -STOP $PPID; echo up; exit 3"))
    assert code(pods.ended(folder)) == 3


def test_a_pod_that_stops_its_supervisor_again_and_again_ends_in_its_time(tmp_path: Path, launcher: Launcher) -> None:
    node = TestNode(tmp_path / "pods", launcher, patience_ms=500)
    try:
        node.run("p", "trap '' TERM; echo up; while kill -STOP $PPID; do :; done", terminationGracePeriodSeconds=1)
        node.until_phase("p", "Running")
        record = record_of(folder_of(node))
        node.delete("p")
        node.until(lambda: node.is_gone("p") and node.folders() == [])
        assert not list(processes.of_pod(record.uid))
    finally:
        node.close()


def test_a_supervisor_that_is_stuck_is_killed_after_the_grace_period(tmp_path: Path, launcher: Launcher) -> None:
    node = TestNode(tmp_path / "pods", launcher, patience_ms=500)
    try:
        node.run("p", "env -i setsid sleep 600 & echo up; wait", terminationGracePeriodSeconds=1)
        node.until(lambda: node.phase("p") == "Running" and log(folder_of(node)) == b"up\n")
        record = record_of(folder_of(node))
        inside = processes.descendants(record.pid, processes.all_processes())
        assert len(inside) >= 2
        with stuck(record.pid):
            node.delete("p")
            node.until(lambda: any(each.reason == "SupervisorStuck" for each in node.notes))
        node.until(lambda: node.is_gone("p") and node.folders() == [])
        assert not any(processes.is_alive(each.pid, each.ticks, record.boot) for each in inside)
    finally:
        node.close()


def test_the_status_says_that_the_supervisor_was_stuck(tmp_path: Path, launcher: Launcher) -> None:
    node = TestNode(tmp_path / "pods", launcher, patience_ms=200)
    try:
        node.run("p", "echo up; sleep 600")
        node.until(lambda: node.phase("p") == "Running" and log(folder_of(node)) == b"up\n")
        tree = node.object("v1", "Pod", "p", "default")
        node.store.update({**tree, "metadata": {**tree["metadata"], "finalizers": ["example.com/keep"]}})
        with stuck(record_of(folder_of(node)).pid):
            node.delete("p", grace=1)
            node.until(lambda: any(each.reason == "SupervisorStuck" for each in node.notes))
        node.until_phase("p", "Failed")
        status = node.status("p")
        assert status["reason"] == "SupervisorStuck"
        assert "did not end it within its grace period" in status["message"]
        assert node.exit_code("p") == 137
        tree = node.object("v1", "Pod", "p", "default")
        node.store.update({**tree, "metadata": {**tree["metadata"], "finalizers": []}})
    finally:
        node.close()


def test_a_zygote_that_does_nothing_is_replaced(node: TestNode) -> None:
    with own_launcher(node) as own:
        own.prepare()
        os.kill(own._pid, signal.SIGSTOP)
        node.run("p", "exit 3")
        for _ in range(4):
            node.step()
            node.ahead_ms += 5_001
        node.until_phase("p", "Failed")
        assert node.exit_code("p") == 3


# --- what is left of those that are gone -----------------------------------------------------------------------------


def test_a_zygote_that_was_given_up_is_collected() -> None:
    launcher = Launcher()
    launcher.prepare()
    first = launcher._pid
    launcher.close()  # it ends after it has noticed that
    launcher.prepare()
    wait_for(lambda: launcher.ended() == [] and processes.find(first) is None)
    second = launcher._pid
    launcher.close()
    wait_for(lambda: launcher.ended() == [] and processes.find(second) is None)


def test_nothing_stays_when_makeway_is_killed_and_its_last_pod_was_stopped(tmp_path: Path) -> None:
    """A zygote once stayed for an hour and a half, because it waited for a supervisor that was stopped."""
    folder = tmp_path / "pod"
    folder.mkdir()
    write(folder, PLAN, PodPlan("pod", (script("kill -STOP $PPID; exit 3"),), restart="Never"))
    program = (
        "import sys, time; from pathlib import Path; from makeway.adapters.node.launching import Launcher\n"
        "own = Launcher(); own.prepare(); print(own._pid, flush=True); own.launch(Path(sys.argv[1])); time.sleep(600)"
    )
    command = [sys.executable, "-c", program, str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(SRC)}) as makeway:
        assert makeway.stdout is not None
        pid = int(makeway.stdout.readline())
        zygote = processes.find(pid)
        assert zygote is not None
        wait_for(lambda: (found := read_record(folder)) is not None and one(found).started_ms is not None)
        makeway.kill()
    wait_for(lambda: not processes.is_alive(pid, zygote.ticks, processes.boot_id()))
    assert code(record_of(folder)) == 3


def test_strays_are_found_by_their_control_group(node: TestNode) -> None:
    """Without session, parent and mark: every process that knew of it is killed."""
    with own_launcher(node) as own:
        node.run("p", "(env -i setsid sh -c 'sleep 600 & sleep 600' &); echo up; sleep 600")
        node.until(lambda: node.phase("p") == "Running" and log(folder_of(node)) == b"up\n")
        record = record_of(folder_of(node))
        if not record.group:
            pytest.skip("no control group can be made here")
        wait_for(lambda: len(control_groups.members(record.group, record.uid)) >= 5)  # supervisor, sh, sleep, sh, 2
        inside = control_groups.members(record.group, record.uid)
        os.kill(own._pid, signal.SIGKILL)
        os.kill(record.pid, signal.SIGKILL)
        node.until_phase("p", "Failed")
        assert node.status("p")["reason"] == "SupervisorLost"
        assert not any(processes.is_alive(each.pid, each.ticks, record.boot) for each in inside)
        node.delete("p", grace=0)
        node.until(lambda: node.folders() == [])
        assert not Path(record.group).exists()


def test_a_group_is_gone_with_its_pod_and_a_strangers_is_left_alone(pods: Pods, tmp_path: Path) -> None:
    folder = pods.start(script("echo up; exit 0"))
    record = pods.ended(folder)
    assert not record.group or not Path(record.group).exists()
    other = tmp_path / "makeway-other"
    other.mkdir()
    for path in (str(other), str(tmp_path), f"{tmp_path}/x/../makeway-me", ""):
        control_groups.remove(path, "me")
        assert not control_groups.kill(path, "me")
        assert control_groups.members(path, "me") == []
    assert other.exists()


def test_the_first_process_of_a_container_collects_what_was_left_to_it() -> None:
    unshare = shutil.which("unshare")
    program = (
        "import os, time\n"
        "from makeway.adapters.node.supervision import processes\n"
        "pid = os.fork()\n"
        "if pid == 0:\n"
        "    os.setsid()\n"
        "    os._exit(0) if os.fork() else time.sleep(0.1)\n"
        "    os._exit(0)\n"
        "os.waitpid(pid, 0)\n"
        "zombies = lambda: [each for each in processes.all_processes() if each.is_zombie]\n"
        "until = time.monotonic() + 20\n"
        "while not zombies() and time.monotonic() < until: time.sleep(0.01)\n"
        "before = len(zombies())\n"
        "processes.collect_adopted()\n"
        "print(os.getpid(), before, len(zombies()))\n"
    )
    command = [str(unshare), "--pid", "--fork", "--mount-proc", sys.executable, "-c", program]
    if unshare is None or subprocess.run([*command[:4], "true"], check=False, capture_output=True).returncode:
        pytest.skip("there are no process numbers of one's own here")
    told = subprocess.run(command, check=True, capture_output=True, env={**os.environ, "PYTHONPATH": str(SRC)})
    assert told.stdout.split() == [b"1", b"1", b"0"]


# --- who cannot be asked, and what cannot be had ---------------------------------------------------------------------


@contextmanager
def no_files(pid: int = 0) -> Iterator[None]:
    """A process that cannot open another file."""
    soft, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    names = os.listdir(f"/proc/{pid or 'self'}/fd")
    taken = {int(name) for name in names if pid or os.path.exists(f"/proc/self/fd/{name}")}  # not that of the list
    lowest = next(number for number in range(len(taken) + 1) if number not in taken)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (lowest, hard))
    try:
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (soft, hard))


def test_who_cannot_be_asked_for_is_not_gone() -> None:
    me = processes.find(os.getpid())
    assert me is not None
    boot = processes.boot_id()
    with no_files():
        for ask in (
            lambda: processes.find(me.pid), lambda: processes.is_alive(me.pid, me.ticks, boot),
            lambda: processes.environment(me.pid), processes.all_processes, lambda: processes.send(me, 0),
        ):  # fmt: skip
            with pytest.raises(OSError, match=os.strerror(errno.EMFILE)):
                ask()
    assert processes.is_alive(me.pid, me.ticks, boot)
    assert processes.find(2**22 + 1) is None


def test_an_agent_without_files_loses_no_pod(node: TestNode) -> None:
    node.run("p", "echo up; sleep 600")
    node.until_phase("p", "Running")
    with no_files():
        for _ in range(3):
            node.ahead_ms += 1_001
            node.step()
    node.ahead_ms += 10_000
    node.step()
    assert node.phase("p") == "Running"


def test_a_container_is_started_when_the_machine_has_something_left_again(pods: Pods, tmp_path: Path) -> None:
    first = script(f"while [ ! -e {tmp_path}/go ]; do sleep 0.02; done", name="first", role="init")
    folder = pods.start(first, script("echo up; exit 3"))
    wait_for(lambda: (found := read_record(folder)) is not None and one(found, "first").started_ms is not None)
    with no_files(record_of(folder).pid):
        (tmp_path / "go").touch()
        wait_for(lambda: one(read_record(folder)).reason == "CreateContainerError")
        assert one(read_record(folder)).message == "no process could be made: Too many open files"
    record = pods.ended(folder)
    assert (code(record), one(record).restarts) == (3, 0)


def test_a_probe_that_cannot_be_asked_says_nothing(pods: Pods, tmp_path: Path) -> None:
    probe = ProbePlan(Handler(command=("true",)), period_s=1, failures=1)
    folder = pods.start(script(f"echo up; while [ ! -e {tmp_path}/go ]; do sleep 0.02; done; exit 3", liveness=probe))
    wait_for(lambda: log(folder) == b"up\n")
    supervisor = record_of(folder).pid
    with no_files(supervisor):
        looks = _switches(supervisor)
        wait_for(lambda: _switches(supervisor) >= looks + 2)  # it has woken up twice for a probe
    (tmp_path / "go").touch()
    assert code(pods.ended(folder)) == 3


def _switches(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("voluntary_ctxt_switches"))


def test_no_process_for_a_supervisor_is_told_and_tried_again(node: TestNode) -> None:
    with own_launcher(node) as own, few_processes() as group:
        own.prepare()
        (group / "cgroup.procs").write_text(str(own._pid))
        (group / "pids.max").write_text("1")
        node.run("p", "exit 3")
        told = "the supervisor could not begin: no process could be made: Resource temporarily unavailable"
        node.until(lambda: any(each.message == told for each in node.notes))
        tries = node.agent._pods.by_uid[node.folders()[0]].asks
        for _ in range(100):
            node.step()
        assert node.agent._pods.by_uid[node.folders()[0]].asks <= tries + 1  # it is not asked again and again
        (group / "pids.max").write_text("max")
        node.until_phase("p", "Failed")
        assert node.exit_code("p") == 3


@contextmanager
def few_processes() -> Iterator[Path]:
    """A control group that counts processes."""
    group = Path(f"/sys/fs/cgroup/pids/makeway-test-{os.getpid()}")
    try:
        group.mkdir()
    except OSError as error:
        pytest.skip(f"processes cannot be counted here: {error.strerror}")
    try:
        yield group
    finally:
        wait_for(lambda: _is_removed(group))


def _is_removed(group: Path) -> bool:
    for pid in (group / "cgroup.procs").read_text().split():
        with suppress(OSError):
            (group.parent / "cgroup.procs").write_text(pid)
    with suppress(OSError):
        group.rmdir()
    return not group.exists()
