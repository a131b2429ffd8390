"""Kubelets that run nothing: pods on nodes are ready at once, and end when their grace period is over, not before."""

from __future__ import annotations

import re
import threading
import time
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from tests.e2e.api import Refused, identity, path_of

if TYPE_CHECKING:
    from tests.e2e.api import Api, Obj

TICK = 0.1


class GracefulKubelets(threading.Thread):
    """All nodes' at once. `preempted`: the workload of each pod that kube-scheduler has pushed out, by the pod's uid;
    `shape`: where every pod is, for who waits until nothing changes; `stranded`: pods on nodes that are gone, which no
    kubelet looks after."""

    def __init__(self, api: Api) -> None:
        super().__init__(name="kubelets", daemon=True)
        self._api, self._over = api, threading.Event()
        self._ends: dict[str, float] = {}
        self.preempted: dict[str, str] = {}
        self.shape: frozenset[tuple[str, str, bool, bool]] = frozenset()
        self.stranded = 0
        self.changed = time.monotonic()
        self.seen: list[str] = []
        """What has become of pods since somebody emptied it, a line each: seconds, pod, what."""
        self._known: dict[str, tuple[str, ...]] = {}

    def run(self) -> None:
        """Until `stop`."""
        while not self._over.wait(TICK):
            with suppress(OSError, Refused):
                self.turn()

    def stop(self) -> None:
        """End, and wait for the end."""
        self._over.set()
        self.join()

    def turn(self) -> None:
        """Look once at all pods."""
        nodes = {node["metadata"]["name"] for node in self._api.list("Node")}
        pods = self._api.list("Pod")
        stranded = 0
        for pod in pods:
            uid = pod["metadata"]["uid"]
            reasons = {c["type"]: c.get("reason") for c in pod.get("status", {}).get("conditions", ())}
            if reasons.get("DisruptionTarget") == "PreemptionByScheduler":
                self.preempted.setdefault(uid, workload_of(pod))
            if pod["spec"].get("nodeName", "") not in ("", *nodes):
                stranded += 1
            elif pod["spec"].get("nodeName"):
                with suppress(Refused):  # changed or gone since
                    self._look_after(pod)
        self.stranded = stranded
        self._note(pods)
        shape = frozenset(
            (
                pod["metadata"]["uid"],
                pod["spec"].get("nodeName", ""),
                "deletionTimestamp" in pod["metadata"],
                pod.get("status", {}).get("phase") == "Running",
            )
            for pod in pods
        )
        if shape != self.shape:
            self.shape, self.changed = shape, time.monotonic()

    def _note(self, pods: list[Obj]) -> None:
        now = f"{time.monotonic():.1f}"
        found = {pod["metadata"]["uid"]: told_of(pod) for pod in pods}
        for uid in {**self._known, **found}:
            before, after = self._known.get(uid, ()), found.get(uid, ())
            if before != after:
                self.seen.append(f"{now} {' '.join(after or (*before[:1], 'gone'))}")
        self._known = found

    def _look_after(self, pod: Obj) -> None:
        uid = pod["metadata"]["uid"]
        if "deletionTimestamp" in pod["metadata"]:
            grace = pod["metadata"].get("deletionGracePeriodSeconds", 0)
            if time.monotonic() >= self._ends.setdefault(uid, time.monotonic() + grace):
                gone = identity("Pod", pod["metadata"]["name"], pod["metadata"]["namespace"])
                self._api.delete(gone, gracePeriodSeconds="0")
            return
        if pod.get("status", {}).get("phase") == "Running":
            return
        now = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
        conditions = [
            {"type": kind, "status": "True", "lastTransitionTime": now}
            for kind in ("Initialized", "ContainersReady", "Ready", "PodScheduled")
        ]
        status = {"phase": "Running", "startTime": now, "conditions": conditions}
        # Merged by their types: whoever is preempted meanwhile keeps the condition that says so.
        path = path_of(pod, subresource="status")
        self._api.do("PATCH", path, {"status": status}, "application/strategic-merge-patch+json")


def told_of(pod: Obj) -> tuple[str, ...]:
    """A pod's name, priority, node or nomination, and whether it is ending, and why."""
    metadata, spec, status = pod["metadata"], pod["spec"], pod.get("status", {})
    on = spec.get("nodeName") or f"nominated:{status.get('nominatedNodeName', '-')}"
    reasons = [c["reason"] for c in status.get("conditions", ()) if c["type"] == "DisruptionTarget"]
    ending = ["ending"] if "deletionTimestamp" in metadata else []
    return metadata["name"], str(spec.get("priority", 0)), on, *reasons, *ending


def workload_of(pod: Obj) -> str:
    """`namespace/name` of what people made: the Deployment of a ReplicaSet's pod or the CronJob of a Job's, by the form
    of the name; or the pod."""
    metadata = pod["metadata"]
    owner = next((owner for owner in metadata.get("ownerReferences", ()) if owner.get("controller")), None)
    if owner is None:
        return f"{metadata['namespace']}/{metadata['name']}"
    name = owner["name"].rpartition("-")[0] if owner["kind"] == "ReplicaSet" else of_cron_job(owner["name"])
    return f"{metadata['namespace']}/{name}"


def of_cron_job(name: str) -> str:
    """The name of the CronJob of a Job's name, which ends with the minute; or the Job's name."""
    return re.sub(r"-\d{8}$", "", name)
