"""The types of the outputs of `dry-run`."""

from typing import Any, NotRequired, TypedDict

from forewarn.policies.documents.head import Head


class ResolvedPriority(TypedDict):
    """The values that the Priority admission plugin writes into a Pod."""

    priorityClassName: str | None
    priority: int
    preemptionPolicy: str


class DryRun(TypedDict):
    """A line of `forewarn dry-run`: kube-apiserver's answer for one object, and the object that it would store."""

    head: Head
    file: str
    kind: str
    namespace: str
    name: str
    allowed: bool
    code: int
    message: str
    resolved: ResolvedPriority | None
    stored: NotRequired[dict[str, Any]]
