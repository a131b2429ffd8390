"""The types of the outputs of `webhook accuracy` and `webhook doctor`."""

from typing import NotRequired, TypedDict


class AccuracyExample(TypedDict):
    """A prediction and the actual result. `at`: seconds since 1970."""

    result: str
    pod: NotRequired[str]
    workload: NotRequired[str]
    predicted: str
    happened: str
    at: float
    change: NotRequired[str]


class WorkloadAccuracy(TypedDict):
    """The results for workloads and Pods without a controller.

    `results`: also "incomplete". `notJudged`: unknown results by reason. `explainedBy`: explained results by cause.
    """

    results: dict[str, int]
    open: int
    notJudged: dict[str, int]
    explainedBy: dict[str, int]
    examples: list[AccuracyExample]


class Accuracy(TypedDict):
    """The output of `forewarn webhook accuracy`.

    `results`: number of Pods by result ("matched", "explained", "wrong", "unknown"). `open`: number of predictions
    without a result yet. `notCompared`: number of predictions that forewarn cannot compare. `examples`: the last 20
    with the result "wrong" or "explained". `workloads`: the same for workloads and Pods without a controller.
    """

    results: dict[str, int]
    open: int
    notCompared: int
    examples: list[AccuracyExample]
    workloads: WorkloadAccuracy


class Check(TypedDict):
    """A line of the report of the doctor."""

    area: str
    check: str
    status: str
    message: str
    fix: str


class Checks(TypedDict):
    """The output of `forewarn webhook doctor`."""

    checks: list[Check]
