"""Whether the webhook answers: by dry runs that API servers ask it about, and by its own health port."""

from __future__ import annotations

import re
import secrets
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple

from policies.findings import Action, listed
from policies.objects.fields import InvalidObject, at
from policies.objects.namespace import Namespace
from policies.objects.reviewed_object import User
from policies.rules import RULES
from policies.rules.support.context import Target
from policies.selectors import InvalidSelector, parse_label_selector
from webhook.doctor.looking import part
from webhook.doctor.registration import SUFFIX
from webhook.doctor.report import AGAIN, Area

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime

    from policies.config import Config
    from policies.objects.fields import ApiObject
    from webhook.doctor.installation import Installed
    from webhook.doctor.looking import Looks, Seen
    from webhook.doctor.registration import Registered
    from webhook.doctor.report import Line

AREA: Final = Area("answering")
_RULE: Final = "unknown-priority-class"
_TOKEN: Final = re.compile(r"(/(?:validate|mutate))/[0-9a-f]{8,}")
"""What API servers bring with a request, and name when nobody answers: nothing for a report that people hand on."""
_CLASSES: Final = "classes.validate.forewarn.dev"
_MAIN: Final = "validate.forewarn.dev"
_METRIC: Final = re.compile(r"^(forewarn_[a-z_]+)(?:\{([^}]*)\})? ([-+0-9.eEnaif]+)$", re.MULTILINE)
_LABEL: Final = re.compile(r'([a-z_]+)="((?:[^"\\]|\\.)*)"')
_CAUSES: Final = (
    ("x509", "API servers do not trust its certificate", "see the lines on caBundle and certificate"),
    ("no endpoints", "no replica is ready", "see the lines on replicas and the Service"),
    ("refused", "nobody listens behind the Service", "see the lines on replicas and the Service"),
    ("not found", "the Service is missing", AGAIN),
    ("no such host", "the Service is missing", AGAIN),
    ("deadline exceeded", "no answer comes in time", "a network policy or firewall between API servers and port 8443?"),
    ("Client.Timeout", "no answer comes in time", "a network policy or firewall between API servers and port 8443?"),
    ("i/o timeout", "no answer comes in time", "a network policy or firewall between API servers and port 8443?"),
    ("no route", "no answer comes", "a network policy or firewall between API servers and port 8443?"),
)


class Metric(NamedTuple):
    """A line of an exposition."""

    name: str
    labels: Mapping[str, str]
    value: float


class Replica(NamedTuple):
    """What one replica says of itself: `fault` of /readyz (empty: ready), metrics; `why` it could not be asked."""

    name: str
    fault: str
    metrics: tuple[Metric, ...]
    why: str = ""

    def total(self, name: str, **labels: str) -> float | None:
        """The sum of a metric over the labels that are not given; None where there is none."""
        wanted = labels.items()
        found = [metric.value for metric in self.metrics if metric.name == name and wanted <= metric.labels.items()]
        return sum(found) if found else None

    def label(self, name: str, label: str) -> str:
        """A label of a metric that is there once."""
        return next((metric.labels.get(label, "") for metric in self.metrics if metric.name == name), "")


def look(looks: Looks, registered: Registered, namespace: str, config: Config | None, now: datetime) -> Iterator[Line]:
    """Ask API servers, which ask the webhook. Both are dry runs: nothing is stored.

    `config`: the webhook's configuration, None where it cannot be read.
    """
    if registered.is_known and not registered.webhooks:
        return  # nobody is asked
    yield _asked_about_a_class(looks, registered)
    yield _asked_about_a_workload(looks, registered, namespace, config, now)


def _asked_about_a_class(looks: Looks, registered: Registered) -> Line:
    probe = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"generateName": "forewarn-doctor-"},
        "value": 1,
        "description": "a dry run of forewarn webhook doctor",
    }
    check = "dry run of a PriorityClass"
    seen = looks.create("/apis/scheduling.k8s.io/v1/priorityclasses", probe, "what becomes of one", dry_run=True)
    if (line := _of_webhook(check, seen)) is not None:
        return line
    if not seen.there:
        return AREA.unknown(check, seen.why)
    webhook = registered.webhooks.get(_CLASSES)
    if webhook is None or webhook.fields.get("failurePolicy") != "Fail":
        return AREA.unknown(check, "it is accepted, but would be too if nobody answered")
    return AREA.ok(check, "API servers got an answer (without one it would be refused)")


def _asked_about_a_workload(
    looks: Looks, registered: Registered, namespace: str, config: Config | None, now: datetime
) -> Line:
    check = "dry run of a Deployment"
    path = f"/apis/apps/v1/namespaces/{part(namespace)}/deployments"
    seen = looks.create(path, _workload(), f"what becomes of one in the namespace {namespace}", dry_run=True)
    if (line := _of_webhook(check, seen)) is not None:
        return line
    if not seen.there:
        return AREA.unknown(check, seen.why, "name another namespace with --namespace")
    warned = [warning for warning in seen.warnings if f"[{_RULE}]" in warning]
    if warned:
        return AREA.ok(check, f"its requester is warned: {warned[0]}")
    told = f"it names a class that does not exist, in the namespace {namespace}, and no warning comes"
    if config is None:
        return AREA.unknown(check, f"{told}; whether forewarn is to warn is not known: its configuration was not read")
    if why := _why_silent(looks, registered, namespace, config, now):
        return AREA.warning(check, f"{told}: {why}", "name another namespace with --namespace, or another kubeconfig")
    return AREA.problem(
        check,
        f"{told}: nothing exempts it, so API servers do not ask forewarn or get no answer",
        "the fixes of the other lines; if there are none: kubectl logs, of forewarn and of kube-apiserver",
    )


