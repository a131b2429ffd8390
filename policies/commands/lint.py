"""`forewarn lint`: manifests in, findings out."""

from __future__ import annotations

import argparse
import gc
import json
import os
import sys
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from policies.commands import lint_output
from policies.commands.lint_input import Input, as_update, as_updates, read_input
from policies.commands.release import add_release_options, release_of, settle
from policies.config.model import Config, ConfigError
from policies.config.search import find_config
from policies.evaluator import Phase, count_open, evaluate
from policies.findings import Finding, Severity, plural
from policies.objects.reviewed_object import ChangeSet
from policies.sources import SourceError, find_files
from policies.terminal import COLOR_CHOICES, columns, complain, say

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from policies.cluster import ClusterSnapshot
    from policies.commands.lint_output import Target
    from policies.groups import Grouping
    from policies.objects.reviewed_object import ReviewedObject
    from policies.releases import Release

__all__ = ["as_update", "main", "read_input"]

OK, FINDINGS, USAGE, FAILED = range(4)
FAIL_ON: Final = {"error": Severity.ERROR, "warning": Severity.WARNING, "note": Severity.NOTE, "never": None}


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns the exit status: 0 clean, 1 findings, 2 wrong usage, 3 could not do the job."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.list_rules:
        _list_rules()
        return OK
    release = release_of(options, parser)
    try:
        outputs = lint_output.targets(options.output, os.environ)
        config = _config(options)
        baseline = read_baseline(options.baseline)
    except (ConfigError, ValueError) as fault:
        return _complain(fault, USAGE)
    if options.list_files:
        return _list_files(options, config)
    with _no_collector():
        return _lint(options, outputs, config, baseline, release)


def _lint(
    options: argparse.Namespace,
    outputs: list[Target],
    config: Config,
    baseline: dict[str, Any] | None,
    release: Release,
) -> int:
    try:
        cluster, told = _cluster(options.cluster, config, release)
    except SourceError as fault:
        return _complain(fault, FAILED)
    config = config._replace(options=config.options._replace(minor=release.minor or told))
    given = read_input(
        options.paths,
        config,
        options.namespace or "default",
        options.context,
        options.stdin_filename,
        as_git=not options.no_gitignore,
    )
    for message in given.unreadable:
        _complain(message, FAILED)
    grouping = given.grouping(config, one=options.one_apply, limits_stay=options.namespace is None)
    found, unjudged = _findings(grouping, given, cluster, config)
    findings, suppressed = _left(found, given, config, with_cluster=cluster is not None)
    if options.write_baseline and not write_baseline(options.write_baseline, findings):
        return FAILED
    gone = 0
    if baseline is not None:
        from policies.suppressions import less_baseline

        try:
            findings, known, gone = less_baseline(findings, baseline)
        except ValueError as fault:
            return _complain(f"{options.baseline}: {fault}", USAGE)
        suppressed += known
    findings = lint_output.folded(findings)
    for target in outputs:
        try:
            lint_output.write(target, findings, given, options.color, suppressed)
        except OSError as fault:
            if not target[1] and fault.filename is None:
                raise
            return _complain(f"{target[1] or fault.filename}: {fault.strerror}", FAILED)
    if not options.quiet:
        lint_output.summarize(findings, given, grouping, suppressed)
        _tell(unjudged, gone)
    return _status(options, given, findings)


def _status(options: argparse.Namespace, given: Input, findings: list[Finding]) -> int:
    if given.unreadable:
        return FAILED
    if not given.reported and not options.allow_empty:
        return _complain("no .yaml, .yml or .json file to read", FAILED)
    if not (given.objects or given.diagnostics or options.allow_empty):
        return _complain("no objects in the input; --allow-empty takes that for clean", FAILED)
    threshold = FAIL_ON[options.fail_on]
    if options.exit_zero or options.write_baseline or threshold is None:
        return OK
    return FINDINGS if any(finding.severity <= threshold for finding in findings) else OK


def _findings(
    grouping: Grouping, given: Input, cluster: ClusterSnapshot | None, config: Config
) -> tuple[list[Finding], int]:
    """The findings on all groups, each once, in the order of the report; and how many objects are left unjudged."""
    now = datetime.now(UTC)
    found = {f.order: f for f in _evaluate(ChangeSet((), tuple(given.diagnostics)), cluster, config, now)}
    unjudged = 0
    for group in grouping.groups:
        sent = as_updates(group, cluster)
        change_set = ChangeSet(sent.subjects)
        found |= {f.order: f for f in _evaluate(change_set, cluster, config, now, sent.judged)}
        unjudged += count_open(change_set, config, cluster, now, sent.judged)
    return [found[key] for key in sorted(found)], unjudged


def _evaluate(
    change_set: ChangeSet,
    cluster: ClusterSnapshot | None,
    config: Config,
    now: datetime,
    judged: Sequence[ReviewedObject] | None = None,
) -> list[Finding]:
    return evaluate(change_set, cluster, config, phase=Phase.LINT, now=now, judged=judged)


def _left(found: list[Finding], given: Input, config: Config, *, with_cluster: bool) -> tuple[list[Finding], int]:
    """The findings that nothing suppresses, and how many are suppressed."""
    if not given.suppressions and not config.options.ignored:
        return found, 0
    from policies.suppressions import of_configuration, suppress

    suppressions = [*given.suppressions, *of_configuration(config.options.ignored)]
    today = datetime.now(UTC).date()
    return suppress(found, suppressions, config.told, today, with_cluster=with_cluster, read=given.reported)


