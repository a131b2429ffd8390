"""The recipes for CI, run as far as they can be without the services: their shell lines, in a tree with manifests."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tarfile
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml

ROOT = Path.cwd()
GOOD = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {priorityClassName: system-node-critical}\n"
BAD = "apiVersion: v1\nkind: Pod\nmetadata: {name: b}\nspec: {priorityClass: gold}\n"
REFUSED = 'unknown field "spec.priorityClass"'


def _recipe(heading: str, page: str = "lint-in-ci.md") -> str:
    """The first code block under a heading of a page of docs/guides."""
    text = (ROOT / "docs/guides" / page).read_text()
    found = re.search(rf"^## {heading}\n(?:(?!##)[^\n]*\n)*?```\w+\n(.*?)```$", text, re.MULTILINE | re.DOTALL)
    assert found
    return found[1]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A directory to lint in."""
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "good.yaml").write_text(GOOD.replace("metadata: {", "metadata: {namespace: kube-system, "))
    return tmp_path / "tree"


@pytest.fixture
def outside(tmp_path: Path) -> dict[str, str]:
    """The environment of a job: `forewarn` is this one, and what pip installs is believed to be it."""
    programs = tmp_path / "bin"
    programs.mkdir()
    lint = f'PYTHONPATH={shlex.quote(str(ROOT))} exec {shlex.quote(sys.executable)} -P -m policies.cli.main "$@"'
    scripts = {"forewarn": lint, "pip": 'test "$*" = "install forewarn @ REPOSITORY_URL/archive/COMMIT.tar.gz"'}
    for name, script in scripts.items():
        (programs / name).write_text(f"#!/bin/sh\n{script}\n")
        (programs / name).chmod(0o755)
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "COV", "GITHUB_", "CI", "PRE_COMMIT"))}
    return {**kept, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}


def _run(script: str, tree: Path, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """As GitHub runs `shell: bash`, which GitLab and Jenkins do in essence: the first line that fails is the last."""
    command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script]
    return subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True, check=False, timeout=300)


def _gitlab_jobs() -> dict[str, dict[str, Any]]:
    """The recipe and the template that can be included."""
    texts = {"recipe": _recipe("GitLab"), "template": (ROOT / "docs/examples/ci/gitlab.yml").read_text()}
    return {name: yaml.safe_load(text)["forewarn"] for name, text in texts.items()}


@pytest.mark.parametrize("name", ["recipe", "template"])
def test_gitlab(name: str, tree: Path, outside: dict[str, str]) -> None:
    job = _gitlab_jobs()[name]
    reports, script = job["artifacts"]["reports"], "\n".join(job["script"])
    variables = outside | job.get("variables", {})
    assert _run(script, tree, variables).returncode == 0
    assert json.loads((tree / reports["codequality"]).read_text()) == []
    (tree / "bad.yaml").write_text(BAD)
    done = _run(script, tree, variables)
    assert (done.returncode, REFUSED in done.stdout) == (1, True)
    (entry,) = json.loads((tree / reports["codequality"]).read_text())
    assert (entry["location"], entry["severity"]) == ({"path": "bad.yaml", "lines": {"begin": 4}}, "major")
    assert len(ElementTree.parse(tree / reports["junit"]).findall(".//failure")) == 1
    assert job["artifacts"]["when"] == "always", "the reports are wanted where the job fails"


def test_the_template_of_gitlab_takes_arguments(tree: Path, outside: dict[str, str]) -> None:
    job = _gitlab_jobs()["template"]
    (tree / "bad.yaml").write_text(BAD)
    given = outside | {"FOREWARN_ARGS": "--exclude bad.yaml ."}
    assert _run("\n".join(job["script"]), tree, given).returncode == 0


