"""The output of helm and kustomize in `forewarn diff`, with stand-ins for both on the PATH."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path

import pytest

from forewarn.policies.cli.commands import lint
from forewarn.policies.inputs.sources import programs
from forewarn.policies.linting.config.model import Config
from forewarn.policies.linting.lint.input import Input, LintRequest, read_input
from forewarn.policies.questions.versions import rendering
from forewarn.policies.questions.versions import tools as rendering_tools
from forewarn.policies.questions.versions.rendering import RenderRequest, Unrendered, render

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
CHART = "apiVersion: v2\nname: %s\nversion: 0.1.0\n"


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


def _write(tree: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text(text)


def _tool(tools: Path, name: str, script: str) -> None:
    path = tools / name
    path.write_text(script)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


def _chart(tree: Path) -> None:
    templates = {"templates/web.yaml": "{{ broken", "web.txt": POD % ("web", "gold"), "Chart.yaml": CHART % "shop"}
    _write(tree, {f"charts/shop/{name}": text for name, text in templates.items()})


DEFAULT = Config()


def _rendered(
    flags: tuple[str, ...] = (), config: Config = DEFAULT, namespace: str | None = None
) -> tuple[Input, list[Unrendered]]:
    request = LintRequest(["."], config, namespace)
    files = read_input(request)
    return files, render(files, request, RenderRequest(flags), lambda _: True)


def _names(files: Input) -> list[tuple[str, str]]:
    return [(os.path.normpath(member.file), member.subject.ref.name) for member in files.members]


def test_the_output_of_a_chart_is_added(tools: Path, tree: Path) -> None:
    _chart(tree)
    _tool(tools, "helm", HELM)
    files, failures = _rendered()
    assert (_names(files), failures) == ([("charts/shop/(rendered)", "web")], [])
    options = Config().options
    for pattern in ("./charts/shop/templates/web.yaml", "charts/*"):
        files, failures = _rendered(config=Config(options=options._replace(exclude=(pattern,))))
        assert (_names(files), failures) == ([], [])


def test_the_output_of_a_kustomization_stands_for_its_files(tools: Path, tree: Path) -> None:
    _write(tree, {
        "base/kustomization.yaml": "resources: [pod.yaml]\n",
        "base/pod.yaml": POD % ("raw", "gold"),
        "prod/kustomization.yaml": "resources: [../base]\n",
        "prod/built.txt": POD % ("built", "silver"),
        "part/kustomization.yaml": "kind: Component\nresources: [pod.yaml]\n",
        "part/pod.yaml": POD % ("part", "gold"),
    })  # fmt: skip
    _tool(tools, "kustomize", KUSTOMIZE)
    files, failures = _rendered()
    assert (_names(files), failures) == ([("part/pod.yaml", "part"), ("prod/(rendered)", "built")], [])
    _tool(tools, "kustomize", "#!/bin/sh\nexit 1\n")
    files, (failed,) = _rendered()
    assert _names(files) == [("base/pod.yaml", "raw"), ("part/pod.yaml", "part")]
    assert (failed.file, failed.why) == ("./prod/kustomization.yaml", "kustomize build: exit status 1")


@pytest.mark.parametrize(
    ("script", "why", "fix"),
    [
        ("echo 'no such \x1b[31mvalue' >&2\nexit 1", "helm template: no such", "make the command succeed"),
        ("sleep 100", "helm template takes more than", "make the command succeed"),
        ("while :; do :; done", "was killed: more than 1 s of CPU time", "make the command succeed"),
        ("exec cat /dev/zero", "helm template prints more than", "make the command succeed"),
        ("echo 'X missing in charts/ directory: common' >&2\nexit 1", "missing in charts/: common", "run `helm dep"),
        (
            f"echo 'X missing in charts/ directory: common, {'a, ' * 100}' >&2\nexit 1",
            "charts/: common, a",
            "run `helm dependency build ./charts/shop`",
        ),
        (
            f"echo 'Error: template: {'x' * 200} at <.Values.a>: nil' >&2\nexit 1",
            "at <.Values.a>: nil",
            "compare two directories with the output of `helm template`",
        ),
    ],
)
def test_a_chart_that_cannot_be_rendered_is_reported_with_the_fix(
    tools: Path, tree: Path, monkeypatch: pytest.MonkeyPatch, script: str, why: str, fix: str
) -> None:
    monkeypatch.setattr(programs, "SECONDS", 1)
    monkeypatch.setattr(programs, "WALL", 1.0 if "sleep" in script else 20.0)
    monkeypatch.setattr(programs, "MAX", 1 << 20)
    _chart(tree)
    _tool(tools, "helm", f"#!/bin/sh\n{script}\n")
    _, (failed,) = _rendered()
    assert (failed.file, failed.line, failed.fix[: len(fix)]) == ("./charts/shop/Chart.yaml", 1, fix)
    assert why in failed.why
    assert "\x1b" not in failed.why


def test_directories_that_fail_for_one_reason_are_reported_once(tools: Path, tree: Path) -> None:
    _write(tree, {f"{name}/kustomization.yaml": f"resources: [{name}.yaml]\n" for name in "abc"})
    text = "# Warning: old\nError: accumulating resources: %s lstat $(pwd)/x$2/y.yaml: no such file" % ("x" * 300)
    _tool(tools, "kustomize", f"#!/bin/sh\necho '{text}' >&2\nexit 1\n")
    _, (failed,) = _rendered()
    assert (failed.file, failed.others) == ("./a/kustomization.yaml", ["./b", "./c"])
    assert failed.why.endswith("y.yaml: no such file"), "the end names the cause"
    assert len(failed.why) < 250


def test_a_chart_that_needs_values_is_rendered_with_those_of_its_tests(tools: Path, tree: Path) -> None:
    _chart(tree)
    _write(tree, {f"charts/shop/ci/{name}-values.yaml": f"class: {name}\n" for name in "ba"})
    given = (
        "while [ $# -gt 0 ]; do case $1 in --values=*) class=$(sed 's/class: //' ${1#--values=});; esac; shift; done"
    )
    missing = "[ -n \"$class\" ] || { echo 'execution error at (shop): class is required' >&2; exit 1; }"
    pod = "printf 'apiVersion: v1\nkind: Pod\nmetadata: {name: web-%s}\nspec: {}\n' $class"
    _tool(tools, "helm", f"#!/bin/sh\n{given}\n{missing}\n{pod}\n")
    files, failures = _rendered()
    assert (_names(files), failures) == ([("charts/shop/(rendered)", "web-a")], [])


def test_a_missing_program_is_an_error_and_the_other_runs(tools: Path, tree: Path) -> None:
    _write(tree, {f"{name}/Chart.yaml": CHART % "a" for name in ("one", "two")})
    _write(tree, {"prod/kustomization.yaml": "resources: []\n", "prod/built.txt": POD % ("built", "gold")})
    _tool(tools, "kustomize", KUSTOMIZE)
    files, _ = _rendered()
    assert [str(fault) for fault in files.unreadable] == ["diff: helm is not installed"]
    assert _names(files) == [("prod/(rendered)", "built")]


def test_libraries_and_charts_within_charts_are_left_to_those_that_use_them(tree: Path) -> None:
    _chart(tree)
    for directory, kind in (
        ("shop/charts/inner", "application"),
        ("shop/charts/inner/charts/deep", "application"),
        ("shop/examples/other", "application"),
        ("library", "library"),
        ("excluded", "application"),
    ):
        _write(tree, {f"charts/{directory}/Chart.yaml": f"{CHART % 'a'}type: {kind}\n"})
    _write(tree, {"broken/Chart.yaml": "a: [}\n"})
    config = Config(options=Config().options._replace(exclude=("charts/excl*",)))
    found = rendering._found(["."], config, as_git=False)
    assert ([*found.charts], found.kustomizations) == (["./charts/shop", "./charts/shop/examples/other"], {})


def test_there_is_no_limit_on_the_number_of_charts(tree: Path) -> None:
    _write(tree, {f"{number}/Chart.yaml": "name: a\n" for number in range(1_100)})
    assert len(rendering._found(["."], Config(), as_git=False).charts) == 1_100


KINDS = f" --api-versions={','.join(rendering._API_VERSIONS)}"


@pytest.mark.parametrize(
    ("minor", "namespace", "expected"),
    [
        (None, None, "--namespace=release-namespace --kube-version=1.37.0"),
        (35, "team", "--namespace=team --kube-version=1.35.0"),
    ],
)
def test_helm_is_called_with_the_namespace_and_the_release(
    tools: Path, tree: Path, minor: int | None, namespace: str | None, expected: str
) -> None:
    _chart(tree)
    _tool(tools, "helm", f'#!/bin/sh\necho "$HELM_NO_PLUGINS $*" >> {tree.parent}/log\n')
    _rendered(config=Config(options=Config().options._replace(minor=minor)), namespace=namespace)
    log = (tree.parent / "log").read_text()
    assert re.sub(r"/\S+/files/", "", log) == f"1 template chart/shop {expected}{KINDS}\n"


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ((), ""),
        (("--enable-helm",), " --enable-helm --helm-kube-version=1.37.0 --helm-command=helm"),
        (("--load-restrictor=LoadRestrictionsNone",), " --load-restrictor=LoadRestrictionsNone"),
    ],
)
def test_only_options_allow_kustomize_more(tools: Path, tree: Path, flags: tuple[str, ...], expected: str) -> None:
    _write(tree, {"kustomization.yaml": "resources: []\n"})
    _tool(tools, "kustomize", f'#!/bin/sh\necho "$*" >> {tree.parent}/log\n')
    _rendered(flags)
    log = (tree.parent / "log").read_text()
    assert re.sub(r"=/\S+/files/", "=", log) == f"build {tree}{expected}\n"


def test_tools_get_no_variables(tools: Path, tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _chart(tree)
    for name in ("TOKEN", "HELM_PLUGINS", "XDG_DATA_HOME", "GIT_DIR", "KUBECONFIG", "PYTHONPATH"):
        monkeypatch.setenv(name, "secret")
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    for name in ("LANG", "LANGUAGE", "LC_CTYPE", "LC_MESSAGES"):
        monkeypatch.delenv(name, raising=False)
    _tool(tools, "helm", f'#!/bin/sh\nenv > {tree.parent}/env\nls -A "$HOME" > {tree.parent}/home\n')
    _rendered()
    lines = [line for line in (tree.parent / "env").read_text().splitlines() if "=" in line]
    variables = dict(line.split("=", 1) for line in lines)
    for name in ("PWD", "SHLVL", "_", "OLDPWD"):
        variables.pop(name, None)  # the shell's
    home, temporary = Path(variables.pop("HOME")), Path(variables.pop("TMPDIR"))
    assert variables == {
        "PATH": os.environ["PATH"],
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


def test_tools_and_their_processes_get_limited_memory(tools: Path, tree: Path) -> None:
    _chart(tree)
    limit = tree.parent / "limit"
    _tool(tools, "helm", LIMITED % (limit, limit))
    _rendered()
    assert int(limit.read_text()) <= programs.MEMORY >> 10


@pytest.mark.parametrize("path", [".", "", "{tree}/bin", "{tree}/link", "{outside}"])
def test_no_program_of_the_tree_runs(tree: Path, monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    _chart(tree)
    (tree / "bin").mkdir()
    outside = tree.parent / "outside"
    outside.mkdir()
    for directory in (tree, tree / "bin"):
        _tool(directory, "helm", f"#!/bin/sh\ntouch {tree}/ran\n")
    (tree / "link").symlink_to("bin")
    (outside / "helm").symlink_to(tree / "bin/helm")
    monkeypatch.setenv("PATH", f"{path.format(tree=tree, outside=outside)}:/usr/bin:/bin")
    files, _ = _rendered()
    assert [str(fault) for fault in files.unreadable] == ["diff: helm is only in a checked directory, and not run"]
    assert not (tree / "ran").exists()


@pytest.mark.parametrize("name", ["git", "unshare"])
def test_tools_run_no_program_of_the_tree(tools: Path, tree: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    _chart(tree)
    _tool(tree, name, f"#!/bin/sh\ntouch {tree}/ran\n")
    outside = tree.parent / "outside"
    outside.mkdir()
    (outside / name).symlink_to(tree / name)
    _tool(tools, "helm", "#!/bin/sh\ngit --version >&2\nexit 1\n")
    monkeypatch.setenv("PATH", f"{outside}:{tools}:/usr/bin:/bin")
    assert _rendered()[1]
    assert not (tree / "ran").exists()


@pytest.mark.parametrize(("script", "isolated"), [("exit 1", False), ('shift 3; exec "$@"', True), (None, False)])
def test_tools_run_without_network_if_the_system_allows_it(
    tools: Path, tree: Path, monkeypatch: pytest.MonkeyPatch, script: str | None, isolated: bool
) -> None:
    _chart(tree)
    _tool(tools, "helm", HELM)
    for name in ("cat", "sh", "true", "touch"):
        (tools / name).symlink_to(f"/bin/{name}")
    log = tree.parent / "unshared"
    if script is not None:
        _tool(tools, "unshare", f'#!/bin/sh\necho "$*" >> {log}\n{script}\n')
    monkeypatch.setenv("PATH", str(tools))
    assert _names(_rendered()[0]) == [("charts/shop/(rendered)", "web")], "it renders in each case"
    lines = log.read_text().splitlines() if log.exists() else []
    assert lines[:1] == (["--user --net -- true"] if script is not None else [])
    assert any("/helm template " in line for line in lines) == isolated


TOGETHER = """#!/bin/sh
touch "%s.$(basename "$2")"
for i in $(seq 600); do
    test -e "%s.one" && test -e "%s.two" && exit 0
    sleep 0.05
