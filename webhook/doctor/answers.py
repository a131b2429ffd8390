"""Checks of the webhook's responses (dry runs, health port), predictions, configuration and permissions."""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from datetime import datetime
from time import time
from typing import Any, Final, NamedTuple

from forewarn.policies import VERSION
from forewarn.policies.base.findings import Action, Severity, listed, one_line, plural
from forewarn.policies.kubernetes.cluster.cache import Cache, ClusterSnapshot
from forewarn.policies.kubernetes.kinds import registry
from forewarn.policies.kubernetes.objects.fields import NOTHING, ApiObject, InvalidObject, at, list_at, text_at
from forewarn.policies.kubernetes.objects.namespace import EXEMPT_UNTIL_ANNOTATION, Namespace
from forewarn.policies.kubernetes.objects.priority_class import SYSTEM_NAMES, SYSTEM_PRIORITY_CLASS_PREFIX
from forewarn.policies.kubernetes.objects.reviewed_object import ChangeSet, User
from forewarn.policies.kubernetes.releases.release import UnknownRelease, known_minor
from forewarn.policies.kubernetes.releases.semantics import Semantics
from forewarn.policies.kubernetes.selectors import selector_or_error
from forewarn.policies.linting.config.load import read_config
from forewarn.policies.linting.config.model import Config, ConfigError
from forewarn.policies.linting.evaluation.evaluator import EvaluationRequest, Phase, evaluate, stored_objects
from forewarn.policies.linting.rules import RULES
from forewarn.policies.linting.rules.support.context import Target
from forewarn.webhook.accuracy import Outcome
from forewarn.webhook.admission.access_reviews import PATH, access_review
from forewarn.webhook.doctor.installation import SUFFIX, Installed, Registered, selected
from forewarn.webhook.doctor.report import AGAIN, Area, Client, Line, Seen, packaged, part
from forewarn.webhook.workload_accuracy import COMPARED, WRONG, as_predicted

RESPONSES: Final = Area("responses")
_MAX_SKEW: Final = 30.0
"""Tolerated difference between clocks in seconds: certificates are valid from two hours before their issue."""
_RULE: Final = "unknown-priority-class"
_TOKEN: Final = re.compile(r"(/(?:validate|mutate))/[0-9a-f]{8,}")
"""The token in a path, which error messages of API servers contain, and which a report must not show."""
_MAIN: Final = "validate.forewarn.dev"
_METRIC: Final = re.compile(r"^(forewarn_[a-z_]+)(?:\{([^}]*)\})? ([-+0-9.eEnaif]+)$", re.MULTILINE)
_LABEL: Final = re.compile(r'([a-z_]+)="((?:[^"\\]|\\.)*)"')
_NO_RESPONSE: Final = (0, 500, 502, 503, 504)
"""HTTP statuses of a request to a replica that does not respond in time."""
NOT_LISTENING: Final = "refused"
"""Part of the error of a connection to a port on which nothing listens."""
_CHECK_NETWORK: Final = (
    "see the check /readyz; if the replicas answer there, check network policies and firewalls between API servers and "
    "port 8443"
)
_CAUSES: Final = (
    ("x509", "API servers do not trust the certificate", "see the checks caBundle and certificate"),
    ("no endpoints", "no replica is ready", "see the checks replicas and Service"),
    (NOT_LISTENING, "nothing listens behind the Service", "see the checks replicas and Service"),
    ("not found", "the Service is missing", AGAIN),
    ("no such host", "the Service is missing", AGAIN),
    *((sign, "no response in time", _CHECK_NETWORK) for sign in ("deadline exceeded", "Client.Timeout", "i/o timeout")),
    ("no route", "no response", _CHECK_NETWORK),
)


class Metric(NamedTuple):
    """A sample of the Prometheus text format."""

    name: str
    labels: Mapping[str, str]
    value: float


