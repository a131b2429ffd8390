"""`forewarn diff`: what a change of manifests does to priorities, and to every cluster."""

from __future__ import annotations

import os
from contextlib import chdir
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Final

from forewarn.policies.base.disclosure import Disclose
from forewarn.policies.base.documents.answer import CONDITIONS, AnswerStatus
from forewarn.policies.base.findings import MAX_PATH_LENGTH, cut, duration, listed
from forewarn.policies.cli.commands import cluster_command
from forewarn.policies.cli.commands.comment import NoComment, post
from forewarn.policies.cli.commands.many_clusters import clusters_of, name_of
from forewarn.policies.cli.commands.parser import (
    Output,
    Parser,
    Printed,
    add_config_option,
    any_duration,
    cleaned,
    print_formats,
)
from forewarn.policies.cli.commands.release import add_release_options, release_of, settle
from forewarn.policies.cli.commands.simulated import add_until_option
from forewarn.policies.cli.terminal import as_json, as_markdown, complain, print_notice
from forewarn.policies.inputs.sources.cluster import load_cluster
from forewarn.policies.inputs.sources.files import STDIN, MissingFile, SourceError, no_such_file, status_of
from forewarn.policies.kubernetes.cluster.cache import Origin, age_of
from forewarn.policies.linting.config.model import Config, find_config
from forewarn.policies.linting.lint.base import classes_of
from forewarn.policies.linting.lint.input import LintRequest
from forewarn.policies.prediction.simulation.scenario import DumpCache
from forewarn.policies.questions.application.cluster import Cluster
from forewarn.policies.questions.application.diff import Diff, DiffRequest, conditions, diff
from forewarn.policies.questions.application.diff_answer import answer_of
from forewarn.policies.questions.application.findings import configured
from forewarn.policies.questions.versions.rendering import KUSTOMIZE_FLAGS, RenderRequest
from forewarn.policies.questions.versions.versions import check_paths, versions

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from forewarn.policies.cli.commands.cluster_command import Run
    from forewarn.policies.kubernetes.releases.release import Release

