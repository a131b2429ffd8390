"""What is certain about several new Pods if nodes tie: compared with every choice that kube-scheduler may make."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Iterator, Sequence
from copy import deepcopy
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from forewarn.policies.cli.main import main
from forewarn.policies.kubernetes.cluster.cache import ClusterSnapshot
from forewarn.policies.kubernetes.objects.pod import Pod
from forewarn.policies.kubernetes.scheduling import ties
from forewarn.policies.kubernetes.scheduling.schedule_one import Prediction
from forewarn.policies.kubernetes.scheduling.snapshot import Snapshot
from forewarn.policies.linting.rules.wording.impact import certain_of
from forewarn.policies.prediction.forecast.impact import least, newly_preempted
from forewarn.policies.prediction.forecast.placement import place
from tests.builders import Made, MadePod, cluster, cluster_text, make_budget, make_node, make_pod, make_priority_class
from tests.cases import cases
from tests.in_process import forewarn
from tests.work import steps

SEED = os.environ.get("FOREWARN_SEED", "1")
HALVES = {"n1": [4], "n2": [2, 2]}


def of_nodes(nodes: dict[str, list[int]], start: int = 0, step: int = 0) -> list[Made]:
    """Nodes with 4 cpu, and on each Pods with these cpu. `step`: how much higher the priority of each next one is."""
    pods = (
        make_pod(f"{node}-{number}").priority(number * step).request(cpu=str(cpu)).on(node, started=start)
        for node, sizes in nodes.items()
        for number, cpu in enumerate(sizes)
    )
    return [*(make_node(node).has(cpu="4") for node in nodes), *pods, make_priority_class(1000, "gold")]


def web(replicas: int, cpu: int = 2) -> Made:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": str(cpu)}}}
    pod = {"priorityClassName": "gold", "containers": [container]}
    template = {"metadata": {"labels": {"app": "web"}}, "spec": pod}
    labels = {"matchLabels": {"app": "web"}}
    return Made("apps/v1", "Deployment", "web", "shop").spec(replicas=replicas, selector=labels, template=template)


def choices(
    snapshot: Snapshot, pods: list[Pod], before: tuple[Prediction, ...] = ()
) -> Iterator[tuple[Prediction, ...]]:
    """Yield the predictions of these Pods for each choice among nodes that tie."""
    if not pods:
        yield before
        return
    prediction = Prediction(snapshot, pods[0], reasons=True)
    if prediction.outcome != "preempts":
        yield from choices(prediction.snapshot_after(), pods[1:], (*before, prediction))
        return
    for candidate in prediction.preemption.best_candidates:
        known = prediction._decision._replace(candidate=candidate, is_final=True)
        chosen = Prediction(snapshot, pods[0], known)
        yield from choices(chosen.snapshot_after(), pods[1:], (*before, chosen))


def certain_names(predictions: Sequence[Prediction]) -> set[str]:
    preempting = [prediction for prediction in predictions if prediction.outcome == "preempts"]
    return certain_of([victim.key for each in preempting for victim in each.victims], preempting)


def check(stored: ClusterSnapshot, new: Made) -> int | None:
    """Compare what is certain with all choices. Return the certain number of victims; None for all."""
    predictions = place(stored, new.obj).predictions
    pods = [prediction.pod for prediction in predictions]
    found = [tuple(each) for each in choices(stored.scheduling, pods)]
    known = predictions[: certain.number] if (certain := least(predictions)) else predictions
    assert all(certain_names(known) <= {victim.key for each in one for victim in each.victims} for one in found)
    counts = {(len(newly_preempted(each)), sum(bool(newly_preempted((p,))) for p in each)) for each in found}
    if certain is None:
        assert len(counts) == 1
        return None
    assert certain.victims <= min(victims for victims, _ in counts)
    assert certain.pods <= min(pods for _, pods in counts)
    return certain.victims


@pytest.mark.parametrize(
    ("nodes", "replicas", "certain"),
    [
        (HALVES, 2, 1),
        (HALVES, 1, None),
        ({"n1": [2, 2], "n2": [4]}, 2, 1),
        ({"n1": [2, 2], "n2": [2, 2]}, 3, None),
        ({"n1": [2, 2], "n2": [2, 2]}, 9, None),
        ({"n1": [4], "n2": [4], "n3": [4]}, 2, 1),
        ({"n1": [4], "n2": [4], "n3": [4]}, 1, None),
    ],
)
def test_certain_are_only_numbers_that_each_choice_has(
    nodes: dict[str, list[int]], replicas: int, certain: int | None
) -> None:
    assert check(cluster(*of_nodes(nodes)), web(replicas)) == certain


@pytest.mark.parametrize(
    ("nodes", "replicas", "certain"),
    [
        ({"n1": [1, 3], "n2": [1, 1, 2], "n3": [1, 2, 1]}, 2, None),
        ({"n1": [1, 3], "n2": [1, 1, 2], "n3": [1, 2, 1]}, 3, None),
        ({"n1": [1, 3], "n2": [1, 1, 2]}, 4, None),
        ({"n1": [1, 3], "n2": [1, 2, 1]}, 3, 2),
        ({"n1": [1, 3], "n2": [2, 1, 1]}, 2, 1),
    ],
)
def test_the_order_of_nodes_is_irrelevant_if_each_costs_more_afterwards(
    nodes: dict[str, list[int]], replicas: int, certain: int | None
) -> None:
    assert check(cluster(*of_nodes(nodes, step=10)), web(replicas, 1)) == certain


TERM = {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": "zone"}
APART = {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [TERM]}}}


@pytest.mark.parametrize(
    ("of_new", "of_victims", "more", "certain"),
    [
        ({}, {}, [], None),
        (APART, {}, [], 1),
        ({}, APART, [], 1),
        ({}, {}, [make_budget("pdb", 1, part="a")], 1),
        ({}, {}, [make_pod("nominated").priority(5).request(cpu="1").nominated("n1")], 1),
    ],
    ids=["independent", "anti-affinity of new Pods", "anti-affinity of victims", "PDB", "nominated Pod"],
)
def test_the_order_may_matter_if_nodes_depend_on_each_other(
    of_new: dict[str, Any], of_victims: dict[str, Any], more: list[Made], certain: int | None
) -> None:
    made, new = of_nodes({"n1": [1, 3], "n2": [1, 1, 2]}, step=10), web(2, 1)
    for pod in (each for each in made if each.name.endswith("-0")):
        pod.spec(**of_victims).labels(part="a").status(conditions=[{"type": "Ready", "status": "True"}])
    new.obj["spec"]["template"]["spec"].update(of_new)
    assert check(cluster(*made, *more), new) == certain


@pytest.mark.parametrize("step", [0, 10])
def test_certain_are_only_numbers_that_each_choice_has_in_random_clusters(step: int) -> None:
    rng, exact, open_ = random.Random(f"{SEED} ties"), 0, 0
    for _ in range(cases(150)):
        sizes = [[4], [2, 2], [3, 1], [1, 1, 2], [2]]
        made = of_nodes(
            {f"n{number}": rng.choice(sizes[: rng.randint(1, 5)]) for number in range(rng.randint(2, 3))}, step=step
        )
        if rng.random() < 0.3:
            made.append(make_budget("pdb", rng.randint(0, 1), part="a"))
            for pod in made:
                if pod.obj["kind"] == "Pod" and rng.random() < 0.5:
                    pod.labels(part="a").status(conditions=[{"type": "Ready", "status": "True"}])
        certain = check(cluster(*made), web(rng.randint(2, 4), rng.randint(1, 3)))
        exact, open_ = exact + (certain is None), open_ + (certain is not None)
    assert exact, "some are certain"
    assert open_, "others are not"


def test_certain_victims_are_those_in_each_order_of_pods_that_tie() -> None:
    rng, some = random.Random(f"{SEED} victims"), 0
    for _ in range(cases(40)):
        pods = [
            make_pod(f"p-{number}")
            .priority(0)
            .request(cpu=str(rng.choice([1, 1, 2])))
            .on("n1", started=rng.randint(0, 2))
            for number in range(4)
        ]
        cpu = sum(int(pod.obj["spec"]["containers"][0]["resources"]["requests"]["cpu"]) for pod in pods)
        node, gold = make_node("n1").has(cpu=str(cpu)), make_priority_class(1000, "gold")
        (first, *others) = (
            place(cluster(node, gold, *order), web(1, min(3, cpu)).obj).predictions for order in permutations(pods)
        )
        certain = certain_names(first)
        assert all(certain <= {victim.key for each in one for victim in each.victims} for one in others)
        some += bool(certain and first[0].may_be_others)
    assert some, "beside uncertain victims"


@pytest.mark.parametrize(
    ("low", "line"),
    [
        (
            {"n1": [("z", 4, -5)], "n2": [("a", 4, 0)], "n3": [("b", 4, 0)]},
            "n1, n2 or n3: default/z, possibly default/a",
        ),
        ({"n1": [("a", 4, 0)], "n2": [("b", 4, 0)], "n3": [("z", 4, 5)]}, "n1, n2: possibly default/a, default/b"),
    ],
    ids=["a certain victim", "a certain one only after the choice of another"],
)
def test_certain_victims_are_named_first(low: dict[str, list[tuple[str, int, int]]], line: str, tmp_path: Path) -> None:
    pods = [
        make_pod(name).priority(priority).request(cpu=str(cpu)).on(node, started=0)
        for node, own in low.items()
        for name, cpu, priority in own
    ]
    made = [*(make_node(node).has(cpu="4") for node in low), *pods, make_priority_class(1000, "gold")]
    (tmp_path / "cluster.json").write_text(cluster_text(made))
    (tmp_path / "web.json").write_text(json.dumps(web(2, 4).obj))
    out = forewarn("lint", tmp_path / "web.json", "--cluster", tmp_path / "cluster.json").stdout
    assert f"would preempt 2 Pods on {line}" in out.splitlines()[0]


@pytest.mark.parametrize("first", ["n1", "n2"], ids=["one victim is enough", "two victims"])
def test_answers_state_what_is_certain(first: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Whichever of the nodes that tie is the first by name."""
    nodes = HALVES if first == "n1" else {"n1": [2, 2], "n2": [4]}
    (tmp_path / "cluster.json").write_text(cluster_text(of_nodes(nodes)))
    (tmp_path / "web.json").write_text(json.dumps(web(2).obj))
    given = [str(tmp_path / "web.json"), "--cluster", str(tmp_path / "cluster.json")]
    assert main(["predict", "-f", *given]) == 0
    out = capsys.readouterr().out
    assert "; at least 1 Pod is preempted\n" in out
    assert f"victims {'1' if first == 'n1' else '2 (at least 1)'} | Pending" in out
    main(["lint", *given])
    assert ": at least 1 of 2 new Pods would preempt at least 1 Pod on n1" in capsys.readouterr().out
    main(["lint", *given, "-o", "json"])
    (finding,) = json.loads(capsys.readouterr().out)["findings"]
    assert finding["detail"]["byChance"] is True


