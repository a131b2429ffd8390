"""What forewarn predicts is what kube-scheduler then does, on random clusters.

It is asked by a fresh list of everything, by watches that follow the API server through all the clusters, and as people
ask it: by a dry run, whose annotation must say the same.
TRUTH says how many clusters there are (81 have every kind once), SEED which ones. A cluster on which they differ is
kept under tests/e2e/cases/.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING

import pytest

from forewarn.policies import Prediction, predict
from forewarn.policies.kubernetes.releases.release import Release, known_minor
from forewarn.webhook.apiserver.client import ApiServer, connect
from forewarn.webhook.informer.informer import Informer
from tests.e2e.build import MINOR
from tests.e2e.random_cases import SEED, case_of
from tests.e2e.truth import (
    CASES,
    SETTLING,
    Question,
    act,
    as_case,
    ask,
    compact,
    differences,
    lacks_a_claim,
    rank,
    same_by_webhook,
    wait_until,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.e2e.api import Obj
    from tests.e2e.control_plane import ControlPlane
    from tests.e2e.staging import Stage
    from tests.e2e.webhook import Webhook

pytestmark = pytest.mark.e2e

TRUTH = int(os.environ.get("TRUTH", "81"))
PATIENCE = 15
"""Seconds in which watches and webhook must have caught up."""


@pytest.fixture(scope="module")
def watched(plane: ControlPlane) -> Iterator[Informer]:
    """Cluster state as the webhook has it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KUBECONFIG", str(plane.kubeconfig("forewarn")))
        server = ApiServer(connect).open()
    informer = Informer(server, release=Release(known_minor(MINOR))).start()
    assert informer.wait(30)
    yield informer
    informer.stop()
    server.close()


@pytest.fixture(scope="module")
def tally() -> Iterator[Counter[str]]:
    counted: Counter[str] = Counter()
    yield counted
    print(f"\ne2e: truth test, seed {SEED}: {dict(counted)}")


def by_watches(watched: Informer, question: Question) -> str:
    """Where a prediction by the watches differs."""
    cluster = watched.cluster()
    if cluster is None:
        return "no cluster state"
    have, want = (up_to_order(p, question) for p in (predict(cluster, question.pod), question.prediction))
    keys = [key for key in want | have if have.get(key) != want.get(key)]
    return "; ".join(f"by watches {key} is {have.get(key)}, not {want.get(key)}" for key in keys)


def up_to_order(prediction: Prediction, question: Question) -> Obj:
    """A prediction without what depends on the order in which objects came: which of several equal pods has to go."""
    found = prediction.to_dict()
    found["feasible"].sort()
    for candidate in found["candidates"].values():
        candidate["victims"] = ranks(candidate["victims"], question)
    return found


def ranks(victims: list[str], question: Question) -> list[tuple[int, str]]:
    return sorted(rank(question.pods[key]) for key in victims)


@pytest.mark.parametrize("number", range(TRUTH))
def test_kube_scheduler_does_what_was_predicted(
    stage: Stage, watched: Informer, webhook: Webhook, tally: Counter[str], number: int
) -> None:
    case = case_of(number)
    try:
        stage.put(case)
        time.sleep(SETTLING)
        pod = stage.incoming(case["pod"])
        question = ask(stage, pod)
        wait_until(lambda: not by_watches(watched, question), PATIENCE, partial(by_watches, watched, question))
        if not lacks_a_claim(question):
            same = partial(same_by_webhook, stage, question, pod)
            wait_until(same, PATIENCE, "the webhook's annotation says the same")
        outcome = act(stage, question, pod)
        wrong = differences(question, outcome)
        if wrong:
            (CASES / f"{SEED}-{case['id']}.json").write_text(compact(as_case(case["id"], question, outcome, wrong)))
        tally[question.prediction.outcome] += 1
        assert not wrong, f"{case['id']}: {'; '.join(wrong)}"
    finally:
        stage.clear()
