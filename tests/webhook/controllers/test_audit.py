"""The audit by the replica that is elected: who does it and when, what it costs, and what it writes."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any

import pytest

from forewarn.policies.base.findings import NO_LOCATION, Finding, ObjectRef, Severity, Text
from forewarn.policies.cli.render.openreports import NAME
from forewarn.policies.inputs.sources.cluster import load_cluster
from forewarn.policies.linting.config.load import read_config
from forewarn.policies.linting.config.model import Config
from forewarn.webhook.admission.prediction_access import PredictionProcess, Unanswered, Workers
from forewarn.webhook.apiserver.open_reports import GROUP, MAX_REPORTS
from forewarn.webhook.apiserver.typed_client import Forbidden, NotFound
from forewarn.webhook.controllers.certificate_authority import Installation
from forewarn.webhook.controllers.replica import (
    MAX_EVENTS,
    MAX_REPORTED,
    SHARE,
    Audited,
    Auditor,
    ReplicaControllers,
    Throttle,
    publish,
    scan,
)
from forewarn.webhook.http.tls import SwappingContext
from forewarn.webhook.metrics import Metrics
from forewarn.webhook.x509 import self_signed
from tests.webhook.commands.test_reloading import value_of
from tests.webhook.fake_api import FakeApi, unreachable

if TYPE_CHECKING:
    from collections.abc import Callable

    from forewarn.policies.kubernetes.cluster.cache import ClusterSnapshot

PLACE = Installation("forewarn", "replica-0")
NOW = datetime(2030, 1, 1, tzinfo=UTC)
CLUSTER = f"{GROUP}/clusterreports/{NAME}"


def neglected() -> ClusterSnapshot:
    """The cluster of docs/guides/audit.md."""
    return load_cluster("docs/examples/audit/cluster.yaml").snapshot()


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


class Inline(PredictionProcess):
    """A process that is none."""

    def __init__(self, run: Callable[[Any], Any]) -> None:
        self._run = run

    def ask(self, question: object, until: float) -> Any:
        assert until > time.monotonic()
        return self._run(question)

    def end(self) -> None:
        """Nothing to kill."""


class Replica:
    def __init__(self, api: FakeApi, identity: str = "replica-0", config: Config | None = None) -> None:
        self.clock, self.metrics, self.runs = Clock(), Metrics(), 0
        self.state: ClusterSnapshot | None = neglected()
        self.fault: Exception | None = None
        self.auditor = Auditor(
            api,
            Installation("forewarn", identity),
            self.metrics,
            lambda: self.state,
            lambda: config or Config(),
            self._fork,
            3600,
            self.clock,
        )

    def _fork(self, run: Callable[[Any], Any]) -> Inline:
        self.runs += 1
        if self.fault:
            raise self.fault
        return Inline(run)

    def turn(self) -> None:
        self.auditor.elect()
        self.auditor.reconcile()

    def findings(self) -> dict[str, str]:
        text = self.metrics.exposition("")[0].decode()
        lines = [line for line in text.splitlines() if line.startswith("forewarn_audit_findings{")]
        return dict(line.rsplit(" ", 1) for line in lines)


@pytest.fixture(autouse=True)
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the process of the tests nothing is niced."""
    monkeypatch.setattr("os.nice", lambda _: 0)


def installed(*, reports: bool = True) -> FakeApi:
    api = FakeApi(PLACE.audit)
    if reports:
        api.put(GROUP, {"resources": [{"name": "reports"}, {"name": "clusterreports"}, {"name": "reports/status"}]})
    return api


def events(api: FakeApi) -> list[dict[str, Any]]:
    return [obj for path, obj in sorted(api.objects.items()) if "/events/" in path]


