"""`forewarn predict`: the node and the victims of the new Pods of manifests."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from forewarn.policies.cli.commands import cluster_command, simulated
from forewarn.policies.cli.commands.parser import Parser, add_files_option, document_in, integer_between
from forewarn.policies.cli.commands.release import release_of, settle
from forewarn.policies.cli.commands.sweep import add_fail_on
from forewarn.policies.cli.terminal import counting, print_faults
from forewarn.policies.inputs.sources.files import status_of
from forewarn.policies.questions.application.places import Places

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from forewarn.policies.questions.application.predict import PredictResult

OK, _, USAGE, FAILED = range(4)
_MAX_REPLICAS = 2**31 - 1


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns 0, 1 if a condition of --fail-on is met, 2 for wrong usage, or 3 without a result."""
    parser = argument_parser()
    options, run = cluster_command.options_with_cluster(parser, arguments)
    if not options.filename:
        parser.error("no Pod given. Fix: pass -f FILE")
    release, settings_of = release_of(options, parser), simulated.autoscaling_of(options, parser)
    places = Places()

    def answer() -> int:
        from forewarn.policies.prediction.autoscaling.cluster_autoscaler.discovery import GroupCache
        from forewarn.policies.questions.application.cluster import require_nodes
        from forewarn.policies.questions.application.predict import PredictRequest, predict

        cache = GroupCache()
        cluster = settle(cluster_command.loaded(run, cache), release).snapshot()
        settings = settings_of(cache, run.cluster)
        if not settings.groups:
            require_nodes(cluster)
        rules = simulated.configuration(options.config).options
        request = PredictRequest(options.filename, options.namespace, options.replicas, settings, rules)
        with counting("predicting", run.errors):
            result = replace(predict(cluster, request), every_pod=run.output.level > 1)
        print_faults("predict", [*map(result.places.located, result.faults)], run.errors)
        with counting("predicting", run.errors):  # autoscalers and reasons are evaluated on demand
            printed = document_in(run.output, result)
        failures = [] if result.faults else cluster_command.failures_of(result.conditions, options.fail_on)
        cluster_command.print_answer(printed, failures)
        return len(failures) or _status(result)

    return cluster_command.answered("predict", run.output, answer, places)


def _status(result: PredictResult) -> int:
    if result.faults:
        return max(map(status_of, result.faults))
    return FAILED if {"not-predicted", "unknown"} & result.outcomes.keys() else OK


def argument_parser() -> argparse.ArgumentParser:
    """Return the parser of the options of `forewarn predict`."""
    parser = Parser(
        prog="forewarn predict",
        description="Predict the node and the victims that kube-scheduler would select for a Pod, or for each new "
        "replica of a workload.",
        epilog="Exit status: 0: predicted. 1: a condition of --fail-on is met. 2: wrong usage. 3: no answer.",
        examples=("predict -f deployment.yaml", "predict -f web.yaml --fail-on victims --fail-on pending"),
    )
    add = parser.add_argument
    add_files_option(add, "manifest of Pods or workloads (file, directory, or -; repeatable)")
    help_text = "use N instead of the number of Pods in the manifest"
    add("--replicas", type=integer_between(0, _MAX_REPLICAS), metavar="N", help=help_text)
    cluster_command.add_namespace_option(add)
    add_fail_on(add)
    simulated.add_simulation_options(add, nodes_arrive=False)
    cluster_command.add_answer_options(add)
    return parser
