"""Other schedulers than the release's own with its default profile: two profiles in one, and the newest release.

The webhook is told of them as people tell it: `--scheduler-config` with the scheduler's own file, or
`--kubernetes-version`. SCHEDULERS says how many random clusters each of them decides on, SEED which ones.
"""

from __future__ import annotations

import json
import os
import time
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import pytest

from forewarn.policies.kubernetes.releases.release import known_minor
from forewarn.policies.kubernetes.releases.semantics import Semantics
from forewarn.webhook.admission.impact_annotation import ANNOTATION
from tests.e2e.build import MINOR, NEWEST, binaries, control_plane
from tests.e2e.objects import node, running
from tests.e2e.random_cases import SEED, case_of
from tests.e2e.staging import Stage
from tests.e2e.truth import (
    CASES,
    SETTLING,
    act,
    as_case,
    ask,
    compact,
    differences,
    lacks_a_claim,
    same_by_webhook,
    wait_until,
)
from tests.e2e.webhook import QUICK, Webhook
from tests.policies.scheduling.profiles import args, config, point, semantics

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.e2e.api import Api, Obj
    from tests.e2e.control_plane import ControlPlane
    from tests.e2e.installation import Installation

pytestmark = pytest.mark.e2e

SCHEDULERS = int(os.environ.get("SCHEDULERS", "20"))
PATIENCE = 15
"""Seconds in which the webhook must have caught up."""
FULL_NODES_FIRST: Obj = {
    "schedulerName": "full-nodes-first",
    "plugins": {
        "score": point(
            ("NodeResourcesFit", 5), disabled=("NodeResourcesFit", "NodeResourcesBalancedAllocation", "ImageLocality")
        )
    },
    "pluginConfig": args(NodeResourcesFit={"scoringStrategy": {"type": "MostAllocated"}}),
}
PROFILES: tuple[Obj, ...] = ({"schedulerName": "default-scheduler"}, FULL_NODES_FIRST)


class Scheduler(NamedTuple):
    """One that decides now, of which the webhook was told. `names`: of its profiles."""

    stage: Stage
    names: tuple[str, ...]


def deciding(
    plane: ControlPlane,
    installed: Installation,
    api: Api,
    meant: Semantics,
    told: tuple[str, ...],
    names: tuple[str, ...],
) -> Iterator[Scheduler]:
    """A webhook beside the scheduler that was started; at the end the control plane's own one decides again."""
    webhook = Webhook(plane, installed, flags=(*QUICK, *told))
    try:
        webhook.begin(api, strict=True)
        with closing(Stage(plane.api(), meant)) as stage:
            yield Scheduler(stage, names)
    finally:
        webhook.end(api)
        plane.restart_scheduler()


def with_two_profiles(plane: ControlPlane, installed: Installation, api: Api) -> Iterator[Scheduler]:
    """The control plane's kube-scheduler with a second profile, which fills nodes."""
    path: Path = plane.scheduler_config(*PROFILES)
    plane.start_scheduler(None, f"--config={path}")
    meant = semantics(config(*PROFILES), base=Semantics(known_minor(MINOR)))
    names = tuple(profile["schedulerName"] for profile in PROFILES)
    yield from deciding(plane, installed, api, meant, ("--scheduler-config", str(path)), names)


def newest(plane: ControlPlane, installed: Installation, api: Api) -> Iterator[Scheduler]:
    """The newest kube-scheduler, maybe on an older API server, which has no DeviceTaintRules then."""
    program = binaries(control_plane(NEWEST, "kube-scheduler")) / "kube-scheduler"
    plane.start_scheduler(program, *(["--feature-gates=DRADeviceTaintRules=false"] if MINOR != NEWEST else []))
    meant = Semantics(known_minor(NEWEST))
    yield from deciding(plane, installed, api, meant, ("--kubernetes-version", NEWEST), ("default-scheduler",))


@pytest.fixture(scope="module")
def scheduler(
    plane: ControlPlane, installed: Installation, api: Api, request: pytest.FixtureRequest
) -> Iterator[Scheduler]:
    """One of the two above: one fixture, so that the first is gone when the second starts."""
    plane.processes.stop("kube-scheduler")
    yield from request.param(plane, installed, api)


decided_by = partial(pytest.mark.parametrize, "scheduler", indirect=True)


def decides_as_predicted(scheduler: Scheduler, case: Obj, name: str) -> str:
    """The outcome that was predicted; fails where the webhook says something else, or kube-scheduler does."""
    stage = scheduler.stage
    try:
        stage.put(case)
        time.sleep(SETTLING)
        pod = stage.incoming(case["pod"])
        pod["spec"]["schedulerName"] = name
        question = ask(stage, pod)
        if not lacks_a_claim(question):
            same = partial(same_by_webhook, stage, question, pod)
            wait_until(same, PATIENCE, f"{case['id']}: the webhook's annotation says the same")
        outcome = act(stage, question, pod)
        wrong = differences(question, outcome)
        if wrong:
            kept = CASES / f"{SEED}-{name}-{stage.semantics.release}-{case['id']}.json"
            kept.write_text(compact(as_case(case["id"], question, outcome, wrong)))
        assert not wrong, f"{case['id']}: {'; '.join(wrong)}"
        return question.prediction.outcome
    finally:
        stage.clear()


@decided_by(argvalues=[with_two_profiles])
@pytest.mark.parametrize("number", range(SCHEDULERS))
def test_each_profile_decides_as_predicted_for_it(scheduler: Scheduler, number: int) -> None:
    name = scheduler.names[number % 2]
    decides_as_predicted(scheduler, case_of(number), name)


@decided_by(argvalues=[with_two_profiles])
def test_the_second_profile_fills_the_node_that_the_first_leaves_alone(scheduler: Scheduler) -> None:
    """The two are told apart: what is predicted, and what is done, depends on spec.schedulerName."""
    stage = scheduler.stage
    nodes, pods = [node("full", "8"), node("idle", "8")], [running("there", "full", "4")]
    places = {}
    for name in scheduler.names:
        try:
            stage.put({"namespaces": [], "nodes": nodes, "pods": pods})
            time.sleep(SETTLING)
            pod = stage.incoming({**running("coming", "", "1"), "status": {}})
            pod["spec"] |= {"schedulerName": name}
            pod["spec"].pop("nodeName")
            question = ask(stage, pod)
            places[name] = question.prediction.best_nodes
            assert act(stage, question, pod).bound == places[name][0]
        finally:
            stage.clear()
    assert places == {"default-scheduler": ["idle"], "full-nodes-first": ["full"]}


@decided_by(argvalues=[with_two_profiles])
def test_of_a_scheduler_that_nobody_runs_nothing_is_predicted(scheduler: Scheduler) -> None:
    stage = scheduler.stage
    pod = stage.incoming({**running("coming", "", "1"), "status": {}})
    pod["spec"] |= {"schedulerName": "nobodys"}
    pod["spec"].pop("nodeName")
    assert ask(stage, pod).prediction.outcome == "not-predicted"
    told = json.loads(stage.create(pod, dryRun="All")["metadata"].get("annotations", {}).get(ANNOTATION, "{}"))
    assert "preemptions" not in told
    assert "pending" not in told


@pytest.mark.whole
@decided_by(argvalues=[newest])
@pytest.mark.parametrize("number", range(SCHEDULERS, 2 * SCHEDULERS))
def test_the_newest_release_decides_as_predicted_for_it(scheduler: Scheduler, number: int) -> None:
    decides_as_predicted(scheduler, case_of(number), "default-scheduler")
