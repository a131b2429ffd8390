"""Profiles: which plugins run where, columns for them or the walk, and what is not predicted."""

from __future__ import annotations

import os
import random
from collections import Counter
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from forewarn import policies
from forewarn.policies.kubernetes.cluster.admission import admitted
from forewarn.policies.kubernetes.objects.pod import Pod
from forewarn.policies.kubernetes.releases.semantics import DEFAULT, Profile, SchedulerConfiguration, Semantics
from forewarn.policies.kubernetes.scheduling.bulk import capacity_for
from forewarn.policies.kubernetes.scheduling.configuration import (
    InvalidConfiguration,
    configuration_of,
    scheduler_configuration,
)
from forewarn.policies.kubernetes.scheduling.find_nodes import num_feasible_nodes_to_find
from forewarn.policies.kubernetes.scheduling.foreign_plugins import named_only
from forewarn.policies.kubernetes.scheduling.framework import CycleState, Plugin, Status, unschedulable
from forewarn.policies.kubernetes.scheduling.plugins.registry import IN_TREE
from forewarn.policies.kubernetes.scheduling.schedule_one import Prediction
from forewarn.policies.prediction.forecast.placement import place
from forewarn.policies.prediction.forecast.pod_groups import group_forecast
from forewarn.policies.prediction.forecast.why_not import pending_in_order
from forewarn.policies.prediction.simulation.scheduler_cache import (
    Fits,
    NodeTree,
    NotPredicted,
    Rejected,
    SchedulingAlgorithm,
)
from forewarn.policies.questions.application.predict import predict
from tests.builders import Made, make_node, make_pod
from tests.cases import cases
from tests.policies.scheduling.comparing import node_by_node, outcome_in_columns, scores_given
from tests.policies.scheduling.profiles import args, cluster, config, point, random_config, semantics
from tests.policies.scheduling.random_changes import objects_of
from tests.policies.scheduling.random_clusters import random_case
from tests.policies.scheduling.test_vectorized import said
from tests.policies.test_cascade import evaluated

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.scheduling.node_info import NodeInfo
    from forewarn.policies.kubernetes.scheduling.snapshot import Snapshot

SEED = os.environ.get("FOREWARN_SEED", "1")


class Nowhere(Plugin):
    """Rejects every node."""

    name: ClassVar[str] = "Nowhere"

    def filter(self, state: CycleState, pod: Pod, node_info: NodeInfo) -> Status | None:
        return unschedulable("nowhere")


def profile(given: dict[str, Any], name: str = "default-scheduler", meant: Semantics = DEFAULT) -> Profile:
    found = scheduler_configuration(given, meant).profile(name)
    assert found is not None
    return found


def rejection(given: Any) -> str:
    with pytest.raises(InvalidConfiguration) as rejected:
        scheduler_configuration(given, DEFAULT)
    return str(rejected.value)


DEFAULT_FILTERS = [
    "NodeUnschedulable",
    "NodeName",
    "TaintToleration",
    "NodeAffinity",
    "NodePorts",
    "NodeResourcesFit",
    "VolumeRestrictions",
    "NodeVolumeLimits",
    "VolumeBinding",
    "VolumeZone",
    "PodTopologySpread",
    "InterPodAffinity",
    "DynamicResources",
    "NodeDeclaredFeatures",
]


def test_the_default_profile() -> None:
    made = profile(config())
    assert list(made.plugins_at("filter")) == DEFAULT_FILTERS
    assert made.plugins_at("queueSort") == ("PrioritySort",)
    assert made.plugins_at("bind") == ("DefaultBinder",)
    assert made.plugins_at("postFilter") == ("DynamicResources", "DefaultPreemption")
    assert made.plugins_at("reserve") == made.plugins_at("preBind") == ("VolumeBinding", "DynamicResources")
    assert made.plugins_at("preEnqueue") == ("SchedulingGates", "DynamicResources", "DefaultPreemption")
    assert made.weights["TaintToleration"] == 3


@pytest.mark.parametrize(("minor", "scored"), [(34, False), (35, True)])
def test_the_default_profile_of_other_releases(minor: int, scored: bool) -> None:
    made = profile(config(), meant=Semantics(minor))
    assert ("DynamicResources" in made.plugins_at("score")) == scored
    assert "NodeDeclaredFeatures" not in made.plugins_at("filter")


