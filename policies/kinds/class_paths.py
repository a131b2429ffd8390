"""The fields of custom resources that name PriorityClasses: Pod templates in lists or maps, or only the name.

A path has a step for each key; `[*]` means each item of a list, `*` each value of a map. The sources of `PRESETS`,
`MANIFESTS` and `TEXTS` are the CustomResourceDefinitions and Go types of these projects:

- Tekton: pipeline config/300-crds (v1 and v1beta1), triggers pkg/apis/triggers/v1beta1/trigger_template_types.go. A
  Task, a Pipeline and an EventListener (event_listener_validation.go, podSpecMask) name no class.
- ECK: cloud-on-k8s config/crds/v1/resources. Apache Spark: spark-kubernetes-operator,
  build-tools/helm/spark-kubernetes-operator/crds.
- KServe: config/crd/full; a ServingRuntime names no class. Strimzi: packaging/install/cluster-operator.
- Koordinator: config/crd/bases; apis/scheduling/v1alpha1. Kueue: config/components/crd/bases.
- Open Cluster Management: api operator/v1, work/v1/types.go, work/v1alpha1/types_manifestworkreplicaset.go,
  addon/v1alpha1/types_addontemplate.go; governance-policy-propagator api/v1/policy_types.go,
  config-policy-controller api/v1/configurationpolicy_types.go.
- Crossplane: provider-kubernetes package/crds. OpenShift: api template/v1/types.go.
- Flux: helm-controller api/v2/helmrelease_types.go. Argo CD: pkg/apis/application/v1alpha1/types.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from forewarn.policies.kinds.registry import WORKLOAD_PRIORITY_CLASS

if TYPE_CHECKING:
    from collections.abc import Iterator


ITEMS: Final = "[*]"
VALUES: Final = "*"
ANYWHERE: Final = "**"
"""Step to each value at a key such as `priorityClassName`, at any depth: for Helm values, as the chart is unknown."""
PARAMETERS: Final = "[priorityClassName]"
"""Step to each list item whose `name` ends with `priorityClassName`: for Helm parameters."""
MARKERS: Final = frozenset((ITEMS, VALUES, ANYWHERE, PARAMETERS))
"""Steps that are not keys."""


class BadPath(ValueError):
    """The error for an invalid path."""


class ClassPath(NamedTuple):
    """A path in the objects of a kind: to Pod templates, or (`is_name`) to PriorityClass names.

    In `PRESETS`, a path may end in ANYWHERE.
    """

    steps: tuple[str, ...]
    is_name: bool = False


def found_at(value: Any, steps: tuple[str, ...], path: tuple[str | int, ...] = ()) -> Iterator[tuple[Any, Any]]:
    """Yield (path, value) for each value to which the steps lead. `path`: the path of `value` in the object."""
    if not steps:
        yield path, value
    elif steps[0] == ANYWHERE:
        yield from _class_keys(value, path, _DEEPEST)
    elif steps[0] in (ITEMS, PARAMETERS):
        for index, item in enumerate(value if isinstance(value, list) else ()):
            if steps[0] == ITEMS or (isinstance(item, Mapping) and is_class_key(item.get("name"))):
                yield from found_at(item, steps[1:], (*path, index))
    elif isinstance(value, Mapping):
        for key in tuple(value) if steps[0] == VALUES else (steps[0],):
            if value.get(key) is not None:
                yield from found_at(value[key], steps[1:], (*path, key))


def _class_keys(value: Any, path: tuple[str | int, ...], deepest: int) -> Iterator[tuple[Any, Any]]:
    """Yield (path, value) of each string at a PriorityClass key in Helm values, at most `deepest` levels down."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            if isinstance(item, str) and is_class_key(key):
                yield (*path, key), item
            elif isinstance(item, Mapping | list) and deepest:
                yield from _class_keys(item, (*path, key), deepest - 1)
    elif isinstance(value, list) and deepest:
        for index, item in enumerate(value):
            yield from _class_keys(item, (*path, index), deepest - 1)


def is_class_key(key: object) -> bool:
    """Report whether schemas and charts use a key for a PriorityClass name."""
    return isinstance(key, str) and key.endswith(("priorityClassName", "PriorityClassName"))


_DEEPEST: Final = 50
"""Maximum depth of the search in Helm values."""


def parse_path(text: str, *, is_name: bool = False) -> ClassPath:
    """Parse a path such as `spec.tasks[*].template`. Raises BadPath."""
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


def _names(prefix: str, *parts: str, field: str = "priorityClassName") -> tuple[ClassPath, ...]:
    return _kind(names=" ".join(f"{prefix}.{part}.{field}" for part in parts))


