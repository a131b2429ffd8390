"""The options of `forewarn lint`."""

from __future__ import annotations

import argparse
from functools import partial
from typing import Final

from policies.commands import lint_output
from policies.commands.cluster_command import add_cluster_option, add_color_option
from policies.commands.parser import Parser
from policies.commands.release import add_release_options
from policies.findings import Severity
from policies.terminal import columns

MOST_PER_RULE: Final = 100
FAIL_ON: Final = {"error": Severity.ERROR, "warning": Severity.WARNING, "note": Severity.NOTE, "never": None}


def _natural(text: str) -> int:
    """A number that is not negative. Raises ValueError."""
    if (number := int(text)) < 0:
        raise ValueError
    return number


def lint_parser() -> argparse.ArgumentParser:
    """The parser."""
    parser = Parser(
        prog="forewarn lint",
        formatter_class=partial(argparse.HelpFormatter, width=columns()),
        description="Check manifests: files, directories (.yaml, .yml, .json) or - for standard input.",
        epilog="Exit status: 0 nothing at or above --fail-on, 1 findings, 2 wrong usage or configuration, "
        "3 could not do the job.",
    )
    add, add_mutually_exclusive_group = parser.add_argument, parser.add_mutually_exclusive_group
    add("paths", nargs="*", default=["."], metavar="PATH", help="what to check (default: this directory)")
    add_cluster_option(add)
    add("--context", action="append", default=[], metavar="PATH", help="read for what it defines, not reported")
    add("--exclude", action="append", default=[], metavar="PATTERN", help="files to leave out (repeatable)")
    add("--no-gitignore", action="store_true", help="read what .gitignore leaves out, too")
    add(
        "--render",
        action="store_true",
        help="check what helm template and kustomize build print, too",
    )
    add("--one-apply", action="store_true", help="all files come together, whatever their directories")
    add("--closed", action="store_true", help="there are no classes but those of the input")
    add("--allow-empty", action="store_true", help="an input without objects is clean")
    add("-n", "--namespace", help="namespace of objects without one (default: default)")
    add("--stdin-filename", default="", metavar="NAME", help="what standard input is called")
    add_release_options(add)
    add("-c", "--config", metavar="FILE", help="configuration (default: .forewarn.yaml, searched upward)")
    add("--admission-config", metavar="FILE", help="kube-apiserver's AdmissionConfiguration, for limitedResources")
    add("--select", action="append", default=[], metavar="RULE", help="only these rules (repeatable, or with commas)")
    add("--ignore", action="append", default=[], metavar="RULE", help="not these rules (repeatable, or with commas)")
    add("--baseline", metavar="FILE", help="findings that are known and not told")
    add("--write-baseline", metavar="FILE", help="write what is found now as a baseline")
    formats = ", ".join(lint_output.FORMATS)
    add("-o", "--output", action="append", metavar="FORMAT[=FILE]", help=f"{formats} (repeatable; default: text)")
    add(
        "--max-per-rule",
        type=_natural,
        default=MOST_PER_RULE,
        metavar="N",
        help=f"findings of one rule that text shows; 0 for all (default: {MOST_PER_RULE})",
    )
    mend = add_mutually_exclusive_group().add_argument
    mend("--fix", action="store_const", const=3, default=0, help="mend what is safe to mend, and say what is left")
    mend("--diff", action="store_true", help="print what --fix would change; exit status 1 if anything")
    add("--fail-on", choices=FAIL_ON, default="error", help="least severity for exit status 1 (default: error)")
    add("--exit-zero", action="store_true", help="exit status 0 whatever is found")
    add("-q", "--quiet", action="store_true", help="no summary")
    add_color_option(add)
    add("--list-rules", action="store_true", help="every rule with its severity and default action")
    add("--list-files", action="store_true", help="the files that would be read, and what is left out")
    return parser
