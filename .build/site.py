"""Hooks of mkdocs beside mkdocs.yml: README is the home page, and the menu lists every rule and decision.

Links to files that are not on the site, such as sources, become plain text. mkdocs itself checks links to pages and
headings (`--strict`).
"""

from __future__ import annotations

import logging
import posixpath
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from mkdocs.structure.files import File

if TYPE_CHECKING:
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT: Final = Path(__file__).resolve().parent.parent
TOP: Final = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
}
"""Pages of the repository's top level -> their names on the site."""
GENERATED: Final = {"Rules": ("Reference", "reference/rules"), "Decisions": ("Internals", "internals/decisions")}
"""Section of the menu -> the tab that it ends, and its directory; the menu has every page of it."""
HISTORY: Final = "CHANGELOG.md"
"""It may link to pages of earlier versions, which are gone."""
_LINK: Final = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)")
_COMMENT: Final = re.compile(r"\A\s*<!--.*?-->\s*", re.DOTALL)
"""The first line of a generated page, which keeps mkdocs from taking the heading for the title."""
_CALLOUT: Final = re.compile(r"^> \[!(\w+)\]\n((?:>.*\n?)+)", re.MULTILINE)
"""GitHub's callouts, such as `> [!WARNING]`."""
_MERMAID: Final = re.compile(r"^\s*```+\s*mermaid", re.MULTILINE)
_LOG: Final = logging.getLogger("mkdocs.hooks.site")

BOOSTS: Final = {"guides/": 2, "reference/rules/": 2, "internals/": 0.3}
"""Directory of pages -> how the site's search weights them."""
STYLE: Final = "site.css"
_CONSOLE: Final = ".language-console pre > code { white-space: pre-wrap; overflow-wrap: anywhere; }\n"
"""Long lines of output wrap."""


def on_config(config: Any) -> Any:
    """Add the pages of rules and decisions to the menu."""
    for section, (tab, directory) in GENERATED.items():
        names = sorted(path.name for path in (ROOT / "docs" / directory).glob("*.md"))
        names.sort(key=lambda name: name != "index.md")
        pages = next(entry[tab] for entry in config.nav if tab in entry)
        pages.append({section: [f"{directory}/{name}" for name in names]})
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add the pages of the top level and the style sheet."""
    for name, page in TOP.items():
        files.append(File.generated(config, page, content=(ROOT / name).read_text("utf-8")))
    files.append(File.generated(config, STYLE, content=_CONSOLE))
    return files


def on_page_markdown(markdown: str, page: Page, config: Any, files: Files) -> str:  # noqa: ARG001
    """Rewrite links and callouts for the site, and rank guides and rules first in its search."""
    boost = next((boost for prefix, boost in BOOSTS.items() if page.file.src_path.startswith(prefix)), 1)
    page.meta.setdefault("search", {"boost": boost})
    source = next((name for name, made in TOP.items() if made == page.file.src_path), f"docs/{page.file.src_path}")
    if _MERMAID.search(markdown):
        _LOG.warning("%s has a mermaid diagram, which the theme would load from a CDN: use an SVG", source)

    def rewrite(link: re.Match[str]) -> str:
        mark, text, target = link.groups()
        path, hash_, anchor = target.partition("#")
        if not path or "://" in target:
            return link[0]
        inside = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
        found = TOP.get(inside) or inside.removeprefix("docs/")
        if not (ROOT / inside).exists():
            return text if source == HISTORY else link[0]  # mkdocs reports it
        if (inside not in TOP and not inside.startswith("docs/")) or files.get_file_from_path(found) is None:
            return text
        relative = posixpath.relpath(found, posixpath.dirname(page.file.src_path) or ".")
        return f"{mark}[{text}]({relative}{hash_}{anchor})"

    return _LINK.sub(rewrite, _CALLOUT.sub(_admonition, _COMMENT.sub("", markdown)))


def _admonition(callout: re.Match[str]) -> str:
    """A callout in the theme's syntax."""
    text = re.sub(r"^> ?", "    ", callout[2], flags=re.MULTILINE)
    return f"!!! {callout[1].lower()}\n\n{text}"
