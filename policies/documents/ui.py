"""The types of the pages of `forewarn ui` and of the webhook."""

from typing import Any, TypedDict


class ClassOnNode(TypedDict):
    """The Pods of a PriorityClass on a node. An empty `priorityClass`: Pods without a class."""

    priorityClass: str
    priority: int
    pods: int


class UiNode(TypedDict):
    """A node. `milliCpu` and `memory` (bytes): allocatable."""

    name: str
    pool: str
    zone: str
    cordoned: bool
    milliCpu: int
    memory: int
    classes: list[ClassOnNode]


class UiCluster(TypedDict):
    """The nodes of the Cluster page of `forewarn ui`, by name."""

    nodes: list[UiNode]


class EditableObject(TypedDict):
    """An object of a manifest, with the fields that the Predict page can change. `container`: the first container."""

    kind: str
    namespace: str
    name: str
    replicas: int | None
    priorityClass: str
    container: str
    cpu: str
    memory: str


class UiVictim(TypedDict):
    """A victim. `by`: the preemptor."""

    pod: str
    workload: str
    priorityClass: str
    priority: int
    node: str
    by: str


class UiPrediction(TypedDict):
    """The answer of the Predict page of `forewarn ui`.

    `outcomes`: the number of new Pods by outcome, as in `predict`. `lines`: the text of `predict`. `manifest`: the
    manifest with changes. `command`: the equivalent shell command. `nodes`: data of the drawing, whose format can
    change.
    """

    objects: list[EditableObject]
    manifest: str
    command: str
    outcomes: dict[str, int]
    lines: list[str]
    faults: list[str]
    victims: list[UiVictim]
    nodes: dict[str, Any]


class UiDecision(TypedDict):
    """A decision of the webhook. `at`: seconds since 1970. `resource`: group, version and name.

    Without the permission to list everything, `user` is null, and `rules`, `messages` and `withheld` are empty.
    `withheld`: full texts that the requester did not see.
    """

    at: float
    resource: list[str]
    kind: str
    namespace: str
    name: str
    operation: str
    user: str | None
    dryRun: bool
    verdict: str
    rules: dict[str, str]
    messages: list[str]
    withheld: list[str]


class UiWarnings(TypedDict):
    """The page "Accuracy and warnings" of the webhook. `accuracy`: as `webhook accuracy`, or null without permission.

    `complete`: false if forewarn did not review the permissions for all decisions.
    """

    decisions: list[UiDecision]
    complete: bool
    accuracy: dict[str, Any] | None


class UiFault(TypedDict):
    """The reason why `forewarn ui` has no answer."""

    error: str
