"""Real processes under a real supervisor: what runs, what is recorded, and that no process is left."""

from __future__ import annotations

import os
import signal
import socket
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from makeway.adapters.node.launching import Launcher
from makeway.adapters.node.supervision import processes
from makeway.adapters.node.supervision.records import (
    LOCK,
    PLAN,
    STOP,
    ContainerPlan,
    Handler,
    Http,
    PodPlan,
    PodRecord,
    ProbePlan,
    Stop,
    read_record,
    write,
)
from tests.adapters.node.pods import Pods, code, container, log, one, pieces, script, wait_for


def probe(command: str, **more: object) -> ProbePlan:
    return ProbePlan(Handler(("sh", "-c", command)), **{"period_s": 1, **more})  # type: ignore[arg-type]


def reasons(record: PodRecord) -> list[str]:
    return [each.reason for each in record.notes]


# --- ends ------------------------------------------------------------------------------------------------------------


@dataclass
class Case:
    about: str
    plan: ContainerPlan
    code: int
    reason: str
    message: str = ""
    signal: int = 0


CASES = [
    Case("a success", container("true"), 0, "Completed"),
    Case("an exit code is kept", script("exit 7"), 7, "Error"),
    Case("a signal is told as a shell tells it", script("kill -9 $$"), 137, "Error", "ended by signal 9 (Killed)", 9),
    Case(
        "a command that is not there", container("no-such-command"), 127, "StartError",
        'the command "no-such-command" is not in the PATH of this machine',
    ),
    Case(
        "a file that is not there", container("./nothing"), 127, "StartError",
        'the command "./nothing" is not on this machine, or its interpreter is not',
    ),
    Case(
        "a file that may not be run", container("/etc/passwd"), 126, "StartError",
        'the command "/etc/passwd" may not be run: Permission denied',
    ),
    Case(
        "a folder that is not there", container("true", folder="/no/such/folder"), 126, "StartError",
        "the working directory /no/such/folder cannot be entered: No such file or directory",
    ),
    Case(
        "a word that no process can have", container("echo", "a\0b"), 126, "StartError",
        'the command "echo" cannot be run: Invalid argument',
    ),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.about)
def test_how_a_container_ends(pods: Pods, case: Case) -> None:
    record = pods.run(case.plan)
    end = one(record).end
    assert end is not None
    assert (end.code, end.reason, end.message, end.signal) == (case.code, case.reason, case.message, case.signal)
    assert record.phase == ("Succeeded" if case.code == 0 else "Failed")


def test_environment_input_and_folder_are_those_that_were_planned(pods: Pods, tmp_path: Path) -> None:
    plan = script("pwd; echo $ONE; cat; env | wc -l; echo told to err >&2", folder=str(tmp_path))
    plan.env["ONE"] = "1 2"  # type: ignore[index]
    folder = pods.start(plan)
    pods.ended(folder)
    printed = log(folder).decode().splitlines()
    assert printed[:2] == [str(tmp_path), "1 2"]
    assert int(printed[2]) <= 8  # ours, and what a shell adds
    assert printed[3] == "told to err"


def test_memory_is_bounded(pods: Pods) -> None:
    text = "x = bytearray(400 << 20)"
    plan = container("python3", "-S", "-c", text, memory_bytes=200 << 20)
    folder = pods.start(plan)
    assert code(pods.ended(folder)) == 1
    assert b"MemoryError" in log(folder)


# --- restarts --------------------------------------------------------------------------------------------------------


def test_what_fails_is_started_again_until_it_succeeds(pods: Pods, tmp_path: Path) -> None:
    count = tmp_path / "count"
    folder = pods.start(
        script(f"echo x >> {count}; echo start $(wc -l < {count}); [ $(wc -l < {count}) = 4 ]"), restart="OnFailure"
    )
    record = pods.ended(folder)
    work = one(record)
    assert (record.phase, work.restarts, code(record)) == ("Succeeded", 3, 0)
    assert work.last is not None
    assert work.last.code == 1
    assert log(folder, restart=3) == b"start 4\n"
    assert log(folder, restart=2) == b"start 3\n"
    assert pieces(folder) == ["2.000000.log", "3.000000.log"]  # this one and the one before
    assert "BackOff" in reasons(record)


