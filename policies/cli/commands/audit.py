"""`forewarn audit`: check the objects of a cluster with every rule."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from forewarn.policies.base.disclosure import Disclose
from forewarn.policies.base.findings import Finding, Severity
from forewarn.policies.cli import terminal
from forewarn.policies.cli.commands import cluster_command, known_findings
from forewarn.policies.cli.commands.many_clusters import Evaluated, Evaluation, answered_each
from forewarn.policies.cli.commands.parser import Output, Parser, Printed, add_rule_options, document_in, print_formats
from forewarn.policies.cli.commands.release import release_of, settle
from forewarn.policies.cli.commands.simulated import add_simulation_options, autoscaling_of
from forewarn.policies.kubernetes.objects.fields import InvalidInput
from forewarn.policies.linting.config.model import ConfigError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from forewarn.policies.base.documents.info import ReportChange
    from forewarn.policies.inputs.sources.cluster import Written
    from forewarn.policies.questions.application.audit import Audit

OK, FINDINGS, USAGE, FAILED = range(4)
FORMATS: Final = ("text", "json", "sarif", "openreports", "markdown", "html")
_MODULES: Final = (
    "inputs.sources.cluster",
    "cli.render.answer",
    "cli.render.report",
    "questions.application.audit",
    "prediction.forecast.forecast",
)


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns 0 without findings, 1 with findings, 2 for wrong usage, 3 without a result."""
    parser = argument_parser()
    options, run = cluster_command.options_with_cluster(parser, arguments)
    release, autoscaling = release_of(options, parser), autoscaling_of(options, parser)
    try:
        config, baseline = known_findings.config_of(options), known_findings.read_baseline(options.baseline)
        previous = known_findings.read_report(options.since, of_several=bool(run.several))
    except (ConfigError, ValueError) as fault:
        return terminal.complain("audit", fault, USAGE)
    since, fails_at = options.since or "", known_findings.FAIL_ON[options.fail_on]
    form, quiet = run.output.form, options.quiet

    def evaluate(run: cluster_command.Run) -> Evaluated:
        from forewarn.policies.prediction.autoscaling.cluster_autoscaler.discovery import GroupCache
        from forewarn.policies.questions.application.audit import audited
        from forewarn.policies.questions.application.cluster import autoscalers_of

        writer = _writer(run) if options.apply else None
        cache = GroupCache(templates=config.options.pod_template_paths)
        cluster = settle(cluster_command.loaded(run, cache), release).snapshot()
        if cluster.semantics.unknown:
            terminal.print_notice(f"forewarn audit: no prediction: {cluster.semantics.unknown}", run.errors)
        settings = autoscaling(cache, run.cluster)
        with terminal.counting("restarts", run.errors) as show:
            result = audited(
                cluster,
                config,
                disclose=Disclose.COUNTS if options.apply else Disclose.NAMES,
                all_restarts=options.all_restarts,
                autoscaling=settings,
                autoscalers=autoscalers_of(cache, run.cluster),
                namespace=options.namespace,
                progress=show,
            )
        path = options.write_baseline
        if path and not known_findings.write_baseline(path, result.findings, "audit"):
            return Evaluated(FAILED)
        findings, known, notices = known_findings.less_known(result.findings, baseline, options.baseline)
        suppressed = result.suppressed + known
        skipped = cache.skipped if options.namespace is None else {}
        result = result._replace(skipped=skipped, findings=findings, suppressed=suppressed)
        result = result._replace(changes=_changes(previous, since, result, run))
        printed = print_formats(run.output, lambda output: _printed(output, result))
        fails = None if options.exit_zero or options.write_baseline else fails_at
        return _evaluated(result, fails, printed, _notices(form, result, notices, writer, quiet=quiet))

    return answered_each(Evaluation("audit", evaluate, modules=_MODULES), run)


def _notices(
    form: str,
    result: Audit,
    about_baseline: Sequence[str],
    writer: Callable[[Sequence[Finding]], Written] | None,
    *,
    quiet: bool,
) -> Iterator[str]:
    """Yield the lines below the report; write the reports of --apply. Raises SourceError."""
    if form == "sarif":
        from forewarn.policies.cli.render.sarif import notices

        yield from notices(result.report)
    if writer is not None:
        from forewarn.policies.cli.render.openreports import written_lines

        yield from written_lines(writer(result.findings))
    if not quiet:
        yield from () if form in ("text", "markdown", "html") else [result.document.headline]
        yield from about_baseline


