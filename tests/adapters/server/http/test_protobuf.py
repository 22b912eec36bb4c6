"""Bodies in protobuf: recorded ones of kubectl, and all fields of a Pod, there and back."""

from __future__ import annotations

import random
import string
from typing import Any

import pytest

from makeway.adapters.server.http.protobuf import ANYTHING, UNREAD, Misread, _numbers, decoded
from makeway.api.objects.kubernetes import (
    ConfigMap,
    Job,
    Namespace,
    Node,
    Pod,
    PodDisruptionBudget,
    PriorityClass,
    Secret,
    SelfSubjectAccessReview,
    SelfSubjectReview,
    SelfSubjectRulesReview,
)
from makeway.api.objects.meta import Wire
from makeway.api.quantity import MicroTime, Time
from makeway.api.schema.kubernetes_types import fields_of, type_names
from makeway.api.schema.shapes import Field, Leaf, ListOf, MapOf, Record, kubernetes_kind

RECORDED: list[tuple[type[Wire], str, dict[str, Any]]] = [
    (
        Namespace,
        "6b3873000a0f0a02763112094e616d657370616365121c0a140a047465616d12001a0022002a0032003800420012001a"
        "020a001a002200",
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}},
    ),
    (
        ConfigMap,
        "6b3873000a0f0a0276311209436f6e6669674d617012200a160a02633112001a047465616d22002a0032003800420012"
        "060a01611201621a002200",
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c1", "namespace": "team"}, "data": {"a": "b"}},
    ),
    (
        Secret,
        "6b3873000a0c0a027631120653656372657412220a160a02733112001a047465616d22002a0032003800420012060a01"
        "701201711a001a002200",
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s1", "namespace": "team"}, "data": {"p": "cQ=="}},
    ),
    (
        Job,
        "6b3873000a0f0a0862617463682f763112034a6f621288010a160a026a3112001a047465616d22002a00320038004200"
        "126432620a100a0012001a0022002a00320038004200124e122b0a026a31120762757379626f781a05736c6565701a01"
        "312a0042006a007200800100880100900100a201001a054e65766572320042004a0052005800600068008201008a0100"
        "9a0100c201001a082000280030003a001a002200",
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": "j1", "namespace": "team"},
            "spec": {
                "template": {
                    "spec": {
                        "containers": [{"name": "j1", "image": "busybox", "command": ["sleep", "1"]}],
                        "restartPolicy": "Never",
                    }
                }
            },
        },
    ),
    (
        PriorityClass,
        "6b3873000a250a147363686564756c696e672e6b38732e696f2f7631120d5072696f72697479436c61737312330a140a"
        "046869676812001a0022002a0032003800420010e807180022002a14507265656d70744c6f7765725072696f72697479"
        "1a002200",
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": "high"},
            "value": 1000,
            "preemptionPolicy": "PreemptLowerPriority",
        },
    ),
    (
        PodDisruptionBudget,
        "6b3873000a200a09706f6c6963792f76311213506f6444697372757074696f6e427564676574123d0a180a0470646231"
        "12001a047465616d22002a00320038004200121512080a060a01611201621a09080110001a033230251a0a0800180020"
        "00280030001a002200",
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": "pdb1", "namespace": "team"},
            "spec": {"selector": {"matchLabels": {"a": "b"}}, "maxUnavailable": "20%"},
        },
    ),
    (
        SelfSubjectAccessReview,
        "6b3873000a320a17617574686f72697a6174696f6e2e6b38732e696f2f7631121753656c665375626a65637441636365"
        "7373526576696577123f0a100a0012001a0022002a0032003800420012210a1f0a0764656661756c74120664656c6574"
        "651a0022002a04706f647332003a001a08080012001a0020001a002200",
        {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": {"namespace": "default", "verb": "delete", "resource": "pods"}},
        },
    ),
    (
        SelfSubjectReview,
        "6b3873000a2d0a1861757468656e7469636174696f6e2e6b38732e696f2f7631121153656c665375626a656374526576"
        "696577121a0a100a0012001a0022002a0032003800420012060a040a0012001a002200",
        {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"},
    ),
    (
        SelfSubjectRulesReview,
        "6b3873000a310a17617574686f72697a6174696f6e2e6b38732e696f2f7631121653656c665375626a65637452756c65"
        "7352657669657712230a100a0012001a0022002a0032003800420012090a0764656661756c741a04180022001a002200",
        {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectRulesReview", "spec": {"namespace": "default"}},
    ),
]


@pytest.mark.parametrize(("type_", "data", "tree"), RECORDED, ids=lambda each: getattr(each, "__name__", ""))
def test_what_kubectl_sends_is_read_as_json_would_be(type_: type[Wire], data: str, tree: dict[str, Any]) -> None:
    assert decoded(bytes.fromhex(data), kubernetes_kind(type_)) == tree


def test_every_field_of_every_type_has_a_number() -> None:
    missing = set()
    for name in type_names():
        numbers = _numbers().get(name)
        tables = [] if numbers is None else [numbers, *numbers.hidden.values()]
        known = {each for table in tables for each, _ in table.names.values()}
        is_named = "metadata" in fields_of(name) or name == "DeleteOptions"
        known |= {"apiVersion", "kind"} if is_named else set()  # these stand in the envelope
        missing |= {(name, each) for each in fields_of(name) if each not in known}
    assert {each for each in missing if each[0] != "WorkloadReference"} == {("PodSpec", "workloadRef")}  # api 12: ours


# --- there and back --------------------------------------------------------------------------------------------------


def varint(value: int) -> bytes:
    value &= 2**64 - 1
    data = bytearray()
    while value >= 0x80:
        data.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*data, value])


