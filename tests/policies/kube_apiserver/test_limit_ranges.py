"""What LimitRanges give to containers that leave their resources out, and who counts with it."""

from __future__ import annotations

import json
from copy import deepcopy
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.policies.cli.main import main
from forewarn.policies.kubernetes.cluster.admission import admitted, with_limit_range_defaults
from forewarn.policies.kubernetes.cluster.cache import Cache
from forewarn.policies.kubernetes.kube_apiserver.quota import Pods
from forewarn.policies.kubernetes.kube_apiserver.validation.resources import validate_limits
from forewarn.policies.kubernetes.objects.fields import InvalidObject
from forewarn.policies.kubernetes.objects.pod import Pod
from forewarn.policies.kubernetes.objects.pod_resources import read_pod_resources
from forewarn.policies.kubernetes.objects.resource_quota import LimitRange
from forewarn.policies.kubernetes.objects.reviewed_object import ChangeSet, ReviewedObject
from forewarn.policies.kubernetes.options import Options
from forewarn.policies.kubernetes.releases.semantics import Semantics
from forewarn.policies.linting.config.model import Config
from forewarn.policies.linting.evaluation.evaluator import EvaluationRequest, evaluate
from forewarn.policies.linting.rules.support.context import Context, Phase
from forewarn.policies.linting.rules.support.predictions import Predicted
from forewarn.policies.prediction.forecast.forecast import place_all
from forewarn.policies.prediction.forecast.placement import place
from tests.builders import Made, cluster, cluster_text, make_node, make_pod, make_priority_class
from tests.recorded.commands import answer_case
from tests.recorded.dry_run import dry_run

if TYPE_CHECKING:
    from pathlib import Path

NOW = datetime(2026, 1, 1, tzinfo=UTC)

Obj = dict[str, Any]


def limit_range(*items: Obj, name: str = "defaults", namespace: str = "team") -> Obj:
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "LimitRange", "metadata": metadata, "spec": {"limits": list(items)}}


def of_containers(**fields: Obj) -> Obj:
    return {"type": "Container", **fields}


READ: list[tuple[str, list[Obj], Obj, Obj]] = [
    ("nothing", [], {}, {}),
    ("both", [of_containers(default={"cpu": "2"}, defaultRequest={"cpu": "1"})], {"cpu": "1"}, {"cpu": "2"}),
    ("only requests", [of_containers(defaultRequest={"cpu": "1"})], {"cpu": "1"}, {}),
    ("a limit is the request too", [of_containers(default={"cpu": "2"})], {"cpu": "2"}, {"cpu": "2"}),
    ("a maximum is the limit", [of_containers(max={"cpu": "4"})], {"cpu": "4"}, {"cpu": "4"}),
    ("unless there is one", [of_containers(max={"cpu": "4"}, default={"cpu": "2"})], {"cpu": "2"}, {"cpu": "2"}),
    ("a minimum is the request", [of_containers(min={"cpu": "1"})], {"cpu": "1"}, {}),
    ("but after the limit", [of_containers(min={"cpu": "1"}, max={"cpu": "4"})], {"cpu": "4"}, {"cpu": "4"}),
    ("each resource alone", [of_containers(min={"cpu": "1"}, max={"memory": "1Gi"})],
        {"cpu": "1", "memory": "1Gi"}, {"memory": "1Gi"}),
    ("ratios say nothing", [of_containers(maxLimitRequestRatio={"cpu": "2"})], {}, {}),
    ("pods and claims have no defaults",
        [{"type": "Pod", "max": {"cpu": "4"}}, {"type": "PersistentVolumeClaim", "min": {"storage": "1Gi"}}], {}, {}),
    ("in thousandths", [of_containers(defaultRequest={"cpu": "1u"})], {"cpu": "1m"}, {}),
    ("the last item", [of_containers(default={"cpu": "2"}), of_containers(default={"cpu": "3"})],
        {"cpu": "3"}, {"cpu": "3"}),
]  # fmt: skip


@pytest.mark.parametrize(("items", "requests", "limits"), [case[1:] for case in READ], ids=[case[0] for case in READ])
def test_a_limit_range_gives(items: list[Obj], requests: Obj, limits: Obj) -> None:
    read = LimitRange.from_api(limit_range(*items))
    told = [{name: str(q) for name, q in given.items()} for given in (read.default_requests, read.default_limits)]
    assert told == [requests, limits]


UNREADABLE = [
    ({"limits": 1}, "LimitRange team/defaults: spec.limits: must be a list, not number"),
    ({"limits": [1]}, "LimitRange team/defaults: spec.limits[0]: must be an object, not number"),
    ({"limits": [of_containers(), {"type": 1}]}, "spec.limits[1].type: must be a string"),
    ({"limits": [of_containers(max={"cpu": "much"})]}, "spec.limits[0].max.cpu: 'much': quantities must match"),
]