def test_the_elected_replica_audits_at_once_and_again_after_the_interval() -> None:
    api = installed()
    replica, other = Replica(api), Replica(api, "replica-1")
    for _ in range(3):
        replica.turn()
        other.turn()
    assert (replica.runs, other.runs) == (1, 0)
    assert replica.findings() == {
        'forewarn_audit_findings{rule="pods-of-missing-class",severity="warning"}': "1.0",
        'forewarn_audit_findings{rule="pods-older-than-default",severity="warning"}': "1.0",
        'forewarn_audit_findings{rule="quota-matches-nothing",severity="note"}': "1.0",
        'forewarn_audit_findings{rule="restart-preempts",severity="warning"}': "1.0",
        'forewarn_audit_findings{rule="restart-stays-pending",severity="warning"}': "1.0",
        'forewarn_audit_findings{rule="unknown-priority-class",severity="error"}': "1.0",
        'forewarn_audit_findings{rule="unused-priority-class",severity="note"}': "1.0",
    }
    assert other.findings() == {}
    assert float(value_of(replica.metrics, "forewarn_audit_last_run_timestamp_seconds")) > time.time() - 60
    for now in range(0, 3600, 10):
        replica.clock.now = now
        replica.turn()
    assert replica.runs == 1
    replica.clock.now = 3600
    replica.turn()
    assert replica.runs == 2
    assert value_of(replica.metrics, 'forewarn_audits_total{outcome="completed"}') == "2.0"


def test_who_is_no_longer_elected_tells_nothing_any_more() -> None:
    api = installed()
    first, second = Replica(api), Replica(api, "replica-1")
    first.turn()
    second.turn()
    second.clock.now += 31
    second.turn()
    assert second.findings()
    first.clock.now += 31
    first.turn()
    assert first.findings() == {}


def test_what_is_exempt_by_configuration_or_suppressed_is_not_told() -> None:
    text = """
severities: {unknown-priority-class: note}
suppressions: [{rules: [unused-priority-class], objects: [PriorityClass launch-day], reason: kept for the next one}]
"""
    config = read_config(text, "c")
    replica = Replica(installed(), config=config)
    replica.turn()
    assert not any("unused-priority-class" in name for name in replica.findings())
    assert 'forewarn_audit_findings{rule="unknown-priority-class",severity="note"}' in replica.findings()


def test_nothing_is_audited_while_the_state_of_the_cluster_is_unknown_or_late() -> None:
    replica = Replica(installed())
    replica.state = None
    replica.turn()
    assert replica.runs == 0
    replica.state = neglected()
    replica.turn()
    assert replica.runs == 1


def test_a_failure_is_counted_and_tried_again_later_and_later(caplog: pytest.LogCaptureFixture) -> None:
    replica = Replica(installed())
    replica.fault = Unanswered("its process has ended")
    at = []
    for now in range(0, 700, 10):
        replica.clock.now, before = now, replica.runs
        replica.turn()
        if replica.runs > before:
            at.append(now)
    assert at == [0, 30, 90, 210, 450]
    whys = [vars(record)["fields"]["reason"] for record in caplog.records if record.getMessage() == "audit failed"]
    assert whys == ["its process has ended"] * 5
    assert value_of(replica.metrics, 'forewarn_audits_total{outcome="failed"}') == "5.0"
    replica.fault, replica.clock.now = None, 1000
    replica.turn()
    assert replica.findings()


def test_an_api_server_that_is_away_ends_nothing() -> None:
    api = installed()
    replica = Replica(api)
    replica.auditor.elect()
    api.before = unreachable
    replica.auditor.reconcile()
    assert value_of(replica.metrics, 'forewarn_audits_total{outcome="failed"}') == "1.0"


