"""A label selector of a PodDisruptionBudget or a topology spread constraint is empty or absent.

Why: an absent selector selects no Pod. The empty selector `{}` selects all Pods of the namespace, not only the Pods of
the workload. kube-scheduler up to 1.37 handles `{}` differently: a topology spread constraint counts no Pod, and
preemption ignores the PodDisruptionBudget.

Details: the finding is a warning if the selector surely does not work. That is the case for an absent selector, for a
topology spread constraint without effect, and for a PodDisruptionBudget with `{}` next to another PodDisruptionBudget
of the namespace. The Eviction API rejects evictions of Pods with two PodDisruptionBudgets. Otherwise, the finding is a
note. The rule ignores `{}` in a topology spread constraint with `matchLabelKeys`, because these keys select Pods.
Without `--kubernetes-version` or a cluster, the rule assumes a release up to 1.37.

Bad:

    apiVersion: apps/v1
    kind: Deployment
    metadata:
      name: web
    spec:
      selector:
        matchLabels:
          app: web
      template:
        metadata:
          labels:
            app: web
        spec:
          topologySpreadConstraints:
          - maxSkew: 1
            topologyKey: topology.kubernetes.io/zone
            whenUnsatisfiable: DoNotSchedule
            labelSelector: {}
    ---
    apiVersion: policy/v1
    kind: PodDisruptionBudget
    metadata:
      name: web
    spec:
      maxUnavailable: 1

Good:

    apiVersion: apps/v1
    kind: Deployment
    metadata:
      name: web
    spec:
      selector:
        matchLabels:
          app: web
      template:
        metadata:
          labels:
            app: web
        spec:
          topologySpreadConstraints:
          - maxSkew: 1
            topologyKey: topology.kubernetes.io/zone
            whenUnsatisfiable: DoNotSchedule
            labelSelector:
              matchLabels:
                app: web
    ---
    apiVersion: policy/v1
    kind: PodDisruptionBudget
    metadata:
      name: web
    spec:
      maxUnavailable: 1
      selector:
        matchLabels:
          app: web

Fix: write the labels of the workload's Pods into the selector. If a PodDisruptionBudget is meant for all Pods of the
namespace, suppress the finding.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from forewarn.policies.findings import Problem, Severity, cut
from forewarn.policies.kinds.registry import DISRUPTION_BUDGET
from forewarn.policies.objects.fields import NOTHING, at, group_kind
from forewarn.policies.rules.support.context import NOTHING_STORED, Context, Target

if TYPE_CHECKING:
    from collections.abc import Iterator

    from forewarn.policies.objects.fields import ApiObject
    from forewarn.policies.objects.reviewed_object import ReviewedObject

ID: Final = "empty-selector"
TARGETS: Final = (Target.POD, Target.TEMPLATE, Target.PART, Target.OTHER)
SEVERITY: Final = Severity.WARNING
ACTION: Final = None
DEPENDS_ON: Final = NOTHING_STORED
_LONGEST: Final = 60
_FIX: Final = "set selector.matchLabels to labels of the workload's Pods"


def check(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """Yield a problem for each selector that selects no Pod, or Pods of other workloads."""
    if subject.is_partial:
        return
    if group_kind(subject.object) == DISRUPTION_BUDGET:
        yield from _of_pdb(subject, context)
        return
    template = context.template(subject)
    constraints = template.spec.get("topologySpreadConstraints") if template else None
    if template is None or not isinstance(constraints, list):
        return
    fix = _with_labels(template.object)
    for number, constraint in enumerate(constraints):
        message = _fault(constraint, context) if isinstance(constraint, dict) else None
        if message:
            path = template.at("topologySpreadConstraints", number, *_present(constraint, "labelSelector"))
            yield Problem(message, path, fix, severity=Severity.NOTE if _counts_all(constraint, context) else None)


def _of_pdb(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    spec = at(subject.object, "spec")
    if subject.object.get("apiVersion") != "policy/v1" or not isinstance(spec, dict):
        return
    path = ("spec", *_present(spec, "selector"))
    if spec.get("selector") is None:
        yield Problem("no selector: the PodDisruptionBudget selects no Pod", path, _FIX)
    elif _is_empty(spec["selector"]):
        if any(_selects_too(other, subject) for other in context.of_kind(DISRUPTION_BUDGET)):
            message = "selector {} selects Pods with another PodDisruptionBudget: their evictions fail"
            yield Problem(message, path, _FIX)
            return
        message = "selector {} selects all Pods of the namespace"
        if not _empty_counts(context):
            message += "; preemption up to Kubernetes 1.37 ignores it"
        yield Problem(message, path, _FIX, severity=Severity.NOTE)


def _selects_too(other: ReviewedObject, subject: ReviewedObject) -> bool:
    """Report whether another PodDisruptionBudget of the same namespace has a selector."""
    same = other.effective_namespace == subject.effective_namespace
    return same and other.ref.name != subject.ref.name and at(other.object, "spec", "selector") is not None


def _fault(constraint: ApiObject, context: Context) -> str:
    """The problem of a topology spread constraint; "" if there is none."""
    if constraint.get("labelSelector") is None:
        return "topology spread constraint without labelSelector counts no Pod: it has no effect"
    if not _is_empty(constraint["labelSelector"]) or constraint.get("matchLabelKeys"):
        return ""
    if _counts_all(constraint, context):
        return "labelSelector {} counts all Pods of the namespace, not only those of the workload"
    return "labelSelector {} counts no Pod up to Kubernetes 1.37: the topology spread constraint has no effect"


def _counts_all(constraint: ApiObject, context: Context) -> bool:
    return constraint.get("labelSelector") is not None and _empty_counts(context)


def _empty_counts(context: Context) -> bool:
    """Report whether the release counts the Pods that {} selects. Without a given release, assume at most 1.37:
    false.
    """
    if context.minor is None:
        return False
    from forewarn.policies.releases.semantics import Semantics  # only for a given minor version

    return Semantics(context.minor).empty_selectors_count


def _is_empty(selector: Any) -> bool:
    """True if a selector exists and has no requirements."""
    return isinstance(selector, dict) and not selector.get("matchLabels") and not selector.get("matchExpressions")


def _present(obj: ApiObject, field: str) -> tuple[str, ...]:
    """The path of a field; if the field is absent, the path of the object itself."""
    return (field,) if field in obj else ()


def _with_labels(pod: ApiObject) -> str:
    """A fix with the labels of the Pods, if they are short."""
    labels = at(pod, "metadata", "labels") or NOTHING
    shown = ", ".join(f"{key}: {value}" for key, value in labels.items()) if isinstance(labels, dict) else ""
    if not shown or len(shown) > _LONGEST:
        return "set labelSelector.matchLabels to labels of the workload's Pods"
    return f"set labelSelector.matchLabels to labels of the Pods, such as {{{cut(shown, _LONGEST)}}}"
