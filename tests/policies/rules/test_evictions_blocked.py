"""evictions-blocked: the replicas of workloads beyond the maximum are unknown."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from forewarn.policies.rules.support.rule_text import MAX_WORKLOADS
from tests.builders import make_pod
from tests.in_process import forewarn

if TYPE_CHECKING:
    from pathlib import Path


def deployment(name: str) -> dict[str, Any]:
    spec = {"containers": [{"name": "c", "image": "c"}]}
    template = {"metadata": {"labels": {"part-of": "shop"}}, "spec": spec}
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata} | {
        "spec": {"replicas": 2, "selector": {"matchLabels": {"part-of": "shop"}}, "template": template}
    }


@pytest.mark.parametrize(("others", "count"), [(MAX_WORKLOADS - 2, 1), (MAX_WORKLOADS - 1, 0)])
def test_nothing_is_reported_if_workloads_may_be_missing(others: int, count: int, tmp_path: Path) -> None:
    """The second Deployment, which allows two evictions, is the first object beyond the maximum."""
    budget = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "shop"}}
    budget["spec"] = {"minAvailable": 2, "selector": {"matchLabels": {"part-of": "shop"}}}
    pods = [make_pod(f"p{number}").obj for number in range(others)]
    more = [deployment("api")] if not count else []
    items = [budget, *pods, deployment("web"), *more]
    (tmp_path / "all.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    done = forewarn("lint", "--select", "evictions-blocked", "-o", "json", "all.json", cwd=tmp_path)
    assert len(json.loads(done.stdout)["findings"]) == count
