"""What the documentation says is true."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from policies.cli import COMMANDS
from policies.config.load import OPTION_NAMES, read_config
from policies.rules import RULES


def test_what_is_made_from_the_code_is_fresh() -> None:
    done = subprocess.run([sys.executable, "docs/generate.py", "--check"], capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert done.returncode == 0


def test_the_configuration_page_shows_every_option_in_a_file_that_can_be_read() -> None:
    (example,) = re.findall(r"```yaml\n(.*?)```", Path("docs/configuration.md").read_text(), re.DOTALL)
    read_config(example, "docs/configuration.md")
    for name in OPTION_NAMES:
        assert re.search(rf"^{name}:", example, re.MULTILINE), name


CONSOLE = re.compile(r"^```console\n\$ (.+)\n((?:.*\n)*?)```$", re.MULTILINE)
MAKE = {"make run": "forewarn demo"}
PAGES = sorted(str(path) for path in (Path("README.md"), *Path("docs").glob("*.md")))


def _blocks() -> list[tuple[str, str, str]]:
    """(page, command, output) of every console block; `$ make …` stands for the command that it runs."""
    return [(page, m[1], m[2]) for page in PAGES for m in CONSOLE.finditer(Path(page).read_text())]


@pytest.mark.parametrize(("page", "command", "shown"), _blocks(), ids=lambda value: str(value)[:60])
def test_what_a_page_shows_is_what_the_command_prints(page: str, command: str, shown: str) -> None:
    """`UPDATE=1` writes the real output into the page."""
    program, *arguments = shlex.split(MAKE.get(command, command))
    assert program == "forewarn"
    run = [sys.executable, "-m", "policies.cli", *arguments]
    done = subprocess.run(run, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if os.environ.get("UPDATE"):
        text = Path(page).read_text()
        Path(page).write_text(text.replace(f"$ {command}\n{shown}```", f"$ {command}\n{done.stdout}```"))
    assert done.stdout == shown


def test_every_command_flag_and_rule_is_documented() -> None:
    pages = "\n".join(Path(page).read_text() for page in PAGES)
    for command in COMMANDS:
        assert f"forewarn {command}" in pages, command
    for rule in RULES:
        assert f"## {rule.ID}\n" in pages, rule.ID


def test_pages_link_to_files_that_are_there() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#:]+)\)", Path(page).read_text()):
            assert (Path(page).parent / target).exists(), f"{page}: {target}"
