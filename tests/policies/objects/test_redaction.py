"""Redaction keeps what forewarn reads, and nothing else: `snapshot --redact` answers as the cluster does."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from forewarn.policies.kubernetes.cluster.cache import Cache
from forewarn.policies.kubernetes.controllers.deployment import find_new_replica_set
from forewarn.policies.kubernetes.kinds.registry import BY_GROUP_KIND
from forewarn.policies.kubernetes.objects import redaction
from forewarn.policies.kubernetes.objects.fields import group_kind
from forewarn.policies.kubernetes.objects.redaction import redacted
from tests.in_process import forewarn, without_head

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[3]
CLUSTERS = [
    *sorted(ROOT.glob("docs/examples/**/cluster*.yaml")),
    *sorted(ROOT.glob("tests/webhook/cases/live/*-cluster.json")),
    ROOT / "tests/clusters/a.json.gz",
]
QUESTIONS = ("risk", "audit", "whatif lose --each node", "whatif upgrade", "classes", "info node-groups")
HASH = re.compile("-[bcdf-hj-np-tv-z2456789]{8,10}(?=-)")
"""Of a template, in the names of new Pods."""
NOT_KEPT = {
    *("image", "imagePullPolicy"),  # finds images on nodes, and the Deployments of autoscalers
    *("command", "args", "env"),  # has flags of these Deployments
    *("terminationMessagePath", "terminationMessagePolicy", "dnsPolicy", "description", "message"),
}
"""Fields that forewarn reads and redaction omits, because answers need them only in the cases named here, or compare
them with a manifest.
"""


def objects_of(path: Path) -> list[dict[str, Any]]:
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    documents = list(yaml.load_all(data, yaml.CSafeLoader)) if path.suffix == ".yaml" else [json.loads(data)]
    return [obj for each in documents if each for obj in each.get("items", [each])]


class Annotations:
    """The annotations that redaction keeps, as a container of their names."""

    def __contains__(self, name: str) -> bool:
        return redaction._is_read((name, ""))


class Recorded(dict[str, Any]):
    """A part of an object that records which fields are read although redaction does not keep them, in `unknown`."""

    def __init__(self, value: dict[str, Any], path: str, fields: Any, unknown: set[str]) -> None:
        """`fields`: those that redaction keeps; None for any."""
        super().__init__({key: self._made(item, f"{path}.{key}", fields, key, unknown) for key, item in value.items()})
        self._path, self._fields, self._unknown = path, fields, unknown

    def _made(self, value: Any, path: str, fields: Any, key: str, unknown: set[str]) -> Any:
        of = fields.get(key) if isinstance(fields, dict) else None
        if isinstance(value, list):
            return [self._made(item, path, fields, key, unknown) for item in value]
        if not isinstance(value, dict):
            return value
        if path.endswith("metadata.annotations"):
            return Recorded(value, path, Annotations(), unknown)
        if of and of.startswith("{"):
            inner = of[1:].strip("}")
            return {k: Recorded(v, path, redaction._TYPES[inner], unknown) if inner else v for k, v in value.items()}
        return Recorded(value, path, redaction._TYPES[of] if of else None, unknown)

    def _record(self, key: Any) -> None:
        known = self._fields is None or key in self._fields or key in NOT_KEPT
        if not known and key != "annotations" and dict.__contains__(self, key):
            self._unknown.add(f"{self._path}.{key}")

    def __getitem__(self, key: str) -> Any:
        self._record(key)
        return super().__getitem__(key)

    def get(self, key: str, default: Any = None) -> Any:
        self._record(key)
        return super().get(key, default)

    def __contains__(self, key: object) -> bool:
        self._record(key)
        return super().__contains__(key)


def questions(objects: list[dict[str, Any]]) -> Iterator[str]:
    yield from QUESTIONS
    pods = [obj["metadata"] for obj in objects if group_kind(obj) == "/Pod"]
    yield from (f"why {pod.get('namespace', 'default')}/{pod['name']}" for pod in pods[:3])


@pytest.mark.parametrize("path", CLUSTERS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_a_redacted_cluster_answers_as_the_cluster_of_which_no_other_field_is_read(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    every, unknown, add = objects_of(path), set[str](), Cache.add

    def recording(self: Cache, obj: Any, *arguments: Any, **named: Any) -> Any:
        if not isinstance(obj, Recorded) and is_kept(obj):
            fields = dict.fromkeys(("apiVersion", "kind", "items")) | fields_of(obj)
            obj = Recorded(obj, group_kind(obj), fields, unknown)
        return add(self, obj, *arguments, **named)

    def answers(objects: list[dict[str, Any]]) -> list[str]:
        file = tmp_path / "cluster.json"
        file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
        runs = [forewarn(*question.split(), "--cluster", file) for question in questions(every)]
        return [HASH.sub("-0", without_head(run.stdout)) for run in runs]

    with monkeypatch.context() as patch:
        patch.setattr(Cache, "add", recording)
        expected = answers(every)
    assert unknown == set()
    assert answers([redacted(obj) if is_kept(obj) else obj for obj in every]) == expected


def is_kept(obj: dict[str, Any]) -> bool:
    """Whether redaction knows the kind."""
    return group_kind(obj) in redaction._KINDS


def fields_of(obj: dict[str, Any]) -> dict[str, str | None]:
    return dict(redaction._TYPES[redaction._KINDS[group_kind(obj)]])


def test_a_field_that_redaction_does_not_keep_is_reported() -> None:
    unknown = set[str]()
    pod = {"metadata": {"name": "p", "annotations": {"a.example/x": "y"}}, "spec": {"hostAliases": [], "hostIPC": True}}
    recorded = Recorded(pod, "/Pod", redaction._TYPES["Pod"], unknown)
    assert recorded["spec"]["hostIPC"]
    assert "hostAliases" in recorded["spec"]
    assert recorded["metadata"]["annotations"].get("a.example/x") == "y"
    assert unknown == {"/Pod.spec.hostAliases", "/Pod.metadata.annotations.a.example/x"}


def test_every_kind_of_the_registry_has_fields() -> None:
    assert BY_GROUP_KIND.keys() <= redaction._KINDS.keys()


def test_every_field_of_a_kubernetes_kind_exists() -> None:
    """A misspelt field would be omitted. The types of several kinds are merged, so only names are compared."""
    tables = json.loads((ROOT / "policies/kubernetes/kube_apiserver/validation/field_tables.json").read_text())
    known = {re.split("[:@]", field)[0] for fields in tables["types"].values() for field in fields.split()}
    own = {
        "AutoscalerData AutoscalerSpec BufferSpec BufferStatus NodePoolSpec NodePoolStatus NodeClaimSpec NodeClass",
        "NodeClaimStatus NodeTemplate Disruption Budget Requirement Phase CSIDriverSpec CSINodeDriver AttachmentSpec",
        "AttachmentSource AttachmentStatus CSIStorageCapacity CSINodeSpec ConfigMap ServiceSpec Count",
        "BorrowWithinCohort ChecksStrategy ClusterQueueSpec CohortSpec FairSharing FlavorFungibility FlavorQuota",
        "FlavorQuotas FlavorSpec KueueWorkloadSpec KueueWorkloadStatus LocalQueueSpec PodSet PodSetAssignment",
        "PodSetTopology QueuePreemption QuotaAdmission ReclaimablePods RequeueState ResourceGroup",
    }
    others = {name for names in own for name in names.split()}
    unknown = {(of, field) for of, fields in redaction._TYPES.items() if of not in others for field in fields}
    assert {(of, field) for of, field in unknown if field not in known} == set()


SECRET = "do-not-tell"


def test_old_replica_sets_that_differ_in_omitted_fields_stay_different(monkeypatch: pytest.MonkeyPatch) -> None:
    """The controller would otherwise scale up the oldest one."""
    at_first, now = ({"spec": {"containers": [{"name": "c", "image": image}]}} for image in ("i:1", "i:2"))
    owned = {"apiVersion": "apps/v1", "kind": "ReplicaSet"}
    sets = [redacted(owned | {"spec": {"template": of}}) for of in (at_first, now)]
    deployment = redacted({"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"template": now}})
    assert find_new_replica_set(deployment["spec"]["template"], sets) is sets[1]
    assert "i:2" not in json.dumps(sets)
    monkeypatch.setattr(redaction, "_SALT", b"other")
    assert redacted({"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"template": now}}) != deployment


def test_messages_of_kubelets_and_webhooks_are_omitted() -> None:
    known = "0/2 nodes are available: 2 Insufficient cpu."
    conditions = [{"type": "PodScheduled", "message": known}, {"type": "Ready", "message": f"image {SECRET}"}]
    kept = redacted({"apiVersion": "v1", "kind": "Pod", "status": {"conditions": conditions, "message": SECRET}})
    assert kept["status"] == {"conditions": [conditions[0], {"type": "Ready"}]}


def with_new_fields(value: Any, key: str = "") -> Any:
    """The same object with unknown fields in each part, except in maps with any keys."""
    if isinstance(value, list):
        return [with_new_fields(item, key) for item in value]
    if not isinstance(value, dict) or key in redaction._MAPS:
        return value
    new = {"newField": SECRET, "newFields": [{"of": SECRET}], "newMap": {SECRET: SECRET}}
    return {name: with_new_fields(item, name) for name, item in value.items()} | new


@pytest.mark.parametrize("path", CLUSTERS[:12], ids=lambda path: f"{path.parent.name}/{path.name}")
def test_new_fields_are_omitted_by_default(path: Path) -> None:
    for obj in objects_of(path):
        text = json.dumps(redacted(with_new_fields(obj)))
        assert SECRET not in text
        assert "newField" not in text
