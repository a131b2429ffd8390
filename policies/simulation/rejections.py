"""Workloads whose new Pods a quota rejects: the delays of their controllers, and the number of missing Pods.

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
    """A workload with rejected Pods.

    `failures`: consecutive failed syncs. `missing`: Pods that the last sync could not create. `message`: of the quota.
    `gone`: number of Pods subtracted from quotas at that time.
    """

    failures: int
    missing: int
    message: str
    gone: int


class Rejections:
    """The workloads whose last sync failed because a quota rejected a Pod."""

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

    def made(self, key: Key, stored: bool) -> None:
        """Record that a Pod was created in the current sync."""
        sync = self._syncs.get(key)
        if sync is not None:
            sync.made += stored

    def stops(self, key: Key) -> bool:
        """Return True if this sync creates no more Pods, because one was rejected."""
        sync = self._syncs.get(key)
        return sync is not None and bool(sync.message)

    def back_off(self, key: Key) -> float | None:
        """End the sync: return the seconds until the retry, or None if no Pod was rejected."""
        sync, before = self._syncs.pop(key, None), self._now.get(key)
        if sync is None or not sync.message:
            self._now.pop(key, None)
            return None
        failures = before.failures if before is not None else 0
        gone = self._api.quotas.given_back if self._api.quotas is not None else 0
        self._now[key] = RejectedWorkload(failures + 1, sync.wanted - sync.made, sync.message, gone)
        first, longest = _JOB_BACK_OFF if key[0] == "batch/Job" else _BACK_OFF
        return float(min(first * 2 ** min(failures, _MAX_DOUBLINGS), longest))

    def is_rejected(self, key: Key) -> bool:
        """Return True if the previous sync failed."""
        return key in self._now

    def group(self, key: Key) -> str:
        """Return `namespace/name` of the top workload: the controller of a workload, or itself."""
        return self._workload(key)[1]

    def _workload(self, key: Key) -> tuple[str, str]:
        state = self._api.workloads.get(key)
        kind, *names = state.controller if state is not None and state.controller else key
        return kind, "/".join(names)

    @property
    def may_be_over(self) -> bool:
        """True if a Pod was subtracted from quotas since the last rejection."""
        quotas = self._api.quotas
        return quotas is not None and any(
            each.gone < quotas.given_back for key, each in self._now.items() if key in self._api.workloads
        )

    def by_workload(self) -> Iterator[tuple[tuple[str, str], RejectedWorkload]]:
        """Return ((kind, `namespace/name`) of the top workload, Refused) for each existing workload, unordered."""
        return ((self._workload(key), each) for key, each in self._now.items() if key in self._api.workloads)


class _Sync:
    """One sync: the numbers of Pods to create and of created Pods, and the message of a rejection."""

    __slots__ = ("made", "message", "wanted")

    def __init__(self, wanted: int) -> None:
        self.wanted, self.made, self.message = wanted, 0, ""
