"""Checks of predictions: metrics of replicas, annotations of Deployments, versions."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from time import time
from typing import TYPE_CHECKING, Any, Final

from forewarn.policies import VERSION
from forewarn.policies.findings import listed, one_line, plural
from forewarn.policies.objects.fields import ApiObject, at
from forewarn.policies.releases.release import UnknownRelease, known_minor
from forewarn.policies.releases.semantics import Semantics
from forewarn.webhook.accuracy import Outcome
from forewarn.webhook.doctor.report import Area, Line
from forewarn.webhook.workload_accuracy import COMPARED, WRONG, as_predicted

if TYPE_CHECKING:
    from forewarn.webhook.doctor.answers import Replica
    from forewarn.webhook.doctor.client import Client

AREA: Final = Area("predictions")
IMPACT: Final = "forewarn.dev/preemption-impact"
_OLD: Final = 120.0
_OLDEST_KUBERNETES: Final = 30
"""First Kubernetes minor version with matchConditions."""


def check(client: Client, replicas: Sequence[Replica], version: ApiObject, now: float | None = None) -> Iterator[Line]:
    """Check metrics, annotations and versions. `version`: response of /version; `now`: seconds since 1970."""
    with_metrics = [replica for replica in replicas if replica.metrics]
    if with_metrics:
        yield from _versions(with_metrics)
        yield from _counted(with_metrics)
        for replica in with_metrics:
            yield from _health(replica, time() if now is None else now)
    else:
        why = next((replica.why for replica in replicas if replica.why), "no replica was asked for its metrics")
        yield AREA.unknown("metrics", why)
    yield _last(client)
    yield from _release(version)


def _versions(replicas: Sequence[Replica]) -> Iterator[Line]:
    versions = sorted({replica.label("forewarn_build_info", "version") or "unknown" for replica in replicas})
    if len(versions) > 1:
        fix = "complete the rollout: kubectl -n forewarn rollout status deployment/forewarn"
        yield AREA.warning("version", f"replicas run different versions: {listed(versions)}", fix)
    elif versions != [VERSION]:
        fix = "install the same version of both"
        yield AREA.warning(
            "version", f"the webhook is {versions[0]}, this command is {VERSION}; their results may differ", fix
        )
    else:
        yield AREA.ok("version", f"webhook and command: {VERSION}")


def _counted(replicas: Sequence[Replica]) -> Iterator[Line]:
    requests, made, shed = (
        sum(replica.total(f"forewarn_{name}_total", **labels) or 0 for replica in replicas)
        for name, labels in (
            ("admission_requests", {}),
            ("predictions", {}),
            ("predictions", {"outcome": Outcome.SKIPPED}),
        )
    )
    words = {
        outcome: sum(replica.total("forewarn_predictions_total", outcome=outcome) or 0 for replica in replicas)
        for outcome in Outcome
        if outcome is not Outcome.SKIPPED
    }
    text = ", ".join(f"{count:.0f} {outcome}" for outcome, count in words.items() if count) or "none yet"
    yield AREA.ok("predictions", f"{requests:.0f} requests answered, {made - shed:.0f} predictions ({text})")
    if shed:
        yield AREA.warning(
            "predictions",
            f"{shed:.0f} skipped because the queue was full",
            "see ForewarnPredictionsSkipped in docs/guides/troubleshoot.md",
        )
    results = {
        result: int(sum(replica.total("forewarn_prediction_results_total", result=result) or 0 for replica in replicas))
        for result in COMPARED
    }
    if any(results.values()):
        text = f"Pods {as_predicted(results)}"
        fix = "kubectl -n forewarn exec deploy/forewarn -- forewarn webhook accuracy has examples"
        yield AREA.warning("predictions", text, fix) if results[WRONG] else AREA.ok("predictions", text)


def _health(replica: Replica, now: float) -> Iterator[Line]:
    age = replica.total("forewarn_cache_age_seconds")
    if age is not None and age > _OLD:
        text = f"{replica.name}: no message from the API server for {age:.0f} s"
        yield AREA.warning("cluster state", text, "see ForewarnStaleCache in docs/guides/troubleshoot.md")
    rejections = (metric for metric in replica.metrics if metric.name == "forewarn_file_rejected" and metric.value)
    rejected = sorted({metric.labels.get("file", "") for metric in rejections})
    if rejected:
        text = f"{replica.name} rejects the changed {listed(rejected)} and uses the previous content"
        yield AREA.problem("files", text, "see its log for the error, and fix the ConfigMap or Secret")
    ends = replica.total("forewarn_certificate_expiry_timestamp_seconds")
    if ends and ends < now:
        text = f"{replica.name} serves an expired certificate"
        yield AREA.problem("certificate", text, "see ForewarnCertificateExpiringSoon in docs/guides/troubleshoot.md")


def _last(client: Client) -> Line:
    """A line about the newest Deployment with a predicted preemption, among the first pages."""
    listed = client.all("/apis/apps/v1/deployments", "the Deployments of all namespaces")
    if listed.why:
        return AREA.unknown("last prediction", listed.why)
    annotated = [obj for obj in listed.objects if isinstance(at(obj, "metadata", "annotations", IMPACT), str)]
    searched = plural(len(listed.objects), "Deployment")
    if not annotated:
        some = "" if listed.is_complete else "the first "
        return AREA.ok("last prediction", f"none of {some}{searched} has a predicted preemption")
    newest = max(annotated, key=lambda obj: str(at(obj, "metadata", "creationTimestamp")))
    name = f"{at(newest, 'metadata', 'namespace')}/{at(newest, 'metadata', 'name')}"
    since = at(newest, "metadata", "creationTimestamp")
    return AREA.ok("last prediction", f"Deployment {name}, created {since}: {_impact(newest)}")


def _impact(obj: ApiObject) -> str:
    try:
        impact: Any = json.loads(str(at(obj, "metadata", "annotations", IMPACT))[: 1 << 16])
    except ValueError:
        return "the annotation is not JSON"
    if isinstance(impact, dict) and isinstance(why := impact.get("notPredicted"), str):
        return f"not predicted: {one_line(why)}"
    preemptions = at(impact, "preemptions") if isinstance(impact, dict) else None
    if not isinstance(preemptions, list):
        return "no preemption"
    victims = 0
    for one in preemptions:
        named, unnamed = at(one, "victims"), at(one, "unnamedVictims")
        victims += len(named) if isinstance(named, list) else 0
        victims += unnamed if isinstance(unnamed, int) else 0
    at_least = "at least " if isinstance(impact, dict) and impact.get("coarse") is True else ""
    return f"would preempt {at_least}{plural(victims, 'Pod')}"


def _release(version: ApiObject) -> Iterator[Line]:
    git_version = str(version.get("gitVersion") or "")
    if not git_version:
        yield AREA.unknown("Kubernetes", "the API server does not report its version")
        return
    try:
        preview = Semantics(known_minor(git_version)).preview
    except UnknownRelease as why:
        minor = git_version.partition(".")[2].partition(".")[0]
        if minor.isdecimal() and int(minor) < _OLDEST_KUBERNETES:
            text = f"{git_version}: API servers before 1.{_OLDEST_KUBERNETES} do not support matchConditions"
            yield AREA.problem("Kubernetes", text, "upgrade the cluster")
        else:
            fix = "see `forewarn info releases`; rules that need no prediction still apply"
            yield AREA.warning("Kubernetes", f"{git_version}: not predicted: {why}", fix)
        return
    if preview:
        yield AREA.warning("Kubernetes", f"{git_version}: {preview}", "see `forewarn info releases`")
        return
    yield AREA.ok("Kubernetes", f"{git_version}: supported")
