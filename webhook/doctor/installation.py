"""Checks of the installed objects: Deployment, Service and endpoints."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple

from forewarn.policies.findings import listed, plural, quote
from forewarn.policies.objects.fields import NOTHING, ApiObject, at
from forewarn.policies.selectors import InvalidSelector, parse_label_selector
from forewarn.webhook.controllers.leader import lease_path
from forewarn.webhook.doctor.client import Client, part
from forewarn.webhook.doctor.registration import Registered, service_name
from forewarn.webhook.doctor.report import AGAIN, Area, Line, kubectl_patch

AREA: Final = Area("responses")
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
    health_port: int = _HEALTH
    is_there: bool = False
    """True if the Deployment was found."""
    lines: tuple[Line, ...] = ()


def check(client: Client, registered: Registered) -> Installed:
    """Find the objects by the registered Service, otherwise by the names in the manifests."""
    service = registered.service
    namespace = str(service.get("namespace") or NAME)
    installation = Installed(namespace, str(service.get("name") or NAME))
    lines: list[Line] = []
    seen = client.get(f"/apis/apps/v1/namespaces/{part(namespace)}/deployments/{NAME}", f"Deployment {NAME}")
    if seen.exists:
        installation = _of_deployment(installation, seen.object)
        lines += _deployment(seen.object, namespace)
    elif seen.is_missing and registered.webhooks and registered.service:
        text = f"Deployment {NAME} not found in namespace {quote(namespace)}"
        lines.append(
            AREA.warning("replicas", text, "none if the webhook runs elsewhere; else apply the manifests again")
        )
    elif not seen.is_missing:
        lines.append(AREA.unknown("replicas", seen.why))
    pods = _pods(client, installation)
    lines += _crashed(client, installation, pods)
    lines += _service(client, installation, registered)
    lines += _network_policies(client, installation)
    lines += _lease(client, installation)
    running = sorted(name for pod in pods if _runs(pod) and isinstance(name := at(pod, "metadata", "name"), str))
    return installation._replace(pods=tuple(running[:_MAX_PODS]), lines=tuple(lines))


def _of_deployment(installation: Installed, deployment: ApiObject) -> Installed:
    spec = at(deployment, "spec", "template", "spec") or NOTHING
    containers = at(spec, "containers")
    container = containers[0] if isinstance(containers, list) and containers else NOTHING
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
        labels=_labels(at(deployment, "spec", "template", "metadata", "labels")),
        selector=_labels(at(deployment, "spec", "selector", "matchLabels")),
    )


def _labels(value: Any) -> ApiObject:
    return value if isinstance(value, dict) else NOTHING


def _mounted(spec: ApiObject, container: ApiObject) -> str:
    """The Secret that is mounted at FOREWARN_TLS_CERT; empty if there is none."""
    files = [
        str(at(env, "value") or "") for env in at(container, "env") or () if at(env, "name") == "FOREWARN_TLS_CERT"
    ]
    if not files:
        return ""
    mounts = [
        at(mount, "name")
        for mount in at(container, "volumeMounts") or ()
        if files[0].startswith(f"{str(at(mount, 'mountPath') or '-').rstrip('/')}/")
    ]
    secrets = [
        at(volume, "secret", "secretName") for volume in at(spec, "volumes") or () if at(volume, "name") in mounts
    ]
    return str(next(filter(None, secrets), ""))


def _deployment(deployment: ApiObject, namespace: str) -> Iterator[Line]:
    wanted, ready = at(deployment, "spec", "replicas"), at(deployment, "status", "readyReplicas") or 0
    why = [
        str(at(condition, "message") or at(condition, "reason"))
        for condition in at(deployment, "status", "conditions") or ()
        if at(condition, "type") == "ReplicaFailure" and at(condition, "status") == "True"
    ]
    fix = f"kubectl -n {namespace} get pods; kubectl -n {namespace} describe replicaset"
    reason = "".join(f": {text}" for text in why)
    if wanted == 0:
        fix = f"kubectl -n {namespace} scale deployment/{NAME} --replicas=2"
        yield AREA.problem("replicas", "the Deployment is scaled to 0", fix)
    elif not ready:
        yield AREA.problem("replicas", f"none of {wanted} is ready{reason}", fix)
    elif ready != wanted:
        yield AREA.warning("replicas", f"{ready} of {wanted} are ready{reason}", fix)
    else:
        yield AREA.ok("replicas", f"{ready} of {wanted} {'is' if ready == 1 else 'are'} ready")


def _service(client: Client, installation: Installed, registered: Registered) -> Iterator[Line]:
    if registered.webhooks and not registered.service:
        return  # called by a URL
    namespace, name = part(installation.namespace), part(installation.service)
    seen = client.get(f"/api/v1/namespaces/{namespace}/services/{name}", f"Service {installation.service}")
    if seen.is_missing:
        text = f"Service {installation.service} not found in the namespace {installation.namespace}"
        yield AREA.problem("Service", text, AGAIN)
        return
    if not seen.exists:
        yield AREA.unknown("Service", seen.why)
        return
    if at(seen.object, "spec", "type") == "ExternalName":
        yield AREA.ok("Service", f"points to {at(seen.object, 'spec', 'externalName')}")
        return
    yield from _ports(seen.object, installation, registered)
    yield from _selector(seen.object, installation)
    yield from _endpoints(client, installation)


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
        yield AREA.problem(
            "Service", text, kubectl_patch(what, {"op": "replace", "path": "/spec/ports", "value": wanted})
        )
    for webhook_name, webhook in sorted(registered.webhooks.items()):
        called = webhook.service
        if called is None:
            continue
        if service_name(called) != name:
            text = f"{webhook_name} calls the Service {'/'.join(service_name(called))} instead of {'/'.join(name)}"
            meant = {**called, "namespace": name[0], "name": name[1], "path": webhook.path}
            yield AREA.problem("Service", text, webhook.patch("replace", "clientConfig/service", meant))
        elif leading and (port := called.get("port") or _HTTPS) not in leading:
            text = f"{webhook_name} calls port {port}, which the Service does not have"
            if port in [entry["port"] for entry in entries]:
                text = f"{webhook_name} calls port {port}, which does not lead to the port of the webhook"
            yield AREA.problem("Service", text, webhook.patch("add", "clientConfig/service/port", leading[0]))


def _selector(service: ApiObject, installation: Installed) -> Iterator[Line]:
    """Check that the Service selects the Deployment's Pods: kubectl apply keeps labels that users added."""
    selector = _labels(at(service, "spec", "selector"))
    if not installation.selector or selector == installation.selector:
        return
    text = f"its selector {json.dumps(selector)} selects no Pod of the Deployment"
    what = f"service {installation.service} -n {installation.namespace}"
    fix = kubectl_patch(what, {"op": "add", "path": "/spec/selector", "value": installation.selector})
    if selector and selector.items() <= installation.labels.items():
        text = f"its selector is {json.dumps(selector)}, that of the Deployment is {json.dumps(installation.selector)}"
        yield AREA.warning("Service", text, f"none if intended; else {fix}")
    else:
        yield AREA.problem("Service", text, fix)


