"""Access to the pages, and what a browser lets them do."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.policies.ui.desk import HOST, PORT, Desk, desk

PATHS = ("/", "/predict", "/whatif", "/risk", "/audit", "/api/cluster", "/events/risk", "/api/risk", "/none")
MANIFEST = {"manifest": "kind: Pod"}


@pytest.fixture(scope="module")
def entered() -> Desk:
    return desk()


@pytest.mark.parametrize("path", PATHS)
def test_a_page_without_the_token_is_denied(path: str) -> None:
    answer = desk(entered=False).get(path)
    assert answer.status_code == 403
    assert "cluster.yaml" not in answer.text
    assert "Set-Cookie" not in answer.headers


@pytest.mark.parametrize("token", ["", "wrong", "é"])
def test_a_wrong_token_is_denied(token: str) -> None:
    answer = desk(entered=False).get("/", query_string={"token": token})
    assert answer.status_code == 403
    assert "Set-Cookie" not in answer.headers


def test_the_token_becomes_a_cookie_and_leaves_the_address() -> None:
    made = desk(entered=False)
    answer = made.get(f"/whatif?change=lose-zone&token={made.access.token}&name=a%26b")
    assert answer.status_code == 200
    assert '<meta http-equiv="refresh" content="0; url=/whatif?change=lose-zone&amp;name=a%26b">' in answer.text
    assert made.access.token not in answer.text
    cookie = answer.headers["Set-Cookie"]
    assert cookie.startswith(f"forewarn-ui-{PORT}=")
    assert {"HttpOnly", "SameSite=Strict", "Path=/"} <= set(cookie.split("; "))
    assert made.access.token not in cookie
    assert made.get("/").status_code == 200


@pytest.mark.parametrize("host", ["evil.example", f"evil.example:{PORT}", "127.0.0.1:1", "127.0.0.1", f"[::1]:{PORT}"])
@pytest.mark.parametrize("path", ["/", "/static/page.js", "/api/cluster"])
def test_another_host_is_denied_even_with_cookie_and_token(entered: Desk, host: str, path: str) -> None:
    """DNS rebinding: the name of another site leads to this machine."""
    answer = entered.get(path, headers={"Host": host}, query_string={"token": entered.access.token})
    assert answer.status_code == 403


def test_localhost_is_this_machine() -> None:
    made = desk(entered=False)
    answer = made.get(f"/?token={made.access.token}", base_url=f"http://localhost:{PORT}")
    assert answer.status_code == 200
    assert "Set-Cookie" in answer.headers


def test_the_token_that_a_started_browser_gets_works_once() -> None:
    made = desk(entered=False)
    once = made.access.once
    assert [made.get(f"/?token={once}").status_code for _ in range(2)] == [200, 403]
    assert made.get(f"/?token={made.access.token}").status_code == 200


@pytest.mark.parametrize("path", ["//evil.example/", "/%22%3E%3Cscript%3E", "/%0aa"])
def test_the_first_page_leads_to_no_other_site(path: str) -> None:
    made = desk(entered=False)
    answer = made.get(f"{path}?token={made.access.token}")
    found = re.findall(r'url=([^"]*)"', answer.text)
    assert all(re.match(r"/(?!/)", to) for to in found)
    assert "<script>" not in answer.text


def test_a_post_needs_the_cookie_and_no_token_replaces_it() -> None:
    made = desk(entered=False)
    for path in ("/api/predict", f"/api/predict?token={made.access.token}"):
        assert made.post(path, MANIFEST).status_code == 403


@pytest.mark.parametrize("origin", ["http://evil.example", "null", f"https://{HOST}", "http://127.0.0.1:1"])
def test_a_post_of_another_site_is_denied(entered: Desk, origin: str) -> None:
    assert entered.post("/api/predict", MANIFEST, headers={"Origin": origin}).status_code == 403


@pytest.mark.parametrize("site", ["same-site", "cross-site"])
@pytest.mark.parametrize("path", ["/", "/api/whatif?change=lose-zone&name=a", "/events/risk"])
def test_a_page_on_another_port_starts_no_question(entered: Desk, path: str, site: str) -> None:
    assert entered.get(path, headers={"Sec-Fetch-Site": site}).status_code == 403


@pytest.mark.parametrize("site", ["same-origin", "none"])
def test_the_pages_themselves_and_the_address_bar_are_answered(entered: Desk, site: str) -> None:
    assert entered.get("/", headers={"Sec-Fetch-Site": site}).status_code == 200


def test_a_post_of_the_page_itself_is_answered(entered: Desk) -> None:
    assert entered.post("/api/predict", MANIFEST, headers={"Origin": f"http://{HOST}"}).status_code == 422


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""])
def test_a_post_that_a_form_can_send_is_denied(entered: Desk, kind: str) -> None:
    answer = entered.client.post("/api/predict", base_url=f"http://{HOST}", data=b'{"manifest":""}', content_type=kind)
    assert answer.status_code == 415


def test_a_large_body_is_denied(entered: Desk) -> None:
    assert entered.post("/api/predict", {"manifest": "#" * (1 << 20)}).status_code == 413


@pytest.mark.parametrize(
    "body",
    [
        [],
        {},
        {"manifest": 1},
    ],
)
def test_a_body_of_another_form_is_denied(entered: Desk, body: Any) -> None:
    answer = entered.post("/api/predict", body)
    assert answer.status_code == 400
    assert set(answer.get_json()) == {"error"}


@pytest.mark.parametrize("path", [*PATHS, "/static/page.css", "/static/none"])
def test_every_response_has_the_headers(entered: Desk, path: str) -> None:
    headers = entered.get(path).headers
    policy = dict(part.split(" ", 1) for part in headers["Content-Security-Policy"].split("; "))
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
    assert policy["frame-ancestors"] == policy["base-uri"] == "'none'"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Cache-Control"] == "no-store"
    assert headers["Referrer-Policy"] == "no-referrer"


@pytest.mark.parametrize("name", ["page.css", "page.js", "tables.js", "rows.js", "ui.css", "links.js", "predict.js"])
def test_scripts_and_styles_are_shipped_and_refer_to_no_other_site(entered: Desk, name: str) -> None:
    answer = entered.get(f"/static/{name}")
    assert answer.status_code == 200
    assert "http" not in answer.text
    assert "innerHTML" not in answer.text


@pytest.mark.parametrize("name", ["../access.py", "..%2faccess.py", "__init__.py", "access.py"])
def test_nothing_else_is_shipped(entered: Desk, name: str) -> None:
    assert entered.get(f"/static/{name}").status_code == 404
