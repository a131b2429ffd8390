"""`forewarn predict`: the node and the victims of Pods and workloads."""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from forewarn.policies.application.places import Places
from forewarn.policies.commands.autoscaling import add_autoscaling_options, autoscaling_of
from forewarn.policies.commands.cluster_command import (
    add_cluster_option,
    add_color_option,
    add_namespace_option,
    add_output_option,
    answered,
    loaded,
    options_with_cluster,
    pod_key,
    require_nodes,
    status_of_conditions,
)
from forewarn.policies.commands.parser import Parser, integer_between
from forewarn.policies.commands.release import add_release_options, release_of, settle
from forewarn.policies.kinds.registry import APPLIED, LINTED, POD_TEMPLATE_PATHS, PRIORITY_CLASS
from forewarn.policies.objects.fields import InvalidInput, InvalidObject, group_kind, mapping
from forewarn.policies.sources import SourceError, find_files, read_file, status_of
from forewarn.policies.terminal import as_json, clean, complain, painter, wants_color

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from forewarn.policies.cluster.answer_head import AnswerHead
    from forewarn.policies.cluster.cache import Cache, ClusterSnapshot
    from forewarn.policies.forecast.apply_order import Applied
    from forewarn.policies.forecast.pod_groups import GroupForecast
    from forewarn.policies.manifests import Reading
    from forewarn.policies.objects.fields import ApiObject
    from forewarn.policies.objects.pod import Pod
    from forewarn.policies.releases.release import Release
    from forewarn.policies.scheduling.schedule_one import Prediction
    from forewarn.policies.sources.files import File
    from forewarn.policies.whatif.autoscalers import Autoscalers, Autoscaling

OK, FOUND, USAGE, FAILED = range(4)
OUTCOMES: Final = {
    "preemption": "preempts",
    "pending": "pending",
    "quota": "refused",
    "not-predicted": "not-predicted",
}


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns 0, 1 if a condition of --fail-on is met, 2 for wrong usage, or 3 without a result."""
    parser = argument_parser()
    options = options_with_cluster(parser, arguments)
    if bool(options.filename) == bool(options.pod):
        parser.error("give one of -f and --pod")
    if options.replicas is not None and not options.filename:
        parser.error("--replicas goes with -f")
    if options.cascade and (not options.filename or options.replicas is not None or options.output != "text"):
        parser.error("--cascade goes with -f and -o text, without --replicas")
    release = release_of(options, parser)
    places, autoscaling = Places(), autoscaling_of(options, parser)
    return answered("predict", options, lambda: _predict(options, release, autoscaling, places), places)


def _predict(options: argparse.Namespace, release: Release, autoscaling: Autoscaling, places: Places) -> int:
    """Predict the outcome for files or a Pending Pod, and print it."""
    cache = settle(_loaded(options), release)
    cluster = cache.snapshot()
    if not autoscaling.groups:
        require_nodes(cluster)
    faults: list[Exception] = []
    applied = _applied(options, cluster, faults, places)
    placements = applied.placed
    for fault in faults:
        complain("predict", places.located(fault), status_of(fault))
    groups = list(groups_of(applied))
    in_groups = {id(pod) for group in groups for pod in group.pods}
    if options.output == "json":
        sys.stdout.writelines(map(as_json, rows_of(options, applied, groups, cluster, autoscaling)))
    elif options.output == "html":
        from forewarn.policies.render.head import on_page
        from forewarn.policies.render.html.preempt import report

        page = report(placements, cluster, _lines(options, applied, groups, cluster, autoscaling, painter(False)))
        sys.stdout.write(on_page(page, _head(options, applied, groups, cluster)).document())
    else:
        _print(options, applied, groups, cluster, autoscaling)
        if options.cascade:
            from forewarn.policies.commands.simulated import aftermath

            color = wants_color(options.color, sys.stdout)
            after = aftermath(cache, [options.filename], options.namespace, places)  # type: ignore[arg-type]
            sys.stdout.writelines(clean(line, color) + "\n" for line in after)
    outcomes = {prediction.outcome for prediction in applied.predictions if id(prediction.pod) not in in_groups}
    outcomes |= {outcome for placement in placements for outcome in placement.without_prediction}
    outcomes |= {group.outcome for group in groups}
    if faults:
        return max(map(status_of, faults))
    if status := status_of_conditions([name for name in OUTCOMES if OUTCOMES[name] in outcomes], options.fail_on):
        return status
    return FAILED if {"not-predicted", "unknown"} & outcomes else OK


def rows_of(
    options: argparse.Namespace,
    applied: Applied,
    groups: Sequence[GroupForecast],
    cluster: ClusterSnapshot,
    autoscaling: Autoscaling,
) -> Iterator[dict[str, Any]]:
    """The lines of `-o json`: one for each Pod, one for a rollout's other Pods, and one for each PodGroup."""
    from forewarn.policies.render.head import headed
    from forewarn.policies.rules.wording.forecasts import placement_notes, rollout_notes
    from forewarn.policies.whatif.autoscalers import as_dict

    head = _head(options, applied, groups, cluster)
    last_pending = [each for each in applied.predictions if each.outcome == "pending"][-1:]
    in_groups = {id(pod) for group in groups for pod in group.pods}
    for placement in applied.placed:
        for prediction in placement.predictions:
            if id(prediction.pod) in in_groups:
                continue
            how = _how(prediction) if options.explain else {}
            turn = applied.attempts_of(prediction)
            scaled = _autoscaled([prediction], cluster, autoscaling._replace(groups=()))
            if scaled and prediction is last_pending[0] and autoscaling.groups:
                together = _autoscaled(applied.predictions, cluster, autoscaling)
                scaled = scaled._replace(plan=together.plan if together else None)
            basis = {"basis": placement.basis} if placement.basis else {}
            row = {"id": prediction.pod.key, **prediction.to_dict(), **turn, **how, **basis}
            more = placement_notes(placement) if placement.rollout or placement.ahead != 0 else ()
            row["standing"] = [*row["standing"], *more]
            row |= _losses(prediction.victims, cluster)
            yield headed(row | ({"autoscalers": as_dict(scaled)} if scaled else {}), head)
        for outcome, count in placement.without_prediction.items():
            notes = list(rollout_notes(placement.rollout)) if placement.rollout else [placement.rejection]
            counts = {"id": placement.name, "outcome": outcome, "pods": count}
            yield headed({**counts, "basis": placement.basis, "standing": notes}, head)
    yield from (headed(group.to_dict() | _losses(group.victims, cluster), head) for group in groups)


