"""Two Deployments in one `kubectl apply`: the warning on the second one counts the Pods of the first.

A node with room for one of them, and a Pod that either may preempt. ROUNDS says how often that is tried.
"""

from __future__ import annotations

import json
import os
import time
from typing import TYPE_CHECKING

import pytest

from tests.e2e.api import identity
from tests.e2e.living import NAMESPACE, clear, settled
from tests.e2e.objects import container, node

if TYPE_CHECKING:
    from tests.e2e.api import Obj
    from tests.e2e.living import Living

pytestmark = [pytest.mark.e2e, pytest.mark.whole]

ROUNDS = int(os.environ.get("ROUNDS", "4"))
QUIET = 6
PREEMPTS = "would preempt"


def workload(name: str, class_: str) -> Obj:
    spec = {"containers": [container("2")], "terminationGracePeriodSeconds": 1}
    spec |= {"priorityClassName": class_} if class_ else {}
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": spec}
    made = {**identity("Deployment", name, NAMESPACE), "apiVersion": "apps/v1"}
    return {**made, "spec": {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}}


def test_the_second_object_is_warned_of_as_the_first_one_takes_the_room(living: Living) -> None:
    plane, webhook, api, stage, kubelets = living
    preempted, warned, told = 0, 0, list[str]()
    for number in range(ROUNDS):
        stage.node(node("only", cpu="4"))
        api.create(workload(f"victim-{number}", ""))
        settled(kubelets, QUIET)
        kubelets.preempted.clear()
        webhook.catch_up(api)
        items = [workload(f"first-{number}", "high"), workload(f"second-{number}", "mid")]
        both = {"apiVersion": "v1", "kind": "List", "items": items}
        done = plane.kubectl("apply", "-f", "-", stdin=json.dumps(both))
        assert done.status == 0, done.err
        kubelets.changed = time.monotonic()
        settled(kubelets, QUIET)
        preempted += bool(kubelets.preempted)
        warned += PREEMPTS in done.err
        told.append(f"{number}: preempted {sorted(kubelets.preempted.values())}; {done.err.strip() or 'no warning'}")
        clear(api)
    print(f"\ne2e: {preempted} of {ROUNDS} preempted a pod, {warned} were warned of")
    print("\n".join(told))
    assert preempted == warned == ROUNDS
