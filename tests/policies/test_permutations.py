"""Names of nodes, Pods and workloads, and their order in a file, decide nothing in a cluster that is settled."""

from __future__ import annotations

import json
import re
from collections import Counter
from itertools import permutations
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

import forewarn
from forewarn.policies.kubernetes.objects.reviewed_object import ReviewedObject
from forewarn.policies.linting.config.model import Config
from forewarn.policies.linting.evaluation.evaluator import impact_of
from forewarn.policies.prediction.forecast.forecast import place_all
from forewarn.policies.prediction.forecast.placement import Predicted
from tests.builders import Made, cluster, cluster_text, make_budget, make_node, make_pod, make_priority_class
from tests.cases import cases
from tests.in_process import forewarn as lint_files
from tests.policies.rollouts import pdbs, random_rollout
from tests.policies.test_cascade import is_settled, random_world
from tests.policies.test_rollouts import changed, deployment, rolling

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

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


def question_of(seed: int, change: Change) -> tuple[str, Callable[[str], Any]]:
    """A word for a question, and the question about a node."""
    kind, name = change["kind"], change["metadata"]["name"]
    if seed % 4 == 0 or (seed % 4 == 3 and kind == "Pod"):
        return "apply", lambda _: forewarn.Apply(change)
    if seed % 4 == 3:
        return "scale", lambda _: forewarn.Scale(f"{kind}/{name}", seed % 7)
    return (
        ("lose", lambda node: forewarn.LoseNodes([node]))
        if seed % 2
        else ("drain", lambda node: forewarn.Drain([node]))
    )


def simulated(
    made: Sequence[Made], change: Change, node: str, seed: int, path: Path, *, tries_fixes: bool = False
) -> tuple[object, ...]:
    """What must not depend on names in the answer of `whatif`: counters, their ranges, and numbers of rivals."""
    path.write_text(cluster_text(made))
    result = forewarn.whatif(forewarn.load(str(path)), question_of(seed, change)[1](node), tries_fixes=tries_fixes)
    after = result.answer.after
    rivals = (after.rivals, after.equal_victims, after.may_stay_pending)
    return result.document.status, result.counters, result.answer.typical_of, *map(len, rivals)


def set_class(obj: Change) -> int | None:
    """Name the PriorityClass of a Pod or template, and return its value; only StatefulSets keep podManagementPolicy."""
    if obj["kind"] != "StatefulSet":
        obj.get("spec", {}).pop("podManagementPolicy", None)
    spec = obj["spec"] if obj["kind"] == "Pod" else obj.get("spec", {}).get("template", {}).get("spec", {})
    value: int | None = spec.get("priority")
    if value:
        spec["priorityClassName"] = make_priority_class(value).name
    elif obj["kind"] != "Pod":
        spec.pop("priority", None)  # kube-apiserver rejects it if another class is the default
    return value


def check_simulations(kind: str, seeds: range, path: Path) -> None:
    different, repeated = [], Counter[bool]()
    for seed in seeds:
        world = worlds(kind, seed)
        if world is None:
            continue
        made, change = world
        values = {value for obj in (change, *(one.obj for one in made)) if (value := set_class(obj))}
        made = [*made, *(make_priority_class(value) for value in values)]
        node = make_node("n1")
        marked = {**change, "metadata": {**change["metadata"], "annotations": {"node": node.name}}}
        found = simulated(made, change, node.name, seed, path, tries_fixes=True)
        others, other = permuted([*made], marked, Random(seed))
        renamed = other["metadata"].pop("annotations")["node"]
        again = simulated(others, other, renamed, seed, path)
        repeated[found[2] is not None] += 1
        if found != again:
            different.append((seed, question_of(seed, change)[0], found, again))
    assert not different, f"{len(different)} of {repeated}: {different[:3]}"
    assert repeated[True] or len(seeds) < 100


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


@pytest.mark.parametrize(("kind", "seed"), [("Deployment", 2234), ("StatefulSet", 2374), ("StatefulSet", 2507)])
def test_names_do_not_decide_which_of_two_events_is_first(kind: str, seed: int) -> None:
    """Old Pods terminate in the same millisecond in which kube-scheduler tries a Pending Pod."""
    world = worlds(kind, seed)
    assert world is not None
    found, other = outcome_of(*world), outcome_of(*permuted(*world, Random(seed)))
    assert found == other
    assert found is not None


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet", "Pod"])
def test_names_and_order_decide_nothing_in_many_clusters(kind: str) -> None:
    check(kind, range(1000, 1000 + cases(350)))


