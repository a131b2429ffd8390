"""What a rule may look at besides its subject, and the shape of a rule."""

from __future__ import annotations

from collections import defaultdict
from contextlib import suppress
from enum import Enum, StrEnum
from functools import cached_property
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeVar
from weakref import proxy

from forewarn.policies.disclosure import EXACT, Disclose, Shown
from forewarn.policies.findings import NOWHERE, Action, Location, Path, Problem, Severity
from forewarn.policies.kinds.registry import CLAIM, LIMIT_RANGE, NAMESPACE, POD_GROUP, PRIORITY_CLASS, RESOURCE_QUOTA
from forewarn.policies.kube_apiserver.priority import Classes
from forewarn.policies.objects.fields import InvalidObject, group_kind
from forewarn.policies.objects.namespace import Namespace
from forewarn.policies.objects.priority_class import PREEMPT_NEVER, SYSTEM_CLASSES, PriorityClass
from forewarn.policies.objects.reviewed_object import ChangeSet, Operation, ReviewedObject
from forewarn.policies.objects.workload import PodTemplate, pod_template_of
from forewarn.policies.selectors import one_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
    from datetime import datetime

    from forewarn.policies.cluster.cache import ClusterSnapshot
    from forewarn.policies.objects.limit_range import LimitRange
    from forewarn.policies.objects.pod import Pod
    from forewarn.policies.objects.pod_group import PodGroup
    from forewarn.policies.objects.resource_quota import ResourceQuota
    from forewarn.policies.options import Options

T = TypeVar("T")
NAME_LABEL = "kubernetes.io/metadata.name"
"""The label that the API server gives every namespace."""


class Target(StrEnum):
    """What a rule is about, and so when it is run. The words are those of the documentation."""

    PRIORITY_CLASS = "PriorityClass"
    DELETED_PRIORITY_CLASS = "deleted PriorityClass"
    POD = "Pod"
    UPDATED_POD = "updated Pod"
    TEMPLATE = "Pod template"
    PART = "custom resource"
    UNRENDERED = "class name in a template or in values of a chart"
    NAMESPACE = "Namespace"
    RESOURCE_QUOTA = "ResourceQuota"
    POD_GROUP = "PodGroup or Workload"
    OTHER = "other objects"
    FILE = "file"
    CLUSTER = "whole cluster"


class Phase(Enum):
    """Whether an object is judged as it was written, or as it will be stored (all mutation done)."""

    LINT = "lint"
    VALIDATE = "validate"


class Defined(NamedTuple):
    """A class and the object that defines it; None for a class of the cluster."""

    priority_class: PriorityClass
    subject: ReviewedObject | None

    def locate(self, path: Path = ("metadata", "name")) -> Location:
        """Where a field of it is defined."""
        return self.subject.locate(path) if self.subject else NOWHERE


