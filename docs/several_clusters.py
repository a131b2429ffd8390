"""The types of the outputs of commands about several clusters."""

from typing import Literal, NotRequired, TypedDict

from forewarn.policies.application.findings import Report
from forewarn.policies.application.whatif import WhatIf
from forewarn.policies.whatif.sweep import Sweep


class OneOfSeveralClusters(TypedDict):
    """A cluster, with the report of the command about it, or the reason why there is none.

    `source`: the context or snapshot. `status`: the exit status of the command for this cluster alone. `verdict`:
    the first line of its report. `rank`: numbers that are larger for a worse cluster. `row`: the cells of the table by
    column.
    """

    cluster: str
    source: str
    status: int
    verdict: NotRequired[str]
    rank: NotRequired[list[int]]
    row: NotRequired[dict[str, str | int]]
    report: NotRequired[Report | WhatIf | Sweep]
    reason: NotRequired[str]


class SeveralClusters(TypedDict):
    """The output of a command about several clusters, the worst cluster first."""

    version: Literal[1]
    command: Literal["audit", "whatif"]
    clusters: list[OneOfSeveralClusters]
