"""The audit by a replica, as the overlay cluster-audit has it: what a real API server takes of what it writes."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tests.e2e.api import identity
from tests.e2e.installation import MANIFESTS
from tests.e2e.objects import priority_class
from tests.e2e.truth import wait_until
from tests.e2e.webhook import QUICK, Webhook

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.e2e.api import Api, Obj
    from tests.e2e.control_plane import ControlPlane
    from tests.e2e.installation import Installation

pytestmark = pytest.mark.e2e

CRDS = "apis/apiextensions.k8s.io/v1/customresourcedefinitions"
GROUP = "apis/openreports.io/v1alpha1"
SERVED = ("reports", "clusterreports")
TEXT = {"type": "string"}
NUMBER = {"type": "integer"}


def fields(*required: str, **properties: Any) -> Obj:
    schema: Obj = {"type": "object", "properties": properties}
    return {**schema, "required": [*required]} if required else schema


RESULT = fields(
    "policy",
    source=TEXT,
    policy=TEXT,
    category=TEXT,
    message=TEXT,
    severity={"type": "string", "enum": ["critical", "high", "low", "medium", "info"]},
    result={"type": "string", "enum": ["pass", "fail", "warn", "error", "skip"]},
    resources={"type": "array", "items": fields(apiVersion=TEXT, kind=TEXT, namespace=TEXT, name=TEXT)},
    properties={"type": "object", "additionalProperties": TEXT},
)
SUMMARY = fields(**dict.fromkeys(("pass", "fail", "warn", "error", "skip"), NUMBER))
SCHEMA = fields(
    apiVersion=TEXT,
    kind=TEXT,
    metadata={"type": "object"},
    source=TEXT,
    summary=SUMMARY,
    results={"type": "array", "items": RESULT},
)
"""What of openreports.io/v1alpha1 is used, as config/crd of openreports/reports-api has it."""


def definition(kind: str, plural: str, scope: str) -> Obj:
    version = {"name": "v1alpha1", "served": True, "storage": True, "schema": {"openAPIV3Schema": SCHEMA}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{plural}.openreports.io",
            "annotations": {"api-approved.kubernetes.io": "unapproved, for a test"},
        },
        "spec": {
            "group": "openreports.io",
            "names": {"kind": kind, "plural": plural},
            "scope": scope,
            "versions": [version],
        },
    }


@pytest.fixture
def audited(plane: ControlPlane, installed: Installation, api: Api) -> Iterator[Webhook]:
    """A replica that audits a cluster with an unused class, and a Deployment whose class is gone."""
    rights = str(MANIFESTS / "components/cluster-audit/rbac.yaml")
    told = plane.kubectl("apply", "-f", rights)
    assert told.status == 0, told.err
    api.delete(identity("Lease", "forewarn-audit", "forewarn"))  # as where Argo CD installs it
    unused = api.create(priority_class("without-pods", 7))
    of_pods = {"priorityClassName": "gone", "containers": [{"name": "c", "image": "i"}]}
    broken = {"metadata": {"labels": {"a": "b"}}, "spec": of_pods}
    spec = {"replicas": 0, "selector": {"matchLabels": {"a": "b"}}, "template": broken}
    workload = api.create({**identity("Deployment", "w"), "spec": spec})
    webhook = Webhook(plane, installed, flags=(*QUICK, "--audit-interval", "60"))
    try:
        webhook.begin(api)
        yield webhook
    finally:
        webhook.end(api)
        api.delete(unused)
        api.delete(workload)
        plane.kubectl("delete", "--ignore-not-found", "-f", rights)


def ended(webhook: Webhook) -> bool:
    (replica,) = webhook.replicas
    assert replica.metric("forewarn_audits_total", outcome="failed") == 0
    return replica.metric("forewarn_audits_total", outcome="completed") == 1


def test_what_it_finds_is_told_as_metrics_and_events(audited: Webhook, api: Api) -> None:
    wait_until(lambda: ended(audited), 60, "an audit has ended")
    found = audited.replicas[0].metric("forewarn_audit_findings", rule="unknown-priority-class")
    assert found == 1
    (event,) = [event for event in api.list("Event", "default") if event.get("reason") == "ForewarnAudit"]
    assert event["source"] == {"component": "forewarn"}
    assert (event["involvedObject"]["kind"], event["involvedObject"]["name"]) == ("Deployment", "w")


@pytest.fixture
def served(api: Api) -> Iterator[None]:
    """An API server with the kinds of OpenReports."""
    kinds = [definition("Report", "reports", "Namespaced"), definition("ClusterReport", "clusterreports", "Cluster")]
    for obj in kinds:
        api.do("POST", CRDS, obj)
    try:
        wait_until(lambda: all(api.ask("GET", f"{GROUP}/{of}").code == 200 for of in SERVED), 20, "they are served")
        yield
    finally:
        for obj in kinds:
            api.do("DELETE", f"{CRDS}/{obj['metadata']['name']}")


@pytest.mark.usefixtures("served")
def test_where_there_are_openreports_it_writes_these(plane: ControlPlane, api: Api, request: Any) -> None:
    audited = request.getfixturevalue("audited")
    wait_until(lambda: ended(audited), 60, "an audit has ended")
    report = api.do("GET", f"{GROUP}/clusterreports/forewarn-audit")
    assert report["summary"]["warn"] == sum(result["result"] == "warn" for result in report["results"])
    (unused,) = [r for r in report["results"] if (r.get("resources") or [{}])[0].get("name") == "without-pods"]
    assert unused["policy"] == "unused-priority-class"
    assert plane.kubectl("auth", "can-i", "delete", "clusterreports.openreports.io", *AS).out.strip() == "no"


AS = ("--as", "system:serviceaccount:forewarn:forewarn")


@pytest.fixture
def cron_job(plane: ControlPlane) -> Iterator[list[str]]:
    """The arguments of the CronJob's container; its ServiceAccount and rights exist."""
    directory = MANIFESTS / "components/audit-cron-job"
    names = ("cron-job.yaml", "priority-class.yaml", "rbac.yaml", "service-account.yaml")
    files = [part for name in names for part in ("-f", str(directory / name))]
    plane.kubectl("create", "namespace", "forewarn")
    told = plane.kubectl("apply", *files)
    assert told.status == 0, told.err
    (found,) = yaml.safe_load_all((directory / "cron-job.yaml").read_text())
    (container,) = found["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"]
    yield container["args"]
    plane.kubectl("delete", "--ignore-not-found", *files)


