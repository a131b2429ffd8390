"""`forewarn headroom --survive`: the nodes to add, compared with all choices in small clusters."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import replace
from functools import partial
from itertools import combinations_with_replacement
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
import yaml

import forewarn
from forewarn.policies.base.documents.answer import Cause, Fix
from forewarn.policies.cli.render.answer import MAX_LINES, text
from forewarn.policies.kubernetes.objects.node import HOSTNAME, ZONE
from forewarn.policies.questions.application import survival
from forewarn.policies.questions.application.fixes import with_edits
from forewarn.policies.questions.application.simulated import world_with
from forewarn.policies.questions.application.survival import SurvivalRequest, survive
from forewarn.policies.questions.application.survival_answer import AddedNodes, LossHarm, Survival
from forewarn.policies.questions.whatif.comparison import ask
from forewarn.policies.questions.whatif.effects import Kind
from forewarn.policies.questions.whatif.questions import each_loss, question_of_loss
from forewarn.policies.questions.whatif.repetition import RUNS, random_runs
from forewarn.policies.questions.whatif.sweep import counted
from tests.builders import Made, cluster_text, make_node, make_pod, make_priority_class
from tests.cases import cases
from tests.in_process import forewarn as run
from tests.policies.small_clusters import BATCHES, CLASSES, compared, compared_without_forks, replica_set, small_cluster

if TYPE_CHECKING:
    from collections.abc import Sequence

CLUSTER = "docs/examples/whatif/cluster.yaml"
GROUPS = "docs/examples/whatif/node-groups.yaml"
MOST = 4


@pytest.fixture(autouse=True)
def no_random_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Search without random runs, which may need more nodes than one run."""
    monkeypatch.setattr(survival, "random_runs", partial(random_runs, runs=0))


class _Choices:
    """Tries choices of new nodes by the answer of `whatif`, not by the search."""

    def __init__(self, cluster: forewarn.Cluster, scope: str) -> None:
        self._cluster, self._scope = cluster, scope
        self._losses = [*(cluster.nodes if scope == "node" else cluster.zones)]

    def suffices(self, zones: Sequence[str]) -> bool:
        """Whether no loss harms Pods of a class above 0 with new nodes in these zones; tries the worst loss first."""
        harmful = next((lost for lost in self._losses if self._harms(zones, lost)), None)
        if harmful is not None:
            self._losses.sort(key=lambda lost: lost != harmful)
        return harmful is None

    def _harms(self, zones: Sequence[str], lost: str) -> bool:
        nodes = self._cluster.snapshot.objects.nodes
        model = nodes["", self._cluster.nodes[0]]
        new = [
            replace(model, name=f"new-{number}", labels={**model.labels, ZONE: zone, HOSTNAME: f"new-{number}"})
            for number, zone in enumerate(zones, 1)
        ]
        losses = each_loss(self._cluster.snapshot, self._scope, "", [*nodes.values(), *new])
        (loss,) = [each for each in losses if each.title.partition(" ")[2] == lost]
        question = question_of_loss(loss, new, 120.0)
        after = ask(question, world_with(self._cluster.cache, question.arrivals, 3600.0), without=False).after
        pending = any(each.pending > each.pending_before for each in after.workloads if each.priority > 0)
        return pending or any(each.priority > 0 for each in after.preempted)


def _compare(seed: int, path: Path) -> int | None:
    """Check that the answer suffices, and that no choice of fewer nodes does, up to MOST; return its nodes."""
    rng = Random(seed)
    path.write_text(cluster_text(small_cluster(rng)))
    cluster, scope = forewarn.load(path), "node" if rng.random() < 0.3 else "zone"
    result, choices = survive(cluster, SurvivalRequest(scope)), _Choices(cluster, scope)
    if result.survives:
        assert choices.suffices([each.zone for each in result.add for _ in range(each.nodes)]), seed
    for size in range(min(result.nodes, MOST + 1) if result.survives else MOST + 1):
        for zones in combinations_with_replacement(cluster.zones, size):
            assert not choices.suffices(zones), (seed, zones)
    return result.nodes if result.survives else None


