"""Commands such as `forewarn preempt --batch`: replay recorded cases, as JSON lines.

For recordings of upstream's components, and for tests against upstream's code (CONTRIBUTING.md). The help of forewarn
omits these commands.
"""

from __future__ import annotations

from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from forewarn.policies.base.findings import plural
from forewarn.policies.cli.commands.cluster_command import answered
from forewarn.policies.cli.commands.parser import Output, Parser, add_admission_option
from forewarn.policies.cli.commands.release import add_release_options, release_of
from forewarn.policies.cli.commands.simulated import add_runs_options
from forewarn.policies.cli.terminal import print_notice
from forewarn.policies.kubernetes.objects.fields import json_type
from forewarn.policies.kubernetes.options import Options
from forewarn.policies.kubernetes.releases.minors import RECORDED_MINOR
from forewarn.policies.kubernetes.releases.semantics import DEFAULT
from forewarn.policies.linting.config.load import load_limited_resources
from forewarn.policies.prediction.autoscaling import NotPredicted
from tests.recorded import batch
from tests.recorded.batch import run_batch

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from forewarn.policies.kubernetes.cluster.cache import Cache
    from forewarn.policies.kubernetes.objects.fields import ApiObject
    from forewarn.policies.kubernetes.releases.semantics import Semantics
    from forewarn.policies.kubernetes.scheduling.schedule_one import Prediction

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
    "deviceTaintRules": ("resource.k8s.io/v1", "DeviceTaintRule"),
    "volumeAttachments": ("storage.k8s.io/v1", "VolumeAttachment"),
    "services": ("v1", "Service"),
    "replicationControllers": ("v1", "ReplicationController"),
    "replicaSets": ("apps/v1", "ReplicaSet"),
    "statefulSets": ("apps/v1", "StatefulSet"),
}
"""Lists of a case -> apiVersion and kind of objects without them."""
STDOUT: Final = Output("json")


def preempt(arguments: Sequence[str]) -> int:
    """Predict the outcome for the Pod of each case; return 0, 1 for a malformed line, 2 for wrong usage, or 3 without
    a result.
    """
    parser = _parser("preempt")
    help_text = "Pods that are nominated to a node but not bound: count, as kube-scheduler does (default), or ignore"
    parser.add_argument("--nominated", choices=("ignore", "count"), default="count", help=help_text)
    options = parser.parse_args(arguments)
    semantics = release_of(options, parser).semantics(RECORDED_MINOR)
    answer = partial(answer_case, count_nominated=options.nominated == "count", semantics=semantics)
    return answered("preempt", STDOUT, lambda: run_batch(options.batch, answer))


def simulate(arguments: Sequence[str]) -> int:
    """Simulate each scenario; returns 0, 1 for a malformed line, 2 for wrong usage, or 3 without a result."""
    from tests.recorded.scenario import is_recording

    parser = _parser("simulate")
    add_runs_options(parser.add_argument)
    options = parser.parse_args(arguments)
    semantics, recordings = release_of(options, parser).semantics(RECORDED_MINOR), 0

    def answer(case: ApiObject) -> ApiObject:
        nonlocal recordings
        recordings += is_recording(case)
        return answer_scenario(case, runs=options.runs, seed=options.seed, semantics=semantics)

    status = answered("simulate", STDOUT, lambda: run_batch(options.batch, answer))
    if recordings:
        what = "recording (`category` without `scalingDown`)"
        what = plural(recordings, what, what.replace("recording ", "recordings "))
        print_notice(
            f"forewarn simulate: {what}: ReplicaSets and StatefulSets delete no Pods in them, unlike in a cluster"
        )
    return status


def dry_run(arguments: Sequence[str]) -> int:
    """Predict kube-apiserver's response to each case; returns as `preempt` does."""
    parser = _parser("dry-run")
    add_admission_option(parser.add_argument)
    options = parser.parse_args(arguments)
    release = release_of(options, parser)

    def replayed() -> int:
        limited = load_limited_resources(options.admission_config) if options.admission_config else ()
        given = Options(limited_resources=limited, minor=release.minor)
        answer = partial(batch.answer_case, options=given, semantics=release.semantics())
        return run_batch(options.batch, answer, batch.decode_case)

    return answered("dry-run", STDOUT, replayed)


