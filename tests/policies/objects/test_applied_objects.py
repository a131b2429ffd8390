"""What `kubectl apply` of a manifest makes of a stored workload."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import pytest

from forewarn.policies.cli.main import main
from forewarn.policies.kubernetes.objects.workload import LAST_APPLIED, applied_to
from forewarn.policies.linting.rules.support.predictions import restarted
from forewarn.policies.prediction.simulation.scenario import Arrival
from forewarn.policies.questions.application.simulated import checked, rejected
from tests.builders import Made, cluster_text, make_node
from tests.builders import cluster as make_cluster

if TYPE_CHECKING:
    from pathlib import Path


def workload(container: dict[str, Any] | None = None, pod: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    containers = [{"name": "c", **container}] if container else []
    return {"spec": {**spec, "template": {"spec": {"containers": containers, **(pod or {})}}}}


def named(**values: Any) -> list[dict[str, Any]]:
    return [{"name": name, **value} for name, value in values.items()]


IMAGE = {"image": "i"}


@pytest.mark.parametrize(
    ("stored", "before", "given", "result"),
    [
        pytest.param({"replicas": 4}, {}, {}, {"replicas": 4}, id="a field of the cluster alone stays"),
        pytest.param({"replicas": 4}, {"replicas": 2}, {}, {}, id="a removed field is removed"),
        pytest.param({"replicas": 4}, {"replicas": 2}, {"replicas": None}, {}, id="null removes a field"),
        pytest.param(
            {"requests": {"cpu": "1000m"}},
            {},
            {"requests": {"cpu": 1}},
            {"requests": {"cpu": "1000m"}},
            id="another notation is no change",
        ),
        pytest.param({"labels": {"v": "1"}}, {}, {"labels": {"v": "1.0"}}, {"labels": {"v": "1.0"}}, id="no quantity"),
        pytest.param({"a": [{"p": 1, "q": 2}]}, {}, {"a": [{"p": 1}]}, {"a": [{"p": 1, "q": 2}]}, id="defaults"),
        pytest.param({"a": [1, 2]}, {"a": [1]}, {"a": [3]}, {"a": [3]}, id="a list without names is replaced"),
        pytest.param(
            {"strategy": {"type": "RollingUpdate", "rollingUpdate": {}}},
            {},
            {"strategy": {"type": "Recreate"}},
            {"strategy": {"type": "Recreate"}},
            id="a strategy keeps only the keys of the manifest",
        ),
        pytest.param(
            {"volumes": named(v={"configMap": {"name": "x", "defaultMode": 420}}, w={"emptyDir": {}})},
            {"volumes": named(w={"emptyDir": {}})},
            {"volumes": named(v={"configMap": {"name": "y"}})},
            {"volumes": named(v={"configMap": {"name": "y", "defaultMode": 420}})},
            id="volumes by name",
        ),
        pytest.param(
            {"volumes": named(v={"configMap": {"name": "x"}})},
            {},
            {"volumes": named(v={"secret": {"secretName": "x"}})},
            {"volumes": named(v={"secret": {"secretName": "x"}})},
            id="another source of a volume",
        ),
        pytest.param(
            {"env": named(a={"value": "1"}, injected={"value": "2"})},
            {"env": named(a={"value": "1"})},
            {"env": named(b={"value": "3"})},
            {"env": named(injected={"value": "2"}, b={"value": "3"})},
            id="environment variables by name",
        ),
        pytest.param(
            {"env": [*named(a={"value": "1"}), {}]},
            {},
            {"env": []},
            {"env": []},
            id="an element without name",
        ),
    ],
)
def test_an_apply_merges_the_stored_object(
    stored: dict[str, Any], before: dict[str, Any], given: dict[str, Any], result: dict[str, Any]
) -> None:
    assert applied_to(workload(IMAGE, **stored), workload(IMAGE, **given), workload(IMAGE, **before)) == workload(
        IMAGE, **result
    )


@pytest.mark.parametrize(
    ("stored", "before", "given", "result"),
    [
        ({"ports": []}, IMAGE, IMAGE, {"ports": []}),
        ({"ports": []}, IMAGE, {"image": "j"}, {"ports": [], "image": "j"}),
        ({"image": "j"}, IMAGE, IMAGE, IMAGE),
        ({"image": "j"}, {**IMAGE, "command": ["x"]}, {**IMAGE, "command": ["x"]}, {**IMAGE, "command": ["x"]}),
    ],
)
def test_what_a_redacted_snapshot_lacks_changes_only_with_the_manifests(
    stored: dict[str, Any], before: dict[str, Any], given: dict[str, Any], result: dict[str, Any]
) -> None:
    assert applied_to(workload(stored), workload(given), workload(before)) == workload(result)


MANIFEST = json.dumps(workload(IMAGE, {"initContainers": named(a=IMAGE)}))
EMPTY = json.dumps(workload(IMAGE))


@pytest.mark.parametrize(
    ("annotation", "before", "kept"),
    [
        pytest.param(None, {}, ["a", "b"], id="unknown"),
        pytest.param("", {}, ["a", "b"], id="empty"),
        pytest.param(None, json.loads(MANIFEST), ["b"], id="the previous manifest"),
        pytest.param(MANIFEST, {}, ["b"], id="last applied"),
        pytest.param(EMPTY, json.loads(MANIFEST), ["a", "b"], id="last applied before the previous manifest"),
        pytest.param('{"spec": {"template": []}}', {}, ["a", "b"], id="without template"),
    ],
)
def test_an_apply_removes_what_the_last_one_had(
    annotation: str | None, before: dict[str, Any], kept: list[str]
) -> None:
    stored, given = (
        workload(IMAGE, {"initContainers": named(**dict.fromkeys(names, IMAGE))}) for names in (["a", "b"], ["c"])
    )
    stored["metadata"] = {"annotations": {LAST_APPLIED: annotation}} if annotation is not None else {}
    found = applied_to(stored, given, before)["spec"]["template"]["spec"]["initContainers"]
    assert [container["name"] for container in found] == [*kept, "c"]


def test_the_last_apply_is_parsed_once_for_several_questions() -> None:
    stored = {**workload(IMAGE), "metadata": {"annotations": {LAST_APPLIED: MANIFEST + " "}}}
    with patch("json.loads", wraps=json.loads) as loads:
        assert applied_to(stored, workload(IMAGE)) == applied_to(stored, workload(IMAGE))
    assert loads.call_count == 1


@pytest.mark.parametrize("annotation", ["{", "[]", "[" * 100_000, f'{{"a": "{"x" * 256 * 1024}"}}', "1" * 5000])
def test_kubectl_rejects_what_it_cannot_read_of_the_last_apply(annotation: str) -> None:
    stored = Made("apps/v1", "Deployment", "web", "team").metadata(annotations={LAST_APPLIED: annotation, "a": "b"})
    stored.spec(template={"spec": {"containers": named(c=IMAGE)}})
    cluster = make_cluster(stored)
    kept = cluster.workloads["apps/Deployment", "team", "web"].object
    assert (kept["metadata"]["annotations"]["a"], kept["spec"]) == ("b", stored.obj["spec"])
    assert len(kept["metadata"]["annotations"][LAST_APPLIED]) <= 256 * 1024 + 1
    given = Made("apps/v1", "Deployment", "web", "team").spec(**stored.obj["spec"]).obj
    assert applied_to(kept, given)["spec"] == stored.obj["spec"]
    problems = [str(fault) for _, fault in rejected(cluster, [given])]
    fix = "not a manifest in JSON. Fix: kubectl apply edit-last-applied"
    assert problems == [f"Deployment team/web: metadata.annotations.{LAST_APPLIED}: {fix}"]
    edits = [Arrival(0, "update", restarted(kept).object), Arrival(0, "scale", {**stored.obj, "replicas": 2})]
    assert [rejected(cluster, *checked([edit])) for edit in edits] == [[], []]
    assert [str(fault) for _, fault in rejected(cluster, *checked([Arrival(0, "create", given)]))] == problems


@pytest.mark.parametrize("command", ["whatif apply -f", "predict -f"])
def test_an_unreadable_last_apply_is_not_in_the_file(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": named(c=IMAGE)}}
    spec = {"selector": {"matchLabels": labels}, "template": template}
    stored = Made("apps/v1", "Deployment", "web", "team").metadata(annotations={LAST_APPLIED: "{"}).spec(**spec)
    given = Made("apps/v1", "Deployment", "web", "team").metadata(annotations={}).spec(**spec)
    (tmp_path / "web.json").write_text(json.dumps(given.obj))
    (tmp_path / "dump.json").write_text(cluster_text([make_node("n1"), stored]))
    assert main([*command.split(), str(tmp_path / "web.json"), "--cluster", str(tmp_path / "dump.json")]) == 3
    lines = "".join(capsys.readouterr()).splitlines()
    assert any("last-applied" in line for line in lines)
    assert not any("last-applied" in line and "web.json" in line for line in lines)


def test_without_an_earlier_manifest_only_other_containers_go() -> None:
    def deployment(*names: str, **spec: Any) -> dict[str, Any]:
        pod = {"containers": [{"name": name} for name in names]}
        return {"apiVersion": "apps/v1", "kind": "Deployment", "spec": {**spec, "template": {"spec": pod}}}

    assert applied_to(deployment("old", "same", replicas=3), deployment("same", "new")) == deployment(
        "same", "new", replicas=3
    )