def field(number: int, value: int | bytes) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


class Writer:
    """A random tree of a type with its bytes, as Go would write them."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)

    def word(self) -> str:
        return "".join(self.dice.choices(string.ascii_lowercase, k=self.dice.randint(1, 6)))

    def message(self, shape: Record, depth: int = 0) -> tuple[dict[str, Any], bytes]:
        tree: dict[str, Any] = {}
        numbers = _numbers()[shape.name]
        data = self._fields(shape, numbers.names, tree, depth)
        for number, inner in numbers.hidden.items():
            data += field(number, self._fields(shape, inner.names, tree, depth))
        return tree, data

    def _fields(self, shape: Record, names: dict[int, tuple[str, bool]], tree: dict[str, Any], depth: int) -> bytes:
        data = b""
        for number, (name, is_pointer) in names.items():
            known = shape.fields.get(name)
            if known is None or self.dice.random() < 0.3 + 0.15 * depth:
                continue
            if name == UNREAD:
                data += field(number, field(1, b"who"))
                continue
            written, parts = self.value(known, depth)
            if written is None:
                continue
            if is_pointer or written not in ("", 0, False, {}, []):
                tree[name] = written
            data += b"".join(field(number, part) for part in parts)
        return data

    def value(self, known: Field, depth: int) -> tuple[Any, list[int | bytes]]:
        shape, dice = known.shape, self.dice
        if isinstance(shape, ListOf):
            items = [self.value(shape.item, depth + 1) for _ in range(dice.randint(1, 2))]
            return [tree for tree, _ in items], [part for _, parts in items for part in parts]
        if isinstance(shape, MapOf) and shape.item.shape == ANYTHING:
            return {}, [b""]
        if isinstance(shape, MapOf):
            key = self.word()
            tree, (part,) = self.value(shape.item, depth + 1)
            return {key: tree}, [field(1, key.encode()) + field(2, part)]
        if isinstance(shape, Record):
            tree, data = self.message(shape, depth + 1)
            return tree, [data]
        return self.leaf(shape)

    def leaf(self, shape: Leaf) -> tuple[Any, list[int | bytes]]:
        dice = self.dice
        number = dice.choice((0, 1, -1, 7, 2**31 - 1))
        match shape.name:
            case "int32" | "int64":
                return number, [number]
            case "boolean":
                return bool(number), [int(bool(number))]
            case "bytes":
                return "YQ==", [b"a"]
            case "quantity":
                return "10Gi", [field(1, b"10Gi")]
            case "time":
                return Time(5 * 10**9).text, [field(1, 5) + field(2, 0)]
            case "microTime":
                return MicroTime(5 * 10**9 + 1000).text, [field(1, 5) + field(2, 1000)]
            case "intOrString":
                text = self.word()
                if dice.random() < 0.5:
                    return text, [field(1, 1) + field(2, 0) + field(3, text.encode())]
                return number, [field(1, 0) + field(2, number) + field(3, b"")]
            case "any" | "number":
                return None, []
            case "enum":
                return shape.allowed[0], [shape.allowed[0].encode()]
        text = self.word()
        return text, [text.encode()]


@pytest.mark.property
@pytest.mark.parametrize("type_", [Pod, Job, Node], ids=lambda each: each.__name__)
def test_what_go_would_write_is_read_back(type_: type[Wire], fuzz_inputs: int, fuzz_seed: int) -> None:
    shape = kubernetes_kind(type_)
    for seed in range(fuzz_seed, fuzz_seed + max(10, fuzz_inputs // 50)):
        tree, data = Writer(seed).message(shape)
        envelope = b"k8s\0" + field(1, field(1, b"v1") + field(2, b"Pod")) + field(2, data)
        assert decoded(envelope, shape) == {"apiVersion": "v1", "kind": "Pod", **tree}, seed


@pytest.mark.property
def test_any_other_bytes_are_misread_and_no_more(fuzz_inputs: int, fuzz_seed: int) -> None:
    shape = kubernetes_kind(Pod)
    dice = random.Random(fuzz_seed)
    _, good = Writer(1).message(shape)
    whole = b"k8s\0" + field(2, good)
    for _ in range(fuzz_inputs // 10):
        data = bytearray(whole)
        for _ in range(dice.randint(1, 5)):
            at = dice.randrange(4, len(data))
            data[at : at + dice.randrange(3)] = dice.randbytes(dice.randrange(3))
        try:
            assert isinstance(decoded(bytes(data), shape), dict)
        except Misread:
            continue