def test_no_choice_of_up_to_4_nodes_is_better(tmp_path: Path) -> None:
    compared(_compare, range(cases(6)), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("seeds", BATCHES, ids=lambda seeds: str(seeds.start))
def test_no_choice_of_up_to_4_nodes_is_better_in_200_clusters(seeds: range, tmp_path: Path) -> None:
    compared_without_forks(_compare, seeds, tmp_path)


def _survived(seed: int, path: Path, **fields: Any) -> Survival:
    path.write_text(cluster_text(small_cluster(Random(seed))))
    return survive(forewarn.load(path), SurvivalRequest("zone", **fields))


@pytest.mark.parametrize("seed", range(4))
def test_the_bisection_finds_what_all_choices_find_or_says_that_others_may_need_fewer(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    best = _survived(seed, tmp_path / "c.json")
    monkeypatch.setattr(survival, "MAX_WORK", 0)
    found = _survived(seed, tmp_path / "c.json")
    assert (found.survives, found.nodes >= best.nodes) == (best.survives, True)
    assert all(not (each.preempted_then or each.pending_then) for each in found.losses)
    if found.nodes > 1:
        assert "others may need fewer" in str(found.document.shown)


@pytest.mark.parametrize(
    ("enough", "found", "trials"),
    [(0, 0, 1), (1, 1, 2), (3, 3, 3), (9, 9, 5), (12, 12, 6), (24, 24, 4), (50, 50, 4), (400, 400, 6)],
)
def test_the_last_nodes_are_found_in_few_trials(enough: int, found: int, trials: int) -> None:
    """The sum of what is missing is too few nodes, and the more so, the fewer are missing."""
    left, tried = survival._Left(), list[int]()
    while left.next not in tried:
        tried.append(left.next)
        missing = enough - left.next
        left = left.remaining_after(left.next, (missing / enough) ** 1.5 * enough / 2 if missing > 0 else None)
    assert (left.enough, len(tried)) == (found, trials)


@pytest.mark.parametrize(("few", "enough", "more"), [(7, 9, 8), (21, 23, 22), (22, 24, 24), (40, 48, 44), (44, 48, 48)])
def test_numbers_between_near_bounds_are_not_tried(few: int, enough: int, more: int) -> None:
    """The bounds of a bisection may differ by a twelfth; of fewer than 24 nodes, by one."""
    assert survival._Left().remaining_after(few, 1.0).remaining_after(enough, None).next == more


@pytest.mark.parametrize(
    ("wanted", "nodes"), [((28, 18, 18), (4, 14, 14)), ((3, 3, 3), (2, 2, 1)), ((4, 4, 4), (2, 2, 2))]
)
def test_no_more_nodes_are_chosen_than_the_losses_have_to_leave(
    wanted: tuple[int, ...], nodes: tuple[int, ...], tmp_path: Path
) -> None:
    """A loss leaves the nodes of the other zones."""
    made = [make_node(f"n{zone}").has(cpu="4").zone(zone) for zone in "abc"]
    (tmp_path / "c.json").write_text(cluster_text(made))
    cluster = forewarn.load(tmp_path / "c.json")
    kinds = survival._kinds(cluster.snapshot, (), "")
    search = survival._Search(cluster, SurvivalRequest("zone"), kinds, None, 1.0)
    least: dict[tuple[str, object], int] = {}
    least |= {(f"zone {zone}", kinds[0].family): count for zone, count in zip("abc", wanted, strict=True)}
    assert search._covering(least) == nodes


def test_after_contradicting_trials_more_nodes_than_the_most_that_failed_are_tried() -> None:
    assert survival._Left().remaining_after(10, 1.0).remaining_after(8, None).next == 11


def test_a_search_without_an_answer_within_the_time_says_so(tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    path.write_text(cluster_text(small_cluster(Random(5))))
    result = survive(forewarn.load(path), SurvivalRequest("zone"), limit=-1)
    document = result.document
    assert (document.status, [each.name for each in document.shown], result.losses) == ("NO ANSWER", ["losses"], [])
    assert document.clause.startswith("not found within")
    assert "the search ended after" in document.warnings[0]


def test_the_nodes_are_tried_in_random_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(survival, "random_runs", random_runs)
    runs = f"verified in {RUNS} of {RUNS} random runs"
    assert runs in run("headroom", "--survive", "node", "--cluster", CLUSTER).stdout
    bad = survival._Harm(1, 0)
    harms = [("node node-1", harm) for harm in (bad, survival._Harm(0, 0), bad)]
    monkeypatch.setattr(survival._Search, "random_harms", lambda *_: harms)
    one_line = " ".join(run("headroom", "--survive", "node", "--cluster", CLUSTER).stdout.split())
    assert (
        "chance decides: in 2 of 3 random runs of the losses, more nodes would help; how many was not found" in one_line
    )


def test_the_nodes_that_suffice_in_all_runs_are_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """If one node fewer suffices in some runs, it is the cheaper choice."""
    missing: dict[tuple[int, ...], Any] = {(1,): survival._Missing(1000, 0, Counter(high=1))}
    harms = survival._Harm(0, 0), survival._Harm(0, 1, 0, missing)
    monkeypatch.setattr(
        survival._Search,
        "random_harms",
        lambda _, choice, names: [(names[0], harms[0]), (names[0], harms[sum(choice) < 5])],
    )
    shown = run("headroom", "--survive", "zone", "--cluster", CLUSTER).stdout
    assert "5 more nodes are enough" in shown
    assert "verified in 2 of 2 random runs" in shown
    assert "or 4 nodes: 2 web a, 2 web b" in shown
    assert "→ enough in 1 of 2 random runs of the losses" in shown


def test_if_chance_lets_the_choice_of_the_bisection_do_harm_more_nodes_are_added(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each loss alone needs 2 nodes in the other zone; with these numbers in all zones, one Pod of each is Pending."""
    monkeypatch.setattr(survival, "MAX_WORK", 0)
    missing: dict[tuple[int, ...], Any] = {(1,): survival._Missing(1000, 0, Counter(high=1))}
    own = survival._Search.harms_of

    def harms_of(search: Any, choice: Any, names: Any = None) -> Any:
        harms = own(search, choice, names)
        return harms if names or sum(choice) != 4 else dict.fromkeys(harms, survival._Harm(0, 1, 1, missing))

    monkeypatch.setattr(survival._Search, "harms_of", harms_of)
    assert "about 6 more nodes are enough" in run("headroom", "--survive", "zone", "--cluster", CLUSTER).stdout


def test_replicas_that_no_node_brings_back_are_counted(tmp_path: Path) -> None:
    """A Job without retries fails with its node; the new Pods of a quota without room are rejected."""
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    template = {"spec": {"restartPolicy": "Never", "containers": [container], "priorityClassName": "high"}}
    job = Made("batch/v1", "Job", "job", "default").metadata(uid="job").spec(template=template, backoffLimit=0)
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "job", "controller": True, "uid": "job"}
    pod = make_pod("job-x").request(cpu="1").of_class("high").priority(1000).on("a-1").metadata(ownerReferences=[owner])
    nodes = [make_node(f"{zone}-1").zone(zone).has(cpu="8") for zone in "ab"]
    (tmp_path / "c.json").write_text(cluster_text([*nodes, make_priority_class(1000, "high"), job, pod]))
    done = run("headroom", "--survive", "zone", "--cluster", tmp_path / "c.json", "-o", "json")
    document = json.loads(done.stdout)
    assert (document["status"], document["clause"]) == (
        "HARM",
        "no new node helps; 1 replica stays lost all the same",
    )
    (cause,) = document["why"]["causes"]
    assert (
        cause["reason"]
        == "1 Job fails: more of their Pods are deleted than backoffLimit allows; a podFailurePolicy may prevent it"
    )
    shown = run("headroom", "--survive", "zone", "--cluster", tmp_path / "c.json").stdout
    assert "MORE   forewarn whatif lose zone a: a podFailurePolicy for the Jobs" in shown


def test_a_loss_leads_on_to_new_nodes_also_if_it_only_preempts(tmp_path: Path) -> None:
    """The Pod of class high preempts that of class low, which fits beside it on the third node."""
    made: list[Made] = [make_node(f"n{number}").has(cpu=cpu) for number, cpu in enumerate("442")]
    made += [make_priority_class(1000, "high"), make_priority_class(10, "low")]
    made += replica_set("web", 3, [0], {"priorityClassName": "high", "priority": 1000})
    made += replica_set("etl", 2, [1], {"priorityClassName": "low", "priority": 10})
    (tmp_path / "c.json").write_text(cluster_text(made))
    shown = run("whatif", "lose", "node", "n0", "--cluster", tmp_path / "c.json").stdout
    assert "preempted 1 | Pending 0 | lost 0" in shown
    assert "headroom --survive" in shown


def test_the_losses_are_explained() -> None:
    shown = run("headroom", "--survive", "node", "--cluster", CLUSTER).stdout
    added, losses = (
        re.search(r"nodes to add (\d+)", shown),
        re.search(r"losses (\d+) \(each node alone, (\d+) of", shown),
    )
    assert added is not None
    assert losses is not None
    assert (int(losses[1]), losses[2]) == (4 + int(added[1]), added[1])


def test_only_pods_of_the_given_classes_are_protected(tmp_path: Path) -> None:
    nodes = [_survived(5, tmp_path / "c.json", protect=protect).nodes for protect in (["high"], [*CLASSES])]
    assert nodes == sorted(nodes)
    assert _survived(5, tmp_path / "c.json").nodes == nodes[1]


@pytest.mark.parametrize("words", ["--protect gold batch", "--protect gold --protect batch"])
def test_several_classes_are_protected(words: str) -> None:
    done = run("headroom", "--survive", "node", *words.split(), "--cluster", CLUSTER, "-o", "json")
    assert json.loads(done.stdout)["protect"] == ["gold", "batch"]


def test_the_answer_names_the_nodes_and_what_they_change() -> None:
    document = json.loads(run("headroom", "--survive", "zone", "--cluster", CLUSTER, "-o", "json").stdout)
    assert document["clause"] == "4 more nodes needed for class batch"
    assert document["add"] == [{"like": "web", "zone": zone, "nodes": 2, "classes": {"batch": 4}} for zone in "ab"]
    assert document["losses"][0] == {
        "loss": "zone a",
        "preempted": 2,
        "pending": 4,
        "lost": 4,
        "preemptedThen": 0,
        "pendingThen": 0,
        "lostThen": 0,
    }
    add, fewer, less = document["fix"]
    assert add["effect"] == "zone a lost: preempted 2 → 0, Pending 4 → 0, lost 4 → 0"
    assert fewer["action"] == "or 2 nodes: 1 web a, 1 web b"
    assert fewer["effect"] == "zone a lost: 2 more Pods are Pending or preempted (batch 2)"
    assert less == {"action": "or protect fewer classes: --protect gold", "effect": "no nodes needed"}
    trials = {each["nodes"]: each.get("helped", {}) for each in document["trials"]}
    assert (trials["1 web a, 2 web b"], trials["2 web a, 2 web b"]) == ({"zone b": 2}, {})


def test_pods_of_priority_0_are_a_warning_unless_classes_are_named(tmp_path: Path) -> None:
    made: list[Made] = [make_node(f"n{number}").has(cpu="4").zone(zone) for number, zone in enumerate("ab")]
    made += [make_priority_class(0, "zero"), make_pod("bare").on("n0"), make_pod("zero").of_class("zero").on("n1")]
    (tmp_path / "c.json").write_text(cluster_text([*made, make_pod("low").priority(-1).on("n1")]))
    asked = ("headroom", "--survive", "zone", "--cluster", tmp_path / "c.json")
    warning = "2 Pods of priority 0 are not protected. Fix: name their classes with --protect, or give them one"
    assert warning in run(*asked).stdout
    assert "not protected" not in run(*asked, "--protect", "zero").stdout


def test_a_cluster_that_survives_needs_no_nodes() -> None:
    done = run("headroom", "--survive", "node", "--protect", "gold", "--cluster", CLUSTER)
    assert done.returncode == 0
    assert done.stdout.startswith("OK  survive the loss of any one node (class gold): no more nodes needed")


def test_the_loss_of_a_pool_takes_the_new_nodes_of_the_pool_with_it() -> None:
    done = run("headroom", "--survive", "pool", "topology.kubernetes.io/zone=a", "--cluster", CLUSTER, "-o", "json")
    assert {each["zone"] for each in json.loads(done.stdout)["add"]} == {"b"}


def _priced(path: Path, *prices: str) -> Path:
    groups = yaml.safe_load(Path(GROUPS).read_text())[:2]
    path.write_text(
        yaml.safe_dump([each | {"pricePerMonth": price} for each, price in zip(groups, prices, strict=True)])
    )
    return path


def test_prices_decide_and_are_added(tmp_path: Path) -> None:
    groups = _priced(tmp_path / "g.yaml", "40 EUR", "160.50 EUR")
    asked = ("headroom", "--survive", "zone", "--cluster", CLUSTER, "--node-templates", groups, "-o", "json")
    document = json.loads(run(*asked).stdout)
    assert document["clause"] == "3 more nodes needed, 240.50 EUR per month, for class batch"
    assert document["price"] == {"cents": 24050, "currency": "EUR"}
    assert sum(each["price"]["cents"] for each in document["add"]) == 24050
    assert [each["classes"] for each in document["add"]] == [{"batch": 4}] * 2
    helped = {"zone a": 4, "zone b": 4}
    assert document["trials"][0] == {"nodes": "none", "preempted": 2, "pending": 4, "lost": 4, "helped": helped}
    assert "EUR per month: " in document["fix"][1]["action"]


@pytest.mark.parametrize("work", [survival.MAX_WORK, 0], ids=["all choices", "bisection"])
def test_cheaper_nodes_than_those_of_the_most_used_pool_have_the_classes_they_are_for(
    work: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half of a large node costs more than half its price, but less than all."""
    monkeypatch.setattr(survival, "MAX_WORK", work)
    made: list[Made] = [make_node(f"n{number}").has(cpu="4").zone(zone) for number, zone in enumerate("ab")]
    of_class = {"priorityClassName": "high", "priority": 1000}
    made += [make_priority_class(1000, "high"), *replica_set("web", 3, [0, 1], of_class)]
    (tmp_path / "c.json").write_text(cluster_text(made))
    groups = [
        {
            "name": f"{name}-{zone}",
            "maxSize": 9,
            "pricePerMonth": f"{price} EUR",
            "template": {
                "metadata": {"labels": {ZONE: zone}},
                "status": {"capacity": {"cpu": cpu, "memory": "64Gi", "pods": 110}},
            },
        }
        for zone in "ab"
        for name, cpu, price in (("full", "8", 20), ("half", "4", 11))
    ]
    (tmp_path / "g.yaml").write_text(json.dumps(groups))
    asked = ("headroom", "--survive", "zone", "--cluster", tmp_path / "c.json", "--node-templates", tmp_path / "g.yaml")
    added = json.loads(run(*asked, "-o", "json").stdout)["add"]
    assert [(each["like"], each["nodes"], [*each.get("classes", ())]) for each in added] == [
        ("half-a", 1, ["high"]),
        ("half-b", 1, ["high"]),
    ]


def test_the_bisection_tries_the_maximum_of_a_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A lost zone leaves 3 Pods Pending, one for each new node; 2 nodes, by the sum of requests, do not suffice."""
    monkeypatch.setattr(survival, "MAX_WORK", 0)
    nodes = [make_node("a-1").zone("a").has(cpu="64"), make_node("b-1").zone("b").has(cpu="64")]
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "controller": True, "uid": "web"}
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "20"}}}
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container], "priorityClassName": "p"}}
    web = Made("apps/v1", "ReplicaSet", "web", "default")
    web.spec(replicas=6, selector={"matchLabels": {"app": "web"}}, template=template)
    pods = [
        make_pod(f"web-{number}")
        .request(cpu="20")
        .labels(app="web")
        .of_class("p")
        .priority(5)
        .on("a-1" if number % 2 else "b-1")
        .metadata(ownerReferences=[owner])
        .status(conditions=[{"type": "Ready", "status": "True"}])
        for number in range(6)
    ]
    (tmp_path / "c.json").write_text(cluster_text([*nodes, web, *pods, make_priority_class(5, "p")]))
    status = {"capacity": {"cpu": "30", "memory": "64Gi", "pods": 110}}
    groups = [{"name": "c", "maxSize": 3, "template": {"metadata": {"labels": {ZONE: "c"}}, "status": status}}]
    (tmp_path / "g.yaml").write_text(yaml.safe_dump(groups))
    asked = ("headroom", "--survive", "zone", "--cluster", tmp_path / "c.json", "--node-templates", tmp_path / "g.yaml")
    assert json.loads(run(*asked, "-o", "json").stdout)["clause"] == "about 3 more nodes are enough for class p"


@pytest.mark.parametrize(
    ("cpus", "places", "prices", "nodes"),
    [
        ("16 16 16", [0, 1, 2] * 4, "", {"g-a": 2, "g-b": 2, "g-c": 2}),
        ("16 1 1", [0] * 4, "", {"g-b": 2, "g-c": 2}),
        ("16 16 16", [0, 1, 2] * 4, "10 10.50 11", {"g-a": 2, "g-b": 2, "g-c": 2}),
        ("16 16 16", [0, 1, 2] * 4, "10 11 40", {"g-a": 4, "g-b": 4}),
        ("16 1 1", [0] * 4, "10 10.50 11", {"g-b": 4}),
    ],
    ids=[
        "4 nodes left in any two zones",
        "4 nodes left without the first zone",
        "6 nodes cost less than 8 of the two cheapest zones",
        "8 nodes of the two cheapest zones cost less than 6",
        "the cheapest zone that is left",
    ],
)
def test_node_groups_that_differ_in_their_zone_share_the_nodes_unless_others_cost_less(
    cpus: str, places: list[int], prices: str, nodes: dict[str, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each zone gets the nodes that the losses of the others need."""
    monkeypatch.setattr(survival, "MAX_WORK", 0)
    zones = zip("abc", cpus.split(), strict=True)
    made: list[Made] = [make_node(f"n{number}").has(cpu=cpu).zone(zone) for number, (zone, cpu) in enumerate(zones)]
    of_class = {"priorityClassName": "high", "priority": 1000}
    made += [make_priority_class(1000, "high"), *replica_set("web", 4, places, of_class)]
    (tmp_path / "c.json").write_text(cluster_text(made))
    status = {"capacity": {"cpu": "4", "memory": "64Gi", "pods": 110}}
    groups = [
        {"name": f"g-{zone}", "maxSize": 9, "template": {"metadata": {"labels": {ZONE: zone}}, "status": status}}
        for zone in "abc"
    ]
    for group, price in zip(groups, prices.split(), strict=False):
        group["pricePerMonth"] = f"{price} EUR"
    (tmp_path / "g.yaml").write_text(json.dumps(groups))
    asked = ("headroom", "--survive", "zone", "--cluster", tmp_path / "c.json", "--node-templates", tmp_path / "g.yaml")
    document = json.loads(run(*asked, "-o", "json").stdout)
    assert {each["like"]: each["nodes"] for each in document["add"]} == nodes


def test_pods_that_no_node_helps_need_none(tmp_path: Path) -> None:
    """A Pod that runs only in zone a stays Pending without it; the other Pods need a node in each zone."""
    made: list[Made] = [make_node(f"n{number}").has(cpu="4").zone(zone) for number, zone in enumerate("ab")]
    of_class = {"priorityClassName": "high", "priority": 1000}
    made += [make_priority_class(1000, "high"), *replica_set("free", 3, [0, 1], of_class)]
    made += replica_set("bound", 1, [0], {**of_class, "nodeSelector": {ZONE: "a"}})
    (tmp_path / "c.json").write_text(cluster_text(made))
    done = run("headroom", "--survive", "zone", "--cluster", tmp_path / "c.json", "-o", "json")
    document = json.loads(done.stdout)
    assert (done.returncode, document["status"]) == (1, "HARM")
    assert document["clause"] == "2 more nodes needed for class high; 1 replica stays lost all the same"
    assert [(each["zone"], each["nodes"]) for each in document["add"]] == [("a", 1), ("b", 1)]
    losses = {each["loss"]: (each["pending"], each["pendingThen"]) for each in document["losses"]}
    assert losses == {"zone a": (2, 1), "zone b": (1, 0)}
    (cause,) = document["why"]["causes"]
    known = f"known values of {ZONE}: b"
    assert document["why"]["number"] == 1
    fix = "Fix: change nodeSelector or nodeAffinity"
    assert cause["reason"] == f"no node has label {ZONE}=a ({known}): default/bound. {fix}"


def test_the_quota_that_rejects_pods_comes_before_the_nodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two nodes suffice only as long as the quota rejects the replacements of class low; the answer has both numbers,
    and the second is that of the same question with the quota raised.
    """
    made: list[Made] = [make_node(f"n{number}").has(cpu="4").zone(zone) for number, zone in enumerate("ab")]
    made += [make_priority_class(value, name) for name, value in (("high", 1000), ("low", 10))]
    made += replica_set("web", 2, [0, 1], {"priorityClassName": "high", "priority": 1000})
    made += replica_set("etl", 2, [0, 1], {"priorityClassName": "low", "priority": 10})
    made += replica_set("job", 2, [0], {"priorityClassName": "low", "priority": 10})
    scope = {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "In", "values": ["low"]}]}
    asked = ("headroom", "--survive", "zone", "--cluster", tmp_path / "c.json")

    def with_quota(pods: str) -> dict[str, Any]:
        quota = Made("v1", "ResourceQuota", "q", "default").spec(hard={"pods": pods}, scopeSelector=scope)
        quota.status(hard={"pods": pods}, used={"pods": "3"})
        (tmp_path / "c.json").write_text(cluster_text([*made, quota]))
        document: dict[str, Any] = json.loads(run(*asked, "-o", "json").stdout)
        return document

    document, later = with_quota("1"), with_quota("3")
    assert (
        document["clause"]
        == "without a raised quota, 2 more nodes needed for class low; 2 replicas stay lost all the same"
    )
    assert "rejected Pods need no nodes until the quota is raised. Fix: raise it first" in document["warnings"][0]
    nodes = ", ".join(f"{each['nodes']} {each['like']} {each['zone']}" for each in later["add"])
    assert document["fix"][0] == {
        "action": f"first quota default/q: pods 1 → 3; then add 3 nodes: {nodes}",
        "effect": "zone a lost: preempted 1 → 0, Pending 1 → 0, lost 3 → 0",
    }
    assert sum(each["nodes"] for each in document["add"]) == 2
    with_quota("1")
    assert "nodes to add 2 (all cheaper choices were tried)\n" in run(*asked).stdout
    with monkeypatch.context() as patch:  # as in a large cluster: only the worst loss with the quota raised
        simulated = list[str]()

        def watched(world: Any, questions: Any, *others: Any) -> Any:
            simulated.extend(each.title for each in questions)
            return counted(world, questions, *others)

        patch.setattr(survival, "MAX_WORK", 0)
        patch.setattr(survival, "counted", watched)
        assert with_quota("1")["fix"][0]["action"].startswith("first quota default/q: pods 1 → 3; then add about ")
    assert {*"/".join(simulated).rpartition("nothing/")[2].split("/")} == {"zone a"}
    assert "quota" not in run(*asked, "--protect", "high").stdout

    def apply_late(*arguments: Any) -> forewarn.Cluster:
        monkeypatch.setattr(survival, "monotonic", lambda: 1e12)
        return with_edits(*arguments)

    monkeypatch.setattr(survival, "with_edits", apply_late)
    found = survive(forewarn.load(str(tmp_path / "c.json")), SurvivalRequest("zone"), limit=600.0)
    (fix,) = found.quotas
    assert fix == ("first quota default/q: pods 1 → 3", "no time left to simulate it. Ask again afterwards")
    why = replace(found, is_found=False, unknown="not found").document.why
    assert why is not None
    assert why.heading == "2 REPLICAS ARE LOST TODAY WITH ZONE A"


def test_new_nodes_are_like_those_of_a_pool_also_with_node_groups(tmp_path: Path) -> None:
    groups = yaml.safe_load(_priced(tmp_path / "g.yaml", "40 EUR", "160.50 EUR").read_text())
    groups[0]["template"]["metadata"]["labels"]["pool"] = "web"
    (tmp_path / "g.yaml").write_text(yaml.safe_dump(groups))
    asked = ("headroom", "--survive", "zone", "--cluster", CLUSTER, "--node-templates", tmp_path / "g.yaml")
    found = json.loads(run(*asked, "--like", "web", "-o", "json").stdout)
    assert {name for each in found["trials"][1:] for name in each["nodes"].split()[1::3]} == {"spot-large"}
    assert "known: on-demand, spot-large, web" in run(*asked, "--like", "x").stderr


def test_the_pods_of_two_pools_need_nodes_of_both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No number of nodes of one pool suffices: the Pods of each select their pool."""
    monkeypatch.setattr(survival, "MAX_WORK", 0)
    pools = ("gpu", "web")
    made: list[Made] = [make_priority_class(1000, "high")]
    made += [
        make_node(f"n{number}").has(cpu="4").zone("ab"[number % 2]).label("pool", pools[number // 2])
        for number in range(4)
    ]
    for number, pool in enumerate(pools):
        spec = {"priorityClassName": "high", "priority": 1000, "nodeSelector": {"pool": pool}}
        made += replica_set(pool, 3, [2 * number, 2 * number + 1], spec)
    (tmp_path / "c.json").write_text(cluster_text(made))
    done = run("headroom", "--survive", "zone", "--cluster", tmp_path / "c.json", "-o", "json")
    document = json.loads(done.stdout)
    assert (done.returncode, document["clause"]) == (0, "about 4 more nodes are enough for class high")
    assert document["add"] == [
        {"like": pool, "zone": zone, "nodes": 1, "classes": {"high": 1}} for pool in pools for zone in "ab"
    ]
    bought = ", ".join(f"1 {pool} {zone}" for pool in pools for zone in "ab")
    assert document["fix"][0]["action"] == f"add {bought}"
    shown = run("headroom", "--survive", "zone", "--cluster", tmp_path / "c.json").stdout
    for pool in pools:
        assert re.search(rf"^{pool} +2 +a 1, b 1 +high 1$", shown, re.MULTILINE)


def test_a_group_without_a_price_is_a_warning(tmp_path: Path) -> None:
    groups = yaml.safe_load(_priced(tmp_path / "g.yaml", "40 EUR", "160.50 EUR").read_text())
    del groups[0]["pricePerMonth"]
    (tmp_path / "g.yaml").write_text(yaml.safe_dump(groups))
    done = run("headroom", "--survive", "zone", "--cluster", CLUSTER, "--node-templates", tmp_path / "g.yaml")
    assert "no pricePerMonth of spot-large: the fewest nodes, not the cheapest" in done.stdout


def test_if_no_allowed_choice_suffices_all_were_tried(tmp_path: Path) -> None:
    groups = yaml.safe_load(Path(GROUPS).read_text())[:1]
    (tmp_path / "g.yaml").write_text(yaml.safe_dump(groups))
    asked = ("headroom", "--survive", "zone", "--cluster", CLUSTER, "--node-templates", tmp_path / "g.yaml")
    document = json.loads(run(*asked, "-o", "json").stdout)
    assert (document["survives"], document["notes"]) == (False, [])
    assert [each["nodes"] for each in document["trials"][1:]] == ["1 spot-large b", "2 spot-large b", "3 spot-large b"]


@pytest.mark.parametrize(
    ("prices", "problem"),
    [
        (("40", "1 EUR"), "must be an amount and a currency, such as 140.50 USD"),
        (("EUR 40", "1 EUR"), "must be an amount and a currency"),
        (("-4 EUR", "1 EUR"), "must be an amount and a currency"),
        (("40 USD", "1 EUR"), "is in EUR, that of spot-large in USD"),
    ],
)
def test_a_price_without_a_currency_is_an_error(prices: tuple[str, ...], problem: str, tmp_path: Path) -> None:
    groups = _priced(tmp_path / "g.yaml", *prices)
    done = run("headroom", "--survive", "zone", "--cluster", CLUSTER, "--node-templates", groups)
    assert (done.returncode, done.stdout) == (2, "")
    assert problem in done.stderr


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("--survive", "rack"), 'unknown value "rack"'),
        (("--survive", "pool"), "takes zone, node, or pool LABEL=VALUE"),
        (("--survive", "zone", "a"), "takes zone, node, or pool LABEL=VALUE"),
        (("--survive", "pool", "web"), 'invalid selector "web"'),
        (("--survive", "pool", "pool=x"), "no node"),
        (("--survive", "zone", "--protect", "golf"), 'PriorityClass "golf" not found; did you mean "gold"?'),
        (("--survive", "zone", "--like", "wep"), 'no node, pool or node group is named "wep"; did you mean "web"?'),
        (("--survive", "zone", "--at-least", "3"), "--survive is about the cluster"),
        (("--protect", "gold"), "--protect and --like go with --survive"),
    ],
)
def test_bad_input_is_a_clear_error(arguments: tuple[str, ...], problem: str) -> None:
    done = run("headroom", *arguments, "--cluster", CLUSTER)
    assert (done.returncode, done.stdout) == (2, "")
    assert problem in done.stderr.replace("'", '"')


def test_the_first_screen_has_the_losses_of_a_large_cluster_beside_6_kinds_of_nodes() -> None:
    zones = [f"eu-west-1{zone}" for zone in "abc"]
    added = [AddedNodes(pool, zone, 12, None, {"batch": 169}) for pool in ("general", "gpu") for zone in zones]
    losses = [LossHarm(f"zone {zone}", 208, 52, 1580, 0, 27, 1422) for zone in zones]
    causes = [Cause(474, Kind.QUOTA, f"quota batch/{name} rejects new Pods") for name in "abc"]
    notes = ["475 Pods of priority 0 are not protected"]
    head = survive(forewarn.load(CLUSTER), SurvivalRequest("node")).head
    result = Survival(head, "zone", "", [], added, False, losses, [], None, notes, why=causes)
    lines = [*text(result.document, result.head)]
    assert len(lines) <= MAX_LINES
    assert any(line.startswith("LOSS, PROTECTED PODS") for line in lines)
    assert not any("more: -v" in line for line in lines)


def test_a_counter_has_both_numbers_of_one_loss_and_the_first_screen_names_it() -> None:
    """Zone a is the worst one now, and zone c with the nodes. The table of nodes has no room beside all fixes."""
    losses = [LossHarm("zone c", 191, 20, 1190, 0, 0, 946), LossHarm("zone a", 241, 36, 1195, 0, 0, 900)]
    added = [AddedNodes("general", zone, 13, None, {"batch": 241}) for zone in "abc"]
    causes = [
        Cause(number, Kind.QUOTA, f"quota {number} rejects new Pods {'x ' * 50}") for number in (621, 288, 25, 12)
    ]
    fixes = [Fix(f"or {number} nodes {'x ' * 60}", "zone b lost") for number in (39, 38)]
    head = survive(forewarn.load(CLUSTER), SurvivalRequest("node")).head
    result = Survival(head, "zone", "", [], added, False, losses, [], None, [], why=causes, cheaper=fixes)
    shown = {counter.name: (counter.value, counter.after) for counter in result.document.shown}
    assert [shown[name] for name in ("preempted", "pending", "lost")] == [(241, 0), (36, 0), (1190, 946)]
    lines = [*text(result.document, result.head)]
    assert len(lines) <= MAX_LINES
    assert "zone a                241 → 0    36 → 0   1,195 → 900" in lines
    assert not any(line.startswith("ADD NODES LIKE") for line in lines)