def _head(
    options: argparse.Namespace, applied: Applied, groups: Sequence[GroupForecast], cluster: ClusterSnapshot
) -> AnswerHead:
    from forewarn.policies.cluster.answer_head import head_of, head_of_findings

    return head_of_findings(cluster) if options.cascade else head_of(cluster, _assumed(applied, groups))


def _assumed(applied: Applied, groups: Sequence[GroupForecast]) -> Iterator[str]:
    """Yield what the predictions assume because the cluster state lacks it."""
    for placement in applied.placed:
        for prediction in placement.predictions:
            yield from prediction.assumes
        yield from placement.rollout.assumes if placement.rollout else ()
    for group in groups:
        yield from group.assumes


def _losses(victims: Sequence[Pod], cluster: ClusterSnapshot) -> dict[str, Any]:
    """What fails or is interrupted without these victims, and which of them are of DaemonSets; without empty lists."""
    from forewarn.policies.objects.pod_loss import losses_of
    from forewarn.policies.render.prediction import daemons_of

    pod_losses = [loss.to_dict() for loss in losses_of(victims, cluster.workload)]
    found = {"losses": pod_losses, "daemonSetVictims": daemons_of(victims)}
    return {key: value for key, value in found.items() if value}


def groups_of(applied: Applied) -> Iterator[GroupForecast]:
    """The forecasts for the PodGroups of the new Pods."""
    is_whole = not any(placement.omitted or placement.rollout for placement in applied.placed)
    if is_whole and any(prediction.pod.spec.pod_group for prediction in applied.predictions):
        from forewarn.policies.forecast.pod_groups import group_forecast

        found = group_forecast(applied.predictions[0].snapshot, [each.pod for each in applied.predictions])
        yield from (found,) if found else ()


def _print(
    options: argparse.Namespace,
    applied: Applied,
    groups: Sequence[GroupForecast],
    cluster: ClusterSnapshot,
    autoscaling: Autoscaling,
) -> None:
    color = wants_color(options.color, sys.stdout)
    lines = lines_of(options, applied, groups, cluster, autoscaling, painter(color))
    sys.stdout.writelines(clean(line, color) + "\n" for line in lines)


