"""The HTML pages of answers that draw nodes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from forewarn.policies.cli.render.html.answer import page as answer_page
from forewarn.policies.cli.render.html.elements import Page, display_text, element, section
from forewarn.policies.cli.render.html.nodes import node_data
from forewarn.policies.prediction.simulation.summary import timeline_rows
from forewarn.policies.questions.application.headroom import HeadroomResult
from forewarn.policies.questions.application.predict import PredictResult
from forewarn.policies.questions.application.whatif import WhatIf
from forewarn.policies.questions.whatif.answer import Answer, Preemption
from forewarn.policies.questions.whatif.node_bands import NodeBands
from forewarn.policies.questions.whatif.occupancy import AT, Placed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from xml.etree.ElementTree import Element

    from forewarn.policies.kubernetes.cluster.cache import AnswerHead, ClusterSnapshot, Result
    from forewarn.policies.kubernetes.objects.pod import Pod
    from forewarn.policies.kubernetes.scheduling.schedule_one import Prediction
    from forewarn.policies.prediction.forecast.placement import Placement
    from forewarn.policies.prediction.forecast.pod_groups import GroupForecast
    from forewarn.policies.questions.application.audit import Audit
    from forewarn.policies.questions.whatif.headroom import Headroom

_MAX_DRAWN: Final = 200_000
"""Maximum number of new Pods in the picture of `headroom`."""


def page_of(result: Result | Audit, head: AnswerHead) -> Page:
    """Return the page of an answer. A WhatIf must have `occupancy`."""
    drawn: dict[str, Any] | None = None
    parts: Iterable[Element] = ()
    match result:
        case WhatIf(answer=answer):
            assert answer.occupancy is not None
            parts = _timeline(answer)
            drawn = node_data(NodeBands(answer.occupancy, answer.after.preempted), answer.after.preempted)
        case HeadroomResult(objects=[counted]):  # the nodes now, and after adding Pods until no more fit
            drawn = node_data(NodeBands(Placed(result.cluster, _new_pods(counted.headroom)), ()), (), between=False)
        case PredictResult():
            drawn = predicted_nodes(result)
    return answer_page(result.document, head, *parts, drawn=drawn)


def _timeline(answer: Answer) -> Iterator[Element]:
    rows = timeline_rows(answer.after.simulation)
    lines = [element("li", element("time", at.strip()), element("span", display_text(event))) for at, event in rows]
    if lines:
        events = element("ol", *lines, class_="timeline")
        folded = element("details", element("summary", f"Events: {len(lines):,}"), events)
        yield section("Timeline", "timeline-title", folded)


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


def predicted_nodes(result: PredictResult, limit: int | None = None) -> dict[str, Any]:
    """Return the nodes before and after the preemptions. `limit`: maximum number, of the nodes that get new Pods."""
    every = [(placement, each) for placement in result.applied.placed for each in placement.predictions]
    names = None
    if limit is not None:
        names = list(dict.fromkeys(prediction.node for _, prediction in every if prediction.node))[:limit]
        every = [(placement, prediction) for placement, prediction in every if prediction.node in names]
    groups = result.groups if limit is None else []
    preemptions = list(preemptions_of(every, result.cluster, groups))
    going = {victim.identity for _, prediction in every for victim in prediction.victims}
    going |= {victim.identity for group in groups for victim in group.victims}
    bands = NodeBands(Placed(result.cluster, arrivals(every), going, names), preemptions)
    return node_data(bands, preemptions, between=False)


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
