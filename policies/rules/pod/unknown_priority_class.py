"""A pod, or a pod template, names a PriorityClass that does not exist.

Why: the API server refuses such a pod. A workload with such a template is accepted, and its pods silently never appear:
only an event on its ReplicaSet says why. In files alone a class may exist all the same, so there it is a warning;
`--cluster`, `--closed` and `knownClasses:` in the configuration say that the classes are all known.

Cluster:

    apiVersion: scheduling.k8s.io/v1
    kind: PriorityClass
    metadata:
      name: gold
    value: 1000

Bad:

    apiVersion: apps/v1
    kind: Deployment
    metadata:
      name: web
      namespace: team
    spec:
      template:
        spec:
          priorityClassName: glod

Good:

    apiVersion: apps/v1
    kind: Deployment
    metadata:
      name: web
      namespace: team
    spec:
      template:
        spec:
          priorityClassName: gold

Fix: create the class first, or name one that exists.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from policies.findings import Action, Problem, Severity
from policies.kinds import GROUP_TEMPLATES, POD, POD_GROUP
from policies.kube_apiserver.priority import Forbidden, establish_priority
from policies.objects.fields import group_kind
from policies.rules.support.context import Context, DependsOn, Phase, Target
from policies.rules.support.recommended import recommended_to
from policies.rules.support.rule_text import class_name, listed_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.disclosure import Audience
    from policies.objects.reviewed_object import ReviewedObject

ID: Final = "unknown-priority-class"
TARGETS: Final = (Target.POD, Target.TEMPLATE, Target.PART)
SEVERITY: Final = Severity.ERROR
ACTION: Final = Action.DENY
DEPENDS_ON: Final = DependsOn(("classes",), "the class may have been created a moment ago")


_CONSEQUENCES: Final = {POD: "", POD_GROUP: "", GROUP_TEMPLATES: ": its PodGroups will be rejected"}


def check(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """A named class that neither the cluster nor the apply has."""
    template = context.template(subject)
    name = class_name(template) if template else ""
    if template is None or not name or not context.classes_known or context.is_known(name):
        return
    try:
        establish_priority(name, context.classes)
    except Forbidden as refusal:
        consequence = _CONSEQUENCES.get(group_kind(subject.object), ": its pods will be refused")
        said = f"{refusal}{consequence if context.classes_whole else ' in this input'}"
        meant = recommended_to(subject, context).meant(name) if context.phase is Phase.LINT else ""
        yield Problem(
            lambda audience: said + recommended_to(subject, context).nearest(name, audience),
            template.at("priorityClassName"),
            lambda audience: _remedy(subject, context, audience),
            detail={"class": name, **({"meant": meant} if meant else {})},
            severity=None if context.classes_whole else Severity.WARNING,
        )


def _remedy(subject: ReviewedObject, context: Context, audience: Audience) -> str:
    """Which classes may be recommended, as far as the reader may know of them."""
    known = recommended_to(subject, context).sorted
    known = known if audience.sees_all else list(filter(audience.knows, known))
    if known:
        whole = "" if context.classes_whole else " (are these all? --closed says so)"
        return f"create it, or name one of: {listed_of(known[:5], len(known), 5)}{whole}"
    return "create it" if audience.sees_all else "create it, or name one that exists"
