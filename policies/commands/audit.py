"""`forewarn audit`: every rule over what is in a cluster."""

from __future__ import annotations

import os
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from policies.commands.cluster_command import (
    add_cluster_option,
    add_color_option,
    add_output_option,
    loaded,
    options_with_cluster,
    output_of,
)
from policies.commands.known_findings import named_rules, read_baseline, write_baseline
from policies.commands.lint_options import FAIL_ON
from policies.commands.parser import Parser, add_rule_options
from policies.commands.release import add_release_options, release_of, settle
from policies.config.model import Config, ConfigError
from policies.config.search import find_config
from policies.findings import plural
from policies.foreign_rules import with_rules
from policies.sources import SourceError, status_of
from policies.terminal import as_markdown, clean, complain, painter, say, wants_color

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from policies.cluster import Cache, ClusterSnapshot
    from policies.findings import Finding
    from policies.objects.reviewed_object import ReviewedObject
    from policies.releases import Release

OK, FINDINGS, USAGE, FAILED = range(4)
FORMATS: Final = ("text", "json", "markdown", "html")


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns the exit status: 0 clean, 1 findings, 2 wrong usage, 3 no answer."""
    parser = _parser()
    options = options_with_cluster(parser, arguments)
    release = release_of(options, parser)
    try:
        config, baseline = _config(options), read_baseline(options.baseline)
    except (ConfigError, ValueError) as fault:
        return complain("audit", fault, USAGE)
    try:
        with output_of(options):
            return _audit(options, config, baseline, release)
    except SourceError as fault:
        return complain("audit", fault, status_of(fault))


def _config(options: argparse.Namespace) -> Config:
    """The configuration with what the command line adds. Raises ConfigError and ValueError."""
    found, config = options.config or find_config(os.curdir), Config()
    if found:
        from policies.config.load import load_config

        config = load_config(found)
    if options.admission_config:
        from policies.config.admission_configuration import load_limited_resources

        config = config.limiting(load_limited_resources(options.admission_config))
    selected, ignored = (named_rules(given, config.rules) for given in (options.select, options.ignore))
    return with_rules(config)._replace(selected=selected, unheard=ignored)


def _audit(options: argparse.Namespace, config: Config, baseline: dict[str, Any] | None, release: Release) -> int:
    from policies.audit import audit, stored_objects, unsuppressed

    cache = settle(loaded(options, templates=config.options.pod_template_paths), release)
    cluster, now = cache.snapshot(), datetime.now(UTC)
    if cluster.semantics.unknown:
        say(f"forewarn audit: no prediction: {cluster.semantics.unknown}")
    subjects = tuple(stored_objects(cluster))
    findings, suppressed = unsuppressed(audit(cluster, subjects, config, now=now), subjects, config, now)
    if options.write_baseline and not write_baseline(options.write_baseline, findings, "audit"):
        return FAILED
    gone = 0
    if baseline is not None:
        from policies.suppressions import less_baseline

        try:
            findings, known, gone = less_baseline(findings, baseline)
        except ValueError as fault:
            return complain("audit", f"{options.baseline}: {fault}", USAGE)
        suppressed += known
    _print(options, findings, cache, subjects, suppressed)
    if not options.quiet:
        _summarize(findings, cluster, len(subjects), suppressed, gone)
    threshold = FAIL_ON[options.fail_on]
    if options.exit_zero or options.write_baseline or threshold is None:
        return OK
    return FINDINGS if any(finding.severity <= threshold for finding in findings) else OK


def _print(
    options: argparse.Namespace,
    findings: list[Finding],
    cache: Cache,
    subjects: Sequence[ReviewedObject],
    suppressed: int,
) -> None:
    if options.output == "text":
        from policies.render.audit import render

        color = wants_color(options.color, sys.stdout)
        sys.stdout.writelines(clean(line, color) + "\n" for line in render(findings, painter(color)))
    elif options.output == "json":
        from policies.render import json
        from policies.render.report import Report

        report = Report(findings, (), len(subjects), cache.skipped, lambda _file, _line: None, suppressed)
        sys.stdout.writelines(json.render(report))
        sys.stdout.write("\n")
    elif options.output == "html":
        from policies.render.html.audit import page

        cluster = cache.snapshot()
        sys.stdout.write(page(findings, len(subjects), len(cluster.pods), suppressed, cluster.semantics.unknown))
    else:
        from policies.render import markdown

        sys.stdout.write(as_markdown(markdown.render(findings, "forewarn audit")) + "\n")


def _summarize(findings: list[Finding], cluster: ClusterSnapshot, objects: int, suppressed: int, gone: int) -> None:
    from policies.render.audit import summary

    sys.stdout.flush()  # the report comes before its summary, also where both go into one pipe
    say(summary(len(cluster.pods), objects, findings, suppressed))
    if gone:
        say(f"{plural(gone, 'finding')} of the baseline no longer found; update it with --write-baseline")


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="forewarn audit",
        description="Check every object of a cluster, the cluster as a whole, and the effect that a restart of each "
        "workload would have now.",
        epilog="Exit status: 0: no finding at or above --fail-on. 1: findings. 2: wrong usage or configuration. 3: no "
        "answer.",
        examples=("audit", "audit --cluster cluster.json.gz -o html=audit.html"),
    )
    add = parser.add_argument
    add_cluster_option(add)
    add_release_options(add)
    add_rule_options(add)
    add_output_option(add, FORMATS)
    add(
        "--fail-on", choices=FAIL_ON, default="error", help="lowest severity that causes exit status 1 (default: error)"
    )
    add("--exit-zero", action="store_true", help="exit with 0 even if there are findings")
    add("-q", "--quiet", action="store_true", help="do not print the summary")
    add_color_option(add)
    return parser
