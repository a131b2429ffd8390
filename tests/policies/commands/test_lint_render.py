"""`forewarn lint --render`, with stand-ins for helm and kustomize on the PATH."""

from __future__ import annotations

import json
import os
import re
import stat
from pathlib import Path
from typing import Any

import pytest

from forewarn.policies.base.findings import Location
from forewarn.policies.cli.commands import lint
from forewarn.policies.inputs.sources import programs
from forewarn.policies.linting.config.model import Config
from forewarn.policies.linting.lint import rendering as lint_render
from forewarn.policies.linting.lint import tools as lint_tools
from forewarn.policies.linting.lint.rendering import TemplateLines

POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: %s}\nspec: {priorityClassName: %s}\n"
HELM = """#!/bin/sh
test "$1" = template || exit 9
printf -- '---\\n# Source: shop/templates/web.yaml\\n'
cat "$2/web.txt"
printf -- '---\\n# Source: shop/templates/../../../up.yaml\\napiVersion: v1\\nkind: ConfigMap\\n'
"""
KUSTOMIZE = """#!/bin/sh
test "$1" = build || exit 9
cat "$2/built.txt"
"""


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory of programs that is searched first."""
    directory = tmp_path / "bin"
    directory.mkdir()
    monkeypatch.setenv("PATH", f"{directory}{os.pathsep}/usr/bin{os.pathsep}/bin")
    return directory


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    directory = tmp_path / "tree"
    directory.mkdir()
    monkeypatch.chdir(directory)
    return directory


def _tool(tools: Path, name: str, script: str) -> None:
    path = tools / name
    path.write_text(script)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


def _chart(tree: Path) -> None:
    chart = tree / "charts" / "shop"
    (chart / "templates").mkdir(parents=True)
    (chart / "Chart.yaml").write_text("apiVersion: v2\nname: shop\nversion: 0.1.0\n")
    (chart / "templates" / "web.yaml").write_text("{{ broken")
    (chart / "web.txt").write_text(POD % ("web", "gold"))


def _lint(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, Any], str]:
    status = lint.main(["-o", "json", "--fail-on", "never", *arguments])
    said = capsys.readouterr()
    return status, json.loads(said.out) if said.out else {}, said.err


def test_a_chart_is_judged_as_helm_prints_it(tools: Path, tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _chart(tree)
    _tool(tools, "helm", HELM)
    status, report, _ = _lint(capsys, "--render")
    (finding,) = [f for f in report["findings"] if f["rule"] == "priority-class-not-checked"]
    assert (status, finding["file"]) == (0, "./charts/shop/templates/web.yaml (rendered)")
    assert (finding["line"], finding["object"]["name"]) == (5, "web")
    assert (report["summary"]["objects"], report["summary"]["skipped"]) == (1, 2), (
        "the ConfigMap and Chart.yaml are none of ours"
    )


def test_templates_of_a_rendered_chart_are_not_counted_as_left_out(
    tools: Path, tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _chart(tree)
    _tool(tools, "helm", HELM)
    for name in ("shop/charts/sub", "shopping"):
        (tree / "charts" / name / "templates").mkdir(parents=True)
        (tree / "charts" / name / "Chart.yaml").write_text("apiVersion: v2\nname: other\ntype: library\n")
    _, report, _ = _lint(capsys)
    assert report["summary"]["leftOut"] == {"chart's templates": 3}
    _, report, said = _lint(capsys, "--render")
    assert report["summary"]["leftOut"] == {"chart's templates": 1}
    (tree / "charts" / "shopping" / "Chart.yaml").unlink()
    _, report, said = _lint(capsys, "--render")
    assert (report["summary"]["leftOut"], "left out" in said) == ({}, False)


def test_what_a_rendered_chart_does_not_print_is_checked_as_it_stands(
    tools: Path, tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _chart(tree)
    _tool(tools, "helm", HELM)
    chart = tree / "charts" / "shop"
    off = "{{ if .Values.on }}\n" + POD % ("{{ .Values.name }}", "gold") + "{{ end }}\n"
    (chart / "templates" / "off.yaml").write_text(off.replace("spec:", "hostPID: true\nspec:"))
    (chart / "templates" / "_off.yaml").write_text("priorityClassName: helper\n")
    (chart / "values.yaml").write_text("a: {priorityClassName: gold}\nb: {priorityClassName: unused}\n")
    _, report, said = _lint(capsys, "--render")
    found = {(f["file"], f["line"], f["rule"]) for f in report["findings"]}
    assert found == {
        ("./charts/shop/templates/off.yaml", 5, "unknown-field"),
        ("./charts/shop/templates/off.yaml", 6, "priority-class-not-checked"),
        ("./charts/shop/values.yaml", 2, "priority-class-not-checked"),
    }
    assert "1 template not rendered (Helm 1)" in said


def test_what_a_rendered_template_does_not_print_is_checked_once(
    tools: Path, tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _chart(tree)
    _tool(tools, "helm", HELM)
    chart, twice = tree / "charts" / "shop", "metadata: {name: web}\n"
    pod = (POD % ("{{ .Values.name }}", "gold")).replace(
        "spec:", "{{ if .Values.on }}\nhostPID: true\n{{ end }}\nspec:"
    )
    (chart / "templates" / "web.yaml").write_text(pod.replace("kind: Pod", f"{twice}kind: Pod"))
    (chart / "web.txt").write_text((POD % ("web", "gold")).replace("kind: Pod", f"{twice}kind: Pod"))
    _, report, _ = _lint(capsys, "--render", "--ignore", "priority-class-not-checked")
    found = [(f["file"].removeprefix("./charts/shop/templates/"), f["rule"]) for f in report["findings"]]
    assert found == [("web.yaml", "unknown-field"), ("web.yaml (rendered)", "duplicate-key")]


def test_charts_that_lack_values_are_one_finding(tools: Path, tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("a", "b"):
        (tree / name / "templates").mkdir(parents=True)
        (tree / name / "Chart.yaml").write_text(f"apiVersion: v2\nname: {name}\nversion: 0.1.0\n")
    said = 'execution error at ($2): "$2" is required'
    _tool(tools, "helm", f"#!/bin/sh\necho 'Error: {said}' $$ missing $$.$$ >&2\nexit 1\n")
    _, report, _ = _lint(capsys, "--render", "--allow-empty")
    (failed,) = report["findings"]
    assert failed["message"].endswith("(and 1 more directory)")
    assert "`render`" in failed["remediation"]


@pytest.mark.parametrize(("live", "expected"), [("c", ("./c/Chart.yaml", "warning")), ("", ("./a/Chart.yaml", "note"))])
def test_findings_in_a_deprecated_chart_are_one_severity_lower_and_named_last(
    tools: Path, tree: Path, capsys: pytest.CaptureFixture[str], live: str, expected: tuple[str, str]
) -> None:
    for name in ("a", "b", "c"):
        (tree / name / "templates").mkdir(parents=True)
        deprecated = "" if name == live else "deprecated: true\n"
        (tree / name / "Chart.yaml").write_text(f"apiVersion: v2\nname: {name}\nversion: 0.1.0\n{deprecated}")
    (tree / "a/templates/web.yaml").write_text(POD.replace("spec:", "hostPID: true\nspec:") % ("web", "gold"))
    _tool(tools, "helm", "#!/bin/sh\necho 'Error: execution error at (x): x is required' >&2\nexit 1\n")
    _, report, _ = _lint(capsys, "--render", "--select", "parse-error,unknown-field")
    found = {f["rule"]: (f["file"], f["severity"]) for f in report["findings"]}
    assert found == {"parse-error": expected, "unknown-field": ("./a/templates/web.yaml", "warning")}


@pytest.mark.parametrize(
    ("missing", "severity", "said"),
    [
        ("gone/x", "note", "gone is missing: .gitignore names it"),
        ("webhook/manifests.yaml", "note", "webhook/manifests.yaml is missing: controller-gen writes it"),
        ("other/manifests.yaml", "warning", "no such file"),
    ],
)
def test_a_missing_input_that_is_generated_is_a_note(
    tools: Path, tree: Path, capsys: pytest.CaptureFixture[str], missing: str, severity: str, said: str
) -> None:
    (tree / ".git").mkdir()
    (tree / ".gitignore").write_text("gone/\n")
    (tree / "a").mkdir()
    (tree / "a/kustomization.yaml").write_text(f"resources: [../{missing}]\n")
    _tool(
        tools,
        "kustomize",
        f'#!/bin/sh\necho "Error: accumulating: lstat {tree}/{missing}: no such file or directory" >&2\nexit 1\n',
    )
    _, report, _ = _lint(capsys, "--render", "--allow-empty")
    (failed,) = report["findings"]
    assert (failed["severity"], said in failed["message"]) == (severity, True), failed


@pytest.mark.parametrize("why", ["HelmChartInflationGenerator fails", "forewarn: helm pull is not allowed: download"])
def test_charts_of_kustomizations_must_be_downloaded_first(
    tools: Path, tree: Path, capsys: pytest.CaptureFixture[str], why: str
) -> None:
    (tree / "a").mkdir()
    (tree / "a/kustomization.yaml").write_text("resources: []\n")
    _tool(tools, "kustomize", f"#!/bin/sh\necho 'Error: {why}' >&2\nexit 1\n")
    _, report, _ = _lint(capsys, "--render", "--allow-empty")
    (failed,) = report["findings"]
    expected = "download the chart with `kustomize build --enable-helm`, and pass --kustomize-flag=--enable-helm"
    assert failed["remediation"] == expected


AGENT = """apiVersion: apps/v1
kind: DaemonSet
metadata: {name: csi-driver}
spec:
  selector: {matchLabels: {a: b}}
  template:
    metadata: {labels: {a: b}}
    spec:
      containers: [{name: csi, image: csi}]