def _writer(run: cluster_command.Run) -> Callable[[Sequence[Finding]], Written]:
    """The function that writes reports into the only source of the cluster. Raises SourceError."""
    from forewarn.policies.inputs.sources.cluster import report_writer_of

    if len(run.cluster) != 1:
        raise InvalidInput("--apply: takes one source of the cluster")
    return report_writer_of(run.cluster[0])


def _evaluated(result: Audit, fails_at: Severity | None, printed: Printed, notices: Iterable[str]) -> Evaluated:
    """Return a result with its exit status. `fails_at`: the least severity that causes status 1; None if none does."""
    from forewarn.policies.questions.application.findings import counts
    from forewarn.policies.questions.application.several_clusters import row_of

    numbers = [counts(result.findings)[severity] for severity in Severity]
    fails = fails_at is not None and any(finding.severity <= fails_at for finding in result.findings)
    document = result.document
    cells = row_of(document) | {"BECAUSE": document.clause}
    status = FINDINGS if fails else OK
    return Evaluated(status, numbers, cells, printed, notices, document.clause, result.head)


def _changes(
    previous: dict[str, Any] | None, since: str, result: Audit, run: cluster_command.Run
) -> list[ReportChange] | None:
    """Return the changes since the report of --since; None without --since. Raises InvalidInput."""
    if (earlier := known_findings.earlier_report(previous, since, run)) is None:
        return None
    from forewarn.policies.questions.application.audit import namespace_of
    from forewarn.policies.questions.application.report_changes import finding_changes, ref_in

    if result.namespace is not None and isinstance(entries := earlier.get("findings"), list):
        own = [each for each in entries if isinstance(each, dict) and namespace_of(ref_in(each)) == result.namespace]
        earlier = {**earlier, "findings": own}
    return known_findings.compared(since, lambda: finding_changes(result.findings, earlier))


def _printed(output: Output, result: Audit) -> Printed:
    if output.form in ("json", "sarif"):
        from forewarn.policies.cli.render.sarif import placed

        findings = placed(result.findings) if output.form == "sarif" else result.findings
        return known_findings.printed(output.form, result.report._replace(findings=findings))
    if output.form == "openreports":
        from forewarn.policies.cli.render.head import line_of
        from forewarn.policies.cli.render.openreports import as_list, cluster_report

        items = [cluster_report(result.findings, line_of(result.head))]
        return Printed([as_list(items)], lambda: {"items": items})
    return document_in(output, result)


def argument_parser() -> argparse.ArgumentParser:
    """The parser of the options."""
    parser = Parser(
        prog="forewarn audit",
        description="Check the PriorityClasses, Namespaces, ResourceQuotas, PodDisruptionBudgets, PodGroups and "
        "workloads of a cluster. Simulate restarts of Deployments, StatefulSets and DaemonSets, each one alone.",
        epilog="Exit status: 0: no finding at or above --fail-on. 1: such findings. 2: wrong usage or configuration. "
        "3: no answer.",
        examples=(
            "audit --cluster cluster.json.gz --since last-week.json -o html=audit.html",
            "audit --context 'prod-*' -o json=audit.json",
        ),
    )
    add = parser.add_argument
    add_rule_options(add)
    add_simulation_options(add, several=True, has_config=True)
    cluster_command.add_output_option(add, FORMATS, repeatable=True)
    known_findings.add_status_options(add)
    cluster_command.add_since_option(add)
    help_text = "also write the findings into the running cluster, as Reports and a ClusterReport of OpenReports"
    add("--apply", action="store_true", help=help_text)
    add("-n", "--namespace", help="check only this namespace and its objects")
    help_text = "simulate the restarts of all workloads (default: by priority, at most 5,000 Pods in all simulations)"
    add("--all-restarts", action="store_true", help=help_text)
    add("-v", "--verbose", action="count", default=0, help="list every finding")
    add("-q", "--quiet", action="store_true", help="do not print the summary on standard error")
    cluster_command.add_color_option(add)
    return parser
