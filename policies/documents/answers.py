"""The types of outputs, and of parts of outputs, that are not result types."""

from dataclasses import dataclass
from typing import Any, Literal, TypedDict

PodState = Literal["pending", "preempted", "terminating", "running", "ended", "gone"]


@dataclass(frozen=True, slots=True)
class CountedReason:
    """A reason, and the number of nodes with this reason."""

    count: int
    reason: str


class Shard(TypedDict):
    """The part of a divided run, for `forewarn whatif merge`.

    `of`: number of questions of the whole run; `cluster`: digest of the cluster; `asked`: the other options that
    identify the run.
    """

    index: int
    count: int
    of: int
    cluster: str
    asked: dict[str, Any]
