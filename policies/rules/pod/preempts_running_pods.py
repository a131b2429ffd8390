"""New Pods would preempt running Pods.

Why: to free capacity for a Pod, kube-scheduler preempts Pods with a lower priority. It reports the preemption only
afterwards.

Details: forewarn runs kube-scheduler's algorithm on every node. If several nodes or victims are equally suitable, or if
kube-scheduler tries only a random part of the nodes, the message contains "or another node" and "possibly". For a
changed template, forewarn predicts all new Pods. A Deployment starts new Pods while old Pods run. A StatefulSet or
DaemonSet replaces each old Pod with a new Pod. If time remains, forewarn also predicts whether controllers recreate the
victims, and whether the replacement Pods fit, stay Pending or preempt more Pods. If all victims are placeholder Pods,
the finding is a note and the webhook does not warn. `placeholderPods` in the configuration selects placeholder Pods. By
default, placeholder Pods are Pods with a negative priority and only the pause image. If a rollout terminates old Pods,
Pending Pods of other workloads may use the free capacity. The rule reports these Pending Pods only if they preempt
running Pods, and are not themselves preempted by new Pods of the rollout. The rule does not evaluate changes that
create no Pods, such as a smaller number of replicas or a deletion. To see which Pending Pods start after such a change,
run `forewarn whatif scale` or `forewarn whatif delete`.

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

Fix: lower the requests, use a lower class, or set preemptionPolicy: Never in the class. `forewarn predict` shows the
victims and other candidate nodes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from policies.disclosure import seconds_range
from policies.findings import Action, Problem, Severity, plural
from policies.rules.support.context import ALL_SCHEDULED, Context, DependsOn, Target
from policies.rules.support.impact import of_new_pods, predicted_of, victims_of, victims_text
from policies.rules.support.placeholders import is_placeholder
from policies.rules.support.rule_text import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.disclosure import Audience
    from policies.objects.reviewed_object import ReviewedObject
    from policies.objects.workload import PodTemplate
    from policies.rules.support.impact import Impact

ID: Final = "preempts-running-pods"
TARGETS: Final = (Target.POD, Target.UPDATED_POD, Target.TEMPLATE)
SEVERITY: Final = Severity.WARNING
ACTION: Final = Action.WARN
DEPENDS_ON: Final = DependsOn(ALL_SCHEDULED, "the missing capacity may be free")
_FIX: Final = "lower requests or priority"
_PLACEHOLDERS_FIX: Final = "none needed: placeholder Pods reserve this capacity"
_PREDICT: Final = "run `forewarn predict`"


def check(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """The victims of a subject's new Pods, without the Pods of the subject itself."""
    impact, template = predicted_of(context).of(subject), context.template(subject)
    if impact is None or template is None:
        return
    preempting, own = impact.preempting, impact.own | impact.let_in
    if own:
        preempting = tuple(p for p in preempting if any(v.identity not in own for v in p.victims))
    victims = [victim for victim in victims_of(preempting) if not own or victim.identity not in own]
    if impact.by_waiting:
        yield _of_waiting(impact, template)
    if impact.why_not:
        yield _unmodelled(impact, template)
    if not victims:
        if impact.is_incomplete and not (impact.preempting or (impact.pending and impact.first_only)):
            impact.check_bounds()
            yield _not_known(impact, template)
        return
    from policies.objects.pod import wait_seconds  # the linter starts without it

    violations = sum(prediction.num_pdb_violations for prediction in preempting)
    placeholders = [victim for victim in victims if is_placeholder(victim, context.options)]
    only, seconds = len(placeholders) == len(victims), wait_seconds(victims)

    def message(audience: Audience) -> str:
        new = of_new_pods(len(preempting), impact, audience)
        head = f"during its rollout, {new or 'a new Pod '}would preempt" if impact.beside_old else f"{new}would preempt"
        known = 0 if only else sum(audience.is_told_of(victim.namespace) for victim in placeholders)
        facts = (
            *_violated(violations, len(victims), audience),
            *((plural(known, "placeholder"),) if known else ()),
            *(impact.aftermath.facts(coarse=audience.coarse) if impact.aftermath else ()),
            _grace(seconds, len(victims), audience),
        )
        noun = "placeholder Pod" if only else "Pod"
        text = victims_text(head, preempting, victims, audience, facts, noun)
        return f"{text}{impact.cut_short(audience)}"

    yield Problem(
        message,
        template.at("priorityClassName"),
        _PLACEHOLDERS_FIX if only else _FIX,
        detail=impact.to_dict(),
        severity=Severity.NOTE if only else None,
    )


def _violated(violations: int, victims: int, audience: Audience) -> tuple[str, ...]:
    """How many victims have a PodDisruptionBudget that the preemption violates."""
    if not violations:
        return ()
    if audience.coarse or victims == violations == 1:
        return ("violates a PDB",)
    return (f"{violations} {'violates' if violations == 1 else 'violate'} a PDB",)


def _grace(seconds: int, victims: int, audience: Audience) -> str:
    """`30s grace`, of several Pods the longest; to a reader of ranges rounded up to half a minute."""
    longest = seconds_range(seconds).highest if audience.coarse else seconds
    if longest is None:
        return f"more than {_MINUTES} minutes grace"
    return f"{longest}s grace" if victims == 1 and not audience.coarse else f"up to {longest}s grace"


_MINUTES: Final = 5


def _of_waiting(impact: Impact, template: PodTemplate) -> Problem:
    """Pending Pods of others that preempt when the rollout terminates old Pods."""
    preempting = impact.by_waiting
    victims = victims_of(preempting)
    return Problem(
        lambda audience: victims_text(
            f"when its rollout terminates old Pods, {counted(len(preempting), 'pending Pod', audience)} would preempt",
            preempting,
            victims,
            audience,
        ),
        template.at("priorityClassName"),
        "free capacity for the pending Pods first",
        detail=impact.to_dict(),
    )


def _unmodelled(impact: Impact, template: PodTemplate) -> Problem:
    """Without it, the answer would read as `preempts no Pod`."""
    left = impact.new - impact.predicted
    pods = "" if impact.new == 1 else f" ({left} of {impact.new} new Pods)"
    return Problem(
        f"not predicted{pods}: {impact.why_not}",
        template.at("priorityClassName"),
        "keep enough capacity free, or use a PriorityClass that never preempts",
        detail=impact.to_dict(),
    )


_SOME: Final = "time ran out before it was predicted whether each new Pod would preempt others"


def _not_known(impact: Impact, template: PodTemplate) -> Problem:
    """Without it, the answer would read as `preempts no Pod`."""
    told = f"only {impact.predicted} of {impact.new} new Pods were predicted in time; they preempt no Pod"
    if impact.rest != "unknown":
        told = "the rollout is too large to predict it to its end; its first new Pods preempt no Pod"
    elif not impact.predicted:
        pods = "its Pod" if impact.new == 1 else f"any of {impact.new} new Pods"
        told = f"time ran out before it was predicted whether {pods} would preempt others"
    return Problem(
        lambda audience: _SOME if audience.coarse else told,
        template.at("priorityClassName"),
        _PREDICT,
        detail=impact.to_dict(),
    )
