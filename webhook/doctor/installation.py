"""Checks of the webhook configurations, of the installed objects (Deployment, Service, endpoints), and of TLS."""

from __future__ import annotations

import base64
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from itertools import product
from typing import Any, Final, NamedTuple

from forewarn.policies.base.findings import listed, plural, quote
from forewarn.policies.kubernetes.objects.fields import NOTHING, ApiObject, at, list_at, moment_of, objects_at, text_at
from forewarn.policies.kubernetes.selectors import selector_or_error
from forewarn.webhook.apiserver.client import mapping
from forewarn.webhook.controllers.leases import lease_path
from forewarn.webhook.doctor.report import AGAIN, Area, Client, Line, kubectl_patch, packaged, part

HOOKS: Final = Area("registration")
SUFFIX: Final = ".forewarn.dev"
VALIDATING, MUTATING = "ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"
_GROUP: Final = "/apis/admissionregistration.k8s.io/v1"
_PATHS: Final = {
    VALIDATING: f"{_GROUP}/validatingwebhookconfigurations",
    MUTATING: f"{_GROUP}/mutatingwebhookconfigurations",
}
_SELECTED: Final = {
    "namespaceSelector": ("/api/v1/namespaces", "namespaces of the cluster"),
    "objectSelector": ("/apis/apps/v1/deployments", "Deployments of all namespaces"),
}
"""Selector of a webhook -> path and name of the objects to which doctor applies it."""
_PODS_AND_WORKLOADS: Final = (
    ("", "v1", "pods", "CREATE", "Namespaced"),
    ("apps", "v1", "deployments", "CREATE", "Namespaced"),
    ("batch", "v1", "jobs", "CREATE", "Namespaced"),
)
_CLASSES: Final = (("scheduling.k8s.io", "v1", "priorityclasses", "CREATE", "Cluster"),)


class Webhook(NamedTuple):
    """A registered webhook: its fields, the kind and name of its configuration, and its index in the configuration."""

    fields: ApiObject
    kind: str = ""
    configuration: str = ""
    place: int = 0

    @property
    def name(self) -> str:
        return str(self.fields.get("name") or "")

    @property
    def service(self) -> ApiObject | None:
        """The Service reference; None if API servers call a URL."""
        service = at(self.fields, "clientConfig", "service")
        return service if isinstance(service, dict) else None

    @property
    def path(self) -> str:
        """The expected path, without the token that the CA injector appends."""
        return "/mutate" if self.kind == MUTATING else "/validate"

    def patch(self, op: str, field: str, value: object = None) -> str:
        """Return the kubectl command that changes one field of this webhook only."""
        path = f"/webhooks/{self.place}"
        change = {"op": op, "path": f"{path}/{field}", **({} if op == "remove" else {"value": value})}
        is_it = {"op": "test", "path": f"{path}/name", "value": self.fields.get("name")}
        return kubectl_patch(f"{self.kind.lower()} {self.configuration}", is_it, change)


class Registered(NamedTuple):
    """The registered webhooks. `webhooks`: forewarn's webhooks by name. `is_known`: whether both kinds of
    configurations were readable.
    """

    webhooks: Mapping[str, Webhook]
    is_known: bool
    lines: list[Line]

    @property
    def service(self) -> ApiObject:
        """The Service that most webhooks call; empty if API servers call a URL or there are no webhooks."""
        webhooks = [service for webhook in self.webhooks.values() if (service := webhook.service) is not None]
        counts = Counter(map(service_name, webhooks))
        return max(webhooks, key=lambda service: counts[service_name(service)], default=NOTHING)


def check_registration(client: Client) -> Registered:
    """Read both kinds of webhook configurations, and compare forewarn's webhooks with those in its manifests."""
    lines: list[Line] = []
    webhooks: dict[str, Webhook] = {}
    others: dict[str, list[Webhook]] = {}
    is_known = True
    for kind, path in _PATHS.items():
        configuration = _read(client, path, kind)
        if isinstance(configuration, str):
            is_known = False
            lines.append(HOOKS.unknown(kind, configuration, "run this as a user who can read webhook configurations"))
            continue
        names = {webhook.configuration for webhook in configuration if _is_ours(webhook)}
        own = NAME if NAME in names else min(names, default=NAME)  # the shipped one, or one outside the cluster
        ours = {
            webhook.name: webhook for webhook in configuration if webhook.configuration == own and _is_ours(webhook)
        }
        webhooks |= ours
        others[kind] = [webhook for webhook in configuration if webhook.configuration != own or not _is_ours(webhook)]
        lines += _check_configuration(client, kind, ours)
    registered = Registered(webhooks, is_known, lines)
    lines += _elsewhere(registered)
    for kind, webhooks_of_kind in others.items():
        lines += _further(registered, kind, webhooks_of_kind)
    if webhooks:
        lines += _others(others)
    return registered


