"""Whatever stands in an object: an answer, or an error that says what is wrong; never another exception."""

import copy
import gzip
import json
import random
from pathlib import Path
from typing import Any

import pytest

from forewarn.policies.kubernetes.cluster.cache import ClusterSnapshot
from forewarn.policies.kubernetes.objects.fields import InvalidObject
from forewarn.policies.prediction.forecast.placement import place
from tests.builders import Made, ask, cluster, make_budget, make_node, make_pod, make_volume
from tests.recorded.commands import answer_case

CASES = Path(__file__).parent / "cases" / "wide.jsonl.gz"
ODD: tuple[Any, ...] = (
    None, 0, 1, -1, 1.5, 2**70, "", "x", "-1", "1Q", True, [], {}, [None], [1], ["x"], [{}], {"a": 1}, {"a": "b"}, [[]],
)  # fmt: skip


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in a JSON value."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, item in inner for place in places(item, (*path, key)))]


def damaged(case: Any, rng: random.Random) -> Any:
    """The case with something odd in a place or two."""
    case = copy.deepcopy(case)
    for _ in range(rng.choice((1, 1, 2))):
        *path, last = rng.choice(places(case)[1:])
        holder = case
        for step in path:
            holder = holder[step]
        if isinstance(holder, dict) and rng.random() < 0.2:
            del holder[last]
        else:
            holder[last] = copy.deepcopy(rng.choice(ODD))
    return case


def outcome(case: Any) -> str:
    try:
        return str(answer_case(case, count_nominated=True)["outcome"])
    except ValueError as error:
        return str(error)


@pytest.mark.parametrize("seed", range(8))
def test_damaged_objects_give_an_answer_or_a_clear_error(seed: int) -> None:
    cases = [json.loads(line)["case"] for line in gzip.decompress(CASES.read_bytes()).splitlines()[seed::8]]
    rng = random.Random(seed)
    for case in (c for c in cases if len(json.dumps(c)) < 20_000):
        for _ in range(8):
            assert outcome(damaged(case, rng))


KINDS = ("Deployment", "StatefulSet", "DaemonSet", "ReplicaSet")


@pytest.mark.parametrize("kind", KINDS)
def test_damaged_workloads_give_an_answer_or_a_clear_error(kind: str) -> None:
    rng, snapshot = random.Random(kind), cluster(make_node("n1").labels(disk="ssd"))
    term = {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}
    pod = make_pod("x").labels(app="web").request(cpu="1").affinity("nodeAffinity", term).obj
    made = Made("apps/v1", kind, "web", "default").spec(
        replicas=2,
        selector={"matchLabels": {"app": "web"}},
        template={"metadata": {"labels": {"app": "web"}}, "spec": {**pod["spec"], "tolerations": [{"key": "a"}]}},
        volumeClaimTemplates=[{"metadata": {"name": "data"}, "spec": {}}],
    )
    for _ in range(150):
        broken = {**damaged(made.obj, rng), "apiVersion": "apps/v1", "kind": kind}
        assert placed(snapshot, broken)


def placed(snapshot: ClusterSnapshot, obj: Any) -> str:
    try:
        return str(place(snapshot, obj))
    except ValueError as error:
        return str(error)


NODE = make_node("n1")


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (
            make_pod("p").request(cpu="much"),
            "Pod default/p: spec.containers[0].resources.requests.cpu: 'much': quantities must match",
        ),
        (
            make_pod("p").request(memory="-1Gi"),
            "Pod default/p: spec.containers[0].resources.requests.memory: -1Gi is negative",
        ),
        (make_node("n2").has(cpu="-4"), "Node n2: status.allocatable.cpu: -4 is negative"),
        (make_node("n2").spec(taints=["x"]), "Node n2: spec.taints[0]: must be an object, not string"),
        (
            make_pod("p").spec(tolerations=[{"key": 1}]),
            "Pod default/p: spec.tolerations.key: must be a string, not number",
        ),
        (
            make_pod("p").affinity("podAffinity", {"topologyKey": 5}),
            "Pod default/p: spec.affinity.topologyKey: must be a string, not number",
        ),
        (
            Made("v1", "PersistentVolume", "v").spec(capacity={"storage": "big"}),
            "PersistentVolume v: spec.capacity.storage: 'big': quantities must match",
        ),
        (
            make_volume("v", storageClassName=5).metadata(
                annotations={"volume.beta.kubernetes.io/storage-class": "fast"}
            ),
            "PersistentVolume v: spec.storageClassName: must be a string, not number",
        ),
    ],
)
def test_errors_name_object_and_field(made: Made, message: str) -> None:
    with pytest.raises(InvalidObject) as caught:
        cluster(NODE, made)
    assert str(caught.value).startswith(message)


def test_a_pod_on_an_unknown_node_is_nowhere() -> None:
    prediction = ask(make_pod("new").request(cpu="4"), NODE, make_pod("lost").request(cpu="4").on("n9"))
    assert prediction.feasible == ["n1"]


def test_a_budget_whose_selector_does_not_parse_matches_nothing() -> None:
    budget = make_budget("b", 0).spec(selector={"matchExpressions": [{"key": "app", "operator": "Maybe"}]})
    old = make_pod("old").labels(app="web").request(cpu="4").on("n1")
    assert ask(make_pod("new").priority(1).request(cpu="4"), NODE, budget, old).num_pdb_violations == 0


def test_an_incoming_pod_whose_selector_does_not_parse_is_rejected_as_upstream_does() -> None:
    term = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "not a value"}}}
    prediction = ask(make_pod("new").affinity("podAntiAffinity", term), NODE)
    assert prediction.pre_filter is not None
    assert prediction.pre_filter.reasons[0].startswith("parsing pod: requiredAntiAffinityTerms: ")


def test_a_class_that_does_not_exist_is_an_error() -> None:
    pod = make_pod("new").spec(priorityClassName="gold", priority=None)
    with pytest.raises(InvalidObject, match="no PriorityClass with name gold was found"):
        ask(pod, NODE)
