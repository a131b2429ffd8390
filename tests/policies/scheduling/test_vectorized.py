"""The fast path against the walk over all nodes: the same nodes, victims and violations, or no answer at all."""

import os
import random
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from itertools import chain, repeat
from typing import Any

import pytest

from forewarn import policies
from forewarn.policies.base.copies import Labels, Shared
from forewarn.policies.base.metering import CutShort, metered
from forewarn.policies.kubernetes.scheduling.schedule_one import Prediction
from forewarn.policies.kubernetes.scheduling.vectorized.lower_priority_pods import BLOCK, lower_priority_pods_of
from forewarn.policies.kubernetes.scheduling.vectorized.pod_matrix import PodMatrix, pod_matrix_of
from tests.benchmarks.clusters import Size, objects, pod, preemptor, workload
from tests.builders import Made, cluster, make_claim, make_node, make_pod
from tests.policies.scheduling import profiles
from tests.policies.scheduling.comparing import node_by_node, outcome_in_columns
from tests.policies.scheduling.consistency import check

SEED = os.environ.get("FOREWARN_SEED", "1")


def said(prediction: Prediction) -> dict[str, Any]:
    fits = prediction.fits
    return {
        "outcome": prediction.outcome,
        "feasible": sorted(prediction.feasible),
        "selected": [] if fits else prediction.best_nodes,
        "nominated node": prediction.nominated_node,
        "victims": [victim.key for victim in prediction.victims],
        "violations": prediction.num_pdb_violations,
    }


def walked(snapshot: policies.ClusterSnapshot, asked: Any) -> Prediction:
    """Every plugin on every node."""
    with node_by_node():
        prediction = policies.predict(snapshot, asked, reasons=True)
        assert prediction.pre_filter is None or prediction.statuses == {}
    return prediction


def compare(snapshot: policies.ClusterSnapshot, asked: Any, where: object) -> str:
    """What the outcome was, `walked` where the fast path gave no answer."""
    prediction = policies.predict(snapshot, asked)
    if prediction.not_predicted or outcome_in_columns(snapshot.scheduling, prediction.pod) is None:
        return "walked"
    assert said(prediction) == said(walked(snapshot, asked)), where
    return prediction.outcome


@pytest.mark.parametrize("kind", ["plain", "anti-affinity", "spread"])
def test_larger_clusters_that_change_get_the_answer_of_the_walk(kind: str) -> None:
    rng = random.Random(f"{SEED} {kind}")
    size = Size(nodes=40, pods_per_node=27, workloads=24, pdbs=16)
    cache = policies.Cache()
    for obj in objects(size):
        cache.add(obj)
    apps = [workload(number, random.Random(number)) for number in range(10)]
    outcomes: Counter[str] = Counter()
    for number in range(24):
        made = pod(rng.choice(apps), f"n{rng.randrange(40):05}", 10**6 + number, rng)
        cache.add(made)
        asked = preemptor(kind, number, rng.choice(("2", "4", "6", "9")), rng.choice((1, 101, 5000, 20_000)))
        snapshot = cache.snapshot()
        outcomes[compare(snapshot, asked, number)] += 1
        if number % 6 == 0:
            check(snapshot.scheduling)
        if number % 2:
            cache.remove(made)
    assert outcomes["preempts"] > 8 and not outcomes["walked"], outcomes  # noqa: PT018


def test_budgets_that_change_are_seen_by_the_next_question() -> None:
    nodes: list[Made] = [make_node("n1").has(cpu="1"), make_node("n2").has(cpu="1")]
    pods = [make_pod(f"p{i}").labels(app=f"a{i}").request(cpu="1").on(f"n{i}", started=5 - i) for i in (1, 2)]
    asked = make_pod("new").priority(10).request(cpu="1").obj
    cache = policies.Cache()
    for made in (*nodes, *pods):
        cache.add(made.obj)
    assert policies.predict(cache.snapshot(), asked).nominated_node == "n1"
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "b", "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": "a1"}}},
        "status": {"disruptionsAllowed": 0},
    }
    cache.add(budget)
    assert policies.predict(cache.snapshot(), asked).nominated_node == "n2"
    cache.add({**budget, "status": {"disruptionsAllowed": 1}})
    assert policies.predict(cache.snapshot(), asked).nominated_node == "n1"


