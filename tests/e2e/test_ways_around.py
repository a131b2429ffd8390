"""What a tenant might get around the rules by, where an API server with the shipped manifests is asked."""

from __future__ import annotations

import re
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.e2e.api import Refused, identity, path_of
from tests.e2e.objects import pod
from tests.e2e.truth import wait_until
from tests.e2e.webhook import Webhook

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.e2e.api import Api, Obj
    from tests.e2e.control_plane import ControlPlane
    from tests.e2e.installation import Installation

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("classes", "shipped")]

PAGE = (Path(__file__).parents[2] / "docs/reference/compatibility.md").read_text()
IMPACT, UNTIL = "forewarn.dev/preemption-impact", "forewarn.dev/exempt-until"
GROUPS = {"api/v1": "", **{f"apis/{g}": f".{g.partition('/')[0]}" for g in ("apps/v1", "batch/v1", "autoscaling/v2")}}
GROUPS["apis/scheduling.k8s.io/v1"] = ".scheduling.k8s.io"
CORE = re.compile(r"(pods|bindings|podtemplates|replicationcontrollers|namespaces|resourcequotas|limitranges)(/|$)")


@pytest.fixture(scope="module")
def shipped(plane: ControlPlane, installed: Installation, api: Api) -> Iterator[Webhook]:
    """One replica, registered as the manifests have it."""
    made = Webhook(plane, installed)
    try:
        made.begin(api)
        yield made
    finally:
        made.end(api)


@pytest.fixture(scope="module")
def tenant(plane: ControlPlane, api: Api) -> Iterator[Api]:
    """Somebody whom RBAC allows everything, and who is no administrator by his groups."""
    binding = {
        **identity("ClusterRoleBinding", "e2e-tenant"),
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "tenant"}],
    }
    api.create(binding)
    with closing(plane.api()) as client:
        client._headers["Impersonate-User"] = "tenant"
        wait_until(lambda: client.ask("GET", "api/v1/pods").code == 200, 30, "the tenant has the new role")
        yield client
    api.delete(binding)


@pytest.fixture
def room(api: Api) -> Iterator[Obj]:
    """A namespace of its own."""
    made = api.create(identity("Namespace", "e2e-ways-around"))
    yield {"apiVersion": "v1", "kind": "Namespace", **made}
    api.delete(made)
    found = api.get("Namespace", "e2e-ways-around")
    api.do("PUT", "api/v1/namespaces/e2e-ways-around/finalize", {**found, "spec": {"finalizers": []}})


def annotations_of(obj: Obj) -> Obj:
    found: Obj = obj["metadata"].get("annotations", {})
    return found


def soon() -> str:
    return (datetime.now(UTC) + timedelta(hours=1)).isoformat()


def test_every_resource_that_is_served_is_on_the_page(api: Api) -> None:
    resources = PAGE[PAGE.index("## What the webhook receives") : PAGE.index("## Stability")]
    rows = re.findall(r"^\| (`[a-z0-9./`, ]+`) \|", resources, re.MULTILINE)
    told = {resource.strip("`") for names in rows for resource in names.split(", ")}
    served = {
        re.sub(r"^([a-z]+)", rf"\1{suffix}", resource["name"])
        for path, suffix in GROUPS.items()
        for resource in api.do("GET", path)["resources"]
        if suffix or CORE.match(resource["name"])
    }
    alpha = {name for name in told if name.startswith(("podgroups.", "workloads."))}
    assert served == told - alpha


@pytest.mark.parametrize("subresource", ["", "status", "finalize"])
def test_a_tenant_cannot_exempt_his_namespace(api: Api, tenant: Api, room: Obj, subresource: str) -> None:
    asks = {**room, "metadata": {**room["metadata"], "annotations": {UNTIL: soon()}}}
    with pytest.raises(Refused, match="exemption-not-allowed"):
        tenant.replace(asks, subresource)
    with pytest.raises(Refused, match="exemption-not-allowed"):
        tenant.create({**asks, "metadata": {"name": "e2e-another", "annotations": {UNTIL: soon()}}}, dryRun="All")
    assert UNTIL in annotations_of(api.replace(asks, subresource))
    longer = {"metadata": {"annotations": {UNTIL: "2999-01-01T00:00:00Z"}}}
    with pytest.raises(Refused, match="exemption-not-allowed"):
        tenant.patch(room, longer)
    assert UNTIL not in annotations_of(tenant.patch(room, {"metadata": {"annotations": {UNTIL: None}}}))


def test_an_exemption_without_effect_is_told_to_who_gives_it(api: Api, room: Obj) -> None:
    body = {"metadata": {"annotations": {UNTIL: "2999-01-01"}}}
    answer = api.ask("PATCH", path_of(room), body, "application/merge-patch+json")
    assert answer.code == 200
    assert any("exemption-without-effect" in warning for warning in answer.warnings)


def test_a_forged_impact_does_not_stay(tenant: Api, room: Obj) -> None:
    obj = pod("forger")
    obj["metadata"] |= {"namespace": room["metadata"]["name"], "annotations": {IMPACT: "{}", "own": "1"}}
    assert annotations_of(tenant.create(obj)) == {"own": "1"}
    forged = {"metadata": {"annotations": {IMPACT: "{}", "own": "2"}}}
    assert annotations_of(tenant.patch(obj, forged)) == {"own": "2"}
    tenant.delete(obj, gracePeriodSeconds="0")


def test_an_apply_that_is_repeated_stores_nothing(tenant: Api, room: Obj) -> None:
    template = {"metadata": {"labels": {"app": "web"}}, "spec": pod("web")["spec"]}
    manifest = {
        **identity("Deployment", "web", room["metadata"]["name"]),
        "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "web"}}, "template": template},
    }
    path, media = path_of(manifest, fieldManager="gitops", force="true"), "application/apply-patch+yaml"
    versions = [tenant.do("PATCH", path, manifest, media)["metadata"]["resourceVersion"] for _ in range(3)]
    assert len(set(versions)) == 1
    forged = {**manifest, "metadata": {**manifest["metadata"], "annotations": {IMPACT: "{}"}}}
    assert annotations_of(tenant.do("PATCH", path, forged, media)).get(IMPACT) != "{}"
    tenant.delete(manifest)


def test_while_nobody_answers_no_exemption_can_be_set_and_nothing_else_is_held_up(
    api: Api, tenant: Api, room: Obj, shipped: Webhook
) -> None:
    (replica,) = shipped.replicas
    replica.stop()
    try:
        for client in (tenant, api):
            with pytest.raises(Refused, match=r"failed calling webhook .exemptions\.validate\.forewarn\.dev"):
                client.patch(room, {"metadata": {"annotations": {UNTIL: soon()}}})
            client.patch(room, {"metadata": {"annotations": {"own": "1"}, "labels": {"own": "1"}}})
    finally:
        replica.start()
