"""The admission plugin DefaultTolerationSeconds: which tolerations a new Pod gets."""

from __future__ import annotations

from typing import Any

import pytest

from forewarn.policies.kubernetes.cluster.admission import admitted
from forewarn.policies.kubernetes.controllers.own_pods import new_pods
from forewarn.policies.kubernetes.objects.node import Toleration
from tests.builders import cluster, make_pod

NOT_READY = {"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"}
ADDED = tuple(
    Toleration(f"node.kubernetes.io/{state}", "Exists", "", "NoExecute", 300) for state in ("not-ready", "unreachable")
)


@pytest.mark.parametrize(
    ("own", "added"),
    [
        ([], ADDED),
        ([{"key": "own", "operator": "Exists"}], ADDED),
        ([{"operator": "Exists", "effect": "NoSchedule"}], ADDED),
        ([{**NOT_READY, "operator": "Exists", "tolerationSeconds": 5}], ADDED[1:]),
        ([{**NOT_READY, "operator": "Equal", "value": "x"}], ADDED[1:]),
        ([{"operator": "Exists"}], ()),
        ([{"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}], ()),
    ],
)
def test_tolerations_are_added_by_key_and_effect_alone(
    own: list[dict[str, Any]], added: tuple[Toleration, ...]
) -> None:
    """Source: upstream `Admit`: the value and the operator do not matter."""
    state = cluster()
    pod = make_pod("a").spec(tolerations=own).obj
    del pod["metadata"]["uid"]
    found = admitted(pod, state).spec.tolerations
    assert found[len(own) :] == added
    template = {"spec": pod["spec"]}
    replica_set = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": "web"},
        "spec": {"template": template},
    }
    (created,) = new_pods(state, replica_set, template).pods
    assert created.spec.tolerations == found


def test_stored_pods_are_unchanged() -> None:
    assert admitted(make_pod("a").metadata(uid="1").obj, cluster()).spec.tolerations == ()
