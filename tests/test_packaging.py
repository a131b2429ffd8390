"""The versions that forewarn runs with: what setup.cfg allows, and what is tested."""

import ast
import re
import subprocess
import sys
from configparser import ConfigParser
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

SETUP = ConfigParser()
SETUP.read("setup.cfg")
RUNTIME = [
    Requirement(line)
    for section, option in (
        ("options", "install_requires"),
        ("options.extras_require", "webhook"),
        ("options.extras_require", "live"),
    )
    for line in SETUP[section][option].split()
]


def pins(path: str) -> dict[str, Version]:
    lines = [line for line in Path(path).read_text().splitlines() if line and not line.startswith("#")]
    return {canonicalize_name(name): Version(version) for name, version in (line.split("==") for line in lines)}


def test_the_oldest_versions_tested_are_the_lower_bounds_of_setup_cfg() -> None:
    bounds = {}
    for requirement in RUNTIME:
        (specifier,) = (each for each in requirement.specifier if each.operator != "<")
        assert specifier.operator == ">=", requirement
        bounds[canonicalize_name(requirement.name)] = Version(specifier.version)
    assert pins("constraints-minimum.txt") == bounds


def test_the_versions_installed_are_allowed_by_setup_cfg() -> None:
    pinned = pins("constraints.txt")
    for requirement in RUNTIME:
        assert pinned[canonicalize_name(requirement.name)] in requirement.specifier, requirement


MINORS = [int(minor) for minor in re.findall(r"Python :: 3\.(\d+)", SETUP["metadata"]["classifiers"])]
OLDEST, NEWEST = MINORS[0], MINORS[-1]


def test_ci_can_test_every_python_that_setup_cfg_names() -> None:
    assert list(range(OLDEST, NEWEST + 1)) == MINORS
    assert SETUP["options"]["python_requires"] == f">=3.{OLDEST},<3.{NEWEST + 1}"
    assert "Programming Language :: Python" in Path(".ci/run").read_text(), "CI reads them where they are"


@pytest.mark.parametrize("path", ["README.md", "docs/get-started/install.md", "CONTRIBUTING.md", "Makefile", ".ci/run"])
def test_texts_name_the_python_versions(path: str) -> None:
    assert f"Python 3.{OLDEST} to 3.{NEWEST}" in Path(path).read_text()


@pytest.mark.parametrize("minor", [OLDEST - 1, NEWEST + 1])
@pytest.mark.parametrize("module", ["forewarn", "forewarn.webhook.commands.kubectl_plugin", "webhook"])
def test_another_python_is_an_error_at_start(module: str, minor: int) -> None:
    start = f"import runpy, sys; sys.version_info = (3, {minor}); runpy.run_module('{module}', run_name='__main__')"
    done = subprocess.run([sys.executable, "-c", start], capture_output=True, text=True, timeout=100)
    assert (done.returncode, done.stdout) == (2, "")
    fault = f"Python 3.{minor} is not supported ({sys.executable})"
    fix = f"use Python 3.{OLDEST} to 3.{NEWEST}, or the container image"
    assert done.stderr == f"forewarn: {fault}. Fix: {fix}\n"


def test_another_python_can_parse_and_import_what_reports_the_error() -> None:
    check = "python_version"
    parsed = ast.parse(Path(f"src/forewarn/{check}.py").read_text(), feature_version=(3, 6))
    assert [type(statement) for statement in parsed.body[1:]] == [ast.Import, ast.If]
    package = ast.parse(Path("src/forewarn/__init__.py").read_text(), feature_version=(3, 6))
    assert ast.unparse(package.body[1]) == f"import forewarn.{check}"
    for path in ("Makefile", "action.yml"):
        assert f"src/forewarn/{check}.py" in Path(path).read_text()
