"""What a tenant of one namespace reads of others, by kubectl and by what is stored."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.e2e.api import identity
from tests.e2e.installation import MANIFESTS, rendered
from tests.e2e.objects import deployment, node, running
from tests.e2e.truth import wait_until
from tests.e2e.webhook import Webhook

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.e2e.api import Api
    from tests.e2e.control_plane import ControlPlane, Told
    from tests.e2e.installation import Installation
    from tests.e2e.staging import Stage

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("classes")]

RBAC = "rbac.authorization.k8s.io"
TENANT = {"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["get", "create", "patch", "update", "delete"]}
ONLOOKER = {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}
WHO = [{"kind": "Group", "apiGroup": RBAC, "name": "developers"}]
SECRETS = ("prod", "nightly-x7q", "node-x7q")


@pytest.fixture(scope="module")
def webhook(plane: ControlPlane, installed: Installation, api: Api) -> Iterator[Webhook]:
    """forewarn as the component disclose-by-access has it."""
    component = rendered(plane, MANIFESTS / "overlays/disclose-by-access")
    (config,) = [obj for obj in component if obj["kind"] == "ConfigMap"]
    file = plane.home / "disclose.yaml"
    file.write_text(config["data"]["forewarn.yaml"] + "repeatedWarnings: full\n")
    made = Webhook(plane, installed, flags=("--drain", "0", "--config", str(file)))
    try:
        made.begin(api, strict=True)
        yield made
    finally:
        made.end(api)


@pytest.fixture(scope="module")
def tenant(plane: ControlPlane, api: Api) -> Iterator[None]:
    """Developers may work in `default`."""
    role = {"apiVersion": f"{RBAC}/v1", "kind": "Role", "metadata": {"name": "tenant"}, "rules": [TENANT]}
    binding = {
        **role,
        "kind": "RoleBinding",
        "subjects": WHO,
        "roleRef": {"apiGroup": RBAC, "kind": "Role", "name": "tenant"},
    }
    binding.pop("rules")
    path = f"apis/{RBAC}/v1/namespaces/default"
    api.do("POST", f"{path}/roles", role)
    api.do("POST", f"{path}/rolebindings", binding)
    asked = "get", "deployment", "--ignore-not-found", "tenants"
    wait_until(lambda: plane.kubectl(*asked, user="developer").status == 0, 30, "developers have the new role")
    yield
    api.do("DELETE", f"{path}/rolebindings/tenant")
    api.do("DELETE", f"{path}/roles/tenant")


@pytest.fixture
def full(stage: Stage, webhook: Webhook, api: Api, tenant: None) -> Iterator[None]:
    """One node, most of which a pod of another namespace holds."""
    victim = running("nightly-x7q", "node-x7q", cpu="1500m")
    victim["metadata"]["namespace"] = "prod"
    stage.put({"namespaces": [identity("Namespace", "prod")], "nodes": [node("node-x7q", cpu="2")], "pods": [victim]})
    webhook.catch_up(api)
    yield
    stage.clear()


def applied(plane: ControlPlane, name: str, user: str = "developer", *flags: str) -> Told:
    return plane.kubectl("apply", "-f", "-", *flags, stdin=json.dumps(deployment(name, "high", cpu="1")), user=user)


def test_a_tenant_reads_no_name_of_another_namespace_and_the_audit_log_has_them(
    plane: ControlPlane, api: Api, full: None
) -> None:
    told = applied(plane, "tenants")
    assert told.status == 0, told.err
    assert told.err == (
        "Warning: would preempt 1 Pod of another namespace (priority 10, not recreated, 3600s grace). "
        "Fix: lower requests or priority [preempts-running-pods]\n"
    )
    stored = plane.kubectl("get", "deployment", "tenants", "-o", "json", user="developer").out
    assert "forewarn.dev/preemption-impact" in stored
    assert [secret for secret in SECRETS if secret in stored] == []
    key = "validate.forewarn.dev/preempts-running-pods"
    wait_until(lambda: plane.audited("deployments", "tenants", key), 5, "the audit log has the request")
    (text, *_) = plane.audited("deployments", "tenants", key)
    assert "on node-x7q: prod/nightly-x7q (priority 10," in text
    plane.kubectl("delete", "deployment", "tenants", "--wait=false")


def test_a_cluster_admin_is_told_all_and_leaves_no_name_on_the_object(plane: ControlPlane, full: None) -> None:
    told = applied(plane, "admins", "admin")
    assert "on node-x7q: prod/nightly-x7q (priority 10," in told.err
    stored = json.loads(plane.kubectl("get", "deployment", "admins", "-o", "json").out)
    written = stored["metadata"]["annotations"]["forewarn.dev/preemption-impact"]
    assert [secret for secret in SECRETS if secret in written] == []
    plane.kubectl("delete", "deployment", "admins", "--wait=false")


def test_a_misspelt_class_brings_out_none_but_the_default(plane: ControlPlane, full: None) -> None:
    obj = deployment("misspelt", "hihg")
    told = plane.kubectl("apply", "-f", "-", "--dry-run=server", stdin=json.dumps(obj), user="developer")
    assert 'Fix: create it, or use "usual" [unknown-priority-class]' in told.err
    assert "high" not in told.err


def test_who_may_list_all_pods_is_told_all_while_he_may(plane: ControlPlane, api: Api, full: None) -> None:
    role = {"apiVersion": f"{RBAC}/v1", "kind": "ClusterRole", "metadata": {"name": "onlooker"}, "rules": [ONLOOKER]}
    reference = {"apiGroup": RBAC, "kind": "ClusterRole", "name": "onlooker"}
    binding = {**role, "kind": "ClusterRoleBinding", "subjects": WHO, "roleRef": reference}
    binding.pop("rules")
    number = iter(range(100))

    def sees() -> bool:
        """A dry run of another name each time: who has not the right is asked about again after ten seconds."""
        return "prod/nightly-x7q" in applied(plane, f"look-{next(number)}", "developer", "--dry-run=server").err

    assert not sees()
    api.do("POST", f"apis/{RBAC}/v1/clusterroles", role)
    api.do("POST", f"apis/{RBAC}/v1/clusterrolebindings", binding)
    try:
        wait_until(sees, 20, "the right is known")
    finally:
        for kind in ("clusterrolebindings", "clusterroles"):
            api.do("DELETE", f"apis/{RBAC}/v1/{kind}/onlooker")
