"""The types of the outputs of `whatif --each`."""

from typing import Any, Literal, NotRequired, TypedDict

from forewarn.policies.render.documents.head import Head


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


class NeededNodes(TypedDict):
    """Nodes that cluster-autoscaler would add, by group."""

    nodes: dict[str, int]
    noScaleUp: int
    truncated: bool


class SweepRow(TypedDict):
    """The effect of one case."""

    case: str
    fewer: int
    pending: int
    preempted: int
    violatedPDBs: int
    settledAt: float
    settled: bool
    nodeGroups: NotRequired[NeededNodes]


class RunningAndPending(TypedDict):
    """Numbers of Pods."""

    running: int
    pending: int


class Sweep(TypedDict):
    """The output of `forewarn whatif --each`. The first row is the case with the worst effect."""

    head: Head
    version: Literal[1]
    sweep: str
    before: RunningAndPending
    rows: list[SweepRow]
    withoutChange: NotRequired[SweepRow]
    notes: NotRequired[list[str]]
    shard: NotRequired[Shard]
