"""`make site`, where what it needs is there: dead links end it, and so does a page that stands in no menu."""

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


@pytest.mark.parametrize(
    ("page", "text", "said"),
    [
        ("docs/why.md", "", ""),
        ("docs/why.md", "[nowhere](nowhere.md)\n", "nowhere.md"),
        ("docs/why.md", "[nothing](install.md#no-such-heading)\n", "no-such-heading"),
        ("docs/unfound.md", "# A page that stands in no menu\n", "unfound.md"),
    ],
)
def test_what_leads_nowhere_ends_it(tmp_path: Path, page: str, text: str, said: str) -> None:
    for name in ("docs", ".build"):
        shutil.copytree(name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    for path in Path().iterdir():
        if path.name not in ("docs", ".build", ".cache", ".git"):
            (tmp_path / path.name).symlink_to(path.absolute())
    with (tmp_path / page).open("a") as written:
        written.write(f"\n{text}")
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    command = [sys.executable, "-m", *COMMAND]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert (done.returncode != 0) == bool(said), done.stderr
    assert said in done.stderr
