"""`forewarn audit`: what is in a cluster, judged."""

from __future__ import annotations

import json
import re
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forewarn import load
from forewarn.policies.base.findings import NO_LOCATION, NO_OBJECT, Finding, ObjectRef, Severity, Text
from forewarn.policies.base.metering import never
from forewarn.policies.base.process_pool import mapped
from forewarn.policies.cli.render.html.answer import page
from forewarn.policies.inputs.sources.cluster import load_cluster
from forewarn.policies.inputs.sources.files import SourceError
from forewarn.policies.kubernetes.cluster.admission import predict
from forewarn.policies.kubernetes.cluster.cache import Cache, head_of
from forewarn.policies.kubernetes.controllers import own_pods
from forewarn.policies.kubernetes.kube_apiserver.priority import default_priority_class
from forewarn.policies.kubernetes.objects.reviewed_object import ChangeSet
from forewarn.policies.kubernetes.objects.workload import Workload
from forewarn.policies.kubernetes.options import Options
from forewarn.policies.linting.config.model import Config
from forewarn.policies.linting.rules.support.context import Context, Phase
from forewarn.policies.linting.rules.support.predictions import Restarts
from forewarn.policies.questions.application.audit import Audit, audit, audited
from forewarn.policies.questions.application.report_changes import finding_changes
from tests.builders import Made, cluster_text, make_budget, make_node, make_pod, make_priority_class
from tests.cases import cases
from tests.in_process import captured
from tests.policies.test_html import HOSTILE, check_alone

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

pytestmark = pytest.mark.forks

SHOWN = "docs/examples/audit/cluster.yaml"
NOW = datetime(2026, 1, 1, tzinfo=UTC)
Run = tuple[int, str, str]


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> Run:
    return captured(capsys, "audit", *arguments)


def test_json_has_every_finding_with_its_object(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = run(capsys, "--cluster", SHOWN, "-o", "json")
    told = json.loads(out)
    assert status == 1
    assert [finding["severity"] for finding in told["findings"]] == sorted(f["severity"] for f in told["findings"])[
        :1
    ] + ["warning"] * 4 + ["note"] * 2
    assert {(f["rule"], f["object"]["name"]) for f in told["findings"]} >= {
        ("restart-preempts", "web"),
        ("restart-stays-pending", "search"),
        ("unused-priority-class", "launch-day"),
    }
    assert told["summary"]["objects"] == 11
    assert (told["status"], told["clause"]) == ("HARM", "1 error, unknown-priority-class")
    assert told["counts"] == {"errors": 1, "warnings": 4, "notes": 2, "pods": 4}
    assert [row["finding"] for row in told["rows"]][:2] == ["unknown-priority-class", "pods-of-missing-class"]
    assert err == "audit of 11 objects: 1 error, unknown-priority-class\n"


def test_markdown_has_the_rules_and_the_findings(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, "--cluster", SHOWN, "-o", "markdown", "-q")
    assert status == 1
    assert out.startswith("### 🔴 HARM: audit of 11 objects: 1 error, unknown-priority-class\n")
    assert out.count("\n| ") == 2 * 8


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        ([], 3, "no kubeconfig found"),
        (["--cluster", "not-there.json"], 2, "not-there.json"),
        (["--cluster", SHOWN, "--select", "restart-preemts"], 2, 'did you mean "restart-preempts"'),
        (["--cluster", SHOWN, "--baseline", SHOWN], 2, ""),
        (["--cluster", SHOWN, "--fail-on", "never"], 0, "errors 1 |"),
        (["--cluster", SHOWN, "--ignore", "unknown-priority-class"], 0, "warnings 4 |"),
        (["--cluster", SHOWN, "--select", "restart-preempts", "--fail-on", "warning"], 1, "warnings 1 |"),
    ],
)
def test_exit_status(capsys: pytest.CaptureFixture[str], arguments: list[str], status: int, said: str) -> None:
    found, out, err = run(capsys, *arguments)
    assert found == status
    assert said in (err if status > 1 else out)