@pytest.mark.parametrize(("spec", "message"), UNREADABLE)
def test_what_cannot_be_read_is_named(spec: Obj, message: str) -> None:
    with pytest.raises(InvalidObject) as fault:
        LimitRange.from_api({**limit_range(), "spec": spec})
    assert message in str(fault.value)


@given(st.lists(st.tuples(st.booleans(), st.sampled_from("abc"), st.sampled_from("xyz"), st.integers(1, 9))))
def test_limit_ranges_of_a_namespace_are_those_of_all(steps: list[tuple[bool, str, str, int]]) -> None:
    cache = Cache()
    expected: dict[tuple[str, str], LimitRange] = {}
    for add, namespace, name, cpus in steps:
        obj = limit_range(of_containers(max={"cpu": cpus}), name=name, namespace=namespace)
        if add:
            cache.add(obj)
            expected[namespace, name] = LimitRange.from_api(obj)
        else:
            cache.remove(obj)
            expected.pop((namespace, name), None)
    snapshot = cache.snapshot()
    assert cache.keys("/LimitRange") == {*expected}
    for namespace in "abc":
        assert snapshot.limit_ranges_of(namespace) == [r for key, r in sorted(expected.items()) if key[0] == namespace]


def pod(*containers: Obj, init: tuple[Obj, ...] = (), own: Obj | None = None, **metadata: str) -> Obj:
    """A pod of containers with these resources; `own`: what it says of itself."""
    spec = {kind: [{"name": f"{kind}-{n}", "resources": r} for n, r in enumerate(given)]
        for kind, given in (("containers", containers), ("initContainers", init)) if given}  # fmt: skip
    resources = {} if own is None else {"resources": own}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", **metadata}, "spec": {**spec, **resources}}


def both(requests: Obj, limits: Obj | None = None) -> Obj:
    return {"requests": requests, "limits": limits} if limits else {"requests": requests}


RANGE = limit_range(of_containers(default={"cpu": "2", "memory": "2Gi"}, defaultRequest={"cpu": "1"}))
SMALL = limit_range(of_containers(defaultRequest={"cpu": "100m", "memory": "64Mi"}), name="small")
FULL = both({"cpu": "1", "memory": "2Gi"}, {"cpu": "2", "memory": "2Gi"})

FILLED: list[tuple[str, list[Obj], Obj, Obj]] = [
    ("an empty container", [RANGE], pod({}), pod(FULL)),
    ("init containers too", [RANGE], pod({}, init=({}, both({"cpu": "3"}))),
        pod(FULL, init=(FULL, both({"cpu": "3", "memory": "2Gi"}, {"cpu": "2", "memory": "2Gi"})))),
    ("what is given stays", [RANGE], pod(both({"cpu": "0", "memory": "1"}, {"cpu": "1500m", "memory": "3"})),
        pod(both({"cpu": "0", "memory": "1"}, {"cpu": "1500m", "memory": "3"}))),
    ("a limit is the request before any default", [RANGE], pod({"limits": {"cpu": "4"}}),
        pod(both({"cpu": "4", "memory": "2Gi"}, {"cpu": "4", "memory": "2Gi"}))),
    ("other resources and fields stay", [SMALL], pod({"limits": {"gpu/x": 1}, "claims": []}),
        pod({**both({"cpu": "100m", "memory": "64Mi", "gpu/x": 1}, {"gpu/x": 1}), "claims": []})),
    ("the first of two that disagree", [RANGE, SMALL], pod({}), pod(FULL)),
    ("the second for what the first leaves out", [SMALL, RANGE], pod({}),
        pod(both({"cpu": "100m", "memory": "64Mi"}, {"cpu": "2", "memory": "2Gi"}))),
    ("a range of pods", [limit_range({"type": "Pod", "max": {"cpu": "4"}})], pod({}), pod({})),
    ("no range", [], pod({"limits": {"cpu": "4"}}), pod({"limits": {"cpu": "4"}})),
    ("no containers", [RANGE], pod(), pod()),
    ("a stored pod", [RANGE], pod({}, uid="1"), pod({}, uid="1")),
    ("a pod that requests itself: containers all the same", [SMALL], pod({}, own=both({"cpu": "1"})),
        pod(both({"cpu": "100m", "memory": "64Mi"}), own=both({"cpu": "1"}))),
    ("a pod's limit is its request, not what containers get", [SMALL], pod({}, {}, own={"limits": {"cpu": "2"}}),
        pod(*[both({"cpu": "100m", "memory": "64Mi"})] * 2, own=both({"cpu": "2"}, {"cpu": "2"}))),
    ("unless they ask before", [SMALL], pod(both({"cpu": "1"}), {}, own={"limits": {"cpu": "2"}}),
        pod(both({"cpu": "1", "memory": "64Mi"}), both({"cpu": "100m", "memory": "64Mi"}),
            own=both({"cpu": "1"}, {"cpu": "2"}))),
]  # fmt: skip


