"""Which requests reserve the place of the global default, and what becomes of them."""

from __future__ import annotations

import json
from time import monotonic
from typing import TYPE_CHECKING, Any, NoReturn

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forewarn.policies.kubernetes.objects.priority_class import PriorityClass
from forewarn.policies.linting.config.load import read_config
from forewarn.policies.linting.config.model import Config
from forewarn.webhook.admission.decide import DefaultCandidate, default_candidate_of
from forewarn.webhook.admission.lanes import Step, Where
from forewarn.webhook.admission.review import (
    EVERYTHING,
    NOT_RESERVED,
    UNKNOWN_CALLER,
    AdmissionCall,
    Callers,
    Hook,
    Reply,
    parse_review,
)
from forewarn.webhook.controllers.leases import CLASSES, Reserver
from forewarn.webhook.metrics import Metrics
from tests.cases import cases
from tests.webhook.builders import answer_by, answer_now, body, cluster, endpoint, pod, priority_class, review
from tests.webhook.fake_api import LEASE, FakeApi

if TYPE_CHECKING:
    from collections.abc import Callable

NEW = {**priority_class("normal", 100, globalDefault=True), "metadata": {"name": "normal", "uid": "u1"}}
PLAIN = {**NEW, "globalDefault": False, "metadata": {"name": "normal", "uid": "u1", "resourceVersion": "7"}}


def candidate(
    obj: dict[str, Any], operation: str = "CREATE", hook: Hook = Hook.VALIDATE, **request: Any
) -> DefaultCandidate | None:
    given = json.dumps(review(obj, operation, **request)).encode()
    return default_candidate_of(parse_review(given), hook, Config())


def test_a_class_that_becomes_the_default_claims_the_place_for_its_request() -> None:
    assert candidate(NEW) == DefaultCandidate("normal", "create u1")
    assert candidate(NEW, "UPDATE", oldObject=PLAIN) == DefaultCandidate("normal", "update u1 7")


def test_a_request_that_cannot_be_told_from_others_claims_it_without_saying_which() -> None:
    assert candidate(priority_class("normal", 100, globalDefault=True)) == DefaultCandidate("normal", "")


@pytest.mark.parametrize(
    "given",
    [
        {"obj": PLAIN},
        {"obj": NEW, "dryRun": True},
        {"obj": NEW, "hook": Hook.MUTATE},
        {"obj": NEW, "operation": "UPDATE", "oldObject": NEW},
        {"obj": None, "operation": "DELETE", "oldObject": NEW},
        {"obj": pod()},
    ],
)
def test_other_requests_claim_nothing(given: dict[str, Any]) -> None:
    assert candidate(**given) is None


def test_where_a_second_default_is_not_denied_nothing_is_reserved() -> None:
    request = parse_review(body(NEW))
    assert (
        default_candidate_of(request, Hook.VALIDATE, read_config("actions: {global-default-not-unique: warn}", "c"))
        is None
    )


class Reserving:
    def __init__(self, answer: str = "") -> None:
        self.answer, self.claims = answer, list[DefaultCandidate]()

    def __call__(self, candidate: DefaultCandidate, seconds: float) -> str:
        assert 0 < seconds <= 10
        self.claims.append(candidate)
        return self.answer


def asked(reserve: Callable[[DefaultCandidate, float], str], obj: dict[str, Any] = NEW, **more: Any) -> Reply:
    def run(step: Step[Any]) -> object:
        claims = len(reserve.claims) if isinstance(reserve, Reserving) else 0
        result = step.run()
        if isinstance(reserve, Reserving) and len(reserve.claims) > claims:
            assert step.where is Where.REQUEST  # no event loop waits for the API server, nor who judges
        return result

    call = AdmissionCall(Hook.VALIDATE, body(obj), monotonic(), "10s")
    return answer_by(endpoint(reserve=reserve, **more), call, run)


def response(reply: Reply) -> dict[str, Any]:
    assert reply.status == 200
    found: dict[str, Any] = json.loads(reply.body)["response"]
    return found


def test_a_class_whose_place_is_held_for_it_is_allowed() -> None:
    reserve = Reserving()
    assert response(asked(reserve))["allowed"]
    assert reserve.claims == [DefaultCandidate("normal", "create u1")]


def test_a_class_whose_place_is_taken_is_denied_in_the_rules_name() -> None:
    denied = response(asked(Reserving('PriorityClass "other" has the place')))
    assert not denied["allowed"]
    assert denied["status"]["code"] == 403
    assert 'PriorityClass "other" has the place' in denied["status"]["message"]
    assert denied["status"]["details"]["causes"][0]["field"] == "globalDefault"
    assert "global-default-not-unique" in denied["status"]["message"]


