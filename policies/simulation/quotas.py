"""ResourceQuotas in a simulation: the admission plugin that charges quotas or rejects Pods, and the controller that
updates usage.

Source: apiserver `pkg/admission/plugin/resourcequota`, kubernetes `pkg/controller/resourcequota`.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from forewarn.policies.cluster.admission import counted_by_requests
from forewarn.policies.controllers.resource_quota import recalculated
from forewarn.policies.kube_apiserver.quota import Pods, RemainingQuota
from forewarn.policies.kube_apiserver.validation.resources import read_pod_resources
from forewarn.policies.objects.fields import InvalidObject, mapping

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Sequence

    from forewarn.policies.controllers.view import PodState
    from forewarn.policies.kube_apiserver.validation.resources import PodResources
    from forewarn.policies.objects.fields import ApiObject
    from forewarn.policies.objects.pod import Pod
    from forewarn.policies.objects.resource_list import ResourceList
    from forewarn.policies.objects.resource_quota import ResourceQuota
    from forewarn.policies.simulation.clock import Clock
    from forewarn.policies.simulation.latencies import Latencies

_LONGEST: Final = 512
"""Maximum characters of a rejection: a quota may limit many resources with long names."""


class Quotas:
    """The ResourceQuotas of all namespaces. Usage includes a Pod from its creation until one write after its
    removal.
    """

    def __init__(
        self,
        clock: Clock,
        latencies: Latencies,
        quotas_of: Callable[[str], Sequence[ResourceQuota]],
        defaulted: Callable[[ApiObject], ApiObject],
        template_for: Callable[[Pod], ApiObject | None],
    ) -> None:
        """Start with the usage at time 0.

        `quotas_of`: returns the quotas of a namespace. `defaulted`: returns the object of a new Pod with defaults of
        LimitRanges. `template_for`: returns the probable template of a Pod that exists at time 0, None if unknown; may
        raise InvalidObject.
        """
        self._clock, self._latencies, self._defaulted = clock, latencies, defaulted
        self._template_for = template_for
        self._remaining_quota = RemainingQuota(quotas_of, _RepeatedPods(read=self._resources_of))
        self._counted_pods: dict[tuple[int, str], tuple[object, ApiObject]] = {}
        """(id of a template or of requests, PriorityClass) -> (that object, which keeps the id unique; the Pod object
        for quotas).
        """
        self._resources: dict[int, PodResources] = {}
        """id of a Pod object for quotas -> its resources."""
        self.given_back = 0
        """Number of Pods subtracted from the usage."""

    def put(self, quota: ResourceQuota, pods: Iterable[PodState]) -> None:
        """Add or change a quota, with the usage by `pods`, the Pods of its namespace."""
        counted = []
        for state in pods:
            with suppress(InvalidObject):
                template = self._template_for(state.pod) if state.template is None else state.template
                counted += [] if state.pod.terminal else [self._counted_pod(state.pod, template)]
        self._remaining_quota.put(recalculated(quota, counted, 0.0))

    def rejection(self, pod: Pod, template: ApiObject | None) -> str:
        """Return upstream's message if a quota rejects a new Pod. If no quota does, charge the quotas and return ""."""
        if not self._remaining_quota.limits(pod.namespace):
            return ""
        try:
            return self._remaining_quota.rejection(pod.namespace, self._counted_pod(pod, template))[:_LONGEST]
        except InvalidObject as error:
            return str(error)[:_LONGEST]

    def pod_deleted(self, state: PodState) -> None:
        """Subtract a removed Pod from the usage of its namespace."""
        if not state.pod.terminal and self._remaining_quota.limits(state.pod.namespace):
            self._clock.spawn(self._give_back(state))

    def _give_back(self, state: PodState) -> Generator[float | None, None, None]:
        yield self._latencies.write("status", state.pod.namespace)
        try:
            template = self._template_for(state.pod) if state.template is None else state.template
            self._remaining_quota.give_back(state.pod.namespace, self._counted_pod(state.pod, template))
        except InvalidObject:
            return
        self.given_back += 1

    def _counted_pod(self, pod: Pod, template: ApiObject | None) -> ApiObject:
        """Return a Pod as an object with only the fields that quotas read: namespace, PriorityClass name and spec.

        The spec is the template's, with defaults. Without a template: one container with the cpu and memory requests
        that kube-scheduler counts, and no limits.
        """
        about = pod.occupies if template is None else template
        counted_pod = self._counted_pods.get((id(about), pod.priority_class_name))
        if counted_pod is None:
            counted = counted_by_requests(pod) if template is None else self._of_template(pod, template)
            counted_pod = self._counted_pods[id(about), pod.priority_class_name] = about, counted
        return counted_pod[1]

    def _resources_of(self, counted: ApiObject) -> PodResources:
        names = self._resources.get(id(counted))
        if names is None:
            names = self._resources[id(counted)] = read_pod_resources(counted)
        return names

    def _of_template(self, pod: Pod, template: ApiObject) -> ApiObject:
        metadata = {"namespace": pod.namespace}
        spec = mapping(self._defaulted({"metadata": metadata, "spec": dict(mapping(template, "spec"))}), "spec")
        return {"metadata": metadata, "spec": {**spec, "priorityClassName": pod.priority_class_name}}


@dataclass(frozen=True, slots=True)
class _RepeatedPods(Pods):
    """The Evaluator of Pods. Computes the usage of each object once; the objects must exist as long as this."""

    known: dict[int, ResourceList] = field(default_factory=dict)

    def usage(self, obj: ApiObject) -> ResourceList:
        """Return the amounts that the Pod uses. Raises InvalidObject."""
        cached = self.known.get(id(obj))
        if cached is None:
            cached = self.known[id(obj)] = Pods.usage(self, obj)
        return cached