def test_one_namespace_is_checked_alone(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    before = tmp_path / "before.json"
    before.write_text(run(capsys, "--cluster", SHOWN, "-o", "json")[1])
    _, out, _ = run(capsys, "--cluster", SHOWN, "-n", "shop", "-o", "json", "--since", str(before))
    document, findings = json.loads(out), json.loads(before.read_text())["findings"]
    own = [each for each in findings if each["object"]["namespace"] == "shop"]
    assert document["findings"] == own != []
    assert document["question"] == "audit of 3 objects in shop"
    assert (document["counts"]["changes"], document["counts"]["pods"]) == (0, 2), "changes of other namespaces are none"
    status, _, err = run(capsys, "--cluster", SHOWN, "-n", "shpo")
    assert (status, 'namespace "shpo" not found; did you mean "shop"?' in err) == (2, True)


def test_a_baseline_leaves_what_is_new(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    baseline = str(tmp_path / "known.json")
    assert run(capsys, "--cluster", SHOWN, "--write-baseline", baseline)[0] == 0
    status, out, _ = run(capsys, "--cluster", SHOWN, "--baseline", baseline, "--fail-on", "note")
    assert status == 0
    assert out.startswith("OK  audit of 11 objects: no findings\n")
    assert "suppressed 7" in out


def test_another_victim_is_no_new_finding(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """The fingerprint of a finding about an object does not depend on the nodes and Pods that its message names."""
    baseline, before, after = (str(tmp_path / name) for name in ("known.json", "before.json", "cluster.yaml"))
    Path(after).write_text(Path(SHOWN).read_text().replace("nightly-1", "nightly-9"))
    Path(before).write_text(run(capsys, "--cluster", SHOWN, "-o", "json")[1])
    assert run(capsys, "--cluster", SHOWN, "--write-baseline", baseline)[0] == 0
    _, out, _ = run(capsys, "--cluster", after, "--since", before, "-v")
    assert "a restart now would preempt 1 Pod on node-1: reports/nightly-9" in out
    assert "changes 2\n" in out
    status, out, _ = run(capsys, "--cluster", after, "--baseline", baseline, "--fail-on", "note")
    assert status == 0
    assert out.startswith("OK  audit of 11 objects: no findings\n")
    assert "suppressed 7" in out


def test_an_annotation_suppresses_what_is_meant(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    text = (
        Path(SHOWN)
        .read_text()
        .replace(
            "metadata: {name: search, namespace: shop}",
            "metadata: {name: search, namespace: shop, annotations:"
            ' {forewarn.dev/ignore: "restart-stays-pending it has its own node"}}',
        )
    )
    (tmp_path / "cluster.yaml").write_text(text)
    _, out, _ = run(capsys, "--cluster", str(tmp_path / "cluster.yaml"))
    assert "restart-stays-pending" not in out
    assert "suppressed 1" in out


def test_many_findings_of_a_rule_are_one_row(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "cluster.json").write_text(cluster_text([make_priority_class(n, f"c{n:03}") for n in range(100)]))
    _, out, _ = run(capsys, "--cluster", str(tmp_path / "cluster.json"))
    assert out.startswith("OK  audit of 102 objects: 100 notes, unused-priority-class\n")
    (row,) = [line for line in out.splitlines() if line.startswith("note")]
    assert row.split()[1:3] == ["unused-priority-class", "100"]
    assert run(capsys, "-v", "--cluster", str(tmp_path / "cluster.json"))[1].count("\nPriorityClass c") == 100


def cells_of(text: str) -> list[list[str]]:
    """The rows of the table of findings, as they stand in the page."""
    findings = text.partition("<summary>")[2]
    rows = re.findall("<tr>(.*?)</tr>", findings.partition("<tbody>")[2], re.DOTALL)
    return [re.findall("<t[dh][^>]*>(.*?)</t[dh]>", row, re.DOTALL) for row in rows]


def test_a_page_has_a_row_for_each_finding(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, "--cluster", SHOWN, "-o", "html")
    assert status == 1
    check_alone(out)
    found = json.loads(run(capsys, "--cluster", SHOWN, "-o", "json")[1])["findings"]
    rows = cells_of(out)
    assert [row[:2] for row in rows] == [[f["severity"], f["rule"]] for f in found]
    assert rows[0] == [
        "error",
        "unknown-priority-class",
        'create it, or use "launch-day", "normal", "shop"',
        "Deployment reports/ledger",
        'PriorityClass "gold" not found; Pods will be rejected',
    ]
    for name, value in (("errors", 1), ("warnings", 4), ("notes", 2), ("Pods", 4)):
        assert f"<dt>{name}</dt><dd>{value}</dd>" in out


def page_of(findings: Sequence[Finding]) -> str:
    snapshot = Cache().snapshot()
    return page(Audit([*findings], 0, head_of(snapshot), 1, snapshot).document, head_of(snapshot)).document()


def finding(number: int, rule: str, severity: Severity, name: str = "x", message: str = "") -> Finding:
    return Finding(
        NO_LOCATION, severity, rule, ObjectRef("v1", "Pod", "n", name), Text(message or f"m{number}", "do it")
    )


@pytest.mark.parametrize("hostile", HOSTILE)
def test_what_a_cluster_says_stays_text_in_a_page(hostile: str) -> None:
    said = finding(0, hostile, Severity.NOTE, hostile, f"it says {hostile} \ud800 " + "long " * 1000)
    text = page_of([said._replace(text=said.text._replace(fix=hostile))])
    read = check_alone(text)
    ours = check_alone(page_of([finding(0, "rule", Severity.NOTE)]))
    assert [name for name, _ in read.tags] == [name for name, _ in ours.tags]
    assert all(char.isprintable() or char == "\n" for char in text)
    shown = [told for tag, told in read.texts if tag == "td"]
    assert max(map(len, shown)) <= 300


def test_a_cluster_of_hostile_names_is_a_page_of_texts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    items = []
    for number, name in enumerate(HOSTILE):
        made = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}}
        items += [{**made, "value": number}, make_pod(f"p{name}").metadata(namespace=name).obj]
        items[-1]["spec"]["priorityClassName"] = f"gone{name}"
    (tmp_path / "cluster.json").write_text(cluster_text(items))
    _, out, _ = run(capsys, "--cluster", str(tmp_path / "cluster.json"), "-o", "html")
    read = check_alone(out)
    assert all(char.isprintable() or char == "\n" for char in out)
    told = [text for tag, text in read.texts if tag == "td"]
    assert f"PriorityClass {HOSTILE[0]}" in told
    assert f"PriorityClass gone{HOSTILE[1]}" in told


def deployment(replicas: int, cpu: int, priority: int, surge: int, unavailable: int) -> dict[str, Any]:
    template = make_pod("web").priority(priority).request(cpu=str(cpu)).labels(app="web")
    strategy = {"rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {
            "replicas": replicas,
            "strategy": strategy,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": template.obj["spec"]},
        },
    }


@settings(max_examples=cases(30), deadline=None)
@given(
    sizes=st.lists(st.integers(1, 6), min_size=1, max_size=4),
    others=st.lists(st.tuples(st.integers(0, 3), st.integers(1, 4), st.sampled_from([0, 10])), max_size=6),
    cpu=st.integers(1, 4),
    priority=st.sampled_from([0, 5, 20]),
)
def test_a_restart_of_one_pod_with_a_surge_is_one_more_pod(
    sizes: list[int], others: list[tuple[int, int, int]], cpu: int, priority: int
) -> None:
    """Its first new pod comes beside the old one: what the scheduler would do with it is what the audit tells."""
    cache = Cache()
    for number, size in enumerate(sizes):
        cache.add(make_node(f"n{number}").status(allocatable={"cpu": str(size), "memory": "8Gi", "pods": "110"}).obj)
    for number, (node, request, level) in enumerate(others):
        made = make_pod(f"other-{number}").priority(level).request(cpu=str(request)).on(f"n{node % len(sizes)}")
        cache.add(made.obj)
    cache.add(make_pod("web-1").priority(priority).request(cpu=str(cpu)).labels(app="web").on("n0").obj)
    web = deployment(1, cpu, priority, 1, 0)
    cache.add(web)
    cluster = cache.snapshot()
    new = make_pod("web-2").priority(priority).request(cpu=str(cpu)).labels(app="web")
    expected = predict(cluster, new.obj)
    context = Context(ChangeSet(), cluster, Options(), Phase.LINT, NOW, never)
    (restart,) = context.once(Restarts).computed
    assert restart.ref == Workload.from_api(web).ref
    assert restart.is_blocked == (expected.outcome == "pending")
    told = [p for p in restart.impact.predictions if p.outcome == "preempts"]
    assert [[v.key for v in p.victims] for p in told] == (
        [[v.key for v in expected.victims]] if expected.outcome == "preempts" else []
    )


def full_of(names: tuple[str, ...], victim_priority: int, image: str) -> list[Any]:
    """A node that Deployments of one Pod each fill, together with one Pod of another kind."""
    cluster: list[Any] = [make_node("n1").obj]
    for name in names:
        labels = {"app": name}
        container = {"name": "c", "image": "web", "resources": {"requests": {"cpu": "1"}}}
        cluster.append(
            {
                "apiVersion": "apps/v1",
                "kind": "Deployment",
                "metadata": {"name": name, "namespace": "team"},
                "spec": {
                    "replicas": 1,
                    "selector": {"matchLabels": labels},
                    "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
                },
            }
        )
        cluster.append(make_pod(f"{name}-1", "team").request(cpu="1").labels(**labels).on("n1").obj)
    other = make_pod("reserve", "infra").priority(victim_priority).request(cpu="1").on("n1")
    other.obj["spec"]["containers"][0]["image"] = image
    return [*cluster, other.obj]


def test_a_limit_range_that_is_too_large_to_keep_ends_nothing(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    amounts = {f"example.com/{number}": "1" for number in range(20_000)}
    huge = Made("v1", "LimitRange", "huge", "team").spec(limits=[{"type": "Container", "default": amounts}])
    pod = {"containers": [{"name": "c", "image": "i", "resources": {"limits": {"cpu": "1"}}}]}
    spec = {"selector": {"matchLabels": {"app": "a"}}, "template": {"metadata": {"labels": {"app": "a"}}, "spec": pod}}
    workload = Made("apps/v1", "Deployment", "a", "team").spec(**spec)
    (tmp_path / "cluster.json").write_text(cluster_text([make_node("n1"), huge, workload]))
    status, out, _ = run(capsys, "--cluster", str(tmp_path / "cluster.json"))
    assert status in (0, 1), out
    assert "  audit of " in out.splitlines()[0]


@pytest.mark.parametrize(
    ("spec", "status", "findings"),
    [
        ({"selector": {"matchLabels": {"app": False}}}, {}, [("value-rejected", "a"), ("pods-not-created", "b")]),
        (
            {"replicas": 1},
            {"conditions": [{"type": "ReplicaFailure", "status": "True", "message": {}}]},
            [("pods-not-created", "a"), ("pods-not-created", "b")],
        ),
    ],
    ids=["selector", "message"],
)
def test_an_unreadable_workload_hides_no_missing_pods_of_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], spec: Any, status: Any, findings: list[tuple[str, str]]
) -> None:
    quota = Made("v1", "ResourceQuota", "q", "team").spec(hard={"pods": "0"}).status(hard={"pods": 0}, used={"pods": 0})
    made = [make_node("n1"), make_priority_class(1), make_pod("z", "other"), quota]
    for name, more in (("a", spec), ("b", {"replicas": 2})):
        labels = {"app": name}
        template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "web"}]}}
        workload = Made("apps/v1", "ReplicaSet", name, "team").spec(selector={"matchLabels": labels}, template=template)
        made.append(workload.spec(**more).status(**(status if name == "a" else {})))
    path = tmp_path / "cluster.json"
    path.write_text(cluster_text([one.obj for one in made]))
    selected = "--select", "parse-error,value-rejected,pods-not-created"
    _, out, _ = run(capsys, "--cluster", str(path), "-o", "json", *selected)
    found = json.loads(out)["findings"]
    assert [(finding["rule"], finding["object"]["name"]) for finding in found] == findings


