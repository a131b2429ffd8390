"""The manifests of another version are applied over a running installation."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from forewarn.webhook.controllers.certificate_authority import CertificateAuthorities
from forewarn.webhook.x509 import Authority
from tests.e2e.api import identity
from tests.e2e.installation import CONFIGURATIONS, NAMESPACE
from tests.e2e.load import creating, load
from tests.e2e.truth import wait_until
from tests.e2e.webhook import QUICK, Webhook

if TYPE_CHECKING:
    from tests.e2e.api import Api, Obj
    from tests.e2e.control_plane import ControlPlane
    from tests.e2e.installation import Installation

pytestmark = pytest.mark.e2e

WRITTEN = [
    identity("Secret", "forewarn-ca", NAMESPACE),
    identity("Secret", "forewarn-serving-cert", NAMESPACE),
    identity("Lease", "forewarn-ca-injector", NAMESPACE),
    *(identity(kind, "forewarn") for kind in CONFIGURATIONS),
]


def written(api: Api) -> dict[str, object]:
    """What forewarn has written into objects that are shipped empty."""
    names = [(obj["kind"], obj["metadata"]["name"]) for obj in WRITTEN]
    found: dict[str, Obj] = {kind: api.get(kind, name, NAMESPACE) for kind, name in names if kind != "Secret"}
    return {
        **{name: api.get(kind, name, NAMESPACE)["data"] for kind, name in names if kind == "Secret"},
        "Lease": found["Lease"]["spec"]["holderIdentity"],
        **{kind: [w["clientConfig"].get("caBundle") for w in found[kind]["webhooks"]] for kind in CONFIGURATIONS},
    }


def test_over_a_version_whose_replicas_sign_for_themselves(
    plane: ControlPlane, installed: Installation, api: Api
) -> None:
    """They have a leaf in memory by the CA in forewarn-ca, which goes on: old and new ones are trusted."""
    authority = Authority.make(datetime.now(UTC))
    former = Webhook(plane, installed, 1, (*QUICK, *files(plane, authority)))
    after = Webhook(plane, installed, 2)
    cas = identity("Secret", "forewarn-ca", NAMESPACE)
    api.patch(cas, {"data": None})
    api.patch(cas, {"data": CertificateAuthorities(authority).to_data()})
    api.patch(identity("Secret", "forewarn-serving-cert", NAMESPACE), {"data": None})
    try:
        former.begin(api, failure_policy="Fail", bundle=authority.certificate)
        with load(creating(api), per_second=50, threads=16) as made:
            told = plane.kubectl("apply", "-f", "-", stdin=installed.changed(former.proxy.port, "upgrade", "Fail"))
            assert told.status == 0, told.err
            after.start()
            former.in_service.extend(after.in_service)
            time.sleep(2)
            former.in_service.remove(former.replicas[0])
            time.sleep(2)
        print(f"\ne2e: {made.done} requests during an upgrade from replicas that sign for themselves")
        assert made.faults == []
        assert former.bundle(api) == authority.certificate
    finally:
        former.end(api)
        after.close()


@pytest.mark.parametrize("how", [(), ("--server-side", "--force-conflicts")], ids=["client-side", "server-side"])
def test_what_forewarn_wrote_stays(
    plane: ControlPlane, webhook: Webhook, api: Api, how: tuple[str, ...], request: pytest.FixtureRequest
) -> None:
    before = written(api)
    assert all(before.values())
    told = plane.kubectl("apply", *how, "-f", "-", stdin=webhook.installed.changed(webhook.proxy.port, str(len(how))))
    assert told.status == 0, told.err
    assert written(api) == before
    assert api.get(CONFIGURATIONS[0], "forewarn")["metadata"]["labels"]["next"] == str(len(how))
    wait_until(lambda: unknown_class(plane), 10, "pods are still judged")


def files(plane: ControlPlane, authority: Authority) -> list[str]:
    """A leaf of this CA, as flags."""
    made, flags = authority.sign(datetime.now(UTC)), []
    for flag, content in (("--tls-cert", made.chain), ("--tls-key", made.key)):
        path = plane.home / flag.strip("-")
        path.write_bytes(content)
        flags += [flag, str(path)]
    return flags


def unknown_class(plane: ControlPlane) -> bool:
    """Whether a Deployment that names a missing class is warned of."""
    told = plane.kubectl("create", "deployment", "x", "--image=i", "--dry-run=client", "-o", "json")
    missing = told.out.replace('"containers"', '"priorityClassName": "missing", "containers"', 1)
    return "unknown-priority-class" in plane.kubectl("apply", "--dry-run=server", "-f", "-", stdin=missing).err
