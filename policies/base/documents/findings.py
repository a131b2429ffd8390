"""The types of outputs about findings."""

from typing import Literal, NamedTuple

Difference = Literal["new", "worse", "changed", "better", "gone"]


class ReportChange(NamedTuple):
    """A difference from the earlier report. `what`: for example, the finding or workload."""

    change: Difference
    what: str
    why: str = ""