def read_baseline(path: str | None) -> dict[str, Any] | None:
    """What a baseline file holds. Raises ValueError."""
    if path is None:
        return None
    from policies.config.document import contents

    found = json.loads(contents(path))
    if not isinstance(found, dict):
        raise ValueError(f"{path}: this is no baseline")
    return found


def write_baseline(path: str, findings: list[Finding], command: str = "lint") -> bool:
    """Write what is found now as a baseline; False, and said, where that cannot be."""
    from policies.suppressions import baseline_of

    try:
        with open(path, "w", encoding="utf-8") as file:
            file.write(json.dumps(baseline_of(findings), indent=1) + "\n")
    except OSError as fault:
        complain(command, f"{path}: {fault.strerror}", FAILED)
        return False
    return True


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="forewarn lint",
        formatter_class=partial(argparse.HelpFormatter, width=columns()),
        description="Check manifests: files, directories (.yaml, .yml, .json) or - for standard input.",
        epilog="Exit status: 0 nothing at or above --fail-on, 1 findings, 2 wrong usage or configuration, "
        "3 could not do the job.",
    )
    add = parser.add_argument
    add("paths", nargs="*", default=["."], metavar="PATH", help="what to check (default: this directory)")
    add("--cluster", action="append", default=[], metavar="SOURCE", help="cluster state: a dump (repeatable), or live")
    add("--context", action="append", default=[], metavar="PATH", help="read for what it defines, not reported")
    add("--exclude", action="append", default=[], metavar="PATTERN", help="files to leave out (repeatable)")
    add("--no-gitignore", action="store_true", help="read what .gitignore leaves out, too")
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
    add("--fail-on", choices=FAIL_ON, default="error", help="least severity for exit status 1 (default: error)")
    add("--exit-zero", action="store_true", help="exit status 0 whatever is found")
    add("-q", "--quiet", action="store_true", help="no summary")
    add("--color", choices=COLOR_CHOICES, default="auto", help="default: auto, on a terminal without NO_COLOR")
    add("--list-rules", action="store_true", help="every rule with its severity and default action")
    add("--list-files", action="store_true", help="the files that would be read, and what is left out")
    return parser


def _cluster(sources: list[str], config: Config, release: Release) -> tuple[ClusterSnapshot | None, int | None]:
    """The cluster's state, and the minor that it says it runs, where that is a known one."""
    if not sources:
        return None, None
    from policies.sources import load_cluster

    cache = settle(load_cluster(*sources, templates=config.options.pod_template_paths), release)
    cluster = cache.snapshot()
    if cluster.semantics.unknown:
        print(f"forewarn lint: no prediction: {cluster.semantics.unknown}", file=sys.stderr)  # noqa: T201
        return cluster, None
    return cluster, cache.told_minor


def _config(options: argparse.Namespace) -> Config:
    """The configuration with what the command line adds. Raises ConfigError and ValueError."""
    found, config = options.config or find_config(os.curdir), Config()
    if found:
        from policies.config.load import load_config

        config = load_config(found)
    if options.admission_config:
        from policies.config.admission_configuration import load_limited_resources

        config = config.limiting(load_limited_resources(options.admission_config))
    more = config.options._replace(
        closed=config.options.closed or options.closed, exclude=(*config.options.exclude, *options.exclude)
    )
    selected, ignored = (named_rules(given) for given in (options.select, options.ignore))
    return config._replace(options=more, selected=selected, unheard=ignored)


def named_rules(given: list[str]) -> frozenset[str]:
    """The rules that are named. Raises ValueError."""
    names = frozenset(name for item in given for name in item.split(",") if name)
    if names:
        from policies.rules import RULES
        from policies.rules.support.names import nearest

        known = {rule.ID for rule in RULES}
        for name in sorted(names - known):
            raise ValueError(f'no rule "{name}"{nearest(name, known) or "; --list-rules has them all"}')
    return names


def _tell(unjudged: int, gone: int) -> None:
    if unjudged:
        what = f"{plural(unjudged, 'object')} not judged by class-not-allowed"
        say(f"{what}: it depends on who applies, or on a namespace that is not known")
    if gone:
        say(f"{plural(gone, 'finding')} of the baseline {'is' if gone == 1 else 'are'} gone: write it anew")


def _list_rules() -> None:
    from policies.rules import RULES

    for rule in RULES:
        print(f"{rule.ID:34} {rule.SEVERITY or '-'!s:8} {rule.ACTION or '-'}")  # noqa: T201


def _list_files(options: argparse.Namespace, config: Config) -> int:
    from policies.groups import matches
    from policies.terminal import clean

    def left_out(path: str, what: str) -> None:
        say(f"left out: {path} ({what})")

    for file in find_files(options.paths, left_out=left_out, as_git=not options.no_gitignore):
        if any(matches(file.path, pattern) for pattern in config.options.exclude):
            left_out(file.path, "excluded file")
        else:
            print(clean(file.name, color=False))  # noqa: T201
    return OK


def _complain(fault: object, status: int) -> int:
    return complain("lint", fault, status)


@contextmanager
def _no_collector() -> Iterator[None]:
    """One run allocates much and drops little: the cyclic collector would only walk it all again and again."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
