"""Access to the operators' pages: for users of the cluster, with their own permissions.

The user is the owner of a bearer token, by a TokenReview of the API server: a platform's proxy sends the token with
each request; with `kubectl port-forward`, the user enters the token once. Headers with the name of a user and the
address of the client prove nothing: a sidecar gives all clients a loopback address. SubjectAccessReviews decide what is
shown: the pages about the whole cluster need the permission to list each kind that forewarn reads, and a decision needs
the permission to list its kind in its namespace.
"""

from __future__ import annotations

import re
import secrets
from collections import Counter, OrderedDict
from contextlib import suppress
from hashlib import blake2b
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from flask import Response, abort, after_this_request, g, redirect, render_template, request

from forewarn.policies.findings import cut, one_line
from forewarn.policies.kinds.registry import KINDS, OPTIONAL
from forewarn.policies.objects.fields import at
from forewarn.policies.objects.reviewed_object import User
from forewarn.webhook.admission.access_reviews import ALLOWED_SECONDS, DENIED_SECONDS, AccessReviews, Resource
from forewarn.webhook.admission.review import bearer
from forewarn.webhook.ui.access import PAGES

if TYPE_CHECKING:
    from collections.abc import Callable

    from forewarn.webhook.apiserver.typed_client import ObjectApi


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


WARNINGS: Final = "warnings"
NAME: Final = "Accuracy and warnings"
SESSION_SECONDS: Final = 3600.0
MAX_SESSIONS: Final = 256
MAX_NEW_REVIEWS: Final = 40
"""Access reviews about kinds in namespaces for one page."""
_LONGEST: Final = 253
_COOKIE: Final = "forewarn-ui-session"
_LOCAL: Final = re.compile(r"(localhost|127\.0\.0\.1|\[::1\])(:\d+)?")
_FOR_EVERY_USER: Final = ("shipped", "warnings", "warnings_document")
_EVERYTHING: Final = Resource("*", "*", "*")
READ: Final = tuple(
    Resource(spec.group, spec.api_version.rpartition("/")[2], spec.plural) for spec in (*KINDS, *OPTIONAL)
)
"""The resources that the pages about the whole cluster show."""
_PATH: Final = re.compile(r"/(?![/\\])[!-~]*")


class _Session(NamedTuple):
    token: str
    user: str
    until: float


