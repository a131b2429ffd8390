"""Answers that are given again: how large they may be."""

from __future__ import annotations

from webhook.admission.answer_cache import AnswerCache, Answered, Key


def test_large_answers_are_not_kept() -> None:
    answers, state = AnswerCache(lambda: 0.0), (object(), object())
    for number, body in enumerate((b"x" * 1000, b"x" * 100_000)):
        answered = Answered(body, "warned", (), "", silent=False)
        answers.put(Key(bytes([number]), nameless=False), state, answered)
    told = Answered(b"x", "warned", (), "", silent=False, withheld=(("rule", "x" * 100_000),))
    answers.put(Key(b"told", nameless=False), state, told)
    found = [answers.get(Key(digest, nameless=False), state) for digest in (b"\0", b"\1", b"told")]
    assert [answer is not None for answer in found] == [True, False, False]
