"""The inputs of a rule besides its subject, and the interface of a rule."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from enum import Enum, StrEnum
from functools import cached_property
from heapq import heapify, heappop, heappush
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeVar
from weakref import proxy

from forewarn.policies.base.disclosure import EXACT, Disclose, Shown
from forewarn.policies.base.findings import NO_LOCATION, Action, Location, Path, Problem, Severity, grouped
from forewarn.policies.base.light import NamedTuple
from forewarn.policies.kubernetes.kinds.registry import APPLIED, LIMIT_RANGE, NAMESPACE, PRIORITY_CLASS, RESOURCE_QUOTA
from forewarn.policies.kubernetes.kube_apiserver.priority import Classes
from forewarn.policies.kubernetes.objects.extent import check_limit_ranges
from forewarn.policies.kubernetes.objects.fields import ApiObject, InvalidObject, group_kind, mapping_at
from forewarn.policies.kubernetes.objects.namespace import NAME_LABEL, Namespace
from forewarn.policies.kubernetes.objects.priority_class import HOSTED_CLASSES, SYSTEM_CLASSES, PriorityClass
from forewarn.policies.kubernetes.objects.reviewed_object import ChangeSet, Operation, ReviewedObject
from forewarn.policies.kubernetes.objects.workload import PodTemplate, pod_template_of
from forewarn.policies.kubernetes.releases.minors import KNOWN_MINORS
from forewarn.policies.kubernetes.selectors import one_of

if TYPE_CHECKING:
    from datetime import datetime

    from forewarn.policies.kubernetes.cluster.cache import ClusterSnapshot
    from forewarn.policies.kubernetes.objects.pod import Pod
    from forewarn.policies.kubernetes.objects.resource_quota import LimitRange, ResourceQuota
    from forewarn.policies.kubernetes.options import Options
    from forewarn.policies.kubernetes.releases.semantics import Semantics

T = TypeVar("T")


class Target(StrEnum):
    """The kind of subject that a rule checks, in the words of the documentation."""

    PRIORITY_CLASS = "PriorityClass"
    DELETED_PRIORITY_CLASS = "deleted PriorityClass"
    POD = "Pod"
    UPDATED_POD = "updated Pod"
    STATIC_POD = "static Pod"
    TEMPLATE = "Pod template"
    PART = "custom resource"
    UNRENDERED = "class name in a template or in values of a chart"
    NAMESPACE = "Namespace"
    RESOURCE_QUOTA = "ResourceQuota"
    POD_GROUP = "PodGroup or Workload"
    OTHER = "other objects"
    FILE = "file"
    CLUSTER = "whole cluster"


POD_OR_TEMPLATE: Final = (Target.POD, Target.TEMPLATE)
"""The objects that create Pods."""
POD_SPECS: Final = (*POD_OR_TEMPLATE, Target.PART)


class Phase(Enum):
    """The phase of the object that rules check: as written (LINT), or as stored after all mutation (VALIDATE)."""

    LINT = "lint"
    VALIDATE = "validate"


class Defined(NamedTuple):
    """A PriorityClass, and the object in the change set that defines the class; None for a class of the cluster."""

    priority_class: PriorityClass
    subject: ReviewedObject | None

    def locate(self, path: Path = ("metadata", "name")) -> Location:
        """The location of a field in the object that defines the class."""
        return self.subject.locate(path) if self.subject else NO_LOCATION


class Context:
    """The inputs of rules: the objects that are applied together (the change set), and the cluster if known.

    `is_exempt`: whether the webhook exempts a namespace, and thus assigns no classes to its Pods. `disclose`: the
    names that the requester may read. `shown`: how much of the prediction the requester may see, once there is one.
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
        self._template: tuple[ApiObject | None, PodTemplate | None] = None, None
        """The latest object, and its Pod template."""
        self._limited: dict[str, bool] = {}
        """Namespace -> whether it has ResourceQuotas."""

    @property
    def minor(self) -> int | None:
        """The minor version of Kubernetes 1, such as 36; None if not set."""
        return self.options.minor

    @property
    def semantics(self) -> Semantics:
        """The semantics of the cluster; without a cluster, of the configured or the newest release."""
        return self.possible_semantics[0]

    @cached_property
    def possible_semantics(self) -> tuple[Semantics, ...]:
        """The semantics of the cluster; without a cluster, of the configured release, or of all known ones."""
        if self.cluster is not None:
            return (self.cluster.semantics,)
        from forewarn.policies.kubernetes.releases.semantics import Semantics

        minors = (self.minor,) if self.minor else reversed(KNOWN_MINORS)
        return tuple(Semantics(minor, self.options.gates) for minor in minors)

    @property
    def stored_classes(self) -> Mapping[str, PriorityClass]:
        """The cluster's PriorityClasses by name; without a cluster, the system classes and those of the preset."""
        if self.cluster:
            return self.cluster.priority_classes
        return {c.name: c for c in (*SYSTEM_CLASSES, *HOSTED_CLASSES.get(self.options.preset, ()))}

    @property
    def pod_counts_by_priority(self) -> Mapping[tuple[str, int | None], int]:
        """Number of Pods in the cluster by class name and priority, without iterating over all Pods."""
        return self.cluster.pod_counts_by_priority if self.cluster else {}

    @property
    def pods(self) -> Collection[Pod]:
        return self.cluster.pods.values() if self.cluster else ()

    def pods_of_class(self, name: str) -> list[Pod]:
        """The stored Pods of a PriorityClass that have not ended."""
        return [pod for pod in self.pods if pod.priority_class_name == name and not pod.terminal]

    def of_kind(self, kind: str) -> Sequence[ReviewedObject]:
        """The objects of a kind (`group/Kind`) that the change set creates or updates, in order."""
        return self._objects_by_kind.get(kind, ())

    @cached_property
    def _objects_by_kind(self) -> Mapping[str, Sequence[ReviewedObject]]:
        kept = (subject for subject in self.change_set.subjects if subject.operation is not Operation.DELETE)
        return grouped((group_kind(subject.object), subject) for subject in kept)

    @cached_property
    def defined(self) -> tuple[tuple[ReviewedObject, Defined], ...]:
        """The classes that the change set defines, in order, with their subjects. Ignores unreadable ones."""
        classes = []
        for subject in self.of_kind(PRIORITY_CLASS):
            with suppress(InvalidObject):
                classes.append((subject, Defined(PriorityClass.from_api(subject.object), subject)))
        return tuple(classes)

    @cached_property
    def classes(self) -> Classes:
        """All classes after the change set: those of the cluster, with changed and new ones."""
        if not self.defined and isinstance(self.stored_classes, Classes):
            return self.stored_classes
        return Classes({**self.stored_classes, **{d.priority_class.name: d.priority_class for _, d in self.defined}})

    @property
    def classes_known(self) -> bool:
        """Whether rules can report a missing class: all classes are known, or the change set defines some."""
        return self.classes_complete or bool(self.defined)

    @property
    def classes_complete(self) -> bool:
        return self.cluster is not None or bool(self.options.known_classes) or self.options.closed

    def is_known(self, name: str) -> bool:
        """Report whether a class exists, including names that only the configuration lists."""
        options = self.options
        is_possible = name in options.template_classes or name in options.unread_names
        return name in self.classes or is_possible or one_of(options.known_classes, name)

    def once(self, make: Callable[..., T], *given: object) -> T:
        """Return the result of `make(context, *given)`, computed once and cached in the context.

        Thus this module does not import the modules of `QuotaUse` and `Predicted`. `make` gets a weak proxy,
        so that the result does not keep the context alive; the caller must hold the context.
        """
        if make not in self._made:
            self._made[make] = make(proxy(self), *given)  # a circle would keep the cluster state alive
        value: T = self._made[make]
        return value

    def quota_of(self, subject: ReviewedObject) -> ResourceQuota:
        """The subject as a ResourceQuota, parsed once for all rules. Raises InvalidObject."""
        if id(subject) not in self._quotas:
            from forewarn.policies.linting.rules.support.quota_use import read_quota

            try:
                self._quotas[id(subject)] = read_quota(subject)
            except InvalidObject as fault:
                self._quotas[id(subject)] = fault.with_traceback(None)
        quota = self._quotas[id(subject)]
        if isinstance(quota, InvalidObject):
            raise quota
        return quota

    def has_quotas(self, subject: ReviewedObject) -> bool:
        """True if a ResourceQuota in the cluster or the change set may limit the subject."""
        namespace = subject.effective_namespace
        if namespace not in self._limited:
            stored = self.cluster is not None and bool(self.cluster.quotas_of(namespace))
            self._limited[namespace] = stored or namespace in self.new_quotas
        return self._limited[namespace]

    @cached_property
    def new_quotas(self) -> Collection[str]:
        """The namespaces of the ResourceQuotas that the change set defines."""
        return frozenset(quota.effective_namespace for quota in self.of_kind(RESOURCE_QUOTA))

    def namespace(self, name: str) -> Namespace | None:
        """Return the Namespace after the change set, or None; an exempt one without annotations, which are ignored."""
        namespace = None
        for subject in self.new_namespaces.get(name, ()):
            with suppress(InvalidObject):
                new = Namespace.from_api(subject.object)
                namespace = new._replace(labels={**new.labels, NAME_LABEL: name})
        if namespace is None and self.cluster is not None:
            namespace = self.cluster.namespace(name) or Namespace(name, {NAME_LABEL: name}, {})
        return namespace._replace(annotations={}) if namespace and self._is_exempt(namespace) else namespace

    @cached_property
    def new_namespaces(self) -> Mapping[str, Sequence[ReviewedObject]]:
        """The Namespaces that the change set defines, by name."""
        return grouped((subject.ref.name, subject) for subject in self.of_kind(NAMESPACE))

    def limit_ranges_of(self, namespace: str) -> Sequence[LimitRange]:
        """The LimitRanges of a namespace after the change set, sorted by name. Raises TooLarge."""
        stored = self.cluster.limit_ranges_of(namespace) if self.cluster else ()
        if namespace not in self._limit_ranges:
            return stored
        ranges = {r.name: r for r in stored} | self._limit_ranges[namespace]
        check_limit_ranges(len(ranges))
        return [ranges[name] for name in sorted(ranges)]

    @cached_property
    def _limit_ranges(self) -> dict[str, dict[str, LimitRange]]:
        """The LimitRanges that the change set defines, by namespace and name. Ignores unreadable ones."""
        if not (subjects := self.of_kind(LIMIT_RANGE)):
            return {}
        from dataclasses import replace

        from forewarn.policies.kubernetes.kube_apiserver.validation.tables import validate
        from forewarn.policies.kubernetes.objects.resource_quota import LimitRange

        ranges: dict[str, dict[str, LimitRange]] = {}
        for subject in subjects:
            with suppress(InvalidObject):
                if any(fault.path[0] == "spec" for fault in validate(subject.object, self.semantics)):
                    continue  # unknown, or kube-apiserver rejects it
                new = LimitRange.from_api(subject.object)
                namespace = subject.effective_namespace
                ranges.setdefault(namespace, {})[new.name] = replace(new, namespace=namespace)
        return ranges

    def default_before(self, subject: ReviewedObject) -> Defined | None:
        """Return the global default when the API server receives this subject, in the change set's order; or None."""
        return self._defaults_before.get(id(subject))

    @cached_property
    def _defaults_before(self) -> Mapping[int, Defined]:
        """The global default before each class of the change set, by `id` of the subject; absent without one."""
        before, current = {}, {c.name: Defined(c, None) for c in self.stored_classes.values() if c.global_default}
        ranked = [(d.priority_class.value, name, -1, d) for name, d in current.items()]
        heapify(ranked)
        for place, (subject, defined) in enumerate(self.defined):
            while ranked and current.get(ranked[0][1]) is not ranked[0][-1]:
                heappop(ranked)  # defined anew since, or no default any more
            if ranked:
                before[id(subject)] = ranked[0][-1]
            new = defined.priority_class
            current.pop(new.name, None)
            if new.global_default:
                current[new.name] = defined
                heappush(ranked, (new.value, new.name, place, defined))
        return before

    @cached_property
    def cluster_to_be(self) -> ClusterSnapshot | None:
        """The cluster after the change set, without its Pods and workloads; None if unknown."""
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
        applied = [
            _identified(subject) for kind in APPLIED if kind in self._objects_by_kind for subject in self._applied(kind)
        ]
        to_be = replace(self.cluster, priority_classes=self.classes) if self.defined else self.cluster
        if applied:
            from forewarn.policies.kubernetes.controllers.applied import (
                with_applied,  # other rules report what is unreadable
            )

            to_be = with_applied(to_be, applied, [])
        return replace(to_be, namespaces={**to_be.namespaces, **changed}) if changed else to_be

    def _applied(self, kind: str) -> Sequence[ReviewedObject]:
        """The subjects of a kind; of ResourceQuotas those of namespaces of other subjects, which they may limit."""
        if kind != RESOURCE_QUOTA:
            return self.of_kind(kind)
        others = (
            subject for kind, subjects in self._objects_by_kind.items() if kind not in APPLIED for subject in subjects
        )
        limited = {subject.effective_namespace for subject in others}
        return [quota for quota in self.of_kind(kind) if quota.effective_namespace in limited]

    def template(self, subject: ReviewedObject) -> PodTemplate | None:
        """The Pod, or the Pod template, of a subject; None without one. Raises InvalidObject."""
        if subject.part:
            return subject.part
        if self._template[0] is not subject.object:
            self._template = subject.object, pod_template_of(subject.object, self.options.pod_template_paths)
        return self._template[1]


