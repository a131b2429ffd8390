"""AdmissionReview v1: bytes to a request, a response to bytes.

Sources: k8s.io/api/admission/v1, apiserver pkg/admission/plugin/webhook/request/admissionreview.go (what is accepted).
"""

from __future__ import annotations

import base64
import json
import re
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn

import orjson

from forewarn.policies.findings import one_line
from forewarn.policies.objects.fields import NOTHING, at, json_type
from forewarn.policies.objects.reviewed_object import Operation, ReviewedObject, User

if TYPE_CHECKING:
    from collections.abc import Mapping

    from forewarn.policies.objects.fields import ApiObject
    from forewarn.webhook.admission.json_patch import PatchOperation

STORING: Final = (Operation.CREATE, Operation.UPDATE)
"""Operations that store the object of the request."""
API_VERSION: Final = "admission.k8s.io/v1"
KIND: Final = "AdmissionReview"


def text_at(obj: ApiObject, *path: str) -> str:
    """The string at a path of an object; "" for other types and absent fields."""
    value = at(obj, *path)
    return value if isinstance(value, str) else ""


class BadReview(ValueError):
    """A body that is no AdmissionReview v1 request: what is wrong with it, and what would be right."""


class TooDeep(BadReview):
    """A body that is nested more deeply than it can be parsed."""


class GroupVersionKind(NamedTuple):
    """`request.kind`."""

    group: str
    version: str
    kind: str

    @property
    def group_kind(self) -> str:
        """`group/Kind`, the group empty for core kinds."""
        return f"{self.group}/{self.kind}"


class GroupVersionResource(NamedTuple):
    """`request.resource`."""

    group: str
    version: str
    resource: str


class AdmissionRequest(NamedTuple):
    """One admission request. `object` is empty where it was null (DELETE); `old` None likewise."""

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
        """API group, resource and subresource."""
        return self.resource.group, self.resource.resource, self.subresource

    def stripped(self) -> AdmissionRequest:
        """The request with only the names, versions and globalDefault of its objects, for the time it waits."""
        old = None if self.old is None else _stripped(self.old)
        return self._replace(object=_stripped(self.object), old=old, is_stripped=True)

    @property
    def subject(self) -> ReviewedObject:
        """The object of the request."""
        return ReviewedObject(self.object, self.operation, self.old, self.namespace, self.subresource, self.user)


_KEPT: Final = ("apiVersion", "kind", "value", "globalDefault", "preemptionPolicy")
_KEPT_METADATA: Final = ("name", "generateName", "namespace", "uid", "resourceVersion")
_LONGEST_KEPT: Final = 1024
"""Characters."""


def _stripped(obj: ApiObject) -> ApiObject:
    metadata = obj.get("metadata")
    kept = _scalars(obj, _KEPT)
    return {**kept, "metadata": _scalars(metadata, _KEPT_METADATA)} if isinstance(metadata, dict) else kept


def _scalars(obj: ApiObject, keys: tuple[str, ...]) -> dict[str, Any]:
    values = {key: obj[key] for key in keys if key in obj}
    return {
        key: value
        for key, value in values.items()
        if isinstance(value, bool | int) or (isinstance(value, str) and len(value) <= _LONGEST_KEPT)
    }


class Cause(NamedTuple):
    """One entry of `status.details.causes`."""

    reason: str
    message: str
    field: str


