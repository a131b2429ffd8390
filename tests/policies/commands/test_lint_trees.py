"""`forewarn lint` on trees as repositories have them: templates, test assertions and files of other programs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from forewarn.policies.cli.commands import lint

if TYPE_CHECKING:
    from pathlib import Path

CLASS = "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata:\n  name: %s\nvalue: %s\n"
POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec:\n  priorityClassName: %s\n"


class Said:
    """What a run printed, and its exit status."""

    def __init__(self, status: int, out: str, err: str) -> None:
        self.status, self.err = status, err
        self.report: dict[str, Any] = json.loads(out) if out else {"findings": []}
        self.findings: list[dict[str, Any]] = self.report["findings"]
        self.rules = [finding["rule"] for finding in self.findings]


class Tree:
    """A directory of files that is linted from inside."""

    def __init__(self, root: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.root, self._capsys = root, capsys

    def write(self, **files: str) -> None:
        """Add files; `__` in a name is a slash."""
        self.add({name.replace("__", "/") + ".yaml": text for name, text in files.items()})

    def add(self, files: dict[str, str]) -> None:
        """Add files by their paths."""
        for name, text in files.items():
            (self.root / name).parent.mkdir(parents=True, exist_ok=True)
            (self.root / name).write_text(text)

    def lint(self, *arguments: str) -> Said:
        """Run the linter with a JSON report."""
        status = lint.main(["-o", "json", *arguments])
        said = self._capsys.readouterr()
        return Said(status, said.out, said.err)

    def listed(self) -> str:
        """The files that are checked, and those that are skipped."""
        lint.main(["--list-files"])
        said = self._capsys.readouterr()
        return said.out + said.err


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Tree:
    root = tmp_path / "tree"
    root.mkdir()
    monkeypatch.chdir(root)
    return Tree(root, capsys)


@pytest.mark.parametrize("closed", [True, False])
@pytest.mark.parametrize("name", ['"{{ .Values.class }}"', "${CLASS}", "team-${CLASS:-x}", '"@CLASS@"', '"%CLASS%"'])
def test_a_variable_of_a_template_is_no_class_name(name: str, closed: bool, tree: Tree) -> None:
    tree.write(web=POD % name)
    assert tree.lint(*["--closed"] * closed).rules == []
    tree.write(gold=CLASS % ("gold", 5), named=CLASS % (name, 7))
    assert tree.lint(*["--closed"] * closed).rules == []


@pytest.mark.parametrize("name", ["cost-$5", "a@b", "50%", "missing"])
def test_a_class_name_with_an_odd_character_is_one(name: str, tree: Tree) -> None:
    tree.write(web=POD % f'"{name}"')
    rule = "unknown-priority-class" if name == "missing" else "priority-class-name-invalid"
    assert tree.lint("--closed").rules == [rule]


AUTOSCALER = """apiVersion: apps/v1
kind: Deployment
metadata: {name: cluster-autoscaler}
spec:
  selector: {matchLabels: {a: b}}
  template:
    metadata: {labels: {a: b}}
    spec:
      containers:
      - name: c
        image: c
        %s
"""


@pytest.mark.parametrize(
    ("container", "cutoff"),
    [
        ("command: [./cluster-autoscaler, --expendable-pods-priority-cutoff=-100]", -100),
        ("args: [--v=4, --expendable-pods-priority-cutoff, '-100']", -100),
        ("args: ['--expendable-pods-priority-cutoff=${CUTOFF}']", -10),
        ("args: [--v=4]", -10),
    ],
)
def test_the_cutoff_is_that_of_the_autoscaler_in_the_input(container: str, cutoff: int, tree: Tree) -> None:
    tree.write(autoscaler=AUTOSCALER % container, low=CLASS % ("low", -50), lower=CLASS % ("lower", -150))
    found = [f for f in tree.lint().findings if f["rule"] == "below-autoscaler-cutoff"]
    assert [f["object"]["name"] for f in found] == (["lower"] if cutoff == -100 else ["low", "lower"])
    assert all(f"cutoff ({cutoff})" in f["message"] for f in found)
    tree.add({".forewarn.yaml": "autoscalerCutoff: -200\n"})
    assert tree.lint().rules == []


ASSERTION = (
    "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec:\n  (length(containers)): 1\n  priorityClassName: x\n"
)
CHAINSAW = """apiVersion: chainsaw.kyverno.io/v1alpha1
kind: Test
metadata: {name: t}
spec:
  steps:
  - try:
    - apply: {file: applied.yaml}
    - assert: {file: ./ready.yaml}
    - error: {file: gone.yaml}
    - assert: {file: "is-*.yaml"}
    - assert: {file: below/ready.yaml}
    - assert: {file: "below/*.yaml"}
    - assert: {file: ../outside.yaml}
    - assert: {file: "../../deploy/*.yaml"}
    - assert: {file: "*kustomization.yaml"}
