"""Kustomizations that kustomize must not build."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from forewarn.policies.inputs.sources.programs import Trees
from forewarn.policies.questions.versions import kustomizations
from forewarn.policies.questions.versions.kustomizations import Checker, Limits, Refused

PLAIN: dict[str, str] = {
    "base/kustomization.yaml": "resources: [pod.yaml]\n",
    "pod.yaml": "",
    "../outside/kustomization.yaml": "resources: []\n",
    "../outside/pod.yaml": "",
    ".git/config": "token",
}
LINKS = {
    "base-link": "../outside",
    "base/pod.yaml": "../pod.yaml",
    "file-link": "../outside/pod.yaml",
    "git-link": ".git",
    "proc-link": "/proc",
}
FLAG = "--post-renderer=./evil.sh"
GENERATOR = "apiVersion: builtin\nkind: HelmChartInflationGenerator\nmetadata: {name: g}\nname: c\nreleaseName: %s\n"
INLINE = "generators:\n- |\n  " + (GENERATOR % FLAG).replace("\n", "\n  ")
OPTION = f'"{FLAG}" would become an option of helm'
OUTSIDE, LINK, NETWORK = (
    "outside of the checked directories",
    "link leaves the checked directories",
    "network access is off",
)
LISTS_ONLY = "a directory of generators, transformers or validators may list resources only"


def _refused(tmp_path: Path, files: dict[str, str], **limits: bool) -> str:
    """Why the kustomization in the tree is refused: file:line: reason. "" if it is not."""
    tree = tmp_path / "tree"
    tree.mkdir(exist_ok=True)
    for name, target in LINKS.items():
        (tree / name).parent.mkdir(exist_ok=True)
        (tree / name).symlink_to(target)
    for name, text in {**PLAIN, **files}.items():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        if not (tree / name).is_symlink():
            (tree / name).write_text(text.replace("{tmp}", str(tmp_path)))
    try:
        Checker().check(str(tree), Limits(Trees((str(tree),)), **limits))
    except Refused as refused:
        return f"{Path(refused.file).relative_to(tmp_path)}:{refused.line}: {refused.why}"
    return ""


KEYS = ("releaseName", "namespace", "version", "repo", "nameTemplate", "kubeVersion", "valuesFile", "RELEASENAME")


@pytest.mark.parametrize(
    "entry",
    [
        *(f"helmCharts:\n- name: c\n  {key}: {FLAG}" for key in KEYS),
        *(f"helmCharts:\n- name: c\n  {key}: [a, {FLAG}]" for key in ("apiVersions", "additionalValuesFiles")),
        f"helmCharts:\n-\n  name: {FLAG}",
        f"helmCharts:\n- name: c\n  relea\N{LATIN SMALL LETTER LONG S}eName: {FLAG}",
        f"helmChartInflationGenerator:\n- chartName: c\n  releaseName: {FLAG}",
        f"helmGlobals:\n\n  configHome: {FLAG}",
        f"helmCharts:\n- name: c\n  <<: {{releaseName: {FLAG}}}",
        f"helmCharts:\n- name: c\n  releaseName: '{FLAG}'\n---\nresources: []",
    ],
)
def test_no_value_becomes_an_option_of_helm(tmp_path: Path, entry: str) -> None:
    files = {"kustomization.yaml": entry + "\n"}
    assert _refused(tmp_path, files, helm=True) == f"tree/kustomization.yaml:3: {OPTION}"


@pytest.mark.parametrize(
    ("files", "why"),
    [
        ({"base/kustomization.yaml": f"helmCharts: [{{name: {FLAG}}}]"}, f"base/kustomization.yaml:1: {OPTION}"),
        (
            {"kustomization.yaml": "components: [base]", "base/kustomization.yaml": f"helmCharts: [{{name: {FLAG}}}]"},
            f"base/kustomization.yaml:1: {OPTION}",
        ),
        ({"kustomization.yaml": INLINE}, f"kustomization.yaml:2: {OPTION}"),
        ({"kustomization.yaml": "generators: [g.yaml]", "g.yaml": GENERATOR % FLAG}, f"g.yaml:5: {OPTION}"),
        ({"kustomization.yaml": "TRANSFORMERS: [g.yaml]", "g.yaml": GENERATOR % FLAG}, f"g.yaml:5: {OPTION}"),
        (
            {
                "kustomization.yaml": "generators: [g]",
                "g/kustomization.yaml": "resources: [g.yaml]",
                "g/g.yaml": GENERATOR % FLAG,
            },
            f"g/g.yaml:5: {OPTION}",
        ),
        (
            {
                "kustomization.yaml": "generators: [g]",
                "g/kustomization.yaml": "resources: [../h]",
                "h/kustomization.yaml": "resources: [g.yaml]",
                "h/g.yaml": GENERATOR % FLAG,
            },
            f"h/g.yaml:5: {OPTION}",
        ),
        (
            {"kustomization.yaml": "generators: [g]", "g/kustomization.yaml": "resources: []\nnamePrefix: x"},
            f"g/kustomization.yaml:2: {LISTS_ONLY}",
        ),
        (
            {"kustomization.yaml": "validators: [g]", "g/kustomization.yaml": "<<: {patches: [{path: x}]}"},
            f"g/kustomization.yaml:1: {LISTS_ONLY}",
        ),
        (
            {"kustomization.yaml": "helmCharts:\n- name: ../../x"},
            'kustomization.yaml:2: the name of a chart contains "..": ../../x',
        ),
        (
            {
                "kustomization.yaml": "helmCharts: [{releaseName: !!binary "
                + base64.b64encode(FLAG.encode()).decode()
                + "}]"
            },
            "kustomization.yaml:1: tag tag:yaml.org,2002:binary is not supported",
        ),
        (
            {"kustomization.yaml": "{resources: [base], generators: !!str, ['files: [file-link]']}"},
            "kustomization.yaml:1: tag tag:yaml.org,2002:str is not supported",
        ),
        (
            {"kustomization.yaml": "\ufeff\ufeffnamePrefix: a\nxgenerators: ['files: [file-link]']\n"},
            "kustomization.yaml:1: a second byte order mark is not supported",
        ),
        ({"kustomization.yaml": "a: ["}, "kustomization.yaml:1: did not find expected node content"),
        ({"kustomization.yaml": "resources: [base]\n...\nmore"}, "kustomization.yaml:1: kubectl reads nothing behind"),
    ],
)
def test_all_that_a_kustomization_reaches_is_checked(tmp_path: Path, files: dict[str, str], why: str) -> None:
    files = {"kustomization.yaml": "resources: [base]", **files}
    assert _refused(tmp_path, files, helm=True).startswith(f"tree/{why}")


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        ("resources: [../outside]", OUTSIDE),
        ("resources: ['{tmp}/outside']", OUTSIDE),
        ("resources: [../outside/pod.yaml]", OUTSIDE),
        ("resources: [base-link]", LINK),
        ("bases: [base/../base-link]", LINK),
        ("RESOURCES: [file-link]", LINK),
        ("patches: [{path: file-link}]", LINK),
        ("configMapGenerator: [{name: a, files: [file-link]}]", LINK),
        ("configMapGenerator: [{name: a, files: [key=file-link]}]", LINK),
        ("secretGenerator: [{name: a, envs: [.git/config]}]", OUTSIDE),
        ("secretGenerator: [{name: a, envs: ['{tmp}/tree/.git/config']}]", OUTSIDE),
        ("configMapGenerator: [{name: a, files: [key=git-link/config]}]", LINK),
        ('resources: ["x\\n/../../outside"]', OUTSIDE),
        ('resources: ["x\\0/../../outside"]', OUTSIDE),
        (f"resources: [{'./' * 2_100}../outside]", OUTSIDE),
        ('configMapGenerator: [{name: a, files: ["e=x\\n/../.git/config"]}]', OUTSIDE),
        ("openapi: {path: file-link}", LINK),
        ("generators: [file-link]", LINK),
        ("transformers: ['{apiVersion: builtin, kind: PatchTransformer, path: file-link}']", LINK),
        ("resources: ['https://example.com/x.yaml']", NETWORK),
        ("resources: ['HTTP://example.com/x.yaml']", NETWORK),
        ("components: ['git::github.com/a/b']", NETWORK),
        ("resources: ['GitHub.com/a/b//c?ref=--upload-pack=x']", NETWORK),
        ("resources: ['git@example.com:a/b']", NETWORK),
        ("resources: ['ssh://git@example.com/a/b', base]", NETWORK),
        ("resources: ['file:///srv/repository']", NETWORK),
        ("configMapGenerator: [{name: a, files: ['key=https://example.com/x']}]", NETWORK),
        ("openapi: {path: 'https://example.com/x.json'}", NETWORK),
        ("<<: {patchesStrategicMerge: ['https://example.com/x.yaml']}", NETWORK),
        ("replacements: [{path: 'https://example.com/x.yaml'}]", NETWORK),
        ("helmCharts: [{name: c, valuesFile: 'https://example.com/x.yaml'}]", NETWORK),
        ('resources: ["https://example.com/a/b?x=\\ny"]', NETWORK),
        ("generators: ['https://example.com/x.yaml']", "plugins from an address are not supported"),
    ],
)
def test_files_and_bases_are_in_the_tree(tmp_path: Path, entry: str, why: str) -> None:
    found = _refused(tmp_path, {"kustomization.yaml": entry})
    assert found.startswith("tree/kustomization.yaml:1: ")
    assert found.endswith(why)


@pytest.mark.parametrize(
    "entry",
    [
        "configMapGenerator: [{name: a, files: ['key={tmp}/outside/pod.yaml']}]",
        "configMapGenerator: [{name: a, files: [key=/proc/4194304/environ]}]",
        "configMapGenerator: [{name: a, files: [key=/var/run/../etc/no-file]}]",
        "configMapGenerator: [{name: a, envs: [../../../../../../../../../../proc/4194304/environ]}]",
        "configMapGenerator: [{name: a, files: [key=//proc/4194304/environ]}]",
        "configMapGenerator: [{name: a, files: [key=proc-link/4194304/environ]}]",
    ],
)
def test_without_load_restrictions_files_are_in_the_tree(tmp_path: Path, entry: str) -> None:
    assert _refused(tmp_path, {"kustomization.yaml": entry}, any_file=True).endswith(OUTSIDE)


@pytest.mark.parametrize(
    ("entry", "limits"),
    [
        ("resources: [base, pod.yaml, missing.yaml]", {}),
        ("resources: ['https://example.com/x.yaml']", {"network": True}),
        ("patches:\n- patch: |-\n    - op: replace\n      path: /a\n      value: b", {"helm": True}),
        ("images: [{name: github.com/a/b, newName: github.com/c/d}]", {}),
        ("images: [{name: a, newTag: latest@sha256:0123}, {name: b, digest: git@sha256:0}]", {}),
        ("commonAnnotations: {a: 'https://example.com', b: file-link}", {}),
        ("configMapGenerator: [{name: a, literals: [A=/etc/passwd, 'B=https://x', C=file-link]}]", {"any_file": True}),
        ("helmCharts: [{name: c, repo: 'https://x', valuesInline: {releaseName: -x, a: ../outside}}]", {"helm": True}),
        ("generators:\n- |\n  " + (GENERATOR % "x").replace("\n", "\n  "), {"helm": True}),
        ("transformers: [base]", {}),
    ],
)
def test_other_kustomizations_are_built(tmp_path: Path, entry: str, limits: dict[str, bool]) -> None:
    assert _refused(tmp_path, {"kustomization.yaml": entry}, **limits) == ""


@pytest.mark.parametrize("query", ["ref=--upload-pack=x", "ref=%2D%2Dupload-pack=x", "%72ef=-x", "a=b&version=%2dx"])
def test_a_ref_is_no_option_of_git(tmp_path: Path, query: str) -> None:
    files = {"kustomization.yaml": f"resources: ['https://example.com/a/b?{query}']"}
    assert _refused(tmp_path, files, network=True).endswith("the ref is an option of git")


@pytest.mark.parametrize("name", ["a\n\n\n b", "a b"])
def test_a_name_with_another_number_of_line_breaks_is_not_read(tmp_path: Path, name: str) -> None:
    """Kustomize adds line breaks to folded texts of plugins: the text below becomes the first name."""
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / name).symlink_to(".git/config")
    files = {"kustomization.yaml": "generators: [g.yaml]", "g.yaml": "files:\n- >-\n x=a\n\n  b\n"}
    refused = _refused(tmp_path, files)
    assert ("names of files with line breaks are not supported" in refused) == ("\n" in name)


def test_addresses_and_helm_exclude_each_other(tmp_path: Path) -> None:
    files = {"kustomization.yaml": "resources: ['https://example.com/x']"}
    assert _refused(tmp_path, files, network=True, helm=True).endswith("not supported together with --enable-helm")


@pytest.mark.parametrize("entry", ["resources: [.]", "resources: &a [*a]", "resources: &a [[*a, *a], [*a, *a]]"])
def test_loops_end(tmp_path: Path, entry: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kustomizations, "_MAX_TEXTS", 10_000)
    found = _refused(tmp_path, {"kustomization.yaml": entry})
    assert found.endswith("more than 10,000 values") == ("*" in entry)