@pytest.mark.usefixtures("few_runs")
@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet", "Pod"])
def test_names_and_order_decide_nothing_in_simulations(kind: str, tmp_path: Path) -> None:
    check_simulations(kind, range(cases(8)), tmp_path / "cluster.json")


@pytest.mark.usefixtures("few_runs")
def test_names_do_not_decide_which_of_two_events_is_first_in_a_simulation(tmp_path: Path) -> None:
    check_simulations("StatefulSet", range(2057, 2058), tmp_path / "cluster.json")


@pytest.mark.parametrize("names", [("n1", "n2", "n3", "n4"), ("n4", "n3", "n2", "n1"), ("n2", "n4", "n1", "n3")])
def test_a_preemption_without_the_change_is_not_its_harm_whatever_the_names(
    names: Sequence[str], tmp_path: Path
) -> None:
    nodes = [make_node(name).has(cpu="4", memory="8Gi", pods="10") for name in names]
    victims = [make_pod(f"v{n}").request(cpu=f"{3000 + n}m", memory="1Gi").on(name) for n, name in enumerate(names)]
    pending = make_pod("pending").priority(10).request(cpu="3", memory="1Gi")
    path = tmp_path / "cluster.yaml"
    path.write_text(cluster_text([make_priority_class(10), *nodes, *victims, pending]))
    result = forewarn.whatif(forewarn.load(str(path)), forewarn.Apply(make_pod("new").request(cpu="1").obj))
    assert result.document.status == "WARN"


@pytest.mark.usefixtures("no_fixes")
def test_equal_pods_on_equal_nodes_are_alike_whatever_their_node(tmp_path: Path) -> None:
    """A rollout that raises the priority of Pods with a PDB, as in kubernetes/kubernetes#109714."""
    names, path, found = ["n1", "n2", "n3"], tmp_path / "cluster.json", set[tuple[Any, ...]]()
    for nodes in (names, names[::-1]):
        made = [*deployment("w1", nodes, "2500m", 100, strategy=rolling(0, 1)), *map(make_node, names)]
        made += [make_budget("w1", 1, app="w1").spec(maxUnavailable=1), *map(make_priority_class, (100, 900))]
        change = changed(made, priority=900)
        for obj in (change, *(one.obj for one in made)):
            set_class(obj)
        path.write_text(cluster_text(made))
        runs = forewarn.whatif(forewarn.load(str(path)), forewarn.Apply(change)).answer.typical_of
        assert runs is not None
        found.add((runs.alike, *runs.counters.items()))
    ((_, *ranges),) = found
    assert [(name, each.least, each.most) for name, each in ranges if name == "preempted"] == [("preempted", 0, 1)]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet", "Pod"])
def test_names_and_order_decide_nothing_in_many_simulations(kind: str, tmp_path: Path) -> None:
    check_simulations(kind, range(1000, 1000 + cases(350)), tmp_path / "cluster.json")


QUOTA = "apiVersion: v1\nkind: ResourceQuota\nmetadata: {name: q, namespace: team}\nspec: {hard: {limits.cpu: %s}}\n"
SCALED = """apiVersion: apps/v1
kind: Deployment
metadata: {name: %(name)s, namespace: team}
spec:
  replicas: %(replicas)s
  selector: {matchLabels: {app: %(name)s}}
  template:
    metadata: {labels: {app: %(name)s}}
    spec: {containers: [{name: c, image: c, resources: {limits: {cpu: %(cpu)s}}}]}
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: %(name)s, namespace: team}
spec: {maxReplicas: 40, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: %(name)s}}
"""


@pytest.mark.parametrize("hard", [1, 2, 4, 6, 9, 200])
def test_names_of_files_decide_nothing_in_texts(hard: int, tmp_path: Path) -> None:
    workloads = [{"name": "a", "replicas": 2, "cpu": "1"}, {"name": "b", "replicas": 3, "cpu": "500m"}]
    texts = [QUOTA % hard, *(SCALED % workload for workload in workloads)]
    outcomes = []
    for number, names in enumerate(permutations(("x.yaml", "y.yaml", "z.yaml"))):
        directory = tmp_path / str(number)
        directory.mkdir()
        for name, text in zip(names, texts, strict=True):
            (directory / name).write_text(text)
        found = json.loads(lint_files("lint", "-o", "json", cwd=directory).stdout)["findings"]
        outcomes.append(Counter((f["severity"], f["rule"], f["message"], f["remediation"]) for f in found))
    assert all(outcome == outcomes[0] for outcome in outcomes)
    assert any(severity != "note" for severity, *_ in outcomes[0]) is (hard < 200)
