"""No text recommends forewarn's own class, a system class, or one that the same run rejects."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from forewarn.policies.cli.main import main
from forewarn.policies.kubernetes.kube_apiserver.priority import is_recommended
from forewarn.policies.kubernetes.kube_apiserver.validation.priority_class import validate_priority_class
from forewarn.policies.kubernetes.objects.priority_class import (
    OWN_CLASSES,
    PREEMPT_LOWER_PRIORITY,
    PREEMPT_NEVER,
    PriorityClass,
)
from tests.builders import Made, MadePod, cluster_text, make_node, make_pod

if TYPE_CHECKING:
    from pathlib import Path

FRESH = {"forewarn": 1_000_000_000, "forewarn-sweep": -10}
"""The user-defined classes of a cluster in which nothing but forewarn is installed."""


def a_class(name: str, value: int, **fields: Any) -> Made:
    made = Made("scheduling.k8s.io/v1", "PriorityClass", name)
    made.obj.update(value=value, **fields)
    return made


def write(path: Path, *made: Made) -> str:
    path.write_text("\n---\n".join(yaml.safe_dump(one.obj) for one in made))
    return str(path)


def named(name: str) -> MadePod:
    return make_pod("web", "team").of_class(name)


def findings(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[dict[str, Any]]:
    main(["lint", "-o", "json", *arguments])
    found: list[dict[str, Any]] = json.loads(capsys.readouterr().out)["findings"]
    return found


@given(
    st.sampled_from([*OWN_CLASSES, "system-node-critical", "system-mine", "gold", "Gold", "a_b"]),
    st.sampled_from([-5, 0, 1_000_000_000, 1_000_000_001]),
    st.sampled_from([PREEMPT_LOWER_PRIORITY, PREEMPT_NEVER]),
    st.booleans(),
)
def test_a_recommended_class_is_valid_and_neither_the_systems_nor_forewarns(
    name: str, value: int, policy: str, to_preempt: bool
) -> None:
    found = PriorityClass(name, value, preemption_policy=policy)
    reserved = name in OWN_CLASSES or name.startswith("system-")
    wanted = not reserved and not validate_priority_class(found.to_api()) and not (to_preempt and policy == "Never")
    assert is_recommended(found, to_preempt=to_preempt) == wanted


@pytest.mark.parametrize("name", ["forewarm", "forewarn-sweeps", "system-mine", "high"])
def test_the_linter_recommends_no_class_on_a_fresh_cluster(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = write(tmp_path / "cluster.yaml", *(a_class(*one) for one in FRESH.items()))
    (tmp_path / "in").mkdir()
    file = write(tmp_path / "in" / "web.yaml", named(name))
    (found,) = [f for f in findings(capsys, file, "--cluster", cluster) if f["rule"] == "unknown-priority-class"]
    assert found["message"].startswith(f'PriorityClass "{name}" not found; ')
    assert "Did you mean" not in found["message"]
    reserved = name.startswith("system-")
    assert found["remediation"] == ("correct the name, or create a class of another name" if reserved else "create it")
    main(["lint", file, "--cluster", cluster, "--fix", "-q"])
    assert name in (tmp_path / "in" / "web.yaml").read_text()


CONFIGURATIONS = {
    "allowedClasses": "allowedClasses: [{classes: [golden], namespaces: [shop]}]\n",
    "limitedResources": (
        "limitedResources:\n- resource: pods\n  matchScopes:\n"
        "  - {scopeName: PriorityClass, operator: In, values: [golden]}\n"
    ),
}


@pytest.mark.parametrize("kind", CONFIGURATIONS)
def test_the_linter_recommends_no_class_that_it_rejects_itself(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = write(tmp_path / "cluster.yaml", a_class("golden", 9), a_class("silver", 5))
    file = write(tmp_path / "web.yaml", named("goldem"))
    (tmp_path / "config.yaml").write_text(CONFIGURATIONS[kind])
    flags = [file, "--cluster", cluster]
    (free,) = findings(capsys, *flags)
    assert ("golden" in free["message"], free["remediation"]) == (True, 'create it, or use "golden"')
    flags += ["--config", str(tmp_path / "config.yaml")]
    (found,) = findings(capsys, *flags)
    assert ("golden" in found["message"], found["remediation"]) == (False, 'create it, or use "silver"')
    main(["lint", *flags, "--fix", "-q"])
    assert "goldem" in (tmp_path / "web.yaml").read_text()
    main(["lint", file, "--cluster", cluster, "--fix", "-q"])
    assert "golden" in (tmp_path / "web.yaml").read_text()


@pytest.mark.parametrize(
    ("name", "severity"),
    [
        ("platform-critcal", "error"),
        ("platfrom-critical", "error"),
        ("platformcritical", "error"),
        ("platform-normal", "warning"),
        ("tier-2", "warning"),
        ("web-us", "warning"),
        ("something-else", "warning"),
    ],
)
def test_a_misspelt_class_of_an_open_input_is_an_error(
    name: str, severity: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    known = (a_class(other, 5) for other in ("platform-critical", "tier-1", "web-eu"))
    file = write(tmp_path / "in.yaml", *known, named(name))
    (found,) = [f for f in findings(capsys, file) if f["rule"] == "unknown-priority-class"]
    assert found["severity"] == severity
    assert ("Did you mean" in found["message"]) >= (severity == "error")


REJECTED = {
    "value": a_class("gold-class", 2_000_000_000),
    "policy": a_class("gold-class", 5, preemptionPolicy="never"),
    "second default": a_class("gold-class", 5, globalDefault=True),
    "undecodable": a_class("gold-class", 5, description=7),
}


@pytest.mark.parametrize("why", REJECTED)
def test_a_suggestion_is_no_class_that_the_same_run_rejects(
    why: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write(tmp_path / "in.yaml", a_class("usual", 1, globalDefault=True), REJECTED[why], named("gold-clas"))
    found = findings(capsys, file)
    assert "error" in {f["severity"] for f in found if f["object"]["name"] == "gold-class"}
    (unknown,) = [f for f in found if f["rule"] == "unknown-priority-class"]
    assert unknown["severity"] == "warning"
    assert "gold-class" not in f"{unknown['message']} {unknown['remediation']}"
    main(["lint", file, "--fix", "--ignore", "global-default-not-unique", "-q"])
    assert "gold-clas\n" in (tmp_path / "in.yaml").read_text()


def test_headroom_counts_the_classes_that_may_be_recommended_and_the_pods_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = [make_node("n1"), *(a_class(*one) for one in FRESH.items()), a_class("gold", 9)]
    (tmp_path / "cluster.json").write_text(cluster_text(made))
    cluster = str(tmp_path / "cluster.json")
    for name, expected in (("gold", ["gold"]), ("forewarn", ["gold", "forewarn"])):
        file = write(tmp_path / "web.yaml", named(name).request(cpu="1"))
        assert main(["headroom", "-f", file, "--cluster", cluster, "-o", "json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert expected == [each["class"] for each in _classes(found)]


def _classes(found: Any) -> list[dict[str, Any]]:
    """The list whose entries have a class, wherever it is in the output."""
    if isinstance(found, dict):
        return next((hit for value in found.values() if (hit := _classes(value))), [])
    if isinstance(found, list):
        if found and all(isinstance(each, dict) and "class" in each for each in found):
            return found
        return next((hit for value in found if (hit := _classes(value))), [])
    return []


@pytest.mark.parametrize(
    ("classes", "help_"),
    [
        ([("gentle", 10, "Never")], "add nodes"),
        ([("forewarn", 1_000_000_000, "PreemptLowerPriority")], "add nodes"),
        ([("gentle", 10, "Never"), ("high", 20, "PreemptLowerPriority")], 'recreate the Pod: use class "high" (20)'),
    ],
)
def test_why_recommends_only_classes_that_preempt(
    classes: list[tuple[str, int, str]], help_: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = [
        make_pod("new", "default").priority(5).request(cpu="2"),
        make_node("n1"),
        make_pod("old").priority(9).request(cpu="4").on("n1"),
        *(a_class(name, value, preemptionPolicy=policy) for name, value, policy in classes),
    ]
    main(["why", "default/new", "--cluster", write(tmp_path / "cluster.yaml", *made)])
    assert f"Fix: {help_}" in " ".join(capsys.readouterr().out.split())


def test_a_pod_with_forewarns_class_is_a_warning(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = write(tmp_path / "web.yaml", named("forewarn"))
    (found,) = [f for f in findings(capsys, file) if f["rule"] == "class-of-forewarn"]
    assert found["severity"] == "warning"