class Replica(NamedTuple):
    """Health and metrics of one replica. `fault`: text of /readyz ("" if ready); `why`: why there is no response.

    `ahead`: seconds by which its clock is ahead of this machine's. `hangs`: whether it answers neither this command nor
    the kubelet's probes.
    """

    name: str
    fault: str
    metrics: tuple[Metric, ...]
    why: str = ""
    ahead: float | None = None
    hangs: bool = False

    def total(self, name: str, **labels: str) -> float | None:
        """Return the sum of all samples of a metric with these labels; None if there are none."""
        wanted = labels.items()
        numbers = [metric.value for metric in self.metrics if metric.name == name and wanted <= metric.labels.items()]
        return sum(numbers) if numbers else None

    def label(self, name: str, label: str) -> str:
        """Return the value of a label of a metric with one sample; "" if the metric is missing."""
        return next((metric.labels.get(label, "") for metric in self.metrics if metric.name == name), "")


def check_responses(
    client: Client, registered: Registered, namespace: str, config: Config | None, now: datetime
) -> Iterator[Line]:
    """Send dry runs to the API server, which calls the webhook. Nothing is stored.

    `config`: the webhook's configuration; None if it was not read.
    """
    if registered.is_known and not registered.webhooks:
        return  # API servers do not call forewarn
    yield _answer_for_class(client, registered)
    yield _answer_for_workload(client, registered, namespace, config, now)


def _answer_for_class(client: Client, registered: Registered) -> Line:
    check, path = "dry run of a PriorityClass", "/apis/scheduling.k8s.io/v1/priorityclasses"
    seen = client.create(path, packaged("probes.json")["PriorityClass"], f"the {check}", dry_run=True)
    if (line := _webhook_line(check, seen)) is not None:
        return line
    if not seen.exists:
        return RESPONSES.unknown(check, seen.why)
    webhook = registered.webhooks.get("classes.validate.forewarn.dev")
    if webhook is None or webhook.fields.get("failurePolicy") != "Fail":
        text = "accepted, but failurePolicy is not Fail, so this does not show that forewarn responds"
        return RESPONSES.unknown(check, text)
    return RESPONSES.ok(check, "forewarn responds to API servers")


def _answer_for_workload(
    client: Client, registered: Registered, namespace: str, config: Config | None, now: datetime
) -> Line:
    check = "dry run of a Deployment"
    path = f"/apis/apps/v1/namespaces/{part(namespace)}/deployments"
    seen = client.create(path, _workload(), f"the dry run of a Deployment in the namespace {namespace}", dry_run=True)
    if (line := _webhook_line(check, seen)) is not None:
        return line
    if not seen.exists:
        return RESPONSES.unknown(check, seen.why, "pass another namespace with --namespace" if seen.status else "")
    warned = [warning for warning in seen.warnings if f"[{_RULE}]" in warning]
    if warned:
        return RESPONSES.ok(check, f"forewarn warns: {warned[0]}")
    text = f"no warning about its missing PriorityClass in the namespace {namespace}"
    if config is None:
        text += "; forewarn's configuration was not read, so it may be configured not to warn"
        return RESPONSES.unknown(check, text)
    read = client.get(f"/api/v1/namespaces/{part(namespace)}", f"the namespace {namespace}")
    if known := _why_silent(client, registered, namespace, read, config, now):
        why, fix = known
        return RESPONSES.warning(check, f"{text}: {why}", fix)
    if not read.exists:
        return RESPONSES.unknown(check, f"{text}; its namespace may be exempt: {read.why}")
    text = f"{text}: nothing exempts it, so API servers do not call forewarn or get no response"
    fix = "fix the other problems; if there are none, check the logs of forewarn and kube-apiserver"
    return RESPONSES.problem(check, text, fix)


def _why_silent(
    client: Client, registered: Registered, namespace: str, seen: Seen, config: Config, now: datetime
) -> tuple[str, str] | None:
    """Return why the dry-run workload is admitted without a warning, and the fix; None if there is no known reason."""
    rule = next(rule for rule in RULES if rule.ID == _RULE)
    action = config.action(rule, Target.TEMPLATE)
    if action in (Action.OFF, Action.AUDIT):
        return f'the configuration sets the rule {rule.ID} to "{action}"', "none if intended; else change `actions`"
    view = _namespace(seen.object if seen.exists else {"metadata": {"name": namespace}})
    if reason := config.exemption(_requester(client), view, now):
        return f"exempt ({reason})", "pass another namespace with --namespace, or another kubeconfig"
    webhook = registered.webhooks.get(_MAIN)
    if webhook is None:
        return None
    elsewhere = "pass another namespace with --namespace"
    for condition in list_at(webhook.fields, "matchConditions"):
        if f'"{namespace}"' in str(at(condition, "expression")):
            return f"a matchCondition of {_MAIN} names the namespace", elsewhere
    see = f"see the check {webhook.kind}"
    by_namespace, by_object = (webhook.fields.get(field) or {} for field in ("namespaceSelector", "objectSelector"))
    if not _selects(by_object, packaged("probes.json")["Deployment"]["metadata"].get("labels") or {}):
        return f"the objectSelector of {_MAIN} excludes the Deployment", see
    if seen.exists and not _selects(by_namespace, view.labels):
        count, total, _ = selected(client, "namespaceSelector", by_namespace)
        return f"the namespaceSelector of {_MAIN} excludes the namespace", elsewhere if count or not total else see
    return None


