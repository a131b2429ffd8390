"""What commands say of autoscalers, and what they are told of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from forewarn.policies.cli.main import main
from tests.builders import Made, cluster_text, make_node, make_pod, make_priority_class

LOOKS = "cluster-autoscaler or Karpenter would try to scale up for the Pending Pod"
BELOW = "cluster-autoscaler would try to scale up for 0 of 1 Pending Pod (priority below cutoff 1: 1)"
KARPENTER = "Karpenter would try to scale up for the Pending Pod"
BELOW_JSON = {
    "clusterAutoscaler": {"considered": 0, "ignored": {"priority below cutoff 1": 1}},
    "karpenter": {"considered": 1, "ignored": {}},
}
LOOKS_JSON = BELOW_JSON | {"clusterAutoscaler": {"considered": 1, "ignored": {}}}
COMMANDS = [("predict",), ("whatif", "events"), ("whatif", "apply")]
RAISED = ("--expendable-pods-priority-cutoff", "1")


def written(path: Path, *made: Made) -> str:
    path.write_text(cluster_text(made))
    return str(path)


@pytest.fixture
def cluster(tmp_path: Path) -> str:
    return written(
        tmp_path / "cluster.json", make_node("n1").status(allocatable={"cpu": "1", "memory": "8Gi", "pods": "110"})
    )


@pytest.fixture
def too_large(tmp_path: Path) -> str:
    return written(tmp_path / "pod.json", make_pod("big").request(cpu="2"))


@pytest.fixture
def small(tmp_path: Path) -> str:
    return written(tmp_path / "small.json", make_pod("small").request(cpu="1"))


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(arguments) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return out


def flat(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.parametrize("command", COMMANDS)
def test_the_cutoff_is_a_flags_else_the_configurations(
    command: tuple[str, ...], cluster: str, too_large: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = (*command, "-f", too_large, "--cluster", cluster)

    def told(*more: str) -> Any:
        return json.loads(run(capsys, *asked, "-o", "json", *more))["autoscalers"]

    config = tmp_path / "forewarn.yaml"
    config.write_text("autoscalerCutoff: 1\n")
    assert told() == told("-c", str(config), "--expendable-pods-priority-cutoff", "0") == LOOKS_JSON
    assert told(*RAISED) == told("-c", str(config)) == BELOW_JSON
    assert "--node-templates" in run(capsys, *asked)
    assert "--node-templates" not in run(capsys, *asked, "--no-autoscaler")


def test_the_text_of_a_prediction_tells_the_cutoff(
    cluster: str, too_large: str, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ("predict", "-f", too_large, "--cluster", cluster)
    assert "--node-templates" in run(capsys, *asked)
    assert "NO NEW NODE BECAUSE PODS priority below cutoff 1 1" in flat(run(capsys, *asked, *RAISED, "-v"))
    assert "priority below cutoff 1" in run(capsys, *asked, *RAISED, "-o", "html")
    assert "--node-templates" not in run(capsys, *asked, "--no-autoscaler")


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("form", ["text", "html"])
def test_where_nobody_waits_nothing_is_said_of_it(
    command: tuple[str, ...], form: str, cluster: str, small: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "autoscaler" not in run(capsys, *command, "-f", small, "--cluster", cluster, "-o", form).lower()


def test_the_json_of_a_prediction_in_which_nothing_is_pending_has_no_autoscalers(
    cluster: str, small: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "autoscalers" not in run(capsys, "predict", "-f", small, "--cluster", cluster, "-o", "json")


def test_a_configuration_that_cannot_be_read_is_wrong_usage(
    cluster: str, too_large: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "forewarn.yaml"
    config.write_text("autoscalerCutoff: low\n")
    with pytest.raises(SystemExit) as ended:
        main(("predict", "-f", too_large, "--cluster", cluster, "-c", str(config)))
    assert ended.value.code == 2
    assert 'must be a whole number, not "low"' in capsys.readouterr().err


@pytest.mark.parametrize("given", ["low", "2147483648", "-2147483649", "1e3"])
def test_a_cutoff_is_a_priority(given: str, cluster: str, too_large: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(("predict", "-f", too_large, "--cluster", cluster, f"--expendable-pods-priority-cutoff={given}"))
    assert ended.value.code == 2
    assert "argument --expendable-pods-priority-cutoff: must be" in capsys.readouterr().err


GROUPS = "- name: spot\n  template: {status: {capacity: {cpu: 4, memory: 8Gi, pods: 110}}}\n"
NEW_NODES = "NEW NODES OF NODES PODS spot 1 1"


@pytest.mark.parametrize("command", COMMANDS)
def test_node_groups_are_told_by_every_command_in_every_form(
    command: tuple[str, ...], cluster: str, too_large: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    groups = tmp_path / "groups.yaml"
    groups.write_text(GROUPS)
    asked = (*command, "-f", too_large, "--cluster", cluster, "--node-templates", str(groups))
    assert NEW_NODES in flat(run(capsys, *asked, "-v"))
    assert "<caption>New nodes of</caption>" in run(capsys, *asked, "-o", "html")
    told: Any = json.loads(run(capsys, *asked, "-o", "json"))
    (scale_up,) = told["autoscalers"]["nodeGroups"]["scaleUps"]
    assert (scale_up["group"], scale_up["nodes"], scale_up["pods"]) == ("spot", 1, 1)
    assert scale_up["workloads"] == [{"workload": "default/big", "pods": 1, "nodes": 1}]
    assert "\n| spot | 1 | 1 | - |\n" in run(capsys, *asked, "-o", "markdown")


def test_the_json_of_several_pods_has_their_plan_once(
    cluster: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    groups = tmp_path / "groups.yaml"
    groups.write_text(GROUPS)
    pods = written(tmp_path / "pods.json", *(make_pod(name).request(cpu="2") for name in ("one", "two")))
    text = run(capsys, "predict", "-f", pods, "--cluster", cluster, "--node-templates", str(groups), "-o", "json")
    document = json.loads(text)
    assert [each["pods"] for each in document["autoscalers"]["nodeGroups"]["scaleUps"]] == [2]
    after = document["countersWithNewNodes"]
    assert (document["counters"]["pending"], after["pending"], after["newNodes"]) == (2, 0, 1)


def test_why_no_group_helps_is_told(
    cluster: str, too_large: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    groups = tmp_path / "groups.yaml"
    groups.write_text(GROUPS.replace("cpu: 4", "cpu: 1"))
    told = run(capsys, "whatif", "events", "-f", too_large, "--cluster", cluster, "--node-templates", str(groups), "-v")
    assert "NO NEW NODE BECAUSE PODS SUCH AS Insufficient cpu (spot) 1 default/big " in flat(told)


def test_who_is_below_the_cutoff_gets_no_node_and_takes_no_room(
    cluster: str, too_large: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    groups = tmp_path / "groups.yaml"
    groups.write_text(GROUPS)
    asked = ("whatif", "events", "--cluster", cluster, "--node-templates", str(groups), *RAISED)
    assert "NO NEW NODE BECAUSE PODS priority below cutoff 1 1 " in flat(run(capsys, *asked, "-f", too_large, "-v"))
    expendable = make_pod("filler").request(cpu="1").priority(0).on("n1")
    node = make_node("n1").status(allocatable={"cpu": "1", "memory": "8Gi", "pods": "110"})
    full = written(tmp_path / "full.json", node, expendable, make_priority_class(5, preemptionPolicy="Never"))
    waits = make_pod("waits").request(cpu="1").of_class(5)
    of_full = (*asked, "--cluster", full, "-f", written(tmp_path / "waits.json", waits))
    told: Any = json.loads(run(capsys, *of_full, "-o", "json"))
    ignored = {"fits without Pods below cutoff 1": 1}
    assert told["autoscalers"]["clusterAutoscaler"] == {"considered": 0, "ignored": ignored}
    assert told["counters"]["newNodes"] == 0
    assert "NO NEW NODE BECAUSE PODS fits without Pods below cutoff 1 1 " in flat(run(capsys, *of_full, "-v"))


@pytest.mark.parametrize(
    ("groups", "clause", "left"),
    [
        (GROUPS, "3 Pods stay Pending at once; 2 new nodes after 3 min 10 s leave no Pod Pending", ""),
        (GROUPS.replace("cpu: 4", "cpu: 1"), "0 of 3 new Pods run, 3 stay Pending",
         "Insufficient cpu (spot) 3 default/a and 2 more"),
        ("- {maxSize: 1, " + GROUPS[2:].replace("\n", ", ", 1).replace("  template", "template").rstrip() + "}\n",
         "3 Pods stay Pending at once; 1 new node after 3 min 10 s leaves 1 Pending",
         "max node group size reached (spot) 1 default/c"),
    ],
    ids=["all", "too small", "one node"],
)  # fmt: skip
def test_the_first_line_follows_the_plan(
    groups: str, clause: str, left: str, cluster: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "groups.yaml").write_text(groups)
    pods = written(tmp_path / "pods.json", *(make_pod(name).request(cpu="2") for name in "abc"))
    templates = ("--node-templates", str(tmp_path / "groups.yaml"))
    told = run(capsys, "whatif", "apply", "-f", pods, "--cluster", cluster, *templates, "-v")
    assert told.startswith(f"PENDING  3 objects applied: {clause}\n")
    assert left in flat(told)
    assert ("NO NEW NODE BECAUSE" in told) == bool(left)
    assert "Karpenter" not in told


LOST_TOO = "NO NEW NODE BECAUSE PODS SUCH AS its nodes would be in what is lost (spot) 1 default/web "


@pytest.mark.parametrize(
    ("question", "group", "reason"),
    [
        (("lose", "zone", "a"), "a", LOST_TOO),
        (("lose", "zone", "a"), "b", NEW_NODES),
        (("lose", "pool", "pool=web"), "a", LOST_TOO),
        (("lose", "node", "n1"), "a", NEW_NODES),
        (("lose", "--each", "zone", "-o", "json"), "a", '"nodes": {}, "noScaleUp": 1,'),
        (("lose", "--each", "zone"), "b", "a 1 1 1 of spot 0 lost, 0 Pending INPUT"),
    ],
)
def test_a_group_adds_no_nodes_to_what_is_lost(
    question: tuple[str, ...], group: str, reason: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "r", "controller": True}
    pod = make_pod("web-1").request(cpu="1").labels(app="web").on("n1").metadata(ownerReferences=[owner])
    web = Made("apps/v1", "ReplicaSet", "web", "default").metadata(uid="r")
    template = {"metadata": {"labels": {"app": "web"}}, "spec": pod.obj["spec"] | {"nodeName": ""}}
    web.spec(replicas=1, selector={"matchLabels": {"app": "web"}}, template=template)
    node = make_node("n1").zone("a").labels(pool="web")
    cluster = written(tmp_path / "cluster.json", node, web, pod)
    labels = f"metadata: {{labels: {{topology.kubernetes.io/zone: {group}, pool: {'web' if group == 'a' else 'x'}}}}}"
    (tmp_path / "groups.yaml").write_text(GROUPS.replace("{status", "{" + labels + ", status"))
    templates = ("--node-templates", str(tmp_path / "groups.yaml"))
    assert reason in flat(run(capsys, "whatif", *question, "--cluster", cluster, *templates, "-v"))


@pytest.mark.parametrize(
    ("text", "problem"), [("- nam: a\n", "groups.yaml:1:3: [0]: unknown key"), (None, "no such file")]
)
def test_node_groups_that_cannot_be_read_are_wrong_usage(
    text: str | None, problem: str, cluster: str, too_large: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    groups = tmp_path / "groups.yaml"
    if text is not None:
        groups.write_text(text)
    with pytest.raises(SystemExit) as ended:
        main(("predict", "-f", too_large, "--cluster", cluster, "--node-templates", str(groups)))
    assert ended.value.code == 2
    assert problem in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--node-templates", "-c", "--scheduler-config"])
def test_what_a_file_says_commands_no_terminal_where_it_is_wrong_usage(
    option: str, cluster: str, too_large: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kind = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
    text = {"--node-templates": '- "\\e[2J": x\n', "-c": '"\\e[2J": x\n'}.get(option, f'{kind}"\\e[2J": x\n')
    file = tmp_path / "hostile.yaml"
    file.write_text(text)
    with pytest.raises(SystemExit) as ended:
        main(("predict", "-f", too_large, "--cluster", cluster, option, str(file)))
    err = capsys.readouterr().err
    assert ended.value.code == 2
    assert "[2J" in err
    assert all(line.isprintable() for line in err.splitlines())


def test_new_nodes_are_not_predicted_with_pods_of_pod_groups(capsys: pytest.CaptureFixture[str]) -> None:
    example, groups = "docs/examples/pod-groups", ("--node-templates", "docs/examples/whatif/node-groups.yaml")
    out = run(
        capsys, "whatif", "apply", "-f", f"{example}/trainer.yaml", "--cluster", f"{example}/cluster.yaml", *groups
    )
    why = "not predicted: cluster-autoscaler with Pods of PodGroups, such as experiment"
    assert f"WARN new nodes of cluster-autoscaler {why} WHY " in flat(out)
    assert "NO NEW NODE BECAUSE" not in out
