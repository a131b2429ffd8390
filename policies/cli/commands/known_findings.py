"""Configuration, baselines, earlier reports, and rules by name: which findings `lint` and `audit` report."""

from __future__ import annotations

import os
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, TypeVar

from forewarn.policies import VERSION
from forewarn.policies.base.documents import to_dict
from forewarn.policies.base.findings import Finding, Severity, plural
from forewarn.policies.cli.commands.parser import Printed
from forewarn.policies.cli.terminal import complain, print_notice
from forewarn.policies.inputs.sources.files import SourceError, write_file
from forewarn.policies.kubernetes.objects.fields import InvalidInput
from forewarn.policies.linting.config.model import Config, find_config
from forewarn.policies.questions.application.findings import Report, configured

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Sequence

    from forewarn.policies.cli.commands.cluster_command import Run

T = TypeVar("T")
FAILED = 3
FAIL_ON: Final = {"error": Severity.ERROR, "warning": Severity.WARNING, "note": Severity.NOTE, "never": None}


def add_status_options(add: Callable[..., object]) -> None:
    """Add the options about the exit status, by a parser's `add_argument`."""
    help_text = "lowest severity that causes exit status 1 (default: error)"
    add("--fail-on", choices=FAIL_ON, default="error", help=help_text)
    add("--exit-zero", action="store_true", help="exit with 0 even if there are findings")


def read_baseline(path: str | None) -> dict[str, Any] | None:
    """Read a baseline file; None for None. Raises ValueError."""
    return None if path is None else _read(path, "a baseline. Fix: write one with --write-baseline")


def read_since(options: argparse.Namespace, parser: argparse.ArgumentParser) -> None:
    """Set `options.previous` to the report of `--since`, or None. Exits if the file is no report."""
    try:
        options.previous = read_report(options.since)
    except ValueError as fault:
        parser.error(str(fault))


def read_report(since: str | None, *, of_several: bool = False) -> dict[str, Any] | None:
    """Return the earlier report of `--since`; None without the option. Raises ValueError.

    `of_several`: the report must be about several clusters.
    """
    if since is None:
        return None
    result = _read(since, "a report. Fix: write one with -o json")
    if of_several and not isinstance(result.get("clusters"), list):
        raise ValueError(f"{since}: not a report on several clusters: no list clusters")
    return result


def earlier_report(result: dict[str, Any] | None, since: str, run: Run) -> dict[str, Any] | None:
    """Return the earlier report on a cluster; None if there is none.

    `result`: the result of `read_report`; for several clusters, it contains a report for each cluster name.
    """
    if result is None or not run.name:
        return result
    for entry in result["clusters"]:
        if isinstance(entry, dict) and entry.get("cluster") == run.name and isinstance(entry.get("report"), dict):
            report: dict[str, Any] = entry["report"]
            return report
    print_notice(f"{since} has no report on this cluster", run.errors)
    return None


def compared(path: str | None, compare: Callable[[], T]) -> T:
    """Return the comparison with a file of `--since` or `--baseline`. Raises InvalidInput if the file is no such
    report.
    """
    try:
        return compare()
    except ValueError as fault:
        raise InvalidInput(f"{path}: {fault}") from None


def _read(path: str, what: str) -> dict[str, Any]:
    import json

    from forewarn.policies.linting.config.load import contents

    try:
        result = json.loads(contents(path))
    except (json.JSONDecodeError, RecursionError):
        result = None
    if not isinstance(result, dict):
        raise ValueError(f"{path}: not {what}")
    return result


def less_known(
    findings: list[Finding], baseline: dict[str, Any] | None, path: str, files: Sequence[str] = ()
) -> tuple[list[Finding], int, list[str]]:
    """The findings that a baseline does not contain, the number of others, and a notice about entries no longer found.

    `path`: of the baseline. `files`: the checked files. Raises InvalidInput.
    """
    if baseline is None:
        return findings, 0, []
    from forewarn.policies.linting.evaluation.suppressions import less_baseline

    new, known, fixed = compared(path, lambda: less_baseline(findings, baseline, files))
    what = f"{plural(fixed, 'finding')} of the baseline no longer found; update it with --write-baseline"
    return new, known, [what] if fixed else []


def printed(form: str, report: Report) -> Printed:
    """A report as json or sarif."""
    if form == "json":
        from forewarn.policies.cli.render.report import as_json

        return Printed(chain(as_json(report), "\n"), lambda: [to_dict(report)])
    from forewarn.policies.cli.render import sarif

    return Printed(chain(sarif.render(report, VERSION), "\n"), lambda: sarif.document(report, VERSION))


def write_baseline(path: str, findings: list[Finding], command: str = "lint") -> bool:
    """Write the current findings as a baseline; returns false, with an error message, if that fails."""
    import json

    from forewarn.policies.linting.evaluation.suppressions import baseline_of

    try:
        write_file(path, (json.dumps(baseline_of(findings), indent=1) + "\n").encode())
    except SourceError as fault:
        complain(command, fault, FAILED)
        return False
    return True


def config_of(options: argparse.Namespace) -> Config:
    """The configuration that the options of `add_rule_options` select. Raises ConfigError, ValueError."""
    file = options.config or find_config(os.curdir)
    return configured(file, options.admission_config, options.select, options.ignore)
