"""The options of `forewarn lint`."""

from __future__ import annotations

import argparse
import os
from typing import Final

from forewarn.policies.commands import lint_output
from forewarn.policies.commands.cluster_command import add_cluster_option, add_color_option
from forewarn.policies.commands.parser import Parser, add_rule_options
from forewarn.policies.commands.release import add_release_options
from forewarn.policies.findings import Severity
from forewarn.policies.options import KUSTOMIZE_FLAGS

MAX_PER_RULE: Final = 100
FAIL_ON: Final = {"error": Severity.ERROR, "warning": Severity.WARNING, "note": Severity.NOTE, "never": None}


def _natural(text: str) -> int:
    """Parse a number that is not negative. Raises ValueError."""
    if (number := int(text)) < 0:
        raise ValueError
    return number


def _variable(name: str) -> str:
    """Check the name of an environment variable. Raises ArgumentTypeError."""
    if name not in os.environ:
        raise argparse.ArgumentTypeError(f"{name} is not set")
    return name


def lint_parser() -> argparse.ArgumentParser:
    """The parser of `forewarn lint`."""
    parser = Parser(
        prog="forewarn lint",
        description="Check manifests in files, directories (.yaml, .yml, .json) or standard input (-).",
        epilog="Exit status: 0: no finding at or above --fail-on. 1: findings. 2: wrong usage or configuration. 3: no "
        "answer.",
        examples=("lint manifests/", "lint --cluster live -o sarif=report.sarif ."),
    )
    add, add_mutually_exclusive_group = parser.add_argument, parser.add_mutually_exclusive_group
    add(
        "paths",
        nargs="*",
        default=["."],
        metavar="PATH",
        help="file or directory to check, or - for standard input (default: this directory)",
    )
    add_cluster_option(add, required=False)
    help_text = "file or directory with PriorityClasses and other definitions, which are not checked (repeatable)"
    add("--definitions", action="append", default=[], metavar="PATH", help=help_text)
    add("--exclude", action="append", default=[], metavar="PATTERN", help="files to skip (repeatable)")
    add("--no-gitignore", action="store_true", help="also check files that .gitignore names")
    add(
        "--render",
        action="store_true",
        help="also check the output of helm template and kustomize build",
    )
    help_text = "kustomize flag for --render: {} (repeatable)".format(" or ".join(KUSTOMIZE_FLAGS))
    add("--kustomize-flag", action="append", default=[], choices=KUSTOMIZE_FLAGS, metavar="FLAG", help=help_text)
    add("--render-network", action="store_true", help="let kustomize download remote bases for --render")
    help_text = "environment variable that helm and kustomize get from --render (repeatable)"
    add("--render-env", action="append", default=[], type=_variable, metavar="NAME", help=help_text)
    add("--one-apply", action="store_true", help="treat all files as one apply, whatever their directories")
    add("--closed", action="store_true", help="report every PriorityClass that the input does not define")
    add("--allow-empty", action="store_true", help="accept an input without objects")
    add("-n", "--namespace", help="namespace of objects that name none (default: default)")
    add("--stdin-filename", default="", metavar="NAME", help="file name for standard input in reports")
    add_release_options(add)
    add_rule_options(add)
    formats = ", ".join(lint_output.FORMATS)
    add("-o", "--output", action="append", metavar="FORMAT[=FILE]", help=f"{formats} (repeatable; default: text)")
    add(
        "--max-per-rule",
        type=_natural,
        default=MAX_PER_RULE,
        metavar="N",
        help=f"maximum number of findings of one rule in text output; 0 for all (default: {MAX_PER_RULE})",
    )
    fix = add_mutually_exclusive_group().add_argument
    fix("--fix", action="store_const", const=3, default=0, help="apply safe fixes, and report the other findings")
    fix("--diff", action="store_true", help="print the changes that --fix would make; exit with 1 if there are any")
    add(
        "--fail-on", choices=FAIL_ON, default="error", help="lowest severity that causes exit status 1 (default: error)"
    )
    add("--exit-zero", action="store_true", help="exit with 0 even if there are findings")
    add("-v", "--verbose", action="store_true", help="show notes, and the directories that are checked separately")
    add("-q", "--quiet", action="store_true", help="do not print the summary")
    add_color_option(add)
    add("--list-rules", action="store_true", help="list the rules with severity, default action and summary")
    add("--list-files", action="store_true", help="list checked and skipped files")
    return parser
