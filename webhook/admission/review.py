"""AdmissionReview v1: parse requests, and serialize responses; HTTP responses without an AdmissionReview: a
metav1.Status.

Sources: k8s.io/api/admission/v1, apiserver pkg/admission/plugin/webhook/request/admissionreview.go (accepted requests).
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from hmac import compare_digest
from http import HTTPStatus
from itertools import chain, islice
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn

import orjson

from forewarn.policies.base.findings import one_line
from forewarn.policies.kubernetes.objects.fields import NOTHING, ApiObject, json_type
from forewarn.policies.kubernetes.objects.reviewed_object import Operation, ReviewedObject, User

if TYPE_CHECKING:
    from pathlib import Path

    from forewarn.policies.kubernetes.objects.patches import PatchOperation


MAX_OBJECT: Final = 3 * 1024 * 1024
"""Maximum bytes of a request to the API server, and thus of one object."""
_ENVELOPE: Final = 1024 * 1024
"""Maximum bytes of an AdmissionReview besides its two objects, such as the user's groups and the options."""
_ESCAPED: Final = len(r"\u003c")
MAX_WIRE: Final = 2 * MAX_OBJECT * _ESCAPED + _ENVELOPE
"""Maximum bytes of a request body: `object` and `oldObject` with every character escaped."""
MAX_DECODED: Final = 2 * MAX_OBJECT + _ENVELOPE
"""Maximum bytes of a parsed body, with each `\\uXXXX` counted as one byte."""
MAX_SMALL: Final = 64 * 1024
"""Maximum bytes of a body that the event loop parses. Larger bodies wait in a queue and are parsed one at a time."""
MAX_QUICK: Final = 1024 * 1024
"""Maximum bytes of a body whose parsing takes at most some hundredths of a second, in which no other thread runs."""
HEAD: Final = 256 * 1024
"""Number of bytes of an unparsed body that forewarn retains: they contain the names of the object, user and request."""
PARSED: Final = 32
"""Maximum bytes of memory for one byte of a parsed body; `{"":0},` needs 240."""


def decoded_size(body: bytes) -> int:
    r"""Return the size of a body in bytes; above MAX_DECODED, each `\uXXXX` counts as one byte.

    Does not decode, but ignores `\uXXXX` after an escaped backslash, which is plain text.
    """
    if len(body) <= MAX_DECODED:
        return len(body)
    return len(body) - (_ESCAPED - 1) * body.replace(rb"\\", b"  ").count(rb"\u")


class Hook(StrEnum):
    """The two webhooks, by the first part of their path."""

    MUTATE = "mutate"
    VALIDATE = "validate"


PATHS: Final = {f"/{hook}": hook for hook in Hook}
"""URL path -> webhook. `/validate/TOKEN` is valid as well: see `route`."""


class AdmissionCall(NamedTuple):
    """A request with its body. `received`: time of the first byte (monotonic clock). `timeout`: the value of
    `?timeout=`.

    `client`: the address of the client, for the log of rejected requests. `tokens`: the tokens of the path and header.
    """

    hook: Hook
    body: bytes
    received: float
    timeout: str = ""
    client: str = ""
    tokens: tuple[str, ...] = ()


def route(path: str) -> tuple[Hook | None, str]:
    """Return the webhook of a path (None for other paths) and the token in the path, as in `/validate/TOKEN`."""
    hook = PATHS.get(path)
    if hook is not None:
        return hook, ""
    base, _, token = path.rpartition("/")
    return (PATHS.get(base), token) if token else (None, "")


LEAST: Final = 16
"""Minimum characters of a token in a file, because a shorter token can be guessed."""
_MAX_LENGTH: Final = 4_096

Tokens = Callable[[], Collection[str]]


class Grant(NamedTuple):
    """The reviews that forewarn answers for one token in a webhook's path: those of the resources in the webhook's
    rules.

    `resources`: (API group, resource, subresource), each may be `*`. `is_shown`: whether requesters without write
    access to PriorityClasses can read the path in an error of the API server.
    """

    resources: frozenset[tuple[str, str, str]] = frozenset()
    is_shown: bool = False

    def covers(self, group: str, resource: str, subresource: str) -> bool:
        """Report whether the webhook's rules include this resource. Source: apiserver
        webhook/predicates/rules/rules.go.
        """
        target = (group, resource, subresource)
        return _ALL in self.resources or any(
            all(own in ("*", given) for own, given in zip(granted, target, strict=True)) for granted in self.resources
        )


