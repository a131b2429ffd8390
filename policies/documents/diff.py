"""The type of the effect on one cluster in the output of `diff`."""

from typing import NotRequired, TypedDict

from forewarn.policies.documents.whatif import WhatIf


class AffectedNamespace(TypedDict):
    """The Pods of a namespace that a change affects. `owner`: the value of the label of `--owner-label`, or ""."""

    namespace: str
    owner: str
    preempted: int
    pending: int
    lost: int


class Concerned(TypedDict):
    """The effect on a cluster. `reason`: why there is no `answer`; without both, no object concerns the cluster.

    `rejected`: objects that the API server rejects, with the reason. `namespaces`: the most affected first.
    """

    cluster: str
    reason: NotRequired[str]
    answer: NotRequired[WhatIf]
    rejected: list[str]
    namespaces: list[AffectedNamespace]