done
exit 1
"""


def test_charts_are_rendered_at_the_same_time(tools: Path, tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rendering_tools, "cores", lambda: 2)
    _write(tree, {f"{name}/Chart.yaml": "name: a\n" for name in ("one", "two", "zero")})
    _tool(tools, "helm", TOGETHER % ((tree.parent / "log",) * 3))
    assert _rendered()[1] == []


def test_all_output_together_is_limited(tools: Path, tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rendering_tools, "MAX_PARALLEL", 10_000)
    _write(tree, {f"{number}/Chart.yaml": "name: a\n" for number in range(5)})
    _tool(tools, "helm", "#!/bin/sh\nprintf '#%03999d\\n' 0\n")
    _, (failed,) = _rendered()
    assert (failed.file, failed.others) == ("./2/Chart.yaml", ["./3", "./4"])


def test_lint_runs_no_program(tools: Path, tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _chart(tree)
    _write(tree, {"kustomization.yaml": "resources: [pod.yaml]\n", "pod.yaml": POD % ("web", "system-node-critical")})
    for name in ("git", "helm", "kubectl", "kustomize"):
        _tool(tools, name, f"#!/bin/sh\ntouch {tree}/ran\n")
    assert lint.main(["."]) == 0, capsys.readouterr()
    assert not (tree / "ran").exists()
