"""The HTML page of `forewarn whatif` and `forewarn whatif events`."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from forewarn.policies.cli.render.html.answer import body, footer
from forewarn.policies.cli.render.html.answer import header as answer_header
from forewarn.policies.cli.render.html.answer import page as answer_page
from forewarn.policies.cli.render.html.elements import (
    Amount,
    Page,
    chart,
    data,
    display_text,
    element,
    section,
    table,
)
from forewarn.policies.cli.render.html.nodes import cascade, node_data, nodes, preemption_section
from forewarn.policies.kubernetes.quantity import cores, gibibytes
from forewarn.policies.prediction.simulation.summary import timeline_lines
from forewarn.policies.questions.whatif.answer import Answer, Preemption
from forewarn.policies.questions.whatif.node_bands import NodeBands, requests_by_class
from forewarn.policies.questions.whatif.occupancy import AT, Placed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from xml.etree.ElementTree import Element

    from forewarn.policies.kubernetes.cluster.cache import AnswerHead, ClusterSnapshot
    from forewarn.policies.kubernetes.objects.pod import Pod
    from forewarn.policies.kubernetes.scheduling.schedule_one import Prediction
    from forewarn.policies.prediction.forecast.placement import Placement
    from forewarn.policies.prediction.forecast.pod_groups import GroupForecast
    from forewarn.policies.questions.application.headroom_answer import HeadroomResult
    from forewarn.policies.questions.application.predict import PredictResult
    from forewarn.policies.questions.application.whatif import WhatIf
    from forewarn.policies.questions.whatif.headroom import Headroom


_MAX_OPEN: Final = 40
"""The most events of a timeline that is shown unfolded."""


def whatif_page(result: WhatIf) -> Page:
    """Return the page. The result must have `occupancy`."""
    answer, document = result.answer, result.document
    assert answer.occupancy is not None
    drawn = node_data(NodeBands(answer.occupancy, answer.preempted), answer.preempted)
    parts = [
        answer_header(document),
        *body(document),
        nodes(drawn),
        *_classes(answer),
        *preemption_section(answer.preempted),
        *_timeline(answer),
        footer(result.head),
        data("nodes-data", drawn),
    ]
    skip = element("a", "skip to the reasons and tables", href="#table-0", class_="skip") if document.tables else None
    return Page(answer.title, parts, skip)


def _classes(answer: Answer) -> Iterator[Element]:
    """Yield the table of running Pods and their resource requests by PriorityClass, before and after."""
    assert answer.occupancy is not None
    preempted = Counter((preemption.priority, preemption.priority_class) for preemption in answer.preempted)
    requests = requests_by_class(answer.occupancy.intervals)
    rows = (
        (
            name or "-",
            priority,
            before.pods,
            after.pods,
            Amount(cores(before.milli_cpu), before.milli_cpu),
            Amount(cores(after.milli_cpu), after.milli_cpu),
            Amount(gibibytes(before.memory), before.memory),
            Amount(gibibytes(after.memory), after.memory),
            preempted[priority, name],
        )
        for (priority, name), (before, after) in sorted(requests.items(), reverse=True)
    )
    heads = ("class", "priority", "Pods before", "after", "cpu before", "after", "memory before", "after", "preempted")
    yield section("Requests by PriorityClass", "classes", table("PriorityClasses", heads, rows, len(requests)))


def _timeline(answer: Answer) -> Iterator[Element]:
    lines = [_moment(line) for line in timeline_lines(answer.simulation)]
    if lines:
        drawn = chart("Preemptions over time, chart", cascade(answer.preempted)) if answer.preempted else None
        events = element("ol", *lines, class_="timeline")
        if len(lines) > _MAX_OPEN:
            events = element("details", element("summary", f"{len(lines)} events"), events)
        yield section("Timeline", "timeline-title", drawn, events)


def _moment(line: str) -> Element:
    seconds, _, event = line.lstrip().partition("  ")
    return element("li", element("time", seconds), element("span", display_text(event)))


_MAX_DRAWN = 200_000
"""Maximum new Pods in the picture."""


def headroom_page(result: HeadroomResult, head: AnswerHead) -> Page:
    """Return the page, for one object with the nodes now and after adding Pods until no more fit without preemption."""
    if len(result.objects) > 1:
        return answer_page(result.document, head)
    new = _new_pods(result.objects[0].headroom)
    drawn = node_data(NodeBands(Placed(result.cluster, new), ()), (), between=False)
    page = answer_page(result.document, head, nodes(drawn), data("nodes-data", drawn))
    return page._replace(scripts=("tables.js", "rows.js", "page.js"))


def _new_pods(headroom: Headroom) -> Iterator[tuple[Pod, str, str]]:
    by_node = headroom.without.by_node or {}
    if headroom.without.pods > _MAX_DRAWN:
        return
    number = 0
    for node, count in by_node.items():
        for _ in range(count):
            number += 1
            pod = replace(headroom.pod, name=f"{headroom.pod.name}-{number}")
            yield pod, node, f"{headroom.name.rpartition(' ')[2]} (new)"


def predict_page(result: PredictResult) -> Page:
    """Return the page, with the nodes before and after the preemptions."""
    cluster, document = result.cluster, result.document
    every = [(placement, each) for placement in result.applied.placed for each in placement.predictions]
    preemptions = list(preemptions_of(every, cluster, result.groups))
    going = {victim.identity for _, prediction in every for victim in prediction.victims}
    going |= {victim.identity for group in result.groups for victim in group.victims}
    drawn = node_data(NodeBands(Placed(cluster, arrivals(every), going), preemptions), preemptions, between=False)
    pictures = [nodes(drawn), *(preemption_section(preemptions) if preemptions else ()), data("nodes-data", drawn)]
    parts = [answer_header(document), *body(document), *pictures, footer(result.head)]
    return Page(f"predict: {document.question}", parts)


def arrivals(every: Iterable[tuple[Placement, Prediction]]) -> Iterator[tuple[Pod, str, str]]:
    """Yield (Pod, node, workload) for the new Pods that get a node, in the form that Placed needs."""
    for placement, prediction in every:
        if prediction.node:
            yield prediction.pod, prediction.node, f"{placement.name.rpartition(' ')[2]} (new)"


def preemptions_of(
    every: Iterable[tuple[Placement, Prediction]], cluster: ClusterSnapshot, groups: Iterable[GroupForecast] = ()
) -> Iterator[Preemption]:
    """Yield a Preemption for each victim of predictions and PodGroups, without Pods that are already terminating."""
    preempting = [(p.pod.key, placement.name.rpartition(" ")[2], p.pod, p.victims) for placement, p in every]
    preempting += [(group.id, group.group.key, group.pods[0], group.victims) for group in groups]
    for by, by_workload, pod, victims in preempting:
        preemptor = by, by_workload, pod.namespace, pod.priority_class_name, pod.effective_priority
        for victim in victims:
            if not victim.terminating:
                own = victim.key, cluster.top_workload_of(victim), victim.namespace, victim.priority_class_name
                yield Preemption(AT, 1, victim.node_name, *preemptor, *own, victim.effective_priority)
