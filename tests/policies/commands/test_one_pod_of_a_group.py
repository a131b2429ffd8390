"""One Pod of a PodGroup, or its workload: every entry point answers for the whole group."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from forewarn.policies.cli.main import main
from forewarn.policies.kubernetes.cluster.cache import Cache
from forewarn.policies.kubernetes.objects.reviewed_object import ChangeSet, Operation, ReviewedObject
from forewarn.policies.kubernetes.releases.release import semantics_of
from forewarn.policies.linting.config.model import Config
from forewarn.policies.linting.evaluation.evaluator import EvaluationRequest, Phase, evaluate
from tests.builders import Made, MadePod, make_claim, make_node, make_pod, make_volume
from tests.policies.commands.test_unmodelled import Asked, gold, new_pod
from tests.policies.rules.test_pod_groups import NOW

if TYPE_CHECKING:
    from pathlib import Path

ENTRIES = ("lint", "predict json", "webhook warning", "webhook annotation")
IN_GROUP = {"schedulingGroup": {"podGroupName": "train"}}


def pod_group(name: str = "train", namespace: str = "shop", least: int = 2, priority: int = 1000, **spec: Any) -> Made:
    made = Made("scheduling.k8s.io/v1beta1", "PodGroup", name, namespace)
    return made.spec(schedulingPolicy={"gang": {"minCount": least}}, priority=priority, **spec)


def member(name: str, **spec: Any) -> MadePod:
    """A Pending Pod of the PodGroup."""
    return make_pod(name, "shop").request(cpu="3").priority(1000).spec(**IN_GROUP, **spec)


def low(name: str, node: str, **spec: Any) -> MadePod:
    return make_pod(name, "batch").request(cpu="3").priority(0).on(node).spec(**spec)


OTHER = {"schedulingGroup": {"podGroupName": "old"}}
NODES = [gold(), make_node("node-1"), make_node("node-2")]
VICTIMS = [low("low-1", "node-1"), low("low-2", "node-2")]
WHOLE = [
    pod_group("old", "batch", 1, 0, disruptionMode={"all": {}}),
    low("old-1", "node-1", **OTHER),
    low("old-2", "node-2", **OTHER),
]
TAINTED = {"tolerations": [{"key": "x", "operator": "Exists"}], "nodeSelector": {"no": "where"}}
CASES: dict[str, tuple[list[Made], list[str], str]] = {
    "fits with a Pending Pod": ([pod_group(), member("one")], [""], ""),
    "fits with a bound claim": (
        [
            pod_group(),
            make_claim("c", "v", "shop"),
            make_volume("v", claimRef={"namespace": "shop", "name": "c"}),
            member("one", volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]),
        ],
        [""],
        "",
    ),
    "below minCount": (
        [pod_group()],
        ["shop/train waits for 1 more Pod"],
        "PodGroup train (minCount 2): waits for 1 more Pod",
    ),
    "a Pod of the group is gated": (
        [pod_group(), member("one", schedulingGates=[{"name": "g"}])],
        ["shop/train: 1 Pod has scheduling gates"],
        "PodGroup train (minCount 2): stays Pending: 1 Pod has scheduling gates",
    ),
    "terminating Pods count for minCount, but are not scheduled": (
        [pod_group(), member("one").terminating()],
        ['shop/train: error in "DynamicResources" PodGroupPostFilter plugins: not found'],
        "PodGroup train (minCount 2): stays Pending: error in ",
    ),
    "preempts Pods": (
        [pod_group(), member("one"), *VICTIMS],
        ["", "batch/low-1", "batch/low-2"],
        "PodGroup train (minCount 2): would preempt 2 Pods",
    ),
    "preempts another group": (
        [pod_group(), member("one"), *WHOLE],
        ["", "batch/old-1", "batch/old-2"],
        "PodGroup train (minCount 2): would preempt 1 PodGroup (2 Pods)",
    ),
    "a Pod of the group fits nowhere": (
        [pod_group(), member("one", nodeSelector={"no": "where"})],
        ["shop/train: minCount (2) cannot be satisfied: 0 scheduled, 1 remaining"],
        "PodGroup train (minCount 2): stays Pending: minCount (2) cannot be satisfied: ",
    ),
}
OUTCOMES = {"fits": "fits", "below": "pending", "a": "pending", "terminating": "pending", "preempts": "preempts"}


@pytest.mark.parametrize("entry", ENTRIES)
@pytest.mark.parametrize("case", CASES)
def test_the_answer_is_for_the_group(case: str, entry: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cluster, (reason, *victims), warned = CASES[case]
    told = Asked(tmp_path, [*NODES, *cluster], new_pod().spec(**IN_GROUP)).told(entry, capsys)
    assert "not predicted" not in told
    if entry.startswith("predict"):
        document = json.loads(told)
        (group,) = document["podGroups"]
        assert (group["id"], group["outcome"], group["victims"]) == (
            "PodGroup shop/train",
            OUTCOMES[case.split()[0]],
            victims,
        )
        assert reason in document.get("why", {"causes": [{"reason": ""}]})["causes"][0]["reason"]
    elif entry != "webhook annotation":
        assert (warned or "preempt") in told if warned else "PodGroup train" not in told
        assert ("the controller that set a gate must remove it" in told) == ("gated" in case)
    elif case.startswith("fits"):
        assert "podGroup" not in told
    else:
        assert f'"outcome":"{OUTCOMES[case.split()[0]]}"' in told.replace("\\", "")


@pytest.mark.parametrize(
    ("given", "gates", "reason"),
    [
        ([pod_group(namespace="else")], {}, "the PodGroup does not exist, so kube-scheduler does not try its Pods"),
        (
            [pod_group(schedulingConstraints={"topology": [{"key": "zone"}]}), member("one")],
            {},
            "the PodGroup has scheduling constraints, which forewarn does not model",
        ),
        (
            [pod_group(), member("one", volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}])],
            {},
            "kube-scheduler must bind volumes or allocate devices of its Pods",
        ),
        ([pod_group(), member("one", schedulerName="other")], {}, None),
        ([pod_group(), member("one")], {"GenericWorkload": False}, ""),
    ],
    ids=["missing", "constraints", "volumes", "two schedulers", "gate off"],
)
def test_what_is_not_predicted_has_its_reason(given: list[Made], gates: dict[str, bool], reason: str | None) -> None:
    messages = warnings_of([*NODES, *given], new_pod().spec(**IN_GROUP).obj, gates)
    told = [message for message in messages if "PodGroup train" in message]
    if reason:
        assert told == [f"not predicted: the Pod belongs to PodGroup train; {reason}"]
    elif reason is None:
        assert [message[:75] for message in told] == [
            "PodGroup train (minCount 2): stays Pending: all pods in a single pod group s"[:75]
        ]
    else:
        assert told == []


def test_groups_of_an_unknown_list_are_not_predicted() -> None:
    cache = Cache(semantics=semantics_of(37, {"GenericWorkload": True}))
    cache.listed = {"/Node", "/Pod"}
    for made in NODES:
        cache.add(made.obj)
    (message,) = messages_of(cache, new_pod().spec(**IN_GROUP).obj)
    assert message.endswith("; the cluster state has no list of PodGroups")


@pytest.mark.parametrize("minor", [35, 36])
def test_groups_of_older_releases_are_not_predicted(minor: int) -> None:
    (message,) = warnings_of([*NODES, pod_group(), member("one")], new_pod().spec(**IN_GROUP).obj, {}, minor)
    assert message.endswith(f"; PodGroups are predicted for Kubernetes 1.37 and later, not for 1.{minor}")


def test_gates_of_the_linter_count_without_a_cluster(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    quiet = "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: quiet}\nvalue: 5"
    spec = "{schedulingPolicy: {basic: {}}, priorityClassName: quiet}"
    named = "apiVersion: scheduling.k8s.io/v1beta1\nkind: PodGroup\nmetadata: {name: g, namespace: ml}"
    (tmp_path / "g.yaml").write_text(f"{quiet}\npreemptionPolicy: Never\n---\n{named}\nspec: {spec}\n")
    gates = "--feature-gates=GenericWorkload=true,PodGroupPreemptionPolicy="
    for on in ("false", "true"):
        main(["lint", str(tmp_path / "g.yaml"), "--kubernetes-version", "1.37", gates + on])
        assert ("pod-group-invalid" in capsys.readouterr().out) == (on == "true")


def job(parallelism: int) -> dict[str, Any]:
    spec = new_pod().spec(**IN_GROUP, restartPolicy="Never").obj["spec"]
    made = Made("batch/v1", "Job", "train", "shop")
    return made.spec(parallelism=parallelism, template={"spec": spec}).obj


def test_a_workload_counts_with_the_pending_pods_of_its_group() -> None:
    cluster = [*NODES, pod_group(least=3), member("one"), *VICTIMS]
    assert warnings_of(cluster, job(1)) == ["PodGroup train (minCount 3): waits for 1 more Pod"]
    cluster += [make_node("node-3")]
    (message,) = warnings_of(cluster, job(2))
    start = "PodGroup train (minCount 3): would preempt 2 Pods: batch/low-1, batch/low-2 (priority 0)"
    assert message == start


def test_a_message_is_short() -> None:
    long = [
        thing
        for number in (1, 2)
        for thing in (
            pod_group(f"{'experiment-' * 5}{number}", "b" * 60, 1, 0, disruptionMode={"all": {}}),
            make_pod(f"old-{number}", "b" * 60)
            .request(cpu="1500m")
            .priority(0)
            .on("node-1")
            .spec(schedulingGroup={"podGroupName": f"{'experiment-' * 5}{number}"}),
            make_pod(f"old-{number}-b", "b" * 60)
            .request(cpu="1500m")
            .priority(0)
            .on("node-2")
            .spec(schedulingGroup={"podGroupName": f"{'experiment-' * 5}{number}"}),
        )
    ]
    (message,) = warnings_of([*NODES, pod_group(), member("one"), *long], new_pod().spec(**IN_GROUP).obj)
    assert message.startswith("PodGroup train (minCount 2): would preempt 2 PodGroups (4 Pods): bbbb")
    assert len(message) <= 120


def test_later_objects_of_an_apply_see_the_pods_of_a_group() -> None:
    first, second = new_pod("a").spec(**IN_GROUP).obj, new_pod("b").spec(**IN_GROUP).obj
    alone = new_pod("c").obj
    messages = warnings_of([*NODES, pod_group()], first, {}, 37, second, alone)
    assert messages[0] == "PodGroup train (minCount 2): waits for 1 more Pod"
    assert messages[1].startswith("stays Pending even with preemption: 0/2 nodes fit")
    assert len(messages) == 2


def warnings_of(
    cluster: list[Made], new: dict[str, Any], gates: dict[str, bool] | None = None, minor: int = 37, *more: Any
) -> list[str]:
    cache = Cache(semantics=semantics_of(minor, gates or {}))
    for made in cluster:
        cache.add(made.obj)
    return messages_of(cache, new, *more)


def messages_of(cache: Cache, *new: dict[str, Any]) -> list[str]:
    subjects = tuple(ReviewedObject(obj, Operation.CREATE, None) for obj in new)
    request = EvaluationRequest(ChangeSet(subjects), cache.snapshot(), Config(), Phase.LINT, NOW)
    predicting = ("preempts-running-pods", "fits-nowhere")
    return [finding.message for finding in evaluate(request) if finding.rule in predicting]
