"""The preview of a minor: where it is reported as unverified, and what it does otherwise than the minor before it."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

from forewarn.policies.cli.main import main
from forewarn.policies.kubernetes.cluster.admission import predict
from forewarn.policies.kubernetes.cluster.cache import Cache
from forewarn.policies.kubernetes.releases.minors import CHECKED_WITH, KNOWN_MINORS, NEWEST, PREVIEW_MINORS
from forewarn.policies.kubernetes.releases.release import CHANGES, Release, UnknownRelease, known_minor
from forewarn.policies.kubernetes.releases.semantics import Semantics
from tests.builders import make_budget, make_namespace, make_node, make_pod

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.scheduling.schedule_one import Prediction
    from tests.builders import Made

PREVIEW = f"1.{PREVIEW_MINORS[0]}"
TOLD = f"Kubernetes {PREVIEW}: preview, unverified"


def predicted(minor: int, pod: Made, *made: Made) -> Prediction:
    cache = Cache(semantics=Semantics(minor))
    for each in made:
        cache.add(each.obj)
    return predict(cache.snapshot(), pod.obj)


def test_a_preview_is_never_the_default_and_has_no_checked_release() -> None:
    assert Release().semantics().minor == NEWEST == KNOWN_MINORS[-1]
    assert not {*PREVIEW_MINORS} & CHECKED_WITH.keys()
    assert known_minor(PREVIEW) == PREVIEW_MINORS[0]
    with pytest.raises(UnknownRelease, match=rf"{PREVIEW} \(preview, unverified\)"):
        known_minor("1.33")


@pytest.mark.parametrize("arguments", [["--version"], ["info", "releases"], ["predict", "--help"]])
def test_versions_are_printed_with_the_note(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with suppress(SystemExit):
        main(arguments)
    assert "preview, unverified" in " ".join(capsys.readouterr().out.split())


def test_changes_name_their_sources(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info", "releases", PREVIEW, "-o", "json"]) == 0
    (told,) = json.loads(capsys.readouterr().out)
    assert told["checkedWith"] is None
    assert told["unfixed"] == []
    sources = {change["source"]: change["modelled"] for change in told["changes"]}
    assert {source for source, modelled in sources.items() if modelled} == {
        f"kubernetes#{number}" for number in (141785, 141340, 141182)
    }
    assert len(sources) == sum(change.minor in PREVIEW_MINORS for change in CHANGES)


@pytest.mark.parametrize("labels", [{"app": "db"}, {}])
@pytest.mark.parametrize(("minor", "node"), [(37, "a"), (38, "b")])
def test_budgets_with_an_empty_selector(minor: int, node: str, labels: dict[str, str]) -> None:
    """Node a has the cheaper victim, which the budget protects only if it counts."""
    nodes = [make_node(name).has(cpu="1", pods="10") for name in "ab"]
    first = make_pod("first", "team").labels(**labels).priority(1).request(cpu="1").on("a")
    second = make_pod("second").priority(2).request(cpu="1").on("b")
    budget = make_budget("all", 0, "team").spec(selector={})
    found = predicted(minor, make_pod("new").priority(10).request(cpu="1"), *nodes, first, second, budget)
    assert found.nominated_node == found.to_dict()["nominatedNode"] == node
    assert (TOLD in found.assumes) == (minor == 38)


@pytest.mark.parametrize("action", ["DoNotSchedule", "ScheduleAnyway"])
@pytest.mark.parametrize(("minor", "feasible"), [(37, ["a", "b"]), (38, ["b"])])
def test_a_spread_constraint_with_an_empty_selector(minor: int, feasible: list[str], action: str) -> None:
    nodes = [make_node(name).label("zone", name).has(cpu="9", pods="10") for name in "ab"]
    constraint: dict[str, Any] = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": action, "labelSelector": {}}
    there = make_pod("there").request(cpu="1m").on("a")
    new = make_pod("new").spec(topologySpreadConstraints=[constraint])
    found = predicted(minor, new, *nodes, there, make_namespace("default"))
    if action == "DoNotSchedule":
        assert found.feasible == found.to_dict()["feasible"] == feasible
    else:
        scores = found.to_dict()["scores"]
        assert (scores["a"]["PodTopologySpread"] < scores["b"]["PodTopologySpread"]) == (minor == 38)
        assert found.best_nodes == ["b"]
