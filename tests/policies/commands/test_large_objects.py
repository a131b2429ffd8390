"""Commands on a cluster with objects that are too large to keep: they answer, and say what is not predicted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from forewarn.policies.cli.main import main
from tests.builders import cluster_text, make_node, make_pod, make_priority_class
from tests.policies.objects.test_bounded import deployment, terms

if TYPE_CHECKING:
    from pathlib import Path

Obj = dict[str, Any]
WHY = "ReplicaSet team/app-1 exceeds what forewarn keeps (64 KiB)"


def _owned(kind: str, name: str) -> Obj:
    owner = {"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": name, "controller": True}
    return {"namespace": "team", "labels": {"app": "a", "pod-template-hash": "1"}, "ownerReferences": [owner]}


@pytest.fixture(name="dump", scope="module")
def _dump(tmp_path_factory: pytest.TempPathFactory) -> Path:
    containers = [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}]
    of_app = deployment(containers=containers, affinity=terms(20_000))
    of_app["metadata"] = {"name": "app", "namespace": "team", "uid": "app"}
    of_app["spec"] |= {"replicas": 2, "selector": {"matchLabels": {"app": "a"}}}
    of_app["spec"]["template"]["metadata"]["labels"] = {"app": "a", "pod-template-hash": "1"}
    del of_app["spec"]["template"]["spec"]["priorityClassName"]
    replica_set = {
        **of_app,
        "kind": "ReplicaSet",
        "metadata": {**_owned("Deployment", "app"), "name": "app-1", "uid": "app-1"},
    }
    pods = []
    for number in (1, 2):
        metadata = {**_owned("ReplicaSet", "app-1"), "name": f"app-1-{number}", "uid": f"p{number}"}
        spec = {**of_app["spec"]["template"]["spec"], "nodeName": f"n{number}", "priority": 0}
        status = {"phase": "Running", "startTime": "2026-01-01T00:00:00Z"}
        pods.append({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": status})
    nodes = [make_node(name).obj for name in ("n1", "n2")]
    path = tmp_path_factory.mktemp("large") / "dump.json"
    path.write_text(cluster_text([*nodes, of_app, replica_set, *pods]))
    return path


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("risk -v", f"not predicted: replacement Pods of Deployment team/app: {WHY}"),
        ("whatif lose node n1", f"not simulated: Deployment team/app: {WHY}"),
        ("whatif lose --each node", f"not simulated: Deployment team/app: {WHY}"),
        ("whatif drain n1", f"not simulated: Deployment team/app: {WHY}"),
        ("whatif scale Deployment/app 5 -n team", f"not simulated: Deployment team/app: {WHY}"),
        ("audit", "WARN  not evaluated: Deployment team/app exceeds what forewarn keeps (64 KiB) ("),
        ("audit", "WARN  audit of "),
        ("audit -v", "not evaluated: Deployment team/app exceeds what forewarn keeps (64 KiB)"),
    ],
)
def test_commands_say_what_is_not_predicted(
    command: str, says: str, dump: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*command.split(), "--cluster", str(dump)]) in (0, 1)
    assert " ".join(says.split()) in " ".join(capsys.readouterr().out.split())


def test_an_audit_goes_on_after_a_selector_that_is_too_large(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dump = tmp_path / "dump.json"
    large, other = deployment(priorityClassName="none"), deployment(priorityClassName="none")
    large["metadata"], other["metadata"] = ({"name": name, "namespace": "team"} for name in ("large", "other"))
    large["spec"]["selector"] = {"matchLabels": {f"key-{number}": "value" for number in range(2_000)}}
    dump.write_text(cluster_text([make_node("n1").obj, make_pod("a").obj, make_priority_class(1).obj, large, other]))
    assert main(["audit", "-v", "--cluster", str(dump)]) == 1
    out = " ".join(capsys.readouterr().out.split())
    assert "Deployment team/large not evaluated: Deployment team/large exceeds what forewarn keeps (64 KiB)" in out
    assert 'Deployment team/other PriorityClass "none" not found' in out
