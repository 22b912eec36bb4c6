"""The plan of a pod, from the pod as users write it: the table of fields, row by row."""

from __future__ import annotations

import tracemalloc
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from makeway.adapters.node.environment import WORD_BYTES_MAX, NodePlace, NotThere, expanded
from makeway.adapters.node.fields import NodeContext, PlannedPod, gpus_in, planned
from makeway.adapters.node.supervision.records import ContainerPlan, Handler, Http, ProbePlan
from makeway.adapters.node.volumes import Folder, make
from makeway.api import codec
from makeway.api.objects.kubernetes import Pod
from makeway.api.quantity import Quantity

Tree = dict[str, Any]
FOLDER = Path("/pods/u-1")
MACHINE = NodeContext(
    NodePlace("here", "10.0.0.1", {"cpu": Quantity.parse("4"), "memory": Quantity.parse("8Gi")}),
    images={"torch/*": ("conda", "run", "-n", "torch"), "torch/cpu:?": ("venv-run",), "tool": ("tool", "--quiet")},
    base={"PATH": "/bin"},
    agent="/run/agent.sock",
)


@dataclass
class Known:
    """The existing Secrets and ConfigMaps."""

    secrets: Mapping[str, Mapping[str, bytes]] = field(default_factory=dict)
    config_maps: Mapping[str, Mapping[str, bytes]] = field(default_factory=dict)

    def secret(self, namespace: str, name: str) -> Mapping[str, bytes] | None:
        return self.secrets.get(f"{namespace}/{name}")

    def config_map(self, namespace: str, name: str) -> Mapping[str, bytes] | None:
        return self.config_maps.get(f"{namespace}/{name}")


KNOWN = Known({"default/key": {"token": b"s3cret", "raw": b"\xff"}}, {"default/settings": {"MODE": b"fast"}})


def pod(*containers: Tree, labels: Tree | None = None, **spec: Any) -> Pod:
    tree = {
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": "p", "namespace": "default", "uid": "u-1", "labels": labels or {"app": 'a"b'},
            "annotations": {"batch.kubernetes.io/job-completion-index": "3"},
        },
        "spec": {"containers": list(containers) or [work()], "restartPolicy": "Never", **spec},
    }  # fmt: skip
    value = codec.read(tree).value
    assert isinstance(value, Pod)
    return value


def work(**more: Any) -> Tree:
    return {"name": "work", "image": "busybox", "command": ["run"], **more}


def plan(each: Pod, machine: NodeContext = MACHINE, **more: Any) -> PlannedPod:
    return planned(each, FOLDER, machine, KNOWN, **more)


def the_one(*containers: Tree, **more: Any) -> ContainerPlan:
    (found,) = plan(pod(*containers, **more)).plan.containers
    return found