class Viewers:
    """Access of users of the cluster. `clock`: monotonic."""

    def __init__(self, tokens: Tokens, reviews: AccessReviews, clock: Callable[[], float]) -> None:
        self._tokens, self._reviews, self._clock = tokens, reviews, clock
        self._lock, self._reviewing = Lock(), Lock()
        self._sessions: OrderedDict[str, _Session] = OrderedDict()

    def check(self) -> Response | str | None:
        """Deny a request, answer the first one, or return None for a request of a user who may open the page."""
        # A page under another name (DNS rebinding) has neither the cookie nor a token to enter.
        is_local = _LOCAL.fullmatch(request.host) is not None
        if request.endpoint == "shipped":
            return None
        _check_origin()
        if request.path == "/enter" and is_local:
            return self._enter()
        user = self._user(is_local)
        if user is None:
            return _ask_for_token(is_local)
        g.user = user
        after_this_request(_tell_the_webhook)
        if request.endpoint not in _FOR_EVERY_USER and (missing := self.missing(user)):
            name = cut(one_line(user.name), _LONGEST)
            abort(403, f"this page shows the whole cluster, and {name} may not list {missing.name} in all namespaces")
        return None

    def pages(self) -> dict[str, str]:
        return {**({} if self.missing(g.user) else PAGES), WARNINGS: NAME}

    def missing(self, user: User) -> Resource | None:
        """A resource that the pages about the whole cluster show and the user may not list; None without any."""
        with self._reviewing:
            if self._reviews.ask(user, "", _EVERYTHING):
                return None
            return next((item for item in READ if not self._reviews.ask(user, "", item)), None)

    def readable(self, rows: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], bool]:
        """The decisions that the user may read, and whether all permissions were reviewed.

        Without the permission to list everything, a decision has no texts, no requester and no rules.
        """
        if self.missing(g.user) is None:
            return rows, True
        answers: dict[tuple[Resource, str], bool] = {}
        shown = []
        for row in rows:
            key = Resource(*row["resource"]), row["namespace"]
            if key not in answers and len(answers) < MAX_NEW_REVIEWS:
                with self._reviewing:
                    answers[key] = bool(key[1]) and self._reviews.ask(g.user, key[1], key[0])
            if answers.get(key):
                verdict = "denied" if row["verdict"] == "denied" else "admitted"
                shown.append({**row, "verdict": verdict, "user": None, "rules": {}, "messages": [], "withheld": []})
        return shown, len(answers) < MAX_NEW_REVIEWS

    def _user(self, is_local: bool) -> User | None:
        header = request.headers.get("Authorization", "")
        if header:
            return self._owner(bearer(header))
        if not is_local:
            return None
        with self._lock:
            session = self._sessions.get(request.cookies.get(_COOKIE, ""))
        return self._owner(session.token) if session and session.until > self._clock() else None

    def _owner(self, token: str) -> User | None:
        try:
            return self._tokens.user(token, request.headers.get("X-Forewarn-Client", ""))
        except TooManyInvalid:
            abort(429, "too many invalid tokens were sent. Fix: try again in a few seconds")

    def _enter(self) -> Response:
        """Begin a session with a token. Only a browser with `kubectl port-forward` has a use for it."""
        if request.method != "POST" or request.mimetype != "application/x-www-form-urlencoded":
            abort(405, "the token must be sent by the form")
        token, path = request.form.get("token", "").strip(), request.form.get("path", "/")
        user = self._owner(token)
        if user is None:
            abort(401, "the API server does not accept this token")
        name = secrets.token_urlsafe(32)
        with self._lock:
            self._sessions[name] = _Session(token, user.name, self._clock() + SESSION_SECONDS)
            if len(self._sessions) > MAX_SESSIONS:
                self._end_one()
        response = redirect(path if _PATH.fullmatch(path) else "/", 303)
        assert isinstance(response, Response)
        response.set_cookie(_COOKIE, name, httponly=True, samesite="Strict", path="/")
        return response

    def _end_one(self) -> None:
        """End the oldest session of the user with the most."""
        crowd = Counter(session.user for session in self._sessions.values()).most_common(1)[0][0]
        del self._sessions[next(name for name, session in self._sessions.items() if session.user == crowd)]


def _tell_the_webhook(response: Response) -> Response:
    """Say that the credentials are valid: see `webhook.http.server`."""
    response.headers["X-Forewarn-User"] = "known"
    return response


def _check_origin() -> None:
    """Deny requests of other sites, except the opening of a page: its address is in a link, or a proxy leads there."""
    site = request.headers.get("Sec-Fetch-Site", "none")
    opens = request.headers.get("Sec-Fetch-Mode") == "navigate" and request.method == "GET"
    if site not in ("none", "same-origin") and not (opens and not request.path.startswith(("/api/", "/events/"))):
        abort(403, "this request is from another site")
    if request.method == "POST":
        origin = request.headers.get("Origin")
        if "Sec-Fetch-Site" not in request.headers and origin and origin.partition("//")[2] != request.host:
            abort(403, "this request is from another site")
        if request.path != "/enter" and request.mimetype != "application/json":
            abort(415, "the body must be application/json")


def _ask_for_token(is_local: bool) -> Response:
    if is_local and request.method == "GET" and not request.path.startswith(("/api/", "/events/")):
        return Response(render_template("token.html", path=request.full_path.rstrip("?")), 401)
    response = Response(render_template("error.html", name="Unauthorized", reason=_NO_TOKEN), 401)
    response.headers["WWW-Authenticate"] = "Bearer"
    return response


_NO_TOKEN: Final = (
    "the request has no valid bearer token of a user of the cluster. Fix: use kubectl port-forward, or a proxy that "
    "sends the user's token in the header Authorization"
)
