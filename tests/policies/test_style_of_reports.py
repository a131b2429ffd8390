"""What the commands print has the words of the Kubernetes documentation: no banned word in any of these reports."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

from forewarn.policies.cli.main import main
from tests.style_words import INSTEAD, banned_in, banned_in_report

STATS: Final = "docs/examples/node-pressure/stats.json"
WHATIF: Final = ("--cluster", "docs/examples/whatif/cluster.yaml")
WHY: Final = ("--cluster", "docs/examples/why/cluster.yaml")
COMMANDS: Final = (
    ("predict", "-f", "docs/examples/headroom/cache.yaml", *WHATIF, "-vv"),
    ("why", "batch/report", *WHY),
    ("why", "batch/gated", *WHY),
    ("why", "batch/nothing", *WHY),
    ("whatif", "pressure", "a-1", "--signal", "memory", "--stats", STATS, "--shutdown", "0=30,100000=20", *WHATIF),
    ("whatif", "lose", "zone", "nowhere", *WHATIF),
    ("headroom", "-f", "docs/examples/whatif/cluster.yaml", "--cluster", "docs/nothing.yaml"),
)
"""Beside those of test_first_lines.py."""


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_report_has_no_banned_word(command: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert all(Path(part).exists() for part in command if part.startswith("docs/examples/"))
    main(command)
    out, err = capsys.readouterr()
    assert out or err
    assert banned_in_report(out + err) == []


@pytest.mark.parametrize("form", ["markdown", "html"])
@pytest.mark.parametrize(
    "command", [("whatif", "lose", "zone", "a"), ("whatif", "lose", "--each", "zone"), ("risk",)], ids=" ".join
)
def test_a_comment_and_a_page_have_none(
    command: tuple[str, ...], form: str, capsys: pytest.CaptureFixture[str]
) -> None:
    main((*command, *WHATIF, "-o", form))
    shown = re.sub(r"<(style|script)\b.*?</\1>", "", capsys.readouterr().out, flags=re.DOTALL)
    assert banned_in_report(shown) == []


def test_each_pattern_finds_a_word() -> None:
    assert INSTEAD
    assert banned_in("2 pods would be pushed out; the disruption budget refuses it")
    assert not banned_in("0/2 nodes are available: 2 Too many pods. preemption: not eligible")
