"""Rules about the PriorityClass and the priority fields of Pods and Pod templates."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

from forewarn.policies.base.findings import Action, ObjectRef, Path, Problem, Severity, Text, cut, listed, quote
from forewarn.policies.base.light import NamedTuple, later
from forewarn.policies.kubernetes.kinds import registry
from forewarn.policies.kubernetes.kube_apiserver.priority import WITHOUT_DEFAULT_CLASS
from forewarn.policies.kubernetes.kube_apiserver.priority import preemption_policy_mismatch as policy_rejection
from forewarn.policies.kubernetes.kube_apiserver.priority import priority_mismatch as priority_rejection
from forewarn.policies.kubernetes.objects.fields import (
    NOTHING,
    ApiObject,
    InvalidObject,
    at,
    group_kind,
    has_controller,
    list_at,
    mapping_at,
    text_at,
)
from forewarn.policies.kubernetes.objects.namespace import DEFAULT_CLASS_ANNOTATION
from forewarn.policies.kubernetes.objects.priority_class import (
    HIGHEST_USER_DEFINABLE_PRIORITY,
    OWN_CLASSES,
    POLICIES,
    PREEMPT_NEVER,
    SYSTEM_CLASSES,
    SYSTEM_NAMES,
)
from forewarn.policies.kubernetes.objects.workload import PodTemplate, is_fragment, parts_of, pod_template_of
from forewarn.policies.kubernetes.selectors import one_of
from forewarn.policies.linting.rules.support.allowed_classes import entries_of, is_allowed
from forewarn.policies.linting.rules.support.context import POD_OR_TEMPLATE, POD_SPECS, Context, Phase, Target, rule
from forewarn.policies.linting.rules.support.details import UnknownClass
from forewarn.policies.linting.rules.support.names import (
    is_impossible_name,
    is_misspelt,
    is_reserved,
    meant_elsewhere,
    meant_system_class,
    nearest,
    recommended_to,
    workload_classes,
)
from forewarn.policies.linting.rules.support.rule_text import (
    NAMING,
    class_name,
    class_or_default,
    class_to_be,
    integer,
    is_earlier_than_the_default,
    is_template_variable,
    is_test_file,
    pods_of,
    resolved,
)

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.objects.reviewed_object import ReviewedObject


_REJECTED: Final = {registry.POD: "the Pod", registry.POD_GROUP: "the PodGroup", registry.GROUP_TEMPLATES: "PodGroups"}


@rule(
    *POD_SPECS,
    Target.UNRENDERED,
    Target.STATIC_POD,
    severity=Severity.ERROR,
    action=Action.DENY,
    depends_on=("classes",),
    objects=NAMING,
)
def unknown_priority_class(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """A Pod, PodGroup or template names a PriorityClass that does not exist.

    Why: kube-apiserver rejects such a Pod. It accepts a workload whose template names a missing class, but rejects its
    Pods. For a Deployment, the reason is in Events of the ReplicaSet.

    Details: if the linter knows all classes (`--cluster`, `--closed` or `knownClasses`), the finding is usually an
    error. Otherwise, the class may exist in the cluster: the finding is then an error only for some names, such as a
    misspelled system class. If no PriorityClass of the input applies to the object, see also
    priority-class-not-checked.

    Cluster:

        PriorityClass gold
        value: 1000

    Example:

          Deployment team/web
          spec:
            template:
              spec:
        -       priorityClassName: glod
        +       priorityClassName: gold

    Fix: create the class before the Pod, or use an existing class.
    """
    template = context.template(subject)
    name = class_name(template) if template else ""
    if template is None or not name or context.is_known(name) or is_impossible_name(name):
        return
    if template.is_guess and name in context.options.input_classes:
        return
    system = meant_system_class(name, context)
    elsewhere = "" if system or context.classes_complete else meant_elsewhere(name, context)
    is_deleted = name in context.options.deleted_classes
    if not (context.classes_known or is_reserved(name) or system or elsewhere or is_deleted):
        return
    if not is_template_variable(name, subject, context):
        yield _unknown_class(name, template, subject, context, system, elsewhere)


def _unknown_class(
    name: str, template: PodTemplate, subject: ReviewedObject, context: Context, system: str, elsewhere: str
) -> Problem:
    rejected = _REJECTED.get(group_kind(subject.object), "Pods")
    is_deleted = name in context.options.deleted_classes
    is_certain = context.classes_complete or is_reserved(name) or is_deleted
    may_follow = context.phase is Phase.VALIDATE and template.is_template and not is_reserved(name)
    until = " until it exists" if may_follow else ""  # a class that comes later in the same apply
    of = f" of {template.used_by}" if template.used_by else ""
    consequence = f"; {rejected}{of} will be rejected{until}" if is_certain else " in this input"
    consequence += f" (deleted since {cut(context.options.base, _MAX_LENGTH)})" if is_deleted else ""
    names = recommended_to(subject, context)
    near = names.nearest_name(name) if context.phase is Phase.LINT else ""
    is_near = bool(near) and is_misspelt(name, near)
    other = system or ("" if is_near else elsewhere)
    return Problem(
        UnknownClass(
            name,
            consequence,
            names,
            is_certain=context.classes_complete,
            is_reserved=is_reserved(name),
            suggestion=other or near,
            meant=other,
        ),
        template.at("priorityClassName"),
        severity=_severity_of_unknown(template, subject, is_certain or is_near or bool(system), is_near or bool(other)),
    )


def _severity_of_unknown(
    template: PodTemplate, subject: ReviewedObject, is_sure: bool, is_meant: bool
) -> Severity | None:
    if not template.is_guess and is_sure:
        return None
    is_weak = template.is_guess or not subject.object  # the class may come from elsewhere
    return Severity.NOTE if is_weak and not is_meant else Severity.WARNING


class _Use(NamedTuple):
    """A PriorityClass that an object uses for Pods of a namespace, and the path of the field.

    `had`: the old object already used the class.
    """

    name: str
    namespace: str
    path: Path
    had: bool


@rule(
    *POD_SPECS,
    Target.NAMESPACE,
    severity=Severity.ERROR,
    action=Action.DENY,
    depends_on=("namespaces", "classes"),
    objects=NAMING,
)
def class_not_allowed(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """`allowedClasses` does not permit the class of a Pod, PodGroup or template, or the default class of a Namespace.

    Why: RBAC has no permission for the use of a class. Users who may create Pods can usually use any class.

    Details: if `allowedClasses` has entries for a class, at least one entry must permit the use. Other classes are
    allowed. When a built-in controller creates Pods, the rule checks only the namespace, not the user. To enforce
    `users` and `groups` for workloads, set `actions: {class-not-allowed: deny}`. If users or labels are unknown, the
    linter can count an object as not checked.

    Options:

        allowedClasses:
        - classes: [gold]
          namespaces: [shop, shop-*]

    Cluster:

        PriorityClass gold
        value: 1000

    Example:

        - Deployment team/web
        + Deployment shop-berlin/web
          spec:
            template:
              spec:
                priorityClassName: gold

    Fix: use another class, or add an entry to `allowedClasses`.
    """
    use = _use_of(subject, context)
    if use is None or is_allowed(subject, use.name, use.namespace, context, had=use.had) is not False:
        return
    depends_on_user = any(entry.depends_on_user for entry in entries_of(use.name, context))
    for_user = f" for user {subject.user.name}" if subject.user and depends_on_user else ""
    problem, fix = f"class {quote(use.name)} is not allowed", "use another class, or ask for an entry in allowedClasses"
    shorter = (f"{problem} in namespace {use.namespace}", f"{problem} here")
    yield Problem(Text(f"{shorter[0]}{for_user}", fix, shorter=shorter), use.path, detail={"class": use.name})


def is_class_use_unknown(subject: ReviewedObject, context: Context) -> bool:
    """True if the result depends on unknown facts: the requester, or labels of the namespace. Raises InvalidObject."""
    use = _use_of(subject, context)
    return use is not None and is_allowed(subject, use.name, use.namespace, context, had=use.had) is None


def _use_of(subject: ReviewedObject, context: Context) -> _Use | None:
    """Return the class that a Pod or template uses, or that a Namespace has as default; None without one."""
    if not context.options.allowed_classes:
        return None
    if group_kind(subject.object) == registry.NAMESPACE:
        path = ("metadata", "annotations", DEFAULT_CLASS_ANNOTATION)
        given, namespace = text_at(subject.object, *path), subject.ref.name
        if not given or namespace in WITHOUT_DEFAULT_CLASS:
            return None
        return _Use(given, namespace, path, had=given == text_at(subject.old or NOTHING, *path))
    template = context.template(subject)
    if template is None:
        return None
    name, old = class_or_default(template, subject.effective_namespace, context), None
    if subject.old:
        old = pod_template_of(subject.old, context.options.pod_template_paths)
    had = old is not None and class_or_default(old, subject.effective_namespace, context) == name
    return _Use(name, subject.effective_namespace, template.at("priorityClassName"), had)


@rule(*POD_SPECS, severity=Severity.WARNING, action=Action.WARN, objects=NAMING)
def class_of_forewarn(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """A Pod uses a PriorityClass that forewarn installs for its own Pods.

    Why: the class forewarn has the highest value that a user can define. A ValidatingAdmissionPolicy of forewarn denies
    Pods that name it in other namespaces. If you uninstall forewarn, this class is deleted, and kube-apiserver rejects
    new Pods that name it.

    Cluster:

        PriorityClass forewarn
        value: 1000000000
        ---
        PriorityClass web
        value: 100000

    Example:

          Pod team/web
          spec:
        -   priorityClassName: forewarn
        +   priorityClassName: web

    Fix: use a PriorityClass of your own.
    """
    template = context.template(subject)
    name = class_name(template) if template else ""
    if template is None or name not in OWN_CLASSES or subject.effective_namespace == name:
        return
    if text_at(template.object, "metadata", "labels", "app.kubernetes.io/part-of") == "forewarn":
        return
    message = f"class {quote(name)} is for forewarn's own Pods and is deleted with them"
    yield Problem(message, template.at("priorityClassName"), "use a class of your own")


_NAMESPACE_NAME: Final = later(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")


@rule(
    *POD_SPECS,
    Target.UNRENDERED,
    severity=Severity.NOTE,
    action=Action.WARN,
    reads_parts=True,
    objects=NAMING,
)
def system_class_outside_kube_system(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """A Pod, PodGroup or template outside kube-system names a system class.

    Why: Pods with the class system-cluster-critical or system-node-critical can preempt Pods without such a class. By
    default, kube-apiserver allows these classes in every namespace.

    Details: the linter must know the namespace, for example from `metadata.namespace`, the values of a chart, or `-n`.

    Bad:

        Pod team/web
        spec:
          priorityClassName: system-cluster-critical

    Good:

        Pod kube-system/dns
        spec:
          priorityClassName: system-cluster-critical

    Fix: use a PriorityClass of your own.
    """
    template = context.template(subject)
    if template is None or class_name(template) not in SYSTEM_NAMES:
        return
    if not _is_outside_kube_system(subject, template, context):
        return
    message = f"class {quote(class_name(template))} outside kube-system: its Pods rank above all your workloads"
    yield Problem(message, template.at("priorityClassName"), "use a class of your own")


def _is_outside_kube_system(subject: ReviewedObject, template: PodTemplate, context: Context) -> bool:
    """Report whether the Pods of a template are certain to be in another namespace than kube-system."""
    if (template.namespace or subject.ref.namespace) in ("kube-system", registry.RELEASE_NAMESPACE):
        return False
    return context.phase is not Phase.LINT or bool(template.namespace) or _is_namespace_known(subject, context)


def _is_namespace_known(subject: ReviewedObject, context: Context) -> bool:
    """Whether a file or `-n` sets the namespace to a valid name, not a template variable or kubectl's default."""
    own = at(subject.object, "metadata", "namespace")
    is_given = own or context.options.namespace or subject.namespace != registry.DEFAULT_NAMESPACE
    return bool(is_given) and bool(_NAMESPACE_NAME.fullmatch(subject.ref.namespace))


