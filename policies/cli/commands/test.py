"""`forewarn test`: evaluate expectations about a cluster."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

from forewarn.policies.cli.commands import cluster_command
from forewarn.policies.cli.commands.parser import (
    Output,
    Parser,
    Printed,
    add_config_option,
    document_in,
    integer_between,
    print_formats,
)
from forewarn.policies.cli.commands.release import add_release_options, release_of
from forewarn.policies.cli.commands.shards import add_shard_option, digest_of, marked, run_options, shard_given
from forewarn.policies.cli.commands.simulated import add_until_option, loaded_for, reject_node_templates
from forewarn.policies.cli.terminal import as_json, complain, counting
from forewarn.policies.inputs.sources.files import SourceError, find_files, read_file
from forewarn.policies.questions.whatif import DEFAULT_UNTIL

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from forewarn.policies.questions.application.expectations import Expectations, ExpectationsRequest

OK, BROKEN, USAGE, FAILED = range(4)
FORMATS: Final = ("text", "junit", "json", "markdown", "html")
MAX_CASES: Final = 100


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns 0 if all are met, 1 for a violation, 2 for wrong usage, 3 without a result."""
    parser = _parser()
    options, run = cluster_command.options_with_cluster(parser, arguments)
    release, shard = release_of(options, parser), shard_given(options.shard, run.output, parser)
    options.until = options.until or DEFAULT_UNTIL

    from forewarn.policies.questions.application.expectations import ExpectationsRequest, expectations_in

    try:
        given = expectations_in(options.paths)
    except SourceError as fault:
        return complain("test", fault, USAGE)
    request = ExpectationsRequest(
        (), options.namespace, options.until, options.most, allow_empty=options.allow_empty, given=given
    )

    def answer() -> int:
        from forewarn.policies.prediction.simulation.scenario import DigestedCache
        from forewarn.policies.questions.application.expectations import test

        cluster = loaded_for(run, options.config, release, digested=bool(shard))
        cache = cluster.cache
        with counting("expectations", sys.stderr) as show:
            result = test(cluster, request, part=shard.part_of if shard else tuple, progress=show)
        if isinstance(cache, DigestedCache) and shard is not None:
            identity = run_options("test", release, options.until, cache, options.config) | _identity(request)
            sys.stdout.write(as_json(marked(result.to_dict(), shard, len(given), cache.digest, identity)))
            return OK  # the merge of all parts decides the status
        write_results(result, run.output)
        return status_of(result)

    return cluster_command.answered("test", run.output, answer)


def _identity(request: ExpectationsRequest) -> dict[str, Any]:
    """Return the data that identify a run of several parts, except the cluster. Raises SourceError."""
    parts = [repr(one.expectation._replace(line=0)).encode() for one in request.given]
    for one in request.given:
        when, fit = one.expectation.when, one.expectation.fit
        names = [*([when.name] if when.what == "file" else []), *([fit.file] if fit else [])]
        parts += [read_file(file) for name in names for file in find_files([one.path(name)])]
    more = {"expectations": digest_of(*parts), "most": request.most, "namespace": request.namespace}
    return {**more, "allowEmpty": request.allow_empty}


def status_of(result: Expectations) -> int:
    """The exit status: FAILED if an expectation was not evaluated, BROKEN if one is violated, otherwise OK."""
    if any(tested.not_evaluated for tested in result.expectations):
        return FAILED
    return BROKEN if any(tested.failures for tested in result.expectations) else OK


def write_results(result: Expectations, output: Output) -> None:
    """Print the results."""
    from forewarn.policies.cli.render.junit import expectation_suite

    def printed(target: Output) -> Printed:
        return (
            Printed(expectation_suite(result.expectations)) if target.form == "junit" else document_in(target, result)
        )

    print_formats(output, printed).print()


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="forewarn test",
        description="Check expectations about a cluster: which Pods run after an event, are preempted, or fit.",
        epilog="Exit status: 0: all expectations are met. 1: an expectation is broken. 2: wrong usage. 3: no answer.",
        examples=("test expectations.yaml", "test expectations/ --cluster cluster.json.gz -o junit=report.xml"),
    )
    add = parser.add_argument
    add("paths", nargs="+", metavar="EXPECTATIONS", help="files or directories")
    cluster_command.add_cluster_option(add)
    add_config_option(add)
    add_release_options(add)
    reject_node_templates(add, "expectations are about the nodes that exist; use `forewarn whatif`")
    add_until_option(add)
    help_text = f"maximum number of cases of one expectation (default: {MAX_CASES})"
    add("--most", type=integer_between(1, 100_000), default=MAX_CASES, metavar="N", help=help_text)
    add("--allow-empty", action="store_true", help="accept expectations that select no Pod (default: exit with 3)")
    cluster_command.add_namespace_option(add)
    add_shard_option(add)
    cluster_command.add_answer_options(add, FORMATS)
    return parser
