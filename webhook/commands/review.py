"""`forewarn webhook review`: print the webhook's response to one AdmissionReview, without a server."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from forewarn.policies.base.disclosure import Disclose
from forewarn.policies.base.documents import VERSION, Document, Inlined
from forewarn.policies.base.findings import Action, Finding, cut, plural
from forewarn.policies.cli.commands.cluster_command import add_cluster_option, add_output_option, choose_cluster, loaded
from forewarn.policies.cli.commands.parser import Parser, add_admission_option, existing
from forewarn.policies.cli.commands.release import add_release_options, release_of, settle
from forewarn.policies.cli.terminal import as_json, clean, complain
from forewarn.policies.inputs.sources.files import SourceError, read_file, status_of
from forewarn.policies.kubernetes.kube_apiserver.priority import Forbidden, admit_pod, resolved_spec
from forewarn.policies.kubernetes.objects.fields import InvalidObject, mapping
from forewarn.policies.kubernetes.objects.patches import apply_patch, pointer
from forewarn.policies.linting.config.model import Config, ConfigError
from forewarn.webhook.admission.decide import decide
from forewarn.webhook.admission.prediction_access import ReviewContext, Time
from forewarn.webhook.admission.review import BadReview, Hook, parse_review
from forewarn.webhook.settings import configuration

if TYPE_CHECKING:
    import argparse

    from forewarn.policies.kubernetes.cluster.cache import AnswerHead, ClusterSnapshot
    from forewarn.webhook.admission.decision import Decision, Verdict

ALLOWED, DENIED, USAGE, FAILED = range(4)
_MAX_VALUE: Final = 1000
_MAX_REASON: Final = 160


def main(arguments: Sequence[str]) -> int:
    """Run the command; return the exit status."""
    parser = _parser()
    options = parser.parse_args(arguments)
    run = choose_cluster(options, parser, options.output, required=False)
    release = release_of(options, parser)
    try:
        config = configuration(options.config, options.admission_config)
    except ConfigError as fault:
        return complain("webhook review", fault, USAGE)
    try:
        paths = config.options.pod_template_paths
        cluster = None
        if run.cluster:
            cluster = settle(loaded(run, templates=paths), release).snapshot()
        body = read_file(options.file)
        # The user has the cluster snapshot, so all names are shown.
        decisions = answers(body, options.phase, cluster, config._replace(disclose=Disclose.NAMES))
        hooks = [Hook.MUTATE, Hook.VALIDATE] if options.phase is None else [options.phase]
        with options.output.redirected():
            phases = list(zip(hooks, decisions, strict=True))
            if options.output.form == "json":
                sys.stdout.writelines(as_json(_review(*phase, cluster).to_dict()) for phase in phases)
            else:
                lines = _text(str(parse_review(body).subject.ref), phases, cluster)
                sys.stdout.writelines(clean(line, color=False) + "\n" for line in lines)
    except SourceError as fault:
        return complain("webhook review", fault, status_of(fault))
    except BadReview as fault:
        return complain("webhook review", f"{options.file}: {fault}. Fix: pass an AdmissionReview as JSON", FAILED)
    return ALLOWED if all(decision.response.allowed for decision in decisions) else DENIED


def _text(ref: str, phases: Sequence[tuple[Hook, Decision]], cluster: ClusterSnapshot | None) -> Iterator[str]:
    responses = [decision.response for _, decision in phases]
    warnings = [warning for response in responses for warning in response.warnings]
    verdict = "allowed" if all(response.allowed for response in responses) else "denied"
    denied = next((f": {response.message}" for response in responses if not response.allowed), "")
    verdict += cut(denied, _MAX_REASON)
    if warnings:
        verdict += f" with {plural(len(warnings), 'warning')}"
        verdict += "" if denied else f"{', first' if warnings[1:] else ''}: {cut(warnings[0], _MAX_REASON)}"
    if cluster is None:
        verdict += "; classes, quotas and preemptions are not checked. Fix: pass --cluster"
    yield f"{ref}: {verdict}"
    if head := _head(cluster):
        from forewarn.policies.cli.render.head import line_of

        yield line_of(head)
    for hook, decision in phases:
        response = decision.response
        if not response.allowed:
            yield f"  {hook.value}: denied, code {response.code}: {response.message}"
        elif decision.exemption:
            yield f"  {hook.value}: exempt: {decision.exemption}"
        else:
            yield f"  {hook.value}: allowed"
        yield from (f"    warning: {warning}" for warning in response.warnings)
        for operation in response.patch:
            value = "" if operation.op == "remove" else f" = {json.dumps(operation.value)}"
            yield f"    {operation.op} {pointer(operation.path)}{cut(value, _MAX_VALUE)}"


class ReviewFinding(NamedTuple):
    """A finding about the reviewed object, with all names. `action`: the action of the webhook."""

    finding: Inlined[Finding]
    action: Action


@dataclass(frozen=True, kw_only=True)
class Review(Document):
    """The output of one phase. `findings`: those about the object. `review`: the AdmissionReview. `verdict`: as in the
    metrics.
    """

    head: AnswerHead | None = None
    version: Literal[1] = VERSION
    phase: Hook
    verdict: Verdict
    findings: Sequence[ReviewFinding]
    review: Mapping[str, Any]


def _review(hook: Hook, decision: Decision, cluster: ClusterSnapshot | None) -> Review:
    return Review(
        head=_head(cluster),
        phase=hook,
        verdict=decision.verdict,
        findings=[ReviewFinding(finding, finding.action) for finding in decision.findings],
        review=json.loads(decision.response.to_bytes()),
    )


def _head(cluster: ClusterSnapshot | None) -> AnswerHead | None:
    if cluster is None:
        return None
    from forewarn.policies.kubernetes.cluster.cache import head_of

    return head_of(cluster)


def answers(body: bytes, phase: Hook | None, cluster: ClusterSnapshot | None, config: Config) -> list[Decision]:
    """Return the decisions of one webhook, or of both in the order in which the API server calls them. Raises
    BadReview.

    `phase`: None for both.
    """
    time = Time(datetime.now(UTC), lambda: False)

    def decided(hook: Hook) -> Decision:
        return decide(ReviewContext(parse_review(body), hook, cluster, config, time))

    if phase is not None:
        return [decided(phase)]
    mutated = decided(Hook.MUTATE)
    if mutated.response.patch:
        review: dict[str, Any] = json.loads(body)
        patched = apply_patch(review["request"]["object"], mutated.response.patch)
        review["request"]["object"] = _admitted_again(patched, cluster)
        body = json.dumps(review).encode()
    return [mutated, decided(Hook.VALIDATE)]


def _admitted_again(pod: dict[str, Any], cluster: ClusterSnapshot | None) -> dict[str, Any]:
    """Return the patched Pod after the Priority plugin, which the API server runs again after an effective patch."""
    if cluster is None:
        return pod
    try:
        spec = mapping(pod, "spec")
        return {**pod, "spec": resolved_spec(spec, admit_pod(spec, cluster.priority_classes))}
    except (Forbidden, InvalidObject):
        return pod


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="forewarn webhook review",
        description="Show the webhook's response to an AdmissionReview, with all names; users usually see fewer. "
        "-o json prints the response and the findings of each phase.",
        epilog="Exit status: 0: allowed. 1: denied. 2: wrong usage or configuration. 3: the command failed.",
        examples=(
            "webhook review -f review.json",
            "webhook review -f review.json --cluster cluster.json.gz --phase validate",
        ),
    )
    add = parser.add_argument
    help_text = "file with the AdmissionReview, or - for standard input"
    add("-f", "--filename", dest="file", required=True, type=existing, metavar="REVIEW.json", help=help_text)
    add_cluster_option(add, required=False)
    add_release_options(add)
    add_output_option(add)
    both = "run only this phase (default: mutate, apply the patch, then validate)"
    add("--phase", type=Hook, choices=list(Hook), metavar="mutate|validate", help=both)
    add("-c", "--config", metavar="FILE", type=existing, help="configuration file (default: built-in defaults)")
    add_admission_option(add)
    return parser