@pytest.mark.parametrize("policy", ["OrderedReady", "Parallel"])
def test_the_time_does_not_grow_with_replicas(tmp_path: Path, capsys: pytest.CaptureFixture[str], policy: str) -> None:
    quota = Made("v1", "ResourceQuota", "q", "team").spec(hard={"pods": "0"}).status(hard={"pods": 0}, used={"pods": 0})
    template = {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "c", "image": "web"}]}}
    spec = {"replicas": 2**31 - 1, "selector": {"matchLabels": {"app": "a"}}, "podManagementPolicy": policy}
    workload = Made("apps/v1", "StatefulSet", "a", "team").spec(template=template, **spec)
    made = [make_node("n1"), make_priority_class(1), make_pod("z", "other"), quota, workload]
    path = tmp_path / "cluster.json"
    path.write_text(cluster_text([one.obj for one in made]))
    _, out, _ = run(capsys, "--cluster", str(path), "--select", "pods-not-created")
    assert f"team/a: {2**31 - 1} of {2**31 - 1} Pods" in out or "1 warning, pods-not-created" in out


def test_the_workloads_of_a_namespace_are_indexed_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    indexed, index = Counter[str](), own_pods._workloads_by_controller

    def counted(workloads: Any) -> Any:
        indexed.update(workload.ref.name for workload in workloads.values())
        return index(workloads)

    monkeypatch.setattr(own_pods, "_workloads_by_controller", counted)
    quota = Made("v1", "ResourceQuota", "q", "team").spec(hard={"pods": "9"}).status(hard={"pods": 9}, used={"pods": 1})
    made = [make_node("n1"), make_priority_class(1), make_pod("z", "team"), quota]
    template = {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "c", "image": "web"}]}}
    done = {"succeeded": 1, "conditions": [{"type": "Complete", "status": "True"}]}
    made += [Made("batch/v1", "Job", name, "team").spec(template=template).status(**done) for name in "abc"]
    path = tmp_path / "cluster.json"
    path.write_text(cluster_text([one.obj for one in made]))
    run(capsys, "--cluster", str(path))
    assert indexed == {"a": 1, "b": 1, "c": 1}


