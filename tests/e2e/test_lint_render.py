"""`forewarn lint --render` with the real helm, and with kustomize as it is in the real kubectl."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.build import HELM, binaries, control_plane

pytestmark = pytest.mark.e2e

CLASS = "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: gold}\nvalue: 5\n"
WEB = """apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  selector: {matchLabels: {a: b}}
  template:
    metadata: {labels: {a: b}}
    spec:
      priorityClassName: gold
      containers: [{name: c, image: i}]
"""
CHART = {
    "Chart.yaml": "apiVersion: v2\nname: shop\nversion: 0.1.0\ndependencies: [{name: inner, version: 0.1.0}]\n",
    "values.yaml": "tiers: [gold, glod]\n",
    "templates/_helpers.tpl": '{{- define "shop.name" -}}{{ .Release.Name }}-{{ .Chart.Name }}{{- end -}}\n',
    "templates/class.yaml": "{{- if .Values.tiers }}\n" + CLASS + "{{- end }}\n",
    "templates/pods.yaml": """{{- range .Values.tiers }}
---
apiVersion: v1
kind: Pod
metadata:
  name: {{ include "shop.name" $ }}-{{ . }}
spec:
  priorityClassName: {{ . | quote }}
{{- end }}
""",
    "charts/inner/Chart.yaml": "apiVersion: v2\nname: inner\nversion: 0.1.0\n",
    "charts/inner/templates/pod.yaml": "apiVersion: v1\nkind: Pod\nmetadata: {name: in}\nspec: {priorityClass: gold}\n",
}
OVERLAY = {
    "base/kustomization.yaml": "resources: [web.yaml, class.yaml]\n",
    "base/web.yaml": WEB,
    "base/class.yaml": CLASS,
    "prod/kustomization.yaml": "resources: [../base]\nnamespace: prod\nnamePrefix: p-\npatches:\n- path: patch.yaml\n",
    "prod/patch.yaml": "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec: {template: {spec: "
    "{priorityClassName: platinum}}}\n",
    "stage/kustomization.yaml": "resources: [../base]\nnamespace: stage\n",
}


def _lint(tree: Path, files: dict[str, str], *programs: Path) -> tuple[int, dict[str, Any], str]:
    """The report on these files, with no other helm and no kustomize to be found than these."""
    for name, text in files.items():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text(text)
    path = os.pathsep.join([*map(str, programs), "/usr/bin", "/bin"])
    environment = {**os.environ, "PATH": path, "PYTHONPATH": os.getcwd(), "HOME": str(tree.parent)}
    command = [sys.executable, "-m", "forewarn", "lint", "--render", "--closed", "-o", "json"]
    done = subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True, check=False, timeout=120)
    return done.returncode, json.loads(done.stdout) if done.stdout else {}, done.stderr


def _told(report: dict[str, Any]) -> list[tuple[str, str, str]]:
    return sorted((f["file"], f["object"]["name"], f["rule"]) for f in report["findings"])


@pytest.mark.whole
def test_helm(tmp_path: Path) -> None:
    status, report, _ = _lint(tmp_path / "shop", CHART, binaries(HELM))
    assert status == 1
    assert [(file, rule) for file, _, rule in _told(report)] == [
        ("./charts/inner/templates/pod.yaml", "unknown-field"),
        ("./templates/pods.yaml", "unknown-priority-class"),
    ]
    assert _told(report)[1][1].endswith("-shop-glod"), "what a helper and a value made of it"
    wrong = {"templates/pods.yaml": '{{ .Values.tiers.none.more }}\n{{ fail "nothing \x1b[31mdoing" }}\n'}
    status, report, _ = _lint(tmp_path / "shop", wrong, binaries(HELM))
    (message,) = [f["message"] for f in report["findings"] if f["rule"] == "parse-error"]
    assert (status, message.startswith("cannot render: helm template"), "\x1b" in message) == (1, True, False)


def test_kustomize(tmp_path: Path) -> None:
    kubectl = binaries(control_plane())
    status, report, said = _lint(tmp_path / "shop", OVERLAY, kubectl)
    assert (status, _told(report)) == (1, [("./prod/patch.yaml", "p-web", "unknown-priority-class")]), said
    (finding,) = report["findings"]
    assert finding["object"]["namespace"] == "prod"
    wrong = {"stage/kustomization.yaml": "resources: [../nothing]\n"}
    status, report, said = _lint(tmp_path / "shop", wrong, kubectl)
    (message,) = [f["message"] for f in report["findings"] if f["file"] == "./stage/kustomization.yaml"]
    assert (status, message.startswith("cannot render: kubectl kustomize")) == (1, True), said
