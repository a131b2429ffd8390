"""One manifest has one count of preempted, Pending and fitting Pods: in the linter, the webhook and `predict`."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from forewarn.policies.kubernetes.objects.reviewed_object import ChangeSet, Operation, ReviewedObject
from forewarn.policies.linting.config.model import Config
from forewarn.policies.linting.evaluation.evaluator import EvaluationRequest, Phase, evaluate, impact_of
from forewarn.policies.prediction.forecast.forecast import place_all
from forewarn.policies.prediction.forecast.impact import Impact, victims_of
from tests.builders import Made, cluster, make_pod
from tests.cases import cases
from tests.policies.rollouts import random_rollout
from tests.policies.test_cascade import random_world

if TYPE_CHECKING:
    from collections.abc import Sequence

    from forewarn.policies.kubernetes.cluster.cache import ClusterSnapshot
    from forewarn.policies.prediction.forecast.placement import Placement

SEEDS = range(cases(30))
NOW = datetime(2026, 1, 1, tzinfo=UTC)


class Count(NamedTuple):
    victims: frozenset[str]
    preempting: int
    pending: int
    fitting: int


def of_impact(impact: Impact | None) -> Count:
    if impact is None:
        return Count(frozenset(), 0, 0, 0)
    victims = frozenset(victim.identity for victim in victims_of(impact.preempting))
    fits = impact.fitting + sum(prediction.outcome == "fits" for prediction in impact.predictions)
    return Count(victims, len(impact.preempting), impact.pending, fits)


def of_placement(placement: Placement) -> Count:
    old = () if placement.rollout is None else placement.rollout.by_old_template
    preempting = tuple(p for p in (*old, *placement.predictions) if p.outcome == "preempts")
    outcomes = placement.outcomes
    victims = frozenset(victim.identity for victim in victims_of(preempting))
    return Count(victims, len(preempting), outcomes.get("pending", 0), outcomes.get("fits", 0))


def by_lint(state: ClusterSnapshot, change: dict[str, Any]) -> Impact | None:
    impacts: list[Impact] = []
    evaluate(
        EvaluationRequest(
            ChangeSet((ReviewedObject(change),)), state, Config(), phase=Phase.LINT, now=NOW, predicted=impacts.append
        )
    )
    return impacts[0] if impacts else None


def by_webhook(made: Sequence[Made], state: ClusterSnapshot, change: dict[str, Any]) -> Impact | None:
    """The API server stores and sends quantities in canonical form."""
    old = stored(made, change)
    operation = Operation.CREATE if old is None else Operation.UPDATE
    return impact_of(ReviewedObject(canonical(change), operation, old and canonical(old)), state, Config())


def stored(made: Sequence[Made], change: dict[str, Any]) -> dict[str, Any] | None:
    name = (change["kind"], change["metadata"]["name"])
    return next((one.obj for one in made if (one.obj["kind"], one.obj["metadata"]["name"]) == name), None)


def canonical(obj: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(re.sub(r'"(\d+)000m"', r'"\1"', json.dumps(obj)))
    return found


def as_applied(made: Sequence[Made], change: dict[str, Any]) -> Sequence[Made]:
    """The cluster in which `kubectl apply` removes fields that only the stored object has."""
    if old := stored(made, change):
        annotations = {"kubectl.kubernetes.io/last-applied-configuration": json.dumps(old)}
        old["metadata"] = {**old["metadata"], "annotations": annotations}
    return made


def manifests(kind: str) -> list[tuple[int, Sequence[Made], dict[str, Any]]]:
    """(seed, cluster, change). "new": a Deployment, ReplicaSet, StatefulSet, Job or Pod that is not stored."""
    if kind != "new":
        found = ((seed, random_rollout(seed, [kind])) for seed in SEEDS)
        return [(seed, as_applied(*given), given[1]) for seed, given in found if given is not None]
    return [(seed, random_world(seed, waits=False)[0], new_object(Random(seed))) for seed in SEEDS]


def new_object(dice: Random) -> dict[str, Any]:
    pod = make_pod("new").request(cpu=dice.choice(["500m", "1", "2"])).priority(dice.choice([15, 30, 60]))
    kind = dice.choice(["Deployment", "ReplicaSet", "StatefulSet", "Job", "Pod"])
    if kind == "Pod":
        return pod.obj
    template = {"metadata": {"labels": {"app": "new"}}, "spec": pod.obj["spec"]}
    if kind == "Job":
        template["spec"] = {**template["spec"], "restartPolicy": "Never"}
        return Made("batch/v1", "Job", "new", "default").spec(parallelism=dice.randint(1, 6), template=template).obj
    selector = {"matchLabels": {"app": "new"}}
    made = Made("apps/v1", kind, "new", "default").spec(replicas=dice.randint(1, 6), template=template)
    return made.spec(selector=selector, podManagementPolicy="Parallel").obj


def check_annotation(impact: Impact) -> None:
    document = impact.to_dict()
    listed = document.get("preemptions", [])
    preempting = sum(not each.get("staysPending", False) for each in listed) + document.get("morePreemptions", 0)
    without_node = document.get("pending", 0) + document.get("rejectedByQuota", 0)
    assert preempting + without_node <= document["newPods"]
    assert document["predicted"] <= document["newPods"]
    for each in (*listed, *document.get("byOldTemplate", [])):
        assert bool(each.get("node")) != bool(each.get("nodes"))


def check_sums(seed: int, impact: Impact, placement: Placement, state: ClusterSnapshot) -> None:
    assert impact.outcomes.total() == impact.new, seed
    assert all(number >= 0 for number in impact.outcomes.values()), seed
    check_annotation(impact)
    if placement.rollout is not None:
        assert sum(placement.outcomes.values()) == placement.rollout.new == impact.new, seed
    else:
        assert sum(placement.outcomes.values()) + placement.omitted == impact.new, seed
    nodes = {pod.identity: pod.node_name for pod in state.pods.values()}
    for prediction in impact.preempting:
        assert all(nodes.get(victim.identity) in (None, victim.node_name) for victim in prediction.victims), seed


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet", "DaemonSet", "new"])
def test_the_linter_the_webhook_and_predict_agree(kind: str) -> None:
    """Also with themselves: the outcomes of an object add up to its new Pods, in the annotation too."""
    different, compared, preempted = [], 0, 0
    for seed, made, change in manifests(kind):
        state = cluster(*made)
        [placement] = place_all(state, [change]).placed
        impacts = {"lint": by_lint(state, change), "webhook": by_webhook(made, state, change)}
        counts = {"predict": of_placement(placement)} | {name: of_impact(each) for name, each in impacts.items()}
        compared += 1
        different += [(seed, counts)] if len(set(counts.values())) > 1 else []
        for impact in filter(None, impacts.values()):
            preempted += bool(impact.preempting)
            check_sums(seed, impact, placement, state)
    assert not different
    assert compared >= len(SEEDS) // 2
    assert preempted