@pytest.mark.parametrize(
    ("hard", "strategy", "rejected"),
    [
        (1, {"maxSurge": 1, "maxUnavailable": 0}, True),
        (1, {"maxSurge": 1, "maxUnavailable": 1}, False),
        (2, {"maxSurge": 1, "maxUnavailable": 0}, False),
        (0, {"maxSurge": 0, "maxUnavailable": 1}, True),
    ],
    ids=["no surge Pod admitted", "the old Pod goes first", "room for the surge Pod", "quota lowered"],
)
def test_a_restart_that_a_quota_blocks_is_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], hard: int, strategy: dict[str, int], rejected: bool
) -> None:
    cluster = full_of(("a",), 0, "batch")
    cluster[1]["spec"]["strategy"] = {"rollingUpdate": strategy}
    quota = Made("v1", "ResourceQuota", "pods", "team").spec(hard={"pods": str(hard)})
    cluster.append(quota.status(hard={"pods": str(hard)}, used={"pods": "1"}).obj)
    path = tmp_path / "cluster.json"
    path.write_text(cluster_text(cluster))
    _, out, _ = run(capsys, "--cluster", str(path), "--select", "restart-stays-pending", "-o", "json")
    messages = [each["message"] for each in json.loads(out)["findings"]]
    start, surge = "new Pods of a restart now would be rejected: exceeded quota pods: ", strategy["maxSurge"]
    needed = f"; the rollout needs {1 + surge} pods"
    assert [start in message and needed in message for message in messages] == [True] * rejected