def _is_ours(webhook: Webhook) -> bool:
    return webhook.name.endswith(SUFFIX)


def _further(registered: Registered, kind: str, webhooks: Sequence[Webhook]) -> Iterator[Line]:
    """Report further configurations whose webhooks call forewarn."""
    usual = service_name(registered.service) if registered.service else None
    by_name: dict[str, list[Webhook]] = {}
    for webhook in webhooks:
        is_called = webhook.service is not None and service_name(webhook.service) == usual
        if is_called or _is_ours(webhook):
            by_name.setdefault(webhook.configuration, []).append(webhook)
    for name, calling in sorted(by_name.items()):
        names = listed(sorted(webhook.name for webhook in calling), 4)
        text = f"{name} is another configuration that calls forewarn ({names}); the CA injector does not maintain it"
        yield _differing(kind, text, f"kubectl delete {kind.lower()} {name}")


def _elsewhere(registered: Registered) -> Iterator[Line]:
    """Report the webhooks that call another Service than most."""
    usual = service_name(registered.service)
    for name, webhook in registered.webhooks.items():
        if webhook.service is not None and service_name(webhook.service) != usual:
            own, most = ("/".join(names) for names in (service_name(webhook.service), usual))
            text = f"{name} is called at the Service {own}, the others at {most}"
            field, value = ("name", usual[1]) if webhook.service.get("name") != usual[1] else ("namespace", usual[0])
            yield HOOKS.problem(webhook.kind, text, webhook.patch("replace", f"clientConfig/service/{field}", value))


def _read(client: Client, path: str, kind: str) -> list[Webhook] | str:
    """Return the webhooks of all configurations of a kind; a string gives the reason why they are unknown."""
    listed = client.all(path, f"{kind}s")
    objects = listed.objects
    if listed.status == 403:
        one = client.get(f"{path}/forewarn", f"{kind} forewarn")
        if not one.exists and not one.is_missing:
            return one.why
        objects = [one.object] if one.exists else []
    elif listed.why:
        return listed.why
    return [
        Webhook(webhook, kind, str(at(obj, "metadata", "name") or ""), index)
        for obj in objects
        for index, webhook in enumerate(objects_at(obj, "webhooks"))
    ]


def _check_configuration(client: Client, kind: str, ours: Mapping[str, Webhook]) -> Iterator[Line]:
    wanted: Mapping[str, ApiObject] = packaged("shipped.json")[kind]  # webhooks of manifests/base by name
    if not ours:
        if kind == VALIDATING:
            yield HOOKS.problem(kind, "none with a webhook of forewarn: API servers do not call forewarn", AGAIN)
        else:
            text = "none with a webhook of forewarn: no annotations, no default PriorityClasses of namespaces"
            yield HOOKS.warning(kind, text, f"none if intended (overlay audit-only); else {AGAIN}")
        return
    lines = [line for name, webhook in wanted.items() for line in _webhook(client, kind, webhook, ours.get(name))]
    yield from lines
    if not lines:
        yield HOOKS.ok(kind, f"{listed(sorted(ours), 4)}: rules, selectors, matchConditions and timeouts as shipped")


def _webhook(client: Client, kind: str, wanted: ApiObject, webhook: Webhook | None) -> Iterator[Line]:
    name = wanted["name"]
    if webhook is None:
        yield HOOKS.problem(kind, f"the webhook {name} is missing", AGAIN)
        return
    fields = webhook.fields
    uncovered = [rule for rule in _rules(wanted) if not _is_covered(rule, objects_at(fields, "rules"))]
    missing = [f"{operation} of {kind}{group and f'.{group}'}" for group, _, kind, operation, _ in uncovered]
    if missing:
        yield HOOKS.problem(kind, f"{name} is not called for {listed(missing, 5)}", AGAIN)
    if fields.get("matchPolicy") == "Exact":
        text = f"{name}: matchPolicy is Exact, so objects in other API versions are not checked"
        yield HOOKS.problem(kind, text, webhook.patch("replace", "matchPolicy", wanted["matchPolicy"]))
    versions, version = _texts(fields, "admissionReviewVersions"), wanted["admissionReviewVersions"]
    if version[0] not in versions:
        text = f"{name}: admissionReviewVersions is {listed(versions)}, and forewarn answers only {version[0]}"
        yield HOOKS.problem(kind, text, webhook.patch("replace", "admissionReviewVersions", version))
    policy = fields.get("failurePolicy")
    if policy != wanted["failurePolicy"]:
        effect = "there can be two global defaults" if name.startswith("classes.") else "objects are admitted unchecked"
        meant = "Fail, requests are rejected" if policy == "Fail" else f"Ignore, {effect}"
        text = f"{name}: failurePolicy is {policy} instead of {wanted['failurePolicy']}; with {meant}"
        text += " while forewarn does not respond"
        yield _differing(kind, text, webhook.patch("replace", "failurePolicy", wanted["failurePolicy"]))
    yield from _narrowed(client, kind, wanted, webhook)
    yield from _called(kind, wanted, webhook)