"""
OFFER = "      {{- with .Values.node.priorityClassName }}\n      priorityClassName: {{ . }}\n      {{- end }}\n"
REGISTERS = "      volumes: [{name: a, hostPath: {path: /var/lib/kubelet/plugins_registry/}}]\n"


@pytest.mark.parametrize(
    ("template", "configuration", "severity", "fix"),
    [
        (AGENT + OFFER, "", "note", "set the value node.priorityClassName of the chart"),
        (AGENT + REGISTERS + OFFER, "", "warning", "set the value node.priorityClassName of the chart"),
        (AGENT, "", "warning", "set priorityClassName: system-node-critical"),
        (AGENT + OFFER, "render: [{paths: ['*'], set: [a=b]}]\n", "warning", "set priorityClassName:"),
    ],
)
def test_a_chart_that_offers_a_class_is_a_note(
    tools: Path,
    tree: Path,
    capsys: pytest.CaptureFixture[str],
    template: str,
    configuration: str,
    severity: str,
    fix: str,
) -> None:
    _chart(tree)
    (tree / ".forewarn.yaml").write_text(configuration)
    _tool(tools, "helm", HELM)
    (tree / "charts/shop/templates/web.yaml").write_text(template)
    (tree / "charts/shop/web.txt").write_text(template.replace(OFFER, ""))
    _, report, _ = _lint(capsys, "--render", "--select", "daemon-set-without-class")
    (finding,) = report["findings"]
    assert (finding["severity"], finding["remediation"][: len(fix)]) == (severity, fix)


@pytest.mark.parametrize(
    ("said", "fix"),
    [
        ("<.Values.a>: wrong type for value", "set the chart's values"),
        ('<{{template "a" .}}>: template "a" not defined', "make "),
    ],
)
def test_the_fix_of_a_chart_that_fails_depends_on_the_cause(
    tools: Path, tree: Path, capsys: pytest.CaptureFixture[str], said: str, fix: str
) -> None:
    _chart(tree)
    _tool(tools, "helm", f"#!/bin/sh\necho 'Error: template: {'x' * 200} at {said}' >&2\nexit 1\n")
    _, report, _ = _lint(capsys, "--render", "--select", "parse-error")
    assert [finding["remediation"][: len(fix)] for finding in report["findings"]] == [fix]


def test_nothing_is_run_that_nobody_asked_for(tools: Path, tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _chart(tree)
    _tool(tools, "helm", f"#!/bin/sh\ntouch {tree}/ran\n")
    _lint(capsys, "--allow-empty")
    assert not (tree / "ran").exists()


def test_a_kustomization_stands_for_its_files(tools: Path, tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("base", "prod"):
        (tree / name).mkdir()
    (tree / "base" / "kustomization.yaml").write_text("resources: [pod.yaml]\n")
    (tree / "base" / "pod.yaml").write_text(POD % ("raw", "gold"))
    (tree / "prod" / "kustomization.yaml").write_text("resources: [../base]\n")
    (tree / "prod" / "built.txt").write_text(POD % ("built", "silver"))
    _tool(tools, "kustomize", KUSTOMIZE)
    _, report, _ = _lint(capsys, "--render")
    found = [f for f in report["findings"] if f["rule"] == "priority-class-not-checked"]
    assert [(f["file"], f["object"]["name"]) for f in found] == [("./prod (rendered)", "built")]


BUDGET = "apiVersion: policy/v1beta1\nkind: PodDisruptionBudget\nmetadata: {name: %s}\nspec: {maxUnavailable: 1}\n"
DAEMON_SET = """apiVersion: apps/v1
kind: DaemonSet
metadata: {name: csi-driver}
spec:
  selector: {matchLabels: {a: b}}
  template:
    metadata: {labels: {a: b}}
    spec: {containers: [{name: csi, image: csi}]}