"""
STEP = "apiVersion: kuttl.dev/v1beta1\nkind: TestStep\n"


@pytest.mark.parametrize(
    "path",
    [
        "e2e/kuttl/00-assert.yaml",
        "e2e/kuttl/01-errors.yaml",
        "e2e/kuttl/2-assert-ready.yml",
        "e2e/t/00-assert.yaml",
        "e2e/t/assert.yaml",
        "e2e/t/web-assert.yaml",
    ],
)
def test_an_assertion_of_chainsaw_or_kuttl_is_no_manifest(path: str, tree: Tree) -> None:
    files = {"gold.yaml": CLASS % ("gold", 5), "e2e/t/chainsaw-test.yaml": CHAINSAW, "e2e/kuttl/00-install.yaml": STEP}
    tree.add(files | {path: ASSERTION})
    said = tree.lint("--closed", "-v")
    assert (said.status, said.rules) == (0, [])
    assert "left out: test assertion (1)" in said.err
    assert f"left out (test assertion): ./{path}\n" in said.err
    assert f"skipped: ./{path} (test assertion)" in tree.listed()
    assert tree.lint(path, "--closed").rules, "a file that is named is checked"


@pytest.mark.parametrize(
    "path",
    [
        "e2e/kuttl/00-install.yaml",
        "e2e/t/applied.yaml",
        "errors.yaml",
        "assertive.yaml",
        "e2e/t/below/ready.yaml",
        "e2e/t/below/assert.yaml",
        "e2e/t/is/ready.yaml",
        "e2e/outside.yaml",
        "deploy/web.yaml",
        "deploy/web-assert.yaml",
        "deploy/00-assert.yaml",
        "assert.yaml",
    ],
)
def test_other_files_beside_assertions_are_manifests(path: str, tree: Tree) -> None:
    tree.add({"e2e/t/chainsaw-test.yaml": CHAINSAW, path: POD % "gone"})
    assert tree.lint("--closed").rules == ["unknown-priority-class"]


FOREIGN = {
    "arm.json": '{"$schema": "https://schema.management.azure.com", // c\n "resources": [{"apiVersion": "2020-01",'
    ' "kind": "StorageV2", "properties": {}}],}\n',
    "dashboard.json": '{"panels": [{"kind": "graph", "title": "a"}, ]\n',
    "values.yaml": "web:\n  kind: Deployment\n  args: [}\n",
    "link.yaml": "../other/web.yaml\n",
    "settings.yaml": "- name: a\n  with: {kind: b}\n-broken\n",
}


@pytest.mark.parametrize("name", FOREIGN)
def test_a_file_without_a_type_at_its_root_is_no_manifest(name: str, tree: Tree) -> None:
    tree.add({"gold.yaml": CLASS % ("gold", 5), name: FOREIGN[name]})
    said = tree.lint()
    assert (said.status, said.rules) == (0, [])
    assert "without a kind (1)" in said.err


BROKEN = {
    "pod.yaml": "apiVersion: v1\nkind: Pod\nmetadata: {name: a\nspec: {}\n",
    "pod.json": '{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}\n',
    "pods.json": '[{"apiVersion": "v1", "kind": "Pod"}, }\n',
    "list.yaml": "apiVersion: v1\nkind: List\nitems:\n- kind: Pod\n  a: }\n",
    "items.yaml": "- apiVersion: v1\n  kind: Pod\n  a: }\n",
    "indented.yaml": "  apiVersion: v1\n  kind: Pod\n  metadata:\n   name: a\n  b\n",
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_manifest_stays_an_error(name: str, tree: Tree) -> None:
    tree.add({name: BROKEN[name]})
    assert "parse-error" in tree.lint().rules


@pytest.mark.parametrize(
    "pattern",
    [
        "charts/*",
        "./charts/*",
        "./charts/web/pod.yaml",
        "charts",
        "web",
        "w*b",
        "pod.yaml",
        "p*.yaml",
        "charts/web",
        "*/web",
        "web/",
    ],
)
@pytest.mark.parametrize("configured", [True, False])
def test_a_pattern_of_exclude_is_a_path_or_a_name(pattern: str, configured: bool, tree: Tree) -> None:
    tree.add({"gold.yaml": CLASS % ("gold", 5), "charts/web/pod.yaml": POD % "gone"})
    assert [f["file"] for f in tree.lint("--closed").findings] == ["./charts/web/pod.yaml"]
    arguments = [] if configured else ["--exclude", pattern]
    if configured:
        tree.add({".forewarn.yaml": f"exclude: ['{pattern}']\n"})
    said = tree.lint("--closed", *arguments)
    assert (said.rules, said.report["summary"]["leftOut"]) == ([], {"excluded file": 1})


@pytest.mark.parametrize("pattern", ["chart", "harts", "web/*", "pod", "./web", "*/charts"])
def test_a_part_of_a_path_is_not_excluded(pattern: str, tree: Tree) -> None:
    tree.add({"charts/web/pod.yaml": POD % "gone"})
    assert tree.lint("--exclude", pattern).report["summary"]["leftOut"] == {}


SPEC = """apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  %s
"""


@pytest.mark.parametrize(
    ("field", "message"),
    [
        ("containers: [{name: c, image: c, env: [{name: A, value: yes}]}]", "bool into Go struct field EnvVar.value"),
        ("initContainers: [{name: c, image: c, env: [{name: A, value: 1.5}]}]", "number into Go struct field EnvVar.v"),
        ("containers: [{name: c, image: c, args: [a, 5]}]", "number into Go struct field Container.args"),
        ("containers: [{name: c, image: c, command: [{a: b}]}]", "object into Go struct field Container.command"),
        ("containers: [{name: c, image: c, args: [a, '5'], env: [{name: A, value: 'yes'}, {name: B}]}]", ""),
    ],
)
def test_a_word_of_a_container_that_is_no_string_cannot_be_decoded(field: str, message: str, tree: Tree) -> None:
    tree.write(web=SPEC % field)
    said = tree.lint()
    assert said.status == bool(message)
    assert [f["line"] for f in said.findings if message in f["message"] and f["rule"] == "value-rejected"] == (
        [5] if message else []
    )


@pytest.mark.parametrize("policy", ["never", "Sometimes"])
@pytest.mark.parametrize("class_name", ["gold", ""])
def test_an_unsupported_preemption_policy_of_a_pod_is_an_error_without_its_class(
    policy: str, class_name: str, tree: Tree
) -> None:
    tree.write(web=SPEC % f'preemptionPolicy: {policy}\n  priorityClassName: "{class_name}"')
    (found,) = [f for f in tree.lint().findings if f["rule"] == "preemption-policy-mismatch"]
    assert (found["severity"], found["line"]) == ("error", 5)
    assert ('did you mean "Never"?' in found["message"]) == (policy == "never")


def test_a_supported_or_unrendered_preemption_policy_is_not_reported(tree: Tree) -> None:
    tree.write(one=SPEC % "preemptionPolicy: Never\n  priorityClassName: x", two=SPEC % "preemptionPolicy: ${POLICY}")
    assert "preemption-policy-mismatch" not in tree.lint().rules


def test_a_second_global_default_names_the_line_of_the_first(tree: Tree) -> None:
    default = CLASS + "globalDefault: true\n"
    tree.write(a=default % ("a", 1), b=default % ("b", 2))
    (found,) = tree.lint().findings
    assert (found["file"], found["line"], "(./a.yaml:6)" in found["message"]) == ("./b.yaml", 6, True)


QUOTA = """apiVersion: v1
kind: ResourceQuota
metadata: {name: q, namespace: x}
spec:
  hard:
    pods: "1"
    %s: "4"
  scopeSelector:
    matchExpressions:
    - scopeName: PriorityClass
      operator: %s