def test_what_is_enabled_at_a_point_comes_first_and_takes_the_weight_given_there() -> None:
    made = profile(config({"plugins": {"score": point(("ImageLocality", 7), disabled=("NodeAffinity",))}}))
    assert made.plugins_at("score")[0] == "ImageLocality"
    assert made.weights["ImageLocality"] == 7
    assert "NodeAffinity" not in made.plugins_at("score")
    assert "NodeAffinity" in made.plugins_at("preScore")


def test_multi_point_disables_everywhere() -> None:
    made = profile(config({"plugins": {"multiPoint": point(disabled=("InterPodAffinity",))}}))
    assert "InterPodAffinity" not in made.plugin_names


def test_a_profile_without_scheduling_gates_tries_gated_pods() -> None:
    """kube-scheduler preempts for them too; kube-apiserver rejects only the binding."""
    off = semantics(config({"plugins": {"preEnqueue": point(disabled=("SchedulingGates",))}}))
    gated = make_pod("p").priority(9).request(cpu="1").spec(schedulingGates=[{"name": "g"}])
    node, low = make_node("n1").has(cpu="1"), make_pod("low").request(cpu="1").on("n1")
    assert policies.predict(cluster(DEFAULT, node, low), gated.obj).outcome == "not-predicted"
    tried = policies.predict(cluster(off, node, low), gated.obj)
    assert (tried.outcome, [victim.name for victim in tried.victims]) == ("preempts", ["low"])
    assert (
        "kube-apiserver binds no pod with scheduling gates"
        in policies.predict(cluster(off, node), gated.obj).caveats[0]
    )
    for meant, waiting in ((DEFAULT, []), (off, ["p"])):
        assert [pod.name for pod in pending_in_order(cluster(meant, node, low, gated)).pods] == waiting


@pytest.mark.parametrize("spec", [{}, {"permit": point(disabled=("GangScheduling",))}])
def test_pod_groups_need_gang_scheduling(spec: dict[str, Any]) -> None:
    """Upstream schedules them without the plugin too, but then nothing holds a PodGroup with too few Pods."""
    on = Semantics(37).with_gates(GenericWorkload=True)
    meant = on._replace(scheduler=scheduler_configuration(config({"plugins": spec}), on))
    basic = {"schedulingPolicy": {"basic": {}}, "disruptionMode": {"single": {}}, "priority": 0}
    group = Made("scheduling.k8s.io/v1beta1", "PodGroup", "g", "default").spec(**basic)
    made = cluster(meant, make_node("n1"), group)
    pod = admitted(make_pod("p").spec(schedulingGroup={"podGroupName": "g"}).obj, made)
    found = group_forecast(made.scheduling, [pod])
    assert (found is None) == bool(spec)
    assert ("disables GangScheduling" in Prediction(made.scheduling, pod).not_predicted) == bool(spec)
    if spec:
        with pytest.raises(NotPredicted, match="disables GangScheduling"):
            SchedulingAlgorithm(NodeTree(), min).place(made.scheduling, pod)


@pytest.mark.parametrize(("disabled", "outcome"), [((), "fits"), (("SchedulingGates",), "pending")])
def test_a_gated_nomination_counts_if_the_profile_tries_the_pod(disabled: tuple[str, ...], outcome: str) -> None:
    """Upstream `moveToActiveQ` records no nomination of a Pod that PreEnqueue gates."""
    meant = semantics(config({"plugins": {"preEnqueue": point(disabled=disabled)}}))
    gated = make_pod("g").priority(9).request(cpu="3").nominated("n1").spec(schedulingGates=[{"name": "g"}])
    made = cluster(meant, make_node("n1").has(cpu="4"), gated)
    assert policies.predict(made, make_pod("p").request(cpu="2").obj).outcome == outcome


