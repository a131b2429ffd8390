"""The HTML page of `forewarn predict`."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from forewarn.policies.findings import plural
from forewarn.policies.render.html.elements import Page, data, display_text, element, page_header, section, table
from forewarn.policies.render.html.node_data import node_data
from forewarn.policies.render.html.nodes import nodes, preemption_section
from forewarn.policies.render.prediction import lines
from forewarn.policies.whatif.answer import Preemption
from forewarn.policies.whatif.node_bands import NodeBands
from forewarn.policies.whatif.occupancy import AT, Placed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from forewarn.policies.application.predict import PredictResult
    from forewarn.policies.cluster.cache import ClusterSnapshot
    from forewarn.policies.forecast.placement import Placement
    from forewarn.policies.forecast.pod_groups import GroupForecast
    from forewarn.policies.objects.pod import Pod
    from forewarn.policies.scheduling.schedule_one import Prediction

_OUTCOME_TEXTS: Final = {"fits": "fits", "preempts": "preempts", "pending": "stays Pending"}
_MAX_LINES: Final = 500


def report(result: PredictResult) -> Page:
    """Return the page."""
    cluster, placements = result.cluster, result.applied.placed
    every = [(placement, prediction) for placement in placements for prediction in placement.predictions]
    preemptions = list(preemptions_of(every, cluster, result.groups))
    going = {victim.identity for _, prediction in every for victim in prediction.victims}
    going |= {victim.identity for group in result.groups for victim in group.victims}
    drawn = node_data(NodeBands(Placed(cluster, arrivals(every), going), preemptions), preemptions, between=False)
    names = [placement.name for placement in placements]
    title = names[0] if len(names) == 1 else plural(len(names), "object")
    counts = Counter[str](prediction.outcome for _, prediction in every if result.is_alone(prediction))
    for group in result.groups:
        counts[group.outcome] += len(group.pods)
    header = page_header(
        display_text(next(lines(result), title)),
        (
            ("new Pods", len(every), False),
            ("fit", counts["fits"], False),
            ("preempt other Pods", counts["preempts"], bool(counts["preempts"])),
            ("stay Pending", counts["pending"], bool(counts["pending"])),
            ("victims", len(going), bool(going)),
        ),
        "The current cluster with the new Pods placed and their victims removed.",
    )
    rows = [(p.pod.key, p.pod.effective_priority, _outcome(p, result), p.node or "-", len(p.victims)) for _, p in every]
    heads = ("Pod", "priority", "outcome", "node", "victims")
    text_lines = [
        element("li", display_text(line), class_="in" if line.startswith(" ") else "")
        for line, _ in zip(lines(result), range(_MAX_LINES), strict=False)
    ]
    parts = [
        header,
        nodes(drawn),
        *preemption_section(preemptions),
        section("New Pods", "pods-title", table("New Pods", heads, rows, len(rows))),
        section("Details", "words-title", element("ul", *text_lines, class_="plain")),
        data("nodes-data", drawn),
    ]
    skip = element("a", "skip to the new Pods", href="#pods-title", class_="skip")
    return Page(f"predict: {title}", parts, skip)


def _outcome(prediction: Prediction, result: PredictResult) -> str:
    if not result.is_alone(prediction):
        return "with its PodGroup"
    return _OUTCOME_TEXTS.get(prediction.outcome, prediction.outcome)


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
        for victim in victims:
            if victim.terminating:
                continue
            yield Preemption(
                t=AT,
                cascade_depth=1,
                node=victim.node_name,
                by=by,
                by_workload=by_workload,
                by_namespace=pod.namespace,
                by_class=pod.priority_class_name,
                by_priority=pod.effective_priority,
                victim=victim.key,
                workload=cluster.top_workload_of(victim),
                namespace=victim.namespace,
                priority_class=victim.priority_class_name,
                priority=victim.effective_priority,
            )