"""


@pytest.mark.parametrize(("resource", "operator", "line"), [("services", "Exists", 7), ("cpu", "In", 11)])
def test_a_quota_scope_is_reported_where_it_is_wrong(resource: str, operator: str, line: int, tree: Tree) -> None:
    tree.write(quota=QUOTA % (resource, operator))
    assert [f["line"] for f in tree.lint().findings if f["rule"] == "quota-scope-invalid"] == [line]


def test_the_summary_counts_parse_errors_that_are_not_reported(tree: Tree) -> None:
    tree.write(pod="apiVersion: v1\nkind: Pod\nmetadata: {name: a\n")
    assert "not reported" not in tree.lint(".").err
    for option in ("--ignore=parse-error", "--select=unknown-priority-class"):
        assert "1 file with findings of parse-error that are not reported" in tree.lint(option, ".").err.splitlines()


@pytest.mark.parametrize(
    ("top", "directory", "severity"),
    [(".", "tests/first", "note"), ("tests", "tests/first", "error"), ("", "old", "error"), ("", "tests", "error")],
)
def test_directories_for_tests_are_those_of_the_work_tree(
    top: str, directory: str, severity: str, tree: Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree.add({f"{directory}/class.yaml": CLASS.replace("v1", "v1beta1") % ("gold", 5)})
    if top:
        (tree.root / top / ".git").mkdir()
    monkeypatch.chdir(tree.root / directory)
    for path in (".", *([str(tree.root / directory)] if top else [])):
        assert [found["severity"] for found in tree.lint(path).findings] == [severity]
