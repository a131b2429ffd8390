"""Find the profile that schedules a Pod, and the parts of kube-scheduler's decision that forewarn does not model.

Source: kubernetes `pkg/scheduler/extender.go`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from forewarn.policies.releases.profiles import DEFAULT_SCHEDULER
from forewarn.policies.scheduling.caveats import named
from forewarn.policies.scheduling.configuration import configuration_of
from forewarn.policies.scheduling.devices.claims import not_modelled
from forewarn.policies.scheduling.event_handlers import is_gated
from forewarn.policies.scheduling.framework import Framework, StaticFilterPlugin, foreign_at, implements
from forewarn.policies.scheduling.pod_groups import of_a_group
from forewarn.policies.scheduling.vectorized.constraints import NotValid
from forewarn.policies.scheduling.vectorized.nodes import read_by_filters

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from forewarn.policies.objects.node import Node
    from forewarn.policies.objects.pod import Pod
    from forewarn.policies.releases.profiles import Extender
    from forewarn.policies.scheduling.snapshot import Snapshot


def framework_of(snapshot: Snapshot, pod: Pod) -> Framework:
    """Return the framework with the Pod's scheduler profile. The profile must exist."""
    profile = configuration_of(snapshot.semantics).profile(pod.spec.scheduler_name)
    assert profile is not None
    return Framework(snapshot, profile)


def framework_in_columns(snapshot: Snapshot, pod: Pod) -> Framework:
    """Return the framework of the Pod's profile.

    Raises NotValid if the numpy implementation does not support the profile.
    """
    configuration = configuration_of(snapshot.semantics)
    profile = configuration.profile(pod.spec.scheduler_name)
    if profile is None or configuration.extenders:
        raise NotValid
    framework = Framework(snapshot, profile)
    if framework.without_columns:
        raise NotValid(framework.without_columns)
    return framework


@dataclass(frozen=True, eq=False)
class _OwnFilters:
    framework: Framework
    plugins: Sequence[StaticFilterPlugin]
    reads_whole_pod: bool


class NodeFilters:
    """The filters of kube-scheduler's plugins that read only the node, as functions; cached.

    Plugins of third parties are ignored. A Pod of another scheduler is evaluated by the first profile.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot, self._configuration = snapshot, configuration_of(snapshot.semantics)
        self._own: dict[str, _OwnFilters] = {}
        self._known: dict[Hashable, Callable[[Node], bool]] = {}

    def of(self, pod: Pod) -> Callable[[Node], bool]:
        """Return a function: node -> whether the filters of the Pod's profile allow the node, with any Pods on it."""
        own = self._own.get(pod.spec.scheduler_name) or self._read(pod.spec.scheduler_name)
        read, constraints = read_by_filters(pod, whole=own.reads_whole_pod)
        key = own, read, id(pod.spec) if constraints is None else constraints
        if key not in self._known:
            filters = [passes for plugin in own.plugins if (passes := plugin.static_filter(pod)) is not None]
            self._known[key] = lambda node: all(passes(node) for passes in filters)
        return self._known[key]

    def _read(self, scheduler: str) -> _OwnFilters:
        profiles = self._configuration.profiles
        profile = self._configuration.profile(scheduler) or next(iter(profiles.values()))
        framework, foreign = Framework(self._snapshot, profile), foreign_at(profile, "filter")
        own = [name for name in profile.at("filter") if name not in foreign]
        static = [framework.plugin(name) for name in own if implements(profile.plugins[name], StaticFilterPlugin)]
        whole = any(plugin.reads_whole_pod for plugin in static)
        return self._own.setdefault(scheduler, _OwnFilters(framework, static, whole))


def not_predicted(pod: Pod, snapshot: Snapshot) -> str:
    """Return why forewarn cannot predict the scheduling of a Pod; "" if forewarn can."""
    return not_scheduled(pod, snapshot) or unmodelled(pod, snapshot)


def unmodelled(pod: Pod, snapshot: Snapshot) -> str:
    """Return the part of kube-scheduler's decision about a Pod that forewarn does not model; "" if all parts are
    modelled.
    """
    return of_a_group(pod, snapshot) or not_modelled(
        pod, snapshot.objects, snapshot.extended_resources, snapshot.device_selectors
    )


def not_scheduled(pod: Pod, snapshot: Snapshot) -> str:
    """Return why kube-scheduler, with the known profiles, does not schedule a Pod; "" if kube-scheduler does."""
    semantics = snapshot.semantics
    if semantics.unknown:
        return semantics.unknown
    spec = pod.spec
    if spec.too_large:
        return spec.too_large
    profile = configuration_of(semantics).profile(spec.scheduler_name)
    if profile is None:
        return f'the Pod is for another scheduler, "{spec.scheduler_name or DEFAULT_SCHEDULER}"'
    if pod.node_name:
        return f'the Pod names its node, "{pod.node_name}": kube-scheduler ignores it'
    if is_gated(pod, semantics):
        return "the Pod has scheduling gates: it is not scheduled until they are removed"
    return ""


def extender_decisions(extenders: Sequence[Extender], *, fits: bool, preempts: bool) -> str:
    """Return why an extender may change a decision, as a reason not to predict; "" if none may.

    `fits`, `preempts`: the decision of the plugins.
    """
    for extender in extenders:
        if fits and extender.filter_verb:
            return f"{named(extender)} may reject the nodes that the plugins leave, and cannot be asked"
        if preempts and extender.preempt_verb:
            return f"{named(extender)} may choose other victims, and cannot be asked"
    return ""
