"""The pages and their JSON documents."""

from __future__ import annotations

import html
import json
import re
import shlex
from pathlib import Path
from typing import Any
from unittest.mock import patch
from urllib.parse import urlencode

import pytest

from forewarn.policies.cli.ui import questions
from forewarn.policies.cli.ui.answers import NO_NODE_GROUPS
from tests.builders import cluster_text, make_node
from tests.in_process import forewarn
from tests.json_outputs import validator
from tests.policies.autoscaling.test_discovery import status
from tests.policies.commands.test_audit_command import contended
from tests.policies.test_new_nodes_arrive import ZONAL, labelled
from tests.policies.ui.desk import CLUSTER, Desk, desk

MANIFEST = Path("docs/examples/headroom/cache.yaml").read_text()
HOSTILE = '<script>alert(1)</script>"\u202e\x1b'
QUESTIONS = {
    "whatif": ("whatif", "/api/whatif?change=lose-zone&name=a", ("whatif", "lose", "zone", "a")),
    "drain": ("whatif", "/api/whatif?change=drain&name=a-1+a-2", ("whatif", "drain", "a-1", "a-2")),
    "pool": (
        "whatif",
        "/api/whatif?change=lose-pool&name=topology.kubernetes.io/zone%3Da",
        ("whatif", "lose", "pool", "topology.kubernetes.io/zone=a"),
    ),
    "class": (
        "whatif",
        "/api/whatif?change=class&name=batch&value=200000",
        ("whatif", "class", "batch", "--value=200000"),
    ),
    "upgrade": (
        "whatif",
        "/api/whatif?change=upgrade&name=topology.kubernetes.io/zone%3Da",
        ("whatif", "upgrade", "--pool", "topology.kubernetes.io/zone=a"),
    ),
    "add": (
        "whatif",
        "/api/whatif?change=add-node&name=a-1&number=2",
        ("whatif", "add", "node", "a-1", "--count=2"),
    ),
    "restart": (
        "whatif",
        "/api/whatif?change=restart&name=deployment/web&namespace=shop",
        ("whatif", "restart", "deployment/web", "-n", "shop"),
    ),
    "scale": (
        "whatif",
        "/api/whatif?change=scale&name=deployment/web&namespace=shop&number=7",
        ("whatif", "scale", "deployment/web", "7", "-n", "shop"),
    ),
    "risk": ("risk", "/api/risk?namespace=shop", ("risk", "-n", "shop")),
    "most": ("risk", "/api/risk?most=1", ("risk", "--most=1")),
    "audit": ("lint", "/api/audit", ("audit", "--exit-zero")),
}


@pytest.fixture(scope="module")
def shared() -> Desk:
    return desk()


def predicted(made: Desk, manifest: str = MANIFEST) -> dict[str, Any]:
    answer = made.post("/api/predict", {"manifest": manifest})
    found: dict[str, Any] = answer.get_json()
    name = "ui-predict" if answer.status_code == 200 else "ui-error"
    assert list(validator(name).iter_errors(found)) == []
    return found


@pytest.mark.parametrize("name", QUESTIONS)
def test_the_document_of_a_page_is_that_of_its_command(name: str) -> None:
    """A simulation changes the cache, so each question has its own."""
    schema, path, command = QUESTIONS[name]
    document = desk().get(path).get_json()
    assert list(validator(schema).iter_errors(document)) == []
    assert document == json.loads(forewarn(*command, "--cluster", CLUSTER, "-o", "json").stdout)


HPA = """---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: web, namespace: shop}
spec: {maxReplicas: 9, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}}
"""
OTHER_QUESTIONS = {
    "change=upgrade": "whatif",
    "change=upgrade&number=2&name=topology.kubernetes.io/zone%3Da": "whatif",
    "change=add-pool&name=topology.kubernetes.io/zone%3Da&enough=1": "whatif",
    "change=hpa": "whatif",
    "change=each-zone": "whatif-each",
    "change=each-node": "whatif-each",
    f"change=apply&{urlencode({'manifest': MANIFEST})}": "whatif",
    f"change=delete&namespace=shop&{urlencode({'manifest': MANIFEST.replace('cache', 'web')})}": "whatif",
    "change=class&name=silver&value=7&workloads=deployment/web&namespace=shop": "whatif",
    "change=class&name=batch&delete=1": "whatif",
    "change=pressure&name=a-1&shutdown=0%3D30,1000%3D9": "whatif-pressure",
    "change=why&name=shop/deployment/web": "why",
    "change=why&name=shop/web": "why",
    "change=why&name=nightly&namespace=reports": "why",
    "change=why&name=nightly": "why",
    "change=scale&name=web&number=7": "whatif",
    "change=headroom&name=shop/deployment/web": "headroom",
    "change=placeholders&name=deployment/web&namespace=shop&number=3": "headroom",
    "change=overview": "overview",
    "change=preempted": "why",
    "change=survive-zone&protect=gold+batch": "headroom",
    "change=survive-node&like=web": "headroom",
    "change=survive-pool&name=topology.kubernetes.io/zone%3Da": "headroom",
    "change=remove&number=1": "whatif",
    "change=suggest": "classes-suggest",
    "change=class-plan&name=silver&value=7&workloads=deployment/web&namespace=shop": "classes-plan",
}


