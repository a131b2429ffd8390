"""The Python API: it is imported when it is used, and a question neither prints nor changes its cluster."""

from __future__ import annotations

import json
import math
import re
import runpy
import subprocess
import sys
from collections import Counter
from functools import cache
from pathlib import Path
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any

import pytest

import forewarn
import forewarn.types
from forewarn import policies
from forewarn.policies.base.findings import described
from forewarn.policies.inputs.sources.files import status_of
from forewarn.policies.questions.application.changes import Change
from forewarn.policies.questions.whatif.sweep import Tally

sys.path.append("docs")
import python_page  # type: ignore[import-not-found]

CONTAINER = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1500m"}}}
CLUSTER = "docs/examples/whatif/cluster.yaml"
GOLD = {
    "apiVersion": "scheduling.k8s.io/v1",
    "kind": "PriorityClass",
    "metadata": {"name": "urgent"},
    "value": 200_000,
}
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "new"},
    "spec": {"priorityClassName": "urgent", "containers": [CONTAINER]},
}
GROUP = [
    {
        "apiVersion": "scheduling.k8s.io/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "g"},
        "spec": {"priorityClassName": "gold", "schedulingPolicy": {"gang": {"minCount": 2}}},
    },
    *(
        POD
        | {
            "metadata": {"name": name},
            "spec": {
                "priorityClassName": "gold",
                "schedulingGroup": {"podGroupName": "g"},
                "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "2"}}}],
            },
        }
        for name in "ab"
    ),
]
CHANGES: list[Change] = [
    forewarn.LoseNodes(["a-1"]),
    forewarn.LoseZone("a"),
    forewarn.LosePool("topology.kubernetes.io/zone=a"),
    forewarn.Drain("a-1"),
    forewarn.Upgrade(max_surge=1),
    forewarn.Add(node="a-1", count=2),
    forewarn.Restart("deployment/web", namespace="shop"),
    forewarn.Scale("deployment/web", 6, namespace="shop"),
    forewarn.Apply([GOLD, POD]),
    forewarn.ChangeClass("batch", value=200_000),
    forewarn.Events(manifests=[GOLD, POD], runs=2),
]


class Cancelled(Exception):
    pass


def test_an_import_imports_no_command_and_no_question() -> None:
    code = "import sys, forewarn; print([m for m in sys.modules if m in ('numpy', 'yaml') or 'policies.' in m])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "[]"


def test_type_checkers_read_the_types_of_the_package() -> None:
    assert (Path(forewarn.__file__).parent / "py.typed").exists(), "PEP 561: in the top-level package, for all below it"


@pytest.mark.parametrize("name", forewarn.__all__)
def test_each_name_exists(name: str) -> None:
    assert getattr(forewarn, name)


@pytest.mark.parametrize("name", policies.__all__)
def test_each_name_of_the_policies_exists(name: str) -> None:
    assert getattr(policies, name)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="prediction"):
        getattr(forewarn, "prediction")  # noqa: B009


if TYPE_CHECKING:
    _ = forewarn.lintt  # type: ignore[attr-defined]  # mypy reports unknown names, also as an unused ignore


@cache
def python_reference() -> str:
    page: str = python_page.page()
    return page


def test_the_page_describes_each_type_that_it_names_once() -> None:
    public = python_page.exported()
    types = [item for item in (*public, *python_page.inside(public)) if isinstance(item, type)]
    names = Counter(item.__name__ for item in types)
    assert [name for name, count in names.items() if count > 1] == []
    assert {"Headroom", "Prediction", "Finding", "Trouble", "Origin", "CountedReason"} <= names.keys()
    page = python_reference()
    named = set(re.findall(r"^    (?:#.*|\w+: ([^#=\n]+))", page, re.MULTILINE))
    words = {word for hint in named for word in re.findall(r"\b[A-Z]\w+", re.sub("'[^']*'", "", hint))}
    generic = {
        "Any",
        "Callable",
        "Counter",
        "Exception",
        "Literal",
        "Manifest",
        "Mapping",
        "ModuleType",
        "None",
        "PathLike",
        "Sequence",
    }
    assert words - generic - names.keys() == set()


def test_the_types_of_parts_of_results_have_names() -> None:
    parts = {item.__name__: item for item in python_page.inside(python_page.exported())}
    assert {name: item for name, item in vars(forewarn.types).items() if name[0] != "_"} == parts