_ALL: Final = ("*", "*", "*")
EVERYTHING: Final = Grant(frozenset({_ALL}))
NO_CALLER: Final = Grant()

Grants = Callable[[], Mapping[str, Grant]]
ReadAgain = Callable[[], object]
"""Reads the webhook configurations. Raises OSError."""


class BadTokens(ValueError):
    """The error for a token file that is unreadable or has no valid token: file name, problem and fix. The message
    never contains a token.
    """


@dataclass(frozen=True, slots=True)
class Callers:
    """The tokens that identify API servers.

    `required`: every request needs one of these tokens; empty: no token is needed. `grants`: the tokens in the webhook
    configurations. `read_again`: updates the grants; None if they never change. `proven`: TLS has verified the caller.
    """

    required: Tokens = tuple
    grants: Grants = dict
    read_again: ReadAgain | None = None
    proven: bool = False

    def may_ask(self, tokens: Collection[str]) -> bool:
        """Report whether the webhook answers callers with these tokens."""
        required = self.required()
        return not required or _has_one(tokens, required)

    def grant(self, tokens: Collection[str]) -> Grant:
        """Return the grant for these tokens; an empty grant (NO_CALLER) if no webhook configuration has them.

        The grant covers everything if TLS or the `required` tokens already identify the caller, or if the webhook
        configurations have no tokens.
        """
        grants = {} if self.proven or self.required() else self.grants()
        if not grants:
            return EVERYTHING
        return next((grant for token, grant in grants.items() if _has_one(tokens, (token,))), NO_CALLER)

    def are_known(self, tokens: Collection[str]) -> bool:
        """Report whether the tokens have a grant, and so belong to an API server."""
        return self.grant(tokens) is not NO_CALLER


EVERYBODY: Final = Callers()


