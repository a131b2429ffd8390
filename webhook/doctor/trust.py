"""Checks of TLS: caBundle, the serving certificate and the CA injector that renews it."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from forewarn.policies.objects.fields import ApiObject, at, moment_of
from forewarn.webhook.controllers.leader import lease_path
from forewarn.webhook.doctor.client import Client, part
from forewarn.webhook.doctor.installation import INJECTOR, Installed
from forewarn.webhook.doctor.report import AGAIN, Area, Line

if TYPE_CHECKING:
    from forewarn.webhook.doctor.registration import Registered

AREA: Final = Area("trust")
_SILENT: Final = timedelta(minutes=5)
"""Age of the Lease at which the CA injector counts as stopped. It renews every ten seconds; clocks differ."""
_INSPECT_COMMAND: Final = (
    "kubectl -n {} logs deployment/forewarn-ca-injector; with cert-manager: kubectl -n {} describe certificate"
)


def check(client: Client, registered: Registered, installed: Installed, now: datetime) -> Iterator[Line]:
    """Check caBundle, the CA injector and the certificate."""
    fix = _INSPECT_COMMAND.format(installed.namespace, installed.namespace)
    bundles = {
        name: str(at(webhook.fields, "clientConfig", "caBundle") or "") for name, webhook in registered.webhooks.items()
    }
    bundle = b""
    if bundles:
        empty = sorted(name for name, text in bundles.items() if not text)
        if empty:
            problem = f"{', '.join(empty)}: empty, so API servers trust no certificate"
            yield AREA.problem("caBundle", problem, f"the CA injector sets it: {fix}")
        elif len({*bundles.values()}) > 1:
            yield AREA.warning("caBundle", "differs between the webhooks", f"wait a minute, then {fix}")
        try:
            bundle = base64.b64decode(next(filter(None, bundles.values()), ""), validate=True)
        except (ValueError, binascii.Error):
            yield AREA.problem("caBundle", "not base64", fix)
    yield from _injector(client, installed, now)
    yield from _certificate(client, installed, bundle, now, fix)


def _injector(client: Client, installed: Installed, now: datetime) -> Iterator[Line]:
    if installed.serving_secret:
        return  # cert-manager or another issuer renews it
    seen = client.get(lease_path(part(installed.namespace), INJECTOR), f"the Lease {INJECTOR}")
    fix = f"kubectl -n {installed.namespace} get pods -l app.kubernetes.io/name={INJECTOR}; start it if there is none"
    if seen.is_missing:
        yield AREA.problem("CA injector", f"Lease {INJECTOR} not found", f"{fix}; otherwise {AGAIN}")
    elif not seen.exists:
        yield AREA.unknown("CA injector", seen.why)
    else:
        spec = at(seen.object, "spec")
        holder, renewed = at(spec, "holderIdentity"), moment_of(str(at(spec, "renewTime")))
        if not holder or renewed is None:
            stopped = at(spec, "leaseTransitions")
            text = "it has stopped and released its Lease" if stopped else "none has run yet"
            yield AREA.problem("CA injector", f"{text}: no certificate is issued or renewed", fix)
        elif now - renewed > _SILENT:
            text = (
                f"{holder} has not renewed its Lease since {renewed:%Y-%m-%d %H:%M:%S}Z: certificates are not renewed"
            )
            yield AREA.problem("CA injector", text, fix)
        else:
            yield AREA.ok("CA injector", f"{holder} is the leader")


def _certificate(client: Client, installed: Installed, bundle: bytes, now: datetime, fix: str) -> Iterator[Line]:
    name = installed.serving_secret or "forewarn-serving-cert"
    path = f"/api/v1/namespaces/{part(installed.namespace)}/secrets/{part(name)}"
    seen = client.get(path, f"the Secret {name}")
    if seen.is_missing:
        create = f"kubectl -n {installed.namespace} create secret generic {name}; forewarn-ca-injector fills it in 5 s"
        yield AREA.problem("certificate", f"Secret {name} not found", fix if installed.serving_secret else create)
        return
    if not seen.exists:
        yield AREA.unknown("certificate", seen.why)
        return
    data = at(seen.object, "data")
    chain = _decoded(data, "tls.crt") if isinstance(data, dict) else b""
    if not chain:
        yield AREA.problem("certificate", f"Secret {name} is empty: no replica has a certificate", fix)
        return
    try:
        from forewarn.webhook.x509 import Caller, NoCertificate, rejections, validity_of
    except ModuleNotFoundError as missing:
        text = f"{missing.name} is not installed; install forewarn with the extra `live`"
        yield AREA.unknown("certificate", text)
        return
    try:
        ends, service = validity_of(chain).not_after, f"{installed.service}.{installed.namespace}.svc"
        faults = [*rejections(chain, Caller(service, bundle), now)]
    except NoCertificate as fault:
        yield AREA.problem("certificate", f"Secret {name} or caBundle: {fault}", fix)
        return
    for why in faults:
        yield AREA.problem("certificate", f"{why}: API servers do not trust it", fix)
    until = f"{ends:%Y-%m-%d %H:%M}Z"
    if now < ends < now + timedelta(days=1):
        yield AREA.warning("certificate", f"expires at {until}, in less than a day, and has not been renewed", fix)
    elif not faults:
        signed = "signed by a CA of caBundle" if bundle else "caBundle not compared"
        yield AREA.ok("certificate", f"valid for {service} until {until}, {signed}")


def _decoded(data: Mapping[str, Any] | ApiObject, key: str) -> bytes:
    try:
        return base64.b64decode(str(data.get(key) or ""), validate=True)
    except (ValueError, binascii.Error):
        return b""