def test_the_page_shows_types_that_a_type_checker_accepts() -> None:
    page = python_reference()
    assert 'kind: Literal["node", "zone"],' in page
    assert "again: Recreator = Recreator.CONTROLLER" in page
    assert "STATES" not in page
    names = {"Context", "Problem", "ReviewedObject", "Severity", "Target", "RenderRequest", "Recreator", "Loss"}
    assert names | {"Diagnosis"} <= {*forewarn.__all__}


def test_the_number_of_lost_replicas_is_the_sum_of_its_workloads() -> None:
    cluster = forewarn.load(CLUSTER)
    for change in CHANGES:
        answer = forewarn.whatif(cluster, change)
        assert answer.counters.lost == sum(workload.lost for workload in answer.workloads), change


def test_the_page_shows_the_methods_of_results() -> None:
    page = python_reference()
    assert "def to_dict() -> dict[str, Any]: ..." in page
    assert "def least(" in page


def test_a_question_does_not_change_the_cluster(capfd: pytest.CaptureFixture[str]) -> None:
    cluster = forewarn.load(CLUSTER)
    before = {repr(change): forewarn.whatif(cluster, change).to_dict() for change in CHANGES}
    after = {repr(change): forewarn.whatif(cluster, change).to_dict() for change in reversed(CHANGES)}
    assert before == after
    assert "urgent" not in cluster.snapshot.priority_classes
    assert capfd.readouterr() == ("", "")


def test_a_removed_object_stays_in_a_copy_and_in_the_original() -> None:
    cache = forewarn.load(CLUSTER).cache
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a-1"}}
    pod = next(iter(cache.snapshot().pods.values()))
    obj = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": pod.name, "namespace": pod.namespace}}
    copy = cache.copy()
    copy.remove(node)
    copy.remove(obj)
    cache.add({**POD, "metadata": {"name": "added", "namespace": "default"}})
    assert len(copy.snapshot().pods) == 7
    assert len(cache.snapshot().pods) == 9
    assert len(copy.snapshot().scheduling.node_infos) == 3
    assert len(cache.snapshot().scheduling.node_infos) == 4


def test_a_short_repr() -> None:
    cluster = forewarn.load(CLUSTER)
    assert repr(cluster) == f"<Cluster {CLUSTER}: 4 nodes, 8 Pods, Kubernetes {cluster.snapshot.semantics.release}>"
    answer = forewarn.whatif(cluster, forewarn.LoseZone("a"))
    assert repr(answer) == "<WhatIf zone a lost (2 of 4 nodes): 2 Pods preempted, 4 stay Pending>"
    assert repr(forewarn.risk(cluster)) == (
        "<Risks risks of 2 workloads: 1 loses replicas with a lost zone, 1 with a lost node>"
    )
    assert (
        repr(forewarn.whatif_each(cluster, "zone"))
        == "<Sweep each of 2 zones lost alone: 2 do harm; worst zone a: 4 replicas lost>"
    )
    fitting = forewarn.headroom(cluster, "docs/examples/headroom/cache.yaml")
    room = "Deployment shop/cache (gold; 0.5 cpu, 6Gi memory): 4 more Pods fit, 8 with preemption"
    assert repr(fitting) == f"<HeadroomResult {room}>"
    result = forewarn.predict(cluster, "docs/examples/test/till.yaml")
    assert repr(result) == "<PredictResult Deployment shop/till: the new Pod runs on b-2 by preemption>"
    assert repr(result.predictions) == "[<Prediction shop/till-0: preempts reports/nightly-4 on b-2>]"
    of_groups = forewarn.load(CLUSTER, kubernetes_version="1.37", feature_gates={"GenericWorkload": True})
    of_group = forewarn.predict(of_groups, GROUP)
    assert (of_group.outcomes, of_group.predicted.effects().victims) == ({"preempts": 2}, 2)
    plan = forewarn.plan_classes(cluster, forewarn.ClassPlanRequest([GOLD]))
    assert repr(plan) == ("<ClassPlan change of PriorityClasses in 1 step: no Pod preempted, newly Pending or lost>")
    change = forewarn.whatif(cluster, forewarn.ChangeClass("batch", value=200_000)).class_change
    assert repr(change).startswith("<ClassChange PriorityClass batch deleted and recreated (value ")
    assert repr(cluster.autoscaling) == "<Autoscaling 0 node groups; new nodes after 3 min; cutoff -10>"
    assert len(repr(next(iter(cluster.snapshot.pods.values())))) < 80


