"""From nothing to a first warning on `make cluster`: each way to install the webhook, and the tutorial.

The commands are typed as docs/get-started/tutorial.md and docs/guides/run-the-webhook.md have them. `-s` prints how
long each way took.
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
TUTORIAL = ROOT / "docs/get-started/tutorial.md"
GUIDE = ROOT / "docs/guides/run-the-webhook.md"


def typed(page: Path, heading: str) -> list[str]:
    """The blocks of shell commands under a heading of a page, without its subsections."""
    section = re.split(r"^##+ ", page.read_text().split(f"\n## {heading}\n", 1)[1], maxsplit=1, flags=re.MULTILINE)[0]
    blocks = re.findall(r"^ *```sh\n(.*?)^ *```$", section, re.MULTILINE | re.DOTALL)
    return [textwrap.dedent(block).strip() for block in blocks]


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


(LINT,) = typed(TUTORIAL, "Lint a manifest")
KUSTOMIZE, CHART, READY = typed(TUTORIAL, "Install the webhook")
(HELLO,) = typed(TUTORIAL, "See a first warning")
FILL_AND_PREDICT, DRY_RUN = typed(TUTORIAL, "Predict a preemption")
FILL, PREDICT = FILL_AND_PREDICT.rsplit("\n", 1)
APPLY, WHY = typed(TUTORIAL, "Let the preemption happen")
(LOSE,) = typed(TUTORIAL, "Simulate losing a node")
CERTIFICATE, REGISTER = typed(GUIDE, "Run the webhook outside the cluster")


def warned(cluster: Cluster) -> None:
    """See both warnings of the tutorial, and the preemption come true."""
    assert re.search(r"Warning: .*\[unknown-priority-class\]", cluster.type(HELLO))
    cluster.type(FILL)
    printed = cluster.type(DRY_RUN)
    assert re.search(r"Warning: (Deployment \S+: )?would preempt 1 Pod.*\[preempts-running-pods\]", printed), printed
    cluster.type(APPLY)
    wait_until(lambda: pending(cluster) != "", 30, "one Pod of hello-crowd is preempted, its replacement is Pending")


def pending(cluster: Cluster) -> str:
    """The name of a Pending Pod of hello-crowd, or nothing."""
    pods = cluster.kubectl("get", "pods", "-l", "app=hello-crowd", "--no-headers").stdout.splitlines()
    return next((line.split()[0] for line in pods if "Pending" in line), "")


def states(report: str) -> set[str]:
    """The states of the checks of `forewarn webhook doctor`: ok, warning, problem."""
    return {line.split()[1] for line in report.splitlines() if not line.startswith(" ")}


def test_nodes_look_as_nodes_do(cluster: Cluster) -> None:
    nodes = [line.split() for line in cluster.kubectl("get", "nodes", "--no-headers").stdout.splitlines()]
    assert [(name, status) for name, status, *_ in nodes] == [(f"node-{name}", "Ready") for name in "abc"]
    assert all(version.startswith("v1.") for *_, version in nodes)


def test_from_nothing_to_a_first_warning_by_kustomize(cluster: Cluster) -> None:
    assert "[unknown-priority-class]" in cluster.type(f"{LINT} || test $? = 1")
    with timed("kustomize, to both warnings"):
        cluster.type(KUSTOMIZE, READY)
        warned(cluster)
    assert "insufficient cpu" in cluster.type(re.sub(r"hello-crowd-[\w-]+", pending(cluster), WHY))
    assert "default/hello-crowd" in cluster.type(LOSE)
    assert "default/hello-preemption" in cluster.type(PREDICT)
    report = cluster.run("forewarn", "webhook", "doctor", "--timeout", "120")
    assert re.search(r"responses +ok +/readyz +ready: forewarn-\w+-\w+, forewarn-", report.stdout), report.stdout
    assert "problem" not in states(report.stdout)
    cluster.kubectl("-n", "forewarn", "rollout", "restart", "deployment/forewarn")
    cluster.kubectl("-n", "forewarn", "rollout", "status", "deployment/forewarn", "--timeout=300s")


@pytest.mark.whole
def test_from_nothing_to_a_first_warning_by_the_chart(cluster: Cluster) -> None:
    cluster.environment["PATH"] = f"{binaries(HELM)}:{cluster.environment['PATH']}"
    with timed("the chart, to both warnings"):
        cluster.type(CHART, READY)
        warned(cluster)
    assert "problem" not in states(cluster.run("forewarn", "webhook", "doctor", "--timeout", "120").stdout)
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
                wait_until(lambda: "Warning: " in cluster.type(HELLO), 10, "API servers ask it")
                warned(cluster)
            finally:
                served.terminate()
