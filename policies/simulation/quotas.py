"""Resource quotas in a simulation: the admission plugin that charges and refuses, the controller that gives back.

Source: apiserver `pkg/admission/plugin/resourcequota`, kubernetes `pkg/controller/resourcequota`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from policies.kube_apiserver.quota import QuotaRoom
from policies.objects.fields import InvalidObject, mapping

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping, Sequence

    from policies.controllers.view import PodState
    from policies.objects.fields import ApiObject
    from policies.objects.pod import Pod
    from policies.objects.resource_quota import ResourceQuota
    from policies.simulation.clock import Clock
    from policies.simulation.latencies import Latencies

_LONGEST: Final = 512
"""Characters that are kept of a refusal: a quota may limit many resources of long names."""


class Quotas:
    """The quotas of all namespaces. A pod is charged when it is stored, and given back a write after it is gone."""

    def __init__(
        self,
        clock: Clock,
        latencies: Latencies,
        quotas_of: Callable[[str], Sequence[ResourceQuota]],
        defaulted: Callable[[ApiObject], ApiObject],
        template_for: Callable[[Pod], ApiObject | None],
    ) -> None:
        """`quotas_of`: a namespace's at time 0. `defaulted`: a new pod with its LimitRanges' defaults. `template_for`:
        what a pod of time 0 seems to be made of, None where that is not known; it may raise InvalidObject."""
        self._clock, self._latencies, self._defaulted = clock, latencies, defaulted
        self._template_for = template_for
        self._room = QuotaRoom(quotas_of)
        self._specs: dict[int, tuple[ApiObject, Mapping[str, Any]]] = {}
        """By what the template is, which is kept so that no other has its identity."""
        self.given_back = 0
        """How many pods were."""

    def refusal(self, pod: Pod, template: ApiObject | None) -> str:
        """Why a quota refuses a new pod, in upstream's words; empty where none does, and the pod is charged then."""
        if not self._room.limits(pod.namespace):
            return ""
        try:
            return self._room.refusal(pod.namespace, self._asked(pod, template))[:_LONGEST]
        except InvalidObject as error:
            return str(error)[:_LONGEST]

    def pod_gone(self, state: PodState) -> None:
        """The controller looks at the quotas of a namespace whose pod is gone; of one that has ended it did before."""
        if not state.pod.terminal and self._room.limits(state.pod.namespace):
            self._clock.spawn(self._give_back(state))

    def _give_back(self, state: PodState) -> Generator[float | None, None, None]:
        yield self._latencies.write("status", state.pod.namespace)
        try:
            template = self._template_for(state.pod) if state.template is None else state.template
            self._room.give_back(state.pod.namespace, self._asked(state.pod, template))
        except InvalidObject:
            return
        self.given_back += 1

    def _asked(self, pod: Pod, template: ApiObject | None) -> ApiObject:
        """A pod as quotas see it. Of one whose template is not known, what the scheduler counts: no limits then."""
        spec = self._requests(pod) if template is None else self._spec(pod, template)
        return {
            "metadata": {"namespace": pod.namespace},
            "spec": {**spec, "priorityClassName": pod.priority_class_name},
        }

    def _spec(self, pod: Pod, template: ApiObject) -> Mapping[str, Any]:
        known = self._specs.get(id(template))
        if known is None:
            made = {"metadata": {"namespace": pod.namespace}, "spec": dict(mapping(template, "spec"))}
            known = self._specs[id(template)] = template, mapping(self._defaulted(made), "spec")
        return known[1]

    def _requests(self, pod: Pod) -> Mapping[str, Any]:
        asked = pod.occupies.resource
        requests = {"cpu": f"{asked.milli_cpu}m", "memory": str(asked.memory)}
        return {"containers": [{"name": "", "resources": {"requests": requests}}]}