"""


@pytest.mark.parametrize(
    ("built", "found"),
    [
        ([BUDGET % "web"] * 3, ["./base/pod.yaml removed-api-version in 3 builds"]),
        ([f"# {number}\n{DAEMON_SET}" for number in range(2)], ["./0 (rendered) daemon-set-without-class in 2 builds"]),
        (
            [BUDGET % "web", BUDGET % "other"],
            ["./1 (rendered) removed-api-version ", "./base/pod.yaml removed-api-version "],
        ),
    ],
)
def test_one_object_in_several_builds_is_one_finding(
    tools: Path, tree: Path, capsys: pytest.CaptureFixture[str], built: list[str], found: list[str]
) -> None:
    for number, text in enumerate([*built, ""]):
        directory = tree / (str(number) if text else "base")
        directory.mkdir()
        (directory / "kustomization.yaml").write_text(f"resources: [{'../base' if text else 'pod.yaml'}]\n")
        (directory / "built.txt").write_text(text.replace("{name: ", f"{{namespace: team-{number}, name: ", 1))
    (tree / "base/pod.yaml").write_text(BUDGET % "web")
    _tool(tools, "kustomize", KUSTOMIZE)
    _, report, _ = _lint(capsys, "--render", "--select", "removed-api-version,daemon-set-without-class")
    said = [(f["file"], f["rule"], re.search(r"in \d builds", f["message"])) for f in report["findings"]]
    assert [f"{file} {rule} {builds[0] if builds else ''}" for file, rule, builds in said] == found


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("#!/bin/sh\necho 'no such \x1b[31mvalue' >&2\nexit 1\n", "helm template: no such"),
        ("#!/bin/sh\nsleep 100\n", "helm template takes more than"),
        ("#!/bin/sh\nwhile :; do :; done\n", "was killed: more than 1 s of CPU time"),
        ("#!/bin/sh\nexec cat /dev/zero\n", "helm template prints more than"),
        ("#!/bin/sh\necho 'X missing in charts/ directory: common' >&2\nexit 1\n", "missing in charts/: common"),
        (
            f"#!/bin/sh\necho 'X missing in charts/ directory: common, {'a, ' * 100}' >&2\nexit 1\n",
            "charts/: common, a",
        ),
    ],
)
@pytest.mark.parametrize("threshold", ["warning", "never"])
def test_a_chart_that_cannot_be_rendered_is_one_finding(
    tools: Path,
    tree: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    script: str,
    said: str,
    threshold: str,
) -> None:
    monkeypatch.setattr(programs, "SECONDS", 1)
    monkeypatch.setattr(programs, "WALL", 1.0 if "sleep" in script else 20.0)
    monkeypatch.setattr(programs, "MAX", 1 << 20)
    _chart(tree)
    (tree / "charts/shop/templates/class.yaml").write_text(CLASS)
    (tree / "charts/shop/templates/web.yaml").write_text("{{ broken\npriorityClassName: glod\n")
    _tool(tools, "helm", script)
    status, report, _ = _lint(capsys, "--render", "--fail-on", threshold)
    failed, literal = report["findings"]
    assert (status, failed["rule"], failed["severity"]) == (threshold == "warning", "parse-error", "warning")
    assert failed["file"] == "./charts/shop/Chart.yaml"
    assert failed["message"].startswith("cannot render: ")
    assert said in failed["message"]
    assert "\x1b" not in failed["message"]
    assert (literal["rule"], literal["file"]) == ("unknown-priority-class", "./charts/shop/templates/web.yaml"), (
        "what needs no rendering is checked all the same"
    )


def test_directories_that_fail_for_one_reason_are_one_finding(
    tools: Path, tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("a", "b", "c"):
        (tree / name).mkdir()
        (tree / name / "kustomization.yaml").write_text(f"resources: [{name}.yaml]\n")
    said = "# Warning: old\nError: accumulating resources: %s lstat $(pwd)/x$2/y.yaml: no such file" % ("x" * 300)
    _tool(tools, "kustomize", f"#!/bin/sh\necho '{said}' >&2\nexit 1\n")
    status, report, _ = _lint(capsys, "--render", "--allow-empty")
    (failed,) = report["findings"]
    assert (status, failed["file"], failed["severity"]) == (0, "./a/kustomization.yaml", "warning")
    assert failed["message"].endswith("y.yaml: no such file (and 2 more directories)"), "the end names the cause"
    assert failed["detail"] == {"directories": ["./b", "./c"]}
    assert len(failed["message"]) < 250
    lint.main(["--render", "--allow-empty", "-v", "."])
    expected = "not rendered for the same reason as ./a/kustomization.yaml: ./b, ./c"
    assert expected in capsys.readouterr().err.splitlines()


def test_a_chart_that_needs_values_is_rendered_with_those_of_its_tests(
    tools: Path, tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _chart(tree)
    for name in ("b-values.yaml", "a-values.yaml"):
        (tree / "charts/shop/ci").mkdir(exist_ok=True)
        (tree / "charts/shop/ci" / name).write_text(f"class: {name[0]}\n")
    given = (
        "while [ $# -gt 0 ]; do case $1 in --values=*) class=$(sed 's/class: //' ${1#--values=});; esac; shift; done"
    )
    missing = "[ -n \"$class\" ] || { echo 'execution error at (shop): class is required' >&2; exit 1; }"
    pod = "printf 'apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec: {priorityClassName: system-%s}\n' $class"
    _tool(tools, "helm", f"#!/bin/sh\n{given}\n{missing}\n{pod}\n")
    _, report, _ = _lint(capsys, "--render")
    assert [finding["rule"] for finding in report["findings"]] == ["unknown-priority-class"]
    assert '"system-a"' in report["findings"][0]["message"]


def test_a_chart_below_another_chart_may_fail_alone(
    tools: Path, tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _chart(tree)
    (tree / "charts/shop/vendor/part/templates").mkdir(parents=True)
    (tree / "charts/shop/vendor/part/Chart.yaml").write_text("name: part\nversion: 1.0.0\n")
    _tool(tools, "helm", "#!/bin/sh\ncase $* in *part*) echo 'template \"x\" not defined' >&2; exit 1;; esac\n")
    _, report, _ = _lint(capsys, "--render", "--allow-empty")
    assert [(f["file"], f["severity"]) for f in report["findings"]] == [
        ("./charts/shop/vendor/part/Chart.yaml", "note")
    ]


def test_without_the_tool_the_job_cannot_be_done(tools: Path, tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("one", "two"):
        (tree / name).mkdir()
        (tree / name / "Chart.yaml").write_text("apiVersion: v2\nname: a\nversion: 0.1.0\n")
    (tree / "prod").mkdir()
    (tree / "prod/kustomization.yaml").write_text("resources: [pod.yaml]\n")
    (tree / "prod/built.txt").write_text(POD % ("built", "gold"))
    _tool(tools, "kustomize", KUSTOMIZE)
    status, report, said = _lint(capsys, "--render")
    assert (status, said.count("helm is not installed")) == (3, 1)
    assert [f["object"]["name"] for f in report["findings"]] == ["built"], "the other tool does its job"


def test_libraries_and_charts_within_charts_are_left_to_those_that_use_them(tree: Path) -> None:
    _chart(tree)
    shop = tree / "charts" / "shop"
    for directory, kind in (
        (shop / "charts" / "inner", "application"),
        (shop / "charts" / "inner" / "charts" / "deep", "application"),
        (shop / "examples" / "other", "application"),
        (tree / "charts" / "library", "library"),
        (tree / "charts" / "excluded", "application"),
    ):
        directory.mkdir(parents=True)
        (directory / "Chart.yaml").write_text(f"apiVersion: v2\nname: a\nversion: 0.1.0\ntype: {kind}\n")
    broken = tree / "broken"
    broken.mkdir()
    (broken / "Chart.yaml").write_text("a: [}\n")
    config = Config()
    config = config._replace(options=config.options._replace(exclude=("charts/excl*",)))
    found = lint_render._found(["."], config, as_git=False)
    assert ([*found.charts], found.kustomizations) == (["./charts/shop", "./charts/shop/examples/other"], {})


def test_there_is_no_bound_on_the_number_of_charts(tree: Path) -> None:
    for number in range(1_100):
        (tree / str(number)).mkdir()
        (tree / str(number) / "Chart.yaml").write_text("name: a\n")
    assert len(lint_render._found(["."], Config(), as_git=False).charts) == 1_100


CLASS = "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: gold}\nvalue: 5\n"
ARGUMENTS = """#!/bin/sh
echo "$HELM_NO_PLUGINS $*" >> "$LOG"
"""


SEVERAL = """render:
- paths: [other]
  release: other
