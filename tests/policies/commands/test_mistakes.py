"""Mistakes: each error says what is wrong, where, and what would be right. Recorded; UPDATE=1 records again."""

import os
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml

from forewarn.policies.cli.main import main

RECORDED = Path(__file__).parents[1] / "cases/mistakes.yaml"
MISTAKES: list[dict[str, Any]] = yaml.safe_load(RECORDED.read_text())
UNREACHABLE = """contexts: [{name: x, context: {cluster: x, user: x}}]
clusters: [{name: x, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: x, user: {token: x}}]
current-context: x
"""
POD = "{apiVersion: v1, kind: Pod, metadata: {name: web}, spec: {containers: [{name: c, image: i}]"
SCHEDULER = "{apiVersion: kubescheduler.config.k8s.io/v1, kind: KubeSchedulerConfiguration"
CLUSTER = "docs/examples/whatif/cluster.yaml"
TEMPLATE = "template: {metadata: {labels: {app: a}}, spec: {containers: [{name: c, image: i}]}}"
DEPLOYMENT = f"kind: Deployment, metadata: {{name: a}}, spec: {{{TEMPLATE}}}}}\n"
FILES = {
    "backup.json": '{"apiVersion": "velero.io/v1", "kind": "Backup", "metadata": {"name": "b"}}\n',
    "bad-name": "{apiVersion: apps/v1, kind: Deployment, metadata: {name: Bad_Name, namespace: shop}, spec: {"
    f"selector: {{matchLabels: {{app: a}}}}, {TEMPLATE}}}}}\n",
    "boolean-name": f"{POD.replace('name: web', 'name: y')}}}}}\n",
    "broken": "a: [1\n",
    "empty": "",
    "enqueued": f"{SCHEDULER}, profiles: [{{plugins: {{preEnqueue: {{enabled: [{{name: Foo}}]}}}}}}]}}\n",
    "events": "- {at: 1, drian: a-1}\n",
    "extended": f'{SCHEDULER}, extenders: [{{urlPrefix: "http://x", filterVerb: filter}}]}}\n',
    "filtered": f"{SCHEDULER}, profiles: [{{plugins: {{filter: {{enabled: [{{name: Foo}}]}}}}}}]}}\n",
    "job": "{apiVersion: batch/v1, kind: Job, metadata: {name: j, namespace: shop, labels: {app: j}}}\n",
    "json.json": '{"a": 1}\n',
    "misplaced": f"{POD}], priority: {{class: gold}}, image: i}}}}\n".replace("i}]]", "i}]"),
    "misspelt": f"{POD}, priorityClasName: gold}}}}\n",
    "near-class": f"{POD}, priorityClassName: goldd}}}}\n",
    "no-restart-policy": f"{{apiVersion: batch/v1, kind: Job, metadata: {{name: a}}, spec: {{{TEMPLATE}}}}}\n",
    "no-selector": f"{{apiVersion: apps/v1, {DEPLOYMENT}",
    "notes.d/readme.txt": "hello\n",
    "old.json": '{"apiVersion": "forewarn.dev/v1", "kind": "Version", "serverVersion": {"gitVersion": "v1.33.4"}}\n',
    "over-limit": f"{POD[:-2]}, resources: {{requests: {{cpu: 3}}, limits: {{cpu: 2}}}}}}]}}}}\n",
    "page.html": "<!DOCTYPE html><html><body>404</body></html>\n",
    "pinned": f"{POD}, nodeName: b-1}}}}\n",
    "removed": f"{{apiVersion: apps/v1beta2, {DEPLOYMENT}",
    "removed-group": f"{{apiVersion: extensions/v1beta1, {DEPLOYMENT}",
    "service.yaml": "{apiVersion: v1, kind: Service, metadata: {name: x}, spec: {ports: [{port: 80}]}}\n",
    "severity.yaml": "severities: {class-still-in-use: warning}\n",
    "table.txt": "NAME   READY   STATUS\nweb-1  1/1     Running\n",
    "undecodable": "{apiVersion: apps/v1, kind: Deployment, metadata: {name: api, namespace: shop}, spec: {replicas: 0,"
    " selector: {matchLabels: {app: api}}, template: {metadata: {labels: {app: api}}, spec: {containers: [],"
    " tolerations: [{operator: 5}]}}}}\n",
    "unknown": f"{POD}, priorityClassName: no-such}}}}\n",
    "unreachable": UNREACHABLE,
}


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Commands that fail write nothing in it."""
    tree = tmp_path_factory.mktemp("mistakes")
    (tree / "binary").write_bytes(b"PNG\x00\x00\x01")
    (tree / "empty.d").mkdir()
    for name, text in FILES.items():
        (tree / name).parent.mkdir(exist_ok=True)
        (tree / name).write_text(text)
    return tree


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake["command"])
def test_an_error_is_as_recorded(
    mistake: dict[str, Any], tree: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tree / "none"))
    files = set(tree.iterdir())
    try:
        status = main(shlex.split(mistake["command"].replace("CLUSTER", CLUSTER).replace("TMP", str(tree))))
    except SystemExit as error:  # of argparse
        status = int(error.code or 0)
    out, err = capsys.readouterr()
    recorded = {"status": status, "error": err.replace(str(tree), "TMP").splitlines()}
    recorded |= {"answer": out.splitlines()} if out else {}
    if os.environ.get("UPDATE"):
        mistake.update(recorded)
        RECORDED.write_text(yaml.safe_dump(MISTAKES, sort_keys=False, width=1000))
    assert {"command": mistake["command"], **recorded} == mistake
    assert not out or out.startswith("REJECTED  ")
    assert status in (2, 3)
    assert set(tree.iterdir()) == files


def test_two_hundred_and_fifty_mistakes_are_recorded() -> None:
    assert len({mistake["command"] for mistake in MISTAKES}) >= 250
