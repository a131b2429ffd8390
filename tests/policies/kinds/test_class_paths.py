"""Custom resources: where they name classes, and what the configuration may say of that."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from forewarn.policies.cli.main import main
from forewarn.policies.kubernetes.kinds.class_paths import (
    ANYWHERE,
    ITEMS,
    PARAMETERS,
    PRESETS,
    VALUES,
    BadPath,
    parse_path,
)
from forewarn.policies.kubernetes.objects.workload import parts_of
from forewarn.policies.linting.config.load import read_config
from forewarn.policies.linting.config.model import ConfigError
from forewarn.webhook.admission.review import Hook
from tests.cases import each
from tests.webhook.builders import cluster, decided, priority_class, review

if TYPE_CHECKING:
    from pathlib import Path

    from forewarn.policies.kubernetes.kinds.class_paths import ClassPath

CLASSES = "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: gold}\nvalue: 1\n---\n"


def built(path: ClassPath, name: str) -> Any:
    """An object that names a class where a path says."""
    value: Any = name if path.is_name else {"spec": {"priorityClassName": name}}
    for step in reversed(path.steps):
        if step in (ITEMS, PARAMETERS):
            value = [{}, {"name": "a.priorityClassName", **value}]
        elif step == ANYWHERE:
            value = {"a": [{"schedulerPriorityClassName": value}]}
        else:
            value = {"any" if step == VALUES else step: value}
    return value


@each(lambda: ((kind, path) for kind, paths in PRESETS.items() for path in paths))
def test_every_preset_leads_to_its_class(kind: str, path: ClassPath) -> None:
    group, _, name = kind.rpartition("/")
    obj = {"apiVersion": f"{group}/v1", "kind": name, **built(path, "gold")}
    (part,) = parts_of(obj, PRESETS)
    where: Any = obj
    for step in part.at("priorityClassName"):
        where = where[step]
    assert where == part.spec["priorityClassName"] == "gold"


def test_all_the_kinds_that_were_promised_are_there() -> None:
    kinds = {kind.rpartition("/")[2] for kind in PRESETS}
    assert kinds >= {
        *("JobSet", "Job", "RayCluster", "RayJob", "RayService", "TrainingRuntime", "PyTorchJob", "TFJob", "MPIJob"),
        *("Rollout", "Workflow", "CronWorkflow", "LeaderWorkerSet", "Prometheus", "Alertmanager", "CephCluster"),
        *("Service", "SparkApplication", "PipelineRun", "TaskRun", "Elasticsearch", "InferenceService"),
        *("KafkaNodePool", "SparkCluster", "Klusterlet", "ClusterColocationProfile", "HelmRelease", "Application"),
    }


def test_a_finding_stands_where_the_class_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.yaml"
    path.write_text(
        f"{CLASSES}apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nmetadata: {{name: j}}\nspec:\n"
        "  priorityClassName: glod\n  tasks:\n  - {template: {spec: {priorityClassName: gold}}}\n"
        "  - {template: {spec: {priorityClassName: silver}}}\n"
    )
    assert main(["lint", str(path), "--closed"]) == 1
    found = [line for line in capsys.readouterr().out.splitlines() if "error" in line]
    assert [line.removeprefix(f"{path}:").partition(": ")[0] for line in found] == ["10:22", "13:43"]
    assert 'Did you mean "gold"?' in found[0]


@pytest.mark.parametrize("value", [None, 7, "x", [], [None, 3, "x", [[]]], {"spec": []}, {"tasks": {"template": 1}}])
def test_what_is_not_as_it_should_be_holds_no_class(value: Any) -> None:
    for kind in PRESETS:
        group, _, name = kind.rpartition("/")
        assert not list(parts_of({"apiVersion": f"{group}/v1", "kind": name, "spec": value}, PRESETS))


@pytest.mark.parametrize(
    "text",
    ["", ".spec", "spec..template", "$.spec.template", "/spec/template", "spec/template", "spec.tasks[0].template",
     "spec.tasks[*", "spec.tasks[].template", "spec.t*.template", "*.template", "metadata.annotations",
     "status.template", "spec.template.spec.priorityClassName", "spec.tasks[*]", "spec.a b"],
)  # fmt: skip
def test_a_wrong_path_is_refused_when_it_is_read(text: str) -> None:
    with pytest.raises(BadPath):
        parse_path(text)
    with pytest.raises(ConfigError, match=r"^f:2:\d+: podTemplatePaths"):
        read_config(f"podTemplatePaths:\n  example.com/Fleet: '{text}'", "f")


def test_kinds_of_kubernetes_and_empty_lists_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"Deployment is a built-in kind\. Fix: list custom kinds only"):
        read_config("podTemplatePaths: {apps/Deployment: spec.template}", "f")
    with pytest.raises(ConfigError, match="names no path of"):
        read_config("priorityClassPaths: {example.com/Fleet: []}", "f")


def test_configuration_replaces_what_is_known_of_a_kind() -> None:
    text = "podTemplatePaths: {batch.volcano.sh/Job: 'spec.own[*].template', argoproj.io/Rollout: spec.template}\n"
    options = read_config(text + "priorityClassPaths: {argoproj.io/Rollout: [spec.a, spec.b.*]}", "f").options
    assert options.class_paths["batch.volcano.sh/Job"] == (
        parse_path("spec.own[*].template"),
        parse_path("spec.priorityClassName", is_name=True),
    )
    assert options.pod_template_paths["argoproj.io/Rollout"] == ("spec", "template")
    assert [path.steps for path in options.class_paths["argoproj.io/Rollout"]] == [("spec", "a"), ("spec", "b", "*")]


GROUP = """\
apiVersion: scheduling.k8s.io/v1beta1
kind: PodGroup
metadata: {name: train, namespace: ml}
spec: {priorityClassName: NAME, schedulingPolicy: {basic: {}}}
"""
TEMPLATES = """\
apiVersion: scheduling.k8s.io/v1beta1
kind: Workload
metadata: {name: train, namespace: ml}
spec:
  podGroupTemplates:
  - {name: first, priorityClassName: NAME, schedulingPolicy: {basic: {}}}
