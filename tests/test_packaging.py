"""The versions that forewarn runs with: what setup.cfg allows, and what is tested."""

import re
from configparser import ConfigParser
from pathlib import Path

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


def test_ci_can_test_every_python_that_setup_cfg_names() -> None:
    versions = re.findall(r"Python :: (3\.\d+)", SETUP["metadata"]["classifiers"])
    assert versions[0] == SETUP["options"]["python_requires"].removeprefix(">=")
    assert len(versions) > 1
    assert "Programming Language :: Python" in Path(".ci/run").read_text(), "CI reads them where they are"
