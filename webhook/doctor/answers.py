"""Checks that the webhook responds: dry runs through API servers, and its health port."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple

from forewarn.policies.findings import Action, listed
from forewarn.policies.objects.fields import ApiObject, InvalidObject, at
from forewarn.policies.objects.namespace import Namespace
from forewarn.policies.objects.reviewed_object import User
from forewarn.policies.rules import RULES
from forewarn.policies.rules.support.context import Target
from forewarn.policies.selectors import InvalidSelector, parse_label_selector
from forewarn.webhook.doctor.client import Client, Seen, part
from forewarn.webhook.doctor.registration import SUFFIX, Registered
from forewarn.webhook.doctor.report import AGAIN, Area, Line

if TYPE_CHECKING:
    from datetime import datetime

    from forewarn.policies.config import Config
    from forewarn.webhook.doctor.installation import Installed

AREA: Final = Area("responses")
_MAX_SKEW: Final = 30.0
"""Difference of clocks in seconds that is reported; certificates are valid from five minutes before their issue."""
_RULE: Final = "unknown-priority-class"
_TOKEN: Final = re.compile(r"(/(?:validate|mutate))/[0-9a-f]{8,}")
"""The token in the path, which error messages of API servers contain. A report must not show it."""
_MAIN: Final = "validate.forewarn.dev"
_METRIC: Final = re.compile(r"^(forewarn_[a-z_]+)(?:\{([^}]*)\})? ([-+0-9.eEnaif]+)$", re.MULTILINE)
_LABEL: Final = re.compile(r'([a-z_]+)="((?:[^"\\]|\\.)*)"')
NOT_LISTENING: Final = "refused"
"""In errors of a connection to a port on which nothing listens."""
_CHECK_NETWORK: Final = "check network policies and firewalls between API servers and port 8443"
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

    `ahead`: seconds by which its clock is ahead of this machine's.
    """

    name: str
    fault: str
    metrics: tuple[Metric, ...]
    why: str = ""
    ahead: float | None = None

    def total(self, name: str, **labels: str) -> float | None:
        """Return the sum of all samples of a metric with these labels; None if there are none."""
        wanted = labels.items()
        numbers = [metric.value for metric in self.metrics if metric.name == name and wanted <= metric.labels.items()]
        return sum(numbers) if numbers else None

    def label(self, name: str, label: str) -> str:
        """The value of a label of a metric with one sample; "" if the metric is missing."""
        return next((metric.labels.get(label, "") for metric in self.metrics if metric.name == name), "")


def check(
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
    probe = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"generateName": "forewarn-doctor-"},
        "value": 1,
        "description": "dry run of forewarn webhook doctor",
    }
    check = "dry run of a PriorityClass"
    seen = client.create(
        "/apis/scheduling.k8s.io/v1/priorityclasses", probe, "the dry run of a PriorityClass", dry_run=True
    )
    if (line := _of_webhook(check, seen)) is not None:
        return line
    if not seen.exists:
        return AREA.unknown(check, seen.why)
    webhook = registered.webhooks.get("classes.validate.forewarn.dev")
    if webhook is None or webhook.fields.get("failurePolicy") != "Fail":
        return AREA.unknown(
            check, "accepted, but failurePolicy is not Fail, so this does not show that forewarn responds"
        )
    return AREA.ok(check, "forewarn responds to API servers")


