"""What forewarn predicts is what kube-scheduler then does, on random clusters.

It is asked by a fresh list of everything, and by watches that follow the API server through all the clusters.
TRUTH says how many clusters there are (81 have every kind once), SEED which ones. A cluster on which they differ is
kept under tests/e2e/cases/.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from policies import Prediction, predict
from tests.e2e.truth import SETTLING, Question, act, as_case, ask, compact, differences, rank, wait_until
from tests.oracle.generator.kinds import KINDS, make_case
from tests.scheduling.random_clusters import random_case
from webhook.apiserver import ApiServer, connect
from webhook.informer import Informer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.e2e.api import Obj
    from tests.e2e.control_plane import ControlPlane
    from tests.e2e.staging import Stage

pytestmark = pytest.mark.e2e

TRUTH = int(os.environ.get("TRUTH", "81"))
SEED = int(os.environ.get("SEED", "1"))
CASES = Path(__file__).parent / "cases"
# The claim of a generic ephemeral volume belongs to a pod by its uid, which the incoming one does not have yet.
NOT_STAGED = {"inline"}
MIXED = "random"
"""The smaller clusters of tests/scheduling, which mix more features; every third case is one."""
SOURCES = [kind for kind in KINDS if kind not in NOT_STAGED]
for place in range(2, len(SOURCES) * 3 // 2, 3):
    SOURCES.insert(place, MIXED)


@pytest.fixture(scope="module")
def watched(plane: ControlPlane) -> Iterator[Informer]:
    """Cluster state as the webhook has it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KUBECONFIG", str(plane.kubeconfig("forewarn")))
        server = ApiServer(connect).open()
    informer = Informer(server).start()
    assert informer.wait(30)
    yield informer
    informer.stop()
    server.close()


@pytest.fixture(scope="module")
def tally() -> Iterator[Counter[str]]:
    counted: Counter[str] = Counter()
    yield counted
    print(f"\ne2e: truth test, seed {SEED}: {dict(counted)}")


def case_of(number: int) -> Obj:
    """The next case that can be staged; mixed ones may hold what cannot."""
    source, attempt = SOURCES[number % len(SOURCES)], number
    while True:
        case = random_case(f"{SEED}/{attempt}") if source == MIXED else make_case(SEED, attempt, source)
        if not any("ephemeral" in volume for volume in case["pod"]["spec"].get("volumes", ())):
            return {**case, "id": case["id"].replace("/", "-")}
        attempt += 100_000


def same_by_watches(watched: Informer, question: Question) -> bool:
    cluster = watched.cluster()
    if cluster is None:
        return False
    return up_to_order(predict(cluster, question.pod), question) == up_to_order(question.prediction, question)


def up_to_order(prediction: Prediction, question: Question) -> Obj:
    """A prediction without what depends on the order in which objects came: which of several equal pods has to go."""
    found = prediction.to_dict()
    found["feasible"].sort()
    for candidate in found["candidates"].values():
        candidate["victims"] = sorted(rank(question.pods[key]) for key in candidate["victims"])
    return found


@pytest.mark.parametrize("number", range(TRUTH))
def test_kube_scheduler_does_what_was_predicted(
    stage: Stage, watched: Informer, tally: Counter[str], number: int
) -> None:
    case = case_of(number)
    try:
        stage.put(case)
        time.sleep(SETTLING)
        pod = stage.incoming(case["pod"])
        question = ask(stage, pod)
        wait_until(partial(same_by_watches, watched, question), 5, "the watches lead to the same prediction")
        outcome = act(stage, question, pod)
        wrong = differences(question, outcome)
        if wrong:
            CASES.mkdir(exist_ok=True)
            (CASES / f"{SEED}-{case['id']}.json").write_text(compact(as_case(case["id"], question, outcome, wrong)))
        tally[question.prediction.outcome] += 1
        assert not wrong, f"{case['id']}: {'; '.join(wrong)}"
    finally:
        stage.clear()