def autoscale(arguments: Sequence[str]) -> int:
    """Predict the decision of an autoscaler for each case; returns as `preempt` does."""
    parser = Parser(prog="forewarn autoscale", description="Answer recorded cases.")
    parser.add_argument("--autoscaler", required=True, choices=AUTOSCALERS)
    _add_batch(parser)
    options = parser.parse_args(arguments)
    answer_case = import_module(f"tests.recorded.{AUTOSCALERS[options.autoscaler]}").answer_case

    def answer(case: ApiObject) -> ApiObject:
        try:
            answered: ApiObject = answer_case(case)
        except NotPredicted as reason:
            return {"notPredicted": str(reason)}
        return answered

    return answered("autoscale", STDOUT, lambda: run_batch(options.batch, answer))


AUTOSCALERS: Final = {
    "karpenter": "karpenter",
    "cluster-autoscaler": "cluster_autoscaler",
}
"""Values of `--autoscaler` -> modules beside this one."""


def kueue(arguments: Sequence[str]) -> int:
    """Predict what Kueue decides in each case; returns as `preempt` does."""
    parser = Parser(prog="forewarn kueue", description="Answer recorded cases.")
    _add_batch(parser)
    options = parser.parse_args(arguments)
    answer = import_module("tests.recorded.kueue").answer_case
    return answered("kueue", STDOUT, lambda: run_batch(options.batch, answer))


def _add_batch(parser: argparse.ArgumentParser) -> None:
    help_text = "cases as JSON lines (.gz too; - for standard input)"
    parser.add_argument("--batch", required=True, metavar="FILE", help=help_text)


def _parser(name: str) -> Parser:
    parser = Parser(prog=f"forewarn {name}", description="Answer recorded cases.")
    _add_batch(parser)
    add_release_options(parser.add_argument)
    return parser


def answer_case(case: ApiObject, *, count_nominated: bool, semantics: Semantics = DEFAULT) -> ApiObject:
    """Return the prediction for one case as JSON. Raises InvalidObject, ValueError.

    `count_nominated`: consider Pods that are nominated to a node but not bound.
    """
    from forewarn.policies.kubernetes.scheduling.configuration import InvalidConfiguration

    try:
        return prediction_of_case(case, count_nominated=count_nominated, semantics=semantics).to_dict()
    except InvalidConfiguration as rejected:
        return {"configError": str(rejected)}


def prediction_of_case(
    case: ApiObject, *, count_nominated: bool, semantics: Semantics = DEFAULT, cache: Cache | None = None
) -> Prediction:
    """The prediction for a case's Pod. A case has lists of objects, the Pod, and optionally a scheduler configuration.

    `cache`: the result of `cache_of_case` for the same case, possibly with other semantics, to compare releases. Raises
    InvalidObject, InvalidConfiguration and ValueError.
    """
    from forewarn.policies.kubernetes.cluster.admission import predict

    pod = case.get("pod")
    if not isinstance(pod, dict):
        raise ValueError(f"pod must be an object, not {json_type(pod)}")
    own = _semantics(case, semantics)
    if cache is None:
        cache = cache_of_case(case, count_nominated=count_nominated)
    cache.semantics = own
    return predict(cache.snapshot(), _typed(pod, "pods"), reasons=True)


def cache_of_case(case: ApiObject, *, count_nominated: bool) -> Cache:
    """Return the cluster of a case. Raises InvalidObject and ValueError. `count_nominated`: include Pods without a
    node.
    """
    from forewarn.policies.kubernetes.cluster.cache import Cache

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
    """Return `semantics` with the scheduler configuration of the case, if there is one. Raises InvalidConfiguration."""
    from forewarn.policies.kubernetes.scheduling.configuration import scheduler_configuration

    if case.get("config") is None:
        return semantics
    return semantics._replace(scheduler=scheduler_configuration(case["config"], semantics))


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


def answer_scenario(case: ApiObject, *, runs: int = 1, seed: int = 0, semantics: Semantics = DEFAULT) -> ApiObject:
    """Return the result of one scenario as JSON, in the format of recordings. Raises InvalidObject, ValueError.

    `runs`: number of runs with randomized ties. `seed`: random seed.
    """
    from forewarn.policies.prediction.simulation.simulation import Simulation
    from forewarn.policies.prediction.simulation.summary import explore
    from tests.recorded.scenario import read_scenario

    world = read_scenario(case, semantics)
    outcomes = explore(partial(Simulation, world), runs, seed)
    finals = {repr(outcome.simulation.final()) for outcome in outcomes}
    category = {"category": case["category"]} if "category" in case else {}
    answer = {"runs": runs, "distinctFinals": len(finals), "outcomes": [outcome.to_dict() for outcome in outcomes]}
    return {**category, **answer}
