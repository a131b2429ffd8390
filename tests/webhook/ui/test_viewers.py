"""What users of the cluster see on the operators' pages."""

from __future__ import annotations

import json
from typing import Any

import pytest
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from forewarn.policies.objects.reviewed_object import Operation, User
from forewarn.webhook.admission.access_reviews import ALLOWED_SECONDS, DENIED_SECONDS, AccessReviews, Resource
from forewarn.webhook.admission.answer_cache import Answered
from forewarn.webhook.admission.endpoint import MAX_DECISIONS, RecentDecisions
from forewarn.webhook.admission.review import AdmissionRequest, GroupVersionKind, GroupVersionResource, Hook
from forewarn.webhook.apiserver.typed_client import ObjectApi, ObjectApiError
from forewarn.webhook.ui.app import create_ui_app
from forewarn.webhook.ui.shown import Cluster, Shown
from forewarn.webhook.ui.viewers import MAX_NEW_REVIEWS, MAX_SESSIONS, READ, SESSION_SECONDS, Tokens, Viewers
from tests.json_outputs import validator

LOCAL = {"Host": "localhost:8080", "X-Forewarn-Client": "127.0.0.1"}
BEHIND_A_PROXY = {"Host": "forewarn.example", "X-Forewarn-Client": "127.0.0.1"}
"""The address of clients behind a sidecar is that of `kubectl port-forward`."""
FORM = "application/x-www-form-urlencoded"
MAX_SECONDS = 10.0
HOSTILE = "<script>alert(1)</script>\u202e\ud800"
ACCURACY = {
    "results": {"matched": 3, "explained": 0, "wrong": 1},
    "open": 0,
    "notCompared": 0,
    "examples": [
        {"result": "wrong", "pod": "hidden/p", "predicted": "a", "happened": HOSTILE, "at": 1.0, "change": ""},
    ],
    "workloads": {
        "results": {"matched": 7, "explained": 2, "wrong": 1},
        "open": 0,
        "explainedBy": {"ties": 2},
        "examples": [],
    },
}


