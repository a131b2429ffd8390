"""What matchLabelKeys and mismatchLabelKeys mean for a pod that was only written yet, asked of kube-scheduler.

n1 runs a pod of revision 1, n2 one of revision 2, and the new pod is of revision 2. The API server puts that into the
selectors when it stores the pod: a file has them without it.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from forewarn import policies
from tests.e2e.api import identity
from tests.e2e.objects import container, node, running
from tests.e2e.truth import SETTLING, Outcome, act, ask

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.e2e.api import Obj
    from tests.e2e.staging import Stage

pytestmark = pytest.mark.e2e

HOST = "kubernetes.io/hostname"


@pytest.fixture(autouse=True)
def cluster(stage: Stage) -> Iterator[None]:
    pods = [running(f"rev-{number}", f"n{number}", cpu="1") for number in (1, 2)]
    for number, pod in enumerate(pods, 1):
        pod["metadata"]["labels"] = {"app": "web", "rev": str(number)}
    stage.put({"namespaces": [], "nodes": [node("n1"), node("n2")], "pods": pods})
    yield
    stage.clear()


def affinity(kind: str, field: str) -> Obj:
    term = {"labelSelector": {"matchLabels": {"app": "web"}}, field: ["rev"], "topologyKey": HOST}
    return {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


def spread(**fields: Any) -> Obj:
    selector = {"labelSelector": {"matchLabels": {"app": "web"}}}
    constraint = {"maxSkew": 1, "topologyKey": HOST, "whenUnsatisfiable": "DoNotSchedule", **selector, **fields}
    return {"topologySpreadConstraints": [constraint]}


@pytest.mark.parametrize(
    ("spec", "bound"),
    [
        (affinity("podAffinity", "matchLabelKeys"), "n2"),
        (affinity("podAffinity", "mismatchLabelKeys"), "n1"),
        (affinity("podAntiAffinity", "matchLabelKeys"), "n1"),
        (affinity("podAntiAffinity", "mismatchLabelKeys"), "n2"),
        (spread(matchLabelKeys=["rev"]), "n1"),
    ],
    ids=["near its own", "near others", "far from its own", "far from others", "spread over its own"],
)
def test_a_pod_that_was_only_written_is_predicted_as_the_stored_one(stage: Stage, spec: Obj, bound: str) -> None:
    time.sleep(SETTLING)
    header = {**identity("Pod", "new"), "metadata": {"name": "new", "namespace": "default"}}
    header["metadata"]["labels"] = {"app": "web", "rev": "2"}
    written = {**header, "spec": {"containers": [container("1")], **spec}}
    question = ask(stage, written)
    assert question.pod["spec"] != written["spec"]
    assert act(stage, question, written) == Outcome(bound=bound)
    assert question.prediction.feasible == [bound]
    assert predict(question.objects, written).feasible == [bound]


def predict(objects: list[Obj], pod: Obj) -> policies.Prediction:
    cache = policies.Cache()
    for obj in objects:
        cache.add(obj)
    return policies.predict(cache.snapshot(), pod)
