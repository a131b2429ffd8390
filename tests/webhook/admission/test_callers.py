"""Who is answered, and on whose word a place is reserved."""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.webhook.admission.review import (
    EVERYBODY,
    EVERYTHING,
    NO_CALLER,
    AdmissionCall,
    BadTokens,
    Callers,
    Grant,
    Hook,
    bearer,
    read_tokens,
)
from tests.webhook.builders import answer_now, body, endpoint, pod

if TYPE_CHECKING:
    from pathlib import Path

ONE, TWO = "a" * 32, "b" * 32
texts = st.text(max_size=40)


@given(texts)
def test_without_tokens_everybody_may_ask_and_is_believed(token: str) -> None:
    assert EVERYBODY.may_ask((token,))
    assert EVERYBODY.are_known((token,))


@given(texts)
def test_one_of_the_tokens_is_asked_for_and_no_other(token: str) -> None:
    callers = Callers(required=lambda: (ONE, TWO))
    assert callers.may_ask((token,)) is (token in (ONE, TWO))
    assert callers.may_ask((ONE,))
    assert callers.may_ask((TWO,))


def test_who_brings_two_needs_one_that_is_right() -> None:
    """The path is what the configuration says, the header what the API server's own does."""
    assert Callers(required=lambda: (TWO,)).may_ask((ONE, TWO))
    assert Callers(grants=lambda: {ONE: EVERYTHING}).are_known((ONE, TWO))
    assert not Callers(required=lambda: (TWO,)).may_ask(())
    assert not Callers(grants=lambda: {ONE: EVERYTHING}).are_known(())


@given(texts)
def test_a_token_that_the_configuration_tells_is_asked_for_a_reservation_and_for_nothing_else(token: str) -> None:
    callers = Callers(grants=lambda: {ONE: EVERYTHING})
    assert callers.may_ask((token,))
    assert callers.are_known((token,)) is (token == ONE)


def test_who_is_proven_otherwise_needs_no_token_that_is_told() -> None:
    assert Callers(grants=lambda: {ONE: EVERYTHING}, proven=True).are_known(("",))
    assert Callers(grants=lambda: {ONE: EVERYTHING}, required=lambda: (TWO,)).are_known((TWO,))


def test_a_token_is_good_for_the_resources_of_its_webhook_alone() -> None:
    pods = Grant(frozenset({("", "pods", ""), ("apps", "*", "scale"), ("batch", "jobs", "*")}))
    callers = Callers(grants=lambda: {ONE: pods})
    assert callers.grant((TWO,)) is NO_CALLER
    granted = callers.grant(("", ONE))
    for asked, covered in {
        ("", "pods", ""): True,
        ("", "pods", "status"): False,
        ("", "namespaces", ""): False,
        ("apps", "pods", ""): False,
        ("apps", "deployments", "scale"): True,
        ("apps", "deployments", ""): False,
        ("batch", "jobs", ""): True,
        ("batch", "jobs", "status"): True,
    }.items():
        assert granted.covers(*asked) is covered, asked


def test_the_address_of_an_unknown_caller_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    told = endpoint(callers=Callers(grants=lambda: {ONE: EVERYTHING}))
    for token in (ONE, TWO):
        call = AdmissionCall(Hook.VALIDATE, body(pod("gold", 1000)), monotonic(), client="192.0.2.7", tokens=(token,))
        assert answer_now(told, call).status == 200
    found = [record.__dict__["fields"] for record in caplog.records if record.getMessage() == "unknown caller"]
    assert found == [{"phase": "validate", "client": "192.0.2.7"}]


@pytest.mark.parametrize(
    ("header", "token"),
    [("Bearer abc", "abc"), ("bearer  abc ", "abc"), ("Basic abc", ""), ("", ""), ("abc", ""), ("Bearer", "")],
)
def test_a_bearer_token_is_read_from_its_header(header: str, token: str) -> None:
    assert bearer(header) == token


def test_a_file_has_a_token_a_line(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    path.write_text(f"\n{ONE}\n  {TWO}  \n\n")
    assert read_tokens(path) == (ONE, TWO)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "no token"),
        (b"\n \n", "no token"),
        (b"short", "line 1: a token must have 16 to 4096 characters"),
        (b"a" * 32 + b"\n" + b"b" * 16 + b" " + b"c" * 16, "line 2: .* without blanks"),
        (b"a" * 5000, "line 1"),
        ("ä".encode() * 20, "must be ASCII"),
    ],
)
def test_a_file_that_holds_something_else_is_named_and_what_is_in_it_is_not(
    tmp_path: Path, content: bytes, says: str
) -> None:
    path = tmp_path / "tokens"
    path.write_bytes(content)
    with pytest.raises(BadTokens, match=says) as raised:
        read_tokens(path)
    assert "short" not in str(raised.value).replace("shorter", "")
    with pytest.raises(BadTokens, match="No such file"):
        read_tokens(tmp_path / "none")
