"""The registry of kinds, and what is derived from it."""

from __future__ import annotations

from dataclasses import fields
from importlib import import_module

import pytest

from forewarn.policies.kubernetes.cluster.cache import Cache
from forewarn.policies.kubernetes.kinds.registry import (
    BY_GROUP_KIND,
    KINDS,
    LINTED,
    OPTIONAL,
    POD_TEMPLATE_PATHS,
    KindSpec,
    is_namespaced,
    plurals,
)
from forewarn.policies.kubernetes.objects.fields import InvalidObject, group_kind
from forewarn.policies.kubernetes.scheduling.node_info import ClusterObjects

MADE_BY_THE_CACHE = {"pods_by_node", "nominated", "workloads", "grouped_pods", "pods_on_unknown_nodes"}
NEEDS_MORE = ("CSIStorageCapacity", "VolumeAttachment", "Pod", "PriorityClass")
"""Kinds of which an object that is no more than its name cannot be read."""


@pytest.mark.parametrize("spec", [*KINDS, *OPTIONAL], ids=lambda spec: spec.kind)
def test_a_line_is_all_that_a_kind_needs(spec: KindSpec) -> None:
    module, name = spec.view.split(":")
    assert callable(getattr(import_module(f"forewarn.policies.kubernetes.objects.{module}"), name).from_api)
    obj = {"apiVersion": spec.api_version, "kind": spec.kind, "metadata": {"name": "x"}}
    assert group_kind(obj) == spec.group_kind
    cache = Cache()
    try:
        assert cache.add(obj)
    except InvalidObject:
        assert spec.kind in NEEDS_MORE
        return
    assert ("default" if spec.namespaced else "", "x") in cache.keys(spec.group_kind)
    cache.remove(obj)
    assert ("default" if spec.namespaced else "", "x") not in cache.keys(spec.group_kind)


def test_every_table_of_the_scheduler_is_filled_by_one_kind() -> None:
    tables = [spec.table for spec in (*KINDS, *OPTIONAL) if spec.table]
    plain = {field.name for field in fields(ClusterObjects) if "Mapping[" in str(field.type)}
    assert sorted(tables) == sorted(plain - MADE_BY_THE_CACHE)


def test_kinds_are_told_apart_and_pods_come_last() -> None:
    every = (*KINDS, *OPTIONAL)
    assert len(BY_GROUP_KIND) == len({spec.name for spec in every}) == len(every)
    assert KINDS[-1].kind == "Pod"


def test_what_is_linted_is_what_rules_are_about_and_what_changes_what_they_say() -> None:
    told = {kind.rpartition("/")[2] for kind in LINTED}
    groups = {"PodGroup", "Workload"}
    others = {"PriorityClass", "Pod", "Namespace", "ResourceQuota", "LimitRange", "PersistentVolumeClaim"}
    others |= {"PodDisruptionBudget", "StorageClass", "PersistentVolume", "ResourceClaim", "ResourceClaimTemplate"}
    others |= {"DeviceClass", "ResourceSlice", "DeviceTaintRule"}
    assert told == others | groups
    assert not told & {kind.rpartition("/")[2] for kind in POD_TEMPLATE_PATHS}


@pytest.mark.parametrize(
    ("kind", "plural"),
    [
        ("apps/Deployment", "deployments"),
        ("storage.k8s.io/StorageClass", "storageclasses"),
        ("argoproj.io/Rollout", "rollouts"),
        ("example.com/Proxy", "proxies"),
        ("example.com/Bus", "buses"),
    ],
)
def test_plurals_are_known_or_guessed_as_upstream_guesses(kind: str, plural: str) -> None:
    assert plural in plurals(kind)


def test_what_plays_no_part_is_taken_for_namespaced() -> None:
    assert not is_namespaced("storage.k8s.io/CSIDriver")
    assert is_namespaced("example.com/Bus")
