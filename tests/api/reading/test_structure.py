"""A tree checked against a shape: the problems and the resulting tree, in each of the three modes."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import pytest

from makeway.api.objects.meta import LABEL, NOT_EMPTY, REQUIRED, Limit, Wire, made, shown
from makeway.api.problems import Problem, entry, has_errors, warning
from makeway.api.quantity import Duration, MicroTime, Quantity, Time
from makeway.api.reading.documents import Tree
from makeway.api.reading.structure import Mode, Reader, did_you_mean, listed, short, told
from makeway.api.schema.shapes import Field, Leaf, ListOf, MapOf, Record, kubernetes_shape, shape_of


class Inner(Wire, frozen=True):
    name: Annotated[str, LABEL] = shown("main")
    size: int = 0


class Block(Wire, frozen=True):
    must: Annotated[str, NOT_EMPTY] = ""


class Thing(Wire, frozen=True):
    text: str = ""
    label: Annotated[str, LABEL, REQUIRED] = "x"
    long: Annotated[str, Limit(min_length=1, max_length=3)] = ""
    flag: bool = False
    number: Annotated[int, Limit(least=1)] = 0
    ratio: float = 0.0
    colour: Literal["Red", "Green"] = "Red"
    amount: Annotated[Quantity | None, Limit(least=0)] = None
    wait: Duration | None = None
    at: Time | None = None
    exactly: MicroTime | None = None
    data: bytes = b""
    anything: Any = None
    names: Annotated[tuple[str, ...], Limit(unique=True, max_items=3)] = ()
    pairs: Annotated[tuple[str, ...], Limit(min_items=2)] = ("a", "b")
    inner: Inner | None = None
    inners: Annotated[tuple[Inner, ...], Limit(keyed_by=("name",))] = ()
    sizes: dict[str, int] = {}  # noqa: RUF012
    block: Block | None = None
    moved: Annotated[str, Limit(unserved="teleportation")] = ""


SHAPE = shape_of(Thing)
REST = {"label": "x", "pairs": ["a", "b"]}


def read(tree: dict[str, Tree], mode: Mode = "Strict", *, limits: bool = True) -> tuple[Tree, list[Problem]]:
    reader = Reader(mode, limits=limits)
    return reader.read({**REST, **tree}, SHAPE), reader.problems


def words(tree: dict[str, Tree], mode: Mode = "Strict") -> list[str]:
    return [str(problem) for problem in read(tree, mode)[1]]


# --- types ----------------------------------------------------------------------------------------------------------

QUOTES = "put it in quotes"
WORDS = f"{QUOTES}; without them yes, no, on and off are true and false too"
NO_QUOTES = "write it without quotes"


@pytest.mark.parametrize(
    ("name", "value", "expected", "hint"),
    [
        ("text", 5, "a string, got 5", QUOTES),
        ("text", 1.5, "a string, got 1.5", QUOTES),
        ("text", True, "a string, got true", WORDS),
        ("text", ["a"], "a string, got a list", ""),
        ("text", {}, "a string, got a mapping", ""),
        ("flag", "true", 'true or false, got "true"', NO_QUOTES),
        ("flag", "yes", 'true or false, got "yes"', ""),
        ("flag", 1, "true or false, got 1", ""),
        ("number", "5", 'a whole number, got "5"', NO_QUOTES),
        ("number", "5.5", 'a whole number, got "5.5"', ""),
        ("number", 5.5, "a whole number, got 5.5", ""),
        ("number", False, "a whole number, got false", ""),
        ("ratio", "5.5", 'a number, got "5.5"', NO_QUOTES),
        ("ratio", True, "a number, got true", ""),
        ("colour", 5, "one of Red, Green, got 5", QUOTES),
        ("amount", True, "a quantity, got true", "for example 4, 500m, 1.5 or 32Gi"),
        ("amount", [], "a quantity, got a list", "for example 4, 500m, 1.5 or 32Gi"),
        ("wait", 60, "a duration, got 60", "for example 90s, 4h or 1h30m"),
        ("at", 5, "a time, got 5", "for example 2026-01-31T12:00:00Z"),
        ("exactly", 5, "a time, got 5", "for example 2026-01-31T12:00:00.000000Z"),
        ("names", "a", 'a list, got "a"', ""),
        ("sizes", ["a"], "a mapping, got a list", ""),
        ("inner", "a", 'a mapping, got "a"', ""),
    ],
)
def test_a_value_of_the_wrong_type_is_told_with_what_to_write(name: str, value: Tree, expected: str, hint: str) -> None:
    tree, problems = read({name: value})
    assert problems == [Problem(name, f"expected {expected}", hint, cause="TypeInvalid")]
    assert name not in tree


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("amount", "4 cores", "is not a quantity: unknown suffix ' cores'"),
        ("wait", "4", "is not a duration: expected numbers with units"),
        ("at", "today", "is not a time: expected RFC 3339"),
        ("exactly", "today", "is not a time: expected RFC 3339"),
        ("data", "a", "the text is not base64"),
        ("data", "YQ=", "the text is not base64"),
        ("data", "entitled==", "the text is not base64"),
        ("number", 2**31, "2147483648 is outside the range of int32, -2147483648 to 2147483647"),
        ("number", -(2**31) - 1, "-2147483649 is outside the range of int32, -2147483648 to 2147483647"),
    ],
)
def test_a_value_that_cannot_be_read_is_left_out(name: str, value: Tree, message: str) -> None:
    tree, (problem,) = read({name: value})
    assert (problem.path, problem.cause) == (name, "TypeInvalid")
    assert message in problem.message
    assert name not in tree


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("text", ""), ("flag", False), ("number", 1), ("number", 2**31 - 1), ("ratio", 1), ("ratio", 0.5),
        ("colour", "Green"), ("amount", 4), ("amount", 1.5), ("amount", "32Gi"), ("wait", "1h30m"),
        ("at", "2026-01-31T12:00:00Z"), ("exactly", "2026-01-31T12:00:00.000001Z"), ("data", "YQ=="), ("data", ""),
        ("anything", {"a": [None, 1]}), ("names", ["a"]), ("sizes", {"a b": 1}), ("inner", {}),
    ],
)  # fmt: skip
def test_a_value_of_the_right_type_is_kept_as_it_is(name: str, value: Tree) -> None:
    tree, problems = read({name: value})
    assert problems == []
    assert tree[name] == value


@pytest.mark.parametrize(("name", "value"), [("names", []), ("sizes", {}), ("inners", [])])
def test_an_empty_list_or_map_that_absence_stands_for_is_left_out(name: str, value: Tree) -> None:
    tree, problems = read({name: value})
    assert problems == []
    assert name not in tree


def test_an_empty_list_that_is_not_the_default_is_judged_and_kept() -> None:
    tree, problems = read({"pairs": []})
    assert [problem.path for problem in problems] == ["pairs"]
    assert tree["pairs"] == []


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ({"nodeSelector": {}, "tolerations": [], "imagePullSecrets": []}, {}),
        ({"affinity": {"nodeAffinity": {}}, "securityContext": {"sysctls": []}},
         {"affinity": {"nodeAffinity": {}}, "securityContext": {}}),
        ({"containers": []}, {"containers": []}),
        ({"volumes": [{"name": "v", "emptyDir": {}}, {"name": "w", "configMap": {"items": []}}]},
         {"volumes": [{"name": "v", "emptyDir": {}}, {"name": "w", "configMap": {}}]}),
        ({"topologySpreadConstraints": [{"labelSelector": {"matchLabels": {}}}]},
         {"topologySpreadConstraints": [{"labelSelector": {}}]}),
        ({"containers": [{"resources": {"requests": {}}, "env": [], "image": ""}]},
         {"containers": [{"resources": {}, "image": ""}]}),
        ({"newer": {"list": []}}, {"newer": {"list": []}}),
    ],
)  # fmt: skip
def test_of_kubernetes_types_only_optional_lists_and_maps_are_left_out(written: Tree, shown: Tree) -> None:
    reader = Reader("Ignore", limits=False)
    assert reader.read(written, kubernetes_shape("PodSpec")) == shown


def test_an_object_without_fields_is_no_empty_map() -> None:
    policy: Tree = {"schedulingPolicy": {"basic": {}}, "disruptionMode": {"all": {}}}
    assert Reader("Ignore", limits=False).read(policy, kubernetes_shape("JobSchedulingConfiguration")) == policy


def test_a_template_shows_no_empty_labels() -> None:
    written: Tree = {"metadata": {"labels": {}, "annotations": {}, "finalizers": []}}
    assert Reader().read(written, kubernetes_shape("PodTemplateSpec")) == {"metadata": {}}


def test_an_int_or_string_is_either_and_nothing_else() -> None:
    shape = Record("Port", {"port": Field(Leaf("intOrString"))})
    for value, count in ((80, 0), ("http", 0), (1.5, 1), (True, 1)):
        reader = Reader()
        reader.read({"port": value}, shape)
        assert [problem.message for problem in reader.problems] == [
            f"expected a whole number or a string, got {told(value)}"
        ] * count


@pytest.mark.parametrize(
    ("value", "hint"), [("red", "did you mean Red?"), ("Gren", "did you mean Green?"), ("Blue", ""), ("", "")]
)
def test_a_word_outside_a_closed_set_is_told_with_the_set_and_the_nearest(value: str, hint: str) -> None:
    tree, problems = read({"colour": value})
    message = f'"{value}" is not supported; allowed: Red, Green'
    assert problems == [Problem("colour", message, hint, cause="NotSupported")]
    assert "colour" not in tree


def test_a_closed_set_with_an_empty_word_shows_it() -> None:
    reader = Reader()
    reader.read({"a": "x"}, Record("R", {"a": Field(Leaf("enum", ("", "y")), Limit(outside="Invalid"))}))
    assert reader.problems == [Problem("a", '"x" is not supported; allowed: "", y', "", cause="Invalid")]


def test_items_keep_their_indexes_when_one_of_them_is_wrong() -> None:
    tree, problems = read({"inners": [5, {"name": "a"}], "names": [None, "b"], "pairs": [["x"], "c"]})
    assert {problem.path for problem in problems} == {"inners[0]", "names[0]", "pairs[0]"}
    assert tree["inners"] == [{}, {"name": "a"}]
    assert tree["names"] == ["", "b"]
    assert tree["pairs"] == ["", "c"]


@pytest.mark.parametrize(
    ("leaf", "stand_in"),
    [
        (Leaf("int32"), 0), (Leaf("boolean"), False), (Leaf("quantity"), "0"), (Leaf("enum", ("A", "B")), "A"),
        (Leaf("string"), ""), (MapOf(Field(Leaf("string"))), {}),
    ],
    ids=str,
)  # fmt: skip
def test_what_stands_for_a_wrong_item_can_be_decoded(leaf: Any, stand_in: Tree) -> None:
    shape = Record("R", {"list": Field(ListOf(Field(leaf))), "lists": Field(ListOf(Field(ListOf(Field(leaf)))))})
    reader = Reader()
    assert reader.read({"list": [None], "lists": [None]}, shape) == {"list": [stand_in], "lists": [[]]}
    assert len(reader.problems) == 2


# --- unknown fields -------------------------------------------------------------------------------------------------

KNOWN = "known here: name, size"


@pytest.mark.parametrize(("mode", "severity"), [("Strict", "error"), ("Warn", "warning")])
def test_an_unknown_field_is_pruned_and_told(mode: Mode, severity: Any) -> None:
    tree, problems = read({"inner": {"nam": "a"}}, mode)
    message, hint = f"unknown field; {KNOWN}", "did you mean name?"
    assert problems == [Problem("inner.nam", message, hint, cause="UnknownField", severity=severity)]
    assert tree["inner"] == {}


def test_an_unknown_field_is_pruned_without_a_word() -> None:
    tree, problems = read({"inner": {"nam": "a"}, "moved": "x"}, "Ignore")
    assert problems == []
    assert tree["inner"] == {}


@pytest.mark.parametrize("mode", ["Strict", "Warn", "Ignore"])
def test_an_unknown_field_of_a_kubernetes_type_is_kept(mode: Mode) -> None:
    shape = Record("Pod", {"name": Field(Leaf("string"))}, keeps_unknown=True)
    reader = Reader(mode)
    assert reader.read({"new": {"deep": None}, "name": "a"}, shape) == {"new": {"deep": None}, "name": "a"}
    assert [problem.path for problem in reader.problems] == ([] if mode == "Ignore" else ["new"])


def test_unknown_values_of_an_enum_are_refused_in_every_mode() -> None:
    for mode in ("Strict", "Warn", "Ignore"):
        assert has_errors(read({"colour": "Blue"}, mode)[1])


def test_of_many_known_fields_the_nearest_dozen_is_listed() -> None:
    (problem,) = read({"txt": 1})[1]
    assert problem.message == (
        "unknown field; known here: amount, anything, at, data, exactly, names, number, pairs, ratio, sizes, "
        "text, wait and 8 more"
    )
    assert problem.hint == "did you mean text?"


def test_a_block_that_knows_no_field_says_so() -> None:
    reader = Reader()
    reader.read({"a": 1}, Record("Empty", {}))
    assert [str(problem) for problem in reader.problems] == ["a: unknown field; known here: none"]


def test_near_names_are_sought_for_a_while_only() -> None:
    problems = read({f"text{i}": 1 for i in range(60)})[1]
    assert [bool(problem.hint) for problem in problems] == [True] * 50 + [False] * 10
    assert did_you_mean("x" * 101, ["x" * 101]) == ""


def test_a_hint_of_the_caller_comes_first() -> None:
    reader = Reader(hint_for=lambda path, value: f"{path} is not {value}")
    reader.read({**REST, "txt": 1, "colour": "x", "flag": 3}, SHAPE)
    assert [problem.hint for problem in reader.problems] == ["txt is not 1", "colour is not x", "flag is not 3"]


def test_a_field_of_a_module_that_is_not_there_is_kept_with_a_warning() -> None:
    tree, problems = read({"moved": "x"})
    assert tree["moved"] == "x"
    assert problems == [warning("moved", "kept, but without effect: teleportation is not part of makeway")]
    assert read({"moved": ""})[1] == []


def test_nulls_read_as_absent() -> None:
    tree, problems = read({"text": None, "inner": None, "sizes": {"a": None, "b": 1}, "names": None, "amount": None})
    assert problems == []
    assert tree == {**REST, "sizes": {"b": 1}}


# --- limits ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tree", "expected"),
    [
        ({"label": None}, ["label: required"]),
        ({"label": ""}, ["label: must not be empty"]),
        ({"label": "A"}, ['label: "A" is not a DNS label\n  hint: lower-case letters, digits and `-`; '
                          "it begins and ends with a letter or digit"]),
        ({"label": "a" * 64}, ["label: 64 characters long, more than the 63 allowed"]),
        ({"long": ""}, ["long: must not be empty"]),
        ({"long": "abcd"}, ["long: 4 characters long, more than the 3 allowed"]),
        ({"number": 0}, ["number: 0 is below the minimum of 1"]),
        ({"amount": "-1m"}, ["amount: -1m is negative"]),
        ({"amount": 0}, []),
        ({"names": ["a", "b", "a"]}, ['names: "a" is listed twice\n  hint: keep one of them']),
        ({"names": ["a", "b", "c", "d"]}, ["names: 4 entries, more than the 3 allowed"]),
        ({"pairs": ["a"]}, ["pairs: must have at least 2 entries"]),
        ({"pairs": None}, ["pairs: must have at least 2 entries"]),
        ({"inners": [{"name": "a"}, {"name": "a"}]},
         ['inners[1].name: "a" is used already at inners[0]\n  hint: give each its own name']),
        ({"inners": [{}, {"name": "main"}]},
         ['inners[1].name: "main" is used already at inners[0]\n  hint: give each its own name']),
        ({"inners": [{"name": ""}, {"name": ""}]}, []),
        ({"block": {}}, ["block.must: required"]),
        ({"sizes": {"a\nb": "x"}}, ['sizes["a\\nb"]: expected a whole number, got "x"']),
    ],
)  # fmt: skip
def test_a_limit_that_is_broken_is_told(tree: dict[str, Tree], expected: list[str]) -> None:
    assert words(tree) == expected


def test_limits_can_be_left_aside() -> None:
    broken = {"label": "", "number": -5, "pairs": None, "names": ["a"] * 9, "inners": [{}, {}], "block": {}}
    tree, problems = read(broken, limits=False)
    assert problems == []
    assert "pairs" not in tree


class Holder(Wire, frozen=True):
    block: Block = made(Block)
    maybe: Block | None = None


def test_what_a_block_requires_is_missed_even_where_the_block_is() -> None:
    reader = Reader()
    reader.read({}, shape_of(Holder))
    assert [str(problem) for problem in reader.problems] == ["block.must: required"]


def test_a_map_may_have_so_many_entries() -> None:
    field = Field(MapOf(Field(Leaf("string"))), Limit(max_items=1, min_items=1))
    reader = Reader()
    reader.read({"a": {}, "b": {"x": "1", "y": "2"}}, Record("R", {"a": field, "b": field, "c": field}))
    assert [str(problem) for problem in reader.problems] == [
        "a: must have at least 1 entry",
        "b: 2 entries, more than the 1 allowed",
        "c: required",
    ]


# --- words ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "shown_as"),
    [
        ("a", '"a"'), ("a\nb\x1b[31m", '"a\\nb\\x1b[31m"'), ("x" * 60, '"' + "x" * 60 + '"'),
        ("x" * 61, '"' + "x" * 57 + '…"'), (True, "true"), (False, "false"), (None, "null"), ([1], "a list"),
        ({}, "a mapping"), (1.5, "1.5"), (7, "7"), ("é", '"é"'), ("\u2028", '"\\u2028"'),
    ],
)  # fmt: skip
def test_values_are_quoted_shortly_and_without_control_characters(value: Tree, shown_as: str) -> None:
    assert told(value) == shown_as


def test_names_are_listed_by_the_dozen() -> None:
    assert listed([]) == "none"
    assert listed(["a", "b"]) == "a, b"
    assert listed([str(i) for i in range(12)]).endswith("10, 11")
    assert listed([str(i) for i in range(14)]).endswith("10, 11 and 2 more")
    assert short("\t") == "\\t"


def test_a_problem_is_shown_with_its_place_and_hint() -> None:
    assert str(Problem("a.b", "is odd")) == "a.b: is odd"
    assert str(Problem("", "is odd", "mend it")) == "is odd\n  hint: mend it"
    assert has_errors([warning("a", "b"), Problem("a", "b")])
    assert not has_errors([warning("a", "b")])


@pytest.mark.parametrize(
    ("key", "path"),
    [
        ("a", "p[a]"), ("example.com/a", "p[example.com/a]"), ("", "p[]"), ("a]b", 'p["a]b"]'),
        ('"a', 'p["\\"a"]'), ("a\nb", 'p["a\\nb"]'), ("\u2028", 'p["\\u2028"]'),
    ],
)  # fmt: skip
def test_the_key_of_a_map_stands_in_brackets_the_oddest_in_quotes(key: str, path: str) -> None:
    assert entry("p", key) == path
