"""Access to the operators' pages: for users of the cluster, with their own permissions.

The user is the owner of a bearer token, by a TokenReview of the API server: a platform's proxy sends the token with
each request; with `kubectl port-forward`, the user enters the token once. Headers with the name of a user prove nothing
and are ignored. SubjectAccessReviews decide what is shown: the pages about the whole cluster need the permission to
list each kind that forewarn reads, and a decision needs the permission to list its kind in its namespace.
"""

from __future__ import annotations

import re
import secrets
from collections import OrderedDict
from hashlib import blake2b
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import urlsplit

from flask import Response, abort, g, redirect, render_template, request

from forewarn.policies.findings import cut, one_line
from forewarn.policies.kinds.registry import KINDS, OPTIONAL
from forewarn.policies.objects.fields import at
from forewarn.policies.objects.reviewed_object import User
from forewarn.webhook.admission.access_reviews import ALLOWED_SECONDS, DENIED_SECONDS, AccessReviews, Resource
from forewarn.webhook.admission.callers import bearer
from forewarn.webhook.ui.access import PAGES

if TYPE_CHECKING:
    from collections.abc import Callable

    from forewarn.webhook.apiserver.object_api import ObjectApi

WARNINGS: Final = "warnings"
NAME: Final = "Accuracy and warnings"
PATH: Final = "/apis/authentication.k8s.io/v1/tokenreviews"
SESSION_SECONDS: Final = 3600.0
MAX_SESSIONS: Final = 64
MAX_NEW_REVIEWS: Final = 40
"""Access reviews about kinds in namespaces for one page."""
_MAX_TOKEN: Final = 16 * 1024
_REMEMBERED: Final = 256
_LONGEST: Final = 253
_COOKIE: Final = "forewarn-ui-session"
_LOCAL: Final = ("localhost", "127.0.0.1", "::1")
_FOR_EVERY_USER: Final = ("shipped", "warnings", "warnings_document")
_EVERYTHING: Final = Resource("*", "*", "*")
READ: Final = tuple(
    Resource(spec.group, spec.api_version.rpartition("/")[2], spec.plural) for spec in (*KINDS, *OPTIONAL)
)
"""The resources that the pages about the whole cluster show."""
_PATH: Final = re.compile(r"/(?![/\\])[!-~]*")


class Tokens:
    """The users of tokens, by TokenReviews; answers are cached. Safe from any thread. `clock`: monotonic."""

    def __init__(self, api: ObjectApi, clock: Callable[[], float]) -> None:
        self._api, self._clock = api, clock
        self._lock, self._reviewing = Lock(), Lock()
        self._known: OrderedDict[bytes, tuple[User | None, float]] = OrderedDict()

    def user(self, token: str) -> User | None:
        """The owner of a token; None without one, or if the API server does not answer."""
        if not token or len(token) > _MAX_TOKEN or not token.isascii():
            return None
        key = blake2b(token.encode(), digest_size=32).digest()
        found = self._recall(key)
        if found is None:
            with self._reviewing:  # one review at a time
                found = self._recall(key) or self._remember(key, self._review(token))
        return found[0]

    def _recall(self, key: bytes) -> tuple[User | None, float] | None:
        with self._lock:
            found = self._known.get(key)
            if found is None or found[1] <= self._clock():
                return None
            self._known.move_to_end(key)
            return found

    def _remember(self, key: bytes, user: User | None) -> tuple[User | None, float]:
        found = user, self._clock() + (ALLOWED_SECONDS if user else DENIED_SECONDS)
        with self._lock:
            self._known[key] = found
            self._known.move_to_end(key)
            while len(self._known) > _REMEMBERED:
                self._known.popitem(last=False)
        return found

    def _review(self, token: str) -> User | None:
        review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}
        try:
            status = self._api.create(PATH, review).get("status")
        except OSError:
            return None
        return _user_of(status) if isinstance(status, dict) and status.get("authenticated") is True else None


