"""Rights are asked about, remembered for a while, and never held against the time of others."""

from __future__ import annotations

import json
from threading import Event, Thread
from time import monotonic
from typing import Any

import pytest

from forewarn.policies.kubernetes.cluster.admission import predict
from forewarn.policies.kubernetes.objects.reviewed_object import User
from forewarn.policies.linting.config.model import Config, DiscloseTo
from forewarn.webhook.admission import decision
from forewarn.webhook.admission.access_reviews import (
    ALLOWED_SECONDS,
    AT_ONCE,
    DENIED_SECONDS,
    PATH,
    REMEMBERED,
    AccessReviews,
)
from forewarn.webhook.admission.lanes import Step, Where
from forewarn.webhook.admission.review import AdmissionCall, Hook
from forewarn.webhook.apiserver.typed_client import Forbidden, ObjectApi
from tests.builders import make_node, make_pod
from tests.webhook.builders import answer_by, answer_now, body, cluster, deployment, endpoint

KIM = User("kim", ("developers",))


class Rights(ObjectApi):
    """An API server that answers access reviews: who of `may` may; `fault` is raised where there is one."""

    def __init__(self, *may: str) -> None:
        self.may, self.asked, self.fault = may, [], None
        self.now = 0.0
        self.go_on = Event()
        self.go_on.set()

    may: tuple[str, ...]
    asked: list[dict[str, Any]]
    fault: OSError | None

    def create(self, path: str, obj: Any) -> dict[str, Any]:
        assert path == PATH
        self.asked.append(obj)
        assert self.go_on.wait(60)
        if self.fault is not None:
            raise self.fault
        return {**obj, "status": {"allowed": obj["spec"]["user"] in self.may}}

    def get(self, path: str) -> dict[str, Any]:
        raise NotImplementedError

    def replace(self, path: str, obj: Any) -> dict[str, Any]:
        raise NotImplementedError

    def reviews(self) -> AccessReviews:
        return AccessReviews(self, lambda: self.now)


def test_what_is_asked_is_whether_he_may_list_pods_everywhere_as_all_that_he_is() -> None:
    rights = Rights("kim")
    assert rights.reviews().ask(User("kim", ("a", "b"), "uid-1", (("scopes", ("user:info",)),)))
    assert rights.asked == [
        {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {
                "user": "kim",
                "uid": "uid-1",
                "groups": ["a", "b"],
                "extra": {"scopes": ["user:info"]},
                "resourceAttributes": {"verb": "list", "version": "v1", "resource": "pods"},
            },
        }
    ]


@pytest.mark.parametrize(("may", "seconds"), [(("kim",), ALLOWED_SECONDS), ((), DENIED_SECONDS)])
def test_an_answer_is_remembered_for_a_while_and_for_this_user_alone(may: tuple[str, ...], seconds: float) -> None:
    rights = Rights(*may)
    reviews = rights.reviews()
    assert reviews.cached_answer(KIM) is None
    assert reviews.ask(KIM) is reviews.cached_answer(KIM) is bool(may)
    rights.now = seconds - 1
    assert reviews.ask(KIM) is bool(may)
    assert len(rights.asked) == 1
    assert reviews.cached_answer(KIM._replace(groups=())) is None
    rights.now = seconds
    assert reviews.cached_answer(KIM) is None


@pytest.mark.parametrize("fault", [Forbidden("no right to ask"), ConnectionRefusedError(), TimeoutError()])
def test_who_cannot_be_asked_about_is_not_allowed_and_not_asked_about_again_at_once(fault: OSError) -> None:
    rights = Rights("kim")
    rights.fault = fault
    reviews = rights.reviews()
    assert not reviews.ask(KIM)
    assert not reviews.ask(KIM)
    assert len(rights.asked) == 1


def test_memory_is_bounded_and_so_is_a_question() -> None:
    rights = Rights()
    reviews = rights.reviews()
    for number in range(REMEMBERED + 5):
        reviews.ask(User(f"user-{number}"))
    assert [reviews.cached_answer(User(f"user-{number}")) for number in (0, 4, 5)] == [None, None, False]
    assert not reviews.ask(User("kim", ("g" * 70_000,)))
    assert len(rights.asked) == REMEMBERED + 5


def test_few_are_asked_about_at_once_and_whoever_comes_then_is_a_tenant() -> None:
    rights = Rights("user-0", "late")
    reviews = rights.reviews()
    rights.go_on.clear()
    threads = [Thread(target=reviews.ask, args=(User(f"user-{number}"),)) for number in range(AT_ONCE)]
    for thread in threads:
        thread.start()
    until = monotonic() + 60
    while len(rights.asked) < AT_ONCE and monotonic() < until:
        pass
    assert not reviews.ask(User("late"))
    rights.go_on.set()
    for thread in threads:
        thread.join(10)
    assert reviews.ask(User("late"))


def test_only_who_asks_the_api_server_asks_and_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Judging is done on a thread that others wait for: it goes by what is remembered."""
    monkeypatch.setattr(decision, "BEST", 200)  # so that the warning contains the fix
    rights = Rights("kim")
    config = Config(disclose_to=DiscloseTo((), subject_access_review=True))
    asked = endpoint(config=lambda: config, reviews=rights.reviews())
    for name, asks in (("web", True), ("web-2", False)):
        obj = {**deployment("nothing"), "metadata": {"name": name, "namespace": "team"}}
        passed: list[Where] = []

        def run(step: Step[Any], passed: list[Where] = passed) -> object:
            passed.append(step.where)
            before = len(rights.asked)
            result = step.run()
            assert step.where is Where.REQUEST or len(rights.asked) == before
            return result

        reply = answer_by(asked, AdmissionCall(Hook.VALIDATE, body(obj), monotonic()), run)
        assert (Where.REQUEST in passed) is asks
        (warning,) = json.loads(reply.body)["response"]["warnings"]
        assert 'use "batch-low" or "gold" [' in warning
    assert len(rights.asked) == 1


class ScopedRights(Rights):
    """Allows the tokens whose scope is `all`, whoever has them."""

    def create(self, path: str, obj: Any) -> dict[str, Any]:
        return {**super().create(path, obj), "status": {"allowed": obj["spec"].get("extra") == {"scopes": ["all"]}}}


def test_what_one_token_of_a_user_may_see_is_not_told_to_another_one() -> None:
    """The answers of the last second were told apart by name and groups alone."""
    node = make_node("n").has(cpu="4").obj
    victim = make_pod("wages", namespace="payroll").request(cpu="3").on("n").obj
    state, config = cluster(node, victim), Config(disclose_to=DiscloseTo((), subject_access_review=True))
    asked = endpoint(lambda: state, config=lambda: config, reviews=ScopedRights().reviews())
    assert predict(state, make_pod("first").obj).fits  # what is imported and made once takes none of the others' time
    obj = deployment()
    obj["spec"]["template"]["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "3"}}
    for scope, sees in (("all", True), ("own", False), ("all", True)):
        user = {"username": "kim", "groups": ["developers"], "extra": {"scopes": [scope]}}
        call = AdmissionCall(Hook.VALIDATE, body(obj, userInfo=user), monotonic())
        told = json.loads(answer_now(asked, call).body)["response"]["warnings"]
        assert ("payroll/wages" in str(told)) is sees
