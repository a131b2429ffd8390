"""Names do not become links: neither in Markdown, where escapes do not prevent this, nor in messages of SARIF."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.policies.cli.render.sarif import without_links
from forewarn.policies.cli.render.table import text_of

LINKED = (
    *("www.evil.example", "WWW.evil.example", "http://evil.example", "ftp://evil.example", "ask@evil.example"),
    *("mailto:ask@evil.example", "xmpp:ask@evil.example", "@org/team", "#123", "org/repo#123", "GH-123"),
    *("deadbeef1", "(deadbeef1)", "a5c3785ed8d6a35868bc169f07e40e889087fd2e", r"a\@evil.example", "*www.evil.example*"),
    *(
        "[x](http://evil.example)",
        "<http://evil.example>",
        "a|b@c.example",
        "`www.evil.example`",
        r"a\|www.evil.example",
    ),
)
NOT_LINKED = ("web-5f7d8c9b4d-x2x4z", "2147483647", "1000000", "team/web", "priority", "a#b", "decade", "www", "v1.2.3")
CODE = re.compile(r"(?<!\\)`[^`]*`")


@pytest.mark.parametrize("name", LINKED)
def test_a_name_that_github_links_is_code(name: str) -> None:
    shown = name.replace("`", "'").replace("|", r"\|")
    assert text_of(name) == f"`{shown}`"
    assert text_of(f"class {name} is - new") == f"class `{shown}` is - new"


@pytest.mark.parametrize("name", NOT_LINKED)
def test_other_names_stay_text(name: str) -> None:
    assert "`" not in text_of(f"class {name} is new")


@given(st.text(alphabet="aw.:/@#1-gh`|\\ ()[]<>_*f", max_size=40), st.sampled_from(LINKED))
def test_nothing_outside_of_code_is_linked(text: str, name: str) -> None:
    outside = CODE.sub(" ", text_of(text + name + text[::-1]))
    assert not re.search(r"www\.|://|\w@|@\w|#\d|mailto:|xmpp:|\bgh-\d", outside.replace("\\", ""), re.IGNORECASE)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("see [this](https://evil.example)", r"see \[this\](https://evil.example)"),
        ("[a](1) of spec.containers[0]", r"\[a\](1) of spec.containers\[0\]"),
        (r"\[a](1)", r"\\\[a\](1)"),
        ("spec.containers[0].image", "spec.containers[0].image"),
    ],
)
def test_a_message_of_sarif_has_no_embedded_links(text: str, shown: str) -> None:
    assert without_links(text) == shown
