"""From nothing to a first warning, as docs/install.md says: `make cluster`, the manifests as they are, hello.yaml."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.e2e

ROOT = Path(__file__).resolve().parents[2]


class Cluster:
    """What `make cluster` leaves running."""

    def __init__(self, home: Path) -> None:
        self.environment = {**os.environ, "CLUSTER_HOME": str(home), "HOME": str(home.parent)}
        told = self.run(sys.executable, "tests/e2e/cluster.py", "up")
        exported = dict(re.findall(r"export (\w+)=(\S+)", told.stdout))
        self.environment["KUBECONFIG"] = exported["KUBECONFIG"]
        self.environment["PATH"] = exported["PATH"].replace("$PATH", os.environ["PATH"])

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(command, cwd=ROOT, env=self.environment, capture_output=True, text=True, timeout=600)
        assert done.returncode == 0, done
        return done

    def kubectl(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self.run("kubectl", *arguments)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    made = Cluster(tmp_path / "cluster")
    yield made
    made.run(sys.executable, "tests/e2e/cluster.py", "down")
    assert not (tmp_path / "cluster").exists()
    assert "no cluster" in made.run(sys.executable, "tests/e2e/cluster.py", "down").stderr


def test_from_nothing_to_a_first_warning_by_kustomize(cluster: Cluster) -> None:
    cluster.kubectl("apply", "-k", "manifests/base")
    cluster.kubectl("-n", "forewarn", "rollout", "status", "deployment/forewarn", "--timeout=300s")
    told = cluster.kubectl("apply", "--dry-run=server", "-f", "docs/hello.yaml")
    assert "no PriorityClass with name no-such-class was found" in told.stderr
    report = cluster.run(sys.executable, "-m", "policies.cli", "doctor", "--timeout", "120")
    assert re.search(r"answering +ok +/readyz +ready: forewarn-\w+-\w+, forewarn-", report.stdout), report.stdout
    assert "problem" not in report.stdout
    cluster.kubectl("-n", "forewarn", "rollout", "restart", "deployment/forewarn")
    cluster.kubectl("-n", "forewarn", "rollout", "status", "deployment/forewarn", "--timeout=300s")
