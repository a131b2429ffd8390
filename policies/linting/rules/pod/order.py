"""Rules about the order in which an apply creates objects."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from forewarn.policies.base.findings import Problem, Severity, cut, quote
from forewarn.policies.inputs.manifests.deploy_order import MAX_LENGTH, FluxOrder, step_of
from forewarn.policies.kubernetes.kinds.registry import FLUX_KUSTOMIZATION, POD, PRIORITY_CLASS
from forewarn.policies.kubernetes.objects.fields import InvalidObject, group_kind, mapping_at, text_at
from forewarn.policies.kubernetes.objects.priority_class import PriorityClass
from forewarn.policies.linting.rules.support.context import POD_OR_TEMPLATE, Context, Target, rule
from forewarn.policies.linting.rules.support.rule_text import class_name, diagnostics, location_suffix, name_of

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.objects.reviewed_object import ReviewedObject


@rule(*POD_OR_TEMPLATE, severity=Severity.WARNING, depends_on=("classes",))
def class_created_later(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """A class is created after Pods that use it.

    Why: kube-apiserver rejects Pods of a class that does not exist yet. Helm hooks, sync waves of Argo CD and Flux
    Kustomizations can wait for these Pods, so that the step with the class never starts.

    Details: hooks and waves are compared within a chart, a directory, or the output of a kustomization. The order in a
    file or directory matters only for Pods without a controller, because controllers try again.

    Bad:

        PriorityClass batch
        value: 10
        ---
        Job team/migrate
          annotations:
            helm.sh/hook: pre-install
        spec:
          template:
            spec:
              priorityClassName: batch
              restartPolicy: Never
              containers:
              - name: migrate
                image: migrate

    Good:

        PriorityClass batch
          annotations:
            helm.sh/hook: pre-install
            helm.sh/hook-weight: "-10"
        value: 10
        ---
        Job team/migrate
          annotations:
            helm.sh/hook: pre-install
        spec:
          template:
            spec:
              priorityClassName: batch
              restartPolicy: Never
              containers:
              - name: migrate
                image: migrate

    Fix: create the class in an earlier hook, sync wave or Flux Kustomization, or before the Pod in the file.
    """
    template = context.template(subject)
    name = class_name(template) if template else ""
    if template is None or not name or name in context.stored_classes:
        return
    definition = context.once(_Order).only.get(name)
    if definition is None:
        return
    why, severity = _reason(definition, subject, context)
    if why:
        message = f"PriorityClass {quote(name)}{location_suffix(definition.locate(()))} is created later: {why}"
        yield Problem(message, template.at("priorityClassName"), "create the class earlier", severity=severity)


@rule(
    Target.PRIORITY_CLASS,
    Target.FILE,
    severity=Severity.WARNING,
    depends_on=("classes",),
    objects={Target.FILE: "templates of charts"},
)
def class_in_hook(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """Helm deletes a PriorityClass of a chart, or cannot create it.

    Why: Helm does not update the objects of a hook, and deletes objects that a template no longer prints, such as those
    behind the function lookup. Without `before-hook-creation`, the next run of the hook fails
    because the class already exists: at each upgrade, or at an installation after an uninstallation, which leaves
    objects of hooks. A release of Helm does not take over the class of another release. With `hook-succeeded`, Helm
    deletes the class at once, and kube-apiserver rejects new Pods.

    Bad:

        PriorityClass critical
          annotations:
            helm.sh/hook: pre-install,pre-upgrade
            helm.sh/hook-delete-policy: hook-failed
        value: 1000

    Good:

        PriorityClass critical
        value: 1000

    Fix: make the class a normal object of the chart. If other hooks need it, set
    `helm.sh/hook-delete-policy: before-hook-creation`.
    """
    if not subject.object:
        yield from diagnostics("class-in-hook", context)
    yield from _another_release_problems(subject, context)
    annotations = mapping_at(subject.object, "metadata", "annotations")
    hook, policy = annotations.get("helm.sh/hook"), annotations.get("helm.sh/hook-delete-policy")
    phases = {part.strip() for part in hook.split(",")} if isinstance(hook, str) else set()
    policies = {part.strip() for part in policy.split(",")} if isinstance(policy, str) else set()
    if not phases & _CREATING or not policies:
        return  # the default policy is before-hook-creation
    if "hook-succeeded" in policies:
        message = "Helm deletes the class as soon as its hook has succeeded: Pods that name it are rejected"
    elif "before-hook-creation" not in policies:
        events = ("upgrade", "rollback")
        event = next((event for event in events if phases & {f"pre-{event}", f"post-{event}"}), None)
        when = f"each {event}" if event else "an installation after an uninstallation"
        message = (
            f"hook-delete-policy {cut(str(policy), MAX_LENGTH)} keeps the old class: {when} fails, it already exists"
        )
    else:
        return
    yield Problem(message, ("metadata", "annotations", "helm.sh/hook-delete-policy"), _HOOK_FIX)


def _another_release_problems(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """Yield a class of the cluster that belongs to another release of Helm than that of the subject."""
    stored = context.stored_classes.get(name_of(subject))
    if stored is None or stored.release is None or not subject.object:
        return
    with suppress(InvalidObject):
        own = PriorityClass.from_api(subject.object).release
        if own == stored.release:
            return
        message, fix = (
            f"belongs to Helm release {cut(stored.release, MAX_LENGTH)}",
            "use another name, or do not create it",
        )
        if own:
            yield Problem(f"{message}: helm does not import it into {cut(own, MAX_LENGTH)}", ("metadata", "name"), fix)
        elif text_at(subject.object, "metadata", "labels", "app.kubernetes.io/managed-by") == "Helm":
            message = f"{message}: helm imports it into no other release"
            yield Problem(message, ("metadata", "name"), fix, severity=Severity.NOTE)


_CREATING: Final = frozenset(
    f"{when}-{event}" for when in ("pre", "post") for event in ("install", "upgrade", "rollback")
)
_HOOK_FIX: Final = "make the class a normal object of the chart, or set hook-delete-policy: before-hook-creation"


def _reason(definition: ReviewedObject, subject: ReviewedObject, context: Context) -> tuple[str, Severity | None]:
    """Why a class is created after Pods; "" if it is not, or if unknown."""
    of_class, of_pods = step_of(definition.object), step_of(subject.object)
    if of_class and of_pods and of_class.key != of_pods.key and _are_deployed_together(definition, subject):
        is_later = of_class.key > of_pods.key
        why = f"it is {of_class.shown}, but the Pods are {of_pods.shown}" if is_later else ""
        return why.replace("in no hook", "in wave 0") if "in wave" in why else why, None
    if chain := context.once(_Order).depends(definition, subject):
        return f"Flux Kustomization {chain}", None
    if group_kind(subject.object) == POD and not subject.within:
        one, other = subject.locate(()), definition.locate(())
        if one.file == other.file:
            return ("kubectl apply rejects the Pod" if other.line > one.line else ""), None
        if os.path.dirname(one.file) == os.path.dirname(other.file) and other.file > one.file:
            return "kubectl apply sorts files by name", Severity.NOTE
    return "", None


def _are_deployed_together(one: ReviewedObject, other: ReviewedObject) -> bool:
    """Report whether one release of a chart or one Application of Argo CD probably contains both objects."""
    if one.builds or other.builds:
        return not one.builds.isdisjoint(other.builds)
    first, second = (os.path.dirname(each.locate(()).file).partition("/templates")[0] for each in (one, other))
    return first == second


class _Order:
    """The classes that a change set defines once, and the dependencies of its Flux Kustomizations."""

    def __init__(self, context: Context) -> None:
        count = Counter(s.ref.name for s in context.of_kind(PRIORITY_CLASS))
        self.only = {s.ref.name: s for s in context.of_kind(PRIORITY_CLASS) if count[s.ref.name] == 1}
        self._flux = FluxOrder(subject.object for subject in context.of_kind(FLUX_KUSTOMIZATION))

    def depends(self, definition: ReviewedObject, subject: ReviewedObject) -> str:
        """`a depends on b` if the Kustomization of the class is applied after the one of the Pods; otherwise ""."""
        one, other = (self._flux.nearest(os.path.dirname(item.locate(()).file)) for item in (definition, subject))
        is_later = one and other and self._flux.needs(one, other)
        return f"{cut(one, MAX_LENGTH)} depends on {cut(other, MAX_LENGTH)}" if is_later else ""
