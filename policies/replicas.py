"""The pods that an object would bring, placed one after the other, each seeing those before it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from policies.cluster import admitted
from policies.controllers.new_pods import MOST_IN_TURN, WITHOUT_CLAIMS, NewPods, new_pods, without_missing_claims
from policies.controllers.pod_sequences import Same
from policies.kinds import POD_TEMPLATE_PATHS
from policies.objects.fields import InvalidObject, ref_of
from policies.objects.workload import pod_template_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from policies.cluster import ClusterSnapshot
    from policies.objects.fields import ApiObject
    from policies.objects.pod import Pod
    from policies.scheduling.schedule_one import Prediction

IN_TURN: Final = (
    "Pods are placed one after the other; a Pod that fits is bound to the first of the tied nodes by name; while "
    "victims terminate, the preemptor waits and their PDBs allow that many fewer disruptions"
)

MISSING_ONLY: Final = (
    "counts cover the missing replicas only; --cascade and `forewarn whatif apply` count the whole rollout"
)
"""The basis of the counts for a workload that has Pods already."""


@dataclass(frozen=True, slots=True)
class Placement:
    """What an object's new pods come to, in order. `wanted`: pods that shall run, `existing`: those there already."""

    name: str
    predictions: tuple[Prediction, ...]
    wanted: int = 1
    existing: int = 0
    without_claims: bool = False
    left_out: int = 0
    """New pods beyond those that are looked at."""

    @property
    def caveats(self) -> tuple[str, ...]:
        """What the placement as a whole rests on, beside what each prediction says."""
        beyond = f"only the first {len(self.predictions)} new Pods are evaluated, {self.left_out} more are not"
        in_turn = len(self.predictions) > 1
        notes = (
            (self.without_claims, WITHOUT_CLAIMS),
            (self.existing > 0, MISSING_ONLY),
            (in_turn, IN_TURN),
            (self.left_out > 0, beyond),
        )
        return tuple(note for holds, note in notes if holds)


def place(cluster: ClusterSnapshot, obj: ApiObject, replicas: int | None = None) -> Placement:
    """Where the pods would go that a pod or workload would bring; `replicas` stands in for its own number.

    Raises InvalidObject: a template that cannot be read, a class that does not exist.
    """
    new, name = new_pods_of(cluster, obj, replicas)
    existing, left_out = max(new.wanted - len(new.pods), 0), max(len(new.pods) - MOST_IN_TURN, 0)
    predictions = place_pods(cluster, new.pods[:MOST_IN_TURN])
    return Placement(name, predictions, new.wanted, existing, new.without_claims, left_out)


def new_pods_of(cluster: ClusterSnapshot, obj: ApiObject, replicas: int | None = None) -> tuple[NewPods, str]:
    """(the pods that a pod or workload would bring, its name): as `place`, before anything is predicted.

    Raises InvalidObject.
    """
    ref = ref_of(obj, "default")
    template = pod_template_of(obj, POD_TEMPLATE_PATHS)
    if template is None:
        raise InvalidObject("no Pod template found", ref=ref)
    if template.is_template:
        return new_pods(cluster, obj, template.object, replicas), str(ref)
    return _single(cluster, admitted(obj, cluster), 1 if replicas is None else replicas), str(ref)


def _single(cluster: ClusterSnapshot, pod: Pod, count: int) -> NewPods:
    """A pod on its own; one that the cluster has already is the same pod, and may be in its place."""
    present = cluster.pods.get((pod.namespace, pod.name))
    if present is not None and not present.terminal:
        if cluster.node_of(present):
            return NewPods(max(count, 1), Same(pod, max(count - 1, 0)))
        pod = replace(pod, uid=present.uid, nominated_node_name=present.nominated_node_name)
    whole = without_missing_claims(pod, cluster)
    return NewPods(count, Same(whole, max(count, 0)), whole is not pod)


def place_pods(cluster: ClusterSnapshot, pods: Iterable[Pod]) -> tuple[Prediction, ...]:
    """Predict pods one after the other; each sees those before it in their places, or waiting for
    victims that are still ending."""
    from policies.scheduling.bulk import schedule_in_turn

    return tuple(schedule_in_turn(cluster.scheduling, pods))


def outcomes(predictions: Sequence[Prediction]) -> dict[str, int]:
    """How many of them come to what, by `Prediction.outcome`, or `waits`: its victims are ending already."""
    counts: dict[str, int] = {}
    for prediction in predictions:
        outcome = "waits" if waits(prediction) else prediction.outcome
        counts[outcome] = counts.get(outcome, 0) + 1
    return counts


def waits(prediction: Prediction) -> bool:
    """Whether nobody has to go for a pod but those who have been told to already."""
    return prediction.outcome == "preempts" and all(victim.terminating for victim in prediction.victims)