def test_every_recipe_says_what_to_replace() -> None:
    """Nothing is published under a name that a stranger could not take."""
    template = (ROOT / "docs/examples/ci/gitlab.yml").read_text()
    for text in (_recipe("GitLab"), template):
        assert "forewarn @ REPOSITORY_URL/archive/COMMIT.tar.gz" in text
    for recipe in (_recipe("pre-commit"), _recipe("Before a commit", "test-a-cluster.md")):
        ((hook,),) = [yaml.safe_load(recipe)]
        assert (hook["repo"], hook["rev"]) == ("REPOSITORY_URL", "COMMIT")
    assert "uses: OWNER/REPOSITORY@COMMIT " in _recipe("GitHub Actions")
    (names,) = re.findall(
        r"^.*replace REPOSITORY_URL.*\n.*$", (ROOT / "docs/guides/lint-in-ci.md").read_text(), re.MULTILINE
    )
    assert {"REPOSITORY_URL", "OWNER/REPOSITORY", "COMMIT"} <= set(re.findall(r"[A-Z_/]{4,}", names))


def test_jenkins(tree: Path, outside: dict[str, str]) -> None:
    recipe = _recipe("Jenkins")
    (script,) = re.findall(r"\bsh '([^']*)'", recipe)
    (report,) = re.findall(r"\bjunit '([^']*)'", recipe)
    assert "always" in recipe
    assert _run(script, tree, outside).returncode == 0
    (tree / "bad.yaml").write_text(BAD)
    assert _run(script, tree, outside).returncode == 1
    suites = ElementTree.parse(tree / report).getroot()
    assert {element.tag for element in suites.iter()} <= {
        "testsuites", "testsuite", "testcase", "failure", "system-out",
    }  # fmt: skip
    assert "file" not in suites.findall(".//testcase")[0].attrib, "Jenkins' schema has no such attribute"


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the tests have installed, but for forewarn."""
    directory = tmp_path_factory.mktemp("libraries")
    for path in Path(sysconfig.get_path("purelib")).iterdir():
        if not path.name.lstrip("_").startswith(("forewarn", "editable")):
            (directory / path.name).symlink_to(path)
    return directory


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what is published, to be built in."""
    ignored = shutil.ignore_patterns(".git", ".cache", ".venv", "tests", "docs", "*.egg-info", "__pycache__", "build")
    return Path(shutil.copytree(ROOT, tmp_path_factory.mktemp("action") / "checkout", ignore=ignored))


# pip reads 0 as the option being given.
OFFLINE = {"PIP_NO_INDEX": "1", "PIP_NO_DEPS": "1", "PIP_NO_BUILD_ISOLATION": "0", "PIP_NO_COMPILE": "0"}


def test_gitlab_installs_an_archive_in_an_image_without_git(tmp_path: Path, checkout: Path, libraries: Path) -> None:
    """With nothing on the PATH but Python and pip."""
    (tmp_path / "archive").mkdir()
    with tarfile.open(tmp_path / "archive/COMMIT.tar.gz", "w:gz", compresslevel=1) as archive:
        archive.add(checkout, "forewarn-COMMIT")
    image = [sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "image")]
    subprocess.run(image, check=True, timeout=500)
    pip = tmp_path / "image/bin/pip"
    pip.write_text(f'#!/bin/sh\nexec {shlex.quote(f"{tmp_path}/image/bin/python")} -m pip "$@"\n')
    pip.chmod(0o755)
    scripts = [job["script"] for job in _gitlab_jobs().values()]
    (install,) = {line for script in scripts for line in script if line.startswith("pip install ")}
    command = shlex.split(install.replace("REPOSITORY_URL", tmp_path.as_uri()))
    environment = {**OFFLINE, "PATH": str(tmp_path / "image/bin"), "PYTHONPATH": str(libraries), "HOME": str(tmp_path)}
    command[0] = shutil.which(command[0], path=environment["PATH"]) or ""
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=500)
    assert done.returncode == 0, done.stderr
    (tmp_path / "good.yaml").write_text(GOOD.replace("metadata: {", "metadata: {namespace: kube-system, "))
    linted = [str(tmp_path / "image/bin/forewarn"), "lint", "good.yaml"]
    assert subprocess.run(linted, env=environment, cwd=tmp_path, check=False, timeout=500).returncode == 0


@pytest.fixture(scope="module")
def action() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text())
    return loaded