def _endpoints(client: Client, installation: Installed) -> Iterator[Line]:
    path = f"/apis/discovery.k8s.io/v1/namespaces/{part(installation.namespace)}/endpointslices"
    slices = client.all(path, "EndpointSlices", {"labelSelector": f"kubernetes.io/service-name={installation.service}"})
    if slices.why:
        yield AREA.unknown("Service", slices.why)
        return
    endpoints = [endpoint for obj in slices.objects for endpoint in at(obj, "endpoints") or ()]
    ready = [endpoint for endpoint in endpoints if at(endpoint, "conditions", "ready") is not False]
    if not ready:
        text = f"0 of {len(endpoints)} endpoints ready" if endpoints else "no endpoints"
        fix = f"kubectl -n {installation.namespace} get pods --show-labels; are they ready, does the selector match?"
        yield AREA.problem("Service", text, fix)
    else:
        yield AREA.ok("Service", f"{plural(len(ready), 'endpoint')} ready")


def _pods(client: Client, installation: Installed) -> list[dict[str, Any]]:
    """The Pods of the replicas and of the CA injector that are not terminating."""
    query = {"labelSelector": f"{_LABEL} in ({NAME}, {INJECTOR})"}
    pods = client.all(f"/api/v1/namespaces/{part(installation.namespace)}/pods", "pods", query).objects
    return [pod for pod in pods if not at(pod, "metadata", "deletionTimestamp")]


