"""kube-apiserver's AdmissionConfiguration is read as it reads it, and every fault has its place."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from forewarn.policies.kubernetes.options import LimitedResource, ScopeSelector
from forewarn.policies.linting.config.load import load_limited_resources
from forewarn.policies.linting.config.model import ConfigError
from tests.policies.recorded import CASES

if TYPE_CHECKING:
    from pathlib import Path

HEAD = "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\n"
INNER = "apiVersion: apiserver.config.k8s.io/v1\nkind: ResourceQuotaConfiguration\n"


def written(tmp_path: Path, text: str, name: str = "admission.yaml") -> Path:
    file = tmp_path / name
    file.write_text(text)
    return file


def plugin(configuration: str) -> str:
    lines = "".join(f"    {line}\n" for line in configuration.splitlines())
    return f"{HEAD}plugins:\n- name: PodSecurity\n  path: x.yaml\n- name: ResourceQuota\n  configuration:\n{lines}"


def test_every_field_is_read() -> None:
    assert load_limited_resources(CASES / "limited-config.yaml") == (
        LimitedResource(
            "pods",
            ("requests.nvidia.com", "limits.memory"),
            (
                ScopeSelector("PriorityClass", "In", ("gold", "system-node-critical")),
                ScopeSelector("Terminating", "Exists"),
            ),
        ),
        LimitedResource(
            "pods",
            match_scopes=(ScopeSelector("PriorityClass", "NotIn", ("gold", "silver", "bronze", "batch", "low-1")),),
        ),
        LimitedResource("resourcequotas", ("count/",)),
        LimitedResource("deployments", ("count/",), api_group="apps"),
    )


def test_a_path_is_relative_to_the_file_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "more").mkdir()
    written(tmp_path / "more", f"{INNER}limitedResources:\n- resource: pods\n", "quota.yaml")
    outer = written(tmp_path, f"{HEAD}plugins:\n- name: ResourceQuota\n  path: more/quota.yaml\n")
    assert load_limited_resources(outer) == (LimitedResource("pods"),)


@pytest.mark.parametrize("version", ["v1beta1", "v1alpha1"])
def test_the_older_kinds_are_read_too(tmp_path: Path, version: str) -> None:
    head = f"apiVersion: resourcequota.admission.k8s.io/{version}\nkind: Configuration\n"
    inner = f"{head}limitedResources: [{{resource: pods}}]"
    assert load_limited_resources(written(tmp_path, plugin(inner))) == (LimitedResource("pods"),)


@pytest.mark.parametrize(
    "text", [HEAD, f"{HEAD}plugins: []\n", f"{HEAD}plugins: [{{name: PodSecurity}}]\n", plugin(INNER)]
)
def test_a_file_without_limits_limits_nothing(tmp_path: Path, text: str) -> None:
    assert load_limited_resources(written(tmp_path, text)) == ()


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("kind: [", ":1:"),
        ("kind: AdmissionConfiguration\n", "apiVersion is missing: must be apiserver.config.k8s.io/v1"),
        (HEAD.replace("Admission", "Omission"), ':2:7: kind: must be AdmissionConfiguration, not "OmissionConfig'),
        (f"{HEAD}plugin: []\n", ':3:1: unknown key "plugin"; did you mean "plugins"?'),
        (plugin("kind: ResourceQuotaConfiguration"), "apiVersion is missing"),
        (plugin(INNER + "limitedResource: []"), 'did you mean "limitedResources"?'),
        (plugin(INNER + "limitedResources: [{}]"), "limitedResources[0]: resource is missing"),
        (
            plugin(INNER + "limitedResources: [{resource: pods, matchScopes: [{scopeName: PriorityClass}]}]"),
            "operator is missing",
        ),
        (
            plugin(INNER + "limitedResources: [{resource: pods, matchScopes: [{scopeName: P, operator: in}]}]"),
            'unknown operator "in"; known: DoesNotExist, Exists, In, NotIn',
        ),
    ],
)
def test_a_fault_is_told_with_its_place(tmp_path: Path, text: str, fault: str) -> None:
    file = written(tmp_path, text)
    with pytest.raises(ConfigError) as rejected:
        load_limited_resources(file)
    assert fault in str(rejected.value)
    assert str(rejected.value).startswith(str(file))


@pytest.mark.parametrize("name", ["pipe", "/dev/zero", "."])
def test_a_plugin_configuration_is_a_regular_file(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    outer = written(tmp_path, f"{HEAD}plugins:\n- name: ResourceQuota\n  path: {name}\n")
    with pytest.raises(ConfigError, match=r"plugins\[0\]\.path: must be a regular file"):
        load_limited_resources(outer)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.yaml: no such file"):
        load_limited_resources(tmp_path / "none.yaml")
    outer = written(tmp_path, f"{HEAD}plugins:\n- name: ResourceQuota\n  path: gone.yaml\n")
    with pytest.raises(ConfigError, match=r"gone\.yaml: no such file"):
        load_limited_resources(outer)