def test_a_repr_has_one_line_of_at_most_200_characters() -> None:
    shown = described(0, "long\n" * 100)
    assert (len(shown), shown[:15], shown[-2:]) == (200, "<int long long ", "…>")


def test_autoscaling_takes_no_positional_arguments() -> None:
    with pytest.raises(TypeError):
        forewarn.Autoscaling(-10)  # type: ignore[call-arg]
    assert forewarn.Autoscaling(cutoff=5).node_delay == forewarn.Autoscaling().node_delay


def test_a_path_can_be_a_path_object(tmp_path: Path) -> None:
    snapshot, manifest = Path(CLUSTER), Path("docs/examples/test/till.yaml")
    cluster = forewarn.load(snapshot)
    assert cluster.nodes == forewarn.load(CLUSTER).nodes
    assert forewarn.predict(cluster, manifest).outcomes == forewarn.predict(cluster, [str(manifest)]).outcomes
    assert forewarn.headroom(cluster, [manifest]).objects
    assert forewarn.whatif(cluster, forewarn.Apply(manifest)).answer.change == "Deployment shop/till applied"
    (tmp_path / "events.yaml").write_text("- {at: 1m, drain: a-1}")
    changed = forewarn.whatif(cluster, forewarn.Events(tmp_path / "events.yaml", manifest)).answer.change
    assert changed == "Deployment shop/till applied, 1 event"
    assert forewarn.lint(manifest, definitions=[snapshot]).files == [str(manifest)]
    assert forewarn.test(
        cluster, forewarn.ExpectationsRequest([Path("docs/examples/test/expectations.yaml")])
    ).expectations
    assert forewarn.test(cluster, Path("docs/examples/test/expectations.yaml")).expectations
    compared = forewarn.diff(forewarn.DiffRequest(tmp_path, tmp_path, [tmp_path / "events.yaml"]))
    assert not compared.objects
    (tmp_path / "config.yaml").write_text("{}")
    assert forewarn.load(snapshot, config=tmp_path / "config.yaml").zones == ["a", "b"]
    assert forewarn.plan_classes(cluster, forewarn.ClassPlanRequest([manifest])).plan.steps is not None


@pytest.mark.parametrize("question", ["whatif", "risk", "whatif_each"])
def test_an_exception_of_progress_cancels_a_question(question: str) -> None:
    def progress(_done: float, _total: int) -> None:
        raise Cancelled

    cluster = forewarn.load(CLUSTER)
    arguments = {"whatif": (forewarn.LoseZone("a"),), "whatif_each": ("zone",)}.get(question, ())
    with pytest.raises(Cancelled):
        getattr(forewarn, question)(cluster, *arguments, progress=progress)


def test_errors_have_the_exit_status_of_commands(tmp_path: Path) -> None:
    cluster = forewarn.load(CLUSTER)
    with pytest.raises(forewarn.InvalidInput, match="no node matches zone c; known: a, b") as unknown:
        forewarn.whatif(cluster, forewarn.LoseZone("c"))
    with pytest.raises(forewarn.InvalidInput, match='no rule "preempt"'):
        forewarn.lint("docs/examples/lint", select=["preempt"])
    (tmp_path / "forewarn.yaml").write_text("actions: {pinned: deny}")
    with pytest.raises(forewarn.ConfigError, match="pinned"):
        forewarn.lint("docs/examples/lint", config=str(tmp_path / "forewarn.yaml"))
    with pytest.raises(forewarn.SourceError, match="no such file") as missing:
        forewarn.load(str(tmp_path / "cluster.json"))
    (tmp_path / "web.yaml").write_text("kind: [")
    with pytest.raises(forewarn.SourceError) as unreadable:
        forewarn.whatif(cluster, forewarn.Apply(str(tmp_path / "web.yaml")))
    assert [status_of(raised.value) for raised in (unknown, missing, unreadable)] == [2, 2, 3]


def delayed(seconds: float) -> forewarn.Autoscaling:
    return forewarn.Autoscaling(node_delay=seconds)


