"""Errors: each one is a Kubernetes ``Status``, in the shape that kubectl reads and prints.

A request fails with ``RequestRefused``, which has its code and words, or with an error of the Store. ``status`` turns
either into the answer. No answer repeats a value of the request that could be a secret.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from makeway.api.problems import Problem
from makeway.api.reading.documents import Tree
from makeway.api.reading.structure import short
from makeway.api.versions import Kind
from makeway.runtime.ports import Expired, Invalid, Retryable, StoreError, TooLarge

TOLD_MAX = 1000  # problems of one object: an answer must not be many times as large as the request
DECODING = ("UnknownField", "DuplicateField")  # what fieldValidation=Strict refuses
_CAUSES = {  # the reason of a cause, and kubectl's words for it
    "Required": ("FieldValueRequired", "Required value"),
    "Invalid": ("FieldValueInvalid", "Invalid value"),
    "NotSupported": ("FieldValueNotSupported", "Unsupported value"),
    "Duplicate": ("FieldValueDuplicate", "Duplicate value"),
    "Forbidden": ("FieldValueForbidden", "Forbidden"),
    "NotFound": ("FieldValueNotFound", "Not found"),
    "TooMany": ("FieldValueTooMany", "Too many"),
    "TooLong": ("FieldValueTooLong", "Too long"),
    "TypeInvalid": ("FieldValueTypeInvalid", "Invalid value"),
}
_REASONS = {
    400: "BadRequest", 401: "Unauthorized", 403: "Forbidden", 404: "NotFound", 405: "MethodNotAllowed",
    406: "NotAcceptable", 408: "Timeout", 409: "Conflict", 410: "Expired", 413: "RequestEntityTooLarge",
    414: "", 415: "UnsupportedMediaType", 422: "Invalid", 429: "TooManyRequests", 431: "", 500: "InternalError",
    501: "NotImplemented", 503: "ServiceUnavailable", 504: "Timeout",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Cause:
    reason: str
    message: str
    field: str = ""

    def tree(self) -> dict[str, Tree]:
        return {"reason": self.reason, "message": self.message, **({"field": self.field} if self.field else {})}


class RequestRefused(Exception):
    """A request that has no other answer. If no reason is given, it follows from the code."""

    def __init__(
        self, code: int, message: str, *, reason: str = "", causes: Sequence[Cause] = (),
        retry_seconds: int | None = None, about: tuple[str, str, str] = ("", "", ""), closes: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(message)
        self.code = code
        self.reason = reason or _REASONS.get(code, "")
        self.message = message
        self.causes = tuple(causes)
        self.retry_seconds = retry_seconds
        self.about = about  # group, kind or resource, name
        self.closes = closes  # the connection cannot be used any more

    def status(self) -> dict[str, Tree]:
        group, kind, name = self.about
        details: dict[str, Tree] = {
            **({"name": name} if name else {}),
            **({"group": group} if group else {}),
            **({"kind": kind} if kind else {}),
            **({"causes": [cause.tree() for cause in self.causes]} if self.causes else {}),
            **({"retryAfterSeconds": self.retry_seconds} if self.retry_seconds else {}),
        }
        return {
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": self.message,
            **({"reason": self.reason} if self.reason else {}),
            **({"details": details} if details else {}), "code": self.code,
        }  # fmt: skip


def refusal(error: StoreError, kind: Kind | None, version: str = "", name: str = "") -> RequestRefused:
    """Return an error of the Store, as the client of a request about ``kind`` sees it."""
    if isinstance(error, Invalid) and not isinstance(error, TooLarge):
        return invalid(error.problems, kind, version, name)
    about = ("", "", "") if kind is None else (kind.group, kind.plural, name)
    seconds = None
    if isinstance(error, Retryable):
        seconds = max(1, -(-(error.retry_after or 1000) // 1000))
    causes = (Cause("ResourceVersionTooLarge", "Too large resource version"),) if "too large res" in str(error) else ()
    code, reason = (504, "Timeout") if causes else (error.code, error.reason)
    message = "; ".join(map(_worded, error.problems)) if isinstance(error, TooLarge) else str(error)
    if isinstance(error, Expired):
        about = ("", "", "")
    return RequestRefused(code, message, reason=reason, causes=causes, retry_seconds=seconds, about=about)


def invalid(problems: Sequence[Problem], kind: Kind | None, version: str, name: str) -> RequestRefused:
    errors = [problem for problem in problems if problem.severity == "error"]
    wrong = [_discreet(error, kind) for error in errors[:TOLD_MAX]]
    rest = f" and {len(errors) - TOLD_MAX} more" if len(errors) > TOLD_MAX else ""
    if kind is None:
        return RequestRefused(400, "; ".join(map(_worded, wrong)) + rest)
    if all(error.cause in DECODING for error in errors):
        listed = ", ".join(map(decoding_words, wrong))
        message = f'{kind.name} in version "{version}" cannot be handled as a {kind.name}: strict decoding error: '
        return RequestRefused(400, message + listed + rest)
    causes = [_cause(each) for each in wrong]
    words = [f"{cause.field}: {cause.message}" for cause in causes]
    called = f"{kind.name}.{kind.group}" if kind.group else kind.name
    message = f'{called} "{name}" is invalid: {words[0] if len(words) == 1 else "[" + ", ".join(words) + "]"}{rest}'
    return RequestRefused(422, message, causes=causes, about=(kind.group, kind.name, name))


def _discreet(problem: Problem, kind: Kind | None) -> Problem:
    """Return the problem without values of a Secret; a message about size shows none."""
    if (
        problem.cause == "TooLong"
        or kind is None
        or kind.name != "Secret"
        or not problem.path.startswith(("data", "stringData"))
    ):
        return problem
    return replace(problem, message="this value is not taken", hint="texts stand in stringData, base64 in data")


def decoding_words(problem: Problem) -> str:
    """Return the words for an unknown or repeated field, in kubectl's style, with the hint if there is one."""
    what = "duplicate field" if problem.cause == "DuplicateField" else "unknown field"
    return f'{what} "{short(problem.path)}"' + (f" ({problem.hint})" if problem.hint else "")


