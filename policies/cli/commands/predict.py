"""`forewarn predict`: the node and the victims of the new Pods of manifests."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from forewarn.policies.cli.commands import cluster_command, simulated
from forewarn.policies.cli.commands.parser import Parser, add_files_option, integer_between

if TYPE_CHECKING:
    import argparse

    from forewarn.policies.questions.application.predict import PredictResult

_MAX_REPLICAS = 2**31 - 1


def _check(options: argparse.Namespace, parser: argparse.ArgumentParser) -> None:
    if not options.filename:
        parser.error("no Pod given. Fix: pass -f FILE")


def _ask(options: argparse.Namespace, subject: simulated.Subject) -> PredictResult:
    from forewarn.policies.questions.application.cluster import require_nodes
    from forewarn.policies.questions.application.predict import PredictRequest, predict

    cluster, settings = subject.cluster.snapshot, subject.settings()
    if not settings.groups:
        require_nodes(cluster)
    rules = subject.cluster.config.options
    request = PredictRequest(options.filename, options.namespace, options.replicas, settings, rules)
    return replace(predict(cluster, request), every_pod=options.verbose > 1)


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
    cluster_command.add_fail_on(add)
    simulated.add_simulation_options(add, nodes_arrive=False)
    cluster_command.add_answer_options(add)
    return parser


QUESTION: Final = simulated.Question(
    *("predict", argument_parser, _ask, "predicting"),
    check=_check,
    failures=lambda options, result: cluster_command.failures_of(result.conditions, options.fail_on) or None,
    simulates=False,
)
main: Final = QUESTION.main