@pytest.mark.parametrize(
    ("kind", "answer"),
    [
        ("Deployment", "both new Pods would preempt 2 Pods on n1, n2"),
        ("StatefulSet", "at least 1 of 2 new Pods would "),
    ],
)
def test_lint_states_ties_in_turn_if_victims_still_terminate(kind: str, answer: str, tmp_path: Path) -> None:
    """The first Pod of a StatefulSet runs before the second one is created: nodes then cost as much as before."""
    made = of_nodes({"n1": [2, 1, 1], "n2": [1, 1, 1, 1]})
    for pod in (each for each in made if isinstance(each, MadePod) and each.name in ("n1-0", "n2-0", "n2-1")):
        pod.priority(5)
    (tmp_path / "cluster.json").write_text(cluster_text(made))
    (tmp_path / "web.json").write_text(json.dumps(web(2, 1).obj | {"kind": kind}))
    assert f": {answer}" in forewarn("lint", tmp_path / "web.json", "--cluster", tmp_path / "cluster.json").stdout


@pytest.mark.parametrize("is_reversed", [False, True])
def test_a_tie_makes_no_rollout_uncertain_that_is_evaluated_apart(is_reversed: bool, tmp_path: Path) -> None:
    """Whichever object is applied first."""
    selected = {"nodeSelector": {"disk": "ssd"}, "tolerations": [{"operator": "Exists"}], "containers": [{"name": "c"}]}
    gold = {"priorityClassName": "gold", "containers": [{"name": "c", "resources": {"requests": {"cpu": "2"}}}]}
    labels = {"matchLabels": {"app": "db"}}
    db = Made("apps/v1", "StatefulSet", "db", "shop").spec(replicas=1, selector=labels)
    old, new = ({"metadata": {"labels": {"app": "db"}}, "spec": {**selected, **more}} for more in ({}, gold))
    owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "controller": True}
    own = make_pod("db-0", "shop").labels(app="db").metadata(ownerReferences=[owner]).on("b1")
    low = make_pod("low").priority(0).request(cpu="4").on("b1")
    node = make_node("b1").has(cpu="4").label("disk", "ssd").taint("disk")
    stored = [*of_nodes(HALVES), node, low, own, deepcopy(db).spec(template=old)]
    (tmp_path / "cluster.json").write_text(cluster_text(stored))
    objects = [web(2).obj, db.spec(template=new).obj]
    (tmp_path / "new.json").write_text("\n---\n".join(map(json.dumps, objects[::-1] if is_reversed else objects)))
    given = "-f", tmp_path / "new.json", "--cluster", tmp_path / "cluster.json", "-o", "json"
    warnings = json.loads(forewarn("predict", *given).stdout)["warnings"]
    assert warnings[:2] == [
        "equal nodes or Pods: kube-scheduler may select other victims",
        "1 rollout is evaluated without the other objects",
    ]


