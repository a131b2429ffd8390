"""What mkdocs is told beside mkdocs.yml: README is the first page, and only links to other pages stay links.

In the repository pages also link to files and directories of it, which are not on the site: of these the text stays.
Links to pages and headings are checked by mkdocs itself (`--strict`).
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from mkdocs.structure.files import File

if TYPE_CHECKING:
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT: Final = Path(__file__).resolve().parent.parent
TOP: Final = {"README.md": "index.md", "CHANGELOG.md": "changelog.md", "CONTRIBUTING.md": "contributing.md"}
"""Pages of the repository's top level -> what they are called on the site."""
_LINK: Final = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)")


STYLE: Final = "site.css"
_CONSOLE: Final = ".language-console pre > code { white-space: pre-wrap; overflow-wrap: anywhere; }\n"
"""What kubectl and forewarn print is read to its end: a warning is one line of 256 characters."""


def on_config(config: Any) -> Any:
    """The decisions come last among the pages."""
    made = sorted(path.name for path in (ROOT / "docs/decisions").glob("*.md"))
    config.nav.append({"Decisions": [f"decisions/{name}" for name in made]})
    return config


def on_files(files: Files, config: Any) -> Files:
    """Take in the pages of the top level."""
    for name, page in TOP.items():
        files.append(File.generated(config, page, content=(ROOT / name).read_text("utf-8")))
    files.append(File.generated(config, STYLE, content=_CONSOLE))
    return files


def on_page_markdown(markdown: str, page: Page, config: Any, files: Files) -> str:  # noqa: ARG001
    """Lead links to where things are on the site."""
    here = next((name for name, made in TOP.items() if made == page.file.src_path), f"docs/{page.file.src_path}")

    def led(link: re.Match[str]) -> str:
        mark, text, target = link.groups()
        path, hash_, anchor = target.partition("#")
        if not path or "://" in target:
            return link[0]
        inside = posixpath.normpath(posixpath.join(posixpath.dirname(here), path))
        found = TOP.get(inside) or inside.removeprefix("docs/")
        if not (ROOT / inside).exists():
            return link[0]  # and mkdocs says so
        if (inside not in TOP and not inside.startswith("docs/")) or files.get_file_from_path(found) is None:
            return text
        relative = posixpath.relpath(found, posixpath.dirname(page.file.src_path) or ".")
        return f"{mark}[{text}]({relative}{hash_}{anchor})"

    return _LINK.sub(led, markdown)