def _selects(selector: Any, labels: Mapping[str, str]) -> bool:
    """Report whether a selector of a webhook selects an object; true if the selector is invalid."""
    parsed, _ = selector_or_error(selector)
    return parsed is None or parsed.matches(labels)


def _namespace(obj: ApiObject) -> Namespace:
    with suppress(InvalidObject):
        return Namespace.from_api(obj)
    return Namespace("", {}, {})


def _requester(client: Client) -> User:
    """Return the user who runs the command, as the API server identifies that user; an empty name if unknown."""
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    seen = client.create("/apis/authentication.k8s.io/v1/selfsubjectreviews", review, "your user name")
    info = at(seen.object, "status", "userInfo") or NOTHING
    groups = tuple(group for group in list_at(info, "groups") if isinstance(group, str))
    return User(str(at(info, "username") or ""), groups)


def _workload() -> ApiObject:
    """Return a Deployment that common policies allow, whose PriorityClass does not exist."""
    workload: dict[str, Any] = deepcopy(packaged("probes.json")["Deployment"])
    workload["spec"]["template"]["spec"]["priorityClassName"] = f"no-such-class-{secrets.token_hex(3)}"
    return workload


def _webhook_line(check: str, seen: Seen) -> Line | None:
    """Return the line for a request whose rejection names a webhook; None for other results."""
    if seen.exists:
        return None
    text = _TOKEN.sub(r"\1/…", seen.text)
    called = re.search(r'failed calling webhook "([^"]{1,253})"', text)
    denied = re.search(r'admission webhook "([^"]{1,253})" denied', text)
    if called and called[1].endswith(SUFFIX):
        causes = ((words, fix) for sign, words, fix in _CAUSES if sign in text)
        words, fix = next(causes, ("no response", "see the other checks"))
        return RESPONSES.problem(check, f"{words}: {text}", fix)
    if denied and denied[1].endswith(SUFFIX):
        return RESPONSES.ok(check, f"forewarn responds, and denies it: {text}")
    other = called or denied
    if other:
        return RESPONSES.unknown(check, f"the webhook {other[1]} rejects it before forewarn: {text}")
    if seen.status == 403 and "cannot create" not in text:
        return RESPONSES.unknown(check, f"rejected by something else: {text}")
    return None


def ask_replicas(client: Client, installed: Installed) -> list[Replica]:
    """Return the health and metrics of a few replicas, through the API server's proxy for Pods or Services."""
    namespace = f"/api/v1/namespaces/{part(installed.namespace)}"
    ways = [(name, f"{namespace}/pods/{part(name)}:{installed.health_port}/proxy") for name in installed.pods]
    if not ways:
        ways = [(f"Service {installed.service}", f"{namespace}/services/http:{part(installed.service)}:health/proxy")]
    return [_replica(client, name, path, is_unready=name in installed.unready) for name, path in ways]


def _replica(client: Client, name: str, path: str, *, is_unready: bool) -> Replica:
    ready = client.text(f"{path}/readyz", f"/readyz of {name}")
    fault = ""
    if not ready.exists:
        if ready.status != 503 or _is_status_of_proxy(ready.text):
            is_silent = ready.status in _NO_RESPONSE and NOT_LISTENING not in ready.why
            return Replica(name, "", (), ready.why, hangs=is_unready and is_silent)
        fault = ready.text or "not ready"
    metrics = client.text(f"{path}/metrics", f"/metrics of {name}")
    return Replica(name, fault, _metrics(metrics.text) if metrics.exists else (), metrics.why, metrics.ahead)


