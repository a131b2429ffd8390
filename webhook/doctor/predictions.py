"""What the webhook last predicted, and how it knows: metrics of replicas, annotations of workloads, versions."""

from __future__ import annotations

import json
from time import time
from typing import TYPE_CHECKING, Any, Final

from policies import VERSION
from policies.findings import listed, one_line, plural
from policies.objects.fields import at
from policies.releases import UnknownRelease, known_minor
from webhook.doctor.report import Area

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from policies.objects.fields import ApiObject
    from webhook.doctor.answers import Replica
    from webhook.doctor.looking import Looks
    from webhook.doctor.report import Line

AREA: Final = Area("predicting")
IMPACT: Final = "forewarn.dev/preemption-impact"
_OLD: Final = 120.0
_OLDEST_KUBERNETES: Final = 30
"""Minor from which API servers know matchConditions."""


def look(looks: Looks, replicas: Sequence[Replica], version: ApiObject, now: float | None = None) -> Iterator[Line]:
    """What metrics, annotations and versions say. `version`: of the API server; `now`: seconds since 1970."""
    asked = [replica for replica in replicas if replica.metrics]
    if asked:
        yield from _versions(asked)
        yield from _counted(asked)
        for replica in asked:
            yield from _health(replica, time() if now is None else now)
    else:
        why = next((replica.why for replica in replicas if replica.why), "no replica was asked for its metrics")
        yield AREA.unknown("metrics", why)
    yield _last(looks)
    yield from _release(version)


def _versions(replicas: Sequence[Replica]) -> Iterator[Line]:
    versions = sorted({replica.label("forewarn_build_info", "version") or "unknown" for replica in replicas})
    if len(versions) > 1:
        fix = "end the rollout: kubectl -n forewarn rollout status deployment/forewarn"
        yield AREA.warning("version", f"replicas of several versions answer: {listed(versions)}", fix)
    elif versions != [VERSION]:
        fix = "install the same version of the command and of the webhook"
        yield AREA.warning("version", f"the webhook is {versions[0]}, this command {VERSION}: they may differ", fix)
    else:
        yield AREA.ok("version", f"webhook and command are {VERSION}")


def _counted(replicas: Sequence[Replica]) -> Iterator[Line]:
    requests, made, shed = (
        sum(replica.total(f"forewarn_{name}_total", **labels) or 0 for replica in replicas)
        for name, labels in (
            ("admission_requests", {}),
            ("predictions", {}),
            ("predictions", {"outcome": "shed"}),
        )
    )
    words = {
        outcome: sum(replica.total("forewarn_predictions_total", outcome=outcome) or 0 for replica in replicas)
        for outcome in ("nobody goes", "preempts", "pending", "cut-short")
    }
    told = ", ".join(f"{count:.0f} {outcome}" for outcome, count in words.items() if count) or "none yet"
    yield AREA.ok("predictions", f"{requests:.0f} requests answered, {made - shed:.0f} predictions ({told})")
    if shed:
        yield AREA.warning(
            "predictions", f"{shed:.0f} were not begun, for want of time", "more CPU or replicas (docs/runbooks.md)"
        )
    right, wrong = (
        sum(replica.total("forewarn_prediction_results_total", result=result) or 0 for replica in replicas)
        for result in ("matched", "wrong")
    )
    if wrong:
        fix = "kubectl -n forewarn exec deploy/forewarn -- forewarn webhook accuracy has examples"
        yield AREA.warning("predictions", f"{wrong:.0f} of {right + wrong:.0f} did not come true", fix)
    elif right:
        yield AREA.ok("predictions", f"{right:.0f} of {right:.0f} that were followed came true")


def _health(replica: Replica, now: float) -> Iterator[Line]:
    age = replica.total("forewarn_cache_age_seconds")
    if age is not None and age > _OLD:
        told = f"{replica.name} has not heard from its API server for {age:.0f} s"
        yield AREA.warning("cluster state", told, "`ForewarnStateIsOld` in docs/runbooks.md")
    refused = sorted(
        {metric.labels.get("file", "") for metric in replica.metrics if _is_refused(metric.name, metric.value)}
    )
    if refused:
        told = f"{replica.name} refuses {listed(refused)} and goes by an older state of it"
        yield AREA.problem("files", told, "its log says where the fault is; mend the ConfigMap or Secret")
    ends = replica.total("forewarn_certificate_expiry_timestamp_seconds")
    if ends and ends < now:
        told = f"{replica.name} serves one that has ended"
        yield AREA.problem("certificate", told, "`ForewarnCertificateEnds` in docs/runbooks.md")


def _is_refused(name: str, value: float) -> bool:
    return name == "forewarn_file_refused" and bool(value)


def _last(looks: Looks) -> Line:
    """The newest Deployment that carries what was predicted of it, of those on the first pages."""
    found = looks.all("/apis/apps/v1/deployments", "Deployments of all namespaces")
    if found.why:
        return AREA.unknown("last prediction", found.why)
    annotated = [obj for obj in found.objects if isinstance(at(obj, "metadata", "annotations", IMPACT), str)]
    searched = plural(len(found.objects), "Deployment")
    if not annotated:
        some = "" if found.is_whole else "the first "
        told = f"none of {some}{searched} would push anybody out when it came"
        return AREA.ok("last prediction", told)
    newest = max(annotated, key=lambda obj: str(at(obj, "metadata", "creationTimestamp")))
    name = f"{at(newest, 'metadata', 'namespace')}/{at(newest, 'metadata', 'name')}"
    since = at(newest, "metadata", "creationTimestamp")
    return AREA.ok("last prediction", f"Deployment {name} of {since}: {_impact(newest)}")


def _impact(obj: ApiObject) -> str:
    try:
        impact: Any = json.loads(str(at(obj, "metadata", "annotations", IMPACT))[: 1 << 16])
    except ValueError:
        return "an annotation that is no JSON"
    if isinstance(impact, dict) and isinstance(why := impact.get("notPredicted"), str):
        return f"not predicted: {one_line(why)}"
    preemptions = at(impact, "preemptions") if isinstance(impact, dict) else None
    if not isinstance(preemptions, list):
        return "an annotation without preemptions"
    victims = 0
    for one in preemptions:
        named, unnamed = at(one, "victims"), at(one, "unnamedVictims")
        victims += len(named) if isinstance(named, list) else 0
        victims += unnamed if isinstance(unnamed, int) else 0
    at_least = "at least " if isinstance(impact, dict) and impact.get("coarse") is True else ""
    return f"would push out {at_least}{plural(victims, 'pod')}"


def _release(version: ApiObject) -> Iterator[Line]:
    said = str(version.get("gitVersion") or "")
    if not said:
        yield AREA.unknown("Kubernetes", "the API server does not tell its version")
        return
    try:
        known_minor(said)
    except UnknownRelease as why:
        minor = said.partition(".")[2].partition(".")[0]
        if minor.isdecimal() and int(minor) < _OLDEST_KUBERNETES:
            told = f"{said}: API servers before 1.{_OLDEST_KUBERNETES} do not know matchConditions"
            yield AREA.problem("Kubernetes", told, "upgrade the cluster")
        else:
            fix = "`forewarn info releases`; rules that ask for no prediction hold"
            yield AREA.warning("Kubernetes", f"{said}: no prediction: {why}", fix)
        return
    yield AREA.ok("Kubernetes", f"{said}, whose scheduler is predicted")
