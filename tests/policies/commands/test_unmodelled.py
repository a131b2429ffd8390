"""What is not modelled, and what an answer assumes: each entry point says so, and only where it matters."""

from __future__ import annotations

import json
from itertools import product
from typing import TYPE_CHECKING, Any

import pytest

from forewarn.policies.cli.main import main
from forewarn.policies.inputs.sources.cluster import load_cluster
from forewarn.policies.kubernetes.releases.release import Release
from forewarn.policies.linting.config.model import Annotate, Config
from forewarn.policies.linting.config.scheduler import scheduler_source
from forewarn.webhook.admission.review import Hook
from tests.builders import Made, cluster_text, make_claim, make_node, make_pod, make_priority_class
from tests.webhook.builders import decided, review

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from tests.builders import MadePod

KINDS = ("PodDisruptionBudget", "PersistentVolumeClaim", "PersistentVolume", "StorageClass", "CSINode", "CSIDriver")
VERSIONS = {"PodDisruptionBudget": "policy/v1"} | dict.fromkeys(
    ("StorageClass", "CSINode", "CSIDriver"), "storage.k8s.io/v1"
)
EXPECTED = """\
name: the shop outlives node-1
when: {lost: {node: node-1}}
expect: {run: {namespace: shop}}
"""
FITS = """\
name: one more fits
expect: {fit: {file: new.json, replicas: 1, preempting: true}}
"""


def group(priority: int = 100, **spec: Any) -> Made:
    made = Made("scheduling.k8s.io/v1beta1", "PodGroup", "train", "ml")
    return made.spec(**{"schedulingPolicy": {"gang": {"minCount": 2}}, "priority": priority, **spec})


def grouped(name: str, cpu: str) -> MadePod:
    pod = make_pod(name, "ml").request(cpu=cpu).priority(100)
    return pod.spec(schedulingGroup={"podGroupName": "train"})


def deployment(cpu: str) -> list[Made]:
    """web in namespace shop, with one Pod on node-1."""
    labels = {"app": "web"}
    container = {"name": "c", "image": "web", "resources": {"requests": {"cpu": cpu}}}
    template = {"metadata": {"labels": labels}, "spec": {"priorityClassName": "gold", "containers": [container]}}
    spec: dict[str, Any] = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
    owner = {"apiVersion": "apps/v1", "controller": True, "uid": "1"}
    web = Made("apps/v1", "Deployment", "web", "shop").spec(**spec)
    replicas = Made("apps/v1", "ReplicaSet", "web-1", "shop").spec(**spec)
    replicas.metadata(ownerReferences=[{**owner, "kind": "Deployment", "name": "web"}])
    pod = make_pod("web-1-a", "shop").request(cpu=cpu).priority(1000).labels(**labels).on("node-1")
    pod.metadata(ownerReferences=[{**owner, "kind": "ReplicaSet", "name": "web-1"}])
    return [web, replicas, pod.spec(priorityClassName="gold")]


def gold() -> Made:
    made = Made("scheduling.k8s.io/v1", "PriorityClass", "gold")
    made.obj["value"] = 1000
    return made


def base() -> list[Made]:
    return [gold(), *(make_node(f"node-{n}").zone("ab"[n - 1]) for n in (1, 2)), *deployment("2")]


def new_pod(name: str = "new") -> MadePod:
    pod = (
        make_pod(name, "shop").request(cpu="3").spec(priorityClassName="gold", preemptionPolicy="PreemptLowerPriority")
    )
    del pod.obj["spec"]["priority"]
    return pod