@dataclass(frozen=True, slots=True)
class AdmissionResponse:
    """One admission response. `code`, `reason`, `message` and `causes` are read only on a denial."""

    uid: str
    allowed: bool = True
    code: int = 0
    reason: str = ""
    message: str = ""
    causes: tuple[Cause, ...] = ()
    warnings: tuple[str, ...] = ()
    audit: Mapping[str, str] = field(default_factory=dict)
    patch: tuple[PatchOperation, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The AdmissionReview that is sent: TypeMeta and the request's uid always, patch and patchType together."""
        review: dict[str, Any] = json.loads(self.to_bytes())
        return review

    def to_bytes(self) -> bytes:
        """The body of the HTTP answer."""
        return with_uid(self.without_uid(), self.uid)

    def without_uid(self) -> bytes:
        """The response alone, but for the uid: `with_uid` makes an answer of it."""
        response: dict[str, Any] = {"allowed": self.allowed}
        if not self.allowed:
            response["status"] = self._status()
        elif self.patch:
            patch = _dumps([operation.to_json() for operation in self.patch])
            response |= {"patchType": "JSONPatch", "patch": base64.b64encode(patch).decode()}
        if self.warnings:
            response["warnings"] = self.warnings
        if self.audit:
            response["auditAnnotations"] = dict(self.audit)
        return _dumps(response)

    def _status(self) -> dict[str, Any]:
        status: dict[str, Any] = {"status": "Failure", "message": self.message, "reason": self.reason}
        if self.causes:
            causes = [{"reason": c.reason, "message": c.message, "field": c.field} for c in self.causes]
            status["details"] = {"causes": causes}
        return {**status, "code": self.code}


_HEAD: Final = b'{"apiVersion":"%s","kind":"%s","response":{"uid":' % (API_VERSION.encode(), KIND.encode())


def with_uid(body: bytes, uid: str) -> bytes:
    """The AdmissionReview: the result of `AdmissionResponse.without_uid` with a uid."""
    return b"%s%s,%s}" % (_HEAD, _dumps(uid), body[1:])


def _dumps(value: object) -> bytes:
    """JSON; also of what orjson refuses: lone surrogates, numbers beyond 64 bits."""
    try:
        return orjson.dumps(value)
    except TypeError:
        return json.dumps(value, separators=(",", ":")).encode()


def status_body(code: int, reason: str, message: str) -> bytes:
    """A metav1.Status, for an HTTP answer that is not an AdmissionReview."""
    status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
    return json.dumps(
        {**status, "message": one_line(message), "reason": reason, "code": code}, separators=(",", ":")
    ).encode()


def parse_review(body: bytes, *, is_whole: bool = True) -> AdmissionRequest:
    """Read a request; `is_whole`: with its objects. Raises BadReview."""
    review = _load(body)
    version, kind = review.get("apiVersion"), review.get("kind")
    if kind != KIND or not isinstance(version, str) or version != API_VERSION:
        raise BadReview(f"expected apiVersion {API_VERSION} and kind {KIND}, got {_shown(version)} and {_shown(kind)}")
    request = _object(review, "request", "")
    if not request:
        raise BadReview("request: required")
    operation = _text(request, "operation", "request.")
    if operation not in Operation.__members__:
        raise BadReview(f"request.operation: {_shown(operation)} is not one of {', '.join(Operation)}")
    obj, old = _object(request, "object", "request."), _object(request, "oldObject", "request.")
    if is_whole and not obj and operation in (Operation.CREATE, Operation.UPDATE):
        raise BadReview(f"request.object: required on {operation}")
    return AdmissionRequest(
        uid=_text(request, "uid", "request.") or _required("request.uid"),
        operation=Operation(operation),
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
    """Read a request without its objects, from the first bytes of a body that is not parsed. Raises BadReview.

    Go writes the fields of a request in the order of their declaration, `object` after all that names it
    (k8s.io/api/admission/v1). A string holds no `,"object":`, for its quotes are escaped; a key of `userInfo.extra` may
    be it, and what ends there is no JSON.
    """
    for found in islice(_OBJECT_KEY.finditer(head), _OBJECT_KEYS):
        try:
            return parse_review(b"%s}}" % head[: found.start()], is_whole=False)
        except BadReview:
            continue  # a key of `extra`
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
    """Parse JSON that orjson rejects because of lone surrogates; report the error in other input.

    Raises BadReview.
    """
    try:
        return json.loads(body.decode("utf-8"), parse_constant=_no_number)
    except RecursionError:
        raise TooDeep("the body is nested too deeply") from None
    except ValueError as error:
        raise BadReview(f"the body is not JSON in UTF-8: {error}") from None


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
    if value is not None and not isinstance(value, dict):  # as json makes them; quicker than any Mapping
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