@pytest.mark.parametrize("query", OTHER_QUESTIONS)
def test_the_copied_command_has_the_document_of_the_page(query: str, tmp_path: Path) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text(Path(CLUSTER).read_text() + HPA)
    made = desk(str(file))
    answer = made.get(f"/api/whatif?{query}")
    assert answer.status_code == 200, answer.text
    document = answer.get_json()
    assert list(validator(OTHER_QUESTIONS[query]).iter_errors(document)) == []
    page = made.get(f"/whatif?{query}").text
    command = html.unescape(re.findall('data-command="([^"]*)"', page)[0]).replace(f" {file}", f" {file} -o json", 1)
    line, _, text = command.partition(" <<'EOF'\n")
    program, *arguments = shlex.split(line)
    assert (program, text[-4:]) == ("forewarn", "\nEOF" if text else "")
    done = forewarn(*arguments, stdin=text[:-3])
    assert document == json.loads(done.stdout), done.stderr


def test_headroom_does_not_read_the_cluster_again(tmp_path: Path) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text(Path(CLUSTER).read_text())
    made = desk(str(file))
    file.unlink()
    assert made.get("/api/whatif?change=headroom&name=shop/deployment/web").status_code == 200


def test_the_document_and_the_counters_of_a_prediction_are_those_of_its_command(shared: Desk) -> None:
    command = ("predict", "-f", "docs/examples/headroom/cache.yaml", "--cluster", CLUSTER)
    document = json.loads(forewarn(*command, "-o", "json").stdout)
    assert shared.post("/api/predict", {"manifest": MANIFEST, "document": True}).get_json() == document
    found = predicted(shared)
    assert (found["status"], found["counters"]) == ("OK", document["counters"])
    assert "2 of 2 new Pods run" in found["markup"]


def test_the_document_of_the_cluster_fits_its_schema(shared: Desk) -> None:
    document = shared.get("/api/cluster").get_json()
    assert list(validator("ui-cluster").iter_errors(document)) == []
    assert [node["name"] for node in document["nodes"]] == ["a-1", "a-2", "b-1", "b-2"]
    assert document["nodes"][0]["classes"] == [
        {"priorityClass": "gold", "priority": 100000, "pods": 1},
        {"priorityClass": "batch", "priority": 100, "pods": 1},
    ]


def test_a_question_runs_once_and_its_page_then_shows_the_report() -> None:
    made = desk()
    path = "/whatif?change=lose-zone&name=a"
    assert 'id="progress"' in made.get(path).text
    events = made.get(f"/events{path}")
    assert events.mimetype == "text/event-stream"
    assert re.findall("event: (.*)", events.text) == ["progress", "done"]
    page = made.get(path).text
    assert 'id="progress"' not in page
    assert "zone a lost (2 of 4 nodes)" in page
    assert 'data-command="forewarn whatif lose zone a --cluster docs/examples/whatif/cluster.yaml"' in page


@pytest.mark.parametrize("sizes", [[], [status(("b", 2, 0, 9))]])
def test_the_head_of_an_answer_says_that_no_node_group_is_known(sizes: list[Any], tmp_path: Path) -> None:
    made, path = desk(labelled(tmp_path, ZONAL, *sizes)), "/whatif?change=lose-zone&name=a"
    assert "event: done" in made.get(f"/events{path}").text
    page = made.get(path).text
    assert "zone a lost (" in page
    assert (NO_NODE_GROUPS in page) is (not sizes)


@pytest.mark.parametrize(
    ("command", "begins", "what"),
    [("audit", "restarts", "restarts"), ("risk", "losses", "losses")],
)
def test_a_long_question_shows_its_progress(command: str, begins: str, what: str, tmp_path: Path) -> None:
    said: list[str] = []
    state = desk(str(contended(tmp_path))).here.state
    with patch("forewarn.policies.linting.rules.support.predictions._BATCH", 1):
        state.answer({"command": command, "words": [], "text": "", "query": ""}, said.append)
    count = len(said) - 2
    assert count > 0
    assert said == [begins] + [f"{what}: {number}/{count}" for number in range(count + 1)]


