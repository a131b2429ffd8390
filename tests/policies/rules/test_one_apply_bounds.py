"""Quotas of one apply cost work only if they may limit its Pods; a prediction without time left is incomplete."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from forewarn.policies.base.metering import metered, never
from forewarn.policies.kubernetes.objects.reviewed_object import ChangeSet, ReviewedObject
from forewarn.policies.linting.config.model import Config
from forewarn.policies.linting.rules.support.context import Context, Phase
from forewarn.policies.linting.rules.support.predictions import Predicted
from tests.builders import Made, cluster, make_node, make_pod
from tests.work import steps

RESOURCES = {f"requests.example.com/r{number}": "1" for number in range(500)}
NOW = datetime(2026, 1, 1, tzinfo=UTC)
POD = make_pod("new").request(cpu="1")


def quota(namespace: str = "default", **spec: object) -> Made:
    return Made("v1", "ResourceQuota", "q", namespace).spec(hard=RESOURCES | {"pods": "2000"}, **spec)


def context_of(*made: Made, pods: int = 1000) -> Context:
    node = make_node("n").has(cpu="9999", pods="9999")
    stored = cluster(node, *(make_pod(f"old-{number}").request(cpu="1").on("n") for number in range(pods)))
    subjects = tuple(ReviewedObject(each.obj) for each in made)
    return Context(ChangeSet(subjects), stored, Config().options, Phase.LINT, NOW, never)


def predicted(context: Context) -> Predicted:
    return context.once(Predicted)


def test_without_time_to_count_the_pods_of_a_quota_the_prediction_is_incomplete() -> None:
    context = context_of(quota(), POD)
    with metered(lambda: True):
        impact = predicted(context).impact_of(context.change_set.subjects[1])
    assert impact is not None
    assert (impact.new, impact.rest) == (1, "unknown")


@pytest.mark.parametrize("made", [(quota(),), (quota("other"), POD)])
def test_quotas_that_limit_no_pod_of_the_apply_are_not_counted(made: tuple[Made, ...]) -> None:
    context = context_of(*made)
    with metered(lambda: True):
        assert context.cluster_to_be is not None


def test_equal_pods_are_read_once_for_a_quota() -> None:
    scope = {"scopeName": "PriorityClass", "operator": "NotIn", "values": [f"c{number}" for number in range(20)]}

    def work(pods: int) -> int:
        context = context_of(quota(scopeSelector={"matchExpressions": [scope] * 50}), POD, pods=pods)
        return steps(lambda: context.cluster_to_be)

    assert work(2000) - work(1000) < 50 * 1000
