"""Names of nodes, Pods and workloads, and their order in a file, decide nothing in a cluster that is settled."""

from __future__ import annotations

import json
import re
from collections import Counter
from itertools import permutations
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from forewarn.policies.kubernetes.objects.reviewed_object import ReviewedObject
from forewarn.policies.linting.config.model import Config
from forewarn.policies.linting.evaluation.evaluator import impact_of
from forewarn.policies.prediction.forecast.effects import Predicted
from forewarn.policies.prediction.forecast.forecast import place_all
from tests.builders import Made, cluster, make_node
from tests.cases import cases
from tests.policies.rollouts import pdbs, random_rollout
from tests.policies.test_cascade import is_settled, random_world
from tests.policies.test_rollouts import changed, deployment, rolling

if TYPE_CHECKING:
    from collections.abc import Sequence

Change = dict[str, Any]


class Outcome(NamedTuple):
    """What must not depend on names. `workloads`: the number of victims by workload."""

    preempting: int
    victims: int
    pending: int
    fitting: int
    by_chance: bool
    least: tuple[int, int] | None
    cascade: tuple[object, ...]
    effects: tuple[int, ...]


def outcome_of(made: Sequence[Made], change: Change) -> Outcome | None:
    state = cluster(*made)
    impact = impact_of(ReviewedObject(change), state, Config())
    if impact is None:
        return None
    victims = {victim.identity for prediction in impact.preempting for victim in prediction.victims}
    certain, cascade = impact.least, impact.cascade
    return Outcome(
        len(impact.preempting),
        len(victims),
        impact.pending,
        impact.outcomes["fits"],
        bool(impact.by_chance),
        None if certain is None else (certain.pods, certain.victims),
        () if cascade is None else tuple(cascade),
        tuple(Predicted(place_all(state, [change]), (), state, lambda _: False).effects()),
    )


def permuted(made: Sequence[Made], change: Change, dice: Random) -> tuple[list[Made], Change]:
    """The same cluster and change with other names, in another order."""
    text = json.dumps([[one.obj for one in made], change])
    renamed: dict[str, str] = {}
    for prefix in "nw":
        names = sorted({*re.findall(rf"\b{prefix}\d+\b", text)})
        renamed |= dict(zip(names, dice.sample(names, len(names)), strict=True))
    objects, other = json.loads(re.sub(r"\b[nw]\d+\b", lambda match: renamed[match[0]], text))
    result = []
    for obj in dice.sample(objects, len(objects)):
        one = Made(obj["apiVersion"], obj["kind"], obj["metadata"]["name"], obj["metadata"].get("namespace"))
        one.obj = obj
        result.append(one)
    return result, other


def worlds(kind: str, seed: int) -> tuple[list[Made], Change] | None:
    if kind == "Pod":
        made, new = random_world(seed, waits=True)
        return [*made, *pdbs(made, Random(seed))], new.obj
    return random_rollout(seed, [kind])


def check(kind: str, seeds: range) -> None:
    different, compared = [], Counter[bool]()
    for seed in seeds:
        world = worlds(kind, seed)
        if world is None or not is_settled(world[0]):
            continue
        found = outcome_of(*world)
        other = outcome_of(*permuted(*world, Random(seed)))
        compared[found is not None and found.preempting > 0] += 1
        if found != other:
            different.append((seed, found, other))
    assert not different, f"{len(different)} of {compared}: {different[:3]}"
    assert compared[True]


@pytest.mark.parametrize("nodes", [*permutations(["n1", "n2", "n3"])])
def test_a_terminating_pod_is_one_of_equal_victims_whatever_its_node(nodes: tuple[str, ...]) -> None:
    """kube-scheduler may select the node of the terminating Pod, or preempt another one."""
    made = [*deployment("w1", list(nodes), "2500m", 0, strategy=rolling(0, 1)), *map(make_node, nodes)]
    change = changed(made, priority=900)
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "w1"}}}
    rule = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    change["spec"]["template"]["spec"]["affinity"] = {"podAntiAffinity": rule}
    outcome = outcome_of(made, change)
    assert outcome is not None
    assert (outcome.preempting, outcome.victims, outcome.by_chance, outcome.least) == (1, 1, True, (0, 0))


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet", "Pod"])
def test_names_and_order_decide_nothing(kind: str) -> None:
    check(kind, range(cases(60)))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet", "Pod"])
def test_names_and_order_decide_nothing_in_many_clusters(kind: str) -> None:
    check(kind, range(1000, 1000 + cases(350)))