# --- images and commands ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("container", "words"),
    [
        (work(args=["a", "b"]), ("run", "a", "b")),
        (work(image="torch/gpu:1", args=["x"]), ("conda", "run", "-n", "torch", "run", "x")),
        (work(image="torch/cpu:1"), ("venv-run", "run")),  # the longest glob
        ({"name": "work", "image": "tool", "args": ["-v"]}, ("tool", "--quiet", "-v")),
        ({"name": "work", "image": "registry.k8s.io/pause:3.9"}, ("sleep", "infinity")),
        ({"name": "work", "image": "example.com/tests/sleep:v0.1.0", "args": ["30s"]}, ("sleep", "30s")),
        (work(image="registry.k8s.io/pause:3.9"), ("run",)),
        (
            work(env=[{"name": "N", "value": "5"}], args=["$(N)", "$$(N)", "$(NO)", "$N"]),
            ("run", "5", "$(N)", "$(NO)", "$N"),
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_what_is_run_for_an_image(container: Tree, words: tuple[str, ...]) -> None:
    assert the_one(container).argv == words


def test_an_image_without_command_and_mapping_says_what_to_do() -> None:
    with pytest.raises(NotThere) as told:
        plan(pod({"name": "work", "image": "torchless", "args": ["x"]}))
    assert told.value.reason == "ImageNotRunnable"
    assert str(told.value) == (
        'container work: image "torchless" is not run on this machine: give the container a command, or map the image'
        " to one in makeway.images of the configuration file"
    )


# --- variables -------------------------------------------------------------------------------------------------------


def value_of(source: Tree, **more: Any) -> str | None:
    return the_one(work(env=[{"name": "V", "valueFrom": source}], **more)).env.get("V")


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ({"secretKeyRef": {"name": "key", "key": "token"}}, "s3cret"),
        ({"secretKeyRef": {"name": "key", "key": "no", "optional": True}}, None),
        ({"configMapKeyRef": {"name": "settings", "key": "MODE"}}, "fast"),
        ({"fieldRef": {"fieldPath": "metadata.name"}}, "p"),
        ({"fieldRef": {"fieldPath": "metadata.annotations['batch.kubernetes.io/job-completion-index']"}}, "3"),
        ({"fieldRef": {"fieldPath": "metadata.labels"}}, 'app="a\\"b"'),
        ({"fieldRef": {"fieldPath": "spec.nodeName"}}, "here"),
        ({"fieldRef": {"fieldPath": "status.podIP"}}, "10.0.0.1"),
        ({"resourceFieldRef": {"resource": "limits.cpu"}}, "4"),  # none is set: all that the node has
        ({"resourceFieldRef": {"resource": "requests.memory", "divisor": "1Mi"}}, "1"),
    ],
)
def test_where_a_variable_comes_from(source: Tree, value: str | None) -> None:
    resources = {"requests": {"memory": "1000000"}}
    assert value_of(source, resources=resources) == value


@pytest.mark.parametrize(
    ("container", "message"),
    [
        (work(envFrom=[{"secretRef": {"name": "gone"}}]), 'container work: secret "gone" not found'),
        (
            work(env=[{"name": "V", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "x"}}}]),
            'container work: configmap "settings" has no key "x"',
        ),
        (
            work(env=[{"name": "V", "valueFrom": {"fieldRef": {"fieldPath": "status.phase"}}}]),
            'container work: fieldPath "status.phase" is not supported',
        ),
    ],
)
def test_what_is_missing_is_waited_for(container: Tree, message: str) -> None:
    with pytest.raises(NotThere) as told:
        plan(pod(container))
    assert (told.value.reason, str(told.value)) == ("CreateContainerConfigError", message)


def test_variables_come_in_their_order() -> None:
    env = the_one(
        work(
            envFrom=[{"configMapRef": {"name": "settings"}}, {"prefix": "S_", "secretRef": {"name": "key"}}],
            env=[{"name": "A", "value": "$(MODE)-$(S_token)"}, {"name": "MODE", "value": "slow"}],
        )
    ).env
    assert (env["A"], env["MODE"], env["S_raw"]) == ("fast-s3cret", "slow", "\udcff")
    assert (env["PATH"], env["HOSTNAME"], env["MAKEWAY_POD_UID"]) == ("/bin", "p", "u-1")


def test_a_reference_is_read_as_kubernetes_reads_it() -> None:
    assert expanded("$(A)$$(A)$$$(A) $(B) $ $(", {"A": "x"}) == "x$(A)$x $(B) $ $("


# --- no more than a process can be given -----------------------------------------------------------------------------


def doubling(base: str, times: int, steps: int) -> list[Tree]:
    """Variables of which each refers to the one before several times."""
    more = [{"name": f"A{i}", "value": f"$(A{i - 1})" * times} for i in range(1, steps + 1)]
    return [{"name": "A0", "value": base}, *more]


BOMB = doubling("x" * 100, 10, 8)  # 10 GB
LARGE = Known(
    {"default/large": {f"k{i}": b"x" * 100_000 for i in range(10)}}, {"default/one": {"k": b"x" * WORD_BYTES_MAX}}
)


