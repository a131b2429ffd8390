"""The manifests as people apply them."""

from __future__ import annotations

import os
import re
import subprocess
from functools import partial
from textwrap import dedent
from typing import TYPE_CHECKING

import pytest

from tests.e2e.api import Refused, path_of
from tests.e2e.installation import CONFIGURATIONS, MANIFESTS, Installation, rendered
from tests.e2e.objects import deployment, pod
from tests.e2e.truth import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.e2e.api import Api, Obj
    from tests.e2e.control_plane import ControlPlane

pytestmark = pytest.mark.e2e

OVERLAYS = sorted(path.name for path in (MANIFESTS / "overlays").iterdir())
DEFINITIONS = {
    ("cert-manager.io", "Certificate"): "certificates",
    ("cert-manager.io", "Issuer"): "issuers",
    ("monitoring.coreos.com", "ServiceMonitor"): "servicemonitors",
    ("monitoring.coreos.com", "PodMonitor"): "podmonitors",
    ("monitoring.coreos.com", "PrometheusRule"): "prometheusrules",
}
"""Kinds of others that overlays use. Their fields are not checked here, only that there is such a kind."""


@pytest.fixture(scope="module")
def definitions(api: Api) -> Iterator[None]:
    """Custom resources that take any field."""
    path = "apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    made = [definition(group, kind, plural) for (group, kind), plural in DEFINITIONS.items()]
    for obj in made:
        api.do("POST", path, obj)
    for group in {group for group, _ in DEFINITIONS}:
        wait_until(lambda: group in str(api.do("GET", "apis")), 20, f"{group} is served")  # noqa: B023
    yield
    for obj in made:
        api.do("DELETE", f"{path}/{obj['metadata']['name']}")


def definition(group: str, kind: str, plural: str) -> Obj:
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "names": {"kind": kind, "plural": plural},
            "scope": "Namespaced",
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
        },
    }


@pytest.mark.parametrize("name", ["base", *(f"overlays/{overlay}" for overlay in OVERLAYS)])
def test_it_renders_and_is_accepted_by_a_dry_run(
    plane: ControlPlane, installed: Installation, definitions: None, name: str
) -> None:
    assert rendered(plane, MANIFESTS / name)
    told = plane.kubectl("apply", "--dry-run=server", "-k", str(MANIFESTS / name))
    assert told.status == 0, told.err
    created_by_a_replica = "Warning: resource leases/forewarn-global-default is missing the kubectl.kubernetes.io/"
    assert [line for line in told.err.splitlines() if not line.startswith(created_by_a_replica)] == []


def test_applying_again_prints_unchanged(plane: ControlPlane, installed: Installation, api: Api) -> None:
    """But for what kubectl sends each time: null, and a PodDisruptionBudget's selector (patchStrategy replace)."""
    kinds = ("PodDisruptionBudget", *CONFIGURATIONS)
    try:
        assert plane.kubectl("apply", "-k", str(MANIFESTS / "base")).status == 0
        before = [api.get(kind, "forewarn", "forewarn")["metadata"] for kind in kinds]
        told = plane.kubectl("apply", "-k", str(MANIFESTS / "base"))
        changed = [line for line in told.out.splitlines() if not line.endswith(" unchanged")]
        assert (told.err, {line.partition(".")[0] for line in changed}) == ("", {kind.lower() for kind in kinds})
        assert [api.get(kind, "forewarn", "forewarn")["metadata"] for kind in kinds] == before
    finally:
        installed.unregister(api)
        installed.apply(plane)


SELECTORS = {
    "namespaceSelector": {"matchExpressions": [{"key": "checked", "operator": "Exists"}]},
    "objectSelector": {"matchLabels": {"checked": "yes"}},
}


@pytest.mark.parametrize("flags", [(), ("--server-side", "--force-conflicts")], ids=["client-side", "server-side"])
def test_applying_again_removes_selectors_that_somebody_added(
    plane: ControlPlane, installed: Installation, api: Api, flags: tuple[str, ...]
) -> None:
    apply = ("apply", *flags, "-k", str(MANIFESTS / "base"))
    try:
        assert plane.kubectl(*apply).status == 0
        for kind in CONFIGURATIONS:
            found = api.get(kind, "forewarn")
            api.replace({**found, "webhooks": [{**webhook, **SELECTORS} for webhook in found["webhooks"]]})
        told = plane.kubectl(*apply)
        assert told.status == 0, told.err
        for webhook in (hook for kind in CONFIGURATIONS for hook in api.get(kind, "forewarn")["webhooks"]):
            assert (webhook["namespaceSelector"], webhook["objectSelector"]) == ({}, {}), webhook["name"]
    finally:
        installed.unregister(api)
        installed.apply(plane)