def _runs(pod: ApiObject) -> bool:
    """Report whether this is a replica whose container runs."""
    is_replica = at(pod, "metadata", "labels", _LABEL) != INJECTOR
    return is_replica and at(pod, "status", "phase") == "Running" and not _stopped(pod)


def _stopped(pod: ApiObject) -> ApiObject | None:
    """The status of the first container that should run and does not; None if there is none."""
    statuses = at(pod, "status", "containerStatuses")
    for status in statuses if isinstance(statuses, list) else ():
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
        if not ended:  # no image, no volume, no node
            text += f": {message}" if (message := at(waiting, "message")) else ""
            yield AREA.problem("Pods", text, f"kubectl -n {installation.namespace} describe pod {name}")
            continue
        previous = {"previous": "true"} if waiting else {}
        path = f"/api/v1/namespaces/{part(installation.namespace)}/pods/{part(name)}/log"
        seen = client.text(path, f"the log of {name}", {"tailLines": "1", **previous})
        last = _last_words(seen.text) if seen.exists else seen.why
        text += f", exit code {at(ended, 'exitCode')}, {at(status, 'restartCount') or 0} restarts: {last or 'no log'}"
        logs = f"kubectl -n {installation.namespace} logs {name}{' --previous' if waiting else ''}"
        yield AREA.problem("Pods", text, f"correct what its log names: {logs}")


def _last_words(log: str) -> str:
    """The message and reason in the last line of a log."""
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
    path = f"/apis/networking.k8s.io/v1/namespaces/{part(namespace)}/networkpolicies"
    policies = client.all(path, "NetworkPolicies")
    if policies.why:
        yield AREA.unknown("NetworkPolicy", policies.why)
        return
    selecting = [policy for policy in policies.objects if _restricts(policy, installation)]
    rules = [rule for policy in selecting for rule in at(policy, "spec", "ingress") or ()]
    names = listed(sorted(str(at(policy, "metadata", "name")) for policy in selecting))
    port = installation.port
    if selecting and not any(_admits_api_servers(rule, port) for rule in rules):
        text = f"{names} select the Pods and admit no API server on port {port}, if the network plugin enforces them"
        fix = (
            f"allow port {port} from everywhere, or from the addresses of the API servers: kubectl -n {namespace} edit "
        )
        yield AREA.warning("NetworkPolicy", text, f"{fix}networkpolicy {names}")
    else:
        yield AREA.ok("NetworkPolicy", f"{names or 'none selects the Pods'}: API servers reach port {port}")


def _restricts(policy: ApiObject, installation: Installed) -> bool:
    types = at(policy, "spec", "policyTypes")
    with suppress(InvalidSelector):
        selector = parse_label_selector(at(policy, "spec", "podSelector") or {})
        selects = selector is not None and selector.matches(installation.labels)
        return selects and (not isinstance(types, list) or "Ingress" in types)
    return False


def _admits_api_servers(rule: Any, port: int) -> bool:
    """Report whether an ingress rule admits the port from everywhere, or from an address block."""
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


def _lease(client: Client, installation: Installed) -> Iterator[Line]:
    seen = client.get(lease_path(part(installation.namespace), _DEFAULT), f"the Lease {_DEFAULT}")
    if seen.is_missing:
        text = f"{_DEFAULT} not found: forewarn denies a new global default"
        yield AREA.problem(
            "Lease", text, f"a replica creates it in 5 s, if it runs and its Role allows it; else {AGAIN}"
        )
    elif seen.exists:
        holder = at(seen.object, "spec", "holderIdentity")
        yield AREA.ok("Lease", f"{_DEFAULT}: {f'held for PriorityClass {holder}' if holder else 'free'}")
    else:
        yield AREA.unknown("Lease", seen.why)