def _differing(kind: str, text: str, repair: str) -> Line:
    return HOOKS.warning(kind, text, f"none if intended; else {repair}")


def _narrowed(client: Client, kind: str, wanted: ApiObject, webhook: Webhook) -> Iterator[Line]:
    """Check selectors, matchConditions and the timeout against the shipped webhook `wanted`.

    kubectl apply and helm upgrade merge selectors and matchConditions by key, so additions of users remain.
    """
    name, fields = wanted["name"], webhook.fields
    for selector in _SELECTED:
        if fields.get(selector):
            repair = webhook.patch("replace", selector, {})
            text = f"{name} has the {selector} {json.dumps(fields[selector])}"
            count, total, what = selected(client, selector, fields[selector])
            if total and not count:
                yield HOOKS.problem(kind, f"{text}, which selects none of {total} {what}", repair)
            else:
                some = f", which selects {count} of {total} {what}" if total else ""
                yield _differing(kind, f"{text}{some}: others are not checked", repair)
    shipped_ones, conditions = _conditions(wanted), _conditions(fields)
    for condition in sorted({*shipped_ones, *conditions}):
        named = f'matchCondition "{condition}"'
        if condition not in conditions:
            yield _differing(kind, f"{name} has no {named}", AGAIN)
        elif condition not in shipped_ones:
            removal = webhook.patch("remove", f"matchConditions/{[*conditions].index(condition)}")
            yield _differing(kind, f"{name} has an additional {named}: {conditions[condition]}", removal)
        elif shipped_ones[condition] != conditions[condition]:
            yield _differing(kind, f"{name}: the {named} differs: {conditions[condition]}", AGAIN)
    seconds = fields.get("timeoutSeconds")
    if seconds != wanted["timeoutSeconds"]:
        text = f"{name}: timeoutSeconds is {seconds} instead of {wanted['timeoutSeconds']}; it limits predictions"
        yield _differing(kind, text, webhook.patch("replace", "timeoutSeconds", wanted["timeoutSeconds"]))


def selected(client: Client, field: str, selector: Any) -> tuple[int, int, str]:
    """Return (number of selected objects in the cluster, number of all, their kind); 0 of 0 if unknown."""
    path, what = _SELECTED[field]
    parsed, error = selector_or_error(selector)
    labels = [] if error else [at(obj, "metadata", "labels") or {} for obj in client.all(path, what).objects]
    return sum(parsed is not None and parsed.matches(some) for some in labels), len(labels), what


def _called(kind: str, wanted: ApiObject, webhook: Webhook) -> Iterator[Line]:
    """Check the path of the Service, which can end in a token. For a webhook with a URL, only warn.

    Only users change a path: the manifests do not contain one, and the CA injector only appends the token.
    """
    service = webhook.service
    if service is None:
        url = at(webhook.fields, "clientConfig", "url")
        text = f"{wanted['name']} is called at {url}" if url else f"{wanted['name']} has no address"
        yield HOOKS.warning(kind, text, "none if the webhook runs outside the cluster")
        return
    base = f"/{str(service.get('path') or '').strip('/').partition('/')[0]}"
    path = webhook.path
    if base != path:
        text = f"{wanted['name']} is called at the path {base} instead of {path}"
        yield HOOKS.problem(kind, text, webhook.patch("add", "clientConfig/service/path", path))


def service_name(service: ApiObject) -> tuple[str, str]:
    return str(service.get("namespace") or ""), str(service.get("name") or "")


def _others(others: Mapping[str, Sequence[Webhook]]) -> Iterator[Line]:
    """Report other webhooks that can change Pods and workloads, or must respond before a PriorityClass is stored."""
    every = [webhook for webhooks in others.values() for webhook in webhooks]
    required = [webhook for webhook in every if webhook.fields.get("failurePolicy") != "Ignore"]
    changes = "can also change Pods and workloads; /validate checks the result"
    for webhooks, rules, what in (
        (others.get(MUTATING, ()), _PODS_AND_WORKLOADS, changes),
        (required, _CLASSES, "must also respond before a PriorityClass is stored"),
    ):
        names = {
            f"{webhook.configuration} ({webhook.name})"
            for webhook in webhooks
            if any(_is_covered(rule, objects_at(webhook.fields, "rules")) for rule in rules)
        }
        if names:
            yield HOOKS.ok("other webhooks", f"{listed(sorted(names), 5)} {what}")


Rule = tuple[str, str, str, str, str]
"""Group, version, resource, operation and scope of a webhook rule."""
_LISTS: Final = ("apiGroups", "apiVersions", "resources", "operations")


