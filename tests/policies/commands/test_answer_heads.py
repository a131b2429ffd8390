"""Every answer about a cluster has a head: the state, its time, the release, the profile, and what it assumes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final
from xml.etree import ElementTree

import pytest

from forewarn.policies.cli.main import main
from forewarn.policies.inputs.sources.cluster import load_cluster
from tests.builders import cluster_text, make_node, make_pod, make_priority_class
from tests.policies.commands.test_incomplete_clusters import COMMANDS, answer, state, written
from tests.webhook.builders import body

if TYPE_CHECKING:
    from pathlib import Path

READ: Final = "2026-11-24T10:00:00Z"
CREATED: Final = "2026-11-23T08:00:00Z"
SNAPSHOT: Final = {"apiVersion": "forewarn.dev/v1", "kind": "Version", "time": READ}
MORE: Final = {
    "classes plan": ("classes", "plan", "-f", "{class}"),
    "whatif --each": ("whatif", "lose", "--each", "node"),
    "why": ("why", "default/old"),
    "why workload": ("why", "deployment/web"),
}
ANSWERS: Final = [*(name for name in {**COMMANDS, **MORE} if name != "ui")]
ON_STDERR: Final = ("lint",)


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


@pytest.mark.parametrize("command", ["headroom", "lint", "risk", "test", "whatif", "whatif apply"])
def test_the_head_names_what_is_missing(command: str, tmp_path: Path) -> None:
    head = json.loads(asked(command, tmp_path, "-o", "json")[0])["head"]
    assert "no ResourceQuotas" in head["assumes"]


LINE: Final = "Input: cluster.json 2026-11-24 10:00Z, Kubernetes 1.37 (assumed)"


IN_FORM: Final = (
    *(
        "audit",
        "classes",
        "classes plan",
        "headroom",
        "predict",
        "risk",
        "test",
        "whatif",
        "whatif apply",
        "whatif class",
        "whatif events",
    ),
    *("whatif --each", "whatif pressure", "why", "why workload"),
)
"""Commands whose answers end with the input."""


@pytest.mark.parametrize("command", IN_FORM)
def test_the_input_is_one_line_near_the_end(command: str, tmp_path: Path) -> None:
    *_, source, more = asked(command, tmp_path)[0].splitlines()
    (source,) = [each for each in (source, more) if each.startswith("INPUT  ")]
    assert source.startswith("INPUT  cluster.json 2026-11-24 10:00Z, Kubernetes 1.37 (assumed)")


@pytest.mark.parametrize("command", [name for name in ANSWERS if name not in (*ON_STDERR, *IN_FORM)])
def test_the_second_line_of_text_is_the_head(command: str, tmp_path: Path) -> None:
    verdict, head, *rest = asked(command, tmp_path)[0].splitlines()
    assert head.startswith(LINE)
    assert "Input: " not in "\n".join((verdict, *rest))


@pytest.mark.parametrize("command", ON_STDERR)
def test_the_head_follows_the_summary_of_findings(command: str, tmp_path: Path) -> None:
    summary, head, *_ = asked(command, tmp_path)[1].splitlines()
    assert summary.endswith(" checked")
    assert head.startswith(LINE)


@pytest.mark.parametrize("form", ["gitlab", "github", "rdjson"])
def test_the_summary_has_the_head_that_a_format_has_no_place_for(form: str, tmp_path: Path) -> None:
    assert LINE in asked("lint", tmp_path, "-o", form)[1]


def test_formats_of_other_tools_have_the_head_as_properties(tmp_path: Path) -> None:
    head = json.loads(asked("lint", tmp_path, "-o", "json")[0])["head"]
    (run,) = json.loads(asked("lint", tmp_path, "-o", "sarif")[0])["runs"]
    suite = ElementTree.fromstring(asked("lint", tmp_path, "-o", "junit")[0])
    properties = {each.attrib["name"]: each.attrib["value"] for each in suite.iter("property")}
    assert run["properties"] == head
    assert properties == {**head, "assumes": "; ".join(head["assumes"])}
    (report,) = json.loads(asked("audit", tmp_path, "-o", "openreports")[0])["items"]
    assert report["metadata"]["annotations"]["forewarn.dev/answer-head"].startswith(LINE)


IN_MARKDOWN: Final = ("audit", "classes", "classes plan", "headroom", "lint", "risk", "whatif", "whatif --each")
IN_HTML: Final = ("audit", "headroom", "predict", "risk", "whatif", "whatif --each", "whatif pressure")


@pytest.mark.parametrize("command", [*IN_MARKDOWN, "whatif pressure"])
def test_markdown_has_the_head_below_its_title(command: str, tmp_path: Path) -> None:
    title, *rest = asked(command, tmp_path, "-o", "markdown")[0].replace("\\", "").splitlines()
    assert title.startswith("### ")
    lines = rest[-1:] if command in IN_FORM else rest[:4]
    assert any(text.startswith(LINE) for text in lines)


@pytest.mark.parametrize("command", IN_HTML)
def test_pages_have_the_head(command: str, tmp_path: Path) -> None:
    start = "" if command in IN_FORM else "</header>"
    assert f'{start}<p class="dim">{LINE}' in asked(command, tmp_path, "-o", "html")[0]


def test_what_is_missing_is_named_once_for_all_objects(tmp_path: Path) -> None:
    stored = [make_node("n1").has(cpu="2"), make_pod("p0").request(cpu="1"), *map(make_priority_class, (1, 2))]
    paths = written(tmp_path, *json.loads(cluster_text(stored))["items"])
    pods = [make_pod(f"p{value}").request(cpu="1").of_class(value).obj for value in (1, 2)]
    paths["pod"].write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": pods}))
    out = " ".join(answer("whatif apply", paths, "-v")[1].split())
    assert "no PodDisruptionBudgets no ResourceQuotas no LimitRanges" in out
    assert out.count("ResourceQuotas") == 1


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


@pytest.mark.parametrize("field", ["lastHeartbeatTime", "lastTransitionTime"])
def test_without_a_time_the_newest_object_tells_it(field: str, tmp_path: Path) -> None:
    node = make_node("n1").obj
    node["metadata"]["creationTimestamp"] = CREATED
    node["status"]["conditions"] = [{"type": "Ready", field: time} for time in (READ, "9999-99-99")]
    paths = written(tmp_path, *state(absent="/Node"), node)
    origin = load_cluster(str(paths["cluster"])).snapshot().origin
    assert (origin.time, origin.is_read) == (READ, False)


@pytest.mark.parametrize(
    ("kubelets", "version", "release"),
    [
        (["v1.34.2", "v1.35.8-gke.100"], "", "1.35 (assumed)"),
        (["v1.99.0", "none"], "", "1.37 (assumed)"),
        (["v1.34.2"], "v1.36.3", "1.36"),
    ],
)
def test_a_cluster_without_a_version_has_that_of_its_newest_kubelet(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], kubelets: list[str], version: str, release: str
) -> None:
    nodes = [make_node(f"node-{number}").obj for number in range(len(kubelets))]
    for node, kubelet in zip(nodes, kubelets, strict=True):
        node.setdefault("status", {})["nodeInfo"] = {"kubeletVersion": kubelet}
    versions = [{**SNAPSHOT, "serverVersion": {"gitVersion": version}}] if version else []
    (tmp_path / "cluster.json").write_text(cluster_text([*versions, *nodes]))
    assert main(["classes", "--cluster", str(tmp_path / "cluster.json")]) == 0
    assert f", Kubernetes {release}\n" in capsys.readouterr().out
