"""Every kind that names classes: the right class gives nothing, a misspelt one a finding at its line and column.

`cases/kinds`: realistic objects, with NAME wherever a class is named.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from textwrap import indent
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from forewarn.policies.cli.main import main
from forewarn.policies.inputs.manifests.object_finder import Parameters
from forewarn.policies.kubernetes.kinds.class_paths import class_paths_of

if TYPE_CHECKING:
    from collections.abc import Iterator

CASES = sorted((Path(__file__).parents[1] / "cases/kinds").glob("*.yaml"))
CLASS = "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: gold}\nvalue: 1000\n"


def linted(directory: Path, capsys: pytest.CaptureFixture[str], *options: str) -> list[dict[str, Any]]:
    """The findings on a directory."""
    capsys.readouterr()
    main(["lint", str(directory), "-o", "json", *options])
    found: list[dict[str, Any]] = json.loads(capsys.readouterr().out)["findings"]
    return found


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_a_misspelt_class_is_found_where_it_is_named(
    path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text, file = path.read_text(), tmp_path / "a.yaml"
    (tmp_path / "classes.yaml").write_text(CLASS)
    file.write_text(text.replace("NAME", "gold"))
    assert linted(tmp_path, capsys, "--closed") == []
    places = [match.start() for match in re.finditer("NAME", text)]
    assert places
    for place in places:
        file.write_text((text[:place] + "goold" + text[place + 4 :]).replace("NAME", "gold"))
        (found,) = linted(tmp_path, capsys)
        before = (text[:place]).replace("NAME", "gold")
        line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
        column -= before.endswith('"')
        assert (found["rule"], found["severity"]) == ("unknown-priority-class", "error")
        assert (found["file"], found["line"], found["column"]) == (str(file), line, column)


@pytest.mark.parametrize(
    ("name", "severity"), [("research", ""), ("reserach", "error"), ("other", "warning"), ("${X}", "")]
)
def test_a_workload_priority_class_of_kueue_is_looked_up(
    name: str, severity: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a/classes.yaml").write_text(
        "apiVersion: kueue.x-k8s.io/v1beta2\nkind: WorkloadPriorityClass\nmetadata: {name: research}\nvalue: 1\n"
    )
    (tmp_path / "job.yaml").write_text(
        "apiVersion: ray.io/v1\nkind: RayJob\nmetadata:\n  name: j\n  labels:\n"
        f"    kueue.x-k8s.io/priority-class: {name}\nspec: {{suspend: true}}\n"
    )
    found = [(each["rule"], each["severity"], each["line"], each["column"]) for each in linted(tmp_path, capsys)]
    assert found == ([("unknown-workload-priority-class", severity, 6, 36)] if severity else [])


def test_the_default_of_a_parameter_is_the_class(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (CASES[0].parent / "openshift-template.yaml").read_text().replace("NAME", "gold")
    (tmp_path / "a.yaml").write_text(text.replace("PRIORITY_CLASS, value: gold", "PRIORITY_CLASS, value: goold"))
    (tmp_path / "classes.yaml").write_text(CLASS)
    (found,) = linted(tmp_path, capsys)
    assert text.splitlines()[found["line"] - 1].strip() == "priorityClassName: ${PRIORITY_CLASS}"
    assert 'PriorityClass "goold" not found' in found["message"]
    defaults = (
        "parameters: [{name: NUM, value: '5'}, {name: TXT, value: abc}]\nobjects:\n- apiVersion: v1\n  kind: Pod\n"
    )
    pod = "  metadata: {name: p, namespace: team}\n  spec:\n    priorityClassName: gold\n    priority: VALUE\n"
    for value, rules in (
        ("${{NUM}}", {"priority-mismatch"}),
        ("${{TXT}}", {"value-rejected"}),
        ("${{X}}", set()),
    ):
        given = f"apiVersion: v1\nkind: Template\n{defaults}{pod}".replace("VALUE", value)
        (tmp_path / "a.yaml").write_text(given)
        assert {found["rule"] for found in linted(tmp_path, capsys)} == rules


def test_values_that_aliases_repeat_are_looked_at_once() -> None:
    value: Any = {"priority": "${{X}}"}
    for _ in range(60):
        value = {"a": value, "b": value, "c": [value]}
    found = Parameters({"parameters": [None, {"name": "X", "value": "7"}]}).applied(value)
    for _ in range(60):
        found = found["a"]
    assert found == {"priority": 7}


def test_a_release_without_a_namespace_may_use_system_classes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    release = "apiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata: {name: dns, NAMESPACE}\n"
    release += "spec: {values: {priorityClassName: system-cluster-critical}}\n"
    for namespace, rules in (("", []), ("namespace: kube-system", []), ("namespace: shop", [SYSTEM])):
        (tmp_path / "a.yaml").write_text(release.replace("NAMESPACE", namespace))
        assert [found["rule"] for found in linted(tmp_path, capsys, "--closed")] == rules


SYSTEM = "system-class-outside-kube-system"
WORK = """\
apiVersion: work.open-cluster-management.io/v1
kind: ManifestWork
metadata: {name: classes, namespace: CLUSTER}
spec:
  workload:
    manifests:
    - {apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: silver}, value: VALUE}
    - apiVersion: v1
      kind: Pod
      metadata: {name: web, namespace: shop}
      spec: {priorityClassName: silver}
