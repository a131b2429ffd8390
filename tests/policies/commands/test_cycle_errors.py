"""A profile whose cycles end in an error: every command says so, and no command predicts that the Pod fits."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.builders import cluster_text, make_node, make_pod
from tests.in_process import forewarn

if TYPE_CHECKING:
    from pathlib import Path

PROFILE = {"plugins": {"preScore": {"disabled": [{"name": "TaintToleration"}]}}}
CONFIG = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration", "profiles": [PROFILE]}
ERROR = 'failed to read "PreScoreTaintToleration"'


@pytest.mark.parametrize(
    ("command", "text"),
    [
        (("predict", "-f", "{pod}"), "    1  kube-scheduler's cycle ends in an error"),
        (("lint", "{pod}"), "stays Pending: kube-scheduler's cycle ends in an error"),
        (("why", "default/waits"), "WHY IT IS PENDING\n       kube-scheduler's cycle ends in an error"),
        (("whatif", "apply", "-f", "{pod}"), '1  plugin "TaintToleration" failed with: '),
    ],
    ids=["predict", "lint", "why", "whatif"],
)
def test_the_error_is_the_answer(command: tuple[str, ...], text: str, tmp_path: Path) -> None:
    nodes = [make_node(name).has(cpu="4").obj for name in ("n1", "n2")]
    for name, obj in {
        "cluster": json.loads(cluster_text([*nodes, make_pod("waits")])),
        "pod": make_pod("new").obj,
        "config": CONFIG,
    }.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(obj))
    given = [part.format(pod=tmp_path / "pod.json") for part in command]
    done = forewarn(*given, "--cluster", tmp_path / "cluster.json", "--scheduler-config", tmp_path / "config.json")
    assert text in done.stdout
    assert ERROR in " ".join(done.stdout.split())
    assert "try to scale up for all" not in done.stdout
    told = forewarn("info", "scheduler", tmp_path / "config.json").stdout
    assert "TaintToleration scores without its PreScore" in told
