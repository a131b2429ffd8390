"""The operators' pages of `webhook serve --ui`: a real API server reviews tokens and access, with the shipped RBAC."""

from __future__ import annotations

import http.client
import json
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from tests.e2e.api import identity
from tests.e2e.installation import MANIFESTS
from tests.e2e.objects import deployment, node, running
from tests.e2e.truth import wait_until
from tests.e2e.webhook import QUICK, Webhook

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.e2e.api import Api, Obj
    from tests.e2e.control_plane import ControlPlane
    from tests.e2e.installation import Installation
    from tests.e2e.staging import Stage

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("classes")]

RBAC = "rbac.authorization.k8s.io"
TENANT = {"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["list"]}


@pytest.fixture(scope="module")
def webhook(plane: ControlPlane, installed: Installation, api: Api) -> Iterator[Webhook]:
    """A webhook with the pages; its account may review tokens."""
    told = plane.kubectl("apply", "-f", str(MANIFESTS / "components/ui/rbac.yaml"))
    assert told.status == 0, told.err
    made = Webhook(plane, installed, flags=(*QUICK, "--ui"))
    try:
        made.begin(api, strict=True)
        yield made
    finally:
        made.end(api)
        plane.kubectl("delete", "-f", str(MANIFESTS / "components/ui/rbac.yaml"))


def page(webhook: Webhook, path: str, token: str = "") -> tuple[int, str]:
    """Ask for a page of the first replica, as `kubectl port-forward` does."""
    port = webhook.replicas[0].health_port
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=60)) as connection:
        bearer = {"Authorization": f"Bearer {token}"} if token else {}
        connection.request("GET", path, headers={"Host": f"localhost:{port}", **bearer})
        response = connection.getresponse()
        return response.status, response.read().decode()


def bound(api: Api, path: str, kind: str, role: tuple[str, str]) -> Obj:
    """Bind a role to developers."""
    made = {
        "apiVersion": f"{RBAC}/v1",
        "kind": kind,
        "metadata": {"name": "pages"},
        "subjects": [{"kind": "Group", "apiGroup": RBAC, "name": "developers"}],
        "roleRef": {"apiGroup": RBAC, "kind": role[0], "name": role[1]},
    }
    return api.do("POST", f"apis/{RBAC}/v1/{path}", made)


def test_the_api_server_decides_which_pages_a_user_sees(
    plane: ControlPlane, stage: Stage, webhook: Webhook, api: Api
) -> None:
    victim = running("nightly", "node-a", cpu="1500m")
    victim["metadata"]["namespace"] = "prod"
    stage.put({"namespaces": [identity("Namespace", "prod")], "nodes": [node("node-a", cpu="2")], "pods": [victim]})
    webhook.catch_up(api)
    token = plane.tokens["developer"]
    try:
        applied = plane.kubectl("apply", "-f", "-", stdin=json.dumps(deployment("shown", "high", cpu="1")))
        assert "would preempt" in applied.err
        wait_until(lambda: page(webhook, "/")[0] == 401, 60, "the pages answer")
        assert page(webhook, "/", "0123456789abcdef")[0] == 401
        assert page(webhook, "/", token)[0] == 403

        role = {"apiVersion": f"{RBAC}/v1", "kind": "Role", "metadata": {"name": "pages"}, "rules": [TENANT]}
        api.do("POST", f"apis/{RBAC}/v1/namespaces/default/roles", role)
        bound(api, "namespaces/default/rolebindings", "RoleBinding", ("Role", "pages"))
        wait_until(lambda: "shown" in page(webhook, "/warnings", token)[1], 120, "the tenant sees the decision")
        assert "nightly" not in page(webhook, "/warnings", token)[1]
        assert page(webhook, "/", token)[0] == 403

        bound(api, "clusterrolebindings", "ClusterRoleBinding", ("ClusterRole", "forewarn-ui-viewer"))
        wait_until(lambda: page(webhook, "/", token)[0] == 200, 120, "the operator sees the cluster")
        assert "1 node" in page(webhook, "/", token)[1]
    finally:
        for path in ("clusterrolebindings", "namespaces/default/rolebindings", "namespaces/default/roles"):
            api.ask("DELETE", f"apis/{RBAC}/v1/{path}/pages")
        plane.kubectl("delete", "deployment", "--ignore-not-found", "shown")
        stage.clear()
