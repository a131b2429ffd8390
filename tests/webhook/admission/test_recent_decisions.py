"""Recent decisions: what of a response is stored, and how much."""

from __future__ import annotations

import json
from time import monotonic

from forewarn.webhook.admission.answer_cache import Answered
from forewarn.webhook.admission.endpoint import RecentDecisions
from forewarn.webhook.admission.review import AdmissionCall, GroupVersionKind, GroupVersionResource, Hook, parse_review
from tests.webhook.builders import answer_now, body, deployment, endpoint


def test_a_denial_is_stored_with_its_requester_rule_and_message() -> None:
    recent = RecentDecisions(lambda: 7.0)
    made = endpoint(record=recent.add)
    answer_now(made, AdmissionCall(Hook.VALIDATE, body(deployment("missing")), monotonic()))
    (row,) = recent.table()
    assert (row["at"], row["kind"], row["resource"]) == (7.0, "Deployment", ["apps", "v1", "deployments"])
    assert json.loads(json.dumps(row)) == row
    assert row["verdict"] in ("denied", "warned")
    assert row["rules"]["unknown-priority-class"] in ("deny", "warn")
    assert any('PriorityClass "missing" not found' in text for text in row["messages"])


def test_a_large_response_is_stored_without_its_texts() -> None:
    recent, request = RecentDecisions(), parse_review(body(deployment()))
    for size in (10, 20_000):
        response = json.dumps({"allowed": True, "warnings": ["x" * size]}).encode()
        recent.add(Hook.VALIDATE, request, Answered(response, "warned", (), "", False))
    assert [len(row["messages"]) for row in recent.table()] == [0, 1]


def test_texts_that_the_requester_does_not_see_count_as_part_of_the_response() -> None:
    recent, request = RecentDecisions(), parse_review(body(deployment()))
    for size in (10, 20_000):
        recent.add(Hook.VALIDATE, request, Answered(b"{}", "warned", (), "", False, (("rule", "x" * size),)))
    assert [len(row["withheld"]) for row in recent.table()] == [0, 1]


def test_names_of_a_request_are_stored_up_to_a_maximum_length() -> None:
    recent, long = RecentDecisions(), "x" * 100_000
    names = GroupVersionKind(long, long, long), GroupVersionResource(long, long, long)
    request = parse_review(body(deployment()))._replace(namespace=long, name=long)
    recent.add(
        Hook.VALIDATE, request._replace(kind=names[0], resource=names[1]), Answered(b"{}", "warned", (), "", False)
    )
    assert len(json.dumps(recent.table())) < 10_000
