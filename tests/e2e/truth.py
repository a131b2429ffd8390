"""Asks forewarn, lets kube-scheduler act, and says where they differ."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from forewarn import policies
from forewarn.webhook.admission.impact_annotation import ANNOTATION
from tests.e2e.staging import Stage

if TYPE_CHECKING:
    from collections.abc import Callable

    from forewarn.policies.kubernetes.objects.pod import Pod
    from tests.e2e.api import Obj

CASES = Path(__file__).parent / "cases"
"""Clusters on which the live scheduler did something else."""
SETTLING = 0.25
"""Seconds that kube-scheduler's watches get before the incoming pod is created."""


@dataclass(frozen=True)
class Outcome:
    """What became of a pod: bound, nominated (with victims), or neither."""

    bound: str = ""
    nominated: str = ""
    victims: frozenset[str] = frozenset()

    def __str__(self) -> str:
        if self.bound:
            return f"bound to {self.bound}"
        if self.nominated:
            return f"nominated to {self.nominated}, victims {', '.join(sorted(self.victims)) or 'none'}"
        return f"pending{', victims ' + ', '.join(sorted(self.victims)) if self.victims else ''}"


@dataclass
class Question:
    """A staged cluster, the pod that is coming, and forewarn's answer."""

    objects: list[Obj]
    pod: Obj
    prediction: policies.Prediction

    @property
    def pods(self) -> dict[str, Obj]:
        return {key_of(obj): obj for obj in self.objects if obj["kind"] == "Pod"}


def ask(stage: Stage, pod: Obj) -> Question:
    """Ask about a pod with the cluster as it is stored now; the pod is as a dry run of its creation shows it."""
    objects = stage.dump()
    dry = stage.create(pod, dryRun="All")
    cache = policies.Cache(semantics=stage.semantics)
    for obj in objects:
        cache.add(obj)
    return Question(objects, dry, policies.predict(cache.snapshot(), dry))


def act(stage: Stage, question: Question, pod: Obj) -> Outcome:
    """Create the pod for real, and see what kube-scheduler does."""
    stage.create(pod)
    decided = stage.decided(pod)
    if decided["spec"].get("nodeName"):
        return Outcome(bound=decided["spec"]["nodeName"], victims=_victims(stage, question))
    nominated = decided["status"].get("nominatedNodeName", "")
    expected = {v for v in _predicted_victims(question, nominated) if not _terminating(question.pods[v])}
    deadline = time.monotonic() + 5
    while nominated and time.monotonic() < deadline and len(_victims(stage, question, nominated)) < len(expected):
        time.sleep(0.02)
    time.sleep(0.1)
    return Outcome(nominated=nominated, victims=_victims(stage, question, nominated))


def differences(question: Question, outcome: Outcome) -> list[str]:
    """Where the live scheduler did not do what was predicted, up to the ties that the prediction reports."""
    prediction = question.prediction
    if prediction.outcome == "not-predicted":
        return [f"not predicted: {prediction.not_predicted}"]
    kind = {"fits": outcome.bound, "preempts": outcome.nominated}.get(prediction.outcome, "")
    if prediction.outcome == "pending":
        return [] if outcome == Outcome() else [f"predicted pending, was {outcome}"]
    if kind not in prediction.best_nodes:
        return [f"predicted {prediction.outcome} on {prediction.best_nodes}, was {outcome}"]
    expected = _predicted_victims(question, outcome.nominated)
    wanted = sorted(v for v in expected if not _terminating(question.pods[v]))
    if any("victims tie" in line for line in prediction.caveats):
        ranks = [sorted(rank(question.pods[v]) for v in victims) for victims in (wanted, outcome.victims)]
        return [] if ranks[0] == ranks[1] else [f"victims {wanted} or their equals, were {sorted(outcome.victims)}"]
    return [] if wanted == sorted(outcome.victims) else [f"victims {wanted}, were {sorted(outcome.victims)}"]


def as_case(identity: str, question: Question, outcome: Outcome, wrong: list[str]) -> Obj:
    """The staged cluster as a case, to be looked at and kept."""
    case: Obj = {"id": identity, "pod": question.pod, "live": str(outcome), "differences": wrong}
    for obj in question.objects:
        case.setdefault(LISTS[obj["kind"]], []).append(_without_noise(obj))
    return case


