"""A reason for a Pod's state, and the ids of all reasons."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from forewarn.policies.why.records import shown_time

if TYPE_CHECKING:
    from collections.abc import Iterable

    from forewarn.policies.documents import answers as documents

STATES: Final = ("pending", "preempted", "terminating", "running", "ended", "gone")
IDS: Final = (
    "preempted",
    "missing-lists",
    "former-preempted",
    "former-ended",
    "being-deleted",
    "gated",
    "other-scheduler",
    "class-gone",
    "class-changed",
    "not-predicted",
    "not-tried-yet",
    "will-preempt",
    "nominated-node-gone",
    "waits-for-termination",
    "overtaken",
    "never-preempts",
    "fits-nowhere",
    "cycle-error",
    "daemonset-pod-pending",
    "preempted-for-the-default",
    "preempted-for-a-class-that-is-gone",
    "preempted-before-lower",
    "node-pressure-evicted",
    "node-condition",
    "storage-limit-exceeded",
    "preempted-by-kubelet",
    "node-shutdown",
    "node-gone",
    "node-not-ready",
    "taint-evicted",
    "device-taint-evicted",
    "evicted-by-api",
    "drain-blocked",
    "rejected-by-kubelet",
    "deadline-exceeded",
    "disrupted",
    "oom-killed",
    "container-failed",
    "completed",
    "container-waiting",
    "deleted-by-controller",
    "scaled",
    "deleted",
    "stuck-terminating",
    "job-failed",
    "workload-fails",
    "workload-interrupted",
    "group-waits",
    "group-unschedulable",
    "group-will-preempt",
    "group-not-tried-yet",
)
"""The ids of all Troubles."""


class Trouble(NamedTuple):
    """A reason for a Pod's state.

    `id`: for programs, such as `fits-nowhere`. `help`: the fix, or "". `when`: in seconds since 1970; 0 if unknown.
    """

    id: str
    message: str
    help: str = ""
    when: float = 0.0

    def to_dict(self) -> documents.Trouble:
        document = {"id": self.id, "time": shown_time(self.when), "message": self.message, "help": self.help}
        return {key: value for key, value in document.items() if value}  # type: ignore[return-value]


def ids(troubles: Iterable[Trouble]) -> list[str]:
    return list(dict.fromkeys(trouble.id for trouble in troubles))
