"""`forewarn audit`: check the objects of a cluster with every rule."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from itertools import chain
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
    painter,
    print_notice,
    progress,
    table_width,
    wants_color,
)

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator, Sequence

    from forewarn.policies.cluster.answer_head import AnswerHead
    from forewarn.policies.cluster.cache import Cache, ClusterSnapshot
    from forewarn.policies.documents.findings import Change
    from forewarn.policies.findings import Finding
    from forewarn.policies.objects.reviewed_object import ReviewedObject
    from forewarn.policies.releases.release import Release
    from forewarn.policies.rules.support.restarts import Simulate, Simulations
    from forewarn.policies.sources.reports import Written

OK, FINDINGS, USAGE, FAILED = range(4)
FORMATS: Final = ("text", "json", "sarif", "openreports", "markdown", "html")
HEADS: Final = ("PODS", "ERRORS", "WARNINGS", "NOTES", "WORST FINDING")
"""Of the table of several clusters."""
MIN_BATCHES: Final = 6
"""Minimum number of batches of restarts for forked processes: a fork takes up to 0.3 s of CPU time."""
MAX_SIMULATED_PODS: Final = 5_000
"""Maximum number of Pods in all simulations of restarts: about half a minute of CPU time."""

_MODULES: Final = ("sources.cluster", "render.audit", "render.report", "evaluation.audit", "forecast.forecast")


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
    from forewarn.policies.cluster.answer_head import head_of_findings
    from forewarn.policies.evaluation.audit import audit, stored_objects, unsuppressed

    writer = _writer(options)
    cache = settle(loaded(options, templates=config.options.pod_template_paths), release)
    cluster, now = cache.snapshot(), datetime.now(UTC)
    if cluster.semantics.unknown:
        print_notice(f"forewarn audit: no prediction: {cluster.semantics.unknown}")
    subjects = tuple(stored_objects(cluster))
    disclose = Disclose.COUNTS if options.apply else Disclose.NAMES
    simulations = simulations_by(lambda found, count: progress(found, count, "restarts", sys.stderr))
    if options.all_restarts:
        simulations = simulations._replace(most=None)
    every = audit(cluster, subjects, config, now=now, disclose=disclose, simulations=simulations)
    findings, suppressed = unsuppressed(every, subjects, config, now)
    if options.write_baseline and not write_baseline(options.write_baseline, findings, "audit"):
        return Evaluated(FAILED)
    fixed = 0
    if baseline is not None:
        from forewarn.policies.evaluation.suppressions import less_baseline

        try:
            findings, known, fixed = less_baseline(findings, baseline)
        except ValueError as fault:
            raise InvalidInput(f"{options.baseline}: {fault}") from None
        suppressed += known
    changes = _changes(options, findings, previous)
    head = head_of_findings(cluster, findings)
    _print(options, head, findings, cache, subjects, suppressed, changes)
    if writer is not None:
        from forewarn.policies.render.openreports import written_lines

        for line in written_lines(writer(findings)):
            print_notice(line)
    if not options.quiet:
        _summarize(findings, cluster, len(subjects), suppressed, fixed, head if options.output == "text" else None)
    return _evaluated(options, findings, cluster)


def simulations_by(watched: Callable[[Iterator[Any], int], Iterator[Any]]) -> Simulations:
    """Return how to simulate restarts, on all cores if there are many.

    `watched`: yields the given results, and shows the progress by their number.
    """
    from forewarn.policies.process_pool import mapped
    from forewarn.policies.rules.support.restarts import Simulations

    def simulated(batches: Sequence[Sequence[int]], work: Simulate, here: Simulate) -> Iterator[Any]:
        found = mapped(batches, work, here) if len(batches) >= MIN_BATCHES else map(here, batches)
        return watched(chain.from_iterable(found), sum(map(len, batches)))

    return Simulations(simulated, MAX_SIMULATED_PODS)


def _writer(options: argparse.Namespace) -> Callable[[Sequence[Finding]], Written] | None:
    """The function that writes reports into the only source of the cluster, with --apply. Raises SourceError."""
    if not options.apply:
        return None
    from forewarn.policies.sources.cluster import report_writer_of

    if len(options.cluster) != 1:
        raise InvalidInput("--apply: takes one source of the cluster")
    return report_writer_of(options.cluster[0])


def _evaluated(options: argparse.Namespace, findings: list[Finding], cluster: ClusterSnapshot) -> Evaluated:
    from forewarn.policies.render.report import counts, one_line_finding, worst_first

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


def _print(
    options: argparse.Namespace,
    head: AnswerHead,
    findings: list[Finding],
    cache: Cache,
    subjects: Sequence[ReviewedObject],
    suppressed: int,
    changes: list[Change] | None,
) -> None:
    from forewarn.policies.render.head import below_title, on_page

    if options.output == "text":
        _print_text(options, findings, changes)
    elif options.output in ("json", "sarif"):
        sys.stdout.writelines(for_programs(options.output, head, findings, cache, len(subjects), suppressed, changes))
        sys.stdout.write("\n")
    elif options.output == "openreports":
        from forewarn.policies.render.openreports import as_list, cluster_report

        sys.stdout.write(as_list([cluster_report(findings)]))
    elif options.output == "html":
        from forewarn.policies.render.html.audit import report

        cluster = cache.snapshot()
        page = report(findings, len(subjects), len(cluster.pods), suppressed, cluster.semantics.unknown)
        sys.stdout.write(on_page(page, head).document())
    else:
        from forewarn.policies.render import markdown

        lines = below_title(markdown.render(findings, "forewarn audit"), head)
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


def for_programs(
    form: str,
    head: AnswerHead,
    findings: list[Finding],
    cache: Cache,
    objects: int,
    suppressed: int,
    changes: list[Change] | None,
) -> Iterator[str]:
    """Yield the report of `-o json` or `-o sarif`, in parts. `form`: the format. `objects`: number of checked
    objects.
    """
    from forewarn.policies.render.report import Report

    report = Report(findings, (), objects, cache.skipped, lambda _file, _line: None, suppressed, head)
    if form == "json":
        from forewarn.policies.render import json

        more = {} if changes is None else {"changes": json_of(changes)}
        return json.render(report, more=more)
    from importlib.metadata import version

    from forewarn.policies.render import sarif
    from forewarn.policies.render.audit import placed

    if len(findings) > sarif.MAX_RESULTS:
        print_notice(f"sarif: the worst {sarif.MAX_RESULTS} of {len(findings)} findings (the limit of GitHub)")
    return sarif.render(report._replace(findings=placed(findings)), version("forewarn"))


def _summarize(
    findings: list[Finding],
    cluster: ClusterSnapshot,
    objects: int,
    suppressed: int,
    fixed: int,
    head: AnswerHead | None,
) -> None:
    from forewarn.policies.render.audit import summary
    from forewarn.policies.render.head import line_of

    sys.stdout.flush()  # the report comes before its summary, also where both go into one pipe
    print_notice(summary(len(cluster.pods), objects, findings, suppressed))
    if head is not None:
        print_notice(line_of(head))
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
        help="simulate the restarts of all workloads (default: by priority, until the simulations have "
        f"{MAX_SIMULATED_PODS:,} Pods)",
    )
    add("-v", "--verbose", action="store_true", help="print every finding with its fix (at most 20 of a rule)")
    add("-q", "--quiet", action="store_true", help="do not print the summary")
    add_color_option(add)
    return parser
