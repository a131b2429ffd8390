"""Check the style of pages, messages and help texts with Vale: `docs_style.py [--warnings] [PATH ...]`.

PATH is a page, a directory of pages, a Python module or a package. Without PATH: README.md, CONTRIBUTING.md, docs/,
the messages of rules, reports and the webhook, and the help text of every command.
The styles are in .build/vale. Vale is $VALE, or the pinned version, built once by Go into .cache/vale
(docs/internals/decisions/0002-tooling.md).
"""

from __future__ import annotations

import ast
import contextlib
import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

ROOT: Final = Path(__file__).resolve().parent.parent
STYLES: Final = ROOT / ".build/vale"
CACHE: Final = ROOT / ".cache/vale"
CHECKED: Final = ("README.md", "CONTRIBUTING.md", "docs", "policies/linting/rules", "policies/cli/render", "webhook")
MODULE: Final = "github.com/vale-cli/vale/v3"
VERSION: Final = "v3.26.0"
SUM: Final = "h1:G2HODVWzLDZkfg+dzQgxKz0wbiEgfbvFuIXS7Zm9lgw="
"""The checksum of the module, as in a go.sum."""
_CONTAINER: Final = re.compile(r"( *)(?:===|!!!|\?\?\?\+?) ")
_CODE_FENCE: Final = re.compile(r" *(```|~~~)")
_HELP_ENTRY: Final = re.compile(r" {2,4}(\S.*?)(?: {2,}(\S.*))?")
_MIN_WORDS: Final = 4
"""Shorter literals are names and fragments."""
_SUBCOMMAND: Final = re.compile(r" {2,4}([a-z][a-z-]*(?: [a-z][a-z-]*)?)(?: {2,}\S.*)?")

sys.path.insert(0, str(ROOT))

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


def vale() -> str:
    """The path of a Vale; builds the pinned version if it is not in the cache."""
    if given := os.environ.get("VALE"):
        return given
    pinned = (STYLES / "vale.mod").read_bytes() + (STYLES / "vale.sum").read_bytes()
    binary = CACHE / hashlib.sha256(VERSION.encode() + pinned).hexdigest()[:12] / "vale"
    if not binary.exists():
        _build(binary)
    return str(binary)