def test_zones_and_pools_are_links_to_their_losses(tmp_path: Path) -> None:
    text = Path(CLUSTER).read_text().replace("pool: web", "pool: x&y")
    assert "pool: x&y" in text
    (tmp_path / "cluster.yaml").write_text(text)
    made = desk(str(tmp_path / "cluster.yaml"))
    links = re.findall(r'href="/whatif\?([^"]*)">', made.get("/whatif").text)
    assert {f"change={key}" for key in questions.QUESTIONS} < {*links}
    assert [link for link in links if "name=" in link] == [
        "change=lose-zone&amp;name=a",
        "change=lose-zone&amp;name=b",
        "change=lose-pool&amp;name=pool%3Dx%26y",
    ]
    lost = made.get("/api/whatif?change=lose-pool&name=pool%3Dx%26y").get_json()
    assert lost["change"].startswith("pool=x&y lost (")


def test_a_question_that_cannot_be_answered_ends_with_the_reason(shared: Desk) -> None:
    events = shared.get("/events/whatif?change=lose-zone&name=c")
    assert 'event: failed\ndata: "no node matches zone c; known: a, b"' in events.text
    assert shared.get("/api/whatif?change=lose-zone&name=c").status_code == 422


@pytest.mark.parametrize(
    "query",
    [
        "change=lose-zone&name=--cluster%3D/etc/passwd",
        "change=drain&name=a-1+-ohtml%3D/tmp/x",
        "change=lose-pool&name=-o",
        "change=events&name=a",
        "change=scale&name=deployment/web&number=99999",
        "change=restart&name=deployment/web&namespace=-A",
        "change=class&name=gold",
        "change=class&name=gold&value=1e9",
        "change=class&name=-f&value=1",
        "change=lose-zone&name=a%00",
        "change=lose-zone&name=%E2%80%AEa",
        "change=lose-zone&name=" + "a" * 30_000,
    ],
)
def test_an_address_sets_no_options_and_has_limits(shared: Desk, query: str) -> None:
    assert shared.get(f"/api/whatif?{query}").status_code == 400
    assert shared.get(f"/events/whatif?{query}").status_code == 400
    page = shared.get(f"/whatif?{query}")
    assert page.status_code == 200
    assert 'role="alert"' in page.text


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ("", "name"),
        ("change=scale&name=web", "number"),
        ("change=scale&name=web&number=x", "number"),
        ("change=drain&name=-x", "name"),
        ("change=class&name=batch&value=1&policy=x", "policy"),
        ("change=class&name=batch&namespace=shop", "value"),
    ],
)
def test_the_focus_is_on_the_input_that_is_missing_or_wrong(shared: Desk, query: str, wanted: str) -> None:
    page = shared.get(f"/whatif?{query}").text
    assert re.findall('name="([a-z]*)"[^>]* autofocus', page) == [wanted]
    needed = "fill in one more of Value, Policy, Global default, Delete, Its workloads<"
    assert (needed in page) is (wanted == "value"), "a namespace changes nothing"


def test_without_pending_pods_their_question_says_so(shared: Desk) -> None:
    assert "no Pod is Pending" in shared.get("/").text
    pending = {**shared.here.about.names, "pending": ["shop/web-1"]}
    made = desk()
    made.here.about = made.here.about._replace(names=pending)
    assert made.post("/api/reload", {}).status_code == 200
    assert "no Pod is Pending" not in made.get("/").text


@pytest.mark.parametrize("query", ["namespace=-v", "most=-v", "most=1e9", "most=x"])
def test_a_risk_filter_sets_no_options(shared: Desk, query: str) -> None:
    assert shared.get(f"/api/risk?{query}").status_code == 400


def test_a_cluster_is_read_again_with_its_answers() -> None:
    made = desk()
    assert made.get("/api/risk").status_code == 200
    text = made.get("/").text
    assert "4 nodes, 8 Pods" in text
    made.here.about = made.here.about._replace(counts="5 nodes")
    assert made.post("/api/reload", {}).status_code == 200
    assert "5 nodes" in made.get("/").text
    assert 'id="progress"' in made.get("/risk").text, "answers about the earlier cluster are gone"
    made.here.fault = "no such file"
    answer = made.post("/api/reload", {})
    assert (answer.status_code, answer.json) == (422, {"error": "no such file"})
    assert "5 nodes" in made.get("/").text


