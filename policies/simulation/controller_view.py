"""The objects of the simulated API server as controllers read them, and the admission of their new Pods."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from forewarn.policies.controllers.view import PodCounts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from forewarn.policies.controllers.view import Key, PodState, Tally, WorkloadState
    from forewarn.policies.objects.fields import ApiObject
    from forewarn.policies.objects.node import Node
    from forewarn.policies.objects.pod import Pod
    from forewarn.policies.objects.storage import PersistentVolumeClaim
    from forewarn.policies.releases.semantics import Semantics
    from forewarn.policies.selectors import LabelSelector
    from forewarn.policies.simulation.api_server import ApiServer


class ControllerView:
    """The View (see `policies.controllers.view`) of the simulated API server."""

    def __init__(
        self,
        api: ApiServer,
        semantics: Semantics,
        admission: Callable[[ApiObject], Pod],
        draw: Callable[[], float] | None = None,
        default_class: str = "",
    ) -> None:
        """`admission`: converts an API object to a Pod with defaults; may raise InvalidObject.

        `draw`: returns random numbers for choices that upstream leaves open; None: fixed choices. `default_class`: the
        default StorageClass.
        """
        self.semantics = semantics
        self._default_class = default_class
        self._draw = draw
        self.order: Mapping[str, int] = {}
        """Sort keys by name for `lot` with fixed choices."""
        self._api, self._admission = api, admission
        self._selected: dict[Key, _Selected] = {}
        self._admitted: dict[int, tuple[ApiObject, Pod]] = {}
        self._deleted: dict[Key, dict[str, PodState]] = {}
        self._released: dict[Key, set[str]] = {}

    def admit_by(self, admission: Callable[[ApiObject], Pod]) -> None:
        """Replace the function that admits new Pods."""
        self._admission = admission
        self._admitted.clear()

    def keep(self, key: Key, state: PodState) -> None:
        """Store a Job's removed Pod until the Job has counted the Pod.

        Does nothing if the Job has counted the Pod already.
        """
        released = self._released.get(key, set())
        if state.pod.uid in released:
            released.discard(state.pod.uid)
        else:
            self._deleted.setdefault(key, {})[state.pod.uid] = state

    def release(self, key: Key, uid: str) -> None:
        """Record that a Job has counted a terminated Pod, which may still exist for a while."""
        if self._deleted.get(key, {}).pop(uid, None) is None:
            self._released.setdefault(key, set()).add(uid)

    def forget(self, key: Key) -> None:
        """Drop the removed Pods that are stored for a deleted workload."""
        self._deleted.pop(key, None)
        self._released.pop(key, None)

    def workload(self, key: Key, /) -> WorkloadState | None:
        return self._api.workloads.get(key)

    def owned(self, key: Key, /) -> Sequence[WorkloadState]:
        return self._api.owned(key)

    def pods_of(self, key: Key, /) -> Sequence[PodState]:
        """Return the Pods of a workload.

        Of a Job, includes removed Pods, and excludes Pods that the Job has counted.
        """
        present = self._api.by_controller.get(key, {}).values()
        deleted, released = self._deleted.get(key, {}), self._released.get(key)
        if not deleted and not released:
            return list(present)
        return [*deleted.values(), *(state for state in present if state.pod.uid not in (released or ()))]

    def counts(self, key: Key, /) -> PodCounts | None:
        return self._api.tally.by_controller.get(key, PodCounts())

    def selected(self, state: WorkloadState, selector: Callable[[], LabelSelector | None], /) -> Iterable[Tally]:
        """Return the counts of the Pods that a PDB selects, one Tally for all Pods with the same labels."""
        cached = self._selected.get(state.key)
        if cached is None or cached.object is not state.object:
            cached = self._selected[state.key] = _Selected(state.object, selector())
        return cached.of(self._api.tally.by_labels.get(state.key[1], {}))

    def pods_on(self, node: str, /) -> Sequence[PodState]:
        return list(self._api.by_node.get(node, {}).values())

    def claim(self, namespace: str, name: str, /) -> PersistentVolumeClaim | None:
        return self._api.storage.claim((namespace, name))

    def default_storage_class(self) -> str:
        """Return the name of the default StorageClass; "" for none."""
        return self._default_class

    def lot(self, name: str, /) -> float:
        """Return a random number, as a sort key for choices that upstream leaves to the order of a Go map; for fixed
        choices, the number in `order`, or 0.
        """
        return self.order.get(name, 0) if self._draw is None else self._draw()

    def nodes(self) -> Mapping[str, Node]:
        return self._api.nodes

    def admit(self, template: ApiObject, make: Callable[[], ApiObject], /) -> Pod:
        """Return the Pod of a template after admission; computed once for each template."""
        cached = self._admitted.get(id(template))
        if cached is None:
            cached = self._admitted[id(template)] = template, self._admission(make())
        return cached[1]


class _Selected:
    """The tallies of a namespace that the selector of a PDB matches. Tallies are never removed."""

    def __init__(self, obj: ApiObject, selector: LabelSelector | None) -> None:
        self.object, self._selector = obj, selector
        self._looked_at, self._found = 0, list["Tally"]()

    def of(self, tallies: Mapping[int, Tally]) -> Sequence[Tally]:
        """Return the matching tallies.

        `tallies`: all tallies of the namespace, which includes those of the last call.
        """
        if self._selector is not None and self._looked_at < len(tallies):
            new = islice(tallies.values(), self._looked_at, None)
            self._found += [tally for tally in new if self._selector.matches(tally.labels)]
            self._looked_at = len(tallies)
        return self._found