@pytest.mark.parametrize(
    ("question", "arguments", "message"),
    [
        ("predict", [[]], "no manifest given"),
        ("headroom", [[]], "no manifest given"),
        ("whatif", [forewarn.Apply([])], "no manifest given"),
        ("whatif", [forewarn.Events()], "neither events nor manifests given"),
        ("whatif", [forewarn.Drain([])], "no node given"),
        ("predict", [{"kind": "Foo"}], "an API object has no apiVersion and kind"),
        ("headroom", [{"kind": "Pod"}], "an API object has no apiVersion and kind"),
        ("predict", [{"apiVersion": "v1", "kind": "ConfigMap"}], "no Pod or workload found; found only ConfigMap"),
        ("whatif", [forewarn.Apply({"apiVersion": "v1", "kind": "Event"})], "no object that can be simulated"),
        ("whatif_each", ["zne"], '"zne": not a kind of cases; known: node, zone'),
        ("headroom", [forewarn.HeadroomRequest(POD, autoscaling="groups.yaml")], "autoscaling must be an Autoscaling"),  # type: ignore[arg-type]
        ("whatif_each", ["node"], "until must be above 0"),
        ("risk", [], "limit is -1"),
        ("whatif", [forewarn.Upgrade(max_unavailable=0)], "max_unavailable is 0. Fix: set it to 1 or more"),
        ("whatif", [forewarn.Upgrade(max_surge=-1)], "max_surge is -1"),
        ("whatif", [forewarn.Upgrade(away=-5.0)], "away is -5"),
        ("predict", [forewarn.PredictRequest(POD, autoscaling=delayed(-5.0))], "node_delay is -5.0. Fix: set it to 0"),
        (
            "predict",
            [forewarn.PredictRequest(POD, autoscaling=delayed(math.inf))],
            "node_delay is inf. Fix: set it to None",
        ),
        ("predict", [forewarn.PredictRequest(POD, autoscaling=delayed(math.nan))], "node_delay is nan"),
        ("whatif", [forewarn.Add(node="a", count=-2)], "count is -2"),
        ("whatif", [forewarn.Scale("deployment/web", -1)], "replicas is -1"),
        ("whatif", [forewarn.Events(manifests=POD, runs=0)], "runs is 0"),
        ("predict", [forewarn.PredictRequest(POD, replicas=-1)], "replicas is -1"),
        ("headroom", [forewarn.HeadroomRequest(POD, placeholders=-1)], "placeholders is -1"),
        ("headroom", [forewarn.HeadroomRequest(POD, workload="deployment/web")], "workload and manifests are given"),
        ("whatif", [forewarn.ChangeClass("x", 1, workloads=["a=b"], manifests=POD)], "workloads and manifests are giv"),
    ],
)
def test_a_request_that_asks_for_nothing_or_names_an_unknown_thing_is_invalid(
    question: str, arguments: list[Any], message: str
) -> None:
    cluster, name = forewarn.load(CLUSTER), message.partition(" ")[0]
    more = {name: -1} if name in ("until", "limit") else {}
    with pytest.raises(forewarn.InvalidInput, match=message):
        getattr(forewarn, question)(cluster, *arguments, **more)


@pytest.mark.parametrize("call", ["load", "lint"])
def test_a_question_without_any_path_is_invalid(call: str) -> None:
    with pytest.raises(forewarn.InvalidInput, match=r"no source given|no path given"):
        getattr(forewarn, call)(*([[]] if call == "lint" else []))


def test_lint_raises_for_a_path_that_does_not_exist() -> None:
    with pytest.raises(forewarn.SourceError, match="no such file"):
        forewarn.lint(["docs/examples/lint", "/nonexistent"])


def test_a_rejected_manifest_is_an_invalid_object_in_each_question() -> None:
    cluster = forewarn.load(CLUSTER)
    with pytest.raises(forewarn.InvalidObject, match="urgent"):
        forewarn.whatif(cluster, forewarn.Apply(POD))
    for question in (forewarn.predict, forewarn.headroom):
        with pytest.raises(forewarn.InvalidObject, match="urgent"):
            question(cluster, POD)
    both = [POD, POD | {"metadata": {"name": "b"}, "spec": {"containers": [CONTAINER]}}]
    (fault,) = forewarn.predict(cluster, both).faults
    assert isinstance(fault, forewarn.InvalidObject)
    assert [str(fault) for fault in forewarn.whatif(cluster, forewarn.Apply(both)).faults] == [str(fault)]


@pytest.mark.parametrize("change", [forewarn.MaxReplicas(), forewarn.ChangeClass("new", default=True)])
def test_a_message_names_no_option_of_a_command(change: Change) -> None:
    with pytest.raises(forewarn.ForewarnError, match=r"Fix: (add|give)") as raised:
        forewarn.whatif(forewarn.load(CLUSTER), change)
    assert "--" not in str(raised.value)


def test_one_exception_is_the_parent_of_all_errors() -> None:
    errors = (forewarn.SourceError, forewarn.InvalidObject, forewarn.InvalidInput, forewarn.ConfigError)
    assert all(issubclass(error, forewarn.ForewarnError) for error in errors)