"""


def test_objects_of_two_clusters_are_not_updates_of_each_other(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    works = [WORK.replace("CLUSTER", f"cluster{value}").replace("VALUE", str(value)) for value in (1, 2)]
    (tmp_path / "works.yaml").write_text("---\n".join(works))
    assert linted(tmp_path, capsys, "--closed") == []
    (tmp_path / "works.yaml").write_text(
        "---\n".join([works[0], works[0].replace("metadata: {name: web", "metadata: {name: x")])
    )
    assert linted(tmp_path, capsys, "--closed") == []


def test_a_kustomization_does_not_change_the_namespace_of_what_stands_in_an_object(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "work.yaml").write_text(
        WORK.replace("VALUE", "1").replace("priorityClassName: silver", "priorityClassName: sliver")
    )
    (tmp_path / "kustomization.yaml").write_text("namespace: other\nresources: [work.yaml]\n")
    (found,) = linted(tmp_path, capsys, "--closed")
    assert found["object"]["namespace"] == "shop"


CONFIG_MAP = """\
apiVersion: v1
kind: ConfigMap
metadata: {{name: c}}
data:
  a.yaml: {}
"""
POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: p, namespace: n}\nspec: {priorityClassName: goold}\n"


TEXTS = {
    "quoted": (json.dumps(POD), (5, 11)),
    "folded": (">\n    " + POD.replace("\n", "\n\n    "), (5, 11)),
    "literal": ("|\n" + indent(POD, "    "), (9, 31)),
    "literal with a tag": ("&a !!str |+\n\n" + indent(POD, "    "), (10, 31)),
    "line ends of Windows": ("|\n" + indent(POD, "    ").replace("\n", "\r\n"), (9, 31)),
    "quoted twice": (json.dumps(CONFIG_MAP.format(json.dumps(POD))), (5, 11)),
    "literal in literal": ("|\n" + indent(CONFIG_MAP.format("|\n" + indent(POD, "    ")), "      "), (14, 37)),
}


@pytest.mark.parametrize(("text", "place"), TEXTS.values(), ids=TEXTS)
def test_a_finding_in_text_stands_at_its_line_or_at_the_text(
    text: str, place: tuple[int, int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.yaml").write_text(CLASS + "---\n" + CONFIG_MAP.format(text), newline="")
    (found,) = linted(tmp_path, capsys)
    assert (found["line"] - CLASS.count("\n") - 1, found["column"]) == place


NO_MANIFESTS = (
    "{{ if .x }}\npriorityClassName: goold",
    "priorityClassName: [",
    "priorityClassName",
    "- priorityClassName: goold",
    "\ud800 priorityClass",
)


@pytest.mark.parametrize("text", NO_MANIFESTS)
def test_a_text_that_is_no_manifest_is_nobodys_business(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.json").write_text(json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "data": {"a.yaml": text}}))
    assert linted(tmp_path, capsys, "--closed") == []


def test_what_holds_objects_is_bounded(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {}}
    many = {"apiVersion": "template.openshift.io/v1", "kind": "Template", "objects": [pod] * 10_001}
    (tmp_path / "a.json").write_text(json.dumps(many))
    assert [found["rule"] for found in linted(tmp_path, capsys)] == ["parse-error"]
    text = json.dumps(pod | {"spec": {"priorityClassName": "goold"}})
    for _ in range(4):
        text = json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": text}})
    (tmp_path / "a.json").write_text(text)
    assert linted(tmp_path, capsys, "--closed") == []
    deep: Any = pod | {"spec": {"priorityClassName": "goold"}}
    for _ in range(100):
        deep = {"apiVersion": "v1", "kind": "Template", "objects": [deep]}
    (tmp_path / "a.json").write_text(json.dumps(deep))
    assert linted(tmp_path, capsys, "--closed") == []


DEFINITION: dict[str, Any] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "fleets.example.com"},
    "spec": {
        "group": "example.com",
        "names": {"kind": "Fleet", "plural": "fleets"},
        "scope": "Namespaced",
        "versions": [
            {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}
        ],
    },
}
TEXT = {"type": "string"}
POD_SPEC = {"properties": {"containers": {"type": "array"}, "priorityClassName": TEXT, "priority": {"type": "integer"}}}
TEMPLATE = {"properties": {"metadata": {"type": "object"}, "spec": POD_SPEC}}
SHIPS = {
    "properties": {
        "priorityClassName": TEXT,
        "ships": {"type": "array", "items": {"properties": {"template": TEMPLATE}}},
        "harbours": {"additionalProperties": {"properties": {"agentPriorityClassName": TEXT}}},
    }
}
FLEET = """\
apiVersion: example.com/v1
kind: Fleet
metadata: {name: f, namespace: sea}
spec:
  priorityClassName: NAME
  ships:
  - template: {spec: {priorityClassName: NAME, containers: []}}
  harbours:
    north: {agentPriorityClassName: NAME}