def test_a_deeply_nested_body_is_denied(shared: Desk) -> None:
    deep = shared.post("/api/predict", None, data="[" * 500_000, content_type="application/json")
    assert deep.status_code == 400


@pytest.mark.parametrize(
    ("manifest", "reason"),
    [
        ("a: [", "<stdin>:2: did not find expected node content"),
        ("kind: Service", "no Pod or workload found"),
        ("a: &a [*a]", "found only objects without a kind"),
        ("kind: Pod\napiVersion: v1\nmetadata: []", "metadata"),
        (MANIFEST.replace("namespace: shop", "namespace: none"), 'namespaces "none" not found'),
    ],
)
def test_a_manifest_that_cannot_be_predicted_has_the_reason(shared: Desk, manifest: str, reason: str) -> None:
    found = predicted(shared, manifest)
    assert reason in found.get("error", "") + str(found.get("faults", ""))


def test_a_pod_of_another_scheduler_is_not_predicted_and_has_the_reason(shared: Desk) -> None:
    manifest = MANIFEST.replace("priorityClassName: gold", "schedulerName: other")
    found = predicted(shared, manifest)
    assert found["status"] == "NO ANSWER"
    assert "the Pod is for another scheduler" in found["markup"]


def test_the_command_of_a_prediction_ends_where_the_manifest_ends(shared: Desk) -> None:
    found = predicted(shared, f"# EOF\n# EOF_\n{MANIFEST}")
    first, *_, last = found["command"].split("\n")
    assert first == f"forewarn predict -f - --cluster {CLUSTER} <<'EOF__'"
    assert last == "EOF__"
    found = predicted(shared, f"# \x1b[201~\n{MANIFEST}".replace("\x1b", "\u202e"))
    assert found["command"] == f"forewarn predict -f manifest.yaml --cluster {CLUSTER}"


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Desk:
    """Names of everything are markup with control characters: files can contain what the API server rejects."""
    objects = [json.loads(json.dumps(each).replace("NAME", json.dumps(HOSTILE)[1:-1])) for each in _OBJECTS]
    path = tmp_path_factory.mktemp("hostile") / "cluster.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
    return desk(str(path))


_OBJECTS: list[dict[str, Any]] = [
    {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "NAME", "labels": {"topology.kubernetes.io/zone": "NAME", "pool": "NAME"}},
        "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"}},
    },
    {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "NAME"}, "value": 5},
    {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "NAME", "namespace": "NAME"},
        "spec": {
            "nodeName": "NAME",
            "priority": 5,
            "priorityClassName": "NAME",
            "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "3"}}}],
        },
    },
]


@pytest.mark.parametrize("path", ["/", "/predict", "/whatif", "/risk", "/audit"])
def test_hostile_names_are_text(hostile: Desk, path: str) -> None:
    if path in ("/risk", "/audit"):
        assert "event: done" in hostile.get(f"/events{path}").text
    page = hostile.get(path).text
    assert "<script>alert" not in page
    assert "alert(1)" in page or path == "/predict"
    assert "\x1b" not in page
    assert "\u202e" not in page


@pytest.mark.parametrize("query", ["change=drain", "change=scale&name=deployment/web", "change=scale&number=3"])
def test_without_a_required_input_nothing_is_asked(shared: Desk, query: str) -> None:
    assert shared.get(f"/api/whatif?{query}").json == shared.get("/api/whatif?change=drain&name=").json


def test_a_question_about_a_pod_suggests_pods_and_workloads(shared: Desk) -> None:
    page = shared.get("/whatif?change=why").text
    assert {"shop/deployment/web", "shop/web-1"} < {*re.findall('<option value="([^"]*)">', page)}
    assert [name for name in ("zones", "workloads", "nodes") if f"known-{name}" in page] == []


def test_a_page_links_to_at_most_20_zones_and_pools(tmp_path: Path) -> None:
    nodes = [make_node(f"n{n}").zone(f"z{n}").label("cloud.google.com/gke-nodepool", f"p{n}") for n in range(30)]
    (tmp_path / "cluster.json").write_text(cluster_text(nodes))
    page = desk(str(tmp_path / "cluster.json")).get("/").text
    assert [page.count(f">Lose {what} ") for what in ("zone", "pool")] == [20, 20]


def test_a_page_lists_the_workloads_that_are_short_of_replicas_for_a_time() -> None:
    made = desk()
    assert "event: done" in made.get("/events/whatif?change=upgrade").text
    page = made.get("/whatif?change=upgrade").text
    assert re.search("reports/nightly.*2 of 4 down for ", page)
