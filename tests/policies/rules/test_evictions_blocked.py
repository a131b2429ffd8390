"""evictions-blocked: workloads beyond the maximum are unknown, and PodDisruptionBudgets of a cluster count."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest

from forewarn.policies.linting.rules.support.rule_text import MAX_WORKLOADS
from tests.builders import make_budget, make_node, make_pod
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


NO_CLASSES = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClassList", "items": list[Any]()}
ONE, TWO = make_budget("one", 1, **{"part-of": "shop"}).obj, make_budget("two", 1, app="db").obj
NARROW = make_budget("one", 1, **{"part-of": "shop", "app": "web"}).obj
POD = make_pod("db-0").spec(nodeName="n").labels(**{"part-of": "shop"}, app="db").obj
DONE = POD | {"status": {"phase": "Succeeded"}}
TWICE = make_budget("shop", 1, **{"part-of": "shop"}).obj


@pytest.mark.parametrize(
    ("stored", "new", "found"),
    [
        ([ONE, TWO, POD], [], ["one (Pod db-0): two selects them too", "two (Pod db-0): one selects them too"]),
        ([ONE, TWO, DONE], [], []),
        ([], [ONE, TWICE], ["one: shop selects them too", "shop: one selects them too"]),
        ([ONE, POD], [TWO], ["two (Pod db-0): one (stored) selects them too"]),
        ([ONE, TWO, POD], [NARROW], []),
        ([ONE, TWICE], [deployment("api")], ["api: one (stored), shop (stored) select them"]),
        ([TWICE], [ONE, deployment("api")], ["one (Deployment api): shop (stored) selects them too"]),
    ],
    ids=[
        "audit",
        "succeeded",
        "equal-selectors",
        "stored-budget",
        "narrowed",
        "workload",
        "workload-and-budget",
    ],
)
def test_budgets_that_select_the_same_pods(
    stored: list[dict[str, Any]], new: list[dict[str, Any]], found: list[str], tmp_path: Path
) -> None:
    for name, items in ("cluster", [make_node("n").obj, NO_CLASSES, *stored]), ("new", new):
        (tmp_path / f"{name}.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    command = ["lint", "--select", "evictions-blocked", "new.json"] if new else ["audit"]
    done = forewarn(*command, "--cluster", "cluster.json", "-o", "json", cwd=tmp_path)
    findings = [each for each in json.loads(done.stdout)["findings"] if each["rule"] == "evictions-blocked"]
    texts = [f"{each['object']['name']}{each['message'].removeprefix('evictions of Pods fail')}" for each in findings]
    assert [re.sub("PodDisruptionBudgets? ", "", text) for text in texts] == found
