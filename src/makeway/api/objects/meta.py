"""What every object has: metadata, owners, selectors, conditions; and how wire structs are made.

A wire struct gives the type, the default and the ``Limit`` of a field in one place. The codec, the validation and the
generated CRDs all read them there, so that no limit is written twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeVar

import msgspec

from makeway.api.quantity import Time

T = TypeVar("T")

DNS_LABEL = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
DNS_SUBDOMAIN = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"


class Wire(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The base of all wire objects: read-only, camelCase in JSON, fields that are not set are left out."""


def ready(kind: type[T]) -> type[T]:
    """Make a struct and the structs inside it ready for decoding, before another thread can use them.

    Otherwise msgspec does that at the first use of a type. If another thread decodes the same type at that moment, it
    reads a half-filled table, and the process dies (decision 0088).
    """
    msgspec.json.Decoder(kind)
    return kind


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """Limits for a value of the right type. Validation checks them, the CRDs show them.

    Several limits on one field add up: ``Annotated[str, LABEL, REQUIRED]``.
    """

    required: bool = False
    least: int | None = None  # a number, or a quantity in whole units
    most: int | None = None
    words: tuple[str, ...] = ()  # the closed set of a field that Kubernetes defines; a set of our own is a Literal
    form: str = ""  # the form of a text, or of a number that may be a text: one of ``forms``
    key_form: str = ""  # the form of the keys of a map
    zero_passes: bool = False  # zero or an empty text means not set
    min_length: int | None = None  # characters of a string
    max_length: int | None = None
    min_items: int | None = None  # entries of a list or map
    max_items: int | None = None
    too_many: Literal["TooMany", "Invalid"] = "TooMany"  # the kind of error above max_items
    outside: Literal["NotSupported", "Invalid"] = "NotSupported"  # the kind of error for a value outside a closed set
    pattern: str | None = None  # an empty string passes: it means not set
    pattern_name: str = ""  # the meaning of the pattern, in words
    keyed_by: tuple[str, ...] = ()  # a list that is a map: no two items have the same values in these fields
    unique: bool = False  # a list that is a set
    told_at_list: bool = False  # problems of its items have the path of the list (api 13)
    immutable: bool = False  # any change on update is refused
    transition: tuple[str, str] = ("", "")  # CEL for the CRD: allowed updates, and a message; see validation
    unserved: str = ""  # the field is stored but not acted on; the module that it belongs to (api 21.2)


@dataclass(frozen=True, slots=True)
class OfType:
    """The Kubernetes type of a value, where the Python type does not say it: raw JSON, 64-bit integers."""

    name: str


REQUIRED = Limit(required=True)
NOT_EMPTY = Limit(required=True, min_length=1)
INT64 = OfType("int64")  # a plain int is an int32, as nearly everywhere in the API
LABEL = Limit(pattern=DNS_LABEL, max_length=63, pattern_name="a DNS label")
OUTSIDE_INVALID = Limit(outside="Invalid")  # as api 13.3 says of taints and tolerations
SUBDOMAIN = Limit(pattern=DNS_SUBDOMAIN, max_length=253, pattern_name="a DNS subdomain")
REASON = Limit(
    pattern=r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$", max_length=1024, pattern_name="a reason in CamelCase"
)


def shown(value: T) -> T:
    """A default that readers of an object see if its writer did not set the field (api 19.1)."""
    result: T = msgspec.field(default_factory=lambda: value)
    return result


def made(kind: type[T]) -> T:
    """A default block that readers see, with the defaults inside it."""
    result: T = msgspec.field(default_factory=kind)
    return result


ORPHAN, FOREGROUND = "orphan", "foregroundDeletion"  # finalizers that stand for a propagation


class OwnerReference(Wire, frozen=True):
    api_version: Annotated[str, NOT_EMPTY] = ""
    kind: Annotated[str, NOT_EMPTY] = ""
    name: Annotated[str, NOT_EMPTY] = ""
    uid: Annotated[str, NOT_EMPTY] = ""
    controller: bool | None = None
    block_owner_deletion: bool | None = None


class ObjectMeta(Wire, frozen=True):
    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: Annotated[int, INT64] = 0
    creation_timestamp: Time | None = None
    deletion_timestamp: Time | None = None
    deletion_grace_period_seconds: Annotated[int | None, INT64] = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    finalizers: tuple[str, ...] = ()
    owner_references: Annotated[tuple[OwnerReference, ...], Limit(keyed_by=("uid",))] = ()
    managed_fields: tuple[dict[str, Any], ...] = ()
    self_link: str = ""

    @property
    def controller(self) -> OwnerReference | None:
        """The owner that controls the object."""
        for each in self.owner_references:  # a plain loop, because it is asked for often
            if each.controller:
                return each
        return None


class KubernetesObject(Wire, frozen=True):
    """What every object has, of whatever kind it is. Here a kind says its defaults, and what comes after these."""

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = made(ObjectMeta)


class LabelSelectorRequirement(Wire, frozen=True):
    key: Annotated[str, NOT_EMPTY] = ""
    operator: Annotated[Literal["In", "NotIn", "Exists", "DoesNotExist"], REQUIRED] = shown("In")
    values: tuple[str, ...] = ()


class LabelSelector(Wire, frozen=True):
    match_labels: dict[str, str] = {}
    match_expressions: tuple[LabelSelectorRequirement, ...] = ()


class Condition(Wire, frozen=True):
    type: Annotated[str, NOT_EMPTY, Limit(max_length=316)] = ""
    status: Annotated[Literal["True", "False", "Unknown"], REQUIRED] = shown("Unknown")
    reason: Annotated[str, NOT_EMPTY, REASON] = shown("")
    message: Annotated[str, Limit(max_length=32768)] = shown("")
    last_transition_time: Annotated[Time | None, REQUIRED] = None
    observed_generation: Annotated[int | None, INT64, Limit(least=0)] = None


class Taint(Wire, frozen=True):
    key: Annotated[str, NOT_EMPTY] = ""
    value: str = ""
    effect: Annotated[Literal["NoSchedule", "PreferNoSchedule", "NoExecute"], REQUIRED, OUTSIDE_INVALID] = shown(
        "NoSchedule"
    )
    time_added: Time | None = None


class Toleration(Wire, frozen=True):
    key: str = ""
    operator: Annotated[Literal["", "Equal", "Exists"], OUTSIDE_INVALID] = ""
    value: str = ""
    effect: Annotated[Literal["", "NoSchedule", "PreferNoSchedule", "NoExecute"], OUTSIDE_INVALID] = ""
    toleration_seconds: Annotated[int | None, INT64] = None
