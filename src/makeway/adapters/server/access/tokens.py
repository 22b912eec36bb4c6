"""Who may do what: tokens, and the two roles.

A token is ``ID.SECRET``. Only a hash of the secret is kept, in a Secret of type ``makeway.dev/token`` in the namespace
``kube-system``. So tokens are made, listed and revoked through the API itself, and are as durable as any object. A
token ends when its Secret is deleted or expires, also for open watches. The secrets are random and long, so a plain
hash is enough.

``admin`` may do everything. ``viewer`` may read everything but Secrets, and ask what it may do.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import msgspec

from makeway.adapters.server.storage.store import SqliteStore
from makeway.api.objects.kubernetes import Secret
from makeway.api.objects.meta import ObjectMeta
from makeway.api.quantity import Time
from makeway.api.versions import kind_of
from makeway.core.model import Millis
from makeway.runtime.live.driver import wall_clock
from makeway.runtime.ports import Clock, NotFound, Revision, Stored

Role = Literal["admin", "viewer"]
ROLES: tuple[Role, ...] = get_args(Role)
TOKEN_TYPE = "makeway.dev/token"
TOKENS_NAMESPACE = "kube-system"
PREFIX = "token-"
SECRETS = kind_of(Secret)
READING = frozenset({"get", "list", "watch"})
REVIEWS = frozenset({"selfsubjectaccessreviews", "selfsubjectrulesreviews", "selfsubjectreviews"})
_ID_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
_ID_LENGTH = 10
HEADER_BYTES_MAX = 512


@dataclass(frozen=True, slots=True)
class User:
    """The user behind a request: the name that was given to the token, the role, and the token's id."""

    name: str
    role: Role
    token: str

    @property
    def groups(self) -> tuple[str, ...]:
        return (f"makeway:{self.role}s", "system:authenticated")


@dataclass(frozen=True, slots=True)
class Token:
    id: str
    user: User
    digest: bytes
    created: str = ""
    expires: Time | None = None  # None: it does not expire


@dataclass(frozen=True, slots=True)
class AccessRequest:
    """A permission that a user needs. ``resource`` is "" for a path that is no object."""

    verb: str
    group: str = ""
    resource: str = ""
    part: str = ""
    namespace: str | None = None
    name: str = ""


def may(user: User, asked: AccessRequest) -> bool:
    if user.role == "admin":
        return True
    if asked.resource in REVIEWS:
        return asked.verb == "create"
    if (asked.group, asked.resource) in (("", "secrets"), ("", "*"), ("*", "*"), ("*", "secrets")):
        return False
    return asked.verb in READING


class Access:
    """The tokens of one Store, always up to date with the Store."""

    def __init__(self, store: SqliteStore, clock: Clock = wall_clock) -> None:
        self._store = store
        self._clock = clock
        self._tokens: Mapping[str, Token] = {}
        self._on_revoked: Callable[[], None] = lambda: None
        store.on_commit(self._committed)
        found = (_token(each) for each in store.list(SECRETS, TOKENS_NAMESPACE).items)
        self._tokens = {each.id: each for each in found if each is not None}

    def on_revoked(self, call: Callable[[], None]) -> None:
        """Register ``call``, which is called on the writer thread whenever a token has ended or changed."""
        self._on_revoked = call

    def user(self, authorization: bytes | None) -> User | None:
        """Return the user of an Authorization header; None if the token is not valid."""
        if authorization is None or len(authorization) > HEADER_BYTES_MAX:
            return None
        scheme, _, token = authorization.partition(b" ")
        return self.holder(token.strip()) if scheme.lower() == b"bearer" else None

    def holder(self, token: bytes) -> User | None:
        id_, _, secret = token.partition(b".")
        known = self._tokens.get(id_.decode("ascii", "replace"))
        # unknown ids take as long as known ones
        matches = hmac.compare_digest(_digest(secret), known.digest if known else bytes(32))
        return known.user if known is not None and matches and not self._has_ended(known) else None

    def is_valid(self, user: User) -> bool:
        """Whether the token of this user is still valid."""
        known = self._tokens.get(user.token)
        return known is not None and known.user == user and not self._has_ended(known)

    def _has_ended(self, token: Token) -> bool:
        return token.expires is not None and token.expires.millis <= self._clock()

    def tokens(self) -> Sequence[Token]:
        return sorted(self._tokens.values(), key=lambda each: (each.user.name, each.id))

    def issue(self, name: str, role: Role, expires: Time | None = None) -> str:
        """Make a new token. Only this call returns the secret; it is stored nowhere."""
        id_, secret = new_token()
        self._store.create(token_object(id_, secret, name, role, expires))
        return f"{id_}.{secret}"

    def revoke(self, id_: str) -> bool:
        """Revoke a token; return whether there was one."""
        try:
            self._store.delete(SECRETS, TOKENS_NAMESPACE, PREFIX + id_)
        except NotFound:
            return False
        return True

    def _committed(self, changes: Sequence[Revision]) -> None:
        concerned = [each for each in changes if each.after.kind.name == "Secret" and _is_place(each.after)]
        if not concerned:
            return
        tokens = dict(self._tokens)
        for change in concerned:
            tokens.pop(change.after.name.removeprefix(PREFIX), None)
            token = None if change.type == "DELETED" else _token(change.after)
            if token is not None:
                tokens[token.id] = token
        self._tokens = tokens
        self._on_revoked()


def new_token() -> tuple[str, str]:
    """Return an id and a secret."""
    return "".join(secrets.choice(_ID_LETTERS) for _ in range(_ID_LENGTH)), secrets.token_urlsafe(32)


def token_object(id_: str, secret: str, name: str, role: Role, expires: Time | None = None) -> Secret:
    """Return the Secret that makes a token valid, also for clients that create it through the API."""
    data = {"sha256": _digest(secret.encode()).hex().encode(), "role": role.encode(), "name": name.encode()}
    if expires is not None:
        data["expires"] = str(expires).encode()
    return Secret(metadata=ObjectMeta(name=PREFIX + id_, namespace=TOKENS_NAMESPACE), type=TOKEN_TYPE, data=data)


def _digest(secret: bytes) -> bytes:
    return hashlib.sha256(secret).digest()


def _is_place(each: Stored) -> bool:
    return each.namespace == TOKENS_NAMESPACE and each.name.startswith(PREFIX)


def _token(each: Stored) -> Token | None:
    try:
        return None if not _is_place(each) or each.deleting else read_token(each.value())
    except msgspec.ValidationError:  # this Secret is no token; all others stay valid
        return None


def read_token(secret: Secret) -> Token | None:
    """Return the token in a Secret; None if there is none, or it is incomplete."""
    meta, said = secret.metadata, {name: each.decode("utf-8", "replace") for name, each in secret.data.items()}
    role = next((known for known in ROLES if known == said.get("role")), None)
    try:
        digest = bytes.fromhex(said.get("sha256", ""))
        expires = Time.parse(said["expires"]) if said.get("expires") else None
    except ValueError:
        return None
    if secret.type != TOKEN_TYPE or role is None or len(digest) != 32 or not meta.name.startswith(PREFIX):
        return None
    id_, created = meta.name.removeprefix(PREFIX), meta.creation_timestamp
    user = User(said.get("name", "") or id_, role, id_)
    return Token(id_, user, digest, "" if created is None else str(created), expires)


__all__ = [
    "ROLES",
    "Access",
    "AccessRequest",
    "Millis",
    "Role",
    "Token",
    "User",
    "may",
    "new_token",
    "read_token",
    "token_object",
]
