"""Every alert fires when it should, and only then, by promtool; and what alerts read is what programs print."""

from __future__ import annotations

import subprocess
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

from tests.e2e.api import Refused
from tests.e2e.build import PROMTOOL, binaries
from tests.e2e.installation import MANIFESTS
from tests.e2e.objects import pod, priority_class
from tests.e2e.webhook import Webhook

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.e2e.api import Api
    from tests.e2e.control_plane import ControlPlane
    from tests.e2e.installation import Installation

pytestmark = pytest.mark.e2e

TESTS = Path(__file__).with_name("alerts.yaml")


@pytest.fixture(scope="module")
def rules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The rules as Prometheus reads them, in a directory with their tests."""
    directory = tmp_path_factory.mktemp("alerts")
    shipped = yaml.safe_load((MANIFESTS / "components/monitoring/rules.yaml").read_text())
    path = directory / "rules.yaml"
    path.write_text(yaml.safe_dump(shipped["spec"]))
    (directory / TESTS.name).write_text(TESTS.read_text())
    return path


def promtool(*arguments: str | Path, stdin: str = "") -> None:
    """Run it; whatever it objects to is told."""
    command = [binaries(PROMTOOL) / "promtool", *arguments]
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr


def test_rules_are_in_order(rules: Path) -> None:
    promtool("check", "rules", "--lint=all", "--lint-fatal", rules)


def test_each_alert_fires_when_it_should_and_only_then(rules: Path) -> None:
    promtool("test", "rules", rules.with_name(TESTS.name))


@pytest.fixture(scope="module")
def missed(plane: ControlPlane, installed: Installation, api: Api) -> Iterator[Webhook]:
    """One replica, registered as it is shipped, that a pod and a class were sent to while nobody listened."""
    made = Webhook(plane, installed)
    try:
        made.begin(api)
        in_service, made.in_service = made.in_service, []
        made.proxy.cut()
        api.create(pod("past-forewarn"), dryRun="All")
        with suppress(Refused):
            api.create(priority_class("past-forewarn", 7), dryRun="All")
        made.in_service = in_service
        api.create(pod("by-forewarn"), dryRun="All")
        yield made
    finally:
        made.end(api)


def test_metrics_of_a_replica_follow_the_conventions(missed: Webhook) -> None:
    promtool("check", "metrics", stdin=missed.replicas[0].health("/metrics")[1])


@pytest.mark.parametrize(
    ("name", "labels"),
    [
        ("webhook_fail_open_count", ('name="validate.forewarn.dev"',)),
        ("webhook_fail_open_count", ('name="mutate.forewarn.dev"',)),
        (
            "webhook_rejection_count",
            ('name="classes.validate.forewarn.dev"', 'error_type="calling_webhook_error"'),
        ),
        ("webhook_admission_duration_seconds_count", ('name="validate.forewarn.dev"', 'rejected="false"')),
        ("webhook_admission_duration_seconds_bucket", ('name="mutate.forewarn.dev"', 'le="1"')),
    ],
)
def test_api_servers_count_what_alerts_read(missed: Webhook, api: Api, name: str, labels: tuple[str, ...]) -> None:
    del missed
    lines = api.ask("GET", "metrics").body["message"].splitlines()
    counted = [line for line in lines if line.startswith(f"apiserver_admission_{name}{{")]
    assert any(all(label in line for label in labels) for line in counted)
