"""SubjectAccessReviews: may a user list Pods in a namespace, or in all namespaces?

Answers are cached, as in the API server's own authorization webhook. Source: k8s.io/api/authorization/v1.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Callable
from hashlib import blake2b
from threading import BoundedSemaphore, Lock
from typing import TYPE_CHECKING, Any, Final

from forewarn.policies.kubernetes.objects.fields import at

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.objects.reviewed_object import User
    from forewarn.webhook.apiserver.typed_client import ObjectApi

PATH: Final = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
ALLOWED_SECONDS: Final = 60.0
DENIED_SECONDS: Final = 10.0
"""Seconds that a denial, or a failed review, is cached."""
REMEMBERED: Final = 1024
AT_ONCE: Final = 4
TIMEOUTS: Final = (0.5, 1.0, 1.0)
"""Timeouts of a SubjectAccessReview in seconds: to connect, between two parts of the response, and in total."""
MAX_REVIEW: Final = 64 * 1024
"""Maximum bytes of a SubjectAccessReview. A user with more groups or more `extra` is not allowed."""


class AccessReviews:
    """Sends SubjectAccessReviews to the API server and caches the answers. Thread-safe."""

    def __init__(self, api: ObjectApi, clock: Callable[[], float]) -> None:
        self._api, self._clock = api, clock
        self._answers: OrderedDict[bytes, tuple[bool, float]] = OrderedDict()
        """Digest of a review -> (whether it is allowed, until when this is cached)."""
        self._lock = Lock()
        self._in_flight = BoundedSemaphore(AT_ONCE)

    def cached_answer(self, user: User, namespace: str = "") -> bool | None:
        """Return the cached answer; None if there is none. Does not block."""
        return self._recall(_key(_review_of(user, namespace)))

    def ask(self, user: User, namespace: str = "") -> bool:
        """Report whether the user may list Pods in a namespace (default: in all); false if the API server does not
        answer. May block for a second. Caches the answer.
        """
        review = _review_of(user, namespace)
        key = _key(review)
        answer = self._recall(key)
        if answer is not None:
            return answer
        if len(review) > MAX_REVIEW or not self._in_flight.acquire(blocking=False):
            return False  # not cached, so that the next request asks again
        try:
            allowed = at(self._api.create(PATH, json.loads(review)), "status", "allowed") is True
        except OSError:
            allowed = False
        finally:
            self._in_flight.release()
        with self._lock:
            seconds = ALLOWED_SECONDS if allowed else DENIED_SECONDS
            self._answers[key] = allowed, self._clock() + seconds
            self._answers.move_to_end(key)
            while len(self._answers) > REMEMBERED:
                self._answers.popitem(last=False)
        return allowed

    def _recall(self, key: bytes) -> bool | None:
        with self._lock:
            allowed, until = self._answers.get(key, (None, 0.0))
            if allowed is None or until <= self._clock():
                return None
            self._answers.move_to_end(key)
            return allowed


def access_review(user: User, **attributes: str) -> dict[str, Any]:
    """Return the SubjectAccessReview, with all fields of the user: `extra` may restrict a token's permissions.

    `attributes`: those of the resource; "" if absent.
    """
    spec = {
        "user": user.name,
        "groups": list(user.groups),
        **({"uid": user.uid} if user.uid else {}),
        **({"extra": {key: list(values) for key, values in user.extra}} if user.extra else {}),
        "resourceAttributes": {key: value for key, value in attributes.items() if value},
    }
    return {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}


def _review_of(user: User, namespace: str) -> bytes:
    review = access_review(user, verb="list", version="v1", resource="pods", namespace=namespace)
    return json.dumps(review, sort_keys=True).encode()


def _key(review: bytes) -> bytes:
    return blake2b(review, digest_size=16).digest()