def _is_status_of_proxy(text: str) -> bool:
    """Report whether a 503 response is from the API server, which cannot reach the Pod, and not from the Pod."""
    return any(sign in text for sign in ("error trying to reach service", "no endpoints available", "proxy error"))


def _metrics(text: str) -> tuple[Metric, ...]:
    lines = []
    for name, labels, value in _METRIC.findall(text):
        with suppress(ValueError):
            lines.append(Metric(name, dict(_LABEL.findall(labels)), float(value)))
    return tuple(lines)


def replica_lines(replicas: Sequence[Replica]) -> Iterator[Line]:
    """Yield lines of the report about /readyz of each replica."""
    for replica in replicas:
        if replica.fault:
            fix = "restore what is missing; see ForewarnAbsent in docs/guides/troubleshoot.md"
            yield RESPONSES.problem("/readyz", f"{replica.name} is not ready: {replica.fault}", fix)
    answering = [replica.name for replica in replicas if not replica.fault and (not replica.why or replica.metrics)]
    if answering:
        yield RESPONSES.ok("/readyz", f"ready: {listed(answering)}")
    for replica in replicas:
        if replica.hangs:
            text = f"{replica.name} answers neither this command nor the kubelet's probes: its process hangs"
            fix = "the kubelet restarts it within a minute; if not, delete the Pod, and check its node"
            yield RESPONSES.problem("/readyz", text, fix)
    silent = [replica for replica in replicas if replica.why and not (replica.fault or replica.hangs)]
    for why in dict.fromkeys(replica.why for replica in silent):
        fix = "allow `get` on `pods/proxy`, and let API servers through the network policy"
        if NOT_LISTENING in why:
            fix = "nothing listens on the health port: read the log of the Pod"
        yield RESPONSES.unknown("/readyz", why, fix)


def clocks(replicas: Sequence[Replica], server: float | None) -> Iterator[Line]:
    """Compare the clocks of the replicas and of this machine with the API server's, which is `server` seconds ahead."""
    if server is None:
        return
    own = {replica.name: replica.ahead - server for replica in replicas if replica.ahead is not None}
    skews = {"this machine": -server, **own}
    wrong = {name: skew for name, skew in skews.items() if abs(skew) > _MAX_SKEW}
    for name, skew in wrong.items():
        text = f"the clock of {name} is {abs(skew):.0f} s {'ahead of' if skew > 0 else 'behind'} the API server's"
        text += ": certificates and exemptions expire at another time"
        yield RESPONSES.warning("clocks", text, "synchronize it")
    if not wrong:
        yield RESPONSES.ok("clocks", f"{listed([*skews])}: as the API server's")


PREDICTED: Final = Area("predictions")
IMPACT: Final = "forewarn.dev/preemption-impact"
_OLD: Final = 120.0
_OLDEST_KUBERNETES: Final = 30
"""First Kubernetes minor version with matchConditions."""


def check_predictions(
    client: Client, replicas: Sequence[Replica], version: ApiObject, now: float | None = None
) -> Iterator[Line]:
    """Check metrics, annotations and versions. `version`: response of /version; `now`: seconds since 1970."""
    with_metrics = [replica for replica in replicas if replica.metrics]
    if with_metrics:
        yield from _versions(with_metrics)
        yield from _replica_lines(with_metrics)
        for replica in with_metrics:
            yield from _health(replica, time() if now is None else now)
    else:
        why = next((replica.why for replica in replicas if replica.why), "no replica was asked for its metrics")
        yield PREDICTED.unknown("metrics", why)
    yield _last(client)
    yield _release(version)


def _versions(replicas: Sequence[Replica]) -> Iterator[Line]:
    versions = sorted({replica.label("forewarn_build_info", "version") or "unknown" for replica in replicas})
    if len(versions) > 1:
        fix = "complete the rollout: kubectl -n forewarn rollout status deployment/forewarn"
        yield PREDICTED.warning("version", f"replicas run different versions: {listed(versions)}", fix)
    elif versions != [VERSION]:
        text = f"the webhook is {versions[0]}, this command is {VERSION}; their results may differ"
        yield PREDICTED.warning("version", text, "install the same version of both")
    else:
        yield PREDICTED.ok("version", f"webhook and command: {VERSION}")


