"""The types of the outputs of commands about several clusters."""

from typing import Any, Literal, NotRequired, TypedDict

from forewarn.policies.base.documents.answer import AnswerStatus, Fix
from forewarn.policies.questions.application.findings import Report
from forewarn.policies.questions.application.whatif import WhatIf
from forewarn.policies.questions.whatif.sweep import Sweep


class OneOfSeveralClusters(TypedDict):
    """A cluster, with the report of the command about it, or the reason why there is none.

    `source`: the context or snapshot. `status`: the exit status of the command for this cluster alone. `headline`:
    the first line of its report. `rank`: numbers that are larger for a worse cluster. `row`: the cells of the table by
    column.
    """

    cluster: str
    source: str
    status: int
    headline: NotRequired[str]
    rank: NotRequired[list[int]]
    row: NotRequired[dict[str, str | int]]
    report: NotRequired[Report | WhatIf | Sweep]
    reason: NotRequired[str]


class SeveralClusters(TypedDict):
    """The output of a command about several clusters, the worst cluster first.

    `status`: the worst. `clause`: the consequence for the worst cluster. `rows`: those of the table of clusters.
    `counts`: the numbers of clusters, and of those whose status is not OK.
    """

    status: AnswerStatus
    question: str
    clause: str
    warnings: list[str]
    fix: list[Fix]
    rows: list[dict[str, Any]]
    counts: dict[str, int]
    version: Literal[1]
    command: Literal["audit", "whatif"]
    clusters: list[OneOfSeveralClusters]
