"""Label and field selectors of a query, parsed to requirements.

``app=a,tier in (x, y),!canary`` for labels; ``metadata.name=a,status.phase!=Failed`` for fields. The selectable fields
depend on the kind. Characters, terms and values are limited, and parsing is a single pass.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from makeway.adapters.server.http.statuses import bad_request
from makeway.api.forms import is_label_value, is_qualified
from makeway.api.reading.structure import short
from makeway.api.versions import Kind, stored_path
from makeway.core.model import Expression, Selector
from makeway.runtime.ports import FieldTerm, kind_key

_TOKEN = re.compile(r"\s*(?:(==|!=|=|!|,|\(|\)|>|<)|([^\s,()=!<>]+))")
CHARS_MAX = 32 * 1024  # of one selector; enough for the most terms of full length
_SETS = {"in": "In", "notin": "NotIn"}
_FIELDS = {  # beside metadata.name, metadata.namespace and the fields that the kind itself declares
    ("", "Pod"): (
        "spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName", "status.phase",
        "status.podIP", "status.nominatedNodeName",
    ),
    ("", "Event"): (
        "involvedObject.kind", "involvedObject.namespace", "involvedObject.name", "involvedObject.uid",
        "involvedObject.apiVersion", "involvedObject.resourceVersion", "involvedObject.fieldPath", "reason",
        "reportingComponent", "source", "type",
    ),
    ("events.k8s.io", "Event"): (
        "regarding.kind", "regarding.namespace", "regarding.name", "regarding.uid", "regarding.apiVersion",
        "regarding.resourceVersion", "regarding.fieldPath", "reason", "reportingController", "type",
    ),
    ("", "Secret"): ("type",),
    ("", "Namespace"): ("status.phase",),
    ("", "Node"): ("spec.unschedulable",),
    ("batch", "Job"): ("status.successful",),
}  # fmt: skip
_STORED_AS = {"source": "source.component", "status.successful": "status.succeeded"}
_OTHERWISE = {"source": ("reportingComponent",)}  # an event of the newer type has no source


class _Tokens:
    def __init__(self, text: str, what: str) -> None:
        self._text = text
        self._what = what
        self._at = 0

    def next(self) -> str:
        """Return the next operator or word; "" at the end."""
        match = _TOKEN.match(self._text, self._at)
        if match is None:
            if self._text[self._at :].strip():
                raise self.wrong(f"found '{short(self._text[self._at :].strip())}'")
            return ""
        self._at = match.end()
        return match.group(1) or match.group(2)

    def peek(self) -> str:
        at = self._at
        token = self.next()
        self._at = at
        return token

    def wrong(self, why: str) -> Exception:
        return bad_request(f"unable to parse {self._what} {short(self._text)!r}: {why}")


def label_selector(text: str, terms_max: int) -> Selector:
    """Parse a label selector. Raises ``Refused`` (400)."""
    _check_length(text, "labelSelector")
    tokens, terms = _Tokens(text, "labelSelector"), []
    if not text.strip():
        return ()
    values = 0
    while True:
        term = _label_term(tokens)
        values += 1 + len(term.values)
        if values > terms_max:
            raise bad_request(f"labelSelector: more than {terms_max} keys and values")
        terms.append(term)
        mark = tokens.next()
        if not mark:
            return tuple(terms)
        if mark != ",":
            raise tokens.wrong(f"found '{short(mark)}', expected: ',' or the end")


def _check_length(text: str, what: str) -> None:
    if len(text) > CHARS_MAX:
        raise bad_request(f"{what}: {len(text)} characters, more than the {CHARS_MAX} allowed")


def _label_term(tokens: _Tokens) -> Expression:
    key = tokens.next()
    if key == "!":
        return Expression(_key(tokens, tokens.next()), "DoesNotExist")
    key = _key(tokens, key)
    mark = tokens.peek()
    if mark in ("", ","):
        return Expression(key, "Exists")
    tokens.next()
    if mark in ("=", "==", "!="):
        return Expression(key, "NotIn" if mark == "!=" else "In", (_value(tokens),))
    if mark in (">", "<"):
        value = tokens.next()
        if not re.fullmatch(r"-?[0-9]{1,18}", value):
            raise tokens.wrong(f"{short(value)!r} is not a whole number")
        return Expression(key, "Gt" if mark == ">" else "Lt", (value,))
    if mark in _SETS and tokens.next() == "(":
        return Expression(key, _SETS[mark], tuple(_values(tokens)))
    raise tokens.wrong(f"found '{short(mark)}', expected: in, notin, =, ==, !=, >, <")


def _key(tokens: _Tokens, key: str) -> str:
    if not is_qualified(key):
        raise tokens.wrong(f"{short(key)!r} is not a label key")
    return key


def _value(tokens: _Tokens) -> str:
    value = tokens.peek()
    if value in ("", ","):
        return ""
    tokens.next()
    if not is_label_value(value):
        raise tokens.wrong(f"{short(value)!r} is not a label value")
    return value


def _values(tokens: _Tokens) -> Iterator[str]:
    while True:
        token = tokens.next()
        if token in (",", ")"):  # an empty value: (a,) has two values
            yield ""
        else:
            if not is_label_value(token):
                raise tokens.wrong(f"{short(token)!r} is not a label value")
            yield token
            token = tokens.next()
        if token == ")":
            return
        if token != ",":
            raise tokens.wrong("expected: ',' or ')'")


def selectable(kind: Kind) -> tuple[str, ...]:
    """Return the selectable fields of a kind."""
    own = tuple(path.lstrip(".") for path in kind.selectable)
    return ("metadata.name", "metadata.namespace", *own, *_FIELDS.get(kind_key(kind), ()))


def field_selector(text: str, kind: Kind, version: str, terms_max: int) -> tuple[FieldTerm, ...]:
    """Parse a field selector: fields of a served version become those of the stored object. Raises ``Refused``
    (400).
    """
    _check_length(text, "fieldSelector")
    parts = [part for part in _split(text) if part.strip()]
    if len(parts) > terms_max:
        raise bad_request(f"fieldSelector: more than {terms_max} terms")
    known = selectable(kind)
    return tuple(_field_term(part, known, kind, version) for part in parts)


def _split(text: str) -> list[str]:
    """Split at the commas; a backslash escapes the next character."""
    return re.findall(r"(?:[^,\\]|\\.)+", text)


def _field_term(part: str, known: tuple[str, ...], kind: Kind, version: str) -> FieldTerm:
    before, sign, value = part.partition("=")
    mark = "!=" if before.endswith("!") else "="
    path, value = before.removesuffix("!").strip(), value.removeprefix("=" if mark == "=" else "").strip()
    if not sign or "!" in path or len(path.split()) > 1:
        raise bad_request(f"invalid field selector: {short(part)!r}; can't understand it, expected field=value")
    if path not in known:
        raise bad_request(f"field label not supported: {short(path)}; known here: {', '.join(known)}")
    where = tuple(stored_path(kind, version, _STORED_AS.get(path, path)).split("."))
    return FieldTerm(where, re.sub(r"\\(.)", r"\1", value), mark != "!=", _OTHERWISE.get(path, ()))
