"""What the image and the action are made of: `lock.py lock` writes requirements-image.txt and requirements-lint.txt.

`lock.py wheelhouse DIRECTORY` fetches what is in the image.

`lock.py platform MACHINE` prints the flags by which pip chooses as on that machine.

The versions are those of constraints.txt. A hash stands there for every file that pip would take, on each platform of
the image and by each Python that forewarn runs on, so that nothing else is ever installed.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import tomllib
from configparser import ConfigParser
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parent.parent
LOCK: Final = ROOT / "requirements-image.txt"
LINT_LOCK: Final = ROOT / "requirements-lint.txt"
MACHINES: Final = ("x86_64", "aarch64")
"""linux/amd64 and linux/arm64."""
GLIBC: Final = (17, 24, 26, 27, 28, 31, 34, 35, 36)
"""Minors of glibc that wheels are made for, up to that of the image's Debian 12."""
EXTRAS: Final = ("webhook", "live")
_HEAD: Final = """\
# What an image has beside forewarn itself, with the hashes of its files: `make lock` writes it, by constraints.txt.
"""
_LINT_HEAD: Final = """\
# What the linter needs, and what builds it, with hashes for Linux: action.yml takes it, `make lock` writes it.
"""


def image_python() -> str:
    """The minor of the image's Python."""
    found = re.search(r"^FROM python:(3\.\d+)", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    assert found
    return found[1]


def platform(machine: str, python: str) -> list[str]:
    """Flags that let pip choose wheels for another machine than this one."""
    tags = [f"manylinux_2_{minor}_{machine}" for minor in GLIBC] + [f"manylinux2014_{machine}", f"linux_{machine}"]
    return [
        "--only-binary=:all:",
        f"--python-version={python}",
        "--implementation=cp",
        *(f"--platform={tag}" for tag in tags),
    ]


def pip(*arguments: str) -> None:
    """Run it. Raises CalledProcessError."""
    subprocess.run([sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", *arguments], check=True)


def _wanted(extras: tuple[str, ...]) -> list[str]:
    setup = ConfigParser()
    setup.read(ROOT / "setup.cfg")
    options = [setup["options"]["install_requires"], *(setup["options.extras_require"][extra] for extra in extras)]
    return [line for option in options for line in option.split()]


def _build_requirements() -> list[str]:
    found: list[str] = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]
    return found


def _chosen(machine: str, python: str, wanted: list[str]) -> list[Any]:
    """What pip would install: entries of its report (pip's docs: Installation Report)."""
    with tempfile.TemporaryDirectory() as scratch:
        report = Path(scratch, "report.json")
        where = ["--target", scratch, "--dry-run", "--ignore-installed", "--report", str(report)]
        pip("install", *where, *platform(machine, python), "-c", str(ROOT / "constraints.txt"), *wanted)
        installed: list[Any] = json.loads(report.read_text())["install"]
        return installed


def lock() -> None:
    """Write both files."""
    _lock(LOCK, _HEAD, _wanted(EXTRAS))
    _lock(LINT_LOCK, _LINT_HEAD, [*_wanted(()), *_build_requirements()])


def _lock(path: Path, head: str, wanted: list[str]) -> None:
    setup = ConfigParser()
    setup.read(ROOT / "setup.cfg")
    pythons = re.findall(r"Python :: (3\.\d+)", setup["metadata"]["classifiers"])
    hashes: dict[str, set[str]] = {}
    for python in pythons:
        for machine in MACHINES:
            for entry in _chosen(machine, python, wanted):
                name = f"{entry['metadata']['name']}=={entry['metadata']['version']}"
                hashes.setdefault(name, set()).add(entry["download_info"]["archive_info"]["hashes"]["sha256"])
    lines = [
        " \\\n".join([name, *(f"    --hash=sha256:{digest}" for digest in sorted(hashes[name]))])
        for name in sorted(hashes, key=str.lower)
    ]
    path.write_text(head + "\n".join(lines) + "\n")


def wheelhouse(directory: Path) -> None:
    """Fetch the files for both machines, and put the wheel of forewarn beside them."""
    directory.mkdir(parents=True, exist_ok=True)
    for old in directory.glob("*.whl"):
        old.unlink()
    for machine in MACHINES:
        chosen = platform(machine, image_python())
        pip("download", "--no-deps", "--require-hashes", "-r", str(LOCK), *chosen, "--dest", str(directory))
    pip("wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(directory), str(ROOT))


if __name__ == "__main__":
    if sys.argv[1:] == ["lock"]:
        lock()
    elif sys.argv[1] == "platform":
        print(*platform(sys.argv[2], image_python()))  # noqa: T201
    else:
        wheelhouse(Path(sys.argv[2]))