@pytest.mark.parametrize(
    ("others", "cpu", "victims", "about"),
    [({}, 2, 2, ""), ({"n099": [4]}, 4, 3, "about "), ({"n099": [1, 1, 2]}, 2, 2, "about ")],
    ids=["equal nodes", "a part may lack the best node", "a tie with another node"],
)
def test_numbers_stay_useful_if_kube_scheduler_evaluates_a_part_of_the_nodes(
    others: dict[str, list[int]],
    cpu: int,
    victims: int,
    about: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    nodes = {f"n{number:03}": [2, 2] for number in range(150)} | others
    (tmp_path / "cluster.json").write_text(cluster_text(of_nodes(nodes)))
    (tmp_path / "web.json").write_text(json.dumps(web(2, cpu).obj))
    given = [str(tmp_path / "web.json"), "--cluster", str(tmp_path / "cluster.json")]
    assert main(["predict", "-f", *given, "-o", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["counters"]["victims"] == victims
    assert ("the numbers are estimates" in str(document["warnings"])) == bool(about)
    main(["lint", *given])
    assert f": both new Pods would preempt {about}{victims} Pods on " in capsys.readouterr().out


def test_states_of_nodes_are_compared_once_for_pods_of_a_template() -> None:
    stored = cluster(*of_nodes({f"n{number:03}": [2, 2] for number in range(150)}))
    first = Prediction(stored.scheduling, place(stored, web(1).obj).predictions[0].pod)
    stored.scheduling.derived.states = None
    work = steps(lambda: first.fewest)
    second = Prediction(first.snapshot_after(), first.pod)
    assert second.outcome == "preempts"
    assert steps(lambda: second.fewest) * 3 < work


def test_too_many_pods_are_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ties, "_MAX_COMPARED", 5)
    stored = cluster(*of_nodes({"n1": [2, 2], "n2": [2, 2], "n3": [2, 2]}))
    certain = [least(place(stored, web(2).obj).predictions) for _ in range(2)]
    assert certain == [(2, 2, 2, True)] * 2, "known states count too"


def test_nodes_with_required_anti_affinity_are_not_alike() -> None:
    term = {"labelSelector": {"matchLabels": {"app": "other"}}, "topologyKey": "kubernetes.io/hostname"}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    made = of_nodes({"n1": [2, 2], "n2": [2, 2]})
    made[2].spec(affinity=affinity)
    (first, *_) = place(cluster(*made), web(2).obj).predictions
    assert first.fewest == 1


def test_the_least_of_several_preemptions_by_a_pod() -> None:
    assert ties.fewest_of([None, 2, 1]) == 1
    assert ties.fewest_of([2, "unknown"]) == "unknown"
    assert ties.fewest_of([None]) is None