"""


def definition(spec: Any) -> str:
    """A CustomResourceDefinition with this schema of `spec`."""
    given = json.loads(json.dumps(DEFINITION))
    given["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"] = {"spec": spec}
    return yaml.safe_dump(given)


@pytest.mark.parametrize("name", ["a.yaml", "z.yaml", "a.json"])
def test_a_kind_that_the_input_defines_is_read_by_its_schema(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = definition(SHIPS)
    (tmp_path / name).write_text(json.dumps(yaml.safe_load(text)) if name.endswith("json") else text)
    (tmp_path / "classes.yaml").write_text(CLASS)
    (tmp_path / "fleet.yaml").write_text(FLEET.replace("NAME", "gold"))
    assert linted(tmp_path, capsys, "--closed") == []
    (tmp_path / "fleet.yaml").write_text(FLEET.replace("NAME", "goold"))
    found = linted(tmp_path, capsys)
    assert [(each["line"], each["column"]) for each in found] == [(5, 22), (7, 42), (9, 37)]
    assert {each["rule"] for each in found} == {"unknown-priority-class"}
    (tmp_path / "fleet.yaml").write_text(FLEET.replace("NAME,", "gold, priority: 5,").replace("NAME", "gold"))
    assert {each["rule"] for each in linted(tmp_path, capsys)} == {"priority-mismatch", "pinned-priority"}


def test_a_kind_that_the_cluster_defines_is_read_by_its_schema(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "cluster").mkdir()
    (tmp_path / "cluster/crds.yaml").write_text(definition(SHIPS))
    (tmp_path / "cluster/classes.yaml").write_text(CLASS)
    (tmp_path / "fleet.yaml").write_text(FLEET.replace("NAME", "goold"))
    assert {each["severity"] for each in linted(tmp_path / "fleet.yaml", capsys)} == {"note"}
    assert len(linted(tmp_path / "fleet.yaml", capsys, "--cluster", str(tmp_path / "cluster"))) == 3


class Live:
    """A running cluster with these definitions."""

    def __init__(self, *definitions: Any) -> None:
        self._definitions = definitions

    def __call__(self, _: str) -> Iterator[Any]:
        yield from yaml.safe_load_all(CLASS)

    def definitions(self, _: str) -> Iterator[Any]:
        yield from self._definitions


def test_a_kind_that_a_running_cluster_defines_is_read_by_its_schema(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "fleet.yaml").write_text(FLEET.replace("NAME", "goold"))
    live = Live({"spec": None}, {}, yaml.safe_load(definition(SHIPS)))
    monkeypatch.setattr("forewarn.policies.inputs.sources.cluster._named_source", lambda _: (live, ""))
    assert len(linted(tmp_path / "fleet.yaml", capsys, "--cluster", "live")) == 3
    (tmp_path / "fleet.yaml").write_text("apiVersion: example.com/v1\nkind: Fleet\nmetadata: {name: f}\n")
    monkeypatch.setattr(live, "definitions", pytest.fail)
    assert linted(tmp_path / "fleet.yaml", capsys, "--cluster", "live") == []


def test_what_is_known_of_a_kind_goes_before_its_schema(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = definition({"properties": {"priorityClassName": TEXT}})
    (tmp_path / "crd.yaml").write_text(text.replace("example.com", "kueue.x-k8s.io").replace("Fleet", "Workload"))
    (tmp_path / "a.yaml").write_text((CASES[0].parent / "kueue.yaml").read_text().replace("NAME", "gold"))
    (tmp_path / "classes.yaml").write_text(CLASS)
    assert linted(tmp_path, capsys, "--closed") == []


def test_a_definition_that_no_object_needs_is_not_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("forewarn.policies.linting.lint.input.class_paths_of", pytest.fail)
    (tmp_path / "crd.yaml").write_text(definition(SHIPS))
    (tmp_path / "classes.yaml").write_text(CLASS)
    assert linted(tmp_path, capsys) == []


def nested(depth: int) -> Any:
    """A schema so deep."""
    found: Any = {"properties": {"priorityClassName": TEXT}}
    for _ in range(depth):
        found = {"properties": {"a": found}}
    return found


WIDE: Any = {"properties": {"priorityClassName": TEXT}}
for _ in range(40):
    WIDE = {"properties": {"a": WIDE, "b": WIDE}}
HOSTILE = [
    None,
    7,
    [],
    "x",
    {"properties": []},
    {"properties": {"a": 3, "*": SHIPS, "**": SHIPS}},
    {"items": 7},
    nested(1000),
    WIDE,
]


@pytest.mark.parametrize("schema", HOSTILE, ids=range(len(HOSTILE)))
def test_any_schema_is_read_in_bounds(schema: Any) -> None:
    given = {
        **DEFINITION,
        "spec": {**DEFINITION["spec"], "validation": {"openAPIV3Schema": {"properties": {"spec": schema}}}},
    }
    kind, paths = class_paths_of(given)
    assert (kind, len(paths) <= 1000) == ("example.com/Fleet", True)
    assert class_paths_of({"spec": schema})[1] == class_paths_of({})[1] == ()