def _rules(webhook: ApiObject) -> list[Rule]:
    return [
        (group, version, resource, operation, rule["scope"])
        for rule in objects_at(webhook, "rules")
        for group, version, resource, operation in product(*(_texts(rule, field) for field in _LISTS))
    ]


def _is_covered(rule: Rule, rules: Iterable[ApiObject]) -> bool:
    """Report whether one of these webhook rules matches. `*` matches all resources, `*/*` also subresources."""
    group, version, resource, operation, scope = rule
    subresource = resource.partition("/")[2]
    same = {resource, "*/*", f"{resource.partition('/')[0]}/*"} | ({f"*/{subresource}"} if subresource else {"*"})
    sought = dict(zip(_LISTS, ({group, "*"}, {version, "*"}, same, {operation, "*"}), strict=True))
    return any(
        all(values & {*_texts(other, field)} for field, values in sought.items())
        and other.get("scope", "*") in (scope, "*")
        for other in rules
    )


def _conditions(webhook: ApiObject) -> dict[str, str]:
    """Return the matchConditions: name -> CEL expression with normalized blanks."""
    return {
        str(condition.get("name")): " ".join(str(condition.get("expression")).split())
        for condition in objects_at(webhook, "matchConditions")
    }


def _texts(rule: ApiObject, field: str) -> list[str]:
    return [text for text in list_at(rule, field) if isinstance(text, str)]


OBJECTS: Final = Area("responses")
NAME: Final = "forewarn"
INJECTOR: Final = "forewarn-ca-injector"
_DEFAULT: Final = "forewarn-global-default"
_LABEL: Final = "app.kubernetes.io/name"
_HEALTH: Final = 8080
_WEBHOOK: Final = 8443
_HTTPS: Final = 443
"""Default port of a webhook."""
_MAX_PODS: Final = 5
"""Maximum number of replicas to query."""


class Installed(NamedTuple):
    """Names of the installed objects. `serving_secret`: the Secret of a mounted certificate; "" with the CA
    injector.
    """

    namespace: str = NAME
    service: str = NAME
    account: str = NAME
    priority_class: str = ""
    serving_secret: str = ""
    port: int = _WEBHOOK
    """Container port of the webhook."""
    labels: ApiObject = NOTHING
    """Labels of the Deployment's Pods; empty if the Deployment was not read."""
    selector: ApiObject = NOTHING
    """matchLabels of the Deployment."""
    pods: tuple[str, ...] = ()
    """Names of some running replicas."""
    unready: frozenset[str] = frozenset()
    """Those of `pods` whose probes fail. The kubelet's probes pass every NetworkPolicy."""
    health_port: int = _HEALTH
    is_there: bool = False
    """True if the Deployment was found."""
    lines: tuple[Line, ...] = ()


def check_installation(client: Client, registered: Registered) -> Installed:
    """Find the objects by the registered Service, otherwise by the names in the manifests."""
    service = registered.service
    namespace = str(service.get("namespace") or NAME)
    installation = Installed(namespace, str(service.get("name") or NAME))
    lines: list[Line] = []
    seen = client.get(f"/apis/apps/v1/namespaces/{part(namespace)}/deployments/{NAME}", f"Deployment {NAME}")
    if seen.exists:
        installation = _installed_deployment(installation, seen.object)
        lines.append(_deployment(seen.object, namespace))
    elif seen.is_missing and registered.webhooks and registered.service:
        text = f"Deployment {NAME} not found in namespace {quote(namespace)}"
        fix = "none if the webhook runs elsewhere; else apply the manifests again"
        lines.append(OBJECTS.warning("replicas", text, fix))
    elif not seen.is_missing:
        lines.append(OBJECTS.unknown("replicas", seen.why))
    pods = _pods(client, installation)
    lines += _crashed(client, installation, pods)
    lines += _service(client, installation, registered)
    lines += _network_policies(client, installation)
    lines.append(_lease(client, installation))
    running = {name: pod for pod in pods if _runs(pod) and isinstance(name := at(pod, "metadata", "name"), str)}
    unready = frozenset(name for name, pod in running.items() if _fails_probes(pod))
    return installation._replace(pods=tuple(sorted(running)[:_MAX_PODS]), unready=unready, lines=tuple(lines))


def _installed_deployment(installation: Installed, deployment: ApiObject) -> Installed:
    spec = at(deployment, "spec", "template", "spec") or NOTHING
    container = next(iter(list_at(spec, "containers")), NOTHING)
    ports = {
        name: port
        for entry in at(container, "ports") or ()
        if isinstance(name := at(entry, "name"), str) and isinstance(port := at(entry, "containerPort"), int)
    }
    return installation._replace(
        account=str(at(spec, "serviceAccountName") or "default"),
        is_there=True,
        priority_class=str(at(spec, "priorityClassName") or ""),
        serving_secret=_mounted(spec, container),
        health_port=ports.get("health", _HEALTH),
        port=ports.get("webhook", _WEBHOOK),
        labels=mapping(at(deployment, "spec", "template", "metadata", "labels")),
        selector=mapping(at(deployment, "spec", "selector", "matchLabels")),
    )


