"""`forewarn diff --comment`: one comment on a request, posted once and then updated, on servers played here."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import pytest

from forewarn.policies.cli.commands.comment import MARKER, NoComment, post
from tests.in_process import forewarn
from tests.policies.commands.test_diff_command import deployment, snapshot, versions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

__all__ = ["versions"]
TOKEN = "secret-token"
GITHUB, GITLAB = "/api/repos/o/r/issues", "/api/projects/7/merge_requests/3/notes"


class Played:
    """GitHub or GitLab: comments by id, and the requests. `status`: of all answers, if not 200."""

    def __init__(self) -> None:
        self.comments: dict[int, dict[str, Any]] = {}
        self.asked: list[tuple[str, str, str]] = []
        self.status, self.location = 200, ""
        self.base = ""

    def answer(self, method: str, path: str, body: Any) -> Any:
        address, _, query = path.partition("?")
        if method == "GET":
            if address.endswith("/user"):
                return {"id": 42}
            page = int(query.rpartition("page=")[2])
            return list(self.comments.values())[(page - 1) * 100 : page * 100]
        number = len(self.comments) + 1 if method == "POST" else int(address.rpartition("/")[2])
        mine = {
            "id": number,
            "user": {"type": "Bot"},
            "author": {"id": 42},
            "html_url": f"https://git.example/c/{number}",
        }
        self.comments[number] = mine | body
        return self.comments[number]


@pytest.fixture
def server() -> Iterator[Played]:
    played = Played()

    class Handler(BaseHTTPRequestHandler):
        def do_it(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            token = self.headers.get("Authorization", "").removeprefix("Bearer ") or self.headers.get(
                "PRIVATE-TOKEN", ""
            )
            played.asked.append((self.command, self.path, token))
            answer = json.dumps(played.answer(self.command, self.path, json.loads(body or "null"))).encode()
            self.send_response(played.status)
            self.send_header("Location", played.location)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        do_GET = do_POST = do_PATCH = do_PUT = do_it  # noqa: N815

        def log_message(self, *_: Any) -> None:
            """Print nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listening:
        played.base = f"http://127.0.0.1:{listening.server_port}"
        thread = threading.Thread(target=listening.serve_forever, daemon=True)
        thread.start()
        yield played
        listening.shutdown()
        thread.join()


def environment(server: Played, tmp_path: Path, kind: str) -> dict[str, str]:
    event = tmp_path / "event.json"
    event.write_text(json.dumps({"pull_request": {"number": 3}}))
    if kind == "github":
        names = {"GITHUB_REPOSITORY": "o/r", "GITHUB_EVENT_PATH": str(event), "GITHUB_API_URL": f"{server.base}/api"}
        return {"GITHUB_ACTIONS": "true", "GITHUB_TOKEN": TOKEN, **names}
    return {
        "GITLAB_TOKEN": TOKEN,
        "CI_API_V4_URL": f"{server.base}/api",
        "CI_PROJECT_ID": "7",
        "CI_MERGE_REQUEST_IID": "3",
    }


@pytest.mark.parametrize("kind", ["github", "gitlab"])
def test_a_comment_is_posted_once_and_then_updated(kind: str, server: Played, tmp_path: Path) -> None:
    given = environment(server, tmp_path, kind)
    assert post("nothing", given, is_needed=False) == ""
    for number in range(150):  # others' comments on the first page
        server.comments[number + 1] = {"id": number + 1, "body": "hello"}
    assert post("one", given, is_needed=True).endswith("/c/151")
    assert post("two", given, is_needed=False).endswith("/c/151")
    assert len(server.comments) == 151
    assert server.comments[151]["body"] == f"{MARKER}\ntwo"
    assert {token for *_, token in server.asked} == {TOKEN}
    places = {path.partition("?")[0] for _, path, _ in server.asked} - {"/api/user"}
    own = {f"{GITHUB}/3/comments", f"{GITHUB}/comments/151"} if kind == "github" else {GITLAB, f"{GITLAB}/151"}
    assert places == own