LISTS = {
    "Node": "nodes",
    "Pod": "pods",
    "Namespace": "namespaces",
    "PodDisruptionBudget": "pdbs",
    "PersistentVolumeClaim": "pvcs",
    "PersistentVolume": "pvs",
    "StorageClass": "storageClasses",
    "CSINode": "csiNodes",
    "CSIDriver": "csiDrivers",
    "CSIStorageCapacity": "csiStorageCapacities",
    "VolumeAttachment": "volumeAttachments",
    "Service": "services",
    "ReplicationController": "replicationControllers",
    "ReplicaSet": "replicaSets",
    "StatefulSet": "statefulSets",
    "PriorityClass": "priorityClasses",
    "ResourceQuota": "resourceQuotas",
}


def key_of(obj: Obj) -> str:
    return f"{obj['metadata'].get('namespace', 'default')}/{obj['metadata']['name']}"


def _predicted_victims(question: Question, node: str) -> list[str]:
    return [v.key for c in question.prediction.candidates if c.node_name == node for v in c.victims]


def _victims(stage: Stage, question: Question, node: str = "") -> frozenset[str]:
    """Pods that are going away, or gone, and were not when the question was asked.

    Those of the node to which the pod is nominated: a less important pod that was nominated to it before goes
    elsewhere, and may push out others there.
    """
    now = {key_of(pod): pod for pod in stage.api.list("Pod")}
    before = {
        key for key, pod in question.pods.items() if not _terminating(pod) and node in ("", pod["spec"].get("nodeName"))
    }
    return frozenset(key for key in before if key not in now or _terminating(now[key]))


def _terminating(pod: Obj) -> bool:
    return "deletionTimestamp" in pod["metadata"]


def rank(pod: Obj) -> tuple[int, str]:
    """What makes a pod more important than another."""
    return pod["spec"].get("priority", 0), pod["status"].get("startTime", "")


def same_by_webhook(stage: Stage, question: Question, pod: Obj) -> bool:
    """Whether the annotation of a dry run says the same. A new name each time: an answer is kept for some seconds."""
    renamed = {**pod, "metadata": {**pod["metadata"], "name": f"ask-{time.monotonic_ns()}"}}
    annotations = stage.create(renamed, dryRun="All")["metadata"].get("annotations", {})
    told = json.loads(annotations.get(ANNOTATION) or "{}")
    prediction = question.prediction
    if prediction.outcome != "preempts":
        return told.get("pending", 0) == (prediction.outcome == "pending") and "preemptions" not in told
    (preemption,) = told.get("preemptions", [{"node": ""}])
    expected = {c.node_name: c for c in prediction.candidates}.get(preemption["node"])
    nodes, victims = preemption.get("orAnyOf", [preemption["node"]]), preemption.get("victims", ())
    return (
        expected is not None
        and set(nodes) <= set(prediction.best_nodes)
        and len(nodes) + preemption.get("moreNodes", 0) == len(prediction.best_nodes)
        and [rank(question.pods[key]) for key in victims] == [of_victim(v, question) for v in expected.victims][:10]
        and len(victims) + preemption.get("moreVictims", 0) == len(expected.victims)
        and preemption["pdbViolations"] == expected.num_pdb_violations
    )


def of_victim(victim: Pod, question: Question) -> tuple[int, str]:
    return rank(question.pods[victim.key])


def lacks_a_claim(question: Question) -> bool:
    """Whether a claim of the pod is missing: the webhook takes it to come, as that of a StatefulSet's new pod does."""
    volumes = question.pod["spec"].get("volumes", ())
    named = {volume["persistentVolumeClaim"]["claimName"] for volume in volumes if "persistentVolumeClaim" in volume}
    namespace = question.pod["metadata"]["namespace"]
    return not {f"{namespace}/{name}" for name in named} <= {
        key_of(obj) for obj in question.objects if obj["kind"] == "PersistentVolumeClaim"
    }


def _without_noise(obj: Obj) -> Obj:
    metadata = {k: v for k, v in obj["metadata"].items() if k not in ("managedFields", "resourceVersion")}
    return {**obj, "metadata": metadata}


def wait_until(true: Callable[[], Any], patience: float, what: str | Callable[[], str]) -> None:
    """Wait until something is so. `what`: that, or what is told instead of it. Raises AssertionError."""
    deadline = time.monotonic() + patience
    while not true():
        assert time.monotonic() < deadline, f"not within {patience} s: {what if isinstance(what, str) else what()}"
        time.sleep(0.05)


def compact(case: Obj) -> str:
    return json.dumps(case, separators=(",", ":"))
