"""Checks a tree against a shape: unknown fields, wrong types, missing values, limits. Reports all problems at once.

The tree that it returns can be decoded: nulls, unknown fields and wrong values are left out, so that the rules of
``validation`` can still check the rest of an object that has a problem. In a list an empty value replaces a wrong item,
so that the other items keep their indexes. Optional lists and maps that are empty are left out, as by an API server.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cache, lru_cache
from typing import Literal

import msgspec

from makeway.api.forms import FORMS, TextForm
from makeway.api.objects.meta import Limit
from makeway.api.problems import Cause, Problem, entry, warning
from makeway.api.quantity import Duration, MicroTime, Quantity, Time
from makeway.api.reading.documents import Tree, joined
from makeway.api.schema.kubernetes_limits import NO_LIMIT
from makeway.api.schema.shapes import Field, Leaf, ListOf, MapOf, Record, Shape

Mode = Literal["Strict", "Warn", "Ignore"]
HintFor = Callable[[str, Tree], str]  # path and value -> what to write instead, or ""
Rule = Callable[[dict[str, Tree], str], Iterable[Problem]]  # a block whose fields have been checked, and its path

_EXPECTED = {
    "string": "a string", "boolean": "true or false", "int32": "a whole number", "int64": "a whole number",
    "number": "a number", "quantity": "a quantity", "duration": "a duration", "time": "a time",
    "microTime": "a time", "intOrString": "a whole number or a string", "bytes": "a base64 string", "enum": "a string",
}  # fmt: skip
_PATTERN_HINTS = {
    "a DNS subdomain": "lower-case letters, digits, `-` and `.`; each part begins and ends with a letter or digit",
    "a DNS label": "lower-case letters, digits and `-`; it begins and ends with a letter or digit",
}
_SPELLINGS = {
    "quantity": "for example 4, 500m, 1.5 or 32Gi",
    "duration": "for example 90s, 4h or 1h30m",
    "time": "for example 2026-01-31T12:00:00Z",
    "microTime": "for example 2026-01-31T12:00:00.000000Z",
    "bytes": "encode it; a Secret takes plain text in stringData, a ConfigMap in data",
}
_EMPTY_LEAVES = {
    "boolean": False, "int32": 0, "int64": 0, "number": 0, "quantity": "0", "duration": "0s", "intOrString": 0,
    "time": "1970-01-01T00:00:00Z", "microTime": "1970-01-01T00:00:00.000000Z",
}  # fmt: skip
_ABSENT = object()
_LISTED_MAX = 12
_TOLD_MAX = 60
_NEAR_LENGTH_MAX = 100  # a longer name is not a typing mistake
_NEAR_SEARCHES_MAX = 50  # per object, so that hints do not cost more than reading


class Reader:
    """One pass over one object. ``limits`` says whether limits are checked too, or only types; ``rules`` are the rules
    between fields, by the names of Kubernetes types."""

    def __init__(
        self, mode: Mode = "Strict", *, limits: bool = True, hint_for: HintFor | None = None,
        rules: Mapping[str, Rule] | None = None,
    ) -> None:  # fmt: skip
        self.problems: list[Problem] = []
        self._rules = rules if rules and limits else {}
        self._mode = mode
        self._limits = limits
        self._hint_for = hint_for or (lambda _path, _value: "")
        self._searches = 0

    def read(self, tree: Tree, shape: Record) -> Tree:
        return self._value(tree, Field(shape), "")

    def _value(self, value: Tree, field: Field, path: str) -> Tree:
        shape = field.shape
        if type(shape) is Leaf:
            limit = field.limit
            result = self._leaf(value, shape, limit, path)
            if limit is not NO_LIMIT and result is not _ABSENT and self._limits:
                self._check_leaf(value, shape, limit, path)
            return result
        if type(shape) is Record:
            return self._record(value, shape, path)
        return self._entries(value, shape, field.limit, path)

    def _record(self, value: Tree, shape: Record, path: str) -> Tree:
        if not isinstance(value, dict):
            return self._wrong_type(value, "a mapping", path)
        result: dict[str, Tree] = {}
        known = shape.fields
        for key, part in value.items():
            field = known.get(key)
            if field is None:
                self._unknown(key, part, shape, path)
                if shape.keeps_unknown:
                    result[key] = part
            elif part is not None:
                here = f"{path}.{key}" if path else key
                read = self._value(part, field, here)
                if read is not _ABSENT and (read or not field.omits_empty):
                    result[key] = read
                if field.limit.unserved and self._mode != "Ignore" and part not in ({}, [], ""):
                    self.problems.append(_unserved(here, field.limit))
        if self._limits:
            for key, field in _wanted(shape):
                if value.get(key) is None:
                    self._missing(field, joined(path, key))
        if shape.keeps_unknown and (rule := self._rules.get(shape.name)):
            self.problems.extend(rule(result, path))
        return result

    def _entries(self, value: Tree, shape: Shape, limit: Limit, path: str) -> Tree:
        if isinstance(shape, ListOf):
            if not isinstance(value, list):
                return self._wrong_type(value, "a list", path)
            items = [self._value(item, shape.item, f"{path}[{i}]") for i, item in enumerate(value)]
            if self._limits:
                self._check_list(items, shape, limit, path)
            return [_in_place(item, shape.item.shape) for item in items]
        assert isinstance(shape, MapOf)
        if not isinstance(value, dict):
            return self._wrong_type(value, "a mapping", path)
        entries = {k: self._value(part, shape.item, entry(path, k)) for k, part in value.items() if part is not None}
        if self._limits and limit is not NO_LIMIT:
            self._check_count(len(value), limit, path)
            if limit.key_form:
                self._check_map_keys(value, FORMS[limit.key_form], path)
        return {k: part for k, part in entries.items() if part is not _ABSENT}

    # --- types ---

    def _leaf(self, value: Tree, shape: Leaf, limit: Limit, path: str) -> Tree:
        name = shape.name
        if name == "any":
            return value
        if name == "enum":
            return self._enum(value, shape, limit, path)
        if _fits_type(value, name):
            problem = _parse_problem(name, value)
            if problem is None:
                return value
            self.problems.append(Problem(path, problem, _SPELLINGS.get(name, ""), cause="TypeInvalid"))
            return _ABSENT
        return self._wrong_type(value, _EXPECTED[name], path, _SPELLINGS.get(name, ""))

    def _enum(self, value: Tree, shape: Leaf, limit: Limit, path: str) -> Tree:
        if isinstance(value, str) and value in shape.allowed:
            return value
        if not isinstance(value, str):
            return self._wrong_type(value, f"one of {_choices(shape.allowed)}", path)
        self._tell_outside(value, shape.allowed, limit, path)
        return _ABSENT

    def _tell_outside(self, value: str, allowed: tuple[str, ...], limit: Limit, path: str) -> None:
        """Report a word that is not in a closed set."""
        hint = self._hint_for(path, value) or self._near(value, allowed)
        message = f"{told(value)} is not supported; allowed: {_choices(allowed)}"
        self.problems.append(Problem(path, message, hint, cause=limit.outside))

    def _wrong_type(self, value: Tree, expected: str, path: str, spelling: str = "") -> Tree:
        hint = self._hint_for(path, value) or spelling
        if not hint and isinstance(value, str) and expected in ("a whole number", "a number", "true or false"):
            hint = "write it without quotes" if _UNQUOTED[expected].fullmatch(value) else ""
        elif not hint and isinstance(value, bool | int | float) and ("string" in expected or "one of" in expected):
            words = "; without them yes, no, on and off are true and false too" if isinstance(value, bool) else ""
            hint = f"put it in quotes{words}"
        self.problems.append(Problem(path, f"expected {expected}, got {told(value)}", hint, cause="TypeInvalid"))
        return _ABSENT

    def _unknown(self, key: str, value: Tree, shape: Record, path: str) -> None:
        if self._mode == "Ignore":
            return
        here = joined(path, key)
        names = sorted(shape.fields)
        hint = self._hint_for(here, value) or self._near(key, names)
        if len(names) > _LISTED_MAX and len(key) <= _NEAR_LENGTH_MAX and self._searches <= _NEAR_SEARCHES_MAX:
            near = set(difflib.get_close_matches(key, names, n=_LISTED_MAX, cutoff=0))
            names.sort(key=lambda name: name not in near)
        error: Literal["error", "warning"] = "error" if self._mode == "Strict" else "warning"
        self.problems.append(Problem(here, f"unknown field; known here: {listed(names)}", hint, "UnknownField", error))

    def _near(self, word: str, known: Sequence[str]) -> str:
        self._searches += 1
        return did_you_mean(word, known) if self._searches <= _NEAR_SEARCHES_MAX else ""

    # --- limits ---

    def _missing(self, field: Field, path: str) -> None:
        limit, shape = field.limit, field.shape
        if not _needed(field):
            if isinstance(shape, Record) and field.default is not None:
                self._record({}, shape, path)  # the block is always there, so the fields that it requires are missing
            return
        if isinstance(shape, ListOf) and limit.min_items:
            self._check_count(0, limit, path)
            return
        words = limit.words or (shape.allowed if isinstance(shape, Leaf) else ())
        allowed = f"; allowed: {_choices(words)}" if words else ""
        self._tell(path, f"required{allowed}", cause="Required")

    def _check_leaf(self, value: Tree, shape: Leaf, limit: Limit, path: str) -> None:
        if limit.zero_passes and not value:
            return
        if limit.words and value not in limit.words:
            self._tell_outside(value, limit.words, limit, path)
        elif limit.form:
            self._check_form(value, FORMS[limit.form], limit, path)
        elif isinstance(value, str) and shape.name == "string":
            self._check_text(value, limit, path)
        elif limit.least is not None and (below := _below(value, shape.name, limit.least)):
            self._tell(path, below)
        elif limit.most is not None and value > limit.most:
            self._tell(path, f"{value} is above the maximum of {limit.most}")

    def _check_form(self, value: Tree, form: TextForm, limit: Limit, path: str) -> None:
        if limit.required and value == "":
            self._tell(path, "required", form.hint, cause="Required")
        elif not form.fits(value):
            self._tell(path, f"{told(value)} is not {form.name}", form.hint)

    def _check_map_keys(self, value: dict[str, Tree], form: TextForm, path: str) -> None:
        for key in value:
            if not form.fits(key):
                self._tell(entry(path, key), f"{told(key)} is not {form.name}", form.hint)

    def _check_text(self, value: str, limit: Limit, path: str) -> None:
        if not value:
            if limit.min_length or (limit.required and limit.pattern):
                self._tell(path, "must not be empty", cause="Invalid" if limit.min_length else "Required")
            return
        if limit.max_length is not None and len(value) > limit.max_length:
            self._tell(path, f"{len(value)} characters long, more than the {limit.max_length} allowed")
        elif limit.pattern and not _compiled(limit.pattern).fullmatch(value):
            hint = _PATTERN_HINTS.get(limit.pattern_name, "")
            self._tell(path, f"{told(value)} is not {limit.pattern_name}", hint)

    def _check_count(self, count: int, limit: Limit, path: str) -> None:
        if limit.min_items is not None and count < limit.min_items:
            cause: Cause = "Required" if limit.required and limit.too_many == "TooMany" else "Invalid"
            entries = "entry" if limit.min_items == 1 else "entries"
            self._tell(path, f"must have at least {limit.min_items} {entries}", cause=cause)
        if limit.max_items is not None and count > limit.max_items:
            self._tell(path, f"{count} entries, more than the {limit.max_items} allowed", cause=limit.too_many)

    def _check_list(self, items: list[Tree], shape: ListOf, limit: Limit, path: str) -> None:
        self._check_count(len(items), limit, path)
        first: dict[object, int] = {}
        if limit.unique:
            for i, item in enumerate(items):
                if isinstance(item, str) and first.setdefault(item, i) != i:
                    cause: Cause = "Duplicate" if limit.too_many == "TooMany" else "Invalid"
                    self._tell(path, f"{told(item)} is listed twice", "keep one of them", cause)
        if limit.keyed_by and isinstance(shape.item.shape, Record):
            self._check_keys(items, shape.item.shape, limit, path)

    def _check_keys(self, items: list[Tree], shape: Record, limit: Limit, path: str) -> None:
        """Check that no two items have equal keys; an absent key counts as its default."""
        first: dict[object, int] = {}
        for i, item in enumerate(items):
            if not isinstance(item, dict):
                continue
            key = tuple(item.get(name, shape.fields[name].default) for name in limit.keyed_by)
            if key[0] in (None, "") or first.setdefault(key, i) == i:
                continue
            name = limit.keyed_by[0]
            at = path if limit.told_at_list else f"{path}[{i}].{name}"
            cause: Cause = "Invalid" if limit.told_at_list else "Duplicate"
            message = f"{told(key[0])} is used already at {path}[{first[key]}]"
            self._tell(at, message, f"give each its own {name}", cause)

    def _tell(self, path: str, message: str, hint: str = "", cause: Cause = "Invalid") -> None:
        self.problems.append(Problem(path, message, hint, cause))


def _in_place(item: Tree, shape: Shape) -> Tree:
    if item is not _ABSENT:
        return item
    if isinstance(shape, Leaf):
        return _EMPTY_LEAVES.get(shape.name, "") if not shape.allowed else shape.allowed[0]
    return [] if isinstance(shape, ListOf) else {}


def _needed(field: Field) -> bool:
    return field.limit.required or bool(field.limit.min_items)


@cache
def _wanted(shape: Record) -> Sequence[tuple[str, Field]]:
    """The fields whose absence can be a problem. They are few, and every object is checked for them."""
    always = ((key, field, isinstance(field.shape, Record)) for key, field in shape.fields.items())
    return [
        (key, field) for key, field, is_block in always if _needed(field) or (is_block and field.default is not None)
    ]


def _unserved(path: str, limit: Limit) -> Problem:
    return warning(path, f"kept, but without effect: {limit.unserved} is not part of makeway")


def _fits_type(value: Tree, name: str) -> bool:
    if name in ("string", "duration", "time", "microTime", "bytes"):
        return isinstance(value, str)
    if name == "boolean":
        return isinstance(value, bool)
    if isinstance(value, bool):
        return False
    if name in ("int32", "int64"):
        return isinstance(value, int)
    if name == "number":
        return isinstance(value, int | float)
    if name == "intOrString":
        return isinstance(value, int | str)
    return isinstance(value, int | float | str)  # a quantity


def _parse_problem(name: str, value: Tree) -> str | None:
    """The problem of a value that has the right JSON type and still cannot be read; None if it can."""
    if name in ("int32", "int64"):
        edge = 2 ** (31 if name == "int32" else 63)
        return None if -edge <= value < edge else f"{value} is outside the range of {name}, {-edge} to {edge - 1}"
    parse = _PARSERS.get(name)
    if parse is None:
        return None
    try:
        parse(value)
    except ValueError as error:
        return str(error)
    return None


def _decode_base64(value: str) -> bytes:
    try:
        return msgspec.convert(value, bytes)  # accepts exactly what decoding will accept
    except msgspec.ValidationError:
        raise ValueError("the text is not base64") from None


_PARSERS: dict[str, Callable[..., object]] = {
    "quantity": Quantity.parse, "duration": Duration.parse, "time": Time.parse, "microTime": MicroTime.parse,
    "bytes": _decode_base64,
}  # fmt: skip


def _below(value: Tree, name: str, least: int) -> str:
    amount = Quantity.parse(value).nano if name == "quantity" else value * 1_000_000_000
    if amount >= least * 1_000_000_000:
        return ""
    return f"{value} is negative" if least == 0 else f"{value} is below the minimum of {least}"


def told(value: Tree) -> str:
    """A value as a message quotes it: short, whatever the value is."""
    if isinstance(value, str):
        return f'"{short(value)}"'
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "null"
    if isinstance(value, list):
        return "a list"
    if isinstance(value, dict):
        return "a mapping"
    return str(value)


def short(text: str) -> str:
    """A text as a message shows it: cut if it is long, and without characters that control a terminal."""
    cut = text if len(text) <= _TOLD_MAX else text[: _TOLD_MAX - 3] + "…"
    return cut if cut.isprintable() else "".join(c if c.isprintable() else repr(c)[1:-1] for c in cut)


def listed(names: Collection[str]) -> str:
    """Names as a message lists them: the first dozen, and the number of the others."""
    shown = ", ".join(short(name) for name in list(names)[:_LISTED_MAX])
    return f"{shown} and {len(names) - _LISTED_MAX} more" if len(names) > _LISTED_MAX else shown or "none"


def did_you_mean(word: str, known: Sequence[str]) -> str:
    """A hint with the nearest correct spelling; "" if none is near."""
    if len(word) > _NEAR_LENGTH_MAX:
        return ""
    lowered = {word.lower(): word for word in known if word}
    close = difflib.get_close_matches(word.lower(), list(lowered), n=1, cutoff=0.6)
    return f"did you mean {short(lowered[close[0]])}?" if close else ""


def _choices(allowed: tuple[str, ...]) -> str:
    return ", ".join(word or '""' for word in allowed)


_UNQUOTED = {
    "a whole number": re.compile(r"-?[0-9]+"),
    "a number": re.compile(r"-?[0-9]+(\.[0-9]+)?"),
    "true or false": re.compile("true|false"),
}


@lru_cache(maxsize=64)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)
