"""The users of bearer tokens, by TokenReviews, and limits on reviews of tokens that were never valid.

Clients behind a proxy or a sidecar share an address. A token that was valid once is therefore reviewed again whatever
the limits say, and an address without an invalid token is not charged for those of others.
"""

from __future__ import annotations

from collections import OrderedDict
from contextlib import suppress
from hashlib import blake2b
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

from forewarn.policies.objects.fields import at
from forewarn.policies.objects.reviewed_object import User
from forewarn.webhook.admission.access_reviews import ALLOWED_SECONDS, DENIED_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable

    from forewarn.webhook.apiserver.object_api import ObjectApi

PATH: Final = "/apis/authentication.k8s.io/v1/tokenreviews"
OF_AN_ADDRESS: Final = 10, 1.0
"""Invalid tokens of an address: at once, and per second after that."""
OF_ALL: Final = 40, 10.0
"""The same of all addresses that sent one before, and again of all addresses that did not."""
FORGET_SECONDS: Final = 600.0
_REMEMBERED: Final = 256
_ADDRESSES: Final = 1024
_MAX_TOKEN: Final = 16 * 1024


class TooManyInvalid(Exception):
    """Too many invalid tokens, so a token is not reviewed."""


class _Bucket:
    """A token bucket that fills up to `most`. `at`: when something was last taken."""

    def __init__(self, most: int, rate: float, at: float) -> None:
        self._most, self._rate, self._left, self.at = most, rate, float(most), at

    def left(self, now: float) -> float:
        return min(self._most, self._left + (now - self.at) * self._rate)

    def take(self, now: float) -> None:
        self._left, self.at = self.left(now) - 1, now


class _Limits:
    """The limits on invalid tokens. Only for one thread at a time."""

    def __init__(self, now: float) -> None:
        self._addresses: OrderedDict[str, _Bucket] = OrderedDict()
        self._new, self._others = _Bucket(*OF_ALL, now), _Bucket(*OF_ALL, now)

    def allow(self, address: str, now: float) -> bool:
        while self._addresses and next(iter(self._addresses.values())).at <= now - FORGET_SECONDS:
            self._addresses.popitem(last=False)
        own = self._addresses.get(address)
        return self._new.left(now) >= 1 if own is None else min(own.left(now), self._others.left(now)) >= 1

    def charge(self, address: str, now: float) -> None:
        own = self._addresses.get(address)
        (self._new if own is None else self._others).take(now)
        own = own or _Bucket(*OF_AN_ADDRESS, now)
        own.take(now)
        self._addresses[address] = own
        self._addresses.move_to_end(address)
        if len(self._addresses) > _ADDRESSES:
            self._addresses.popitem(last=False)


Answer = tuple[User | None, float]
"""A user, and until when the answer is valid."""


class Tokens:
    """The users of tokens; answers are cached. Safe from any thread. `clock`: monotonic."""

    def __init__(self, api: ObjectApi, clock: Callable[[], float]) -> None:
        self._api, self._clock = api, clock
        self._lock, self._reviewing = Lock(), Lock()
        self._valid: OrderedDict[bytes, Answer] = OrderedDict()
        """Tokens that their last complete review found valid."""
        self._others: OrderedDict[bytes, Answer] = OrderedDict()
        self._limits = _Limits(clock())

    def user(self, token: str, address: str) -> User | None:
        """The owner of a token; None without one, or if the API server does not answer. Raises TooManyInvalid.

        `address`: of the client.
        """
        if not token or len(token) > _MAX_TOKEN or not token.isascii():
            return None
        key = blake2b(token.encode(), digest_size=32).digest()
        answer = self._recall(key)
        if answer is None:
            with self._reviewing:  # one review at a time
                answer = self._recall(key) or self._ask(key, token, address)
        return answer[0]

    def _recall(self, key: bytes) -> Answer | None:
        with self._lock:
            cache = self._valid if key in self._valid else self._others
            answer = cache.get(key)
            if answer is None or answer[1] <= self._clock():
                return None
            cache.move_to_end(key)
            return answer

    def _ask(self, key: bytes, token: str, address: str) -> Answer:
        with self._lock:
            is_valid = key in self._valid
        if not is_valid and not self._limits.allow(address, self._clock()):
            raise TooManyInvalid
        user = None
        with suppress(OSError):  # says nothing about the token
            user = self._review(token)
            is_valid = user is not None
        if not is_valid:
            self._limits.charge(address, self._clock())
        return self._remember(key, user, is_valid=is_valid)

    def _remember(self, key: bytes, user: User | None, *, is_valid: bool) -> Answer:
        answer = user, self._clock() + (ALLOWED_SECONDS if user else DENIED_SECONDS)
        cache = self._valid if is_valid else self._others
        with self._lock:
            self._valid.pop(key, None)
            self._others.pop(key, None)
            cache[key] = answer
            if len(cache) > _REMEMBERED:
                cache.popitem(last=False)
        return answer

    def _review(self, token: str) -> User | None:
        review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}
        status = self._api.create(PATH, review).get("status")
        return _user_of(status) if isinstance(status, dict) and status.get("authenticated") is True else None


def _user_of(status: dict[str, Any]) -> User | None:
    name, groups = at(status, "user", "username"), at(status, "user", "groups") or []
    uid, extra = at(status, "user", "uid") or "", at(status, "user", "extra") or {}
    if not (isinstance(name, str) and name and isinstance(groups, list) and isinstance(extra, dict)):
        return None
    more = tuple((key, tuple(map(str, values))) for key, values in extra.items() if isinstance(values, list))
    return User(name, tuple(map(str, groups)), str(uid), more)
