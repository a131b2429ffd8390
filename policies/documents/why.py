"""The types of the outputs of `why`."""

from typing import Literal, NotRequired, TypedDict

from forewarn.policies.documents.head import Head


class Trouble(TypedDict):
    """A problem of a Pod. `time`: in UTC; absent if unknown."""

    id: str
    time: NotRequired[str]
    message: str
    help: NotRequired[str]


class CountedReason(TypedDict):
    """A reason with the number of nodes."""

    count: int
    reason: str


PodState = Literal["pending", "preempted", "terminating", "running", "ended", "gone"]


class Why(TypedDict):
    """The output of `forewarn why` for a Pod. `missing`: what forewarn could not read, for example Events."""

    head: Head
    id: str
    state: PodState
    priority: NotRequired[int]
    node: NotRequired[str]
    nominatedNode: NotRequired[str]
    troubles: list[Trouble]
    nodes: list[CountedReason]
    reported: dict[str, str]
    missing: list[str]


class PodEnding(TypedDict):
    """A Pod that has ended, with the problems that explain the end, the cause first. `state`: the current state."""

    pod: str
    state: PodState
    troubles: list[Trouble]


class WorkloadWhy(TypedDict):
    """The output of `forewarn why` for a workload. `states`: number of Pods by state.

    `notExplained`: number of Pods beyond the limit. `missing`: what forewarn could not read, for example Events.
    """

    head: Head
    id: str
    kind: str
    states: dict[str, int]
    pending: list[str]
    endings: list[PodEnding]
    notExplained: int
    missing: list[str]
