"""Answers that are given again: to whom, and how large they may be."""

from __future__ import annotations

from typing import Any

import pytest

from forewarn.webhook.admission.answer_cache import AnswerCache, Answered, Key, key_of
from forewarn.webhook.admission.review import Hook, parse_review
from tests.webhook.builders import body, deployment, pod, priority_class


def test_large_answers_are_not_kept() -> None:
    answers, state = AnswerCache(lambda: 0.0), (object(), object())
    for number, told_body in enumerate((b"x" * 1000, b"x" * 100_000)):
        answered = Answered(told_body, "warned", (), "", silent=False)
        answers.put(Key(bytes([number]), nameless=False), state, answered)
    told = Answered(b"x", "warned", (), "", silent=False, withheld=(("rule", "x" * 100_000),))
    answers.put(Key(b"told", nameless=False), state, told)
    found = [answers.get(Key(digest, nameless=False), state) for digest in (b"\0", b"\1", b"told")]
    assert [answer is not None for answer in found] == [True, False, False]


ASKED = {"username": "kim", "uid": "1", "groups": ["developers"], "extra": {"scopes": ["all"]}}
OTHERS: list[dict[str, Any]] = [
    {"username": "eve"},
    {"uid": "2"},
    {"groups": ["developers", "ops"]},
    {"extra": {"scopes": ["own"]}},
    {"extra": {}},
]
OBJECTS = [pod(), deployment(), priority_class("gold", 1)]


@pytest.mark.parametrize("obj", OBJECTS, ids=[obj["kind"] for obj in OBJECTS])
def test_what_was_asked_a_moment_ago_by_the_same_user_has_the_same_key(obj: dict[str, Any]) -> None:
    keys = [
        key_of(Hook.VALIDATE, parse_review(body(obj, uid=uid, userInfo=ASKED | other)))
        for uid, other in [("a", {}), ("b", {}), *(("a", other) for other in OTHERS)]
    ]
    assert None not in keys
    assert keys[0] == keys[1]
    assert len(set(keys[1:])) == 1 + len(OTHERS)