def lines_of(
    options: argparse.Namespace,
    applied: Applied,
    groups: Sequence[GroupForecast],
    cluster: ClusterSnapshot,
    autoscaling: Autoscaling,
    paint: Callable[[str, str], str],
) -> Iterator[str]:
    """The lines of `-o text`."""
    from forewarn.policies.render.head import after_verdict

    lines = _lines(options, applied, groups, cluster, autoscaling, paint)
    return after_verdict(lines, _head(options, applied, groups, cluster))


def _lines(
    options: argparse.Namespace,
    applied: Applied,
    groups: Sequence[GroupForecast],
    cluster: ClusterSnapshot,
    autoscaling: Autoscaling,
    paint: Callable[[str, str], str],
) -> Iterator[str]:
    from forewarn.policies.render import autoscalers
    from forewarn.policies.render.prediction import affected, line_of_group, render, render_together

    for group in groups:
        yield line_of_group(group)
        yield from (f"  {line}" for line in affected(group.victims, cluster))
        yield from (f"  note: {note}" for note in group.notes)
    in_groups = {id(pod) for group in groups for pod in group.pods}
    placements = [
        placed
        for placed in applied.placed
        if not placed.predictions or any(id(prediction.pod) not in in_groups for prediction in placed.predictions)
    ]
    if len(placements) > 1:
        yield from render_together(placements, applied, cluster, paint, explain=options.explain)
    for each in placements if len(placements) == 1 else ():
        yield from render(each, cluster, paint, explain=options.explain)
    scaled = _autoscaled(applied.predictions, cluster, autoscaling)
    yield from (f"  note: {line}" for line in autoscalers.lines(scaled)) if scaled else ()


def _autoscaled(
    predictions: Sequence[Prediction], cluster: ClusterSnapshot, autoscaling: Autoscaling
) -> Autoscalers | None:
    """Return the effects of autoscalers on the Pending Pods; None if no Pod stays Pending."""
    from forewarn.policies.whatif.autoscalers import after_predictions

    if all(prediction.outcome != "pending" for prediction in predictions):
        return None
    return after_predictions(predictions, cluster, autoscaling)


def _how(prediction: Prediction) -> ApiObject:
    from forewarn.policies.scheduling.explanation import explanation_of

    explanation = explanation_of(prediction)
    return {} if explanation is None else {"how": explanation._asdict()}


def _loaded(options: argparse.Namespace) -> Cache:
    if not options.cascade:
        return loaded(options)
    from forewarn.policies.simulation.dump import DumpCache

    return loaded(options, DumpCache())


def _applied(options: argparse.Namespace, cluster: ClusterSnapshot, faults: list[Exception], places: Places) -> Applied:
    """Return the predictions for each object, or the error of an invalid object; other objects still get predictions.

    `faults`: collects errors of files and objects. `places`: records the positions of objects.
    """
    from forewarn.policies.forecast.apply_order import Applied
    from forewarn.policies.forecast.placement import Placement, place_pods
    from forewarn.policies.forecast.waiting import before_in_queue

    if options.pod:
        pod = _pending(options.pod, options.namespace, cluster)
        before = before_in_queue(cluster, pod)
        ahead = None if before is None else len(before.pods)
        return Applied((Placement(pod.key, place_pods(cluster, [pod]), ahead=ahead),))
    objects, cluster = given_objects(options.filename, options.namespace, cluster, places, faults)
    return placed(objects, cluster, faults, options.replicas)


def placed(
    objects: Sequence[ApiObject], cluster: ClusterSnapshot, faults: list[Exception], replicas: int | None = None
) -> Applied:
    """Return the predictions for these objects, as `place_all`; add the errors of invalid objects to `faults`."""
    from forewarn.policies.application.simulated import suggesting
    from forewarn.policies.forecast.rollout import place_all

    applied = place_all(cluster, objects, replicas)
    for obj, each in zip(objects, applied.placements, strict=True):
        if isinstance(each, InvalidObject):
            faults.append(suggesting(each, cluster, obj))
    return applied


def _pending(name: str, namespace: str, cluster: ClusterSnapshot) -> Any:
    """The Pending Pod of `--pod`. Raises InvalidInput."""
    key = pod_key(name, namespace)
    pod = cluster.pods.get(key)
    if pod is None:
        from forewarn.policies.whatif.questions import pod_not_found

        raise InvalidInput(f"--pod {'/'.join(key)}: {pod_not_found(cluster, *key)}")
    node = cluster.node_of(pod)
    if node:
        raise InvalidInput(f"--pod {name}: not Pending: it is bound to node {node}")
    return pod