REFUSED = [
    ("not an object", [], "a configuration is an object, not array"),
    ("no header", {}, 'apiVersion: must be "kubescheduler.config.k8s.io/v1": it is missing'),
    (
        "an old version",
        config(apiVersion="kubescheduler.config.k8s.io/v1beta3"),
        'not "kubescheduler.config.k8s.io/v1b',
    ),
    ("an unknown field", config(profile=[]), 'profile: unknown field "profile" (did you mean "profiles"?)'),
    ("a wrong type", config(parallelism="16"), "parallelism: json: cannot unmarshal string into Go struct field"),
    (
        "unknown arguments",
        config({"pluginConfig": args(NodeAffinity={"added": {}})}),
        'args.added: unknown field "added"',
    ),
    (
        "the wrong kind",
        config({"pluginConfig": args(NodeAffinity={"kind": "A"})}),
        'must be "NodeAffinityArgs", not "A"',
    ),
    ("no name", config({"schedulerName": "a"}, {}), "profiles[1].schedulerName: Required value"),
    ("one name twice", config({"schedulerName": "a"}, {"schedulerName": "a"}), 'schedulerName: Duplicate value: "a"'),
    ("an unknown plugin", config({"plugins": {"filter": point("Nobody")}}), 'FilterPlugin "Nobody" does not exist'),
    (
        "no such point",
        config({"plugins": {"score": point("NodeName")}}),
        'plugin "NodeName" does not extend ScorePlugin',
    ),
    ("nothing that binds", config({"plugins": {"bind": point(disabled=("*",))}}), "at least one bind plugin is needed"),
    ("a plugin that is gone", config({"plugins": {"filter": point("EBSLimits")}}), "EBSLimits"),
    ("percentage", config(percentageOfNodesToScore=101), "percentageOfNodesToScore: Invalid value: 101"),
    ("back-off", config(podInitialBackoffSeconds=0), "podInitialBackoffSeconds: Invalid value: 0"),
    ("a long wait", config(podMaxBackoffSeconds=0), "must be greater than or equal to PodInitialBackoffSeconds"),
    ("leases", config(leaderElection={"resourceLock": "endpoints"}), 'resourceLock value must be "leases"'),
    ("times", config(leaderElection={"leaseDuration": "10s"}), "must be greater than `RenewDeadline`"),
    ("an extender", config(extenders=[{"prioritizeVerb": "p"}]), "extenders[0].weight: Invalid value: 0"),
    ("two binders", config(extenders=[{"bindVerb": "b"}] * 2), "found 2 extenders implementing bind"),
    ("a resource", config(extenders=[{"managedResources": [{"name": "cpu"}]}]), "is an invalid extended resource name"),
]


@pytest.mark.parametrize(("given", "text"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED])
def test_what_kube_scheduler_would_not_start_with(given: Any, text: str) -> None:
    assert text in rejection(given)


def test_weights_below_zero_in_sum_are_refused_as_upstream_refuses_them() -> None:
    """Its check for an overflow overflows itself."""
    text = "total score of Score plugins could overflow"
    weighed = point(("ImageLocality", -1), ("NodeAffinity", 2), disabled=("*",))
    assert text in rejection(config({"schedulerName": "a", "plugins": {"score": weighed}}))
    last = point(("NodeAffinity", 2), ("ImageLocality", -1), disabled=("*",))
    every = point("PrioritySort", "DefaultBinder", disabled=("*",))
    last_of_all = {"schedulerName": "a", "plugins": {"multiPoint": every, "score": last}}
    assert profile(config(last_of_all), "a").weights == {"NodeAffinity": 2, "ImageLocality": -1}


def test_plugins_that_look_at_nodes_can_be_named_at_pre_filter_since_1_37() -> None:
    given = config({"schedulerName": "a", "plugins": {"preFilter": point("NodeName")}})
    assert "NodeName" in profile(given, "a", Semantics(37)).plugins_at("preFilter")
    assert "does not extend PreFilterPlugin" in rejection(given)


def test_an_extender_that_ignores_resources_needs_a_profile_with_their_plugin() -> None:
    extender = {"urlPrefix": "http://x/", "managedResources": [{"name": "example.com/gpu", "ignoredByScheduler": True}]}
    plugins = {"multiPoint": point(disabled=("NodeResourcesFit",))}
    told = rejection(config({"schedulerName": "a", "plugins": plugins}, extenders=[extender]))
    assert "can't find NodeResourcesFitArgs in plugin config" in told


def test_devices_do_not_score_without_what_pre_filter_finds() -> None:
    given = config(
        {"schedulerName": "default-scheduler", "plugins": {"preFilter": point(disabled=("DynamicResources",))}}
    )
    given["profiles"][0]["plugins"]["filter"] = point(disabled=("DynamicResources",))
    found = policies.predict(cluster(semantics(given), make_node("a"), make_node("b")), make_pod("new").obj)
    assert (found.feasible, found.outcome, found.best_nodes) == (["a", "b"], "pending", [])
    assert found.error == 'plugin "DynamicResources" failed with: not found'


