"""What `forewarn whatif` predicts for a StatefulSet with a claim on a volume of one zone is what then happens.

Two zones of two nodes. The volume of `db` is in zone a: `db` can run on a1 and a2 alone.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

import pytest

from tests.e2e.api import identity
from tests.e2e.living import NAMESPACE, ZONAL, ZONE, Ending, clear, forewarn, settled, volume
from tests.e2e.objects import container, node

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.e2e.api import Api, Obj
    from tests.e2e.control_plane import ControlPlane
    from tests.e2e.graceful_kubelet import GracefulKubelets
    from tests.e2e.staging import Stage
    from tests.e2e.webhook import Webhook

pytestmark = [pytest.mark.e2e, pytest.mark.whole]

QUIET = 13


def workload(kind: str, name: str, cpu: str, class_: str = "", on: str = "", **spec: object) -> Obj:
    pod: Obj = {"containers": [container(cpu)], "terminationGracePeriodSeconds": 1}
    pod |= {"priorityClassName": class_} if class_ else {}
    pod |= {"nodeSelector": {"kubernetes.io/hostname": on}} if on else {}
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": pod}
    common = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
    return {**identity(kind, name, NAMESPACE), "spec": {**common, **spec}}


def database() -> Obj:
    claim: Obj = {"accessModes": ["ReadWriteOnce"], "storageClassName": ZONAL}
    claim |= {"resources": {"requests": {"storage": "1Gi"}}}
    templates = [{"metadata": {"name": "data"}, "spec": claim}]
    return workload("StatefulSet", "db", "2", "mid", serviceName="db", volumeClaimTemplates=templates)


class Case(NamedTuple):
    """`beside`: what runs on the other node of the zone; what is lost; and the end that forewarn has to predict."""

    beside: Obj | None
    lost: str
    preempted: dict[str, int]
    pending: dict[str, int]


BESIDE_LOW = workload("Deployment", "beside", "3", on="a2")
BESIDE_HIGH = workload("Deployment", "beside", "3", "high", on="a2")
CASES = {
    "the zone is lost": Case(None, "zone", {}, {"default/db": 1}),
    "its node is drained, and the other one of the zone has room": Case(None, "drain", {}, {}),
    "its node is drained, and the other one has a Pod of a lower class": Case(
        BESIDE_LOW, "drain", {"default/beside": 1}, {"default/beside": 1}
    ),
    "its node is drained, and the other one has a Pod of a higher class": Case(
        BESIDE_HIGH, "drain", {}, {"default/db": 1}
    ),
}


@pytest.fixture
def cleared(api: Api) -> Iterator[None]:
    yield
    clear(api)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
@pytest.mark.usefixtures("living_classes", "cleared")
def test_where_a_bound_volume_lets_a_pod_run(
    case: Case,
    plane: ControlPlane,
    webhook: Webhook,
    api: Api,
    stage: Stage,
    kubelets: GracefulKubelets,
    tmp_path: Path,
) -> None:
    for name in ("a1", "a2", "b1", "b2"):
        made = node(name, cpu="4")
        made["metadata"]["labels"][ZONE] = name[0]
        stage.node(made)
    api.create(volume("data", "a"))
    if case.beside:
        api.create(case.beside)
        kubelets.changed = time.monotonic()
        settled(kubelets, QUIET)
    else:  # so that db is on a1
        api.patch(api.get("Node", "a2"), {"spec": {"unschedulable": True}})
    api.create(database())
    kubelets.changed = time.monotonic()
    settled(kubelets, QUIET)
    assert api.get("Pod", "db-0", NAMESPACE)["spec"].get("nodeName") == "a1"
    if not case.beside:
        api.patch(api.get("Node", "a2"), {"spec": {"unschedulable": None}})
    asked = ("lose", "zone", "a") if case.lost == "zone" else ("drain", "a1")
    file = tmp_path / "cluster.json"
    forewarn(plane, "snapshot", "-o", str(file))
    answer = json.loads(forewarn(plane, "whatif", *asked, "--cluster", str(file), "-o", "json"))
    predicted = Ending.of(
        Counter(push["victim"]["workload"] for push in answer["preempted"]),
        answer["pending"]["byWorkload"],
        answer["rejectedByQuota"],
    )
    kubelets.preempted.clear()
    if case.lost == "zone":
        for name in ("a1", "a2"):
            api.delete(identity("Node", name))
    else:
        plane.kubectl("drain", "a1", "--force", "--timeout=40s")
    kubelets.changed = time.monotonic()
    settled(kubelets, QUIET)
    found = Ending.seen(api, kubelets)
    print(f"\ne2e: predicted {predicted}; found {found}")
    claim = api.get("PersistentVolumeClaim", "data-db-0", NAMESPACE)
    assert claim["spec"]["volumeName"] == "data"
    assert found == Ending.of(case.preempted, case.pending, {})
    assert predicted == found
