"""Which files of a tree come together: a repository is not one apply."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from forewarn.policies.cli.main import main
from forewarn.policies.inputs.manifests import groups
from forewarn.policies.inputs.manifests.groups import Member, grouped
from forewarn.policies.inputs.manifests.kustomizations import Kustomization
from forewarn.policies.inputs.manifests.reading import read
from forewarn.policies.kubernetes.objects.reviewed_object import Operation, ReviewedObject
from forewarn.policies.kubernetes.options import NamedGroup
from forewarn.policies.linting.config.model import Config
from forewarn.policies.linting.lint.input import Input, wanted_kinds
from forewarn.policies.questions.application.lint import findings_on
from tests.cases import cases
from tests.in_process import forewarn
from tests.work import steps

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path
    from types import FrameType


def _class(name: str, value: int = 5) -> str:
    return f"apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {{name: {name}}}\nvalue: {value}\n"


def _quota(pods: int, namespace: str = "") -> str:
    where = f", namespace: {namespace}" if namespace else ""
    return f"apiVersion: v1\nkind: ResourceQuota\nmetadata: {{name: q{where}}}\nspec: {{hard: {{pods: {pods}}}}}\n"


def _web(replicas: int, name: str = "web", namespace: str = "", of: str = "") -> str:
    where = f", namespace: {namespace}" if namespace else ""
    pod = f"{{containers: [{{name: c, image: c}}]{of and ', priorityClassName: ' + of}}}"
    template = f"{{metadata: {{labels: {{a: b}}}}, spec: {pod}}}"
    selector = "strategy: {type: Recreate}, selector: {matchLabels: {a: b}}"
    spec = f"{{replicas: {replicas}, {selector}, template: {template}}}"
    return f"apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: {name}{where}}}\nspec: {spec}\n"


def _lint(directory: Path, files: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    for name, text in files.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return forewarn("lint", *arguments, cwd=directory)


def _rules(done: subprocess.CompletedProcess[str]) -> list[str]:
    """file: severity rule, of each finding."""
    heads = [line for line in done.stdout.splitlines() if line.startswith("./")]
    return [f"{h.split(':')[0][2:]}: {h.split(': ')[1]} {h.rsplit('[', 1)[1][:-1]}" for h in heads]


ENVIRONMENTS = {
    f"env/{name}/all.yaml": "---\n".join((_quota(2, "shop"), _web(2, namespace="shop"), _class("gold", value)))
    for name, value in (("prod", 1000), ("stage", 10))
}


def test_environments_are_alternatives_and_verbose_says_so(tmp_path: Path) -> None:
    done = _lint(tmp_path, ENVIRONMENTS)
    assert (_rules(done), done.returncode) == ([], 0)
    assert done.stderr.splitlines()[0].startswith("no errors or warnings, 2 notes: "), (
        "each class has another value in the other environment"
    )
    done = _lint(tmp_path, {}, "-v", "--ignore", "immutable-field-changed")
    assert done.stderr.splitlines()[1] == "checked separately because they define the same objects: env/prod, env/stage"
    together = _rules(_lint(tmp_path, {}, "--one-apply"))
    assert "env/stage/all.yaml: error immutable-field-changed" in together


def test_each_alternative_is_judged_with_what_they_share(tmp_path: Path) -> None:
    files = ENVIRONMENTS | {"apps/web.yaml": _web(0, "other", "shop", of="gold")}
    assert _rules(_lint(tmp_path, files)) == []
    files = {"env/prod/c.yaml": _class("gold"), "env/stage/c.yaml": _class("gold"), "quota.yaml": _quota(1, "shop")}
    files |= {f"env/{name}/w.yaml": _web(replicas, namespace="shop") for name, replicas in (("prod", 1), ("stage", 2))}
    shared = _lint(tmp_path / "shared", {k: v for k, v in files.items() if not k.endswith("none")})
    assert _rules(shared) == ["env/stage/w.yaml: error quota-exceeded"]


def test_a_class_of_one_environment_is_missing_in_the_other(tmp_path: Path) -> None:
    files = ENVIRONMENTS | {
        "env/prod/more.yaml": _class("extra"),
        "env/stage/web.yaml": _web(0, "more", of="extra"),
    }
    done = _lint(tmp_path, files)
    assert _rules(done) == ["env/stage/web.yaml: warning unknown-priority-class"]


def test_a_quota_without_a_namespace_counts_where_it_stands(tmp_path: Path) -> None:
    files = {"examples/quota.yaml": _quota(0), "examples/near/web.yaml": _web(1, "a"), "apps/web.yaml": _web(1)}
    assert _rules(_lint(tmp_path, files, "-v")) == ["examples/near/web.yaml: note quota-exceeded"]
    told = _rules(_lint(tmp_path, {}, "-n", "team"))
    assert told == ["apps/web.yaml: error quota-exceeded"]  # "and 1 more object with it"


def test_a_kustomization_bounds_its_resources_and_gives_its_namespace(tmp_path: Path) -> None:
    files = {
        "base/kustomization.yaml": "resources: [web.yaml]\n",
        "base/web.yaml": _web(3),
        "over/a/kustomization.yaml": "resources: [../../base, q.yaml]\nnamespace: a\npatches: [{path: p.yaml}]\n",
        "over/a/q.yaml": _quota(1),
        "over/a/p.yaml": _web(9, "other", of="none"),
        "over/b/kustomization.yaml": "resources: [../../base]\nnamespace: b\n",
        "over/b/unnamed.yaml": _quota(0),
    }
    done = _lint(tmp_path, files)
    assert _rules(done) == ["base/web.yaml: error quota-exceeded", "over/a/p.yaml: error parse-error"]
    assert "Deployment a/web" in done.stdout


def test_configuration_names_groups(tmp_path: Path) -> None:
    config = "groups:\n- {name: one, paths: ['a/*']}\n- {name: two, paths: ['b/*', 'a/c*']}\n"
    files = {
        ".forewarn.yaml": config,
        "a/q.yaml": _quota(1, "x"),
        "a/c.yaml": _class("gold"),
        "b/w.yaml": _web(2, "w", "x"),
    }
    assert _rules(_lint(tmp_path, files)) == []
    assert _rules(_lint(tmp_path, {}, "-c", "/dev/null")) == ["b/w.yaml: error quota-exceeded"]


def test_a_class_that_is_not_in_the_input_is_an_error_if_it_is_misspelt_or_all_are_known(tmp_path: Path) -> None:
    files = {"c.yaml": _class("gold"), "w.yaml": _web(1, of="glod"), "x.yaml": _web(1, "x", of="silver")}
    open_set = _lint(tmp_path, files)
    assert open_set.returncode == 1
    assert 'PriorityClass "glod" not found in this input. Did you mean "gold"?' in open_set.stdout
    assert 'Fix: create it, use "gold", or pass --cluster' in open_set.stdout
    assert _rules(open_set) == ["w.yaml: error unknown-priority-class", "x.yaml: warning unknown-priority-class"]
    closed = _lint(tmp_path, {}, "--closed")
    assert _rules(closed) == [f"{name}.yaml: error unknown-priority-class" for name in "wx"]
    known = _lint(tmp_path, {".forewarn.yaml": "knownClasses: [silver, platform-*]\n"})
    assert _rules(known) == ["w.yaml: error unknown-priority-class"]


def test_context_is_read_and_not_reported(tmp_path: Path) -> None:
    files = {"defs/c.yaml": _class("gold") + "---\n" + _web(1, "bad", of="none"), "w.yaml": _web(1, of="gold")}
    done = _lint(tmp_path, files, "w.yaml", "--definitions", "defs", "--closed")
    assert (done.stdout, done.returncode) == ("", 0)
    assert done.stderr == "no findings: 1 file, 1 object checked\n"


@pytest.mark.parametrize("config", ["{}", "groups: [{name: app, paths: ['app/*']}]"])
def test_a_quota_among_definitions_without_a_namespace_applies_to_all_directories(tmp_path: Path, config: str) -> None:
    files = {"defs/q.yaml": _quota(1), "app/w.yaml": _web(2), ".forewarn.yaml": config}
    for namespace in ((), ("-n", "shop")):
        done = _lint(tmp_path, files, "./app", "--definitions", "defs", *namespace)
        assert _rules(done) == (["app/w.yaml: error quota-exceeded"] if namespace else [])


def test_the_same_object_again_is_an_update(tmp_path: Path) -> None:
    again = {"a.yaml": "---\n".join([_class("high", 1000), _class("high", 10)])}
    assert _rules(_lint(tmp_path / "class", again)) == ["a.yaml: error immutable-field-changed"]
    pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n"
    twice = {"a.yaml": "---\n".join([_quota(1), pod, pod])}
    assert _rules(_lint(tmp_path / "pod", twice)) == []
    twice = {"a.yaml": "---\n".join([_quota(3), _web(3), _web(2)])}
    assert _rules(_lint(tmp_path / "web", twice)) == []


def test_a_dump_does_not_count_again_what_runs(tmp_path: Path) -> None:
    quota = _quota(2) + "status: {hard: {pods: 2}, used: {pods: 2}}\n"
    pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {nodeName: node}\nstatus: {phase: Running}\n"
    web = _web(1) + "status: {observedGeneration: 1, replicas: 1}\n"
    assert _rules(_lint(tmp_path, {"dump.yaml": "---\n".join([quota, pod, web])})) == []


@pytest.mark.parametrize("text", ["", "# nothing\n", "---\n"])
def test_an_empty_input_is_not_clean(tmp_path: Path, text: str) -> None:
    done = _lint(tmp_path, {"a.yaml": text})
    assert done.returncode == 3
    assert "no objects found. Fix: pass --allow-empty to accept that" in done.stderr
    assert _lint(tmp_path, {}, "--allow-empty").returncode == 0


def test_the_templates_of_charts_are_left_out_and_counted(tmp_path: Path) -> None:
    files = {
        "chart/Chart.yaml": "name: x\n",
        "chart/values.yaml": "a: 1\n",
        "chart/templates/web.yaml": "{{ if .Values.a }}\n" + _web(1) + "{{ end }}\n",
        "chart/crds/x.yaml": "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\n",
        "templates/class.yaml": _class("gold"),
    }
    done = _lint(tmp_path, files)
    assert (done.returncode, done.stdout) == (0, "")
    assert "left out" not in done.stderr
    assert "1 Helm template read in part, not rendered" in done.stderr
    assert "2 objects checked" in done.stderr


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("just words\n", ""),
        (f"- {_class('a').replace(chr(10), chr(10) + '  ').rstrip()}\n", "a list of objects: kubectl rejects it"),
        (_class("a").replace("{name: a}", "{name: a, labels: {v: 1}}"), ""),
        (_web(1).replace("{name: web}", "{name: web, labels: {v: 1}}"), "cannot unmarshal number into Go struct field"),
        (_web(1).replace("{labels: {a: b}}, spec", "{labels: {a: b}, annotations: {v: yes}}, spec"), "unmarshal bool"),
    ],
)
def test_what_kubectl_refuses_is_a_finding(tmp_path: Path, text: str, said: str) -> None:
    assert said in _lint(tmp_path, {"a.yaml": text}).stdout


def test_kustomize_reads_the_strings_that_kubectl_reads_as_booleans(tmp_path: Path) -> None:
    container = "{name: c, image: c, env: [{name: A, value: yes}, {name: B, value: true}]}"
    web = _web(1).replace("{name: c, image: c}", container)
    replicas = _web(1, "other").replace("replicas: 1", "replicas: no")
    files = {"web.yaml": web, "other.yaml": replicas, "app/web.yaml": web, "app/patch.yaml": web}
    kustomization = "resources: [web.yaml, ../other.yaml]\npatches: [{path: patch.yaml}]\n"
    done = _lint(tmp_path, {**files, "app/kustomization.yaml": kustomization}, "-v")
    errors = ["web.yaml: error value-rejected"] * 2
    notes = ["app/patch.yaml: note ambiguous-value", "app/web.yaml: note ambiguous-value"]
    listed = [*notes, "app/web.yaml: error value-rejected", "other.yaml: error value-rejected"]
    assert sorted(_rules(done)) == sorted([*errors, *listed])
    assert "as the boolean true; YAML 1.2 reads a string, as kustomize does" in done.stdout


def test_preempt_answers_for_the_other_files(tmp_path: Path) -> None:
    for name, of in (("a", "batch"), ("b", "nonsense"), ("c", "web")):
        (tmp_path / f"{name}.yaml").write_text(_web(1, name, of=of))
    command = [sys.executable, "-m", "forewarn", "predict", "-v", "-f", str(tmp_path)]
    done = subprocess.run(
        [*command, "--cluster", "webhook/sample/cluster.yaml"], capture_output=True, text=True, check=False, timeout=500
    )
    assert done.returncode == 3
    assert "no PriorityClass with name nonsense was found" in done.stderr
    assert "default/a-0" in done.stdout
    assert "default/c-0" in done.stdout


_NEVER = "preemptionPolicy: Never\n"
_TREES = {
    "an unknown class": ({"pc.yaml": _class("gold"), "app/d.yaml": _web(1, of="goold")}, "unknown-priority-class"),
    "a known class": ({"pc.yaml": _class("gold"), "app/d.yaml": _web(1, of="gold")}, ""),
    "another preemptionPolicy": (
        {
            "pc.yaml": _class("gold") + _NEVER,
            "app/d.yaml": "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\n"
            "spec: {priorityClassName: gold, preemptionPolicy: PreemptLowerPriority}\n",
        },
        "preemption-policy-mismatch",
    ),
    "a quota": ({"q.yaml": _quota(0, "shop"), "app/d.yaml": _web(1, namespace="shop")}, "quota-exceeded"),
    "a quota above": ({"q.yaml": _quota(0), "app/d.yaml": _web(1)}, "quota-exceeded"),
}


@pytest.mark.parametrize(
    ("spec", "is_whole"),
    [
        (
            (
                "{replicas: 9, selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, "
                "spec: {containers: [{name: c, image: c}]}}}"
            ),
            True,
        ),
        ("{replicas: 9}", False),
        ("{replicas: 9, template: {spec: {containers: [{name: c, image: c}]}}}", False),
        ("{replicas: 9, selector: {}, template: {spec: {priorityClassName: system-node-critical}}}", False),
        ("{replicas: 9, selector: {}, template: {spec: {containers: [{name: c, env: []}]}}}", False),
    ],
)
def test_a_patch_that_no_kustomization_lists_uses_no_quota(tmp_path: Path, spec: str, is_whole: bool) -> None:
    patch = f"apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: web}}\nspec: {spec}\n"
    compute = _quota(5).replace("pods: 5", "pods: 5, requests.cpu: 1")
    for quota, rule in ((_quota(5), "quota-exceeded"), (compute, "quota-requirement-missing")):
        errors = _rules(_lint(tmp_path, {"q.yaml": quota, "patch.yaml": patch}, "-n", "team"))
        assert errors == ([f"patch.yaml: error {rule}"] if is_whole else [])


@pytest.mark.parametrize("kustomizations", [["app"], ["app", "."], ["."]])
@pytest.mark.parametrize("tree", _TREES)
def test_a_kustomization_hides_no_definition(tmp_path: Path, tree: str, kustomizations: list[str]) -> None:
    files, rule = _TREES[tree]
    plain = _lint(tmp_path, files, "--closed", "-n", "team")
    assert [line.rsplit(" ", 1)[1] for line in _rules(plain)] == ([rule] if rule else [])
    listing = {"app": "resources: [d.yaml]\n", ".": "resources: [app/d.yaml]\n"}
    more = {os.path.join(directory, "kustomization.yaml"): listing[directory] for directory in kustomizations}
    kustomized = _lint(tmp_path, more, "--closed", "-n", "team")
    assert (kustomized.stdout, kustomized.returncode) == (plain.stdout, plain.returncode)


def test_a_class_in_a_base_or_another_kustomization_is_visible(tmp_path: Path) -> None:
    files = {
        "base/kustomization.yaml": "resources: [c.yaml]\n",
        "base/c.yaml": _class("gold"),
        "over/kustomization.yaml": "resources: [../base, w.yaml]\nnamespace: over\n",
        "over/w.yaml": _web(1, of="silver"),
        "other/kustomization.yaml": "resources: [c.yaml, w.yaml]\n",
        "other/c.yaml": _class("silver"),
        "other/w.yaml": _web(1, of="gold"),
        "limited/quota.yaml": _quota(5),
        "limited/c.yaml": _class("bronze"),
        "near/quota.yaml": _quota(5).replace("{name: q}", "{name: near}"),
        "near/w.yaml": _web(1, "near", of="bronze"),
    }
    done = _lint(tmp_path, files, "--closed")
    assert (_rules(done), done.returncode) == ([], 0)


def test_overlays_of_one_base_are_checked_separately_with_it(tmp_path: Path) -> None:
    """Each sees the class that it defines itself, and not that of the other."""
    pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {priorityClassName: gold, preemptionPolicy: Never}\n"
    files = {"base/kustomization.yaml": "resources: [p.yaml]\n", "base/p.yaml": pod}
    for name, policy in (("prod", _NEVER), ("stage", "")):
        files[f"over/{name}/kustomization.yaml"] = "resources: [../../base, c.yaml]\n"
        files[f"over/{name}/c.yaml"] = _class("gold") + policy
    files |= {"over/prod/more.yaml": _class("extra"), "over/stage/w.yaml": _web(1, of="extra")}
    done = _lint(tmp_path, files, "--closed", "-v")
    assert _rules(done) == [
        "base/p.yaml: error preemption-policy-mismatch",
        "over/stage/w.yaml: error unknown-priority-class",
    ]
    assert "checked separately because they define the same objects: over/prod, over/stage" in done.stderr
    absolute = _lint(tmp_path, {}, "--closed", str(tmp_path))
    assert absolute.stdout.replace(str(tmp_path), ".") == done.stdout


def test_overlays_in_their_own_namespaces_see_the_classes_of_each_other(tmp_path: Path) -> None:
    """They share the class of their base, which is one class."""
    files = {
        "base/kustomization.yaml": "resources: [c.yaml, w.yaml]\n",
        "base/c.yaml": _class("gold"),
        "base/w.yaml": _web(1, of="gold"),
        "over/a/kustomization.yaml": "resources: [../../base, c.yaml]\nnamespace: a\n",
        "over/a/c.yaml": _class("extra"),
        "over/b/kustomization.yaml": "resources: [../../base, w.yaml]\nnamespace: b\n",
        "over/b/w.yaml": _web(1, "more", of="extra"),
    }
    done = _lint(tmp_path, files, "--closed")
    assert (_rules(done), done.returncode) == ([], 0)
    assert "checked separately" not in done.stderr


def test_classes_of_two_values_that_overlays_take_from_elsewhere_stay_in_their_overlays(tmp_path: Path) -> None:
    pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {priorityClassName: gold, preemptionPolicy: Never}\n"
    files = {}
    for name, policy in (("prod", _NEVER), ("stage", "")):
        files[f"classes/{name}/c.yaml"] = _class("gold") + policy
        files[f"classes/{name}/kustomization.yaml"] = "resources: [c.yaml]\n"
        files[f"env/{name}/kustomization.yaml"] = f"resources: [../../classes/{name}, p.yaml]\nnamespace: {name}\n"
        files[f"env/{name}/p.yaml"] = pod
    assert _rules(_lint(tmp_path, files)) == ["env/stage/p.yaml: error preemption-policy-mismatch"]


def test_definitions_are_visible_also_to_an_alternative_of_their_directory(tmp_path: Path) -> None:
    files = {
        "app/c.yaml": _class("gold"),
        "app/w.yaml": _web(1, of="silver"),
        "defs/c.yaml": _class("gold") + "---\n" + _class("silver"),
    }
    assert _rules(_lint(tmp_path, files, "./app", "--definitions", "defs", "--closed")) == []
    (tmp_path / ".forewarn.yaml").write_text("groups: [{name: app, paths: ['app/*']}]\n")
    assert _rules(_lint(tmp_path, files, "./app", "--definitions", "defs", "--closed")) == []
    assert _rules(_lint(tmp_path, {}, "--closed")) == ["app/w.yaml: error unknown-priority-class"]


def test_kustomizations_of_a_kustomization_keep_their_namespaces(tmp_path: Path) -> None:
    files = {f"{name}/w.yaml": _web(1) for name in "ab"} | {"q.yaml": _quota(0, "b")}
    files |= {f"{name}/kustomization.yaml": f"resources: [w.yaml]\nnamespace: {name}\n" for name in "ab"}
    assert _rules(_lint(tmp_path, files)) == ["b/w.yaml: error quota-exceeded"]
    assert _rules(_lint(tmp_path, {"kustomization.yaml": "resources: [a, b]\n"})) == ["b/w.yaml: error quota-exceeded"]


_PLACES = ["", "x", "x/y", "x/z", "v"]
_OBJECTS = [
    _class("gold"),
    _class("gold", 6) + _NEVER,
    _class("silver"),
    _quota(0),
    _quota(1),
    _quota(0, "shop"),
    _quota(3, "shop"),
    _web(1, of="gold"),
    _web(2, "db", "shop", of="silver"),
    _web(2, "cache", "shop"),
    "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n",
]
_tree = st.dictionaries(
    st.tuples(st.sampled_from(_PLACES), st.sampled_from("abc")).map(lambda p: os.path.join(p[0], f"{p[1]}.yaml")),
    st.sampled_from(_OBJECTS),
    min_size=1,
    max_size=9,
)


def _findings(files: dict[str, str], kustomizations: Sequence[Kustomization], *, closed: bool) -> list[object]:
    config = Config()._replace(options=Config().options._replace(closed=closed))
    wanted = wanted_kinds(config)
    members = [Member(s, f) for f, text in files.items() for s in read(text, f, wanted, namespace="default").subjects]
    grouping = grouped(members, kustomizations)
    assume(not any(fault.rule == "parse-error" for fault in grouping.faults))  # kustomize does not build these objects
    found, _ = findings_on(grouping, Input(), None, config)
    return [(finding.order, finding.severity) for finding in found]


def _kustomizations(data: st.DataObject, directories: list[str], resources: Sequence[str]) -> list[Kustomization]:
    found = []
    for directory in directories:
        real = os.path.realpath(directory)
        below = [p for p in map(os.path.realpath, resources) if p.startswith(os.path.join(real, "")) and p != real]
        found.append(
            Kustomization(real, tuple(data.draw(st.lists(st.sampled_from(below), unique=True))) if below else ())
        )
    return found


@settings(max_examples=cases(80))
@given(st.data(), _tree, st.lists(st.sampled_from(_PLACES), unique=True), st.booleans())
def test_kustomizations_of_files_below_them_change_no_finding(
    data: st.DataObject, tree: dict[str, str], directories: list[str], closed: bool
) -> None:
    """Also where they list each other's files, each other, or only some of the files."""
    found = _kustomizations(data, directories, [*tree, *directories])
    assert _findings(tree, found, closed=closed) == _findings(tree, [], closed=closed)