@pytest.mark.parametrize(("ranges", "given", "filled"), [case[1:] for case in FILLED], ids=[c[0] for c in FILLED])
def test_admission_fills_in(ranges: list[Obj], given: Obj, filled: Obj) -> None:
    assert with_limit_range_defaults(given, map(LimitRange.from_api, ranges), Semantics()) == filled


LAST: list[tuple[str, list[Obj], Obj, Obj]] = [
    ("what containers get counts", [SMALL], pod({}, {}, own={"limits": {"cpu": "2"}}),
        pod(*[both({"cpu": "100m", "memory": "64Mi"})] * 2,
            own=both({"cpu": "200m", "memory": "128Mi"}, {"cpu": "2"}))),
    ("requests are completed", [], pod(both({"memory": "1Gi"}), own=both({"cpu": "1"})),
        pod(both({"memory": "1Gi"}), own=both({"cpu": "1", "memory": "1Gi"}))),
    ("limits of all containers are summed", [],
        pod(*[both({"cpu": "1"}, {"cpu": "1"})] * 2, own=both({"cpu": "1"})),
        pod(*[both({"cpu": "1"}, {"cpu": "1"})] * 2, own=both({"cpu": "1"}, {"cpu": "2"}))),
    ("but are no less than the request", [], pod(both({"cpu": "1"}, {"cpu": "1"}), own=both({"cpu": "3"})),
        pod(both({"cpu": "1"}, {"cpu": "1"}), own=both({"cpu": "3"}, {"cpu": "3"}))),
    ("a container without a limit", [], pod(both({"cpu": "1"}, {"cpu": "1"}), {}, own=both({"cpu": "1"})),
        pod(both({"cpu": "1"}, {"cpu": "1"}), {}, own=both({"cpu": "1"}))),
    ("an empty field says nothing", [], pod(both({"cpu": "1"}), own={}), pod(both({"cpu": "1"}))),
]  # fmt: skip


@pytest.mark.parametrize(("ranges", "given", "filled"), [case[1:] for case in LAST], ids=[c[0] for c in LAST])
def test_since_1_37_a_pod_is_completed_after_admission(ranges: list[Obj], given: Obj, filled: Obj) -> None:
    """PodLevelResourcesFixDefaulting and PodLevelResourcesFixKubeletQOSClass."""
    views = [LimitRange.from_api(each) for each in ranges]
    assert with_limit_range_defaults(given, views, Semantics(37)) == filled
    gates = {"PodLevelResourcesFixDefaulting": False, "PodLevelResourcesFixKubeletQOSClass": False}
    before = with_limit_range_defaults(given, views, Semantics(37).with_gates(**gates))
    assert before == with_limit_range_defaults(given, views, Semantics(36))


@pytest.mark.parametrize(
    "spec",
    [1, {"containers": 1}, {"containers": [1], "resources": {"limits": {"cpu": 1}}}, {"containers": [{"resources": 1}]},
     {"containers": [{}], "resources": 1}, {"containers": [{}], "resources": {"limits": {"cpu": "much"}}}],
)  # fmt: skip
def test_a_pod_that_cannot_be_read_is_left_to_its_reader(spec: Any) -> None:
    given = {**pod(), "spec": spec}
    assert with_limit_range_defaults(given, [LimitRange.from_api(RANGE)], Semantics()) is given
    with pytest.raises(InvalidObject):
        Pod.from_api(given)


NAMES = ("cpu", "memory", "ephemeral-storage", "example.com/gpu")
"""No huge pages: of those a container's limit must be its request, which random amounts are not."""
AMOUNTS = st.dictionaries(st.sampled_from(NAMES), st.sampled_from(("0", "1", "1500m", "1u", "64Mi", 2)), max_size=3)
RESOURCES = st.fixed_dictionaries({}, optional={"requests": AMOUNTS, "limits": AMOUNTS})
CONTAINERS = st.lists(RESOURCES, max_size=2).map(tuple)
PODS = st.builds(lambda c, i, own: pod(*c, init=i, own=own), CONTAINERS, CONTAINERS, st.none() | RESOURCES)
FIELDS = dict.fromkeys(("default", "defaultRequest", "min", "max"), AMOUNTS)
ITEMS = st.fixed_dictionaries({"type": st.sampled_from(("Container", "Pod"))}, optional=FIELDS)
RANGES = st.lists(st.builds(lambda items: LimitRange.from_api(limit_range(*items)), st.lists(ITEMS, max_size=2)))


