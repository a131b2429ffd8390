"""`forewarn why`: show why a Pod is Pending, ended or does not end, with the fix."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from forewarn.policies.base.findings import cut
from forewarn.policies.cli.commands import cluster_command, simulated
from forewarn.policies.cli.commands.parser import Parser, duration_between, existing

if TYPE_CHECKING:
    from forewarn.policies.questions.application.why import ClusterWhy, PodWhy, WhyRequest, WorkloadWhy
    from forewarn.policies.questions.why.evidence import Evidence, PreemptionEvents

_A_DAY: Final = 86_400.0
_MAX_PERIOD: Final = 366 * 86_400


def _check(options: argparse.Namespace, parser: argparse.ArgumentParser) -> None:
    """Exit if options cannot be combined, or if a value of --fail-on is neither a state nor an id."""
    if options.pod and options.since != _A_DAY:
        parser.error("--since goes without a name. Fix: remove it, or the name")
    if options.fail_on:
        _check_fail_on(options.fail_on, parser)


def _request(options: argparse.Namespace) -> WhyRequest:
    from forewarn.policies.questions.application.why import WhyRequest

    period = options.since, options.audit_log, options.before or ""
    return WhyRequest(options.pod or "", options.namespace or "", *period)


def _evidence(options: argparse.Namespace) -> Evidence | PreemptionEvents:
    from forewarn.policies.questions.why.evidence import PreemptionEvents

    return _request(options).evidence() if options.pod else PreemptionEvents()


def _ask(options: argparse.Namespace, subject: simulated.Subject) -> PodWhy | WorkloadWhy | ClusterWhy:
    from forewarn.policies.questions.application.why import explain

    cluster = subject.cluster
    return explain(cluster.snapshot, _request(options), subject.collected, cluster.sources, subject.settings)


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


QUESTION: Final = simulated.Question(
    *("why", _parser, _ask, "explaining"),
    check=_check,
    collector=_evidence,
    failures=lambda options, result: cluster_command.failures_of(result.conditions, options.fail_on) or None,
    simulates=False,
)
main: Final = QUESTION.main