@pytest.mark.parametrize("kind", ["github", "gitlab"])
def test_a_contributors_copy_of_the_marker_is_no_comment_of_forewarn(kind: str, server: Played, tmp_path: Path) -> None:
    theirs = {"user": {"type": "User"}, "author_association": "NONE", "author": {"id": 9}}
    server.comments[1] = {"id": 1, "body": f"{MARKER}\nall good", **theirs}
    post("one", environment(server, tmp_path, kind), is_needed=True)
    assert server.comments[1]["body"] == f"{MARKER}\nall good"
    assert server.comments[2]["body"] == f"{MARKER}\none"


@pytest.mark.parametrize("kind", ["github", "gitlab"])
def test_malformed_comments_are_not_of_forewarn(kind: str, server: Played, tmp_path: Path) -> None:
    wrong: list[dict[str, Any]] = [
        {"user": None, "author": 1},
        {"user": "Bot"},
        {"id": "1/../2", "user": {"type": "Bot"}},
    ]
    for number, fields in enumerate(wrong, 1):
        server.comments[number] = {"id": number, "body": f"{MARKER}\nold"} | fields
    assert post("one", environment(server, tmp_path, kind), is_needed=True).endswith("/c/4")


@pytest.mark.parametrize("kind", ["github", "gitlab"])
def test_a_redirect_gets_no_token(kind: str, server: Played, tmp_path: Path) -> None:
    server.status, server.location = 302, f"{server.base}/elsewhere"
    with pytest.raises(NoComment, match="with 302"):
        post("one", environment(server, tmp_path, kind), is_needed=True)
    assert "/elsewhere" not in [path for _, path, _ in server.asked]


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"GITHUB_TOKEN": ""}, "no token. Fix: set the variable FOREWARN_TOKEN or GITHUB_TOKEN"),
        ({"GITHUB_TOKEN": "a\nX: b"}, "no token"),
        ({"GITHUB_TOKEN": "", "GITLAB_TOKEN": TOKEN}, "no token"),
        ({"GITHUB_EVENT_PATH": "/none"}, "Fix: run it for the event pull_request"),
        ({"GITHUB_API_URL": "file:///etc"}, "GITHUB_API_URL is not a URL"),
        ({"GITHUB_ACTIONS": ""}, "not about a pull request or merge request"),
    ],
)
def test_what_is_missing_is_named(changes: dict[str, str], why: str, server: Played, tmp_path: Path) -> None:
    with pytest.raises(NoComment) as error:
        post("one", environment(server, tmp_path, "github") | changes, is_needed=True)
    assert why in str(error.value)
    assert not server.asked


def test_diff_comments_and_says_where(
    versions: Callable[..., tuple[Path, Path]], server: Played, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment(server, tmp_path, "github").items():
        monkeypatch.setenv(name, value)
    snapshot(tmp_path / "full.yaml", 2, ("batch", 2, "low"))
    sides = versions({"web.yaml": []}, {"web.yaml": [deployment("web", 1, "2", priorityClassName="high")]})
    done = forewarn("diff", *sides, "--cluster", tmp_path / "full.yaml", "--comment")
    assert (done.returncode, done.stderr) == (0, "comment: https://git.example/c/1\n")
    title = "### 🔴 HARM: Deployment shop/web created: 1 of 1 new Pod runs, 1 Pod preempted"
    assert server.comments[1]["body"].startswith(f"{MARKER}\n{title}\n")
    server.status = 403
    done = forewarn("diff", *sides, "--cluster", tmp_path / "full.yaml", "--comment")
    why = "127.0.0.1 answers GET of comments with 403. Fix: let the token write comments"
    assert (done.returncode, done.stderr) == (3, f"forewarn diff: --comment: {why}\n")
    assert TOKEN not in done.stdout + done.stderr
