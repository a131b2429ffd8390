"""New pods would push running ones out.

Why: kube-scheduler makes room for a pod of higher priority by evicting others, and says so only when it has happened.
The prediction is what its own algorithm does, over every node. Where nodes or pods tie, or it tries a random part of
many nodes, the text says `or another node` and `Victims may be`. Pods that come together find the victims of those
before them still ending. Of a changed template all new pods count, not only the first ones: those of a
Deployment come while old pods are still there, those of StatefulSets and DaemonSets in the place of an old one. Where
replacements of the victims would go, and whom these push out, is told too where there is time to work it out. Where all
victims are placeholders, which only keep room free for this, it is a note, and the webhook warns nobody: those of a
negative priority with the pause image, or what `placeholderPods` in the configuration selects.

Cluster:

    apiVersion: v1
    kind: Node
    metadata:
      name: node-1
    status:
      allocatable: {cpu: "2", memory: 4Gi, pods: "10"}
    ---
    apiVersion: scheduling.k8s.io/v1
    kind: PriorityClass
    metadata:
      name: gold
    value: 1000
    ---
    apiVersion: v1
    kind: Pod
    metadata:
      name: report
      namespace: batch
    spec:
      nodeName: node-1
      priority: 0
      containers:
      - name: c
        image: report
        resources: {requests: {cpu: 1500m}}
    status: {phase: Running, startTime: "2026-01-01T00:00:00Z"}

Bad:

    apiVersion: v1
    kind: Pod
    metadata:
      name: web
      namespace: team
    spec:
      priorityClassName: gold
      containers:
      - name: c
        image: web
        resources: {requests: {cpu: "1"}}

Good:

    apiVersion: v1
    kind: Pod
    metadata:
      name: web
      namespace: team
    spec:
      priorityClassName: gold
      containers:
      - name: c
        image: web
        resources: {requests: {cpu: 400m}}

Fix: ask for less, choose a lower class, or let the class have preemptionPolicy: Never; `forewarn predict` says more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from policies.disclosure import seconds_range
from policies.findings import Action, Problem, Severity, plural
from policies.rules.support.context import ALL_SCHEDULED, Context, DependsOn, Target
from policies.rules.support.impact import (
    described,
    of_new_pods,
    on_nodes,
    predicted_of,
    shortened,
    victims_heading,
    victims_of,
)
from policies.rules.support.placeholders import is_placeholder
from policies.rules.support.rule_text import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.disclosure import Audience
    from policies.objects.pod import Pod
    from policies.objects.reviewed_object import ReviewedObject
    from policies.objects.workload import PodTemplate
    from policies.rules.support.impact import Impact

ID: Final = "preempts-running-pods"
TARGETS: Final = (Target.POD, Target.UPDATED_POD, Target.TEMPLATE)
SEVERITY: Final = Severity.WARNING
ACTION: Final = Action.WARN
DEPENDS_ON: Final = DependsOn(ALL_SCHEDULED, "the room that it misses may be there")


def check(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """The victims of a subject's new pods, but for pods of its own."""
    impact, template = predicted_of(context).of(subject), context.template(subject)
    if impact is None or template is None:
        return
    preempting, own = impact.preempting, impact.own | impact.let_in
    if own:
        preempting = tuple(p for p in preempting if any(v.identity not in own for v in p.victims))
    victims = [victim for victim in victims_of(preempting) if not own or victim.identity not in own]
    if impact.by_waiting:
        yield _of_waiting(subject, impact, template)
    if impact.why_not:
        yield _unmodelled(subject, impact, template)
    if not victims:
        if impact.is_incomplete and not (impact.preempting or (impact.pending and impact.first_only)):
            impact.check_bounds()
            yield _not_known(subject, impact, template)
        return
    from policies.objects.pod import wait_seconds  # the linter starts without it

    broken = sum(prediction.num_pdb_violations for prediction in preempting)
    name, beside = shortened(subject.ref.name), " in its rollout, beside its old pods" if impact.beside_old else ""
    placeholders = [victim for victim in victims if is_placeholder(victim, context.options)]
    only = len(placeholders) == len(victims)
    what, seconds = "placeholder pod" if only else "pod", wait_seconds(victims)
    yield Problem(
        lambda audience: (
            f"{name} (priority {impact.priority}): no room{beside}; {of_new_pods(len(preempting), impact, audience)} "
            f"would preempt {counted(len(victims), what, audience)}{on_nodes(preempting, audience)}. "
            f"{victims_heading(preempting, audience)}{described(victims, audience)}."
            f"{_among_them(placeholders, audience, only=only)}{_violated(broken, audience)}"
            f"{_what_comes(impact, audience)} They have {_up_to(seconds, audience)} to end{impact.cut_short(audience)}"
        ),
        template.at("priorityClassName"),
        "" if only else "ask for less, or choose a lower class",
        detail=impact.to_dict(),
        severity=Severity.NOTE if only else None,
    )