def _replica_lines(replicas: Sequence[Replica]) -> Iterator[Line]:
    requests, made = _total(replicas, "admission_requests"), _total(replicas, "predictions")
    words = {outcome: _total(replicas, "predictions", outcome=outcome) for outcome in Outcome}
    shed = words.pop(Outcome.SKIPPED)
    text = ", ".join(f"{count:.0f} {outcome}" for outcome, count in words.items() if count) or "none yet"
    yield PREDICTED.ok("predictions", f"{requests:.0f} requests answered, {made - shed:.0f} predictions ({text})")
    if shed:
        fix = "see ForewarnPredictionsSkipped in docs/guides/troubleshoot.md"
        yield PREDICTED.warning("predictions", f"{shed:.0f} skipped because the queue was full", fix)
    results = {result: int(_total(replicas, "prediction_results", result=result)) for result in COMPARED}
    if any(results.values()):
        text = f"Pods {as_predicted(results)}"
        fix = "kubectl -n forewarn exec deploy/forewarn -- forewarn webhook accuracy has examples"
        yield PREDICTED.warning("predictions", text, fix) if results[WRONG] else PREDICTED.ok("predictions", text)


def _total(replicas: Sequence[Replica], name: str, **labels: str) -> float:
    return sum(replica.total(f"forewarn_{name}_total", **labels) or 0 for replica in replicas)


def _health(replica: Replica, now: float) -> Iterator[Line]:
    age = replica.total("forewarn_cache_age_seconds")
    if age is not None and age > _OLD:
        text = f"{replica.name}: no message from the API server for {age:.0f} s"
        yield PREDICTED.warning("cluster state", text, "see ForewarnStaleCache in docs/guides/troubleshoot.md")
    rejections = (metric for metric in replica.metrics if metric.name == "forewarn_file_rejected" and metric.value)
    rejected = sorted({metric.labels.get("file", "") for metric in rejections})
    if rejected:
        text = f"{replica.name} rejects the changed {listed(rejected)} and uses the previous content"
        yield PREDICTED.problem("files", text, "see its log for the error, and fix the ConfigMap or Secret")
    ends = replica.total("forewarn_certificate_expiry_timestamp_seconds")
    if ends and ends < now:
        fix = "see ForewarnCertificateExpiringSoon in docs/guides/troubleshoot.md"
        yield PREDICTED.problem("certificate", f"{replica.name} serves an expired certificate", fix)


def _last(client: Client) -> Line:
    """Return a line about the newest Deployment with a predicted preemption, among the first pages."""
    listed = client.all("/apis/apps/v1/deployments", "the Deployments of all namespaces")
    if listed.why:
        return PREDICTED.unknown("last prediction", listed.why)
    annotated = [obj for obj in listed.objects if isinstance(at(obj, "metadata", "annotations", IMPACT), str)]
    searched = plural(len(listed.objects), "Deployment")
    if not annotated:
        some = "" if listed.is_complete else "the first "
        return PREDICTED.ok("last prediction", f"none of {some}{searched} has a predicted preemption")
    newest = max(annotated, key=lambda obj: str(at(obj, "metadata", "creationTimestamp")))
    name = f"{at(newest, 'metadata', 'namespace')}/{at(newest, 'metadata', 'name')}"
    since = at(newest, "metadata", "creationTimestamp")
    return PREDICTED.ok("last prediction", f"Deployment {name}, created {since}: {_impact(newest)}")


def _impact(obj: ApiObject) -> str:
    try:
        impact: Any = json.loads(str(at(obj, "metadata", "annotations", IMPACT))[: 1 << 16])
    except ValueError:
        return "the annotation is not JSON"
    if why := text_at(impact, "notPredicted"):
        return f"not predicted: {one_line(why)}"
    preemptions = at(impact, "preemptions")
    if not isinstance(preemptions, list):
        return "no preemption"
    unnamed = [count for one in preemptions if isinstance(count := at(one, "unnamedVictims"), int)]
    victims = sum(len(list_at(one, "victims")) for one in preemptions) + sum(unnamed)
    at_least = "at least " if at(impact, "coarse") is True else ""
    return f"would preempt {at_least}{plural(victims, 'Pod')}"