@settings(max_examples=cases(80))
@given(st.data(), _tree, st.sampled_from([place for place in _PLACES if place != "x"]), st.booleans())
def test_one_more_kustomization_changes_no_finding(
    data: st.DataObject, tree: dict[str, str], directory: str, closed: bool
) -> None:
    """Beside two overlays of a base, in namespaces of their own or not."""
    inside = [os.path.realpath(file) for file in tree if file.startswith("x/")]
    base = tuple(data.draw(st.lists(st.sampled_from(inside), unique=True))) if inside else ()
    places = data.draw(st.sampled_from([("", ""), ("shop", "team"), ("shop", "shop")]))
    known = [Kustomization(os.path.realpath("x"), base)]
    known += [
        Kustomization(os.path.realpath(f"o/{i}"), (os.path.realpath("x"),), (), ns) for i, ns in enumerate(places)
    ]
    tree |= {f"o/{i}/a.yaml": data.draw(st.sampled_from(_OBJECTS)) for i in range(2)}
    (more,) = _kustomizations(data, [directory], [*tree, "x", "o/0", "o/1"])
    known = [k for k in known if k.directory != more.directory]
    assert _findings(tree, [*known, more], closed=closed) == _findings(tree, known, closed=closed)


@settings(max_examples=cases(80))
@given(st.data(), st.sampled_from(_PLACES), st.booleans())
def test_a_kustomization_of_files_elsewhere_changes_no_finding_in_a_tree_that_defines_nothing_twice(
    data: st.DataObject, directory: str, closed: bool
) -> None:
    objects = data.draw(
        st.lists(st.sampled_from([o for o in _OBJECTS if o not in (_quota(0), _quota(1))]), unique=True)
    )
    named = {text.split("}")[0]: text for text in objects}
    tree = {
        f"{data.draw(st.sampled_from(_PLACES))}/{i}.yaml".lstrip("/"): text for i, text in enumerate(named.values())
    }
    listed = data.draw(st.lists(st.sampled_from(list(tree)), unique=True)) if tree else []
    more = Kustomization(os.path.realpath(directory), tuple(map(os.path.realpath, listed)))
    assert _findings(tree, [more], closed=closed) == _findings(tree, [], closed=closed)


