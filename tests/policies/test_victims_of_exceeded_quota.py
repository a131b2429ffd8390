"""A quota that is exceeded may reject the replacements of victims, which predict itself does not simulate."""

from __future__ import annotations

import pytest

import forewarn
from tests.builders import Made, cluster, make_node, make_pod


@pytest.mark.parametrize(("used", "is_exceeded"), [("2", True), ("1", False)])
def test_an_exceeded_quota_of_victims_is_a_warning(used: str, is_exceeded: bool) -> None:
    low = make_pod("low").on("n1").priority(1).request(cpu="4")
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "low", "uid": "u", "controller": True}
    low.metadata(namespace="batch", ownerReferences=[owner])
    quota = Made("v1", "ResourceQuota", "batch", "batch")
    quota.spec(hard={"pods": "1"}).status(hard={"pods": "1"}, used={"pods": used})
    gold = Made("scheduling.k8s.io/v1", "PriorityClass", "gold")
    gold.obj["value"] = 9
    new = make_pod("new").request(cpu="4").metadata(namespace="shop")
    del new.obj["metadata"]["uid"]
    del new.obj["spec"]["priority"]
    new.spec(priorityClassName="gold")
    result = forewarn.predict(cluster(make_node("n1").has(cpu="4"), low, quota, gold), [new.obj])
    text = "quota batch/batch is exceeded already (2 of 1 pods): it may reject the replacements of 1 victim"
    assert result.predicted.victims
    assert (text in result.document.warnings) is is_exceeded
