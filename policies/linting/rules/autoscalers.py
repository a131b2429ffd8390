"""Rules about HorizontalPodAutoscalers and ScaledObjects."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from forewarn.policies.base.findings import Problem, Severity, cut, grouped
from forewarn.policies.kubernetes.kinds.registry import (
    CRON_JOB,
    DAEMON_SET,
    DEPLOYMENT,
    JOB,
    POD,
    SCALED_OBJECT,
    STATEFUL_SET,
    removed_version,
)
from forewarn.policies.kubernetes.objects.fields import at, group_kind
from forewarn.policies.linting.rules.support.context import Context, Phase, Target, rule
from forewarn.policies.linting.rules.support.names import Lookups, Names, is_similar
from forewarn.policies.linting.rules.support.rule_text import MAX_CHARACTERS, is_template_variable
from forewarn.policies.linting.rules.support.scalers import Scaler, scaler_of, scalers_of_workloads

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.objects.reviewed_object import ReviewedObject

_SHOWN: Final = 60
_NOT_SCALED: Final = (CRON_JOB, DAEMON_SET, JOB, POD)
_ROLLOUT: Final = "argoproj.io/Rollout"


@rule(
    Target.OTHER, severity=Severity.WARNING, objects={Target.OTHER: "HorizontalPodAutoscalers, ScaledObjects of KEDA"}
)
def autoscaler_without_effect(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """A HorizontalPodAutoscaler or ScaledObject names no workload, or that of another one, or its limits contradict.

    Why: the kind in `scaleTargetRef` is case-sensitive. If no workload has the kind and the name, nothing is scaled.
    Two HorizontalPodAutoscalers of one workload do not scale it either, and KEDA rejects a second one.

    Details: the rule reports a target only if the namespace has a workload whose kind or name is similar.

    Example:

          Deployment team/web
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
          ---
          apiVersion: autoscaling/v2
          kind: HorizontalPodAutoscaler
          metadata:
            name: web
            namespace: team
          spec:
            maxReplicas: 4
            scaleTargetRef:
              apiVersion: apps/v1
        -     kind: deployment
        +     kind: Deployment
              name: web

    Fix: write the kind and the name of the workload.
    """
    scaler = scaler_of(subject) if context.phase is Phase.LINT else None
    if scaler is None:
        return
    least, most = scaler.minimum, scaler.maximum
    if group_kind(subject.object) == SCALED_OBJECT and least is not None and most is not None and least > most:
        message = f"{scaler.limits[0][-1]} {least} is above {scaler.limits[1][-1]} {most}: KEDA rejects the object"
        yield Problem(message, scaler.limits[0], "make the limits agree")
    yield from _second(subject, scaler, context)
    yield from _without_target(subject, scaler, context)


def _without_target(subject: ReviewedObject, scaler: Scaler, context: Context) -> Iterator[Problem]:
    """Report a target that is absent or cannot be scaled."""
    by_name, names = context.once(_by_namespace).get(subject.effective_namespace, _NONE)
    named = by_name.get(scaler.name, ())
    if any(map(scaler.scales, named)) or is_template_variable(scaler.name, subject, context):
        return
    group, _, target = scaler.kind.rpartition("/")
    if scaler.kind in _NOT_SCALED:
        message = f"{target} {cut(scaler.name, _SHOWN)} has no subresource scale: the object has no effect"
        yield Problem(message, ("spec", "scaleTargetRef"), "remove the object, or name a Deployment or StatefulSet")
        return
    near = next((each for each in named if each.ref.kind.lower() in (target.lower(), "rollout")), None)
    if not named and len(scaler.name) >= _DISTINCT and is_similar(scaler.name, names.nearest_name(scaler.name)):
        meant = by_name[names.nearest_name(scaler.name)]
        near = next((each for each in meant if group_kind(each.object) == scaler.kind), None)
    if near is not None:
        who = f"{near.ref.kind} {cut(near.ref.name, _SHOWN)}"
        if (near.ref.kind, near.ref.name) == (target, scaler.name):
            if not group:
                return  # kube-apiserver rejects it
            target, who = f"{group}/{target}", group_kind(near.object)
        message = f"no {target} {cut(scaler.name, _SHOWN)} in this input. Did you mean {who}?"
        version = near.object.get("apiVersion")
        version = removed.replacement if (removed := removed_version(version, near.ref.kind)) else version
        fix = f"write apiVersion: {version}, kind: {near.ref.kind} and name: {near.ref.name}"
        yield Problem(message, ("spec", "scaleTargetRef"), cut(fix, MAX_CHARACTERS))


def _second(subject: ReviewedObject, scaler: Scaler, context: Context) -> Iterator[Problem]:
    """Report a scaler of a workload that an earlier one of the same file scales; other files may be alternatives."""
    scalers = context.once(scalers_of_workloads).get((subject.effective_namespace, scaler.name), ())
    file = subject.locate(()).file
    same = (other.subject for other in scalers if other.kind == scaler.kind and scaler.name)
    first = next((other for other in same if other.locate(()).file == file), subject)
    if first.ref == subject.ref or any(at(each.object, *_TAKES_OVER) for each in (subject, first)):
        return
    kinds = [group_kind(each.object) for each in (subject, first)]
    effect = "KEDA allows one" if SCALED_OBJECT in kinds else "neither scales (AmbiguousSelector)"
    message = f"{first.ref.kind} {cut(first.ref.name, _SHOWN)} scales the same workload: {effect}"
    yield Problem(message, ("spec", "scaleTargetRef"), "remove one of both")


_TAKES_OVER: Final = ("metadata", "annotations", "scaledobject.keda.sh/transfer-hpa-ownership")
_DISTINCT: Final = 4
"""The minimum length of a name of which another one with a different letter is a misspelling."""


_NONE: Final = (dict[str, list["ReviewedObject"]](), Names(()))


def _by_namespace(context: Context) -> Mapping[str, tuple[Mapping[str, Sequence[ReviewedObject]], Names]]:
    """Return the workloads that can be scaled by namespace and name, and the names for lookups of similar ones."""
    kinds = (DEPLOYMENT, STATEFUL_SET, _ROLLOUT)
    scaled = grouped((each.effective_namespace, each) for kind in kinds for each in context.of_kind(kind))
    named = {namespace: grouped((each.ref.name, each) for each in group) for namespace, group in scaled.items()}
    return {namespace: (names, Names(names, context.once(Lookups))) for namespace, names in named.items()}