def _member(file: str, name: str) -> Member:
    obj = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}}
    return Member(ReviewedObject(obj, namespace="default"), file)


PATHS = ["a.yaml", "x/a.yaml", "x/y/b.yaml", "x/z/c.yaml", "/r/s.yaml", "w/q/r/s.yaml"]
files = st.lists(
    st.tuples(
        st.sampled_from(["a.yaml", "x/a.yaml", "x/y/b.yaml", "x/z/c.yaml", "/r/s.yaml", "w/q/r/s.yaml"]),
        st.sampled_from("ab"),
    ),
    max_size=12,
)


@given(files)
def test_every_object_is_judged_once_and_sees_no_other_of_its_name_from_elsewhere(
    given_files: list[tuple[str, str]],
) -> None:
    members = [_member(file, name) for file, name in given_files]
    groups = grouped(members).groups
    evaluated = [subject for group in groups for subject in group.evaluated]
    assert len(evaluated) == len(members)
    for group in groups:
        news = [s.ref.name for s in group.subjects if s.operation is Operation.CREATE]
        assert len(news) == len(set(news))


def test_kustomizations_that_name_each_other_hide_nothing() -> None:
    members = [_member("a/x.yaml", "a"), _member("b/x.yaml", "b")]
    a, b = (os.path.realpath(name) for name in "ab")
    known = [Kustomization(a, (b, f"{a}/x.yaml")), Kustomization(b, (a, f"{b}/x.yaml"))]
    evaluated = [subject.ref.name for group in grouped(members, known).groups for subject in group.evaluated]
    assert sorted(evaluated) == ["a", "b"]


