"""What the webhook says at the creation of a Job in a LocalQueue of Kueue."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from forewarn.webhook.admission.decision import Decision
from forewarn.webhook.admission.review import Hook
from tests.policies.kueue.worlds import cluster, suspended
from tests.webhook.builders import decided, review
from tests.work import steps


def decision(made: dict[str, Any], operation: str = "CREATE", **request: Any) -> Decision:
    return decided(Hook.VALIDATE, review(made, operation, namespace="ml", **request), state=cluster().snapshot)


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (suspended("ml", "urgent", 4, "2", "high"), "Kueue would preempt 1 Workload (4 Pods) for this Job"),
        (suspended("ml", "small", 1, "1"), "Kueue starts it later: it waits for quota behind 1 Workload"),
        (
            suspended("ml", "x", 1, "1", "unknown"),
            "Kueue does not start it: its queue or class does not exist",
        ),
    ],
)
def test_a_warning_without_names_of_other_objects(made: dict[str, Any], message: str) -> None:
    (warning,) = decision(made).response.warnings
    assert message in warning
    assert "train" not in warning


def test_no_warning_for_a_job_that_is_admitted_already() -> None:
    made = suspended("ml", "train-a", 4, "2")
    assert decision(made, "UPDATE", oldObject=made).response.warnings == ()


def test_a_job_without_a_queue_costs_no_more_than_without_kueue() -> None:
    made = suspended("ml", "plain", 1, "1")
    made["metadata"]["labels"] = {}
    with_kueue = cluster().snapshot
    states = (with_kueue, replace(with_kueue, kueue={}))
    costs = [steps(partial(decided, Hook.VALIDATE, review(made, namespace="ml"), state=each)) for each in states * 4]
    # The first ones import modules; a call more or less hangs on the clock, so that the cheapest are compared.
    assert min(costs[2::2]) == min(costs[3::2])


REVIEW = """
import sys
from forewarn.webhook.admission.review import Hook
from tests.policies.kueue.worlds import objects, suspended
from tests.webhook.builders import decided, review
from forewarn.policies.kubernetes.cluster.cache import Cache

cache = Cache()
for each in objects():
    cache.add(each)
plain = suspended("ml", "plain", 1, "1")
plain["metadata"]["labels"] = {}
decided(Hook.VALIDATE, review(plain, namespace="ml"), state=cache.snapshot())
print(*(name for name in sys.modules if "prediction.kueue" in name))
"""


def test_a_job_without_a_queue_imports_nothing_of_kueue() -> None:
    """In a process of its own: other tests have imported it."""
    done = subprocess.run([sys.executable, "-c", REVIEW], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.split() == []