def _user_of(status: dict[str, Any]) -> User | None:
    name, groups = at(status, "user", "username"), at(status, "user", "groups") or []
    uid, extra = at(status, "user", "uid") or "", at(status, "user", "extra") or {}
    if not (isinstance(name, str) and name and isinstance(groups, list) and isinstance(extra, dict)):
        return None
    more = tuple((key, tuple(map(str, values))) for key, values in extra.items() if isinstance(values, list))
    return User(name, tuple(map(str, groups)), str(uid), more)


class _Session(NamedTuple):
    token: str
    until: float


class Viewers:
    """Access of users of the cluster. `clock`: monotonic."""

    def __init__(self, tokens: Tokens, reviews: AccessReviews, clock: Callable[[], float]) -> None:
        self._tokens, self._reviews, self._clock = tokens, reviews, clock
        self._lock = Lock()
        self._sessions: OrderedDict[str, _Session] = OrderedDict()

    def check(self) -> Response | str | None:
        """Deny a request, answer the first one, or return None for a request of a user who may open the page."""
        is_local = request.headers.get("X-Forewarn-Client") == "loopback"
        if is_local and urlsplit(f"//{request.host}").hostname not in _LOCAL:
            abort(403, "the address must begin with http://localhost or http://127.0.0.1")  # DNS rebinding
        if request.endpoint == "shipped":
            return None
        _check_origin()
        if request.path == "/enter" and is_local:
            return self._enter()
        user = self._user(is_local)
        if user is None:
            return _ask_for_token(is_local)
        g.user = user
        if request.endpoint not in _FOR_EVERY_USER and (missing := self.missing(user)):
            name = cut(one_line(user.name), _LONGEST)
            abort(403, f"this page shows the whole cluster, and {name} may not list {missing.name} in all namespaces")
        return None

    def pages(self) -> dict[str, str]:
        """The pages that the user may open."""
        return {**({} if self.missing(g.user) else PAGES), WARNINGS: NAME}

    def missing(self, user: User) -> Resource | None:
        """A resource that the pages about the whole cluster show and the user may not list; None without any."""
        with self._lock:
            if self._reviews.ask(user, "", _EVERYTHING):
                return None
            return next((each for each in READ if not self._reviews.ask(user, "", each)), None)

    def readable(self, rows: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], bool]:
        """The decisions that the user may read, and whether all permissions were reviewed.

        Without the permission to list everything, a decision has no texts, no requester and no rules.
        """
        if self.missing(g.user) is None:
            return rows, True
        known: dict[tuple[Resource, str], bool] = {}
        shown = []
        for row in rows:
            key = Resource(*row["resource"]), row["namespace"]
            if key not in known and len(known) < MAX_NEW_REVIEWS:
                with self._lock:
                    known[key] = bool(key[1]) and self._reviews.ask(g.user, key[1], key[0])
            if known.get(key):
                verdict = "denied" if row["verdict"] == "denied" else "admitted"
                shown.append({**row, "verdict": verdict, "user": None, "rules": {}, "messages": [], "withheld": []})
        return shown, len(known) < MAX_NEW_REVIEWS

    def _user(self, is_local: bool) -> User | None:
        header = request.headers.get("Authorization", "")
        if header:
            return self._tokens.user(bearer(header))
        if not is_local:
            return None
        with self._lock:
            session = self._sessions.get(request.cookies.get(_COOKIE, ""))
        return self._tokens.user(session.token) if session and session.until > self._clock() else None

    def _enter(self) -> Response:
        """Begin a session with a token: only `kubectl port-forward` and programs in the Pod can."""
        if request.method != "POST" or request.mimetype != "application/x-www-form-urlencoded":
            abort(405, "the token must be sent by the form")
        token, path = request.form.get("token", "").strip(), request.form.get("path", "/")
        if self._tokens.user(token) is None:
            abort(401, "the API server does not accept this token")
        name = secrets.token_urlsafe(32)
        with self._lock:
            self._sessions[name] = _Session(token, self._clock() + SESSION_SECONDS)
            while len(self._sessions) > MAX_SESSIONS:
                self._sessions.popitem(last=False)
        response = redirect(path if _PATH.fullmatch(path) else "/", 303)
        assert isinstance(response, Response)
        response.set_cookie(_COOKIE, name, httponly=True, samesite="Strict", path="/")
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
