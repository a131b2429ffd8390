"""The scheduler's configuration is read again while the webhook runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from forewarn.policies.kubernetes.releases.release import Release
from forewarn.policies.linting.config.scheduler import scheduler_source
from forewarn.webhook.commands.serve import _scheduler
from forewarn.webhook.commands.state_source import StateSource, from_files
from forewarn.webhook.informer.informer import ClusterState, ListCompleted, ListStarted, ReleaseSet, Runs
from forewarn.webhook.metrics import Metrics
from forewarn.webhook.settings import parse_settings
from tests.webhook.scripted_api import BY_NAME

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from forewarn.policies.kubernetes.cluster.cache import ClusterSnapshot

CLASSES = BY_NAME["priorityclasses"]
CONFIG = (
    "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n- schedulerName: {}\n"
)
PACKED = Release(scheduler=scheduler_source("openshift-high-node-utilization"))


def strategy(cluster: ClusterSnapshot | None) -> str:
    assert cluster is not None
    scheduler = cluster.semantics.scheduler
    found = scheduler.profiles["default-scheduler"].args["NodeResourcesFit"].strategy if scheduler else "the release's"
    return str(found)


def test_a_cluster_that_is_watched() -> None:
    state = ClusterState([CLASSES], release=Release())
    for news in (Runs("v1.35.8"), ListStarted(CLASSES), ListCompleted(CLASSES, 0.0)):
        state.take(news)
    assert state.publish()
    assert strategy(state.latest) == "the release's"
    state.take(ReleaseSet(PACKED))
    assert state.publish()
    assert strategy(state.latest) == "MostAllocated"
    assert state.latest is not None
    assert state.latest.semantics.minor == 35, "of the release that the API server told"


def test_a_cluster_out_of_files(tmp_path: Path) -> None:
    state = from_files(["webhook/sample/cluster.yaml"], Metrics(), Release())
    state.use(PACKED)
    assert strategy(state.cluster()) == "MostAllocated"


def test_a_file_that_changes(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "scheduler.yaml"
    path.write_text(CONFIG.format("first"))
    settings = parse_settings(["--scheduler-config", str(path)], {})
    told: list[frozenset[str]] = []
    state = StateSource(lambda: None, use=lambda release: told.append(release.semantics().scheduler_names))
    look = _scheduler(settings, state, Metrics())
    look()
    assert told == []
    path.write_text(CONFIG.format("second"))
    look()
    assert told == [frozenset({"second"})]
    path.write_text("kind: [")
    look()
    assert told == [frozenset({"second"})], "what cannot be read is refused, and the old one stays"


def test_a_rejected_file_is_not_used_later(caplog: pytest.LogCaptureFixture) -> None:
    """The version of the cluster is read again every minute."""
    state = ClusterState([CLASSES], release=PACKED)
    for news in (Runs("v1.34.10"), ListStarted(CLASSES), ListCompleted(CLASSES, 0.0)):
        state.take(news)
    assert state.publish()
    for gate in ("WithoutSuchAGate", "AnotherGate"):
        state.take(ReleaseSet(Release(gates={gate: True})))
        state.take(Runs("v1.34.10"))
        assert not state.publish()
        assert gate in caplog.text
    assert strategy(state.latest) == "MostAllocated"