OK, FOUND, USAGE, FAILED = range(4)
FORMATS: Final = ("text", "json", "markdown", "sarif")
_CONDITIONS: Final = (*CONDITIONS, "change")


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns 0, 1 if an object is rejected or a condition of --fail-on is met, 2 for wrong usage, or
    3 without a result.
    """
    parser = _parser()
    options = cluster_command.parsed(parser, arguments)
    output = options.output._replace(color=options.color, level=options.verbose)
    run = cluster_command.choose_cluster(options, parser, output, required=False)
    has_clusters = bool(run.cluster or run.several)
    if "json" in output.forms and options.disclose != Disclose.NAMES:
        parser.error("--disclose goes with -o text and markdown, because -o json has all details")
    if "sarif" in output.forms and (has_clusters or options.comment or options.fail_on or output.others):
        parser.error(
            "-o sarif has the new findings of forewarn lint; it takes no clusters, --comment, --fail-on and other -o"
        )
    release = release_of(options, parser) if has_clusters else None
    disclose = Disclose(options.disclose)

    def answer() -> int:
        given = options.base, options.head, options.filename, options.namespace, options.prune
        rendering = (
            RenderRequest(options.kustomize_flag, options.render_network, checkout=os.getcwd())
            if options.render
            else None
        )
        config = configured(options.config or find_config(os.curdir))
        request = DiffRequest(*given, rendering, config, options.owner_label, options.until)
        if output.form == "sarif":
            return _new_findings(request)
        clusters = _clusters(run, release, request.config, options.max_age) if release else {}
        return _print(diff(request, clusters), output, disclose, options.fail_on, comments=options.comment)

    return cluster_command.answered("diff", output, answer)


def _print(result: Diff, output: Output, disclose: Disclose, fail_on: Sequence[str], *, comments: bool) -> int:
    """Print the result, and post it if `comments`; return the exit status."""
    from forewarn.policies.cli.render import clusters

    answer = answer_of(result, disclose)
    document, several = answer.document, answer.clusters

    def printed(target: Output) -> Printed:
        if target.form == "json":
            return Printed([as_json(result.to_dict())])
        if target.form == "markdown":
            return Printed([as_markdown(clusters.comment(document, answer.head, several))])
        lines = partial(clusters.text, document, answer.head, several, level=target.level)
        return Printed(cleaned(target, lambda paint: lines(paint=paint)))

    print_formats(output, printed).print()
    if comments:
        try:
            comment = as_markdown(clusters.comment(document, answer.head, several))
            address = post(comment, os.environ, is_needed=document.status is not AnswerStatus.OK)
        except NoComment as fault:
            return complain("diff", f"--comment: {fault}", FAILED)
        print_notice(f"comment: {address or 'none, because nothing needs attention'}")
    if any(cluster.reason or (cluster.answer and cluster.answer.answer.incomplete) for cluster in result.clusters):
        return FAILED
    status = cluster_command.status_of_conditions(conditions(result), fail_on)
    is_gate = status == OK and any(condition != "change" for condition in fail_on)
    if is_gate and result.not_simulated:
        return complain("diff", f"{listed(sorted(result.not_simulated), 3)} not simulated", FAILED)
    return FOUND if document.status is AnswerStatus.REJECTED else status


def _new_findings(request: DiffRequest) -> int:
    """Print the findings on the second version that the first one does not have. Raises SourceError."""
    from forewarn.policies.cli.commands.lint import folded, write_report
    from forewarn.policies.linting.evaluation.suppressions import baseline_of, less_baseline
    from forewarn.policies.questions.application.lint import checked

    paths = [os.fspath(path) for path in request.paths] or [os.curdir]
    lint = LintRequest(paths, request.config, request.namespace)
    with versions(os.fspath(request.base), os.fspath(request.head)) as (base, head, _):
        check_paths(lint.paths, base, head)
        with chdir(base.root):
            earlier = checked(lint._replace(paths=[path for path in lint.paths if os.path.exists(path)]))
        with chdir(head.root):
            later = checked(lint._replace(before=classes_of(earlier.given)))
            new, *_ = less_baseline(later.findings, baseline_of(earlier.findings))
            write_report(Output("sarif"), later._replace(findings=folded(new)))
    return max((complain("diff", fault, status_of(fault)) for fault in (*earlier.faults, *later.faults)), default=OK)


def _clusters(run: Run, release: Release, config: Config, max_age: float | None) -> dict[str, Callable[[], Cluster]]:
    def loaded(*sources: str) -> Cluster:
        cache = DumpCache()
        cache.recreated = frozenset(config.options.recreates_pods)
        load_cluster(*sources, into=cache)
        settle(cache, release)
        if max_age is not None:
            _check_age(cache.snapshot().origin, max_age)
        return Cluster(cache, config, sources)

    if run.several:
        return {cluster.name: partial(loaded, cluster.source) for cluster in clusters_of(run.several)}
    for source in run.cluster:
        if source.partition(":")[0] not in (cluster_command.LIVE, STDIN) and not os.path.exists(source):
            raise MissingFile(f"--cluster {cut(source, MAX_PATH_LENGTH)}", no_such_file(source))
    kind, _, context = run.cluster[0].partition(":")
    name = context or kind if kind == cluster_command.LIVE else name_of(run.cluster[0])
    return {name: partial(loaded, *run.cluster)}


def _check_age(origin: Origin, max_age: float) -> None:
    """Raise SourceError for a state that is older, or whose time is unknown."""
    age = age_of(origin, datetime.now(UTC))
    if age is None or age > max_age:
        is_old = "of unknown age" if age is None else f"{duration(age)} old"
        raise SourceError("", f"the snapshot is {is_old}; --max-age is {duration(max_age)}", fix="write a new snapshot")


def _parser() -> Parser:
    parser = Parser(
        prog="forewarn diff",
        description="Compare two versions of manifests. Show which priorities, requests, replicas, quotas and PDBs "
        "change, and simulate the change on the clusters that it concerns. -o sarif writes the new findings of "
        "forewarn lint.",
        epilog="Exit status: 0: compared. 1: an object is rejected, or a condition of --fail-on is met. 2: wrong "
        "usage. 3: no answer.",
        examples=(
            "diff",
            "diff main --clusters 'snapshots/*.json.gz' -o markdown",
            "diff v1.2 v1.3 -f deploy/ --context prod",
        ),
    )
    add = parser.add_argument
    add("base", nargs="?", default="", help="git revision or directory (default: merge base with the main branch)")
    add("head", nargs="?", default="", help="git revision or directory (default: the working tree)")
    help_text = "file or directory of both versions, repeatable (default: all)"
    add("-f", "--filename", action="append", default=[], metavar="PATH", help=help_text)
    add_config_option(add)
    add("--no-render", dest="render", action="store_false", help="compare charts and kustomizations as they are")
    help_text = "flag for `kustomize build`, such as --enable-helm (repeatable)"
    add("--kustomize-flag", action="append", default=[], choices=KUSTOMIZE_FLAGS, metavar="FLAG", help=help_text)
    add("--render-network", action="store_true", help="let kustomize download remote bases")
    help_text = "also simulate the deletion of removed objects, as by Argo CD or Flux with pruning"
    add("--prune", action="store_true", help=help_text)
    help_text = (
        "which names from the clusters to show: all, only those of workloads in the namespaces of the change, or none "
        "(default: names)"
    )
    add("--disclose", choices=[*Disclose], default=Disclose.NAMES, help=help_text)
    help_text = "label of Namespaces that names their owner, such as team (default: CODEOWNERS)"
    add("--owner-label", default="", metavar="LABEL", help=help_text)
    help_text = "give no answer about a cluster whose snapshot is older than this (such as 24h) or undated"
    add("--max-age", type=any_duration, metavar="DURATION", help=help_text)
    help_text = "post the Markdown as a comment on the pull request (GitHub) or merge request (GitLab) of this CI run"
    add("--comment", action="store_true", help=help_text)
    cluster_command.add_cluster_option(add, required=False, several=True, in_turn=True)
    add_release_options(add)
    add_until_option(add)
    cluster_command.add_namespace_option(add)
    help_text = "exit with 1 if this counter is not 0, or with `change` if an object changes (repeatable)"
    add("--fail-on", action="append", choices=_CONDITIONS, default=[], metavar="COUNTER", help=help_text)
    cluster_command.add_answer_options(add, FORMATS)
    return parser