def _mounted(spec: ApiObject, container: ApiObject) -> str:
    """Return the Secret that is mounted at FOREWARN_TLS_CERT; empty if there is none."""
    files = (at(env, "value") for env in at(container, "env") or () if at(env, "name") == "FOREWARN_TLS_CERT")
    file = str(next(files, "") or "")
    mounts = [
        at(mount, "name")
        for mount in at(container, "volumeMounts") or ()
        if file.startswith(f"{str(at(mount, 'mountPath') or '-').rstrip('/')}/")
    ]
    volumes = (volume for volume in at(spec, "volumes") or () if at(volume, "name") in mounts)
    return str(next(filter(None, (at(volume, "secret", "secretName") for volume in volumes)), ""))


def _deployment(deployment: ApiObject, namespace: str) -> Line:
    wanted, ready = at(deployment, "spec", "replicas"), at(deployment, "status", "readyReplicas") or 0
    reason = "".join(
        f": {at(condition, 'message') or at(condition, 'reason')}"
        for condition in at(deployment, "status", "conditions") or ()
        if at(condition, "type") == "ReplicaFailure" and at(condition, "status") == "True"
    )
    if wanted == 0:
        fix = f"kubectl -n {namespace} scale deployment/{NAME} --replicas=2"
        return OBJECTS.problem("replicas", "the Deployment is scaled to 0", fix)
    fix = f"kubectl -n {namespace} get pods; kubectl -n {namespace} describe replicaset"
    if not ready:
        return OBJECTS.problem("replicas", f"none of {wanted} is ready{reason}", fix)
    if ready != wanted:
        return OBJECTS.warning("replicas", f"{ready} of {wanted} are ready{reason}", fix)
    return OBJECTS.ok("replicas", f"{ready} of {wanted} {'is' if ready == 1 else 'are'} ready")


def _service(client: Client, installation: Installed, registered: Registered) -> Iterator[Line]:
    if registered.webhooks and not registered.service:
        return  # API servers call a URL
    namespace, name = part(installation.namespace), part(installation.service)
    seen = client.get(f"/api/v1/namespaces/{namespace}/services/{name}", f"Service {installation.service}")
    if not seen.exists:
        text = f"Service {installation.service} not found in the namespace {installation.namespace}"
        yield OBJECTS.absent("Service", seen, text, AGAIN)
    elif at(seen.object, "spec", "type") == "ExternalName":
        yield OBJECTS.ok("Service", f"points to {at(seen.object, 'spec', 'externalName')}")
    else:
        yield from _ports(seen.object, installation, registered)
        yield from _selector(seen.object, installation)
        yield _endpoints(client, installation)


def _ports(service: ApiObject, installation: Installed, registered: Registered) -> Iterator[Line]:
    """Check that each webhook calls the Service at a port that leads to the container port of the webhook.

    kubectl apply merges ports by number: it retains a changed port and adds the shipped one; the API server then
    rejects the Service.
    """
    entries = [entry for entry in at(service, "spec", "ports") or () if isinstance(at(entry, "port"), int)]
    targets = ("webhook", installation.port)
    leading = [entry["port"] for entry in entries if entry.get("targetPort", entry["port"]) in targets]
    name = (installation.namespace, installation.service)
    if not leading:
        text = f"none of its ports leads to container port {installation.port}, where forewarn listens"
        wanted = [
            {"name": "webhook", "port": _HTTPS, "targetPort": "webhook"},
            {"name": "health", "port": _HEALTH, "targetPort": "health"},
        ]
        what = f"service {installation.service} -n {installation.namespace}"
        fix = kubectl_patch(what, {"op": "replace", "path": "/spec/ports", "value": wanted})
        yield OBJECTS.problem("Service", text, fix)
    for webhook_name, webhook in sorted(registered.webhooks.items()):
        called = webhook.service
        if called is None:
            continue
        if service_name(called) != name:
            text = f"{webhook_name} calls the Service {'/'.join(service_name(called))} instead of {'/'.join(name)}"
            meant = {**called, "namespace": name[0], "name": name[1], "path": webhook.path}
            yield OBJECTS.problem("Service", text, webhook.patch("replace", "clientConfig/service", meant))
        elif leading and (port := called.get("port") or _HTTPS) not in leading:
            text = f"{webhook_name} calls port {port}, which the Service does not have"
            if port in [entry["port"] for entry in entries]:
                text = f"{webhook_name} calls port {port}, which does not lead to the port of the webhook"
            yield OBJECTS.problem("Service", text, webhook.patch("add", "clientConfig/service/port", leading[0]))


