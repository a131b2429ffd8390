"""The manifests of another version are applied over a running installation."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.e2e.api import identity
from tests.e2e.installation import CONFIGURATIONS, NAMESPACE
from tests.e2e.truth import wait_until

if TYPE_CHECKING:
    from tests.e2e.api import Api, Obj
    from tests.e2e.control_plane import ControlPlane
    from tests.e2e.webhook import Webhook

pytestmark = pytest.mark.e2e

WRITTEN = [
    identity("Secret", "forewarn-ca", NAMESPACE),
    identity("Lease", "forewarn-writer", NAMESPACE),
    *(identity(kind, "forewarn") for kind in CONFIGURATIONS),
]


def written(api: Api) -> dict[str, object]:
    """What forewarn has written into objects that are shipped empty."""
    found: dict[str, Obj] = {obj["kind"]: api.get(obj["kind"], obj["metadata"]["name"], NAMESPACE) for obj in WRITTEN}
    return {
        "Secret": found["Secret"]["data"],
        "Lease": found["Lease"]["spec"]["holderIdentity"],
        **{kind: [w["clientConfig"].get("caBundle") for w in found[kind]["webhooks"]] for kind in CONFIGURATIONS},
    }


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


def unknown_class(plane: ControlPlane) -> bool:
    """Whether a Deployment that names a missing class is warned of."""
    told = plane.kubectl("create", "deployment", "x", "--image=i", "--dry-run=client", "-o", "json")
    missing = told.out.replace('"containers"', '"priorityClassName": "missing", "containers"', 1)
    return "unknown-priority-class" in plane.kubectl("apply", "--dry-run=server", "-f", "-", stdin=missing).err
