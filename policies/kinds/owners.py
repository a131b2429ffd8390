"""Owners of Pods that forewarn does not simulate: the effect of losing one of their Pods, as data.

Each row names its sources, by the project and the path in the project's repository. A row applies to Pods whose
controller is of the row's kind and that have the row's labels; the first row that applies counts. To add an owner,
add a row here, a Pod to tests/policies/cases/owners.yaml, and a line to docs/guides/custom-controllers.md.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

NO_OWNER: Final = ""
_POD: Final = "/Pod"
_JOB: Final = "batch/Job"


class Loss(StrEnum):
    """The effect of losing one Pod on the application to which the Pod belongs."""

    NOTHING = ""
    """The rest continues."""
    INTERRUPTS = "interrupts"
    """The rest stops, restarts or fails over."""
    FAILS = "fails"
    """The whole fails, and its controller does not continue it."""


class Role(NamedTuple):
    """The Pods that a controller of the kind `owner` (`group/Kind`, empty for Pods without controller) owns, and that
    have all `labels` (an empty value: any).

    `recreated`: the controller creates a lost Pod again. `condition`: when the loss has a smaller or larger effect;
    follows the name of the application in a sentence. `whole`: the application that the loss affects if it is not the
    owner: its kind, and the labels with its name.
    """

    owner: str
    labels: Mapping[str, str]
    recreated: bool
    loss: Loss
    sources: tuple[str, ...]
    condition: str = ""
    whole: tuple[str, tuple[str, ...]] = ("", ())


_SPARK: Final = "sparkoperator.k8s.io/SparkApplication"
_RAY: Final = "ray.io/RayCluster"
_RAY_OF: Final = "ray.io/originated-from-cr-name"
_RAY_CONSTANTS: Final = "ray-project/kuberay ray-operator/controllers/ray/utils/constant.go"
_KUBEFLOW: Final = (
    "kubeflow/training-operator@release-1.9 pkg/controller.v1/common/pod.go (ReconcilePods)",
    "kubeflow/training-operator@release-1.9 pkg/apis/kubeflow.org/v1",
)
_REPLICA: Final = {"training.kubeflow.org/replica-type": ""}


ROLES: Final = (
    Role(
        _SPARK,
        {"spark-role": "driver"},
        recreated=False,
        loss=Loss.FAILS,
        condition="unless spec.restartPolicy.type is Always, or OnFailure with retries left",
        sources=(
            "kubeflow/spark-operator internal/controller/sparkapplication/controller.go (updateDriverState)",
            "kubeflow/spark-operator pkg/util/sparkapplication.go (ShouldRetry), api/v1beta2/defaults.go",
        ),
    ),
    Role(
        _POD,
        {"spark-role": "executor"},
        recreated=True,
        loss=Loss.NOTHING,
        sources=(
            "apache/spark resource-managers/kubernetes/core BasicExecutorFeatureStep.scala: the driver owns it",
            "apache/spark resource-managers/kubernetes/core ExecutorPodsAllocator.scala",
        ),
    ),
    Role(
        NO_OWNER,
        {"spark-role": "driver", "spark-app-selector": ""},
        recreated=False,
        loss=Loss.FAILS,
        whole=("Spark application", ("spark-app-selector",)),
        sources=("apache/spark resource-managers/kubernetes/core Constants.scala: labels of spark-submit's driver",),
    ),
    Role(
        NO_OWNER,
        {"kubernetes_executor": "True", "dag_id": "", "task_id": ""},
        recreated=False,
        loss=Loss.FAILS,
        condition="unless the task has retries left",
        whole=("Airflow task", ("dag_id", "task_id")),
        sources=(
            "apache/airflow providers/cncf/kubernetes/docs/kubernetes_executor.rst, Handling Worker Pod Crashes",
            "apache/airflow providers/cncf/kubernetes executors/kubernetes_executor_utils.py (process_status)",
            "apache/airflow providers/cncf/kubernetes pod_generator.py (build_labels_for_k8s_executor_pod)",
        ),
    ),
    Role(
        NO_OWNER,
        {"kubernetes_pod_operator": "True", "dag_id": "", "task_id": ""},
        recreated=False,
        loss=Loss.FAILS,
        condition="unless the task has retries left",
        whole=("Airflow task", ("dag_id", "task_id")),
        sources=(
            "https://github.com/apache/airflow/issues/59626",
            "apache/airflow providers/cncf/kubernetes operators/pod.py (_get_ti_pod_labels)",
        ),
    ),
    Role(
        "argoproj.io/Workflow",
        {"workflows.argoproj.io/workflow": ""},
        recreated=False,
        loss=Loss.FAILS,
        condition="unless the template's retryStrategy has the retryPolicy Always",
        sources=(
            "argoproj/argo-workflows workflow/controller/operator.go (podReconciliation): node error, pod deleted",
            "argoproj/argo-workflows docs/retries.md, docs/pod-restarts.md",
        ),
    ),
    Role(
        _RAY,
        {"ray.io/node-type": "head", "ray.io/originated-from-crd": "RayJob"},
        recreated=True,
        loss=Loss.FAILS,
        condition="unless spec.backoffLimit allows another RayCluster",
        whole=("RayJob", (_RAY_OF,)),
        sources=(
            "ray-project/kuberay ray-operator/controllers/ray/rayjob_controller.go: Ray head pod not found",
            "ray-project/kuberay ray-operator/apis/ray/v1/rayjob_types.go (backoffLimit, default 0)",
            _RAY_CONSTANTS,
        ),
    ),
    Role(
        _RAY,
        {"ray.io/node-type": "head", "ray.io/originated-from-crd": "RayService"},
        recreated=True,
        loss=Loss.INTERRUPTS,
        condition="unless GCS fault tolerance is enabled",
        whole=("RayService", (_RAY_OF,)),
        sources=("https://docs.ray.io/en/latest/cluster/kubernetes/user-guides/kuberay-gcs-ft.html", _RAY_CONSTANTS),
    ),
    Role(
        _RAY,
        {"ray.io/node-type": "head"},
        recreated=True,
        loss=Loss.INTERRUPTS,
        condition="unless GCS fault tolerance is enabled",
        sources=(
            "ray-project/kuberay ray-operator/controllers/ray/raycluster_controller.go (shouldDeletePod)",
            "https://docs.ray.io/en/latest/cluster/kubernetes/user-guides/kuberay-gcs-ft.html",
        ),
    ),
    Role(
        _RAY,
        {},
        recreated=True,
        loss=Loss.NOTHING,
        sources=(
            "ray-project/kuberay ray-operator/controllers/ray/raycluster_controller.go (shouldDeletePod)",
            "https://github.com/ray-project/kuberay/issues/2125",
        ),
    ),
    Role(
        "postgresql.cnpg.io/Cluster",
        {"cnpg.io/instanceRole": "primary"},
        recreated=True,
        loss=Loss.INTERRUPTS,
        sources=(
            "cloudnative-pg/cloudnative-pg docs/src/failure_modes.md, Primary Failure: failover to a standby",
            "cloudnative-pg/cloudnative-pg docs/src/labels_annotations.md",
        ),
    ),
    Role(
        "postgresql.cnpg.io/Cluster",
        {},
        recreated=True,
        loss=Loss.NOTHING,
        sources=("cloudnative-pg/cloudnative-pg docs/src/failure_modes.md, Standby Failure",),
    ),
    Role(
        "core.strimzi.io/StrimziPodSet",
        {},
        recreated=True,
        loss=Loss.NOTHING,
        sources=(
            "strimzi/strimzi-kafka-operator StrimziPodSetController.java (maybeCreateOrPatchPod)",
            "https://github.com/strimzi/proposals/blob/main/031-statefulset-removal.md",
        ),
    ),
    Role(
        "apps.kruise.io/CloneSet",
        {},
        recreated=True,
        loss=Loss.NOTHING,
        sources=("https://openkruise.io/docs/user-manuals/cloneset",),
    ),
    Role(
        _JOB,
        {"jobset.sigs.k8s.io/jobset-name": ""},
        recreated=True,
        loss=Loss.FAILS,
        condition="unless spec.failurePolicy allows a restart",
        whole=("JobSet", ("jobset.sigs.k8s.io/jobset-name",)),
        sources=(
            "kubernetes-sigs/jobset pkg/controllers/failure_policy.go (executeFailurePolicy): one failed Job",
            "kubernetes-sigs/jobset api/jobset/v1alpha2/jobset_types.go",
        ),
    ),
    Role(
        "apps/StatefulSet",
        {"leaderworkerset.sigs.k8s.io/name": "", "leaderworkerset.sigs.k8s.io/group-index": ""},
        recreated=True,
        loss=Loss.INTERRUPTS,
        condition="unless its restartPolicy is None",
        whole=(
            "LeaderWorkerSet group",
            ("leaderworkerset.sigs.k8s.io/name", "leaderworkerset.sigs.k8s.io/group-index"),
        ),
        sources=(
            "kubernetes-sigs/lws pkg/controllers/pod_controller.go (handleRestartPolicy)",
            "kubernetes-sigs/lws api/leaderworkerset/v1/leaderworkerset_types.go: RecreateGroupOnPodRestart",
        ),
    ),
    Role(
        "kubeflow.org/PyTorchJob",
        _REPLICA,
        recreated=True,
        loss=Loss.INTERRUPTS,
        condition="and fails it if the restartPolicy of the replicas is Never",
        sources=(*_KUBEFLOW, "kubeflow/training-operator@release-1.9 pkg/controller.v1/pytorch (UpdateJobStatus)"),
    ),
    Role(
        "kubeflow.org/TFJob",
        _REPLICA,
        recreated=False,
        loss=Loss.FAILS,
        condition="unless the restartPolicy of the replicas is OnFailure or Always",
        sources=(*_KUBEFLOW, "kubeflow/training-operator@release-1.9 pkg/controller.v1/tensorflow (UpdateJobStatus)"),
    ),
    Role(
        "kubeflow.org/MPIJob",
        {"training.kubeflow.org/job-role": "worker"},
        recreated=True,
        loss=Loss.INTERRUPTS,
        condition="and an eviction under node pressure fails it",
        sources=(
            "kubeflow/mpi-operator pkg/controller/mpi_job_controller.go (getOrCreateWorker, updateMPIJobStatus)",
            "kubeflow/mpi-operator pkg/apis/kubeflow/v2beta1/constants.go",
        ),
    ),
    Role(
        "tekton.dev/TaskRun",
        {"tekton.dev/taskRun": ""},
        recreated=False,
        loss=Loss.FAILS,
        condition="unless its Pipeline sets retries",
        sources=(
            "tektoncd/pipeline pkg/pod/status.go (MakeTaskRunStatus), docs/taskruns.md: PodEvicted",
            "tektoncd/pipeline docs/pipelines.md (retries)",
        ),
    ),
)
"""In order: of rows with the same owner, those with more labels first."""

_BY_OWNER: Final[dict[str, list[Role]]] = {}
for _role in ROLES:
    _BY_OWNER.setdefault(_role.owner, []).append(_role)


def role_of(owner: str, labels: Mapping[str, str]) -> Role | None:
    """Return the row for a Pod, by the `group/Kind` of its controller and by its labels; None without one."""
    for role in _BY_OWNER.get(owner, ()):
        if all(key in labels and value in ("", labels[key]) for key, value in role.labels.items()):
            return role
    return None
