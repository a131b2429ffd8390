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
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from flask import Response, abort, after_this_request, g, redirect, render_template, request

from forewarn.policies.findings import cut, one_line
from forewarn.policies.kinds.registry import KINDS, OPTIONAL
from forewarn.webhook.admission.access_reviews import AccessReviews, Resource
from forewarn.webhook.admission.callers import bearer
from forewarn.webhook.ui.access import PAGES
from forewarn.webhook.ui.token_reviews import Tokens, TooManyInvalid

if TYPE_CHECKING:
    from collections.abc import Callable

    from forewarn.policies.objects.reviewed_object import User

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
        """The pages that the user may open."""
        return {**({} if self.missing(g.user) else PAGES), WARNINGS: NAME}

    def missing(self, user: User) -> Resource | None:
        """A resource that the pages about the whole cluster show and the user may not list; None without any."""
        with self._reviewing:
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
                with self._reviewing:
                    known[key] = bool(key[1]) and self._reviews.ask(g.user, key[1], key[0])
            if known.get(key):
                verdict = "denied" if row["verdict"] == "denied" else "admitted"
                shown.append({**row, "verdict": verdict, "user": None, "rules": {}, "messages": [], "withheld": []})
        return shown, len(known) < MAX_NEW_REVIEWS

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
    """Say that the credentials are valid: see `forwarding`."""
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