def test_who_is_waiting_to_be_restarted_can_be_stopped(pods: Pods) -> None:
    folder = pods.start(script("exit 1"), restart="Always", backoff_ms=60_000)

    def waits() -> bool:
        record = read_record(folder)
        return record is not None and bool(record.containers) and one(record).reason == "CrashLoopBackOff"

    wait_for(waits)
    pods.stop(folder)
    record = pods.ended(folder)
    assert record.phase == "Failed"
    assert one(record).restarts == 1


# --- order -----------------------------------------------------------------------------------------------------------


def test_init_containers_come_first_and_sidecars_stay_until_the_end(pods: Pods, tmp_path: Path) -> None:
    told = tmp_path / "told"
    folder = pods.start(
        script(f"echo first >> {told}", "first", role="init"),
        script(
            f"trap 'echo side ends >> {told}; exit 0' TERM; echo side >> {told}; while :; do sleep 0.02; done", "side",
            role="sidecar", startup=probe(f"grep side {told}"),
        ),
        script(f"echo second >> {told}", "second", role="init"),
        script(f"echo work >> {told}; sleep 0.1; echo work ends >> {told}"),
    )  # fmt: skip
    record = pods.ended(folder)
    assert told.read_text().splitlines() == ["first", "side", "second", "work", "work ends", "side ends"]
    assert record.phase == "Succeeded"


def test_a_failed_init_container_fails_the_pod(pods: Pods) -> None:
    record = pods.run(script("exit 3", "first", role="init"), script("exit 0"))
    assert (record.phase, code(record, "first"), one(record).end) == ("Failed", 3, None)


# --- stopping --------------------------------------------------------------------------------------------------------


def started(folder: Path, name: str = "work") -> None:
    """Wait until the container has printed something: its traps are set."""
    wait_for(lambda: log(folder, name) != b"")


def test_a_stop_is_a_signal_and_time_to_follow_it(pods: Pods) -> None:
    folder = pods.start(script("trap 'echo bye; exit 3' TERM; echo up; while :; do sleep 0.02; done"))
    started(folder)
    pods.stop(folder)
    assert code(pods.ended(folder)) == 3
    printed = log(folder).splitlines()  # the shell may report its child too
    assert (printed[0], printed[-1]) == (b"up", b"bye")


def test_who_ignores_the_signal_is_killed_when_the_time_is_up(pods: Pods) -> None:
    folder = pods.start(script("trap '' TERM; echo up; while :; do sleep 0.02; done"))
    started(folder)
    began = time.monotonic()
    pods.stop(folder, 0.4)
    time.sleep(0.2)
    running = read_record(folder)
    assert one(running).state == "running"
    record = pods.ended(folder)
    assert time.monotonic() - began >= 0.4
    assert code(record) == 137


def test_the_time_can_be_cut_short(pods: Pods) -> None:
    folder = pods.start(script("trap '' TERM; echo up; while :; do sleep 0.02; done"))
    started(folder)
    pods.stop(folder, 600)
    pods.stop(folder, 0)
    assert code(pods.ended(folder)) == 137


def test_a_hook_runs_before_the_signal(pods: Pods, tmp_path: Path) -> None:
    told = tmp_path / "told"
    hook = Handler(("sh", "-c", f"echo hook >> {told}"))
    folder = pods.start(
        script(f"trap 'echo signal >> {told}; exit 0' TERM; echo up; while :; do sleep 0.02; done", pre_stop=hook)
    )
    started(folder)
    pods.stop(folder)
    pods.ended(folder)
    assert told.read_text().splitlines() == ["hook", "signal"]