def _cause(problem: Problem) -> Cause:
    reason, words = _CAUSES.get(problem.cause, ("FieldValueInvalid", "Invalid value"))
    return Cause(
        reason, words if problem.message == "required" else f"{words}: {_told(problem)}", problem.path or "<nil>"
    )


def _told(problem: Problem) -> str:
    return f"{problem.message} ({problem.hint})" if problem.hint else problem.message


def _worded(problem: Problem) -> str:
    return f"{problem.path}: {_told(problem)}" if problem.path else _told(problem)


def warning_words(problem: Problem) -> str:
    """Return a warning for a Warning header: one line of printable ASCII."""
    text = decoding_words(problem) if problem.cause in DECODING else _worded(problem)
    return text.encode("ascii", "replace").decode().replace("\n", " ")


# --- the refusals of the protocol itself -----------------------------------------------------------------------------


def bad_request(message: str, causes: Sequence[Cause] = ()) -> RequestRefused:
    return RequestRefused(400, message, causes=causes)


def not_found_path() -> RequestRefused:
    return RequestRefused(404, "the server could not find the requested resource")


def not_allowed() -> RequestRefused:
    return RequestRefused(405, "the server does not allow this method on the requested resource")


def not_acceptable(served: Sequence[str]) -> RequestRefused:
    return RequestRefused(406, f"only the following media types are accepted: {', '.join(served)}")


def unsupported_media(served: Sequence[str]) -> RequestRefused:
    message = "the body of the request was in an unknown format - accepted media types include: "
    return RequestRefused(415, message + ", ".join(served))


def too_large(limit: int) -> RequestRefused:
    return RequestRefused(413, f"Request entity too large: limit is {limit}", closes=True)


def unauthorized() -> RequestRefused:
    return RequestRefused(401, "Unauthorized")


def failed(message: str = "an internal error occurred; the log of the server says more") -> RequestRefused:
    return RequestRefused(500, f"Internal error occurred: {message}", causes=[Cause("", message)])


def success(kind: Kind, name: str, uid: str) -> Mapping[str, Tree]:
    """Return the answer to a removal once the object is gone."""
    details = {"name": name, **({"group": kind.group} if kind.group else {}), "kind": kind.plural, "uid": uid}
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}