def _selector(service: ApiObject, installation: Installed) -> Iterator[Line]:
    """Check that the Service selects the Deployment's Pods: kubectl apply keeps labels that users added."""
    selector = mapping(at(service, "spec", "selector"))
    if not installation.selector or selector == installation.selector:
        return
    text = f"its selector {json.dumps(selector)} selects no Pod of the Deployment"
    what = f"service {installation.service} -n {installation.namespace}"
    fix = kubectl_patch(what, {"op": "add", "path": "/spec/selector", "value": installation.selector})
    if selector and selector.items() <= installation.labels.items():
        text = f"its selector is {json.dumps(selector)}, that of the Deployment is {json.dumps(installation.selector)}"
        yield OBJECTS.warning("Service", text, f"none if intended; else {fix}")
    else:
        yield OBJECTS.problem("Service", text, fix)


def _endpoints(client: Client, installation: Installed) -> Line:
    path = f"/apis/discovery.k8s.io/v1/namespaces/{part(installation.namespace)}/endpointslices"
    slices = client.all(path, "EndpointSlices", {"labelSelector": f"kubernetes.io/service-name={installation.service}"})
    if slices.why:
        return OBJECTS.unknown("Service", slices.why)
    endpoints = [endpoint for obj in slices.objects for endpoint in at(obj, "endpoints") or ()]
    ready = [endpoint for endpoint in endpoints if at(endpoint, "conditions", "ready") is not False]
    if not ready:
        text = f"0 of {len(endpoints)} endpoints ready" if endpoints else "no endpoints"
        fix = f"kubectl -n {installation.namespace} get pods --show-labels; are they ready, does the selector match?"
        return OBJECTS.problem("Service", text, fix)
    return OBJECTS.ok("Service", f"{plural(len(ready), 'endpoint')} ready")


def _pods(client: Client, installation: Installed) -> list[dict[str, Any]]:
    """Return the Pods of the replicas and of the CA injector that are not terminating."""
    query = {"labelSelector": f"{_LABEL} in ({NAME}, {INJECTOR})"}
    pods = client.all(f"/api/v1/namespaces/{part(installation.namespace)}/pods", "pods", query).objects
    return [pod for pod in pods if not at(pod, "metadata", "deletionTimestamp")]


def _runs(pod: ApiObject) -> bool:
    """Report whether this is a replica whose container runs."""
    is_replica = at(pod, "metadata", "labels", _LABEL) != INJECTOR
    return is_replica and at(pod, "status", "phase") == "Running" and not _stopped(pod)


def _fails_probes(pod: ApiObject) -> bool:
    conditions = list_at(pod, "status", "conditions")
    return any(at(condition, "type") == "Ready" and at(condition, "status") == "False" for condition in conditions)


def _stopped(pod: ApiObject) -> ApiObject | None:
    """Return the status of the first container that should run and does not; None if there is none."""
    for status in list_at(pod, "status", "containerStatuses"):
        if at(status, "state", "waiting") or at(status, "state", "terminated"):
            return status if isinstance(status, dict) else None
    return None


def _crashed(client: Client, installation: Installed, pods: Sequence[ApiObject]) -> Iterator[Line]:
    """Report containers that do not run, with the last line of their logs."""
    for pod in pods:
        if (status := _stopped(pod)) is None:
            continue
        name, waiting = str(at(pod, "metadata", "name")), at(status, "state", "waiting") or NOTHING
        ended = at(status, "state", "terminated") or at(status, "lastState", "terminated")
        text = f"{name}: {at(waiting, 'reason') or at(ended, 'reason') or 'does not run'}"
        if not ended:  # it waits for an image, a volume or a node
            text += f": {message}" if (message := at(waiting, "message")) else ""
            yield OBJECTS.problem("Pods", text, f"kubectl -n {installation.namespace} describe pod {name}")
            continue
        previous = {"previous": "true"} if waiting else {}
        path = f"/api/v1/namespaces/{part(installation.namespace)}/pods/{part(name)}/log"
        seen = client.text(path, f"the log of {name}", {"tailLines": "1", **previous})
        last = _last_words(seen.text) if seen.exists else seen.why
        text += f", exit code {at(ended, 'exitCode')}, {at(status, 'restartCount') or 0} restarts: {last or 'no log'}"
        logs = f"kubectl -n {installation.namespace} logs {name}{' --previous' if waiting else ''}"
        yield OBJECTS.problem("Pods", text, f"correct what its log names: {logs}")


def _last_words(log: str) -> str:
    """Return the message and reason in the last line of a log."""
    line = log.strip().rpartition("\n")[2]
    with suppress(ValueError, RecursionError):
        fields = json.loads(line)
        if isinstance(fields, dict):
            return ": ".join(str(fields[key]) for key in ("message", "reason") if fields.get(key))
    return line


