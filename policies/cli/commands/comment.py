"""One comment on a pull request or merge request: posted once, then updated.

Sources: GitHub REST API, issue comments; GitLab REST API, notes of merge requests. Variables of the CI system select
the request; a token comes from the environment and is not printed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from http.client import HTTPException
from typing import Any, Final, NamedTuple
from urllib.error import HTTPError
from urllib.parse import quote, urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from forewarn.policies.base.findings import brief
from forewarn.policies.kubernetes.objects.fields import at

MARKER: Final = "<!-- forewarn diff -->"
"""The first line of the comment, which browsers do not show."""
_TRUSTED: Final = ("OWNER", "MEMBER", "COLLABORATOR")
_PAGES, _PER_PAGE, _SECONDS, _MAX_BYTES = 20, 100, 30.0, 16 << 20


class NoComment(ValueError):
    """The comment cannot be posted."""


class _NoRedirects(HTTPRedirectHandler):
    """Follows no redirects, because another host must not get the token."""

    def redirect_request(self, *_: Any) -> None:
        """Follow no redirect."""


class _Place(NamedTuple):
    """The API for comments. `comments`: the address of the list. `comment`: the address of a comment, without its id.
    `method`: the HTTP method that updates a comment. `headers`: for all requests, with the token.
    """

    comments: str
    comment: str
    method: str
    headers: dict[str, str]
    author: int | None = None

    def is_own(self, comment: Any) -> bool:
        """Report whether forewarn may have written a comment. The marker is no proof: contributors can copy it."""
        if not str(at(comment, "body")).startswith(MARKER) or not isinstance(at(comment, "id"), int):
            return False
        if self.author is not None:
            return bool(at(comment, "author", "id") == self.author)
        return at(comment, "user", "type") == "Bot" or at(comment, "author_association") in _TRUSTED


def post(markdown: str, environment: Mapping[str, str], *, is_needed: bool) -> str:
    """Post the comment, or update the comment of an earlier run; return its address, or "" if there is none.

    `is_needed`: post a first comment; otherwise, only an existing one is updated. Raises NoComment.
    """
    place = _on_github(environment) if environment.get("GITHUB_ACTIONS") else _on_gitlab(environment)
    body = {"body": f"{MARKER}\n{markdown}"}
    own = next((comment for comment in _comments(place) if place.is_own(comment)), None)
    if own is None and not is_needed:
        return ""
    update = (place.method, f"{place.comment}/{own['id']}") if own is not None else ("POST", place.comments)
    answer = _answer(*update, place.headers, body)
    return brief(str(at(answer, "html_url") or "posted"), 300)


def _token(environment: Mapping[str, str], of_system: str) -> str:
    """Return the token for a CI system; no system gets the token of another one."""
    token = environment.get("FOREWARN_TOKEN") or environment.get(of_system) or ""
    if not token.isascii() or not token.isprintable() or not token:
        raise NoComment(f"no token. Fix: set the variable FOREWARN_TOKEN or {of_system}")
    return token


def _on_github(environment: Mapping[str, str]) -> _Place:
    token = _token(environment, "GITHUB_TOKEN")
    api, repository = _url(environment, "GITHUB_API_URL"), quote(environment.get("GITHUB_REPOSITORY", ""))
    try:
        with open(environment.get("GITHUB_EVENT_PATH", ""), "rb") as file:
            event = json.load(file)
        number = int(event["pull_request"]["number"])
    except (OSError, ValueError, KeyError, TypeError):
        raise NoComment("the run is not about a pull request. Fix: run it for the event pull_request") from None
    issues = f"{api}/repos/{repository}/issues"
    headers = {"Authorization": f"Bearer {token}", "Accept": "application/vnd.github+json"}
    return _Place(f"{issues}/{number}/comments", f"{issues}/comments", "PATCH", headers)


def _on_gitlab(environment: Mapping[str, str]) -> _Place:
    request = environment.get("CI_MERGE_REQUEST_IID", "")
    if not request.isdecimal():
        raise NoComment("the run is not about a pull request or merge request. Fix: run it in their pipelines")
    api, project = _url(environment, "CI_API_V4_URL"), quote(environment.get("CI_PROJECT_ID", ""))
    headers = {"PRIVATE-TOKEN": _token(environment, "GITLAB_TOKEN")}
    notes = f"{api}/projects/{project}/merge_requests/{request}/notes"
    user = _answer("GET", f"{api}/user", headers)
    return _Place(notes, notes, "PUT", headers, at(user, "id") or 0)


def _url(environment: Mapping[str, str], name: str) -> str:
    url = environment.get(name, "")
    if urlsplit(url).scheme not in ("https", "http"):
        raise NoComment(f"{name} is not a URL")
    return url.rstrip("/")


def _comments(place: _Place) -> Iterator[Any]:
    for page in range(1, _PAGES + 1):
        comments = _answer("GET", f"{place.comments}?per_page={_PER_PAGE}&page={page}", place.headers)
        yield from comments if isinstance(comments, list) else ()
        if not isinstance(comments, list) or len(comments) < _PER_PAGE:
            return


def _answer(method: str, url: str, headers: Mapping[str, str], body: Mapping[str, str] | None = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    request = Request(url, data, {**headers, "Content-Type": "application/json"}, method=method)
    host = urlsplit(url).hostname
    try:
        with build_opener(_NoRedirects).open(request, timeout=_SECONDS) as response:
            return json.loads(response.read(_MAX_BYTES))
    except HTTPError as error:
        error.close()
        fix = ". Fix: let the token write comments" if error.code in (401, 403, 404) else ""
        raise NoComment(f"{host} answers {method} of comments with {error.code}{fix}") from None
    except (OSError, HTTPException, ValueError) as error:
        raise NoComment(f"{host}: {brief(str(error), 200)}") from None
