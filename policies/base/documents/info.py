"""The types of the outputs of `explain`, `info releases` and `info scheduler`, and of changes between reports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from forewarn.policies.base.light import NamedTuple

if TYPE_CHECKING:
    from forewarn.policies.base.documents import Sparse


class Example(NamedTuple):
    """An example of a rule."""

    heading: str
    manifest: str


class Rule(NamedTuple):
    """A line of `forewarn explain`: one rule. An empty `severity`: the linter does not use the rule; an empty
    `action`: the webhook does not.
    """

    rule: str
    kinds: Sequence[str]
    severity: str
    action: str
    what: str
    why: str
    details: str
    fix: str
    examples: Sequence[Example]


class ReleaseChange(NamedTuple):
    """A difference from the previous Kubernetes minor. Only changes of a preview have `source` and `modelled`.

    `source`: pull request or enhancement. `modelled`: whether predictions include the change.
    """

    where: str
    what: str
    source: str = ""
    modelled: bool | None = None


class PatchChange(NamedTuple):
    """A difference of patch releases earlier than `before`."""

    before: str
    where: str
    what: str


class Unfixed(NamedTuple):
    """A bug of Kubernetes that no release fixes."""

    pull_request: int | str
    where: str
    what: str


class Release(NamedTuple):
    """A Kubernetes minor version. `checkedWith`: the patch release that forewarn was tested against; null for a
    preview.
    """

    release: str
    checked_with: str | None
    changes: Sequence[ReleaseChange]
    earlier_patch_releases: Sequence[PatchChange]
    unfixed: Sequence[Unfixed]
    feature_gates: Mapping[str, bool]
    not_modelled: Mapping[str, bool]


class PluginAt(NamedTuple):
    """A plugin at an extension point."""

    name: str
    weight: int | None = None


class Profile(NamedTuple):
    """A scheduler profile."""

    scheduler_name: str
    percentage_of_nodes_to_score: int
    plugins: Mapping[str, Sequence[PluginAt]]
    plugin_config: Mapping[str, Any]
    not_known: Sequence[str]
    without_columns: Any


class Scheduler(NamedTuple):
    """The output of `forewarn info scheduler`."""

    source: str
    release: str
    pod_initial_backoff_seconds: float
    pod_max_backoff_seconds: float
    profiles: Sequence[Profile]
    extenders: Sequence[Any]


class NodeGroup(NamedTuple):
    """A node group. `source`: where forewarn found it. `limits`: the source of its sizes, or "".

    `template`: what its template was made from, or "". `notUsed`: why simulations do not use the group, or "".
    """

    name: str
    source: str
    nodes: int
    zones: Sequence[str]
    size: int | None
    min_size: int
    max_size: int | None
    limits: str
    template: str
    not_used: str


class NodePool(NamedTuple):
    """A NodePool of Karpenter. `limits`: the limits of its nodes, as text."""

    name: str
    nodes: int
    weight: int
    limits: str


class NodeGroupSettings(NamedTuple):
    """The flags of cluster-autoscaler. `limits`: maximum cpu (cores) and memory (bytes) of all nodes.

    `found`: whether the cluster state has its Deployment; otherwise, the defaults count. `not_modelled`: flags that may
    change an answer, and that forewarn does not model.
    """

    expanders: Sequence[str]
    balance_similar_node_groups: bool
    max_nodes_total: int
    limits: Mapping[str, int]
    found: bool
    not_modelled: Sequence[str]


class NodeGroups(NamedTuple):
    """The node groups of a cluster."""

    node_groups: Sequence[NodeGroup]
    node_pools: Sequence[NodePool]
    settings: NodeGroupSettings
    problem: str


Difference = Literal["new", "worse", "changed", "better", "gone", "not evaluated"]


class ReportChange(NamedTuple):
    """A difference from the earlier report. `what`: for example, the finding or workload. "not evaluated": only one of
    the reports evaluated the subject, so forewarn does not know whether it changed.

    `severity`, `rule`, `object`: those of a finding.
    """

    change: Difference
    what: str
    why: str = ""
    severity: Sparse[str] = ""
    rule: Sparse[str] = ""
    object: Sparse[str] = ""
