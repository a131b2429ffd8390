"""The binding of a Pod's volumes in a simulation, concurrent with the scheduling loop.

Source: kubernetes `pkg/scheduler/framework/plugins/volumebinding/binder.go`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from forewarn.policies.copies import replace
from forewarn.policies.scheduling.arguments import VolumeBindingArgs
from forewarn.policies.scheduling.configuration import configuration_of

if TYPE_CHECKING:
    from collections.abc import Generator

    from forewarn.policies.objects.pod import Pod
    from forewarn.policies.objects.storage import PersistentVolume, PersistentVolumeClaim
    from forewarn.policies.releases.semantics import Semantics
    from forewarn.policies.scheduling.plugins.storage_score import PodVolumes
    from forewarn.policies.simulation.api_server import ApiServer
    from forewarn.policies.simulation.clock import Clock
    from forewarn.policies.simulation.latencies import Latencies
    from forewarn.policies.simulation.scheduler_cache import SchedulerCache

_POLL_SECONDS: Final = 1.0
"""Seconds between two checks whether all claims are bound."""


class VolumeBinder:
    """Writes the selected volumes and nodes of a Pod's claims to the API server, and waits until the claims are
    bound.
    """

    def __init__(
        self, clock: Clock, api: ApiServer, cache: SchedulerCache, latencies: Latencies, semantics: Semantics
    ) -> None:
        self._clock, self._api, self._cache, self._latencies = clock, api, cache, latencies
        self._semantics = semantics

    def assume(self, volumes: PodVolumes, node: str) -> None:
        """Assume that the claims are bound to their volumes, and that volumes are provisioned for `node`, until the API
        server confirms it.

        Source: upstream `AssumePodVolumes`.
        """
        for claim, volume in volumes.matched:
            self._cache.put_volume(_bound(volume, claim))
        for claim in volumes.to_provision:
            self._cache.put_claim(replace(claim, selected_node=node))

    def revert(self, volumes: PodVolumes) -> None:
        """Undo `assume`: use the stored volumes and claims again. Source: upstream `RevertAssumedPodVolumes`."""
        for _, volume in volumes.matched:
            stored_volume = self._api.storage.volume(volume.name)
            if stored_volume is not None:
                self._cache.put_volume(stored_volume)
        for claim in volumes.to_provision:
            stored = self._api.storage.claim(claim.key)
            if stored is not None:
                self._cache.put_claim(stored)

    def bind(self, pod: Pod, node: str, volumes: PodVolumes) -> Generator[float | None, None, str]:
        """Bind the volumes of a Pod; return why this failed, or "" when all claims are bound.

        A volume or claim that changed since the scheduling cycle causes a conflict. Source: upstream `BindPodVolumes`.
        """
        for claim, volume in volumes.matched:
            yield self._latencies.write("update", f"/{volume.name}")
            stored_volume = self._api.storage.volume(volume.name)
            if stored_volume is not volume:
                return f'volume "{volume.name}" has changed'
            self._api.storage.put_volume(_bound(stored_volume, claim))
        for claim in volumes.to_provision:
            yield self._latencies.write("update", "/".join(claim.key))
            stored = self._api.storage.claim(claim.key)
            if stored is not claim:
                return f'claim "{"/".join(claim.key)}" has changed'
            self._api.storage.put_claim(replace(stored, selected_node=node))
        until = self._clock.now + self._timeout(pod)
        while self._clock.now + _POLL_SECONDS <= until:
            yield _POLL_SECONDS
            problem = self._problem(pod, node, volumes)
            if problem is None:
                return ""
            if problem:
                return f"binding volumes: {problem}"
        return "binding volumes: context deadline exceeded"

    def _timeout(self, pod: Pod) -> float:
        profile = configuration_of(self._semantics).profile(pod.spec.scheduler_name)
        args = None if profile is None else profile.args.get("VolumeBinding")
        return float((args if isinstance(args, VolumeBindingArgs) else VolumeBindingArgs()).bind_timeout_seconds)

    def _problem(self, pod: Pod, node: str, volumes: PodVolumes) -> str | None:
        """Return why binding fails; "" while it is pending; None if all claims are bound. Source: upstream
        `checkBindings`.
        """
        found = self._api.nodes.get(node)
        if found is None:
            return f'failed to get node "{node}": node "{node}" not found'
        if self._api.pod(pod.namespace, pod.name) is None:
            return "pod does not exist any more"
        every = True
        for claim in (*(claim for claim, _ in volumes.matched), *volumes.to_provision):
            stored = self._api.storage.claim(claim.key)
            if stored is None:
                return f'failed to check binding: could not find object "{"/".join(claim.key)}"'
            every = every and stored.fully_bound
        for claim in volumes.to_provision:
            stored = self._api.storage.claim(claim.key)
            if stored is None or stored.selected_node != node:
                return f'provisioning failed for PVC "{claim.name}"'
            volume = self._api.storage.volume(stored.volume_name)
            if volume is not None and not volume.reachable_from(found.labels):
                return f'pv "{volume.name}" node affinity doesn\'t match node "{node}"'
        return None if every else ""


def _bound(volume: PersistentVolume, claim: PersistentVolumeClaim) -> PersistentVolume:
    return replace(volume, claim=_reference(claim))


def _reference(claim: PersistentVolumeClaim) -> tuple[str, str, str]:
    return claim.namespace, claim.name, claim.uid