@pytest.mark.parametrize(
    "asked",
    [
        make_pod("claiming").claim("c"),
        make_pod("huge").request(memory="9E"),
    ],
    ids=lambda made: str(made.obj["metadata"]["name"]),
)
def test_what_it_cannot_tell_is_left_to_the_walk(asked: Made) -> None:
    found = cluster(make_node("n1"), make_claim("c"))
    prediction = policies.predict(found, asked.priority(10).obj)  # type: ignore[attr-defined]
    assert outcome_in_columns(found.scheduling, prediction.pod) is None
    assert said(prediction) == said(walked(found, asked.obj))


def test_nodes_that_a_later_plugin_never_takes_count_among_those_of_which_a_share_is_tried() -> None:
    """They are full: that is told first, so upstream tries them, in vain. Of 30 nodes 15 are looked for, of 10 five."""
    nodes = [make_node(f"n{number}").has(cpu="1") for number in range(30)]
    for node in nodes[:10]:
        node.label("zone", "a")
    pods = [make_pod(f"p{number}").request(cpu="1").on(f"n{number}") for number in range(30)]
    half = [{"name": "DefaultPreemption", "args": {"minCandidateNodesAbsolute": 1, "minCandidateNodesPercentage": 50}}]
    even = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}}
    asked = make_pod("new").priority(10).request(cpu="1").spec(topologySpreadConstraints=[even]).obj
    found = profiles.cluster(profiles.semantics(profiles.config({"pluginConfig": half})), *nodes, *pods)
    one_by_one = walked(found, asked)
    assert [len(one_by_one.candidates), one_by_one.preemption.potential_nodes] == [10, 30]
    answer = outcome_in_columns(found.scheduling, one_by_one.pod)
    assert answer is not None
    assert not answer.is_sampled


def test_of_two_pods_with_one_host_port_the_walk_decides() -> None:
    holders = [make_pod(f"p{i}").port(80).on("n1", started=i) for i in (1, 2)]
    asked = make_pod("new").priority(10).port(80).obj
    one, two = cluster(make_node("n1"), holders[0]), cluster(make_node("n1"), *holders)
    assert outcome_in_columns(one.scheduling, policies.predict(one, asked).pod) is not None
    assert outcome_in_columns(two.scheduling, policies.predict(two, asked).pod) is None
    assert len(policies.predict(two, asked).victims) == 2


def test_anti_affinity_of_a_nominated_pod_counts_only_beside_that_of_a_pod_on_a_node() -> None:
    apart = {"topologyKey": "host", "labelSelector": {"matchLabels": {"app": "web"}}}
    node, other = make_node("n1").label("host", "1"), make_node("n2").label("host", "2")
    shy = make_pod("shy").priority(100).affinity("podAntiAffinity", apart)
    running = make_pod("running").affinity("podAntiAffinity", apart).on("n2")
    asked = make_pod("web").labels(app="web").priority(10).obj
    for there, want in ((), ["n1"]), ((other, running), []):
        found = cluster(node, shy.nominated("n1"), *there)
        prediction = policies.predict(found, asked)
        assert outcome_in_columns(found.scheduling, prediction.pod) is not None
        assert prediction.feasible == want
        assert said(prediction) == said(walked(found, asked))


def test_an_older_snapshot_still_gets_its_own_answer() -> None:
    cache = policies.Cache()
    for made in (make_node("n1").has(cpu="1"), make_pod("old").request(cpu="1").on("n1")):
        cache.add(made.obj)
    asked = make_pod("new").priority(10).request(cpu="1").obj
    before = cache.snapshot()
    assert policies.predict(before, asked).outcome == "preempts"
    cache.remove(make_pod("old").obj)
    after = cache.snapshot()
    assert policies.predict(after, asked).outcome == "fits"
    assert before.scheduling.derived is after.scheduling.derived
    assert policies.predict(before, asked).outcome == "preempts"