def _violated(count: int, audience: Audience) -> str:
    if audience.coarse:
        return " A disruption budget would be violated." if count else ""
    return f" {plural(count, 'victim is', 'victims are')} protected by a disruption budget." if count else ""


def _what_comes(impact: Impact, audience: Audience) -> str:
    aftermath = impact.aftermath
    return f" {aftermath.coarse_sentence if audience.coarse else aftermath.sentence}" if aftermath else ""


def _up_to(seconds: int, audience: Audience) -> str:
    """`up to 45 seconds`; to a reader of ranges rounded up to half a minute."""
    longest = seconds_range(seconds).highest if audience.coarse else seconds
    return f"more than {_MINUTES} minutes" if longest is None else f"up to {plural(longest, 'second')}"


_MINUTES: Final = 5


def _of_waiting(subject: ReviewedObject, impact: Impact, template: PodTemplate) -> Problem:
    """Of pods that waited already: it is the rollout that makes the room."""
    preempting, name = impact.by_waiting, shortened(subject.ref.name)
    victims = victims_of(preempting)
    return Problem(
        lambda audience: (
            f"{name}: when its rollout ends old pods, {counted(len(preempting), 'waiting pod', audience)} would "
            f"preempt {counted(len(victims), 'pod', audience)} and take their place{on_nodes(preempting, audience)}. "
            f"{victims_heading(preempting, audience)}{described(victims, audience)}"
        ),
        template.at("priorityClassName"),
        "make room for them first",
        detail=impact.to_dict(),
    )


def _among_them(placeholders: list[Pod], audience: Audience, *, only: bool) -> str:
    """How many victims are placeholders, of those whose labels and images the reader may know."""
    known = sum(audience.is_told_of(victim.namespace) for victim in placeholders)
    return "" if only or not known else f" {plural(known, 'of them is a placeholder', 'of them are placeholders')}."


def _unmodelled(subject: ReviewedObject, impact: Impact, template: PodTemplate) -> Problem:
    """Silence would say that it preempts no Pod."""
    left = impact.new - impact.predicted
    pods = "" if impact.new == 1 else f" ({left} of {impact.new} new Pods)"
    return Problem(
        f"{shortened(subject.ref.name)}: not predicted{pods}: {impact.why_not}",
        template.at("priorityClassName"),
        "make sure that the nodes have enough free resources, or choose a PriorityClass that never preempts",
        detail=impact.to_dict(),
    )


_SOME: Final = "no time was left to predict whether each of its new pods would push others out"


def _not_known(subject: ReviewedObject, impact: Impact, template: PodTemplate) -> Problem:
    """Silence would say that nobody has to go."""
    told = f"only {impact.predicted} of {impact.new} new pods were predicted in the time there was, and nobody goes for"
    told = f"{told} {'it' if impact.predicted == 1 else 'them'}"
    if impact.rest != "unknown":
        told = "its rollout is too large to predict to its end; the first new pods preempt nobody"
    elif not impact.predicted:
        pods = "its pod" if impact.new == 1 else f"any of {impact.new} new pods"
        told = f"no time was left to predict whether {pods} would push others out"
    priority = "" if impact.priority is None else f" (priority {impact.priority})"
    return Problem(
        lambda audience: f"{shortened(subject.ref.name)}{priority}: {_SOME if audience.coarse else told}",
        template.at("priorityClassName"),
        "ask `forewarn predict`",
        detail=impact.to_dict(),
    )
