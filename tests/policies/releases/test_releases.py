"""Versions and feature gates that somebody names."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path

import pytest

from forewarn.policies.cli.main import main
from forewarn.policies.kubernetes.releases.minors import CHECKED_WITH, KNOWN_MINORS, PREDICTED_MINORS, PREVIEW_MINORS
from forewarn.policies.kubernetes.releases.release import (
    CHANGES,
    PATCH_CHANGES,
    UNFIXED,
    BadGates,
    Release,
    UnknownRelease,
    known_minor,
    minor_of,
    parse_gates,
    semantics_of,
)
from forewarn.policies.kubernetes.releases.semantics import (
    FEATURE_GATES,
    MODELLED,
    NO_EFFECT,
    NOT_MODELLED,
    NOT_READ,
    Semantics,
    default,
    fault,
    state,
    unmet_dependency,
)
from tests.cases import each


@pytest.mark.parametrize(
    ("version", "minor"),
    [("1.36", 36), ("v1.36.3", 36), ("1.35.8-gke.100", 35), ("v1.34.1+k3s1", 34), (" 1.37 ", 37), ("1.40", 40)],
)
def test_versions(version: str, minor: int) -> None:
    assert minor_of(version) == minor


@pytest.mark.parametrize("version", ["", "36", "2.0", "1.x", "v1", "1.99999", "1.36.3 or so", "1.36" + "-x" * 99])
def test_what_is_no_version(version: str) -> None:
    with pytest.raises(UnknownRelease, match="no version of Kubernetes"):
        minor_of(version)


@pytest.mark.parametrize("version", ["1.33", "1.39", "1.39.0-alpha.1"])
def test_an_unknown_minor_is_refused_and_those_that_are_known_are_named(version: str) -> None:
    with pytest.raises(UnknownRelease, match=r"1\.34, 1\.35, 1\.36, 1\.37"):
        known_minor(version)
    assert "predictions hold for 1.34 to 1.37" in Semantics(minor_of(version)).unknown


def test_gates_as_the_components_take_them() -> None:
    assert parse_gates("A=true, B=false,,C=True") == {"A": True, "B": False, "C": True}


@pytest.mark.parametrize("text", ["A", "A=1", "A:true", "=true,B"])
def test_what_is_no_list_of_gates(text: str) -> None:
    with pytest.raises(BadGates, match=r"NAME=true or NAME=false"):
        parse_gates(text)


def test_gates_that_play_no_part_are_named() -> None:
    release = Release(36, {"StorageCapacityScoring": True, "ContextualLogging": False})
    assert release.semantics().storage_capacity_is_scored
    assert release.without_effect == {NOT_READ: ["ContextualLogging"]}


def test_where_nobody_says_the_release_it_is_the_newest_that_takes_the_gates() -> None:
    assert Release().semantics().minor == 37
    for kubelet, assumed in ((33, 34), (34, 34), (36, 36), (38, 37)):
        assert Release().semantics(kubelet_minor=kubelet).minor == assumed
    assert Release(gates={"NodeDeclaredFeatures": False}).semantics().minor == 35
    with pytest.raises(BadGates):
        Release(gates={"TopologyAwareWorkloadScheduling": True}).semantics()


@pytest.mark.parametrize(
    ("minor", "gates", "why"),
    [
        (37, {"NodeDeclaredFeatures": False}, "locked to true"),
        (
            36,
            {"NodeDeclaredFeatures": False},
            "set NodeDeclaredFeatures=true or ExtendWebSocketsToKubelet=false",
        ),
        (36, {"GracefulNodeShutdown": False}, "GracefulNodeShutdownBasedOnPodPriority=true requires GracefulNodeSh"),
        (37, {"DRAPartitionableDevices": False, "DRAPartitionableDevicesType": True}, "requires DRAPartitionableDev"),
        (37, {"PodGroupPreemptionPolicy": True}, "requires GenericWorkload=true, otherwise components of 1.37 do not"),
        (37, {"DRADeviceTaints": False}, "DRADeviceTaintRules=true requires DRADeviceTaints=true"),
        (34, {"NodeDeclaredFeatures": True}, "1.34 does not know it"),
        (36, {"GangScheduling": True}, "is not predicted"),
        (36, {"PodLevelResources": False}, "is not predicted"),
        (36, {"TaintTolerationComparisonOperators": True}, "is not predicted"),
        (36, {"AllAlpha": True}, "one by one"),
        (36, {"AllBeta": False}, "one by one"),
        (37, {"WorkloadWithJob": True}, "WorkloadWithJob=true is not predicted. Fix: leave it out"),
        (37, {"PodDeletionCost": False}, "is not predicted"),
        (
            37,
            {"GangScheduling": False},
            "Kubernetes 1.37 removed GangScheduling: components of 1.37 do not start with it",
        ),
        (37, {"SidecarContainers": True}, "Kubernetes 1.37 removed SidecarContainers"),
        (36, {"SidecarContainers": False}, "locked to true"),
        (35, {"DynamicResourceAllocation": False}, "locked to true"),
        (35, {"MutableCSINodeAllocatable": True}, "no Kubernetes release from 1.34 to 1.37 has the feature gate"),
        (36, {"PodPriority": True}, "no Kubernetes release from 1.34 to 1.37 has the feature gate PodPriority"),
    ],
)
def test_gates_that_are_refused(minor: int, gates: dict[str, bool], why: str) -> None:
    with pytest.raises(BadGates, match=why):
        semantics_of(minor, gates)


def test_the_lists_name_every_gate_that_predicted_code_reads_once() -> None:
    readers = json.loads(Path(__file__).with_name("readers.json").read_text())
    listed = [*MODELLED, *(NOT_MODELLED.keys() - MODELLED), *NO_EFFECT]
    assert len(listed) == len({*listed})
    assert {*listed} <= FEATURE_GATES.keys()
    unlocked = {name for name, states in FEATURE_GATES.items() if {*states.split()} & {"on", "off"}}
    assert (readers.keys() & unlocked) - {*listed} == set()
    assert NO_EFFECT.keys() <= readers.keys() & unlocked


def test_a_state_that_is_not_predicted_is_no_default_but_for_the_ones_in_the_docs() -> None:
    differs = {
        (name, minor)
        for name, predicted in NOT_MODELLED.items()
        for minor in KNOWN_MINORS
        if state(name, minor) != "-" and default(name, minor) is not predicted
    }
    assert differs == set()


@each(lambda: ((name,) for name in FEATURE_GATES))
def test_every_gate_has_an_answer_in_every_release(name: str) -> None:
    for minor in PREDICTED_MINORS:
        for on in (False, True):
            told = Release(minor, {name: on})
            now, is_default = state(name, minor), default(name, minor) is on
            starts = now != "-" and (is_default or not now.endswith("!")) and not unmet_dependency({name: on}, minor)
            is_predicted = is_default or NOT_MODELLED.get(name, on) is on
            with nullcontext() if starts and is_predicted else pytest.raises(BadGates):
                told.semantics()
            has_effect = name in MODELLED or name in NOT_MODELLED
            assert list(told.without_effect.values()) == ([] if has_effect else [[name]])


def test_a_preview_may_have_another_default(monkeypatch: pytest.MonkeyPatch) -> None:
    (preview,) = PREVIEW_MINORS
    states = dict.fromkeys(("Same", "Other", "New", "Removed"), ["off"] * len(KNOWN_MINORS))
    states |= {"Other": [*states["Other"], "on"], "Removed": [*states["Removed"], "-"]}
    states["New"] = [*["-"] * len(KNOWN_MINORS), "on"]
    for name, defaults in states.items():
        monkeypatch.setitem(FEATURE_GATES, name, " ".join(defaults))
    assert [default(name, preview) for name in states] == [False, True, True, False]
    assert [default(name, preview - 1) for name in states] == [False] * 4
    assert (
        fault("New", preview - 1, on=True) == f"New came with Kubernetes 1.{preview}: 1.{preview - 1} does not know it"
    )
    removed = fault("Removed", preview, on=True)
    assert removed is not None
    assert removed.startswith(f"Kubernetes 1.{preview} removed Removed")
    assert fault("New", preview, on=True) is None


def test_a_gate_without_effect_is_named_with_the_reason(capsys: pytest.CaptureFixture[str]) -> None:
    gates = "PodsAPI=true,HPAOptimizedSelectorStore=true,ContextualLogging=false,HPAGeneration=false"
    cluster = "docs/examples/whatif/cluster.yaml"
    assert main(["classes", "--cluster", cluster, "--kubernetes-version", "1.37", "--feature-gates", gates]) == 0
    told = [line.removeprefix("forewarn classes: --feature-gates: ") for line in capsys.readouterr().err.splitlines()]
    assert told == [
        f"{names}: no effect on predictions: {reason}"
        for names, reason in (
            ("PodsAPI", NO_EFFECT["PodsAPI"]),
            ("HPAOptimizedSelectorStore, HPAGeneration", "HorizontalPodAutoscalers are not predicted in any state"),
            ("ContextualLogging", NOT_READ),
        )
    ]


def test_a_locked_gate_may_be_given_as_it_is() -> None:
    assert semantics_of(37, {"NodeDeclaredFeatures": True}).declared_features_are_checked


def test_every_change_is_of_a_known_minor_and_has_one_before_it() -> None:
    assert {change.minor for change in CHANGES} <= set(PREDICTED_MINORS[1:])
    assert {change.minor for change in CHANGES if change.source} == {*PREVIEW_MINORS}


def test_the_differences_of_earlier_patch_releases_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    checked = {minor: int(release.rpartition(".")[2]) for minor, release in CHECKED_WITH.items()}
    assert all(0 < change.fixed <= checked[change.minor] for change in PATCH_CHANGES)
    assert main(["info", "releases", "-o", "json"]) == 0
    told = json.loads(capsys.readouterr().out)
    before = {entry["release"]: [each["before"] for each in entry["earlierPatchReleases"]] for entry in told}
    assert before["1.34"] == ["1.34.2"] * 3
    assert before["1.37"] == []
    assert main(["info", "releases", "1.36"]) == 0
    printed = capsys.readouterr().out
    assert "before 1.36.4, queue: a flush of unschedulable Pods does not retry" in printed
    assert all(fix in printed for fix, _, _ in UNFIXED)
