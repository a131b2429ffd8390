"""The types of the outputs of `explain`, `info releases` and `info scheduler`."""

from typing import Any, NotRequired, TypedDict


class Example(TypedDict):
    """An example of a rule."""

    heading: str
    manifest: str


class Rule(TypedDict):
    """A line of `forewarn explain`: one rule. An empty `severity`: the linter does not use the rule; an empty
    `action`: the webhook does not.
    """

    rule: str
    kinds: list[str]
    severity: str
    action: str
    what: str
    why: str
    details: str
    fix: str
    examples: list[Example]


class ReleaseChange(TypedDict):
    """A difference from the previous Kubernetes minor. Only changes of a preview have `source` and `modelled`.

    `source`: pull request or enhancement. `modelled`: whether predictions include the change.
    """

    where: str
    what: str
    source: NotRequired[str]
    modelled: NotRequired[bool]


class PatchChange(TypedDict):
    """A difference of patch releases earlier than `before`."""

    before: str
    where: str
    what: str


class Unfixed(TypedDict):
    """A bug of Kubernetes without a release that fixes it."""

    pullRequest: int | str
    where: str
    what: str


class Release(TypedDict):
    """A Kubernetes minor version. `checkedWith`: the patch release that forewarn was tested against; null for a
    preview.
    """

    release: str
    checkedWith: str | None
    changes: list[ReleaseChange]
    earlierPatchReleases: list[PatchChange]
    unfixed: list[Unfixed]
    featureGates: dict[str, bool]
    notModelled: dict[str, bool]


class PluginAt(TypedDict):
    """A plugin at an extension point."""

    name: str
    weight: NotRequired[int]


class Profile(TypedDict):
    """A scheduler profile."""

    schedulerName: str
    percentageOfNodesToScore: int
    plugins: dict[str, list[PluginAt]]
    pluginConfig: dict[str, Any]
    notKnown: list[str]
    withoutColumns: Any


class Scheduler(TypedDict):
    """The output of `forewarn info scheduler`."""

    source: str
    release: str
    podInitialBackoffSeconds: float
    podMaxBackoffSeconds: float
    profiles: list[Profile]
    extenders: list[Any]


class NodeGroup(TypedDict):
    """A node group. `source`: where forewarn found it. `limits`: the source of its sizes, or "".

    `template`: of what its template was made, or "". `notUsed`: why simulations do not use the group, or "".
    """

    name: str
    source: str
    nodes: int
    zones: list[str]
    size: int
    minSize: int
    maxSize: int | None
    limits: str
    template: str
    notUsed: str


class NodePool(TypedDict):
    """A NodePool of Karpenter. `limits`: of its nodes, as text."""

    name: str
    nodes: int
    weight: int
    limits: str


class NodeGroupSettings(TypedDict):
    """The flags of cluster-autoscaler. `limits`: maximum cpu (cores) and memory (bytes) of all nodes."""

    expanders: list[str]
    balanceSimilarNodeGroups: bool
    maxNodesTotal: int
    limits: dict[str, int]


class NodeGroups(TypedDict):
    """The node groups of a cluster."""

    nodeGroups: list[NodeGroup]
    nodePools: list[NodePool]
    settings: NodeGroupSettings
    problem: str