@given(PODS, RANGES, st.sampled_from((36, 37)))
def test_a_second_time_changes_nothing_of_what_a_pod_asks_for(given: Obj, ranges: list[LimitRange], minor: int) -> None:
    once = with_limit_range_defaults(given, ranges, Semantics(minor))
    twice = with_limit_range_defaults(once, ranges, Semantics(minor))
    assert twice["spec"].get("containers") == once["spec"].get("containers")
    assert twice["spec"].get("initContainers") == once["spec"].get("initContainers")
    assert Pod.from_api(twice).spec.request == Pod.from_api(once).spec.request
    assert Pods().usage(twice) == Pods().usage(once)


@given(PODS, RANGES)
def test_what_is_given_is_never_changed(given: Obj, ranges: list[LimitRange]) -> None:
    before, filled = json.dumps(given), with_limit_range_defaults(given, ranges, Semantics())
    assert json.dumps(given) == before
    for kind in ("containers", "initContainers"):
        pairs = zip(given["spec"].get(kind, ()), filled["spec"].get(kind, ()), strict=True)
        assert all(says(container, more) for container, more in pairs)
    assert says(given["spec"].get("resources"), filled["spec"].get("resources"))


def says(given: Any, more: Any) -> bool:
    """Whether all that is given is there, word for word."""
    if isinstance(given, dict) and given:
        return isinstance(more, dict) and all(key in more and says(given[key], more[key]) for key in given)
    return bool(given in (None, {}) or given == more)


CONTAINER = {"name": "c", "image": "i"}
BUSY = make_pod("busy", "other").request(cpu="3500m").on("n1")
NO_VICTIMS = (make_priority_class(10), make_node("n1"), BUSY)
HALF = Made("v1", "LimitRange", "half", "team").spec(limits=[of_containers(defaultRequest={"cpu": "600m"})])


def workload(kind: str, **pod: Any) -> Obj:
    """Of one pod of priority 10, whose container asks for nothing."""
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": {"priority": 10, "containers": [CONTAINER], **pod}}
    spec = {"selector": {"matchLabels": labels}, "template": template}
    if kind == "CronJob":
        spec = {"jobTemplate": {"spec": {"template": template}}}
    metadata = {"name": "web", "namespace": "team"}
    return {"apiVersion": "batch/v1" if "Job" in kind else "apps/v1", "kind": kind, "metadata": metadata, "spec": spec}


SINGLE = {**pod(namespace="team"), "spec": {"priority": 10, "containers": [CONTAINER]}}
STORED = {**SINGLE, "metadata": {**SINGLE["metadata"], "uid": "1"}}
BRINGING = [*map(workload, ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job", "CronJob")), SINGLE]


@pytest.mark.parametrize("obj", BRINGING, ids=lambda obj: obj["kind"])
def test_pods_push_others_out_for_what_limit_ranges_give_them(obj: Obj) -> None:
    for made, outcome in (NO_VICTIMS, "fits"), ((*NO_VICTIMS, HALF), "preempts"):
        assert [p.outcome for p in place(cluster(*made), obj).predictions] == [outcome]


@pytest.mark.parametrize(
    ("obj", "phase", "preempts"),
    [
        (workload("Deployment"), Phase.LINT, True),
        (workload("Deployment"), Phase.VALIDATE, True),
        (workload("DaemonSet"), Phase.VALIDATE, True),
        (SINGLE, Phase.LINT, True),
        (STORED, Phase.LINT, False),
        (SINGLE, Phase.VALIDATE, False),
        (STORED, Phase.VALIDATE, False),
    ],
)
def test_the_linter_counts_with_limit_ranges_and_the_webhook_of_templates_alone(
    obj: Obj, phase: Phase, preempts: bool
) -> None:
    subject, state = ReviewedObject(obj), cluster(*NO_VICTIMS, HALF)
    context = Context(ChangeSet((subject,)), state, Options(), phase, NOW, lambda: False)
    found = context.once(Predicted).impact_of(subject)
    assert found is not None
    assert bool(found.preempting) == preempts


def test_a_limit_range_of_the_apply_takes_the_place_of_the_stored_one() -> None:
    subject, big = ReviewedObject(workload("Deployment")), deepcopy(HALF.obj)
    big["spec"]["limits"] = [of_containers(defaultRequest={"cpu": "100m"})]
    for own, preempts in ((), True), ((ReviewedObject(big),), False):
        context = Context(
            ChangeSet((subject, *own)), cluster(*NO_VICTIMS, HALF), Options(), Phase.LINT, NOW, lambda: False
        )
        found = context.once(Predicted).impact_of(subject)
        assert found is not None
        assert bool(found.preempting) == preempts


def test_a_case_of_a_batch_may_have_limit_ranges() -> None:
    case = {"nodes": [make_node("n1").obj], "pods": [BUSY.obj], "pod": SINGLE}
    assert answer_case(case, count_nominated=False)["outcome"] == "fits"
    assert answer_case({**case, "limitRanges": [HALF.obj]}, count_nominated=False)["outcome"] == "preempts"
    stored = {**case, "limitRanges": [HALF.obj], "pod": STORED}
    assert answer_case(stored, count_nominated=False)["outcome"] == "fits"


def test_limit_ranges_of_the_file_count(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, dump = tmp_path / "web.json", tmp_path / "dump.json"
    web = workload("Deployment", priorityClassName="class-10")
    dump.write_text("\n".join(json.dumps(made.obj) for made in NO_VICTIMS))
    for own, outcome in ([], "fits"), ([HALF.obj], "preempts"):
        file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [*own, web]}))
        assert main(["predict", "-f", str(file), "--cluster", str(dump), "-o", "json"]) == 0
        assert json.loads(capsys.readouterr().out)["pods"][0]["outcome"] == outcome


