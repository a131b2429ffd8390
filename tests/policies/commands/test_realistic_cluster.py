"""Questions of an owner about a cluster as it is found in production: 30 nodes in three zones, nine kinds of workload,
spread constraints, PodDisruptionBudgets, and databases whose volumes are bound to a zone."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from forewarn.policies.cli.main import main
from forewarn.policies.questions.application import whatif
from tests.in_process import forewarn
from tests.policies.commands.test_sweep_command import assert_in_ranges

if TYPE_CHECKING:
    from collections.abc import Sequence

pytestmark = pytest.mark.forks

PACKED = Path(__file__).parents[2] / "clusters/a.json.gz"
ZONES = ("eu-west-1a", "eu-west-1b", "eu-west-1c")
WITH_VOLUMES = ("data/kafka", "data/postgres", "search/elastic")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("clusters") / "a.json"
    path.write_bytes(gzip.decompress(PACKED.read_bytes()))
    return path


@pytest.fixture(scope="module")
def lost(cluster: Path) -> dict[str, Any]:
    """The answer to the loss of the first zone, of 6 runs in place of 24 and without FIX."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(whatif, "RUNS", 6)
        patch.setattr(whatif, "tested_fixes", lambda *_: [])
        patch.setattr(whatif, "with_fixes", lambda document, *_: document)
        done = forewarn("whatif", "lose", "zone", ZONES[0], "--cluster", cluster, "-o", "json")
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def asked(capsys: pytest.CaptureFixture[str], cluster: Path, arguments: Sequence[str], status: int = 0) -> Any:
    assert main([*arguments, "--cluster", str(cluster), "-o", "json"]) == status
    return json.loads(capsys.readouterr().out)


def test_pods_whose_volume_is_in_a_lost_zone_stay_pending(lost: dict[str, Any]) -> None:
    found = {each["workload"]: each for each in lost["workloads"]}
    for name in WITH_VOLUMES:
        each = found[name]
        missing = each["running"]["before"] - each["running"]["after"]
        assert missing >= each["pending"]["after"] >= 1, f"{name}: an ordered StatefulSet creates one Pod at a time"


def test_a_zone_has_one_figure(cluster: Path, lost: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    rows = {row["case"]: row for row in asked(capsys, cluster, ["whatif", "lose", "--each", "zone"])["cases"]}
    assert_in_ranges(rows[f"zone {ZONES[0]}"]["counters"], lost)


def test_an_upgrade_reaches_every_node(cluster: Path, capsys: pytest.CaptureFixture[str]) -> None:
    upgrade = asked(capsys, cluster, ["whatif", "upgrade", "--fail-on", "blocked"])["upgrade"]
    assert upgrade["complete"]
    assert (len(upgrade["order"]), upgrade["notReached"]) == (30, [])
    assert upgrade["seconds"] >= upgrade["leastSeconds"]


def test_databases_do_not_survive_the_loss_of_their_zone(cluster: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = {each["workload"]: each for each in asked(capsys, cluster, ["risk"])["workloads"]}
    for name in WITH_VOLUMES:
        assert found[name]["losesReplicasWith"].keys() >= {f"zone {zone}" for zone in ZONES}