def given_objects(
    path: str, namespace: str, cluster: ClusterSnapshot, places: Places, faults: list[Exception] | None = None
) -> tuple[list[ApiObject], ClusterSnapshot]:
    """Return the Pods and workloads of a file or directory, and the cluster with its other objects.

    `places`: records the positions of objects. `faults`: collects errors of single files or objects, so that the
    others are still read; None: raise the errors. Raises SourceError if nothing is found or readable, and
    InvalidObject.
    """
    from forewarn.policies.application.simulated import with_classes
    from forewarn.policies.controllers.applied import later_quotas, with_applied
    from forewarn.policies.manifests import only_found

    objects: list[ApiObject] = []
    classes: list[ApiObject] = []
    others: list[ApiObject] = []
    in_order: list[ApiObject] = []
    skipped = Counter[str]()
    for file in find_files([path]):
        try:
            reading = _reading(file, namespace)
            skipped += Counter(reading.skipped)
            for subject in reading.subjects:
                places.add(subject)
                kind = group_kind(subject.object)
                named = classes if kind == PRIORITY_CLASS else others if kind in APPLIED else objects
                names = {"name": subject.ref.name, "namespace": subject.ref.namespace}
                in_order.append({**subject.object, "metadata": {**mapping(subject.object, "metadata"), **names}})
                named.append(in_order[-1])
        except (SourceError, InvalidObject) as fault:
            _collect(faults, [fault])
    priority_classes, rejected = with_classes(cluster, classes)
    _collect(faults, rejected)
    if not objects:
        skipped += Counter(str(obj.get("kind")) for obj in (*classes, *others))
        raise faults[0] if faults else SourceError(path, f"no Pod or workload found{only_found(skipped)}")
    unreadable: list[InvalidObject] = []
    to_be = with_applied(replace(cluster, priority_classes=priority_classes), others, unreadable)
    _collect(faults, unreadable)
    return objects, replace(to_be, later_quotas=later_quotas(in_order, cluster))


def _collect(faults: list[Exception] | None, found: Iterable[Exception]) -> None:
    """Add the errors `found` to `faults`; None: raise the first."""
    if faults is not None:
        faults.extend(found)
    else:
        for fault in found:
            raise fault


def _reading(file: File, namespace: str) -> Reading:
    """The contents of a file, with the objects that predictions use. Raises SourceError if the file is unreadable."""
    from forewarn.policies.manifests import UNUSABLE, read

    wanted = frozenset((*LINTED, *POD_TEMPLATE_PATHS))
    reading = read(read_file(file), file.name, wanted, namespace=namespace)
    for diagnostic in reading.diagnostics:
        if diagnostic.rule in UNUSABLE:
            raise SourceError(diagnostic.location.file, diagnostic.message, diagnostic.location.line)
    return reading


def argument_parser() -> argparse.ArgumentParser:
    """Return the parser of the options of `forewarn predict`."""
    parser = Parser(
        prog="forewarn predict",
        description="Predict the node and the victims that kube-scheduler would select for a Pod, for each replica of "
        "a workload, or for a Pending Pod.",
        epilog="Exit status: 0: predicted. 1: --fail-on is met. 2: wrong usage, or a file does not exist. 3: a Pod "
        "cannot be predicted, kube-apiserver rejects a PriorityClass of -f, or a file cannot be read.",
        examples=("predict -f deployment.yaml", "predict --pod shop/web-0 --cluster cluster.json.gz -o json"),
    )
    add = parser.add_argument
    add("-f", "--filename", metavar="FILE", help="manifest of Pods or workloads (file, directory, or -)")
    add("--pod", metavar="NAMESPACE/NAME", help="a Pending Pod of the cluster")
    add_cluster_option(add)
    add_release_options(add)
    add("--explain", action="store_true", help="show the release, the profile and the steps of the decision")
    add(
        "--cascade",
        action="store_true",
        help="with -f: also simulate what happens after the preemption, like forewarn whatif apply",
    )
    add("--replicas", type=integer_between(0, 2**31 - 1), metavar="N", help="use N instead of spec.replicas")
    add_namespace_option(add)
    add_output_option(add, ("text", "json", "html"))
    add(
        "--fail-on",
        action="append",
        choices=tuple(OUTCOMES),
        default=[],
        help="exit with 1 if this happens to a Pod (repeatable)",
    )
    add_autoscaling_options(add)
    add_color_option(add)
    return parser