def _why_silent(looks: Looks, registered: Registered, namespace: str, config: Config, now: datetime) -> str:
    """What lets the workload be admitted without a warning; empty where nothing does."""
    rule = next(rule for rule in RULES if rule.ID == _RULE)
    action = config.action(rule, Target.TEMPLATE)
    if action in (Action.OFF, Action.AUDIT):
        return f'the configuration sets the rule {rule.ID} to "{action}"'
    seen = looks.get(f"/api/v1/namespaces/{part(namespace)}", f"the namespace {namespace}")
    found = _namespace(seen.object if seen.there else {"metadata": {"name": namespace}})
    if reason := config.exemption(_requester(looks), found, now):
        return f"it is exempt ({reason})"
    webhook = registered.webhooks.get(_MAIN)
    if webhook is None:
        return ""
    conditions = webhook.fields.get("matchConditions")
    for condition in conditions if isinstance(conditions, list) else ():
        if f'"{namespace}"' in str(at(condition, "expression")):
            return f"a matchCondition of {_MAIN} names the namespace"
    with suppress(InvalidSelector):
        selector = parse_label_selector(webhook.fields.get("namespaceSelector"))
        if selector is not None and seen.there and not selector.matches(found.labels):
            return f"the namespaceSelector of {_MAIN} leaves the namespace out"
    return ""


def _namespace(obj: ApiObject) -> Namespace:
    try:
        return Namespace.from_api(obj)
    except InvalidObject:
        return Namespace("", {}, {})


def _requester(looks: Looks) -> User | None:
    """Who runs the command, as API servers see them; None where they do not say."""
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    seen = looks.create("/apis/authentication.k8s.io/v1/selfsubjectreviews", review, "who you are")
    info = at(seen.object, "status", "userInfo")
    groups = at(info, "groups")
    return User(
        str(at(info, "username") or ""),
        tuple(group for group in groups if isinstance(group, str)) if isinstance(groups, list) else (),
    )


def _workload() -> ApiObject:
    """One that any admission lets in, but for its class, whose name is a new one: what is told again is shortened."""
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
    """What an answer says of the webhook, where it is a refusal: a webhook's name stands in it."""
    if seen.there:
        return None
    text = _TOKEN.sub(r"\1/…", seen.text)
    called = re.search(r'failed calling webhook "([^"]{1,253})"', text)
    denied = re.search(r'admission webhook "([^"]{1,253})" denied', text)
    if called and called[1].endswith(SUFFIX):
        causes = ((words, fix) for sign, words, fix in _CAUSES if sign in text)
        words, fix = next(causes, ("it gets no answer", "see the other lines"))
        return AREA.problem(check, f"{words}: {text}", fix)
    if denied and denied[1].endswith(SUFFIX):
        return AREA.ok(check, f"forewarn answers, and refuses it: {text}")
    other = called or denied
    if other:
        return AREA.unknown(check, f"another webhook, {other[1]}, stands in front: {text}")
    if seen.status == 403 and "cannot create" not in text:
        return AREA.unknown(check, f"something else refuses it: {text}")
    return None


def ask_replicas(looks: Looks, installed: Installed) -> list[Replica]:
    """What a few replicas say, through the API server: the right `get` on `pods/proxy` or `services/proxy`."""
    namespace = f"/api/v1/namespaces/{part(installed.namespace)}"
    ways = [(name, f"{namespace}/pods/{part(name)}:{installed.health_port}/proxy") for name in installed.pods]
    if not ways:
        ways = [(f"Service {installed.service}", f"{namespace}/services/http:{part(installed.service)}:health/proxy")]
    return [_replica(looks, name, path) for name, path in ways]


def _replica(looks: Looks, name: str, path: str) -> Replica:
    ready = looks.text(f"{path}/readyz", f"/readyz of {name}")
    fault = ""
    if not ready.there:
        if ready.status != 503 or _is_status_of_proxy(ready.text):
            return Replica(name, "", (), ready.why)
        fault = ready.text or "not ready"
    metrics = looks.text(f"{path}/metrics", f"/metrics of {name}")
    return Replica(name, fault, _metrics(metrics.text) if metrics.there else (), metrics.why)


def _is_status_of_proxy(text: str) -> bool:
    """Whether the API server itself says 503, because it does not get there."""
    return any(sign in text for sign in ("error trying to reach service", "no endpoints available", "proxy error"))


def _metrics(text: str) -> tuple[Metric, ...]:
    found = []
    for name, labels, value in _METRIC.findall(text):
        try:
            found.append(Metric(name, dict(_LABEL.findall(labels)), float(value)))
        except ValueError:
            continue
    return tuple(found)


def of_replicas(replicas: Sequence[Replica]) -> Iterator[Line]:
    """What their /readyz says."""
    for replica in replicas:
        if replica.fault:
            fix = "what it says is missing; `ForewarnAbsent` in docs/runbooks.md"
            yield AREA.problem("/readyz", f"{replica.name} is not ready: {replica.fault}", fix)
    asked = [replica.name for replica in replicas if not replica.fault and (not replica.why or replica.metrics)]
    if asked:
        yield AREA.ok("/readyz", f"ready: {listed(asked)}")
    for why in dict.fromkeys(replica.why for replica in replicas if replica.why and not replica.fault):
        yield AREA.unknown(
            "/readyz", why, "the right `get` on `pods/proxy`, and a network policy that lets API servers in"
        )