def _answer_for_workload(
    client: Client, registered: Registered, namespace: str, config: Config | None, now: datetime
) -> Line:
    check = "dry run of a Deployment"
    path = f"/apis/apps/v1/namespaces/{part(namespace)}/deployments"
    seen = client.create(path, _workload(), f"the dry run of a Deployment in the namespace {namespace}", dry_run=True)
    if (line := _of_webhook(check, seen)) is not None:
        return line
    if not seen.exists:
        return AREA.unknown(check, seen.why, "pass another namespace with --namespace")
    warned = [warning for warning in seen.warnings if f"[{_RULE}]" in warning]
    if warned:
        return AREA.ok(check, f"forewarn warns: {warned[0]}")
    text = f"no warning about its missing PriorityClass in the namespace {namespace}"
    if config is None:
        return AREA.unknown(
            check, f"{text}; forewarn's configuration was not read, so it may be configured not to warn"
        )
    if why := _why_silent(client, registered, namespace, config, now):
        return AREA.warning(check, f"{text}: {why}", "pass another namespace with --namespace, or another kubeconfig")
    return AREA.problem(
        check,
        f"{text}: nothing exempts it, so API servers do not call forewarn or get no response",
        "fix the other problems; if there are none, check the logs of forewarn and kube-apiserver",
    )


def _why_silent(client: Client, registered: Registered, namespace: str, config: Config, now: datetime) -> str:
    """Return why the dry-run workload is admitted without a warning; "" if there is no known reason."""
    rule = next(rule for rule in RULES if rule.ID == _RULE)
    action = config.action(rule, Target.TEMPLATE)
    if action in (Action.OFF, Action.AUDIT):
        return f'the configuration sets the rule {rule.ID} to "{action}"'
    seen = client.get(f"/api/v1/namespaces/{part(namespace)}", f"the namespace {namespace}")
    view = _namespace(seen.object if seen.exists else {"metadata": {"name": namespace}})
    if reason := config.exemption(_requester(client), view, now):
        return f"exempt ({reason})"
    webhook = registered.webhooks.get(_MAIN)
    if webhook is None:
        return ""
    conditions = webhook.fields.get("matchConditions")
    for condition in conditions if isinstance(conditions, list) else ():
        if f'"{namespace}"' in str(at(condition, "expression")):
            return f"a matchCondition of {_MAIN} names the namespace"
    with suppress(InvalidSelector):
        selector = parse_label_selector(webhook.fields.get("namespaceSelector"))
        if selector is not None and seen.exists and not selector.matches(view.labels):
            return f"the namespaceSelector of {_MAIN} excludes the namespace"
    return ""


def _namespace(obj: ApiObject) -> Namespace:
    try:
        return Namespace.from_api(obj)
    except InvalidObject:
        return Namespace("", {}, {})


def _requester(client: Client) -> User:
    """Return the user who runs the command, as the API server identifies that user; an empty name if unknown."""
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    seen = client.create("/apis/authentication.k8s.io/v1/selfsubjectreviews", review, "your user name")
    info = at(seen.object, "status", "userInfo")
    groups = at(info, "groups")
    return User(
        str(at(info, "username") or ""),
        tuple(group for group in groups if isinstance(group, str)) if isinstance(groups, list) else (),
    )


def _workload() -> ApiObject:
    """Return a Deployment that common policies allow, with a class that does not exist."""
    name = "forewarn-doctor"
    security = {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "runAsNonRoot": True,
        "runAsUser": 65532,
        "readOnlyRootFilesystem": True,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    amounts = {"cpu": "1m", "memory": "1Mi"}
    container = {
        "name": "none",
        "image": "registry.k8s.io/pause:3.10",
        "securityContext": security,
        "resources": {"requests": amounts, "limits": amounts},
    }
    spec = {"priorityClassName": f"no-such-class-{secrets.token_hex(3)}", "containers": [container]}
    labels = {"app.kubernetes.io/name": name}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"generateName": f"{name}-", "labels": labels},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    }


