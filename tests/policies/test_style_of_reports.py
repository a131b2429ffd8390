"""What the commands print has the words of the Kubernetes documentation: no banned word in any of these reports."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

from forewarn.policies.cli.main import main
from tests.style_words import INSTEAD, banned_in

STATS: Final = "docs/examples/node-pressure/stats.json"
WHATIF: Final = ("--cluster", "docs/examples/whatif/cluster.yaml")
SAMPLE: Final = ("--cluster", "webhook/sample/cluster.yaml")
COMMANDS: Final = (
    ("whatif", "lose", "zone", "a", *WHATIF),
    ("whatif", "lose", "node", "a-1", "b-1", *WHATIF, "--node-templates", "docs/examples/whatif/node-groups.yaml"),
    ("whatif", "drain", "a-1", *WHATIF),
    ("whatif", "upgrade", *WHATIF),
    ("whatif", "class", "gold", "--delete", *WHATIF),
    ("whatif", "class", "silver", "--value", "5", "--default", *WHATIF),
    ("whatif", "scale", "deploy/web", "6", "-n", "shop", *WHATIF),
    ("whatif", "lose", "--each", "node", *WHATIF),
    ("predict", "-f", "docs/examples/lint/web.yaml", *SAMPLE),
    ("predict", "-f", "docs/examples/headroom/cache.yaml", *WHATIF, "-vv"),
    ("headroom", "-f", "docs/examples/headroom/cache.yaml", *WHATIF),
    (
        "whatif",
        "events",
        "--events",
        "docs/examples/simulate/events.yaml",
        "--cluster",
        "docs/examples/simulate/cluster.yaml",
        "--runs",
        "5",
    ),
    ("risk", *WHATIF),
    ("risk", *SAMPLE),
    ("test", "docs/examples/test/expectations.yaml", *WHATIF),
    ("why", "batch/report", "--cluster", "docs/examples/why/cluster.yaml"),
    ("why", "batch/gated", "--cluster", "docs/examples/why/cluster.yaml"),
    ("whatif", "pressure", "a-1", "--signal", "memory", "--stats", STATS, "--shutdown", "0=30,100000=20", *WHATIF),
    ("info", "scheduler"),
    ("whatif", "lose", "zone", "nowhere", *WHATIF),
    ("why", "batch/nothing", "--cluster", "docs/examples/why/cluster.yaml"),
    ("headroom", "-f", "docs/examples/whatif/cluster.yaml", "--cluster", "docs/nothing.yaml"),
)
_NAMES: Final = re.compile(r"docs/\S+|webhook/\S+|\b[\w-]+/[\w.-]+")
"""Files and objects are called as their owners call them."""


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_report_has_no_banned_word(command: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert all(Path(part).exists() for part in command if part.startswith("docs/examples/"))
    main(command)
    out, err = capsys.readouterr()
    assert out or err
    assert banned_in(_NAMES.sub("", out + err)) == []


@pytest.mark.parametrize("form", ["markdown", "html"])
@pytest.mark.parametrize(
    "command", [("whatif", "lose", "zone", "a"), ("whatif", "lose", "--each", "zone"), ("risk",)], ids=" ".join
)
def test_a_comment_and_a_page_have_none(
    command: tuple[str, ...], form: str, capsys: pytest.CaptureFixture[str]
) -> None:
    main((*command, *WHATIF, "-o", form))
    shown = re.sub(r"<(style|script)\b.*?</\1>", "", capsys.readouterr().out, flags=re.DOTALL)
    assert banned_in(_NAMES.sub("", shown)) == []


def test_each_pattern_finds_a_word() -> None:
    assert INSTEAD
    assert banned_in("2 pods would be pushed out; the disruption budget refuses it")
    assert not banned_in("0/2 nodes are available: 2 Too many pods. preemption: not eligible")