def test_a_class_whose_place_is_taken_is_denied_with_all_that_the_audit_log_was_to_be_told() -> None:
    config = read_config("actions: {below-autoscaler-cutoff: audit}", "c")
    low = {**NEW, "value": -50}
    taken = Reserving('PriorityClass "other" has the place')
    audit = response(asked(taken, low, staleness=lambda: "no news", config=lambda: config))["auditAnnotations"]
    allowed = response(asked(Reserving(), low, staleness=lambda: "no news", config=lambda: config))["auditAnnotations"]
    assert audit == allowed
    assert audit["stale-cache"] == "no news"
    assert len(audit) == 2


def test_nothing_is_reserved_for_a_class_that_rules_deny_or_an_exemption_lets_pass() -> None:
    reserve = Reserving()
    state = cluster(priority_class("standard", 5, globalDefault=True))
    assert not response(asked(reserve, state=lambda: state))["allowed"]
    exempt = read_config("exemptions: [{reason: the operators, users: [kim]}]", "c")
    assert response(asked(reserve, config=lambda: exempt))["allowed"]
    assert reserve.claims == []


def test_a_second_default_that_only_the_cache_knows_is_asked_for() -> None:
    reserve, state = Reserving(), cluster(priority_class("standard", 5, globalDefault=True))
    live = {"standard": PriorityClass("standard", 5)}
    assert response(asked(reserve, state=lambda: state, confirm=lambda: live))["allowed"]
    assert len(reserve.claims) == 1


def test_a_reservation_is_made_for_every_request_of_the_same_bytes() -> None:
    """An answer may be remembered for a moment; a place that was reserved for another request is none of this one's."""
    reserve, state, config = Reserving(), cluster(), Config()
    same = endpoint(reserve=reserve, state=lambda: state, config=lambda: config)
    for _ in range(3):
        assert response(answer_now(same, AdmissionCall(Hook.VALIDATE, body(NEW), monotonic(), "10s")))["allowed"]
    assert len(reserve.claims) == 3


TOKEN = "0123456789abcdef" * 4
steps = st.tuples(st.sampled_from(["forged", "forged", "real", "over"]), st.booleans(), st.sampled_from(["", "x"]))


def default(name: str, uid: str) -> dict[str, Any]:
    return {**priority_class(name, 1, globalDefault=True), "metadata": {"name": name, "uid": uid}}


@settings(max_examples=cases(50), deadline=None)
@given(st.lists(steps, max_size=25))
def test_who_forges_reviews_keeps_no_legal_default_out(history: list[tuple[str, bool, str]]) -> None:
    """Whatever a forger sends, also of the class that holds the place, it is held by real requests alone; and when the
    one that holds it is over, the next one gets it.
    """
    api = FakeApi(LEASE)
    reservations = Reserver(api, LEASE, Metrics())
    asked = endpoint(reserve=reservations.reserve, callers=Callers(grants=lambda: {TOKEN: EVERYTHING}))
    holds = ""
    for number, (kind, same, token) in enumerate(history):
        name = f"class-{number}"
        if kind == "over":
            if holds:
                api.put(f"{CLASSES}/{holds}", {"globalDefault": False}, f"uid-{holds}")  # stored, and changed again
            reservations.reconcile()
            holds = ""
        elif kind == "real":
            call = AdmissionCall(Hook.VALIDATE, body(default(name, f"uid-{name}")), monotonic(), "10s", tokens=(TOKEN,))
            assert response(answer_now(asked, call))["allowed"] is (holds == "")
            holds = holds or name
        else:
            forged = default(holds if same and holds else name, f"forged-{number}")
            before = api.objects[LEASE]
            assert (
                answer_now(asked, AdmissionCall(Hook.VALIDATE, body(forged), monotonic(), "10s", tokens=(token,)))
                == UNKNOWN_CALLER
            )
            assert api.objects[LEASE] == before
        assert (api.objects[LEASE].get("spec") or {}).get("holderIdentity", "") == holds


def test_an_api_server_that_cannot_be_asked_is_a_failed_call_that_is_tried_again() -> None:
    def unreachable(_claim: DefaultCandidate, _seconds: float) -> NoReturn:
        raise ConnectionRefusedError("no route to the API server")

    reply = asked(unreachable)
    assert reply == NOT_RESERVED
    assert reply.status == 503
    assert ("retry-after", "1") in reply.headers