def _release(version: ApiObject) -> Line:
    git_version = str(version.get("gitVersion") or "")
    if not git_version:
        return PREDICTED.unknown("Kubernetes", "the API server does not report its version")
    try:
        preview = Semantics(known_minor(git_version)).preview
    except UnknownRelease as why:
        minor = git_version.partition(".")[2].partition(".")[0]
        if minor.isdecimal() and int(minor) < _OLDEST_KUBERNETES:
            text = f"{git_version}: API servers before 1.{_OLDEST_KUBERNETES} do not support matchConditions"
            return PREDICTED.problem("Kubernetes", text, "upgrade the cluster")
        fix = "see `forewarn info releases`; rules that need no prediction still apply"
        return PREDICTED.warning("Kubernetes", f"{git_version}: not predicted: {why}", fix)
    if preview:
        return PREDICTED.warning("Kubernetes", f"{git_version}: {preview}", "see `forewarn info releases`")
    return PREDICTED.ok("Kubernetes", f"{git_version}: supported")


CONFIG: Final = Area("configuration")
_ABOUT: Final = {Target.PRIORITY_CLASS, Target.NAMESPACE, Target.RESOURCE_QUOTA}
_RULES: Final = frozenset(
    rule.ID
    for rule in RULES
    if {*rule.TARGETS} <= _ABOUT and rule.SEVERITY is not None and "pods" not in rule.DEPENDS_ON.stored
)
"""Ids of the rules about these kinds that read no Pods, because a cluster can have very many Pods."""


def check_configuration(
    client: Client, installed: Installed, read: tuple[Config | None, list[Line]], now: datetime
) -> Iterator[Line]:
    """Check the configuration (from `read_configuration`), permissions, PriorityClasses, quotas and namespaces."""
    config, lines = read
    yield from lines
    yield from _rights(client, installed)
    yield from _objects(client, installed, config or Config(), now)


def read_configuration(client: Client, installed: Installed) -> tuple[Config | None, list[Line]]:
    """Return the webhook's configuration (None if unreadable or invalid), and lines of the report about it."""
    seen = client.get(f"/api/v1/namespaces/{part(installed.namespace)}/configmaps/forewarn", "the ConfigMap forewarn")
    if not seen.exists:
        if seen.is_missing:
            return Config(), [CONFIG.ok("configuration", "no ConfigMap forewarn: the defaults apply")]
        return None, [CONFIG.unknown("configuration", seen.why)]
    text = at(seen.object, "data", "forewarn.yaml")
    try:
        config = read_config(str(text or ""), "forewarn.yaml")
    except ConfigError as fault:
        fix = f"kubectl -n {installed.namespace} edit configmap forewarn; see docs/reference/configuration.md"
        return None, [CONFIG.problem("configuration", f"the ConfigMap forewarn is invalid: {fault}", fix)]
    off = sorted(rule for rule, action in config.actions.items() if action is Action.OFF)
    quiet = sum(action is Action.AUDIT for action in config.actions.values())
    phrases = [f"off: {listed(off)}"] if off else []
    phrases += [f"audit only: {plural(quiet, 'rule')}"] if quiet else []
    phrases += [plural(len(config.exemptions), "exemption")] if config.exemptions else []
    text = f"the ConfigMap forewarn: {'; '.join(phrases) or 'all rules at their defaults'}"
    return config, [CONFIG.ok("configuration", text)]


def _rights(client: Client, installed: Installed) -> Iterator[Line]:
    """Check the permissions of the service account by SubjectAccessReviews."""
    user = f"system:serviceaccount:{installed.namespace}:{installed.account}"
    wanted = [
        (spec.group, spec.plural, verb, "", "") for spec in registry.KINDS if not spec.optional for verb in spec.verbs
    ]
    lease = ("coordination.k8s.io", "leases", installed.namespace, "forewarn-global-default")
    wanted += [(*lease[:2], verb, *lease[2:]) for verb in ("update", "create")]
    wanted.append(("authorization.k8s.io", "subjectaccessreviews", "create", "", ""))
    lacking: list[str] = []
    for right in wanted:
        answer = _may(client, user, *right)
        if isinstance(answer, str):
            yield CONFIG.unknown("permissions", answer, "run this as a user who can create SubjectAccessReviews")
            return
        if not answer:
            group, resource, verb, _, name = right
            lacking.append(f"{verb} {resource}{'.' + group if group else ''}{' ' + name if name else ''}")
    if lacking:
        yield CONFIG.problem("permissions", f"missing permissions of {user}: {listed(lacking, 5)}", AGAIN)
    else:
        yield CONFIG.ok("permissions", f"{user} has all {len(wanted)} permissions that it needs")