def test_a_question_is_cancelled_while_a_case_is_simulated(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = list[tuple[float, int]]()

    def slow(_tally: object, _simulation: object, _question: object) -> dict[str, Any]:
        sleep(60)
        return {}

    def progress(done: float, total: int) -> None:
        counts.append((done, total))
        if len(counts) == 3:
            raise Cancelled

    monkeypatch.setattr(Tally, "measure", slow)
    cluster, start = forewarn.load(CLUSTER), monotonic()
    with pytest.raises(Cancelled):
        forewarn.whatif_each(cluster, "zone", progress=progress)
    assert monotonic() - start < 20
    assert counts == [(0, 2)] * 3


def test_progress_of_a_simulation_starts_at_0_seconds() -> None:
    times = list[float]()
    forewarn.whatif(forewarn.load(CLUSTER), forewarn.LoseZone("a"), progress=lambda seconds, _: times.append(seconds))
    assert times[0] == 0.0 == min(times)


@pytest.mark.parametrize("workloads", [forewarn.Workloads(priority_class=""), forewarn.Workloads("default")])
def test_risk_of_no_running_workload_is_empty(workloads: forewarn.Workloads) -> None:
    snapshot = "docs/examples/whatif/cluster.yaml"
    risks = forewarn.risk(forewarn.load(snapshot), workloads)
    assert (risks.workloads, risks.simulated) == ([], (0, 0))
    with pytest.raises(forewarn.InvalidInput, match="shp"):
        forewarn.risk(forewarn.load(snapshot), forewarn.Workloads("shp"))


def test_a_row_has_the_name_of_its_node_or_zone() -> None:
    cluster = forewarn.load(CLUSTER)
    assert {row.name for row in forewarn.whatif_each(cluster, "zone").cases} == {*cluster.zones}
    assert {row.name for row in forewarn.whatif_each(cluster, "node").cases} == {*cluster.nodes}


def test_node_groups_of_a_file_count_in_each_question(tmp_path: Path) -> None:
    groups = tmp_path / "groups.yaml"
    capacity = "{cpu: 4, memory: 8Gi, pods: 110}"
    groups.write_text(f"- {{name: spot, size: 1, maxSize: 4, template: {{status: {{capacity: {capacity}}}}}}}")
    cluster = forewarn.load(CLUSTER, node_groups=str(groups))
    assert cluster.autoscaling.grows
    fitting = forewarn.headroom(cluster, "docs/examples/headroom/cache.yaml").least()
    assert fitting.node_groups is not None
    assert [(group.group, group.nodes) for group in fitting.node_groups] == [("spot", 3)]
    groups.write_text("- {name: spot, sizes: 1}")
    with pytest.raises(forewarn.ConfigError, match="sizes"):
        forewarn.load(CLUSTER, node_groups=str(groups))


def test_headroom_of_a_workload_of_the_cluster() -> None:
    cluster = forewarn.load(CLUSTER)
    result = forewarn.headroom(cluster, forewarn.HeadroomRequest(workload="deployment/web", namespace="shop"))
    assert [obj.headroom.name for obj in result.objects] == ["Deployment shop/web"]
    with pytest.raises(forewarn.InvalidInput, match="wbe not found"):
        forewarn.headroom(cluster, forewarn.HeadroomRequest(workload="deployment/wbe", namespace="shop"))


@pytest.mark.parametrize("question", ["whatif", "risk", "whatif_each"])
def test_a_question_without_the_lists_that_it_needs_has_no_answer(question: str, tmp_path: Path) -> None:
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a-1"}}
    (tmp_path / "nodes.yaml").write_text(json.dumps(node))
    cluster = forewarn.load(str(tmp_path / "nodes.yaml"))
    arguments = {"whatif": (forewarn.LoseNodes(["a-1"]),), "whatif_each": ("node",)}.get(question, ())
    with pytest.raises(forewarn.SourceError, match=r"nodes.yaml: no list of Pods, which the answer depends on"):
        getattr(forewarn, question)(cluster, *arguments)


@pytest.mark.parametrize("path", sorted(Path("docs/examples/python").glob("*.py")), ids=str)
def test_examples_run(path: Path) -> None:
    if path.name.startswith("test_"):
        assert pytest.main(["-q", "-p", "no:cacheprovider", str(path)]) == 0
    else:
        runpy.run_path(str(path))
