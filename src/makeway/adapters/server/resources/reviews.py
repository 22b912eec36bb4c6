"""Reviews: objects that are created as a question and answered at once: who am I, what may I do."""

from __future__ import annotations

import msgspec

from makeway.adapters.server.access.tokens import AccessRequest, User, may
from makeway.adapters.server.http import bodies, protobuf
from makeway.adapters.server.http.answers import JSON, Response
from makeway.adapters.server.http.bodies import WriteOptions
from makeway.adapters.server.http.statuses import unsupported_media
from makeway.adapters.server.resources.calls import Call
from makeway.adapters.server.resources.discovery import RESOURCES
from makeway.api import codec
from makeway.api.objects.kubernetes import (
    NonResourceRule,
    ResourceRule,
    SelfSubjectAccessReview,
    SelfSubjectReview,
    SelfSubjectReviewStatus,
    SelfSubjectRulesReview,
    SubjectAccessReviewStatus,
    SubjectRulesReviewStatus,
    UserInfo,
)
from makeway.api.objects.meta import Wire
from makeway.runtime.stores.rules import refuse

_EVERYTHING = ResourceRule(verbs=("*",), api_groups=("*",), resources=("*",))
_READ = ("get", "list", "watch")


def answer(call: Call, user: User) -> Response:
    options = WriteOptions.of(call.query, call.user_agent)
    if "yaml" in call.content_type:  # every user may ask, so it must be cheap
        raise unsupported_media((JSON, protobuf.MEDIA))
    read = bodies.read_object(call.body, call.content_type, call.route.kind.type)
    reading = codec.read(bodies.aimed(call.route, bodies.mapping(read)), options.mode)
    refuse([*reading.problems])
    value: Wire | None = reading.value
    match value:
        case SelfSubjectAccessReview():
            value = msgspec.structs.replace(value, status=_access(value, user))
        case SelfSubjectRulesReview():
            value = msgspec.structs.replace(value, status=_rules(user))
        case SelfSubjectReview():
            info = UserInfo(username=user.name, uid=user.token, groups=user.groups)
            value = msgspec.structs.replace(value, status=SelfSubjectReviewStatus(user_info=info))
    assert value is not None
    return Response(201, codec.encode(value))


def _access(review: SelfSubjectAccessReview, user: User) -> SubjectAccessReviewStatus:
    asked, path = review.spec.resource_attributes, review.spec.non_resource_attributes
    if asked is not None:
        what = AccessRequest(asked.verb, asked.group, asked.resource, asked.subresource, asked.namespace, asked.name)
    elif path is not None:
        what = AccessRequest(path.verb)
    else:
        return SubjectAccessReviewStatus(allowed=False, evaluation_error="neither a resource nor a path is named")
    allowed = may(user, what)
    return SubjectAccessReviewStatus(allowed=allowed, reason=f"role {user.role}" if allowed else "")


def _rules(user: User) -> SubjectRulesReviewStatus:
    if user.role == "admin":
        paths = NonResourceRule(verbs=("*",), non_resource_urls=("*",))
        return SubjectRulesReviewStatus(resource_rules=(_EVERYTHING,), non_resource_rules=(paths,))
    allowed: dict[tuple[str, tuple[str, ...]], dict[str, None]] = {}
    for resource in RESOURCES:
        parts = [(f"{resource.plural}/{sub.name}", sub.verbs) for sub in resource.subresources if sub.name != "status"]
        for name, served in [(resource.plural, resource.verbs), *parts]:
            verbs = tuple(verb for verb in (*_READ, "create") if verb in served)
            verbs = tuple(verb for verb in verbs if may(user, AccessRequest(verb, resource.group, resource.plural)))
            if verbs:
                allowed.setdefault((resource.group, verbs), {})[name] = None
    rules = [ResourceRule(verbs=verbs, api_groups=(group,), resources=tuple(names))
             for (group, verbs), names in allowed.items()]  # fmt: skip
    paths = NonResourceRule(verbs=("get",), non_resource_urls=("*",))
    return SubjectRulesReviewStatus(resource_rules=tuple(rules), non_resource_rules=(paths,))
