"""`forewarn audit --apply`: the reports that it writes, as an API server in memory has them."""

from __future__ import annotations

import json

import pytest

from forewarn.policies.base.findings import NO_LOCATION, Finding, ObjectRef, Severity, Text
from forewarn.policies.cli.main import main
from forewarn.policies.cli.render.openreports import NAME, written_lines
from forewarn.webhook.apiserver.open_reports import GROUP, MAX_REPORTS, write_reports
from forewarn.webhook.apiserver.source import live
from forewarn.webhook.apiserver.typed_client import Forbidden
from tests.webhook.fake_api import FakeApi, unreachable

CLUSTER = f"{GROUP}/clusterreports/{NAME}"
SHOP = f"{GROUP}/namespaces/shop/reports/{NAME}"
SHOWN = ("audit", "--cluster", "docs/examples/audit/cluster.yaml", "--apply", "--exit-zero")


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> FakeApi:
    """The API server of each running cluster; a file is read as if it was one."""
    fake = FakeApi()
    fake.put(GROUP, {"resources": [{"name": "reports"}, {"name": "clusterreports"}]})
    monkeypatch.setattr("forewarn.webhook.apiserver.typed_client.ObjectApi", lambda *_: fake)
    monkeypatch.setattr("forewarn.policies.inputs.sources.cluster.report_writer_of", lambda _: live.report_writer(""))
    return fake


def test_an_audit_writes_its_findings_and_prints_them(api: FakeApi, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*SHOWN, "-o", "openreports"]) == 0
    out, err = capsys.readouterr()
    (printed,) = json.loads(out)["items"]
    written = api.objects[CLUSTER]
    assert (written["results"], written["summary"]) == (printed["results"], printed["summary"])
    assert written["summary"] == {"pass": 0, "fail": 1, "warn": 6, "error": 0, "skip": 0}
    assert {result["policy"] for result in api.objects[SHOP]["results"]} == {
        "restart-preempts",
        "restart-stays-pending",
    }
    assert "nightly" not in json.dumps(api.objects[SHOP]), "no names of other namespaces"
    assert "reports written: ClusterReport forewarn-audit, and the Reports of 2 namespaces" in err


def test_the_next_audit_empties_what_is_solved_and_writes_nothing_that_is_the_same(api: FakeApi) -> None:
    main([*SHOWN])
    api.calls.clear()
    main([*SHOWN])
    assert {verb for verb, _ in api.calls} == {"get"}
    main([*SHOWN, "--ignore", "restart-preempts,restart-stays-pending"])
    assert api.objects[SHOP]["results"] == []
    assert api.objects[CLUSTER]["summary"]["warn"] == 4


def test_without_the_kinds_the_audit_does_not_begin(api: FakeApi, capsys: pytest.CaptureFixture[str]) -> None:
    api.delete(GROUP)
    assert main([*SHOWN]) == 3
    out, err = capsys.readouterr()
    assert out == ""
    assert "the cluster does not serve openreports.io/v1alpha1. Fix: install the CRDs of OpenReports" in err


def test_a_write_that_is_denied_ends_the_audit_with_the_reason(
    api: FakeApi, capsys: pytest.CaptureFixture[str]
) -> None:
    def denied(verb: str, path: str) -> None:
        if verb == "create":
            raise Forbidden(f"{verb} {path}: no")

    api.before = denied
    assert main([*SHOWN]) == 3
    assert f"cannot write reports: create {GROUP}/clusterreports: no" in capsys.readouterr().err
    api.before = unreachable
    assert main([*SHOWN]) == 3
    assert "connection refused" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("reason", "reported"),
    [
        ("cannot create resource", "Reports denied in 1 namespace (shop): create"),
        ("unable to create new content in namespace shop because it is being terminated", ""),
    ],
)
def test_a_denied_report_of_a_namespace_is_named(
    api: FakeApi, capsys: pytest.CaptureFixture[str], reason: str, reported: str
) -> None:
    def denied(verb: str, path: str) -> None:
        if verb == "create" and "/namespaces/shop/" in path:
            raise Forbidden(f"{verb}: {reason}")

    api.before = denied
    assert main([*SHOWN]) == 0
    err = capsys.readouterr().err
    assert SHOP not in api.objects
    assert ("Reports denied" in err) is bool(reported)
    assert reported in err


def test_namespaces_beyond_the_maximum_are_counted() -> None:
    refs = [ObjectRef("apps/v1", "Deployment", f"ns-{n}", "web") for n in range(MAX_REPORTS + 3)]
    found = [Finding(NO_LOCATION, Severity.NOTE, "restart-preempts", ref, Text("m")) for ref in refs]
    written = write_reports(FakeApi(), found)
    assert (written.namespaces, written.omitted) == (MAX_REPORTS, 3)
    assert "3 more namespaces with findings: only in the ClusterReport" in [*written_lines(written)]


def test_reports_are_written_into_running_clusters_alone(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*SHOWN]) == 3
    assert "reports can only be written into a running cluster" in capsys.readouterr().err
    assert main([*SHOWN, "--cluster", "docs/examples/whatif/cluster.yaml"]) == 2
    assert "--apply: takes one source of the cluster" in capsys.readouterr().err


def test_a_rule_that_was_not_evaluated_is_an_error_of_the_report() -> None:
    api = FakeApi()
    ref = ObjectRef("apps/v1", "Deployment", "shop", "web")
    write_reports(api, [Finding(NO_LOCATION, Severity.NOTE, "restart-preempts", ref, Text("m"), not_evaluated=True)])
    assert api.objects[CLUSTER]["summary"]["error"] == api.objects[SHOP]["summary"]["error"] == 1