"""
UNKNOWN = {GROUP: "spec.priorityClassName", TEMPLATES: "spec.podGroupTemplates[0].priorityClassName"}


@pytest.mark.parametrize(("text", "path"), UNKNOWN.items(), ids=["PodGroup", "Workload"])
@pytest.mark.parametrize(
    ("name", "rules"),
    [
        ("gold", []),
        ("glod", ["unknown-priority-class"]),
        ("system-node-critical", ["group-priority-too-high", "system-class-outside-kube-system"]),
    ],
)
def test_pod_groups_and_workloads_are_linted(
    name: str, rules: list[str], text: str, path: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.yaml").write_text(CLASSES + text.replace("NAME", name))
    main(["lint", str(tmp_path), "--closed", "-o", "json"])
    found = json.loads(capsys.readouterr().out)["findings"]
    assert sorted(each["rule"] for each in found) == rules
    assert {each["field"] for each in found} <= {path}


@pytest.mark.parametrize("text", UNKNOWN, ids=["PodGroup", "Workload"])
def test_the_webhook_validates_them(text: str) -> None:
    (obj,) = yaml.safe_load_all(text.replace("NAME", "glod"))
    kind = {"group": "scheduling.k8s.io", "version": "v1beta1", "kind": obj["kind"]}
    resource = {"group": "scheduling.k8s.io", "version": "v1beta1", "resource": f"{obj['kind'].lower()}s"}
    given = review({**obj, "kind": "Pod"}, kind=kind, resource=resource)
    given["request"]["object"] = obj
    found = decided(Hook.VALIDATE, given)
    assert "unknown-priority-class" in repr(found)


@pytest.mark.parametrize("text", UNKNOWN, ids=["PodGroup", "Workload"])
def test_a_class_that_they_name_is_in_use(text: str) -> None:
    (obj,) = yaml.safe_load_all(text.replace("NAME", "gold"))
    gone = review(None, "DELETE", oldObject=priority_class("gold", 1000))
    assert f"{obj['kind']} ml/train" in repr(decided(Hook.VALIDATE, gone, state=cluster(obj)))
    assert f"{obj['kind']} ml/train" not in repr(decided(Hook.VALIDATE, gone, state=cluster()))
