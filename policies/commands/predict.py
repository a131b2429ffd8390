"""`forewarn predict`: the node and the victims of Pods and workloads."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from forewarn.policies.application.places import Places
from forewarn.policies.application.predict_request import OPTIONS, PredictRequest
from forewarn.policies.commands import autoscaling, cluster_command
from forewarn.policies.commands.parser import Output, Parser, Printed, add_files_option, answer_in, integer_between
from forewarn.policies.commands.release import add_release_options, release_of, settle
from forewarn.policies.findings import fitting
from forewarn.policies.objects.fields import InvalidInput, InvalidObject
from forewarn.policies.sources.files import status_of
from forewarn.policies.terminal import counting, print_faults

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Sequence

    from forewarn.policies.application.predict import PredictResult
    from forewarn.policies.render import Painter
    from forewarn.policies.render.html.elements import Page

OK, _, USAGE, FAILED = range(4)
CONDITIONS: Final = {
    "preemption": {"preempts", "in-vain"},
    "pending": {"pending", "in-vain"},
    "quota": {"refused"},
    "not-predicted": {"not-predicted"},
}
"""Condition of --fail-on -> the outcomes that meet it; another condition is a blocked rollout."""


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns 0, 1 if a condition of --fail-on is met, 2 for wrong usage, or 3 without a result."""
    parser = argument_parser()
    options, run = cluster_command.options_with_cluster(parser, arguments)
    _check(options, run, parser)
    release, settings_of = release_of(options, parser), autoscaling.autoscaling_of(options, parser)
    places = Places()

    def answer() -> int:
        from forewarn.policies.application.cluster import pod_key, require_nodes
        from forewarn.policies.application.predict import predict
        from forewarn.policies.autoscaling.cluster_autoscaler.discovery import GroupCache
        from forewarn.policies.simulation.dump import DumpCache

        cache = DumpCache() if options.cascade else GroupCache()
        cluster = settle(cluster_command.loaded(run, cache), release).snapshot()
        settings = settings_of(cache, run.cluster)
        if not settings.groups:
            require_nodes(cluster)
        request = PredictRequest(
            options.filename,
            pod_key(options.pod, options.namespace) if options.pod else None,
            options.namespace,
            autoscaling=settings,
            options=autoscaling.configuration(options.config).options,
            **{name: getattr(options, name) for name in OPTIONS},
        )
        try:
            with counting("predicting", run.errors):
                result = predict(cluster, request)
        except InvalidInput as problem:
            raise InvalidInput(f"--pod {problem}") from None
        print_faults("predict", [*map(result.places.located, result.faults)], run.errors)
        more, status = list[str](), _status(result)
        if isinstance(cache, DumpCache):
            from forewarn.policies.commands.simulated import aftermath

            more = ["cascade not simulated", "aftermath: not simulated, because an object is invalid"]
            try:
                if not result.faults:
                    more, is_incomplete = aftermath(cache, options.filename, options.namespace, places)
                    status = FAILED if is_incomplete else status
            except InvalidObject as fault:
                more, status = ["cascade not simulated", f"aftermath: {fault}"], FAILED
        with counting("predicting", run.errors):  # autoscalers and reasons are evaluated on demand
            printed = _printed(result, run.output, more)
        preempts = any(each.rollout and each.rollout.preempted for each in result.placements)
        happens = result.outcomes.keys() | ({"preempts"} if preempts else set())
        met = [name for name, outcomes in CONDITIONS.items() if happens & outcomes]
        met += ["blocked"] if any(each.is_blocked_rollout for each in result.placements) else []
        failures = [] if result.faults else cluster_command.failures_of(met, options.fail_on)
        cluster_command.print_answer(printed, failures)
        return len(failures) or status

    return cluster_command.answered("predict", run.output, answer, places)


def _check(options: argparse.Namespace, run: cluster_command.Run, parser: argparse.ArgumentParser) -> None:
    """Exit for options that do not go together."""
    if bool(options.filename) == bool(options.pod):
        parser.error(f"{'two Pods' if options.pod else 'no Pod'} given. Fix: pass -f FILE or --pod NAMESPACE/POD")
    if options.replicas is not None and not options.filename:
        parser.error("--replicas goes with -f")
    if options.cascade and (not options.filename or options.replicas is not None or run.output.form != "text"):
        parser.error("--cascade goes with -f and -o text, without --replicas")


def _printed(result: PredictResult, output: Output, more: Sequence[str]) -> Printed:
    """The answer; `more`: a phrase for its first line, and further lines."""

    def page(result: PredictResult) -> Page:
        from forewarn.policies.render.html.pages import predict_page

        return predict_page(result)

    from forewarn.policies.render.prediction import lines

    def text(result: PredictResult, paint: Painter) -> Iterator[str]:
        first, *rest = lines(result, paint)
        cascade = "".join(f"; {phrase}" for phrase in more[:1])
        yield first + fitting(first, (cascade, re.sub(r" \([^)]*\)", "", cascade)))
        yield from (*rest, *more[1:])

    return answer_in(output, result, text, page=page)


def _status(result: PredictResult) -> int:
    if result.faults:
        return max(map(status_of, result.faults))
    return FAILED if {"not-predicted", "unknown"} & result.outcomes.keys() else OK


def argument_parser() -> argparse.ArgumentParser:
    """Return the parser of the options of `forewarn predict`."""
    parser = Parser(
        prog="forewarn predict",
        description="Predict the node and the victims that kube-scheduler would select for a Pod, for each new replica "
        "of a workload, or for a Pending Pod.",
        epilog="Exit status: 0: predicted. 1: a condition of --fail-on is met. 2: wrong usage. 3: no answer.",
        examples=("predict -f deployment.yaml", "predict --pod shop/web-0 --cluster cluster.json.gz -o json"),
    )
    add = parser.add_argument
    add_files_option(add, "manifest of Pods or workloads (file, directory, or -; repeatable)")
    add("--pod", metavar="NAMESPACE/POD", help="a Pending Pod of the cluster")
    cluster_command.add_cluster_option(add)
    add_release_options(add)
    for each in OPTIONS.values():
        if each.kind == "flag":
            add(each.option, action="store_true", help=each.help)
        elif each.kind == "number":
            add(each.option, type=integer_between(0, each.most), metavar="N", default=each.default, help=each.help)
        else:
            add(each.option, default=each.default, help=each.help)
    cluster_command.add_namespace_option(add)
    cluster_command.add_output_option(add, ("text", "json", "html"))
    help_text = "exit with 1 if this happens to a Pod or rollout (repeatable)"
    add("--fail-on", action="append", choices=(*CONDITIONS, "blocked"), default=[], help=help_text)
    autoscaling.add_autoscaling_options(add)
    autoscaling.add_no_autoscaler_option(add, "ignore the node groups of the cluster")
    cluster_command.add_color_option(add)
    return parser