@pytest.mark.parametrize("is_simulated", [False, True])
@pytest.mark.parametrize("is_cordoned", [False, True])
def test_old_pods_that_terminate_first_do_not_help_if_the_new_pods_do_not_fit_in_their_place(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], is_cordoned: bool, is_simulated: bool
) -> None:
    cluster = full_of(("a",), 0, "batch")
    cluster[0]["spec"] = {"unschedulable": is_cordoned}
    cluster[1]["spec"]["strategy"] = {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}
    path = tmp_path / "cluster.json"
    path.write_text(cluster_text(cluster))
    with patch("forewarn.policies.prediction.forecast.forecast.MAX_REHEARSED", 100 * is_simulated):
        _, out, _ = run(capsys, "--cluster", str(path), "--select", "restart-stays-pending", "-o", "json")
    message = (
        "a restart now would leave it Pending: 0/1 nodes fit (cordoned). "
        "Its rollout terminates 1 old Pod before that. The rollout is blocked"
    )
    assert [message in each["message"] for each in json.loads(out)["findings"]] == [True] * is_cordoned


def contended(tmp_path: Path) -> Path:
    """A cluster file: four Deployments of different priorities on a full node, and Pods that wait for the node."""
    objects = full_of(("a", "b", "c", "d"), -10, "batch")
    for number, workload in enumerate(obj for obj in objects if obj["kind"] == "Deployment"):
        workload["spec"]["template"]["spec"]["priorityClassName"] = f"p{number}"
        value = {"value": 20 * number - 15}
        objects.append(
            {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": f"p{number}"}} | value
        )
    for number, priority in enumerate((-20, 0, 70)):
        objects.append(make_pod(f"waiting-{number}", "team").priority(priority).request(cpu="1").obj)
    path = tmp_path / "cluster.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
    return path


@pytest.mark.parametrize(
    ("strategy", "fix"),
    [
        ("{rollingUpdate: {maxSurge: 0, maxUnavailable: 1}}", "free capacity first, or use strategy Recreate"),
        ("{type: Recreate}", ""),
    ],
)
def test_the_fix_of_a_restart_that_preempts_prevents_the_preemption(
    strategy: str, fix: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "cluster.yaml"
    path.write_text(f"""
apiVersion: v1
kind: Node
metadata: {{name: node-1}}
status: {{allocatable: {{cpu: "2", memory: 4Gi, pods: "10"}}}}
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {{name: gold}}
value: 1000
---
apiVersion: v1
kind: Pod
metadata: {{name: report, namespace: batch}}
spec:
  nodeName: node-1
  priority: 0
  containers: [{{name: c, image: report, resources: {{requests: {{cpu: 1200m}}}}}}]
status: {{phase: Running, startTime: "2026-01-01T00:00:00Z"}}
---
apiVersion: v1
kind: Pod
metadata: {{name: web-1, namespace: team, labels: {{app: web}}}}
spec:
  nodeName: node-1
  priorityClassName: gold
  priority: 1000
  containers: [{{name: c, image: web, resources: {{requests: {{cpu: 500m}}}}}}]
status: {{phase: Running, startTime: "2026-01-01T00:00:00Z"}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {{name: web, namespace: team}}
spec:
  replicas: 1
  strategy: {strategy}
  selector: {{matchLabels: {{app: web}}}}
  template:
    metadata: {{labels: {{app: web}}}}
    spec:
      priorityClassName: gold
      containers: [{{name: c, image: web, resources: {{requests: {{cpu: 500m}}}}}}]
""")
    _, out, _ = run(capsys, "--cluster", str(path), "--select", "restart-preempts", "-o", "json")
    assert "".join(finding["remediation"] for finding in json.loads(out)["findings"]) == fix


def test_simulations_of_restarts_in_processes_have_the_same_findings(tmp_path: Path) -> None:
    cluster = load_cluster(str(contended(tmp_path))).snapshot()
    expected = audited(cluster, Config()).findings
    assert {f.rule for f in expected if f.rule.startswith("restart-")} == {"restart-preempts", "restart-stays-pending"}
    totals: list[int] = []

    def in_forks(batches: Sequence[Any], work: Any, _: Any, *others: Any) -> Iterator[Any]:
        return mapped(batches, work, lambda _: pytest.fail("computed in this process"), *others)

    batches = patch("forewarn.policies.linting.rules.support.predictions._BATCH", 1)
    forks = patch.multiple("forewarn.policies.questions.application.audit", MIN_BATCHES=1, mapped=in_forks)
    with batches, forks:
        result = audited(cluster, Config(), progress=lambda _, total: totals.append(total))
    assert result.findings == expected
    counts = list(dict.fromkeys(totals))
    assert counts == [3], "one restart runs before the processes are forked"


def test_the_restarts_of_the_highest_priority_are_simulated_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = (
        "--cluster",
        str(contended(tmp_path)),
        "-o",
        "json",
        "--select",
        "restart-preempts,restart-stays-pending",
    )

    def messages(*more: str) -> list[tuple[str, str]]:
        found = json.loads(run(capsys, *arguments, *more)[1])["findings"]
        return [(finding.get("object", {}).get("name", ""), finding["message"]) for finding in found]

    every = messages()
    assert {name for name, _ in every} == {"a", "b", "c", "d"}
    with patch("forewarn.policies.questions.application.audit.MAX_SIMULATED_PODS", 10):
        assert messages("--all-restarts") == every
        first = messages()
    omitted = "not evaluated: 2 restarts of workloads with lower priority, which take long to simulate"
    assert sorted(first) == sorted([("", omitted)] * 2 + [each for each in every if each[0] in ("c", "d")])


@pytest.mark.parametrize(
    ("priority", "image", "expected"),
    [
        (-10, "registry.k8s.io/pause:3.10", [("note", "")]),
        (-10, "batch", [("warning", name) for name in ("a", "b", "c")]),
    ],
)
def test_restarts_that_preempt_only_placeholders_are_one_note(
    priority: int, image: str, expected: list[tuple[str, str]], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    dump = tmp_path / "cluster.json"
    dump.write_text(cluster_text(full_of(("a", "b", "c"), priority, image)))
    _, out, _ = run(capsys, "--cluster", str(dump), "--select", "restart-preempts", "-o", "json", "--exit-zero")
    found = json.loads(out)["findings"]
    assert [(f["severity"], f.get("object", {}).get("name", "")) for f in found] == expected
    if expected == [("note", "")]:
        assert found[0]["message"] == (
            "restarts of 3 workloads (team/a, team/b, team/c) would preempt at most 1 placeholder Pod each"
        )


def test_the_summary_has_a_line_for_each_rule_the_worst_first(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, "--cluster", SHOWN)
    lines = [re.split("  +", line) for line in out.splitlines()]
    assert lines[3] == ["SEVERITY", "FINDING", "COUNT", "WHERE", "FIX"]
    assert lines[4] == ["error", "unknown-priority-class", "1", "reports/ledger", "create it"]
    assert len(lines[3:]) == 8 + 2


def test_the_worst_warning_is_the_one_that_harms_the_pods_of_the_highest_priority(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Pods that stay Pending before preempted Pods."""
    *cluster, victim = full_of(("a", "y", "z"), -10, "batch")
    for obj in cluster[3::2]:
        obj["spec"]["template"]["spec"]["nodeSelector"] = {"disk": "none"}
    cluster[5]["spec"]["template"]["spec"]["priorityClassName"] = "gold"
    gold = Made("scheduling.k8s.io/v1", "PriorityClass", "gold", "").obj | {"value": 1000, "description": "d"}
    path = tmp_path / "cluster.json"
    path.write_text(cluster_text([*cluster, victim, gold]))
    rules = ("--select", "restart-preempts,restart-stays-pending")
    _, out, _ = run(capsys, "--cluster", str(path), *rules)
    first, *_, pending, preempted, _, _ = out.splitlines()
    assert first.endswith("3 warnings: 2 restart-stays-pending, 1 restart-preempts")
    assert re.split("  +", pending)[1:4] == ["restart-stays-pending", "2", "team/z, 1 more"]
    assert re.split("  +", preempted)[1:3] == ["restart-preempts", "1"]
    _, out, _ = run(capsys, "--cluster", str(path), "-v", *rules)
    objects = [re.split("  +", line)[0] for line in out.splitlines() if line.startswith("Deployment team/")]
    assert objects[-3:] == ["Deployment team/z", "Deployment team/y", "Deployment team/a"]


def test_rejected_pods_and_blocked_evictions_are_worse_than_findings_without_harm(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    defaults = (make_priority_class(value, name, globalDefault=True) for name, value in (("high", 9), ("low", 1)))
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"priorityClassName": "none", "containers": []}}
    ghost = Made("apps/v1", "Deployment", "ghost", "team").spec(replicas=1, template=template)
    budgets = [make_budget(name, 0, "team", app="web").spec(minAvailable=1) for name in ("a", "z")]
    budgets[0].obj["spec"]["selector"] = {}
    path = tmp_path / "cluster.json"
    path.write_text(cluster_text([*defaults, ghost, *budgets]))
    rules = "--select", "global-default-not-unique,unknown-priority-class,evictions-blocked,empty-selector"
    _, out, _ = run(capsys, "--cluster", str(path), *rules)
    rows = [re.split("  +", line) for line in out.splitlines() if line.startswith(("error", "warning", "note"))]
    assert rows[0][3] == "team/ghost"
    assert [row[1] for row in rows] == [
        "unknown-priority-class",
        "global-default-not-unique",
        "evictions-blocked",
        "empty-selector",
    ]


def test_the_head_says_that_horizontal_pod_autoscalers_cannot_be_listed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def denied(_: str, what: str) -> list[dict[str, Any]]:
        if what == "autoscalers":
            raise SourceError("live", "cannot list horizontalpodautoscalers: 403")
        return []

    path = tmp_path / "cluster.json"
    path.write_text(cluster_text([make_node("n1"), make_priority_class(10)]))
    with patch("forewarn.policies.questions.application.cluster.objects_of", denied):
        assert "       no HorizontalPodAutoscalers\n" in run(capsys, "-v", "--cluster", str(path))[1]
        assert "no HorizontalPodAutoscalers" in audit(load(str(path))).head.assumes
    assert "HorizontalPodAutoscalers" not in run(capsys, "-v", "--cluster", str(path))[1]


@pytest.mark.parametrize(("new", "effective", "other"), [(10, "new", "old"), (5_000, "old", "new")])
def test_of_two_global_defaults_the_lower_value_is_named_as_the_default(
    new: int, effective: str, other: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    values = {"old": 1_000, "new": new}
    items = [
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": name},
            "value": value,
            "globalDefault": True,
        }
        for name, value in values.items()
    ]
    dump = tmp_path / "cluster.json"
    dump.write_text(cluster_text([*items, make_node("n")]))
    _, out, _ = run(capsys, "--cluster", str(dump), "--select", "global-default-not-unique", "-o", "json")
    (found,) = json.loads(out)["findings"]
    assert found["object"]["name"] == other
    assert found["message"] == (
        f"a second global default; new Pods get PriorityClass {effective} (value {values[effective]}), the lower value"
    )
    assert found["remediation"] == (
        f'set globalDefault: false here (changes no new Pod), or on "{effective}" to make this class the default'
    )
    snapshot = load_cluster(str(dump)).snapshot()
    default = default_priority_class(snapshot.priority_classes.values())
    assert default is not None
    assert default.name == effective, "as the admission of forewarn has it"


def test_new_and_fixed_findings_since_an_earlier_report_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = json.loads(run(capsys, "--cluster", SHOWN, "-o", "json")[1])
    fixed, *rest = before["findings"]
    (tmp_path / "before.json").write_text(json.dumps({"findings": [*rest, {**fixed, "fingerprint": "another"}]}))
    since = ["--cluster", SHOWN, "--since", str(tmp_path / "before.json")]
    _, out, _ = run(capsys, *since)
    assert re.search("^new +error +unknown-priority-class +1  Deployment reports/ledger$", out, re.MULTILINE)
    assert re.search("^gone +error +unknown-priority-class +1  Deployment reports/ledger$", out, re.MULTILINE)
    changes = json.loads(run(capsys, *since, "-o", "json")[1])["changes"]
    assert [each["change"] for each in changes] == ["new", "gone"]
    assert "changes 2" in run(capsys, *since, "-o", "markdown")[1]
    (tmp_path / "before.json").write_text('{"findings": 5}')
    status, out, err = run(capsys, *since)
    assert (status, out) == (2, "")
    assert "before.json: not a report of `forewarn audit -o json`: no list findings" in err


def test_findings_that_one_report_does_not_evaluate_are_not_compared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Restarts of low priority are not simulated: their findings are neither fixed nor new."""
    select = ("--cluster", str(contended(tmp_path)), "--select", "restart-preempts,restart-stays-pending")
    every, some = str(tmp_path / "every.json"), str(tmp_path / "some.json")
    run(capsys, *select, "-o", f"json={every}")
    with patch("forewarn.policies.questions.application.audit.MAX_SIMULATED_PODS", 10):
        run(capsys, *select, "-o", f"json={some}")
        later, text = (run(capsys, *select, "--since", every, *more)[1] for more in (("-o", "json"), ()))
        assert json.loads(run(capsys, *select, "--since", some, "-o", "json")[1])["changes"] == []
    earlier = run(capsys, *select, "--since", some, "-o", "json")[1]
    for report, which in ((later, "this report"), (earlier, "the earlier report")):
        changes = json.loads(report)["changes"]
        assert {each["object"] for each in changes} == {"Deployment team/a", "Deployment team/b"}
        assert {(each["change"], each["why"]) for each in changes} == {
            ("not evaluated", f"not evaluated in {which}"),
        }
    unevaluated = [each for each in json.loads(later)["findings"] if each.get("notEvaluated")]
    assert [each["detail"]["workloads"] for each in unevaluated] == [["Deployment team/a", "Deployment team/b"]] * 2
    assert f"changes 0 ({len(changes)} more not evaluated)" in text
    assert "2 restarts of workloads with lower priority" in text.replace("\n      ", " ")
    assert "Fix: run `forewarn audit --all-restarts`" in text.replace("\n      ", " ")


def test_a_workload_that_is_deleted_is_no_longer_found_although_others_are_not_evaluated() -> None:
    ref = {"kind": "Deployment", "namespace": "team"}
    found = {"rule": "restart-preempts", "severity": "warning", "message": "would preempt"}
    before = [
        {**found, "fingerprint": name, "object": {**ref, "name": name}} for name in ("deleted", "omitted", "foreign")
    ]
    before.append({**found, "fingerprint": "all", "message": "restarts of 2 workloads preempt placeholder Pods"})
    before.append({**found, "fingerprint": "other", "rule": "pods-pending"})

    def finding(detail: dict[str, Any], ref: ObjectRef = NO_OBJECT, **more: Any) -> Finding:
        return Finding(NO_LOCATION, Severity.WARNING, "restart-preempts", ref, Text("not"), detail=detail, **more)

    def changes(*now: Finding) -> dict[str, str]:
        found = finding_changes(now, {"findings": before})
        return {f"{each.rule} {each.object}".strip(): each.change for each in found}

    foreign = finding({"notPredicted": "another scheduler"}, ObjectRef("apps/v1", "Deployment", "team", "foreign"))
    expected = {
        "restart-preempts Deployment team/deleted": "gone",
        "restart-preempts Deployment team/omitted": "not evaluated",
        "restart-preempts Deployment team/foreign": "not evaluated",
        "restart-preempts": "not evaluated",
        "pods-pending": "gone",
    }
    assert changes(finding({"workloads": ["Deployment team/omitted"]}, not_evaluated=True), foreign) == expected
    of_rule = changes(finding({}, not_evaluated=True))
    assert of_rule == dict.fromkeys(expected, "not evaluated") | {"pods-pending": "gone"}


def test_the_changes_of_a_report_are_counted_by_rule_and_never_cut(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "empty.json").write_text('{"findings": []}')
    since = ("--cluster", SHOWN, "--since", str(tmp_path / "empty.json"))
    _, out, _ = run(capsys, *since)
    _, _, after = out.partition("\nCHANGES SINCE THE EARLIER REPORT\n")
    assert after.startswith("CHANGE  SEVERITY  FINDING ")
    assert re.search("^new +error +unknown-priority-class +1  Deployment reports/ledger$", after, re.MULTILINE)
    assert "…" not in after
    _, out, _ = run(capsys, *since, "-v")
    line = 'new     error: Deployment reports/ledger: PriorityClass "gold" not found; Pods will be rejected'
    assert f"{line}\n        [unknown-priority-class]\n" in out
    assert max(map(len, out.splitlines())) <= 110


def test_sarif_has_a_path_for_each_object(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, "--cluster", SHOWN, "-o", "sarif")
    (found,) = json.loads(out)["runs"]
    paths = [each["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for each in found["results"]]
    assert paths[0] == "cluster/reports/Deployment/ledger"
    assert "Pods will be rejected. Fix: create it, or use " in found["results"][0]["message"]["text"]
    assert len({each["partialFingerprints"]["primaryLocationLineHash"] for each in found["results"]}) == 7
    assert {each["ruleId"] for each in found["results"]} == {rule["id"] for rule in found["tool"]["driver"]["rules"]}


def test_a_warning_says_if_restarts_are_not_predicted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    version = {"apiVersion": "forewarn.dev/v1", "kind": "Version", "serverVersion": {"gitVersion": "v1.33.4"}}
    (old := tmp_path / "old.yaml").write_text(f"{Path(SHOWN).read_text()}---\n{json.dumps(version)}\n")
    _, out, err = run(capsys, "--cluster", str(old))
    assert "\nWARN  restarts are not predicted: " in out
    assert "1.33" in err


def test_a_description_of_a_stored_class_counts(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    classes = [
        {"kind": "PriorityClass", "metadata": {"name": name}, "value": 5, **described}
        for name, described in (("told", {"description": "for jobs"}), ("untold", {}))
    ]
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "status": {"allocatable": {"cpu": "1"}}}
    pods = {"apiVersion": "v1", "kind": "PodList", "items": []}
    items = [node, pods, *({"apiVersion": "scheduling.k8s.io/v1", **one} for one in classes)]
    (tmp_path / "c.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    _, out, _ = run(
        capsys, "--cluster", str(tmp_path / "c.json"), "--select", "class-without-description", "-o", "json"
    )
    assert [one["object"]["name"] for one in json.loads(out)["findings"]] == ["untold"]


@pytest.mark.parametrize(("most", "admitted"), [(6, "5"), (5, None)])
def test_an_autoscaler_that_exceeds_a_quota(
    most: int, admitted: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """From a snapshot, and from a running cluster, which lists HorizontalPodAutoscalers only on request."""
    target = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web"}
    autoscaler = Made("autoscaling/v2", "HorizontalPodAutoscaler", "web", "team")
    labels: dict[str, Any] = {"selector": {"matchLabels": {"app": "web"}}}
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    quota = Made("v1", "ResourceQuota", "q", "team").spec(hard={"pods": "5"})
    quota.status(hard={"pods": "5"}, used={"pods": "0"})
    objects = [
        make_node("n1"),
        make_priority_class(10),
        quota,
        Made("apps/v1", "StatefulSet", "web", "team").spec(replicas=1, **labels, template=template).status(replicas=0),
    ]
    scaled = autoscaler.spec(maxReplicas=most, scaleTargetRef=target)
    (tmp_path / "all.json").write_text(cluster_text([*objects, scaled]))
    (tmp_path / "live.json").write_text(cluster_text(objects))
    told = f"ResourceQuota q admits {admitted} of {most} replicas"
    assert (told in run(capsys, "-v", "--cluster", str(tmp_path / "all.json"))[1]) == bool(admitted)
    listed = lambda _, what: [scaled.obj] if what == "autoscalers" else []  # noqa: E731
    with patch("forewarn.policies.questions.application.cluster.objects_of", listed):
        assert (told in run(capsys, "-v", "--cluster", str(tmp_path / "live.json"))[1]) == bool(admitted)
        result = audit(load(str(tmp_path / "live.json")))
    assert [f.rule for f in result.findings if f.object.name == "web"].count("autoscaler-exceeds-quota") == bool(
        admitted
    )
