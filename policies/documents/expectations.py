"""The types of the outputs of `test`."""

from typing import Any, Literal, NotRequired, TypedDict

from forewarn.policies.documents.head import Head
from forewarn.policies.documents.shard import Shard


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


class Expectations(TypedDict):
    """The output of `forewarn test`."""

    head: Head
    version: Literal[1]
    expectations: list[Expectation]
    shard: NotRequired[Shard]