class Asked:
    """A dump, a Pod that comes to it, and every way to ask about them."""

    def __init__(self, directory: Path, cluster: Iterable[Made], new: Made, *more: str) -> None:
        self.directory, self.more = directory, more
        objects = json.loads(cluster_text(cluster))["items"]
        waiting = json.loads(json.dumps(new.obj))
        waiting["metadata"] |= {"name": "waiting", "uid": "w"}
        waiting["spec"] |= {"priority": 1000}
        self.objects = [*objects]
        (directory / "cluster.json").write_text(json.dumps({"kind": "List", "items": objects}))
        (directory / "waits.json").write_text(json.dumps({"kind": "List", "items": [*objects, waiting]}))
        (directory / "new.json").write_text(json.dumps(new.obj))
        (directory / "expected.yaml").write_text(EXPECTED)
        (directory / "fits.yaml").write_text(FITS)
        self.waiting = f"{waiting['metadata']['namespace']}/waiting"
        self.new = new.obj

    def told(self, entry: str, capsys: pytest.CaptureFixture[str]) -> str:
        """All that one entry point says."""
        if entry.startswith("webhook"):
            return self._admitted(entry)
        command, *arguments = self._arguments()[entry]
        main([command, *arguments, *self.more])
        read = capsys.readouterr()
        return read.out + read.err

    def _arguments(self) -> dict[str, list[str]]:
        cluster, waits = ["--cluster", self._path("cluster.json")], ["--cluster", self._path("waits.json")]
        new = ["-f", self._path("new.json")]
        return {
            "lint": ["lint", self._path("new.json"), *cluster],
            "predict": ["predict", *new, *cluster, "-v"],
            "predict json": ["predict", *new, *cluster, "-o", "json"],
            "why": ["why", "-v", self.waiting, *waits],
            "headroom": ["headroom", *new, *cluster, "-v"],
            "whatif events": ["whatif", "events", *new, *cluster],
            "whatif events json": ["whatif", "events", *new, *cluster, "-o", "json"],
            "whatif apply": ["whatif", "apply", *new, *cluster],
            "whatif lose node": ["whatif", "lose", "node", "node-1", *cluster, "-v"],
            "whatif lose node json": ["whatif", "lose", "node", "node-1", *cluster, "-o", "json"],
            "whatif lose --each node": ["whatif", "lose", "--each", "node", *cluster, "-v"],
            "whatif drain": ["whatif", "drain", "node-1", *cluster],
            "risk": ["risk", "-v", *cluster],
            "test": ["test", self._path("expected.yaml"), *cluster],
            "test fit": ["test", self._path("fits.yaml"), *cluster],
            "audit": ["audit", "-v", *cluster],
        }

    def _path(self, name: str) -> str:
        return str(self.directory / name)

    def _admitted(self, entry: str) -> str:
        cache = load_cluster(str(self.directory / "cluster.json"))
        scheduler = scheduler_source(self.more[1]) if "--scheduler-config" in self.more else None
        cache.semantics = Release(37, {}, scheduler).semantics()
        state = cache.snapshot()
        hook = Hook.MUTATE if entry == "webhook annotation" else Hook.VALIDATE
        given = {**self.new, "spec": {**self.new["spec"]}}
        if hook is Hook.VALIDATE:
            given["spec"] |= {"priority": 1000}
        found = decided(hook, review(given), state=state, config=Config(annotate=Annotate.ALL))
        return repr(found)


OF_A_PREEMPTOR = (
    "lint", "predict", "predict json", "why", "headroom", "whatif events", "whatif apply", "test fit",
    "webhook warning", "webhook annotation",
)  # fmt: skip
OF_VICTIMS = (
    *OF_A_PREEMPTOR, "whatif events json", "whatif lose node", "whatif lose --each node", "whatif drain", "risk",
    "test", "audit",
)  # fmt: skip


def with_victims() -> list[Made]:
    """Each node is full with a Pod of a group."""
    pods = grouped("train-0", "2").on("node-1"), grouped("train-1", "3").on("node-2")
    return [*base(), group(disruptionMode={"all": {}}), *pods]


