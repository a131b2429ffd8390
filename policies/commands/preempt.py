"""`forewarn preempt`: whom a pod would push out, and from which node."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from policies.commands.autoscaling import add_autoscaling_options, autoscaling_of
from policies.commands.batch import run_batch
from policies.commands.cluster_command import add_cluster_option, add_color_option
from policies.commands.parser import Parser
from policies.commands.places import Places
from policies.commands.release import add_release_options, release_of, settle
from policies.kinds import CLAIM, LIMIT_RANGE, POD, POD_TEMPLATE_PATHS, PRIORITY_CLASS
from policies.minors import RECORDED_MINOR
from policies.objects.fields import InvalidObject, group_kind, json_type, mapping
from policies.semantics import DEFAULT
from policies.sources import SourceError, find_files, load_cluster, read_file, status_of
from policies.terminal import as_json, clean, columns, complain, painter, wants_color

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from policies.applied_together import Applied
    from policies.cluster import Cache, ClusterSnapshot
    from policies.objects.fields import ApiObject
    from policies.objects.reviewed_object import ReviewedObject
    from policies.releases import Release
    from policies.scheduling.schedule_one import Prediction
    from policies.semantics import Semantics
    from policies.sources.files import File
    from policies.whatif.autoscalers import Autoscalers, Autoscaling

OK, FOUND, USAGE, FAILED = range(4)
OUTCOMES: Final = {"preemption": "preempts", "pending": "pending", "not-predicted": "not-predicted"}
CASE_KINDS: Final = {
    "nodes": ("v1", "Node"),
    "pods": ("v1", "Pod"),
    "namespaces": ("v1", "Namespace"),
    "limitRanges": ("v1", "LimitRange"),
    "pdbs": ("policy/v1", "PodDisruptionBudget"),
    "pvcs": ("v1", "PersistentVolumeClaim"),
    "pvs": ("v1", "PersistentVolume"),
    "storageClasses": ("storage.k8s.io/v1", "StorageClass"),
    "csiNodes": ("storage.k8s.io/v1", "CSINode"),
    "csiDrivers": ("storage.k8s.io/v1", "CSIDriver"),
    "csiStorageCapacities": ("storage.k8s.io/v1", "CSIStorageCapacity"),
    "resourceClaims": ("resource.k8s.io/v1", "ResourceClaim"),
    "resourceClaimTemplates": ("resource.k8s.io/v1", "ResourceClaimTemplate"),
    "deviceClasses": ("resource.k8s.io/v1", "DeviceClass"),
    "resourceSlices": ("resource.k8s.io/v1", "ResourceSlice"),
    "volumeAttachments": ("storage.k8s.io/v1", "VolumeAttachment"),
    "services": ("v1", "Service"),
    "replicationControllers": ("v1", "ReplicationController"),
    "replicaSets": ("apps/v1", "ReplicaSet"),
    "statefulSets": ("apps/v1", "StatefulSet"),
}
"""Lists of a case -> what their objects are when they do not say it."""


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns the exit status: 0 answered, 1 --fail-on (or a bad line), 2 usage, 3 not done."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if sum(map(bool, (options.batch, options.filename, options.pod))) != 1:
        parser.error("give one of -f, --pod and --batch")
    if options.replicas is not None and not options.filename:
        parser.error("--replicas goes with -f")
    if options.aftermath and (not options.filename or options.replicas is not None or options.output != "text"):
        parser.error("--aftermath goes with -f, without --replicas and -o json or html")
    if options.batch and options.cluster:
        parser.error("--batch brings its clusters along: leave out --cluster")
    if options.batch and options.fail_on:
        parser.error("--fail-on goes with -f and --pod: each line of a batch has its outcome")
    if not options.batch and not options.cluster:
        parser.error("--cluster is missing: name a dump of the cluster, or live")
    release = release_of(options, parser)
    places = Places()
    try:
        if options.batch:
            semantics = release.semantics(RECORDED_MINOR)
            count = options.nominated == "count"
            return run_batch(options.batch, partial(answer_case, count_nominated=count, semantics=semantics))
        return _predict(options, release, autoscaling_of(options, parser), places)
    except (SourceError, InvalidObject, ValueError) as fault:
        return complain("preempt", places.located(fault), status_of(fault))


def answer_case(case: ApiObject, *, count_nominated: bool, semantics: Semantics = DEFAULT) -> ApiObject:
    """The answer to one case. Raises InvalidObject and ValueError."""
    from policies.scheduling.configuration import InvalidConfiguration

    try:
        return prediction_of_case(case, count_nominated=count_nominated, semantics=semantics).to_dict()
    except InvalidConfiguration as refused:
        return {"configError": str(refused)}


def prediction_of_case(
    case: ApiObject, *, count_nominated: bool, semantics: Semantics = DEFAULT, cache: Cache | None = None
) -> Prediction:
    """What becomes of its pod: a case has lists of objects, the pod, and it may have a scheduler's configuration.

    `cache`: what `cache_of_case` made of the same case, maybe by other semantics: to ask about several releases.
    Raises InvalidObject, InvalidConfiguration and ValueError.
    """
    from policies.cluster import predict

    pod = case.get("pod")
    if not isinstance(pod, dict):
        raise ValueError(f"pod must be an object, not {json_type(pod)}")
    own = _semantics(case, semantics)
    if cache is None:
        cache = cache_of_case(case, count_nominated=count_nominated)
    cache.semantics = own
    return predict(cache.snapshot(), _typed(pod, "pods"), reasons=True)


def cache_of_case(case: ApiObject, *, count_nominated: bool) -> Cache:
    """The cluster of a case. Raises InvalidObject and ValueError."""
    from policies.cluster import Cache

    cache = Cache()
    for key, objects in case.items():
        if isinstance(objects, list):
            for obj in objects:
                typed = _typed(obj, key)
                if key != "pods" or count_nominated or _bound(typed):
                    cache.add(typed)
        elif key not in ("id", "pod", "config") and objects is not None:
            raise ValueError(f"{key} must be a list, not {json_type(objects)}")
    return cache


def _semantics(case: ApiObject, semantics: Semantics) -> Semantics:
    """With the case's own profiles, where it brings some. Raises InvalidConfiguration."""
    from policies.scheduling.configuration import scheduler_configuration

    if case.get("config") is None:
        return semantics
    return replace(semantics, scheduler=scheduler_configuration(case["config"], semantics))


