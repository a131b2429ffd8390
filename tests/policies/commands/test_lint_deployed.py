"""What kustomize, Argo CD and Flux deploy of a tree is checked, whatever its names, places and notation are.

`kubectl kustomize` prints the Deployment of each tree in KUSTOMIZED.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Final

import pytest

from tests.in_process import forewarn

WEB: Final[dict[str, Any]] = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web", "namespace": "shop"},
    "spec": {
        "selector": {"matchLabels": {"a": "b"}},
        "template": {
            "metadata": {"labels": {"a": "b"}},
            "spec": {"priority": 7, "containers": [{"name": "c", "image": "i"}]},
        },
    },
}
JSON: Final = json.dumps(WEB)
YAML: Final = "".join(f"{key}: {json.dumps(value)}\n" for key, value in WEB.items())
ESCAPED: Final = YAML.replace("apiVersion", '"api\\x56ersion"').replace("\nkind", '\n"k\\x69nd"')
CLASS: Final = "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: gold}\nvalue: 1000\n"
CHAINSAW: Final = "kind: Test\nspec: {steps: [{try: [{assert: {file: '%s'}}]}]}\n"

Files = dict[str, str | bytes | Path]
"""The contents of files by path; a Path is a link."""


def kustomized(path: str, content: str | bytes = YAML, **others: str | bytes | Path) -> Files:
    """A kustomization with one resource, and other files: `_` in a name is a dot."""
    given: Files = {name.replace("_", "."): text for name, text in others.items()}
    return {"kustomization.yaml": f'resources: ["{path}"]\n', path: content} | given


def based(base: str, resource: str = "web.txt", content: str | bytes = YAML) -> Files:
    """A kustomization with a base."""
    return {
        "kustomization.yaml": f'resources: ["{base}"]\n',
        f"{base}/kustomization.yaml": f'resources: ["{resource}"]\n',
        f"{base}/{resource}": content,
    }


KUSTOMIZED: Final[dict[str, Files]] = {
    "an ordinary name": kustomized("web.yaml"),
    "another end": kustomized("web.txt"),
    "no end": kustomized("~web"),
    "a blank": kustomized("we b.txt"),
    "JSON with another end": kustomized("web.txt", JSON),
    "steps back": {**kustomized("web.txt"), "kustomization.yaml": "resources: [./x/.././web.txt]\n", "x/a": ""},
    "a hidden directory": kustomized(".base/web.yaml"),
    "two dots": {**kustomized("..x/web.yaml"), "..data": Path("..x")},
    "testdata of Go": kustomized("testdata/web.yaml", go_mod=""),
    "the directory of another version control": kustomized(".svn/web.yaml"),
    "a name for assertions": kustomized("web-assert.yaml"),
    "a step of kuttl": {**kustomized("00-assert.yaml"), "00-install.yaml": ""},
    "an assertion of Chainsaw": {**kustomized("web.yaml"), "chainsaw-test.yaml": CHAINSAW % "[!cp]*.yaml"},
    "an assertion of another directory": {**kustomized("web.yaml"), "x/chainsaw-test.yaml": CHAINSAW % "../*.yaml"},
    "a file that git ignores": kustomized("web.yaml", _gitignore="web.yaml\n"),
    "templates of a chart": kustomized("templates/web.yaml", f"{YAML}# {{{{\n", Chart_yaml=""),
    "a helper of a chart": kustomized("templates/_web.tpl", Chart_yaml=""),
    "notes of a chart": kustomized("templates/NOTES.txt", Chart_yaml=""),
    "a hidden base": based(".base"),
    "a base in testdata": {**based("testdata"), "a.go": ""},
    "a hidden base with a test": {**based(".base"), ".base/chainsaw-test.yaml": CHAINSAW % "*.txt"},
    "a base of a base": {
        **based(".a/.b"),
        "kustomization.yaml": "resources: [.a]\n",
        ".a/kustomization.yaml": "bases: [.b]\n",
    },
    "a link to a base": {**based(".base"), "b": Path(".base"), "kustomization.yaml": "resources: [b]\n"},
    "a link": {**kustomized("other/web.txt"), "kustomization.yaml": "resources: [web]\n", "web": Path("other/web.txt")},
    "a component": {**based(".c"), "kustomization.yaml": "components: [.c]\n"},
    "another case of a key": {**kustomized("web.txt"), "kustomization.yaml": "RESOURCES: [web.txt]\n"},
    "an escaped key": {**kustomized("web.txt"), "kustomization.yaml": '"resourc\\x65s": [web.txt]\n'},
    "Kustomization": {"Kustomization": "resources: [web.txt]\n", "web.txt": YAML},
    "kustomization.yml": {"kustomization.yml": "resources: [web.txt]\n", "web.txt": YAML},
    "a kustomization behind a separator": {"kustomization.yaml": '--- {"resources": ["web.txt"]}', "web.txt": YAML},
    "a kustomization with carriage returns": {"kustomization.yaml": "---\rresources:\r- web.txt\r", "web.txt": YAML},
    "a kustomization with a byte order mark": {"kustomization.yaml": "\ufeffresources: [web.txt]", "web.txt": YAML},
    "JSON behind a separator": kustomized("web.yaml", f"--- {JSON}"),
    "JSON behind a last separator": kustomized("web.yaml", f"# a\n--- {JSON}"),
    "JSON behind a separator and a directive": kustomized("web.yaml", f"%YAML 1.1\n--- {JSON}"),
    "a tag behind a separator": kustomized("web.yaml", f"--- !!map\n{ESCAPED}"),
    "a tag behind a separator in UTF-16": kustomized("web.yaml", f"--- !!map\n{ESCAPED}".encode("utf-16")),
    "carriage returns": kustomized("web.yaml", f"---\n{YAML}".replace("\n", "\r")),
    "next lines": kustomized("web.yaml", f"---\n{YAML}".replace("\n", "\x85")),
    "line separators": kustomized("web.yaml", YAML.replace("\n", "\u2028")),
    "nesting deeper than is read": kustomized("web.yaml", f"{ESCAPED}x: {'[' * 300}{']' * 300}\n"),
    "a List": kustomized("web.txt", json.dumps({"apiVersion": "v1", "kind": "List", "items": [WEB]})),
    "another List": kustomized("web.txt", json.dumps({"apiVersion": "x/v1", "kind": "ResourceList", "items": [WEB]})),
}  # fmt: skip


def flux(path: str, kind: str = "Kustomization") -> str:
    if kind == "HelmRelease":
        spec: dict[str, Any] = {"chart": {"spec": {"chart": path, "sourceRef": {"kind": "GitRepository", "name": "a"}}}}
        return json.dumps({"apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": kind, "spec": spec})
    spec = {"path": path, "prune": True, "interval": "1m", "sourceRef": {"kind": "GitRepository", "name": "a"}}
    metadata = {"name": "a", "namespace": "flux-system"}
    return json.dumps(
        {"apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": kind, "metadata": metadata, "spec": spec}
    )


def argo(kind: str, **spec: Any) -> str:
    return json.dumps({"apiVersion": "argoproj.io/v1alpha1", "kind": kind, "metadata": {"name": "a"}, "spec": spec})


TESTDATA: Final[Files] = {"go.mod": "", "testdata/a/web.yaml": YAML}
STEPS: Final[Files] = {"t/00-install.yaml": "", "t/00-assert.yaml": YAML}
GIT: Final = {"git": {"repoURL": "a", "directories": [{"path": "testdata/*"}]}}
DEPLOYED: Final[dict[str, Files]] = {
    "Flux": {**TESTDATA, "a.yaml": flux("./testdata/a")},
    "Flux of the whole repository": {**TESTDATA, "a.yaml": flux("./")},
    "Flux of steps of kuttl": {**STEPS, "a.yaml": flux("t")},
    "Flux with a kustomization": {
        **based("testdata"),
        "kustomization.yaml": "",
        "a.go": "",
        "a.yaml": flux("testdata"),
    },
    "Flux in an escaped notation": {**TESTDATA, "a.yaml": flux("testdata").replace('"kind": "K', '"k\\u0069nd": "K')},
    "Flux of a chart": {
        "go.mod": "",
        "testdata/a/Chart.yaml": "name: a",
        "testdata/a/templates/web.yaml": YAML,
        "a.yaml": flux("./testdata/a", "HelmRelease"),
    },
    "Argo CD": {**TESTDATA, "a.yaml": argo("Application", source={"path": "testdata/a"})},
    "Argo CD with sources": {**TESTDATA, "a.yaml": argo("Application", sources=[{"ref": "a"}, {"path": "testdata/a"}])},
    "Argo CD in a List": {
        **TESTDATA,
        "a.yaml": f"kind: List\napiVersion: v1\nitems:\n- {argo('Application', source={'path': 'testdata/a'})}\n",
    },
    "an ApplicationSet": {
        **TESTDATA,
        "a.yaml": argo("ApplicationSet", template={"spec": {"source": {"path": "testdata/{{name}}"}}}),
    },
    "an ApplicationSet of directories": {
        **TESTDATA,
        "a.yaml": argo("ApplicationSet", generators=[GIT], template={"spec": {"source": {"path": "{{path}}"}}}),
    },
    "an ApplicationSet of a matrix": {
        **TESTDATA,
        "a.yaml": argo("ApplicationSet", generators=[{"matrix": {"generators": [GIT]}}], template={"spec": {}}),
    },
    "all templates of a chart": {"Chart.yaml": "name: a\n", "templates/web.txt": YAML},
    "hidden templates of a chart": {"Chart.yaml": "name: a\n", "templates/a/.b/web.yaml": YAML},
    "a chart in a hidden directory": {".helm/Chart.yaml": "name: a\n", ".helm/templates/web.yaml": YAML},
    "a subchart with the name testdata": {
        "Chart.yaml": "name: a\n",
        "charts/testdata/Chart.yaml": "name: b\n",
        "charts/testdata/templates/web.yaml": YAML,
    },
    "an unnamed hidden directory": {".deploy/web.yaml": YAML},
    "testdata without Go": {"testdata/web.yaml": YAML},
    "a name for assertions without a test": {"deploy/web-assert.yaml": YAML},
    "a step of kuttl without a test": {"deploy/00-assert.yaml": YAML},
}  # fmt: skip


def write(tree: Path, files: Files) -> None:
    for name, content in {"class.yaml": CLASS, **files}.items():
        path = tree / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, Path):
            path.symlink_to(os.path.relpath(tree / content, path.parent))
        else:
            path.write_bytes(content if isinstance(content, bytes) else content.encode())


@pytest.mark.parametrize("files", [*KUSTOMIZED.values(), *DEPLOYED.values()], ids=[*KUSTOMIZED, *DEPLOYED])
def test_what_is_deployed_is_checked_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: Files) -> None:
    write(tmp_path, files)
    monkeypatch.chdir(tmp_path)
    done = forewarn("lint", "-o", "json", ".")
    findings = json.loads(done.stdout)["findings"]
    rules = [finding["rule"] for finding in findings if finding["severity"] == "error"]
    assert done.returncode == 1
    assert rules.count("priority-mismatch") == 1 or "parse-error" in rules
    assert len({finding["fingerprint"] for finding in findings}) == len(findings)


NOT_DEPLOYED: Final[dict[str, tuple[Files, str]]] = {
    "testdata of Go": (TESTDATA, "left out: testdata directory (1)"),
    "an assertion": (STEPS, "left out: test assertion (1)"),
    "another directory of Flux": ({**TESTDATA, "a.yaml": flux("./other")}, "left out: testdata directory (1)"),
    "the path of a file": ({**TESTDATA, "a.yaml": flux("go.mod")}, "left out: testdata directory (1)"),
    "a null byte": ({**TESTDATA, "a.yaml": flux("testdata\0")}, "left out: testdata directory (1)"),
    "a surrogate": ({**TESTDATA, "a.json": flux("testdata\ud800")}, "left out: testdata directory (1)"),
    "a resource with a null byte": (
        {**TESTDATA, "kustomization.yaml": 'resources: ["/testdata\\0", "testdata\\0"]\n'},
        "left out: testdata directory (1)",
    ),
    "a directory above": ({**TESTDATA, "a.yaml": flux("../../etc")}, "left out: testdata directory (1)"),
    "a packed chart": ({"Chart.yaml": "name: a\n", "charts/b-1.tgz": b""}, "left out: packed chart (1)"),
    "a file elsewhere": (
        {"kustomization.yaml": "resources: [/etc/hostname]\n"},
        "left out: file or directory of a kustomization outside of the checked directories (1)",
    ),
    "a remote base": (
        {
            "kustomization.yaml": "resources:\n- github.com/a/b//c?ref=v1\n- web@2.yaml\n",
            "web@2.yaml": CLASS.replace("gold", "silver"),
        },
        "left out: remote resource of a kustomization (1)",
    ),
    "an excluded file": (
        {**kustomized("web.txt"), ".forewarn.yaml": "exclude: [web.txt]\n"},
        "left out: excluded file (1)",
    ),
}


@pytest.mark.parametrize("name", NOT_DEPLOYED)
def test_what_is_left_out_is_counted_and_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    files, said = NOT_DEPLOYED[name]
    write(tmp_path, files)
    monkeypatch.chdir(tmp_path)
    done = forewarn("lint", "-v", ".")
    assert done.returncode == 0
    assert said in done.stderr
    what = said.removeprefix("left out: ").removesuffix(" (1)")
    assert f"\nleft out ({what}): " in done.stderr


def test_a_tree_that_names_too_much_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, {"kustomization.yaml": "resources: [a, b, web]\n", "a": "", "b": "", "web": YAML})
    monkeypatch.setattr("forewarn.policies.linting.lint.deployed.MAX_NAMED", 2)
    monkeypatch.chdir(tmp_path)
    done = forewarn("lint", ".")
    assert done.returncode == 3
    assert "kustomizations name more than 2 files. Fix: check fewer directories" in done.stderr


def test_a_tree_with_a_link_to_itself_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, {"kustomization.yaml": "resources: [., a, web.txt]\n", "a": Path("."), "web.txt": YAML})
    monkeypatch.chdir(tmp_path)
    assert forewarn("lint", ".").returncode == 1
