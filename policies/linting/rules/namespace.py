"""Rules about forewarn's annotations of Namespaces, and about the namespaces that admission webhooks select."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from forewarn.policies.base.findings import Action, Problem, Severity, cut
from forewarn.policies.kubernetes.kinds import registry
from forewarn.policies.kubernetes.objects.fields import ApiObject, at, group_kind, list_at, moment_of, text_at
from forewarn.policies.kubernetes.objects.namespace import (
    DEFAULT_CLASS_ANNOTATION,
    EXEMPT_UNTIL_ANNOTATION,
    NAME_LABEL,
    namespace_not_found,
    not_honoured,
)
from forewarn.policies.kubernetes.objects.reviewed_object import ReviewedObject, User
from forewarn.policies.kubernetes.selectors import one_of, selector_or_error
from forewarn.policies.linting.rules.support.context import Context, Target, rule
from forewarn.policies.linting.rules.support.details import UnknownClass
from forewarn.policies.linting.rules.support.names import recommended_to
from forewarn.policies.linting.rules.support.rule_text import is_template_variable, workloads_in

_MAX_VALUE_LENGTH: Final = 60
_PATH: Final = ("metadata", "annotations", EXEMPT_UNTIL_ANNOTATION)


@rule(Target.NAMESPACE, action=Action.DENY)
def exemption_not_allowed(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """A user exempts a Namespace from forewarn without permission.

    Why: the annotation `forewarn.dev/exempt-until` exempts the objects in a Namespace from the rules of the webhook.
    Without this rule, users who may update the Namespace could set it.

    Details: the rule accepts members of `breakGlass.groups` in the configuration.

    Bad (validate):

        Namespace team
          annotations:
            forewarn.dev/exempt-until: "2026-01-02T12:00:00Z"

    Good (validate):

        Namespace team

    Fix: ask a member of `breakGlass.groups` to exempt the Namespace.
    """
    until, before = text_at(subject.object, *_PATH), text_at(subject.old or {}, *_PATH)
    end = moment_of(until)
    if end is None or end <= context.now or until == before:
        return
    user = subject.user or User()
    if not any(one_of(context.options.break_glass.groups, group) for group in user.groups):
        message = (
            f"user {cut(user.name, _MAX_VALUE_LENGTH) or 'unknown'} may not set annotation {EXEMPT_UNTIL_ANNOTATION}"
        )
        yield Problem(message, _PATH, "remove it, or ask a member of breakGlass.groups")


_WITHOUT_EFFECT_FIX: Final = "set a time such as 2026-01-02T12:00:00Z, within breakGlass.maxDuration"


@rule(Target.NAMESPACE, severity=Severity.WARNING, action=Action.WARN)
def exemption_without_effect(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """The exemption of a Namespace has no effect, because its end is invalid, or too far in the future.

    Why: the annotation `forewarn.dev/exempt-until` is for emergencies. Its time may be at most `breakGlass.maxDuration`
    (default: 30 days) in the future.

    Bad:

        Namespace team
          annotations:
            forewarn.dev/exempt-until: "2999-01-01T00:00:00Z"

    Good:

        Namespace team
          annotations:
            forewarn.dev/exempt-until: "2026-01-02T12:00:00Z"

    Fix: set a time such as 2026-01-02T12:00:00Z, within `breakGlass.maxDuration`.
    """
    until = text_at(subject.object, *_PATH)
    if until and until != text_at(subject.old or {}, *_PATH):
        why = not_honoured(until, context.now, context.options.break_glass.max_duration)
        if why:
            yield Problem(f"{EXEMPT_UNTIL_ANNOTATION} {why}", _PATH, _WITHOUT_EFFECT_FIX)


@rule(Target.NAMESPACE, severity=Severity.ERROR, action=Action.WARN, depends_on=("classes",))
def unknown_default_class(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """The default PriorityClass of a Namespace does not exist.

    Why: the webhook assigns the class in the annotation `forewarn.dev/default-priority-class` to new Pods without a
    class. If this class does not exist, these Pods get the global default, or priority 0.

    Cluster:

        PriorityClass gold
        value: 1000

    Bad:

        Namespace team
          annotations:
            forewarn.dev/default-priority-class: golden

    Good:

        Namespace team
          annotations:
            forewarn.dev/default-priority-class: gold

    Fix: create the class before you set the annotation, or use an existing class.
    """
    name = text_at(subject.object, "metadata", "annotations", DEFAULT_CLASS_ANNOTATION)
    if not name or not context.classes_known or context.is_known(name):
        return
    if not is_template_variable(name, subject, context):
        names, fix = recommended_to(subject, context), "create it, or use one that exists"
        details = UnknownClass(name, "; Pods here get the cluster's default", names, fix)
        yield Problem(details, ("metadata", "annotations", DEFAULT_CLASS_ANNOTATION))


@rule(
    Target.POD,
    Target.TEMPLATE,
    Target.POD_GROUP,
    Target.RESOURCE_QUOTA,
    severity=Severity.ERROR,
    depends_on=("namespaces",),
)
def unknown_namespace(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """The Namespace of an object does not exist.

    Why: kube-apiserver rejects the object. `kubectl apply` creates the other objects of the same files.

    Details: the linter reports this only with `--cluster`, if the cluster state has a list of Namespaces, and if the
    input does not create the Namespace.

    Cluster:

        Namespace shop

    Bad:

        Pod shopp/web

    Good:

        Pod shop/web

    Fix: create the Namespace before the object, or correct `metadata.namespace`.
    """
    name, cluster = subject.effective_namespace, context.cluster
    if cluster is None or not registry.is_namespaced(group_kind(subject.object)):
        return
    if cluster.lacks_namespace(name, context.new_namespaces) and not is_template_variable(name, subject, context):
        yield Problem(namespace_not_found(name), ("metadata", "namespace"), "create it first, or correct the name")


@rule(
    Target.OTHER,
    severity=Severity.WARNING,
    depends_on=("pods",),
    objects={Target.OTHER: "admission webhook configurations"},
)
def webhook_blocks_itself(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """An admission webhook with `failurePolicy: Fail` is called for the Pods that serve it.

    Why: with `failurePolicy: Fail`, kube-apiserver rejects new Pods while the webhook does not answer. If all Pods of
    the server are down, their replacements are rejected, too.

    Details: the rule compares the selectors of webhooks for Pods with the namespace of their Service, if the input or
    the cluster has Pods there. It does not evaluate `matchConditions`, and ignores webhooks that have some.

    Example:

          apiVersion: admissionregistration.k8s.io/v1
          kind: ValidatingWebhookConfiguration
          metadata:
            name: pod-guard
          webhooks:
          - name: pods.guard.example.com
            admissionReviewVersions: [v1]
            sideEffects: None
            clientConfig:
              service:
                name: pod-guard
                namespace: guard
        +   namespaceSelector:
        +     matchExpressions:
        +     - key: kubernetes.io/metadata.name
        +       operator: NotIn
        +       values: [guard]
            rules:
            - apiGroups: [""]
              apiVersions: [v1]
              operations: [CREATE]
              resources: [pods]
          ---
          Deployment guard/pod-guard
          spec:
            selector:
              matchLabels:
                app: pod-guard
            template:
              metadata:
                labels:
                  app: pod-guard
              spec:
                containers:
                - name: pod-guard
                  image: pod-guard

    Fix: exclude the namespace with `namespaceSelector`, or the Pods with `objectSelector`.
    """
    if group_kind(subject.object) not in registry.WEBHOOK_CONFIGURATIONS:
        return
    for number, hook in enumerate(list_at(subject.object, "webhooks")):
        namespace = text_at(hook, "clientConfig", "service", "namespace")
        may_fail = at(hook, "failurePolicy") in (None, "Fail") and not list_at(hook, "matchConditions")
        is_for_pods = bool(namespace) and may_fail and any(map(_is_for_pods, list_at(hook, "rules")))
        if (
            is_for_pods
            and _matches_namespace(at(hook, "namespaceSelector"), namespace, context)
            and _matches_pods(at(hook, "objectSelector"), namespace, context)
        ):
            place = cut(namespace, _MAX_NAMESPACE_LENGTH)
            message = f"called for the Pods that serve it: if all in {place} are down, none can start"
            field = next((each for each in ("namespaceSelector", "failurePolicy") if each in hook), "name")
            fix = f"exclude {place} in namespaceSelector, by the label {NAME_LABEL}"
            yield Problem(message, ("webhooks", number, field), fix)


_MAX_NAMESPACE_LENGTH: Final = 40
_FOR_PODS: Final[Mapping[str, Sequence[str]]] = {
    "apiGroups": ("", "*"),
    "apiVersions": ("v1", "*"),
    "operations": ("CREATE", "*"),
    "resources": ("pods", "*", "*/*"),
}
"""Field of a rule of a webhook -> the values with which it matches the creation of Pods."""


def _is_for_pods(webhook_rule: ApiObject) -> bool:
    is_matched = all(
        any(each in values for each in list_at(webhook_rule, field)) for field, values in _FOR_PODS.items()
    )
    return is_matched and at(webhook_rule, "scope") != "Cluster"


def _matches_namespace(selector: Any, namespace: str, context: Context) -> bool:
    """Report whether a selector certainly selects a namespace: by its known labels, or by its name."""
    parsed, _ = selector_or_error(selector or {})
    is_stored = context.cluster is not None and context.cluster.namespace(namespace) is not None
    found = context.namespace(namespace) if is_stored or namespace in context.new_namespaces else None
    if parsed is None or (found is None and any(each.key != NAME_LABEL for each in parsed.requirements)):
        return False
    return parsed.matches(found.labels if found is not None else {NAME_LABEL: namespace})


def _matches_pods(selector: Any, namespace: str, context: Context) -> bool:
    """Report whether a selector selects all known Pods of a namespace, of which there are some."""
    parsed, _ = selector_or_error(selector or {})
    stored = context.cluster.pods_of(namespace).values() if context.cluster is not None else ()
    labels = [*(each.labels for each in workloads_in([namespace], context)), *(pod.labels for pod in stored)]
    return parsed is not None and bool(labels) and all(map(parsed.matches, labels))