def _typed(obj: Any, key: str) -> ApiObject:
    if not isinstance(obj, dict):
        raise ValueError(f"{key} must hold objects, not {json_type(obj)}")
    if "kind" in obj or key not in CASE_KINDS:
        return obj
    api_version, kind = CASE_KINDS[key]
    return {**obj, "apiVersion": api_version, "kind": kind}


def _bound(pod: ApiObject) -> bool:
    spec = pod.get("spec")
    return not isinstance(spec, dict) or bool(spec.get("nodeName"))


def _predict(options: argparse.Namespace, release: Release, autoscaling: Autoscaling, places: Places) -> int:
    """Predict what files or a pending pod come to, and print it."""
    from policies.whatif.autoscalers import as_dict

    cache = settle(_loaded(options), release)
    cluster = cache.snapshot()
    faults: list[Exception] = []
    applied = _applied(options, cluster, faults, places)
    placements = applied.placed
    faults += [placed for placed in applied.placements if isinstance(placed, InvalidObject)]
    for fault in faults:
        complain("preempt", places.located(fault), status_of(fault))
    if options.output == "json":
        waits = [each for each in applied.predictions if each.outcome == "pending"][-1:]
        for placement in placements:
            for prediction in placement.predictions:
                how = _how(prediction) if options.explain else {}
                turn = applied.turn_of(prediction)
                scaled = _autoscaled([prediction], cluster, autoscaling._replace(groups=()))
                if scaled and prediction is waits[0] and autoscaling.groups:
                    together = _autoscaled(applied.predictions, cluster, autoscaling)
                    scaled = scaled._replace(plan=together.plan if together else None)
                basis = {"basis": "missing-replicas"} if placement.existing else {}
                told = {"id": prediction.pod.key, **prediction.to_dict(), **turn, **how, **basis}
                sys.stdout.write(as_json(told | ({"autoscalers": as_dict(scaled)} if scaled else {})))
    elif options.output == "html":
        from policies.render.html.preempt import page

        sys.stdout.write(page(placements, cluster, _lines(options, applied, cluster, autoscaling, painter(False))))
    else:
        _print(options, applied, cluster, autoscaling)
        if options.aftermath:
            from policies.commands.simulate import aftermath

            color = wants_color(options.color, sys.stdout)
            comes = aftermath(cache, [options.filename], options.namespace, places)  # type: ignore[arg-type]
            sys.stdout.writelines(clean(line, color) + "\n" for line in comes)
    outcomes = {prediction.outcome for placement in placements for prediction in placement.predictions}
    if faults:
        return max(map(status_of, faults))
    if any(OUTCOMES[name] in outcomes for name in options.fail_on):
        return FOUND
    return FAILED if "not-predicted" in outcomes else OK


