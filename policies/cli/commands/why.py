"""`forewarn why`: show why a Pod is Pending, ended or does not end, with the fix."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Final

from forewarn.policies.base.findings import cut
from forewarn.policies.cli.commands import cluster_command, simulated
from forewarn.policies.cli.commands.parser import Parser, document_in, duration_between, existing
from forewarn.policies.cli.commands.release import release_of, settle
from forewarn.policies.cli.terminal import counting

_A_DAY: Final = 86_400.0
_MAX_PERIOD: Final = 366 * 86_400


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns 0, 1 if a condition of --fail-on is met, 2 for wrong usage, or 3 without a result."""
    parser = _parser()
    options, run = cluster_command.options_with_cluster(parser, arguments)
    if options.pod and options.since != _A_DAY:
        parser.error("--since goes without a name. Fix: remove it, or the name")
    if options.fail_on:
        _check_fail_on(options.fail_on, parser)
    release, settings_of = release_of(options, parser), simulated.autoscaling_of(options, parser)

    def answer() -> int:
        from forewarn.policies.prediction.autoscaling.cluster_autoscaler.discovery import GroupCache
        from forewarn.policies.questions.application.why import WhyRequest, explain
        from forewarn.policies.questions.why.evidence import PreemptionEvents

        request = WhyRequest(
            options.pod or "", options.namespace, options.since, options.audit_log, options.before or ""
        )
        evidence = request.evidence() if options.pod else PreemptionEvents()
        cache = GroupCache(collect=evidence.collect)
        cluster = settle(cluster_command.loaded(run, cache), release).snapshot()
        with counting("explaining", sys.stderr):
            result = explain(cluster, request, evidence, run.cluster, lambda: settings_of(cache, run.cluster))
            printed = document_in(run.output, result)
        printed.print()
        return cluster_command.status_of_conditions(result.conditions, options.fail_on)

    return cluster_command.answered("why", run.output, answer)


def _check_fail_on(conditions: Sequence[str], parser: argparse.ArgumentParser) -> None:
    """Exit if a value of --fail-on is neither a state nor an id."""
    from forewarn.policies.linting.rules.support.names import suggested
    from forewarn.policies.questions.why.evidence import IDS, STATES

    names = {*STATES, *IDS}
    for what in conditions:
        if what not in names:
            parser.error(f"--fail-on {cut(what, 40)}: no state or cause{suggested(what, names)}")


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="forewarn why",
        description="Explain why a Pod is Pending, was terminated or does not terminate. For a workload, list why "
        "Pods terminated. Without a name, list Pending Pods by cause, and Pods that were preempted.",
        epilog="Exit status: 0: explained. 1: a condition of --fail-on is met. 2: wrong usage. 3: no answer.",
        examples=(
            "why shop/web-5d9c7-x2x1z",
            "why deployment/web -n shop --cluster cluster.json --cluster events.json",
        ),
    )
    add = parser.add_argument
    help_text = "Pod or workload to explain; the Pod may be deleted (default: list all Pending Pods)"
    add("pod", nargs="?", metavar="NAMESPACE/POD|KIND/NAME", help=help_text)
    help_text = "namespace if NAMESPACE/ is missing (default: default); without a name, only its Pods (default: all)"
    add("-n", "--namespace", default="", help=help_text)
    help_text = "without a name: period in which Pods were preempted (default: 24h)"
    add("--since", type=duration_between(1, _MAX_PERIOD), default=_A_DAY, metavar="DURATION", help=help_text)
    help_text = "audit log of kube-apiserver, for Pods that were preempted, evicted or deleted (repeatable)"
    add("--audit-log", type=existing, action="append", default=[], metavar="FILE", help=help_text)
    help_text = "earlier snapshot of the cluster, for Pods that no longer exist, and how to prevent preemptions"
    add("--before", type=existing, metavar="FILE", help=help_text)
    cluster_command.add_output_option(add, cluster_command.PAGES, repeatable=True)
    help_text = "also show the original messages of conditions and Events"
    add("-v", "--verbose", action="count", default=0, help=help_text)
    states = "pending, preempted, terminating, running, not-ready, ended, gone"
    help_text = f"exit with 1 for this state ({states}) or cause (repeatable)"
    add("--fail-on", action="append", default=[], metavar="WHAT", help=help_text)
    simulated.add_simulation_options(add, nodes_arrive=False)
    cluster_command.add_color_option(add)
    return parser
