"""`make docs-style`: which texts Vale gets, and that the styles detect the words to avoid."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture
def docs_style(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT / ".build"))
    return import_module("docs_style")


@pytest.fixture
def rules(docs_style: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A function: text of a page -> the rules that Vale reports for it."""
    monkeypatch.setattr(docs_style, "_build", lambda _: pytest.skip("Vale is not built: make docs-style"))
    return lambda text: {alert["Check"].removeprefix("Forewarn.") for *_, alert in docs_style.check({"page.md": text})}


def test_contents_of_tabs_and_admonitions_are_text(docs_style: Any) -> None:
    page = (
        '=== "Helm"\n\n    Text.\n\n    !!! note\n        Nested.\n\n'
        "    ```sh\n    code\n    ```\n\n        code\n\nEnd.\n"
    )
    made = docs_style.plain(page)
    assert made == "Helm\n\nText.\n\n\nNested.\n\n```sh\ncode\n```\n\n    code\n\nEnd.\n"


def test_help_is_a_paragraph_for_each_option(docs_style: Any) -> None:
    text = (
        "usage: forewarn x [-h]\n                  [--long]\n\nSummary\nin two lines.\n\noptions:\n"
        "  -f FILE     read this\n              file\n  --very-long-option NAME\n              second\n\n"
        "Examples:\n  forewarn x -f a\n"
    )
    paragraphs = [part.split("\n") for part in docs_style.paragraphs(text).strip().split("\n\n")]
    assert [" ".join(part) for part in paragraphs] == ["Summary in two lines.", "options:", "read this file", "second"]


def test_help_of_commands_below_commands_is_read(docs_style: Any) -> None:
    names = [name for name, _ in docs_style.help_texts()]
    assert {"forewarn --help", "forewarn lint --help", "forewarn whatif drain --help"} <= set(names)
    assert len(names) == len(set(names))


def test_messages_are_literals_on_their_lines_without_docstrings(docs_style: Any, tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text(
        '"""A docstring of many words."""\n\nX = f"{1} of these are too {2}"\nY = "short"\nZ = "four words of text"\n'
    )
    ((_, text),) = docs_style.messages(module)
    assert text == "\n\nX of these are too X\n\nfour words of text\n"


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("Says beforehand which Pods it pushes out.", "Terms"),
        ("A violated budget.", "Terms"),
        ("Read a dump.", "Terms"),
        ("The request is refused.", "Terms"),
        ("Ask whoever created it.", "Terms"),
        ("Nobody waits.", "People"),
        ("We preempt it.", "People"),
        ("The pods are Pending.", "Names"),
        ("What is skipped has a precomputed response.", "Statements"),
        ("## Does it preempt?", "HeadingQuestions"),
        ("## The end.", "HeadingEnd"),
        ("Measured at 130a7d7.", "History"),
        ("```sh\nforewarn simulate -f a\n```", "Commands"),
        ("A word" + " and a word" * 10 + ".", "SentenceLength"),
    ],
)
def test_words_to_avoid_are_reported(rules: Any, text: str, rule: str) -> None:
    assert rules(f"{text}\n") == {rule}


@pytest.mark.parametrize(
    "text",
    [
        "forewarn predicts which Pods kube-scheduler preempts.",
        "`budget` and `pods` in code, and the rule pods-of-missing-class.",
        "dial tcp: connection refused.",
        "ResourceQuota gold (pods: 10, used: 4).",
        "I/O errors.",
        "`forewarn preempt --batch` is hidden.",
        "```text\nthe pods of a budget\n```",
    ],
)
def test_other_senses_and_code_are_not_reported(rules: Any, text: str) -> None:
    assert rules(f"{text}\n") == set()