def _build(binary: Path) -> None:
    """Build Vale without cgo.

    The sources that Vale's own WebAssembly build leaves out need a C compiler. They check code and XML, not Markdown.
    """
    from tests.e2e.build import Module, find_go

    go = find_go(Module(str(STYLES), {}, modfile="vale.mod"))
    print(f"docs-style: building Vale {VERSION}: half a minute to two", file=sys.stderr, flush=True)  # noqa: T201
    environment = {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "-mod=mod"}
    downloaded = subprocess.run(
        [go, "mod", "download", "-json", f"{MODULE}@{VERSION}"],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    module = json.loads(downloaded.stdout or "{}")
    if module.get("Sum") != SUM:
        sys.exit(
            f"docs-style: cannot download Vale {VERSION}: "
            f"{module.get('Error') or module.get('Sum') or downloaded.stderr}"
        )
    binary.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=binary.parent) as directory:
        source, built = Path(directory) / "source", Path(directory) / "vale"
        shutil.copytree(module["Dir"], source, copy_function=shutil.copyfile)
        _without_cgo(source / "internal/lint")
        for name in ("vale.mod", "vale.sum"):
            shutil.copyfile(STYLES / name, source / name)
        command = [go, "build", "-modfile=vale.mod", "-trimpath", "-ldflags=-s -w", "-o", str(built), "./cmd/vale"]
        done = subprocess.run(command, cwd=source, env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(f"docs-style: building Vale {VERSION} failed:\n{done.stderr[-2000:]}")
        built.rename(binary)


def _without_cgo(package: Path) -> None:
    """Select the sources of the WebAssembly build, for every platform."""
    for path in package.glob("*.go"):
        constraint, _, rest = path.read_text().partition("\n")
        if constraint == "//go:build !js":
            path.unlink()
        elif constraint == "//go:build js":
            path.unlink()
            path.with_name(path.name.replace("_js.go", "_without_cgo.go")).write_text(rest)


def texts_of(paths: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Name and text of each Markdown page in these files and directories, and of the modules in these packages."""
    for path in map(Path, paths):
        if path.suffix == ".py" or (path / "__init__.py").exists():
            yield from messages(path)
        else:
            for page in sorted(path.rglob("*.md")) if path.is_dir() else [path]:
                yield os.path.relpath(page), page.read_text()


def plain(markdown: str) -> str:
    """The page with the contents of admonitions and content tabs at the left margin: CommonMark reads them as code.

    Each line keeps its number.
    """
    lines: list[str] = []
    inside: list[int] = []  # the indentation of each container that is open
    for line in markdown.splitlines():
        indent = len(line) - len(line.lstrip())
        while line.strip() and inside and indent <= inside[-1]:
            inside.pop()
        opened = _CONTAINER.match(line)
        lines.append(line[min(indent, 4 * len(inside)) :])
        if opened:
            inside.append(indent)
            lines[-1] = re.sub(r'^(?:===|!!!|\?\?\?\+?)(?: \w+)?(?: "(.*)")?$', r"\1", lines[-1])
    return "\n".join(lines) + "\n"


def help_texts(command: tuple[str, ...] = ()) -> Iterator[tuple[str, str]]:
    """Name and text of `--help` of a command and of all commands below it, a paragraph for each option."""
    text = _help(command)
    yield " ".join(("forewarn", *command, "--help")), paragraphs(text)
    for line in text.splitlines():
        if listed := _SUBCOMMAND.fullmatch(line):
            words = tuple(listed[1].split())
            below = words if words[: len(command)] == command else (*command, *words)
            if re.search(rf"^usage: forewarn {' '.join(below)}\b", _help(below), re.MULTILINE):
                yield from help_texts(below)


@cache
def _help(command: tuple[str, ...]) -> str:
    from forewarn.policies.cli.main import main

    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()), contextlib.suppress(SystemExit):
        main([*command, "--help-all"])
    return out.getvalue()


def paragraphs(text: str) -> str:
    """A help text without its usage and its examples, each option's text a paragraph."""
    made: list[str] = []
    skipping = False
    for line in text.splitlines():
        if not line.strip():
            skipping = False
            made.append("")
        elif re.match(r"(?:usage|examples?):", line, re.IGNORECASE):
            skipping = True
        elif skipping or re.match(r" +(?:\$|forewarn|kubectl) ", line):
            continue
        elif line.startswith(" " * 8) or not line.startswith(" "):
            made.append(line.strip())
        elif entry := _HELP_ENTRY.fullmatch(line):
            made += ["", entry[2] or ""]
    text = re.sub(r",(\s)(?=[0-3]\s)", r".\1", "\n".join(made))  # the exit statuses are a list
    return re.sub(r"\n{3,}", "\n\n", text) + "\n"


def messages(package: Path) -> Iterator[tuple[str, str]]:
    """Path and text of each module's string literals of four words and more, each on the line where it starts.

    Docstrings and what else stands alone are left out; a value in an f-string is X.
    """
    for path in sorted(package.rglob("*.py")) if package.is_dir() else [package]:
        tree = ast.parse(path.read_text())
        skipped = {
            id(part)
            for node in ast.walk(tree)
            if isinstance(node, ast.Expr)
            for part in ast.walk(node.value)
            if isinstance(node.value, (ast.Constant, ast.JoinedStr))
        }
        lines: dict[int, str] = {}
        for node in ast.walk(tree):
            if id(node) in skipped:
                continue
            if isinstance(node, ast.JoinedStr):
                skipped |= {id(part) for part in node.values if isinstance(part, ast.Constant)}
                text = "".join(str(part.value) if isinstance(part, ast.Constant) else "X" for part in node.values)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                text = node.value
            else:
                continue
            if len(re.findall(r"(?<!\S)[A-Za-z'-]{2,}[,.;:]?(?!\S)", text)) >= _MIN_WORDS:
                lines[node.lineno] = " ".join((lines.get(node.lineno, ""), *text.split())).strip()
        if lines:
            yield os.path.relpath(path), "\n".join(lines.get(number, "") for number in range(1, max(lines) + 1)) + "\n"


def check(texts: dict[str, str]) -> list[tuple[str, int, int, dict[str, Any]]]:
    """What Vale reports: the name of a text, line, column, and the alert."""
    program = vale()
    directory = CACHE / f"texts-{os.getpid()}"
    names: dict[str, str] = {}
    try:
        for number, (name, text) in enumerate(texts.items()):
            markdown = name.endswith(".md")
            path = directory / str(number) / (Path(name).name if markdown else "text.md")
            path.parent.mkdir(parents=True)
            spaced = text.replace("\n", "\n\n") if name.endswith(".py") else text
            path.write_text(plain(text) if markdown else spaced.replace("<", "("))
            names[str(path)] = name
        command = [program, "--config", str(STYLES / "vale.ini"), "--output", "JSON", "--no-exit", str(directory)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        try:
            found = json.loads(done.stdout)
        except json.JSONDecodeError:
            sys.exit(f"docs-style: Vale failed: {done.stderr or done.stdout}")
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    alerts = []
    for path, listed in found.items():
        for alert in listed:
            line = (alert["Line"] + 1) // 2 if names[path].endswith(".py") else alert["Line"]
            alerts.append((names[path], line, alert["Span"][0], alert))
    order = list(texts)
    return sorted(alerts, key=lambda found: (order.index(found[0]), found[1], found[2]))


def main(arguments: list[str]) -> int:
    """Print `TEXT:LINE:COLUMN: message [rule]` for each alert; 1 if one is an error."""
    warnings = "--warnings" in arguments
    paths = [argument for argument in arguments if argument != "--warnings"]
    texts = dict(texts_of(paths or [str(ROOT / name) for name in CHECKED]))
    if not paths:
        texts |= dict(help_texts())
    counts = {"error": 0, "warning": 0}
    for name, line, column, alert in check(texts):
        counts[alert["Severity"]] += 1
        if alert["Severity"] == "error" or warnings:
            rule = alert["Check"].removeprefix("Forewarn.")
            print(f"{name}:{line}:{column}: {alert['Severity']}: {alert['Message']} [{rule}]")  # noqa: T201
            if not name.endswith(".md"):
                print(f"    {[*texts[name].splitlines(), ''][line - 1]}")  # noqa: T201
    shown = "" if warnings else " (--warnings shows them)"
    print(f"{len(texts)} texts: {counts['error']} errors, {counts['warning']} warnings{shown}", file=sys.stderr)  # noqa: T201
    return 1 if counts["error"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
