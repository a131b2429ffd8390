"""What commands say of autoscalers, and what they are told of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from forewarn.policies.cli import main
from tests.builders import Made, cluster_text, make_node, make_pod, make_priority_class

LOOKS = "cluster-autoscaler or Karpenter would try to scale up for the Pending Pod"
BELOW = "cluster-autoscaler would try to scale up for 0 of 1 Pending Pod (priority below cutoff 1: 1)"
KARPENTER = "Karpenter would try to scale up for the Pending Pod"
BELOW_JSON = {
    "clusterAutoscaler": {"considered": 0, "ignored": {"priority below cutoff 1": 1}},
    "karpenter": {"considered": 1, "ignored": {}},
}
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


@pytest.mark.parametrize(
    "command",
    [
        ("predict",),
        (
            "whatif",
            "events",
        ),
        ("whatif", "apply"),
    ],
)
def test_the_cutoff_is_a_flags_else_the_configurations(
    command: tuple[str, ...], cluster: str, too_large: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = (*command, "-f", too_large, "--cluster", cluster)
    assert LOOKS in run(capsys, *asked)
    told = run(capsys, *asked, *RAISED)
    assert BELOW in told
    assert KARPENTER in told
    config = tmp_path / "forewarn.yaml"
    config.write_text("autoscalerCutoff: 1\n")
    assert BELOW in run(capsys, *asked, "-c", str(config))
    assert LOOKS in run(capsys, *asked, "-c", str(config), "--expendable-pods-priority-cutoff", "0")
    assert "scale up" not in run(capsys, *asked, "--no-autoscaler")


@pytest.mark.parametrize(
    "command",
    [
        ("predict",),
        (
            "whatif",
            "events",
        ),
        ("whatif", "apply"),
    ],
)
def test_programs_and_pages_have_it_too(
    command: tuple[str, ...], cluster: str, too_large: str, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = (*command, "-f", too_large, "--cluster", cluster, *RAISED)
    told: Any = json.loads(run(capsys, *asked, "-o", "json"))
    assert told["autoscalers"] == BELOW_JSON
    assert BELOW in run(capsys, *asked, "-o", "html")


def test_a_comment_on_a_pull_request_has_it_too(
    cluster: str, too_large: str, capsys: pytest.CaptureFixture[str]
) -> None:
    told = run(capsys, "whatif", "apply", "-f", too_large, "--cluster", cluster, "-o", "markdown")
    assert f"\n\n- {LOOKS}\n" in told.replace("\\", "")


@pytest.mark.parametrize(
    "command",
    [
        ("predict",),
        (
            "whatif",
            "events",
        ),
        ("whatif", "apply"),
    ],
)
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
NEEDS = "scale-up: 1 node of group spot for default/big (1 Pod)"


@pytest.mark.parametrize(
    "command",
    [
        ("predict",),
        (
            "whatif",
            "events",
        ),
        ("whatif", "apply"),
    ],
)
def test_node_groups_are_told_by_every_command_in_every_form(
    command: tuple[str, ...], cluster: str, too_large: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    groups = tmp_path / "groups.yaml"
    groups.write_text(GROUPS)
    asked = (*command, "-f", too_large, "--cluster", cluster, "--node-templates", str(groups))
    assert NEEDS in run(capsys, *asked)
    assert NEEDS in run(capsys, *asked, "-o", "html")
    told: Any = json.loads(run(capsys, *asked, "-o", "json"))
    (scale_up,) = told["autoscalers"]["nodeGroups"]["scaleUps"]
    assert (scale_up["group"], scale_up["nodes"], scale_up["pods"]) == ("spot", 1, 1)
    assert scale_up["workloads"] == [{"workload": "default/big", "pods": 1, "nodes": 1}]
    if command[0] == "whatif":
        assert f"- {NEEDS}" in run(capsys, *asked, "-o", "markdown").replace("\\", "")


def test_the_json_of_several_pods_has_their_plan_once(
    cluster: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    groups = tmp_path / "groups.yaml"
    groups.write_text(GROUPS)
    pods = written(tmp_path / "pods.json", *(make_pod(name).request(cpu="2") for name in ("one", "two")))
    lines = run(capsys, "predict", "-f", pods, "--cluster", cluster, "--node-templates", str(groups), "-o", "json")
    first, last = (json.loads(line)["autoscalers"] for line in lines.splitlines())
    assert "nodeGroups" not in first
    assert [each["pods"] for each in last["nodeGroups"]["scaleUps"]] == [2]


def test_why_no_group_helps_is_told(
    cluster: str, too_large: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    groups = tmp_path / "groups.yaml"
    groups.write_text(GROUPS.replace("cpu: 4", "cpu: 1"))
    told = run(capsys, "whatif", "events", "-f", too_large, "--cluster", cluster, "--node-templates", str(groups))
    assert "no node group fits default/big (1 Pod): Insufficient cpu (spot)" in told


def test_who_is_below_the_cutoff_gets_no_node_and_takes_no_room(
    cluster: str, too_large: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    groups = tmp_path / "groups.yaml"
    groups.write_text(GROUPS)
    asked = (
        "whatif",
        "events",
        "--cluster",
        cluster,
        "--node-templates",
        str(groups),
        "--expendable-pods-priority-cutoff",
        "1",
    )
    assert "needs" not in run(capsys, *asked, "-f", too_large)
    expendable = make_pod("filler").request(cpu="1").priority(0).on("n1")
    node = make_node("n1").status(allocatable={"cpu": "1", "memory": "8Gi", "pods": "110"})
    full = written(tmp_path / "full.json", node, expendable, make_priority_class(5, preemptionPolicy="Never"))
    waits = make_pod("waits").request(cpu="1").of_class(5)
    told = run(capsys, *asked, "--cluster", full, "-f", written(tmp_path / "waits.json", waits))
    answer = "0 of 1 Pending Pod (fits without Pods below cutoff 1: 1)"
    assert f"cluster-autoscaler would try to scale up for {answer}" in told
    assert "scale-up:" not in told
    without_groups = (*asked[:4], *asked[6:], "--cluster", full, "-f", str(tmp_path / "waits.json"))
    assert f"cluster-autoscaler would try to scale up for {answer}" in run(capsys, *without_groups)
    fitting = run(capsys, *asked, "--cluster", full, "-f", str(tmp_path / "waits.json"), "-o", "json")
    assert json.loads(fitting)["autoscalers"]["clusterAutoscaler"] == {
        "considered": 0,
        "ignored": {"fits without Pods below cutoff 1": 1},
    }


@pytest.mark.parametrize(
    ("groups", "sentence"),
    [
        (GROUPS, "cluster-autoscaler would scale up for 3 Pods\n"),
        (GROUPS.replace("cpu: 4", "cpu: 1"), "would scale up for 0 of 3 Pending Pods (no node group helps: 3)"),
        ("- {maxSize: 1, " + GROUPS[2:].replace("\n", ", ", 1).replace("  template", "template").rstrip() + "}\n",
         "would scale up for 2 Pods (no node group helps: 1)"),
    ],
    ids=["all", "too small", "one node"],
)  # fmt: skip
def test_the_sentence_follows_the_plan(
    groups: str, sentence: str, cluster: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "groups.yaml").write_text(groups)
    pods = written(tmp_path / "pods.json", *(make_pod(name).request(cpu="2") for name in "abc"))
    asked = ("whatif", "apply", "-f", pods, "--cluster", cluster, "--node-templates", str(tmp_path / "groups.yaml"))
    told = run(capsys, *asked)
    assert sentence in told
    assert "Karpenter" not in told


@pytest.mark.parametrize(
    ("question", "group", "reason"),
    [
        (
            ("lose", "zone", "a"),
            "a",
            "no node group fits default/web (1 Pod): its nodes would be in what is lost (spot)",
        ),
        (("lose", "zone", "a"), "b", "scale-up: 1 node of group spot"),
        (
            ("lose", "pool", "pool=web"),
            "a",
            "no node group fits default/web (1 Pod): its nodes would be in what is lost",
        ),
        (("lose", "node", "n1"), "a", "scale-up: 1 node of group spot"),
        (("lose", "--each", "zone"), "a", "none for 1 Pod"),
        (("lose", "--each", "zone"), "b", "1 of spot"),
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
    told = run(capsys, "whatif", *question, "--cluster", cluster, "--node-templates", str(tmp_path / "groups.yaml"))
    assert reason in told


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
    assert "\n  new nodes not predicted: cluster-autoscaler with Pods of PodGroups, such as experiment\n" in out
    assert "no new nodes help" not in out