def test_a_plugin_does_not_run_at_pre_score_without_what_pre_filter_finds() -> None:
    """VolumeBinding is not at Score here, but still at PreScore."""
    without, scores = point(disabled=("VolumeBinding",)), point("NodeResourcesFit", disabled=("*",))
    given = config({"plugins": {"preFilter": without, "filter": without, "score": scores}})
    state = cluster(semantics(given, base=Semantics(37)), make_node("a"), make_node("b"))
    found = policies.predict(state, make_pod("new").obj)
    assert (found.outcome, found.error) == ("pending", 'running PreScore plugin "VolumeBinding": not found')


NEEDS_PRE_SCORE = {"TaintToleration", "InterPodAffinity", "PodTopologySpread"}
"""The plugins whose Score upstream returns an error without the state of their PreScore."""


@pytest.mark.parametrize(
    "plugin",
    sorted(NEEDS_PRE_SCORE | {"NodeResourcesFit", "NodeResourcesBalancedAllocation", "NodeAffinity", "VolumeBinding"}),
)
def test_a_score_plugin_that_reads_what_pre_score_writes_ends_the_cycle_in_an_error_without(plugin: str) -> None:
    """Only if several nodes are scored: one node, or the nominated node, is taken without scores."""
    given = semantics(config({"plugins": {"preScore": point(disabled=(plugin,))}}))
    made, two = make_pod("new"), cluster(given, make_node("a"), make_node("b"))
    new = made.obj
    prediction, fails = policies.predict(two, new), plugin in NEEDS_PRE_SCORE
    assert (prediction.outcome, bool(prediction.error)) == (("pending", True) if fails else ("fits", False))
    assert prediction.victims == ()
    assert policies.predict(cluster(given, make_node("a")), new).node == "a"
    assert policies.predict(two, {**new, "status": {"nominatedNodeName": "b"}}).node == "b"
    assert place(two, new, 2).outcomes == {"pending" if fails else "fits": 2}
    assert (capacity_for(two.scheduling, Pod.from_api(new)) is None) is fails
    decided = algorithm_for(two.scheduling).schedule_pod(two.scheduling, prediction.pod)
    assert (isinstance(decided, Rejected) and decided.error) is fails
    if fails:
        why = predict(two, new).document.why
        assert why is not None
        assert why.causes[0].reason == f"kube-scheduler's cycle ends in an error: {prediction.error}"
        assert any("stays Pending: kube-scheduler's cycle ends in an error" in text for text in evaluated(two, made))


def test_a_plugin_that_rejects_every_node_is_heard() -> None:
    """Whatever is asked first."""
    meant = semantics(config({"plugins": {"filter": point("Nowhere")}}), Nowhere)
    asked = cluster(meant, make_node("n1")), make_pod("p").obj
    assert policies.predict(*asked).outcome == "pending"
    prediction = policies.predict(*asked)
    assert prediction.statuses["n1"].plugin == "Nowhere"
    assert prediction.outcome == "pending"
    assert prediction.without_columns == "of plugin Nowhere, which does not say how it looks in columns"


def test_columns_agree_with_the_walk_under_random_profiles() -> None:
    outcomes: Counter[str] = Counter()
    for number in range(cases(100)):
        rng = random.Random(f"profiles {SEED}.{number}")
        cache = policies.Cache(semantics=semantics(random_config(rng)))
        case = random_case(f"profiles {SEED}.{number}")
        for obj in objects_of(case):
            cache.add(obj)
        snapshot = cache.snapshot()
        quick = policies.predict(snapshot, case["pod"])
        if quick.not_predicted or outcome_in_columns(snapshot.scheduling, quick.pod) is None:
            outcomes["walked"] += 1
            continue
        with node_by_node():
            full = policies.predict(snapshot, case["pod"], reasons=True)
            want, scores = said(full), scores_given(full.to_dict())
        assert said(quick) == want, f"{case['id']}: {quick.configuration.profiles}"
        if quick.fits:
            assert scores_given(quick.to_dict()) == scores
        outcomes[quick.outcome] += 1
    assert outcomes["preempts"] > cases(10), outcomes
    assert outcomes["walked"] < cases(70), outcomes


def test_a_pod_is_scheduled_by_the_profile_that_it_names() -> None:
    packed = {"schedulerName": "packed", "plugins": {"postFilter": point(disabled=("*",))}}
    meant = semantics(config({"schedulerName": "default-scheduler"}, packed))
    running = make_pod("low").priority(0).request(cpu="4").on("n1")
    asked = make_pod("p").priority(10).request(cpu="1")
    snapshot = cluster(meant, make_node("n1"), running)
    assert policies.predict(snapshot, asked.obj).outcome == "preempts"
    assert policies.predict(snapshot, asked.spec(schedulerName="packed").obj).outcome == "pending"
    assert policies.predict(snapshot, asked.obj).preemption.ineligible_reason == "no plugin of the profile preempts"