LOW = Made("v1", "LimitRange", "low", "team").spec(limits=[of_containers(default={"cpu": "2"})])
TOO_LOW = 'Invalid value: "3500m": must be less than or equal to cpu limit of 2'


_IN_SHORT = f"REJECTED Pods of Deployment team/web: requests.cpu: {TOO_LOW} (LimitRange default)"


@pytest.mark.parametrize(
    ("command", "rejection"),
    [
        ("predict -f", _IN_SHORT),
        ("whatif apply -f", _IN_SHORT),
        ("headroom -f", _IN_SHORT),
        ("lint", f"Deployment team/web: kube-apiserver rejects Pods: {TOO_LOW} (LimitRange default)"),
    ],
)
@pytest.mark.parametrize("limits", [{}, {"cpu": "4"}])
def test_a_request_above_a_default_limit_is_rejected(
    limits: Obj, command: str, rejection: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    obj = json.dumps(workload("Deployment"))
    container = json.dumps({**CONTAINER, "resources": both({"cpu": "3500m"}, limits)})
    of_class = obj.replace('"priority": 10', '"priorityClassName": "class-10"')
    (tmp_path / "web.json").write_text(of_class.replace(json.dumps(CONTAINER), container))
    (tmp_path / "dump.json").write_text(cluster_text([make_node("n1"), make_priority_class(10), LOW]))
    status = main([*command.split(), str(tmp_path / "web.json"), "--cluster", str(tmp_path / "dump.json")])
    assert (rejection in " ".join("".join(capsys.readouterr()).split())) == (not limits)
    assert bool(status) == (not limits)


def test_the_fix_of_a_default_limit_names_the_maximum(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    container = {**CONTAINER, "resources": both({"cpu": "3"}, {})}
    of_class = json.dumps(workload("Deployment")).replace('"priority": 10', '"priorityClassName": "class-10"')
    obj = of_class.replace(json.dumps(CONTAINER), json.dumps(container))
    (tmp_path / "web.json").write_text(obj)
    for maximum, fix in (
        ("4", "set limits.cpu to 3 or more"),
        ("2500m", "lower requests.cpu, and set limits.cpu to 2500m or less"),
    ):
        bounds = of_containers(default={"cpu": "2"}, max={"cpu": maximum})
        made = [make_node("n1"), make_priority_class(10), Made("v1", "LimitRange", "low", "team").spec(limits=[bounds])]
        (tmp_path / "dump.json").write_text(cluster_text(made))
        main(["predict", "-f", str(tmp_path / "web.json"), "--cluster", str(tmp_path / "dump.json")])
        assert f"(LimitRange default). Fix: {fix}" in capsys.readouterr().err


BOUNDED = Made("v1", "LimitRange", "bounds", "team").spec(limits=[{"type": "Pod", "max": {"cpu": "2"}}])
BEYOND = "maximum cpu usage per Pod is 2, but limit is 4"


@pytest.mark.parametrize(
    ("command", "rejection"),
    [
        ("predict -f", f"REJECTED Pods of Deployment team/web: resources: {BEYOND} (LimitRange bounds)"),
        ("whatif apply -f", f"REJECTED Pods of Deployment team/web: resources: {BEYOND} (LimitRange bounds)"),
        ("headroom -f", f"REJECTED Pods of Deployment team/web: resources: {BEYOND} (LimitRange bounds)"),
        ("lint", f"Deployment team/web: kube-apiserver rejects Pods: {BEYOND} (LimitRange bounds)"),
    ],
)
@pytest.mark.parametrize("limit", ["4", "2"])
def test_pods_beyond_a_maximum_are_rejected(
    limit: str, command: str, rejection: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    obj = json.dumps(workload("Deployment"))
    container = json.dumps({**CONTAINER, "resources": both({"cpu": "1"}, {"cpu": limit})})
    of_class = obj.replace('"priority": 10', '"priorityClassName": "class-10"')
    (tmp_path / "web.json").write_text(of_class.replace(json.dumps(CONTAINER), container))
    (tmp_path / "dump.json").write_text(cluster_text([make_node("n1"), make_priority_class(10), BOUNDED]))
    main([*command.split(), str(tmp_path / "web.json"), "--cluster", str(tmp_path / "dump.json")])
    assert (rejection in " ".join("".join(capsys.readouterr()).split())) == (limit == "4")


@pytest.mark.parametrize("command", ["predict", "whatif apply", "headroom"])
@pytest.mark.parametrize("existing", ["no workload", "a workload", "limits of the workload"])
def test_a_maximum_of_the_same_apply_rejects_pods(
    existing: str, command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also if only the stored template has the limits."""
    of_class = json.dumps(workload("Deployment")).replace('"priority": 10', '"priorityClassName": "class-10"')
    limited = of_class.replace('"image": "i"', f'"image": "i", "resources": {json.dumps(both({}, {"cpu": "4"}))}')
    replica = make_pod("web-1", "team").priority(10).labels(app="web").on("n1")
    stored = [] if existing == "no workload" else [limited, json.dumps(replica.obj)]
    (tmp_path / "dump.json").write_text("\n".join([cluster_text([make_node("n1"), make_priority_class(10)]), *stored]))
    (tmp_path / "bounds.json").write_text(json.dumps(BOUNDED.obj))
    given = of_class if existing == "limits of the workload" else limited
    (tmp_path / "web.json").write_text(given.replace('"image": "i"', '"image": "new"'))
    files = ["-f", str(tmp_path / "bounds.json"), "-f", str(tmp_path / "web.json")]
    main([*command.split(), *files, "--cluster", str(tmp_path / "dump.json")])
    out = capsys.readouterr().out
    assert out.startswith(("REJECTED  Pods of Deployment team/web: ", "REJECTED  2 objects applied: 1 object rejected"))
    assert "Pods of Deployment team/web" in out


def test_rejected_pods_of_a_rollout_are_no_rollout_without_new_pods() -> None:
    """Whoever predicts without the checks of admission."""
    limited = {**CONTAINER, "resources": both({}, {"cpu": "4"})}
    old, new = (workload("StatefulSet", containers=[{**limited, "image": image}]) for image in ("old", "new"))
    owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "controller": True}
    replica = make_pod("web-0", "team").labels(app="web").metadata(ownerReferences=[owner]).on("n1")
    stored = Made("apps/v1", "StatefulSet", "web", "team").spec(**old["spec"])
    (fault,) = place_all(cluster(make_node("n1"), BOUNDED, stored, replica), [new]).placements
    assert isinstance(fault, InvalidObject)
    assert BEYOND in fault.problem


SIDECAR = {"restartPolicy": "Always"}
REJECTED: list[tuple[str, Obj, Obj, list[str]]] = [
    ("within all", of_containers(min={"cpu": "1"}, max={"cpu": "2"}, maxLimitRequestRatio={"cpu": "2"}),
        pod(both({"cpu": "1"}, {"cpu": "2"})), []),
    ("a request below the minimum", of_containers(min={"cpu": "1"}), pod(both({"cpu": "0"}, {"cpu": "2"})),
        ["minimum cpu usage per Container is 1, but request is 0"]),
    ("a limit below the minimum", of_containers(min={"cpu": "1"}), pod(both({"cpu": "1"}, {"cpu": "500m"})),
        ["minimum cpu usage per Container is 1, but limit is 500m"]),
    ("no request", of_containers(min={"cpu": "1"}), pod({}),
        ["minimum cpu usage per Container is 1.  No request is specified"]),
    ("a limit above the maximum", of_containers(max={"cpu": "1"}), pod(both({"cpu": "3"}, {"cpu": "4"})),
        ["maximum cpu usage per Container is 1, but limit is 4"]),
    ("a request above the maximum", of_containers(max={"cpu": "1"}), pod(both({"cpu": "3"}, {"cpu": "1"})),
        ["maximum cpu usage per Container is 1, but request is 3"]),
    ("no limit", of_containers(max={"cpu": "1"}), pod(both({"cpu": "1"})),
        ["maximum cpu usage per Container is 1.  No limit is specified"]),
    ("a ratio", of_containers(maxLimitRequestRatio={"cpu": "1500m"}), pod(both({"cpu": "1"}, {"cpu": "2"})),
        ["cpu max limit to request ratio per Container is 1500m, but provided ratio is 2.000000"]),
    ("a ratio beyond floats", of_containers(maxLimitRequestRatio={"cpu": "2"}),
        pod(both({"cpu": "1m"}, {"cpu": "1e400"})),
        ["cpu max limit to request ratio per Container is 2, but provided ratio is 9223372036854775808.000000"]),
    ("a ratio to nothing", of_containers(maxLimitRequestRatio={"cpu": "2"}), pod(both({"cpu": "0"}, {"cpu": "2"})),
        ["cpu max limit to request ratio per Container is 2, but no request is specified or request is 0"]),
    ("a ratio of nothing", of_containers(maxLimitRequestRatio={"cpu": "2"}), pod(both({"cpu": "1"})),
        ["cpu max limit to request ratio per Container is 2, but no limit is specified or limit is 0"]),
    ("init containers too", of_containers(min={"cpu": "1"}),
        pod(both({"cpu": "1"}), init=(both({"cpu": "100m"}), both({"cpu": "200m"}))),
        ["minimum cpu usage per Container is 1, but request is 100m",
         "minimum cpu usage per Container is 1, but request is 200m"]),
    ("the sum of a Pod", {"type": "Pod", "min": {"cpu": "3"}}, pod(both({"cpu": "1"}), both({"cpu": "1500m"})),
        ["minimum cpu usage per Pod is 3, but request is 2500m"]),
    ("the largest init container", {"type": "Pod", "min": {"cpu": "3"}},
        pod(both({"cpu": "1"}), init=(both({"cpu": "3"}),)), []),
    ("a sidecar is added", {"type": "Pod", "min": {"cpu": "3"}},
        pod(both({"cpu": "1"}), init=({**both({"cpu": "2"}), **SIDECAR},)), []),
    ("a Pod's own", {"type": "Pod", "min": {"cpu": "3"}}, pod(both({"cpu": "1"}), own=both({"cpu": "3"})), []),
    ("without overhead", {"type": "Pod", "min": {"cpu": "3"}},
        {**pod(), "spec": {"overhead": {"cpu": "3"}, "containers": [{"resources": both({"cpu": "1"})}]}},
        ["minimum cpu usage per Pod is 3, but request is 1"]),
    ("claims", {"type": "PersistentVolumeClaim", "min": {"cpu": "3"}}, pod(both({"cpu": "1"})), []),
]  # fmt: skip


@pytest.mark.parametrize(("item", "given", "problems"), [c[1:] for c in REJECTED], ids=[c[0] for c in REJECTED])
def test_a_limit_range_rejects(item: Obj, given: Obj, problems: list[str]) -> None:
    """Messages of plugin/pkg/admission/limitranger/admission.go."""
    for container in given["spec"].get("initContainers", ()):
        container |= {key: container["resources"].pop(key) for key in SIDECAR if key in container["resources"]}
    errors = validate_limits(read_pod_resources(given), LimitRange.from_api(limit_range(item)))
    assert [error.text for error in errors] == problems


def test_only_new_pods_are_rejected() -> None:
    snapshot = cluster(BOUNDED, make_priority_class(10))
    beyond = {**CONTAINER, "resources": both({"cpu": "1"}, {"cpu": "4"})}
    assert admitted({**STORED, "spec": {"priority": 10, "containers": [beyond]}}, snapshot).effective_priority == 10
    with pytest.raises(InvalidObject, match=BEYOND):
        admitted({**SINGLE, "spec": {"priority": 10, "containers": [beyond]}}, snapshot)


@pytest.mark.parametrize("command", ["predict -f", "whatif apply -f", "headroom -f", "lint"])
def test_a_request_above_the_own_limit_is_no_fault_of_a_limit_range(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = json.dumps({**CONTAINER, "resources": both({"cpu": "3500m"}, {"cpu": "2"})})
    obj = json.dumps(workload("Deployment")).replace('"priority": 10', '"priorityClassName": "class-10"')
    (tmp_path / "web.json").write_text(obj.replace(json.dumps(CONTAINER), own))
    other = Made("v1", "LimitRange", "low", "team").spec(limits=[of_containers(default={"memory": "1Gi"})])
    (tmp_path / "dump.json").write_text(cluster_text([make_node("n1"), make_priority_class(10), other]))
    main([*command.split(), str(tmp_path / "web.json"), "--cluster", str(tmp_path / "dump.json")])
    text = "".join(capsys.readouterr())
    assert TOO_LOW in text
    assert "LimitRange default" not in text


def test_a_limit_range_that_cannot_be_read_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, web = tmp_path / "web.json", workload("Deployment", priorityClassName="class-10")
    broken = limit_range(of_containers(max={"cpu": "much"}))
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [broken, web]}))
    assert main(["lint", str(file)]) == 1
    assert "error: LimitRange team/defaults: spec.limits[0].max.cpu: 'much': quantities must" in capsys.readouterr().out
    dump = tmp_path / "dump.json"
    dump.write_text(cluster_text([make_node("n1"), make_priority_class(10)]))
    assert main(["predict", "-f", str(file), "--cluster", str(dump)]) == 3
    assert "LimitRange team/defaults: spec.limits[0].max.cpu: 'much': quantities must" in capsys.readouterr().err


def quota(used: str = "0", **hard: str) -> Obj:
    amounts = {name.replace("_", "."): amount for name, amount in hard.items()}
    metadata = {"name": "compute", "namespace": "team"}
    status = {"hard": amounts, "used": dict.fromkeys(amounts, used)}
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": metadata,
        "spec": {"hard": amounts},
        "status": status,
    }


def told(state: list[Obj], *objects: Obj, phase: Phase = Phase.LINT) -> list[str]:
    """What the rules about quotas say of objects; without a state, of these alone."""
    cache = Cache()
    for obj in state:
        cache.add(obj)
    change_set = ChangeSet(tuple(map(ReviewedObject, objects)))
    found = evaluate(EvaluationRequest(change_set, cache.snapshot() if state else None, Config(), phase=phase, now=NOW))
    return [f"{f.rule}: {f.message}" for f in found if f.rule.startswith("quota-")]


MISSING = "must specify limits.cpu for: c; requests.cpu for: c"
IN_CONTAINER = "container c must specify limits.cpu, requests.cpu"
OF_TEMPLATE = f"quota-requirement-missing: ResourceQuota compute will reject Pods: {IN_CONTAINER}"
EXCEEDED = "quota-exceeded: ResourceQuota compute (requests.cpu: 3, used: 1)"
ENFORCED = quota("1", requests_cpu="3", limits_cpu="9")


def replicas(count: int) -> Obj:
    made = workload("ReplicaSet")
    return {**made, "spec": {**made["spec"], "replicas": count}}


@pytest.mark.parametrize("where", ["cluster", "apply", "only apply"])
def test_quotas_count_with_what_limit_ranges_fill_in(where: str) -> None:
    assert told([ENFORCED], replicas(3)) == [OF_TEMPLATE]
    state = {"cluster": [ENFORCED, RANGE], "apply": [ENFORCED], "only apply": []}[where]
    own = {"cluster": [], "apply": [RANGE], "only apply": [ENFORCED, RANGE]}[where]
    assert told(state, *own, replicas(2)) == []
    assert told(state, *own, replicas(3)) == [
        f"{EXCEEDED} admits 2 of 3 replicas, each requests 1 by LimitRange default"
    ]


def test_what_is_given_is_not_said_to_be_a_default() -> None:
    own = both({"cpu": "3"}, {"cpu": "3"})
    given = {**SINGLE, "spec": {"containers": [{**CONTAINER, "resources": own}]}}
    assert told([ENFORCED, RANGE], given) == [f"{EXCEEDED} rejects the Pod, it requests 3"]


def test_a_pod_at_the_webhook_has_been_through_limit_ranger() -> None:
    assert told([ENFORCED, RANGE], SINGLE) == []
    assert told([ENFORCED, RANGE], SINGLE, phase=Phase.VALIDATE) == [
        f"quota-requirement-missing: ResourceQuota compute will reject the Pod: {IN_CONTAINER}"
    ]
    assert told([ENFORCED, RANGE], replicas(2), phase=Phase.VALIDATE) == []


def test_a_limit_range_of_another_namespace_is_nobodys_business() -> None:
    elsewhere = limit_range(*RANGE["spec"]["limits"], namespace="other")
    assert told([ENFORCED, elsewhere], replicas(2)) == [OF_TEMPLATE]
    assert told([ENFORCED], elsewhere, replicas(2)) == [OF_TEMPLATE]


def test_a_pod_that_gets_requests_is_no_longer_one_of_best_effort() -> None:
    scoped = quota("0", pods="0")
    scoped["spec"]["scopes"] = ["BestEffort"]
    assert told([scoped], replicas(1)) == [
        "quota-exceeded: ResourceQuota compute (pods: 0, used: 0) admits 0 of 1 replicas"
    ]
    assert told([scoped, RANGE], replicas(1)) == []


TOO_MUCH = (
    'Pod "p" is invalid: spec.containers[0].resources.requests: '
    'Invalid value: "4": must be less than or equal to cpu limit of 2'
)
DRY_RUNS: list[tuple[str, list[Obj], Obj, str]] = [
    ("nothing fills in", [ENFORCED], {}, f'pods "p" is forbidden: failed quota: compute: {MISSING}'),
    ("a range does", [ENFORCED, RANGE], {}, ""),
    ("of another namespace", [ENFORCED, limit_range(*RANGE["spec"]["limits"], namespace="other")], {},
        f'pods "p" is forbidden: failed quota: compute: {MISSING}'),
    ("a default limit below what is asked for", [RANGE], both({"cpu": "4"}), TOO_MUCH),
]  # fmt: skip


@pytest.mark.parametrize(("state", "given", "answer"), [c[1:] for c in DRY_RUNS], ids=[c[0] for c in DRY_RUNS])
def test_the_api_server_judges_what_limit_ranges_made_of_a_pod(state: list[Obj], given: Obj, answer: str) -> None:
    cache = Cache()
    for obj in state:
        cache.add(obj)
    spec = {"containers": [{"name": "c", "image": "i", "resources": given}]}
    found = dry_run(ReviewedObject({**pod(namespace="team", uid="told"), "spec": spec}), cache.snapshot())
    assert (found.allowed, found.message) == (not answer, answer)
