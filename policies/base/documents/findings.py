"""The types of outputs about findings."""

from typing import Literal, NamedTuple

from forewarn.policies.base.documents import Sparse

Difference = Literal["new", "worse", "changed", "better", "gone", "not evaluated"]


class ReportChange(NamedTuple):
    """A difference from the earlier report. `what`: for example, the finding or workload. "not evaluated": only one of
    the reports evaluated the subject, so forewarn does not know whether it changed.

    `severity`, `rule`, `object`: of a finding.
    """

    change: Difference
    what: str
    why: str = ""
    severity: Sparse[str] = ""
    rule: Sparse[str] = ""
    object: Sparse[str] = ""