- paths: [./charts/*]
  namespace: kube-system
  release: mine
  values: [web.txt]
  set: [a.b=c, --post-renderer=x]
- paths: ["*"]
  set: [no=no]
"""
KINDS = f" --api-versions={','.join(lint_render._API_VERSIONS)}"
AS_CONFIGURED = (
    "template mine chart/shop --namespace=kube-system --kube-version=1.37.0"
    + KINDS
    + " --values=values-0.yaml --set=a.b=c"
    " --set=--post-renderer=x"
)


def _called(tools: Path, tree: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> Path:
    """The file in which a tool writes how it was called."""
    log = tree.parent / "log"
    monkeypatch.setenv("LOG", str(log))
    _tool(tools, name, ARGUMENTS)
    return log


@pytest.mark.parametrize(
    ("configuration", "arguments", "expected"),
    [
        ("", (), "template chart/shop --namespace=release-namespace --kube-version=1.37.0" + KINDS),
        ("", ("-n", "team"), "template chart/shop --namespace=team --kube-version=1.37.0" + KINDS),
        (
            "",
            ("--kubernetes-version", "1.35"),
            "template chart/shop --namespace=release-namespace --kube-version=1.35.0" + KINDS,
        ),
        (SEVERAL, ("-n", "team"), AS_CONFIGURED),
    ],
)
def test_helm_is_called_as_configured(
    tools: Path,
    tree: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    configuration: str,
    arguments: tuple[str, ...],
    expected: str,
) -> None:
    _chart(tree)
    (tree / ".forewarn.yaml").write_text(configuration)
    log = _called(tools, tree, monkeypatch, "helm")
    monkeypatch.setenv("HELM_NO_PLUGINS", "0")
    _lint(capsys, "--render", "--render-env", "LOG", "--render-env", "HELM_NO_PLUGINS", *arguments)
    assert re.sub(r"/\S+/files/", "", log.read_text()) == f"1 {expected}\n"


FLAGS = """render:
- paths: [.]
  kustomizeFlags: [--enable-helm, --load-restrictor=LoadRestrictionsNone]
  network: true
"""
HELM_FLAG = " --enable-helm --helm-kube-version=1.37.0 --helm-command=helm"
BOTH = " --enable-helm --load-restrictor=LoadRestrictionsNone --helm-kube-version=1.37.0 --helm-command=helm"
IGNORED = ["--enable-helm", "--load-restrictor=LoadRestrictionsNone", "render[].network"]


@pytest.mark.parametrize(
    ("place", "arguments", "expected", "ignored"),
    [
        ("", (), "", []),
        ("", ("--kustomize-flag=--enable-helm",), HELM_FLAG, []),
        ("tree/.forewarn.yaml", (), "", IGNORED),
        ("tree/.forewarn.yaml", ("--kustomize-flag=--enable-helm", "--render-network"), HELM_FLAG, IGNORED[1:2]),
        ("tree/ci.yaml", ("-c", "ci.yaml"), "", IGNORED),
        ("tree/ci.yaml", ("-c", "../link.yaml"), "", IGNORED),
        ("ci.yaml", ("-c", "ci.yaml"), "", IGNORED),
        ("ci.yaml", ("-c", "../ci.yaml"), BOTH, []),
        ("ci.yaml", ("-c", "../ci.yaml", "--render-env", "REPOSITORY"), "", IGNORED),
    ],
)
def test_only_the_user_allows_kustomize_more(
    tools: Path,
    tree: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    place: str,
    arguments: tuple[str, ...],
    expected: str,
    ignored: list[str],
) -> None:
    """The tree has links to and from a file outside of it; with REPOSITORY, that file is in the same repository."""
    (tree / "kustomization.yaml").write_text("resources: []\n")
    if place:
        (tree.parent / place).write_text(FLAGS)
    if place == "ci.yaml":
        (tree / "ci.yaml").symlink_to("../ci.yaml")
    (tree.parent / "link.yaml").symlink_to("tree/ci.yaml")
    if "REPOSITORY" in arguments:
        (tree.parent / ".git").mkdir()
        monkeypatch.setenv("REPOSITORY", "1")
    log = _called(tools, tree, monkeypatch, "kustomize")
    _, report, _ = _lint(capsys, "--render", "--render-env", "LOG", *arguments)
    assert re.sub(r"=/\S+/files/", "=", log.read_text()) == f"1 build {tree}{expected}\n"
    told = [(f["message"].partition(" ignored: ")[0], Path(f["file"]).name, f["line"]) for f in report["findings"]]
    file = Path(next((argument for argument in arguments if argument.endswith(".yaml")), place)).name
    assert told == [(name, file, 4 if "network" in name else 3) for name in ignored]


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ("../../../secret", "outside of the checked directories"),
        ("/etc/passwd", "outside of the checked directories"),
        ("link.yaml", "link leaves the checked directories"),
        ("../../.git/config", "outside of the checked directories"),
        ("web.txt,../../../secret", "No such file or directory"),
    ],
)
def test_values_outside_of_the_tree_are_not_read(
    tools: Path, tree: Path, capsys: pytest.CaptureFixture[str], values: str, said: str
) -> None:
    _chart(tree)
    (tree.parent / "secret").write_text("a: b\n")
    (tree / ".git").mkdir()
    (tree / ".git/config").write_text("a: b\n")
    (tree / "charts/shop/web.txt").write_text("a: b\n")
    (tree / "link.yaml").symlink_to("../secret")
    if values == "link.yaml":
        (tree / "charts/shop/link.yaml").symlink_to("../../link.yaml")
    (tree / ".forewarn.yaml").write_text(f"render:\n- paths: ['*']\n  values: ['{values}']\n")
    _tool(tools, "helm", f"#!/bin/sh\ntouch {tree}/ran\n")
    _, report, _ = _lint(capsys, "--render")
    assert said in report["findings"][0]["message"]
    assert not (tree / "ran").exists()


def test_tools_get_only_named_variables(
    tools: Path, tree: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    _chart(tree)
    for name in ("TOKEN", "NAMED", "HELM_PLUGINS", "XDG_DATA_HOME", "GIT_DIR", "KUBECONFIG", "PYTHONPATH"):
        monkeypatch.setenv(name, "secret")
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    for name in ("LANG", "LANGUAGE", "LC_CTYPE", "LC_MESSAGES"):
        monkeypatch.delenv(name, raising=False)
    _tool(tools, "helm", f'#!/bin/sh\nenv > {tree.parent}/env\nls -A "$HOME" > {tree.parent}/home\n')
    _lint(capsys, "--render", "--render-env", "NAMED")
    lines = [line for line in (tree.parent / "env").read_text().splitlines() if "=" in line]
    variables = dict(line.split("=", 1) for line in lines)
    for name in ("PWD", "SHLVL", "_", "OLDPWD"):
        variables.pop(name, None)  # the shell's
    home, temporary = Path(variables.pop("HOME")), Path(variables.pop("TMPDIR"))
    assert variables == {
        "PATH": os.environ["PATH"],
        "NAMED": "secret",
        "LC_ALL": "C.UTF-8",
        "HELM_NO_PLUGINS": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ALLOW_PROTOCOL": "",
        "HTTP_PROXY": "http://127.0.0.1:1",
        "HTTPS_PROXY": "http://127.0.0.1:1",
    }
    assert (home.parent == temporary.parent, home.exists()) == (True, False), "removed with the job"
    assert (tree.parent / "home").read_text() == ""


LIMITED = """#!/bin/sh
for i in $(seq 1000); do
    sh -c 'ulimit -d' > "%s"
    grep -q unlimited "%s" || exit 0
    sleep 0.01
done
"""


def test_tools_and_their_processes_get_limited_memory(
    tools: Path, tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _chart(tree)
    limit = tree.parent / "limit"
    _tool(tools, "helm", LIMITED % (limit, limit))
    _lint(capsys, "--render")
    assert int(limit.read_text()) <= programs.MEMORY >> 10


def test_a_variable_that_is_not_set_cannot_be_named(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        lint.main(["--render-env", "NO_SUCH_VARIABLE"])
    assert "NO_SUCH_VARIABLE is not set" in capsys.readouterr().err


@pytest.mark.parametrize("path", [".", "", "{tree}/bin", "{tree}/link", "{outside}"])
def test_no_program_of_the_tree_runs(
    tools: Path, tree: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    _chart(tree)
    (tree / "bin").mkdir()
    outside = tree.parent / "outside"
    outside.mkdir()
    for directory in (tree, tree / "bin"):
        _tool(directory, "helm", f"#!/bin/sh\ntouch {tree}/ran\n")
    (tree / "link").symlink_to("bin")
    (outside / "helm").symlink_to(tree / "bin/helm")
    monkeypatch.setenv("PATH", f"{path.format(tree=tree, outside=outside)}:/usr/bin:/bin")
    status, _, said = _lint(capsys, "--render")
    assert (status, "helm is only in a checked directory, and not run" in said) == (3, True)
    assert not (tree / "ran").exists()


@pytest.mark.parametrize("name", ["git", "unshare"])
def test_tools_run_no_program_of_the_tree(
    tools: Path, tree: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    _chart(tree)
    _tool(tree, name, f"#!/bin/sh\ntouch {tree}/ran\n")
    outside = tree.parent / "outside"
    outside.mkdir()
    (outside / name).symlink_to(tree / name)
    _tool(tools, "helm", "#!/bin/sh\ngit --version >&2\nexit 1\n")
    monkeypatch.setenv("PATH", f"{outside}:{tools}:/usr/bin:/bin")
    _lint(capsys, "--render")
    assert not (tree / "ran").exists()


@pytest.mark.parametrize(("script", "isolated"), [("exit 1", False), ('shift 3; exec "$@"', True), (None, False)])
def test_tools_run_without_network_if_the_system_allows_it(
    tools: Path, tree: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, script: str | None,
    isolated: bool,
) -> None:  # fmt: skip
    _chart(tree)
    _tool(tools, "helm", HELM)
    for name in ("cat", "sh", "true", "touch"):
        (tools / name).symlink_to(f"/bin/{name}")
    if script is not None:
        _tool(tools, "unshare", f'#!/bin/sh\necho "$*" >> {tree.parent}/unshared\n{script}\n')
    monkeypatch.setenv("PATH", str(tools))
    _, report, _ = _lint(capsys, "--render")
    assert [f["object"]["name"] for f in report["findings"]] == ["web"], "it renders all the same"
    log = tree.parent / "unshared"
    told = log.read_text().splitlines() if log.exists() else []
    assert told[:1] == (["--user --net -- true"] if script is not None else [])
    assert any("/helm template " in line for line in told) == isolated


def test_excluded_charts_and_templates_are_not_checked(
    tools: Path, tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _chart(tree)
    _tool(tools, "helm", HELM)
    _, report, _ = _lint(capsys, "--render", "--exclude", "./charts/shop/templates/web.yaml")
    assert report["summary"]["objects"] == 0
    _, report, said = _lint(capsys, "--render", "--exclude", "charts/*", "--allow-empty")
    assert (report["summary"]["objects"], "cannot render" in said) == (0, False)


TOGETHER = """#!/bin/sh
touch "$LOG.$(basename "$2")"
for i in $(seq 600); do
    test -e "$LOG.one" && test -e "$LOG.two" && exit 0
    sleep 0.05
done
exit 1
"""


def test_charts_are_rendered_at_the_same_time(
    tools: Path, tree: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lint_tools, "cores", lambda: 2)
    monkeypatch.setenv("LOG", str(tree.parent / "log"))
    for name in ("one", "two", "zero"):
        (tree / name).mkdir()
        (tree / name / "Chart.yaml").write_text("name: a\n")
    _tool(tools, "helm", TOGETHER)
    _, report, _ = _lint(capsys, "--render", "--render-env", "LOG")
    assert report["findings"] == []


def test_all_output_together_is_bounded(
    tools: Path, tree: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lint_tools, "MAX_PARALLEL", 10_000)
    for name in range(5):
        (tree / str(name)).mkdir()
        (tree / str(name) / "Chart.yaml").write_text("name: a\n")
    _tool(tools, "helm", "#!/bin/sh\nprintf '#%03999d\\n' 0\n")
    _, report, _ = _lint(capsys, "--render")
    (failed,) = report["findings"]
    assert (failed["file"], failed["message"].endswith("(and 2 more directories)")) == ("./2/Chart.yaml", True)


DEPLOYMENT = """apiVersion: apps/v1
kind: Deployment
metadata:
  name: {name}
spec:
  template:
    spec:
      priorityClassName: {name_of_class}
      containers:
      - name: {container}
        env:
        - {{name: a, value: {value}}}
"""


@pytest.mark.parametrize(
    ("template", "line", "column"),
    [
        (["kind: x", "spec: 1", "  priorityClassName: golt"], 3, 22),
        (["{{- if .Values.a }}", "        priorityClassName: golt", "{{- end }}"], 2, 28),
        (["a: b", "priorityClassName: {{ .Values.class | quote }}"], 2, 20),
        (["priorityClassName: {{ .Values.one }}", "priorityClassName: {{ .Values.two }}"], 0, 0),
        (['{{ include "pod" . }}'], 0, 0),
        (["priorityClassName: golt # forewarn: ignore[pinned-priority] x"], 1, 20),
    ],
)
def test_findings_of_charts_name_the_line_of_the_template(
    tools: Path, tree: Path, capsys: pytest.CaptureFixture[str], template: list[str], line: int, column: int
) -> None:
    _chart(tree)
    (tree / "charts/shop/templates/web.yaml").write_text("\n".join(template))
    (tree / "class.yaml").write_text(CLASS)
    web = DEPLOYMENT.format(name="web", name_of_class="golt", container="c", value="'1'")
    (tree / "charts/shop/web.txt").write_text(web)
    _tool(tools, "helm", HELM)
    _, report, _ = _lint(capsys, "--render")
    (finding,) = [f for f in report["findings"] if f["rule"] == "unknown-priority-class"]
    file = "./charts/shop/templates/web.yaml"
    assert (finding["file"], finding["line"]) == ((file, line) if line else (f"{file} (rendered)", 9))
    if line:
        assert finding["column"] == column


@pytest.mark.parametrize(
    ("built", "found"),
    [
        ({}, ("./base/web.yaml", 8)),
        ({"name_of_class": "silvr"}, ("./prod/patch.yaml", 4)),
        ({"name_of_class": "golt"}, ("./prod (rendered)", 8)),
    ],
)
def test_findings_of_kustomizations_name_the_line_of_the_patch_or_the_base(
    tools: Path, tree: Path, capsys: pytest.CaptureFixture[str], built: dict[str, str], found: tuple[str, int]
) -> None:
    for name in ("base", "prod"):
        (tree / name).mkdir()
    web = {"name": "web", "name_of_class": "gild", "container": "c", "value": "'1'"}
    files = {
        "class.yaml": CLASS + "---\n" + CLASS.replace("gold", "silver"),
        "base/kustomization.yaml": "resources: [web.yaml, other.yaml]\n",
        "base/web.yaml": DEPLOYMENT.format(**web),
        "base/other.yaml": DEPLOYMENT.format(**{**web, "name": "we"}),
        "prod/kustomization.yaml": "namePrefix: p-\nresources: [../base]\npatches: [{path: patch.yaml}]\n",
        "prod/patch.yaml": "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\n"
        "spec: {template: {spec: {priorityClassName: silvr}}}\n",
        "prod/built.txt": DEPLOYMENT.format(**{**web, "name": "p-web", **built}),
    }
    for name, text in files.items():
        (tree / name).write_text(text)
    _tool(tools, "kustomize", KUSTOMIZE)
    _, report, _ = _lint(capsys, "--render")
    assert [(f["file"], f["line"]) for f in report["findings"] if f["rule"] == "unknown-priority-class"] == [found]


def test_a_kustomization_that_cannot_be_built_is_checked_as_it_is(
    tools: Path, tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tree / "prod").mkdir()
    (tree / "prod/kustomization.yaml").write_text("namespace: team\nresources: [pod.yaml]\n")
    (tree / "prod/pod.yaml").write_text(POD % ("web", "gold"))
    _tool(tools, "kustomize", "#!/bin/sh\nexit 4\n")
    _, report, _ = _lint(capsys, "--render")
    assert [(f["rule"], f["object"]["namespace"]) for f in report["findings"]] == [
        ("parse-error", ""),
        ("priority-class-not-checked", "team"),
    ]


def test_a_component_is_not_built_alone(tools: Path, tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("debug", "prod"):
        (tree / name).mkdir()
    (tree / "debug/kustomization.yaml").write_text("kind: Component\nresources: [pod.yaml]\n")
    (tree / "debug/pod.yaml").write_text(POD % ("web", "gold"))
    _tool(tools, "kustomize", "#!/bin/sh\nexit 4\n")
    _, report, _ = _lint(capsys, "--render")
    assert [(f["file"], f["rule"]) for f in report["findings"]] == [("./debug/pod.yaml", "priority-class-not-checked")]
    (tree / "prod/kustomization.yaml").write_text("components: [../debug]\n")
    _tool(tools, "kustomize", f"#!/bin/sh\ncat {tree}/debug/pod.yaml\n")
    _, report, _ = _lint(capsys, "--render")
    assert [(f["file"], f["rule"]) for f in report["findings"]] == [("./debug/pod.yaml", "priority-class-not-checked")]


@pytest.mark.parametrize(("arguments", "count"), [((), 0), (("-n", "kube-system"), 0), (("-n", "team"), 1)])
def test_a_system_class_in_a_chart_needs_to_know_the_namespace(
    tools: Path, tree: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], count: int
) -> None:
    _chart(tree)
    (tree / "charts/shop/web.txt").write_text(POD % ("web", "system-node-critical"))
    _tool(tools, "helm", HELM)
    _, report, _ = _lint(capsys, "--render", *arguments)
    assert sum(f["rule"] == "system-class-outside-kube-system" for f in report["findings"]) == count


def test_what_a_loop_prints_is_the_line_of_the_loop() -> None:
    template = "{{ range .Values.tiers }}\n---\n  class: {{ . }}\n{{ end }}\n"
    lines = TemplateLines(template, b"---\n  class: a\n---\n  class: b\n---\nspec:\n    class: c\n", "t.yaml")
    places = [lines.place(Location("r.yaml", line, 3, 8)) for line in (2, 4, 7, 99)]
    assert [(place.file, place.line) for place in places] == [
        ("t.yaml", 3),
        ("t.yaml", 3),
        ("r.yaml", 7),
        ("r.yaml", 99),
    ]