def test_a_pod_of_another_scheduler_is_not_ours_and_can_be_a_victim() -> None:
    strange = make_pod("strange").spec(schedulerName="volcano").request(cpu="4")
    snapshot = cluster(DEFAULT, make_node("n1"), strange.on("n1"))
    asked = policies.predict(snapshot, make_pod("p").priority(10).request(cpu="1").obj)
    assert [victim.name for victim in asked.victims] == ["strange"]
    theirs = policies.predict(snapshot, make_pod("q").spec(schedulerName="volcano").obj)
    assert theirs.not_predicted == 'the Pod is for another scheduler, "volcano"'


def test_nominations_count_for_the_profiles_that_there_are() -> None:
    waiting = make_pod("first").priority(10).request(cpu="4").nominated("n1").spec(schedulerName="packed")
    asked = make_pod("p").priority(10).request(cpu="1").obj
    cache = policies.Cache()
    for made in (make_node("n1"), waiting):
        cache.add(made.obj)
    assert policies.predict(cache.snapshot(), asked).fits
    cache.semantics = semantics(config({"schedulerName": "default-scheduler"}, {"schedulerName": "packed"}))
    assert not policies.predict(cache.snapshot(), asked).fits
    cache.semantics = DEFAULT
    assert policies.predict(cache.snapshot(), asked).fits


def extended(**fields: Any) -> Semantics:
    return semantics(config(extenders=[{"urlPrefix": "http://x", **fields}]))


def test_an_extender_that_filters_may_reject_what_fits() -> None:
    meant = extended(filterVerb="filter", managedResources=[{"name": "example.com/gpu"}])
    snapshot = cluster(meant, make_node("n1").has_of("example.com/gpu", "1"))
    assert policies.predict(snapshot, make_pod("p").obj).fits, "a pod that does not concern it"
    wants = policies.predict(snapshot, make_pod("p").request_of("example.com/gpu", "1").obj)
    assert wants.outcome == "not-predicted"
    assert 'the extender "http://x" may reject' in wants.not_predicted
    assert (wants.feasible, wants.node) == ([], "")
    assert wants.snapshot_after() is wants.snapshot
    too_much = policies.predict(snapshot, make_pod("p").request_of("example.com/gpu", "2").obj)
    assert too_much.outcome == "pending", "it is never asked"


def test_an_extender_that_prioritizes_leaves_open_where() -> None:
    snapshot = cluster(extended(prioritizeVerb="p", weight=1), make_node("n1"), make_node("n2"))
    prediction = policies.predict(snapshot, make_pod("p").obj)
    assert prediction.fits
    assert prediction.best_nodes == ["n1", "n2"]
    assert 'which of 2 nodes is not predicted: the extender "http://x"' in "\n".join(prediction.caveats)


def test_an_extender_that_preempts_may_choose_others() -> None:
    running = make_pod("low").priority(0).request(cpu="4").on("n1")
    snapshot = cluster(extended(preemptVerb="p"), make_node("n1"), running)
    assert policies.predict(snapshot, make_pod("p").obj).fits
    prediction = policies.predict(snapshot, make_pod("p").priority(1).request(cpu="1").obj)
    assert "may choose other victims" in prediction.not_predicted
    assert prediction.to_dict()["outcome"] == "not-predicted"


def test_resources_that_an_extender_looks_after_are_not_looked_at() -> None:
    managed = [{"name": "example.com/gpu", "ignoredByScheduler": True}]
    meant = extended(bindVerb="bind", managedResources=managed)
    asked = make_pod("p").request_of("example.com/gpu", "2").obj
    assert policies.predict(cluster(meant, make_node("n1")), asked).fits
    assert not policies.predict(cluster(DEFAULT, make_node("n1")), asked).fits


def test_how_many_feasible_nodes_are_looked_for() -> None:
    default = configuration_of(DEFAULT)
    one = default.profiles["default-scheduler"]
    assert [num_feasible_nodes_to_find(n, default.percentage(one)) for n in (50, 100, 300, 5000, 10_000)] == [
        50,
        100,
        144,
        500,
        500,
    ]
    given = SchedulerConfiguration(default.profiles, percentage_of_nodes_to_score=100)
    assert num_feasible_nodes_to_find(5000, given.percentage(one)) == 5000


