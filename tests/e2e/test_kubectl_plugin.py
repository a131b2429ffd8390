"""`kubectl forewarn`, by the real kubectl, of the real API server."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

from tests.e2e.objects import node

if TYPE_CHECKING:
    from tests.e2e.control_plane import ControlPlane

pytestmark = pytest.mark.e2e

CONTAINERS = [{"name": "c", "image": "img"}]


class People:
    """Somebody with kubectl and the plugin on the PATH, and a kubeconfig with two contexts."""

    def __init__(self, plane: ControlPlane, home: Path) -> None:
        config = json.loads(plane.kubeconfig().read_text())
        (context,) = config["contexts"]
        config["contexts"].append({"name": "elsewhere", "context": {**context["context"], "namespace": "kube-system"}})
        (home / "config").write_text(json.dumps(config))
        self.home = home
        self.environment = {
            **os.environ,
            "PATH": os.pathsep.join((str(plane.bin), str(Path(sys.executable).parent), os.environ["PATH"])),
            "KUBECONFIG": str(home / "config"),
            "HOME": str(home),
        }

    def kubectl(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["kubectl", *arguments], cwd=self.home, env=self.environment, capture_output=True, text=True, timeout=120
        )


@pytest.fixture
def people(plane: ControlPlane, tmp_path: Path) -> People:
    return People(plane, tmp_path)


def test_kubectl_finds_the_plugin(people: People) -> None:
    assert "kubectl-forewarn" in people.kubectl("plugin", "list").stdout


def test_the_plugin_asks_the_cluster_and_namespace_that_kubectl_would(people: People) -> None:
    manifest = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}, "spec": {"containers": CONTAINERS}}
    (people.home / "pod.yaml").write_text(yaml.safe_dump(manifest))
    (people.home / "node.json").write_text(json.dumps({"apiVersion": "v1", "kind": "Node", **node("here")}))
    made = people.kubectl("create", "-f", "node.json")  # a prediction needs a node
    assert made.returncode == 0, made
    try:
        here = people.kubectl("forewarn", "predict", "-f", "pod.yaml")
        there = people.kubectl("forewarn", "predict", "-f", "pod.yaml", "--context", "elsewhere")
    finally:
        people.kubectl("delete", "node", "here", "--ignore-not-found")
    assert (here.returncode, "Pod default/web: " in here.stdout) == (0, True), here
    assert (there.returncode, "Pod kube-system/web: " in there.stdout) == (0, True), there
    unknown_context = people.kubectl("forewarn", "audit", "--context", "nowhere")
    assert unknown_context.returncode == 2
    assert 'context "nowhere" not found' in unknown_context.stderr
    assert "elsewhere" in unknown_context.stderr


def test_kubectl_completes_the_plugins_commands_and_contexts(people: People) -> None:
    def completed(*words: str) -> list[str]:
        told = people.kubectl("__complete", "forewarn", *words)
        return [line.partition("\t")[0] for line in told.stdout.splitlines()]

    assert completed("head") == ["headroom", ":4"]
    assert completed("headroom", "--context", "else") == ["elsewhere", ":4"]
