"""What is wrong with a file is told with its place, by every command that reads such files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from forewarn.policies.cli.main import main
from tests.builders import Made, cluster_text, make_priority_class

SHOWN = "docs/examples/whatif/cluster.yaml"
POD = """apiVersion: v1
kind: Pod
metadata:
  name: a
  creationTimestamp: now
spec: {containers: [{name: c}]}
"""
DEPLOYMENT = """apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - name: web
        resources: {requests: {cpu: 1x}}
"""
TOLD = (
    (POD, "5:22: Pod default/a: metadata.creationTimestamp: "),
    (DEPLOYMENT, "11:37: Deployment shop/web: spec.template.spec.containers[0].resources.requests.cpu: '1x'"),
)


@pytest.mark.parametrize(("text", "told"), TOLD)
@pytest.mark.parametrize(
    "command",
    [
        ("predict",),
        ("headroom",),
        (
            "whatif",
            "events",
        ),
        ("whatif", "apply"),
        ("whatif", "class", "gold", "--value", "3"),
    ],
)
def test_a_fault_has_file_line_and_column(
    command: tuple[str, ...], text: str, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "objects.yaml"
    file.write_text(text)
    assert main([*command, "-f", str(file), "--cluster", SHOWN]) == 3
    out, err = capsys.readouterr()
    assert out.startswith(f"REJECTED  {told.split(' ', 1)[1].split(':')[0]}: ")
    assert err.startswith(f"forewarn {command[0]}: {file}:{told}")


@pytest.mark.parametrize(("text", "told"), TOLD)
@pytest.mark.parametrize(
    "entry", ["when: {apply: objects.yaml}, expect: {run: {}}", "expect: {fit: {file: objects.yaml, replicas: 1}}"]
)
def test_so_has_one_of_an_expectations_file(
    entry: str, text: str, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "objects.yaml").write_text(text)
    (tmp_path / "promises.yaml").write_text(f"- {{name: it holds, {entry}}}\n")
    assert main(["test", str(tmp_path / "promises.yaml"), "--cluster", SHOWN]) == 3
    assert f"{tmp_path / 'objects.yaml'}:{told}" in capsys.readouterr().err


def test_a_fault_of_the_cluster_is_the_dumps(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dump, file = tmp_path / "dump.yaml", tmp_path / "pod.yaml"
    dump.write_text(POD)
    file.write_text(POD.replace("  creationTimestamp: now\n", ""))
    assert main(["predict", "-f", str(file), "--cluster", str(dump)]) == 3
    assert capsys.readouterr().err.startswith(f"forewarn predict: {dump}:1: Pod a: metadata.creationTimestamp")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "- {name: fine, expect: {run: {}}}\n- name: wrong\n  expect: {runs: {}}\n",
            ":2:3: expectation 2 (wrong): unknown key",
        ),
        ('[{"name": "fine", "expect": {"run": {}}},\n  {"nam": 1}]', ':2:3: expectation 2: unknown key "nam" in an'),
        ("name: fine\nexpect: {run: {}}\n---\n---\n# nothing\n---\nname: [a]\n", ":7:1: expectation 2: name must be a"),
        ("just text", ":1:1: expectation 1: an expectation must be an object"),
        ("", ": no expectations found"),
        ("[]", ": no expectations found"),
    ],
)
def test_an_expectation_that_cannot_be_read_is_wrong_usage(
    text: str, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "promises.yaml"
    file.write_text(text)
    assert main(["test", str(file), "--cluster", SHOWN]) == 2
    assert capsys.readouterr().err.startswith(f"forewarn test: {file}{told}")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "- {at: 1, drain: a-1}\n- at: 2\n  drian: a-1\n",
            ':2:3: event 2: unknown key "drian" in an event; known: at, and one of',
        ),
        ('{"at": 1, "drain": "a-1"}\n---\n[{"at": "x", "lost": "a-1"}]', ":3:2: event 2: at must be seconds"),
        ("", ": no events. Fix: write a list of"),
    ],
)
def test_an_event_that_cannot_be_read_is_told_likewise(
    text: str, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "events.yaml"
    file.write_text(text)
    assert main(["whatif", "events", "--events", str(file), "--cluster", SHOWN]) == 2
    assert capsys.readouterr().err.startswith(f"forewarn whatif: {file}{told}")


LATE = "apiVersion: apps/v1, kind: Deployment, metadata: {name: late, namespace: shop}"
LATE_POD = "{metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}"
LATE_SPEC = f"spec: {{replicas: 0, selector: {{matchLabels: {{a: b}}}}, template: {LATE_POD}}}"


@pytest.mark.parametrize(
    ("events", "told"),
    [
        ("- {at: 0, drain: ip-10-0-0-99}\n", ':1:3: event 1: node "ip-10-0-0-99" not found in the cluster'),
        ("- {drain: a-1}\n- {at: 1m, lost: a-11}\n", ':2:3: event 2: node "a-11" not found in the cluster'),
        (
            "- {at: 3, scale: {kind: Deployment, namespace: shop, name: wbe, replicas: 3}}\n",
            ':1:3: event 1: Deployment shop/wbe not found in the cluster; did you mean "web"?',
        ),
        (
            f"- {{at: 5, create: {{{LATE}, {LATE_SPEC}}}}}\n- {{at: 4, delete: {{{LATE}}}}}\n",
            ":2:3: event 2: Deployment shop/late not found",
        ),
        (
            "- {delete: {apiVersion: v1, kind: Pod, metadata: {name: none, namespace: shop}}}\n",
            ":1:3: event 1: Pod shop/none not found",
        ),
    ],
)
def test_an_event_on_an_unknown_object_is_wrong_usage(
    events: str, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "events.yaml"
    file.write_text(events)
    assert main(["whatif", "events", "--events", str(file), "--cluster", SHOWN]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"forewarn whatif: {file}{told}")


def test_events_on_created_objects_are_accepted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "events.yaml"
    pod = "{apiVersion: v1, kind: Pod, metadata: {name: late-5f8-x, namespace: shop}}"
    file.write_text(
        f"- {{at: 5, delete: {{{LATE}}}}}\n- {{at: 4, create: {{{LATE}, {LATE_SPEC}}}}}\n- {{at: 5, delete: {pod}}}\n"
    )
    assert main(["whatif", "events", "--events", str(file), "--cluster", SHOWN]) == 0
    told = "WARN 1 event without effect unless a controller creates the object: delete of Pod shop/late-5f8-x"
    assert told in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    "text",
    [
        POD.replace("  creationTimestamp: now\n", ""),
        DEPLOYMENT.replace("1x", "1").replace("name: web", "name: nope"),
        "apiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata:\n  name: nope\nspec: {minAvailable: 1}\n",
        "apiVersion: v1\nkind: Node\nmetadata:\n  name: nope\n",
    ],
)
def test_what_is_not_there_is_not_deleted(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "gone.yaml"
    file.write_text(text)
    assert main(["whatif", "delete", "-f", str(file), "--cluster", SHOWN]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"forewarn whatif: {file}:")
    assert "not found in the cluster" in err


def test_what_nodes_lack_is_told_in_the_plural_and_as_room(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "pod.yaml"
    file.write_text("apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: c, image: i}]}\n")
    assert main(["headroom", "-f", str(file), "--cluster", SHOWN]) == 0
    assert "Pod slots                    4  2         64Gi\n" in capsys.readouterr().out


@pytest.mark.parametrize(("name", "pods"), [("batch", 4), ("idle", 0)])
def test_workloads_without_running_pods_do_not_count(
    name: str, pods: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    template = {"spec": {"priorityClassName": name, "containers": [{"name": "c"}]}}
    idle = Made("apps/v1", "Deployment", "idle", "reports").spec(replicas=0, template=template)
    given, shown = tmp_path / "cluster.json", next(yaml.safe_load_all(Path(SHOWN).read_text()))
    given.write_text(cluster_text([*shown["items"], idle, make_priority_class(1, "idle")]))
    assert main(["whatif", "class", name, "--value", "50", "--cluster", str(given), "-o", "json"]) == 0
    assert [row["runningPods"] for row in json.loads(capsys.readouterr().out)["rows"]] == [pods]


def test_a_class_that_ranks_nobody_otherwise_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["whatif", "class", "batch", "--default", "--cluster", SHOWN]) == 0
    out = capsys.readouterr().out
    assert out.startswith("OK  PriorityClass batch changed (global default): no Pod preempted, newly Pending or lost\n")