def _print(options: argparse.Namespace, applied: Applied, cluster: ClusterSnapshot, autoscaling: Autoscaling) -> None:
    color = wants_color(options.color, sys.stdout)
    told = _lines(options, applied, cluster, autoscaling, painter(color))
    sys.stdout.writelines(clean(line, color) + "\n" for line in told)


def _lines(
    options: argparse.Namespace,
    applied: Applied,
    cluster: ClusterSnapshot,
    autoscaling: Autoscaling,
    paint: Callable[[str, str], str],
) -> Iterator[str]:
    from policies.render import autoscalers
    from policies.render.prediction import render, render_together

    placements = applied.placed
    if len(placements) > 1:
        yield from render_together(placements, applied, cluster, paint, explain=options.explain)
    for each in placements if len(placements) == 1 else ():
        yield from render(each, cluster, paint, explain=options.explain)
    scaled = _autoscaled(applied.predictions, cluster, autoscaling)
    yield from (f"  note: {line}" for line in autoscalers.lines(scaled)) if scaled else ()


def _autoscaled(
    predictions: Sequence[Prediction], cluster: ClusterSnapshot, autoscaling: Autoscaling
) -> Autoscalers | None:
    """What autoscalers would make of those that stay pending; None where none does."""
    from policies.whatif.autoscalers import after_predictions

    if all(prediction.outcome != "pending" for prediction in predictions):
        return None
    return after_predictions(predictions, cluster, autoscaling)


def _how(prediction: Prediction) -> ApiObject:
    from policies.scheduling.explanation import explanation_of

    explanation = explanation_of(prediction)
    return {} if explanation is None else {"how": explanation._asdict()}


def _loaded(options: argparse.Namespace) -> Cache:
    if not options.aftermath:
        return load_cluster(*options.cluster)
    from policies.simulation.dump import DumpCache

    return load_cluster(*options.cluster, into=DumpCache())


def _applied(options: argparse.Namespace, cluster: ClusterSnapshot, faults: list[Exception], places: Places) -> Applied:
    """What becomes of each object; of one that cannot be read, why: the others are answered all the same.

    `places`: learns where they stand.
    """
    from policies.applied_together import Applied, place_in_order
    from policies.replicas import Placement, place, place_pods

    if options.pod:
        return Applied((Placement(options.pod, place_pods(cluster, [_pending(options.pod, cluster)])),))
    objects, cluster = given_objects(options.filename, options.namespace, cluster, places, faults)
    if len(objects) > 1:
        return place_in_order(cluster, objects, options.replicas)
    try:
        return Applied((place(cluster, objects[0], options.replicas),))
    except InvalidObject as fault:
        return Applied((fault,))


def _pending(name: str, cluster: ClusterSnapshot) -> Any:
    namespace, slash, pod_name = name.partition("/")
    pod = cluster.pods.get((namespace, pod_name) if slash else ("default", name))
    if pod is None:
        raise SourceError(f"--pod {name}", "no such pod in the cluster (write NAMESPACE/NAME)")
    node = cluster.node_of(pod)
    if node:
        raise SourceError(f"--pod {name}", f"it is on node {node} already")
    return pod


