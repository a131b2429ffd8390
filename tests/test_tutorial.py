"""The output of forewarn in the tutorial, in a snapshot of the cluster that its reader has at each step.

tests/e2e/test_cluster.py runs the same commands on a real control plane, but does not compare the whole output.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tests.builders import Made, cluster_text, make_node, make_pod
from tests.in_process import forewarn

if TYPE_CHECKING:
    from collections.abc import Iterator

GROUP = "scheduling.k8s.io/v1"
PAGE = Path("docs/get-started/tutorial.md")
STEP = re.compile(r"^```sh\n((?:.*\n)*?)```\n\n```text\n((?:.*\n)*?)```$", re.MULTILINE)
STEPS = [(block.splitlines()[-1], shown) for block, shown in STEP.findall(PAGE.read_text())]
CROWD = {"lrf7v": "node-a", "wsx44": "node-b", "zt7fl": "node-c"}
"""Node of each Pod of hello-crowd; the second one is preempted, and its replacement has the name on the page."""


def _workload(
    manifest: dict[str, Any], hash_: str, priority: int, nodes: dict[str, str]
) -> Iterator[Made | dict[str, Any]]:
    """A Deployment as the API server has it, its ReplicaSet and its Pods. `nodes`: "" for a Pending Pod."""
    name, spec = manifest["metadata"]["name"], manifest["spec"]
    template = spec["template"]
    labels = {**template["metadata"]["labels"], "pod-template-hash": hash_}
    revision = {"deployment.kubernetes.io/revision": "1"}
    yield manifest | {"metadata": {"name": name, "namespace": "default", "uid": name, "annotations": revision}}
    own_set = f"{name}-{hash_}"
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": own_set, "uid": hash_, "controller": True}
    made = Made("apps/v1", "ReplicaSet", own_set, "default").metadata(
        uid=hash_,
        labels=labels,
        annotations=revision,
        ownerReferences=[owner | {"kind": "Deployment", "name": name, "uid": name}],
    )
    own = {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": template["spec"]}}
    yield made.spec(replicas=len(nodes), **own).status(replicas=len(nodes))
    for suffix, node in nodes.items():
        pod = make_pod(f"{name}-{hash_}-{suffix}").metadata(labels=labels, ownerReferences=[owner], uid=suffix)
        pod.spec(**template["spec"], priority=priority, **({"nodeName": node} if node else {}))
        yield pod.status(phase="Running" if node else "Pending", startTime="2026-11-22T12:29:35Z")


def _webhook() -> Iterator[Made | dict[str, Any]]:
    """The PriorityClass of forewarn, and three of its Pods."""
    yield {"apiVersion": GROUP, "kind": "PriorityClass", "metadata": {"name": "forewarn"}, "value": 1_000_000_000}
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "forewarn-5d", "uid": "5d", "controller": True}
    labels, spec = {"app": "forewarn"}, {"containers": [{"name": "forewarn"}], "priorityClassName": "forewarn"}
    made = Made("apps/v1", "ReplicaSet", "forewarn-5d", "forewarn").metadata(uid="5d")
    template = {"metadata": {"labels": labels}, "spec": spec}
    yield made.spec(replicas=3, selector={"matchLabels": labels}, template=template).status(replicas=3)
    for number, node in enumerate(("node-a", "node-a", "node-b")):
        pod = make_pod(f"forewarn-5d-{number}", "forewarn").metadata(labels=labels, ownerReferences=[owner])
        yield pod.spec(**spec, priority=1_000_000_000, nodeName=node).status(phase="Running")


def _cluster(command: str) -> str:
    """Three nodes; from `predict` on with forewarn and hello-crowd, then with hello-preemption."""
    low, high, crowd = yaml.safe_load_all(Path("docs/examples/hello-crowd.yaml").read_text())
    preemption = yaml.safe_load(Path("docs/examples/hello-preemption.yaml").read_text())
    lists = ("policy/v1", "PodDisruptionBudget"), ("v1", "ResourceQuota"), ("v1", "LimitRange")
    made: list[Made | dict[str, Any]] = [make_node(f"node-{name}") for name in "abc"]
    made += [{"apiVersion": version, "kind": f"{kind}List", "items": []} for version, kind in lists]
    if not command.startswith("forewarn lint"):
        is_applied = not command.startswith("forewarn predict")
        nodes = CROWD | ({"wsx44": ""} if is_applied else {})
        made += [low, high, *_webhook(), *_workload(crowd, "5668944c99", 100, nodes)]
        made += _workload(preemption, "56475c985f", 100_000, {"c5h8j": "node-b"}) if is_applied else ()
    return cluster_text(made)


@pytest.mark.parametrize(("command", "shown"), [step for step in STEPS if step[0].startswith("forewarn ")])
def test_the_tutorial_shows_what_forewarn_prints(command: str, shown: str, tmp_path: Path) -> None:
    """All lines except the head, which names the context and the time."""
    file = tmp_path / "cluster.json"
    file.write_text(_cluster(command))
    _, *arguments = shlex.split(command.replace(" --cluster live", ""))
    printed = forewarn(*arguments, "--cluster", file, "--kubernetes-version", "1.36", merged=True).stdout
    assert _without_head(printed) == _without_head(shown)


def _without_head(text: str) -> list[str]:
    return [line for line in text.splitlines() if not line.startswith(("Input: ", "INPUT  "))]


def test_every_step_of_the_tutorial_is_compared() -> None:
    compared = [command.split()[1] for command, _ in STEPS if command.startswith("forewarn ")]
    assert compared == ["lint", "predict", "why", "whatif"]
