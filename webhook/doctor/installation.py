"""Checks of the installed objects: Deployment, Service and endpoints."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from forewarn.policies.findings import plural
from forewarn.policies.objects.fields import NOTHING, at
from forewarn.webhook.doctor.client import part
from forewarn.webhook.doctor.registration import service_name
from forewarn.webhook.doctor.report import AGAIN, Area, kubectl_patch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from forewarn.policies.objects.fields import ApiObject
    from forewarn.webhook.doctor.client import Client
    from forewarn.webhook.doctor.registration import Registered
    from forewarn.webhook.doctor.report import Line

AREA: Final = Area("responses")
NAME: Final = "forewarn"
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
        text = f"Deployment {NAME} not found in the namespace {namespace}"
        lines.append(
            AREA.warning("replicas", text, "none if the webhook runs elsewhere; else apply the manifests again")
        )
    elif not seen.is_missing:
        lines.append(AREA.unknown("replicas", seen.why))
    lines += _service(client, installation, registered)
    return installation._replace(pods=_pods(client, installation), lines=tuple(lines))


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
    """Check that the Service selects the Deployment's Pods.

    kubectl apply merges selectors, so a label that a user added remains.
    """
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


def _pods(client: Client, installation: Installed) -> tuple[str, ...]:
    query = {"labelSelector": f"app.kubernetes.io/name={NAME}"}
    listed = client.all(f"/api/v1/namespaces/{part(installation.namespace)}/pods", "pods", query)
    running: list[Any] = [at(pod, "metadata", "name") for pod in listed.objects if _runs(pod)]
    return tuple(sorted(name for name in running if isinstance(name, str)))[:_MAX_PODS]


def _runs(pod: ApiObject) -> bool:
    return at(pod, "status", "phase") == "Running" and not at(pod, "metadata", "deletionTimestamp")