def test_a_cluster_report_names_everything_and_that_of_a_namespace_nothing_of_others() -> None:
    api = installed()
    Replica(api).turn()
    report = api.objects[CLUSTER]
    assert (report["kind"], report["source"]) == ("ClusterReport", "forewarn")
    assert report["summary"] == {"pass": 0, "fail": 1, "warn": 6, "error": 0, "skip": 0}
    preempting = next(r for r in report["results"] if r["policy"] == "restart-preempts")
    assert "reports/nightly-1 (priority 0)" in preempting["message"]
    assert preempting["resources"] == [
        {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop", "name": "web"}
    ]
    shop = api.objects[f"{GROUP}/namespaces/shop/reports/{NAME}"]
    assert (shop["kind"], shop["metadata"]["namespace"]) == ("Report", "shop")
    assert {result["policy"] for result in shop["results"]} == {"restart-preempts", "restart-stays-pending"}
    assert "nightly" not in json.dumps(shop)
    assert "would preempt 1 Pod" in json.dumps(shop)
    assert all(result["result"] in ("fail", "warn") for result in report["results"])


def test_a_report_that_would_be_the_same_is_not_written_again() -> None:
    api = installed()
    replica = Replica(api)
    replica.turn()
    api.calls.clear()
    replica.clock.now = 3600
    replica.turn()
    written = {path for verb, path in api.calls if verb != "get"}
    assert written == {PLACE.audit}


def test_the_report_of_a_namespace_is_emptied_by_whoever_audits_next_once_nothing_is_found_there() -> None:
    api = installed()
    Replica(api).turn()
    solved = frozenset(("restart-preempts", "restart-stays-pending"))
    better = Replica(api, "replica-1", Config()._replace(disabled_rules=solved))
    better.auditor.elect()
    better.clock.now += 31
    better.turn()
    shop = api.objects[f"{GROUP}/namespaces/shop/reports/{NAME}"]
    assert (shop["results"], shop["summary"]["warn"]) == ([], 0)
    assert api.objects[f"{GROUP}/namespaces/reports/reports/{NAME}"]["results"]


def test_without_the_kinds_there_are_events_which_are_made_once() -> None:
    api = installed(reports=False)
    replica = Replica(api)
    replica.turn()
    made = events(api)
    told = {(event["metadata"]["namespace"], event["involvedObject"]["kind"]) for event in made}
    assert told == {
        ("reports", "Deployment"),
        ("shop", "Deployment"),
        ("shop", "StatefulSet"),
        ("default", "PriorityClass"),
    }
    for event in made:
        assert event["involvedObject"].get("namespace", "default") == event["metadata"]["namespace"]
        assert (event["type"], event["reason"]) == ("Warning", "ForewarnAudit")
    in_shop = [event["message"] for event in made if event["metadata"]["namespace"] == "shop"]
    assert not any("nightly" in message for message in in_shop)
    api.calls.clear()
    replica.clock.now = 3600
    replica.turn()
    assert len(events(api)) == len(made)


def test_without_the_right_to_write_there_are_the_metrics() -> None:
    api = installed()

    def rejected(verb: str, path: str) -> None:
        if GROUP in path and path != GROUP:
            raise Forbidden(f"{verb} {path}: no")

    api.before = rejected
    replica = Replica(api)
    replica.turn()
    assert replica.findings()
    assert value_of(replica.metrics, 'forewarn_audits_total{outcome="completed"}') == "1.0"


def found(number: int, namespace: str, text: str = "m") -> Finding:
    ref = ObjectRef("apps/v1", "Deployment", namespace, f"web-{number}")
    return Finding(NO_LOCATION, Severity.WARNING, "restart-preempts", ref, Text(text))


def audited(*every: Finding) -> Audited:
    return Audited(every, {("restart-preempts", "warning"): len(every)}, 0, is_complete=True, seconds=0.0)


def test_objects_are_few_and_small_however_much_is_found() -> None:
    many = audited(*(found(n, f"ns-{n:04}", "é" * 600) for n in range(MAX_REPORTED)))
    api = installed()
    publish(api, many, NOW, "r")
    reports = [path for path in api.objects if path.endswith(f"/reports/{NAME}")]
    assert len(reports) == MAX_REPORTS
    report = api.objects[CLUSTER]
    assert 100 < len(report["results"]) < MAX_REPORTED
    assert report["summary"]["warn"] == MAX_REPORTED
    assert len(json.dumps(report)) < 1_000_000
    api = installed(reports=False)
    publish(api, many, NOW, "r")
    assert len(events(api)) == MAX_EVENTS
    assert all(len(event["message"]) <= 1024 for event in events(api))


def test_namespaces_without_a_report_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    api = installed()

    def deny(verb: str, path: str) -> None:
        if verb == "create" and "/namespaces/shop/" in path:
            raise Forbidden("quota used up")

    api.before = deny
    Replica(api).turn()
    whys = [vars(each)["fields"]["reason"] for each in caplog.records if each.getMessage() == "audit reports missing"]
    assert whys == ["Reports denied in 1 namespace (shop): quota used up"]


def test_a_namespace_that_is_going_is_passed_over() -> None:
    api = installed()

    def going(verb: str, path: str) -> None:
        if verb == "create" and "/namespaces/a/" in path:
            raise NotFound("namespaces a not found")

    api.before = going
    assert publish(api, audited(found(1, "a"), found(2, "b")), NOW, "r") == ("reports", ())
    assert f"{GROUP}/namespaces/b/reports/{NAME}" in api.objects


class Worked:
    """A clock and a processor: work takes both, rest the clock alone."""

    def __init__(self) -> None:
        self.now = self.used = 0.0

    def work(self, seconds: float) -> None:
        self.now += seconds
        self.used += seconds

    def rest(self, seconds: float) -> None:
        self.now += seconds


def test_an_audit_never_has_more_than_its_share_of_a_core() -> None:
    worked = Worked()
    expired = Throttle(SHARE, 1e9, lambda: worked.now, lambda: worked.used, worked.rest)
    for step in range(10_000):
        worked.work(0.0005 if step % 1000 else 0.5)  # now and then something long between two looks
        assert expired() is False
        assert worked.used <= SHARE * worked.now + 0.02 * SHARE + 1e-9
    assert worked.used > 0.95 * SHARE * worked.now, "and it has that"


def test_an_audit_is_over_when_its_time_is_and_rests_no_longer_than_that() -> None:
    worked = Worked()
    expired = Throttle(SHARE, 10.0, lambda: worked.now, lambda: worked.used, worked.rest)
    worked.work(5)
    assert expired() is True
    assert worked.now == 10.0


def test_what_had_no_time_is_not_counted_as_found_and_the_rest_is() -> None:
    result = scan(neglected(), Config(), until=0.0)
    assert not result.is_complete
    assert not any("restart" in rule for rule, _ in result.counts)
    assert ("unknown-priority-class", "error") in result.counts
    assert scan(neglected(), Config(), until=time.monotonic() + 60, share=1.0).is_complete


def test_an_audit_without_time_is_counted_as_cut_short() -> None:
    replica = Replica(installed())
    replica.auditor._audited = lambda cluster: scan(cluster, Config(), until=0.0)  # type: ignore[method-assign]
    replica.turn()
    assert value_of(replica.metrics, 'forewarn_audits_total{outcome="incomplete"}') == "1.0"


def test_it_is_done_by_a_process_of_its_own_that_ends_with_the_replica() -> None:
    workers, api, metrics = Workers(), installed(), Metrics()
    state = neglected()
    auditor = Auditor(api, PLACE, metrics, lambda: state, Config, workers.fork, 60)
    contexts = SwappingContext(self_signed(datetime.now(UTC)))
    upkeep = ReplicaControllers(api, PLACE, metrics, contexts, lambda: None, auditor=auditor)
    end = upkeep.start()
    try:
        until = time.monotonic() + 60
        while CLUSTER not in api.objects:
            assert time.monotonic() < until
            time.sleep(0.05)
    finally:
        end()
        workers.stop()
    assert "holderIdentity" not in api.objects[PLACE.audit]["spec"], "another replica need not wait"


def test_an_audit_that_is_under_way_ends_at_once_when_its_replica_stops() -> None:
    api, asked, ended = installed(), Event(), Event()

    class Long(Inline):
        def ask(self, question: object, until: float) -> Any:
            asked.set()
            assert ended.wait(until - time.monotonic())
            raise Unanswered("its process has ended")

        def end(self) -> None:
            ended.set()

    auditor = Auditor(api, PLACE, Metrics(), neglected, Config, Long, 60)
    auditor.elect()
    end = auditor.start()
    assert asked.wait(60)
    end()
    assert ended.is_set()


def test_the_example_of_the_page_is_what_a_namespace_is_told() -> None:
    api = installed()
    Replica(api).turn()
    page = Path("docs/guides/audit.md").read_text()
    for result in api.objects[f"{GROUP}/namespaces/shop/reports/{NAME}"]["results"]:
        assert result["message"] in page
