"""Two gangs on a control plane of 1.37 with the feature gate GenericWorkload: one preempts the other.

`forewarn predict` predicts each gang before the test creates it, and kube-scheduler does the same. There is no kubelet:
Pods count as running once they are bound, and the test deletes victims without a grace period.
"""

from __future__ import annotations

import json
from collections import Counter
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from forewarn.policies.cli.main import main
from forewarn.policies.kubernetes.releases.release import known_minor
from forewarn.policies.kubernetes.releases.semantics import Semantics
from tests.e2e.build import NEWEST, binaries, control_plane
from tests.e2e.conftest import run_directory
from tests.e2e.control_plane import boot
from tests.e2e.objects import container, node, pod, priority_class
from tests.e2e.staging import DUMPED, Stage
from tests.e2e.truth import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from tests.e2e.api import Obj

pytestmark = [pytest.mark.e2e, pytest.mark.whole]

GATE = "--feature-gates=GenericWorkload=true"
NODES = ("gpu-1", "gpu-2")
PROGRAMS = ("etcd", "kube-apiserver", "kube-scheduler")
PATIENCE = 30


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    """A control plane of its own, which serves PodGroups, with two nodes."""
    home = run_directory() / "gangs"
    plane = boot(
        binaries(control_plane(NEWEST, *PROGRAMS)), home, GATE, "--runtime-config=scheduling.k8s.io/v1beta1=true"
    )
    try:
        plane.processes.stop("kube-scheduler")
        plane.start_scheduler(None, GATE)
        with closing(Stage(plane.api(), Semantics(known_minor(NEWEST)))) as made:
            for name in NODES:
                made.node(node(name, cpu="4"))
            for name, value in (("research", 100), ("production", 1000)):
                made.api.create(priority_class(name, value))
            yield made
    finally:
        plane.processes.stop_all()


def gang(name: str, class_name: str, pods: int, cpu: str) -> list[Obj]:
    """A PodGroup that needs all its Pods, and the Pods."""
    spec = {"schedulingPolicy": {"gang": {"minCount": pods}}, "priorityClassName": class_name}
    group = {
        "apiVersion": "scheduling.k8s.io/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {**spec, "disruptionMode": {"all": {}}},
    }
    of_group = {"priorityClassName": class_name, "schedulingGroup": {"podGroupName": name}}
    members = [pod(f"{name}-{n}", **of_group, containers=[container(cpu)]) for n in range(pods)]
    return [group, *members]


def predicted(stage: Stage, objects: Sequence[Obj], directory: Path, capsys: pytest.CaptureFixture[str]) -> Obj:
    """What `forewarn predict` says of the PodGroup in a file with these objects."""
    no_pods = {"apiVersion": "v1", "kind": "PodList", "items": []}  # an empty list of the API server has no items
    dump = [no_pods, *stage.dump(typed_lists=(*DUMPED, "PodGroup"))]
    for name, items in (("cluster", dump), ("new", objects)):
        listed = {"apiVersion": "v1", "kind": "List", "items": items}
        (directory / f"{name}.json").write_text(json.dumps(listed))
    files = ["-f", str(directory / "new.json"), "--cluster", str(directory / "cluster.json")]
    assert main(["predict", *files, "--kubernetes-version", NEWEST, "-o", "json"]) == 0
    (group,) = json.loads(capsys.readouterr().out)["podGroups"]
    return dict(group)


def create(stage: Stage, objects: Sequence[Obj]) -> None:
    for obj in objects:
        stage.create(obj)


def places(stage: Stage, name: str) -> Counter[str]:
    """Number of the gang's bound Pods by node."""
    pods = [found for found in stage.api.list("Pod", "default") if found["metadata"]["name"].startswith(f"{name}-")]
    return Counter(found["spec"]["nodeName"] for found in pods if found["spec"].get("nodeName"))


def terminating(stage: Stage) -> set[str]:
    pods = stage.api.list("Pod", "default")
    return {f"default/{p['metadata']['name']}" for p in pods if "deletionTimestamp" in p["metadata"]}


def test_one_gang_preempts_the_other(stage: Stage, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    experiment = gang("experiment", "research", 4, "2")
    row = predicted(stage, experiment, tmp_path, capsys)
    assert (row["outcome"], row["victims"]) == ("fits", [])
    create(stage, experiment)
    wait_until(lambda: places(stage, "experiment").total() == 4, PATIENCE, "experiment is bound")
    assert places(stage, "experiment") == row["nodes"]

    trainer = gang("trainer", "production", 2, "4")
    row = predicted(stage, trainer, tmp_path, capsys)
    assert (row["outcome"], len(row["victims"])) == ("preempts", 4)
    create(stage, trainer)
    wait_until(lambda: len(terminating(stage)) == 4, PATIENCE, "experiment is preempted as a whole")
    assert terminating(stage) == set(row["victims"])
    for found in stage.api.list("Pod", "default"):
        if "deletionTimestamp" in found["metadata"]:
            stage.api.delete(found, gracePeriodSeconds="0")
    wait_until(lambda: places(stage, "trainer").total() == 2, PATIENCE, "trainer is bound")
    assert places(stage, "trainer") == dict.fromkeys(NODES, 1)
