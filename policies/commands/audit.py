"""`forewarn audit`: check the objects of a cluster with every rule."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

from forewarn.policies.commands.cluster_command import (
    add_cluster_option,
    add_color_option,
    add_output_option,
    add_since_option,
    loaded,
    options_with_cluster,
)
from forewarn.policies.commands.known_findings import (
    FAIL_ON,
    config_of,
    earlier_report,
    read_baseline,
    read_report,
    write_baseline,
)
from forewarn.policies.commands.many_clusters import Evaluated, Evaluation, answered_each
from forewarn.policies.commands.parser import Parser, add_rule_options
from forewarn.policies.commands.release import add_release_options, release_of, settle
from forewarn.policies.config.model import Config, ConfigError
from forewarn.policies.disclosure import Disclose
from forewarn.policies.documents import json_of
from forewarn.policies.findings import Severity, plural
from forewarn.policies.objects.fields import InvalidInput
from forewarn.policies.terminal import (
    as_markdown,
    clean,
    complain,
    counting,
    painter,
    print_notice,
    table_width,
    wants_color,
)

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Sequence

    from forewarn.policies.application.audit import Audit
    from forewarn.policies.cluster.cache import ClusterSnapshot
    from forewarn.policies.documents.findings import Change
    from forewarn.policies.findings import Finding
    from forewarn.policies.releases.release import Release
    from forewarn.policies.sources.reports import Written

OK, FINDINGS, USAGE, FAILED = range(4)
FORMATS: Final = ("text", "json", "sarif", "openreports", "markdown", "html")
HEADS: Final = ("PODS", "ERRORS", "WARNINGS", "NOTES", "WORST FINDING")
"""Of the table of several clusters."""
_MODULES: Final = ("sources.cluster", "render.audit", "render.report", "application.audit", "forecast.forecast")


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns 0 without findings, 1 with findings, 2 for wrong usage, 3 without a result."""
    parser = argument_parser()
    options = options_with_cluster(parser, arguments)
    release = release_of(options, parser)
    try:
        config, baseline = config_of(options), read_baseline(options.baseline)
        previous = read_report(options)
    except (ConfigError, ValueError) as fault:
        return complain("audit", fault, USAGE)
    evaluation = Evaluation(
        "audit", HEADS, lambda each: _audit(each, config, baseline, release, previous), modules=_MODULES
    )
    return answered_each(evaluation, options)


def _audit(
    options: argparse.Namespace,
    config: Config,
    baseline: dict[str, Any] | None,
    release: Release,
    previous: dict[str, Any] | None,
) -> Evaluated:
    from forewarn.policies.application.audit import audited

    writer = _writer(options)
    cache = settle(loaded(options, templates=config.options.pod_template_paths), release)
    cluster = cache.snapshot()
    if cluster.semantics.unknown:
        print_notice(f"forewarn audit: no prediction: {cluster.semantics.unknown}")
    disclose = Disclose.COUNTS if options.apply else Disclose.NAMES
    with counting("restarts", sys.stderr) as show:
        result = audited(cluster, config, disclose=disclose, all_restarts=options.all_restarts, progress=show)
    result, fixed = result._replace(skipped=cache.skipped), 0
    if options.write_baseline and not write_baseline(options.write_baseline, result.findings, "audit"):
        return Evaluated(FAILED)
    if baseline is not None:
        from forewarn.policies.evaluation.suppressions import less_baseline

        try:
            findings, known, fixed = less_baseline(result.findings, baseline)
        except ValueError as fault:
            raise InvalidInput(f"{options.baseline}: {fault}") from None
        result = result._replace(findings=findings, suppressed=result.suppressed + known)
    _print(options, result, _changes(options, result.findings, previous))
    if writer is not None:
        from forewarn.policies.render.openreports import written_lines

        for line in written_lines(writer(result.findings)):
            print_notice(line)
    if not options.quiet:
        _summarize(result, fixed, head=options.output == "text")
    return _evaluated(options, result.findings, cluster)


def _writer(options: argparse.Namespace) -> Callable[[Sequence[Finding]], Written] | None:
    """The function that writes reports into the only source of the cluster, with --apply. Raises SourceError."""
    if not options.apply:
        return None
    from forewarn.policies.sources.cluster import report_writer_of

    if len(options.cluster) != 1:
        raise InvalidInput("--apply: takes one source of the cluster")
    return report_writer_of(options.cluster[0])


def _evaluated(options: argparse.Namespace, findings: list[Finding], cluster: ClusterSnapshot) -> Evaluated:
    from forewarn.policies.application.findings import counts
    from forewarn.policies.render.report import one_line_finding, worst_first

    threshold, found = FAIL_ON[options.fail_on], counts(findings)
    fails = threshold is not None and any(finding.severity <= threshold for finding in findings)
    passes = options.exit_zero or options.write_baseline or not fails
    numbers = [found[severity] for severity in Severity]
    worst = worst_first(findings)[:1]
    cells: list[str | int] = [
        len(cluster.pods),
        *numbers,
        f"{one_line_finding(worst[0])} [{worst[0].rule}]" if worst else "-",
    ]
    return Evaluated(OK if passes else FINDINGS, numbers, cells)


