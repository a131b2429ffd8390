"""What preemption does of one node and of one budget, where columns would give the same answer for another reason."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from forewarn.policies.kubernetes.cluster.admission import predict
from forewarn.policies.kubernetes.objects.disruption_budget import PodDisruptionBudget
from forewarn.policies.kubernetes.objects.pod import Pod
from forewarn.policies.kubernetes.releases.semantics import Semantics
from forewarn.policies.kubernetes.scheduling.foreign_plugins import guarded
from forewarn.policies.kubernetes.scheduling.framework import (
    Plugin,
    PostFilterResult,
    PreFilterResult,
    Status,
    unresolvable,
    unschedulable,
)
from forewarn.policies.kubernetes.scheduling.preemption import matching, violations
from forewarn.policies.kubernetes.scheduling.schedule_one import Prediction
from forewarn.policies.kubernetes.scheduling.snapshot import charged_pdbs, may_be_violated, without_nominations
from forewarn.policies.kubernetes.selectors import parse_label_selector
from forewarn.policies.prediction.forecast.rehearsal import CacheOverSnapshot
from forewarn.policies.prediction.forecast.why_not import Freed, freed_by, may_be_helped
from forewarn.policies.prediction.simulation.scheduler import ViolatedPdbs
from tests.builders import cluster, make_budget, make_node, make_pod
from tests.policies.scheduling.profiles import args, config, point, semantics
from tests.policies.scheduling.profiles import cluster as with_profile

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.builders import MadePod

OLD = {"app": "old"}
KEY = ("default", "b")
NEW = make_pod("new").priority(9).request(cpu="4")


def budget(name: str = "b", allowed: int = 1, labels: dict[str, str] = OLD) -> PodDisruptionBudget:
    return PodDisruptionBudget("default", name, parse_label_selector({"matchLabels": labels}), allowed)


def pod(name: str, *, ready: bool = True, labels: dict[str, str] = OLD, **fields: object) -> Pod:
    return replace(Pod("default", name), labels=labels, ready=ready, **fields)  # type: ignore[arg-type]


def left(*evicted: Pod, allowed: int = 2, earlier: int | None = None) -> dict[str, int]:
    """What is left of a budget, by name; nothing where it is not charged."""
    charged = {} if earlier is None else {("default", "b"): budget(allowed=earlier)}
    found = charged_pdbs({"default": (budget(allowed=allowed),)}, evicted, charged)
    return {name: one.disruptions_allowed for (_, name), one in found.items()}


@pytest.mark.parametrize(
    ("evicted", "allowed", "earlier", "expected"),
    [
        ([pod("a")], 2, None, {"b": 1}),
        ([pod("a"), pod("b")], 2, None, {"b": 0}),
        ([pod("a"), pod("b"), pod("c")], 2, None, {"b": 0}),
        ([pod("a")], 0, None, {"b": 0}),
        ([pod("a")], 1, None, {"b": 0}),
        ([pod("a")], 2, 1, {"b": 0}),
        ([pod("a")], 2, 0, {"b": 0}),
        ([], 2, 1, {"b": 1}),
        ([pod("a", ready=False), pod("b")], 2, None, {"b": 1}),
        ([pod("a", terminating=True), pod("b")], 2, None, {"b": 1}),
        ([pod("a", labels={"app": "x"}), pod("b")], 2, None, {"b": 1}),
        ([replace(pod("a"), namespace="elsewhere"), pod("b")], 2, None, {"b": 1}),
    ],
)
def test_what_is_left_of_a_budget(
    evicted: list[Pod], allowed: int, earlier: int | None, expected: dict[str, int]
) -> None:
    assert left(*evicted, allowed=allowed, earlier=earlier) == expected


def test_a_budget_that_does_not_speak_for_a_pod_is_passed_over() -> None:
    table = {"default": (budget("a", 0), budget("b", 3, {"app": "x"}), budget("c", 3))}
    found = charged_pdbs(table, [pod("p")])
    assert {name: one.surplus for (_, name), one in found.items()} == {"a": -1, "c": 2}


def test_below_the_desired_number_a_healthy_pod_allows_no_disruption() -> None:
    """Whether the status says so, or a preemption violates the PDB: two Pods are missing."""
    unhealthy = make_budget("b", 0, app="old").status(currentHealthy=1, desiredHealthy=3)
    stored = PodDisruptionBudget.from_api(unhealthy.obj)
    charged = charged_pdbs({"default": (budget(allowed=0),)}, [pod("a"), pod("b")])[KEY]
    new = [pod(f"new-{n}", uid=f"u{n}", node_name="n1") for n in range(3)]
    state = cluster(make_node("n1"), make_budget("b", 0, app="old")).scheduling
    for given in (stored, charged):
        over, allowed = CacheOverSnapshot(state.with_pdbs({KEY: given})), []
        for each in new:
            over.add_pod(each)
            allowed.append(over.snapshot().pdbs["default"][0].disruptions_allowed)
        over.condemn(new)
        assert [*allowed, over.snapshot().pdbs["default"][0].disruptions_allowed] == [0, 0, 1, 0]


@pytest.mark.parametrize("allowed", [0, 1, 2])
def test_rollouts_charge_pdbs_as_evictions_do(allowed: int) -> None:
    """Also if the status of the PDB includes the eviction of a victim already."""
    fields: list[dict[str, Any]] = [{}, {"ready": False}, {"terminating": True}, {"labels": {"app": "x"}}, {}]
    victims = [pod(f"p{n}", uid=f"u{n}", node_name="n1", **each) for n, each in enumerate(fields)]
    given = replace(budget(allowed=allowed), disrupted_pods=frozenset(["p4"]))
    state = cluster(make_node("n1"), make_budget("b", 0, app="old")).scheduling
    over = CacheOverSnapshot(state.with_pods(victims, ()).with_pdbs({KEY: given}))
    over.condemn(victims)
    assert over.snapshot().pdbs["default"] == (charged_pdbs({"default": (given,)}, victims).get(KEY, given),)


@pytest.mark.parametrize(
    ("allowed", "pods", "expected"),
    [
        (1, [pod("a")], False),
        (1, [pod("a"), pod("b")], True),
        (0, [pod("a")], True),
        (2, [pod("a"), pod("b")], False),
        (0, [], False),
        (0, [pod("a", labels={"app": "x"})], False),
        (0, [replace(pod("a"), namespace="elsewhere")], False),
        (0, [replace(pod("a"), namespace="elsewhere"), pod("b")], True),
    ],
)
def test_whether_a_budget_has_more_pods_on_a_node_than_it_allows_evictions(
    allowed: int, pods: list[Pod], expected: bool
) -> None:
    assert may_be_violated({("default", "b"): budget(allowed=allowed)}, pods) is expected


def nominations_after(nominated: Mapping[str, tuple[Pod, ...]], *cycles: tuple[Pod, str, list[Pod]]) -> Any:
    places = {pod.identity: node for node, pods in nominated.items() for pod in pods}
    return without_nominations(nominated, places, cycles)


@pytest.mark.parametrize(("priority", "stays"), [(4, False), (5, True), (6, True)])
def test_who_preempts_leaves_nominations_to_pods_of_its_own_priority(priority: int, stays: bool) -> None:
    nominated = {"n1": (pod("waits", priority=priority, nominated_node_name="n1"),)}
    preemptor, victim = pod("new", priority=5, node_name="n1"), pod("victim", node_name="n1")
    assert nominations_after(nominated, (preemptor, "n1", [victim])) == ({} if stays else {"n1": ()})


def test_nominations_to_other_nodes_stay_but_for_the_pods_own() -> None:
    waits, own = pod("waits", nominated_node_name="n2"), pod("new", priority=5, nominated_node_name="n2")
    namesake = replace(own, namespace="elsewhere")
    nominated = {"n0": (pod("other"),), "n2": (waits, own), "n3": (namesake,)}
    assert nominations_after(nominated, (own, "n1", [pod("victim", node_name="n1")])) == {"n2": (waits,)}
    assert nominations_after({"n1": (waits,)}, (own, "n1", [pod("v", terminating=True)])) == {}
    assert nominations_after(nominated) == {}


def test_a_pod_that_preemption_no_longer_helps_loses_its_nomination() -> None:
    waits = make_pod("waits").priority(5).request(cpu="4").status(nominatedNodeName="n1")
    high = make_pod("high").priority(9).request(cpu="2").on("n1")
    state = cluster(make_node("n1"), high, waits)
    small = make_pod("small").priority(5).request(cpu="1").obj
    assert predict(state, small).outcome == "pending", "the nominated Pod has reserved the node"
    prediction = predict(state, waits.obj)
    assert (prediction.outcome, prediction.clears_nomination) == ("pending", True)
    assert Prediction(prediction.snapshot_after(), predict(state, small).pod).feasible == ["n1"]


def test_capacity_may_help_a_pod_whose_resources_the_profile_ignores() -> None:
    ignoring = semantics(config({"pluginConfig": args(NodeResourcesFit={"ignoredResources": ["example.com/gpu"]})}))
    waits = make_pod("waits").request(cpu="1").request(**{"example.com/gpu": "1"})
    for meant, helped in ((ignoring, True), (Semantics(36), False)):
        state = with_profile(meant, make_node("n1"), waits)
        assert may_be_helped(state.pods["default", "waits"], state.scheduling, Freed(frozenset({"n1"}), ())) is helped


def test_capacity_does_not_help_a_pod_of_another_scheduler() -> None:
    state = cluster(make_node("n1"), make_pod("waits").spec(schedulerName="other"))
    assert not may_be_helped(state.pods["default", "waits"], state.scheduling, Freed(frozenset({"n1"}), ()))


ZONE = "topology.kubernetes.io/zone"
APART = {"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": "web"}}}


def spread(when: str) -> dict[str, Any]:
    return {"topologyKey": ZONE, "maxSkew": 1, "whenUnsatisfiable": when}


@pytest.mark.parametrize(
    ("waits", "deleted", "helped"),
    [
        (make_pod("waits"), make_pod("deleted"), False),
        (make_pod("waits").affinity("podAffinity", APART), make_pod("deleted"), True),
        (make_pod("waits").affinity("podAntiAffinity", APART), make_pod("deleted"), True),
        (make_pod("waits").spec(topologySpreadConstraints=[spread("DoNotSchedule")]), make_pod("deleted"), True),
        (make_pod("waits").spec(topologySpreadConstraints=[spread("ScheduleAnyway")]), make_pod("deleted"), False),
        (make_pod("waits").labels(app="web"), make_pod("deleted").affinity("podAntiAffinity", APART), True),
        (make_pod("waits").labels(app="db"), make_pod("deleted").affinity("podAntiAffinity", APART), False),
    ],
)
def test_a_deleted_pod_may_help_on_other_nodes_of_its_zone(waits: MadePod, deleted: MadePod, helped: bool) -> None:
    state = cluster(make_node("n1").has(cpu="1"), waits.request(cpu="2"))
    freed = freed_by([Pod.from_api(deleted.on("n1").obj)])
    assert may_be_helped(state.pods["default", "waits"], state.scheduling, freed) is helped
    assert not may_be_helped(state.pods["default", "waits"], state.scheduling, freed_by([])), "nothing is deleted"


def test_a_deleted_pod_may_help_pods_with_the_default_constraints_of_the_profile() -> None:
    defaults = {"defaultingType": "List", "defaultConstraints": [spread("DoNotSchedule")]}
    meant = semantics(config({"pluginConfig": args(PodTopologySpread=defaults)}))
    state = with_profile(meant, make_node("n1").has(cpu="1"), make_pod("waits").request(cpu="2"))
    assert may_be_helped(state.pods["default", "waits"], state.scheduling, Freed(frozenset({"n1"}), ()))


@pytest.mark.parametrize(("ends", "violating"), [(False, ["a", "b"]), (True, ["a"])])
def test_after_the_first_violated_budget_none_is_charged_from_1_37_on(ends: bool, violating: list[str]) -> None:
    """`a` violates the spent one; whether it uses up the other too decides about `b`."""
    pdbs = budget("1-spent", 0, {"tier": "x"}), budget("2-one", 1)
    pods = [pod("a", labels={"tier": "x", **OLD}), pod("b")]
    matched = [(pod, matching(pod, pdbs)) for pod in pods]
    found = list(violations(matched, first_ends_the_count=ends))
    assert [p.name for p, pdbs in found if pdbs] == violating
    assert len(found) == 2


@pytest.mark.parametrize(
    ("cycles", "disrupted", "violating"),
    [
        ([[pod("a"), pod("b")]], [], {"default/b": 1}),
        ([[pod("a", terminating=True), pod("b")]], [], {}),
        ([[pod("a"), pod("b")]], ["a"], {}),
        ([[pod("a"), pod("b"), pod("c")]], ["a"], {"default/b": 1}),
        ([[pod("a", labels={"app": "x"}), pod("b")]], [], {}),
        ([[pod("a"), pod("b")], [pod("b"), pod("a")], [pod("b", terminating=True)]], [], {"default/b": 1}),
        ([[pod("a")], [pod("b")], [pod("c")]], [], {"default/b": 2}),
    ],
)
def test_simulations_count_each_violation_once(
    cycles: list[list[Pod]], disrupted: list[str], violating: dict[str, int]
) -> None:
    one = replace(budget(allowed=1), disrupted_pods=frozenset(disrupted))
    snapshot = SimpleNamespace(pdbs={"default": (one,)})
    found = ViolatedPdbs()
    for victims in cycles:
        found.add(snapshot, victims)  # type: ignore[arg-type]
    assert found.counts == violating


def test_a_new_state_of_a_pdb_includes_the_evictions_before_it() -> None:
    found = ViolatedPdbs()
    for victim, allowed in (("a", 1), ("b", 1), ("c", 0)):
        found.add(SimpleNamespace(pdbs={"default": (budget(allowed=allowed),)}), [pod(victim)])  # type: ignore[arg-type]
    assert found.counts == {"default/b": 1}


def test_a_new_state_of_a_pdb_may_lack_the_last_eviction() -> None:
    """Two evictions of six are before the second state, which includes one of them."""
    found = ViolatedPdbs()
    for victims, allowed in ((["a", "b"], 2), (["c"], 1), (["d", "e", "f"], 0)):
        state = SimpleNamespace(pdbs={"default": (budget(allowed=allowed),)})
        found.add(state, [pod(victim) for victim in victims])  # type: ignore[arg-type]
    assert found.counts == {"default/b": 4}


def test_plugins_asked_one_by_one_count_the_violations() -> None:
    old = [make_pod(f"old-{n}").priority(1).request(cpu="2").labels(app="old").on("n1") for n in range(2)]
    state = cluster(make_node("n1"), *old, make_budget("one", 1, app="old"))
    assert predict(state, NEW.obj, reasons=True).num_pdb_violations == 1
    small = make_pod("small").priority(9).request(cpu="2")
    assert predict(state, small.obj, reasons=True).num_pdb_violations == 0


@pytest.mark.parametrize(("minor", "by_importance"), [(36, ["old-1", "old-0"]), (37, ["old-0", "old-1"])])
def test_of_pods_that_have_not_started_the_later_is_the_more_important_up_to_1_36(
    minor: int, by_importance: list[str]
) -> None:
    """From 1.37 on the earlier; whether plugins are asked one by one or not."""
    old = [make_pod(f"old-{n}").priority(1).request(cpu="2").on("n1", started=None) for n in range(2)]
    small = make_pod("small").priority(9).request(cpu="2")
    for reasons in (False, True):
        state = with_profile(Semantics(minor), make_node("n1"), *old)
        assert [v.name for v in predict(state, small.obj, reasons=reasons).victims] == by_importance[1:]
        assert [v.name for v in predict(state, NEW.obj, reasons=reasons).victims] == by_importance


def test_more_victims_cost_less_where_their_priorities_are_low_enough() -> None:
    """Upstream adds up priorities less the lowest there is: two far down cost less than one near the top."""
    high, low = 10**9, -11 * 10**8
    on_a = [make_pod(f"a{n}").priority(p).request(cpu="2").on("a") for n, p in enumerate((high, high - 10**8))]
    on_b = [make_pod(f"b{n}").priority(p).on("b") for n, p in enumerate((high, low, low))]
    sized = [one.request(cpu=cpu) for one, cpu in zip(on_b, ("2", "1", "1"), strict=True)]
    new = make_pod("new").priority(high + 1).request(cpu="4")
    for reasons in (False, True):
        assert predict(cluster(make_node("a"), make_node("b"), *on_a, *sized), new.obj, reasons=reasons).node == "b"


@pytest.mark.parametrize(("answer", "looked_at"), [(unschedulable("not now"), 2), (unresolvable("never"), 0)])
def test_where_the_pod_was_rejected_as_a_whole_but_not_for_good_every_node_is_looked_at(
    answer: Status, looked_at: int
) -> None:
    """Else only those that a Filter rejected."""

    def pre_filter(_self: Plugin, _state: object, _pod: Pod, _nodes: object) -> PreFilterResult:
        return PreFilterResult(status=answer)

    mine = guarded(type("Mine", (Plugin,), {"name": "Mine", "pre_filter": pre_filter}))
    meant = semantics(config({"plugins": {"preFilter": point("Mine")}}), mine)
    old = [make_pod(f"old-{node}").priority(1).request(cpu="2").on(node) for node in ("n1", "n2")]
    state = with_profile(meant, make_node("n1"), make_node("n2"), *old)
    assert predict(state, NEW.obj, reasons=True).preemption.potential_nodes == looked_at


def test_a_plugin_that_makes_room_in_its_own_way_violates_no_budget_that_is_known() -> None:
    def post_filter(_self: Plugin, _state: object, _pod: Pod, _statuses: object) -> PostFilterResult:
        return PostFilterResult(None, "n1")

    mine = guarded(type("Mine", (Plugin,), {"name": "Mine", "post_filter": post_filter}))
    meant = semantics(config({"plugins": {"postFilter": point("Mine", disabled=("*",))}}), mine)
    state = with_profile(meant, make_node("n1"), make_pod("old").request(cpu="2").on("n1"))
    found = predict(state, NEW.obj)
    assert (found.nominated_node, found.num_pdb_violations) == ("n1", 0)


@pytest.mark.parametrize("for_group", [False, True])
def test_preemption_for_a_pod_group_leaves_the_nominations_of_others(for_group: bool) -> None:
    """Upstream looks for nominated Pods on a node named "cluster" then."""
    victim, waiting = make_pod("victim").on("n1"), make_pod("waiting").priority(5).request(cpu="1").nominated("n1")
    snapshot = predict(cluster(make_node("n1"), victim, waiting), NEW.obj).snapshot
    (evicted,) = snapshot.node_infos[0].pods
    after = snapshot.with_preemptions([(Pod.from_api(NEW.obj), "n1", [evicted])], for_group=for_group)
    assert [pod.name for pod in after.objects.nominated["n1"]] == (["waiting", "new"] if for_group else ["new"])
