"""`forewarn webhook review`: the webhook's answer to one AdmissionReview, without a server."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from policies.commands.cluster_command import add_cluster_option, choose_cluster, loaded
from policies.commands.parser import Parser
from policies.commands.release import add_release_options, release_of, settle
from policies.config import ConfigError
from policies.disclosure import Disclose
from policies.findings import no_command_in_json
from policies.kube_apiserver.priority import Forbidden, admit_pod
from policies.objects.fields import InvalidObject, mapping
from policies.sources import SourceError, read_file, status_of
from policies.terminal import complain
from webhook.admission.decision import Decision, Hook, Time, decide
from webhook.admission.json_patch import apply_patch
from webhook.admission.review import BadReview, parse_review
from webhook.settings import configuration

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from policies.cluster import ClusterSnapshot
    from policies.config import Config

ALLOWED, DENIED, USAGE, FAILED = range(4)


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns the exit status."""
    parser = _parser()
    options = parser.parse_args(arguments)
    choose_cluster(options, required=False)
    release = release_of(options, parser)
    try:
        config = configuration(options.config, options.admission_config)
    except ConfigError as fault:
        return _complain(fault, USAGE)
    try:
        paths = config.options.pod_template_paths
        cluster = None
        if options.cluster:
            cluster = settle(loaded(options, templates=paths), release).snapshot()
        body = read_file(options.file)
        # Whoever runs this has the dump of the cluster: there is nothing to withhold.
        decisions = answers(body, options.phase, cluster, config._replace(disclose=Disclose.NAMES))
    except SourceError as fault:
        return _complain(fault, status_of(fault))
    except BadReview as fault:
        return _complain(f"{options.file}: {fault}", FAILED)
    for decision in decisions:
        print(no_command_in_json(decision.response.to_bytes().decode()))  # noqa: T201
    return ALLOWED if all(decision.response.allowed for decision in decisions) else DENIED


def answers(body: bytes, phase: Hook | None, cluster: ClusterSnapshot | None, config: Config) -> list[Decision]:
    """What the webhook would say: to one hook, or to both in turn as the API server calls them. Raises BadReview."""
    time = Time(datetime.now(UTC), lambda: False)
    if phase is not None:
        return [decide(parse_review(body), phase, cluster, config, time)]
    mutated = decide(parse_review(body), Hook.MUTATE, cluster, config, time)
    if mutated.response.patch:
        review: dict[str, Any] = json.loads(body)
        patched = apply_patch(review["request"]["object"], mutated.response.patch)
        review["request"]["object"] = _admitted_again(patched, cluster)
        body = json.dumps(review).encode()
    return [mutated, decide(parse_review(body), Hook.VALIDATE, cluster, config, time)]


def _admitted_again(pod: dict[str, Any], cluster: ClusterSnapshot | None) -> dict[str, Any]:
    """What the Priority plugin makes of the patched pod: the API server runs it again after an effective patch."""
    if cluster is None:
        return pod
    try:
        spec = mapping(pod, "spec")
        resolved = admit_pod(spec, cluster.priority_classes)
    except (Forbidden, InvalidObject):
        return pod
    values = {"priority": resolved.priority, "preemptionPolicy": resolved.preemption_policy}
    if resolved.priority_class_name:
        values["priorityClassName"] = resolved.priority_class_name
    return {**pod, "spec": {**spec, **values}}


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="forewarn webhook review",
        description="Print the webhook's response to an AdmissionReview, as one line of JSON for each phase.",
        epilog="Exit status: 0: allowed. 1: denied. 2: wrong usage or configuration. 3: the command failed.",
        examples=(
            "webhook review -f review.json",
            "webhook review -f review.json --cluster cluster.json.gz --phase validate",
        ),
    )
    add = parser.add_argument
    add(
        "-f",
        "--filename",
        dest="file",
        required=True,
        metavar="REVIEW.json",
        help="file with the AdmissionReview, or - for standard input",
    )
    add_cluster_option(add, required=False)
    add_release_options(add)
    both = "run only this phase (default: mutate, apply the patch, then validate)"
    add("--phase", type=Hook, choices=list(Hook), metavar="mutate|validate", help=both)
    add("-c", "--config", metavar="FILE", type=Path, help="configuration file (default: built-in defaults)")
    add(
        "--admission-config",
        metavar="FILE",
        type=Path,
        help="kube-apiserver's AdmissionConfiguration, for limitedResources",
    )
    return parser


def _complain(fault: object, status: int) -> int:
    return complain("webhook review", fault, status)
