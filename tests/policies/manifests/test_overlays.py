"""Objects after the patches of kustomizations are those of `kustomize build` (v5.8.1).

KUSTOMIZE=PROGRAM UPDATE=1 records its output again.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from forewarn.policies.base.metering import CutShort, metered
from forewarn.policies.inputs.manifests.groups import kustomized
from forewarn.policies.kubernetes.objects.patches import PatchError, json_patched, merged
from forewarn.policies.linting.config.model import Config
from forewarn.policies.linting.lint.input import LintRequest, read_input
from tests.in_process import forewarn
from tests.work import steps

CASES = sorted(Path(__file__).parent.parent.joinpath("cases", "overlays").glob("*.txt"))
_FILE = re.compile(r"^-- (\S+) --\n", re.MULTILINE)


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_objects_are_those_of_kustomize(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parts = _FILE.split(path.read_text())[1:]
    files = dict(zip(parts[::2], parts[1::2], strict=True))
    expected = files.pop("build")
    _write(tmp_path, files)
    monkeypatch.chdir(tmp_path)
    if program := os.environ.get("KUSTOMIZE"):
        built = subprocess.run(
            [program, "build", "overlay"], capture_output=True, text=True, check=True, timeout=60
        ).stdout
        recorded = "".join(f"{json.dumps(obj)}\n" for obj in yaml.safe_load_all(built))
        path.write_text(path.read_text().removesuffix(expected) + recorded)
    assert _built() == {_identity(obj): obj for obj in map(json.loads, expected.splitlines())}


def _built() -> dict[tuple[str, str], Any]:
    given = read_input(LintRequest(["."], Config()))
    members, unpatched, apart, _ = kustomized(
        given.members, {k.directory: k for k in given.kustomizations}, given.content
    )
    assert (unpatched, apart) == (0, 0)
    objects = {}
    for member in members:
        if not member.subject.is_partial and member.subject.object:
            (prefix, suffix), obj = member.affixes, member.subject.object
            renamed = {**obj, "metadata": {**obj["metadata"], "name": f"{prefix}{obj['metadata']['name']}{suffix}"}}
            objects[_identity(renamed)] = renamed
    return objects


def _identity(obj: Any) -> tuple[str, str]:
    return obj["kind"], obj["metadata"]["name"]


def _write(directory: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_text(text)


WEB = """apiVersion: apps/v1
kind: Deployment
metadata: {name: web, labels: {app: web}}
spec:
  replicas: 1
  selector: {matchLabels: {app: web}}
  template: {metadata: {labels: {app: web}}, spec: {priorityClassName: none, containers: [{name: a, image: a}]}}