def _identified(subject: ReviewedObject) -> ApiObject:
    """Return the object of a subject with its name and namespace filled in."""
    names = {"name": subject.ref.name, "namespace": subject.effective_namespace}
    return {**subject.object, "metadata": {**mapping_at(subject.object, "metadata"), **names}}


class DependsOn(NamedTuple):
    """The stored objects that a rule reads (besides its subject), so that a stale cache can make the rule wrong.

    One live request can confirm findings of a rule that depends only on PriorityClasses.
    """

    stored: tuple[str, ...] = ()

    @property
    def is_confirmed(self) -> bool:
        """True if the live PriorityClasses can confirm the rule's findings."""
        return self.stored == ("classes",)


NOTHING_STORED = DependsOn()
ALL_SCHEDULED = ("everything the scheduler reads",)
"""The value of `stored` for rules that predict."""


Check = Callable[[ReviewedObject, Context], Iterator[Problem]]


class Rule:
    """A rule. The docstring is the documentation. For rules of other packages, `evaluation.foreign_rules` makes one."""

    ID: str
    """The permanent id, for example `unknown-priority-class`."""
    TARGETS: tuple[Target, ...]
    """The kinds of subjects that the rule checks."""
    SEVERITY: Severity | None = None
    """The linter's default severity; None if the linter does not run the rule (Phase.LINT)."""
    ACTION: Action | None = None
    """The webhook's default action (deny becomes warn for a template); None if the webhook does not run the rule
    (Phase.VALIDATE).
    """
    DEPENDS_ON = NOTHING_STORED
    """The stored objects that the rule depends on."""
    READS_PARTS = False
    """Whether it also runs for parts of objects (`is_partial`): it checks single fields, or reads
    `ReviewedObject.whole` before it reports an absent one.
    """
    ON_REQUEST = False
    """Whether it runs only if the configuration selects it, or sets its severity or action."""
    OBJECTS: Mapping[Target, str] = MappingProxyType({})
    """The objects of a target that the rule checks, for the documentation, if these are not all."""
    check: Check
    """Yields the problems of one subject. A pure function, without side effects, independent of the configured action.
    """


def linter_severity(rule: Rule) -> Severity | None:
    """The linter's default severity; None if the linter does not run the rule, for example for deletions only."""
    return None if rule.TARGETS == (Target.DELETED_PRIORITY_CLASS,) else rule.SEVERITY


class rule(Rule):  # noqa: N801
    """Make a rule of a generator of problems, whose name is the id, with `_` for `-`. For the arguments, see `Rule`."""

    def __init__(
        self,
        *targets: Target,
        severity: Severity | None = None,
        action: Action | None = None,
        depends_on: tuple[str, ...] = (),
        reads_parts: bool = False,
        on_request: bool = False,
        objects: Mapping[Target, str] = Rule.OBJECTS,
    ) -> None:
        self.TARGETS, self.SEVERITY, self.ACTION, self.DEPENDS_ON = targets, severity, action, DependsOn(depends_on)
        self.READS_PARTS, self.ON_REQUEST, self.OBJECTS = reads_parts, on_request, objects

    def __call__(self, check: Check) -> rule:
        self.__doc__, self.__module__ = check.__doc__, check.__module__
        self.ID, self.check = check.__name__.replace("_", "-"), check
        return self