def _helm_sources(prefix: str) -> tuple[ClassPath, ...]:
    sources = f"{prefix}.source.helm", f"{prefix}.sources[*].helm"
    fields = "values", "valuesObject"
    found = [parse_path(source, is_name=True).steps for source in sources]
    values = (ClassPath((*steps, field, ANYWHERE), is_name=True) for steps in found for field in fields)
    return (*values, *(ClassPath((*steps, "parameters", PARAMETERS, "value"), is_name=True) for steps in found))


def _helm_texts(prefix: str) -> tuple[ClassPath, ...]:
    return _kind(names=f"{prefix}.source.helm.values {prefix}.sources[*].helm.values")


_POD_TEMPLATE: Final = _kind("spec.podTemplate")
_NAMED_IN_SPEC: Final = _kind(names="spec.priorityClassName")
_TASKS: Final = _kind("spec.tasks[*].template", "spec.priorityClassName")
_RUNTIME: Final = _kind("spec.template.spec.replicatedJobs[*].template.spec.template")
_LLM: Final = _names(
    "spec", "template", "worker", "prefill.template", "prefill.worker", "router.scheduler.template",
    "router.scheduler.tokenizer.template",
)  # fmt: skip
_STRIMZI_POD: Final = "template.pod.priorityClassName"

GROUPS: Final[Mapping[str, tuple[ClassPath, ...]]] = {
    "scheduling.k8s.io/PodGroup": _NAMED_IN_SPEC,
    "scheduling.k8s.io/Workload": _kind(names="spec.podGroupTemplates[*].priorityClassName"),
}
"""Kubernetes kinds that name PriorityClasses without a Pod template: Pod groups."""
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
        f"spec.{part}.{_STRIMZI_POD}"
        for part in ("kafka", "zookeeper", "entityOperator", "cruiseControl", "kafkaExporter")
    )),
    "kafka.strimzi.io/KafkaNodePool": _kind(names=f"spec.{_STRIMZI_POD}"),
    "kafka.strimzi.io/KafkaBridge": _kind(names=f"spec.{_STRIMZI_POD}"),
    "kafka.strimzi.io/KafkaConnect": _kind(names=f"spec.{_STRIMZI_POD} spec.template.buildPod.priorityClassName"),
    "kafka.strimzi.io/KafkaMirrorMaker2": _kind(names=f"spec.{_STRIMZI_POD} spec.template.buildPod.priorityClassName"),
    "spark.apache.org/SparkApplication": _kind(
        "spec.driverSpec.podTemplateSpec spec.executorSpec.podTemplateSpec"
    ),
    "spark.apache.org/SparkCluster": _kind(
        "spec.masterSpec.statefulSetSpec.template spec.workerSpec.statefulSetSpec.template"
    ),
    "tekton.dev/TaskRun": _names("spec", "podTemplate"),
    "tekton.dev/PipelineRun": _names(
        "spec", "podTemplate", "taskRunTemplate.podTemplate", "taskRunSpecs[*].podTemplate",
        "taskRunSpecs[*].taskPodTemplate",
    ),
    "elasticsearch.k8s.elastic.co/Elasticsearch": _kind("spec.nodeSets[*].podTemplate"),
    "kibana.k8s.elastic.co/Kibana": _POD_TEMPLATE,
    "apm.k8s.elastic.co/ApmServer": _POD_TEMPLATE,
    "enterprisesearch.k8s.elastic.co/EnterpriseSearch": _POD_TEMPLATE,
    "maps.k8s.elastic.co/ElasticMapsServer": _POD_TEMPLATE,
    "logstash.k8s.elastic.co/Logstash": _POD_TEMPLATE,
    "packageregistry.k8s.elastic.co/PackageRegistry": _POD_TEMPLATE,
    "autoops.k8s.elastic.co/AutoOpsAgentPolicy": _POD_TEMPLATE,
    "beat.k8s.elastic.co/Beat": _kind("spec.daemonSet.podTemplate spec.deployment.podTemplate"),
    "agent.k8s.elastic.co/Agent": _kind(
        "spec.daemonSet.podTemplate spec.deployment.podTemplate spec.statefulSet.podTemplate"
    ),
    "serving.kserve.io/InferenceService": _names(
        "spec", "predictor", "predictor.workerSpec", "transformer", "explainer", "canary[*].predictor",
        "canary[*].predictor.workerSpec",
    ),
    "serving.kserve.io/LLMInferenceService": _LLM,
    "serving.kserve.io/LLMInferenceServiceConfig": _LLM,
    "operator.open-cluster-management.io/Klusterlet": _NAMED_IN_SPEC,
    "config.koordinator.sh/ClusterColocationProfile": _NAMED_IN_SPEC,
    "scheduling.koordinator.sh/Reservation": _kind("spec.template"),
    "scheduling.koordinator.sh/PodMigrationJob": _kind("spec.reservationOptions.template.spec.template"),
    "kueue.x-k8s.io/Workload": _kind("spec.podSets[*].template"),
    WORKLOAD_PRIORITY_CLASS: (),
    "helm.toolkit.fluxcd.io/HelmRelease": (ClassPath(("spec", "values", ANYWHERE), is_name=True),),
    "argoproj.io/Application": _helm_sources("spec"),
    "argoproj.io/ApplicationSet": _helm_sources("spec.template.spec"),
}  # fmt: skip
"""`group/Kind` -> the paths at which the kind names PriorityClasses."""
CONFIG_MAP: Final = "/ConfigMap"
MANIFESTS: Final[Mapping[str, tuple[ClassPath, ...]]] = {
    "template.openshift.io/Template": _kind(names="objects[*]"),
    "/Template": _kind(names="objects[*]"),
    "work.open-cluster-management.io/ManifestWork": _kind(names="spec.workload.manifests[*]"),
    "work.open-cluster-management.io/ManifestWorkReplicaSet": _kind(
        names="spec.manifestWorkTemplate.workload.manifests[*]"
    ),
    "addon.open-cluster-management.io/AddOnTemplate": _kind(names="spec.agentSpec.workload.manifests[*]"),
    "policy.open-cluster-management.io/Policy": _kind(names="spec.policy-templates[*].objectDefinition"),
    "policy.open-cluster-management.io/ConfigurationPolicy": _kind(names="spec.object-templates[*].objectDefinition"),
    "kubernetes.crossplane.io/Object": _kind(names="spec.forProvider.manifest"),
    "kubernetes.m.crossplane.io/Object": _kind(names="spec.forProvider.manifest"),
    "apiextensions.crossplane.io/Composition": _kind(
        names="spec.resources[*].base spec.pipeline[*].input.resources[*].base"
    ),
    "triggers.tekton.dev/TriggerTemplate": _kind(names="spec.resourcetemplates[*]"),
}  # fmt: skip
"""`group/Kind` -> the paths of whole objects in it, which its controller creates."""
TEXTS: Final[Mapping[str, tuple[ClassPath, ...]]] = {
    CONFIG_MAP: _kind(names="data.*"),
    "argoproj.io/Application": _helm_texts("spec"),
    "argoproj.io/ApplicationSet": _helm_texts("spec.template.spec"),
}
"""`group/Kind` -> the paths of YAML text in it: manifests in a ConfigMap, Helm values in the others."""
RELEASE_NAMESPACES: Final[Mapping[str, tuple[str, ...]]] = {
    "helm.toolkit.fluxcd.io/HelmRelease": ("spec", "targetNamespace"),
    "argoproj.io/Application": ("spec", "destination", "namespace"),
    "argoproj.io/ApplicationSet": ("spec", "template", "spec", "destination", "namespace"),
}
"""`group/Kind` -> the path of the namespace of its Pods."""


