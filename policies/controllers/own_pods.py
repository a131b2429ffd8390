"""The pods that a workload has already."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.metering import charge
from policies.objects.fields import ApiObject, InvalidObject, at, group_kind, ref_of, string_map
from policies.selectors import InvalidSelector, LabelSelector, Requirement, parse_label_selector

if TYPE_CHECKING:
    from collections.abc import Mapping

    from policies.cluster import ClusterSnapshot
    from policies.objects.pod import Pod
    from policies.objects.workload import Workload


def pods_of(cluster: ClusterSnapshot, obj: ApiObject) -> list[Pod]:
    """The pods that a workload has already: by owner, else by selector, of those whose owner is not known."""
    ref = ref_of(obj, "default")
    here = cluster.within(ref.namespace)
    charge(len(here.pods) + len(here.workloads))
    known = {(w.ref.kind, w.ref.name): w.controller for w in here.workloads.values()}
    of_it = {(ref.kind, ref.name)} | {identity for identity, above in known.items() if above == (ref.kind, ref.name)}
    found: list[Pod] = []
    others: list[Pod] = []
    for pod in here.pods.values():  # once, whether or not it has any: a namespace may have 100,000
        owner = pod.owner[:2] if pod.owner is not None else None
        if owner in of_it:
            found.append(pod)
        elif owner not in known:
            others.append(pod)
    found = [pod for pod in found if _is_there(pod)]
    selector = selector_of(obj)
    if found or selector.empty:
        return found
    matches = Matches(selector)
    return [pod for pod in others if matches.labels(pod.labels) and _is_there(pod)]


def controlled(cluster: ClusterSnapshot, obj: ApiObject) -> list[Workload]:
    """The workloads that this one controls: a Deployment's ReplicaSets, a CronJob's Jobs."""
    ref = ref_of(obj, "default")
    return [w for w in cluster.within(ref.namespace).workloads.values() if w.controller == (ref.kind, ref.name)]


def _is_there(pod: Pod) -> bool:
    return not pod.terminal and not pod.terminating


class Matches:
    """Whether a selector matches labels; asked once of labels that many pods share (`shared_labels`)."""

    def __init__(self, selector: LabelSelector) -> None:
        self._selector = selector
        self._known: dict[int, bool] = {}

    def labels(self, labels: Mapping[str, str]) -> bool:
        """Whether it matches these."""
        known = self._known.get(id(labels))
        if known is None:
            known = self._known[id(labels)] = self._selector.matches(labels)
        return known


def selector_of(obj: ApiObject) -> LabelSelector:
    """The selector of a workload's pods. Raises InvalidObject."""
    if group_kind(obj) == "/ReplicationController":
        labels = string_map(obj, "spec", "selector")
        return LabelSelector(tuple(Requirement(key, "In", frozenset([value])) for key, value in labels.items()))
    try:
        return parse_label_selector(at(obj, "spec", "selector")) or LabelSelector()
    except InvalidSelector as error:
        raise InvalidObject(str(error), ("spec", "selector"), ref_of(obj)) from None
