"""CODEOWNERS files of GitHub and GitLab. Sources: the examples of docs.github.com and docs.gitlab.com."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from forewarn.policies.inputs.sources.git import PLACES, CodeOwners

if TYPE_CHECKING:
    from pathlib import Path

GITHUB = r"""
# comment
*       @global-owner1 @global-owner2
*.js    @js-owner #inline
*.go docs@example.com
*.txt @octo-org/octocats
/build/logs/ @doctocat
docs/*  docs@example.com
apps/ @octocat
/docs/ @doctocat
/scripts/ @doctocat @octocat
**/logs @octocat
/apps/ @octocat
/apps/github
with\ space/ @spaced
no-owner not-an-owner
"""
GITLAB = """
* @default

[Documentation][2] @docs-team
docs/
README.md @readme

^[Database] @database
model/db/
docs/db.md @dba
"""


@pytest.mark.parametrize(
    ("text", "path", "owners"),
    [
        (GITHUB, "web.yaml", ["@global-owner1", "@global-owner2"]),
        (GITHUB, "a/b.js", ["@js-owner"]),
        (GITHUB, "a/b.go", ["docs@example.com"]),
        (GITHUB, "build/logs/x.txt", ["@octocat"]),
        (GITHUB, "build/logs", ["@octocat"]),
        (GITHUB, "a/docs/deep/file.txt", ["@octo-org/octocats"]),
        (GITHUB, "docs/deep/file.txt", ["@doctocat"]),
        (GITHUB, "a/apps/b/c", ["@octocat"]),
        (GITHUB, "apps/github/x", []),
        (GITHUB, "with space/x", ["@spaced"]),
        (GITHUB, "no-owner", []),
        ("docs/* @docs", "docs/a.md", ["@docs"]),
        ("docs/* @docs", "docs/a/b.md", []),
        ("", "x", []),
        (GITLAB, "x", ["@default"]),
        (GITLAB, "docs/x", ["@docs-team", "@default"]),
        (GITLAB, "docs/db.md", ["@dba", "@docs-team", "@default"]),
        (GITLAB, "README.md", ["@readme", "@default"]),
    ],
)
def test_the_last_line_of_each_section_decides(text: str, path: str, owners: list[str], tmp_path: Path) -> None:
    (tmp_path / "CODEOWNERS").write_text(text)
    assert CodeOwners(str(tmp_path)).owners_of(path) == owners


@pytest.mark.parametrize("place", PLACES)
def test_each_place_is_read(place: str, tmp_path: Path) -> None:
    file = tmp_path / place
    file.parent.mkdir(exist_ok=True)
    file.write_text("* @a")
    assert CodeOwners(str(tmp_path)).owners_of("x") == ["@a"]


def test_there_may_be_no_file_or_a_strange_one(tmp_path: Path) -> None:
    assert CodeOwners(str(tmp_path)).owners_of("x") == []
    (tmp_path / "CODEOWNERS").write_bytes(b"\xff\x00* @a\n" + b"**/" * 10_000 + b" @b\n* @c\n")
    assert CodeOwners(str(tmp_path)).owners_of("x/" * 50) == ["@c"]