"""
_ADD = "patch: '[{op: add, path: /spec/paused, value: true}]'"
_REPLACED = "source: {kind: Deployment}, targets: [{select: {name: web}, fieldPaths: [%s]}]"


@pytest.mark.parametrize(
    "change",
    [
        "patches: [{path: missing.yaml}]",
        "patches: [{path: broken.yaml, target: {kind: Deployment}}]",
        f"patches: [{{target: {{kind: Deployment, name: (w+)+eb}}, {_ADD}}}]",
        f"patches: [{{target: {{labelSelector: app in (web)}}, {_ADD}}}]",
        "patches: [{target: {name: web}, patch: '[{op: remove, path: /spec/gone}]'}]",
        "patches: [{target: {name: web}, patch: '[{op: add, path: /spec/replicas/a, value: 1}]'}]",
        "patches: [{target: {name: web}, patch: '[{op: test, path: /spec/replicas, value: 2}]'}]",
        "patches: [{target: {name: web}, patch: '[{op: add, path: /spec/template/spec/containers/7, value: 1}]'}]",
        "patches: [{target: {name: web}, patch: '{spec: [a]}'}]",
        "components: [missing]",
        "components: ['https://example.com/org/repo//component?ref=v1']",
        "labels: [{pairs: {a: b}, fields: [{path: spec/template/metadata/labels, create: true}]}]",
        "transformers: [t.yaml]",
        f"replacements: [{{{_REPLACED % 'spec.replicas'}}}]",
        f"namePrefix: a-\ncomponents: {[f'c{i}' for i in range(200)]}",
    ],
)
def test_objects_are_not_checked_if_a_change_is_not_applied(
    change: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {"kustomization.yaml": f"resources: [web.yaml]\n{change}\n", "web.yaml": WEB, "broken.yaml": "a: ["}
    _write(tmp_path, files)
    monkeypatch.chdir(tmp_path)
    done = forewarn("lint", ".", "--ignore", "parse-error")
    assert "1 object not checked: patches that forewarn does not apply" in done.stderr
    assert "priority-class" not in done.stdout


def test_an_object_within_an_object_needs_no_known_component(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    holder = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"web.yaml": WEB}}
    _write(
        tmp_path, {"kustomization.yaml": "resources: [c.yaml]\ncomponents: [missing]\n", "c.yaml": json.dumps(holder)}
    )
    monkeypatch.chdir(tmp_path)
    assert "internal error" not in forewarn("lint", ".").stderr


@pytest.mark.parametrize("directive", [[1], {"a": 1}])
def test_an_unknown_directive_is_no_fault(directive: Any) -> None:
    patch = {"containers": [{"$patch": directive}]}
    assert merged({"containers": [{"name": "a"}]}, patch) == {"containers": [{"name": "a"}]}


@pytest.mark.parametrize(
    "change", ["images: [{name: a, newTag: b}]", f"replacements: [{{{_REPLACED % 'metadata.annotations.a'}}}]"]
)
def test_changes_that_rules_do_not_read_are_ignored(
    change: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _write(tmp_path, {"kustomization.yaml": f"resources: [web.yaml]\n{change}\n", "web.yaml": WEB})
    monkeypatch.chdir(tmp_path)
    done = forewarn("lint", "-v", ".")
    assert "not checked: patches" not in done.stderr
    assert "priority-class-not-checked" in done.stdout


@pytest.mark.parametrize(
    "operations",
    [
        [{"op": "copy", "from": "/spec", "path": f"/spec/{i}"} for i in range(64)],
        [{"op": "add", "path": "/spec/a/-", "value": 1}] * 20_000,
    ],
)
def test_the_work_of_operations_is_limited(operations: list[Any]) -> None:
    with metered(lambda: False, 1_000_000), pytest.raises(CutShort):
        json_patched({"spec": {"a": [1] * 1000}}, operations)


def test_the_work_of_many_patches_of_many_objects_is_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    patches = [{"target": {"name": ".*"}, "patch": '[{"op": "replace", "path": "/spec/replicas", "value": 1}]'}] * 300
    files = {"kustomization.yaml": json.dumps({"resources": ["web.yaml"], "patches": patches})}
    _write(tmp_path, {**files, "web.yaml": "---\n".join(WEB.replace("web,", f"web{i},") for i in range(500))})
    monkeypatch.chdir(tmp_path)
    given = read_input(LintRequest(["."], Config()))
    kustomizations = {k.directory: k for k in given.kustomizations}
    monkeypatch.setattr("forewarn.policies.inputs.manifests.kustomizations.MAX_WORK", 1_000_000)
    results: list[Any] = []
    assert steps(lambda: results.append(kustomized(given.members, kustomizations, given.content))) < 15_000_000
    assert 300 < results[0][1] <= 500


def test_copies_do_not_nest_values_without_end() -> None:
    value: Any = {}
    for _ in range(95):
        value = {"n": value}
    copies = [("/x", "/y"), ("/y", "/x" + "/n" * 95)] * 20
    operations = [{"op": "copy", "from": start, "path": path} for start, path in copies]
    with metered(lambda: False, 10**9), pytest.raises(PatchError, match="nested too deeply"):
        json_patched({"x": value}, operations)


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ("Patches: [{target: {name: web}, patch: '[{op: replace, path: /spec/replicas, value: -1}]'}]", "2:11"),
        ("replicas: [{name: web, count: -1}]", "2:12"),
    ],
)
def test_a_value_that_only_a_kustomization_writes_is_found_there(
    change: str, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _write(tmp_path, {"kustomization.yaml": f"resources: [web.yaml]\n{change}\n", "web.yaml": WEB})
    monkeypatch.chdir(tmp_path)
    assert f"kustomization.yaml:{place}: error: Deployment default/web: spec.replicas: " in forewarn("lint", ".").stdout
