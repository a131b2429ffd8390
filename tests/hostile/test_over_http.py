"""The attacks of a tenant against the real server: each gets an answer, with little CPU time and memory."""

from __future__ import annotations

import json
import resource
import time
from typing import TYPE_CHECKING

import pytest

from forewarn.webhook.admission.prediction_access import Workers
from tests.hostile.attacks import ATTACKS, priority_class, review
from tests.hostile.judging import CONFIG, cluster, judge
from tests.webhook.builders import endpoint
from tests.webhook.running import JSON, Running, running

if TYPE_CHECKING:
    from collections.abc import Iterator

FOUND = (
    "Deployment of 2,000,000,000",
    "Deployment scaled to 2,000,000,000",
    "StatefulSet of 2,000,000,000 with claims",
    "100 pod affinity terms",
    "31 anti-affinity terms and one of affinity",
    "10,000 node affinity terms",
    "1,000 anti-affinity terms",
    "200 spread constraints",
    "16 spread constraints and affinity",
    "20,000 extended resources",
    "100,000 classes in a quota's scope",
    "a quantity of a million zeros",
)
MAX_MEGABYTES = 192


@pytest.fixture(scope="module")
def served() -> Iterator[Running]:
    judge(ATTACKS["Deployment of 2,000,000,000"]())  # what is imported and made once
    state, workers = cluster(), Workers(1)
    made = endpoint(lambda: state, lambda: CONFIG, predictors=workers.predictors, give_way=workers.evaluating.give_way)
    with running(made, workers=workers) as server:
        yield server
    workers.stop()


@pytest.mark.parametrize("name", FOUND)
def test_it_is_answered_with_little_cpu_time_and_memory(name: str, served: Running) -> None:
    body, memory = json.dumps(ATTACKS[name]()).encode(), _megabytes()
    for path in ("/mutate?timeout=1s", "/validate?timeout=1s"):
        begun = time.process_time()
        status, _, answer = served.post(path, body, **JSON)
        assert time.process_time() - begun < 1.0, "the process that answers goes on to answer others"
        assert status == 200
        assert json.loads(answer)["response"]["uid"]
    plain = json.dumps(review(priority_class())).encode()
    assert served.post("/validate", plain, **JSON)[0] == 200
    assert _megabytes() - memory < MAX_MEGABYTES


def _megabytes() -> float:
    """The most that this process has taken so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