def _action_python(programs: Path, libraries: Path) -> None:
    """`python3` as on a runner, but that an environment that it makes has what the action would fetch."""
    (programs / "forewarn").unlink()
    packages = 'for directory; do :; done; for packages in "$directory"/lib/python*/site-packages'
    link = f'echo {shlex.quote(str(libraries))} > "$packages/libraries.pth"; rm -rf "$packages"/setuptools*'
    (programs / "python3").write_text(
        f"""#!/bin/sh
{shlex.quote(sys.executable)} "$@" || exit
case "$*" in *"-m venv "*) {packages}; do {link}; done;; esac
"""
    )
    (programs / "python3").chmod(0o755)


def _without_installation(script: str, environment: Path) -> str:
    """The script of the action for an environment that it has made."""
    lines = script.splitlines()
    installing = [line for line in lines if line.startswith(("python3 ", '"${pip[@]}" '))]
    assert len(installing) == 4
    made = [f"environment={shlex.quote(str(environment))}" if "mktemp" in line else line for line in lines]
    return "\n".join(line for line in made if line not in installing)


HOSTILE = (
    "venv.py", "ensurepip.py", "pip.py", "sitecustomize.py", "usercustomize.py", "forewarn.py", "forewarn/__init__.py",
    "forewarn/__main__.py", "policies/__init__.py", "webhook/__init__.py", "yaml.py", "numpy.py", "json.py", "os.py",
    "setuptools.py", "backend.py", "encodings/__init__.py", "argparse/__init__.py", "a-1.dist-info/entry_points.txt",
)  # fmt: skip
ENTRY_POINTS = (
    "[forewarn.commands]\nlint = os:abort\n[forewarn.sources]\nlive = os:abort\n[forewarn.plugins]\na = os:abort\n"
    "[forewarn.rules]\ncompany.a = os:abort\n"
)


def _make_hostile(directory: Path, harm: Path) -> None:
    """Give a checkout modules of names that somebody might import there."""
    for name in HOSTILE:
        (directory / name).parent.mkdir(exist_ok=True)
        code = f"import builtins\nbuiltins.open({str(harm)!r}, 'a').write({name!r} + '\\n')\n"
        (directory / name).write_text(code if name.endswith(".py") else ENTRY_POINTS)
    (directory / ".forewarn.yaml").write_text("rules: [company.a]\n")


def test_the_action_installs_itself_lints_and_runs_nothing_of_the_checkout(
    action: dict[str, Any], checkout: Path, libraries: Path, tree: Path, outside: dict[str, str]
) -> None:
    """Without a network: the libraries come from where the tests have them, and nothing but forewarn is installed."""
    tmp_path = tree.parent
    _action_python(tmp_path / "bin", libraries)
    (tmp_path / "temp").mkdir()
    (step,) = action["runs"]["steps"]
    harm = tmp_path / "harm"
    _make_hostile(tree, harm)
    given = {"ACTION": str(checkout), "DIRECTORY": ".", "COMMAND": "lint", "ARGUMENTS": ". -o text", "PIPE": ""}
    inputs = ("working-directory", "command", "args", "pipe")
    contexts = ("github.action_path", *(f"inputs.{name}" for name in inputs))
    assert step["env"] == {name: f"${{{{ {context} }}}}" for name, context in zip(given, contexts, strict=True)}
    environment = outside | OFFLINE | given | {"RUNNER_TEMP": str(tmp_path / "temp")}
    done = _run(step["run"], tree, environment | {"PYTHONPATH": f".:{tree}"})
    assert not harm.exists(), harm.read_text()
    assert (done.returncode, "2 files, 1 object checked" in done.stderr) == (0, True), done.stderr
    (tree / ".forewarn.yaml").unlink()
    (installed,) = (tmp_path / "temp").iterdir()
    _check_arguments(action, _without_installation(step["run"], installed), tree, environment)
    assert not harm.exists(), harm.read_text()


