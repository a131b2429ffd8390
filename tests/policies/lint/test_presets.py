"""Presets of hosted clusters: their own classes, and what their admission rejects."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.in_process import forewarn

if TYPE_CHECKING:
    from pathlib import Path

POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: web, namespace: %s}\nspec: {priorityClassName: %s}\n---\n"
QUOTA = """apiVersion: v1
kind: ResourceQuota
metadata: {name: critical, namespace: shop}
spec:
  hard: {pods: 10}
  scopeSelector:
    matchExpressions: [{scopeName: PriorityClass, operator: In, values: [system-node-critical]}]
"""
BLOCKED = "system-class-blocked-by-quota"
UNKNOWN = "unknown-priority-class"


@pytest.mark.parametrize("is_option", [True, False])
@pytest.mark.parametrize(
    ("preset", "text", "rules"),
    [
        ("gke", POD % ("shop", "system-node-critical"), [BLOCKED]),
        ("gke", POD % ("kube-system", "system-node-critical"), []),
        ("gke", POD % ("shop", "system-node-critical") + QUOTA, []),
        ("gke", POD % ("shop", "system-cluster-critical") + QUOTA, [BLOCKED]),
        ("gke", POD % ("shop", "openshift-user-critical"), [UNKNOWN]),
        ("openshift", POD % ("shop", "system-node-critical"), []),
        ("openshift", POD % ("shop", "openshift-user-critical"), []),
        ("openshift", POD % ("shop", "openshift-user-critcal"), [UNKNOWN]),
        ("eks", POD % ("shop", "system-node-critical"), []),
        ("", POD % ("shop", "system-node-critical"), []),
        ("", POD % ("shop", "openshift-user-critical"), [UNKNOWN]),
    ],
)
def test_a_preset_knows_the_classes_and_limits_of_its_clusters(
    tmp_path: Path, preset: str, text: str, rules: list[str], is_option: bool
) -> None:
    (tmp_path / "a.yaml").write_text(text)
    given = ("--preset", preset) if preset and is_option else ()
    if preset and not is_option:
        (tmp_path / ".forewarn.yaml").write_text(f"preset: {preset}\n")
    arguments = ("--closed", "--select", f"{BLOCKED},{UNKNOWN}", "-q", "-o", "json")
    done = forewarn("lint", *given, *arguments, cwd=tmp_path)
    assert [finding["rule"] for finding in json.loads(done.stdout)["findings"]] == rules


def test_an_unknown_preset_is_rejected_with_the_known_ones(tmp_path: Path) -> None:
    (tmp_path / ".forewarn.yaml").write_text("preset: gek\n")
    done = forewarn("lint", cwd=tmp_path)
    assert (done.returncode, "gke" in done.stderr, ".forewarn.yaml:1" in done.stderr) == (2, True, True)


@pytest.mark.parametrize(("preset", "severities"), [("openshift", ["error"]), ("aks", [])])
def test_a_misspelt_class_of_a_hosted_cluster_is_found_without_other_classes(
    tmp_path: Path, preset: str, severities: list[str]
) -> None:
    (tmp_path / "a.yaml").write_text(POD % ("shop", "openshift-user-critcal"))
    done = forewarn("lint", "--preset", preset, "--select", UNKNOWN, "-q", "-o", "json", cwd=tmp_path)
    assert [finding["severity"] for finding in json.loads(done.stdout)["findings"]] == severities
