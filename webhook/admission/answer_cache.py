"""Responses without uid, and a cache of them, because most requests are identical to an earlier one."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING, Final, NamedTuple

import orjson

from forewarn.policies.base.findings import Action, cut, one_line
from forewarn.policies.kubernetes.kinds.registry import POD
from forewarn.policies.kubernetes.objects.reviewed_object import Operation
from forewarn.webhook.admission.impact_annotation import ADDED
from forewarn.webhook.logs import MAX_TEXT

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.objects.fields import ApiObject
    from forewarn.webhook.admission.admitted_pods import Admitted
    from forewarn.webhook.admission.decision import Decision
    from forewarn.webhook.admission.review import AdmissionRequest, Hook

_CACHE_SIZE: Final = 1024
_MAX_SIZE: Final = 16 * 1024
"""Maximum bytes of a cached response; a response with many warnings may have hundreds of thousands."""
_SECONDS: Final = 1.0
"""Lifetime of a cached response: some responses depend on the time."""
_DIGEST: Final = 16
_SPOKEN: Final = (Action.DENY, Action.WARN)


class Answered(NamedTuple):
    """A response without the request's uid, with values for metrics and logs. `silent`: whether it is allowed without
    any message.

    `withheld`: (rule id, full message) of findings for which the requester gets a shorter message.
    """

    body: bytes
    verdict: str
    findings: tuple[tuple[str, str], ...]
    exemption: str
    silent: bool
    withheld: tuple[tuple[str, str], ...] = ()

    @classmethod
    def from_decision(cls, decision: Decision) -> Answered:
        """Return the response for a decision."""
        response = decision.response
        silent = response.allowed and not (response.patch or response.warnings or response.audit or decision.findings)
        actions = tuple((finding.rule, finding.action.value) for finding in decision.findings)
        withheld = tuple(
            (f.rule, one_line(f.message)) for f in decision.findings if f.for_requester and f.action in _SPOKEN
        )
        return cls(response.without_uid(), decision.verdict.value, actions, decision.exemption, silent, withheld)

    def fields_of(self, hook: Hook, request: AdmissionRequest) -> dict[str, object]:
        """Return the fields of the log line for this response."""
        fields: dict[str, object] = {
            "phase": hook.value,
            "uid": request.uid,
            "operation": request.operation.value,
            "kind": request.kind.group_kind.removeprefix("/"),
            "namespace": request.namespace,
            "name": cut(request.name, MAX_TEXT),  # not validated yet, so it may be long
            "user": request.user.name,
            "verdict": self.verdict,
            "rules": dict(self.findings),
        }
        if request.subresource:
            fields["subresource"] = request.subresource
        if request.dry_run:
            fields["dry_run"] = True
        if self.withheld:
            fields["withheld"] = dict(self.withheld)
        if self.exemption:
            fields["exemption"] = self.exemption
        return fields


class Key(NamedTuple):
    """A digest of a request without its uid. `nameless`: also without a name that the API server generated."""

    digest: bytes
    nameless: bool


def key_of(hook: Hook, request: AdmissionRequest, admitted: Sequence[Admitted] = ()) -> Key | None:
    """Return the key of a request; None if a later equal request may need another response.

    `admitted`: recently admitted objects that the response depends on.
    """
    obj, old = request.object, request.old
    metadata = obj.get("metadata")
    nameless = (
        request.kind.group_kind == POD
        and request.operation is Operation.CREATE
        and isinstance(metadata, dict)
        and bool(metadata.get("generateName"))
    )
    fields = (
        hook,
        request.operation,
        *request.kind,
        *request.resource,
        request.subresource,
        "" if nameless else request.name,
        request.namespace,
        *request.user,  # the whole user: `uid` and `extra` may also restrict what a token may read
        request.dry_run,
        _settled(obj, nameless),
        None if old is None else _settled(old, False),
        *(item.number for item in admitted),
    )
    try:
        data = orjson.dumps(fields)
    except TypeError:
        return None
    if nameless and b'"ephemeral"' in data:
        return None  # names of ephemeral claims contain the Pod's name
    return Key(blake2b(data, digest_size=_DIGEST).digest(), nameless)


def _settled(obj: ApiObject, nameless: bool) -> Mapping[str, object]:
    metadata = obj.get("metadata")
    if not isinstance(metadata, dict):
        return obj if isinstance(obj, dict) else dict(obj)
    omitted = ADDED | {"name"} if nameless else ADDED
    return {**obj, "metadata": {key: value for key, value in metadata.items() if key not in omitted}}


_Latest = tuple[tuple[object, object], "OrderedDict[bytes, tuple[float, Answered]]"]
"""(The latest state, its responses). Both are replaced together, because several threads read them."""


class AnswerCache:
    """A cache of the responses of the last second. Thread-safe.

    A state (cluster, configuration) is compared by identity; a new state empties the cache.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._latest: _Latest = (None, None), OrderedDict()

    def get(self, key: Key, state: tuple[object, object]) -> Answered | None:
        """Return the cached response to this request, if the state is the same; otherwise None."""
        revision, answers = self._latest
        if revision[0] is not state[0] or revision[1] is not state[1]:
            return None
        answer = answers.get(key.digest)
        if answer is None:
            return None
        until, answered = answer
        now = self._clock()
        if until > now:
            return answered
        answers[key.digest] = now + _SECONDS, answered  # this thread renews the entry; others use the old one meanwhile
        return None

    def put(self, key: Key, state: tuple[object, object], answered: Answered) -> None:
        """Cache a response. A response that contains the object's name is cached only for that object."""
        if key.nameless and not answered.silent:
            return
        if len(answered.body) + sum(len(text) for _, text in answered.withheld) > _MAX_SIZE:
            return
        revision, answers = self._latest
        if revision[0] is not state[0] or revision[1] is not state[1]:
            answers = OrderedDict()
            self._latest = state, answers
        answers[key.digest] = self._clock() + _SECONDS, answered
        while len(answers) > _CACHE_SIZE:
            answers.popitem(last=False)
