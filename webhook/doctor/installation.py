"""What is installed: namespace, Deployment, Service and what is behind it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from policies.findings import plural
from policies.objects.fields import NOTHING, at
from webhook.doctor.looking import part
from webhook.doctor.report import AGAIN, Area

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.objects.fields import ApiObject
    from webhook.doctor.looking import Looks
    from webhook.doctor.registration import Registered
    from webhook.doctor.report import Line

AREA: Final = Area("answering")
NAME: Final = "forewarn"
_HEALTH: Final = 8080
_MOST_PODS: Final = 5
"""Replicas that are asked how they are, one after the other."""


class Installed(NamedTuple):
    """Where things are. `serving_secret`: that of a mounted certificate, empty where the CA injector issues it."""

    namespace: str = NAME
    service: str = NAME
    account: str = NAME
    priority_class: str = ""
    serving_secret: str = ""
    pods: tuple[str, ...] = ()
    """Names of replicas that run, a few of them."""
    health_port: int = _HEALTH
    is_there: bool = False
    """Whether a Deployment of that name was found."""
    lines: tuple[Line, ...] = ()


def look(looks: Looks, registered: Registered) -> Installed:
    """Find the parts, by the Service that is registered, else by what the manifests call them."""
    service = registered.service
    namespace = str(service.get("namespace") or NAME)
    found = Installed(namespace, str(service.get("name") or NAME))
    lines: list[Line] = []
    seen = looks.get(f"/apis/apps/v1/namespaces/{part(namespace)}/deployments/{NAME}", f"Deployment {NAME}")
    if seen.there:
        found = _of_deployment(found, seen.object)
        lines += _deployment(seen.object, namespace)
    elif seen.is_missing and registered.webhooks and registered.service:
        told = f"there is no Deployment {NAME} in the namespace {namespace}"
        lines.append(AREA.warning("replicas", told, "nothing, if the webhook runs elsewhere; else apply it again"))
    elif not seen.is_missing:
        lines.append(AREA.unknown("replicas", seen.why))
    lines += _service(looks, found, registered)
    return found._replace(pods=_pods(looks, found), lines=tuple(lines))


def _of_deployment(found: Installed, deployment: ApiObject) -> Installed:
    spec = at(deployment, "spec", "template", "spec") or NOTHING
    containers = at(spec, "containers")
    container = containers[0] if isinstance(containers, list) and containers else NOTHING
    ports = at(container, "ports") or ()
    health = [at(port, "containerPort") for port in ports if at(port, "name") == "health"]
    return found._replace(
        account=str(at(spec, "serviceAccountName") or "default"),
        is_there=True,
        priority_class=str(at(spec, "priorityClassName") or ""),
        serving_secret=_mounted(spec, container),
        health_port=health[0] if health and isinstance(health[0], int) else _HEALTH,
    )


def _mounted(spec: ApiObject, container: ApiObject) -> str:
    """The Secret with the certificate, where one is mounted and named by FOREWARN_TLS_CERT."""
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
    said = "".join(f": {text}" for text in why)
    if wanted == 0:
        fix = f"kubectl -n {namespace} scale deployment/{NAME} --replicas=2"
        yield AREA.problem("replicas", "the Deployment is scaled to 0", fix)
    elif not ready:
        yield AREA.problem("replicas", f"none of {wanted} is ready{said}", fix)
    elif ready != wanted:
        yield AREA.warning("replicas", f"{ready} of {wanted} are ready{said}", fix)
    else:
        yield AREA.ok("replicas", f"{ready} of {wanted} {'is' if ready == 1 else 'are'} ready")


def _service(looks: Looks, found: Installed, registered: Registered) -> Iterator[Line]:
    if registered.webhooks and not registered.service:
        return  # called by a URL
    namespace, name = part(found.namespace), part(found.service)
    seen = looks.get(f"/api/v1/namespaces/{namespace}/services/{name}", f"Service {found.service}")
    if seen.is_missing:
        told = f"there is no Service {found.service} in the namespace {found.namespace}"
        yield AREA.problem("Service", told, AGAIN)
        return
    if not seen.there:
        yield AREA.unknown("Service", seen.why)
        return
    if at(seen.object, "spec", "type") == "ExternalName":
        yield AREA.ok("Service", f"leads to {at(seen.object, 'spec', 'externalName')}")
        return
    port = registered.service.get("port") or 443
    if port not in [at(entry, "port") for entry in at(seen.object, "spec", "ports") or ()]:
        yield AREA.problem("Service", f"it has no port {port}, which is registered", AGAIN)
    yield from _endpoints(looks, found)


def _endpoints(looks: Looks, found: Installed) -> Iterator[Line]:
    path = f"/apis/discovery.k8s.io/v1/namespaces/{part(found.namespace)}/endpointslices"
    slices = looks.all(path, "EndpointSlices", {"labelSelector": f"kubernetes.io/service-name={found.service}"})
    if slices.why:
        yield AREA.unknown("Service", slices.why)
        return
    endpoints = [endpoint for obj in slices.objects for endpoint in at(obj, "endpoints") or ()]
    ready = [endpoint for endpoint in endpoints if at(endpoint, "conditions", "ready") is not False]
    if not ready:
        told = f"no endpoint is ready of {len(endpoints)}" if endpoints else "it has no endpoints"
        fix = f"kubectl -n {found.namespace} get pods --show-labels: does the Service select them, are they ready?"
        yield AREA.problem("Service", told, fix)
    else:
        yield AREA.ok("Service", f"{plural(len(ready), 'endpoint')} ready")


def _pods(looks: Looks, found: Installed) -> tuple[str, ...]:
    query = {"labelSelector": f"app.kubernetes.io/name={NAME}"}
    listed = looks.all(f"/api/v1/namespaces/{part(found.namespace)}/pods", "pods", query)
    running: list[Any] = [at(pod, "metadata", "name") for pod in listed.objects if _runs(pod)]
    return tuple(sorted(name for name in running if isinstance(name, str)))[:_MOST_PODS]


def _runs(pod: ApiObject) -> bool:
    return at(pod, "status", "phase") == "Running" and not at(pod, "metadata", "deletionTimestamp")
