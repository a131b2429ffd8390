"""The webhook's own account of its predictions, beside the real kube-scheduler.

At a state that does not change, at least 99 in 100 come true. ACCURACY says on how many random clusters that is tried,
SEED on which ones. And where something is made to come between, or to go wrong, the account says so.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from contextlib import contextmanager
from functools import partial
from signal import SIGCONT, SIGKILL, SIGSTOP
from typing import TYPE_CHECKING

import pytest

from forewarn.policies.cli.main import main
from forewarn.webhook.accuracy import SETTLING as ACCOUNTED
from forewarn.webhook.workload_accuracy import LAG, RESULTS
from tests.e2e.api import identity
from tests.e2e.objects import container, node, running
from tests.e2e.random_cases import SEED, case_of
from tests.e2e.truth import SETTLING, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.e2e.api import Obj
    from tests.e2e.control_plane import ControlPlane
    from tests.e2e.staging import Stage
    from tests.e2e.webhook import Webhook

pytestmark = pytest.mark.e2e

ACCURACY = int(os.environ.get("ACCURACY", "27"))
PATIENCE = ACCOUNTED + 10


def told(webhook: Webhook) -> Obj:
    """What the replica has found so far."""
    return webhook.replicas[0].accuracy()


def since(webhook: Webhook, before: Obj) -> dict[str, int]:
    """The results that have come since then."""
    now = told(webhook)["results"]
    return {
        result: now[result] - before["results"][result]
        for result in RESULTS
        if now[result] != before["results"][result]
    }


def is_quiet(webhook: Webhook) -> bool:
    return not told(webhook)["open"]


@pytest.fixture(scope="module", autouse=True)
def tally(webhook: Webhook) -> Iterator[Counter[str]]:
    counted: Counter[str] = Counter()
    yield counted
    print(f"\ne2e: accuracy, seed {SEED}: {dict(counted)} on {ACCURACY} clusters; the replica's own account:")
    main(["webhook", "accuracy", "--health-port", str(webhook.replicas[0].health_port)])


def test_at_equal_state_predictions_come_true(
    stage: Stage, webhook: Webhook, tally: Counter[str], capsys: pytest.CaptureFixture[str]
) -> None:
    missed = []
    for number in range(ACCURACY):
        case = case_of(number)
        try:
            stage.put(case)
            webhook.catch_up(stage.api)
            wait_until(partial(is_quiet, webhook), PATIENCE, "pods of the cluster itself have their results")
            time.sleep(max(SETTLING, LAG + 0.1))
            before = told(webhook)
            pod = stage.incoming(case["pod"])
            stage.create(pod)
            stage.decided(pod)
            wait_until(partial(is_quiet, webhook), PATIENCE, "the prediction has its result")
            results = since(webhook, before)
            tally.update(results or ["not followed"])
            if results not in ({"matched": 1}, {}):
                missed.append(f"{case['id']}: {results}, {told(webhook)['examples'][:1]}")
        finally:
            stage.clear()
    followed = sum(tally.values()) - tally["not followed"]
    assert followed > 0.8 * ACCURACY, tally
    assert tally["matched"] >= 0.99 * followed, "\n".join(missed)
    capsys.readouterr()
    assert main(["webhook", "accuracy", "--health-port", str(webhook.replicas[0].health_port)]) == 0
    assert "\nmatched " in capsys.readouterr().out


@contextmanager
def scheduler_stands_still(plane: ControlPlane) -> Iterator[None]:
    plane.processes.signal("kube-scheduler", SIGSTOP)
    try:
        yield
    finally:
        plane.processes.signal("kube-scheduler", SIGCONT)


@contextmanager
def scheduler_is_away(plane: ControlPlane) -> Iterator[None]:
    """What stood still may decide on the first pod before it hears of the next; what starts knows all pods first."""
    plane.processes.stop("kube-scheduler", SIGKILL)
    try:
        yield
    finally:
        plane.start_scheduler()


def coming(name: str) -> Obj:
    return {**identity("Pod", name), "spec": {"containers": [container("10")]}}


@pytest.fixture
def staged(stage: Stage, webhook: Webhook) -> Iterator[Stage]:
    """One node with room for one of the pods."""
    stage.put({"namespaces": [{"metadata": {"name": "default"}}], "nodes": [node("only")], "pods": []})
    webhook.catch_up(stage.api)
    wait_until(partial(is_quiet, webhook), PATIENCE, "no prediction is open")
    time.sleep(LAG + 0.1)
    yield stage
    stage.clear()


def ends_as(webhook: Webhook, before: Obj, result: str) -> None:
    wait_until(lambda: since(webhook, before) == {result: 1}, PATIENCE, lambda: f"{result}: {since(webhook, before)}")
    assert webhook.replicas[0].metric("forewarn_prediction_results_total", result=result) >= 1


def test_a_change_in_between_explains(plane: ControlPlane, staged: Stage, webhook: Webhook) -> None:
    before = told(webhook)
    with scheduler_is_away(plane):
        staged.create(coming("overtaken"))
        case = {"namespaces": [], "nodes": [], "pods": [running("first", "only", "10")]}
        staged.put(case)
    ends_as(webhook, before, "explained")
    example = next(e for e in told(webhook)["examples"] if e["pod"] == "default/overtaken")
    assert (example["predicted"], example["happened"]) == ("runs on only", "stays Pending")
    assert example["change"] == "Pod default/first"


def test_what_nothing_explains_is_wrong(plane: ControlPlane, staged: Stage, webhook: Webhook) -> None:
    """The test writes the scheduler's condition for a pod that has room."""
    before = told(webhook)
    with scheduler_stands_still(plane):
        made = staged.create(coming("misjudged"))
        condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "by the test"}
        staged.api.patch(made, {"status": {"conditions": [condition]}}, "status")
        ends_as(webhook, before, "wrong")
    example = next(e for e in told(webhook)["examples"] if e["pod"] == "default/misjudged")
    assert (example["predicted"], example["happened"]) == ("runs on only", "stays Pending")


def test_a_pod_that_goes_undecided_is_unknown(plane: ControlPlane, staged: Stage, webhook: Webhook) -> None:
    before = told(webhook)
    with scheduler_stands_still(plane):
        made = staged.create(coming("gone"))
        staged.api.delete(made, gracePeriodSeconds="0")
        ends_as(webhook, before, "unknown")


def test_dry_runs_are_not_followed(staged: Stage, webhook: Webhook) -> None:
    before = told(webhook)
    staged.create(coming("asked"), dryRun="All")
    assert is_quiet(webhook)
    assert since(webhook, before) == {}