def bearer(authorization: str) -> str:
    """Return the token of an Authorization header; empty if there is none."""
    scheme, _, token = authorization.strip().partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def read_tokens(path: Path) -> tuple[str, ...]:
    """Return the tokens of a file, one per line. Raises BadTokens with the file's name."""
    try:
        lines = [line.strip() for line in path.read_text(encoding="ascii").splitlines()]
    except OSError as error:
        raise BadTokens(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError:
        raise BadTokens(f"{path}: tokens must be ASCII") from None
    tokens = tuple(line for line in lines if line)
    if not tokens:
        raise BadTokens(f"{path}: no token. Fix: write one token per line")
    for number, line in enumerate(lines, 1):
        if line and not (LEAST <= len(line) <= _MAX_LENGTH and line.isprintable() and " " not in line):
            raise BadTokens(
                f"{path}: line {number}: a token must have {LEAST} to {_MAX_LENGTH} characters without blanks"
            )
    return tokens


def _has_one(tokens_given: Collection[str], tokens: Collection[str]) -> bool:
    """Report whether a given token is valid, in a time that depends only on the tokens' number and lengths."""
    equal = [
        compare_digest(text.encode("utf-8", "replace"), token.encode()) for text in tokens_given for token in tokens
    ]
    return any(equal)


STORING: Final = (Operation.CREATE, Operation.UPDATE)
"""Operations that store the object of the request."""
API_VERSION: Final = "admission.k8s.io/v1"
KIND: Final = "AdmissionReview"
_OPERATIONS: Final = {operation.value: operation for operation in Operation}


class BadReview(ValueError):
    """The error for a body that is not an AdmissionReview v1 request; it has the problem and the expected value."""


class TooDeep(BadReview):
    """The error for a body that is nested too deeply to parse."""


class GroupVersionKind(NamedTuple):
    """The field `request.kind`."""

    group: str
    version: str
    kind: str

    @property
    def group_kind(self) -> str:
        """`group/Kind`; the group is empty for core kinds."""
        return f"{self.group}/{self.kind}"


class GroupVersionResource(NamedTuple):
    """The field `request.resource`."""

    group: str
    version: str
    resource: str


class AdmissionRequest(NamedTuple):
    """One admission request. For a null `object` (DELETE), `object` is empty; for a null `oldObject`, `old` is None."""

    uid: str
    operation: Operation
    kind: GroupVersionKind
    resource: GroupVersionResource
    subresource: str = ""
    name: str = ""
    namespace: str = ""
    user: User = User()
    object: ApiObject = NOTHING
    old: ApiObject | None = None
    dry_run: bool = False
    is_stripped: bool = False

    @property
    def resource_parts(self) -> tuple[str, str, str]:
        return self.resource.group, self.resource.resource, self.subresource

    def stripped(self) -> AdmissionRequest:
        """Return the request with only names, versions and globalDefault of objects, to save memory."""
        old = None if self.old is None else _stripped(self.old)
        return self._replace(object=_stripped(self.object), old=old, is_stripped=True)

    @property
    def subject(self) -> ReviewedObject:
        """The object of the request, with the context that rules need."""
        return ReviewedObject(self.object, self.operation, self.old, self.namespace, self.subresource, self.user)


_RETAINED_FIELDS: Final = ("apiVersion", "kind", "value", "globalDefault", "preemptionPolicy")
_RETAINED_METADATA: Final = ("name", "generateName", "namespace", "uid", "resourceVersion")
_MAX_RETAINED_LENGTH: Final = 1024
"""Maximum characters of a string that a stripped object retains."""


def _stripped(obj: ApiObject) -> ApiObject:
    metadata = obj.get("metadata")
    kept = _scalars(obj, _RETAINED_FIELDS)
    return {**kept, "metadata": _scalars(metadata, _RETAINED_METADATA)} if isinstance(metadata, dict) else kept


def _scalars(obj: ApiObject, keys: tuple[str, ...]) -> dict[str, Any]:
    values = {key: obj[key] for key in keys if key in obj}
    return {
        key: value
        for key, value in values.items()
        if isinstance(value, bool | int) or (isinstance(value, str) and len(value) <= _MAX_RETAINED_LENGTH)
    }


class Cause(NamedTuple):
    """One entry of `status.details.causes`."""

    reason: str
    message: str
    field: str


@dataclass(frozen=True, slots=True)
class AdmissionResponse:
    """One admission response. Only a denial uses `code`, `reason`, `message` and `causes`."""

    uid: str
    allowed: bool = True
    code: int = 0
    reason: str = ""
    message: str = ""
    causes: tuple[Cause, ...] = ()
    warnings: tuple[str, ...] = ()
    audit: Mapping[str, str] = field(default_factory=dict)
    patch: tuple[PatchOperation, ...] = ()

    def to_bytes(self) -> bytes:
        """Return the body of the HTTP response: the complete AdmissionReview."""
        return with_uid(self.without_uid(), self.uid)

    def without_uid(self) -> bytes:
        """Return the `response` object without its uid, as JSON; `with_uid` completes it."""
        response: dict[str, Any] = {"allowed": self.allowed}
        if not self.allowed:
            status: dict[str, Any] = {"status": "Failure", "message": self.message, "reason": self.reason}
            if self.causes:
                causes = [{"reason": c.reason, "message": c.message, "field": c.field} for c in self.causes]
                status["details"] = {"causes": causes}
            response["status"] = {**status, "code": self.code}
        elif self.patch:
            patch = dumps([operation.to_json() for operation in self.patch])
            response |= {"patchType": "JSONPatch", "patch": base64.b64encode(patch).decode()}
        if self.warnings:
            response["warnings"] = self.warnings
        if self.audit:
            response["auditAnnotations"] = dict(self.audit)
        return dumps(response)


_HEAD: Final = b'{"apiVersion":"%s","kind":"%s","response":{"uid":' % (API_VERSION.encode(), KIND.encode())


def with_uid(body: bytes, uid: str) -> bytes:
    """Return the AdmissionReview as JSON, from the result of `AdmissionResponse.without_uid` and a uid."""
    return b"%s%s,%s}" % (_HEAD, dumps(uid), body[1:])


def dumps(value: object, default: Callable[[object], object] | None = None, *, sort_keys: bool = False) -> bytes:
    """Return the JSON of any value, including lone surrogates and numbers beyond 64 bits, which orjson rejects.
    `default`: returns the JSON data of other objects.
    """
    try:
        return orjson.dumps(value, default, orjson.OPT_SORT_KEYS if sort_keys else None)
    except TypeError:
        return json.dumps(value, separators=(",", ":"), default=default, sort_keys=sort_keys).encode()


def status_body(code: int, reason: str, message: str) -> bytes:
    """Return a metav1.Status as JSON, for an HTTP response that is not an AdmissionReview."""
    status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
    return json.dumps(
        {**status, "message": one_line(message), "reason": reason, "code": code}, separators=(",", ":")
    ).encode()


def parse_review(body: bytes, *, is_whole: bool = True) -> AdmissionRequest:
    """Parse a request. Raises BadReview. `is_whole`: include its objects."""
    review = _load(body)
    version, kind = review.get("apiVersion"), review.get("kind")
    if kind != KIND or not isinstance(version, str) or version != API_VERSION:
        raise BadReview(f"expected apiVersion {API_VERSION} and kind {KIND}, got {_shown(version)} and {_shown(kind)}")
    request = _object(review, "request", "")
    if not request:
        raise BadReview("request: required")
    operation = _OPERATIONS.get(name := _text(request, "operation", "request."))
    if operation is None:
        raise BadReview(f"request.operation: {_shown(name)} is not one of {', '.join(Operation)}")
    obj, old = _object(request, "object", "request."), _object(request, "oldObject", "request.")
    if is_whole and not obj and operation in STORING:
        raise BadReview(f"request.object: required on {operation}")
    return AdmissionRequest(
        uid=_text(request, "uid", "request.") or _required("request.uid"),
        operation=operation,
        kind=GroupVersionKind(*_triple(request, "kind", "kind")),
        resource=GroupVersionResource(*_triple(request, "resource", "resource")),
        subresource=_text(request, "subResource", "request."),
        name=_text(request, "name", "request."),
        namespace=_text(request, "namespace", "request."),
        user=_user(_object(request, "userInfo", "request.")),
        object=obj,
        old=old or None,
        dry_run=request.get("dryRun") is True,
    )


def parse_head(head: bytes) -> AdmissionRequest:
    """Parse a request without its objects, from the first bytes of a body. Raises BadReview.

    Go writes the fields of a request in the order of their declaration, so `object` follows all fields that identify
    the request (k8s.io/api/admission/v1). A string cannot contain `,"object":`, because quotes in strings are
    escaped. A key in `userInfo.extra` can match, but the text before that key is not valid JSON.
    """
    for match in islice(_OBJECT_KEY.finditer(head), _OBJECT_KEYS):
        try:
            return parse_review(b"%s}}" % head[: match.start()], is_whole=False)
        except BadReview:
            continue  # the match was a key of `extra`
    raise BadReview("the body is not in the field order of an API server")


_OBJECT_KEY: Final = re.compile(rb',\s*"object"\s*:')
_OBJECT_KEYS: Final = 8


def _load(body: bytes) -> ApiObject:
    try:
        review = orjson.loads(body)
    except ValueError:
        review = _load_slowly(body)
    if not isinstance(review, dict):
        raise BadReview(f"the body must be an object, not {json_type(review)}")
    return review


def _load_slowly(body: bytes) -> Any:
    """Parse JSON that orjson rejects because of lone surrogates. Raises BadReview for other errors."""
    try:
        review = json.loads(body.decode("utf-8"), parse_constant=_no_number)
    except RecursionError:
        raise TooDeep(_TOO_DEEP) from None
    except ValueError as error:
        raise BadReview(f"the body is not JSON in UTF-8: {error}") from None
    if _is_deeper(review, _MAX_DEPTH):
        raise TooDeep(_TOO_DEEP)
    return review


_TOO_DEEP: Final = "the body is nested too deeply"
_MAX_DEPTH: Final = 500
"""The maximum depth of JSON with lone surrogates. That of Python's parser depends on its version and the stack."""


def _is_deeper(value: Any, depth: int) -> bool:
    level = [value]
    for _ in range(depth):
        nested = (one.values() if isinstance(one, dict) else one for one in level if isinstance(one, dict | list))
        level = list(chain.from_iterable(nested))
        if not level:
            return False
    return True


def _no_number(text: str) -> NoReturn:
    raise BadReview(f"the body is not JSON: {text} is not a number")


def _user(info: ApiObject) -> User:
    groups = info.get("groups") or ()
    if not isinstance(groups, list | tuple) or not all(isinstance(group, str) for group in groups):
        raise BadReview("request.userInfo.groups: must be a list of strings")
    name, uid = (_text(info, key, "request.userInfo.") for key in ("username", "uid"))
    return User(name, tuple(groups), uid, _extra(info) if "extra" in info else ())


def _extra(info: ApiObject) -> tuple[tuple[str, tuple[str, ...]], ...]:
    extra = _object(info, "extra", "request.userInfo.")
    if not all(isinstance(v, list) and all(isinstance(text, str) for text in v) for v in extra.values()):
        raise BadReview("request.userInfo.extra: must be lists of strings")
    return tuple((key, tuple(values)) for key, values in sorted(extra.items()))


def _triple(request: ApiObject, key: str, last: str) -> tuple[str, str, str]:
    value = _object(request, key, "request.")
    where = f"request.{key}."
    return (
        _text(value, "group", where),
        _text(value, "version", where),
        _text(value, last, where) or _required(where + last),
    )


def _object(parent: ApiObject, key: str, where: str) -> ApiObject:
    value = parent.get(key)
    if value is not None and not isinstance(value, dict):  # from JSON, so faster than a check for Mapping
        raise BadReview(f"{where}{key}: must be an object, not {json_type(value)}")
    return value or NOTHING


def _text(parent: ApiObject, key: str, where: str) -> str:
    value = parent.get(key)
    if value is not None and not isinstance(value, str):
        raise BadReview(f"{where}{key}: must be a string, not {json_type(value)}")
    return value or ""


def _required(where: str) -> NoReturn:
    raise BadReview(f"{where}: required")


def _shown(value: object) -> str:
    return f'"{value[:80]}"' if isinstance(value, str) else json_type(value) if value is not None else "nothing"


JSON: Final = (("content-type", "application/json"),)
_CLOSE: Final = (("connection", "close"),)
_RETRY: Final = (("retry-after", "0"), *_CLOSE)
_REASONS: Final = {408: "Timeout", 413: "RequestEntityTooLarge", 500: "InternalError"}
"""HTTP status code -> metav1.StatusReason, if it differs from the phrase of the status."""


class Reply(NamedTuple):
    """An HTTP response: status, body and headers."""

    status: int
    body: bytes
    headers: tuple[tuple[str, str], ...] = JSON


def rejection(status: int, message: str, headers: tuple[tuple[str, str], ...] = ()) -> Reply:
    """Return a response without an AdmissionReview: a metav1.Status."""
    reason = _REASONS.get(status) or HTTPStatus(status).phrase.replace(" ", "")
    return Reply(status, status_body(status, reason, message), JSON + headers)


TOO_LARGE: Final = rejection(413, f"the body is larger than {MAX_WIRE} bytes", _CLOSE)
TOO_LARGE_FOR_A_STRANGER: Final = rejection(
    413, f"without an API server token the body is limited to {MAX_SMALL} bytes", _CLOSE
)
TOO_MANY: Final = rejection(503, "too many requests in flight; try again", _RETRY)
STOPPING: Final = rejection(503, "the webhook is shutting down; try again", _RETRY)
TOO_DEEP: Final = "the JSON is nested too deeply"
TOO_LONG: Final = f"the JSON is larger than {MAX_DECODED} bytes"
NO_MEMORY: Final = "forewarn has no memory left for a request of this size"
NO_TIME: Final = "forewarn has no time left for a request of this size"
NOT_IN_TIME: Final = "the request body did not arrive in time"
"""The reason why forewarn does not evaluate an AdmissionReview."""
TOO_SLOW: Final = rejection(408, "the request body did not arrive in time", _CLOSE)
NOT_RESERVED: Final = rejection(
    503, "cannot reserve the global default: the API server does not answer; try again", (("retry-after", "1"),)
)
UNKNOWN_CALLER: Final = rejection(
    503,
    "only API servers with the token of the webhook configuration can reserve the global default; try again if the "
    "token has just changed",
    (("retry-after", "1"),),
)
NOT_VERIFIED: Final = rejection(
    503,
    "cannot verify the caller: the API server does not return the webhook configurations; try again",
    (("retry-after", "1"),),
)
NO_TOKEN: Final = rejection(401, "the request has no valid API server token", _CLOSE)
BROKEN: Final = rejection(500, "internal error; see the webhook's log")


class Gate:
    """Counts the requests in flight, and rejects requests above the limit. Safe from any thread."""

    def __init__(self, limit: int) -> None:
        self._limit, self._lock = limit, Lock()
        self.inside = 0
        self.stopping = False

    def enter(self) -> Reply | None:
        """Count one request; return None, or the rejection. The caller of a counted request must call `leave`."""
        with self._lock:
            if self.stopping:
                return STOPPING
            if self.inside >= self._limit:
                return TOO_MANY
            self.inside += 1
            return None

    def leave(self) -> None:
        """Decrease the count by one request."""
        with self._lock:
            self.inside -= 1
