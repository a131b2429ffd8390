"""Several PriorityClasses marked as global default: messages about them, and the objects whose Pods get the effective
one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from forewarn.policies.findings import listed
from forewarn.policies.kube_apiserver.priority import class_by_namespace, default_priority_class
from forewarn.policies.objects.fields import InvalidObject, at
from forewarn.policies.objects.reviewed_object import Operation
from forewarn.policies.objects.workload import pod_template_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from forewarn.policies.cluster.cache import ClusterSnapshot
    from forewarn.policies.config import Config
    from forewarn.policies.objects.priority_class import PriorityClass
    from forewarn.policies.objects.reviewed_object import ReviewedObject

AUDIT_KEY: Final = "multiple-global-defaults"


def several(classes: Iterable[PriorityClass]) -> str:
    """Return a message with all classes marked as global default and the effective one; "" with fewer than two."""
    defaults = [found for found in classes if found.global_default]
    counts = default_priority_class(defaults)
    if counts is None or len(defaults) < 2:
        return ""
    names = sorted(found.name for found in defaults)
    return (
        f"{listed(names, 10)} are all marked as the global default; {counts.name}, with the lowest value, takes effect"
    )


def audit_text(subject: ReviewedObject, cluster: ClusterSnapshot, config: Config) -> str:
    """Return the audit text if an object's new Pods get the default PriorityClass while several classes are marked as
    global default; "" otherwise.

    Pods that name the effective default also count: the API server sets this name before it calls webhooks.
    """
    text = several(cluster.priority_classes.values())
    return text if text and _takes_it(subject, cluster, config) else ""


def _takes_it(subject: ReviewedObject, cluster: ClusterSnapshot, config: Config) -> bool:
    try:
        template = pod_template_of(subject.object, config.options.pod_template_paths)
    except InvalidObject:
        return False
    if template is None:
        return False
    name, classes = at(template.object, "spec", "priorityClassName") or "", cluster.priority_classes
    if not template.is_template:
        counts = default_priority_class(classes.values())
        return subject.operation is Operation.CREATE and name in ("", counts.name if counts else "")
    return name == "" and class_by_namespace("", cluster.namespace(subject.ref.namespace), classes) not in classes