class Context:
    """One evaluation: the apply that the subject belongs to, and the cluster it comes to (None: not known).

    `is_exempt`: whether the webhook lets everything in a namespace pass, and so gives its pods no class.
    `disclose`: what who asked is told by name; `shown`: how much of the prediction, once there is one.
    """

    def __init__(
        self,
        change_set: ChangeSet,
        cluster: ClusterSnapshot | None,
        options: Options,
        phase: Phase,
        now: datetime,
        expired: Callable[[], bool],
        is_exempt: Callable[[Namespace], bool] = lambda _: False,
        disclose: Disclose = Disclose.NAMES,
        shown: Callable[[], Shown] = lambda: EXACT,
    ) -> None:
        self.change_set: Final = change_set
        self.cluster: Final = cluster
        self.options: Final = options
        self.phase: Final = phase
        self.now: Final = now
        self.expired: Final = expired
        self.disclose: Final = disclose
        self.shown: Final = shown
        self._is_exempt = is_exempt
        self._made: dict[Callable[..., Any], Any] = {}
        self._quotas: dict[int, ResourceQuota | InvalidObject] = {}

    @property
    def minor(self) -> int | None:
        """The minor of Kubernetes 1 that the apply is for; None if it is not set."""
        return self.options.minor

    @property
    def stored_classes(self) -> Mapping[str, PriorityClass]:
        """The classes of the cluster; of one that is not known, those that every cluster has."""
        return self.cluster.priority_classes if self.cluster else {c.name: c for c in SYSTEM_CLASSES}

    @property
    def pod_counts_by_priority(self) -> Mapping[tuple[str, int | None], int]:
        """(class name, priority) -> how many pods of the cluster carry them: to know without looking at every pod."""
        return self.cluster.pod_counts_by_priority if self.cluster else {}

    @property
    def pods(self) -> Collection[Pod]:
        """The pods of the cluster; none where it is not known."""
        return self.cluster.pods.values() if self.cluster else ()

    def of_kind(self, kind: str) -> Sequence[ReviewedObject]:
        """The objects of a kind (`group/Kind`) that the apply creates or updates, in its order."""
        return self._by_kind.get(kind, ())

    @cached_property
    def _by_kind(self) -> Mapping[str, Sequence[ReviewedObject]]:
        found: dict[str, list[ReviewedObject]] = defaultdict(list)
        for subject in self.change_set.subjects:
            if subject.operation is not Operation.DELETE:
                found[group_kind(subject.object)].append(subject)
        return dict(found)

    @cached_property
    def defined(self) -> tuple[tuple[ReviewedObject, Defined], ...]:
        """The classes that the apply defines, in its order, with their subjects; unreadable ones are left out."""
        found = []
        for subject in self.of_kind(PRIORITY_CLASS):
            with suppress(InvalidObject):
                found.append((subject, Defined(PriorityClass.from_api(subject.object), subject)))
        return tuple(found)

    @cached_property
    def classes(self) -> Classes:
        """Every class that will be there: the cluster's, replaced and joined by those of the whole apply."""
        return Classes({**self.stored_classes, **{d.priority_class.name: d.priority_class for _, d in self.defined}})

    @cached_property
    def preempting(self) -> Sequence[PriorityClass]:
        """Those of them that preempt, the highest value first."""
        found = (c for c in self.classes.values() if c.preemption_policy != PREEMPT_NEVER)
        return sorted(found, key=lambda c: (-c.value, c.name))

    @property
    def classes_known(self) -> bool:
        """Whether the absence of a class means anything."""
        return self.classes_whole or bool(self.defined)

    @property
    def classes_whole(self) -> bool:
        """Whether a class that is not known is known not to be there."""
        return self.cluster is not None or bool(self.options.known_classes) or self.options.closed

    def is_known(self, name: str) -> bool:
        """Whether a class exists; of one that configuration names nothing else is known."""
        options = self.options
        return name in self.classes or name in options.template_classes or one_of(options.known_classes, name)

    def once(self, make: Callable[..., T], *given: object) -> T:
        """What is worked out of this context and kept with it: `make(context, *given)`, of the first call.

        So that what needs a context is not needed by it: `quota_use.quota_use_of`, `impact.predicted_of`. What is made
        does not keep the context alive: whoever evaluates holds it.
        """
        if make not in self._made:
            self._made[make] = make(proxy(self), *given)  # a circle would keep the cluster state alive
        made: T = self._made[make]
        return made

    def quota_of(self, subject: ReviewedObject) -> ResourceQuota:
        """The subject as a quota, read once for all rules: one of 10,000 owners takes long. Raises InvalidObject."""
        if id(subject) not in self._quotas:
            from forewarn.policies.rules.support.quota_scopes import read_quota

            try:
                self._quotas[id(subject)] = read_quota(subject)
            except InvalidObject as fault:
                self._quotas[id(subject)] = fault.with_traceback(None)
        found = self._quotas[id(subject)]
        if isinstance(found, InvalidObject):
            raise found
        return found

    def has_quotas(self, subject: ReviewedObject) -> bool:
        """Whether any quota may limit a subject: one of its namespace, in the cluster or in the apply."""
        namespace = subject.effective_namespace
        stored = self.cluster is not None and bool(self.cluster.quotas_of(namespace))
        return stored or namespace in self._with_quotas

    @cached_property
    def _with_quotas(self) -> frozenset[str]:
        """The namespaces in which the apply has quotas."""
        return frozenset(quota.effective_namespace for quota in self.of_kind(RESOURCE_QUOTA))

    @cached_property
    def defines_quotas(self) -> bool:
        """Whether the apply has any quota."""
        return bool(self.of_kind(RESOURCE_QUOTA))

    def namespace(self, name: str) -> Namespace | None:
        """The namespace as it will be: the apply's, else the cluster's; None where its labels are not known.

        One that is exempt has no annotations: they mean nothing there.
        """
        found = None
        for subject in self._namespaces.get(name, ()):
            with suppress(InvalidObject):
                new = Namespace.from_api(subject.object)
                found = new._replace(labels={**new.labels, NAME_LABEL: name})
        if found is None and self.cluster is not None:
            found = self.cluster.namespace(name) or Namespace(name, {NAME_LABEL: name}, {})
        return found._replace(annotations={}) if found and self._is_exempt(found) else found

    @cached_property
    def _namespaces(self) -> Mapping[str, Sequence[ReviewedObject]]:
        """The namespaces that the apply defines, by name."""
        found: dict[str, list[ReviewedObject]] = defaultdict(list)
        for subject in self.of_kind(NAMESPACE):
            found[subject.ref.name].append(subject)
        return found

    def limit_ranges_of(self, namespace: str) -> Sequence[LimitRange]:
        """The LimitRanges of a namespace, by name: the cluster's, replaced and joined by those of the whole apply."""
        stored = self.cluster.limit_ranges_of(namespace) if self.cluster else ()
        if namespace not in self._limit_ranges:
            return stored
        found = {r.name: r for r in stored} | self._limit_ranges[namespace]
        return [found[name] for name in sorted(found)]

    @cached_property
    def _limit_ranges(self) -> dict[str, dict[str, LimitRange]]:
        """The LimitRanges that the apply defines, by namespace and name; unreadable ones are left out."""
        from dataclasses import replace

        from forewarn.policies.objects.limit_range import LimitRange

        found: dict[str, dict[str, LimitRange]] = {}
        for subject in self.of_kind(LIMIT_RANGE):
            with suppress(InvalidObject):
                new = LimitRange.from_api(subject.object)
                namespace = subject.effective_namespace
                found.setdefault(namespace, {})[new.name] = replace(new, namespace=namespace)
        return found

    def default_before(self, subject: ReviewedObject) -> Defined | None:
        """The global default that the API server would see when this subject's turn in the apply comes."""
        return self._defaults_before.get(id(subject))

    @cached_property
    def _defaults_before(self) -> Mapping[int, Defined]:
        """By identity of the subject; those without a default before them are left out."""
        found, current = {}, {c.name: Defined(c, None) for c in self.stored_classes.values() if c.global_default}
        ranked = [(d.priority_class.value, name, -1, d) for name, d in current.items()]
        heapify(ranked)
        for place, (subject, defined) in enumerate(self.defined):
            while ranked and current.get(ranked[0][1]) is not ranked[0][-1]:
                heappop(ranked)  # defined anew since, or no default any more
            if ranked:
                found[id(subject)] = ranked[0][-1]
            new = defined.priority_class
            current.pop(new.name, None)
            if new.global_default:
                current[new.name] = defined
                heappush(ranked, (new.value, new.name, place, defined))
        return found

    @cached_property
    def cluster_to_be(self) -> ClusterSnapshot | None:
        """The cluster as it will be: with the classes, LimitRanges, claims, PodGroups and namespaces' annotations of
        the apply."""
        from dataclasses import replace

        if self.cluster is None:
            return None
        stored = self.cluster.namespaces
        names = {subject.effective_namespace for subject in self.change_set.subjects}
        changed = {
            ("", new.name): new
            for new in map(self.namespace, names)
            if new and new.annotations != (stored["", new.name].annotations if ("", new.name) in stored else {})
        }
        namespaces = {**stored, **changed} if changed else stored
        claims = frozenset((s.ref.namespace, s.ref.name) for s in self.of_kind(CLAIM))
        own = [r for of_namespace in self._limit_ranges.values() for r in of_namespace.values()]
        to_be = self.cluster.with_limit_ranges(own) if own else self.cluster
        to_be = replace(to_be, priority_classes=self.classes, namespaces=namespaces, pending_claims=claims)
        return to_be.with_pod_groups(_groups_of(self, to_be))

    def template(self, subject: ReviewedObject) -> PodTemplate | None:
        """The pod, or the pod template, of a subject. Raises InvalidObject."""
        return subject.part or pod_template_of(subject.object, self.options.pod_template_paths)


