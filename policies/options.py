"""What rules may be told: plain data with the defaults in force, validated by `config`."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple

from forewarn.policies.kinds.class_paths import PRESETS, ClassPath
from forewarn.policies.kinds.registry import POD_TEMPLATE_PATHS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from forewarn.policies.selectors import LabelSelector, PodPattern


class ScopeSelector(NamedTuple):
    """One `matchScopes` entry of kube-apiserver's ResourceQuotaConfiguration."""

    scope_name: str
    operator: str
    values: tuple[str, ...] = ()

    def __str__(self) -> str:
        """As Go prints it in `insufficient quota to match these scopes`."""
        return f"{{{self.scope_name} {self.operator} [{' '.join(self.values)}]}}"


class LimitedResource(NamedTuple):
    """One `limitedResources` entry of kube-apiserver's ResourceQuotaConfiguration."""

    resource: str
    match_contains: tuple[str, ...] = ()
    match_scopes: tuple[ScopeSelector, ...] = ()
    api_group: str = ""


class AllowedClasses(NamedTuple):
    """Who may use which classes: all that is given must hold, of a list one entry (shell patterns)."""

    classes: tuple[str, ...]
    namespaces: tuple[str, ...] = ()
    namespace_selector: LabelSelector | None = None
    users: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()

    @property
    def asks_who(self) -> bool:
        """Whether it depends on the user."""
        return bool(self.users or self.groups)


class Promise(NamedTuple):
    """No pod of `pushed_out` is pushed out by one of `by`. `number`: its place in the configuration, from 1 on."""

    name: str
    number: int
    pushed_out: PodPattern
    by: PodPattern


class NamedGroup(NamedTuple):
    """Files that come together in one apply, by shell patterns of their paths."""

    name: str
    paths: tuple[str, ...]


class Rendering(NamedTuple):
    """How `forewarn lint --render` renders the charts and kustomizations in these directories (shell patterns).

    `values`: files, from the chart's directory. `namespace`: of the release; empty where it is not known.
    """

    paths: tuple[str, ...]
    namespace: str = ""
    release: str = ""
    values: tuple[str, ...] = ()
    set: tuple[str, ...] = ()
    kustomize_flags: tuple[str, ...] = ()


class Ignored(NamedTuple):
    """Findings that the configuration silences: of these rules, in these files, on these objects (shell patterns).

    `file` and `line`: where it says so.
    """

    rules: tuple[str, ...]
    reason: str
    until: str = ""
    paths: tuple[str, ...] = ()
    objects: tuple[str, ...] = ()
    file: str = ""
    line: int = 0


class BreakGlass(NamedTuple):
    """Who may exempt a namespace by its annotation (groups, shell patterns), and how far away the end may be.

    By default, whom RBAC cannot stop, and the administrators that kubeadm makes.
    """

    groups: tuple[str, ...] = ("system:masters", "kubeadm:cluster-admins")
    max_duration: timedelta = timedelta(days=30)


class Options(NamedTuple):
    """Options of rules; `pod_template_paths` has the built-in workloads and those that configuration adds.

    `known_classes` exist beside those of the input; `closed`: there are no others. `template_classes`: defined by
    templates of the input, with values unknown. `groups`, `exclude`, `rendering`,
    `ignored`: of the linter's files and findings. `minor`: of Kubernetes 1, None if it is not set; `gates`:
    feature gates that are set.
    `class_paths`: where the linter finds classes in custom resources. `placeholder_pods`: those that only keep room
    free; None: of a negative priority, with the pause image alone. `recreates_pods`: the `group/Kind` of controllers
    that create their pods again, beside those that are known. `namespace`: of manifests that set none; empty if the
    linter is not given one.
    """

    pod_template_paths: Mapping[str, tuple[str, ...]] = POD_TEMPLATE_PATHS
    autoscaler_cutoff: int = -10
    placeholder_pods: LabelSelector | None = None
    limited_resources: tuple[LimitedResource, ...] = ()
    allowed_classes: tuple[AllowedClasses, ...] = ()
    promises: tuple[Promise, ...] = ()
    break_glass: BreakGlass = BreakGlass()
    known_classes: tuple[str, ...] = ()
    template_classes: frozenset[str] = frozenset()
    closed: bool = False
    groups: tuple[NamedGroup, ...] = ()
    rendering: tuple[Rendering, ...] = ()
    ignored: tuple[Ignored, ...] = ()
    exclude: tuple[str, ...] = ()
    minor: int | None = None
    gates: tuple[tuple[str, bool], ...] = ()
    class_paths: Mapping[str, tuple[ClassPath, ...]] = PRESETS
    recreates_pods: tuple[str, ...] = ()
    namespace: str = ""