CRD: Final = "apiextensions.k8s.io/CustomResourceDefinition"
_DEEPEST_SCHEMA: Final = 60
_MAX_SCHEMAS: Final = 200_000
"""The maximum number of schemas of fields in one definition: the largest known definition has 30,000."""
_MAX_PATHS: Final = 1_000


def class_paths_of(definition: Mapping[str, Any]) -> tuple[str, tuple[ClassPath, ...]]:
    """Return the `group/Kind` that a CustomResourceDefinition defines, and all PriorityClass paths of its versions.

    For other objects, there are no paths.
    """
    spec = _mapping(definition.get("spec"))
    kind = f"{spec.get('group')}/{_mapping(spec.get('names')).get('kind')}"
    versions = spec.get("versions")
    found = dict.fromkeys(
        path
        for version in (*(versions if isinstance(versions, list) else ()), {"schema": spec.get("validation")})
        for path in _paths(_mapping(_mapping(_mapping(version).get("schema")).get("openAPIV3Schema")))
    )
    return kind, tuple(found)[:_MAX_PATHS]


def _paths(root: Mapping[str, Any]) -> Iterator[ClassPath]:
    """Yield the paths in one schema: to Pod templates, and to PriorityClass names outside Pod templates."""
    left = _MAX_SCHEMAS
    stack: list[tuple[tuple[str, ...], Any]] = [(("spec",), _mapping(root.get("properties")).get("spec"))]
    while stack and left:
        left -= 1
        steps, schema = stack.pop()
        if not isinstance(schema, Mapping) or len(steps) > _DEEPEST_SCHEMA:
            continue
        properties = _mapping(schema.get("properties"))
        pod = _mapping(_mapping(properties.get("spec")).get("properties"))
        if "containers" in pod and "priorityClassName" in pod:
            yield ClassPath(steps)
            continue
        for key, field in properties.items():
            if is_class_key(key) and _mapping(field).get("type") == "string":
                yield ClassPath((*steps, key), is_name=True)
            elif key not in MARKERS:
                stack.append(((*steps, key), field))
        stack.append(((*steps, ITEMS), schema.get("items")))
        stack.append(((*steps, VALUES), schema.get("additionalProperties")))


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