def audit(plane: ControlPlane, arguments: list[str], config: Path) -> subprocess.CompletedProcess[str]:
    """Run the container's command with the rights of its ServiceAccount."""
    environment = {**os.environ, "KUBECONFIG": str(plane.kubeconfig("audit-cron-job"))}
    own = [str(config) if argument == "/etc/forewarn/forewarn.yaml" else argument for argument in arguments]
    command = [sys.executable, "-m", "forewarn", *own]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=120)


def test_the_cron_job_writes_reports_with_its_own_rights(
    plane: ControlPlane, api: Api, cron_job: list[str], tmp_path: Path, request: Any
) -> None:
    config = tmp_path / "forewarn.yaml"
    config.write_text("actions: {}\n")
    told = audit(plane, cron_job, config)
    assert told.returncode == 3
    assert "does not serve openreports.io/v1alpha1" in told.stderr
    request.getfixturevalue("served")
    of_pods = {"priorityClassName": "gone", "containers": [{"name": "c", "image": "i"}]}
    template = {"metadata": {"labels": {"a": "b"}}, "spec": of_pods}
    spec = {"replicas": 0, "selector": {"matchLabels": {"a": "b"}}, "template": template}
    workload = api.create({**identity("Deployment", "w"), "spec": spec})
    try:
        told = audit(plane, cron_job, config)
        assert told.returncode == 0, told.stderr
        report = api.do("GET", f"{GROUP}/namespaces/default/reports/forewarn-audit")
        (result,) = report["results"]
        assert (result["policy"], result["result"], result["resources"][0]["name"]) == (
            "unknown-priority-class",
            "fail",
            "w",
        )
        (manager,) = {entry["manager"] for entry in report["metadata"]["managedFields"]}
        assert manager == "forewarn"
    finally:
        api.delete(workload)
    assert audit(plane, cron_job, config).returncode == 0
    assert api.do("GET", f"{GROUP}/namespaces/default/reports/forewarn-audit")["results"] == []
    as_its_account = ("--as", "system:serviceaccount:forewarn:forewarn-audit-cron-job")
    for verb, resource in (("delete", "reports.openreports.io"), ("get", "secrets"), ("create", "pods")):
        assert plane.kubectl("auth", "can-i", verb, resource, *as_its_account).out.strip() == "no"