def _daemons_template(subject: ReviewedObject, context: Context) -> PodTemplate | None:
    """Return the Pod template of a DaemonSet of which a manifest says enough; otherwise None."""
    template = context.template(subject) if group_kind(subject.object) == registry.DAEMON_SET else None
    if template is None or is_fragment(subject.object, template):
        return None
    unknown = subject.is_partial and ("priorityClassName" in template.spec or subject.whole is None)
    return None if unknown else template


@rule(
    Target.TEMPLATE,
    severity=Severity.WARNING,
    depends_on=("classes", "pods"),
    reads_parts=True,
    objects={Target.TEMPLATE: "DaemonSets"},
)
def daemon_set_without_class(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """A DaemonSet has no PriorityClass, or a lower priority than other workloads.

    Why: Pods of a higher priority can preempt the Pods of the DaemonSet, which can then stay Pending on a full node.
    The node then has, for example, no log collector or CNI plugin.

    Details: the rule compares the DaemonSet with the classes of other kinds of workloads in the input, and of Pods in
    the cluster. It ignores system classes, classes that never preempt, and DaemonSets of negative priority, which only
    reserve capacity. A default class of the Namespace, or a global
    default above 0, counts as the class of the DaemonSet. If the input names and defines no class, only CSI drivers,
    device plugins and CNI plugins get a warning, and other DaemonSets a note.

    Example:

          PriorityClass agents
          value: 100000
          ---
          DaemonSet logging/logs
          spec:
            selector:
              matchLabels:
                app: logs
            template:
              metadata:
                labels:
                  app: logs
              spec:
        +       priorityClassName: agents
                containers:
                - name: logs
                  image: fluent-bit

    Fix: use system-node-critical if the DaemonSet is in kube-system and the node does not work without it. Otherwise,
    use a class of your own above the classes of your workloads.
    """
    template = _daemons_template(subject, context)
    if template is None:
        return
    name = class_to_be(template, subject.effective_namespace, context)
    own = resolved(template, context, subject.effective_namespace)
    if name and (name not in context.classes or own is None):
        return  # unknown-priority-class
    priority = own.priority if own else 0
    if priority < 0:
        return  # placeholder Pods
    alternative, fix = _DAEMON_SET_FIXES[_is_outside_kube_system(subject, template, context)]
    highest = context.once(_highest_of_others)
    higher = highest if highest and highest.priority > priority else None
    if name or priority > 0:
        if higher and name not in SYSTEM_NAMES:
            fix = f"use a class above {higher.priority}{alternative}"
            of = f" of {higher.ref}" if higher.ref else ""
            message = f"priority {priority} is below class {quote(higher.name)} ({higher.priority}){of}"
            yield Problem(Text(message, fix), template.at("priorityClassName"), severity=Severity.NOTE)
        return
    who = f"Pods of class {quote(higher.name)} ({higher.priority})" if higher else "Pods of a higher class"
    text = Text(f"no PriorityClass: {who} can preempt its Pods; they can stay Pending on full nodes", fix)
    are_used = bool(context.options.class_uses) or any(name not in SYSTEM_NAMES for name in context.classes)
    is_warning = _is_agent(subject, template.spec) and (are_used or _registers(template.spec))
    yield Problem(text, template.at(), severity=None if is_warning else Severity.NOTE)


_DAEMON_SET_FIXES: Final = (
    (
        ", or system-node-critical",
        "set priorityClassName: system-node-critical if nodes need the DaemonSet, else a class of your own",
    ),
    ("", "set priorityClassName to a class of your own"),
)
"""The alternative to a higher class, and the fix for no class; the second row is for outside kube-system."""


class _Workload(NamedTuple):
    """The highest class that workloads other than DaemonSets use."""

    name: str
    priority: int
    ref: ObjectRef | None = None


def _highest_of_others(context: Context) -> _Workload | None:
    """Return the highest class that preempts, of the workloads in the change set and the Pods of the cluster."""
    classes = context.classes
    workloads = [_Workload(name, value or 0) for name, value in context.pod_counts_by_priority]
    for subject in context.change_set.subjects:
        with suppress(InvalidObject):
            template = context.template(subject) if group_kind(subject.object) != registry.DAEMON_SET else None
            name = class_or_default(template, subject.effective_namespace, context) if template else ""
            if name in classes:
                workloads.append(_Workload(classes[name].name, classes[name].value, subject.ref))
    known = (item for item in workloads if item.name in classes and item.name not in SYSTEM_NAMES)
    preempting = (item for item in known if classes[item.name].preemption_policy != PREEMPT_NEVER)
    return max(preempting, key=lambda item: (item.priority, item.ref is not None), default=None)


_AGENT: Final = later(
    r"(?<![a-z])(?:agent|[ck]ni|csi|dns|logs?|logg(?:er|ing)|speaker)(?![a-z])|driver|plugin|exporter|fluent|beat"
    r"|logstash|vector|promtail|collector|proxy|calico|cilium|flannel|weave|antrea|multus|monitor"
)
_NO_AGENT: Final = later(
    r"(?<![a-z])(?:init|setup|installer|bootstrap|generator|test\w*|permissions|migrat\w+|clean\w*|pull\w*|pre-?pull\w*)"
)
"""Names of DaemonSets that do their work once, or test others."""


def _is_agent(subject: ReviewedObject, spec: ApiObject) -> bool:
    """Report whether the names of a DaemonSet and its images are those of an agent that the nodes need."""
    images = (str(at(container, "image")) for container in list_at(spec, "containers"))
    names = (subject.ref.name, *(image.rpartition("/")[2] for image in images))
    is_agent = any(map(_AGENT.search, names)) and not _NO_AGENT.search(subject.ref.name)
    is_of_some = any("kubernetes.io/" not in str(key) for key in mapping_at(spec, "nodeSelector"))
    return is_agent and (not is_of_some or _registers(spec)) and not is_test_file(subject.locate(()).file)


_REGISTERED: Final = later(r"/var/lib/kubelet/(?:plugins|device-plugins)|/opt/cni/|/etc/cni/")
"""Directories of the nodes in which CSI drivers, device plugins and CNI plugins register."""


def _registers(spec: ApiObject) -> bool:
    """Report whether Pods mount the directories in which plugins of the node register."""
    return any(_REGISTERED.match(text_at(volume, "hostPath", "path")) for volume in list_at(spec, "volumes"))


_MAX_LENGTH: Final = 40


@rule(*POD_OR_TEMPLATE, severity=Severity.ERROR, depends_on=("namespaces",))
def class_required(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """Pods do not use a PriorityClass that `requiredClasses` in the configuration requires.

    Why: Pods without a class get the global default or priority 0, and Pods of a higher priority can preempt them.

    Details: an entry can select namespaces and kinds, and list permitted classes. The default class of a Namespace
    counts. The global default counts only for stored Pods, because kube-apiserver has written its name into them. The
    rule ignores objects that a controller owns, and incomplete workloads, such as kustomize patches.

    Options:

        requiredClasses:
        - namespaces: [shop, shop-*]
          kinds: [Deployment, StatefulSet]
          classes: [gold, silver]

    Bad:

        Deployment shop/web
        spec:
          selector:
            matchLabels:
              app: web
          template:
            metadata:
              labels:
                app: web
            spec:
              containers:
              - name: web
                image: web

    Good:

        PriorityClass gold
        value: 1000
        ---
        Deployment shop/web
        spec:
          selector:
            matchLabels:
              app: web
          template:
            metadata:
              labels:
                app: web
            spec:
              priorityClassName: gold
              containers:
              - name: web
                image: web

    Fix: set `priorityClassName` to a class that the entry permits.
    """
    template = context.template(subject) if context.options.required_classes else None
    if template is None or has_controller(subject.object) or is_fragment(subject.object, template):
        return
    namespace = subject.effective_namespace
    name = class_to_be(template, namespace, context)
    for entry in context.options.required_classes:
        applies = (not entry.namespaces or one_of(entry.namespaces, namespace)) and (
            not entry.kinds or one_of(entry.kinds, subject.ref.kind)
        )
        if not applies or is_template_variable(name, subject, context):
            continue
        permitted = listed([*map(quote, entry.classes)]) or "a PriorityClass"
        if not name:
            yield Problem("no PriorityClass, but the configuration requires one", template.at(), f"use {permitted}")
        elif entry.classes and not one_of(entry.classes, name):
            message = f"PriorityClass {quote(cut(name, _MAX_LENGTH))} is none of those that the configuration requires"
            yield Problem(message, template.at("priorityClassName"), f"use {permitted}")


@rule(*POD_SPECS, severity=Severity.ERROR, action=Action.DENY, depends_on=("classes",), reads_parts=True)
def priority_mismatch(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """`spec.priority` differs from the priority that kube-apiserver computes.

    Why: kube-apiserver computes the priority from the class, and rejects a Pod that sets another value.

    Cluster:

        PriorityClass gold
        value: 1000

    Example:

          Pod team/web
          spec:
            priorityClassName: gold
        -   priority: 5

    Fix: remove `spec.priority`. Without a class, set the class that has this value instead.
    """
    template = context.template(subject)
    given, path = _given_priority(subject, template) if template else (None, ())
    if template is None or given is None:
        return
    computed = resolved(template, context)
    if computed is not None and given != computed.priority and not is_earlier_than_the_default(template, context):
        name, rejected = class_name(template), pods_of(template)
        other = f"the value of class {quote(name)}" if name else "the default"
        yield Problem(
            f"priority {given} differs from {other} ({computed.priority}); {rejected} will be rejected",
            path,
            _fix_of_priority(given, name, context).replace("remove priority", f"remove {path[-1]}"),
            detail={
                "given": given,
                "computed": computed.priority,
                "rejection": priority_rejection(given, computed.priority),
            },
        )


def _given_priority(subject: ReviewedObject, template: PodTemplate) -> tuple[int | None, Path]:
    """Return the priority that an object sets for Pods, and its path; a Workflow of Argo sets it beside the class."""
    path = template.at("priorityClassName")
    if path[-1:] == ("podPriorityClassName",):
        beside = (*path[:-1], "podPriority")
        return integer(at(subject.object, *beside)), beside
    return integer(template.spec.get("priority")), template.at("priority")


def _fix_of_priority(priority: int, name: str, context: Context) -> str:
    """Return the fix for a priority: without a class, Pods without `priority` would get the default."""
    if name or priority <= 0:
        return "remove priority"
    classes = context.classes.values() if context.phase is Phase.LINT else SYSTEM_CLASSES  # others may be secret
    meant = next((each.name for each in classes if each.value == priority), "")
    return f"set priorityClassName: {meant}" if meant else f"use a class of value {priority}, and remove priority"


_MAX_POLICY_LENGTH: Final = 40


@rule(*POD_SPECS, severity=Severity.ERROR, action=Action.DENY, depends_on=("classes",), reads_parts=True)
def preemption_policy_mismatch(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """`spec.preemptionPolicy` is invalid, or differs from the policy of the Pod's class.

    Why: kube-apiserver reads the policy from the class, or from the global default, and rejects a Pod that sets another
    policy. Without either, the policy is `PreemptLowerPriority`.

    Cluster:

        PriorityClass batch
        value: 10
        preemptionPolicy: Never

    Example:

          Pod team/report
          spec:
            priorityClassName: batch
        -   preemptionPolicy: PreemptLowerPriority

    Fix: remove `spec.preemptionPolicy`.
    """
    template = context.template(subject)
    given = template.spec.get("preemptionPolicy") if template else None
    if template is None or not isinstance(given, str):
        return
    computed = resolved(template, context)
    rejected = pods_of(template)
    is_invalid = given not in POLICIES and not is_template_variable(given, subject, context, str(POLICIES))
    differs = computed is not None and given != computed.preemption_policy
    if is_invalid and not differs and context.phase is Phase.LINT:
        shown = quote(cut(given, _MAX_POLICY_LENGTH))
        hint = nearest(given.capitalize(), POLICIES)
        message = f"{rejected[0].upper()}{rejected[1:]} will be rejected: unsupported preemptionPolicy {shown}{hint}"
        yield Problem(message, template.at("preemptionPolicy"), "remove it")
    if computed is not None and differs:
        yield Problem(
            f"preemptionPolicy differs from the class's ({computed.preemption_policy}); {rejected} will be rejected",
            template.at("preemptionPolicy"),
            "remove it"
            + f", or set preemptionPolicy: {given} in the class" * bool(context.defined and given in POLICIES),
            detail={"rejection": policy_rejection(given, computed.preemption_policy)},
        )


@rule(Target.TEMPLATE, Target.PART, Target.POD, severity=Severity.WARNING, action=Action.WARN, reads_parts=True)
def pinned_priority(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """A Pod template, or a Pod without a class, sets `spec.priority`.

    Why: kube-apiserver rejects Pods whose `spec.priority` differs from the value of their class. The class can have
    another value in another cluster, or after you recreate it.

    Details: the rule accepts system classes with their values, and Pods with priority 0. If you pass a cluster or
    PriorityClasses, priority-mismatch checks Pods without a class.

    Cluster:

        PriorityClass gold
        value: 1000

    Example:

          Job team/report
          spec:
            template:
              spec:
                priorityClassName: gold
        -       priority: 1000

    Fix: remove `spec.priority`. Without a class, set the class that has this value instead.
    """
    template = context.template(subject)
    given = integer(template.spec.get("priority")) if template else None
    if template is None or given is None:
        return
    if any((system.name, system.value) == (class_name(template), given) for system in SYSTEM_CLASSES):
        return
    if template.is_template:
        message = f"template sets priority {given}; Pods are rejected if the class has another value"
    elif given and context.phase is Phase.LINT and not class_name(template) and resolved(template, context) is None:
        message = f"priority {given} without a class; the Pod is rejected unless the default class has this value"
    else:
        return
    yield Problem(message, template.at("priority"), _fix_of_priority(given, class_name(template), context))


@rule(Target.UPDATED_POD, severity=Severity.ERROR, action=Action.DENY)
def priority_field_changed(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """An update changes `priority`, `priorityClassName` or `preemptionPolicy` of a Pod.

    Why: kube-apiserver rejects the update, because these fields are immutable.

    Details: the linter needs `--cluster`, or an earlier definition of the Pod in the input.

    Cluster:

        PriorityClass gold
        value: 1000
        ---
        Pod team/web
        spec:
          priority: 0
          preemptionPolicy: PreemptLowerPriority

    Bad:

        Pod team/web
        spec:
          priorityClassName: gold

    Good:

        Pod team/web
        spec:
          activeDeadlineSeconds: 600

    Fix: delete the Pod, and create it again with the new class.
    """
    old = subject.old or {}
    stored_class = at(old, "spec", "priorityClassName") or None
    for name, may_be_absent in (
        ("priorityClassName", _is_default(stored_class, subject, context)),
        ("priority", True),
        ("preemptionPolicy", True),
    ):
        new, stored = at(subject.object, "spec", name), at(old, "spec", name)
        if may_be_absent and new is None:
            continue
        if name == "priorityClassName":
            new, stored = new or None, stored_class
        if new != stored:
            before = "unset" if stored in (None, "") else stored
            message = f"spec.{name} of a Pod cannot be changed; it is {before}"
            yield Problem(message, ("spec", name), "delete the Pod and create it again")


def _is_default(stored_class: Any, subject: ReviewedObject, context: Context) -> bool:
    """Report whether the stored class is the default, which `kubectl apply` keeps if the manifest names no class."""
    template = context.template(subject) if stored_class and context.phase is Phase.LINT else None
    return template is not None and stored_class == class_or_default(template, subject.effective_namespace, context)


@rule(Target.POD, action=Action.DENY, depends_on=("classes",))
def final_priority_mismatch(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """Mutating webhooks give a new Pod a priority that differs from the value of its class, or from the default.

    Why: if kube-apiserver calls a mutating webhook again (`reinvocationPolicy: IfNeeded`), it does not check afterwards
    whether the Pod's priority matches its class. kube-scheduler uses the priority of the Pod.

    Cluster:

        PriorityClass gold
        value: 1000

    Example (validate):

          Pod team/web
          spec:
            priorityClassName: gold
        +   priority: 1000
        +   preemptionPolicy: PreemptLowerPriority

    Fix: change the mutating webhook: in its first call, it must set `priorityClassName`, and remove `priority` and
    `preemptionPolicy`. In a second call, it must not change these fields.
    """
    template = context.template(subject)
    if template is None:
        return
    computed, given = resolved(template, context), at(subject.object, "spec", "priority")
    if computed is not None and given != computed.priority and not is_earlier_than_the_default(template, context):
        name = class_name(template)
        left = "no spec.priority" if given is None else f"spec.priority is {given}"
        right = f"class {quote(name)} is {computed.priority}" if name else f"the default is {computed.priority}"
        yield Problem(
            f"{left}; {right}",  # who set it is unknown if kube-apiserver did not send the review
            ("spec", "priority"),
            "leave it to kube-apiserver; mutating webhooks may clear it only when they first set the class",
            detail={"given": given, "computed": computed.priority},
        )


@rule(*POD_SPECS, Target.UNRENDERED, severity=Severity.NOTE, objects=NAMING)
def priority_class_not_checked(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """forewarn cannot check whether a PriorityClass exists.

    Why: the class may exist in the cluster, which the linter does not know.

    Details: the rule applies if you pass no cluster, and the directory of the object uses no PriorityClass of the
    input. `--closed` and `knownClasses` disable it.

    Bad:

        Pod team/web
        spec:
          priorityClassName: gold

    Good:

        Pod team/web
        spec: {}

    Fix: also lint the manifests of the PriorityClasses (`forewarn lint classes.yaml web.yaml`), or pass a cluster
    (`--cluster FILE`).
    """
    template = context.template(subject)
    name = class_name(template) if template else ""
    if template is None or not name or context.classes_known or context.is_known(name) or is_impossible_name(name):
        return
    if is_reserved(name) or is_template_variable(name, subject, context):
        return
    if name in context.options.deleted_classes or meant_system_class(name, context) or meant_elsewhere(name, context):
        return  # unknown-priority-class
    if name in context.once(workload_classes):
        return  # workload-priority-class-misplaced
    is_elsewhere = name in context.options.input_classes
    yield Problem(
        f"can't verify PriorityClass {quote(name)}" + (": only other directories define it" if is_elsewhere else ""),
        template.at("priorityClassName"),
        "pass --cluster, or --one-apply" if is_elsewhere else "pass --cluster or include the class manifests",
        detail={"class": name},
    )


_OF_KUBELET: Final = ("system-node-critical", 2_000_001_000)
"""The class and the value that the kubelet expects of a static Pod. Source: kubernetes/kubernetes#136705."""
_STATIC_FIX: Final = "set priorityClassName: system-node-critical and priority: 2000001000"


@rule(Target.STATIC_POD, severity=Severity.WARNING, depends_on=("classes",))
def static_pod_priority(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """A static Pod does not set both the class system-node-critical and its value.

    Why: no API server sets the defaults of a static Pod, so the kubelet reads only `priority`. Without it, the Pod has
    priority 0, and a graceful shutdown of the node stops it first. kube-apiserver rejects the mirror Pod if `priority`
    differs from the value of its class. Evictions of a mirror Pod of another class have no effect.

    Details: static Pods are Pods in a directory of the kubelet, such as `etc/kubernetes/manifests` or `static-pods`,
    and Pods with the annotation `kubernetes.io/config.source: file`.

    Example:

          Pod kube-system/proxy
            annotations:
              kubernetes.io/config.source: file
          spec:
            priorityClassName: system-node-critical
        +   priority: 2000001000
            containers:
            - name: proxy
              image: proxy

    Fix: set `priorityClassName: system-node-critical` and `priority: 2000001000`.
    """
    template = context.template(subject)
    if template is None:
        return
    name, value = class_name(template), integer(template.spec.get("priority"))
    if (name, value) == _OF_KUBELET:
        return
    computed = resolved(template, context)
    if computed is not None and value not in (None, computed.priority):
        by = f"class {quote(name)}" if name else "the default class"
        message = f"static Pod: kube-apiserver rejects its mirror Pod: priority {value}, {by} has {computed.priority}"
    elif value is None and name:
        message = f"static Pod: the kubelet does not resolve class {quote(name)}, so its priority is 0"
    elif not value and not name:
        message = "static Pod without priority: a graceful shutdown of the node stops it first"
    elif not name:
        unless = "" if (value or 0) > HIGHEST_USER_DEFINABLE_PRIORITY else ", unless it is that of the default class"
        message = (
            f"static Pod: kube-apiserver rejects its mirror Pod: priority {value} without priorityClassName{unless}"
        )
    else:
        message = f"static Pod of class {quote(name)} with priority {value}: evictions of its mirror Pod have no effect"
    field = "priorityClassName" if name else "priority"
    yield Problem(message, template.at(*([field] if name or value is not None else [])), _STATIC_FIX)


_SHOWN: Final = 60
_CONTROLLERS: Final = {
    "argoproj.io/Workflow": "workflow-controller",
    "argoproj.io/WorkflowTemplate": "workflow-controller",
    "argoproj.io/CronWorkflow": "workflow-controller",
    "batch.volcano.sh/Job": "volcano-controllers",
    "jobset.x-k8s.io/JobSet": "jobset-controller-manager",
    "kubeflow.org/PyTorchJob": "training-operator",
    "leaderworkerset.x-k8s.io/LeaderWorkerSet": "lws-controller-manager",
    "ray.io/RayCluster": "kuberay-operator",
    "ray.io/RayJob": "kuberay-operator",
    "sparkoperator.k8s.io/SparkApplication": "spark-operator-controller",
    "tekton.dev/PipelineRun": "tekton-pipelines-controller",
}
"""Kind -> how the name of the Deployment of its controller ends, after the name of a Helm release."""


@rule(
    Target.OTHER,
    severity=Severity.NOTE,
    depends_on=("classes", "workloads"),
    objects={Target.OTHER: "custom resources"},
)
def class_above_controller(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """Pods of a custom resource have a higher priority than the controller that creates them.

    Why: on a full cluster, the Pods can preempt their own controller. Then nothing starts or ends them.

    Details: the rule knows the controllers of Argo Workflows, JobSet, Kubeflow, KubeRay, LeaderWorkerSet, Spark, Tekton
    and Volcano by their names, in the input and in the cluster.

    Example:

          PriorityClass steps
          value: 100
          ---
        + PriorityClass controllers
        + value: 1000
        + ---
          Deployment argo/workflow-controller
          spec:
            selector:
              matchLabels:
                app: controller
            template:
              metadata:
                labels:
                  app: controller
              spec:
        +       priorityClassName: controllers
                containers:
                - name: controller
                  image: controller
          ---
          apiVersion: argoproj.io/v1alpha1
          kind: Workflow
          metadata:
            name: etl
            namespace: jobs
          spec:
            podPriorityClassName: steps

    Fix: give the controller a PriorityClass of at least the same value.
    """
    end = _CONTROLLERS.get(group_kind(subject.object))
    if end is None:
        return
    controllers = {name: priority for name, priority in context.once(_priorities).items() if name.endswith(end)}
    for part in parts_of(subject.object, context.options.class_paths) if controllers else ():
        computed = resolved(part, context) if class_name(part) else None
        name, priority = min(controllers.items(), key=itemgetter(1))
        if computed is not None and computed.priority > priority:
            message = f"its Pods ({computed.priority}) can preempt their controller {cut(name, _SHOWN)} ({priority})"
            fix = f"set a PriorityClass of {computed.priority} or more at the controller"
            yield Problem(message, part.at("priorityClassName"), fix)


def _priorities(context: Context) -> Mapping[str, int]:
    """Return the priority of each Deployment of a controller, by namespace and name."""
    objects = [workload.object for workload in (context.cluster.workloads.values() if context.cluster else ())]
    objects += [subject.object for subject in context.of_kind(registry.DEPLOYMENT) if not subject.is_partial]
    ends, priorities = tuple({*_CONTROLLERS.values()}), dict[str, int]()
    for obj in objects:
        name, namespace = text_at(obj, "metadata", "name"), text_at(obj, "metadata", "namespace")
        if group_kind(obj) == registry.DEPLOYMENT and name.endswith(ends):
            template = pod_template_of(obj, context.options.pod_template_paths)
            computed = resolved(template, context, namespace) if template else None
            if computed is not None:
                priorities[f"{namespace}/{name}".removeprefix("/")] = computed.priority
    return priorities


_SETS_CLASS: Final = later(r"path[\"']?:[ \t]{0,9}[\"']?/spec/priorityClassName\b")


@rule(Target.OTHER, severity=Severity.WARNING, objects={Target.OTHER: "policies of Kyverno"})
def class_set_at_pods(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """A policy of Kyverno sets the PriorityClass of Pods, after kube-apiserver has computed their priority.

    Why: kube-apiserver computes the priority before it calls Kyverno, and rejects the Pod if the priority is not that
    of the new class. If the policy also removes `priority`, the Pod can run with the priority 0.

    Details: the rule reads `patchesJson6902`, which Kyverno applies only to Pods, not to their controllers.

    Example:

          apiVersion: kyverno.io/v1
          kind: ClusterPolicy
          metadata:
            name: add-class
          spec:
            rules:
            - name: add-class
              match:
                any:
                - resources:
        -           kinds: [Pod]
        +           kinds: [Deployment]
              mutate:
                patchesJson6902: |-
                  - op: add
        -           path: /spec/priorityClassName
        +           path: /spec/template/spec/priorityClassName
                    value: batch

    Fix: change the Pod templates of workloads.
    """
    if group_kind(subject.object) not in registry.KYVERNO_POLICIES:
        return
    for number, each in enumerate(list_at(subject.object, "spec", "rules")):
        if _SETS_CLASS.search(text_at(each, "mutate", "patchesJson6902")):
            path = ("spec", "rules", number, "mutate", "patchesJson6902")
            message = "sets the class of Pods after kube-apiserver has computed their priority"
            yield Problem(message, path, "change the Pod templates of workloads instead")