def _network_policies(client: Client, installation: Installed) -> Iterator[Line]:
    """Check that the NetworkPolicies that select the replicas admit API servers, which no selector matches."""
    if not installation.labels:
        return
    namespace = installation.namespace
    policies = client.all(f"/apis/networking.k8s.io/v1/namespaces/{part(namespace)}/networkpolicies", "NetworkPolicies")
    if policies.why:
        yield OBJECTS.unknown("NetworkPolicy", policies.why)
        return
    selecting = [policy for policy in policies.objects if _restricts(policy, installation, "Ingress")]
    rules = [rule for policy in selecting for rule in at(policy, "spec", "ingress") or ()]
    names = listed(sorted(str(at(policy, "metadata", "name")) for policy in selecting))
    port = installation.port
    if selecting and not any(_admits_api_servers(rule, port) for rule in rules):
        text = f"{names} select the Pods and admit no API server on port {port}, if the network plugin enforces them"
        edit = f"kubectl -n {namespace} edit networkpolicy {names}"
        fix = f"allow port {port} from everywhere, or from the addresses of the API servers: {edit}"
        yield OBJECTS.warning("NetworkPolicy", text, fix)
    else:
        reached = _egress([policy for policy in policies.objects if _restricts(policy, installation, "Egress")])
        text = f"{names or 'none selects the Pods'}: API servers reach port {port}; forewarn reaches {reached}"
        yield OBJECTS.ok("NetworkPolicy", text)


def _egress(policies: Sequence[ApiObject]) -> str:
    """Describe the addresses that NetworkPolicies let forewarn reach."""
    if not policies:
        return "any address"
    rules = [rule for policy in policies for rule in list_at(policy, "spec", "egress")]
    ports = {at(port, "port") for rule in rules if not at(rule, "to") for port in list_at(rule, "ports") or ({},)}
    if not ports:
        return "only the addresses in its rules"
    return "any address" if None in ports else f"any address on {listed(sorted(map(str, ports)))}"


def _restricts(policy: ApiObject, installation: Installed, direction: str) -> bool:
    types = at(policy, "spec", "policyTypes")
    selector, _ = selector_or_error(at(policy, "spec", "podSelector") or {})
    selects = selector is not None and selector.matches(installation.labels)
    return selects and (direction in types if isinstance(types, list) else direction == "Ingress")


def _admits_api_servers(rule: Any, port: int) -> bool:
    """Report whether an ingress rule admits connections to the port from everywhere, or from an address block."""
    peers, ports = at(rule, "from") or (), at(rule, "ports") or ()
    return (not peers or any(at(peer, "ipBlock") for peer in peers)) and (
        not ports or any(_is_port(entry, port) for entry in ports)
    )


def _is_port(entry: Any, port: int) -> bool:
    first, last = at(entry, "port"), at(entry, "endPort")
    if at(entry, "protocol") not in (None, "TCP"):
        return False
    if isinstance(first, int):
        return first <= port <= (last if isinstance(last, int) else first)
    return first in (None, "webhook")


def _lease(client: Client, installation: Installed) -> Line:
    seen = client.get(lease_path(part(installation.namespace), _DEFAULT), f"the Lease {_DEFAULT}")
    if seen.exists:
        holder = at(seen.object, "spec", "holderIdentity")
        return OBJECTS.ok("Lease", f"{_DEFAULT}: {f'held for PriorityClass {holder}' if holder else 'free'}")
    text = f"{_DEFAULT} not found: forewarn denies a new global default"
    fix = f"a replica creates it in 5 s, if it runs and its Role allows it; else {AGAIN}"
    return OBJECTS.absent("Lease", seen, text, fix)


TRUST: Final = Area("trust")
_SILENT: Final = timedelta(minutes=5)
"""Age of the Lease at which the CA injector counts as stopped. It renews every ten seconds; clocks differ."""


def check_trust(client: Client, registered: Registered, installed: Installed, now: datetime) -> Iterator[Line]:
    """Check caBundle, the CA injector and the certificate."""
    injector, fix = _injector(client, installed, now)
    yield from injector
    bundles: dict[str, list[str]] = {}
    for name, webhook in sorted(registered.webhooks.items()):
        bundles.setdefault(str(at(webhook.fields, "clientConfig", "caBundle") or ""), []).append(name)
    usual = max(bundles, key=lambda text: len(bundles[text]), default="")
    for text, names in bundles.items():
        if not text:
            yield TRUST.problem("caBundle", f"{listed(names)}: empty, so API servers trust no certificate", fix)
        elif _decoded(text) is None:
            yield TRUST.problem("caBundle", f"{listed(names)}: not base64", fix)
        elif text != usual:
            yield TRUST.warning("caBundle", f"{listed(names)}: differs from the other webhooks", fix)
    yield from _certificate(
        client, installed, {_decoded(text) or b"": names for text, names in bundles.items()}, now, fix
    )


