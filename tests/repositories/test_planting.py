"""Whether plants change what they say, and nothing else."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
import yaml

from tests.repositories.planting import PLANTS, near, rounds, sites, with_nonsense

if TYPE_CHECKING:
    from pathlib import Path

_CLASS = "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata:\n  name: {}\nvalue: {}\n"
_WEB = """apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
  namespace: shop
spec:
  replicas: 2
  selector: {{matchLabels: {{app: web}}}}
  template:
    spec:
      priorityClassName: {}
      containers:
      - name: web
        image: web
        env:
        - name: LEVEL
          value: "1"
"""
_JOB = "apiVersion: batch/v1\nkind: Job\nmetadata:\n  name: job\nspec:\n  backoffLimit: 3\n  template: {spec: {}}\n"
_API = """apiVersion: apps/v1
kind: Deployment
metadata:
  name: api
  namespace: shop
spec:
  replicas: 2
  selector: {matchLabels: {app: api}}
  template:
    metadata:
      labels:
        app: api
    spec:
      nodeSelector:
        disk: ssd
      tolerations:
      - operator: Exists
      containers:
      - name: api
        image: api
        imagePullPolicy: Always
        resources:
          requests:
            cpu: 100m
            memory: 64Mi
"""
_AGENT = """apiVersion: apps/v1
kind: DaemonSet
metadata:
  name: fluent-bit
spec:
  selector: {matchLabels: {app: agent}}
  template:
    metadata: {labels: {app: agent}}
    spec:
      priorityClassName: system-node-critical
      containers:
      - name: agent
        image: agent
"""
_BUDGET = """apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: api
  namespace: shop
spec:
  maxUnavailable: 1
  selector:
    matchLabels:
      app: api
"""
_OTHERS = """apiVersion: batch/v1
kind: CronJob
metadata:
  name: report
spec:
  schedule: "@daily"
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata:
  name: api
spec:
  maxReplicas: 3
"""
_DEFAULT = (
    "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata:\n  name: base\nvalue: 1\nglobalDefault: false\n"
)
TREE = {
    "api.yaml": _API,
    "agent.yaml": _AGENT,
    "budget.yaml": _BUDGET,
    "others.yaml": _OTHERS,
    "base.yaml": _DEFAULT,
    "classes.yaml": "---\n".join([_CLASS.format("gold", 10), _CLASS.format("silver", 5)]),
    "web.yaml": _WEB.format("gold"),
    "other/system.yaml": _WEB.format("system-node-critical").replace("name: web", "name: system"),
    "job.yaml": _JOB,
}


def test_every_plant_fits_somewhere_and_leaves_yaml() -> None:
    planted = [site for together in rounds(TREE) for site in together]
    assert [p["name"] for p in PLANTS if p["name"] not in {site.plant["name"] for site in planted}] == []
    for site in planted:
        assert site.text != TREE[site.file]
        if "broken" in site.plant:
            with pytest.raises(yaml.YAMLError):
                list(yaml.compose_all(site.text))
        else:
            assert list(yaml.compose_all(site.text))


def test_no_two_plants_of_a_round_change_a_file() -> None:
    for together in rounds(TREE):
        assert len({site.file for site in together}) == len(together)
        assert len(together) == 1 or not any("alone" in site.plant for site in together)


def test_the_command_finds_them_all(tmp_path: Path) -> None:
    for file, text in TREE.items():
        (tmp_path / "shop" / file).parent.mkdir(exist_ok=True)
        (tmp_path / "shop" / file).write_text(text)
    command = [sys.executable, "-m", "tests.repositories", "--missed", str(tmp_path / "shop")]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=500)
    assert done.stderr == ""
    count = sum(map(len, rounds(TREE)))
    assert f"| all | {count} of {count} | {count} of {count} |" in done.stdout
    assert "3 of 3 nonsense names seen" in done.stdout


@pytest.mark.parametrize(("name", "wrong"), [("gold", "godl"), ("aaa", "aaax"), ("web-1", "wbe-1")])
def test_a_misspelling_is_near(name: str, wrong: str) -> None:
    assert near(name) == wrong


def test_templates_and_patches_are_known() -> None:
    (plant,) = (p for p in PLANTS if p["name"] == "misspelt class")
    files = {"a.yaml": "{{ if .x }}\n" + _WEB.format("gold"), "patch.yaml": _WEB.format("gold")}
    (site,) = sites(plant, files, {"defined": {"gold"}})
    assert (site.file, site.is_template) == ("a.yaml", True)
    assert list(sites(plant, files, {"defined": {"silver"}})) == []


def test_every_literal_class_gets_a_name_of_its_own() -> None:
    changed, names = with_nonsense(TREE | {"t.yaml": _WEB.format("{{ .Values.class }}")})
    assert sorted(changed) == ["agent.yaml", "other/system.yaml", "web.yaml"]
    assert len(set(names)) == len(names) == 3