def given_objects(
    path: str, namespace: str, cluster: ClusterSnapshot, places: Places, faults: list[Exception] | None = None
) -> tuple[list[ApiObject], ClusterSnapshot]:
    """The pods and workloads of a file or directory, and the cluster with the classes, LimitRanges and claims in it.

    `places`: learns where they stand; `faults`: takes what is wrong with one file or object, and the others are read;
    without it that is raised. Raises SourceError where there is nothing, or nothing can be read, and InvalidObject.
    """
    from policies.objects.limit_range import LimitRange
    from policies.objects.priority_class import PriorityClass

    objects: list[ApiObject] = []
    classes: dict[str, PriorityClass] = {}
    claims: set[tuple[str, str]] = set()
    limit_ranges: list[LimitRange] = []

    def take(subject: ReviewedObject) -> None:
        kind, ref = group_kind(subject.object), subject.ref
        if kind == PRIORITY_CLASS:
            classes[ref.name] = PriorityClass.from_api(subject.object)
        elif kind == CLAIM:
            claims.add((ref.namespace, ref.name))
        elif kind == LIMIT_RANGE:
            limit_ranges.append(replace(LimitRange.from_api(subject.object), namespace=ref.namespace))
        else:
            names = {"name": ref.name, "namespace": ref.namespace}
            objects.append({**subject.object, "metadata": {**mapping(subject.object, "metadata"), **names}})

    for file in find_files([path]):
        try:
            for subject in _subjects(file, namespace):
                places.add(subject)
                take(subject)
        except (SourceError, InvalidObject) as fault:
            if faults is None:
                raise
            faults.append(fault)
    if not objects:
        raise faults[0] if faults else SourceError(path, "no pod and no workload in it")
    classes |= cluster.priority_classes
    to_be = cluster.with_limit_ranges(limit_ranges)
    return objects, replace(to_be, priority_classes=classes, pending_claims=frozenset(claims))


def _subjects(file: File, namespace: str) -> Sequence[ReviewedObject]:
    """What of a file is asked about, and what comes with it. Raises SourceError where it cannot be read."""
    from policies.manifests import read

    wanted = frozenset((POD, PRIORITY_CLASS, LIMIT_RANGE, CLAIM, *POD_TEMPLATE_PATHS))
    reading = read(read_file(file), file.name, wanted, namespace=namespace)
    for diagnostic in reading.diagnostics:
        if diagnostic.rule in ("parse-error", "template-braces"):
            raise SourceError(diagnostic.location.file, diagnostic.message, diagnostic.location.line)
    return reading.subjects


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="forewarn preempt",
        formatter_class=partial(argparse.HelpFormatter, width=columns()),
        description="Say where a pod would run, and whom it would push out, as kube-scheduler would decide it.",
        epilog="Exit status: 0 an answer was given, 1 --fail-on was met or a line of a batch is malformed, "
        "2 wrong usage or no such file, 3 no answer: a Pod has no prediction, or a file cannot be read.",
    )
    add = parser.add_argument
    add("-f", "--filename", metavar="FILE", help="a pod or a workload (- for standard input)")
    add("--pod", metavar="NAMESPACE/NAME", help="a pod of the cluster that is pending")
    add_cluster_option(add)
    add_release_options(add)
    add("--explain", action="store_true", help="also say which release and profile decided, and how it was worked out")
    add("--aftermath", action="store_true", help="with -f: also say what comes of it, as forewarn simulate does")
    add("--replicas", type=_number, metavar="N", help="as if spec.replicas were N")
    add("-n", "--namespace", default="default", help="namespace of objects without one (default: default)")
    add("-o", "--output", choices=("text", "json", "html"), default="text", help="default: text")
    add(
        "--fail-on", action="append", choices=tuple(OUTCOMES), default=[], help="exit with 1 when this happens to a Pod"
    )
    add_autoscaling_options(add)
    add_color_option(add)
    add("--batch", metavar="FILE", help="cases as JSON lines (.gz too; - for standard input), answered likewise")
    add(
        "--nominated",
        choices=("ignore", "count"),
        default="count",
        help="pods of a batch that are nominated to a node but not bound: count, as kube-scheduler does (default), "
        "or ignore; without --batch they always count",
    )
    return parser


def _number(text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a whole number, not {text!r}") from None
    if number < 0:
        raise argparse.ArgumentTypeError("must not be negative")
    return number