@pytest.mark.parametrize("own", [0, 1])
def test_overlays_of_many_bases_are_not_evaluated_as_many_times(own: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of 300 overlays reaches all of 300 bases: as many as can be are put together, and no object is lost."""
    monkeypatch.setattr(groups, "MAX_PAIRS", 27_000)
    here = os.getcwd()
    members = [_member(f"b{i}/x.yaml", f"p{i}") for i in range(300)]
    bases = [Kustomization(f"{here}/b{i}", (f"{here}/b{i}/x.yaml", f"{here}/b{i + 1}")) for i in range(300)]
    overlays = [Kustomization(f"{here}/o{i}", (f"{here}/b0", f"{here}/o{i}/x.yaml")) for i in range(300)]
    members += [_member(f"o{i}/x.yaml", f"q{i}") for i in range(300 * own)]
    found = grouped(members, [*bases, *overlays])
    assert sum(len(group.subjects) for group in found.groups) < 36_000
    assert 0 < found.apart < 300
    assert {s.ref.name for g in found.groups for s in g.evaluated} == {m.subject.ref.name for m in members}


def test_many_patches_of_many_objects_are_not_compared_with_each_other() -> None:
    here = os.getcwd()
    members = [_member(f"r/x{i}.yaml", f"p{i}") for i in range(1000)]
    resources = tuple(f"{here}/r/x{i}.yaml" for i in range(1000))
    patches = [{"target": {"kind": "Pod", "name": f"q{i}"}, "patch": "[]"} for i in range(1000)]
    many = Kustomization(here, resources, namespace="a", content={"patches": patches})
    none = many._replace(content={"namespace": "a"})
    assert steps(lambda: grouped(members, [many])) < 2 * steps(lambda: grouped(members, [none]))


def test_directories_in_directories_see_what_is_above_them_as_far_as_it_goes() -> None:
    """900 alternatives, each within the one before: all of them together would see 800,000 objects."""
    ways = [f"{'d/' * i}e{i}/x.yaml" for i in range(900)]
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}}
    members = [
        Member(ReviewedObject(quota, namespace="default"), way.replace(f"e{i}/", "")) for i, way in enumerate(ways)
    ]
    members += [_member(way.replace(f"e{i}/", ""), f"p{i}") for i, way in enumerate(ways)]
    found = grouped(members)
    assert sum(len(group.subjects) for group in found.groups) < 400_000
    assert sum(len(group.evaluated) for group in found.groups) == len(members)


def test_classes_are_seen_where_all_else_is_too_much() -> None:
    """600 alternatives beside 600 classes and 200 pods that they share: the pods are left out, the classes are not."""
    classes = [
        {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": f"c{i}"}}
        for i in range(600)
    ]
    members = [Member(ReviewedObject(obj, namespace=""), "c.yaml") for obj in classes]
    members += [_member("c.yaml", f"s{i}") for i in range(200)]
    members += [_member(f"e{i}/x.yaml", "p") for i in range(600)]
    sizes = {len(group.subjects) for group in grouped(members).groups if group.name}
    assert sizes == {601}


def _lines_run(directories: int) -> int:
    """How many lines of policies/ run to check directories that define one class differently, each with a workload."""
    files = {f"d{i}/c.yaml": _class("gold", i) for i in range(directories)}
    files |= {f"d{i}/w.yaml": _web(1, f"w{i}", of="gold") for i in range(directories)}
    wanted, count = wanted_kinds(Config()), 0
    members = [Member(s, f) for f, text in files.items() for s in read(text, f, wanted, namespace="default").subjects]

    def traced(frame: FrameType, event: str, _: object) -> Callable[..., Any] | None:
        nonlocal count
        count += event == "line"
        return traced if "/policies/" in frame.f_code.co_filename else None

    sys.settrace(traced)
    try:
        found, _ = findings_on(grouped(members), Input(), None, Config())
    finally:
        sys.settrace(None)
    assert found == []
    return count


def test_twice_as_many_alternatives_are_twice_the_work() -> None:
    _lines_run(2)  # imports
    few, many = _lines_run(60), _lines_run(120)
    assert many < 2.1 * few


def test_named_groups_and_kustomizations_come_before_directories() -> None:
    members = [_member("a/x.yaml", "a"), _member("b/x.yaml", "a")]
    assert [g.name for g in grouped(members, (), [NamedGroup("n", ("a/*", "b/*"))]).groups] == ["n"]
    k = Kustomization(os.path.realpath("a"), (os.path.realpath("a/x.yaml"),), (), "team")
    (found,) = grouped(members, [k]).groups
    assert [subject.namespace for subject in found.evaluated] == ["team", "default"]


@pytest.mark.parametrize("bound", ["_MAX_DEFINITIONS", ""])
def test_where_too_much_is_shared_to_be_seen_everywhere_a_note_says_so(
    bound: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two environments, and classes beside them that both name: lost above so many pairs, and never without a word."""
    if bound:
        monkeypatch.setattr(groups, bound, 3)
    monkeypatch.setattr(groups, "MAX_PAIRS", 3)
    files = {f"env/{env}/web.yaml": _web(1, of="gold") for env in ("prod", "stage")}
    files |= {f"classes/{name}.yaml": _class(name) for name in ("gold", "silver")}
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    main(["lint", "--closed", str(tmp_path)])
    said = capsys.readouterr()
    note = "not visible in every directory (too many); --one-apply makes all visible"
    assert (note in said.err, "[unknown-priority-class]" in said.out) == (bool(bound), bool(bound))
    main(["lint", "--closed", "--one-apply", str(tmp_path)])
    said = capsys.readouterr()
    assert "not visible" not in said.err
    assert "[unknown-priority-class]" not in said.out