def _check_arguments(action: dict[str, Any], lint: str, tree: Path, environment: dict[str, str]) -> None:
    """They are words, not a script."""
    tmp_path = tree.parent
    (tree / "bad.yaml").write_text(BAD)
    arguments = ". -o text -o github\n  -o sarif=out.sarif\n--ignore pinned-priority "
    environment = environment | {"DIRECTORY": "tree", "GITHUB_ACTIONS": "true"}
    wrong = _run(lint, tmp_path, environment | {"ARGUMENTS": f"{arguments}$(touch harm)\n"})
    said = ("$(touch: no such file" in wrong.stderr, "harm): no such file" in wrong.stderr)
    assert (wrong.returncode, said) == (2, (True, True)), f"{wrong.stderr}{wrong.stdout}"
    assert not (tree / "harm").exists()
    done = _run(lint, tmp_path, environment | {"ARGUMENTS": arguments})
    assert (done.returncode, REFUSED in done.stdout) == (1, True)
    assert "::error file=bad.yaml,line=4," in done.stdout
    assert len(json.loads((tree / "out.sarif").read_text())["runs"][0]["results"]) == 1
    (tree / "bad.yaml").unlink()
    defaults = {name: value["default"] for name, value in action["inputs"].items()}
    environment |= {"ARGUMENTS": defaults["args"], "DIRECTORY": f"tree/{defaults['working-directory']}"}
    assert _run(lint, tmp_path, environment).returncode == 0


def test_the_action_installs_by_hashes_what_the_linter_needs(action: dict[str, Any]) -> None:
    (step,) = action["runs"]["steps"]
    assert "--require-hashes --only-binary :all: -r" in step["run"]
    assert "--no-index --no-build-isolation" in step["run"]
    locked = (ROOT / "requirements-lint.txt").read_text().replace("\\\n", " ").splitlines()[1:]
    pinned = {line.split()[0].lower(): line.count("--hash=sha256:") for line in locked}
    constraints = (ROOT / "constraints.txt").read_text().lower().split()
    assert pinned.keys() <= set(constraints)
    assert {name.partition("==")[0] for name in pinned} == {"pyyaml", "numpy", "setuptools"}
    assert all(pinned.values())
    image = (ROOT / "requirements-image.txt").read_text().replace("\\\n", " ").splitlines()
    assert {line for line in locked if not line.startswith("setuptools")} <= set(image)


@pytest.mark.parametrize("command", [["forewarn"], [sys.executable, "-I", "-m", "forewarn"]], ids=["script", "module"])
def test_an_installed_command_imports_nothing_of_the_working_directory(command: list[str], tree: Path) -> None:
    """As pre-commit, GitLab and Jenkins run it: `python -m forewarn` without -I would."""
    program = Path(sys.executable).parent / "forewarn"
    if not program.exists():
        pytest.skip("forewarn is not installed")
    _make_hostile(tree, tree.parent / "harm")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "COV"))}
    shown = [str(program) if word == "forewarn" and len(command) == 1 else word for word in command]
    done = subprocess.run(
        [*shown, "lint", "."], cwd=tree, env=kept, capture_output=True, text=True, check=False, timeout=500
    )
    assert (done.returncode, (tree.parent / "harm").exists()) == (0, False), done.stderr


def test_the_workflow_names_inputs_that_the_action_has(action: dict[str, Any]) -> None:
    (job,) = yaml.safe_load(_recipe("GitHub Actions"))["jobs"].values()
    by_name = {step["uses"].partition("@")[0]: step for step in job["steps"]}
    own, upload = by_name["OWNER/REPOSITORY"]["with"], by_name["github/codeql-action/upload-sarif"]
    assert own.keys() <= action["inputs"].keys()
    assert f"sarif={upload['with']['sarif_file']}" in own["args"]
    assert upload["if"] == "always()", "findings end the step before"


GIT = "git -c user.name=a -c user.email=a@b -c init.defaultBranch=main -c core.hooksPath=.git/hooks"


