"""The limits of Kubernetes types: the table fits the types, and has every closed set of words that we read."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any, Literal, get_args, get_origin, get_type_hints

import msgspec
import pytest

from makeway.api import codec
from makeway.api.forms import FORMS, is_file_name, is_inside, is_port_name
from makeway.api.objects import kubernetes, meta, pods
from makeway.api.objects.meta import Limit, Wire
from makeway.api.problems import Problem
from makeway.api.schema.kubernetes_limits import FieldBounds, bounded_types, bounds_of
from makeway.api.schema.kubernetes_rules import RULES
from makeway.api.schema.kubernetes_types import FieldType, fields_of, type_names

NUMBERS = ("int32", "int64", "quantity")


def bounded() -> Iterator[tuple[str, FieldType, FieldBounds]]:
    for owner in bounded_types():
        for name, bounds in bounds_of(owner).items():
            yield f"{owner}.{name}", fields_of(owner)[name], bounds


def fits(limit: Limit, type_name: str) -> bool:
    if limit.form:
        return limit.form in FORMS and type_name in ("string", "intOrString")
    if limit.words:
        return type_name == "string"
    return limit.least is None or type_name in NUMBERS


def test_every_bound_is_of_a_field_that_can_have_it() -> None:
    found = list(bounded())
    assert len(found) > 150
    for path, field, bounds in found:
        if field.item is None:
            assert bounds.item == Limit() != bounds.own, path
            assert fits(bounds.own, field.name), path
        else:
            assert fits(bounds.item, field.item.name), path
            assert bounds.own == Limit(key_form=bounds.own.key_form), path
            assert not bounds.own.key_form or (field.kind == "map" and bounds.own.key_form in FORMS), path


def test_words_are_many_and_told_once() -> None:
    for path, _, bounds in bounded():
        words = bounds.own.words or bounds.item.words
        assert not words or len(words) == len(set(words)) > (1 if "Restart" not in path else 0), path


def test_every_form_and_every_rule_is_used() -> None:
    used = {each for _, _, b in bounded() for each in (b.own.form, b.own.key_form, b.item.form)}
    assert used - {""} == FORMS.keys()
    assert RULES.keys() <= set(type_names())


def closed_sets() -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """The words that structs accept, where a view would fail with any other word."""
    for module in (kubernetes, pods, meta):
        for each in vars(module).values():
            if isinstance(each, type) and issubclass(each, Wire) and each.__name__ in type_names():
                hints = get_type_hints(each)
                for field in msgspec.structs.fields(each):
                    words = _words(hints[field.name])
                    if words:
                        yield each.__name__, field.encode_name, words


def _words(hint: Any) -> tuple[str, ...]:
    if get_origin(hint) is Literal:
        return get_args(hint)
    return next((found for each in get_args(hint) if (found := _words(each))), ())


def test_no_word_passes_that_a_view_cannot_read() -> None:
    """A kind that is typed as a whole has its words from its struct; those of raw parts are in the table."""
    typed = {"PriorityClass", "DeleteOptions"}
    found = [each for each in closed_sets() if each[0] not in typed]
    assert len(found) >= 7
    for owner, name, words in found:
        if owner != "Toleration":  # of a flavor: the one of pods is plain text
            assert set(bounds_of(owner)[name].own.words) == set(words) - {""}, (owner, name)


@pytest.mark.parametrize("owner", [each for each in type_names() if each.endswith("Condition")])
def test_a_condition_of_whatever_type_is_true_false_or_unknown(owner: str) -> None:
    if owner != "VolumeHealthCondition":  # its status is a word of the driver
        assert bounds_of(owner)["status"].own.words == ("True", "False", "Unknown")


def read(tree: Any) -> list[Problem]:
    return codec.read(tree).problems


def pod(**spec: Any) -> dict[str, Any]:
    whole = {"containers": [{"name": "c"}], **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": whole}


@pytest.mark.parametrize("zero", ["", None])
def test_an_empty_word_is_none_where_go_has_no_pointer(zero: str | None) -> None:
    assert (
        read(pod(restartPolicy=zero, dnsPolicy=zero, nodeName=zero, tolerations=[{"key": "a", "effect": zero}])) == []
    )


def test_an_empty_word_behind_a_pointer_is_a_bad_one() -> None:
    (problem,) = read(pod(preemptionPolicy=""))
    assert str(problem) == 'spec.preemptionPolicy: "" is not supported; allowed: PreemptLowerPriority, Never'


def test_a_zero_passes_where_it_means_the_default() -> None:
    probe = {"exec": {"command": ["x"]}, "timeoutSeconds": 0, "periodSeconds": 0}
    container = {"name": "c", "ports": [{"containerPort": 1, "hostPort": 0}], "livenessProbe": probe}
    assert read(pod(containers=[container])) == []
    (problem,) = read(pod(containers=[{"name": "c", "ports": [{"containerPort": 0}]}]))
    assert str(problem) == "spec.containers[0].ports[0].containerPort: 0 is below the minimum of 1"


def test_recorded_objects_are_read_by_their_types_alone() -> None:
    """Objects of another server may have newer words than ours."""
    tree = pod(restartPolicy="Later", tolerations=[{"operator": "Near"}], activeDeadlineSeconds=-1)
    assert codec.read(tree, "Ignore", limits=False).problems == []
    assert len(codec.read(tree, "Ignore").problems) == 3


@pytest.mark.parametrize("text", ["a", "a.b", ".hidden", "A_b-c", "x" * 253])
def test_names_of_files(text: str) -> None:
    assert is_file_name(text)
    assert is_inside(text)


@pytest.mark.parametrize("text", ["", ".", "..", "../up", "..data", "a/b", "a\0", "a b", "x" * 254])
def test_what_names_no_file(text: str) -> None:
    assert not is_file_name(text)


@pytest.mark.parametrize("text", ["/a", "a/../b", "..", "..a", "a\0b"])
def test_paths_that_lead_out(text: str) -> None:
    assert not is_inside(text)


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        ("http", True),
        ("grpc-2", True),
        ("8080", False),
        ("a--b", False),
        ("-a", False),
        ("Http", False),
        ("x" * 16, False),
    ],
)
def test_names_of_ports(text: str, is_one: bool) -> None:
    assert is_port_name(text) is is_one


@pytest.mark.parametrize(
    ("form", "good", "bad"),
    [
        ("port", (1, 65535, "http"), (0, -1, 65536, "", "80")),
        ("count", (0, 3, "0%", "100%"), (-1, 2**31, "101%", "-1%", "3", "%")),
        ("address", ("10.0.0.7", "010.0.0.007", "::1"), ("", "10.0.0", "here", "fe80::1%eth0")),
        ("variable", ("A", "a.b-c", "A B"), ("", "A=B", "A\0", "é")),
        ("header", ("X-Key", "Host"), ("", "X Key", "X:", "X\n")),
    ],
)
def test_forms(form: str, good: tuple[Any, ...], bad: tuple[Any, ...]) -> None:
    assert [each for each in good if not FORMS[form].fits(each)] == []
    assert [each for each in bad if FORMS[form].fits(each)] == []


@pytest.mark.parametrize("text", ["0", "a", "-", ".", "a.", "a-", "0.", "/", "../", "%", "1%", "a/"])
def test_a_megabyte_is_judged_like_a_word(text: str) -> None:
    """A pattern with backtracking would not come to an end here."""
    for form in FORMS.values():
        form.fits(text * (1_000_000 // len(text)) + "\0")


def test_the_import_parses_nothing() -> None:
    code = (
        f"import sys; sys.path[:0] = {[entry for entry in sys.path if entry]!r}\n"
        "from makeway.api import codec; from makeway.api.schema import kubernetes_limits as limits\n"
        "print(limits.lines_of.cache_info().misses)"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.split() == ["0"]
