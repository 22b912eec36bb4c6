"""The forms of texts that have a syntax in Kubernetes: names, keys, ports, paths, percentages.

A ``Limit`` names a ``TextForm``, and ``structure`` checks it when a tree is read. The plain functions are for callers
that already hold a text.

Promise: a check costs time linear in the length of the text, whatever the text is.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from dataclasses import dataclass

from makeway.api.objects.meta import DNS_LABEL, DNS_SUBDOMAIN
from makeway.api.reading.documents import Tree

NAME_HINT = "lower-case letters, digits, `-` and `.`; each part begins and ends with a letter or digit"
LABEL_HINT = "lower-case letters, digits and `-`, at most 63; it begins and ends with a letter or digit"
KEY_HINT = "letters, digits, `-`, `_` and `.`, at most 63; a prefix before `/` is a DNS subdomain"
VALUE_HINT = "letters, digits, `-`, `_` and `.`, at most 63; it begins and ends with a letter or digit"
PORT_MAX = 65535
FILE_NAME_MAX = 253
ADDRESS_MAX = 45
_SUBDOMAIN = re.compile(DNS_SUBDOMAIN)
_LABEL = re.compile(DNS_LABEL)
_QUALIFIED = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")
_FILE_NAME = re.compile(r"[-._a-zA-Z0-9]+")
_VARIABLE = re.compile(r"[ -<>-~]+")  # printable characters except the equals sign
_PERCENT = re.compile(r"[0-9]{1,3}%")
_PORT_NAME = re.compile(r"(?=[-0-9]*[a-z])[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_ZEROS = re.compile(r"\b0+(?=[0-9]+(\.|$))")
_HEADER = re.compile(r"[-A-Za-z0-9]+")


def is_subdomain(text: str) -> bool:
    return len(text) <= 253 and _SUBDOMAIN.fullmatch(text) is not None


def is_label(text: str) -> bool:
    return len(text) <= 63 and _LABEL.fullmatch(text) is not None


def is_qualified(text: str) -> bool:
    """``[prefix/]name``, as label keys and resource names are written."""
    prefix, slash, name = text.rpartition("/")
    if slash and not is_subdomain(prefix):
        return False
    return len(name) <= 63 and _QUALIFIED.fullmatch(name) is not None


def is_label_value(text: str) -> bool:
    return text == "" or (len(text) <= 63 and _QUALIFIED.fullmatch(text) is not None)


def is_file_name(text: str) -> bool:
    """A key of a ConfigMap or Secret: it may become a file, and must not lead out of its folder."""
    return (
        len(text) <= FILE_NAME_MAX
        and _FILE_NAME.fullmatch(text) is not None
        and not text.startswith("..")
        and text != "."
    )


def is_inside(text: str) -> bool:
    """A path that stays below where it begins."""
    return not text.startswith(("/", "..")) and ".." not in text.split("/") and "\0" not in text


def is_port_name(text: str) -> bool:
    return len(text) <= 15 and "--" not in text and _PORT_NAME.fullmatch(text) is not None


def _is_port(value: Tree) -> bool:
    return 1 <= value <= PORT_MAX if isinstance(value, int) else is_port_name(value)


def _is_count(value: Tree) -> bool:
    if isinstance(value, int):
        return 0 <= value < 2**31
    return _PERCENT.fullmatch(value) is not None and int(value[:-1]) <= 100


def _is_address(text: str) -> bool:
    """Whether it is an IP address. Leading zeros are allowed, as in the old fields of Kubernetes."""
    if len(text) > ADDRESS_MAX or "%" in text:
        return False
    try:
        ipaddress.ip_address(_ZEROS.sub("", text))
    except ValueError:
        return False
    return True


@dataclass(frozen=True, slots=True)
class TextForm:
    name: str  # what it is called in a message: "is not a label key"
    fits: Callable[[Tree], bool]
    hint: str = ""


# By the names that ``kubernetes_limits`` uses.
FORMS: dict[str, TextForm] = {
    "label": TextForm("a DNS label", is_label, LABEL_HINT),
    "subdomain": TextForm("a DNS subdomain", is_subdomain, NAME_HINT),
    "labelKey": TextForm("a label key", is_qualified, KEY_HINT),
    "labelValue": TextForm("a label value", is_label_value, VALUE_HINT),
    "resource": TextForm("a resource name", is_qualified, KEY_HINT),
    "qualified": TextForm("a qualified name", is_qualified, KEY_HINT),
    "topologyKey": TextForm("a label key", is_qualified, "for example kubernetes.io/hostname"),
    "someKey": TextForm("a key", bool, "for example kubernetes.io/hostname"),
    "fileName": TextForm(
        "the name of a file", is_file_name, "letters, digits, `-`, `_` and `.`, at most 253; not `..`"
    ),
    "inside": TextForm("a path inside its folder", is_inside, "relative, without `..`"),
    "variable": TextForm("the name of a variable", lambda text: _VARIABLE.fullmatch(text) is not None, "no `=`, ASCII"),
    "portName": TextForm("a port name", is_port_name, "lower-case letters, digits and `-`, at most 15, with a letter"),
    "port": TextForm("a port", _is_port, f"a number from 1 to {PORT_MAX}, or the name of one of the container's ports"),
    "count": TextForm("a number of pods", _is_count, "a whole number from 0, or a percentage from 0% to 100%"),
    "address": TextForm("an IP address", _is_address, "for example 10.0.0.7"),
    "header": TextForm(
        "the name of a header", lambda text: _HEADER.fullmatch(text) is not None, "letters, digits and `-`"
    ),
}  # fmt: skip
