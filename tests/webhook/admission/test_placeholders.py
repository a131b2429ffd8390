"""Victims that only keep room free: a note in the linter, and no warning of the webhook."""

from __future__ import annotations

import copy
from datetime import UTC, datetime
from typing import Any

import pytest

from forewarn.policies.base.findings import Severity
from forewarn.policies.kubernetes.objects.reviewed_object import ChangeSet, ReviewedObject
from forewarn.policies.linting.config.load import read_config
from forewarn.policies.linting.config.model import Config
from forewarn.policies.linting.evaluation.evaluator import EvaluationRequest, evaluate
from forewarn.policies.linting.rules.support.context import Phase
from forewarn.webhook.admission.impact_annotation import ANNOTATION
from forewarn.webhook.admission.review import Hook
from tests.webhook import builders
from tests.webhook.admission.test_impact_annotation import NODE, _with_cpu, decided
from tests.webhook.builders import cluster, pod, review

ASKING = _with_cpu(pod("gold", 1000), "1")


def _running(priority: int, *images: str, name: str = "victim", cpu: str = "1", **labels: str) -> dict[str, Any]:
    victim = copy.deepcopy(_with_cpu(pod(priority=priority, name=name, namespace="batch"), cpu))
    [container] = victim["spec"]["containers"]
    victim["spec"] |= {"nodeName": "node-1", "containers": []}
    for number, image in enumerate(images):
        asked = container["resources"] if number == 0 else {}
        victim["spec"]["containers"].append({"name": f"c{number}", "image": image, "resources": asked})
    victim["metadata"]["labels"] = labels
    return victim


def _found(*victims: dict[str, Any], config: Config | None = None) -> tuple[Severity, str]:
    state, subject = cluster(NODE, *victims), ReviewedObject(ASKING, namespace="team")
    found = evaluate(
        EvaluationRequest(
            ChangeSet((subject,)),
            state,
            config or Config(),
            phase=Phase.LINT,
            now=datetime.now(UTC),
            evaluated=(subject,),
        )
    )
    [finding] = [finding for finding in found if finding.rule == "preempts-running-pods"]
    return finding.severity, finding.message


@pytest.mark.parametrize(
    "image",
    [
        "pause",
        "pause:3.9",
        "registry.k8s.io/pause:3.10",
        "k8s.gcr.io/pause-amd64:3.2",
        "a/b/pause@sha256:0f",
        "pause:3.9@sha256:0f",
    ],
)
def test_a_pause_pod_of_negative_priority_is_one(image: str) -> None:
    severity, message = _found(_running(-5, image))
    assert severity is Severity.NOTE
    assert "would preempt 1 placeholder Pod on node-1: batch/victim (priority -5," in message


@pytest.mark.parametrize(
    "victim",
    [
        _running(0, "pause"),
        _running(-5, "unpause"),
        _running(-5, "pause-tool/web"),
        _running(-5, "pause", "web"),
        _running(-5, "pause\nweb"),
    ],
)
def test_others_are_none(victim: dict[str, Any]) -> None:
    severity, message = _found(victim)
    assert severity is Severity.WARNING
    assert "placeholder" not in message


def test_some_of_several_are_counted_and_it_stays_a_warning() -> None:
    severity, message = _found(_running(-5, "pause", cpu="500m"), _running(0, "web", name="web", cpu="500m"))
    assert severity is Severity.WARNING
    assert "would preempt 1 Pod on node-1: " in message, "as in the counters of predict"
    assert ", also 1 placeholder, " in message


def test_labels_of_the_configuration_take_the_place_of_the_default() -> None:
    config = read_config("placeholderPods: {matchLabels: {role: filler}}", "f")
    assert _found(_running(7, "web", role="filler"), config=config)[0] is Severity.NOTE
    assert _found(_running(-5, "pause"), config=config)[0] is Severity.WARNING


@pytest.mark.parametrize("action", ["warn", "deny"])
def test_the_webhook_warns_nobody_and_says_it_in_audit_log_and_annotation(action: str) -> None:
    state = cluster(NODE, _running(-5, "pause"))
    config = read_config(f"actions: {{preempts-running-pods: {action}}}", "f")
    decision = decided(Hook.VALIDATE, review(ASKING), state=state, config=config)
    assert (decision.response.allowed, list(decision.response.warnings)) == (True, [])
    assert "1 placeholder Pod" in decision.response.audit["preempts-running-pods"]
    patch = decided(Hook.MUTATE, review(ASKING), state=state).response.patch
    assert "batch/victim" in str([operation for operation in patch if ANNOTATION.split("/")[1] in str(operation)])


@pytest.mark.parametrize(("disclose", "told"), [("names", True), ("own-namespace", False), ("counts", False)])
def test_that_a_strangers_pod_is_one_is_not_told(disclose: str, told: bool) -> None:
    """By its labels and images, which the requester may not read."""
    state = cluster(NODE, _running(-5, "pause", cpu="500m"), _running(0, "web", name="web", cpu="500m"))
    config = read_config(f"disclose: {disclose}", "f")
    [finding] = builders.decided(Hook.VALIDATE, review(ASKING), state=state, config=config).findings
    assert "would preempt 1 Pod" in finding.as_shown.message
    assert ("placeholder" in finding.as_shown.message) == told
