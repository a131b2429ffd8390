"""Every answer about a cluster has a head: the state, its time, the release, the profile, and what it assumes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import pytest

from forewarn.policies.sources import load_cluster
from tests.builders import make_node, make_pod
from tests.policies.commands.test_incomplete_clusters import COMMANDS, answer, state, written
from tests.webhook.builders import body

if TYPE_CHECKING:
    from pathlib import Path

READ: Final = "2026-11-24T10:00:00Z"
CREATED: Final = "2026-11-23T08:00:00Z"
SNAPSHOT: Final = {"apiVersion": "forewarn.dev/v1", "kind": "Version", "time": READ}
MORE: Final = {
    "classes plan": ("classes", "plan", "-f", "{class}"),
    "dry-run": ("dry-run", "-f", "{pod}"),
    "whatif --each": ("whatif", "lose", "--each", "node"),
    "whatif resize": ("whatif", "resize", "old", "--requests", "cpu=2"),
    "why": ("why", "default/old"),
    "why workload": ("why", "deployment/web"),
}
ANSWERS: Final = [*(name for name in {**COMMANDS, **MORE} if name != "ui")]


def asked(command: str, directory: Path, *more: str) -> tuple[str, str]:
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": {"spec": {"containers": [{"name": "c"}]}}},
    }
    paths = written(directory, SNAPSHOT, *state(), deployment)
    new = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "new"}, "value": 3}
    (directory / "class.json").write_text(json.dumps(new))
    (directory / "review.json").write_bytes(body(make_pod("new").obj))
    if command == "webhook review":
        paths["pod"] = directory / "review.json"
    paths |= {"class": directory / "class.json"}
    _, out, err = answer(MORE.get(command) or command, paths, *more)
    return out, err


@pytest.mark.parametrize("command", ANSWERS)
def test_json_has_the_head(command: str, tmp_path: Path) -> None:
    head = json.JSONDecoder().raw_decode(asked(command, tmp_path, "-o", "json")[0])[0]["head"]
    assert (head["cluster"], head["time"], head["timeOf"]) == (str(tmp_path / "cluster.json"), READ, "read")
    assert (head["release"], head["profile"]) == ("1.37", "default-scheduler")
    assert isinstance(head["assumes"], list)


@pytest.mark.parametrize("command", ["headroom", "lint", "risk", "whatif", "whatif apply"])
def test_the_head_names_what_is_missing(command: str, tmp_path: Path) -> None:
    head = json.loads(asked(command, tmp_path, "-o", "json")[0])["head"]
    assert any("ResourceQuotas" in clause for clause in head["assumes"])


@pytest.mark.parametrize(
    ("objects", "time", "is_read"),
    [
        ([SNAPSHOT], READ, True),
        ([SNAPSHOT, {**SNAPSHOT, "time": CREATED}], CREATED, True),
        ([{**SNAPSHOT, "time": "soon"}], "", False),
        ([{"serverVersion": {"gitVersion": "v1.36.0"}}], "", False),
    ],
)
def test_the_time_of_a_snapshot(objects: list[dict[str, Any]], time: str, is_read: bool, tmp_path: Path) -> None:
    paths = written(tmp_path, make_node("n1").obj, *objects)
    origin = load_cluster(str(paths["cluster"])).snapshot().origin
    assert (origin.time, origin.is_read) == (time, is_read)


def test_without_a_time_the_newest_object_tells_it(tmp_path: Path) -> None:
    node = make_node("n1").obj
    node["metadata"]["creationTimestamp"] = CREATED
    node["status"]["conditions"] = [{"type": "Ready", "lastHeartbeatTime": time} for time in (READ, "9999-99-99")]
    paths = written(tmp_path, *state(absent="/Node"), node)
    origin = load_cluster(str(paths["cluster"])).snapshot().origin
    assert (origin.time, origin.is_read) == (READ, False)
    head = json.loads(answer("classes", paths, "-o", "json")[1])["head"]
    assert (head["time"], head["timeOf"]) == (READ, "newest object")
