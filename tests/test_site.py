"""`make site`, if mkdocs-material is installed: dead links, pages outside the menu and mermaid diagrams fail it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("material", reason="pip install '.[docs]'")

COMMAND = re.findall(r"-m (mkdocs build .*)$", Path("Makefile").read_text(), re.MULTILINE)[0].split()


PAGE = "docs/faq.md"


def _build(directory: Path, page: str, text: str) -> subprocess.CompletedProcess[str]:
    """Build the site of a copy of the repository in which a page has more text."""
    for name in ("docs", ".build"):
        shutil.copytree(name, directory / name, ignore=shutil.ignore_patterns("__pycache__"))
    for path in Path().iterdir():
        if path.name not in ("docs", ".build", ".cache", ".git"):
            (directory / path.name).symlink_to(path.absolute())
    with (directory / page).open("a") as written:
        written.write(f"\n{text}")
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    command = [sys.executable, "-m", *COMMAND]
    return subprocess.run(
        command, cwd=directory, env=environment, capture_output=True, text=True, check=False, timeout=500
    )


@pytest.mark.parametrize(
    ("page", "text", "reported"),
    [
        (PAGE, "[nowhere](nowhere.md)\n", "nowhere.md"),
        (PAGE, "[nothing](alternatives.md#no-such-heading)\n", "no-such-heading"),
        ("docs/unfound.md", "# A page outside the menu\n", "unfound.md"),
        (PAGE, "```mermaid\ngraph LR\n```\n", "mermaid"),
    ],
)
def test_a_fault_fails_the_build(tmp_path: Path, page: str, text: str, reported: str) -> None:
    done = _build(tmp_path, page, text)
    assert done.returncode != 0
    assert reported in done.stderr


def test_the_site_loads_nothing_from_other_hosts(tmp_path: Path) -> None:
    """Links to other sites are fine; scripts, styles, fonts and images are the site's own."""
    done = _build(tmp_path, PAGE, "")
    assert done.returncode == 0, done.stderr
    site = tmp_path / ".cache/site"
    loads = re.compile(
        r"""<(?:script|img|iframe|source)\b[^>]*\bsrc=["']?(?:https?:)?//|<link\b[^>]*\bhref=["']?https?://"""
    )
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > 20
    assert [f"{path}: {found[0]}" for path in pages for found in loads.finditer(path.read_text())] == []
    styles = "".join(path.read_text() for path in site.rglob("*.css"))
    assert not re.search(r"@import|url\(['\"]?https?:", styles)
