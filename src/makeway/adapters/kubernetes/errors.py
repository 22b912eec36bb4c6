"""The error answers of an API server: a Status becomes one of the errors that every Store raises.

The reason of a Status decides, because scripts and clients go by it; without a reason, as from a proxy, the HTTP code
decides. An object that was refused for its content carries all causes as problems. If no answer came at all,
``no_answer`` says whether the write may have happened.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from typing import Any

import httpx2
import msgspec

from makeway.api.problems import Cause, Problem
from makeway.core.model import Millis
from makeway.runtime.ports import (
    AlreadyExists,
    Conflict,
    Expired,
    Forbidden,
    Invalid,
    NotFound,
    Retryable,
    StoreError,
    TimedOut,
    TooManyRequests,
    Unavailable,
)

Status = Mapping[str, Any]
TEXT_MAX = 500  # shown of an answer that is no Status
TOO_LARGE = "ResourceVersionTooLarge"
_CAUSES: dict[str, Cause] = {
    "FieldValueRequired": "Required", "FieldValueInvalid": "Invalid", "FieldValueNotSupported": "NotSupported",
    "FieldValueDuplicate": "Duplicate", "FieldValueForbidden": "Forbidden", "FieldValueNotFound": "NotFound",
    "FieldValueTooMany": "TooMany", "FieldValueTypeInvalid": "TypeInvalid", "FieldValueTooLong": "Invalid",
}  # fmt: skip


class Unauthorized(Forbidden):
    """The server does not know the client."""

    code = 401
    reason = "Unauthorized"


class NotTrusted(Unavailable):
    """The server did not prove its identity."""


def error_of(code: int, body: bytes, headers: Mapping[str, str], *, writes: bool) -> StoreError:
    """Return the error behind an answer that is not 2xx. ``writes``: whether the request may have been applied
    anyway.
    """
    status = read_status(body)
    if status is None:
        text = body[:TEXT_MAX].decode("utf-8", "replace").strip() or "no explanation"
        status = {"message": f"the server answered with {code}: {text}"}
    return status_error({"code": code, **status}, retry_after=headers.get("retry-after", ""), writes=writes)


def read_status(body: bytes) -> dict[str, Any] | None:
    """Return the body as a Status, if it is one."""
    try:
        tree = msgspec.json.decode(body)
    except msgspec.MsgspecError:
        return None
    return tree if isinstance(tree, dict) and tree.get("kind") == "Status" else None


def status_error(status: Status, *, retry_after: str = "", writes: bool = False) -> StoreError:
    """Return the error that a Status stands for."""
    details = status.get("details")
    details = details if isinstance(details, Mapping) else {}
    message = str(status.get("message") or status.get("reason") or "the server gave no reason")
    seconds = _seconds(retry_after) or _seconds(str(details.get("retryAfterSeconds") or ""))
    pause = Millis(seconds * 1000) if seconds else None
    match _reason(status):
        case "Invalid" | "BadRequest" | "UnsupportedMediaType" | "RequestEntityTooLarge":
            return Invalid(problems_of(details, message))
        case "NotFound":
            return NotFound(message)
        case "AlreadyExists":
            return AlreadyExists(message)
        case "Conflict":
            return Conflict(message)
        case "Unauthorized":
            return Unauthorized(message)
        case "Forbidden" | "MethodNotAllowed" | "NotAcceptable":
            return Forbidden(message)
        case "Expired" | "Gone":
            return Expired(message)
        case "TooManyRequests":
            return TooManyRequests(message, pause)
        case "ServiceUnavailable":
            return Unavailable(message, pause)
        case "Timeout":
            is_known = not writes or _has_cause(details, TOO_LARGE)
            return Unavailable(message, pause) if is_known else TimedOut(message, pause)
        case "ServerTimeout":
            return Retryable(message, pause)
    return Retryable(message, pause) if pause is not None else StoreError(message)


def no_answer(error: httpx2.HTTPError, *, writes: bool) -> Retryable:
    """Return the error for a missing answer: Unavailable if the request never left; a write that left may have
    happened.
    """
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return NotTrusted(f"the server's certificate is not trusted: {cause.verify_message}")
        if isinstance(cause, ssl.SSLError):
            return NotTrusted(f"no secure connection: {cause.reason or cause}")
        cause = cause.__cause__ or cause.__context__
    text = str(error) or type(error).__name__
    never_left = isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout | httpx2.PoolTimeout | httpx2.ProxyError)
    if never_left or not writes:
        return Unavailable(f"cannot be reached: {text}" if never_left else f"gave no answer: {text}")
    return TimedOut(f"gave no answer: {text}")


def problems_of(details: Status, message: str) -> list[Problem]:
    """Return every cause as a problem; without causes the message is the only problem."""
    causes = details.get("causes")
    found = [
        Problem(str(each.get("field") or ""), str(each.get("message") or ""), cause=_cause(each.get("reason")))
        for each in (causes if isinstance(causes, list) else ())
        if isinstance(each, Mapping)
    ]
    return found or [Problem("", message)]


def _cause(reason: object) -> Cause:
    return _CAUSES.get(str(reason), "Invalid")


def _has_cause(details: Status, reason: str) -> bool:
    causes = details.get("causes")
    listed = causes if isinstance(causes, list) else []
    return any(isinstance(each, Mapping) and each.get("reason") == reason for each in listed)


def _seconds(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 7 else 0


_BY_CODE = {
    400: "BadRequest", 401: "Unauthorized", 403: "Forbidden", 404: "NotFound", 405: "MethodNotAllowed",
    406: "NotAcceptable", 409: "Conflict", 410: "Gone", 413: "RequestEntityTooLarge", 415: "UnsupportedMediaType",
    422: "Invalid", 429: "TooManyRequests", 502: "Timeout", 503: "ServiceUnavailable", 504: "Timeout",
}  # fmt: skip


def _reason(status: Status) -> str:
    reason = str(status.get("reason") or "")
    code = status.get("code")
    known = _BY_CODE.get(code if isinstance(code, int) else 0, "")
    return reason if reason and reason != "Unknown" else known
