"""Workloads whose new Pods a ResourceQuota rejects: the back-off of their controllers, and the number of missing Pods.

Source: client-go `util/workqueue/default_rate_limiters.go`, pkg/controller/job `DefaultJobApiBackOff`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    from forewarn.policies.controllers.view import Key
    from forewarn.policies.simulation.api_server import ApiServer

_BACK_OFF: Final = (0.005, 1000.0)
"""(first, longest) back-off in seconds; it doubles with each failure."""
_JOB_BACK_OFF: Final = (1.0, 60.0)
_MAX_DOUBLINGS: Final = 20


class RejectedWorkload(NamedTuple):
    """A workload whose new Pods a quota rejects.

    `failures`: consecutive failed syncs. `missing`: Pods that the last sync could not create. `message`: of the quota.
    `given_back`: number of Pods subtracted from quotas until the last sync.
    """

    failures: int
    missing: int
    message: str
    given_back: int


class Rejections:
    """The workloads whose last sync failed because a quota rejected a Pod, and the running syncs."""

    def __init__(self, api: ApiServer) -> None:
        self._api = api
        self._syncs: dict[Key, _Sync] = {}
        self._now: dict[Key, RejectedWorkload] = {}

    def begin(self, key: Key, wanted: int) -> None:
        """Begin a sync that creates `wanted` Pods."""
        if self._api.quotas is not None:
            self._syncs[key] = _Sync(wanted)

    def rejected(self, key: Key, message: str) -> None:
        """Record that a quota rejected a Pod in the current sync."""
        sync = self._syncs.get(key)
        if sync is None:
            return
        if key not in self._now and not sync.message:
            self._api.timeline.add("refused", message=f"{self.group(key)}: {message}")
        sync.message = message

    def created(self, key: Key, stored: bool) -> None:
        """Record that the current sync sent a Pod. `stored`: whether the API server created the Pod."""
        sync = self._syncs.get(key)
        if sync is not None:
            sync.created += stored

    def stops(self, key: Key) -> bool:
        """Report whether the current sync creates no more Pods, because a quota rejected one."""
        sync = self._syncs.get(key)
        return sync is not None and bool(sync.message)

    def back_off(self, key: Key) -> float | None:
        """End the current sync: return the seconds until the retry, or None if no quota rejected a Pod."""
        sync, before = self._syncs.pop(key, None), self._now.get(key)
        if sync is None or not sync.message:
            self._now.pop(key, None)
            return None
        failures = before.failures if before is not None else 0
        given_back = self._api.quotas.given_back if self._api.quotas is not None else 0
        self._now[key] = RejectedWorkload(failures + 1, sync.wanted - sync.created, sync.message, given_back)
        first, longest = _JOB_BACK_OFF if key[0] == "batch/Job" else _BACK_OFF
        return float(min(first * 2 ** min(failures, _MAX_DOUBLINGS), longest))

    def is_rejected(self, key: Key) -> bool:
        """Report whether the previous sync of the workload failed because of a quota."""
        return key in self._now

    def group(self, key: Key) -> str:
        """Return `namespace/name` of the top workload: the controller of this workload, or the workload itself."""
        return self._workload(key)[1]

    def _workload(self, key: Key) -> tuple[str, str]:
        state = self._api.workloads.get(key)
        kind, *names = state.controller if state is not None and state.controller else key
        return kind, "/".join(names)

    @property
    def may_be_over(self) -> bool:
        """Whether a Pod was subtracted from quotas since the last rejection, so that a retry may succeed."""
        quotas = self._api.quotas
        return quotas is not None and any(
            each.given_back < quotas.given_back for key, each in self._now.items() if key in self._api.workloads
        )

    def by_workload(self) -> Iterator[tuple[tuple[str, str], RejectedWorkload]]:
        """Yield ((kind, `namespace/name`) of the top workload, RejectedWorkload) for each existing workload, in
        no order.
        """
        return ((self._workload(key), each) for key, each in self._now.items() if key in self._api.workloads)


class _Sync:
    """One sync of a workload: the numbers of Pods to create and of created Pods, and the message of a rejection."""

    __slots__ = ("created", "message", "wanted")

    def __init__(self, wanted: int) -> None:
        self.wanted, self.created, self.message = wanted, 0, ""
