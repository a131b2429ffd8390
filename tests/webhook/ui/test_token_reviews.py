"""TokenReviews: what is cached, and how many an attacker can cause."""

from __future__ import annotations

from contextlib import suppress
from threading import Thread
from typing import Any

import pytest

from forewarn.policies.objects.reviewed_object import User
from forewarn.webhook.admission.access_reviews import ALLOWED_SECONDS, DENIED_SECONDS
from forewarn.webhook.ui.viewers import FORGET_SECONDS, OF_ALL, OF_AN_ADDRESS, Tokens, TooManyInvalid
from tests.webhook.ui.test_viewers import MAX_SECONDS, Api

HOME = "10.0.0.1"


def attack(api: Api, tokens: Tokens, seconds: int, addresses: int, at_once: int = 100) -> int:
    """Send new invalid tokens from each address in turn; returns the number of reviews."""
    before = len(api.asked)
    for second in range(seconds):
        api.now += 1.0
        for number in range(at_once * addresses):
            with suppress(TooManyInvalid):
                tokens.user(f"wrong-{second}-{number}", f"10.1.{number % addresses}")
    return len(api.asked) - before


@pytest.mark.parametrize(
    ("addresses", "most"),
    [
        (1, OF_AN_ADDRESS[0] + 30 * OF_AN_ADDRESS[1]),
        (50, 2 * OF_ALL[0] + 30 * OF_ALL[1]),
    ],
)
def test_reviews_of_invalid_tokens_are_limited(addresses: int, most: float) -> None:
    api = Api()
    tokens = Tokens(api, lambda: api.now)
    assert most / 2 < attack(api, tokens, 30, addresses) <= most


def test_a_flood_locks_no_user_out() -> None:
    api = Api()
    tokens = Tokens(api, lambda: api.now)
    assert tokens.user("for-ada", "10.1.0"), "behind the same sidecar as the attacker"
    for _ in range(3):
        attack(api, tokens, 61, 50, 2)
        with pytest.raises(TooManyInvalid):
            tokens.user("wrong", "10.1.0")
        assert tokens.user("for-ada", "10.1.0"), "reviewed again, because it was valid"
    assert tokens.user("for-ops", HOME), "an address without an invalid token"
    with pytest.raises(TooManyInvalid):
        tokens.user("for-kim", "10.1.0")
    api.now += 1.0 / OF_ALL[1] + 1.0 / OF_AN_ADDRESS[1]
    assert tokens.user("for-kim", "10.1.0")


def test_an_address_is_forgotten() -> None:
    api = Api()
    tokens = Tokens(api, lambda: api.now)
    attack(api, tokens, 1, 1)
    attack(api, tokens, 1, 60, 2)
    with pytest.raises(TooManyInvalid):
        tokens.user("for-ada", "10.1.0")
    api.now += FORGET_SECONDS
    assert tokens.user("for-ada", "10.1.0")


def test_a_token_that_is_no_longer_valid_is_charged() -> None:
    api = Api()
    tokens = Tokens(api, lambda: api.now)
    assert tokens.user("for-ada", HOME)
    del api.users["for-ada"]
    api.now += ALLOWED_SECONDS
    assert tokens.user("for-ada", HOME) is None
    attack(api, tokens, 1, 1)
    with pytest.raises(TooManyInvalid):
        tokens.user("wrong", "10.1.0")


def test_a_failure_of_the_api_server_makes_no_token_invalid() -> None:
    api = Api()
    tokens = Tokens(api, lambda: api.now)
    assert tokens.user("for-ada", "10.1.0")
    attack(api, tokens, 30, 1)
    api.now += ALLOWED_SECONDS
    api.fails = True
    assert tokens.user("for-ada", "10.1.0") is None
    attack(api, tokens, int(DENIED_SECONDS), 1)
    api.fails = False
    assert tokens.user("for-ada", "10.1.0")


def test_an_invalid_token_is_reviewed_once_in_a_while() -> None:
    api = Api()
    tokens = Tokens(api, lambda: api.now)
    for _ in range(5):
        assert tokens.user("wrong", HOME) is None
    assert len(api.asked) == 1
    api.now += DENIED_SECONDS
    tokens.user("wrong", HOME)
    assert len(api.asked) == 2


def test_a_review_of_another_token_delays_no_known_user(monkeypatch: pytest.MonkeyPatch) -> None:
    api = Api()
    tokens = Tokens(api, lambda: 0.0)
    assert tokens.user("for-ada", HOME)
    found: list[User | None] = []

    def create(_path: str, _obj: Any) -> dict[str, Any]:
        known = Thread(target=lambda: found.append(tokens.user("for-ada", HOME)), daemon=True)
        known.start()
        known.join(MAX_SECONDS)
        assert found
        return {}

    monkeypatch.setattr(api, "create", create)
    assert tokens.user("wrong", HOME) is None
    assert [user and user.name for user in found] == ["ada"]