class Api(ObjectApi):
    """Reviews of an API server. ada: everything; ops: each kind that is read; kim: Deployments in shop."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.fails = False
        self.now = 0.0
        self.users = {"for-ada": "ada", "for-ops": "ops", "for-kim": "kim", "for-zoe": HOSTILE[:-1]}

    def create(self, path: str, obj: Any) -> dict[str, Any]:
        self.asked.append(obj)
        if self.fails:
            raise ObjectApiError("no answer")
        if path.endswith("tokenreviews"):
            name = self.users.get(obj["spec"]["token"])
            user = {"username": name, "groups": ["g"], "extra": {"scopes": ["s"]}}
            return {"status": {"authenticated": True, "user": user} if name else {"error": "no"}}
        asked = obj["spec"]["resourceAttributes"]
        wanted = Resource(asked.get("group", ""), asked["version"], asked["resource"])
        may = {
            "ada": True,
            "ops": wanted in READ and "namespace" not in asked,
            "kim": (asked.get("namespace"), wanted) == ("shop", DEPLOYMENTS),
        }
        return {"status": {"allowed": may.get(obj["spec"]["user"], False)}}

    def get(self, path: str) -> dict[str, Any]:
        raise NotImplementedError

    def replace(self, path: str, obj: Any) -> dict[str, Any]:
        raise NotImplementedError


DEPLOYMENTS = Resource("apps", "v1", "deployments")


class Desk:
    def __init__(self) -> None:
        self.api, self.recent = Api(), RecentDecisions(lambda: 1_768_000_000.0)

        def clock() -> float:
            return self.api.now

        viewers = Viewers(Tokens(self.api, clock), AccessReviews(self.api, clock), clock)
        shown = Shown("", "9 nodes", (), {"notDrawn": 0}, {"nodes": []}, ())
        processes: Any = None
        recent = (lambda: {"decisions": self.recent.table(), "accuracy": ACCURACY}), viewers.readable
        self.client: FlaskClient = create_ui_app(Cluster(processes, shown), processes, viewers, recent).test_client()

    def decide(
        self,
        namespace: str,
        name: str,
        *,
        plural: str = "deployments",
        verdict: str = "warned",
        hook: Hook = Hook.VALIDATE,
    ) -> None:
        group = "apps" if plural == "deployments" else ""
        request = AdmissionRequest(
            "uid",
            Operation.CREATE,
            GroupVersionKind(group, "v1", plural.capitalize()),
            GroupVersionResource(group, "v1", plural),
            name=name,
            namespace=namespace,
            user=User("eve"),
        )
        body = json.dumps({"allowed": True, "warnings": [f"would preempt secret/{name}"]}).encode()
        rules = (("preempts-running-pods", "warn"),)
        self.recent.add(hook, request, Answered(body, verdict, rules, "", False, (("r", f"in full: {name}"),)))

    def get(self, path: str, token: str = "", **headers: str) -> TestResponse:
        more = {"Authorization": f"Bearer {token}"} if token else {}
        return self.client.get(path, headers={**BEHIND_A_PROXY, **more, **headers})


@pytest.fixture
def desk() -> Desk:
    return Desk()


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": "Bearer wrong"},
        {"Authorization": "Basic for-ada"},
        {"Authorization": "Bearer " + "a" * 20_000},
        {"X-Remote-User": "ada", "X-Remote-Group": "system:masters"},
        {"X-Forwarded-User": "ada"},
        {"Impersonate-User": "ada"},
        {"Cookie": "forewarn-ui-session="},
    ],
)
@pytest.mark.parametrize("client", [LOCAL, BEHIND_A_PROXY])
def test_without_a_valid_token_nothing_is_shown(desk: Desk, headers: dict[str, str], client: dict[str, str]) -> None:
    desk.decide("shop", "till")
    for path in ("/", "/warnings", "/api/warnings", "/api/cluster", "/events/risk"):
        answer = desk.client.get(path, headers={**client, **headers})
        assert answer.status_code == 401
        assert "9 nodes" not in answer.text
        assert "till" not in answer.text


def test_no_answer_of_the_api_server_means_no_access(desk: Desk) -> None:
    desk.api.fails = True
    assert desk.get("/", "for-ada").status_code == 401
    desk.api.now += DENIED_SECONDS
    desk.api.fails = False
    assert desk.get("/api/cluster", "for-ada").status_code == 200
    desk.api.fails = True
    desk.api.now += ALLOWED_SECONDS - 1
    assert desk.get("/api/cluster", "for-ada").status_code == 200, "cached"
    desk.api.now += 1
    assert desk.get("/api/cluster", "for-ada").status_code == 401


@pytest.mark.parametrize("token", ["for-ada", "for-ops"])
def test_who_may_list_all_kinds_sees_all(desk: Desk, token: str) -> None:
    desk.decide("shop", "web")
    page = desk.get("/warnings", token)
    assert 'href="/predict"' in page.text
    for text in ("shop/web", "eve", "would preempt secret/web", "in full: web", "hidden/p"):
        assert text in page.text
    assert "whole changes as predicted: 7 of 10 (70%); explained by ties: 2; wrong: 1" in page.text
    assert desk.get("/api/cluster", token).status_code == 200


def test_one_missing_permission_hides_the_pages_of_the_whole_cluster(desk: Desk) -> None:
    create, nodes = desk.api.create, Resource("", "v1", "nodes")

    def without_nodes(path: str, obj: Any) -> dict[str, Any]:
        asked = obj["spec"].get("resourceAttributes", {})
        return {"status": {"allowed": False}} if asked.get("resource") == nodes.name else create(path, obj)

    desk.api.create = without_nodes  # type: ignore[method-assign]
    answer = desk.get("/", "for-ops")
    assert answer.status_code == 403
    assert "ops may not list nodes in all namespaces" in answer.text


def test_a_tenant_sees_decisions_of_the_own_namespace_without_texts(desk: Desk) -> None:
    desk.decide("shop", "web")
    desk.decide("shop", "no", verdict="denied")
    desk.decide("bank", "hidden")
    desk.decide("shop", "hidden", plural="pods")
    desk.decide("", "hidden", plural="namespaces")
    for path in ("/warnings", "/api/warnings", "/warnings?text=secret", "/warnings?text=ev"):
        text = desk.get(path, "for-kim").text
        for hidden in ("hidden", "eve<", '"eve"', "secret/", "in full", "preempts-running-pods", "<td>warned"):
            assert hidden not in text, path
    found = desk.get("/api/warnings", "for-kim").get_json()
    assert list(validator("ui-warnings").iter_errors(found)) == []
    assert [(row["name"], row["verdict"]) for row in found["decisions"]] == [("no", "denied"), ("web", "admitted")]
    assert found["accuracy"] is None
    assert desk.get("/api/warnings?text=secret", "for-kim").get_json()["decisions"] == []


def test_a_page_sends_a_bounded_number_of_access_reviews(desk: Desk) -> None:
    for number in range(MAX_NEW_REVIEWS + 5):
        desk.decide(f"n-{number}", "web")
    desk.get("/api/warnings", "for-kim")
    reviews = [each for each in desk.api.asked if "resourceAttributes" in each["spec"]]
    assert len(reviews) <= MAX_NEW_REVIEWS + 2
    assert "Not all namespaces were checked" in desk.get("/warnings", "for-kim").text
    assert "Not all namespaces were checked" not in desk.get("/warnings?namespace=shop", "for-kim").text


def test_a_review_has_all_fields_of_the_user(desk: Desk) -> None:
    desk.get("/warnings", "for-kim")
    spec = desk.api.asked[-1]["spec"]
    assert (spec["user"], spec["groups"], spec["extra"]) == ("kim", ["g"], {"scopes": ["s"]})


def test_decisions_are_filtered_and_a_link_restores_the_filter(desk: Desk) -> None:
    desk.decide("shop", "web")
    desk.decide("bank", "api", verdict="denied")
    page = desk.get("/warnings?verdict=denied&namespace=bank&text=API", "for-ada").text
    assert "bank/api" in page
    assert "shop/web" not in page
    assert "<option selected>denied</option>" in page
    assert 'value="bank"' in page
    assert desk.get("/warnings?text=" + "a" * 254, "for-ada").status_code == 400


def test_hostile_names_are_text(desk: Desk) -> None:
    desk.decide(HOSTILE, HOSTILE)
    for token in ("for-ada", "for-zoe"):
        for path in ("/warnings", "/", f"/warnings?text={HOSTILE[:-1]}"):
            page = desk.get(path, token).text
            assert "<script>alert" not in page
            assert "\u202e" not in page or "text=" in path


def test_recent_decisions_are_bounded(desk: Desk) -> None:
    for number in range(MAX_DECISIONS + 1):
        desk.decide("shop", str(number))
    desk.decide("shop", "exempt", verdict="exempt")
    desk.decide("shop", "mutated", hook=Hook.MUTATE)
    names = [row["name"] for row in desk.recent.table()]
    assert len(names) == MAX_DECISIONS
    assert names[0] == str(MAX_DECISIONS)


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8080", "localhost.evil.example", "127.0.0.1.evil.example", "[", ""]
)
def test_a_page_under_another_name_has_no_session(desk: Desk, host: str) -> None:
    """DNS rebinding: the name of another site leads to the forwarded port."""
    name = session_of(desk)
    other = {**LOCAL, "Host": host}
    fresh = desk.client.application.test_client(use_cookies=False)
    answer = fresh.get("/", headers={**other, "Cookie": f"forewarn-ui-session={name}"})
    assert answer.status_code == 401
    assert "<form" not in answer.text
    assert enter(desk, client=other).status_code in (401, 415)


@pytest.mark.parametrize("path", ["/api/cluster", "/events/risk", "/api/warnings"])
@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_another_site_reads_and_starts_nothing(desk: Desk, path: str, site: str) -> None:
    for mode in ("cors", "no-cors", "navigate"):
        answer = desk.get(path, "for-ada", **{"Sec-Fetch-Site": site, "Sec-Fetch-Mode": mode})
        assert answer.status_code == 403


def test_a_link_of_another_site_opens_a_page(desk: Desk) -> None:
    headers = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    assert desk.get("/warnings", "for-ada", **headers).status_code == 200


@pytest.mark.parametrize(
    ("headers", "kind", "status"),
    [
        ({"Sec-Fetch-Site": "cross-site"}, "application/json", 403),
        ({"Origin": "http://evil.example"}, "application/json", 403),
        ({"Origin": "null"}, "application/json", 403),
        ({"Origin": "http://["}, "application/json", 403),
        ({}, "text/plain", 415),
        ({}, FORM, 415),
    ],
)
def test_a_post_of_another_site_is_denied(desk: Desk, headers: dict[str, str], kind: str, status: int) -> None:
    given = {**BEHIND_A_PROXY, "Authorization": "Bearer for-ada", **headers}
    for path in ("/api/predict", "/api/reload"):
        assert desk.client.post(path, data="{}", content_type=kind, headers=given).status_code == status


def enter(
    desk: Desk,
    *,
    token: str = "for-ada",
    client: dict[str, str] = LOCAL,
    path: str = "/",
    more: dict[str, str] | None = None,
) -> TestResponse:
    form = {"token": token, "path": path}
    return desk.client.post("/enter", data=form, headers={**client, **(more or {})}, base_url="http://localhost:8080")


def test_a_session_ends_after_its_time_and_with_its_token(desk: Desk) -> None:
    assert enter(desk).status_code == 303
    opened = {"headers": LOCAL, "base_url": "http://localhost:8080"}
    assert desk.client.get("/api/cluster", **opened).status_code == 200
    desk.api.now = SESSION_SECONDS
    assert desk.client.get("/api/cluster", **opened).status_code == 401
    enter(desk)
    desk.api.now += ALLOWED_SECONDS
    del desk.api.users["for-ada"]
    assert desk.client.get("/api/cluster", **opened).status_code == 401


def session_of(desk: Desk, token: str = "for-ada") -> str:
    cookie = enter(desk, token=token).headers["Set-Cookie"]
    return cookie.partition("=")[2].partition(";")[0]


def is_open(desk: Desk, session: str) -> bool:
    headers = {**LOCAL, "Cookie": f"forewarn-ui-session={session}"}
    return (
        desk.client.application.test_client(use_cookies=False).get("/api/cluster", headers=headers).status_code == 200
    )


def test_sessions_are_bounded_and_end_for_the_user_with_the_most(desk: Desk) -> None:
    others, own = session_of(desk, "for-ops"), [session_of(desk) for _ in range(MAX_SESSIONS)]
    assert is_open(desk, others)
    assert [is_open(desk, session) for session in own[:2]] == [False, True]


def test_a_session_is_not_valid_behind_a_proxy(desk: Desk) -> None:
    """Without `kubectl port-forward`, a cookie would travel where a token must."""
    enter(desk)
    assert desk.client.get("/", headers=BEHIND_A_PROXY, base_url="http://localhost:8080").status_code == 401
    assert enter(desk, client=BEHIND_A_PROXY).status_code in (401, 415)


@pytest.mark.parametrize("headers", [{"Sec-Fetch-Site": "cross-site"}, {"Origin": "http://evil.example"}])
def test_another_site_begins_no_session(desk: Desk, headers: dict[str, str]) -> None:
    answer = enter(desk, more=headers)
    assert answer.status_code == 403
    assert "Set-Cookie" not in answer.headers


@pytest.mark.parametrize(
    "path", ["//evil.example", "https://evil.example", "/\\evil.example", "/a\r\nSet-Cookie: a=b", ""]
)
def test_a_session_leads_to_no_other_site(desk: Desk, path: str) -> None:
    assert enter(desk, path=path).headers["Location"] == "/"