@pytest.mark.parametrize(
    "entry", [each for each in OF_A_PREEMPTOR if "webhook" not in each and each not in ("headroom", "test fit")]
)
def test_all_pods_of_a_group_are_victims(entry: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = Asked(tmp_path, with_victims(), new_pod()).told(entry, capsys)
    assert "train-0" in told
    assert "train-1" in told


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ("headroom", "fit with preemption 1"),
        ("test fit", "1 expectation: all met"),
        ("whatif lose --each node", "HARM  each of 2 nodes lost alone: 2 do harm; worst node node-"),
        ("whatif drain", "preempted 1 | "),
        ("webhook warning", "would preempt 2 Pods of another namespace"),
        ("webhook annotation", '"unnamedVictims":2'),
        ("audit", "would preempt 2 Pods on node-1 or node-2: possibly ml/train-0, ml/train-1"),
    ],
)
def test_other_answers_go_by_groups_too(
    entry: str, expected: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert expected in Asked(tmp_path, with_victims(), new_pod()).told(entry, capsys)


@pytest.mark.parametrize("entry", OF_A_PREEMPTOR)
@pytest.mark.parametrize(
    ("field", "what"),
    [
        ({"parentCompositePodGroupName": "all"}, "a parent CompositePodGroup"),
        ({"schedulingConstraints": {"topology": [{"key": "rack"}]}}, "scheduling constraints"),
        ({"resourceClaims": [{"name": "a", "resourceClaimName": "a"}]}, "resource claims"),
    ],
    ids=["composite", "constraints", "claims"],
)
def test_every_command_says_the_same_of_a_group_that_is_not_predicted(
    entry: str, field: dict[str, Any], what: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = group(schedulingPolicy={"gang": {"minCount": 1}}, **field)
    new = grouped("new", "1").of_class(100)
    told = " ".join(Asked(tmp_path, [*base(), made, make_priority_class(100)], new).told(entry, capsys).split())
    assert f"the PodGroup has {what}, which forewarn does not model" in told
    assert "whatif apply" not in told


def test_risk_compares_by_group(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = Asked(tmp_path, with_victims(), new_pod(), "-v").told("risk", capsys)
    lines = [line.split() for line in told.splitlines()]
    assert ["ml/train", "100", "2", "2"] in lines
    assert ["ml/train-0", "gold", "1,000", "more"] in [line[:4] for line in lines]


def test_risk_goes_by_the_priority_of_the_group(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    safe = [*base(), group(5000), grouped("train-0", "2").on("node-1")]
    told = Asked(tmp_path, safe, new_pod(), "-v").told("risk", capsys)
    assert "may be preempted 0" in told
    assert "PODGROUP" not in told


@pytest.mark.parametrize(
    ("there", "pod", "expected"),
    [
        ([], "1", "4 more groups of 2 Pods fit, 4 with preemption"),
        ([], "5", "0 more groups of 2 Pods fit, 0 with preemption"),
        (
            [make_pod(f"low-{n}").request(cpu="3").on(f"node-{n}") for n in (1, 2)],
            "2",
            "0 more groups of 2 Pods fit, 2 with preemption",
        ),
        (
            [make_pod("low").request(cpu="3").priority(2000).on("node-2")],
            "1",
            "2 more groups of 2 Pods fit, 2 with preemption",
        ),
    ],
    ids=["fits", "not even with preemption", "preempts", "without preemption"],
)
def test_headroom_counts_groups(
    there: list[Made], pod: str, expected: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nodes = [make_node("node-1"), make_node("node-2")]
    arguments = train_and_pods(tmp_path, [gold(), *nodes, *there])
    new = (tmp_path / "new.json").read_text()
    (tmp_path / "new.json").write_text(new.replace('"cpu": "3"', f'"cpu": "{pod}"'))
    fit = next(int(word) for word in expected.split() if word.isdigit())
    assert main(["headroom", *arguments, "--at-least", "1"]) == (fit < 1)
    capsys.readouterr()
    main(["headroom", *arguments, "-o", "json"])
    answer = json.loads(capsys.readouterr().out)
    assert answer["clause"] == expected
    found = answer["objects"][0]["podGroup"]
    assert (found["pods"], found["withoutPreemption"]) == (2, fit)


@pytest.mark.parametrize(
    ("there", "cpu", "expected"),
    [
        ([], "1", "group-waits: PodGroup train (minCount 2) waits for 1 more Pod"),
        ([grouped("other", "1")], "1", "group-not-tried-yet: PodGroup train (minCount 2) fits, and"),
        (
            [grouped("other", "9")],
            "1",
            "group-unschedulable: PodGroup train (minCount 2) is unschedulable: minCount (2)",
        ),
        (
            [grouped("other", "1").spec(schedulingGates=[{"name": "g"}])],
            "1",
            "group-unschedulable: PodGroup train (minCount 2) is unschedulable: 1 Pod has scheduling gates",
        ),
        (
            [grouped("other", "3"), *(make_pod(f"low-{n}").request(cpu="3").on(f"node-{n}") for n in (1, 2))],
            "3",
            "group-will-preempt: PodGroup train (minCount 2) will preempt 2 Pods: default/low-1, default/low-2",
        ),
        (
            [grouped("other", "1").spec(volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}])],
            "1",
            "not-predicted: PodGroup train (minCount 2): kube-scheduler must bind volumes",
        ),
    ],
    ids=["waits", "fits", "unschedulable", "gated", "preempts", "not predicted"],
)
def test_why_tells_what_the_group_lacks(
    there: list[Made], cpu: str, expected: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stored = [make_node("node-1"), make_node("node-2"), group(), grouped("me", cpu), *there]
    (tmp_path / "c.json").write_text(json.dumps({"kind": "List", "items": [made.obj for made in stored]}))
    main(["why", "ml/me", "--cluster", str(tmp_path / "c.json"), "--kubernetes-version", "1.37"])
    out = capsys.readouterr().out
    cause, _, message = expected.partition(": ")
    out = " ".join(out.split())
    assert f"): {cause.replace('-', ' ')} " in out
    assert message in out
    fix = "the controller that set a gate must remove it" if "gates" in expected else "lower requests or minCount"
    assert (f". Fix: {fix}" in out) == ("unschedulable" in expected)


@pytest.mark.parametrize(
    "entry", [each for each in OF_VICTIMS if "webhook" not in each and each not in ("lint", "audit")]
)
@pytest.mark.parametrize(
    "more", [("--feature-gates", "GenericWorkload=false"), ("--kubernetes-version", "1.36")], ids=lambda more: more[1]
)
def test_a_scheduler_that_ignores_groups_is_predicted(
    entry: str, more: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = Asked(tmp_path, with_victims(), new_pod(), *more).told(entry, capsys)
    assert "PodGroup;" not in told


def train_and_pods(directory: Path, cluster: list[Made]) -> list[str]:
    """A file with a PodGroup of class gold and its two Pods, and a cluster."""
    train = group().metadata(name="new")
    del train.obj["spec"]["priority"]
    train.spec(priorityClassName="gold")
    pods = [new_pod(f"new-{number}").metadata(namespace="ml") for number in (1, 2)]
    for pod in pods:
        pod.spec(schedulingGroup={"podGroupName": "new"})
    items = [train.obj, *(pod.obj for pod in pods)]
    (directory / "new.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    (directory / "cluster.json").write_text(cluster_text(cluster))
    return ["-f", str(directory / "new.json"), "--cluster", str(directory / "cluster.json")]


@pytest.mark.parametrize(
    ("there", "expected"),
    [
        ([], ["2 of 2 new Pods run\n", "preempted 0 | "]),
        (
            [grouped("train-0", "3").on("node-1"), grouped("train-1", "3").on("node-2"), group()],
            ["2 of 2 new Pods run, ", "preempted "],
        ),
    ],
    ids=["fits", "preempts"],
)
def test_a_podgroup_is_applied_with_its_pods(
    there: list[Made], expected: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nodes = [make_node("node-1"), make_node("node-2")]
    assert main(["whatif", "apply", *train_and_pods(tmp_path, [gold(), *nodes, *there])]) == 0
    told = capsys.readouterr().out
    assert all(text in told for text in expected)


def test_a_podgroup_of_an_unknown_class_is_rejected(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for command in (["whatif", "apply"], ["predict"]):
        main([*command, *train_and_pods(tmp_path, [make_node("node-1")])])
        told = capsys.readouterr()
        assert "no PriorityClass with name gold was found" in told.out + told.err


def test_a_podgroup_in_the_file_tells_that_the_gate_is_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["predict", *train_and_pods(tmp_path, [gold(), make_node("node-1")])])
    assert capsys.readouterr().out.startswith("PENDING  PodGroup ml/new (minCount 2): 0 of 2 new Pods run")


@pytest.mark.parametrize(
    ("there", "cpu", "outcomes", "victims"),
    [
        ([], "3", {"fits": 2}, []),
        (
            [grouped("train-0", "3").on("node-1"), grouped("train-1", "3").on("node-2"), group()],
            "3",
            {"preempts": 2},
            ["ml/train-0", "ml/train-1"],
        ),
        ([make_pod("low").request(cpu="3").on("node-1")], "3", {"preempts": 2}, ["default/low"]),
        ([], "9", {"pending": 2}, []),
    ],
    ids=["fits", "preempts a group", "preempts a Pod", "pending"],
)
def test_predict_tells_what_becomes_of_a_podgroup(
    there: list[Made],
    cpu: str,
    outcomes: dict[str, int],
    victims: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    nodes = [make_node("node-1"), make_node("node-2")]
    arguments = train_and_pods(tmp_path, [gold(), *nodes, *there])
    new = (tmp_path / "new.json").read_text()
    (tmp_path / "new.json").write_text(new.replace('"cpu": "3"', f'"cpu": "{cpu}"'))
    assert main(["predict", *arguments, "-o", "json", "--fail-on", "victims"]) == bool(victims)
    document = json.loads(capsys.readouterr().out)
    (group,) = document["podGroups"]
    assert (document["outcomes"], group["id"], group["victims"]) == (outcomes, "PodGroup ml/new", victims)
    assert document["counters"]["victims"] == len(victims)


@pytest.mark.parametrize("case", ["another group", "another Pod"])
def test_predict_does_not_predict_a_podgroup_whose_turn_is_not_known(
    case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = train_and_pods(tmp_path, [gold(), make_node("node-1"), make_node("node-2")])
    new = json.loads((tmp_path / "new.json").read_text())
    if case == "another group":
        text = json.dumps(new["items"]).replace('"new', '"two')
        new["items"] += json.loads(text)
    elif case == "another Pod":
        new["items"].append(make_pod("alone").request(cpu="1").obj)
    (tmp_path / "new.json").write_text(json.dumps(new))
    assert main(["predict", *arguments]) == 3
    out = capsys.readouterr().out
    assert out.startswith("NO ANSWER  ")
    assert "the Pod belongs to PodGroup new" in out
    assert "PodGroup ml/" not in out


def test_predict_counts_the_pods_that_a_podgroup_waits_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = train_and_pods(tmp_path, [gold(), make_node("node-1")])
    new = (tmp_path / "new.json").read_text()
    (tmp_path / "new.json").write_text(new.replace('"minCount": 2', '"minCount": 5'))
    main(["predict", *arguments])
    assert "    2  ml/new waits for 3 more Pods. Fix: create the missing Pods" in capsys.readouterr().out


def test_a_simulation_tells_what_a_podgroup_waits_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = train_and_pods(tmp_path, [gold(), make_node("node-1")])
    new = (tmp_path / "new.json").read_text()
    (tmp_path / "new.json").write_text(new.replace('"minCount": 2', '"minCount": 5'))
    main(["whatif", "apply", *arguments])
    assert "  PodGroup new (minCount 5) waits for 3 more Pods\n" in capsys.readouterr().out
    (tmp_path / "new.json").write_text(json.dumps({"kind": "List", "items": json.loads(new)["items"][1:]}))
    main(["whatif", "apply", *arguments, "--feature-gates", "GenericWorkload=true"])
    assert "  PodGroup new does not exist\n" in capsys.readouterr().out


SIMULATED = ("whatif events", "whatif apply")


@pytest.mark.parametrize("entry", SIMULATED)
@pytest.mark.parametrize("evidence", ["PodGroup", "stored Pod", "gate"])
def test_a_simulated_pod_waits_for_the_others_of_its_group(
    evidence: str, entry: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    new = new_pod().request(cpu="1").spec(schedulingGroup={"podGroupName": "train"})
    there: dict[str, list[Made]] = {
        "PodGroup": [group().metadata(namespace="shop")],
        "stored Pod": [grouped("train-0", "1").on("node-2")],
    }
    more = ("--feature-gates", "GenericWorkload=true") if evidence == "gate" else ()
    told = Asked(tmp_path, [*base(), *there.get(evidence, [])], new, *more).told(entry, capsys)
    assert "0 of 1 new Pod runs" in told or "0 of 1 new Pod scheduled" in told


@pytest.mark.parametrize("entry", [each for each in OF_A_PREEMPTOR if each not in SIMULATED])
@pytest.mark.parametrize("evidence", ["PodGroup", "stored Pod"])
def test_a_pod_of_a_group(evidence: str, entry: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    new = new_pod().spec(schedulingGroup={"podGroupName": "train"})
    there = group() if evidence == "PodGroup" else grouped("train-0", "1").on("node-2")
    told = Asked(tmp_path, [*base(), there], new).told(entry, capsys)
    assert "belongs to PodGroup train" in told


@pytest.mark.parametrize(
    "entry", [e for e in OF_A_PREEMPTOR if "webhook" not in e and "pod" not in e and e not in SIMULATED]
)
@pytest.mark.parametrize("gate", ["", "true"])
def test_without_evidence_the_field_counts_only_where_the_gate_is_given(
    gate: str, entry: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if entry in ("lint", "why"):
        pytest.skip("takes no gates, or asks about a stored Pod")
    new = new_pod().spec(schedulingGroup={"podGroupName": "train"})
    more = ("--feature-gates", f"GenericWorkload={gate}") if gate else ()
    told = Asked(tmp_path, base(), new, *more).told(entry, capsys)
    assert ("belongs to PodGroup train" in told) == bool(gate)


def listed(*kinds: str) -> list[Made]:
    """Empty lists."""
    found = []
    for kind in kinds:
        made = Made(VERSIONS.get(kind, "v1"), f"{kind}List", "")
        made.obj.clear()
        made.obj |= {"apiVersion": VERSIONS.get(kind, "v1"), "kind": f"{kind}List", "items": []}
        found.append(made)
    return found


def with_low_pods() -> list[Made]:
    owner = {"apiVersion": "v1", "kind": "ReplicationController", "name": "low", "controller": True}
    pods = (
        make_pod("low-0", "low").request(cpu="2").on("node-1"),
        make_pod("low-1", "low").request(cpu="3").on("node-2"),
    )
    for pod in pods:
        pod.metadata(ownerReferences=[owner])
    return [*base(), *pods]


TELLS_OF_BUDGETS = tuple(entry for entry in OF_VICTIMS if entry != "audit")


@pytest.mark.parametrize("entry", [*TELLS_OF_BUDGETS, "audit", "whatif lose node json"])
@pytest.mark.parametrize("is_listed", [False, True])
def test_an_answer_with_victims_says_that_no_budgets_were_listed(
    is_listed: bool, entry: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lists = listed("PodDisruptionBudget") if is_listed else []
    told = Asked(tmp_path, [*with_low_pods(), *lists], new_pod()).told(entry, capsys)
    assert ("no PodDisruptionBudgets" in told) == (not is_listed)


@pytest.mark.parametrize("entry", ["predict", "predict json", "why", "headroom", "whatif events", "whatif apply"])
def test_an_answer_without_victims_and_claims_says_nothing_of_lists(
    entry: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lists = listed("ResourceQuota", "LimitRange")
    told = Asked(tmp_path, [*base(), *lists], new_pod()).told(entry, capsys)
    assert "no ResourceQuotas" not in told


@pytest.mark.parametrize(
    "entry",
    [
        "whatif events json",
        "whatif lose node",
        "whatif lose node json",
        "whatif lose --each node",
        "whatif drain",
        "risk",
    ],
)
@pytest.mark.parametrize(
    "missing", [("ResourceQuota",), ("LimitRange",), ()], ids=lambda kinds: kinds[0] if kinds else "none"
)
def test_an_answer_with_new_pods_names_the_lists_that_their_admission_depends_on(
    missing: tuple[str, ...], entry: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kinds = ("ResourceQuota", "LimitRange", "PodDisruptionBudget")
    lists = listed(*(kind for kind in kinds if kind not in missing))
    told = Asked(tmp_path, [*base(), *lists], new_pod()).told(entry, capsys)
    assert [kind for kind in kinds if f"no {kind}s" in told] == list(missing)


@pytest.mark.parametrize("entry", ["predict", "predict json", "why", "whatif events", "whatif apply"])
@pytest.mark.parametrize("missing", [KINDS[1:], KINDS[2:], ()], ids=lambda kinds: kinds[0] if kinds else "none")
def test_an_answer_for_a_pod_with_claims_names_the_lists_that_are_missing(
    missing: tuple[str, ...], entry: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    new = new_pod().claim("data")
    there = [make_claim("data", "volume-1", "shop")] if "PersistentVolumeClaim" not in missing else []
    lists = listed("ResourceQuota", "LimitRange", *(kind for kind in KINDS[2:] if kind not in missing))
    told = Asked(tmp_path, [*base(), *there, *lists], new).told(entry, capsys)
    if missing and entry in ("whatif events", "whatif apply"):
        assert f"not predicted: Pod shop/new: the cluster state has no list of {missing[0]}s, and" in told
        return
    assert [kind for kind in KINDS if f"no {kind}{'es' if kind.endswith('s') else 's'}" in told] == [*missing]


@pytest.mark.parametrize("entry", ["predict", "predict json", "why", "whatif events", "whatif apply"])
@pytest.mark.parametrize("is_listed", [False, True])
def test_an_answer_for_a_pod_that_selects_namespaces_says_that_none_were_listed(
    is_listed: bool, entry: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    term = {
        "topologyKey": "kubernetes.io/hostname",
        "labelSelector": {"matchLabels": {"app": "db"}},
        "namespaceSelector": {"matchLabels": {"team": "shop"}},
    }
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    lists = listed("ResourceQuota", "LimitRange", *(["Namespace"] if is_listed else []))
    told = Asked(tmp_path, [*base(), *lists], new_pod().spec(affinity=apart)).told(entry, capsys)
    assert ("no Namespaces" in told) == (not is_listed)


def owned(api_version: str, kind: str) -> list[Made]:
    """A Pod on node-1 that a custom resource owns."""
    owner = {"apiVersion": api_version, "kind": kind, "name": "db", "controller": True, "uid": "2"}
    pod = make_pod("db-1", "data").request(cpu="1").on("node-1").metadata(ownerReferences=[owner])
    return [*base(), *listed("PodDisruptionBudget"), pod]


UNKNOWN = ("whatif lose node", "whatif lose --each node", "risk", "whatif events")


WORKLOADS = [*product(("Deployment", "DaemonSet"), ("lint", "predict", "whatif apply", "webhook warning"))]


@pytest.mark.parametrize(("kind", "entry"), [*WORKLOADS, ("Deployment", "headroom")])
@pytest.mark.parametrize(
    ("verb", "free", "reason"),
    [("filterVerb", "1", "may reject the nodes"), ("preemptVerb", "3", "may choose other victims")],
)
def test_every_answer_about_a_workload_names_the_extender_that_may_decide(
    kind: str, verb: str, free: str, reason: str, entry: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scheduler = tmp_path / "scheduler.yaml"
    extenders = [{"urlPrefix": "http://x", verb: "v"}]
    header = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    scheduler.write_text(json.dumps({**header, "extenders": extenders}))
    lower = [make_pod(f"low-{n}", "shop").request(cpu="3").priority(0).on(f"node-{n}") for n in (1, 2)]
    spec = deployment(free)[0].obj["spec"] | {"replicas": 5}
    if kind == "DaemonSet":
        del spec["replicas"]
    new = Made("apps/v1", kind, "new", "shop").spec(**spec)
    nodes = [make_node(f"node-{n}") for n in (1, 2)]
    told = Asked(tmp_path, [gold(), *nodes, *lower], new, "--scheduler-config", str(scheduler)).told(entry, capsys)
    assert f'the extender "http://x" {reason}' in told
    assert "would preempt" not in told


@pytest.mark.parametrize("entry", [*UNKNOWN, "test"])
def test_an_owner_of_an_unknown_kind_is_named(
    entry: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    asked = Asked(tmp_path, owned("example.com/v1", "Database"), new_pod())
    (tmp_path / "expected.yaml").write_text(EXPECTED.replace("shop}", "data}"))
    told = asked.told(entry, capsys)
    assert "example.com/Database" in told
    assert "unknown to forewarn" in told
    assert "nothing replaces it" not in told


@pytest.mark.parametrize("entry", [*UNKNOWN, "test"])
@pytest.mark.parametrize("how", ["by default", "by the configuration"])
def test_an_owner_of_a_known_kind_creates_its_pods_again(
    how: str, entry: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    by_default = how == "by default"
    kind = ("postgresql.cnpg.io/v1", "Cluster") if by_default else ("example.com/v1", "Database")
    if not by_default:
        (tmp_path / ".forewarn.yaml").write_text("recreatesPods: [example.com/Database]\n")
    asked = Asked(tmp_path, owned(*kind), new_pod())
    (tmp_path / "expected.yaml").write_text(EXPECTED.replace("shop}", "data}"))
    told = asked.told(entry, capsys)
    assert "unknown to forewarn" not in told
    assert "nothing replaces it" not in told
    if entry == "test":
        assert "all met" in told


def test_a_static_pod_is_matched_by_its_own_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    owner = {"apiVersion": "v1", "kind": "Node", "name": "node-1", "controller": True, "uid": "3"}
    annotations = {"kubernetes.io/config.mirror": "x"}
    pod = make_pod("etcd-node-1", "kube-system").on("node-1").metadata(ownerReferences=[owner], annotations=annotations)
    asked = Asked(tmp_path, [*base(), *listed("PodDisruptionBudget"), pod], new_pod())
    told = asked.told("whatif lose node", capsys)
    assert "kube-system/etcd-node-1" in told
    assert "kube-system/node-1" not in told
    assert "nothing replaces it" not in told
    (tmp_path / "expected.yaml").write_text(EXPECTED.replace("namespace: shop", "workload: kube-system/etcd-*"))
    assert "kube-system/etcd-node-1: 1 → 0 running Pods" in asked.told("test", capsys)


def with_a_device(*, rules: bool) -> list[Made]:
    """node-1 has one device, and a rule taints it or nobody has listed the rules."""
    resource = "resource.k8s.io/v1"
    device = {"driver": "gpu.example", "nodeName": "node-1", "devices": [{"name": "gpu"}]}
    part = Made(resource, "ResourceSlice", "s").spec(**device, pool={"name": "p", "resourceSliceCount": 1})
    request = {"name": "r", "exactly": {"deviceClassName": "gpu"}}
    claim = Made(resource, "ResourceClaim", "gpu", "shop").spec(devices={"requests": [request]})
    taint = {"key": "broken", "effect": "NoSchedule"}
    rule = Made(resource, "DeviceTaintRule", "r").spec(deviceSelector={}, taint=taint)
    return [*base(), Made(resource, "DeviceClass", "gpu").spec(), part, claim, *([rule] if rules else [])]


@pytest.mark.parametrize("entry", ["lint", "predict", "predict json", "why", "headroom", "webhook warning"])
def test_a_device_that_a_rule_taints_is_not_available(
    entry: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    new = new_pod().request(cpu="1").spec(resourceClaims=[{"name": "gpu", "resourceClaimName": "gpu"}])
    told = Asked(tmp_path, with_a_device(rules=True), new).told(entry, capsys)
    assert "cannot allocate all claims" in told


@pytest.mark.parametrize("entry", ["predict", "predict json", "why", "headroom"])
def test_an_answer_with_devices_says_that_no_taint_rules_were_listed(
    entry: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    new = new_pod().request(cpu="1").spec(resourceClaims=[{"name": "gpu", "resourceClaimName": "gpu"}])
    asked = Asked(tmp_path, with_a_device(rules=False), new)
    assert "no DeviceTaintRules" in asked.told(entry, capsys)
