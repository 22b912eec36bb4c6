"""Text to trees: the trees that kubectl reads (recorded from its own reader), the problems, and their lines."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest
import yaml

from makeway.api.reading import documents
from makeway.api.reading.documents import DEPTH_MAX, DOCUMENT_BYTES_MAX, joined, parse, tokens
from makeway.api.reading.json_lines import LineSpot

BACK = "\\"
NO_TOKEN = "not valid YAML: found character that cannot start any token while scanning for the next token"
LAUGHS = "a0: &a0 [1,1,1,1,1,1,1,1,1,1]\n" + "".join(
    f"a{i}: &a{i} [{','.join([f'*a{i - 1}'] * 10)}]\n" for i in range(1, 10)
)
LARGE = "the document has {} bytes, more than the 3145728 that an API server takes"


def trees(text: str | bytes) -> list[Any]:
    found = parse(text if isinstance(text, bytes) else text.encode())
    assert [str(p) for document in found for p in document.problems] == []
    return [document.tree for document in found]


def exactly(value: Any) -> str:
    """Told apart: 1, 1.0 and True."""
    return repr(value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *[(word, True) for word in ("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON")],
        *[(word, False) for word in ("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF")],
        *[(word, None) for word in ("", "~", "null", "Null", "NULL")],
        *[(word, word) for word in ("yEs", "oN", "nULL", "yup", "nope", "inf", "NaN", "+inf", "+", ".", "..")],
        ("0", 0), ("-0", 0), ("+1", 1), ("-1", -1), ("1_000", 1000), ("0_1", 1), ("1_", 1), ("_1", "_1"),
        ("0x1F", 31), ("0X1f", 31), ("-0x10", -16), ("0x_1", 1), ("0xg", "0xg"), ("0x", "0x"), ("0x0x1", "0x0x1"),
        ("0o17", 15), ("0O17", 15), ("0o8", "0o8"), ("0777", 511), ("00", 0), ("08", 8), ("09.5", 9.5),
        ("0b101", 5), ("0B11", 3), ("-0b11", -3), ("0b2", "0b2"), ("0b0b1", "0b0b1"),
        ("9223372036854775807", 2**63 - 1), ("9223372036854775808", 2**63), ("18446744073709551615", 2**64 - 1),
        ("18446744073709551616", 18446744073709552000), ("+9223372036854775808", 9223372036854776000),
        ("0x1FFFFFFFFFFFFFFFFF", "0x1FFFFFFFFFFFFFFFFF"), ("12345678901234567890123", 1.2345678901234568e22),
        ("1e3", 1000), ("1.5", 1.5), (".5", 0.5), ("5.", 5), ("1.0", 1), ("-.5", -0.5), ("+.5", 0.5), ("-0.0", 0),
        ("1e20", 10**20), ("1e21", 1e21), ("1e400", "1e400"), ("1_0.5", 10.5), (".5_0", 0.5), ("._5", "._5"),
        ("1.2345678901234567e18", 1234567890123456800), ("1e-7", 1e-7), ("1e", "1e"), ("1.2.3", "1.2.3"),
        ("2001-01-01", "2001-01-01"), ("1:30", "1:30"), ("12:34:56", "12:34:56"), ("200Mi", "200Mi"), ("<<", "<<"),
        ("'1'", "1"), ('"yes"', "yes"), ('"a' + BACK + 'n"', "a\n"), ("a#b", "a#b"), ("a # b", "a"), ("²", "²"),
        ("!!str 12", "12"), ('!!int "12"', 12), ("!!float 1", 1), ('!!bool "yes"', True), ("!!null ''", None),
        ("!!binary aGk=", "hi"), ("!!timestamp 2001-01-01", "2001-01-01"), ("!mine 12", "12"), ("! 12", "12"),
        ("|\n  x\n   y\n", "x\n y\n"), (">-\n  x\n  y\n", "x y"), ("|+\n  x\n\n", "x\n\n"),
    ],
)  # fmt: skip
def test_a_scalar_is_what_kubectl_reads(text: str, value: Any) -> None:
    assert exactly(trees(f"a: {text}")) == exactly([{"a": value}])


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("yes", "true"), ("Off", "false"), ("12", "12"), ("0x10", "16"), ("'12'", "12"), ("1.5", "1.5"), ("1.0", "1"),
        ("1e5", "100000"), ("1e6", "1e+06"), ("0.0001", "0.0001"), ("0.00001", "1e-05"), ("1234567.5", "1.2345675e+06"),
        ("1e39", ".inf"), ("-.inf", "-.inf"), (".nan", ".nan"), ("&x .nan", ".nan"), ("-0.0", "-0"), ("!!str 1", "1"),
        ('"<<"', "<<"), ("? a\n", "a"), ("example.com/x", "example.com/x"), ("''", ""),
    ],
)  # fmt: skip
def test_a_key_is_what_kubectl_reads(text: str, key: str) -> None:
    assert trees(f"{text}: v") == [{key: "v"}]


@dataclass(frozen=True)
class Reads:
    sentence: str
    text: str | bytes
    trees: list[Any]


READS = [
    Reads("an empty file has no documents", "", []),
    Reads("comments and separators only are no documents", "# a\n---\n--- # b\n\n...\n---\nnull\n---\n~\n", []),
    Reads("a leading separator opens the first document", "---\na: 1\n", [{"a": 1}]),
    Reads(
        "a separator may carry a comment and blanks",
        "a: 1\n--- # next\nb: 2\n---\t\nc: 3",
        [{"a": 1}, {"b": 2}, {"c": 3}],
    ),
    Reads("an indented separator is text", "a: |\n  x\n  ---\n", [{"a": "x\n---\n"}]),
    Reads("the end of a document may be marked", "a: 1\n...\n---\nb: 2\n... # c\n", [{"a": 1}, {"b": 2}]),
    Reads("windows line ends are line ends", "a: |\r\n  x\r\n---\r\nb: 2\r\n", [{"a": "x\n"}, {"b": 2}]),
    Reads("a byte order mark is skipped", b"\xef\xbb\xbfa: 1", [{"a": 1}]),
    Reads("UTF-16 with a mark is text", "a: é".encode("utf-16"), [{"a": "é"}]),
    Reads("a tab may part a key from its value", "a:\tb\t# c", [{"a": "b"}]),
    Reads(
        "flow needs no quotes",
        "{a: b, c: [1, {d: }], 'e':f, g:h}",
        [{"a": "b", "c": [1, {"d": None}], "e": "f", "g:h": None}],
    ),
    Reads(
        "an alias repeats its anchor",
        "a: &x {k: [1]}\nb: *x\nc: &x 2\nd: *x\n*x : e",
        [{"a": {"k": [1]}, "b": {"k": [1]}, "c": 2, "d": 2, "2": "e"}],
    ),
    Reads(
        "keys after a merge win",
        "x: &x {a: 1, b: 2}\nz:\n  <<: *x\n  a: 3",
        [{"x": {"a": 1, "b": 2}, "z": {"a": 3, "b": 2}}],
    ),
    Reads("of merged mappings the first wins", "<<: [{a: 1}, {a: 2, b: 2}]", [{"a": 1, "b": 2}]),
    Reads("a tagged merge merges", "!!merge <<: {a: 1}", [{"a": 1}]),
    Reads("a quoted merge is a key", "'<<': {a: 1}", [{"<<": {"a": 1}}]),
    Reads(
        "JSON may hold tabs and any escape",
        '{\t"a":\t"' + BACK + "ud83d" + BACK + "ude00" + BACK + '/"}',
        [{"a": "😀/"}],
    ),
    Reads(
        "half an escaped pair becomes U+FFFD",
        '{"' + BACK + 'ud800x": ["' + BACK + 'udc00", 1]}',
        [{"\ufffdx": ["\ufffd", 1]}],
    ),
    Reads(
        "JSON keeps the kinds of its numbers",
        '{"a": [1, 1.0, 1e3, -0, 12345678901234567890]}',
        [{"a": [1, 1.0, 1000.0, 0, 12345678901234567890]}],
    ),
    Reads("JSON documents may touch", '{"a": 1}{"b": 2} null\n[3]', [{"a": 1}, {"b": 2}, [3]]),
    Reads("YAML may follow one JSON document", '{"a": 1}\n---\nb: 2\n---\n{"c": 3}', [{"a": 1}, {"b": 2}, {"c": 3}]),
    Reads("YAML may follow one JSON document at once", '{"a": 1}\nb: 2', [{"a": 1}, {"b": 2}]),
    Reads("what begins like JSON may be YAML", '{"a": b, "c": NaN,}\n---\nd: 1', [{"a": "b", "c": "NaN"}, {"d": 1}]),
    Reads("a list is read as YAML", "[1, 2]", [[1, 2]]),
]


@pytest.mark.parametrize("case", READS, ids=lambda case: case.sentence)
def test_text_becomes_trees(case: Reads) -> None:
    assert exactly(trees(case.text)) == exactly(case.trees)


@dataclass(frozen=True)
class Tells:
    sentence: str
    text: str | bytes
    line: int
    told: str  # path: message
    hint: str = ""


TELLS = [
    Tells("bytes that are no text", b"a: \xff", 1, "not a text file: byte 0xff at offset 3 is not UTF-8", "in UTF-8"),
    Tells("half a character of UTF-16", b"\xff\xfea", 1, "not a text file: byte 0x61 at offset 2 is not UTF-16"),
    Tells("a NUL", b"a: 1\nb: \0", 1, "not a text file: a NUL character on line 2"),
    Tells(
        "a control character",
        "a: 1\nb: \x07",
        2,
        "not valid YAML: the character U+0007 cannot stand in a text",
        "escape",
    ),
    Tells("a tab as indent", "# c\na:\n\tb: 1", 3, NO_TOKEN, "spaces only"),
    Tells("a tab after a dash", "- \t- a", 1, NO_TOKEN, "spaces only"),
    Tells(
        "two colons",
        "x: 1\na: b: c",
        2,
        "not valid YAML: mapping values are not allowed in this context",
        "needs quotes",
    ),
    Tells("an at sign", "a: @x", 1, NO_TOKEN, "needs quotes"),
    Tells(
        "a cron line without quotes",
        "a: */5 * * * *",
        1,
        "not valid YAML: did not find expected alphabetic or numeric character while scanning an alias",
        "begins with *",
    ),
    Tells(
        "quotes that stay open",
        "a: 1\nb: 'x\nc: 2\nd: 3\n",
        2,
        "not valid YAML: the quotes opened here are never closed",
    ),
    Tells(
        "a bracket that stays open",
        "a: [1,\n",
        1,
        "not valid YAML: did not find expected node content while parsing a flow node",
        "bracket",
    ),
    Tells(
        "an indent that is off",
        "a: 1\n  b: 2",
        2,
        "not valid YAML: mapping values are not allowed in this context",
        "indent",
    ),
    Tells(
        "a template that is not rendered",
        "a: 1\nb: {{ .Values.x }}",
        2,
        "b[?]: a key must be a word, not a list or mapping",
        "template",
    ),
    Tells(
        "a template line",
        "a: 1\n{{- if .x }}\n",
        2,
        "not valid YAML: could not find expected ':' while scanning a simple key",
        "render it first",
    ),
    Tells(
        "an escape YAML does not know",
        'a: "' + BACK + 'q"',
        1,
        "not valid YAML: found unknown escape character while parsing a quoted scalar",
        "single quotes",
    ),
    Tells("text behind a separator", "a: 1\n--- {b: 2}\n", 2, "`---` is followed by '{b: 2}'", "own"),
    Tells("a directive", "%YAML 1.1\n---\na: 1", 1, "not valid YAML: did not find expected <document start>"),
    Tells(
        "text behind the end of a document",
        "a: 1\n...\n--- \nb: 2\n...\nc: 3",
        6,
        "not valid YAML: did not find expected <document start>",
        "`---` line",
    ),
    Tells(
        "a document after a lone carriage return",
        "a: 1\n\r---\rb: 2",
        3,
        "text after the end of the document would be ignored",
    ),
    Tells("a key twice", "a:\n  b: 1\n  c: 2\n  b: 3", 4, "a.b: the key is set twice, on lines 2 and 4", "keep one"),
    Tells("a key twice on a line", "{a: 1, a: 2}", 1, "a: the key is set twice, on line 1"),
    Tells(
        "a key twice in JSON",
        '{"x": [{"a": 1,\n"b": {},\n"a": 3}]}',
        3,
        "x[0].a: the key is set twice, on lines 1 and 3",
        "keep one",
    ),
    Tells(
        "a key twice that is written differently",
        "a:\n  yes: 1\n  on: 2",
        3,
        "a.true: the key is set twice, on lines 2 and 3",
    ),
    Tells("no key", "a:\n  b: 1\n  ? \n  : 2", 3, "a[]: a key must not be empty", "quotes"),
    Tells("null as a key", "a: 1\n~: 2", 2, "[~]: a key must not be '~'", "quotes"),
    Tells(
        "a key too large",
        "a: 1\n18446744073709551615: 2",
        2,
        "18446744073709551615: a key must not be '18446744073709551615'",
    ),
    Tells("a list as a key", "a: 1\n? [x]\n: 2", 2, "[?]: a key must be a word, not a list or mapping"),
    Tells("an alias of a list as a key", "a: &x [1]\n? *x\n: 2", 2, "[?]: a key must be a word, not a list or mapping"),
    Tells("infinity", "a:\n- 1\n- -.inf", 3, "a[1]: -.inf is a number that JSON cannot hold", "quotes"),
    Tells("a tag that does not fit", "a: 1\nb: !!int x", 2, "b: the tag !!int does not fit 'x'", "remove"),
    Tells("a tag that does not fit a time", "a: !!timestamp x", 1, "a: the tag !!timestamp does not fit 'x'"),
    Tells("a tag that does not fit bytes", "a: !!binary '?'", 1, "a: the tag !!binary does not fit '?'"),
    Tells(
        "a float that is too large",
        "a: !!float 18446744073709551615",
        1,
        "a: the tag !!float does not fit '18446744073709551615'",
    ),
    Tells("a tag that does not fit a key", "a: 1\n!!bool x: 1", 2, "x: the tag !!bool does not fit 'x'"),
    Tells("an alias without anchor", "a: 1\nb: *c", 2, "b: the alias *c has no anchor", "&c"),
    Tells("an alias without anchor as a key", "a: 1\n*c : 2", 2, "[?]: the alias *c has no anchor"),
    Tells(
        "an alias in itself", "a:\n  b: &x\n  - *x", 3, "a.b[0]: the alias *x contains itself", "write the value out"
    ),
    Tells("a merge of a word", "a: 1\n<<: b", 2, "[<<]: `<<` merges a mapping, or a list of mappings"),
    Tells(
        "a merge of an alias of a list",
        "x: &x [{a: 1}]\nz:\n  <<: *x",
        3,
        "z[<<]: `<<` merges a mapping, or a list of mappings",
    ),
    Tells(
        "a merge that replaces a key",
        "x: 1\na: 1\n<<: {a: 2}",
        3,
        "a: the `<<` on line 3 replaces this key, because it comes after it",
        "first",
    ),
    Tells(
        "JSON with a missing comma",
        '{"a": 1\n"b": 2}',
        2,
        "not valid JSON: expecting ',' delimiter at column 1",
        "comma is missing",
    ),
    Tells(
        "JSON that ends too early", '\n{"a": [1,', 2, "not valid JSON: expecting value at column 10", "value is missing"
    ),
    Tells(
        "a text of JSON over two lines",
        '{"a": "x\n}',
        1,
        "not valid JSON: invalid control character at column 9",
        "line break",
    ),
    Tells("a number too large for JSON", '{"a": 1e400}', 1, "the number '1e400' is too large", "quotes"),
    Tells("an integer too long", '{"a": ' + "1" * 5000 + "}", 1, "the number '" + "1" * 57 + "...' is too large"),
    Tells(
        "a third JSON document that is none",
        '{"a": 1}\n{}\n\n{"b": NaN}',
        4,
        "not valid JSON: NaN is a number that JSON cannot hold",
    ),
    Tells("broken text after JSON documents", '{"a": 1}\n{}\n  x', 3, "not valid JSON: expecting value at column 3"),
    Tells(
        "a separator after two JSON documents",
        '{"a": 1}{"b": 2}\n---\n{}',
        2,
        "a `---` line after JSON documents that stand without one between them",
        "first two",
    ),
    Tells(
        "YAML that begins like a mapping and is none",
        "{a: b\n---\nc: 1",
        1,
        "not valid YAML: did not find expected ',' or '}' while parsing a flow mapping",
        "bracket",
    ),
    Tells("nested flow", "a: " + "[" * 10_000, 1, "nested deeper than 100 levels"),
    Tells("nested dashes", "- " * 10_000, 1, "nested deeper than 100 levels"),
    Tells("nested block", "".join(" " * depth + "a:\n" for depth in range(200)), 1, "nested deeper than 100 levels"),
    Tells(
        "nested aliases",
        "- &a0 []\n" + "".join(f"- &a{i} [*a{i - 1}]\n" for i in range(1, 200)),
        1,
        "nested deeper than 100 levels",
    ),
    Tells("nested JSON", '{"a":' + "[" * 99 + "{}" + "]" * 99 + "}", 1, "nested deeper than 100 levels"),
    Tells("JSON nested beyond the stack", '{"a":' * 100_000, 1, "nested deeper than 100 levels"),
    Tells("a document too large", "a: 1\n---\nb: " + "x" * DOCUMENT_BYTES_MAX, 2, LARGE.format(DOCUMENT_BYTES_MAX + 4)),
    Tells(
        "JSON too large", '{}{"b": "' + "é" * (DOCUMENT_BYTES_MAX // 2) + '"}', 1, LARGE.format(DOCUMENT_BYTES_MAX + 9)
    ),
    Tells("aliases of aliases", LAUGHS, 6, "a5[3]: aliases add more than 500000 values to the document"),
]


@pytest.mark.parametrize("case", TELLS, ids=lambda case: case.sentence)
def test_what_is_wrong_is_told_with_its_line(case: Tells) -> None:
    found = parse(case.text if isinstance(case.text, bytes) else case.text.encode())
    told = [(document.line_of(p.path), p) for document in found for p in document.problems]
    assert told, "nothing was told"
    line, problem = told[0]
    assert (line, str(problem).partition("\n")[0]) == (case.line, case.told)
    assert case.hint in problem.hint


def test_one_broken_document_hides_no_other() -> None:
    found = parse(b"a: 1\n---\nb: [\n---\nc: 3\n--- d\nx\n---\ne: @\n")
    assert [document.index for document in found] == [1, 2, 3, 4, 5]
    assert [document.tree for document in found] == [{"a": 1}, None, {"c": 3}, None, None]
    assert [document.line for document in found] == [1, 3, 5, 6, 9]


def test_a_document_as_deep_and_as_large_as_allowed_is_read() -> None:
    deep = "[" * DEPTH_MAX + "]" * DEPTH_MAX
    assert len(trees(deep)) == len(trees(f'{{"a":{deep[1:-1]}}}')) == 1
    assert len(trees("a: '" + "é" * ((DOCUMENT_BYTES_MAX - 5) // 2) + "'")) == 1


def test_aliases_share_nothing() -> None:
    [tree] = trees("a: &x {k: [1]}\nb: *x\nc: {<<: *x}")
    tree["a"]["k"].append(2)
    assert tree["b"] == tree["c"] == {"k": [1]}


LINES = """# a comment
apiVersion: v1
metadata:
  labels: {example.com/tier: gold, "odd]key": x,
    yes: 1}
  "a.b": &x
    deep:
    - 1
    -
      - 2