def _groups_of(context: Context, cluster: ClusterSnapshot) -> Iterator[PodGroup]:
    """The PodGroups of the apply that kube-apiserver accepts."""
    for subject in context.of_kind(POD_GROUP):
        from forewarn.policies.cluster.admission import admitted_group  # only if there is a PodGroup

        metadata = {"name": subject.ref.name, "namespace": subject.effective_namespace}
        with suppress(InvalidObject):
            yield admitted_group({**subject.object, "metadata": metadata}, cluster)


class DependsOn(NamedTuple):
    """What of the stored cluster a rule goes by (beside its subject), and `why` that may be wrong when it is late.

    What goes by the classes alone is confirmed: they can be asked for in one request.
    """

    stored: tuple[str, ...] = ()
    why: str = ""

    @property
    def is_confirmed(self) -> bool:
        """Whether the live classes tell if what the rule says holds."""
        return self.stored == ("classes",)


NOTHING_STORED = DependsOn()
ALL_SCHEDULED = ("everything the scheduler reads",)
"""Of rules that predict."""


class Rule(Protocol):
    """A module of this package: its docstring is the documentation, its `check` finds the problems."""

    @property
    def ID(self) -> str:  # noqa: N802  (a module's constant)
        """The id, for good: `unknown-priority-class`."""

    @property
    def TARGETS(self) -> tuple[Target, ...]:  # noqa: N802
        """What it looks at."""

    @property
    def SEVERITY(self) -> Severity | None:  # noqa: N802
        """What the linter says by default; None: not a matter for the linter."""

    @property
    def ACTION(self) -> Action | None:  # noqa: N802
        """What the webhook does by default (deny becomes warn on a template); None: not a matter for the webhook."""

    @property
    def DEPENDS_ON(self) -> DependsOn:  # noqa: N802
        """What of the stored cluster it goes by."""

    def check(self, subject: ReviewedObject, context: Context) -> Iterator[Problem]:
        """The problems of one subject. Pure: never logs, never changes its input, knows no action."""
