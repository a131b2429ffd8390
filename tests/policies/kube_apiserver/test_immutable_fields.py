"""Which fields of a workload an update may change; of a Job, by release, its state, and feature gates."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from forewarn.policies.base.findings import field_path
from forewarn.policies.kubernetes.kube_apiserver.validation.workload import is_same_template, validate_workload_update
from forewarn.policies.kubernetes.objects.workload import Workload, applied_to
from forewarn.policies.kubernetes.releases.semantics import Semantics

State = tuple[dict[str, Any], dict[str, Any]]
RUNNING: State = {"suspend": False}, {"startTime": "2026-01-01T00:00:00Z", "active": 1}
NEVER_STARTED: State = {"suspend": True}, {}
SUSPENDED: State = (
    {"suspend": True},
    {"startTime": "2026-01-01T00:00:00Z", "conditions": [{"type": "Suspended", "status": "True"}]},
)
SUSPENDING: State = {"suspend": True}, {**SUSPENDED[1], "active": 1}
DIRECTIVES: list[dict[str, Any]] = [
    {"nodeSelector": {"zone": "a"}},
    {"tolerations": [{"key": "spot", "operator": "Exists"}]},
    {"schedulingGates": [{"name": "example.com/gate"}]},
    {"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1}]}}},
]
RESOURCES: dict[str, Any] = {
    "containers": [{"name": "main", "image": "main:1", "resources": {"requests": {"cpu": "2"}}}]
}
OTHERS: list[dict[str, Any]] = [
    {"priorityClassName": "gold"},
    {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone"}]}}},
    {"containers": [{"name": "main", "image": "main:2"}]},
    {"resources": {"requests": {"cpu": "4"}}},
    {"terminationGracePeriodSeconds": 60},
    {"automountServiceAccountToken": False},
]


def job(**spec: Any) -> dict[str, Any]:
    container = {"name": "main", "image": "main:1", "resources": {"requests": {"cpu": "1"}}}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    metadata = {"name": "train", "namespace": "team"}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": {"template": template, **spec}}


def changed(stored: dict[str, Any], given: dict[str, Any], minor: int = 37, **gates: bool) -> list[str]:
    """The changed immutable fields, after an apply of `given`."""
    old = Workload.from_api(stored).object
    faults = validate_workload_update(applied_to(old, given), old, Semantics(minor).with_gates(**gates))
    return [field_path(fault.path) for fault in faults]


def accepts(state: tuple[dict[str, Any], dict[str, Any]], pod: dict[str, Any], minor: int, **gates: bool) -> bool:
    spec, status = state
    given = deepcopy(job(**spec))
    given["spec"]["template"]["spec"] |= pod
    return not changed({**job(**spec), "status": status}, given, minor, **gates)


@pytest.mark.parametrize(
    ("state", "pods", "minors"),
    [
        (RUNNING, [*DIRECTIVES, RESOURCES, *OTHERS], []),
        (NEVER_STARTED, DIRECTIVES, [34, 35, 36, 37]),
        (NEVER_STARTED, [RESOURCES], [36, 37]),
        (NEVER_STARTED, OTHERS, []),
        (SUSPENDED, [*DIRECTIVES, RESOURCES], [36, 37]),
        (SUSPENDED, OTHERS, []),
        (SUSPENDING, [*DIRECTIVES, RESOURCES], []),
    ],
)
def test_what_may_change_by_release(state: Any, pods: list[dict[str, Any]], minors: list[int]) -> None:
    for pod in pods:
        assert [minor for minor in (34, 35, 36, 37) if accepts(state, pod, minor)] == minors, pod


def test_gates_decide_what_may_change() -> None:
    gates: dict[str, Any] = {
        "MutablePodResourcesForSuspendedJobs": True,
        "MutableSchedulingDirectivesForSuspendedJobs": True,
    }
    off: dict[str, Any] = dict.fromkeys(gates, False)
    for pod in (DIRECTIVES[0], RESOURCES):
        assert accepts(SUSPENDED, pod, 35, **gates)
        assert not accepts(NEVER_STARTED, pod, 35, **gates)  # without the condition Suspended
        assert not accepts(SUSPENDED, pod, 37, **off)
    assert accepts(NEVER_STARTED, DIRECTIVES[0], 37, **off)


@pytest.mark.parametrize(
    ("given", "fields"),
    [
        ({"parallelism": 4, "backoffLimit": 2, "suspend": True, "ttlSecondsAfterFinished": 5}, []),
        ({"completions": 1, "completionMode": "NonIndexed"}, []),
        ({"completions": 2}, ["spec.completions"]),
        ({"completionMode": "Indexed", "completions": 1}, ["spec.completionMode"]),
        ({"managedBy": "kueue.x-k8s.io/multikueue"}, ["spec.managedBy"]),
        ({"selector": {"matchLabels": {"a": "b"}}}, ["spec.selector"]),
    ],
)
def test_fields_beside_the_template(given: dict[str, Any], fields: list[str]) -> None:
    assert changed(job(), job(**given)) == fields


def test_completions_of_an_indexed_job_change_with_its_parallelism() -> None:
    old = job(completionMode="Indexed", completions=3, parallelism=3)
    assert changed(old, job(completionMode="Indexed", completions=5, parallelism=5)) == []
    assert changed(old, job(completionMode="Indexed", completions=5, parallelism=3)) == ["spec.completions"]


def test_defaults_are_no_change() -> None:
    given = job()
    pod = given["spec"]["template"]["spec"]
    pod |= {"dnsPolicy": "ClusterFirst", "securityContext": {}, "schedulerName": "default-scheduler"}
    pod |= {"terminationGracePeriodSeconds": 30, "hostNetwork": False, "nodeSelector": {}}
    (container,) = pod["containers"]
    container |= {"imagePullPolicy": "IfNotPresent", "terminationMessagePolicy": "File", "ports": []}
    container["livenessProbe"] = {"httpGet": {"path": "/", "port": 80, "scheme": "HTTP"}, "timeoutSeconds": 1}
    container["resources"] = {"requests": {"cpu": "1000m"}}
    stored = job()
    (probed,) = stored["spec"]["template"]["spec"]["containers"]
    probed["livenessProbe"] = {"httpGet": {"port": 80}}
    assert changed(stored, given) == []
    assert changed(given, stored) == []
    container["imagePullPolicy"] = "Always"
    container["livenessProbe"]["terminationGracePeriodSeconds"] = 30
    where = "spec.template.spec.containers[0]"
    assert changed(stored, given) == [
        f"{where}.livenessProbe.terminationGracePeriodSeconds",
        f"{where}.imagePullPolicy",
    ]


DEFAULTS: dict[str, dict[str, Any]] = {
    "iscsi": {"iscsiInterface": "default"},
    "azureDisk": {"cachingMode": "ReadWrite", "fsType": "ext4", "kind": "Shared", "readOnly": False},
    "rbd": {"pool": "rbd", "user": "admin", "keyring": "/etc/ceph/keyring"},
    "scaleIO": {"storageMode": "ThinProvisioned", "fsType": "xfs"},
    "image": {"pullPolicy": "Always"},
    "fileKeyRef": {"optional": False},
    "hostPath": {"type": ""},
    "secret": {"defaultMode": 0o644},
    "ephemeral": {
        "volumeClaimTemplate": {"metadata": {"creationTimestamp": None}, "spec": {"volumeMode": "Filesystem"}}
    },
}
"""The defaults of volumes, and of a source of `env`."""


@pytest.mark.parametrize("kind", DEFAULTS)
def test_templates_with_and_without_defaults_are_equal(kind: str) -> None:
    def template(fields: dict[str, Any]) -> dict[str, Any]:
        env = {"name": "E", "valueFrom": {kind: fields}}
        containers = [{"name": "c", "image": "c", "env": [env] if kind == "fileKeyRef" else []}]
        return {"spec": {"containers": containers, "volumes": [{"name": "v", kind: fields}]}}

    assert is_same_template(template(DEFAULTS[kind]), template({}))
    assert not is_same_template(template({**DEFAULTS[kind], "readOnly": True}), template({}))


@pytest.mark.parametrize("labels", [{"status": "True"}, {"protocol": "TCP"}, {"team": ""}])
def test_keys_of_users_have_no_defaults(labels: dict[str, str]) -> None:
    given = job()
    given["spec"]["template"] |= {"metadata": {"labels": labels}}
    assert changed(job(), given) == ["spec.template.metadata"]
    given = job()
    given["spec"]["template"]["spec"]["nodeSelector"] = labels
    assert changed(job(), given) == ["spec.template.spec.nodeSelector"]


def test_fields_that_a_redacted_snapshot_lacks_are_no_change() -> None:
    stored = job()
    (container,) = stored["spec"]["template"]["spec"]["containers"]
    del container["image"]
    given = job()
    given["spec"]["template"]["metadata"] = {"annotations": {"a": "b"}}
    assert changed(stored, given) == []
    given["spec"]["template"]["spec"]["priorityClassName"] = "gold"
    assert changed(stored, given) == ["spec.template.spec.priorityClassName"]


CLAIM: dict[str, Any] = {
    "metadata": {"name": "data"},
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
}
STORED_CLAIM: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "PersistentVolumeClaim",
    "metadata": {"creationTimestamp": None, "name": "data"},
    "spec": {**CLAIM["spec"], "volumeMode": "Filesystem"},
    "status": {"phase": "Pending"},
}
"""`CLAIM` as kube-apiserver returns it."""
IN_MI: dict[str, Any] = {**CLAIM, "spec": {**CLAIM["spec"], "resources": {"requests": {"storage": "1024Mi"}}}}
IN_BLOCKS: dict[str, Any] = {**CLAIM, "spec": {**CLAIM["spec"], "volumeMode": "Block"}}
OF_CLASS: dict[str, Any] = {**CLAIM, "spec": {**CLAIM["spec"], "storageClassName": "fast"}}
ANNOTATED: dict[str, Any] = {**CLAIM, "metadata": {"name": "data", "annotations": {"team": "a"}}}
OTHER: dict[str, Any] = {"matchLabels": {"app": "other"}}


def workload(kind: str, image: str = "db:1", **spec: Any) -> dict[str, Any]:
    template = {"spec": {"containers": [{"name": "main"} | ({"image": image} if image else {})]}}
    spec = {"selector": {"matchLabels": {"app": "db"}}, "template": template, **spec}
    metadata = {"name": "db", "namespace": "data"}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": metadata, "spec": spec}


@pytest.mark.parametrize(
    ("stored", "given", "fields"),
    [
        ({}, {"replicas": 3, "updateStrategy": {"type": "OnDelete"}, "minReadySeconds": 5}, ""),
        ({}, {"ordinals": {"start": 1}, "revisionHistoryLimit": 2}, ""),
        ({}, {"persistentVolumeClaimRetentionPolicy": {"whenScaled": "Delete"}}, ""),
        ({"serviceName": "db"}, {}, ""),
        ({"serviceName": "db"}, {"serviceName": "db-headless"}, "serviceName"),
        ({}, {"serviceName": "db"}, "serviceName"),
        ({}, {"podManagementPolicy": "OrderedReady"}, ""),
        ({"podManagementPolicy": "OrderedReady"}, {}, ""),
        ({}, {"podManagementPolicy": "Parallel"}, "podManagementPolicy"),
        ({}, {"selector": OTHER, "serviceName": "db"}, "selector serviceName"),
        ({}, {"selector": {"matchLabels": {"app": "db"}, "matchExpressions": []}}, ""),
        ({"selector": None}, {"serviceName": "db"}, ""),
        ({"volumeClaimTemplates": [STORED_CLAIM]}, {"volumeClaimTemplates": [CLAIM]}, ""),
        ({"volumeClaimTemplates": [CLAIM]}, {"volumeClaimTemplates": [STORED_CLAIM]}, ""),
        ({"volumeClaimTemplates": [STORED_CLAIM]}, {"volumeClaimTemplates": [IN_MI]}, ""),
        ({"volumeClaimTemplates": [STORED_CLAIM]}, {}, ""),
        ({"volumeClaimTemplates": [STORED_CLAIM]}, {"volumeClaimTemplates": [IN_BLOCKS]}, "volumeClaimTemplates"),
        ({"volumeClaimTemplates": [IN_BLOCKS]}, {"volumeClaimTemplates": [CLAIM]}, "volumeClaimTemplates"),
        ({"volumeClaimTemplates": [STORED_CLAIM]}, {"volumeClaimTemplates": [ANNOTATED]}, "volumeClaimTemplates"),
        ({"volumeClaimTemplates": [OF_CLASS]}, {"volumeClaimTemplates": [OF_CLASS]}, ""),
        ({"volumeClaimTemplates": [OF_CLASS]}, {"volumeClaimTemplates": [CLAIM]}, "volumeClaimTemplates"),
        ({"volumeClaimTemplates": [ANNOTATED]}, {"volumeClaimTemplates": [CLAIM]}, "volumeClaimTemplates"),
        (
            {"volumeClaimTemplates": [STORED_CLAIM], "image": ""},  # redacted
            {"volumeClaimTemplates": [ANNOTATED]},
            "",
        ),
        ({"volumeClaimTemplates": [CLAIM]}, {"volumeClaimTemplates": [CLAIM, CLAIM]}, "volumeClaimTemplates"),
    ],
)
def test_fields_of_a_stateful_set(stored: dict[str, Any], given: dict[str, Any], fields: str) -> None:
    paths = changed(workload("StatefulSet", **stored), workload("StatefulSet", **given))
    assert paths == [f"spec.{field}" for field in fields.split()]


@pytest.mark.parametrize("claim", [CLAIM, IN_MI])
def test_an_apply_keeps_equal_claims(claim: dict[str, Any]) -> None:
    old, given = (workload("StatefulSet", volumeClaimTemplates=[each]) for each in (STORED_CLAIM, claim))
    assert applied_to(old, given) == old


@pytest.mark.parametrize("kind", ["Deployment", "DaemonSet", "ReplicaSet"])
def test_the_selector_of_a_workload(kind: str) -> None:
    assert changed(workload(kind), workload(kind, selector=OTHER, serviceName="ignored")) == ["spec.selector"]


def test_notations_of_a_quantity_are_no_change_between_two_manifests() -> None:
    old, new = (workload("StatefulSet", volumeClaimTemplates=[claim]) for claim in (CLAIM, IN_MI))
    assert not [*validate_workload_update(new, old, Semantics())]


def test_a_field_that_a_later_manifest_omits_changes_if_it_has_no_default() -> None:
    old = workload("StatefulSet", serviceName="db", podManagementPolicy="OrderedReady")
    assert [str(fault) for fault in validate_workload_update(workload("StatefulSet"), old, Semantics())] == [
        "spec.serviceName: field is immutable"
    ]