def _injector(client: Client, installed: Installed, now: datetime) -> tuple[list[Line], str]:
    """Return lines about the CA injector, and the fix for a certificate or caBundle, which depends on it."""
    namespace = installed.namespace
    if installed.serving_secret:  # cert-manager or another issuer renews it
        return [], f"with cert-manager: kubectl -n {namespace} describe certificate"
    check, path = "CA injector", f"/apis/apps/v1/namespaces/{part(namespace)}/deployments/{INJECTOR}"
    if at(client.get(path, f"Deployment {INJECTOR}").object, "spec", "replicas") == 0:
        start = f"kubectl -n {namespace} scale deployment/{INJECTOR} --replicas=1"
        text = "the Deployment is scaled to 0: no certificate is issued or renewed, and no caBundle is set"
        return [TRUST.problem(check, text, start)], f"start the CA injector: {start}"
    seen = client.get(lease_path(part(namespace), INJECTOR), f"the Lease {INJECTOR}")
    pods = f"kubectl -n {namespace} get pods -l app.kubernetes.io/name={INJECTOR}; start it if there is none"
    spec = at(seen.object, "spec")
    holder, renewed = at(spec, "holderIdentity"), moment_of(str(at(spec, "renewTime")))
    if not seen.exists:
        line = TRUST.absent(check, seen, f"Lease {INJECTOR} not found", f"{pods}; otherwise {AGAIN}")
    elif not holder or renewed is None:
        text = "it has stopped and released its Lease" if at(spec, "leaseTransitions") else "none has run yet"
        line = TRUST.problem(check, f"{text}: no certificate is issued or renewed", pods)
    elif now - renewed > _SILENT:
        text = f"{holder} has not renewed its Lease since {renewed:%Y-%m-%d %H:%M:%S}Z"
        line = TRUST.problem(check, f"{text}: certificates are not renewed", pods)
    else:
        line = TRUST.ok(check, f"{holder} is the leader")
        return [line], f"wait a minute; then kubectl -n {namespace} logs deployment/{INJECTOR}"
    return [line], "see the check CA injector"


def _certificate(
    client: Client, installed: Installed, bundles: Mapping[bytes, Sequence[str]], now: datetime, fix: str
) -> Iterator[Line]:
    """Check the certificate in the Secret. `bundles`: caBundle -> names of the webhooks that have it."""
    name = installed.serving_secret or "forewarn-serving-cert"
    seen = client.get(f"/api/v1/namespaces/{part(installed.namespace)}/secrets/{part(name)}", f"the Secret {name}")
    if not seen.exists:
        create = f"kubectl -n {installed.namespace} create secret generic {name}; forewarn-ca-injector fills it in 5 s"
        yield TRUST.absent("certificate", seen, f"Secret {name} not found", fix if installed.serving_secret else create)
        return
    chain = _decoded(text_at(seen.object, "data", "tls.crt"))
    if not chain:
        yield TRUST.problem("certificate", f"Secret {name} is empty: no replica has a certificate", fix)
        return
    try:
        from forewarn.webhook.x509 import Caller, NoCertificate, rejections, validity_of
    except ModuleNotFoundError as error:
        yield TRUST.unknown("certificate", f"{error.name} is not installed; install forewarn with the extra `live`")
        return
    try:
        ends, service = validity_of(chain).not_after, f"{installed.service}.{installed.namespace}.svc"
    except NoCertificate as fault:
        yield TRUST.problem("certificate", f"Secret {name}: {fault}", fix)
        return
    faults: dict[str, list[str]] = {}
    """Reason why API servers reject the certificate -> names of the webhooks."""
    for bundle, names in bundles.items() or ((b"", ()),):
        try:
            whys = [*rejections(chain, Caller(service, bundle), now)]
        except NoCertificate as fault:
            whys = [f"caBundle has {fault}"]
        for why in whys:
            faults.setdefault(why, []).extend(names)
    for why, names in faults.items():
        webhooks = f" for {listed(names)}" if names else ""
        yield TRUST.problem("certificate", f"{why}: API servers do not trust it{webhooks}", fix)
    until = f"{ends:%Y-%m-%d %H:%M}Z"
    if now < ends < now + timedelta(days=1):
        yield TRUST.warning("certificate", f"expires at {until}, in less than a day, and has not been renewed", fix)
    elif not faults:
        signed = "signed by a CA of caBundle" if any(bundles) else "caBundle not compared"
        yield TRUST.ok("certificate", f"valid for {service} until {until}, {signed}")


def _decoded(text: str) -> bytes | None:
    """Return the bytes of a text in base64; None if it is not base64."""
    with suppress(ValueError):
        return base64.b64decode(text, validate=True)
    return None