def _may(client: Client, user: str, group: str, resource: str, verb: str, namespace: str, name: str) -> bool | str:
    """Report whether a user has a permission; a string gives the reason why this is unknown."""
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{user.split(':')[2]}", "system:authenticated")
    attributes = {"group": group, "resource": resource, "verb": verb, "namespace": namespace, "name": name}
    review = access_review(User(user, groups), **attributes)
    seen = client.create(PATH, review, "the permissions of its service account")
    return bool(at(seen.object, "status", "allowed")) if seen.exists else seen.why


def _objects(client: Client, installed: Installed, config: Config, now: datetime) -> Iterator[Line]:
    cache, whole = Cache(), True
    for name in (registry.PRIORITY_CLASS, registry.NAMESPACE, registry.RESOURCE_QUOTA):
        spec = registry.BY_GROUP_KIND[name]
        listed = client.all(spec.path, f"{spec.plural} of the cluster")
        whole = whole and listed.is_complete
        if listed.why:
            yield CONFIG.unknown(spec.plural, listed.why)
            if spec.kind == "PriorityClass":
                return  # without PriorityClasses, references to them cannot be checked
        yield from _added(cache, spec, listed.objects)
    cluster = cache.snapshot()
    if installed.priority_class and installed.priority_class not in cluster.priority_classes:
        missing = f"PriorityClass {installed.priority_class} of forewarn's Pods not found: new Pods are rejected"
        yield CONFIG.problem("priorityclasses", missing, AGAIN)
    yield from _reserved(cluster)
    for _, namespace in sorted(cluster.namespaces.items()):
        if reason := config._replace(exemptions=()).exemption(None, namespace, now):
            fix = f"if not needed any more: kubectl annotate namespace NAME {EXEMPT_UNTIL_ANNOTATION}-"
            yield CONFIG.warning("exemptions", str(reason), fix)
    subjects = tuple(stored_objects(cluster))
    selected = config._replace(selected=_RULES)
    findings = evaluate(
        EvaluationRequest(
            ChangeSet(subjects), cluster, selected, phase=Phase.LINT, now=now, expired=lambda: not client.remaining
        )
    )
    problems = [finding for finding in findings if finding.severity is not Severity.NOTE]
    for finding in sorted(problems, key=lambda f: (f.severity, f.rule, f.object)):
        make = CONFIG.problem if finding.severity is Severity.ERROR else CONFIG.warning
        text = f"{finding.object}: {finding.message} [{finding.rule}]"
        yield make(finding.object.kind, text, finding.remediation or f"forewarn explain {finding.rule}")
    if not problems:
        kinds = f"PriorityClasses, ResourceQuotas and Namespaces{'' if whole else ' (not all were read)'}"
        yield CONFIG.ok("objects", f"no problems in {len(subjects)} {kinds}")


def _reserved(cluster: ClusterSnapshot) -> Iterator[Line]:
    """Yield lines about PriorityClasses with the prefix `system-`, which only older API servers accepted."""
    for name in sorted({*cluster.priority_classes} - SYSTEM_NAMES):
        if name.startswith(SYSTEM_PRIORITY_CLASS_PREFIX):
            text = f"PriorityClass {name}: the name is reserved for the two system classes [reserved-system-name]"
            fix = "create a PriorityClass with another name, move its Pods to it, delete this one"
            yield CONFIG.problem("PriorityClass", text, fix)


def _added(cache: Cache, spec: registry.KindSpec, objects: list[dict[str, Any]]) -> Iterator[Line]:
    for obj in objects:
        try:
            cache.add({**obj, "apiVersion": spec.api_version, "kind": spec.kind})
        except InvalidObject as fault:
            yield CONFIG.unknown(spec.plural, f"cannot read an object: {fault}")
