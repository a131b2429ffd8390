"""New pods would push out running ones that the configuration promises to spare.

Why: who runs a cluster promises some of its tenants that nobody of a kind pushes them out, and such a promise is kept
by luck until somebody looks. `promises` says them in the words of `forewarn test`: nonePushedOut, and by whom. What is
judged is the prediction of preempts-running-pods: the pods that the new ones themselves would push out; of nodes that
tie, the first by name counts. What comes of replacements later takes a simulation, which an admission call has no time
for: ask `forewarn test`. The webhook warns; `actions: {breaks-promise: deny}` has it deny, workloads too. A Pod that
exceeds a bound of the prediction is denied too, with the field and the bound. Nobody is denied a Pod that there was no
time to predict, nor an update that only takes replicas away: a note in the audit log says so.

Options:

    promises:
    - name: reports never push out the shop
      expect:
        nonePushedOut: {namespace: shop}
        by: {class: reports}

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
      name: reports
    value: 1000
    ---
    apiVersion: v1
    kind: Pod
    metadata:
      name: web
      namespace: shop
    spec:
      nodeName: node-1
      priority: 0
      containers:
      - name: c
        image: web
        resources: {requests: {cpu: 1500m}}
    status: {phase: Running, startTime: "2026-01-01T00:00:00Z"}

Bad (also preempts-running-pods):

    apiVersion: v1
    kind: Pod
    metadata:
      name: nightly
      namespace: reports
    spec:
      priorityClassName: reports
      containers:
      - name: c
        image: nightly
        resources: {requests: {cpu: "1"}}

Good:

    apiVersion: v1
    kind: Pod
    metadata:
      name: nightly
      namespace: reports
    spec:
      priorityClassName: reports
      containers:
      - name: c
        image: nightly
        resources: {requests: {cpu: 400m}}

Fix: ask for less, choose a lower class, or ask who made the promise.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from policies.findings import Action, Problem, Severity, plural, quote
from policies.metering import each
from policies.objects.fields import NOTHING, at
from policies.rules.support.context import ALL_SCHEDULED, Context, DependsOn, Target
from policies.rules.support.impact import described, of_new_pods, on_nodes, predicted_of, shortened, victims_of
from policies.rules.support.rule_text import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.cluster import ClusterSnapshot
    from policies.disclosure import Audience
    from policies.objects.pod import Pod
    from policies.objects.reviewed_object import ReviewedObject
    from policies.objects.workload import PodTemplate
    from policies.options import Promise
    from policies.rules.support.impact import Impact
    from policies.scheduling.schedule_one import Prediction

    _Pods = tuple[str, str, str]
    _Push = tuple[Prediction, Pod]

ID: Final = "breaks-promise"
TARGETS: Final = (Target.POD, Target.UPDATED_POD, Target.TEMPLATE)
SEVERITY: Final = Severity.ERROR
ACTION: Final = Action.WARN
DEPENDS_ON: Final = DependsOn(ALL_SCHEDULED, "the room that it misses may be there")


def check(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """Each promise that a subject's new pods break."""
    promises = context.options.promises
    impact, template = (predicted_of(context).of(subject), context.template(subject)) if promises else (None, None)
    if impact is None or template is None or context.cluster is None:
        return
    pushed, kept = _pushed_out(impact, subject, template, context.cluster), 0
    for promise in promises:
        hit = list(_against(promise, pushed))
        if hit:
            yield _broken(promise, hit, impact, subject, template)
        else:
            kept += 1
    if kept and (impact.is_incomplete or impact.why_not):
        impact.check_bounds()
        yield _not_known(kept, impact, subject, template)


def _pushed_out(
    impact: Impact, subject: ReviewedObject, template: PodTemplate, cluster: ClusterSnapshot
) -> dict[tuple[_Pods, _Pods], list[_Push]]:
    """Who is pushed out by whom, by what promises ask of both: of thousands most are alike."""
    found: dict[tuple[_Pods, _Pods], list[_Push]] = {}
    for prediction in impact.preempting:
        by = _pusher(prediction.pod, subject, template, cluster)
        for victim in each(prediction.victims):
            whom = victim.namespace, victim.priority_class_name, cluster.top_workload_of(victim)
            found.setdefault((by, whom), []).append((prediction, victim))
    return found


def _against(promise: Promise, pushed: dict[tuple[_Pods, _Pods], list[_Push]]) -> Iterator[_Push]:
    for by, whom in each(list(pushed)):
        if promise.by.matches(*by) and promise.pushed_out.matches(*whom):
            yield from pushed[by, whom]


def _pusher(pod: Pod, subject: ReviewedObject, template: PodTemplate, cluster: ClusterSnapshot) -> _Pods:
    """Of a new pod: those of a workload are the workload's, whatever makes them."""
    if not template.is_template:
        return pod.namespace, pod.priority_class_name, cluster.top_workload_of(pod)
    from policies.objects.pod import Owner  # the linter starts without it

    owner = Owner.from_api(subject.object)
    name = owner.name if owner else subject.ref.name
    return pod.namespace, pod.priority_class_name, f"{pod.namespace}/{name}"


def _takes_replicas_away(subject: ReviewedObject) -> bool:
    """Whether an update does nothing else: the pods that are missing still are not what it asks for."""
    new, old = at(subject.object, "spec"), at(subject.old or NOTHING, "spec")
    if not isinstance(new, dict) or not isinstance(old, dict):
        return False
    count, before = new.get("replicas"), old.get("replicas", 1)
    fewer = isinstance(count, int) and isinstance(before, int) and count < before
    return fewer and {**new, "replicas": 0} == {**old, "replicas": 0}


def _broken(
    promise: Promise,
    hit: list[_Push],
    impact: Impact,
    subject: ReviewedObject,
    template: PodTemplate,
) -> Problem:
    preempting = tuple({id(prediction): prediction for prediction, _ in hit}.values())
    spared = {victim.identity for _, victim in hit}
    victims = [victim for victim in victims_of(preempting) if victim.identity in spared]
    name = shortened(subject.ref.name)

    def told(audience: Audience) -> str:
        new = of_new_pods(len(preempting), impact, audience)
        pods = f"{new} would preempt {counted(len(victims), 'pod', audience)}"
        called = f" It is called {quote(promise.name)}." if audience.sees_all else ""
        breaks = f"{name} (priority {impact.priority}): breaks promise {promise.number}; {pods}"
        victims_told = f"Victims: {described(victims, audience)}"
        return f"{breaks}{on_nodes(preempting, audience)}.{called} {victims_told}{impact.cut_short(audience)}"

    return Problem(
        told,
        template.at("priorityClassName"),
        "ask for less, choose a lower class, or ask who made the promise",
        detail=impact.to_dict(),
        severity=Severity.NOTE if _takes_replicas_away(subject) else None,
    )


def _not_known(kept: int, impact: Impact, subject: ReviewedObject, template: PodTemplate) -> Problem:
    """Nobody is denied anything that was not worked out."""
    told = f"{impact.predicted} of {plural(impact.new, 'new pod')} predicted in the time there was"
    if impact.why_not:
        told = f"not predicted: {impact.why_not}"
    return Problem(
        f"{shortened(subject.ref.name)}: {told}: {plural(kept, 'promise')} not judged",
        template.at("priorityClassName"),
        "ask `forewarn predict`",
        detail=impact.to_dict(),
        severity=Severity.NOTE,
    )
