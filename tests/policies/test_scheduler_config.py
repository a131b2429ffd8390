"""`--scheduler-config` and `forewarn info scheduler`: files, presets, and where a fault is."""

from __future__ import annotations

import gc
import json
import weakref
from typing import TYPE_CHECKING

import pytest

from forewarn.policies.cli.main import main
from forewarn.policies.kubernetes.releases.minors import KNOWN_MINORS
from forewarn.policies.kubernetes.releases.semantics import DEFAULT, Semantics
from forewarn.policies.kubernetes.scheduling.configuration import PRESETS
from forewarn.policies.linting.config.model import ConfigError
from forewarn.policies.linting.config.scheduler import read_scheduler, scheduler_source

if TYPE_CHECKING:
    from pathlib import Path

HEADER = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"

FAULTS = [
    ("no file", "", "scheduler.yaml: a configuration is an object, not null"),
    ("no YAML", "a: [", "scheduler.yaml:2:1: did not find expected node content"),
    ("a removed field", HEADER + "algorithmSource: {}\n", 'unknown field "algorithmSource": use profiles[].plugins'),
    ("a field", HEADER + "profile: []\n", 'scheduler.yaml:3:10: profile: unknown field "profile" (did you mean "profi'),
    (
        "arguments",
        HEADER
        + "profiles:\n- schedulerName: a\n  pluginConfig:\n  - name: InterPodAffinity\n    args:\n"
        + "      hardPodAffinityWeight: 101\n",
        "scheduler.yaml:8:30: profiles[0].pluginConfig[0].args.hardPodAffinityWeight: Invalid value: 101",
    ),
    (
        "a plugin",
        HEADER + "profiles:\n- plugins:\n    score:\n      enabled:\n      - name: NodeName\n",
        'scheduler.yaml:7:9: profiles[0].plugins.score.enabled[0]: plugin "NodeName" does not extend ScorePlugin',
    ),
    (
        "what is not there",
        HEADER + "profiles:\n- {schedulerName: a}\n- {}\n",
        "scheduler.yaml:5:3: profiles[1].schedulerName: Required value",
    ),
    ("twice", HEADER + "parallelism: 1\nparallelism: 2\n", 'scheduler.yaml:4:1: "parallelism" is duplicated'),
]


@pytest.mark.parametrize(("text", "told"), [case[1:] for case in FAULTS], ids=[case[0] for case in FAULTS])
def test_a_fault_has_a_place(text: str, told: str) -> None:
    with pytest.raises(ConfigError) as rejected:
        read_scheduler(text.encode(), "scheduler.yaml")(DEFAULT)
    assert told in str(rejected.value)


def test_every_fault_is_told() -> None:
    text = HEADER + "parallelism: 0\npercentageOfNodesToScore: 200\n"
    with pytest.raises(ConfigError) as rejected:
        read_scheduler(text.encode(), "f")(DEFAULT)
    assert len(str(rejected.value).splitlines()) == 2


@pytest.mark.parametrize("minor", KNOWN_MINORS)
@pytest.mark.parametrize("name", PRESETS)
def test_presets_hold_for_every_release(name: str, minor: int) -> None:
    source = scheduler_source(name)
    made = source(Semantics(minor))
    assert made is source(Semantics(minor)), "asked again, it is the same"
    assert made.source == name


def test_a_source_that_nothing_uses_leaves_memory() -> None:
    source = read_scheduler(HEADER.encode(), "scheduler.yaml")
    assert source(DEFAULT) is source(DEFAULT)
    left = weakref.ref(source)
    del source
    gc.collect()
    assert left() is None


def test_what_openshift_changes() -> None:
    high = scheduler_source("openshift-high-node-utilization")(DEFAULT).profiles["default-scheduler"]
    assert high.args["NodeResourcesFit"].strategy == "MostAllocated"
    assert high.weights["NodeResourcesFit"] == 5
    assert "NodeResourcesBalancedAllocation" not in high.plugins_at("score")
    none = scheduler_source("openshift-no-scoring")(DEFAULT).profiles["default-scheduler"]
    assert none.plugins_at("score") == none.plugins_at("preScore") == ()


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("openshift-high", "no such file or preset"),
        ("defautl", 'did you mean "default"?'),
        ("away.yaml", "away.yaml: no such file or directory"),
    ],
)
def test_what_is_no_configuration(given: str, told: str) -> None:
    with pytest.raises(ConfigError) as rejected:
        scheduler_source(given)
    assert told in str(rejected.value)


def test_a_file_that_is_too_large_is_no_configuration(tmp_path: Path) -> None:
    path = tmp_path / "large.yaml"
    path.write_bytes(b"#" * (1024 * 1024 + 1))
    with pytest.raises(ConfigError, match="larger than 1024 KiB, the limit for a configuration file"):
        scheduler_source(str(path))


def test_the_command_prints_what_comes_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "scheduler.yaml"
    path.write_text(HEADER + "profiles:\n- plugins:\n    filter:\n      enabled:\n      - name: Volcano\n")
    assert main(["info", "scheduler", str(path)]) == 0
    told = capsys.readouterr().out
    assert "Volcano (unknown plugin: not predicted when it decides)" in told
    assert "evaluated node by node: Volcano is not vectorized" in told
    assert main(["info", "scheduler", "-o", "json", "--kubernetes-version", "1.34"]) == 0
    entry = json.loads(capsys.readouterr().out)
    assert entry["release"] == "1.34"
    scores = {plugin["name"]: plugin["weight"] for plugin in entry["profiles"][0]["plugins"]["score"]}
    assert scores["TaintToleration"] == 3
    assert "DynamicResources" not in scores


def test_the_command_says_that_preemption_is_disabled(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plugins = {"postFilter": {"disabled": [{"name": "DefaultPreemption"}]}}
    config = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    path = tmp_path / "scheduler.json"
    path.write_text(
        json.dumps({**config, "profiles": [{"schedulerName": "a", "plugins": plugins}, {"schedulerName": "b"}]})
    )
    assert main(["info", "scheduler", str(path)]) == 0
    assert capsys.readouterr().out.count("preemption is disabled: Pods of this profile never preempt.") == 1


def test_the_command_says_what_extenders_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "scheduler.yaml"
    path.write_text(
        HEADER + "extenders:\n"
        "- {urlPrefix: http://gpu, filterVerb: filter, bindVerb: bind, managedResources: [{name: a.io/gpu}]}\n"
    )
    assert main(["info", "scheduler", str(path)]) == 0
    assert "extender http://gpu: called to filter, bind for Pods that request a.io/gpu" in capsys.readouterr().out


def test_the_command_says_what_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "scheduler.yaml"
    path.write_text(HEADER + "parallelism: 0\n")
    assert main(["info", "scheduler", str(path)]) == 2
    assert f"{path}:3:14: parallelism: Invalid value: 0" in capsys.readouterr().err


def test_a_prediction_by_a_preset(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["predict", "-f", "webhook/sample/manifests/checkout.yaml", "--cluster", "webhook/sample/cluster.yaml"]
    assert main([*arguments, "--scheduler-config", "openshift-no-scoring"]) == 0
    assert " victims 1 | " in capsys.readouterr().out
    path = tmp_path / "scheduler.yaml"
    path.write_text(HEADER + "profiles:\n- schedulerName: packed\n")
    assert main([*arguments, "--scheduler-config", str(path)]) == 3, "nothing is predicted"
    assert 'the Pod is for another scheduler, "default-scheduler"' in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main([*arguments, "--scheduler-config", "nothing"])
    assert "no such file or preset" in capsys.readouterr().err
