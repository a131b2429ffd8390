"""Where custom resources name PriorityClasses: in pod templates that stand in lists or maps, or by name alone.

A path has a step for each key; `[*]` stands for every item of a list, `*` for every value of a map. `PRESETS` were read
in the CustomResourceDefinitions of their projects.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

ITEMS: Final = "[*]"
VALUES: Final = "*"


class BadPath(ValueError):
    """A path that cannot lead anywhere."""


class ClassPath(NamedTuple):
    """A path of a kind: to pod templates, or (`is_name`) to names of classes."""

    steps: tuple[str, ...]
    is_name: bool = False


def parse_path(text: str, *, is_name: bool = False) -> ClassPath:
    """`spec.tasks[*].template`. Raises BadPath."""
    if text.startswith(("$", "/", ".")) or "/" in text:
        raise BadPath(f'"{text}" must be the names of fields with dots between them, as in spec.template')
    steps: list[str] = []
    for part in text.split("."):
        name, items = part.removesuffix(ITEMS), part.endswith(ITEMS)
        if not name or (set(name) & set("[]*?{}\"' \t\n") and name != VALUES):
            raise BadPath(
                f'"{text}": a step is the name of a field, name[*] for a list, or * for any key, not "{part}"'
            )
        steps += (name, ITEMS) if items else (name,)
    if steps[0] in (VALUES, "metadata", "status", "kind", "apiVersion"):
        raise BadPath(f'"{text}" must begin with a field such as spec')
    if not is_name and (
        steps[-1] == ITEMS or steps[-1].startswith("priorityClassName") or steps[-2:] == ["spec", "spec"]
    ):
        raise BadPath(
            f'"{text}" must end at the pod template, which holds metadata and spec; names: priorityClassPaths'
        )
    return ClassPath(tuple(steps), is_name)


def _kind(templates: str = "", names: str = "") -> tuple[ClassPath, ...]:
    of_names = (parse_path(text, is_name=True) for text in names.split())
    return (*(parse_path(text) for text in templates.split()), *of_names)


def _ray(prefix: str, more: str = "") -> tuple[ClassPath, ...]:
    return _kind(f"{prefix}.headGroupSpec.template {prefix}.workerGroupSpecs[*].template {more}")


def _replicas(name: str) -> tuple[ClassPath, ...]:
    return _kind(f"spec.{name}ReplicaSpecs.*.template", "spec.runPolicy.schedulingPolicy.priorityClass")


def _workflow(prefix: str) -> tuple[ClassPath, ...]:
    names = ("podPriorityClassName", "templateDefaults.priorityClassName", "templates[*].priorityClassName")
    return _kind(names=" ".join(f"{prefix}.{name}" for name in names))


def _spark(prefix: str) -> tuple[ClassPath, ...]:
    pods = f"{prefix}.driver", f"{prefix}.executor"
    names = " ".join(f"{pod}.priorityClassName" for pod in (*pods, f"{prefix}.batchSchedulerOptions"))
    return _kind(" ".join(f"{pod}.template" for pod in pods), names)


_NAMED_IN_SPEC: Final = _kind(names="spec.priorityClassName")
_TASKS: Final = _kind("spec.tasks[*].template", "spec.priorityClassName")
_RUNTIME: Final = _kind("spec.template.spec.replicatedJobs[*].template.spec.template")
_STRIMZI_POD: Final = "template.pod.priorityClassName"

GROUPS: Final[Mapping[str, tuple[ClassPath, ...]]] = {
    "scheduling.k8s.io/PodGroup": _NAMED_IN_SPEC,
    "scheduling.k8s.io/Workload": _kind(names="spec.podGroupTemplates[*].priorityClassName"),
}
"""The kinds of Kubernetes itself that name classes without a pod template: groups of pods."""
PRESETS: Final[Mapping[str, tuple[ClassPath, ...]]] = {
    **GROUPS,
    "jobset.x-k8s.io/JobSet": _kind("spec.replicatedJobs[*].template.spec.template"),
    "leaderworkerset.x-k8s.io/LeaderWorkerSet": _kind(
        "spec.leaderWorkerTemplate.leaderTemplate spec.leaderWorkerTemplate.workerTemplate"
    ),
    "batch.volcano.sh/Job": _TASKS,
    "batch.volcano.sh/CronJob": _kind(
        "spec.jobTemplate.spec.tasks[*].template", "spec.jobTemplate.spec.priorityClassName"
    ),
    "flow.volcano.sh/JobTemplate": _TASKS,
    "scheduling.volcano.sh/PodGroup": _NAMED_IN_SPEC,
    "ray.io/RayCluster": _ray("spec"),
    "ray.io/RayJob": _ray("spec.rayClusterSpec", "spec.submitterPodTemplate"),
    "ray.io/RayCronJob": _ray("spec.jobTemplate.rayClusterSpec", "spec.jobTemplate.submitterPodTemplate"),
    "ray.io/RayService": _ray("spec.rayClusterConfig"),
    "trainer.kubeflow.org/TrainingRuntime": _RUNTIME,
    "trainer.kubeflow.org/ClusterTrainingRuntime": _RUNTIME,
    "kubeflow.org/PyTorchJob": _replicas("pytorch"),
    "kubeflow.org/TFJob": _replicas("tf"),
    "kubeflow.org/MPIJob": _replicas("mpi"),
    "kubeflow.org/XGBoostJob": _replicas("xgb"),
    "kubeflow.org/PaddleJob": _replicas("paddle"),
    "kubeflow.org/JAXJob": _replicas("jax"),
    "argoproj.io/Rollout": _kind("spec.template"),
    "argoproj.io/Experiment": _kind("spec.templates[*].template"),
    "argoproj.io/Workflow": _workflow("spec"),
    "argoproj.io/WorkflowTemplate": _workflow("spec"),
    "argoproj.io/ClusterWorkflowTemplate": _workflow("spec"),
    "argoproj.io/CronWorkflow": _workflow("spec.workflowSpec"),
    "monitoring.coreos.com/Prometheus": _NAMED_IN_SPEC,
    "monitoring.coreos.com/PrometheusAgent": _NAMED_IN_SPEC,
    "monitoring.coreos.com/Alertmanager": _NAMED_IN_SPEC,
    "monitoring.coreos.com/ThanosRuler": _NAMED_IN_SPEC,
    "ceph.rook.io/CephCluster": _kind(names="spec.priorityClassNames.*"),
    "ceph.rook.io/CephFilesystem": _kind(names="spec.metadataServer.priorityClassName"),
    "ceph.rook.io/CephFilesystemMirror": _NAMED_IN_SPEC,
    "ceph.rook.io/CephNFS": _kind(names="spec.server.priorityClassName"),
    "ceph.rook.io/CephObjectStore": _kind(names="spec.gateway.priorityClassName"),
    "ceph.rook.io/CephRBDMirror": _NAMED_IN_SPEC,
    "serving.knative.dev/Service": _kind("spec.template"),
    "serving.knative.dev/Configuration": _kind("spec.template"),
    "serving.knative.dev/Revision": _NAMED_IN_SPEC,
    "sparkoperator.k8s.io/SparkApplication": _spark("spec"),
    "sparkoperator.k8s.io/ScheduledSparkApplication": _spark("spec.template"),
    "kafka.strimzi.io/Kafka": _kind(names=" ".join(
        f"spec.{part}.{_STRIMZI_POD}" for part in ("kafka", "entityOperator", "cruiseControl", "kafkaExporter")
    )),
    "kafka.strimzi.io/KafkaBridge": _kind(names=f"spec.{_STRIMZI_POD}"),
    "kafka.strimzi.io/KafkaConnect": _kind(names=f"spec.{_STRIMZI_POD} spec.template.buildPod.priorityClassName"),
    "kafka.strimzi.io/KafkaMirrorMaker2": _kind(names=f"spec.{_STRIMZI_POD} spec.template.buildPod.priorityClassName"),
}  # fmt: skip
"""`group/Kind` -> where it names classes."""