def _with_hook(recipe: str, checkout: Path, libraries: Path, tree: Path, outside: dict[str, str]) -> dict[str, str]:
    """A repository that has the recipe's hook, of the checkout: the environment in which to commit there.

    pre-commit installs a revision of the checkout once for all its hooks.
    """
    own = {"PRE_COMMIT_HOME": str(checkout.parent / "home"), "PYTHONPATH": str(libraries)}
    environment = outside | OFFLINE | own | {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    for directory in (checkout, tree):
        if not (directory / ".git").exists():
            made = _run(f"{GIT} init -q && {GIT} add -f . && {GIT} commit -qm all", directory, environment)
            assert made.returncode == 0, made.stderr
    revision = _run("git rev-parse HEAD", checkout, environment).stdout.strip()
    (repository,) = yaml.safe_load(recipe)
    config = {"repos": [{**repository, "repo": str(checkout), "rev": revision}]}
    (tree / ".pre-commit-config.yaml").write_text(yaml.safe_dump(config))
    command = f"{shlex.quote(sys.executable)} -m pre_commit install && git add ."
    assert _run(command, tree, environment).returncode == 0
    return environment


def test_pre_commit(checkout: Path, libraries: Path, tree: Path, outside: dict[str, str]) -> None:
    """A commit in a repository that has the hook, which pre-commit itself installs; again without a network."""
    environment, git = _with_hook(_recipe("pre-commit"), checkout, libraries, tree, outside), GIT
    (tree / "bad.yaml").write_text(BAD)
    rejected = _run(f"git add bad.yaml && {git} commit -m bad", tree, environment)
    assert rejected.returncode == 1
    assert "./bad.yaml:4:8: error: " in rejected.stderr + rejected.stdout
    (tree / "bad.yaml").write_text(BAD.replace("priorityClass: gold", "nodeName: node"))
    taken = _run(f"git add bad.yaml && {git} commit -m good", tree, environment)
    assert (taken.returncode, "Passed" in taken.stderr + taken.stdout) == (0, True), taken.stderr


PROMISE = (
    "- {{name: no Pod is Pending, expect: {{noPending: {{namespace: {namespace}}}}}, when: {{lost: {{zone: a}}}}}}\n"
)


def test_promises_before_a_commit(checkout: Path, libraries: Path, tree: Path, outside: dict[str, str]) -> None:
    """The same of the hook for promises, with the arguments of its recipe."""
    shutil.copy(ROOT / "docs/examples/whatif/cluster.yaml", tree / "cluster.yaml")
    (tree / "expectations").mkdir()
    (tree / "expectations/shop.yaml").write_text(PROMISE.format(namespace="shop"))
    recipe = _recipe("Before a commit", "test-a-cluster.md").replace("cluster.json.gz", "cluster.yaml")
    environment = _with_hook(recipe, checkout, libraries, tree, outside)
    (tree / "expectations/reports.yaml").write_text(PROMISE.format(namespace="reports"))
    rejected = _run(f"git add expectations && {GIT} commit -m broken", tree, environment)
    assert rejected.returncode == 1
    assert "  no Pod is Pending: " in rejected.stderr + rejected.stdout
    (tree / "expectations/reports.yaml").write_text(PROMISE.format(namespace="shop"))
    taken = _run(f"git add expectations && {GIT} commit -m kept", tree, environment)
    assert (taken.returncode, "Passed" in taken.stderr + taken.stdout) == (0, True), taken.stderr


def test_problem_matchers_find_every_line_of_the_report(tree: Path, outside: dict[str, str]) -> None:
    for case in sorted((ROOT / "tests/policies/cases/lint").glob("*.yaml")):
        (tree / case.name).write_bytes(case.read_bytes())
    done = _run("forewarn lint -v --exit-zero -o text -o json=out.json", tree, outside)
    known: dict[str, list[list[str]]] = {"error": [], "warning": []}
    for matcher in json.loads((ROOT / "docs/examples/ci/problem-matcher.json").read_text())["problemMatcher"]:
        (pattern,) = matcher["pattern"]
        keys = ("file", "line", "column", "code")
        for line in done.stdout.splitlines():
            if match := re.match(pattern["regexp"], line):
                known[matcher["severity"]].append([match[pattern[key]] for key in keys])
    told: dict[str, list[list[str]]] = {"error": [], "warning": []}
    for finding in json.loads((tree / "out.json").read_text())["findings"]:
        severity = "error" if finding["severity"] == "error" else "warning"
        told[severity].append([finding["file"], str(finding["line"]), str(finding["column"]), finding["rule"]])
    assert len(told["error"]) > 20
    assert {key: sorted(found) for key, found in known.items()} == {key: sorted(t) for key, t in told.items()}