@pytest.mark.parametrize(
    ("container", "message"),
    [
        (work(env=BOMB), 'container work: variable "A4" has 1000000 characters with its variables put in, at most'),
        (work(env=BOMB[:4], args=["$(A3)$(A3)"]), "container work: the command has 200000 characters with its"),
        (work(env=BOMB[:4], args=["$(A3)"] * 11), "container work: the command does not fit: all variables and words"),
        (work(args=["x" * 200_000]), "container work: the command has 200000 characters with its variables put in"),
        (work(env=[{"name": "V", "value": "ä" * 70_000}]), 'container work: variable "V" has 140003 bytes, at most'),
        (
            work(envFrom=[{"secretRef": {"name": "large"}}, {"prefix": "P", "secretRef": {"name": "large"}}]),
            'container work: variable "Pk0" does not fit: all variables and words together have at most 1048576 bytes',
        ),
        (work(envFrom=[{"configMapRef": {"name": "one"}}]), 'container work: variable "k" has 131074 bytes, at most'),
        (
            work(env=[{"name": "V", "valueFrom": {"configMapKeyRef": {"name": "one", "key": "k"}}}]),
            'container work: variable "V" has 131074 bytes, at most',
        ),
        (
            work(env=[{"name": "V", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels"}}}]),
            'container work: variable "V" has 200009 bytes, at most',
        ),
    ],
)
def test_more_than_a_process_can_be_given_is_not_even_made(container: Tree, message: str) -> None:
    each = pod(container, labels={"app": "x" * 200_000})
    tracemalloc.start()
    try:
        with pytest.raises(NotThere) as told:
            planned(each, FOLDER, MACHINE, LARGE)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (told.value.reason, str(told.value)[: len(message)]) == ("CreateContainerConfigError", message)
    assert most < 4_000_000


def test_what_a_variable_had_before_is_not_counted() -> None:
    again = [{"name": "V", "value": "x" * 100_000}] * 50
    assert the_one(work(env=again)).env["V"] == "x" * 100_000


def test_all_containers_share_one_bound() -> None:
    many = [work(name=f"c{i}", envFrom=[{"secretRef": {"name": "large"}}]) for i in range(200)]
    looked = []

    class Counting(Known):
        def secret(self, namespace: str, name: str) -> Mapping[str, bytes] | None:
            looked.append(name)
            return super().secret(namespace, name)

    with pytest.raises(NotThere, match="container c16: variables and words of all containers together have more than"):
        planned(pod(*many), FOLDER, MACHINE, Counting(LARGE.secrets))
    assert len(looked) == 17


def test_no_glob_is_looked_for_in_a_page_of_text() -> None:
    machine = NodeContext(MACHINE.place, images={"*a*a*a*a*a*b": ("x",)}, base={}, agent="")
    with pytest.raises(NotThere, match=r'image "aaaaaa.*…" is not run on this machine'):
        plan(pod({"name": "work", "image": "a" * 100_000}), machine)


# --- the rest of the table -------------------------------------------------------------------------------------------


def test_probes_hooks_and_times() -> None:
    found = plan(
        pod(
            work(
                ports=[{"name": "web", "containerPort": 8080}],
                readinessProbe={"httpGet": {"port": "web", "path": "/up"}, "periodSeconds": 3},
                livenessProbe={"exec": {"command": ["ok"]}, "terminationGracePeriodSeconds": 4},
                startupProbe={"tcpSocket": {"port": 9}},
                lifecycle={"preStop": {"sleep": {"seconds": 2}}, "stopSignal": "SIGINT"},
            ),
            initContainers=[work(name="first"), work(name="beside", restartPolicy="Always")],
            terminationGracePeriodSeconds=7,
            activeDeadlineSeconds=60,
            restartPolicy="OnFailure",
        )
    ).plan
    first, beside, main = found.containers
    assert (first.role, beside.role, main.role) == ("init", "sidecar", "app")
    assert main.readiness == ProbePlan(Handler(http=Http(8080, path="/up")), period_s=3)
    assert main.liveness == ProbePlan(Handler(("ok",)), grace_s=4)
    assert main.startup == ProbePlan(Handler(tcp=("127.0.0.1", 9)))
    assert (main.pre_stop, main.stop_signal) == (Handler(sleep_s=2), 2)
    assert (found.grace_s, found.deadline_s, found.restart) == (7, 60, "OnFailure")


def test_folders_and_memory() -> None:
    assert the_one().folder == str(FOLDER / "scratch")
    found = the_one(work(workingDir="/data", resources={"limits": {"memory": "64Mi"}}))
    assert (found.folder, found.memory_bytes) == ("/data", 64 << 20)


def test_gpus_are_given_out_and_hidden_from_others() -> None:
    two = pod(
        work(resources={"limits": {"nvidia.com/gpu": 2, "memory": "1Gi"}}), work(name="other"),
        initContainers=[work(name="first", resources={"limits": {"nvidia.com/gpu": 1}})],
    )  # fmt: skip
    assert gpus_in(two) == 2
    machine = NodeContext(MACHINE.place, gpus=("0", "1", "2"))
    first, main, other = plan(two, machine, devices=("1", "2")).plan.containers
    assert [each.env["CUDA_VISIBLE_DEVICES"] for each in (first, main, other)] == ["1", "1,2", ""]
    assert main.memory_bytes is None
    assert "CUDA_VISIBLE_DEVICES" not in the_one().env


def test_volumes_are_folders(tmp_path: Path) -> None:
    volumes = [
        {"name": "a-b", "emptyDir": {}},
        {"name": "host", "hostPath": {"path": str(tmp_path), "type": "Directory"}},
        {"name": "key", "secret": {"secretName": "key", "items": [{"key": "token", "path": "in/t", "mode": 0o400}]}},
        {"name": "conf", "configMap": {"name": "settings"}},
    ]
    found = planned(pod(volumes=volumes), tmp_path, MACHINE, KNOWN)
    for folder in found.folders:
        make(folder)
    env = found.plan.containers[0].env
    assert Path(env["MAKEWAY_VOLUME_A_B"]).is_dir()
    assert env["MAKEWAY_VOLUME_HOST"] == str(tmp_path)
    secret = Path(env["MAKEWAY_VOLUME_KEY"], "in/t")
    assert (secret.read_bytes(), secret.stat().st_mode & 0o777) == (b"s3cret", 0o400)
    assert Path(env["MAKEWAY_VOLUME_CONF"], "MODE").read_bytes() == b"fast"


@pytest.mark.parametrize(
    ("volume", "message"),
    [
        ({"hostPath": {"path": "/no/such", "type": "Directory"}}, 'hostPath "/no/such" is not there, or no Directory'),
        ({"secret": {"secretName": "gone"}}, 'secret "gone" not found'),
        (
            {"configMap": {"name": "settings", "items": [{"key": "x", "path": "x"}]}},
            'configmap "settings" has no key "x"',
        ),
        (
            {"configMap": {"name": "settings", "items": [{"key": "MODE", "path": "../x"}]}},
            'the path "../x" leads out of its volume',
        ),
    ],
)
def test_a_volume_that_cannot_be_made_is_waited_for(volume: Tree, message: str) -> None:
    with pytest.raises(NotThere) as told:
        plan(pod(volumes=[{"name": "v", **volume}]))
    assert (told.value.reason, str(told.value)) == ("FailedMount", message)


def test_a_folder_that_the_machine_refuses_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(NotThere, match="cannot be made: Not a directory"):
        make(Folder(tmp_path / "file" / "below"))


def test_what_is_not_honoured_is_told() -> None:
    asks = pod(
        work(
            securityContext={"runAsUser": 1},
            volumeMounts=[{"name": "v", "mountPath": "/data"}],
            livenessProbe={"grpc": {"port": 1}},
            lifecycle={"postStart": {"exec": {"command": ["x"]}}},
        ),
        volumes=[
            {"name": "v", "emptyDir": {"sizeLimit": "1Gi"}},
            {"name": "disk", "persistentVolumeClaim": {"claimName": "c"}},
        ],
        hostNetwork=True,
    )
    assert plan(asks).warnings == (
        "hostNetwork: every pod shares the network of this machine",
        "volume v: its sizeLimit is not enforced",
        "volume disk: only emptyDir, hostPath, secret and configMap are served",
        "container work: securityContext has no effect",
        "container work: nothing is mounted at /data; use $MAKEWAY_VOLUME_V",
        "container work: lifecycle.postStart is not run",
        "container work: its liveness probe is neither exec, httpGet nor tcpSocket",
    )
    assert plan(pod()).warnings == ()
