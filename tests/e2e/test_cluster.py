"""From nothing to a first warning, as docs/install.md says: `make cluster`, and each way to install what is there.

The commands are those of the page. Run with `-s` it says what each way took.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.e2e.build import HELM, binaries
from tests.e2e.processes import free_ports
from tests.e2e.truth import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.e2e

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/install.md"


def typed(heading: str) -> list[str]:
    """What is to be typed under a heading of the page, a text for each block of it; output is left out."""
    section = re.split(r"^#+ ", PAGE.read_text().split(f"# {heading}\n", 1)[1], maxsplit=1, flags=re.MULTILINE)[0]
    blocks = [textwrap.dedent(block) for block in re.findall(r"(?:^ {4}.*\n|^\n(?= {4}))+", section, re.MULTILINE)]
    return [text for block in blocks for text in block.strip().split("\n\n") if not text.startswith("Warning:")]


class Cluster:
    """What `make cluster` leaves running."""

    def __init__(self, home: Path) -> None:
        self.environment = {**os.environ, "CLUSTER_HOME": str(home), "HOME": str(home.parent)}
        told = self.run(sys.executable, "tests/e2e/cluster.py", "up")
        exported = dict(re.findall(r"export (\w+)=(\S+)", told.stdout))
        self.environment["KUBECONFIG"] = exported["KUBECONFIG"]
        self.environment["PATH"] = exported["PATH"].replace("$PATH", os.environ["PATH"])

    def type(self, *texts: str) -> str:
        """What a terminal shows of them."""
        shell = ["bash", "-euc", "\n".join(texts)]
        done = subprocess.run(
            shell, cwd=ROOT, env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=600
        )
        assert done.returncode == 0, done.stdout.decode()
        return done.stdout.decode()

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(command, cwd=ROOT, env=self.environment, capture_output=True, text=True, timeout=600)
        assert done.returncode == 0, done
        return done

    def kubectl(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self.run("kubectl", *arguments)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with timed("make cluster"):
        made = Cluster(tmp_path / "cluster")
    yield made
    made.run(sys.executable, "tests/e2e/cluster.py", "down")
    assert not (tmp_path / "cluster").exists()
    assert "no cluster" in made.run(sys.executable, "tests/e2e/cluster.py", "down").stderr


@contextmanager
def timed(what: str) -> Iterator[None]:
    began = time.monotonic()
    yield
    print(f"\ne2e: {what}: {time.monotonic() - began:.1f} s")


_, KUSTOMIZE, CHART, ONCE_READY = typed("Try it without a cluster")
READY, HELLO = ONCE_READY.splitlines()
CROWD, FILLED, PREEMPTS = typed("Whom a Deployment pushes out")[0].splitlines()
CERTIFICATE, REGISTER, ASK = typed("Without installing anything on it")


def warned(cluster: Cluster) -> None:
    """The two warnings of the page, and what comes of the second."""
    told = cluster.type(HELLO)
    assert 'Warning: PriorityClass "no-such-class" not found' in told
    cluster.type(CROWD, FILLED)
    told = cluster.type(PREEMPTS)
    (warning,) = re.findall(r"Warning: would preempt 1 Pod.*", told)
    assert re.search(r": possibly default/hello-crowd-\w+-\w+", warning), warning
    cluster.type(PREEMPTS.replace(" --dry-run=server", ""))
    wait_until(lambda: "Pending" in cluster.kubectl("get", "pods", "-l", "app=hello-crowd").stdout, 30, "one has to go")


def test_nodes_look_as_nodes_do(cluster: Cluster) -> None:
    nodes = [line.split() for line in cluster.kubectl("get", "nodes", "--no-headers").stdout.splitlines()]
    assert [(name, status) for name, status, *_ in nodes] == [(f"node-{name}", "Ready") for name in "abc"]
    assert all(version.startswith("v1.") for *_, version in nodes)


def test_from_nothing_to_a_first_warning_by_kustomize(cluster: Cluster) -> None:
    with timed("kustomize, to both warnings"):
        cluster.type(KUSTOMIZE, READY)
        warned(cluster)
    report = cluster.run("forewarn", "webhook", "doctor", "--timeout", "120")
    assert re.search(r"answering +ok +/readyz +ready: forewarn-\w+-\w+, forewarn-", report.stdout), report.stdout
    assert "problem" not in report.stdout
    cluster.kubectl("-n", "forewarn", "rollout", "restart", "deployment/forewarn")
    cluster.kubectl("-n", "forewarn", "rollout", "status", "deployment/forewarn", "--timeout=300s")


@pytest.mark.whole
def test_from_nothing_to_a_first_warning_by_the_chart(cluster: Cluster) -> None:
    cluster.environment["PATH"] = f"{binaries(HELM)}:{cluster.environment['PATH']}"
    with timed("the chart, to both warnings"):
        cluster.type(CHART, READY)
        warned(cluster)
    assert "problem" not in cluster.run("forewarn", "webhook", "doctor", "--timeout", "120").stdout
    cluster.type("helm uninstall forewarn -n forewarn")
    left = cluster.kubectl("get", "validatingwebhookconfigurations,mutatingwebhookconfigurations", "-o", "name").stdout
    assert left == ""


def test_from_nothing_to_a_first_warning_by_serve(cluster: Cluster, tmp_path: Path) -> None:
    """In a directory and on ports of its own: 8443 may be somebody else's here."""
    port, health = map(str, free_ports(2))
    cluster.environment |= {"FOREWARN_PORT": port, "FOREWARN_HEALTH_PORT": health}
    *certificate, serve = CERTIFICATE.replace(".cache", f"{tmp_path}/trial").splitlines()
    with timed("serve, to both warnings"):
        cluster.type(*certificate)
        log = tmp_path / "log"
        with (
            log.open("wb") as written,
            subprocess.Popen(
                serve.split(), cwd=ROOT, env=cluster.environment, stdout=written, stderr=subprocess.STDOUT
            ) as served,
        ):
            try:
                wait_until(lambda: "cluster state synced" in log.read_text(), 60, "serve knows the cluster's state")
                cluster.type(REGISTER.replace(".cache", f"{tmp_path}/trial").replace("8443", port))
                wait_until(lambda: "Warning: " in cluster.type(ASK), 10, "API servers ask it")
                warned(cluster)
            finally:
                served.terminate()
