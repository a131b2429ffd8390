"""Requests for a new global default: forewarn admits a new global default only after it has reserved it in a Lease."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

from forewarn.policies.base.findings import Action, Finding, Severity, Text, listed
from forewarn.policies.kubernetes.kinds.registry import PRIORITY_CLASS
from forewarn.policies.kubernetes.kube_apiserver.priority import class_by_namespace, default_priority_class
from forewarn.policies.kubernetes.objects.fields import NOTHING, InvalidObject, at, text_at
from forewarn.policies.kubernetes.objects.reviewed_object import Operation, ReviewedObject
from forewarn.policies.kubernetes.objects.workload import pod_template_of
from forewarn.policies.linting.rules.priority_class import global_default_not_unique
from forewarn.policies.linting.rules.support.context import Target
from forewarn.webhook.admission.decision import Decision, Verdict, decision_of
from forewarn.webhook.admission.review import STORING, AdmissionRequest, Hook

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.cluster.cache import ClusterSnapshot
    from forewarn.policies.kubernetes.objects.priority_class import PriorityClass
    from forewarn.policies.linting.config.model import Config


class DefaultCandidate(NamedTuple):
    """A PriorityClass that becomes the global default with a request. `request`: `create UID` or `update UID
    VERSION`.

    The API server stores the update only if the stored object still has this resourceVersion.
    """

    name: str
    request: str


Reserve = Callable[[DefaultCandidate, float], str]
"""Reserves the global default within a number of seconds; returns why that is impossible, or "".

Raises OSError if the API server does not answer.
"""


def default_candidate_of(request: AdmissionRequest, hook: Hook, config: Config) -> DefaultCandidate | None:
    """Return the PriorityClass for which forewarn must reserve the global default; None if no reservation is
    necessary.

    A dry run reserves nothing.
    """
    stores = hook is Hook.VALIDATE and not request.dry_run and request.operation in STORING
    if not stores or request.kind.group_kind != PRIORITY_CLASS or request.subresource:
        return None
    old = request.old or NOTHING
    becomes = at(request.object, "globalDefault") is True and at(old, "globalDefault") is not True
    if not becomes or config.action(global_default_not_unique, Target.PRIORITY_CLASS) is not Action.DENY:
        return None
    name = request.name or text_at(request.object, "metadata", "name")
    if not name:
        return None  # The API server stores no PriorityClass without a name.
    uid, version = text_at(request.object, "metadata", "uid"), text_at(old, "metadata", "resourceVersion")
    text = f"create {uid}" if request.operation is Operation.CREATE else f"update {uid} {version}" if version else ""
    return DefaultCandidate(name, text if uid else "")


def needs_reservation(decision: Decision) -> bool:
    """Report whether the rules allow the request without exemption; only then the default is reserved."""
    return decision.response.allowed and decision.verdict is not Verdict.EXEMPT


def deny_default(request: AdmissionRequest, decision: Decision, why: str) -> Decision:
    """Return the denial of a class because the global default is reserved, with the audit annotations of the
    decision.
    """
    subject = request.subject
    location, ref = subject.locate(("globalDefault",)), subject.ref
    rule, remedy = global_default_not_unique.ID, "try again, or set globalDefault: false"
    finding = Finding(location, Severity.ERROR, rule, ref, Text(why, remedy), Action.DENY, "globalDefault")
    denied = decision_of(request.uid, (*decision.findings, finding))
    audit = {**decision.response.audit, **denied.response.audit}
    return replace(denied, response=replace(denied.response, audit=audit))


AUDIT_KEY: Final = "multiple-global-defaults"


def several(classes: Iterable[PriorityClass]) -> str:
    """Return a message with all classes marked as global default and the effective one; "" with fewer than two."""
    defaults = [matching for matching in classes if matching.global_default]
    counts = default_priority_class(defaults)
    if counts is None or len(defaults) < 2:
        return ""
    names = listed(sorted(matching.name for matching in defaults), 10)
    return f"{names} are all marked as the global default; {counts.name}, with the lowest value, takes effect"


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
