"""`forewarn why` on the control plane, and recordings of what it reads.

RECORD names a directory for the Pods, Nodes, workloads and Events at the time of each answer
(`tests/policies/cases/why` has them; `tests/policies/commands/test_why_recorded.py` reads them).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tests.e2e.truth import wait_until

if TYPE_CHECKING:
    from tests.e2e.api import Api, Obj
    from tests.e2e.control_plane import ControlPlane
    from tests.e2e.staging import Stage

RECORDED = (
    "Node",
    "PriorityClass",
    "Pod",
    "Deployment",
    "ReplicaSet",
    "StatefulSet",
    "Job",
    "PodDisruptionBudget",
    "DeviceClass",
    "ResourceClaim",
    "ResourceSlice",
)


def delete_events(api: Api) -> None:
    """Delete the Events of all namespaces: one request for each namespace, as other tests leave thousands of Events."""
    for namespace in api.list("Namespace"):
        api.delete_all("Event", namespace["metadata"]["name"])


def why(plane: ControlPlane, name: str) -> Obj:
    command = [sys.executable, "-m", "forewarn", "why", f"default/{name}", "--cluster", "live", "-o", "json"]
    environment = {**os.environ, "KUBECONFIG": str(plane.kubeconfig())}
    told = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    answer: Obj = json.loads(told.stdout)
    return answer


def messages(answer: Obj) -> dict[str, str]:
    return {trouble["id"]: trouble["message"] for trouble in answer["troubles"]}


def record(plane: ControlPlane, stage: Stage, name: str) -> None:
    """Write the objects of the cluster and its Events, one a line, without what differs by the machine."""
    if not os.environ.get("RECORD"):
        return
    objects = [obj for kind in RECORDED for obj in stage.api.list(kind)]
    events = json.loads(plane.kubectl("get", "events", "-A", "-o", "json").out)["items"]
    lines = ",\n".join(json.dumps(_without_machine(obj)) for obj in (*objects, *events))
    head = '{"apiVersion": "v1", "kind": "List", "items": [\n'
    Path(os.environ["RECORD"], f"{name}.json").write_text(f"{head}{lines}\n]}}\n")


def _without_machine(obj: Obj) -> Obj:
    obj["metadata"].pop("managedFields", None)
    for field in ("addresses", "nodeInfo", "images", "hostIP", "hostIPs"):
        obj.get("status", {}).pop(field, None)
    return obj


def answered(plane: ControlPlane, stage: Stage, name: str, *causes: str) -> Obj:
    """The answer once it has these causes; it is recorded."""
    wait_until(lambda: {*causes} <= {*messages(why(plane, name))}, 30, f"why {name} answers {', '.join(causes)}")
    record(plane, stage, f"{name.partition('-')[0]}-{causes[0]}")
    return why(plane, name)
