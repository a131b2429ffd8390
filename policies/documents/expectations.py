"""The type of one result of `test`."""

from typing import Any, NotRequired, TypedDict


class Expectation(TypedDict):
    """The result of one expectation."""

    name: str
    met: bool
    cases: int
    case: NotRequired[str]
    failures: NotRequired[list[str]]
    timeline: NotRequired[list[str]]
    answer: NotRequired[dict[str, Any]]
    notEvaluated: NotRequired[list[str]]
    notes: NotRequired[list[str]]