def test_settings_of_a_profile_come_before_those_of_all() -> None:
    made = scheduler_configuration(config({"percentageOfNodesToScore": 5}, percentageOfNodesToScore=70), DEFAULT)
    assert made.percentage(made.profiles["default-scheduler"]) == 5
    assert (made.pod_initial_backoff_seconds, made.pod_max_backoff_seconds) == (1, 10)


def test_every_plugin_of_the_scheduler_is_one() -> None:
    from forewarn.policies.kubernetes.scheduling.framework import check_plugin

    for plugin in IN_TREE.values():
        if plugin.name not in ("TopologyPlacementGenerator", "PodGroupPodsCount"):
            check_plugin(plugin)


@pytest.mark.parametrize("plugin", [plugin for plugin in IN_TREE.values() if plugin.since], ids=lambda p: p.name)
def test_a_profile_has_a_plugin_from_its_release_on(plugin: type[Plugin]) -> None:
    """Before, kube-scheduler does not start."""
    given = config({"plugins": {"multiPoint": point(plugin.name)}})
    assert scheduler_configuration(given, Semantics(minor=plugin.since)).profiles
    with pytest.raises(InvalidConfiguration, match=f"does not exist in Kubernetes 1.{plugin.since - 1}"):
        scheduler_configuration(given, Semantics(minor=plugin.since - 1), unknown=named_only)


def test_reasons_and_outcome_are_of_one_piece() -> None:
    prediction = Prediction(
        cluster(DEFAULT, make_node("n1")).scheduling, policies.predict(cluster(DEFAULT), make_pod("p").obj).pod
    )
    assert prediction.statuses == {}
    assert prediction.feasible == ["n1"]


def algorithm_for(snapshot: Snapshot) -> SchedulingAlgorithm:
    nodes = NodeTree()
    for info in snapshot.node_infos:
        nodes.put(info.node)
    return SchedulingAlgorithm(nodes, min)


def test_without_post_filter_plugins_a_pod_that_fits_nowhere_loses_its_nomination() -> None:
    """Upstream `schedulingCycle` clears it; with other PostFilter plugins it stays."""
    asked = make_pod("p").priority(10).request(cpu="8").nominated("n1").obj
    for enabled, clears in ((point(disabled=("*",)), True), (point("DynamicResources", disabled=("*",)), False)):
        meant = semantics(config({"plugins": {"postFilter": enabled}}))
        prediction = policies.predict(cluster(meant, make_node("n1")), asked)
        assert prediction.outcome == "pending"
        assert prediction.clears_nomination is clears
        assert bool(prediction.pod_after.nominated_node_name) is not clears
        result = algorithm_for(prediction.snapshot).schedule_pod(prediction.snapshot, prediction.pod)
        assert isinstance(result, Rejected)
        assert result.nominated == ("" if clears else None)


def test_without_scores_the_first_feasible_node_is_taken() -> None:
    """The next cycle starts at the next node, so Pods do not all get the same node."""
    meant = semantics(config({"plugins": {"score": point(disabled=("*",)), "preScore": point(disabled=("*",))}}))
    snapshot = cluster(meant, *(make_node(name) for name in ("n1", "n2", "n3")))
    prediction = policies.predict(snapshot, make_pod("p").obj)
    assert prediction.num_feasible_nodes_to_find == 1
    assert prediction.caveats == ("no plugin scores nodes: the scheduler takes the first of 3 feasible nodes",)
    algorithm = algorithm_for(prediction.snapshot)
    found = [algorithm.schedule_pod(prediction.snapshot, prediction.pod) for _ in range(3)]
    assert [result.node for result in found if isinstance(result, Fits)] == ["n1", "n2", "n3"]


def test_without_scores_a_pod_that_names_nodes_advances_the_start_by_the_evaluated_nodes() -> None:
    meant = semantics(config({"plugins": {"score": point(disabled=("*",)), "preScore": point(disabled=("*",))}}))
    snapshot = cluster(meant, *(make_node(name) for name in ("n1", "n2", "n3")))
    terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]} for name in ("n1", "n2")]
    asked = make_pod("p").affinity("nodeAffinity", *terms)
    prediction = policies.predict(snapshot, asked.obj)
    algorithm = algorithm_for(prediction.snapshot)
    found = [algorithm.schedule_pod(prediction.snapshot, prediction.pod) for _ in range(2)]
    assert [result.node for result in found if isinstance(result, Fits)] == ["n1", "n2"]
