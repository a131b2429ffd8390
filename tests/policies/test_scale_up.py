"""Which nodes cluster-autoscaler would bring: the cases of its own tests, the file of node groups, what always holds.

The cases of the estimator, the orderer and the expander are those of cluster-autoscaler 1.36.1 (facts of
estimator/binpacking_estimator_test.go and expander/waste/waste_test.go): its code cannot be linked as a module.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forewarn.policies.kubernetes.cluster.cache import Cache
from forewarn.policies.kubernetes.objects.pod import Pod
from forewarn.policies.kubernetes.scheduling.snapshot import Snapshot
from forewarn.policies.linting.config.model import ConfigError
from forewarn.policies.prediction.autoscaling.cluster_autoscaler.estimator import (
    MAX_NODES,
    Estimate,
    group_by_scheduling_properties,
)
from forewarn.policies.prediction.autoscaling.cluster_autoscaler.node_group import NodeGroup, daemon_pods, template_info
from forewarn.policies.prediction.autoscaling.cluster_autoscaler.orchestrator import MAX_SIZE_REACHED
from forewarn.policies.prediction.autoscaling.cluster_autoscaler.pod_list import filter_out_schedulable, with_all_placed
from forewarn.policies.questions.whatif import autoscalers
from forewarn.policies.questions.whatif.autoscalers import ScaleUps
from forewarn.policies.questions.whatif.node_groups import MAX_GROUPS, read_node_groups
from tests.builders import Made, MadeNode, MadePod, make_node, make_pod
from tests.cases import cases

ZONE = "topology.kubernetes.io/zone"
HOST = "kubernetes.io/hostname"


def group(name: str, cpu: str, memory: str, pods: int = 110, most: int | None = None, **more: Any) -> NodeGroup:
    """A group in zone mars. `more`: `labels`, `taints`, `size`."""
    labels = {ZONE: "mars", **more.get("labels", {})}
    capacity = {"cpu": cpu, "memory": memory, "pods": str(pods)}
    template = {"metadata": {"labels": labels}, "spec": {"taints": more.get("taints", [])}}
    entry = {"name": name, "template": {**template, "status": {"capacity": capacity}}, "size": more.get("size", 0)}
    return read_node_groups(repr([entry | ({} if most is None else {"maxSize": most})]), "groups.yaml")[0]


def replicas(name: str, count: int, cpu: str, memory: str, change: Any = None) -> list[MadePod]:
    """Pods of one ReplicaSet, with the label app=NAME."""
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": name, "uid": f"uid-{name}", "controller": True}
    made = [make_pod(f"{name}-{number}").request(cpu=cpu, memory=memory) for number in range(count)]
    for pod in made:
        pod.metadata(ownerReferences=[owner]).labels(app=name)
        if change is not None:
            change(pod)
    return made


def planned(groups: list[NodeGroup], pods: list[MadePod], *made: Made, daemons: list[Any] | None = None) -> ScaleUps:
    cache = Cache()
    for each in made:
        cache.add(each.obj)
    waiting = [Pod.from_api(pod.obj) for pod in pods]
    named = cache.snapshot().top_workload_of
    return autoscalers.plan(waiting, cache.snapshot().scheduling, groups, daemons or [], named)


def told(plan: ScaleUps) -> list[tuple[str, int, int]]:
    """(group, nodes, pods) of each scale-up."""
    return [(each.group, each.nodes, each.pods) for each in plan.scale_ups]


def estimate_of(base: Snapshot, of: NodeGroup, most: int) -> Estimate:
    return Estimate(base, of, template_info(of, [], base.semantics), most)


def old_node() -> MadeNode:
    return make_node("oldnode").has(cpu="100m", memory="100Mi", pods="10").zone("jupiter").label(HOST, "oldnode")


def spread(skew: int, key: str, least: int = 1) -> Any:
    def change(pod: MadePod) -> None:
        constraint = {
            "maxSkew": skew,
            "topologyKey": key,
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "estimatee"}},
            "minDomains": least,
        }
        pod.spec(topologySpreadConstraints=[constraint])

    return change


def host_port(pod: MadePod) -> None:
    pod.port(5555)


@pytest.mark.parametrize(
    ("node", "pods", "most", "expected"),
    [
        (("1000m", "2000Mi"), replicas("estimatee", 10, "350m", "1000"), None, (5, 10)),
        (("10000m", "20000Mi"), replicas("estimatee", 20, "10m", "100"), None, (2, 20)),
        (("1000m", "5000Mi"), replicas("estimatee", 8, "200m", "1000", host_port), None, (8, 8)),
        (("1000m", "5000Mi"), replicas("estimatee", 20, "500m", "1000"), 5, (5, 10)),
        (("1000m", "5000Mi"), replicas("estimatee", 8, "200m", "200", spread(2, HOST)), None, (4, 8)),
        (("1000m", "5000Mi"), replicas("estimatee", 8, "20m", "100", spread(2, ZONE)), None, (1, 2)),
        (("1000m", "5000Mi"), replicas("estimatee", 12, "20m", "100", spread(1, HOST, 3)), None, (3, 12)),
    ],
    ids=["resources", "pods-per-node", "host-port", "limit", "two-a-host", "two-a-zone", "three-hosts"],
)
def test_cases_of_the_estimators_own_tests(
    node: tuple[str, str], pods: list[MadePod], most: int | None, expected: tuple[int, int]
) -> None:
    cache = Cache()
    cache.add(old_node().obj)
    base, template = cache.snapshot().scheduling, group("template", *node, pods=10)
    estimate = estimate_of(base, template, most or MAX_NODES)
    estimate.run(group_by_scheduling_properties([Pod.from_api(pod.obj) for pod in pods]))
    assert (estimate.nodes, len(estimate.placed)) == expected


def test_the_largest_pods_come_first() -> None:
    small = [Pod.from_api(pod.obj) for pod in replicas("small", 10, "50m", "1000")]
    large = [Pod.from_api(pod.obj) for pod in replicas("large", 10, "500m", "1000")]
    cache = Cache()
    cache.add(old_node().obj)
    estimate = estimate_of(cache.snapshot().scheduling, group("g", "1000m", "5000Mi", pods=10), 5)
    estimate.run(group_by_scheduling_properties([*small, *large]))
    assert estimate.nodes == 5
    assert {pod.owner.name for pod, _ in estimate.placed if pod.owner} == {"large"}


def test_the_size_of_the_estimators_own_benchmark() -> None:
    like = {name: Pod.from_api(replicas(name, 1, cpu, "100")[0].obj) for name, cpu in (("a", "50m"), ("b", "95m"))}
    pods = [
        replace(like[name], name=f"{name}-{n}", uid="")
        for name, count in (("a", 50_000), ("b", 1000))
        for n in range(count)
    ]
    cache = Cache()
    cache.add(old_node().obj)
    estimate = estimate_of(cache.snapshot().scheduling, group("g", "1000m", "5000Mi", pods=100), 3000)
    estimate.run(group_by_scheduling_properties(pods))
    assert (estimate.nodes, len(estimate.placed)) == (2595, 51_000)


CPU, MEMORY = "500m", "1000Mi"
BALANCED, HIGHMEM, LOWCPU = ("8000m", "16000Mi"), ("8000m", "32000Mi"), ("4000m", "16000Mi")


@pytest.mark.parametrize(
    ("given", "chosen"),
    [
        ({"balanced": BALANCED}, "balanced"),
        ({"balanced": BALANCED, "highmem": HIGHMEM}, "balanced"),
        ({"balanced": BALANCED, "highmem": HIGHMEM, "lowcpu": LOWCPU}, "lowcpu"),
    ],
)
def test_cases_of_the_expanders_own_tests(given: dict[str, tuple[str, str]], chosen: str) -> None:
    groups = [group(name, *size, pods=100) for name, size in given.items()]
    plan = planned(groups, [make_pod("p").request(cpu=CPU, memory=MEMORY)])
    assert told(plan) == [(chosen, 1, 1)]


def test_of_groups_that_are_as_good_the_others_are_told() -> None:
    (scale_up,) = planned([group("a", "4", "8Gi"), group("b", "4", "8Gi")], replicas("web", 3, "1", "1Gi")).scale_ups
    assert (scale_up.group, scale_up.ties) == ("a", ["b"])


def test_why_no_group_helps_is_in_upstreams_words() -> None:
    groups = [
        group("small", "1", "8Gi"),
        group("kept", "8", "8Gi", taints=[{"key": "dedicated", "value": "x", "effect": "NoSchedule"}]),
        group("full", "8", "8Gi", most=2, size=2),
    ]
    plan = planned(groups, replicas("web", 2, "2", "1Gi"))
    assert plan.scale_ups == []
    ((left),) = plan.no_scale_up
    assert (left.workload, left.pods) == ("default/web", 2)
    assert left.reasons == {
        "small": "Insufficient cpu",
        "kept": "node(s) had untolerated taint(s)",
        "full": MAX_SIZE_REACHED,
    }


def test_who_is_left_gets_nodes_of_another_group_as_in_the_next_loop() -> None:
    pods = [*replicas("web", 2, "3", "1Gi"), *replicas("db", 1, "1", "30Gi")]
    plan = planned([group("cpu", "4", "8Gi"), group("memory", "2", "32Gi")], pods)
    assert sorted(told(plan)) == [("cpu", 2, 2), ("memory", 1, 1)]
    assert plan.no_scale_up == []


def test_a_group_gets_no_more_nodes_than_it_may_have() -> None:
    plan = planned([group("g", "1", "4Gi", most=5, size=2)], replicas("web", 10, "1", "1Gi"))
    assert told(plan) == [("g", 3, 3)]
    ((left),) = plan.no_scale_up
    assert (left.pods, left.reasons) == (7, {"g": MAX_SIZE_REACHED})


def test_one_scale_up_brings_a_thousand_nodes_at_most_and_the_next_one_goes_on() -> None:
    pod = Pod.from_api(replicas("web", 1, "1", "1Gi")[0].obj)
    pods = [replace(pod, name=f"web-{number}", uid="") for number in range(1500)]
    snapshot = Cache().snapshot().scheduling
    plan = autoscalers.plan(pods, snapshot, [group("g", "1", "4Gi")], [], lambda _: "default/web")
    assert told(plan) == [("g", 1000, 1000), ("g", 500, 500)]


def test_who_would_fit_already_brings_no_node() -> None:
    here = make_node("here").has(cpu="1", memory="4Gi", pods="10")
    plan = planned([group("g", "4", "8Gi")], replicas("web", 3, "1", "1Gi"), here)
    assert (plan.fit_existing_nodes, told(plan)) == (1, [("g", 1, 2)])


def test_too_much_to_work_out_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(autoscalers, "MAX_WORK", 1000)
    plan = planned([group("g", "1", "4Gi")], replicas("web", 500, "1", "1Gi"))
    assert plan.truncated
    assert (plan.scale_ups, plan.pods) == ([], 0)


def daemon_set(**spec: Any) -> Any:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "500m"}}}
    template = {"metadata": {"labels": {"app": "agent"}}, "spec": {"containers": [container], **spec}}
    metadata = {"name": "agent", "namespace": "kube-system", "uid": "u"}
    return {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": metadata, "spec": {"template": template}}


def test_daemon_sets_take_their_part_of_a_new_node() -> None:
    groups, pods = [group("g", "2", "8Gi", labels={"disk": "ssd"})], replicas("web", 4, "1", "1Gi")
    assert told(planned(groups, pods)) == [("g", 2, 4)]
    assert told(planned(groups, pods, daemons=[daemon_set()])) == [("g", 4, 4)]
    elsewhere = daemon_set(nodeSelector={"disk": "none"})
    assert told(planned(groups, pods, daemons=[elsewhere])) == [("g", 2, 4)]


def test_a_daemon_set_tolerates_what_its_controller_adds() -> None:
    unschedulable = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
    dedicated = {"key": "dedicated", "value": "x", "effect": "NoSchedule"}
    for taints, count in (([unschedulable], 1), ([dedicated], 0)):
        node = group("g", "2", "8Gi", taints=taints).node
        assert len(daemon_pods(node, [daemon_set()])) == count


def test_a_template_becomes_a_node_as_upstream_makes_it() -> None:
    kept = {"key": "dedicated", "value": "x", "effect": "NoSchedule"}
    passing = [
        "node.kubernetes.io/not-ready",
        "ToBeDeletedByClusterAutoscaler",
        "startup-taint.cluster-autoscaler.kubernetes.io/agent",
        "status-taint.cluster-autoscaler.kubernetes.io/x",
        "node.cloudprovider.kubernetes.io/uninitialized",
    ]
    made = group("g", "2", "8Gi", taints=[kept, *({"key": key, "effect": "NoSchedule"} for key in passing)])
    assert [taint.key for taint in made.node.taints] == ["dedicated"]
    assert made.node.labels["failure-domain.beta.kubernetes.io/zone"] == "mars"
    assert made.node.labels["cluster-autoscaler.kubernetes.io/template-node"] == "true"
    first, second = made.new_node(0), made.new_node(1)
    assert (first.labels[HOST], second.labels[HOST]) == (first.name, second.name)
    assert first.name != second.name


FINE = "template: {status: {capacity: {cpu: 4, memory: 8Gi, pods: 110}}}"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "g.yaml: no node groups"),
        ("name: a", "g.yaml:1:1: must be a list"),
        ("- nam: a", 'g.yaml:1:3: [0]: unknown key "nam"; did you mean "name"?'),
        ("- name: a", "g.yaml:1:3: [0]: template is missing"),
        (f"- {FINE}", "g.yaml:1:3: [0]: name is missing"),
        (f'- name: ""\n  {FINE}', "g.yaml:1:9: [0].name: must be 1 to 253"),
        (f'- name: "\\e[2J"\n  {FINE}', "g.yaml:1:9: [0].name: must be 1 to 253"),
        (f"- name: a\n  {FINE}\n- name: a\n  {FINE}", 'g.yaml:3:3: [1]: node group "a" is duplicated'),
        (f"- name: a\n  maxSize: many\n  {FINE}", "g.yaml:2:12: [0].maxSize: must be a whole number"),
        (f"- name: a\n  maxSize: -1\n  {FINE}", "g.yaml:2:12: [0].maxSize: must be a whole number"),
        (f"- name: a\n  maxSize: {'9' * 5000}\n  {FINE}", "g.yaml:2:12: [0].maxSize: must be a whole number"),
        (f"- name: a\n  minSize: 3\n  maxSize: 2\n  {FINE}", "g.yaml:2:12: [0].minSize: 3 is greater than maxSize 2"),
        ("- name: a\n  template: {kind: Pod}", 'g.yaml:2:20: [0].template.kind: must be Node, not "Pod"'),
        ("- name: a\n  template: {spec: {taint: []}}", 'unknown key "taint"; did you mean "taints"?'),
        ("- name: a\n  template: {metadata: {label: {}}}", 'unknown key "label"; did you mean "labels"?'),
        (
            "- name: a\n  template: {metadata: {labels: {a: true}}}",
            "g.yaml:2:37: [0].template.metadata.labels.a: must be",
        ),
        (
            "- name: a\n  template: {status: {capacity: {cpu: lots}}}",
            "g.yaml:2:39: [0].template.status.capacity.cpu: 'lots'",
        ),
        ("- name: a\n  template: {}", "g.yaml:2:13: [0].template: cpu is missing; no Pod would fit"),
        (
            "- name: a\n  template: {status: {allocatable: {cpu: 4, memory: 8Gi}}}",
            "g.yaml:2:36: [0].template.status.allocatable: pods is missing; no Pod would fit",
        ),
        (
            "- name: a\n  template: {status: {capacity: {cpu: 0, memory: 8Gi, pods: 1}}}",
            "g.yaml:2:33: [0].template.status.capacity: cpu and memory must be greater than 0",
        ),
        *(
            (f"- name: a\n  template: {{spec: {{taints: [{{key: a, effect: NoExecute}}, {taint}]}}}}", told)
            for taint, told in (
                ("{key: 1, effect: NoExecute}", "g.yaml:2:65: [0].template.spec.taints[1].key: must be a string, not"),
                ("{key: a, effect: [x]}", "g.yaml:2:76: [0].template.spec.taints[1].effect: must be a string, not"),
                ("{key: a, effect: NoSchedul}", 'taints[1].effect: unknown effect "NoSchedul"; did you mean "NoSc'),
                ("{key: a}", "g.yaml:2:59: [0].template.spec.taints[1]: effect is missing"),
                ("{key: a, effect: NoExecute, valu: b}", 'taints[1]: unknown key "valu"; did you mean "value"?'),
                ("{key: a, effect: NoExecute, value: 3}", "[0].template.spec.taints[1].value: must be a string, not"),
                ("null", "g.yaml:2:59: [0].template.spec.taints[1]: key is missing"),
            )
        ),
        (f"- name: a\n  {FINE}\n---\n- name: b", "more than one YAML document; a configuration is one"),
    ],
)
def test_what_a_file_may_not_say_is_told_with_its_place(text: str, problem: str) -> None:
    with pytest.raises(ConfigError) as fault:
        read_node_groups(text, "g.yaml")
    assert problem in str(fault.value)


def test_a_template_may_have_the_fields_of_every_minor() -> None:
    node = "{spec: {podPreemptionPolicy: {}}, status: {capacity: {cpu: 4, memory: 8Gi, pods: 9}}}"
    assert [group.name for group in read_node_groups(f"- name: g\n  template: {node}", "g.yaml")] == ["g"]


def test_there_are_not_more_groups_than_are_looked_at() -> None:
    text = "\n".join(f"- name: g{number}\n  {FINE}" for number in range(MAX_GROUPS + 1))
    with pytest.raises(ConfigError, match=f"more than {MAX_GROUPS} node groups"):
        read_node_groups(text, "g.yaml")


def test_a_number_that_somebody_wrote_lengthens_nothing() -> None:
    text = f"- name: g\n  minSize: 0\n  maxSize: 2147483647\n  {FINE}"
    (huge,) = read_node_groups(text, "g.yaml")
    assert told(planned([huge], replicas("web", 8, "1", "1Gi"))) == [("g", 2, 8)]


def test_what_a_group_has_now_is_its_least_where_nobody_says() -> None:
    (made,) = read_node_groups(f"- name: g\n  minSize: 3\n  maxSize: 5\n  {FINE}", "g.yaml")
    assert (made.size, made.max_added) == (3, 2)


CPUS = st.sampled_from([250, 500, 750, 1000, 2000])
SETS = st.lists(st.tuples(st.integers(1, 8), CPUS, st.sampled_from([256, 1024, 3000])), min_size=1, max_size=4)


def pods_of(sets: list[tuple[int, int, int]]) -> list[MadePod]:
    made = [replicas(f"w{n}", count, f"{cpu}m", f"{memory}Mi") for n, (count, cpu, memory) in enumerate(sets)]
    return [pod for pods in made for pod in pods]


@settings(max_examples=cases(30), deadline=None)
@given(SETS, st.integers(0, 6))
def test_every_pod_is_placed_once_or_told_and_no_node_holds_more_than_it_has(
    sets: list[tuple[int, int, int]], most: int
) -> None:
    pods = pods_of(sets)
    plan = planned([group("small", "1", "4Gi", pods=4, most=most), group("large", "4", "8Gi", most=most)], pods)
    assert plan.pods + plan.fit_existing_nodes + sum(left.pods for left in plan.no_scale_up) == len(pods)
    for name in ("small", "large"):
        assert sum(each.nodes for each in plan.scale_ups if each.group == name) <= most
    for each in plan.scale_ups:
        assert 1 <= each.nodes <= each.pods
        assert 0 <= each.waste <= 2
        assert each.waste == min(option.waste for option in each.options)
        assert sum(of.pods for of in each.workloads) == each.pods


@settings(max_examples=cases(20), deadline=None)
@given(st.integers(1, 30), CPUS, st.booleans())
def test_one_more_pod_of_a_kind_never_needs_fewer_nodes(count: int, cpu: int, apart: bool) -> None:
    """Of pods that are alike. It is no law of pods of several sizes: first fit is known to need fewer for more."""
    change = host_port if apart else None
    large = [group("g", "2", "16Gi")]
    fewer, more = (planned(large, replicas("web", n, f"{cpu}m", "64Mi", change)) for n in (count, count + 1))
    per_node = 1 if apart else 2000 // cpu
    assert [each.nodes for each in fewer.scale_ups] == [-(-count // per_node)]
    assert more.scale_ups[0].nodes >= fewer.scale_ups[0].nodes


@settings(max_examples=cases(20), deadline=None)
@given(SETS, st.integers(0, 30))
def test_a_group_that_helps_nobody_changes_nothing(sets: list[tuple[int, int, int]], size: int) -> None:
    pods, useful = pods_of(sets), group("g", "2", "4Gi")
    useless = group("tiny", "10m", "1Mi", size=size)
    assert told(planned([useful], pods)) == told(planned([useless, useful], pods))


def test_pods_are_first_tried_on_their_nodes_of_the_scan_before() -> None:
    cache = Cache()
    for name in "abc":
        cache.add(make_node(name).has(cpu="1", memory="4Gi", pods="10").obj)
    snapshot = cache.snapshot().scheduling
    web, db = (Pod.from_api(replicas(name, 1, "1", "1Gi")[0].obj) for name in ("web", "db"))
    hints = {web.uid: "c", db.uid: "gone"}
    filled, left = filter_out_schedulable(snapshot, [web, db], hints)
    assert (left, hints) == ([], {web.uid: "c", db.uid: "b"})
    assert [pod.name for pod in filled.node_infos[2].pods] == ["web-0"]


@pytest.mark.parametrize(
    ("removed", "last", "hint", "node", "found"),
    [
        ([], 2, None, "d", 3),
        ([], 3, None, "b", 1),
        ([0], 2, None, "b", 0),
        ([0], 1, None, "d", 2),
        ([0, 1], 1, None, "c", 0),
        ([0], 1, "b", "b", 1),
        ([0], 1, "a", "d", 2),
    ],
)
def test_a_search_starts_after_the_last_found_node_without_removed_nodes(
    removed: list[int], last: int, hint: str | None, node: str, found: int
) -> None:
    cache = Cache()
    for name in "abcd":
        cache.add(make_node(name).has(cpu="1", memory="4Gi", pods="10").obj)
    web = Pod.from_api(replicas("web", 1, "1", "1Gi")[0].obj)
    hints = {web.uid: hint} if hint else {}
    nodes = {name for row, name in enumerate("abcd") if row and row not in removed}
    after = with_all_placed(cache.snapshot().scheduling, [web], nodes, removed, hints, last)
    assert (hints, after[1]) == ({web.uid: node}, found)
