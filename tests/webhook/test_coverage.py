"""docs/reference/compatibility.md, row by row: held to the webhook configurations and to the table of directions."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from forewarn.policies.kubernetes.objects.reviewed_object import Operation
from forewarn.policies.linting.config.model import Config
from forewarn.webhook.admission.decide import PASSED, Direction, direction_of
from forewarn.webhook.admission.review import AdmissionRequest, GroupVersionKind, GroupVersionResource

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/reference/compatibility.md").read_text()
HOOKS = ("mutate", "validate")
KINDS = {
    "pods": "Pod",
    "bindings": "Binding",
    "podtemplates": "PodTemplate",
    "replicationcontrollers": "ReplicationController",
    "namespaces": "Namespace",
    "resourcequotas": "ResourceQuota",
    "limitranges": "LimitRange",
    "daemonsets": "DaemonSet",
    "deployments": "Deployment",
    "replicasets": "ReplicaSet",
    "statefulsets": "StatefulSet",
    "controllerrevisions": "ControllerRevision",
    "cronjobs": "CronJob",
    "jobs": "Job",
    "horizontalpodautoscalers": "HorizontalPodAutoscaler",
    "priorityclasses": "PriorityClass",
    "podgroups": "PodGroup",
    "workloads": "Workload",
}
OF_ANOTHER_KIND = {
    "scale": ("autoscaling", "Scale"),
    "eviction": ("policy", "Eviction"),
    "binding": ("", "Binding"),
}
CONNECTED = {"attach", "exec", "log", "portforward", "proxy"}


def _table(heading: str) -> list[list[str]]:
    (section,) = re.findall(rf"^## {heading}\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    lines = re.findall(r"^\|.*\|$", section, re.MULTILINE)[2:]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [[resource.strip("`"), *cells] for names, *cells in rows for resource in names.split(", ")]


SENT, UNSENT = _table("What the webhook receives"), _table("What the webhook does not receive")


def _configured() -> dict[str, dict[str, set[str]]]:
    """Resource -> hook -> operations, as the manifests have it."""
    found: dict[str, dict[str, set[str]]] = {}
    for document in yaml.safe_load_all((ROOT / "manifests/base/webhooks.yaml").read_text()):
        for webhook in document["webhooks"]:
            hook = "mutate" if document["kind"].startswith("Mutating") else "validate"
            for rule in webhook["rules"]:
                (group,) = rule["apiGroups"]
                for resource in rule["resources"]:
                    name, slash, subresource = resource.partition("/")
                    full = (f"{name}.{group}" if group else name) + slash + subresource
                    operations = found.setdefault(full, {}).setdefault(hook, set())
                    operations |= set(rule["operations"])
    return found


def test_the_page_has_what_the_manifests_have() -> None:
    told = {
        resource: {hook: set(cell.split(", ")) for hook, cell in zip(HOOKS, cells, strict=True) if cell != "-"}
        for resource, *cells, _row, _what in SENT
    }
    assert told == _configured()


def test_each_resource_is_on_the_page_once_and_with_a_reason() -> None:
    names = [row[0] for row in (*SENT, *UNSENT)]
    assert len(names) == len(set(names))
    assert all(row[-1] or row[-2] == "nothing" for row in (*SENT, *UNSENT))


def _request(full: str, operation: str) -> AdmissionRequest:
    named, _, subresource = full.partition("/")
    resource, _, group = named.partition(".")
    kind = OF_ANOTHER_KIND.get(subresource, (group, KINDS[resource]))
    metadata: dict[str, Any] = {"name": "x", "annotations": {"forewarn.dev/exempt-until": "2999-01-01"}}
    obj = {"metadata": metadata}
    return AdmissionRequest(
        uid="u",
        operation=Operation(operation),
        kind=GroupVersionKind(kind[0], "v1", kind[1]),
        resource=GroupVersionResource(group, "v1", resource),
        subresource=subresource,
        object={} if operation == "DELETE" else obj,
        old=None if operation == "CREATE" else obj if operation == "DELETE" else {"metadata": {"name": "x"}},
    )


@pytest.mark.parametrize("row", SENT, ids=lambda row: row[0])
def test_what_is_sent_is_judged_as_the_page_says(row: list[str]) -> None:
    resource, *cells, told, _ = row
    operations = sorted({operation for cell in cells if cell != "-" for operation in cell.split(", ")})
    found = [direction_of(_request(resource, operation), Config()) for operation in operations]
    assert sorted({*found}) == sorted(told.split(", "))
    assert not PASSED & {*found}


@pytest.mark.parametrize("row", UNSENT, ids=lambda row: row[0])
def test_what_is_not_sent_would_pass(row: list[str]) -> None:
    resource, told, *_ = row
    operation = "CONNECT" if resource.partition("/")[2] in CONNECTED else "UPDATE"
    found = direction_of(_request(resource, operation), Config())
    assert found == told
    assert found in PASSED
    assert resource not in _configured()


def test_every_direction_is_on_the_page_but_those_that_need_no_resource() -> None:
    told = {name for row in SENT for name in row[3].split(", ")} | {row[1] for row in UNSENT}
    assert {*Direction} - told == {"delete-without-object"}


def test_every_kind_that_holds_a_pod_template_is_on_the_page() -> None:
    groups = {kind: group for group, _, kind in (key.rpartition("/") for key in Config().options.pod_template_paths)}
    plurals = {f"{kind.lower()}s" + (f".{group}" if group else "") for kind, group in groups.items()}
    assert plurals <= {row[0] for row in SENT}
