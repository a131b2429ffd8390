"""Options of rules, as plain data with their defaults. `policies.linting.config` validates them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from forewarn.policies.base.light import NamedTuple
from forewarn.policies.kubernetes.kinds.class_paths import PRESETS, ClassPath
from forewarn.policies.kubernetes.kinds.registry import POD_TEMPLATE_PATHS

if TYPE_CHECKING:
    from forewarn.policies.base.findings import Location
    from forewarn.policies.kubernetes.selectors import LabelSelector, PodPattern


class ScopeSelector(NamedTuple):
    """One `matchScopes` entry of kube-apiserver's ResourceQuotaConfiguration."""

    scope_name: str
    operator: str
    values: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Return the selector as Go prints it in `insufficient quota to match these scopes`."""
        return f"{{{self.scope_name} {self.operator} [{' '.join(self.values)}]}}"


class LimitedResource(NamedTuple):
    """One `limitedResources` entry of kube-apiserver's ResourceQuotaConfiguration."""

    resource: str
    match_contains: tuple[str, ...] = ()
    match_scopes: tuple[ScopeSelector, ...] = ()
    api_group: str = ""


class AllowedClasses(NamedTuple):
    """The users and namespaces that may use some PriorityClasses (shell patterns).

    Each condition that is set must hold; a condition with a list holds if one entry matches.
    """

    classes: tuple[str, ...]
    namespaces: tuple[str, ...] = ()
    namespace_selector: LabelSelector | None = None
    users: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()

    @property
    def depends_on_user(self) -> bool:
        return bool(self.users or self.groups)


class RequiredClasses(NamedTuple):
    """The Pods that must name a PriorityClass (shell patterns), by namespace and kind; one of `classes` if given."""

    namespaces: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()


class Promise(NamedTuple):
    """An expectation of the configuration: no Pod of `by` preempts a Pod of `preempted`.

    `number`: the position in the configuration, from 1.
    """

    name: str
    number: int
    preempted: PodPattern
    by: PodPattern


class NamedGroup(NamedTuple):
    """Files that are applied together, as shell patterns of their paths."""

    name: str
    paths: tuple[str, ...]


class Ignored(NamedTuple):
    """Findings that the configuration suppresses: of these rules, in these files, on these objects (shell patterns).

    `until`: end date; "" for none. `file` and `line`: the position of this entry in the configuration.
    """

    rules: tuple[str, ...]
    reason: str
    until: str = ""
    paths: tuple[str, ...] = ()
    objects: tuple[str, ...] = ()
    file: str = ""
    line: int = 0


class BreakGlass(NamedTuple):
    """The groups that may exempt a namespace by annotation (shell patterns), and the maximum duration of the
    exemption.

    The default groups: system:masters, which RBAC cannot restrict, and the administrators that kubeadm creates.
    """

    groups: tuple[str, ...] = ("system:masters", "kubeadm:cluster-admins")
    max_duration: timedelta = timedelta(days=30)


NO_USES: Final[Mapping[str, int]] = {}
NO_VALUES: Final[Mapping[str, Mapping[int, Location]]] = {}


class Options(NamedTuple):
    """Options of rules. `pod_template_paths`: the built-in workloads and those of the configuration. `has_cutoff`:
    whether the autoscaler of the cluster has a cutoff; None if it is unknown.

    `known_classes`: PriorityClasses that exist besides those of the input; `closed`: no other classes exist.
    `template_classes`: classes that templates of the input define, with unknown values. `input_classes`: classes that
    any directory of the input defines; `class_uses`: how often the input names each class; `class_values`: the values
    of each defined class. `unread_names`: the names and labels in files with syntax errors, whose objects may exist.
    `keeps_replicas`: whether Argo CD does not apply the replicas of a workload of the input.
    `alternatives`: directories of the input that define the same objects as others.
    `base`: the commit before the change, and `deleted_classes`: the classes that the change deletes. `groups`,
    `exclude`, `clusters`, `ignored`: files and findings of the linter. `minor`: the minor version of Kubernetes 1.x;
    None if not set. `gates`: the feature gates that are set.

    `class_paths`: paths of PriorityClass names in custom resources, for the linter. `placeholder_pods`: selects Pods
    that only reserve capacity; None: Pods with negative priority that only run the pause image. `recreates_pods`: the
    `group/Kind` of further controllers that recreate their Pods. `namespace`: the linter's namespace for manifests
    that set none; "" if not given. `preset`: the kind of hosted cluster, a key of HOSTED_CLASSES; "" if unknown.
    """

    pod_template_paths: Mapping[str, tuple[str, ...]] = POD_TEMPLATE_PATHS
    autoscaler_cutoff: int = -10
    has_cutoff: bool | None = None
    placeholder_pods: LabelSelector | None = None
    limited_resources: tuple[LimitedResource, ...] = ()
    allowed_classes: tuple[AllowedClasses, ...] = ()
    required_classes: tuple[RequiredClasses, ...] = ()
    promises: tuple[Promise, ...] = ()
    break_glass: BreakGlass = BreakGlass()
    known_classes: tuple[str, ...] = ()
    preset: str = ""
    template_classes: frozenset[str] = frozenset()
    input_classes: frozenset[str] = frozenset()
    class_uses: Mapping[str, int] = NO_USES
    class_values: Mapping[str, Mapping[int, Location]] = NO_VALUES
    unread_names: frozenset[str] = frozenset()
    keeps_replicas: bool = False
    alternatives: tuple[str, ...] = ()
    closed: bool = False
    base: str = ""
    deleted_classes: frozenset[str] = frozenset()
    groups: tuple[NamedGroup, ...] = ()
    ignored: tuple[Ignored, ...] = ()
    exclude: tuple[str, ...] = ()
    clusters: tuple[tuple[str, tuple[str, ...]], ...] = ()
    minor: int | None = None
    gates: tuple[tuple[str, bool], ...] = ()
    class_paths: Mapping[str, tuple[ClassPath, ...]] = PRESETS
    recreates_pods: tuple[str, ...] = ()
    namespace: str = ""