def _changes(
    options: argparse.Namespace, findings: list[Finding], previous: dict[str, Any] | None
) -> list[Change] | None:
    """Return the changes since the report of --since; None without --since. Raises InvalidInput."""
    previous = earlier_report(previous, options)
    if previous is None:
        return None
    from forewarn.policies.render.changes import of_findings

    try:
        return of_findings(findings, previous)
    except ValueError as fault:
        raise InvalidInput(f"{options.since}: {fault}") from None


def _print(options: argparse.Namespace, result: Audit, changes: list[Change] | None) -> None:
    from forewarn.policies.render.head import below_title, on_page

    if options.output == "text":
        _print_text(options, result.findings, changes)
    elif options.output == "json":
        from forewarn.policies.render.report import as_json

        more = {} if changes is None else {"changes": json_of(changes)}
        sys.stdout.writelines((*as_json(result.report, more), "\n"))
    elif options.output == "sarif":
        from forewarn.policies.commands.lint import as_sarif
        from forewarn.policies.render.audit import placed

        sys.stdout.writelines((*as_sarif(result.report._replace(findings=placed(result.findings))), "\n"))
    elif options.output == "openreports":
        from forewarn.policies.render.openreports import as_list, cluster_report

        sys.stdout.write(as_list([cluster_report(result.findings)]))
    elif options.output == "html":
        from forewarn.policies.render.html.audit import report

        cluster = result.cluster
        page = report(result.findings, result.objects, len(cluster.pods), result.suppressed, cluster.semantics.unknown)
        sys.stdout.write(on_page(page, result.head).document())
    else:
        from forewarn.policies.render import markdown

        lines = below_title(markdown.render(result.findings, "forewarn audit"), result.head)
        if changes is not None:
            lines += markdown.changes(changes, options.since)
        sys.stdout.write(as_markdown(lines) + "\n")


def _print_text(options: argparse.Namespace, findings: list[Finding], changes: list[Change] | None) -> None:
    from forewarn.policies.render.audit import render, render_summary

    color = wants_color(options.color, sys.stdout)
    width = options.width if options.several else table_width(sys.stdout)
    paint = painter(color)
    lines = render(findings, paint) if options.verbose else render_summary(findings, paint, width)
    sys.stdout.writelines(clean(line, color) + "\n" for line in lines)
    if changes is not None:
        from forewarn.policies.render.changes import lines as lines_of

        sys.stdout.writelines(clean(line, color) + "\n" for line in lines_of(changes, options.since))


def _summarize(result: Audit, fixed: int, *, head: bool) -> None:
    from forewarn.policies.render.audit import summary
    from forewarn.policies.render.head import line_of

    sys.stdout.flush()  # the report comes before its summary, also where both go into one pipe
    print_notice(summary(len(result.cluster.pods), result.objects, result.findings, result.suppressed))
    if head:
        print_notice(line_of(result.head))
    if fixed:
        print_notice(f"{plural(fixed, 'finding')} of the baseline no longer found; update it with --write-baseline")


def argument_parser() -> argparse.ArgumentParser:
    """The parser of the options."""
    parser = Parser(
        prog="forewarn audit",
        description="Check every object of a cluster, the cluster as a whole, and the effect that a restart of each "
        "workload would have now.",
        epilog="Exit status: 0: no finding at or above --fail-on. 1: findings. 2: wrong usage or configuration. 3: no "
        "answer.",
        examples=(
            "audit --cluster cluster.json.gz --since last-week.json -o html=audit.html",
            "audit --context 'prod-*' -o json=audit.json",
        ),
    )
    add = parser.add_argument
    add_cluster_option(add, several=True)
    add_release_options(add)
    add_rule_options(add)
    add_output_option(add, FORMATS)
    add(
        "--fail-on", choices=FAIL_ON, default="error", help="lowest severity that causes exit status 1 (default: error)"
    )
    add("--exit-zero", action="store_true", help="exit with 0 even if there are findings")
    add_since_option(add)
    add(
        "--apply",
        action="store_true",
        help="also write the findings into the running cluster, as Reports and a ClusterReport of OpenReports",
    )
    add(
        "--all-restarts",
        action="store_true",
        help="simulate the restarts of all workloads (default: by priority, until the simulations have 5,000 Pods)",
    )
    add("-v", "--verbose", action="store_true", help="print every finding with its fix (at most 20 of a rule)")
    add("-q", "--quiet", action="store_true", help="do not print the summary")
    add_color_option(add)
    return parser