@pytest.mark.slow
def test_a_pod_ends_at_its_deadline(pods: Pods) -> None:
    record = pods.run(script("sleep 600"), deadline_s=1)
    assert (record.phase, record.reason, code(record)) == ("Failed", "DeadlineExceeded", 143)


def test_a_stop_that_comes_before_the_start_prevents_it(pods: Pods, tmp_path: Path) -> None:
    folder = pods.folder / "early"
    folder.mkdir()
    write(folder, PLAN, PodPlan("early", (script(f"touch {tmp_path}/ran"),), restart="Never"))
    write(folder, STOP, Stop(time.time_ns() // 1_000_000, 5000))
    pods.launcher.launch(folder)
    record = pods.ended(folder)
    assert record.phase == "Failed"
    assert not (tmp_path / "ran").exists()


# --- nothing is left -------------------------------------------------------------------------------------------------

NAP = 600_000 + os.getpid()  # seconds, and a mark of this run's processes
LEAVES = (
    f"sleep {NAP}1 & setsid sleep {NAP}2 & env -i setsid sleep {NAP}3 & (setsid sh -c 'sleep {NAP}4 & sleep {NAP}5' &)"
    "; sleep 0.2"
)
LEFT = [f"sleep\0{NAP}{n}\0" for n in range(1, 6)]


def nap(n: int) -> str:
    return f"sleep\0{NAP}{n}\0"


def commands() -> list[str]:
    found = []
    for each in processes.all_processes():
        try:
            found.append(Path(f"/proc/{each.pid}/cmdline").read_text())
        except OSError:
            continue
    return found


def left() -> list[str]:
    return [each for each in commands() if each in LEFT]


def test_what_a_container_leaves_behind_ends_with_it(pods: Pods) -> None:
    record = pods.run(script(f"{LEAVES}; exit 5"))
    assert code(record) == 5
    assert left() == []


def test_what_one_container_leaves_ends_while_the_other_goes_on(pods: Pods) -> None:
    folder = pods.start(script(f"{LEAVES}; exit 5"), script(f"sleep {NAP}6 & echo up; wait", "other"))

    def ended() -> bool:
        record = read_record(folder)
        return record is not None and bool(record.containers) and one(record).state == "ended"

    wait_for(ended)
    assert [each for each in left() if each != nap(3)] == []  # that one hides: it ends with the pod
    assert nap(6) in commands()
    pods.stop(folder)
    pods.ended(folder)
    assert left() == []
    assert nap(6) not in commands()


def test_two_hundred_processes(pods: Pods) -> None:
    folder = pods.start(script(f"for i in $(seq 200); do sleep {NAP}7 & done; echo up; wait"))
    started(folder)
    pods.stop(folder)
    assert code(pods.ended(folder)) == 143
    assert nap(7) not in commands()


def test_a_killed_supervisor_takes_all_with_it(pods: Pods) -> None:
    folder = pods.start(script(f"{LEAVES}; echo up; sleep {NAP}8"))
    started(folder)
    record = read_record(folder)
    assert record is not None
    assert len(left()) == 5
    os.kill(record.pid, signal.SIGKILL)
    wait_for(lambda: left() == [] and nap(8) not in commands())
    assert not processes.is_alive(record.pid, record.ticks, record.boot)
    after = read_record(folder)
    assert after is not None
    assert after.finished_ms is None


# --- it is alone, and it stays ---------------------------------------------------------------------------------------


def test_a_folder_is_run_once(pods: Pods, tmp_path: Path) -> None:
    folder = pods.start(script(f"echo x >> {tmp_path}/ran; sleep 0.2"))
    for _ in range(5):
        pods.launcher.launch(folder)
    pods.ended(folder)
    pods.launcher.launch(folder)
    count = 0

    def told() -> bool:
        nonlocal count
        count += pods.launcher.ended().count(folder)
        return count == 7

    wait_for(told)
    assert (tmp_path / "ran").read_text() == "x\n"


@pytest.mark.slow
def test_pods_outlive_who_asked_for_them(pods: Pods) -> None:
    pods.launcher = Launcher()
    folder = pods.start(script("echo up; sleep 0.3; exit 7"))
    started(folder)
    zygote = pods.launcher._pid
    pods.launcher.close()
    assert Path(f"/proc/{zygote}").exists()
    assert code(pods.ended(folder)) == 7
    os.waitpid(zygote, 0)  # it ends by itself


def test_trouble_is_told(pods: Pods) -> None:
    folder = pods.folder / "broken"
    folder.mkdir()
    pods.launcher.launch(folder)  # there is no plan
    wait_for(lambda: (folder / "trouble.txt").exists())
    assert "plan.json" in (folder / "trouble.txt").read_text()
    assert (folder / LOCK).exists()


# --- probes ----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_readiness_is_what_its_probe_says(pods: Pods, tmp_path: Path) -> None:
    flag = tmp_path / "ready"
    folder = pods.start(script("sleep 609"), script("sleep 609", "probed", readiness=probe(f"test -e {flag}")))
    wait_for(lambda: (found := read_record(folder)) is not None and one(found).is_ready)
    assert not one(read_record(folder), "probed").is_ready
    flag.touch()
    wait_for(lambda: one(read_record(folder), "probed").is_ready)
    pods.stop(folder, 0)
    assert not one(pods.ended(folder), "probed").is_ready


@pytest.mark.slow
def test_who_fails_its_liveness_probe_is_started_again(pods: Pods, tmp_path: Path) -> None:
    flag = tmp_path / "dead"
    folder = pods.start(
        script(f"rm -f {flag}; sleep 0.1; touch {flag}; sleep 610", liveness=probe(f"! test -e {flag}", failures=1)),
        restart="Always",
    )
    wait_for(lambda: (found := read_record(folder)) is not None and one(found).restarts > 0)
    record = read_record(folder)
    assert record is not None
    assert {"Unhealthy", "Killing"} <= set(reasons(record))
    pods.stop(folder, 0)
    pods.ended(folder)


@pytest.mark.slow
def test_http_probes(pods: Pods) -> None:
    serve = "import http.server as h; h.HTTPServer(('127.0.0.1', {port}), h.SimpleHTTPRequestHandler).serve_forever()"
    port = free_port()
    folder = pods.start(
        container(
            "python3", "-S", "-c", serve.format(port=port), readiness=ProbePlan(Handler(http=Http(port)), period_s=1)
        ),
        script("sleep 611", "lost", readiness=ProbePlan(Handler(http=Http(port, path="/no")), period_s=1)),
        script("sleep 611", "tcp", readiness=ProbePlan(Handler(tcp=("127.0.0.1", port)), period_s=1)),
    )

    def all_but_lost() -> bool:
        record = read_record(folder)
        ready = {each.name for each in record.containers if each.is_ready} if record is not None else set()
        return ready == {"work", "tcp"}

    wait_for(all_but_lost)
    pods.stop(folder, 0)
    pods.ended(folder)


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


# --- logs ------------------------------------------------------------------------------------------------------------


def test_a_log_is_bounded_and_keeps_the_newest(pods: Pods) -> None:
    folder = pods.start(script("seq 400000"), log_bytes=1 << 20)
    pods.ended(folder)
    kept = log(folder)
    assert kept.endswith(b"399999\n400000\n")
    assert (1 << 20) * 7 // 8 <= len(kept) <= (1 << 20) + 64 * 1024 * 8


def test_binary_output_is_kept_byte_by_byte(pods: Pods) -> None:
    data = bytes(range(256)) * 100
    folder = pods.start(container("python3", "-S", "-c", f"import os; os.write(1, {data[:256]!r} * 100)"))
    pods.ended(folder)
    assert log(folder) == data