def _of_webhook(check: str, seen: Seen) -> Line | None:
    """Return the line for a request whose rejection names a webhook; None for other results."""
    if seen.exists:
        return None
    text = _TOKEN.sub(r"\1/…", seen.text)
    called = re.search(r'failed calling webhook "([^"]{1,253})"', text)
    denied = re.search(r'admission webhook "([^"]{1,253})" denied', text)
    if called and called[1].endswith(SUFFIX):
        causes = ((words, fix) for sign, words, fix in _CAUSES if sign in text)
        words, fix = next(causes, ("no response", "see the other checks"))
        return AREA.problem(check, f"{words}: {text}", fix)
    if denied and denied[1].endswith(SUFFIX):
        return AREA.ok(check, f"forewarn responds, and denies it: {text}")
    other = called or denied
    if other:
        return AREA.unknown(check, f"the webhook {other[1]} rejects it before forewarn: {text}")
    if seen.status == 403 and "cannot create" not in text:
        return AREA.unknown(check, f"rejected by something else: {text}")
    return None


def ask_replicas(client: Client, installed: Installed) -> list[Replica]:
    """Health and metrics of a few replicas, through the API server's proxy for Pods or Services."""
    namespace = f"/api/v1/namespaces/{part(installed.namespace)}"
    ways = [(name, f"{namespace}/pods/{part(name)}:{installed.health_port}/proxy") for name in installed.pods]
    if not ways:
        ways = [(f"Service {installed.service}", f"{namespace}/services/http:{part(installed.service)}:health/proxy")]
    return [_replica(client, name, path) for name, path in ways]


def _replica(client: Client, name: str, path: str) -> Replica:
    ready = client.text(f"{path}/readyz", f"/readyz of {name}")
    fault = ""
    if not ready.exists:
        if ready.status != 503 or _is_status_of_proxy(ready.text):
            return Replica(name, "", (), ready.why)
        fault = ready.text or "not ready"
    metrics = client.text(f"{path}/metrics", f"/metrics of {name}")
    return Replica(name, fault, _metrics(metrics.text) if metrics.exists else (), metrics.why, metrics.ahead)


def _is_status_of_proxy(text: str) -> bool:
    """Report whether a 503 response is from the API server, which cannot reach the Pod, and not from the Pod."""
    return any(sign in text for sign in ("error trying to reach service", "no endpoints available", "proxy error"))


def _metrics(text: str) -> tuple[Metric, ...]:
    lines = []
    for name, labels, value in _METRIC.findall(text):
        try:
            lines.append(Metric(name, dict(_LABEL.findall(labels)), float(value)))
        except ValueError:
            continue
    return tuple(lines)


def of_replicas(replicas: Sequence[Replica]) -> Iterator[Line]:
    """Yield lines of the report about /readyz of each replica."""
    for replica in replicas:
        if replica.fault:
            fix = "restore what is missing; see ForewarnAbsent in docs/guides/troubleshoot.md"
            yield AREA.problem("/readyz", f"{replica.name} is not ready: {replica.fault}", fix)
    answering = [replica.name for replica in replicas if not replica.fault and (not replica.why or replica.metrics)]
    if answering:
        yield AREA.ok("/readyz", f"ready: {listed(answering)}")
    for why in dict.fromkeys(replica.why for replica in replicas if replica.why and not replica.fault):
        fix = "allow `get` on `pods/proxy`, and let API servers through the network policy"
        if NOT_LISTENING in why:
            fix = "nothing listens on the health port: read the log of the Pod"
        yield AREA.unknown("/readyz", why, fix)


def clocks(replicas: Sequence[Replica], server: float | None) -> Iterator[Line]:
    """Compare the clocks of the replicas and of this machine with the API server's, which is `server` seconds ahead."""
    if server is None:
        return
    skews = {"this machine": -server} | {
        replica.name: replica.ahead - server for replica in replicas if replica.ahead is not None
    }
    wrong = {name: skew for name, skew in skews.items() if abs(skew) > _MAX_SKEW}
    for name, skew in wrong.items():
        text = f"the clock of {name} is {abs(skew):.0f} s {'ahead of' if skew > 0 else 'behind'} the API server's"
        yield AREA.warning("clocks", f"{text}: certificates and exemptions expire at another time", "synchronize it")
    if not wrong:
        yield AREA.ok("clocks", f"{listed([*skews])}: as the API server's")