other: *x
merged:
  <<: [{q: 1}, *x]
  own: 1
? complex
: 1
"""


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("", 2), ("apiVersion", 2), ("metadata", 3), ("metadata.labels", 4), ("metadata.labels[example.com/tier]", 4),
        ('metadata.labels["odd]key"]', 4), ("metadata.labels.true", 5), ("metadata[a.b]", 6), ("metadata[a.b].deep", 7),
        ("metadata[a.b].deep[0]", 8), ("metadata[a.b].deep[1]", 10), ("metadata[a.b].deep[1][0]", 10), ("other", 11),
        ("other.deep[0]", 8), ("merged.deep", 7), ("merged.q", 13), ("merged.own", 14), ("complex", 15),
        ("metadata.none", 3), ("none", 2), ("metadata[a.b].deep[9]", 7), ("metadata[a.b].deep.x", 7), ("complex.x", 15),
        ("metadata[a.b].deep[" + "9" * 5000 + "]", 7), ("metadata[a.b].deep[²]", 7),
    ],
)  # fmt: skip
def test_a_path_has_a_line(path: str, line: int) -> None:
    shift = "x: 1\n---\n"
    assert parse(LINES.encode())[0].line_of(path) == line
    assert parse((shift + LINES).encode())[1].line_of(path) == line + 2


def test_a_path_of_json_has_a_line() -> None:
    text = '{"x":\n1}\n{\n"a": {\n"b/c": [1,\n 2, {\n"q": "]},",\n"' + BACK + 'u0041": []}]\n}\n}'
    document = parse(text.encode())[1]
    asked = ["", "a", "a[b/c]", "a[b/c][0]", "a[b/c][1]", "a[b/c][2].q", "a[b/c][2].A", "a[b/c][2].A[0]", "a.z"]
    assert [document.line_of(path) for path in asked] == [3, 4, 5, 5, 6, 7, 8, 8, 4]


@pytest.mark.parametrize("key", ["a", "a.b", "example.com/tier", "", "x]y", "[x", '"q"', "]", "a\nb", "\\", "é", "0"])
def test_a_key_survives_its_path(key: str) -> None:
    assert list(tokens(joined(joined("", key), key))) == [key, key]


def test_a_path_reads_as_people_write_it() -> None:
    assert joined("metadata.labels", "example.com/tier") == "metadata.labels[example.com/tier]"
    assert list(tokens("spec.podSets[0].count")) == ["spec", "podSets", "0", "count"]
    assert list(tokens('["bad' + BACK + 'q"].[')) == ['"bad' + BACK + 'q"']


def test_without_the_c_parser_the_answers_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "_Loader", yaml.SafeLoader)
    assert exactly(trees("a: [1, '1', yes]\nb: &x {c: 1}\nd: *x\n")) == exactly(
        [{"a": [1, "1", True], "b": {"c": 1}, "d": {"c": 1}}]
    )
    [broken] = parse(b"a: 1\nb: \x07")
    assert (broken.line, broken.problems[0].message) == (
        2,
        "not valid YAML: the character U+0007 cannot stand in a text",
    )


def test_lines_are_read_only_when_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    spots = documents._yaml_spots

    def noted(chunk: str, line: int) -> LineSpot:
        read.append(chunk)
        return spots(chunk, line)

    monkeypatch.setattr(documents, "_yaml_spots", noted)
    found = parse(b"a: 1\n---\nb: 2\nc: 3\n")
    assert read == []
    assert [found[1].line_of(path) for path in ("b", "c")] == [3, 4]
    assert read == ["\nb: 2\nc: 3\n"]


def test_many_json_documents_keep_their_lines() -> None:
    one = json.dumps({"kind": "Workload", "spec": {"count": 1}})
    found = parse("\n".join([one] * 10_000).encode())
    assert [found[at].line for at in (0, 1, 9_999)] == [1, 2, 10_000]