def test_threads_that_ask_different_snapshots_do_not_disturb_each_other() -> None:
    cache = policies.Cache()
    for obj in objects(Size(nodes=12, pods_per_node=27, workloads=12, pdbs=6)):
        cache.add(obj)
    snapshots = [cache.snapshot()]
    apps = [workload(number, random.Random(number)) for number in range(4)]
    for number in range(3):
        cache.add(pod(apps[number], f"n{number:05}", 10**6 + number, random.Random(number)))
        snapshots.append(cache.snapshot())
    asked = [preemptor(kind, 1, "5", priority) for kind in ("plain", "spread") for priority in (500, 20_000)]
    questions = [(snapshot, one) for snapshot in snapshots for one in asked] * 6
    alone = [said(policies.predict(*question)) for question in questions]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda question: said(policies.predict(*question)), questions))
    assert together == alone
    assert "preempts" in {answer["outcome"] for answer in alone}


def test_kinds_of_pods_that_are_gone_do_not_pile_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("forewarn.policies.kubernetes.scheduling.vectorized.pod_matrix.MAX_NEW_KINDS", 20)
    cache = policies.Cache()
    cache.add(make_node("n1").obj)
    for number in range(60):
        made = make_pod(f"p{number}").labels(unique=str(number)).on("n1").obj
        cache.add(made)
        snapshot = cache.snapshot()
        assert policies.predict(snapshot, make_pod("new").priority(10).obj).outcome == "fits"
        cache.remove(made)
    matrix = snapshot.scheduling.derived.matrix
    assert isinstance(matrix, PodMatrix)
    assert len(matrix.kinds) < 25


def test_kinds_of_pods_that_only_are_asked_about_do_not_pile_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tables of the nodes remain, and give the same answers as new ones."""
    monkeypatch.setattr("forewarn.policies.kubernetes.scheduling.vectorized.pod_matrix.MAX_NEW_KINDS", 20)
    cache = policies.Cache()
    for obj in objects(Size(nodes=12, pods_per_node=6, workloads=10, pdbs=6)):
        cache.add(obj)
    snapshot, answers = cache.snapshot(), set[tuple[object, ...]]()
    for number in range(100):
        for kind in ("plain", "spread", "anti-affinity"):
            new = preemptor(kind, 0, "14", 500)
            new["metadata"]["labels"]["unique"] = str(number)
            found = policies.predict(snapshot, new)
            answers.add((kind, found.outcome, found.nominated_node, *(victim.key for victim in found.victims)))
        matrix = snapshot.scheduling.derived.matrix
        assert isinstance(matrix, PodMatrix)
        assert len(matrix.kinds) < 2 * 11 + 20 + 5
        with snapshot.scheduling.derived.locked():
            check(snapshot.scheduling)
    assert {(kind, outcome) for kind, outcome, *_ in answers} >= {("plain", "preempts"), ("spread", "preempts")}
    assert len(answers) == 3


def test_what_was_read_of_pods_that_are_gone_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    labels: Shared[tuple[tuple[str, str], ...], Labels] = Shared(recent=5)
    monkeypatch.setattr("forewarn.policies.base.copies._LABELS", labels)
    cache = policies.Cache()
    for number in range(60):
        made = make_pod("p").labels(unique=str(number)).on("n1").obj
        cache.add(made)
    assert 5 <= len(labels) <= 6


def test_tables_that_were_not_finished_are_finished_by_those_who_ask_next() -> None:
    cache = policies.Cache()
    for obj in objects(Size(nodes=3 * BLOCK, pods_per_node=6, pdbs=24)):
        cache.add(obj)
    snapshot = cache.snapshot().scheduling
    with snapshot.derived.locked():
        assert _times(lambda: lower_priority_pods_of(pod_matrix_of(snapshot), snapshot, 20_000)) > 10
        check(snapshot)
    cache.add(pod(workload(1, random.Random(1)), "n00001", 5000, random.Random(1)))
    after = cache.snapshot().scheduling
    assert after.derived is snapshot.derived
    with after.derived.locked():
        assert _times(lambda: lower_priority_pods_of(pod_matrix_of(after), after, 20_000)) == 1, "one node has changed"
        check(after)


def _times(bring_up_to_date: Callable[[], object]) -> int:
    """How often it has to be asked for, if there is hardly any time."""
    for times in range(1, 1000):
        looks = chain(repeat(False, 2), repeat(True))
        with suppress(CutShort), metered(partial(next, looks)):
            bring_up_to_date()
            return times
    raise AssertionError("it never ends")