def test_only_pods_of_its_namespace_can_use_its_priority_class(
    plane: ControlPlane, installed: Installation, api: Api
) -> None:
    """No replica runs: API servers enforce it."""
    wanted = pod("wanted", priorityClassName="forewarn")
    denied = "only Pods in the namespace forewarn can use the PriorityClass forewarn"
    ask = partial(api.ask, "POST", path_of(wanted, name="", dryRun="All"), wanted)
    wait_until(lambda: denied in str(ask().body), 20, "API servers enforce the policy")
    assert ask().code == 403
    assert api.ask("POST", path_of(pod("other"), name="", dryRun="All"), pod("other")).code == 201
    of_forewarn = installed.pod("forewarn", "")
    assert api.ask("POST", path_of(of_forewarn, name="", dryRun="All"), of_forewarn).code == 201


def test_the_patch_of_the_guide_restricts_egress(plane: ControlPlane, tmp_path: Path) -> None:
    page = (MANIFESTS.parent / "docs/guides/run-the-webhook.md").read_text()
    (patches,) = re.findall(r"```yaml\n(\s+patches:\n.*?)```", page, re.DOTALL)
    (tmp_path / "base").symlink_to(MANIFESTS / "base")
    (tmp_path / "kustomization.yaml").write_text(f"resources: [base]\n{dedent(patches)}")
    policies = [obj for obj in rendered(plane, tmp_path) if obj["kind"] == "NetworkPolicy"]
    assert len(policies) == 2
    for policy in policies:
        assert [rule["to"] for rule in policy["spec"]["egress"]] == [[{"ipBlock": {"cidr": "192.0.2.10/32"}}]]


def test_the_jobs_are_accepted_by_a_dry_run(plane: ControlPlane, installed: Installation) -> None:
    """With the warnings of their namespace, which pods that are not restricted would get."""
    namespace = str(MANIFESTS / "jobs/base/namespace.yaml")
    assert plane.kubectl("apply", "-f", namespace).status == 0
    for name in ("sweep", "sweep-result"):
        told = plane.kubectl("apply", "--dry-run=server", "-k", str(MANIFESTS / "jobs" / name))
        assert (told.status, told.err) == (0, ""), name
    plane.kubectl("delete", "--wait=false", "-f", namespace)


def test_uninstalling_leaves_nothing(plane: ControlPlane, installed: Installation, api: Api) -> None:
    annotated = deployment("annotated")
    annotated["metadata"]["annotations"] = {"forewarn.dev/preemption-impact": "{}", "mine": "stays"}
    api.create(annotated)
    installed.register(api, 1)
    environment = {
        **os.environ,
        "KUBECTL": str(plane.bin / "kubectl"),
        "KUBECONFIG": str(plane.kubeconfig()),
        "HOME": str(plane.home),
    }
    done = subprocess.Popen(
        [MANIFESTS / "uninstall.sh", "--annotations"],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    wait_until(lambda: finish_namespace(api) or done.poll() is not None, 60, "the namespace is gone")
    output, _ = done.communicate(timeout=60)
    assert done.returncode == 0, output
    for kind in (*CONFIGURATIONS, "ClusterRole", "ClusterRoleBinding", "PriorityClass", "Namespace"):
        with pytest.raises(Refused, match="404"):
            api.get(kind, "forewarn")
    assert api.get("Deployment", "annotated")["metadata"]["annotations"] == {"mine": "stays"}
    api.delete(annotated)
    installed.apply(plane)


def finish_namespace(api: Api) -> bool:
    """What the namespace controller does once a namespace is empty."""
    try:
        found = api.get("Namespace", "forewarn")
    except Refused:
        return True
    if "deletionTimestamp" in found["metadata"]:
        api.do("PUT", "api/v1/namespaces/forewarn/finalize", {**found, "spec": {"finalizers": []}})
    return False
